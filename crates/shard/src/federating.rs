//! Other servers: carries bytes, handshakes and addresses between their connections and
//! [`rookery_federation::ServerStreams`], which makes the decisions, and stanzas between that and
//! the world.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use rookery_fanout::Packet;
use rookery_fanout::multicast::Outgoing;
use rookery_federation::inbound::Ours;
use rookery_federation::report::StreamReport;
use rookery_federation::servers::Handshake;
use rookery_federation::{Action, Address, ConnectionKey, Found, Home};
use rookery_hub::{Custody, Step, World};
use rookery_jid::Jid;
use rookery_stream::tls::ServerTls;
use rookery_stream::tls::client::ClientTls;
use tracing::debug;

use crate::driver::{Driver, ReadySocket};
use crate::mailboxes::{Closing, Envelope, Generation, Port};
use crate::shard::Shard;
use crate::wires::{Arriving, Federating, Leaving, Moving, SERVERS, ServerWire, WireTls, handshake};

/// Puts into words, for a trace, why a domain can't be reached.
fn trouble_with(servers: &rookery_federation::ServerStreams, domain: &str) -> String {
    let trouble = servers.report().into_iter().find(|report| report.remote == domain && !report.trouble.is_empty());
    let trouble = trouble.map_or_else(|| "it is unreachable, or does not answer".to_owned(), |report| report.trouble);
    format!("there is no stream with {domain}: {trouble}")
}

/// The world's answers to the streams.
struct FederatingWorld<'w>(&'w World);

impl Ours for FederatingWorld<'_> {
    fn is_ours(&self, host: &str) -> bool {
        self.0.is_ours(host)
    }
}

impl Home for FederatingWorld<'_> {
    fn home(&self, domain: &str) -> usize {
        // Streams of other servers stay in the process to which they have connected.
        self.0.stand_in_for(domain)
    }

    fn shard(&self) -> usize {
        self.0.shard()
    }
}

/// The world's way to the streams.
struct WayOut {
    leaving: Leaving,
    arriving: Arriving,
}

impl rookery_hub::Federation for WayOut {
    fn send(&mut self, stanza: Outgoing) {
        self.leaving.borrow_mut().push(stanza);
    }

    fn arrive(&mut self, packet: &Packet, to: &Jid, custody: Option<Custody>) -> bool {
        self.arriving.borrow_mut().push((packet.clone(), to.clone(), custody));
        true
    }
}

impl<D: Driver> Shard<D> {
    /// Applies a generation's settings for other servers.
    pub(crate) fn apply_federation(&mut self, generation: &Generation) {
        match (&generation.federation, self.federating.take()) {
            (Some(terms), None) => {
                let federating = Box::new(Federating::new(terms.clone()));
                let (leaving, arriving) = (federating.leaving.clone(), federating.arriving.clone());
                self.world.set_federation(Box::new(WayOut { leaving, arriving }));
                self.federating = Some(federating);
            }
            (Some(terms), Some(mut federating)) => {
                let old = std::mem::replace(&mut federating.terms, terms.clone());
                // The same holds for proofs from DNS if these are no longer trusted.
                if old.trust != terms.trust || old.settings.dane != terms.settings.dane {
                    federating.servers.judge_again();
                }
                federating.servers.apply(terms.settings.clone(), &FederatingWorld(&self.world));
                self.federating = Some(federating);
            }
            (None, Some(mut federating)) => {
                self.world.end_federation();
                federating.servers.stop();
                self.federating = Some(federating);
            }
            (None, None) => {}
        }
    }

    /// Takes a connection from another server or a component.
    pub(crate) fn accept_server(&mut self, socket: D::Socket, peer: SocketAddr, port: Port) {
        if self.federating.is_none() || !self.may_enter(peer) {
            return;
        }
        let Some(mut federating) = self.federating.take() else { return };
        federating.servers.set_time(self.timing.now_ms);
        let key = match port {
            Port::Components => federating.servers.accept_component(peer),
            _ => federating.servers.accept(peer, port == Port::ServersTls),
        };
        match key {
            Some(key) => self.watch_wire(&mut federating, key, ServerWire::new(socket, peer, false)),
            None => self.common.gate.leave(peer.ip()),
        }
        self.perform(&mut federating);
        self.federating = Some(federating);
    }

