//! MariaDB's and MySQL's side of [`Connection`].
//!
//! Each connection has its own runtime, which runs on the connection's thread, and only while that
//! waits for an answer: to the rest of the store it is a blocking connection. Single-statement
//! reads have no transaction, and the end of one without writes isn't waited for.
//!
//! # Invariants
//!
//! - After any error of the database the transaction counts as over: some errors roll back all of
//!   it, others a statement, and the error doesn't say which.
//! - Operations that the server hasn't answered within the limit are lost, together with the
//!   connection.
//! - Texts and values travel as bytes: no character set is converted.

use super::answers::{answers, integer, too_much};
use super::failure::{ends_connection, failure, takes_statements};
use super::target::{MysqlConnected, MysqlTarget};
use super::values::{MysqlRow, parameters, size};
use crate::StoreError;
use crate::error::EngineWords;
use crate::sql::connection::{EachRow, SqlValue};
use crate::sql::dialect::Dialect;
use crate::sql::hosts::HostFound;
use crate::sql::opening::Openable;
use crate::sql::remote::{
    ConnectionState, RemoteConnection, Transaction, catch_panic, idle, is_too_much, runtime, within,
};
use crate::sql::transactions::Remote;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Params, Statement};
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::runtime::Runtime;

/// A connection to one database.
pub(super) struct MysqlDriver {
    target: Arc<MysqlTarget>,
    /// The time limit for an answer.
    limit: Duration,
    runtime: Runtime,
    /// `None` if the connection is lost.
    session: Option<MysqlSession>,
    state: ConnectionState,
}

struct MysqlSession {
    link: MysqlLink,
    /// The prepared statements, by the addresses of their texts in memory, which are static.
    prepared: HashMap<(usize, usize), Statement>,
    version: String,
    is_mariadb: bool,
    /// True if the host can't be written to.
    is_read_only: bool,
    /// The most bytes that may be sent at once.
    packet: usize,
}

enum MysqlLink {
    Ready(Conn),
    /// The end of a transaction was sent and not answered yet.
    Ending(Ending),
    /// The connection was taken for a request that waits for its answer.
    Taken,
}

type Ending = Pin<Box<dyn Future<Output = (Conn, Result<(), Error>)> + Send>>;

impl MysqlDriver {
    /// Connects, with a time limit for answers.
    pub(super) fn open(target: Arc<MysqlTarget>, limit: Duration) -> Result<MysqlDriver, StoreError> {
        let other = |error: String| StoreError::Other(target.engine(error));
        let runtime = runtime().map_err(|error| other(error.to_string()))?;
        let state =
            ConnectionState::new(target.terms_of, target.fence.clone()).map_err(|error| other(error.to_string()))?;
        let mut driver = MysqlDriver { target: target.clone(), limit, runtime, session: None, state };
        driver.reopen()?;
        Ok(driver)
    }

    /// Opens another connection to the same database.
    pub(super) fn another(&self, limit: Duration) -> Result<MysqlDriver, StoreError> {
        MysqlDriver::open(self.target.clone(), limit)
    }

    /// Returns the name of the database for display.
    pub(super) fn database(&self) -> &str {
        &self.target.name
    }

    pub(super) fn target(&self) -> &MysqlTarget {
        &self.target
    }

    /// Sets up a new session, and ends the previous one if the server hasn't noticed that it is
    /// lost, since that one holds locks. Each session has a lock with the connection's name, since
    /// sessions have no names.
    fn set_up(&mut self) -> Result<(), StoreError> {
        let name = self.state.name();
        let lock = |seconds: u32| format!("SELECT GET_LOCK('{name}', {seconds})");
        let locked = self.simple(&format!("{SESSION}; {}; {}", self.limits(), lock(0)))?;
        if integer(&locked) == Some(1) {
            return Ok(());
        }
        if let Some(session) = integer(&self.run(&format!("SELECT IS_USED_LOCK('{name}')"))?) {
            // The session may have ended by itself.
            drop(self.run(&format!("KILL {session}")));
            self.expect_session()?;
        }
        if integer(&self.run(&lock(LOCK_S))?) != Some(1) {
            // Without the lock, this session couldn't be ended later.
            return Err(self.fail_as_lost("another session has the lock of this connection"));
        }
        Ok(())
    }

