//! Stanzas that a managed session was sent and has not acknowledged, and their count;
//! [`managed`](super::managed) has the operations on them.

use std::collections::VecDeque;

use super::item::{OutboxItem, To};
use crate::link::Link;

/// Holds the stanzas that a managed session was sent.
#[derive(Debug)]
pub(super) struct ManagedQueue {
    /// The sent stanzas, oldest first.
    pub unacked: VecDeque<OutboxItem>,
    /// Rendered bytes of these.
    pub bytes: usize,
    /// The number of sent stanzas.
    pub sent: u32,
    /// Stanzas that the client has although their bytes still count as waiting: the transport takes
    /// long runs as a whole.
    pub ahead: u32,
    /// Items that precede the beginning of the count.
    pub uncounted: usize,
    /// The bounds of these stanzas together with the waiting ones.
    pub bounds: UnackedBounds,
    /// True if a request is open.
    pub asked: bool,
    /// The number of requests so far.
    pub question: u16,
    /// True if the session is in the list of those to be asked later.
    pub asking: bool,
}

/// The bounds of the stanzas that a managed session may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnackedBounds {
    /// The most stanzas that may wait for an acknowledgement.
    pub stanzas: u32,
    /// Rendered bytes.
    pub bytes: u32,
}

/// A session that the driver has to look at later; see
/// [`Outboxes::take_asking`](super::Outboxes::take_asking).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asking {
    /// Something was sent: call [`Outboxes::ask`](super::Outboxes::ask) when it has been quiet for
    /// a moment.
    Later(Link),
    /// A request left, with this number: see [`Outboxes::is_open`](super::Outboxes::is_open).
    Asked(Link, u16),
}

impl ManagedQueue {
    /// Keeps a sent item, if it is a stanza that counts; returns the number of bytes that are no
    /// longer held.
    pub fn was_sent(&mut self, item: OutboxItem, size: usize) -> usize {
        if self.uncounted > 0 {
            self.uncounted -= 1;
            return size;
        }
        if item.to == To::Nobody {
            return size;
        }
        self.sent = self.sent.wrapping_add(1);
        if self.ahead > 0 {
            self.ahead -= 1;
            return size;
        }
        debug_assert!(
            self.unacked.back().is_none_or(|last| last.number != item.number),
            "a stanza is sent once between two resumptions"
        );
        self.unacked.push_back(item);
        self.bytes += size;
        0
    }

    /// Sent stanzas after which an acknowledgement is asked for at once.
    pub const ASK_STANZAS: usize = 20;
    /// Sent bytes after which an acknowledgement is asked for at once.
    const ASK_BYTES: usize = 32 * 1024;

    /// Returns whether an acknowledgement is asked for at once: so many stanzas or bytes were sent,
    /// or half of what the session may hold. A client that reads everything must be able to stay
    /// within its bounds.
    pub fn owes_much(&self) -> bool {
        self.unacked.len() >= Self::ASK_STANZAS.min(self.bounds.stanzas as usize / 2)
            || self.bytes >= Self::ASK_BYTES.min(self.bounds.bytes as usize / 2)
    }

    /// Returns the number of stanzas that the client has acknowledged.
    #[inline]
    pub fn count_acknowledged(&self) -> u32 {
        self.sent.wrapping_sub(self.unacked.len() as u32).wrapping_add(self.ahead)
    }
}
