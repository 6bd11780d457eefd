//! Tests PostgreSQL databases that are unfit, foreign, read-only, encrypted or behind a pool.

use rookery_jid::Jid;
use rookery_needs::{Postgres, Proxy};
use rookery_sasl::Credentials;
use rookery_store::postgres::{self, PostgresAddress, PostgresOptions};
use rookery_store::sql::{Migrations, Patience, Severity, SqlStore};
use rookery_store::{Accounts, Meta, Offline, OfflineRoom, Pushed, StoreError, wait};
use std::sync::{Arc, LazyLock};

rookery_needs::needing! {
    "store.postgres":
    what_is_unfit_is_refused,
    what_cannot_be_reached_is_told,
    a_read_only_database_is_read,
    the_way_to_it_is_encrypted,
    a_role_that_may_change_no_tables_serves,
    a_pool_of_connections_may_share_no_sessions,
    the_first_transaction_of_a_connection_that_waits_for_replicas_is_not_run_twice,
}

mod test {
    use super::*;

    pub fn what_is_unfit_is_refused() {
        let database = CLUSTER.database();
        let strict = PostgresOptions { trusts_durability: false, ..options(&database) };
        let error = expect_refusal(&strict);
        assert!(error.contains("fsync is off") && error.contains("durability = \"trust\""), "{error}");
        assert!(findings(&strict).iter().any(|finding| finding.contains("fsync is off")));
        let encoding = "ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0";
        let error = expect_refusal(&options(&CLUSTER.database_with(encoding)));
        assert!(error.contains("its encoding is SQL_ASCII") && error.contains("ENCODING 'UTF8'"), "{error}");
    }

