//! SQLite's side of [`SqlConnection`]. The only file that names the SQLite library.

use super::options::SqliteOptions;
use super::waiting;
use crate::StoreError;
use crate::error::EngineWords;
use crate::sql::archives::KnownArchives;
use crate::sql::connection::{EachRow, Row, SqlConnection, SqlValue, one};
use crate::sql::dialect::Dialect;
use crate::sql::transactions::{Savepoints, Transactions};
use rusqlite::ffi::ErrorCode;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Error, OpenFlags, ToSql};
use std::fmt::Display;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// A connection to one file.
pub(super) struct SqliteDriver {
    sqlite: rusqlite::Connection,
    database: String,
    archives: KnownArchives,
    /// The database's counter of changes by other connections.
    seen: i64,
    /// For tests of contention: true if the next write that would be kept is run again, `None` if
    /// none are; see [`SqliteOptions::contested`].
    contests: Option<bool>,
}

impl SqliteDriver {
    /// Opens an existing file, which may still be empty, for reading and writing, without changing
    /// it.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] if the file is write-protected, otherwise SQLite's error.
    pub(super) fn open(path: &Path, lock_wait: Duration) -> Result<SqliteDriver, StoreError> {
        let driver = SqliteDriver::with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE, lock_wait)?;
        // SQLite falls back to read-only by itself and would only report that at the first write.
        if driver.sqlite.is_readonly(MAIN).map_err(|error| driver.failure(error))? {
            let message = "the file is write-protected".into();
            return Err(StoreError::ReadOnly(EngineWords { database: driver.database, message }));
        }
        Ok(driver)
    }

    /// Opens an existing file for reading only.
    pub(super) fn open_to_read(path: &Path, lock_wait: Duration) -> Result<SqliteDriver, StoreError> {
        SqliteDriver::with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY, lock_wait)
    }

    /// Opens an empty database without a file.
    pub(super) fn in_memory() -> Result<SqliteDriver, StoreError> {
        SqliteDriver::with_flags(Path::new(":memory:"), OpenFlags::SQLITE_OPEN_READ_WRITE, Duration::ZERO)
    }

    fn with_flags(path: &Path, flags: OpenFlags, lock_wait: Duration) -> Result<SqliteDriver, StoreError> {
        let database = path.display().to_string();
        let mut sqlite = rusqlite::Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
            .map_err(|error| failure(&database, error))?;
        let set = match lock_wait >= waiting::OF_COMMANDS {
            true => sqlite.busy_handler(Some(waiting::wait_once_more)),
            false => sqlite.busy_timeout(lock_wait),
        };
        set.map_err(|error| failure(&database, error))?;
        Ok(SqliteDriver { sqlite, database, archives: KnownArchives::default(), seen: 0, contests: None })
    }

    /// Prepares the connection for a store. Writes to the file, but only if it is new.
    pub(super) fn set_up(&mut self, options: &SqliteOptions) -> Result<(), StoreError> {
        self.contests = options.contested.then_some(true);
        self.keep_statements();
        if self.use_log(options.lock_wait)? != "wal" {
            let message = "its file system has no shared memory for a write-ahead log: use a local disk".into();
            return Err(StoreError::Other(EngineWords { database: self.database.clone(), message }));
        }
        self.set_bounds(options).map_err(|error| self.failure(error))
    }

    /// Prepares the connection for reads next to a store's connection, which has prepared the file.
    pub(super) fn set_up_to_read(&mut self) -> Result<(), StoreError> {
        self.keep_statements();
        let set = || {
            self.pragma("query_only", "ON")?;
            self.pragma("temp_store", "MEMORY")?;
            self.pragma("cache_size", format!("-{}", READER_CACHE_BYTES / 1024))
        };
        set().map_err(|error| self.failure(error))
    }

    /// Makes the file use a write-ahead log. Returns the kind of log that it has afterwards.
    ///
    /// SQLite requests a writer's lock here while it holds a reader's. It doesn't wait then, since
    /// two connections that did would wait for each other; so a loop of our own waits, as SQLite
    /// does for other statements.
    fn use_log(&self, lock_wait: Duration) -> Result<String, StoreError> {
        let since = Instant::now();
        let mut is_told = lock_wait < waiting::OF_COMMANDS;
        loop {
            if !is_told && since.elapsed() >= waiting::LONG {
                is_told = true;
                waiting::tell();
            }
            let mode = self.sqlite.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0));
            match mode.map_err(|error| self.failure(error)) {
                Err(StoreError::Locked(_)) if since.elapsed() < lock_wait => thread::sleep(LOCK_PAUSE),
                outcome => return outcome,
            }
        }
    }

    /// Keeps prepared statements, to run them again.
    pub(super) fn keep_statements(&self) {
        self.sqlite.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    }

    fn set_bounds(&self, options: &SqliteOptions) -> rusqlite::Result<()> {
        self.pragma("synchronous", "FULL")?;
        // Holds the data for undoing one operation of a transaction, which would otherwise be in a
        // file, with a write for every touched page.
        self.pragma("temp_store", "MEMORY")?;
        self.pragma("foreign_keys", "ON")?;
        self.pragma("journal_size_limit", LOG_BYTES)?;
        self.pragma("wal_autocheckpoint", LOG_PAGES)?;
        self.pragma("cache_size", format!("-{}", options.cache_bytes / 1024))?;
        if let Some(bytes) = options.max_bytes {
            let page_bytes: u32 = self.sqlite.pragma_query_value(None, "page_size", |row| row.get(0))?;
            self.pragma("max_page_count", (bytes / u64::from(page_bytes.max(1))).max(1))?;
        }
        Ok(())
    }

    fn pragma(&self, name: &str, value: impl Display) -> rusqlite::Result<()> {
        self.sqlite.execute_batch(&format!("PRAGMA {name} = {value}"))
    }

    /// Returns the value of an integer setting.
    pub(super) fn setting(&self, name: &str) -> Result<i64, StoreError> {
        self.sqlite.pragma_query_value(None, name, |row| row.get(0)).map_err(|error| self.failure(error))
    }

    /// Runs statements outside of operations: schema and settings.
    pub(super) fn run(&self, statements: &str) -> Result<(), StoreError> {
        self.sqlite.execute_batch(statements).map_err(|error| self.failure(error))
    }

    /// Returns the path of the database.
    pub(super) fn database(&self) -> &str {
        &self.database
    }

    fn failure(&self, error: Error) -> StoreError {
        failure(&self.database, error)
    }

    fn statement(&mut self, sql: &'static str) -> Result<(), StoreError> {
        self.execute(sql, &[]).map(drop)
    }
}

