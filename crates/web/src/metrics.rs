//! `/metrics`: the server's counters, for Prometheus (text format 0.0.4).
//!
//! Shards count for themselves, in plain numbers; a scrape asks each for a copy. Names and units
//! follow the conventions: `rookery_` in front, the unit in the name, `_total` at the end of
//! counters. `page` writes the format, `known` has the counters that exist before the first event,
//! `stages` those of times by stage, and `cluster` those of a node.

mod cluster;
mod known;
mod page;
mod stages;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::{Response, StatusCode};
use rookery_base::Transport;
use rookery_base::lock::lock;
use rookery_hub::SourceSeen;
use rookery_observe::{Histogram, MulticastStage, ReloadSeen, reloads, slow};
use rookery_operations::reports;
use rookery_shard::{AttemptCause, Carrier, ShardCensus};
use rookery_store::Activity;

use crate::WebShared;
use crate::events::post::PostCounts;
use crate::health::Space;
use crate::machine::{self, MachineReadings, ProcessReadings};
use crate::reply::{Body, reply, text};
use page::{BYTES, COUNTER, GAUGE, HISTOGRAM, MetricPage, SECONDS, label};

/// The counts of the front itself.
#[derive(Debug, Default)]
pub struct WebCounts {
    /// Connections since the start.
    pub connections: AtomicU64,
    /// Open connections.
    pub open: AtomicU64,
    /// Connections and requests that were refused for lack of a place.
    pub refused: AtomicU64,
    /// Connections that have lost their place to another address.
    pub displaced: AtomicU64,
    /// Connections that ended because the peer was silent or didn't read for too long.
    pub stalled: AtomicU64,
    /// Requests since the start.
    pub requests: AtomicU64,
    /// Responses since the start, by their status.
    pub responses: Mutex<BTreeMap<u16, u64>>,
    /// The durations of TLS handshakes, in nanoseconds.
    pub handshakes: Mutex<Histogram>,
}

/// Replies to a scrape.
pub(crate) async fn answer(shared: Arc<WebShared>) -> Response<Body> {
    let (accounts, reports) = (accounts(&shared).await, waiting_reports(&shared).await);
    let asked = shared.clone();
    let read = move || {
        let machine = MachineReadings {
            process: ProcessReadings::read(),
            started_ms: asked.instance.started_ms,
            space: Space::of(&asked.instance.folder).ok(),
            files: machine::files(&asked.instance.folder),
            accounts,
            reports,
            certificates: asked.settings().certificates.clone(),
            bucket_failures: asked.files.failures().map_or(0, |(failures, _)| failures),
            posted: asked.posted.clone(),
            traced: asked.traced.clone(),
        };
        (asked.door.census(), machine)
    };
    let figures = of_readings(&shared).await;
    match tokio::task::spawn_blocking(read).await {
        Ok((census, machine)) => reply(
            StatusCode::OK,
            "text/plain; version=0.0.4; charset=utf-8",
            page(&census, &shared.counts, &shared.stores.meta.activity(), &machine) + &figures,
        ),
        Err(_) => text(StatusCode::SERVICE_UNAVAILABLE, "stopping"),
    }
}

/// Returns the families of what reads devices; none if nothing does, or it doesn't answer in time.
async fn of_readings(shared: &WebShared) -> String {
    let Some(readings) = &shared.readings else { return String::new() };
    let figures = tokio::time::timeout(PATIENCE, readings.figures()).await;
    figures.ok().and_then(Result::ok).unwrap_or_default()
}

/// Returns the number of accounts by domain, without domains for which the store doesn't answer.
async fn accounts(shared: &WebShared) -> Vec<(String, u64)> {
    let settings = shared.settings();
    // All questions are queued before the first answer is awaited.
    let asked = settings.domains.iter().map(|domain| (domain.clone(), shared.stores.accounts.count(Some(domain))));
    let mut counted = Vec::new();
    for (domain, count) in asked.collect::<Vec<_>>() {
        if let Ok(count) = shared.wait(count).await {
            counted.push((domain, count));
        }
    }
    counted
}

/// Returns the number of waiting reports of abuse by domain, without domains for which the store
/// doesn't answer.
async fn waiting_reports(shared: &WebShared) -> Vec<(String, u64)> {
    let settings = shared.settings();
    let asked = settings.domains.iter().map(|domain| (domain.clone(), reports::list(&shared.stores, domain)));
    let mut counted = Vec::new();
    for (domain, waiting) in asked.collect::<Vec<_>>() {
        if let Ok(waiting) = shared.wait(waiting).await {
            counted.push((domain, waiting.len() as u64));
        }
    }
    counted
}

