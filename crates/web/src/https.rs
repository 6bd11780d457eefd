//! Requests from this machine to others. Each has a connection of its own, since they are rare.

use std::error::Error as StdError;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Bytes};
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderName, HeaderValue, USER_AGENT};
use hyper::http::response::Parts;
use hyper::http::uri::Scheme;
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// The reason why a request has no response.
pub(crate) type HttpsFailed = Box<dyn StdError + Send + Sync>;

/// Returns a connector that trusts the machine's authorities, and those of a PEM file.
pub(crate) fn trusting(trusted: Option<&Path>) -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    // If the machine's authorities can't be read, connection attempts fail, and report that.
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

/// Sends a request to the host that it names, and returns the response with at most this many bytes
/// of body. The caller has to bound the time.
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

/// Posts a body with these headers to an address, on a connection of its own. The error says why
/// the body wasn't accepted in time.
pub(crate) async fn post(
    tls: &TlsConnector,
    url: &Uri,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Bytes,
    patience: Duration,
) -> Result<(), String> {
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let host = url.authority().map_or("", |authority| authority.as_str());
    let mut request =
        Request::builder().method(Method::POST).uri(path).header(HOST, host).header(USER_AGENT, "Rookery");
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request.body(Full::new(body)).map_err(|error| error.to_string())?;
    let sending = async {
        let mut sender = open(tls, url).await.map_err(|error| error.to_string())?;
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = response.status();
        // The response is read to its end, so that the other side can finish sending.
        let _ = Limited::new(response.into_body(), MOST_ANSWERED).collect().await;
        if status.is_success() { Ok(()) } else { Err(format!("the answer is {status}")) }
    };
    timeout(patience, sending).await.unwrap_or_else(|_| Err("there is no answer".to_owned()))
}

/// The most bytes that are read of the response to a post.
const MOST_ANSWERED: usize = 64 * 1024;

/// Opens a connection to the host of an address, encrypted unless the address says `http:`. The
/// caller has to bound the time.
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
    // The task ends when `sender` is dropped; an earlier failure shows in the response.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}
