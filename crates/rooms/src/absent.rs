//! What is answered in the name of a room that doesn't exist, and how one begins to (XEP-0045 §10.1).

use rookery_fanout::{Packet, StanzaType};
use rookery_hub::World;
use rookery_jid::{Jid, JidRef};
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Kind, ns};

use super::directory::{Directory, Entry, Full, Most};
use super::join;
use super::limits::Limits;
use super::occupant::nick_key;
use super::room::Room;

/// A stanza for a room that doesn't exist. The room, if it is created by that; it has not seen the stanza yet.
pub(crate) fn receive(world: &mut World, packet: &Packet, to: JidRef<'_>) -> Option<Box<Room>> {
    let enters = packet.kind() == Kind::Presence && packet.type_() == StanzaType::Available && join::enters(packet);
    let sender = packet.sender()?;
    if !enters || to.resource().and_then(nick_key).is_none() {
        refuse(world, packet, to);
        return None;
    }
    match create(world, to.bare().to_jid(), &sender) {
        Ok(room) => Some(Box::new(room)),
        Err(error) => {
            join::refuse(world, packet, to, error);
            None
        }
    }
}

fn create(world: &mut World, jid: Jid, creator: &Jid) -> Result<Room, StanzaError> {
    if creator.resource().is_none() || !Room::may_create(world, jid.domain(), creator) {
        // §10.1.1.
        return Err(Condition::NotAllowed.into());
    }
    let limits = world.domain_of(jid.domain()).map(Limits::of).ok_or(Condition::ItemNotFound)?;
    let most = Most {
        all: limits.rooms,
        of_account: if Room::is_operator(world, jid.domain(), creator.as_ref()) {
            usize::MAX
        } else {
            limits.of_account.rooms
        },
        of_domain: if world.is_here(creator.domain()) { usize::MAX } else { limits.of_domain.rooms },
    };
    let name = jid.local().unwrap_or_default().to_owned();
    let entry = Entry { name, is_public: false, is_stored: false, creator: Some(creator.to_bare()) };
    world.state::<Directory>().add(jid.as_ref(), entry, most).map_err(|full| match full {
        Full::Service => {
            StanzaError::new(Condition::ResourceConstraint).with_text("the service has no place for more rooms")
        }
        Full::Account => StanzaError::new(Condition::NotAllowed).with_text("you have as many rooms as you may"),
        Full::Domain => {
            StanzaError::new(Condition::NotAllowed).with_text("your server's users have as many rooms as they may")
        }
    })?;
    let mut room = Room::new(world, jid, creator.as_ref()).ok_or(Condition::ItemNotFound)?;
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
    match packet.stanza().first_child().map(|child| child.ns()) {
        Some(namespace) if matches!(&*namespace, ns::DISCO_INFO | ns::DISCO_ITEMS) => Condition::BadRequest,
        _ => Condition::NotAcceptable,
    }
}
