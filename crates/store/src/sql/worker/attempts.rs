//! The times of attempts to reconnect, or to find a host that can be written to.

use crate::StoreError;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// Attempts to reconnect.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    /// The number of failed attempts in a row.
    pub(super) failures: u32,
    /// The reason why nothing can be written, since the first refusal.
    read_only: Option<StoreError>,
    /// True if all callers have given up waiting for a host that can be written to.
    is_hopeless: bool,
    /// The time of the last attempt to find a host that can be written to.
    looked: Option<Instant>,
}

impl Attempts {
    /// Returns the wait before the next attempt: none before the first, then twice as long each
    /// time, with some randomness, so that many clients don't connect at the same time.
    pub(super) fn delay(&self) -> Duration {
        match self.failures {
            0 if self.read_only.is_some() => jitter(FIRST_DELAY),
            failures => delay_after(failures),
        }
    }

    /// Records that the host can't be written to. Returns whether to look for another one.
    pub(super) fn found_read_only(&mut self, error: &StoreError) -> bool {
        self.read_only.get_or_insert_with(|| error.clone());
        !self.is_hopeless || self.is_time_to_look()
    }

    /// Records that a write succeeded.
    pub(super) fn found_writable(&mut self) {
        (self.read_only, self.is_hopeless) = (None, false);
    }

    /// Returns the error for a caller that has waited too long to write, if no host accepts writes.
    pub(super) fn give_up(&mut self) -> Option<StoreError> {
        self.is_hopeless |= self.read_only.is_some();
        self.read_only.clone()
    }

    /// Returns whether it is time to look for another host.
    pub(super) fn is_time_to_look(&mut self) -> bool {
        let may = self.looked.is_none_or(|looked| looked.elapsed() >= LOOK_AGAIN);
        if may {
            self.looked = Some(Instant::now());
        }
        may
    }
}

/// Returns the wait after this many failed attempts in a row.
pub(in crate::sql) fn delay_after(failures: u32) -> Duration {
    let Some(before) = failures.checked_sub(1) else { return Duration::ZERO };
    jitter((FIRST_DELAY * 2u32.saturating_pow(before.min(16))).min(MOST_DELAY))
}

/// Returns between half of a time and all of it.
pub(super) fn jitter(time: Duration) -> Duration {
    let drawn = RandomState::new().hash_one(()) % 1024;
    time / 2 + time / 2 * drawn as u32 / 1024
}

/// The wait after the first failed attempt.
const FIRST_DELAY: Duration = Duration::from_millis(100);

/// The longest wait.
const MOST_DELAY: Duration = Duration::from_secs(5);

/// The time between two searches for a host that can be written to.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(1);
