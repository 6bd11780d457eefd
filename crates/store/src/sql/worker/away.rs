//! What a worker does while its database is away: it knocks again and again, and refuses those who have waited for too long.

use super::{Portion, Worker};
use crate::StoreError;
use crate::sql::queue::Queued;
use crate::sql::transactions::Transactions;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// How a connection that is lost comes back.
#[derive(Debug, Default)]
pub(super) struct Away {
    /// Attempts that failed in a row.
    failures: u32,
    /// The time of the last attempt that was made because the host can't be written to.
    looked: Option<Instant>,
}

impl Away {
    /// Returns how long to wait before the next attempt if the connection is lost.
    pub(super) fn until_next(&self) -> Option<Duration> {
        (self.failures > 0).then(|| self.delay())
    }

    /// Returns how long to wait before the next attempt: nothing before the first, then twice as long each time, with some chance in
    /// it, so that many don't knock at the same time.
    fn delay(&self) -> Duration {
        let Some(before) = self.failures.checked_sub(1) else { return Duration::ZERO };
        jitter((FIRST_DELAY * 2u32.saturating_pow(before.min(16))).min(MOST_DELAY))
    }

    /// Returns whether it is time to look whether another host can be written to.
    pub(super) fn may_look_for_another_host(&mut self) -> bool {
        let may = self.looked.is_none_or(|looked| looked.elapsed() >= LOOK_AGAIN);
        if may {
            self.looked = Some(Instant::now());
        }
        may
    }
}

impl<C: Transactions> Worker<C> {
    /// Runs operations again on another connection, unless they were committed on the lost one: the transaction with the number `committing` had been
    /// told to. Those that have waited for too long meanwhile are told so.
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

    /// Makes an attempt although nobody waits.
    pub(super) fn knock(&mut self) {
        match self.connection.remote().map_or(Ok(()), |remote| remote.reopen()) {
            Ok(()) => self.is_back(),
            Err(error) => self.is_still_away(&error),
        }
    }

    fn is_back(&mut self) {
        self.away.failures = 0;
        self.shared.trouble.found(self.lane);
        self.count(|counts| &counts.reconnects);
    }

    fn is_still_away(&mut self, error: &StoreError) {
        self.away.failures = self.away.failures.saturating_add(1);
        self.shared.trouble.lost(self.lane, error);
    }

    /// Waits until it is time for an attempt, but not beyond the patience of the first, and makes it.
    fn reopen(&mut self, operations: &[Queued]) -> Result<(), StoreError> {
        let patience = operations.iter().filter_map(|queued| queued.until).min();
        let delay = self.away.delay();
        let left = patience.map_or(delay, |until| until.saturating_duration_since(Instant::now()));
        std::thread::sleep(delay.min(left));
        self.connection.remote().map_or(Ok(()), |remote| remote.reopen())
    }

    /// Tells those who have waited for too long, and returns the others. Whether they were committed is known, unless there is an error that says
    /// so.
    pub(super) fn give_up(&mut self, operations: Vec<Queued>, unknown: Option<&StoreError>) -> Vec<Queued> {
        if operations.iter().all(|queued| queued.until.is_none()) {
            return operations;
        }
        let now = Instant::now();
        let is_over = |queued: &Queued| queued.until.is_some_and(|until| until <= now);
        let (over, rest): (Vec<_>, Vec<_>) = operations.into_iter().partition(is_over);
        for queued in over {
            self.count(|counts| &counts.given_up);
            queued.operation.tell(Some(unknown.cloned().unwrap_or(StoreError::Busy)));
        }
        rest
    }
}

/// Returns between half of a time and all of it.
pub(super) fn jitter(time: Duration) -> Duration {
    let drawn = RandomState::new().hash_one(()) % 1024;
    time / 2 + time / 2 * drawn as u32 / 1024
}

/// How long to wait after the first attempt that fails.
const FIRST_DELAY: Duration = Duration::from_millis(100);

/// How long to wait at most.
const MOST_DELAY: Duration = Duration::from_secs(5);

/// How long not to look for a host that can be written to after one was looked for.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
