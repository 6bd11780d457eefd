//! Normative types: structures whose `value`, `alarm`, `timeStamp` and `control` are read and set
//! (NTScalar, NTScalarArray, NTEnum of the EPICS V4 Normative Types).
//!
//! A reading is kept in the form of its device, and updated by those parts of a message that have
//! changed. Of an array only the elements that anybody may want are kept.

use super::PvaFault;
use super::bytes::{PvaInput, PvaOutput};
use super::types::{ArrayExtent, PvaFields, PvaScalar, PvaType, TypeRegistry};
use super::value::{self, PvaBits, PvaElement, PvaField};
use crate::database::ValueShape;

/// The fields that readings need, by the names of a request.
pub const FIELDS: [&str; 3] = ["value", "alarm", "timeStamp"];

/// The bits of the parts of a structure that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NtPlaces {
    value: Option<u32>,
    index: Option<u32>,
    choices: Option<u32>,
    severity: Option<u32>,
    seconds: Option<u32>,
    nanos: Option<u32>,
    low: Option<u32>,
    high: Option<u32>,
}

/// The newest reading of a variable.
#[derive(Debug, Clone, PartialEq)]
pub struct NtReading {
    shape: ValueShape,
    /// The elements in the device's form; `None` if there are none, or if they can't be converted.
    elements: Option<Vec<u8>>,
    choice: Option<i64>,
    choices: Vec<Box<[u8]>>,
    /// The severity of its alarm: 0 none, 1 minor, 2 major, 3 invalid value, 4 undefined.
    pub severity: i64,
    seconds: i64,
    nanos: i64,
    limits: (Option<f64>, Option<f64>),
}

/// The reason why a value can't be written in a variable's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutFault {
    /// It has more or fewer elements than the variable.
    Length,
    /// The type can't hold a number, which is too large or too small.
    Range,
    /// The type can't be set, or it has no such value.
    Kind,
}

impl NtPlaces {
    /// Returns the places in a structure.
    pub fn of(fields: &PvaFields) -> Self {
        let bit = |path: &[&str]| fields.at(path).map(|(bit, _)| bit);
        Self {
            value: bit(&["value"]),
            index: bit(&["value", "index"]),
            choices: bit(&["value", "choices"]),
            severity: bit(&["alarm", "severity"]),
            seconds: bit(&["timeStamp", "secondsPastEpoch"]),
            nanos: bit(&["timeStamp", "nanoseconds"]),
            low: bit(&["control", "limitLow"]),
            high: bit(&["control", "limitHigh"]),
        }
    }
}

impl NtReading {
    /// Returns a reading without a value for a device of this shape.
    pub fn new(shape: ValueShape) -> Self {
        Self {
            shape,
            elements: None,
            choice: None,
            choices: Vec::new(),
            severity: 0,
            seconds: 0,
            nanos: 0,
            limits: (None, None),
        }
    }

    /// Takes the parts that a message has; without `bits` it has all.
    ///
    /// # Errors
    /// A message that is not of the type.
    pub fn update(
        &mut self,
        (of, places): (&PvaFields, &NtPlaces),
        bits: Option<&PvaBits>,
        input: &mut PvaInput<'_>,
        registry: &mut TypeRegistry,
    ) -> Result<(), PvaFault> {
        value::read(of, bits, input, registry, |bit, field| self.take(places, bit, field))
    }

    fn take(&mut self, places: &NtPlaces, bit: u32, field: PvaField<'_>) {
        let bit = Some(bit);
        let integer = match field {
            PvaField::One(PvaElement::Signed(number)) => Some(number),
            PvaField::One(PvaElement::Unsigned(number)) => i64::try_from(number).ok(),
            _ => None,
        };
        let real = if let PvaField::One(element) = field { number(element) } else { None };
        if bit == places.value {
            self.elements = self.device_bytes(field);
        } else if bit == places.index {
            self.choice = integer;
        } else if bit == places.choices {
            self.choices = texts(field);
        } else if bit == places.severity {
            self.severity = integer.unwrap_or(UNDEFINED);
        } else if bit == places.seconds {
            self.seconds = integer.unwrap_or_default();
        } else if bit == places.nanos {
            self.nanos = integer.unwrap_or_default();
        } else if bit == places.low {
            self.limits.0 = real;
        } else if bit == places.high {
            self.limits.1 = real;
        }
    }

