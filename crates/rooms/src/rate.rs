//! Bounds the rate of acts.

use rookery_base::Map;
use rookery_jid::Jid;

/// A bucket that fills at a rate and holds a few seconds' worth.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RoomBucket {
    /// The thousandths that were taken and haven't come back yet.
    taken: u64,
    since: u64,
}

impl RoomBucket {
    /// Takes one, if there is one. `rate` is per second; 0 means no limit.
    pub(crate) fn take(&mut self, rate: u64, unix_ms: u64) -> bool {
        self.take_many(1, rate, unix_ms)
    }

    /// Takes the cost of an act if anything is left: an act that costs more than the whole
    /// bucket happens too, and is paid for before the next.
    pub(crate) fn take_many(&mut self, cost: u64, rate: u64, unix_ms: u64) -> bool {
        if rate == 0 {
            return true;
        }
        self.refill(rate, unix_ms);
        if self.taken >= rate.saturating_mul(BURST_SECONDS * 1000) {
            return false;
        }
        self.taken = self.taken.saturating_add(cost.saturating_mul(1000));
        true
    }

    /// Returns whether the bucket is full again, and can be dropped.
    pub(crate) fn is_full(&mut self, rate: u64, unix_ms: u64) -> bool {
        self.refill(rate, unix_ms);
        rate == 0 || self.taken == 0
    }

    fn refill(&mut self, rate: u64, unix_ms: u64) {
        let refilled = unix_ms.saturating_sub(self.since).saturating_mul(rate);
        self.taken = self.taken.saturating_sub(refilled);
        self.since = self.since.max(unix_ms);
    }
}

/// The rates of accounts that have left: coming back doesn't reset them.
#[derive(Debug, Default)]
pub(crate) struct Former(Map<Jid, (RoomBucket, RoomBucket)>);

impl Former {
    /// Remembers an occupant that leaves, unless its buckets are full again.
    pub(crate) fn leave(
        &mut self,
        mut occupant: (&Jid, RoomBucket, RoomBucket),
        (pace, stir): (u64, u64),
        unix_ms: u64,
    ) {
        let is_rested =
            |one: &mut RoomBucket, other: &mut RoomBucket| one.is_full(pace, unix_ms) && other.is_full(stir, unix_ms);
        if is_rested(&mut occupant.1, &mut occupant.2) {
            return;
        }
        if self.0.len() >= MOST {
            self.0.retain(|_, (one, other)| !is_rested(one, other));
        }
        if self.0.len() < MOST {
            self.0.insert(occupant.0.clone(), (occupant.1, occupant.2));
        }
    }

    /// Returns the buckets of an account that comes back.
    pub(crate) fn come(&mut self, account: &Jid) -> (RoomBucket, RoomBucket) {
        self.0.remove(account).unwrap_or_default()
    }
}

/// The number of seconds whose worth may be taken at once.
const BURST_SECONDS: u64 = 5;
/// The most accounts that a room remembers.
const MOST: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let mut bucket = RoomBucket::default();
        assert_eq!((0..100).filter(|_| bucket.take(2, 1000)).count(), 10);
        assert_eq!((0..100).filter(|_| bucket.take(2, 2500)).count(), 3);
        assert_eq!((0..100).filter(|_| bucket.take(2, 2400)).count(), 0, "a clock that goes back gives nothing");
        assert!((0..1000).all(|_| bucket.take(0, 0)));
        assert!(bucket.take_many(1000, 2, 60_000) && !bucket.take(2, 500_000) && bucket.take(2, 556_000));
        assert!(!bucket.is_full(2, 556_000) && bucket.is_full(2, 600_000));
    }

    #[test]
    fn an_occupant_who_comes_again_is_no_faster() {
        let mut former = Former::default();
        let jid = |number: usize| Jid::parse(&format!("u{number}@x.example")).unwrap();
        let mut tired = RoomBucket::default();
        assert_eq!((0..100).filter(|_| tired.take(2, 1000)).count(), 10);
        former.leave((&jid(0), RoomBucket::default(), tired), (2, 2), 1000);
        let (_, mut stir) = former.come(&jid(0));
        assert!(!stir.take(2, 1000));
        assert!(former.come(&jid(0)).1.take(2, 1000), "nothing is remembered twice");
        (0..2 * MOST).for_each(|number| former.leave((&jid(number), RoomBucket::default(), tired), (2, 2), 1000));
        assert_eq!(former.0.len(), MOST);
        former.leave((&jid(0), tired, RoomBucket::default()), (2, 2), 60_000);
        former.leave((&jid(0), tired, RoomBucket::default()), (2, 2), 1000);
        assert_eq!(former.0.len(), MOST, "an account whose buckets are full again is forgotten");
    }
}
