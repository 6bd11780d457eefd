//! Finds a domain's server on the web: by the document of XEP-0487, for domains without SRV
//! records.
//!
//! # Invariants
//!
//! * The document says where to connect, and which name to ask for there. It proves nothing: the
//!   server there has to prove the domain like any other.
//! * A stranger decides where the domain is, so only the HTTPS port at public addresses is
//!   contacted, by a request that contains nothing but a name. The same rules apply to
//!   redirections.
//! * Time, bytes, redirections, links, addresses and the cache have bounds. If there is no
//!   document, for any reason, the domain is resolved as without this module.

use std::cell::RefCell;
use std::error::Error as StdError;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, HOST, LOCATION};
use hyper::http::uri::{PathAndQuery, Scheme};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rookery_base::Map;
use rookery_federation::Address;
use rookery_federation::targets::{SrvTarget, interleave, is_public, order};
use rookery_stream::tls::trust::Trust;
use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tracing::debug;

use crate::{Thread, random};

/// The operator's decision to look for servers on the web.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentWeb {
    /// The authorities whose certificates are trusted.
    pub trust: Arc<Trust>,
    /// True if addresses of this machine and of private networks may be contacted.
    pub allow_private_addresses: bool,
    /// The port to contact: [`HTTPS`], except in tests.
    pub port: u16,
    /// The time for a document, redirections included: 8 seconds, except in tests.
    pub patience: Duration,
}

impl DocumentWeb {
    /// Returns the settings with these authorities, and the defaults for the rest.
    pub fn new(trust: Arc<Trust>, allow_private_addresses: bool) -> Self {
        Self { trust, allow_private_addresses, port: HTTPS, patience: PATIENCE }
    }
}

/// The part of the thread that fetches documents from the web.
pub(crate) struct DocumentReader {
    web: DocumentWeb,
    tls: TlsConnector,
    places: Semaphore,
    kept: RefCell<KeptAddresses>,
}

/// The addresses that the documents of domains name, and when each entry expires.
type KeptAddresses = Map<Box<str>, (Instant, Vec<Address>)>;
type DocumentFailed = Box<dyn StdError + Send + Sync>;

impl DocumentReader {
    /// Creates the reader.
    ///
    /// # Errors
    ///
    /// The error of the library if it refuses the settings for TLS.
    pub(crate) fn new(web: &DocumentWeb) -> Result<Self, rustls::Error> {
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let config = config.with_safe_default_protocol_versions()?;
        let mut config = config.with_root_certificates(web.trust.roots()).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let tls = TlsConnector::from(Arc::new(config));
        let (places, kept) = (Semaphore::new(MOST_READ), RefCell::default());
        Ok(Self { web: web.clone(), tls, places, kept })
    }

    fn keep(&self, domain: &str, addresses: &[Address], seconds: u64, now: Instant) {
        let mut kept = self.kept.borrow_mut();
        if kept.len() >= MOST_KEPT {
            kept.retain(|_, (until, _)| *until > now);
        }
        if kept.len() < MOST_KEPT {
            let seconds = seconds.clamp(LEAST_SECONDS, MOST_SECONDS);
            kept.insert(domain.into(), (now + Duration::from_secs(seconds), addresses.to_vec()));
        }
    }
}

impl Thread {
    /// Returns the addresses in the document of a domain, which is given in A-labels, in the order
    /// in which they are to be tried. There are none if the domain has no such document.
    pub(crate) async fn by_document(&self, domain: &str) -> Vec<Address> {
        let Some(reader) = &self.reader else { return Vec::new() };
        let now = Instant::now();
        if let Some((until, addresses)) = reader.kept.borrow().get(domain)
            && *until > now
        {
            return addresses.clone();
        }
        // Waiting for a place would delay the stanza, so the domain is then resolved without the
        // document.
        let Ok(_place) = reader.places.try_acquire() else { return Vec::new() };
        let read = timeout(reader.web.patience, self.document(reader, domain)).await;
        let (seconds, links) = match read.unwrap_or_else(|_| Err("no answer in time".into())) {
            Ok(document) => links(&document).unwrap_or_default(),
            Err(error) => {
                debug!(domain, %error, "a domain has no document about its server");
                Default::default()
            }
        };
        let addresses = addresses(domain, links);
        reader.keep(domain, &addresses, seconds, now);
        addresses
    }

