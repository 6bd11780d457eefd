//! Requests to register that need approval (XEP-0045 §9.9): if membership is a privilege, a user
//! who wants it waits for an admin.
//!
//! Admins and owners are asked by a form at their accounts, whether they are in the room or not.
//! Waiting requests are stored with the room, so that they survive a restart of the server. A
//! request ends when an admin decides, or when the user gets an affiliation in another way.

use std::cmp::Reverse;

use rookery_fanout::Packet;
use rookery_hub::{Iq, World};
use rookery_jid::Jid;
use rookery_modkit::form::{Field, Form};
use rookery_store::{Affiliated, Affiliation};
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Writer, ns};

use super::application::{ABOUT, NICK, REGISTER, WaitingApplicant};
use super::config::unacceptable;
use super::occupant::nick_key;
use super::room::Room;

impl Room {
    /// Takes a user's request to register in a room where only an admin can allow it.
    pub(super) fn want_registration(
        &mut self,
        world: &mut World,
        iq: &Iq,
        form: &Form,
        nick: String,
    ) -> Result<(), StanzaError> {
        let waiting = WaitingApplicant { user: iq.from.to_bare(), nick, about: self.about(form)? };
        let is_same_nick = |other: &WaitingApplicant| nick_key(&other.nick) == nick_key(&waiting.nick);
        if self.waiting.iter().any(|other| other.user != waiting.user && is_same_nick(other)) {
            return Err(Condition::Conflict.into());
        }
        if self.waiting.contains(&waiting) {
            world.reply_done(iq);
            return Ok(());
        }
        let others = self.waiting.iter().filter(|other| other.user != waiting.user).count();
        if others >= MOST_WAITING || !self.requests.take(REQUESTS_PER_MINUTE, world.time() / 60) {
            return Err(StanzaError::new(Condition::ResourceConstraint).with_text("too many wait for approval"));
        }
        self.waiting.retain(|other| other.user != waiting.user);
        self.ask_admins(world, &waiting);
        self.waiting.push(waiting);
        self.keep_document(world, Some(iq));
        Ok(())
    }

    /// Withdraws the user's request to register; returns whether there was one.
    pub(super) fn withdraw_registration(&mut self, world: &mut World, iq: &Iq) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|waiting| waiting.user.as_ref() != iq.from.bare());
        let has_waited = self.waiting.len() < before;
        if has_waited {
            self.keep_document(world, Some(iq));
        }
        has_waited
    }

    fn about(&self, form: &Form) -> Result<Form, StanzaError> {
        let mut about = Form::new("submit");
        let mut bytes = 0;
        for (var, _) in ABOUT {
            let lines: Vec<_> = form.values(var).filter(|line| !line.trim().is_empty()).collect();
            bytes += lines.iter().map(|line| line.len()).sum::<usize>();
            if bytes > self.limits.description {
                return Err(unacceptable(var));
            }
            if !lines.is_empty() {
                about = about.field(Field::plain(var).with_values(lines));
            }
        }
        Ok(about)
    }

    /// Sends the form to those who can decide.
    fn ask_admins(&self, world: &mut World, waiting: &WaitingApplicant) {
        let form = Form::new("form")
            .title("Registration request")
            .instructions("Submit the form with the box checked to approve the request, and without to deny it.")
            .hidden("FORM_TYPE", REGISTER)
            .field(Field::jid_single(JID).label("User").value(waiting.user.as_str()))
            .field(Field::text_single(NICK).label("Desired nick").value(&waiting.nick));
        let told = ABOUT.iter().filter(|(var, _)| waiting.about.has(var));
        let form = told.fold(form, |form, (var, label)| {
            form.field(Field::text_multi(var).label(label).with_values(waiting.about.values(var)))
        });
        let form = form.field(Field::boolean(ALLOW, false).label("Allow this person to register with the room?"));
        let mut message = Writer::new("message");
        message.attr("id", &world.unique_text()).attr("from", self.jid.as_str());
        message.text_child("body", &format!("{} wants to register with this room as {}.", waiting.user, waiting.nick));
        message.element(&form.element());
        let mut admins: Vec<_> =
            self.affiliations.values().filter(|one| one.affiliation >= Affiliation::Admin).collect();
        let order = |one: &Affiliated| (Reverse(one.affiliation), one.user.to_string());
        admins.sort_by_cached_key(|one| order(one));
        if let Ok(packet) = Packet::from_built(&message.finish()) {
            world.fan_out(&packet, admins.into_iter().take(MOST_ASKED).map(|one| one.user.as_ref()));
        }
    }

    /// Carries out the decision of an admin.
    pub(super) fn registration_decided(
        &mut self,
        world: &mut World,
        form: &Form,
        from: &Jid,
    ) -> Result<(), StanzaError> {
        if self.affiliation_of(world, from.as_ref()) < Affiliation::Admin {
            return Err(Condition::Forbidden.into());
        }
        let waiting = self.waiting_meant(form).ok_or(Condition::ItemNotFound)?.clone();
        match form.boolean(ALLOW) {
            Some(Ok(true)) => self.approve(world, form.value(NICK).unwrap_or(&waiting.nick), &waiting.user, from),
            Some(Ok(false)) | None => {
                self.deny(world, &waiting);
                Ok(())
            }
            Some(Err(_)) => Err(Condition::BadRequest.into()),
        }
    }

    /// Returns the request that a form decides on: by the address if there is one; forms of the
    /// standard have the nick alone.
    fn waiting_meant(&self, form: &Form) -> Option<&WaitingApplicant> {
        if let Some(user) = form.value(JID) {
            let user = Jid::parse(user).ok()?;
            return self.waiting.iter().find(|waiting| waiting.user.as_ref() == user.bare());
        }
        let key = nick_key(form.value(NICK)?)?;
        self.waiting.iter().find(|waiting| nick_key(&waiting.nick).as_ref() == Some(&key))
    }

    fn approve(&mut self, world: &mut World, nick: &str, user: &Jid, from: &Jid) -> Result<(), StanzaError> {
        let nick = Some(self.reservable(nick, user)?);
        let member = Affiliated { user: user.clone(), affiliation: Affiliation::Member, nick, reason: None };
        self.has_place_for(std::slice::from_ref(&member))?;
        let actor = self.actor_nick(from);
        self.tell_absent(world, std::slice::from_ref(&member), from);
        // The new affiliation also ends the wait.
        self.set_affiliations(world, vec![member.clone()], actor.as_deref(), |_, _| {});
        self.keep_affiliations(world, vec![member]);
        self.keep_soon();
        Ok(())
    }

    fn deny(&mut self, world: &mut World, denied: &WaitingApplicant) {
        self.waiting.retain(|waiting| waiting != denied);
        self.keep_soon();
        let mut message = Writer::new("message");
        message.attr("id", &world.unique_text()).attr("from", self.jid.as_str());
        message.text_child("body", &format!("Your request to register with the room {} was denied.", self.name()));
        message.start_ns("x", ns::MUC_USER).end();
        world.route_built(&message.finish(), &denied.user);
    }
}

/// The decision.
pub(super) const ALLOW: &str = "muc#register_allow";
/// The field for the applicant's JID: the standard doesn't register it for this form, but for that
/// of voice (§15.5.2).
const JID: &str = "muc#jid";

/// The most users who may wait for one room's approval.
pub(super) const MOST_WAITING: usize = 100;
/// Requests that one room takes a minute, on average over five minutes.
const REQUESTS_PER_MINUTE: u64 = 10;
/// The most admins and owners who are asked, owners first.
const MOST_ASKED: usize = 50;
