//! The untrusted route: a stanza with a header, from a client or another server.
//!
//! The checks come in this order, and nothing is delivered when one refuses: may the sender use the
//! service (`forbidden`); does the header decode (`bad-request`); are there too many recipients
//! (`not-acceptable`); may the sender reach others through this server (`forbidden`); is the
//! message too large for so many recipients (`resource-constraint`). Each recipient without a
//! usable JID is reported separately (`jid-malformed`) and does not stop the others.

use rookery_base::Set;
use rookery_fanout::multicast::{Groups, HeaderTarget, Hop, MulticastHeader, Plan, find};
use rookery_fanout::{Packet, StanzaType};
use rookery_hub::{Domain, Options, Verdict, World};
use rookery_jid::{Jid, JidRef};
use rookery_modkit::option;
use rookery_observe::MulticastStage;
use rookery_observe::stages::Begun;
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Kind, Stanza};

use super::limits::{self, NAME};
use super::originators::Originators;

/// Handles a message or presence for a domain itself like one for its service, if it has a header.
pub(super) fn for_domain(world: &mut World, packet: &Packet, to: JidRef<'_>) -> Verdict {
    if !to.is_domain() {
        return Verdict::Pass;
    }
    let has_header = find(&packet.stanza()).is_some();
    let settings = world.settings().clone();
    match settings.domains.iter().find(|domain| domain.name == to.domain()) {
        Some(domain) if has_header => {
            handle(world, packet, to, domain);
            Verdict::Taken
        }
        _ => Verdict::Pass,
    }
}

/// Handles a message or presence for the service `to` of a domain.
pub(super) fn handle(world: &mut World, packet: &Packet, to: JidRef<'_>, domain: &Domain) {
    let (Some(options), Some(sender)) = (domain.module(NAME), packet.sender()) else { return };
    match packet.type_() {
        StanzaType::Error => return,
        StanzaType::Subscribe | StanzaType::Subscribed | StanzaType::Unsubscribe | StanzaType::Unsubscribed => {
            // The sender's own server wouldn't know about the subscription (RFC 6121 §3).
            let text = "a subscription request must be sent to its recipient directly";
            return world.bounce(packet, to, StanzaError::new(Condition::NotAllowed).with_text(text));
        }
        StanzaType::Probe => return,
        _ => {}
    }
    let stanza = packet.stanza();
    let route = UntrustedRoute { world, packet, service: to, sender: &sender, options, domain: &domain.name };
    if let Err(error) = route.go(&stanza) {
        world.bounce(packet, to, error);
    }
}

/// One stanza on its way through the checks.
struct UntrustedRoute<'a, 'w> {
    world: &'w mut World,
    packet: &'a Packet,
    service: JidRef<'a>,
    sender: &'a Jid,
    options: &'a Options,
    domain: &'a str,
}

impl UntrustedRoute<'_, '_> {
    fn go(mut self, stanza: &Stanza<'_>) -> Result<(), StanzaError> {
        let begun = self.world.counters.stages.begin();
        if !option::may_use(self.world, self.options.list("access"), self.sender) {
            return Err(StanzaError::new(Condition::Forbidden).with_text("access to this service is denied"));
        }
        let begun = self.end(MulticastStage::Access, begun);
        let Some(element) = find(stanza) else { return self.without_header() };
        let mut header = MulticastHeader::decode(element).map_err(|bad| bad_request(bad.text()))?;
        let begun = self.end(MulticastStage::Decode, begun);
        header.resolve().map_err(|bad| bad_request(bad.text()))?;
        let begun = self.end(MulticastStage::Addresses, begun);
        if !header.has_recipients() {
            return Err(bad_request("the header has no address to deliver to"));
        }
        let is_local = self.world.is_ours(self.sender.domain());
        let limit = limits::of(self.options, is_local, self.packet.kind());
        self.report_unusable(&header, limit);
        let recipients = header.recipients().count();
        if let Some(limit) = limit.filter(|&limit| recipients > limit) {
            let text = format!("{recipients} recipients are too many; at most {limit} are allowed");
            return Err(StanzaError::new(Condition::NotAcceptable).with_text(text));
        }
        let begun = self.end(MulticastStage::Limits, begun);
        // §2.2 of the XEP: a server may refuse to send to third parties for senders that aren't its
        // own users.
        if !is_local && !header.recipients().all(|to| self.is_of_domain(to.as_ref())) {
            return Err(StanzaError::new(Condition::Forbidden).with_text("relaying to other servers is denied"));
        }
        self.charge(recipients, is_local)?;
        self.remember(&header, is_local)?;
        let begun = self.end(MulticastStage::Relay, begun);
        self.deliver(&header, begun);
        Ok(())
    }

    fn end(&mut self, stage: MulticastStage, begun: Begun) -> Begun {
        self.world.counters.stages.end(stage, begun)
    }

    /// Reports each recipient without a usable JID with an error of its own, as many as the limit
    /// for recipients, or at least [`REPORTED`].
    fn report_unusable(&mut self, header: &MulticastHeader<'_>, limit: Option<usize>) {
        let most = limit.map_or(usize::MAX, |limit| limit.max(REPORTED));
        let texts: Vec<_> = header.unusable().take(most).map(unusable).collect();
        for text in texts {
            let error = StanzaError::new(Condition::JidMalformed).with_text(text);
            self.world.bounce(self.packet, self.service, error);
        }
    }

