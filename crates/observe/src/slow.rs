//! Events that took longer than they should: the newest of the process, and the number of each
//! kind.
//!
//! There is one ring for the process, since slowness concerns several of its parts: a tick of a
//! shard, an operation of the store, a stream to another server. Each time that is looked at here
//! is measured for another reason as well, or is far longer than a reading of the clock. A fast
//! event costs a comparison with a number that hardly ever changes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::bound::{Bound, Most, Per, Unit};

/// The kinds of slow events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Slow {
    /// A shard took long until it looked at its connections again.
    Tick,
    /// A letter waited long in the mailbox of a shard.
    Mailbox,
    /// An operation of the store took long.
    Store,
    /// A transaction waited long until the disk, or the database, had it.
    Commit,
    /// A part of the server waited long for the store, including queue and commit.
    Wait,
    /// A login took long, from the query for the account to its end.
    Login,
    /// The search for another server and its stream took long, successful or not.
    Stream,
}

impl Slow {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Tick, Self::Mailbox, Self::Store, Self::Commit, Self::Wait, Self::Login, Self::Stream];

    /// Returns the word for the kind in lists and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tick => "tick",
            Self::Mailbox => "mailbox",
            Self::Store => "store",
            Self::Commit => "commit",
            Self::Wait => "wait",
            Self::Login => "login",
            Self::Stream => "stream",
        }
    }

    /// Returns the factor of the limit for this kind: clients and other servers are far away.
    fn times(self) -> u64 {
        match self {
            Self::Tick | Self::Mailbox | Self::Store | Self::Commit | Self::Wait => 1,
            Self::Login | Self::Stream => AFAR,
        }
    }
}

/// An event that took longer than the limit for its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowEvent {
    /// The time of its end, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The kind of the event, which decides its limit.
    pub kind: Slow,
    /// The time that it took.
    pub lasted: Duration,
    /// The work that was slow: an operation, a module, a mechanism.
    pub what: String,
    /// The account, domain or shard that the event concerns; empty if there is none in particular.
    pub whose: String,
    /// The reason as far as it is known.
    pub why: String,
}

/// The slow events of a process.
#[derive(Debug)]
pub struct SlowRing {
    /// The time from which an event is slow, in milliseconds.
    limit_ms: AtomicU64,
    counts: [AtomicU64; Slow::ALL.len()],
    newest: Mutex<NewestSlow>,
}

/// The newest events, oldest first, each with its number, and the total number of events.
#[derive(Debug)]
struct NewestSlow {
    events: VecDeque<(u64, SlowEvent)>,
    total: u64,
}

impl NewestSlow {
    /// Makes room for another event. The oldest of the most frequent kind goes: when everything
    /// waits for one slow operation, the waits of a second would displace the operation itself.
    fn make_room(&mut self) {
        let mut counts = [0_usize; Slow::ALL.len()];
        for (_, event) in &self.events {
            counts[event.kind as usize] += 1;
        }
        let most = counts.iter().copied().max();
        let place = self.events.iter().position(|(_, event)| Some(counts[event.kind as usize]) == most);
        self.events.remove(place.unwrap_or_default());
    }
}

impl Default for SlowRing {
    fn default() -> Self {
        Self::new()
    }
}

impl SlowRing {
    /// Returns a ring without events.
    pub const fn new() -> Self {
        Self {
            limit_ms: AtomicU64::new(LIMIT_MS),
            counts: [const { AtomicU64::new(0) }; Slow::ALL.len()],
            newest: Mutex::new(NewestSlow { events: VecDeque::new(), total: 0 }),
        }
    }

    /// Sets the time from which an event is slow, in milliseconds; 0 for never.
    pub fn set_limit_ms(&self, limit_ms: u64) {
        self.limit_ms.store(limit_ms, Ordering::Relaxed);
    }

    /// Returns the time from which an event is slow, in milliseconds; 0 for never.
    pub fn limit_ms(&self) -> u64 {
        self.limit_ms.load(Ordering::Relaxed)
    }

    /// Returns whether an event of this kind and duration is slow.
    #[inline]
    pub fn is_slow(&self, kind: Slow, lasted: Duration) -> bool {
        let limit_ms = self.limit_ms.load(Ordering::Relaxed);
        limit_ms > 0 && lasted >= Duration::from_millis(limit_ms.saturating_mul(kind.times()))
    }

    /// Adds an event if it is slow. Only then are the texts for what, whose and why made.
    #[inline]
    pub fn note(&self, kind: Slow, lasted: Duration, words: impl FnOnce() -> (String, String, String)) {
        if self.is_slow(kind, lasted) {
            self.add(kind, lasted, words());
        }
    }

