//! The outside: sockets, the clock, one thread that waits for both.
//!
//! Everything that decides anything is in [`service`](crate::service) and [`simulator`](crate::simulator); here bytes and datagrams are only moved. A turn
//! takes all that is ready, then sends each datagram, and writes once to each client that got something.

mod door;
mod grpc;
mod history;
mod listen;
mod serve;
mod set;
mod simulate;
mod top;
mod wake;

pub use listen::raise_descriptors;
pub use serve::{NotOpened, Server, Settings};
pub use simulate::Front;
pub use top::show as show_top;
pub use wake::Wake;

use std::io;
use std::net::UdpSocket;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::time::Moment;

/// Gives moments of the machine's clocks.
#[derive(Debug)]
struct Clock {
    start: Instant,
}

impl Clock {
    fn new() -> Self {
        Self { start: Instant::now() }
    }

    fn now(&self) -> Moment {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment { millis: self.start.elapsed().as_millis() as u64, unix_millis: since_1970.as_millis() as i64 }
    }
}

/// The next datagram, if there is one. What the network says about earlier ones that did not arrive (a port that is closed) is no error of ours.
fn next_datagram(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Option<(usize, std::net::SocketAddr)>> {
    loop {
        match socket.recv_from(buffer) {
            Ok(received) => return Ok(Some(received)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Datagrams that are taken in a turn before others get theirs.
const DATAGRAMS: usize = 256;
/// The largest datagram, in bytes.
const LARGEST_DATAGRAM: usize = 65_536;