/// Returns the whole page.
pub fn page(census: &ShardCensus, counts: &WebCounts, activity: &Activity, machine: &MachineReadings) -> String {
    let mut page = MetricPage::default();
    page.one("rookery_build_info", GAUGE, "The running version.", &format!("{{version=\"{VERSION}\"}}"), 1);
    process(&mut page, machine);
    write_reload(&mut page, reloads());
    write_stored(&mut page, machine);
    shards(&mut page, census);
    store(&mut page, activity);
    sessions(&mut page, census);
    logins(&mut page, census);
    stanzas(&mut page, census);
    servers(&mut page, census);
    stages::stanzas(&mut page, census);
    stages::multicasts(&mut page, census);
    stages::traces(&mut page, &machine.traced);
    times(&mut page, census, counts);
    slow_events(&mut page);
    for (name, read) in census.details.iter().flat_map(|details| &details.gauges) {
        page.one(name, GAUGE, read.help, "", read.count);
    }
    pushes(&mut page, census);
    if let Some(seen) = rookery_observe::cluster::latest() {
        cluster::write(&mut page, &seen);
    }
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    page.one("rookery_web_connections", GAUGE, "Open connections of the web front.", "", of(&counts.open));
    page.one("rookery_web_connections_total", COUNTER, "Connections to the web front.", "", of(&counts.connections));
    let help = "Connections and requests to the web front that were refused for lack of room.";
    page.one("rookery_web_refused_total", COUNTER, help, "", of(&counts.refused));
    let help =
        "Connections to the web front that ended in favour of an address with fewer, when all places were taken.";
    page.one("rookery_web_displaced_total", COUNTER, help, "", of(&counts.displaced));
    let help = "Connections to the web front whose peers were silent, or didn't read, for too long.";
    page.one("rookery_web_stalled_total", COUNTER, help, "", of(&counts.stalled));
    page.one("rookery_web_requests_total", COUNTER, "Requests to the web front.", "", of(&counts.requests));
    let name = "rookery_web_responses_total";
    page.head(name, COUNTER, "Responses of the web front, by status, except those that waited in BOSH.");
    for (status, count) in known::responses(&lock(&counts.responses)) {
        page.line(name, &format!("{{code=\"{status}\"}}"), count);
    }
    page.0
}

/// Writes the metrics of any process, under their usual names.
fn process(page: &mut MetricPage, machine: &MachineReadings) {
    let started = machine.started_ms as f64 / 1000.0;
    page.one("process_start_time_seconds", GAUGE, "The time of the start, in seconds since 1970.", "", started);
    let Some(process) = machine.process else { return };
    page.one("process_cpu_seconds_total", COUNTER, "Seconds of CPU time used.", "", process.cpu_seconds);
    page.one("process_resident_memory_bytes", GAUGE, "Memory in use.", "", process.resident_bytes);
    page.one("process_virtual_memory_bytes", GAUGE, "Reserved address space.", "", process.virtual_bytes);
    page.one("process_open_fds", GAUGE, "Open file descriptors.", "", process.descriptors);
    let most = process.most_descriptors.map_or_else(|| "+Inf".to_owned(), |most| most.to_string());
    page.one("process_max_fds", GAUGE, "The limit of open file descriptors.", "", most);
}

/// Writes whether the last attempt to load the configuration succeeded, and the time since which
/// the present one is in force.
fn write_reload(page: &mut MetricPage, seen: &ReloadSeen) {
    let name = "rookery_config_last_reload_successful";
    let help = "1 if the configuration was accepted when it was last loaded; 0 if an older one is still in force.";
    page.one(name, GAUGE, help, "", u64::from(!seen.has_failed()));
    let name = "rookery_config_last_reload_success_timestamp_seconds";
    let help = "The time at which the configuration in force was loaded, in seconds since 1970.";
    page.one(name, GAUGE, help, "", seen.succeeded_ms() as f64 / 1000.0);
}

