//! The page: for each scenario a legend, tiles, plots, and the figures as a table.

use std::collections::BTreeSet;
use std::fmt::Write;

use time::OffsetDateTime;

use crate::report::compare::{caveats, differing};
use crate::report::conclusion::sentences;
use crate::report::metric::{self, Metric};
use crate::report::number::NONE;
use crate::report::plots::figures;
use crate::report::spread::Spread;
use crate::report::style;
use crate::report::table::{remarks, rows, sweep_rows};
use crate::report::{by_scenario, labels};
use crate::result::RunResult;

/// Returns one or several runs as a self-contained HTML page: no script, no other file.
///
/// Runs of the same scenario are laid over one another; the name of the server tells them apart and
/// has the same colour throughout.
pub fn html(runs: &[RunResult]) -> String {
    let mut out = String::from("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n");
    let _ = writeln!(out, "<title>{}</title>\n<style>\n{}</style></head>\n<body><main>", title(runs), style::sheet());
    let _ = writeln!(out, "<h1>{}</h1>", title(runs));
    for line in machines(runs) {
        let _ = writeln!(out, "<p class=\"soft\">{}</p>", escaped(&line));
    }
    if runs.is_empty() {
        out.push_str("<p>There are no runs.</p>\n");
    }
    contents(&mut out, runs);
    let palette = palette(runs);
    for (at, (scenario, runs)) in by_scenario(runs).into_iter().enumerate() {
        section(&mut out, at, scenario, &runs, &palette);
    }
    out + "</main></body></html>\n"
}

/// Returns a text escaped for HTML, in content and in attributes.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            char if char.is_control() && char != '\n' => out.push('\u{fffd}'),
            char => out.push(char),
        }
    }
    out
}

/// The most servers that a title names.
const MOST_NAMED: usize = 4;

fn title(runs: &[RunResult]) -> String {
    let scenarios = by_scenario(runs);
    let servers: BTreeSet<&str> = runs.iter().map(|run| run.server.as_str()).collect();
    let servers: Vec<&str> = servers.into_iter().filter(|name| !name.is_empty()).collect();
    let what = match scenarios.as_slice() {
        [(scenario, _)] => (*scenario).to_owned(),
        [] => "no runs".to_owned(),
        several => format!("{} scenarios", several.len()),
    };
    let who = match servers.len() {
        0 => String::new(),
        1..=MOST_NAMED => format!(": {}", servers.join(", ")),
        many => format!(": {many} servers"),
    };
    escaped(&format!("rookery bench, {what}{who}"))
}

/// Returns the place and time, in one line per machine.
fn machines(runs: &[RunResult]) -> Vec<String> {
    let place = |run: &RunResult| {
        let machine = &run.machine;
        (machine.model.clone(), machine.cores, machine.kernel.clone())
    };
    let places: BTreeSet<_> = runs.iter().map(place).collect();
    let line = |(model, cores, kernel): &(String, u32, String)| {
        let there = runs.iter().filter(|run| place(run) == (model.clone(), *cores, kernel.clone()));
        let begun = there.map(|run| run.started_unix).min().unwrap_or_default();
        let when = i64::try_from(begun).ok().and_then(|begun| OffsetDateTime::from_unix_timestamp(begun).ok());
        let when = when
            .filter(|_| begun > 0)
            .map_or_else(String::new, |when| format!(", {} {:02}:{:02} UTC", when.date(), when.hour(), when.minute()));
        format!("{cores} cores, {model}, Linux {kernel}{when}")
    };
    places.iter().map(line).collect()
}

/// Returns the labels of all runs; the index of a label determines its colour.
fn palette(runs: &[RunResult]) -> Vec<String> {
    let mut all = Vec::new();
    for (_, runs) in by_scenario(runs) {
        for label in labels(&runs) {
            if !all.contains(&label) {
                all.push(label);
            }
        }
    }
    all
}

