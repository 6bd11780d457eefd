//! Processes stanzas from sessions: RFC 6120 §8.1 (the `from` that a client may claim) and §10.3
//! (no `to`), RFC 6121 §8.1.
//!
//! A stanza of a session is finished before the next one of that session is looked at, unless it
//! waits for the store: then the next ones wait in the session's backlog.

use std::borrow::Cow;

use rookery_fanout::{Link, Packet, StanzaType};
use rookery_jid::{Jid, JidRef, Prepared, prepare};
use rookery_observe::StanzaStage;
use rookery_stream::error::{Condition, StanzaError, StreamError};
use rookery_xml::{Kind, Stanza, ns};

use crate::World;
use crate::custody::Custody;
use crate::event::Event;
use crate::filter::ROUTE;
use crate::iq::Iq;
use crate::passage::Notes;
use crate::trace::Step;

/// The permission for the driver to continue reading from the session, or the order to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Intake {
    /// Go on.
    Open,
    /// Too much waits already: stop reading until [`Event::Resume`]. This stanza was taken.
    Full,
}

impl World {
    /// Takes a stanza from a bound session.
    pub fn stanza(&mut self, link: Link, stanza: Stanza<'_>) -> Intake {
        let outer = self.counters.path.enter_stanza(|| (name_of(stanza.kind()), stanza.bytes().len()));
        let too_fast = self.charge(link, stanza.bytes().len());
        let intake = self.take_in(link, stanza);
        self.counters.path.end_stanza(outer);
        self.assert_whole(link);
        match too_fast.map(|wait_ms| self.throttle(link, wait_ms)) {
            Some(Intake::Full) => Intake::Full,
            _ => intake,
        }
    }

    fn take_in(&mut self, link: Link, stanza: Stanza<'_>) -> Intake {
        let limit = self.catalogue.settings.backlog_bytes;
        // The session may have been ended, by another session or an operator, since its connection
        // was found readable: then the stanza is neither carried out nor acknowledged (RFC 6120
        // §4.9.1.1).
        let Some(session) = self.at_mut(link).filter(|session| !session.ending) else { return Intake::Open };
        if stanza.kind() == Kind::Other && matches!(&*stanza.ns(), ns::SM | ns::CSI) {
            self.element(link, stanza);
            return Intake::Open;
        }
        let managed = session.rare.as_mut().and_then(|rare| rare.managed.as_mut());
        let custody = managed.filter(|_| stanza.kind() != Kind::Other).map(|managed| managed.ledger.count());
        debug_assert!(
            session.is_busy() || session.rare.as_ref().is_none_or(|rare| rare.backlog.queue.is_empty()),
            "what waits in a backlog waits for something"
        );
        if !session.is_busy() {
            self.in_custody(custody, |world| world.handle(link, stanza));
            return Intake::Open;
        }
        let backlog = &mut session.rare().backlog;
        let before = backlog.queue.len();
        backlog.bytes += stanza.bytes().len();
        backlog.queue.push_back((stanza.bytes().into(), custody));
        debug_assert!(backlog.bytes > 0 && backlog.waiting > 0, "what waits has a reason");
        let is_full = backlog.bytes >= limit && !backlog.paused;
        backlog.paused |= is_full;
        if self.is_tracing() {
            self.sight_sent(link, stanza, Step::Waits, || {
                format!("an earlier stanza of this session waits for the store, and so do {before} others after it")
            });
        }
        if !is_full {
            return Intake::Open;
        }
        self.out.events.push_back(Event::Pause(link));
        Intake::Full
    }

    /// Returns whether a session may send more stanzas: it may not once its stream is being ended.
    pub fn takes_from(&self, link: Link) -> bool {
        self.session_at(link).is_some_and(|session| !session.ending)
    }

