//! Rows: tables as they were read, and the records made from them if they are consistent.

use super::mistake::{At, Wrong, Wrongs};
use super::nodes::{NodeRow, rad50};
use super::places::{NamedPlace, PlaceRow, VARIABLE_TEXT};
use crate::blocks::{ALARM_SIZE, Attribute, Bit, ControlCommand, StatusBits, order};
use crate::database::record::RecordRow;
use crate::database::{
    AlarmProperty, ControlProperty, Database, DeviceNode, DeviceRecord, DeviceValue, NodeFaults, OwnNames,
    PropertyLimits, PropertyPlace, Script, SimulatedEvent, StatusProperty, Stored,
};
use crate::drf::{self, DrfEvent, Property};
use crate::rad50::Rad50;
use crate::scaling::{self, CommonTransform, Enumeration, Piece, Scaling, primary};

/// The whole file.
#[derive(Debug, Default)]
pub(super) struct DatabaseFile {
    pub(super) node: Vec<At<NodeRow>>,
    pub(super) device: Vec<At<DeviceRow>>,
    pub(super) names: Option<At<NamesRow>>,
    pub(super) record: Vec<At<RecordRow>>,
    pub(super) metric: Vec<At<RecordRow>>,
    pub(super) script: Vec<At<Script>>,
    pub(super) fault: Vec<At<NodeFaults>>,
    pub(super) event: Vec<At<SimulatedEvent>>,
}

#[derive(Debug, Default)]
pub(super) struct NamesRow {
    pub(super) aliases: Vec<At<String>>,
    pub(super) loggers: Vec<At<String>>,
    pub(super) clock: Option<At<String>>,
}

#[derive(Debug, Default)]
pub(super) struct DeviceRow {
    pub(super) index: At<u32>,
    pub(super) name: At<String>,
    pub(super) description: String,
    pub(super) long_name: String,
    pub(super) alarm_list: String,
    pub(super) protection: u32,
    pub(super) reading: Option<At<ValueRow>>,
    pub(super) setting: Option<At<ValueRow>>,
    pub(super) status: Option<At<StatusRow>>,
    pub(super) control: Option<At<ControlRow>>,
    pub(super) analog: Option<At<AlarmRow>>,
    pub(super) digital: Option<At<AlarmRow>>,
}

/// A row of a property, whose bytes are at a place in a front-end.
pub(super) trait Placed: Default {
    fn place(&mut self) -> &mut PlaceRow;
}

macro_rules! placed {
    ($($row:ident),*) => {$(
        impl Placed for $row {
            fn place(&mut self) -> &mut PlaceRow {
                &mut self.place
            }
        }
    )*};
}

placed!(ValueRow, StatusRow, ControlRow, AlarmRow);

macro_rules! limited {
    ($($row:ident),*) => {$(
        impl Limited for $row {
            fn limits(&mut self) -> &mut LimitsRow {
                &mut self.limits
            }
        }
    )*};
}

limited!(ValueRow, ControlRow, AlarmRow);

#[derive(Debug, Default)]
pub(super) struct ValueRow {
    pub(super) place: PlaceRow,
    pub(super) primary: Option<At<u16>>,
    pub(super) input_length: Option<At<u32>>,
    pub(super) primary_units: String,
    pub(super) common: Option<At<u16>>,
    pub(super) constants: Vec<f64>,
    pub(super) units: String,
    pub(super) table: Vec<(f64, f64)>,
    pub(super) pieces: Vec<PieceRow>,
    pub(super) names: Enumeration,
    pub(super) limits: LimitsRow,
}

/// The limits of a property's settings.
#[derive(Debug, Default)]
pub(super) struct LimitsRow {
    pub(super) min: Option<At<f64>>,
    pub(super) max: Option<At<f64>>,
    pub(super) allowed: Option<At<Vec<f64>>>,
}

/// A row whose property can be set within limits.
pub(super) trait Limited: Default {
    fn limits(&mut self) -> &mut LimitsRow;
}