/// Writes the result of each scenario in one sentence, with a link to its section.
fn contents(out: &mut String, runs: &[RunResult]) {
    let scenarios = by_scenario(runs);
    if scenarios.len() < 2 {
        return;
    }
    out.push_str("<nav class=\"card\"><h2>The result</h2><ul>\n");
    for (at, (scenario, runs)) in scenarios.iter().enumerate() {
        let first = sentences(runs).into_iter().next().unwrap_or_default();
        let _ = writeln!(out, "<li><a href=\"#s{at}\">{}</a>: {}</li>", escaped(scenario), escaped(&first));
    }
    out.push_str("</ul></nav>\n");
}

fn section(out: &mut String, at: usize, scenario: &str, runs: &[&RunResult], palette: &[String]) {
    let labels = labels(runs);
    let colour = |label: &String| palette.iter().position(|known| known == label).unwrap_or_default();
    let colours: Vec<usize> = labels.iter().map(colour).collect();
    let _ = writeln!(out, "<section id=\"s{at}\"><h2>{}</h2>", escaped(scenario));
    for line in sentences(runs) {
        let _ = writeln!(out, "<p class=\"result\">{}</p>", escaped(&line));
    }
    if runs.len() > 1 {
        for line in caveats(runs) {
            let _ = writeln!(out, "<p class=\"warn\">{}</p>", escaped(&line));
        }
    }
    legend(out, runs, &labels, &colours);
    for run in runs.iter().filter(|run| !run.is_done()) {
        let ended = if run.ended.is_empty() { "without a word" } else { &run.ended };
        let _ = writeln!(out, "<p class=\"warn\">{} ended early: {}</p>", escaped(&run.server), escaped(ended));
    }
    tiles(out, runs, &labels, &colours);
    plots(out, runs, &colours);
    details(out, runs);
    out.push_str("</section>\n");
}

fn legend(out: &mut String, runs: &[&RunResult], labels: &[String], colours: &[usize]) {
    out.push_str("<div class=\"legend\">");
    for ((run, label), colour) in runs.iter().zip(labels).zip(colours) {
        let version = run
            .version
            .as_ref()
            .map_or_else(String::new, |version| format!(" <span class=\"soft\">{}</span>", escaped(version)));
        let _ = write!(out, "<span><i class=\"{}\"></i>{}{version}</span>", style::class(*colour), escaped(label));
    }
    out.push_str("</div>\n");
}

/// Draws the headlines: for a single run the number alone, for several of them bars.
fn tiles(out: &mut String, runs: &[&RunResult], labels: &[String], colours: &[usize]) {
    out.push_str("<div class=\"grid\">\n");
    for metric in metric::ALL.iter().filter(|metric| metric.headline) {
        let values: Vec<Option<f64>> = runs.iter().map(|run| metric.of(run)).collect();
        if values.iter().all(Option::is_none) {
            continue;
        }
        let _ = write!(
            out,
            "<div class=\"card\"><h3>{}{} <span class=\"soft\">{}</span></h3>",
            escaped(metric.name),
            metric.better.arrow(),
            metric.better.words()
        );
        match values.as_slice() {
            [Some(value)] => {
                let _ = write!(out, "<div class=\"big\">{}</div>", metric.unit.show(*value));
            }
            values => bars(out, metric, values, labels, colours),
        }
        let spread = |(run, label): (&&RunResult, &String)| {
            let spread = Spread::of(metric, run)?.show(metric);
            Some(if runs.len() > 1 { format!("{label}: {spread}") } else { spread })
        };
        let spreads: Vec<_> = runs.iter().zip(labels).filter_map(spread).collect();
        if !spreads.is_empty() {
            let _ = write!(out, "<p class=\"soft spread\">{}</p>", escaped(&spreads.join("; ")));
        }
        out.push_str("</div>\n");
    }
    out.push_str("</div>\n");
}

