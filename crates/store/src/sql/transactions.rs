//! The interface of an engine's connection for the worker, in addition to its statements:
//! transactions, and reconnecting.

use super::connection::SqlConnection;
use crate::StoreError;

/// Begins and ends the transactions of a [`SqlConnection`].
///
/// # Invariants
///
/// - No call waits without bound: a connection to an engine that doesn't answer within its limits
///   counts as lost ([`StoreError::Lost`]).
/// - [`StoreError::Conflict`] means that others interfered (a deadlock, a lock wait, a
///   serialization failure): another attempt may succeed at once.
pub(crate) trait Transactions: SqlConnection {
    /// Begins a transaction that only reads and takes no locks.
    fn begin_read(&mut self) -> Result<(), StoreError>;

    /// Begins a phase in which statements read without a transaction, until
    /// [`commit`](Transactions::commit) or [`rollback`](Transactions::rollback). An engine whose
    /// transactions cost nothing begins one.
    fn begin_glance(&mut self) -> Result<(), StoreError> {
        self.begin_read()
    }

    /// Begins a transaction that writes. An engine behind a network marks it with the number of the
    /// batch, which no other transaction of this connection has: see [`Remote::has_committed`].
    fn begin_write(&mut self, batch: u64) -> Result<(), StoreError>;

    /// Ends the transaction; its changes are durable.
    ///
    /// # Errors
    ///
    /// After [`StoreError::Lost`] it may have been committed; after every other error it was not.
    fn commit(&mut self) -> Result<(), StoreError>;

    /// Undoes the transaction, if there is one.
    fn rollback(&mut self);

    /// Returns whether a transaction is open and accepts statements: on some errors, engines end
    /// it, or refuse everything except its end.
    fn in_transaction(&self) -> bool;

    /// Returns the engine's savepoints if operations are undone by them. Without savepoints, a
    /// batch in which an operation fails is rolled back and run again, each operation in a
    /// transaction of its own.
    fn savepoints(&mut self) -> Option<&mut dyn Savepoints> {
        None
    }

    /// Returns the interface for reconnecting if the engine is another process, so that the
    /// connection can be lost.
    #[allow(dead_code, reason = "for the engines that are other processes")]
    fn remote(&mut self) -> Option<&mut dyn Remote> {
        None
    }
}

/// Undoes single operations of a transaction.
pub(crate) trait Savepoints {
    /// Marks the point to which [`rollback_operation`](Savepoints::rollback_operation) returns.
    fn begin_operation(&mut self) -> Result<(), StoreError>;
    /// Keeps the changes since the mark.
    fn keep_operation(&mut self) -> Result<(), StoreError>;
    /// Undoes the changes since the mark.
    fn rollback_operation(&mut self) -> Result<(), StoreError>;
}

/// A connection that can be lost.
///
/// Each has a row of its own in the table `rookery_lanes`, with a random key that is chosen when
/// the store is opened and stays the same when it reconnects. A transaction that writes begins with
/// the update of that row, and COMMIT is only sent after the engine has answered that. So a later
/// connection that locks the row waits for a transaction that is still being committed on the lost
/// connection, and then knows its outcome.
#[allow(dead_code, reason = "for the engines that are other processes")]
pub(crate) trait Remote {
    /// Tries once to replace the connection by a new one: to the first of the hosts that can be
    /// written to, otherwise to one that can be read. Empties the caches, such as those of archives
    /// and prepared statements, and ends the previous session if it remains, whose locks would hold
    /// up this one.
    ///
    /// # Errors
    ///
    /// [`StoreError::Lost`] if no host can be reached or one refuses for the time being, otherwise
    /// the error that prevents it for good.
    fn reopen(&mut self) -> Result<(), StoreError>;

    /// Checks that the database answers. Must be called outside of transactions.
    fn ping(&mut self) -> Result<(), StoreError>;

    /// Returns whether the transaction with this number was committed. Must be called after
    /// [`Remote::reopen`], outside of transactions.
    ///
    /// The answer is as durable as a commit: replicas that the engine waits for have it.
    fn has_committed(&mut self, batch: u64) -> Result<bool, StoreError>;

    /// Returns whether the host that it is connected to couldn't be written to at that time;
    /// another one might.
    fn is_read_only(&self) -> bool;
}
