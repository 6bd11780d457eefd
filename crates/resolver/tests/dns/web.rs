//! Tests domains that publish their servers on the web (XEP-0487), and web servers that fail, lie,
//! are slow and redirect us. The web server is the test's own, on loopback.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use hickory_resolver::proto::rr::rdata::{A, NULL, SRV};
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use rookery_federation::{Address, Found};
use rookery_resolver::{Dns, DocumentWeb, ResolverSettings};
use rookery_shard::Resolver;
use rookery_stream::tls::certificate::Authority;
use rookery_stream::tls::trust::Trust;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::name_server::{NameServer, Say, find_by};

/// A web server, until the process ends.
struct WebSite {
    port: u16,
    /// The responses by host and path. The server is silent if there is none.
    pages: Arc<Mutex<BTreeMap<String, String>>>,
    asked: Arc<Mutex<Vec<String>>>,
    authority: Authority,
}

impl WebSite {
    /// Starts a server with a certificate for `a.example` and `www.a.example`.
    fn start() -> Self {
        let authority = Authority::new(NOW).expect("an authority");
        let names = ["a.example", "www.a.example"].map(str::to_owned);
        let issued = authority.issue(&names, NOW).expect("a certificate");
        let chain = CertificateDer::pem_slice_iter(issued.chain.as_bytes()).map(|der| der.expect("PEM")).collect();
        let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).expect("a key");
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let config = config.with_safe_default_protocol_versions().expect("versions").with_no_client_auth();
        let config = Arc::new(config.with_single_cert(chain, key).expect("a configuration"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (pages, asked) = (Arc::<Mutex<BTreeMap<String, String>>>::default(), Arc::<Mutex<Vec<String>>>::default());
        let site = Self { port, pages: pages.clone(), asked: asked.clone(), authority };
        thread::spawn(move || {
            for socket in listener.incoming() {
                let socket = socket.expect("a connection");
                let session = ServerConnection::new(config.clone()).expect("a session");
                let mut stream = StreamOwned::new(session, socket);
                let (pages, asked) = (pages.clone(), asked.clone());
                // A client that doesn't trust the certificate may end the connection.
                thread::spawn(move || {
                    let Some(page) = request(&mut stream) else { return };
                    asked.lock().expect("questions").push(page.clone());
                    let answer = pages.lock().expect("pages").get(&page).cloned();
                    match answer {
                        Some(answer) => _ = stream.write_all(answer.as_bytes()),
                        None => _ = stream.read(&mut [0]),
                    }
                });
            }
        });
        site
    }

    fn say(&self, page: &str, status: &str, head: &str, body: &str) {
        let length = body.len();
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{head}\r\n{body}");
        self.pages.lock().expect("pages").insert(page.to_owned(), answer);
    }

    fn requested_pages(&self) -> Vec<String> {
        self.asked.lock().expect("questions").clone()
    }

    fn web(&self) -> DocumentWeb {
        let trust = Arc::new(Trust::new([self.authority.der().to_vec()]));
        DocumentWeb { port: self.port, patience: Duration::from_secs(60), ..DocumentWeb::new(trust, true) }
    }

    fn settings(&self, dns: &NameServer) -> ResolverSettings {
        ResolverSettings { servers: vec![dns.address], web: Some(self.web()), ..ResolverSettings::default() }
    }
}

/// Returns the host without its port, and the path that a client requests.
fn request(stream: &mut impl Read) -> Option<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("text");
    let path = head.split(' ').nth(1).expect("a path");
    let host = head.lines().find_map(|line| line.strip_prefix("host: ")).expect("a host");
    Some(format!("{}{path}", host.split(':').next().expect("a name")))
}

/// Starts a name server for a domain without SRV records, whose address is this machine's.
fn names() -> NameServer {
    let dns = NameServer::start();
    dns.say("a.example.", RecordType::A, Say::Records(vec![here()]));
    dns
}

fn here() -> RData {
    RData::A(A(Ipv4Addr::LOCALHOST))
}

fn itself() -> Address {
    Address::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 5269)), false)
}

