//! Turns the configuration into the settings of streams with other servers and components.

use std::fs;
use std::sync::Arc;

use rookery_federation::{
    ComponentSecret, ComponentTerms, FederationSettings, Found, NotFound, Own, PeerPolicy, Rules, Secret,
};
use rookery_resolver::{Dns, DocumentWeb};
use rookery_shard::{FederationTerms, Resolver};
use rookery_stream::tls::Identity;
use rookery_stream::tls::peer::PeerSettings;
use rookery_stream::tls::trust::Trust;
use tracing::warn;

use crate::certificate::ServerCertificate;
use crate::config::{self, ComponentConfig, ConfigError, DomainConfig, OwnFederation, ServerConfig};
use crate::database::Decoys;
use crate::failure::CommandFailure;

/// One generation of the settings of streams with other servers, with the thread that queries DNS.
#[derive(Clone)]
pub struct Federated {
    /// The settings for the shards.
    pub terms: Arc<FederationTerms>,
    /// `None` if there are only components.
    dns: Option<Arc<Dns>>,
    /// The settings of DNS queries.
    pub asked: rookery_resolver::ResolverSettings,
}

impl std::fmt::Debug for Federated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.terms.fmt(f)
    }
}

/// Returns the settings and DNS thread for other servers and components; `None` if there are to be
/// none. The thread of `old` is kept if its settings are the same.
///
/// # Errors
///
/// [`CommandFailure::Config`] for a file of an authority or of a secret that can't be used,
/// [`CommandFailure::Failed`] if DNS can't be queried at all.
pub fn load(
    config: &ServerConfig,
    certificates: &[ServerCertificate],
    decoys: &Decoys,
    old: Option<&Federated>,
) -> Result<Option<Federated>, CommandFailure> {
    let has_others = config.federates();
    if !has_others && config.components.is_empty() {
        return Ok(None);
    }
    let trust = Arc::new(trust(config)?);
    let asked = dns_settings(config, Some(&trust));
    let dns = match old.filter(|old| old.asked == asked).and_then(|old| old.dns.clone()) {
        _ if !has_others => None,
        Some(dns) => Some(dns),
        None => {
            let started = Dns::start(asked.clone());
            Some(Arc::new(started.map_err(|error| CommandFailure::Failed(format!("DNS can't be asked: {error}")))?))
        }
    };
    let identities: Vec<Identity> = certificates.iter().map(|certificate| certificate.identity.clone()).collect();
    let domains =
        config.domains.iter().flat_map(|domain| std::iter::once(domain.name.clone()).chain(domain.services()));
    let components = config.components.iter().map(|component| component.name.clone());
    let domains: Vec<String> = domains.chain(components).collect();
    let tls = PeerSettings::new(&identities, &domains).map_err(|error| ConfigError::because(error.to_string()))?;
    let resolver: Arc<dyn Resolver> = match &dns {
        Some(dns) => dns.clone(),
        None => Arc::new(Nowhere),
    };
    let settings =
        FederationSettings { uncertified: uncertified_domains(certificates, &domains), ..settings(config, decoys)? };
    for domain in &settings.uncertified {
        if settings.federates(domain) && settings.rules_of(domain).policy == PeerPolicy::Certificate {
            warn!(%domain, "this domain has only a self-signed certificate, so it doesn't connect to other servers; get one from an authority");
        }
    }
    let terms = FederationTerms { settings: Arc::new(settings), tls: Arc::new(tls), trust, resolver };
    Ok(Some(Federated { terms: Arc::new(terms), dns, asked }))
}

/// Returns the domains among these that have no certificate but the server's self-signed one, by
/// the rule of [`PeerSettings::new`].
fn uncertified_domains(certificates: &[ServerCertificate], domains: &[String]) -> Vec<Box<str>> {
    let is_own = |domain: &&String| {
        let is_for =
            |found: &&ServerCertificate| found.inspection.covers(domain.as_str()) || found.domains.contains(*domain);
        certificates.iter().find(is_for).or(certificates.first()).is_some_and(|shown| shown.own)
    };
    domains.iter().filter(is_own).map(|domain| domain.as_str().into()).collect()
}

/// Returns the settings of DNS queries. They include the web if the operator enables it and there
/// are authorities to verify its certificates.
pub fn dns_settings(config: &ServerConfig, trust: Option<&Arc<Trust>>) -> rookery_resolver::ResolverSettings {
    let given = &config.federation;
    let web = |trust: &Arc<Trust>| DocumentWeb::new(trust.clone(), given.allow_private_addresses);
    rookery_resolver::ResolverSettings {
        servers: given.dns.clone(),
        dnssec: given.dnssec,
        routes: given.routes.clone(),
        web: trust.filter(|_| given.host_meta).map(web),
    }
}

/// A resolver that finds no server, where there are only components.
struct Nowhere;

impl Resolver for Nowhere {
    fn resolve(&self, _: &str, tell: Box<dyn FnOnce(Found) + Send>) {
        tell(Err(NotFound::NoServer));
    }
}

