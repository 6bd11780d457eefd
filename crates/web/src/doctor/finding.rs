//! Findings about the running server: a fact with its number, its importance, and the remedy. The
//! strip on the admin page and `rookery doctor` show the same ones.

use std::collections::BTreeMap;
use std::net::IpAddr;

use rookery_base::count_of;
use rookery_shard::{LoginCensus, ShardCensus};

use crate::comparison::ChangedKey;
use crate::health::{DiskFill, Space};
use crate::machine::ProcessReadings;

/// A finding of the doctor, in English.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DoctorFinding {
    /// The grade, by which findings are sorted.
    pub grade: Grade,
    /// The part of the server that it is about.
    pub about: &'static str,
    /// The fact, as a sentence.
    pub what: String,
    /// The importance, as a sentence; empty if nothing is wrong.
    pub why: String,
    /// The remedy, as a sentence; empty if there is none.
    pub remedy: String,
    /// The fact as data, if the finding is also shown in other languages.
    pub fact: Option<DoctorFact>,
}

/// The data of a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DoctorFact {
    /// The disk has only this space left.
    DiskLow(Space),
    /// The disk has so little space left that it counts as full.
    DiskFull(Space),
    /// The certificate of a domain has expired.
    CertificateEnded(String),
    /// The certificate of a domain expires in this number of days.
    CertificateEnds(String, u64),
    /// The database has refused this number of operations in the last ten minutes.
    Refused(u64),
    /// This number of messages is missing in archives.
    Missing(u64),
    /// This number of reports of abuse is waiting.
    Reports(u64),
    /// This number of logins failed; the most from one address, and that address.
    Guesses(u64, u64, IpAddr),
    /// The bucket of uploads has failed this number of times since the start, and recently.
    Bucket(u64),
    /// A change waits for a restart.
    Restart(ChangedKey),
    /// The disk loses these bytes an hour, and is full in this number of days.
    DiskFills(u64, u64),
    /// The number of milliseconds for which the database has been unreachable.
    StoreAway(u64),
    /// An operation has waited this many milliseconds for the database.
    StoreStuck(u64),
    /// Waits for the database took up to this many milliseconds.
    StoreSlow(u64),
    /// Some shards don't answer: their number, and that of all shards.
    ShardsSilent(usize, usize),
    /// Copies were written after up to this many milliseconds.
    DeliverySlow(u64),
    /// Some sessions read slowly: their number, and the bytes that wait for all sessions.
    Readers(u64, u64),
    /// The bytes of memory per session.
    Memory(u64),
    /// The open descriptors, and the most that may be open.
    Descriptors(u64, u64),
    /// The source of this key vouches for the logins of this domain, and is unreachable.
    SourceAway(&'static str, String),
    /// The number of other servers that can't be reached, and the names of some.
    ServersAway(u64, String),
    /// The number of slow events in the last ten minutes.
    Slow(u64),
    /// Sessions that sent too fast were slowed down this number of times in the last ten minutes.
    Senders(u64),
    /// The Redis of the cluster can't be reached.
    RedisAway,
    /// Redis doesn't accept the journal of this node.
    JournalAway,
    /// This node of the cluster is silent.
    NodeSilent(String),
    /// This node of the cluster takes letters slowly, so this number of bytes waits for it.
    NodeSlow(String, u64),
    /// The clock of this node of the cluster is this number of seconds ahead or behind.
    ClockApart(String, u64),
}

/// The grades of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Grade {
    /// All is well.
    Fine,
    /// It needs attention.
    Warning,
    /// Users are affected already.
    Urgent,
}

impl Grade {
    /// Returns the name of the grade in the API and on the terminal.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Warning => "warning",
            Self::Urgent => "urgent",
        }
    }
}

impl DoctorFinding {
    /// Returns a finding without a problem.
    pub fn fine(about: &'static str, what: String) -> Self {
        Self { grade: Grade::Fine, about, what, why: String::new(), remedy: String::new(), fact: None }
    }