    async fn document(&self, reader: &DocumentReader, domain: &str) -> Result<Bytes, DocumentFailed> {
        let port = reader.web.port;
        let authority = if port == HTTPS { domain.to_owned() } else { format!("{domain}:{port}") };
        let mut url = Uri::builder().scheme(Scheme::HTTPS).authority(authority).path_and_query(PATH).build()?;
        for _ in 0..=MOST_REDIRECTIONS {
            match self.exchange(reader, &url).await? {
                Exchanged::Document(document) => return Ok(document),
                Exchanged::Elsewhere(place) => url = redirection_target(&url, &place)?,
            }
        }
        Err("too many redirections".into())
    }

    async fn exchange(&self, reader: &DocumentReader, url: &Uri) -> Result<Exchanged, DocumentFailed> {
        let authority = url.authority().ok_or("it names no host")?;
        if url.scheme() != Some(&Scheme::HTTPS) || authority.port_u16().unwrap_or(HTTPS) != reader.web.port {
            return Err("it redirects to a port other than that of HTTPS".into());
        }
        let host = authority.host().to_owned();
        let name = ServerName::try_from(host.clone())?;
        let socket = self.connect(reader, &host).await?;
        let stream = reader.tls.connect(name, socket).await?;
        let (mut sender, connection) =
            http1::Builder::new().max_buf_size(MOST_HEAD).handshake(TokioIo::new(stream)).await?;
        // The task ends once `sender` is dropped. If the connection breaks before that, the
        // response shows it.
        let connection = tokio::task::spawn_local(async move { drop(connection.await) });
        let _guard = AbortOnDrop(connection.abort_handle());
        let path = url.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
        let request = Request::get(Uri::from(path)).header(HOST, authority.as_str()).header(ACCEPT, "application/json");
        read_response(sender.send_request(request.body(Empty::<Bytes>::new())?).await?).await
    }

    async fn connect(&self, reader: &DocumentReader, host: &str) -> Result<TcpStream, DocumentFailed> {
        let target = SrvTarget::at(host, reader.web.port, true);
        let found = self.addresses(host, &target).await.map_err(|_| "it has no address")?;
        let may = |address: &Address| reader.web.allow_private_addresses || is_public(address.socket.ip());
        let mut failure: DocumentFailed = "it has no address that may be connected to".into();
        for address in found.into_iter().filter(may).take(MOST_TRIED) {
            match timeout(CONNECTING, TcpStream::connect(address.socket)).await {
                Ok(Ok(socket)) => return Ok(socket),
                Ok(Err(error)) => failure = error.into(),
                Err(late) => failure = late.into(),
            }
        }
        Err(failure)
    }
}

enum Exchanged {
    Document(Bytes),
    /// The URL or path of a redirection.
    Elsewhere(String),
}

async fn read_response(response: Response<Incoming>) -> Result<Exchanged, DocumentFailed> {
    match response.status() {
        StatusCode::OK => {
            let body = Limited::new(response.into_body(), MOST_BYTES).collect().await?;
            Ok(Exchanged::Document(body.to_bytes()))
        }
        status if status.is_redirection() => {
            let place = response.headers().get(LOCATION).ok_or("it redirects nowhere")?;
            Ok(Exchanged::Elsewhere(place.to_str()?.to_owned()))
        }
        status => Err(status.to_string().into()),
    }
}

/// Returns the target of a redirection: a URL, or a path at the same host.
fn redirection_target(from: &Uri, place: &str) -> Result<Uri, DocumentFailed> {
    let place: Uri = place.parse()?;
    if place.scheme().is_some() {
        return Ok(place);
    }
    let mut parts = from.clone().into_parts();
    parts.path_and_query = place.into_parts().path_and_query;
    Ok(Uri::from_parts(parts)?)
}

