//! Carries out requests, at the home of the node that they are about.

use std::rc::Rc;

use rookery_hub::World;
use rookery_stream::error::Condition;

use super::node::Node;
use super::relation::{local_owner, relation};
use super::request::{Action, Call};
use super::{create, error, items, members, owner, publish, state, subscribe};

/// Carries out a request, at the home of the node that it is about.
pub(super) fn run(world: &mut World, call: Call, action: Action) {
    match action {
        Action::DefaultConfiguration => return owner::default_configuration(world, call),
        Action::DefaultOptions => return subscribe::default_options(world, &call),
        // Whether there is such a node is not told.
        Action::Subscriptions { node } => return members::own_subscriptions(world, call, node),
        Action::Affiliations { node } => return members::own_affiliations(world, call, node),
        // Only a service makes names up, and has done so.
        Action::Create { node: None, .. } => return call.refuse(world, error::nodeid_required()),
        _ => {}
    }
    let Some(node) = action.node().map(str::to_owned) else { return };
    let key = call.key(&node);
    state::with_node(world, key, call, move |world, call, found| match found {
        Ok(Some(found)) => with_relation(world, call, action, found),
        Ok(None) => without_node(world, call, action),
        Err(error) => call.refuse(world, error),
    });
}

/// Goes on where the node isn't there.
fn without_node(world: &mut World, call: Call, action: Action) {
    match action {
        Action::Create { node: Some(node), form } => create::create(world, call, &node, form),
        Action::Publish { node, item, options } => {
            let options_for_node = options.clone();
            create::create_for(world, call, &node, options_for_node.as_ref(), move |world, call, key, node| {
                publish::publish(world, call, key, &node, item, options.as_ref());
            });
        }
        _ => call.refuse(world, Condition::ItemNotFound),
    }
}

/// Finds out how the owner of a node sees who asks, where that matters and isn't known.
fn with_relation(world: &mut World, call: Call, action: Action, node: Rc<Node>) {
    let matters = matches!(action, Action::Subscribe { .. } | Action::Items { .. }) && node.asks_roster(call.from());
    let owner = local_owner(world, &node).filter(|_| matters && call.relation.is_none());
    let Some(owner) = owner else { return carry_out(world, call, action, node) };
    let key = call.key(action.node().unwrap_or_default());
    state::hold(world, &key);
    relation(world, &owner, call, move |world, call| {
        if let Some(call) = call {
            carry_out(world, call, action, node);
        }
        state::let_go(world, key, state::Change::None);
    });
}

/// Carries out what needs a node.
fn carry_out(world: &mut World, call: Call, action: Action, node: Rc<Node>) {
    let key = call.key(action.node().unwrap_or_default());
    let is_owner = node.is_owner(call.from());
    let is_for_owners = matches!(
        action,
        Action::Configuration { .. }
            | Action::Configure { .. }
            | Action::Delete { .. }
            | Action::Purge { .. }
            | Action::Subscribers { .. }
            | Action::SetSubscribers { .. }
            | Action::Affiliated { .. }
            | Action::SetAffiliated { .. }
    );
    if is_for_owners && !is_owner {
        return call.refuse(world, Condition::Forbidden);
    }
    match action {
        Action::Create { .. } => call.refuse(world, Condition::Conflict),
        Action::Publish { item, options, .. } => publish::publish(world, call, key, &node, item, options.as_ref()),
        Action::Retract { ids, notify, .. } => publish::retract(world, call, key, &node, ids, notify),
        Action::Items { ids, max_items, page, .. } => items::retrieve(world, call, key, &node, ids, max_items, page),
        Action::Subscribe { jid, options, .. } => subscribe::subscribe(world, call, key, &node, jid, options),
        Action::Unsubscribe { jid, .. } => subscribe::unsubscribe(world, call, key, &node, jid),
        Action::Options { jid, .. } => subscribe::options(world, &call, &key, &node, &jid),
        Action::SetOptions { jid, form, .. } => subscribe::set_options(world, call, key, &node, jid, &form),
        Action::Configuration { .. } => owner::configuration(world, call, key, node),
        Action::Configure { form, .. } => owner::configure(world, call, key, &node, form),
        Action::Delete { redirect, .. } => owner::delete(world, call, key, &node, redirect),
        Action::Purge { .. } => owner::purge(world, call, key, &node),
        Action::Subscribers { .. } => members::subscribers(world, &call, &key, &node),
        Action::SetSubscribers { changes, .. } => {
            members::set_subscribers(world, call, key, &node, changes);
        }
        Action::Affiliated { .. } => members::affiliated(world, &call, &key, &node),
        Action::SetAffiliated { changes, .. } => members::set_affiliated(world, call, key, &node, changes),
        // These need no node.
        Action::Subscriptions { .. }
        | Action::Affiliations { .. }
        | Action::DefaultOptions
        | Action::DefaultConfiguration => {}
    }
}
