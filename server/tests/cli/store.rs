//! The database as a whole: copies, comparisons, and its schema.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use rusqlite::Connection;

use super::rig::{CliRig, FREE_PORTS};

/// The first eight versions of the schema, as earlier servers created them.
const OLD: [&str; 8] = [
    include_str!("../../../crates/store/src/sql/sqlite/schema-1.sql"),
    include_str!("../../../crates/store/src/sql/sqlite/schema-2.sql"),
    include_str!("../../../crates/store/src/sql/sqlite/schema-3.sql"),
    include_str!("../../../crates/store/src/sql/sqlite/schema-4.sql"),
    include_str!("../../../crates/store/src/sql/sqlite/schema-5.sql"),
    include_str!("../../../crates/store/src/sql/sqlite/schema-6.sql"),
    include_str!("../../../crates/store/src/sql/sqlite/schema-7.sql"),
    include_str!("../../../crates/store/src/sql/sqlite/schema-8.sql"),
];

/// Returns a rig with the database of an old server, which has an account.
fn old() -> CliRig {
    let rig = CliRig::new();
    let database = Connection::open(rig.path("rookery-data/rookery.db")).expect("a database");
    OLD.iter().for_each(|schema| database.execute_batch(schema).expect("a schema"));
    database
        .execute_batch(
            "PRAGMA user_version = 8; PRAGMA application_id = 0x526F6F6B; \
             INSERT INTO accounts (id, domain, localpart, roster_version, roster_oldest, roster_items, offline_messages) \
             VALUES (1, 'localhost', 'romeo', 1, 1, 0, 0)",
        )
        .expect("an account");
    rig
}

#[test]
fn a_database_is_copied_and_compared() {
    let rig = CliRig::new();
    rig.run_with(&["user", "add", "juliet@localhost", "--password-stdin", "--allow-short"], "pencil\n").fine();
    let copied = rig.run(&["store", "copy", "--to", "sqlite:copy/rookery.db"]).fine();
    assert!(copied.contains("accounts") && copied.contains("both are identical"), "{copied}");
    let compared = rig.run(&["store", "verify", "--to", "copy/rookery.db"]).fine();
    assert!(compared.contains("are identical"), "{compared}");
    rig.run(&["store", "copy", "--to", "sqlite:copy/rookery.db"]).expect_failure(1, "rows in its table accounts");
    rig.run_with(&["user", "add", "romeo@localhost", "--password-stdin", "--allow-short"], "pencil\n").fine();
    let compared = rig.run(&["store", "verify", "--to", "sqlite:copy/rookery.db"]);
    assert!(compared.code == 1 && compared.out.contains("differs from the row 2 on"), "{compared:?}");
    assert!(compared.err.contains("differ in 3 tables"), "{compared:?}");
    // The copy is a database like any other.
    fs::rename(rig.path("copy"), rig.path("other-data")).expect("moved");
    assert_eq!(rig.run(&["--data-dir", "other-data", "user", "list"]).fine(), "juliet@localhost\n");
}

#[test]
fn a_copy_shows_its_progress_at_a_terminal() {
    rookery_needs::programs(&[("python3", "python3")]);
    let rig = CliRig::new();
    rig.run_with(&["user", "add", "juliet@localhost", "--password-stdin", "--allow-short"], "pencil\n").fine();
    let shown = at_terminal(&rig.command(&["store", "copy", "--to", "sqlite:copy/rookery.db"]));
    assert!(shown.contains("copying ") && shown.contains(" rows, "), "{shown}");
    assert!(shown.contains("both are identical"), "{shown}");
    let shown = at_terminal(&rig.command(&["store", "verify", "--to", "copy/rookery.db"]));
    assert!(shown.contains("comparing ") && shown.contains(" rows, "), "{shown}");
    // A pipe or a file gets no bar.
    let ended = rig.run(&["store", "verify", "--to", "copy/rookery.db"]);
    assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{ended:?}");
}