    /// Returns a finding with a problem.
    pub fn wrong(grade: Grade, about: &'static str, what: String, why: &str, remedy: &str) -> Self {
        Self { grade, about, what, why: why.to_owned(), remedy: remedy.to_owned(), fact: None }
    }

    /// Adds the fact as data.
    pub fn of(self, fact: DoctorFact) -> Self {
        Self { fact: Some(fact), ..self }
    }

    /// Returns the fact and the remedy.
    pub fn words(&self) -> String {
        format!("{} {}", self.what, self.remedy).trim_end().to_owned()
    }
}

/// Assesses the space on a disk.
pub(crate) fn disk(space: Space) -> DoctorFinding {
    let (grade, how, fact): (_, _, fn(Space) -> DoctorFact) = match space.fill() {
        DiskFill::Fine => return DoctorFinding::fine(DISK, format!("The disk of the data folder has room: {space}.")),
        DiskFill::Low => (Grade::Warning, "nearly full", DoctorFact::DiskLow),
        DiskFill::Full => (Grade::Urgent, "full", DoctorFact::DiskFull),
    };
    let why = "If nothing can be written any more, messages and changes are lost.";
    let what = format!("The disk is {how}: {space}.");
    DoctorFinding::wrong(grade, DISK, what, why, "Make room on the disk.").of(fact(space))
}

/// Assesses the expiry of a domain's certificate.
pub(crate) fn certificate(domain: &str, ends_ms: u64, now_ms: u64) -> DoctorFinding {
    let why = "Clients and other servers refuse a certificate that has expired.";
    if ends_ms <= now_ms {
        let what = format!("The certificate of {domain} has expired: clients refuse to connect.");
        let fact = DoctorFact::CertificateEnded(domain.to_owned());
        return DoctorFinding::wrong(Grade::Urgent, CERTIFICATE, what, why, "Renew it.").of(fact);
    }
    let days = (ends_ms - now_ms) / (24 * HOUR_MS);
    let unit = if days == 1 { "day" } else { "days" };
    let what = format!("The certificate of {domain} expires in {days} {unit}.");
    match days < WARN_DAYS {
        true => {
            let remedy = "Renew it, or look in the log for the reason why that failed.";
            let fact = DoctorFact::CertificateEnds(domain.to_owned(), days);
            DoctorFinding::wrong(Grade::Warning, CERTIFICATE, what, why, remedy).of(fact)
        }
        false => DoctorFinding::fine(CERTIFICATE, what),
    }
}

/// Assesses the refusals of the database: the recent ones, and those since the start by which
/// messages were lost.
pub(crate) fn refusals(census: &ShardCensus, recent: u64) -> DoctorFinding {
    let (lost, errors) = (census.counters.archive_lost, census.counters.store_errors);
    let why = "The server can't store what the database refuses; clients that wait for it get an error.";
    let remedy = "The log of the process gives the reason.";
    match (lost, recent) {
        (0, 0) => {
            let what =
                format!("The database has refused no operation in the last ten minutes, {errors} since the start.");
            DoctorFinding::fine(STORE, what)
        }
        (0, recent) => {
            let what = format!(
                "The database has refused {} in the last ten minutes, {errors} since the start.",
                count_of(recent, "operation")
            );
            DoctorFinding::wrong(Grade::Warning, STORE, what, why, remedy).of(DoctorFact::Refused(recent))
        }
        (lost, _) => {
            let is = if lost == 1 { "is" } else { "are" };
            let what = format!("{} {is} missing from archives since the start.", count_of(lost, "message"));
            DoctorFinding::wrong(Grade::Urgent, STORE, what, why, remedy).of(DoctorFact::Missing(lost))
        }
    }
}

