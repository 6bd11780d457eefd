//! The fence of a process, by which its connections notice that others have taken over.
//!
//! Each connection that writes has a row in `rookery_lanes`, and a writing transaction begins with
//! an update of that row. When the store is enlisted for a process, the rows get its number.
//! Marking them fences the process off: that waits for the transactions that hold them, and every
//! later one finds a mark instead of its row.
//!
//! # Invariants
//!
//! - An enlisted connection never recreates its row: a missing row counts as marked.
//! - A process that fences another one off locks a row of its own while it does so; therefore two
//!   that fence each other off conflict.
//! - A connection that manages months has no row here: every process may drop messages that are
//!   too old for all.

use crate::StoreError;
use crate::fencing::ProcessWriter;
use rookery_base::lock::lock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

/// A connection that assigns rows to processes, and marks them.
pub(crate) trait FencingConnection {
    /// Assigns the rows of connections to a process by its number, and creates the missing ones.
    fn enlist(&mut self, own: ProcessWriter, lanes: &[i64]) -> Result<(), StoreError>;

    /// Marks the rows of another process, in a transaction that holds a row of this one, if it has
    /// any. Returns `false` if it finds no rows to mark. After a failure the connection, and with
    /// it the transaction, ends.
    fn fence(&mut self, other: ProcessWriter, own: Option<i64>) -> Result<bool, StoreError>;
}

/// The state that the connections of a store share.
#[derive(Default)]
pub(crate) struct Fence {
    /// The keys of the connections whose rows have the number of this process.
    enlisted: OnceLock<Vec<i64>>,
    is_fenced: AtomicBool,
    tell: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Fence {
    /// Returns whether the connection with this key writes as one of a process.
    pub(crate) fn is_enlisted(&self, lane: i64) -> bool {
        self.enlisted.get().is_some_and(|lanes| lanes.contains(&lane))
    }

    /// Notes that connections write as those of a process, whose number their rows have.
    pub(crate) fn enlist(&self, lanes: &[i64]) {
        // It is called once.
        drop(self.enlisted.set(lanes.to_vec()));
    }

    /// Returns the key of a row of this process, if it has any.
    pub(crate) fn own(&self) -> Option<i64> {
        self.enlisted.get()?.first().copied()
    }

    /// Calls `tell` once, when others have taken over from this process.
    pub(crate) fn when_closed(&self, tell: Box<dyn FnOnce() + Send>) {
        *lock(&self.tell) = Some(tell);
        if self.is_fenced() {
            self.close();
        }
    }

    /// Returns whether others have taken over from this process.
    pub(crate) fn is_fenced(&self) -> bool {
        self.is_fenced.load(Ordering::Acquire)
    }

    /// Notes that others have taken over from this process.
    pub(crate) fn close(&self) {
        self.is_fenced.store(true, Ordering::Release);
        let tell = lock(&self.tell).take();
        if let Some(tell) = tell {
            tell();
        }
    }
}

/// Changes the rows of processes, each time over a separate connection, so that operations in lanes
/// don't delay it.
pub(crate) trait FenceRows: Send + Sync {
    fn enlist(&self, own: ProcessWriter) -> Result<(), StoreError>;

    fn fence(&self, other: ProcessWriter) -> Result<bool, StoreError>;

    fn when_fenced(&self, tell: Box<dyn FnOnce() + Send>);
}
