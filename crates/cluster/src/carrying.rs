//! The loop of the thread that carries letters: it drives the [`Courier`] over the [`RedisEngine`].
//!
//! # Invariants
//!
//! * While Redis is unreachable, nothing is lost and no node is declared dead: a lease counts as
//!   expired only if Redis has been reachable for as long as a lease lasts.
//! * Every new connection is treated as if Redis had forgotten everything: the inbox is read from
//!   its beginning, and entries that others haven't read are sent again.
//! * A process that finds another one in its lease ends, and leaves that lease alone.
//! * A process that others have taken over from neither reads nor sends anything more, since the
//!   new homes accept what it would refuse.
//! * A letter whose handling is awaited is confirmed when the last share in it is given up, and
//!   never if no shard has seen it.
//!
//! # Layout
//!
//! `membership`: the rows of the nodes, which the loop reads, adopts and changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis::RedisError;
use rookery_base::lock::lock;
use rookery_fanout::Station;
use rookery_hub::Custody;
use rookery_observe::cluster::{self, ClusterSeen, NodeSeen};
use rookery_shard::{ArrivedLetters, Door, MailboxKind};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use crate::clocks::PeerClocks;
use crate::courier::{Append, AppendOutcome, ArrivedPart, Courier, CourierLetter, MAIL, NEWS, Unposted};
use crate::death::Deaths;
use crate::engine::{RedisConnection, RedisEngine};
use crate::inbox::InboxReader;
use crate::journal::{self, JournalState};
use crate::leases::{LeaseKeeper, Leases};
use crate::members;
use crate::service::{Members, PostedLetters, ServiceEnds, ServiceEvent};
use crate::source::is_demoted;
use crate::table::{NodeTable, Update};
use crate::wire::NodeProcess;

mod membership;

/// The parts of the process that the loop uses.
pub(crate) struct Outer {
    pub engine: RedisEngine,
    pub members: Members,
    pub lease: Duration,
    pub door: Door,
    pub ends: Option<ServiceEnds>,
}

/// The loop and its state.
pub(crate) struct CarryingLoop {
    pub(crate) outer: Outer,
    pub(crate) table: NodeTable,
    pub(crate) posted: Arc<PostedLetters>,
    pub(crate) courier: Courier<Custody>,
    epoch: Instant,
    /// The connection for everything except reading, and its number.
    pub(crate) connection: Option<RedisConnection>,
    turn: u64,
    /// The tasks that use the connection.
    tasks: Vec<JoinHandle<()>>,
    /// The time since which Redis has been reachable.
    pub(crate) reachable_since: Instant,
    /// Notified when letters leave for Redis.
    leaving: Arc<Notify>,
    /// The leases to renew and to watch.
    leases: Arc<Mutex<Leases>>,
    /// The processes without a lease.
    pub(crate) deaths: Deaths,
    /// The clocks of the others.
    pub(crate) clocks: PeerClocks,
    /// The data that others need of this process if it dies.
    pub(crate) journal: JournalState,
    /// True once the shards end: no more letters are read.
    is_deaf: bool,
    /// True once others have taken over from this process.
    pub(crate) is_over: bool,
    /// The task that renews the lease until the loop does.
    joining: Option<JoinHandle<()>>,
    /// The number of other nodes' processes that were found gone.
    pub(crate) gone: u64,
    /// The time at which this node's knowledge of the cluster was last published, and the slots of
    /// each node.
    shown: Option<Instant>,
    slots: BTreeMap<u16, u64>,
    /// The times when an error of Redis, an error of the database and a full queue were last
    /// logged.
    told: BTreeMap<&'static str, Instant>,
}

