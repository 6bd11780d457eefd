//! The schedule of an open loop: a steady rate, whatever the server does.

use super::run::Window;

/// The times of one thread's sends.
#[derive(Debug, Clone)]
pub struct Pace {
    start: u64,
    until: u64,
    /// The nanoseconds between two sends.
    interval: f64,
    next: u64,
}

impl Pace {
    /// Makes a pace of `rate` sends per second over all threads, whose sends take turns.
    pub fn new(rate: f64, window: Window, thread: usize, threads: usize) -> Pace {
        let interval = threads as f64 * 1e9 / rate.max(1e-6);
        let start = window.start + (interval * thread as f64 / threads as f64) as u64;
        Pace { start, until: window.until, interval, next: 0 }
    }

    /// Returns the time of the next send; `None` when the window is over.
    pub fn upcoming(&self) -> Option<u64> {
        let at = self.start + (self.next as f64 * self.interval) as u64;
        (at < self.until).then_some(at)
    }

    /// Returns the number and the time of the next send, if it is due.
    pub fn take(&mut self, now: u64) -> Option<(u64, u64)> {
        let at = self.upcoming().filter(|at| *at <= now)?;
        self.next += 1;
        Some((self.next - 1, at))
    }
}

/// A simple sequence of pseudo-random numbers, the same in each run.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Returns a sequence that depends on the seed alone.
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// Returns the next number, below `limit`; 0 if that is 0.
    pub fn roll(&mut self, limit: usize) -> usize {
        // The algorithm is splitmix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((value ^ value >> 31) % limit.max(1) as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept_over_threads_and_ends_with_the_window() {
        let window = Window { start: 1_000, measured: 1_000, until: 1_000 + 1_000_000_000 };
        let mut all: Vec<u64> = Vec::new();
        for thread in 0..2 {
            let mut pace = Pace::new(10.0, window, thread, 2);
            assert_eq!(pace.take(999), None);
            while let Some((number, at)) = pace.take(u64::MAX) {
                assert_eq!(number, all.len() as u64 - 5 * thread as u64);
                all.push(at);
            }
            assert_eq!(pace.upcoming(), None);
        }
        all.sort_unstable();
        assert_eq!(all, (0..10).map(|n| 1_000 + n * 100_000_000).collect::<Vec<u64>>());
    }

    #[test]
    fn dice_reach_every_side() {
        let mut dice = Dice::new(1);
        let seen: std::collections::HashSet<usize> = (0..1000).map(|_| dice.roll(6)).collect();
        assert_eq!((seen.len(), dice.roll(0)), (6, 0));
    }
}
