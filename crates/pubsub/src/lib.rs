//! XEP-0060: Publish-Subscribe, as the service `pubsub.DOMAIN`, and the engine that it shares with
//! the nodes of accounts ([`pep`], XEP-0163).
//!
//! # How it works
//!
//! A *host* has nodes: the service, or an account under its bare JID. A node has a home shard,
//! where everything that concerns it is done: an account's node has that of the account, a node of
//! the service one of its own, so that no shard carries the whole service. A request that arrives
//! elsewhere is handed over unchanged. Requests that concern no node, such as for the list of one's
//! subscriptions, get their reply from the store wherever they arrive.
//!
//! At its home, a node is in memory while it is used (`state`): configuration, affiliations,
//! subscriptions. Items are in the store only. A publication is checked against the node in memory
//! and written; when the store has it, the publisher gets its reply and one packet goes to all
//! recipients (`notify`).
//!
//! # Layout
//!
//! `request` parses requests; `config` and `node` are the data, and the permissions; `relation`
//! finds out how an owner sees the asker. `run` has requests carried out by `create`, `publish`,
//! `items`, `subscribe`, `approval`, `pending`, `owner` and `members`; `notify` notifies
//! subscribers with messages from `event`, `subscriptions` the users whom a subscription concerns;
//! `state` has the nodes in use. [`pep`] makes every account a host of nodes: `interest` finds out
//! which news a client wants, by its capabilities (`caps`); `interests` and, for those announced to
//! one account only, `directed` remember it, and `afar` for contacts on other servers. `news` are
//! sent to those who want them, `last` items to those who have just begun to; `holders` are the
//! accounts that have nodes. `discovery` replies to service discovery; `error` makes the errors.
//! `bookmarks`, also in their `legacy` form, [`private`] and [`vcard`] store an account's data next
//! to its nodes or in them; `avatar` and `photo` keep node and `card` in sync. [`data`] is another
//! service, with items from outside. `limits` has the operator's limits.
//!
//! # Left out
//!
//! * Collections (XEP-0248).
//! * Several subscriptions of one address to one node, and with them subscription ids. Their ids
//!   would tell apart the results of filters, which this service lacks, and a client that doesn't
//!   repeat its id would be refused (§6.2.3.5, §6.3.4.5). So a second request to subscribe gets the
//!   existing subscription (§6.1.6), and an id that a client makes up is ignored (§6.2.3.5).
//! * Of the options of a subscription, all but `pubsub#deliver`: the service doesn't see its
//!   subscribers' presence (`show-values`), knows no payload well enough to describe it for people
//!   (`include_body`), and notifies at once (`digest`, and with it `expire`).
//! * Payment, and the fields of a configuration about languages, style sheets, reply rooms and
//!   offline purges.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod afar;
mod approval;
mod avatar;
pub mod bookmarks;
mod caps;
mod card;
mod config;
mod create;
pub mod data;
mod directed;
mod discovery;
mod error;
mod event;
mod holders;
mod interest;
mod interests;
mod items;
mod last;
mod legacy;
mod limits;
mod members;
mod news;
mod node;
mod notify;
mod owner;
mod pending;
pub mod pep;
mod photo;
pub mod private;
mod publish;
mod relation;
mod request;
mod run;
mod state;
mod subscribe;
mod subscriptions;
pub mod vcard;

use rookery_fanout::{Packet, StanzaType};
use rookery_hub::{Bound, Domain, Hooks, Iq, Memo, Module, OptionSpec, Value, World};
use rookery_jid::{JidRef, prepare};
use rookery_modkit::disco::{DiscoIdentity, Info};
use rookery_modkit::option;
use rookery_modkit::request::is_get;
use rookery_stream::error::Condition;
use rookery_xml::{Kind, ns};
use serde::{Deserialize, Serialize};

use limits::NAME;
use relation::{local_owner, relation};
use request::{PubsubCall, RequestAction};
use run::run;
use state::OfServices;

/// The module for the service, with nodes under an address of its own.
#[derive(Debug)]
pub struct PubsubModule;

/// Tells every shard that an account was removed, since nodes there may still refer to it.
#[derive(Debug, Serialize, Deserialize)]
struct PubsubRemoved;

impl Memo for PubsubRemoved {
    const NAME: &'static str = "pubsub removed";

    fn open(self, world: &mut World) {
        world.state_mut::<OfServices>().0.forget_all();
    }
}

impl Module for PubsubModule {
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
        hooks.state(OfServices::default());
        hooks.moved(|world| world.state_mut::<OfServices>().0.forget_all());
        hooks.memo::<PubsubRemoved>();
        hooks.service(serve);
        hooks.account_removed(|world, _| {
            for shard in 0..world.shards() {
                world.send_memo(shard, PubsubRemoved);
            }
        });
    }
}

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
        doc: "who may create nodes: \"all\", \"local\" (users of this server, without those of anonymous domains), domains, or addresses such as \"news@example.org\"",
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

/// Dispatches a stanza for the service.
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

/// Returns whether a node of the service is at home on this shard; if not, the stanza goes to its
/// home.
fn is_at_home(world: &mut World, packet: &Packet, to: JidRef<'_>, node: &str) -> bool {
    let home = state::home_at(world, to.as_str(), node);
    if home != world.shard() {
        world.route_to_service(home, packet, to);
    }
    home == world.shard()
}

/// Takes a request to the service.
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
        ns::PUBSUB | ns::PUBSUB_OWNER => match RequestAction::read(&iq) {
            Ok(action) => {
                let action = named_here(world, to, action);
                if action.node().is_none_or(|node| is_at_home(world, packet, to, node)) {
                    run(world, PubsubCall { iq, relation: None }, action);
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

/// Makes up the id of a node that is requested without one (§8.1.2), so that its home is here.
fn named_here(world: &mut World, to: JidRef<'_>, action: RequestAction) -> RequestAction {
    let RequestAction::Create { node: None, form } = action else { return action };
    loop {
        let node = world.unique_text();
        if state::home_at(world, to.as_str(), &node) == world.shard() {
            return RequestAction::Create { node: Some(node), form };
        }
    }
}

fn discovered(world: &mut World, iq: Iq, node: Option<String>, domain: &Domain) {
    let is_info = iq.payload.ns() == ns::DISCO_INFO;
    let call = PubsubCall { iq, relation: None };
    match node {
        Some(node) if matches!(&*node, ns::COMMANDS | pending::GET_PENDING) => {
            pending::discovered(world, call.iq, &node);
        }
        Some(node) => {
            state::with_node(world, call.key(&node), call, move |world, call, found| {
                let found = found.ok().flatten().filter(|found| found.asks_roster(call.from()));
                let owner = found.and_then(|found| local_owner(world, &found));
                let then = move |world: &mut World, call: PubsubCall| match is_info {
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
            let identity = DiscoIdentity { category: "pubsub", type_: "service", name: Some(options.text("name")) };
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

/// The feature of making up ids, which only a service has (§8.1.2).
const INSTANT_NODES: &str = "http://jabber.org/protocol/pubsub#instant-nodes";

fn is_access_list(value: &Value) -> Result<(), String> {
    option::each(value, |rule| {
        let is_address = || prepare(rule).is_ok_and(|jid| jid.as_ref().is_bare() && jid.as_ref().as_str() == rule);
        if matches!(rule, "all" | "local") || is_address() {
            return Ok(());
        }
        Err(format!("{rule:?} is neither \"all\" nor \"local\" nor a domain nor an address without a resource"))
    })
}
