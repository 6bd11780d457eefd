//! Runs all of these tests once more, as if the server were spread over several machines. The store
//! keeps the order of calls only for one owner, as several connections to a database do. All mail
//! between shards is in its wire form, so that nothing gets into mail that only one process
//! understands.

use std::process::Command;

use rookery_testkit::config::SHUFFLE;
use rookery_testkit::server::ENCODED_MAIL;

#[test]
fn nothing_relies_on_one_queue_or_one_process() {
    let tests = std::env::current_exe().expect("the path of these tests");
    let mut run = Command::new(tests);
    run.arg("--quiet").args(SKIPPED.iter().flat_map(|test| ["--skip", test]));
    let run = run.env(SHUFFLE, SEED).env(ENCODED_MAIL, "1");
    let run = run.output().expect("these tests again");
    let told = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{SHUFFLE}={SEED} {ENCODED_MAIL}=1\n{told}");
    assert!(told.contains("test result: ok"), "{told}");
}

/// Tests of databases, which have their own order of operations, and tests that run all tests again
/// themselves.
const SKIPPED: [&str; 5] = ["once_more::", "engines::", "away::", "statements::", "nodes::features_are_the_same"];

/// Any number will do.
const SEED: &str = "13";
