//! The managed sessions whose unacknowledged stanzas have changed since the last look, for code
//! that keeps a second copy of them.
//!
//! # Invariants
//!
//! * If nobody keeps a copy, a push costs one test of a pointer.
//! * A copy has the same stanzas in the same order as the outbox, except for later changes. Entries
//!   after a changed place are written again under later numbers, so the order of the numbers is
//!   the order in which the client gets the stanzas.

use std::collections::VecDeque;

use super::carried::{CarriedStanza, carry_item};
use super::item::{OutboxItem, To};
use super::{Link, Outboxes};

/// The stanzas of a session of which a copy exists, oldest first.
#[derive(Debug, Default)]
pub struct CopiedStanzas {
    known: VecDeque<CopiedStanza>,
    last: u64,
}

#[derive(Debug, Clone, Copy)]
struct CopiedStanza {
    /// Its number in the copy.
    place: u64,
    /// Its number in the outbox, and the place of its bytes: presence may replace another.
    is: (u64, usize),
}

/// The difference between an outbox and a copy.
#[derive(Debug, Default)]
pub struct OutboxDelta {
    /// The number of stanzas that the client has acknowledged.
    pub acknowledged: u32,
    /// The numbers of stanzas that are no longer in the outbox.
    pub gone: Vec<u64>,
    /// New stanzas with their numbers.
    pub new: Vec<(u64, CarriedStanza)>,
}

impl CopiedStanzas {
    /// Returns the numbers of all stanzas in the copy.
    pub fn places(&self) -> impl Iterator<Item = u64> {
        self.known.iter().map(|known| known.place)
    }
}

impl Outboxes {
    /// Notes from now on which managed sessions change.
    pub fn note_changes(&mut self) {
        self.changes.get_or_insert_default();
    }

    /// Returns the number of pushes to managed sessions so far, while changes are noted.
    #[inline]
    pub fn noted_pushes(&self) -> u64 {
        self.changes.as_ref().map_or(0, |changes| changes.pushes)
    }

    /// Notes that a session has changed, if anybody wants to know.
    #[inline]
    pub fn note(&mut self, link: Link) {
        if self.changes.is_some() {
            self.note_change(link);
        }
    }

    #[cold]
    fn note_change(&mut self, link: Link) {
        if let Some(changes) = &mut self.changes
            && let Some(slot) = self.slots.get_mut(link)
            && !std::mem::replace(&mut slot.changed, true)
        {
            changes.links.push_back(link);
        }
    }

    /// Notes a push to a session.
    #[cold]
    pub(super) fn note_push(&mut self, link: Link) {
        let queue = self.slots.get(link).and_then(|slot| slot.queue.as_ref());
        if queue.is_some_and(|queue| queue.managed.is_some()) {
            self.changes.iter_mut().for_each(|changes| changes.pushes += 1);
            self.note(link);
        }
    }

    /// Takes the session that has changed first; `None` if none has.
    pub fn take_changed(&mut self) -> Option<Link> {
        let link = self.changes.as_mut()?.links.pop_front()?;
        self.slots.get_mut(link).into_iter().for_each(|slot| slot.changed = false);
        Some(link)
    }

    /// Returns whether any session has changed.
    pub fn has_changed(&self) -> bool {
        self.changes.as_ref().is_some_and(|changes| !changes.links.is_empty())
    }

    /// Brings a copy of a session's stanzas up to date, and returns the changes for that; `None` if
    /// the session is not [portable](Outboxes::is_portable).
    pub fn delta(&self, link: Link, copy: &mut CopiedStanzas) -> Option<OutboxDelta> {
        if !self.is_portable(link) {
            return None;
        }
        let queue = self.slots.get(link)?.queue.as_ref()?;
        let managed = queue.managed.as_ref()?;
        let mut delta = OutboxDelta { acknowledged: managed.count_acknowledged(), ..OutboxDelta::default() };
        let waiting = queue.items.iter().filter(|item| item.to != To::Nobody).skip(managed.ahead as usize);
        let is = |item: &OutboxItem| (item.number, item.packet.bytes().as_ptr() as usize);
        let mut at = 0;
        for item in managed.unacked.iter().chain(waiting) {
            while copy.known.get(at).is_some_and(|known| known.is != is(item)) {
                delta.gone.extend(copy.known.remove(at).map(|known| known.place));
            }
            if at == copy.known.len() {
                copy.last += 1;
                copy.known.push_back(CopiedStanza { place: copy.last, is: is(item) });
                delta.new.push((copy.last, carry_item(item)));
            }
            at += 1;
        }
        delta.gone.extend(copy.known.drain(at..).map(|known| known.place));
        Some(delta)
    }

