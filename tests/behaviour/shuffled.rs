//! All of these tests once more, over a store that keeps the order of the calls for one owner and no other, as several connections to a
//! database do.

use std::process::Command;

use rookery_testkit::config::SHUFFLE;

#[test]
fn nothing_relies_on_the_order_between_owners() {
    let tests = std::env::current_exe().expect("the path of these tests");
    let run = Command::new(tests).args(["--quiet", "--skip", "shuffled::"]).env(SHUFFLE, SEED).output();
    let run = run.expect("these tests again");
    let told = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{SHUFFLE}={SEED}\n{told}");
    assert!(told.contains("test result: ok"), "{told}");
}

/// Any number does.
const SEED: &str = "13";
