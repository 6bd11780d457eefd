//! The sockets of connections and searches, as the pool sees them.

use std::net::SocketAddr;
use std::sync::Arc;

/// The number of a connection, assigned by the pool.
pub type LinkNumber = usize;

/// A network of servers that are connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkNetwork {
    /// Servers of Channel Access.
    ChannelAccess,
    /// Servers of pvAccess.
    PvAccess,
    /// Brokers of MQTT.
    Mqtt,
}

impl LinkNetwork {
    /// All networks.
    pub const ALL: [Self; 3] = [Self::ChannelAccess, Self::PvAccess, Self::Mqtt];
}

/// Input from the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Came<'a> {
    /// The socket for searches is open; answers come to this port.
    Bound(u16),
    /// A datagram, in answer to a search.
    Datagram(SocketAddr, &'a [u8]),
    /// A connection is open.
    Up(LinkNumber),
    /// Bytes of a connection.
    Bytes(LinkNumber, &'a [u8]),
    /// A connection has ended, or could not be opened.
    Down(LinkNumber),
}

/// An order for the sockets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Goes {
    /// Open the socket for searches, if it isn't open, and report its port.
    Bind,
    /// Send a datagram.
    Datagram(SocketAddr, Vec<u8>),
    /// Open a connection. Nothing is sent on it until it is up.
    Connect(LinkNumber, SocketAddr),
    /// Open a connection with TLS; it is up once the other side has proved its name.
    ConnectTls(LinkNumber, SocketAddr, Arc<LinkTrust>),
    /// Send bytes on a connection.
    Bytes(LinkNumber, Vec<u8>),
    /// Close a connection; its number may be used again from then on.
    Close(LinkNumber),
    /// Close a connection in the same way, and log what its server did wrong.
    Refuse(LinkNumber, &'static str),
}

/// The proof that the other side of a connection must give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkTrust {
    /// The name in its certificate.
    pub host: String,
    /// The authorities that may have signed it, PEM.
    pub authorities: Vec<u8>,
}
