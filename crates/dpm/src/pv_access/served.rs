//! The types of the variables that we serve, and the values that have them.
//!
//! A variable is an NTScalar or NTScalarArray of numbers or texts, with units and limits if the
//! device has them. The parts of a value that a client selects are a set of bits, one for each part
//! without parts of its own.

use super::bytes::PvaOutput;
use super::types::{PvaFields, PvaType};
use super::value::PvaBits;
use crate::channel_access::encode::{Details, Elements};

/// The kind of a variable's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ServedKind {
    /// A number.
    Double,
    /// Several numbers.
    Doubles,
    /// A text.
    Text,
    /// Several texts.
    Texts,
}

/// The type of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ServedForm {
    /// The kind of its value.
    pub kind: ServedKind,
    /// True if it has units.
    pub has_display: bool,
    /// True if it has limits for settings.
    pub has_control: bool,
}

/// A value to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct ServedReading {
    /// The elements of the value.
    pub elements: Elements,
    /// The reason why there is no value, in words.
    pub fault: Option<String>,
    /// The time of the reading, in milliseconds since 1970.
    pub unix_millis: i64,
}

/// A part of a type.
#[derive(Debug)]
pub enum ServedType {
    /// A part without parts of its own, by the code of its type.
    Leaf(u8),
    /// A structure of this name, with these fields.
    Part(&'static str, &'static [(&'static str, &'static ServedType)]),
}

static DOUBLE: ServedType = ServedType::Leaf(0x43);
static DOUBLES: ServedType = ServedType::Leaf(0x4b);
static TEXT: ServedType = ServedType::Leaf(0x60);
static TEXTS: ServedType = ServedType::Leaf(0x68);
static INT: ServedType = ServedType::Leaf(0x22);
static LONG: ServedType = ServedType::Leaf(0x23);
static ALARM: ServedType = ServedType::Part("alarm_t", &[("severity", &INT), ("status", &INT), ("message", &TEXT)]);
static TIME: ServedType =
    ServedType::Part("time_t", &[("secondsPastEpoch", &LONG), ("nanoseconds", &INT), ("userTag", &INT)]);
static DISPLAY: ServedType = ServedType::Part(
    "display_t",
    &[("limitLow", &DOUBLE), ("limitHigh", &DOUBLE), ("description", &TEXT), ("units", &TEXT)],
);
static CONTROL: ServedType =
    ServedType::Part("control_t", &[("limitLow", &DOUBLE), ("limitHigh", &DOUBLE), ("minStep", &DOUBLE)]);

impl ServedType {
    /// Returns the number of bits that it has in a set.
    fn bits(&self) -> u32 {
        match self {
            Self::Leaf(_) => 1,
            Self::Part(_, fields) => 1 + fields.iter().map(|(_, of)| of.bits()).sum::<u32>(),
        }
    }

    /// Returns the bits of its leaves, if its own is `bit`.
    fn leaves(&self, bit: u32) -> u64 {
        match self {
            Self::Leaf(_) => 1 << bit,
            Self::Part(_, fields) => places(fields, bit).map(|(_, of, bit)| of.leaves(bit)).sum(),
        }
    }

    /// Appends its description.
    fn describe(&self, out: &mut PvaOutput) {
        match self {
            Self::Leaf(code) => out.byte(*code),
            Self::Part(name, fields) => describe(name, fields, out),
        }
    }
}

impl ServedForm {
    fn fields(self) -> Vec<(&'static str, &'static ServedType)> {
        let value = match self.kind {
            ServedKind::Double => &DOUBLE,
            ServedKind::Doubles => &DOUBLES,
            ServedKind::Text => &TEXT,
            ServedKind::Texts => &TEXTS,
        };
        let mut fields = vec![("value", value), ("alarm", &ALARM), ("timeStamp", &TIME)];
        fields.extend(self.has_display.then_some(("display", &DISPLAY)));
        fields.extend(self.has_control.then_some(("control", &CONTROL)));
        fields
    }

    /// Appends the description of the type.
    pub fn describe(self, out: &mut PvaOutput) {
        let name = match self.kind {
            ServedKind::Double | ServedKind::Text => "epics:nt/NTScalar:1.0",
            ServedKind::Doubles | ServedKind::Texts => "epics:nt/NTScalarArray:1.0",
        };
        describe(name, &self.fields(), out);
    }

    /// Appends the description of a field, which is named by the path to it. Returns whether there
    /// is one.
    pub fn describe_field(self, path: &str, out: &mut PvaOutput) -> bool {
        let mut fields = self.fields();
        let mut found = None;
        for name in path.split('.') {
            found = fields.iter().find(|(field, _)| *field == name).map(|(_, of)| *of);
            fields = match found {
                Some(ServedType::Part(_, inner)) => inner.to_vec(),
                _ => Vec::new(),
            };
        }
        found.inspect(|of| of.describe(out)).is_some()
    }

