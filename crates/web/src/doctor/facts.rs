//! The facts that the doctor uses: the counts now and a second before, samples of the last
//! minutes, and the current maxima.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rookery_hub::World;
use rookery_observe::cluster::ClusterSeen;
use rookery_observe::{Histogram, SlowEvent, slow};
use rookery_operations::sessions::SessionInfo;
use rookery_operations::{Gathered, Outcome, reports, rooms, sessions};
use rookery_shard::{ShardCensus, StreamReport};
use rookery_store::Activity;
use tokio::time::sleep;

use crate::api::top::{statements, threads};
use crate::ask::{OperationAnswer, now_ms};
use crate::comparison::ChangedKey;
use crate::doctor::finding::HOUR_MS;
use crate::health::Space;
use crate::machine::{ProcessReadings, files};
use crate::samples::{SampledTimes, WebSample};
use crate::{ServedCertificate, WebShared};

/// The facts about the server.
#[derive(Debug, Default)]
pub(crate) struct DoctorFacts {
    pub now_ms: u64,
    pub census: ShardCensus,
    pub shards: Vec<ShardLoad>,
    /// The samples of the last ten minutes.
    pub recent: Vec<WebSample>,
    /// The times of the last ten minutes.
    pub times: SampledTimes,
    pub space: Option<Space>,
    /// The free space in the past, oldest first, by time.
    pub rooms_of_disk: Vec<(u64, u64)>,
    /// The bytes of its stored files, by purpose.
    pub files: Vec<(&'static str, u64)>,
    pub process: Option<ProcessReadings>,
    pub activity: Activity,
    pub certificates: Vec<ServedCertificate>,
    pub servers: Vec<StreamReport>,
    /// The largest rooms, by sessions.
    pub rooms: Vec<rooms::Size>,
    /// The sessions with the most waiting bytes.
    pub sessions: Vec<SessionInfo>,
    pub slow: Vec<SlowEvent>,
    /// The statement that has taken most of the database's time in the last second.
    pub statement: Option<BusyStatement>,
    /// The average time of the fastest statement in the last second, among this number of them.
    pub fastest: Option<(usize, Duration)>,
    /// The addresses of the logins that failed within the last hour.
    pub failed_logins: Vec<IpAddr>,
    /// The open reports of abuse, unless the database is away.
    pub reports: Option<usize>,
    /// The failures of the bucket of uploads, and the time of the last, if there is one.
    pub bucket: Option<(u64, u64)>,
    /// The changes that need a restart.
    pub restart: Vec<ChangedKey>,
    /// The cluster, if this process is part of one.
    pub cluster: Option<ClusterSeen>,
}

/// The work of a shard, per second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct ShardLoad {
    /// The share of a core that it uses.
    pub cpu: f64,
    /// Incoming stanzas.
    pub stanzas: f64,
    /// Copies for its sessions.
    pub copies: f64,
}

/// A statement of the database, with the work of a second.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BusyStatement {
    pub sql: String,
    pub calls: u64,
    /// The sum of the times of its calls, in seconds.
    pub seconds: f64,
}

/// Counts of one moment.
#[derive(Default)]
struct CountReading {
    shards: Vec<Option<ShardCensus>>,
    threads: BTreeMap<String, f64>,
    /// The calls of each statement, and the sum of their times in nanoseconds.
    statements: BTreeMap<String, (u64, u64)>,
}

impl CountReading {
    fn take(shared: &WebShared) -> Self {
        let statements = statements(&shared.stores.meta.statement_times());
        let counts = |(sql, times): (String, Histogram)| (sql, (times.count(), times.sum()));
        Self {
            shards: shared.door.counts_of_each(),
            threads: threads(),
            statements: statements.into_iter().map(counts).collect(),
        }
    }
}

/// Gathers the facts, which takes a second.
///
/// # Errors
/// The store or the shards don't answer in time, which is a finding itself.
pub(crate) async fn gather(shared: &Arc<WebShared>) -> Outcome<DoctorFacts> {
    let before = read(shared).await;
    sleep(SECOND).await;
    let after = read(shared).await;
    let census = shared.counts_of_shards().await;
    let facts = present(shared, &shared.settings().domains, census).await?;
    let (statement, fastest) = (busiest_statement(&before, &after), fastest_statement(&before, &after));
    Ok(DoctorFacts { shards: loads(&before, &after), statement, fastest, ..facts })
}

