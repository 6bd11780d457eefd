//! The values of `[web]`, `[tls]` and `[acme]`: the HTTP services, and the certificates for them
//! and for streams.

use std::path::PathBuf;

use rookery_stream::tls::Oldest;

use super::{CertificateFiles, WrittenNetwork};

/// The services over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebConfig {
    /// The name of the server on the pages for people; `None` if it is that of the domain.
    pub title: Option<String>,
    /// The file of its picture there.
    pub logo: Option<PathBuf>,
    /// The folder of the operator's own files.
    pub files: Option<PathBuf>,
    /// Host and port under which browsers find the server from outside, if that is not what they
    /// say themselves.
    pub public_host: Option<String>,
    /// Further names under which browsers come here, and scrapers.
    pub hosts: Vec<String>,
    /// Origins of further pages that may speak to the server.
    pub origins: Vec<String>,
    /// Proxies that are believed when they say where a client is.
    pub trusted_proxies: Vec<WrittenNetwork>,
    /// True if connections from these begin with a header of the PROXY protocol.
    pub proxy_protocol: bool,
    /// The networks from which the metrics may be read.
    pub metrics_networks: Vec<WrittenNetwork>,
    /// The networks from which the HTTP API may be used.
    pub api_networks: Vec<WrittenNetwork>,
    /// The networks from which the admin page may be used.
    pub admin_networks: Vec<WrittenNetwork>,
    /// True if the chat page is served.
    pub chat: bool,
    /// The connections at a time.
    pub connections: usize,
    /// True if BOSH is spoken.
    pub bosh: bool,
    /// The time for which its requests wait, and how often they may come.
    pub bosh_terms: rookery_stream::bosh::Terms,
    /// True if its responses are compressed for clients that accept it.
    pub bosh_compression: bool,
}

/// TLS for the domains that have no certificate of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebTls {
    /// The certificate; without one the server makes itself a self-signed one.
    pub files: CertificateFiles,
    /// The oldest protocol version to speak.
    pub minimum: Oldest,
}

/// Certificates from an authority that gives them out by ACME (RFC 8555).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acme {
    /// True if they are requested.
    pub enabled: bool,
    /// The address of the authority's directory.
    pub directory: String,
    /// The addresses to which the authority may write.
    pub contacts: Vec<String>,
    /// The domains to get them for, prepared; all without files if none is named.
    pub domains: Vec<String>,
    /// Modules whose addresses the certificates name besides.
    pub services: Vec<String>,
    /// PEM file of certificates to trust when the authority is asked.
    pub trusted: Option<PathBuf>,
}
