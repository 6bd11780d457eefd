//! Joining a cluster, and the handle of the thread that carries letters.
//!
//! # Invariants
//!
//! * No client is served before the database says that this process is the node, and before the
//!   live nodes have adopted the resulting homes.
//! * No home is taken over from a process before that is fenced off.
//! * Shards never wait for letters to leave: they hand them over and continue.

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use redis::RedisError;
use rookery_base::lock::lock;
use rookery_base::{AddressHash, wait};
use rookery_fanout::View;
use rookery_hub::{Custody, JournalBatch, JournalLookup};
use rookery_observe::vital;
use rookery_shard::{Door, Outlet};
use rookery_store::meta::Meta;
use rookery_store::{Fencing, ProcessWriter};
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task;
use tracing::warn;

use crate::agreed::AgreedSettings;
use crate::carrying::{CarryingLoop, Outer};
use crate::check::{exposed, is_new_enough};
use crate::clocks::{ahead_ms, is_apart, is_far_apart, stamped};
use crate::courier::AppendOutcome;
use crate::engine::{RedisConnection, RedisEngine, lease_prefix, renewed_every};
use crate::leases::LookedAtLease;
use crate::marks::{self, unix_ms};
use crate::members::{self, JoiningMember, LetterVersions, MemberNotes, MemberRow, NotJoined};
use crate::reading::JournalPart;
use crate::source::RedisAddresses;
use crate::table::{NodeTable, Update};
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

/// The reason why a process can't join.
#[derive(Debug)]
pub enum JoinFailure {
    /// An error of the database, or of its content.
    Members(NotJoined),
    /// Redis is unreachable.
    Redis(RedisError),
    /// Redis is too old: its version.
    TooOld(String),
    /// A process already has this name.
    NameTaken(String),
    /// Others took over from this process while it joined.
    TakenOver(String),
    /// A node that lives uses another Redis: its name.
    OtherRedis(String),
    /// The clock of a node is too far from this machine's: its name, and the milliseconds by which
    /// it is ahead.
    OtherClock(String, i64),
    /// A node that lives uses this Redis and gives no signs in this database: its name.
    OtherDatabase(String),
    /// A node that lives hasn't adopted the homes that this process would have: its name.
    Unnoticed(String),
    /// A node that lives serves other domains: its name.
    OtherDomains(String),
    /// A node can't read the letters of this process: its name, and the versions it can read.
    NoCommonLetters(String, LetterVersions),
    /// A thread or a runtime can't be started.
    System(std::io::Error),
}

impl std::fmt::Display for JoinFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Members(NotJoined::Store(error)) => write!(f, "the database does not let this node join: {error}"),
            Self::Members(NotJoined::Taken) => {
                f.write_str("another process is joining the cluster under the same name of a node at this moment")
            }
            Self::Members(NotJoined::Unreadable(name)) => {
                write!(f, "the database has an entry \"{name}\" of the cluster that this version can't read")
            }
            Self::Members(NotJoined::Chance) => f.write_str("the operating system has no random bytes"),
            Self::Redis(error) => write!(f, "the cluster's Redis can't be used: {error}"),
            Self::TooOld(version) => {
                write!(f, "the cluster's Redis is of version {version}: 6.2 or later is needed, or Valkey")
            }
            Self::NameTaken(name) => {
                write!(f, "another process runs as node \"{name}\" of this cluster: give each node a name of its own")
            }
            Self::TakenOver(name) => write!(
                f,
                "others have taken over from node \"{name}\" while it joined: it was silent for longer than its lease, \
                 or `rookery node remove` has removed it; start it again"
            ),
            Self::OtherRedis(name) => write!(
                f,
                "node \"{name}\" runs on this database with another Redis than this one: each would take over from the \
                 other; set `redis` of [cluster] to the same Redis on all nodes, or give this cluster a database of its own"
            ),
            Self::OtherClock(name, ahead_ms) => {
                let direction = if *ahead_ms > 0 { "ahead of" } else { "behind" };
                write!(
                    f,
                    "the clock of node \"{name}\" of this cluster is {} seconds {direction} this machine's: the order of \
                     archives would be lost; let both follow the same source of time (NTP)",
                    (ahead_ms.unsigned_abs() + 500) / 1000
                )
            }
            Self::OtherDatabase(name) => write!(
                f,
                "node \"{name}\" runs with this Redis on another database than this one, which may be a copy of it: accounts \
                 would have two homes; set `url` of [store] to the same database on all nodes, or use another Redis for \
                 the copy, and remove the nodes in it (`rookery node remove {name}`)"
            ),
            Self::Unnoticed(name) => write!(
                f,
                "node \"{name}\" runs and doesn't take note of this one: accounts would have two homes; find out from its log \
                 why it can't read the database, or stop it, and start this one again"
            ),
            Self::OtherDomains(name) => write!(
                f,
                "node \"{name}\" of this cluster serves other domains than this configuration names: clients of one node \
                 have accounts on the other; set `domains` to the same on all nodes, and reload those that run"
            ),
            Self::NoCommonLetters(name, theirs) if theirs.newest < LetterVersions::OWN.oldest => write!(
                f,
                "node \"{name}\" of this cluster is of too early a version: it understands letters of version {theirs}, \
                 and this one {}; upgrade that node first, by way of a release between the two, or remove it \
                 (`rookery node remove {name}`)",
                LetterVersions::OWN
            ),
            Self::NoCommonLetters(name, theirs) => write!(
                f,
                "node \"{name}\" of this cluster is of too late a version for this one: it understands letters of version \
                 {theirs}, and this one {}; upgrade this one, by way of a release between the two",
                LetterVersions::OWN
            ),
            Self::System(error) => write!(f, "the thread of the cluster can't be started: {error}"),
        }
    }
}