impl SqlConnection for SqliteDriver {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn execute(&mut self, sql: &'static str, values: &[SqlValue<'_>]) -> Result<u64, StoreError> {
        let run = || -> rusqlite::Result<usize> {
            let mut statement = self.sqlite.prepare_cached(sql)?;
            for (at, value) in values.iter().enumerate() {
                statement.raw_bind_parameter(at + 1, value)?;
            }
            statement.raw_execute()
        };
        run().map(|rows| rows as u64).map_err(|error| self.failure(error))
    }

    fn query(&mut self, sql: &'static str, values: &[SqlValue<'_>], each: &mut EachRow<'_>) -> Result<(), StoreError> {
        let failed = |error| self.failure(error);
        let mut statement = self.sqlite.prepare_cached(sql).map_err(failed)?;
        for (at, value) in values.iter().enumerate() {
            statement.raw_bind_parameter(at + 1, value).map_err(failed)?;
        }
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().map_err(failed)? {
            if each(&SqliteRow { row, driver: self })?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn corrupt(&self, what: String) -> StoreError {
        StoreError::Corrupt(EngineWords { database: self.database.clone(), message: what })
    }

    fn known_archives(&mut self) -> &mut KnownArchives {
        &mut self.archives
    }
}

impl Transactions for SqliteDriver {
    fn begin_read(&mut self) -> Result<(), StoreError> {
        self.statement("BEGIN DEFERRED")
    }

    fn begin_write(&mut self, _: u64) -> Result<(), StoreError> {
        self.statement("BEGIN IMMEDIATE")?;
        let version = one(self, "PRAGMA data_version", &[], |row| row.integer(0))?.unwrap_or_default();
        if version != std::mem::replace(&mut self.seen, version) {
            self.archives.forget_all();
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        self.statement("COMMIT")
    }

    fn rollback(&mut self) {
        self.archives.forget_all();
        if self.in_transaction()
            && let Err(error) = self.statement("ROLLBACK")
        {
            tracing::error!(%error, "a transaction can't be rolled back");
        }
    }

    fn in_transaction(&self) -> bool {
        !self.sqlite.is_autocommit()
    }

    fn savepoints(&mut self) -> Option<&mut dyn Savepoints> {
        Some(self)
    }
}

impl Savepoints for SqliteDriver {
    fn begin_operation(&mut self) -> Result<(), StoreError> {
        self.statement("SAVEPOINT operation")
    }

    fn keep_operation(&mut self) -> Result<(), StoreError> {
        if let Some(contests) = &mut self.contests
            && std::mem::replace(contests, !*contests)
        {
            return Err(StoreError::Conflict(EngineWords {
                database: self.database.clone(),
                message: "contested".into(),
            }));
        }
        self.statement("RELEASE operation")
    }

    fn rollback_operation(&mut self) -> Result<(), StoreError> {
        self.archives.forget_all();
        self.statement("ROLLBACK TO operation")?;
        self.statement("RELEASE operation")
    }
}

struct SqliteRow<'a> {
    row: &'a rusqlite::Row<'a>,
    driver: &'a SqliteDriver,
}