    /// Returns the value in the form of the device: numbers of eight bytes, little endian, or texts
    /// of its length; `None` if there is none, or it can't be converted.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        let Some(choice) = self.choice else { return self.elements.clone() };
        let name = usize::try_from(choice).ok().and_then(|choice| self.choices.get(choice));
        match name {
            Some(name) if self.shape.is_text() => Some(self.shape.fill(name)),
            _ => self.element(PvaElement::Signed(choice)),
        }
    }

    /// Returns the time of the reading, in milliseconds since 1970.
    pub fn unix_millis(&self) -> i64 {
        self.seconds.saturating_mul(1000).saturating_add(self.nanos / 1_000_000)
    }

    /// Returns the lowest and the highest value that the server permits, if it limits them.
    pub fn limits(&self) -> Option<(f64, f64)> {
        let (low, high) = self.limits;
        Some((low?, high?)).filter(|(low, high)| low < high)
    }

    /// Returns the names of the choices of an enumeration.
    pub fn choices(&self) -> &[Box<[u8]>] {
        &self.choices
    }

    fn device_bytes(&self, field: PvaField<'_>) -> Option<Vec<u8>> {
        match field {
            PvaField::One(element) => self.element(element),
            // Long texts may be arrays of characters.
            PvaField::Many(PvaScalar::Byte | PvaScalar::UnsignedByte, many, mut input) if self.shape.is_text() => {
                let bytes = input.take(many).ok()?;
                Some(self.shape.fill(bytes.split(|byte| *byte == 0).next().unwrap_or_default()))
            }
            PvaField::Many(of, many, mut input) => {
                let mut bytes = Vec::new();
                for _ in 0..many.min(self.shape.elements as usize) {
                    bytes.extend(self.element(PvaElement::read(of, &mut input).ok()?)?);
                }
                Some(bytes)
            }
            PvaField::Other => None,
        }
    }

    fn element(&self, element: PvaElement<'_>) -> Option<Vec<u8>> {
        if !self.shape.is_text() {
            return number(element).map(|number| number.to_le_bytes().to_vec());
        }
        let text = match element {
            PvaElement::Text(text) => return Some(self.shape.fill(text)),
            PvaElement::Truth(truth) => truth.to_string(),
            PvaElement::Signed(number) => number.to_string(),
            PvaElement::Unsigned(number) => number.to_string(),
            PvaElement::Single(number) => number.to_string(),
            PvaElement::Double(number) => number.to_string(),
        };
        Some(self.shape.fill(text.as_bytes()))
    }
}

/// Appends what sets a variable to a property's bytes: the changed part and its value. `of` is the
/// type of the variable, `choices` are those of an enumeration.
///
/// # Errors
/// A value that the type can't have.
pub fn write_put(
    of: &PvaFields,
    (shape, bytes): (ValueShape, &[u8]),
    choices: &[Box<[u8]>],
    out: &mut PvaOutput,
) -> Result<(), PutFault> {
    let elements: Vec<SetElement<'_>> =
        bytes.chunks(shape.element.max(1) as usize).map(|bytes| set(shape, bytes)).collect();
    let one = || if let [element] = elements[..] { Ok(element) } else { Err(PutFault::Length) };
    let ((bit, of), choice) = match (of.at(&["value", "index"]), of.at(&["value"])) {
        (Some(place), _) => (place, true),
        (None, Some(place)) => (place, false),
        (None, None) => return Err(PutFault::Kind),
    };
    out.bytes.extend(PvaBits::one(bit).to_bytes());
    match of {
        PvaType::Scalar(scalar) if choice => {
            let named = |name: &[u8]| choices.iter().position(|choice| **choice == *name);
            let element = match one()? {
                SetElement::Text(name) => {
                    named(name).map_or(SetElement::Text(name), |at| SetElement::Number(at as f64))
                }
                element => element,
            };
            write_element(*scalar, element, out)
        }
        PvaType::Scalar(scalar) => write_element(*scalar, one()?, out),
        PvaType::Array(PvaScalar::Byte | PvaScalar::UnsignedByte, extent) if shape.is_text() => {
            let SetElement::Text(text) = one()? else { return Err(PutFault::Kind) };
            write_extent(*extent, text.len(), out)?;
            out.bytes.extend_from_slice(text);
            Ok(())
        }
        PvaType::Array(scalar, extent) => {
            write_extent(*extent, elements.len(), out)?;
            elements.iter().try_for_each(|element| write_element(*scalar, *element, out))
        }
        _ => Err(PutFault::Kind),
    }
}

/// Returns whether a setting of a text needs the names of a variable's choices.
pub fn has_choices(of: &PvaFields) -> bool {
    of.at(&["value", "choices"]).is_some()
}

/// An element of a setting.
#[derive(Debug, Clone, Copy)]
enum SetElement<'a> {
    Number(f64),
    Text(&'a [u8]),
}

