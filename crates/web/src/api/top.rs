//! The server's current activity: counts and values, in total or by parts.
//!
//! Nothing is counted for this beyond what the shards count anyway. Other data, such as the largest
//! sessions, is computed on request; a list has a bounded length.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

use rookery_base::date;
use rookery_hub::World;
use rookery_observe::cluster::NodeSeen;
use rookery_observe::{Histogram, SAMPLED_CALLS, StanzaStage};
use rookery_operations::senders::{self, BusySender};
use rookery_operations::sessions::SessionInfo;
use rookery_operations::{Gathered, rooms, sessions};
use rookery_shard::{ShardCensus, StreamReport};
use rookery_store::StatementTimes;
use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value, json};

use super::call::{ApiCall, ApiReply};
use super::field::{ApiField, ApiFieldKind};
use super::problem::Problem;
use crate::WebShared;
use crate::ask::now_ms;
use crate::machine::ProcessReadings;

/// The CPU that these requests have taken since the start, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Watching(AtomicU64);

/// A row of a list: its counters and its current values, each in the order of the columns.
#[derive(Default)]
struct TopRow {
    name: String,
    counts: Vec<(String, Value)>,
    values: Vec<(String, Value)>,
    /// The distribution from which its quantiles follow, if it has any. Anyone who asks twice can
    /// compute those of the time between.
    times: Option<Histogram>,
}

impl TopRow {
    fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    fn count(mut self, name: &str, count: impl Into<Value>) -> Self {
        self.counts.push((name.to_owned(), count.into()));
        self
    }

    fn value(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.values.push((name.to_owned(), value.into()));
        self
    }

    fn times(self, times: &Histogram) -> Self {
        Self { times: Some(times.clone()), ..self }
    }

    /// Returns the numbers of its times up to 64 nanoseconds, up to twice that, and so on.
    fn time_counts(&self) -> Option<&[u64]> {
        self.times.as_ref().map(Histogram::counts)
    }
}

/// Replies with the server as a whole, and the requested list.
pub(super) async fn top(call: ApiCall) -> Result<ApiReply, Problem> {
    call.may_all()?;
    let by = call.query.text("by").unwrap_or("threads").to_owned();
    let most = call.query.number("limit").unwrap_or(USUAL_ROWS) as usize;
    let shared = &call.shared;
    let counted = shared.counts_for_top(by == "shards").await;
    let (rows, is_partial) = match by.as_str() {
        "shards" => (counted.shards.iter().enumerate().map(shard).collect(), false),
        "sessions" => {
            let domains = shared.settings().domains.clone();
            let work = move |world: &mut _, answer: crate::ask::OperationAnswer<_>| {
                sessions::fullest(world, domains, most, |_, found| answer.complete(Ok(found)));
            };
            let Gathered { items, is_partial } = shared.ask(work).await?;
            (items.iter().map(session).collect(), is_partial)
        }
        "senders" => {
            let work = move |world: &mut World, answer: crate::ask::OperationAnswer<_>| {
                senders::busiest(world, most, WATCHED_MS, |_, found| answer.complete(Ok(found)));
            };
            let Gathered { items, is_partial } = shared.ask(work).await?;
            (items.iter().map(sender).collect(), is_partial)
        }
        "rooms" => {
            let work = move |world: &mut _, answer: crate::ask::OperationAnswer<_>| {
                rooms::largest(world, most, |_, found| answer.complete(Ok(found)));
            };
            let Gathered { items, is_partial } = shared.ask(work).await?;
            (items.iter().map(room).collect(), is_partial)
        }
        "modules" => {
            watch_modules(shared);
            (modules(&counted.sum), false)
        }
        "servers" => (servers(&counted.servers), false),
        "stages" => (stages(&counted.sum), false),
        "statements" => (statements(&shared.stores.meta.statement_times()).iter().map(statement).collect(), false),
        "nodes" => (rookery_observe::cluster::latest().iter().flat_map(|seen| &seen.nodes).map(node).collect(), false),
        _ => (busiest(&counted.threads).map(|(name, cpu)| thread(name, cpu)).collect::<Vec<_>>(), false),
    };
    let whole = whole(&counted);
    let named = |row: &TopRow| {
        let names = |columns: &[(String, Value)]| columns.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        json!({ "values": names(&row.values), "counts": names(&row.counts) })
    };
    let columns = rows.first().map(named);
    let rows: Vec<_> = rows.iter().take(most).map(row_json).collect();
    Ok(ApiReply::json(&json!({
        "time": date::timestamp(now_ms()),
        "by": by,
        "cpu_seconds": counted.process.map_or(0.0, |process| process.cpu_seconds),
        "watching_seconds": shared.watching.0.load(Ordering::Relaxed) as f64 / 1e9,
        "counts": object(&whole.counts),
        "values": object(&whole.values),
        "times": whole.time_counts(),
        "columns": columns,
        "rows": rows,
        "partial": is_partial || !counted.sum.coverage.is_whole(),
    })))
}

