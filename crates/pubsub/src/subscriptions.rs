//! Messages about subscriptions: requests that owners decide (XEP-0060 §8.6), and notifications of
//! owners and subscribers (§8.8.4).

use rookery_fanout::Packet;
use rookery_hub::World;
use rookery_jid::{Jid, JidRef};
use rookery_modkit::form::{Field, Form};
use rookery_xml::{Writer, ns};

use super::event::fleeting;
use super::node::{NodeKey, PubsubNode, PubsubSubscription};

/// Asks the owners of a node whether a user may subscribe (§8.6).
pub(super) fn ask_owners(world: &mut World, key: &NodeKey, node: &PubsubNode, subscriber: &Jid) {
    let Some(packet) = request(world, key, subscriber) else { return };
    // The request waits for the account that created the node. Others may be owners without
    // knowing.
    let (makers, others): (Vec<&Jid>, Vec<&Jid>) =
        node.owners().partition(|owner| node.creator.as_ref() == Some(*owner));
    world.fan_out(&packet, makers.into_iter().map(Jid::as_ref));
    world.fan_out(&fleeting(&packet), others.into_iter().map(Jid::as_ref));
}

/// Asks one owner, or a session of one, again (§8.7).
pub(super) fn ask_owner(world: &mut World, key: &NodeKey, subscriber: &Jid, owner: JidRef<'_>) {
    if let Some(packet) = request(world, key, subscriber) {
        world.route(&packet, owner);
    }
}

fn request(world: &mut World, key: &NodeKey, subscriber: &Jid) -> Option<Packet> {
    let form = Form::new("form")
        .title("Request for a subscription")
        .instructions("Decide whether this address may subscribe to the node.")
        .hidden("FORM_TYPE", AUTHORIZATION)
        .field(Field::text_single("pubsub#node").label("The node").value(&key.1))
        .field(
            Field::jid_single("pubsub#subscriber_jid")
                .label("The address that wants to subscribe")
                .value(subscriber.as_str()),
        )
        .field(Field::boolean("pubsub#allow", false).label("Allow it?"));
    let mut message = Writer::new("message");
    message.attr("from", key.0.as_str()).attr("id", &world.unique_text()).element(&form.element());
    Packet::from_built(&message.finish()).ok()
}

/// Tells a subscriber how an owner has changed the subscription (§8.8.4).
pub(super) fn tell_subscriber(
    world: &mut World,
    key: &NodeKey,
    subscriber: &Jid,
    subscription: Option<&PubsubSubscription>,
) {
    if let Some(packet) = news(world, key, subscriber, subscription) {
        let waits = subscription.is_some_and(|subscription| subscription.offline);
        world.route(&if waits { packet } else { fleeting(&packet) }, subscriber.as_ref());
    }
}

/// Notifies the owners of a subscription, if they want that.
pub(super) fn tell_owners(
    world: &mut World,
    key: &NodeKey,
    node: &PubsubNode,
    subscriber: &Jid,
    subscription: Option<&PubsubSubscription>,
) {
    if !node.config.notify_sub {
        return;
    }
    if let Some(packet) = news(world, key, subscriber, subscription) {
        world.fan_out(&fleeting(&packet), node.owners().map(Jid::as_ref));
    }
}

fn news(
    world: &mut World,
    key: &NodeKey,
    subscriber: &Jid,
    subscription: Option<&PubsubSubscription>,
) -> Option<Packet> {
    let mut message = Writer::new("message");
    message.attr("from", key.0.as_str()).attr("id", &world.unique_text()).start_ns("event", ns::PUBSUB_EVENT);
    write(&mut message, Some(&key.1), subscriber, subscription);
    Packet::from_built(&message.finish()).ok()
}

/// Writes a subscription; `None` stands for one that doesn't exist.
pub(super) fn write(out: &mut Writer, node: Option<&str>, jid: &Jid, subscription: Option<&PubsubSubscription>) {
    let state = subscription.map_or("none", PubsubSubscription::state);
    out.start("subscription").opt_attr("node", node).attr("jid", jid.as_str()).attr("subscription", state).end();
}

/// The type of the form with which an owner decides.
pub(super) const AUTHORIZATION: &str = "http://jabber.org/protocol/pubsub#subscribe_authorization";
