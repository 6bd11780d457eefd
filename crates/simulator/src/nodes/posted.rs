//! The outlet between the shards of a process and the part that runs beside them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rookery_base::lock::lock;
use rookery_cluster::wire::NodeProcess;
use rookery_hub::{JournalBatch, JournalLookup};
use rookery_shard::{NodeLetter, Outlet};

/// The letters that shards have handed over, their writes to the journal, and their look-ups in the
/// journals of dead processes.
#[derive(Default)]
pub(crate) struct PostedHere {
    pub(super) letters: Mutex<Vec<(u16, NodeLetter)>>,
    pub(super) journal: Mutex<Vec<(usize, JournalBatch)>>,
    pub(super) lookups: Mutex<Vec<(usize, JournalLookup)>>,
    /// Processes that have not handed on their homes in time.
    pub(super) overdue: Mutex<BTreeSet<NodeProcess>>,
    /// Look-ups whose data may be removed from the journals, since the shard's own journal has all
    /// its consequences, with the shard.
    pub(super) read: Mutex<Vec<(usize, JournalLookup)>>,
    /// The time for which letters linger, in milliseconds.
    pub(super) linger_ms: Arc<AtomicU64>,
}

impl PostedHere {
    /// Returns the outlet of letters that linger for this many milliseconds.
    pub fn lingering(linger_ms: Arc<AtomicU64>) -> Arc<Self> {
        Arc::new(Self { linger_ms, ..Self::default() })
    }
}

impl Outlet for PostedHere {
    fn post(&self, from: usize, letters: Vec<NodeLetter>) {
        lock(&self.letters).extend(letters.into_iter().map(|letter| (from as u16, letter)));
    }

    fn journal(&self, from: usize, batch: JournalBatch) {
        lock(&self.journal).push((from, batch));
    }

    fn look_up(&self, shard: usize, lookup: JournalLookup) {
        lock(&self.lookups).push((shard, lookup));
    }

    fn fences_off(&self) -> bool {
        true
    }

    fn overdue(&self, node: u16, incarnation: u32) {
        lock(&self.overdue).insert(NodeProcess { node, incarnation });
    }

    fn have_read(&self, shard: usize, read: JournalLookup) {
        lock(&self.read).push((shard, read));
    }

    fn linger_ms(&self) -> u64 {
        self.linger_ms.load(Ordering::Relaxed)
    }
}