impl From<NotJoined> for JoinFailure {
    fn from(error: NotJoined) -> Self {
        Self::Members(error)
    }
}

impl From<RedisError> for JoinFailure {
    fn from(error: RedisError) -> Self {
        Self::Redis(error)
    }
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
    /// Lets the thread continue.
    begins: oneshot::Sender<(Door, ServiceEnds)>,
    thread: JoinHandle<()>,
}

/// Ends the process.
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
    /// Stops accepting letters from others, before the shards end: their writers keep them for the
    /// next homes.
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
        // If nothing arrives, the process doesn't start after all.
        let Ok((door, ends)) = begun.await else { return };
        let outer = Outer { engine, members, lease: settings.lease, door, ends: Some(ends) };
        CarryingLoop::new(outer, table, of_thread, joining).run(events).await;
    };
    let run = move || vital(|| runtime.block_on(live));
    let thread = std::thread::Builder::new().name("cluster".into()).spawn(run).map_err(JoinFailure::System)?;
    let gone = || JoinFailure::System(std::io::Error::other("it has ended"));
    let (view, addresses, away) = told.recv().map_err(|_| gone())??;
    Ok(Joined { view, addresses, away, fencing, posted, begins, thread })
}

/// The result of joining.
struct Entered {
    engine: RedisEngine,
    table: NodeTable,
    addresses: AddressHash,
    away: Vec<NodeProcess>,
    /// The task that renews the lease.
    joining: task::JoinHandle<()>,
}

async fn enter(settings: &ClusterSettings, shards: u16, members: &Members) -> Result<Entered, JoinFailure> {
    let meta = &*members.meta;
    let (engine, addresses) = engine(settings, meta).await?;
    let mut connection = engine.connect().await?;
    let (mark, rows) = expect_fit(&mut connection, settings, meta).await?;
    if let Some((_, row)) = rows.iter().find(|(name, _)| *name == settings.node) {
        wait_for_lease(&mut connection, row.number, settings).await?;
    }
    let joining = JoiningMember {
        shards,
        public_host: settings.public_host.clone(),
        notes: MemberNotes { mark: Some(mark), settings: settings.agreed.clone() },
    };
    let joined = members::join(meta, &*members.fencing, &settings.node, joining).await?;
    let me = NodeProcess { node: joined.row.number, incarnation: joined.row.incarnation };
    let is_newcomer = joined.is_newcomer;
    let table = NodeTable::joining(settings.node.clone(), joined, rows);
    let entered = take_place(engine, &mut connection, members, table, settings).await;
    if entered.is_err() && is_newcomer {
        // Others would wait for it until its lease has expired. If it has a predecessor, the next
        // process continues with that one's journal.
        _ = members::withdraw(meta, me).await;
        _ = connection.remove_inbox(me).await;
        _ = connection.end_lease(me).await;
    }
    entered.map(|(engine, table, away, joining)| Entered { engine, table, addresses, away, joining })
}

