//! Publishing and removing items: XEP-0060 §7.

use std::collections::VecDeque;
use std::rc::Rc;

use rookery_hub::World;
use rookery_modkit::form::Form;
use rookery_store::pubsub::{Item, ItemsKept, NodeAffiliation, Published, WantedItems};
use rookery_store::{Pending, StoreError};
use rookery_stream::error::{Condition, StanzaError};
use rookery_xml::{Element, Writer, ns};

use super::config::{NodeConfig, since};
use super::error::{specific, store_failure, unsupported};
use super::limits::NodeLimits;
use super::node::{NodeKey, PubsubNode};
use super::request::{MAX_ID, PubsubCall};
use super::{notify, photo};

/// Publishes to an existing node (§7.1).
pub(super) fn publish(
    world: &mut World,
    call: PubsubCall,
    key: NodeKey,
    node: &Rc<PubsubNode>,
    item: Option<Element>,
    options: Option<&Form>,
) {
    if !node.lets_publish(call.from()) {
        return call.refuse(world, Condition::Forbidden);
    }
    if let Some(options) = options
        && !meets(&node.config, options)
    {
        return call.refuse(world, specific(Condition::Conflict, "precondition-not-met"));
    }
    let limits = NodeLimits::of(world, &key.0);
    let item = match check(&node.config, item.as_ref(), limits.payload(&key.1)) {
        Ok(payload) => Item {
            id: id_of(item.as_ref()).map_or_else(|| world.unique_text(), str::to_owned),
            publisher: call.iq.from.to_bare(),
            unix_ms: world.time(),
            payload,
        },
        Err(error) => return call.refuse(world, error),
    };
    if !node.config.persist_items {
        return reply_and_notify(world, &call, &key, node, &item);
    }
    let node = node.clone();
    keep(world, key, node, item, move |world, key, node, item, kept| match kept {
        Ok(()) => reply_and_notify(world, &call, key, node, item),
        Err(error) => call.refuse(world, error),
    });
}

/// Writes an item, and passes the outcome to `then`.
fn keep(
    world: &mut World,
    key: NodeKey,
    node: Rc<PubsubNode>,
    item: Item,
    then: impl FnOnce(&mut World, &NodeKey, &Rc<PubsubNode>, &Item, Result<(), StanzaError>) + 'static,
) {
    let written = write(world, &key, &node, &item);
    world.wait(written, move |world, written| {
        let outcome = outcome(world, &key, written);
        then(world, &key, &node, &item, outcome);
    });
}

/// Begins to write an item.
fn write(world: &World, key: &NodeKey, node: &PubsubNode, item: &Item) -> Pending<Published> {
    let limits = NodeLimits::of(world, &key.0);
    let kept = items_kept(&node.config, &limits, world.time());
    world.stores.pubsub.publish(key.0.as_ref(), &key.1, item.clone(), kept, limits.room())
}

/// Turns the store's result for an item into the outcome of the request.
fn outcome(world: &mut World, key: &NodeKey, written: Result<Published, StoreError>) -> Result<(), StanzaError> {
    let full = |whose: &str| {
        let text = format!("there is no room for the item in {whose}");
        Err(StanzaError::new(Condition::PolicyViolation).with_text(text))
    };
    match written {
        Ok(Published::Kept) => Ok(()),
        // The node was deleted meanwhile.
        Ok(Published::NoNode) => Err(Condition::ItemNotFound.into()),
        Ok(Published::NodeFull) => full("the node"),
        Ok(Published::CreatorFull) => full("the nodes of the account that has made this one"),
        Err(error) => {
            world.store_failed("publishing an item", &key.0, &error);
            Err(store_failure(&error))
        }
    }
}

/// Replies to the publisher, then notifies the subscribers (§7.1.2).
fn reply_and_notify(world: &mut World, call: &PubsubCall, key: &NodeKey, node: &Rc<PubsubNode>, item: &Item) {
    let mut reply = call.iq.result();
    reply.start_ns("pubsub", ns::PUBSUB).start("publish").attr("node", &key.1);
    let is_nameless = !node.config.persist_items && !node.config.deliver_payloads;
    if !is_nameless {
        reply.start("item").attr("id", &item.id);
    }
    world.reply(&call.iq, reply);
    notify::published(world, key, node, item);
    photo::published(world, key, node, item);
}

/// Publishes an item that the server itself has made, in the name of the host, and passes the
/// outcome to `then`.
pub(super) fn put(
    world: &mut World,
    key: NodeKey,
    node: Rc<PubsubNode>,
    id: String,
    payload: Vec<u8>,
    then: impl FnOnce(&mut World, Result<(), StanzaError>) + 'static,
) {
    let item = own_item(world, &key, id, payload);
    keep(world, key, node, item, move |world, key, node, item, kept| {
        if kept.is_ok() {
            notify::published(world, key, node, item);
        }
        then(world, kept);
    });
}

fn own_item(world: &World, key: &NodeKey, id: String, payload: Vec<u8>) -> Item {
    Item { id, publisher: key.0.clone(), unix_ms: world.time(), payload }
}

/// Publishes items in the name of the host, each with its id and payload, and removes those with
/// the ids in `gone`; the store gets all of it at once. `then` is called when all writes have been
/// answered, with the first failure.
pub(super) fn replace(
    world: &mut World,
    key: NodeKey,
    node: Rc<PubsubNode>,
    items: Vec<(String, Vec<u8>)>,
    gone: Vec<String>,
    then: impl FnOnce(&mut World, Result<(), StanzaError>) + 'static,
) {
    let mut writes = VecDeque::new();
    for (id, payload) in items {
        let item = own_item(world, &key, id, payload);
        let written = write(world, &key, &node, &item);
        writes.push_back((item, written));
    }
    let removed = match gone.is_empty() {
        true => None,
        false => Some(world.stores.pubsub.retract(key.0.as_ref(), &key.1, gone)),
    };
    await_replaced(world, key, node, Writes { writes, removed, outcome: Ok(()) }, then);
}

