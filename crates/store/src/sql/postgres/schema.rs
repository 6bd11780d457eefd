//! PostgreSQL's schema and how an older one becomes the current one.
//!
//! `rookery_schema` has a row for each version, with the digest of what made it. Each migration runs once, in one transaction with its row, and of
//! several servers that start at a time only one does it. A migration that was released is never changed: the next one mends it.

use super::driver::Driver;
use crate::StoreError;
use crate::sql::migrate::Migrating;
use rookery_base::hex;
use sha2::{Digest, Sha256};
use std::time::Duration;

impl Migrating for Driver {
    fn steps(&self) -> &'static [&'static str] {
        MIGRATIONS
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

    fn note_of(&self, number: i64) -> String {
        let step = usize::try_from(number - 1).ok().and_then(|at| MIGRATIONS.get(at)).copied().unwrap_or_default();
        format!("INSERT INTO rookery_schema (version, checksum) VALUES ({number}, '{}');", checksum(step))
    }

    fn unlock_schema(&mut self, outcome: Result<(), StoreError>) -> Result<(), StoreError> {
        let ended = self.run(if outcome.is_ok() { "COMMIT" } else { "ROLLBACK" });
        outcome.and(ended.map(drop))
    }
}

/// Returns the version of a database's schema, 0 if it is empty.
///
/// # Errors
///
/// [`StoreError::Foreign`] or [`StoreError::TooNew`] if this server must not touch it, [`StoreError::Unfit`] if somebody has changed what made its schema.
pub(super) fn version(driver: &mut Driver) -> Result<i64, StoreError> {
    if driver.run(HAS_SCHEMA)?.is_empty() {
        let tables = driver.run(OUR_NAMES)?;
        return if tables.is_empty() { Ok(0) } else { Err(StoreError::Foreign(driver.database().into())) };
    }
    let applied = driver.run("SELECT version || ' ' || checksum FROM rookery_schema ORDER BY version")?;
    for (row, number) in applied.iter().zip(1_i64..) {
        let expected = usize::try_from(number - 1).ok().and_then(|at| MIGRATIONS.get(at));
        let Some(expected) = expected else {
            return Err(StoreError::TooNew {
                database: driver.database().into(),
                found: applied.len() as i64,
                known: KNOWN,
            });
        };
        if *row != format!("{number} {}", checksum(expected)) {
            let message = format!("version {number} of its schema was made by something else than this server knows");
            return Err(StoreError::Unfit(driver.target().engine(message)));
        }
    }
    Ok(applied.len() as i64)
}

fn checksum(migration: &str) -> String {
    hex::encode(Sha256::digest(migration))
}

/// The newest schema.
pub(super) const KNOWN: i64 = MIGRATIONS.len() as i64;

const MIGRATIONS: &[&str] = &[
    include_str!("schema-1.sql"),
    include_str!("schema-2.sql"),
    include_str!("schema-3.sql"),
    include_str!("schema-4.sql"),
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