    /// Returns the bits that a client selects with its request: all, if it names none.
    pub fn select(self, request: Option<&PvaFields>) -> u64 {
        let fields = self.fields();
        match request.and_then(|request| request.at(&["field"])) {
            Some((_, PvaType::Structure(wanted))) => select(&fields, 0, wanted),
            _ => select_all(&fields, 0),
        }
    }

    /// Returns the bits of the parts that may change from one reading to the next.
    pub fn changing(self) -> u64 {
        select_all(&self.fields()[..3], 0)
    }

    /// Appends the selected parts of a reading, after the set of their bits. A failed reading has
    /// no value.
    pub fn encode(self, selected: u64, reading: &ServedReading, details: &Details, out: &mut PvaOutput) {
        let selected = if reading.fault.is_some() { selected & !VALUE } else { selected };
        out.bytes.extend(PvaBits::of(selected).to_bytes());
        let all = select_all(&self.fields(), 0);
        let mut leaves = (0..u64::BITS).filter(|bit| all >> bit & 1 != 0);
        let mut leaf = |write: &dyn Fn(&mut PvaOutput)| {
            if leaves.next().is_some_and(|bit| selected >> bit & 1 != 0) {
                write(out);
            }
        };
        leaf(&|out| self.value(&reading.elements, out));
        let (severity, status) = if reading.fault.is_some() { BROKEN } else { (0, 0) };
        leaf(&|out| out.int(severity));
        leaf(&|out| out.int(status));
        leaf(&|out| out.text(reading.fault.as_deref().unwrap_or_default().as_bytes()));
        leaf(&|out| out.signed_huge(reading.unix_millis.div_euclid(1000)));
        leaf(&|out| out.int(reading.unix_millis.rem_euclid(1000) as i32 * 1_000_000));
        leaf(&|out| out.int(0));
        let (low, high) = details.control;
        if self.has_display {
            leaf(&|out| out.double(low));
            leaf(&|out| out.double(high));
            leaf(&|out| out.text(b""));
            leaf(&|out| out.text(details.units.as_bytes()));
        }
        if self.has_control {
            leaf(&|out| out.double(low));
            leaf(&|out| out.double(high));
            leaf(&|out| out.double(0.0));
        }
    }

    /// Appends the value, converted to the kind of the variable.
    fn value(self, elements: &Elements, out: &mut PvaOutput) {
        if matches!(self.kind, ServedKind::Doubles | ServedKind::Texts) {
            out.size(elements.len());
        }
        let many = match self.kind {
            ServedKind::Double | ServedKind::Text => 1,
            ServedKind::Doubles | ServedKind::Texts => elements.len(),
        };
        for place in 0..many {
            match (self.kind, elements) {
                (ServedKind::Double | ServedKind::Doubles, Elements::Numbers(numbers)) => {
                    out.double(numbers.get(place).copied().unwrap_or(f64::NAN));
                }
                (ServedKind::Double | ServedKind::Doubles, Elements::Texts(texts)) => {
                    out.double(texts.get(place).and_then(|text| text.trim().parse().ok()).unwrap_or(f64::NAN));
                }
                (_, Elements::Numbers(numbers)) => {
                    out.text(numbers.get(place).map(f64::to_string).unwrap_or_default().as_bytes());
                }
                (_, Elements::Texts(texts)) => out.text(texts.get(place).map_or("", |text| text).as_bytes()),
            }
        }
    }
}

/// Returns the fields of a structure with their bits, if its own is `first`.
fn places<'a>(
    fields: &'a [(&'static str, &'static ServedType)],
    first: u32,
) -> impl Iterator<Item = (&'static str, &'static ServedType, u32)> + 'a {
    fields.iter().scan(first + 1, |next, (name, of)| {
        let bit = *next;
        *next += of.bits();
        Some((*name, *of, bit))
    })
}

fn select_all(fields: &[(&'static str, &'static ServedType)], first: u32) -> u64 {
    places(fields, first).map(|(_, of, bit)| of.leaves(bit)).sum()
}

/// Returns the bits of the fields that a request names. It recurses no deeper than our types.
fn select(fields: &[(&'static str, &'static ServedType)], first: u32, wanted: &PvaFields) -> u64 {
    let named = |name: &str| wanted.fields.iter().find(|(field, _)| **field == *name).map(|(_, of)| of);
    if wanted.fields.iter().all(|(name, _)| &**name == OPTIONS) {
        return select_all(fields, first);
    }
    let bits = places(fields, first).map(|(name, of, bit)| match (named(name), of) {
        (None, _) => 0,
        (Some(PvaType::Structure(wanted)), ServedType::Part(_, inner)) => select(inner, bit, wanted),
        (Some(_), of) => of.leaves(bit),
    });
    bits.sum()
}