    #[cold]
    fn add(&self, kind: Slow, lasted: Duration, (what, whose, why): (String, String, String)) {
        if let Some(count) = self.counts.get(kind as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let [what, whose, why] = [what, whose, why].map(cut);
        let event = SlowEvent { unix_ms, kind, lasted, what, whose, why };
        let mut newest = self.lock();
        if newest.events.len() >= MOST_EVENTS {
            newest.make_room();
        }
        let number = newest.total;
        newest.events.push_back((number, event));
        newest.total += 1;
    }

    /// Returns the newest events, oldest first.
    pub fn newest(&self) -> Vec<SlowEvent> {
        self.lock().events.iter().map(|(_, event)| event.clone()).collect()
    }

    /// Returns the events that are still kept, without the first `seen` events of the process,
    /// oldest first; and the number of all events.
    pub fn since(&self, seen: u64) -> (Vec<SlowEvent>, u64) {
        let newest = self.lock();
        let new = newest.events.iter().filter(|(number, _)| *number >= seen).map(|(_, event)| event.clone());
        (new.collect(), newest.total)
    }

    /// Returns how many events there were since the start, by kind.
    pub fn counts(&self) -> impl Iterator<Item = (Slow, u64)> {
        Slow::ALL.into_iter().zip(self.counts.iter().map(|count| count.load(Ordering::Relaxed)))
    }

    /// Locks the list. No code under the lock can panic halfway.
    fn lock(&self) -> MutexGuard<'_, NewestSlow> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the ring of this process.
pub fn slow() -> &'static SlowRing {
    static RING: SlowRing = SlowRing::new();
    &RING
}

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MOST_TEXT));
    text
}

/// The default for the time from which an event is slow, in milliseconds.
pub const LIMIT_MS: u64 = 100;
/// The factor of the limit for events that wait for a client or another server.
pub const AFAR: u64 = 10;
/// The most events that are kept, of all kinds.
pub const MOST_EVENTS: usize = 256;
/// The most bytes of each text of an event.
const MOST_TEXT: usize = 512;

/// The bounds of this module for the page of limits.
pub const BOUNDS: &[Bound] =
    &[Bound::on("slow events in memory", Per::Server, Most::Fixed(MOST_EVENTS as u64), Unit::Number)
        .or("the oldest are gone")];

#[cfg(test)]
mod tests {
    use super::*;

    fn note(ring: &SlowRing, kind: Slow, ms: u64) {
        ring.note(kind, Duration::from_millis(ms), || ("a".repeat(MOST_TEXT + 1), ms.to_string(), String::new()));
    }

    #[test]
    fn what_took_long_is_kept_and_counted() {
        let ring = SlowRing::new();
        note(&ring, Slow::Tick, LIMIT_MS - 1);
        note(&ring, Slow::Login, LIMIT_MS);
        assert_eq!(ring.newest(), []);
        note(&ring, Slow::Tick, LIMIT_MS);
        note(&ring, Slow::Login, AFAR * LIMIT_MS);
        let kinds: Vec<_> = ring.newest().iter().map(|event| (event.kind, event.what.len())).collect();
        assert_eq!(kinds, [(Slow::Tick, MOST_TEXT), (Slow::Login, MOST_TEXT)]);
        let counts: Vec<_> = ring.counts().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counts, [(Slow::Tick, 1), (Slow::Login, 1)]);
    }

    #[test]
    fn a_frequent_kind_displaces_no_other() {
        let ring = SlowRing::new();
        note(&ring, Slow::Store, 1000);
        let seen = ring.since(0).1;
        (0..2 * MOST_EVENTS as u64).for_each(|at| note(&ring, Slow::Wait, 2000 + at));
        let (newest, new) = (ring.newest(), ring.since(seen).0);
        assert_eq!((newest.len(), newest[0].kind, newest[1].whose.as_str()), (MOST_EVENTS, Slow::Store, "2257"));
        assert_eq!((new.len(), new[0].kind), (MOST_EVENTS - 1, Slow::Wait), "an event is new once");
    }

    #[test]
    fn the_newest_stay_and_nothing_is_slow_without_a_limit() {
        let ring = SlowRing::new();
        (0..MOST_EVENTS as u64 + 5).for_each(|at| note(&ring, Slow::Store, 1000 + at));
        let newest = ring.newest();
        assert_eq!((newest.len(), newest[0].whose.as_str()), (MOST_EVENTS, "1005"));
        let total = MOST_EVENTS as u64 + 5;
        let whose = |seen| ring.since(seen).0.first().map(|event| event.whose.clone());
        assert_eq!((whose(total), whose(total - 1), whose(0)), (None, Some("1260".into()), Some("1005".into())));
        assert_eq!(ring.since(total).1, total);
        ring.set_limit_ms(0);
        note(&ring, Slow::Store, u64::MAX);
        assert_eq!(ring.newest(), newest);
    }
}