fn set(shape: ValueShape, bytes: &[u8]) -> SetElement<'_> {
    match bytes.first_chunk() {
        Some(number) if !shape.is_text() => SetElement::Number(f64::from_le_bytes(*number)),
        _ => SetElement::Text(bytes.split(|byte| *byte == 0).next().unwrap_or_default()),
    }
}

fn write_extent(extent: ArrayExtent, many: usize, out: &mut PvaOutput) -> Result<(), PutFault> {
    match extent {
        ArrayExtent::Bounded(most) if many > most => return Err(PutFault::Length),
        ArrayExtent::Fixed(all) => return if many == all { Ok(()) } else { Err(PutFault::Length) },
        ArrayExtent::Varying | ArrayExtent::Bounded(_) => out.size(many),
    }
    Ok(())
}

fn write_element(of: PvaScalar, element: SetElement<'_>, out: &mut PvaOutput) -> Result<(), PutFault> {
    let number = match (of, element) {
        (PvaScalar::Text, SetElement::Text(text)) => {
            out.text(text);
            return Ok(());
        }
        (PvaScalar::Text, SetElement::Number(number)) => {
            out.text(number.to_string().as_bytes());
            return Ok(());
        }
        (PvaScalar::Boolean, SetElement::Text(b"true")) => 1.0,
        (PvaScalar::Boolean, SetElement::Text(b"false")) => 0.0,
        (_, SetElement::Text(text)) => parse_number(text).ok_or(PutFault::Kind)?,
        (_, SetElement::Number(number)) => number,
    };
    // A fraction is cut off, as servers of Channel Access do.
    let whole = number.trunc();
    macro_rules! integer {
        ($write:ident, $integer:ty) => {{
            let written = whole as $integer;
            if written as f64 != whole {
                return Err(PutFault::Range);
            }
            out.$write(written);
        }};
    }
    match of {
        PvaScalar::Boolean => out.byte(u8::from(number != 0.0)),
        PvaScalar::Byte => integer!(signed_byte, i8),
        PvaScalar::Short => integer!(short, i16),
        PvaScalar::Int => integer!(int, i32),
        PvaScalar::Long => integer!(signed_huge, i64),
        PvaScalar::UnsignedByte => integer!(byte, u8),
        PvaScalar::UnsignedShort => integer!(word, u16),
        PvaScalar::UnsignedInt => integer!(long, u32),
        PvaScalar::UnsignedLong => integer!(huge, u64),
        PvaScalar::Float => out.single(number as f32),
        PvaScalar::Double => out.double(number),
        PvaScalar::Text => {}
    }
    Ok(())
}

/// Returns the number of an element, if it has one.
fn number(element: PvaElement<'_>) -> Option<f64> {
    Some(match element {
        PvaElement::Truth(truth) => f64::from(u8::from(truth)),
        PvaElement::Signed(number) => number as f64,
        PvaElement::Unsigned(number) => number as f64,
        PvaElement::Single(number) => number.into(),
        PvaElement::Double(number) => number,
        PvaElement::Text(text) => return parse_number(text),
    })
}

