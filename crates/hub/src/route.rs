//! Routing of stanzas: RFC 6120 §10 and RFC 6121 §8.
//!
//! [`World::route`] finds the home of an address; `World::deliver`, at that home, applies the
//! rules for accounts. Every error that they specify is made by [`World::bounce`], which never
//! answers an error with an error.

use std::borrow::Cow;

use rookery_fanout::{Link, Packet, PushOutcome, StanzaType, To};
use rookery_jid::{Jid, JidRef};
use rookery_observe::StanzaStage;
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Kind, Namespaces, Writer, ns};

use crate::World;
use crate::custody::Custody;
use crate::destination::Destination;
use crate::filter::DELIVERY;
use crate::mail::Mail;
use crate::module::Verdict;
use crate::passage::{Notes, Passage};
use crate::trace::Step;

impl World {
    /// Sends a stanza on its way to an address.
    pub fn route(&mut self, packet: &Packet, to: JidRef<'_>) {
        if !self.is_domain(to.domain()) {
            if !self.serve(packet, to) {
                self.route_away(packet, to);
            }
            return;
        }
        if to.local().is_none() {
            return self.route_to_server(packet, to);
        }
        let hash = self.hash(to.bare_str());
        let shard = self.hop(hash);
        if shard == self.shard() {
            let outer = self.counters.path.enter(StanzaStage::Deliver);
            self.deliver(hash, packet, to, Notes::default());
            self.counters.path.back(outer);
        } else {
            self.sight(packet, to, Step::Goes, || self.place_of_hop(shard, "the home of the account"));
            self.post(shard, Mail::Route { to: to.to_jid(), packet: packet.clone() });
        }
    }

    /// Handles a stanza for the server itself (RFC 6120 §10.5.2, §10.5.3).
    fn route_to_server(&mut self, packet: &Packet, to: JidRef<'_>) {
        if packet.kind() != Kind::Iq && self.call_to_domain(packet, to) == Verdict::Taken {
            return;
        }
        match packet.kind() {
            Kind::Iq if to.is_domain() => match packet.type_() {
                StanzaType::Result | StanzaType::Error => self.answered(packet),
                _ => self.answer_packet(packet, to.to_jid()),
            },
            Kind::Presence => {}
            _ => self.bounce(packet, to, Condition::ServiceUnavailable.into()),
        }
    }

    /// Delivers a stanza to an account whose home this is, with a module's notes about it, after a
    /// filter that had to wait has returned it.
    pub fn deliver_noted(&mut self, packet: &Packet, to: JidRef<'_>, notes: Notes) {
        self.deliver(self.hash(to.bare_str()), packet, to, notes);
    }

    /// Delivers a stanza at the home of an account, past the modules that want to see it before.
    /// `hash` is that of the bare JID.
    pub(crate) fn deliver(&mut self, hash: u64, packet: &Packet, to: JidRef<'_>, mut notes: Notes) {
        debug_assert!(hash == self.hash(to.bare_str()), "the hash is that of the account");
        debug_assert!(self.may_be_home(hash), "a stanza is delivered at the account's home");
        if self.people.moves.is_some() && self.is_put_off(hash, packet, to, &notes) {
            return;
        }
        let user = self.user_named(hash, to.bare_str());
        if notes.has_passed {
            // The stanza comes back from a session that ended before it was sent.
            if !self.is_kept_back(user, packet, to, &notes) {
                self.apply_rules(user, packet, to, &mut notes);
            }
            return;
        }
        if self.is_behind_others(packet, to, &notes)
            || self.is_kept_back(user, packet, to, &notes)
            || !self.has_documents_of(user, packet, to, &notes)
        {
            return;
        }
        let on = self.filters(to.domain()).delivery;
        if !self.registry().passing.before_delivery.want(on, packet, || self.traits(user, to.bare_str())) {
            return self.apply_rules(user, packet, to, &mut notes);
        }
        if let Some(packet) = self.pass(DELIVERY, on, packet, to, to, &mut notes) {
            // Filters may have ended sessions.
            self.apply_rules(self.user_named(hash, to.bare_str()), &packet, to, &mut notes);
        }
    }

