//! A client's way to a session: stream, TLS, SASL, binding (RFC 6120 §4 to §7).

use base64::{Engine, engine::general_purpose::STANDARD};
use rookery_base::Transport;
use rookery_client::OfferedMechanisms;
pub use rookery_client::words::{bind_request, component_header, handshake, sasl, stream_header};
use rookery_jid::Jid;
use rookery_sasl::Mechanism;
use rookery_sasl::client::{Exchange, Login};
use rookery_xml::{Element, ns};

use crate::client::Client;
use crate::config::COMPONENT_SECRET;
use crate::server::PASSWORD;
use crate::websocket;
use crate::wire::Item;

/// The protection of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Security {
    /// The stream is not encrypted.
    Plain,
    /// By STARTTLS (RFC 6120 §5).
    StartTls,
    /// From the first byte on (XEP-0368).
    DirectTls,
}

impl Client {
    /// Logs in to an account with its right password, by the strongest offered mechanism; the
    /// stream then waits for binding.
    pub fn log_in(&mut self, account: &Jid, security: Security) {
        let domain = account.domain().to_owned();
        if security == Security::DirectTls {
            self.handshake(&domain, &[b"xmpp-client"]);
        }
        self.open(&domain);
        if security == Security::StartTls {
            self.start_tls(&domain);
        }
        let mechanism = self.strongest();
        let username = account.local().unwrap_or_default().to_owned();
        self.authenticate(&username, PASSWORD, mechanism).expect("the right password");
        self.open(&domain);
    }

    /// Logs in to an account and opens the stream that waits for binding, without waiting for the
    /// server.
    pub fn log_in_ahead(&mut self, account: &Jid) {
        let domain = account.domain().to_owned();
        self.open(&domain);
        let (mechanism, username) = (self.strongest(), account.local().unwrap_or_default().to_owned());
        self.authenticate(&username, PASSWORD, mechanism).expect("the right password");
        self.begin_stream(&domain);
    }

    /// Opens another connection of the same user, logged in but not bound. This client isn't
    /// affected.
    pub fn again(&self) -> Client {
        let account = self.jid.as_ref().expect("bound").to_bare();
        let mut client = self.server().connect().with_name(&self.name);
        client.log_in(&account, Security::Plain);
        client
    }

    /// Opens a stream and reads header and features.
    pub fn open(&mut self, domain: &str) -> &Element {
        self.begin_stream(domain);
        self.expect_header();
        let features = self.expect_element();
        assert!(features.is("features", ns::STREAMS), "features were expected, not {features:?}");
        self.features.insert(features)
    }

    fn begin_stream(&mut self, domain: &str) {
        self.send(&if self.wire.transport == Transport::WebSocket {
            websocket::open(domain)
        } else {
            stream_header(domain)
        });
    }

    /// Asks for TLS, does the handshake and restarts the stream.
    pub fn start_tls(&mut self, domain: &str) {
        self.send("<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>");
        self.expect("<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>");
        self.handshake(domain, &[]);
        self.open(domain);
    }

    /// Does a TLS handshake.
    pub fn handshake(&mut self, domain: &str, alpn: &[&[u8]]) {
        self.wire.start_tls(domain, alpn);
        self.pump();
        assert!(!self.wire.is_handshaking(), "the handshake does not end");
    }

    /// Returns the names of the offered mechanisms.
    pub fn mechanisms(&self) -> Vec<String> {
        self.offered_mechanisms().names
    }

    fn offered_mechanisms(&self) -> OfferedMechanisms {
        self.features.as_ref().and_then(OfferedMechanisms::read).unwrap_or_default()
    }

    fn strongest(&self) -> Mechanism {
        let strongest =
            self.offered_mechanisms().with_announced(|announced| announced.strongest(&self.wire.bindings()));
        strongest.expect("a mechanism in common")
    }