fn describe(name: &str, fields: &[(&'static str, &'static ServedType)], out: &mut PvaOutput) {
    out.byte(STRUCTURE);
    out.text(name.as_bytes());
    out.size(fields.len());
    for (name, of) in fields {
        out.text(name.as_bytes());
        of.describe(out);
    }
}

/// The code of a structure.
const STRUCTURE: u8 = 0x80;
/// The bit of the value, which is the first field.
const VALUE: u64 = 1 << 1;
/// The field of a request in which a client puts options.
const OPTIONS: &str = "_options";
/// The alarm for a value that could not be read: severity INVALID, status DRIVER.
const BROKEN: (i32, i32) = (3, 2);

#[cfg(test)]
mod tests {
    use super::super::bytes::{ByteOrder, PvaInput};
    use super::super::types::TypeRegistry;
    use super::super::value::{self, PvaElement, PvaField};
    use super::*;
    use proptest::prelude::*;

    const ALL: ServedForm = ServedForm { kind: ServedKind::Double, has_display: true, has_control: true };

    fn read_type(of: ServedForm) -> std::sync::Arc<PvaFields> {
        let mut out = PvaOutput::new(ByteOrder::Big);
        of.describe(&mut out);
        let read = PvaType::read(&mut PvaInput::new(&out.bytes, ByteOrder::Big), &mut TypeRegistry::default());
        let Ok(Some(PvaType::Structure(of))) = read else { panic!("a structure: {read:?}") };
        of
    }

    #[test]
    fn a_client_selects_the_parts_that_it_names() {
        let of = read_type(ALL);
        let structure = |names: &[&str]| {
            let empty = || PvaType::Structure(PvaFields::new(Vec::new()).expect("fields").into());
            let fields = names.iter().map(|name| ((*name).into(), empty())).collect();
            PvaType::Structure(PvaFields::new(fields).expect("fields").into())
        };
        let request = |fields| PvaFields::new(vec![("field".into(), fields)]).expect("a request");
        let at = |path: &[&str]| 1u64 << of.at(path).expect("a field").0;
        assert_eq!(ALL.select(Some(&request(structure(&["value"])))), at(&["value"]));
        let alarm = at(&["alarm", "severity"]) | at(&["alarm", "status"]) | at(&["alarm", "message"]);
        assert_eq!(ALL.select(Some(&request(structure(&["alarm", "nothing"])))), alarm);
        assert_eq!(ALL.select(Some(&request(structure(&["nothing"])))), 0);
        for all in [structure(&[]), structure(&["_options"])] {
            assert_eq!(ALL.select(Some(&request(all))), ALL.select(None));
        }
        assert_eq!(ALL.select(None).count_ones(), 1 + 3 + 3 + 4 + 3);
        assert_eq!(u64::from(of.bits), 64 - u64::from(ALL.select(None).leading_zeros()));
    }

    proptest! {
        #[test]
        fn a_client_of_ours_reads_what_is_written(number: f64, millis in 0i64..4_000_000_000_000, kind in 0usize..4, extras: (bool, bool), selected: u64) {
            let kind = [ServedKind::Double, ServedKind::Doubles, ServedKind::Text, ServedKind::Texts][kind];
            let form = ServedForm { kind, has_display: extras.0, has_control: extras.1 };
            let elements = Elements::Numbers(vec![number]);
            let reading = ServedReading { elements, fault: None, unix_millis: millis };
            let details = Details { units: "mA".into(), control: (-1.0, 50.0) };
            let mut out = PvaOutput::new(ByteOrder::Little);
            let selected = form.select(None) & selected;
            form.encode(selected, &reading, &details, &mut out);
            let mut input = PvaInput::new(&out.bytes, ByteOrder::Little);
            let bits = PvaBits::read(&mut input).expect("a set");
            prop_assert_eq!(bits, PvaBits::of(selected));
            let (of, mut read) = (read_type(form), Vec::new());
            value::read(&of, Some(&bits), &mut input, &mut TypeRegistry::default(), |bit, field| read.push((bit, field)))
                .expect("a value");
            prop_assert_eq!(input.unread_bytes(), 0);
            prop_assert_eq!(read.len() as u32, selected.count_ones());
            let seconds = of.at(&["timeStamp", "secondsPastEpoch"]).expect("a time").0;
            for (bit, field) in read {
                if let (true, PvaField::One(element)) = (bit == seconds, field) {
                    prop_assert_eq!(element, PvaElement::Signed(millis / 1000));
                }
                if let (1, PvaField::One(PvaElement::Double(read))) = (bit, field) {
                    prop_assert_eq!(read.to_bits(), number.to_bits());
                }
            }
        }
    }
}
