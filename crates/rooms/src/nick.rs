//! Changes of an occupant to itself: presence (XEP-0045 §7.7) and nickname (§7.6).

use rookery_fanout::Packet;
use rookery_hub::World;
use rookery_jid::{Jid, JidRef};
use rookery_stream::error::StanzaError;

use super::join::reflect;
use super::occupant::nick_key;
use super::room::Room;
use super::shown::ShownPresence;

impl Room {
    /// Updates an occupant's presence. One that is the same is shown again only if a home may have
    /// died before it had shown it to all others.
    pub(crate) fn update(&mut self, world: &mut World, at: usize, packet: &Packet, from: &Jid) {
        let new = reflect(packet);
        let Some(occupant) = self.occupants.get_mut(at) else { return };
        let Some(place) = occupant.seats.iter().position(|seat| seat.jid == *from) else { return };
        let mut seat = occupant.seats.remove(place);
        let is_same = content(&seat.presence) == content(&new) && place == occupant.seats.len();
        seat.presence = new;
        // The session that sent something last speaks for the nick.
        occupant.seats.push(seat);
        if is_same && !packet.is_again() {
            return;
        }
        occupant.changed();
        let id = packet.id();
        let shown = ShownPresence { id: id.as_deref(), ..ShownPresence::default() };
        self.announce(world, at, &shown);
    }

    /// Gives an occupant another nick, with all its sessions. Then one of these, `from`, gets
    /// `again` stanzas of the past.
    pub(crate) fn change_nick(
        &mut self,
        world: &mut World,
        at: usize,
        packet: &Packet,
        (from, to, key): (&Jid, JidRef<'_>, &str),
        again: usize,
    ) -> Result<(), StanzaError> {
        self.may_have_nick(to, from, key)?;
        if self.nicks.get(key).is_some_and(|&holder| holder != at) {
            // The same account has that nick, too: two occupants don't become one.
            return Err(rookery_stream::error::Condition::Conflict.into());
        }
        self.may_stir(world, at, 2 * self.hearers(at) + again)?;
        let nick = to.resource().unwrap_or_default();
        self.announce(
            world,
            at,
            &ShownPresence { is_gone: true, nick: Some(nick), codes: vec![303], ..ShownPresence::default() },
        );
        self.log_nick(world, at, nick);
        let Some(occupant) = self.occupants.get_mut(at) else { return Ok(()) };
        if let Some(old) = nick_key(occupant.nick()) {
            self.nicks.remove(&old);
        }
        self.nicks.insert(key.to_owned(), at);
        occupant.jid = to.to_jid();
        if let Some(place) = occupant.seats.iter().position(|seat| seat.jid == *from) {
            let mut seat = occupant.seats.remove(place);
            seat.presence = reflect(packet);
            occupant.seats.push(seat);
        }
        occupant.changed();
        let id = packet.id();
        self.announce(world, at, &ShownPresence { id: id.as_deref(), ..ShownPresence::default() });
        Ok(())
    }
}

/// Returns a presence without its head, which differs each time.
fn content(packet: &Packet) -> &[u8] {
    let bytes = packet.bytes();
    let head = bytes.iter().position(|&byte| byte == b'>').unwrap_or(bytes.len());
    bytes.get(head..).unwrap_or_default()
}
