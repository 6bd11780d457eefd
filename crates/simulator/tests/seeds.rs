//! Promises of the simulator about itself, and the seeds that every change must pass.

use std::io::Write;
use std::ops::Range;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rookery_simulator::mutants::MUTANTS;
use rookery_simulator::mutating;
use rookery_simulator::seeds::SeedResults;
use rookery_simulator::statistics::RunStatistics;
use rookery_simulator::{RunPlan, seeds};

/// The same seed gives the same run, byte for byte, on any thread and after any other run.
#[test]
fn a_seed_is_a_run() {
    // Of these seeds, 11, 15 and 79 have several nodes, and 7 has BOSH and tokens.
    for seed in [0, 1, 2, 3, 4, 5, 7, 11, 15, 79] {
        let plan = RunPlan::new(seed, 300);
        let first = seeds::run(&plan, true);
        let elsewhere = plan.clone();
        let second = std::thread::spawn(move || {
            seeds::run(&RunPlan::new(seed + 100, 50), false);
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
    let [one, other] = [1, 2].map(|seed| seeds::run(&RunPlan::new(seed, 100), false).hash);
    assert_ne!(one, other);
}

/// Every guard that a mutant removes is at the place that the list says.
#[test]
fn mutants_have_something_to_take_away() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    for mutant in MUTANTS {
        let text = std::fs::read_to_string(format!("{root}/{}", mutant.file)).expect(mutant.file);
        assert_eq!(text.matches(mutant.guard).count(), 1, "{}", mutant.name);
        assert_ne!(mutant.guard, mutant.instead, "{}", mutant.name);
    }
}

/// The list of found mutants names only existing ones. A mutant that isn't in it shows that a rule
/// is missing.
#[test]
fn what_was_found_is_of_mutants_that_there_are() {
    let text = std::fs::read_to_string(format!("{}/{}", env!("CARGO_MANIFEST_DIR"), mutating::FOUND));
    let text = text.expect("the list is there");
    let found = mutating::read(&text);
    let known: Vec<_> = MUTANTS.iter().map(|mutant| mutant.name).collect();
    assert!(found.len() >= 20 && found.keys().all(|name| known.contains(name)), "{found:?}");
}

#[test]
fn the_page_of_mutants_is_up_to_date() {
    let root = env!("CARGO_MANIFEST_DIR");
    let text = std::fs::read_to_string(format!("{root}/{}", mutating::FOUND)).expect("the list is there");
    let (file, page) = (format!("{root}/../../doc/mutants.md"), mutating::page(&text));
    if std::env::var_os("UPDATE_DOC").is_some() {
        std::fs::write(&file, &page).expect("the page is written");
    }
    let found = std::fs::read_to_string(file).unwrap_or_default();
    assert!(found == page, "doc/mutants.md is old: run UPDATE_DOC=1 cargo test --workspace up_to_date");
}

/// The seeds that once found faults: these stay mended.
#[test]
fn fixed_seeds_break_no_rule() {
    let statistics = stand_some(0..500, || true);
    assert_eq!(statistics.runs, 500);
    assert!(statistics.copies > 0, "{statistics}");
}

/// New seeds, for [`FRESH_SECONDS`] or as long as `ROOKERY_FRESH_SECONDS` says. The first seed
/// depends on the sources, so that the same sources are always tried with the same seeds.
#[test]
fn fresh_seeds_break_no_rule() {
    let seconds = std::env::var("ROOKERY_FRESH_SECONDS").unwrap_or_default();
    let seconds =
        if seconds.is_empty() { FRESH_SECONDS } else { seconds.parse().expect("ROOKERY_FRESH_SECONDS is a number") };
    let (from, of) = first_fresh_seed();
    let end = Instant::now() + Duration::from_secs(seconds);
    let told = |text: String| std::io::stderr().write_all(text.as_bytes()).expect("standard error");
    told(format!("fresh seeds from {from}, of {of}, for {seconds} s\n"));
    let statistics = stand_some(from..from + SPAN, || Instant::now() < end);
    told(format!("{} fresh seeds from {from} break no rule\n", statistics.runs));
}

/// Returns the first seed for these sources, and the text that it is derived from: git's hash of
/// the tree or, without git, the day.
fn first_fresh_seed() -> (u64, String) {
    let mut git = Command::new("git");
    let tree = git.args(["rev-parse", "HEAD^{tree}"]).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok();
    let tree = tree.filter(|output| output.status.success());
    let tree =
        tree.and_then(|output| u64::from_str_radix(std::str::from_utf8(&output.stdout).ok()?.get(..12)?, 16).ok());
    let days = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / 86_400);
    match tree {
        Some(tree) => (tree * SPAN, format!("the tree {tree:012x}")),
        None => (days() * SPAN, format!("day {}", days())),
    }
}

/// More seeds that have found faults of the server.
#[test]
fn seeds_that_found_faults_break_no_rule() {
    for seed in seeds::FOUND_FAULTS {
        let outcome = seeds::run(&RunPlan::new(seed, EVENTS), false);
        assert_eq!(outcome.broken, None, "again: cargo run -p rookery-simulator -- --seed {seed} --events {EVENTS}");
    }
}

fn stand_some(seeds: Range<u64>, goes_on: impl Fn() -> bool + Sync) -> RunStatistics {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let SeedResults { failures, statistics, .. } = seeds::run_many(seeds, EVENTS, threads, false, goes_on, |_| true);
    let failures: Vec<String> = failures.iter().map(ToString::to_string).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    statistics
}

/// The default for the seconds of fresh seeds.
const FRESH_SECONDS: u64 = 25;
/// The distance between the first seeds for two trees.
const SPAN: u64 = 1 << 12;
/// The events of a run.
const EVENTS: usize = 400;
