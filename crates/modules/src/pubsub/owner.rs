//! What owners do with a node as a whole: XEP-0060 §8.2 to §8.5.

use std::rc::Rc;

use rookery_hub::World;
use rookery_stream::error::Condition;
use rookery_xml::ns;

use super::create::fits;
use super::error::{failed, unsupported};
use super::node::Node;
use super::publish::kept;
use super::request::Call;
use super::state::{Change, Key, State, defaults};
use super::{Limits, notify};
use crate::form::Form;

/// §8.2.1: the form.
pub(super) fn configuration(world: &mut World, call: &Call, key: &Key, node: &Node) {
    let mut reply = call.iq.result();
    reply.start_ns("pubsub", ns::PUBSUB_OWNER).start("configure").attr("node", &key.1);
    reply.element(&node.config.form("form").element());
    world.reply(&call.iq, reply);
}

/// §8.3: the form of a node to be.
pub(super) fn default_configuration(world: &mut World, call: &Call) {
    let mut reply = call.iq.result();
    reply.start_ns("pubsub", ns::PUBSUB_OWNER).start("default");
    reply.element(&defaults(&call.iq.to, "").form("form").element());
    world.reply(&call.iq, reply);
}

/// §8.2.4.
pub(super) fn configure(
    state: &Rc<State>,
    world: &mut World,
    call: Call,
    key: Key,
    node: &Rc<Node>,
    form: Option<Form>,
) {
    // §8.2.4: cancelled.
    let Some(form) = form else { return call.done(world) };
    let (mut config, limits) = (node.config.clone(), Limits::of(world, &key.0));
    if let Err(error) = config.apply(&form).and_then(|_| fits(&config, &limits)) {
        return call.refuse(world, error);
    }
    state.hold(&key);
    let kept = kept(&config, &limits, world.time());
    let written = world.stores.pubsub.configure_node(key.0.as_ref(), &key.1, config.to_bytes(), kept);
    let (state, mut node) = (state.clone(), node.clone());
    world.wait(written, move |world, written| {
        let change = match written {
            Ok(true) => {
                call.done(world);
                Rc::make_mut(&mut node).config = config.clone();
                if config.notify_config {
                    notify::configured(world, &key, &node);
                }
                Change::Edit(Box::new(|node| node.config = config))
            }
            Ok(false) => {
                call.refuse(world, Condition::ItemNotFound);
                Change::Forget
            }
            Err(error) => {
                world.store_failed("configuring a node", &key.0, &error);
                call.refuse(world, failed(&error));
                Change::Forget
            }
        };
        drop(node);
        state.let_go(world, key, change);
    });
}

/// §8.4.
pub(super) fn delete(
    state: &Rc<State>,
    world: &mut World,
    call: Call,
    key: Key,
    node: &Rc<Node>,
    redirect: Option<String>,
) {
    state.hold(&key);
    let written = world.stores.pubsub.delete_node(key.0.as_ref(), &key.1);
    let (state, node) = (state.clone(), node.clone());
    world.wait(written, move |world, written| {
        match written {
            Ok(true) => {
                call.done(world);
                if node.config.notify_delete {
                    notify::deleted(world, &key, &node, redirect.as_deref());
                }
            }
            Ok(false) => call.refuse(world, Condition::ItemNotFound),
            Err(error) => {
                world.store_failed("deleting a node", &key.0, &error);
                call.refuse(world, failed(&error));
            }
        }
        state.let_go(world, key, Change::Forget);
    });
}

/// §8.5.
pub(super) fn purge(world: &mut World, call: Call, key: Key, node: &Rc<Node>) {
    if !node.config.persist_items {
        return call.refuse(world, unsupported("persistent-items"));
    }
    let written = world.stores.pubsub.purge(key.0.as_ref(), &key.1);
    let node = node.clone();
    world.wait(written, move |world, written| match written {
        Ok(_) => {
            call.done(world);
            if node.config.notify_retract {
                notify::purged(world, &key, &node);
            }
        }
        Err(error) => {
            world.store_failed("purging a node", &key.0, &error);
            call.refuse(world, failed(&error));
        }
    });
}
