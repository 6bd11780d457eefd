//! The command by which an owner retrieves pending subscription requests (XEP-0060 §8.7): it offers
//! the nodes first and then sends the requests of the chosen one as messages, each with the time
//! when it was made (§8.6).
//!
//! The command has one form and no state: its session exists only in name.

use rookery_hub::{Iq, World};
use rookery_jid::Jid;
use rookery_modkit::disco::{DiscoIdentity, Info};
use rookery_modkit::form::{Field, Form};
use rookery_store::pubsub::NodeAffiliation;
use rookery_stream::error::Condition;
use rookery_xml::{Element, ns};

use super::error::store_failure;
use super::request::PubsubCall;
use super::state;
use super::subscriptions::{AUTHORIZATION, ask_owner};

/// Returns the node that the command's form names, whose home runs the command.
pub(super) fn node_of(iq: &Iq) -> Option<String> {
    let form = Form::within(&iq.payload).filter(|form| form.type_() == "submit")?;
    form.value("pubsub#node").map(str::to_owned)
}

/// Runs the command, at the home of the node that it names if it names one.
pub(super) fn asked(world: &mut World, iq: Iq) {
    if iq.payload.name() != "command" || !iq.set {
        return world.reply_error(&iq, Condition::BadRequest);
    }
    if iq.payload.attr("node") != Some(GET_PENDING) {
        return world.reply_error(&iq, Condition::ItemNotFound);
    }
    if iq.payload.attr("action") == Some("cancel") {
        return answer(world, &iq, "canceled", None);
    }
    match node_of(&iq) {
        Some(node) => one_node(world, PubsubCall { iq, relation: None }, &node),
        None if Form::within(&iq.payload).is_some() => world.reply_error(&iq, Condition::BadRequest),
        None => all_nodes(world, iq),
    }
}

/// Lists the nodes with pending requests, to choose from (§8.7.2).
fn all_nodes(world: &mut World, iq: Iq) {
    let found = world.stores.pubsub.affiliations_of(iq.to.bare(), iq.from.bare());
    world.wait(found, move |world, found| match found {
        Ok(found) => {
            let own = found.iter().filter(|(_, affiliation)| *affiliation == NodeAffiliation::Owner);
            let mut room = FORM_BYTES;
            let fits = |node: &&str| {
                room = room.saturating_sub(node.len() * 2);
                room > 0
            };
            let nodes: Vec<_> = own.map(|(node, _)| node.as_str()).take_while(fits).collect();
            if nodes.is_empty() {
                return world.reply_error(&iq, Condition::Forbidden);
            }
            let field = Field::list_single("pubsub#node").label("The node");
            let field = nodes.iter().fold(field, |field, node| field.option(node, node));
            let form = Form::new("form").title(NAME).hidden("FORM_TYPE", AUTHORIZATION);
            answer(world, &iq, "executing", Some(form.field(field)));
        }
        Err(error) => {
            world.store_failed("listing nodes", &iq.to, &error);
            world.reply_error(&iq, store_failure(&error));
        }
    });
}

/// Sends the pending requests of one node (§8.7.4).
fn one_node(world: &mut World, call: PubsubCall, node: &str) {
    let key = call.key(node);
    state::with_node(world, key.clone(), call, move |world, call, found| match found {
        Ok(Some(node)) if node.is_owner(call.from()) => {
            answer(world, &call.iq, "completed", None);
            let waiting = node.subscriptions.iter().filter(|(_, subscription)| subscription.pending);
            // They are sent at once, and must not be more than a session can take. Those that are
            // decided make room for the next.
            let waiting: Vec<Jid> = waiting.map(|(subscriber, _)| subscriber.clone()).take(MOST_REQUESTS).collect();
            for subscriber in &waiting {
                ask_owner(world, &key, subscriber, call.iq.from.as_ref());
            }
        }
        Ok(Some(_)) => call.refuse(world, Condition::Forbidden),
        Ok(None) => call.refuse(world, Condition::ItemNotFound),
        Err(error) => call.refuse(world, error),
    });
}

/// Describes the commands of the service to service discovery (XEP-0050 §3.1, §3.2). An account
/// that owns no node may run none.
pub(super) fn discovered(world: &mut World, iq: Iq, node: &str) {
    if iq.payload.ns() == ns::DISCO_INFO {
        let (type_, name) = match node {
            ns::COMMANDS => ("command-list", "Commands"),
            _ => ("command-node", NAME),
        };
        let identity = DiscoIdentity { category: "automation", type_, name: Some(name) };
        let features = match node {
            ns::COMMANDS => vec![ns::COMMANDS, ns::DISCO_INFO, ns::DISCO_ITEMS],
            _ => vec![ns::COMMANDS, ns::DATA_FORMS],
        };
        let mut reply = iq.result();
        Info { identity, more: &[], features, forms: Vec::new() }.write(&mut reply, Some(node));
        return world.reply(&iq, reply);
    }
    let (found, is_list) = (world.stores.pubsub.affiliations_of(iq.to.bare(), iq.from.bare()), node == ns::COMMANDS);
    world.wait(found, move |world, found| match found {
        Ok(found) => {
            let owns = found.iter().any(|(_, affiliation)| *affiliation == NodeAffiliation::Owner);
            let mut reply = iq.result();
            reply.start_ns("query", ns::DISCO_ITEMS).opt_attr("node", iq.payload.attr("node"));
            if is_list && owns {
                reply.start("item").attr("jid", iq.to.as_str()).attr("node", GET_PENDING).attr("name", NAME).end();
            }
            world.reply(&iq, reply);
        }
        Err(error) => {
            world.store_failed("listing nodes", &iq.to, &error);
            world.reply_error(&iq, store_failure(&error));
        }
    });
}

fn answer(world: &mut World, iq: &Iq, status: &str, form: Option<Form>) {
    let session = iq.payload.attr("sessionid").unwrap_or(SESSION);
    let command = Element::new("command", ns::COMMANDS)
        .with_attr("node", GET_PENDING)
        .with_attr("sessionid", session)
        .with_attr("status", status);
    let command = match form {
        Some(form) => {
            let actions = Element::new("actions", ns::COMMANDS).with_attr("execute", "complete");
            let actions = actions.with_child(Element::new("complete", ns::COMMANDS));
            command.with_child(actions).with_child(form.element())
        }
        None => command,
    };
    let mut reply = iq.result();
    reply.element(&command);
    world.reply(iq, reply);
}

/// The command, and the feature that announces it.
pub(super) const GET_PENDING: &str = "http://jabber.org/protocol/pubsub#get-pending";
const SESSION: &str = "get-pending";
/// Its name for display.
const NAME: &str = "Requests for subscriptions";
/// The most bytes of the nodes to choose from.
const FORM_BYTES: usize = 64 * 1024;
/// The most requests that are sent at once.
const MOST_REQUESTS: usize = 50;