/// Gathers the facts that can be found at once, from given counts, about some domains and the
/// server. The work of the shards isn't among them.
///
/// # Errors
/// As for [`gather`].
pub(crate) async fn present(
    shared: &Arc<WebShared>,
    domains: &[String],
    mut census: ShardCensus,
) -> Outcome<DoctorFacts> {
    let settings = shared.settings();
    census.logins.sources.retain(|(domain, _), _| domains.contains(domain));
    let whose = domains.to_vec();
    let fullest = move |world: &mut World, answer: OperationAnswer<_>| {
        sessions::fullest(world, whose, LARGEST, |_, found| answer.complete(Ok(found)));
    };
    let largest = move |world: &mut World, answer: OperationAnswer<_>| {
        rooms::largest(world, LARGEST, |_, found| answer.complete(Ok(found)));
    };
    let Gathered { items: sessions, .. } = shared.ask(fullest).await?;
    let Gathered { items: rooms, .. } = shared.ask(largest).await?;
    let waiting = open_reports(shared, &settings.domains).await?;
    let now = now_ms();
    let since = now.saturating_sub(MINUTES_MS);
    let an_hour_ago = now.saturating_sub(HOUR_MS);
    let logins = shared.logins.recent(domains, usize::MAX);
    let failed = logins.iter().filter(|login| login.failure.is_some() && login.unix_ms >= an_hour_ago);
    let asked = shared.clone();
    let machine = move || {
        let folder = &asked.instance.folder;
        (asked.door.servers(), ProcessReadings::read(), Space::of(folder).ok(), files(folder))
    };
    let (servers, process, space, files) = tokio::task::spawn_blocking(machine).await.unwrap_or_default();
    Ok(DoctorFacts {
        now_ms: now,
        census,
        shards: Vec::new(),
        recent: shared.samples.all().into_iter().filter(|sample| sample.unix_ms >= since).collect(),
        times: shared.samples.times_since(since),
        space,
        rooms_of_disk: shared.disk.all(),
        files,
        process,
        activity: shared.stores.meta.activity(),
        certificates: settings.certificates.iter().filter_map(|served| of_domains(served, domains)).collect(),
        servers,
        rooms,
        sessions,
        slow: slow().newest().into_iter().filter(|event| event.unix_ms >= since).collect(),
        statement: None,
        fastest: None,
        failed_logins: failed.map(|login| login.address).collect(),
        reports: waiting,
        bucket: shared.files.failures(),
        restart: settings.restart.clone(),
        cluster: rookery_observe::cluster::latest(),
    })
}

/// Counts the open reports of abuse. A database that is away has none to show, and is a finding of
/// its own.
async fn open_reports(shared: &Arc<WebShared>, domains: &[String]) -> Outcome<Option<usize>> {
    let is_away = || shared.stores.meta.activity().away_since_ms.is_some();
    let mut waiting = 0;
    for domain in domains {
        if is_away() {
            return Ok(None);
        }
        match shared.wait(reports::list(&shared.stores, domain)).await {
            Ok(reports) => waiting += reports.len(),
            Err(_) if is_away() => return Ok(None),
            Err(refusal) => return Err(refusal),
        }
    }
    Ok(Some(waiting))
}

async fn read(shared: &Arc<WebShared>) -> CountReading {
    let asked = shared.clone();
    let read = tokio::task::spawn_blocking(move || CountReading::take(&asked)).await;
    // The task fails only if the runtime is stopping.
    read.unwrap_or_default()
}

/// Returns a certificate with those of its names that are among some domains, if there are any.
fn of_domains(served: &ServedCertificate, domains: &[String]) -> Option<ServedCertificate> {
    let names: Vec<_> = served.names.iter().filter(|name| domains.contains(name)).cloned().collect();
    (!names.is_empty()).then(|| ServedCertificate { names, ..served.clone() })
}

