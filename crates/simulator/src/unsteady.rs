//! A store that behaves as badly as a remote database may: late, out of order between owners,
//! unavailable for a while, and disconnected between the commit and the answer.
//!
//! It keeps only the promises of the contract. The operations of one owner take effect in the order
//! of their calls ([`Owners`]). A failed operation has changed nothing, unless the error is `Lost`.
//! When a process dies, each of its operations in progress took effect completely or not at all;
//! those of a node may take effect seconds later, unless the node is fenced off by then.

use std::sync::{Arc, Mutex};

use rookery_base::lock::lock;
use rookery_base::{Abandoned, one_shot};
use rookery_jid::JidRef;
use rookery_store::error::EngineWords;
use rookery_store::forward::{Forward, Owners};
use rookery_store::shuffled::ShuffledWaiting;
use rookery_store::{Meta, Pending, ProcessWriter, StoreError, Stores, wait};

use crate::draw::SeededDraw;
use crate::nodes::SimulatedFences;

/// Stores that wrap others and carry out an operation on demand.
pub struct Unsteady {
    inner: Stores,
    state: Mutex<UnsteadyState>,
}

struct UnsteadyState {
    draw: SeededDraw,
    waiting: ShuffledWaiting<RunOperation>,
    trouble: DatabaseTrouble,
    called: u64,
    failed: u64,
    /// The process that writes, if several processes share the database.
    writer: Option<(ProcessWriter, SimulatedFences)>,
    /// True once the database has refused a write of the process, because others have taken over.
    was_refused: bool,
    /// True once the database has accepted a write of a process after others took over its
    /// accounts.
    has_written_late: bool,
    /// The operations of dead processes that are still in progress, each with the time at which it
    /// takes effect, in milliseconds, and its process.
    orphans: Vec<(u64, (ProcessWriter, SimulatedFences), RunOperation)>,
}

/// The kinds of trouble that the database may be in, one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseTrouble {
    /// There is no trouble.
    None,
    /// Its queue is full: operations fail and change nothing.
    Busy,
    /// Its disk is full: operations fail and change nothing.
    Full,
    /// Its connections break: some operations take effect, and nobody gets the answer.
    Away,
    /// The next operation fails and changes nothing.
    Once,
}

/// The fate of an operation.
enum Fate {
    Done,
    Refused(StoreError),
    /// It takes effect, but its caller doesn't learn so.
    Unheard,
}

/// Runs an operation, or tells its caller that it failed.
type RunOperation = Box<dyn FnOnce(&Stores, Fate) + Send>;

impl Unsteady {
    /// Returns stores that wrap these.
    pub fn new(inner: Stores, seed: u64) -> Arc<Self> {
        let (draw, waiting) = (SeededDraw::new(seed), ShuffledWaiting::new(!seed));
        let state = UnsteadyState {
            draw,
            waiting,
            trouble: DatabaseTrouble::None,
            called: 0,
            failed: 0,
            writer: None,
            was_refused: false,
            has_written_late: false,
            orphans: Vec::new(),
        };
        Arc::new(Self { inner, state: Mutex::new(state) })
    }

    /// Returns the stores for the server.
    pub fn stores(self: &Arc<Self>) -> Stores {
        Stores::of(self.clone())
    }

    /// Carries out one of the operations that may be next. Returns whether there was one.
    pub fn run_one(&self) -> bool {
        // The lock is free while the operation completes, since its waker may call the store.
        let next = lock(&self.state).next();
        next.map(|(run, fate)| run(&self.inner, fate)).is_some()
    }

    /// Changes the state of the database, for operations that are carried out from now on.
    pub fn set_trouble(&self, trouble: DatabaseTrouble) {
        lock(&self.state).trouble = trouble;
    }

    /// Returns the settings in the database, for operators and others who don't go through the
    /// server.
    pub fn inner_meta(&self) -> Arc<dyn Meta> {
        self.inner.meta.clone()
    }

    /// Returns whether the database has a roster, offline messages or an archive of an account.
    pub fn has_stored(&self, account: JidRef<'_>) -> bool {
        let stores = &self.inner;
        let contacts = wait(stores.rosters.contacts(account)).is_ok_and(|contacts| !contacts.is_empty());
        let offline = wait(stores.offline.count(account)).is_ok_and(|count| count > 0);
        let archived = wait(stores.archive.ends(account)).is_ok_and(|ends| ends.is_some());
        contacts || offline || archived
    }

    /// Returns the state of the database.
    pub fn trouble(&self) -> DatabaseTrouble {
        lock(&self.state).trouble
    }

    /// Writes as this process from now on, until it is fenced off.
    pub fn write_as(&self, writer: ProcessWriter, fences: SimulatedFences) {
        let mut state = lock(&self.state);
        (state.writer, state.was_refused) = (Some((writer, fences)), false);
    }

    /// Writes as a new process that isn't enlisted in the cluster.
    pub fn begin_again(&self) {
        let mut state = lock(&self.state);
        (state.writer, state.was_refused) = (None, false);
    }

    /// Returns whether the process is fenced off.
    pub fn is_fenced(&self) -> bool {
        lock(&self.state).is_fenced()
    }

    /// Returns whether the process has noticed that it is fenced off.
    pub fn was_refused(&self) -> bool {
        lock(&self.state).was_refused
    }

