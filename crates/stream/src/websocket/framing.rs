//! Translates between a stream and the messages that carry it over WebSocket (RFC 7395 §3.3).
//!
//! Every message is an XML document of its own: a stanza declares the namespace `jabber:client`,
//! `<stream:features/>` declares its prefix, and the tags of the stream, which aren't documents,
//! become `<open/>` and `<close/>`.

use rookery_xml::header::Header;
use rookery_xml::{Element, Fault, Limits, Scan, Scanner, Stanza, Writer, escape_attr, ns, slow};

use crate::items::{SaidItem, declare, items};

/// The meaning of a client's message.
#[derive(Debug, PartialEq, Eq)]
pub enum Framed {
    /// `<open/>`, as the header of a stream.
    Open(Vec<u8>),
    /// `<close/>`, with which the client ends the stream (RFC 7395 §3.6).
    Close,
    /// Any other element, as it came.
    Element,
    /// White space, which some clients send to keep the connection.
    Nothing,
}

/// Reads a message before a resource is bound: one whole element, with nothing but white space
/// around it.
///
/// # Errors
/// The fault of a message that isn't one element.
pub fn read(message: &[u8], limits: &Limits) -> Result<Framed, Fault> {
    let message = message.trim_ascii();
    if message.is_empty() {
        return Ok(Framed::Nothing);
    }
    let mut scanner = Scanner::new();
    let element = match scanner.scan(message, limits)? {
        Scan::Stanza(len) if len == message.len() => Element::read(&scanner.stanza(message)),
        Scan::Rare(len) if len == message.len() => {
            let canonical = slow::canonical(message, ns::CLIENT, &[])?;
            Element::read(&Stanza::parse(&canonical, limits)?)
        }
        _ => return Err(Fault::NotWellFormed),
    };
    Ok(match (element.ns(), element.name()) {
        (ns::FRAMING, "open") => Framed::Open(stream_header(&element)),
        (ns::FRAMING, "close") => Framed::Close,
        _ => Framed::Element,
    })
}

/// Reads a stanza of the scanner as `<open/>` or `<close/>`; `None` if it is neither.
pub fn of_stanza(stanza: &Stanza<'_>) -> Option<Framed> {
    match stanza.name() {
        "open" | "close" if stanza.ns() == ns::FRAMING => {}
        _ => return None,
    }
    let element = Element::read(stanza);
    Some(if element.name() == "close" { Framed::Close } else { Framed::Open(stream_header(&element)) })
}

/// Cuts the server's output on a stream into messages, and gives each to `each`.
pub fn write(stream: &[u8], mut each: impl FnMut(&[u8])) {
    let mut message = Vec::new();
    items(stream, |item| {
        message.clear();
        match item {
            SaidItem::Header(header) => message.extend_from_slice(open(&header).finish().bytes()),
            SaidItem::Element(element) => declare(element, &mut message),
            SaidItem::End => message.extend_from_slice(Writer::with_ns("close", ns::FRAMING).finish().bytes()),
        }
        each(&message);
    });
}

/// Writes `<open/>` for the server's header (§3.4).
fn open(header: &Header) -> Writer {
    let mut open = Writer::with_ns("open", ns::FRAMING);
    open.opt_attr("from", header.from.as_deref())
        .opt_attr("to", header.to.as_deref())
        .opt_attr("id", header.id.as_deref())
        .opt_attr("version", header.version.as_deref())
        .opt_attr("xml:lang", header.lang.as_deref());
    open
}

/// Returns the header that `<open/>` stands for.
fn stream_header(open: &Element) -> Vec<u8> {
    let mut header = format!("<stream:stream xmlns='{}' xmlns:stream='{}'", ns::CLIENT, ns::STREAMS);
    for name in ["to", "from", "version", "xml:lang"] {
        if let Some(value) = open.attr(name) {
            header.push_str(&format!(" {name}='{}'", escape_attr(value)));
        }
    }
    header.push('>');
    header.into_bytes()
}