/// Returns the work of the shards between two readings, a second apart.
fn loads(before: &CountReading, after: &CountReading) -> Vec<ShardLoad> {
    let seconds = SECOND.as_secs_f64();
    let of_shard = |(at, (before_it, after_it)): (usize, (&Option<ShardCensus>, &Option<ShardCensus>))| {
        let (Some(one), Some(other)) = (before_it, after_it) else { return ShardLoad::default() };
        let name = rookery_shard::thread_name(at);
        let cpu = |reading: &CountReading| reading.threads.get(&name).copied().unwrap_or_default();
        let came = |census: &ShardCensus| {
            let counters = &census.counters;
            counters.messages_in + counters.presence_in + counters.iqs_in
        };
        let rate = |before: u64, after: u64| after.saturating_sub(before) as f64 / seconds;
        ShardLoad {
            cpu: (cpu(after) - cpu(before)).max(0.0) / seconds,
            stanzas: rate(came(one), came(other)),
            copies: rate(one.deliveries, other.deliveries),
        }
    };
    before.shards.iter().zip(&after.shards).enumerate().map(of_shard).collect()
}

/// Returns the statement that has taken the most time between two readings, a second apart.
fn busiest_statement(before: &CountReading, after: &CountReading) -> Option<BusyStatement> {
    let (time, calls, sql) = statement_work(before, after).max_by_key(|(time, ..)| *time)?;
    Some(BusyStatement { sql: sql.to_owned(), calls, seconds: time as f64 / 1e9 })
}

/// Returns the number of statements that were called several times between two readings, and the
/// average time of the fastest.
fn fastest_statement(before: &CountReading, after: &CountReading) -> Option<(usize, Duration)> {
    let often = statement_work(before, after).filter(|(_, calls, _)| *calls >= OFTEN);
    let averages: Vec<_> = often.map(|(time, calls, _)| time / calls).collect();
    Some((averages.len(), Duration::from_nanos(*averages.iter().min()?)))
}

/// Returns the statements that were called between two readings, with their time in nanoseconds and
/// their calls.
fn statement_work<'a>(before: &'a CountReading, after: &'a CountReading) -> impl Iterator<Item = (u64, u64, &'a str)> {
    let work = after.statements.iter().map(|(sql, (calls, time))| {
        let (calls_before, time_before) = before.statements.get(sql).copied().unwrap_or_default();
        (time.saturating_sub(time_before), calls.saturating_sub(calls_before), sql.as_str())
    });
    work.filter(|(_, calls, _)| *calls > 0)
}

/// The calls in a second from which an average says something.
const OFTEN: u64 = 3;
const SECOND: Duration = Duration::from_secs(1);
/// The number of sessions and rooms that are named.
const LARGEST: usize = 3;
/// The period that counts as now, in milliseconds.
pub(crate) const MINUTES_MS: u64 = 10 * 60_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_of_a_shard_is_that_of_its_thread() {
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let (begun, begins) = std::sync::mpsc::channel();
        let builder = std::thread::Builder::new().name(rookery_shard::thread_name(1));
        let work = move || {
            begun.send(()).expect("the test waits");
            wait.recv()
        };
        let shard = builder.spawn(work).expect("a thread");
        // It has its name before it does anything.
        begins.recv().expect("a thread that runs");
        let one = || Some(ShardCensus::default());
        let reading = |threads| CountReading { shards: vec![one(), one()], threads, ..CountReading::default() };
        let before = reading(threads());
        let name = rookery_shard::thread_name(1);
        let mut after = before.threads.clone();
        *after.get_mut(&name).expect("the thread is found by its name") += 0.5;
        let found = loads(&before, &reading(after));
        assert_eq!(found.iter().map(|load| load.cpu).collect::<Vec<_>>(), [0.0, 0.5]);
        drop(go);
        assert!(shard.join().expect("no panic").is_err());
    }

    #[test]
    fn the_busiest_statement_is_that_of_the_last_second() {
        let reading = |statements: [(&str, (u64, u64)); 2]| CountReading {
            statements: statements.map(|(sql, counts)| (sql.to_owned(), counts)).into(),
            ..CountReading::default()
        };
        let before = reading([("old", (1000, 9_000_000_000)), ("new", (1, 1000))]);
        let after = reading([("old", (1001, 9_001_000_000)), ("new", (11, 500_001_000))]);
        let found = busiest_statement(&before, &after);
        assert_eq!(found, Some(BusyStatement { sql: "new".into(), calls: 10, seconds: 0.5 }));
        assert_eq!(busiest_statement(&before, &before), None, "nothing was called");
        let fastest = fastest_statement(&before, &after);
        assert_eq!(fastest, Some((1, Duration::from_millis(50))), "a single call is a coincidence");
    }
}
