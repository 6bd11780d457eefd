//! Reads requests to services, and refuses those that don't follow their schema.

use rookery_fanout::{Packet, StanzaType};
use rookery_hub::{Domain, Iq, Options, World};
use rookery_jid::JidRef;
use rookery_stream::error::Condition;
use rookery_xml::Kind;

/// Returns the request in a stanza to a service that takes only requests and only at its own
/// address, and the settings of its module in the domain. Returns `None` for any other stanza,
/// which has been bounced if its kind may be (RFC 6120 §8.3.1).
pub fn to_service<'d>(
    world: &mut World,
    packet: &Packet,
    to: JidRef<'_>,
    domain: &'d Domain,
    module: &str,
) -> Option<(Iq, &'d Options)> {
    if !matches!((packet.kind(), packet.type_()), (Kind::Iq, StanzaType::Get | StanzaType::Set)) {
        // A result or an error gets no reply (RFC 6120 §8.2.3), and presence is ignored.
        let is_answer =
            matches!(packet.type_(), StanzaType::Result | StanzaType::Error) || packet.kind() == Kind::Presence;
        if !is_answer {
            world.bounce(packet, to, Condition::ServiceUnavailable.into());
        }
        return None;
    }
    let from = packet.sender()?;
    let Some(iq) = Iq::read(packet.stanza(), from, to.to_jid(), None) else {
        world.bounce(packet, to, Condition::BadRequest.into());
        return None;
    };
    let Some(options) = domain.module(module).filter(|_| to.is_domain()) else {
        world.reply_error(&iq, Condition::ItemNotFound);
        return None;
    };
    Some((iq, options))
}

/// Returns whether a request is of type get with this payload element. If not, its sender is told
/// (`bad-request`, RFC 6120 §8.3.3.1).
pub fn is_get(world: &mut World, iq: &Iq, name: &str) -> bool {
    let well_formed = !iq.set && iq.payload.name() == name;
    if !well_formed {
        world.reply_error(iq, Condition::BadRequest);
    }
    well_formed
}