fn document() -> String {
    let link = |priority: u16, last: u8, sni: &str| {
        format!(
            r#"{{"rel": "urn:xmpp:alt-connections:s2s-tls", "port": 443, "ips": ["192.0.2.{last}"],
                "priority": {priority}, "weight": 0, "sni": "{sni}"}}"#
        )
    };
    let links = [link(2, 2, "chat.a.example"), link(1, 1, "a.example")].join(",");
    format!(r#"{{"xmpp": {{"ttl": 3000}}, "links": [{links}]}}"#)
}

/// Returns the addresses in the document, followed by the domain itself.
fn by_document() -> Vec<Address> {
    let at = |last: u8| Address::new(SocketAddr::from(([192, 0, 2, last], 443)), true);
    vec![at(1), Address { sni: Some("chat.a.example".into()), ..at(2) }, itself()]
}

const NOW: u64 = 1_700_000_000;
const PAGE: &str = "a.example/.well-known/host-meta.json";

#[test]
fn a_domain_without_srv_records_says_on_the_web_where_its_servers_are() {
    let (site, dns) = (WebSite::start(), names());
    site.say(PAGE, "200 OK", "", &document());
    assert_eq!(find_by(site.settings(&dns), "a.example"), Ok(by_document()));
    let (lines, _) = rookery_resolver::explain(&site.settings(&dns), "a.example");
    let told =
        ["192.0.2.1:443 (direct TLS)", "192.0.2.2:443 (direct TLS, as chat.a.example)", "127.0.0.1:5269 (STARTTLS)"];
    assert_eq!(lines[2..], told);
}

#[test]
fn the_web_is_not_asked_where_dns_says_it_all() {
    let (site, dns) = (WebSite::start(), names());
    site.say(PAGE, "200 OK", "", &document());
    // The operator hasn't enabled it.
    assert_eq!(find_by(ResolverSettings { web: None, ..site.settings(&dns) }, "a.example"), Ok(vec![itself()]));
    // There are SRV records.
    let target = Name::from_ascii("a.example.").expect("a name");
    dns.say(
        "_xmpp-server._tcp.a.example.",
        RecordType::SRV,
        Say::Records(vec![RData::SRV(SRV::new(0, 0, 5269, target))]),
    );
    assert_eq!(find_by(site.settings(&dns), "a.example"), Ok(vec![itself()]));
    // The domain's signed zone has certificates.
    let signed = NameServer::start();
    let tlsa = RData::Unknown { code: RecordType::TLSA, rdata: NULL::with([&[3, 1, 1][..], &[0xab; 32]].concat()) };
    signed.say("a.example.", RecordType::A, Say::Secure(vec![here()]));
    signed.say("_5269._tcp.a.example.", RecordType::TLSA, Say::Secure(vec![tlsa]));
    let found = find_by(ResolverSettings { dnssec: true, ..site.settings(&signed) }, "a.example").expect("an address");
    assert_eq!(found.iter().map(|address| address.tlsa.is_some()).collect::<Vec<_>>(), [true]);
    // There is no such domain.
    assert!(find_by(site.settings(&dns), "nowhere.example").is_err());
    assert_eq!(site.requested_pages(), [""; 0]);
}

