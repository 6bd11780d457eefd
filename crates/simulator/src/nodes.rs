//! The processes of a run: one server, or the nodes of a cluster on one database and one Redis.
//!
//! # Layout
//!
//! A node is in `agent`, the output that its shards hand to it in `posted`, its journal in
//! `journal`, its way into the cluster in `joining`, and its way out in `leaving`. Nodes share
//! `redis` and `fencing` besides the database.
//!
//! Time passes for all nodes alike, and a paused node does nothing meanwhile. In half of the runs
//! the nodes differ in their times of day.

mod agent;
mod fencing;
mod joining;
mod journal;
mod leaving;
mod posted;
mod redis;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use rookery_base::AddressHash;
use rookery_cluster::Members;
use rookery_cluster::members::{self, JoiningMember};
use rookery_cluster::table::NodeTable;
use rookery_hub::World;
use rookery_jid::Jid;
use rookery_store::{Stores, wait};
use rookery_testkit::{Config, Seat, Server};

use crate::device::DOMAIN;
use crate::unsteady::{DatabaseTrouble, Unsteady};
use agent::{Agent, Around};
use fencing::OwnFence;
pub(crate) use fencing::SimulatedFences;
use joining::{EnteredProcess, enter};
use journal::RedisReach;
use posted::PostedHere;
use redis::SimRedis;

/// All processes.
pub(crate) struct SimulatedNodes {
    list: Vec<SimNode>,
    /// The part that nodes share; `None` for a single server.
    shared: Option<SharedByNodes>,
    /// The number of shards of a process.
    shards: usize,
    /// The nodes that were ordered to leave and don't know that yet.
    told_to_leave: BTreeSet<usize>,
    /// The node whose shards do nothing, although the part beside them works.
    asleep: Option<usize>,
    /// True if a process has ended since the last look while it joined: others may know it.
    has_given_up: bool,
    /// The time until which others may not know yet that it had joined.
    unknown_until_ms: u64,
}

struct SharedByNodes {
    redis: Rc<RefCell<SimRedis>>,
    fences: SimulatedFences,
    addresses: AddressHash,
    now_ms: Rc<Cell<u64>>,
    /// The milliseconds for which letters linger.
    linger_ms: Arc<AtomicU64>,
}

/// One node, with whatever process it has.
struct SimNode {
    name: String,
    server: Server,
    store: Arc<Unsteady>,
    /// The milliseconds by which its time of day differs from that of the run.
    skew_ms: i64,
    life: Life,
    /// The pending timers that each shard of a new process has.
    timers: Vec<usize>,
}

enum Life {
    /// The process is a single server.
    Alone,
    Joins(Pin<Box<dyn Future<Output = Option<EnteredProcess>>>>),
    Up(Box<Agent>),
    /// It is stopped in the middle of its work, and may continue later.
    Paused(Box<Agent>),
    Down,
}

/// The state of a node, for the events that concern nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeState {
    Joining,
    Up,
    Leaving,
    Paused,
    Down,
}

impl SimNode {
    fn runs(&self) -> bool {
        matches!(self.life, Life::Alone | Life::Up(_))
    }

    fn agent(&mut self) -> Option<&mut Agent> {
        match &mut self.life {
            Life::Up(agent) => Some(agent),
            _ => None,
        }
    }
}