#[derive(Debug, Default)]
pub(super) struct PieceRow {
    pub(super) below: f64,
    pub(super) common: u16,
    pub(super) constants: Vec<f64>,
}

#[derive(Debug, Default)]
pub(super) struct StatusRow {
    pub(super) place: PlaceRow,
    pub(super) on: Option<At<AttributeRow>>,
    pub(super) ready: Option<At<AttributeRow>>,
    pub(super) remote: Option<At<AttributeRow>>,
    pub(super) positive: Option<At<AttributeRow>>,
    pub(super) ramp: Option<At<AttributeRow>>,
    pub(super) bits: Vec<BitRow>,
}

#[derive(Debug, Default)]
pub(super) struct AttributeRow {
    pub(super) mask: u32,
    pub(super) matching: u32,
    pub(super) invert: bool,
    pub(super) yes: Option<char>,
    pub(super) no: Option<char>,
}

#[derive(Debug, Default)]
pub(super) struct BitRow {
    pub(super) bit: At<u8>,
    pub(super) name: String,
    pub(super) zero: String,
    pub(super) one: String,
}

#[derive(Debug, Default)]
pub(super) struct ControlRow {
    pub(super) place: PlaceRow,
    pub(super) commands: Vec<At<CommandRow>>,
    pub(super) limits: LimitsRow,
}

#[derive(Debug, Default)]
pub(super) struct CommandRow {
    pub(super) name: At<String>,
    pub(super) order: Option<At<u8>>,
    pub(super) value: u32,
    pub(super) long: String,
}

#[derive(Debug, Default)]
pub(super) struct AlarmRow {
    pub(super) place: PlaceRow,
    pub(super) text: String,
    pub(super) text_id: Option<u32>,
    pub(super) priority: u32,
    pub(super) url: String,
    pub(super) limits: LimitsRow,
}

impl NamesRow {
    pub(super) fn read(self, database: &Database) -> Result<OwnNames, Wrong> {
        let clock = self.clock.as_ref().map(|clock| read_clock(clock, database)).transpose()?;
        let aliases = self.aliases.iter().map(|alias| rad50(alias, "aliases")).collect::<Result<_, _>>()?;
        let logger = |name: &At<String>| match name.value.trim() {
            "" => Err(name.wrong("loggers", "a name that isn't empty")),
            word if word.contains([':', '@', '<']) => Err(name.wrong("loggers", "a name without :, @ and <")),
            word => Ok(word.to_ascii_uppercase()),
        };
        let loggers = self.loggers.iter().map(logger).collect::<Result<_, _>>()?;
        Ok(OwnNames { aliases, loggers, clock })
    }
}

/// Reads the request for the device that shows clock events: one that has a number.
fn read_clock(clock: &At<String>, database: &Database) -> Result<String, Wrong> {
    let wrong = |what: &str| clock.wrong("clock", what);
    let request = drf::Request::parse(&clock.value).map_err(|_| wrong("a device"))?;
    if request.event != DrfEvent::Default || request.model.is_some() {
        return Err(wrong("a device without an event"));
    }
    let target =
        database.find(&request).map_err(|_| wrong("a device of this file that has a reading").into_unfound())?;
    match (target.stored, request.property) {
        (Stored::FrontEnd(_), Property::Reading) => Ok(clock.value.clone()),
        _ => Err(wrong("a device of this file that has a reading").into_unfound()),
    }
}

