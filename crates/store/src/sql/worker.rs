//! The thread that owns a lane's connection and runs its queue in batches.
//!
//! A batch is a part of the queue that shares one transaction, and so one wait for the disk.
//! Batches grow by themselves: all operations that were queued while the last commit waited for the
//! disk are the next batch, up to a bound that keeps the wait short.
//!
//! # Invariants
//!
//! - Results are reported in the order of the queue.
//! - Reads before a batch's first write are reported at once, everything after it only after the
//!   commit.
//! - An operation that fails because of a conflict with another connection
//!   ([`StoreError::Conflict`]) is run again, a bounded number of times: the one operation, or the
//!   whole batch if the engine rolled that back.
//! - A failing operation affects no other: it is rolled back alone if the engine has savepoints;
//!   otherwise the batch is rolled back and run again, each operation in its own transaction.
//! - If a commit fails otherwise, every write of its transaction gets the error; every read in it
//!   is run again, because it may have seen those writes. The same holds if the engine aborts the
//!   transaction in the middle, as SQLite does on an I/O error and when an update, but not an
//!   insert, finds the file full.
//! - If the connection is lost, the whole batch is run again on another one, unless the
//!   transaction's number shows that it was committed. Nothing is run twice.
//! - While no host can be written to, as during a failover, a batch is run again until one can, and
//!   those of its operations that have waited too long are refused. Later ones are then refused at
//!   once, until a write succeeds again.
//! - An operation that reads other lanes' writes has its own transaction, since a transaction sees
//!   the state at its beginning; or none, if its statements need none.
//! - While a gate holds up the next operation, no transaction is open, since the other lanes might
//!   be waiting for its locks.

pub(super) mod attempts;
mod away;

use super::counted::{CountedConnection, StatementTally, legible};
use super::operation::StoreAccess;
use super::queue::{Next, Queued, Queues};
use super::transactions::{Savepoints, Transactions};
use super::trouble::Trouble;
use crate::StoreError;
use attempts::Attempts;
use rookery_base::count_of;
use rookery_observe::{Slow, WaitParts, slow};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The state that the lanes of a store share.
pub(crate) struct LanesShared {
    pub(crate) queues: Queues,
    pub(crate) trouble: Trouble,
    pub(crate) counts: Counts,
}

/// Counts since the store was opened.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// The statements that operations have run.
    pub(crate) statements: StatementTally,
    /// The number of batches and operations that were run again.
    pub(crate) retries: AtomicU64,
    /// The number of connections that replaced lost ones.
    pub(crate) reconnects: AtomicU64,
    /// The number of operations that were given up because the database was unavailable for too
    /// long.
    pub(crate) given_up: AtomicU64,
}

/// Runs a lane's queue until it is closed and empty. Returns the connection.
pub(crate) fn run<C: Transactions>(connection: C, lane: usize, shared: &Arc<LanesShared>) -> C {
    let _served = Served { lane, shared: shared.clone() };
    let mut worker = Worker {
        connection,
        lane,
        batch: Batch::default(),
        batches: 0,
        again: VecDeque::new(),
        attempts: Attempts::default(),
        shared: shared.clone(),
    };
    loop {
        // Operators must learn that the database is unavailable, or available again, even if the
        // server is idle.
        match shared.queues.wait(lane, worker.until_next()) {
            Next::Operation(first) => worker.run_batch(first),
            Next::Nothing => worker.look(),
            Next::Closed => break worker.connection,
        }
    }
}

/// The queue of a lane while it is served.
struct Served {
    lane: usize,
    shared: Arc<LanesShared>,
}

impl Drop for Served {
    /// Releases all waiters of the worker, however it ends.
    fn drop(&mut self) {
        self.shared.queues.abandon(self.lane);
    }
}

struct Worker<C> {
    connection: C,
    lane: usize,
    batch: Batch,
    /// The number of writing transactions so far, with which they are marked.
    batches: u64,
    /// Operations to run again before anything else, in order.
    again: VecDeque<Portion>,
    attempts: Attempts,
    shared: Arc<LanesShared>,
}

