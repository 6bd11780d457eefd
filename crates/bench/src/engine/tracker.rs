//! Tracks the stanzas that each receiver got from each sender, and finds those that were lost,
//! duplicated or out of order.

use std::collections::HashMap;

use ahash::RandomState;

/// The position of a stanza among earlier arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrackedArrival {
    /// The first one with its number, with no later one before it.
    InOrder,
    /// The first one with its number, but after a later one.
    Late,
    /// A repetition.
    Again,
}

/// A sender and a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TrackedPair {
    /// The sender's number.
    pub sender: u32,
    /// The receiver's number.
    pub receiver: u32,
}

/// The arrivals at some receivers.
#[derive(Debug, Default)]
pub struct Tracker {
    streams: HashMap<TrackedPair, TrackedStream, RandomState>,
}

/// The result of comparing sent and arrived stanzas.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadTally {
    /// Stanzas that should have arrived.
    pub expected: u64,
    /// The number that did, without repetitions.
    pub delivered: u64,
    /// The number that did not.
    pub lost: u64,
    /// Stanzas with numbers that were never sent.
    pub invented: u64,
}

impl LoadTally {
    /// Adds another tally to this one.
    pub fn add(&mut self, other: &LoadTally) {
        self.expected += other.expected;
        self.delivered += other.delivered;
        self.lost += other.lost;
        self.invented += other.invented;
    }
}

/// The arrived stanzas of one pair.
#[derive(Debug, Default)]
struct TrackedStream {
    /// The number after the highest that has arrived.
    next: u32,
    /// Ascending ranges of numbers below `next` that have not arrived, each as the first number and
    /// the one after the last. There are at most [`GAPS`].
    gaps: Vec<(u32, u32)>,
}

impl Tracker {
    /// Notes an arrival.
    pub fn arrived(&mut self, pair: TrackedPair, sequence: u32) -> TrackedArrival {
        self.streams.entry(pair).or_default().arrived(sequence)
    }

    /// Returns how many of the first `sent` numbers of a pair have arrived, and how many others.
    fn came(&self, pair: TrackedPair, sent: u32) -> (u64, u64) {
        let Some(stream) = self.streams.get(&pair) else { return (0, 0) };
        let below = stream.below(sent);
        (below, stream.below(u32::MAX) - below)
    }
}

/// Compares sent and arrived stanzas. A receiver's arrivals are all in the tracker with the index
/// `receiver % trackers`.
pub fn tally(sent: impl Iterator<Item = (TrackedPair, u32)>, trackers: &[&Tracker]) -> LoadTally {
    let mut tally = LoadTally::default();
    for (pair, count) in sent {
        let tracker = trackers.get(pair.receiver as usize % trackers.len().max(1));
        let (came, invented) = tracker.map_or((0, 0), |tracker| tracker.came(pair, count));
        tally.expected += u64::from(count);
        tally.delivered += came;
        tally.lost += u64::from(count).saturating_sub(came);
        tally.invented += invented;
    }
    tally
}

impl TrackedStream {
    fn arrived(&mut self, sequence: u32) -> TrackedArrival {
        if sequence >= self.next {
            // A peer that leaves out more and more numbers isn't tracked in full: its oldest gaps
            // count as arrived.
            if sequence > self.next {
                if self.gaps.len() >= GAPS {
                    self.gaps.remove(0);
                }
                self.gaps.push((self.next, sequence));
            }
            self.next = sequence.saturating_add(1);
            return TrackedArrival::InOrder;
        }
        let Some(at) = self.gaps.iter().position(|(first, behind)| (*first..*behind).contains(&sequence)) else {
            return TrackedArrival::Again;
        };
        let (first, behind) = self.gaps.remove(at);
        if sequence + 1 < behind {
            self.gaps.insert(at, (sequence + 1, behind));
        }
        if first < sequence {
            self.gaps.insert(at, (first, sequence));
        }
        TrackedArrival::Late
    }

    /// Returns how many numbers below `limit` have arrived.
    fn below(&self, limit: u32) -> u64 {
        let missing = self.gaps.iter().map(|(first, behind)| (*behind).min(limit).saturating_sub(*first));
        u64::from(self.next.min(limit)) - missing.map(u64::from).sum::<u64>()
    }
}

/// The most gaps that are remembered for one pair.
const GAPS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: TrackedPair = TrackedPair { sender: 1, receiver: 4 };

    fn feed(numbers: &[u32]) -> (Tracker, Vec<TrackedArrival>) {
        let mut tracker = Tracker::default();
        let arrivals = numbers.iter().map(|number| tracker.arrived(PAIR, *number)).collect();
        (tracker, arrivals)
    }

    fn tally_of(numbers: &[u32], sent: u32) -> LoadTally {
        let (tracker, _) = feed(numbers);
        tally([(PAIR, sent)].into_iter(), &[&tracker])
    }

    #[test]
    fn order_repetition_and_lateness_are_told_apart() {
        use TrackedArrival::{Again, InOrder, Late};
        let (_, arrivals) = feed(&[0, 1, 1, 5, 3, 3, 2, 4, 4, 5, 6]);
        assert_eq!(arrivals, [InOrder, InOrder, Again, InOrder, Late, Again, Late, Late, Again, Again, InOrder]);
    }

    #[test]
    fn what_is_missing_is_lost() {
        let whole = LoadTally { expected: 6, delivered: 6, ..LoadTally::default() };
        assert_eq!(tally_of(&[0, 1, 2, 3, 4, 5], 6), whole);
        assert_eq!(tally_of(&[5, 4, 3, 2, 1, 0], 6), whole);
        assert_eq!(tally_of(&[1, 2, 5], 8), LoadTally { expected: 8, delivered: 3, lost: 5, invented: 0 });
        assert_eq!(tally_of(&[], 2), LoadTally { expected: 2, lost: 2, ..LoadTally::default() });
        assert_eq!(tally_of(&[0, 7, 9], 2), LoadTally { expected: 2, delivered: 1, lost: 1, invented: 2 });
    }

    #[test]
    fn an_absurd_number_is_survived() {
        let (tracker, _) = feed(&[u32::MAX, 0, u32::MAX]);
        assert_eq!(tally([(PAIR, 1)].into_iter(), &[&tracker]).delivered, 1);
        let numbers: Vec<u32> = (0..20_000).map(|number| number * 2).collect();
        assert_eq!(feed(&numbers).0.streams[&PAIR].gaps.len(), GAPS);
    }

    #[test]
    fn receivers_are_looked_for_in_their_own_tracker() {
        let (even, _) = feed(&[0]);
        let odd = Tracker::default();
        let sent = || [(PAIR, 1), (TrackedPair { sender: 4, receiver: 1 }, 1)].into_iter();
        assert_eq!(tally(sent(), &[&even, &odd]), LoadTally { expected: 2, delivered: 1, lost: 1, invented: 0 });
    }
}
