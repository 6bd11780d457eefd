//! The system's interface for a shard: non-blocking sockets, and notifications when they are
//! ready.

use std::io;
use std::net::SocketAddr;

/// A way to reach the network. Its errors are the system's. `WouldBlock` means that the call can be
/// repeated when the socket is ready.
pub trait Driver {
    /// A connection.
    type Socket: Send + 'static;

    /// Begins to connect. The socket is ready for output when it is connected, or can't be: see
    /// [`Driver::connect_result`].
    ///
    /// # Errors
    /// The error of the system at once.
    fn connect(&mut self, address: SocketAddr) -> io::Result<Self::Socket>;

    /// Returns the outcome of [`Driver::connect`], for a socket that is ready.
    ///
    /// # Errors
    /// The reason why it isn't connected.
    fn connect_result(&mut self, socket: &Self::Socket) -> io::Result<()>;

    /// Begins to watch a socket for input, under a key that [`ReadySocket`] will carry.
    ///
    /// # Errors
    /// The error of the system; the socket can't be used then.
    fn add(&mut self, socket: &Self::Socket, key: u32) -> io::Result<()>;

    /// Changes the events that a socket is watched for.
    fn interest(&mut self, socket: &Self::Socket, key: u32, read: bool, write: bool);

    /// Ends the watch; the socket itself is closed by dropping it.
    fn remove(&mut self, socket: &Self::Socket);

    /// Reads once. A result of 0 bytes means that the peer has ended its direction.
    ///
    /// # Errors
    /// `WouldBlock`, or the system's error for a broken connection.
    fn recv(&mut self, socket: &Self::Socket, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes once, as much as fits.
    ///
    /// # Errors
    /// `WouldBlock`, or the system's error for a broken connection.
    fn send(&mut self, socket: &Self::Socket, bytes: &[u8]) -> io::Result<usize>;

    /// Ends our direction of the connection; the peer can still read everything that was written.
    fn shutdown(&mut self, socket: &Self::Socket);
}

/// A report that a socket can be read from or written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadySocket {
    /// The key that it is watched under.
    pub key: u32,
    /// There is input, an end, or an error to be read.
    pub read: bool,
    /// There is room for output.
    pub write: bool,
}
