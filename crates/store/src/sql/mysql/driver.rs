//! MariaDB's and MySQL's side of [`Connection`].
//!
//! Each connection has a runtime of its own, which runs on the connection's thread and only while that waits for an answer: to the rest of the
//! store it is a connection that blocks. Transactions that read begin by themselves, with their first statement; nobody waits for the end of one
//! that wrote nothing.
//!
//! # Invariants
//!
//! - After any error of the database the transaction counts as over: some errors undo all of it, some a statement, and they don't say which.
//! - What the server hasn't answered within the limit is lost, together with the connection.
//! - Texts and values go to and fro as bytes: no character set is converted.

use super::failure::{ends_connection, failure, takes_statements};
use super::target::{Connected, Target};
use super::values::{MysqlRow, parameters};
use crate::StoreError;
use crate::sql::archives::KnownArchives;
use crate::sql::connection::{Connection, EachRow, Value};
use crate::sql::dialect::Dialect;
use crate::sql::transactions::{Remote, Transactions};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Params, Row, Statement};
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, SystemTime};
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// A connection to one database.
pub(super) struct Driver {
    target: Arc<Target>,
    /// How long an answer may take.
    limit: Duration,
    runtime: Runtime,
    /// `None`: lost.
    session: Option<Session>,
    /// The key of this connection's row in `rookery_lanes`.
    lane: i64,
    transaction: Transaction,
    archives: KnownArchives,
    /// The epoch in which the known archives were read, and whether it was looked at in this transaction.
    epoch: Option<i64>,
    is_epoch_seen: bool,
}

struct Session {
    link: Link,
    /// By the place of a text in memory: texts are static.
    prepared: HashMap<(usize, usize), Statement>,
    version: String,
    is_mariadb: bool,
    /// The host can't be written to.
    is_read_only: bool,
    /// The bytes that may be sent at once.
    packet: usize,
}

enum Link {
    Ready(Conn),
    /// The end of a transaction was sent and not answered yet.
    Ending(Ending),
    /// Taken away while something waits for an answer.
    Taken,
}

type Ending = Pin<Box<dyn Future<Output = (Conn, Result<(), Error>)> + Send>>;

#[derive(Clone, Debug)]
enum Transaction {
    None,
    /// To be begun with the first statement; the batch if it writes.
    Due(Option<u64>),
    /// Open; the batch if it writes.
    Open(Option<u64>),
    /// Over, but for a rollback.
    Failed(StoreError),
}

