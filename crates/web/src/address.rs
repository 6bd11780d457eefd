//! Finds the addresses at which browsers reach this server's pages, and whether a page may ask for
//! a password at the address that a browser has used.

use hyper::Request;

use crate::proxy::Origin;
use crate::site::{RequestHost, name};
use crate::{WebSettings, WebShared};

/// The verdict on a connection: whether a page that is loaded over it may ask for a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Safety {
    /// The connection is encrypted, stays on this machine, or comes from a network that the
    /// operator trusts.
    Safe,
    /// The connection isn't safe; the same page is available over TLS at this address.
    Elsewhere(String),
    /// The connection isn't safe, and no address of the page over TLS is known.
    Unsafe,
}

impl WebShared {
    /// Returns the address of a domain's pages over TLS, without a slash at its end; `None` if the
    /// pages aren't served over TLS.
    pub fn pages(&self, domain: &str) -> Option<String> {
        match (&self.settings().hub.told.pages, self.https_port) {
            (Some(pages), _) => Some(pages.replace('@', domain)),
            (None, Some(port)) => Some(https(domain, port)),
            (None, None) => None,
        }
    }

    /// Returns whether a page may ask for a password over the connection of this request. On this
    /// machine it may do so without TLS, since over TLS browsers would warn that the certificate is
    /// for another name.
    pub fn safety<B>(&self, request: &Request<B>, origin: Origin) -> Safety {
        let is_here = origin.way.is_known() && origin.address.ip().to_canonical().is_loopback();
        match is_here {
            true => Safety::Safe,
            false => self.safety_of_streams(request, origin),
        }
    }

    /// Returns the answer for a page whose scripts log in over an XMPP stream. The rules for
    /// streams hold there: this machine isn't an exception unless the operator's networks without
    /// TLS include it.
    pub fn safety_of_streams<B>(&self, request: &Request<B>, origin: Origin) -> Safety {
        let settings = self.settings();
        let is_of = |network: &rookery_hub::Network| network.contains(origin.address.ip());
        if origin.encrypted || (origin.way.is_known() && settings.plaintext.iter().any(is_of)) {
            return Safety::Safe;
        }
        let twin = origin.way.is_known().then(|| twin(request, &settings, self.https_port)).flatten();
        twin.map_or(Safety::Unsafe, Safety::Elsewhere)
    }
}

/// Returns the address of the requested page over TLS; `None` if there is none.
fn twin<B>(request: &Request<B>, settings: &WebSettings, https_port: Option<u16>) -> Option<String> {
    let host = RequestHost::of(request);
    let RequestHost::Said(said) = host else { return None };
    if !settings.names.is_for_us(host) {
        return None;
    }
    let path = request.uri().path_and_query()?;
    let base = match &settings.public_host {
        // The proxy of this host may have ended TLS without saying so. A redirection to the same
        // host would then lead back here for ever.
        Some(public) if public.eq_ignore_ascii_case(said) => return None,
        Some(public) => format!("https://{public}"),
        None => https(name(said)?, https_port?),
    };
    Some(format!("{base}{path}"))
}

fn https(host: &str, port: u16) -> String {
    // An IPv6 address is written in brackets (RFC 3986 §3.2.2).
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    if port == 443 { format!("https://{host}") } else { format!("https://{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_brackets_and_ports_where_they_need_them() {
        assert_eq!(https("example.org", 443), "https://example.org");
        assert_eq!(https("example.org", 5443), "https://example.org:5443");
        assert_eq!(https("::1", 443), "https://[::1]");
    }
}
