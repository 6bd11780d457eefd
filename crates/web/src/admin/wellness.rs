//! The strip at the top of the overview: all is well, or what needs attention.
//!
//! It shows the findings of `rookery doctor` that need attention, except for those about the work
//! of the shards, which take a second to find. An administrator of some domains sees those about
//! these domains.

use rookery_operations::Outcome;
use rookery_shard::ShardCensus;

use super::Visit;
use crate::doctor::finding::{DoctorFact, DoctorFinding, Grade};
use crate::doctor::{facts, judge};
use crate::health::ShownBytes;
use crate::html::Html;
use crate::language::{Language, fill};

/// Returns the line that says whether all is well.
///
/// # Errors
/// The store or the shards don't answer in time.
pub async fn strip(visit: &Visit, census: &ShardCensus) -> Outcome<Html> {
    let facts = facts::present(&visit.shared, &visit.domains, census.clone()).await?;
    let settings = visit.shared.settings();
    let is_of_server = visit.domains.iter().any(|domain| domain == settings.hub.default_domain());
    let mut found = if is_of_server { judge::all(&facts) } else { judge::of_domains(&facts) };
    found.retain(|finding| finding.grade > Grade::Fine);
    Ok(html(visit.language, &found))
}

fn html(language: Language, found: &[DoctorFinding]) -> Html {
    let words = language.of_administrators();
    if found.is_empty() {
        return Html::of("<p id=\"well\" class=\"notice good\"><strong>{}</strong></p>", &[&words.all_well]);
    }
    let is_urgent = found.iter().any(|finding| finding.grade == Grade::Urgent);
    let class = if is_urgent { "notice bad" } else { "notice warn" };
    let mut html = Html::of("<section id=\"to-do\" class=\"{}\"><h2>{}</h2><ul>", &[&class, &words.to_do]);
    for finding in found.iter().take(SHOWN) {
        html.add("<li>", &[]);
        html.prose(&sentence(language, finding));
        html.add("</li>", &[]);
    }
    if let Some(more) = found.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        html.add("<li>", &[]);
        html.prose(&format!("{}.", language.count(words.more_findings, more as u64)));
        html.add("</li>", &[]);
    }
    html.add("</ul></section>", &[]);
    html
}

/// Returns a finding with its remedy, in a language.
fn sentence(language: Language, finding: &DoctorFinding) -> String {
    let words = language.of_administrators();
    let plural = |text, count| language.plural(text, count);
    let amount = |bytes: u64| language.amount(&ShownBytes(bytes).to_string());
    match &finding.fact {
        None => finding.words(),
        Some(DoctorFact::DiskLow(space)) => fill(words.disk_nearly_full, &[&amount(space.free), &amount(space.total)]),
        Some(DoctorFact::DiskFull(space)) => fill(words.disk_full, &[&amount(space.free), &amount(space.total)]),
        Some(DoctorFact::CertificateEnded(domain)) => fill(words.certificate_ended, &[domain]),
        Some(DoctorFact::CertificateEnds(domain, days)) => fill(plural(words.certificate_ends, *days), &[domain, days]),
        Some(DoctorFact::Refused(count)) => language.count(words.store_refused, *count),
        Some(DoctorFact::Missing(count)) => language.count(words.archive_lacks, *count),
        Some(DoctorFact::Reports(count)) => language.count(words.reports_wait, *count),
        Some(DoctorFact::Guesses(all, most, worst)) => fill(words.logins_fail, &[all, most, worst]),
        Some(DoctorFact::Bucket(count)) => language.count(words.bucket_fails, *count),
        Some(DoctorFact::Restart(changed)) => fill(words.restart_needed, &[&changed.0]),
        Some(DoctorFact::DiskFills(hourly, days)) => fill(plural(words.disk_fills, *days), &[&amount(*hourly), days]),
        Some(DoctorFact::StoreAway(ms)) => fill(words.store_away, &[&lasting(language, *ms)]),
        Some(DoctorFact::StoreStuck(ms)) => fill(words.store_stuck, &[&lasting(language, *ms)]),
        Some(DoctorFact::StoreSlow(ms)) => fill(words.store_slow, &[&lasting(language, *ms)]),
        Some(DoctorFact::ShardsSilent(silent, all)) => fill(words.shards_silent, &[silent, all]),
        Some(DoctorFact::DeliverySlow(ms)) => fill(words.delivery_slow, &[&lasting(language, *ms)]),
        Some(DoctorFact::Readers(count, bytes)) => fill(plural(words.readers_slow, *count), &[count, &amount(*bytes)]),
        Some(DoctorFact::Memory(bytes)) => fill(words.memory_high, &[&amount(*bytes)]),
        Some(DoctorFact::Descriptors(open, most)) => fill(words.descriptors_low, &[open, most]),
        Some(DoctorFact::SourceAway(key, domain)) => fill(words.source_away, &[key, domain]),
        Some(DoctorFact::ServersAway(count, names)) => fill(plural(words.servers_away, *count), &[count, names]),
        Some(DoctorFact::Slow(count)) => language.count(words.much_slow, *count),
        Some(DoctorFact::Senders(count)) => language.count(words.senders_fast, *count),
        Some(DoctorFact::RedisAway) => words.redis_away.to_owned(),
        Some(DoctorFact::JournalAway) => words.journal_away.to_owned(),
        Some(DoctorFact::NodeSilent(name)) => fill(words.node_silent, &[name]),
        Some(DoctorFact::ClockApart(name, seconds)) => fill(words.clock_apart, &[name, seconds]),
        Some(DoctorFact::NodeSlow(name, bytes)) => fill(words.node_slow, &[&amount(*bytes), name]),
    }
}

/// Returns a duration in milliseconds, or in seconds from one second on.
fn lasting(language: Language, ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        _ => language.amount(&format!("{:.1} s", ms as f64 / 1000.0)),
    }
}

/// The most findings that are shown.
const SHOWN: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::{self, HOUR_MS};

    #[test]
    fn the_most_urgent_findings_are_shown_and_the_others_counted() {
        let of = |day: u64| finding::certificate("a.example", day * 24 * HOUR_MS, 0);
        let found: Vec<_> = (1..=10).map(of).collect();
        let shown = html(Language::German, &found).into_text();
        assert_eq!(shown.matches("Das Zertifikat von").count(), SHOWN);
        assert!(
            shown.contains("<li>und 2 weitere Punkte: <code>rookery doctor</code> zählt alle auf.</li>"),
            "{shown}"
        );
    }

    #[test]
    fn durations_are_written_as_readers_write_them() {
        assert_eq!(lasting(Language::German, 250), "250 ms");
        assert_eq!(lasting(Language::German, 4321), "4,3 s");
        assert_eq!(lasting(Language::English, 4321), "4.3 s");
    }

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