    /// Its commit waits for a replica when the connection is lost, and isn't visible until then.
    pub fn the_first_transaction_of_a_connection_that_waits_for_replicas_is_not_run_twice() {
        let cluster = Postgres::start();
        let database = cluster.database();
        let psql = |statements: &str| cluster.psql(&database, statements).expect("an answer");
        let (direct, account) = (open(&database), Jid::parse("romeo@a.example").expect("an address"));
        create(&direct, &account);
        let proxy = Proxy::start(&cluster.socket());
        let by_proxy = cluster.address_by(&proxy, database.rsplit('/').next().expect("a name"));
        let patient = PostgresOptions { connections: 1, patience: Patience::of_commands(), ..options(&by_proxy) };
        let store = postgres::open(&patient).expect("a database");
        psql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
        psql("SELECT pg_reload_conf()");
        let waits = |event: &str| {
            let sql = format!("SELECT count(*) FROM pg_stat_activity WHERE wait_event = '{event}'");
            while psql(&sql) == "0" {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        };
        let pushed = store.push(account.as_ref(), account.as_ref(), b"once".to_vec(), 1, OfflineRoom::UNBOUNDED);
        waits("SyncRep");
        proxy.cut_all();
        waits("transactionid");
        psql("ALTER SYSTEM RESET synchronous_standby_names");
        psql("SELECT pg_reload_conf()");
        wait(pushed).expect("kept");
        assert_eq!(wait(Offline::count(&direct, account.as_ref())), Ok(1));
    }

    pub fn what_cannot_be_reached_is_told() {
        let nowhere = PostgresAddress::parse("postgres://rookery@%2Fnowhere/rookery").expect("an address");
        let error = postgres::open(&PostgresOptions::at(nowhere)).err().expect("nobody there");
        assert!(matches!(error, StoreError::Lost(_)) && error.is_temporary(), "{error:?}");
        assert!(error.to_string().contains("/nowhere") && error.to_string().contains("can't be reached"), "{error}");
        let error = expect_refusal(&options(&CLUSTER.address("nothing")));
        assert!(error.contains("\"nothing\" does not exist"), "{error}");
    }

    pub fn a_read_only_database_is_read() {
        let database = CLUSTER.database();
        let store = open(&database);
        wait(Meta::put(&store, "key", vec![1])).expect("a database that can be written");
        store.close();
        let name = database.rsplit('/').next().expect("a name");
        let set = |to: &str| format!("ALTER DATABASE {name} SET default_transaction_read_only = {to}");
        CLUSTER.psql("postgres", &set("on")).expect("a setting");
        assert!(findings(&options(&database)).iter().any(|finding| finding.contains("no host can be written to")));
        CLUSTER.psql("postgres", &set("off")).expect("a setting");
        let store = open(&database);
        CLUSTER.psql("postgres", &set("on")).expect("a setting");
        disconnect(&database);
        assert_eq!(wait(Meta::get(&store, "key")), Ok(Some(vec![1])));
        let error = wait(Meta::put(&store, "key", vec![2])).expect_err("a database that can't be written");
        assert!(matches!(error, StoreError::ReadOnly(_)), "{error:?}");
        CLUSTER.psql("postgres", &set("off")).expect("a setting");
        disconnect(&database);
        assert_eq!(wait(Meta::put(&store, "key", vec![3])), Ok(()));
    }

    pub fn the_way_to_it_is_encrypted() {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let cluster = Postgres::start_encrypted(&made.cert.pem(), &made.signing_key.serialize_pem());
        let database = cluster.database();
        cluster.psql(&database, "ALTER ROLE rookery PASSWORD 'secret'").expect("a password");
        let name = database.rsplit('/').next().expect("a name");
        // A machine that relays the login has another certificate.
        let address = format!("postgres://rookery@localhost:{}/{name}?channel_binding=require", cluster.port());
        let trusting = |roots: rustls::RootCertStore| {
            let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
            let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
            Some(Arc::new(config.expect("versions").with_root_certificates(roots).with_no_client_auth()))
        };
        let mut roots = rustls::RootCertStore::empty();
        let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        roots.add(other.cert.der().clone()).expect("a certificate");
        let password = Some("secret".to_owned());
        let options = PostgresOptions { tls: trusting(roots), password, ..options(&address) };
        let error = postgres::open(&options).err().expect("another certificate").to_string();
        assert!(error.contains("invalid peer certificate"), "{error}");
        let mut roots = rustls::RootCertStore::empty();
        roots.add(made.cert.der().clone()).expect("a certificate");
        let options = PostgresOptions { tls: trusting(roots), ..options };
        let store = postgres::open(&options).expect("an encrypted way");
        assert_eq!(wait(Meta::put(&store, "key", vec![1])), Ok(()));
        let encrypted =
            "SELECT COUNT(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'rookery' AND ssl";
        assert_eq!(cluster.psql(&database, encrypted).as_deref(), Ok("4"));
        let wrong = PostgresOptions { password: Some("wrong".to_owned()), ..options.clone() };
        let error = postgres::open(&wrong).err().expect("a wrong password").to_string();
        assert!(error.contains("password authentication failed") && !error.contains("wrong"), "{error}");
        let clear = PostgresOptions { tls: None, ..options };
        assert!(
            postgres::open(&PostgresOptions {
                address: PostgresAddress::parse(&address.replace("?channel_binding=require", "")).expect("an address"),
                ..clear
            })
            .is_err()
        );
    }

    pub fn a_role_that_may_change_no_tables_serves() {
        let database = CLUSTER.database();
        let name = database.rsplit('/').next().expect("a name");
        let role = format!("server_{name}");
        CLUSTER.psql(&database, &format!("CREATE ROLE {role} LOGIN")).expect("a role");
        let limited = PostgresOptions {
            migrations: Migrations::Never,
            ..options(&database.replace("rookery@", &format!("{role}@")))
        };
        let error = postgres::open(&limited).err().expect("an old schema");
        assert!(matches!(error, StoreError::OldSchema { found: 0, .. }), "{error:?}");
        assert!(postgres::migrate(&options(&database)).is_ok_and(|steps| steps > 0));
        // The list of the guide.
        for grant in [
            "CONNECT ON DATABASE DB",
            "USAGE ON SCHEMA public",
            "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public",
        ] {
            CLUSTER.psql(&database, &format!("GRANT {} TO {role}", grant.replace("DB", name))).expect("a grant");
        }
        let store = postgres::open(&limited).expect("a database");
        let account = Jid::parse("romeo@a.example").expect("an address");
        create(&store, &account);
        let pushed = store.push(account.as_ref(), account.as_ref(), vec![1], 1, OfflineRoom::UNBOUNDED);
        assert_eq!(wait(pushed), Ok(Pushed::Kept));
        assert_eq!(wait(Accounts::remove(&store, account.as_ref())), Ok(true));
    }

    /// A pool whose clients keep their sessions has no effect; one that gives every transaction
    /// another session would lose settings and prepared statements.
    pub fn a_pool_of_connections_may_share_no_sessions() {
        let database = CLUSTER.database();
        let behind = |pool: &rookery_needs::Pool| database.replace(":5432", &format!(":{}", pool.port()));
        let pool = CLUSTER.pool("session");
        let (store, account) = (open(&behind(&pool)), Jid::parse("romeo@a.example").expect("an address"));
        create(&store, &account);
        let pushed = store.push(account.as_ref(), account.as_ref(), vec![1], 1, OfflineRoom::UNBOUNDED);
        assert_eq!(wait(pushed), Ok(Pushed::Kept));
        let pool = CLUSTER.pool("transaction");
        let reason = expect_refusal(&options(&behind(&pool)));
        assert!(reason.contains("pool_mode = session"), "{reason}");
        let found = findings(&options(&behind(&pool)));
        assert!(found.iter().any(|fault| fault.contains("pool_mode = session")), "{found:?}");
    }
}

static CLUSTER: LazyLock<Postgres> = LazyLock::new(Postgres::start);

fn options(address: &str) -> PostgresOptions {
    let address = PostgresAddress::parse(address).expect("an address");
    PostgresOptions { trusts_durability: true, connections: 2, ..PostgresOptions::at(address) }
}

fn open(address: &str) -> SqlStore {
    postgres::open(&options(address)).expect("a database")
}

fn expect_refusal(options: &PostgresOptions) -> String {
    let error = postgres::open(options).err().expect("a database to refuse");
    assert!(!error.is_temporary(), "{error:?}");
    error.to_string()
}

fn findings(options: &PostgresOptions) -> Vec<String> {
    let faults = postgres::check(options).into_iter().filter(|finding| finding.severity == Severity::Fault);
    faults.map(|finding| finding.text).collect()
}

/// Ends all connections to a database except its own.
fn disconnect(address: &str) {
    let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    CLUSTER.psql(address, others).expect("nobody left");
}

fn create(store: &SqlStore, account: &Jid) {
    assert_eq!(wait(store.create(account.as_ref(), credentials())), Ok(true));
}

fn credentials() -> Credentials {
    Credentials::derive_with("secret", 1, [[7; 16]; 3]).expect("a password")
}
