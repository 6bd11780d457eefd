//! Tests MariaDB databases that are unfit, foreign, read-only, encrypted or full, and copies of
//! them.

use rookery_jid::Jid;
use rookery_needs::Mariadb;
use rookery_sasl::Credentials;
use rookery_store::mysql::{self, MysqlAddress, MysqlOptions};
use rookery_store::sql::copy::{self, CopyEnd};
use rookery_store::sql::{Severity, SqlStore};
use rookery_store::{Accounts, Documents, Meta, Offline, OfflineRoom, Pushed, StoreError, wait};
use std::sync::LazyLock;

rookery_needs::needing! {
    "store.mariadb":
    what_is_unfit_is_refused,
    a_migration_that_was_interrupted_goes_on,
    what_cannot_be_reached_is_told,
    a_read_only_host_is_read_and_another_is_written_to,
    the_way_to_it_is_encrypted,
    what_is_too_large_is_refused_alone,
    a_file_that_may_not_grow_is_full,
    a_copy_goes_there_and_back,
}

mod test {
    use super::*;

    pub fn what_is_unfit_is_refused() {
        let server = Mariadb::start_with(&[
            "--innodb-flush-log-at-trx-commit=2",
            "--log-bin=log",
            "--sync-binlog=0",
            "--binlog-format=STATEMENT",
            "--innodb-doublewrite=0",
            "--max-allowed-packet=8M",
            "--max-connections=12",
            "--sql-mode=",
            "--autocommit=0",
        ]);
        let database = server.database();
        let found = findings(&options(&database));
        for expected in [
            "innodb_flush_log_at_trx_commit is 2",
            "set it to 1",
            "sync_binlog is 0",
            "max_allowed_packet is 8388608",
            "binlog_format is STATEMENT",
            "innodb_doublewrite is 0",
        ] {
            assert!(found.iter().any(|finding| finding.contains(expected)), "{expected}: {found:?}");
        }
        let error = expect_refusal(&options(&database));
        assert!(error.contains("max_allowed_packet is 8388608") && error.contains("16777216"), "{error}");
        server.sql("mysql", "SET GLOBAL max_allowed_packet = 16777216").expect("a setting");
        // No trust helps: the server's own transactions would fail.
        let error = expect_refusal(&MysqlOptions { trusts_durability: true, ..options(&database) });
        assert!(error.contains("binlog_format is STATEMENT") && error.contains("MIXED or ROW"), "{error}");
        let tables =
            format!("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = '{}'", name(&database));
        assert_eq!(server.sql("mysql", &tables).as_deref(), Ok("0"), "nothing is made before");
        server.sql("mysql", "SET GLOBAL binlog_format = 'MIXED'").expect("a setting");
        let error = expect_refusal(&options(&database));
        assert!(error.contains("innodb_flush_log_at_trx_commit is 2") && error.contains("durability"), "{error}");
        let trusting = MysqlOptions { trusts_durability: true, ..options(&database) };
        let store = mysql::open(&trusting).expect("a database that is trusted");
        // The server's SQL mode is not that of our sessions.
        assert_eq!(wait(Meta::put(&store, "key", vec![1; 100_000])), Ok(()));
        store.close();
        let warned = mysql::check(&trusting).into_iter().filter(|finding| finding.severity == Severity::Warning);
        let warned: Vec<_> = warned.map(|finding| finding.text).collect();
        assert!(matches!(warned.as_slice(), [one] if one.starts_with("max_connections 12;")), "{warned:?}");
    }

    /// Schema changes aren't transactional: those that were made before a crash remain.
    pub fn a_migration_that_was_interrupted_goes_on() {
        let database = SERVER.database();
        open(&database).close();
        let interrupted = "DELETE FROM rookery_schema; SET foreign_key_checks = 0; DROP TABLE rooms, meta, archive_messages; \
            DELETE FROM rookery_epoch";
        SERVER.sql(&database, interrupted).expect("a half of it");
        let store = open(&database);
        assert_eq!(wait(Meta::put(&store, "key", vec![1])), Ok(()));
        let counts = "SELECT (SELECT COUNT(*) FROM rookery_epoch), (SELECT COUNT(*) FROM counters), (SELECT COUNT(*) FROM rooms)";
        assert_eq!(SERVER.sql(&database, counts).as_deref(), Ok("1\t1\t0"));
    }

    pub fn what_cannot_be_reached_is_told() {
        let nowhere = MysqlAddress::parse("mysql://rookery@%2Fnowhere/rookery").expect("an address");
        let error = mysql::open(&MysqlOptions::at(nowhere)).err().expect("nobody there");
        assert!(matches!(error, StoreError::Lost(_)) && error.is_temporary(), "{error:?}");
        assert!(error.to_string().contains("/nowhere") && error.to_string().contains("can't be reached"), "{error}");
        let error = expect_refusal(&options(&SERVER.address("nothing")));
        assert!(error.contains("nothing"), "{error}");
        let database = SERVER.database();
        SERVER.sql("mysql", "CREATE USER reader@'%' IDENTIFIED BY 'secret'").expect("a user");
        let name = database.rsplit('/').next().expect("a name");
        SERVER.sql("mysql", &format!("GRANT SELECT ON {name}.* TO reader@'%'")).expect("a right");
        let reader = database.replace("rookery@", "reader:wrong@");
        let error = expect_refusal(&options(&reader));
        assert!(error.contains("Access denied") && !error.contains("wrong"), "{error}");
        let error = expect_refusal(&options(&reader.replace("wrong", "secret")));
        assert!(error.contains("command denied"), "{error}");
    }

