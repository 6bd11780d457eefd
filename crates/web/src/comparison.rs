//! Compares the configuration in force with the one in the file, for the API; the code that reads
//! the file determines the differences.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use rookery_base::{Awaited, Completer, one_shot};

/// A key, or table, of the configuration that has changed and counts after a restart only.
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
    /// The value by which the server goes, as TOML; `None` if there is none.
    pub running: Option<String>,
    /// The value of the file.
    pub file: Option<String>,
    /// True if a reload doesn't make it count.
    pub needs_restart: bool,
}

/// All values that differ, by their keys.
#[derive(Debug)]
pub struct ComparedValues {
    /// The file, unless there is none and the defaults are compared.
    pub file: Option<PathBuf>,
    /// The values.
    pub changes: Vec<ChangedValue>,
}

/// The way to the part that compares.
#[derive(Clone)]
pub struct Comparer(Arc<Compare>);

type Compare = dyn Fn(Completer<Result<ComparedValues, String>>) + Send + Sync;

impl Comparer {
    /// Makes the way; `compare` may be called from any thread.
    pub fn new(compare: impl Fn(Completer<Result<ComparedValues, String>>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(compare))
    }

    /// Compares the two. The error is what is wrong in the file if it can't be read.
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
