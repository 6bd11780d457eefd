//! The handle of a SQL store, which turns every method call into a queued operation.

#[cfg(any(feature = "postgres", feature = "mysql"))]
use super::archive::months::{self, OpenMonths};
use super::connection::SqlConnection;
#[cfg(any(feature = "postgres", feature = "mysql"))]
use super::fence::FenceRows;
use super::lanes::{LaneRoute, Lanes};
use super::meta;
#[cfg(any(feature = "postgres", feature = "mysql"))]
use super::migrate::Migrations;
use super::operation::{Operation, StoreAccess, operation};
use super::queue::{Patience, QueueBounds, Queues};
use super::transactions::Transactions;
use super::trouble::Trouble;
use super::worker::{self, Counts, LanesShared};
use crate::pending::ready;
#[cfg(any(feature = "postgres", feature = "mysql"))]
use crate::pending::{catch, pending};
use crate::{Activity, Pending, StatementTimes, StoreError};
use rookery_jid::JidRef;
use rookery_observe::vital;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rookery_base::lock::lock;

/// All stores in one SQL database, served by a thread for each connection. See
/// [`sqlite::open`](super::sqlite::open).
///
/// Dropping it closes it.
pub struct SqlStore {
    lanes: Lanes,
    /// True if the database is in another process.
    is_remote: bool,
    shared: Arc<LanesShared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Opens the connection for maintaining the months into which archives are divided; with it,
    /// the occasion on which tables may be changed for that.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    months: Option<(Arc<OpenMonths>, Migrations)>,
    /// Fences processes off; `None` for a database that isn't shared.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    fences: Option<Arc<dyn FenceRows>>,
}

/// The open connections with which a store begins, one for each of its lanes.
pub(crate) struct StoreConnections<C> {
    /// The connections for the data of one owner each; at least one.
    pub(crate) owners: Vec<C>,
    /// The connection for writes to archives; without it, the first of those above writes them.
    pub(crate) archive: Option<C>,
    /// The connection for long reads.
    pub(crate) reads: Option<C>,
}

impl SqlStore {
    /// Begins to serve a database that is always available.
    pub(crate) fn start<C>(connections: StoreConnections<C>, bounds: QueueBounds) -> std::io::Result<SqlStore>
    where
        C: Transactions + Send + 'static,
    {
        SqlStore::start_with(connections, bounds, None)
    }

    /// Begins to serve a database that may be unavailable, for which operations wait up to a
    /// patience.
    #[allow(dead_code, reason = "for the engines that are other processes")]
    pub(crate) fn start_remote<C>(
        connections: StoreConnections<C>,
        bounds: QueueBounds,
        patience: Patience,
    ) -> std::io::Result<SqlStore>
    where
        C: Transactions + Send + 'static,
    {
        let store = SqlStore::start_with(connections, bounds, Some(patience))?;
        let (shared, ping) = (store.shared.clone(), store.lanes.list());
        let watch = thread::Builder::new().name("store-watch".into()).spawn(move || vital(|| watch(&shared, &ping)))?;
        store.threads().push(watch);
        Ok(store)
    }

    fn start_with<C>(
        connections: StoreConnections<C>,
        bounds: QueueBounds,
        patience: Option<Patience>,
    ) -> std::io::Result<SqlStore>
    where
        C: Transactions + Send + 'static,
    {
        let StoreConnections { owners, archive, reads } = connections;
        let lanes = Lanes::new(owners.len(), archive.is_some(), reads.is_some());
        let (trouble, counts) = (Trouble::default(), Counts::default());
        let shared = Arc::new(LanesShared { queues: Queues::new(lanes.count(), bounds, patience), trouble, counts });
        let store = SqlStore {
            lanes,
            is_remote: patience.is_some(),
            shared,
            threads: Mutex::default(),
            #[cfg(any(feature = "postgres", feature = "mysql"))]
            months: None,
            #[cfg(any(feature = "postgres", feature = "mysql"))]
            fences: None,
        };
        let (connected, others) = mpsc::channel::<()>();
        let mut others = Some(others);
        for (lane, connection) in owners.into_iter().chain(archive).chain(reads).enumerate() {
            let shared = store.shared.clone();
            let name = if lane == 0 { "store".into() } else { format!("store-{lane}") };
            // The last of SQLite's connections folds the log into the file: the first lane's must
            // be closed after all others.
            let (others, connected) = (others.take(), (lane > 0).then(|| connected.clone()));
            let serve = move || {
                let connection = worker::run(connection, lane, &shared);
                others.into_iter().for_each(|others| others.into_iter().for_each(drop));
                drop((connection, connected));
            };
            store.threads().push(thread::Builder::new().name(name).spawn(|| vital(serve))?);
        }
        Ok(store)
    }

