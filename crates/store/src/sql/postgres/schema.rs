//! PostgreSQL's schema and how an older one becomes the current one.
//!
//! `rookery_schema` has a row for each version, with the digest of what made it. Each migration runs once, in one transaction with its row, and of
//! several servers that start at a time only one does it. A migration that was released is never changed: the next one mends it.

use super::driver::Driver;
use crate::StoreError;
use sha2::{Digest, Sha256};

/// Brings a database, which may be empty, to the current schema.
///
/// # Errors
///
/// [`StoreError::Foreign`] or [`StoreError::TooNew`] if this server must not touch it, [`StoreError::Unfit`] if somebody has changed what made its schema.
pub(super) fn migrate(driver: &mut Driver) -> Result<(), StoreError> {
    if version(driver)? == KNOWN {
        return Ok(());
    }
    driver.run("BEGIN")?;
    let outcome = migrate_in_transaction(driver);
    driver.run(if outcome.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    outcome
}

/// Returns the version of a database's schema, 0 if it is empty.
///
/// # Errors
///
/// As [`migrate`].
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

/// Reads the version again: another server may have migrated while we waited for the lock.
fn migrate_in_transaction(driver: &mut Driver) -> Result<(), StoreError> {
    driver.run(&format!(
        "SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0; SELECT pg_advisory_xact_lock({LOCK})"
    ))?;
    let version = version(driver)?;
    for (migration, number) in MIGRATIONS.iter().zip(1..).filter(|(_, number)| *number > version) {
        if number == 1 {
            driver.run(MAKE_SCHEMA)?;
        }
        driver.run(migration)?;
        let checksum = checksum(migration);
        driver.run(&format!("INSERT INTO rookery_schema (version, checksum) VALUES ({number}, '{checksum}')"))?;
        // A new database is no news.
        if version > 0 {
            tracing::info!(database = driver.database(), schema = number, "the database schema was updated");
        }
    }
    Ok(())
}

fn checksum(migration: &str) -> String {
    Sha256::digest(migration).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The newest schema.
pub(super) const KNOWN: i64 = MIGRATIONS.len() as i64;

const MIGRATIONS: &[&str] = &[include_str!("schema-1.sql")];

const MAKE_SCHEMA: &str = "\
    CREATE TABLE rookery_schema (version BIGINT PRIMARY KEY, checksum TEXT NOT NULL, \
    applied_at TIMESTAMPTZ NOT NULL DEFAULT now(), applied_by TEXT NOT NULL DEFAULT current_user)";

const HAS_SCHEMA: &str = "\
    SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'rookery_schema'";

/// Tables that only another program can have made.
const OUR_NAMES: &str = "\
    SELECT tablename FROM pg_tables WHERE schemaname = current_schema() \
    AND tablename IN ('accounts', 'documents', 'meta', 'lists', 'counters', 'rooms', 'archives', 'slots', 'invitations')";

/// The key of the lock under which migrations are done: "Rook" in ASCII.
const LOCK: i64 = 0x526F_6F6B;
