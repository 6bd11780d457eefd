//! The connections with other servers, as a shard has them: sockets, TLS, and the needs of the
//! streams over them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use rookery_fanout::Packet;
use rookery_fanout::multicast::Outgoing;
use rookery_federation::{Arrival, ConnectionKey, FederationSettings, Found, ServerStreams};
use rookery_hub::Custody;
use rookery_jid::Jid;
use rookery_stream::tls::client::ClientTls;
use rookery_stream::tls::peer::PeerSettings;
use rookery_stream::tls::trust::tlsa::{Associations, Fingerprints};
use rookery_stream::tls::trust::{Names, Trust, Untrusted};
use rookery_stream::tls::{ServerTls, TlsError, TlsProgress};

/// The terms of streams with other servers. A reload makes new ones.
#[derive(Clone)]
pub struct FederationTerms {
    /// The decisions of the operator.
    pub settings: Arc<FederationSettings>,
    /// The certificates that are shown to other servers.
    pub tls: Arc<PeerSettings>,
    /// The authorities whose certificates are trusted.
    pub trust: Arc<Trust>,
    /// The resolver, which asks DNS.
    pub resolver: Arc<dyn Resolver>,
}

impl std::fmt::Debug for FederationTerms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Federation").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Finds the servers of domains without blocking.
pub trait Resolver: Send + Sync {
    /// Looks a domain up, and passes on the addresses in the order in which they are to be tried,
    /// later or at once.
    fn resolve(&self, domain: &str, tell: Box<dyn FnOnce(Found) + Send>);
}

/// The part of a shard that deals with other servers.
pub(crate) struct Federating<S> {
    pub(crate) terms: Arc<FederationTerms>,
    pub(crate) servers: ServerStreams,
    /// The stanzas that the world has for other servers.
    pub(crate) leaving: Leaving,
    /// The stanzas of other servers that have come in at other nodes.
    pub(crate) arriving: Arriving,
    wires: Vec<Option<ServerWire<S>>>,
    /// Connections that we have ended, and the time until which the peer may end its direction.
    pub(crate) lingering: VecDeque<(u64, ConnectionKey, u32)>,
    serial: u32,
}

/// Stanzas that have left the world in this tick.
pub(crate) type Leaving = Rc<RefCell<Vec<Outgoing>>>;

/// Stanzas that other nodes have sent on in this tick, each in its custody.
pub(crate) type Arriving = Rc<RefCell<Vec<(Packet, Jid, Option<Custody>)>>>;

/// One connection.
pub struct ServerWire<S> {
    pub(crate) socket: S,
    pub(crate) peer: SocketAddr,
    pub(crate) tls: Option<WireTls>,
    /// The certificates that are to be shown there, if DNS says so.
    pub(crate) tlsa: Option<Arc<Associations>>,
    /// The name to ask for with TLS, if it isn't the domain.
    pub(crate) sni: Option<Arc<str>>,
    /// The bytes that the system has not taken.
    pub(crate) unsent: Vec<u8>,
    /// True if it is not connected yet.
    pub(crate) connecting: bool,
    /// True if we have ended our direction, or are about to.
    pub(crate) ending: bool,
    pub(crate) wants_write: bool,
    /// True if it has sent too fast, and isn't read for a while.
    pub(crate) paused: bool,
    /// The number that distinguishes it from others that had the same key.
    pub(crate) serial: u32,
}

impl<S> std::fmt::Debug for ServerWire<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wire").field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// A connection that moves between shards, with the stream on it.
#[derive(Debug)]
pub struct Moving<S> {
    pub(crate) wire: ServerWire<S>,
    pub(crate) arrival: Arrival,
}

/// TLS, by the side that has connected.
pub(crate) enum WireTls {
    Accepted(ServerTls),
    Called(ClientTls),
}

