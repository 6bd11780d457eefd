//! A server whose database is a MariaDB, and its commands.

use std::fs;
use std::sync::LazyLock;

use rookery_needs::Mariadb;

use super::postgres::export;
use super::rig::{FREE_PORTS, Rig};

static SERVER: LazyLock<Mariadb> = LazyLock::new(Mariadb::start);

/// Returns a rig whose configuration names a database, with more keys of `[store]`.
fn rig(address: &str, keys: &str) -> Rig {
    let rig = Rig::new();
    rig.write("rookery.toml", &format!("{FREE_PORTS}\n[store]\nurl = \"{address}\"\nconnections = 2\n{keys}\n"));
    rig
}

fn is_left_out() -> bool {
    rookery_needs::skips("cli.mariadb")
}

#[test]
fn a_server_and_its_commands_keep_all_in_it() {
    if is_left_out() {
        return;
    }
    let address = SERVER.database();
    let rig = rig(&address, "");
    let plan = rig.run(&["store", "migrate", "--dry-run"]).fine();
    assert!(plan.contains("has schema version 0; ") && plan.contains(" steps lead to "), "{plan}");
    rig.run_with(&["user", "add", "juliet@localhost", "--password-stdin"], "pencil\n").fine();
    let (server, _) = rig.serve();
    rig.run_with(&["user", "add", "romeo@localhost", "--password-stdin"], "pencil\n").fine();
    let listed = rig.run(&["user", "list"]).fine();
    assert!(listed.contains("juliet@localhost\n") && listed.contains("romeo@localhost\n"), "{listed}");
    drop(server);
    let names = SERVER.sql(&address, "SELECT localpart FROM accounts ORDER BY 1");
    assert_eq!(names.as_deref(), Ok("juliet\nromeo"));
    assert!(!rig.path("rookery-data/rookery.db").exists(), "there is no file");
    let checked = rig.run(&["check"]);
    let expected = [
        "MariaDB ",
        "innodb_flush_log_at_trx_commit 1",
        "max_allowed_packet 16777216",
        "tx_isolation REPEATABLE-READ",
        "max_connections 300; each server makes 4",
        "schema version ",
        "logins a second",
    ];
    for expected in expected {
        assert!(checked.out.contains(expected), "{expected}: {}", checked.out);
    }
    assert!(!checked.out.contains("will update it"), "{}", checked.out);
    assert!(rig.run(&["store", "migrate"]).fine().contains("the newest"));
}

/// An administrator may run what `store migrate --sql` prints, instead of the server.
#[test]
fn an_administrator_can_migrate_it() {
    if is_left_out() {
        return;
    }
    let address = SERVER.database();
    let rig = rig(&address, "migrate = \"never\"");
    rig.run(&["serve"]).failed(78, "schema");
    let statements = rig.run(&["store", "migrate", "--sql"]).fine();
    SERVER.sql(&address, &statements).expect("a schema");
    rig.run_with(&["user", "add", "juliet@localhost", "--password-stdin"], "pencil\n").fine();
    assert_eq!(rig.run(&["user", "list"]).fine(), "juliet@localhost\n");
}

#[test]
fn databases_are_copied_between_engines() {
    if is_left_out() {
        return;
    }
    let (rig, address) = (rig("sqlite", ""), SERVER.database());
    rig.run_with(&["user", "add", "juliet@localhost", "--password-stdin"], "pencil\n").fine();
    assert!(rig.run(&["store", "copy", "--to", &address]).fine().contains("both have the same"));
    assert!(rig.run(&["store", "verify", "--to", &address]).fine().contains("have the same"));
    let back = rig.run(&["store", "copy", "--from", &address, "--to", "sqlite:back/rookery.db"]).fine();
    assert!(back.contains("both have the same"), "{back}");
    assert!(rig.run(&["store", "verify", "--to", "sqlite:back/rookery.db"]).fine().contains("have the same"));
}

#[test]
fn what_is_wrong_is_told_with_what_mends_it() {
    if is_left_out() {
        return;
    }
    let address = SERVER.database();
    SERVER.sql(&address, "CREATE TABLE accounts (name TEXT)").expect("a table");
    // Code 78: trying again helps nobody.
    rig(&address, "").run(&["serve"]).failed(78, "of another program");
    rig(&address, "password_file = \"missing\"")
        .run(&["serve"])
        .failed(78, "password_file under [store] names missing");
    rig("mysql://localhost/chat", "").run(&["serve"]).failed(78, "no user is named");
    // A database that is away is no fault of the configuration.
    let nowhere = "mysql://rookery@%2Fnowhere/chat";
    rig(nowhere, "").run(&["serve"]).failed(1, "can't be reached");
    assert!(rig(nowhere, "").run(&["check"]).out.contains("can't be reached"));
}

