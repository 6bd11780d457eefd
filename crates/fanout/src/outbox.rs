//! The outbox: the stanzas that wait for a session, bounded in bytes.
//!
//! One slab holds the outboxes of a shard, indexed by [`Link`]. An empty outbox is an address and a
//! null pointer; the queue behind it exists only while something waits, and drained queues are
//! reused from a small pool.
//!
//! Rendering and removal are separate steps: [`Outboxes::render`] writes the bytes for the
//! transport, [`Outboxes::remove_sent`] removes those that the transport has accepted. Stanzas
//! that were not wholly accepted when a connection dies are returned by [`Outboxes::close`], so
//! that a slow or broken reader loses its connection but not its messages.
//!
//! Limits: above the soft one, a presence replaces an older one of the same sender that still
//! waits; above the hard one, the packet is refused and the caller ends the session. All sessions
//! of an account together have a limit too, and so has the shard as a whole: above the shard's
//! limit, the sessions of the accounts that hold most are ended ([`PushOutcome::Crowded`]).
//!
//! A client isn't to blame for stanzas that the server sends of its own accord, above all at
//! login: see [`paced`].
//!
//! A session that acknowledges its input (XEP-0198) keeps its queue: sent stanzas stay, as the same
//! references, until they are acknowledged; see [`managed`]. If a session's user isn't looking
//! (XEP-0352), or its connection is lost for the moment, stanzas that aren't urgent wait; see
//! [`quiet`].
//!
//! # Layout
//!
//! This file: the outboxes of a shard, and the fields of every session. `item`: a waiting stanza.
//! `queue`: the stanzas that wait for one session. `unacked`: those that it hasn't acknowledged.
//! [`managed`]: stream management, [`carried`]: the data that a session takes along to another
//! process. [`quiet`]: which stanzas may wait, and which replace which. [`framing`]: the frame that
//! a transport puts around each stanza. [`changes`]: sessions that have changed, for code that
//! keeps a copy; `noted`: a list of these. [`paced`]: stanzas that are sent as fast as the client
//! reads. `held`: the memory that accounts hold by not reading. `whole`: invariants of an outbox
//! between two calls.

pub mod carried;
pub mod changes;
pub mod framing;
mod held;
mod item;
pub mod managed;
mod noted;
pub mod paced;
mod queue;
pub mod quiet;
mod unacked;
mod whole;

use rookery_base::{Map, Transport};
use rookery_jid::Jid;
use rookery_xml::Kind;

use crate::link::{Link, LinkPlaces};
use crate::packet::{Packet, StanzaType};
use item::{OutboxItem, is_state, rendered_len};
use noted::OutboxChanges;
use queue::{Drained, OutboxQueue, Roomy};
use quiet::Urgency;

pub use item::{To, Unsent};
pub use unacked::{Asking, UnackedBounds};

/// Bounds of one outbox in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutboxLimits {
    /// Above this, superseded presence is replaced in place.
    pub soft: usize,
    /// Above this, nothing more is taken and the session must end. [`paced`] stanzas don't count.
    pub hard: usize,
    /// The bytes that [`paced`] stanzas may take in addition.
    pub paced: usize,
    /// The bytes that all sessions of one account together may hold, including [`paced`] stanzas.
    /// Sessions below the soft limit don't count.
    pub account: usize,
    /// While all outboxes of the shard together hold more than this, sessions of the accounts that
    /// hold most are ended.
    pub total: usize,
}

impl Default for OutboxLimits {
    fn default() -> Self {
        let mib = 1024 * 1024;
        Self { soft: mib / 16, hard: mib, paced: 64 * mib, account: 128 * mib, total: 512 * mib }
    }
}

/// The fate of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum PushOutcome {
    /// It waits for the next flush.
    Queued,
    /// It waits for the next flush or for its client, and it is urgent while the client is inactive
    /// or away.
    Unattended,
    /// The stanza waits, and the shard as a whole holds too much: the caller ends sessions of
    /// [`Outboxes::fattest`] accounts.
    Crowded,
    /// The outbox is over its hard limit: the packet was not taken, the session has to be closed
    /// with `resource-constraint`.
    Overflow,
    /// No session has this link.
    Gone,
}

