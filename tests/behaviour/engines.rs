//! The tests of this binary that touch the store, over the databases that there are.

use std::env;
use std::process::Command;

use rookery_testkit::engine::ENGINE;

/// The tests of what is kept, by the beginnings of their names.
const TESTS: [&str; 14] = [
    "archive::",
    "at_login::",
    "last_activity::",
    "messages::",
    "offline::",
    "presence::",
    "privacy::",
    "pubsub::",
    "registration::",
    "removal::",
    "rooms::keeping",
    "roster::",
    "subscriptions::",
    "upload::",
];

#[test]
fn what_is_kept_is_kept_in_sqlite() {
    run_on("sqlite");
}

#[test]
fn what_is_kept_is_kept_in_postgres() {
    if !rookery_needs::skips("behaviour.postgres") {
        run_on("postgres");
    }
}

#[test]
fn what_is_kept_is_kept_in_mariadb() {
    if !rookery_needs::skips("behaviour.mariadb") {
        run_on("mariadb");
    }
}

/// Runs this binary again, with the engine of all servers that name none.
fn run_on(engine: &str) {
    let binary = env::current_exe().expect("this binary");
    let ran = Command::new(binary).args(TESTS).env(ENGINE, engine).output().expect("a process");
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "over {engine}:\n{out}\n{err}");
    let passed = out.split("test result: ok. ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<usize>().ok());
    assert!(passed.is_some_and(|passed| passed > 100), "{out}");
}
