//! The overview: the server's current activity, and that of the last hour, day or month.

use hyper::{Response, StatusCode};
use rookery_observe::MulticastStage;
use rookery_observe::cluster::ClusterSeen;
use rookery_operations::Outcome;
use rookery_shard::ShardCensus;

use super::graph::{Graph, GraphLine, GraphRange, GraphUnit, RANGES, bytes, number};
use super::{Visit, wellness};
use crate::ask::now_ms;
use crate::health::Space;
use crate::html::Html;
use crate::reply::{Body, reply};
use crate::samples::WebSample;
use crate::words::AdminWords;

/// Returns the first page: open tasks, numbers and graphs.
pub async fn page(visit: &Visit) -> Outcome<Html> {
    let words = visit.words();
    let mut html = Html::of("<h1>{}</h1><div id=\"now\">", &[&words.overview]);
    html.push(&now(visit).await?);
    html.add("</div>", &[]);
    html.push(&ranges(words, range(visit)));
    html.add("<noscript><p class=\"faint\">{}</p></noscript><div id=\"graphs\">", &[&words.reload_for_newer]);
    html.push(&draw(visit));
    html.add("</div>", &[]);
    Ok(html)
}

/// Returns the part of the page that is about this moment: open tasks, users and the machine, and
/// the nodes of a cluster. The script renews it.
pub async fn now(visit: &Visit) -> Outcome<Html> {
    let shared = &visit.shared;
    let census = shared.census_of_all().await;
    let folder = shared.instance.folder.clone();
    let space = tokio::task::spawn_blocking(move || Space::of(&folder).ok()).await.unwrap_or_default();
    let mut accounts = 0;
    for domain in &visit.domains {
        accounts += shared.wait(shared.stores.accounts.count(Some(domain))).await?;
    }
    let mut html = wellness::strip(visit, &census).await?;
    let online = people_online(visit, &census).await?;
    html.push(&people(visit, &census, (online, accounts), space));
    if !census.coverage.is_whole() {
        html.add("<p class=\"faint\">{}</p>", &[&visit.words().is_partial_servers]);
    }
    if let Some(seen) = rookery_observe::cluster::latest().filter(|_| sees_all(visit)) {
        html.push(&nodes(visit, &seen));
    }
    Ok(html)
}

/// Returns the number of accounts with a session: on the whole server if the visitor administers
/// all domains, and in the visitor's domains otherwise.
async fn people_online(visit: &Visit, census: &ShardCensus) -> Outcome<usize> {
    if sees_all(visit) {
        return Ok(census.users);
    }
    let mut online = 0;
    for domain in &visit.domains {
        online += visit.shared.online(domain).await?.len();
    }
    Ok(online)
}

/// Returns whether the visitor administers all domains, and therefore sees the whole server.
fn sees_all(visit: &Visit) -> bool {
    visit.domains.len() == visit.shared.settings().domains.len()
}

/// Returns the table of the cluster's nodes as this node sees them, with itself first.
fn nodes(visit: &Visit, seen: &ClusterSeen) -> Html {
    let (w, language) = (visit.words(), visit.language);
    let mut html = Html::of(
        "<h2>{}</h2><div class=\"scroll\"><table id=\"nodes\" class=\"many\"><thead><tr><th>{}<th>{}<th>{}<th>{}</tr></thead><tbody>",
        &[&w.nodes, &w.name, &w.state, &w.share, &w.bytes_waiting],
    );
    let all = seen.nodes.iter().map(|node| node.slots).sum::<u64>().max(1);
    for node in &seen.nodes {
        let state = if node.is_up { w.node_runs } else { w.node_is_silent };
        let share = language.amount(&format!("{:.1} %", 100.0 * node.slots as f64 / all as f64));
        let waiting = language.amount(&bytes(node.traffic.waiting_bytes as f64));
        html.add(
            "<tr><td data-label=\"{}\">{}<td data-label=\"{}\">{}<td data-label=\"{}\">{}<td data-label=\"{}\">{}</tr>",
            &[&w.name, &node.name, &w.state, &state, &w.share, &share, &w.bytes_waiting, &waiting],
        );
    }
    html.add("</tbody></table></div>", &[]);
    html
}