    /// Takes note of the number of stanzas that the client of a session which continues from a copy
    /// has handled: it may have got more than the copy knew of.
    pub fn recount(&mut self, link: Link, h: u32) {
        let Some(managed) = self.slots.get_mut(link).and_then(|slot| slot.queue.as_mut()?.managed.as_mut()) else {
            return;
        };
        let (news, known) = (h.wrapping_sub(managed.count_acknowledged()), managed.unacked.len() as u32);
        if news > i32::MAX as u32 || news <= known {
            return;
        }
        let all = managed.count_acknowledged().wrapping_add(known);
        // It has been sent that many, so this can't fail.
        _ = self.acknowledge(link, all);
        let managed = self.slots.get_mut(link).and_then(|slot| slot.queue.as_mut()?.managed.as_mut());
        managed.into_iter().for_each(|managed| managed.sent = h);
    }
}

#[cfg(test)]
mod tests {
    use rookery_jid::Jid;

    use super::*;
    use crate::{OutboxLimits, Packet, UnackedBounds};

    const BOUNDS: UnackedBounds = UnackedBounds { stanzas: 100, bytes: 100_000 };
    const LINK: Link = Link(0);

    fn outboxes() -> Outboxes {
        let mut outboxes = Outboxes::new(OutboxLimits::default());
        outboxes.note_changes();
        outboxes.open(LINK, Jid::parse("a@x/r").unwrap());
        outboxes.manage(LINK, BOUNDS, false);
        outboxes
    }

    fn push(outboxes: &mut Outboxes, body: &str) {
        let packet = format!("<message from='b@x/r'><body>{body}</body></message>");
        _ = outboxes.push(LINK, &Packet::from_bytes(packet.as_bytes()).unwrap(), To::Full);
    }

    fn send_all(outboxes: &mut Outboxes) {
        let mut out = Vec::new();
        outboxes.render(LINK, usize::MAX, &mut out);
        outboxes.remove_sent(LINK, out.len());
    }

    fn places(delta: &OutboxDelta) -> Vec<u64> {
        delta.new.iter().map(|(place, _)| *place).collect()
    }

    #[test]
    fn a_copy_follows_what_comes_and_what_is_acknowledged() {
        let (mut outboxes, mut copy) = (outboxes(), CopiedStanzas::default());
        push(&mut outboxes, "one");
        push(&mut outboxes, "two");
        assert_eq!((outboxes.noted_pushes(), outboxes.take_changed(), outboxes.take_changed()), (2, Some(LINK), None));
        assert_eq!(places(&outboxes.delta(LINK, &mut copy).unwrap()), [1, 2]);
        send_all(&mut outboxes);
        push(&mut outboxes, "three");
        outboxes.acknowledge(LINK, 1).unwrap();
        assert!(outboxes.has_changed());
        let delta = outboxes.delta(LINK, &mut copy).unwrap();
        assert_eq!((delta.acknowledged, delta.gone.as_slice(), places(&delta)), (1, &[1][..], vec![3]));
        let delta = outboxes.delta(LINK, &mut copy).unwrap();
        assert!(delta.gone.is_empty() && delta.new.is_empty());
        assert_eq!(copy.places().collect::<Vec<_>>(), [2, 3]);
    }

    #[test]
    fn what_leaves_from_the_middle_does_not_change_the_order() {
        let (mut outboxes, mut copy) = (outboxes(), CopiedStanzas::default());
        outboxes.detach(LINK);
        let presence = |show: &str| {
            Packet::from_bytes(format!("<presence from='b@x/r'><show>{show}</show></presence>").as_bytes()).unwrap()
        };
        _ = outboxes.push(LINK, &presence("away"), To::Full);
        push(&mut outboxes, "one");
        outboxes.delta(LINK, &mut copy).unwrap();
        _ = outboxes.push(LINK, &presence("dnd"), To::Full);
        let delta = outboxes.delta(LINK, &mut copy).unwrap();
        assert_eq!((delta.gone.as_slice(), places(&delta)), (&[1][..], vec![3]));
    }

    #[test]
    fn a_client_may_have_more_than_the_copy_knew_of() {
        let mut outboxes = outboxes();
        push(&mut outboxes, "one");
        send_all(&mut outboxes);
        outboxes.detach(LINK);
        push(&mut outboxes, "new");
        outboxes.recount(LINK, 7);
        assert_eq!(outboxes.sent_and_unacknowledged(LINK), Some((7, 0)));
        outboxes.resume(LINK);
        send_all(&mut outboxes);
        assert_eq!(outboxes.sent_and_unacknowledged(LINK), Some((8, 1)));
        assert!(outboxes.acknowledge(LINK, 9).is_err());
    }

    #[test]
    fn nothing_is_noted_that_nobody_wants_to_know() {
        let mut outboxes = Outboxes::new(OutboxLimits::default());
        outboxes.open(LINK, Jid::parse("a@x/r").unwrap());
        outboxes.manage(LINK, BOUNDS, false);
        push(&mut outboxes, "one");
        assert_eq!((outboxes.noted_pushes(), outboxes.has_changed()), (0, false));
    }
}