/// Writes the amounts of stored data, and their limits.
fn write_stored(page: &mut MetricPage, machine: &MachineReadings) {
    if let Some(Space { free, total }) = machine.space {
        page.one("rookery_data_free_bytes", GAUGE, "Free space on the disk of the data folder.", "", free);
        page.one("rookery_data_size_bytes", GAUGE, "Size of the disk of the data folder.", "", total);
    }
    let name = "rookery_data_files_bytes";
    page.head(name, GAUGE, "Sizes of the embedded database, its log, and uploaded files.");
    for (what, bytes) in &machine.files {
        page.line(name, &format!("{{of=\"{what}\"}}"), bytes);
    }
    let help = "Requests to the bucket of uploads that failed.";
    page.one("rookery_bucket_failures_total", COUNTER, help, "", machine.bucket_failures);
    write_posts(page, &machine.posted);
    let name = "rookery_accounts";
    page.head(name, GAUGE, "Accounts by domain.");
    for (domain, count) in &machine.accounts {
        page.line(name, &format!("{{domain=\"{}\"}}", label(domain)), count);
    }
    let name = "rookery_reports_waiting";
    page.head(name, GAUGE, "Open abuse reports, by domain.");
    for (domain, count) in &machine.reports {
        page.line(name, &format!("{{domain=\"{}\"}}", label(domain)), count);
    }
    let name = "rookery_certificate_expiry_timestamp_seconds";
    page.head(
        name,
        GAUGE,
        "The time at which a certificate expires, in seconds since 1970, by the domain that uses it.",
    );
    for certificate in &machine.certificates {
        for domain in &certificate.names {
            page.line(name, &format!("{{domain=\"{}\"}}", label(domain)), certificate.not_after);
        }
    }
}

fn shards(page: &mut MetricPage, census: &ShardCensus) {
    page.one("rookery_shards", GAUGE, "Threads that serve connections.", "", census.coverage.shards);
    page.one("rookery_shards_answering", GAUGE, "Shards that answered this scrape.", "", census.coverage.answered);
    page.one("rookery_connections", GAUGE, "Connections of shards, whether logged in or not.", "", census.connections);
    page.one("rookery_store_waits", GAUGE, "Continuations that are waiting for the store.", "", census.tasks);
    let help = "Operations of the store that failed.";
    page.one("rookery_store_errors_total", COUNTER, help, "", census.counters.store_errors);
    let help = "Messages that are missing from an archive.";
    page.one("rookery_archive_lost_total", COUNTER, help, "", census.counters.archive_lost);
    let help = "Stanzas from users of this server to people who aren't contacts that were refused, against spam.";
    page.one("rookery_outgoing_refused_total", COUNTER, help, "", census.counters.outgoing_refused);
}

fn write_posts(page: &mut MetricPage, counts: &PostCounts) {
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    page.one(
        "rookery_events_posted_total",
        COUNTER,
        "Events that the address of [events] has accepted.",
        "",
        of(&counts.sent),
    );
    let help = "Batches of events that it hasn't accepted, and that were posted again.";
    page.one("rookery_events_failures_total", COUNTER, help, "", of(&counts.failures));
    let help = "Events that were dropped because there was no room for them.";
    page.one("rookery_events_lost_total", COUNTER, help, "", of(&counts.lost));
    page.one("rookery_events_waiting_bytes", GAUGE, "Events that wait for it on the disk.", "", of(&counts.waiting));
}

fn pushes(page: &mut MetricPage, census: &ShardCensus) {
    let name = "rookery_pushes_total";
    page.head(name, COUNTER, "Notifications for push services (XEP-0357), by their result.");
    for (result, count) in known::pushes(&census.counters) {
        page.line(name, &format!("{{result=\"{result}\"}}"), count);
    }
}

fn slow_events(page: &mut MetricPage) {
    let name = "rookery_slow_total";
    page.head(
        name,
        COUNTER,
        "Events that took longer than slow_ms in [instruments] allows, by kind: see `rookery slow`.",
    );
    for (kind, count) in slow().counts() {
        page.line(name, &format!("{{kind=\"{}\"}}", kind.name()), count);
    }
}

fn store(page: &mut MetricPage, activity: &Activity) {
    let help = "Time for which the oldest operation has waited for the database.";
    page.one("rookery_store_waiting_seconds", GAUGE, help, "", activity.waiting.as_secs_f64());
    let help = "Operations that are waiting for the database or running.";
    page.one("rookery_store_operations", GAUGE, help, "", activity.operations);
    let help = "Bytes that these operations carry, such as stanzas to be written.";
    page.one("rookery_store_operation_bytes", GAUGE, help, "", activity.bytes);
    page.one("rookery_store_connections", GAUGE, "Connections to the database.", "", activity.connections);
    let help =
        "Operations, or transactions of many, that were repeated because others interfered or the connection was lost.";
    page.one("rookery_store_retries_total", COUNTER, help, "", activity.retries);
    let help = "Connections to the database that replaced lost ones.";
    page.one("rookery_store_reconnects_total", COUNTER, help, "", activity.reconnects);
    let help = "Operations that were refused because the database was unreachable for too long.";
    page.one("rookery_store_given_up_total", COUNTER, help, "", activity.given_up);
}

