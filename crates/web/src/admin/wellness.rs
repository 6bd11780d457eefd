//! The strip at the top of the overview: all is well, or what is to be done.
//!
//! It knows what the process knows already: certificates, the disk of the data folder, what the
//! store couldn't write, reports of abuse, failed logins, and keys that wait for a restart. What is
//! to be said of each is judged where `rookery doctor` has it from, too.

use rookery_shard::ShardCensus;

use super::Visit;
use crate::ask::now_ms;
use crate::doctor::finding::{self, DoctorFinding, Grade, HOUR_MS};
use crate::health::Space;
use crate::html::Html;

/// Returns the line that says whether all is well.
pub fn strip(visit: &Visit, census: &ShardCensus, space: Option<Space>) -> Html {
    let settings = visit.shared.settings();
    let now = now_ms();
    let mut found = Vec::new();
    for served in &settings.certificates {
        let ends_ms = u64::try_from(served.not_after).unwrap_or(0).saturating_mul(1000);
        let theirs = served.names.iter().filter(|name| visit.domains.contains(name));
        found.extend(theirs.map(|domain| finding::certificate(domain, ends_ms, now)));
    }
    let is_of_server = visit.domains.iter().any(|domain| domain == settings.hub.default_domain());
    if is_of_server {
        found.extend(space.map(finding::disk));
        found.push(finding::refusals(census));
        found.extend(settings.restart.iter().map(|words| finding::restart(words)));
    }
    let logins = visit.shared.logins.recent(&visit.domains, usize::MAX);
    let since = now.saturating_sub(HOUR_MS);
    let failed = logins.iter().filter(|login| login.failure.is_some() && login.unix_ms >= since);
    found.push(finding::guesses(failed.map(|login| login.address)));
    found.push(finding::abuse(visit.reports));
    found.retain(|finding| finding.grade > Grade::Fine);
    // What hurts already stands first.
    found.sort_by_key(|finding| std::cmp::Reverse(finding.grade));
    html(&found)
}

fn html(found: &[DoctorFinding]) -> Html {
    if found.is_empty() {
        return Html::of("<p id=\"well\" class=\"notice good\"><strong>All is well.</strong></p>", &[]);
    }
    let is_urgent = found.iter().any(|finding| finding.grade == Grade::Urgent);
    let class = if is_urgent { "notice bad" } else { "notice warn" };
    let mut html = Html::of("<section id=\"to-do\" class=\"{}\"><h2>To do</h2><ul>", &[&class]);
    for finding in found {
        html.add("<li>{}</li>", &[&finding.words()]);
    }
    html.add("</ul></section>", &[]);
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_to_do_is_said() {
        assert!(html(&[]).into_text().contains("All is well."));
        let finding = DoctorFinding::wrong(Grade::Urgent, "disk", "a <b>".into(), "", "c");
        let shown = html(&[finding]).into_text();
        assert!(shown.contains("notice bad") && shown.contains("<li>a &lt;b&gt; c</li>"), "{shown}");
    }
}
