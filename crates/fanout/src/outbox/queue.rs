//! The queue of one session.

use std::collections::VecDeque;

use rookery_base::{Map, Transport};
use rookery_jid::Jid;

use super::item::{OutboxItem, To, is_state, rendered_len, tells_event};
use super::unacked::{ManagedQueue, UnackedBounds};
use crate::packet::Packet;

/// Stanzas in the order in which they are sent.
#[derive(Debug, Default)]
pub(super) struct OutboxQueue {
    pub items: VecDeque<OutboxItem>,
    /// Rendered bytes of all items except for paced ones.
    pub bytes: usize,
    /// The state of a session that is sent much; others do without it.
    pub much: Option<Box<Much>>,
    /// Bytes on the wire of the first item that the transport has taken already.
    pub taken: usize,
    /// See [`super::Outboxes::commit`].
    pub committed: usize,
    /// The notice for the party that waits for the queue to run empty.
    pub drained: Option<Drained>,
    /// The stanzas that were sent and not acknowledged yet. The queue of a session that has this
    /// stays when it has run empty.
    pub managed: Option<Box<ManagedQueue>>,
}

pub(super) struct Drained(pub Box<dyn FnOnce(usize) + Send>);

impl std::fmt::Debug for Drained {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Drained")
    }
}

/// The state of a session that is sent much; others do without it.
#[derive(Debug, Default)]
pub(super) struct Much {
    /// The paced items among those that wait.
    pub waiting: QueueTally,
    /// The paced items among those that were sent and are not acknowledged.
    pub unacked: QueueTally,
    /// The bytes that this session adds to its account's: see [`super::held`].
    pub fat: usize,
    /// The callers that wait until there is room for more: see [`super::paced`].
    pub in_wait: Vec<Roomy>,
}

/// Items, and their rendered bytes.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct QueueTally {
    pub items: usize,
    pub bytes: usize,
}

impl QueueTally {
    fn add(&mut self, size: usize) {
        self.items += 1;
        self.bytes += size;
    }

    fn take_off(&mut self, size: usize) {
        debug_assert!(self.items > 0 && self.bytes >= size, "what is taken off was added");
        self.items = self.items.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(size);
    }
}

/// A function that is called when a session has room for more.
pub(super) struct Roomy(pub Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for Roomy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Roomy")
    }
}

impl OutboxQueue {
    /// Appends an item of this size.
    pub fn put(&mut self, item: OutboxItem, size: usize) {
        if item.paced {
            self.much.get_or_insert_default().waiting.add(size);
        } else {
            self.bytes += size;
        }
        self.items.push_back(item);
    }

    /// Takes note that an item of this size has left the list of waiting items.
    pub fn take_off(&mut self, item: &OutboxItem, size: usize) {
        match &mut self.much {
            Some(much) if item.paced => much.waiting.take_off(size),
            _ => {
                debug_assert!(!item.paced && self.bytes >= size, "what is taken off was put");
                self.bytes = self.bytes.saturating_sub(size);
            }
        }
    }

    /// Puts a sent, unacknowledged item of this size back in front of the waiting ones.
    pub fn take_back(&mut self, item: OutboxItem, size: usize) {
        self.note_acknowledged(&item, size);
        if item.paced {
            self.much.get_or_insert_default().waiting.add(size);
        } else {
            self.bytes += size;
        }
        self.items.push_front(item);
    }

    /// Takes note that an item of this size is acknowledged.
    pub fn note_acknowledged(&mut self, item: &OutboxItem, size: usize) {
        if let Some(managed) = &mut self.managed {
            debug_assert!(managed.bytes >= size, "what is acknowledged was sent");
            managed.bytes = managed.bytes.saturating_sub(size);
        }
        if let Some(much) = self.much.as_mut().filter(|_| item.paced) {
            much.unacked.take_off(size);
        }
    }

    /// Returns the tally of paced items that wait.
    #[inline]
    pub fn paced_tally(&self) -> QueueTally {
        self.much.as_ref().map(|much| much.waiting).unwrap_or_default()
    }

    /// Returns the tally of paced items that wait, or were sent and are not acknowledged.
    #[inline]
    pub fn all_paced(&self) -> QueueTally {
        let unacked = self.much.as_ref().map(|much| much.unacked).unwrap_or_default();
        let waiting = self.paced_tally();
        QueueTally { items: waiting.items + unacked.items, bytes: waiting.bytes + unacked.bytes }
    }

    /// Returns the bytes that wait, or were sent and not acknowledged.
    #[inline]
    pub fn held_bytes(&self) -> usize {
        self.bytes + self.paced_tally().bytes + self.managed.as_ref().map_or(0, |managed| managed.bytes)
    }

    /// Takes the callers that wait for room, if there is some.
    pub fn take_those_in_wait(&mut self, soft: usize) -> Vec<Roomy> {
        let waiting = self.held_bytes().saturating_sub(self.taken);
        match &mut self.much {
            Some(much) if waiting <= soft => std::mem::take(&mut much.in_wait),
            _ => Vec::new(),
        }
    }

    /// Returns the bytes that this session adds to its account's.
    #[inline]
    pub fn fat(&self) -> usize {
        self.much.as_ref().map_or(0, |much| much.fat)
    }

    /// Returns whether one more stanza of this size is too much for a managed session.
    #[inline]
    pub fn is_full(&self, size: usize) -> bool {
        let Some(managed) = &self.managed else { return false };
        let UnackedBounds { stanzas, bytes } = managed.bounds;
        let unacked = managed.bytes.saturating_sub(self.all_paced().bytes - self.paced_tally().bytes);
        self.count_for_bound(managed) >= stanzas as usize || unacked + self.bytes + size > bytes as usize
    }

