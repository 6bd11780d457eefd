//! A port that never responds, like a machine without power.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

/// A port of the loopback interface whose queue is full: the system drops every further connection
/// attempt, so clients wait. It needs no privileges.
pub struct SilentPort {
    address: SocketAddr,
    _listener: Socket,
    _waiting: Vec<TcpStream>,
}

impl SilentPort {
    /// Listens without ever accepting, and fills the queue.
    ///
    /// # Panics
    /// If that isn't possible, with the reason.
    pub fn listen() -> SilentPort {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a port");
        listener.listen(0).expect("a queue");
        let address = listener.local_addr().ok().and_then(|address| address.as_socket()).expect("its address");
        let mut waiting = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&address, FULL) {
            waiting.push(stream);
            assert!(waiting.len() < MOST, "the queue is never full");
        }
        SilentPort { address, _listener: listener, _waiting: waiting }
    }

    /// Returns the address that a connection to this port has to name.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The time without an answer after which the queue counts as full.
const FULL: Duration = Duration::from_millis(300);

/// The most connections that a queue without room may hold.
const MOST: usize = 16;
