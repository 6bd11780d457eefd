//! Opens connections from as many addresses of this machine as are needed.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};

/// The source addresses of connections.
///
/// One address of this machine has some 28 000 ports, and a port can't be used for a minute after
/// its connection was closed. So connections to a loopback address come from several addresses, ten
/// thousand from each. Every run, and every wave of connections in a run, uses addresses of its
/// own.
#[derive(Debug, Clone)]
pub struct Sources {
    servers: Box<[SocketAddr]>,
    first: u32,
}

impl Sources {
    /// Makes sources for connections to these servers, in turn; equal seeds give equal addresses.
    pub fn new(servers: &[SocketAddr], seed: u32) -> Sources {
        // 127.16.0.0 and up: no service listens there.
        Sources { servers: servers.into(), first: (seed % 0x00a0_0000 + 0x0010_0000) & !0xff }
    }

    /// Returns the address from which the connection with this number comes in this wave; `None` if
    /// the system chooses one.
    pub fn address(&self, number: usize, wave: u32) -> Option<Ipv4Addr> {
        match self.server(number)?.ip() {
            IpAddr::V4(address) if address.is_loopback() => {
                let offset = wave.wrapping_mul(WAVE).wrapping_add((number / PER_ADDRESS) as u32) & 0x003f_ffff;
                Some(Ipv4Addr::from(0x7f00_0001 + self.first + offset))
            }
            _ => None,
        }
    }

    /// Returns the server that the connection with this number goes to.
    fn server(&self, number: usize) -> Option<&SocketAddr> {
        self.servers.get(number.checked_rem(self.servers.len())?)
    }

    /// Starts to connect; the socket becomes writable when it is connected.
    ///
    /// # Errors
    /// The immediate error of the system, or that there is no server.
    pub fn connect(&self, number: usize, wave: u32) -> io::Result<TcpStream> {
        let server = self.server(number).ok_or(io::ErrorKind::AddrNotAvailable)?;
        let family = if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        if let Some(address) = self.address(number, wave) {
            bind(&socket, &SocketAddr::from((address, 0)))?;
        }
        sockopt::set_tcp_nodelay(&socket, true)?;
        // On loopback, pacing, which some systems use by default, costs CPU time and gains nothing.
        // The connection works as well if it can't be turned off.
        if self.address(number, wave).is_some() {
            let _ = sockopt::set_tcp_congestion(&socket, "reno");
        }
        match connect(&socket, server) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
            Err(error) => Err(error.into()),
        }
    }
}

/// The number of connections from one address.
const PER_ADDRESS: usize = 10_000;
/// The number of addresses of a wave: enough for 2.5 million connections.
const WAVE: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_connections_have_an_address_for_each_ten_thousand_and_each_wave() {
        for seed in [0, 1, 77, u32::MAX] {
            let sources = Sources::new(&[([127, 0, 0, 1], 5222).into()], seed);
            let at = |number, wave| sources.address(number, wave).unwrap();
            assert_eq!(at(0, 0), at(9_999, 0));
            let all = [at(0, 0), at(10_000, 0), at(2_559_999, 0), at(0, 1), at(0, 2)];
            assert!(all.iter().all(|address| address.is_loopback() && address.octets()[1] >= 16), "{all:?}");
            let different: std::collections::HashSet<_> = all.into_iter().collect();
            assert_eq!(different.len(), 5);
        }
        assert_eq!(Sources::new(&[([192, 0, 2, 1], 5222).into()], 1).address(0, 0), None);
        assert_eq!(Sources::new(&[(std::net::Ipv6Addr::LOCALHOST, 5222).into()], 1).address(0, 0), None);
    }

    #[test]
    fn connections_go_to_the_servers_in_turn() {
        let servers = [5222, 5223, 5224].map(|port| ([127, 0, 0, 1], port).into());
        let sources = Sources::new(&servers, 1);
        let ports: Vec<_> = (0..4).filter_map(|number| sources.server(number)).map(SocketAddr::port).collect();
        assert_eq!(ports, [5222, 5223, 5224, 5222]);
        assert_eq!(Sources::new(&[], 1).server(0), None);
    }
}
