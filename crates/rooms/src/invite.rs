//! Messages to the room that aren't for all occupants: mediated invitations and their refusal
//! (XEP-0045 §7.8.2), requests for voice (§7.13, §8.6) and decisions about them.
//!
//! An invitation names the inviter by bare JID, in every room: inviters reveal themselves to the
//! users whom they invite. Direct invitations (XEP-0249) don't pass the room.

use rookery_hub::World;
use rookery_jid::Jid;
use rookery_modkit::form::{Field, Form};
use rookery_store::{Affiliated, Affiliation};
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Element, Writer, ns};

use super::application::REGISTER;
use super::approve;
use super::directory::Directory;
use super::role::RoomRole;
use super::room::Room;

impl Room {
    /// Takes a message to the room that is not of type groupchat.
    pub(crate) fn other_message(
        &mut self,
        world: &mut World,
        message: &Element,
        from: &Jid,
    ) -> Result<(), StanzaError> {
        let user = message.child("x", ns::MUC_USER);
        if let Some(user) = user.filter(|user| user.child("invite", ns::MUC_USER).is_some()) {
            return self.invite(world, user, from);
        }
        if let Some(decline) = user.and_then(|user| user.child("decline", ns::MUC_USER)) {
            return self.decline(world, decline, from);
        }
        let form = Form::within(message);
        match form.as_ref().map(|form| (form.form_type(), form)) {
            // XEP-0004 §3.1: an admin who cancels a form that the room sent doesn't decide.
            Some((_, form)) if form.type_() == "cancel" => Ok(()),
            Some((Some(REQUEST), form)) if form.has(ALLOW) => self.voice_decided(world, form, from),
            Some((Some(REQUEST), form)) => self.voice_wanted(world, form, from),
            Some((Some(REGISTER), form)) if form.has(approve::ALLOW) => self.registration_decided(world, form, from),
            // §17.2.
            _ => Err(Condition::BadRequest.into()),
        }
    }

    fn invite(&mut self, world: &mut World, user: &Element, from: &Jid) -> Result<(), StanzaError> {
        let Some(at) = self.occupant_of(from) else { return Err(Condition::Forbidden.into()) };
        let affiliation = self.affiliation_of(world, from.as_ref());
        let may = !self.config.is_members_only
            || affiliation >= Affiliation::Admin
            || (affiliation == Affiliation::Member && self.config.invites_by_members);
        // §9.5.
        if !may || self.role_of(from) == RoomRole::None {
            return Err(Condition::Forbidden.into());
        }
        let rate = self.limits.messages;
        if !self.occupants.get_mut(at).is_some_and(|occupant| occupant.pace.take(rate, world.time())) {
            return Err(Condition::ResourceConstraint.into());
        }
        let invites: Vec<_> = user.children().filter(|child| child.is("invite", ns::MUC_USER)).collect();
        if invites.len() > MOST_INVITED {
            return Err(StanzaError::new(Condition::NotAcceptable).with_text("too many invitations in one message"));
        }
        let invited = invites.iter().map(|invite| Jid::parse(invite.attr("to").unwrap_or_default()));
        let invited: Vec<_> = invited.collect::<Result<_, _>>().map_err(|_| Condition::JidMalformed)?;
        if !self.may_write(world, from, invited.len()) {
            return Err(
                StanzaError::new(Condition::ResourceConstraint).with_text("you are sending too many invitations")
            );
        }
        for (invite, to) in invites.iter().zip(&invited) {
            self.admit(world, to)?;
            self.send_invitation(world, invite, from, to);
        }
        Ok(())
    }

    /// Returns whether the account of a session may have the room write to `count` more users who
    /// have not asked for it.
    pub(super) fn may_write(&self, world: &World, from: &Jid, count: usize) -> bool {
        world.state::<Directory>().holdings.may_write(from.bare(), count, self.limits.invitations, world.time())
    }

    /// Makes a user who is invited to a members-only room a member (§9.5).
    fn admit(&mut self, world: &mut World, user: &Jid) -> Result<(), StanzaError> {
        if !self.config.is_members_only || self.kept_affiliation(user.as_ref()) != Affiliation::None {
            return Ok(());
        }
        let member = Affiliated { user: user.to_bare(), affiliation: Affiliation::Member, nick: None, reason: None };
        self.has_place_for(std::slice::from_ref(&member))?;
        self.set_affiliations(world, vec![member.clone()], None, |_, _| {});
        self.keep_affiliations(world, vec![member]);
        Ok(())
    }

