//! Log lines about sessions: each begins, may lose its connection and continue over another one,
//! and ends for a reason. All have the same fields.

use std::fmt;
use std::net::SocketAddr;

use rookery_fanout::Link;
use rookery_hub::Session;
use tracing::info;

use crate::connection::{ConnectionStage, ConnectionWire};
use crate::driver::Driver;
use crate::shard::Shard;

/// The address of a client as log lines show it: an IPv4 address as such, even if it came in over
/// IPv6.
pub(crate) struct LoggedPeer(pub SocketAddr);

impl fmt::Display for LoggedPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SocketAddr::new(self.0.ip().to_canonical(), self.0.port()).fmt(f)
    }
}

/// The fields of all lines about a session. Those of a connection are missing while there is none.
struct VisitFields<'a> {
    account: &'a str,
    resource: &'a str,
    peer: LoggedPeer,
    transport: Option<&'static str>,
    tls: Option<&'static str>,
    /// The client's name by its own statement, once it has sent presence.
    client: Option<String>,
    /// Seconds for which the client has been connected.
    seconds: Option<u64>,
}

/// Writes a line with all fields of a session, and those of one occasion.
macro_rules! told {
    ($fields:expr, $text:literal $(, $more:ident)*) => {{
        let VisitFields { account, resource, peer, transport, tls, client, seconds } = $fields;
        let client = client.as_deref();
        info!(account, resource, %peer, transport, tls, client, seconds $(, $more)*, $text);
    }};
}

impl<D: Driver> Shard<D> {
    fn visit(&self, link: Link) -> Option<VisitFields<'_>> {
        let (jid, connection) = self.world.address(link).zip(self.connections.get(link))?;
        let is_there = !matches!(connection.stage, ConnectionStage::Detached);
        Some(VisitFields {
            account: jid.bare_str(),
            resource: jid.resource().unwrap_or_default(),
            peer: LoggedPeer(connection.peer),
            transport: is_there.then(|| connection.wire.transport().label()),
            tls: is_there.then(|| match (&connection.tls, &connection.wire) {
                (Some(tls), _) => tls.version().unwrap_or("yes"),
                // The web front has ended TLS.
                (None, ConnectionWire::Bosh(session)) if session.is_secure() => "yes",
                (None, _) => "no",
            }),
            client: self.world.session_at(link).and_then(Session::client),
            seconds: connection.peer().map(|peer| self.world.time().saturating_sub(peer.since_ms) / 1000),
        })
    }

    /// Logs that a session has begun, or continues over this connection.
    pub(crate) fn tell_begun(&self, link: Link, mechanism: Option<&'static str>, is_resumed: bool) {
        let Some(visit) = self.visit(link) else { return };
        let visit = VisitFields { seconds: None, ..visit };
        let mechanism = mechanism.unwrap_or("none");
        match is_resumed {
            false => told!(visit, "a session has begun", mechanism),
            true => told!(visit, "a session goes on", mechanism),
        }
    }

    /// Logs that a session has lost its connection, and waits for its client.
    pub(crate) fn tell_waiting(&self, link: Link) {
        if let Some(visit) = self.visit(link) {
            told!(visit, "a session has lost its connection and waits for its client");
        }
    }

    /// Logs that a session loses its connection because the server stops, and continues after the
    /// next start, or because its home moves.
    pub(crate) fn tell_handed_on(&self, link: Link) {
        let Some(visit) = self.visit(link) else { return };
        match self.is_stopping() {
            true => told!(visit, "a session waits for its client and the next start"),
            false => told!(visit, "a session waits for its client on another node"),
        }
    }

    /// Logs that a session ends. The line has no fields of a connection if there is none any more.
    pub(crate) fn tell_ended(&self, link: Link, reason: &str) {
        if self.connections.get(link).is_some_and(|connection| connection.in_world)
            && let Some(visit) = self.visit(link)
        {
            told!(visit, "a session has ended", reason);
        }
    }
}
