//! Proxies' statements about the clients behind them: the PROXY protocol, version 2, and the
//! headers that say the same.
//!
//! Either is only believed from a peer that the operator has named: others could claim any address,
//! and so evade every limit per address.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use hyper::HeaderMap;
use rookery_hub::Network;
use tokio::io::AsyncReadExt;

use crate::client::{WebClient, trusts};

/// Reads a header of the PROXY protocol, version 2, and no byte after it. Returns `None` if the
/// proxy speaks for itself.
///
/// # Errors
/// It isn't a valid header.
pub async fn read_header(socket: &mut (impl AsyncReadExt + Unpin)) -> io::Result<Option<SocketAddr>> {
    let mut head = [0; 16];
    socket.read_exact(&mut head).await?;
    let bad = |what: &'static str| io::Error::new(io::ErrorKind::InvalidData, what);
    let (signature, rest) = head.split_at(SIGNATURE.len());
    let &[version, family, high, low] = rest else { return Err(bad("no header of a proxy")) };
    if signature != SIGNATURE || version >> 4 != 2 {
        return Err(bad("no header of the PROXY protocol, version 2"));
    }
    let len = usize::from(u16::from_be_bytes([high, low]));
    if len > MOST_ADDRESSES {
        return Err(bad("the header of the proxy is too long"));
    }
    let mut addresses = vec![0; len];
    socket.read_exact(&mut addresses).await?;
    match version & 0xf {
        // LOCAL: a health check of the proxy.
        0 => Ok(None),
        1 => source(family, &addresses).map_err(bad),
        _ => Err(bad("the header of the proxy is of an unknown kind")),
    }
}

/// Reads the source address of a TCP connection.
fn source(family: u8, addresses: &[u8]) -> Result<Option<SocketAddr>, &'static str> {
    let short = "the header of the proxy is too short";
    let port = |at: usize| addresses.get(at..).and_then(<[u8]>::first_chunk::<2>).map(|port| u16::from_be_bytes(*port));
    Ok(match family {
        // TCP over IPv4: source, destination, their ports.
        0x11 => {
            let octets = addresses.first_chunk::<4>().ok_or(short)?;
            Some(SocketAddr::new(Ipv4Addr::from(*octets).into(), port(8).ok_or(short)?))
        }
        // The same over IPv6.
        0x21 => {
            let octets = addresses.first_chunk::<16>().ok_or(short)?;
            Some(SocketAddr::new(Ipv6Addr::from(*octets).into(), port(32).ok_or(short)?))
        }
        _ => None,
    })
}

/// The true address of a client, and the encryption of the way from there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The client's address, or that of the last proxy if the [way](RequestWay) doesn't tell it.
    pub address: SocketAddr,
    /// The way of the request.
    pub way: RequestWay,
    /// True if TLS ends here, or at a trusted proxy that says so.
    pub encrypted: bool,
    /// True if the encryption ends at a trusted proxy.
    pub by_proxy: bool,
}

/// The way by which a request reached this server, which determines whether its address can be
/// trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestWay {
    /// Directly, as far as can be seen: the address is that of the connection.
    Direct,
    /// Through a trusted proxy that has named the address.
    Told,
    /// Through a trusted proxy that has named no valid address.
    Silent,
    /// Through an untrusted proxy: any client may be behind it, whatever it says.
    Untrusted,
}

impl RequestWay {
    /// Returns whether the address is the client's. If it isn't, nothing may be granted because of
    /// an address.
    pub fn is_known(self) -> bool {
        matches!(self, Self::Direct | Self::Told)
    }
}

/// Reads `X-Forwarded-For` and `X-Forwarded-Proto` of a request from a trusted proxy; each proxy on
/// the way appends the address that it saw, so the last one that isn't a trusted proxy is the
/// client.
pub fn origin(client: WebClient, headers: &HeaderMap, trusted: &[Network]) -> Origin {
    let direct = Origin { address: client.peer, way: RequestWay::Direct, encrypted: client.tls, by_proxy: false };
    if !trusts(trusted, client.peer) {
        let is_untrusted = PROXIES.iter().any(|name| headers.contains_key(*name));
        return if is_untrusted { Origin { way: RequestWay::Untrusted, ..direct } } else { direct };
    }
    let https = headers.get("x-forwarded-proto").is_some_and(|proto| proto.as_bytes().eq_ignore_ascii_case(b"https"));
    let told = forwarded_address(headers, trusted);
    Origin {
        address: told.map_or(client.peer, |address| SocketAddr::new(address, 0)),
        way: if told.is_some() { RequestWay::Told } else { RequestWay::Silent },
        encrypted: client.tls || https,
        by_proxy: !client.tls && https,
    }
}

/// Returns the address in `X-Forwarded-For`. An invalid entry was not written by a proxy of ours,
/// so the entries before it are worthless, too.
fn forwarded_address(headers: &HeaderMap, trusted: &[Network]) -> Option<IpAddr> {
    let mut found = None;
    for line in headers.get_all("x-forwarded-for").into_iter().rev() {
        for hop in line.to_str().ok()?.rsplit(',') {
            let hop = address(hop.trim())?;
            found = Some(hop);
            if !trusted.iter().any(|network| network.contains(hop)) {
                return found;
            }
        }
    }
    found
}

/// Reads an address, with optional brackets and port.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

