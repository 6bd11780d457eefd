//! The common part of connections to engines in other processes: a transaction that begins with its
//! first statement, or none if it isn't needed, and the cache of archives, which is valid until
//! another process removes something from them.

use super::archives::KnownArchives;
use super::connection::{EachRow, SqlConnection, SqlValue};
use super::dialect::Dialect;
use super::fence::Fence;
use super::transactions::{Remote, Transactions};
use crate::StoreError;
use crate::archive::TermsOf;
use crate::error::EngineWords;
use crate::pending::words;
use std::fmt;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// The state that connections to all engines in other processes have in common.
pub(crate) struct ConnectionState {
    /// The key of the connection's row in `rookery_lanes`.
    pub(crate) lane: i64,
    pub(crate) transaction: Transaction,
    archives: KnownArchives,
    /// The epoch in which the cached archives were read, and whether it was checked in this
    /// transaction.
    epoch: Option<i64>,
    is_epoch_seen: bool,
    /// Returns the terms of messages for the index of searches; `None` if there is none.
    terms_of: Option<TermsOf>,
    fence: Arc<Fence>,
}

/// The stages of a transaction.
#[derive(Clone, Debug)]
pub(crate) enum Transaction {
    None,
    /// It is begun with the first statement; with the batch if it writes.
    Due(Option<u64>),
    /// It is open; with the batch if it writes.
    Open(Option<u64>),
    /// There is none, for statements that only read and need none.
    Glance,
    /// It has failed, but is still to be rolled back.
    Failed(StoreError),
}

impl ConnectionState {
    /// Returns the state of a lane with a random key.
    ///
    /// # Errors
    ///
    /// The system's error if it can't provide random numbers.
    pub(crate) fn new(terms_of: Option<TermsOf>, fence: Arc<Fence>) -> Result<ConnectionState, getrandom::Error> {
        let mut key = [0; 8];
        getrandom::fill(&mut key)?;
        let (transaction, archives) = (Transaction::None, KnownArchives::default());
        let lane = i64::from_be_bytes(key);
        Ok(ConnectionState { lane, transaction, archives, epoch: None, is_epoch_seen: false, terms_of, fence })
    }

    /// Returns the name of the connection's sessions, which distinguishes them on the server.
    pub(crate) fn name(&self) -> String {
        name_of(self.lane)
    }

    /// Returns whether the connection writes as one of a process: its row exists, or others have
    /// taken over.
    pub(crate) fn is_enlisted(&self) -> bool {
        self.fence.is_enlisted(self.lane)
    }

    pub(crate) fn fence(&self) -> Arc<Fence> {
        self.fence.clone()
    }

    /// Drops cached data that a new session lacks.
    pub(crate) fn start_again(&mut self) {
        (self.transaction, self.epoch) = (Transaction::None, None);
        self.archives.forget_all();
    }

    /// Records how an error affects the transaction.
    pub(crate) fn fail(&mut self, error: &StoreError) {
        if matches!(error, StoreError::Lost(_)) {
            self.transaction = Transaction::None;
        } else if !matches!(self.transaction, Transaction::None) {
            self.transaction = Transaction::Failed(error.clone());
        }
    }

    fn is_open(&self) -> bool {
        matches!(self.transaction, Transaction::Due(_) | Transaction::Open(_) | Transaction::Glance)
    }

    fn note_epoch(&mut self, epoch: Option<i64>) {
        if epoch.is_none() || epoch != self.epoch {
            self.archives.forget_known();
        }
        (self.epoch, self.is_epoch_seen) = (epoch, true);
    }
}

/// Returns the name of the sessions of the connection with this key.
pub(crate) fn name_of(lane: i64) -> String {
    format!("rookery {:016x}", lane.cast_unsigned())
}

/// A connection to an engine in another process.
pub(crate) trait RemoteConnection: Remote {
    /// The engine's SQL dialect.
    const DIALECT: Dialect;

    /// The database's time in milliseconds of Unix time, in that dialect.
    const NOW_MS: &'static str;

    fn state(&self) -> &ConnectionState;

    fn state_mut(&mut self) -> &mut ConnectionState;

    /// Returns the database's message, with its name.
    fn engine(&self, message: String) -> EngineWords;

    fn has_session(&self) -> bool;

    /// Drops the session, which is lost.
    fn leave_session(&mut self);