/// Checks that this process fits its Redis and the nodes that live. Returns the mark of the Redis
/// and the rows of the database.
async fn expect_fit(
    connection: &mut RedisConnection,
    settings: &ClusterSettings,
    meta: &dyn Meta,
) -> Result<(u64, Vec<(String, MemberRow)>), JoinFailure> {
    is_new_enough(connection).await?;
    if let Some(policy) = connection.setting("maxmemory-policy").await.filter(|policy| policy != "noeviction") {
        warn!(
            policy,
            "the cluster's Redis may throw letters away when its memory is full; set maxmemory-policy to noeviction"
        );
    }
    if let Some(exposed) = exposed(connection).await {
        warn!("{exposed}");
    }
    let rows = members::all(meta).await?;
    fits(&rows, &settings.node)?;
    let mark = connection.mark(marks::new_mark()?).await?;
    marks::expect_none_elsewhere(connection, meta, mark, None).await?;
    for (name, differences) in compared(connection, &rows, settings).await? {
        warn!(node = name, sections = differences.join(", "), "{OTHER_SETTINGS}");
    }
    for (name, ahead_ms) in clocks(connection, &rows, &settings.node).await? {
        match is_far_apart(ahead_ms) {
            true => return Err(JoinFailure::OtherClock(name, ahead_ms)),
            false => tell_clock(&name, ahead_ms),
        }
    }
    Ok((mark, rows))
}

/// Takes the place that a process has in the table: its lease, its inbox, and its homes, once the
/// live nodes have adopted them. Returns the processes of other nodes without a lease, and the task
/// that renews this one's.
async fn take_place(
    engine: RedisEngine,
    connection: &mut RedisConnection,
    members: &Members,
    mut table: NodeTable,
    settings: &ClusterSettings,
) -> Result<(RedisEngine, NodeTable, Vec<NodeProcess>, task::JoinHandle<()>), JoinFailure> {
    let (meta, fencing, me) = (&*members.meta, &*members.fencing, table.me());
    marks::give_sign(meta, me, unix_ms()).await?;
    task::spawn(marks::keep_giving_signs(members.meta.clone(), me));
    // Another one may have joined at the same time.
    marks::expect_none_elsewhere(connection, meta, table.mark().unwrap_or_default(), Some(me.node)).await?;
    let rows = members::all(meta).await?;
    fence_off(fencing, &table.gone(&rows)).await?;
    table.update(rows);
    // The ids of processes that are gone are in the archives of homes that are here now.
    let latest = marks::signs(meta).await?.into_values().max().unwrap_or_default();
    table.raise_floor(latest.saturating_add(SIGNS_MS), unix_ms());
    let lease = stamped(&table.lease(), unix_ms(), settings.lease);
    if !connection.take_lease(me.node, &lease, settings.lease).await? {
        return Err(JoinFailure::NameTaken(settings.node.clone()));
    }
    let text = Arc::new(Mutex::new(table.lease()));
    let joining = task::spawn(renew(engine.clone(), me, text.clone(), settings.lease));
    connection.create_inbox(me).await?;
    let awaited = match wait_for_others(connection, members, &mut table, &text, settings).await {
        Ok(()) => away(connection, &table).await.map_err(JoinFailure::from),
        Err(failed) => Err(failed),
    };
    match awaited {
        Ok(away) => Ok((engine, table, away, joining)),
        Err(failed) => {
            joining.abort();
            Err(failed)
        }
    }
}

/// Checks that this process and all nodes can understand each other.
///
/// # Errors
/// [`JoinFailure::NoCommonLetters`].
fn fits(rows: &[(String, MemberRow)], own: &str) -> Result<(), JoinFailure> {
    // The row of this process's own node may still be its predecessor's.
    match rows.iter().find(|(name, row)| name != own && !row.letters.fits(LetterVersions::OWN)) {
        Some((name, row)) => Err(JoinFailure::NoCommonLetters(name.clone(), row.letters)),
        None => Ok(()),
    }
}

/// Compares the settings of this process with those of other nodes that live. Returns the names of
/// those whose settings differ, with the sections.
///
/// # Errors
/// [`JoinFailure::OtherDomains`]; the errors of Redis.
pub(crate) async fn compared(
    connection: &mut RedisConnection,
    rows: &[(String, MemberRow)],
    settings: &ClusterSettings,
) -> Result<Vec<(String, Vec<String>)>, JoinFailure> {
    let mut found = Vec::new();
    for (name, row) in rows.iter().filter(|(name, _)| *name != settings.node) {
        let theirs = &row.notes.settings;
        let differences = settings.agreed.differences(theirs);
        let has_others = settings.agreed.has_other_domains(theirs);
        if (differences.is_empty() && !has_others) || connection.find_lease(row.number).await?.is_none() {
            continue;
        }
        if has_others {
            return Err(JoinFailure::OtherDomains(name.clone()));
        }
        found.push((name.clone(), differences.into_iter().map(str::to_owned).collect()));
    }
    Ok(found)
}

