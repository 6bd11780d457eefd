//! Sends sessions stanzas of the server's own accord, above all at login: see
//! [`rookery_fanout::outbox::paced`].
//!
//! # Invariants
//! - None of them ends a session, however many there are and however slowly the client reads.
//! - Everything for it is loaded in portions: the next when the session has taken the last.
//!   Nothing else waits for it meanwhile, except code that asks to (a backlog).

use rookery_base::one_shot;
use rookery_fanout::{Link, Packet, PushOutcome, To};
use rookery_stream::error::StreamError;
use tracing::warn;

use crate::World;
use crate::session::SessionRef;

impl World {
    /// Puts a copy into the outbox of a session that didn't ask for it. Returns `false` if it was
    /// not taken: see [`World::push`].
    pub fn push_paced(&mut self, link: Link, packet: &Packet, to: To) -> bool {
        let pushed = self.outboxes.push_paced(link, packet, to);
        self.was_pushed(link, packet, pushed)
    }

    /// Runs `then` when a session has room for more: at once if next to nothing waits for it, and
    /// never if the session ends before.
    pub fn when_room(&mut self, session: SessionRef, then: impl FnOnce(&mut World) + 'static) {
        if self.session(session).is_none() {
            return;
        }
        let (completer, room) = one_shot::<()>();
        self.outboxes.when_room(session.link, move || completer.complete(()));
        // The client reads when it likes, so its own stanzas are acknowledged before.
        self.in_custody(None, |world| {
            world.wait(room, move |world, room| {
                if room.is_ok() && world.session(session).is_some() {
                    then(world);
                }
            });
        });
    }

    /// Runs `then` as [`World::when_room`] does, for a request of the session: its later stanzas
    /// wait meanwhile.
    pub fn when_room_in_order(&mut self, session: SessionRef, then: impl FnOnce(&mut World) + 'static) {
        let (completer, room) = one_shot::<()>();
        self.outboxes.when_room(session.link, move || completer.complete(()));
        self.wait_in_order(session, room, move |world, room| {
            if room.is_ok() && world.session(session).is_some() {
                then(world);
            }
        });
    }

    /// Handles the outcome of a push: tells modules of a stanza that nobody attends to, and ends
    /// sessions if a bound is exceeded. Returns `false` if the stanza was not taken.
    pub(crate) fn was_pushed(&mut self, link: Link, packet: &Packet, pushed: PushOutcome) -> bool {
        match pushed {
            PushOutcome::Queued => true,
            PushOutcome::Unattended => {
                self.call_unattended(packet, link);
                true
            }
            PushOutcome::Crowded => {
                self.relieve();
                true
            }
            PushOutcome::Gone => false,
            PushOutcome::Overflow => {
                self.end_reader(link);
                false
            }
        }
    }

    /// Ends sessions of the accounts that hold most, since the shard holds more than it may.
    fn relieve(&mut self) {
        while self.outboxes.is_crowded() {
            let Some(account) = self.outboxes.fattest().map(|account| account.to_jid()) else { return };
            let links = self.links_of(account.as_ref()).into_iter();
            let Some(link) = links.max_by_key(|&link| self.outboxes.waiting_bytes(link)) else { return };
            let before = self.outboxes.waiting_total();
            warn!(%account, bytes = self.outboxes.waiting_bytes(link), "outboxes are full: the session with the largest one is ended");
            self.end_reader(link);
            if self.outboxes.waiting_total() >= before {
                return;
            }
        }
    }

    /// Ends a session whose client doesn't read.
    fn end_reader(&mut self, link: Link) {
        self.counters.overflows += 1;
        self.close(link, StreamError::ResourceConstraint, "the client does not read what it is sent");
        // Unread stanzas are older than everything that comes now, and are routed again before it.
        self.give_back(link);
    }
}
