//! Requests from this machine to others: a separate connection for each, since they are rare.

use std::error::Error as StdError;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Bytes};
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue};
use hyper::http::response::Parts;
use hyper::http::uri::Scheme;
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The reason why a request has no answer.
pub(crate) type HttpsFailed = Box<dyn StdError + Send + Sync>;

/// Trusts the authorities that the machine trusts, and those of a PEM file.
pub(crate) fn trusting(trusted: Option<&Path>) -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    // What can't be read of the machine's is missing when a connection is tried, and told then.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(file) = trusted {
        let told = |error: &dyn Display| format!("{}: {error}", file.display());
        for certificate in CertificateDer::pem_file_iter(file).map_err(|error| told(&error))? {
            roots.add(certificate.map_err(|error| told(&error))?).map_err(|error| told(&error))?;
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let config = config.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    Ok(TlsConnector::from(Arc::new(config.with_root_certificates(roots).with_no_client_auth())))
}

/// Sends a request to the host that it names, and returns the answer, of which the body has so many
/// bytes at most. The time is the caller's to bound.
pub(crate) async fn exchange<B>(
    tls: TlsConnector,
    mut request: Request<B>,
    most_bytes: usize,
) -> Result<(Parts, Bytes), HttpsFailed>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<HttpsFailed>,
{
    let url = request.uri().clone();
    if url.scheme() != Some(&Scheme::HTTPS) {
        return Err("it is not https:".into());
    }
    let authority = url.authority().ok_or("it names no host")?;
    let mut sender = open(&tls, &url).await?;
    request.headers_mut().insert(HOST, HeaderValue::from_str(authority.as_str())?);
    *request.uri_mut() = Uri::from(url.path_and_query().cloned().ok_or("it names no path")?);
    let (parts, body) = sender.send_request(request).await?.into_parts();
    Ok((parts, Limited::new(body, most_bytes).collect().await?.to_bytes()))
}

/// Opens a connection to the host of an address, encrypted unless that says `http:`. The time is
/// the caller's to bound.
pub(crate) async fn open<B>(tls: &TlsConnector, url: &Uri) -> Result<http1::SendRequest<B>, HttpsFailed>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<HttpsFailed>,
{
    let authority = url.authority().ok_or("it names no host")?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let is_plain = url.scheme() == Some(&Scheme::HTTP);
    let port = authority.port_u16().unwrap_or(if is_plain { 80 } else { 443 });
    let socket = TcpStream::connect((host.as_str(), port)).await?;
    match is_plain {
        true => over(socket).await,
        false => over(tls.connect(ServerName::try_from(host)?, socket).await?).await,
    }
}

async fn over<S, B>(stream: S) -> Result<http1::SendRequest<B>, HttpsFailed>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<HttpsFailed>,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It ends when `sender` is dropped; if it breaks before that, the answer says so.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}
