//! The comparison of the configuration in force with the one in the file, for the API. The part of
//! the process that reads the file determines the differences.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use rookery_base::{Awaited, Completer, one_shot};

/// A changed key or table of the configuration that needs a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedKey(pub String);

impl fmt::Display for ChangedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has changed: restart the server for it to take effect", self.0)
    }
}

/// A value that differs. Secrets are masked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedValue {
    /// The key with its table.
    pub key: String,
    /// The value that the server uses, as TOML; `None` if there is none.
    pub running: Option<String>,
    /// The value in the file, as TOML; `None` if the file has none.
    pub file: Option<String>,
    /// True if it takes effect only after a restart.
    pub needs_restart: bool,
}

/// All values that differ, by their keys.
#[derive(Debug)]
pub struct ComparedValues {
    /// The file; `None` if there is none and the defaults are compared.
    pub file: Option<PathBuf>,
    /// The values that differ; empty if the server runs with what the file says.
    pub changes: Vec<ChangedValue>,
}

/// A handle on the part that compares.
#[derive(Clone)]
pub struct Comparer(Arc<Compare>);

type Compare = dyn Fn(Completer<Result<ComparedValues, String>>) + Send + Sync;

impl Comparer {
    /// Returns a handle; `compare` may be called from any thread.
    pub fn new(compare: impl Fn(Completer<Result<ComparedValues, String>>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(compare))
    }

    /// Compares the configuration in force with the file. The answer is an error if the file can't
    /// be read, and names the mistake.
    pub(crate) fn compare(&self) -> Awaited<Result<ComparedValues, String>> {
        let (completer, answer) = one_shot();
        (self.0)(completer);
        answer
    }
}

impl fmt::Debug for Comparer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Comparer")
    }
}
