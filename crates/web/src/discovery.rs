//! Discovery for clients in browsers (XEP-0156): `host-meta` in XML and in JSON.

use hyper::body::Incoming;
use hyper::header::{ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue};
use hyper::{Request, Response, StatusCode};

use crate::proxy::Origin;
use crate::reply::{Body, reply};
use crate::site::RequestHost;
use crate::{WebSettings, bosh};

/// Replies with XRD (XEP-0156 §3).
pub(crate) fn xml(request: &Request<Incoming>, origin: Origin, settings: &WebSettings) -> Response<Body> {
    open(reply(
        StatusCode::OK,
        "application/xrd+xml; charset=utf-8",
        xrd(&links(RequestHost::of(request), origin, settings)),
    ))
}

/// Replies with JRD (XEP-0156 §4).
pub(crate) fn json(request: &Request<Incoming>, origin: Origin, settings: &WebSettings) -> Response<Body> {
    let links = links(RequestHost::of(request), origin, settings);
    let links: Vec<_> = links.iter().map(|(rel, href)| serde_json::json!({ "rel": rel, "href": href })).collect();
    open(reply(StatusCode::OK, "application/json", serde_json::json!({ "links": links }).to_string()))
}

/// Lets scripts of any page read it (required by XEP-0156 §5).
fn open(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    response
}

fn xrd(links: &[(&str, String)]) -> String {
    let links: String = links.iter().map(|(rel, href)| format!("  <Link rel='{rel}' href='{href}'/>\n")).collect();
    format!(
        "<?xml version='1.0' encoding='utf-8'?>\n\
         <XRD xmlns='http://docs.oasis-open.org/ns/xri/xrd-1.0'>\n{links}</XRD>\n"
    )
}

/// Returns the relations of the supported transports, with their addresses as this client can reach
/// them.
fn links(host: RequestHost<'_>, origin: Origin, settings: &WebSettings) -> Vec<(&'static str, String)> {
    // A name that isn't ours could belong to another server: clients aren't sent there just because
    // a request names it.
    let said = match host {
        RequestHost::Said(said) if is_host(said) && settings.names.is_for_us(host) => Some(said),
        _ => None,
    };
    let default = settings.domains.first().map_or("localhost", String::as_str);
    let host = settings.public_host.as_deref().or(said).unwrap_or(default);
    let is_secure = origin.encrypted || settings.public_host.is_some();
    let (ws, http) = if is_secure { ("wss", "https") } else { ("ws", "http") };
    let bosh = settings.bosh.as_ref().map(|_| (BOSH, format!("{http}://{host}{}", bosh::PATH)));
    [(WEBSOCKET, format!("{ws}://{host}/ws"))].into_iter().chain(bosh).collect()
}

/// Returns whether a text can only be a host with a port, since it is written back.
pub(crate) fn is_host(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]_".contains(&byte);
    !text.is_empty() && text.len() <= 260 && text.bytes().all(allowed)
}

/// The relations of XEP-0156 §2.
const WEBSOCKET: &str = "urn:xmpp:alt-connections:websocket";
const BOSH: &str = "urn:xmpp:alt-connections:xbosh";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_host_is_written_back() {
        for good in ["example.org", "example.org:5443", "[::1]:5280", "xn--mnchen-3ya.example"] {
            assert!(is_host(good), "{good}");
        }
        for bad in ["", "a'/><x", "a b", "a/b", "\u{e9}.example"] {
            assert!(!is_host(bad), "{bad}");
        }
    }

    #[test]
    fn xrd_is_xml() {
        let text = xrd(&[(WEBSOCKET, "wss://example.org/ws".into())]);
        assert!(text.contains("href='wss://example.org/ws'/>"), "{text}");
    }
}
