//! The client's end of a WebSocket (RFC 6455), after its opening handshake.

use rookery_xml::header::Header;
use rookery_xml::{Element, Limits, Scan, Scanner, escape_attr, ns};

use crate::pattern;
use crate::wire::Item;

/// Returns a client's frame, which is masked.
pub fn frame(is_final: bool, opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![u8::from(is_final) << 7 | opcode];
    match payload.len() {
        len @ ..126 => frame.push(0x80 | len as u8),
        len @ ..0x1_0000 => {
            frame.push(0x80 | 126);
            frame.extend_from_slice(&(len as u16).to_be_bytes());
        }
        len => {
            frame.push(0x80 | 127);
            frame.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(&MASK);
    frame.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// Reads a frame of the server: its length, opcode and payload; `None` if it is incomplete.
///
/// # Panics
/// If a server must not send it: it is masked, fragmented, or has bits that no extension defines.
pub fn read_frame(input: &[u8]) -> Option<(usize, u8, Vec<u8>)> {
    let (&first, &second) = (input.first()?, input.get(1)?);
    assert_eq!(first & 0xf0, 0x80, "a whole message without extensions was expected: {first:#x}");
    assert_eq!(second & 0x80, 0, "a server does not mask");
    let (head, len) = match second {
        126 => (4, usize::from(u16::from_be_bytes(*input.get(2..)?.first_chunk()?))),
        127 => (10, u64::from_be_bytes(*input.get(2..)?.first_chunk()?) as usize),
        len => (2, usize::from(len)),
    };
    let payload = input.get(head..head + len)?.to_vec();
    Some((head + len, first & 0x0f, payload))
}

/// Returns the item that a message contains.
///
/// # Panics
/// If it isn't an XML document that could stand alone (RFC 7395 §3.3.3).
pub fn item(message: &[u8]) -> Item {
    let text = String::from_utf8_lossy(message);
    let limits = Limits { bytes: usize::MAX, ..Limits::AFTER_LOGIN };
    let mut scanner = Scanner::new();
    let element = match scanner.scan(message, &limits) {
        Ok(Scan::Stanza(len)) if len == message.len() => Element::read(&scanner.stanza(message)),
        Ok(Scan::Rare(len)) if len == message.len() => pattern::element_of_stream(message),
        other => panic!("one element was expected, not {other:?}: {text}"),
    };
    let head = text.split('>').next().unwrap_or_default();
    assert!(head.contains(" xmlns=") || head.contains(" xmlns:stream="), "it relies on a stream: {text}");
    match (element.ns(), element.name()) {
        (ns::FRAMING, "open") => Item::Header(Header {
            from: element.attr("from").map(str::to_owned),
            to: element.attr("to").map(str::to_owned),
            id: element.attr("id").map(str::to_owned),
            version: element.attr("version").map(str::to_owned),
            lang: element.attr("xml:lang").map(str::to_owned),
            ..Header::default()
        }),
        (ns::FRAMING, "close") => Item::End,
        _ => Item::Element(element),
    }
}

/// Returns the message that opens a stream.
pub fn open(domain: &str) -> String {
    format!("<open xmlns='{}' to='{}' version='1.0'/>", ns::FRAMING, escape_attr(domain))
}

/// The message that ends a stream.
pub const CLOSE_STREAM: &str = "<close xmlns='urn:ietf:params:xml:ns:xmpp-framing'/>";
/// A frame that continues a message.
pub const CONTINUATION: u8 = 0x0;
/// A message of text, or its beginning.
pub const TEXT: u8 = 0x1;
/// A message of bytes.
pub const BINARY: u8 = 0x2;
/// The closing handshake.
pub const CLOSE: u8 = 0x8;
/// A frame that must be answered.
pub const PING: u8 = 0x9;
/// The answer to a ping.
pub const PONG: u8 = 0xa;

const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
