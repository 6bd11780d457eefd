//! Assesses the facts about the running server. Every threshold is explained where it is defined.

use std::collections::BTreeMap;
use std::time::Duration;

use rookery_base::date;
use rookery_observe::slow::MOST_EVENTS;
use rookery_observe::{Histogram, Slow, SlowEvent};

use super::facts::DoctorFacts;
use super::finding::{self, DISK, DoctorFact, DoctorFinding, Grade, STORE};
use super::nodes;
use crate::health::ShownBytes;
use crate::samples::WebSample;

/// Returns all findings, the most urgent ones first, in a fixed order within a grade.
pub(crate) fn all(facts: &DoctorFacts) -> Vec<DoctorFinding> {
    let mut findings: Vec<_> = certificates(facts).collect();
    findings.extend(facts.space.map(finding::disk));
    findings.extend(filling(facts));
    findings.push(finding::refusals(&facts.census, total(&facts.recent, |sample| sample.refused)));
    findings.push(away(facts).unwrap_or_else(|| queue(facts)));
    findings.push(store_waits(facts));
    findings.extend(round_trips(facts));
    findings.extend(silent_shards(facts));
    findings.push(shards(facts));
    findings.extend(judge_balance(facts));
    findings.push(deliveries(facts));
    findings.push(readers(facts));
    findings.push(memory(facts));
    findings.extend(facts.process.and_then(finding::descriptors));
    findings.extend(finding::sources(&facts.census.logins));
    findings.push(servers(facts));
    findings.push(slow(facts));
    findings.push(senders(facts));
    findings.push(finding::guesses(facts.failed_logins.iter().copied()));
    findings.extend(facts.reports.map(finding::abuse));
    findings.extend(finding::bucket(facts.bucket, facts.now_ms));
    findings.extend(facts.cluster.iter().flat_map(nodes::nodes));
    findings.extend(facts.restart.iter().map(finding::restart));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.grade));
    findings
}

/// Returns the findings about domains only, in the same order, for those who don't administer the
/// server.
pub(crate) fn of_domains(facts: &DoctorFacts) -> Vec<DoctorFinding> {
    let mut findings: Vec<_> = certificates(facts).collect();
    findings.extend(finding::sources(&facts.census.logins));
    findings.push(finding::guesses(facts.failed_logins.iter().copied()));
    findings.extend(facts.reports.map(finding::abuse));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.grade));
    findings
}

fn certificates(facts: &DoctorFacts) -> impl Iterator<Item = DoctorFinding> {
    facts.certificates.iter().flat_map(|served| {
        served.names.iter().map(|domain| finding::certificate(domain, served.ends_ms(), facts.now_ms))
    })
}

/// Returns a finding if the disk will be full soon at the current rate.
fn filling(facts: &DoctorFacts) -> Option<DoctorFinding> {
    let (first, last) = (facts.rooms_of_disk.first()?, facts.rooms_of_disk.last()?);
    let hours = last.0.saturating_sub(first.0) as f64 / 3_600_000.0;
    let per_hour = first.1.saturating_sub(last.1) as f64 / hours;
    // The change of a single hour may be a copy of files.
    if hours < 1.0 || per_hour < 1024.0 {
        return None;
    }
    let days = last.1 as f64 / per_hour / 24.0;
    let kept: Vec<_> = facts.files.iter().map(|(of, bytes)| format!("{of} {}", ShownBytes(*bytes))).collect();
    let what = format!(
        "The disk has lost {} an hour in the last {hours:.0} hours and will be full in {days:.0} days at this rate; it contains {}.",
        ShownBytes(per_hour as u64),
        kept.join(", "),
    );
    match days < DAYS_LEFT {
        true => {
            let why = "Archives and uploads grow until their bounds are reached, and a full disk loses messages.";
            let remedy = "Lower expire_days or account_bytes in [modules.archive], or quota_bytes in [modules.upload]; or get a larger disk.";
            let fact = DoctorFact::DiskFills(per_hour as u64, days as u64);
            Some(DoctorFinding::wrong(Grade::Warning, DISK, what, why, remedy).of(fact))
        }
        false => Some(DoctorFinding::fine(DISK, what)),
    }
}

