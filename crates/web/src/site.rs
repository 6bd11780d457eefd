//! The names by which this server is known, and the sites whose pages may send requests to it.
//!
//! A page of any site can make its visitor's browser send requests to this machine or network. By
//! DNS rebinding it can even read the responses, under its own name. So the address of a client
//! says nothing about the page that sends a request. Therefore the parts for operators respond only
//! under known names. Pages of sites that the operator hasn't named get no access to WebSocket and
//! BOSH, or at least not as if they were this machine.

use std::net::IpAddr;

use hyper::header::{HOST, HeaderMap, ORIGIN};
use hyper::{Request, Uri};

/// The operator's decisions about names.
#[derive(Debug, Clone, Default)]
pub struct KnownNames {
    /// The names of this server: served domains and further names, without ports, in A-labels.
    /// Names below them belong to it as well.
    pub hosts: Vec<String>,
    /// Origins of further pages that may send requests to it (RFC 6454 §6.1); `*` for all.
    pub origins: Vec<String>,
}

/// The host that a request is for (RFC 9112 §3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestHost<'a> {
    /// The request names none, which no browser does.
    Unsaid,
    /// A host, with or without a port, as in the request.
    Said(&'a str),
    /// An invalid text, or more than one host.
    Garbled,
}

/// The relation of the page that sends a request to this server, by the header `Origin`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageSite {
    /// No page, or one from this server, under a known name.
    Own,
    /// A page of a site that the operator allows, or of this server under another name or port.
    Allowed,
    /// A page of another site.
    Foreign,
}

impl<'a> RequestHost<'a> {
    /// Reads the host from the target of a request, or else from its header `Host` (RFC 9110 §7.2).
    pub fn of<B>(request: &'a Request<B>) -> Self {
        Self::read(request.uri(), request.headers())
    }

    fn read(uri: &'a Uri, headers: &'a HeaderMap) -> Self {
        if let Some(authority) = uri.authority() {
            return Self::Said(authority.as_str());
        }
        let mut lines = headers.get_all(HOST).iter();
        match (lines.next(), lines.next()) {
            (None, _) => Self::Unsaid,
            (Some(line), None) => line.to_str().map_or(Self::Garbled, Self::Said),
            _ => Self::Garbled,
        }
    }
}

impl KnownNames {
    /// Returns whether a request may be for this server: its host is one of ours, an address, or
    /// this machine's name for itself. A request for another name may have come by DNS that an
    /// attacker controls.
    pub fn is_for_us(&self, host: RequestHost<'_>) -> bool {
        match host {
            RequestHost::Unsaid => true,
            RequestHost::Said(host) => name(host).is_some_and(|name| self.serves(name) || is_local(name)),
            RequestHost::Garbled => false,
        }
    }

    /// Returns whether a name is one of [`KnownNames::hosts`] or below it.
    fn serves(&self, name: &str) -> bool {
        self.hosts.iter().any(|host| is_below(name, host))
    }

    /// Returns the relation of the page that sends a request to this server.
    pub fn site<B>(&self, request: &Request<B>) -> PageSite {
        let mut lines = request.headers().get_all(ORIGIN).iter();
        let origin = match (lines.next(), lines.next()) {
            (None, _) => return PageSite::Own,
            (Some(line), None) => line.to_str().unwrap_or_default(),
            _ => return PageSite::Foreign,
        };
        let page = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://")).unwrap_or_default();
        let host = match RequestHost::of(request) {
            RequestHost::Said(host) => host,
            RequestHost::Unsaid | RequestHost::Garbled => "",
        };
        if !page.is_empty() && page.eq_ignore_ascii_case(host) && self.is_for_us(RequestHost::Said(host)) {
            return PageSite::Own;
        }
        let is_listed = self.origins.iter().any(|listed| listed == "*" || listed.eq_ignore_ascii_case(origin));
        // From this server under an unknown name, or through another port: it is served, but it
        // doesn't count as this machine.
        let is_here = name(page).zip(name(host)).is_some_and(|(page, host)| page.eq_ignore_ascii_case(host));
        let is_ours = name(page).is_some_and(|page| self.serves(page));
        if is_listed || is_here || is_ours { PageSite::Allowed } else { PageSite::Foreign }
    }
}

/// Returns the name or address before a port; `None` if it is invalid.
pub fn name(host: &str) -> Option<&str> {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.0,
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-:_".contains(&byte);
    (!name.is_empty() && name.len() <= 255 && name.bytes().all(allowed)).then_some(name)
}

/// Returns whether a host is an address, or a name that always means this machine (RFC 6761 §6.3).
fn is_local(name: &str) -> bool {
    name.parse::<IpAddr>().is_ok() || LOCAL.iter().any(|local| is_below(name, local))
}