    /// Returns the server's version as text, and true if it is MariaDB.
    pub(super) fn version(&self) -> (&str, bool) {
        self.session.as_ref().map_or(("", true), |session| (&session.version, session.is_mariadb))
    }

    /// Sets the time limit for answers from now on. Returns the previous one.
    pub(super) fn wait_for(&mut self, limit: Duration) -> Result<Duration, StoreError> {
        let before = std::mem::replace(&mut self.limit, limit);
        self.simple(&self.limits())?;
        Ok(before)
    }

    /// Returns the settings that make the server give up before us, and end silent sessions.
    fn limits(&self) -> String {
        let answer = self.limit.saturating_sub(Duration::from_secs(1));
        let (idle, (_, is_mariadb)) = (idle(self.limit).as_secs(), self.version());
        match is_mariadb {
            true => {
                format!("SET SESSION max_statement_time = {}, idle_transaction_timeout = {idle}", answer.as_secs())
            }
            // MySQL's statistics of tables must be current.
            false => {
                format!("SET SESSION max_execution_time = {}, information_schema_stats_expiry = 0", answer.as_millis())
            }
        }
    }

    /// Runs statements outside of operations: schema and settings. Returns their rows.
    pub(super) fn run(&mut self, statements: &str) -> Result<Vec<Vec<String>>, StoreError> {
        self.simple(statements)
    }

    fn note_failure(&mut self, error: &Error) -> StoreError {
        if ends_connection(error) {
            self.session = None;
        }
        if let Some(session) = &mut self.session
            && takes_statements(error)
        {
            session.prepared.clear();
        }
        let error = failure(&self.target.name, error);
        self.fail(error)
    }

    /// Takes the connection for use, after the answer to the previous request.
    fn take(&mut self) -> Result<Conn, StoreError> {
        let Some(session) = &mut self.session else { return Err(self.fail_as_lost("not connected")) };
        match std::mem::replace(&mut session.link, MysqlLink::Taken) {
            MysqlLink::Ready(conn) => Ok(conn),
            MysqlLink::Taken => Err(self.fail_as_lost("not connected")),
            MysqlLink::Ending(ending) => match within(&self.runtime, self.limit, ending) {
                Ok((conn, Ok(()))) => Ok(conn),
                Ok((_, Err(error))) => {
                    self.session = None;
                    Err(self.fail_as_lost(&error.to_string()))
                }
                Err(why) => Err(self.fail_unanswered(&why)),
            },
        }
    }

    /// Puts the connection back.
    fn put(&mut self, conn: Conn) {
        if let Some(session) = &mut self.session {
            session.link = MysqlLink::Ready(conn);
        }
    }

    /// Uses the connection, and waits for the answer.
    fn with<T>(&mut self, ask: impl AsyncFnOnce(&mut Conn) -> Result<T, Error>) -> Result<T, StoreError> {
        let mut conn = self.take()?;
        match within(&self.runtime, self.limit, ask(&mut conn)) {
            Ok(outcome) => {
                self.put(conn);
                outcome.map_err(|error| self.note_failure(&error))
            }
            Err(why) => Err(self.fail_unanswered(&why)),
        }
    }

    /// Runs statements without values and waits for their results.
    fn simple(&mut self, statements: &str) -> Result<Vec<Vec<String>>, StoreError> {
        self.with(async |conn| answers(conn, statements).await)
    }

    /// Returns the prepared statement for a text.
    fn prepare(&mut self, sql: &'static str) -> Result<Statement, StoreError> {
        let key = (sql.as_ptr().addr(), sql.len());
        let known = self.session.as_ref().and_then(|session| session.prepared.get(&key));
        if let Some(prepared) = known {
            return Ok(prepared.clone());
        }
        let prepared = self.with(async |conn| conn.prep(sql).await)?;
        if let Some(session) = &mut self.session {
            session.prepared.insert(key, prepared.clone());
        }
        Ok(prepared)
    }