impl WireTls {
    pub(crate) fn read(
        &mut self,
        incoming: &mut [u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<TlsProgress, TlsError> {
        match self {
            Self::Accepted(tls) => tls.read(incoming, plain, out),
            Self::Called(tls) => tls.read(incoming, plain, out),
        }
    }

    pub(crate) fn write(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), TlsError> {
        match self {
            Self::Accepted(tls) => tls.write(plain, out),
            Self::Called(tls) => tls.write(plain, out),
        }
    }

    pub(crate) fn close_notify(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Accepted(tls) => tls.close_notify(out),
            Self::Called(tls) => tls.close_notify(out),
        }
    }

    /// Returns the label, in metrics, of the side that connected.
    pub(crate) fn protocol(&self) -> &'static str {
        match self {
            Self::Accepted(_) => "s2s_in",
            Self::Called(_) => "s2s_out",
        }
    }

    /// Returns whether an earlier TLS session continues.
    pub(crate) fn is_resumed(&self) -> bool {
        match self {
            Self::Accepted(tls) => tls.is_resumed(),
            Self::Called(tls) => tls.is_resumed(),
        }
    }

    pub(crate) fn chain(&self) -> Vec<&[u8]> {
        match self {
            Self::Accepted(tls) => tls.chain(),
            Self::Called(tls) => tls.chain(),
        }
    }
}

impl<S> Federating<S> {
    pub(crate) fn new(terms: Arc<FederationTerms>) -> Self {
        Self {
            servers: ServerStreams::new(terms.settings.clone()),
            terms,
            leaving: Leaving::default(),
            arriving: Arriving::default(),
            wires: Vec::new(),
            lingering: VecDeque::new(),
            serial: 0,
        }
    }

    /// Puts a connection at the place of its key.
    pub(crate) fn put(&mut self, key: ConnectionKey, mut wire: ServerWire<S>) {
        let at = key.0 as usize;
        if self.wires.len() <= at {
            self.wires.resize_with(at + 1, || None);
        }
        self.serial = self.serial.wrapping_add(1);
        wire.serial = self.serial;
        if let Some(place) = self.wires.get_mut(at) {
            *place = Some(wire);
        }
    }

    pub(crate) fn get(&mut self, key: ConnectionKey) -> Option<&mut ServerWire<S>> {
        self.wires.get_mut(key.0 as usize)?.as_mut()
    }

    pub(crate) fn take(&mut self, key: ConnectionKey) -> Option<ServerWire<S>> {
        self.wires.get_mut(key.0 as usize)?.take()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.wires.iter().all(Option::is_none)
    }

    /// Returns the time at which the next timed work is due.
    pub(crate) fn next_timer(&self) -> Option<u64> {
        let lingering = self.lingering.front().map(|(due, ..)| *due);
        self.servers.next_timer().into_iter().chain(lingering).min()
    }
}

impl<S> ServerWire<S> {
    /// Judges the certificates that the peer has shown, at a time in seconds since 1970.
    pub(crate) fn judge(&self, trust: &Trust, unix_seconds: u64) -> Result<Names, Untrusted> {
        let chain = self.tls.as_ref().map(WireTls::chain).unwrap_or_default();
        match &self.tlsa {
            Some(associations) => trust.judge_associated(&chain, associations, unix_seconds),
            None => trust.judge(&chain, unix_seconds),
        }
    }

    /// Returns the digests of the certificate that the caller has shown.
    pub(crate) fn fingerprints(&self) -> Option<Fingerprints> {
        let accepted = self.tls.as_ref().filter(|tls| matches!(tls, WireTls::Accepted(_)));
        accepted.and_then(|tls| Fingerprints::of(tls.chain().first()?))
    }

    pub(crate) fn new(socket: S, peer: SocketAddr, connecting: bool) -> Self {
        let (unsent, serial) = (Vec::new(), 0);
        let (tls, tlsa, sni) = (None, None, None);
        let (ending, wants_write, paused) = (false, false, false);
        Self { socket, peer, tls, tlsa, sni, unsent, connecting, ending, wants_write, paused, serial }
    }
}

/// The bit that the keys of these connections have in the system's reports, and links never have.
pub(crate) const SERVERS: u32 = 1 << 31;

/// Returns the label, in metrics, of a handshake of TLS.
pub(crate) fn handshake(is_resumed: bool) -> &'static str {
    if is_resumed { "resumed" } else { "full" }
}
