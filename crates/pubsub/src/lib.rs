//! XEP-0060: Publish-Subscribe, by the service `pubsub.DOMAIN`, and the engine that it shares with the nodes of accounts ([`pep`], XEP-0163).
//!
//! # How it works
//!
//! A *host* has nodes: the service, or an account under its bare JID. A node has a home shard, where all is done that concerns it: for an account's node
//! that of the account, for the service's that of the node itself, so that no shard carries the whole service. A request that comes in elsewhere is handed
//! over as it is. What concerns no node, as the list of one's subscriptions, is asked of the store wherever it comes in.
//!
//! At its home a node is at hand while it is used (`state`): configuration, affiliations, subscriptions. Items are in the store only. A publication is
//! checked against the node at hand, written, and when the store has it the publisher is answered and one packet goes out to all who get it
//! (`notify`).
//!
//! # Layout
//!
//! `request` reads what is asked for; `config` and `node` are the data, and say who may do what; `create`, `publish`, `items`, `subscribe`,
//! `approval`, `pending`, `owner` and `members` carry it out, `notify` tells the others; `state` has the nodes that are in use.
//! [`pep`] makes every account a host of nodes: `interest` knows which news a client wants, `directed` hears of capabilities that it told one
//! account alone; `discovery` answers service discovery; `error` makes the errors. `bookmarks`, `avatar`,
//! [`private`] and [`vcard`] keep an account's data beside its nodes or in them. [`data`] is another service, whose items come
//! from outside. `limits` are those
//! of the operator.
//!
//! # Left out
//!
//! * Collections (XEP-0248).
//! * Several subscriptions of one address to one node, and with them subscription ids. They would tell apart what filters let through, of which there are
//!   none, and a client that doesn't say its id again would be refused (§6.2.3.5, §6.3.4.5). So a second request to subscribe answers what the first one has
//!   made (§6.1.6), and an id that a client makes up counts for nothing (§6.2.3.5).
//! * Of the options of a subscription, all but `pubsub#deliver`: the service doesn't see its subscribers' presence (`show-values`), knows no payload well
//!   enough to write it down for people (`include_body`), and notifies at once (`digest`, `expire` with it).
//! * Payment, and of the fields of a configuration those about languages, style sheets, reply rooms and offline purges.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod approval;
mod avatar;
pub mod bookmarks;
mod config;
mod create;
pub mod data;
mod directed;
mod discovery;
mod error;
mod interest;
mod items;
mod limits;
mod members;
mod node;
mod notify;
mod owner;
mod pending;
pub mod pep;
pub mod private;
mod publish;
mod request;
mod state;
mod subscribe;
pub mod vcard;

use std::rc::Rc;

use rookery_fanout::{Packet, StanzaType};
use rookery_hub::{Bound, Domain, Hooks, Iq, Letter, Module, OptionSpec, Value, World};
use rookery_jid::{Jid, JidRef, prepare};
use rookery_modkit::disco::{Identity, Info};
use rookery_modkit::option;
use rookery_modkit::request::is_get;
use rookery_store::StoreError;
use rookery_stream::error::Condition;
use rookery_xml::{Kind, ns};
use serde::{Deserialize, Serialize};

use error::failed;
use node::{Node, Relation};
use request::{Action, Call};
use state::Nodes;

/// Keeps nodes for everybody, under an address of their own.
#[derive(Debug)]
pub struct Pubsub;

/// Holds what a shard remembers of the nodes of all services.
#[derive(Debug, Default)]
struct Service {
    nodes: Nodes,
}

/// Tells every shard that an account was removed, which the nodes there may still know.
#[derive(Debug, Serialize, Deserialize)]
struct Removed;

impl Letter for Removed {
    const NAME: &'static str = "pubsub removed";

    fn open(self, world: &mut World) {
        world.state_mut::<Service>().nodes.forget_all();
    }
}

impl Module for Pubsub {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "programs can publish under a name, and others subscribe to it"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[("XEP-0060", "1.30.0")]
    }

    fn left_out(&self) -> &'static [(&'static str, &'static str)] {
        &[(
            "XEP-0060",
            "collections, several subscriptions of one address (and ids of subscriptions), filters, digests, leases, payment, the fields of a configuration about languages, style sheets, reply rooms and offline purges",
        )]
    }

    fn options(&self) -> &'static [OptionSpec] {
        &OPTIONS
    }

    fn bounds(&self) -> &'static [Bound] {
        limits::OF_SERVICE
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        hooks.state(Service::default());
        hooks.letter::<Removed>();
        hooks.service(serve);
        hooks.account_removed(|world, _| {
            for shard in 0..world.shards() {
                world.send_letter(shard, Removed);
            }
        });
    }
}

