//! Counts each account's share of the rooms of all shards together, so that no account takes up
//! everything that they share.
//!
//! A room is at its home shard and an account at another, so neither can count by itself. The
//! tables are split and each access is short; users come here when they enter, leave, invite or
//! send requests from outside, never when they speak.

use rookery_base::{Keyed, Map};
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard};

use rookery_base::lock::lock;
use rookery_jid::JidRef;

use super::limits::RoomLimits;
use super::rate::RoomBucket;

/// The shares of all accounts. Clones share the data.
#[derive(Debug, Clone)]
pub(crate) struct RoomHoldings(Arc<HoldingTables>);

#[derive(Debug)]
struct HoldingTables {
    /// Addresses are counted by a hash that outsiders can't predict: a table of addresses would be
    /// larger than everything else.
    hashing: Keyed,
    parts: [Mutex<HoldingPart>; PARTS],
}

#[derive(Debug, Default)]
struct HoldingPart {
    seats: Map<u64, usize>,
    /// The rates of messages that rooms write for an account.
    letters: Paces,
    /// The rates of an account's requests to the service and to rooms that it is not in.
    asked: Paces,
}

/// The rates of one kind of act, by account.
#[derive(Debug, Default)]
struct Paces {
    buckets: Map<u64, RoomBucket>,
    /// The number of buckets at which full ones are dropped.
    sweep_at: usize,
}

impl Paces {
    fn take(&mut self, key: u64, count: u64, rate: u64, time: u64) -> bool {
        if self.buckets.len() >= self.sweep_at.max(SWEEP_FROM) {
            self.buckets.retain(|_, bucket| !bucket.is_full(rate, time));
            self.sweep_at = self.buckets.len() * 2;
        }
        self.buckets.entry(key).or_default().take_many(count, rate, time)
    }
}

impl Default for RoomHoldings {
    fn default() -> Self {
        Self(Arc::new(HoldingTables { hashing: Keyed::default(), parts: std::array::from_fn(|_| Mutex::default()) }))
    }
}

impl RoomHoldings {
    /// Takes one more seat for the account of a session; returns `false` if the account, or its
    /// domain on another server, has as many as it may.
    pub(crate) fn take_seat(&self, session: JidRef<'_>, is_here: bool, limits: &RoomLimits) -> bool {
        let (account, domain) = (session.bare_str(), session.domain());
        if !self.add(account, limits.of_account.seats) {
            return false;
        }
        let may = is_here || self.add(domain, limits.of_domain.seats);
        if !may {
            self.subtract(account);
        }
        may
    }

    /// Gives a seat back.
    pub(crate) fn leave_seat(&self, session: JidRef<'_>, is_here: bool) {
        self.subtract(session.bare_str());
        if !is_here {
            self.subtract(session.domain());
        }
    }

    /// Returns whether an account may have a room write to `count` more users who have not asked
    /// for it. `rate` is per minute.
    pub(crate) fn may_write(&self, account: JidRef<'_>, count: usize, rate: u64, unix_ms: u64) -> bool {
        let (key, mut part) = self.part(account.bare_str());
        part.letters.take(key, count as u64, rate, unix_ms / 60)
    }

    /// Returns whether an account may make one more request to rooms that it is not in. `rate` is
    /// per second.
    pub(crate) fn may_ask(&self, account: JidRef<'_>, rate: u64, unix_ms: u64) -> bool {
        let (key, mut part) = self.part(account.bare_str());
        part.asked.take(key, 1, rate, unix_ms)
    }

    fn add(&self, name: &str, most: usize) -> bool {
        let (key, mut part) = self.part(name);
        let seats = part.seats.entry(key).or_default();
        let may = *seats < most;
        *seats += usize::from(may);
        if *seats == 0 {
            part.seats.remove(&key);
        }
        may
    }

    fn subtract(&self, name: &str) {
        let (key, mut part) = self.part(name);
        let Some(seats) = part.seats.get_mut(&key) else { return };
        debug_assert!(*seats > 0, "a seat is given back once");
        *seats -= 1;
        if *seats == 0 {
            part.seats.remove(&key);
        }
    }

    fn part(&self, name: &str) -> (u64, MutexGuard<'_, HoldingPart>) {
        let key = self.0.hashing.hash_one(name);
        let part = self.0.parts.get(key as usize % PARTS).unwrap_or(&self.0.parts[0]);
        (key, lock(part))
    }
}

const PARTS: usize = 16;
const SWEEP_FROM: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use rookery_jid::Jid;

    #[test]
    fn accounts_that_wrote_long_ago_are_forgotten() {
        let holdings = RoomHoldings::default();
        let jid = |number: u64| Jid::parse(&format!("u{number}@x.example")).unwrap();
        let minute = 60_000;
        assert_eq!((0..50).filter(|_| holdings.may_write(jid(0).as_ref(), 1, 2, minute)).count(), 10);
        for number in 1..40_000 {
            // Each is forgotten half a minute later.
            assert!(holdings.may_write(jid(number).as_ref(), 1, 2, minute + number * 1000));
        }
        let kept: usize = holdings.0.parts.iter().map(|part| part.lock().unwrap().letters.buckets.len()).sum();
        assert!(kept <= PARTS * SWEEP_FROM, "{kept}");
        assert!(holdings.may_write(jid(0).as_ref(), 1, 2, minute * 60));
    }
}
