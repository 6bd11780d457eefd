//! Requests of owners about a node as a whole: XEP-0060 §8.2 to §8.5.

use std::collections::BTreeSet;
use std::rc::Rc;

use rookery_hub::World;
use rookery_jid::Jid;
use rookery_modkit::form::Form;
use rookery_store::StoreError;
use rookery_stream::error::Condition;
use rookery_xml::ns;

use super::create::fits;
use super::error::{store_failure, unsupported};
use super::limits::NodeLimits;
use super::node::{NodeKey, PubsubNode};
use super::notify;
use super::publish::items_kept;
use super::relation::local_owner;
use super::request::PubsubCall;
use super::state::{self, NodeChange, defaults};

/// Sends the configuration form of a node (§8.2.1).
pub(super) fn configuration(world: &mut World, call: PubsubCall, key: NodeKey, node: Rc<PubsubNode>) {
    let owner = local_owner(world, &node);
    with_groups(world, owner, move |world, groups| {
        let mut reply = call.iq.result();
        reply.start_ns("pubsub", ns::PUBSUB_OWNER).start("configure").attr("node", &key.1);
        reply.element(&node.config.form_with("form", &groups).element());
        world.reply(&call.iq, reply);
    });
}

/// Sends the form of a node that isn't created yet (§8.3).
pub(super) fn default_configuration(world: &mut World, call: PubsubCall) {
    let owner = Some(call.iq.from.to_bare()).filter(|owner| world.domain(owner.domain()).is_some());
    with_groups(world, owner, move |world, groups| {
        let mut reply = call.iq.result();
        reply.start_ns("pubsub", ns::PUBSUB_OWNER).start("default");
        reply.element(&defaults(&call.iq.to, "").form_with("form", &groups).element());
        world.reply(&call.iq, reply);
    });
}

/// Continues with the groups of an account's roster, sorted; with none if there is no such account.
fn with_groups(world: &mut World, owner: Option<Jid>, then: impl FnOnce(&mut World, Vec<String>) + 'static) {
    let Some(owner) = owner else { return then(world, Vec::new()) };
    let roster = world.stores.rosters.get(owner.as_ref());
    world.wait(roster, move |world, roster| {
        let groups: BTreeSet<String> = match roster {
            Ok(roster) => roster.items.into_iter().flat_map(|item| item.groups).collect(),
            Err(StoreError::NoAccount) => BTreeSet::new(),
            Err(error) => {
                // The form works without them: groups can be named that aren't offered.
                world.store_failed("reading the groups of a roster", &owner, &error);
                BTreeSet::new()
            }
        };
        then(world, groups.into_iter().collect());
    });
}

/// Changes the configuration, or nothing if the owner has cancelled (§8.2.4).
pub(super) fn configure(world: &mut World, call: PubsubCall, key: NodeKey, node: &Rc<PubsubNode>, form: Option<Form>) {
    // §8.2.4: cancelled.
    let Some(form) = form else { return call.succeed(world) };
    let (mut config, limits) = (node.config.clone(), NodeLimits::of(world, &key.0));
    if let Err(error) = config.apply(&form).and_then(|_| fits(&key.1, &config, &limits)) {
        return call.refuse(world, error);
    }
    state::hold(world, &key);
    let kept = items_kept(&config, &limits, world.time());
    let written = world.stores.pubsub.configure_node(key.0.as_ref(), &key.1, config.to_bytes(), kept);
    let mut node = node.clone();
    world.wait(written, move |world, written| {
        let change = match written {
            Ok(true) => {
                call.succeed(world);
                Rc::make_mut(&mut node).config = config.clone();
                if config.notify_config {
                    notify::configured(world, &key, &node);
                }
                NodeChange::Edit(Box::new(|node| node.config = config))
            }
            Ok(false) => {
                call.refuse(world, Condition::ItemNotFound);
                NodeChange::Forget
            }
            Err(error) => {
                world.store_failed("configuring a node", &key.0, &error);
                call.refuse(world, store_failure(&error));
                NodeChange::Forget
            }
        };
        drop(node);
        state::let_go(world, key, change);
    });
}

/// Deletes the node and tells its subscribers (§8.4).
pub(super) fn delete(
    world: &mut World,
    call: PubsubCall,
    key: NodeKey,
    node: &Rc<PubsubNode>,
    redirect: Option<String>,
) {
    state::hold(world, &key);
    let written = world.stores.pubsub.delete_node(key.0.as_ref(), &key.1);
    let node = node.clone();
    world.wait(written, move |world, written| {
        match written {
            Ok(true) => {
                call.succeed(world);
                if node.config.notify_delete {
                    notify::deleted(world, &key, &node, redirect.as_deref());
                }
            }
            Ok(false) => call.refuse(world, Condition::ItemNotFound),
            Err(error) => {
                world.store_failed("deleting a node", &key.0, &error);
                call.refuse(world, store_failure(&error));
            }
        }
        state::let_go(world, key, NodeChange::Forget);
    });
}

/// Removes all items and tells the subscribers (§8.5).
pub(super) fn purge(world: &mut World, call: PubsubCall, key: NodeKey, node: &Rc<PubsubNode>) {
    if !node.config.persist_items {
        return call.refuse(world, unsupported("persistent-items"));
    }
    let written = world.stores.pubsub.purge(key.0.as_ref(), &key.1);
    let node = node.clone();
    world.wait(written, move |world, written| match written {
        Ok(_) => {
            call.succeed(world);
            if node.config.notify_retract {
                notify::purged(world, &key, &node);
            }
        }
        Err(error) => {
            world.store_failed("purging a node", &key.0, &error);
            call.refuse(world, store_failure(&error));
        }
    });
}
