//! Measures the duration of waits, and what those for the store consist of.

use std::cell::Cell;
use std::fmt;
use std::ops::AddAssign;
use std::time::{Duration, Instant};

/// The start of a wait.
#[derive(Debug, Clone, Copy)]
pub struct Since(Instant);

impl Since {
    /// Returns the moment of the call.
    pub fn now() -> Self {
        Self(Instant::now())
    }

    /// Returns the time since the start of the wait.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// The parts of waits for operations of the store. Each part is at most 71 minutes.
///
/// The store runs on threads of its own, and what waits there only gets an answer. So the parts
/// travel with the answer, and the future gives them to the thread that polls it, which takes them
/// at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WaitParts {
    operations: u32,
    queued_us: u32,
    ran_us: u32,
    committed_us: u32,
}

impl WaitParts {
    /// Returns the parts of an operation that was in the queue for a time before it ran.
    pub fn of_queue(time: Duration) -> Self {
        Self { operations: 1, queued_us: microseconds(time), ..Self::default() }
    }

    /// Adds the time of the operation itself. It may run several times.
    pub fn add_run(&mut self, time: Duration) {
        self.ran_us = self.ran_us.saturating_add(microseconds(time));
    }

    /// Adds the time of a commit, which several operations may share.
    pub fn add_commit(&mut self, time: Duration) {
        self.committed_us = self.committed_us.saturating_add(microseconds(time));
    }

    /// Gives the parts to this thread, in addition to those that it hasn't taken.
    pub fn give(self) {
        let mut all = GIVEN.get();
        all += self;
        GIVEN.set(all);
    }

    /// Takes the parts that this thread was given.
    #[inline]
    pub fn take() -> Self {
        GIVEN.take()
    }

    /// Returns the reason for a wait of this length, in words.
    pub fn reason(self, waited: Duration) -> String {
        if self.operations == 0 {
            return "for the store".to_owned();
        }
        let known = [self.queued_us, self.ran_us, self.committed_us].map(u64::from).into_iter().sum();
        let rest = waited.saturating_sub(Duration::from_micros(known)).as_millis();
        // Others of the same transaction, further attempts, and the way back to the shard.
        let rest = if rest > 0 { format!(", {rest} ms for all else") } else { String::new() };
        format!("{self}{rest}")
    }
}

impl fmt::Display for WaitParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [queued, ran, committed] = [self.queued_us, self.ran_us, self.committed_us].map(|us| us / 1000);
        let ran_what = match self.operations {
            1 => "the operation itself".to_owned(),
            many => format!("{many} operations themselves"),
        };
        write!(f, "{queued} ms in the queue of the store, {ran} ms for {ran_what}, {committed} ms for the commit")
    }
}

impl AddAssign for WaitParts {
    fn add_assign(&mut self, other: Self) {
        self.operations = self.operations.saturating_add(other.operations);
        self.queued_us = self.queued_us.saturating_add(other.queued_us);
        self.ran_us = self.ran_us.saturating_add(other.ran_us);
        self.committed_us = self.committed_us.saturating_add(other.committed_us);
    }
}

fn microseconds(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

thread_local! {
    /// The parts that the futures polled on this thread have given, and nobody has taken.
    static GIVEN: Cell<WaitParts> = const { Cell::new(WaitParts { operations: 0, queued_us: 0, ran_us: 0, committed_us: 0 }) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_several_operations_add_up_and_are_taken_once() {
        let ms = Duration::from_millis;
        let mut parts = WaitParts::of_queue(ms(400));
        parts.add_run(ms(180));
        parts.add_commit(ms(3));
        parts.give();
        assert_eq!(
            parts.reason(ms(583)),
            "400 ms in the queue of the store, 180 ms for the operation itself, 3 ms for the commit"
        );
        WaitParts::of_queue(ms(100)).give();
        let all = WaitParts::take();
        assert_eq!(
            all.reason(ms(690)),
            "500 ms in the queue of the store, 180 ms for 2 operations themselves, 3 ms for the commit, 7 ms for all else"
        );
        assert_eq!(
            (WaitParts::take(), WaitParts::take().reason(ms(1))),
            (WaitParts::default(), "for the store".into())
        );
    }
}
