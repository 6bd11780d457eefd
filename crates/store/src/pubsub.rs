//! Publish-subscribe nodes with their items (XEP-0060), of services and of accounts (XEP-0163).
//!
//! A node is named by its host and its id. A host with a localpart is an account: its nodes require
//! it to exist, and are removed with it. Any other host is a service, of which the store has only
//! the name.
//!
//! The account that created a node is accountable for it: the bytes of the node's configuration,
//! items and affiliations count for that account.

use crate::Pending;
use rookery_jid::{Jid, JidRef};

/// The nodes of all hosts. Hosts and affiliated entities are identified by their bare JIDs.
pub trait Pubsub: Send + Sync {
    /// Returns a node with everything except its items; `None` if there is no such node.
    fn node(&self, host: JidRef<'_>, node: &str) -> Pending<Option<NodeRecord>>;

    /// Returns the nodes of a host whose id is above `after` (`""`: from the first), at most
    /// `limit`, by id; each with its configuration and the affiliation of `asker`.
    fn nodes(&self, host: JidRef<'_>, asker: JidRef<'_>, after: &str, limit: usize) -> Pending<Vec<NodeListed>>;

    /// Creates a node with an owner, if there is room for it.
    fn create_node(
        &self,
        host: JidRef<'_>,
        node: &str,
        config: Vec<u8>,
        owner: JidRef<'_>,
        room: NodeRoom,
    ) -> Pending<Created>;

    /// Replaces the configuration, and removes items that are then too many or too old. Returns
    /// `false` if there is no such node.
    fn configure_node(&self, host: JidRef<'_>, node: &str, config: Vec<u8>, kept: ItemsKept) -> Pending<bool>;

    /// Removes a node with everything that belongs to it. Returns `false` if there was none.
    fn delete_node(&self, host: JidRef<'_>, node: &str) -> Pending<bool>;

    /// Sets the affiliation of an entity, or removes it with `None`. A new one needs room for its
    /// bytes.
    fn set_affiliation(
        &self,
        host: JidRef<'_>,
        node: &str,
        entity: JidRef<'_>,
        affiliation: Option<NodeAffiliation>,
        room: NodeRoom,
    ) -> Pending<SetOutcome>;

    /// Sets the subscription of an address, bare or full, or removes it with `None`. A new one is
    /// refused if the addresses of the same account already have `most` subscriptions to nodes of
    /// the host.
    fn set_subscription(
        &self,
        host: JidRef<'_>,
        node: &str,
        subscriber: JidRef<'_>,
        subscription: Option<NodeSubscription>,
        most: usize,
    ) -> Pending<SetOutcome>;

    /// Stores an item as the newest one, replacing one with the same id, and removes items that are
    /// then too many or too old. An item that enlarges the node needs room for its bytes.
    fn publish(&self, host: JidRef<'_>, node: &str, item: Item, kept: ItemsKept, room: NodeRoom) -> Pending<Published>;

    /// Returns some items of a node, without expired ones; `None` if the node doesn't
    /// exist.
    fn items(&self, host: JidRef<'_>, node: &str, wanted: WantedItems, since_ms: u64) -> Pending<Option<Items>>;

    /// Removes items by their ids. Returns the ids that existed, in the order of the request.
    fn retract(&self, host: JidRef<'_>, node: &str, ids: Vec<String>) -> Pending<Vec<String>>;

    /// Removes all items. Returns their number.
    fn purge(&self, host: JidRef<'_>, node: &str) -> Pending<u64>;

    /// Returns the subscriptions of all addresses of an entity to the nodes of a host: node,
    /// subscriber, subscription. They are ordered by node.
    fn subscriptions_of(&self, host: JidRef<'_>, entity: JidRef<'_>) -> Pending<Vec<(String, Jid, NodeSubscription)>>;

    /// Returns the affiliations of an entity with the nodes of a host, by node.
    fn affiliations_of(&self, host: JidRef<'_>, entity: JidRef<'_>) -> Pending<Vec<(String, NodeAffiliation)>>;

    /// Returns the latest news of accounts for an entity that becomes available: for each of these
    /// accounts, each of the named nodes that exists and has an item. They come in portions of
    /// [`PAGE_BYTES`] or one item, in the order of the request: those after `after`, an account and
    /// one of its nodes. The flag says whether there may be more.
    fn news(
        &self,
        asker: JidRef<'_>,
        owners: Vec<Jid>,
        nodes: Vec<String>,
        after: Option<(Jid, String)>,
    ) -> Pending<(Vec<News>, bool)>;

    /// Returns the nodes of all accounts, page by page: at most `limit` whose number is above
    /// `after` (0: from the first).
    fn accounts_nodes(&self, after: u64, limit: usize) -> Pending<Vec<(u64, Jid, String)>>;
}

/// A node with everything except its items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRecord {
    /// The configuration, as it was given.
    pub config: Vec<u8>,
    /// The account that is accountable for it: the one that created it or, once that was removed,
    /// another owner.
    pub creator: Option<Jid>,
    /// The affiliated bare JIDs with their affiliation, by address.
    pub affiliations: Vec<(Jid, NodeAffiliation)>,
    /// The subscribed addresses, bare or full, with their subscription, by address.
    pub subscriptions: Vec<(Jid, NodeSubscription)>,
}

/// A node in a list, without its items and subscribers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeListed {
    /// Its id.
    pub node: String,
    /// Its configuration, as it was given.
    pub config: Vec<u8>,
    /// The affiliation of the asker.
    pub affiliation: Option<NodeAffiliation>,
}

/// The rights of an address on a node (XEP-0060 §4.1). The affiliation `none` is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeAffiliation {
    /// Everything.
    Owner,
    /// Publish, subscribe and retrieve.
    Publisher,
    /// Publish, and neither subscribe nor retrieve.
    PublishOnly,
    /// Subscribe and retrieve.
    Member,
    /// Nothing.
    Outcast,
}

impl NodeAffiliation {
    /// All affiliations.
    pub const ALL: [NodeAffiliation; 5] =
        [Self::Owner, Self::Publisher, Self::PublishOnly, Self::Member, Self::Outcast];

    /// Returns the value of the `affiliation` attribute.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Publisher => "publisher",
            Self::PublishOnly => "publish-only",
            Self::Member => "member",
            Self::Outcast => "outcast",
        }
    }

    /// Returns the affiliation of that name; `None` also for `none`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|affiliation| affiliation.as_str() == name)
    }
}

/// The subscription of an address to a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSubscription {
    /// True if an owner has yet to approve it (the state `pending`, XEP-0060 §4.2); otherwise it is
    /// `subscribed`.
    pub pending: bool,
    /// Its options, as they were given; empty for the defaults.
    pub options: Vec<u8>,
}