    /// Authenticates.
    ///
    /// # Errors
    /// The condition of the failure.
    pub fn authenticate(&mut self, username: &str, password: &str, mechanism: Mechanism) -> Result<(), String> {
        let (mut exchange, initial) = self.exchange(username, password, mechanism);
        self.send(&sasl("auth", Some(mechanism), &initial));
        loop {
            let answer = self.expect_element();
            assert_eq!(answer.ns(), ns::SASL, "{answer:?}");
            let data = STANDARD.decode(answer.text()).expect("Base64");
            match answer.name() {
                "challenge" => {
                    let response = exchange.challenge(&data, None).expect("a challenge that can be answered");
                    self.send(&sasl("response", None, &response));
                }
                "success" => {
                    exchange.finish(&data).expect("a server that knows the password");
                    return Ok(());
                }
                _ => return Err(answer.children().next().map(|child| child.name().to_owned()).unwrap_or_default()),
            }
        }
    }

    /// Begins an authentication. Returns the exchange and its first message.
    pub fn exchange(&self, username: &str, password: &str, mechanism: Mechanism) -> (Exchange, Vec<u8>) {
        let login = Login { username, password, authzid: None };
        let begun = self
            .offered_mechanisms()
            .with_announced(|announced| Exchange::start(mechanism, &login, &self.wire.bindings(), announced));
        begun.expect("an exchange")
    }

    /// Asks for a resource.
    pub fn ask_to_bind(&mut self, resource: Option<&str>) -> Element {
        self.send(&bind_request(resource));
        self.expect_element()
    }

    /// Binds a resource.
    pub fn bind(&mut self, resource: &str) -> Jid {
        let result = self.ask_to_bind(Some(resource));
        self.take_bound(&result)
    }

    /// Enables stream management with resumption (XEP-0198 §3). Returns the id.
    pub fn enable(&mut self) -> String {
        self.send("<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
        let enabled = self.expect("<enabled xmlns='urn:xmpp:sm:3' resume='true' id='*' max='*'/>");
        enabled.attr("id").expect("an id").to_owned()
    }

    /// Resumes the session of `jid` instead of binding (XEP-0198 §5). Returns the number of stanzas
    /// that the server has handled.
    pub fn resume(&mut self, jid: &Jid, id: &str, handled: u32) -> u32 {
        self.send(&format!("<resume xmlns='urn:xmpp:sm:3' previd='{id}' h='{handled}'/>"));
        // The server waits until the session's messages are archived.
        self.server().advance(ARCHIVED_MS);
        let resumed = self.expect(&format!("<resumed xmlns='urn:xmpp:sm:3' previd='{id}' h='*'/>"));
        self.jid = Some(jid.clone());
        resumed.attr("h").and_then(|h| h.parse().ok()).expect("a number")
    }

    /// Handles the result of binding.
    pub fn take_bound(&mut self, result: &Element) -> Jid {
        let jid = result.child("bind", ns::BIND).and_then(|bind| bind.child_text("jid", ns::BIND));
        let jid = jid.unwrap_or_else(|| panic!("no resource was bound: {result:?}"));
        let jid = Jid::parse(&jid).expect("an address");
        self.name = jid.local().unwrap_or_default().to_owned();
        self.jid = Some(jid.clone());
        jid
    }

    /// Opens the stream of a component and completes the handshake with the right secret (XEP-0114
    /// §3).
    pub fn attach(&mut self, name: &str) {
        let digest = self.open_component(name, COMPONENT_SECRET);
        self.send(&format!("<handshake>{digest}</handshake>"));
        self.expect("<handshake/>");
    }

    /// Opens the stream of a component, and returns the digest that proves a secret on it.
    pub fn open_component(&mut self, name: &str, secret: &str) -> String {
        self.send(&component_header(name));
        let id = self.expect_header().id.expect("a stream has an id");
        handshake(&id, secret)
    }

    /// Expects the server's stream header.
    pub fn expect_header(&mut self) -> rookery_xml::Header {
        match self.take() {
            Some(Item::Header(header)) => header,
            other => panic!("{}: a stream header was expected, not {other:?}", self.name),
        }
    }
}

/// The longest time until the messages of a client with stream management are in the archives, in
/// milliseconds.
const ARCHIVED_MS: u64 = 200;