    /// Takes a connection of another server that belongs here.
    pub(crate) fn adopt_server(&mut self, moving: Moving<D::Socket>) {
        let Some(mut federating) = self.federating.take() else { return };
        federating.servers.set_time(self.timing.now_ms);
        let key = federating.servers.adopt(moving.arrival, &FederatingWorld(&self.world));
        let mut wire = moving.wire;
        wire.wants_write = false;
        self.watch_wire(&mut federating, key, wire);
        self.write_rest(&mut federating, key);
        self.perform(&mut federating);
        self.federating = Some(federating);
    }

    /// Takes an answer of DNS.
    pub(crate) fn resolved(&mut self, domain: &str, found: &Found) {
        let Some(mut federating) = self.federating.take() else { return };
        federating.servers.set_time(self.timing.now_ms);
        federating.servers.resolved(domain, found);
        self.perform(&mut federating);
        self.federating = Some(federating);
    }

    /// Handles a ready connection with another server.
    pub(crate) fn server_ready(&mut self, ready: &ReadySocket) {
        let Some(mut federating) = self.federating.take() else { return };
        federating.servers.set_time(self.timing.now_ms);
        let key = ConnectionKey(ready.key & !SERVERS);
        self.connect_result(&mut federating, key);
        if ready.write {
            self.write_rest(&mut federating, key);
        }
        if ready.read {
            self.read_server(&mut federating, key);
        }
        self.perform(&mut federating);
        self.federating = Some(federating);
    }

    /// Processes outgoing stanzas for other servers, and timed work. `true` if it resulted in
    /// something for the world.
    pub(crate) fn federate(&mut self) -> bool {
        let Some(mut federating) = self.federating.take() else { return false };
        federating.servers.set_time(self.timing.now_ms);
        federating.servers.run_timers();
        while let Some(&(due, key, serial)) = federating.lingering.front()
            && due <= self.timing.now_ms
        {
            federating.lingering.pop_front();
            if federating.get(key).is_some_and(|wire| wire.serial == serial) {
                self.close_wire(&mut federating, key, "it didn't close in time");
            }
        }
        let leaving = std::mem::take(&mut *federating.leaving.borrow_mut());
        leaving.into_iter().for_each(|stanza| federating.servers.send(stanza));
        let arriving = std::mem::take(&mut *federating.arriving.borrow_mut());
        let any = !arriving.is_empty();
        for (packet, to, custody) in arriving {
            if !federating.servers.hears(&packet, &to) {
                self.world.in_custody(custody, |world| world.let_in(&packet, to.as_ref()));
            }
        }
        let any = self.perform(&mut federating) || any;
        self.federating = Some(federating);
        any
    }

    /// Returns the streams with other servers and components, with their addresses.
    pub(crate) fn report_streams(&mut self) -> Vec<StreamReport> {
        let Some(federating) = &mut self.federating else { return Vec::new() };
        federating.servers.set_time(self.timing.now_ms);
        let mut reports = federating.servers.report();
        for report in &mut reports {
            report.address = report.key.and_then(|key| federating.get(key)).map(|wire| wire.peer);
        }
        reports
    }

    /// Ends streams on an operator's request.
    pub(crate) fn close_servers(&mut self, closing: &Closing) {
        let closed = self.close_streams_with(&closing.remote, closing.locals.as_deref());
        closing.closed.fetch_add(closed, Ordering::Relaxed);
    }

    /// Ends the streams with a domain, with `locals` only those of these domains of ours; returns
    /// the number of ended streams.
    pub(crate) fn close_streams_with(&mut self, remote: &str, locals: Option<&[String]>) -> usize {
        let Some(mut federating) = self.federating.take() else { return 0 };
        federating.servers.set_time(self.timing.now_ms);
        let closed = federating.servers.close(remote, locals);
        self.perform(&mut federating);
        self.federating = Some(federating);
        closed
    }

    /// Ends all streams with other servers.
    pub(crate) fn stop_federating(&mut self) {
        if let Some(federating) = &mut self.federating {
            federating.servers.stop();
        }
        self.federate();
    }

