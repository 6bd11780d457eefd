//! The values of `[federation]`: other servers, and the limits for each of them.

use std::net::SocketAddr;
use std::path::PathBuf;

use rookery_federation::{Pattern, PeerPolicy};
use rookery_resolver::Route;

/// Other servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FederationConfig {
    /// True if streams with other servers are opened and accepted.
    pub enabled: bool,
    /// The proof of their name that they have to provide.
    pub policy: PeerPolicy,
    /// Domains with another policy.
    pub exceptions: Vec<Exception>,
    /// The only domains to communicate with, if there are any.
    pub allow: Vec<FederationRule>,
    /// Domains not to communicate with.
    pub deny: Vec<FederationRule>,
    /// Name servers; those of the machine if there are none.
    pub dns: Vec<SocketAddr>,
    /// True if these validate signatures, and their results are trusted.
    pub dnssec: bool,
    /// True if domains without SRV records are looked up by HTTPS.
    pub host_meta: bool,
    /// The places of some domains' servers.
    pub routes: Vec<Route>,
    /// PEM files of authorities to trust besides those of the machine.
    pub trusted: Vec<PathBuf>,
    /// True if servers may be at private addresses.
    pub allow_private_addresses: bool,
    /// True if one stream may carry both directions.
    pub bidi: bool,
    /// Bytes per second of one domain, 0 for no limit.
    pub bytes_per_second: usize,
    /// Stanzas per second of one domain, 0 for no limit.
    pub stanzas_per_second: u64,
    /// Stanzas per second of a domain that no user has written to, 0 if it has no separate limit.
    pub newcomer_stanzas: u64,
    /// The seconds of these rates that may arrive at once.
    pub burst_seconds: u64,
}

/// The settings that one of our domains has for itself. Missing ones are those for all domains.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnFederation {
    /// True if it communicates with other servers.
    pub enabled: Option<bool>,
    /// The proof of their name that they have to provide.
    pub policy: Option<PeerPolicy>,
    /// Domains with another policy.
    pub exceptions: Option<Vec<Exception>>,
    /// The only domains to communicate with, if there are any.
    pub allow: Option<Vec<FederationRule>>,
    /// Domains not to communicate with.
    pub deny: Option<Vec<FederationRule>>,
}

/// Domains to communicate with, or not, as the operator wrote them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FederationRule {
    /// The text that the operator wrote.
    pub written: String,
    /// The domains that it means, and the reason that senders get.
    pub rule: rookery_federation::Rule,
}

/// Domains with a policy of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exception {
    /// The text that the operator wrote.
    pub written: String,
    /// The domains that it means.
    pub pattern: Pattern,
    /// The policy for these domains instead of the general one.
    pub policy: PeerPolicy,
}

impl FederationConfig {
    /// Returns the settings in force for a domain with settings of its own.
    pub fn with(&self, own: &OwnFederation) -> FederationConfig {
        let all = self.clone();
        FederationConfig {
            enabled: own.enabled.unwrap_or(all.enabled),
            policy: own.policy.unwrap_or(all.policy),
            exceptions: own.exceptions.clone().unwrap_or(all.exceptions),
            allow: own.allow.clone().unwrap_or(all.allow),
            deny: own.deny.clone().unwrap_or(all.deny),
            ..all
        }
    }
}

impl Default for FederationConfig {
    fn default() -> FederationConfig {
        FederationConfig {
            enabled: false,
            policy: PeerPolicy::Certificate,
            exceptions: Vec::new(),
            allow: Vec::new(),
            deny: Vec::new(),
            dns: Vec::new(),
            dnssec: false,
            host_meta: false,
            routes: Vec::new(),
            trusted: Vec::new(),
            allow_private_addresses: false,
            bidi: true,
            bytes_per_second: 10 << 20,
            stanzas_per_second: 20_000,
            newcomer_stanzas: 0,
            burst_seconds: 5,
        }
    }
}
