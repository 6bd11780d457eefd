//! Promises of the simulator about itself, and the seeds that every change has to stand.

use rookery_simulator::mutants::MUTANTS;
use rookery_simulator::{Plan, seeds};

/// The same seed gives the same run, byte for byte, on whatever thread and behind whatever other
/// run.
#[test]
fn a_seed_is_a_run() {
    for seed in 0..6 {
        let plan = Plan::new(seed, 300);
        let first = seeds::run(&plan, true);
        let elsewhere = plan.clone();
        let second = std::thread::spawn(move || {
            seeds::run(&Plan::new(seed + 100, 50), false);
            seeds::run(&elsewhere, true)
        });
        let second = second.join().expect("no panic");
        let differs = first.lines.iter().zip(&second.lines).find(|(one, other)| one != other);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(first, second, "seed {seed}");
        assert!(first.lines.len() > 300, "the log tells what happened");
    }
}

#[test]
fn different_seeds_are_different_runs() {
    let [one, other] = [1, 2].map(|seed| seeds::run(&Plan::new(seed, 100), false).hash);
    assert_ne!(one, other);
}

/// Every guard that a mutant takes away is where the list says.
#[test]
fn mutants_have_something_to_take_away() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    for mutant in MUTANTS {
        let text = std::fs::read_to_string(format!("{root}/{}", mutant.file)).expect(mutant.file);
        assert_eq!(text.matches(mutant.guard).count(), 1, "{}", mutant.name);
        assert_ne!(mutant.guard, mutant.instead, "{}", mutant.name);
    }
}

/// Fixed seeds: what they once found stays mended. Fresh ones are for the longer run, which
/// CONTRIBUTING.md names: what they find is a defect to be mended, and no reason to refuse somebody
/// else's change.
#[test]
fn fixed_seeds_break_no_rule() {
    stand(0, 200);
}

fn stand(from: u64, count: u64) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (failures, statistics) = seeds::run_many(from..from + count, EVENTS, threads, false, || true);
    assert_eq!(failures, [], "again: cargo run -p rookery-simulator -- --seed SEED --events {EVENTS}");
    assert_eq!(statistics.runs, count);
    assert!(statistics.copies > 0, "{statistics}");
}

/// The events of a run.
const EVENTS: usize = 400;
