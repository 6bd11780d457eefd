//! The fence of the simulated database, which refuses all writes of the processes behind it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use rookery_base::lock::lock;
use rookery_cluster::wire::NodeProcess;
use rookery_fanout::view::SLOTS;
use rookery_store::error::EngineWords;
use rookery_store::{Fencing, Pending, ProcessWriter, StoreError};

use crate::unsteady::{DatabaseTrouble, Unsteady};

/// The processes that are fenced off. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct SimulatedFences {
    /// The processes that the database has fenced off.
    fenced: Arc<Mutex<BTreeSet<(u16, u32)>>>,
    /// The processes whose accounts others have begun to take over.
    taken: Arc<Mutex<BTreeSet<(u16, u32)>>>,
    read: Arc<Mutex<ReadJournals>>,
}

/// The parts of journals that nodes have read.
#[derive(Debug, Default)]
struct ReadJournals {
    /// True for the slots that other nodes have begun to read, by the process that wrote the
    /// journal.
    slots: BTreeMap<NodeProcess, Vec<bool>>,
    /// A node that has read some slots after other nodes had, in the journal of its own earlier
    /// process.
    late: Option<u16>,
}

impl SimulatedFences {
    /// Returns whether a process is fenced off.
    pub fn has(&self, writer: ProcessWriter) -> bool {
        lock(&self.fenced).contains(&(writer.node, writer.incarnation))
    }

    /// Records that others begin to take over the accounts of a process.
    pub fn note_taken(&self, process: ProcessWriter) {
        lock(&self.taken).insert((process.node, process.incarnation));
    }

    /// Records that a process begins to read some slots of another process's journal.
    pub fn note_read(&self, of: NodeProcess, reader: NodeProcess, slots: &[u16]) {
        let mut read = lock(&self.read);
        if of.node != reader.node {
            let by_others = read.slots.entry(of).or_insert_with(|| vec![false; SLOTS]);
            slots.iter().for_each(|slot| by_others[usize::from(*slot)] = true);
            return;
        }
        if read.slots.get(&of).is_some_and(|others| slots.iter().any(|slot| others[usize::from(*slot)])) {
            read.late = Some(reader.node);
        }
    }

    /// Returns the number of a node that has read what an earlier process wrote about homes that
    /// other nodes have had since.
    pub fn read_late(&self) -> Option<u16> {
        lock(&self.read).late
    }

    /// Returns whether others have begun to take over the accounts of a process.
    pub fn are_taken(&self, process: ProcessWriter) -> bool {
        lock(&self.taken).contains(&(process.node, process.incarnation))
    }
}

/// The fence as one process uses it.
pub(crate) struct OwnFence {
    /// The process's connection to the database.
    pub store: Arc<Unsteady>,
    /// The fences of all processes.
    pub fences: SimulatedFences,
}

impl Fencing for OwnFence {
    fn enlist(&self, own: ProcessWriter) -> Pending<()> {
        self.store.write_as(own, self.fences.clone());
        Box::pin(std::future::ready(Ok(())))
    }

    fn fence(&self, other: ProcessWriter) -> Pending<bool> {
        let engine = || EngineWords { database: "simulated".into(), message: "not now".into() };
        let outcome = match self.store.trouble() {
            _ if self.store.is_fenced() => Err(StoreError::Fenced(engine())),
            DatabaseTrouble::Away | DatabaseTrouble::Busy | DatabaseTrouble::Full => Err(StoreError::Lost(engine())),
            DatabaseTrouble::None | DatabaseTrouble::Once => {
                Ok(lock(&self.fences.fenced).insert((other.node, other.incarnation)))
            }
        };
        Box::pin(std::future::ready(outcome))
    }

    fn when_fenced(&self, _: Box<dyn FnOnce() + Send>) {
        // The process notices on its own that it was fenced off: [`Unsteady::was_refused`].
    }
}
