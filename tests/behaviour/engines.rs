//! Runs the tests of this binary that touch the store again, over each database that this machine
//! has.

use std::env;
use std::process::Command;

use rookery_testkit::engine::ENGINE;

/// The tests of stored data, by the beginnings of their names. The other tests store nothing but
/// accounts and rosters, or start databases of their own.
const TESTS: [&str; 34] = [
    "abuse::",
    "administration::",
    "announce::",
    "archive::",
    "at_login::",
    "carbons::",
    "commands::",
    "data::",
    "directory::",
    "dying::",
    "last_activity::",
    "logins::",
    "messages::",
    "mobile::fast",
    "modules::",
    "neighbours::",
    "offline::",
    "presence::",
    "privacy::",
    "privileges::",
    "pubsub::",
    "recipe::",
    "registration::",
    "removal::",
    "restart::",
    "rooms::",
    "roster::",
    "services::",
    "shared_roster::",
    "strangers::",
    "subscriptions::",
    "tracing::",
    "upload::",
    "waits::",
];

/// The tests of archives for which a search index must make no difference. It does make one for a
/// search that ends early, which says how many messages it has looked at.
const SEARCHES: [&str; 5] = [
    "archive::paging",
    "archive::recording",
    "archive::retracting",
    "archive::searching::words",
    "archive::searching::what_is_found",
];

#[test]
fn what_is_kept_is_kept_in_sqlite() {
    run_on("sqlite", &TESTS, 600);
}

#[test]
fn what_is_kept_is_kept_in_postgres() {
    if !rookery_needs::skips("behaviour.postgres") {
        run_on("postgres", &TESTS, 600);
    }
}

#[test]
fn what_is_kept_is_kept_in_mariadb() {
    if !rookery_needs::skips("behaviour.mariadb") {
        run_on("mariadb", &TESTS, 600);
    }
}

#[test]
fn an_index_in_postgres_changes_nothing() {
    if !rookery_needs::skips("behaviour.postgres") {
        run_on("postgres-index", &SEARCHES, 10);
    }
}

#[test]
fn an_index_in_mariadb_changes_nothing() {
    if !rookery_needs::skips("behaviour.mariadb") {
        run_on("mariadb-index", &SEARCHES, 10);
    }
}

/// Runs this binary again, with this engine for all servers that name none. More than `least` tests
/// must pass.
fn run_on(engine: &str, tests: &[&str], least: usize) {
    let binary = env::current_exe().expect("this binary");
    let ran = Command::new(binary).args(tests).env(ENGINE, engine).output().expect("a process");
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "over {engine}:\n{out}\n{err}");
    let passed = out.split("test result: ok. ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<usize>().ok());
    assert!(passed.is_some_and(|passed| passed > least), "{out}");
}
