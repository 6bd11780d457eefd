//! How fast the bytes of one direction may go.

use std::time::{Duration, Instant};

/// A bucket that holds what may go in a tenth of a second.
#[derive(Debug)]
pub struct Pace {
    /// Bytes a second; 0 for as many as there are.
    rate: u64,
    /// When all that went would have gone at that rate.
    until: Instant,
}

impl Pace {
    /// `rate`: bytes a second; 0 for as many as there are.
    pub fn new(rate: u64, now: Instant) -> Self {
        Self { rate, until: now }
    }

    /// So many bytes have gone; says how long to wait before the next.
    pub fn went(&mut self, bytes: usize, now: Instant) -> Duration {
        if self.rate == 0 {
            return Duration::ZERO;
        }
        let nanos = u128::from(bytes as u64) * 1_000_000_000 / u128::from(self.rate);
        let taken = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        // A rate of some bytes a second with large reads is hours, not ages: no sum leaves what an instant can be.
        self.until = self.until.max(now).checked_add(taken.min(LONGEST)).unwrap_or(now);
        self.until.saturating_duration_since(now).saturating_sub(BURST)
    }
}

/// What may go at once.
const BURST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_takes_its_time() {
        let start = Instant::now();
        let mut pace = Pace::new(1000, start);
        assert_eq!(pace.went(100, start), Duration::ZERO, "a burst");
        assert_eq!(pace.went(500, start), Duration::from_millis(500));
        assert_eq!(pace.went(100, start + Duration::from_millis(500)), Duration::from_millis(100));
        assert_eq!(pace.went(100, start + Duration::from_secs(60)), Duration::ZERO, "time that nobody used is gone");
        assert_eq!(pace.went(600, start + Duration::from_secs(60)), Duration::from_millis(600));
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        let start = Instant::now();
        assert_eq!(Pace::new(0, start).went(usize::MAX, start), Duration::ZERO);
        assert!(Pace::new(1, start).went(usize::MAX, start) <= LONGEST);
    }
}
