//! Responses, and the headers of all of them that tell browsers how to treat them.

use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

pub use crate::body::Body;

/// Returns a response with a body of some type. Browsers must not guess the type of this server's
/// responses, frame or run them.
pub fn reply(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    reply_bytes(status, content_type, body.into()).map(Body::bytes)
}

/// Returns a response as [`reply`] does, with a body of bytes.
pub fn reply_bytes(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    for (name, value) in PROTECTION {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

/// Returns a response with a line of text.
pub fn text(status: StatusCode, words: &str) -> Response<Body> {
    reply(status, "text/plain; charset=utf-8", format!("{words}\n"))
}

const PROTECTION: [(&str, &str); 3] = [
    ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
];