/// Runs a command at a pseudo-terminal, and returns everything that it draws there.
fn at_terminal(command: &Command) -> String {
    let mut terminal = Command::new("python3");
    terminal.args(["-c", "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) != 0)"]);
    terminal.arg(command.get_program()).args(command.get_args()).env("TERM", "linux").stdin(Stdio::null());
    terminal.current_dir(command.get_current_dir().expect("a folder"));
    let output = terminal.output().expect("python3");
    let drawn = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{drawn}{}", String::from_utf8_lossy(&output.stderr));
    drawn
}

#[test]
fn wrong_places_are_told() {
    let rig = CliRig::new();
    rig.run_with(&["user", "add", "juliet@localhost", "--password-stdin", "--allow-short"], "pencil\n").fine();
    rig.run(&["store", "copy", "--to", "mongodb://localhost/x"])
        .expect_failure(1, "isn't a database that this server knows");
    rig.run(&["store", "copy", "--to", "sqlite:./rookery-data/rookery.db"])
        .expect_failure(1, "can't be copied to itself");
    rig.run(&["store", "verify", "--to", "sqlite:nowhere.db"]).expect_failure(1, "nowhere.db");
    let other = Connection::open(rig.path("other.db")).expect("a database");
    other.execute_batch("CREATE TABLE x (y)").expect("a table");
    rig.run(&["store", "copy", "--to", "sqlite:other.db"]).expect_failure(1, "of another program");
    let (server, _) = rig.serve();
    rig.run(&["store", "copy", "--to", "sqlite:copy/rookery.db"])
        .expect_failure(1, "stop it, or copy its current state with --live");
    rig.run(&["store", "copy", "--live", "--to", "sqlite:copy/rookery.db"]).fine();
    let own = "sqlite:./rookery-data/rookery.db";
    rig.run(&["store", "copy", "--from", "sqlite:copy/rookery.db", "--to", own]).expect_failure(1, "stop it first");
    server.stop();
}

#[test]
fn a_copy_that_was_interrupted_is_no_database_yet() {
    let rig = CliRig::new();
    rig.run_with(&["user", "add", "juliet@localhost", "--password-stdin", "--allow-short"], "pencil\n").fine();
    rig.run(&["store", "copy", "--to", "sqlite:copy/rookery.db"]).fine();
    let copy = Connection::open(rig.path("copy/rookery.db")).expect("the copy");
    copy.execute_batch("INSERT INTO counters VALUES ('copying', 1); DELETE FROM scram_keys")
        .expect("as if it were interrupted");
    drop(copy);
    rig.run(&["--data-dir", "copy"]).expect_failure(78, "was interrupted");
    rig.run(&["store", "copy", "--to", "sqlite:copy/rookery.db"]).fine();
    rig.run(&["store", "verify", "--to", "sqlite:copy/rookery.db"]).fine();
    assert_eq!(rig.run(&["--data-dir", "copy", "user", "list"]).fine(), "juliet@localhost\n");
}

#[test]
fn who_must_not_change_tables_is_told_who_does() {
    let rig = old();
    rig.write("rookery.toml", &format!("{FREE_PORTS}[store]\nmigrate = \"never\"\n"));
    rig.run(&[]).expect_failure(78, "run `rookery store migrate`");
    rig.run(&["user", "list"]).expect_failure(78, "has schema version 8");
    let planned = rig.run(&["store", "migrate", "--dry-run"]).fine();
    assert!(planned.contains("has schema version 8; ") && planned.contains(" steps lead to "), "{planned}");
    rig.run(&["user", "list"]).expect_failure(78, "has schema version 8");
    let steps = rig.run(&["store", "migrate", "--sql"]).fine();
    assert!(steps.contains("-- version 9\n") && steps.contains("PRAGMA user_version = 9;"), "{steps}");
    let migrated = rig.run(&["store", "migrate"]).fine();
    assert!(migrated.contains("had schema version 8 and now has "), "{migrated}");
    assert!(rig.run(&["store", "migrate"]).fine().contains("the latest"));
    assert_eq!(rig.run(&["user", "list"]).fine(), "romeo@localhost\n");
    rig.serve().0.stop();
}

