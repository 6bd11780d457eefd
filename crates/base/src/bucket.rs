//! Bounds the rate of events.

/// A bucket that empties with time, kept as one number: the time until which everything that was
/// put in is paid for.
///
/// The unit of time is the caller's, and so is the price: an item with price 10 fills the bucket
/// by 10, which has drained 10 units later. The clock must not go back: nothing would drain until
/// it has caught up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bucket(u64);

impl Bucket {
    /// Returns how full the bucket is: the time until it is empty.
    #[inline]
    pub fn level(&self, now: u64) -> u64 {
        self.0.saturating_sub(now)
    }

    /// Returns the time for which the bucket has been empty, which is 0 while it isn't. Where all
    /// prices are small, that is the time since something was last put in.
    #[inline]
    pub fn idle(&self, now: u64) -> u64 {
        now.saturating_sub(self.0)
    }

    /// Puts something in, and returns how full the bucket is afterwards.
    #[inline]
    pub fn put(&mut self, cost: u64, now: u64) -> u64 {
        self.0 = self.0.max(now).saturating_add(cost);
        self.0 - now
    }

    /// Takes some of the content out again; none if the bucket has been empty since.
    #[inline]
    pub fn give_back(&mut self, cost: u64) {
        self.0 = self.0.saturating_sub(cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_is_gone_after_its_time() {
        let mut bucket = Bucket::default();
        assert_eq!((bucket.put(10, 100), bucket.put(5, 100)), (10, 15));
        assert_eq!((bucket.level(105), bucket.put(1, 105)), (10, 11));
        assert_eq!((bucket.idle(105), bucket.idle(500)), (0, 500 - 116));
        assert_eq!((bucket.level(500), bucket.put(3, 500)), (0, 3), "time that nobody used is gone");
        bucket.give_back(2);
        assert_eq!(bucket.level(500), 1);
        assert_eq!(bucket.put(u64::MAX, 600), u64::MAX - 600, "no sum is too large");
    }
}
