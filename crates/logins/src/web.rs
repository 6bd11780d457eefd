//! An HTTP client for sources. It opens a connection for each request, over TLS unless the address
//! is on this machine.

use std::error::Error as StdError;
use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A client that trusts the authorities of this machine, and perhaps more.
#[derive(Clone)]
pub struct Web {
    tls: Arc<ClientConfig>,
}

/// The response to a request.
#[derive(Debug, Clone)]
pub struct WebAnswer {
    /// The status of the response; redirections are not followed.
    pub status: StatusCode,
    /// Its content.
    pub body: Bytes,
}

/// The address of a web service: `https://`, or `http://` on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebAddress(Uri);

impl WebAddress {
    /// Reads an address; `None` if it is invalid, or if the connection could be intercepted.
    pub fn read(text: &str) -> Option<Self> {
        let uri: Uri = text.parse().ok()?;
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'))?;
        let is_safe = match uri.scheme_str()? {
            "https" => true,
            "http" => is_here(bare(authority.host())),
            _ => false,
        };
        is_safe.then_some(Self(uri))
    }

    fn is_encrypted(&self) -> bool {
        self.0.scheme_str() == Some("https")
    }
}

impl fmt::Display for WebAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Web {
    /// Returns a client that trusts the machine's authorities, and those of a PEM file.
    ///
    /// # Errors
    /// The file can't be read, or contains something else; as a text that names it.
    pub fn trusting(file: Option<&Path>) -> Result<Self, String> {
        Ok(Self { tls: Arc::new(tls(file)?) })
    }

    /// Returns the TLS settings, for protocols other than HTTP.
    pub fn tls(&self) -> Arc<ClientConfig> {
        self.tls.clone()
    }

    /// Gets a document.
    ///
    /// # Errors
    /// The reason why there is no response, as a text.
    pub async fn get(&self, address: &WebAddress) -> Result<WebAnswer, String> {
        let request = Request::builder().method(Method::GET).header(ACCEPT, JSON);
        self.send(address, request.body(Full::default())).await
    }

    /// Posts JSON.
    ///
    /// # Errors
    /// The reason why there is no response, as a text.
    pub async fn post(&self, address: &WebAddress, json: String) -> Result<WebAnswer, String> {
        let request = Request::builder().method(Method::POST).header(CONTENT_TYPE, JSON).header(ACCEPT, JSON);
        self.send(address, request.body(Full::from(json))).await
    }

    /// Posts a form, with a client's name and secret if there is one (RFC 6749 §2.3.1).
    ///
    /// # Errors
    /// The reason why there is no response, as a text.
    pub async fn post_form(
        &self,
        address: &WebAddress,
        form: String,
        client: Option<(&str, &str)>,
    ) -> Result<WebAnswer, String> {
        let request = Request::builder().method(Method::POST).header(CONTENT_TYPE, FORM).header(ACCEPT, JSON);
        let request = match client {
            Some((id, secret)) => {
                let both = format!("{}:{}", encode(id), encode(secret));
                request.header(AUTHORIZATION, format!("Basic {}", STANDARD.encode(both)))
            }
            None => request,
        };
        self.send(address, request.body(Full::from(form))).await
    }

