//! Registration with a room (XEP-0045 §7.10): a user who may become a member without approval
//! reserves a nickname by registering.
//!
//! In a moderated or members-only room membership is a privilege, which users can't simply take: an
//! admin has to approve, see [`super::approve`]. Owners can reserve it for users whom they make
//! members themselves (`muc#roomconfig_registration`).

use rookery_hub::failure::condition;
use rookery_hub::{Iq, World};
use rookery_jid::Jid;
use rookery_modkit::form::{Field, Form};
use rookery_store::{Affiliated, Affiliation};
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::ns;

use super::actor;
use super::application::{NICK, REGISTER, more_fields};
use super::occupant::nick_key;
use super::room::Room;
use super::work::{RoomTask, RoomWork};

impl Room {
    /// Carries out a request in `jabber:iq:register`.
    pub(crate) fn register(&mut self, world: &mut World, iq: &Iq) -> Result<(), StanzaError> {
        self.register_knowing(world, iq, None)
    }

    /// Registers a user, given the number of rooms that know the user.
    pub(crate) fn register_knowing(
        &mut self,
        world: &mut World,
        iq: &Iq,
        known_in: Option<u64>,
    ) -> Result<(), StanzaError> {
        let affiliation = self.kept_affiliation(iq.from.as_ref());
        match affiliation {
            _ if self.is_locked && affiliation < Affiliation::Owner => return Err(Condition::ItemNotFound.into()),
            Affiliation::Outcast => return Err(Condition::NotAllowed.into()),
            Affiliation::None if !self.config.takes_registrations => return Err(Condition::NotAllowed.into()),
            _ => {}
        }
        match iq.set {
            false => self.registration(world, iq, affiliation),
            true if iq.payload.child("remove", ns::REGISTER).is_some() => self.unregister(world, iq, affiliation),
            true => self.register_nick(world, iq, affiliation, known_in),
        }
    }

    /// Returns whether a user with this affiliation needs an admin's approval.
    fn needs_approval(&self, affiliation: Affiliation) -> bool {
        affiliation < Affiliation::Member && (self.config.is_members_only || self.config.is_moderated)
    }

    fn registration(&mut self, world: &mut World, iq: &Iq, affiliation: Affiliation) -> Result<(), StanzaError> {
        let mut reply = iq.result();
        reply.start_ns("query", ns::REGISTER);
        match self.reserved_nick(&iq.from) {
            Some(nick) => {
                reply.start("registered").end();
                reply.text_child("username", nick);
            }
            None => {
                let form = Form::new("form")
                    .title(&format!("Registration with {}", self.name()))
                    .instructions("Choose a nickname to reserve in this room.")
                    .hidden("FORM_TYPE", REGISTER)
                    .field(Field::text_single(NICK).label("Desired nick").required());
                let form = if self.needs_approval(affiliation) { more_fields(form) } else { form };
                reply.text_child("instructions", "Choose a nickname to reserve in this room.");
                reply.element(&form.element());
            }
        }
        world.reply(iq, reply);
        Ok(())
    }

    /// Returns the nick that a user has reserved.
    pub(crate) fn reserved_nick(&self, user: &Jid) -> Option<&str> {
        self.affiliations.get(user.bare_str())?.nick.as_deref()
    }

    /// Registers a nick; `known_in` is the number of rooms that know the user, once the store has
    /// returned it.
    fn register_nick(
        &mut self,
        world: &mut World,
        iq: &Iq,
        before: Affiliation,
        known_in: Option<u64>,
    ) -> Result<(), StanzaError> {
        let form = Form::within(&iq.payload).ok_or(Condition::BadRequest)?;
        if form.type_() != "submit" || form.form_type().is_some_and(|type_| type_ != REGISTER) {
            return Err(Condition::BadRequest.into());
        }
        let user = iq.from.to_bare();
        let nick = self.reservable(form.value(NICK).ok_or(Condition::BadRequest)?, &user)?;
        let is_known = self.affiliations.contains_key(&user) || self.waiting.iter().any(|waiting| waiting.user == user);
        if !is_known && known_in.is_none() {
            self.count_rooms(world, iq);
            return Ok(());
        }
        if !is_known && known_in.is_some_and(|known_in| known_in >= self.limits.registrations) {
            let error = StanzaError::new(Condition::ResourceConstraint);
            return Err(error.with_text("you are already registered with as many rooms as allowed"));
        }
        if self.needs_approval(before) {
            return self.want_registration(world, iq, &form, nick);
        }
        let affiliation = before.max(Affiliation::Member);
        let change = Affiliated { user, affiliation, nick: Some(nick), reason: None };
        self.has_place_for(std::slice::from_ref(&change))?;
        self.change_registration(world, iq, change);
        Ok(())
    }

    /// Asks the store for the number of rooms that know a user, and then continues the
    /// registration.
    fn count_rooms(&self, world: &mut World, iq: &Iq) {
        let (room, iq, counted) = (self.jid.clone(), iq.clone(), world.stores.rooms.known_in(iq.from.as_ref()));
        world.wait(counted, move |world, counted| match counted {
            Ok(known_in) => actor::operate(world, RoomWork { room, what: RoomTask::Register { iq, known_in } }),
            Err(error) => {
                world.store_failed("counting the rooms of a user", &iq.from, &error);
                world.reply_error(&iq, condition(&error));
            }
        });
    }

    /// Gives the nick up, and with it a membership; higher affiliations stay.
    fn unregister(&mut self, world: &mut World, iq: &Iq, before: Affiliation) -> Result<(), StanzaError> {
        if self.withdraw_registration(world, iq) {
            return Ok(());
        }
        if before == Affiliation::None {
            // XEP-0077 §3.2.
            return Err(Condition::RegistrationRequired.into());
        }
        let affiliation = if before == Affiliation::Member { Affiliation::None } else { before };
        self.change_registration(
            world,
            iq,
            Affiliated { user: iq.from.to_bare(), affiliation, nick: None, reason: None },
        );
        Ok(())
    }

    fn change_registration(&mut self, world: &mut World, iq: &Iq, change: Affiliated) {
        let changes = vec![change];
        self.set_affiliations(world, changes.clone(), None, |room, world| room.keep_and_answer(world, changes, iq));
    }

    /// Returns a nick as it can be reserved.
    ///
    /// # Errors
    /// `conflict` if another user has it or has reserved it, `not-acceptable` if it isn't a valid
    /// nick.
    pub(crate) fn reservable(&self, nick: &str, user: &Jid) -> Result<String, StanzaError> {
        let jid = self.jid.with_resource(nick).map_err(|_| Condition::NotAcceptable)?;
        let nick = jid.resource().unwrap_or_default();
        let key = nick_key(nick).filter(|_| nick.len() <= self.limits.nick).ok_or(Condition::NotAcceptable)?;
        let holder = self.nicks.get(&key).and_then(|&at| self.occupants.get(at));
        let is_taken = holder.is_some_and(|occupant| occupant.account != *user)
            || self.reserved_by(&key).is_some_and(|owner| owner != user);
        if is_taken { Err(Condition::Conflict.into()) } else { Ok(nick.to_owned()) }
    }
}
