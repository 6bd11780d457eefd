//! `RETDAT` and `SETDAT`: devices are read on an event that is given as a 16-bit word, and set.

use super::{DeviceItem, ItemSettings};
use crate::rad50::Rad50;

/// The ACNET task of a front-end that returns readings.
pub const TASK: Rad50 = Rad50::literal(b"RETDAT");
/// The ACNET task of a front-end that takes settings.
pub const SETTING_TASK: Rad50 = Rad50::literal(b"SETDAT");

/// A request for readings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetdatRequest {
    /// The event: 0 for a single reading, otherwise a period in sixtieths of a second, or a clock
    /// event with the highest bit set.
    pub ftd: u16,
    /// The readings to return, in the order in which the reply has them.
    pub items: Vec<DeviceItem>,
}

impl RetdatRequest {
    /// Returns the body of the request.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(HEAD + self.items.len() * ITEM);
        let reply: usize = self.items.iter().map(DeviceItem::reply_size).sum();
        body.extend_from_slice(&(reply as u16).to_le_bytes());
        body.extend_from_slice(&(self.items.len() as u16).to_le_bytes());
        body.extend_from_slice(&self.ftd.to_le_bytes());
        for item in &self.items {
            put_item(item, &mut body);
        }
        body
    }

    /// Reads the body of a request; `None` if it is invalid.
    pub fn decode(body: &[u8]) -> Option<Self> {
        let ([_, _, c0, c1, f0, f1], rest) = body.split_first_chunk::<HEAD>()?;
        let count = usize::from(u16::from_le_bytes([*c0, *c1]));
        let rows = rest.get(..count * ITEM)?;
        let items = rows.chunks_exact(ITEM).map(item).collect();
        Some(Self { ftd: u16::from_le_bytes([*f0, *f1]), items })
    }
}

/// Returns the body of a request that sets devices to bytes.
pub fn encode_settings(settings: &[(DeviceItem, &[u8])]) -> Vec<u8> {
    let mut body = 1u16.to_le_bytes().to_vec();
    body.extend_from_slice(&(settings.len() as u16).to_le_bytes());
    for (item, data) in settings {
        put_item(item, &mut body);
        body.extend_from_slice(data);
        if !data.len().is_multiple_of(2) {
            body.push(0);
        }
    }
    body
}

/// Reads the body of a request that sets devices.
pub fn decode_settings(body: &[u8]) -> Option<ItemSettings<'_>> {
    let ([_, _, c0, c1], mut rest) = body.split_first_chunk::<4>()?;
    let mut settings = Vec::new();
    for _ in 0..u16::from_le_bytes([*c0, *c1]) {
        let item = item(rest.get(..ITEM)?);
        let length = item.length as usize;
        let data = rest.get(ITEM..ITEM + length)?;
        settings.push((item, data));
        rest = rest.get(ITEM + length.next_multiple_of(2)..).unwrap_or_default();
    }
    Some(settings)
}

fn put_item(item: &DeviceItem, body: &mut Vec<u8>) {
    body.extend_from_slice(&item.dipi().to_le_bytes());
    body.extend_from_slice(&item.ssdn);
    body.extend_from_slice(&(item.length as u16).to_le_bytes());
    body.extend_from_slice(&(item.offset as u16).to_le_bytes());
}

/// Reads a row of 16 bytes.
fn item(row: &[u8]) -> DeviceItem {
    let word = |at: usize| u16::from_le_bytes([row[at], row[at + 1]]);
    let mut ssdn = [0; 8];
    ssdn.copy_from_slice(&row[4..12]);
    DeviceItem {
        device: u32::from_le_bytes([row[0], row[1], row[2], 0]),
        property: row[3],
        ssdn,
        length: u32::from(word(12)),
        offset: u32::from(word(14)),
    }
}

/// Bytes before the devices.
pub const HEAD: usize = 6;
/// Bytes of a device.
pub const ITEM: usize = 16;
