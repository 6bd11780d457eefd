//! Databases that serve one test after another: creating the tables takes longer than most tests
//! run, while emptying them is quick.

use std::sync::{Mutex, OnceLock};
use std::thread;

use rookery_base::lock::lock;
use rookery_needs::{Mariadb, Postgres};

/// A server of databases, as its administrator sees it.
pub(super) trait DatabaseServer: Sync {
    /// The query for the names of the tables.
    const TABLES: &str;

    /// Runs statements in the database and returns the rows, a line each.
    fn run(&self, address: &str, statements: &str) -> Result<String, String>;

    /// Returns the statements that wait until nobody else is connected to the database and then run
    /// others in a transaction. Each client is a process, so one has to do it all.
    fn alone(statements: &str) -> String;
}

impl DatabaseServer for Mariadb {
    const TABLES: &str = "SELECT table_name FROM information_schema.tables \
                          WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE'";

    fn run(&self, address: &str, statements: &str) -> Result<String, String> {
        self.sql(address, statements)
    }

    fn alone(statements: &str) -> String {
        format!(
            "DELIMITER //\n\
             BEGIN NOT ATOMIC\n\
             DECLARE waits INT DEFAULT 0;\n\
             WHILE EXISTS (SELECT id FROM information_schema.processlist \
             WHERE db = DATABASE() AND id <> CONNECTION_ID()) DO\n\
             DO SLEEP({PAUSE});\n\
             SET waits = waits + 1;\n\
             IF waits > {MOST_PAUSES} THEN SIGNAL SQLSTATE '45000'; END IF;\n\
             END WHILE;\n\
             SET foreign_key_checks = 0;\n\
             START TRANSACTION;\n\
             {statements}\n\
             COMMIT;\n\
             END//\n"
        )
    }
}

impl DatabaseServer for Postgres {
    const TABLES: &str = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()";

    fn run(&self, address: &str, statements: &str) -> Result<String, String> {
        self.psql(address, statements)
    }

    fn alone(statements: &str) -> String {
        format!(
            "DO $$\n\
             DECLARE waits INTEGER := 0;\n\
             BEGIN\n\
             WHILE EXISTS (SELECT FROM pg_stat_activity \
             WHERE datname = current_database() AND pid <> pg_backend_pid()) LOOP\n\
             PERFORM pg_sleep({PAUSE});\n\
             PERFORM pg_stat_clear_snapshot();\n\
             waits := waits + 1;\n\
             IF waits > {MOST_PAUSES} THEN RAISE EXCEPTION 'there are still connections'; END IF;\n\
             END LOOP;\n\
             SET LOCAL session_replication_role = replica;\n\
             {statements}\n\
             END $$"
        )
    }
}

/// The databases of a server that nobody uses.
#[derive(Debug)]
pub(super) struct EmptiedDatabases {
    free: Mutex<Vec<String>>,
    /// The statements that empty the tables, which all these databases have.
    deletes: OnceLock<String>,
}

impl EmptiedDatabases {
    pub(super) const fn new() -> Self {
        Self { free: Mutex::new(Vec::new()), deletes: OnceLock::new() }
    }

    /// Lends an empty database, which `create` makes if there is none.
    pub(super) fn lend<S: DatabaseServer>(
        &'static self,
        server: &'static S,
        create: impl FnOnce() -> String,
    ) -> LentDatabase<S> {
        let free = lock(&self.free).pop();
        LentDatabase { server, all: self, address: free.unwrap_or_else(create) }
    }
}

/// A database in use. It goes to others once it is dropped; the store in it has to be dropped
/// before.
#[derive(Debug)]
pub(super) struct LentDatabase<S: DatabaseServer + 'static> {
    server: &'static S,
    all: &'static EmptiedDatabases,
    pub(super) address: String,
}

impl<S: DatabaseServer> LentDatabase<S> {
    /// Empties all tables but those that describe the schema, once all connections are closed.
    fn empty(&self) -> Result<(), String> {
        let deletes = match self.all.deletes.get() {
            Some(deletes) => deletes,
            None => {
                let tables = self.server.run(&self.address, S::TABLES)?;
                let tables = tables.lines().filter(|table| !OF_SCHEMA.contains(table));
                let deletes: String = tables.map(|table| format!("DELETE FROM {table}; ")).collect();
                self.all.deletes.get_or_init(|| deletes + COUNTERS)
            }
        };
        self.server.run(&self.address, &S::alone(deletes)).map(drop)
    }
}

impl<S: DatabaseServer> Drop for LentDatabase<S> {
    fn drop(&mut self) {
        // A database that can't be emptied isn't used again.
        if !thread::panicking() && self.empty().is_ok() {
            lock(&self.all.free).push(std::mem::take(&mut self.address));
        }
    }
}

/// The tables whose rows come with the schema.
const OF_SCHEMA: [&str; 5] = ["rookery_schema", "rookery_months", "rookery_search", "rookery_epoch", "counters"];
/// Gives the counters the values that they have in a new database.
const COUNTERS: &str = "DELETE FROM counters WHERE name <> 'next_roster_version'; UPDATE counters SET value = 1;";
/// The pause before connections are looked for again, in seconds.
const PAUSE: f64 = 0.005;
/// The most such pauses: a store that is dropped closes its connections sooner.
const MOST_PAUSES: u32 = 400;
