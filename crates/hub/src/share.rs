//! Bounds queues that strangers can fill: in number, in bytes, and for each sender.
//!
//! Stanzas wait for an account or a room while the store is asked. A store that is slow for a
//! minute turns such a queue into memory under others' control, and a queue that one sender has
//! filled turns everybody else away.
//!
//! # Invariants
//!
//! - A queue never holds more than its [`Bounds`] allow. A stanza counts in each queue that it
//!   waits in, though its bytes are shared.
//! - One sender has at most a quarter of a queue, so that a sender who exceeds this affects nobody
//!   else.

use rookery_base::Map;
use std::borrow::Cow;

use rookery_fanout::Packet;

/// The most that may wait in a queue.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Stanzas.
    pub number: usize,
    /// Bytes of stanzas, as they are written without `to`.
    pub bytes: usize,
}

/// Counts the content of a queue.
#[derive(Debug)]
pub struct Share {
    bounds: Bounds,
    all: TakenShares,
    senders: Map<Box<str>, TakenShares>,
}

#[derive(Debug, Default, Clone, Copy)]
struct TakenShares {
    number: usize,
    bytes: usize,
}

impl Share {
    /// Returns a counter of an empty queue.
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, all: TakenShares::default(), senders: Map::default() }
    }

    /// Counts a stanza that is about to wait. Returns `false` if it may not: the queue is full, or
    /// its sender has a quarter of it.
    #[must_use]
    pub fn take(&mut self, packet: &Packet) -> bool {
        self.admit(&sender(packet), packet.bytes().len())
    }

    /// Stops counting a stanza that no longer waits.
    pub fn give_back(&mut self, packet: &Packet) {
        self.remove(&sender(packet), packet.bytes().len());
    }

    /// Counts bytes that are about to wait for a sender, a bare JID. Returns `false` if they may
    /// not.
    #[must_use]
    pub fn take_bytes(&mut self, sender: &str, bytes: usize) -> bool {
        self.admit(sender, bytes)
    }

    /// Stops counting bytes that no longer wait.
    pub fn give_back_bytes(&mut self, sender: &str, bytes: usize) {
        self.remove(sender, bytes);
    }

    /// Counts the content of another queue, which continues waiting in this one.
    pub fn add(&mut self, other: &Self) {
        self.all = self.all.plus(other.all);
        for (sender, taken) in &other.senders {
            let known = self.senders.entry(sender.clone()).or_default();
            *known = known.plus(*taken);
        }
    }

    /// Returns whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.all.number == 0
    }

    fn admit(&mut self, sender: &str, bytes: usize) -> bool {
        let of_one = Bounds { number: self.bounds.number.div_ceil(4), bytes: self.bounds.bytes.div_ceil(4) };
        let known = self.senders.get_mut(sender);
        let taken = known.as_deref().copied().unwrap_or_default().with(bytes);
        let all = self.all.with(bytes);
        if !all.is_within(self.bounds) || !taken.is_within(of_one) {
            return false;
        }
        debug_assert!(self.all.number >= taken.number - 1, "all hold what one does");
        self.all = all;
        match known {
            Some(known) => *known = taken,
            None => drop(self.senders.insert(sender.into(), taken)),
        }
        true
    }

    fn remove(&mut self, sender: &str, bytes: usize) {
        debug_assert!(self.senders.contains_key(sender), "what is given back has its sender's name");
        self.all = self.all.without(bytes);
        if let Some(taken) = self.senders.get_mut(sender) {
            *taken = taken.without(bytes);
            if taken.number == 0 {
                self.senders.remove(sender);
            }
        }
    }
}

impl TakenShares {
    fn with(self, bytes: usize) -> Self {
        Self { number: self.number + 1, bytes: self.bytes.saturating_add(bytes) }
    }

    fn without(self, bytes: usize) -> Self {
        debug_assert!(self.number > 0 && self.bytes >= bytes, "what is given back was taken");
        Self { number: self.number.saturating_sub(1), bytes: self.bytes.saturating_sub(bytes) }
    }

    fn plus(self, other: Self) -> Self {
        Self { number: self.number + other.number, bytes: self.bytes + other.bytes }
    }

    fn is_within(self, bounds: Bounds) -> bool {
        self.number <= bounds.number && self.bytes <= bounds.bytes
    }
}

/// Returns the bare JID that a stanza is from; empty if it has none.
fn sender(packet: &Packet) -> Cow<'_, str> {
    match packet.plain_sender() {
        Some(from) => Cow::Borrowed(from.bare_str()),
        None => Cow::Owned(packet.sender().map(|from| from.as_ref().bare_str().to_owned()).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: Bounds = Bounds { number: 40, bytes: 4000 };

    #[test]
    fn one_sender_leaves_room_for_others() {
        let mut share = Share::new(BOUNDS);
        let admitted = (0..100).filter(|_| share.admit("mallory@example.org", 10)).count();
        assert_eq!(admitted, 10, "a quarter of the number");
        assert!(share.admit("romeo@example.org", 10));
        let mut share = Share::new(BOUNDS);
        assert!(
            share.admit("mallory@example.org", 1000) && !share.admit("mallory@example.org", 1),
            "a quarter of the bytes"
        );
        assert!(share.admit("romeo@example.org", 1000));
    }

    proptest! {
        /// The bounds hold through any changes, and a queue that was emptied counts nothing.
        #[test]
        fn bounds_hold_and_nothing_is_left(steps in prop::collection::vec((0..6_u8, 0..900_usize, any::<bool>()), 0..300)) {
            let mut share = Share::new(BOUNDS);
            let mut waiting: Vec<(String, usize)> = Vec::new();
            for (sender, bytes, comes) in steps {
                let sender = sender.to_string();
                if comes {
                    if share.admit(&sender, bytes) {
                        waiting.push((sender, bytes));
                    }
                } else if !waiting.is_empty() {
                    let (sender, bytes) = waiting.remove(0);
                    share.remove(&sender, bytes);
                }
                prop_assert!(waiting.len() <= BOUNDS.number);
                prop_assert!(waiting.iter().map(|(_, bytes)| bytes).sum::<usize>() <= BOUNDS.bytes);
            }
            for (sender, bytes) in waiting {
                share.remove(&sender, bytes);
            }
            prop_assert!(share.is_empty() && share.senders.is_empty() && share.all.bytes == 0);
        }
    }
}
