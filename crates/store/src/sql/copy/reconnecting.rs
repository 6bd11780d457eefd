//! Reconnects when a connection of a copy is lost.

use super::copying::{Copying, UNNUMBERED};
use crate::StoreError;
use crate::sql::queue::Patience;
use crate::sql::worker::attempts::delay_after;
use std::thread;
use std::time::Instant;

/// The attempts to restore a connection.
pub(super) struct Reconnecting {
    use_of_it: UseOfIt,
    /// The number of reconnections in a row without progress.
    fruitless: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum UseOfIt {
    Reads,
    Writes,
}

impl Reconnecting {
    /// Returns the attempts for a connection that reads in one transaction. A reconnection begins
    /// another transaction, which shows another moment.
    pub(super) fn to_read() -> Reconnecting {
        Reconnecting { use_of_it: UseOfIt::Reads, fruitless: 0 }
    }

    /// Returns the attempts for a connection that writes. A transaction that may have been lost is
    /// repeated, as far as its rows aren't there.
    pub(super) fn to_write() -> Reconnecting {
        Reconnecting { use_of_it: UseOfIt::Writes, fruitless: 0 }
    }

    /// Notes progress.
    pub(super) fn advance(&mut self) {
        self.fruitless = 0;
    }

    /// Repeats work that may be done twice, until it succeeds.
    ///
    /// # Errors
    ///
    /// Those of [`come_back`](Reconnecting::come_back).
    pub(super) fn persist<T>(
        &mut self,
        c: &mut dyn Copying,
        mut attempt: impl FnMut(&mut dyn Copying) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        loop {
            match attempt(c) {
                Err(error) => self.come_back(c, error)?,
                done => {
                    self.advance();
                    return done;
                }
            }
        }
    }

    /// Reconnects after an error that will pass, with the patience of a command. A transaction that
    /// was being committed on the lost connection is over afterwards, either way.
    ///
    /// # Errors
    ///
    /// The error itself if it won't pass, or occurred again and again; the last one if the
    /// connection can't be restored.
    pub(super) fn come_back(&mut self, c: &mut dyn Copying, error: StoreError) -> Result<(), StoreError> {
        c.rollback();
        if c.remote().is_none() || !passes(&error) || self.fruitless >= MOST_FRUITLESS {
            return Err(error);
        }
        let until = Instant::now() + Patience::of_commands().other;
        let (mut failures, mut error) = (self.fruitless, error);
        self.fruitless += 1;
        loop {
            thread::sleep(delay_after(failures));
            failures += 1;
            match self.reopen(c, &error) {
                Err(again) if passes(&again) && Instant::now() < until => error = again,
                outcome => return outcome,
            }
        }
    }

    fn reopen(&self, c: &mut dyn Copying, before: &StoreError) -> Result<(), StoreError> {
        let Some(remote) = c.remote() else { return Err(before.clone()) };
        remote.reopen()?;
        match self.use_of_it {
            UseOfIt::Reads => c.begin_read(),
            UseOfIt::Writes if remote.is_read_only() => Err(before.clone()),
            // Waits for a transaction that is still being committed. The rows show how far the copy
            // is.
            UseOfIt::Writes => remote.has_committed(UNNUMBERED).map(drop),
        }
    }
}

/// Returns whether the database was only unavailable, or others interfered.
fn passes(error: &StoreError) -> bool {
    matches!(error, StoreError::Lost(_) | StoreError::ReadOnly(_) | StoreError::Locked(_) | StoreError::Conflict(_))
}

/// The number of reconnections in a row without progress after which another one is pointless.
const MOST_FRUITLESS: u32 = 20;