    pub fn a_read_only_host_is_read_and_another_is_written_to() {
        let server = Mariadb::start();
        let database = server.database();
        let store = open(&database);
        wait(Meta::put(&store, "key", vec![1])).expect("a database that can be written");
        server.sql("mysql", "SET GLOBAL read_only = 1").expect("a setting");
        assert!(findings(&options(&database)).iter().any(|finding| finding.contains("no host can be written to")));
        server.disconnect();
        assert_eq!(wait(Meta::get(&store, "key")), Ok(Some(vec![1])));
        let error = wait(Meta::put(&store, "key", vec![2])).expect_err("a database that can't be written");
        assert!(matches!(error, StoreError::ReadOnly(_)), "{error:?}");
        server.sql("mysql", "SET GLOBAL read_only = 0").expect("a setting");
        server.disconnect();
        assert_eq!(wait(Meta::put(&store, "key", vec![3])), Ok(()));
        // Of three hosts, the first is a replica, the second accepts writes, and the third doesn't
        // exist.
        server.sql("mysql", "SET GLOBAL read_only = 1").expect("a setting");
        let other = Mariadb::start();
        let socket = |of: &Mariadb| of.socket().display().to_string().replace('/', "%2F");
        let (one, two) = (socket(&server), socket(&other));
        let name = other.database();
        let name = name.rsplit('/').next().expect("a name");
        let hosts = format!("mysql://rookery@{one},{two},%2Fnowhere/{name}");
        let store = open(&hosts);
        assert_eq!(wait(Meta::put(&store, "key", vec![4])), Ok(()));
        assert_eq!(other.sql(name, "SELECT HEX(bytes) FROM meta").as_deref(), Ok("04"));
    }