/// Assesses the descriptors of the process, if they are bounded.
pub(crate) fn descriptors(process: ProcessReadings) -> Option<DoctorFinding> {
    let most = process.most_descriptors?;
    let share = process.descriptors as f64 / most.max(1) as f64;
    let what = format!("{} of {most} file descriptors are open, {:.0} %.", process.descriptors, 100.0 * share);
    if share < MANY_DESCRIPTORS {
        return Some(DoctorFinding::fine(DESCRIPTORS, what));
    }
    let why = "Without a free descriptor no connection is accepted.";
    let remedy = "Raise the limit of open files (LimitNOFILE).";
    let fact = DoctorFact::Descriptors(process.descriptors, most);
    Some(DoctorFinding::wrong(Grade::Warning, DESCRIPTORS, what, why, remedy).of(fact))
}

/// Assesses the sources that vouch for logins; there are none if the store has all passwords.
pub(crate) fn sources(logins: &LoginCensus) -> Vec<DoctorFinding> {
    let away = logins.sources.iter().filter(|(_, seen)| seen.is_away);
    let away: Vec<_> = away.map(|((domain, key), _)| source_away(domain, key)).collect();
    match logins.sources.len() {
        0 => Vec::new(),
        _ if !away.is_empty() => away,
        count => vec![DoctorFinding::fine(LOGINS, format!("Login sources that respond: {count}."))],
    }
}

fn source_away(domain: &str, key: &'static str) -> DoctorFinding {
    let what = format!("The login source of {domain} ({key}) is unreachable.");
    let why = "Its users can't log in.";
    let remedy = "Check that it is running; the log of the process says what is wrong.";
    DoctorFinding::wrong(Grade::Urgent, LOGINS, what, why, remedy).of(DoctorFact::SourceAway(key, domain.to_owned()))
}

/// Assesses the waiting reports of abuse.
pub(crate) fn abuse(reports: usize) -> DoctorFinding {
    let words = match reports {
        0 => return DoctorFinding::fine(ABUSE, "There are no open abuse reports.".into()),
        1 => "An abuse report is open".to_owned(),
        many => format!("{many} abuse reports are open"),
    };
    let why = "Users have asked for help.";
    let remedy = "The tab Reports shows their text.";
    let fact = DoctorFact::Reports(reports as u64);
    DoctorFinding::wrong(Grade::Warning, ABUSE, format!("{words}."), why, remedy).of(fact)
}

/// Assesses the failed logins of the last hour, by their addresses.
pub(crate) fn guesses(addresses: impl Iterator<Item = IpAddr>) -> DoctorFinding {
    let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
    addresses.for_each(|address| *counts.entry(address).or_default() += 1);
    let all: usize = counts.values().sum();
    match counts.into_iter().max_by_key(|(_, count)| *count) {
        Some((worst, most)) if all >= MANY_FAILURES => {
            let what = format!("{all} logins failed within the last hour, {most} of them from {worst}.");
            let why = "Somebody may be guessing passwords.";
            let remedy = "The tab Log of the admin page lists them; guesses are slowed down automatically.";
            let fact = DoctorFact::Guesses(all as u64, most as u64, worst);
            DoctorFinding::wrong(Grade::Warning, LOGINS, what, why, remedy).of(fact)
        }
        _ => DoctorFinding::fine(LOGINS, format!("{all} logins failed within the last hour.")),
    }
}

/// Assesses the bucket of uploads, if there is one, by its failures since the start and the time of
/// the last one.
pub(crate) fn bucket(failures: Option<(u64, u64)>, now_ms: u64) -> Option<DoctorFinding> {
    let (count, last_ms) = failures?;
    if count == 0 || last_ms.saturating_add(HOUR_MS) < now_ms {
        return Some(DoctorFinding::fine(
            UPLOADS,
            "The bucket of uploads had no failures within the last hour.".into(),
        ));
    }
    let what = format!("The bucket of uploads has failed within the last hour, {count} times since the start.");
    let why = "Meanwhile users can't share files, or can't download shared ones.";
    let remedy = "The log of the process gives the reason.";
    Some(DoctorFinding::wrong(Grade::Urgent, UPLOADS, what, why, remedy).of(DoctorFact::Bucket(count)))
}

