//! MariaDB's and MySQL's schema, and the way from an older one to the current one.
//!
//! `rookery_schema` has a row for each version, with the digest of its step and the oldest version
//! whose servers can use it. Schema changes aren't transactional here: each statement of a step
//! does nothing if it was run before, so an interrupted step can be run again. If the syntax has no
//! `IF NOT EXISTS`, the statement first checks `information_schema`. The table of versions is
//! created first: a database with it is known to be ours, however far a step got.

use super::driver::MysqlDriver;
use crate::StoreError;
use crate::sql::migrate::{Change, Migrating, noted_version, persistently};
use crate::sql::opening::ANSWER;
use std::time::Duration;

impl Migrating for MysqlDriver {
    fn changes(&self) -> &'static [Change] {
        CHANGES
    }

    fn schema_version(&mut self) -> Result<i64, StoreError> {
        noted_version(self, [HAS_SCHEMA, OUR_NAMES, VERSIONS])
    }

    fn place(&self) -> String {
        self.database().to_owned()
    }

    /// Takes the lock, which the connection holds until it ends.
    fn lock_schema(&mut self) -> Result<(), StoreError> {
        self.wait_for(PATIENCE)?;
        let locked = self.run(&format!("SELECT GET_LOCK({LOCK}, {})", PATIENCE.as_secs() / 2))?;
        match locked.first().and_then(|row| row.first()).is_some_and(|taken| taken == "1") {
            true => Ok(()),
            false => Err(StoreError::Locked(self.target().engine("another server is migrating it".to_owned()))),
        }
    }

    fn run_step(&mut self, number: i64, change: &Change, _: bool) -> Result<(), StoreError> {
        let statements = format!("{BRIEFLY}; {}", online(change));
        persistently(|| self.run(&statements))?;
        self.run(&self.note_of(number, change)).map(drop)
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

    fn by_hand(&self, number: i64, change: &Change, _: bool) -> String {
        format!("{}{}\n", online(change), self.note_of(number, change))
    }

    fn unlock_schema(&mut self, outcome: Result<(), StoreError>) -> Result<(), StoreError> {
        let unlock = format!("SET SESSION lock_wait_timeout = DEFAULT; SELECT RELEASE_LOCK({LOCK})");
        let unlocked = self.run(&unlock).and_then(|_| self.wait_for(ANSWER));
        outcome.and(unlocked.map(drop))
    }
}

/// Returns the statements of a step. One that creates an index is refused if others couldn't write
/// to the table in the meantime.
fn online(change: &Change) -> String {
    match change.index {
        None => change.sql.to_owned(),
        Some(_) => change.sql.replacen(END_OF_INDEX, ") ALGORITHM = INPLACE LOCK = NONE'", 1),
    }
}

const CHANGES: &[Change] = &[
    Change::alone(include_str!("schema-1.sql")),
    Change::alone(include_str!("schema-2.sql")),
    Change::alone(include_str!("schema-3.sql")).making("roster_items_shown"),
    Change::beside(3, include_str!("schema-4.sql")),
    Change::beside(4, include_str!("schema-5.sql")),
    Change::beside(4, include_str!("schema-6.sql")),
];

/// The end of the text of a statement that creates an index.
const END_OF_INDEX: &str = ")'";

/// Bounds the wait for a table in use, since others wait for it, too.
const BRIEFLY: &str = "SET SESSION lock_wait_timeout = 2";

const HAS_SCHEMA: &str = "\
    SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'rookery_schema'";

const VERSIONS: &str = "SELECT CONCAT(version, ' ', checksum) FROM rookery_schema ORDER BY version";

/// Tables that only another program can have created.
const OUR_NAMES: &str = "\
    SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() \
    AND table_name IN ('accounts', 'documents', 'meta', 'lists', 'counters', 'rooms', 'archives', 'slots', 'invitations')";

/// The name of the lock for migrations: locks are server-wide, so it includes the database.
const LOCK: &str = "CONCAT('rookery ', LEFT(SHA2(DATABASE(), 256), 40))";

/// The time limit for a migration, which is twice the wait for another server's.
const PATIENCE: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_makes_an_index_lets_others_write() {
        for change in CHANGES.iter().skip(1) {
            match change.index {
                None => assert!(!change.sql.contains(" INDEX "), "say which index this makes: {}", change.sql),
                Some(index) => {
                    assert_eq!(change.sql.matches(END_OF_INDEX).count(), 1, "{}", change.sql);
                    assert_eq!(change.sql.matches(&format!("'CREATE INDEX {index} ON ")).count(), 1, "{}", change.sql);
                    assert!(online(change).contains(") ALGORITHM = INPLACE LOCK = NONE');"), "{}", online(change));
                }
            }
        }
    }
}
