//! Datagrams of front-ends.

use std::io;
use std::net::UdpSocket;

/// Returns the next datagram, if there is one. The network's reports about earlier datagrams that
/// did not arrive (a closed port) are not errors here.
pub(super) fn next_datagram(
    socket: &UdpSocket,
    buffer: &mut [u8],
) -> io::Result<Option<(usize, std::net::SocketAddr)>> {
    loop {
        match socket.recv_from(buffer) {
            Ok(received) => return Ok(Some(received)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
}

/// The most datagrams that are read before other sockets have their turn.
pub(super) const DATAGRAMS: usize = 256;

/// The largest datagram, in bytes.
pub(super) const LARGEST_DATAGRAM: usize = 65_536;

/// The receive buffer in bytes; the system may provide less.
pub(super) const RECEIVE_BUFFER: usize = 8 << 20;
