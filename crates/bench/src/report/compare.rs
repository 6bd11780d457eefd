//! Compares two or more runs: the difference to the first in per cent, and whether it is
//! meaningful.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::BenchOutcome;
use crate::report::conclusion::sentences;
use crate::report::metric::{Better, Metric};
use crate::report::spread::is_within;
use crate::report::table::{align, metrics_of, printable, remarks};
use crate::report::{by_scenario, html, labels};
use crate::result::RunResult;

/// Runs `rookery bench compare`: prints the comparison of these files, and writes it as a page and
/// as Markdown if requested.
///
/// # Errors
/// A file that can't be read or isn't the result of a run; one that can't be written.
pub fn run(files: &[PathBuf], page: Option<&Path>, markdown: Option<&Path>) -> BenchOutcome<()> {
    let runs: Vec<RunResult> = files.iter().map(|file| RunResult::read(file)).collect::<Result<_, _>>()?;
    // `| head` may have closed the pipe.
    let _ = std::io::stdout().write_all(text(&runs).as_bytes());
    for (file, made) in [(page, html as fn(&[RunResult]) -> String), (markdown, super::markdown)] {
        let Some(file) = file else { continue };
        fs::write(file, made(&runs)).map_err(|error| format!("{}: {error}", file.display()))?;
        let _ = writeln!(std::io::stdout(), "written to {}", file.display());
    }
    Ok(())
}

/// Returns the comparison: for each scenario, each figure of the first run and the differences of
/// the others.
pub fn text(runs: &[RunResult]) -> String {
    let mut out = String::new();
    for (scenario, runs) in by_scenario(runs) {
        for line in sentences(&runs) {
            let _ = writeln!(out, "{}", printable(&line));
        }
        let mut rows = vec![[scenario.to_owned()].into_iter().chain(labels(&runs)).collect::<Vec<_>>()];
        rows.extend(metrics_of(&runs).into_iter().map(|metric| row(metric, &runs)));
        rows.extend(sweep(&runs));
        out.push_str(&align(&rows));
        for line in caveats(&runs).into_iter().chain(remarks(&runs)) {
            let _ = writeln!(out, "  ! {}", printable(&line));
        }
        out.push('\n');
    }
    out
}

/// Returns the settings whose values are not the same in all of these runs.
pub(super) fn differing(runs: &[&RunResult]) -> BTreeSet<String> {
    let names: BTreeSet<&String> = runs.iter().flat_map(|run| run.settings.keys()).collect();
    let differs = |name: &&String| {
        let values: BTreeSet<Option<&String>> = runs.iter().map(|run| run.settings.get(*name)).collect();
        values.len() > 1
    };
    // The server is the subject of a comparison.
    let about = |name: &&String| !TARGET.contains(&name.as_str());
    names.into_iter().filter(about).filter(differs).cloned().collect()
}

/// Returns the reasons why the comparison may be unfair.
pub(super) fn caveats(runs: &[&RunResult]) -> Vec<String> {
    let mut lines = Vec::new();
    if runs.len() < 2 {
        lines.push("only one run of this scenario: there is nothing to compare it with".to_owned());
        return lines;
    }
    let settings = differing(runs);
    if !settings.is_empty() {
        let named: Vec<String> = settings.iter().map(|name| setting(name, runs)).collect();
        lines.push(format!("the settings differ, so these are not the same load: {}", named.join("; ")));
    }
    let machines: BTreeSet<_> =
        runs.iter().map(|run| (&run.machine.model, run.machine.cores, &run.machine.kernel)).collect();
    if machines.len() > 1 {
        lines.push("the runs were made on different machines or kernels".to_owned());
    }
    if let Some(run) =
        runs.iter().filter(|run| run.is_done()).min_by(|one, other| one.seconds.total_cmp(&other.seconds))
        && run.seconds > 0.0
        && run.seconds < SHORT_S
        && run.rounds.len() < 2
    {
        lines.push(format!("a run was measured once, for {:.1} s: small differences mean nothing", run.seconds));
    }
    if runs.iter().any(|run| !run.is_done()) {
        lines.push("a run ended early: its figures cover only the part until then".to_owned());
    }
    lines
}

