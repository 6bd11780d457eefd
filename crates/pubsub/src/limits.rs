//! The operator's limits for a host and its users, and the resulting bounds.
//!
//! # Invariants
//!
//! * The creator of a node is accountable for it: its bytes count for that account, no matter who
//!   publishes there.
//! * Subscriptions count for the subscribed account, whatever resources it makes up.
//! * A shared resource has a bound that many accounts together can reach, but none alone.

use rookery_hub::{Bound, Bounds, Most, OptionSpec, Per, Unit, Value, World};
use rookery_jid::Jid;
use rookery_modkit::option;
use rookery_store::pubsub::NodeRoom;
use rookery_xml::ns;

use super::afar::{MOST_OF_DOMAIN, MOST_RESOURCES};

/// The key of the service below `[modules]`.
pub(super) const NAME: &str = "pubsub";
/// The key of accounts' nodes below `[modules]`.
pub const PEP: &str = "pep";

/// The limits that the operator sets for a host.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeLimits {
    /// The most nodes of the host.
    nodes: usize,
    /// The most nodes of the host that one account may create; unlimited if the host is that
    /// account.
    account_nodes: usize,
    /// The most items that a node keeps.
    pub items: usize,
    /// The most bytes of an item's payload.
    payload: usize,
    /// The most bytes of an item's payload if it is an image or a vCard.
    image: usize,
    /// The most bytes that a node may take, with its items and affiliations.
    node_bytes: u64,
    /// The most bytes of all nodes that one account has created.
    account_bytes: u64,
    /// The most subscriptions of a node, and also the most affiliations.
    pub subscriptions: usize,
    /// The most subscriptions of an account to nodes of the host.
    pub account_subscriptions: usize,
}

impl NodeLimits {
    pub fn of(world: &World, host: &Jid) -> Self {
        let is_account = host.local().is_some();
        let module = if is_account { PEP } else { NAME };
        let options = world.domain_of(host.domain()).and_then(|domain| domain.module(module));
        let bytes = |key| options.map_or(0, |options| options.number(key));
        let number = |key| usize::try_from(bytes(key)).unwrap_or(usize::MAX);
        let payload = number(ITEM_BYTES.key);
        Self {
            nodes: number(NODES.key),
            account_nodes: if is_account { usize::MAX } else { number(ACCOUNT_NODES.key) },
            items: number(ITEMS.key),
            payload,
            image: if is_account { number(IMAGE_BYTES.key).max(payload) } else { payload },
            node_bytes: bytes(NODE_BYTES.key),
            account_bytes: bytes(ACCOUNT_BYTES.key),
            subscriptions: number(SUBSCRIPTIONS.key),
            account_subscriptions: number(ACCOUNT_SUBSCRIPTIONS.key),
        }
    }

    /// Returns the bounds that the store enforces.
    pub fn room(&self) -> NodeRoom {
        NodeRoom {
            host_nodes: self.nodes,
            creator_nodes: self.account_nodes,
            node_bytes: self.node_bytes,
            creator_bytes: self.account_bytes,
        }
    }

    /// Returns the most bytes that the payload of a node's item may have.
    pub fn payload(&self, node: &str) -> usize {
        if IMAGES.contains(&node) { self.image } else { self.payload }
    }
}

pub(super) const NODES: OptionSpec = limit("nodes", || Value::Number(10_000), "nodes that the service may have");
pub(super) const ACCOUNT_NODES: OptionSpec =
    limit("account_nodes", || Value::Number(100), "nodes that one account may create");
pub(super) const OWN_NODES: OptionSpec = limit(NODES.key, || Value::Number(500), "nodes that an account may have");
pub(super) const ITEMS: OptionSpec = limit(
    "items",
    || Value::Number(10_000),
    "items that a node may keep, and the meaning of \"max\" in its configuration",
);
pub(super) const ITEM_BYTES: OptionSpec =
    limit("item_bytes", || Value::Number(128 * 1024), "bytes of an item's payload");
pub(super) const OWN_ITEM_BYTES: OptionSpec =
    limit(ITEM_BYTES.key, || Value::Number(64 * 1024), "bytes of an item's payload, except images");
pub(super) const IMAGE_BYTES: OptionSpec = limit(
    "image_bytes",
    || Value::Number(192 * 1024),
    "bytes of an avatar, which is about a third larger than its image, or of a vCard with one (XEP-0084, XEP-0292)",
);
pub(super) const NODE_BYTES: OptionSpec =
    limit("node_bytes", || Value::Number(8 * 1024 * 1024), "bytes of a node with its items and affiliations");
pub(super) const ACCOUNT_BYTES: OptionSpec =
    limit("account_bytes", || Value::Number(16 * 1024 * 1024), "bytes of all nodes that one account has created");
pub(super) const SUBSCRIPTIONS: OptionSpec =
    limit("subscriptions", || Value::Number(20_000), "subscriptions that a node may have, and affiliations");
pub(super) const ACCOUNT_SUBSCRIPTIONS: OptionSpec = limit(
    "account_subscriptions",
    || Value::Number(1000),
    "subscriptions that one account may have to all nodes together",
);

/// Returns an option that is a number of at least one.
const fn limit(key: &'static str, default: fn() -> Value, doc: &'static str) -> OptionSpec {
    OptionSpec { key, default, doc, check: option::at_least_one }
}