/// All outboxes of a shard.
#[derive(Debug, Default)]
pub struct Outboxes {
    slots: LinkPlaces<OutboxSlot>,
    dirty: Vec<Link>,
    // Boxed, as the outboxes of links hold them, so that a queue moves between both without a copy.
    #[expect(clippy::vec_box)]
    pool: Vec<Box<OutboxQueue>>,
    limits: OutboxLimits,
    waiting: usize,
    /// The bytes that accounts hold in sessions above the soft limit, by bare JID.
    held: Map<Box<str>, usize>,
    pushed: u64,
    /// Sessions that are to be asked for an acknowledgement later.
    asking: Vec<Asking>,
    /// The request for an acknowledgement, made when it is first needed.
    request: Option<Packet>,
    /// The managed sessions that have changed; `None` if nobody wants to know.
    changes: Option<Box<OutboxChanges>>,
}

#[derive(Debug, Default)]
struct OutboxSlot {
    address: Option<Jid>,
    queue: Option<Box<OutboxQueue>>,
    dirty: bool,
    /// True if it is in the list of [`changes`].
    changed: bool,
    /// See [`Outboxes::abandon`].
    abandoned: bool,
    attention: Attention,
    transport: Transport,
}

/// The attention that a session's client pays to what it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Attention {
    /// The client reads, so everything is sent at once.
    #[default]
    Active,
    /// The client says that it is inactive (XEP-0352): stanzas that aren't urgent wait.
    Inactive,
    /// There is no connection: everything waits.
    Detached,
}

