//! Several nodes in one test: groups of shards that share only the store, and exchange only bytes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use rookery_base::{AddressHash, Awaited};
use rookery_fanout::{Member, Station, View};
use rookery_hub::readings::{READINGS, add_earlier, take_notes};
use rookery_hub::{Custody, JournalBatch, JournalFields, JournalLookup, LETTERS, Place};
use rookery_shard::{Envelope, MailboxKind, NodeLetter, Outlet, Post};

use crate::net::Socket;

/// The mailboxes of all nodes, in the order of the nodes.
#[derive(Clone)]
pub(crate) struct TestkitNodes {
    posts: Vec<Arc<Post<Socket>>>,
    shards: usize,
    letters: Vec<u16>,
    carrier: Arc<Mutex<NodeCarrier>>,
}

/// The carrier of letters between the nodes.
#[derive(Default)]
struct NodeCarrier {
    posts: Vec<std::sync::Weak<Post<Socket>>>,
    /// The nodes that are cut off in both directions.
    silent: BTreeSet<usize>,
    /// The nodes that have died, and have no homes any more.
    dead: BTreeSet<usize>,
    /// Mail for silent nodes: the node that has written it, its shard, its content.
    kept: Vec<(usize, usize, Vec<u8>, Option<Custody>)>,
    /// The journals, by node, slot and field.
    journals: BTreeMap<(usize, u16, Vec<u8>), Vec<u8>>,
    /// Batches that slow journals have not accepted yet; `None` if journals aren't slow.
    slow: Option<Vec<(usize, JournalBatch)>>,
    /// The milliseconds for which letters for others linger.
    linger_ms: u64,
    /// Look-ups by nodes' shards that slow journals have not answered yet; `None` if journals
    /// aren't slow to answer.
    asked: Option<Vec<(usize, usize, JournalLookup)>>,
    /// Processes that were reported as late; `None` if nobody fences off late processes.
    overdue: Option<BTreeSet<(u16, u32)>>,
}

impl TestkitNodes {
    /// Returns this many nodes with this many shards each, whose shards are woken by these
    /// functions, and which understand letters of these versions.
    pub(crate) fn new(nodes: usize, letters: Vec<u16>, wakers: Vec<Box<dyn Fn() + Send + Sync>>) -> Self {
        let shards = wakers.len() / nodes;
        let mut wakers = wakers.into_iter();
        let posts: Vec<_> = (0..nodes).map(|_| Post::new(wakers.by_ref().take(shards).collect())).collect();
        let carrier = Arc::<Mutex<NodeCarrier>>::default();
        if nodes > 1 {
            carrier.lock().expect("no test panics here").posts = posts.iter().map(Arc::downgrade).collect();
            for (node, post) in posts.iter().enumerate() {
                let carrier = carrier.clone();
                post.connect(Arc::new(Loopback { node, carrier }));
            }
        }
        Self { posts, shards, letters, carrier }
    }

    /// Cuts a node off from now on, in both directions.
    pub(crate) fn silence(&self, node: usize) {
        self.carrier.lock().expect("no test panics here").silent.insert(node);
    }

    /// Removes all homes of a node from now on.
    pub(crate) fn bury(&self, node: usize) {
        self.carrier.lock().expect("no test panics here").dead.insert(node);
    }

    /// Returns whether a node has died.
    pub(crate) fn is_dead(&self, node: usize) -> bool {
        self.carrier.lock().expect("no test panics here").dead.contains(&node)
    }

    /// Hands the mail that was kept for silent nodes back to the shards that have written it: as
    /// refused, or to be sent again.
    pub(crate) fn hand_back(&self, is_refused: bool) {
        let kept = std::mem::take(&mut self.carrier.lock().expect("no test panics here").kept);
        for (node, shard, bytes, custody) in kept {
            let envelope = if is_refused { Envelope::Refused(bytes, custody) } else { Envelope::Again(bytes, custody) };
            self.posts[node].send(shard, envelope);
        }
    }

    /// Holds back all further writes to journals, or carries out those that wait.
    pub(crate) fn slow_journals(&self, are_slow: bool) {
        let mut carrier = self.carrier.lock().expect("no test panics here");
        let waiting = std::mem::replace(&mut carrier.slow, are_slow.then(Vec::new));
        for (node, batch) in waiting.into_iter().flatten() {
            match carrier.silent.contains(&node) {
                true => std::mem::forget(batch.shares),
                false => carrier.write(node, batch),
            }
        }
    }

    /// Makes letters for other nodes linger for this many milliseconds.
    pub(crate) fn linger(&self, linger_ms: u64) {
        self.carrier.lock().expect("no test panics here").linger_ms = linger_ms;
    }

    /// Returns the late nodes that were reported since the last call. The first call starts the
    /// reports.
    pub(crate) fn take_overdue(&self) -> BTreeSet<(u16, u32)> {
        self.carrier.lock().expect("no test panics here").overdue.replace(BTreeSet::new()).unwrap_or_default()
    }