    /// Runs a statement, after beginning the transaction if that is due. Returns the number of rows
    /// that it changed or returned.
    fn statement(
        &mut self,
        sql: &'static str,
        values: &[SqlValue<'_>],
        each: Option<&mut EachRow<'_>>,
    ) -> Result<u64, StoreError>;

    /// Reads the epoch of the archives, after beginning the transaction if that is due.
    fn read_epoch(&mut self) -> Result<Option<i64>, StoreError>;

    /// Commits a writing transaction. Returns the epoch that has begun with it, if there is a new
    /// one.
    fn commit_writes(&mut self, is_new_epoch: bool) -> Result<Option<i64>, StoreError>;

    /// Sends the end of a transaction, without waiting for the answer.
    fn send(&mut self, end: &'static str);

    /// Runs statements outside of operations, such as those of the schema and of settings. Returns
    /// the first column of their rows.
    fn column(&mut self, statements: &str) -> Result<Vec<String>, StoreError>;

    /// Returns the time of the database, in milliseconds of Unix time.
    fn now_ms(&mut self) -> Result<i64, StoreError> {
        Ok(self.column(&format!("SELECT {}", Self::NOW_MS))?.concat().parse().unwrap_or_default())
    }

    /// Removes the rows of connections that ended, including those of servers that didn't stop
    /// properly.
    fn forget_ended(&mut self) -> Result<(), StoreError> {
        // A connection of a process in a cluster may have nothing to write for a long time.
        let ended = format!("since_ms < {} - {MONTH_MS} AND (node IS NULL OR fenced_ms IS NOT NULL)", Self::NOW_MS);
        self.column(&format!("DELETE FROM rookery_lanes WHERE {ended}")).map(drop)
    }

    /// Counts the nodes of a cluster that write to the database.
    fn count_nodes(&mut self) -> Result<usize, StoreError> {
        let count = "SELECT COUNT(DISTINCT node) FROM rookery_lanes WHERE node IS NOT NULL AND fenced_ms IS NULL";
        Ok(self.column(count)?.concat().parse().unwrap_or_default())
    }

    /// Returns an error if there is no session.
    fn expect_session(&mut self) -> Result<(), StoreError> {
        if self.has_session() { Ok(()) } else { Err(self.fail_as_lost("not connected")) }
    }

    /// Notes that the session is lost. Returns the error.
    fn fail_as_lost(&mut self, why: &str) -> StoreError {
        self.fail(StoreError::Lost(self.engine(why.to_owned())))
    }

    /// Notes that the connection is lost because a request has no answer. Returns the error.
    fn fail_unanswered(&mut self, why: &Unanswered) -> StoreError {
        self.fail_as_lost(&why.to_string())
    }

    /// Notes that others have taken over from this process. Returns the error.
    fn fail_as_fenced(&mut self) -> StoreError {
        self.state().fence.close();
        self.fail(StoreError::Fenced(self.engine("its row in rookery_lanes is marked".to_owned())))
    }

    /// Records how an error affects the session and its transaction.
    fn fail(&mut self, error: StoreError) -> StoreError {
        if matches!(error, StoreError::Lost(_)) {
            self.leave_session();
        }
        self.state_mut().fail(&error);
        error
    }

    /// Empties the cache of archives if others have removed messages from them.
    fn look_again(&mut self) -> Result<(), StoreError> {
        let epoch = self.read_epoch()?;
        self.state_mut().note_epoch(epoch);
        Ok(())
    }

    /// Returns the cache of archives, emptied if others have removed messages from them.
    fn archives(&mut self) -> &mut KnownArchives {
        if self.state().is_open() && !self.state().is_epoch_seen {
            match self.read_epoch() {
                Ok(epoch) => self.state_mut().note_epoch(epoch),
                // The error occurs again at the next statement.
                Err(_) => self.state_mut().archives.forget_all(),
            }
        }
        &mut self.state_mut().archives
    }
}

impl<D: RemoteConnection> SqlConnection for D {
    fn dialect(&self) -> Dialect {
        D::DIALECT
    }

    fn execute(&mut self, sql: &'static str, values: &[SqlValue<'_>]) -> Result<u64, StoreError> {
        self.statement(sql, values, None)
    }

    fn query(&mut self, sql: &'static str, values: &[SqlValue<'_>], each: &mut EachRow<'_>) -> Result<(), StoreError> {
        self.statement(sql, values, Some(each)).map(drop)
    }

    fn corrupt(&self, what: String) -> StoreError {
        StoreError::Corrupt(self.engine(what))
    }

