//! Messages on a connection, and the segments of long ones.
//!
//! A message that is too long to be kept, whether in one piece or in segments, is skipped: only its
//! beginning is reported, from which its channel is found. A message that doesn't end is refused,
//! however small its segments are.

use std::borrow::Cow;

use super::bytes::{ByteOrder, PvaInput, PvaOutput};
use super::{LARGEST, LARGEST_OF_CLIENT, LONGEST_SKIPPED, PvaFault, command};

/// The next message on a connection, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PvaFrame<'a> {
    /// A control message.
    Control {
        /// Its number.
        command: u8,
        /// The byte order of its sender.
        order: ByteOrder,
        /// Its value.
        value: u32,
    },
    /// A message.
    Message {
        /// Its command.
        command: u8,
        /// The byte order of its payload.
        order: ByteOrder,
        /// Its payload; that of a segmented message is joined.
        payload: Cow<'a, [u8]>,
    },
    /// The beginning of a message that is too long to be kept.
    Overlong {
        /// Its command.
        command: u8,
        /// The first number of its payload.
        number: u32,
    },
    /// A part of a message that is incomplete so far, or that is skipped.
    Part,
}

/// The side of a connection whose messages are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum PvaSender {
    #[default]
    Server,
    Client,
}

/// The messages of a connection's other side.
#[derive(Debug, Default)]
pub struct PvaFrames {
    sender: PvaSender,
    /// The number of bytes that are still to be skipped.
    skipped: usize,
    segments: Option<PvaSegments>,
}

/// A segmented message that has not ended.
#[derive(Debug)]
struct PvaSegments {
    command: u8,
    order: ByteOrder,
    bytes: Vec<u8>,
    /// All bytes so far; a segment counts for [`LEAST`] bytes at least.
    seen: usize,
    is_skipped: bool,
}

/// The head of a message.
#[derive(Debug, Clone, Copy)]
struct PvaHead {
    flags: u8,
    command: u8,
    order: ByteOrder,
    size: u32,
}

impl PvaHead {
    /// Reads a head.
    fn read(bytes: [u8; HEAD], sender: PvaSender) -> Result<Self, PvaFault> {
        let [magic, version, flags, command, ..] = bytes;
        if magic != MAGIC || version == 0 {
            return Err(PvaFault("it does not speak pvAccess"));
        }
        match (sender, flags & OF_SERVER) {
            (PvaSender::Server, 0) => return Err(PvaFault("it sends messages of clients")),
            (PvaSender::Client, OF_SERVER) => return Err(PvaFault("it sends messages of servers")),
            _ => {}
        }
        let order = if flags & BIG == 0 { ByteOrder::Little } else { ByteOrder::Big };
        let size = PvaInput::new(&bytes[4..], order).long()?;
        Ok(Self { flags, command, order, size })
    }
}

impl PvaSender {
    /// Returns the longest message that is kept, in bytes.
    const fn largest(self) -> usize {
        match self {
            Self::Server => LARGEST,
            Self::Client => LARGEST_OF_CLIENT,
        }
    }
}

impl PvaFrames {
    /// Returns the messages of a client.
    pub fn of_client() -> Self {
        Self { sender: PvaSender::Client, ..Self::default() }
    }

    /// Takes the next message, or a part of one, out of these bytes: returns it with the number of
    /// its bytes, or `None` while more bytes are needed.
    ///
    /// # Errors
    /// The reason why the connection can't be read any further.
    pub fn next<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<(PvaFrame<'a>, usize)>, PvaFault> {
        if self.skipped > 0 && !bytes.is_empty() {
            let many = self.skipped.min(bytes.len());
            self.skipped -= many;
            return Ok(Some((PvaFrame::Part, many)));
        }
        let Some((head, rest)) = bytes.split_first_chunk::<HEAD>() else { return Ok(None) };
        let head = PvaHead::read(*head, self.sender)?;
        let PvaHead { flags, command, order, size } = head;
        if flags & CONTROL != 0 {
            return Ok(Some((PvaFrame::Control { command, order, value: size }, HEAD)));
        }
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let is_later = flags & LAST != 0;
        let is_expected = match &self.segments {
            Some(open) => is_later && open.command == command && open.order == order,
            None => !is_later,
        };
        if !is_expected {
            return Err(PvaFault("it mixes the segments of its messages"));
        }
        match flags & MIDDLE {
            0 => Self::whole(head, size, rest, self.sender, &mut self.skipped),
            _ => self.segment(head, size, rest),
        }
    }

