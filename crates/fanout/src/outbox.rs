//! The outbox: what waits for a session, bounded in bytes.
//!
//! One slab holds the outboxes of a shard, indexed by [`Link`]. An empty outbox is an address and a null pointer; the
//! queue behind it exists only while something waits, and drained queues are reused from a small pool.
//!
//! Rendering and removal are separate steps: [`Outboxes::render`] writes the bytes for the transport,
//! [`Outboxes::sent`] removes what the transport has taken. What was not wholly taken when a connection dies comes
//! back from [`Outboxes::close`], so that a slow or broken reader loses its connection but not its messages.
//!
//! Limits (`design.md`, budgets): above the soft one a presence replaces the older one of the same sender that still
//! waits; above the hard one the packet is refused and the caller ends the session. When the shard as a whole holds too much, the hard limit
//! comes down to the soft one.

use std::collections::VecDeque;

use rookery_jid::Jid;
use rookery_xml::Kind;

use crate::packet::{Packet, StanzaType};

/// Index of a connection and its session within one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Link(pub u32);

impl Link {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// The stamp rule: which `to` a copy carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// The session's full JID.
    Full,
    /// The session's bare JID: the sender addressed the account, and the address is not rewritten
    /// (RFC 6121 §8.5.2.1).
    Bare,
    /// The bare JID too, for a stanza that its giver keeps until it was sent: it is not given back when the session ends, the giver hears
    /// by [`Outboxes::when_drained`] how many were not sent.
    Kept,
}

/// Bounds of one outbox in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Above it, superseded presence is replaced in place.
    pub soft: usize,
    /// Above it, nothing more is taken and the session must end.
    pub hard: usize,
    /// While all outboxes of the shard together hold more, the soft limit counts as the hard one: the fattest queues go first.
    pub total: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { soft: 64 * 1024, hard: 1024 * 1024, total: 512 * 1024 * 1024 }
    }
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Pushed {
    /// It waits for the next flush.
    Queued,
    /// The outbox is over its hard limit: the packet was not taken, the session has to be closed with
    /// `resource-constraint`.
    Overflow,
    /// No session has this link.
    Gone,
}

/// All outboxes of a shard.
#[derive(Debug, Default)]
pub struct Outboxes {
    slots: Vec<Slot>,
    dirty: Vec<Link>,
    // Boxed as the slots hold them, so that a queue moves between both without a copy.
    #[expect(clippy::vec_box)]
    pool: Vec<Box<Queue>>,
    limits: Limits,
    waiting: usize,
    pushed: u64,
}

#[derive(Debug, Default)]
struct Slot {
    address: Option<Jid>,
    queue: Option<Box<Queue>>,
    dirty: bool,
    /// See [`Outboxes::abandon`].
    abandoned: bool,
}

#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<Item>,
    /// Rendered bytes of all items.
    bytes: usize,
    /// Rendered bytes of the first item that the transport has taken already.
    taken: usize,
    /// Who wants to know when the queue has run empty.
    drained: Option<Drained>,
}

struct Drained(Box<dyn FnOnce(usize) + Send>);

impl std::fmt::Debug for Drained {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Drained")
    }
}

#[derive(Debug)]
struct Item {
    packet: Packet,
    to: To,
    /// How many copies the shard had taken before this one.
    number: u64,
}

/// A stanza that a session was not sent.
#[derive(Debug)]
pub struct Unsent {
    /// The stanza.
    pub packet: Packet,
    /// Which `to` it would have carried.
    pub to: To,
    /// How many copies the shard had taken before this one: see [`Outboxes::pushed_total`].
    pub number: u64,
}

impl Outboxes {
    /// Outboxes with these limits.
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Replaces the limits, for sessions of now and later.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Opens the outbox of a session that has bound `address` (a full JID).
    pub fn open(&mut self, link: Link, address: Jid) {
        if self.slots.len() <= link.index() {
            self.slots.resize_with(link.index() + 1, Slot::default);
        }
        if let Some(slot) = self.slots.get_mut(link.index()) {
            slot.address = Some(address);
            slot.abandoned = false;
        }
    }

