//! Tests servers of two neighbouring versions on one database: this one, and a later one that has
//! added something to each table and declares that this one can continue.

#[allow(dead_code, reason = "another test needs more of it")]
mod suite {
    pub mod accounts;
    pub mod archive;
    pub mod documents;
    pub mod invitations;
    pub mod last_presence;
    pub mod offline;
    pub mod pubsub;
    pub mod rooms;
    pub mod rosters;
    pub mod samples;
    pub mod slots;
    pub mod versions;
}

use rookery_needs::{Mariadb, Postgres};
use rookery_store::sql::SqlStore;
use rookery_store::sql::copy::{CopyEnd, EndAddress};
use rookery_store::{StoreError, Stores, Subscription, mysql, postgres};
use std::sync::Arc;
use suite::samples::finish;
use tempfile::TempDir;

macro_rules! on_all_engines {
    ($($name:ident),* $(,)?) => {
        mod sqlite_file {
            $(#[test] fn $name() { super::$name::<super::SqliteFiles>(); })*
        }
        mod postgres_server {
            $(#[test] fn $name() { super::$name::<rookery_needs::Postgres>(); })*
        }
        mod mariadb_server {
            $(#[test] fn $name() { super::$name::<rookery_needs::Mariadb>(); })*
        }
    };
}

on_all_engines! {
    the_version_before_goes_on_with_what_a_later_one_has_added,
    a_server_that_runs_goes_on_while_a_later_one_changes_the_schema,
    the_version_before_that_is_refused,
    a_copy_is_made_by_a_server_that_knows_all,
    each_schema_says_who_can_use_it,
}

fn the_version_before_goes_on_with_what_a_later_one_has_added<E: NeighbourEngine>() {
    let Some(engine) = E::start() else { return };
    for test in BASICS {
        let database = engine.empty();
        engine.open(&database).expect("this version's schema").close();
        let this = engine.newest(&database);
        engine.add_everywhere(&database);
        engine.note(&database, this + 1, Some(this));
        let store = Arc::new(engine.open(&database).expect("a schema that this version can use"));
        test(&Stores::of(store.clone()));
        store.close();
    }
}

fn a_server_that_runs_goes_on_while_a_later_one_changes_the_schema<E: NeighbourEngine>() {
    let Some(engine) = E::start() else { return };
    let database = engine.empty();
    let store = Arc::new(engine.open(&database).expect("this version's schema"));
    let stores = Stores::of(store.clone());
    let romeo = suite::samples::account(&stores, "romeo@a.example");
    let contact = |address| suite::samples::item_with(address, Subscription::Both);
    suite::samples::put(&stores, &romeo, contact("juliet@a.example"));
    assert_eq!(finish(stores.rosters.get(romeo.as_ref())).items.len(), 1);
    let this = engine.newest(&database);
    engine.add_everywhere(&database);
    engine.note(&database, this + 1, Some(this));
    suite::samples::put(&stores, &romeo, contact("mercutio@a.example"));
    assert_eq!(finish(stores.rosters.get(romeo.as_ref())).items.len(), 2);
    suite::rooms::rooms_read_as_written(&stores);
    store.close();
}

fn the_version_before_that_is_refused<E: NeighbourEngine>() {
    let Some(engine) = E::start() else { return };
    let database = engine.empty();
    engine.open(&database).expect("this version's schema").close();
    let this = engine.newest(&database);
    engine.note(&database, this + 1, Some(this));
    engine.note(&database, this + 2, Some(this + 1));
    let error = engine.open(&database).err().expect("a schema that is too new");
    let StoreError::TooNew { found, runs_from, known, .. } = &error else { panic!("{error:?}") };
    assert_eq!((*found, *runs_from, *known), (this + 2, this + 1, this));
    assert!(!error.is_temporary() && error.to_string().contains("newer server"), "{error}");
    // A step without a declaration is only for servers that know it.
    let database = engine.empty();
    engine.open(&database).expect("this version's schema").close();
    engine.note(&database, this + 1, None);
    let error = engine.open(&database).err().expect("a schema that is too new");
    assert!(matches!(error, StoreError::TooNew { runs_from, .. } if runs_from == this + 1), "{error:?}");
}

fn a_copy_is_made_by_a_server_that_knows_all<E: NeighbourEngine>() {
    let Some(engine) = E::start() else { return };
    let database = engine.empty();
    engine.open(&database).expect("this version's schema").close();
    let this = engine.newest(&database);
    engine.note(&database, this + 1, Some(this));
    for end in [CopyEnd::source, CopyEnd::destination] {
        let error = end(&engine.address(&database)).err().expect("a schema that isn't known whole");
        assert!(matches!(error, StoreError::TooNew { .. }), "{error:?}");
    }
    let found = engine.address(&database).check();
    let expected = format!("schema version {} of a newer server", this + 1);
    assert!(found.iter().any(|finding| finding.text.contains(&expected)), "{found:?}");
}

fn each_schema_says_who_can_use_it<E: NeighbourEngine>() {
    let Some(engine) = E::start() else { return };
    let database = engine.empty();
    engine.open(&database).expect("this version's schema").close();
    let this = engine.newest(&database);
    let noted = engine.sql(&database, &format!("SELECT runs_from FROM rookery_schema WHERE version = {this}"));
    let oldest: i64 = noted.parse().expect("a version");
    assert!((1..this).contains(&oldest), "{noted} of {this}: a server that lacks the last step can go on");
}

/// The operations that servers depend on.
const BASICS: [fn(&Stores); 14] = [
    suite::accounts::a_removed_account_leaves_nothing,
    suite::accounts::settings_are_kept,
    suite::accounts::lists_change_by_entries,
    suite::rosters::items_read_as_written,
    suite::versions::a_vanished_contact_is_reported_until_it_comes_back,
    suite::offline::messages_wait_in_order,
    suite::documents::documents_are_found_by_prefix,
    suite::invitations::a_token_is_good_once_and_for_a_time,
    suite::slots::a_slot_is_filled_once_and_kept_for_a_time,
    suite::archive::pages_go_both_ways,
    suite::archive::a_message_can_be_replaced_and_stretches_follow_each_other,
    suite::rooms::affiliations_change_and_outlive_the_document,
    suite::last_presence::only_those_who_may_see_it_do,
    suite::pubsub::bytes_are_counted,
];

/// Databases of one kind, as they are read and changed without the store.
trait NeighbourEngine: Sized {
    /// Starts the database server, if there is one; `None` if its tests are left out here.
    fn start() -> Option<Self>;

    /// Creates an empty database and returns its place.
    fn empty(&self) -> String;

    /// Returns the place in the form for copies.
    fn address(&self, database: &str) -> EndAddress;

    fn open(&self, database: &str) -> Result<SqlStore, StoreError> {
        self.address(database).open()
    }

    /// Runs statements and returns the rows, a line each.
    fn sql(&self, database: &str, statements: &str) -> String;

    /// Returns the version of the schema.
    fn newest(&self, database: &str) -> i64 {
        self.sql(database, "SELECT MAX(version) FROM rookery_schema").parse().expect("a number")
    }

    /// Records that a later server has made a version of the schema, and which servers can use it.
    fn note(&self, database: &str, version: i64, runs_from: Option<i64>);

    /// Adds a column and an index to each table, as a later server may.
    fn add_everywhere(&self, database: &str) {
        let added = self.sql(database, Self::ADDED);
        assert!(added.lines().count() > 20, "{added}");
        self.sql(database, &added);
    }

    /// The statements that add them.
    const ADDED: &'static str;
}

/// Records a version in the table of versions, for engines in other processes.
fn insert_version(version: i64, runs_from: Option<i64>) -> String {
    let runs_from = runs_from.map_or("NULL".to_owned(), |from| from.to_string());
    format!(
        "INSERT INTO rookery_schema (version, checksum, applied_by, runs_from) VALUES ({version}, 'later', 'later', {runs_from})"
    )
}

impl NeighbourEngine for Postgres {
    const ADDED: &'static str = "\
        SELECT 'ALTER TABLE ' || tablename || ' ADD COLUMN later BIGINT NOT NULL DEFAULT 7; \
        CREATE INDEX ' || tablename || '_later ON ' || tablename || ' (later);' FROM pg_tables WHERE schemaname = 'public'";

    fn start() -> Option<Self> {
        (!rookery_needs::skips("store.postgres")).then(Postgres::start)
    }

    fn empty(&self) -> String {
        self.database()
    }

    fn address(&self, database: &str) -> EndAddress {
        let address = postgres::PostgresAddress::parse(database).expect("an address");
        let options = postgres::PostgresOptions::at(address);
        EndAddress::Postgres(postgres::PostgresOptions { trusts_durability: true, ..options }.into())
    }

    fn sql(&self, database: &str, statements: &str) -> String {
        self.psql(database, statements).expect("rows")
    }

    fn note(&self, database: &str, version: i64, runs_from: Option<i64>) {
        NeighbourEngine::sql(self, database, &insert_version(version, runs_from));
    }
}

impl NeighbourEngine for Mariadb {
    const ADDED: &'static str = "\
        SELECT CONCAT('ALTER TABLE ', table_name, ' ADD COLUMN later BIGINT NOT NULL DEFAULT 7, ADD INDEX (later);') \
        FROM information_schema.tables WHERE table_schema = DATABASE()";

    fn start() -> Option<Self> {
        (!rookery_needs::skips("store.mariadb")).then(Mariadb::start)
    }

    fn empty(&self) -> String {
        self.database()
    }

    fn address(&self, database: &str) -> EndAddress {
        let address = mysql::MysqlAddress::parse(database).expect("an address");
        EndAddress::Mysql(mysql::MysqlOptions::at(address).into())
    }

    fn sql(&self, database: &str, statements: &str) -> String {
        Mariadb::sql(self, database, statements).expect("rows")
    }

    fn note(&self, database: &str, version: i64, runs_from: Option<i64>) {
        NeighbourEngine::sql(self, database, &insert_version(version, runs_from));
    }
}

/// Files of SQLite in a temporary folder.
struct SqliteFiles(TempDir);

impl NeighbourEngine for SqliteFiles {
    const ADDED: &'static str = "\
        SELECT 'ALTER TABLE ' || name || ' ADD COLUMN later INTEGER NOT NULL DEFAULT 7; \
        CREATE INDEX ' || name || '_later ON ' || name || ' (later);' FROM sqlite_master WHERE type = 'table' \
        AND name NOT LIKE 'sqlite_%'";

    fn start() -> Option<Self> {
        Some(SqliteFiles(tempfile::tempdir().expect("a temporary folder")))
    }

    fn empty(&self) -> String {
        let folder = TempDir::new_in(self.0.path()).expect("a temporary folder").keep();
        folder.join("rookery.db").display().to_string()
    }

    fn address(&self, database: &str) -> EndAddress {
        EndAddress::Sqlite(database.into())
    }

    fn sql(&self, database: &str, statements: &str) -> String {
        let file = rusqlite::Connection::open(database).expect("a database");
        if !statements.starts_with("SELECT") {
            file.execute_batch(statements).expect("statements");
            return String::new();
        }
        let mut query = file.prepare(statements).expect("a query");
        let rows = query.query_map([], |row| row.get::<_, rusqlite::types::Value>(0)).expect("rows");
        let text = |value| match value {
            rusqlite::types::Value::Text(text) => text,
            rusqlite::types::Value::Integer(integer) => integer.to_string(),
            other => panic!("{other:?}"),
        };
        rows.map(|row| text(row.expect("a row"))).collect::<Vec<_>>().join("\n")
    }

    fn note(&self, database: &str, version: i64, runs_from: Option<i64>) {
        let noted = runs_from
            .map(|from| format!("INSERT INTO rookery_schema (version, runs_from) VALUES ({version}, {from});"));
        self.sql(database, &format!("PRAGMA user_version = {version}; {}", noted.unwrap_or_default()));
    }
}
