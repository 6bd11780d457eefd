//! The fence of the simulated database: processes whose writes it refuses from then on.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use rookery_base::lock::lock;
use rookery_store::error::EngineWords;
use rookery_store::{Fencing, Pending, ProcessWriter, StoreError};

use crate::unsteady::{DatabaseTrouble, Unsteady};

/// The processes that are fenced off. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct SimulatedFences {
    /// Those that the database knows.
    fenced: Arc<Mutex<BTreeSet<(u16, u32)>>>,
    /// Those whose accounts others have begun to take over.
    taken: Arc<Mutex<BTreeSet<(u16, u32)>>>,
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

    /// Returns whether others have begun to take over the accounts of a process.
    pub fn are_taken(&self, process: ProcessWriter) -> bool {
        lock(&self.taken).contains(&(process.node, process.incarnation))
    }
}

/// The fence as one process uses it.
pub(crate) struct OwnFence {
    /// The process's connection to the database.
    pub store: Arc<Unsteady>,
    /// All of them.
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
        // The process notices by itself: [`Unsteady::was_refused`].
    }
}