impl SqliteRow<'_> {
    fn value(&self, column: usize) -> Result<ValueRef<'_>, StoreError> {
        self.row.get_ref(column).map_err(|error| self.driver.failure(error))
    }

    fn wrong_type(&self, column: usize) -> StoreError {
        self.corrupt(format!("column {column} of a row has another type than it was written with"))
    }
}

impl Row for SqliteRow<'_> {
    fn integer(&self, column: usize) -> Result<i64, StoreError> {
        self.value(column)?.as_i64().map_err(|_| self.wrong_type(column))
    }

    fn optional_integer(&self, column: usize) -> Result<Option<i64>, StoreError> {
        self.value(column)?.as_i64_or_null().map_err(|_| self.wrong_type(column))
    }

    fn text(&self, column: usize) -> Result<&str, StoreError> {
        self.value(column)?.as_str().map_err(|_| self.wrong_type(column))
    }

    fn optional_text(&self, column: usize) -> Result<Option<&str>, StoreError> {
        self.value(column)?.as_str_or_null().map_err(|_| self.wrong_type(column))
    }

    fn bytes(&self, column: usize) -> Result<&[u8], StoreError> {
        self.value(column)?.as_blob().map_err(|_| self.wrong_type(column))
    }

    fn optional_bytes(&self, column: usize) -> Result<Option<&[u8]>, StoreError> {
        self.value(column)?.as_blob_or_null().map_err(|_| self.wrong_type(column))
    }

    fn corrupt(&self, what: String) -> StoreError {
        self.driver.corrupt(what)
    }
}

impl ToSql for SqlValue<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            SqlValue::Null => ValueRef::Null,
            SqlValue::Integer(integer) => ValueRef::Integer(integer),
            SqlValue::Text(text) => ValueRef::Text(text.as_bytes()),
            SqlValue::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// Returns the error of the store for an error of SQLite.
fn failure(database: &str, error: Error) -> StoreError {
    let engine = EngineWords { database: database.to_owned(), message: error.to_string() };
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full(engine),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked(engine),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => StoreError::ReadOnly(engine),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Corrupt(engine),
        Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) => StoreError::Io(engine),
        _ => StoreError::Other(engine),
    }
}

/// SQLite's name for the file that was opened, as opposed to attached ones.
const MAIN: &str = "main";

/// The pause before a lock is requested again.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// The bytes of the cache of pages for long reads, which are rarely read again soon.
const READER_CACHE_BYTES: usize = 4 << 20;

/// The number of cached statements, in which all of this crate fit.
const CACHED_STATEMENTS: usize = 512;

/// The size that the log is truncated to after a burst, in bytes.
const LOG_BYTES: u32 = 256 << 20;

/// The pages of the log after which they are written to their places in the file. Rows of many
/// owners touch the same pages repeatedly, so each page is written once for all changes in between.
const LOG_PAGES: u32 = LOG_BYTES / 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::{QueueBounds, SqlStore};
    use crate::{Meta, wait};

    #[test]
    fn the_first_start_waits_for_another_writer() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("rookery.db");
        let other = rusqlite::Connection::open(&path).expect("a new database");
        other.execute_batch("BEGIN IMMEDIATE").expect("a lock");
        let options = |lock_wait| SqliteOptions { lock_wait, ..SqliteOptions::default() };
        let opened = super::super::open(&path, &options(Duration::from_millis(1)));
        assert!(matches!(opened, Err(StoreError::Locked(_))));
        let patient = thread::spawn(move || super::super::open(&path, &options(Duration::from_secs(60))).map(drop));
        // The outcome is the same, whether the lock or the start comes first.
        thread::sleep(10 * LOCK_PAUSE);
        other.execute_batch("COMMIT").expect("the lock is given back");
        assert_eq!(patient.join().expect("no panic"), Ok(()));
    }

    /// Permissions don't bind the administrator, so a read-only connection replaces a read-only
    /// file.
    #[test]
    fn a_database_that_may_only_be_read_says_so_and_is_read() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("rookery.db");
        let store = super::super::open(&path, &SqliteOptions::default()).expect("a new database");
        wait(store.put("key", vec![1])).expect("a writable database");
        let driver = SqliteDriver::open_to_read(&path, Duration::ZERO).expect("a readable database");
        let read_only = SqlStore::start(driver.into(), QueueBounds::default()).expect("a thread");
        let error = wait(read_only.put("key", vec![2])).expect_err("a read-only database");
        assert!(matches!(&error, StoreError::ReadOnly(_)), "{error:?}");
        assert!(error.to_string().contains("write permission") && error.to_string().contains("rookery.db"), "{error}");
        assert_eq!(wait(read_only.get("key")), Ok(Some(vec![1])));
    }
}
