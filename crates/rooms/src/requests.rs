//! IQs between occupants (XEP-0045 §17.4): each knows the other only by nickname.
//!
//! The room remembers nothing of the requests that it passes on. A request goes out with an id that
//! names both seats, before the asker's own id; the reply comes back with it. A reply counts only
//! if it comes from the session, or the account, that was asked.

use rookery_fanout::{Packet, StanzaType};
use rookery_hub::World;
use rookery_jid::{Jid, JidRef};
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Stanza, Writer, ns};

use super::occupant::Occupant;
use super::refusal::not_an_occupant;
use super::room::Room;

impl Room {
    /// Relays an IQ for an occupant.
    pub(crate) fn relay(&mut self, world: &mut World, packet: &Packet, from: &Jid, to: JidRef<'_>) {
        let stanza = packet.stanza();
        let nick = to.resource().unwrap_or_default();
        if matches!(packet.type_(), StanzaType::Result | StanzaType::Error) {
            return self.pass_answer(world, stanza, from, nick);
        }
        let Some(asker) = self.occupant_of(from) else {
            return world.bounce(packet, to, not_an_occupant(packet, to));
        };
        let Some(asked) = self.occupant_named(nick) else {
            return world.bounce(packet, to, Condition::ItemNotFound.into());
        };
        if asker == asked && is_ping(stanza) {
            return self.answer_self_ping(world, packet, from, to);
        }
        if !self.may_relay(world, asker) {
            return world.bounce(
                packet,
                to,
                StanzaError::new(Condition::ResourceConstraint).with_text("you are sending requests too fast"),
            );
        }
        if !self.pass_request(world, stanza, from, asker, asked) {
            world.bounce(packet, to, Condition::BadRequest.into());
        }
    }

    /// Replies to a ping of an occupant to itself: the room knows that the client is there
    /// (XEP-0410 §4).
    fn answer_self_ping(&self, world: &mut World, packet: &Packet, from: &Jid, to: JidRef<'_>) {
        let mut reply = Writer::new("iq");
        reply.attr("type", "result").opt_attr("id", packet.id().as_deref()).attr("from", to.as_str());
        world.route_built(&reply.finish(), from);
    }

    /// Passes a request on between occupants; returns `false` if the stanza isn't a request.
    fn pass_request(&self, world: &mut World, stanza: Stanza<'_>, from: &Jid, asker: usize, asked: usize) -> bool {
        let (Some(sender), Some(target)) = (self.occupants.get(asker), self.occupants.get(asked)) else { return false };
        let own = sender.seats.iter().find(|seat| seat.jid == *from);
        let (Some(own), Some(seat), Some(id)) = (own, target.seat(), stanza.id()) else { return false };
        let Some(child) = stanza.first_child() else { return false };
        // Published data belongs to the account, so the account is asked: vCards and avatars.
        let is_public = matches!(&*child.ns(), ns::VCARD | ns::PUBSUB);
        let to = if is_public { target.account.clone() } else { seat.jid.clone() };
        let id = format!("{:x}.{:x}.{id}", own.number, seat.number);
        send(world, stanza, sender, &id, &to);
        true
    }

    fn pass_answer(&self, world: &mut World, stanza: Stanza<'_>, from: &Jid, nick: &str) {
        let Some(id) = stanza.id() else { return };
        let mut parts = id.splitn(3, '.');
        let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
        let (Some(asker), Some(answerer), Some(id)) = (number(), number(), parts.next()) else { return };
        let Some(target) = self.occupant_named(nick).and_then(|at| self.occupants.get(at)) else { return };
        let Some(to) = target.seats.iter().find(|seat| seat.number == asker) else { return };
        if let Some(answerer) = self.occupant_with(from, answerer) {
            send(world, stanza, answerer, id, &to.jid);
        }
    }

    /// Returns the occupant with the seat of that number, if the address is that of the seat or of
    /// the account behind it.
    fn occupant_with(&self, from: &Jid, number: u64) -> Option<&Occupant> {
        let has = |occupant: &&Occupant| {
            let mut seats = occupant.seats.iter();
            seats.any(|seat| seat.number == number && (seat.jid == *from || occupant.account == *from))
        };
        match self.occupant_of(from) {
            Some(at) => self.occupants.get(at).filter(has),
            // Other full JIDs aren't searched for: strangers could cause a scan of all occupants.
            None if from.resource().is_some() => None,
            None => self.occupants.iter().map(|(_, occupant)| occupant).find(has),
        }
    }
}

/// Sends the same stanza in an occupant's name and with another id.
fn send(world: &mut World, stanza: Stanza<'_>, from: &Occupant, id: &str, to: &Jid) {
    let mut iq = Writer::new("iq");
    iq.opt_attr("type", stanza.type_().as_deref()).attr("id", id).attr("from", from.jid.as_str());
    iq.opt_attr("xml:lang", stanza.lang().as_deref());
    for child in stanza.children() {
        iq.copy(&child);
    }
    world.route_built(&iq.finish(), to);
}

fn is_ping(stanza: Stanza<'_>) -> bool {
    stanza.first_child().is_some_and(|child| child.ns() == ns::PING)
}