/// Returns the version of a database's schema, and its accounts.
fn content(path: &Path) -> (i64, Vec<String>) {
    let database = Connection::open(path).expect("a database");
    let version = database.query_row("PRAGMA user_version", [], |row| row.get(0)).expect("a version");
    let mut names = database.prepare("SELECT localpart FROM accounts").expect("a table");
    let names = names.query_map([], |row| row.get(0)).expect("accounts").map(|name| name.expect("a name"));
    (version, names.collect())
}

#[test]
fn a_copy_of_the_database_stays_from_before_an_update() {
    let rig = old();
    let copy = rig.path("rookery-data/rookery.db.schema-8");
    let (server, _) = rig.serve();
    // It isn't part of backups: they have the database.
    rig.run(&["backup", "b.tar.gz"]).fine();
    let log = server.log();
    assert!(log.contains("a copy of the database is kept before its schema is updated"), "{log}");
    assert_eq!(content(&copy), (8, vec!["romeo".to_owned()]));
    assert_eq!(fs::metadata(&copy).expect("a file").permissions().mode() & 0o777, 0o600);
    let other = CliRig::empty();
    fs::copy(rig.path("b.tar.gz"), other.path("b.tar.gz")).expect("copied");
    other.run(&["restore", "b.tar.gz"]).fine();
    assert!(!other.path("rookery-data/rookery.db.schema-8").exists());
    // Without a step there is no copy.
    fs::remove_file(&copy).expect("removed");
    rig.serve().0.stop();
    rig.run(&["store", "migrate"]).fine();
    assert!(!copy.exists());
}

#[test]
fn an_update_by_hand_says_where_the_copy_is() {
    let rig = old();
    let migrated = rig.run(&["store", "migrate"]).fine();
    assert!(migrated.contains("a copy from before is ./rookery-data/rookery.db.schema-8"), "{migrated}");
    let rig = old();
    let migrated = rig.run(&["store", "migrate", "--json"]).fine();
    assert!(migrated.contains("\"copy\":\"./rookery-data/rookery.db.schema-8\""), "{migrated}");
    let rig = old();
    rig.write("rookery.toml", &format!("{FREE_PORTS}[store]\ncopy_before_migrate = false\n"));
    let migrated = rig.run(&["store", "migrate"]).fine();
    assert!(migrated.contains("had schema version 8") && !migrated.contains("copy"), "{migrated}");
    assert!(!rig.path("rookery-data/rookery.db.schema-8").exists());
}

#[test]
fn a_full_disk_doesnt_stop_an_update_but_damage_does() {
    let rig = old();
    // No disk has room for a copy of this log, which occupies none itself and contains nothing.
    let log = fs::File::create(rig.path("rookery-data/rookery.db-wal")).expect("a log");
    log.set_len(8 << 40).expect("a long file");
    let migrated = rig.run(&["store", "migrate"]).fine();
    assert!(migrated.contains("no copy from before was kept, since the disk has no room for it"), "{migrated}");
    assert!(!rig.path("rookery-data/rookery.db.schema-8").exists());

    let rig = old();
    let file = rig.path("rookery-data/rookery.db");
    let mut bytes = fs::read(&file).expect("the database");
    bytes[2 * 4096..4 * 4096].fill(0xff);
    fs::write(&file, bytes).expect("damaged");
    rig.run(&["store", "migrate"]).expect_failure(78, "the database is damaged: ./rookery-data/rookery.db");
    let version: i64 = Connection::open(&file)
        .and_then(|database| database.query_row("PRAGMA user_version", [], |row| row.get(0)))
        .expect("a version");
    assert_eq!(version, 8, "a damaged database isn't changed");
    assert!(!rig.path("rookery-data/rookery.db.schema-8.new").exists());
}

