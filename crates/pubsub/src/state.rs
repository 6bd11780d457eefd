//! The nodes that a shard is home to: operations on one are carried out in order, and those in use
//! are in memory.
//!
//! An operation runs when its node is loaded: at once, or when the store has answered. An operation
//! that changes a node holds it ([`hold`]) until the store has taken the change; later ones wait in
//! a queue. Operations that leave the node as it is, above all publications, hold nothing: the
//! store carries out the calls for one host in their order, so they never wait for each other.
//!
//! # Invariants
//!
//! * A node in memory equals the stored one, or is held.
//! * Nothing is borrowed while an operation runs: it may use any node, its own too.
//! * The memory for nodes is bounded by their number and by their entries about others.
//! * Waiting operations are bounded in number and in bytes; one sender has a quarter at most.

use rookery_base::{Map, Set};
use std::collections::VecDeque;
use std::rc::Rc;

use rookery_hub::{Custody, Iq, Share, World};
use rookery_jid::Jid;

use super::config::NodeConfig;
use super::error::Withheld;
use super::limits::WAITING;
use super::node::{NodeKey, PubsubNode};

/// A node; `None` if it doesn't exist, or the reason why it can't be loaded.
pub(super) type FoundNode = Result<Option<Rc<PubsubNode>>, Withheld>;

/// An operation that needs a node.
type NodeOperation = Box<dyn FnOnce(&mut World, FoundNode)>;

/// An operation that waits in the queue of its node, with the custody of its stanza.
type WaitingOperation = (NodeOperation, Option<Custody>);

/// The stanza or request behind an operation, which takes memory while it waits.
pub(super) trait Asks: 'static {
    /// Returns the bare JID whose share of the queue it takes, and the bytes; `None` for a later
    /// part of an operation that has had its turn, which is never refused.
    fn takes(&self) -> Option<(&str, usize)>;
}

impl Asks for () {
    fn takes(&self) -> Option<(&str, usize)> {
        None
    }
}

impl Asks for Iq {
    fn takes(&self) -> Option<(&str, usize)> {
        Some((self.from.as_ref().bare_str(), self.bytes))
    }
}

/// A stanza that isn't a request.
pub(super) struct SentOther {
    pub from: Jid,
    pub bytes: usize,
}

impl Asks for SentOther {
    fn takes(&self) -> Option<(&str, usize)> {
        Some((self.from.as_ref().bare_str(), self.bytes))
    }
}

/// The nodes that a shard is home to, of all services or of all accounts.
pub(super) struct HomeNodes {
    cached: CachedNodes,
    busy: Map<NodeKey, Busy>,
    /// The senders' shares of the queues of nodes.
    waiting: Share,
    /// The accounts about whose requests for subscriptions owners were notified recently, by node,
    /// and the time since when they are remembered, in milliseconds.
    asked: (Set<(NodeKey, Jid)>, u64),
}

/// The nodes of the accounts of a shard.
#[derive(Debug, Default)]
pub(super) struct OfAccounts(pub(super) HomeNodes);

/// The nodes of all services.
#[derive(Debug, Default)]
pub(super) struct OfServices(pub(super) HomeNodes);

impl Default for HomeNodes {
    fn default() -> Self {
        Self {
            cached: CachedNodes::default(),
            busy: Map::default(),
            waiting: Share::new(WAITING),
            asked: (Set::default(), 0),
        }
    }
}

impl std::fmt::Debug for HomeNodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nodes").field("busy", &self.busy.len()).finish_non_exhaustive()
    }
}

/// Nodes of two generations: when the younger one is full it becomes the older one, and nodes that
/// weren't used since are dropped.
#[derive(Default)]
struct CachedNodes {
    young: Map<NodeKey, Rc<PubsubNode>>,
    old: Map<NodeKey, Rc<PubsubNode>>,
    /// The number of subscriptions and affiliations in the younger generation.
    entries: usize,
}

/// A node that is held, or being loaded.
#[derive(Default)]
struct Busy {
    holders: u32,
    line: VecDeque<WaitingOperation>,
}