fn sessions(page: &mut MetricPage, census: &ShardCensus) {
    page.head("rookery_sessions", GAUGE, "Sessions by domain and by transport.");
    for ((domain, Carrier { transport, tls }), count) in census.by_domain() {
        let (domain, transport) = (label(domain), transport.map_or("waiting", Transport::label));
        page.line(
            "rookery_sessions",
            &format!("{{domain=\"{domain}\",transport=\"{transport}\",tls=\"{tls}\"}}"),
            count,
        );
    }
    page.one("rookery_users_online", GAUGE, "Accounts with a session.", "", census.users);
    page.one("rookery_sessions_bound_total", COUNTER, "Sessions since the start.", "", census.counters.bound);
    let help = "Sessions ended because they did not read.";
    page.one("rookery_sessions_overflowed_total", COUNTER, help, "", census.counters.overflows);
    let help = "Sessions whose outboxes are above the soft limit.";
    page.one("rookery_slow_readers", GAUGE, help, "", census.unread.slow_readers);
    let help = "Bytes that wait for sessions, or for their acknowledgement.";
    page.one("rookery_outbox_bytes", GAUGE, help, "", census.unread.bytes);
}

fn logins(page: &mut MetricPage, census: &ShardCensus) {
    let tally = &census.logins.tally;
    let name = "rookery_logins_total";
    page.head(name, COUNTER, "Attempts to log in with a password or a token that were examined, by outcome.");
    page.line(name, "{outcome=\"succeeded\"}", tally.succeeded);
    page.line(name, "{outcome=\"failed\"}", tally.failed);
    let name = "rookery_authentications_total";
    page.head(name, COUNTER, "Logins that ended, by mechanism and the reply to the client (RFC 6120 §6.5).");
    for ((mechanism, result), count) in known::authentications(&census.counters) {
        page.line(name, &format!("{{mechanism=\"{mechanism}\",result=\"{result}\"}}"), count);
    }
    let causes = AttemptCause::ALL.map(AttemptCause::name);
    for (name, help, counts) in [
        ("rookery_logins_delayed_total", "Attempts that had to wait because similar ones had failed.", tally.delayed),
        (
            "rookery_logins_refused_total",
            "Attempts that were refused for the same reason, without being examined.",
            tally.refused,
        ),
    ] {
        page.head(name, COUNTER, help);
        for (cause, count) in causes.iter().zip(counts) {
            page.line(name, &format!("{{cause=\"{cause}\"}}"), count);
        }
    }
    sources(page, census);
}

/// Writes the state of the sources of logins, by domain and the key of `[domain."NAME".login]`.
fn sources(page: &mut MetricPage, census: &ShardCensus) {
    let labels = |(domain, source): &(String, &str)| format!("domain=\"{}\",source=\"{source}\"", label(domain));
    let name = "rookery_login_source_answers_total";
    let help = "Passwords and tokens for a source of logins, by its answer: yes, no, none in time, not asked because too many wait or it is away, or remembered.";
    page.head(name, COUNTER, help);
    for (key, seen) in &census.logins.sources {
        for (result, count) in SourceSeen::ANSWERS.iter().zip(seen.answers) {
            page.line(name, &format!("{{{},result=\"{result}\"}}", labels(key)), count);
        }
    }
    let name = "rookery_login_source_seconds";
    page.head(name, HISTOGRAM, "Time that a source of logins took to answer, including the wait for a turn.");
    for (key, seen) in &census.logins.sources {
        page.histogram(name, &labels(key), &seen.seconds, &SECONDS);
    }
    let name = "rookery_login_source_away";
    page.head(name, GAUGE, "1 while a source of logins doesn't respond, and is asked only every few seconds.");
    for (key, seen) in &census.logins.sources {
        page.line(name, &format!("{{{}}}", labels(key)), u8::from(seen.is_away));
    }
    let name = "rookery_login_source_waiting";
    page.head(name, GAUGE, "Requests that wait for a source of logins.");
    for (key, seen) in &census.logins.sources {
        page.line(name, &format!("{{{}}}", labels(key)), seen.waiting);
    }
}

