//! Frames of the two protocols over TCP.

use crate::acnet::{AcnetHeader, PacketKind, packet};

/// Appends a frame with a packet around what `write` appends.
pub(super) fn data(header: &AcnetHeader, more: bool, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    frame(out, |out| {
        out.extend_from_slice(&DATA.to_be_bytes());
        let kind = if more { PacketKind::ReplyWithMore } else { PacketKind::Reply };
        let start = out.len();
        AcnetHeader { kind, ..*header }.write_head(0, out);
        let body = out.len();
        write(out);
        if !(out.len() - body).is_multiple_of(2) {
            out.push(0);
        }
        // No caller writes more than `LARGEST`.
        let length = u16::try_from(out.len() - start).unwrap_or(u16::MAX);
        out[start + packet::SIZE - 2..start + packet::SIZE].copy_from_slice(&length.to_le_bytes());
    });
}

/// The largest message in a packet, whose length has 16 bits.
pub(super) const LARGEST: usize = 65_500;

pub(super) const DATA: u16 = 3;

/// The length of a frame's kind, in bytes.
pub(super) const KIND: usize = 2;

/// Appends a frame around what `write` appends.
pub(super) fn frame(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}
