//! Tests steps of the schema while servers of the previous version use the database: their writes
//! continue, nothing is rewritten, and an interrupted step is repeated.

#[allow(dead_code, reason = "tests of other troubles need more of it")]
mod engines;

use engines::EngineServer;
use rookery_jid::Jid;
use rookery_needs::{Mariadb, Postgres};
use rookery_sasl::Credentials;
use rookery_store::sql::SqlStore;
use rookery_store::sql::copy::EndAddress;
use rookery_store::{Accounts, Edit, RosterItem, Rosters, SizeOf, StoreError, wait};
use std::thread;
use std::time::Duration;

engines::tests! {
    writes_go_on_while_an_index_is_made,
    an_index_whose_making_was_ended_is_made_again,
    no_step_writes_a_table_again,
}

/// An open transaction has changed the table: a lock that keeps writers out would wait for it, and
/// all writers for that lock.
fn writes_go_on_while_an_index_is_made<S: Old>() {
    let Some(server) = S::start() else { return };
    let (database, before) = fill(&server);
    thread::scope(|scope| {
        let held = HeldTransaction { server: &server, database: &database };
        scope.spawn(|| server.hold(&database));
        until(|| server.is_holding(&database));
        let others: Vec<_> = (0..3).map(|_| scope.spawn(|| S::try_open(&database, 1).map(drop))).collect();
        until(|| server.is_making(&database));
        for number in 0..20 {
            assert_eq!(add_contact(&before, "juliet", number), Ok(()), "contact {number}");
        }
        assert!(!server.has_index(&database), "it is made while all that is written");
        assert!(others.iter().all(|other| !other.is_finished()), "no server starts before the schema is what it knows");
        drop(held);
        for other in others {
            assert_eq!(other.join().expect("a server"), Ok(()));
        }
    });
    assert!(server.has_index(&database));
    let roster = wait(Rosters::get(&before, jid("juliet").as_ref())).expect("a roster");
    assert_eq!(roster.items.len(), 20);
}

fn an_index_whose_making_was_ended_is_made_again<S: Old>() {
    let Some(server) = S::start() else { return };
    let (database, before) = fill(&server);
    thread::scope(|scope| {
        let held = HeldTransaction { server: &server, database: &database };
        scope.spawn(|| server.hold(&database));
        until(|| server.is_holding(&database));
        let ended = scope.spawn(|| S::try_open(&database, 1).map(drop));
        until(|| server.is_making(&database));
        while !ended.is_finished() {
            server.end_making(&database);
            thread::sleep(MOMENT);
        }
        let error = ended.join().expect("a server").expect_err("a step that was ended");
        assert!(error.is_temporary(), "{error:?}");
        drop(held);
    });
    assert!(!server.has_index(&database));
    assert_eq!(add_contact(&before, "juliet", 0), Ok(()));
    S::open(&database, 1).close();
    assert!(server.has_index(&database));
}

/// Each step is run by the statements that are printed for operators, over tables with rows.
fn no_step_writes_a_table_again<S: Old>() {
    let Some(server) = S::start() else { return };
    let database = server.database();
    let address = EndAddress::parse(&database).expect("an address");
    let next = || address.plan().expect("a plan").steps.into_iter().next();
    let first = next().expect("an empty database");
    server.sql(&database, &first.sql);
    server.sql(&database, ROWS);
    while let Some(step) = next() {
        let before = server.sql(&database, &S::files(&database));
        assert!(before.lines().count() > 20, "{before}");
        server.by_hand(&database, &step.sql);
        let after = server.sql(&database, &S::files(&database));
        for file in before.lines() {
            assert!(after.lines().any(|line| line == file), "step {} writes {file} again", step.number);
        }
    }
    let store = S::open(&database, 1);
    assert_eq!(add_contact(&store, "romeo", 1), Ok(()));
    assert_eq!(wait(Rosters::get(&store, jid("romeo").as_ref())).expect("a roster").items.len(), 2);
}

/// A server whose databases get the schema of an earlier version, and are disturbed during the
/// migration.
trait Old: EngineServer {
    /// Reverts a database to the version before the index of rosters.
    const TAKEN_BACK: &'static str;

