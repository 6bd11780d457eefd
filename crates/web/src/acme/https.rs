//! Requests to an authority: one connection for each, since they are few and far between.

use std::error::Error as StdError;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue};
use hyper::http::uri::Scheme;
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// A client that speaks HTTPS and nothing else.
pub(super) struct Https {
    tls: TlsConnector,
}

impl Https {
    /// Trusts the authorities that the machine trusts, and those of a PEM file.
    pub fn new(trusted: Option<&Path>) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        // What can't be read of the machine's is missing when a connection is tried, and told then.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(file) = trusted {
            let told = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
            for certificate in CertificateDer::pem_file_iter(file).map_err(|error| told(&error))? {
                roots.add(certificate.map_err(|error| told(&error))?).map_err(|error| told(&error))?;
            }
        }
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let config = config.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
        let config = config.with_root_certificates(roots).with_no_client_auth();
        Ok(Self { tls: TlsConnector::from(Arc::new(config)) })
    }
}

impl HttpClient for Https {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let tls = self.tls.clone();
        Box::pin(async move {
            let url = request.uri().clone();
            let named = |cause: HttpsFailed| Error::Other(format!("{url}: {cause}").into());
            match timeout(PATIENCE, exchange(tls, request)).await {
                Ok(exchanged) => exchanged.map_err(named),
                Err(_) => Err(named("no answer in time".into())),
            }
        })
    }
}

type HttpsFailed = Box<dyn StdError + Send + Sync>;

async fn exchange(tls: TlsConnector, mut request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, HttpsFailed> {
    let url = request.uri().clone();
    if url.scheme() != Some(&Scheme::HTTPS) {
        return Err("it is not https:".into());
    }
    let authority = url.authority().ok_or("it names no host")?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let socket = TcpStream::connect((host.as_str(), authority.port_u16().unwrap_or(443))).await?;
    let stream = tls.connect(ServerName::try_from(host)?, socket).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    request.headers_mut().insert(HOST, HeaderValue::from_str(authority.as_str())?);
    *request.uri_mut() = Uri::from(url.path_and_query().cloned().ok_or("it names no path")?);
    // It ends when `sender` is dropped; if it breaks before that, the answer says so.
    tokio::spawn(async move { drop(connection.await) });
    let (parts, body) = sender.send_request(request).await?.into_parts();
    let bytes = Limited::new(body, MOST_BYTES).collect().await?.to_bytes();
    Ok(Response::from_parts(parts, Full::new(bytes)).into())
}

/// The time that a request may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of an answer: chains of certificates have some thousands.
const MOST_BYTES: usize = 1024 * 1024;
