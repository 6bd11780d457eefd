//! The thread that carries letters: its start, its handle, and the events that it handles.
//!
//! # Invariants
//!
//! * No client is served before the database says that this process is the node, and before the
//!   live nodes have adopted the resulting homes.
//! * No home is taken over from a process before that is fenced off.
//! * Shards never wait for letters to leave: they hand them over and continue.

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use redis::RedisError;
use rookery_base::lock::lock;
use rookery_base::{AddressHash, wait};
use rookery_fanout::View;
use rookery_hub::{Custody, JournalBatch, JournalLookup};
use rookery_observe::vital;
use rookery_shard::{Door, Outlet};
use rookery_store::meta::Meta;
use rookery_store::{Fencing, ProcessWriter};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::agreed::AgreedSettings;
use crate::carrying::{CarryingLoop, Outer};
use crate::courier::AppendOutcome;
use crate::engine::{RedisConnection, RedisEngine};
use crate::failure::JoinFailure;
use crate::joining::{Entered, enter};
use crate::leases::LookedAtLease;
use crate::members::{self, MemberRow, NotJoined};
use crate::reading::JournalPart;
use crate::source::RedisAddresses;
use crate::wire::NodeProcess;

/// The operator's settings for a process in a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSettings {
    /// The name of the node, which no other process of the cluster has at the same time.
    pub node: String,
    /// The addresses of the Redis.
    pub redis: RedisAddresses,
    /// The name under which clients reach the node, if it has one of its own.
    pub public_host: Option<String>,
    /// The time after which a silent node is considered gone.
    pub lease: Duration,
    /// The settings on which all nodes have to agree.
    pub agreed: AgreedSettings,
}

/// A process that has joined and doesn't serve clients yet. Its thread renews its lease.
pub struct Joined {
    /// The current homes of all addresses.
    pub view: Arc<View>,
    /// The hash of addresses.
    pub addresses: AddressHash,
    /// Processes of other nodes without a lease, for whose data nothing waits.
    away: Vec<NodeProcess>,
    fencing: Arc<dyn Fencing>,
    posted: Arc<PostedLetters>,
    /// The channel by which the thread learns that it may continue.
    begins: oneshot::Sender<(Door, ServiceEnds)>,
    thread: JoinHandle<()>,
}

/// The function that ends the process.
pub(crate) type ServiceEnds = Box<dyn Fn(ClusterEnding) + Send>;

/// The reason why a process of a cluster has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterEnding {
    /// Others have taken over from it.
    TakenOver,
    /// An operator ordered the node to leave.
    Leaves,
}

impl std::fmt::Debug for Joined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Joined").field("view", &self.view).finish_non_exhaustive()
    }
}

/// Letters that shards have handed over.
pub(crate) struct PostedLetters {
    pub letters: Mutex<Vec<(u16, rookery_shard::NodeLetter)>>,
    /// Writes to the journal, with the shards.
    pub journal: Mutex<Vec<(usize, JournalBatch)>>,
    pub events: UnboundedSender<ServiceEvent>,
}

impl Outlet for PostedLetters {
    fn post(&self, from: usize, letters: Vec<rookery_shard::NodeLetter>) {
        let from = u16::try_from(from).unwrap_or_default();
        let mut waiting = lock(&self.letters);
        let is_first = waiting.is_empty();
        waiting.extend(letters.into_iter().map(|letter| (from, letter)));
        drop(waiting);
        if is_first {
            // If the thread has ended, the event isn't received, and the process ends, too.
            _ = self.events.send(ServiceEvent::Posted);
        }
    }

    fn journal(&self, from: usize, batch: JournalBatch) {
        lock(&self.journal).push((from, batch));
        _ = self.events.send(ServiceEvent::Posted);
    }

    fn look_up(&self, shard: usize, lookup: JournalLookup) {
        _ = self.events.send(ServiceEvent::LookUp(shard, lookup));
    }

    fn fences_off(&self) -> bool {
        true
    }

    fn overdue(&self, node: u16, incarnation: u32) {
        _ = self.events.send(ServiceEvent::Overdue(NodeProcess { node, incarnation }));
    }

    fn have_read(&self, shard: usize, JournalLookup { process: (node, incarnation), .. }: JournalLookup) {
        _ = self.events.send(ServiceEvent::HaveRead(shard, NodeProcess { node, incarnation }));
    }

    fn linger_ms(&self) -> u64 {
        LINGER.as_millis() as u64
    }
}

/// The running thread.
pub struct RunningCluster {
    posted: Arc<PostedLetters>,
    thread: JoinHandle<()>,
}

impl std::fmt::Debug for RunningCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}

impl RunningCluster {
    /// Stops accepting letters from others, before the shards end: their writers keep the letters
    /// for the next homes.
    pub fn stop_reading(&self) {
        _ = self.posted.events.send(ServiceEvent::Deaf);
    }

    /// Tells the other nodes the settings of this one, which has read its configuration again.
    pub fn settle(&self, settings: AgreedSettings) {
        _ = self.posted.events.send(ServiceEvent::Settings(settings));
    }

