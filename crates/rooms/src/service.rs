//! The service itself, apart from its rooms: its description, and the list of rooms (XEP-0045 §6.1
//! to §6.3).

use rookery_fanout::{Packet, StanzaType};
use rookery_hub::{Domain, Iq, World};
use rookery_jid::JidRef;
use rookery_modkit::disco::{DiscoIdentity, Info};
use rookery_modkit::request::is_get;
use rookery_modkit::rsm;
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Kind, ns};

use super::directory::Directory;
use super::info::FEATURES;
use super::items::{MOST_LISTED, item_bytes, reply_page};
use super::limits::{NAME, REQUESTS};

/// Dispatches a stanza for the service.
pub(crate) fn receive(world: &mut World, packet: &Packet, to: JidRef<'_>) {
    let settings = world.settings().clone();
    let name = world.domain_of(to.domain()).map(|domain| domain.name.clone());
    let Some(domain) = settings.domains.iter().find(|domain| Some(&domain.name) == name.as_ref()) else { return };
    match (packet.kind(), packet.type_()) {
        _ if to.resource().is_some() => world.bounce(packet, to, Condition::ItemNotFound.into()),
        (Kind::Iq, StanzaType::Get | StanzaType::Set) => asked(world, packet, to, domain),
        (Kind::Iq, _) => {}
        // §7.2.1: a room has a name.
        (Kind::Presence, _) => world.bounce(packet, to, Condition::JidMalformed.into()),
        _ => world.bounce(packet, to, Condition::ServiceUnavailable.into()),
    }
}

/// Returns the features of its rooms, and of the pages of its list.
fn service_features() -> Vec<&'static str> {
    let mut features = FEATURES.to_vec();
    features.push(ns::RSM);
    features.sort_unstable();
    features
}

fn asked(world: &mut World, packet: &Packet, to: JidRef<'_>, domain: &Domain) {
    let Some(from) = packet.sender() else { return };
    let Some(iq) = Iq::read(packet.stanza(), from, to.to_jid(), None) else {
        return world.bounce(packet, to, Condition::BadRequest.into());
    };
    let rate = domain.module(NAME).map_or(0, |options| options.number(REQUESTS));
    if !world.state::<Directory>().holdings.may_ask(iq.from.bare(), rate, world.time()) {
        return world.reply_error(
            &iq,
            StanzaError::new(Condition::ResourceConstraint).with_text("you are sending requests too fast"),
        );
    }
    let has_node = iq.payload.attr("node").is_some_and(|node| !node.is_empty());
    let name = domain.module(NAME).map_or("", |options| options.text("name"));
    match iq.payload.ns() {
        ns::DISCO_INFO | ns::DISCO_ITEMS if has_node => world.reply_error(&iq, Condition::ItemNotFound),
        ns::DISCO_INFO if is_get(world, &iq, "query") => {
            let identity = DiscoIdentity { category: "conference", type_: "text", name: Some(name) };
            let mut reply = iq.result();
            Info { identity, more: &[], features: service_features(), forms: Vec::new() }.write(&mut reply, None);
            world.reply(&iq, reply);
        }
        ns::DISCO_ITEMS if is_get(world, &iq, "query") => {
            if let Err(condition) = list(world, &iq) {
                world.reply_error(&iq, condition);
            }
        }
        ns::VCARD if is_get(world, &iq, "vCard") => {
            let mut reply = iq.result();
            reply.start_ns("vCard", ns::VCARD).text_child("FN", name);
            world.reply(&iq, reply);
        }
        ns::PING if is_get(world, &iq, "ping") => world.reply_done(&iq),
        ns::DISCO_INFO | ns::DISCO_ITEMS | ns::VCARD | ns::PING => {}
        _ => world.reply_error(&iq, Condition::ServiceUnavailable),
    }
}

/// Lists as many of the public rooms as are requested and fit (XEP-0059).
fn list(world: &mut World, iq: &Iq) -> Result<(), Condition> {
    let request = rsm::RsmRequest::read(&iq.payload)?;
    let wanted = request.clone().unwrap_or_default();
    let bytes = |jid: &str, name: &str| item_bytes([jid, name]);
    let (rooms, answer) = world.state::<Directory>().public(iq.to.domain(), &wanted, MOST_LISTED, bytes)?;
    let items: Vec<_> = rooms.iter().map(|(jid, name)| (jid.as_str(), name.as_str())).collect();
    let is_part = request.is_some() || answer.count.is_some_and(|count| items.len() < count);
    reply_page(world, iq, &items, is_part.then_some(&answer));
    Ok(())
}
