//! ACNET: packets, outstanding requests, and the requests to front-ends.
//!
//! [`packet`] is the header on the network and the swapping of its words; [`RequestsById`] holds
//! unanswered requests, by an id that is found in constant time; [`retdat`], [`gets32`],
//! [`sets32`], [`ftpman`] and [`snapshot`] are the bodies of requests and replies, [`setsdb`] those
//! of messages to the log of settings.

pub mod daemon;
pub mod ftpman;
pub mod gets32;
pub mod packet;
pub mod requests;
pub mod retdat;
pub mod sets32;
pub mod setsdb;
pub mod snapshot;
mod words;

pub use packet::{AcnetHeader, AcnetPacket, PacketKind};
pub use requests::RequestsById;

use crate::rad50::Rad50;
use crate::status::Status;

/// A device in a front-end request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceItem {
    /// The device's number, 24 bits.
    pub device: u32,
    /// The property's number.
    pub property: u8,
    /// The address within the front-end, which only the front-end understands.
    pub ssdn: [u8; 8],
    /// The number of bytes.
    pub length: u32,
    /// The offset of the first byte.
    pub offset: u32,
}

impl DeviceItem {
    /// Returns device and property in their packed form.
    fn dipi(&self) -> u32 {
        self.device & 0xff_ffff | u32::from(self.property) << 24
    }

    /// Returns the number of bytes of its answer: a status, the data, and a padding byte if the
    /// length of the data is odd.
    pub fn reply_size(&self) -> usize {
        2 + (self.length as usize).next_multiple_of(2)
    }
}

/// Returns the readings of a reply in their order; `None` if it is too short for the request.
pub fn split(mut body: &[u8], lengths: impl Iterator<Item = u32>) -> Option<Vec<(Status, &[u8])>> {
    let mut readings = Vec::new();
    for length in lengths {
        let (status, rest) = body.split_first_chunk()?;
        let length = length as usize;
        // The padding of an odd reading may be missing at the end.
        let padded = length.next_multiple_of(2).min(rest.len());
        readings.push((Status(i16::from_le_bytes(*status)), rest.get(..length)?));
        body = rest.get(padded..)?;
    }
    Some(readings)
}

/// The items to set, with their values.
pub type ItemSettings<'a> = Vec<(DeviceItem, &'a [u8])>;

/// The task that replies to pings.
pub const ACNET: Rad50 = Rad50::literal(b"ACNET");
/// The task on whose behalf DPM replies.
pub const DPMD: Rad50 = Rad50::literal(b"DPMD");
/// The task that converts values of devices.
pub const SCALE: Rad50 = Rad50::literal(b"SCALE");
/// The task that tells of clock events and states.
pub const SYNC: Rad50 = Rad50::literal(b"SYNC");
/// The name that stands for all nodes.
pub const MCAST: Rad50 = Rad50::literal(b"MCAST");
/// The node that stands for all nodes.
pub const MULTICAST_NODE: u16 = 0x00ff;
/// The largest packet that a front-end takes or sends, in bytes.
pub const LARGEST: usize = 8450;