/// Returns the figures about users and the machine. The counts are the accounts that are online,
/// and all accounts.
fn people(visit: &Visit, census: &ShardCensus, (online, accounts): (usize, u64), space: Option<Space>) -> Html {
    let (words, language) = (visit.words(), visit.language);
    let theirs = census.by_domain().filter(|((domain, _), _)| visit.domains.contains(domain));
    let (mut connected, mut waiting) = (0, 0);
    for ((_, carrier), count) in theirs {
        // Without a transport, a session waits for its client to reconnect.
        *if carrier.transport.is_some() { &mut connected } else { &mut waiting } += count;
    }
    let (of_messages, messages) = messages(visit, census);
    let free = space.map_or_else(|| "–".to_owned(), |space| language.amount(&bytes(space.free as f64)));
    let uptime = duration_text(words, now_ms().saturating_sub(visit.shared.instance.started_ms));
    let figures = [
        ("figure-online", words.people_online, number(online as f64)),
        ("figure-connected", words.sessions_connected, number(connected as f64)),
        ("figure-waiting", words.sessions_waiting, number(waiting as f64)),
        ("figure-accounts", words.accounts, number(accounts as f64)),
        ("figure-messages", of_messages, number(messages as f64)),
        ("figure-uptime", words.running_for, uptime),
        ("figure-disk", words.disk_free, free),
        ("figure-version", words.version, env!("CARGO_PKG_VERSION").to_owned()),
    ];
    list(&figures)
}

/// Returns the number of incoming messages with its label. It counts today's messages, or those
/// since the start if the server started today. In a cluster it is always since the start, because
/// the nodes may have started on different days.
fn messages(visit: &Visit, census: &ShardCensus) -> (&'static str, u64) {
    let (words, all) = (visit.words(), census.counters.messages_in);
    match visit.shared.samples.messages_before_today() {
        before if before > 0 && visit.shared.instance.node.is_empty() => {
            (words.messages_today, all.saturating_sub(before))
        }
        _ => (words.messages_since_start, all),
    }
}

/// Returns a duration in its two largest units.
fn duration_text(words: &AdminWords, ms: u64) -> String {
    let minutes = ms / 60_000;
    match (minutes / 1440, minutes / 60 % 24, minutes % 60) {
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} {} {hours} h", words.days_sign),
    }
}

/// Returns only the figures and graphs, for the script.
pub fn graphs(visit: &Visit) -> Response<Body> {
    reply(StatusCode::OK, "text/html; charset=utf-8", draw(visit).into_text())
}

/// Returns the period that the request asks for.
fn range(visit: &Visit) -> GraphRange {
    let chosen = visit.value("range");
    RANGES.into_iter().find(|range| range.name == chosen).unwrap_or(RANGES[0])
}

/// Returns the heading of the graphs, with the choice of the period.
fn ranges(words: &AdminWords, chosen: GraphRange) -> Html {
    let mut html = Html::of(
        "<div class=\"heading\"><h2>{}</h2><nav class=\"ranges\" aria-label=\"{}\">",
        &[&words.details, &words.time_shown],
    );
    for range in RANGES {
        let current = if range == chosen { "true" } else { "false" };
        html.add(
            "<a href=\"/admin?range={}\" aria-current=\"{}\">{}</a>",
            &[&range.name, &current, &range.label(words)],
        );
    }
    html.add("</nav></div>", &[]);
    html
}

fn draw(visit: &Visit) -> Html {
    let range = range(visit);
    let newest = visit.shared.samples.all();
    let (words, language) = (visit.words(), visit.language);
    let mut html = figures(visit, newest.last());
    let samples = if range == RANGES[0] { newest } else { past(visit, range, newest) };
    html.add("<div class=\"cards\">", &[]);
    let times: Vec<_> = samples.iter().map(|sample| sample.unix_ms).collect();
    let is_measured = samples.iter().any(|sample| sample.stages.iter().any(|seconds| *seconds > 0.0));
    for (title, id, unit, lines) in graphs_of(words, &samples) {
        html.push(&Graph { language, title, id, times: &times, lines, unit, range }.html());
    }
    if is_measured {
        let lines = stages(&samples);
        let title = words.multicast_cpu;
        let (id, unit) = ("graph-stages", GraphUnit::Seconds);
        html.push(&Graph { language, title, id, times: &times, lines, unit, range }.html());
    }
    html.add("</div>", &[]);
    // A remedy in the configuration only helps visitors who may change the configuration.
    let is_of_server = visit.domains.iter().any(|domain| domain == visit.shared.settings().hub.default_domain());
    if !is_measured && is_of_server {
        html.add("<p class=\"faint\">", &[]);
        html.text(words.profile_hint, &[]);
        html.add("</p>", &[]);
    }
    html
}

