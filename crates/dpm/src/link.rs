//! The sockets of connections and searches, as the part that decides sees them.

use std::net::SocketAddr;
use std::sync::Arc;

/// The number of a connection, given by the part that decides.
pub type LinkNumber = usize;

/// Something that came from the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Came<'a> {
    /// A datagram, in answer to a search.
    Datagram(SocketAddr, &'a [u8]),
    /// A connection is made.
    Up(LinkNumber),
    /// Bytes of a connection.
    Bytes(LinkNumber, &'a [u8]),
    /// A connection is gone, or could not be made.
    Down(LinkNumber),
}

/// Something that is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Goes {
    /// Send a datagram.
    Datagram(SocketAddr, Vec<u8>),
    /// Make a connection. Nothing is sent on it before it is up.
    Connect(LinkNumber, SocketAddr),
    /// Make a connection with TLS; it is up when the other side has proved its name.
    ConnectTls(LinkNumber, SocketAddr, Arc<LinkTrust>),
    /// Send bytes on a connection.
    Bytes(LinkNumber, Vec<u8>),
    /// Close a connection; its number may mean another one from then on.
    Close(LinkNumber),
}

/// The proof that the other side of a connection must give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkTrust {
    /// The name in its certificate.
    pub host: String,
    /// The authorities that may have signed it, PEM.
    pub authorities: Vec<u8>,
}