    /// Holds back all further answers of journals, or gives those that wait.
    pub(crate) fn slow_lookups(&self, are_slow: bool) {
        let mut carrier = self.carrier.lock().expect("no test panics here");
        let waiting = std::mem::replace(&mut carrier.asked, are_slow.then(Vec::new));
        for (node, shard, lookup) in waiting.into_iter().flatten() {
            if !carrier.silent.contains(&node) {
                carrier.look_up(node, shard, &lookup);
            }
        }
    }

    /// Sends an envelope to a shard, by its number among those of all nodes.
    pub(crate) fn send(&self, shard: usize, envelope: Envelope<Socket>) {
        if let Some(post) = self.posts.get(shard / self.shards) {
            post.send(shard % self.shards, envelope);
        }
    }

    /// Returns the mailboxes of the node that a shard is on.
    pub(crate) fn post_of(&self, shard: usize) -> &Arc<Post<Socket>> {
        &self.posts[shard / self.shards]
    }

    /// Returns the mailboxes of all nodes.
    pub(crate) fn posts(&self) -> &[Arc<Post<Socket>>] {
        &self.posts
    }

    /// Returns the number of the shards of a node.
    pub(crate) fn shards(&self) -> usize {
        self.shards
    }

    /// Returns the membership of a node in one life of the server.
    pub(crate) fn member(&self, node: usize, life: u32) -> Member {
        let shards = u16::try_from(self.shards).expect("few shards");
        let letters = self.letters.get(node).copied().unwrap_or(LETTERS);
        Member { node: number(node), incarnation: life + 1, shards, letters }
    }

    /// Returns the hash that all nodes compute with a key.
    pub(crate) fn addresses(&self, [a, b]: [u64; 2]) -> AddressHash {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&a.to_le_bytes());
        key[8..].copy_from_slice(&b.to_le_bytes());
        AddressHash::of_cluster(key)
    }

    /// Returns the place of a shard. `life` distinguishes successive servers.
    pub(crate) fn place(&self, shard: usize, life: u32, keys: [u64; 4]) -> Place {
        let (nodes, node) = (self.posts.len(), shard / self.shards);
        if nodes == 1 {
            return Place::alone(shard, self.shards, keys);
        }
        let view = self.view(node, life, None);
        let [a, b, ..] = keys;
        let secrets = keys.map(|key| key ^ (node as u64) << 32);
        let addresses = self.addresses([a, b]);
        Place { shard: shard % self.shards, view, is_joining: false, addresses, secrets }
    }
}

impl TestkitNodes {
    /// Returns the view of a node; `removed` is a node without homes, if there is one.
    pub(crate) fn view(&self, node: usize, life: u32, removed: Option<usize>) -> Arc<View> {
        let nodes = self.posts.len();
        let dead = self.carrier.lock().expect("no test panics here").dead.clone();
        // Its own node first, then the others in their order.
        let order: Vec<usize> = std::iter::once(node).chain((0..nodes).filter(|other| *other != node)).collect();
        let members = order.iter().map(|node| self.member(*node, life)).collect();
        let view = View::among(members, |slot| {
            let mut owner = slot / self.shards % nodes;
            for _ in 1..nodes {
                let has_none = Some(owner) == removed || dead.contains(&owner);
                owner = if has_none { (owner + 1) % nodes } else { owner };
            }
            order.iter().position(|node| *node == owner).expect("each node has a place")
        });
        let without_homes = removed.map_or(1, |of| of as u64 + 2);
        let name = dead.iter().fold(1, |name, dead| 100 * name + *dead as u64 + 1);
        let gone = dead.iter().map(|dead| self.member(*dead, life)).collect();
        view.with_name(without_homes + 100 * name, gone)
    }
}

/// Brings letters to other nodes of the same test at once.
struct Loopback {
    node: usize,
    carrier: Arc<Mutex<NodeCarrier>>,
}

impl Outlet for Loopback {
    fn post(&self, from: usize, letters: Vec<NodeLetter>) {
        let mut carrier = self.carrier.lock().expect("no test panics here");
        let silent = carrier.silent.clone();
        if silent.contains(&self.node) {
            return;
        }
        // Letters that leave together are handled together.
        let mut owned = BTreeMap::<u16, Vec<Custody>>::new();
        for letter in letters.iter().filter(|letter| !silent.contains(&(usize::from(letter.to.node) - 1))) {
            owned.entry(letter.to.node).or_default().extend(letter.custody.clone());
        }
        owned.retain(|_, owned| !owned.is_empty());
        let elsewhere: BTreeMap<u16, Custody> =
            owned.into_iter().map(|(node, owned)| (node, custody_elsewhere(owned))).collect();
        for NodeLetter { to, kind, bytes, custody, .. } in letters {
            let node = usize::from(to.node) - 1;
            if silent.contains(&node) {
                if kind == MailboxKind::Mail {
                    carrier.kept.push((self.node, from, bytes, custody));
                }
                continue;
            }
            let from = Station { node: number(self.node), incarnation: to.incarnation, shard: from as u16 };
            let custody = elsewhere.get(&to.node).cloned();
            if let Some(post) = carrier.posts.get(node).and_then(std::sync::Weak::upgrade) {
                post.send(usize::from(to.shard), Envelope::Afar(from, vec![(kind, bytes)], custody));
            }
        }
    }

