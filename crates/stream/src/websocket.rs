//! XMPP over WebSocket (RFC 7395), the server's end, from the first frame on; the opening handshake
//! is done where connections are accepted.
//!
//! [`Frames`] takes frames apart (RFC 6455 §5), [`framing`] translates between the content of a
//! message and the stream that [`crate::c2s`] speaks: to the machine of a login, WebSocket is a
//! stream whose header happens to be called `<open/>` and whose end `<close/>`.
//!
//! # Invariants
//!
//! - An idle connection holds no buffer: there is one while a frame, or a message of several
//!   frames, is incomplete.
//! - A frame's length is checked once its head has come, before anything is kept for it. The
//!   lengths of fragments are added up.
//! - Input is unmasked in place, once, when its frame is complete; a frame that arrives byte by
//!   byte costs no more.
//! - No extension is negotiated, so nothing expands beyond its input.

pub mod framing;

use std::borrow::Cow;

/// The input of one WebSocket that could not be used yet. Usually there is none, and then this is a
/// null pointer.
#[derive(Debug, Default)]
pub struct Frames(Option<Box<PendingFrame>>);

#[derive(Debug, Default)]
struct PendingFrame {
    /// Bytes of the wire, masked as they came; those before `at` have been processed.
    rest: Vec<u8>,
    at: usize,
    /// The fragments of a message that is not complete.
    message: Option<Vec<u8>>,
    /// The payload of the last ping that was not answered.
    pong: Option<Vec<u8>>,
    /// The status of the closing handshake instead of [`NORMAL`].
    status: Option<u16>,
}

/// A frame, or the message that several frames make together.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A whole message of text, which has still to be checked for UTF-8.
    Message(Cow<'a, [u8]>),
    /// A part of a message: it is kept.
    Fragment,
    /// A ping, to be answered with a pong of the same content (RFC 6455 §5.5.2).
    Ping(&'a [u8]),
    /// A pong that nobody asked for, which means nothing (§5.5.3).
    Pong,
    /// The closing handshake, with the status to reply with, if any was given (§5.5.1).
    Close(Option<u16>),
}

/// The reason why a connection can't continue (RFC 6455 §7.1.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameFault {
    /// The bytes aren't frames that a client may send.
    Protocol,
    /// Binary data, which XMPP has no use for (RFC 7395 §3.2).
    Unsupported,
    /// A message is longer than it may be.
    TooBig,
}

impl FrameFault {
    /// Returns the status of the closing handshake (RFC 6455 §7.4.1).
    pub fn status(self) -> u16 {
        match self {
            Self::Protocol => 1002,
            Self::Unsupported => 1003,
            Self::TooBig => 1009,
        }
    }
}

