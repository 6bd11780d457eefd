//! The values of `[web]`, `[tls]` and `[acme]`: the HTTP services, and the certificates for them
//! and for streams.

use std::path::PathBuf;

use rookery_stream::tls::Oldest;

use super::{CertificateFiles, WrittenNetwork};

/// The services over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebConfig {
    /// The name of the server on its pages; `None` for that of the domain.
    pub title: Option<String>,
    /// The file of its logo there.
    pub logo: Option<PathBuf>,
    /// The folder of the operator's own files.
    pub files: Option<PathBuf>,
    /// The host and port under which browsers reach the server from outside, if requests don't tell
    /// them.
    pub public_host: Option<String>,
    /// Further names under which browsers and scrapers find the server.
    pub hosts: Vec<String>,
    /// The origins of other sites that may use the server.
    pub origins: Vec<String>,
    /// Proxies whose statements about a client's address are trusted.
    pub trusted_proxies: Vec<WrittenNetwork>,
    /// True if connections from these begin with a header of the PROXY protocol.
    pub proxy_protocol: bool,
    /// The networks from which `/metrics` may be read.
    pub metrics_networks: Vec<WrittenNetwork>,
    /// The networks from which the HTTP API may be used.
    pub api_networks: Vec<WrittenNetwork>,
    /// The networks from which the admin page may be used.
    pub admin_networks: Vec<WrittenNetwork>,
    /// True if the chat page is served.
    pub chat: bool,
    /// The limit of simultaneous connections.
    pub connections: usize,
    /// True if BOSH is served.
    pub bosh: bool,
    /// The time for which its requests wait, and the limit of their rate.
    pub bosh_terms: rookery_stream::bosh::Terms,
    /// True if its responses are compressed for clients that accept it.
    pub bosh_compression: bool,
}

/// TLS for the domains that have no certificate of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebTls {
    /// The certificate; without one the server makes a self-signed one.
    pub files: CertificateFiles,
    /// The oldest protocol version to negotiate.
    pub minimum: Oldest,
}

/// Certificates from an authority that issues them by ACME (RFC 8555).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acme {
    /// True if they are requested.
    pub enabled: bool,
    /// The address of the authority's directory.
    pub directory: String,
    /// The addresses at which the authority may contact the operator.
    pub contacts: Vec<String>,
    /// The domains to request them for, prepared; all without files if none is named.
    pub domains: Vec<String>,
    /// Modules whose addresses are also named in the certificates.
    pub services: Vec<String>,
    /// The PEM file of certificates to trust in connections to the authority.
    pub trusted: Option<PathBuf>,
}