    pub(crate) fn handle(&mut self, link: Link, stanza: Stanza<'_>) {
        let Some(address) = self.outboxes.address(link) else { return };
        debug_assert!(self.may_be_home(self.hash(address.bare_str())), "a session is at the home of its account");
        if stanza.from().is_some_and(|from| !is_own(address, &from)) {
            return self.end_stream(link, StreamError::InvalidFrom, "a stanza claims to be from somebody else");
        }
        match stanza.kind() {
            Kind::Message => self.counters.messages_in += 1,
            Kind::Presence => self.counters.presence_in += 1,
            Kind::Iq => self.counters.iqs_in += 1,
            Kind::Other => return self.element(link, stanza),
        }
        let to = stanza.to();
        let prepared = to.as_deref().map(prepare).transpose();
        let to = prepared.as_ref().map(|prepared| prepared.as_ref().map(Prepared::as_ref));
        if self.is_tracing() {
            let to = to.ok().flatten();
            let text = to.map_or(&[][..], |to| to.as_str().as_bytes());
            if self.may_be_traced(text, address.as_str().as_bytes()) {
                self.sight_received(address, stanza, to);
            }
        }
        self.tally_sender(link, stanza.bytes().len());
        match stanza.kind() {
            Kind::Message => self.outboxes.note(link),
            _ => self.touch(link),
        }
        let Some(type_) = StanzaType::of(stanza.kind(), stanza.raw_type().map(|raw| raw.bytes)) else {
            return self.refuse(link, stanza, Condition::BadRequest.into());
        };
        let Ok(to) = to else { return self.refuse(link, stanza, Condition::JidMalformed.into()) };
        match stanza.kind() {
            Kind::Presence => self.presence_from(link, stanza, type_, to),
            Kind::Iq => self.iq_from(link, stanza, type_, to),
            _ => self.message_from(link, stanza, type_, to),
        }
    }

    /// Ends a session because of its input: later input is ignored, even if it already waits in the
    /// backlog (RFC 6120 §4.9.1.1).
    pub(crate) fn end_stream(&mut self, link: Link, error: StreamError, text: &'static str) {
        self.drop_backlog(link);
        self.close(link, error, text);
    }

    /// Drops the stanzas that wait in the backlog of a session that is ending.
    pub(crate) fn drop_backlog(&mut self, link: Link) {
        if let Some(rare) = self.at_mut(link).and_then(|session| session.rare.as_mut()) {
            let dropped = std::mem::take(&mut rare.backlog.queue);
            rare.backlog.bytes = 0;
            if let Some(managed) = &mut rare.managed {
                managed.ledger.take_back(dropped.iter().filter(|(_, custody)| custody.is_some()).count() as u32);
            }
        }
    }

    fn message_from(&mut self, link: Link, stanza: Stanza<'_>, type_: StanzaType, to: Option<JidRef<'_>>) {
        let Some(packet) = self.stamp(link, stanza, type_) else { return };
        match to {
            Some(to) => self.route_from(link, &packet, to),
            // Without an address it is for the sender's own account (RFC 6120 §10.3.1).
            None => {
                let Some(own) = self.outboxes.address(link).map(Jid::to_bare) else { return };
                self.route_from(link, &packet, own.as_ref());
            }
        }
    }

    fn iq_from(&mut self, link: Link, stanza: Stanza<'_>, type_: StanzaType, to: Option<JidRef<'_>>) {
        let is_request = matches!(type_, StanzaType::Get | StanzaType::Set);
        // RFC 6120 §8.2.3: an id always; a request has exactly one payload element.
        if stanza.id().is_none() || (is_request && stanza.children().count() != 1) {
            return self.refuse(link, stanza, Condition::BadRequest.into());
        }
        let Some(address) = self.outboxes.address(link) else { return };
        let is_here = to.is_none_or(|to| to == address.bare() || (to.is_domain() && self.is_domain(to.domain())));
        if !is_here {
            let (Some(packet), Some(to)) = (self.stamp(link, stanza, type_), to) else { return };
            return self.route_from(link, &packet, to);
        }
        if is_request {
            let from = address.clone();
            let to = to.map_or_else(|| from.to_bare(), JidRef::to_jid);
            let origin = self.reference(link);
            if let Some(iq) = Iq::read(stanza, from, to, origin) {
                self.answer(iq);
            }
        } else if let Some(packet) = self.stamp(link, stanza, type_) {
            self.answered(&packet);
        }
    }