    /// Manages the months into which archives may be divided. If tables may not be changed, only
    /// unfinished work of others is reported.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(crate) fn with_months(mut self, open: Arc<OpenMonths>, migrations: Migrations) -> SqlStore {
        self.months = Some((open, migrations));
        self
    }

    /// Makes it possible to fence processes off.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(crate) fn with_fences(mut self, fences: Arc<dyn FenceRows>) -> SqlStore {
        self.fences = Some(fences);
        self
    }

    #[cfg(any(feature = "postgres", feature = "mysql"))]
    fn fences(&self) -> Option<Arc<dyn FenceRows>> {
        self.fences.clone()
    }

    /// Stores a thread that closing the store waits for.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    fn keep(&self, thread: JoinHandle<()>) {
        let mut threads = self.threads();
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
    }

    /// Manages the months on a separate thread, since that may take long for a month with many
    /// messages.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    fn keep_months(&self, retention: crate::Retention) -> Pending<u64> {
        let Some((open, migrations)) = self.months.clone() else { return ready(Ok(0)) };
        let (completer, kept) = pending();
        let shared = self.shared.clone();
        let keep = move || {
            let is_over = || shared.queues.is_closed();
            let keep = || match migrations {
                Migrations::Auto => months::keep(&mut *open()?, &retention, &is_over),
                Migrations::Never => months::refuse_untidy(&mut *open()?).map(|()| 0),
            };
            completer.complete(catch(keep));
        };
        // A thread that can't be started completes nothing, which looks to callers like the end of
        // the store.
        if let Ok(thread) = thread::Builder::new().name("store-months".into()).spawn(keep) {
            self.keep(thread);
        }
        kept
    }

    #[cfg(not(any(feature = "postgres", feature = "mysql")))]
    fn keep_months(&self, _: crate::Retention) -> Pending<u64> {
        ready(Ok(0))
    }

    /// Carries out the queued operations, closes the database and returns when that is done: for
    /// shutdown. Operations queued later fail with [`StoreError::Closed`].
    pub fn close(&self) {
        self.shared.queues.close();
        let threads = std::mem::take(&mut *self.threads());
        // The last handle may be dropped by a waker on a worker itself, which then ends by itself.
        for thread in threads.into_iter().filter(|thread| thread.thread().id() != thread::current().id()) {
            // The thread catches every panic of callers; if it panicked anyway, the panic hook has
            // reported it.
            drop(thread.join());
        }
    }

    /// Returns the number of statements that operations have run so far, without those that begin
    /// and end transactions.
    pub fn statements(&self) -> u64 {
        self.shared.counts.statements.count()
    }

    fn times_of_statements(&self) -> Vec<StatementTimes> {
        self.shared.counts.statements.times()
    }

    fn most_logins(&self) -> usize {
        if self.is_remote { self.lanes.count() * LOGINS_PER_CONNECTION } else { usize::MAX }
    }

    fn activity_so_far(&self) -> Activity {
        let counts = &self.shared.counts;
        let (operations, bytes) = self.shared.queues.load();
        Activity {
            waiting: self.shared.queues.waiting(),
            operations,
            bytes,
            connections: self.lanes.count(),
            retries: counts.retries.load(Ordering::Relaxed),
            reconnects: counts.reconnects.load(Ordering::Relaxed),
            given_up: counts.given_up.load(Ordering::Relaxed),
            away_since_ms: self.shared.trouble.away_since_ms(),
        }
    }

    fn read<T: Send + 'static>(
        &self,
        route: LaneRoute,
        bytes: usize,
        run: impl FnMut(&mut dyn SqlConnection) -> Result<T, StoreError> + Send + 'static,
    ) -> Pending<T> {
        self.enqueue(route, bytes, operation(StoreAccess::Read, run))
    }

    /// Runs reads that need no transaction: see [`StoreAccess::Glance`].
    fn glance<T: Send + 'static>(
        &self,
        route: LaneRoute,
        bytes: usize,
        run: impl FnMut(&mut dyn SqlConnection) -> Result<T, StoreError> + Send + 'static,
    ) -> Pending<T> {
        self.enqueue(route, bytes, operation(StoreAccess::Glance, run))
    }

    fn write<T: Send + 'static>(
        &self,
        route: LaneRoute,
        bytes: usize,
        run: impl FnMut(&mut dyn SqlConnection) -> Result<T, StoreError> + Send + 'static,
    ) -> Pending<T> {
        self.enqueue(route, bytes, operation(StoreAccess::Write, run))
    }

    fn enqueue<T>(
        &self,
        route: LaneRoute,
        bytes: usize,
        (operation, pending): (Box<dyn Operation>, Pending<T>),
    ) -> Pending<T> {
        if let Err((operation, error)) = self.shared.queues.push(route, bytes, operation) {
            let error = if error == StoreError::Busy { self.shared.trouble.too_late() } else { error };
            operation.tell(Some(error));
        }
        pending
    }

    /// Returns the error that keeps the store from working.
    fn obstacle(&self) -> Option<StoreError> {
        let is_stuck = || self.shared.queues.waiting() >= STUCK;
        self.shared.trouble.get().or_else(|| is_stuck().then_some(StoreError::Busy))
    }

    /// Returns the lane of an account, a room or a host of nodes.
    fn of(&self, owner: JidRef<'_>) -> LaneRoute {
        self.lanes.owner(owner.bare_str())
    }

    /// Locks the threads. Nothing panics under the lock.
    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        lock(&self.threads)
    }
}