/// Returns a finding if the database can't be reached.
fn away(facts: &DoctorFacts) -> Option<DoctorFinding> {
    let since_ms = facts.activity.away_since_ms?;
    let what = format!(
        "The database has been unreachable since {} ({} s); {} operations wait for it, and {} have been given up since the start.",
        date::timestamp(since_ms),
        facts.now_ms.saturating_sub(since_ms) / 1000,
        facts.activity.operations,
        facts.activity.given_up,
    );
    let why =
        "Chat between those who are connected continues; logins, archives and messages to users who are offline fail.";
    let remedy = "Check that its server is running and accepts connections: the log says what happens, and `rookery check` tries each host. \
                  This server keeps trying.";
    let fact = DoctorFact::StoreAway(facts.now_ms.saturating_sub(since_ms));
    Some(DoctorFinding::wrong(Grade::Urgent, STORE, what, why, remedy).of(fact))
}

fn queue(facts: &DoctorFacts) -> DoctorFinding {
    let activity = &facts.activity;
    let (waiting, operations) = (activity.waiting, activity.operations);
    let what = format!(
        "The oldest operation has waited {:.1} s for the database; {operations} are waiting or running, {} of them with data.",
        waiting.as_secs_f64(),
        ShownBytes(activity.bytes as u64),
    );
    if waiting < OLDEST {
        let what =
            format!("{operations} operations are waiting for the database or running there; none has waited long.");
        return DoctorFinding::fine(STORE, what);
    }
    let why = "Logins, archives and acknowledgements wait for it.";
    let remedy = "Check that the database is reachable and its disk healthy: the log shows failures, and `rookery check` measures the latency.";
    let fact = DoctorFact::StoreStuck(waiting.as_millis() as u64);
    DoctorFinding::wrong(Grade::Urgent, STORE, what, why, remedy).of(fact)
}

fn store_waits(facts: &DoctorFacts) -> DoctorFinding {
    let Some(usual) = high(&facts.times.store) else {
        return DoctorFinding::fine(STORE, "Nothing has waited for the database in the last ten minutes.".into());
    };
    let what = format!(
        "99 of 100 waits for the database took at most {} in the last ten minutes, and {} in the worst five seconds of them.",
        milliseconds(usual),
        milliseconds(worst(&facts.recent, usual, |sample| sample.store)),
    );
    if usual < STORE_SECONDS {
        return DoctorFinding::fine(STORE, what);
    }
    let what = match &facts.statement {
        Some(busy) if busy.seconds >= BUSY_STATEMENT => format!(
            "{what} In the last second, {:.1} s went into {} × {}, {} each.",
            busy.seconds,
            busy.calls,
            busy.sql,
            milliseconds(busy.seconds / busy.calls.max(1) as f64),
        ),
        _ => what,
    };
    let [commits, operations] = [Slow::Commit, Slow::Store]
        .map(|kind| facts.slow.iter().filter(|event| event.kind == kind).map(|event| event.lasted).sum::<Duration>());
    let why = "Everything that is stored waits that long: logins, messages to users who are offline, acknowledgements.";
    let remedy = match commits > operations {
        true => "Commits are slow: move the data folder to a faster disk, or look at the database's own disk.",
        false => {
            "`rookery top --by statements` shows where the database's time goes, and `rookery slow` the slowest operations."
        }
    };
    DoctorFinding::wrong(Grade::Warning, STORE, what, why, remedy).of(DoctorFact::StoreSlow(whole_ms(usual)))
}

/// Returns a finding if even the fastest statements take long: the database is far away, or busy.
fn round_trips(facts: &DoctorFacts) -> Option<DoctorFinding> {
    let (statements, fastest) = facts.fastest.filter(|(statements, _)| *statements >= STATEMENTS)?;
    if fastest < ROUND_TRIP {
        return None;
    }
    let fastest = fastest.as_secs_f64();
    let what =
        format!("Even the fastest of {statements} statements took {} in the last second.", milliseconds(fastest));
    let why = "A login runs about seven statements, most of them one after the other.";
    let remedy = "`rookery check` measures a round trip to the database: if it takes as long, the database is far away, otherwise it is busy.";
    let fact = DoctorFact::StoreSlow(whole_ms(fastest));
    Some(DoctorFinding::wrong(Grade::Warning, STORE, what, why, remedy).of(fact))
}

