//! Who may come to what is for operators: the API and the admin page.
//!
//! Both are for the networks that the configuration names, this machine alone unless it says otherwise, and for connections that nobody can listen to.
//! A proxy on this machine makes everybody look like this machine. So whoever comes by a proxy (it says so by a header) that the operator doesn't trust is
//! let in nowhere: `trusted_proxies` has to name it first, and then the address that it tells decides.

use hyper::HeaderMap;
use rookery_hub::Network;

use crate::accept::{Client, trusts};
use crate::proxy::Origin;

/// Why somebody isn't let in, in words; `Ok` if they are.
pub fn judge(
    networks: &[Network],
    trusted: &[Network],
    client: Client,
    origin: Origin,
    headers: &HeaderMap,
) -> Result<(), &'static str> {
    let by_proxy = PROXIES.iter().any(|name| headers.contains_key(*name));
    if by_proxy && !trusts(trusted, client.peer) {
        return Err("this came by a proxy that is not trusted; see trusted_proxies");
    }
    if !trusts(networks, origin.address) {
        return Err("this is not for your address");
    }
    if !origin.encrypted && !origin.address.ip().to_canonical().is_loopback() {
        return Err("this is served over TLS only");
    }
    Ok(())
}

/// Headers by which proxies tell of themselves.
const PROXIES: [&str; 4] = ["x-forwarded-for", "x-forwarded-proto", "x-real-ip", "forwarded"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::origin;

    fn judged(peer: &str, tls: bool, forwarded: Option<&str>, trusted: &[&str]) -> Result<(), &'static str> {
        let networks: Vec<Network> = ["127.0.0.0/8", "192.0.2.0/24"].iter().map(|text| text.parse().unwrap()).collect();
        let trusted: Vec<Network> = trusted.iter().map(|text| text.parse().unwrap()).collect();
        let client = Client { peer: peer.parse().unwrap(), tls };
        let mut headers = HeaderMap::new();
        if let Some(forwarded) = forwarded {
            headers.insert("x-forwarded-for", forwarded.parse().unwrap());
        }
        judge(&networks, &trusted, client, origin(client, &headers, &trusted), &headers)
    }

    #[test]
    fn networks_decide_and_tls_is_needed_from_elsewhere() {
        assert!(judged("127.0.0.1:9", false, None, &[]).is_ok());
        assert!(judged("192.0.2.7:9", true, None, &[]).is_ok());
        assert!(judged("192.0.2.7:9", false, None, &[]).is_err(), "in the clear");
        assert!(judged("198.51.100.1:9", true, None, &[]).is_err(), "from elsewhere");
    }

    #[test]
    fn a_proxy_on_this_machine_opens_nothing() {
        assert!(judged("127.0.0.1:9", false, Some("198.51.100.1"), &[]).is_err(), "not trusted");
        assert!(judged("127.0.0.1:9", false, Some("127.0.0.1"), &[]).is_err(), "not trusted, whatever it says");
        assert!(
            judged("127.0.0.1:9", false, Some("198.51.100.1"), &["127.0.0.1"]).is_err(),
            "trusted, and from elsewhere"
        );
        assert!(judged("127.0.0.1:9", true, Some("192.0.2.3"), &["127.0.0.1"]).is_ok());
    }
}
