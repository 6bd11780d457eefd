//! PostgreSQL's side of [`Connection`].
//!
//! Each connection has its own runtime, which runs on the connection's thread and only while that
//! waits for an answer: to the rest of the store it is a blocking connection. The beginning of a
//! transaction is sent together with its first statement, and the end of one that only reads isn't
//! waited for.
//!
//! # Invariants
//!
//! - After any error of the database the transaction counts as over: PostgreSQL refuses everything
//!   but its end.
//! - Operations that PostgreSQL hasn't answered within the limit are lost, together with the
//!   connection.

use super::answers::{StatementFailed, answers};
use super::target::{ConnectionEnd, PostgresConnected, PostgresTarget};
use super::values::PostgresRow;
use crate::StoreError;
use crate::error::EngineWords;
use crate::sql::connection::{EachRow, SqlValue};
use crate::sql::dialect::{Dialect, number_values};
use crate::sql::hosts::HostFound;
use crate::sql::opening::Openable;
use crate::sql::remote::{
    ConnectionState, RemoteConnection, TOO_MUCH, Transaction, catch_panic, idle, is_too_much, runtime, within,
};
use crate::sql::transactions::Remote;
use futures_util::{TryStreamExt, future};
use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, SimpleQueryMessage, Statement};

/// A connection to one database.
pub(super) struct PostgresDriver {
    target: Arc<PostgresTarget>,
    /// The time limit for an answer.
    limit: Duration,
    runtime: Runtime,
    /// `None` if the connection is lost.
    session: Option<PostgresSession>,
    state: ConnectionState,
}

struct PostgresSession {
    client: Client,
    end: ConnectionEnd,
    /// The prepared statements, by the addresses of their texts in memory, which are static.
    prepared: HashMap<(usize, usize), Statement>,
    /// True if the host can't be written to.
    is_read_only: bool,
}

impl PostgresDriver {
    /// Connects, with a time limit for answers.
    pub(super) fn open(target: Arc<PostgresTarget>, limit: Duration) -> Result<PostgresDriver, StoreError> {
        let other = |error: String| StoreError::Other(target.engine(error));
        let runtime = runtime().map_err(|error| other(error.to_string()))?;
        let state =
            ConnectionState::new(target.terms_of, target.fence.clone()).map_err(|error| other(error.to_string()))?;
        let mut driver = PostgresDriver { target: target.clone(), limit, runtime, session: None, state };
        driver.reopen()?;
        Ok(driver)
    }

    /// Sets the time limit for answers from now on. Returns the previous one.
    pub(super) fn wait_for(&mut self, limit: Duration) -> Result<Duration, StoreError> {
        let before = std::mem::replace(&mut self.limit, limit);
        self.simple(&self.limits())?;
        Ok(before)
    }

    /// Returns the settings that make the server give up before us, and end silent sessions.
    fn limits(&self) -> String {
        let answer = self.limit.saturating_sub(Duration::from_secs(1)).as_millis();
        let idle = idle(self.limit).as_millis();
        format!(
            "SET statement_timeout = {answer}; SET lock_timeout = {LOCK_MS}; \
             SET idle_in_transaction_session_timeout = {idle}"
        )
    }

    /// Returns the name of the database for display.
    pub(super) fn database(&self) -> &str {
        &self.target.name
    }

    pub(super) fn target(&self) -> &PostgresTarget {
        &self.target
    }