    /// Refuses values that are too large: the server would end the connection, and discard other
    /// operations' changes with it.
    fn expect_room(&mut self, values: &[SqlValue<'_>]) -> Result<(), StoreError> {
        let size = |value: &SqlValue<'_>| value.bytes() + LARGEST_HEAD;
        let (size, packet) = (values.iter().map(size).sum::<usize>(), self.session.as_ref().map_or(0, |at| at.packet));
        if self.session.is_none() || size + LARGEST_HEAD < packet {
            return Ok(());
        }
        let what = format!("an operation brings {size} bytes, and its max_allowed_packet is {packet}");
        let error = StoreError::Other(self.target.engine(what));
        Err(self.fail(error))
    }

    /// Begins the transaction if that is due, and then runs a statement. Returns the rows.
    fn begin(&mut self, behind: &str) -> Result<Vec<Vec<String>>, StoreError> {
        let is_guarded = matches!(self.state.transaction, Transaction::Due(Some(_))) && self.state.is_enlisted();
        let begin = match self.state.transaction {
            Transaction::Due(Some(batch)) if is_guarded => {
                let lane = self.state.lane;
                format!(
                    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION; \
                     UPDATE rookery_lanes SET batch = {batch}, since_ms = {NOW_MS} \
                     WHERE lane = {lane} AND fenced_ms IS NULL; SELECT ROW_COUNT(); "
                )
            }
            // Rows that will be changed are locked when they are read, by statements that read
            // their newest state.
            Transaction::Due(Some(batch)) => {
                let lane = self.state.lane;
                format!(
                    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION; \
                     INSERT INTO rookery_lanes (lane, batch, since_ms) VALUES ({lane}, {batch}, {NOW_MS}) \
                     ON DUPLICATE KEY UPDATE batch = VALUES(batch), since_ms = VALUES(since_ms); "
                )
            }
            Transaction::Due(None) => "START TRANSACTION READ ONLY; ".to_owned(),
            _ => String::new(),
        };
        let statements = begin + behind;
        let mut rows = if statements.is_empty() { Vec::new() } else { self.simple(&statements)? };
        if let Transaction::Due(batch) = self.state.transaction {
            self.state.transaction = Transaction::Open(batch);
        }
        if is_guarded && integer(&rows.drain(..1.min(rows.len())).collect::<Vec<_>>()) != Some(1) {
            return Err(self.fail_as_fenced());
        }
        Ok(rows)
    }
}

/// Runs a statement. The outer error is the database's, the inner one that of reading the rows.
async fn run(
    conn: &mut Conn,
    prepared: &Statement,
    values: Params,
    each: Option<&mut EachRow<'_>>,
    database: &str,
) -> Result<Result<u64, StoreError>, Error> {
    let mut answer = conn.exec_iter(prepared, values).await?;
    let (mut outcome, mut bytes) = (Ok(()), 0);
    if let Some(each) = each {
        while let Some(row) = answer.next().await? {
            bytes += size(&row);
            if is_too_much(bytes) {
                return Err(too_much());
            }
            match each(&MysqlRow { row, database }) {
                Ok(flow) if flow.is_continue() => {}
                other => {
                    outcome = other.map(drop);
                    break;
                }
            }
        }
    }
    let rows = answer.affected_rows();
    answer.drop_result().await?;
    Ok(outcome.map(|()| rows))
}

impl RemoteConnection for MysqlDriver {
    const DIALECT: Dialect = Dialect::Mysql;
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
        Ok(self.run(statements)?.into_iter().filter_map(|row| row.into_iter().next()).collect())
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
        self.expect_room(values)?;
        let prepared = self.prepare(sql)?;
        self.begin("")?;
        let (parameters, target) = (parameters(values), self.target.clone());
        self.with(async |conn| run(conn, &prepared, parameters, each, &target.name).await)?
    }

    fn read_epoch(&mut self) -> Result<Option<i64>, StoreError> {
        Ok(integer(&self.begin(EPOCH)?))
    }

