//! Readable reports: an HTML page, a table for the terminal, Markdown, and the comparison of
//! several runs.
//!
//! All of them are made from one or several [`RunResult`]s, and use the same name for every figure:
//! [`metric`] is the one list of figures. Nothing in a result is trusted: names come from servers,
//! files from anywhere. So every text is escaped where it is written, and every number that isn't
//! finite is shown as a dash and drawn as a gap.
//!
//! * [`html()`]: one file without scripts and external resources, in dark and in light; the plots
//!   are SVG.
//! * [`text()`] and [`markdown()`]: a table for each scenario.
//! * `conclusion`: the result in sentences; `spread`: the variation of figures between rounds.
//! * [`compare`]: the difference in per cent, and whether the comparison is fair.
//! * [`FigureReport`]: the figures of `cargo bench`, which don't belong to a run.

pub mod compare;
mod conclusion;
mod figures;
pub mod metric;
mod number;
mod page;
mod plot;
mod plots;
mod spread;
mod style;
mod table;

pub use figures::{FigureReport, setting, target_folder};
pub use page::html;
pub use table::{markdown, text};

use std::collections::BTreeSet;

use crate::result::RunResult;

/// Returns the scenarios of some runs in the order of their first appearance, each with its runs.
fn by_scenario(runs: &[RunResult]) -> Vec<(&str, Vec<&RunResult>)> {
    let mut scenarios: Vec<(&str, Vec<&RunResult>)> = Vec::new();
    for run in runs {
        match scenarios.iter_mut().find(|(name, _)| *name == run.scenario) {
            Some((_, members)) => members.push(run),
            None => scenarios.push((&run.scenario, vec![run])),
        }
    }
    scenarios
}

/// Returns a name for each run among several: its server, with its file or a number if servers
/// share a name.
fn labels(runs: &[&RunResult]) -> Vec<String> {
    let name = |run: &RunResult| if run.server.is_empty() { "unnamed".to_owned() } else { run.server.clone() };
    let names: Vec<String> = runs.iter().map(|run| name(run)).collect();
    let files: BTreeSet<&String> = runs.iter().filter_map(|run| run.file.as_ref()).collect();
    let have_files = files.len() == runs.len();
    let label = |(at, name): (usize, &String)| {
        if names.iter().filter(|other| *other == name).count() < 2 {
            return name.clone();
        }
        if let Some(file) = runs.get(at).and_then(|run| run.file.as_ref()).filter(|_| have_files) {
            return if names.iter().all(|other| other == name) { file.clone() } else { format!("{name} ({file})") };
        }
        let nth = names.iter().take(at + 1).filter(|other| *other == name).count();
        format!("{name} ({nth})")
    };
    names.iter().enumerate().map(label).collect()
}

#[cfg(test)]
mod tests;
