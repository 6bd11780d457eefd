//! Tells operators and their probes when the database takes nothing any more, such as when a disk is full.

use crate::StoreError;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Remembers what keeps the store from writing. The worker notes it, anybody may look.
#[derive(Debug, Default)]
pub(crate) struct Trouble(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    error: Option<StoreError>,
    told: Option<Instant>,
}

impl Trouble {
    /// Returns why the last write failed, if the database was the reason.
    pub(crate) fn get(&self) -> Option<StoreError> {
        self.state().error.clone()
    }

    /// Tells whether an error is of the database, and will come again.
    pub(crate) fn is_of(error: &StoreError) -> bool {
        matches!(error, StoreError::Full(_) | StoreError::ReadOnly(_) | StoreError::Corrupt(_) | StoreError::Io(_))
    }

    /// Notes that a write failed, and returns whether that is a matter of the database. The log has
    /// it at most once a minute: on a disk that is full, a line for each failure would be one more
    /// thing to write.
    pub(crate) fn failed(&self, error: &StoreError) -> bool {
        if !Trouble::is_of(error) {
            return false;
        }
        let mut state = self.state();
        if state.told.is_none_or(|told| told.elapsed() >= PERIOD) {
            state.told = Some(Instant::now());
            tracing::error!(%error, "nothing can be stored; what is there is still read");
        }
        state.error = Some(error.clone());
        true
    }

    /// Notes that something was written.
    pub(crate) fn succeeded(&self) {
        let mut state = self.state();
        if state.error.take().is_some() {
            tracing::info!("the database is written to again");
        }
    }

    /// Locks the state. Nothing panics under the lock.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const PERIOD: Duration = Duration::from_secs(60);