    /// The full JID that the session has bound.
    pub fn address(&self, link: Link) -> Option<&Jid> {
        self.slots.get(link.index())?.address.as_ref()
    }

    /// Appends a copy of `packet` for one session.
    pub fn push(&mut self, link: Link, packet: &Packet, to: To) -> Pushed {
        let Some(slot) = self.slots.get_mut(link.index()) else { return Pushed::Gone };
        let Some(address) = slot.address.as_ref().filter(|_| !slot.abandoned) else { return Pushed::Gone };
        let size = rendered_len(packet, address, to);
        let queue = slot.queue.get_or_insert_with(|| self.pool.pop().unwrap_or_default());
        if queue.bytes + size > self.limits.soft {
            if let Some(freed) = queue.replace_superseded(packet, to) {
                self.waiting = self.waiting.saturating_sub(freed);
                return Pushed::Queued;
            }
            if queue.bytes + size > self.limits.hard || self.waiting > self.limits.total {
                return Pushed::Overflow;
            }
        }
        queue.items.push_back(Item { packet: packet.clone(), to, number: self.pushed });
        queue.bytes += size;
        self.waiting += size;
        self.pushed += 1;
        if !slot.dirty {
            slot.dirty = true;
            self.dirty.push(link);
        }
        Pushed::Queued
    }

