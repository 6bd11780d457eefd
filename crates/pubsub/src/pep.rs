//! XEP-0163: Personal Eventing Protocol. Every account is a host of nodes, whose news reach
//! contacts without a subscription.
//!
//! # Recipients of an account's news
//!
//! The news of a node go to its subscribers, and to the resources of the account and of contacts
//! who see its presence that ask for the node by their capabilities (`interest`). Nothing is stored
//! for the latter: an account's home knows its contacts, and the home of a contact knows the
//! contact's resources. A publication goes as one parcel to each shard that is home to any of the
//! contacts, with one packet, which the interested resources get there.
//!
//! When a resource becomes available, or wants more than before, it gets the last items. Its home
//! sends one parcel to each shard that is home to any of its contacts, with all its wishes; there,
//! one query to the store covers all those contacts. A filter in memory excludes contacts without
//! such a node from the query: for each account that has nodes 32 bits, one for each class of node
//! ids (`Holders`). So a login costs nothing if no contact has news, and at most one query per
//! shard otherwise.
//!
//! Last items come in portions: each shard sends the next when the resource has read its last one.
//! So contacts can't publish more than a client can take at login; and an item that is too large
//! for a notification is announced without its payload.
//!
//! Capabilities in directed presence apply to the account that received it (§4.3.2): if a client
//! announces them in no other way, the account knows of no others.
//!
//! # Strangers
//!
//! To users who don't see the account's presence, every node that they may not use looks like one
//! restricted to those who do: whether the node exists or not, and whether the account exists or
//! not.
//!
//! # Other servers
//!
//! Presence of remote contacts, including those behind components, arrives at the home of their
//! domain, which thus knows what they want (`afar`). A publication goes there as it goes to the
//! homes of other contacts, and leaves from there.
//!
//! # Left out
//!
//! The hashes of XEP-0390 are not read: clients also send those of XEP-0115.

use rookery_fanout::StanzaType;
use rookery_hub::{
    Bound, Delivery, Hooks, Iq, Memo, Module, OptionSpec, Passage, Phase, Stanzas, Target, Wanted, World,
};
use rookery_xml::{Kind, ns};
use serde::{Deserialize, Serialize};

use super::afar::Afar;
use super::holders::{self, Holders};
use super::interests::Interests;
use super::last::{self, LastItems};
pub use super::limits::PEP as NAME;
use super::news::NodeNews;
use super::node::Relation;
use super::relation::relation;
use super::request::{PubsubCall, RequestAction};
use super::run::run;
use super::state::OfAccounts;
use super::{approval, bookmarks, discovery, interest, limits};

/// The module that lets every account have nodes.
#[derive(Debug)]
pub struct PersonalEventing;

impl Module for PersonalEventing {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "users can publish avatars, keys, moods and bookmarks, which their contacts see"
    }

    fn standards(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("XEP-0163", "1.2.2"),
            ("XEP-0292", "0.12.0"),
            ("XEP-0223", "1.1.1"),
            ("XEP-0222", "1.0"),
            ("XEP-0080", "1.10.0"),
            ("XEP-0084", "1.1.4"),
            ("XEP-0107", "1.2.2"),
            ("XEP-0118", "1.3.0"),
            ("XEP-0172", "1.1"),
            ("XEP-0402", "1.2.0"),
            ("XEP-0411", "1.1.0"),
        ]
    }

    fn options(&self) -> &'static [OptionSpec] {
        &OPTIONS
    }

    fn bounds(&self) -> &'static [Bound] {
        limits::OF_ACCOUNTS
    }

    fn install(&self, hooks: &mut Hooks<'_>) {
        for feature in discovery::FEATURES.into_iter().chain(discovery::MORE_FEATURES).chain(FEATURES) {
            hooks.feature(Target::Account, feature);
        }
        // Many clients look for these features at the domain.
        let of_pubsub = |feature: &&'static str| feature.starts_with(ns::PUBSUB);
        let all = discovery::FEATURES.into_iter().chain(discovery::MORE_FEATURES).chain(FEATURES);
        for feature in all.filter(of_pubsub) {
            hooks.feature(Target::Server, feature);
        }
        hooks.state(OfAccounts::default());
        hooks.state(Interests::default());
        hooks.state(Afar::default());
        hooks.state(Holders::default());
        hooks.moved(holders::moved);
        hooks.moved(|world| world.state_mut::<OfAccounts>().0.forget_all());
        hooks.memo::<NodeNews>();
        hooks.memo::<LastItems>();
        hooks.memo::<PepRemoved>();
        for namespace in [ns::PUBSUB, ns::PUBSUB_OWNER] {
            hooks.iq(Target::Account, namespace, asked);
        }
        hooks.presence(interest::presence);
        hooks.session_carried(interest::save, interest::restore);
        let available = Stanzas::of(Kind::Presence, &[StanzaType::Available]);
        let unavailable = Stanzas::of(Kind::Presence, &[StanzaType::Unavailable]);
        for wanted in [Wanted::from(available).naming(&[ns::CAPS]), Wanted::from(unavailable)] {
            hooks.before_route(Phase::Record, wanted, |world, Passage { packet, to, .. }| {
                interest::directed(world, packet, to);
                Delivery::Pass
            });
        }
        hooks.heard(Wanted::from(available).naming(&[ns::CAPS]), interest::heard);
        hooks.heard(unavailable, interest::heard);
        hooks.shown(last::shown);
        hooks.account_removed(|world, _| {
            for shard in 0..world.shards() {
                world.send_memo(shard, PepRemoved);
            }
        });
        let normal = Stanzas::of(Kind::Message, &[StanzaType::Normal]);
        hooks.before_route(Phase::Act, Wanted::from(normal).naming(&[ns::DATA_FORMS]), decided);
    }
}

