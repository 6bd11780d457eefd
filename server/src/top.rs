//! `rookery top`: the running server's activity, as counts since its start and per second.
//!
//! A page is text with two or three ANSI sequences: there are no keys, windows or colours for which
//! a terminal library would be worth its code. Ctrl+C ends it like any command.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use rookery_observe::Histogram;
use serde_json::{Map, Value, json};

use crate::arguments::ShownAs;
use crate::columns::{self, Columns};
use crate::control::RunningServer;
use crate::failure::CommandFailure;
use crate::loaded::ConfigSource;

/// The options of `rookery top`.
#[derive(Debug, clap::Args)]
pub struct TopWishes {
    /// The list below the overview
    #[arg(long, value_enum, default_value = "threads")]
    by: By,
    /// Maximum number of lines in the list
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=100))]
    limit: u64,
    /// Print one page, with the rates of one second, and exit
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    shown: ShownAs,
}

/// The parts of the server that are listed.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum By {
    /// Threads, by their CPU time
    Threads,
    /// Shards, the threads that serve clients
    Shards,
    /// Sessions, by the bytes that they haven't read yet
    Sessions,
    /// Sessions, by the stanzas that they send while somebody watches
    Senders,
    /// Rooms, by the sessions in them
    Rooms,
    /// Modules, by the CPU time that they take while somebody watches, and their waits for the
    /// database
    Modules,
    /// Other servers and components, by what is queued for them
    Servers,
    /// The stages of a stanza's way, in order: where the shards spend their time
    Stages,
    /// Statements of the database, by the time that they have taken
    Statements,
    /// Nodes of the cluster, with the traffic between them and this one
    Nodes,
}

impl By {
    fn name(self) -> &'static str {
        match self {
            By::Threads => "threads",
            By::Shards => "shards",
            By::Sessions => "sessions",
            By::Senders => "senders",
            By::Rooms => "rooms",
            By::Modules => "modules",
            By::Servers => "servers",
            By::Stages => "stages",
            By::Statements => "statements",
            By::Nodes => "nodes",
        }
    }

    fn is_sorted_by_rate(self) -> bool {
        matches!(self, By::Threads | By::Senders | By::Modules | By::Statements)
    }
}

/// Shows the running server's activity until it is interrupted.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if none runs, it ends, or standard output can't be written.
pub fn run(source: &ConfigSource, wishes: &TopWishes) -> Result<(), CommandFailure> {
    let server = RunningServer::in_folder(&source.folder)?;
    // The server sorts by what it has counted since its start, and the page by the last second.
    let limit = if wishes.by.is_sorted_by_rate() { MOST_ROWS } else { wishes.limit };
    let path = format!("/top?by={}&limit={limit}", wishes.by.name());
    let is_drawn = std::io::stdout().is_terminal() && !wishes.once && !wishes.shown.json;
    let (mut before, mut since) = (server.get(&path)?, Instant::now());
    loop {
        std::thread::sleep(PERIOD);
        let (now, moment) = (server.get(&path)?, Instant::now());
        let page = TopPage::new(&before, &now, (moment - since).as_secs_f64(), wishes.by, wishes.limit);
        let text = match (wishes.shown.json, is_drawn) {
            (true, _) => page.json().to_string(),
            // Moves the cursor to the upper left and clears the screen.
            (false, true) => format!("\x1b[H\x1b[J{}", page.text()),
            (false, false) => page.text(),
        };
        if !columns::line(&text)? || wishes.once {
            return Ok(());
        }
        (before, since) = (now, moment);
    }
}

/// Two responses of the server, and the seconds between them.
struct TopPage<'a> {
    before: &'a Value,
    now: &'a Value,
    seconds: f64,
    by: By,
    limit: usize,
}

/// A row of the list.
struct TopRow<'a> {
    name: &'a str,
    /// The values, of which averages and shares are those of the time between the responses.
    values: Map<String, Value>,
    totals: &'a Value,
    rates: Map<String, Value>,
    /// The distribution of its times between the responses; `None` if it isn't known.
    times: Option<Histogram>,
}

