//! Owners and who subscribes: requests to approve (XEP-0060 §8.6), and news of subscriptions (§8.8.4, `pubsub#notify_sub`).

use std::rc::Rc;

use rookery_fanout::Packet;
use rookery_hub::World;
use rookery_jid::{Jid, JidRef};
use rookery_modkit::form::{Field, Form};
use rookery_xml::{Element, Kind, Writer, ns};

use super::node::{Node, Subscription};
use super::notify::fleeting;
use super::state::{self, Key, Sent};
use super::subscribe;

/// §8.6: asks the owners of a node whether somebody may subscribe.
pub(super) fn ask_owners(world: &mut World, key: &Key, node: &Node, subscriber: &Jid) {
    let Some(packet) = request(world, key, subscriber) else { return };
    // It waits for the account that has made the node. Others may be owners without knowing.
    let (makers, others): (Vec<&Jid>, Vec<&Jid>) =
        node.owners().partition(|owner| node.creator.as_ref() == Some(*owner));
    world.fan_out(&packet, makers.into_iter().map(Jid::as_ref));
    world.fan_out(&fleeting(&packet), others.into_iter().map(Jid::as_ref));
}

/// §8.7: asks one owner, or a session of one, again.
pub(super) fn ask_owner(world: &mut World, key: &Key, subscriber: &Jid, owner: JidRef<'_>) {
    if let Some(packet) = request(world, key, subscriber) {
        world.route(&packet, owner);
    }
}

fn request(world: &mut World, key: &Key, subscriber: &Jid) -> Option<Packet> {
    let form = Form::new("form")
        .title("Request for a subscription")
        .instructions("Decide whether this address may subscribe to the node.")
        .hidden("FORM_TYPE", AUTHORIZATION)
        .field(Field::text_single("pubsub#node").label("The node").value(&key.1))
        .field(Field::jid_single("pubsub#subscriber_jid").label("Who wants to subscribe").value(subscriber.as_str()))
        .field(Field::boolean("pubsub#allow", false).label("Allow it?"));
    let mut message = Writer::new("message");
    message.attr("from", key.0.as_str()).attr("id", &world.unique_text()).element(&form.element());
    Packet::built(&message.finish()).ok()
}

/// A message for a host: the decision of an owner, or nothing that it understands.
pub(super) fn message(world: &mut World, packet: &Packet, host: &Jid) {
    let Some((key, subscriber, allow)) = decision(packet, host) else { return };
    let Some(owner) = packet.sender() else { return };
    let sent = Sent { from: owner, bytes: packet.bytes().len() };
    state::with_node(world, key.clone(), sent, move |world, sent, node| {
        let Ok(Some(node)) = node else { return };
        let is_pending = node.subscriptions.get(&subscriber).is_some_and(|subscription| subscription.pending);
        if node.is_owner(sent.from.as_ref()) && is_pending {
            decide(world, key, &node, subscriber, allow);
        }
    });
}

/// The home of a decision is that of its node.
pub(super) fn node_of(packet: &Packet, host: &Jid) -> Option<String> {
    decision(packet, host).map(|((_, node), ..)| node)
}

/// Approves a request, or denies it.
pub(super) fn decide(world: &mut World, key: Key, node: &Rc<Node>, subscriber: Jid, allow: bool) {
    let node = node.clone();
    state::decided(world, &key, &subscriber);
    let subscription = allow.then(Subscription::new);
    subscribe::set(world, key, subscriber, subscription, move |world, key, subscriber, done| {
        let Ok(subscription) = done else { return };
        tell_subscriber(world, key, subscriber, subscription.as_ref());
        if subscription.is_some() {
            subscribe::begun(world, key, &node, subscriber);
        }
    });
}

/// §8.8.4: a subscriber hears what an owner has made of the subscription.
pub(super) fn tell_subscriber(world: &mut World, key: &Key, subscriber: &Jid, subscription: Option<&Subscription>) {
    if let Some(packet) = news(world, key, subscriber, subscription) {
        let waits = subscription.is_some_and(|subscription| subscription.offline);
        world.route(&if waits { packet } else { fleeting(&packet) }, subscriber.as_ref());
    }
}

/// The owners hear of a subscription, if they want to.
pub(super) fn tell_owners(
    world: &mut World,
    key: &Key,
    node: &Node,
    subscriber: &Jid,
    subscription: Option<&Subscription>,
) {
    if !node.config.notify_sub {
        return;
    }
    if let Some(packet) = news(world, key, subscriber, subscription) {
        world.fan_out(&fleeting(&packet), node.owners().map(Jid::as_ref));
    }
}

fn news(world: &mut World, key: &Key, subscriber: &Jid, subscription: Option<&Subscription>) -> Option<Packet> {
    let mut message = Writer::new("message");
    message.attr("from", key.0.as_str()).attr("id", &world.unique_text()).start_ns("event", ns::PUBSUB_EVENT);
    subscribe::write(&mut message, Some(&key.1), subscriber, subscription);
    Packet::built(&message.finish()).ok()
}

/// What an owner's form says: node, subscriber, and whether the subscription is allowed.
fn decision(packet: &Packet, host: &Jid) -> Option<(Key, Jid, bool)> {
    if packet.kind() != Kind::Message {
        return None;
    }
    let stanza = packet.stanza();
    let element: Element = stanza.child("x", ns::DATA_FORMS)?.element();
    let form = Form::read(&element)?;
    if form.type_() != "submit" || form.form_type() != Some(AUTHORIZATION) {
        return None;
    }
    let subscriber = Jid::parse(form.value("pubsub#subscriber_jid")?).ok()?;
    let node = form.value("pubsub#node")?.to_owned();
    let allow = form.boolean("pubsub#allow")?.ok()?;
    Some(((host.to_bare(), node), subscriber, allow))
}

pub(super) const AUTHORIZATION: &str = "http://jabber.org/protocol/pubsub#subscribe_authorization";
