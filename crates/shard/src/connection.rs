//! The data of one connection. While a session is idle, nothing else exists for it here: no
//! buffer, no task, no timer.

use std::net::SocketAddr;
use std::num::NonZeroU32;

use rookery_base::Transport;
use rookery_fanout::Station;
use rookery_hub::Peer;
use rookery_jid::Jid;
use rookery_observe::Since;
use rookery_stream::bosh::BoshSession;
use rookery_stream::c2s::C2s;
use rookery_stream::tls::ServerTls;
use rookery_stream::websocket::Frames;
use rookery_xml::Scanner;

use crate::attempts::LoginAttempt;
use crate::gate::GateOpening;
use crate::keeping::FrontMemory;
use crate::lines::ClientSocket;

/// A connection and its state.
pub struct ShardConnection<S> {
    /// `None` once the socket is closed; the entry lives on until the world has let go of the
    /// session. A BOSH session has none, since its requests arrive in envelopes.
    pub(crate) socket: Option<ClientSocket<S>>,
    pub(crate) peer: SocketAddr,
    pub(crate) serial: u32,
    pub(crate) stage: ConnectionStage,
    pub(crate) tls: Option<ServerTls>,
    pub(crate) wire: ConnectionWire,
    /// Input that could not be used yet.
    pub(crate) carry: Option<Box<CarriedInput>>,
    /// Output that must go out before anything else.
    pub(crate) unsent: Option<Box<UnsentBytes>>,
    /// Prefixes that the stream header declared, for stanzas that rely on them.
    pub(crate) prefixes: Option<Box<[(String, String)]>>,
    /// True if the world has, or will have, a session for this link.
    pub(crate) in_world: bool,
    pub(crate) paused: bool,
    pub(crate) wants_write: bool,
}

/// The transport of the stream, with its state.
#[derive(Debug, Default)]
pub(crate) enum ConnectionWire {
    /// The bytes of the connection are the stream (RFC 6120).
    #[default]
    Stream,
    /// The messages of a WebSocket (RFC 7395).
    WebSocket(Frames),
    /// Requests, and the answers to them (XEP-0124).
    Bosh(Box<BoshSession>),
}

impl ConnectionWire {
    /// Returns the transport that the framing belongs to.
    pub(crate) fn transport(&self) -> Transport {
        match self {
            Self::Stream => Transport::Tcp,
            Self::WebSocket(_) => Transport::WebSocket,
            Self::Bosh(_) => Transport::Bosh,
        }
    }
}

/// The stages of a connection from its acceptance to its end, with the data that each needs.
pub(crate) enum ConnectionStage {
    /// Until a resource is bound.
    Negotiating(Box<Negotiation>),
    /// A session of the world: the time at which the client came, and the time at which it has to
    /// log in again, if there is one; both in seconds since 1970.
    Bound { since_s: u32, until_s: Option<NonZeroU32> },
    /// A session of the world that waits for its client to come back: there is no socket.
    Detached,
    /// A client whose session is on another node.
    Away(Box<AwayState>),
    /// All output has been written. Further input is discarded until the peer closes too, so that
    /// the peer gets to read the last output.
    Lingering,
}

/// The state that a connection has only until it is bound.
pub(crate) struct Negotiation {
    pub machine: C2s,
    /// The time by which it must have bound a resource, on the shard's clock.
    pub deadline_ms: u64,
    /// True while a question to the store or the world has no answer yet.
    pub asked: bool,
    /// Its attempt to log in, from the query about the account until it has succeeded or failed.
    pub attempt: Option<LoginAttempt>,
    /// The question that waits for the turn of its attempt or, if there is no attempt, for its
    /// refusal.
    pub waiting: Option<LoginQuestion>,
    /// The time at which the handshake of TLS began.
    pub tls_since: Option<Since>,
    /// The time at which it first asked about the account, on the shard's clock, and the
    /// milliseconds for which its turn was delayed because similar attempts had failed.
    pub begun: Option<(u64, u64)>,
    /// Its count among the sessions that were opened and have not logged in.
    #[expect(dead_code, reason = "it counts for as long as it is kept")]
    pub opening: Option<GateOpening>,
}