/// Headers that proxies add.
const PROXIES: [&str; 5] = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-real-ip", "forwarded"];
/// The bytes with which every header of version 2 begins (PROXY protocol §2.2).
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The most bytes of addresses and of proxies' extensions.
const MOST_ADDRESSES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> io::Result<Option<SocketAddr>> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async { read_header(&mut &bytes[..]).await })
    }

    fn header(version: u8, family: u8, addresses: &[u8]) -> Vec<u8> {
        let len = (addresses.len() as u16).to_be_bytes();
        [SIGNATURE, &[version, family], &len, addresses].concat()
    }

    #[test]
    fn the_header_tells_the_client() {
        let four = header(0x21, 0x11, &[192, 0, 2, 7, 10, 0, 0, 1, 0x1f, 0x90, 0, 80, 3, 0, 0]);
        assert_eq!(read(&four).unwrap(), Some("192.0.2.7:8080".parse().unwrap()));
        let mut six = vec![0; 36];
        (six[15], six[33]) = (1, 9);
        assert_eq!(read(&header(0x21, 0x21, &six)).unwrap(), Some("[::1]:9".parse().unwrap()));
        assert_eq!(read(&header(0x20, 0, &[])).unwrap(), None);
        assert_eq!(read(&header(0x21, 0x31, &[0; 216])).unwrap(), None, "a socket of the same machine");
    }

    #[test]
    fn what_is_no_header_is_refused() {
        assert!(read(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").is_err());
        assert!(read(&header(0x11, 0x11, &[0; 12])).is_err(), "version 1");
        assert!(read(&header(0x22, 0x11, &[0; 12])).is_err(), "an unknown command");
        assert!(read(&header(0x21, 0x11, &[0; 4])).is_err(), "short addresses");
        assert!(read(&header(0x21, 0x11, &[0; 2000])).is_err(), "long ones");
        assert!(read(&SIGNATURE[..8]).is_err());
    }

    fn networks(texts: &[&str]) -> Vec<Network> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn only_trusted_proxies_are_believed() {
        let trusted = networks(&["127.0.0.0/8", "10.0.0.0/8"]);
        let mut headers = HeaderMap::new();
        headers.append("x-forwarded-for", "203.0.113.9, 192.0.2.7".parse().unwrap());
        headers.append("x-forwarded-for", "10.1.1.1".parse().unwrap());
        headers.append("x-forwarded-proto", "https".parse().unwrap());
        let from = |peer: &str| origin(WebClient { peer: peer.parse().unwrap(), tls: false }, &headers, &trusted);
        let stranger = from("198.51.100.1:5");
        assert_eq!((stranger.address.to_string().as_str(), stranger.encrypted), ("198.51.100.1:5", false));
        assert_eq!(stranger.way, RequestWay::Untrusted);
        let proxied = from("127.0.0.1:5");
        assert_eq!((proxied.address.ip().to_string().as_str(), proxied.encrypted), ("192.0.2.7", true));
        assert_eq!((proxied.way, proxied.by_proxy), (RequestWay::Told, true));
        headers.append("x-forwarded-for", "unknown".parse().unwrap());
        let hidden = origin(WebClient { peer: "127.0.0.1:5".parse().unwrap(), tls: true }, &headers, &trusted);
        assert_eq!((hidden.address.to_string().as_str(), hidden.by_proxy), ("127.0.0.1:5", false));
        assert_eq!(hidden.way, RequestWay::Silent);
        let none = HeaderMap::new();
        let direct = origin(WebClient { peer: "198.51.100.1:5".parse().unwrap(), tls: true }, &none, &trusted);
        assert_eq!((direct.way, direct.encrypted), (RequestWay::Direct, true));
    }

    #[test]
    fn a_trusted_proxy_that_tells_nothing_to_be_read_is_silent() {
        let trusted = networks(&["127.0.0.1", "10.0.0.0/8"]);
        let seen = |headers: &[(&'static str, &str)]| {
            let given = headers
                .iter()
                .map(|(name, value)| (hyper::header::HeaderName::from_static(name), value.parse().unwrap()));
            origin(WebClient { peer: "127.0.0.1:5".parse().unwrap(), tls: false }, &given.collect(), &trusted)
        };
        for silent in [
            &[][..],
            &[("x-real-ip", "198.51.100.1")],
            &[("forwarded", "for=198.51.100.1")],
            &[("x-forwarded-proto", "https")],
            &[("x-forwarded-for", "")],
            &[("x-forwarded-for", "unknown")],
            &[("x-forwarded-for", "198.51.100.1, unknown")],
            &[("x-forwarded-for", "unknown, 10.0.0.1")],
            &[("x-forwarded-for", "198.51.100.1,")],
            &[("x-forwarded-for", "_hidden")],
            &[("x-forwarded-for", "[2001:db8::1")],
        ] {
            assert_eq!(seen(silent).way, RequestWay::Silent, "{silent:?}");
        }
        for (told, address) in [
            ("198.51.100.1", "198.51.100.1"),
            ("198.51.100.1:4711", "198.51.100.1"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:4711", "2001:db8::1"),
            ("unknown, 198.51.100.1, 10.0.0.1", "198.51.100.1"),
            ("10.0.0.2, 10.0.0.1", "10.0.0.2"),
        ] {
            let seen = seen(&[("x-forwarded-for", told)]);
            assert_eq!((seen.way, seen.address.ip()), (RequestWay::Told, address.parse().unwrap()), "{told}");
        }
    }
}
