//! The protocol elements that every client sends, as text.

use base64::{Engine, engine::general_purpose::STANDARD};
use rookery_base::hex;
use rookery_sasl::Mechanism;
use rookery_xml::{Writer, escape_attr, ns};
use sha1::{Digest, Sha1};

/// The end of a stream (RFC 6120 §4.4).
pub const END: &str = "</stream:stream>";

/// Returns a client's stream header (RFC 6120 §4.2).
pub fn stream_header(domain: &str) -> String {
    header(domain, " version='1.0'", ns::CLIENT)
}

/// Returns a component's stream header (XEP-0114 §3).
pub fn component_header(name: &str) -> String {
    header(name, "", ns::COMPONENT_ACCEPT)
}

fn header(to: &str, version: &str, content: &str) -> String {
    let (to, streams) = (escape_attr(to), ns::STREAMS);
    format!("<?xml version='1.0'?><stream:stream to='{to}'{version} xmlns='{content}' xmlns:stream='{streams}'>")
}

/// Returns the digest by which a component proves that it knows its secret on a stream with this
/// id (XEP-0114 §3).
pub fn handshake(id: &str, secret: &str) -> String {
    hex::encode(Sha1::digest(format!("{id}{secret}")))
}

/// Returns a SASL element with this data (RFC 6120 §6.4).
pub fn sasl(name: &str, mechanism: Option<Mechanism>, data: &[u8]) -> String {
    let mut element = Writer::with_ns(name, ns::SASL);
    element.opt_attr("mechanism", mechanism.map(Mechanism::name)).text(&STANDARD.encode(data));
    text(element)
}

/// Returns a request to bind a resource, with the id `bind` (RFC 6120 §7.6). The server chooses the
/// resource if there is no name for it.
pub fn bind_request(resource: Option<&str>) -> String {
    let mut iq = Writer::new("iq");
    iq.attr("type", "set").attr("id", "bind").start_ns("bind", ns::BIND);
    if let Some(resource) = resource {
        iq.start("resource").text(resource).end();
    }
    iq.end();
    text(iq)
}

/// Returns the session request that servers of RFC 3921 §3 require, with the id `session`.
pub fn session_request() -> String {
    let mut iq = Writer::new("iq");
    iq.attr("type", "set").attr("id", "session").start_ns("session", ns::SESSION).end();
    text(iq)
}

/// Returns a request to create an account, with the id `register` (XEP-0077 §3.1).
pub fn register_request(username: &str, password: &str) -> String {
    let mut iq = Writer::new("iq");
    iq.attr("type", "set").attr("id", "register").start_ns("query", ns::REGISTER);
    iq.text_child("username", username).text_child("password", password).end();
    text(iq)
}

/// Returns a message with a body.
pub fn message(to: &str, kind: &str, body: &str) -> String {
    let mut message = Writer::new("message");
    message.attr("to", to).attr("type", kind).text_child("body", body);
    text(message)
}

fn text(writer: Writer) -> String {
    // The writer writes UTF-8.
    String::from_utf8(writer.finish().into_bytes()).unwrap_or_default()
}
