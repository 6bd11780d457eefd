//! SQLite's schema and how an older one becomes the current one.
//!
//! `user_version` counts the migrations that a file went through; `application_id` tells our files from others'. Each
//! migration runs once, in one transaction with its count, so a crash leaves a file either before or behind it. A
//! migration that was released is never changed: the next one mends it.

use super::driver::Driver;
use crate::StoreError;
use crate::sql::connection::Transactions;

/// Brings a file, which may be empty, to the current schema.
pub(super) fn migrate(driver: &mut Driver) -> Result<(), StoreError> {
    if version(driver)? == KNOWN {
        return Ok(());
    }
    driver.begin_write()?;
    let outcome = migrate_in_transaction(driver).and_then(|()| driver.commit());
    if outcome.is_err() {
        driver.rollback();
    }
    outcome
}

/// The version of a file's schema, 0 if it is empty.
///
/// # Errors
///
/// [`StoreError::Foreign`] or [`StoreError::TooNew`] if this server must not touch it.
pub(super) fn version(driver: &Driver) -> Result<i64, StoreError> {
    let version = driver.setting("user_version")?;
    let application = driver.setting("application_id")?;
    // Every schema change of SQLite counts schema_version up: 0 is a file in which nobody created anything.
    let untouched = application == 0 && version == 0 && driver.setting("schema_version")? == 0;
    if application != APPLICATION && !untouched {
        return Err(StoreError::Foreign(driver.database().into()));
    }
    if version > KNOWN {
        return Err(StoreError::TooNew { database: driver.database().into(), found: version, known: KNOWN });
    }
    Ok(version)
}

/// Reads the version again: another process may have migrated while we waited for the lock.
fn migrate_in_transaction(driver: &mut Driver) -> Result<(), StoreError> {
    let version = version(driver)?;
    for (migration, number) in MIGRATIONS.iter().zip(1..).filter(|(_, number)| *number > version) {
        driver.run(migration)?;
        driver.run(&format!("PRAGMA user_version = {number}"))?;
        // A new database is no news.
        if version > 0 {
            tracing::info!(database = driver.database(), schema = number, "the database schema was updated");
        }
    }
    driver.run(&format!("PRAGMA application_id = {APPLICATION}"))
}

/// Marks a file as ours: "Rook" in ASCII.
pub(super) const APPLICATION: i64 = 0x526F_6F6B;

/// The newest schema.
pub(super) const KNOWN: i64 = MIGRATIONS.len() as i64;

const MIGRATIONS: &[&str] = &[
    include_str!("schema-1.sql"),
    include_str!("schema-2.sql"),
    include_str!("schema-3.sql"),
    include_str!("schema-4.sql"),
    include_str!("schema-5.sql"),
    include_str!("schema-6.sql"),
    include_str!("schema-7.sql"),
    include_str!("schema-8.sql"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::connection::{Connection, all};
    use std::time::Duration;

    /// Whoever adds a table decides here what becomes of it when an account is removed.
    #[test]
    fn an_account_takes_every_row_along() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("rookery.db");
        super::super::open(&path, &super::super::Options::default()).expect("a new database").close();
        let mut driver = Driver::open_to_read(&path, Duration::from_secs(1)).expect("the newest schema");
        let connection: &mut dyn Connection = &mut driver;
        let staying = all(connection, WITHOUT_CASCADE, &[], |row| row.text(0).map(str::to_owned)).expect("tables");
        let expected = [
            "accounts",
            // Swept once its archive is gone.
            "archive_messages",
            "counters",
            "meta",
            // Rooms outlive those who made them.
            "rooms",
            // Without their owner until their files are gone.
            "slots",
        ];
        assert_eq!(staying, expected);
    }

    /// The tables whose rows don't go with those that they refer to.
    const WITHOUT_CASCADE: &str = "\
        SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND NOT EXISTS \
        (SELECT 1 FROM pragma_foreign_key_list(sqlite_master.name) WHERE on_delete = 'CASCADE') ORDER BY name";
}
