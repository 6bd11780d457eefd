//! Requests of administrators about the process that they administer.

use std::fmt;
use std::sync::{Arc, OnceLock};

use rookery_base::{Awaited, Completer, one_shot};

/// A wish of an administrator for the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// It should stop, as if the operator had told it to.
    Stop,
    /// It should stop and start again.
    Restart,
}

/// The outcome of reading configuration and certificates again: changes that need a restart, a line
/// each, or what is wrong, in which case nothing has changed.
pub type Reloaded = Result<Vec<String>, String>;

/// The program part that runs the shards, as far as modules may tell it something. Clones are
/// handles on the same one.
#[derive(Clone, Default)]
pub struct Process(Arc<Ears>);

#[derive(Default)]
struct Ears {
    wishes: OnceLock<Hear>,
    reloads: OnceLock<Reload>,
}

type Hear = Box<dyn Fn(Wish) + Send + Sync>;
type Reload = Box<dyn Fn(Completer<Reloaded>) + Send + Sync>;

impl Process {
    /// Says who hears of wishes, from any thread. The first one counts.
    pub fn listen(&self, hear: impl Fn(Wish) + Send + Sync + 'static) {
        let _ = self.0.wishes.set(Box::new(hear));
    }

    /// Says who reads configuration and certificates again. The first one counts.
    pub fn reload_by(&self, reload: impl Fn(Completer<Reloaded>) + Send + Sync + 'static) {
        let _ = self.0.reloads.set(Box::new(reload));
    }

    /// Returns whether anybody hears of wishes.
    pub fn listens(&self) -> bool {
        self.0.wishes.get().is_some()
    }

    /// Tells a wish to the part that listens, if there is one.
    pub fn wish(&self, wish: Wish) {
        if let Some(hear) = self.0.wishes.get() {
            hear(wish);
        }
    }

    /// Asks the process to read configuration and certificates again. The answer is abandoned where
    /// nobody does that.
    pub fn reload(&self) -> Awaited<Reloaded> {
        let (completer, answer) = one_shot();
        if let Some(reload) = self.0.reloads.get() {
            reload(completer);
        }
        answer
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Process").field(&self.listens()).finish()
    }
}
