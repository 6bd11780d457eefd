//! Sends a session stanzas that its client didn't ask for, as fast as the client reads: they never
//! end the session.
//!
//! Other people decide how much of this there is: by asking to see somebody's presence, by
//! publishing, by writing while somebody is away. If it could end the session, they could keep an
//! account out for good. So it doesn't count against the session's hard limit, but against one of
//! its own, and:
//!
//! * Stanzas that are in memory anyway (presence, a room's history) are appended completely, as
//!   references, after everything that waits, and in their order.
//! * Stanzas from a store are loaded in portions: the next one when the session has
//!   [room](Outboxes::when_room).
//! * Presence that states availability is always taken: above the hard limit it is paced. There is
//!   at most one for each resource of each contact. Beyond the limit for paced stanzas, available
//!   presence is left out; a client that has so much of it to read asks again (RFC 6121 §4.3).

use super::item::To;
use super::queue::Roomy;
use super::{Link, Outboxes, PushOutcome};
use crate::packet::Packet;

impl Outboxes {
    /// Appends a copy of `packet` for one session that didn't ask for it.
    pub fn push_paced(&mut self, link: Link, packet: &Packet, to: To) -> PushOutcome {
        self.append(link, packet, to, true)
    }

    /// Calls `call` as soon as no more than the soft limit waits for this session, at once if that
    /// is so now. It is dropped uncalled when the session ends. A session that acknowledges stanzas
    /// has room when it has acknowledged enough.
    pub fn when_room(&mut self, link: Link, call: impl FnOnce() + Send + 'static) {
        let soft = self.limits.soft;
        let Some(slot) = self.slots.get_mut(link).filter(|slot| slot.address.is_some() && !slot.abandoned) else {
            return;
        };
        match slot.queue.as_mut().filter(|queue| queue.held_bytes().saturating_sub(queue.taken) > soft) {
            Some(queue) => queue.much.get_or_insert_default().in_wait.push(Roomy(Box::new(call))),
            None => call(),
        }
    }
}