impl CarryingLoop {
    pub(crate) fn new(outer: Outer, table: NodeTable, posted: Arc<PostedLetters>, joining: JoinHandle<()>) -> Self {
        let mut courier = Courier::new(table.me());
        for (_, process) in table.others() {
            courier.meet(process, table.shards_of(process));
        }
        Self {
            outer,
            leases: Arc::new(Mutex::new(Leases::of(&table))),
            table,
            posted,
            courier,
            epoch: Instant::now(),
            connection: None,
            turn: 0,
            tasks: Vec::new(),
            leaving: Arc::default(),
            reachable_since: Instant::now(),
            deaths: Deaths::default(),
            clocks: PeerClocks::default(),
            journal: JournalState::new(),
            is_deaf: false,
            is_over: false,
            joining: Some(joining),
            gone: 0,
            shown: None,
            slots: BTreeMap::new(),
            told: BTreeMap::new(),
        }
    }

    pub(crate) async fn run(mut self, mut events: UnboundedReceiver<ServiceEvent>) {
        self.connect();
        self.watch_rows();
        let (meta, me) = (self.outer.members.meta.clone(), self.table.me());
        tokio::spawn(async move { journal::forget_void(&*meta, me).await });
        let mut stops_at = None;
        loop {
            let wait =
                self.courier.next_ms().map_or(IDLE, |due| Duration::from_millis(due.saturating_sub(self.now_ms())));
            let event = tokio::time::timeout(wait.min(IDLE), events.recv()).await;
            match event {
                Ok(Some(ServiceEvent::Stop)) => stops_at = Some(Instant::now() + LAST_WORDS),
                Ok(Some(event)) => self.heard(event).await,
                Ok(None) => return,
                Err(_) => {}
            }
            // All pending events are added to the same entries.
            while let Ok(event) = events.try_recv() {
                match event {
                    ServiceEvent::Stop => stops_at = Some(Instant::now() + LAST_WORDS),
                    event => self.heard(event).await,
                }
            }
            self.take_posted();
            let batches = std::mem::take(&mut *lock(&self.posted.journal));
            self.write_journal(batches);
            self.void_journal();
            self.renew_journal();
            self.refuse_expired();
            self.append();
            self.show();
            if stops_at.is_some_and(|at| self.is_over || self.courier.may_end() || Instant::now() >= at) {
                return self.leave().await;
            }
        }
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.epoch.elapsed().as_millis() as u64
    }

    async fn heard(&mut self, event: ServiceEvent) {
        match event {
            ServiceEvent::Posted | ServiceEvent::Stop => {}
            ServiceEvent::Appended(turn, to, outcome) => {
                let now_ms = self.now_ms();
                match outcome {
                    Ok(outcome) if turn == self.turn => self.courier.appended(to, outcome, now_ms),
                    Ok(_) => {}
                    Err(error) if turn == self.turn && is_broken(&error) => self.lost(&error),
                    Err(error) => {
                        self.tell("append", || warn!(%error, "Redis doesn't accept letters for other nodes; they wait"));
                        // The next attempt comes after a pause: Redis may be out of memory.
                        let events = self.posted.events.clone();
                        tokio::spawn(async move {
                            tokio::time::sleep(RETRY).await;
                            _ = events.send(ServiceEvent::Appended(turn, to, Ok(AppendOutcome::Unsure)));
                        });
                    }
                }
            }
            ServiceEvent::Read(entries) => self.read(&entries),
            ServiceEvent::Lost(turn, error) if turn == self.turn => self.lost(&error),
            ServiceEvent::Lost(..) => {}
            ServiceEvent::Connected(connection) => self.connected(connection).await,
            ServiceEvent::Journaled(shard, era, is_whole, shares, outcome) => {
                self.journaled((shard, era, is_whole), shares, outcome);
            }
            ServiceEvent::NextEra => self.next_era().await,
            ServiceEvent::Void(era, is_void) => self.note_verdict(era, is_void),
            ServiceEvent::LookUp(shard, lookup) => self.look_up(shard, lookup),
            ServiceEvent::LookedUp(shard, process, parts) => self.looked_up(shard, process, parts),
            ServiceEvent::HaveRead(shard, process) => self.have_read(shard, process),
            ServiceEvent::Handled(process, seq) => self.courier.note_handled(process, seq),
            ServiceEvent::Leases(found) => self.leases(&found),
            ServiceEvent::Superseded => self.handle_update(Update::Superseded),
            ServiceEvent::Rows(rows) => self.rows(rows),
            ServiceEvent::FencedOff(gone, rows) => self.fenced_off(gone, rows),
            ServiceEvent::Overdue(process) => self.overdue(process),
            ServiceEvent::TakenOver(process, outcome) => self.taken_over(process, outcome),
            ServiceEvent::Settings(settings) => self.settle(settings),
            ServiceEvent::Leave(answer) => self.begin_leaving(&answer),
            ServiceEvent::Deaf => self.is_deaf = true,
            ServiceEvent::NotFenced(error) => self.tell("fence", || {
                warn!(
                    ?error,
                    "a process of the cluster that is gone can't be fenced off, because the database refuses; until then, no changes of other nodes are noticed"
                );
            }),
            ServiceEvent::NoRows(error) => self.tell("rows", || {
                warn!(?error, "the nodes of the cluster can't be read from the database; they stay as they are");
            }),
        }
    }

