//! A reply that is encoded once for all of its readers.

use std::sync::OnceLock;

use super::message::{SddMessage, reply::Reply};
use super::value;

/// A reply that begins with a reference number, encoded without it.
///
/// Replies to readers of one device differ only in the reader's number. That is the first field,
/// and everything before it has the same length in every such reply, so a reply for a reader is
/// made by copying two pieces with the number between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedReply {
    head: [u8; HEAD],
    tail: Box<[u8]>,
    other: OnceLock<Box<[u8]>>,
}

impl SharedReply {
    /// Encodes a reply whose `ref_id` is 0; `None` if this kind of reply has no such field.
    pub fn new(reply: &Reply) -> Option<Self> {
        let mut bytes = Vec::with_capacity(96);
        reply.encode(&mut bytes);
        let (head, rest) = bytes.split_first_chunk()?;
        let tail = rest.strip_prefix(&ZERO)?;
        let is_numbered = head[HEAD - REF_ID.len()..] == REF_ID;
        is_numbered.then(|| Self { head: *head, tail: tail.into(), other: OnceLock::new() })
    }

    /// Appends the message with a reader's reference number.
    pub fn write(&self, ref_id: i64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        value::put_integer(out, ref_id);
        out.extend_from_slice(&self.tail);
    }

    /// Returns the reply, with the reference number 0.
    pub fn decode(&self) -> Option<Reply> {
        let mut bytes = Vec::with_capacity(self.size());
        self.write(0, &mut bytes);
        Reply::decode(&bytes).ok()
    }

    /// Returns the reply in another encoding, for readers of another protocol; it is made for the
    /// first of them, and is the same for all.
    pub fn other_encoding(&self, make: impl FnOnce(&Reply) -> Vec<u8>) -> &[u8] {
        self.other.get_or_init(|| self.decode().map(|reply| make(&reply)).unwrap_or_default().into())
    }

    /// Returns the number of bytes that [`write`](Self::write) appends at most.
    pub fn size(&self) -> usize {
        HEAD + LONGEST_INTEGER + self.tail.len()
    }
}

/// The length of magic, array head, protocol, message id, struct head, and the id of the field.
const HEAD: usize = 4 + 2 + 5 + 3 + 2 + REF_ID.len();
const REF_ID: [u8; 3] = [0x12, 0x1e, 0xab];
const ZERO: [u8; 2] = [0x11, 0x00];
const LONGEST_INTEGER: usize = 9;
