//! A server whose database is a PostgreSQL, and its commands.

use std::fs;
use std::sync::LazyLock;

use rookery_needs::Postgres;

use super::rig::{FREE_PORTS, Rig};

static CLUSTER: LazyLock<Postgres> = LazyLock::new(Postgres::start);

/// A rig whose configuration names a database, with more keys of `[store]`.
fn rig(address: &str, keys: &str) -> Rig {
    let rig = Rig::new();
    rig.write("rookery.toml", &format!("{FREE_PORTS}\n[store]\nurl = \"{address}\"\n{keys}\n"));
    rig
}

/// The cluster of the tests doesn't wait for the disk.
const TRUSTING: &str = "durability = \"trust\"\nconnections = 2";

fn is_left_out() -> bool {
    rookery_needs::skips("cli.postgres")
}

#[test]
fn a_server_and_its_commands_keep_all_in_it() {
    if is_left_out() {
        return;
    }
    let address = CLUSTER.database();
    let rig = rig(&address, TRUSTING);
    let plan = rig.run(&["store", "migrate", "--dry-run"]).fine();
    assert!(plan.contains("has schema version 0; 1 steps lead to 1"), "{plan}");
    assert!(rig.run(&["store", "migrate", "--sql"]).fine().contains("CREATE TABLE accounts"));
    rig.run_with(&["user", "add", "juliet@localhost", "--password-stdin"], "pencil\n").fine();
    let (server, _) = rig.serve();
    rig.run_with(&["user", "add", "romeo@localhost", "--password-stdin"], "pencil\n").fine();
    let listed = rig.run(&["user", "list"]).fine();
    assert!(listed.contains("juliet@localhost\n") && listed.contains("romeo@localhost\n"), "{listed}");
    drop(server);
    let names = CLUSTER.psql(&address, "SELECT localpart FROM accounts ORDER BY 1").expect("rows");
    assert!(names.contains("juliet") && names.contains("romeo"), "{names}");
    assert!(!rig.path("rookery-data/rookery.db").exists(), "there is no file");
    let checked = rig.run(&["check"]);
    for expected in ["PostgreSQL ", "encoding UTF8", "fsync off", "schema version 1", "logins a second"] {
        assert!(checked.out.contains(expected), "{expected}: {}", checked.out);
    }
    assert!(rig.run(&["store", "migrate"]).fine().contains("the newest"));
}

#[test]
fn databases_are_copied_between_engines() {
    if is_left_out() {
        return;
    }
    let (rig, address) = (rig("sqlite", TRUSTING), CLUSTER.database());
    rig.run_with(&["user", "add", "juliet@localhost", "--password-stdin"], "pencil\n").fine();
    assert!(rig.run(&["store", "copy", "--to", &address]).fine().contains("both have the same"));
    assert!(rig.run(&["store", "verify", "--to", &address]).fine().contains("have the same"));
    let back = rig.run(&["store", "copy", "--from", &address, "--to", "sqlite:back/rookery.db"]).fine();
    assert!(back.contains("both have the same"), "{back}");
    assert!(rig.run(&["store", "verify", "--to", "sqlite:back/rookery.db"]).fine().contains("have the same"));
    // What the copy was given numbers goes on behind them.
    rig.write("rookery.toml", &format!("{FREE_PORTS}\n[store]\nurl = \"{address}\"\n{TRUSTING}\n"));
    rig.run_with(&["user", "add", "romeo@localhost", "--password-stdin"], "pencil\n").fine();
    assert_eq!(rig.run(&["user", "list"]).fine(), "juliet@localhost\nromeo@localhost\n");
}

#[test]
fn what_is_wrong_is_told_with_what_mends_it() {
    if is_left_out() {
        return;
    }
    let address = CLUSTER.database();
    // Code 78: trying again helps nobody.
    rig(&address, "").run(&["serve"]).failed(78, "fsync is off");
    CLUSTER.psql(&address, "CREATE TABLE accounts (name TEXT)").expect("a table");
    rig(&address, TRUSTING).run(&["serve"]).failed(78, "of another program");
    let missing = format!("{TRUSTING}\npassword_file = \"missing\"");
    rig(&address, &missing).run(&["serve"]).failed(78, "password_file under [store] names missing");
    for (keys, expected) in [
        ("url = \"postgres://localhost/chat\"", "no user is named"),
        ("url = \"oracle://chat\"", "no database that the server knows"),
        ("tls = \"maybe\"", "\"verify\" or \"off\""),
        ("connections = 0", "connections"),
    ] {
        let rig = Rig::new();
        rig.write("rookery.toml", &format!("{FREE_PORTS}\n[store]\n{keys}\n"));
        rig.run(&["check"]).failed(1, "");
        rig.run(&["serve"]).failed(78, expected);
    }
    // A database that is away is no fault of the configuration.
    let nowhere = "postgres://rookery@%2Fnowhere/chat";
    rig(nowhere, TRUSTING).run(&["serve"]).failed(1, "can't be reached");
    assert!(rig(nowhere, TRUSTING).run(&["check"]).out.contains("can't be reached"));
}

#[test]
fn the_password_comes_from_a_file() {
    if is_left_out() {
        return;
    }
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let cluster = Postgres::start_encrypted(&made.cert.pem(), &made.signing_key.serialize_pem());
    let database = cluster.database();
    cluster.psql(&database, "ALTER ROLE rookery PASSWORD 'secret'").expect("a password");
    let name = database.rsplit('/').next().expect("a name");
    let address = format!("postgres://rookery@localhost:{}/{name}", cluster.port());
    let keys = "tls = \"verify\"\ntls_authorities = \"authority.pem\"\npassword_file = \"password\"";
    let rig = rig(&address, &format!("{TRUSTING}\n{keys}"));
    rig.write("authority.pem", &made.cert.pem());
    rig.write("password", "secret\n");
    rig.run_with(&["user", "add", "juliet@localhost", "--password-stdin"], "pencil\n").fine();
    assert_eq!(rig.run(&["user", "list"]).fine(), "juliet@localhost\n");
    rig.write("password", "wrong\n");
    rig.run(&["user", "list"]).failed(1, "password authentication failed");
    fs::write(rig.path("authority.pem"), "nothing").expect("a file");
    rig.run(&["user", "list"]).failed(1, "certificate");
}