/// Returns the finding for a change that needs a restart.
pub(crate) fn restart(changed: &ChangedKey) -> DoctorFinding {
    let why = "The server uses the old value until then.";
    DoctorFinding::wrong(Grade::Warning, "configuration", format!("{changed}."), why, "")
        .of(DoctorFact::Restart(changed.clone()))
}

pub(crate) const DISK: &str = "disk";
pub(crate) const STORE: &str = "store";
const CERTIFICATE: &str = "certificate";
const DESCRIPTORS: &str = "descriptors";
const ABUSE: &str = "abuse";
const LOGINS: &str = "logins";
const UPLOADS: &str = "uploads";
pub(crate) const HOUR_MS: u64 = 3_600_000;
/// The number of days before the expiry of a certificate from which it is reported.
const WARN_DAYS: u64 = 14;
/// The share of used descriptors that leaves too few for a wave of clients.
const MANY_DESCRIPTORS: f64 = 0.8;
/// The number of failures within an hour that forgotten passwords can't explain.
const MANY_FAILURES: usize = 50;

#[cfg(test)]
mod tests {
    use rookery_hub::SourceSeen;

    use super::*;

    #[test]
    fn a_disk_is_full_nearly_full_or_none_of_it() {
        let grade = |free, total| disk(Space { free, total }).grade;
        let gib = 1 << 30;
        assert_eq!(grade(50 * gib, 100 * gib), Grade::Fine);
        assert_eq!(grade(gib, 100 * gib), Grade::Warning);
        assert_eq!(grade(1 << 20, 100 * gib), Grade::Urgent);
    }

    #[test]
    fn a_certificate_ends() {
        let day = 24 * HOUR_MS;
        assert_eq!(certificate("a.example", 30 * day, 0).grade, Grade::Fine);
        assert!(certificate("a.example", 5 * day, 0).what.contains("expires in 5 days"));
        assert!(certificate("a.example", day, 0).what.contains("expires in 1 day."));
        assert_eq!(certificate("a.example", day, day).grade, Grade::Urgent);
    }

    #[test]
    fn many_failures_name_the_worst_address() {
        let of = |last: u8| IpAddr::from([192, 0, 2, last]);
        assert_eq!(guesses((0..MANY_FAILURES - 1).map(|_| of(1))).grade, Grade::Fine);
        let found = guesses((0..MANY_FAILURES).map(|at| of(if at < 10 { 1 } else { 2 })));
        assert!(
            found.what.starts_with("50 logins failed") && found.what.contains("40 of them from 192.0.2.2"),
            "{found:?}"
        );
    }

    #[test]
    fn a_bucket_that_failed_lately_is_told() {
        assert_eq!(bucket(None, 0), None, "there is none");
        let grade = |failures| bucket(Some(failures), 2 * HOUR_MS).map(|found| found.grade);
        assert_eq!(grade((0, 0)), Some(Grade::Fine));
        assert_eq!(grade((3, HOUR_MS / 2)), Some(Grade::Fine), "long ago");
        assert_eq!(grade((3, HOUR_MS)), Some(Grade::Urgent));
    }

    #[test]
    fn a_login_source_that_is_away_is_named() {
        assert!(sources(&LoginCensus::default()).is_empty(), "the store has all passwords");
        let seen = |is_away| SourceSeen { name: "ldap", is_away, ..SourceSeen::default() };
        let census = |is_away| LoginCensus {
            sources: [(("a.example".to_owned(), "ldap"), seen(is_away))].into(),
            ..LoginCensus::default()
        };
        assert_eq!(sources(&census(false))[0].grade, Grade::Fine);
        let found = sources(&census(true));
        assert_eq!(
            (found[0].grade, &found[0].what[..]),
            (Grade::Urgent, "The login source of a.example (ldap) is unreachable.")
        );
    }

    #[test]
    fn reports_are_counted() {
        assert_eq!(abuse(0).grade, Grade::Fine);
        assert!(abuse(1).what.starts_with("An abuse report is open."));
        assert!(abuse(3).what.starts_with("3 abuse reports are open."));
    }
}
