//! XEP-0280: Message Carbons. Every device of a user gets both sides of every conversation.
//!
//! A copy is one packet for all sessions that get it, from the user's bare JID, which shows the
//! client that it isn't forged. It exists only in the outboxes of those sessions: when one of them
//! ends, its copies are dropped with it.
//!
//! # What is copied (§6.1)
//!
//! Messages of type `chat`; of type `normal` with a body or a payload of instant messaging clients;
//! invitations to rooms. Not copied are `groupchat` and `headline`; private messages from an
//! occupant of a room, which the room itself sends to every device; messages with a `<private/>` or
//! the hint `<no-copy/>`; messages that this server refuses. The `<private/>` stays in the message,
//! as the XEP has it since 0.13.
//!
//! An error is copied if it includes the message that it answers, and that message is of a kind
//! that is copied. For errors without it, all sent messages would have to be remembered: so
//! `urn:xmpp:carbons:rules:0` is not announced.
//!
//! # Forged copies
//!
//! No one-to-one message except those that this module writes has `<sent/>` or `<received/>` when
//! it reaches a session: those that others insert are cut out.

use rookery_archive as archive;
use rookery_fanout::{Link, Packet, StanzaType, To};
use rookery_hub::{
    Delivery, Destination, Hooks, Iq, Module, Passage, Phase, SessionRef, Stanzas, Step, Target, Wanted, World,
};
use rookery_jid::JidRef;
use rookery_modkit::payload::{has, is_invitation, is_of_instant_messaging};
use rookery_stream::error::Condition;
use rookery_xml::{Child, Kind, Writer, ns};

/// The module that copies sent and received messages to those of a user's devices that want it.
#[derive(Debug)]
pub struct Carbons;

impl Module for Carbons {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "every device of a user gets both sides of every conversation"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0280", "1.0.1"), ("XEP-0297", "1.0")]
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.feature(Target::Server, ns::CARBONS);
        hooks.feature(Target::Account, ns::CARBONS);
        hooks.iq(Target::Account, ns::CARBONS, switch);
        let copied = Wanted::from(COPIED).with_carbons();
        hooks.before_route(Phase::Record, copied, sent);
        let forgeable = Wanted::from(FORGEABLE).naming(&[ns::CARBONS]);
        hooks.before_delivery(Phase::Act, forgeable, |_, passage| without_forged(passage.packet));
        hooks.before_delivery(Phase::Record, copied, received);
    }
}

/// Switches copies for a session on or off (§4, §5); for Bind 2 too (XEP-0386).
pub fn enable(world: &mut World, session: SessionRef, wanted: bool) {
    world.set_carbons(session, wanted);
}

/// Switches carbons on or off (§4, §5). Doing so twice isn't an error (§10.1).
fn switch(world: &mut World, iq: Iq) {
    let wanted = match iq.payload.name() {
        "enable" => true,
        "disable" => false,
        _ => return world.reply_error(&iq, Condition::BadRequest),
    };
    if !iq.set {
        return world.reply_error(&iq, Condition::BadRequest);
    }
    match iq.origin.filter(|_| iq.is_own()) {
        Some(session) => {
            enable(world, session, wanted);
            world.reply_done(&iq);
        }
        None => world.reply_error(&iq, Condition::NotAllowed),
    }
}

/// Copies a message that a session sends to the other sessions of its account (§8).
fn sent(world: &mut World, Passage { packet, to, notes }: Passage<'_>) -> Delivery {
    let Some(from) = packet.sender() else { return Delivery::Pass };
    let mut links = world.links_with_carbons(from.as_ref());
    links.retain(|&link| world.address(link) != Some(&from));
    // A message to the sender's own account is copied where it arrives.
    if links.is_empty() || from.bare() == to.bare() || !is_eligible(packet, CarbonDirection::Sent, to) {
        return Delivery::Pass;
    }
    let copied = notes.recorded.as_deref().map(|id| packet.with_child(&archive::stanza_id(from.as_ref(), id)));
    give(world, &links, "sent", from.as_ref(), copied.as_ref().unwrap_or(packet), to);
    Delivery::Pass
}

/// Copies a message for an account to those of its sessions that don't get the message itself (§7).
fn received(world: &mut World, Passage { packet, to, .. }: Passage<'_>) -> Delivery {
    let mut links = world.links_with_carbons(to);
    if links.is_empty() {
        return Delivery::Pass;
    }
    let destination = world.destination(packet, to);
    links.retain(|&link| match destination {
        Destination::Session(addressed) => link != addressed,
        Destination::Account => !world.session_at(link).is_some_and(|session| session.takes_messages()),
        // An error to the bare JID has no particular recipient.
        Destination::Nobody => packet.type_() == StanzaType::Error,
        Destination::Refused => false,
    });
    // The session that sent it has it already.
    let from = packet.sender();
    links.retain(|&link| world.address(link) != from.as_ref());
    if !links.is_empty() && is_eligible(packet, CarbonDirection::Received, to) {
        give(world, &links, "received", to, packet, to);
    }
    Delivery::Pass
}

