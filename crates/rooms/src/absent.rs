//! Rooms that don't exist, and their creation (XEP-0045 §10.1).

use rookery_fanout::{Packet, StanzaType};
use rookery_hub::World;
use rookery_jid::{Jid, JidRef};
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::Kind;

use super::directory::{Full, MostRooms, RoomEntry};
use super::limits::RoomLimits;
use super::occupant::nick_key;
use super::refusal;
use super::room::Room;
use super::spread;

/// Takes a stanza for a room that doesn't exist, and returns the room if the stanza creates it. The
/// room hasn't processed the stanza yet.
pub(crate) fn receive(world: &mut World, packet: &Packet, to: JidRef<'_>) -> Option<Box<Room>> {
    let enters = packet.kind() == Kind::Presence && packet.type_() == StanzaType::Available && refusal::enters(packet);
    let sender = packet.sender()?;
    if !enters || to.resource().and_then(nick_key).is_none() {
        refusal::of_absent(world, packet, to);
        return None;
    }
    match create(world, to.bare().to_jid(), &sender) {
        Ok(room) => Some(Box::new(room)),
        Err(error) => {
            refusal::refuse(world, packet, to, error);
            None
        }
    }
}

fn create(world: &mut World, jid: Jid, creator: &Jid) -> Result<Room, StanzaError> {
    if creator.resource().is_none() || !Room::may_create(world, jid.domain(), creator) {
        // §10.1.1.
        return Err(Condition::NotAllowed.into());
    }
    let is_operators = Room::is_operator(world, jid.domain(), creator.as_ref());
    make(world, jid, creator, is_operators)
}

/// Makes a room, which is locked until it is configured. With `is_operators`, it doesn't count
/// against its creator's limit.
///
/// # Errors
/// The service doesn't exist, or has as many rooms as it may.
pub(crate) fn make(world: &mut World, jid: Jid, creator: &Jid, is_operators: bool) -> Result<Room, StanzaError> {
    let limits = world.domain_of(jid.domain()).map(RoomLimits::of).ok_or(Condition::ItemNotFound)?;
    let most = MostRooms {
        all: limits.rooms,
        of_account: if is_operators { usize::MAX } else { limits.of_account.rooms },
        of_domain: if world.is_here(creator.domain()) { usize::MAX } else { limits.of_domain.rooms },
    };
    let name = jid.local().unwrap_or_default().to_owned();
    let entry = RoomEntry { name, is_public: false, is_stored: false, creator: Some(creator.to_bare()) };
    spread::add(world, jid.as_ref(), entry, most).map_err(|full| match full {
        Full::Service => {
            StanzaError::new(Condition::ResourceConstraint).with_text("the service has no place for more rooms")
        }
        Full::Account => {
            StanzaError::new(Condition::NotAllowed).with_text("you already have as many rooms as you may have")
        }
        Full::Domain => StanzaError::new(Condition::NotAllowed)
            .with_text("your server's users already have as many rooms as they may have"),
    })?;
    let mut room = Room::new(world, jid, creator.as_ref()).ok_or(Condition::ItemNotFound)?;
    room.forget_past(world);
    Ok(room)
}
