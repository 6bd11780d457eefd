//! How fast something may happen.

/// A bucket that fills at a rate and holds a few seconds' worth.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Bucket {
    /// Thousandths that were taken and have not come back yet.
    taken: u64,
    since: u64,
}

impl Bucket {
    /// Takes one, if there is one. `rate`: per second; 0 means no limit.
    pub(crate) fn take(&mut self, rate: u64, unix_ms: u64) -> bool {
        if rate == 0 {
            return true;
        }
        let refilled = unix_ms.saturating_sub(self.since).saturating_mul(rate);
        self.taken = self.taken.saturating_sub(refilled);
        self.since = self.since.max(unix_ms);
        if self.taken >= rate.saturating_mul(BURST_SECONDS * 1000) {
            return false;
        }
        self.taken = self.taken.saturating_add(1000);
        true
    }
}

/// How many seconds' worth may come at once.
const BURST_SECONDS: u64 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let mut bucket = Bucket::default();
        assert_eq!((0..100).filter(|_| bucket.take(2, 1000)).count(), 10);
        assert_eq!((0..100).filter(|_| bucket.take(2, 2500)).count(), 3);
        assert_eq!((0..100).filter(|_| bucket.take(2, 2400)).count(), 0, "a clock that goes back gives nothing");
        assert!((0..1000).all(|_| bucket.take(0, 0)));
    }
}