impl SimulatedNodes {
    /// Starts one server on these stores, or this many nodes on that database.
    pub fn start(config: Config, inner: &Stores, seed: u64, nodes: usize) -> Self {
        if nodes < 2 {
            let store = Unsteady::new(inner.clone(), seed);
            let server = Server::with(Config { stores: store.stores(), ..config.clone() });
            let timers = server.inspect(|world| world.census().timers);
            let node = SimNode { name: String::new(), server, store, skew_ms: 0, life: Life::Alone, timers };
            return Self::of(vec![node], None, config.shards);
        }
        let meta = inner.meta.clone();
        let addresses = AddressHash::of_cluster(wait(members::key(&*meta)).expect("a key"));
        let shared = SharedByNodes {
            redis: Rc::default(),
            fences: SimulatedFences::default(),
            addresses,
            now_ms: Rc::default(),
            // In half of the runs letters linger for as long as the server's do, in the others not
            // at all.
            linger_ms: Arc::new(AtomicU64::new(3 * (seed >> 4 & 1))),
        };
        let mut joined = Vec::new();
        for number in 0..nodes {
            let store = Unsteady::new(inner.clone(), seed.wrapping_add(number as u64 * 0x9e37_79b9));
            let fencing = Arc::new(OwnFence { store: store.clone(), fences: shared.fences.clone() });
            let (name, shards) = (format!("n{number}"), config.shards as u16);
            let row = wait(members::join(&*meta, &*fencing, &name, JoiningMember::of_shards(shards)))
                .expect("an empty database")
                .row;
            joined.push((name, store, row));
        }
        let rows = wait(members::all(&*meta)).expect("rows");
        let mut list = Vec::new();
        for (name, store, row) in joined {
            let mut table = NodeTable::new(name.clone(), row);
            table.update(rows.clone());
            let posted = PostedHere::lingering(shared.linger_ms.clone());
            let seat = shared.seat(&table, &posted, false);
            let seed = config.seed ^ u64::from(table.me().node) << 20;
            let server = Server::with(Config { stores: store.stores(), seat: Some(seat), seed, ..config.clone() });
            let skew_ms = [0, 700, -900][list.len() % 3] * (seed >> 9 & 1) as i64;
            server.set_time_of_day(skew_ms);
            let timers = server.inspect(|world| world.census().timers);
            let life = Life::Up(Box::new(shared.agent(&server, &store, posted, table)));
            list.push(SimNode { name, server, store, skew_ms, life, timers });
        }
        let mut nodes = Self::of(list, Some(shared), config.shards);
        nodes.carry_all();
        nodes
    }

    fn of(list: Vec<SimNode>, shared: Option<SharedByNodes>, shards: usize) -> Self {
        let (told_to_leave, asleep) = (BTreeSet::new(), None);
        Self { list, shared, shards, told_to_leave, asleep, has_given_up: false, unknown_until_ms: 0 }
    }

    /// Returns whether the database has a roster, offline messages or an archive of an account.
    pub fn has_stored(&self, account: &str) -> bool {
        let (Some(node), Ok(account)) = (self.list.first(), Jid::parse(account)) else { return false };
        node.store.has_stored(account.as_ref())
    }

    /// Makes letters leave at once from now on.
    pub fn linger_no_more(&self) {
        self.shared.iter().for_each(|shared| shared.linger_ms.store(0, Ordering::Relaxed));
    }

    /// Returns the number of nodes.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Returns the server of a run without a cluster.
    pub fn first(&self) -> &Server {
        &self.list[0].server
    }

    /// Returns the state of a node, as events and clients see it.
    pub fn state(&self, node: usize) -> NodeState {
        match &self.list[node].life {
            Life::Alone => NodeState::Up,
            Life::Joins(_) => NodeState::Joining,
            Life::Up(agent) if agent.stays() => NodeState::Up,
            Life::Up(_) => NodeState::Leaving,
            Life::Paused(_) => NodeState::Paused,
            Life::Down => NodeState::Down,
        }
    }

    /// Returns a node that accepts connections, with its server: the wanted node or the next one.
    pub fn open(&self, wanted: usize) -> Option<(usize, Server)> {
        let all = (0..self.count()).map(|step| (wanted + step) % self.count());
        let node = all.into_iter().find(|node| self.state(*node) == NodeState::Up)?;
        Some((node, self.list[node].server.clone()))
    }

    /// Returns the number of shards of all nodes.
    pub fn shards(&self) -> usize {
        self.shards * self.count()
    }

    /// Makes one shard tick, by its number among all. Returns whether it had anything to do.
    pub fn step(&mut self, shard: usize) -> bool {
        let at = shard / self.shards;
        let node = &self.list[at];
        node.runs() && self.asleep != Some(at) && node.server.step(shard % self.shards)
    }