    fn commit_writes(&mut self, is_new_epoch: bool) -> Result<Option<i64>, StoreError> {
        Ok(integer(&self.simple(if is_new_epoch { COMMIT_NEW_EPOCH } else { "COMMIT" })?))
    }

    /// Ends the transaction; the answer is awaited when the connection is used again.
    fn send(&mut self, end: &'static str) {
        let Ok(mut conn) = self.take() else { return };
        let mut ending: Ending = Box::pin(async move {
            let outcome = conn.query_drop(end).await;
            (conn, outcome)
        });
        // The first poll sends it.
        let polled =
            catch_panic(|| self.runtime.block_on(std::future::poll_fn(|cx| Poll::Ready(ending.as_mut().poll(cx)))));
        match (polled, &mut self.session) {
            (Ok(Poll::Pending), Some(session)) => session.link = MysqlLink::Ending(ending),
            (Ok(Poll::Ready((conn, Ok(())))), _) => self.put(conn),
            (Ok(Poll::Ready((_, Err(_)))) | Err(_), _) | (_, None) => self.session = None,
        }
    }
}

impl Openable for MysqlDriver {
    type Target = MysqlTarget;

    fn connect(target: &Arc<MysqlTarget>, limit: Duration) -> Result<MysqlDriver, StoreError> {
        MysqlDriver::open(target.clone(), limit)
    }

    fn allow(&mut self, limit: Duration) -> Result<(), StoreError> {
        self.wait_for(limit).map(drop)
    }

    fn hosts(&self) -> Vec<HostFound> {
        catch_panic(|| self.runtime.block_on(self.target.each_host())).unwrap_or_default()
    }
}

impl Remote for MysqlDriver {
    fn reopen(&mut self) -> Result<(), StoreError> {
        self.session = None;
        self.state.start_again();
        let connected = catch_panic(|| self.runtime.block_on(self.target.connect()));
        let connected = connected.map_err(|why| self.target.nonsense(&why))??;
        let is_mariadb = connected.is_mariadb();
        let MysqlConnected { conn, version, is_read_only, packet } = connected;
        let link = MysqlLink::Ready(conn);
        self.session = Some(MysqlSession { link, prepared: HashMap::new(), version, is_mariadb, is_read_only, packet });
        self.set_up()
    }

    fn ping(&mut self) -> Result<(), StoreError> {
        self.with(async |conn| conn.ping().await)
    }

    fn has_committed(&mut self, batch: u64) -> Result<bool, StoreError> {
        let lane = self.state.lane;
        // Makes a change, so that the awaited replicas acknowledge it together with the changes in
        // question.
        let found = self.run(&format!(
            "UPDATE rookery_lanes SET since_ms = since_ms + 1 WHERE lane = {lane} AND batch = {batch}; SELECT ROW_COUNT()"
        ))?;
        Ok(integer(&found) == Some(1))
    }

    fn is_read_only(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.is_read_only)
    }
}

/// The settings of every session, regardless of the server's.
///
/// A transaction reads the state at its first statement; writing ones specify otherwise. Sorting
/// compares as many bytes as a JID can have, and no statement waits longer than two seconds for a
/// row that another connection has locked.
const SESSION: &str = "\
    SET NAMES binary; SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ; \
    SET SESSION autocommit = 1, innodb_lock_wait_timeout = 2, max_sort_length = 4096, wait_timeout = 2000000, \
    foreign_key_checks = 1, unique_checks = 1, \
    sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION,NO_UNSIGNED_SUBTRACTION'";

const EPOCH: &str = "SELECT value FROM rookery_epoch WHERE id = 1";

/// Ends a transaction that has removed messages from archives.
const COMMIT_NEW_EPOCH: &str = "\
    UPDATE rookery_epoch SET value = value + 1 WHERE id = 1; SELECT value FROM rookery_epoch WHERE id = 1; COMMIT";

/// The most bytes of overhead of a value, or of a statement.
const LARGEST_HEAD: usize = 16;

/// The database's time, which may differ from this machine's.
pub(super) const NOW_MS: &str = "UNIX_TIMESTAMP() * 1000";

/// The seconds for which a statement waits for a lock of another connection.
const LOCK_S: u32 = 2;