fn parse_number(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

/// Returns the texts of an array.
fn texts(field: PvaField<'_>) -> Vec<Box<[u8]>> {
    let PvaField::Many(PvaScalar::Text, many, mut input) = field else { return Vec::new() };
    (0..many.min(CHOICES)).map_while(|_| input.text().ok().map(Box::from)).collect()
}

/// The severity of an alarm with an unknown severity.
const UNDEFINED: i64 = 4;
/// The most choices of an enumeration that are kept.
const CHOICES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pv_access::bytes::ByteOrder;
    use proptest::prelude::*;

    const NUMBERS: ValueShape = ValueShape { elements: 4, element: 8 };
    const TEXT: ValueShape = ValueShape { elements: 1, element: 40 };

    fn fields(bytes: &[u8]) -> std::sync::Arc<PvaFields> {
        let read = PvaType::read(&mut PvaInput::new(bytes, ByteOrder::Big), &mut TypeRegistry::default());
        let Ok(Some(PvaType::Structure(of))) = read else { panic!("a structure: {read:?}") };
        of
    }

    /// Returns the type of a variable whose value has this type.
    fn of(value: &[u8]) -> std::sync::Arc<PvaFields> {
        let rest = b"\x05alarm\x80\0\x01\x08severity\x22\x09timeStamp\x80\0\x02\x10secondsPastEpoch\x23\
            \x0bnanoseconds\x22\x07control\x80\0\x02\x08limitLow\x43\x09limitHigh\x43";
        fields(&[&b"\x80\0\x04\x05value"[..], value, rest].concat())
    }

    /// Returns the reading of a value of a type.
    fn read(shape: ValueShape, kind: &[u8], value: &[u8]) -> NtReading {
        let mut bytes = PvaOutput::new(ByteOrder::Big);
        bytes.bytes.extend_from_slice(value);
        bytes.int(2);
        bytes.signed_huge(1_700_000_000);
        bytes.int(250_999_999);
        bytes.double(-1.0);
        bytes.double(1.0);
        let (of, mut reading) = (of(kind), NtReading::new(shape));
        let mut input = PvaInput::new(&bytes.bytes, ByteOrder::Big);
        let update = reading.update((&of, &NtPlaces::of(&of)), None, &mut input, &mut TypeRegistry::default());
        assert_eq!((update, input.unread_bytes()), (Ok(()), 0), "{kind:?}");
        reading
    }

    fn fill_text(text: &str) -> Option<Vec<u8>> {
        Some(TEXT.fill(text.as_bytes()))
    }

    fn doubles(numbers: &[f64]) -> Option<Vec<u8>> {
        Some(numbers.iter().flat_map(|number| number.to_le_bytes()).collect())
    }

    #[test]
    fn alarm_time_and_limits_accompany_a_value() {
        let reading = read(NUMBERS, b"\x43", &1.5f64.to_be_bytes());
        assert_eq!((reading.severity, reading.unix_millis()), (2, 1_700_000_000_250));
        assert_eq!((reading.bytes(), reading.limits()), (doubles(&[1.5]), Some((-1.0, 1.0))));
    }

    #[test]
    fn scalars_of_every_type_are_numbers_and_texts() {
        let cases: [(u8, &[u8], f64, &str); 12] = [
            (0x00, &[7], 1.0, "true"),
            (0x20, &[0xff], -1.0, "-1"),
            (0x21, &[0xff, 0xfe], -2.0, "-2"),
            (0x22, &[0, 0, 1, 0], 256.0, "256"),
            (0x23, &[0, 0, 0, 0, 0, 0, 1, 1], 257.0, "257"),
            (0x24, &[0xff], 255.0, "255"),
            (0x25, &[0xff, 0xff], 65_535.0, "65535"),
            (0x26, &[0xff; 4], 4_294_967_295.0, "4294967295"),
            (0x27, &[0xff; 8], 1.8446744073709552e19, "18446744073709551615"),
            (0x42, &[0x3e, 0x80, 0, 0], 0.25, "0.25"),
            (0x43, &[0x40, 0x04, 0, 0, 0, 0, 0, 0], 2.5, "2.5"),
            (0x60, b"\x0412.5", 12.5, "12.5"),
        ];
        for (code, value, number, text) in cases {
            assert_eq!(read(NUMBERS, &[code], value).bytes(), doubles(&[number]), "{code:x}");
            assert_eq!(read(TEXT, &[code], value).bytes(), fill_text(text), "{code:x}");
        }
        assert_eq!(read(NUMBERS, b"\x60", b"\x05hello").bytes(), None, "no number");
    }

    #[test]
    fn only_wanted_elements_of_an_array_are_kept() {
        assert_eq!(read(NUMBERS, b"\x28", &[6, 1, 2, 3, 4, 5, 6]).bytes(), doubles(&[1.0, 2.0, 3.0, 4.0]));
        assert_eq!(read(NUMBERS, b"\x28", &[0]).bytes(), doubles(&[]));
        assert_eq!(read(TEXT, b"\x68", b"\x02\x03one\x03two").bytes(), fill_text("one"));
        // An array of characters is one text.
        assert_eq!(read(TEXT, b"\x28", b"\x06long\0x").bytes(), fill_text("long"));
    }

    #[test]
    fn choices_are_numbers_and_names() {
        let kind = b"\x80\0\x02\x05index\x22\x07choices\x68";
        let value = |index| [&[0, 0, 0, index][..], b"\x02\x03Off\x02On"].concat();
        assert_eq!(read(NUMBERS, kind, &value(1)).bytes(), doubles(&[1.0]));
        assert_eq!(read(TEXT, kind, &value(1)).bytes(), fill_text("On"));
        assert_eq!(read(TEXT, kind, &value(7)).bytes(), fill_text("7"), "without a name");
    }

    #[test]
    fn values_of_other_types_are_none() {
        for (kind, value) in [(&b"\x82"[..], &[0xff][..]), (b"\x80\0\x01\x01x\x22", &[0, 0, 0, 1]), (b"\x8a", &[0])] {
            assert_eq!(read(NUMBERS, kind, value).bytes(), None, "{kind:?}");
        }
    }

    /// A type of value, the form and the bytes of a setting, and the bytes of its message.
    type SetCase = (&'static [u8], ValueShape, Vec<u8>, Result<&'static [u8], PutFault>);

    /// Returns the bytes that set a value of a type.
    fn put_bytes(kind: &[u8], shape: ValueShape, bytes: &[u8]) -> Result<Vec<u8>, PutFault> {
        let mut out = PvaOutput::new(ByteOrder::Big);
        let choices = [Box::from(&b"Off"[..]), Box::from(&b"On"[..])];
        write_put(&of(kind), (shape, bytes), &choices, &mut out).map(|()| out.bytes)
    }

    #[test]
    fn settings_have_the_type_of_the_variable() {
        let number = |number: f64| number.to_le_bytes().to_vec();
        let text = |text: &str| TEXT.fill(text.as_bytes());
        let choice = b"\x80\0\x02\x05index\x22\x07choices\x68";
        let cases: Vec<SetCase> = vec![
            (b"\x43", NUMBERS, number(2.5), Ok(&[1, 2, 0x40, 0x04, 0, 0, 0, 0, 0, 0])),
            (b"\x42", NUMBERS, number(0.25), Ok(&[1, 2, 0x3e, 0x80, 0, 0])),
            (b"\x20", NUMBERS, number(-1.9), Ok(&[1, 2, 0xff])),
            (b"\x20", NUMBERS, number(128.0), Err(PutFault::Range)),
            (b"\x24", NUMBERS, number(-1.0), Err(PutFault::Range)),
            (b"\x23", NUMBERS, number(1e19), Err(PutFault::Range)),
            (b"\x22", NUMBERS, number(f64::NAN), Err(PutFault::Range)),
            (b"\x00", NUMBERS, number(2.0), Ok(&[1, 2, 1])),
            (b"\x00", TEXT, text("false"), Ok(&[1, 2, 0])),
            (b"\x21", TEXT, text("7"), Ok(&[1, 2, 0, 7])),
            (b"\x21", TEXT, text("seven"), Err(PutFault::Kind)),
            (b"\x60", NUMBERS, number(2.5), Ok(&[1, 2, 3, b'2', b'.', b'5'])),
            (b"\x60", TEXT, text("hi"), Ok(&[1, 2, 2, b'h', b'i'])),
            (b"\x43", NUMBERS, [number(1.0), number(2.0)].concat(), Err(PutFault::Length)),
            (b"\x28", NUMBERS, [number(1.0), number(2.0)].concat(), Ok(&[1, 2, 2, 1, 2])),
            (b"\x30\x01", NUMBERS, [number(1.0), number(2.0)].concat(), Err(PutFault::Length)),
            (b"\x38\x02", NUMBERS, [number(1.0), number(2.0)].concat(), Ok(&[1, 2, 1, 2])),
            (b"\x38\x03", NUMBERS, number(1.0), Err(PutFault::Length)),
            (b"\x28", TEXT, text("long"), Ok(&[1, 2, 4, b'l', b'o', b'n', b'g'])),
            (choice, TEXT, text("On"), Ok(&[1, 4, 0, 0, 0, 1])),
            (choice, TEXT, text("1"), Ok(&[1, 4, 0, 0, 0, 1])),
            (choice, TEXT, text("Ajar"), Err(PutFault::Kind)),
            (choice, NUMBERS, number(1.0), Ok(&[1, 4, 0, 0, 0, 1])),
            (b"\x82", NUMBERS, number(1.0), Err(PutFault::Kind)),
        ];
        for (kind, shape, bytes, expected) in cases {
            assert_eq!(put_bytes(kind, shape, &bytes), expected.map(<[u8]>::to_vec), "{kind:?} {bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn a_value_that_is_set_is_read_back(number: f64, code in prop::sample::select(vec![0x43u8, 0x4b])) {
            let bytes = number.to_le_bytes();
            let body = put_bytes(&[code], NUMBERS, &bytes).expect("a double");
            prop_assert_eq!(read(NUMBERS, &[code], &body[2..]).bytes(), Some(bytes.to_vec()));
        }

        #[test]
        fn any_setting_is_written_or_refused(kind in prop::sample::select(vec![0u8, 0x20, 0x23, 0x27, 0x42, 0x60, 0x28, 0x68]), bytes: Vec<u8>, is_text: bool) {
            let _ = put_bytes(&[kind], if is_text { TEXT } else { NUMBERS }, &bytes);
        }
    }
}