fn setting(name: &str, runs: &[&RunResult]) -> String {
    let values = runs.iter().map(|run| run.settings.get(name).map_or("not set", String::as_str));
    format!("{name} {}", values.collect::<Vec<_>>().join(" / "))
}

fn row(metric: &Metric, runs: &[&RunResult]) -> Vec<String> {
    let first = runs.first().and_then(|run| metric.of(run));
    let mut row = vec![metric.name.to_owned()];
    for (at, run) in runs.iter().enumerate() {
        let is_noise = runs.first().is_some_and(|first| is_within(metric, first, run));
        let better = if is_noise { Better::Neither } else { metric.better };
        let change = match at {
            0 => String::new(),
            _ if is_noise && first != metric.of(run) => {
                change(first, metric.of(run), better).replace(')', ", within the spread)")
            }
            _ => change(first, metric.of(run), better),
        };
        row.push(metric.show(run) + &change);
    }
    row
}

/// Returns the points of a sweep that the first run has, by the server's CPU if it is known,
/// otherwise by time.
fn sweep(runs: &[&RunResult]) -> Vec<Vec<String>> {
    let Some((first, others)) = runs.split_first() else { return Vec::new() };
    let mut rows = Vec::new();
    for part in &first.parts {
        let cost: fn(&crate::result::SweepPoint) -> Option<f64> = match part.us_cpu_per_destination {
            Some(_) => |part| part.us_cpu_per_destination,
            None => |part| Some(part.us_per_destination_wall),
        };
        let what = if part.us_cpu_per_destination.is_some() { "CPU" } else { "time" };
        let show = |value: Option<f64>| super::number::NumberUnit::Microseconds.show(value.unwrap_or(f64::NAN));
        let mut row = vec![format!("{} {}, {what}", part.curve, part.n), show(cost(part))];
        for run in others {
            let same = run.parts.iter().find(|other| other.curve == part.curve && other.n == part.n);
            let value = same.and_then(cost);
            row.push(show(value) + &change(cost(part), value, Better::Less));
        }
        rows.push(row);
    }
    rows
}

/// Returns the difference in per cent of the first, and whether it is better or worse.
fn change(first: Option<f64>, other: Option<f64>, better: Better) -> String {
    let (Some(first), Some(other)) = (first, other) else { return String::new() };
    if first == other {
        return " (same)".to_owned();
    }
    // A percentage of zero is meaningless.
    if !first.is_finite() || !other.is_finite() || first == 0.0 {
        return String::new();
    }
    let percent = (other - first) / first.abs() * 100.0;
    let word = match better {
        Better::Neither => "",
        Better::Less if other < first => ", better",
        Better::More if other > first => ", better",
        Better::Less | Better::More => ", worse",
    };
    let decimals = usize::from(percent.abs() < 10.0);
    format!(" ({percent:+.decimals$} %{word})")
}

/// The length in seconds below which a single measurement means little.
const SHORT_S: f64 = 10.0;

/// Settings that identify the server or the run, not the load.
const TARGET: [&str; 8] = ["host", "name", "server-pid", "domain", "password", "out", "html", "tls-name"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_in_per_cent_of_the_first() {
        assert_eq!(change(Some(100.0), Some(150.0), Better::Less), " (+50 %, worse)");
        assert_eq!(change(Some(100.0), Some(95.0), Better::Less), " (-5.0 %, better)");
        assert_eq!(change(Some(100.0), Some(150.0), Better::More), " (+50 %, better)");
        assert_eq!(change(Some(2.0), Some(2.0), Better::More), " (same)");
        assert_eq!(change(Some(0.0), Some(2.0), Better::More), "");
        assert_eq!(change(Some(f64::NAN), Some(2.0), Better::More), "");
        assert_eq!(change(None, Some(2.0), Better::More), "");
    }
}
