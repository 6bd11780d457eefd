//! Log lines about sessions: each begins, may lose its connection and continue over another one,
//! and ends for a reason. All have the same fields.

use std::fmt;
use std::net::SocketAddr;

use rookery_fanout::Link;
use rookery_jid::Jid;
use tracing::info;

use crate::connection::ConnectionWire;
use crate::driver::Driver;
use crate::shard::Shard;

/// The address of a client as log lines have it: an IPv4 address is one, however it came in.
pub(crate) struct LoggedPeer(pub SocketAddr);

impl fmt::Display for LoggedPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SocketAddr::new(self.0.ip().to_canonical(), self.0.port()).fmt(f)
    }
}

impl<D: Driver> Shard<D> {
    /// Logs that a session has begun, or continues over this connection.
    pub(crate) fn tell_begun(&self, link: Link, mechanism: Option<&'static str>, is_resumed: bool) {
        let Some((jid, connection)) = self.world.address(link).zip(self.connections.get(link)) else { return };
        let (account, resource) = parts(jid);
        let (peer, transport) = (LoggedPeer(connection.peer), connection.wire.transport().label());
        let tls = match (&connection.tls, &connection.wire) {
            (Some(tls), _) => tls.version().unwrap_or("yes"),
            // The front has taken it off.
            (None, ConnectionWire::Bosh(session)) if session.is_secure() => "yes",
            (None, _) => "no",
        };
        let mechanism = mechanism.unwrap_or("none");
        match is_resumed {
            false => info!(account, resource, %peer, transport, tls, mechanism, "a session has begun"),
            true => info!(account, resource, %peer, transport, tls, mechanism, "a session goes on"),
        }
    }

    /// Tells that a session has lost its connection, and waits for its client.
    pub(crate) fn tell_waiting(&self, link: Link) {
        let Some((jid, connection)) = self.world.address(link).zip(self.connections.get(link)) else { return };
        let (account, resource) = parts(jid);
        let peer = LoggedPeer(connection.peer);
        info!(account, resource, %peer, "a session has lost its connection and waits for its client");
    }

    /// Logs that a session loses its connection because the server stops, and continues after the
    /// next start, or because its home moves.
    pub(crate) fn tell_handed_on(&self, link: Link) {
        let Some((jid, connection)) = self.world.address(link).zip(self.connections.get(link)) else { return };
        let (account, resource) = parts(jid);
        let peer = LoggedPeer(connection.peer);
        match self.is_stopping() {
            true => info!(account, resource, %peer, "a session waits for its client and the next start"),
            false => info!(account, resource, %peer, "a session waits for its client on another node"),
        }
    }

    /// Tells that a session ends. Nothing is said of a connection that has none, or has one no
    /// more.
    pub(crate) fn tell_ended(&self, link: Link, reason: &str) {
        let Some((jid, connection)) = self.world.address(link).zip(self.connections.get(link)) else { return };
        if !connection.in_world {
            return;
        }
        let (account, resource) = parts(jid);
        let peer = LoggedPeer(connection.peer);
        info!(account, resource, %peer, reason, "a session has ended");
    }
}

fn parts(jid: &Jid) -> (&str, &str) {
    (jid.bare_str(), jid.resource().unwrap_or_default())
}