/// The outcome for a node that was held.
pub(super) enum NodeChange {
    /// It is unchanged.
    None,
    /// It was created or replaced, and the store has this.
    Put(Box<PubsubNode>),
    /// It has been changed in this way.
    Edit(Box<dyn FnOnce(&mut PubsubNode)>),
    /// It has to be loaded again, or doesn't exist any more.
    Forget,
}

/// Returns the home of a node: that of its account, or the node's own for one of a service.
pub(super) fn home_of(world: &World, (host, node): &NodeKey) -> usize {
    match host.local() {
        Some(_) => world.home_of(host.as_ref()),
        None => home_at(world, host.as_str(), node),
    }
}

/// Returns the home of a node of a service.
pub(super) fn home_at(world: &World, host: &str, node: &str) -> usize {
    world.home_of_text(&format!("{host}/{node}"))
}

/// Returns the shard's nodes of all services or of all accounts, depending on the host.
fn nodes<'w>(world: &'w mut World, host: &Jid) -> &'w mut HomeNodes {
    match host.local() {
        Some(_) => &mut world.state_mut::<OfAccounts>().0,
        None => &mut world.state_mut::<OfServices>().0,
    }
}

/// Runs `operation` with a node, after the operations that wait for that node already. An operation
/// that may not wait gets [`Withheld::Crowded`].
pub(super) fn with_node<A: Asks>(
    world: &mut World,
    key: NodeKey,
    asks: A,
    operation: impl FnOnce(&mut World, A, FoundNode) + 'static,
) {
    let nodes = nodes(world, &key.0);
    if nodes.busy.contains_key(&key) {
        return wait(world, &key, asks, operation);
    }
    match nodes.cached.get(&key) {
        Some(node) => operation(world, asks, Ok(Some(node))),
        None => {
            wait(world, &key, asks, operation);
            go_on(world, key);
        }
    }
}

/// Lets an operation wait for a node, if its sender has room for it.
fn wait<A: Asks>(
    world: &mut World,
    key: &NodeKey,
    asks: A,
    operation: impl FnOnce(&mut World, A, FoundNode) + 'static,
) {
    let waiting = &mut nodes(world, &key.0).waiting;
    if asks.takes().is_some_and(|(sender, bytes)| !waiting.take_bytes(sender, bytes)) {
        return operation(world, asks, Err(Withheld::Crowded));
    }
    let host = key.0.clone();
    let operation: NodeOperation = Box::new(move |world, found| {
        if let Some((sender, bytes)) = asks.takes() {
            nodes(world, &host).waiting.give_back_bytes(sender, bytes);
        }
        operation(world, asks, found);
    });
    let waiting: WaitingOperation = (operation, world.custody());
    nodes(world, &key.0).busy.entry(key.clone()).or_default().line.push_back(waiting);
}

/// Makes all operations on a node wait. It must be [let go](let_go).
pub(super) fn hold(world: &mut World, key: &NodeKey) {
    nodes(world, &key.0).busy.entry(key.clone()).or_default().holders += 1;
}

/// Ends a hold.
pub(super) fn let_go(world: &mut World, key: NodeKey, change: NodeChange) {
    // Its home may have moved meanwhile: then another shard changes it from now on.
    let change = if home_of(world, &key) == world.shard() { change } else { NodeChange::Forget };
    let nodes = nodes(world, &key.0);
    match change {
        NodeChange::None => {}
        NodeChange::Put(node) => nodes.cached.put(key.clone(), Rc::new(*node)),
        NodeChange::Edit(edit) => nodes.cached.edit(&key, edit),
        NodeChange::Forget => nodes.cached.forget(&key),
    }
    if let Some(busy) = nodes.busy.get_mut(&key) {
        debug_assert!(busy.holders > 0, "a hold ends once");
        busy.holders = busy.holders.saturating_sub(1);
    }
    go_on(world, key);
}

/// Returns whether owners are notified of a request for a subscription: once in a while for each
/// account. Otherwise an account that subscribes and withdraws again and again would fill the
/// owners' queues. They can ask for pending requests (XEP-0060 §8.7).
pub(super) fn may_ask(world: &mut World, key: &NodeKey, subscriber: &Jid) -> bool {
    let now_ms = world.time();
    let asked = &mut nodes(world, &key.0).asked;
    if now_ms.saturating_sub(asked.1) >= ASKED_MS || asked.0.len() >= MAX_ASKED {
        *asked = (Set::default(), now_ms);
    }
    asked.0.insert((key.clone(), subscriber.to_bare()))
}