fn stanzas(page: &mut MetricPage, census: &ShardCensus) {
    let counters = &census.counters;
    page.head("rookery_stanzas_received_total", COUNTER, "Stanzas from sessions, by kind.");
    for (kind, count) in
        [("message", counters.messages_in), ("presence", counters.presence_in), ("iq", counters.iqs_in)]
    {
        page.line("rookery_stanzas_received_total", &format!("{{kind=\"{kind}\"}}"), count);
    }
    let help = "Copies of stanzas given to sessions.";
    page.one("rookery_deliveries_total", COUNTER, help, "", census.deliveries);
    page.one("rookery_stanza_errors_total", COUNTER, "Stanza errors that the server made.", "", counters.errors);
    let help = "Stanzas that left for other servers.";
    page.one("rookery_stanzas_federated_total", COUNTER, help, "", counters.remote_out);
}

fn servers(page: &mut MetricPage, census: &ShardCensus) {
    let tally = &census.servers;
    let name = "rookery_s2s_streams";
    page.head(name, GAUGE, "Streams with other servers and components, by direction and kind of proof.");
    for ((direction, security), count) in &tally.ready {
        page.line(name, &format!("{{direction=\"{direction}\",proven=\"{security}\"}}"), count);
    }
    let help = "Connections to other servers that are being looked up or negotiated.";
    page.one("rookery_s2s_under_way", GAUGE, help, "", tally.under_way);
    let help = "Other servers that couldn't be reached, and aren't tried again for a while.";
    page.one("rookery_s2s_failed", GAUGE, help, "", tally.failed);
    let help = "Connections of servers and components that have proven nothing yet.";
    page.one("rookery_s2s_strangers", GAUGE, help, "", tally.strangers);
    let help = "Stanzas that wait for other servers and components.";
    page.one("rookery_s2s_waiting", GAUGE, help, "", tally.waiting);
}

/// Writes durations and sizes.
fn times(page: &mut MetricPage, census: &ShardCensus, counts: &WebCounts) {
    let counters = &census.counters;
    let name = "rookery_delivery_seconds";
    page.head(name, HISTOGRAM, "Time from reading a stanza to writing its copies; each copy counts.");
    page.histogram(name, "", &counters.delivery, &SECONDS);
    let name = "rookery_mailbox_seconds";
    page.head(name, HISTOGRAM, "Time that mail waited for another shard.");
    page.histogram(name, "", &counters.mailbox, &SECONDS);
    let name = "rookery_store_wait_seconds";
    page.head(name, HISTOGRAM, "Time that modules waited for the store and for background work.");
    for (module, histogram) in counters.store_waits.iter() {
        page.histogram(name, &format!("module=\"{module}\""), histogram, &SECONDS);
    }
    let name = "rookery_write_bytes";
    page.head(
        name,
        HISTOGRAM,
        "Bytes that waited for a session when they were written, without TLS; one write in 16 is counted.",
    );
    for (transport, histogram) in known::writes(counters).iter() {
        page.histogram(name, &format!("transport=\"{transport}\""), histogram, &BYTES);
    }
    let name = "rookery_tls_handshake_seconds";
    page.head(name, HISTOGRAM, "Time that TLS handshakes took, including the client's part.");
    let web = lock(&counts.handshakes).clone();
    for (protocol, histogram) in known::handshakes(counters).iter().chain([("http", &web)]) {
        page.histogram(name, &format!("protocol=\"{protocol}\""), histogram, &SECONDS);
    }
    let name = "rookery_tls_handshakes_total";
    page.head(name, COUNTER, "Handshakes of TLS, full ones and those that resumed an earlier session.");
    for ((protocol, kind), count) in known::tls_sessions(counters) {
        page.line(name, &format!("{{protocol=\"{protocol}\",session=\"{kind}\"}}"), count);
    }
    let name = "rookery_multicast_stage_duration_seconds";
    page.head(name, HISTOGRAM, "Time that a stage of a multicast took.");
    for stage in MulticastStage::ALL {
        if let Some(histogram) = counters.stages.calls(stage).filter(|histogram| histogram.count() > 0) {
            page.histogram(name, &format!("stage=\"{}\"", label(stage.name())), histogram, &SECONDS);
        }
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The longest wait for the figures of what reads devices.
const PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