    /// Returns the form that the modules give a stanza for a session, without regard to other
    /// stanzas that wait for its account.
    pub(crate) fn let_through(&mut self, packet: Packet, to: JidRef<'_>) -> Option<Packet> {
        let user = self.user_named(self.hash(to.bare_str()), to.bare_str());
        let on = self.filters(to.domain()).delivery;
        if !self.registry().passing.before_delivery.want(on, &packet, || self.traits(user, to.bare_str())) {
            return Some(packet);
        }
        self.pass(DELIVERY, on, &packet, to, to, &mut Notes::default()).map(Cow::into_owned)
    }

    /// Keeps a stanza behind earlier ones of its account, or refuses it if too many wait. Returns
    /// false if nothing waits.
    pub(crate) fn is_kept_back(&mut self, user: Option<u32>, packet: &Packet, to: JidRef<'_>, notes: &Notes) -> bool {
        let user = user.and_then(|user| self.people.users.get_mut(user as usize));
        let Some(held) = user.and_then(|user| user.held.as_mut()) else { return false };
        if held.keep(packet, to, notes, self.waiting.custody.clone()) {
            self.sight(packet, to, Step::Waits, || {
                "behind earlier stanzas for the account, which wait for the store".into()
            });
        } else {
            self.sight(packet, to, Step::Noted, || {
                "too many stanzas wait for the account, or too many of this sender".into()
            });
            self.bounce(packet, to, Condition::ResourceConstraint.into());
        }
        true
    }

    /// Applies the delivery rules.
    fn apply_rules(&mut self, user: Option<u32>, packet: &Packet, to: JidRef<'_>, notes: &mut Notes) {
        if self.is_tracing() && self.may_be_traced(packet.from_escaped(), to.as_str().as_bytes()) {
            self.sight_rules(user, packet, to);
        }
        match packet.kind() {
            Kind::Message => self.deliver_message(user, packet, to, notes),
            Kind::Presence => self.deliver_presence(user, packet, to),
            _ => self.deliver_iq(user, packet, to),
        }
    }

    /// Delivers a message (RFC 6121 §8.5.2.1.1, §8.5.2.2.1 and §8.5.3).
    fn deliver_message(&mut self, user: Option<u32>, packet: &Packet, to: JidRef<'_>, notes: &mut Notes) {
        let session = to.resource().and_then(|resource| self.find_resource(user, resource));
        if packet.type_() == StanzaType::Error {
            self.note_error(user, to);
        }
        if session.is_some_and(|link| self.push(link, packet, To::Full)) {
            return;
        }
        match Destination::without_session(packet.type_(), to) {
            Destination::Account => {
                if !self.push_to_account(user, packet) && packet.type_() != StanzaType::Headline {
                    self.offer_undelivered(Passage { packet, to, notes });
                }
            }
            Destination::Refused => self.bounce(packet, to, Condition::ServiceUnavailable.into()),
            Destination::Session(_) | Destination::Nobody => {}
        }
    }

    /// Takes note, in the ledger of a session or of one that has ended, that the error of a message
    /// comes for it: until its client has heard of that, it isn't told that the message was taken.
    fn note_error(&mut self, user: Option<u32>, to: JidRef<'_>) {
        let user = user.and_then(|user| self.people.users.get(user as usize));
        let links = user.map(|user| user.links.as_slice()).unwrap_or_default();
        let is_its = |link: &Link| self.outboxes.address(*link).is_some_and(|address| *address == to);
        let found = links.iter().copied().find(is_its);
        match found.and_then(|link| self.ledger(link)) {
            Some(ledger) => ledger.note_error(),
            None => self.people.ended.note_error(to),
        }
    }

    /// Gives a message to every resource that takes messages to the bare JID; `false` if there was
    /// none.
    fn push_to_account(&mut self, user: Option<u32>, packet: &Packet) -> bool {
        let mut any = false;
        self.for_each_link(user, |world, link| {
            if world.session_at(link).is_some_and(|session| session.takes_messages())
                && user.is_some_and(|user| world.may_reach(user, link, packet))
            {
                any |= world.push(link, packet, To::Bare);
            }
        });
        any
    }

    /// Offers a message that no resource takes to the modules; if none keeps it, its sender hears
    /// of it.
    fn offer_undelivered(&mut self, passage: Passage<'_>) {
        let (packet, to) = (passage.packet, passage.to);
        if self.call_undelivered(passage) == Verdict::Pass {
            self.bounce(packet, to, Condition::ServiceUnavailable.into());
        }
    }

