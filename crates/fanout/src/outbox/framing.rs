//! Framings: the marks by which a transport shows where a stanza ends, which are part of the
//! session's data.
//!
//! Waiting stanzas are counted as on a stream, whatever the transport: a session may change its
//! transport while stanzas wait (XEP-0198 §5). Only bytes that the transport has accepted are
//! counted in its own form.

use rookery_base::Transport;

/// The way in which the stanzas of a session are told apart on the wire: one after the other (RFC
/// 6120, XEP-0206 §2), or each in a message of text (RFC 7395 §3.3).
pub(super) trait Framing: Copy {
    /// Returns the length on the wire of a stanza that has `len` bytes on a stream. `relies`: it
    /// needs the namespace of the stream.
    fn wire_len(self, len: usize, relies: bool) -> usize;

    /// Writes the bytes that precede a stanza which has `len` bytes on a stream.
    fn begin(self, len: usize, relies: bool, out: &mut Vec<u8>);

    /// Returns the bytes that are written after the name of a stanza's root.
    fn declaration(self, relies: bool) -> &'static [u8];
}

impl Framing for Transport {
    fn wire_len(self, len: usize, relies: bool) -> usize {
        match self {
            Self::Tcp => len,
            Self::Bosh => len + self.declaration(relies).len(),
            Self::WebSocket => {
                let len = len + self.declaration(relies).len();
                head_len(len) + len
            }
        }
    }

    fn begin(self, len: usize, relies: bool, out: &mut Vec<u8>) {
        if self == Self::WebSocket {
            begin_message(len + self.declaration(relies).len(), out);
        }
    }

    fn declaration(self, relies: bool) -> &'static [u8] {
        if relies && self.declares() { CLIENT } else { b"" }
    }
}

/// Appends the head of a server's frame that holds a whole message of text of `len` bytes (RFC 6455
/// §5.2).
pub fn begin_message(len: usize, out: &mut Vec<u8>) {
    out.push(FINAL_TEXT);
    match (u8::try_from(len), u16::try_from(len)) {
        (Ok(short @ ..126), _) => out.push(short),
        (_, Ok(middle)) => {
            out.push(126);
            out.extend_from_slice(&middle.to_be_bytes());
        }
        _ => {
            out.push(127);
            out.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
}

fn head_len(len: usize) -> usize {
    match len {
        0..126 => 2,
        126..=0xffff => 4,
        _ => 10,
    }
}

const FINAL_TEXT: u8 = 0x81;
const CLIENT: &[u8] = b" xmlns='jabber:client'";
