//! Subscribing: XEP-0060 §6.1 to §6.4, and a user's relation to the nodes (§5.6, §5.7).

use std::sync::atomic::Ordering;

use rookery_hub::{Memo, Options, World};
use rookery_jid::Jid;
use rookery_modkit::form::Form;
use rookery_store::StoreError;
use rookery_store::pubsub::{NodeRoom, NodeSubscription, SetOutcome};
use rookery_stream::error::{Condition, ErrorType, StanzaError};
use rookery_xml::ns;
use serde::{Deserialize, Serialize};

use super::options::{NODES, SUBSCRIPTIONS};
use super::pace;
use super::source::Topic;
use super::state::{DataState, SubscriptionTerms, describe};
use crate::error::{not_subscribed, specific, store_failure};
use crate::request::PubsubCall;

/// Ends the subscriptions of this full JID, or of this account with all its resources.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SubscriptionsOver {
    pub subscriber: Jid,
    pub is_session: bool,
}

impl Memo for SubscriptionsOver {
    const NAME: &'static str = "data over";

    fn open(self, world: &mut World) {
        end_all(world, &self.subscriber, self.is_session);
    }
}

/// Subscribes (§6.1), or changes the options of an existing subscription.
pub(super) fn subscribe(
    world: &mut World,
    call: PubsubCall,
    node: &str,
    jid: Jid,
    form: Option<&Form>,
    options: &Options,
) {
    let topic = topic(&call, node);
    // A subscription of a full JID ends with its session, so the full JID has to be the asker's.
    if jid.resource().is_some() && jid != call.iq.from {
        return call.refuse(world, specific(Condition::BadRequest, "invalid-jid"));
    }
    let state = world.state::<DataState>();
    let before = state.terms(&topic, &jid);
    let allowed = match before {
        Some(_) => Ok(()),
        None => describe(world, &call.iq, node).map(drop).and_then(|()| fits(state, &topic, &jid, options)),
    };
    let terms = allowed.and_then(|()| with_form(before.unwrap_or(SubscriptionTerms::USUAL), form, options));
    let terms = match terms {
        Ok(terms) => terms,
        Err(error) => return call.refuse(world, error),
    };
    // The user who opens the node gets the first reading as a normal notification.
    let has_last = before.is_none() && state.last(&topic).is_some();
    set(world, topic, jid, terms, options, move |world, topic, jid, done| match done {
        Ok(()) => {
            let mut reply = call.iq.result();
            reply.start_ns("pubsub", ns::PUBSUB).start("subscription").attr("node", &topic.node);
            reply.attr("jid", jid.as_str()).attr("subscription", "subscribed");
            world.reply(&call.iq, reply);
            if let Some(reading) = world.state::<DataState>().last(topic).filter(|_| has_last) {
                pace::last(world, topic, &reading, jid);
            }
        }
        Err(error) => call.refuse(world, store_failure(&error)),
    });
}

/// Ends a subscription (§6.2).
pub(super) fn unsubscribe(world: &mut World, call: PubsubCall, node: &str, jid: Jid) {
    let topic = topic(&call, node);
    if world.state::<DataState>().terms(&topic, &jid).is_none() {
        return match describe(world, &call.iq, node) {
            Ok(_) => call.refuse(world, not_subscribed(ErrorType::Cancel)),
            Err(error) => call.refuse(world, error),
        };
    }
    remove(world, &topic, &jid, move |world, done| match done {
        Ok(()) => call.succeed(world),
        Err(error) => call.refuse(world, store_failure(&error)),
    });
}

/// Ends the subscriptions of a session that has ended, or of an account that was removed.
fn end_all(world: &mut World, subscriber: &Jid, is_session: bool) {
    let is_it = |jid: &Jid| if is_session { jid == subscriber } else { jid.bare() == subscriber.as_ref() };
    let nodes = world.state::<DataState>().nodes.iter();
    let all = nodes.flat_map(|(topic, node)| node.subscribers.keys().map(move |jid| (topic, jid)));
    let over = all.filter(|(_, jid)| is_it(jid)).map(|(topic, jid)| (topic.clone(), jid.clone()));
    for (topic, jid) in over.collect::<Vec<_>>() {
        let about = jid.clone();
        remove(world, &topic, &jid, move |world, done| {
            if let Err(error) = done {
                world.store_failed("ending a subscription", &about, &error);
            }
        });
    }
}

/// Replies with the options of a subscription (§6.3.2).
pub(super) fn options(world: &mut World, call: &PubsubCall, node: &str, jid: &Jid, options: &Options) {
    let topic = topic(call, node);
    let Some(terms) = world.state::<DataState>().terms(&topic, jid) else {
        return call.refuse(world, not_subscribed(ErrorType::Modify));
    };
    let mut reply = call.iq.result();
    reply.start_ns("pubsub", ns::PUBSUB).start("options").attr("node", node).attr("jid", jid.as_str());
    reply.element(&terms.form(options).element());
    world.reply(&call.iq, reply);
}

/// Changes the options of a subscription (§6.3.5).
pub(super) fn set_options(world: &mut World, call: PubsubCall, node: &str, jid: Jid, form: &Form, options: &Options) {
    let topic = topic(&call, node);
    let Some(before) = world.state::<DataState>().terms(&topic, &jid) else {
        return call.refuse(world, not_subscribed(ErrorType::Modify));
    };
    match with_form(before, Some(form), options) {
        Ok(terms) => set(world, topic, jid, terms, options, move |world, _, _, done| match done {
            Ok(()) => call.succeed(world),
            Err(error) => call.refuse(world, store_failure(&error)),
        }),
        Err(error) => call.refuse(world, error),
    }
}

