//! Decides who may use the parts for operators: the API, the admin page and the metrics. All follow
//! the same rules.
//!
//! Each part is only available under the names by which this server is known, so that a page of
//! another site can't read it through a browser on this machine (see [`crate::site`]).
//!
//! Each part is only available to the networks in the configuration, by default this machine alone,
//! and secrets are only sent over connections that can't be intercepted. Behind a proxy on this
//! machine, every client seems to be this machine. So a request is refused if it comes through a
//! proxy that the operator doesn't trust (a header reveals that), or through a trusted proxy that
//! doesn't name the client.

use hyper::HeaderMap;
use rookery_hub::Network;

use crate::client::trusts;
use crate::proxy::{Origin, RequestWay};
use crate::site::{KnownNames, RequestHost};

/// A part of the web front that only some networks may use.
#[derive(Debug, Clone, Copy)]
pub struct Ward<'a> {
    /// The names under which the part is served.
    pub names: &'a KnownNames,
    /// The networks whose clients may use it.
    pub networks: &'a [Network],
    /// True if clients on other machines must use TLS.
    pub needs_tls: bool,
    /// The text that clients outside these networks get.
    pub elsewhere: &'static str,
}

impl Ward<'_> {
    /// Checks whether a request may use the part.
    ///
    /// # Errors
    /// The reason for the refusal, as a text for the client.
    pub fn judge(&self, origin: Origin, host: RequestHost<'_>) -> Result<(), &'static str> {
        if !self.names.is_for_us(host) {
            return Err("this server isn't known by this name; see hosts in [web]");
        }
        match origin.way {
            RequestWay::Direct | RequestWay::Told => {}
            RequestWay::Untrusted => return Err("this came through a proxy that isn't trusted; see trusted_proxies"),
            RequestWay::Silent => {
                return Err(
                    "this came from a trusted proxy that doesn't say for whom: it has to set X-Forwarded-For to \
                            the client's address (127.0.0.1 for yourself on this machine)",
                );
            }
        }
        if !trusts(self.networks, origin.address) {
            return Err(self.elsewhere);
        }
        if self.needs_tls && !origin.encrypted && !origin.address.ip().to_canonical().is_loopback() {
            return Err("this is served over TLS only");
        }
        Ok(())
    }
}

/// Returns whether the browser's headers say that a page of another site sent this request. A
/// request without these headers passes, as programs send none; the forms of signed-in visitors
/// also carry a token.
pub fn is_cross_site(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    match (text("sec-fetch-site"), text("origin")) {
        (Some(site), _) => !matches!(site, "same-origin" | "none"),
        (None, Some(origin)) => origin.split_once("://").map(|(_, host)| host) != text("host"),
        (None, None) => false,
    }
}

/// The texts for clients outside the networks of a part.
pub const ELSEWHERE_ADMIN: &str = "this is not for your address; see admin_networks in [web]";
pub const ELSEWHERE_API: &str = "this is not for your address; see api_networks in [web]";
pub const ELSEWHERE_METRICS: &str = "this is not for your address; see metrics_networks in [web]";

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;
    use crate::client::WebClient;
    use crate::proxy::origin;

    fn judge(peer: &str, tls: bool, forwarded: Option<&str>, trusted: &[&str]) -> Result<(), &'static str> {
        let networks: Vec<Network> = ["127.0.0.0/8", "192.0.2.0/24"].iter().map(|text| text.parse().unwrap()).collect();
        let trusted: Vec<Network> = trusted.iter().map(|text| text.parse().unwrap()).collect();
        let client = WebClient { peer: peer.parse().unwrap(), tls };
        let mut headers = HeaderMap::new();
        if let Some(forwarded) = forwarded {
            headers.insert("x-forwarded-for", forwarded.parse().unwrap());
        }
        let names = KnownNames::default();
        Ward { names: &names, networks: &networks, needs_tls: true, elsewhere: ELSEWHERE_ADMIN }
            .judge(origin(client, &headers, &trusted), RequestHost::Unsaid)
    }

    #[test]
    fn networks_decide_and_tls_is_needed_from_elsewhere() {
        assert!(judge("127.0.0.1:9", false, None, &[]).is_ok());
        assert!(judge("192.0.2.7:9", true, None, &[]).is_ok());
        assert!(judge("192.0.2.7:9", false, None, &[]).is_err(), "in the clear");
        assert!(judge("198.51.100.1:9", true, None, &[]).is_err(), "from elsewhere");
    }

    #[test]
    fn a_proxy_on_this_machine_opens_nothing() {
        assert!(judge("127.0.0.1:9", false, Some("198.51.100.1"), &[]).is_err(), "not trusted");
        assert!(judge("127.0.0.1:9", false, Some("127.0.0.1"), &[]).is_err(), "not trusted, whatever it says");
        assert!(
            judge("127.0.0.1:9", false, Some("198.51.100.1"), &["127.0.0.1"]).is_err(),
            "trusted, and from elsewhere"
        );
        assert!(judge("127.0.0.1:9", true, Some("192.0.2.3"), &["127.0.0.1"]).is_ok());
        assert!(judge("127.0.0.1:9", false, Some("127.0.0.1"), &["127.0.0.1"]).is_ok(), "for itself");
        for silent in [None, Some(""), Some("unknown"), Some("127.0.0.1, unknown")] {
            assert!(judge("127.0.0.1:9", false, silent, &["127.0.0.1"]).is_err(), "{silent:?} tells nothing");
        }
    }

    fn headers(given: &[(&'static str, &'static str)]) -> HeaderMap {
        given.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn forms_of_other_pages_are_known() {
        let host = ("host", "chat.example:5443");
        assert!(!is_cross_site(&headers(&[host])));
        assert!(!is_cross_site(&headers(&[host, ("sec-fetch-site", "same-origin")])));
        assert!(!is_cross_site(&headers(&[host, ("origin", "https://chat.example:5443")])));
        for other in [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("origin", "https://evil.example"),
            ("origin", "null"),
        ] {
            assert!(is_cross_site(&headers(&[host, other])), "{other:?}");
        }
    }
}