#[test]
fn the_release_before_uses_a_database_and_the_one_before_that_is_refused() {
    let rig = CliRig::new();
    rig.run_with(&["user", "add", "juliet@localhost", "--password-stdin", "--allow-short"], "pencil\n").fine();
    let database = Connection::open(rig.path("rookery-data/rookery.db")).expect("the database");
    let this: i64 = database.query_row("PRAGMA user_version", [], |row| row.get(0)).expect("a version");
    let note = |version: i64, runs_from: i64| {
        let noted =
            format!("PRAGMA user_version = {version}; INSERT INTO rookery_schema VALUES ({version}, {runs_from})");
        database.execute_batch(&noted).expect("as a later release does it");
    };
    note(this + 1, this);
    assert_eq!(rig.run(&["user", "list"]).fine(), "juliet@localhost\n");
    let told = format!("has schema version {} of a newer server; this one knows {this} and can use it", this + 1);
    assert!(rig.run(&["store", "migrate"]).fine().contains(&told));
    rig.serve().0.stop();
    rig.run(&["store", "copy", "--to", "sqlite:copy/rookery.db"]).expect_failure(1, "written by a newer server");
    note(this + 2, this + 1);
    rig.run(&[]).expect_failure(78, &format!("for servers that know version {} at least", this + 1));
}

#[test]
fn the_statements_that_are_printed_do_the_same() {
    let (by_hand, by_server) = (old(), old());
    let steps = by_hand.run(&["store", "migrate", "--sql"]).fine();
    let database = Connection::open(by_hand.path("rookery-data/rookery.db")).expect("the database");
    database.execute_batch(&steps).expect("what was printed");
    drop(database);
    by_server.run(&["store", "migrate"]).fine();
    assert!(by_hand.run(&["store", "migrate", "--dry-run"]).fine().contains("the latest"));
    let schema = |rig: &CliRig| {
        let database = Connection::open(rig.path("rookery-data/rookery.db")).expect("the database");
        let mut query = database
            .prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type, name")
            .expect("a query");
        query
            .query_map([], |row| row.get::<_, String>(0))
            .expect("rows")
            .map(|row| row.expect("a text"))
            .collect::<Vec<_>>()
    };
    assert_eq!(schema(&by_hand), schema(&by_server));
    let other = by_hand.path("rookery-data/rookery.db").display().to_string();
    by_server.run(&["store", "verify", "--to", &other]).fine();
}

#[test]
fn a_command_waits_for_who_holds_the_file_and_says_so() {
    let rig = CliRig::new();
    rig.run_with(&["user", "add", "juliet@localhost", "--password-stdin", "--allow-short"], "pencil\n").fine();
    for command in [&["user", "add", "romeo@localhost", "--password-stdin", "--allow-short"][..], &["store", "migrate"]]
    {
        let holder = Connection::open(rig.path("rookery-data/rookery.db")).expect("the database");
        holder.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE").expect("a lock");
        let mut waiting = rig.command(command).spawn().expect("a process");
        waiting.stdin.take().expect("its input").write_all(b"pencil\n").expect("a reader");
        let mut said = String::new();
        let mut lines = BufReader::new(waiting.stderr.take().expect("what it says"));
        lines.read_line(&mut said).expect("a line");
        assert!(said.contains("waits for up to 10 minutes"), "{command:?}: {said}");
        drop(holder);
        lines.read_line(&mut said).expect("an end");
        assert!(waiting.wait().expect("its end").success() && said.lines().count() == 1, "{command:?}: {said}");
    }
    assert_eq!(rig.run(&["user", "list"]).fine(), "juliet@localhost\nromeo@localhost\n");
}

#[test]
fn ten_that_start_at_once_migrate_once() {
    let rig = old();
    thread::scope(|scope| {
        let all: Vec<_> = (0..10).map(|_| scope.spawn(|| rig.run(&["user", "list"]))).collect();
        for one in all {
            assert_eq!(one.join().expect("a command").fine(), "romeo@localhost\n");
        }
    });
    assert!(rig.run(&["store", "migrate", "--dry-run"]).fine().contains("the latest"));
    assert!(rig.run(&["check"]).starts().contains("the integrity check found no damage"));
}