    async fn send(
        &self,
        address: &WebAddress,
        request: hyper::http::Result<Request<Full<Bytes>>>,
    ) -> Result<WebAnswer, String> {
        match request {
            Ok(request) => self.exchange(address, request).await.map_err(|error| format!("{address}: {error}")),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn exchange(&self, address: &WebAddress, mut request: Request<Full<Bytes>>) -> Result<WebAnswer, WebFailed> {
        let authority = address.0.authority().ok_or("it names no host")?;
        let host = bare(authority.host()).to_owned();
        let path = address.0.path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = path.parse()?;
        request.headers_mut().insert(HOST, HeaderValue::from_str(authority.as_str())?);
        let usual = if address.is_encrypted() { 443 } else { 80 };
        let socket = TcpStream::connect((host.as_str(), authority.port_u16().unwrap_or(usual))).await?;
        match address.is_encrypted() {
            true => {
                let tls = TlsConnector::from(self.tls.clone());
                over(tls.connect(ServerName::try_from(host)?, socket).await?, request).await
            }
            false => over(socket, request).await,
        }
    }
}

impl fmt::Debug for Web {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Web").finish_non_exhaustive()
    }
}

type WebFailed = Box<dyn StdError + Send + Sync>;

async fn over<S>(stream: S, request: Request<Full<Bytes>>) -> Result<WebAnswer, WebFailed>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // The task ends when `sender` is dropped; an earlier failure shows in the response.
    tokio::spawn(async move { drop(connection.await) });
    let (parts, body) = sender.send_request(request).await?.into_parts();
    let body = Limited::new(body, MOST_BYTES).collect().await?.to_bytes();
    Ok(WebAnswer { status: parts.status, body })
}

fn tls(file: Option<&Path>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    // If the machine's authorities can't be read, connection attempts fail, and report that.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(file) = file {
        let told = |error: &dyn fmt::Display| format!("{}: {error}", file.display());
        for certificate in CertificateDer::pem_file_iter(file).map_err(|error| told(&error))? {
            roots.add(certificate.map_err(|error| told(&error))?).map_err(|error| told(&error))?;
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let config = config.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// Returns a host without the brackets of an IPv6 address in a URL.
fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

/// Returns whether a host is this machine.
pub(crate) fn is_here(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.to_canonical().is_loopback())
}

/// Returns a text encoded for a form.
fn encode(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// The most bytes of a response: the keys of an issuer have a few thousand.
const MOST_BYTES: usize = 1024 * 1024;
const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::time::Duration;

    use rustls::pki_types::PrivateKeyDer;
    use rustls::{ServerConfig, ServerConnection, StreamOwned};

    use super::*;

    #[test]
    fn sites_show_a_certificate_of_an_authority_that_is_trusted() {
        let key = rcgen::KeyPair::generate().unwrap();
        let own = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("authority.pem");
        std::fs::write(&file, own.pem()).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = Arc::new(config.with_no_client_auth().with_single_cert(vec![own.der().clone()], key).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
        let site = std::thread::spawn(move || {
            for socket in listener.incoming().take(2).map_while(Result::ok) {
                let mut stream = StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), socket);
                // One of the two fails in its handshake.
                if stream.read(&mut [0; 1024]).is_ok() {
                    _ = stream.write_all(b"HTTP/1.1 200 X\r\nContent-Length: 0\r\n\r\n");
                }
            }
        });
        let address = WebAddress::read(&address).unwrap();
        let get = |web: Web| crate::within(Duration::from_secs(20), async { web.get(&address).await });
        assert_eq!(get(Web::trusting(Some(&file)).unwrap()).unwrap().status, StatusCode::OK);
        assert!(get(Web::trusting(None).unwrap()).is_err(), "nobody knows it");
        site.join().unwrap();
        std::fs::write(&file, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
        assert!(Web::trusting(Some(&file)).is_err());
        assert!(Web::trusting(Some(&folder.path().join("missing.pem"))).is_err());
    }

    #[test]
    fn an_address_whose_traffic_could_be_read_is_refused() {
        for (text, is_one) in [
            ("https://login.example.org/check", true),
            ("https://[2001:db8::1]:8443/", true),
            ("http://127.0.0.1:8080/check", true),
            ("http://[::1]:8080/check", true),
            ("http://localhost/check", true),
            ("http://login.example.org/check", false),
            ("http://localhost.example.org/check", false),
            ("https://user:secret@login.example.org/", false),
            ("ftp://127.0.0.1/", false),
            ("/check", false),
            ("login.example.org", false),
            ("", false),
        ] {
            assert_eq!(WebAddress::read(text).is_some(), is_one, "{text}");
        }
    }
}