    fn renew_archives(&mut self) -> Result<(), StoreError> {
        self.look_again()
    }

    fn known_archives(&mut self) -> &mut KnownArchives {
        self.archives()
    }

    fn terms_of(&self) -> Option<TermsOf> {
        self.state().terms_of
    }
}

impl<D: RemoteConnection> Transactions for D {
    fn begin_read(&mut self) -> Result<(), StoreError> {
        (self.state_mut().transaction, self.state_mut().is_epoch_seen) = (Transaction::Due(None), false);
        self.expect_session()
    }

    fn begin_glance(&mut self) -> Result<(), StoreError> {
        (self.state_mut().transaction, self.state_mut().is_epoch_seen) = (Transaction::Glance, false);
        self.expect_session()
    }

    fn begin_write(&mut self, batch: u64) -> Result<(), StoreError> {
        if self.state().fence.is_fenced() {
            return Err(self.fail_as_fenced());
        }
        (self.state_mut().transaction, self.state_mut().is_epoch_seen) = (Transaction::Due(Some(batch)), false);
        self.expect_session()
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        match self.state().transaction.clone() {
            Transaction::None | Transaction::Due(_) | Transaction::Glance => {}
            Transaction::Failed(error) => return Err(error),
            Transaction::Open(None) => self.send("COMMIT"),
            Transaction::Open(Some(_)) => {
                let is_new_epoch = self.state_mut().archives.take_changed();
                let epoch = self.commit_writes(is_new_epoch)?;
                if is_new_epoch {
                    self.state_mut().epoch = epoch;
                }
            }
        }
        self.state_mut().transaction = Transaction::None;
        Ok(())
    }

    fn rollback(&mut self) {
        let state = self.state_mut();
        state.archives.forget_all();
        let before = std::mem::replace(&mut state.transaction, Transaction::None);
        if let Transaction::Open(_) | Transaction::Failed(_) = before {
            self.send("ROLLBACK");
        }
    }

    fn in_transaction(&self) -> bool {
        self.state().is_open()
    }

    fn remote(&mut self) -> Option<&mut dyn Remote> {
        Some(self)
    }
}

/// Makes a runtime that runs on the connection's thread, and only while that waits for an answer.
///
/// # Errors
///
/// The system's error if it can't provide a runtime.
pub(crate) fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Waits for an answer up to a limit.
///
/// # Errors
///
/// [`Unanswered`]: there is no answer in time, or the driver has panicked. The connection can't be
/// used any more.
pub(crate) fn within<T>(runtime: &Runtime, limit: Duration, answer: impl Future<Output = T>) -> Result<T, Unanswered> {
    catch_panic(|| runtime.block_on(async { timeout(limit, answer).await.map_err(|_| Unanswered::Late) }))?
}

/// Runs a driver. Drivers read what a server sends, which may be broken or hostile, and some of it
/// makes them panic: that costs the connection, not the process.
///
/// # Errors
///
/// [`Unanswered::Panicked`].
pub(crate) fn catch_panic<T>(run: impl FnOnce() -> T) -> Result<T, Unanswered> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| Unanswered::Panicked(words(panic.as_ref())))
}

/// The reasons why a request has no answer.
#[derive(Debug)]
pub(crate) enum Unanswered {
    Late,
    /// The driver has panicked, with these words.
    Panicked(String),
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unanswered::Late => f.write_str("no answer in time"),
            Unanswered::Panicked(words) => write!(f, "its answer makes the driver panic: {words}"),
        }
    }
}

/// Returns the time that a transaction may be open without a statement before the server ends it:
/// that only happens if the machine stalls, and its locks hold up others.
pub(crate) fn idle(limit: Duration) -> Duration {
    limit.max(IDLE)
}

const IDLE: Duration = Duration::from_secs(10);

/// The time without a transaction after which a connection counts as ended.
const MONTH_MS: u64 = 30 * 24 * 60 * 60 * 1000;

/// Returns true if an answer has more bytes than a valid one can have, which means that the server
/// is broken.
pub(crate) fn is_too_much(bytes: usize) -> bool {
    bytes > MOST_BYTES
}

/// The fault of a server that returns too much.
pub(crate) const TOO_MUCH: &str = "it gives more than was asked for";

/// The most bytes of an answer: each of a thousand copied rows may have a mebibyte.
const MOST_BYTES: usize = 1 << 30;

/// The most rows of a result that is read completely: a server that sends more is broken.
pub(crate) const MOST_ROWS: usize = 10_000;