    /// Carries out the actions of the streams, until there are no more. `true` if they resulted in
    /// something for the world.
    fn perform(&mut self, federating: &mut Federating<D::Socket>) -> bool {
        let mut any = false;
        loop {
            federating.servers.flush();
            let Some(action) = federating.servers.next_action() else { return any };
            any |= matches!(
                action,
                Action::Deliver(..)
                    | Action::Route(..)
                    | Action::Refuse(..)
                    | Action::Bounce(..)
                    | Action::Lost(_)
                    | Action::ComponentCame(_)
                    | Action::ComponentGone(_)
            );
            self.act(federating, action);
        }
    }

    fn act(&mut self, federating: &mut Federating<D::Socket>, action: Action) {
        match action {
            Action::Deliver(packet, to, custody) => {
                self.world.in_custody(custody, |world| world.incoming(&packet, to.as_ref()));
            }
            Action::Route(packet, to) => self.world.from_component(&packet, to.as_ref()),
            Action::Refuse(error, to) => self.world.route_built(&error, &to),
            Action::Bounce(stanza, error) => {
                let (packet, to) = (stanza.packet(), stanza.to().as_ref());
                self.world.sight(packet, to, Step::Noted, || trouble_with(&federating.servers, to.domain()));
                self.world.bounce(packet, to, error);
            }
            Action::Pause(key, is_paused) => {
                let Some(wire) = federating.get(key) else { return };
                wire.paused = is_paused;
                let wants = wire.wants_write;
                self.driver.system.interest(&wire.socket, key.0 | SERVERS, !is_paused, wants);
            }
            Action::Lost(domain) => self.world.lost(&domain),
            Action::ComponentCame(name) => self.world.component_came(&name),
            Action::ComponentGone(name) => self.world.component_gone(&name),
            Action::Resolve(domain) => {
                let (post, shard) = (self.common.post.clone(), self.index());
                let asked = domain.clone();
                let tell = move |found| post.send(shard, Envelope::Resolved(domain, found));
                federating.terms.resolver.resolve(&asked, Box::new(tell));
            }
            Action::Connect(key, address) => self.connect(federating, key, address),
            Action::StartTls(key, handshake) => self.shake_hands(federating, key, &handshake),
            Action::Write(key, bytes) => self.write_server(federating, key, &bytes),
            Action::End(key) => self.end_wire(federating, key),
            Action::Drop(key) => {
                if let Some(wire) = federating.take(key) {
                    self.forget_wire(&wire);
                }
            }
            Action::Move(key, arrival, shard) => {
                let Some(wire) = federating.take(key) else { return };
                self.driver.system.remove(&wire.socket);
                let moving = Moving { wire, arrival: *arrival };
                self.common.post.send(shard, Envelope::ServerMoved(Box::new(moving)));
            }
        }
    }

    fn watch_wire(&mut self, federating: &mut Federating<D::Socket>, key: ConnectionKey, wire: ServerWire<D::Socket>) {
        let watched = self.driver.system.add(&wire.socket, key.0 | SERVERS);
        let (peer, connecting) = (wire.peer, wire.connecting);
        federating.put(key, wire);
        if let Err(error) = watched {
            debug!(%peer, %error, "a connection with another server can't be watched");
            return self.close_wire(federating, key, "it can't be watched");
        }
        if connecting && let Some(wire) = federating.get(key) {
            wire.wants_write = true;
            self.driver.system.interest(&wire.socket, key.0 | SERVERS, true, true);
        }
    }

    fn connect(&mut self, federating: &mut Federating<D::Socket>, key: ConnectionKey, address: Address) {
        let peer = address.socket;
        if !self.common.gate.enter(peer.ip(), 0) {
            return federating.servers.closed(key, "there are too many connections");
        }
        match self.driver.system.connect(peer) {
            Ok(socket) => {
                let wire = ServerWire { tlsa: address.tlsa, sni: address.sni, ..ServerWire::new(socket, peer, true) };
                self.watch_wire(federating, key, wire);
            }
            Err(error) => {
                self.common.gate.leave(peer.ip());
                federating.servers.closed(key, &format!("{peer}: {error}"));
            }
        }
    }