    /// Takes a message in one piece.
    fn whole<'a>(
        head: PvaHead,
        size: usize,
        rest: &'a [u8],
        sender: PvaSender,
        skipped: &mut usize,
    ) -> Result<Option<(PvaFrame<'a>, usize)>, PvaFault> {
        let PvaHead { command, order, .. } = head;
        if size <= sender.largest() {
            let Some(payload) = rest.get(..size) else { return Ok(None) };
            return Ok(Some((PvaFrame::Message { command, order, payload: payload.into() }, HEAD + size)));
        }
        let Ok(number) = PvaInput::new(rest, order).long() else { return may_be_skipped(size).map(|()| None) };
        may_be_skipped(size)?;
        *skipped = size;
        Ok(Some((PvaFrame::Overlong { command, number }, HEAD)))
    }

    /// Takes a segment of a message.
    fn segment<'a>(
        &mut self,
        head: PvaHead,
        size: usize,
        rest: &'a [u8],
    ) -> Result<Option<(PvaFrame<'a>, usize)>, PvaFault> {
        let PvaHead { command, order, flags, .. } = head;
        let kept = self.segments.as_ref().map_or(0, |open| open.bytes.len());
        let was_skipped = self.segments.as_ref().is_some_and(|open| open.is_skipped);
        let is_kept = !was_skipped && size <= self.sender.largest() - kept;
        if is_kept && rest.len() < size {
            return Ok(None);
        }
        let begun = self.segments.as_ref().map_or(&[][..], |open| &open.bytes);
        let beginning: Vec<u8> = begun.iter().chain(rest).take(4).copied().collect();
        if !is_kept && !was_skipped && beginning.len() < 4 && size >= 4 {
            return may_be_skipped(size).map(|()| None);
        }
        let open = self.segments.get_or_insert_with(|| PvaSegments {
            command,
            order,
            bytes: Vec::new(),
            seen: 0,
            is_skipped: false,
        });
        open.seen = open.seen.saturating_add(size.max(LEAST));
        may_be_skipped(open.seen)?;
        if is_kept {
            open.bytes.extend_from_slice(&rest[..size]);
        } else {
            (open.bytes, open.is_skipped) = (Vec::new(), true);
            self.skipped = size;
        }
        let length = if is_kept { HEAD + size } else { HEAD };
        let frame = match self.segments.take_if(|_| flags & MIDDLE == LAST) {
            _ if !is_kept && !was_skipped => {
                let number = PvaInput::new(&beginning, order).long()?;
                PvaFrame::Overlong { command, number }
            }
            Some(ended) if is_kept => PvaFrame::Message { command, order, payload: ended.bytes.into() },
            _ => PvaFrame::Part,
        };
        Ok(Some((frame, length)))
    }
}

/// Appends a client's message to what is sent.
pub fn write(command: u8, payload: &PvaOutput, out: &mut Vec<u8>) {
    let order = payload.order();
    head(command, order, 0, u32::try_from(payload.bytes.len()).unwrap_or(u32::MAX), out);
    out.extend_from_slice(&payload.bytes);
}

/// Appends a server's message to what is sent.
pub fn write_of_server(command: u8, payload: &PvaOutput, out: &mut Vec<u8>) {
    let size = u32::try_from(payload.bytes.len()).unwrap_or(u32::MAX);
    head(command, payload.order(), OF_SERVER, size, out);
    out.extend_from_slice(&payload.bytes);
}

/// Appends a server's control message to what is sent.
pub fn write_control_of_server(command: u8, value: u32, order: ByteOrder, out: &mut Vec<u8>) {
    head(command, order, CONTROL | OF_SERVER, value, out);
}

/// Appends a client's control message to what is sent.
pub fn write_control(command: u8, value: u32, order: ByteOrder, out: &mut Vec<u8>) {
    head(command, order, CONTROL, value, out);
}