impl Driver {
    /// Connects; answers may take so long.
    pub(super) fn open(target: Arc<Target>, limit: Duration) -> Result<Driver, StoreError> {
        let other = |error: String| StoreError::Other(target.engine(error));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| other(error.to_string()))?;
        let mut key = [0; 8];
        getrandom::fill(&mut key).map_err(|error| other(error.to_string()))?;
        let mut driver = Driver {
            target: target.clone(),
            limit,
            runtime,
            session: None,
            lane: i64::from_be_bytes(key),
            transaction: Transaction::None,
            archives: KnownArchives::default(),
            epoch: None,
            is_epoch_seen: false,
        };
        driver.reopen()?;
        Ok(driver)
    }

    /// Returns the name of the database, for people.
    pub(super) fn database(&self) -> &str {
        &self.target.name
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// Tells whether the host that is connected to can't be written to.
    pub(super) fn is_read_only(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.is_read_only)
    }

    /// Returns the server's version in words, and true if it is MariaDB.
    pub(super) fn version(&self) -> (&str, bool) {
        self.session.as_ref().map_or(("", true), |session| (&session.version, session.is_mariadb))
    }

    /// Lets answers take so long from now on. Returns how long they might take before.
    pub(super) fn wait_for(&mut self, limit: Duration) -> Result<Duration, StoreError> {
        let before = std::mem::replace(&mut self.limit, limit);
        self.set_limit()?;
        Ok(before)
    }

    /// Lets the server give up before we do.
    fn set_limit(&mut self) -> Result<(), StoreError> {
        let answer = self.limit.saturating_sub(Duration::from_secs(1));
        let (_, is_mariadb) = self.version();
        self.simple(&match is_mariadb {
            true => {
                format!("SET SESSION max_statement_time = {}, idle_transaction_timeout = {IDLE_S}", answer.as_secs())
            }
            // What it has counted in tables is to be of this moment.
            false => {
                format!("SET SESSION max_execution_time = {}, information_schema_stats_expiry = 0", answer.as_millis())
            }
        })
        .map(drop)
    }

    /// Runs statements that belong to no operation: schema and settings. Returns their rows.
    pub(super) fn run(&mut self, statements: &str) -> Result<Vec<Vec<String>>, StoreError> {
        let rows = self.simple(statements)?;
        if matches!(self.transaction, Transaction::None) {
            self.simple("COMMIT")?;
        }
        Ok(rows)
    }

    /// Waits for an answer to nothing.
    pub(super) fn ping(&mut self) -> Result<(), StoreError> {
        self.with(async |conn| conn.ping().await)
    }

    fn lost(&mut self, why: &str) -> StoreError {
        let error = self.target.lost(why);
        self.fail(error)
    }

    /// Notes what an error means for the connection and its transaction.
    fn fail(&mut self, error: StoreError) -> StoreError {
        if matches!(error, StoreError::Lost(_)) {
            self.session = None;
            self.transaction = Transaction::None;
        } else if !matches!(self.transaction, Transaction::None) {
            self.transaction = Transaction::Failed(error.clone());
        }
        error
    }

    fn failed(&mut self, error: &Error) -> StoreError {
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

    /// Takes the connection away to use it, when what was sent before is answered.
    fn take(&mut self) -> Result<Conn, StoreError> {
        let Some(session) = &mut self.session else { return Err(self.lost("not connected")) };
        match std::mem::replace(&mut session.link, Link::Taken) {
            Link::Ready(conn) => Ok(conn),
            Link::Taken => Err(self.lost("not connected")),
            Link::Ending(ending) => match within(&self.runtime, self.limit, ending) {
                Some((conn, Ok(()))) => Ok(conn),
                Some((_, Err(error))) => {
                    self.session = None;
                    Err(self.lost(&error.to_string()))
                }
                None => Err(self.lost("no answer in time")),
            },
        }
    }

    /// Puts the connection back.
    fn put(&mut self, conn: Conn) {
        if let Some(session) = &mut self.session {
            session.link = Link::Ready(conn);
        }
    }

    /// Uses the connection, and waits for the answer.
    fn with<T>(&mut self, ask: impl AsyncFnOnce(&mut Conn) -> Result<T, Error>) -> Result<T, StoreError> {
        let mut conn = self.take()?;
        match within(&self.runtime, self.limit, ask(&mut conn)) {
            Some(outcome) => {
                self.put(conn);
                outcome.map_err(|error| self.failed(&error))
            }
            None => Err(self.lost("no answer in time")),
        }
    }

    /// Runs statements without values and waits for what they give.
    fn simple(&mut self, statements: &str) -> Result<Vec<Vec<String>>, StoreError> {
        self.with(async |conn| {
            let mut answer = conn.query_iter(statements).await?;
            let mut found = Vec::new();
            loop {
                let rows: Vec<Row> = answer.collect().await?;
                found.extend(rows.iter().map(words));
                if answer.is_empty() {
                    break answer.drop_result().await.map(|()| found);
                }
            }
        })
    }

    /// Sends the end of a transaction, whose answer nobody waits for until the connection is used again.
    fn send(&mut self, end: &'static str) {
        let Ok(mut conn) = self.take() else { return };
        let mut ending: Ending = Box::pin(async move {
            let outcome = conn.query_drop(end).await;
            (conn, outcome)
        });
        // The first poll writes it.
        let polled = self.runtime.block_on(std::future::poll_fn(|cx| Poll::Ready(ending.as_mut().poll(cx))));
        match (polled, &mut self.session) {
            (Poll::Pending, Some(session)) => session.link = Link::Ending(ending),
            (Poll::Ready((conn, Ok(()))), _) => self.put(conn),
            (Poll::Ready((_, Err(_))), _) | (_, None) => self.session = None,
        }
    }

    /// Returns the statement to run for a text.
    fn prepared(&mut self, sql: &'static str) -> Result<Statement, StoreError> {
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

    /// Runs a statement, behind what begins the transaction if that is due. Returns how many rows it changed or gave.
    fn statement(
        &mut self,
        sql: &'static str,
        values: &[Value<'_>],
        each: Option<&mut EachRow<'_>>,
    ) -> Result<u64, StoreError> {
        if let Transaction::Failed(error) = &self.transaction {
            return Err(error.clone());
        }
        self.expect_room(values)?;
        let prepared = self.prepared(sql)?;
        self.begin("")?;
        let (parameters, target) = (parameters(values), self.target.clone());
        match self.with(async |conn| run(conn, &prepared, parameters, each, &target.name).await)? {
            Ok(rows) if matches!(self.transaction, Transaction::None) => self.simple("COMMIT").map(|_| rows),
            outcome => outcome,
        }
    }

    /// Refuses values that are too large: the server would end the connection, and with it what others have written.
    fn expect_room(&mut self, values: &[Value<'_>]) -> Result<(), StoreError> {
        let size = |value: &Value<'_>| match value {
            Value::Null | Value::Integer(_) => LARGEST_HEAD,
            Value::Text(text) => text.len() + LARGEST_HEAD,
            Value::Bytes(bytes) => bytes.len() + LARGEST_HEAD,
        };
        let (size, packet) = (values.iter().map(size).sum::<usize>(), self.session.as_ref().map_or(0, |at| at.packet));
        if self.session.is_none() || size + LARGEST_HEAD < packet {
            return Ok(());
        }
        let what = format!("an operation brings {size} bytes, and its max_allowed_packet is {packet}");
        let error = StoreError::Other(self.target.engine(what));
        Err(self.fail(error))
    }

    /// Begins the transaction if that is due, and runs a statement behind. Returns the rows.
    fn begin(&mut self, behind: &str) -> Result<Vec<Vec<String>>, StoreError> {
        let begin = match self.transaction {
            // Rows that are to be changed are locked when they are read, by statements that want their newest state.
            Transaction::Due(Some(batch)) => {
                let (lane, now) = (self.lane, SystemTime::now().duration_since(SystemTime::UNIX_EPOCH));
                let now = now.unwrap_or_default().as_millis();
                format!(
                    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION; \
                     INSERT INTO rookery_lanes (lane, batch, since_ms) VALUES ({lane}, {batch}, {now}) \
                     ON DUPLICATE KEY UPDATE batch = {batch}; "
                )
            }
            // Without a word: see [`SESSION`].
            _ => String::new(),
        };
        let statements = begin + behind;
        let rows = if statements.is_empty() { Vec::new() } else { self.simple(&statements)? };
        if let Transaction::Due(batch) = self.transaction {
            self.transaction = Transaction::Open(batch);
        }
        Ok(rows)
    }

    /// Looks whether others have taken something out of archives since this connection has learnt of them.
    fn see_epoch(&mut self) -> Result<(), StoreError> {
        let value = integer(&self.begin(EPOCH)?);
        if value.is_none() || value != self.epoch {
            self.archives.forget_all();
        }
        (self.epoch, self.is_epoch_seen) = (value, true);
        Ok(())
    }
}

/// Waits for an answer, so long at most.
fn within<T>(runtime: &Runtime, limit: Duration, answer: impl Future<Output = T>) -> Option<T> {
    runtime.block_on(async { timeout(limit, answer).await.ok() })
}

/// Returns the columns of a row in words; NULL has none.
fn words(row: &Row) -> Vec<String> {
    let word = |at| row.get_opt::<String, _>(at).and_then(Result::ok).unwrap_or_default();
    (0..row.len()).map(word).collect()
}

/// Returns the only number of an answer.
fn integer(rows: &[Vec<String>]) -> Option<i64> {
    rows.first()?.first()?.parse().ok()
}

/// Runs a statement. The outer error is the database's, the inner one of who reads the rows.
async fn run(
    conn: &mut Conn,
    prepared: &Statement,
    values: Params,
    each: Option<&mut EachRow<'_>>,
    database: &str,
) -> Result<Result<u64, StoreError>, Error> {
    let mut answer = conn.exec_iter(prepared, values).await?;
    let mut outcome = Ok(());
    if let Some(each) = each {
        while let Some(row) = answer.next().await? {
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

impl Connection for Driver {
    fn dialect(&self) -> Dialect {
        Dialect::Mysql
    }

    fn execute(&mut self, sql: &'static str, values: &[Value<'_>]) -> Result<u64, StoreError> {
        self.statement(sql, values, None)
    }

    fn query(&mut self, sql: &'static str, values: &[Value<'_>], each: &mut EachRow<'_>) -> Result<(), StoreError> {
        self.statement(sql, values, Some(each)).map(drop)
    }

    fn corrupt(&self, what: String) -> StoreError {
        StoreError::Corrupt(self.target.engine(what))
    }

    fn known_archives(&mut self) -> &mut KnownArchives {
        let is_open = matches!(self.transaction, Transaction::Due(_) | Transaction::Open(_));
        // An error comes again with the next statement.
        if is_open && !self.is_epoch_seen && self.see_epoch().is_err() {
            self.archives.forget_all();
        }
        &mut self.archives
    }
}

impl Transactions for Driver {
    fn begin_read(&mut self) -> Result<(), StoreError> {
        self.transaction = Transaction::Due(None);
        self.is_epoch_seen = false;
        if self.session.is_some() { Ok(()) } else { Err(self.lost("not connected")) }
    }

    fn begin_write(&mut self, batch: u64) -> Result<(), StoreError> {
        self.transaction = Transaction::Due(Some(batch));
        self.is_epoch_seen = false;
        if self.session.is_some() { Ok(()) } else { Err(self.lost("not connected")) }
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        match std::mem::replace(&mut self.transaction, Transaction::None) {
            Transaction::None | Transaction::Due(_) => Ok(()),
            Transaction::Failed(error) => {
                self.transaction = Transaction::Failed(error.clone());
                Err(error)
            }
            Transaction::Open(None) => {
                self.send("COMMIT");
                Ok(())
            }
            Transaction::Open(Some(batch)) => {
                self.transaction = Transaction::Open(Some(batch));
                let is_new_epoch = self.archives.take_changed();
                let answer = self.simple(if is_new_epoch { COMMIT_NEW_EPOCH } else { "COMMIT" })?;
                self.transaction = Transaction::None;
                if is_new_epoch {
                    self.epoch = integer(&answer);
                }
                Ok(())
            }
        }
    }

    fn rollback(&mut self) {
        self.archives.forget_all();
        if let Transaction::Open(_) | Transaction::Failed(_) =
            std::mem::replace(&mut self.transaction, Transaction::None)
        {
            self.send("ROLLBACK");
        }
    }

    fn in_transaction(&self) -> bool {
        matches!(self.transaction, Transaction::Due(_) | Transaction::Open(_))
    }

    fn remote(&mut self) -> Option<&mut dyn Remote> {
        Some(self)
    }
}

impl Remote for Driver {
    fn reopen(&mut self) -> Result<(), StoreError> {
        (self.session, self.transaction, self.epoch) = (None, Transaction::None, None);
        self.archives.forget_all();
        let connected = within(&self.runtime, CONNECT, self.target.connect());
        let Some(connected) = connected else { return Err(self.lost("no host takes connections in time")) };
        let connected = connected?;
        let is_mariadb = connected.is_mariadb();
        let Connected { conn, version, is_read_only, packet } = connected;
        let link = Link::Ready(conn);
        self.session = Some(Session { link, prepared: HashMap::new(), version, is_mariadb, is_read_only, packet });
        self.simple(SESSION)?;
        self.set_limit()
    }

    fn has_committed(&mut self, batch: u64) -> Result<bool, StoreError> {
        let lane = self.lane;
        let found = self.run(&format!("SELECT batch FROM rookery_lanes WHERE lane = {lane} FOR UPDATE"))?;
        Ok(integer(&found) == i64::try_from(batch).ok())
    }
}

/// What every session is set to, whatever the server's settings are.
///
/// Without autocommit a transaction begins with its first statement, and all that a transaction reads is of that moment; those that write say otherwise. Texts
/// are sorted by as much as a JID can have, and nobody waits longer than two seconds for a row that another connection has locked.
const SESSION: &str = "\
    SET NAMES binary; SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ; \
    SET SESSION autocommit = 0, innodb_lock_wait_timeout = 2, max_sort_length = 4096, wait_timeout = 2000000, \
    foreign_key_checks = 1, unique_checks = 1, \
    sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION,NO_UNSIGNED_SUBTRACTION'";

const EPOCH: &str = "SELECT value FROM rookery_epoch WHERE id = 1";

/// Ends a transaction that has taken something out of archives.
const COMMIT_NEW_EPOCH: &str = "\
    UPDATE rookery_epoch SET value = value + 1 WHERE id = 1; SELECT value FROM rookery_epoch WHERE id = 1; COMMIT";

/// What a value, or a statement, takes at most besides its bytes.
const LARGEST_HEAD: usize = 16;

/// How long a connection may take, over all hosts.
const CONNECT: Duration = Duration::from_secs(12);

/// How long a transaction may be open without a statement, before MariaDB ends it: nobody lets one wait, unless the machine stands still.
const IDLE_S: u32 = 60;
