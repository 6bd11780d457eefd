//! The default stores of a server in tests: in memory, or in a database.

use std::sync::{Arc, LazyLock};
use std::{env, fs};

mod emptied;

use emptied::EmptiedDatabases;
use rookery_needs::{Mariadb, Postgres};
use rookery_store::forward::{Forward, Owners};
use rookery_store::memory::Memory;
use rookery_store::{Pending, Stores, TermsOf, mysql, postgres, sqlite, wait};

/// The environment variable for the engine: `sqlite`, `postgres` or `mariadb`, with a database for
/// each server; without it, or with `memory`, everything is kept in memory. With `postgres-index`
/// and `mariadb-index` searches have an index.
pub const ENGINE: &str = "ROOKERY_TEST_ENGINE";

/// Returns whether servers that name no store keep everything in a database of the variable.
pub fn is_database() -> bool {
    env::var(ENGINE).is_ok_and(|engine| engine != "memory")
}

/// Returns the stores of a new server.
pub(crate) fn stores() -> Stores {
    match env::var(ENGINE).as_deref() {
        Err(_) | Ok("memory") => Memory::stores(),
        Ok("sqlite") => {
            // The tables are created once, and each file is a copy.
            static EMPTY: LazyLock<Vec<u8>> = LazyLock::new(|| {
                let folder = tempfile::tempdir().expect("a temporary folder");
                let file = folder.path().join("rookery.db");
                sqlite::migrate(&file, false).expect("a new database");
                fs::read(file).expect("the file")
            });
            let folder = tempfile::tempdir().expect("a temporary folder");
            let file = folder.path().join("rookery.db");
            fs::write(&file, &*EMPTY).expect("a file");
            let store = sqlite::open(&file, &sqlite::SqliteOptions::default());
            at_once(Stores::of(Arc::new(store.expect("a new database"))), folder)
        }
        Ok("postgres") => {
            // The schema is created once, and each database is a copy.
            static CLUSTER: LazyLock<(Postgres, String)> = LazyLock::new(|| {
                let cluster = Postgres::start();
                let address = cluster.database();
                postgres::migrate(&options(&address)).expect("an empty database");
                let name = address.rsplit('/').next().expect("a name").to_owned();
                (cluster, format!("TEMPLATE {name}"))
            });
            static EMPTIED: EmptiedDatabases = EmptiedDatabases::new();
            let (cluster, template) = &*CLUSTER;
            let lent = EMPTIED.lend(cluster, || cluster.database_with(template));
            let store = postgres::open(&options(&lent.address));
            at_once(Stores::of(Arc::new(store.expect("a new database"))), lent)
        }
        Ok("postgres-index") => {
            static CLUSTER: LazyLock<Postgres> = LazyLock::new(Postgres::start);
            static EMPTIED: EmptiedDatabases = EmptiedDatabases::new();
            let terms_of: Option<TermsOf> = Some(rookery_archive::terms);
            let lent = EMPTIED.lend(&*CLUSTER, || CLUSTER.database());
            let store = postgres::open(&postgres::PostgresOptions { terms_of, ..options(&lent.address) });
            at_once(Stores::of(Arc::new(store.expect("a new database"))), lent)
        }
        Ok(engine @ ("mariadb" | "mariadb-index")) => {
            static SERVER: LazyLock<Mariadb> = LazyLock::new(Mariadb::start);
            static EMPTIED: EmptiedDatabases = EmptiedDatabases::new();
            let lent = EMPTIED.lend(&*SERVER, || SERVER.database());
            let address = mysql::MysqlAddress::parse(&lent.address).expect("an address");
            let terms_of: Option<TermsOf> = if engine == "mariadb" { None } else { Some(rookery_archive::terms) };
            let store =
                mysql::open(&mysql::MysqlOptions { connections: 2, terms_of, ..mysql::MysqlOptions::at(address) });
            at_once(Stores::of(Arc::new(store.expect("a new database"))), lent)
        }
        Ok(other) => panic!("{ENGINE} is {other:?}: memory, sqlite, postgres or mariadb is expected"),
    }
}

fn options(address: &str) -> postgres::PostgresOptions {
    let address = postgres::PostgresAddress::parse(address).expect("an address");
    // The tests' cluster doesn't wait for the disk.
    postgres::PostgresOptions { trusts_durability: true, connections: 2, ..postgres::PostgresOptions::at(address) }
}

/// Returns stores that answer before a call returns, however long it takes, so that nothing is
/// outstanding when the server has settled. `kept` lives as long as they do.
pub fn at_once(stores: Stores, kept: impl Send + Sync + 'static) -> Stores {
    Stores::of(Arc::new(AtOnce { stores, _kept: kept }))
}

struct AtOnce<K> {
    stores: Stores,
    _kept: K,
}

impl<K: Send + Sync> Forward for AtOnce<K> {
    fn inner(&self) -> &Stores {
        &self.stores
    }

    fn forward<T: Send + 'static>(
        &self,
        _: Owners,
        call: impl FnOnce(&Stores) -> Pending<T> + Send + 'static,
    ) -> Pending<T> {
        Box::pin(std::future::ready(wait(call(&self.stores))))
    }
}
