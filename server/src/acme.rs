//! Certificates from an ACME authority: which ones are due, where they are stored, and the thread
//! that requests them.
//!
//! # Invariants
//!
//! - The chain and key of a domain are one file, written completely or not at all, so that they
//!   match.
//! - A domain whose certificate can't be obtained keeps its current one, and is tried again later,
//!   at doubling intervals.
//! - A certificate names the domain and, if that is configured, the addresses of its services; one
//!   that lacks a name is requested again.
//! - The rest of the server continues meanwhile; it reads the certificates again when they change.
//! - In a cluster one node asks the authority, and the others use the result.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use rookery_stream::tls::certificate::{Inspection, inspect};
use rookery_web::acme::{AcmeAuthority, AcmeClient, Challenges};
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use crate::acme_shared::SharedCertificates;
use crate::clock;
use crate::config::{DomainConfig, ServerConfig};
use crate::failure::CommandFailure;
use crate::folder::{self, Folder};

/// The thread that obtains certificates. It ends some time after this handle is dropped.
pub struct Renewal {
    plans: mpsc::Sender<Option<AcmePlan>>,
}

/// The certificates to obtain, the authority and the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmePlan {
    authority: AcmeAuthority,
    certificates: Vec<WantedNames>,
    folder: Folder,
}

/// A certificate, all names in A-labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedNames {
    /// The domain, by which its file is named.
    pub domain: String,
    /// The names that it must have: the domain, and some of its services.
    pub names: Vec<String>,
}

impl AcmePlan {
    /// Returns the plan of a configuration; `None` if it configures no certificates by ACME.
    pub fn of(config: &ServerConfig, folder: &Folder) -> Option<AcmePlan> {
        let certificates = wanted_certificates(config);
        let acme = &config.acme;
        let authority = AcmeAuthority {
            directory: acme.directory.clone(),
            contacts: acme.contacts.clone(),
            trusted: acme.trusted.clone(),
        };
        (!certificates.is_empty()).then(|| AcmePlan { authority, certificates, folder: folder.clone() })
    }
}

/// Returns the certificates that a configuration requests by ACME.
pub fn wanted_certificates(config: &ServerConfig) -> Vec<WantedNames> {
    let domains = config.domains.iter().filter(|domain| covers(config, domain));
    let wanted = domains.filter_map(|domain| {
        let services = config.acme.services.iter().filter_map(|module| ascii(&domain.service(module)?));
        let own = ascii(&domain.name)?;
        Some(WantedNames { names: std::iter::once(own.clone()).chain(services).collect(), domain: own })
    });
    wanted.collect()
}

/// Returns the file of a domain's certificate and key, if the configuration requests one by ACME
/// and it exists.
pub fn issued_file(config: &ServerConfig, folder: &Folder, domain: &DomainConfig) -> Option<PathBuf> {
    let file = folder.issued_file(&ascii(&domain.name).filter(|_| covers(config, domain))?);
    file.is_file().then_some(file)
}

impl Renewal {
    /// Starts the thread. `renewed` is called in it when certificates have changed.
    ///
    /// # Errors
    /// The system can't start a thread.
    pub fn start(
        plan: Option<AcmePlan>,
        challenges: Challenges,
        shared: Option<SharedCertificates>,
        renewed: impl Fn() + Send + 'static,
    ) -> Result<Renewal, CommandFailure> {
        let (plans, changes) = mpsc::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let failed = |error: std::io::Error| {
            CommandFailure::Failed(format!("no thread for certificates can be started: {error}"))
        };
        let runtime = runtime.map_err(failed)?;
        let asking = AcmeAsking { challenges, shared };
        let work = move || follow(plan, &changes, &runtime, &asking, &renewed);
        std::thread::Builder::new().name("acme".into()).spawn(|| rookery_observe::vital(work)).map_err(failed)?;
        Ok(Renewal { plans })
    }

    /// Switches to another plan. Failed requests are retried at once.
    pub fn change(&self, plan: Option<AcmePlan>) {
        // A thread that has ended needs no plan.
        let _ = self.plans.send(plan);
    }
}

