//! A limit on the rate of one direction of a stream.

use rookery_base::Bucket;
use std::time::{Duration, Instant};

/// A bucket for the bytes of a tenth of a second.
#[derive(Debug)]
pub struct RelayPace {
    /// Bytes per second; 0 for no limit.
    rate: u64,
    /// The transferred bytes, as the nanoseconds that they take at the rate.
    gone: Bucket,
    start: Instant,
}

impl RelayPace {
    /// Creates a pace of `rate` bytes per second; 0 for no limit.
    pub fn new(rate: u64, now: Instant) -> Self {
        Self { rate, gone: Bucket::default(), start: now }
    }

    /// Counts transferred bytes. Returns the time to wait before the next transfer.
    pub fn count_transfer(&mut self, bytes: usize, now: Instant) -> Duration {
        if self.rate == 0 {
            return Duration::ZERO;
        }
        let nanos = u128::from(bytes as u64) * 1_000_000_000 / u128::from(self.rate);
        // At a rate of a few bytes per second, a large read would mean a wait of days: an hour is
        // enough.
        let taken = u64::try_from(nanos).unwrap_or(u64::MAX).min(LONGEST_NANOS);
        let now = u64::try_from(now.saturating_duration_since(self.start).as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.gone.put(taken, now)).saturating_sub(BURST)
    }
}

/// The amount that may be transferred at once, as the time that it takes at the rate.
const BURST: Duration = Duration::from_millis(100);
const LONGEST_NANOS: u64 = 3_600_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_takes_its_time() {
        let start = Instant::now();
        let mut pace = RelayPace::new(1000, start);
        assert_eq!(pace.count_transfer(100, start), Duration::ZERO, "a burst");
        assert_eq!(pace.count_transfer(500, start), Duration::from_millis(500));
        assert_eq!(pace.count_transfer(100, start + Duration::from_millis(500)), Duration::from_millis(100));
        assert_eq!(
            pace.count_transfer(100, start + Duration::from_secs(60)),
            Duration::ZERO,
            "time that nobody used is gone"
        );
        assert_eq!(pace.count_transfer(600, start + Duration::from_secs(60)), Duration::from_millis(600));
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        let start = Instant::now();
        assert_eq!(RelayPace::new(0, start).count_transfer(usize::MAX, start), Duration::ZERO);
        assert!(RelayPace::new(1, start).count_transfer(usize::MAX, start) <= Duration::from_nanos(LONGEST_NANOS));
    }
}
