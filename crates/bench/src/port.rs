//! A port for a server that needs its number before it starts.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use rookery_base::chance;

use crate::BenchOutcome;

/// Returns an address of the loopback interface with an unused port.
///
/// It is in a range that the system doesn't assign: a port of the system's own range could go to
/// another connection before the server listens on it.
///
/// # Errors
/// No port is free, or the system provides no random numbers.
pub fn free_port() -> BenchOutcome<SocketAddr> {
    for _ in 0..TRIES {
        let mut bytes = [0; 2];
        chance::fill(&mut bytes)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, FIRST + u16::from_ne_bytes(bytes) % COUNT));
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    Err(io::Error::from(io::ErrorKind::AddrInUse).into())
}

const FIRST: u16 = 20_000;
const COUNT: u16 = 10_000;
const TRIES: usize = 100;