/// Aborts the task of a request when it is dropped, so also if the request is given up.
struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A link to a domain's server, with TLS from the first byte.
#[derive(Debug, PartialEq, Eq)]
struct DocumentLink {
    priority: u16,
    weight: u16,
    port: u16,
    sni: String,
    ips: Vec<IpAddr>,
}

/// Returns the seconds for which a document is valid, and its links to servers over TCP. Links
/// without a required member are left out. Returns `None` if this isn't a document of XEP-0487,
/// which has an object `xmpp`.
fn links(document: &[u8]) -> Option<(u64, Vec<DocumentLink>)> {
    let document: Value = serde_json::from_slice(document).ok()?;
    let seconds = document.get("xmpp")?.get("ttl")?.as_u64()?;
    let all = document.get("links").and_then(Value::as_array).into_iter().flatten();
    Some((seconds, all.filter_map(link).take(MOST_LINKS).collect()))
}

fn link(value: &Value) -> Option<DocumentLink> {
    let number = |name: &str| value.get(name)?.as_u64().and_then(|number| u16::try_from(number).ok());
    let text = |name: &str| value.get(name)?.as_str();
    if text("rel")? != SERVERS_BY_TLS {
        return None;
    }
    let sni = text("sni")?.to_ascii_lowercase();
    // It must be a name to ask for, not an address.
    ServerName::try_from(sni.as_str()).ok().filter(|name| matches!(name, ServerName::DnsName(_)))?;
    let ips = value.get("ips")?.as_array()?.iter();
    let ips: Vec<IpAddr> = ips.filter_map(|ip| ip.as_str()?.parse().ok()).collect();
    let port = number("port").filter(|port| *port != 0)?;
    Some(DocumentLink { priority: number("priority")?, weight: number("weight")?, port, sni, ips })
}

/// Returns the addresses in links, in the order in which they are to be tried (RFC 2782).
fn addresses(domain: &str, links: Vec<DocumentLink>) -> Vec<Address> {
    let links = order(links, |link| (link.priority, link.weight), random);
    let of_link = |link: DocumentLink| {
        let sni: Option<Arc<str>> = (link.sni != domain).then(|| link.sni.into());
        let address = move |ip| Address { sni: sni.clone(), ..Address::new(SocketAddr::new(ip, link.port), true) };
        interleave(link.ips).into_iter().map(address)
    };
    links.into_iter().flat_map(of_link).collect()
}

