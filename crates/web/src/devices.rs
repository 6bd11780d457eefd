//! The page that shows the devices that are read, the readers and the delays, with a plot of any
//! device: `/devices`.
//!
//! # Invariants
//!
//! * The page has no secrets and no rights: its data comes from the API, with the token that the
//!   reader enters. The token stays in the tab.
//! * It is served over encrypted connections only, since a token is entered there.
//! * It loads nothing from other hosts, has nothing inline, and can't be framed.

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderValue, LOCATION};
use hyper::{Method, Request, Response, StatusCode};

use crate::WebShared;
use crate::address::Safety;
use crate::proxy::Origin;
use crate::reply::{Body, reply, text};

/// Returns whether the page, or a file of it, has this path.
pub fn is_path(path: &str) -> bool {
    matches!(path, PAGE | STYLE | SCRIPT)
}

/// Replies to a request for the page or a file of it.
pub fn answer(request: &Request<Incoming>, origin: Origin, shared: &Arc<WebShared>) -> Response<Body> {
    if shared.readings.is_none() {
        return text(StatusCode::NOT_FOUND, "no readings are served: see [dpm] in the configuration");
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "this can only be read");
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    match shared.safety(request, origin) {
        Safety::Safe => {}
        Safety::Elsewhere(address) => {
            let mut led = text(StatusCode::TEMPORARY_REDIRECT, "this page is encrypted");
            if let Ok(address) = HeaderValue::from_str(&address) {
                led.headers_mut().insert(LOCATION, address);
            }
            return led;
        }
        Safety::Unsafe => return text(StatusCode::FORBIDDEN, "this page is for encrypted connections"),
    }
    let mut answer = match request.uri().path() {
        STYLE => reply(StatusCode::OK, "text/css; charset=utf-8", STYLE_TEXT),
        SCRIPT => reply(StatusCode::OK, "text/javascript; charset=utf-8", SCRIPT_TEXT),
        _ => reply(StatusCode::OK, "text/html; charset=utf-8", PAGE_TEXT),
    };
    let headers = answer.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    answer
}

const PAGE: &str = "/devices";
const STYLE: &str = "/devices/style.css";
const SCRIPT: &str = "/devices/script.js";
const PAGE_TEXT: &str = include_str!("devices/page.html");
const STYLE_TEXT: &str =
    concat!(include_str!("palette.css"), include_str!("admin/style.css"), include_str!("devices/style.css"));
const SCRIPT_TEXT: &str = include_str!("devices/script.js");
/// Allows scripts, styles and requests of this server only, and nothing inline.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
                      form-action 'none'; base-uri 'none'; frame-ancestors 'none'";

#[cfg(test)]
mod tests {
    use super::{PAGE_TEXT, POLICY};

    #[test]
    fn the_page_has_nothing_inline() {
        assert!(!POLICY.contains("unsafe"));
        assert!(!PAGE_TEXT.contains("style=") && !PAGE_TEXT.contains(" on"), "a style or handler");
        assert_eq!(PAGE_TEXT.matches("<script").count(), PAGE_TEXT.matches("<script src=").count());
    }
}
