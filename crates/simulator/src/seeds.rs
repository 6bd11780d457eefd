//! Many runs, and their results.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::journal;
use crate::plan::RunPlan;
use crate::run::{self, RunOutcome};
use crate::statistics::RunStatistics;

/// A seed that broke a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeedFailure {
    /// The seed, from which the run can be repeated.
    pub seed: u64,
    /// The rule.
    pub broken: String,
    /// The events of the run.
    pub events: usize,
}

impl fmt::Display for SeedFailure {
    /// Writes the rule, and the command that repeats the seed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, broken, events } = self;
        write!(f, "{broken}{AGAIN}{seed} --events {events}")
    }
}

impl SeedFailure {
    /// Returns the first failure in a process's output, as [`Display`](fmt::Display) writes it
    /// after [`FAILED`].
    pub fn read(told: &str) -> Option<Self> {
        let (_, rest) = told.split_once(FAILED)?;
        let (broken, rest) = rest.split_once(AGAIN)?;
        let (seed, rest) = rest.split_once(" --events ")?;
        let events = rest.lines().next()?;
        Some(Self { seed: seed.parse().ok()?, broken: broken.to_owned(), events: events.parse().ok()? })
    }
}

/// The words before each failure in a process's output.
pub const FAILED: &str = "FAILED: ";
const AGAIN: &str = "\n  again: cargo run -p rookery-simulator -- --seed ";

thread_local! {
    static PANICKED: RefCell<Option<String>> = const { RefCell::new(None) };
    static RUNS: Cell<bool> = const { Cell::new(false) };
}

/// Runs a plan; a panic is a broken rule, too.
pub fn run(plan: &RunPlan, keeps_lines: bool) -> RunOutcome {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| match RUNS.get() {
            true => PANICKED.set(Some(info.to_string().replace('\n', " "))),
            false => usual(info),
        }));
    });
    RUNS.set(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| run::run(plan, keeps_lines))).unwrap_or_else(|_| {
        let broken = PANICKED.take().unwrap_or_default();
        RunOutcome { hash: 0, broken: Some(broken), lines: journal::take_lines(), statistics: RunStatistics::default() }
    });
    RUNS.set(false);
    outcome
}

/// Runs seeds on this many threads, until one of them fails if `stops` is true, or `goes_on`
/// returns false; seeds with unwanted plans are skipped. Returns the failures by seed, and the
/// statistics of all.
pub fn run_many(
    seeds: std::ops::Range<u64>,
    events: usize,
    threads: usize,
    stops: bool,
    goes_on: impl Fn() -> bool + Sync,
    is_wanted: impl Fn(&RunPlan) -> bool + Sync,
) -> (Vec<SeedFailure>, RunStatistics) {
    let next = AtomicU64::new(seeds.start);
    let found = Mutex::new((Vec::new(), RunStatistics::default()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut own = RunStatistics::default();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || !goes_on() {
                        break;
                    }
                    let plan = RunPlan::new(seed, events);
                    if !is_wanted(&plan) {
                        continue;
                    }
                    let outcome = run(&plan, false);
                    own.add(&outcome.statistics);
                    if let Some(broken) = outcome.broken {
                        found.lock().unwrap_or_else(PoisonError::into_inner).0.push(SeedFailure {
                            seed,
                            broken,
                            events,
                        });
                        if stops {
                            next.store(seeds.end, Ordering::Relaxed);
                        }
                    }
                }
                found.lock().unwrap_or_else(PoisonError::into_inner).1.add(&own);
            });
        }
    });
    let (mut failures, statistics) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    failures.sort_by_key(|failure| failure.seed);
    (failures, statistics)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_read_as_it_is_told() {
        let failure = |seed| SeedFailure { seed, broken: "a: rule (RFC 6120)".into(), events: 400 };
        let told = format!("12 seeds\n{FAILED}{}\n{FAILED}{}\n", failure(7), failure(9));
        assert_eq!(SeedFailure::read(&told), Some(failure(7)));
        assert_eq!(SeedFailure::read("12 seeds\n"), None);
    }
}
