//! PostgreSQL's schema, and the steps from an older one to the current one.
//!
//! `rookery_schema` has a row for each version, with the digest of the step that made it and the
//! oldest version whose servers can use it. Each step runs once, in one transaction with its row,
//! and only one of several servers that start at the same time runs it. A released step is never
//! changed: the next one corrects it.
//!
//! A step that builds an index runs outside of transactions: PostgreSQL builds it while others
//! write to the table, and waits for all transactions that began before. So no process may wait for
//! the lock of migrations within a statement, whose snapshot would hold that up: the lock is
//! polled.

use super::driver::PostgresDriver;
use crate::StoreError;
use crate::sql::migrate::{Change, Migrating, PAUSE, noted_version, persistently};
use crate::sql::opening::ANSWER;
use std::thread;
use std::time::{Duration, Instant};

impl Migrating for PostgresDriver {
    fn changes(&self) -> &'static [Change] {
        CHANGES
    }

    fn schema_version(&mut self) -> Result<i64, StoreError> {
        noted_version(self, [HAS_SCHEMA, OUR_NAMES, VERSIONS])
    }

    fn place(&self) -> String {
        self.database().to_owned()
    }

    /// Takes the lock, which the session holds until it ends.
    fn lock_schema(&mut self) -> Result<(), StoreError> {
        self.wait_for(PATIENCE)?;
        let until = Instant::now() + PATIENCE;
        while self.run(&format!("SELECT pg_try_advisory_lock({LOCK})"))?.concat() != "t" {
            if Instant::now() >= until {
                return Err(StoreError::Locked(self.target().engine("another server is migrating it".to_owned())));
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Runs a step. Statements that are sent together are one transaction.
    fn run_step(&mut self, number: i64, change: &Change, is_new: bool) -> Result<(), StoreError> {
        let note = self.note_of(number, change);
        if let Some(index) = change.index.filter(|_| !is_new) {
            self.make_index(index, change.sql)?;
            return self.run(&note).map(drop);
        }
        let statements = format!("{}{note}", change.sql);
        persistently(|| self.run(&statements)).map(drop)
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

    fn by_hand(&self, number: i64, change: &Change, is_new: bool) -> String {
        let note = self.note_of(number, change);
        match change.index.is_some() && !is_new {
            true => format!(
                "-- in no transaction, since others write to the table meanwhile\n{}{note}\n",
                concurrently(change.sql)
            ),
            false => format!("BEGIN;\n{}{note}\nCOMMIT;\n", change.sql),
        }
    }

    fn unlock_schema(&mut self, outcome: Result<(), StoreError>) -> Result<(), StoreError> {
        let unlocked = self.run(&format!("SELECT pg_advisory_unlock({LOCK})")).and_then(|_| self.wait_for(ANSWER));
        outcome.and(unlocked.map(drop))
    }
}

impl PostgresDriver {
    /// Creates an index while others write to its table. The rest of an interrupted attempt is
    /// removed first.
    fn make_index(&mut self, index: &str, sql: &str) -> Result<(), StoreError> {
        // The step waits for transactions that began before it, which must not wait for the step.
        self.run("SET lock_timeout = 0")?;
        tracing::info!(
            database = self.database(),
            index,
            "an index will be created as soon as all open transactions have ended"
        );
        let made = persistently(|| {
            let look = format!("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('{index}')");
            match self.run(&look)?.concat().as_str() {
                "t" => return Ok(()),
                "" => {}
                _ => drop(self.run(&format!("DROP INDEX CONCURRENTLY {index}"))?),
            }
            self.run(&concurrently(sql)).map(drop)
        });
        let restored = self.wait_for(PATIENCE);
        made.and(restored.map(drop))
    }
}

/// Returns the statement that creates an index while others write to the table.
fn concurrently(sql: &str) -> String {
    sql.replacen("CREATE INDEX ", "CREATE INDEX CONCURRENTLY ", 1)
}

const CHANGES: &[Change] = &[
    Change::alone(include_str!("schema-1.sql")),
    Change::alone(include_str!("schema-2.sql")),
    Change::alone(include_str!("schema-3.sql")),
    Change::alone(include_str!("schema-4.sql")).making("roster_items_shown"),
    Change::beside(4, include_str!("schema-5.sql")),
    Change::beside(5, include_str!("schema-6.sql")),
    Change::beside(5, include_str!("schema-7.sql")),
];

const HAS_SCHEMA: &str = "\
    SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'rookery_schema'";

const VERSIONS: &str = "SELECT version || ' ' || checksum FROM rookery_schema ORDER BY version";

/// Tables that only another program can have created.
const OUR_NAMES: &str = "\
    SELECT tablename FROM pg_tables WHERE schemaname = current_schema() \
    AND tablename IN ('accounts', 'documents', 'meta', 'lists', 'counters', 'rooms', 'archives', 'slots', 'invitations')";

/// The key of the lock for migrations: "Rook" in ASCII.
const LOCK: i64 = 0x526F_6F6B;

/// The time limit for a change of the schema, and for another server that makes it.
const PATIENCE: Duration = Duration::from_secs(60 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_makes_an_index_makes_nothing_else() {
        for change in CHANGES.iter().skip(1) {
            let statements = change.sql.lines().filter(|line| !line.starts_with("--")).collect::<String>();
            match change.index {
                None => assert!(!statements.contains(" INDEX "), "say which index this makes: {statements}"),
                Some(index) => {
                    assert!(statements.starts_with(&format!("CREATE INDEX {index} ON ")), "{statements}");
                    assert_eq!(statements.matches(';').count(), 1, "{statements}");
                    assert!(concurrently(change.sql).contains(&format!("\nCREATE INDEX CONCURRENTLY {index} ON ")));
                }
            }
        }
    }
}
