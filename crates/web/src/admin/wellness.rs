//! The strip at the top of the overview: all is well, or what needs attention.
//!
//! It uses data that the process already has: certificates, the disk of the data folder, refused
//! writes of the store, abuse reports, failed logins, and keys that need a restart. The judgements
//! are shared with `rookery doctor`.

use rookery_shard::ShardCensus;

use super::Visit;
use crate::ask::now_ms;
use crate::doctor::finding::{self, DoctorFact, DoctorFinding, Grade, HOUR_MS};
use crate::health::{ShownBytes, Space};
use crate::html::Html;
use crate::language::{Language, filled};

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
        found.extend(finding::bucket(visit.shared.files.failures(), now));
        found.extend(settings.restart.iter().map(finding::restart));
    }
    let logins = visit.shared.logins.recent(&visit.domains, usize::MAX);
    let since = now.saturating_sub(HOUR_MS);
    let failed = logins.iter().filter(|login| login.failure.is_some() && login.unix_ms >= since);
    found.push(finding::guesses(failed.map(|login| login.address)));
    found.push(finding::abuse(visit.reports));
    found.retain(|finding| finding.grade > Grade::Fine);
    // The most urgent findings come first.
    found.sort_by_key(|finding| std::cmp::Reverse(finding.grade));
    html(visit.language, &found)
}

fn html(language: Language, found: &[DoctorFinding]) -> Html {
    let words = language.of_administrators();
    if found.is_empty() {
        return Html::of("<p id=\"well\" class=\"notice good\"><strong>{}</strong></p>", &[&words.all_well]);
    }
    let is_urgent = found.iter().any(|finding| finding.grade == Grade::Urgent);
    let class = if is_urgent { "notice bad" } else { "notice warn" };
    let mut html = Html::of("<section id=\"to-do\" class=\"{}\"><h2>{}</h2><ul>", &[&class, &words.to_do]);
    for finding in found {
        html.add("<li>", &[]);
        html.prose(&said(language, finding));
        html.add("</li>", &[]);
    }
    html.add("</ul></section>", &[]);
    html
}

/// Returns a finding with its remedy, in a language.
fn said(language: Language, finding: &DoctorFinding) -> String {
    let words = language.of_administrators();
    let plural = |text, count| language.plural(text, count);
    let amount = |bytes: u64| language.amount(&ShownBytes(bytes).to_string());
    match &finding.fact {
        None => finding.words(),
        Some(DoctorFact::DiskLow(space)) => {
            filled(words.disk_nearly_full, &[&amount(space.free), &amount(space.total)])
        }
        Some(DoctorFact::DiskFull(space)) => filled(words.disk_full, &[&amount(space.free), &amount(space.total)]),
        Some(DoctorFact::CertificateEnded(domain)) => filled(words.certificate_ended, &[domain]),
        Some(DoctorFact::CertificateEnds(domain, days)) => {
            filled(plural(words.certificate_ends, *days), &[domain, days])
        }
        Some(DoctorFact::Refused(count)) => language.count(words.store_refused, *count),
        Some(DoctorFact::Missing(count)) => language.count(words.archive_lacks, *count),
        Some(DoctorFact::Reports(count)) => language.count(words.reports_wait, *count),
        Some(DoctorFact::Guesses(all, most, worst)) => filled(words.logins_fail, &[all, most, worst]),
        Some(DoctorFact::Bucket(count)) => language.count(words.bucket_fails, *count),
        Some(DoctorFact::Restart(changed)) => filled(words.restart_needed, &[&changed.0]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_to_do_is_said() {
        assert!(html(Language::English, &[]).into_text().contains("All is well."));
        let finding = DoctorFinding::wrong(Grade::Urgent, "disk", "a <b>".into(), "", "c");
        let shown = html(Language::English, &[finding]).into_text();
        let ends = finding::certificate("a.example", 5 * 24 * HOUR_MS, 0);
        let shown_in = |language| html(language, std::slice::from_ref(&ends)).into_text();
        assert!(
            shown_in(Language::English).contains("<li>The certificate of a.example expires in 5 days. Renew it, or")
        );
        assert!(
            shown_in(Language::German)
                .contains("<h2>Zu tun</h2><ul><li>Das Zertifikat von a.example endet in 5 Tagen.")
        );
        assert!(shown.contains("notice bad") && shown.contains("<li>a &lt;b&gt; c</li>"), "{shown}");
    }
}