fn head(command: u8, order: ByteOrder, flags: u8, size: u32, out: &mut Vec<u8>) {
    let of_order = if order == ByteOrder::Big { BIG } else { 0 };
    let mut head = PvaOutput::new(order);
    for byte in [MAGIC, VERSION, flags | of_order, command] {
        head.byte(byte);
    }
    head.long(size);
    out.extend_from_slice(&head.bytes);
}

/// Returns the payloads of the answers to searches in a datagram, up to the first that can't be
/// read.
pub fn search_responses(bytes: &[u8]) -> impl Iterator<Item = PvaInput<'_>> {
    payloads(bytes, PvaSender::Server, command::SEARCH_RESPONSE)
}

/// Returns the payloads of the searches in a datagram, up to the first that can't be read.
pub fn searches(bytes: &[u8]) -> impl Iterator<Item = PvaInput<'_>> {
    payloads(bytes, PvaSender::Client, command::SEARCH)
}

fn payloads(mut bytes: &[u8], sender: PvaSender, wanted: u8) -> impl Iterator<Item = PvaInput<'_>> {
    std::iter::from_fn(move || {
        loop {
            let (head, rest) = bytes.split_first_chunk::<HEAD>()?;
            let PvaHead { command, order, size, flags } = PvaHead::read(*head, sender).ok()?;
            // Only the head of a control message counts; its size is a value.
            let size = if flags & CONTROL == 0 { usize::try_from(size).ok()? } else { 0 };
            let (payload, rest) = rest.split_at_checked(size)?;
            bytes = rest;
            if command == wanted && flags & (CONTROL | MIDDLE) == 0 {
                return Some(PvaInput::new(payload, order));
            }
        }
    })
}

/// Checks that a message of this many bytes may be skipped.
fn may_be_skipped(size: usize) -> Result<(), PvaFault> {
    if size > LONGEST_SKIPPED { Err(PvaFault("its message does not end")) } else { Ok(()) }
}