/// The data for a response.
#[derive(Default)]
struct TopCounted {
    sum: ShardCensus,
    /// The counts of each shard, if requested.
    shards: Vec<Option<ShardCensus>>,
    servers: Vec<StreamReport>,
    process: Option<ProcessReadings>,
    /// Seconds of CPU by thread name.
    threads: BTreeMap<String, f64>,
}

impl WebShared {
    async fn counts_for_top(self: &std::sync::Arc<Self>, by_shard: bool) -> TopCounted {
        let shared = self.clone();
        let read = move || {
            let begun = clock_gettime(ClockId::ThreadCPUTime);
            let counted = TopCounted {
                sum: shared.door.counts(),
                shards: if by_shard { shared.door.counts_of_each() } else { Vec::new() },
                servers: shared.door.servers(),
                process: ProcessReadings::read(),
                threads: threads(),
            };
            let ended = clock_gettime(ClockId::ThreadCPUTime);
            let spent = (ended.tv_sec - begun.tv_sec) * 1_000_000_000 + (ended.tv_nsec - begun.tv_nsec);
            let asked = counted.shards.iter().flatten().chain([&counted.sum]);
            let on_shards: u128 = asked.map(|census| census.coverage.took.as_nanos()).sum();
            let spent = u64::try_from(spent).unwrap_or_default() + u64::try_from(on_shards).unwrap_or_default();
            shared.watching.0.fetch_add(spent, Ordering::Relaxed);
            counted
        };
        tokio::task::spawn_blocking(read).await.unwrap_or_default()
    }
}

/// Returns the threads, those with the most CPU first.
fn busiest(threads: &BTreeMap<String, f64>) -> impl Iterator<Item = (&str, f64)> {
    let mut threads: Vec<_> = threads.iter().map(|(name, cpu)| (name.as_str(), *cpu)).collect();
    threads.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    threads.into_iter()
}

fn whole(counted: &TopCounted) -> TopRow {
    let ShardCensus { counters, logins, unread, .. } = &counted.sum;
    let (store, written) = (counters.store_waits.total(), counters.writes.total());
    let sampled = rookery_observe::SAMPLED;
    let delivery = |share| counters.delivery.quantile(share).map_or(0.0, seconds);
    let mut row = TopRow::new("")
        .count("messages", counters.messages_in)
        .count("presence", counters.presence_in)
        .count("iqs", counters.iqs_in)
        .count("deliveries", counted.sum.deliveries)
        .count("written_bytes", written.sum().saturating_mul(sampled))
        .count("federated", counters.remote_out)
        .count("errors", counters.errors)
        .count("logins_succeeded", logins.tally.succeeded)
        .count("logins_failed", logins.tally.failed)
        .count("logins_refused", logins.tally.refused.iter().sum::<u64>())
        .count("letters", counters.mailbox.count())
        .count("store_waits", store.count())
        .count("store_seconds", seconds(store.sum()))
        .count("store_errors", counters.store_errors)
        .value("sessions", counted.sum.sessions)
        .value("users", counted.sum.users)
        .value("connections", counted.sum.connections)
        .value("waiting_bytes", unread.bytes)
        .value("slow_readers", unread.slow_readers)
        .value("waiting_for_store", counted.sum.tasks)
        .value("delivery_p50_seconds", delivery(0.5))
        .value("delivery_p99_seconds", delivery(0.99))
        .times(&counters.delivery);
    if let Some(process) = counted.process {
        row = row.value("resident_bytes", process.resident_bytes).value("descriptors", process.descriptors);
    }
    row
}

