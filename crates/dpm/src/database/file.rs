//! The file that the database is read from: TOML, with tables `[[node]]` and `[[device]]`, for what is recorded `[[record]]`, and for simulated
//! front-ends `[[script]]` and `[[fault]]`.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;
use toml::Spanned;

use super::record::RecordRow;
use super::{AlarmProperty, ControlProperty, Database, Device, Limits, Node, Place, Protocol, StatusProperty, Value};
use crate::blocks::{ALARM_SIZE, Attribute, Bit, Command, StatusBits, order};
use crate::drf::{self, Event};
use crate::rad50::Rad50;
use crate::scaling::{Common, Piece, Scaling, primary};

/// What is wrong with a file, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The line, from 1 on.
    pub line: usize,
    /// The field, such as `device.reading.ssdn`; empty if the file is no TOML.
    pub field: String,
    /// What is wrong.
    pub what: String,
}

impl std::fmt::Display for Mistake {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.field.as_str() {
            "" => write!(formatter, "line {}: {}", self.line, self.what),
            field => write!(formatter, "line {}, {field}: {}", self.line, self.what),
        }
    }
}

impl std::error::Error for Mistake {}

/// What a simulated front-end plays for a device.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The device.
    pub device: String,
    /// `constant`, `ramp`, `sine`, `noise`, `counter`, `setting` (what it was set to) or `silent`.
    pub shape: String,
    /// The lowest raw value, or the constant one.
    #[serde(default)]
    pub low: i32,
    /// The highest raw value.
    #[serde(default)]
    pub high: i32,
    /// How long a ramp or sine takes, in seconds.
    #[serde(default = "one")]
    pub seconds: f64,
    /// The limits of its analog alarm, raw; without them all that it plays is good.
    pub alarm: Option<[i32; 2]>,
}

/// What is wrong with a simulated node.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// The node.
    pub node: String,
    /// How late its answers are, in milliseconds.
    #[serde(default)]
    pub delay_millis: u64,
    /// Which share of its answers is lost, from 0 to 1.
    #[serde(default)]
    pub loss: f64,
    /// How long it works at a time, in seconds; always if 0.
    #[serde(default)]
    pub up_seconds: u64,
    /// How long it is dead then, in seconds.
    #[serde(default)]
    pub down_seconds: u64,
}

impl Fault {
    /// Is the node dead at a time?
    pub(crate) fn is_down(&self, millis: u64) -> bool {
        self.up_seconds > 0 && millis % self.cycle() >= self.up_seconds * 1000
    }

    /// How often it was restarted before a time.
    pub(crate) fn restarts(&self, millis: u64) -> u64 {
        if self.up_seconds > 0 { millis / self.cycle() } else { 0 }
    }

    fn cycle(&self) -> u64 {
        (self.up_seconds + self.down_seconds) * 1000
    }
}

