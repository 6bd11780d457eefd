//! A server whose database is a MariaDB, and its commands.

use std::sync::LazyLock;

use rookery_needs::Mariadb;

use super::rig::{FREE_PORTS, Rig};

static SERVER: LazyLock<Mariadb> = LazyLock::new(Mariadb::start);

/// A rig whose configuration names a database, with more keys of `[store]`.
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

/// What `store migrate --sql` prints is what an administrator may run instead of the server.
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
