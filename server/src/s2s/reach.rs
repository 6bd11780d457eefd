//! `rookery s2s DOMAIN`: connects to another server as the running server would, and reports each
//! step: DNS, addresses, TLS, certificate, the features on offer, and which authentication
//! succeeds. The stream is closed as soon as it is ready, without sending anything on it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rookery_federation::inbound::Ours;
use rookery_federation::outbound::{Outbound, OutboundEvent, StreamPurpose};
use rookery_federation::targets::is_public;
use rookery_federation::{Address, NotFound, Objection, PeerPolicy};
use rookery_stream::tls::client::ClientTls;
use rookery_xml::Scanner;
use serde_json::json;

use crate::arguments::ShownAs;
use crate::clock;
use crate::config::{DomainConfig, OwnFederation, ServerConfig};
use crate::database::OpenedDatabase;
use crate::failure::CommandFailure;
use crate::federation;
use crate::loaded::ConfigSource;
use crate::welcome::say;

/// Connects to a domain on behalf of `from`, or of the default domain, and prints each step.
///
/// # Errors
///
/// [`CommandFailure::Told`] if it can't be reached; [`CommandFailure::Config`] if the configuration
/// is wrong.
pub fn run(source: &ConfigSource, domain: &str, from: Option<&str>, shown: ShownAs) -> Result<(), CommandFailure> {
    let mut tell = |line: String| match shown.json {
        true => say(&format!("{}\n", json!({ "text": line }))),
        false => say(&format!("{line}\n")),
    };
    let mut config = source.read()?;
    let local = from.unwrap_or(config.domains.first().map_or("localhost", |domain| domain.name.as_str())).to_owned();
    let Some(place) = config.domains.iter().position(|domain| config.hosts_of(domain).contains(&local)) else {
        return Err(CommandFailure::Failed(format!(
            "{local:?} is neither a domain of this server nor a service of one"
        )));
    };
    if !config.domains.get(place).is_some_and(|domain| config.federation_of(domain).enabled) {
        let table = table(&config, &local);
        tell(format!(
            "note      federation is off in the configuration (`enabled` in {table}); this is what would happen"
        ));
        if let Some(domain) = config.domains.get_mut(place) {
            domain.federation.enabled = Some(true);
        }
    }
    // Dialback uses the running server's secret.
    let decoys = OpenedDatabase::open_patiently(&source.folder, &config.store)?.decoys()?;
    let certificates = crate::certificate::load(&config, &source.folder)?;
    let Some(federated) = federation::load(&config, &certificates, &decoys, None)? else {
        return Err(CommandFailure::Told);
    };
    let reached = look(&config, &federated, &local, domain, &mut tell);
    if shown.json {
        say(&format!("{}\n", json!({ "reached": reached })));
    }
    if reached { Ok(()) } else { Err(CommandFailure::Told) }
}

/// Returns the table of the configuration that holds the rules of one of our hosts.
fn table(config: &ServerConfig, local: &str) -> String {
    let domain = config.domains.iter().find(|domain| config.hosts_of(domain).iter().any(|host| host == local));
    match domain.filter(|domain| domain.federation != OwnFederation::default()) {
        Some(DomainConfig { name, .. }) => format!("[federation] and [domain.{name:?}.federation]"),
        None => "[federation]".to_owned(),
    }
}