fn silent_shards(facts: &DoctorFacts) -> Option<DoctorFinding> {
    let coverage = facts.census.coverage;
    let silent = coverage.shards - coverage.answered.min(coverage.shards);
    let what = format!("{silent} of {} shards have not answered within a second.", coverage.shards);
    let why = "Their clients wait that long, and their part is missing from the numbers here.";
    let remedy = "`rookery slow` shows what they did as soon as they continue; `rookery profile` shows it meanwhile.";
    let fact = DoctorFact::ShardsSilent(silent, coverage.shards);
    (!coverage.is_whole()).then(|| DoctorFinding::wrong(Grade::Urgent, SHARDS, what, why, remedy).of(fact))
}

fn shards(facts: &DoctorFacts) -> DoctorFinding {
    let busiest = facts.shards.iter().enumerate().max_by(|(_, one), (_, other)| one.cpu.total_cmp(&other.cpu));
    let Some((at, load)) = busiest else { return DoctorFinding::fine(SHARDS, "There are no counts of shards.".into()) };
    let what = format!(
        "The busiest of {} shards is number {at}, with {:.0} % of a core, {:.0} stanzas and {:.0} copies a second.",
        facts.shards.len(),
        100.0 * load.cpu,
        load.stanzas,
        load.copies,
    );
    if load.cpu < BUSY {
        return DoctorFinding::fine(SHARDS, what);
    }
    let room =
        facts.rooms.first().map(|room| format!(" The largest room is {}, with {} sessions.", room.room, room.sessions));
    let remedy = format!(
        "`rookery profile` shows what it is doing.{} More shards help only if the machine has more cores.",
        room.unwrap_or_default()
    );
    let why = "Clients of a busy shard have to wait.";
    DoctorFinding::wrong(Grade::Warning, SHARDS, what, why, &remedy)
}

/// Returns a finding if one shard has far more work than the others.
fn judge_balance(facts: &DoctorFacts) -> Option<DoctorFinding> {
    let loads = facts.shards.iter().map(|load| load.cpu);
    let (most, sum) = (loads.clone().fold(0.0, f64::max), loads.sum::<f64>());
    let others = (sum - most) / (facts.shards.len().checked_sub(1).filter(|others| *others > 0)? as f64);
    if most < LOPSIDED_FROM || most < LOPSIDED * others {
        return None;
    }
    let what = format!("One shard takes {:.0} % of a core, the others {:.0} % each.", 100.0 * most, 100.0 * others);
    let rooms: Vec<_> = facts.rooms.iter().map(|room| format!("{} ({} sessions)", room.room, room.sessions)).collect();
    let remedy = match rooms.is_empty() {
        true => "`rookery top --by shards` shows whether it stays that way.".to_owned(),
        false => {
            format!("The largest rooms are {}: a room stays on one shard for as long as it exists.", rooms.join(", "))
        }
    };
    let why = "One core does work that all could share.";
    Some(DoctorFinding::wrong(Grade::Warning, SHARDS, what, why, &remedy))
}

fn deliveries(facts: &DoctorFacts) -> DoctorFinding {
    let letters = high(&facts.times.mailbox).unwrap_or_default();
    let Some(copies) = high(&facts.times.delivery) else {
        return DoctorFinding::fine(DELIVERY, "No stanza was delivered in the last ten minutes.".into());
    };
    let what = format!(
        "99 of 100 copies were written within {} in the last ten minutes, and {} in the worst five seconds of them; letters between shards took {}.",
        milliseconds(copies),
        milliseconds(worst(&facts.recent, copies, |sample| sample.delivery)),
        milliseconds(letters),
    );
    if copies < DELIVERY_SECONDS && letters < DELIVERY_SECONDS {
        return DoctorFinding::fine(DELIVERY, what);
    }
    let why = "People notice a delay of a fifth of a second.";
    let remedy =
        "`rookery slow` lists the long ticks, and `rookery top --by threads` shows whether the machine has idle cores.";
    let fact = DoctorFact::DeliverySlow(whole_ms(copies.max(letters)));
    DoctorFinding::wrong(Grade::Warning, DELIVERY, what, why, remedy).of(fact)
}