/// Obtains certificates as they become due and sleeps in between, until no sender of plans is left.
fn follow(
    mut plan: Option<AcmePlan>,
    changes: &mpsc::Receiver<Option<AcmePlan>>,
    runtime: &tokio::runtime::Runtime,
    asking: &AcmeAsking,
    renewed: &impl Fn(),
) {
    let mut failures = HashMap::new();
    loop {
        let mut wait = LONGEST;
        if let Some(plan) = &plan {
            if runtime.block_on(get_due(plan, asking, &mut failures)) {
                renewed();
            }
            let next = plan.certificates.iter().map(|wanted| next_try(plan, wanted, &failures)).min();
            let seconds = next.unwrap_or(i64::MAX).saturating_sub(clock::now() as i64).max(1);
            wait = wait.min(Duration::from_secs(seconds.unsigned_abs()));
            if asking.shared.is_some() {
                // Another node may have obtained a certificate, so this one looks within a minute.
                wait = wait.clamp(LOOK / 6, LOOK);
            }
        }
        match changes.recv_timeout(wait) {
            Ok(changed) => {
                plan = changed;
                failures.clear();
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// The number of a domain's consecutive failures, and the time of the next attempt, in seconds
/// since 1970.
type Failures = HashMap<String, (u32, i64)>;

/// The means of proving a domain, and the certificates that nodes share.
struct AcmeAsking {
    challenges: Challenges,
    shared: Option<SharedCertificates>,
}

/// Adopts certificates that other nodes have obtained. Returns whether there were any.
async fn take_over(plan: &AcmePlan, shared: &SharedCertificates) -> bool {
    let mut any = false;
    for WantedNames { domain, .. } in &plan.certificates {
        let file = plan.folder.issued_file(domain);
        let Some(pem) = shared.newer(domain, &file).await else { continue };
        match write(&file, &pem) {
            Ok(()) => {
                info!(domain, "a certificate obtained by another node is now in use");
                any = true;
            }
            Err(cause) => warn!(domain, cause, "a certificate from another node can't be saved"),
        }
    }
    any
}

/// Obtains all due certificates from other nodes or from the authority. Returns whether there were
/// any.
async fn get_due(plan: &AcmePlan, asking: &AcmeAsking, failures: &mut Failures) -> bool {
    let Some(shared) = &asking.shared else { return order_due(plan, asking, failures).await };
    let mut any = take_over(plan, shared).await;
    let now = clock::now() as i64;
    let is_due = plan.certificates.iter().any(|wanted| next_try(plan, wanted, failures) <= now);
    if is_due && shared.take_turn(now).await {
        // The node whose turn it was before may have obtained some of them.
        any |= take_over(plan, shared).await;
        any |= order_due(plan, asking, failures).await;
        shared.give_turn_back().await;
    }
    any
}

/// Orders all due certificates. Returns whether there were any.
async fn order_due(plan: &AcmePlan, asking: &AcmeAsking, failures: &mut Failures) -> bool {
    let now = clock::now() as i64;
    let due = plan.certificates.iter().filter(|wanted| next_try(plan, wanted, failures) <= now);
    let due: Vec<&WantedNames> = due.collect();
    if due.is_empty() {
        return false;
    }
    let mut any = false;
    let client = open(plan).await;
    for wanted in due {
        let got = match &client {
            Ok(client) => get(plan, client, wanted, asking).await,
            Err(cause) => Err(cause.clone()),
        };
        let WantedNames { domain, names } = wanted;
        match got {
            Ok(()) => {
                info!(names = names.join(", "), "a certificate was issued");
                failures.remove(domain);
                any = true;
            }
            Err(cause) => {
                let (count, again) = failures.entry(domain.clone()).or_insert((0, 0));
                let wait = FIRST_WAIT.saturating_mul(1 << (*count).min(10)).min(LONGEST.as_secs());
                (*count, *again) = (*count + 1, clock::now() as i64 + wait as i64);
                warn!(domain, cause, again_in_seconds = wait, "no certificate was issued");
            }
        }
    }
    any
}

async fn get(plan: &AcmePlan, client: &AcmeClient, wanted: &WantedNames, asking: &AcmeAsking) -> Result<(), String> {
    let issued = client.certificate(&wanted.names, &asking.challenges).await?;
    let text = format!("{}\n{}", issued.chain.trim_end(), issued.key);
    write(&plan.folder.issued_file(&wanted.domain), &text)?;
    match &asking.shared {
        Some(shared) => shared.publish(&wanted.domain, &text).await,
        None => Ok(()),
    }
}

/// The account, with the authority that it is registered with: other authorities don't know it.
#[derive(Serialize, Deserialize)]
struct KeptAccount {
    directory: String,
    account: String,
}

/// Opens the account at the authority: the stored one, or a new one.
async fn open(plan: &AcmePlan) -> Result<AcmeClient, String> {
    let file = plan.folder.account();
    let kept = fs::read_to_string(&file).ok().and_then(|text| toml::from_str::<KeptAccount>(&text).ok());
    let kept = kept.filter(|kept| kept.directory == plan.authority.directory);
    let (client, made) = AcmeClient::open(&plan.authority, kept.as_ref().map(|kept| kept.account.as_str())).await?;
    if let Some(account) = made {
        let kept = KeptAccount { directory: plan.authority.directory.clone(), account };
        write(&file, &toml::to_string(&kept).map_err(|error| error.to_string())?)?;
    }
    Ok(client)
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    let parent = file.parent().unwrap_or(Path::new("."));
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(parent);
    made.map_err(|error| format!("{}: {error}", parent.display()))?;
    folder::write(file, text, 0o600).map_err(|failure| failure.to_string())
}

/// Returns the time at which a domain's certificate is due, in seconds since 1970. It is due at
/// once if there is none, and when the last third of its life begins; after failures, later.
fn next_try(plan: &AcmePlan, wanted: &WantedNames, failures: &Failures) -> i64 {
    let seen = fs::read(plan.folder.issued_file(&wanted.domain)).ok().and_then(|pem| inspect(&pem).ok());
    let seen = seen.filter(|seen| wanted.names.iter().all(|name| seen.covers(name)));
    let due = seen.map_or(0, |seen| due(&seen));
    failures.get(&wanted.domain).map_or(due, |(_, again)| due.max(*again))
}

fn due(seen: &Inspection) -> i64 {
    seen.not_after - (seen.not_after - seen.not_before) / 3
}

/// Returns whether a domain should have a certificate by ACME: it has no certificate files of its
/// own and, if the configuration names domains for ACME, is one of those.
fn covers(config: &ServerConfig, domain: &DomainConfig) -> bool {
    let acme = &config.acme;
    let is_named = acme.domains.is_empty() || acme.domains.contains(&domain.name);
    acme.enabled && is_named && config.files_of(domain).is_none()
}

/// Returns a domain in A-labels, as authorities expect it; `None` if it can't be a name in DNS.
pub fn ascii(domain: &str) -> Option<String> {
    let ascii = idna::domain_to_ascii(domain).ok()?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
    (!ascii.is_empty() && !ascii.starts_with('.') && ascii.bytes().all(plain)).then_some(ascii)
}

/// The seconds until the second attempt. Authorities allow a host five failures an hour.
const FIRST_WAIT: u64 = 600;
/// The longest time that a node of a cluster sleeps before it checks whether other nodes have
/// obtained certificates.
const LOOK: Duration = Duration::from_secs(60);
/// The longest time that the thread sleeps.
const LONGEST: Duration = Duration::from_secs(12 * 60 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(folder: &Path) -> AcmePlan {
        let authority = AcmeAuthority { directory: "https://a.example/".into(), contacts: vec![], trusted: None };
        AcmePlan { authority, certificates: vec![names(&[])], folder: Folder::new(folder.to_owned()) }
    }

    fn names(services: &[&str]) -> WantedNames {
        let names = std::iter::once("a.example").chain(services.iter().copied()).map(str::to_owned);
        WantedNames { domain: "a.example".into(), names: names.collect() }
    }

    #[test]
    fn a_certificate_is_due_when_a_third_of_its_life_is_left() {
        let seen = |not_before, not_after| Inspection { not_before, not_after, names: vec![], self_signed: false };
        assert_eq!(due(&seen(0, 90)), 60);
        assert_eq!(due(&seen(100, 106)), 104);
    }

    #[test]
    fn what_is_missing_is_due_at_once_unless_it_has_failed() {
        let directory = tempfile::tempdir().unwrap();
        let plan = plan(directory.path());
        let mut failures = Failures::new();
        assert_eq!(next_try(&plan, &names(&[]), &failures), 0);
        failures.insert("a.example".into(), (1, 600));
        assert_eq!(next_try(&plan, &names(&[]), &failures), 600);
        write(&plan.folder.issued_file("a.example"), "no certificate").unwrap();
        assert_eq!(next_try(&plan, &names(&[]), &Failures::new()), 0, "what can't be read is requested again");
        let made = rookery_stream::tls::certificate::self_signed(&["a.example".to_owned()], 1_000_000).unwrap();
        write(&plan.folder.issued_file("a.example"), &made.certificate).unwrap();
        assert!(next_try(&plan, &names(&[]), &Failures::new()) > 0);
        assert_eq!(next_try(&plan, &names(&["upload.a.example"]), &Failures::new()), 0, "it lacks a name");
    }

    #[test]
    fn only_names_of_dns_become_files() {
        assert_eq!(ascii("M\u{fc}nchen.example").as_deref(), Some("xn--mnchen-3ya.example"));
        for bad in ["", "a/b", "..", "[::1]", "a b"] {
            assert_eq!(ascii(bad), None, "{bad}");
        }
    }
}
