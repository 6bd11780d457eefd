//! Occupants that can't be reached any more (XEP-0045 §18.1), possibly many at once: a server that
//! dies takes all of its users with it.
//!
//! # Invariants
//!
//! * Occupants whose errors arrive together leave together: each of them is told only about itself,
//!   and the remaining ones about each. So the work and the stanzas for a dead server grow with
//!   their number, and not with its square.
//! * If this server has found that another one can't be reached, its other occupants are tested
//!   before any of them leaves. No occupant is removed because of another's fate.
//! * The room drops lost occupants before it processes a later stanza.

use rookery_hub::World;
use rookery_jid::Jid;

use super::occupant::LostSessions;
use super::room::Room;
use super::shown::ShownPresence;
use super::{actor, ghosts};

impl Room {
    /// Takes an unreachable session out, after a moment or when another stanza reaches the room.
    /// `is_cut_off` is true if its whole server is unreachable.
    pub(crate) fn lose(&mut self, world: &mut World, session: &Jid, is_cut_off: bool) {
        if self.occupant_of(session).is_none() {
            return;
        }
        if self.lost.is_empty() {
            let room = self.jid.clone();
            world.after(0, move |world| actor::with(world, &room, Self::look_for_others));
        }
        if is_cut_off {
            self.lost.servers.insert(session.domain().to_owned());
        }
        self.lost.sessions.insert(session.clone());
    }

    /// Tests the other occupants of unreachable servers, before all lost sessions leave.
    fn look_for_others(&mut self, world: &mut World) {
        let LostSessions { sessions, servers } = &self.lost;
        let is_cut_off = |session: &&Jid| servers.contains(session.domain()) && !sessions.contains(*session);
        let mut others: Vec<Jid> = match servers.is_empty() {
            true => Vec::new(),
            false => self.seats.keys().filter(is_cut_off).cloned().collect(),
        };
        if others.is_empty() {
            return self.drop_lost(world);
        }
        // In an order that is the same for the same seed.
        others.sort();
        others.iter().for_each(|session| ghosts::look_for(world, &self.jid, session));
        let room = self.jid.clone();
        world.after(ERRORS_MS, move |world| actor::with(world, &room, Self::drop_lost));
    }

    /// Takes the lost sessions out, and then tells the remaining ones.
    pub(crate) fn drop_lost(&mut self, world: &mut World) {
        let shown = ShownPresence { is_gone: true, codes: vec![333], ..ShownPresence::default() };
        let lost = std::mem::take(&mut self.lost).sessions;
        if !lost.is_empty() {
            // Nobody repeats this if the process dies, and somebody may soon take the nick.
            world.note_home(self.jid.as_str(), true);
        }
        let parted: Vec<_> = lost.iter().filter_map(|session| self.take_seat(world, session, &shown)).collect();
        for occupant in &parted {
            self.tell_parted(world, Some(occupant), &shown);
        }
    }
}

/// Milliseconds in which errors come back from a server that is known to be unreachable.
const ERRORS_MS: u64 = 100;
