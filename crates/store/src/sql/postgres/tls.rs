//! TLS to the database: [`tokio_postgres`] requires a connector, and this one uses the server's
//! rustls.

use super::bounded::{Bounded, StreamWay};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, ServerName};
use sha2::{Digest, Sha256, Sha384, Sha512};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

/// Secures a connection to one host.
pub(super) struct Connect {
    pub(super) config: Arc<ClientConfig>,
    pub(super) host: String,
}

/// A secured connection.
pub(super) struct Secure<S>(Bounded<tokio_rustls::client::TlsStream<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for Connect {
    type Stream = Secure<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Secure<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let name =
                ServerName::try_from(self.host).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
            let stream = TlsConnector::from(self.config).connect(name, stream).await?;
            Ok(Secure(Bounded::new(stream, StreamWay::Closed)))
        })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Secure<S> {
    /// Returns the data that binds the login to the certificate, so that a third party can't relay
    /// it (RFC 5929 §4.1).
    fn channel_binding(&self) -> ChannelBinding {
        let certificate = self.0.stream().get_ref().1.peer_certificates().and_then(|chain| chain.first());
        certificate.and_then(end_point).map_or_else(ChannelBinding::none, ChannelBinding::tls_server_end_point)
    }
}

/// Returns the digest of a certificate, by the hash of its signature; `None` for signatures without
/// a hash, which the RFC doesn't cover.
fn end_point(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    match parsed.signature_algorithm.algorithm.to_id_string().as_str() {
        // RSA and ECDSA with SHA-1, which SHA-256 replaces, and with SHA-256.
        "1.2.840.113549.1.1.5" | "1.2.840.10045.4.1" | "1.2.840.113549.1.1.11" | "1.2.840.10045.4.3.2" => {
            Some(Sha256::digest(certificate).to_vec())
        }
        "1.2.840.113549.1.1.12" | "1.2.840.10045.4.3.3" => Some(Sha384::digest(certificate).to_vec()),
        "1.2.840.113549.1.1.13" | "1.2.840.10045.4.3.4" => Some(Sha512::digest(certificate).to_vec()),
        _ => None,
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Secure<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Secure<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