    /// Logs a cause at most once a minute.
    pub(crate) fn tell(&mut self, cause: &'static str, write: impl FnOnce()) {
        let now = Instant::now();
        if self.told.get(cause).is_none_or(|last| now.duration_since(*last) >= MINUTE) {
            self.told.insert(cause, now);
            write();
        }
    }

    /// Publishes this node's knowledge of the cluster, once a second.
    fn show(&mut self) {
        if self.shown.is_some_and(|shown| shown.elapsed() < SECOND) {
            return;
        }
        if self.slots.is_empty() {
            self.slots = self.table.slots();
        }
        self.shown = Some(Instant::now());
        let slots = |node: u16| self.slots.get(&node).copied().unwrap_or_default();
        let (me, name) = (self.table.me(), self.table.name().to_owned());
        let own =
            NodeSeen { name, is_up: !self.is_over, slots: slots(me.node), clock_ms: Some(0), ..NodeSeen::default() };
        let others = self.table.others().into_iter().map(|(name, process)| {
            let (is_up, traffic) = self.courier.traffic(process).unwrap_or_default();
            NodeSeen { name, is_up, slots: slots(process.node), clock_ms: self.clocks.ahead_ms(process), traffic }
        });
        let nodes = std::iter::once(own).chain(others).collect();
        let journal = self.journal.state();
        cluster::set_seen(ClusterSeen { has_redis: self.connection.is_some(), gone: self.gone, journal, nodes });
    }

    fn take_posted(&mut self) {
        let letters = std::mem::take(&mut *lock(&self.posted.letters));
        for (from, letter) in letters {
            let rookery_shard::NodeLetter { to, kind, bytes, custody, until_read } = letter;
            let outlives = kind == MailboxKind::Mail;
            let letter = CourierLetter {
                kind: number(kind),
                from,
                to: to.shard,
                body: bytes,
                outlives,
                until_read,
                share: custody,
            };
            match self.courier.post(NodeProcess::of(to), letter) {
                Ok(()) => {}
                Err(Unposted::Full(letter)) => {
                    self.refuse(vec![letter], "letters for another node are refused: too many wait for it");
                }
                // The letter's shard hasn't adopted the new homes yet; a line has ended with its
                // other side.
                Err(Unposted::Gone(letter)) => self.send_again(vec![letter]),
            }
        }
    }

    fn refuse_expired(&mut self) {
        let expired = self.courier.take_expired(self.now_ms());
        if expired.is_empty() {
            return;
        }
        let (processes, letters): (BTreeSet<NodeProcess>, Vec<_>) = expired.into_iter().unzip();
        // Clients whose lines have a gap would wait forever, so they are disconnected and connect
        // again.
        processes.iter().for_each(|process| self.outer.door.departed(process.node, process.incarnation));
        self.refuse(letters, "letters for another node are refused: it is away");
    }

