//! The strip at the top of the overview: all is well, or what is to be done.
//!
//! It knows what the process knows already: certificates, the disk of the data folder, what the
//! store couldn't write, reports of abuse, failed logins, and keys that wait for a restart.

use std::collections::BTreeMap;
use std::net::IpAddr;

use rookery_shard::Census;

use super::Visit;
use super::graph::number;
use crate::ask::now_ms;
use crate::health::{Fill, Space};
use crate::html::Html;

/// Something that an administrator has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Task {
    /// True if somebody suffers from it already.
    is_urgent: bool,
    words: String,
}

/// Returns what is to be done about a disk.
fn disk(space: Space) -> Option<Task> {
    let words = |how: &str| format!("The disk is {how}: {space}. Make room on it.");
    match space.fill() {
        Fill::Fine => None,
        Fill::Low => Some(Task { is_urgent: false, words: words("nearly full") }),
        Fill::Full => Some(Task { is_urgent: true, words: words("full") }),
    }
}

/// Returns the strip.
pub fn strip(visit: &Visit, census: &Census, space: Option<Space>) -> Html {
    let settings = visit.shared.settings();
    let now = now_ms();
    let mut tasks = Vec::new();
    for served in &settings.certificates {
        let ends_ms = u64::try_from(served.not_after).unwrap_or(0).saturating_mul(1000);
        let theirs = served.names.iter().filter(|name| visit.domains.contains(name));
        tasks.extend(theirs.filter_map(|domain| certificate(domain, ends_ms, now)));
    }
    let is_of_server = visit.domains.iter().any(|domain| domain == settings.hub.default_domain());
    if is_of_server {
        tasks.extend(space.and_then(disk));
        tasks.extend(store(census));
        tasks.extend(settings.restart.iter().map(|words| Task { is_urgent: false, words: format!("{words}.") }));
    }
    let logins = visit.shared.logins.recent(&visit.domains, usize::MAX);
    let since = now.saturating_sub(HOUR_MS);
    let failed = logins.iter().filter(|login| login.failure.is_some() && login.unix_ms >= since);
    tasks.extend(guesses(failed.map(|login| login.address)));
    tasks.extend(abuse(visit.reports));
    // What hurts already stands first.
    tasks.sort_by_key(|task| !task.is_urgent);
    html(&tasks)
}

fn html(tasks: &[Task]) -> Html {
    if tasks.is_empty() {
        return Html::of("<p id=\"well\" class=\"notice good\"><strong>All is well.</strong></p>", &[]);
    }
    let class = if tasks.iter().any(|task| task.is_urgent) { "notice bad" } else { "notice warn" };
    let mut html = Html::of("<section id=\"to-do\" class=\"{}\"><h2>To do</h2><ul>", &[&class]);
    for task in tasks {
        html.add("<li>{}</li>", &[&task.words]);
    }
    html.add("</ul></section>", &[]);
    html
}

fn certificate(domain: &str, ends_ms: u64, now: u64) -> Option<Task> {
    if ends_ms <= now {
        let words = format!("The certificate of {domain} has expired: clients refuse to connect. Renew it.");
        return Some(Task { is_urgent: true, words });
    }
    let days = (ends_ms - now) / (24 * HOUR_MS);
    let unit = if days == 1 { "day" } else { "days" };
    (days < WARN_DAYS).then(|| Task {
        is_urgent: false,
        words: format!(
            "The certificate of {domain} ends in {days} {unit}. Renew it, or look in the log why that failed."
        ),
    })
}

fn store(census: &Census) -> Option<Task> {
    let lost = census.counters.archive_lost;
    let errors = census.counters.store_errors;
    let words = match (lost, errors) {
        (0, 0) => return None,
        (0, errors) => format!("The database has refused {} times since the start.", number(errors as f64)),
        (lost, _) => format!("{} messages are missing in archives since the start.", number(lost as f64)),
    };
    Some(Task { is_urgent: lost > 0, words: format!("{words} The log of the process says why.") })
}

/// Returns the task of dealing with reports of abuse, if there are some.
fn abuse(reports: usize) -> Option<Task> {
    let words = match reports {
        0 => return None,
        1 => "A report of abuse waits".to_owned(),
        many => format!("{many} reports of abuse wait"),
    };
    Some(Task { is_urgent: false, words: format!("{words} for you. The tab Reports has what was said.") })
}

/// Returns the task of looking at failed logins, if there were many.
fn guesses(addresses: impl Iterator<Item = IpAddr>) -> Option<Task> {
    let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
    addresses.for_each(|address| *counts.entry(address).or_default() += 1);
    let all: usize = counts.values().sum();
    let (worst, most) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    (all >= MANY_FAILURES).then(|| Task {
        is_urgent: false,
        words: format!(
            "{all} logins failed within the last hour, {most} of them from {worst}. The tab Log has them; \
             guesses are slowed down by themselves."
        ),
    })
}

const HOUR_MS: u64 = 3_600_000;
/// Days before the end of a certificate.
const WARN_DAYS: u64 = 14;
/// Failures within an hour that are more than forgotten passwords.
const MANY_FAILURES: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_full_nearly_full_or_none_of_it() {
        let is_urgent = |free, total| disk(Space { free, total }).map(|task| task.is_urgent);
        let gib = 1 << 30;
        assert_eq!(is_urgent(50 * gib, 100 * gib), None);
        assert_eq!(is_urgent(gib, 100 * gib), Some(false));
        assert_eq!(is_urgent(1 << 20, 100 * gib), Some(true));
    }

    #[test]
    fn a_certificate_ends() {
        let day = 24 * HOUR_MS;
        assert_eq!(certificate("a.example", 30 * day, 0), None);
        assert!(certificate("a.example", 5 * day, 0).unwrap().words.contains("ends in 5 days"));
        assert!(certificate("a.example", day, 0).unwrap().words.contains("ends in 1 day."));
        assert!(certificate("a.example", day, day).unwrap().is_urgent);
    }

    #[test]
    fn many_failures_name_the_worst_address() {
        let of = |last: u8| IpAddr::from([192, 0, 2, last]);
        assert_eq!(guesses((0..MANY_FAILURES - 1).map(|_| of(1))), None);
        let task = guesses((0..MANY_FAILURES).map(|at| of(if at < 10 { 1 } else { 2 }))).unwrap();
        assert!(
            task.words.starts_with("50 logins failed") && task.words.contains("40 of them from 192.0.2.2"),
            "{task:?}"
        );
    }

    #[test]
    fn reports_are_counted() {
        assert_eq!(abuse(0), None);
        assert!(abuse(1).unwrap().words.starts_with("A report of abuse waits for you."));
        assert!(abuse(3).unwrap().words.starts_with("3 reports of abuse wait for you."));
    }

    #[test]
    fn nothing_to_do_is_said() {
        assert!(html(&[]).into_text().contains("All is well."));
        let task = Task { is_urgent: true, words: "a <b>".into() };
        let shown = html(&[task]).into_text();
        assert!(shown.contains("notice bad") && shown.contains("<li>a &lt;b&gt;</li>"), "{shown}");
    }
}