/// The state of a connection whose session is on another node.
pub(crate) struct AwayState {
    /// The shard that has the session.
    pub home: Station,
    /// Bytes of the client that were sent to that shard and that it has not read yet.
    pub sent: usize,
    /// Bytes that came for the client and whose receipt has not been reported to its home yet.
    pub unwritten: usize,
    /// True if the session has ended: further input of the client is discarded.
    pub is_over: bool,
    /// The data that another home would need.
    pub memory: FrontMemory,
}

/// An unfinished stanza (or, while negotiating, whatever the machine left) with the scanner's state
/// in it.
pub(crate) struct CarriedInput {
    pub bytes: Vec<u8>,
    pub scanner: Box<Scanner>,
}

/// The bytes that the system did not take.
#[derive(Default)]
pub(crate) struct UnsentBytes {
    pub bytes: Vec<u8>,
    pub at: usize,
    /// The bytes of the outbox that these stand for. With TLS, they are removed from the outbox
    /// once all of these are gone.
    pub covers: usize,
}

impl<S> ShardConnection<S> {
    pub(crate) fn new(
        socket: Option<ClientSocket<S>>,
        peer: SocketAddr,
        serial: u32,
        negotiation: Negotiation,
    ) -> Self {
        Self {
            socket,
            peer,
            serial,
            stage: ConnectionStage::Negotiating(Box::new(negotiation)),
            tls: None,
            wire: ConnectionWire::Stream,
            carry: None,
            unsent: None,
            prefixes: None,
            in_world: false,
            paused: false,
            wants_write: false,
        }
    }

    /// Begins with a client that has logged in elsewhere: with the unprocessed bytes of its stream,
    /// and of the frames of its WebSocket.
    pub(crate) fn begin_with(&mut self, is_websocket: bool, carry: Vec<u8>, kept: &[u8]) {
        if is_websocket {
            let mut frames = Frames::default();
            frames.keep(kept);
            self.wire = ConnectionWire::WebSocket(frames);
        }
        if !carry.is_empty() {
            self.carry = Some(Box::new(CarriedInput { bytes: carry, scanner: Box::default() }));
        }
    }

    /// Returns whether TLS ends here.
    pub(crate) fn is_encrypted(&self) -> bool {
        match &self.wire {
            ConnectionWire::Bosh(session) => session.is_secure(),
            _ => self.tls.is_some(),
        }
    }

    /// Returns the description of the connection for operators; `None` while the client is away.
    pub(crate) fn peer(&self) -> Option<Peer> {
        let ConnectionStage::Bound { since_s, .. } = self.stage else { return None };
        Some(Peer {
            address: self.peer,
            transport: self.wire.transport().label().to_owned(),
            is_encrypted: self.is_encrypted(),
            since_ms: u64::from(since_s) * 1000,
        })
    }

    /// Returns the place of a session without a connection.
    pub(crate) fn without_socket(peer: SocketAddr) -> Self {
        Self {
            socket: None,
            peer,
            serial: 0,
            stage: ConnectionStage::Detached,
            tls: None,
            wire: ConnectionWire::Stream,
            carry: None,
            unsent: None,
            prefixes: None,
            in_world: true,
            paused: false,
            wants_write: false,
        }
    }

    /// Returns whether the client can be reached, now or with its next request.
    pub(crate) fn is_connected(&self) -> bool {
        self.socket.is_some() || matches!(self.wire, ConnectionWire::Bosh(_))
    }

    /// Returns whether it carries a session of the world.
    pub(crate) fn is_bound(&self) -> bool {
        matches!(self.stage, ConnectionStage::Bound { .. })
    }
}

impl<S> std::fmt::Debug for ShardConnection<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("peer", &self.peer).field("serial", &self.serial).finish_non_exhaustive()
    }
}

/// The question that a login puts to the world.
pub(crate) enum LoginQuestion {
    Credentials(Jid),
    Verify(Jid, String),
    /// A token of a trusted issuer, the host, and the requested account.
    Bearer(String, Box<str>, Option<Jid>),
    Tokens(Jid, String),
}

/// The request of a connection whose session is still to be settled.
#[derive(Debug)]
pub(crate) struct Resumption {
    /// The connection, by its key.
    pub connection: u64,
    /// The id of the session.
    pub previd: String,
    /// The number of stanzas that the client has handled.
    pub h: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_is_small() {
        assert!(
            size_of::<ShardConnection<std::os::fd::OwnedFd>>() <= 128,
            "{}",
            size_of::<ShardConnection<std::os::fd::OwnedFd>>()
        );
    }
}
