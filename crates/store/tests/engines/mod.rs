//! The engines in other processes, for tests of connection failures.

use rookery_needs::{Mariadb, Postgres, Proxy};
use rookery_store::sql::copy;
use rookery_store::sql::{Finding, SqlStore};
use rookery_store::{StoreError, mysql, postgres};
use std::path::PathBuf;

/// Runs each test on every engine.
#[allow(unused_macros, reason = "tests of other troubles need it")]
macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        mod postgres {
            $(#[test] fn $name() { super::$name::<rookery_needs::Postgres>(); })*
        }
        mod mariadb {
            $(#[test] fn $name() { super::$name::<rookery_needs::Mariadb>(); })*
        }
    };
}

#[allow(unused_imports, reason = "tests of other troubles need it")]
pub(crate) use tests;

/// A database server in a temporary folder.
pub trait EngineServer: Sized + Sync {
    /// The name for leaving its tests out.
    const NAME: &'static str;

    /// Lists the tables whose rows aren't removed with those that they refer to.
    const WITHOUT_CASCADE: &'static str;

    /// Lists the tables and columns that are written to, a line each.
    const COLUMNS: &'static str;

    /// Lists values that this server writes into hardly any column.
    const VALUES: [&'static str; 4];

    /// Starts a server; `None` if its tests are left out here.
    fn start() -> Option<Self>;

    /// Starts a server whose clock differs from this machine's, such as by `+45d`.
    fn start_at(clock: &str) -> Option<Self>;

    /// Checks a database as `rookery check` does.
    fn check(address: &str) -> Vec<Finding>;

    /// Creates an empty database and returns its address.
    fn database(&self) -> String;

    /// Returns the Unix socket.
    fn socket(&self) -> PathBuf;

    /// Returns the address of a database through a proxy to the socket.
    fn address_by(&self, proxy: &Proxy, name: &str) -> String;

    /// Opens the stores in a database.
    fn open(address: &str, connections: usize) -> SqlStore {
        Self::try_open(address, connections).expect("a database")
    }

    /// Opens the stores in a database that may be unfit.
    fn try_open(address: &str, connections: usize) -> Result<SqlStore, StoreError>;

    /// Returns the address of a database in the form for copies.
    fn copy_address(address: &str) -> copy::EndAddress;

    /// Ends all connections of the stores to a database.
    fn disconnect(&self, database: &str);

    /// Returns the main process of the server.
    fn process(&self) -> u32;

    /// Runs statements as an administrator and returns the rows, a line each.
    fn sql(&self, database: &str, statements: &str) -> String {
        self.try_sql(database, statements).expect("an answer")
    }

    /// Runs statements that the database may refuse.
    fn try_sql(&self, database: &str, statements: &str) -> Result<String, String>;

    /// Returns a statement that waits for most of a second.
    fn sleep() -> &'static str;

    /// Makes something happen whenever an offline message is stored.
    fn harm(&self, database: &str, harm: Harm);

    /// Returns whether a session waits because of [`Harm::Slow`].
    fn is_slow(&self, database: &str) -> bool;

    /// Makes a database writable or read-only.
    fn set_read_only(&self, database: &str, is_read_only: bool);

    /// Locks the account of romeo, waits for most of a second, then locks that of juliet. Returns
    /// after that, whatever the result.
    fn lock_slowly(&self, database: &str);

    /// Returns whether a session waits in [`lock_slowly`](EngineServer::lock_slowly).
    fn is_locking(&self, database: &str) -> bool;
}

/// The things that can go wrong with a message.
#[derive(Clone, Copy)]
pub enum Harm {
    /// It takes two seconds.
    Slow,
    /// There is no room.
    Full,
    /// Nothing any more.
    None,
}

impl EngineServer for Postgres {
    const NAME: &'static str = "store.postgres";
    const WITHOUT_CASCADE: &'static str = "\
    SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND NOT EXISTS \
    (SELECT 1 FROM pg_constraint WHERE conrelid = pg_class.oid AND contype = 'f' AND confdeltype = 'c') ORDER BY relname";

