//! PostgreSQL's schema and how an older one becomes the current one.
//!
//! `rookery_schema` has a row for each version, with the digest of what made it and the oldest version whose servers can use it. Each migration runs once, in one transaction with its row, and of
//! several servers that start at a time only one does it. A migration that was released is never changed: the next one mends it.

use super::driver::Driver;
use crate::StoreError;
use crate::sql::migrate::{Change, Migrating, compare};
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

    /// Others wait for a lock that is none of a table; however long that takes, and the steps.
    fn lock_schema(&mut self) -> Result<(), StoreError> {
        self.wait_for(PATIENCE)?;
        self.run("BEGIN; SET LOCAL lock_timeout = 0")?;
        self.run(&format!("SELECT pg_advisory_xact_lock({LOCK})")).map(drop)
    }

    fn run_statements(&mut self, text: &str) -> Result<(), StoreError> {
        self.run(text).map(drop)
    }

    fn note_of(&self, number: i64, change: &Change) -> String {
        let checksum = change.checksum();
        match change.runs_from {
            None => format!("INSERT INTO rookery_schema (version, checksum) VALUES ({number}, '{checksum}');"),
            Some(from) => format!(
                "INSERT INTO rookery_schema (version, checksum, runs_from) VALUES ({number}, '{checksum}', {from});"
            ),
        }
    }

    fn unlock_schema(&mut self, outcome: Result<(), StoreError>) -> Result<(), StoreError> {
        let ended = self.run(if outcome.is_ok() { "COMMIT" } else { "ROLLBACK" });
        outcome.and(ended.map(drop))
    }
}

fn version(driver: &mut Driver) -> Result<i64, StoreError> {
    if driver.run(HAS_SCHEMA)?.is_empty() {
        let tables = driver.run(OUR_NAMES)?;
        return if tables.is_empty() { Ok(0) } else { Err(StoreError::Foreign(driver.database().into())) };
    }
    let rows = driver.run("SELECT version || ' ' || checksum FROM rookery_schema ORDER BY version")?;
    let read = |row: &String| {
        let (version, checksum) = row.split_once(' ').unwrap_or_default();
        (version.parse().unwrap_or_default(), checksum.to_owned())
    };
    let applied: Vec<_> = rows.iter().map(read).collect();
    compare(&applied, CHANGES).map_err(|reason| StoreError::Unfit(driver.target().engine(reason)))
}

/// The newest schema.
pub(super) const KNOWN: i64 = CHANGES.len() as i64;

const CHANGES: &[Change] = &[
    Change::alone(include_str!("schema-1.sql")),
    Change::alone(include_str!("schema-2.sql")),
    Change::alone(include_str!("schema-3.sql")),
    Change::alone(include_str!("schema-4.sql")),
    Change::beside(4, include_str!("schema-5.sql")),
];

const HAS_SCHEMA: &str = "\
    SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'rookery_schema'";

/// Tables that only another program can have made.
const OUR_NAMES: &str = "\
    SELECT tablename FROM pg_tables WHERE schemaname = current_schema() \
    AND tablename IN ('accounts', 'documents', 'meta', 'lists', 'counters', 'rooms', 'archives', 'slots', 'invitations')";

/// The key of the lock under which migrations are done: "Rook" in ASCII.
const LOCK: i64 = 0x526F_6F6B;

/// How long a change of the schema may take, and the wait for another server that makes it.
const PATIENCE: Duration = Duration::from_secs(60 * 60);
