//! Requests of administrators about the process.

use std::fmt;
use std::sync::{Arc, OnceLock};

use rookery_base::{Awaited, Completer, one_shot};

/// A request of an administrator about the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// To stop, as if the operator had stopped it.
    Stop,
    /// To stop and start again.
    Restart,
}

/// The outcome of reading configuration and certificates again: changes that need a restart, a line
/// each, or the mistake, in which case nothing has changed.
pub type Reloaded = Result<Vec<String>, String>;

/// The part of the process that runs the shards, as far as modules may use it. Clones share it.
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
    /// Sets the function that handles requests, from any thread. Only the first call has an effect.
    pub fn listen(&self, hear: impl Fn(Wish) + Send + Sync + 'static) {
        let _ = self.0.wishes.set(Box::new(hear));
    }

    /// Sets the function that reads configuration and certificates again. Only the first call has
    /// an effect.
    pub fn reload_by(&self, reload: impl Fn(Completer<Reloaded>) + Send + Sync + 'static) {
        let _ = self.0.reloads.set(Box::new(reload));
    }

    /// Returns whether requests are handled.
    pub fn listens(&self) -> bool {
        self.0.wishes.get().is_some()
    }

    /// Passes a request to the handler, if there is one.
    pub fn wish(&self, wish: Wish) {
        if let Some(hear) = self.0.wishes.get() {
            hear(wish);
        }
    }

    /// Asks the process to read configuration and certificates again. Without a handler, the answer
    /// is abandoned.
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