impl TopRow<'_> {
    /// Returns the rate of the first of these counts that the row has.
    fn find_rate(&self, names: &[&str]) -> Option<f64> {
        names.iter().find_map(|name| self.rates.get(*name)?.as_f64())
    }
}

impl TopPage<'_> {
    fn new<'a>(before: &'a Value, now: &'a Value, seconds: f64, by: By, limit: u64) -> TopPage<'a> {
        TopPage { before, now, seconds: seconds.max(0.001), by, limit: limit as usize }
    }

    /// Returns by how much the counts of an entry grow per second. An entry that is new has no
    /// rates.
    fn rates(&self, before: &Value, now: &Value) -> Map<String, Value> {
        let counts = now["counts"].as_object().into_iter().flatten();
        let rates = counts.filter_map(|(name, now)| {
            let growth = now.as_f64()? - before["counts"][name].as_f64()?;
            Some((name.clone(), json!(growth.max(0.0) / self.seconds)))
        });
        rates.collect()
    }

    /// Returns the rows of the list. Where they have times, what took most of them since the other
    /// response comes first: what became slow an hour ago isn't the most since the start.
    fn rows(&self) -> Vec<TopRow<'_>> {
        let old = self.before["rows"].as_array();
        // Modules and senders are counted from the first page on, if they weren't cut off there.
        let counted = ["calls", "cpu_seconds", "store_waits", "store_seconds", "stanzas", "bytes"];
        let counts: Map<_, _> = counted.map(|name| (name.to_owned(), json!(0))).into_iter().collect();
        let none = json!({ "counts": counts, "times": [] });
        let is_whole = old.is_some_and(|rows| rows.len() < MOST_ROWS as usize);
        let unseen = if is_whole && matches!(self.by, By::Modules | By::Senders) { &none } else { &Value::Null };
        let row = |now| {
            let now: &Value = now;
            let before = old.and_then(|rows| rows.iter().find(|old| old["name"] == now["name"]));
            let rates = self.rates(before.unwrap_or(unseen), now);
            let values = now["values"].as_object().cloned().unwrap_or_default();
            let times = times_since(before.unwrap_or(unseen), now);
            TopRow { name: now["name"].as_str().unwrap_or_default(), values, totals: &now["counts"], rates, times }
        };
        let mut rows: Vec<_> = self.now["rows"].as_array().into_iter().flatten().map(row).collect();
        let has_share = |row: &&TopRow<'_>| row.values.get("percent").is_some_and(|share| !share.is_null());
        let whole: f64 = rows.iter().filter(has_share).filter_map(|row| row.find_rate(OWN_TIMES)).sum();
        for row in &mut rows {
            let (taken, calls) = (row.find_rate(OWN_TIMES), row.find_rate(&["calls"]));
            let per_call = taken.zip(calls).filter(|(_, calls)| *calls > 0.0).map(|(taken, calls)| 1e6 * taken / calls);
            let share = taken.filter(|_| whole > 0.0).map(|taken| 100.0 * taken / whole);
            for (name, current) in [("us_per_call", per_call), ("percent", share)] {
                row.values
                    .get_mut(name)
                    .filter(|value| !value.is_null())
                    .into_iter()
                    .for_each(|value| *value = json!(current));
            }
            set_quantiles(&mut row.values, row.times.as_ref());
        }
        if self.by.is_sorted_by_rate() {
            // Less than a hundredth of a core isn't why something waits.
            let key = |row: &TopRow<'_>| {
                let [own, waits] =
                    [OWN_TIMES, &["store_seconds", "stanzas"]].map(|names| row.find_rate(names).unwrap_or_default());
                ((100.0 * own).round(), waits, own)
            };
            rows.sort_by(|one, other| key(other).partial_cmp(&key(one)).unwrap_or(std::cmp::Ordering::Equal));
            rows.truncate(self.limit);
        }
        rows
    }

    /// Returns the values of the server as a whole, with the quantiles of the time between the
    /// responses.
    fn values(&self) -> Map<String, Value> {
        let mut values = self.now["values"].as_object().cloned().unwrap_or_default();
        set_quantiles(&mut values, times_since(self.before, self.now).as_ref());
        values
    }

    /// Returns a share of a core, in percent.
    fn percent(&self, member: &str) -> f64 {
        let of = |answer: &Value| answer[member].as_f64().unwrap_or_default();
        100.0 * (of(self.now) - of(self.before)).max(0.0) / self.seconds
    }

    fn json(&self) -> Value {
        let row = |row: TopRow<'_>| {
            json!({
                "name": row.name,
                "values": round_all(&row.values),
                "totals": row.totals,
                "rates": round_all(&row.rates),
            })
        };
        json!({
            "time": self.now["time"],
            "seconds": round(self.seconds),
            "by": self.now["by"],
            "cpu_percent": round(self.percent("cpu_seconds")),
            "watching_percent": round(self.percent("watching_seconds")),
            "values": self.values(),
            "totals": self.now["counts"],
            "rates": round_all(&self.rates(self.before, self.now)),
            "rows": self.rows().into_iter().map(row).collect::<Vec<_>>(),
            "partial": self.now["partial"],
        })
    }

    fn text(&self) -> String {
        let (values, totals) = (Value::Object(self.values()), &self.now["counts"]);
        let rates = self.rates(self.before, self.now);
        let value = |name: &str| number(&values[name]);
        let mut text = format!(
            "{}  CPU {:.1} %  memory {} MiB  sessions {}  users {}  connections {}\n\
             unread {} KiB  slow readers {}  wait for the store {}  copies written within {} ms (p50), {} ms (p99)\n\n",
            self.now["time"].as_str().unwrap_or_default(),
            self.percent("cpu_seconds"),
            values["resident_bytes"].as_u64().unwrap_or_default() / (1024 * 1024),
            value("sessions"),
            value("users"),
            value("connections"),
            values["waiting_bytes"].as_u64().unwrap_or_default() / 1024,
            value("slow_readers"),
            value("waiting_for_store"),
            milliseconds(&values["delivery_p50_seconds"]),
            milliseconds(&values["delivery_p99_seconds"]),
        );
        let mut whole = Columns::new(&["", "PER SECOND", "SINCE THE START"]);
        for name in SHOWN {
            let rate = rates.get(*name).map_or_else(|| "-".to_owned(), number);
            whole.row(vec![name.replace('_', " "), rate, number(&totals[*name])]);
        }
        text += &whole.to_string();
        text += &format!("\n{}", self.list());
        if self.now["partial"] == true {
            text += "a part of the server hasn't answered in time: what it has is missing\n";
        }
        text + &format!("watching uses {:.2} % of a core", self.percent("watching_seconds"))
    }

    fn list(&self) -> String {
        let by = self.now["by"].as_str().unwrap_or_default();
        let names = |member: &str| -> Vec<String> {
            let columns = self.now["columns"][member].as_array().into_iter().flatten();
            columns.filter_map(|name| name.as_str().map(str::to_owned)).collect()
        };
        let (counts, values) = (names("counts"), names("values"));
        let head = |name: &String| name.replace('_', " ").to_uppercase();
        let mut heads = vec![by.to_uppercase()];
        heads.extend(values.iter().map(head));
        heads.extend(counts.iter().flat_map(|name| [format!("{}/S", head(name)), format!("{} IN ALL", head(name))]));
        let mut columns = Columns::new(&heads.iter().map(String::as_str).collect::<Vec<_>>());
        for TopRow { name, values: current, totals, rates, .. } in self.rows() {
            let shown = |value: Option<&Value>| value.map_or_else(|| "-".to_owned(), number);
            let mut row = vec![name.to_owned()];
            row.extend(values.iter().map(|name| shown(current.get(name))));
            for name in &counts {
                row.extend([shown(rates.get(name)), number(&totals[name])]);
            }
            columns.row(row);
        }
        if columns.is_empty() { format!("{by}: there are none\n") } else { columns.to_string() }
    }
}