    /// Hands letters back to the shards that wrote them, so that their senders get errors.
    pub(crate) fn refuse(&mut self, letters: Vec<CourierLetter<Custody>>, why: &'static str) {
        let count = letters.len();
        self.tell(why, || warn!(count, "{why}"));
        for letter in letters.into_iter().filter(|letter| letter.kind == number(MailboxKind::Mail)) {
            self.outer.door.refused(usize::from(letter.from), letter.body, letter.share);
        }
    }

    fn append(&mut self) {
        let Some(connection) = &self.connection else { return };
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let appends = self.courier.appends(self.now_ms(), unix.as_millis() as u64);
        // One notification for all: a second one would be kept, and cause another read at once.
        if !appends.is_empty() {
            self.leaving.notify_one();
        }
        for Append { to, entry } in appends {
            let (mut connection, events, turn) = (connection.clone(), self.posted.events.clone(), self.turn);
            tokio::spawn(async move {
                let outcome = connection.append(to, &entry).await;
                _ = events.send(ServiceEvent::Appended(turn, to, outcome));
            });
        }
    }

    fn read(&mut self, entries: &[Vec<u8>]) {
        let mut arrived = Vec::new();
        entries.iter().for_each(|entry| self.read_entry(entry, &mut arrived));
        self.outer.door.deliver(arrived);
    }

    /// Adds the letters of an entry to those for the shards.
    fn read_entry(&mut self, entry: &[u8], arrived: &mut Vec<ArrivedLetters>) {
        if self.is_deaf {
            // Invalid entries have been logged before.
            _ = self.courier.only_confirmed(entry);
            return;
        }
        let ArrivedPart { from, letters, is_torn, waits } = match self.courier.arrived(entry) {
            Ok(Some(part)) => part,
            Ok(None) => return,
            Err(error) => {
                return self
                    .tell("entry", || warn!(%error, "an entry in this node's inbox is malformed; it is skipped"));
            }
        };
        if is_torn {
            warn!(%from, "a node has given up letters for this one, which was away for too long; connections between them end");
            // What came before the gap still belongs to the connections.
            self.outer.door.deliver(std::mem::take(arrived));
            self.outer.door.departed(from.node, from.incarnation);
        }
        if letters.iter().any(|(kind, ..)| *kind == NEWS) {
            self.look_at_rows();
        }
        let custody = waits.map(|seq| self.custody(from, seq));
        let mut letters = letters.into_iter().peekable();
        while let Some((kind, shard, to, body)) = letters.next() {
            let mut run: Vec<_> = kind_of(kind).map(|kind| (kind, body)).into_iter().collect();
            while let Some((kind, _, _, body)) = letters.next_if(|next| (next.1, next.2) == (shard, to)) {
                run.extend(kind_of(kind).map(|kind| (kind, body)));
            }
            let from = Station { node: from.node, incarnation: from.incarnation, shard };
            let custody = custody.clone();
            arrived.push(ArrivedLetters { shard: usize::from(to), from, letters: run, custody });
        }
    }

    /// Returns the first share in the custody of an entry's letters.
    fn custody(&self, from: NodeProcess, seq: u64) -> Custody {
        let (custody, settled) = Custody::apart();
        let events = self.posted.events.clone();
        tokio::spawn(async move {
            if settled.await.is_ok() {
                _ = events.send(ServiceEvent::Handled(from, seq));
            }
        });
        custody
    }

    /// Connects to Redis, and retries for as long as necessary.
    fn connect(&mut self) {
        let (engine, events, turn) = (self.outer.engine.clone(), self.posted.events.clone(), self.turn);
        tokio::spawn(async move {
            loop {
                match engine.connect().await {
                    Ok(connection) => {
                        _ = events.send(ServiceEvent::Connected(connection));
                        return;
                    }
                    Err(error) => _ = events.send(ServiceEvent::Lost(turn, error)),
                }
                tokio::time::sleep(RETRY).await;
            }
        });
    }