/// Operations that share a transaction again.
struct Portion {
    operations: Vec<Queued>,
    /// The number of times that they were run before.
    runs: usize,
    /// The error that writes get without being run.
    refused: Option<StoreError>,
}

#[derive(Default)]
struct Batch {
    transaction: Option<StoreAccess>,
    /// Operations that were run, and are reported after the commit.
    untold: Vec<Queued>,
    /// The reason why no writing transaction could be begun: trying again for each operation would
    /// wait for the lock each time.
    refused: Option<StoreError>,
    /// The error with which the transaction was lost in the middle, or must be undone.
    lost: Option<StoreError>,
    /// The error of the last write that failed by itself because of the database.
    failed: Option<StoreError>,
    /// The number of times that it was run before.
    runs: usize,
}

impl<C: Transactions> Worker<C> {
    fn run_batch(&mut self, first: Queued) {
        let shared = self.shared.clone();
        self.look_for_another_host();
        let end = Instant::now() + BATCH_TIME;
        let mut next = Some(first);
        let mut operations = 0;
        while let Some(queued) = next {
            self.run_one(queued);
            operations += 1;
            let over = self.batch.lost.is_some() || operations >= BATCH_OPERATIONS || Instant::now() >= end;
            next = if over { None } else { shared.queues.take(self.lane) };
        }
        self.end_batch();
        while let Some(portion) = self.again.pop_front() {
            self.run_portion(portion);
        }
    }

    fn run_portion(&mut self, portion: Portion) {
        self.batch.runs = portion.runs;
        // It had no effect.
        for queued in self.give_up(portion.operations, None) {
            if self.batch.lost.is_some() {
                // Its report depends on the operations before it.
                self.batch.untold.push(queued);
                continue;
            }
            match &portion.refused {
                Some(error) if queued.operation.writes() => queued.operation.tell(Some(error.clone())),
                _ => self.run_one(queued),
            }
        }
        self.end_batch();
    }

    fn run_one(&mut self, queued: Queued) {
        if queued.operation.writes() { self.write(queued) } else { self.read(queued) }
    }

    fn read(&mut self, mut queued: Queued) {
        let access = queued.operation.access();
        let is_of_the_past = match self.batch.transaction {
            // An engine may have begun a transaction for it, which sees the data of that moment.
            Some(StoreAccess::Glance) => queued.is_fresh || access == StoreAccess::Read,
            Some(StoreAccess::Read) => queued.is_fresh,
            Some(StoreAccess::Write) | None => false,
        };
        if is_of_the_past {
            self.end_read();
        }
        if self.batch.transaction.is_none()
            && let Err(error) = self.begin(access)
        {
            return self.not_begun(queued, error);
        }
        // The operation has stored its own error, and a read has nothing to undo.
        let outcome = self.run_operation(&mut queued).0;
        if self.batch.transaction != Some(StoreAccess::Write) {
            return match outcome {
                Err(error) if error.is_conflict() || self.is_lost(&error) => self.lose(queued, error),
                _ => {
                    queued.operation.tell(None);
                    // Some engines refuse all further statements after an error.
                    if !self.connection.in_transaction() {
                        self.end_read();
                    }
                }
            };
        }
        match outcome {
            Err(error) if !self.connection.in_transaction() => self.lose(queued, error),
            _ => self.batch.untold.push(queued),
        }
    }

    fn write(&mut self, mut queued: Queued) {
        if self.batch.transaction != Some(StoreAccess::Write)
            && let Err(error) = self.begin_write()
        {
            return self.not_begun(queued, error);
        }
        match self.run_isolated(&mut queued) {
            Ok(()) => self.batch.untold.push(queued),
            Err(error) => self.lose(queued, error),
        }
    }

