//! Subscribing: XEP-0060 §6.1 to §6.4.

use std::rc::Rc;

use rookery_hub::World;
use rookery_jid::Jid;
use rookery_modkit::form::Form;
use rookery_store::pubsub::{SetOutcome, WantedItems};
use rookery_stream::error::{Condition, ErrorType, StanzaError};
use rookery_xml::ns;

use super::config::{Access, SendLast, since};
use super::error::{not_subscribed, specific, store_failure};
use super::event;
use super::limits::{MAX_PENDING, MAX_RESOURCES, NodeLimits};
use super::node::{NodeKey, PubsubNode, PubsubSubscription};
use super::request::PubsubCall;
use super::state::{self, NodeChange};
use super::subscriptions::{ask_owners, tell_owners, write};

/// Subscribes (§6.1) an asker whose relation to the owner is known if it matters.
pub(super) fn subscribe(
    world: &mut World,
    call: PubsubCall,
    key: NodeKey,
    node: &Rc<PubsubNode>,
    jid: Jid,
    options: Option<Form>,
) {
    if let Err(error) = node.lets_subscribe(call.from(), &call.relation()) {
        return call.refuse(world, error);
    }
    let before = node.subscriptions.get(&jid);
    if before.is_some_and(|before| before.pending) {
        return call.refuse(world, specific(Condition::NotAuthorized, "pending-subscription"));
    }
    let is_new = before.is_none();
    let mut subscription = before.cloned().unwrap_or_else(|| PubsubSubscription {
        pending: node.config.access == Access::Authorize && node.affiliation(call.from()).is_none(),
        ..PubsubSubscription::new()
    });
    if is_new && !has_room(world, &key, node, &jid, subscription.pending) {
        return call.refuse(world, too_many());
    }
    if let Some(Err(error)) = options.map(|form| subscription.apply(&form)) {
        return call.refuse(world, error);
    }
    let node = node.clone();
    set(world, key, jid, Some(subscription), move |world, key, jid, done| match done {
        Ok(subscription) => {
            let subscription = subscription.unwrap_or_else(PubsubSubscription::new);
            let mut reply = call.iq.result();
            reply.start_ns("pubsub", ns::PUBSUB);
            write(&mut reply, Some(&key.1), jid, Some(&subscription));
            world.reply(&call.iq, reply);
            match is_new {
                true if subscription.pending => {
                    if state::may_ask(world, key, jid) {
                        ask_owners(world, key, &node, jid);
                    }
                }
                true => start(world, key, &node, jid),
                false => {}
            }
        }
        Err(error) => call.refuse(world, error),
    });
}

/// Returns whether a node has room for a new subscription of an address.
pub(super) fn has_room(world: &World, key: &NodeKey, node: &PubsubNode, jid: &Jid, pending: bool) -> bool {
    node.subscriptions.len() < NodeLimits::of(world, &key.0).subscriptions
        && node.subscriptions_of(jid.as_ref()).count() < MAX_RESOURCES
        && (!pending || node.subscriptions.values().filter(|found| found.pending).count() < MAX_PENDING)
}

/// Returns the error for a node, or an account, that has as many subscriptions as it may
/// (§6.1.3.9).
fn too_many() -> StanzaError {
    specific(Condition::PolicyViolation, "too-many-subscriptions").with_type(ErrorType::Wait)
}

/// Starts a subscription: sends the last item, and notifies the owners if they want that.
pub(super) fn start(world: &mut World, key: &NodeKey, node: &Rc<PubsubNode>, subscriber: &Jid) {
    tell_owners(world, key, node, subscriber, Some(&PubsubSubscription::new()));
    if node.config.send_last == SendLast::Never || !node.config.persist_items {
        return;
    }
    let found =
        world.stores.pubsub.items(key.0.as_ref(), &key.1, WantedItems::Newest(1), since(&node.config, world.time()));
    let (key, node, subscriber) = (key.clone(), node.clone(), subscriber.clone());
    world.wait(found, move |world, found| {
        let item = match found {
            Ok(found) => found.and_then(|found| found.items.into_iter().next()),
            Err(error) => return world.store_failed("loading a last item", &key.0, &error),
        };
        let Some(item) = item else { return };
        if let Some(packet) = event::last(world, &key, &node.config, &item) {
            world.route(&packet, subscriber.as_ref());
        }
    });
}