    /// Returns the canonical form of a session's stanza, with its full JID as sender.
    pub(crate) fn stamp(&mut self, link: Link, stanza: Stanza<'_>, type_: StanzaType) -> Option<Packet> {
        let outer = self.counters.path.enter(StanzaStage::Stamp);
        let address = self.outboxes.address(link);
        let packet = address.and_then(|address| self.stamp_as(link, stanza, type_, address.as_ref()));
        self.counters.path.back(outer);
        packet
    }

    pub(crate) fn stamp_as(
        &self,
        link: Link,
        stanza: Stanza<'_>,
        type_: StanzaType,
        from: JidRef<'_>,
    ) -> Option<Packet> {
        let session = self.session_at(link)?;
        let lang = session.rare.as_ref().and_then(|rare| rare.lang.as_deref());
        let packet = Packet::from_session(stanza, type_, from.as_str(), lang);
        Some(if self.may_repeat(link) { packet.again() } else { packet })
    }

    /// Routes a session's stanza, past the modules that want to see it before.
    pub(crate) fn route_from(&mut self, link: Link, packet: &Packet, to: JidRef<'_>) {
        if let Some(packet) = self.leaving(link, packet, to) {
            self.route(&packet, to);
        }
    }

    /// Returns a session's stanza as it is after the modules that want to see it before it is
    /// routed; `None` if one has taken it.
    pub(crate) fn leaving<'p>(&mut self, link: Link, packet: &'p Packet, to: JidRef<'_>) -> Option<Cow<'p, Packet>> {
        let account = self.outboxes.address(link)?;
        let on = self.filters(account.domain()).route;
        if !self.registry().passing.before_route.want(on, packet, || self.traits_of_session(link)) {
            return Some(Cow::Borrowed(packet));
        }
        let account = account.clone();
        self.pass(ROUTE, on, packet, to, account.as_ref(), &mut Notes::default())
    }

    /// Returns whether an account whose home this is may, by its own rules, send a stanza to one of
    /// many recipients. Recipients that it blocks get none of the stanza, as when it writes to them
    /// alone (XEP-0191 §3.3). If not, its session has been told.
    pub fn may_leave(&mut self, packet: &Packet, account: JidRef<'_>, to: JidRef<'_>) -> bool {
        let on = self.filters(account.domain()).route;
        self.pass_guards(ROUTE, on, packet, to, account)
    }

    /// Returns whether an account whose home this is has any such rules.
    pub fn has_rules(&self, account: JidRef<'_>) -> bool {
        self.at_hand(account).is_some()
    }

    /// Replies with an error to a stanza that goes nowhere, unless it is an error or a result
    /// itself (RFC 6120 §8.3.1).
    pub(crate) fn refuse(&mut self, link: Link, stanza: Stanza<'_>, error: StanzaError) {
        if matches!(stanza.raw_type().map(|raw| raw.bytes), Some(b"error" | b"result")) {
            return;
        }
        if stanza.kind() == Kind::Message {
            self.waiting.custody.iter().for_each(Custody::refuse);
        }
        if self.is_tracing() {
            self.sight_sent(link, stanza, Step::Refused, || format!("its sender gets <{}/>", error.condition.name()));
        }
        self.counters.errors += 1;
        let mut reply = rookery_xml::Writer::new(stanza.name());
        // A malformed address is returned as it was written, so that the client recognises its
        // request.
        reply.attr("type", "error").opt_attr("id", stanza.id().as_deref()).opt_attr("from", stanza.to().as_deref());
        error.write(&mut reply);
        if let Ok(packet) = Packet::from_built(&reply.finish()) {
            self.push(link, &packet, rookery_fanout::To::Full);
        }
    }
}

/// Returns the name under which the time of a stanza is recorded.
fn name_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Message => "message",
        Kind::Presence => "presence",
        Kind::Iq => "iq",
        Kind::Other => "element",
    }
}

/// Returns whether a `from` that a client wrote is its own: its full JID, or its bare one (RFC 6120
/// §8.1.2.1).
fn is_own(address: &Jid, from: &str) -> bool {
    from == address.as_str()
        || from == address.bare_str()
        || prepare(from).is_ok_and(|from| {
            let from = from.as_ref();
            from.as_str() == address.as_str() || from.as_str() == address.bare_str()
        })
}