/// Returns the distribution of the times that an entry had between two responses; `None` if one of
/// them has none.
fn times_since(before: &Value, now: &Value) -> Option<Histogram> {
    let read = |entry: &Value| {
        Some(Histogram::of_counts(entry["times"].as_array()?.iter().map(|count| count.as_u64().unwrap_or_default())))
    };
    Some(read(now)?.since(&read(before)?))
}

/// Replaces quantiles since the start by those of a distribution. There are none without times.
fn set_quantiles(values: &mut Map<String, Value>, times: Option<&Histogram>) {
    for (name, value) in values {
        for (quantile, share) in [("p50", 0.5), ("p99", 0.99)] {
            if name.contains(quantile) {
                let unit = if name.ends_with("_us") { 1e3 } else { 1e9 };
                let found = times.and_then(|times| times.quantile(share));
                *value = json!(found.map(|nanoseconds| nanoseconds as f64 / unit));
            }
        }
    }
}

/// Formats a number for people, or returns a text.
fn number(value: &Value) -> String {
    match value {
        Value::Number(number) if number.is_f64() => {
            let number = number.as_f64().unwrap_or_default();
            if number.fract() == 0.0 { format!("{number:.0}") } else { format!("{number:.3}") }
        }
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    }
}

fn milliseconds(seconds: &Value) -> String {
    seconds.as_f64().map_or_else(|| "-".to_owned(), |seconds| format!("{:.1}", 1000.0 * seconds))
}