/// Returns whether a DNS name equals another one or is below it.
fn is_below(name: &str, above: &str) -> bool {
    let split = name.len().checked_sub(above.len()).and_then(|at| name.split_at_checked(at));
    split.is_some_and(|(before, end)| end.eq_ignore_ascii_case(above) && (before.is_empty() || before.ends_with('.')))
}

/// The text for a refused page of another site.
pub const FOREIGN: &str = "pages of this site may not use this server; its operator can name it in origins, [web]";
/// Names of this machine for itself.
const LOCAL: [&str; 3] = ["localhost", "localhost.localdomain", "ip6-localhost"];

#[cfg(test)]
mod tests {
    use super::*;

    fn names(origins: &[&str]) -> KnownNames {
        let hosts = vec!["example.org".to_owned(), "chat.example.net".to_owned()];
        KnownNames { hosts, origins: origins.iter().map(|&origin| origin.to_owned()).collect() }
    }

    fn request(uri: &str, headers: &[(&str, &str)]) -> Request<()> {
        let request = Request::builder().uri(uri);
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)).body(()).unwrap()
    }

    #[test]
    fn only_names_that_are_known_are_this_server() {
        let names = names(&[]);
        let is_for_us = |uri: &str, hosts: &[&str]| {
            let hosts: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
            names.is_for_us(RequestHost::of(&request(uri, &hosts)))
        };
        for host in [
            "example.org",
            "EXAMPLE.org:5280",
            "upload.example.org",
            "example.org.",
            "chat.example.net:443",
            "localhost:5280",
            "a.localhost",
            "127.0.0.1:5280",
            "[::1]:5280",
            "192.0.2.1",
        ] {
            assert!(is_for_us("/", &[host]), "{host}");
        }
        for host in [
            "evil.test",
            "example.org.evil.test",
            "evilexample.org",
            "example.net",
            "localhost.evil.test",
            "",
            "a b",
            "[::1",
            "127.0.0.1.evil.test",
        ] {
            assert!(!is_for_us("/", &[host]), "{host}");
        }
        assert!(is_for_us("/", &[]), "no browser says none");
        assert!(!is_for_us("/", &["example.org", "example.org"]));
        assert!(!is_for_us("http://evil.test/admin", &["example.org"]), "the address of the request counts");
    }

    #[test]
    fn pages_are_told_by_where_they_come_from() {
        let site = |origins: &[&str], host: &str, origin: &str| {
            names(origins).site(&request("/", &[("host", host), ("origin", origin)]))
        };
        for (host, origin) in [
            ("example.org", "https://example.org"),
            ("chat.example.org:5443", "https://chat.example.org:5443"),
            ("localhost:5280", "http://localhost:5280"),
            ("[::1]:5280", "http://[::1]:5280"),
        ] {
            assert_eq!(site(&[], host, origin), PageSite::Own, "{host} {origin}");
        }
        for (host, origin) in [
            ("localhost:5280", "https://example.org"),
            ("localhost:5280", "http://localhost:3000"),
            ("xmpp1.hosting.test", "https://xmpp1.hosting.test"),
            ("evil.test:5280", "http://evil.test:5280"),
        ] {
            assert_eq!(site(&[], host, origin), PageSite::Allowed, "{host} {origin}");
        }
        for (host, origin) in [
            ("example.org", "https://evil.test"),
            ("localhost:5280", "https://evil.test"),
            ("example.org", "https://example.org.evil.test"),
            ("example.org", "null"),
            ("example.org", "http://localhost"),
            ("example.org", "http://127.0.0.1"),
            ("example.org", "capacitor://localhost"),
            ("example.org", ""),
        ] {
            assert_eq!(site(&[], host, origin), PageSite::Foreign, "{host} {origin}");
        }
        assert_eq!(site(&["https://web.test"], "example.org", "https://web.test"), PageSite::Allowed);
        assert_eq!(site(&["https://web.test"], "example.org", "http://web.test"), PageSite::Foreign);
        assert_eq!(site(&["capacitor://localhost"], "example.org", "capacitor://localhost"), PageSite::Allowed);
        assert_eq!(
            site(&["*"], "localhost:5280", "null"),
            PageSite::Allowed,
            "allowed, and never taken for this machine"
        );
        assert_eq!(names(&[]).site(&request("/", &[("host", "example.org")])), PageSite::Own, "no page");
        let two = [("host", "example.org"), ("origin", "https://example.org"), ("origin", "https://evil.test")];
        assert_eq!(names(&[]).site(&request("/", &two)), PageSite::Foreign);
    }
}