    const COLUMNS: &'static str = "\
    SELECT table_name || ' ' || column_name FROM information_schema.columns WHERE table_schema = 'public' AND is_generated = 'NEVER' \
    ORDER BY table_name, ordinal_position";
    const VALUES: [&'static str; 4] = ["'-1'", "'9223372036854775807'", "'@'", "'\\xff00fe'"];

    fn start() -> Option<Self> {
        (!rookery_needs::skips(Self::NAME)).then(Postgres::start)
    }

    fn start_at(clock: &str) -> Option<Self> {
        (!rookery_needs::skips(Self::NAME)).then(|| Postgres::start_at_time(clock))
    }

    fn check(address: &str) -> Vec<Finding> {
        postgres::check(&postgres::PostgresOptions::at(postgres::PostgresAddress::parse(address).expect("an address")))
    }

    fn database(&self) -> String {
        Postgres::database(self)
    }

    fn socket(&self) -> PathBuf {
        Postgres::socket(self)
    }

    fn address_by(&self, proxy: &Proxy, name: &str) -> String {
        Postgres::address_by(self, proxy, name)
    }

    fn try_open(address: &str, connections: usize) -> Result<SqlStore, StoreError> {
        postgres::open(&postgres::PostgresOptions { connections, ..trusting_options(address) })
    }

    fn copy_address(address: &str) -> copy::EndAddress {
        copy::EndAddress::Postgres(Box::new(trusting_options(address)))
    }

    fn disconnect(&self, _: &str) {
        let end =
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name LIKE 'rookery %'";
        self.psql("postgres", end).expect("connections that end");
    }

    fn process(&self) -> u32 {
        Postgres::process(self)
    }

    fn try_sql(&self, database: &str, statements: &str) -> Result<String, String> {
        self.psql(database, statements)
    }

    fn sleep() -> &'static str {
        "SELECT pg_sleep(0.7)"
    }

    fn harm(&self, database: &str, harm: Harm) {
        let body = match harm {
            Harm::Slow => "PERFORM pg_sleep(2)",
            Harm::Full => "RAISE EXCEPTION 'no space left on device' USING ERRCODE = '53100'",
            Harm::None => {
                return drop(self.psql(database, "DROP TRIGGER harm ON offline_messages").expect("a trigger"));
            }
        };
        let made = format!(
            "CREATE FUNCTION harm() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body}; RETURN NEW; END $$; \
             CREATE TRIGGER harm BEFORE INSERT ON offline_messages FOR EACH ROW EXECUTE FUNCTION harm()"
        );
        self.psql(database, &made).expect("a trigger");
    }

    fn is_slow(&self, database: &str) -> bool {
        let sql = "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        self.psql(database, sql).as_deref() != Ok("0")
    }

    fn set_read_only(&self, database: &str, is_read_only: bool) {
        let set = format!("ALTER DATABASE {database} SET default_transaction_read_only = {is_read_only}");
        self.psql("postgres", &set).expect("a setting");
        self.disconnect(database);
    }

    fn lock_slowly(&self, database: &str) {
        let sql = "BEGIN; UPDATE accounts SET offline_messages = offline_messages WHERE localpart = 'romeo'; SELECT pg_sleep(0.7); \
             UPDATE accounts SET offline_messages = offline_messages WHERE localpart = 'juliet'; COMMIT";
        // The database chooses which of the two to end.
        let _ = self.psql(database, sql);
    }

    fn is_locking(&self, database: &str) -> bool {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(0.7)%' AND state = 'active' AND pid <> pg_backend_pid()";
        self.psql(database, sql).as_deref() != Ok("0")
    }
}

impl EngineServer for Mariadb {
    const NAME: &'static str = "store.mariadb";
    const WITHOUT_CASCADE: &'static str = "\
    SELECT table_name FROM information_schema.tables t WHERE table_schema = DATABASE() AND NOT EXISTS \
    (SELECT 1 FROM information_schema.referential_constraints c WHERE c.constraint_schema = t.table_schema \
    AND c.table_name = t.table_name AND c.delete_rule = 'CASCADE') ORDER BY table_name";

