//! MariaDB's and MySQL's schema and how an older one becomes the current one.
//!
//! `rookery_schema` has a row for each version, with the digest of what made it and the oldest version whose servers can use it. A change of the schema is in no transaction here: each statement of
//! a step does nothing if it was run before, so that a step that was interrupted is run again. Where the syntax has no `IF NOT EXISTS`, the
//! statement looks into `information_schema` first. The table of versions is the first that is made: a database with it is known to be ours, however
//! far a step came.

use super::driver::Driver;
use crate::StoreError;
use crate::sql::migrate::{Change, Migrating, compare};
use crate::sql::opening::ANSWER;
use std::time::Duration;

impl Migrating for Driver {
    fn changes(&self) -> &'static [Change] {
        CHANGES
    }

    fn schema_version(&mut self) -> Result<i64, StoreError> {
        version(self)
    }

    fn place(&self) -> String {
        self.database().to_owned()
    }

    /// The lock is the connection's, and goes with it.
    fn lock_schema(&mut self) -> Result<(), StoreError> {
        self.wait_for(PATIENCE)?;
        let locked = self.run(&format!("SELECT GET_LOCK({LOCK}, {})", PATIENCE.as_secs() / 2))?;
        match locked.first().and_then(|row| row.first()).is_some_and(|taken| taken == "1") {
            true => Ok(()),
            false => Err(StoreError::Locked(self.target().engine("another server migrates it".to_owned()))),
        }
    }

    fn run_statements(&mut self, text: &str) -> Result<(), StoreError> {
        self.run(text).map(drop)
    }

    fn note_of(&self, number: i64, change: &Change) -> String {
        let (column, value) = match change.runs_from {
            None => ("", String::new()),
            Some(from) => (", runs_from", format!(", {from}")),
        };
        let checksum = change.checksum();
        format!(
            "INSERT INTO rookery_schema (version, checksum, applied_by{column}) \
             VALUES ({number}, '{checksum}', CURRENT_USER(){value});"
        )
    }

    fn unlock_schema(&mut self, outcome: Result<(), StoreError>) -> Result<(), StoreError> {
        let unlocked = self.run(&format!("SELECT RELEASE_LOCK({LOCK})")).and_then(|_| self.wait_for(ANSWER));
        outcome.and(unlocked.map(drop))
    }
}

fn version(driver: &mut Driver) -> Result<i64, StoreError> {
    if driver.run(HAS_SCHEMA)?.is_empty() {
        let tables = driver.run(OUR_NAMES)?;
        return if tables.is_empty() { Ok(0) } else { Err(StoreError::Foreign(driver.database().into())) };
    }
    let rows = driver.run("SELECT version, checksum FROM rookery_schema ORDER BY version")?;
    let read = |row: Vec<String>| {
        let mut cells = row.into_iter();
        let version = cells.next().and_then(|version| version.parse().ok()).unwrap_or_default();
        (version, cells.next().unwrap_or_default())
    };
    let applied: Vec<_> = rows.into_iter().map(read).collect();
    compare(&applied, CHANGES).map_err(|reason| StoreError::Unfit(driver.target().engine(reason)))
}

/// The newest schema.
pub(super) const KNOWN: i64 = CHANGES.len() as i64;

const CHANGES: &[Change] = &[
    Change::alone(include_str!("schema-1.sql")),
    Change::alone(include_str!("schema-2.sql")),
    Change::alone(include_str!("schema-3.sql")),
    Change::beside(3, include_str!("schema-4.sql")),
];

const HAS_SCHEMA: &str = "\
    SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'rookery_schema'";

/// Tables that only another program can have made.
const OUR_NAMES: &str = "\
    SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() \
    AND table_name IN ('accounts', 'documents', 'meta', 'lists', 'counters', 'rooms', 'archives', 'slots', 'invitations')";

/// The name of the lock under which migrations are done: locks are the server's, so that the database is in it.
const LOCK: &str = "CONCAT('rookery ', LEFT(SHA2(DATABASE(), 256), 40))";

/// How long a migration may take, and twice as long as another server's may.
const PATIENCE: Duration = Duration::from_secs(3600);
