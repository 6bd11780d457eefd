//! Tests of the page of metrics, its reference, and those who read it.

use std::collections::BTreeSet;

use super::*;
use rookery_shard::{CensusDetails, Coverage, GaugeRead, LoginCensus};

#[test]
fn every_sample_has_a_head_and_follows_the_conventions() {
    let carrier = Carrier { transport: Some(Transport::WebSocket), tls: true };
    let by_domain = [(("a\"b.example".to_owned(), carrier), 3)].into();
    let mut counters = rookery_observe::Counters::default();
    counters.delivery.record_many(100, 3);
    counters.store_waits.of("archive").record(1_000_000_000);
    let page = page(
        &ShardCensus {
            details: Some(CensusDetails { by_domain, ..CensusDetails::default() }),
            counters,
            coverage: Coverage { shards: 2, ..Coverage::default() },
            ..ShardCensus::default()
        },
        &WebCounts::default(),
        &Activity::default(),
        &MachineReadings { process: ProcessReadings::read(), ..MachineReadings::default() },
    );
    let delivery = "rookery_delivery_seconds_bucket{le=\"0.000001024\"} 3\nrookery_delivery_seconds_bucket{le=\"0.000004096\"} 3\n";
    assert!(page.contains(delivery), "{page}");
    assert!(page.contains("rookery_store_wait_seconds_sum{module=\"archive\"} 1\n"), "{page}");
    assert!(page.contains("rookery_store_wait_seconds_bucket{module=\"archive\",le=\"0.268435456\"} 0\n"), "{page}");
    assert_eq!(page.matches("rookery_delivery_seconds_bucket{").count(), 14, "the same bounds, whatever was counted");
    let session = "rookery_sessions{domain=\"a\\\"b.example\",transport=\"websocket\",tls=\"true\"} 3\n";
    assert!(page.contains(session), "{page}");
    let mut family = ("", "");
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            family = rest.split_once(' ').unwrap();
            assert_eq!(family.0.ends_with("_total"), family.1 == "counter", "{line}");
            assert_eq!(page.matches(&format!("# TYPE {rest}\n")).count(), 1);
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().unwrap();
            let ends: &[&str] = if family.1 == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(ends.iter().any(|end| name.strip_suffix(end) == Some(family.0)), "{line}");
            assert!(line.rsplit_once(' ').unwrap().1.parse::<f64>().is_ok(), "{line}");
        }
    }
}

#[test]
fn counters_are_there_before_the_first_event() {
    let nothing = (ShardCensus::default(), WebCounts::default(), Activity::default(), MachineReadings::default());
    let page = page(&nothing.0, &nothing.1, &nothing.2, &nothing.3);
    for family in page.split("# HELP ").skip(1).filter(|family| family.contains(" counter\n")) {
        let name = family.split(' ').next().unwrap();
        // The sources of logins depend on the configuration.
        let is_there = family.lines().skip(2).any(|line| line.starts_with(name));
        assert!(is_there || name.starts_with("rookery_login_source_"), "{name}");
    }
}

#[test]
fn the_page_of_the_book_is_up_to_date() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../doc/book/reference/metrics.md");
    let page = reference(&with_all_families());
    if std::env::var_os("UPDATE_DOC").is_some() {
        std::fs::write(file, &page).unwrap();
    }
    let kept = std::fs::read_to_string(file).unwrap_or_default();
    assert!(kept == page, "metrics.md is old: run UPDATE_DOC=1 cargo test --workspace up_to_date");
}