fn bars(out: &mut String, metric: &Metric, values: &[Option<f64>], labels: &[String], colours: &[usize]) {
    let most = values.iter().flatten().fold(0f64, |most, value| most.max(*value));
    out.push_str("<div class=\"bars\">");
    for ((value, label), colour) in values.iter().zip(labels).zip(colours) {
        let share = value.filter(|_| most > 0.0).map_or(0.0, |value| (100.0 * value / most).clamp(0.0, 100.0));
        let class = style::class(*colour);
        let shown = value.map_or_else(|| NONE.to_owned(), |value| metric.unit.show(value));
        let _ = write!(
            out,
            "<span>{}</span><div><div class=\"{class}\" style=\"width:{share:.1}%\"></div></div><b>{shown}</b>",
            escaped(label)
        );
    }
    out.push_str("</div>");
}

fn plots(out: &mut String, runs: &[&RunResult], colours: &[usize]) {
    out.push_str("<div class=\"grid plots\">\n");
    for figure in figures(runs, colours) {
        let _ = writeln!(out, "<div class=\"card\"><h3>{}</h3>\n{}</div>", escaped(&figure.title), figure.svg);
    }
    out.push_str("</div>\n");
}

/// Writes the figures, the sweep, the settings and the remarks.
fn details(out: &mut String, runs: &[&RunResult]) {
    let remarks = remarks(runs);
    if !remarks.is_empty() {
        out.push_str("<ul>\n");
        for line in remarks {
            let _ = writeln!(out, "<li>{}</li>", escaped(&line));
        }
        out.push_str("</ul>\n");
    }
    method(out, runs);
    table(out, "All figures", &rows(runs), &BTreeSet::new());
    if let Some(sweep) = sweep_rows(runs) {
        table(out, "Cost per destination", &sweep, &BTreeSet::new());
    }
    let names: BTreeSet<&String> = runs.iter().flat_map(|run| run.settings.keys()).collect();
    if names.is_empty() {
        return;
    }
    let mut settings = vec![[String::new()].into_iter().chain(labels(runs)).collect::<Vec<_>>()];
    for name in names {
        let value = |run: &&RunResult| run.settings.get(name).cloned().unwrap_or_else(|| NONE.to_owned());
        settings.push([name.clone()].into_iter().chain(runs.iter().map(value)).collect());
    }
    table(out, "Settings", &settings, &differing(runs));
}

/// Writes the method of measurement.
fn method(out: &mut String, runs: &[&RunResult]) {
    let mut lines = Vec::new();
    if let Some(about) = runs.first().and_then(|run| crate::scenario::about(&run.scenario)) {
        lines.push(format!("The load: {about}."));
    }
    let seconds: Vec<String> =
        runs.iter().filter(|run| run.seconds.is_finite()).map(|run| format!("{:.1} s", run.seconds)).collect();
    let seconds: BTreeSet<String> = seconds.into_iter().collect();
    if !seconds.is_empty() {
        let seconds: Vec<String> = seconds.into_iter().collect();
        lines.push(format!(
            "Measured for {}, after all clients had logged in and received what the server sends at login.",
            seconds.join(", ")
        ));
    }
    lines.push("Latency is the time from sending (with a given rate, from the time when a message was due) to arrival. CPU and memory are the CPU time and the resident memory of the server's process during the measurement; the generator's are listed separately. A spread is that of all rounds or, if there is only one, of its seconds without the highest and the lowest tenth.".to_owned());
    let _ = writeln!(
        out,
        "<details open><summary>How it was measured</summary><p class=\"method\">{}</p></details>",
        escaped(&lines.join(" "))
    );
}

fn table(out: &mut String, caption: &str, rows: &[Vec<String>], marked: &BTreeSet<String>) {
    let _ = writeln!(out, "<details open><summary>{caption}</summary><div class=\"wide\"><table>");
    for (at, row) in rows.iter().enumerate() {
        let tag = if at == 0 { "th" } else { "td" };
        let class = if row.first().is_some_and(|name| marked.contains(name)) { " class=\"differs\"" } else { "" };
        let _ = write!(out, "<tr{class}>");
        for cell in row {
            let _ = write!(out, "<{tag}>{}</{tag}>", escaped(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div></details>\n");
}