    /// Returns the query for all tables with a value that changes if a table is rewritten, a line
    /// each.
    fn files(database: &str) -> String;

    /// Runs the statements of a step as a shell does.
    fn by_hand(&self, database: &str, statements: &str) {
        self.sql(database, statements);
    }

    /// Opens a transaction that changes the roster of romeo, until [`let_go`](Old::let_go).
    fn hold(&self, database: &str);

    fn is_holding(&self, database: &str) -> bool;

    fn let_go(&self, database: &str);

    /// Returns true if a session is creating the index.
    fn is_making(&self, database: &str) -> bool;

    /// Ends the session that is creating the index.
    fn end_making(&self, database: &str);

    /// Returns true if the index is complete.
    fn has_index(&self, database: &str) -> bool;
}

/// A transaction that is open, and is ended even if the test fails.
struct HeldTransaction<'a, S: Old> {
    server: &'a S,
    database: &'a str,
}

impl<S: Old> Drop for HeldTransaction<'_, S> {
    fn drop(&mut self) {
        self.server.let_go(self.database);
    }
}

impl Old for Postgres {
    const TAKEN_BACK: &'static str = "\
        DROP INDEX roster_items_shown; DELETE FROM rookery_schema WHERE version >= 4; \
        ALTER TABLE rookery_schema DROP COLUMN runs_from; \
        ALTER TABLE rookery_lanes DROP COLUMN node, DROP COLUMN incarnation, DROP COLUMN fenced_ms; \
        ALTER TABLE accounts DROP COLUMN created_ms";

    fn files(_: &str) -> String {
        "SELECT relname, pg_relation_filenode(oid) FROM pg_class \
         WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY 1"
            .to_owned()
    }

    /// Passes the statements to `psql` one by one, since several at once are one transaction.
    fn by_hand(&self, database: &str, statements: &str) {
        if !statements.contains("CONCURRENTLY") {
            return drop(self.sql(database, statements));
        }
        for statement in statements.split_inclusive(";\n") {
            self.sql(database, statement);
        }
    }

    fn hold(&self, database: &str) {
        // It ends with an error when it is let go.
        drop(self.try_sql(database, &format!("BEGIN; {CHANGE}; SELECT pg_sleep(600)")));
    }

    fn is_holding(&self, database: &str) -> bool {
        self.sql(database, &format!("SELECT COUNT(*) FROM pg_stat_activity WHERE {HOLDS}")) != "0"
    }