    fn journal(&self, _: usize, batch: JournalBatch) {
        let mut carrier = self.carrier.lock().expect("no test panics here");
        // Nothing waits for a silent node.
        if carrier.silent.contains(&self.node) {
            return std::mem::forget(batch.shares);
        }
        match &mut carrier.slow {
            Some(waiting) => waiting.push((self.node, batch)),
            None => carrier.write(self.node, batch),
        }
    }

    fn linger_ms(&self) -> u64 {
        self.carrier.lock().expect("no test panics here").linger_ms
    }

    fn fences_off(&self) -> bool {
        self.carrier.lock().expect("no test panics here").overdue.is_some()
    }

    fn overdue(&self, node: u16, incarnation: u32) {
        let mut carrier = self.carrier.lock().expect("no test panics here");
        carrier.overdue.iter_mut().for_each(|overdue| _ = overdue.insert((node, incarnation)));
    }

    fn look_up(&self, shard: usize, lookup: JournalLookup) {
        let mut carrier = self.carrier.lock().expect("no test panics here");
        match &mut carrier.asked {
            Some(waiting) => waiting.push((self.node, shard, lookup)),
            None => carrier.look_up(self.node, shard, &lookup),
        }
    }

    fn have_read(&self, _: usize, JournalLookup { process, slots, .. }: JournalLookup) {
        let mut carrier = self.carrier.lock().expect("no test panics here");
        let node = usize::from(process.0) - 1;
        // A silent node reaches nothing. A process on the node of the journal has a new journal by
        // now.
        if carrier.silent.contains(&self.node) || self.node == node {
            return;
        }
        carrier.journals.retain(|(of, slot, _), _| *of != node || !slots.contains(slot));
    }
}

impl NodeCarrier {
    /// Answers a look-up by a node's shard.
    fn look_up(&mut self, asker: usize, shard: usize, JournalLookup { process, slots, .. }: &JournalLookup) {
        let (mut fields, mut waiting) = (JournalFields::new(), VecDeque::from([(*process, slots.clone())]));
        while let Some((process, slots)) = waiting.pop_front() {
            let node = usize::from(process.0) - 1;
            let mut found = JournalFields::new();
            for slot in slots.iter().copied().chain([READINGS]) {
                let (from, to) = ((node, slot, Vec::new()), (node, slot + 1, Vec::new()));
                found.extend(self.journals.range(from..to).map(|(key, value)| (key.2.clone(), value.clone())));
                // All processes of a node have one journal here, and the process that asks begins a
                // new one.
                if asker == node {
                    self.journals.retain(|(of, at, _), _| *of != node || *at != slot);
                }
            }
            let behind = take_notes(&mut found, &slots).into_iter();
            let behind = behind.map(|lookup| (lookup.process, lookup.slots)).filter(|(of, _)| of.0 != process.0);
            waiting.extend(behind);
            add_earlier(&mut fields, found);
        }
        if let Some(post) = self.posts.get(asker).and_then(std::sync::Weak::upgrade) {
            post.send(shard, Envelope::Recovered(*process, fields));
        }
    }

    fn write(&mut self, node: usize, batch: JournalBatch) {
        for write in batch.writes {
            let key = (node, write.slot, write.field);
            match write.value {
                Some(value) => drop(self.journals.insert(key, value)),
                None => drop(self.journals.remove(&key)),
            }
        }
    }
}

/// Returns a custody on another node, which reports its end at once: the sender keeps its own until
/// then.
fn custody_elsewhere(own: Vec<Custody>) -> Custody {
    let (custody, settled) = Custody::apart();
    let waiting = Arc::new(CustodyInWait { own: Mutex::new(own), settled: Mutex::new(Some(settled)) });
    let waker = Waker::from(waiting.clone());
    let mut settled = waiting.settled.lock().expect("no test panics here");
    let outcome = settled.as_mut().map(|settled| Pin::new(settled).poll(&mut Context::from_waker(&waker)));
    debug_assert!(outcome.is_some_and(|outcome| outcome.is_pending()), "it has a share");
    custody
}

/// A custody that waits for the end of one on another node.
struct CustodyInWait {
    own: Mutex<Vec<Custody>>,
    settled: Mutex<Option<Awaited<()>>>,
}

impl Wake for CustodyInWait {
    fn wake(self: Arc<Self>) {
        let own = std::mem::take(&mut *self.own.lock().expect("no test panics here"));
        drop(own);
    }
}

/// Returns the number of a node in a view: 0 is a process without a cluster.
fn number(node: usize) -> u16 {
    u16::try_from(node + 1).expect("few nodes")
}