#[test]
fn a_server_on_it_is_backed_up_and_restored() {
    if is_left_out() {
        return;
    }
    let (address, other) = (SERVER.database(), SERVER.database());
    let first = rig(&address, "");
    first.run_with(&["user", "add", "juliet@localhost", "--password-stdin"], "pencil\n").fine();
    let (server, _) = first.serve();
    assert!(first.run(&["backup", "b.tar.gz"]).fine().contains("written and read again"));
    drop(server);
    // The database goes where the configuration wants it, …
    let second = rig(&other, "");
    fs::copy(first.path("b.tar.gz"), second.path("b.tar.gz")).expect("copied");
    assert!(second.run(&["restore", "b.tar.gz"]).fine().contains(", its database in mysql://"));
    assert!(!second.path("rookery-data/rookery.db").exists(), "there is no file");
    assert_eq!(second.run(&["user", "list"]).fine(), "juliet@localhost\n");
    second.run(&["store", "verify", "--from", &address, "--to", &other]).fine();
    second.run(&["restore", "b.tar.gz"]).failed(1, "--replace removes what is there");
    second.run_with(&["user", "add", "romeo@localhost", "--password-stdin"], "pencil\n").fine();
    second.run(&["restore", "--replace", "b.tar.gz"]).fine();
    assert_eq!(second.run(&["user", "list"]).fine(), "juliet@localhost\n");
    // … or into a file.
    second.run(&["restore", "b.tar.gz", "--to", "sqlite:file.db"]).fine();
    second.run(&["store", "verify", "--to", "sqlite:file.db"]).fine();
}

#[test]
fn accounts_come_from_databases_of_other_servers_in_it() {
    if is_left_out() {
        return;
    }
    let rig = Rig::new();
    let ejabberd = SERVER.database();
    let made = SERVER.sql(
        &ejabberd,
        "ALTER DATABASE CHARACTER SET utf8mb4; \
         CREATE TABLE users (username varchar(191), server_host varchar(191), type smallint, password text, serverkey varchar(128), salt varchar(128), \
            iterationcount integer); \
         INSERT INTO users VALUES ('juliet', 'localhost', 1, 'secret', '', '', 0), ('nurse', 'localhost', 2, '6dlGYMOdZcOPutkcNY8U2g7vK9Y=', \
            'D+CSWLOshSulAsxiupA+qs2/fTE=', 'QSXCR+Q6sek8bf92', 4096); \
         CREATE TABLE rosterusers (username varchar(191), server_host varchar(191), jid varchar(191), nick text, subscription character(1), \
            ask character(1), askmessage text); \
         INSERT INTO rosterusers VALUES ('juliet', 'localhost', 'romeo@far.example', 'Ro 🦊', 'B', 'N', ''); \
         CREATE TABLE rostergroups (username varchar(191), server_host varchar(191), jid varchar(191), grp text); \
         CREATE TABLE archive (username varchar(191), server_host varchar(191), timestamp BIGINT UNSIGNED, xml mediumtext, \
            id BIGINT UNSIGNED AUTO_INCREMENT UNIQUE); \
         INSERT INTO archive (username, server_host, timestamp, xml) WITH RECURSIVE numbers AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM numbers WHERE i < 700) \
            SELECT 'juliet', 'localhost', 1278803305000000 + i * 1000000, CONCAT( \
            '<message xmlns=''jabber:client'' from=''romeo@far.example/o'' to=''juliet@localhost''><body>', i, '</body></message>') FROM numbers",
    );
    made.expect("the tables of ejabberd");
    let ended = rig.run(&["user", "import", "--from", &ejabberd, "--schema", "ejabberd"]);
    assert!(ended.out.contains("2 accounts imported, 1 things left out"), "{ended:?}");
    assert!(ended.err.contains("nurse@localhost has keys for SCRAM-SHA-1 only"), "{ended:?}");
    let exported = export(&rig, "juliet");
    for there in ["name='Ro 🦊' subscription='both'", "<body>700</body>"] {
        assert!(exported.contains(there), "{there} is not in\n{exported}");
    }
    assert_eq!(exported.matches("<body>").count(), 700);

    let prosody = SERVER.database();
    let made = SERVER.sql(
        &prosody,
        "ALTER DATABASE CHARACTER SET utf8mb4; \
         CREATE TABLE prosody (host TEXT, user TEXT, store TEXT, `key` TEXT, type TEXT, value MEDIUMTEXT); \
         CREATE TABLE prosodyarchive (sort_id INTEGER PRIMARY KEY AUTO_INCREMENT, host TEXT, user TEXT, store TEXT, `key` TEXT, `when` INTEGER, `with` TEXT, \
            type TEXT, value MEDIUMTEXT); \
         INSERT INTO prosody VALUES ('localhost', 'romeo', 'accounts', 'password', 'string', 'secret'), \
            ('localhost', 'romeo', 'roster', 'juliet@localhost', 'json', '{\"groups\":{\"Friends\":true},\"name\":\"J\",\"subscription\":\"both\"}'); \
         INSERT INTO prosodyarchive (host, user, store, `key`, `when`, `with`, type, value) VALUES ('localhost', 'romeo', 'archive', 'a', 1278803305, \
            'juliet@localhost', 'xml', '<message from=''juliet@localhost/x'' to=''romeo@localhost''><body>kept</body></message>')",
    );
    made.expect("the tables of Prosody");
    rig.run(&["user", "import", "--from", &prosody, "--schema", "prosody"]).fine();
    let exported = export(&rig, "romeo");
    for there in ["name='J' subscription='both'><group>Friends</group>", "<body>kept</body>"] {
        assert!(exported.contains(there), "{there} is not in\n{exported}");
    }
}