    /// Gives the homes of this node to others, and hands on everything that lives there. Returns
    /// `false` if no other node is up that could take them.
    pub fn leave(&self) -> bool {
        let (told, answer) = std::sync::mpsc::sync_channel(1);
        _ = self.posted.events.send(ServiceEvent::Leave(told));
        answer.recv_timeout(DECISION).unwrap_or(false)
    }

    /// Ends the node's part after the shards have ended: their last letters still leave, if that
    /// is possible within two seconds.
    pub fn stop(self) {
        _ = self.posted.events.send(ServiceEvent::Stop);
        _ = self.thread.join();
    }
}

/// The part of the database that a cluster needs.
#[derive(Clone)]
pub struct Members {
    /// The rows of the nodes.
    pub meta: Arc<dyn Meta>,
    /// The fence that keeps processes from writing.
    pub fencing: Arc<dyn Fencing>,
}

impl std::fmt::Debug for Members {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Members").finish_non_exhaustive()
    }
}

/// Joins the cluster of a database, with a number of shards. The thread that carries letters starts
/// here, so that the lease is renewed from the moment when it is taken.
///
/// # Errors
/// See [`JoinFailure`].
pub fn join(settings: &ClusterSettings, shards: usize, members: Members) -> Result<Joined, JoinFailure> {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(JoinFailure::System)?;
    let (settings, fencing) = (settings.clone(), members.fencing.clone());
    let shards = u16::try_from(shards).unwrap_or(u16::MAX);
    let (sender, events) = unbounded_channel();
    let posted = Arc::new(PostedLetters { letters: Mutex::default(), journal: Mutex::default(), events: sender });
    let (tell, told) = std::sync::mpsc::sync_channel(1);
    let (begins, begun) = oneshot::channel();
    let of_thread = posted.clone();
    let live = async move {
        let Entered { engine, table, addresses, away, joining } = match enter(&settings, shards, &members).await {
            Ok(entered) => entered,
            Err(failed) => return drop(tell.send(Err(failed))),
        };
        _ = tell.send(Ok((table.view(), addresses, away)));
        // If nothing arrives, the process won't start after all.
        let Ok((door, ends)) = begun.await else { return };
        let outer = Outer { engine, members, lease: settings.lease, door, ends: Some(ends) };
        CarryingLoop::new(outer, table, of_thread, joining).run(events).await;
    };
    let run = move || vital(|| run_as_task(&runtime, live));
    let thread = std::thread::Builder::new().name("cluster".into()).spawn(run).map_err(JoinFailure::System)?;
    let gone = || JoinFailure::System(std::io::Error::other("it has ended"));
    let (view, addresses, away) = told.recv().map_err(|_| gone())??;
    Ok(Joined { view, addresses, away, fencing, posted, begins, thread })
}

/// Runs a future as a task. Other tasks wake it without a system call, which the future that a
/// runtime blocks on isn't spared.
fn run_as_task(runtime: &Runtime, live: impl Future<Output = ()> + Send + 'static) {
    let ended = runtime.block_on(async { tokio::spawn(live).await });
    if let Some(panic) = ended.err().and_then(|error| error.try_into_panic().ok()) {
        resume_unwind(panic);
    }
}

/// Fences off processes that are gone according to the database. Most were fenced off when they
/// were removed.
///
/// # Errors
/// The error of the database; this process was itself fenced off.
pub async fn fence_off(fencing: &dyn Fencing, gone: &[NodeProcess]) -> Result<(), NotJoined> {
    for NodeProcess { node, incarnation } in gone {
        fencing.fence(ProcessWriter { node: *node, incarnation: *incarnation }).await?;
    }
    Ok(())
}

/// A node, and whether it is up.
#[derive(Debug)]
pub struct ListedNode {
    /// The name that the node's configuration gives it, unique in the cluster.
    pub name: String,
    /// Its row in the database.
    pub row: MemberRow,
    /// True if its process has a lease.
    pub is_up: bool,
    /// True if it has no lease here and has joined with another Redis than this one.
    pub is_elsewhere: bool,
}

/// Returns all nodes of the cluster of a database, by name.
///
/// # Errors
/// See [`JoinFailure`].
pub fn nodes(settings: &ClusterSettings, meta: &dyn Meta) -> Result<Vec<ListedNode>, JoinFailure> {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(JoinFailure::System)?;
    runtime.block_on(async {
        let mut connection = engine(settings, meta).await?.0.connect().await?;
        let (mark, mut nodes) = (connection.find_mark().await?, Vec::new());
        for (name, row) in members::all(meta).await? {
            let is_up = connection.find_lease(row.number).await?.is_some();
            let is_elsewhere = !is_up && row.notes.mark.is_some() && row.notes.mark != mark;
            nodes.push(ListedNode { name, row, is_up, is_elsewhere });
        }
        Ok(nodes)
    })
}

