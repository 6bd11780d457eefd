//! One server, `b.example`, and the bytes that others send it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use rookery_fanout::Packet;
use rookery_fanout::multicast::Outgoing;
use rookery_federation::inbound::Ours;
use rookery_federation::{
    Action, Address, ConnectionKey, FederationSettings, Found, Home, PeerPolicy, Secret, ServerStreams,
};
use rookery_hub::Custody;
use rookery_jid::Jid;
use rookery_stream::tls::trust::{Names, Untrusted};

/// The server, and the results of its input.
pub struct HostileRig {
    pub servers: ServerStreams,
    pub now_ms: u64,
    /// Stanzas that were handed on, with sender and recipient.
    pub delivered: Vec<(String, String)>,
    /// Stanzas that were bounced, with id and condition.
    pub bounced: Vec<(String, String)>,
    /// The text of each bounce, if it had one.
    pub told: Vec<Option<String>>,
    /// Domains that were looked up in DNS.
    pub looked_up: Vec<String>,
    /// Connections that were requested.
    pub calls: Vec<(ConnectionKey, Address)>,
    /// Connections that are ended or dropped.
    pub gone: BTreeSet<ConnectionKey>,
    /// Connections that don't take their output.
    pub stalled: BTreeSet<ConnectionKey>,
    /// The answers of DNS; it never answers about other domains.
    pub dns: BTreeMap<String, Found>,
    /// The custody of delivered stanzas, if there is a store that takes its time.
    pub store: Option<Vec<Custody>>,
    said: BTreeMap<ConnectionKey, Vec<u8>>,
}

/// The hosts that are the server's own.
pub struct HostileHosts;

impl Ours for HostileHosts {
    fn is_ours(&self, host: &str) -> bool {
        matches!(host, "b.example" | "rooms.b.example")
    }
}

impl Home for HostileHosts {
    fn home(&self, _: &str) -> usize {
        0
    }

    fn shard(&self) -> usize {
        0
    }
}

/// The same server at a shard that is the home of no domain.
pub struct Elsewhere;

impl Ours for Elsewhere {
    fn is_ours(&self, host: &str) -> bool {
        HostileHosts.is_ours(host)
    }
}

impl Home for Elsewhere {
    fn home(&self, _: &str) -> usize {
        1
    }

    fn shard(&self) -> usize {
        0
    }
}

pub fn address(number: u8) -> SocketAddr {
    SocketAddr::from(([9, 9, 9, number], 5269))
}

impl HostileRig {
    pub fn new(policy: PeerPolicy) -> Self {
        let mut settings = FederationSettings::new(Secret::new(b"the secret of b.example"));
        settings.rules.policy = policy;
        Self::with(settings)
    }

    pub fn with(settings: FederationSettings) -> Self {
        let mut servers = ServerStreams::new(Arc::new(settings));
        servers.set_time(1);
        Self {
            servers,
            now_ms: 1,
            delivered: Vec::new(),
            bounced: Vec::new(),
            told: Vec::new(),
            looked_up: Vec::new(),
            calls: Vec::new(),
            gone: BTreeSet::new(),
            stalled: BTreeSet::new(),
            dns: BTreeMap::new(),
            store: None,
            said: BTreeMap::new(),
        }
    }

    /// Runs until nothing is left to do at this moment.
    pub fn run(&mut self) {
        loop {
            self.servers.set_time(self.now_ms);
            self.servers.run_timers();
            self.servers.flush();
            let Some(action) = self.servers.next_action() else { return };
            self.act(action);
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Resolve(domain) => {
                self.looked_up.push(domain.to_string());
                if let Some(found) = self.dns.get(&*domain).cloned() {
                    self.servers.resolved(&domain, &found);
                }
            }
            Action::Connect(key, address) => self.calls.push((key, address)),
            Action::StartTls(..) | Action::Refuse(..) => {}
            Action::Write(key, bytes) => {
                self.said.entry(key).or_default().extend_from_slice(&bytes);
                if !self.stalled.contains(&key) {
                    self.servers.drained(key);
                }
            }
            Action::End(key) => {
                self.gone.insert(key);
                self.servers.closed(key, "ended");
            }
            Action::Drop(key) => _ = self.gone.insert(key),
            Action::Move(..) | Action::Route(..) => panic!("there is one shard, and no component"),
            Action::Deliver(packet, to, custody) => {
                self.delivered.push((packet.sender().expect("a sender").to_string(), to.to_string()));
                if let Some(store) = &mut self.store {
                    store.extend(custody);
                }
            }
            Action::Bounce(stanza, error) => {
                let id = stanza.packet().id().unwrap_or_default().into_owned();
                self.bounced.push((id, error.condition.name().to_owned()));
                self.told.push(error.text.map(|text| text.into_owned()));
            }
            Action::Lost(_) => {}
            Action::ComponentCame(_) | Action::ComponentGone(_) => panic!("there is no component"),
            Action::Pause(..) => {}
        }
    }

    /// Changes the configuration, as the operator does.
    pub fn reload(&mut self, settings: FederationSettings) {
        self.servers.apply(Arc::new(settings), &HostileHosts);
        self.run();
    }

