//! Bounds the rate of actions other than messages: presence, nicknames, requests to occupants and
//! to the room. Changes that notify many cost more.

use rookery_hub::{Iq, World};
use rookery_jid::Jid;
use rookery_store::Affiliation;
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::ns;

use super::directory::Directory;
use super::occupant::Occupant;
use super::rate::RoomBucket;
use super::room::Room;

impl Room {
    /// Checks that an occupant may do something that reaches this many sessions.
    pub(super) fn may_stir(&mut self, world: &World, at: usize, hearers: usize) -> Result<(), StanzaError> {
        let rate = self.limits.requests;
        let cost = PRESENCE + (hearers / HEARERS) as u64;
        let now = world.time();
        let may = self.occupants.get_mut(at).is_none_or(|occupant| occupant.stir.take_many(cost, rate, now));
        if may { Ok(()) } else { Err(too_fast()) }
    }

    /// Checks that an account may enter, at the rate left over from its last visit.
    pub(super) fn may_come(&mut self, world: &World, account: &Jid) -> Result<(RoomBucket, RoomBucket), StanzaError> {
        let (pace, mut stir) = self.former.come(account);
        // All see it, and it sees all.
        let cost = PRESENCE + ((2 * self.occupants.len() + self.history.len()) / HEARERS) as u64;
        if stir.take_many(cost, self.limits.requests, world.time()) {
            return Ok((pace, stir));
        }
        self.former.leave((account, pace, stir), (self.limits.messages, self.limits.requests), world.time());
        Err(too_fast())
    }

    /// Remembers the rate of an occupant that has left.
    pub(super) fn note_pace(&mut self, world: &World, occupant: &Occupant) {
        let rates = (self.limits.messages, self.limits.requests);
        self.former.leave((&occupant.account, occupant.pace, occupant.stir), rates, world.time());
    }

    /// Returns whether an occupant may ask another one something.
    pub(super) fn may_relay(&mut self, world: &World, at: usize) -> bool {
        let rate = self.limits.requests;
        self.occupants.get_mut(at).is_some_and(|occupant| occupant.stir.take(rate, world.time()))
    }

    /// Returns whether an occupant may change something that writes the room to the store, such
    /// as the subject.
    pub(super) fn may_change(&mut self, world: &World, at: usize) -> bool {
        let (rate, now) = (self.limits.requests, world.time());
        self.occupants.get_mut(at).is_some_and(|occupant| occupant.stir.take_many(DOCUMENT, rate, now))
    }

    /// Checks that a user may make a request to the room. A change may notify everyone, at a cost
    /// for each.
    pub(super) fn may_ask(&mut self, world: &World, iq: &Iq) -> Result<(), StanzaError> {
        let changes = if iq.set && iq.payload.ns() != ns::MAM { iq.payload.children().count() } else { 0 };
        let is_admin = changes > 0 && self.affiliation_of(world, iq.from.as_ref()) >= Affiliation::Admin;
        let is_kept = is_admin && matches!(iq.payload.ns(), ns::MUC_OWNER | ns::VCARD | ns::COMMANDS);
        let written = if is_kept { DOCUMENT } else { 0 };
        let cost = 1 + written + (changes * self.occupants.len() / HEARERS) as u64;
        let (rate, now) = (self.limits.requests, world.time());
        let may = match self.occupant_of(&iq.from) {
            Some(at) => self.occupants.get_mut(at).is_some_and(|occupant| occupant.stir.take_many(cost, rate, now)),
            None if changes == 0 => world.state::<Directory>().holdings.may_ask(iq.from.bare(), rate, now),
            None if is_admin => self.deeds.take_many(cost, rate, now),
            // A user who registers causes notifications of others.
            None => self.may_write(world, &iq.from, 1),
        };
        if may { Ok(()) } else { Err(too_fast()) }
    }
}

fn too_fast() -> StanzaError {
    StanzaError::new(Condition::ResourceConstraint).with_text("you send too much at a time; wait a few seconds")
}

/// The least cost of a presence; a request costs 1.
const PRESENCE: u64 = 2;
/// The number of recipients for which it costs one more.
const HEARERS: usize = 100;
/// The cost of having the room written again.
const DOCUMENT: u64 = 20;
