//! The server's output on a stream, cut into its items, for transports that carry each on its own.

use rookery_xml::header::{self, Header};
use rookery_xml::{Limits, Scan, Scanner, Stanza};

use crate::error::STREAM_END;

/// An item of a stream.
pub(crate) enum SaidItem<'a> {
    /// The header that opens the stream.
    Header(Box<Header>),
    /// A first-level element, as it stands on the stream.
    Element(&'a [u8]),
    /// The closing tag.
    End,
}

/// Gives each item of `stream` to `each`. Input that isn't an item, which the server never writes,
/// ends it.
pub(crate) fn items(stream: &[u8], mut each: impl FnMut(SaidItem<'_>)) {
    let mut rest = stream;
    while !rest.is_empty() {
        let Some(len) = item(rest, &mut each) else { return };
        rest = rest.get(len..).unwrap_or_default();
    }
}

fn item(rest: &[u8], each: &mut impl FnMut(SaidItem<'_>)) -> Option<usize> {
    let limits = Limits { bytes: usize::MAX, ..Limits::AFTER_LOGIN };
    if let Ok(Some((len, header))) = header::parse(rest, &limits) {
        each(SaidItem::Header(Box::new(header)));
        return Some(len);
    }
    if rest.starts_with(STREAM_END) {
        each(SaidItem::End);
        return Some(STREAM_END.len());
    }
    match Scanner::new().scan(rest, &limits) {
        Ok(Scan::Space(len)) => Some(len),
        Ok(Scan::Stanza(len) | Scan::Rare(len)) => {
            each(SaidItem::Element(rest.get(..len)?));
            Some(len)
        }
        _ => None,
    }
}

/// Writes an element of the stream with the namespaces that the stream's header had declared for
/// it.
pub(crate) fn declare(element: &[u8], out: &mut Vec<u8>) {
    let name_end = element.iter().position(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'/' | b'>'));
    let (name, behind) = element.split_at_checked(name_end.unwrap_or_default()).unwrap_or((element, &[]));
    out.extend_from_slice(name);
    if name.starts_with(b"<stream:") {
        out.extend_from_slice(DECLARED);
    } else if !has_namespace(element) {
        out.extend_from_slice(CLIENT);
    }
    out.extend_from_slice(behind);
}

/// Returns whether the root names its namespace.
fn has_namespace(element: &[u8]) -> bool {
    let limits = Limits { bytes: usize::MAX, ..Limits::AFTER_LOGIN };
    Stanza::parse(element, &limits).is_ok_and(|stanza| stanza.head().xmlns.is_some())
}

const DECLARED: &[u8] = b" xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'";
const CLIENT: &[u8] = b" xmlns='jabber:client'";
