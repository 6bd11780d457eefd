//! The thread that owns the connection and runs the queue in batches.
//!
//! A batch is a stretch of the queue that shares one transaction, and thereby one wait for the disk. Batches grow by
//! themselves: whatever was queued while the last commit waited for the disk is the next batch, up to a bound that
//! keeps the waiting short.
//!
//! # Invariants
//!
//! - Answers are told in the order of the queue.
//! - Reads in front of a batch's first write are told at once, everything behind it only after the commit.
//! - What fails since another connection got in its way ([`StoreError::Conflict`]) is run again, up to a bound: one operation,
//!   or the whole batch if the engine undid that.
//! - When a commit fails otherwise, every write of its transaction is told the error; every read in it is run again, because it
//!   may have seen what those wrote. The same holds when the engine gives up the transaction in the middle, as SQLite
//!   does on an I/O error and when an update, but not an insert, finds the file full.

use super::counted::Counted;
use super::operation::Operation;
use super::queue::Queue;
use super::transactions::{Savepoints, Transactions};
use super::trouble::Trouble;
use crate::StoreError;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

/// Runs the queue until it is closed and empty.
pub(crate) fn run(connection: impl Transactions, queue: Arc<Queue>, trouble: Arc<Trouble>, statements: Arc<AtomicU64>) {
    let queue = Served(queue);
    let mut worker = Worker { connection, batch: Batch::default(), batches: 0, trouble, statements };
    while let Some(operation) = queue.0.wait() {
        worker.run_batch(operation, &queue.0);
    }
}

/// A queue as long as somebody serves it.
struct Served(Arc<Queue>);

impl Drop for Served {
    /// However the worker ends, nobody waits for it any longer: an operation that is dropped answers
    /// [`StoreError::Closed`].
    fn drop(&mut self) {
        self.0.close();
        while self.0.take().is_some() {}
    }
}

struct Worker<C> {
    connection: C,
    batch: Batch,
    /// The number of transactions that write so far.
    batches: u64,
    trouble: Arc<Trouble>,
    /// How many the operations have asked for.
    statements: Arc<AtomicU64>,
}

#[derive(Default)]
struct Batch {
    transaction: Option<Access>,
    /// Run, and to be told after the commit.
    untold: Vec<Box<dyn Operation>>,
    /// Why no transaction that writes could be begun: trying again for each operation would wait for the lock each
    /// time.
    refused: Option<StoreError>,
    /// The transaction was lost in the middle, with this error.
    lost: Option<StoreError>,
    /// The error of the last write that failed alone because of the database.
    failed: Option<StoreError>,
    /// The number of times that it was run before.
    runs: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

impl<C: Transactions> Worker<C> {
    fn run_batch(&mut self, first: Box<dyn Operation>, queue: &Queue) {
        let end = Instant::now() + BATCH_TIME;
        let mut next = Some(first);
        let mut operations = 0;
        while let Some(operation) = next {
            if operation.writes() {
                self.write(operation)
            } else {
                self.read(operation)
            }
            operations += 1;
            let over = self.batch.lost.is_some() || operations >= BATCH_OPERATIONS || Instant::now() >= end;
            next = if over { None } else { queue.take() };
        }
        self.end_batch();
    }

    fn read(&mut self, mut operation: Box<dyn Operation>) {
        if self.batch.transaction.is_none()
            && let Err(error) = self.begin(Access::Read)
        {
            return operation.tell(Some(error));
        }
        // Its own error is kept in the operation, and a read has nothing to undo.
        let outcome = self.run_operation(operation.as_mut());
        if self.batch.transaction == Some(Access::Read) {
            return operation.tell(None);
        }
        self.batch.untold.push(operation);
        if let Err(error) = outcome {
            self.notice_loss(error);
        }
    }

    fn write(&mut self, mut operation: Box<dyn Operation>) {
        if self.batch.transaction != Some(Access::Write)
            && let Err(error) = self.begin_write()
        {
            return operation.tell(Some(error));
        }
        let outcome = self.isolated(operation.as_mut());
        self.batch.untold.push(operation);
        if let Err(error) = outcome {
            self.batch.lost = Some(error);
        }
    }

