//! Stream management (XEP-0198) of the stanzas that a session is sent: they wait until their client
//! has acknowledged them.
//!
//! # Invariants
//!
//! * A stanza is in exactly one place: it waits, or it was sent and is not acknowledged, or it is
//!   gone. Sent stanzas stay as the same references; nothing is copied.
//! * The number of stanzas that were sent and are not acknowledged is the difference of the two
//!   counters, both modulo 2^32 (§4).
//! * Waiting and unacknowledged stanzas are bounded together, in number and bytes; one stanza more
//!   ends the session.
//! * At most one request for an acknowledgement is open, and not every stanza is followed by one:
//!   see [`Outboxes::ask`]. Over BOSH none is needed: the client's next request shows which
//!   responses it has got (XEP-0124 §9, §14).

use std::collections::VecDeque;

use super::item::{OutboxItem, To, rendered_len};
use super::queue::{Drained, OutboxQueue, QueueTally, Roomy};
use super::quiet::{self, Urgency};
use super::unacked::{Asking, ManagedQueue, UnackedBounds};
use super::{Attention, Link, Outboxes};
use crate::packet::Packet;

/// An acknowledgement of more stanzas than were sent (XEP-0198 §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooHigh {
    /// The number of stanzas that were sent.
    pub sent: u32,
}

impl Outboxes {
    /// Begins to count the stanzas that a session is sent, and to keep them until they are
    /// acknowledged. Stanzas that wait already are counted only if `counts_waiting` says that the
    /// client will count them.
    pub fn manage(&mut self, link: Link, bounds: UnackedBounds, counts_waiting: bool) {
        let Some(slot) = self.slots.get_mut(link).filter(|slot| slot.address.is_some()) else { return };
        let queue = slot.queue.get_or_insert_with(|| self.pool.pop().unwrap_or_default());
        debug_assert!(queue.managed.is_none(), "a count begins once");
        queue.managed = Some(Box::new(ManagedQueue {
            unacked: VecDeque::new(),
            bytes: 0,
            sent: 0,
            ahead: 0,
            uncounted: if counts_waiting { 0 } else { queue.items.len() },
            bounds,
            asked: false,
            question: 0,
            asking: false,
        }));
    }

    /// Appends an element that isn't a stanza, see [`To::Nobody`].
    pub fn push_element(&mut self, link: Link, packet: &Packet) {
        let Some(slot) = self.slots.get_mut(link) else { return };
        if slot.abandoned || slot.address.is_none() || slot.attention == Attention::Detached {
            return;
        }
        let queue = slot.queue.get_or_insert_with(|| self.pool.pop().unwrap_or_default());
        let size = packet.bytes().len();
        debug_assert!(packet.kind() == rookery_xml::Kind::Other, "a stanza would be counted");
        queue.put(
            OutboxItem { packet: packet.clone(), to: To::Nobody, paced: false, tag: 0, number: self.pushed },
            size,
        );
        self.waiting += size;
        self.mark(link);
    }

    /// Takes note that the client has handled `h` stanzas of the stream (§4). A count below an
    /// earlier one is ignored.
    ///
    /// # Errors
    /// The client was never sent that many.
    pub fn acknowledge(&mut self, link: Link, h: u32) -> Result<(), TooHigh> {
        let Some(slot) = self.slots.get_mut(link) else { return Ok(()) };
        let (Some(queue), Some(address)) = (&mut slot.queue, &slot.address) else { return Ok(()) };
        let OutboxQueue { managed: Some(managed), items, .. } = &**queue else { return Ok(()) };
        let news = h.wrapping_sub(managed.count_acknowledged());
        if news > i32::MAX as u32 {
            return Ok(());
        }
        let on_the_way = items.iter().skip(managed.uncounted).filter(|item| item.to != To::Nobody).count() as u32;
        if news > managed.unacked.len() as u32 + on_the_way.saturating_sub(managed.ahead) {
            return Err(TooHigh { sent: managed.sent });
        }
        for _ in 0..news {
            let Some(managed) = &mut queue.managed else { break };
            let Some(item) = managed.unacked.pop_front() else {
                managed.ahead += 1;
                continue;
            };
            let size = rendered_len(&item.packet, address, item.to);
            queue.note_acknowledged(&item, size);
            debug_assert!(self.waiting >= size, "what is acknowledged was held");
            self.waiting = self.waiting.saturating_sub(size);
        }
        let Some(managed) = &mut queue.managed else { return Ok(()) };
        debug_assert!(managed.count_acknowledged() == h, "what is acknowledged is what the client says");
        managed.asked = false;
        if managed.unacked.is_empty() {
            managed.unacked.shrink_to(IDLE_CAPACITY);
        } else if slot.transport.is_managed() && !std::mem::replace(&mut managed.asking, true) {
            self.asking.push(Asking::Later(link));
        }
        let (drained, has_room) = (queue.take_drained(), queue.take_those_in_wait(self.limits.soft));
        if queue.fat() > 0 {
            self.weigh(link);
        }
        if let Some(Drained(call)) = drained {
            call(0);
        }
        has_room.into_iter().for_each(|Roomy(call)| call());
        if news > 0 {
            self.note(link);
        }
        self.assert_whole(link);
        Ok(())
    }