impl Outboxes {
    /// Returns outboxes with these limits.
    pub fn new(limits: OutboxLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Replaces the limits, for all present and future sessions.
    pub fn set_limits(&mut self, limits: OutboxLimits) {
        self.limits = limits;
    }

    /// Returns the limits in force.
    pub fn limits(&self) -> OutboxLimits {
        self.limits
    }

    /// Opens the outbox of a session that has bound `address` (a full JID).
    pub fn open(&mut self, link: Link, address: Jid) {
        debug_assert!(address.resource().is_some(), "a session has bound a resource");
        if let Some(slot) = self.slots.open(link) {
            debug_assert!(slot.address.is_none(), "an outbox is closed before its link is used again");
            debug_assert!(slot.queue.is_none(), "nothing of an earlier session waits");
            slot.address = Some(address);
            slot.abandoned = false;
            slot.attention = Attention::Active;
            slot.transport = Transport::Tcp;
        }
    }

    /// Sets the framing of the session's stanzas from now on. No stanza may be half sent.
    pub fn set_transport(&mut self, link: Link, transport: Transport) {
        if let Some(slot) = self.slots.get_mut(link) {
            let is_begun = slot.queue.as_ref().is_some_and(|queue| queue.taken > 0);
            debug_assert!(!is_begun || slot.transport == transport, "a stanza is framed as it was begun");
            slot.transport = transport;
        }
    }

    /// Returns the framing of the session's stanzas.
    #[inline]
    pub fn transport(&self, link: Link) -> Transport {
        self.slots.get(link).map(|slot| slot.transport).unwrap_or_default()
    }

    /// Returns the full JID that the session has bound.
    #[inline]
    pub fn address(&self, link: Link) -> Option<&Jid> {
        self.slots.get(link)?.address.as_ref()
    }

    /// Appends a copy of `packet` for one session.
    #[inline]
    pub fn push(&mut self, link: Link, packet: &Packet, to: To) -> PushOutcome {
        self.append(link, packet, to, false)
    }

    /// Appends a copy. `paced`: see [`paced`].
    #[inline]
    fn append(&mut self, link: Link, packet: &Packet, to: To, mut paced: bool) -> PushOutcome {
        let Some(slot) = self.slots.get_mut(link) else { return PushOutcome::Gone };
        let Some(address) = slot.address.as_ref().filter(|_| !slot.abandoned) else { return PushOutcome::Gone };
        let size = rendered_len(packet, address, to);
        debug_assert!(size > 0 && to != To::Nobody, "stanzas have addresses; elements come by push_element");
        let queue = slot.queue.get_or_insert_with(|| self.pool.pop().unwrap_or_default());
        if !paced && queue.is_full(size) {
            if !is_state(packet) {
                return PushOutcome::Overflow;
            }
            paced = true;
        }
        let mut item = OutboxItem { packet: packet.clone(), to, paced, tag: 0, number: self.pushed };
        let (mut waits, mut pushed) = (false, PushOutcome::Queued);
        if slot.attention != Attention::Active {
            let urgency = quiet::urgency(packet);
            if let Urgency::Latest(tag) = urgency {
                item.tag = tag;
                let freed = queue.forget_superseded(&item, address, slot.transport);
                debug_assert!(self.waiting >= freed, "what is forgotten was counted");
                self.waiting = self.waiting.saturating_sub(freed);
            }
            if urgency == Urgency::Now {
                pushed = PushOutcome::Unattended;
            }
            let is_late = urgency != Urgency::Now && queue.bytes + size <= self.limits.soft;
            waits = slot.attention == Attention::Detached || is_late;
        }
        if queue.bytes + size > self.limits.soft {
            if let Some(freed) = queue.replace_superseded(packet, to, address, slot.transport) {
                debug_assert!(self.waiting >= freed, "what is replaced was counted");
                self.waiting = self.waiting.saturating_sub(freed);
                if self.changes.is_some() {
                    self.note_push(link);
                }
                return PushOutcome::Queued;
            }
            if !paced && queue.bytes + size > self.limits.hard {
                if !is_state(packet) {
                    return PushOutcome::Overflow;
                }
                item.paced = true;
            }
        }
        let is_much = queue.held_bytes() + size > self.limits.soft;
        if is_much && let Err(refused) = self.limits.check(&self.held, queue, &item, address, size) {
            return refused;
        }
        debug_assert!(item.paced || queue.bytes + size <= self.limits.hard, "what is not paced is within the limit");
        queue.put(item, size);
        self.waiting += size;
        self.pushed += 1;
        if !waits && !slot.dirty {
            slot.dirty = true;
            self.dirty.push(link);
        }
        if self.changes.is_some() {
            self.note_push(link);
        }
        self.assert_whole(link);
        if is_much {
            self.weigh(link);
            if self.waiting > self.limits.total {
                return PushOutcome::Crowded;
            }
        }
        pushed
    }

    /// Sets whether the client of a connected session is active. When it becomes active, waiting
    /// stanzas are sent.
    pub fn set_active(&mut self, link: Link, active: bool) {
        let Some(slot) = self.slots.get_mut(link).filter(|slot| slot.address.is_some()) else { return };
        if slot.attention == Attention::Detached {
            return;
        }
        slot.attention = if active { Attention::Active } else { Attention::Inactive };
        if active {
            self.mark(link);
        }
    }

    /// Returns the attention that the session's client pays to what it is sent.
    #[inline]
    pub fn attention(&self, link: Link) -> Attention {
        self.slots.get(link).map(|slot| slot.attention).unwrap_or_default()
    }

    /// Marks the session as one to be flushed.
    fn mark(&mut self, link: Link) {
        if let Some(slot) = self.slots.get_mut(link)
            && !slot.dirty
        {
            slot.dirty = true;
            self.dirty.push(link);
        }
    }

    /// Returns the sessions that got something since the last call; the caller flushes each once
    /// and hands the buffer back with [`Outboxes::recycle`].
    pub fn take_dirty(&mut self) -> Vec<Link> {
        let dirty = std::mem::take(&mut self.dirty);
        for link in &dirty {
            if let Some(slot) = self.slots.get_mut(*link) {
                debug_assert!(slot.dirty, "a session is in the list once");
                slot.dirty = false;
            }
        }
        dirty
    }

    /// Takes back the buffer of [`Outboxes::take_dirty`], so that ticks don't allocate.
    pub fn recycle(&mut self, mut dirty: Vec<Link>) {
        if self.dirty.is_empty() {
            dirty.clear();
            self.dirty = dirty;
        }
    }

    /// Returns whether something waits for this session.
    #[inline]
    pub fn has_waiting(&self, link: Link) -> bool {
        self.slots.get(link).and_then(|slot| slot.queue.as_ref()).is_some_and(|queue| !queue.items.is_empty())
    }

    /// Returns whether a copy of this very packet waits for a session that was not given up, or for
    /// its acknowledgement.
    #[inline]
    pub fn holds(&self, link: Link, packet: &Packet) -> bool {
        let slot = self.slots.get(link).filter(|slot| !slot.abandoned);
        let Some(queue) = slot.and_then(|slot| slot.queue.as_ref()) else { return false };
        let unacked = queue.managed.iter().flat_map(|managed| &managed.unacked);
        queue.items.iter().chain(unacked).any(|item| std::ptr::eq(item.packet.bytes(), packet.bytes()))
    }

    /// Returns whether a message of type error may not have reached the client of a session: one
    /// waits for the client, or for its acknowledgement, or the stanzas that it lacked were given
    /// up.
    #[inline]
    pub fn may_lack_errors(&self, link: Link) -> bool {
        let Some(slot) = self.slots.get(link).filter(|slot| !slot.abandoned) else { return true };
        let Some(queue) = &slot.queue else { return false };
        let unacked = queue.managed.iter().flat_map(|managed| &managed.unacked);
        let is_error = |packet: &Packet| packet.kind() == Kind::Message && packet.type_() == StanzaType::Error;
        queue.items.iter().chain(unacked).any(|item| item.to != To::Nobody && is_error(&item.packet))
    }

    /// Returns the bytes that wait for this session, or for its acknowledgement.
    #[inline]
    pub fn waiting_bytes(&self, link: Link) -> usize {
        let queue = self.slots.get(link).and_then(|slot| slot.queue.as_ref());
        queue.map_or(0, |queue| queue.held_bytes().saturating_sub(queue.taken))
    }

    /// Returns whether a session takes this many more bytes while its bounds stay half empty for
    /// everything else. With nothing waiting it takes any number.
    #[inline]
    pub fn has_room(&self, link: Link, bytes: usize) -> bool {
        let Some(queue) = self.slots.get(link).and_then(|slot| slot.queue.as_ref()) else { return true };
        let waiting = self.waiting_bytes(link);
        let is_below = |most: usize| waiting + bytes <= most / 2;
        waiting == 0 || is_below(self.limits.hard) && queue.has_room(waiting + bytes)
    }

    /// Calls `call` as soon as nothing waits for this session, at once if nothing does now, or when
    /// the session ends: with the number of stanzas marked [`To::Kept`] that were not wholly sent.
    /// Another call replaces it, and it is then dropped uncalled. For a session that acknowledges
    /// stanzas, these count as sent only when they are acknowledged.
    ///
    /// Returns `false`, and drops the call, if the session was given up: nobody knows the number.
    pub fn when_drained(&mut self, link: Link, call: impl FnOnce(usize) + Send + 'static) -> bool {
        if self.is_given_up(link) {
            return false;
        }
        match self.slots.get_mut(link).and_then(|slot| slot.queue.as_mut()) {
            Some(queue) if !queue.is_drained() => queue.drained = Some(Drained(Box::new(call))),
            _ => call(0),
        }
        true
    }

    /// Returns whether a session takes nothing any more: see [`Outboxes::abandon`].
    pub fn is_given_up(&self, link: Link) -> bool {
        self.slots.get(link).is_none_or(|slot| slot.abandoned || slot.address.is_none())
    }

    /// Returns the bytes that wait in all outboxes of the shard.
    #[inline]
    pub fn waiting_total(&self) -> usize {
        self.waiting
    }

    /// Returns the number of sessions for which more waits than the soft limit. If less than that
    /// waits for all sessions together, they aren't looked through.
    pub fn slow_readers(&self) -> usize {
        if self.waiting <= self.limits.soft {
            return 0;
        }
        let queues = self.slots.iter().filter_map(|slot| slot.queue.as_ref());
        queues
            .filter(|queue| (queue.bytes + queue.paced_tally().bytes).saturating_sub(queue.taken) > self.limits.soft)
            .count()
    }

    /// Returns the number of copies taken since the start: deliveries, as the counters report them.
    #[inline]
    pub fn pushed_total(&self) -> u64 {
        self.pushed
    }

    /// Appends the bytes that wait for a session to `out`, as far as whole stanzas fit below `max`
    /// (at least one stanza). Nothing is removed: see [`Outboxes::remove_sent`].
    pub fn render(&self, link: Link, max: usize, out: &mut Vec<u8>) {
        let Some(slot) = self.slots.get(link) else { return };
        let (Some(queue), Some(address)) = (&slot.queue, &slot.address) else { return };
        let start = out.len();
        let mut skip = queue.taken;
        for item in &queue.items {
            if out.len() > start && out.len() - start + item.wire_len(address, slot.transport) > max {
                break;
            }
            let from = out.len();
            item.render(address, slot.transport, out);
            if skip > 0 {
                // This is the rest of a stanza whose beginning the transport has taken in an
                // earlier flush.
                out.copy_within(from + skip.., from);
                out.truncate(out.len() - skip);
                skip = 0;
            }
        }
    }

    /// Marks this many rendered bytes from the front as encrypted already, though the transport has
    /// not taken them: they must leave as they are.
    #[inline]
    pub fn commit(&mut self, link: Link, bytes: usize) {
        if let Some(queue) = self.slots.get_mut(link).and_then(|slot| slot.queue.as_mut()) {
            queue.committed = queue.taken + bytes;
        }
    }

    /// Removes `bytes` rendered bytes from the front, after the transport has taken them.
    pub fn remove_sent(&mut self, link: Link, bytes: usize) {
        let Some(slot) = self.slots.get_mut(link) else { return };
        let (Some(queue), Some(address)) = (&mut slot.queue, &slot.address) else { return };
        let mut taken = queue.taken + bytes;
        debug_assert!(queue.committed <= taken, "what is encrypted leaves as a whole");
        queue.committed = 0;
        while let Some(item) = queue.items.front() {
            let size = rendered_len(&item.packet, address, item.to);
            let wire = item.wire_len(address, slot.transport);
            if taken < wire {
                break;
            }
            taken -= wire;
            match queue.items.pop_front() {
                Some(item) => {
                    queue.take_off(&item, size);
                    self.waiting -= queue.was_sent(item, size).min(self.waiting);
                }
                None => break,
            }
        }
        queue.taken = taken;
        debug_assert!(taken == 0 || !queue.items.is_empty(), "no more left than waited");
        if queue.items.is_empty() {
            queue.taken = 0;
        }
        let told = queue.take_drained();
        let has_room = queue.take_those_in_wait(self.limits.soft);
        if queue.fat() > 0 {
            self.weigh(link);
        }
        let slot = self.slots.get_mut(link);
        let is_done = |queue: &mut Box<OutboxQueue>| queue.items.is_empty() && queue.managed.is_none();
        if let Some(queue) = slot.and_then(|slot| slot.queue.take_if(is_done)) {
            self.reuse(queue);
        }
        if let Some(Drained(call)) = told {
            call(0);
        }
        has_room.into_iter().for_each(|Roomy(call)| call());
        self.assert_whole(link);
    }

    /// Gives up on a session: stanzas that the transport had not wholly taken, or its client not
    /// acknowledged, are returned, oldest first, and nothing more is taken. The address stays until
    /// [`Outboxes::close`], and so does a stanza whose beginning is on the wire, for
    /// [`Outboxes::append_rest`].
    pub fn abandon(&mut self, link: Link) -> Vec<Unsent> {
        let Some(slot) = self.slots.get_mut(link).filter(|slot| slot.address.is_some()) else {
            return Vec::new();
        };
        if std::mem::replace(&mut slot.abandoned, true) {
            return Vec::new();
        }
        let (Some(queue), Some(address)) = (slot.queue.as_mut(), &slot.address) else { return Vec::new() };
        debug_assert!(self.waiting >= queue.held_bytes(), "the shard counts what its sessions hold");
        queue.tell_unsent();
        queue.leave_account(&mut self.held, address);
        let managed = queue.managed.take();
        self.waiting = self.waiting.saturating_sub(managed.as_ref().map_or(0, |managed| managed.bytes));
        let sent = managed.into_iter().flat_map(|managed| managed.unacked).filter_map(OutboxItem::given_back);
        let mut given_back: Vec<_> = sent.collect();
        given_back.extend(queue.items.iter().cloned().filter_map(OutboxItem::given_back));
        // Presence that waits takes the place of older presence, and keeps no order with others.
        let messages = || given_back.iter().filter(|unsent| !is_state(&unsent.packet)).map(|unsent| unsent.number);
        debug_assert!(messages().is_sorted(), "what is given back is in its order");
        let begun = usize::from(queue.taken > 0);
        while queue.items.len() > begun {
            let Some(item) = queue.items.pop_back() else { break };
            let size = rendered_len(&item.packet, address, item.to);
            queue.take_off(&item, size);
            self.waiting = self.waiting.saturating_sub(size);
        }
        if begun == 0 {
            self.drop_queue(link);
        }
        given_back
    }

    /// Appends the rest of a stanza whose beginning the transport has taken: the end of a stream
    /// has to follow a whole stanza.
    pub fn append_rest(&self, link: Link, out: &mut Vec<u8>) {
        let Some(slot) = self.slots.get(link) else { return };
        let (Some(queue), Some(address)) = (&slot.queue, &slot.address) else { return };
        if let Some(item) = queue.items.front().filter(|_| queue.taken > 0) {
            let mut whole = Vec::new();
            item.render(address, slot.transport, &mut whole);
            out.extend_from_slice(whole.get(queue.taken..).unwrap_or_default());
        }
    }

    /// Returns whether the transport has taken part of a stanza and not the rest.
    #[inline]
    pub fn is_begun(&self, link: Link) -> bool {
        self.slots.get(link).and_then(|slot| slot.queue.as_ref()).is_some_and(|queue| queue.taken > 0)
    }

    /// Closes the outbox. Its remaining stanzas are forgotten: see [`Outboxes::abandon`].
    pub fn close(&mut self, link: Link) {
        self.note(link);
        self.drop_queue(link);
        if let Some(slot) = self.slots.get_mut(link) {
            slot.address = None;
            slot.attention = Attention::Active;
        }
    }

    fn drop_queue(&mut self, link: Link) {
        let Some(slot) = self.slots.get_mut(link) else { return };
        let Some(mut queue) = slot.queue.take() else { return };
        queue.tell_unsent();
        if let Some(address) = &slot.address {
            queue.leave_account(&mut self.held, address);
        }
        let unacked = queue.managed.take().map_or(0, |managed| managed.bytes);
        debug_assert!(self.waiting >= queue.bytes + queue.paced_tally().bytes + unacked, "what is dropped was counted");
        self.waiting = self.waiting.saturating_sub(queue.bytes + queue.paced_tally().bytes + unacked);
        queue.items.clear();
        queue.bytes = 0;
        queue.much = None;
        queue.taken = 0;
        queue.committed = 0;
        self.reuse(queue);
    }

    /// Keeps a few small drained queues for the next sessions; larger ones give their memory back.
    fn reuse(&mut self, mut queue: Box<OutboxQueue>) {
        debug_assert!(queue.items.is_empty() && queue.bytes == 0, "a queue that is reused has nothing");
        debug_assert!(queue.managed.is_none() && queue.drained.is_none(), "a queue that is reused is nobody's");
        if self.pool.len() < POOL && queue.items.capacity() <= POOLED_ITEMS {
            queue.much = None;
            self.pool.push(queue);
        }
    }
}

/// Drained queues kept for reuse, per shard.
const POOL: usize = 256;
/// Capacity above which a drained queue is freed instead.
const POOLED_ITEMS: usize = 16;

#[cfg(test)]
mod tests;