    /// Returns the stanzas that count against the bound of a managed session.
    pub fn count_for_bound(&self, managed: &ManagedQueue) -> usize {
        (managed.unacked.len() + self.items.len()).saturating_sub(self.all_paced().items)
    }

    /// Returns whether the bounds of a managed session, if it is one, stay half empty with this
    /// many bytes.
    #[inline]
    pub fn has_room(&self, bytes: usize) -> bool {
        self.managed.as_ref().is_none_or(|managed| {
            let UnackedBounds { stanzas, bytes: most } = managed.bounds;
            self.count_for_bound(managed) < stanzas as usize / 2 && bytes <= most as usize / 2
        })
    }

    /// Removes a session from the count of its account.
    pub fn leave_account(&mut self, held: &mut Map<Box<str>, usize>, address: &Jid) {
        let fat = self.much.as_mut().map_or(0, |much| std::mem::take(&mut much.fat));
        if fat == 0 {
            return;
        }
        debug_assert!(held.contains_key(address.bare_str()), "the account of a session that holds much is known");
        if let Some(all) = held.get_mut(address.bare_str()) {
            debug_assert!(*all >= fat, "an account holds what its sessions do");
            *all = all.saturating_sub(fat);
            if *all == 0 {
                held.remove(address.bare_str());
            }
        }
    }

    /// Takes note that an item was wholly sent; returns the number of bytes that are no longer
    /// held.
    pub fn was_sent(&mut self, item: OutboxItem, size: usize) -> usize {
        let Some(managed) = &mut self.managed else { return size };
        let paced = item.paced;
        let freed = managed.was_sent(item, size);
        if let Some(much) = self.much.as_mut().filter(|_| paced && freed == 0) {
            much.unacked.add(size);
        }
        freed
    }

    /// Returns whether nothing waits that other code wants to be told about. A managed session is
    /// hardly ever without anything, so for it only stanzas that other code keeps count.
    #[inline]
    pub fn is_drained(&self) -> bool {
        match &self.managed {
            None => self.items.is_empty(),
            Some(managed) => !self.items.iter().chain(&managed.unacked).any(|item| item.to == To::Kept),
        }
    }

    /// Returns the notice that the queue has run empty, if it has and somebody waits for that.
    #[inline]
    pub fn take_drained(&mut self) -> Option<Drained> {
        if self.drained.is_none() || !self.is_drained() {
            return None;
        }
        self.drained.take()
    }

    /// Tells the party that waits for the queue to run empty how many stanzas were not sent before
    /// the session ended.
    pub fn tell_unsent(&mut self) {
        if let Some(much) = &mut self.much {
            much.in_wait = Vec::new();
        }
        if let Some(Drained(call)) = self.drained.take() {
            let unacked = self.managed.iter().flat_map(|managed| &managed.unacked);
            call(self.items.iter().chain(unacked).filter(|item| item.to == To::Kept).count());
        }
    }

    /// Drops the waiting item that a newer one makes obsolete, if there is one. Returns the number
    /// of bytes that this saved. An item stays if the transport has taken its beginning.
    pub fn forget_superseded(&mut self, newer: &OutboxItem, address: &Jid, transport: Transport) -> usize {
        let is_obsolete = |item: &OutboxItem| {
            item.tag == newer.tag && item.to == newer.to && item.packet.from_escaped() == newer.packet.from_escaped()
        };
        let begun = self.items_begun(address, transport);
        let at = self.items.iter().skip(begun).position(is_obsolete);
        let Some(at) = at.map(|at| at + begun) else { return 0 };
        let Some(item) = self.items.remove(at) else { return 0 };
        let size = rendered_len(&item.packet, address, item.to);
        self.take_off(&item, size);
        if let Some(managed) = self.managed.as_mut().filter(|managed| at < managed.uncounted) {
            managed.uncounted -= 1;
        }
        size
    }

    /// Puts `packet` in the place of the waiting presence of the same sender that it supersedes, if
    /// there is one. Returns the number of bytes that this saved. The first item stays, and so does
    /// one whose beginning the transport has taken.
    pub fn replace_superseded(
        &mut self,
        packet: &Packet,
        to: To,
        address: &Jid,
        transport: Transport,
    ) -> Option<usize> {
        if !is_state(packet) {
            return None;
        }
        let begun = self.items_begun(address, transport).max(1);
        let at = self.items.iter().skip(begun).position(|item| {
            item.to == to
                && is_state(&item.packet)
                && item.packet.from_escaped() == packet.from_escaped()
                && !tells_event(&item.packet)
        })? + begun;
        let item = self.items.get_mut(at)?;
        let (old, new) = (item.packet.bytes().len(), packet.bytes().len());
        debug_assert!(at > 0, "the first item stays");
        if new > old {
            return None;
        }
        item.packet = packet.clone();
        let of = match &mut self.much {
            Some(much) if item.paced => &mut much.waiting.bytes,
            _ => &mut self.bytes,
        };
        *of = of.saturating_sub(old - new);
        Some(old - new)
    }

    /// Returns the number of items, from the first, that have left in part, or are encrypted
    /// already.
    fn items_begun(&self, address: &Jid, transport: Transport) -> usize {
        let mut rest = self.taken.max(self.committed);
        let sizes = self.items.iter().map(|item| item.wire_len(address, transport));
        let is_begun = |size: usize| {
            let begun = rest > 0;
            rest = rest.saturating_sub(size);
            begun
        };
        sizes.map(is_begun).take_while(|&begun| begun).count()
    }
}
