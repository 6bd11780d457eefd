//! Messages: a header of 16 bytes, and a payload whose length is a multiple of 8.
//!
//! For a payload of 64 KiB or more, or more elements than 16 bits can count, the header is longer.

use super::{MINOR, command};

/// The head of a message. The meaning of its numbers depends on the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChannelHeader {
    /// The code of the command, which determines the meaning of the other fields.
    pub command: u16,
    /// The type of data, or another number of 16 bits.
    pub data_type: u16,
    /// The number of elements.
    pub count: u32,
    /// The first parameter, such as the server's number of a channel.
    pub first: u32,
    /// The second parameter, such as the client's number of a request.
    pub second: u32,
}

/// A message as it stands in the input, of which it borrows the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelMessage<'a> {
    /// Its head.
    pub header: ChannelHeader,
    /// The payload, with its padding.
    pub payload: &'a [u8],
}

/// A message that is longer than any requested one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Oversized;

impl ChannelHeader {
    /// Appends the message with this head and a payload, filled up with zeros.
    pub fn write(&self, payload: &[u8], out: &mut Vec<u8>) {
        let size = payload.len().next_multiple_of(8);
        match (u16::try_from(size), u16::try_from(self.count)) {
            (Ok(size), Ok(count)) if size != EXTENDED => self.write_head(size, count, out),
            _ => {
                self.write_head(EXTENDED, 0, out);
                out.extend_from_slice(&u32::try_from(size).unwrap_or(u32::MAX).to_be_bytes());
                out.extend_from_slice(&self.count.to_be_bytes());
            }
        }
        out.extend_from_slice(payload);
        out.resize(out.len() + size - payload.len(), 0);
    }

    fn write_head(&self, size: u16, count: u16, out: &mut Vec<u8>) {
        for word in [self.command, size, self.data_type, count] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        for word in [self.first, self.second] {
            out.extend_from_slice(&word.to_be_bytes());
        }
    }
}

/// Parses the next message: returns it with the number of its bytes, or `None` while it is
/// incomplete.
///
/// # Errors
/// [`Oversized`] if its payload has more than `largest` bytes, since the rest can't be parsed then.
pub fn next(bytes: &[u8], largest: usize) -> Result<Option<(ChannelMessage<'_>, usize)>, Oversized> {
    let Some((head, rest)) = bytes.split_first_chunk::<SHORT>() else { return Ok(None) };
    let word = |place: usize| u16::from_be_bytes([head[place], head[place + 1]]);
    let long = |place: usize| u32::from_be_bytes([head[place], head[place + 1], head[place + 2], head[place + 3]]);
    let (mut size, mut count, mut rest, mut length) = (u32::from(word(2)), u32::from(word(6)), rest, SHORT);
    if word(2) == EXTENDED && word(6) == 0 {
        let Some((more, behind)) = rest.split_first_chunk::<8>() else { return Ok(None) };
        let [a, b, c, d, e, f, g, h] = *more;
        (size, count) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
        (rest, length) = (behind, LONG);
    }
    let size = usize::try_from(size).ok().filter(|size| *size <= largest).ok_or(Oversized)?;
    let Some(payload) = rest.get(..size) else { return Ok(None) };
    let header = ChannelHeader { command: word(0), data_type: word(4), count, first: long(8), second: long(12) };
    Ok(Some((ChannelMessage { header, payload }, length + size)))
}

/// Returns the messages of a datagram, up to the first incomplete one.
pub fn messages(mut bytes: &[u8]) -> impl Iterator<Item = ChannelMessage<'_>> {
    std::iter::from_fn(move || {
        let (message, length) = next(bytes, usize::MAX).ok()??;
        bytes = &bytes[length..];
        Some(message)
    })
}

/// Returns the head of the message with the version of the protocol.
pub fn version() -> ChannelHeader {
    ChannelHeader { command: command::VERSION, count: u32::from(MINOR), ..ChannelHeader::default() }
}

/// Returns a text in the form of a payload, with a zero at its end.
pub fn text(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

/// The bytes of a head, and of an extended one.
const SHORT: usize = 16;
const LONG: usize = 24;
/// The size in a head whose true size follows it.
const EXTENDED: u16 = 0xffff;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            command: u16, data_type: u16, count: u32, first: u32, second: u32, size in 0usize..70_000, cut in 0usize..70_000,
        ) {
            let (header, payload) = (ChannelHeader { command, data_type, count, first, second }, vec![7; size]);
            let mut bytes = Vec::new();
            header.write(&payload, &mut bytes);
            let (message, length) = next(&bytes, usize::MAX).expect("small enough").expect("a whole one");
            prop_assert_eq!(message.header, header);
            prop_assert_eq!(&message.payload[..size], &payload);
            prop_assert_eq!(length, bytes.len());
            prop_assert_eq!(next(&bytes[..cut.min(bytes.len() - 1)], usize::MAX), Ok(None));
            let is_large = size.next_multiple_of(8) > 64;
            prop_assert_eq!(next(&bytes, 64).is_err(), is_large);
        }

        #[test]
        fn any_bytes_are_parsed_or_refused(bytes: Vec<u8>) {
            let length: usize = messages(&bytes).map(|message| SHORT + message.payload.len()).sum();
            prop_assert!(length <= bytes.len());
        }
    }
}