    async fn connected(&mut self, mut connection: RedisConnection) {
        self.turn += 1;
        self.connection = Some(connection.clone());
        let me = self.table.me();
        let found = connection.has_inbox(me).await;
        let made = match found {
            Ok(true) => Ok(()),
            Ok(false) => connection.create_inbox(me).await,
            Err(error) => Err(error),
        };
        let made = match (made, self.table.mark()) {
            (Ok(()), Some(mark)) => connection.mark(mark).await.map(drop),
            (made, _) => made,
        };
        let begun = match made {
            Ok(()) => self.begin_era(&mut connection).await,
            Err(error) => Err(error),
        };
        if let Err(error) = begun {
            return self.lost(&error);
        }
        if self.told.remove("redis").is_some() {
            info!("Redis can be reached again");
        }
        self.reachable_since = Instant::now();
        self.courier.reconnected();
        self.tasks.push(self.read_inbox(connection.clone()));
        let (posted, me, lease) = (self.posted.clone(), self.table.me(), self.outer.lease);
        let keeper = LeaseKeeper { engine: self.outer.engine.clone(), connection, leases: self.leases.clone() };
        let turn = self.turn;
        self.tasks.push(tokio::spawn(async move {
            if let Err(error) = keeper.keep(me, lease, &posted.events).await {
                _ = posted.events.send(ServiceEvent::Lost(turn, error));
            }
        }));
        if let Some(joining) = self.joining.take() {
            joining.abort();
        }
    }

    pub(crate) fn lost(&mut self, error: &RedisError) {
        let waiting = self.courier.waiting_bytes();
        self.tell("redis", || {
            warn!(%error, waiting, "Redis can't be reached: letters for other nodes wait, while everything on this node continues");
        });
        self.deaths.forget_silence();
        self.journal.note_loss();
        self.tasks.drain(..).for_each(|task| task.abort());
        if self.connection.take().is_some() {
            self.turn += 1;
            self.connect();
        }
    }

    /// Reads the inbox, over a connection of its own where it has much to read.
    fn read_inbox(&self, shared: RedisConnection) -> JoinHandle<()> {
        let reader = InboxReader {
            engine: self.outer.engine.clone(),
            shared,
            me: self.table.me(),
            leaving: self.leaving.clone(),
        };
        let (events, turn) = (self.posted.events.clone(), self.turn);
        tokio::spawn(async move {
            if let Err(error) = reader.read(&events).await {
                _ = events.send(ServiceEvent::Lost(turn, error));
            }
        })
    }

    /// Ends the node's part, so that others notice at once.
    async fn leave(mut self) {
        self.tasks.drain(..).for_each(|task| task.abort());
        let me = self.table.me();
        if !self.is_over {
            let journal = std::mem::take(&mut self.journal);
            journal::end(self.connection.as_mut(), &*self.outer.members.meta, me, journal).await;
        }
        if self.table.leaves() && !self.is_over {
            // If this fails, others take over when its lease expires.
            _ = members::withdraw(&*self.outer.members.meta, me).await;
        }
        if let Some(mut connection) = self.connection.take() {
            // If the removal can't be sent, others notice when the lease expires.
            _ = connection.remove_inbox(me).await;
            _ = connection.end_lease(me).await;
        }
    }
}

/// Returns whether an error makes a connection unusable.
pub(crate) fn is_broken(error: &RedisError) -> bool {
    error.is_io_error() || error.is_connection_dropped() || error.is_timeout() || is_demoted(error)
}

/// Returns the number of a kind of letter. New kinds get further numbers, and none is ever reused.
pub(crate) fn number(kind: MailboxKind) -> u8 {
    match kind {
        MailboxKind::Mail => MAIL,
        MailboxKind::Line => 2,
    }
}

/// Returns the kind with a number; `None` if this version doesn't know it, and skips it.
fn kind_of(number: u8) -> Option<MailboxKind> {
    match number {
        1 => Some(MailboxKind::Mail),
        2 => Some(MailboxKind::Line),
        _ => None,
    }
}

pub(crate) const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
/// The longest wait of the loop.
const IDLE: Duration = Duration::from_millis(500);
/// The time between two attempts to connect.
const RETRY: Duration = Duration::from_millis(300);
/// The time for the last letters of a process to be read.
const LAST_WORDS: Duration = Duration::from_secs(2);
