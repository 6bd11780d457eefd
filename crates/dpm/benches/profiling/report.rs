//! The tables, as Markdown and as an HTML page with plots.

use std::fmt::Write as _;

use crate::load::{Load, LoadRun};

/// A run, and the bare writes for comparison.
pub struct ReportRow {
    pub load: Load,
    pub run: LoadRun,
    /// Microseconds per reading.
    pub bare: f64,
}

pub fn markdown(same: &[ReportRow], different: &[ReportRow], measured: &LoadRun) -> String {
    let mut text = String::from("# DPM: one reading, many readers\n\n");
    let _ = writeln!(text, "{ABOUT}\n\n## The same 100 devices\n\n{}", table(same));
    let _ = writeln!(text, "## 10 000 different devices from 100 front-ends\n\n{}", table(different));
    let _ =
        writeln!(text, "## Where the time goes\n\n{}\n\n```\n{}\n```\n", stages_about(same, measured), measured.stages);
    text
}

pub fn html(same: &[ReportRow], different: &[ReportRow], measured: &LoadRun) -> String {
    let mut text = format!("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n{HEAD}</head><body>\n");
    let _ = writeln!(text, "<h1>DPM: one reading, many readers</h1>\n<p>{ABOUT}</p>\n<h2>The same 100 devices</h2>");
    let micros =
        [("service", 0, values(same, |row| row.run.micros)), ("bare socket writes", 1, values(same, |row| row.bare))];
    let _ = writeln!(text, "{}", bars("CPU µs for each delivered reading", same, &micros));
    let latency = [
        ("readings, p99", 0, values(same, |row| row.run.latency[1] as f64)),
        ("a thread that only sleeps, p99", 1, values(same, |row| row.run.sleeper[1])),
    ];
    let _ = writeln!(text, "{}\n{}", bars("latency, ms", same, &latency), html_table(same));
    let _ = writeln!(text, "<h2>10 000 different devices from 100 front-ends</h2>\n{}", html_table(different));
    let _ = writeln!(
        text,
        "<h2>Where the time goes</h2>\n<p>{}</p>\n<pre>{}</pre>",
        stages_about(same, measured),
        measured.stages
    );
    text.push_str("</body></html>\n");
    text
}

fn stages_about(same: &[ReportRow], measured: &LoadRun) -> String {
    let off = same.iter().find(|row| row.load.clients == 100).map_or(0.0, |row| row.run.micros);
    format!(
        "100 clients, stages measured as `rookery dpm top` has it: {:.3} µs for each reading then, {off:.3} without.",
        measured.micros
    )
}

const COLUMNS: [&str; 11] = [
    "clients",
    "readings/s",
    "front-end requests",
    "found running",
    "copies/reading",
    "µs/reading",
    "bare writes, µs/reading",
    "core used",
    "latency p50, p99, max, ms",
    "a sleeper's lateness p50, p99, max, ms",
    "bytes/write",
];

fn cells(row: &ReportRow) -> [String; COLUMNS.len()] {
    let LoadRun { latency, sleeper, .. } = &row.run;
    [
        row.load.clients.to_string(),
        format!("{:.0}", row.run.readings_per_second),
        row.run.requests.to_string(),
        format!("{:.1} %", row.run.shared),
        format!("{:.2}", row.run.copies),
        format!("{:.3}", row.run.micros),
        format!("{:.3}", row.bare),
        format!("{:.0} %", row.run.busy),
        format!("{}, {}, {}", latency[0], latency[1], latency[2]),
        format!("{:.2}, {:.2}, {:.1}", sleeper[0], sleeper[1], sleeper[2]),
        row.run.bytes_per_write.to_string(),
    ]
}

fn table(rows: &[ReportRow]) -> String {
    let mut text = format!("| {} |\n|{}\n", COLUMNS.join(" | "), " ---: |".repeat(COLUMNS.len()));
    for row in rows {
        let _ = writeln!(text, "| {} |", cells(row).join(" | "));
    }
    text
}

fn html_table(rows: &[ReportRow]) -> String {
    let line = |tag: &str, cells: &[String]| {
        let cells: String = cells.iter().map(|cell| format!("<{tag}>{cell}</{tag}>")).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let head = line("th", &COLUMNS.map(str::to_owned));
    let body: String = rows.iter().map(|row| line("td", &cells(row))).collect();
    format!("<table>{head}{body}</table>")
}

fn values(rows: &[ReportRow], value: impl Fn(&ReportRow) -> f64) -> Vec<f64> {
    rows.iter().map(value).collect()
}

/// Returns a plot of bars, side by side for each number of clients.
fn bars(title: &str, rows: &[ReportRow], series: &[(&str, usize, Vec<f64>)]) -> String {
    let most = series.iter().flat_map(|(_, _, values)| values).fold(f64::MIN_POSITIVE, |most, value| most.max(*value));
    let mut svg = format!("<figure><figcaption>{title}</figcaption><svg viewBox=\"0 0 640 240\" role=\"img\">\n");
    for (place, row) in rows.iter().enumerate() {
        let left = 20 + place * 155;
        for (number, (_, colour, values)) in series.iter().enumerate() {
            let height = 160.0 * values[place] / most;
            let (x, y) = (left + number * 55, 190.0 - height);
            let _ = writeln!(
                svg,
                "<rect class=\"c{colour}\" x=\"{x}\" y=\"{y:.1}\" width=\"48\" height=\"{height:.1}\"/>\
                 <text x=\"{}\" y=\"{:.1}\">{:.2}</text>",
                x + 24,
                y - 4.0,
                values[place]
            );
        }
        let _ = writeln!(svg, "<text x=\"{}\" y=\"210\">{} clients</text>", left + 52, row.load.clients);
    }
    let legend = series.iter().map(|(name, colour, _)| format!("<span class=\"c{colour}\">■</span> {name} "));
    let _ = write!(svg, "</svg><p>{}</p></figure>", legend.collect::<String>());
    svg
}

const ABOUT: &str = "Every client asks for every device fifteen times a second. \"Front-end requests\" counts all requests that were sent since the start, \
\"found running\" the clients' requests for devices that were already being read. \"Copies/reading\" is the number of messages made for one reading of a \
front-end, however many readers it has. µs are CPU time of the service's one thread for each delivered reading; the figure beside it is that of a thread that \
only writes as many bytes at a time to as many sockets. Latencies are from the front-end's clock to the first, the middle and the last client, in whole \
milliseconds; beside them is the delay with which a sleeping thread woke, on the same machine in the same seconds. Service, front-ends and clients share its cores.";

const HEAD: &str = "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>DPM: one reading, many readers</title>
<style>
:root{color-scheme:light dark;--ink:#16202b;--line:#dfe4ea;--page:#f5f7f9;--c0:#0072B2;--c1:#D55E01}
@media(prefers-color-scheme:dark){:root{--ink:#e8edf2;--line:#323c47;--page:#11161c;--c0:#4aa8e8;--c1:#ff9147}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);max-width:72rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;display:block;overflow-x:auto}td,th{border-bottom:1px solid var(--line);padding:.3rem .6rem;text-align:right}
pre{overflow-x:auto}svg{width:100%;max-width:640px}svg text{font:12px system-ui;fill:var(--ink);text-anchor:middle}.c0{fill:var(--c0);color:var(--c0)}.c1{fill:var(--c1);color:var(--c1)}
</style>
";