/// Prints the steps, one per line. Returns `true` if the domain was reached.
pub fn look(
    config: &ServerConfig,
    federated: &federation::Federated,
    local: &str,
    domain: &str,
    tell: &mut dyn FnMut(String),
) -> bool {
    let settings = &federated.terms.settings;
    let policy = match settings.policy_for(local, domain) {
        PeerPolicy::Certificate => "certificate",
        PeerPolicy::Dialback => "dialback",
        PeerPolicy::Plain => "plain",
    };
    tell(format!("policy    {local} to {domain}: {policy}"));
    if let Some(objection) = settings.objection(local, domain) {
        let what = match objection {
            Objection::Closed => format!("{local} doesn't communicate with other servers"),
            Objection::Denied(None) => "the domain is in `deny`".to_owned(),
            Objection::Denied(Some(reason)) => format!("the domain is in `deny`: {reason}"),
            Objection::NotAllowed => "the domain is not in `allow`".to_owned(),
        };
        tell(format!("fault     {what}; see {}", table(config, local)));
        return false;
    }
    let rules = settings.rules_of(local);
    if let Some(reason) = rules.allow.iter().find(|rule| rule.pattern.matches(domain)).and_then(|it| it.reason.as_ref())
    {
        tell(format!("policy    the domain is in `allow`: {reason}"));
    }
    if !settings.may_call(local, domain) {
        tell(format!(
            "fault     {local} has only a self-signed certificate: the server doesn't connect to others in its name"
        ));
        return false;
    }
    let asked = Instant::now();
    let (lines, found) = rookery_resolver::explain(&federated.asked, domain);
    lines.into_iter().for_each(|line| tell(format!("dns       {line}")));
    let addresses = match found {
        Ok(addresses) => addresses,
        Err(NotFound::NoServer) => {
            tell("fault     DNS lists no server for the domain".to_owned());
            return false;
        }
        Err(NotFound::NoAnswer) => {
            tell(
                "fault     DNS gives no usable answer, which says nothing about the domain; check the name server"
                    .to_owned(),
            );
            return false;
        }
    };
    tell(format!("dns       addresses: {}, in {} ms", addresses.len(), asked.elapsed().as_millis()));
    for address in addresses {
        let way = if address.direct_tls { "direct TLS" } else { "STARTTLS" };
        if !config.federation.allow_private_addresses && !is_public(address.socket.ip()) {
            tell(format!(
                "skipped   {}: an address of a private network, see `allow_private_addresses` in [federation]",
                address.socket
            ));
            continue;
        }
        tell(format!("tries     {} ({way})", address.socket));
        match ReachAttempt::new(federated, local, domain, address.clone(), tell).go() {
            Ok(()) => return true,
            Err(cause) => tell(format!("fault     {}: {cause}", address.socket)),
        }
    }
    tell("fault     no address of the domain works".to_owned());
    false
}

/// The server's side of a stream on which nothing is delivered.
struct Nobody;

impl Ours for Nobody {
    fn is_ours(&self, _: &str) -> bool {
        false
    }
}

struct ReachAttempt<'a> {
    federated: &'a federation::Federated,
    local: &'a str,
    domain: &'a str,
    address: Address,
    machine: Outbound,
    tls: Option<ClientTls>,
    scanner: Scanner,
    waiting: Vec<u8>,
    tell: &'a mut dyn FnMut(String),
}

impl<'a> ReachAttempt<'a> {
    fn new(
        federated: &'a federation::Federated,
        local: &'a str,
        domain: &'a str,
        address: Address,
        tell: &'a mut dyn FnMut(String),
    ) -> Self {
        let machine = Outbound::new(federated.terms.settings.clone(), local, domain, StreamPurpose::Stanzas).noting();
        let machine = if address.tlsa.is_some() { machine.require_tls() } else { machine };
        Self {
            federated,
            local,
            domain,
            address,
            machine,
            tls: None,
            scanner: Scanner::new(),
            waiting: Vec::new(),
            tell,
        }
    }

    fn go(&mut self) -> Result<(), String> {
        let since = Instant::now();
        let mut socket =
            TcpStream::connect_timeout(&self.address.socket, PATIENCE).map_err(|error| error.to_string())?;
        (self.tell)(format!("connected in {} ms", since.elapsed().as_millis()));
        socket.set_read_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
        socket.set_write_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
        let mut out = Vec::new();
        self.machine.start(self.address.direct_tls, &mut out);
        if self.address.direct_tls {
            self.start_tls(&mut out)?;
        }
        self.send(&mut socket, &out)?;
        let mut buffer = vec![0; 16 * 1024];
        while since.elapsed() < WHOLE {
            let len = socket.read(&mut buffer).map_err(|error| format!("it says nothing more: {error}"))?;
            if len == 0 {
                return Err("it has closed the connection".to_owned());
            }
            if self.receive(&mut socket, buffer.get_mut(..len).unwrap_or_default())? {
                (self.tell)(format!(
                    "ready     after {} ms, proven by {}",
                    since.elapsed().as_millis(),
                    self.machine.security()
                ));
                let mut out = Vec::new();
                self.machine.close(None, &mut out);
                return self.send_encrypted(&mut socket, &out);
            }
        }
        Err("no stream was ready in time".to_owned())
    }