    /// Delivers an IQ (RFC 6121 §8.5.2.1.3 and §8.5.3).
    fn deliver_iq(&mut self, user: Option<u32>, packet: &Packet, to: JidRef<'_>) {
        if matches!(packet.type_(), StanzaType::Result | StanzaType::Error) && self.answered_here(packet) {
            return;
        }
        let Some(resource) = to.resource() else { return self.answer_packet(packet, to.to_jid()) };
        if is_roster_set(packet) && packet.sender().is_some_and(|sender| sender.bare() != to.bare()) {
            // This is as for a resource that doesn't exist (§8.5.3.2.3), so the reply reveals
            // nothing.
            return self.bounce(packet, to, Condition::ServiceUnavailable.into());
        }
        if !self.find_resource(user, resource).is_some_and(|link| self.push(link, packet, To::Full)) {
            self.bounce(packet, to, Condition::ServiceUnavailable.into());
        }
    }

    /// Returns the session of a user that has bound a resource.
    pub(crate) fn find_resource(&self, user: Option<u32>, resource: &str) -> Option<Link> {
        let user = self.people.users.get(user? as usize)?;
        user.links.iter().rev().copied().find(|&link| {
            self.outboxes.address(link).and_then(Jid::resource) == Some(resource)
                && self.session_at(link).is_some_and(|session| !session.ending)
        })
    }

    /// Runs `each` for the current sessions of a user, except those that are ending.
    pub(crate) fn for_each_link(&mut self, user: Option<u32>, mut each: impl FnMut(&mut World, Link)) {
        debug_assert!(
            user.is_none_or(|user| self.people.users.get(user as usize).is_some_and(|user| !user.links.is_empty())),
            "a user is here with a session"
        );
        let mut at = 0;
        // The loop is by index, since a session that overflows here is only marked, and leaves the
        // list later.
        while let Some(link) =
            user.and_then(|user| self.people.users.get(user as usize)).and_then(|user| user.links.get(at).copied())
        {
            if self.session_at(link).is_some_and(|session| !session.ending) {
                each(self, link);
            }
            at += 1;
        }
    }

    /// Puts a copy into a session's outbox. `false` if it was refused: a session that doesn't read
    /// is ended, and the stanza has to go where it would have gone without that session.
    pub fn push(&mut self, link: Link, packet: &Packet, to: To) -> bool {
        let pushed = self.outboxes.push(link, packet, to);
        if pushed == PushOutcome::Queued { true } else { self.was_pushed(link, packet, pushed) }
    }

    /// Tells the sender of a stanza about an error, on behalf of the address that it went to.
    /// Errors, results and presence that announces a state never get a reply (RFC 6120 §8.3.1, RFC
    /// 6121 §8.5.1).
    pub fn bounce(&mut self, packet: &Packet, to: JidRef<'_>, error: StanzaError) {
        let kind = match (packet.kind(), packet.type_()) {
            (_, StanzaType::Error | StanzaType::Result | StanzaType::Headline) => None,
            (Kind::Presence, StanzaType::Unavailable | StanzaType::Probe) => None,
            (Kind::Message, _) => Some("message"),
            (Kind::Presence, _) => Some("presence"),
            _ => Some("iq"),
        };
        if self.is_tracing() {
            self.sight_bounce(packet, to, &error, kind.is_some());
        }
        let (Some(kind), Some(sender)) = (kind, packet.sender()) else { return };
        if packet.kind() == Kind::Message {
            self.waiting.custody.iter().for_each(Custody::refuse);
        }
        self.counters.errors += 1;
        let mut reply = Writer::new(kind);
        reply.attr("type", "error").opt_attr("id", packet.id().as_deref()).attr("from", to.as_str());
        error.write(&mut reply);
        self.route_built(&reply.finish(), &sender);
    }
}

/// Returns whether a packet is a roster push, as a client would understand it (RFC 6121 §2.1.6),
/// or a change that only an account's own resources may request (§2.3.3). Nobody may send either
/// to somebody else's client.
fn is_roster_set(packet: &Packet) -> bool {
    packet.type_() == StanzaType::Set
        && packet.namespaces().may_have(Namespaces::of(&[ns::ROSTER]))
        && packet.stanza().child("query", ns::ROSTER).is_some()
}
