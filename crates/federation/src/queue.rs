//! Keeps the stanzas that wait for a remote domain.
//!
//! While there is no connection a sender has a quarter of the queue at most, so that the excess of
//! one doesn't come back to others. Once there is one the queue empties with every tick, and bytes
//! alone are counted.

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
}

impl Queue {
    /// Holds nothing, for a domain that is not connected.
    pub(crate) fn new(most: Bounds) -> Self {
        Self { waiting: VecDeque::new(), bytes: 0, most, share: Some(Share::new(most)) }
    }

    /// Takes a stanza that is to wait; gives it back if there is no room.
    pub(crate) fn push(&mut self, stanza: Outgoing) -> Result<(), Box<Outgoing>> {
        let has_room = match &mut self.share {
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

    /// A connection is there: what waits is on its way.
    pub(crate) fn connected(&mut self) {
        self.share = None;
    }

    /// The connection is gone, and another one is looked for: what waits goes on waiting, and what
    /// comes has its bounds beside that.
    pub(crate) fn disconnected(&mut self) {
        self.share = Some(Share::new(self.most));
    }

    /// Puts stanzas before all that wait: they have left once before.
    pub(crate) fn put_back(&mut self, stanzas: VecDeque<Outgoing>) {
        for stanza in stanzas.into_iter().rev() {
            self.bytes += size(stanza.packet());
            self.waiting.push_front(stanza);
        }
    }

    /// Renders stanzas until `most` bytes are reached, and tells which. Those with more than
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

    /// Keeps no room for stanzas if none wait.
    pub(crate) fn shrink(&mut self) {
        if self.waiting.is_empty() {
            self.waiting = VecDeque::new();
        }
    }

    /// Takes all that waits, and begins again without a connection.
    pub(crate) fn take(&mut self) -> VecDeque<Outgoing> {
        let most = self.most;
        std::mem::replace(self, Self::new(most)).waiting
    }

    /// Returns the bytes of what waits.
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

/// Returns what a stanza counts for.
pub(crate) fn size(packet: &Packet) -> usize {
    packet.bytes().len()
}

/// The factor by which more may wait for a domain that is connected: a room speaks to all of its
/// occupants there in one tick.
pub(crate) const WHILE_CONNECTED: usize = 16;
/// Places that an empty queue keeps.
const KEPT: usize = 8;