/// Reads a file.
pub(super) fn read(text: &str) -> Result<Database, Mistake> {
    let file: File = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line(text, &span));
        let names_field = error.message().starts_with("unknown field") || error.message().starts_with("missing field");
        let field = error.message().split('`').nth(1).filter(|_| names_field).unwrap_or_default();
        Mistake { line, field: field.to_owned(), what: error.message().to_owned() }
    })?;
    let mut database = Database::default();
    for row in file.node {
        let span = row.span();
        let node = row.into_inner().read().map_err(|mistake| mistake.at(text, &span, "node"))?;
        if database.nodes.iter().any(|other| other.name == node.name || other.address == node.address) {
            return Err(Wrong::new("name", "another node has this name or address").at(text, &span, "node"));
        }
        database.nodes.push(node);
    }
    for row in file.device {
        let span = row.span();
        let device = row.into_inner().read(&database.nodes).map_err(|mistake| mistake.at(text, &span, "device"))?;
        let number = database.devices.len();
        let taken = database.names.insert(device.name.clone(), number).is_some();
        if taken || database.indices.insert(device.index, number).is_some() {
            return Err(Wrong::new("name", "another device has this name or index").at(text, &span, "device"));
        }
        database.devices.push(Arc::new(device));
    }
    for row in file.script {
        let span = row.span();
        let script = row.into_inner();
        if database.named(&script.device).is_none() {
            return Err(Wrong::new("device", "there is no such device").at(text, &span, "script"));
        }
        if !SHAPES.contains(&script.shape.as_str()) {
            return Err(Wrong::new("shape", format!("one of {}", SHAPES.join(", "))).at(text, &span, "script"));
        }
        database.scripts.push(script);
    }
    for row in file.fault {
        let span = row.span();
        let fault = row.into_inner();
        if !database.nodes.iter().any(|node| node.name.to_string() == fault.node) {
            return Err(Wrong::new("node", "there is no such node").at(text, &span, "fault"));
        }
        database.faults.push(fault);
    }
    for row in file.record {
        let span = row.span();
        let request = row.into_inner().read(&database).map_err(|wrong| wrong.at(text, &span, "record"))?;
        database.records.push(request);
    }
    Ok(database)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    node: Vec<Spanned<NodeRow>>,
    #[serde(default)]
    device: Vec<Spanned<DeviceRow>>,
    #[serde(default)]
    script: Vec<Spanned<Script>>,
    #[serde(default)]
    fault: Vec<Spanned<Fault>>,
    #[serde(default)]
    record: Vec<Spanned<RecordRow>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeRow {
    name: Spanned<String>,
    address: Spanned<String>,
    socket: Spanned<String>,
    protocol: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceRow {
    index: u32,
    name: Spanned<String>,
    #[serde(default)]
    description: String,
    #[serde(default)]
    long_name: String,
    #[serde(default)]
    alarm_list: String,
    #[serde(default)]
    protection: u32,
    reading: Option<ValueRow>,
    setting: Option<ValueRow>,
    status: Option<StatusRow>,
    control: Option<ControlRow>,
    analog: Option<AlarmRow>,
    digital: Option<AlarmRow>,
}

struct PlaceRow {
    node: Spanned<String>,
    ssdn: Spanned<String>,
    size: Option<Spanned<u32>>,
    default_size: Option<Spanned<u32>>,
    element: Option<Spanned<u32>>,
    event: Option<Spanned<String>>,
    unframed: bool,
}

/// A row of a property: where it lives, and more. `serde(flatten)` would lose the lines and let unknown fields pass.
macro_rules! placed {
    ($name:ident { $($(#[$attribute:meta])* $field:ident: $type:ty,)* }) => {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct $name {
            node: Spanned<String>,
            ssdn: Spanned<String>,
            size: Option<Spanned<u32>>,
            default_size: Option<Spanned<u32>>,
            element: Option<Spanned<u32>>,
            event: Option<Spanned<String>>,
            #[serde(default)]
            unframed: bool,
            $($(#[$attribute])* $field: $type,)*
        }

        impl $name {
            fn place(&self) -> PlaceRow {
                PlaceRow {
                    node: self.node.clone(),
                    ssdn: self.ssdn.clone(),
                    size: self.size.clone(),
                    default_size: self.default_size.clone(),
                    element: self.element.clone(),
                    event: self.event.clone(),
                    unframed: self.unframed,
                }
            }
        }
    };
}

placed! {
    ValueRow {
        primary: Spanned<u16>,
        #[serde(default)]
        primary_units: String,
        common: Option<Spanned<u16>>,
        #[serde(default)]
        constants: Vec<f64>,
        #[serde(default)]
        table: Vec<(f64, f64)>,
        #[serde(default)]
        pieces: Vec<PieceRow>,
        #[serde(default)]
        units: String,
        #[serde(default)]
        names: Vec<(i32, String)>,
        min: Option<Spanned<f64>>,
        max: Option<Spanned<f64>>,
        allowed: Option<Spanned<Vec<f64>>>,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PieceRow {
    below: f64,
    common: u16,
    #[serde(default)]
    constants: Vec<f64>,
}

placed! {
    StatusRow {
        on: Option<AttributeRow>,
        ready: Option<AttributeRow>,
        remote: Option<AttributeRow>,
        positive: Option<AttributeRow>,
        ramp: Option<AttributeRow>,
        #[serde(default)]
        bits: Vec<BitRow>,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AttributeRow {
    mask: u32,
    #[serde(rename = "match")]
    matching: u32,
    #[serde(default)]
    invert: bool,
    yes: Option<char>,
    no: Option<char>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BitRow {
    bit: Spanned<u8>,
    name: String,
    #[serde(default)]
    zero: String,
    #[serde(default)]
    one: String,
}

placed! {
    ControlRow {
        commands: Vec<CommandRow>,
        allowed: Option<Spanned<Vec<f64>>>,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CommandRow {
    name: Spanned<String>,
    value: u32,
    #[serde(default)]
    long: String,
}

placed! {
    AlarmRow {
        #[serde(default)]
        text: String,
        min: Option<Spanned<f64>>,
        max: Option<Spanned<f64>>,
    }
}

impl NodeRow {
    fn read(self) -> Result<Node, Wrong> {
        let name = Rad50::parse(self.name.get_ref())
            .map_err(|_| Wrong::of(&self.name, "name", "no name of up to six characters"))?;
        let address = u16::from_str_radix(self.address.get_ref(), 16);
        let address =
            address.map_err(|_| Wrong::of(&self.address, "address", "four hexadecimal digits: trunk and node"))?;
        let socket: Result<SocketAddr, _> = self.socket.get_ref().parse();
        let socket =
            socket.map_err(|_| Wrong::of(&self.socket, "socket", "an address with its port, such as 10.0.0.5:6801"))?;
        let protocol = match self.protocol.get_ref().as_str() {
            "RETDAT" => Protocol::Retdat,
            "GETS32" => Protocol::Gets32,
            _ => return Err(Wrong::of(&self.protocol, "protocol", "RETDAT or GETS32")),
        };
        Ok(Node { name, address, socket, protocol })
    }
}

impl DeviceRow {
    fn read(self, nodes: &[Node]) -> Result<Device, Wrong> {
        let canonical = drf::Request::parse(self.name.get_ref()).map(|request| request.device.to_string());
        if canonical.as_deref() != Ok(self.name.get_ref()) {
            return Err(Wrong::of(&self.name, "name", "a name such as M:OUTTMP, in upper case"));
        }
        if self.index > LARGEST_INDEX {
            return Err(Wrong::new("index", "at most 24 bits"));
        }
        let value = |row: ValueRow, property: &'static str| {
            let given = row.min.as_ref().or(row.max.as_ref()).map(Spanned::span);
            let given = given.or(row.allowed.as_ref().map(Spanned::span)).filter(|_| property == "reading");
            match given {
                Some(span) => {
                    Err(Wrong { span: Some(span), ..Wrong::new("reading", "min, max and allowed are of settings") })
                }
                None => row.read(nodes).map_err(|wrong| wrong.within(property)),
            }
        };
        let alarm = |row: AlarmRow, property: &'static str| {
            let place = row.place().read(nodes, ALARM_SIZE as u32).map_err(|wrong| wrong.within(property))?;
            let limits = limits(row.min, row.max, None).map_err(|wrong| wrong.within(property))?;
            if property == "digital" && !limits.is_empty() {
                return Err(Wrong::new("digital", "min and max are of analog alarms"));
            }
            Ok(AlarmProperty { place, text: row.text, limits })
        };
        Ok(Device {
            index: self.index,
            name: self.name.into_inner(),
            description: self.description,
            long_name: self.long_name,
            alarm_list: self.alarm_list,
            protection: self.protection,
            reading: self.reading.map(|row| value(row, "reading")).transpose()?,
            setting: self.setting.map(|row| value(row, "setting")).transpose()?,
            status: self.status.map(|row| row.read(nodes).map_err(|wrong| wrong.within("status"))).transpose()?,
            control: self.control.map(|row| row.read(nodes).map_err(|wrong| wrong.within("control"))).transpose()?,
            analog: self.analog.map(|row| alarm(row, "analog")).transpose()?,
            digital: self.digital.map(|row| alarm(row, "digital")).transpose()?,
        })
    }
}

impl PlaceRow {
    /// `usual` is the size of an element if the file does not say.
    fn read(self, nodes: &[Node], usual: u32) -> Result<Place, Wrong> {
        let name = Rad50::parse(self.node.get_ref()).ok();
        let node = nodes.iter().position(|node| Some(node.name) == name);
        let node = node.ok_or_else(|| Wrong::of(&self.node, "node", "there is no such node above"))?;
        let ssdn =
            unhex(self.ssdn.get_ref()).ok_or_else(|| Wrong::of(&self.ssdn, "ssdn", "sixteen hexadecimal digits"))?;
        let element = self.element.as_ref().map_or(usual, |element| *element.get_ref());
        let size = self.size.as_ref().map_or(element, |size| *size.get_ref());
        let default_size = self.default_size.as_ref().map_or(element, |size| *size.get_ref());
        if let Some(element) = self.element.as_ref().filter(|element| *element.get_ref() == 0) {
            return Err(Wrong::of(element, "element", "cannot be 0"));
        }
        let whole = |bytes: u32| bytes > 0 && (self.unframed || bytes.is_multiple_of(element));
        if let Some(wrong) = self.size.as_ref().filter(|size| !whole(*size.get_ref()) || *size.get_ref() > LARGEST_SIZE)
        {
            return Err(Wrong::of(wrong, "size", format!("must be a multiple of element, {LARGEST_SIZE} at most")));
        }
        if !whole(default_size) || default_size > size {
            let what = "must be a multiple of element and no larger than size";
            return Err(self
                .default_size
                .as_ref()
                .map_or(Wrong::new("size", what), |wrong| Wrong::of(wrong, "default_size", what)));
        }
        let event = match &self.event {
            None => Event::Periodic { period: drf::Time::Micros(1_000_000), at_once: true },
            Some(text) => match drf::Request::parse(&format!("M:O@{}", text.get_ref())).map(|request| request.event) {
                Ok(event) if event != Event::Default => event,
                _ => return Err(Wrong::of(text, "event", "an event such as P,1000 or I")),
            },
        };
        Ok(Place { node, ssdn, size, default_size, element, event, unframed: self.unframed })
    }
}

impl ValueRow {
    fn read(self, nodes: &[Node]) -> Result<Value, Wrong> {
        let index = *self.primary.get_ref();
        let place = self.place().read(nodes, 2)?;
        let input = match (place.element, index) {
            (1 | 2 | 4, _) => place.element as usize,
            (_, primary::STRING) => 4,
            _ => return Err(Wrong::new("element", "readings have 1, 2 or 4 bytes unless they are strings")),
        };
        if index != primary::STRING && primary::limits(index, input) == (0.0, 0.0) {
            return Err(Wrong::of(&self.primary, "primary", format!("there is no primary transform {index}")));
        }
        let pieces = self.pieces.into_iter().map(|piece| Piece {
            below: piece.below,
            common: Common { index: piece.common, constants: piece.constants, ..Common::default() },
        });
        let common = Common {
            index: self.common.as_ref().map_or(0, |common| *common.get_ref()),
            constants: self.constants,
            table: self.table,
            pieces: pieces.collect(),
        };
        if let Err(what) = common.check() {
            return Err(self
                .common
                .as_ref()
                .map_or(Wrong::new("common", &*what), |row| Wrong::of(row, "common", &*what)));
        }
        let scaling = Scaling { primary: index, input, common };
        if index == primary::STRING && scaling.text().is_none() {
            return Err(Wrong::of(
                &self.primary,
                "primary",
                "strings need common 60 or 84 and a first constant of 2, 3, 8, 12, 288 or 289",
            ));
        }
        let limits = limits(self.min, self.max, self.allowed)?;
        Ok(Value { place, scaling, primary_units: self.primary_units, units: self.units, names: self.names, limits })
    }
}

impl StatusRow {
    fn read(self, nodes: &[Node]) -> Result<StatusProperty, Wrong> {
        let attribute = |row: AttributeRow| {
            let AttributeRow { mask, matching, invert, yes, no } = row;
            Attribute { mask, matching, invert, yes, no }
        };
        let place = self.place().read(nodes, 2)?;
        let bits = StatusBits {
            on: self.on.map(attribute),
            ready: self.ready.map(attribute),
            remote: self.remote.map(attribute),
            positive: self.positive.map(attribute),
            ramp: self.ramp.map(attribute),
        };
        let mut names = Vec::new();
        for row in self.bits {
            if *row.bit.get_ref() > 31 {
                return Err(Wrong::of(&row.bit, "bits.bit", "0 to 31"));
            }
            names.push(Bit { number: row.bit.into_inner(), name: row.name, zero: row.zero, one: row.one });
        }
        Ok(StatusProperty { place, bits, names })
    }
}

impl ControlRow {
    fn read(self, nodes: &[Node]) -> Result<ControlProperty, Wrong> {
        let place = self.place().read(nodes, 2)?;
        let mut commands = Vec::new();
        for row in self.commands {
            let order =
                order(row.name.get_ref()).ok_or_else(|| Wrong::of(&row.name, "commands.name", "no known command"))?;
            commands.push(Command { order, value: row.value, short: row.name.into_inner(), long: row.long });
        }
        let limits = limits(None, None, self.allowed)?;
        Ok(ControlProperty { place, commands, limits })
    }
}

/// What a property may be set to.
fn limits(
    min: Option<Spanned<f64>>,
    max: Option<Spanned<f64>>,
    allowed: Option<Spanned<Vec<f64>>>,
) -> Result<Limits, Wrong> {
    let spans = [min.as_ref().map(Spanned::span), max.as_ref().map(Spanned::span), allowed.as_ref().map(Spanned::span)];
    let is_given = allowed.is_some();
    let (min, max) = (min.map(Spanned::into_inner), max.map(Spanned::into_inner));
    let limits = Limits { min, max, allowed: allowed.map(Spanned::into_inner).unwrap_or_default() };
    let mistake =
        if is_given && limits.allowed.is_empty() { Some(("allowed", "at least one number")) } else { limits.mistake() };
    let Some((field, what)) = mistake else { return Ok(limits) };
    let [of_min, of_max, of_allowed] = spans;
    let span = match field {
        "min" => of_min,
        "max" => of_max.or(of_min),
        _ => of_allowed,
    };
    Err(Wrong { span, ..Wrong::new(field, what) })
}

/// A mistake whose line is not counted yet.
pub(super) struct Wrong {
    span: Option<Range<usize>>,
    field: String,
    what: String,
}

impl Wrong {
    fn new(field: &str, what: impl Into<String>) -> Self {
        Self { span: None, field: field.to_owned(), what: what.into() }
    }

    pub(super) fn of<T>(value: &Spanned<T>, field: &str, what: impl Into<String>) -> Self {
        Self { span: Some(value.span()), ..Self::new(field, what) }
    }

    fn within(self, outer: &str) -> Self {
        Self { field: format!("{outer}.{}", self.field), ..self }
    }

    fn at(self, text: &str, row: &Range<usize>, table: &str) -> Mistake {
        let span = self.span.unwrap_or(row.clone());
        Mistake { line: line(text, &span), field: format!("{table}.{}", self.field), what: self.what }
    }
}

/// The line in which something begins, from 1 on.
pub(crate) fn line(text: &str, span: &Range<usize>) -> usize {
    text.bytes().take(span.start).filter(|byte| *byte == b'\n').count() + 1
}

fn unhex(text: &str) -> Option<[u8; 8]> {
    (text.len() == 16).then(|| u64::from_str_radix(text, 16).ok()).flatten().map(u64::to_be_bytes)
}

fn one() -> f64 {
    1.0
}

const SHAPES: &[&str] = &["constant", "ramp", "sine", "noise", "counter", "setting", "silent"];
/// The low 24 bits of a front-end request.
const LARGEST_INDEX: u32 = 0xff_ffff;
/// In bytes; what fits one datagram both ways.
const LARGEST_SIZE: u32 = 8192;