    /// Returns whether an address is one of the service's own domain, or of one of that domain's
    /// services.
    fn is_of_domain(&self, jid: JidRef<'_>) -> bool {
        self.world.domain_of(jid.domain()).is_some_and(|domain| domain.name == self.domain)
    }

    /// Passes on unavailable presence without a header, which means that the originator is gone:
    /// all who saw it are told. Anything else needs a header.
    fn without_header(self) -> Result<(), StanzaError> {
        if self.packet.type_() != StanzaType::Unavailable {
            return Err(bad_request("the stanza has no header with addresses"));
        }
        let gone = self.world.state_mut::<Originators>().forget(self.sender);
        self.world.fan_out(self.packet, gone.iter().map(Jid::as_ref));
        Ok(())
    }

    /// Charges the sender for a message, since each of its recipients stores it. Presence isn't
    /// stored, so it is free.
    fn charge(&mut self, recipients: usize, is_local: bool) -> Result<(), StanzaError> {
        if self.packet.kind() != Kind::Message {
            return Ok(());
        }
        let most = self.options.number(limits::MINUTE_BYTES);
        let bytes = (self.packet.bytes().len() as u64).saturating_mul(recipients as u64);
        let sender = if is_local { self.sender.bare_str() } else { self.sender.domain() };
        let now_ms = self.world.time();
        let is_allowed = self.world.state_mut::<limits::Spent>().charge(sender, bytes, most, now_ms);
        let text = "you have sent too many bytes to too many recipients; try again in a minute";
        is_allowed.then_some(()).ok_or_else(|| StanzaError::new(Condition::ResourceConstraint).with_text(text))
    }

    /// Remembers presence once it is sure to be delivered, so that unavailable presence follows.
    fn remember(&mut self, header: &MulticastHeader<'_>, is_local: bool) -> Result<(), StanzaError> {
        if self.packet.kind() != Kind::Presence {
            return Ok(());
        }
        let (type_, to) = (self.packet.type_(), header.recipients().map(HeaderTarget::as_ref));
        let has_room = match type_ {
            _ if is_local => self.world.remember_directed(self.sender.as_ref(), type_, to),
            StanzaType::Available => self.world.state_mut::<Originators>().available(self.sender, to),
            _ => {
                self.world.state_mut::<Originators>().unavailable(self.sender, to);
                true
            }
        };
        let text = "this resource has sent presence to too many addresses";
        has_room.then_some(()).ok_or_else(|| StanzaError::new(Condition::ResourceConstraint).with_text(text))
    }

    fn deliver(self, header: &MulticastHeader<'_>, begun: Begun) {
        let Self { world, packet, sender, .. } = self;
        let blocked = blocked_recipients(world, packet, sender, header);
        let hop = |jid: JidRef<'_>| match world.is_here(jid.domain()) {
            _ if blocked.contains(jid.as_str()) => Hop::Nowhere,
            false => Hop::Away,
            true if jid.local().is_none() && passes_on(world, jid.domain()) => Hop::Nowhere,
            true => Hop::Here,
        };
        let groups = Groups::new(header, hop);
        let begun = world.counters.stages.end(MulticastStage::Group, begun);
        let plan = Plan::new(packet, header, groups);
        let begun = world.counters.stages.end(MulticastStage::Prebuild, begun);
        world.fan_out(&plan.shown, plan.to_shown.iter().map(|to| to.as_ref()));
        if let Some(hidden) = &plan.hidden {
            world.fan_out(hidden, plan.to_hidden.iter().map(|to| to.as_ref()));
        }
        for (to, packet) in &plan.rich {
            world.route(packet, to.as_ref());
        }
        for distant in plan.distant {
            world.multicast_away(distant);
        }
        _ = world.counters.stages.end(MulticastStage::Route, begun);
    }
}

/// Returns the recipients that the sender, an account of this server, blocks. For each of them it
/// gets the same error as for a stanza to that address alone.
fn blocked_recipients(world: &mut World, packet: &Packet, sender: &Jid, header: &MulticastHeader<'_>) -> Set<String> {
    let is_own = world.is_here(sender.domain()) && world.home_of(sender.bare()) == world.shard();
    if !is_own || !world.has_rules(sender.as_ref()) {
        return Set::default();
    }
    let recipients: Vec<_> = header.recipients().map(|to| to.as_ref().to_jid()).collect();
    let blocked = recipients.into_iter().filter(|to| !world.may_leave(packet, sender.as_ref(), to.as_ref()));
    blocked.map(|to| to.as_str().to_owned()).collect()
}

/// Returns whether stanzas with a header for this host would come here again.
fn passes_on(world: &World, host: &str) -> bool {
    world.domain(host).is_some() || world.is_service_of(host, NAME)
}

/// Returns the error text for an address that can't be used.
fn unusable(written: &str) -> String {
    let shown: String = written.chars().take(SHOWN).collect();
    if shown.is_empty() {
        "an address has no JID".to_owned()
    } else {
        format!("{shown}: not a JID that stanzas can be sent to")
    }
}

fn bad_request(text: impl Into<std::borrow::Cow<'static, str>>) -> StanzaError {
    StanzaError::new(Condition::BadRequest).with_text(text)
}

/// The number of unusable addresses that are always reported, whatever the limit.
const REPORTED: usize = 100;
/// The most characters of an address that an error shows.
const SHOWN: usize = 200;
