//! `GETS32`: devices are read on an event that is given as text; replies contain times.

use super::DeviceItem;
use crate::rad50::Rad50;
use crate::status::Status;

/// The ACNET task of a front-end that answers these requests.
pub const TASK: Rad50 = Rad50::literal(b"GETS32");

/// A request for readings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gets32Request {
    /// The node that is asked.
    pub node: u16,
    /// True if it is answered repeatedly.
    pub repetitive: bool,
    /// The event in the form of `RETDAT`; `ffff` if that can't express it.
    pub ftd: u16,
    /// The event, such as `P,500,TRUE`.
    pub event: String,
    /// The readings to return, in the order in which the reply has them.
    pub items: Vec<DeviceItem>,
}

/// The head of a reply, before its readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplyHead {
    /// The status of all readings.
    pub status: Status,
    /// The number of the reply.
    pub sequence: u32,
    /// The time when the cycle began, in milliseconds since 1970.
    pub cycle: i64,
    /// The time when the readings were taken.
    pub collected: i64,
    /// The time when the reply was made.
    pub replied: i64,
}

impl Gets32Request {
    /// Returns the body of the request.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(HEAD + self.items.len() * ITEM);
        body.extend_from_slice(&[1, 1, 0]);
        body.extend_from_slice(&self.node.to_be_bytes());
        body.extend_from_slice(&[0, 0, u8::from(self.repetitive)]);
        let reply: usize = REPLY_HEAD + self.items.iter().map(DeviceItem::reply_size).sum::<usize>();
        body.extend_from_slice(&(reply as u32).to_le_bytes());
        body.extend_from_slice(&(self.items.len() as u16).to_le_bytes());
        body.extend_from_slice(&self.ftd.to_le_bytes());
        let mut event = self.event.as_bytes().to_vec();
        if !event.len().is_multiple_of(2) {
            event.push(b' ');
        }
        body.extend_from_slice(&(event.len() as u16).to_le_bytes());
        body.extend_from_slice(&event);
        for item in &self.items {
            put_item(item, &mut body);
        }
        body
    }

    /// Reads the body of a request; `None` if it is invalid.
    pub fn decode(body: &[u8]) -> Option<Self> {
        let (head, rest) = body.split_first_chunk::<18>()?;
        let [1, 1, 0, trunk, node, 0, _, repetitive, _, _, _, _, c0, c1, f0, f1, e0, e1] = *head else { return None };
        let event_length = usize::from(u16::from_le_bytes([e0, e1]));
        let (event, rest) = rest.split_at_checked(event_length)?;
        let rows = rest.get(..usize::from(u16::from_le_bytes([c0, c1])) * ITEM)?;
        Some(Self {
            node: u16::from_be_bytes([trunk, node]),
            repetitive: repetitive != 0,
            ftd: u16::from_le_bytes([f0, f1]),
            event: std::str::from_utf8(event).ok()?.trim_end().to_owned(),
            items: rows.chunks_exact(ITEM).map(item).collect(),
        })
    }
}

impl ReplyHead {
    /// Appends the head.
    pub fn encode(&self, body: &mut Vec<u8>) {
        body.extend_from_slice(&self.status.0.to_le_bytes());
        body.extend_from_slice(&[1, 1, 0, 0]);
        body.extend_from_slice(&self.sequence.to_le_bytes());
        for time in [self.cycle, self.collected, self.replied] {
            body.extend_from_slice(&time.to_le_bytes());
        }
    }

    /// Reads the head, and returns it with the readings after it.
    pub fn decode(body: &[u8]) -> Option<(Self, &[u8])> {
        let (head, rest) = body.split_first_chunk::<REPLY_HEAD>()?;
        let time = |at: usize| head[at..].first_chunk().map(|bytes| i64::from_le_bytes(*bytes));
        let read = Self {
            status: Status(i16::from_le_bytes([head[0], head[1]])),
            sequence: u32::from_le_bytes([head[6], head[7], head[8], head[9]]),
            cycle: time(10)?,
            collected: time(18)?,
            replied: time(26)?,
        };
        Some((read, rest))
    }
}

/// Appends a row of 20 bytes.
pub(super) fn put_item(item: &DeviceItem, body: &mut Vec<u8>) {
    body.extend_from_slice(&item.dipi().to_le_bytes());
    body.extend_from_slice(&item.ssdn);
    body.extend_from_slice(&item.length.to_le_bytes());
    body.extend_from_slice(&item.offset.to_le_bytes());
}

/// Reads a row of 20 bytes.
pub(super) fn item(row: &[u8]) -> DeviceItem {
    let long = |at: usize| u32::from_le_bytes([row[at], row[at + 1], row[at + 2], row[at + 3]]);
    let mut ssdn = [0; 8];
    ssdn.copy_from_slice(&row[4..12]);
    DeviceItem { device: long(0) & 0xff_ffff, property: row[3], ssdn, length: long(12), offset: long(16) }
}

/// Bytes before the devices, with the longest event that is supported.
pub const HEAD: usize = 72;
/// Bytes of a device.
pub const ITEM: usize = 20;
/// Bytes before the readings of a reply.
pub const REPLY_HEAD: usize = 34;
