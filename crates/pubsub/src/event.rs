//! The messages that notify of a node: one for each form, built once (XEP-0060 §12).

use rookery_fanout::{Packet, StanzaType};
use rookery_hub::{World, delay};
use rookery_store::pubsub::Item;
use rookery_xml::{Element, Writer, ns};
use tracing::warn;

use super::config::NodeConfig;
use super::limits::TOLD_BYTES;
use super::node::NodeKey;

/// Returns a notification with the content that `write` adds.
pub(super) fn event(
    world: &mut World,
    key: &NodeKey,
    config: &NodeConfig,
    write: impl FnOnce(&mut Writer),
) -> Option<Packet> {
    let mut message = Writer::new("message");
    message.attr("from", key.0.as_str()).opt_attr("type", config.message_type()).attr("id", &world.unique_text());
    message.start_ns("event", ns::PUBSUB_EVENT);
    write(&mut message);
    let packet = Packet::from_built(&message.finish());
    packet
        .inspect_err(|fault| warn!(node = key.1, ?fault, "a notification is refused by the server's own scanner"))
        .ok()
}

/// Returns the notification of one item.
pub(super) fn items(world: &mut World, key: &NodeKey, config: &NodeConfig, item: &Item) -> Option<Packet> {
    event(world, key, config, |event| {
        event.start("items").attr("node", &key.1);
        write_item(event, item, has_payload(config, item), config.publisher);
    })
}

/// Returns whether an item is sent with its payload. A large one would reach all subscribers in
/// full, whether they want it or not; instead they are notified, and may request it.
pub(super) fn has_payload(config: &NodeConfig, item: &Item) -> bool {
    config.deliver_payloads && (item.payload.len() <= TOLD_BYTES || !config.persist_items)
}

/// Writes an item, with its payload or without.
pub(super) fn write_item(out: &mut Writer, item: &Item, payload: bool, publisher: bool) {
    let publisher = publisher.then_some(item.publisher.as_str());
    out.start("item").attr("id", &item.id).opt_attr("publisher", publisher);
    if payload && !item.payload.is_empty() {
        match Element::parse(&item.payload) {
            Ok(payload) => drop(out.element(&payload)),
            Err(fault) => warn!(item = item.id, ?fault, "the payload of an item in the store is damaged"),
        }
    }
    out.end();
}

/// Returns the last item of a node, for a recipient who has not got it yet (§6.1.7, XEP-0163
/// §4.3.4), with the time of its publication.
pub(super) fn last(world: &mut World, key: &NodeKey, config: &NodeConfig, item: &Item) -> Option<Packet> {
    let packet = items(world, key, config, item);
    Some(fleeting(&packet?.with_child(&delay::element(key.0.as_str(), item.unix_ms))))
}

/// Returns a notification for subscribers who don't want it while they are offline: it isn't stored
/// (XEP-0334 §4.4). Headlines never are anyway.
pub(super) fn fleeting(packet: &Packet) -> Packet {
    match packet.type_() {
        StanzaType::Headline => packet.clone(),
        _ => packet.with_child(&Writer::with_ns("no-store", ns::HINTS).finish()),
    }
}