    /// Returns whether the database has ever accepted a write of the process after others had begun
    /// to take over its accounts.
    pub fn has_written_late(&self) -> bool {
        lock(&self.state).has_written_late
    }

    /// Returns the number of operations that wait.
    pub fn waiting(&self) -> usize {
        lock(&self.state).waiting.len()
    }

    /// Returns the numbers of operations that were called, and of those that failed.
    pub fn counts(&self) -> (u64, u64) {
        let state = lock(&self.state);
        (state.called, state.failed)
    }

    /// Makes the server's process die: some of its operations in progress take effect, in an order
    /// that the contract allows, and nobody gets an answer.
    pub fn die(&self) {
        let mut dropped: Vec<Owners> = Vec::new();
        let waiting = lock(&self.state).waiting.take_all();
        for (owners, run) in waiting {
            let mut state = lock(&self.state);
            let is_done = state.draw.percent(50) && !state.is_fenced();
            drop(state);
            if is_done && !dropped.iter().any(|earlier| owners.waits_for(earlier)) {
                run(&self.inner, Fate::Unheard);
            } else {
                dropped.push(owners);
            }
        }
        // The shards that the answers would wake are gone, and so are their calls.
        lock(&self.state).waiting.take_all();
    }

    /// Makes a node's process die: some of its operations in progress take effect in their order,
    /// at once or within the next seconds, and nobody gets an answer.
    pub fn die_slowly(&self, now_ms: u64) {
        let (mut dropped, mut due): (Vec<Owners>, u64) = (Vec::new(), now_ms);
        let mut state = lock(&self.state);
        let Some(writer) = state.writer.clone() else {
            drop(state);
            return self.die();
        };
        for (owners, run) in state.waiting.take_all() {
            if state.draw.percent(70) && !dropped.iter().any(|earlier| owners.waits_for(earlier)) {
                due += if state.draw.percent(50) { 0 } else { state.draw.below(5_000) as u64 };
                state.orphans.push((due, writer.clone(), run));
            } else {
                dropped.push(owners);
            }
        }
        drop(state);
        self.pass(now_ms);
        lock(&self.state).waiting.take_all();
    }

    /// Makes the operations of dead processes take effect that are due by this time.
    pub fn pass(&self, now_ms: u64) {
        if lock(&self.state).orphans.is_empty() {
            return;
        }
        let mut state = lock(&self.state);
        let due = state.orphans.iter().take_while(|(due, ..)| *due <= now_ms).count();
        let due: Vec<_> = state.orphans.drain(..due).collect();
        drop(state);
        for (_, (writer, fences), run) in due {
            if !fences.has(writer) {
                lock(&self.state).has_written_late |= fences.are_taken(writer);
                run(&self.inner, Fate::Unheard);
            }
        }
    }
}

impl UnsteadyState {
    fn next(&mut self) -> Option<(RunOperation, Fate)> {
        let run = self.waiting.take_next()?;
        let fate = self.fate();
        self.failed += u64::from(!matches!(fate, Fate::Done));
        let is_taken = self.writer.as_ref().is_some_and(|(writer, fences)| fences.are_taken(*writer));
        self.has_written_late |= is_taken && !matches!(fate, Fate::Refused(_));
        Some((run, fate))
    }

    fn is_fenced(&self) -> bool {
        self.writer.as_ref().is_some_and(|(writer, fences)| fences.has(*writer))
    }

    fn fate(&mut self) -> Fate {
        if self.is_fenced() {
            self.was_refused = true;
            return Fate::Refused(StoreError::Fenced(engine()));
        }
        match self.trouble {
            DatabaseTrouble::None => Fate::Done,
            DatabaseTrouble::Busy => Fate::Refused(StoreError::Busy),
            DatabaseTrouble::Full => Fate::Refused(StoreError::Full(engine())),
            DatabaseTrouble::Away if self.draw.percent(20) => Fate::Unheard,
            DatabaseTrouble::Away => Fate::Refused(connection_error()),
            DatabaseTrouble::Once => {
                self.trouble = DatabaseTrouble::None;
                Fate::Refused(if self.draw.percent(50) { connection_error() } else { StoreError::Other(engine()) })
            }
        }
    }
}

impl Forward for Unsteady {
    fn inner(&self) -> &Stores {
        &self.inner
    }

    fn forward<T: Send + 'static>(
        &self,
        owners: Owners,
        call: impl FnOnce(&Stores) -> Pending<T> + Send + 'static,
    ) -> Pending<T> {
        let (completer, called) = one_shot::<Result<Pending<T>, StoreError>>();
        let run = Box::new(move |stores: &Stores, fate: Fate| {
            completer.complete(match fate {
                Fate::Done => Ok(call(stores)),
                Fate::Refused(error) => Err(error),
                Fate::Unheard => {
                    // An operation on memory is complete once it was called.
                    drop(call(stores));
                    Err(connection_error())
                }
            });
        });
        let mut state = lock(&self.state);
        state.called += 1;
        state.waiting.push(owners, run);
        Box::pin(async move { called.await.unwrap_or_else(|Abandoned| Err(StoreError::Closed))?.await })
    }
}

fn connection_error() -> StoreError {
    StoreError::Lost(engine())
}

fn engine() -> EngineWords {
    EngineWords { database: "simulated".into(), message: "the connection was lost".into() }
}
