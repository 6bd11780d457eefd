//! Keeps a process from writing once others have taken over from it.
//!
//! Several processes may share a database and assign each account to one of them. A process that
//! was frozen is considered dead, and others get its accounts; when it continues, it doesn't know
//! that. So a process that takes over makes the database refuse all further writes of the other
//! one, and only reads after that.

use crate::{Pending, StoreError};
use std::fmt;

/// A process that shares the database with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessWriter {
    /// The number of its node.
    pub node: u16,
    /// The number of this process among all processes of the node so far.
    pub incarnation: u32,
}

impl fmt::Display for ProcessWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.node, self.incarnation)
    }
}

/// Fences processes off.
///
/// # Invariants
///
/// - When [`fence`](Fencing::fence) has succeeded, the writes that the process had begun are either
///   committed or undone, and no others are ever committed.
/// - Of two processes that fence each other off, at most one succeeds.
pub trait Fencing: Send + Sync {
    /// Makes this store write everything from now on as a process, whose number is unique for ever.
    /// Must be called once, before others know the process.
    ///
    /// # Errors
    ///
    /// The errors of the database.
    fn enlist(&self, own: ProcessWriter) -> Pending<()>;

    /// Fences another process off. Returns `false` if it was fenced off before, or has never
    /// written.
    ///
    /// # Errors
    ///
    /// [`StoreError::Fenced`] if this process was itself fenced off, otherwise those of the
    /// database.
    fn fence(&self, other: ProcessWriter) -> Pending<bool>;

    /// Calls `tell` once, on a thread of the store, when the database refuses a write because this
    /// process was fenced off.
    fn when_fenced(&self, tell: Box<dyn FnOnce() + Send>);
}

/// Returns the error of a store that other processes don't share.
pub(crate) fn not_shared() -> StoreError {
    StoreError::Other(crate::error::EngineWords {
        database: "this database".to_owned(),
        message: "processes can't share it".to_owned(),
    })
}
