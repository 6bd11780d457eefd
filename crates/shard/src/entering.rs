//! Admits arrivals: connections accepted here, those handed over from elsewhere, and sessions
//! without a connection.

use std::net::SocketAddr;

use rookery_base::Transport;
use rookery_observe::Since;
use rookery_stream::c2s::{C2s, Facts};
use rookery_stream::tls::ServerTls;
use rookery_stream::websocket::Frames;
use tracing::debug;

use crate::connection::{ConnectionWire, Negotiation, ShardConnection};
use crate::driver::Driver;
use crate::gate::GateOpening;
use crate::lines::ClientSocket;
use crate::mailboxes::{Handed, Port};
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// Takes a new connection. The moment is on the clock of [`Shard::tick`], since the last tick
    /// may have been long ago.
    pub fn accept(&mut self, socket: D::Socket, peer: SocketAddr, port: Port, now_ms: u64) {
        self.timing.now_ms = now_ms;
        let direct_tls = matches!(port, Port::ClientsTls | Port::ServersTls);
        if matches!(port, Port::Servers | Port::ServersTls | Port::Components) {
            return self.accept_server(socket, peer, port);
        }
        if !self.may_enter(peer) {
            return;
        }
        let facts = self.facts_without_tls(peer, true);
        let mut negotiation = self.negotiation(facts);
        if direct_tls {
            negotiation.tls_since = Some(Since::now());
            negotiation.machine.begin_with_tls();
        }
        let mut connection = ShardConnection::new(Some(ClientSocket::Here(socket)), peer, 0, negotiation);
        if direct_tls {
            let tls = self.common.generation.tls.as_ref().and_then(|settings| ServerTls::accept(settings).ok());
            if tls.is_none() {
                self.common.gate.leave(peer.ip());
                return;
            }
            connection.tls = tls;
        }
        self.insert(connection);
    }

    /// Takes a connection that was begun elsewhere.
    pub(crate) fn take_handed(&mut self, handed: Handed<D::Socket>) {
        let Handed { socket, peer, tls, bindings, mut input, is_encrypted_by_proxy, is_local, transport } = handed;
        if !self.may_enter(peer) {
            return;
        }
        let secure = tls.is_some() || is_encrypted_by_proxy;
        // TLS is established, or won't be: a WebSocket has no STARTTLS (RFC 7395 §3.9).
        let facts =
            Facts { secure, tls_available: false, bindings, transport, ..self.facts_without_tls(peer, is_local) };
        let mut connection = ShardConnection::new(Some(ClientSocket::Here(socket)), peer, 0, self.negotiation(facts));
        connection.tls = tls;
        if transport == Transport::WebSocket {
            connection.wire = ConnectionWire::WebSocket(Frames::default());
        }
        if let Some(link) = self.insert(connection) {
            self.input(link, &mut input);
        }
    }

    /// Admits a connection; returns `false` if there are too many.
    pub(crate) fn may_enter(&self, peer: SocketAddr) -> bool {
        let most = if is_here(peer) { 0 } else { self.common.generation.connections_per_address };
        let enters = !self.timing.stopping && self.common.gate.enter(peer.ip(), most);
        if !enters {
            debug!(%peer, "a connection too many from this address is closed");
        }
        enters
    }

    /// Admits a session that has no connection of its own.
    pub(crate) fn may_open(&self, peer: SocketAddr) -> Option<GateOpening> {
        let opening = self.common.gate.open(peer.ip(), !is_here(peer));
        if opening.is_none() {
            debug!(%peer, "too many sessions are open that have not logged in");
        }
        opening.filter(|_| self.may_enter(peer))
    }

    /// Returns the state of a connection that is not bound yet.
    pub(crate) fn negotiation(&self, facts: Facts) -> Negotiation {
        let ids = self.common.ids.clone();
        let machine = C2s::new(self.common.generation.policy.clone(), facts, Box::new(move || ids()));
        Negotiation {
            machine,
            deadline_ms: self.timing.now_ms + self.common.generation.login_seconds * 1000,
            asked: false,
            attempt: None,
            waiting: None,
            tls_since: None,
            begun: None,
            opening: None,
        }
    }

    /// Returns the properties of a connection before anything was said on it. `is_local` is true if
    /// its address is among those from which clients may log in without TLS.
    pub(crate) fn facts_without_tls(&self, peer: SocketAddr, is_local: bool) -> Facts {
        let is_plain = self.common.generation.plaintext.iter().any(|network| network.contains(peer.ip()));
        Facts {
            secure: false,
            tls_available: self.common.generation.tls.is_some(),
            plaintext_login_allowed: is_local && is_plain,
            ..Facts::default()
        }
    }
}

/// Returns whether a peer is on this machine. If so, its address says nothing, since everybody
/// behind a proxy here has it.
fn is_here(peer: SocketAddr) -> bool {
    peer.ip().to_canonical().is_loopback()
}