    /// The sessions that got something since the last call; the caller flushes each once and hands the buffer back
    /// with [`Outboxes::recycle`].
    pub fn take_dirty(&mut self) -> Vec<Link> {
        let dirty = std::mem::take(&mut self.dirty);
        for link in &dirty {
            if let Some(slot) = self.slots.get_mut(link.index()) {
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

    /// Whether something waits for this session.
    pub fn has_waiting(&self, link: Link) -> bool {
        self.slots.get(link.index()).is_some_and(|slot| slot.queue.is_some())
    }

    /// Bytes that wait for this session.
    pub fn waiting_bytes(&self, link: Link) -> usize {
        self.slots.get(link.index()).and_then(|slot| slot.queue.as_ref()).map_or(0, |queue| queue.bytes - queue.taken)
    }

    /// Calls `call` as soon as nothing waits for this session, at once if nothing does now, or when the session ends: with the number of
    /// stanzas marked [`To::Kept`] that were not wholly sent. Dropped uncalled when another call takes its place.
    pub fn when_drained(&mut self, link: Link, call: impl FnOnce(usize) + Send + 'static) {
        match self.slots.get_mut(link.index()).and_then(|slot| slot.queue.as_mut()) {
            Some(queue) => queue.drained = Some(Drained(Box::new(call))),
            None => call(0),
        }
    }

    /// Bytes that wait in all outboxes of the shard.
    pub fn waiting_total(&self) -> usize {
        self.waiting
    }

    /// Copies taken since the start: deliveries, as the counters report them.
    pub fn pushed_total(&self) -> u64 {
        self.pushed
    }

    /// Appends the bytes that wait for a session to `out`, as far as whole stanzas fit below `max` (at least one
    /// stanza). Nothing is removed: see [`Outboxes::sent`].
    pub fn render(&self, link: Link, max: usize, out: &mut Vec<u8>) {
        let Some(slot) = self.slots.get(link.index()) else { return };
        let (Some(queue), Some(address)) = (&slot.queue, &slot.address) else { return };
        let start = out.len();
        let mut skip = queue.taken;
        for item in &queue.items {
            if out.len() > start && out.len() - start + rendered_len(&item.packet, address, item.to) > max {
                break;
            }
            let from = out.len();
            item.render(address, out);
            if skip > 0 {
                // The rest of a stanza whose beginning the transport has taken in an earlier flush.
                out.copy_within(from + skip.., from);
                out.truncate(out.len() - skip);
                skip = 0;
            }
        }
    }

    /// Removes `bytes` rendered bytes from the front, after the transport has taken them.
    pub fn sent(&mut self, link: Link, bytes: usize) {
        let Some(slot) = self.slots.get_mut(link.index()) else { return };
        let (Some(queue), Some(address)) = (&mut slot.queue, &slot.address) else { return };
        let mut taken = queue.taken + bytes;
        while let Some(item) = queue.items.front() {
            let size = rendered_len(&item.packet, address, item.to);
            if taken < size {
                break;
            }
            taken -= size;
            queue.bytes -= size;
            self.waiting = self.waiting.saturating_sub(size);
            queue.items.pop_front();
        }
        queue.taken = taken;
        if queue.items.is_empty() {
            queue.taken = 0;
            if let Some(mut queue) = slot.queue.take() {
                let drained = queue.drained.take();
                self.reuse(queue);
                if let Some(Drained(call)) = drained {
                    call(0);
                }
            }
        }
    }

    /// Gives up on a session: what the transport had not wholly taken is given back, oldest first, and nothing more is taken. The
    /// address stays until [`Outboxes::close`], and so does a stanza whose beginning is on the wire, for [`Outboxes::unfinished`].
    pub fn abandon(&mut self, link: Link) -> Vec<Unsent> {
        let Some(slot) = self.slots.get_mut(link.index()).filter(|slot| slot.address.is_some()) else {
            return Vec::new();
        };
        if std::mem::replace(&mut slot.abandoned, true) {
            return Vec::new();
        }
        let Some(queue) = slot.queue.as_mut().filter(|queue| queue.taken > 0) else { return self.drain(link) };
        queue.tell_unsent();
        let unsent = |item: &Item| Unsent { packet: item.packet.clone(), to: item.to, number: item.number };
        let given_back = queue.items.iter().filter(|item| item.to != To::Kept).map(unsent).collect();
        while let (Some(address), true) = (&slot.address, queue.items.len() > 1) {
            let Some(item) = queue.items.pop_back() else { break };
            let size = rendered_len(&item.packet, address, item.to);
            queue.bytes -= size;
            self.waiting = self.waiting.saturating_sub(size);
        }
        given_back
    }

    /// Appends the rest of a stanza whose beginning the transport has taken: whatever a stream ends with has to follow a whole stanza.
    pub fn unfinished(&self, link: Link, out: &mut Vec<u8>) {
        let Some(slot) = self.slots.get(link.index()) else { return };
        let (Some(queue), Some(address)) = (&slot.queue, &slot.address) else { return };
        if let Some(item) = queue.items.front().filter(|_| queue.taken > 0) {
            let mut whole = Vec::new();
            item.render(address, &mut whole);
            out.extend_from_slice(whole.get(queue.taken..).unwrap_or_default());
        }
    }

    /// Closes the outbox. What it still holds is forgotten: see [`Outboxes::abandon`].
    pub fn close(&mut self, link: Link) {
        self.drain(link);
        if let Some(slot) = self.slots.get_mut(link.index()) {
            slot.address = None;
        }
    }

    fn drain(&mut self, link: Link) -> Vec<Unsent> {
        let Some(slot) = self.slots.get_mut(link.index()) else { return Vec::new() };
        let Some(mut queue) = slot.queue.take() else { return Vec::new() };
        self.waiting = self.waiting.saturating_sub(queue.bytes);
        queue.tell_unsent();
        let items = queue.items.drain(..).filter(|item| item.to != To::Kept);
        let rest = items.map(|Item { packet, to, number }| Unsent { packet, to, number }).collect();
        queue.bytes = 0;
        queue.taken = 0;
        self.reuse(queue);
        rest
    }

    /// Keeps a few small drained queues for the next sessions; larger ones give their memory back.
    fn reuse(&mut self, queue: Box<Queue>) {
        if self.pool.len() < POOL && queue.items.capacity() <= POOLED_ITEMS {
            self.pool.push(queue);
        }
    }
}

impl Queue {
    /// The session ends: whoever waits for the queue to run empty hears what did not get out.
    fn tell_unsent(&mut self) {
        if let Some(Drained(call)) = self.drained.take() {
            call(self.items.iter().filter(|item| item.to == To::Kept).count());
        }
    }

    /// Puts `packet` in the place of the waiting presence of the same sender that it supersedes, if there is one.
    /// Answers the bytes that this saved. The first item stays: the transport may have taken a part of it.
    fn replace_superseded(&mut self, packet: &Packet, to: To) -> Option<usize> {
        if !is_state(packet) {
            return None;
        }
        let at = self.items.iter().skip(1).position(|item| {
            item.to == to && is_state(&item.packet) && item.packet.from_escaped() == packet.from_escaped()
        })? + 1;
        let item = self.items.get_mut(at)?;
        let (old, new) = (item.packet.bytes().len(), packet.bytes().len());
        if new > old {
            return None;
        }
        item.packet = packet.clone();
        self.bytes -= old - new;
        Some(old - new)
    }
}

/// Presence that tells a state, which a newer one of the same sender replaces entirely (RFC 6121 §4).
fn is_state(packet: &Packet) -> bool {
    packet.kind() == Kind::Presence && matches!(packet.type_(), StanzaType::Available | StanzaType::Unavailable)
}

impl Item {
    fn render(&self, address: &Jid, out: &mut Vec<u8>) {
        match self.to {
            To::Bare | To::Kept => self.packet.render(address.bare_str().as_bytes(), out),
            To::Full => match escaped(address) {
                None => self.packet.render(address.as_str().as_bytes(), out),
                Some(text) => self.packet.render(text.as_bytes(), out),
            },
        }
    }
}

fn rendered_len(packet: &Packet, address: &Jid, to: To) -> usize {
    packet.addressed_len(match to {
        To::Bare | To::Kept => address.bare_str().len(),
        To::Full => escaped(address).map_or(address.as_str().len(), |text| text.len()),
    })
}

/// The address as attribute text, where a character of the resource needs escaping: rare, so it isn't kept.
fn escaped(address: &Jid) -> Option<String> {
    let resource = address.resource()?;
    if resource.bytes().any(|byte| matches!(byte, b'\'' | b'"' | b'<' | b'>' | b'&')) {
        return Some(rookery_xml::escape_attr(address.as_str()).into_owned());
    }
    None
}

/// Drained queues kept for reuse, per shard.
const POOL: usize = 256;
/// Capacity above which a drained queue is freed instead.
const POOLED_ITEMS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn message(len: usize) -> Packet {
        let body = "x".repeat(len);
        Packet::scanned(format!("<message from='a@x/r'><body>{body}</body></message>").as_bytes()).unwrap()
    }

    fn presence(from: &str, show: &str) -> Packet {
        Packet::scanned(format!("<presence from='{from}'><show>{show}</show></presence>").as_bytes()).unwrap()
    }

    fn open(outboxes: &mut Outboxes, link: u32) -> Link {
        outboxes.open(Link(link), Jid::parse(&format!("u{link}@x/r")).unwrap());
        Link(link)
    }

    fn rendered(outboxes: &Outboxes, link: Link) -> String {
        let mut out = Vec::new();
        outboxes.render(link, usize::MAX, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_recipient_is_spliced_in_and_escaped() {
        let mut outboxes = Outboxes::default();
        outboxes.open(Link(0), Jid::parse("u@x/it's <me>").unwrap());
        assert_eq!(outboxes.push(Link(0), &message(1), To::Full), Pushed::Queued);
        assert_eq!(outboxes.push(Link(0), &message(1), To::Bare), Pushed::Queued);
        let text = rendered(&outboxes, Link(0));
        assert!(
            text.starts_with("<message to='u@x/it&apos;s &lt;me&gt;' from='a@x/r'>") || text.contains("&#39;"),
            "{text}"
        );
        assert!(text.contains("<message to='u@x' from="), "{text}");
    }

    #[test]
    fn what_the_transport_took_is_removed_and_the_rest_comes_back() {
        let mut outboxes = Outboxes::default();
        let link = open(&mut outboxes, 0);
        for _ in 0..3 {
            assert_eq!(outboxes.push(link, &message(10), To::Full), Pushed::Queued);
        }
        let all = rendered(&outboxes, link);
        let one = all.len() / 3;
        outboxes.sent(link, one + 5);
        assert_eq!(rendered(&outboxes, link), all[one + 5..]);
        assert_eq!(outboxes.waiting_bytes(link), all.len() - one - 5);
        assert_eq!(outboxes.abandon(link).len(), 2, "a stanza that went out in part counts as not sent");
        outboxes.close(link);
        assert_eq!(outboxes.waiting_total(), 0);
        assert_eq!(outboxes.push(link, &message(1), To::Full), Pushed::Gone);
    }

    #[test]
    fn what_is_abandoned_comes_back_once_and_a_begun_stanza_can_be_ended() {
        let mut outboxes = Outboxes::default();
        let link = open(&mut outboxes, 0);
        for len in 1..=3 {
            assert_eq!(outboxes.push(link, &message(len), To::Full), Pushed::Queued);
        }
        let whole = rendered(&outboxes, link);
        let first = whole.find("</message>").unwrap() + "</message>".len();
        outboxes.sent(link, first - 4);
        assert_eq!(outboxes.abandon(link).len(), 3);
        let mut rest = Vec::new();
        outboxes.unfinished(link, &mut rest);
        assert_eq!(rest, b"age>");
        assert_eq!(outboxes.push(link, &message(1), To::Full), Pushed::Gone);
        assert_eq!(outboxes.abandon(link).len(), 0);
        outboxes.close(link);
        assert_eq!(outboxes.waiting_total(), 0);
    }

    #[test]
    fn who_keeps_a_stanza_until_it_was_sent_hears_what_was_not() {
        let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let tell = |told: &std::sync::Arc<std::sync::Mutex<Vec<usize>>>| {
            let told = told.clone();
            move |unsent| told.lock().unwrap().push(unsent)
        };
        let mut outboxes = Outboxes::default();
        let link = open(&mut outboxes, 0);
        outboxes.when_drained(link, tell(&told));
        assert_eq!(*told.lock().unwrap(), [0], "nothing waits: at once");
        for to in [To::Kept, To::Bare, To::Kept, To::Kept] {
            assert_eq!(outboxes.push(link, &message(10), to), Pushed::Queued);
        }
        outboxes.when_drained(link, tell(&told));
        let one = rendered(&outboxes, link).len() / 4;
        outboxes.sent(link, one + 1);
        assert_eq!(*told.lock().unwrap(), [0]);
        let given_back = outboxes.abandon(link);
        assert_eq!(given_back.iter().map(|unsent| unsent.number).collect::<Vec<_>>(), [1], "only what nobody keeps");
        assert_eq!(*told.lock().unwrap(), [0, 2]);
    }

    #[test]
    fn above_the_soft_limit_newer_presence_replaces_older() {
        let mut outboxes = Outboxes::new(Limits { soft: 200, hard: 400, ..Limits::default() });
        let link = open(&mut outboxes, 0);
        assert_eq!(outboxes.push(link, &message(100), To::Full), Pushed::Queued);
        assert_eq!(outboxes.push(link, &presence("b@x/1", "away"), To::Bare), Pushed::Queued);
        assert_eq!(outboxes.push(link, &presence("b@x/1", "chat"), To::Bare), Pushed::Queued);
        let text = rendered(&outboxes, link);
        assert!(text.contains("chat") && !text.contains("away"), "{text}");
        assert_eq!(outboxes.push(link, &message(300), To::Full), Pushed::Overflow);
        assert_eq!(rendered(&outboxes, link), text, "what is refused changes nothing");
    }

    #[test]
    fn a_full_shard_refuses_the_fattest_queues() {
        let mut outboxes = Outboxes::new(Limits { soft: 300, hard: 10_000, total: 1000 });
        let (fat, thin) = (open(&mut outboxes, 0), open(&mut outboxes, 1));
        while outboxes.waiting_total() <= 1000 {
            assert_eq!(outboxes.push(fat, &message(100), To::Full), Pushed::Queued);
        }
        assert_eq!(outboxes.push(fat, &message(100), To::Full), Pushed::Overflow);
        assert_eq!(outboxes.push(thin, &message(100), To::Full), Pushed::Queued);
    }
}