fn round(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

/// Returns numbers with three decimals.
fn round_all(numbers: &Map<String, Value>) -> Map<String, Value> {
    let number = |value: &Value| match value.as_f64().filter(|_| value.is_f64()) {
        Some(number) => json!(round(number)),
        None => value.clone(),
    };
    numbers.iter().map(|(name, value)| (name.clone(), number(value))).collect()
}

/// The counts of the seconds that a row's own work takes, of which it has one at most.
const OWN_TIMES: &[&str] = &["seconds", "cpu_seconds"];
/// The most rows that the server sends.
const MOST_ROWS: u64 = 100;
/// The time between two pages.
const PERIOD: Duration = Duration::from_secs(1);
/// The counts of the overview.
const SHOWN: &[&str] = &[
    "messages",
    "presence",
    "iqs",
    "deliveries",
    "written_bytes",
    "federated",
    "letters",
    "store_waits",
    "store_seconds",
    "store_errors",
    "errors",
    "logins_succeeded",
    "logins_failed",
    "logins_refused",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(messages: u64, of_shard: u64) -> Value {
        json!({
            "time": "2026-11-24T05:00:00Z",
            "by": "shards",
            "cpu_seconds": messages as f64 / 1000.0,
            "watching_seconds": 0.0,
            "counts": { "messages": messages },
            "values": { "sessions": 2 },
            "columns": { "counts": ["messages"], "values": ["sessions"] },
            "rows": [{ "name": "shard 0", "counts": { "messages": of_shard }, "values": { "sessions": 2 } }],
            "partial": false,
        })
    }

    #[test]
    fn rates_are_differences_by_time() {
        let (before, now) = (answer(100, 10), answer(300, 60));
        let page = TopPage::new(&before, &now, 2.0, By::Shards, 20);
        let json = page.json();
        assert_eq!((json["rates"]["messages"].as_f64(), json["totals"]["messages"].as_u64()), (Some(100.0), Some(300)));
        assert_eq!(json["rows"][0]["rates"]["messages"].as_f64(), Some(25.0));
        assert_eq!(json["cpu_percent"].as_f64(), Some(10.0));
        let text = page.text();
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(lines.contains(&vec!["messages", "100", "300"]), "{text}");
        assert!(lines.contains(&vec!["shard", "0", "2", "25", "60"]), "{text}");
        assert!(text.ends_with("watching uses 0.00 % of a core"), "{text}");
    }

    #[test]
    fn what_was_not_there_before_has_no_rate() {
        let (mut before, now) = (answer(100, 10), answer(300, 60));
        before["rows"] = json!([]);
        assert_eq!(TopPage::new(&before, &now, 1.0, By::Shards, 20).json()["rows"][0]["rates"], json!({}));
    }

    /// Statements with their calls and seconds since the start.
    fn statements(rows: &[(&str, u64, f64)]) -> Value {
        let row = |(name, calls, seconds): &(&str, u64, f64)| json!({ "name": name, "counts": { "calls": calls, "seconds": seconds }, "values": { "us_per_call": 7.0, "p99_us": 8.0 } });
        json!({
            "by": "statements",
            "columns": { "counts": ["calls", "seconds"], "values": ["us_per_call", "p99_us"] },
            "rows": rows.iter().map(row).collect::<Vec<_>>(),
        })
    }

    #[test]
    fn what_takes_the_time_now_comes_first_with_its_present_average() {
        let before = statements(&[("old", 1_000_000, 5000.0), ("silent", 10, 9.0), ("new", 10, 0.1)]);
        let now = statements(&[("old", 1_000_100, 5000.1), ("silent", 10, 9.0), ("new", 20, 2.1)]);
        let page = TopPage::new(&before, &now, 1.0, By::Statements, 2);
        let rows = page.json()["rows"].clone();
        let row = |at: usize| (rows[at]["name"].as_str(), rows[at]["values"]["us_per_call"].as_f64());
        assert_eq!((row(0), row(1)), ((Some("new"), Some(200_000.0)), (Some("old"), Some(1000.0))));
        assert_eq!(rows.as_array().map(Vec::len), Some(2), "as many as were wished for");
        let page = TopPage::new(&before, &now, 1.0, By::Statements, 3);
        assert!(page.json()["rows"][2]["values"]["us_per_call"].is_null(), "nothing was called");
    }

    /// A wave of logins in the morning mustn't be shown all day.
    #[test]
    fn quantiles_are_those_of_the_time_between_two_pages() {
        // The bounds are 64 ns and its doublings: the tenth is 32.8 µs, the twentieth 33.6 ms.
        let times = |fast: u64, slow: u64| {
            let mut counts = [0; 20];
            (counts[9], counts[19]) = (fast, slow);
            let row = json!({
                "name": "SELECT 1", "counts": { "calls": fast + slow, "seconds": 1.0 }, "values": { "p99_us": 33_554.4 }, "times": counts,
            });
            json!({ "rows": [row], "values": { "delivery_p99_seconds": 0.0335 }, "times": counts, "columns": { "counts": [], "values": ["p99_us"] } })
        };
        let (wave, later) = (times(100, 900), times(300, 900));
        let page = TopPage::new(&wave, &later, 1.0, By::Statements, 1);
        let json = page.json();
        assert_eq!(json["rows"][0]["values"]["p99_us"], 32.768);
        assert_eq!(page.values()["delivery_p99_seconds"], 0.000032768);
        assert!(page.text().contains("P99 US") && !page.text().contains("IN ALL"), "{}", page.text());
        let page = TopPage::new(&later, &later, 1.0, By::Statements, 1);
        assert!(page.json()["rows"][0]["values"]["p99_us"].is_null(), "there were none");
        assert!(page.text().contains("- ms (p99)"), "{}", page.text());
    }

    #[test]
    fn shares_are_those_of_the_last_second_and_waits_have_none() {
        let rows = |read: f64, write: f64| {
            let row = |name: &str, seconds: f64, percent: Value| json!({ "name": name, "counts": { "seconds": seconds }, "values": { "percent": percent } });
            json!({ "rows": [row("read", read, json!(90.0)), row("write", write, json!(10.0)), row("wait: store", 9.0 + read, Value::Null)] })
        };
        let (before, now) = (rows(9.0, 1.0), rows(10.0, 4.0));
        let json = TopPage::new(&before, &now, 1.0, By::Stages, 20).json();
        let shares: Vec<_> = (0..3).map(|at| json["rows"][at]["values"]["percent"].as_f64()).collect();
        assert_eq!(shares, [Some(25.0), Some(75.0), None]);
    }

    #[test]
    fn modules_are_counted_from_the_first_page_on() {
        let row = json!({ "name": "rooms", "counts": { "calls": 5, "cpu_seconds": 0.5, "store_waits": 0, "store_seconds": 0 }, "values": { "us_per_call": 1.0 } });
        let page = (json!({ "rows": [] }), json!({ "rows": [row] }));
        let json = TopPage::new(&page.0, &page.1, 1.0, By::Modules, 20).json();
        assert_eq!(
            (json["rows"][0]["rates"]["calls"].as_f64(), json["rows"][0]["values"]["us_per_call"].as_f64()),
            (Some(5.0), Some(100_000.0))
        );
    }
}
