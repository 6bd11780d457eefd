//! Packets: an 18-byte header and data.
//!
//! On the network every 16-bit word of a datagram is swapped, header and data alike; clients of a
//! node get packets unswapped. A datagram may contain several packets. All numbers are little
//! endian except for nodes, which are two bytes: trunk and node.

use crate::rad50::Rad50;
use crate::status::Status;

/// The role of a packet in an exchange, which the flags in its header express.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketKind {
    /// A message without a reply.
    Message,
    /// A request for one reply.
    Request,
    /// A request for any number of replies.
    MultipleRequest,
    /// The only reply, or the last.
    Reply,
    /// A reply with more to follow.
    ReplyWithMore,
    /// The cancellation of a request.
    Cancel,
}

/// The head of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcnetHeader {
    /// The kind of the packet.
    pub kind: PacketKind,
    /// The status of a reply.
    pub status: Status,
    /// The node that is asked: trunk and node.
    pub server: u16,
    /// The node that asks.
    pub client: u16,
    /// The task that is asked.
    pub task: Rad50,
    /// The number of the task that asks.
    pub task_id: u16,
    /// The request's id.
    pub message: u16,
}

/// A packet of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcnetPacket<'a> {
    /// Its head.
    pub header: AcnetHeader,
    /// The bytes after the header.
    pub body: &'a [u8],
}

impl AcnetHeader {
    /// Appends a packet in the form for clients of a node; an odd body gets a zero.
    pub fn write(&self, body: &[u8], out: &mut Vec<u8>) {
        self.write_head(body.len(), out);
        out.extend_from_slice(body);
        if !body.len().is_multiple_of(2) {
            out.push(0);
        }
    }

    /// Appends the head of a packet. The caller appends the body, padded to an even length.
    pub fn write_head(&self, body: usize, out: &mut Vec<u8>) {
        let length = SIZE + body.next_multiple_of(2);
        out.extend_from_slice(&self.kind.flags().to_le_bytes());
        out.extend_from_slice(&self.status.0.to_le_bytes());
        out.extend_from_slice(&self.server.to_be_bytes());
        out.extend_from_slice(&self.client.to_be_bytes());
        out.extend_from_slice(&self.task.0.to_le_bytes());
        out.extend_from_slice(&self.task_id.to_le_bytes());
        out.extend_from_slice(&self.message.to_le_bytes());
        out.extend_from_slice(&(length as u16).to_le_bytes());
    }

    /// Returns a datagram with one packet, in the form for the network.
    pub fn datagram(&self, body: &[u8]) -> Vec<u8> {
        let mut datagram = Vec::with_capacity(SIZE + body.len() + 1);
        self.write(body, &mut datagram);
        swap(&mut datagram);
        datagram
    }

    /// Returns the head of a reply to this request.
    pub fn answer(&self, status: Status, more: bool) -> Self {
        Self { kind: if more { PacketKind::ReplyWithMore } else { PacketKind::Reply }, status, ..*self }
    }

    fn read(bytes: &[u8; SIZE]) -> Option<(Self, usize)> {
        let [f0, f1, s0, s1, st, sn, ct, cn, t0, t1, t2, t3, i0, i1, m0, m1, l0, l1] = *bytes;
        let header = Self {
            kind: PacketKind::of(u16::from_le_bytes([f0, f1]))?,
            status: Status(i16::from_le_bytes([s0, s1])),
            server: u16::from_be_bytes([st, sn]),
            client: u16::from_be_bytes([ct, cn]),
            task: Rad50(u32::from_le_bytes([t0, t1, t2, t3])),
            task_id: u16::from_le_bytes([i0, i1]),
            message: u16::from_le_bytes([m0, m1]),
        };
        Some((header, usize::from(u16::from_le_bytes([l0, l1]))))
    }
}

impl PacketKind {
    fn flags(self) -> u16 {
        match self {
            PacketKind::Message => 0x0000,
            PacketKind::Request => 0x0002,
            PacketKind::MultipleRequest => 0x0003,
            PacketKind::Reply => 0x0004,
            PacketKind::ReplyWithMore => 0x0005,
            PacketKind::Cancel => 0x0200,
        }
    }

    /// Returns the kind in a packet's flags. Bits other than type, cancel and "more" (checksum, "do
    /// not block") are ignored.
    fn of(flags: u16) -> Option<Self> {
        match (flags & 0x020e, flags & 1 == 1) {
            (0x0000, _) => Some(PacketKind::Message),
            (0x0002, false) => Some(PacketKind::Request),
            (0x0002, true) => Some(PacketKind::MultipleRequest),
            (0x0004, false) => Some(PacketKind::Reply),
            (0x0004, true) => Some(PacketKind::ReplyWithMore),
            (0x0200, _) => Some(PacketKind::Cancel),
            _ => None,
        }
    }
}

/// Swaps every word of a datagram, in place.
pub fn swap(datagram: &mut [u8]) {
    for word in datagram.chunks_exact_mut(2) {
        word.swap(0, 1);
    }
}

/// Returns the packets of a datagram that was swapped back, up to the first invalid one.
pub fn packets(mut datagram: &[u8]) -> impl Iterator<Item = AcnetPacket<'_>> {
    if !datagram.len().is_multiple_of(2) {
        datagram = &[];
    }
    std::iter::from_fn(move || {
        let (header, length) = AcnetHeader::read(datagram.first_chunk()?)?;
        let body = datagram.get(SIZE..length).filter(|body| body.len().is_multiple_of(2))?;
        datagram = &datagram[length..];
        Some(AcnetPacket { header, body })
    })
}

/// The length of a header.
pub const SIZE: usize = 18;