/// Returns the nodes other than this one whose clocks differ from this machine's so much that
/// somebody should know, with the differences in milliseconds.
///
/// # Errors
/// The error of the system or of Redis.
pub(crate) async fn clocks(
    connection: &mut RedisConnection,
    rows: &[(String, MemberRow)],
    own: &str,
) -> Result<Vec<(String, i64)>, RedisError> {
    let mut apart = Vec::new();
    for (name, row) in rows.iter().filter(|(name, _)| name != own) {
        let found = connection.find_lease_with_age(row.number).await?;
        let ahead_ms = found.and_then(|found| ahead_ms(&found, unix_ms()));
        apart.extend(ahead_ms.filter(|ahead_ms| is_apart(*ahead_ms)).map(|ahead_ms| (name.clone(), ahead_ms)));
    }
    Ok(apart)
}

/// Warns of a node whose clock is apart from this machine's.
pub(crate) fn tell_clock(node: &str, ahead_ms: i64) {
    let seconds = ahead_ms / 1000;
    warn!(
        node,
        seconds,
        "the clock of a node is ahead of this one's by so many seconds, or behind if they are negative; let both follow the same source of time (NTP)"
    );
}

/// Renews the lease of a joining process, however long joining takes. Ends when another process
/// holds it.
async fn renew(engine: RedisEngine, me: NodeProcess, text: Arc<Mutex<String>>, lease: Duration) {
    loop {
        // Redis may be unreachable for a moment.
        if let Ok(mut connection) = engine.connect().await {
            loop {
                let now = stamped(&lock(&text), unix_ms(), lease);
                match connection.renew_lease(me, &now, lease).await {
                    Ok(true) => tokio::time::sleep(renewed_every(lease)).await,
                    Ok(false) => return,
                    Err(_) => break,
                }
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until the lease of a node's last process has expired.
async fn wait_for_lease(
    connection: &mut RedisConnection,
    node: u16,
    settings: &ClusterSettings,
) -> Result<(), JoinFailure> {
    let until = Instant::now() + settings.lease + GRACE;
    while connection.find_lease(node).await?.is_some() {
        if Instant::now() >= until {
            return Err(JoinFailure::NameTaken(settings.node.clone()));
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

/// Waits until the live nodes use the same table as this one, so that no account has two homes.
/// Nodes that join at the same time are in the table as soon as the database has them.
///
/// # Errors
/// [`JoinFailure::OtherDatabase`] and [`JoinFailure::Unnoticed`] if a node that lives doesn't adopt
/// the table; the errors of the database and of Redis.
async fn wait_for_others(
    connection: &mut RedisConnection,
    members: &Members,
    table: &mut NodeTable,
    text: &Mutex<String>,
    settings: &ClusterSettings,
) -> Result<(), JoinFailure> {
    let until = Instant::now() + (settings.lease + GRACE).max(NOTICE);
    let before = marks::signs(&*members.meta).await?;
    loop {
        let rows = members::all(&*members.meta).await?;
        fence_off(&*members.fencing, &table.gone(&rows)).await?;
        let has_successor = rows.iter().any(|(name, _)| *name == settings.node);
        if table.update(rows) == Update::Superseded {
            return Err(superseded(&settings.node, has_successor));
        }
        lock(text).clone_from(&table.lease());
        // Renewed at once, so that the others see this node and its table.
        let lease = stamped(&table.lease(), unix_ms(), settings.lease);
        if !connection.renew_lease(table.me(), &lease, settings.lease).await? {
            return Err(JoinFailure::NameTaken(settings.node.clone()));
        }
        let Some((name, process)) = behind(connection, table).await? else { return Ok(()) };
        if Instant::now() >= until {
            let now = marks::signs(&*members.meta).await?;
            let gives_signs = before.contains_key(&process);
            let is_silent = before.get(&process) == now.get(&process);
            let is_elsewhere = gives_signs && is_silent && is_renewed(connection, process).await?;
            return Err(if is_elsewhere { JoinFailure::OtherDatabase(name) } else { JoinFailure::Unnoticed(name) });
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Returns the reason why a process whose row is gone can't continue: another process may have its
/// own row there.
fn superseded(node: &str, has_successor: bool) -> JoinFailure {
    match has_successor {
        true => JoinFailure::NameTaken(node.to_owned()),
        false => JoinFailure::TakenOver(node.to_owned()),
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

/// Returns whether the lease of a process was renewed a moment ago.
async fn is_renewed(connection: &mut RedisConnection, process: NodeProcess) -> Result<bool, RedisError> {
    let Some(before) = connection.find_lease_with_age(process.node).await? else { return Ok(false) };
    tokio::time::sleep(RENEWED_WITHIN).await;
    let now = connection.find_lease_with_age(process.node).await?;
    Ok(now.is_some_and(|now| now.text != before.text || now.remaining_ms >= before.remaining_ms))
}

/// Returns a live node that uses another table, with its process.
async fn behind(
    connection: &mut RedisConnection,
    table: &NodeTable,
) -> Result<Option<(String, NodeProcess)>, RedisError> {
    let digest = table.digest();
    for (name, process) in table.others() {
        if connection.find_lease(process.node).await?.is_some_and(|found| !found.ends_with(&digest)) {
            return Ok(Some((name, process)));
        }
    }
    Ok(None)
}

/// Returns the processes of other nodes that have no lease.
async fn away(connection: &mut RedisConnection, table: &NodeTable) -> Result<Vec<NodeProcess>, RedisError> {
    let mut away = Vec::new();
    for (_, process) in table.others() {
        let lease = connection.find_lease(process.node).await?;
        if lease.is_none_or(|lease| !lease.starts_with(&lease_prefix(process))) {
            away.push(process);
        }
    }
    Ok(away)
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
async fn engine(settings: &ClusterSettings, meta: &dyn Meta) -> Result<(RedisEngine, AddressHash), JoinFailure> {
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
    /// Shards have handed over letters.
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
    /// refuses its writes.
    Superseded,
    /// The rows of the database.
    Rows(Vec<(String, MemberRow)>),
    /// These processes can't write any more, and are not in these rows of the database.
    FencedOff(Vec<NodeProcess>, Vec<(String, MemberRow)>),
    /// A silent process has no homes any more: this node has taken them over, or found that another
    /// one has.
    TakenOver(NodeProcess, Result<bool, NotJoined>),
    /// A process doesn't hand on in time what lives at homes of this one.
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

/// The time for which a process may go on after its last sign in the database, in milliseconds.
const SIGNS_MS: u64 = 5_000;
/// The words about a node with other settings.
pub(crate) const OTHER_SETTINGS: &str = "a node of the cluster has other settings than this one, and its accounts go by those; \
                                         compare `rookery config show` of both, then reload the one that is wrong";
/// The time for which letters wait for others that could be sent with them, at each end: a message
/// passes three nodes at most, and should arrive within 20 ms.
pub(crate) const LINGER: Duration = Duration::from_millis(3);
/// The time beyond a lease for which a process waits for others.
const GRACE: Duration = Duration::from_secs(2);
/// The time limit for finding out whether other nodes are up.
const DECISION: Duration = Duration::from_secs(5);
/// The time within which a node that lives reads the database and adopts new homes, even if it has
/// much to do.
const NOTICE: Duration = Duration::from_secs(20);
/// The time within which a process that lives renews its lease.
const RENEWED_WITHIN: Duration = Duration::from_secs(3);
/// The time between two checks of a lease.
const LOOK: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_others_took_over_from_while_it_joined_may_start_again() {
        assert!(superseded("n1", false).may_pass(), "its row was removed");
        assert!(!superseded("n1", true).may_pass(), "another process has its name");
    }

    #[test]
    fn a_process_does_not_join_nodes_that_it_has_no_letters_in_common_with() {
        let row = |oldest, newest| MemberRow {
            number: 1,
            incarnation: 1,
            shards: 1,
            public_host: None,
            leaves: false,
            letters: LetterVersions { oldest, newest },
            notes: MemberNotes::default(),
        };
        let own = LetterVersions::OWN;
        let rows =
            |oldest, newest| [("n1".to_owned(), row(own.oldest, own.newest)), ("n2".to_owned(), row(oldest, newest))];
        assert!(fits(&rows(own.newest, own.newest + 5), "n1").is_ok());
        let refused = fits(&rows(own.newest + 1, own.newest + 5), "n1").unwrap_err();
        assert!(refused.to_string().contains("node \"n2\" of this cluster is of too late a version"), "{refused}");
        assert!(!refused.may_pass());
        assert!(fits(&rows(own.newest + 1, own.newest + 5), "n2").is_ok(), "its own row is replaced");
        let refused = fits(&rows(0, 0), "n1").unwrap_err();
        assert!(refused.to_string().contains("is of too early a version"), "{refused}");
    }
}
