//! Keeps the stanzas that wait for a remote domain.
//!
//! While there is no connection, one sender may fill at most a quarter of the queue, so that its
//! excess doesn't cause bounces for others. The copies of one stanza, such as a room's message for
//! many occupants there, count as one stanza of the sender, and have a bound of their own: a stanza
//! built once is queued once, with an address for each copy. Once there is a connection, the queue
//! empties with every tick, and only bytes are counted.

use std::collections::VecDeque;

use rookery_fanout::Packet;
use rookery_fanout::multicast::Outgoing;
use rookery_hub::share::{Bounds, Share};

/// Stanzas in the order in which they came.
#[derive(Debug)]
pub(crate) struct Queue {
    waiting: VecDeque<Outgoing>,
    bytes: usize,
    most: Bounds,
    /// The shares of senders, while there is no connection.
    share: Option<Share>,
    /// The number of further copies of stanzas in these shares.
    copies: usize,
}

impl Queue {
    /// Returns an empty queue for a domain that is not connected.
    pub(crate) fn new(most: Bounds) -> Self {
        Self { waiting: VecDeque::new(), bytes: 0, most, share: Some(Share::new(most)), copies: 0 }
    }

    /// Queues a stanza; returns it if there is no room.
    pub(crate) fn push(&mut self, stanza: Outgoing) -> Result<(), Box<Outgoing>> {
        let is_copy = self.waiting.iter().rev().take(FORMS).any(|other| is_same(other.packet(), stanza.packet()));
        let has_room = match &mut self.share {
            Some(_) if is_copy => {
                let fits = self.copies < MOST_COPIES;
                self.copies += usize::from(fits);
                fits
            }
            Some(share) => share.take(stanza.packet()),
            None => self.bytes + size(stanza.packet()) <= self.most.bytes.saturating_mul(WHILE_CONNECTED),
        };
        if !has_room {
            return Err(Box::new(stanza));
        }
        self.bytes += size(stanza.packet());
        self.waiting.push_back(stanza);
        Ok(())
    }

    /// Notes that there is a connection: waiting stanzas are on their way.
    pub(crate) fn connected(&mut self) {
        self.share = None;
    }

    /// Notes that the connection is gone and another one is looked for: queued stanzas keep
    /// waiting, and don't count against the bounds of new ones.
    pub(crate) fn disconnected(&mut self) {
        self.share = Some(Share::new(self.most));
        self.copies = 0;
    }

    /// Puts stanzas that have left once before in front of all others.
    pub(crate) fn put_back(&mut self, stanzas: VecDeque<Outgoing>) {
        for stanza in stanzas.into_iter().rev() {
            self.bytes += size(stanza.packet());
            self.waiting.push_front(stanza);
        }
    }

    /// Renders stanzas until `most` bytes are reached, and returns them. Those with more than
    /// `longest` bytes go to `refused`.
    pub(crate) fn render(
        &mut self,
        most: usize,
        longest: usize,
        out: &mut Vec<u8>,
        mut written: impl FnMut(Outgoing),
        refused: &mut Vec<Outgoing>,
    ) {
        while out.len() < most
            && let Some(stanza) = self.waiting.pop_front()
        {
            self.bytes = self.bytes.saturating_sub(size(stanza.packet()));
            let before = out.len();
            stanza.parts(|part| out.extend_from_slice(part));
            if out.len() - before > longest {
                out.truncate(before);
                refused.push(stanza);
            } else {
                written(stanza);
            }
        }
        if self.waiting.is_empty() {
            self.waiting.shrink_to(KEPT);
        }
    }

    /// Frees the memory of an empty queue.
    pub(crate) fn shrink(&mut self) {
        if self.waiting.is_empty() {
            self.waiting = VecDeque::new();
        }
    }

    /// Takes all waiting stanzas, and starts again without a connection.
    pub(crate) fn take(&mut self) -> VecDeque<Outgoing> {
        let most = self.most;
        std::mem::replace(self, Self::new(most)).waiting
    }

    /// Returns the bytes of the waiting stanzas.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}

/// Returns whether two stanzas are copies of one, which share its bytes.
fn is_same(one: &Packet, other: &Packet) -> bool {
    std::ptr::eq(one.bytes(), other.bytes())
}

/// Returns the bytes that a stanza counts for.
pub(crate) fn size(packet: &Packet) -> usize {
    packet.bytes().len()
}

/// The factor by which the bound grows for a connected domain: a room sends to all of its occupants
/// there in one tick.
pub(crate) const WHILE_CONNECTED: usize = 16;
/// The capacity that an empty queue keeps.
const KEPT: usize = 8;
/// The most copies that wait for a connection, besides the first of each stanza.
pub(crate) const MOST_COPIES: usize = 4000;
/// The number of forms of a stanza that may alternate: a room shows some occupants more than
/// others.
const FORMS: usize = 4;

#[cfg(test)]
mod tests {
    use rookery_jid::Jid;

    use super::*;

    const MOST: Bounds = Bounds { number: 40, bytes: 1 << 20 };

    fn packet(text: &str) -> Packet {
        Packet::from_bytes(format!("<message from='room@muc.example/a'><body>{text}</body></message>").as_bytes())
            .unwrap()
    }

    fn to(number: usize, packet: &Packet) -> Outgoing {
        Outgoing::plain(Jid::parse(&format!("user{number}@far.example/x")).unwrap(), packet.clone())
    }

    fn push_all(queue: &mut Queue, stanzas: impl Iterator<Item = Outgoing>) -> usize {
        stanzas.filter(|stanza| queue.push(stanza.clone()).is_ok()).count()
    }

    #[test]
    fn what_is_said_in_a_large_room_waits_for_all_of_its_occupants() {
        let (mut queue, plain, shown) = (Queue::new(MOST), packet("hi"), packet("hi"));
        let both = |number: usize| to(number, if number.is_multiple_of(3) { &shown } else { &plain });
        assert_eq!(push_all(&mut queue, (0..3000).map(both)), 3000, "in two forms, by turns");
        // Stanzas count for their sender, however many copies they have.
        let others = (0..20).map(|number| to(0, &packet(&number.to_string())));
        assert_eq!(push_all(&mut queue, others), 8, "a quarter of forty with the two");
        let own = Packet::from_bytes(b"<message from='juliet@a.example/x'/>").unwrap();
        assert_eq!(push_all(&mut queue, [to(0, &own)].into_iter()), 1, "others have their share");
    }

    #[test]
    fn copies_are_bounded() {
        let (mut queue, said) = (Queue::new(MOST), packet("hi"));
        assert_eq!(push_all(&mut queue, (0..9000).map(|number| to(number, &said))), MOST_COPIES + 1);
        queue.connected();
        queue.disconnected();
        assert_eq!(push_all(&mut queue, [to(0, &said)].into_iter()), 1);
    }
}
