//! Players: the values that simulated devices show.

use std::collections::HashMap;
use std::f64::consts::TAU;
use std::sync::Arc;

use crate::acnet::DeviceItem;
use crate::blocks::{ALARM_SIZE, AlarmBlock, Attribute, StatusBits};
use crate::database::{Database, DeviceRecord, Script, played_raw};
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
        let (Some((device, script)), Some(property), Some(place)) = (
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
        let played = (&*device, script.as_ref());
        let mut bytes = self.value(item, property, played, place.size as usize, place.element as usize, millis);
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
        if setting == Some(Property::Control) {
            let command = word(bytes);
            self.obey(item.device, command);
        }
        Status::SUCCESS
    }

    /// Changes the basic status of a device as a command says.
    fn obey(&mut self, device: u32, value: u32) {
        let Some((record, script)) = self.devices.get(&device) else { return };
        let commands = record.control.as_ref().map(|control| control.commands.as_slice()).unwrap_or_default();
        let (Some(command), Some(status)) = (commands.iter().find(|command| command.value == value), &record.status)
        else {
            return;
        };
        let named = script.iter().flat_map(|script| &script.status);
        let named = named.filter(|(name, _)| name.eq_ignore_ascii_case(&command.short)).map(|(_, word)| *word).next();
        let size = status.place.size as usize;
        let word = named.or_else(|| Some(commanded_attribute(&status.bits, command.order)?.put(self.status(device))));
        if let Some(word) = word {
            let mut bytes = word.to_le_bytes().to_vec();
            bytes.resize(size, 0);
            self.settings.insert((device, Property::Status.index()), bytes);
        }
    }

    /// Returns the word of a device's basic status.
    fn status(&self, device: u32) -> u32 {
        self.settings.get(&(device, Property::Status.index())).map_or(STATUS, |bytes| word(bytes))
    }

    /// Returns the raw reading of a device now.
    pub(super) fn state(&self, device: u32, millis: u64) -> Option<i32> {
        let (record, script) = self.devices.get(&device)?;
        Some(script.as_ref().map_or(0, |script| raw(record, script, shape(script, millis, 0, 0.5))))
    }

    /// Returns the size of one element of a scripted reading, in bytes.
    pub(super) fn element_size(&self, item: &DeviceItem) -> Option<u32> {
        let (device, script) = self.devices.get(&item.device)?;
        script.as_ref().filter(|script| script.shape != "silent")?;
        let place = device.place(Property::Reading).filter(|place| place.ssdn == item.ssdn)?;
        Some(place.element)
    }

    /// Returns the raw reading of a scripted device at a time, for the element at the item's
    /// offset.
    pub(super) fn point(&mut self, item: &DeviceItem, millis: u64) -> Option<i32> {
        let random = self.chance();
        let (device, script) = self.devices.get(&item.device)?;
        let script = script.as_ref()?;
        if script.shape != "counter" {
            let element = self.element_size(item)?.max(1);
            return Some(raw(device, script, shape(script, millis, u64::from(item.offset / element), random)));
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
        (device, script): (&DeviceRecord, Option<&Script>),
        size: usize,
        element: usize,
        millis: u64,
    ) -> Vec<u8> {
        let set = self.settings.get(&(item.device, item.property)).cloned();
        match (property, script) {
            (Property::Analog, script) => {
                let block = set.unwrap_or_else(|| analog(device, script));
                let Some(script) = script.filter(|script| script.alarm.is_some()) else { return block };
                let raw = raw(device, script, shape(script, millis, 0, 0.5));
                with_alarm_state(block, |alarm| is_outside(device, script, alarm, raw))
            }
            (Property::Digital, script) => {
                let bits = script.and_then(|script| script.digital);
                let block = set.unwrap_or_else(|| digital(bits));
                let status = self.status(item.device);
                let is_bad = |alarm: &AlarmBlock| {
                    let (nominal, mask) = alarm.bits();
                    status & mask != nominal & mask
                };
                if bits.is_some() { with_alarm_state(block, is_bad) } else { block }
            }
            _ if set.is_some() => set.unwrap_or_default(),
            (Property::Reading, Some(script)) if script.shape == "setting" => {
                let set = self.settings.get(&(item.device, Property::Setting.index())).cloned();
                set.unwrap_or_else(|| number_bytes(raw(device, script, script.low), element))
            }
            (Property::Status, _) => STATUS.to_le_bytes().to_vec(),
            (Property::Reading, Some(Script { text: Some(text), .. })) => text_bytes(device, text, size),
            (Property::Reading, None) if element > 4 => b"HELLO".to_vec(),
            (Property::Reading, Some(script)) => {
                let count = self.counts.entry(item.device).or_default();
                *count = count.wrapping_add(1);
                let count = *count;
                let elements = 0..(size / element.max(1)) as u64;
                elements
                    .flat_map(|place| {
                        let random = self.chance();
                        let value = match script.shape.as_str() {
                            "counter" => count,
                            _ => raw(device, script, shape(script, millis, place, random)),
                        };
                        number_bytes(value, element)
                    })
                    .collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Returns the bytes of a raw number, as many as an element has.
fn number_bytes(raw: i32, element: usize) -> Vec<u8> {
    let mut bytes = raw.to_le_bytes().to_vec();
    bytes.resize(element, 0);
    bytes
}

/// Returns the number in up to four bytes.
fn word(bytes: &[u8]) -> u32 {
    let mut word = [0; 4];
    word.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
    u32::from_le_bytes(word)
}

/// Returns the bytes of a text in each element of a reading.
fn text_bytes(device: &DeviceRecord, text: &str, size: usize) -> Vec<u8> {
    let Some(reading) = &device.reading else { return Vec::new() };
    let element = reading.place.element as usize;
    // The file was checked for texts that can't be written.
    let bytes = reading.scaling.text().and_then(|kind| kind.write(text, element, &reading.names).ok());
    bytes.unwrap_or_default().repeat(size / element.max(1))
}

/// Returns the raw number of a script's value; 0 if no raw number scales to it.
fn raw(device: &DeviceRecord, script: &Script, number: f64) -> i32 {
    let number = if script.is_scaled { number } else { number.round() };
    played_raw(script, device.reading.as_ref(), number).unwrap_or_default()
}

/// Returns an enabled analog block with the minimum and maximum of a script. It says that these
/// have two bytes if both fit, and otherwise four.
fn analog(device: &DeviceRecord, script: Option<&Script>) -> Vec<u8> {
    let limits = script.map_or([0, 0], |script| {
        script.alarm.unwrap_or([script.low, script.high]).map(|limit| raw(device, script, limit))
    });
    let mut block = vec![0x21, 0x02];
    if limits.iter().any(|limit| i16::try_from(*limit).is_err()) {
        block[0] = 0x41;
    }
    for limit in limits {
        block.extend_from_slice(&limit.to_le_bytes());
    }
    block.extend_from_slice(&[0, 1]);
    block.resize(ALARM_SIZE, 0);
    block
}

/// Returns an enabled digital block with nominal bits and mask.
fn digital(bits: Option<[u32; 2]>) -> Vec<u8> {
    let [nominal, mask] = bits.unwrap_or([2, 3]);
    let mut block = vec![if bits.is_some() { 0xc1 } else { 0xa1 }, 0];
    block.extend_from_slice(&nominal.to_le_bytes());
    block.extend_from_slice(&mask.to_le_bytes());
    block.extend_from_slice(&[0, 1]);
    block.resize(ALARM_SIZE, 0);
    block
}

/// Returns an alarm block whose flag says whether the device is in alarm; a disabled block never
/// says so.
fn with_alarm_state(mut block: Vec<u8>, is_bad: impl FnOnce(&AlarmBlock) -> bool) -> Vec<u8> {
    if let Some(alarm) = AlarmBlock::read(&block) {
        let is_bad = alarm.is_enabled() && is_bad(&alarm);
        block[0] = block[0] & !BAD | if is_bad { BAD } else { 0 };
    }
    block
}

/// Returns whether a raw reading is outside of the limits of a block.
fn is_outside(device: &DeviceRecord, script: &Script, alarm: &AlarmBlock, raw: i32) -> bool {
    let limits = alarm.limits();
    let scaling = device.reading.as_ref().map(|reading| &reading.scaling).filter(|_| script.is_scaled);
    // Raw numbers of floats aren't in the order of the floats.
    let number = |raw: f64| scaling.and_then(|scaling| scaling.to_common(&scaling.bytes(raw as i32).ok()?).ok());
    let number = |raw: f64| number(raw).unwrap_or(raw);
    let (low, high) = (number(limits.minimum), number(limits.maximum));
    let value = number(f64::from(raw));
    value < low.min(high) || value > low.max(high)
}

/// The attribute that a command changes, and its value afterwards.
struct CommandedAttribute(Attribute, bool);

impl CommandedAttribute {
    /// Returns a status word with the attribute as the command wants it.
    fn put(&self, word: u32) -> u32 {
        let CommandedAttribute(Attribute { mask, matching, invert, .. }, truth) = *self;
        word & !mask | if truth != invert { matching } else { !matching & mask }
    }
}

/// Returns the attribute that a command of the fixed order changes.
fn commanded_attribute(bits: &StatusBits, order: u8) -> Option<CommandedAttribute> {
    let (attribute, truth) = match order {
        0 => (bits.ready, true),
        1 => (bits.on, true),
        2 => (bits.on, false),
        3 => (bits.positive, true),
        4 => (bits.positive, false),
        5 => (bits.ramp, true),
        6 => (bits.ramp, false),
        7 => (bits.remote, false),
        8 => (bits.remote, true),
        9 => (bits.ready, false),
        _ => return None,
    };
    attribute.map(|attribute| CommandedAttribute(attribute, truth))
}

/// Returns the value that a script has at a time, raw or scaled as the script's numbers are.
fn shape(script: &Script, millis: u64, place: u64, random: f64) -> f64 {
    let seconds = millis as f64 / 1000.0 + place as f64 / 16.0;
    let share = (seconds / script.seconds.max(0.001)).fract();
    let share = match script.shape.as_str() {
        "ramp" => share,
        "sine" => (share * TAU).sin() / 2.0 + 0.5,
        "noise" => random,
        _ => 0.0,
    };
    script.low + share * (script.high - script.low)
}

/// The basic status of a device that got no command.
const STATUS: u32 = 0b0_1011;
/// The flag of an alarm block that is in alarm.
const BAD: u8 = 1 << 1;
const PROPERTIES: &[Property] =
    &[Property::Reading, Property::Setting, Property::Status, Property::Control, Property::Analog, Property::Digital];
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::Mistake;

    const NODE: &str = "[[node]]\nname = 'FE'\naddress = '0c23'\nsocket = '127.0.0.1:6801'\nprotocol = 'RETDAT'\n";
    const FLOAT: &str = "[[device]]\nindex = 1\nname = 'M:FLOAT'\n[device.reading]\nnode = 'FE'\n\
                         ssdn = '0000000000000001'\nelement = 4\nsize = 8\ndefault_size = 8\nprimary = 16\n\
                         [device.analog]\nnode = 'FE'\nssdn = '0000000000000002'\n";
    const SWITCH: &str = "[[device]]\nindex = 2\nname = 'M:SWITCH'\n[device.reading]\nnode = 'FE'\n\
                          ssdn = '0000000000000003'\nelement = 8\nprimary = 68\ncommon = 60\nconstants = [8.0]\n\
                          [device.status]\nnode = 'FE'\nssdn = '0000000000000004'\non = { mask = 4, match = 4 }\n\
                          remote = { mask = 0x30, match = 0x10, invert = true }\n\
                          [device.control]\nnode = 'FE'\nssdn = '0000000000000005'\n\
                          commands = [{ name = 'ON', value = 7 }, { name = 'OFF', value = 8 }, { name = 'REMOTE', value = 9 }]\n\
                          [device.digital]\nnode = 'FE'\nssdn = '0000000000000006'\n";

    fn database(rest: &str) -> Result<Database, Mistake> {
        Database::read(&format!("{NODE}{FLOAT}{SWITCH}{rest}"))
    }

    fn item(database: &Database, name: &str, property: Property) -> DeviceItem {
        let device = database.by_name(name).expect("a device");
        let place = device.place(property).expect("a property");
        let (ssdn, length) = (place.ssdn, place.size);
        DeviceItem { device: device.index, property: property.index(), ssdn, length, offset: 0 }
    }

    /// Returns what a device says, without its status.
    fn play(player: &mut Player, item: &DeviceItem, millis: u64) -> Vec<u8> {
        let mut body = Vec::new();
        player.play(item, millis, &mut body).expect("an answer");
        body.split_off(2)
    }

    #[test]
    fn floats_are_played_in_engineering_units() {
        let script = "[[script]]\ndevice = 'M:FLOAT'\nshape = 'ramp'\nlow = 1.5\nhigh = 9.5\nseconds = 8.0\nscaled = true\n\
                      alarm = [-2.0, 5.0]\n";
        let database = database(script).expect("a good file");
        let mut player = Player::new(&database);
        let reading = item(&database, "M:FLOAT", Property::Reading);
        let bytes = play(&mut player, &reading, 2000);
        let floats: Vec<f32> =
            bytes.chunks_exact(4).map(|float| f32::from_le_bytes([float[0], float[1], float[2], float[3]])).collect();
        assert_eq!(floats, [3.5, 3.5625]);
        let alarm = item(&database, "M:FLOAT", Property::Analog);
        let mut is_bad = |millis| AlarmBlock::read(&play(&mut player, &alarm, millis)).expect("a block").is_bad();
        assert_eq!([is_bad(2000), is_bad(6000)], [false, true]);
    }

    #[test]
    fn commands_change_the_status_and_the_digital_alarm_goes_by_it() {
        let off_on_remote = [8u16, 7, 9];
        for (keys, seen, is_good) in [
            // Without words of the script: bit 2 is on, bits 4 and 5 are not 01 for remote.
            ("", [0b00_1011, 0b00_1111, 0b10_1111], true),
            ("status = { OFF = 2, ON = 3, REMOTE = 35 }\n", [2, 3, 35], false),
        ] {
            let script = format!(
                "[[script]]\ndevice = 'M:SWITCH'\nshape = 'constant'\ntext = 'COOLING'\ndigital = [4, 4]\n{keys}"
            );
            let database = database(&script).expect("a good file");
            let mut player = Player::new(&database);
            let [control, status, digital, reading] =
                [Property::Control, Property::Status, Property::Digital, Property::Reading]
                    .map(|property| item(&database, "M:SWITCH", property));
            assert_eq!(play(&mut player, &reading, 0), *b"COOLING\0");
            assert_eq!(word(&play(&mut player, &status, 0)), STATUS);
            let words = off_on_remote.map(|value| {
                assert_eq!(player.set(&control, &value.to_le_bytes()), Status::SUCCESS);
                word(&play(&mut player, &status, 0))
            });
            assert_eq!(words, seen, "{keys}");
            let alarm = AlarmBlock::read(&play(&mut player, &digital, 0)).expect("a block");
            assert_eq!((alarm.bits(), alarm.is_bad()), ((4, 4), !is_good), "{keys}");
        }
    }

    #[test]
    fn events_of_the_file_come_besides_those_of_the_generator() {
        let events = "[[event]]\nnumber = 0x10\nevery_ms = 700\n[[event]]\nnumber = 2\nevery_ms = 100\n";
        let clock = super::super::event::SimulatedClock::new(&database(events).expect("a good file"));
        let next = |event: &str| super::super::event::SimulatedTimes::of_text(event, &clock).next(1000);
        assert_eq!(
            [next("e,10,e,0"), next("e,2,e,0"), next("e,1d,e,0"), next("e,11,e,0")],
            [Some(1400), Some(1100), Some(2001), None]
        );
    }

    #[test]
    fn scripts_that_cannot_be_played_are_mistakes() {
        for (rest, field) in [
            ("device = 'M:FLOAT'\nshape = 'constant'\nlow = 1.5\n", "script.low"),
            ("device = 'M:FLOAT'\nshape = 'sine'\nhigh = 1e300\nscaled = true\n", "script.high"),
            ("device = 'M:FLOAT'\nshape = 'constant'\ntext = 'A'\n", "script.text"),
            ("device = 'M:SWITCH'\nshape = 'constant'\ntext = 'MUCH TOO LONG'\n", "script.text"),
            ("device = 'M:SWITCH'\nshape = 'constant'\nstatus = { TRIP = 3 }\n", "script.status"),
            ("device = 'M:SWITCH'\nshape = 'constant'\nstatus = { ON = 'x' }\n", "script.status.ON"),
        ] {
            let mistake = database(&format!("[[script]]\n{rest}")).expect_err(rest);
            assert_eq!(mistake.field, field, "{mistake}");
        }
        assert_eq!(database("[[event]]\nnumber = 2\nevery_ms = 0\n").expect_err("no period").field, "event.every_ms");
    }
}