impl DeviceRow {
    pub(super) fn read(self, nodes: &[DeviceNode]) -> Result<DeviceRecord, Wrong> {
        let mut wrongs = Wrongs::default();
        let canonical = drf::Request::parse(&self.name.value).map(|request| request.device.to_string());
        if canonical.as_deref() != Ok(&self.name.value) {
            wrongs.push(self.name.wrong("name", "a name such as M:OUTTMP, in upper case"));
        }
        if self.index.value > LARGEST_INDEX {
            wrongs.push(self.index.wrong("index", format!("at most {LARGEST_INDEX}: it has 24 bits")));
        }
        let device = DeviceRecord {
            index: self.index.value,
            name: self.name.value,
            description: self.description,
            long_name: self.long_name,
            alarm_list: self.alarm_list,
            protection: self.protection,
            reading: wrongs.keep(property(self.reading, "reading", |row| row.read(nodes))).flatten(),
            setting: wrongs.keep(property(self.setting, "setting", |row| row.read(nodes))).flatten(),
            status: wrongs.keep(property(self.status, "status", |row| row.read(nodes))).flatten(),
            control: wrongs.keep(property(self.control, "control", |row| row.read(nodes))).flatten(),
            analog: wrongs.keep(property(self.analog, "analog", |row| row.read(nodes))).flatten(),
            digital: wrongs.keep(property(self.digital, "digital", |row| row.read(nodes))).flatten(),
        };
        wrongs.end().map(|()| device)
    }
}

fn property<R, P>(
    row: Option<At<R>>,
    name: &str,
    read: impl FnOnce(R) -> Result<P, Wrong>,
) -> Result<Option<P>, Wrong> {
    let Some(At { value, span }) = row else { return Ok(None) };
    read(value).map(Some).map_err(|wrong| wrong.within(name).or_at(&span))
}

impl PlaceRow {
    /// Reads the place of a property that exists only on nodes of ACNET.
    fn read_acnet(self, nodes: &[DeviceNode], usual: u32) -> Result<PropertyPlace, Wrong> {
        if let Some(variable) = &self.variable {
            return Err(variable.wrong("pv", "only readings and settings can be process variables"));
        }
        if let Some(topic) = &self.topic {
            return Err(topic.wrong("topic", "only readings and settings can be topics"));
        }
        self.read(nodes, usual)
    }

    /// Reads a place. `usual` is the default size of an element.
    fn read(self, nodes: &[DeviceNode], usual: u32) -> Result<PropertyPlace, Wrong> {
        let name = Rad50::parse(&self.node.value).ok();
        let node = nodes.iter().position(|node| Some(node.name) == name);
        let node = node.ok_or_else(|| self.node.wrong("node", "the name of a [[node]] of this file").into_unfound())?;
        let named = self.within(nodes.get(node).map(|node| &node.reached), usual)?;
        let NamedPlace { ssdn, variable, topic } = named;
        let element = self.element.as_ref().map_or(usual, |element| element.value);
        let size = self.size.as_ref().map_or(element, |size| size.value);
        let default_size = self.default_size.as_ref().map_or(element, |size| size.value);
        if let Some(element) = self.element.as_ref().filter(|element| !(1..=LARGEST_SIZE).contains(&element.value)) {
            return Err(element.wrong("element", format!("from 1 to {LARGEST_SIZE}")));
        }
        let whole = |bytes: u32| bytes > 0 && (self.unframed || bytes.is_multiple_of(element));
        if let Some(wrong) = self.size.as_ref().filter(|size| !whole(size.value) || size.value > LARGEST_SIZE) {
            let what = format!("a multiple of element, which is {element}, and at most {LARGEST_SIZE}");
            return Err(wrong.wrong("size", what));
        }
        if !whole(default_size) || default_size > size {
            let what = format!("a multiple of element, which is {element}, and at most size, which is {size}");
            return Err(match &self.default_size {
                Some(wrong) => wrong.wrong("default_size", what),
                None => Wrong::new("size", what),
            });
        }
        let event = match &self.event {
            None if variable.is_some() || topic.is_some() => {
                DrfEvent::OnChange { period: drf::Time::Micros(100_000), at_once: true }
            }
            None => DrfEvent::Periodic { period: drf::Time::Micros(1_000_000), at_once: true },
            Some(text) => match drf::Request::parse(&format!("M:O@{}", text.value)).map(|request| request.event) {
                Ok(event) if event != DrfEvent::Default => event,
                _ => return Err(text.wrong("event", "an event such as P,1000 or I")),
            },
        };
        Ok(PropertyPlace { node, ssdn, variable, topic, size, default_size, element, event, unframed: self.unframed })
    }
}

