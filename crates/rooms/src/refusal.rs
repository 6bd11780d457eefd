//! Refusals on behalf of a room, whether it exists or not (XEP-0045 §7.2, §17.2).

use rookery_fanout::{Packet, StanzaType};
use rookery_hub::{Step, World};
use rookery_jid::{Jid, JidRef};
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Element, Kind, Writer, ns};

use super::occupant::nick_key;

/// Returns whether a presence asks to enter: it has an `<x/>` in the namespace of rooms (§7.2.1).
pub(crate) fn enters(packet: &Packet) -> bool {
    request(packet).is_some()
}

pub(super) fn request(packet: &Packet) -> Option<Element> {
    let stanza = packet.stanza();
    stanza.child("x", ns::MUC).map(|x| x.element())
}

/// Refuses a presence with an error whose `<x/>` tells clients that it is about a room (§7.2).
pub(crate) fn refuse(world: &mut World, packet: &Packet, to: JidRef<'_>, error: StanzaError) {
    let Some(from) = packet.sender() else { return };
    let mut reply = Writer::new("presence");
    reply.attr("type", "error").opt_attr("id", packet.id().as_deref()).attr("from", to.as_str());
    reply.start_ns("x", ns::MUC).end();
    error.write(&mut reply);
    world.sight(packet, to, Step::Refused, || {
        let text = error.text.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
        format!("the room refuses it, its sender gets <{}/>{text}", error.condition.name())
    });
    world.route_built(&reply.finish(), &from);
}

/// Refuses a stanza that doesn't reach the room at all: presence that enters by the error of a
/// refused entry (XEP-0045 §7.2), everything else by an error like any other.
pub fn turn_away(world: &mut World, packet: &Packet, to: JidRef<'_>, condition: Condition) {
    match (packet.kind(), packet.type_()) {
        (Kind::Presence, StanzaType::Available) => refuse(world, packet, to, condition.into()),
        _ => world.bounce(packet, to, condition.into()),
    }
}

/// Tells a client that believes it is in a room that it isn't (§7.2.17).
pub(crate) fn not_in_the_room(world: &mut World, session: &Jid, nick: JidRef<'_>) {
    let mut kick = Writer::new("presence");
    kick.attr("type", "unavailable").attr("from", nick.as_str());
    kick.start_ns("x", ns::MUC_USER);
    kick.start("item").attr("affiliation", "none").attr("role", "none");
    kick.text_child("reason", "You are not in the room.").end();
    for code in ["110", "307", "333"] {
        kick.start("status").attr("code", code).end();
    }
    world.route_built(&kick.finish(), session);
}

/// Replies in the name of a room that doesn't exist.
pub(crate) fn of_absent(world: &mut World, packet: &Packet, to: JidRef<'_>) {
    let Some(from) = packet.sender() else { return };
    match (packet.kind(), packet.type_()) {
        (Kind::Presence, StanzaType::Available) => match to.resource().map(nick_key) {
            // §7.2.1.
            None | Some(None) => refuse(world, packet, to, Condition::JidMalformed.into()),
            Some(_) if enters(packet) => refuse(world, packet, to, Condition::ItemNotFound.into()),
            Some(_) => not_in_the_room(world, &from, to),
        },
        (Kind::Presence, _) => {}
        // XEP-0410 §3: `item-not-found` would tell a client that it is in the room.
        (Kind::Iq, _) if to.resource().is_some() => world.bounce(packet, to, not_an_occupant(packet, to)),
        // §17.2.
        _ => world.bounce(packet, to, Condition::ItemNotFound.into()),
    }
}

/// Returns the error for an IQ to an occupant from a session that isn't one (§6.6, XEP-0410 §3). It
/// names the room as its origin, since an error from a server on the way says nothing about who is
/// in the room.
pub(crate) fn not_an_occupant(packet: &Packet, to: JidRef<'_>) -> StanzaError {
    let condition = match packet.stanza().first_child().map(|child| child.ns()) {
        Some(namespace) if matches!(&*namespace, ns::DISCO_INFO | ns::DISCO_ITEMS) => Condition::BadRequest,
        _ => Condition::NotAcceptable,
    };
    StanzaError::new(condition).with_by(to.bare_str())
}