/// Returns the points of a range longer than an hour. The newest sample is added as the last point.
fn past(visit: &Visit, range: GraphRange, newest: Vec<WebSample>) -> Vec<WebSample> {
    let mut points = visit.shared.history.all();
    points.extend(newest.into_iter().last());
    let end = points.last().map_or(0, |last| last.unix_ms);
    points.retain(|point| point.unix_ms.saturating_add(range.ms) >= end);
    points
}

fn figures(visit: &Visit, sample: Option<&WebSample>) -> Html {
    let words = visit.words();
    let amount = |text: String| visit.language.amount(&text);
    let none = WebSample::default();
    let sample = sample.unwrap_or(&none);
    let figures = [
        ("figure-sessions", words.sessions, number(sample.sessions as f64)),
        ("figure-stanzas", words.stanzas_a_second, amount(number(sample.stanzas))),
        ("figure-deliveries", words.deliveries_a_second, amount(number(sample.deliveries))),
        ("figure-memory", words.memory, amount(bytes(sample.memory as f64))),
    ];
    list(&figures)
}

fn list(figures: &[(&'static str, &'static str, String)]) -> Html {
    let mut html = Html::of("<dl class=\"figures\">", &[]);
    for (id, name, value) in figures {
        html.add("<div class=\"figure\"><dt>{}</dt><dd id=\"{}\">{}</dd></div>", &[name, id, value]);
    }
    html.add("</dl>", &[]);
    html
}

type Drawn<'a> = (&'a str, &'a str, GraphUnit, Vec<GraphLine<'a>>);

fn graphs_of(words: &AdminWords, samples: &[WebSample]) -> Vec<Drawn<'static>> {
    let line = |name, value: &dyn Fn(&WebSample) -> Option<f64>| GraphLine {
        name,
        values: samples.iter().map(value).collect(),
    };
    vec![
        (
            words.sessions,
            "graph-sessions",
            GraphUnit::Count,
            vec![line(words.line_sessions, &|sample| Some(sample.sessions as f64))],
        ),
        (
            words.stanzas_and_deliveries,
            "graph-stanzas",
            GraphUnit::Count,
            vec![
                line(words.line_stanzas, &|sample| Some(sample.stanzas)),
                line(words.line_deliveries, &|sample| Some(sample.deliveries)),
            ],
        ),
        (
            words.latency,
            "graph-latency",
            GraphUnit::Seconds,
            vec![
                line(words.line_delivery, &|sample| sample.delivery),
                line(words.line_mailbox, &|sample| sample.mailbox),
                line(words.line_store, &|sample| sample.store),
            ],
        ),
        (
            words.memory,
            "graph-memory",
            GraphUnit::Bytes,
            vec![line(words.line_bytes, &|sample| Some(sample.memory as f64))],
        ),
        (
            words.waiting_for_sessions,
            "graph-waiting",
            GraphUnit::Bytes,
            vec![line(words.line_bytes, &|sample| Some(sample.waiting as f64))],
        ),
        (
            words.slow_readers,
            "graph-slow",
            GraphUnit::Count,
            vec![line(words.line_sessions, &|sample| Some(sample.slow_readers as f64))],
        ),
    ]
}

/// Returns the four stages that took the most time, as curves.
fn stages(samples: &[WebSample]) -> Vec<GraphLine<'static>> {
    let total = |at: usize| samples.iter().filter_map(|sample| sample.stages.get(at)).sum::<f64>();
    let mut places: Vec<_> = (0..MulticastStage::ALL.len()).collect();
    places.sort_by(|a, b| total(*b).total_cmp(&total(*a)));
    places.truncate(4);
    let lines = places.into_iter().filter_map(|at| {
        let name = MulticastStage::ALL.get(at)?.name();
        Some(GraphLine { name, values: samples.iter().map(|sample| sample.stages.get(at).copied()).collect() })
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_their_two_largest_units() {
        let minute = 60_000;
        for (ms, words) in [(0, "0 min"), (61 * minute, "1 h 1 min"), (1500 * minute, "1 d 1 h")] {
            assert_eq!(duration_text(crate::language::Language::English.of_administrators(), ms), words);
        }
    }
}