/// The bytes of a head.
const HEAD: usize = 8;
/// The bytes for which a segment counts at least, so that small ones end, too.
const LEAST: usize = 1024;
/// The first byte of each message, and the version of the protocol.
const MAGIC: u8 = 0xca;
const VERSION: u8 = 2;
/// Flags: a control message, the segment's place, the sender, and the byte order.
const CONTROL: u8 = 0x01;
const LAST: u8 = 0x20;
const MIDDLE: u8 = 0x30;
const OF_SERVER: u8 = 0x40;
const BIG: u8 = 0x80;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a message of a server.
    fn server_message(flags: u8, command: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let order = if flags & BIG == 0 { ByteOrder::Little } else { ByteOrder::Big };
        head(command, order, flags | OF_SERVER, payload.len() as u32, &mut out);
        out.extend_from_slice(payload);
        out
    }

    /// Returns the whole messages in these bytes, or the fault.
    fn whole(frames: &mut PvaFrames, mut bytes: &[u8]) -> Result<Vec<Vec<u8>>, PvaFault> {
        let mut payloads = Vec::new();
        while let Some((frame, length)) = frames.next(bytes)? {
            if let PvaFrame::Message { payload, .. } = frame {
                payloads.push(payload.into_owned());
            }
            bytes = &bytes[length..];
        }
        Ok(payloads)
    }

    #[test]
    fn a_message_is_read_in_the_order_that_it_names() {
        for flags in [0, BIG] {
            let bytes = server_message(flags, command::ECHO, b"hello");
            let mut frames = PvaFrames::default();
            for cut in 0..bytes.len() {
                assert_eq!(frames.next(&bytes[..cut]), Ok(None));
            }
            assert_eq!(whole(&mut frames, &bytes), Ok(vec![b"hello".to_vec()]));
        }
    }

    #[test]
    fn the_byte_order_is_a_control_message() {
        // From the specification: a server that wants big endian, and the header 0xca02c102.
        let bytes = [0xca, 2, 0xc1, 2, 0, 0, 0, 0];
        let expected = PvaFrame::Control { command: 2, order: ByteOrder::Big, value: 0 };
        assert_eq!(PvaFrames::default().next(&bytes), Ok(Some((expected, 8))));
    }

    #[test]
    fn segments_are_joined_around_control_messages() {
        let mut bytes = server_message(0x10, command::GET, b"one ");
        bytes.extend(server_message(CONTROL, 0, &[]));
        bytes.extend(server_message(MIDDLE, command::GET, b"and "));
        bytes.extend(server_message(LAST, command::GET, b"all"));
        assert_eq!(whole(&mut PvaFrames::default(), &bytes), Ok(vec![b"one and all".to_vec()]));
    }

    #[test]
    fn segments_out_of_place_are_refused() {
        let first = server_message(0x10, command::GET, b"one");
        for (what, then) in [
            ("another message", server_message(0, command::GET, b"")),
            ("another beginning", server_message(0x10, command::GET, b"")),
            ("another command", server_message(LAST, command::PUT, b"")),
            ("another order", server_message(LAST | BIG, command::GET, b"")),
        ] {
            let bytes = [first.clone(), then].concat();
            assert!(whole(&mut PvaFrames::default(), &bytes).is_err(), "{what}");
        }
        assert!(whole(&mut PvaFrames::default(), &server_message(LAST, command::GET, b"")).is_err(), "no beginning");
    }

    #[test]
    fn a_message_that_is_too_long_is_skipped() {
        let long = [&7u32.to_le_bytes()[..], &vec![1; LARGEST]].concat();
        let later = server_message(0, command::ECHO, b"later");
        let in_one = server_message(0, command::MONITOR, &long);
        let in_two =
            [server_message(0x10, command::MONITOR, &long[..9]), server_message(LAST, command::MONITOR, &long[9..])]
                .concat();
        let mut in_many = server_message(0x10, command::MONITOR, &long[..LARGEST]);
        for _ in 0..5 {
            in_many.extend(server_message(MIDDLE, command::MONITOR, &long));
        }
        in_many.extend(server_message(LAST, command::MONITOR, b""));
        for bytes in [in_one, in_two, in_many] {
            let bytes = [bytes, later.clone()].concat();
            let (mut frames, mut rest, mut seen) = (PvaFrames::default(), &bytes[..], Vec::new());
            while let Some((frame, length)) = frames.next(rest).expect("it goes on") {
                seen.extend((frame != PvaFrame::Part).then_some(frame));
                rest = &rest[length..];
            }
            assert_eq!(seen[0], PvaFrame::Overlong { command: command::MONITOR, number: 7 });
            assert!(matches!(&seen[1], PvaFrame::Message { payload, .. } if **payload == *b"later"));
            assert_eq!(seen.len(), 2);
        }
    }

    #[test]
    fn a_message_that_does_not_end_is_refused() {
        let head = [0xca, 2, 0x40, command::MONITOR, 0xff, 0xff, 0xff, 0xff];
        assert!(PvaFrames::default().next(&head).is_err(), "one of 4 GiB");
        let mut frames = PvaFrames::default();
        whole(&mut frames, &server_message(0x10, command::GET, b"")).expect("a beginning");
        let segment = server_message(MIDDLE, command::GET, b"");
        let refused = (0..LONGEST_SKIPPED / LEAST + 2).find(|_| frames.next(&segment).is_err());
        assert!(refused.is_some(), "empty segments without end");
    }

    #[test]
    fn strangers_are_refused() {
        for (what, bytes) in [
            ("no magic", [0xcb, 2, 0x40, 2, 0, 0, 0, 0]),
            ("no version", [0xca, 0, 0x40, 2, 0, 0, 0, 0]),
            ("a client", [0xca, 2, 0, 2, 0, 0, 0, 0]),
        ] {
            assert!(PvaFrames::default().next(&bytes).is_err(), "{what}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(pieces in prop::collection::vec(any::<Vec<u8>>(), 0..8), flags: u8) {
            let mut bytes = server_message(flags & 0xb0, command::MONITOR, &[1; 9]);
            bytes.extend(pieces.concat());
            let (mut frames, mut rest) = (PvaFrames::default(), &bytes[..]);
            while let Ok(Some((_, length))) = frames.next(rest) {
                prop_assert!(length > 0);
                rest = &rest[length..];
            }
            prop_assert!(search_responses(&bytes).count() <= bytes.len());
        }
    }
}
