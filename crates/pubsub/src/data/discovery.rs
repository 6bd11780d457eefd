//! Service discovery and retrieval: XEP-0060 §5.1 to §5.5, §6.5.

use rookery_hub::{Iq, Options, World};
use rookery_modkit::disco::{DiscoIdentity, Info};
use rookery_modkit::form::{Field, Form};
use rookery_modkit::rsm;
use rookery_stream::error::Condition;
use rookery_xml::ns;

use super::options::lets_in;
use super::pace;
use super::source::Topic;
use super::state::{DataState, describe};
use crate::request::PubsubCall;

/// Describes the service (§5.1).
pub(super) fn service_info(world: &mut World, iq: &Iq, options: &Options) {
    let identity = DiscoIdentity { category: "pubsub", type_: "service", name: Some(options.text("name")) };
    let info = Info { identity, more: &[], features: FEATURES.to_vec(), forms: Vec::new() };
    let mut reply = iq.result();
    info.write(&mut reply, None);
    world.reply(iq, reply);
}

/// Lists the devices, page by page (§5.2). Users who may not use the service see none.
pub(super) fn service_items(world: &mut World, iq: &Iq, options: &Options) {
    let source = world.state::<DataState>().data.source();
    let nodes = source.filter(|_| lets_in(world, options, &iq.from)).map(|source| source.nodes());
    let nodes = nodes.as_deref().unwrap_or_default();
    let page = match rsm::RsmRequest::read(&iq.payload) {
        Ok(page) => page,
        Err(error) => return world.reply_error(iq, error),
    };
    let wanted = page.clone().unwrap_or_default();
    let (found, answer) = match wanted.page(nodes, MAX_LISTED, |listed| &listed.node) {
        Ok(found) => found,
        Err(error) => return world.reply_error(iq, error),
    };
    let mut reply = iq.result();
    reply.start_ns("query", ns::DISCO_ITEMS);
    for listed in found {
        let title = Some(listed.title.as_str()).filter(|title| !title.is_empty());
        reply.start("item").attr("jid", iq.to.as_str()).attr("node", &listed.node).opt_attr("name", title).end();
    }
    // A client that gets an incomplete list has to know, whether it asked for a part or not.
    if page.is_some() || found.len() < nodes.len() {
        answer.write(&mut reply);
    }
    world.reply(iq, reply);
}

/// Describes a node, with its meta-data (§5.3, §5.4).
pub(super) fn node_info(world: &mut World, iq: &Iq, node: &str, options: &Options) {
    if !lets_in(world, options, &iq.from) {
        return world.reply_error(iq, Condition::ItemNotFound);
    }
    let description = match describe(world, iq, node) {
        Ok(description) => description,
        Err(error) => return world.reply_error(iq, error),
    };
    let topic = Topic { host: iq.to.domain().to_owned(), node: node.to_owned() };
    let subscribers = world.state::<DataState>().nodes.get(&topic).map_or(0, |node| node.subscribers.len());
    let is_open = options.list("access").iter().any(|rule| rule == "all");
    let text = |var: &str, value: &str| Field::text_single(var).value(value);
    let form = Form::new("result")
        .hidden("FORM_TYPE", META_DATA)
        .field(text("pubsub#title", &description.title).label("A short name for the node"))
        .field(text("pubsub#description", &description.about).label("The topic of the node"))
        .field(text("pubsub#type", description.payload).label("The namespace of its payloads"))
        .field(text("pubsub#num_subscribers", &subscribers.to_string()).label("Subscribers"))
        .field(text("pubsub#access_model", if is_open { "open" } else { "whitelist" }).label("Who may subscribe"))
        .field(text("pubsub#publish_model", "publishers").label("Who may publish"));
    let form = match description.units.as_str() {
        "" => form,
        units => form.field(text(UNITS, units).label("Units")),
    };
    let name = Some(description.title.as_str()).filter(|title| !title.is_empty());
    let identity = DiscoIdentity { category: "pubsub", type_: "leaf", name };
    let features = vec![ns::DISCO_INFO, ns::DISCO_ITEMS, ns::PUBSUB];
    let info = Info { identity, more: &[], features, forms: vec![form.element()] };
    let mut reply = iq.result();
    info.write(&mut reply, Some(node));
    world.reply(iq, reply);
}

/// Lists the items of a node (§5.5).
pub(super) fn node_items(world: &mut World, iq: &Iq, node: &str, options: &Options) {
    if !lets_in(world, options, &iq.from) {
        return world.reply_error(iq, Condition::ItemNotFound);
    }
    if let Err(error) = describe(world, iq, node) {
        return world.reply_error(iq, error);
    }
    let topic = Topic { host: iq.to.domain().to_owned(), node: node.to_owned() };
    let mut reply = iq.result();
    reply.start_ns("query", ns::DISCO_ITEMS).attr("node", node);
    if world.state::<DataState>().last(&topic).is_some() {
        reply.start("item").attr("jid", iq.to.as_str()).attr("name", pace::ITEM).end();
    }
    world.reply(iq, reply);
}

/// Sends the last reading (§6.5), if the node has subscribers and a reading.
pub(super) fn items(world: &mut World, call: &PubsubCall, node: &str, ids: &[String]) {
    if let Err(error) = describe(world, &call.iq, node) {
        return call.refuse(world, error);
    }
    let topic = Topic { host: call.iq.to.domain().to_owned(), node: node.to_owned() };
    let last =
        world.state::<DataState>().last(&topic).filter(|_| ids.is_empty() || ids.iter().any(|id| id == pace::ITEM));
    let mut reply = call.iq.result();
    reply.start_ns("pubsub", ns::PUBSUB).start("items").attr("node", node);
    if let Some(reading) = last {
        reply.start("item").attr("id", pace::ITEM).element(&reading.payload);
    }
    world.reply(&call.iq, reply);
}

/// The features, sorted.
const FEATURES: [&str; 12] = [
    ns::DISCO_INFO,
    ns::DISCO_ITEMS,
    ns::PUBSUB,
    "http://jabber.org/protocol/pubsub#access-whitelist",
    "http://jabber.org/protocol/pubsub#item-ids",
    "http://jabber.org/protocol/pubsub#last-published",
    "http://jabber.org/protocol/pubsub#meta-data",
    "http://jabber.org/protocol/pubsub#retrieve-default-sub",
    "http://jabber.org/protocol/pubsub#retrieve-items",
    "http://jabber.org/protocol/pubsub#retrieve-subscriptions",
    "http://jabber.org/protocol/pubsub#subscribe",
    "http://jabber.org/protocol/pubsub#subscription-options",
];
const META_DATA: &str = "http://jabber.org/protocol/pubsub#meta-data";
/// A field that isn't registered, so its name is in braces (XEP-0068 §3.2).
const UNITS: &str = "{urn:rookery:reading:0}units";
/// The most nodes in a reply.
const MAX_LISTED: usize = 200;
