//! Finds addresses that two keys name: the second can't be listened on, whatever else runs on the
//! machine.

use std::net::{IpAddr, SocketAddr};

use super::ServerConfig;
use crate::listener;

/// Returns the first address that conflicts with another one of the configuration: its table and
/// key, and the mistake.
pub fn find_conflict(config: &ServerConfig) -> Option<((&'static str, &'static str), String)> {
    let listen = listener::wanted_addresses(config);
    let listen =
        listen.map(|(address, kind)| WantedAddress { key: ("listen", kind.key()), by: PortTransport::Tcp, address });
    let all: Vec<_> = listen.chain(of_readings(config)).collect();
    all.iter().enumerate().find_map(|(at, WantedAddress { key, by, address })| {
        let is_taken = |other: &&WantedAddress| by.meets(other.by) && is_one(*address, other.address);
        let WantedAddress { key: other, address: theirs, .. } = all.iter().take(at).find(is_taken)?;
        let port = address.port();
        let what = match (key == other, address == theirs) {
            (true, true) => format!("{address} is listed twice"),
            (true, false) => {
                format!("{address} and {theirs} are the same port, because one of them means all addresses")
            }
            _ => format!("port {port} is also used by `{}` in [{}]: give each its own port", other.1, other.0),
        };
        Some((*key, what))
    })
}

/// An address that a key names.
struct WantedAddress {
    key: (&'static str, &'static str),
    by: PortTransport,
    address: SocketAddr,
}

/// The transports of ports. Two ports may have the same number if their transports differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PortTransport {
    Tcp,
    Udp,
    Both,
}

impl PortTransport {
    fn meets(self, other: Self) -> bool {
        self == other || self == Self::Both || other == Self::Both
    }
}

/// Returns the addresses of `[dpm]`, in the order in which they are opened.
fn of_readings(config: &ServerConfig) -> Vec<WantedAddress> {
    let dpm = &config.dpm;
    if !dpm.enabled {
        return Vec::new();
    }
    let wanted = |key, by, address| WantedAddress { key: ("dpm", key), by, address };
    let listen = dpm.listen.iter().map(|address| wanted("listen", PortTransport::Tcp, *address));
    let front_ends = wanted("front_ends", PortTransport::Udp, crate::dpm::front_ends(dpm));
    let grpc = dpm.grpc.map(|address| wanted("grpc", PortTransport::Tcp, address));
    let channel_access = dpm.channel_access.map(|address| wanted("channel_access", PortTransport::Both, address));
    let pv_access = dpm.pv_access.map(|address| wanted("pv_access", PortTransport::Both, address));
    listen.chain([front_ends]).chain(grpc).chain(channel_access).chain(pv_access).collect()
}

/// Returns whether two addresses can't both be listened on. Port 0 stands for any free port.
fn is_one(one: SocketAddr, other: SocketAddr) -> bool {
    let covers =
        |one: IpAddr, other: IpAddr| one == other || one.is_unspecified() && (one.is_ipv6() || other.is_ipv4());
    let (a, b) = (one.ip(), other.ip());
    one.port() != 0 && one.port() == other.port() && (covers(a, b) || covers(b, a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_addresses_include_each() {
        for (one, other, expected) in [
            ("127.0.0.1:1", "127.0.0.1:1", true),
            ("127.0.0.1:1", "127.0.0.1:2", false),
            ("127.0.0.1:0", "127.0.0.1:0", false),
            ("127.0.0.1:1", "127.0.0.2:1", false),
            ("127.0.0.1:1", "0.0.0.0:1", true),
            ("127.0.0.1:1", "[::]:1", true),
            ("[::1]:1", "[::]:1", true),
            ("[::1]:1", "0.0.0.0:1", false),
            ("[::]:1", "0.0.0.0:1", true),
        ] {
            let [one, other] = [one, other].map(|text| text.parse().expect("an address"));
            assert_eq!((is_one(one, other), is_one(other, one)), (expected, expected), "{one} {other}");
        }
    }
}
