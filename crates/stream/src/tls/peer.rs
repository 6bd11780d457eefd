//! TLS between servers: both sides show a certificate, and both are judged after the handshake.
//!
//! # Invariants
//!
//! - A handshake fails for a peer that lacks the key of the certificate that it shows, and for
//!   nothing else about the certificate: [`Trust`](super::trust::Trust) judges that when the
//!   domain is known.
//! - A resumed session brings back the certificates of its first handshake, and these are judged
//!   again like new ones. It is resumed with the certificate of ours that it began with, and with
//!   the same server: neither tickets nor sessions are shared with others, or with clients.
//! - A peer that doesn't name a host (some don't after STARTTLS) is shown the certificate of the
//!   domain that its stream header asked for.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustls::client::{Resumption, Tls12Resumption};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};

use super::certificate::Inspection;
use super::client::{ClientSettings, TrustsAnyone};
use super::record::RecordSide;
use super::sessions::TlsSessions;
use super::settings::{BySni, ascii_domain};
use super::{Identity, SettingsError, TlsSettings, certificate, exporter};

/// The settings of one server towards others, for each of its domains. Immutable, as
/// [`TlsSettings`].
#[derive(Debug)]
pub struct PeerSettings {
    domains: BTreeMap<String, PeerEnds>,
    /// The settings for peers that name no domain at all.
    fallback: PeerEnds,
}

/// The settings with which a domain accepts and opens connections.
#[derive(Debug, Clone)]
struct PeerEnds {
    accepting: TlsSettings,
    connecting: ClientSettings,
}

impl PeerSettings {
    /// Makes the settings of these domains. Each shows the first certificate that is for it; a
    /// domain without one shows the very first certificate, which peers will not accept as proof.
    ///
    /// # Errors
    ///
    /// [`SettingsError::NoIdentity`] for no certificate, [`SettingsError::Library`] if rustls
    /// refuses.
    pub fn new(identities: &[Identity], domains: &[String]) -> Result<Self, SettingsError> {
        let by_sni = BySni::new(identities.to_vec())?;
        let ends: Vec<PeerEnds> = identities.iter().map(|own| PeerEnds::new(&by_sni, own)).collect::<Result<_, _>>()?;
        let fallback = ends.first().cloned().ok_or(SettingsError::NoIdentity)?;
        let named: Vec<_> = identities.iter().map(|own| (own, own.inspect())).collect();
        let of = |domain: &String| {
            let own = named.iter().position(|(own, names)| own.is_for(domain, names.as_ref()));
            (domain.clone(), own.and_then(|own| ends.get(own)).unwrap_or(&fallback).clone())
        };
        Ok(Self { domains: domains.iter().map(of).collect(), fallback })
    }

    /// Returns the settings for accepting a connection whose stream header asked for this domain.
    pub fn accepting(&self, domain: Option<&str>) -> &TlsSettings {
        &self.of(domain).accepting
    }

    /// Returns the settings for opening a connection in the name of this domain.
    pub fn connecting(&self, domain: &str) -> &ClientSettings {
        &self.of(Some(domain)).connecting
    }

    fn of(&self, domain: Option<&str>) -> &PeerEnds {
        domain.and_then(|domain| self.domains.get(domain)).unwrap_or(&self.fallback)
    }
}

impl PeerEnds {
    /// Makes settings with which `own` is shown to peers that name no host, and to servers that we
    /// connect to.
    fn new(by_sni: &BySni, own: &Identity) -> Result<Self, SettingsError> {
        let library = |error: rustls::Error| SettingsError::Library(error.to_string());
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(library)?
            .with_client_cert_verifier(Arc::new(TakesAnyone { provider: provider.clone() }))
            .with_cert_resolver(Arc::new(by_sni.falling_back_to(own)));
        server.alpn_protocols = vec![ALPN.to_vec()];
        server.key_log = Arc::new(exporter::ChannelBindingKeyLog);
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.ticketer = aws_lc_rs::Ticketer::new().map_err(library)?;
        server.send_tls13_tickets = 1;
        let mut client = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(library)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(TrustsAnyone { provider }))
            .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own.key())));
        client.alpn_protocols = vec![ALPN.to_vec()];
        client.resumption =
            Resumption::store(Arc::new(TlsSessions::default())).tls12_resumption(Tls12Resumption::Disabled);
        Ok(Self { accepting: TlsSettings::from_config(server), connecting: ClientSettings::from_config(client) })
    }
}

impl Identity {
    /// Returns the properties of the certificate, if it can be read.
    fn inspect(&self) -> Option<Inspection> {
        self.key().cert.first().and_then(|own| certificate::inspect_der(own).ok())
    }

    /// Returns whether the certificate is for a domain, by its names or by the operator's word.
    fn is_for(&self, domain: &str, names: Option<&Inspection>) -> bool {
        names.is_some_and(|names| names.covers(domain))
            || ascii_domain(domain).is_ok_and(|domain| self.domains().contains(&domain))
    }
}

/// Returns the chain that the other side has shown, its own certificate first.
pub(super) fn chain<C: RecordSide>(connection: &C) -> Vec<&[u8]> {
    let chain = connection.common().peer_certificates().unwrap_or_default();
    chain.iter().map(|certificate| &certificate[..]).collect()
}

/// Asks for a certificate, takes any or none, and checks that the peer has its key.
#[derive(Debug)]
struct TakesAnyone {
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for TakesAnyone {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    /// Returns none: a client then has to choose by itself, and has no reason to show no
    /// certificate (RFC 8446 §4.2.4).
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// The protocol name of direct TLS between servers (XEP-0368 §3).
pub const ALPN: &[u8] = b"xmpp-server";

#[cfg(test)]
mod tests;