    /// By its name and by its IP address: certificates have both.
    pub fn the_way_to_it_is_encrypted() {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]);
        let made = made.expect("a certificate");
        let server = Mariadb::start_encrypted(&made.cert.pem(), &made.signing_key.serialize_pem());
        let database = server.database();
        server.sql("mysql", "SET PASSWORD FOR rookery@'%' = PASSWORD('secret')").expect("a password");
        let name = database.rsplit('/').next().expect("a name");
        let address = |host: &str| format!("mysql://rookery@{host}:{}/{name}", server.port());
        let (other, password) =
            (rcgen::generate_simple_self_signed(["localhost".to_owned()]), Some("secret".to_owned()));
        let trusting = |host: &str, root: &rcgen::Certificate| MysqlOptions {
            roots: Some(vec![root.der().clone()]),
            password: password.clone(),
            ..options(&address(host))
        };
        let error = mysql::open(&trusting("localhost", &other.expect("a certificate").cert)).err();
        let error = error.expect("another certificate").to_string();
        assert!(error.contains("invalid peer certificate"), "{error}");
        for host in ["localhost", "127.0.0.1"] {
            let store = mysql::open(&trusting(host, &made.cert)).unwrap_or_else(|error| panic!("{host}: {error}"));
            assert_eq!(wait(Meta::put(&store, "key", vec![1])), Ok(()));
            store.close();
        }
        let options = trusting("127.0.0.1", &made.cert);
        let wrong = MysqlOptions { password: Some("wrong".to_owned()), ..options.clone() };
        let error = mysql::open(&wrong).err().expect("a wrong password").to_string();
        assert!(error.contains("Access denied") && !error.contains("wrong"), "{error}");
        // A certificate for another name.
        let named = rcgen::generate_simple_self_signed(["elsewhere".to_owned()]).expect("a certificate");
        let elsewhere = Mariadb::start_encrypted(&named.cert.pem(), &named.signing_key.serialize_pem());
        let name = elsewhere.database();
        let name = name.rsplit('/').next().expect("a name");
        let address = MysqlAddress::parse(&format!("mysql://rookery@127.0.0.1:{}/{name}", elsewhere.port()));
        let address = address.expect("an address");
        let roots = Some(vec![named.cert.der().clone()]);
        let error = mysql::open(&MysqlOptions { roots, ..MysqlOptions::at(address.clone()) })
            .err()
            .expect("another name")
            .to_string();
        assert!(error.contains("not valid for name"), "{error}");
        let error = mysql::open(&MysqlOptions::at(address)).err().expect("a server that wants encryption").to_string();
        assert!(error.contains("Access denied"), "{error}");
    }

    /// The file has a real bound, not a fault that it was made to report.
    pub fn a_file_that_may_not_grow_is_full() {
        let bound = "--innodb-data-file-path=ibdata1:12M:autoextend:max:40M";
        let server = Mariadb::start_with(&["--innodb-file-per-table=0", bound]);
        let store = open(&server.database());
        let owner = Jid::parse("romeo@a.example").expect("an address");
        create(&store, &owner);
        let put = |at: usize| Documents::put(&store, owner.as_ref(), &at.to_string(), Some(vec![7; 1 << 20]));
        let error = (0..100).find_map(|at| wait(put(at)).err()).expect("a file that is full");
        assert!(matches!(error, StoreError::Full(_)), "{error:?}");
        assert!(matches!(Meta::trouble(&store), Some(StoreError::Full(_))), "probes hear of it");
        assert_eq!(wait(Documents::get(&store, owner.as_ref(), "0")).expect("an answer"), Some(vec![7; 1 << 20]));
    }

    pub fn what_is_too_large_is_refused_alone() {
        let store = open(&SERVER.database());
        let owner = Jid::parse("romeo@a.example").expect("an address");
        create(&store, &owner);
        let put = |name: &str, bytes| Documents::put(&store, owner.as_ref(), name, Some(vec![7; bytes]));
        let (before, large, behind) = (put("before", 1), put("large", 17 << 20), put("behind", 15 << 20));
        assert_eq!(wait(before), Ok(()));
        let error = wait(large).expect_err("more than a packet holds");
        assert!(
            matches!(&error, StoreError::Other(why) if why.to_string().contains("max_allowed_packet")),
            "{error:?}"
        );
        assert_eq!(wait(behind), Ok(()));
        let length =
            |name| wait(Documents::get(&store, owner.as_ref(), name)).expect("an answer").map(|bytes| bytes.len());
        assert_eq!([length("before"), length("large"), length("behind")], [Some(1), None, Some(15 << 20)]);
    }

    pub fn a_copy_goes_there_and_back() {
        let (one, other) = (SERVER.database(), SERVER.database());
        let store = open(&one);
        for at in 0..300 {
            let account = Jid::parse(&format!("user{at}@a.example")).expect("an address");
            create(&store, &account);
            let push = store.push(account.as_ref(), account.as_ref(), "\u{1f426}".into(), 1, OfflineRoom::UNBOUNDED);
            assert_eq!(wait(push), Ok(Pushed::Kept));
        }
        let last = Jid::parse("user299@a.example").expect("an address");
        assert_eq!(wait(Accounts::remove(&store, last.as_ref())), Ok(true));
        store.close();
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = format!("sqlite:{}", folder.path().join("rookery.db").display());
        for (from, to) in [(&one, &file), (&file, &other)] {
            let address = |text: &str| copy::EndAddress::parse(text).expect("an address");
            let mut from = CopyEnd::source(&address(from)).expect("a source");
            let mut to = CopyEnd::destination(&address(to)).expect("a destination");
            let tables = copy::copy(&mut from, &mut to, &mut |_| ()).expect("a copy");
            assert!(tables.iter().all(copy::Compared::is_same), "{tables:?}");
            let accounts = tables.iter().find(|table| table.table == "accounts").expect("a table");
            assert_eq!(accounts.to.0, 299);
        }
        // Numbers that were once assigned aren't assigned again.
        let store = open(&other);
        create(&store, &last);
        let push = store.push(last.as_ref(), last.as_ref(), "late".into(), 1, OfflineRoom::UNBOUNDED);
        assert_eq!(wait(push), Ok(Pushed::Kept));
        assert_eq!(SERVER.sql(&other, "SELECT MAX(id) FROM offline_messages").as_deref(), Ok("301"));
    }
}

static SERVER: LazyLock<Mariadb> = LazyLock::new(Mariadb::start);

fn options(address: &str) -> MysqlOptions {
    let address = MysqlAddress::parse(address).expect("an address");
    MysqlOptions { connections: 2, ..MysqlOptions::at(address) }
}

fn open(address: &str) -> SqlStore {
    mysql::open(&options(address)).expect("a database")
}

fn expect_refusal(options: &MysqlOptions) -> String {
    let error = mysql::open(options).err().expect("a database to refuse");
    assert!(!error.is_temporary(), "{error:?}");
    error.to_string()
}

fn findings(options: &MysqlOptions) -> Vec<String> {
    let faults = mysql::check(options).into_iter().filter(|finding| finding.severity == Severity::Fault);
    faults.map(|finding| finding.text).collect()
}

/// Returns the name of a database.
fn name(address: &str) -> &str {
    address.rsplit('/').next().expect("a name")
}

fn create(store: &SqlStore, account: &Jid) {
    assert_eq!(wait(store.create(account.as_ref(), credentials())), Ok(true));
}

fn credentials() -> Credentials {
    Credentials::derive_with("secret", 1, [[7; 16]; 3]).expect("a password")
}
