//! Settings that all connections share: certificates with their keys, and the rule for choosing
//! among them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{InconsistentKeys, ServerConfig, SupportedProtocolVersion};

use super::{certificate, exporter};

/// A certificate chain with its key, and the domains for which it is shown.
#[derive(Clone)]
pub struct Identity {
    domains: Vec<String>,
    key: Arc<CertifiedKey>,
    server_end_point: Option<Arc<[u8]>>,
}

impl Identity {
    /// Reads a chain (the server's own certificate first) and its key from PEM files, with the
    /// function that reads a file.
    ///
    /// # Errors
    ///
    /// A [`SettingsError`] that names the file at fault.
    pub fn load(
        domains: &[String],
        chain: &Path,
        key: &Path,
        read: impl Fn(&Path) -> io::Result<Vec<u8>>,
    ) -> Result<Identity, SettingsError> {
        let read = |path: &Path| read(path).map_err(|error| SettingsError::Unreadable(path.to_owned(), error));
        Identity::from_pem(domains, &read(chain)?, &read(key)?)
            .map_err(|error| SettingsError::In(chain.to_owned(), key.to_owned(), Box::new(error)))
    }

    /// Reads a chain and its key from PEM text. The key may be PKCS#8, PKCS#1 or SEC1.
    ///
    /// # Errors
    ///
    /// [`SettingsError::BadDomain`], [`SettingsError::BadCertificate`], [`SettingsError::BadKey`],
    /// [`SettingsError::KeyMismatch`].
    pub fn from_pem(domains: &[String], chain: &[u8], key: &[u8]) -> Result<Identity, SettingsError> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(|error| SettingsError::BadCertificate(error.to_string()))?;
        let own = chain.first().ok_or_else(|| SettingsError::BadCertificate("no certificate in the file".into()))?;
        let server_end_point = certificate::end_point(own)?.map(Arc::from);
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| SettingsError::BadKey(error.to_string()))?;
        let key = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider()).map_err(|error| match error {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => SettingsError::KeyMismatch,
            other => SettingsError::BadKey(other.to_string()),
        })?;
        let domains = domains.iter().map(|domain| ascii_domain(domain)).collect::<Result<_, _>>()?;
        Ok(Identity { domains, key: Arc::new(key), server_end_point })
    }
}

impl Identity {
    /// Returns the domains that it is shown for, as A-labels.
    pub(super) fn domains(&self) -> &[String] {
        &self.domains
    }

    pub(super) fn key(&self) -> Arc<CertifiedKey> {
        self.key.clone()
    }
}

impl fmt::Debug for Identity {
    /// Writes the domains, not the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("domains", &self.domains).finish_non_exhaustive()
    }
}

/// The oldest version of TLS that is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Oldest {
    /// TLS 1.2, RFC 5246.
    #[default]
    Tls12,
    /// TLS 1.3, RFC 8446.
    Tls13,
}

/// The settings with which the server accepts connections; immutable, shared by all shards as an
/// `Arc`.
///
/// To reload certificates, make new settings and swap the `Arc`: new connections take these, old
/// ones continue undisturbed. Tickets of the old settings become useless, which is intended: a
/// client that resumed across the change would bind to the certificate of its first handshake.
#[derive(Clone)]
pub struct TlsSettings {
    config: Arc<ServerConfig>,
}

impl TlsSettings {
    /// Makes settings for TLS 1.2 and 1.3 with these identities. The first one is for clients that
    /// name no host or an unknown one, since a client may know the server by an address that no
    /// certificate has; it will judge the certificate itself.
    ///
    /// Sessions resume by one stateless ticket; nothing is kept here for them. ALPN is
    /// `xmpp-client` (XEP-0368 §3): clients that offer something else are refused, clients that
    /// offer nothing accepted. No early data, no client certificates.
    ///
    /// # Errors
    ///
    /// [`SettingsError::NoIdentity`] for an empty list, [`SettingsError::Library`] if rustls
    /// refuses.
    pub fn new(identities: Vec<Identity>) -> Result<TlsSettings, SettingsError> {
        TlsSettings::speaking(identities, Oldest::Tls12)
    }

