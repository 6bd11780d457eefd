//! The client's side, for load generators, tests, and connections to other servers.
//!
//! **Most of it trusts any certificate.** Load generators and tests have servers with their own
//! certificates. For other servers the chain is judged after the handshake, before anything is
//! sent: see [`trust`](super::trust). Programs that log in with a password worth stealing use
//! [`ClientSettings::trusting`].

use std::fmt;
use std::sync::Arc;

use rookery_sasl::ChannelBindings;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, DigitallySignedStruct, HandshakeKind, RootCertStore, SignatureScheme};

use super::record::{MAX_CARRY, MAX_CHAIN, Records, TlsProgress};
use super::{SettingsError, TlsError, certificate, exporter, peer, settings};

/// The newest version that a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Newest {
    /// TLS 1.2 only.
    Tls12,
    /// TLS 1.3, or 1.2 if the server doesn't support it.
    Tls13,
}

/// The settings that all connections of a client share. Cheap to clone.
#[derive(Clone)]
pub struct ClientSettings {
    config: Arc<ClientConfig>,
}

impl ClientSettings {
    /// Returns settings that trust any certificate. `alpn` lists the protocols to offer:
    /// `[b"xmpp-client"]` for direct TLS, empty for STARTTLS. With `resume` sessions are resumed by
    /// ticket; a load generator that measures full handshakes passes `false`.
    ///
    /// # Errors
    ///
    /// [`SettingsError::Library`] if rustls refuses.
    pub fn trusting_anyone(newest: Newest, alpn: &[&[u8]], resume: bool) -> Result<ClientSettings, SettingsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let versions = match newest {
            Newest::Tls12 => &[&TLS12][..],
            Newest::Tls13 => &[&TLS13, &TLS12],
        };
        let mut config = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .map_err(|error| SettingsError::Library(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(TrustsAnyone { provider }))
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        config.key_log = Arc::new(exporter::ChannelBindingKeyLog);
        if !resume {
            config.resumption = Resumption::disabled();
        }
        Ok(ClientSettings { config: Arc::new(config) })
    }

    /// Returns settings that trust servers whose certificate one of these authorities has issued,
    /// in PEM, for the name under which the client connects: for programs such as bots. A server's
    /// own certificate may be among them. `alpn` is as in [`ClientSettings::trusting_anyone`].
    ///
    /// # Errors
    ///
    /// [`SettingsError::BadCertificate`] if there is none that can be read,
    /// [`SettingsError::Library`] if rustls refuses.
    pub fn trusting(authorities: &[u8], alpn: &[&[u8]]) -> Result<ClientSettings, SettingsError> {
        let bad = |error: &dyn fmt::Display| SettingsError::BadCertificate(error.to_string());
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(authorities).collect();
        let mut roots = RootCertStore::empty();
        let (believed, _) = roots.add_parsable_certificates(read.map_err(|error| bad(&error))?);
        if believed == 0 {
            return Err(bad(&"no certificate of an authority"));
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(|error| SettingsError::Library(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        config.key_log = Arc::new(exporter::ChannelBindingKeyLog);
        Ok(ClientSettings { config: Arc::new(config) })
    }

    pub(super) fn from_config(config: ClientConfig) -> ClientSettings {
        ClientSettings { config: Arc::new(config) }
    }
}

#[cfg(test)]
pub(super) fn trusts_anyone_for_tests() -> Arc<dyn ServerCertVerifier> {
    Arc::new(TrustsAnyone { provider: Arc::new(aws_lc_rs::default_provider()) })
}

impl fmt::Debug for ClientSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSettings").finish_non_exhaustive()
    }
}

/// The client's end of one TLS connection. Reads and writes like [`ServerTls`](super::ServerTls).
pub struct ClientTls(Box<ClientTlsInner>);

struct ClientTlsInner {
    records: Records<UnbufferedClientConnection>,
    exporter: Option<[u8; 32]>,
}

impl ClientTls {
    /// Begins a handshake with the server `domain`, and appends the ClientHello to `out`.
    ///
    /// # Errors
    ///
    /// [`TlsError::Internal`] if `domain` isn't a host name or rustls refuses.
    pub fn connect(settings: &ClientSettings, domain: &str, out: &mut Vec<u8>) -> Result<ClientTls, TlsError> {
        let internal = |reason: &dyn fmt::Display| TlsError::Internal(reason.to_string());
        let domain = settings::ascii_domain(domain).map_err(|error| internal(&error))?;
        let name = ServerName::try_from(domain).map_err(|error| internal(&error))?;
        let connection = UnbufferedClientConnection::new(settings.config.clone(), name)?;
        let mut tls = ClientTls(Box::new(ClientTlsInner { records: Records::new(connection), exporter: None }));
        tls.read(&mut [], &mut Vec::new(), out)?;
        Ok(tls)
    }

    /// Reads as [`ServerTls::read`](super::ServerTls::read).
    ///
    /// # Errors
    ///
    /// Any [`TlsError`] is final.
    pub fn read(
        &mut self,
        incoming: &mut [u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<TlsProgress, TlsError> {
        let inner = &mut *self.0;
        if !inner.records.handshaking() {
            return inner.records.read(incoming, plain, out, MAX_CARRY);
        }
        let (result, seen) = exporter::capture(|| inner.records.read(incoming, plain, out, MAX_CHAIN));
        inner.exporter = seen.exporter.or(inner.exporter);
        result
    }

    /// Writes as [`ServerTls::write`](super::ServerTls::write).
    ///
    /// # Errors
    ///
    /// [`TlsError::NotOpen`], [`TlsError::Internal`].
    pub fn write(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), TlsError> {
        self.0.records.write(plain, out)
    }

    /// Closes as [`ServerTls::close_notify`](super::ServerTls::close_notify).
    pub fn close_notify(&mut self, out: &mut Vec<u8>) {
        self.0.records.close_notify(out);
    }

    /// Returns whether the handshake is still going on.
    pub fn handshaking(&self) -> bool {
        self.0.records.handshaking()
    }

    /// Returns the channel bindings, empty while [`ClientTls::handshaking`].
    pub fn bindings(&self) -> ChannelBindings {
        if self.handshaking() {
            return ChannelBindings::default();
        }
        let own = self.0.records.connection().peer_certificates().and_then(<[_]>::first);
        ChannelBindings {
            exporter: self.0.exporter,
            server_end_point: own.and_then(|certificate| certificate::end_point(certificate).ok().flatten()),
        }
    }

    /// Returns the negotiated application protocol.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.0.records.connection().alpn_protocol()
    }

    /// Returns the certificates that the server has shown, its own first.
    pub fn chain(&self) -> Vec<&[u8]> {
        peer::chain(self.0.records.side())
    }

    /// Returns the server's certificate, in DER.
    pub fn server_certificate(&self) -> Option<&[u8]> {
        self.0.records.connection().peer_certificates()?.first().map(|certificate| &certificate[..])
    }

    /// Returns whether the session was resumed by ticket.
    pub fn is_resumed(&self) -> bool {
        self.0.records.connection().handshake_kind() == Some(HandshakeKind::Resumed)
    }
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls").field("handshaking", &self.handshaking()).finish_non_exhaustive()
    }
}

/// Trusts every certificate, but still checks that the server has its key: otherwise channel
/// binding would mean nothing.
#[derive(Debug)]
pub(super) struct TrustsAnyone {
    pub(super) provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for TrustsAnyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