fn readers(facts: &DoctorFacts) -> DoctorFinding {
    let unread = facts.census.unread;
    let overflows = facts.census.counters.overflows;
    let what = format!(
        "{} wait for sessions; {} sessions read slowly, {overflows} have been ended for that since the start.",
        ShownBytes(unread.bytes as u64),
        unread.slow_readers,
    );
    if unread.slow_readers == 0 || unread.bytes < UNREAD_BYTES {
        return DoctorFinding::fine(SESSIONS, what);
    }
    let named = facts.sessions.iter().filter(|session| session.waiting_bytes > 0);
    let named: Vec<_> =
        named.map(|session| format!("{} {}", session.jid, ShownBytes(session.waiting_bytes as u64))).collect();
    let remedy = format!(
        "Most of it waits for {}. `rookery session end JID` ends a session; [limits] bounds them all.",
        named.join(", ")
    );
    let why = "Unread messages take memory, and arrive late.";
    let fact = DoctorFact::Readers(unread.slow_readers as u64, unread.bytes as u64);
    DoctorFinding::wrong(Grade::Warning, SESSIONS, what, why, &remedy).of(fact)
}

fn memory(facts: &DoctorFacts) -> DoctorFinding {
    let Some(process) = facts.process else {
        return DoctorFinding::fine(MEMORY, "The system doesn't report how much memory is used.".into());
    };
    let (sessions, resident) = (facts.census.sessions, process.resident_bytes);
    let per_session = resident / (sessions.max(1) as u64);
    let what = format!("The process has {} of memory for {sessions} sessions.", ShownBytes(resident));
    if sessions < MANY_SESSIONS || per_session < SESSION_BYTES {
        return DoctorFinding::fine(MEMORY, what);
    }
    let what = format!("{what} That is {} per session.", ShownBytes(per_session));
    let why = "An idle session takes a few kilobytes; something else takes the rest.";
    let remedy = format!(
        "{} wait for sessions that don't read (`rookery top --by sessions`); the rest may be rooms, archives that wait for the database, or caches.",
        ShownBytes(facts.census.unread.bytes as u64)
    );
    DoctorFinding::wrong(Grade::Warning, MEMORY, what, why, &remedy).of(DoctorFact::Memory(per_session))
}

fn servers(facts: &DoctorFacts) -> DoctorFinding {
    let mut failing: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for report in facts.servers.iter().filter(|report| !report.trouble.is_empty()) {
        let (waiting, trouble) = failing.entry(&report.remote).or_default();
        (*waiting, *trouble) = (*waiting + report.waiting, &report.trouble);
    }
    let known = facts.servers.iter().map(|report| report.remote.as_str()).collect::<std::collections::BTreeSet<_>>();
    if failing.is_empty() {
        return DoctorFinding::fine(
            SERVERS,
            format!("{} other servers and components are known; none of them is failing.", known.len()),
        );
    }
    let mut worst: Vec<_> = failing.iter().collect();
    worst.sort_by_key(|(_, (waiting, _))| std::cmp::Reverse(*waiting));
    let named =
        worst.iter().take(NAMED).map(|(remote, (waiting, trouble))| format!("{remote} ({waiting} wait: {trouble})"));
    let what = format!(
        "{} of {} other servers can't be reached: {}.",
        failing.len(),
        known.len(),
        named.collect::<Vec<_>>().join("; ")
    );
    let names: Vec<_> = worst.iter().take(NAMED).map(|(remote, _)| **remote).collect();
    let fact = DoctorFact::ServersAway(failing.len() as u64, names.join(", "));
    let why = "Messages for their users are returned as errors.";
    let remedy = "`rookery s2s DOMAIN` shows step by step what happens.";
    DoctorFinding::wrong(Grade::Warning, SERVERS, what, why, remedy).of(fact)
}