    /// Carries out an operation that waits for a database: of the first node that has one, counted
    /// from this node on. Returns whether there was one.
    pub fn run_store(&self, first: usize) -> bool {
        let count = self.count();
        (0..count).any(|step| self.list[(first + step) % count].store.run_one())
    }

    /// Makes the part beside the shards of a node take one step. Returns whether it had anything to
    /// do.
    pub fn carry(&mut self, node: usize) -> bool {
        self.turn(node, false)
    }

    /// Makes that part of all nodes do everything that it can do now. Returns whether it did
    /// anything.
    pub fn carry_all(&mut self) -> bool {
        (0..self.count()).fold(false, |any, node| self.turn(node, true) | any)
    }

    fn turn(&mut self, node: usize, thorough: bool) -> bool {
        let now_ms = self.now();
        let Some(shared) = &self.shared else { return false };
        let entered = match &mut self.list[node].life {
            Life::Up(agent) => return agent.turn(now_ms, thorough),
            Life::Alone | Life::Paused(_) | Life::Down => return false,
            Life::Joins(joins) => match joins.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Pending => return false,
                Poll::Ready(entered) => entered,
            },
        };
        let node = &mut self.list[node];
        let Some(EnteredProcess { table, away }) = entered else {
            node.life = Life::Down;
            (self.has_given_up, self.unknown_until_ms) = (true, now_ms + UNKNOWN_MS);
            return true;
        };
        let posted = PostedHere::lingering(shared.linger_ms.clone());
        let is_joining = table.view().present().count() > 1;
        node.server.begin_again(shared.seat(&table, &posted, is_joining), now_ms);
        node.timers = node.server.inspect(|world| world.census().timers);
        away.iter().for_each(|process| node.server.note_departed(process.node, process.incarnation));
        node.life = Life::Up(Box::new(shared.agent(&node.server, &node.store, posted, table)));
        true
    }

    /// Returns the nodes whose processes have ended by themselves since the last call, each with
    /// true if it ended in good order.
    pub fn take_ended(&mut self) -> Vec<(usize, bool)> {
        let mut ended = Vec::new();
        for (at, node) in self.list.iter_mut().enumerate() {
            if let Some(in_order) = node.agent().and_then(|agent| agent.is_over()) {
                node.life = Life::Down;
                node.store.die();
                ended.push((at, in_order));
            }
        }
        ended
    }

    /// Returns whether a process has ended while it joined, since the last call.
    pub fn take_given_up(&mut self) -> bool {
        std::mem::take(&mut self.has_given_up)
    }

    /// Returns the full JIDs of the sessions that other nodes would continue if this node died now;
    /// `None` if that is uncertain.
    pub fn journaled_sessions(&mut self, node: usize) -> Option<Vec<String>> {
        self.list[node].agent().filter(|agent| agent.stays()).and_then(|agent| agent.journaled_sessions())
    }

    /// Returns the full JIDs of a node's sessions, with or without connections.
    pub fn sessions(&mut self, node: usize) -> Vec<String> {
        self.list[node].agent().map(|agent| agent.sessions()).unwrap_or_default()
    }

    /// Returns the full JIDs of the sessions without a connection, as far as the server knows, each
    /// with the milliseconds for which it still waits for its client.
    pub fn waiting_sessions(&self) -> BTreeMap<String, u64> {
        let of_shard = |world: &World| -> Vec<(String, u64)> {
            let links = world.present(DOMAIN).flat_map(|(_, links)| links);
            let waiting = links.filter_map(|link| Some((world.address(link)?, world.absence(link)?.1)));
            waiting.map(|(jid, left_ms)| (jid.as_str().to_owned(), left_ms)).collect()
        };
        self.inspect(of_shard).into_iter().flatten().collect()
    }

    /// Returns whether the shards of a node have sent something that its journal doesn't have yet.
    pub fn owes_journal(&mut self, node: usize) -> bool {
        self.list[node].agent().is_some_and(|agent| agent.owes_journal())
    }

    /// Returns a node from whose process the database accepted a write after others had begun to
    /// take over its accounts.
    pub fn written_late(&self) -> Option<usize> {
        self.list.iter().position(|node| node.store.has_written_late())
    }

    /// Returns the number of a node that has read what an earlier process wrote about homes that
    /// other nodes have had since.
    pub fn read_late(&self) -> Option<u16> {
        self.shared.as_ref().and_then(|shared| shared.fences.read_late())
    }

    /// Makes the shards of one node do nothing from now on, or lets all shards work.
    pub fn let_sleep(&mut self, node: Option<usize>) {
        self.asleep = node;
    }

    /// Makes all shards of a node tick once.
    pub fn step_node(&mut self, node: usize) {
        (0..self.shards).for_each(|shard| _ = self.step(node * self.shards + shard));
    }

    /// Kills a node. Returns whether there was a process.
    pub fn kill(&mut self, node: usize) -> bool {
        let now_ms = self.now();
        let node = &mut self.list[node];
        let was_there = !matches!(node.life, Life::Down);
        node.life = Life::Down;
        node.store.die_slowly(now_ms);
        was_there
    }

    /// Starts a process on a node that has none. Returns whether it did.
    pub fn join(&mut self, node: usize) -> bool {
        let Some(shared) = &self.shared else { return false };
        let node = &mut self.list[node];
        if !matches!(node.life, Life::Down) {
            return false;
        }
        node.store.begin_again();
        let members = shared.members(&node.store);
        let (redis, now_ms) = (shared.redis.clone(), shared.now_ms.clone());
        node.life = Life::Joins(Box::pin(enter(node.name.clone(), self.shards as u16, members, redis, now_ms)));
        true
    }

    /// Makes a node leave in good order, if another node stays. Returns whether it was told to.
    pub fn drain(&mut self, node: usize) -> bool {
        let others = (0..self.count()).filter(|other| *other != node);
        let is_alone = !others.into_iter().any(|other| self.state(other) == NodeState::Up);
        if self.shared.is_none() || is_alone || self.state(node) != NodeState::Up {
            return false;
        }
        let leaving = &self.list[node];
        // As an operator's command does, with a connection of its own to the database.
        let meta = leaving.store.inner_meta();
        let is_told = wait(members::leave(&*meta, &leaving.name)).is_ok();
        self.told_to_leave.extend(is_told.then_some(node));
        is_told
    }

    /// Pauses a node, or continues it. Returns whether it is paused now.
    pub fn pause(&mut self, node: usize) -> bool {
        let life = &mut self.list[node].life;
        *life = match std::mem::replace(life, Life::Down) {
            Life::Up(agent) => Life::Paused(agent),
            Life::Paused(agent) => Life::Up(agent),
            other => other,
        };
        matches!(life, Life::Paused(_))
    }

    /// Cuts a node off from Redis, or connects it again. Returns whether it is cut off now.
    pub fn cut_off(&mut self, node: usize) -> bool {
        let Some(agent) = self.list[node].agent() else { return false };
        agent.cut_off(!agent.is_cut_off());
        agent.is_cut_off()
    }

    /// Breaks a node's connection to Redis, so that the answer to its last command is lost.
    pub fn lose_answer(&mut self, node: usize) {
        self.list[node].agent().into_iter().for_each(|agent| agent.lose_answer());
    }

    /// Makes Redis unavailable, or available again. Returns whether it is unavailable now.
    pub fn let_redis_go(&mut self) -> bool {
        let Some(shared) = &self.shared else { return false };
        let mut redis = shared.redis.borrow_mut();
        redis.is_away = !redis.is_away;
        redis.is_away
    }

    /// Makes Redis lose all its data.
    pub fn forget_redis(&mut self) {
        self.shared.iter().for_each(|shared| shared.redis.borrow_mut().forget());
    }

    /// Ends all faults: nodes that are cut off, paused or without a process return. Returns whether
    /// all nodes are there and will stay.
    pub fn mend(&mut self) -> bool {
        if let Some(shared) = &self.shared {
            shared.redis.borrow_mut().is_away = false;
        }
        for node in 0..self.count() {
            if self.state(node) == NodeState::Paused {
                self.pause(node);
            }
            self.list[node].agent().into_iter().for_each(|agent| agent.cut_off(false));
            self.join(node);
        }
        (0..self.count()).all(|node| self.state(node) == NodeState::Up)
    }

    /// Returns the milliseconds since the start.
    pub fn now(&self) -> u64 {
        self.list[0].server.now()
    }

    /// Advances the clock of all processes, while none of them does any work.
    pub fn move_clock(&mut self, now_ms: u64) {
        if let Some(shared) = &self.shared {
            shared.redis.borrow_mut().set_now(now_ms);
            shared.now_ms.set(now_ms);
        }
        for node in &self.list {
            node.server.move_clock(now_ms);
            node.store.pass(now_ms);
        }
        // Only running processes have renewed their leases in the meantime.
        self.list.iter_mut().filter_map(SimNode::agent).for_each(|agent| agent.renew());
    }

    /// Returns the time of the next timer of any process.
    pub fn next_timer(&self) -> Option<u64> {
        let of = |node: &SimNode| match &node.life {
            Life::Alone => node.server.next_timer(),
            Life::Up(agent) => Some(node.server.next_timer().map_or(agent.next_ms(), |due| due.min(agent.next_ms()))),
            Life::Joins(_) => Some(self.now() + 100),
            Life::Paused(_) | Life::Down => None,
        };
        self.list.iter().filter_map(of).min()
    }

    /// Stalls one shard, by its number among all, or lets all of them continue.
    pub fn stall(&self, shard: Option<usize>) {
        for (at, node) in self.list.iter().enumerate() {
            node.server.stall(shard.filter(|shard| shard / self.shards == at).map(|shard| shard % self.shards));
        }
    }

    /// Sets the offset of the time of day, in milliseconds.
    pub fn set_time_of_day(&self, skew_ms: i64) {
        self.list.iter().for_each(|node| node.server.set_time_of_day(skew_ms + node.skew_ms));
    }

    /// Makes the servers read their configuration again, after this change to it: those that don't
    /// run do so when they continue or begin. Returns whether all processes have read it, which a
    /// paused one hasn't.
    pub fn reload(&self, change: impl Fn(&mut Config)) -> bool {
        for node in &self.list {
            match node.runs() {
                true => node.server.reload(&change),
                false => node.server.begin_reload(&change),
            }
        }
        !self.list.iter().any(|node| matches!(node.life, Life::Paused(_)))
    }

    /// Puts the database into a state of trouble, or out of it.
    pub fn set_trouble(&self, trouble: DatabaseTrouble) {
        self.list.iter().for_each(|node| node.store.set_trouble(trouble));
    }

    /// Decides which of the server's waiting operations take effect, as at the death of its
    /// process.
    pub fn lose_store(&self) {
        self.list.iter().for_each(|node| node.store.die());
    }

    /// Returns the number of operations that were called, and the number of those that failed.
    pub fn store_counts(&self) -> (u64, u64) {
        let counts = self.list.iter().map(|node| node.store.counts());
        counts.fold((0, 0), |sum, found| (sum.0 + found.0, sum.1 + found.1))
    }

    /// Returns the number of operations that wait for the database.
    pub fn store_waiting(&self) -> usize {
        self.list.iter().map(|node| node.store.waiting()).sum()
    }

    /// Returns each running process with its server and timers.
    pub fn servers(&self) -> impl Iterator<Item = (usize, &Server, &[usize])> {
        let running = self.list.iter().enumerate().filter(|(_, node)| node.runs());
        running.map(|(at, node)| (at, &node.server, &*node.timers))
    }

    /// Returns a value from the world of each shard.
    pub fn inspect<T>(&self, look: impl Fn(&World) -> T) -> Vec<T> {
        self.servers().flat_map(|(_, server, _)| server.inspect(&look)).collect()
    }

    /// Returns whether homes move, will perhaps move soon, or belong to no node: because a node
    /// comes, goes, pauses or is cut off, others have not taken over yet, or nodes use different
    /// homes.
    pub fn is_moving(&mut self) -> bool {
        if self.shared.is_none() {
            return false;
        }
        // A paused process may not have learnt it either.
        let may_be_unaware = |node: &usize| matches!(self.state(*node), NodeState::Up | NodeState::Paused);
        let unaware: BTreeSet<usize> = self.told_to_leave.iter().copied().filter(may_be_unaware).collect();
        self.told_to_leave = unaware;
        if !self.told_to_leave.is_empty() || self.now() < self.unknown_until_ms {
            return true;
        }
        let is_coming = |node: &SimNode| matches!(node.life, Life::Joins(_) | Life::Paused(_));
        let down = self.list.iter().filter(|node| matches!(node.life, Life::Down)).map(|node| node.name.clone());
        let (is_coming, down): (bool, Vec<String>) = (self.list.iter().any(is_coming), down.collect());
        let tables = self.list.iter_mut().filter_map(SimNode::agent).map(|agent| &agent.table);
        let (mut names, mut has_dead) = (Vec::new(), false);
        for table in tables {
            names.push(table.digest());
            has_dead |= table.others().iter().any(|(name, _)| down.contains(name));
        }
        is_coming
            || has_dead
            || names.is_empty()
            || names.iter().any(|name| *name != names[0])
            || self.list.iter_mut().filter_map(SimNode::agent).any(|agent| !agent.stays() || agent.is_cut_off())
            || self.inspect(World::is_moving).into_iter().any(|is_moving| is_moving)
    }

    /// Returns a description of each node: its state, the homes that it uses, its moving shards,
    /// and how often these continued without what others had not sent.
    pub fn describe(&mut self) -> String {
        let states: Vec<NodeState> = (0..self.count()).map(|node| self.state(node)).collect();
        let told = self.list.iter_mut().zip(states).map(|(node, state)| {
            let moving = node.server.inspect(World::is_moving);
            let late = node.server.inspect(World::lateness);
            let homes = node.agent().map(|agent| agent.table.digest()).unwrap_or_default();
            format!("{} {state:?} by {homes}, moving {moving:?}, late {late:?}", node.name)
        });
        told.collect::<Vec<_>>().join("; ")
    }

    /// Returns whether there is a fault that may make nodes late.
    pub fn is_hindered(&self) -> bool {
        let is_late = |node: &SimNode| match &node.life {
            Life::Up(agent) => agent.is_cut_off() || node.store.trouble() != DatabaseTrouble::None,
            Life::Paused(_) => true,
            Life::Alone | Life::Joins(_) | Life::Down => false,
        };
        let is_away = self.shared.as_ref().is_some_and(|shared| shared.redis.borrow().is_away);
        is_away || self.list.iter().any(is_late)
    }

    /// Returns the nodes with something left to be sent to them.
    pub fn at_work(&mut self) -> Vec<usize> {
        let nodes = self.list.iter_mut().enumerate();
        nodes.filter_map(|(at, node)| node.agent().is_some_and(|agent| !agent.is_idle()).then_some(at)).collect()
    }
}

impl SharedByNodes {
    fn seat(&self, table: &NodeTable, posted: &Arc<PostedHere>, is_joining: bool) -> Seat {
        Seat { view: table.view(), addresses: self.addresses.clone(), is_joining, outlet: posted.clone() }
    }

    fn members(&self, store: &Arc<Unsteady>) -> Members {
        let fencing = Arc::new(OwnFence { store: store.clone(), fences: self.fences.clone() });
        Members { meta: store.stores().meta, fencing }
    }

    fn agent(&self, server: &Server, store: &Arc<Unsteady>, posted: Arc<PostedHere>, table: NodeTable) -> Agent {
        let (redis, now_ms) = (self.redis.clone(), self.now_ms.clone());
        let (fences, me) = (self.fences.clone(), table.me());
        let reach = RedisReach { redis, now_ms, is_cut_off: Rc::default(), fences, me };
        let members = self.members(store);
        let around = Around { server: server.clone(), store: store.clone(), reach, members, posted };
        Agent::new(around, table, self.now_ms.get())
    }
}

/// The milliseconds within which all nodes have seen the row of a process that has just joined.
const UNKNOWN_MS: u64 = 2_000;