    /// Handles an operation for which no transaction could be begun.
    fn not_begun(&mut self, queued: Queued, error: StoreError) {
        let is_passing = error.is_conflict() || matches!(error, StoreError::ReadOnly(_));
        if (is_passing && self.connection.remote().is_some()) || self.is_lost(&error) {
            self.lose(queued, error);
        } else {
            queued.operation.tell(Some(error));
        }
    }

    /// Loses the transaction because of an operation.
    fn lose(&mut self, queued: Queued, error: StoreError) {
        self.batch.untold.push(queued);
        self.batch.lost = Some(error);
    }

    /// Runs a write so that its failure only undoes itself. An error means that the whole
    /// transaction is lost, or must be undone.
    fn run_isolated(&mut self, queued: &mut Queued) -> Result<(), StoreError> {
        if self.connection.savepoints().is_none() {
            return self.bare(queued);
        }
        for run in 1.. {
            let is_last = run >= RUNS;
            self.savepoint(|savepoints| savepoints.begin_operation())?;
            let ran = self.run_operation(queued).0;
            let is_done = ran.is_ok();
            let kept = ran.and_then(|()| self.savepoint(|savepoints| savepoints.keep_operation()));
            let Err(error) = kept else { break };
            if !self.connection.in_transaction() || (is_done && (is_last || !error.is_conflict())) {
                return Err(error);
            }
            self.savepoint(|savepoints| savepoints.rollback_operation())?;
            if is_last || !error.is_conflict() {
                self.failed_alone(error);
                break;
            }
            self.count(|counts| &counts.retries);
        }
        Ok(())
    }