    /// Processes received bytes. Returns `true` if the stream is ready.
    fn receive(&mut self, socket: &mut TcpStream, bytes: &mut [u8]) -> Result<bool, String> {
        let (mut plain, mut out) = (Vec::new(), Vec::new());
        match &mut self.tls {
            None => plain.extend_from_slice(bytes),
            Some(tls) => {
                let progress = tls.read(bytes, &mut plain, &mut out).map_err(|error| format!("TLS: {error}"))?;
                self.send(socket, &out)?;
                if progress.established {
                    self.finish_handshake(socket)?;
                }
            }
        }
        self.waiting.extend_from_slice(&plain);
        loop {
            let mut out = Vec::new();
            let read = self.machine.read(&self.waiting, &mut self.scanner, &Nobody, &mut out);
            self.waiting.drain(..read.consumed);
            self.machine.take_notes().into_iter().for_each(|note| (self.tell)(note));
            let starts_tls = matches!(read.event, Some(OutboundEvent::StartTls));
            self.send_encrypted(socket, &out)?;
            match read.event {
                None => return Ok(false),
                Some(OutboundEvent::Ready) => return Ok(true),
                Some(OutboundEvent::End) => return Err(self.machine.cause().to_owned()),
                Some(_) => {}
            }
            if starts_tls {
                self.scanner.reset();
                self.waiting.clear();
                let mut hello = Vec::new();
                self.start_tls(&mut hello)?;
                self.send(socket, &hello)?;
            }
        }
    }

    fn start_tls(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        let settings = self.federated.terms.tls.connecting(self.local);
        let name = self.address.sni.as_deref().unwrap_or(self.domain);
        let tls = ClientTls::connect(settings, name, out).map_err(|error| format!("TLS: {error}"))?;
        self.tls = Some(tls);
        Ok(())
    }

    fn finish_handshake(&mut self, socket: &mut TcpStream) -> Result<(), String> {
        let chain: Vec<Vec<u8>> = match &self.tls {
            Some(tls) => tls.chain().into_iter().map(<[u8]>::to_vec).collect(),
            None => Vec::new(),
        };
        let chain: Vec<&[u8]> = chain.iter().map(Vec::as_slice).collect();
        let trust = &self.federated.terms.trust;
        let judged = match &self.address.tlsa {
            Some(associations) => trust.judge_associated(&chain, associations, clock::now()),
            None => trust.judge(&chain, clock::now()),
        };
        let certificates = chain.len();
        (self.tell)(match &judged {
            Ok(names) if names.is_associated() => {
                format!("tls       chain of {certificates}: it matches the server's records in DNS (TLSA)")
            }
            Ok(names) => {
                let all: Vec<_> = names.all().take(10).collect();
                let verdict =
                    if names.cover(self.domain) { "it is for the domain" } else { "it is NOT for the domain" };
                format!("tls       certificate for {}, chain of {certificates}: {verdict}", all.join(", "))
            }
            Err(reason) => format!("tls       chain of {certificates}: {reason}"),
        });
        let mut out = Vec::new();
        let event = self.machine.secured(judged, &mut out);
        self.send_encrypted(socket, &out)?;
        if matches!(event, Some(OutboundEvent::End)) { Err(self.machine.cause().to_owned()) } else { Ok(()) }
    }

    fn send(&mut self, socket: &mut TcpStream, bytes: &[u8]) -> Result<(), String> {
        socket.write_all(bytes).map_err(|error| error.to_string())
    }

    fn send_encrypted(&mut self, socket: &mut TcpStream, bytes: &[u8]) -> Result<(), String> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut cipher = Vec::new();
        match &mut self.tls {
            None => cipher.extend_from_slice(bytes),
            Some(tls) => tls.write(bytes, &mut cipher).map_err(|error| format!("TLS: {error}"))?,
        }
        self.send(socket, &cipher)
    }
}

/// The time that one step may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time that one address may take.
const WHOLE: Duration = Duration::from_secs(30);