/// Tells every shard that an account was removed, since its nodes may still be in memory there.
#[derive(Debug, Serialize, Deserialize)]
struct PepRemoved;

impl Memo for PepRemoved {
    const NAME: &'static str = "pep removed";

    fn open(self, world: &mut World) {
        world.state_mut::<OfAccounts>().0.forget_all();
    }
}

const OPTIONS: [OptionSpec; 8] = [
    limits::OWN_NODES,
    limits::ITEMS,
    limits::OWN_ITEM_BYTES,
    limits::IMAGE_BYTES,
    limits::NODE_BYTES,
    limits::ACCOUNT_BYTES,
    limits::SUBSCRIPTIONS,
    limits::ACCOUNT_SUBSCRIPTIONS,
];

/// Takes a request to an account about its nodes.
fn asked(world: &mut World, iq: Iq) {
    let action = match RequestAction::read(&iq) {
        Ok(action) => action,
        Err(error) => return world.reply_error(&iq, error),
    };
    with_relation(world, iq, move |world, call| {
        if let Some((call, action)) = bookmarks::node(world, call, action) {
            run(world, call, action);
        }
    });
}

/// Continues with a request once the asker's relation to the account is known.
fn with_relation(world: &mut World, iq: Iq, then: impl FnOnce(&mut World, PubsubCall) + 'static) {
    if iq.is_own() {
        let relation = Relation { sees_presence: true, groups: Vec::new() };
        return then(world, PubsubCall { iq, relation: Some(relation) });
    }
    let account = iq.to.clone();
    relation(world, &account, PubsubCall { iq, relation: None }, |world, call| {
        if let Some(call) = call {
            then(world, call);
        }
    });
}

/// Takes an owner's decision about a subscription to one of its account's nodes (XEP-0060 §8.6).
fn decided(world: &mut World, Passage { packet, to, .. }: Passage<'_>) -> Delivery {
    // Most messages are for others, and are skipped once a few bytes have been read.
    let is_own = to.is_bare() && packet.from_escaped().starts_with(to.as_str().as_bytes());
    if !is_own || packet.sender().is_none_or(|sender| sender.bare() != to) {
        return Delivery::Pass;
    }
    let host = to.to_jid();
    if approval::node_of(packet, &host).is_none() {
        return Delivery::Pass;
    }
    approval::message(world, packet, &host);
    Delivery::Taken
}

/// Replies to service discovery about a node of an account.
pub fn discovered(world: &mut World, iq: Iq) {
    let is_info = iq.payload.ns() == ns::DISCO_INFO;
    let node = iq.payload.attr("node").unwrap_or_default().to_owned();
    with_relation(world, iq, move |world, call| match is_info {
        true => discovery::node_info(world, call, &node),
        false => discovery::node_items(world, call, &node),
    });
}

/// Continues with the nodes of an account, for its list of items.
pub fn nodes(world: &mut World, iq: Iq, then: impl FnOnce(&mut World, &Iq, Vec<(String, String)>) + 'static) {
    with_relation(world, iq, |world, call| discovery::account_nodes(world, call, then));
}

/// The features that accounts have in addition to those of services.
const FEATURES: [&str; 9] = [
    ns::PUBSUB,
    "urn:xmpp:bookmarks-conversion:0",
    "urn:xmpp:bookmarks:1#compat",
    "urn:xmpp:bookmarks:1#compat-pep",
    "http://jabber.org/protocol/pubsub#auto-subscribe",
    "http://jabber.org/protocol/pubsub#filtered-notifications",
    "http://jabber.org/protocol/pubsub#last-published",
    "http://jabber.org/protocol/pubsub#presence-notifications",
    "http://jabber.org/protocol/pubsub#pubsub-on-a-jid",
];