    fn connect_result(&mut self, federating: &mut Federating<D::Socket>, key: ConnectionKey) {
        let Some(wire) = federating.get(key).filter(|wire| wire.connecting) else { return };
        wire.connecting = false;
        match self.driver.system.connect_result(&wire.socket) {
            Ok(()) => {
                self.show_interest(federating, key);
                federating.servers.connected(key);
            }
            Err(error) => {
                let reason = format!("{}: {error}", wire.peer);
                self.close_wire(federating, key, &reason);
            }
        }
    }

    fn shake_hands(&mut self, federating: &mut Federating<D::Socket>, key: ConnectionKey, handshake: &Handshake) {
        let settings = federating.terms.tls.clone();
        let mut out = Vec::new();
        let tls = match handshake {
            Handshake::Accept(local) => {
                ServerTls::accept_server(settings.accepting(local.as_deref())).map(WireTls::Accepted)
            }
            Handshake::Call { local, remote } => {
                let sni = federating.get(key).and_then(|wire| wire.sni.clone());
                let name = sni.as_deref().unwrap_or(remote);
                ClientTls::connect(settings.connecting(local), name, &mut out).map(WireTls::Called)
            }
        };
        let Some(wire) = federating.get(key) else { return };
        match tls {
            Ok(tls) => {
                wire.tls = Some(tls);
                self.write_bytes(federating, key, &out);
            }
            Err(error) => self.close_wire(federating, key, &error.to_string()),
        }
    }

    fn read_server(&mut self, federating: &mut Federating<D::Socket>, key: ConnectionKey) {
        let mut buffer = std::mem::take(&mut self.buffers.buffer);
        let read = federating.get(key).map(|wire| self.driver.system.recv(&wire.socket, &mut buffer));
        match read {
            None => {}
            Some(Ok(0)) => self.close_wire(federating, key, "it has closed the connection"),
            Some(Ok(len)) => self.received_from_server(federating, key, buffer.get_mut(..len).unwrap_or_default()),
            Some(Err(error)) if error.kind() == ErrorKind::WouldBlock => {}
            Some(Err(error)) => self.close_wire(federating, key, &error.to_string()),
        }
        self.buffers.buffer = buffer;
    }

    fn received_from_server(&mut self, federating: &mut Federating<D::Socket>, key: ConnectionKey, bytes: &mut [u8]) {
        let Some(wire) = federating.get(key) else { return };
        let Some(tls) = &mut wire.tls else {
            return federating.servers.received(key, bytes, &FederatingWorld(&self.world));
        };
        let (mut plain, mut out) = (Vec::new(), Vec::new());
        let progress = tls.read(bytes, &mut plain, &mut out);
        let is_established = matches!(&progress, Ok(progress) if progress.established);
        self.write_bytes(federating, key, &out);
        if is_established {
            let (terms, now_s) = (federating.terms.clone(), self.world.time() / 1000);
            let Some(wire) = federating.get(key) else { return };
            if let Some(tls) = &wire.tls {
                self.world.counters.sessions.add(tls.protocol(), handshake(tls.is_resumed()));
            }
            let judged = wire.judge(&terms.trust, now_s);
            let own = if terms.settings.dane { wire.fingerprints() } else { None };
            if let Some(own) = own {
                federating.servers.shown(key, own);
            }
            federating.servers.secured(key, judged);
            // This comes before data that followed the handshake: an invalid certificate ends the
            // stream here.
            self.perform(federating);
        }
        if !plain.is_empty() {
            federating.servers.received(key, &plain, &FederatingWorld(&self.world));
        }
        match progress {
            Ok(progress) if progress.closed => {
                self.perform(federating);
                self.close_wire(federating, key, "it has closed the connection");
            }
            Ok(_) => {}
            Err(error) => self.close_wire(federating, key, &error.to_string()),
        }
    }

