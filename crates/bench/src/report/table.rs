//! Tables in plain text: for the terminal, and as Markdown.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::report::compare::{caveats, differing};
use crate::report::conclusion::sentences;
use crate::report::metric::{self, Metric, NumberUnit};
use crate::report::number::NONE;
use crate::report::{by_scenario, labels};
use crate::result::{RunResult, SweepPoint};

/// Returns one or several runs for a terminal: a table for each scenario, a column for each run,
/// and the failures.
pub fn text(runs: &[RunResult]) -> String {
    let mut out = String::new();
    for (scenario, runs) in by_scenario(runs) {
        let _ = writeln!(out, "{}", printable(scenario));
        out.push_str(&align(&rows(&runs)));
        if let Some(sweep) = sweep_rows(&runs) {
            out.push('\n');
            out.push_str(&align(&sweep));
        }
        for line in remarks(&runs) {
            let _ = writeln!(out, "  {}", printable(&line));
        }
        out.push('\n');
    }
    out
}

/// Returns one or several runs as Markdown, under a heading of the second level for each scenario.
pub fn markdown(runs: &[RunResult]) -> String {
    let mut out = String::new();
    for (scenario, runs) in by_scenario(runs) {
        let _ = writeln!(out, "## {}\n", escape_markdown(scenario));
        for line in sentences(&runs) {
            let _ = writeln!(out, "**{}**\n", escape_markdown(&line));
        }
        if runs.len() > 1 {
            for line in caveats(&runs) {
                let _ = writeln!(out, "> **Beware:** {}\n", escape_markdown(&line));
            }
        }
        out.push_str(&write_markdown(&rows(&runs)));
        if let Some(sweep) = sweep_rows(&runs) {
            out.push('\n');
            out.push_str(&write_markdown(&sweep));
        }
        out.push('\n');
        for line in remarks(&runs) {
            let _ = writeln!(out, "- {}", escape_markdown(&line));
        }
        let differing = differing(&runs);
        if !differing.is_empty() {
            let head = ["settings that differ".to_owned()].into_iter().chain(labels(&runs)).collect();
            let mut rows: Vec<Vec<String>> = vec![head];
            for name in &differing {
                let value = |run: &&RunResult| run.settings.get(name).cloned().unwrap_or_else(|| NONE.to_owned());
                rows.push([name.clone()].into_iter().chain(runs.iter().map(value)).collect());
            }
            let _ = write!(out, "\n{}", write_markdown(&rows));
        }
        out.push('\n');
    }
    out
}

/// Returns the figures that at least one of the runs has; figures that are zero everywhere are left
/// out.
pub(super) fn metrics_of(runs: &[&RunResult]) -> Vec<&'static Metric> {
    let says = |metric: &&Metric| {
        let values: Vec<f64> = runs.iter().filter_map(|run| metric.of(run)).collect();
        let always = ["lost", "duplicated", "reordered"].contains(&metric.name);
        !values.is_empty() && (metric.headline || always || values.iter().any(|value| *value != 0.0))
    };
    metric::ALL.iter().filter(says).collect()
}

/// Returns a row with names, then a row for each figure.
pub(super) fn rows(runs: &[&RunResult]) -> Vec<Vec<String>> {
    let mut rows = vec![[String::new()].into_iter().chain(labels(runs)).collect::<Vec<_>>()];
    for metric in metrics_of(runs) {
        let values = runs.iter().map(|run| metric.show(run));
        rows.push([format!("{}{}", metric.name, metric.better.arrow())].into_iter().chain(values).collect());
    }
    rows
}

/// Returns the sweep: a row for each point, wall time and CPU per destination of each run; `None`
/// if there is no sweep.
pub(super) fn sweep_rows(runs: &[&RunResult]) -> Option<Vec<Vec<String>>> {
    let points: BTreeSet<(&str, u64)> =
        runs.iter().flat_map(|run| &run.parts).map(|part| (part.curve.as_str(), part.n)).collect();
    if points.is_empty() {
        return None;
    }
    let mut head = vec!["per destination".to_owned()];
    for label in labels(runs) {
        head.extend([format!("{label}, time"), format!("{label}, CPU")]);
    }
    let mut rows = vec![head];
    for (curve, n) in points {
        let mut row = vec![format!("{curve} {n}")];
        for run in runs {
            let part = run.parts.iter().find(|part| part.curve == curve && part.n == n);
            row.extend(part.map_or_else(|| [NONE.to_owned(), NONE.to_owned()], costs));
        }
        rows.push(row);
    }
    Some(rows)
}

fn costs(part: &SweepPoint) -> [String; 2] {
    let cpu = part.us_cpu_per_destination.unwrap_or(f64::NAN);
    let missing = part.expected.saturating_sub(part.delivered);
    // Without deliveries, nothing was measured.
    let wall = if part.delivered == 0 { f64::NAN } else { part.us_per_destination_wall };
    let wall = NumberUnit::Microseconds.show(wall);
    let wall = if missing > 0 { format!("{wall} ({missing} missing)") } else { wall };
    [wall, NumberUnit::Microseconds.show(cpu)]
}

/// Returns the facts for interpreting the figures: the ends of runs, the limiting side, notes.
pub(super) fn remarks(runs: &[&RunResult]) -> Vec<String> {
    let mut lines = Vec::new();
    for (run, label) in runs.iter().zip(labels(runs)) {
        if !run.is_done() {
            let ended = if run.ended.is_empty() { "without a word" } else { &run.ended };
            lines.push(format!("{label} ended early: {ended}"));
        }
        if let Some(limit) = &run.generator_limit {
            lines.push(format!("{label}: the load generator was the limit, not the server: {limit}"));
        }
        lines.extend(run.notes.iter().map(|note| format!("{label}: {note}")));
    }
    lines
}

pub(super) fn align(rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| printable(cell)).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in &rows {
        let mut line = String::from(" ");
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = if at == 0 { write!(line, " {cell:<width$}") } else { write!(line, "  {cell:>width$}") };
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn write_markdown(rows: &[Vec<String>]) -> String {
    let mut out = String::new();
    for (at, row) in rows.iter().enumerate() {
        let cells: Vec<String> = row.iter().map(|cell| escape_markdown(cell)).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
        if at == 0 {
            let _ = writeln!(out, "|{}", " --- |".to_owned() + &" ---: |".repeat(row.len().saturating_sub(1)));
        }
    }
    out
}

/// Returns a text without characters that control a terminal.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect()
}

/// Returns a text without characters that are special in Markdown or HTML.
fn escape_markdown(text: &str) -> String {
    let mut out = String::new();
    for char in printable(text).chars() {
        match char {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' => out.extend(['\\', char]),
            char => out.push(char),
        }
    }
    out
}