/// Replies with the options of new subscriptions (§6.4).
pub(super) fn default_options(world: &mut World, call: &PubsubCall, options: &Options) {
    let mut reply = call.iq.result();
    reply.start_ns("pubsub", ns::PUBSUB).start("default").element(&SubscriptionTerms::USUAL.form(options).element());
    world.reply(&call.iq, reply);
}

/// Lists the subscriptions of the asker, to all nodes or to one (XEP-0060 §5.6).
pub(super) fn list_own(world: &mut World, call: &PubsubCall, node: Option<&str>) {
    let found = world.state::<DataState>().data.subscriptions.of(&call.iq.from.to_bare(), call.iq.to.domain());
    let mut reply = call.iq.result();
    reply.start_ns("pubsub", ns::PUBSUB).start("subscriptions").opt_attr("node", node);
    for (topic, jid) in found.iter().filter(|(topic, _)| node.is_none_or(|node| node == topic.node)) {
        let of = Some(topic.node.as_str()).filter(|_| node.is_none());
        reply.start("subscription").opt_attr("node", of).attr("jid", jid.as_str());
        reply.attr("subscription", "subscribed").end();
    }
    world.reply(&call.iq, reply);
}

/// Lists the affiliations of the asker (§5.7): there are none.
pub(super) fn affiliations(world: &mut World, call: &PubsubCall, node: Option<&str>) {
    let mut reply = call.iq.result();
    reply.start_ns("pubsub", ns::PUBSUB).start("affiliations").opt_attr("node", node);
    world.reply(&call.iq, reply);
}

fn topic(call: &PubsubCall, node: &str) -> Topic {
    Topic { host: call.iq.to.domain().to_owned(), node: node.to_owned() }
}

/// Checks that there is room for one more subscription, and for its node.
fn fits(state: &DataState, topic: &Topic, jid: &Jid, options: &Options) -> Result<(), StanzaError> {
    let number = |key| usize::try_from(options.number(key)).unwrap_or(usize::MAX);
    if state.data.subscriptions.count(&jid.to_bare()) >= number(SUBSCRIPTIONS) {
        return Err(specific(Condition::PolicyViolation, "too-many-subscriptions").with_type(ErrorType::Wait));
    }
    let is_open = state.nodes.contains_key(topic);
    if !is_open && state.data.open.load(Ordering::Relaxed) >= number(NODES) {
        return Err(StanzaError::new(Condition::ResourceConstraint)
            .with_text("The limit of nodes that are read has been reached."));
    }
    Ok(())
}

fn with_form(
    mut terms: SubscriptionTerms,
    form: Option<&Form>,
    options: &Options,
) -> Result<SubscriptionTerms, StanzaError> {
    if let Some(form) = form {
        terms.apply(form, options.number("shortest_interval_ms"))?;
    }
    Ok(terms)
}

/// Sets a subscription, in memory and then, for a bare JID, in the store. If the store fails, the
/// change is undone.
fn set(
    world: &mut World,
    topic: Topic,
    jid: Jid,
    terms: SubscriptionTerms,
    options: &Options,
    then: impl FnOnce(&mut World, &Topic, &Jid, Result<(), StoreError>) + 'static,
) {
    let (shard, usual) = (world.shard(), options.number("interval_ms"));
    let state = world.state_mut::<DataState>();
    let before = state.terms(&topic, &jid);
    state.put(&topic, &jid, terms, usual, shard);
    if jid.resource().is_some() {
        return then(world, &topic, &jid, Ok(()));
    }
    let Ok(host) = Jid::new(None, &topic.host, None) else { return };
    // The store carries out the calls in order.
    let created = world.stores.pubsub.create_node(host.as_ref(), &topic.node, Vec::new(), host.as_ref(), NodeRoom::ANY);
    let kept = NodeSubscription { pending: false, options: terms.write_stored() };
    // Each account has a limit of its own, which is checked without the store.
    let written =
        world.stores.pubsub.set_subscription(host.as_ref(), &topic.node, jid.as_ref(), Some(kept), usize::MAX);
    world.wait(created, move |world, created| {
        world.wait(written, move |world, written| {
            let written = created.and(written).and_then(|set| match set {
                SetOutcome::Done => Ok(()),
                SetOutcome::NoNode | SetOutcome::Full => Err(StoreError::NoAccount),
            });
            if let Err(error) = &written {
                world.store_failed("subscribing to readings", &jid, error);
                let state = world.state_mut::<DataState>();
                match before {
                    Some(before) => state.put(&topic, &jid, before, usual, shard),
                    None => drop(state.remove(&topic, &jid)),
                }
            }
            then(world, &topic, &jid, written);
        })
    });
}

fn remove(
    world: &mut World,
    topic: &Topic,
    jid: &Jid,
    then: impl FnOnce(&mut World, Result<(), StoreError>) + 'static,
) {
    let is_last = world.state_mut::<DataState>().remove(topic, jid);
    let host = Jid::new(None, &topic.host, None).ok().filter(|_| jid.resource().is_none());
    let Some(host) = host else { return then(world, Ok(())) };
    let written = world.stores.pubsub.set_subscription(host.as_ref(), &topic.node, jid.as_ref(), None, usize::MAX);
    if is_last != Some(true) {
        return world.wait(written, move |world, written| then(world, written.map(drop)));
    }
    let deleted = world.stores.pubsub.delete_node(host.as_ref(), &topic.node);
    world.wait(written, move |world, written| {
        world.wait(deleted, move |world, deleted| then(world, written.map(drop).and(deleted.map(drop))));
    });
}
