//! Sampled stacks of a server in a separate process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::rig::CliRig;

/// Keeps a server busy during some work, and returns the result of that.
fn under_load<T>(rig: &CliRig, work: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                rig.run(&["status"]).fine();
            }
        });
        let done = work();
        is_over.store(true, Ordering::Relaxed);
        done
    })
}

#[test]
fn a_busy_server_tells_where_its_time_goes() {
    let rig = CliRig::fresh();
    let (server, _) = rig.serve();
    let profile = ["profile", "--seconds", "1", "--rate", "1000", "--output"];
    let is_of_commands = |line: &str| line.starts_with("web;") && line.contains(";rookery_web::");
    // If other programs are busy, a second may pass without a sample of the commands' work.
    let folded = under_load(&rig, || {
        let mut taken =
            (0..MOST_PROFILES).map(|_| rig.run(&[&profile[..], &["-", "--format", "folded"]].concat()).fine());
        taken.find(|text| text.lines().any(is_of_commands))
    });
    let folded = folded.expect("a function of the web front by its whole name");
    for line in folded.lines() {
        let (stack, samples) = line.rsplit_once(' ').expect("a count");
        assert!(samples.parse::<u64>().is_ok_and(|samples| samples > 0), "{line}");
        assert!(!stack.contains("perf_signal_handler"), "what takes samples is not what is sampled: {line}");
    }

    let said = under_load(&rig, || rig.run(&[&profile[..], &["one.pb.gz"]].concat()).fine());
    assert!(said.contains("written to one.pb.gz"), "{said}");
    under_load(&rig, || rig.run(&[&profile[..], &["picture.svg"]].concat()).fine());
    let picture = std::fs::read_to_string(rig.path("picture.svg")).expect("a picture");
    assert!(picture.contains(" samples</text>") && picture.contains("search"), "{picture}");
    assert!(rig.run(&["profile", "compare", "one.pb.gz", "one.pb.gz"]).fine().starts_with("no function's share"));
    let log = server.log();
    assert!(log.contains("started sampling the stacks of the server for 1 seconds, at 1000 Hz"), "{log}");
}

/// The most profiles of a second without a sample of a busy thread.
const MOST_PROFILES: usize = 30;

#[test]
fn there_is_one_profile_at_a_time_and_it_ends_with_the_one_who_wants_it() {
    let rig = CliRig::fresh();
    let (_server, _) = rig.serve();
    let short = || rig.run(&["profile", "--seconds", "1", "--output", "-"]);
    let mut long = rig.command(&["profile", "--seconds", "120", "--output", "-"]).spawn().expect("a process");
    loop {
        let other = short();
        if other.code != 0 {
            other.expect_failure(1, "another profile is being recorded");
            break;
        }
        if long.try_wait().expect("a state").is_some() {
            // The short one was first.
            long = rig.command(&["profile", "--seconds", "120", "--output", "-"]).spawn().expect("a process");
        }
    }
    long.kill().expect("killed");
    long.wait().expect("an end");
    while short().code != 0 {
        thread::yield_now();
    }
}

#[test]
fn two_profiles_are_compared() {
    let rig = CliRig::fresh();
    rig.write("before.folded", "shard 0;run;route 50\nshard 0;run;scan 50\n");
    rig.write("after.folded", "shard 0;run;route 150\nshard 0;run;scan 50\n");
    let compare = ["profile", "compare", "before.folded", "after.folded", "--output", "difference.svg"];
    let said = rig.run(&compare).fine();
    // Programs get all functions.
    let objects = rig.run(&["profile", "compare", "before.folded", "after.folded", "--json"]).fine();
    for line in objects.lines() {
        let object: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert!(object["function"].is_string() && object["after"]["own"].is_number(), "{line}");
    }
    assert!(objects.lines().count() > 1, "{objects}");
    let lines: Vec<Vec<&str>> = said.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[1], ["75.0", "50.0", "+25.0", "75.0", "50.0", "route"], "{said}");
    assert_eq!(lines[2], ["25.0", "50.0", "-25.0", "25.0", "50.0", "scan"], "{said}");
    assert!(said.ends_with("100 samples before, 200 samples afterwards\n"), "{said}");
    let picture = std::fs::read_to_string(rig.path("difference.svg")).expect("a picture");
    assert!(picture.contains("route: 150 samples, 75.0 %, +25.0 points"), "{picture}");
    rig.write("wrong.folded", "no count\n");
    rig.run(&["profile", "compare", "before.folded", "wrong.folded"])
        .expect_failure(1, "wrong.folded: line 1: it doesn't end with a count");
    rig.run(&["profile"]).expect_failure(1, "there is no data folder");
}
