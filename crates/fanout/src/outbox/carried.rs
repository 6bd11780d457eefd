//! The unacknowledged and the waiting stanzas of a managed session, as data that outlives its
//! outbox: for a session that continues in another process.

use super::item::{OutboxItem, To, rendered_len};
use super::quiet::{self, Urgency};
use super::unacked::{ManagedQueue, UnackedBounds};
use super::{Attention, Link, Outboxes};
use crate::packet::Packet;

/// The stanzas of a managed session without a connection.
#[derive(Debug, Default)]
pub struct Carried {
    /// The number of stanzas that the client has acknowledged.
    pub acknowledged: u32,
    /// Stanzas that were sent and are not acknowledged, oldest first.
    pub unacked: Vec<CarriedStanza>,
    /// Stanzas that were not sent, oldest first.
    pub waiting: Vec<CarriedStanza>,
}

/// One stanza for the session, with everything that its rendering needs.
#[derive(Debug, Clone)]
pub struct CarriedStanza {
    /// The stanza in the form that all its recipients share.
    pub packet: Packet,
    /// The `to` that its copy carries.
    pub to: To,
    /// True if it is sent as fast as the client reads; see [`paced`](super::paced).
    pub paced: bool,
    /// The number of copies that the shard had taken before this one: see
    /// [`Outboxes::pushed_total`].
    pub number: u64,
}

impl Outboxes {
    /// Returns whether nobody but the client waits for the contents of a managed session's outbox:
    /// no other code keeps a stanza until it was sent, or has more to send then.
    pub fn is_portable(&self, link: Link) -> bool {
        let Some(queue) = self.slots.get(link).and_then(|slot| slot.queue.as_ref()) else { return false };
        let Some(managed) = &queue.managed else { return false };
        let has_more = queue.much.as_ref().is_some_and(|much| !much.in_wait.is_empty());
        let is_kept = queue.items.iter().chain(&managed.unacked).any(|item| item.to == To::Kept);
        managed.uncounted == 0 && queue.drained.is_none() && !has_more && !is_kept
    }

    /// Returns the stanzas of a session that is [portable](Outboxes::is_portable).
    pub fn carried_stanzas(&self, link: Link) -> Option<Carried> {
        if !self.is_portable(link) {
            return None;
        }
        let queue = self.slots.get(link)?.queue.as_ref()?;
        let managed = queue.managed.as_ref()?;
        let stanzas = queue.items.iter().filter(|item| item.to != To::Nobody);
        Some(Carried {
            acknowledged: managed.count_acknowledged(),
            unacked: managed.unacked.iter().map(carry_item).collect(),
            // The client has these stanzas already, though their bytes still count as waiting.
            waiting: stanzas.skip(managed.ahead as usize).map(carry_item).collect(),
        })
    }

    /// Gives a new outbox the stanzas of a session from another process. It has no connection yet.
    pub fn carry_on(&mut self, link: Link, carried: Carried, bounds: UnackedBounds) {
        let Some(slot) = self.slots.get_mut(link) else { return };
        let Some(address) = slot.address.clone() else { return };
        debug_assert!(slot.queue.is_none(), "the outbox is new");
        slot.attention = Attention::Detached;
        let Carried { acknowledged, unacked, waiting } = carried;
        let mut queue = self.pool.pop().unwrap_or_default();
        let mut managed = Box::new(ManagedQueue {
            unacked: Default::default(),
            bytes: 0,
            sent: acknowledged.wrapping_add(unacked.len() as u32),
            ahead: 0,
            uncounted: 0,
            bounds,
            asked: false,
            question: 0,
            asking: false,
        });
        for stanza in unacked {
            let item = item(stanza, 0);
            let size = rendered_len(&item.packet, &address, item.to);
            if item.paced {
                let tally = &mut queue.much.get_or_insert_default().unacked;
                (tally.items, tally.bytes) = (tally.items + 1, tally.bytes + size);
            }
            managed.bytes += size;
            self.waiting += size;
            self.pushed = self.pushed.max(item.number + 1);
            managed.unacked.push_back(item);
        }
        queue.managed = Some(managed);
        for stanza in waiting {
            let tag = match quiet::urgency(&stanza.packet) {
                Urgency::Latest(tag) => tag,
                _ => 0,
            };
            let item = item(stanza, tag);
            let size = rendered_len(&item.packet, &address, item.to);
            self.waiting += size;
            self.pushed = self.pushed.max(item.number + 1);
            queue.put(item, size);
        }
        let is_much = queue.held_bytes() > self.limits.soft;
        slot.queue = Some(queue);
        if is_much {
            self.weigh(link);
        }
        self.note(link);
        self.assert_whole(link);
    }
}