    /// Runs a write that only the end of the transaction can undo. A write that fails before it has
    /// written anything needs no undoing.
    fn bare(&mut self, queued: &mut Queued) -> Result<(), StoreError> {
        let (outcome, wrote) = self.run_operation(queued);
        match outcome {
            Err(error) if wrote || error.is_conflict() || !self.connection.in_transaction() => Err(error),
            Err(error) => {
                self.failed_alone(error);
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn failed_alone(&mut self, error: StoreError) {
        if Trouble::is_of(&error) {
            self.batch.failed = Some(error);
        }
    }

    /// Calls the engine's savepoints, if it has some.
    fn savepoint(&mut self, call: fn(&mut dyn Savepoints) -> Result<(), StoreError>) -> Result<(), StoreError> {
        self.connection.savepoints().map_or(Ok(()), call)
    }

    /// Runs an operation. Returns the result, and whether it wrote anything.
    fn run_operation(&mut self, queued: &mut Queued) -> (Result<(), StoreError>, bool) {
        let counts = &self.shared.counts;
        let since = Instant::now();
        let (connection, tally) = (&mut self.connection, &counts.statements);
        let mut counted = CountedConnection { connection, tally, wrote: false, longest: None };
        let outcome = queued.operation.run(&mut counted);
        let (wrote, longest) = (counted.wrote, counted.longest);
        let lasted = since.elapsed();
        let queued_for = since.saturating_duration_since(queued.since);
        queued.operation.parts().get_or_insert_with(|| WaitParts::of_queue(queued_for)).add_run(lasted);
        slow().note(Slow::Store, lasted, || {
            let (took, sql) = longest.unwrap_or_default();
            let sql = legible(sql);
            let engine = self.connection.dialect().name();
            let why = format!("its longest statement took {} ms: {sql}", took.as_millis());
            (format!("{}, {engine}", queued.operation.name()), format!("connection {}", self.lane), why)
        });
        (outcome, wrote)
    }

    fn is_lost(&mut self, error: &StoreError) -> bool {
        matches!(error, StoreError::Lost(_)) && self.connection.remote().is_some()
    }

    fn begin_write(&mut self) -> Result<(), StoreError> {
        if let Some(error) = &self.batch.refused {
            return Err(error.clone());
        }
        self.end_read();
        self.begin(StoreAccess::Write).inspect_err(|error| self.batch.refused = Some(error.clone()))
    }

    fn begin(&mut self, access: StoreAccess) -> Result<(), StoreError> {
        match access {
            StoreAccess::Glance => self.connection.begin_glance()?,
            StoreAccess::Read => self.connection.begin_read()?,
            StoreAccess::Write => {
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
        if self.batch.transaction != Some(StoreAccess::Write) && self.batch.lost.is_none() {
            self.end_read();
            let batch = std::mem::take(&mut self.batch);
            if let Some(error) = batch.refused {
                self.shared.trouble.note_failure(&error);
            }
            return;
        }
        let mut batch = std::mem::take(&mut self.batch);
        let since = Instant::now();
        let outcome = match batch.lost.take() {
            Some(error) => Err((error, None)),
            None => self.connection.commit().map_err(|error| (error, Some(self.batches))),
        };
        let lasted = since.elapsed();
        batch
            .untold
            .iter_mut()
            .filter_map(|queued| queued.operation.parts().as_mut())
            .for_each(|it| it.add_commit(lasted));
        slow().note(Slow::Commit, lasted, || {
            let engine = self.connection.dialect().name();
            let what = format!("{}, {engine}", count_of(batch.untold.len() as u64, "operation"));
            (what, format!("connection {}", self.lane), "the disk, or the database, was slow to store them".into())
        });
        match outcome {
            Ok(()) => self.tell_done(batch),
            Err((error, committing)) if self.is_lost(&error) => self.come_back(batch.untold, error, committing),
            Err((error, _)) => self.undo(batch, error),
        }
    }

    fn tell_done(&mut self, batch: Batch) {
        match &batch.failed {
            Some(error) => _ = self.shared.trouble.note_failure(error),
            None => self.shared.trouble.succeeded(),
        }
        self.attempts.found_writable();
        batch.untold.into_iter().for_each(|queued| queued.operation.tell(None));
    }

    /// Undoes a batch, and runs the blameless operations again.
    fn undo(&mut self, batch: Batch, error: StoreError) {
        self.connection.rollback();
        let (operations, runs) = (batch.untold, batch.runs + 1);
        let is_bare = self.connection.savepoints().is_none();
        let is_remote = self.connection.remote().is_some();
        if is_bare && operations.len() > 1 && !Trouble::is_of(&error) {
            self.count(|counts| &counts.retries);
            return self.run_alone(operations, batch.runs);
        }
        if error.is_conflict() && runs < RUNS {
            self.count(|counts| &counts.retries);
            if is_remote {
                std::thread::sleep(attempts::jitter(CONFLICT_PAUSE * runs as u32));
            }
            return self.again.push_front(Portion { operations, runs, refused: None });
        }
        if is_remote && matches!(error, StoreError::ReadOnly(_)) && self.attempts.found_read_only(&error) {
            self.shared.trouble.note_failure(&error);
            return self.come_back(operations, error, None);
        }
        // With savepoints, an operation's own error doesn't get here.
        let is_of_one = is_bare && operations.len() == 1 && !Trouble::is_of(&error);
        if !self.shared.trouble.note_failure(&error) && !is_of_one {
            tracing::error!(%error, operations = operations.len(), "a transaction failed");
        }
        self.again.push_front(Portion { operations, runs, refused: Some(error) });
    }

    /// Runs operations again, each in a transaction of its own.
    fn run_alone(&mut self, operations: Vec<Queued>, runs: usize) {
        for queued in operations.into_iter().rev() {
            self.again.push_front(Portion { operations: vec![queued], runs, refused: None });
        }
    }

    fn count(&self, count: fn(&Counts) -> &AtomicU64) {
        count(&self.shared.counts).fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;

/// The time for which a batch may collect operations: the longest wait of an operation for those
/// before it, apart from the disk.
const BATCH_TIME: Duration = Duration::from_millis(4);

/// The most times that an operation is run while others interfere.
const RUNS: usize = 5;

/// The pause before an operation is run again after others interfered, times the number of its
/// runs.
const CONFLICT_PAUSE: Duration = Duration::from_millis(20);

/// The most operations that a batch may have.
const BATCH_OPERATIONS: usize = 2048;