/// Returns a page with a sample of every family that can have one.
fn with_all_families() -> String {
    let carrier = Carrier { transport: Some(Transport::Tcp), tls: true };
    let by_domain = [(("example.org".to_owned(), carrier), 1)].into();
    let mut counters = rookery_observe::Counters::default();
    counters.stages.measure(true);
    let begun = counters.stages.begin();
    _ = counters.stages.end(MulticastStage::Decode, begun);
    for named in [&mut counters.store_waits, &mut counters.writes, &mut counters.handshakes] {
        named.of("any").record(1000);
    }
    counters.authentications.add("SCRAM-SHA-256", "success");
    counters.sessions.add("s2s_out", "resumed");
    let counts = WebCounts::default();
    lock(&counts.responses).insert(200, 1);
    let names = vec!["example.org".to_owned()];
    let machine = MachineReadings {
        process: ProcessReadings::read(),
        started_ms: 1,
        space: Some(Space { free: 1, total: 2 }),
        files: machine::files(std::path::Path::new("/nowhere")),
        accounts: vec![("example.org".to_owned(), 1)],
        reports: vec![("example.org".to_owned(), 0)],
        certificates: vec![crate::ServedCertificate { file: "a.pem".into(), names, not_after: 1 }],
        bucket_failures: 0,
        posted: Arc::default(),
        traced: Arc::default(),
    };
    let mut seen = SourceSeen { name: "ldap", ..SourceSeen::default() };
    seen.seconds.record(1000);
    let sources = [(("example.org".to_owned(), "ldap"), seen)].into();
    let logins = LoginCensus { sources, ..LoginCensus::default() };
    let modules = rookery_modules::table(&rookery_modules::Shared::default());
    let gauges = modules.iter().flat_map(|module| module.gauges());
    let gauges = gauges.map(|gauge| (gauge.name, GaugeRead { help: gauge.help, count: 1 })).collect();
    let details = Some(CensusDetails { by_domain, gauges });
    let census = ShardCensus { details, counters, logins, ..ShardCensus::default() };
    let mut page = MetricPage(page(&census, &counts, &Activity::default(), &machine));
    cluster::write(&mut page, &cluster::of_two_nodes());
    page.0 + DPM
}

/// Returns the families of a page, as a readable table: name, kind, labels and meaning.
fn reference(page: &str) -> String {
    let mut text = REFERENCE.to_owned();
    for family in page.split("# HELP ").skip(1) {
        let (name, rest) = family.split_once(' ').unwrap();
        let (help, samples) = rest.split_once('\n').unwrap();
        let kind = samples.lines().next().and_then(|line| line.rsplit_once(' ')).unwrap().1;
        let labels = samples.split(['{', ',']).filter_map(|part| Some(part.split_once("=\"")?.0));
        let labels: BTreeSet<_> = labels.filter(|label| *label != "le").map(|label| format!("`{label}`")).collect();
        let labels = labels.into_iter().collect::<Vec<_>>().join(", ");
        text += &format!("| `{name}` | {kind} | {labels} | {help} |\n");
    }
    text
}

const REFERENCE: &str = "\
# Metrics

The metrics of `/metrics`, for Prometheus; this page is made from that one. A histogram has `_bucket`, `_sum` and
`_count` behind its name, with bounds that are powers of two.
[grafana/rookery.json](../../grafana/rookery.json) is a dashboard over these,
[prometheus/alerts.yml](../../prometheus/alerts.yml) has rules for alerts. Families that begin with
`rookery_dpm_` are there while `[dpm]` serves readings; `rookery dpm` has them on its clients' port.

| name | kind | labels | meaning |
| --- | --- | --- | --- |
";

#[test]
fn the_dashboard_shows_what_is_there() {
    let page = with_all_families();
    let mut names: Vec<&str> = DASHBOARD.split(|c: char| !(c.is_ascii_lowercase() || c == '_')).collect();
    names.retain(|name| name.starts_with("rookery_"));
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        let is_there = page.lines().any(|line| line.split(['{', ' ']).next() == Some(name));
        assert!(is_there, "the dashboard has {name}, which no page of metrics has");
    }
}

#[test]
fn the_rules_of_alerts_are_about_what_is_there() {
    let page = with_all_families();
    let names = ALERTS.lines().filter(|line| line.trim_start().starts_with("expr:")).flat_map(|line| {
        let words = line.split(|c: char| !(c.is_ascii_lowercase() || c == '_'));
        words.filter(|word| word.starts_with("rookery_") || word.starts_with("process_")).collect::<Vec<_>>()
    });
    let names: Vec<&str> = names.collect();
    assert!(names.len() > 8, "{names:?}");
    for name in names {
        let is_there = page.lines().any(|line| line.split(['{', ' ']).next() == Some(name));
        assert!(is_there, "a rule has {name}, which no page of metrics has");
    }
}

/// The families of a service that reads devices, as its tests write them.
const DPM: &str = include_str!("../../../dpm/tests/metrics.txt");
const ALERTS: &str = include_str!("../../../../doc/prometheus/alerts.yml");
const DASHBOARD: &str = include_str!("../../../../doc/grafana/rookery.json");
