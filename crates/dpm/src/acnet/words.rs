//! Words of the messages of `FTPMAN`, which plots and snapshots have in common.

use super::DeviceItem;

pub(super) fn item(dipi: &[u8], offset: u32, ssdn: &[u8]) -> DeviceItem {
    DeviceItem {
        device: u32::from_le_bytes([dipi[0], dipi[1], dipi[2], 0]),
        property: dipi[3],
        ssdn: ssdn.first_chunk().copied().unwrap_or_default(),
        length: 0,
        offset,
    }
}

pub(super) fn put(body: &mut Vec<u8>, words: &[u16]) {
    body.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

pub(super) fn word(body: &[u8]) -> Option<(u16, &[u8])> {
    body.split_first_chunk().map(|(bytes, rest)| (u16::from_le_bytes(*bytes), rest))
}
