//! Players: the values that simulated devices show.

use std::collections::HashMap;
use std::f64::consts::TAU;
use std::sync::Arc;

use crate::acnet::DeviceItem;
use crate::blocks::ALARM_SIZE;
use crate::database::{Database, DeviceRecord, Script};
use crate::drf::Property;
use crate::status::Status;

/// Plays all devices.
#[derive(Debug)]
pub(super) struct Player {
    devices: HashMap<u32, (Arc<DeviceRecord>, Option<Script>), ahash::RandomState>,
    /// The values that were set, by device and property.
    settings: HashMap<(u32, u8), Vec<u8>, ahash::RandomState>,
    counts: HashMap<u32, i32, ahash::RandomState>,
    random: u64,
}

impl Player {
    pub(super) fn new(database: &Database) -> Self {
        // If a device has several scripts, the first is used.
        let scripts: HashMap<&str, &Script> =
            database.scripts().iter().rev().map(|script| (script.device.as_str(), script)).collect();
        let script = |name: &str| scripts.get(name).copied().cloned();
        let devices =
            database.devices().iter().map(|device| (device.index, (Arc::clone(device), script(&device.name))));
        Self { devices: devices.collect(), settings: HashMap::default(), counts: HashMap::default(), random: SEED }
    }

    /// Appends the answer for a device; `None` if it is silent.
    pub(super) fn play(&mut self, item: &DeviceItem, millis: u64, body: &mut Vec<u8>) -> Option<()> {
        let found = self.devices.get(&item.device).cloned();
        let property = PROPERTIES.iter().copied().find(|property| property.index() == item.property);
        let place = found.as_ref().zip(property).and_then(|((device, _), property)| device.place(property)).cloned();
        let length = item.length as usize;
        let end = item.offset.checked_add(item.length);
        let (Some((_, script)), Some(property), Some(place)) = (
            found,
            property,
            place.filter(|place| place.ssdn == item.ssdn && end.is_some_and(|end| end <= place.size)),
        ) else {
            body.extend_from_slice(&Status::NOPROP.0.to_le_bytes());
            body.resize(body.len() + length.next_multiple_of(2), 0);
            return Some(());
        };
        if script.as_ref().is_some_and(|script| script.shape == "silent") {
            return None;
        }
        let mut bytes =
            self.value(item, property, script.as_ref(), place.size as usize, place.element as usize, millis);
        bytes.resize(place.size as usize, 0);
        body.extend_from_slice(&Status::SUCCESS.0.to_le_bytes());
        body.extend_from_slice(&bytes[item.offset as usize..][..length]);
        if !length.is_multiple_of(2) {
            body.push(0);
        }
        Some(())
    }

    /// Sets a device.
    pub(super) fn set(&mut self, item: &DeviceItem, data: &[u8]) -> Status {
        let setting = PROPERTIES.iter().copied().find(|property| property.index() == item.property);
        let place =
            self.devices.get(&item.device).zip(setting).and_then(|((device, _), property)| device.place(property));
        let Some(place) = place.filter(|place| place.ssdn == item.ssdn) else { return Status::NOPROP };
        let range = item.offset as usize..item.offset as usize + data.len();
        if range.end > place.size as usize {
            return Status::OUT_OF_BOUNDS;
        }
        let bytes = self.settings.entry((item.device, item.property)).or_default();
        bytes.resize(place.size as usize, 0);
        bytes[range].copy_from_slice(data);
        Status::SUCCESS
    }

    /// Returns the raw reading of a device now.
    pub(super) fn state(&self, device: u32, millis: u64) -> Option<i32> {
        let (_, script) = self.devices.get(&device)?;
        Some(script.as_ref().map_or(0, |script| shape(script, millis, 0, 0.5)))
    }

    /// Returns the size of one element of a scripted reading, in bytes.
    pub(super) fn scripted(&self, item: &DeviceItem) -> Option<u32> {
        let (device, script) = self.devices.get(&item.device)?;
        script.as_ref().filter(|script| script.shape != "silent")?;
        let place = device.place(Property::Reading).filter(|place| place.ssdn == item.ssdn)?;
        Some(place.element)
    }

    /// Returns the raw reading of a scripted device at a time, for the element at the item's
    /// offset.
    pub(super) fn point(&mut self, item: &DeviceItem, millis: u64) -> Option<i32> {
        let random = self.chance();
        let (_, script) = self.devices.get(&item.device)?;
        let script = script.as_ref()?;
        if script.shape != "counter" {
            let element = self.scripted(item)?.max(1);
            return Some(shape(script, millis, u64::from(item.offset / element), random));
        }
        let count = self.counts.entry(item.device).or_default();
        *count = count.wrapping_add(1);
        Some(*count)
    }

    /// Returns a number from 0 to 1.
    pub(super) fn chance(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1u64 << 53) as f64
    }

    fn value(
        &mut self,
        item: &DeviceItem,
        property: Property,
        script: Option<&Script>,
        size: usize,
        element: usize,
        millis: u64,
    ) -> Vec<u8> {
        if let Some(set) = self.settings.get(&(item.device, item.property)) {
            return set.clone();
        }
        match (property, script) {
            (Property::Reading, Some(script)) if script.shape == "setting" => {
                let set = self.settings.get(&(item.device, Property::Setting.index())).cloned();
                set.unwrap_or_else(|| script.low.to_le_bytes()[..element.min(4)].to_vec())
            }
            (Property::Status, _) => vec![0b0_1011],
            (Property::Analog, script) => {
                let limits = script.map_or([0, 0], |script| script.alarm.unwrap_or([script.low, script.high]));
                let is_bad = script.filter(|script| script.alarm.is_some()).is_some_and(|script| {
                    let value = shape(script, millis, 0, 0.5);
                    value < limits[0] || value > limits[1]
                });
                // Enabled, two bytes, minimum and maximum.
                let mut block = vec![if is_bad { 0x23 } else { 0x21 }, 0x02];
                for limit in limits {
                    block.extend_from_slice(&limit.to_le_bytes());
                }
                block.extend_from_slice(&[0, 1]);
                block.resize(ALARM_SIZE, 0);
                block
            }
            (Property::Digital, _) => {
                let mut block = vec![0xa1, 0, 0x02, 0, 0, 0, 0x03, 0, 0, 0, 0, 1];
                block.resize(ALARM_SIZE, 0);
                block
            }
            (Property::Reading, None) if element > 4 => b"HELLO".to_vec(),
            (Property::Reading, Some(script)) => {
                let count = self.counts.entry(item.device).or_default();
                *count = count.wrapping_add(1);
                let count = *count;
                let elements = 0..(size / element.max(1)) as u64;
                elements
                    .flat_map(|place| {
                        let random = self.chance();
                        let value =
                            if script.shape == "counter" { count } else { shape(script, millis, place, random) };
                        value.to_le_bytes().into_iter().take(element)
                    })
                    .collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Returns the raw value of a script at a time.
fn shape(script: &Script, millis: u64, place: u64, random: f64) -> i32 {
    let seconds = millis as f64 / 1000.0 + place as f64 / 16.0;
    let share = (seconds / script.seconds.max(0.001)).fract();
    let share = match script.shape.as_str() {
        "ramp" => share,
        "sine" => (share * TAU).sin() / 2.0 + 0.5,
        "noise" => random,
        _ => 0.0,
    };
    script.low + (share * f64::from(script.high.saturating_sub(script.low))).round() as i32
}

const PROPERTIES: &[Property] =
    &[Property::Reading, Property::Setting, Property::Status, Property::Control, Property::Analog, Property::Digital];
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
