//! The moment at which a stream header is worth parsing: the only part that the streams of both
//! sides share before their machines differ.

/// The progress of the search for the end of a header.
///
/// A header is parsed from its start, so parsing it for every byte of a slowly arriving one would
/// take quadratic time. It is parsed when a tag ends in the new bytes, which can happen twice in a
/// header (XML declaration and tag), and while it is so short that the cost doesn't matter, so that
/// a peer with another protocol gets its error at once.
#[derive(Debug, Default)]
pub struct Opening {
    seen: usize,
    quote: Option<u8>,
}

impl Opening {
    /// Returns whether a header that begins `input` may be complete or is short; looks at each byte
    /// once.
    pub fn worthwhile(&mut self, input: &[u8]) -> bool {
        let mut worthwhile = self.seen < SHORT;
        for &byte in input.get(self.seen..).unwrap_or_default() {
            match (byte, self.quote) {
                (b'"' | b'\'', None) => self.quote = Some(byte),
                (_, Some(quote)) if byte == quote => self.quote = None,
                (b'>', None) => worthwhile = true,
                _ => {}
            }
        }
        self.seen = input.len();
        worthwhile
    }
}

/// Input up to this length in bytes is parsed on every call.
const SHORT: usize = 256;
