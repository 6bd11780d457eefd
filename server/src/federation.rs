//! From the configuration to what streams with other servers go by.

use std::fs;
use std::sync::Arc;

use rookery_federation::{Secret, Settings};
use rookery_resolver::Dns;
use rookery_shard::{Federation, Resolver};
use rookery_stream::tls::Identity;
use rookery_stream::tls::peer::PeerSettings;
use rookery_stream::tls::trust::Trust;

use crate::certificate::Certificate;
use crate::config::{Config, ConfigError};
use crate::database::Decoys;
use crate::failure::Failure;

/// One generation of what streams with other servers go by, with the thread that asks DNS.
#[derive(Clone)]
pub struct Federated {
    /// For the shards.
    pub terms: Arc<Federation>,
    dns: Arc<Dns>,
    asked: rookery_resolver::Settings,
}

impl std::fmt::Debug for Federated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.terms.fmt(f)
    }
}

/// Returns what other servers are served by; `None` if there are to be none. The thread of `old` goes on if it is asked the same.
///
/// # Errors
///
/// [`Failure::Config`] for a file of an authority that can't be used, [`Failure::Failed`] if DNS can't be asked at all.
pub fn load(
    config: &Config,
    certificates: &[Certificate],
    decoys: &Decoys,
    old: Option<&Federated>,
) -> Result<Option<Federated>, Failure> {
    if !config.federation.enabled {
        return Ok(None);
    }
    let asked =
        rookery_resolver::Settings { servers: config.federation.dns.clone(), routes: config.federation.routes.clone() };
    let dns = match old.filter(|old| old.asked == asked) {
        Some(old) => old.dns.clone(),
        None => Arc::new(
            Dns::start(asked.clone()).map_err(|error| Failure::Failed(format!("DNS can't be asked: {error}")))?,
        ),
    };
    let identities: Vec<Identity> = certificates.iter().map(|certificate| certificate.identity.clone()).collect();
    let domains =
        config.domains.iter().flat_map(|domain| std::iter::once(domain.name.clone()).chain(domain.services()));
    let domains: Vec<String> = domains.collect();
    let tls = PeerSettings::new(&identities, &domains).map_err(|error| ConfigError::because(error.to_string()))?;
    let resolver: Arc<dyn Resolver> = dns.clone();
    let terms = Federation {
        settings: Arc::new(settings(config, decoys)),
        tls: Arc::new(tls),
        trust: Arc::new(trust(config)?),
        resolver,
    };
    Ok(Some(Federated { terms: Arc::new(terms), dns, asked }))
}

fn settings(config: &Config, decoys: &Decoys) -> Settings {
    let given = &config.federation;
    // The secret is kept already, for another purpose: a key made with one tells nothing about the other.
    let secret = [b"dialback ", &decoys.secret[..]].concat();
    Settings {
        policy: given.policy,
        exceptions: given.exceptions.iter().map(|rule| (rule.pattern.clone(), rule.policy)).collect(),
        allow: given.allow.iter().map(|rule| rule.pattern.clone()).collect(),
        deny: given.deny.iter().map(|rule| rule.pattern.clone()).collect(),
        allow_private_addresses: given.allow_private_addresses,
        ..Settings::new(Secret::new(&secret))
    }
}

fn trust(config: &Config) -> Result<Trust, ConfigError> {
    let system = rustls_native_certs::load_native_certs().certs;
    let mut authorities: Vec<Vec<u8>> = system.into_iter().map(|der| der.to_vec()).collect();
    for file in &config.federation.trusted {
        let because = |error: String| ConfigError::because(format!("federation.trusted: {}: {error}", file.display()));
        let pem = fs::read(file).map_err(|error| because(error.to_string()))?;
        authorities.extend(Trust::read_pem(&pem).map_err(because)?);
    }
    Ok(Trust::new(authorities))
}