    /// Returns the number of stanzas that the session has been sent, and of those that it has not
    /// acknowledged; `None` if it is not managed.
    #[inline]
    pub fn sent_and_unacknowledged(&self, link: Link) -> Option<(u32, usize)> {
        let managed = self.managed_queue(link)?;
        Some((managed.sent, managed.unacked.len()))
    }

    /// Returns the most stanzas of a managed session: those that wait for it or are unacknowledged,
    /// without those that don't count against its bound.
    pub fn most_held(&self) -> usize {
        let queues = self.slots.iter().filter_map(|slot| slot.queue.as_ref());
        let counts = queues.filter_map(|queue| {
            let elements = queue.items.iter().filter(|item| item.to == To::Nobody).count();
            Some(queue.count_for_bound(queue.managed.as_ref()?).saturating_sub(elements))
        });
        counts.max().unwrap_or_default()
    }

    /// Makes everything wait from now on, including stanzas that were being sent, since the
    /// connection of a managed session is gone.
    pub fn detach(&mut self, link: Link) {
        let Some(slot) = self.slots.get_mut(link).filter(|slot| slot.address.is_some()) else { return };
        slot.attention = Attention::Detached;
        let Some(queue) = &mut slot.queue else { return };
        queue.taken = 0;
        queue.committed = 0;
        let before_count = queue.managed.as_ref().map_or(0, |managed| managed.uncounted);
        let (mut at, mut freed, mut elements_before_count) = (0, 0, 0);
        queue.items.retain(|item| {
            let stays = item.to != To::Nobody;
            if !stays {
                freed += item.packet.bytes().len();
                elements_before_count += usize::from(at < before_count);
            }
            at += 1;
            stays
        });
        debug_assert!(queue.bytes >= freed && self.waiting >= freed, "elements were counted");
        queue.bytes -= freed;
        self.waiting = self.waiting.saturating_sub(freed);
        if let Some(managed) = &mut queue.managed {
            debug_assert!(managed.uncounted >= elements_before_count, "they were before the count");
            managed.uncounted -= elements_before_count;
            (managed.asked, managed.asking) = (false, false);
        }
        self.assert_whole(link);
    }

    /// Returns the newest urgent stanza that the client of a session has not acknowledged.
    pub fn newest_urgent(&self, link: Link) -> Option<Packet> {
        let queue = self.slots.get(link)?.queue.as_ref()?;
        let unacked = queue.managed.iter().flat_map(|managed| &managed.unacked);
        let mut all = unacked.chain(&queue.items).rev();
        all.find(|item| quiet::urgency(&item.packet) == Urgency::Now).map(|item| item.packet.clone())
    }