    pub(crate) fn send_invitation(&mut self, world: &mut World, invite: &Element, from: &Jid, to: &Jid) {
        let mut message = Writer::new("message");
        message.attr("from", self.jid.as_str());
        message.start_ns("x", ns::MUC_USER).start("invite").attr("from", from.bare_str());
        let reason = invite.child_text("reason", ns::MUC_USER);
        if let Some(reason) = &reason {
            message.text_child("reason", reason);
        }
        if let Some(go_on) = invite.child("continue", ns::MUC_USER) {
            message.start("continue").opt_attr("thread", go_on.attr("thread")).end();
        }
        message.end();
        if !self.config.password.is_empty() {
            message.text_child("password", &self.config.password);
        }
        message.end();
        // For clients that only know direct invitations (XEP-0249 §2).
        message
            .start_ns("x", ns::CONFERENCE)
            .attr("jid", self.jid.as_str())
            .opt_attr("reason", reason.as_deref())
            .end();
        world.route_built(&message.finish(), to);
        self.invitations.retain(|(invited, _)| invited.as_ref() != to.bare());
        self.invitations.push_back((to.to_bare(), from.clone()));
        let mut bytes: usize = self.invitations.iter().map(invitation_bytes).sum();
        while self.invitations.len() > MOST_INVITATIONS || bytes > MOST_INVITATION_BYTES {
            let Some(oldest) = self.invitations.pop_front() else { return };
            bytes -= invitation_bytes(&oldest);
        }
    }

    /// Lets only invited users decline: otherwise any user could have the room send messages to any
    /// other.
    fn decline(&mut self, world: &mut World, decline: &Element, from: &Jid) -> Result<(), StanzaError> {
        let at = self.invitations.iter().position(|(invited, _)| invited.as_ref() == from.bare());
        let invitation = at.and_then(|at| self.invitations.remove(at));
        let Some((_, inviter)) = invitation else { return Err(Condition::Forbidden.into()) };
        let mut message = Writer::new("message");
        message.attr("from", self.jid.as_str());
        message.start_ns("x", ns::MUC_USER).start("decline").attr("from", from.bare_str());
        if let Some(reason) = decline.child_text("reason", ns::MUC_USER) {
            message.text_child("reason", &reason);
        }
        world.route_built(&message.finish(), &inviter);
        Ok(())
    }

    /// Asks the moderators for voice (§7.13).
    fn voice_wanted(&mut self, world: &mut World, form: &Form, from: &Jid) -> Result<(), StanzaError> {
        let Some(occupant) = self.occupant_of(from).and_then(|at| self.occupants.get_mut(at)) else {
            return Err(Condition::Forbidden.into());
        };
        if form.value(ROLE) != Some("participant") {
            return Err(Condition::BadRequest.into());
        }
        if occupant.role != RoomRole::Visitor {
            // There is nothing to grant.
            return Err(Condition::NotAllowed.into());
        }
        if !occupant.pace.take(self.limits.messages, world.time()) {
            return Err(Condition::ResourceConstraint.into());
        }
        let form = Form::new("form")
            .title("Voice request")
            .instructions("Somebody wants to speak. Submit the form with the box checked to grant it.")
            .hidden("FORM_TYPE", REQUEST)
            .field(
                Field::list_single(ROLE)
                    .label("Requested role")
                    .value("participant")
                    .option("participant", "participant"),
            )
            .field(Field::jid_single(JID).label("User").value(from.as_str()))
            .field(Field::text_single(NICK).label("Nick").value(occupant.nick()))
            .field(Field::boolean(ALLOW, false).label("Grant voice to this person?"));
        let mut message = Writer::new("message");
        message.attr("from", self.jid.as_str()).element(&form.element());
        if let Ok(packet) = rookery_fanout::Packet::from_built(&message.finish()) {
            world.fan_out_roll(&packet, &self.moderators, &[]);
        }
        Ok(())
    }

    /// Carries out a moderator's decision about voice (§8.6).
    fn voice_decided(&mut self, world: &mut World, form: &Form, from: &Jid) -> Result<(), StanzaError> {
        if self.role_of(from) != RoomRole::Moderator {
            return Err(Condition::Forbidden.into());
        }
        match form.boolean(ALLOW) {
            Some(Ok(true)) => {}
            Some(Ok(false)) | None => return Ok(()),
            Some(Err(_)) => return Err(Condition::BadRequest.into()),
        }
        let at = form.value(NICK).and_then(|nick| self.occupant_named(nick)).ok_or(Condition::ItemNotFound)?;
        if self.occupants.get(at).is_some_and(|occupant| occupant.role == RoomRole::Visitor) {
            self.set_role(world, at, RoomRole::Participant, None);
        }
        Ok(())
    }
}

/// The type of the form of a request for voice (§15.5.2).
const REQUEST: &str = "http://jabber.org/protocol/muc#request";
const ROLE: &str = "muc#role";
const JID: &str = "muc#jid";
const NICK: &str = "muc#roomnick";
const ALLOW: &str = "muc#request_allow";

/// The most users that one message may invite.
const MOST_INVITED: usize = 20;
/// The most invitations that a room remembers, so that they can be declined.
pub(super) const MOST_INVITATIONS: usize = 1000;
/// The most bytes of the addresses in those invitations.
const MOST_INVITATION_BYTES: usize = 128 * 1024;

fn invitation_bytes((to, from): &(Jid, Jid)) -> usize {
    to.as_str().len() + from.as_str().len()
}
