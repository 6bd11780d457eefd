//! Notifications: one packet per reading, built once, for all subscribers that are due.
//!
//! Subscribers of a node who are notified at the same interval share a pace. A reading goes out at
//! once if the last notification was long enough ago; otherwise the newest reading goes out when
//! the interval is over.

use std::sync::Arc;

use rookery_fanout::Packet;
use rookery_hub::{World, delay};
use rookery_jid::Jid;
use rookery_xml::{Writer, ns};
use tracing::warn;

use super::source::{Reading, Topic};
use super::state::DataState;

/// Delivers readings to a shard, from nodes that were opened there.
pub fn deliver(world: &mut World, readings: Vec<(Arc<Topic>, Reading)>) {
    for (topic, reading) in readings {
        one(world, &topic, reading);
    }
}

/// Sends the last reading to a new subscriber (XEP-0060 §6.1.7).
pub(super) fn last(world: &mut World, topic: &Topic, reading: &Reading, to: &Jid) {
    if let Some(packet) = notification(world, topic, reading) {
        let packet = packet.with_child(&delay::element(&topic.host, reading.unix_ms));
        world.route(&packet, to.as_ref());
    }
}

fn one(world: &mut World, topic: &Arc<Topic>, reading: Reading) {
    let now = world.uptime_ms();
    let (mut to, mut later) = (Vec::new(), Vec::new());
    // The node may have been closed while the reading was on its way.
    let Some(node) = world.state_mut::<DataState>().nodes.get_mut(&**topic) else { return };
    for pace in node.paces.iter_mut().filter(|pace| !pace.waits) {
        let due = pace.sent_at.map_or(now, |sent_at| sent_at + pace.interval);
        if due <= now {
            pace.sent_at = Some(now);
            to.extend(pace.to.iter().cloned());
        } else {
            pace.waits = true;
            later.push((pace.interval, due - now));
        }
    }
    node.last = Some(reading.clone());
    send(world, topic, &reading, &to);
    for (interval, wait) in later {
        let topic = topic.clone();
        world.after(wait, move |world| catch_up(world, &topic, interval));
    }
}

/// Sends the newest reading to the subscribers of a pace.
fn catch_up(world: &mut World, topic: &Topic, interval: u64) {
    let now = world.uptime_ms();
    let Some(node) = world.state_mut::<DataState>().nodes.get_mut(topic) else { return };
    let Some(pace) = node.paces.iter_mut().find(|pace| pace.interval == interval && pace.waits) else { return };
    (pace.waits, pace.sent_at) = (false, Some(now));
    if let (Some(reading), to) = (node.last.clone(), pace.to.clone()) {
        send(world, topic, &reading, &to);
    }
}

fn send(world: &mut World, topic: &Topic, reading: &Reading, to: &[Jid]) {
    if to.is_empty() {
        return;
    }
    if let Some(packet) = notification(world, topic, reading) {
        world.fan_out(&packet, to.iter().map(Jid::as_ref));
    }
}

/// Builds a notification (§7.1.2.1). The item's id is always the same: a node has only its newest
/// reading.
fn notification(world: &mut World, topic: &Topic, reading: &Reading) -> Option<Packet> {
    let mut message = Writer::new("message");
    message.attr("from", &topic.host).attr("type", "headline").attr("id", &world.unique_text());
    message.start_ns("event", ns::PUBSUB_EVENT).start("items").attr("node", &topic.node);
    message.start("item").attr("id", ITEM).element(&reading.payload);
    let packet = Packet::from_built(&message.finish());
    packet
        .inspect_err(|fault| warn!(node = topic.node, ?fault, "a reading is refused by the server's own scanner"))
        .ok()
}

/// The id of a node's only item (XEP-0060 §12.20 on singleton nodes).
pub(super) const ITEM: &str = "current";