/// The pending writes of [`replace`].
struct Writes {
    writes: VecDeque<(Item, Pending<Published>)>,
    removed: Option<Pending<Vec<String>>>,
    /// The first failure among the answered ones.
    outcome: Result<(), StanzaError>,
}

/// Waits for one write after the other.
fn await_replaced(
    world: &mut World,
    key: NodeKey,
    node: Rc<PubsubNode>,
    mut left: Writes,
    then: impl FnOnce(&mut World, Result<(), StanzaError>) + 'static,
) {
    if let Some((item, written)) = left.writes.pop_front() {
        return world.wait(written, move |world, written| {
            let outcome = outcome(world, &key, written);
            if outcome.is_ok() {
                notify::published(world, &key, &node, &item);
            }
            left.outcome = left.outcome.and(outcome);
            await_replaced(world, key, node, left, then);
        });
    }
    let Some(removed) = left.removed else { return then(world, left.outcome) };
    world.wait(removed, move |world, removed| {
        let removed = match removed {
            Ok(removed) => {
                notify::retracted(world, &key, &node, &removed);
                Ok(())
            }
            Err(error) => {
                world.store_failed("removing items", &key.0, &error);
                Err(store_failure(&error))
            }
        };
        then(world, left.outcome.and(removed));
    });
}

/// Returns the most items that a node keeps, and the time before which its items have expired.
pub(super) fn items_kept(config: &NodeConfig, limits: &NodeLimits, now_ms: u64) -> ItemsKept {
    ItemsKept { items: config.max_items.unwrap_or(limits.items).min(limits.items), since_ms: since(config, now_ms) }
}

/// Returns whether a node meets the publish options, each of which is a precondition (§7.1.5).
fn meets(config: &NodeConfig, options: &Form) -> bool {
    let mut wanted = config.clone();
    wanted.apply(options) == Ok(true) && wanted == *config
}

/// Returns the payload of an item if it meets the node's configuration (§7.1.3).
fn check(config: &NodeConfig, item: Option<&Element>, most: usize) -> Result<Vec<u8>, StanzaError> {
    let refused = |name: &str| Err(specific(Condition::BadRequest, name));
    let Some(item) = item else {
        return match (config.persist_items, config.deliver_payloads) {
            (true, _) => refused("item-required"),
            (false, true) => refused("payload-required"),
            (false, false) => Ok(Vec::new()),
        };
    };
    if !config.persist_items && !config.deliver_payloads {
        return refused("item-forbidden");
    }
    if id_of(Some(item)).is_some_and(|id| id.len() > MAX_ID) {
        return Err(StanzaError::new(Condition::NotAcceptable).with_text("the id is too long"));
    }
    let mut payloads = item.children();
    let Some(payload) = payloads.next() else {
        return if config.deliver_payloads { refused("payload-required") } else { Ok(Vec::new()) };
    };
    // The type is a namespace if it looks like one.
    let is_other = config.type_.contains(':') && payload.ns() != config.type_;
    if payloads.next().is_some() || is_other {
        return refused("invalid-payload");
    }
    let bytes = Writer::write(payload).into_bytes();
    if bytes.len() > config.max_payload.unwrap_or(most).min(most) {
        return Err(specific(Condition::NotAcceptable, "payload-too-big"));
    }
    Ok(bytes)
}

fn id_of(item: Option<&Element>) -> Option<&str> {
    item?.attr("id").filter(|id| !id.is_empty())
}

/// Removes items, and notifies the subscribers if the node is configured to (§7.2).
pub(super) fn retract(
    world: &mut World,
    call: PubsubCall,
    key: NodeKey,
    node: &Rc<PubsubNode>,
    ids: Vec<String>,
    notify: bool,
) {
    if !node.config.persist_items {
        return call.refuse(world, unsupported("persistent-items"));
    }
    match node.affiliation(call.from()) {
        Some(NodeAffiliation::Owner | NodeAffiliation::Publisher) => {
            remove(world, call, key, node.clone(), ids, notify)
        }
        _ if !node.lets_publish(call.from()) => call.refuse(world, Condition::Forbidden),
        // Other publishers may remove their own items.
        _ => {
            let theirs = world.stores.pubsub.items(key.0.as_ref(), &key.1, WantedItems::Ids(ids.clone()), 0);
            let node = node.clone();
            world.wait(theirs, move |world, found| match found {
                Ok(found) => {
                    let items = found.map(|found| found.items).unwrap_or_default();
                    if items.iter().any(|item| item.publisher.as_ref() != call.from().bare()) {
                        return call.refuse(world, Condition::Forbidden);
                    }
                    remove(world, call, key, node, ids, notify);
                }
                Err(error) => call.refuse(world, store_failure(&error)),
            });
        }
    }
}

fn remove(world: &mut World, call: PubsubCall, key: NodeKey, node: Rc<PubsubNode>, ids: Vec<String>, notify: bool) {
    let removed = world.stores.pubsub.retract(key.0.as_ref(), &key.1, ids);
    world.wait(removed, move |world, removed| match removed {
        Ok(removed) if removed.is_empty() => call.refuse(world, Condition::ItemNotFound),
        Ok(removed) => {
            call.succeed(world);
            if notify || node.config.notify_retract {
                notify::retracted(world, &key, &node, &removed);
            }
        }
        Err(error) => {
            world.store_failed("removing items", &key.0, &error);
            call.refuse(world, store_failure(&error));
        }
    });
}
