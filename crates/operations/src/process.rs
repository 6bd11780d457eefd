//! Wishes of administrators for the process that they administer.

use std::fmt;
use std::sync::{Arc, OnceLock};

/// A wish of an administrator for the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// It should stop, as if the operator had told it to.
    Stop,
    /// It should stop and start again.
    Restart,
}

/// The program part that runs the shards, as far as modules may tell it something. Clones are
/// handles on the same one.
#[derive(Clone, Default)]
pub struct Process(Arc<OnceLock<Hear>>);

type Hear = Box<dyn Fn(Wish) + Send + Sync>;

impl Process {
    /// Says who hears of wishes, from any thread. The first one counts.
    pub fn listen(&self, hear: impl Fn(Wish) + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(hear));
    }

    /// Returns whether anybody does.
    pub fn listens(&self) -> bool {
        self.0.get().is_some()
    }

    /// Tells a wish to the part that listens, if there is one.
    pub fn wish(&self, wish: Wish) {
        if let Some(hear) = self.0.get() {
            hear(wish);
        }
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Process").field(&self.listens()).finish()
    }
}