impl ValueRow {
    /// Returns the index of the primary transform, the bytes of an element and of its number, and
    /// whether the property is a process variable.
    fn kind(&self) -> Result<(u16, u32, bool), Wrong> {
        match (&self.primary, self.place.variable.as_ref().or(self.place.topic.as_ref())) {
            // The place reports the missing key.
            (None, None) if self.place.ssdn.is_none() => Ok((primary::NONE, 2, false)),
            (None, None) => Err(Wrong::new("primary", "is missing; primary = 0, for example")),
            (Some(primary), None) => Ok((primary.value, 2, false)),
            (None, Some(_)) => Ok((primary::NONE, scaling::DOUBLE as u32, true)),
            (Some(primary), Some(_)) if primary.value == primary::STRING => Ok((primary::STRING, VARIABLE_TEXT, true)),
            (Some(primary), Some(_)) => {
                Err(primary.wrong("primary", "68 for a text; a process variable or topic that is a number has none"))
            }
        }
    }

    fn read(self, nodes: &[DeviceNode]) -> Result<DeviceValue, Wrong> {
        let (index, usual, is_variable) = self.kind()?;
        let is_text = index == primary::STRING;
        if let Some(given) = self.input_length.as_ref().filter(|_| is_variable) {
            return Err(given.wrong("input_length", "a process variable or topic has none"));
        }
        let place = self.place.read(nodes, usual)?;
        let input = match is_variable && !is_text {
            true => scaling::DOUBLE,
            false => input_length(self.input_length.as_ref(), place.element, index)?,
        };
        if let Some(primary) = self.primary.as_ref().filter(|_| !is_text && primary::limits(index, input) == (0.0, 0.0))
        {
            let what = format!("an even number up to 84: there is no primary transform {index}");
            return Err(primary.wrong("primary", what));
        }
        let pieces = self.pieces.into_iter().map(|piece| Piece {
            below: piece.below,
            common: CommonTransform { index: piece.common, constants: piece.constants, ..CommonTransform::default() },
        });
        // The text of a variable is characters, unless the file specifies otherwise.
        let is_plain = is_variable && is_text && self.common.is_none();
        let common = CommonTransform {
            index: self.common.as_ref().map_or(if is_plain { 60 } else { 0 }, |common| common.value),
            constants: if is_plain { vec![8.0] } else { self.constants },
            table: self.table,
            pieces: pieces.collect(),
        };
        if let Err(what) = common.check() {
            return Err(match &self.common {
                Some(row) => row.wrong("common", &*what),
                None => Wrong::new("common", &*what),
            });
        }
        let scaling = Scaling { primary: index, input, common };
        if index == primary::STRING && scaling.text().is_none() {
            let what = "strings need common 60 or 84 and a first constant of 2, 3, 8, 12, 288 or 289";
            return Err(self.primary.as_ref().map_or(Wrong::new("primary", what), |row| row.wrong("primary", what)));
        }
        let limits = self.limits.read()?;
        Ok(DeviceValue {
            place,
            scaling,
            primary_units: self.primary_units,
            units: self.units,
            names: self.names,
            limits,
        })
    }
}

impl LimitsRow {
    fn read(self) -> Result<PropertyLimits, Wrong> {
        let number = |at: &Option<At<f64>>| at.as_ref().map(|at| at.value);
        let allowed = self.allowed.as_ref().map(|at| at.value.clone());
        if allowed.as_ref().is_some_and(Vec::is_empty) {
            return Err(self.wrong("allowed", "at least one number"));
        }
        let limits =
            PropertyLimits { min: number(&self.min), max: number(&self.max), allowed: allowed.unwrap_or_default() };
        match limits.mistake() {
            None => Ok(limits),
            Some((field, what)) => Err(self.wrong(field, what)),
        }
    }

    fn wrong(&self, field: &str, what: &str) -> Wrong {
        let number = if field == "min" { &self.min } else { &self.max };
        match (field, number, &self.allowed) {
            ("min" | "max", Some(number), _) => number.wrong(field, what),
            ("allowed", _, Some(allowed)) => allowed.wrong(field, what),
            _ => Wrong::new(field, what),
        }
    }
}

