//! The gRPC port's certificate, and the keys by which it checks tokens. Both can be replaced while
//! it serves.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::authority::{AccessFiles, IssuerKeys};

/// The secrets of the gRPC port as they were read; each may be absent.
#[derive(Debug, Default)]
pub struct CertificateKeys {
    /// The port's certificate; without one it speaks HTTP/2 in the clear.
    pub certificate: Option<Certificate>,
    /// The keys of tokens; without them no token proves anything.
    pub tokens: Option<IssuerKeys>,
}

/// The files from which [`CertificateKeys`] are read, again on each reload.
#[derive(Debug, Clone, Default)]
pub struct CredentialFiles {
    /// The files about settings, among them the keys of tokens.
    pub access: AccessFiles,
    /// The chain of certificates, PEM.
    pub chain: Option<PathBuf>,
    /// The key of the first, PEM.
    pub key: Option<PathBuf>,
}

impl CredentialFiles {
    /// Reads them as they are now.
    ///
    /// # Errors
    /// A text with the name of the file that can't be used.
    pub fn read(&self) -> Result<CertificateKeys, String> {
        Ok(CertificateKeys { certificate: self.certificate()?, tokens: self.access.tokens()? })
    }

    /// Reads the certificate as it is now, if there is one.
    ///
    /// # Errors
    /// A text with the name of the file that can't be used.
    pub fn certificate(&self) -> Result<Option<Certificate>, String> {
        match (&self.chain, &self.key) {
            (Some(chain), Some(key)) => Certificate::open(chain, key).map(Some),
            _ => Ok(None),
        }
    }
}

/// A certificate with its key, ready for handshakes.
#[derive(Clone)]
pub struct Certificate(pub(super) Arc<ServerConfig>);

impl Certificate {
    /// Reads a chain of certificates and the key of the first, both as PEM.
    ///
    /// # Errors
    /// A text with the file's name, if it can't be read or if chain and key don't belong together.
    pub fn open(chain: &Path, key: &Path) -> Result<Self, String> {
        let wrong = |path: &Path, error: &dyn fmt::Display| format!("{}: {error}", path.display());
        let certificates = CertificateDer::pem_file_iter(chain).map_err(|error| wrong(chain, &error))?;
        let certificates = certificates.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(chain, &error))?;
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
        let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
        let config = builder.with_no_client_auth().with_single_cert(certificates, secret);
        let mut config = config.map_err(|error| wrong(chain, &error))?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self(Arc::new(config)))
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Certificate")
    }
}

/// The keys in force, shared by all threads.
#[derive(Debug, Clone, Default)]
pub struct Keyring(Arc<RwLock<Arc<CertificateKeys>>>);

impl Keyring {
    /// Replaces the keys, for connections and calls from now on.
    pub fn replace(&self, keys: CertificateKeys) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }

    pub(super) fn now(&self) -> Arc<CertificateKeys> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}