    /// Writes the output of a stream, encrypted if the connection is.
    fn write_server(&mut self, federating: &mut Federating<D::Socket>, key: ConnectionKey, bytes: &[u8]) {
        let Some(wire) = federating.get(key) else { return };
        let Some(tls) = &mut wire.tls else { return self.write_bytes(federating, key, bytes) };
        let mut cipher = std::mem::take(&mut self.buffers.cipher);
        cipher.clear();
        match tls.write(bytes, &mut cipher) {
            Ok(()) => self.write_bytes(federating, key, &cipher),
            Err(error) => self.close_wire(federating, key, &error.to_string()),
        }
        cipher.shrink_to(MOST_KEPT);
        self.buffers.cipher = cipher;
    }

    /// Writes bytes after waiting ones.
    fn write_bytes(&mut self, federating: &mut Federating<D::Socket>, key: ConnectionKey, bytes: &[u8]) {
        let Some(wire) = federating.get(key) else { return };
        if wire.unsent.is_empty() {
            match self.driver.system.send(&wire.socket, bytes) {
                Ok(sent) => wire.unsent.extend_from_slice(bytes.get(sent..).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => wire.unsent.extend_from_slice(bytes),
                Err(error) => return self.close_wire(federating, key, &error.to_string()),
            }
        } else {
            wire.unsent.extend_from_slice(bytes);
        }
        if wire.unsent.len() > MOST_UNSENT {
            return self.close_wire(federating, key, "it doesn't read what it is sent");
        }
        if wire.unsent.is_empty() {
            federating.servers.drained(key);
        }
        self.show_interest(federating, key);
    }

    fn write_rest(&mut self, federating: &mut Federating<D::Socket>, key: ConnectionKey) {
        let Some(wire) = federating.get(key) else { return };
        if wire.unsent.is_empty() {
            return self.show_interest(federating, key);
        }
        match self.driver.system.send(&wire.socket, &wire.unsent) {
            Ok(sent) => _ = wire.unsent.drain(..sent),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return self.close_wire(federating, key, &error.to_string()),
        }
        if wire.unsent.is_empty() {
            wire.unsent = Vec::new();
            if wire.ending {
                self.driver.system.shutdown(&wire.socket);
            }
            federating.servers.drained(key);
        }
        self.show_interest(federating, key);
    }

    fn show_interest(&mut self, federating: &mut Federating<D::Socket>, key: ConnectionKey) {
        let Some(wire) = federating.get(key) else { return };
        let wants = wire.connecting || !wire.unsent.is_empty();
        if wants != wire.wants_write {
            wire.wants_write = wants;
            self.driver.system.interest(&wire.socket, key.0 | SERVERS, !wire.paused, wants);
        }
    }

    /// Closes our direction when everything is written. The peer has a few seconds to close its
    /// own.
    fn end_wire(&mut self, federating: &mut Federating<D::Socket>, key: ConnectionKey) {
        let mut out = Vec::new();
        let Some(wire) = federating.get(key) else { return federating.servers.closed(key, "it is closed") };
        if let Some(tls) = &mut wire.tls {
            tls.close_notify(&mut out);
        }
        wire.ending = true;
        let serial = wire.serial;
        self.write_bytes(federating, key, &out);
        let Some(wire) = federating.get(key) else { return };
        if wire.unsent.is_empty() {
            self.driver.system.shutdown(&wire.socket);
        }
        federating.lingering.push_back((self.timing.now_ms + LINGER_MS, key, serial));
    }

    /// Closes a connection, and tells its stream.
    fn close_wire(&mut self, federating: &mut Federating<D::Socket>, key: ConnectionKey, reason: &str) {
        if let Some(wire) = federating.take(key) {
            self.forget_wire(&wire);
            debug!(peer = %wire.peer, reason, "a connection with another server is closed");
        }
        federating.servers.closed(key, reason);
    }

    fn forget_wire(&mut self, wire: &ServerWire<D::Socket>) {
        self.driver.system.remove(&wire.socket);
        self.common.gate.leave(wire.peer.ip());
    }
}

/// Bytes that may wait for a server that doesn't read, in addition to the stanzas of its queue.
const MOST_UNSENT: usize = 1024 * 1024;
/// The capacity that the buffer for encrypted output keeps, in bytes.
const MOST_KEPT: usize = 256 * 1024;
/// The time that a peer may take to close after we have.
const LINGER_MS: u64 = 5_000;