/// Delivers a copy to these sessions. A message whose copy would be nested too deeply for the
/// scanner is not copied.
fn give(world: &mut World, links: &[Link], name: &str, account: JidRef<'_>, packet: &Packet, to: JidRef<'_>) {
    let mut copy = Writer::new("message");
    copy.attr("from", account.bare_str()).opt_attr("type", packet.stanza().type_().as_deref());
    copy.start_ns(name, ns::CARBONS).start_ns("forwarded", ns::FORWARD);
    packet.forward(to.as_str(), &mut copy);
    let Ok(copy) = Packet::from_built(&copy.finish()) else { return };
    world.sight(packet, to, Step::Noted, || {
        format!("{} other sessions of {} get a copy (XEP-0280)", links.len(), account.bare())
    });
    for &link in links {
        world.push(link, &copy, To::Copy);
    }
}

/// Returns the message without elements that only this module may write.
fn without_forged(packet: &Packet) -> Delivery {
    let is_forged = |child: &Child<'_>| matches!(child.name(), "sent" | "received") && child.ns() == ns::CARBONS;
    if has(packet, |child| is_forged(&child)) {
        return Delivery::As(packet.without_children(is_forged));
    }
    Delivery::Pass
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CarbonDirection {
    Sent,
    Received,
}

/// Returns whether a message is of a kind that is copied (§6.1).
fn is_eligible(packet: &Packet, direction: CarbonDirection, to: JidRef<'_>) -> bool {
    let stanza = packet.stanza();
    let is_private = |child: Child<'_>| match &*child.ns() {
        ns::CARBONS => matches!(child.name(), "private" | "sent" | "received"),
        ns::HINTS => child.name() == "no-copy",
        ns::MAM => child.name() == "result",
        _ => false,
    };
    if stanza.children().any(is_private) {
        return false;
    }
    if stanza.children().any(|child| is_invitation(&child)) {
        return packet.type_() != StanzaType::Error;
    }
    let is_of_room = || stanza.child("x", ns::MUC_USER).is_some();
    if direction == CarbonDirection::Received && to.resource().is_some() && is_of_room() {
        return false;
    }
    let is_talk = || stanza.has_body() || stanza.children().any(|child| is_of_instant_messaging(&child));
    packet.type_() == StanzaType::Chat || is_talk()
}

/// The key below `[modules]`.
const NAME: &str = "carbons";
const COPIED: Stanzas = Stanzas::of(Kind::Message, &[StanzaType::Normal, StanzaType::Chat, StanzaType::Error]);
/// The messages from which forged carbons are removed. Those of rooms aren't among them: a client
/// never takes a room's message for a carbon.
const FORGEABLE: Stanzas = COPIED.and(Stanzas::of(Kind::Message, &[StanzaType::Headline]));

#[cfg(test)]
mod tests {
    use super::*;
    use rookery_jid::Jid;

    fn eligible(type_: &str, content: &str, direction: CarbonDirection) -> bool {
        let stanza = format!("<message from='a@x/r' type='{type_}'>{content}</message>");
        let packet = Packet::from_bytes(stanza.as_bytes()).unwrap();
        is_eligible(&packet, direction, Jid::parse("b@x/r").unwrap().as_ref())
    }

    #[test]
    fn the_rules_of_the_xep_hold() {
        let both = [CarbonDirection::Sent, CarbonDirection::Received];
        let receipt = "<received xmlns='urn:xmpp:receipts' id='1'/>";
        let occupant = "<body>hi</body><x xmlns='http://jabber.org/protocol/muc#user'/>";
        let invitation = "<x xmlns='http://jabber.org/protocol/muc#user'><invite from='a@x'/></x>";
        for (type_, content, expected) in [
            ("chat", "<body>hi</body>", [true; 2]),
            ("chat", "<x xmlns='urn:example'/>", [true; 2]),
            ("normal", "<body>hi</body>", [true; 2]),
            ("normal", "<x xmlns='urn:example'/>", [false; 2]),
            ("normal", receipt, [true; 2]),
            ("normal", invitation, [true; 2]),
            ("chat", occupant, [true, false]),
            ("error", "<error type='cancel'/>", [false; 2]),
            ("error", "<body>hi</body><error type='cancel'/>", [true; 2]),
            ("chat", "<body>hi</body><private xmlns='urn:xmpp:carbons:2'/>", [false; 2]),
            ("chat", "<body>hi</body><no-copy xmlns='urn:xmpp:hints'/>", [false; 2]),
            ("chat", "<sent xmlns='urn:xmpp:carbons:2'/>", [false; 2]),
        ] {
            assert_eq!(both.map(|direction| eligible(type_, content, direction)), expected, "{type_} {content}");
        }
    }
}
