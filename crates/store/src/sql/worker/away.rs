//! The work of a worker while its database can't be reached or written to: it retries, and refuses
//! operations that have waited too long.

use super::attempts::{LOOK_AGAIN, jitter};
use super::{Portion, Worker};
use crate::StoreError;
use crate::sql::queue::Queued;
use crate::sql::transactions::Transactions;
use std::time::{Duration, Instant};

impl<C: Transactions> Worker<C> {
    /// Runs operations again on another connection, unless they were committed on the lost one: the
    /// transaction with the number `committing` was being committed. Operations that have waited
    /// too long by then are refused.
    pub(super) fn come_back(&mut self, mut operations: Vec<Queued>, error: StoreError, committing: Option<u64>) {
        let mut error = error;
        if matches!(error, StoreError::Lost(_)) {
            self.shared.trouble.lost(self.lane, &error);
        }
        while !operations.is_empty() {
            let back = self.reopen(&operations).and_then(|()| match (self.connection.remote(), committing) {
                (Some(remote), Some(batch)) => remote.has_committed(batch),
                _ => Ok(false),
            });
            match back {
                Ok(is_committed) => {
                    self.is_back();
                    if is_committed {
                        return operations.into_iter().for_each(|queued| queued.operation.tell(None));
                    }
                    self.count(|counts| &counts.retries);
                    return self.again.push_front(Portion { operations, runs: 0, refused: None });
                }
                Err(again) => {
                    self.is_still_away(&again);
                    error = again;
                }
            }
            operations = self.give_up(operations, committing.is_some().then_some(&error));
        }
    }

    /// Returns the time to wait for an operation before there is something else to do.
    pub(super) fn until_next(&mut self) -> Option<Duration> {
        if self.attempts.failures > 0 {
            return Some(self.attempts.delay());
        }
        if self.is_read_only() {
            return Some(LOOK_AGAIN);
        }
        self.connection.remote().is_some().then(|| jitter(QUIET))
    }

    /// Returns whether the host can only be read; its data may be old.
    fn is_read_only(&mut self) -> bool {
        self.connection.remote().is_some_and(|remote| remote.is_read_only())
    }

    /// Reconnects if the host couldn't be written to: that, or another one, may have become the
    /// primary.
    pub(super) fn look_for_another_host(&mut self) {
        if self.is_read_only() && self.attempts.is_time_to_look() {
            self.knock();
        }
    }

    /// Checks whether the database is available although no operation waits for it, and tries to
    /// reconnect if it isn't.
    pub(super) fn look(&mut self) {
        let is_fine = self.attempts.failures == 0 && !self.is_read_only();
        if !(is_fine && self.connection.remote().is_none_or(|remote| remote.ping().is_ok())) {
            self.knock();
        }
    }

    fn knock(&mut self) {
        match self.connection.remote().map_or(Ok(()), |remote| remote.reopen()) {
            Ok(()) => self.is_back(),
            Err(error) => self.is_still_away(&error),
        }
    }

    fn is_back(&mut self) {
        self.shared.trouble.found(self.lane);
        self.attempts.failures = 0;
        self.count(|counts| &counts.reconnects);
    }

    fn is_still_away(&mut self, error: &StoreError) {
        self.attempts.failures = self.attempts.failures.saturating_add(1);
        self.shared.trouble.lost(self.lane, error);
    }

    /// Waits until the next attempt is due, but not beyond the patience of the first operation, and
    /// makes it.
    fn reopen(&mut self, operations: &[Queued]) -> Result<(), StoreError> {
        let patience = operations.iter().filter_map(|queued| queued.until).min();
        let delay = self.attempts.delay();
        let left = patience.map_or(delay, |until| until.saturating_duration_since(Instant::now()));
        std::thread::sleep(delay.min(left));
        self.connection.remote().map_or(Ok(()), |remote| remote.reopen())
    }

    /// Refuses the operations that have waited too long, and returns the others. `unknown` is the
    /// error if their outcome isn't known.
    pub(super) fn give_up(&mut self, operations: Vec<Queued>, unknown: Option<&StoreError>) -> Vec<Queued> {
        if operations.iter().all(|queued| queued.until.is_none()) {
            return operations;
        }
        let now = Instant::now();
        let is_over = |queued: &Queued| queued.until.is_some_and(|until| until <= now);
        let (over, rest): (Vec<_>, Vec<_>) = operations.into_iter().partition(is_over);
        for queued in over {
            self.count(|counts| &counts.given_up);
            let why = unknown.cloned().or_else(|| self.attempts.give_up().filter(|_| queued.operation.writes()));
            queued.operation.tell(Some(why.unwrap_or_else(|| self.shared.trouble.too_late())));
        }
        rest
    }
}

/// The time without an answer of the database after which it is probed.
const QUIET: Duration = Duration::from_secs(5);