/// Returns the number of bytes of an element that hold its number.
fn input_length(given: Option<&At<u32>>, element: u32, primary: u16) -> Result<usize, Wrong> {
    match given {
        Some(_) if primary == primary::STRING => {
            let what = "texts have none: all of an element is the text";
            Err(given.map_or(Wrong::new("input_length", what), |given| given.wrong("input_length", what)))
        }
        Some(given) if matches!(given.value, 1 | 2 | 4) && given.value <= element => Ok(given.value as usize),
        Some(given) => Err(given.wrong("input_length", format!("1, 2 or 4, and at most element, which is {element}"))),
        None if primary == primary::STRING => Ok(4),
        None if matches!(element, 1 | 2 | 4) => Ok(element as usize),
        None => {
            let what = format!("is missing: 1, 2 or 4, the bytes of each element of {element} that hold its number");
            Err(Wrong::new("input_length", what))
        }
    }
}

impl StatusRow {
    fn read(self, nodes: &[DeviceNode]) -> Result<StatusProperty, Wrong> {
        let attribute = |row: At<AttributeRow>| {
            let AttributeRow { mask, matching, invert, yes, no } = row.value;
            Attribute { mask, matching, invert, yes, no }
        };
        let place = self.place.read_acnet(nodes, 2)?;
        let bits = StatusBits {
            on: self.on.map(attribute),
            ready: self.ready.map(attribute),
            remote: self.remote.map(attribute),
            positive: self.positive.map(attribute),
            ramp: self.ramp.map(attribute),
        };
        let mut names: Vec<Bit> = Vec::new();
        for row in self.bits {
            let number = row.bit.value;
            if number > 31 || names.iter().any(|other| other.number == number) {
                return Err(row.bit.wrong("bits.bit", "0 to 31, and each once"));
            }
            names.push(Bit { number, name: row.name, zero: row.zero, one: row.one });
        }
        Ok(StatusProperty { place, bits, names })
    }
}

impl ControlRow {
    fn read(self, nodes: &[DeviceNode]) -> Result<ControlProperty, Wrong> {
        let place = self.place.read_acnet(nodes, 2)?;
        let mut commands: Vec<ControlCommand> = Vec::new();
        for At { value: row, span } in self.commands {
            let known = row.order.as_ref().map(|order| order.value).or_else(|| order(&row.name.value));
            let order = known.ok_or_else(|| {
                let what =
                    "RESET, ON, OFF, POSITIVE, NEGATIVE, RAMP, DC, LOCAL, REMOTE or TRIP; other names need an order";
                row.name.wrong("commands.name", what)
            })?;
            if row.name.value.is_empty() {
                return Err(row.name.wrong("commands.name", "a name that isn't empty"));
            }
            let names = [&row.name.value, &row.long];
            let is_taken = |other: &ControlCommand| {
                let taken = [&other.short, &other.long];
                other.order == order
                    || names.iter().any(|name| {
                        !name.is_empty() && taken.iter().any(|taken| taken.eq_ignore_ascii_case(name.as_str()))
                    })
            };
            if commands.iter().any(is_taken) {
                let what = format!("another command has this name or the order {order}");
                return Err(Wrong::new("commands", what).or_at(&span));
            }
            commands.push(ControlCommand { order, value: row.value, short: row.name.value, long: row.long });
        }
        Ok(ControlProperty { place, commands, limits: self.limits.read()? })
    }
}

impl AlarmRow {
    fn read(self, nodes: &[DeviceNode]) -> Result<AlarmProperty, Wrong> {
        let AlarmRow { place, text, text_id, priority, url, limits } = self;
        let place = place.read_acnet(nodes, ALARM_SIZE as u32)?;
        Ok(AlarmProperty { place, text, text_id, priority, url, limits: limits.read()? })
    }
}

/// The largest index, which has 24 bits in a front-end request.
const LARGEST_INDEX: u32 = 0xff_ffff;
/// The largest size in bytes, which fits one datagram in both directions.
const LARGEST_SIZE: u32 = 8192;
