//! Packets on the network, counted.

use crate::acnet::PacketKind;

/// The number of packets received from and sent to the network, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Messages from others that expect no answer.
    pub messages_in: u32,
    /// Requests from others.
    pub requests_in: u32,
    /// Replies to our requests.
    pub replies_in: u32,
    /// Messages from us.
    pub messages_out: u32,
    /// Requests from us.
    pub requests_out: u32,
    /// Replies from us.
    pub replies_out: u32,
}

impl Traffic {
    /// Counts a received packet.
    pub(super) fn came(&mut self, kind: PacketKind) {
        let counter = match kind {
            PacketKind::Message => &mut self.messages_in,
            PacketKind::Request | PacketKind::MultipleRequest => &mut self.requests_in,
            PacketKind::Reply | PacketKind::ReplyWithMore => &mut self.replies_in,
            PacketKind::Cancel => return,
        };
        *counter = counter.wrapping_add(1);
    }

    /// Counts a sent datagram of one packet, by its flags.
    pub(super) fn goes(&mut self, datagram: &[u8]) {
        let counter = match datagram {
            [2, ..] => return,
            [_, flags, ..] if flags & 0x0e == 0x02 => &mut self.requests_out,
            [_, flags, ..] if flags & 0x0e == 0x04 => &mut self.replies_out,
            _ => &mut self.messages_out,
        };
        *counter = counter.wrapping_add(1);
    }

    /// Returns the counts in acnetd's order; the last is the number of requests that were refused
    /// because too many waited.
    pub(super) fn counts(&self) -> [u32; 7] {
        let received = [self.messages_in, self.requests_in, self.replies_in];
        let sent = [self.messages_out, self.requests_out, self.replies_out];
        [received[0], received[1], received[2], sent[0], sent[1], sent[2], 0]
    }
}