/// Ends a subscription (§6.2).
pub(super) fn unsubscribe(world: &mut World, call: PubsubCall, key: NodeKey, node: &Rc<PubsubNode>, jid: Jid) {
    if !node.subscriptions.contains_key(&jid) {
        return call.refuse(world, not_subscribed(ErrorType::Cancel));
    }
    let node = node.clone();
    set(world, key, jid, None, move |world, key, jid, done| match done {
        Ok(_) => {
            call.succeed(world);
            tell_owners(world, key, &node, jid, None);
        }
        Err(error) => call.refuse(world, error),
    });
}

/// Sends the options of a subscription (§6.3.2).
pub(super) fn options(world: &mut World, call: &PubsubCall, key: &NodeKey, node: &PubsubNode, jid: &Jid) {
    let Some(subscription) = node.subscriptions.get(jid) else {
        return call.refuse(world, not_subscribed(ErrorType::Modify));
    };
    let mut reply = call.iq.result();
    reply.start_ns("pubsub", ns::PUBSUB).start("options").attr("node", &key.1).attr("jid", jid.as_str());
    reply.element(&subscription.form("form").element());
    world.reply(&call.iq, reply);
}

/// Sets the options of a subscription (§6.3.5).
pub(super) fn set_options(world: &mut World, call: PubsubCall, key: NodeKey, node: &PubsubNode, jid: Jid, form: &Form) {
    let Some(subscription) = node.subscriptions.get(&jid) else {
        return call.refuse(world, not_subscribed(ErrorType::Modify));
    };
    let mut subscription = subscription.clone();
    if let Err(error) = subscription.apply(form) {
        return call.refuse(world, error);
    }
    set(world, key, jid, Some(subscription), move |world, _, _, done| match done {
        Ok(_) => call.succeed(world),
        Err(error) => call.refuse(world, error),
    });
}

/// Sends the default options of a subscription (§6.4).
pub(super) fn default_options(world: &mut World, call: &PubsubCall) {
    let mut reply = call.iq.result();
    reply.start_ns("pubsub", ns::PUBSUB).start("default");
    reply.element(&PubsubSubscription::new().form("form").element());
    world.reply(&call.iq, reply);
}

/// The outcome of setting a subscription: the new one, or the reason for refusing it.
type SubscribeThen = Result<Option<PubsubSubscription>, StanzaError>;

/// Sets or removes a subscription, in the store and in memory.
pub(super) fn set(
    world: &mut World,
    key: NodeKey,
    jid: Jid,
    subscription: Option<PubsubSubscription>,
    then: impl FnOnce(&mut World, &NodeKey, &Jid, SubscribeThen) + 'static,
) {
    state::hold(world, &key);
    let stored = subscription.as_ref().map(PubsubSubscription::write_stored);
    let most = NodeLimits::of(world, &key.0).account_subscriptions;
    let written = world.stores.pubsub.set_subscription(key.0.as_ref(), &key.1, jid.as_ref(), stored, most);
    world.wait(written, move |world, written| {
        let (change, outcome) = match written {
            Ok(SetOutcome::Done) => {
                let (entry, new) = (jid.clone(), subscription.clone());
                let edit = move |node: &mut PubsubNode| match new {
                    Some(new) => drop(node.subscriptions.insert(entry, new)),
                    None => drop(node.subscriptions.remove(&entry)),
                };
                (NodeChange::Edit(Box::new(edit)), Ok(subscription))
            }
            Ok(SetOutcome::NoNode) => (NodeChange::Forget, Err(Condition::ItemNotFound.into())),
            Ok(SetOutcome::Full) => (NodeChange::None, Err(too_many())),
            Err(error) => {
                world.store_failed("changing a subscription to a node", &key.0, &error);
                (NodeChange::Forget, Err(store_failure(&error)))
            }
        };
        then(world, &key, &jid, outcome);
        state::let_go(world, key, change);
    });
}
