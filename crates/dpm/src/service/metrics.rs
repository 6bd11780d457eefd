//! The counters in Prometheus's format (text exposition format 0.0.4).

use std::fmt::Write;

use super::gauges::Gauges;
use super::lines::FrontEndLine;
use super::state::Statistics;

/// Returns the answer to `GET /metrics`, with its head.
pub(super) fn page(text: &str) -> String {
    format!("{HEAD}Content-Length: {}\r\n\r\n{text}", text.len())
}

/// Returns the figures. `spoken` are the protocols of the clients, one for each.
pub(super) fn text(statistics: &Statistics, spoken: &[&str], front_ends: &[FrontEndLine], gauges: &Gauges) -> String {
    let Statistics { pool, traffic, .. } = statistics;
    let mut text = String::new();
    for (name, help, value) in [
        ("clients", "Connections.", statistics.clients),
        ("remote_tasks", "Tasks of other nodes among them.", statistics.remotes),
        ("lists", "Lists of clients.", statistics.lists),
        ("devices", "Things that are being read.", statistics.entries),
        ("plots", "Fast plots.", statistics.plots),
        ("outstanding_requests", "Requests to front-ends that are outstanding.", statistics.groups),
        ("variables", "Process variables that are read or set.", statistics.variables),
        ("variables_connected", "Process variables whose server was found.", statistics.connected),
        ("circuits", "Circuits to servers of EPICS.", statistics.circuits),
        ("topics", "Topics of MQTT that are read.", statistics.topics),
        ("topics_known", "Topics with a message.", statistics.topics_known),
        ("brokers", "Brokers of MQTT that are connected.", statistics.brokers),
        ("passed_requests", "Requests that are passed on to other nodes.", statistics.passed),
    ] {
        metric(&mut text, name, "gauge", help, value as u64);
    }
    for (name, help, value) in [
        ("asked_total", "Requests for readings by clients.", pool.asked),
        ("shared_total", "Requests whose device was already being read.", pool.shared),
        ("devices_requested_total", "Devices that front-ends were asked for.", pool.devices_requested),
        ("requests_total", "Requests that were sent to front-ends.", pool.requests),
        ("replies_total", "Replies of front-ends that were handled.", pool.replies),
        ("readings_total", "Readings in replies.", pool.readings),
        ("encoded_total", "Readings that were scaled and encoded, once for each form.", pool.encoded),
        ("delivered_total", "Readings that were delivered to clients.", pool.delivered),
        ("timeouts_total", "Requests that went unanswered.", pool.timeouts),
        ("divided_total", "Divisions of unanswered requests, to find the silent device.", pool.divided),
        ("probes_total", "Requests to silent front-ends for single devices.", pool.probes),
        ("strays_total", "Replies that answered no outstanding request.", pool.strays),
        ("dropped_total", "Readings that were dropped because their client read too slowly.", statistics.dropped),
        ("unrecorded_total", "Readings that were not recorded because the disk was too slow.", statistics.unrecorded),
    ] {
        metric(&mut text, name, "counter", help, value);
    }
    let _ =
        writeln!(text, "# HELP rookery_dpm_packets_total Packets of ACNET.\n# TYPE rookery_dpm_packets_total counter");
    for (direction, kind, count) in [
        ("in", "message", traffic.messages_in),
        ("in", "request", traffic.requests_in),
        ("in", "reply", traffic.replies_in),
        ("out", "message", traffic.messages_out),
        ("out", "request", traffic.requests_out),
        ("out", "reply", traffic.replies_out),
    ] {
        let _ = writeln!(text, "rookery_dpm_packets_total{{direction=\"{direction}\",kind=\"{kind}\"}} {count}");
    }
    protocols(&mut text, spoken);
    by_front_end(&mut text, front_ends);
    gauges.write(&mut text);
    text
}

fn protocols(text: &mut String, spoken: &[&str]) {
    head(text, "protocol_clients", "Connections by their protocol; by gRPC, calls that read.");
    for protocol in PROTOCOLS {
        let count = spoken.iter().filter(|spoken| *spoken == protocol).count();
        let _ = writeln!(text, "rookery_dpm_protocol_clients{{protocol=\"{protocol}\"}} {count}");
    }
}

/// A figure that each front-end has: its name, its help text, and a function that reads it.
type FrontEndFigure = (&'static str, &'static str, fn(&FrontEndLine) -> usize);

fn by_front_end(text: &mut String, front_ends: &[FrontEndLine]) {
    let figures: [FrontEndFigure; 3] = [
        ("front_end_things", "Things that are read from a front-end.", |line| line.things),
        ("front_end_silent", "Things of a front-end whose last reading failed, or that were never read.", |line| {
            line.silent
        }),
        ("front_end_late", "Things of a front-end that are late by more than a period.", |line| line.late),
    ];
    for (name, help, figure) in figures.into_iter().filter(|_| !front_ends.is_empty()) {
        head(text, name, help);
        for line in front_ends {
            let FrontEndLine { name: front_end, protocol, .. } = line;
            let labels = format!("front_end=\"{front_end}\",protocol=\"{protocol}\"");
            let _ = writeln!(text, "rookery_dpm_{name}{{{labels}}} {}", figure(line));
        }
    }
}

fn head(text: &mut String, name: &str, help: &str) {
    let _ = writeln!(text, "# HELP rookery_dpm_{name} {help}\n# TYPE rookery_dpm_{name} gauge");
}

fn metric(text: &mut String, name: &str, kind: &str, help: &str, value: u64) {
    let name = format!("rookery_dpm_{name}");
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
}

/// The protocols of clients that are counted.
const PROTOCOLS: &[&str] = &["DPM", "acnetd", "ACNET", "gRPC", "EPICS", "HTTP"];
const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nConnection: close\r\n";
