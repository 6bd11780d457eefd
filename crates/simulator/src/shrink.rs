//! Shortens a schedule that breaks a rule to one that still breaks it.

use crate::plan::RunPlan;
use crate::seeds;

/// Removes events from a failing plan for as long as it fails in the same way. Returns the numbers
/// of the events in the shortest failing plan that was found within this many runs.
pub fn shrink(plan: &RunPlan, broken: &str, mut runs: usize) -> Vec<usize> {
    let mut best: Vec<usize> = (0..plan.events.len()).collect();
    let rule = rule(broken).to_owned();
    let mut size = best.len().div_ceil(2);
    while size > 0 && runs > 0 {
        let mut at = 0;
        while at < best.len() && runs > 0 {
            let end = (at + size).min(best.len());
            let shorter = [&best[..at], &best[end..]].concat();
            runs -= 1;
            let outcome = seeds::run(&plan.only(&shorter), false);
            if outcome.broken.is_some_and(|broken| self::rule(&broken) == rule) {
                best = shorter;
            } else {
                at = end;
            }
        }
        size = if size == 1 { 0 } else { size.div_ceil(2) };
    }
    best
}

/// Returns the part of a failure's text that failures of the same kind share: its words without the
/// numbers.
fn rule(broken: &str) -> String {
    broken.chars().filter(|letter| !letter.is_ascii_digit()).take(60).collect()
}