    /// Continues a detached session over a new connection, whose client has acknowledged everything
    /// that it has handled: stanzas that it lacks wait again, before newer ones.
    pub fn resume(&mut self, link: Link) {
        let Some(slot) = self.slots.get_mut(link) else { return };
        debug_assert!(slot.attention == Attention::Detached && !slot.abandoned, "it was without a connection");
        slot.attention = Attention::Active;
        let (Some(queue), Some(address)) = (&mut slot.queue, &slot.address) else { return };
        let Some(managed) = &mut queue.managed else { return };
        // The stanzas before the count were sent before the client learned that there is a count,
        // without which nobody can resume.
        let known = managed.uncounted + managed.ahead as usize;
        managed.sent = managed.count_acknowledged();
        (managed.uncounted, managed.ahead) = (0, 0);
        let mut unacked = std::mem::take(&mut managed.unacked);
        queue.bytes += std::mem::take(&mut managed.bytes);
        if let Some(much) = &mut queue.much {
            let paced = std::mem::take(&mut much.unacked);
            queue.bytes = queue.bytes.saturating_sub(paced.bytes);
            much.waiting =
                QueueTally { items: much.waiting.items + paced.items, bytes: much.waiting.bytes + paced.bytes };
        }
        for _ in 0..known {
            let Some(item) = queue.items.pop_front() else { break };
            let size = rendered_len(&item.packet, address, item.to);
            queue.take_off(&item, size);
            self.waiting = self.waiting.saturating_sub(size);
        }
        while let Some(item) = unacked.pop_back() {
            queue.items.push_front(item);
        }
        self.assert_whole(link);
        self.mark(link);
    }

    /// Continues a detached session over its previous connection: its client has been sent this
    /// number of stanzas in all, and gets those that follow. Unacknowledged stanzas stay so.
    /// Returns `false`, and does nothing, if it can't have been sent that many.
    pub fn take_up(&mut self, link: Link, sent: u32) -> bool {
        let Some(slot) = self.slots.get_mut(link).filter(|slot| slot.attention == Attention::Detached) else {
            return false;
        };
        let (Some(queue), Some(address), false) = (&mut slot.queue, &slot.address, slot.abandoned) else {
            return false;
        };
        let Some(managed) = &mut queue.managed else { return false };
        let got = sent.wrapping_sub(managed.count_acknowledged()) as usize;
        if got > managed.unacked.len() || managed.ahead > 0 || managed.uncounted > 0 {
            return false;
        }
        let rest = managed.unacked.split_off(got);
        (managed.sent, managed.asked, managed.asking) = (sent, false, false);
        for item in rest.into_iter().rev() {
            let size = rendered_len(&item.packet, address, item.to);
            queue.take_back(item, size);
        }
        slot.attention = Attention::Active;
        self.assert_whole(link);
        self.note(link);
        self.mark(link);
        true
    }

    /// Asks for an acknowledgement when it is time for that: everything was sent, and it was
    /// much, or some time has passed (`is_late`). That way sparse stanzas share one request, and
    /// a long run gets one at its end.
    pub fn ask(&mut self, link: Link, is_late: bool) {
        let Some(slot) = self.slots.get_mut(link) else { return };
        let Some(queue) = slot.queue.as_mut().filter(|_| slot.attention != Attention::Detached) else { return };
        let Some(managed) = queue.managed.as_mut().filter(|_| slot.transport.is_managed()) else { return };
        if is_late {
            managed.asking = false;
        }
        if managed.asked || managed.unacked.is_empty() || !queue.items.is_empty() {
            return;
        }
        if is_late || managed.owes_much() {
            debug_assert!(queue.taken == 0, "a request follows whole stanzas");
            managed.asked = true;
            managed.question = managed.question.wrapping_add(1);
            self.asking.push(Asking::Asked(link, managed.question));
            let request = self.request.get_or_insert_with(request).clone();
            self.push_element(link, &request);
        } else if !std::mem::replace(&mut managed.asking, true) {
            self.asking.push(Asking::Later(link));
        }
    }

    /// Returns whether a request for acknowledgement is open although the system has taken it from
    /// us.
    #[inline]
    pub fn is_open(&self, link: Link, question: u16) -> bool {
        self.managed_queue(link).is_some_and(|managed| managed.asked && managed.question == question)
            && !self.has_waiting(link)
    }

    /// Returns the sessions that the driver has to look at later, since the last call.
    pub fn take_asking(&mut self) -> Vec<Asking> {
        std::mem::take(&mut self.asking)
    }

    fn managed_queue(&self, link: Link) -> Option<&ManagedQueue> {
        self.slots.get(link)?.queue.as_ref()?.managed.as_deref()
    }
}

fn request() -> Packet {
    Packet::element(&rookery_xml::Writer::with_ns("r", rookery_xml::ns::SM).finish())
}

/// Places for sent stanzas that an idle session keeps.
const IDLE_CAPACITY: usize = 4;

const _: () = assert!(IDLE_CAPACITY < ManagedQueue::ASK_STANZAS, "a session that owes an acknowledgement is not idle");