fn slow(facts: &DoctorFacts) -> DoctorFinding {
    let kinds = Slow::ALL.map(|kind| (kind, count(&facts.slow, kind)));
    let kinds: Vec<_> =
        kinds.iter().filter(|(_, count)| *count > 0).map(|(kind, count)| format!("{} {count}", kind.name())).collect();
    // Waits are what a slow operation, commit or tick causes, so those are named first.
    let cause = |event: &&SlowEvent| (!matches!(event.kind, Slow::Wait | Slow::Mailbox), event.lasted);
    let Some(longest) = facts.slow.iter().max_by_key(cause) else {
        return DoctorFinding::fine(SLOW, "Nothing was slow in the last ten minutes.".into());
    };
    let whose = if longest.whose.is_empty() { String::new() } else { format!(" for {}", longest.whose) };
    let least = if facts.slow.len() < MOST_EVENTS { "" } else { "At least " };
    let what = format!(
        "{least}{} events were slow in the last ten minutes ({}); the worst is a {} of {} ms{whose}: {}.",
        facts.slow.len(),
        kinds.join(", "),
        longest.kind.name(),
        longest.lasted.as_millis(),
        longest.what,
    );
    if facts.slow.len() < MANY_SLOW {
        return DoctorFinding::fine(SLOW, what);
    }
    let why = "An occasional one does no harm; many have a cause.";
    let fact = DoctorFact::Slow(facts.slow.len() as u64);
    DoctorFinding::wrong(Grade::Warning, SLOW, what, why, "`rookery slow` lists each with its reason.").of(fact)
}

fn senders(facts: &DoctorFacts) -> DoctorFinding {
    let throttled = total(&facts.recent, |sample| sample.throttled);
    let what = format!(
        "Sessions that sent too fast have been slowed down {throttled} times in the last ten minutes, and {} times since the start.",
        facts.census.counters.throttled,
    );
    if throttled < MANY_THROTTLED {
        return DoctorFinding::fine(SESSIONS, what);
    }
    let why = "Their messages are late; it may be a harmless program.";
    let remedy = "`rookery trace JID` shows when a session is slowed down; rate_stanzas and rate_bytes in [limits] are the limits.";
    DoctorFinding::wrong(Grade::Warning, SESSIONS, what, why, remedy).of(DoctorFact::Senders(throttled))
}

fn count(events: &[SlowEvent], kind: Slow) -> usize {
    events.iter().filter(|event| event.kind == kind).count()
}

/// Returns the sum of some counts of the samples.
fn total(samples: &[WebSample], of: impl Fn(&WebSample) -> u64) -> u64 {
    samples.iter().map(of).sum()
}

/// Returns the 99th percentile of times, in seconds; `None` if there are none.
fn high(times: &Histogram) -> Option<f64> {
    times.quantile(0.99).map(|ns| ns as f64 / 1e9)
}

/// Returns the largest of some values of the samples, at least the usual one.
fn worst(samples: &[WebSample], usual: f64, of: impl Fn(&WebSample) -> Option<f64>) -> f64 {
    samples.iter().filter_map(of).fold(usual, f64::max)
}

/// Returns seconds as whole milliseconds.
fn whole_ms(seconds: f64) -> u64 {
    (1000.0 * seconds).round() as u64
}

fn milliseconds(seconds: f64) -> String {
    format!("{:.1} ms", 1000.0 * seconds)
}

const SHARDS: &str = "shards";
const DELIVERY: &str = "delivery";
const SESSIONS: &str = "sessions";
const MEMORY: &str = "memory";
const SERVERS: &str = "other servers";
const SLOW: &str = "slow events";
/// The days until a disk is full below which it is reported.
const DAYS_LEFT: f64 = 14.0;
/// The age of a waiting operation from which the database must be unavailable or overloaded: a
/// batch takes milliseconds.
const OLDEST: Duration = Duration::from_secs(2);
/// The waiting time of operations, in seconds, that is reported: a good disk does many commits in
/// it.
const STORE_SECONDS: f64 = 0.25;
/// The time of the fastest statement that is reported: one in the same building takes less than a
/// millisecond.
const ROUND_TRIP: Duration = Duration::from_millis(5);
/// The number of statements of which the fastest is meaningful.
const STATEMENTS: usize = 3;
/// The seconds that a statement takes in a second from which it is named.
const BUSY_STATEMENT: f64 = 0.1;
/// The share of a core beyond which waiting grows faster than load.
const BUSY: f64 = 0.8;
/// The factor of load over the other shards that isn't a coincidence, and the share of a core below
/// which it doesn't matter.
const LOPSIDED: f64 = 3.0;
const LOPSIDED_FROM: f64 = 0.3;
/// The delay that users notice, in seconds.
const DELIVERY_SECONDS: f64 = 0.2;
/// The waiting bytes of sessions that are reported: more than a few sleeping phones cause.
const UNREAD_BYTES: usize = 16 << 20;
/// The number of sessions below which the process itself takes most of the memory.
const MANY_SESSIONS: usize = 1000;
/// The bytes per session that are too many: ten times those of an idle one with TLS.
const SESSION_BYTES: u64 = 128 << 10;
/// The number of servers that are named.
const NAMED: usize = 5;
/// The number of slow events in ten minutes that isn't a coincidence.
const MANY_SLOW: usize = 20;
/// The number of times in ten minutes that sessions may be throttled before it is reported.
const MANY_THROTTLED: u64 = 20;

