//! Databases that serve one test after another: creating the tables takes longer than most tests
//! run, while emptying them is quick.

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use rookery_base::lock::lock;
use rookery_needs::{Mariadb, Postgres};

/// A server of databases, as its administrator sees it.
pub(super) trait DatabaseServer: Sync {
    /// The query for the connections of others to the database.
    const OTHERS: &str;
    /// The query for the names of the tables.
    const TABLES: &str;
    /// The statement before all tables are emptied.
    const BEGIN: &str;

    /// Runs statements in the database and returns the rows, a line each.
    fn run(&self, address: &str, statements: &str) -> Result<String, String>;
}

impl DatabaseServer for Mariadb {
    const OTHERS: &str =
        "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()";
    const TABLES: &str = "SELECT table_name FROM information_schema.tables \
                          WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE'";
    const BEGIN: &str = "SET foreign_key_checks = 0; START TRANSACTION; ";

    fn run(&self, address: &str, statements: &str) -> Result<String, String> {
        self.sql(address, statements)
    }
}

impl DatabaseServer for Postgres {
    const OTHERS: &str =
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    const TABLES: &str = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()";
    const BEGIN: &str = "BEGIN; SET session_replication_role = replica; ";

    fn run(&self, address: &str, statements: &str) -> Result<String, String> {
        self.psql(address, statements)
    }
}

/// The databases of a server that nobody uses.
#[derive(Debug)]
pub(super) struct EmptiedDatabases(Mutex<Vec<String>>);

impl EmptiedDatabases {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Lends an empty database, which `create` makes if there is none.
    pub(super) fn lend<S: DatabaseServer>(
        &'static self,
        server: &'static S,
        create: impl FnOnce() -> String,
    ) -> LentDatabase<S> {
        let free = lock(&self.0).pop();
        LentDatabase { server, free: &self.0, address: free.unwrap_or_else(create) }
    }
}

/// A database in use. It goes to others once it is dropped; the store in it has to be dropped
/// before.
#[derive(Debug)]
pub(super) struct LentDatabase<S: DatabaseServer + 'static> {
    server: &'static S,
    free: &'static Mutex<Vec<String>>,
    pub(super) address: String,
}

impl<S: DatabaseServer> LentDatabase<S> {
    /// Empties all tables but those that describe the schema, once all connections are closed.
    fn empty(&self) -> Result<(), String> {
        let run = |statements: &str| self.server.run(&self.address, statements);
        let start = Instant::now();
        while !run(S::OTHERS)?.is_empty() {
            if start.elapsed() > PATIENCE {
                return Err("there are still connections".to_owned());
            }
            thread::sleep(Duration::from_millis(5));
        }
        let tables = run(S::TABLES)?;
        let tables = tables.lines().filter(|table| !OF_SCHEMA.contains(table));
        let deletes: String = tables.map(|table| format!("DELETE FROM {table}; ")).collect();
        run(&format!("{}{deletes}{COUNTERS}; COMMIT", S::BEGIN)).map(drop)
    }
}

impl<S: DatabaseServer> Drop for LentDatabase<S> {
    fn drop(&mut self) {
        // A database that can't be emptied isn't used again.
        if !thread::panicking() && self.empty().is_ok() {
            lock(self.free).push(std::mem::take(&mut self.address));
        }
    }
}

/// The tables whose rows come with the schema.
const OF_SCHEMA: [&str; 5] = ["rookery_schema", "rookery_months", "rookery_search", "rookery_epoch", "counters"];
/// Gives the counters the values that they have in a new database.
const COUNTERS: &str = "DELETE FROM counters WHERE name <> 'next_roster_version'; UPDATE counters SET value = 1";
/// The time in which a store that is dropped closes its connections.
const PATIENCE: Duration = Duration::from_secs(2);