impl<C> From<C> for StoreConnections<C> {
    /// Returns lanes with one connection for everything.
    fn from(connection: C) -> StoreConnections<C> {
        StoreConnections { owners: vec![connection], archive: None, reads: None }
    }
}

/// Refuses operations that wait too long, even while all workers wait for the database, and queries
/// the database at intervals: the operator must learn that it is unavailable even if the server is
/// idle.
fn watch(shared: &LanesShared, ping: &LaneRoute) {
    let mut asked = Instant::now();
    while shared.queues.pause(WATCH) {
        let overdue = shared.queues.overdue(Instant::now());
        if !overdue.is_empty() {
            shared.trouble.overdue(overdue.len());
            shared.counts.given_up.fetch_add(overdue.len() as u64, Ordering::Relaxed);
        }
        for operation in overdue {
            operation.tell(Some(shared.trouble.too_late()));
        }
        if asked.elapsed() >= PING {
            asked = Instant::now();
            // It doesn't matter whether there is such an entry.
            let (asked_for, _) = operation(StoreAccess::Glance, |c| meta::get(c, "ping"));
            drop(shared.queues.push(ping.clone(), 0, asked_for));
            if shared.trouble.is_unwritable() {
                // A supervisor may direct all writers to another host.
                let (operation, _) = operation(StoreAccess::Write, |c| meta::put(c, "ping", &[]));
                drop(shared.queues.push(LaneRoute::default(), 0, operation));
            }
        }
    }
}

impl Drop for SqlStore {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod fencing;
mod traits;

/// The time between two checks for operations that wait too long.
const WATCH: Duration = Duration::from_millis(250);

/// The time between two queries of the watch.
const PING: Duration = Duration::from_secs(5);

/// The wait of an operation after which the database counts as stuck.
const STUCK: Duration = Duration::from_secs(5);

/// The number of logins in progress for each connection to a database in another process: enough to
/// keep it busy.
const LOGINS_PER_CONNECTION: usize = 16;