pub(super) fn carry_item(item: &OutboxItem) -> CarriedStanza {
    let OutboxItem { packet, to, paced, number, .. } = item;
    CarriedStanza { packet: packet.clone(), to: *to, paced: *paced, number: *number }
}

fn item(stanza: CarriedStanza, tag: u32) -> OutboxItem {
    let CarriedStanza { packet, to, paced, number } = stanza;
    OutboxItem { packet, to, paced, tag, number }
}

#[cfg(test)]
mod tests {
    use rookery_jid::Jid;

    use super::super::PushOutcome;
    use super::*;

    const LINK: Link = Link(0);
    const BOUNDS: UnackedBounds = UnackedBounds { stanzas: 100, bytes: 100_000 };

    fn outboxes() -> Outboxes {
        let mut outboxes = Outboxes::default();
        outboxes.open(LINK, Jid::parse("u@x/r").unwrap());
        outboxes
    }

    fn push(outboxes: &mut Outboxes, bodies: &[&str], to: To) {
        for body in bodies {
            let stanza = format!("<message from='a@x/r'><body>{body}</body></message>");
            let packet = Packet::from_bytes(stanza.as_bytes()).unwrap();
            assert!(matches!(outboxes.push(LINK, &packet, to), PushOutcome::Queued | PushOutcome::Unattended));
        }
    }

    fn render_all(outboxes: &Outboxes) -> Vec<u8> {
        let mut out = Vec::new();
        outboxes.render(LINK, usize::MAX, &mut out);
        out
    }

    /// Returns the bodies that a client gets when it comes back in another process with `h`.
    fn elsewhere(outboxes: &Outboxes, h: u32) -> Vec<String> {
        let mut others = self::outboxes();
        others.carry_on(LINK, outboxes.carried_stanzas(LINK).unwrap(), BOUNDS);
        others.acknowledge(LINK, h).unwrap();
        others.resume(LINK);
        let text = String::from_utf8(render_all(&others)).unwrap();
        let bodies = text.split("<body>").skip(1).map(|rest| rest.split('<').next().unwrap().to_owned());
        let bodies = bodies.collect();
        others.close(LINK);
        assert_eq!(others.waiting_total(), 0, "all is counted");
        bodies
    }

    #[test]
    fn a_client_goes_on_in_another_process_where_it_was() {
        let mut outboxes = outboxes();
        outboxes.manage(LINK, BOUNDS, false);
        push(&mut outboxes, &["1", "2", "3"], To::Full);
        let bytes = render_all(&outboxes).len();
        outboxes.remove_sent(LINK, bytes);
        outboxes.acknowledge(LINK, 1).unwrap();
        push(&mut outboxes, &["4", "5"], To::Bare);
        for (h, rest) in [(1, &["2", "3", "4", "5"][..]), (2, &["3", "4", "5"]), (3, &["4", "5"]), (4, &["5"])] {
            assert_eq!(elsewhere(&outboxes, h), rest, "h = {h}");
        }
    }

    #[test]
    fn what_the_client_has_acknowledged_before_it_counted_as_sent_does_not_come_again() {
        let mut outboxes = outboxes();
        outboxes.manage(LINK, BOUNDS, false);
        push(&mut outboxes, &["1", "2", "3"], To::Full);
        let bytes = render_all(&outboxes).len();
        outboxes.commit(LINK, bytes);
        outboxes.acknowledge(LINK, 2).unwrap();
        assert_eq!(elsewhere(&outboxes, 2), ["3"]);
        assert_eq!(elsewhere(&outboxes, 3), [""; 0]);
    }

    #[test]
    fn what_somebody_keeps_until_it_was_sent_is_not_portable() {
        let mut outboxes = outboxes();
        assert!(!outboxes.is_portable(LINK), "a session that is not managed has no count");
        outboxes.manage(LINK, BOUNDS, false);
        assert!(outboxes.is_portable(LINK));
        push(&mut outboxes, &["1"], To::Kept);
        assert!(!outboxes.is_portable(LINK) && outboxes.carried_stanzas(LINK).is_none());
    }
}