/// The bounds of the service.
pub(super) const OF_SERVICE: &[Bound] = &with_those_of_nodes::<14>(&[
    Bound::on("nodes", Per::Other("service"), Most::Option(NODES.key), Unit::Number)
        .or("creating one more gets <policy-violation/>"),
    Bound::on("nodes that it has created", Per::Account, Most::Option(ACCOUNT_NODES.key), Unit::Number)
        .or("creating one more gets <policy-violation/>")
        .kept_in(&["pubsub_nodes"]),
    Bound::on("nodes that it has created", Per::Account, Most::Option(ACCOUNT_BYTES.key), Unit::Bytes)
        .or("a change that would make them larger gets <policy-violation/>")
        .kept_in(&["pubsub_items", "pubsub_affiliations"]),
]);

/// The bounds of accounts' own nodes.
pub(super) const OF_ACCOUNTS: &[Bound] = &with_those_of_nodes::<17>(&[
    Bound::on("nodes", Per::Account, Most::Option(OWN_NODES.key), Unit::Number)
        .or("creating one more gets <policy-violation/>"),
    Bound::on("nodes", Per::Account, Most::Option(ACCOUNT_BYTES.key), Unit::Bytes)
        .or("a change that would make them larger gets <policy-violation/>"),
    Bound::on("an avatar or a vCard", Per::Stanza, Most::Option(IMAGE_BYTES.key), Unit::Bytes)
        .or("its publication gets <not-acceptable/>"),
    Bound::on(
        "accounts that a session has told its capabilities by directed presence",
        Per::Session,
        Most::Fixed(MAX_ACCOUNTS as u64),
        Unit::Number,
    )
    .or("it isn't notified of the nodes of further ones"),
    Bound::on(
        "resources of other servers whose capabilities are remembered",
        Per::Shard,
        Most::Fixed(MOST_RESOURCES as u64),
        Unit::Number,
    )
    .or("further ones are notified by subscriptions only"),
    Bound::on(
        "resources whose capabilities are remembered",
        Per::Other("remote domain"),
        Most::Fixed(MOST_OF_DOMAIN as u64),
        Unit::Number,
    )
    .or("further ones are notified by subscriptions only"),
]);

/// Adds the bounds that all nodes have to those of a kind of host.
const fn with_those_of_nodes<const ALL: usize>(own: &[Bound]) -> [Bound; ALL] {
    assert!(own.len() + OF_NODES.len() == ALL, "one array has room for both");
    let mut all = [OF_NODES[0]; ALL];
    let mut at = 0;
    while at < ALL {
        all[at] = if at < own.len() { own[at] } else { OF_NODES[at - own.len()] };
        at += 1;
    }
    all
}

/// The bounds of the nodes of any host.
const OF_NODES: [Bound; 11] = [
    Bound::on("a node with its items and affiliations", Per::Node, Most::Option(NODE_BYTES.key), Unit::Bytes)
        .or("a change that would make it larger gets <policy-violation/>"),
    Bound::on("items", Per::Node, Most::Option(ITEMS.key), Unit::Number).or("the oldest ones are removed"),
    Bound::on("the payload of an item", Per::Stanza, Most::Option(ITEM_BYTES.key), Unit::Bytes)
        .or("its publication gets <not-acceptable/>"),
    Bound::on("a configuration", Per::Node, Most::Fixed(MAX_CONFIG as u64), Unit::Bytes)
        .or("the change gets <not-acceptable/>"),
    Bound::on("subscriptions, and affiliations", Per::Node, Most::Option(SUBSCRIPTIONS.key), Unit::Number)
        .or("one more gets <policy-violation/>"),
    Bound::on("subscription requests that wait for an owner", Per::Node, Most::Fixed(MAX_PENDING as u64), Unit::Number)
        .or("one more gets <policy-violation/>"),
    Bound::on(
        "subscriptions of an account to a node, by its resources",
        Per::Account,
        Most::Fixed(MAX_RESOURCES as u64),
        Unit::Number,
    )
    .or("one more gets <policy-violation/>"),
    Bound::on(
        "an item whose notification includes its payload",
        Per::Stanza,
        Most::Fixed(TOLD_BYTES as u64),
        Unit::Bytes,
    )
    .or("a larger one is announced without it"),
    Bound::on("requests that wait for a node", Per::Shard, Most::Fixed(WAITING.number as u64), Unit::Number)
        .or("the sender gets <resource-constraint/>; one sender has a quarter at most"),
    Bound::on("requests that wait for a node", Per::Shard, Most::Fixed(WAITING.bytes as u64), Unit::Bytes)
        .or("the sender gets <resource-constraint/>; one sender has a quarter at most"),
    Bound::on("subscriptions to all nodes", Per::Account, Most::Option(ACCOUNT_SUBSCRIPTIONS.key), Unit::Number)
        .or("one more gets <policy-violation/>")
        .kept_in(&["pubsub_subscriptions"]),
];

/// Nodes with images: clients get their items only on request.
const IMAGES: [&str; 2] = [ns::AVATAR_DATA, "urn:xmpp:vcard4"];

/// The most bytes of a stored configuration.
pub(super) const MAX_CONFIG: usize = 16 * 1024;
/// The most pending requests for a subscription of one node.
pub(super) const MAX_PENDING: usize = 1000;
/// The most subscriptions of one account to one node: one for each of its resources.
pub(super) const MAX_RESOURCES: usize = 10;
/// The largest payload that is part of a notification, in bytes.
pub(super) const TOLD_BYTES: usize = 64 * 1024;
/// The operations that may wait for the nodes of a shard, and the bytes of the stanzas behind them.
pub(super) const WAITING: Bounds = Bounds { number: 16_384, bytes: 16 << 20 };
/// The most accounts to which a session may have announced capabilities: as many as it may have
/// sent directed presence.
pub(super) const MAX_ACCOUNTS: usize = 1000;