/// The relation of links to servers that expect TLS from the first byte.
const SERVERS_BY_TLS: &str = "urn:xmpp:alt-connections:s2s-tls";
const PATH: &str = "/.well-known/host-meta.json";
/// The port of HTTPS.
pub const HTTPS: u16 = 443;
/// The time limit for connecting to one address.
const CONNECTING: Duration = Duration::from_secs(3);
/// The most addresses of a web server that are tried.
const MOST_TRIED: usize = 3;
/// The most redirections that are followed.
const MOST_REDIRECTIONS: usize = 3;
/// The most bytes of the head of a response.
const MOST_HEAD: usize = 16 * 1024;
/// The most links of a document that are used.
const MOST_LINKS: usize = 20;
/// The shortest and the longest time for which a result is cached, in seconds. This also holds if
/// there was no document.
const LEAST_SECONDS: u64 = 300;
const MOST_SECONDS: u64 = 24 * 60 * 60;
/// The time limit for a document, redirections included.
pub(crate) const PATIENCE: Duration = Duration::from_secs(8);
/// The most documents that are read at a time.
pub(crate) const MOST_READ: usize = 16;
/// The most bytes of a document.
pub(crate) const MOST_BYTES: usize = 64 * 1024;
/// The most domains whose results are cached.
pub(crate) const MOST_KEPT: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn document(link: &str) -> Vec<u8> {
        format!(r#"{{"xmpp": {{"ttl": 3000}}, "links": [{link}]}}"#).into_bytes()
    }

    const GOOD: &str = r#"{"rel": "urn:xmpp:alt-connections:s2s-tls", "port": 443, "ips": ["192.0.2.1", "2001:db8::1"],
        "priority": 10, "weight": 50, "sni": "Chat.a.example", "ech": "eG1wcC1jbGllbnQ="}"#;

    #[test]
    fn links_for_servers_are_read_and_others_are_not() {
        let ips = ["192.0.2.1", "2001:db8::1"].map(|ip| ip.parse().unwrap()).to_vec();
        let expected = DocumentLink { priority: 10, weight: 50, port: 443, sni: "chat.a.example".into(), ips };
        let others = r#"{"rel": "urn:xmpp:alt-connections:websocket", "href": "wss://a.example/ws"},
            {"rel": "urn:xmpp:alt-connections:tls", "port": 443, "ips": ["192.0.2.9"], "priority": 1, "weight": 1,
             "sni": "a.example"},"#;
        assert_eq!(links(&document(&format!("{others}{GOOD}"))), Some((3000, vec![expected])));
    }

    #[test]
    fn what_lacks_something_is_left_out() {
        for (good, bad) in [
            ("\"port\": 443,", ""),
            ("443", "0"),
            ("443", "65536"),
            ("443", "\"443\""),
            ("\"priority\": 10,", ""),
            ("\"weight\": 50,", "\"weight\": -1,"),
            ("Chat.a.example", "a b"),
            ("Chat.a.example", "192.0.2.1"),
            ("Chat.a.example", ""),
            ("\"ips\"", "\"addresses\""),
        ] {
            assert_ne!(GOOD.replace(good, bad), GOOD, "{good}");
            assert_eq!(links(&document(&GOOD.replace(good, bad))), Some((3000, Vec::new())), "{bad}");
        }
        let names = GOOD.replace("192.0.2.1", "somewhere.example");
        assert_eq!(links(&document(&names)).unwrap().1[0].ips.len(), 1, "names are no addresses");
    }

    #[test]
    fn a_document_of_another_kind_says_nothing() {
        let without = String::from_utf8(document(GOOD)).unwrap().replace("xmpp\":", "other\":");
        let deep = "[".repeat(50_000);
        for document in ["", "<XRD/>", "null", "{}", &without, r#"{"xmpp": {}, "links": []}"#, &deep] {
            assert_eq!(links(document.as_bytes()), None);
        }
    }

    #[test]
    fn links_and_addresses_are_bounded_and_in_order() {
        let all: Vec<String> = (0..100).map(|number| GOOD.replace("10,", &format!("{},", 100 - number))).collect();
        let (_, read) = links(&document(&all.join(","))).unwrap();
        assert_eq!(read.len(), MOST_LINKS);
        let link = |priority, last: u8| DocumentLink {
            priority,
            weight: 0,
            port: 443,
            sni: "a.example".into(),
            ips: (0..100).map(|more| IpAddr::from([192, 0, more, last])).collect(),
        };
        let found = addresses("a.example", vec![link(2, 2), link(1, 1)]);
        assert_eq!(found.len(), 20, "ten of each");
        assert_eq!(found[0], Address::new("192.0.0.1:443".parse().unwrap(), true), "its own name needn't be said");
        let named = addresses("b.example", vec![link(1, 1)]);
        assert_eq!(named[0].sni.as_deref(), Some("a.example"));
    }

    #[test]
    fn redirections_lead_to_urls_and_paths() {
        let from: Uri = "https://a.example/.well-known/host-meta.json".parse().unwrap();
        for (place, to) in [
            ("https://www.a.example/x", Some("https://www.a.example/x")),
            ("/y?z", Some("https://a.example/y?z")),
            ("http://[", None),
            ("", None),
        ] {
            assert_eq!(redirection_target(&from, place).ok().map(|url| url.to_string()).as_deref(), to, "{place}");
        }
    }
}
