//! XEP-0030: Service Discovery. The capabilities of a domain and its accounts, from the
//! declarations of the active modules.

use rookery_hub::{Hooks, Iq, Module, Target, World};
use rookery_jid::Jid;
use rookery_modkit::asker::{Asker, with_asker};
use rookery_modkit::disco::{node, reply_items};
use rookery_modkit::request::is_get;
use rookery_pubsub::pep;
use rookery_stream::error::Condition;
use rookery_xml::ns;

use crate::caps;
use crate::commands::discovery;
use crate::entity::{of_account, of_server};

/// The module that replies to service discovery for domains and accounts.
#[derive(Debug)]
pub struct Disco;

impl Module for Disco {
    fn name(&self) -> &'static str {
        "disco"
    }

    fn summary(&self) -> &'static str {
        "clients can find out what the server and its accounts support"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0030", "2.5.0"), ("XEP-0128", "1.0.1")]
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        // Installed here because every server has this module.
        for name in [env!("CARGO_CRATE_NAME"), rookery_modkit::CRATE] {
            hooks.collection(name);
        }
        for target in [Target::Server, Target::Account] {
            hooks.feature(target, ns::DISCO_INFO);
            hooks.feature(target, ns::DISCO_ITEMS);
        }
        hooks.iq(Target::Server, ns::DISCO_INFO, server_info);
        hooks.iq(Target::Server, ns::DISCO_ITEMS, server_items);
        hooks.iq(Target::Account, ns::DISCO_INFO, |world, iq| account(world, iq, account_info));
        hooks.iq(Target::Account, ns::DISCO_ITEMS, |world, iq| account(world, iq, account_items));
    }
}

fn server_info(world: &mut World, iq: Iq) {
    if !is_get(world, &iq, "query") {
        return;
    }
    if node(&iq).is_some_and(|node| discovery::info(world, &iq, node)) {
        return;
    }
    let Some(domain) = world.domain(iq.to.domain()) else {
        return world.reply_error(&iq, Condition::ItemNotFound);
    };
    let info = of_server(world.registry(), domain);
    // These nodes stand for the whole domain (XEP-0115 §6.2, XEP-0390 §3.3).
    if node(&iq).is_some_and(|node| !caps::is_on(domain) || !caps::is_node(&info, node)) {
        return world.reply_error(&iq, Condition::ItemNotFound);
    }
    let mut reply = iq.result();
    info.write(&mut reply, node(&iq));
    world.reply(&iq, reply);
}

/// Lists the services of a domain (§4).
fn server_items(world: &mut World, iq: Iq) {
    if !is_get(world, &iq, "query") {
        return;
    }
    match node(&iq) {
        Some(ns::COMMANDS) => discovery::items(world, iq),
        Some(_) => world.reply_error(&iq, Condition::ItemNotFound),
        None => {
            let services = world.services_of(iq.to.domain());
            let components: Vec<String> = world.components_of(iq.to.domain()).map(str::to_owned).collect();
            let services = services.iter().map(|service| (service.host.as_str(), Some(service.name.as_str())));
            let items: Vec<_> = services.chain(components.iter().map(|name| (name.as_str(), None))).collect();
            reply_items(world, &iq, &items);
        }
    }
}

/// Takes a request to an account: about itself, or about one of its nodes.
fn account(world: &mut World, iq: Iq, answer: fn(&mut World, Iq, Asker)) {
    if !is_get(world, &iq, "query") {
        return;
    }
    // XEP-0050 §3.2: an account has no commands, which anyone may know, whether the account exists
    // or not.
    if node(&iq) == Some(ns::COMMANDS) && iq.payload.ns() == ns::DISCO_ITEMS {
        return reply_items(world, &iq, &[]);
    }
    if node(&iq).is_some() && has_nodes(world, &iq) {
        return pep::discovered(world, iq);
    }
    with_asker(world, iq, answer);
}

fn has_nodes(world: &World, iq: &Iq) -> bool {
    world.domain(iq.to.domain()).is_some_and(|domain| domain.module(pep::NAME).is_some())
}

/// Describes an account; a stranger gets `service-unavailable`, as for an account that doesn't
/// exist (§8, first rule).
fn account_info(world: &mut World, iq: Iq, asker: Asker) {
    if asker == Asker::Stranger {
        return world.reply_error(&iq, Condition::ServiceUnavailable);
    }
    let Some(domain) = world.domain(iq.to.domain()).filter(|_| node(&iq).is_none()) else {
        return world.reply_error(&iq, Condition::ItemNotFound);
    };
    let info = of_account(world.registry(), domain);
    let mut reply = iq.result();
    info.write(&mut reply, None);
    world.reply(&iq, reply);
}

/// Lists the items of an account; a stranger gets an empty list, as for an account that doesn't
/// exist (§8, second rule), others get the available resources.
fn account_items(world: &mut World, iq: Iq, asker: Asker) {
    if asker == Asker::Stranger {
        return reply_items(world, &iq, &[]);
    }
    if node(&iq).is_some() {
        return world.reply_error(&iq, Condition::ItemNotFound);
    }
    let links = world.links_of(iq.to.as_ref()).into_iter();
    let available = links.filter(|&link| world.session_at(link).is_some_and(|session| session.is_available()));
    let items: Vec<_> = available.filter_map(|link| world.address(link).cloned()).collect();
    if has_nodes(world, &iq) {
        return pep::nodes(world, iq, move |world, iq, nodes| reply_all(world, iq, &items, &nodes));
    }
    reply_all(world, &iq, &items, &[]);
}

/// Replies with the resources of an account, and its nodes with their titles (XEP-0163 §6.1).
fn reply_all(world: &mut World, iq: &Iq, resources: &[Jid], nodes: &[(String, String)]) {
    let mut reply = iq.result();
    reply.start_ns("query", ns::DISCO_ITEMS);
    for resource in resources {
        reply.start("item").attr("jid", resource.as_str()).end();
    }
    for (node, title) in nodes {
        let title = Some(title.as_str()).filter(|title| !title.is_empty());
        reply.start("item").attr("jid", iq.to.as_str()).attr("node", node).opt_attr("name", title).end();
    }
    world.reply(iq, reply);
}
