//! How a transport tells where a stanza ends, which is part of what a session is sent.
//!
//! What waits is counted as it is on a stream, whatever the transport: a session may change its transport while stanzas wait (XEP-0198 §5).
//! Only what the transport has taken is counted in its own bytes.

/// How the stanzas of a session are told apart on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Framing {
    /// One after the other on a stream that has declared their namespace (RFC 6120).
    #[default]
    Stream,
    /// Each in a message of text, and each a document of its own that declares its namespace (RFC 7395 §3.3).
    WebSocket,
    /// One after the other in answers to requests, each declaring its namespace (XEP-0206 §2).
    Bosh,
}

impl Framing {
    /// The length on the wire of what has `len` bytes on a stream. `declares`: it relies on the namespace of the stream.
    pub(super) fn wire_len(self, len: usize, declares: bool) -> usize {
        match self {
            Self::Stream => len,
            Self::Bosh => len + self.declaration(declares).len(),
            Self::WebSocket => {
                let len = len + self.declaration(declares).len();
                head_len(len) + len
            }
        }
    }

    /// Writes what goes before a stanza that has `len` bytes on a stream.
    pub(super) fn begin(self, len: usize, declares: bool, out: &mut Vec<u8>) {
        if self == Self::WebSocket {
            begin_message(len + self.declaration(declares).len(), out);
        }
    }

    /// What is written behind the name of a stanza's root.
    pub(super) fn declaration(self, declares: bool) -> &'static [u8] {
        match self {
            Self::WebSocket | Self::Bosh if declares => CLIENT,
            _ => b"",
        }
    }
}

/// Appends the head of a server's frame that holds a whole message of text of `len` bytes (RFC 6455 §5.2).
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
