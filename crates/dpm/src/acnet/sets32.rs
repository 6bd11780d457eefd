//! `SETS32`: devices are set as `GETS32` reads them, with lengths of 32 bits. The reply has the
//! head of a `GETS32` reply, then a status for each device.

use super::gets32::{ITEM, REPLY_HEAD, item, put_item};
use super::{DeviceItem, ItemSettings};
use crate::rad50::Rad50;

/// The ACNET task of a front-end that takes settings of 32-bit lengths.
pub const TASK: Rad50 = Rad50::literal(b"SETS32");

/// Returns the body of a request that sets devices of a node to bytes.
pub fn encode(node: u16, settings: &[(DeviceItem, &[u8])]) -> Vec<u8> {
    let mut body = vec![1, 1, 0];
    body.extend_from_slice(&node.to_be_bytes());
    body.extend_from_slice(&[1, 0, 0]);
    body.extend_from_slice(&((REPLY_HEAD + 2 * settings.len()) as u32).to_le_bytes());
    body.extend_from_slice(&(settings.len() as u16).to_le_bytes());
    body.extend_from_slice(&0u16.to_le_bytes());
    body.extend_from_slice(&(EVENT.len() as u16).to_le_bytes());
    body.extend_from_slice(EVENT);
    for (item, data) in settings {
        put_item(item, &mut body);
        body.extend_from_slice(data);
        if !data.len().is_multiple_of(2) {
            body.push(0);
        }
    }
    body
}

/// Reads the body of such a request; `None` if it is invalid.
pub fn decode(body: &[u8]) -> Option<(u16, ItemSettings<'_>)> {
    let (head, rest) = body.split_first_chunk::<18>()?;
    let [1, 1, 0, trunk, node, 1, _, 0, _, _, _, _, c0, c1, _, _, e0, e1] = *head else { return None };
    let mut rest = rest.get(usize::from(u16::from_le_bytes([e0, e1]))..)?;
    let mut settings = Vec::new();
    for _ in 0..u16::from_le_bytes([c0, c1]) {
        let item = item(rest.get(..ITEM)?);
        let length = item.length as usize;
        let data = rest.get(ITEM..ITEM.checked_add(length)?)?;
        settings.push((item, data));
        rest = rest.get(ITEM + length.next_multiple_of(2)..).unwrap_or_default();
    }
    Some((u16::from_be_bytes([trunk, node]), settings))
}

/// A single reply, at once; padded to an even length.
const EVENT: &[u8] = b"i ";