    fn let_go(&self, database: &str) {
        self.sql(database, &format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {HOLDS}"));
    }

    /// Returns true if the index is there for writers, and waits for the open transaction.
    fn is_making(&self, database: &str) -> bool {
        let begun =
            "SELECT COUNT(*) FROM pg_index WHERE indexrelid = to_regclass('roster_items_shown') AND NOT indisvalid";
        let waiting = format!("SELECT COUNT(*) FROM pg_stat_activity WHERE {MAKES} AND wait_event_type = 'Lock'");
        self.sql(database, begun) == "1" && self.sql(database, &waiting) == "1"
    }

    fn end_making(&self, database: &str) {
        self.sql(database, &format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {MAKES}"));
    }

    fn has_index(&self, database: &str) -> bool {
        let valid = "SELECT COUNT(*) FROM pg_index WHERE indexrelid = to_regclass('roster_items_shown') AND indisvalid";
        self.sql(database, valid) == "1"
    }
}

impl Old for Mariadb {
    const TAKEN_BACK: &'static str = "\
        DROP INDEX roster_items_shown ON roster_items; DELETE FROM rookery_schema WHERE version >= 3; \
        ALTER TABLE rookery_schema DROP COLUMN runs_from";

    fn files(database: &str) -> String {
        let name = database.rsplit('/').next().unwrap_or(database);
        format!("SELECT name, table_id FROM information_schema.innodb_sys_tables WHERE name LIKE '{name}/%' ORDER BY 1")
    }

    fn hold(&self, database: &str) {
        drop(self.try_sql(
            database,
            &format!("SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION; {CHANGE}; DO SLEEP(600)"),
        ));
    }

    fn is_holding(&self, database: &str) -> bool {
        !self.connections(database, "info = 'DO SLEEP(600)'").is_empty()
    }

    fn let_go(&self, database: &str) {
        self.end(database, "info = 'DO SLEEP(600)'");
    }

    fn is_making(&self, database: &str) -> bool {
        !self.connections(database, MAKES_HERE).is_empty()
    }

    fn end_making(&self, database: &str) {
        self.end(database, MAKES_HERE);
    }

    fn has_index(&self, database: &str) -> bool {
        let there = "SELECT COUNT(*) > 0 FROM information_schema.statistics WHERE table_schema = DATABASE() \
             AND index_name = 'roster_items_shown'";
        EngineServer::sql(self, database, there) == "1"
    }
}

/// An engine that can list its connections.
trait CountedConnections: EngineServer {
    fn connections(&self, database: &str, which: &str) -> Vec<String> {
        let found = format!("SELECT id FROM information_schema.processlist WHERE {which}");
        self.sql(database, &found).lines().map(str::to_owned).collect()
    }

    fn end(&self, database: &str, which: &str) {
        for connection in self.connections(database, which) {
            // It may have ended by itself.
            drop(self.try_sql(database, &format!("KILL {connection}")));
        }
    }
}

impl CountedConnections for Mariadb {}

/// Creates a database of the previous version with two accounts, of which one has a contact, and a
/// server that uses it.
fn fill<S: Old>(server: &S) -> (String, SqlStore) {
    let database = server.database();
    let store = S::open(&database, 2);
    for name in ["romeo", "juliet"] {
        let credentials = Credentials::derive_with("secret", 1, [[7; 16]; 3]).expect("a password");
        assert_eq!(wait(store.create(jid(name).as_ref(), credentials)), Ok(true));
    }
    assert_eq!(add_contact(&store, "romeo", 0), Ok(()));
    server.sql(&database, S::TAKEN_BACK);
    assert!(!server.has_index(&database));
    (database, store)
}

fn add_contact(store: &SqlStore, owner: &str, number: usize) -> Result<(), StoreError> {
    let item = RosterItem::new(jid(&format!("contact{number}")));
    let contact = item.jid.clone();
    let put = Box::new(move |_: Option<&RosterItem>, _: SizeOf<'_>| Edit::Put(item.clone()));
    wait(store.change(jid(owner).as_ref(), contact.as_ref(), put)).map(drop)
}

fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        thread::sleep(MOMENT);
    }
}

fn jid(local: &str) -> Jid {
    Jid::parse(&format!("{local}@a.example")).expect("an address")
}

/// Rows of the first version.
const ROWS: &str = "\
    INSERT INTO accounts (domain, localpart, roster_version, roster_oldest, roster_items, offline_messages) \
        VALUES ('a.example', 'romeo', 1, 1, 1, 0); \
    INSERT INTO roster_items (owner, contact, version, roster_groups, subscription, ask, approved, listed) \
        SELECT id, 'juliet@a.example', 1, '', 3, 0, 0, 1 FROM accounts; \
    INSERT INTO rooms (host, localpart, name, is_public, config) VALUES ('rooms.a.example', 'garden', '', 1, 'x'); \
    INSERT INTO archives (domain, localpart, account) SELECT domain, localpart, id FROM accounts; \
    INSERT INTO archive_messages (owner, id, contact_key, contact, resource, stanza) SELECT id, 2, 3, 'b', '', 'x' FROM archives";

const CHANGE: &str = "UPDATE roster_items SET subscription = 0";

const HOLDS: &str = "query LIKE '%pg_sleep(600)%' AND pid <> pg_backend_pid()";

const MAKES: &str = "query LIKE '%CREATE INDEX%' AND state = 'active' AND pid <> pg_backend_pid()";

const MAKES_HERE: &str = "info LIKE '%CREATE INDEX roster_items_shown%' AND id <> CONNECTION_ID()";

const MOMENT: Duration = Duration::from_millis(20);