fn settings(config: &ServerConfig, decoys: &Decoys) -> Result<FederationSettings, ConfigError> {
    let given = &config.federation;
    let own = config.domains.iter().filter(|domain| domain.federation != OwnFederation::default());
    // The secret also has another purpose: a key derived from it for one tells nothing about the
    // other.
    let secret = [b"dialback ", &decoys.secret[..]].concat();
    Ok(FederationSettings {
        has_others: config.federates(),
        components: config.components.iter().map(component).collect::<Result<_, _>>()?,
        rules: rules(given),
        own: own.map(|domain| of_its_own(config, domain)).collect(),
        allow_private_addresses: given.allow_private_addresses,
        dane: given.dnssec && !given.dns.is_empty(),
        bidi: given.bidi,
        bytes_per_second: given.bytes_per_second as u64,
        stanzas_per_second: given.stanzas_per_second,
        newcomer_stanzas: given.newcomer_stanzas,
        burst_seconds: given.burst_seconds,
        ..FederationSettings::new(Secret::new(&secret))
    })
}

fn of_its_own(config: &ServerConfig, domain: &DomainConfig) -> Own {
    let hosts = config.hosts_of(domain).into_iter().map(String::into_boxed_str).collect();
    Own { hosts, rules: rules(&config.federation_of(domain)) }
}

fn rules(given: &config::FederationConfig) -> Rules {
    Rules {
        enabled: given.enabled,
        policy: given.policy,
        exceptions: given.exceptions.iter().map(|rule| (rule.pattern.clone(), rule.policy)).collect(),
        allow: given.allow.iter().map(|rule| rule.rule.clone()).collect(),
        deny: given.deny.iter().map(|rule| rule.rule.clone()).collect(),
    }
}

/// Returns a component with its secret.
///
/// # Errors
///
/// The file of the secret can't be read, or is empty.
pub fn component(config: &ComponentConfig) -> Result<ComponentTerms, ConfigError> {
    let secret = match (&config.secret, &config.secret_file) {
        (Some(secret), _) => secret.clone(),
        (None, Some(file)) => {
            let because = |error: &str| {
                let (name, file) = (&config.name, file.display());
                ConfigError::because(format!("component.{name:?}.secret_file: {file}: {error}"))
            };
            let text = fs::read_to_string(file).map_err(|error| because(&error.to_string()))?;
            let secret = text.trim().to_owned();
            if secret.is_empty() {
                return Err(because("there is no secret in it"));
            }
            secret
        }
        (None, None) => String::new(),
    };
    Ok(ComponentTerms { name: config.name.as_str().into(), secret: ComponentSecret::new(secret.as_bytes()) })
}

/// Reads the authorities whose certificates are trusted.
///
/// # Errors
///
/// A file of `federation.trusted` can't be used.
pub fn trust(config: &ServerConfig) -> Result<Trust, ConfigError> {
    let system = rustls_native_certs::load_native_certs().certs;
    let mut authorities: Vec<Vec<u8>> = system.into_iter().map(|der| der.to_vec()).collect();
    for file in &config.federation.trusted {
        let because = |error: String| ConfigError::because(format!("federation.trusted: {}: {error}", file.display()));
        let pem = fs::read(file).map_err(|error| because(error.to_string()))?;
        authorities.extend(Trust::read_pem(&pem).map_err(because)?);
    }
    Ok(Trust::new(authorities))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use rookery_stream::tls::certificate::{inspect, self_signed};

    use super::*;

    /// Returns a certificate for these names, presented for these domains.
    fn certificate(names: &[&str], domains: &[&str], own: bool) -> ServerCertificate {
        let [names, domains] =
            [names, domains].map(|names| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        let made = self_signed(&names, 1_700_000_000).expect("a certificate");
        let pem = made.certificate.as_bytes();
        let identity = Identity::from_pem(&domains, pem, made.key.as_bytes()).expect("an identity");
        let inspection = inspect(pem).expect("a certificate");
        ServerCertificate { identity, domains, file: PathBuf::new(), inspection, own, made: false }
    }

    #[test]
    fn domains_that_are_shown_the_server_s_own_certificate_have_none() {
        let own = || certificate(&["a.example", "b.example"], &["a.example", "b.example"], true);
        let bought = |names: &[&str]| certificate(names, &["a.example"], false);
        let domains = ["a.example", "conference.a.example", "b.example"].map(str::to_owned);
        let cases = [
            (vec![own()], "a.example conference.a.example b.example"),
            (vec![bought(&["a.example", "*.a.example"]), own()], "b.example"),
            // It is presented for the domain that it is configured for, regardless of its names.
            (vec![bought(&["x.example"]), own()], "b.example"),
            // No certificate is for the service, so the first is presented.
            (vec![own(), bought(&["a.example"])], "a.example conference.a.example b.example"),
            (vec![bought(&["a.example"])], ""),
            (vec![], ""),
        ];
        for (number, (certificates, expected)) in cases.iter().enumerate() {
            assert_eq!(uncertified_domains(certificates, &domains).join(" "), *expected, "case {number}");
        }
    }
}