#[test]
fn without_a_good_document_the_domain_itself_is_the_server() {
    let large = format!(r#"{{"xmpp": {{"ttl": 3000}}, "other": "{}"}}"#, "x".repeat(70_000));
    let cases = [
        ("404 Not Found", "", &*document()),
        ("500 Internal Server Error", "", &document()),
        ("200 OK", "", "<XRD/>"),
        ("200 OK", "", r#"{"links": []}"#),
        ("200 OK", "", &large),
        ("200 OK", &format!("x: {}\r\n", "x".repeat(20_000)), &document()),
        ("302 Found", "", ""),
    ];
    for (status, head, body) in cases {
        let (site, dns) = (WebSite::start(), names());
        site.say(PAGE, status, head, body);
        assert_eq!(find_by(site.settings(&dns), "a.example"), Ok(vec![itself()]), "{status}");
        assert_eq!(site.requested_pages(), [PAGE], "{status}");
    }
}

#[test]
fn who_says_nothing_is_not_waited_for() {
    let (site, dns) = (WebSite::start(), names());
    let web = DocumentWeb { patience: Duration::from_millis(50), ..site.web() };
    assert_eq!(find_by(ResolverSettings { web: Some(web), ..site.settings(&dns) }, "a.example"), Ok(vec![itself()]));
}

/// The document is the domain's own: nobody on the way can forge one.
#[test]
fn a_certificate_that_does_not_hold_proves_no_document() {
    let (site, dns) = (WebSite::start(), names());
    site.say(PAGE, "200 OK", "", &document());
    let trust = Arc::new(Trust::new([Authority::new(NOW).expect("an authority").der().to_vec()]));
    let web = DocumentWeb { trust, ..site.web() };
    assert_eq!(find_by(ResolverSettings { web: Some(web), ..site.settings(&dns) }, "a.example"), Ok(vec![itself()]));
    dns.say("b.example.", RecordType::A, Say::Records(vec![here()]));
    site.say("b.example/.well-known/host-meta.json", "200 OK", "", &document());
    assert_eq!(find_by(site.settings(&dns), "b.example"), Ok(vec![itself()]), "a certificate for others");
    assert_eq!(site.requested_pages(), [""; 0]);
}

#[test]
fn nobody_has_us_ask_private_addresses() {
    let (site, dns) = (WebSite::start(), names());
    site.say(PAGE, "200 OK", "", &document());
    let web = DocumentWeb { allow_private_addresses: false, ..site.web() };
    assert_eq!(find_by(ResolverSettings { web: Some(web), ..site.settings(&dns) }, "a.example"), Ok(vec![itself()]));
    assert_eq!(site.requested_pages(), [""; 0]);
}

#[test]
fn redirections_are_followed_within_https_and_not_for_ever() {
    let (site, dns) = (WebSite::start(), names());
    dns.say("www.a.example.", RecordType::A, Say::Records(vec![here()]));
    let port = site.port;
    site.say(PAGE, "301 Moved", &format!("location: https://www.a.example:{port}/x\r\n"), "");
    site.say("www.a.example/x", "307 Temporary", "location: /y\r\n", "");
    site.say("www.a.example/y", "200 OK", "", &document());
    assert_eq!(find_by(site.settings(&dns), "a.example"), Ok(by_document()));
    assert_eq!(site.requested_pages(), [PAGE, "www.a.example/x", "www.a.example/y"]);
    for place in [
        format!("http://www.a.example:{port}/y"),
        format!("https://www.a.example:{}/y", port ^ 1),
        format!("https://127.0.0.1:{port}/y"),
        format!("https://elsewhere.example:{port}/y"),
        "https://www.a.example/y".into(),
        "x".into(),
    ] {
        let asked = site.requested_pages().len();
        site.say(PAGE, "302 Found", &format!("location: {place}\r\n"), "");
        assert_eq!(find_by(site.settings(&dns), "a.example"), Ok(vec![itself()]), "{place}");
        assert_eq!(site.requested_pages().len(), asked + 1, "{place}");
    }
    let asked = site.requested_pages().len();
    site.say(PAGE, "302 Found", &format!("location: https://a.example:{port}/.well-known/host-meta.json\r\n"), "");
    assert_eq!(find_by(site.settings(&dns), "a.example"), Ok(vec![itself()]));
    assert_eq!(site.requested_pages().len(), asked + 4);
}

#[test]
fn a_document_is_read_once_while_it_holds_and_so_is_none() {
    for (status, expected) in [("200 OK", by_document()), ("404 Not Found", vec![itself()])] {
        let (site, dns) = (WebSite::start(), names());
        site.say(PAGE, status, "", &document());
        let resolver = Dns::start(site.settings(&dns)).expect("a thread");
        for _ in 0..3 {
            let (tell, told) = mpsc::channel::<Found>();
            resolver.resolve("a.example", Box::new(move |found| tell.send(found).expect("somebody waits")));
            assert_eq!(told.recv().expect("an answer").as_ref(), Ok(&expected));
        }
        assert_eq!(site.requested_pages(), [PAGE], "{status}");
    }
}
