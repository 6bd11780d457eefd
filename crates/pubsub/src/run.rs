//! Carries out requests, at the home of the node that they concern.

use std::rc::Rc;

use rookery_hub::World;
use rookery_stream::error::Condition;

use super::node::PubsubNode;
use super::relation::{local_owner, relation};
use super::request::{PubsubCall, RequestAction};
use super::{create, error, items, members, owner, publish, state, subscribe};

/// Carries out a request, at the home of the node that it is about.
pub(super) fn run(world: &mut World, call: PubsubCall, action: RequestAction) {
    match action {
        RequestAction::DefaultConfiguration => return owner::default_configuration(world, call),
        RequestAction::DefaultOptions => return subscribe::default_options(world, &call),
        // The reply doesn't reveal whether the node exists.
        RequestAction::Subscriptions { node } => return members::own_subscriptions(world, call, node),
        RequestAction::Affiliations { node } => return members::own_affiliations(world, call, node),
        // Only a service makes up ids, and has done so already.
        RequestAction::Create { node: None, .. } => return call.refuse(world, error::nodeid_required()),
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

/// Continues without a node, because it doesn't exist.
fn without_node(world: &mut World, call: PubsubCall, action: RequestAction) {
    match action {
        RequestAction::Create { node: Some(node), form } => create::create(world, call, &node, form),
        RequestAction::Publish { node, item, options } => {
            let options_for_node = options.clone();
            create::create_for(world, call, &node, options_for_node.as_ref(), move |world, call, key, node| {
                publish::publish(world, call, key, &node, item, options.as_ref());
            });
        }
        _ => call.refuse(world, Condition::ItemNotFound),
    }
}

/// Looks up the asker's relation to the node's owner, if it matters and isn't known.
fn with_relation(world: &mut World, call: PubsubCall, action: RequestAction, node: Rc<PubsubNode>) {
    let matters = matches!(action, RequestAction::Subscribe { .. } | RequestAction::Items { .. })
        && node.asks_roster(call.from());
    let owner = local_owner(world, &node).filter(|_| matters && call.relation.is_none());
    let Some(owner) = owner else { return carry_out(world, call, action, node) };
    let key = call.key(action.node().unwrap_or_default());
    state::hold(world, &key);
    relation(world, &owner, call, move |world, call| {
        if let Some(call) = call {
            carry_out(world, call, action, node);
        }
        state::let_go(world, key, state::NodeChange::None);
    });
}

/// Carries out an action that needs a node.
fn carry_out(world: &mut World, call: PubsubCall, action: RequestAction, node: Rc<PubsubNode>) {
    let key = call.key(action.node().unwrap_or_default());
    let is_owner = node.is_owner(call.from());
    let is_for_owners = matches!(
        action,
        RequestAction::Configuration { .. }
            | RequestAction::Configure { .. }
            | RequestAction::Delete { .. }
            | RequestAction::Purge { .. }
            | RequestAction::Subscribers { .. }
            | RequestAction::SetSubscribers { .. }
            | RequestAction::Affiliated { .. }
            | RequestAction::SetAffiliated { .. }
    );
    if is_for_owners && !is_owner {
        return call.refuse(world, Condition::Forbidden);
    }
    match action {
        RequestAction::Create { .. } => call.refuse(world, Condition::Conflict),
        RequestAction::Publish { item, options, .. } => {
            publish::publish(world, call, key, &node, item, options.as_ref())
        }
        RequestAction::Retract { ids, notify, .. } => publish::retract(world, call, key, &node, ids, notify),
        RequestAction::Items { ids, max_items, page, .. } => {
            items::retrieve(world, call, key, &node, ids, max_items, page)
        }
        RequestAction::Subscribe { jid, options, .. } => subscribe::subscribe(world, call, key, &node, jid, options),
        RequestAction::Unsubscribe { jid, .. } => subscribe::unsubscribe(world, call, key, &node, jid),
        RequestAction::Options { jid, .. } => subscribe::options(world, &call, &key, &node, &jid),
        RequestAction::SetOptions { jid, form, .. } => subscribe::set_options(world, call, key, &node, jid, &form),
        RequestAction::Configuration { .. } => owner::configuration(world, call, key, node),
        RequestAction::Configure { form, .. } => owner::configure(world, call, key, &node, form),
        RequestAction::Delete { redirect, .. } => owner::delete(world, call, key, &node, redirect),
        RequestAction::Purge { .. } => owner::purge(world, call, key, &node),
        RequestAction::Subscribers { .. } => members::subscribers(world, &call, &key, &node),
        RequestAction::SetSubscribers { changes, .. } => {
            members::set_subscribers(world, call, key, &node, changes);
        }
        RequestAction::Affiliated { .. } => members::list_affiliations(world, &call, &key, &node),
        RequestAction::SetAffiliated { changes, .. } => members::set_affiliated(world, call, key, &node, changes),
        // These need no node.
        RequestAction::Subscriptions { .. }
        | RequestAction::Affiliations { .. }
        | RequestAction::DefaultOptions
        | RequestAction::DefaultConfiguration => {}
    }
}
