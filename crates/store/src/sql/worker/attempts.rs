//! The times of the attempts to get a connection back.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// Attempts to get a connection back.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    /// Those that failed in a row.
    pub(super) failures: u32,
    /// The time of the last attempt that was made because the host can't be written to.
    looked: Option<Instant>,
}

impl Attempts {
    /// Returns how long to wait before the next attempt if the connection is lost.
    pub(super) fn until_next(&self) -> Option<Duration> {
        (self.failures > 0).then(|| self.delay())
    }

    /// Returns how long to wait before the next attempt: nothing before the first, then twice as long each time, with some chance in
    /// it, so that many don't knock at the same time.
    pub(super) fn delay(&self) -> Duration {
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
