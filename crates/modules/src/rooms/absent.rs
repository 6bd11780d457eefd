//! What is answered in the name of a room that doesn't exist, and how one begins to (XEP-0045 §10.1).

use rookery_fanout::{Packet, StanzaType};
use rookery_hub::World;
use rookery_jid::{Jid, JidRef};
use rookery_stream::error::Condition;
use rookery_xml::{Kind, Limits as XmlLimits, Stanza, ns};

use super::actor::State;
use super::directory::Entry;
use super::join;
use super::limits::Limits;
use super::occupant::nick_key;
use super::room::Room;

/// A stanza for a room that doesn't exist. The room, if it is created by that; it has not seen the stanza yet.
pub(crate) fn receive(state: &State, world: &mut World, packet: &Packet, to: JidRef<'_>) -> Option<Box<Room>> {
    let enters = packet.kind() == Kind::Presence && packet.type_() == StanzaType::Available && join::enters(packet);
    let sender = packet.sender()?;
    if !enters || to.resource().and_then(nick_key).is_none() {
        refuse(world, packet, to);
        return None;
    }
    match create(state, world, to.bare().to_jid(), &sender) {
        Ok(room) => Some(Box::new(room)),
        Err(condition) => {
            join::refuse(world, packet, to, condition.into());
            None
        }
    }
}

fn create(state: &State, world: &mut World, jid: Jid, creator: &Jid) -> Result<Room, Condition> {
    if creator.resource().is_none() || !Room::may_create(world, jid.domain(), creator) {
        // §10.1.1.
        return Err(Condition::NotAllowed);
    }
    let limit = world.domain_of(jid.domain()).map_or(0, |domain| Limits::of(domain).rooms);
    let entry = Entry { name: jid.local().unwrap_or_default().to_owned(), is_public: false, is_stored: false };
    if !state.directory.add(jid.as_ref(), entry, limit) {
        return Err(Condition::ResourceConstraint);
    }
    let mut room = Room::new(state, world, jid, creator.as_ref()).ok_or(Condition::ItemNotFound)?;
    room.forget_past(world);
    Ok(room)
}

/// Answers in the name of a room that is not there.
pub(crate) fn refuse(world: &mut World, packet: &Packet, to: JidRef<'_>) {
    let Some(from) = packet.sender() else { return };
    match (packet.kind(), packet.type_()) {
        (Kind::Presence, StanzaType::Available) => match to.resource().map(nick_key) {
            // §7.2.1.
            None | Some(None) => join::refuse(world, packet, to, Condition::JidMalformed.into()),
            Some(_) if join::enters(packet) => join::refuse(world, packet, to, Condition::ItemNotFound.into()),
            Some(_) => join::not_in_the_room(world, &from, to),
        },
        (Kind::Presence, _) => {}
        // XEP-0410 §3: `item-not-found` would tell a client that it is in the room.
        (Kind::Iq, _) if to.resource().is_some() => world.bounce(packet, to, not_an_occupant(packet).into()),
        // §17.2.
        _ => world.bounce(packet, to, Condition::ItemNotFound.into()),
    }
}

/// The error for an IQ to an occupant from somebody who is none (§6.6, XEP-0410 §3).
pub(crate) fn not_an_occupant(packet: &Packet) -> Condition {
    let limits = XmlLimits { bytes: usize::MAX, ..XmlLimits::AFTER_LOGIN };
    let stanza = Stanza::parse(packet.bytes(), &limits).ok();
    let child = stanza.as_ref().and_then(Stanza::first_child);
    match child.map(|child| child.ns) {
        Some(namespace) if matches!(&*namespace, ns::DISCO_INFO | ns::DISCO_ITEMS) => Condition::BadRequest,
        _ => Condition::NotAcceptable,
    }
}