impl Frames {
    /// Takes the frame at the start of `input`, and returns the number of its bytes. Returns `None`
    /// if it is not complete: the same bytes have to be given again, with more after them. `most`
    /// is the longest message that may come, in bytes.
    ///
    /// # Errors
    /// The connection can't go on.
    pub fn next<'a>(&mut self, input: &'a mut [u8], most: usize) -> Result<Option<(usize, Frame<'a>)>, FrameFault> {
        let Some(head) = FrameHead::read(input)? else { return Ok(None) };
        let begun = self.0.as_ref().and_then(|pending| pending.message.as_ref()).map(Vec::len);
        match (head.opcode, begun) {
            (TEXT, None) | (CONTINUATION, Some(_)) => {
                let room = most.saturating_sub(begun.unwrap_or_default());
                if head.payload > room as u64 {
                    return Err(FrameFault::TooBig);
                }
            }
            (BINARY, None) => return Err(FrameFault::Unsupported),
            (PING | PONG | CLOSE, _) => {}
            _ => return Err(FrameFault::Protocol),
        }
        let end = head.len + head.payload as usize;
        let Some(payload) = input.get_mut(head.len..end) else { return Ok(None) };
        unmask(payload, head.mask);
        let frame = match head.opcode {
            PING => Frame::Ping(payload),
            PONG => Frame::Pong,
            CLOSE => Frame::Close(status(payload)?),
            _ => self.data(payload, head.is_final),
        };
        Ok(Some((end, frame)))
    }

    fn data<'a>(&mut self, payload: &'a [u8], is_final: bool) -> Frame<'a> {
        let begun = self.0.as_mut().and_then(|pending| pending.message.take());
        match (begun, is_final) {
            (None, true) => Frame::Message(Cow::Borrowed(payload)),
            (begun, is_final) => {
                let mut message = begun.unwrap_or_default();
                message.extend_from_slice(payload);
                if is_final {
                    self.tidy();
                    return Frame::Message(Cow::Owned(message));
                }
                self.pending().message = Some(message);
                Frame::Fragment
            }
        }
    }

    /// Returns the same as [`Frames::next`] for bytes that are kept here.
    ///
    /// # Errors
    /// The connection can't go on.
    pub fn next_kept(&mut self, most: usize) -> Result<Option<KeptFrame>, FrameFault> {
        let (mut rest, at) = match &mut self.0 {
            Some(pending) => (std::mem::take(&mut pending.rest), pending.at),
            None => return Ok(None),
        };
        let next = self.next(rest.get_mut(at..).unwrap_or_default(), most);
        let next = next.map(|next| next.map(|(len, frame)| (len, KeptFrame::of(frame))));
        let pending = self.pending();
        pending.rest = rest;
        match next {
            Ok(Some((len, kept))) => {
                pending.at = at + len;
                Ok(Some(kept))
            }
            Ok(None) => {
                pending.rest.drain(..at);
                pending.at = 0;
                self.tidy();
                Ok(None)
            }
            Err(fault) => Err(fault),
        }
    }

    /// Keeps bytes of the wire until there are more.
    pub fn keep(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.pending().rest.extend_from_slice(bytes);
        }
    }

    /// Takes the bytes of the wire that are kept.
    pub fn take_kept(&mut self) -> Vec<u8> {
        let Some(pending) = &mut self.0 else { return Vec::new() };
        let mut rest = std::mem::take(&mut pending.rest);
        rest.drain(..std::mem::take(&mut pending.at));
        self.tidy();
        rest
    }

    /// Returns whether nothing is kept but bytes of the wire: no fragment of a message.
    pub fn is_between_messages(&self) -> bool {
        self.0.as_ref().is_none_or(|pending| pending.message.is_none())
    }

    /// Returns the number of bytes of the wire that are kept.
    pub fn kept_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |pending| pending.rest.len() - pending.at)
    }

    /// Notes the content of the next pong. Of several pings that wait only the last is answered, as
    /// RFC 6455 §5.5.3 allows.
    pub fn owe_pong(&mut self, payload: &[u8]) {
        self.pending().pong = Some(payload.to_vec());
    }

    /// Returns the pong that is owed, as a frame.
    pub fn take_pong(&mut self) -> Option<Vec<u8>> {
        let payload = self.0.as_mut()?.pong.take()?;
        self.tidy();
        let mut frame = Vec::with_capacity(2 + payload.len());
        control(PONG, &payload, &mut frame);
        Some(frame)
    }

    /// Notes the reason why the connection has to be closed.
    pub fn set_status(&mut self, status: u16) {
        self.pending().status = Some(status);
    }

    /// Appends the closing handshake to `out`.
    pub fn close(&self, out: &mut Vec<u8>) {
        let status = self.0.as_ref().and_then(|pending| pending.status).unwrap_or(NORMAL);
        control(CLOSE, &status.to_be_bytes(), out);
    }

    fn pending(&mut self) -> &mut PendingFrame {
        self.0.get_or_insert_default()
    }

    /// Frees unused memory.
    fn tidy(&mut self) {
        let is_idle = |pending: &PendingFrame| {
            pending.rest.is_empty() && pending.message.is_none() && pending.pong.is_none() && pending.status.is_none()
        };
        if self.0.as_deref().is_some_and(is_idle) {
            self.0 = None;
        }
    }
}

/// A [`Frame`] that doesn't borrow.
#[derive(Debug, PartialEq, Eq)]
pub enum KeptFrame {
    /// See [`Frame::Message`].
    Message(Vec<u8>),
    /// See [`Frame::Ping`].
    Ping(Vec<u8>),
    /// See [`Frame::Close`].
    Close(Option<u16>),
    /// See [`Frame::Fragment`] and [`Frame::Pong`].
    Nothing,
}

