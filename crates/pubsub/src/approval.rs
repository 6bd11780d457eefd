//! Owners decide about requests for a subscription (XEP-0060 §8.6).

use std::rc::Rc;

use rookery_fanout::Packet;
use rookery_hub::World;
use rookery_jid::Jid;
use rookery_modkit::form::Form;
use rookery_xml::{Element, Kind, ns};

use super::node::{NodeKey, PubsubNode, PubsubSubscription};
use super::state::{self, SentOther};
use super::subscribe;
use super::subscriptions::{AUTHORIZATION, tell_subscriber};

/// Takes a message for a host: the decision of an owner. Others are ignored.
pub(super) fn message(world: &mut World, packet: &Packet, host: &Jid) {
    let Some((key, subscriber, allow)) = decision(packet, host) else { return };
    let Some(owner) = packet.sender() else { return };
    let sent = SentOther { from: owner, bytes: packet.bytes().len() };
    state::with_node(world, key.clone(), sent, move |world, sent, node| {
        let Ok(Some(node)) = node else { return };
        let is_pending = node.subscriptions.get(&subscriber).is_some_and(|subscription| subscription.pending);
        if node.is_owner(sent.from.as_ref()) && is_pending {
            decide(world, key, &node, subscriber, allow);
        }
    });
}

/// Returns the node of a decision, to whose home the decision goes.
pub(super) fn node_of(packet: &Packet, host: &Jid) -> Option<String> {
    decision(packet, host).map(|((_, node), ..)| node)
}

/// Approves a request, or denies it.
pub(super) fn decide(world: &mut World, key: NodeKey, node: &Rc<PubsubNode>, subscriber: Jid, allow: bool) {
    let node = node.clone();
    state::forget_request(world, &key, &subscriber);
    let subscription = allow.then(PubsubSubscription::new);
    subscribe::set(world, key, subscriber, subscription, move |world, key, subscriber, done| {
        let Ok(subscription) = done else { return };
        tell_subscriber(world, key, subscriber, subscription.as_ref());
        if subscription.is_some() {
            subscribe::start(world, key, &node, subscriber);
        }
    });
}

/// Reads an owner's form: node, subscriber, and whether the subscription is allowed.
fn decision(packet: &Packet, host: &Jid) -> Option<(NodeKey, Jid, bool)> {
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