fn shard((number, census): (usize, &Option<ShardCensus>)) -> TopRow {
    let row = TopRow::new(format!("shard {number}"));
    let Some(census) = census else { return row };
    let counters = &census.counters;
    row.count("messages", counters.messages_in)
        .count("presence", counters.presence_in)
        .count("iqs", counters.iqs_in)
        .count("deliveries", census.deliveries)
        .count("letters", counters.mailbox.count())
        .count("letter_seconds", seconds(counters.mailbox.sum()))
        .value("sessions", census.sessions)
        .value("connections", census.connections)
        .value("waiting_bytes", census.unread.bytes)
        .value("waiting_for_store", census.tasks)
}

fn session(info: &SessionInfo) -> TopRow {
    let address = info.address.map_or_else(|| "-".to_owned(), |address| address.ip().to_canonical().to_string());
    TopRow::new(info.jid.as_str()).value("waiting_bytes", info.waiting_bytes).value("address", address)
}

fn sender(sender: &BusySender) -> TopRow {
    TopRow::new(sender.jid.as_str()).count("stanzas", sender.stanzas).count("bytes", sender.bytes)
}

fn room(size: &rooms::Size) -> TopRow {
    TopRow::new(size.room.as_str())
        .value("sessions", size.sessions)
        .value("occupants", size.occupants)
        .value("affiliations", size.affiliations)
}

/// Returns the modules that were called during the observation, or have waited for the store. Those
/// with the most CPU come first, then those with the longest waits.
fn modules(census: &ShardCensus) -> Vec<TopRow> {
    let none = Histogram::default();
    let waits: BTreeMap<_, _> = census.counters.store_waits.iter().collect();
    let called: BTreeMap<_, _> = census.counters.modules.iter().collect();
    let mut names: Vec<&str> = waits.keys().chain(called.keys()).copied().collect();
    names.sort_unstable();
    names.dedup();
    let waits_of = |name: &str| waits.get(name).copied().unwrap_or(&none);
    let calls_of = |name: &str| called.get(name).copied().unwrap_or_default();
    names.sort_by_key(|name| std::cmp::Reverse((calls_of(name).time, waits_of(name).sum())));
    let row = |name: &str| {
        let (calls, waits) = (calls_of(name), waits_of(name));
        let nanoseconds = u64::try_from(calls.time.as_nanos()).unwrap_or(u64::MAX).saturating_mul(SAMPLED_CALLS);
        TopRow::new(name)
            .count("calls", calls.count)
            .count("cpu_seconds", seconds(nanoseconds))
            .count("bytes", calls.bytes.saturating_mul(SAMPLED_CALLS))
            .count("store_waits", waits.count())
            .count("store_seconds", seconds(waits.sum()))
            .value("us_per_call", (nanoseconds / calls.count.max(1)) as f64 / 1000.0)
            .value("store_p99_seconds", waits.quantile(0.99).map_or(0.0, seconds))
            .times(waits)
    };
    names.into_iter().map(row).collect()
}