    /// Lets time pass, timer by timer.
    pub fn advance(&mut self, ms: u64) {
        let until = self.now_ms + ms;
        self.run();
        while let Some(due) = self.servers.next_timer().filter(|due| *due <= until) {
            self.now_ms = self.now_ms.max(due);
            self.run();
        }
        self.now_ms = until;
        self.run();
    }

    /// Connects from an address. Returns `None` if the connection is closed at once.
    pub fn call(&mut self, from: SocketAddr) -> Option<ConnectionKey> {
        self.run();
        let key = self.servers.accept(from, false)?;
        self.gone.remove(&key);
        self.said.remove(&key);
        Some(key)
    }

    /// Handles incoming bytes; returns the output to the connection.
    pub fn hear(&mut self, key: ConnectionKey, bytes: impl AsRef<[u8]>) -> String {
        self.servers.received(key, bytes.as_ref(), &HostileHosts);
        self.run();
        self.said_to(key)
    }

    pub fn said_to(&mut self, key: ConnectionKey) -> String {
        String::from_utf8(self.said.remove(&key).unwrap_or_default()).expect("text")
    }

    /// Completes a handshake.
    pub fn secure(&mut self, key: ConnectionKey, shown: Result<Names, Untrusted>) -> String {
        self.servers.secured(key, shown);
        self.run();
        self.said_to(key)
    }

    /// Connects as a domain, with TLS.
    pub fn call_with_tls(&mut self, from: SocketAddr, domain: &str, shown: Result<Names, Untrusted>) -> ConnectionKey {
        let key = self.call(from).expect("a place");
        assert!(self.hear(key, header(domain)).contains("<starttls"));
        assert!(self.hear(key, STARTTLS).contains("<proceed"));
        self.secure(key, shown);
        self.hear(key, header(domain));
        key
    }

    /// Connects as a domain and proves it by its certificate.
    pub fn call_proven(&mut self, from: SocketAddr, domain: &str) -> ConnectionKey {
        let key = self.call_with_tls(from, domain, Ok(Names::of(&[domain])));
        assert!(self.hear(key, EXTERNAL).contains("<success"));
        self.hear(key, header(domain));
        key
    }

    /// Sends a message from a user of this server.
    pub fn send(&mut self, to: &str, id: &str) {
        self.send_from("juliet@b.example/balcony", to, id, "hi");
    }

    pub fn send_from(&mut self, from: &str, to: &str, id: &str, body: &str) {
        self.send_text(to, &format!("<message from='{from}' id='{id}'><body>{body}</body></message>"));
    }

    /// Sends a stanza, without its `to`.
    pub fn send_text(&mut self, to: &str, text: &str) {
        let packet = Packet::from_bytes(text.as_bytes()).expect("a packet");
        self.servers.set_time(self.now_ms);
        self.servers.send(Outgoing::plain(Jid::parse(to).expect("an address"), packet));
        self.run();
    }

    /// Opens the connection that was requested last.
    pub fn answer(&mut self) -> ConnectionKey {
        let (key, _) = *self.calls.last().expect("a call");
        self.servers.connected(key);
        self.run();
        key
    }

    /// Lets the called server accept the stream, as a good one does, up to the end of the login.
    pub fn welcome(&mut self, domain: &str) -> ConnectionKey {
        let key = self.answer();
        self.greet(key, domain);
        key
    }

    /// Accepts the stream of an existing connection in the same way.
    pub fn greet(&mut self, key: ConnectionKey, domain: &str) {
        for bytes in [reply(domain, "1"), TLS_FEATURE.to_owned(), PROCEED.to_owned()] {
            self.hear(key, bytes);
        }
        self.secure(key, Ok(Names::of(&[domain])));
        for bytes in [reply(domain, "2"), EXTERNAL_FEATURE.to_owned(), SUCCESS.to_owned()] {
            self.hear(key, bytes);
        }
        self.hear(key, reply(domain, "3"));
    }
}

/// Returns a DNS answer with one address.
pub fn at(number: u8) -> Found {
    Ok(vec![Address::new(address(number), false)])
}

pub fn header(from: &str) -> String {
    format!(
        "<stream:stream xmlns='jabber:server' xmlns:stream='http://etherx.jabber.org/streams' \
         xmlns:db='jabber:server:dialback' from='{from}' to='b.example' version='1.0'>"
    )
}

/// Returns the header of a called server.
pub fn reply(from: &str, id: &str) -> String {
    header(from).replace(" version", &format!(" id='{id}' version"))
}

pub const STARTTLS: &str = "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>";
pub const EXTERNAL: &str = "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='EXTERNAL'>=</auth>";
pub const TLS_FEATURE: &str = "<stream:features><starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/></stream:features>";
pub const PROCEED: &str = "<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>";
pub const EXTERNAL_FEATURE: &str = "<stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>\
                                    <mechanism>EXTERNAL</mechanism></mechanisms></stream:features>";
pub const SUCCESS: &str = "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>";
