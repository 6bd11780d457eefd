//! Moderation (XEP-0425): a moderator has another occupant's message retracted.

use rookery_archive::{stanza_id, tombstone_mark};
use rookery_fanout::Packet;
use rookery_hub::{Iq, World};
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Element, Writer, ns};

use super::role::RoomRole;
use super::room::Room;

impl Room {
    /// Carries out a request to retract a message by the id that the room gave it.
    pub(crate) fn moderate(&mut self, world: &mut World, iq: &Iq) -> Result<(), StanzaError> {
        let Some(moderator) = self.occupant_of(&iq.from).and_then(|at| self.occupants.get(at)) else {
            return Err(Condition::Forbidden.into());
        };
        if moderator.role != RoomRole::Moderator {
            return Err(StanzaError::new(Condition::Forbidden).with_text("only moderators moderate others' messages"));
        }
        let id = iq.payload.attr("id").filter(|id| !id.is_empty() && id.len() <= LONGEST_ID);
        let retracts = iq.payload.child("retract", ns::RETRACT).is_some();
        let (Some(id), true, true) = (id, retracts, iq.set) else { return Err(Condition::BadRequest.into()) };
        let pseudonym = Element::new("occupant-id", ns::OCCUPANT_ID).with_attr("id", &moderator.id);
        let moderated = Element::new("moderated", ns::MODERATE).with_attr("by", moderator.jid.as_str());
        let reason = iq.payload.child_text("reason", ns::MODERATE);
        let reason = reason.map(|reason| Element::new("reason", ns::RETRACT).with_text(reason));
        let why: Vec<_> = [moderated.with_child(pseudonym)].into_iter().chain(reason).collect();
        let because = |element: Element| why.iter().cloned().fold(element, Element::with_child);
        let own = world.unique_text();
        let mut message = Writer::new("message");
        message.attr("type", "groupchat").attr("id", &own).attr("from", self.jid.as_str());
        message.element(&because(Element::new("retract", ns::RETRACT).with_attr("id", id)));
        self.history.retract(id, None);
        self.bury(world, id, None, because(tombstone_mark(&own, world.time())));
        if let Ok(packet) = Packet::from_built(&message.finish()) {
            let stable = self.record(world, None, &packet, None);
            self.send_to_all(world, &packet.with_child(&stanza_id(self.jid.as_ref(), &stable)));
        }
        world.reply_done(iq);
        Ok(())
    }
}

/// The most bytes of a message's id in such a request.
const LONGEST_ID: usize = 256;