/// Returns the stages on the path of stanzas, in their order, with their share of the shards' time,
/// and the waits beside them.
fn stages(census: &ShardCensus) -> Vec<TopRow> {
    let path = &census.counters.path;
    let whole: f64 = StanzaStage::ALL.iter().map(|stage| path.times().of(*stage).time.as_secs_f64()).sum();
    let row = |stage: StanzaStage| {
        let taken = path.estimate(stage);
        let own = path.times().of(stage).time.as_secs_f64();
        let none = Histogram::default();
        let times = path.times().calls(stage).unwrap_or(&none);
        TopRow::new(stage.name())
            .count("calls", taken.calls)
            .count("seconds", taken.time.as_secs_f64())
            .value("percent", if whole > 0.0 { 100.0 * own / whole } else { 0.0 })
            .value("us_per_call", 1e6 * taken.time.as_secs_f64() / taken.calls.max(1) as f64)
            .value("p99_us", times.quantile(0.99).map_or(0.0, |ns| ns as f64 / 1000.0))
            .times(times)
    };
    // Waits take no CPU, so they have no share.
    let wait = |name: &str, waits: &Histogram| {
        TopRow::new(name)
            .count("calls", waits.count())
            .count("seconds", seconds(waits.sum()))
            .value("percent", Value::Null)
            .value("us_per_call", waits.sum() as f64 / 1000.0 / waits.count().max(1) as f64)
            .value("p99_us", waits.quantile(0.99).map_or(0.0, |ns| ns as f64 / 1000.0))
            .times(waits)
    };
    let waits =
        [wait("wait: store", &census.counters.store_waits.total()), wait("wait: mailbox", &census.counters.mailbox)];
    StanzaStage::ALL.into_iter().map(row).chain(waits).collect()
}

/// Returns the statements of the store by the part of their text that is shown, those that have
/// taken most time first.
pub(crate) fn statements(all: &[StatementTimes]) -> Vec<(String, Histogram)> {
    let mut by_text: BTreeMap<String, Histogram> = BTreeMap::new();
    for StatementTimes { sql, times } in all {
        *by_text.entry(sql.chars().take(MOST_OF_STATEMENT).collect()).or_default() += times;
    }
    let mut all: Vec<_> = by_text.into_iter().collect();
    all.sort_by_key(|(_, times)| std::cmp::Reverse(times.sum()));
    all
}

fn statement((sql, times): &(String, Histogram)) -> TopRow {
    TopRow::new(sql)
        .value("us_per_call", times.sum() as f64 / 1000.0 / times.count().max(1) as f64)
        .value("p99_us", times.quantile(0.99).map_or(0.0, |ns| ns as f64 / 1000.0))
        .count("calls", times.count())
        .count("seconds", seconds(times.sum()))
        .times(times)
}

/// Returns a node of the cluster with the traffic between it and this one.
fn node(node: &NodeSeen) -> TopRow {
    let NodeSeen { name, is_up, slots, clock_ms, traffic } = node;
    TopRow::new(name)
        .value("up", *is_up)
        .value("slots", *slots)
        .value("waiting_bytes", traffic.waiting_bytes)
        .value("clock_ms", *clock_ms)
        .count("letters_sent", traffic.sent.letters)
        .count("letters_received", traffic.received.letters)
        .count("bytes_sent", traffic.sent.bytes)
        .count("bytes_received", traffic.received.bytes)
        .count("refused", traffic.refused)
}

/// The most characters of a statement that are shown.
const MOST_OF_STATEMENT: usize = 100;

/// Makes the shards tally the calls of modules until the requests stop.
fn watch_modules(shared: &WebShared) {
    for shard in 0..shared.door.shards() {
        shared.door.run_at(shard, |world| world.watch_modules(WATCHED_MS));
    }
}

/// Returns the remote domains, those with the most waiting stanzas first.
fn servers(reports: &[StreamReport]) -> Vec<TopRow> {
    let mut domains: BTreeMap<&str, (usize, usize, &str)> = BTreeMap::new();
    for report in reports {
        let (streams, waiting, trouble) = domains.entry(&report.remote).or_default();
        (*streams, *waiting) = (*streams + 1, *waiting + report.waiting);
        if !report.trouble.is_empty() {
            *trouble = &report.trouble;
        }
    }
    let mut domains: Vec<_> = domains.into_iter().collect();
    domains.sort_by_key(|(_, (_, waiting, _))| std::cmp::Reverse(*waiting));
    let row = |(name, (streams, waiting, trouble)): (&str, (usize, usize, &str))| {
        TopRow::new(name).value("waiting", waiting).value("streams", streams).value("trouble", trouble)
    };
    domains.into_iter().map(row).collect()
}

