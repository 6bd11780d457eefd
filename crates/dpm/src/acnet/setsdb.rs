//! `SETSDB`: the control system's own log of settings. It gets messages, without replies, about the
//! settings, their authors and places.
//!
//! Numbers are little endian. A message is a type (1000), four unused bytes, the time, the number
//! of the console user, the number of devices, the number of an application (none here), three
//! names, each after its length – the node that set, the client's host, the account – and the
//! devices: number and property, length, offset, and the first bytes of each setting. The format
//! comes from the public DPM; no recording contains it.

use smallvec::SmallVec;

use super::{DeviceItem, LARGEST, packet};
use crate::rad50::Rad50;

/// The task that keeps the log, and the node that it is on.
pub const TASK: Rad50 = Rad50::literal(b"SETSDB");

/// A report of settings, with their author, time and place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsReport {
    /// The time, in milliseconds since 1970.
    pub unix_millis: i64,
    /// The number of the console user; 0 if it is unknown.
    pub user: i32,
    /// The name of the node that set, which is this service's own.
    pub node: String,
    /// The host of the client.
    pub host: String,
    /// The account of the client.
    pub account: String,
}

/// A setting that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingEntry {
    item: DeviceItem,
    /// The first bytes of the setting.
    data: SmallVec<[u8; SHOWN]>,
}

impl SettingEntry {
    /// Returns a device that was set to bytes.
    pub fn new(item: DeviceItem, bytes: &[u8]) -> Self {
        Self { item, data: bytes.iter().copied().take(SHOWN).collect() }
    }

    fn size(&self) -> usize {
        ENTRY + self.data.len()
    }

    fn write(&self, body: &mut Vec<u8>) {
        body.extend_from_slice(&self.item.dipi().to_le_bytes());
        body.extend_from_slice(&u16::try_from(self.item.length).unwrap_or(u16::MAX).to_le_bytes());
        body.extend_from_slice(&self.item.offset.to_le_bytes());
        body.extend_from_slice(&self.data);
    }
}

impl SettingsReport {
    /// Returns the bodies of the messages that the entries need.
    pub fn encode(&self, mut entries: &[SettingEntry]) -> Vec<Vec<u8>> {
        let names: Vec<u8> =
            [&self.node, &self.host, &self.account].into_iter().flat_map(|name| length_and_name(name)).collect();
        let mut bodies = Vec::new();
        while !entries.is_empty() {
            let mut size = packet::SIZE + HEAD + names.len();
            let fits = |entry: &&SettingEntry| {
                size += entry.size();
                size <= LARGEST
            };
            // Names have 256 bytes at most, so one entry always fits.
            let (first, rest) = entries.split_at(entries.iter().take_while(fits).count().max(1));
            bodies.push(self.body(&names, first));
            entries = rest;
        }
        bodies
    }

    fn body(&self, names: &[u8], entries: &[SettingEntry]) -> Vec<u8> {
        let mut body = KIND.to_le_bytes().to_vec();
        body.extend_from_slice(&[0; 4]);
        body.extend_from_slice(&self.unix_millis.to_le_bytes());
        body.extend_from_slice(&self.user.to_le_bytes());
        body.extend_from_slice(&(entries.len() as u32).to_le_bytes());
        body.extend_from_slice(&[0; 4]);
        body.extend_from_slice(names);
        entries.iter().for_each(|entry| entry.write(&mut body));
        body
    }
}

/// Returns a name after its length, cut to a length that fits one byte.
fn length_and_name(name: &str) -> impl Iterator<Item = u8> {
    let name = &name.as_bytes()[..name.len().min(u8::MAX.into())];
    std::iter::once(name.len() as u8).chain(name.iter().copied())
}

/// The type of a message.
const KIND: u16 = 1000;
/// Bytes before the names.
const HEAD: usize = 26;
/// Bytes of a device before the bytes of its setting.
const ENTRY: usize = 10;
/// The most bytes of a setting that are reported.
const SHOWN: usize = 4;