    /// Runs a write so that its failure undoes nothing but itself. An error means that the whole transaction is lost.
    fn isolated(&mut self, operation: &mut dyn Operation) -> Result<(), StoreError> {
        for run in 1.. {
            let is_last = run >= RUNS;
            self.savepoint(|savepoints| savepoints.begin_operation())?;
            let ran = self.run_operation(operation);
            let is_done = ran.is_ok();
            let Err(error) = ran.and_then(|()| self.savepoint(|savepoints| savepoints.keep_operation())) else { break };
            if !self.connection.in_transaction() || (is_done && (is_last || !error.is_conflict())) {
                return Err(error);
            }
            self.savepoint(|savepoints| savepoints.rollback_operation())?;
            if is_last || !error.is_conflict() {
                if Trouble::is_of(&error) {
                    self.batch.failed = Some(error);
                }
                break;
            }
        }
        Ok(())
    }

    /// Calls the engine's savepoints, if it has some.
    fn savepoint(&mut self, call: fn(&mut dyn Savepoints) -> Result<(), StoreError>) -> Result<(), StoreError> {
        self.connection.savepoints().map_or(Ok(()), call)
    }

    fn run_operation(&mut self, operation: &mut dyn Operation) -> Result<(), StoreError> {
        operation.run(&mut Counted { connection: &mut self.connection, statements: &self.statements })
    }

    fn notice_loss(&mut self, error: StoreError) {
        if !self.connection.in_transaction() {
            self.batch.lost = Some(error);
        }
    }

    fn begin_write(&mut self) -> Result<(), StoreError> {
        if let Some(error) = &self.batch.refused {
            return Err(error.clone());
        }
        self.end_read();
        self.begin(Access::Write).inspect_err(|error| self.batch.refused = Some(error.clone()))
    }

    fn begin(&mut self, access: Access) -> Result<(), StoreError> {
        match access {
            Access::Read => self.connection.begin_read()?,
            Access::Write => {
                self.batches += 1;
                self.connection.begin_write(self.batches)?;
            }
        }
        self.batch.transaction = Some(access);
        Ok(())
    }

    fn end_read(&mut self) {
        if self.batch.transaction.take().is_some() && self.connection.commit().is_err() {
            self.connection.rollback();
        }
    }

    fn end_batch(&mut self) {
        if self.batch.transaction != Some(Access::Write) {
            self.end_read();
            let batch = std::mem::take(&mut self.batch);
            if let Some(error) = batch.refused {
                self.trouble.failed(&error);
            }
            return;
        }
        let batch = std::mem::take(&mut self.batch);
        let outcome = match batch.lost {
            Some(error) => Err(error),
            None => self.connection.commit(),
        };
        match outcome {
            Ok(()) => {
                match &batch.failed {
                    Some(error) => _ = self.trouble.failed(error),
                    None => self.trouble.succeeded(),
                }
                batch.untold.into_iter().for_each(|operation| operation.tell(None));
            }
            Err(error) => {
                self.connection.rollback();
                if error.is_conflict() && batch.runs + 1 < RUNS {
                    return self.run_again(batch.untold, batch.runs + 1);
                }
                if !self.trouble.failed(&error) {
                    tracing::error!(%error, operations = batch.untold.len(), "a transaction failed");
                }
                self.tell_failed(batch.untold, &error);
            }
        }
    }

    /// Runs the operations of a transaction that is undone in another one, as a batch of their own.
    fn run_again(&mut self, operations: Vec<Box<dyn Operation>>, runs: usize) {
        self.batch.runs = runs;
        for operation in operations {
            if self.batch.lost.is_some() {
                // It shares the fate of those in front of it.
                self.batch.untold.push(operation);
            } else if operation.writes() {
                self.write(operation);
            } else {
                self.read(operation);
            }
        }
        self.end_batch();
    }

    /// Tells the operations of a transaction that is undone.
    fn tell_failed(&mut self, untold: Vec<Box<dyn Operation>>, error: &StoreError) {
        for operation in untold {
            if operation.writes() {
                operation.tell(Some(error.clone()));
            } else {
                self.read(operation);
            }
        }
        self.end_read();
    }
}

#[cfg(test)]
mod tests;

/// How long a batch may gather: what an operation waits at most for those in front of it, besides the disk.
const BATCH_TIME: Duration = Duration::from_millis(4);

/// How often an operation is run at most while others get in its way.
const RUNS: usize = 5;

/// How many operations a batch may have.
const BATCH_OPERATIONS: usize = 2048;
