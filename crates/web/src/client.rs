//! The other end of a connection: its address, and the names in its headers.

use std::net::SocketAddr;

use hyper::HeaderMap;
use hyper::header::HeaderName;
use rookery_hub::Network;

/// The other end of a connection.
#[derive(Debug, Clone, Copy)]
pub struct WebClient {
    /// The address from which the connection comes, or the one in the PROXY protocol's header.
    pub peer: SocketAddr,
    /// True if TLS ends here.
    pub tls: bool,
}

/// Returns whether an address is in one of these networks.
pub fn trusts(networks: &[Network], address: SocketAddr) -> bool {
    networks.iter().any(|network| network.contains(address.ip()))
}

/// Returns whether a header with a list contains a token.
pub(crate) fn has_token(headers: &HeaderMap, name: HeaderName, token: &str) -> bool {
    let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|found| found.trim().eq_ignore_ascii_case(token))
}