/// The key below `[modules]`.
const NAME: &str = "pubsub";

const OPTIONS: [OptionSpec; 11] = [
    OptionSpec {
        key: "host",
        default: || Value::Text("pubsub.@".to_owned()),
        doc: "the address of the service; @ stands for the domain",
        check: option::host,
    },
    OptionSpec {
        key: "name",
        default: || Value::Text("Publish-Subscribe".to_owned()),
        doc: "its name in lists of services",
        check: option::any,
    },
    OptionSpec {
        key: "create",
        default: || Value::List(vec!["local".to_owned()]),
        doc: "who may create nodes: \"all\", \"local\" (users of this server), domains, or addresses such as \"news@example.org\"",
        check: is_access_list,
    },
    limits::NODES,
    limits::ACCOUNT_NODES,
    limits::ITEMS,
    limits::ITEM_BYTES,
    limits::NODE_BYTES,
    limits::ACCOUNT_BYTES,
    limits::SUBSCRIPTIONS,
    limits::ACCOUNT_SUBSCRIPTIONS,
];

/// A stanza for the service.
fn serve(world: &mut World, packet: &Packet, to: JidRef<'_>, domain: &Domain) {
    if !to.is_domain() {
        return world.bounce(packet, to, Condition::ItemNotFound.into());
    }
    match (packet.kind(), packet.type_()) {
        (Kind::Iq, StanzaType::Get | StanzaType::Set) => asked(world, packet, to, domain),
        (Kind::Message, StanzaType::Normal | StanzaType::Chat) => {
            let host = to.to_jid();
            if let Some(node) = approval::node_of(packet, &host)
                && is_at_home(world, packet, to, &node)
            {
                approval::message(world, packet, &host);
            }
        }
        _ => {}
    }
}

/// Whether a node of the service is at home on this shard; if not, its home gets the stanza.
fn is_at_home(world: &mut World, packet: &Packet, to: JidRef<'_>, node: &str) -> bool {
    let home = world.home_of_text(&format!("{}/{node}", to.as_str()));
    if home != world.shard() {
        world.hand_to_service(home, packet, to);
    }
    home == world.shard()
}

/// A request to the service.
fn asked(world: &mut World, packet: &Packet, to: JidRef<'_>, domain: &Domain) {
    let Some(from) = packet.sender() else { return };
    let Some(iq) = Iq::read(packet.stanza(), from, to.to_jid(), None) else {
        return world.bounce(packet, to, Condition::BadRequest.into());
    };
    let named = iq.payload.attr("node").filter(|node| !node.is_empty()).map(str::to_owned);
    match iq.payload.ns() {
        ns::DISCO_INFO | ns::DISCO_ITEMS => {
            let is_home = named.as_ref().is_none_or(|node| is_at_home(world, packet, to, node));
            if is_home && is_get(world, &iq, "query") {
                discovered(world, iq, named, domain);
            }
        }
        ns::PUBSUB | ns::PUBSUB_OWNER => match Action::read(&iq) {
            Ok(action) => {
                let action = named_here(world, to, action);
                if action.node().is_none_or(|node| is_at_home(world, packet, to, node)) {
                    run(world, Call { iq, relation: None }, action);
                }
            }
            Err(error) => world.reply_error(&iq, error),
        },
        ns::COMMANDS => {
            let is_home = pending::node_of(&iq).is_none_or(|node| is_at_home(world, packet, to, &node));
            if is_home {
                pending::asked(world, iq);
            }
        }
        _ => world.reply_error(&iq, Condition::ServiceUnavailable),
    }
}

/// §8.1.2: a node without a name gets one, and its home is here.
fn named_here(world: &mut World, to: JidRef<'_>, action: Action) -> Action {
    let Action::Create { node: None, form } = action else { return action };
    loop {
        let node = world.unique_text();
        if world.home_of_text(&format!("{}/{node}", to.as_str())) == world.shard() {
            return Action::Create { node: Some(node), form };
        }
    }
}