    const COLUMNS: &'static str = "\
    SELECT CONCAT(table_name, ' ', column_name) FROM information_schema.columns WHERE table_schema = DATABASE() AND is_generated = 'NEVER' \
    ORDER BY table_name, ordinal_position";
    const VALUES: [&'static str; 4] = ["'-1'", "'9223372036854775807'", "'@'", "X'FF00FE'"];

    fn start() -> Option<Self> {
        (!rookery_needs::skips(Self::NAME)).then(Mariadb::start)
    }

    fn start_at(clock: &str) -> Option<Self> {
        (!rookery_needs::skips(Self::NAME)).then(|| Mariadb::start_at_time(clock))
    }

    fn check(address: &str) -> Vec<Finding> {
        mysql::check(&mysql::MysqlOptions::at(mysql::MysqlAddress::parse(address).expect("an address")))
    }

    fn database(&self) -> String {
        Mariadb::database(self)
    }

    fn socket(&self) -> PathBuf {
        Mariadb::socket(self)
    }

    fn address_by(&self, proxy: &Proxy, name: &str) -> String {
        Mariadb::address_by(self, proxy, name)
    }

    fn try_open(address: &str, connections: usize) -> Result<SqlStore, StoreError> {
        let address = mysql::MysqlAddress::parse(address).expect("an address");
        mysql::open(&mysql::MysqlOptions { connections, trusts_durability: true, ..mysql::MysqlOptions::at(address) })
    }

    fn copy_address(address: &str) -> copy::EndAddress {
        copy::EndAddress::parse(address).expect("an address")
    }

    fn disconnect(&self, _: &str) {
        Mariadb::disconnect(self);
    }

    fn process(&self) -> u32 {
        Mariadb::process(self)
    }

    fn try_sql(&self, database: &str, statements: &str) -> Result<String, String> {
        Mariadb::sql(self, database, statements)
    }

    fn sleep() -> &'static str {
        "DO SLEEP(0.7)"
    }

    fn harm(&self, database: &str, harm: Harm) {
        let body = match harm {
            Harm::Slow => "DO SLEEP(2)",
            Harm::Full => "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table is full'",
            Harm::None => return drop(self.sql(database, "DROP TRIGGER harm").expect("a trigger")),
        };
        let made = format!("CREATE TRIGGER harm BEFORE INSERT ON offline_messages FOR EACH ROW {body}");
        self.sql(database, &made).expect("a trigger");
    }

    fn is_slow(&self, database: &str) -> bool {
        let sql = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User sleep'";
        self.sql(database, sql).as_deref() != Ok("0")
    }

    fn set_read_only(&self, database: &str, is_read_only: bool) {
        self.sql(database, &format!("SET GLOBAL read_only = {is_read_only}")).expect("a setting");
        self.disconnect();
    }

    fn lock_slowly(&self, database: &str) {
        let lock = |name| {
            format!(
                "UPDATE accounts SET offline_messages = offline_messages WHERE domain = 'a.example' AND localpart = '{name}';"
            )
        };
        let sql = format!("START TRANSACTION; {} DO SLEEP(0.7); {} COMMIT", lock("romeo"), lock("juliet"));
        let _ = self.sql(database, &sql);
    }

    fn is_locking(&self, database: &str) -> bool {
        let sql = "SELECT COUNT(*) FROM information_schema.processlist WHERE info = 'DO SLEEP(0.7)'";
        self.sql(database, sql).as_deref() != Ok("0")
    }
}

/// Returns the options for a test's server, which needn't survive a power cut.
fn trusting_options(address: &str) -> postgres::PostgresOptions {
    let address = postgres::PostgresAddress::parse(address).expect("an address");
    postgres::PostgresOptions { trusts_durability: true, ..postgres::PostgresOptions::at(address) }
}