/// The outcome of creating a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// The node is created.
    Done,
    /// There already is a node with that id.
    Exists,
    /// The host has as many nodes as it may have.
    Full,
    /// The creator has as many nodes of the host as it may have, or their bytes exceed the limit.
    OwnerFull,
    /// The host is an account that doesn't exist.
    NoAccount,
}

/// An item of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its id, unique within the node.
    pub id: String,
    /// The bare JID of the publisher.
    pub publisher: Jid,
    /// The time of publication, in milliseconds since 1970.
    pub unix_ms: u64,
    /// Its payload, one element; empty if it has none.
    pub payload: Vec<u8>,
}

impl Item {
    /// Returns the number of bytes that it counts for.
    pub fn bytes(&self) -> u64 {
        (self.id.len() + self.publisher.as_str().len() + self.payload.len()) as u64 + OVERHEAD
    }
}

/// The number of items that a node keeps, and the time for which it keeps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemsKept {
    /// The number of newest items.
    pub items: usize,
    /// The time of publication since which items are kept, in milliseconds since 1970.
    pub since_ms: u64,
}

/// The limits of a node and its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeRoom {
    /// The number of the host's nodes.
    pub host_nodes: usize,
    /// The number of the host's nodes with the same creator.
    pub creator_nodes: usize,
    /// The most bytes that a node may take, with its items and affiliations.
    pub node_bytes: u64,
    /// The bytes of all nodes of the host with the same creator.
    pub creator_bytes: u64,
}

impl NodeRoom {
    /// No limits.
    pub const ANY: Self =
        Self { host_nodes: usize::MAX, creator_nodes: usize::MAX, node_bytes: u64::MAX, creator_bytes: u64::MAX };
}

/// The outcome of setting an affiliation or a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOutcome {
    /// It is set as requested.
    Done,
    /// There is no such node.
    NoNode,
    /// There is no room for a new one.
    Full,
}

/// The outcome of publishing an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// The item is stored.
    Kept,
    /// There is no such node.
    NoNode,
    /// The node has no room for it.
    NodeFull,
    /// The account that created the node has no room for it.
    CreatorFull,
}

/// A selection of a node's items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WantedItems {
    /// The items with these ids, in this order, as far as they exist.
    Ids(Vec<String>),
    /// The newest, at most this many.
    Newest(usize),
    /// A page (XEP-0059): at most `limit` items after the item `after` (`None`: from the oldest).
    After(Option<String>, usize),
    /// A page: at most `limit` items right before the item `before` (`None`: the newest).
    Before(Option<String>, usize),
    /// A page: at most `limit` items from this index on, the oldest being 0.
    From(usize, usize),
}

/// Some items of a node, from older to newer unless ids were requested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Items {
    /// The requested items that exist.
    pub items: Vec<Item>,
    /// The number of items that are older than the first of them.
    pub index: usize,
    /// The number of items that the node has.
    pub total: usize,
    /// True if the item that a page was to begin or end at doesn't exist.
    pub lost: bool,
}

/// A node with its last item, and the asker's relation to its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// The account.
    pub host: Jid,
    /// The id of the node.
    pub node: String,
    /// Its configuration, as it was given.
    pub config: Vec<u8>,
    /// The affiliation of the asker.
    pub affiliation: Option<NodeAffiliation>,
    /// True if the asker sees the presence of the account.
    pub sees_presence: bool,
    /// The roster groups in which the account has put the asker.
    pub groups: Vec<String>,
    /// The last item.
    pub item: Item,
}

/// The bytes that an item or an affiliation counts for in addition to its texts: about the space
/// that it needs.
pub const OVERHEAD: u64 = 100;

/// The most bytes of items ([`Item::bytes`]) in one answer of [`Pubsub::items`], unless a single
/// item is larger.
pub const PAGE_BYTES: u64 = 256 * 1024;
