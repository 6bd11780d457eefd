//! The interface that the worker needs from an engine's connection besides its statements:
//! transactions, and reconnecting.

use super::connection::SqlConnection;
use crate::StoreError;

/// Begins and ends the transactions of a [`SqlConnection`].
///
/// # Invariants
///
/// - No call waits without bound: an engine that doesn't answer within its limits is lost
///   ([`StoreError::Lost`]).
/// - [`StoreError::Conflict`] means that others interfered (a deadlock, a lock wait, a
///   serialization failure): a repetition may succeed at once.
pub(crate) trait Transactions: SqlConnection {
    /// Begins a transaction that only reads and takes no locks.
    fn begin_read(&mut self) -> Result<(), StoreError>;

    /// Lets statements read that need no transaction, until [`commit`](Transactions::commit) or
    /// [`rollback`](Transactions::rollback). An engine for which a transaction costs nothing begins
    /// one.
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

    /// Ends the transaction, if there is one, as if it had never been.
    fn rollback(&mut self);

    /// Returns whether a transaction is open and takes statements: engines end it, or refuse all
    /// but its end, on some errors.
    fn in_transaction(&self) -> bool;

    /// Returns the engine's savepoints if operations are to be undone by them. Without them, a
    /// batch of which one operation fails is rolled back and run again, each operation in a
    /// transaction of its own.
    fn savepoints(&mut self) -> Option<&mut dyn Savepoints> {
        None
    }

    /// Returns the way back if the engine is another process, to which the connection can be lost.
    #[allow(dead_code, reason = "for the engines that are other processes")]
    fn remote(&mut self) -> Option<&mut dyn Remote> {
        None
    }
}

/// Undoes single operations of a transaction.
pub(crate) trait Savepoints {
    /// Marks the point that [`rollback_operation`](Savepoints::rollback_operation) goes back to.
    fn begin_operation(&mut self) -> Result<(), StoreError>;
    /// Keeps the changes since the mark.
    fn keep_operation(&mut self) -> Result<(), StoreError>;
    /// Undoes the changes since the mark.
    fn rollback_operation(&mut self) -> Result<(), StoreError>;
}

/// A connection that can be lost.
///
/// Each has a row of its own in the table `rookery_lanes`, with a random key that it draws when the
/// store is opened and keeps when it is reopened. A transaction that writes begins with the update
/// of that row, and the engine has answered that before it is sent COMMIT. So the one that locks
/// the row later waits for a transaction that is still being committed on the lost connection, and
/// knows then.
#[allow(dead_code, reason = "for the engines that are other processes")]
pub(crate) trait Remote {
    /// Tries once to replace the connection by a new one: to the first of the hosts that can be
    /// written to, otherwise to one that can be read. Empties the caches, such as those of archives
    /// and prepared statements, and ends the rest of the previous session, whose locks would hold
    /// up this one.
    ///
    /// # Errors
    ///
    /// [`StoreError::Lost`] if no host can be reached or one refuses for the time being, otherwise
    /// the error that prevents it for good.
    fn reopen(&mut self) -> Result<(), StoreError>;

    /// Checks that the database answers: outside of transactions.
    fn ping(&mut self) -> Result<(), StoreError>;

    /// Returns whether the transaction with this number was committed: asked after
    /// [`Remote::reopen`], outside of transactions.
    ///
    /// The answer is as durable as a commit: replicas that the engine waits for have it.
    fn has_committed(&mut self, batch: u64) -> Result<bool, StoreError>;

    /// Returns whether the host that it was connected to couldn't be written to then: another one
    /// might.
    fn is_read_only(&self) -> bool;
}