#[cfg(test)]
mod tests {
    use rookery_jid::Jid;

    use super::*;

    const LINK: Link = Link(0);

    /// Returns a managed session that was sent nothing, with the counts of both sides so far.
    fn manage(count: u32) -> Outboxes {
        let mut outboxes = Outboxes::default();
        outboxes.open(LINK, Jid::parse("u@x/r").unwrap());
        outboxes.manage(LINK, UnackedBounds { stanzas: 10, bytes: 10_000 }, false);
        let queue = outboxes.slots.get_mut(LINK).unwrap().queue.as_mut().unwrap();
        queue.managed.as_mut().unwrap().sent = count;
        outboxes
    }

    fn push(outboxes: &mut Outboxes, bodies: &[&str]) {
        for body in bodies {
            let stanza = format!("<message from='a@x/r'><body>{body}</body></message>");
            let packet = Packet::from_bytes(stanza.as_bytes()).unwrap();
            assert_eq!(outboxes.push(LINK, &packet, To::Full), super::super::PushOutcome::Queued);
        }
    }

    fn render_all(outboxes: &mut Outboxes) -> String {
        let mut out = Vec::new();
        outboxes.render(LINK, usize::MAX, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn send_all(outboxes: &mut Outboxes) {
        let bytes = render_all(outboxes).len();
        outboxes.remove_sent(LINK, bytes);
    }

    /// Returns the bodies that wait, in order.
    fn bodies(outboxes: &mut Outboxes) -> Vec<String> {
        let text = render_all(outboxes);
        text.split("<body>").skip(1).map(|rest| rest.split('<').next().unwrap().to_owned()).collect()
    }

    fn resume(outboxes: &mut Outboxes, h: u32) -> Vec<String> {
        outboxes.acknowledge(LINK, h).unwrap();
        outboxes.detach(LINK);
        outboxes.resume(LINK);
        bodies(outboxes)
    }

    #[test]
    fn what_was_sent_waits_for_its_acknowledgement() {
        let mut outboxes = manage(0);
        push(&mut outboxes, &["1", "2", "3"]);
        send_all(&mut outboxes);
        assert_eq!(outboxes.sent_and_unacknowledged(LINK), Some((3, 3)));
        assert_eq!(outboxes.acknowledge(LINK, 4), Err(TooHigh { sent: 3 }));
        outboxes.acknowledge(LINK, 2).unwrap();
        outboxes.acknowledge(LINK, 1).unwrap();
        assert_eq!(outboxes.sent_and_unacknowledged(LINK), Some((3, 1)), "less than before says nothing");
        push(&mut outboxes, &["4"]);
        assert_eq!(resume(&mut outboxes, 2), ["3", "4"]);
        send_all(&mut outboxes);
        outboxes.acknowledge(LINK, 4).unwrap();
        assert_eq!(outboxes.waiting_total(), 0);
    }

    /// A connection continues at another home: stanzas that were sent to its client stay
    /// unacknowledged, and the others are sent.
    #[test]
    fn a_connection_goes_on_behind_what_it_was_sent() {
        for (sent, rest) in [(1, &["2", "3", "4"][..]), (2, &["3", "4"]), (3, &["4"])] {
            let mut outboxes = manage(0);
            push(&mut outboxes, &["1", "2", "3"]);
            send_all(&mut outboxes);
            outboxes.acknowledge(LINK, 1).unwrap();
            assert!(!outboxes.take_up(LINK, sent), "it has a connection");
            push(&mut outboxes, &["4"]);
            outboxes.detach(LINK);
            assert!(!outboxes.take_up(LINK, 0) && !outboxes.take_up(LINK, 4), "it can't have got so many");
            assert!(outboxes.take_up(LINK, sent));
            assert_eq!(outboxes.sent_and_unacknowledged(LINK), Some((sent, sent as usize - 1)));
            assert_eq!(bodies(&mut outboxes), rest);
            send_all(&mut outboxes);
            outboxes.acknowledge(LINK, 4).unwrap();
            assert_eq!((outboxes.waiting_total(), outboxes.waiting_bytes(LINK)), (0, 0));
        }
    }

    /// XEP-0198 §4: after 2^32 - 1 comes 0.
    #[test]
    fn counters_begin_again() {
        let mut outboxes = manage(u32::MAX - 1);
        push(&mut outboxes, &["1", "2", "3", "4"]);
        send_all(&mut outboxes);
        assert_eq!(outboxes.sent_and_unacknowledged(LINK), Some((2, 4)));
        outboxes.acknowledge(LINK, u32::MAX).unwrap();
        outboxes.acknowledge(LINK, 1).unwrap();
        assert_eq!(outboxes.sent_and_unacknowledged(LINK), Some((2, 1)));
        assert_eq!(resume(&mut outboxes, 1), ["4"]);
    }

    /// With TLS a run leaves as a whole: the client may have stanzas of it that still count as
    /// waiting.
    #[test]
    fn a_client_may_be_ahead_of_our_books() {
        let mut outboxes = manage(0);
        push(&mut outboxes, &["1", "2", "3"]);
        let bytes = render_all(&mut outboxes).len();
        outboxes.commit(LINK, bytes);
        assert_eq!(outboxes.acknowledge(LINK, 4), Err(TooHigh { sent: 0 }));
        outboxes.acknowledge(LINK, 2).unwrap();
        push(&mut outboxes, &["4"]);
        outboxes.remove_sent(LINK, bytes);
        assert_eq!(outboxes.sent_and_unacknowledged(LINK), Some((3, 1)));
        assert_eq!(resume(&mut outboxes, 2), ["3", "4"]);
        let bytes = render_all(&mut outboxes).len();
        outboxes.commit(LINK, bytes);
        assert_eq!(resume(&mut outboxes, 3), ["4"], "the rest of the run never came");
        send_all(&mut outboxes);
        outboxes.acknowledge(LINK, 4).unwrap();
        assert_eq!((outboxes.waiting_total(), outboxes.waiting_bytes(LINK)), (0, 0));
    }

    /// Stanzas that waited before the count began are sent before the client hears of it, and never
    /// again.
    #[test]
    fn what_precedes_the_count_does_not_count() {
        let mut outboxes = Outboxes::default();
        outboxes.open(LINK, Jid::parse("u@x/r").unwrap());
        push(&mut outboxes, &["before"]);
        outboxes.manage(LINK, UnackedBounds { stanzas: 10, bytes: 10_000 }, false);
        outboxes.push_element(LINK, &request());
        push(&mut outboxes, &["1"]);
        let bytes = render_all(&mut outboxes).len();
        outboxes.commit(LINK, bytes);
        assert_eq!(resume(&mut outboxes, 0), ["1"]);
    }

    /// Presence for an inactive client waits before the count begins, and the presence that
    /// replaces it comes after that.
    #[test]
    fn what_is_superseded_before_the_count_leaves_the_count_right() {
        let mut outboxes = Outboxes::default();
        outboxes.open(LINK, Jid::parse("u@x/r").unwrap());
        outboxes.set_active(LINK, false);
        let show = |outboxes: &mut Outboxes| {
            for sender in ["a@x/r", "b@x/r"] {
                let presence = Packet::from_bytes(format!("<presence from='{sender}'/>").as_bytes()).unwrap();
                assert_eq!(outboxes.push(LINK, &presence, To::Full), super::super::PushOutcome::Queued);
            }
        };
        show(&mut outboxes);
        outboxes.manage(LINK, UnackedBounds { stanzas: 10, bytes: 10_000 }, false);
        outboxes.push_element(LINK, &request());
        show(&mut outboxes);
        send_all(&mut outboxes);
        assert_eq!(outboxes.sent_and_unacknowledged(LINK), Some((2, 2)));
    }

    #[test]
    fn what_ends_unacknowledged_is_given_back_in_order() {
        let mut outboxes = manage(0);
        push(&mut outboxes, &["1", "2"]);
        send_all(&mut outboxes);
        push(&mut outboxes, &["3"]);
        outboxes.acknowledge(LINK, 1).unwrap();
        let unsent = outboxes.abandon(LINK);
        assert_eq!(unsent.iter().map(|unsent| unsent.number).collect::<Vec<_>>(), [1, 2]);
        outboxes.close(LINK);
        assert_eq!(outboxes.waiting_total(), 0);
    }

    #[test]
    fn an_idle_managed_session_is_small() {
        let idle = size_of::<OutboxQueue>() + size_of::<ManagedQueue>() + IDLE_CAPACITY * size_of::<OutboxItem>();
        assert!(idle <= 328, "{idle}");
    }
}