fn discovered(world: &mut World, iq: Iq, node: Option<String>, domain: &Domain) {
    let is_info = iq.payload.ns() == ns::DISCO_INFO;
    let call = Call { iq, relation: None };
    match node {
        Some(node) if matches!(&*node, ns::COMMANDS | pending::GET_PENDING) => {
            pending::discovered(world, call.iq, &node);
        }
        Some(node) => {
            state::with_node(world, call.key(&node), call, move |world, call, found| {
                let found = found.ok().flatten().filter(|found| found.asks_roster(call.from()));
                let owner = found.and_then(|found| local_owner(world, &found));
                let then = move |world: &mut World, call: Call| match is_info {
                    true => discovery::node_info(world, call, &node),
                    false => discovery::node_items(world, call, &node),
                };
                match owner {
                    Some(owner) => relation(world, &owner, call, move |world, call| {
                        if let Some(call) = call {
                            then(world, call);
                        }
                    }),
                    None => then(world, call),
                }
            });
        }
        None if is_info => {
            let Some(options) = domain.module(NAME) else { return };
            let identity = Identity { category: "pubsub", type_: "service", name: Some(options.text("name")) };
            let more = [pending::GET_PENDING, ns::COMMANDS, ns::DISCO_INFO, ns::DISCO_ITEMS, ns::PUBSUB, INSTANT_NODES];
            let mut features: Vec<_> =
                discovery::FEATURES.into_iter().chain(discovery::MORE_FEATURES).chain(more).collect();
            features.sort_unstable();
            let info = Info { identity, more: &[], features, forms: Vec::new() };
            let mut reply = call.iq.result();
            info.write(&mut reply, None);
            world.reply(&call.iq, reply);
        }
        None => discovery::service_nodes(world, call),
    }
}

/// Carries out a request, at the home of the node that it is about.
fn run(world: &mut World, call: Call, action: Action) {
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
        Err(error) => call.refuse(world, failed(&error)),
    });
}

/// The node isn't there.
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

/// How an account sees who asks, then goes on; with nothing if the store failed, of which who asks has heard.
fn relation(world: &mut World, owner: &Jid, call: Call, then: impl FnOnce(&mut World, Option<Call>) + 'static) {
    let found = world.stores.rosters.item(owner.as_ref(), call.iq.from.bare());
    let owner = owner.clone();
    world.wait(found, move |world, found| {
        let item = match found {
            Ok(found) => world.joined(owner.as_ref(), &call.iq.from.to_bare(), found),
            Err(StoreError::NoAccount) => None,
            Err(error) => {
                world.store_failed("looking up who may use a node", &owner, &error);
                call.refuse(world, failed(&error));
                return then(world, None);
            }
        };
        let seen = item.filter(|item| item.subscription.from());
        let relation = seen.map(|item| Relation { sees_presence: true, groups: item.groups }).unwrap_or_default();
        then(world, Some(Call { relation: Some(relation), ..call }));
    });
}

/// The owner of a node whose roster says who may use it: the first who has an account here.
fn local_owner(world: &World, node: &Node) -> Option<Jid> {
    node.owners().find(|owner| owner.local().is_some() && world.domain(owner.domain()).is_some()).cloned()
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

/// Whether somebody may make nodes: an account its own, at the service whom the operator lets.
fn may_create(world: &World, host: &Jid, from: JidRef<'_>) -> bool {
    if host.local().is_some() {
        return host.as_ref() == from.bare();
    }
    let options = world.domain_of(host.domain()).and_then(|domain| domain.module(NAME));
    let rules = options.map(|options| options.list("create")).unwrap_or_default();
    rules.iter().any(|rule| match rule.as_str() {
        "all" => true,
        "local" => world.domain(from.domain()).is_some(),
        rule => rule == from.bare_str() || rule == from.domain(),
    })
}

fn is_access_list(value: &Value) -> Result<(), String> {
    option::each(value, |rule| {
        let is_address = || prepare(rule).is_ok_and(|jid| jid.as_ref().is_bare() && jid.as_ref().as_str() == rule);
        if matches!(rule, "all" | "local") || is_address() {
            return Ok(());
        }
        Err(format!("{rule:?} is neither \"all\" nor \"local\" nor a domain nor an address without resource"))
    })
}

/// Only a service makes names up (§8.1.2).
const INSTANT_NODES: &str = "http://jabber.org/protocol/pubsub#instant-nodes";