#[cfg(test)]
mod tests {
    use rookery_hub::SourceSeen;
    use rookery_observe::Counters;
    use rookery_shard::Coverage;

    use super::*;
    use crate::comparison::ChangedKey;
    use crate::doctor::facts::{BusyStatement, ShardLoad};
    use crate::health::Space;
    use crate::machine::ProcessReadings;

    fn healthy() -> DoctorFacts {
        let gib = 1 << 30;
        let census = rookery_shard::ShardCensus {
            coverage: Coverage { shards: 2, answered: 2, ..Coverage::default() },
            sessions: 5000,
            ..rookery_shard::ShardCensus::default()
        };
        let process = ProcessReadings {
            cpu_seconds: 1.0,
            resident_bytes: 100 << 20,
            virtual_bytes: gib,
            descriptors: 5000,
            most_descriptors: Some(100_000),
        };
        DoctorFacts {
            now_ms: 100 * 3_600_000,
            census,
            shards: vec![ShardLoad { cpu: 0.1, ..ShardLoad::default() }; 2],
            space: Some(Space { free: 50 * gib, total: 100 * gib }),
            process: Some(process),
            reports: Some(0),
            ..DoctorFacts::default()
        }
    }

    fn wrong(facts: &DoctorFacts) -> Vec<String> {
        let findings = all(facts);
        let wrong: Vec<_> = findings.into_iter().filter(|finding| finding.grade > Grade::Fine).collect();
        assert!(wrong.iter().all(|finding| !finding.why.is_empty()), "a remedy comes with its reason: {wrong:?}");
        wrong.into_iter().map(|finding| finding.words()).collect()
    }

    #[test]
    fn nothing_is_wrong_with_a_healthy_server() {
        assert_eq!(wrong(&healthy()), Vec::<String>::new());
        assert!(all(&healthy()).len() > 10, "and numbers say so");
    }

