//! `rookery top`: the running server's activity, as counts since its start and per second.
//!
//! A page is text with two or three ANSI sequences: there are no keys, windows or colours for which
//! a terminal library would be worth its code. Ctrl+C ends it like any command.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use clap::ValueEnum;
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
            By::Rooms => "rooms",
            By::Modules => "modules",
            By::Servers => "servers",
            By::Stages => "stages",
            By::Statements => "statements",
            By::Nodes => "nodes",
        }
    }
}

/// Shows the running server's activity until it is interrupted.
///
/// # Errors
///
/// [`CommandFailure::Failed`] if none runs, it ends, or standard output can't be written.
pub fn run(source: &ConfigSource, wishes: &TopWishes) -> Result<(), CommandFailure> {
    let server = RunningServer::in_folder(&source.folder)?;
    let path = format!("/top?by={}&limit={}", wishes.by.name(), wishes.limit);
    let is_drawn = std::io::stdout().is_terminal() && !wishes.once && !wishes.shown.json;
    let (mut before, mut since) = (server.get(&path)?, Instant::now());
    loop {
        std::thread::sleep(PERIOD);
        let (now, moment) = (server.get(&path)?, Instant::now());
        let page = TopPage::new(&before, &now, (moment - since).as_secs_f64());
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
}

impl TopPage<'_> {
    fn new<'a>(before: &'a Value, now: &'a Value, seconds: f64) -> TopPage<'a> {
        TopPage { before, now, seconds: seconds.max(0.001) }
    }

    /// Returns by how much the counts of an entry grow per second. An entry that is new has no
    /// rates.
    fn rates(&self, before: &Value, now: &Value) -> Map<String, Value> {
        let counts = now["counts"].as_object().into_iter().flatten();
        let rates = counts.filter_map(|(name, now)| {
            let growth = now.as_f64()? - before["counts"][name].as_f64()?;
            Some((name.clone(), json!(round(growth.max(0.0) / self.seconds))))
        });
        rates.collect()
    }

    /// Returns the rows of the list, each as it was before and is now.
    fn rows(&self) -> impl Iterator<Item = (&Value, &Value)> {
        let old = self.before["rows"].as_array();
        self.now["rows"].as_array().into_iter().flatten().map(move |row| {
            let before = old.and_then(|rows| rows.iter().find(|old| old["name"] == row["name"]));
            (before.unwrap_or(&Value::Null), row)
        })
    }

    /// Returns a share of a core, in percent.
    fn percent(&self, member: &str) -> f64 {
        let of = |answer: &Value| answer[member].as_f64().unwrap_or_default();
        100.0 * (of(self.now) - of(self.before)).max(0.0) / self.seconds
    }

    fn json(&self) -> Value {
        let row = |(before, now): (&Value, &Value)| {
            json!({
                "name": now["name"],
                "values": now["values"],
                "totals": now["counts"],
                "rates": self.rates(before, now),
            })
        };
        json!({
            "time": self.now["time"],
            "seconds": round(self.seconds),
            "by": self.now["by"],
            "cpu_percent": round(self.percent("cpu_seconds")),
            "watching_percent": round(self.percent("watching_seconds")),
            "values": self.now["values"],
            "totals": self.now["counts"],
            "rates": self.rates(self.before, self.now),
            "rows": self.rows().map(row).collect::<Vec<_>>(),
            "partial": self.now["partial"],
        })
    }

    fn text(&self) -> String {
        let (values, totals) = (&self.now["values"], &self.now["counts"]);
        let rates = self.rates(self.before, self.now);
        let value = |name: &str| number(&values[name]);
        let mut text = format!(
            "{}  CPU {:.1} %  memory {} MiB  sessions {}  users {}  connections {}\n\
             unread {} KiB  slow readers {}  wait for the store {}  copies written within {} ms (p50), {} ms (p99), since the start\n\n",
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
        for (before, now) in self.rows() {
            let rates = self.rates(before, now);
            let mut row = vec![now["name"].as_str().unwrap_or_default().to_owned()];
            row.extend(values.iter().map(|name| number(&now["values"][name])));
            for name in &counts {
                row.push(rates.get(name).map_or_else(|| "-".to_owned(), number));
                row.push(number(&now["counts"][name]));
            }
            columns.row(row);
        }
        if columns.is_empty() { format!("{by}: there are none\n") } else { columns.to_string() }
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
    format!("{:.1}", 1000.0 * seconds.as_f64().unwrap_or_default())
}

fn round(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

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
        let page = TopPage::new(&before, &now, 2.0);
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
        assert_eq!(TopPage::new(&before, &now, 1.0).json()["rows"][0]["rates"], json!({}));
    }
}