/// Makes a running node leave: it hands on everything that lives there to the others, and ends.
/// Returns `false` if there is no node with that name.
///
/// # Errors
/// See [`JoinFailure`].
pub fn drain(of: &Members, name: &str) -> Result<bool, JoinFailure> {
    Ok(wait(members::leave(&*of.meta, name))?)
}

/// Removes a node that is down, and keeps it from writing: the others have its accounts from then
/// on. Returns `false` if there is no node with that name.
///
/// # Errors
/// See [`JoinFailure`].
pub fn remove(of: &Members, name: &str) -> Result<bool, JoinFailure> {
    Ok(wait(members::remove(&*of.meta, &*of.fencing, name))?)
}

/// Returns the engine of the cluster of a database, and its address hash.
pub(crate) async fn engine(
    settings: &ClusterSettings,
    meta: &dyn Meta,
) -> Result<(RedisEngine, AddressHash), JoinFailure> {
    Ok(engine_of(settings, members::key(meta).await?)?)
}

/// Returns the engine of the cluster whose address hash has this key, and that hash.
///
/// # Errors
/// The error for an invalid address.
pub(crate) fn engine_of(settings: &ClusterSettings, key: [u8; 16]) -> Result<(RedisEngine, AddressHash), RedisError> {
    let addresses = AddressHash::of_cluster(key);
    // The key can't be derived from the id.
    let engine = RedisEngine::new(&settings.redis, &format!("{:016x}", addresses.of("the cluster's id")))?;
    Ok((engine, addresses))
}

impl Joined {
    /// Returns the outlet for shards' letters, with which they start.
    pub fn outlet(&self) -> Arc<dyn Outlet> {
        self.posted.clone()
    }

    /// Carries letters from now on, for running shards. `ends` is called when the process has to
    /// end.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn run(self, door: Door, ends: impl Fn(ClusterEnding) + Send + 'static) -> Result<RunningCluster, JoinFailure> {
        let Self { away, fencing, posted, begins, thread, .. } = self;
        away.iter().for_each(|process| door.departed(process.node, process.incarnation));
        let fenced = posted.events.clone();
        fencing.when_fenced(Box::new(move || drop(fenced.send(ServiceEvent::Superseded))));
        let gone = |_| JoinFailure::System(std::io::Error::other("it has ended"));
        begins.send((door, Box::new(ends))).map_err(gone)?;
        Ok(RunningCluster { posted, thread })
    }
}

/// The events that the loop handles.
pub(crate) enum ServiceEvent {
    /// Shards have handed letters over.
    Posted,
    /// An append to the inbox of a process has finished, over the connection with this number.
    Appended(u64, NodeProcess, Result<AppendOutcome, RedisError>),
    /// Entries from our own inbox.
    Read(Vec<Vec<u8>>),
    /// The connection with this number can't be used any more.
    Lost(u64, RedisError),
    /// A connection has been made.
    Connected(RedisConnection),
    /// The leases of these processes were checked.
    Leases(Vec<LookedAtLease>),
    /// The letters in the entry with this process and number were handled.
    Handled(NodeProcess, u64),
    /// Others have taken over: another process holds the lease of this node, or the database
    /// refuses this process's writes.
    Superseded,
    /// The rows of the database.
    Rows(Vec<(String, MemberRow)>),
    /// These processes can't write any more, and are not in these rows of the database.
    FencedOff(Vec<NodeProcess>, Vec<(String, MemberRow)>),
    /// A silent process has no homes any more: this node has taken them over, or found that another
    /// one has.
    TakenOver(NodeProcess, Result<bool, NotJoined>),
    /// This process doesn't hand on in time the data of homes that this node has now.
    Overdue(NodeProcess),
    /// The rows can't be read.
    NoRows(NotJoined),
    /// Processes that are gone can't be fenced off.
    NotFenced(NotJoined),
    /// A shard's writes to the journal, in this era and custody, have finished; true if everything
    /// that the shard has is written.
    Journaled(usize, u64, bool, Vec<Custody>, Result<bool, RedisError>),
    /// The journal may be written again.
    NextEra,
    /// The database has recorded that this era of the journal doesn't count, or failed to.
    Void(u64, bool),
    /// A shard asks for the journal of a dead process.
    LookUp(usize, JournalLookup),
    /// This process has read its configuration again.
    Settings(AgreedSettings),
    /// These parts of journals were read for a shard that had asked for that of this process.
    LookedUp(usize, NodeProcess, Vec<JournalPart>),
    /// The journal has everything that a shard has read in that of this process.
    HaveRead(usize, NodeProcess),
    /// The node should leave, if another one can take over; the sender is for the answer.
    Leave(std::sync::mpsc::SyncSender<bool>),
    /// The shards end: nothing more is read.
    Deaf,
    /// The process ends.
    Stop,
}

/// The time for which letters wait for others that can be sent with them, at each end. A message
/// passes three nodes at most, and should arrive within 20 ms.
pub(crate) const LINGER: Duration = Duration::from_millis(3);
/// The time limit for finding out whether other nodes are up.
const DECISION: Duration = Duration::from_secs(5);