    /// Makes the same settings, with a choice of the oldest version.
    ///
    /// # Errors
    ///
    /// The same.
    pub fn speaking(identities: Vec<Identity>, oldest: Oldest) -> Result<TlsSettings, SettingsError> {
        let versions: &[&SupportedProtocolVersion] = match oldest {
            Oldest::Tls12 => &[&TLS13, &TLS12],
            Oldest::Tls13 => &[&TLS13],
        };
        let library = |error: rustls::Error| SettingsError::Library(error.to_string());
        let resolver = BySni::new(identities)?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(versions)
            .map_err(library)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(resolver));
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.key_log = Arc::new(exporter::ChannelBindingKeyLog);
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = aws_lc_rs::Ticketer::new().map_err(library)?;
        config.send_tls13_tickets = 1;
        Ok(TlsSettings { config: Arc::new(config) })
    }

    /// Returns settings with the same identities, for a port where other protocols are spoken: ALPN
    /// offers these instead, the preferred one first.
    #[must_use]
    pub fn offering(&self, protocols: &[&[u8]]) -> TlsSettings {
        let mut config = (*self.config).clone();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        TlsSettings { config: Arc::new(config) }
    }

    pub(super) fn from_config(config: ServerConfig) -> TlsSettings {
        TlsSettings { config: Arc::new(config) }
    }

    pub(super) fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }
}

impl fmt::Debug for TlsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSettings").finish_non_exhaustive()
    }
}

/// The reason why the settings can't be used. Operators can mend each of these.
#[derive(Debug)]
pub enum SettingsError {
    /// There is no certificate at all.
    NoIdentity,
    /// A file can't be read.
    Unreadable(PathBuf, io::Error),
    /// The chain and key of these two files don't work, for the reason inside.
    In(PathBuf, PathBuf, Box<SettingsError>),
    /// This isn't a domain name that a certificate or a client could have.
    BadDomain(String),
    /// The chain isn't PEM, has no certificate, or its first one can't be parsed.
    BadCertificate(String),
    /// The key isn't PEM, or has no private key of a known kind.
    BadKey(String),
    /// The key is not that of the chain's first certificate.
    KeyMismatch,
    /// rustls or the system's random numbers refuse.
    Library(String),
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingsError::NoIdentity => f.write_str("no certificate is configured"),
            SettingsError::Unreadable(path, error) => write!(f, "cannot read {}: {error}", path.display()),
            SettingsError::In(chain, key, error) => write!(f, "{} with {}: {error}", chain.display(), key.display()),
            SettingsError::BadDomain(domain) => write!(f, "{domain:?} isn't a domain name"),
            SettingsError::BadCertificate(reason) => write!(f, "bad certificate: {reason}"),
            SettingsError::BadKey(reason) => write!(f, "bad private key: {reason}"),
            SettingsError::KeyMismatch => f.write_str("the private key does not belong to the certificate"),
            SettingsError::Library(reason) => write!(f, "TLS cannot be set up: {reason}"),
        }
    }
}

impl std::error::Error for SettingsError {}

/// Returns a domain in the form of certificates and SNI: A-labels, lower case, no trailing dot.
pub(super) fn ascii_domain(domain: &str) -> Result<String, SettingsError> {
    let bare = domain.strip_suffix('.').unwrap_or(domain);
    let ascii = idna::domain_to_ascii(bare).map_err(|_| SettingsError::BadDomain(domain.to_owned()))?;
    if ascii.is_empty() { Err(SettingsError::BadDomain(domain.to_owned())) } else { Ok(ascii) }
}

/// Chooses the identity by the host name that the client asks for.
#[derive(Debug)]
pub(super) struct BySni {
    fallback: Arc<Identity>,
    by_domain: Arc<BTreeMap<String, Arc<Identity>>>,
}

impl BySni {
    pub(super) fn new(identities: Vec<Identity>) -> Result<BySni, SettingsError> {
        let identities: Vec<Arc<Identity>> = identities.into_iter().map(Arc::new).collect();
        let fallback = identities.first().cloned().ok_or(SettingsError::NoIdentity)?;
        let mut by_domain = BTreeMap::new();
        for identity in identities {
            for domain in &identity.domains {
                // The first identity that claims a domain keeps it.
                by_domain.entry(domain.clone()).or_insert_with(|| identity.clone());
            }
        }
        Ok(BySni { fallback, by_domain: Arc::new(by_domain) })
    }

    /// Returns a resolver with the same names, which are shared, and another identity for clients
    /// that name none of them.
    pub(super) fn falling_back_to(&self, identity: &Identity) -> BySni {
        BySni { fallback: Arc::new(identity.clone()), by_domain: self.by_domain.clone() }
    }
}

impl ResolvesServerCert for BySni {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // rustls has lower-cased the name already.
        let sni = hello.server_name();
        let identity = sni.and_then(|name| self.by_domain.get(name)).unwrap_or(&self.fallback);
        exporter::saw_certificate(identity.server_end_point.clone(), sni);
        Some(identity.key.clone())
    }
}

/// The protocol name of direct TLS to a client port (XEP-0368 §3).
pub(super) const ALPN: &[u8] = b"xmpp-client";
