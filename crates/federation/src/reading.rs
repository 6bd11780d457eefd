//! The items of a stream of either direction: its header, first-level elements, its end.

use rookery_stream::error::StreamError;
use rookery_stream::opening::Opening;
use rookery_xml::header::{self, Header};
use rookery_xml::{Fault, Limits, Scan, Scanner, Stanza, escape_attr, ns, slow};

/// The position up to which a stream has been read.
#[derive(Debug)]
pub(crate) struct ReadingPlace {
    /// The content namespace of the stream.
    namespace: &'static str,
    /// `Some` until its header is read.
    opening: Option<Opening>,
    /// The peer's prefix for the streams namespace.
    prefix: String,
    /// The other prefixes that its header declares.
    prefixes: Vec<(String, String)>,
}

/// The next item.
pub(crate) enum ReadItem<'a> {
    /// None until more bytes arrive.
    More,
    /// Bytes without meaning.
    Skip(usize),
    /// The header of the stream.
    Header(usize, Box<Header>),
    /// A first-level element.
    Element(usize, Stanza<'a>),
    /// An element that relied on prefixes of the header, rewritten so that it doesn't.
    Rewritten(usize, Vec<u8>),
    /// The end of the stream.
    Close(usize),
}

impl Default for ReadingPlace {
    fn default() -> Self {
        Self::of(ns::SERVER)
    }
}

impl ReadingPlace {
    /// Begins a stream of this content namespace.
    pub(crate) fn of(namespace: &'static str) -> Self {
        Self { namespace, opening: Some(Opening::default()), prefix: String::new(), prefixes: Vec::new() }
    }

    /// Returns the first item of `input`. The scanner is reset after a whole element. Before a peer
    /// has proven anything, its elements may have only a few tags: those with a prefix from the
    /// header, such as dialback's, are rewritten, which takes many times their size.
    pub(crate) fn next<'a>(
        &mut self,
        input: &'a [u8],
        scanner: &mut Scanner,
        limits: &Limits,
        is_proven: bool,
    ) -> Result<ReadItem<'a>, Fault> {
        if input.is_empty() {
            return Ok(ReadItem::More);
        }
        match &mut self.opening {
            Some(opening) => Self::header(opening, input, limits),
            None => self.element(input, scanner, limits, if is_proven { usize::MAX } else { MOST_TAGS }),
        }
    }

    /// Notes that the header was read: elements follow.
    pub(crate) fn open(&mut self, header: &mut Header) {
        self.opening = None;
        self.prefix = header.prefix.take().unwrap_or_default();
        self.prefixes = std::mem::take(&mut header.prefixes);
        self.prefixes.shrink_to_fit();
    }

    /// Returns whether the header has declared a prefix for this namespace.
    pub(crate) fn declares(&self, namespace: &str) -> bool {
        self.prefixes.iter().any(|(_, declared)| declared == namespace)
    }

    fn header<'a>(opening: &mut Opening, input: &'a [u8], limits: &Limits) -> Result<ReadItem<'a>, Fault> {
        let space = input.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')).count();
        if space > 0 {
            return Ok(ReadItem::Skip(space));
        }
        if !opening.worthwhile(input) && input.len() <= limits.bytes {
            return Ok(ReadItem::More);
        }
        Ok(header::parse(input, limits)?
            .map_or(ReadItem::More, |(len, header)| ReadItem::Header(len, Box::new(header))))
    }

    fn element<'a>(
        &self,
        input: &'a [u8],
        scanner: &mut Scanner,
        limits: &Limits,
        most_tags: usize,
    ) -> Result<ReadItem<'a>, Fault> {
        if self.opens_again(input) {
            return Err(Fault::BadFormat);
        }
        let item = match scanner.scan(input, limits)? {
            Scan::Partial => return Ok(ReadItem::More),
            Scan::Space(len) => ReadItem::Skip(len),
            Scan::Close(len) => ReadItem::Close(len),
            Scan::Stanza(len) => ReadItem::Element(len, scanner.stanza(input)),
            Scan::Rare(len) => {
                let tags = input.iter().take(len).filter(|byte| **byte == b'<').count();
                if tags > most_tags {
                    return Err(Fault::TooBig);
                }
                let mut prefixes = self.prefixes.clone();
                if !self.prefix.is_empty() {
                    prefixes.push((self.prefix.clone(), ns::STREAMS.to_owned()));
                }
                let written = input.get(..len).unwrap_or_default();
                ReadItem::Rewritten(len, slow::canonical(written, self.namespace, &prefixes)?)
            }
        };
        scanner.reset();
        Ok(item)
    }

    /// Returns whether a second header has begun, which to the scanner would be an element that
    /// never ends (RFC 6120 §4.9.3.1).
    fn opens_again(&self, input: &[u8]) -> bool {
        let name = input.strip_prefix(b"<").and_then(|rest| rest.strip_prefix(self.prefix.as_bytes()));
        let behind = name.and_then(|rest| rest.strip_prefix(b":stream"));
        behind.and_then(<[u8]>::first).is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'>' | b'/'))
    }
}

/// Checks the part of a header that doesn't depend on addresses: the content namespace (RFC 6120
/// §4.8.2).
pub(crate) fn judge(header: &Header) -> Result<(), (StreamError, &'static str)> {
    if header.default_ns == ns::SERVER {
        Ok(())
    } else {
        Err((StreamError::InvalidNamespace, "The content namespace has to be jabber:server."))
    }
}

/// Returns whether the peer supports stream features: its version is 1.0 or later (RFC 6120
/// §4.7.5).
pub(crate) fn has_features(header: &Header) -> bool {
    let version = header.version.as_deref().unwrap_or_default();
    version.split_once('.').is_some_and(|(major, _)| major.parse().is_ok_and(|major: u32| major >= 1))
}

/// Appends a header of ours. The prefix of dialback is always declared: some servers take it as the
/// announcement of dialback, and others need it to ask us to verify a key.
pub(crate) fn write_header(from: Option<&str>, to: Option<&str>, id: Option<&str>, versioned: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(b"<?xml version='1.0'?><stream:stream xmlns='jabber:server'");
    let attributes = [
        ("xmlns:stream", Some(ns::STREAMS)),
        ("xmlns:db", Some(ns::DIALBACK)),
        ("id", id),
        ("from", from),
        ("to", to),
        ("version", versioned.then_some("1.0")),
    ];
    for (name, value) in attributes {
        if let Some(value) = value {
            out.extend_from_slice(format!(" {name}='{}'", escape_attr(value)).as_bytes());
        }
    }
    out.push(b'>');
}

/// The most tags of an element before anything is proven: features have a dozen.
const MOST_TAGS: usize = 128;
/// The end of a stream of ours.
pub(crate) const STREAM_END: &[u8] = b"</stream:stream>";
