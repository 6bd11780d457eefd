//! Addresses that two keys name, so that the second can't be listened on, whatever else runs on the
//! machine.

use std::net::{IpAddr, SocketAddr};

use super::ServerConfig;
use crate::listener;

/// Returns the first address that conflicts with another one of the configuration: its table and
/// key, and the mistake.
pub fn shared(config: &ServerConfig) -> Option<((&'static str, &'static str), String)> {
    let listen = listener::wanted(config).map(|(address, kind)| (("listen", kind.key()), address));
    let dpm = config.dpm.listen.iter().map(|address| (("dpm", "listen"), *address));
    let dpm = dpm.chain(config.dpm.grpc.map(|address| (("dpm", "grpc"), address)));
    let all: Vec<_> = listen.chain(dpm.filter(|_| config.dpm.enabled)).collect();
    all.iter().enumerate().find_map(|(at, (key, address))| {
        let (other, theirs) = all.iter().take(at).find(|(_, theirs)| is_one(*address, *theirs))?;
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

/// Returns whether two addresses conflict. Port 0 stands for any free port.
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