    /// Each case is a problem with a part of its text.
    #[test]
    fn what_is_wrong_is_said_with_its_number() {
        type Change = fn(&mut DoctorFacts);
        let cases: &[(Change, &str)] = &[
            (|facts| facts.activity.waiting = Duration::from_secs(4), "has waited 4.0 s for the database"),
            (
                |facts| {
                    facts.activity.waiting = Duration::from_secs(4);
                    facts.activity.away_since_ms = Some(facts.now_ms - 75_000);
                },
                "has been unreachable since 1970-01-05T03:58:45Z (75 s)",
            ),
            (|facts| facts.times.store.record_many(1 << 29, 9), "took at most 536.9 ms in the last ten minutes"),
            (
                |facts| {
                    facts.times.store.record_many(1 << 29, 9);
                    facts.statement = Some(BusyStatement { sql: "SELECT 1".into(), calls: 10, seconds: 1.5 });
                },
                "In the last second, 1.5 s went into 10 × SELECT 1, 150.0 ms each.",
            ),
            (
                |facts| facts.fastest = Some((9, Duration::from_micros(8600))),
                "Even the fastest of 9 statements took 8.6 ms in the last second.",
            ),
            (
                |facts| facts.times.delivery.record_many(1 << 28, 9),
                "were written within 268.4 ms in the last ten minutes",
            ),
            (|facts| facts.census.coverage.answered = 1, "1 of 2 shards have not answered"),
            (
                |facts| facts.shards = vec![ShardLoad { cpu: 0.9, ..ShardLoad::default() }],
                "number 0, with 90 % of a core",
            ),
            (|facts| facts.shards[1].cpu = 0.5, "One shard takes 50 % of a core, the others 10 % each"),
            (
                |facts| (facts.census.unread.bytes, facts.census.unread.slow_readers) = (64 << 20, 3),
                "64.0 MiB wait for sessions; 3 sessions read slowly",
            ),
            (
                |facts| facts.process.iter_mut().for_each(|it| it.resident_bytes = 4 << 30),
                "That is 838.9 KiB per session",
            ),
            (|facts| facts.process.iter_mut().for_each(|it| it.descriptors = 85_000), "85 %. Raise the limit"),
            (
                |facts| facts.rooms_of_disk = vec![(0, 20 << 30), (10 * 3_600_000, 10 << 30)],
                "has lost 1.0 GiB an hour in the last 10 hours and will be full in 0 days",
            ),
            (
                |facts| facts.recent = vec![WebSample { throttled: 50_000, ..WebSample::default() }; 2],
                "slowed down 100000 times",
            ),
            (
                |facts| facts.recent = vec![WebSample { refused: 3, ..WebSample::default() }; 2],
                "has refused 6 operations in the last ten minutes",
            ),
            (|facts| facts.census.counters.archive_lost = 1, "1 message is missing from archives since the start"),
            (|facts| facts.restart = vec![ChangedKey("shards".into())], "shards has changed: restart"),
            (
                |facts| {
                    let seen = SourceSeen { name: "ldap", is_away: true, ..SourceSeen::default() };
                    facts.census.logins.sources.insert(("a.example".into(), "ldap"), seen);
                },
                "The login source of a.example (ldap) is unreachable",
            ),
        ];
        for (change, words) in cases {
            let mut facts = healthy();
            change(&mut facts);
            let found = wrong(&facts);
            // The page leaves out findings that take a second to gather, and translates all others.
            let spoken = all(&DoctorFacts { shards: Vec::new(), ..facts });
            let mut spoken = spoken.iter().filter(|finding| finding.grade > Grade::Fine);
            assert!(spoken.all(|finding| finding.fact.is_some()), "{words:?}");
            assert!(matches!(&found[..], [one] if one.contains(words)), "{words:?} is not all of {found:#?}");
        }
    }

    /// A wave of logins, for which the database was too slow and whose clients sent too fast, and
    /// then minutes of which each is fine.
    #[test]
    fn a_wave_that_is_over_is_no_longer_wrong() {
        let mut facts = healthy();
        facts.census.counters = Counters { throttled: 100_000, store_errors: 500, ..Counters::default() };
        facts.recent = vec![WebSample::default(); 120];
        (facts.recent[0].store, facts.recent[0].delivery) = (Some(1.0), Some(0.5));
        for times in [&mut facts.times.store, &mut facts.times.delivery] {
            times.record_many(1 << 30, 1000);
            times.record_many(1 << 20, 200_000);
        }
        assert_eq!(wrong(&facts), Vec::<String>::new());
        let findings = all(&facts);
        let is_told = |words: &str| findings.iter().any(|finding| finding.what.contains(words));
        let words = ["100000 times since the start", "500 since the start", "1000.0 ms in the worst five seconds"];
        assert!(words.into_iter().all(is_told), "{findings:?}");
    }

    #[test]
    fn many_slow_events_are_summed_up() {
        let of = |kind, ms| SlowEvent {
            unix_ms: 0,
            kind,
            lasted: Duration::from_millis(ms),
            what: "3 operations, SQLite".into(),
            whose: "connection 0".into(),
            why: String::new(),
        };
        let waits = (200..300).map(|ms| of(Slow::Wait, ms));
        let facts = DoctorFacts { slow: (100..130).map(|ms| of(Slow::Commit, ms)).chain(waits).collect(), ..healthy() };
        let found = wrong(&facts);
        assert!(
            found[0].contains("130 events were slow in the last ten minutes (commit 30, wait 100); the worst is a commit of 129 ms for connection 0"),
            "{found:?}"
        );
    }
}
