//! Cuts the bytes of a stream into its header, its elements and its end.

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
                let canonical = slow::canonical(bytes, ns::CLIENT, &self.prefixes)?;
                // The writer repeats the declarations of the stream's header in the element, which
                // takes more space.
                let limits = Limits { bytes: usize::MAX, ..self.limits };
                (len, Some(StreamItem::Element(Element::read(&Stanza::parse(&canonical, &limits)?))))
            }
        };
        self.scanner.reset();
        Ok(Some(found))
    }
}

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