fn thread(name: &str, cpu_seconds: f64) -> TopRow {
    TopRow::new(name).count("cpu_seconds", cpu_seconds)
}

fn row_json(row: &TopRow) -> Value {
    let counts = object(&row.counts);
    json!({ "name": row.name, "counts": counts, "values": object(&row.values), "times": row.time_counts() })
}

fn object(columns: &[(String, Value)]) -> Map<String, Value> {
    columns.iter().cloned().collect()
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// Returns the seconds of CPU that the threads of this process have taken, added up by name
/// (proc_pid_task(5)).
pub(crate) fn threads() -> BTreeMap<String, f64> {
    let mut threads = BTreeMap::new();
    for task in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        // A thread that ends meanwhile is left out.
        let Ok(stat) = fs::read_to_string(task.path().join("stat")) else { continue };
        if let Some((name, ticks)) = read_stat(&stat) {
            *threads.entry(name.to_owned()).or_default() += ticks as f64 / clock_ticks_per_second() as f64;
        }
    }
    threads
}

/// Returns the name of a thread and its ticks of CPU (proc_pid_stat(5)).
fn read_stat(stat: &str) -> Option<(&str, u64)> {
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
    let mut times = rest.split_whitespace().skip(11).map_while(|field| field.parse::<u64>().ok());
    Some((name, times.next()? + times.next()?))
}

/// The parameters of a request.
pub(super) const FIELDS: &[ApiField] = &[
    ApiField {
        name: "by",
        kind: ApiFieldKind::Choice(&[
            "threads",
            "shards",
            "sessions",
            "senders",
            "rooms",
            "modules",
            "servers",
            "stages",
            "statements",
            "nodes",
        ]),
        is_required: false,
        doc: "The list: threads by CPU, shards, sessions by unread bytes, senders (sessions by the stanzas that they send, counted while somebody watches), rooms by their number of sessions, modules by CPU (measured while somebody watches) and by waits for the store, other servers by waiting stanzas, stages on the path of stanzas in their order, statements of the store by their time, nodes of the cluster with the traffic between them and this one; threads by default.",
    },
    ApiField {
        name: "limit",
        kind: ApiFieldKind::Number { min: 1, max: MOST_ROWS },
        is_required: false,
        doc: "The maximum number of entries in the list; 20 by default.",
    },
];

const USUAL_ROWS: u64 = 20;
/// The time for which calls of modules and stanzas of sessions are tallied after a request, in
/// milliseconds.
const WATCHED_MS: u64 = 5_000;
/// The most rows of a list.
pub(crate) const MOST_ROWS: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_threads_come_first() {
        let threads = [("a", 0.5), ("b", 7.0), ("c", 1.0)].map(|(name, cpu)| (name.to_owned(), cpu));
        let names: Vec<_> = busiest(&BTreeMap::from(threads)).map(|(name, _)| name.to_owned()).collect();
        assert_eq!(names, ["b", "c", "a"]);
    }

    #[test]
    fn a_thread_is_read_whatever_its_name() {
        let tail = (3..=52).map(|number| number.to_string()).collect::<Vec<_>>().join(" ");
        assert_eq!(read_stat(&format!("1 (a) b (c) {tail}")), Some(("a) b (c", 14 + 15)));
        assert_eq!(read_stat("1 (cut) R 4 5"), None);
        assert!(!threads().is_empty());
    }

    #[test]
    fn statements_that_look_the_same_are_one() {
        let of = |sql: String, ms| {
            let mut times = Histogram::default();
            times.record_time(std::time::Duration::from_millis(ms));
            StatementTimes { sql, times }
        };
        let long = "x".repeat(MOST_OF_STATEMENT);
        let all = [of("SELECT 1".into(), 5), of(format!("{long}y"), 1), of(format!("{long}z"), 7)];
        let found: Vec<_> = statements(&all).into_iter().map(|(sql, times)| (sql, times.count())).collect();
        assert_eq!(found, [(long, 2), ("SELECT 1".into(), 1)]);
    }
}