impl KeptFrame {
    fn of(frame: Frame<'_>) -> Self {
        match frame {
            Frame::Message(text) => Self::Message(text.into_owned()),
            Frame::Ping(payload) => Self::Ping(payload.to_vec()),
            Frame::Close(status) => Self::Close(status),
            Frame::Fragment | Frame::Pong => Self::Nothing,
        }
    }
}

/// The head of a frame (RFC 6455 §5.2).
struct FrameHead {
    is_final: bool,
    opcode: u8,
    mask: [u8; 4],
    /// Bytes of the head itself.
    len: usize,
    /// Bytes after the head.
    payload: u64,
}

impl FrameHead {
    /// Reads a head, and checks the first two bytes as soon as they are there.
    fn read(input: &[u8]) -> Result<Option<Self>, FrameFault> {
        let &[first, second, ..] = input else { return Ok(None) };
        let (is_final, opcode, short) = (first & 0x80 != 0, first & 0x0f, second & 0x7f);
        // §5.1: a client masks every frame. §5.2: no extension has given the reserved bits a
        // meaning.
        if first & 0x70 != 0 || second & 0x80 == 0 {
            return Err(FrameFault::Protocol);
        }
        match opcode {
            CONTINUATION | TEXT | BINARY => {}
            // §5.5: control frames are short and not fragmented.
            CLOSE | PING | PONG if is_final && short <= MOST_CONTROL => {}
            _ => return Err(FrameFault::Protocol),
        }
        let behind = input.get(2..).unwrap_or_default();
        let (payload, used) = match short {
            126 => match behind.first_chunk::<2>() {
                Some(bytes) => (u64::from(u16::from_be_bytes(*bytes)), 2),
                None => return Ok(None),
            },
            127 => match behind.first_chunk::<8>() {
                Some(bytes) => (u64::from_be_bytes(*bytes), 8),
                None => return Ok(None),
            },
            short => (u64::from(short), 0),
        };
        // §5.2: the shortest way to write a length, and the highest bit of the longest is 0.
        let is_minimal = match used {
            2 => payload > u64::from(MOST_CONTROL),
            8 => payload > u64::from(u16::MAX) && payload >> 63 == 0,
            _ => true,
        };
        if !is_minimal {
            return Err(FrameFault::Protocol);
        }
        let Some(&mask) = behind.get(used..).and_then(<[u8]>::first_chunk::<4>) else {
            return Ok(None);
        };
        Ok(Some(Self { is_final, opcode, mask, len: 2 + used + 4, payload }))
    }
}

/// Removes the mask (§5.3).
fn unmask(payload: &mut [u8], mask: [u8; 4]) {
    let wide: [u8; 16] = std::array::from_fn(|at| mask[at % 4]);
    let mut chunks = payload.chunks_exact_mut(16);
    for chunk in &mut chunks {
        for (byte, mask) in chunk.iter_mut().zip(wide) {
            *byte ^= mask;
        }
    }
    for (byte, mask) in chunks.into_remainder().iter_mut().zip(wide) {
        *byte ^= mask;
    }
}

/// Returns the status in a closing handshake (§5.5.1, §7.4).
fn status(payload: &[u8]) -> Result<Option<u16>, FrameFault> {
    match payload {
        [] => Ok(None),
        [high, low, ..] => match u16::from_be_bytes([*high, *low]) {
            status @ (1000..=1003 | 1007..=1014 | 3000..=4999) => Ok(Some(status)),
            _ => Err(FrameFault::Protocol),
        },
        [_] => Err(FrameFault::Protocol),
    }
}

/// Appends a control frame. `payload` has at most 125 bytes, since a client's has no more.
fn control(opcode: u8, payload: &[u8], out: &mut Vec<u8>) {
    let payload = payload.get(..usize::from(MOST_CONTROL)).unwrap_or(payload);
    out.extend_from_slice(&[0x80 | opcode, payload.len() as u8]);
    out.extend_from_slice(payload);
}

/// The status of a connection that ends as it should (RFC 6455 §7.4.1).
const NORMAL: u16 = 1000;

const CONTINUATION: u8 = 0x0;
const TEXT: u8 = 0x1;
const BINARY: u8 = 0x2;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xa;
/// Bytes that a control frame may carry (§5.5), also the longest payload whose length fits the
/// second byte.
const MOST_CONTROL: u8 = 125;

#[cfg(test)]
mod tests;