/// Notes that an owner has decided: the next request causes a notification.
pub(super) fn forget_request(world: &mut World, key: &NodeKey, subscriber: &Jid) {
    nodes(world, &key.0).asked.0.remove(&(key.clone(), subscriber.to_bare()));
}

impl HomeNodes {
    /// Drops all nodes from memory: something other than their homes may have changed them, such as
    /// the removal of an account, or their homes have moved.
    pub(super) fn forget_all(&mut self) {
        self.cached = CachedNodes::default();
    }
}

/// Runs the operations that wait for a node until one of them holds it.
fn go_on(world: &mut World, key: NodeKey) {
    loop {
        let nodes = nodes(world, &key.0);
        let Some(busy) = nodes.busy.get_mut(&key).filter(|busy| busy.holders == 0) else { return };
        let Some((operation, custody)) = busy.line.pop_front() else {
            nodes.busy.remove(&key);
            return;
        };
        match nodes.cached.get(&key) {
            Some(node) => world.in_custody(custody, |world| operation(world, Ok(Some(node)))),
            None => return world.in_custody(custody, |world| load(world, key, operation)),
        }
    }
}

fn load(world: &mut World, key: NodeKey, operation: NodeOperation) {
    hold(world, &key);
    let stored = world.stores.pubsub.node(key.0.as_ref(), &key.1);
    world.wait(stored, move |world, stored| {
        let node = match stored {
            Ok(stored) => Ok(stored.map(|stored| Rc::new(PubsubNode::of(stored, defaults(&key.0, &key.1))))),
            Err(error) => {
                world.store_failed("loading a node", &key.0, &error);
                Err(Withheld::Store(error))
            }
        };
        if let Ok(Some(node)) = &node
            && home_of(world, &key) == world.shard()
        {
            nodes(world, &key.0).cached.put(key.clone(), node.clone());
        }
        operation(world, node);
        let_go(world, key, NodeChange::None);
    });
}

/// Returns the default configuration of a node.
pub(super) fn defaults(host: &Jid, node: &str) -> NodeConfig {
    if host.local().is_some() { NodeConfig::of_account(node) } else { NodeConfig::of_service() }
}

impl CachedNodes {
    fn get(&mut self, key: &NodeKey) -> Option<Rc<PubsubNode>> {
        if let Some(node) = self.young.get(key) {
            return Some(node.clone());
        }
        let node = self.old.remove(key)?;
        self.put(key.clone(), node.clone());
        Some(node)
    }

    fn put(&mut self, key: NodeKey, node: Rc<PubsubNode>) {
        if self.young.len() >= MAX_CACHED / 2 || self.entries >= MAX_ENTRIES / 2 {
            self.old = std::mem::take(&mut self.young);
            self.entries = 0;
        }
        self.old.remove(&key);
        self.entries += entries(&node);
        self.young.insert(key, node);
    }

    /// Changes a node that is in memory; otherwise the store returns the new one when it is loaded.
    /// A task that still has the old one keeps it.
    fn edit(&mut self, key: &NodeKey, edit: impl FnOnce(&mut PubsubNode)) {
        if let Some(node) = self.young.get_mut(key).or_else(|| self.old.get_mut(key)) {
            let before = entries(node);
            edit(Rc::make_mut(node));
            self.entries += entries(node).saturating_sub(before);
        }
    }

    fn forget(&mut self, key: &NodeKey) {
        self.young.remove(key);
        self.old.remove(key);
    }
}

fn entries(node: &PubsubNode) -> usize {
    node.affiliations.len() + node.subscriptions.len()
}

/// The most subscriptions and affiliations of all nodes that a shard has in memory, not counting
/// those of the last one.
const MAX_ENTRIES: usize = 400_000;
/// The most nodes that a shard has in memory.
const MAX_CACHED: usize = 20_000;
/// The milliseconds for which owners aren't notified of another request of the same account.
const ASKED_MS: u64 = 3_600_000;
/// The most requests that are remembered.
const MAX_ASKED: usize = 10_000;