    /// Returns whether a proxy assigns a shared session to each transaction, as PgBouncer does with
    /// `pool_mode = transaction`: another connection sets a value in its session, which must not be
    /// visible in this one.
    pub(super) fn shares_sessions(&mut self) -> Result<bool, StoreError> {
        let mut other = PostgresDriver::open(self.target.clone(), self.limit)?;
        self.run(&format!("SET rookery.session = 'a{}'", self.state.lane))?;
        other.run(&format!("SET rookery.session = 'a{}'", other.state.lane))?;
        // If sessions take turns, one of two in a row is another one.
        for _ in 0..2 {
            if self.run("SELECT current_setting('rookery.session', true)")? != [format!("a{}", self.state.lane)] {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Runs statements outside of operations: schema and settings. Returns the first column of
    /// their rows.
    pub(super) fn run(&mut self, statements: &str) -> Result<Vec<String>, StoreError> {
        let messages = self.simple(statements)?;
        let first = |message: SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
            _ => None,
        };
        Ok(messages.into_iter().filter_map(first).collect())
    }

    fn error_of(&mut self, failed: StatementFailed) -> StoreError {
        match failed {
            StatementFailed::Database(error) => self.note_failure(&error),
            StatementFailed::TooMuch => self.fail_as_lost(TOO_MUCH),
            StatementFailed::Row(error) => error,
        }
    }

    fn note_failure(&mut self, error: &Error) -> StoreError {
        let end = self.session.as_ref().and_then(|session| session.end.get()).map(|end| end.why.clone());
        if let Some(end) = end.filter(|_| error.is_closed()) {
            return self.fail_as_lost(&end);
        }
        let is_gone =
            |code: &SqlState| *code == SqlState::INVALID_SQL_STATEMENT_NAME || *code == SqlState::DUPLICATE_PSTATEMENT;
        if error.code().is_some_and(is_gone) {
            if let Some(session) = &mut self.session {
                session.prepared.clear();
            }
            let error = StoreError::Unfit(self.target.engine(POOLED.to_owned()));
            return self.fail(error);
        }
        if error.code().is_some_and(|code| *code == SqlState::FEATURE_NOT_SUPPORTED) {
            // A table was changed, and with it the results of prepared statements.
            if let Some(session) = &mut self.session {
                session.prepared.clear();
            }
            return self.fail(StoreError::Conflict(self.target.engine(error.to_string())));
        }
        let error = self.target.failure(error);
        self.fail(error)
    }

    /// Runs statements without values and waits for their results.
    fn simple(&mut self, statements: &str) -> Result<Vec<SimpleQueryMessage>, StoreError> {
        let Some(session) = &self.session else { return Err(self.fail_as_lost("not connected")) };
        match within(&self.runtime, self.limit, answers(&session.client, statements)) {
            Ok(Ok(messages)) => Ok(messages),
            Ok(Err(failed)) => Err(self.error_of(failed)),
            Err(why) => Err(self.fail_unanswered(&why)),
        }
    }

    /// Returns the prepared statement for a text.
    fn prepare(&mut self, sql: &'static str) -> Result<Statement, StoreError> {
        let key = (sql.as_ptr().addr(), sql.len());
        let Some(session) = &mut self.session else { return Err(self.fail_as_lost("not connected")) };
        if let Some(prepared) = session.prepared.get(&key) {
            return Ok(prepared.clone());
        }
        let prepared = match within(&self.runtime, self.limit, session.client.prepare(&number_values(sql))) {
            Ok(Ok(statement)) => statement,
            Ok(Err(error)) => return Err(self.note_failure(&error)),
            Err(why) => return Err(self.fail_unanswered(&why)),
        };
        session.prepared.insert(key, prepared.clone());
        Ok(prepared)
    }

    /// Notes that [`begin`] has begun the transaction that was due.
    fn has_begun(&mut self, answers: &[SimpleQueryMessage], is_guarded: bool) -> Result<(), StoreError> {
        let Transaction::Due(batch) = self.state.transaction else { return Ok(()) };
        self.state.transaction = Transaction::Open(batch);
        let noted = answers.iter().filter_map(|answer| match answer {
            SimpleQueryMessage::CommandComplete(rows) => Some(*rows),
            _ => None,
        });
        // The first result is that of BEGIN, the second that of the batch's record.
        if let (Some(batch), Some(0)) = (batch, noted.take(2).last()) {
            if is_guarded {
                return Err(self.fail_as_fenced());
            }
            let lane = self.state.lane;
            // The connection may have been enlisted in the meantime.
            self.simple(&format!(
                "INSERT INTO rookery_lanes (lane, batch, since_ms) VALUES ({lane}, {batch}, {NOW_MS}) \
                 ON CONFLICT (lane) DO UPDATE SET batch = EXCLUDED.batch, since_ms = EXCLUDED.since_ms"
            ))?;
        }
        Ok(())
    }
}

/// Returns the statements that begin a transaction, with the batch if it writes. With `is_guarded`,
/// a mark in the connection's row prevents that.
fn begin(batch: Option<u64>, lane: i64, is_guarded: bool) -> String {
    let unless = if is_guarded { " AND fenced_ms IS NULL" } else { "" };
    match batch {
        // Rows that will be changed are locked when they are read, by statements that read their
        // newest state.
        Some(batch) => {
            format!(
                "BEGIN ISOLATION LEVEL READ COMMITTED; \
                 UPDATE rookery_lanes SET batch = {batch}, since_ms = {NOW_MS} WHERE lane = {lane}{unless};"
            )
        }
        None => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;".to_owned(),
    }
}

async fn run(
    client: &Client,
    prepared: &Statement,
    values: &[SqlValue<'_>],
    mut each: Option<&mut EachRow<'_>>,
    database: &str,
) -> Result<u64, StatementFailed> {
    let rows = client.query_raw(prepared, values.iter().copied()).await;
    let (mut rows, mut bytes) = (pin!(rows.map_err(StatementFailed::Database)?), 0);
    while let Some(row) = rows.try_next().await.map_err(StatementFailed::Database)? {
        bytes += row.raw_size_bytes();
        if is_too_much(bytes) {
            return Err(StatementFailed::TooMuch);
        }
        if let Some(each) = &mut each
            && each(&PostgresRow { row, database }).map_err(StatementFailed::Row)?.is_break()
        {
            break;
        }
    }
    Ok(rows.rows_affected().unwrap_or_default())
}

impl RemoteConnection for PostgresDriver {
    const DIALECT: Dialect = Dialect::Postgres;
    const NOW_MS: &'static str = NOW_MS;

    fn state(&self) -> &ConnectionState {
        &self.state
    }

    fn state_mut(&mut self) -> &mut ConnectionState {
        &mut self.state
    }

    fn engine(&self, message: String) -> EngineWords {
        self.target.engine(message)
    }

    fn column(&mut self, statements: &str) -> Result<Vec<String>, StoreError> {
        self.run(statements)
    }

    fn has_session(&self) -> bool {
        self.session.is_some()
    }

    fn leave_session(&mut self) {
        self.session = None;
    }

    fn statement(
        &mut self,
        sql: &'static str,
        values: &[SqlValue<'_>],
        each: Option<&mut EachRow<'_>>,
    ) -> Result<u64, StoreError> {
        if let Transaction::Failed(error) = &self.state.transaction {
            return Err(error.clone());
        }
        let prepared = self.prepare(sql)?;
        let Some(session) = &self.session else { return Err(self.fail_as_lost("not connected")) };
        // Read only once, since it may change at any time.
        let is_guarded = self.state.is_enlisted();
        let begin = match self.state.transaction {
            Transaction::Due(batch) => Some(begin(batch, self.state.lane, is_guarded)),
            _ => None,
        };
        let began = async {
            match &begin {
                Some(begin) => answers(&session.client, begin).await,
                None => Ok(Vec::new()),
            }
        };
        let ran = run(&session.client, &prepared, values, each, &self.target.name);
        let answered = within(&self.runtime, self.limit, future::join(began, ran));
        let (began, ran) = match answered {
            Ok(both) => both,
            Err(why) => return Err(self.fail_unanswered(&why)),
        };
        let began = began.map_err(|failed| self.error_of(failed))?;
        if begin.is_some()
            && let Err(StatementFailed::Database(error)) = &ran
        {
            // This transaction accepts no further statements, not even the record of its batch.
            return Err(self.note_failure(error));
        }
        if begin.is_some() {
            self.has_begun(&began, is_guarded)?;
        }
        ran.map_err(|failed| self.error_of(failed))
    }

    fn read_epoch(&mut self) -> Result<Option<i64>, StoreError> {
        let is_guarded = self.state.is_enlisted();
        let due = match self.state.transaction {
            Transaction::Due(batch) => begin(batch, self.state.lane, is_guarded),
            _ => String::new(),
        };
        let answers = self.simple(&format!("{due}SELECT value FROM rookery_epoch"))?;
        self.has_begun(&answers, is_guarded)?;
        Ok(integer(&answers))
    }

    fn commit_writes(&mut self, is_new_epoch: bool) -> Result<Option<i64>, StoreError> {
        let answers = self.simple(if is_new_epoch { COMMIT_NEW_EPOCH } else { "COMMIT" })?;
        Ok(integer(&answers))
    }

    fn send(&mut self, end: &'static str) {
        let Some(session) = &self.session else { return };
        self.runtime.block_on(async {
            let mut sent = pin!(session.client.batch_execute(end));
            future::poll_fn(|cx| {
                // The first poll hands it to the connection, whose task sends it when it runs next.
                let _ = sent.as_mut().poll(cx);
                Poll::Ready(())
            })
            .await;
            tokio::task::yield_now().await;
        });
    }
}

/// Returns the first number of an answer.
fn integer(answers: &[SimpleQueryMessage]) -> Option<i64> {
    answers.iter().find_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
        _ => None,
    })
}

impl Openable for PostgresDriver {
    type Target = PostgresTarget;

    fn connect(target: &Arc<PostgresTarget>, limit: Duration) -> Result<PostgresDriver, StoreError> {
        PostgresDriver::open(target.clone(), limit)
    }

    fn allow(&mut self, limit: Duration) -> Result<(), StoreError> {
        self.wait_for(limit).map(drop)
    }

    fn hosts(&self) -> Vec<HostFound> {
        catch_panic(|| self.runtime.block_on(self.target.each_host(&self.state.name()))).unwrap_or_default()
    }
}

impl Remote for PostgresDriver {
    fn reopen(&mut self) -> Result<(), StoreError> {
        self.session = None;
        self.state.start_again();
        let name = self.state.name();
        let connected = catch_panic(|| self.runtime.block_on(self.target.connect(&name)));
        let connected = connected.map_err(|why| self.target.nonsense(&why))??;
        let PostgresConnected { client, end, is_read_only } = connected;
        self.session = Some(PostgresSession { client, end, prepared: HashMap::new(), is_read_only });
        // The server may not have noticed that the previous session is lost.
        self.simple(&format!("{}; {BY_INDEX}; {END_SESSIONS} AND application_name = '{name}'", self.limits())).map(drop)
    }

    fn ping(&mut self) -> Result<(), StoreError> {
        self.run("SELECT 1").map(drop)
    }

    fn has_committed(&mut self, batch: u64) -> Result<bool, StoreError> {
        let lane = self.state.lane;
        // Writes something, so that the awaited replicas acknowledge this write together with the
        // changes in question. If the connection has no row of its own, this is another row, since
        // one that its first transaction has made can't be seen before that is committed.
        let (mine, row) = match self.state.is_enlisted() {
            true => (format!("UPDATE rookery_lanes SET since_ms = {NOW_MS} WHERE lane = {lane}"), ""),
            false => (
                format!("INSERT INTO rookery_lanes (lane, batch, since_ms) VALUES ({lane}, {NO_BATCH}, {NOW_MS})"),
                " ON CONFLICT (lane) DO UPDATE SET since_ms = excluded.since_ms",
            ),
        };
        let found = self.run(&format!("{mine}{row} RETURNING batch"))?;
        Ok(found.first().is_some_and(|found| *found == batch.to_string()))
    }

    fn is_read_only(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.is_read_only)
    }
}

/// Ends sessions that hold locks or a snapshot. A session that waits for replicas is left alone:
/// its work is done, even if the result isn't received.
pub(super) const END_SESSIONS: &str = "\
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = current_user AND pid <> pg_backend_pid() \
    AND state <> 'idle' AND wait_event IS DISTINCT FROM 'SyncRep'";

/// The database's time, which may differ from this machine's.
pub(super) const NOW_MS: &str = "(EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint";

/// The number of no batch, since batches count from 1.
const NO_BATCH: u64 = 0;

/// Ends a transaction that has removed messages from archives.
const COMMIT_NEW_EPOCH: &str = "UPDATE rookery_epoch SET value = value + 1 RETURNING value; COMMIT";

/// Statements here need a few rows, in the order of an index, from tables that will be large. By
/// default, PostgreSQL reads all rows of a table that it considers small, or of an owner, and sorts
/// them before it returns the first. Tables that have to be read as a whole still are, but at an
/// estimated cost for which plans must not be compiled.
const BY_INDEX: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET jit = off";

/// The message for a session that isn't the connection's own.
pub(super) const POOLED: &str = "something between it and this server, such as PgBouncer with pool_mode = transaction, gives each transaction another \
    session: what was prepared and set in one is missing in the next; connect directly, or set pool_mode = session and a pool of at least \
    `connections` + 3 for each server";

/// The milliseconds for which a statement waits for a row that another connection has locked.
const LOCK_MS: u32 = 2000;
