//! Runs the tests of this binary that touch the store again, over each database that this machine
//! has.

use std::collections::BTreeSet;
use std::env;
use std::process::Command;

use rookery_testkit::engine::ENGINE;

/// The tests of stored data, by the beginnings of their names.
const TESTS: [&str; 38] = [
    "abuse::",
    "administration::",
    "announce::",
    "archive::",
    "at_login::",
    "bad_input::",
    "carbons::",
    "commands::",
    "components::",
    "crossing::",
    "data::",
    "directory::",
    "dying::",
    "forged::",
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

/// The other groups of tests, with the reason why they run over stores in memory, or of their own,
/// only.
const LEFT_OUT: [(&str, &str); 18] = [
    ("absurd::", "makes thousands of rooms, nodes and members, which takes minutes in a database"),
    ("away::", "starts databases of its own, and takes them away"),
    ("bosh::", "is about a transport; stores accounts only"),
    ("bytestreams::", "stores accounts only"),
    ("engines::", "runs the others"),
    ("federation::", "is about streams between servers; stores accounts and contacts, as `crossing` does"),
    ("following::", "is about messages between nodes; tests of the program run clusters on PostgreSQL"),
    ("login::", "stores accounts only, or brings stores of its own"),
    ("mobile::", "is about streams that go on; stores contacts and messages, as `offline` does"),
    ("moving::", "is about messages between nodes; tests of the program run clusters on PostgreSQL"),
    ("multicast::", "is about addresses; stores contacts and messages, as `offline` and `archive` do"),
    ("nodes::", "is about messages between nodes; tests of the program run clusters on PostgreSQL"),
    ("once_more::", "runs the others over stores of its own"),
    ("ordering::", "brings stores of its own, which delay"),
    ("senders::", "stores accounts and contacts only, as `presence` does"),
    ("slow_readers::", "is about connections; stores accounts only"),
    ("statements::", "counts the statements of a database of its own"),
    ("websocket::", "is about a transport; stores accounts only"),
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

/// A new group has to be in one of the two lists, and nothing may be in them that is gone.
#[test]
fn each_group_runs_over_the_databases_or_is_left_out_for_a_reason() {
    let binary = env::current_exe().expect("this binary");
    let listed = Command::new(binary).args(["--list", "--format=terse"]).output().expect("a process");
    let listed = String::from_utf8(listed.stdout).expect("a list");
    let tests: Vec<_> = listed.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    let groups: BTreeSet<_> = tests.iter().filter_map(|test| Some(test.split_once("::")?.0)).collect();
    assert!(groups.len() >= TESTS.len(), "the groups of this binary: {groups:?}");
    let named: Vec<_> = TESTS.into_iter().chain(LEFT_OUT.map(|(group, _)| group)).collect();
    for group in groups {
        let is_named = named.contains(&format!("{group}::").as_str());
        assert!(is_named, "{group} has to be in TESTS, or in LEFT_OUT with a reason");
    }
    for name in named.into_iter().chain(SEARCHES) {
        assert!(tests.iter().any(|test| test.starts_with(name)), "there are no tests of {name}");
    }
}

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
    // The engines run side by side, and a database that stands still for seconds counts as away.
    let arguments = tests.iter().copied().chain(["--test-threads", "2"]);
    let ran = Command::new(binary).args(arguments).env(ENGINE, engine).output().expect("a process");
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "over {engine}:\n{out}\n{err}");
    let passed = out.split("test result: ok. ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<usize>().ok());
    assert!(passed.is_some_and(|passed| passed > least), "{out}");
}
