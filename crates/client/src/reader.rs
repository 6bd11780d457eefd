//! Cuts the bytes of a stream into its header, its elements and its end.

use std::cell::RefCell;
use std::collections::VecDeque;

use rookery_xml::header::{self, Header};
use rookery_xml::{Element, Fault, Limits, Scan, Scanner, Stanza, ns, slow};

/// An item that a server sends on a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamItem {
    /// The server's stream header, at the beginning and after each restart (RFC 6120 §4.3.3).
    Header(Header),
    /// A first-level element.
    Element(Element),
    /// The closing tag `</stream:stream>`, after which the server sends nothing more (RFC 6120
    /// §4.4).
    End,
}

/// The state of reading a stream. The bytes stay with the caller.
#[derive(Debug)]
pub struct StreamReader {
    limits: Limits,
    scanner: Scanner,
    /// True if the header of the current stream has been read.
    in_stream: bool,
    /// The prefixes that the header declares, which elements may use (RFC 6120 §4.8.5).
    prefixes: Vec<(String, String)>,
}

impl StreamReader {
    /// Returns a reader that expects a stream's header. `limits` hold for the header and for each
    /// element.
    pub fn new(limits: Limits) -> Self {
        Self { limits, scanner: Scanner::new(), in_stream: false, prefixes: Vec::new() }
    }

    /// Expects a header next: after TLS, and after a login (RFC 6120 §4.3.3).
    pub fn restart(&mut self) {
        self.in_stream = false;
        self.scanner.reset();
    }

    /// Returns the length of the item at the start of `input`, and the item; there is no item for
    /// whitespace. Returns `None` if the item is incomplete: call again with the same bytes and
    /// more.
    ///
    /// # Errors
    /// The fault of the stream, after which reading can't continue.
    pub fn next(&mut self, input: &[u8]) -> Result<Option<(usize, Option<StreamItem>)>, Fault> {
        if !self.in_stream {
            let Some((len, header)) = header::parse(input, &self.limits)? else { return Ok(None) };
            self.in_stream = true;
            self.prefixes.clone_from(&header.prefixes);
            let own = header.prefix.clone().map(|prefix| (prefix, ns::STREAMS.to_owned()));
            self.prefixes.extend(own);
            return Ok(Some((len, Some(StreamItem::Header(header)))));
        }
        let found = match self.scanner.scan(input, &self.limits)? {
            Scan::Partial => return Ok(None),
            Scan::Space(len) => (len, None),
            Scan::Close(len) => (len, Some(StreamItem::End)),
            Scan::Stanza(len) => (len, Some(StreamItem::Element(Element::read(&self.scanner.stanza(input))))),
            Scan::Rare(len) => {
                let bytes = input.get(..len).unwrap_or_default();
                (len, Some(StreamItem::Element(self.rare(bytes)?)))
            }
        };
        self.scanner.reset();
        Ok(Some(found))
    }

    /// Reads an element that uses prefixes of the header, or other parts of XML that are rare.
    fn rare(&self, bytes: &[u8]) -> Result<Element, Fault> {
        if let Some(known) = find_known(bytes, &self.prefixes, &self.limits) {
            return Ok(known);
        }
        let canonical = slow::canonical(bytes, ns::CLIENT, &self.prefixes)?;
        // The writer repeats the declarations of the stream's header in the element, which takes
        // more space.
        let limits = Limits { bytes: usize::MAX, ..self.limits };
        let element = Element::read(&Stanza::parse(&canonical, &limits)?);
        if element.is("features", ns::STREAMS) && bytes.len() <= MOST_KNOWN_BYTES {
            KNOWN.with_borrow_mut(|all| {
                all.truncate(MOST_KNOWN - 1);
                let (bytes, prefixes) = (bytes.to_vec(), self.prefixes.clone());
                all.push_front(KnownElement { bytes, prefixes, limits: self.limits, element: element.clone() });
            });
        }
        Ok(element)
    }
}

/// Features of a stream that were read before.
struct KnownElement {
    bytes: Vec<u8>,
    prefixes: Vec<(String, String)>,
    limits: Limits,
    element: Element,
}

thread_local! {
    /// The last features that this thread has read. A server offers the same to all clients, and
    /// reading them took a twelfth of the time of those that log in a lot.
    static KNOWN: RefCell<VecDeque<KnownElement>> = const { RefCell::new(VecDeque::new()) };
}

/// Returns features if they were read before, after a header with the same declarations.
fn find_known(bytes: &[u8], prefixes: &[(String, String)], limits: &Limits) -> Option<Element> {
    let is_it = |known: &&KnownElement| known.bytes == bytes && known.prefixes == prefixes && known.limits == *limits;
    KNOWN.with_borrow(|all| all.iter().find(is_it).map(|known| known.element.clone()))
}

/// The number of features that a thread remembers, and the most bytes of each.
const MOST_KNOWN: usize = 16;
const MOST_KNOWN_BYTES: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = "<?xml version='1.0'?><stream:stream id='1' from='a.example' version='1.0' xmlns='jabber:client' \
                          xmlns:stream='http://etherx.jabber.org/streams'><stream:features><a xmlns='urn:a'/></stream:features> \
                          <message><body>Hi</body></message></stream:stream>";

    /// Returns the names of the items that are read from a stream in these pieces.
    fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
        let (mut reader, mut input, mut found) = (StreamReader::new(Limits::AFTER_LOGIN), Vec::new(), Vec::new());
        for piece in pieces {
            input.extend_from_slice(piece);
            while let Some((len, item)) = reader.next(&input).unwrap() {
                input.drain(..len);
                found.extend(item.map(|item| match item {
                    StreamItem::Header(header) => format!("header {}", header.id.unwrap_or_default()),
                    StreamItem::Element(element) => format!("{} {}", element.name(), element.ns()),
                    StreamItem::End => "end".to_owned(),
                }));
            }
        }
        assert!(input.is_empty());
        found
    }

    #[test]
    fn however_bytes_are_cut_the_same_is_read() {
        let wanted = ["header 1", "features http://etherx.jabber.org/streams", "message jabber:client", "end"]
            .map(str::to_owned);
        assert_eq!(read(std::iter::once(STREAM.as_bytes())), wanted);
        assert_eq!(read(STREAM.as_bytes().chunks(1)), wanted);
        for at in 0..STREAM.len() {
            let (one, other) = STREAM.as_bytes().split_at(at);
            assert_eq!(read([one, other].into_iter()), wanted, "cut at {at}");
        }
    }

    #[test]
    fn a_stream_that_restarts_has_another_header() {
        let mut reader = StreamReader::new(Limits::AFTER_LOGIN);
        let header = reader.next(STREAM.as_bytes()).unwrap();
        assert!(matches!(header, Some((_, Some(StreamItem::Header(_))))));
        reader.restart();
        let header = reader.next(STREAM.as_bytes()).unwrap();
        assert!(matches!(header, Some((_, Some(StreamItem::Header(_))))));
    }

    #[test]
    fn what_is_no_xml_is_a_fault() {
        let mut reader = StreamReader::new(Limits::AFTER_LOGIN);
        assert!(reader.next(b"HTTP/1.1 400 Bad Request\r\n").is_err());
    }
}
