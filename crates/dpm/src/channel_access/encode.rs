//! Values as servers send them: in the type and with the details that a client requests.

use super::data::{DataForm, Native, write_time};

/// A value to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct SentReading {
    /// The elements, of which a client may request fewer, or more than there are.
    pub elements: Elements,
    /// The number of the alarm, and its severity.
    pub alarm: (u16, u16),
    /// The time of the reading, in milliseconds since 1970.
    pub unix_millis: i64,
}

/// The elements of a value.
#[derive(Debug, Clone, PartialEq)]
pub enum Elements {
    /// Numbers, which are converted to the type that the client requests.
    Numbers(Vec<f64>),
    /// Texts, which are converted to the type that the client requests.
    Texts(Vec<String>),
}

/// The constant details of a variable.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Details {
    /// The name of its units.
    pub units: String,
    /// The lowest and the highest permitted value; 0 and 0 if there are no limits.
    pub control: (f64, f64),
}

impl Elements {
    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::Numbers(numbers) => numbers.len(),
            Self::Texts(texts) => texts.len(),
        }
    }

    /// Returns true if the value has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Returns the payload of a value in a type, with the number of elements that a client requests,
/// filled up with zeros; `None` if there is no such type, or the value can't have it.
pub fn encode(data_type: u16, count: usize, reading: &SentReading, details: &Details) -> Option<Vec<u8>> {
    let (native, form) = DataForm::of(data_type)?;
    let mut payload = Vec::new();
    match form {
        DataForm::Plain => {}
        DataForm::Time => write_time(native, reading.alarm, reading.unix_millis, &mut payload),
        DataForm::Status | DataForm::Graphic | DataForm::Control => {
            payload.extend_from_slice(&reading.alarm.0.to_be_bytes());
            payload.extend_from_slice(&reading.alarm.1.to_be_bytes());
            match form {
                DataForm::Status => payload.resize(payload.len() + native.gap_after_status(), 0),
                _ => limits(native, form, details, &mut payload),
            }
        }
    }
    let head = payload.len();
    for place in 0..count.min(reading.elements.len()) {
        element(native, &reading.elements, place, &mut payload)?;
    }
    payload.resize(head + count * native.size(), 0);
    Some(payload)
}

/// Appends units and limits, in their order on the wire.
fn limits(native: Native, form: DataForm, details: &Details, payload: &mut Vec<u8>) {
    match native {
        Native::Text => return,
        Native::Enumerated => return payload.resize(payload.len() + CHOICES, 0),
        Native::Float | Native::Double => payload.extend_from_slice(&[0, PRECISION, 0, 0]),
        _ => {}
    }
    let mut units: Vec<u8> = details.units.bytes().take(UNITS - 1).collect();
    units.resize(UNITS, 0);
    payload.extend(units);
    // Upper and lower display limits, four alarm limits, upper and lower control limits.
    let (low, high) = details.control;
    let all = [high, low, 0.0, 0.0, 0.0, 0.0, high, low];
    let many = if form == DataForm::Control { all.len() } else { all.len() - 2 };
    for limit in &all[..many] {
        number(native, *limit, payload);
    }
    if native == Native::Char {
        payload.push(0);
    }
}

fn element(native: Native, elements: &Elements, place: usize, payload: &mut Vec<u8>) -> Option<()> {
    match (native, elements) {
        (Native::Text, elements) => {
            let text = match elements {
                Elements::Numbers(numbers) => numbers.get(place)?.to_string(),
                Elements::Texts(texts) => texts.get(place)?.clone(),
            };
            let mut bytes: Vec<u8> = text.bytes().take(Native::Text.size() - 1).collect();
            bytes.resize(Native::Text.size(), 0);
            payload.extend(bytes);
        }
        (native, Elements::Numbers(numbers)) => number(native, *numbers.get(place)?, payload),
        (native, Elements::Texts(texts)) => number(native, texts.get(place)?.trim().parse().ok()?, payload),
    }
    Some(())
}

/// Appends a number, or the nearest one in the range of the type.
fn number(native: Native, number: f64, payload: &mut Vec<u8>) {
    match native {
        Native::Text => {}
        Native::Short => payload.extend_from_slice(&(number as i16).to_be_bytes()),
        Native::Enumerated => payload.extend_from_slice(&(number as u16).to_be_bytes()),
        Native::Char => payload.push(number as u8),
        Native::Long => payload.extend_from_slice(&(number as i32).to_be_bytes()),
        Native::Float => payload.extend_from_slice(&(number as f32).to_be_bytes()),
        Native::Double => payload.extend_from_slice(&number.to_be_bytes()),
    }
}

/// The digits after the decimal point in displays.
const PRECISION: u8 = 4;
/// The length of a unit's name, in bytes.
const UNITS: usize = 8;
/// The bytes of the choices of an enumeration that has none: their number, and the space for them.
const CHOICES: usize = 2 + 16 * 26;

#[cfg(test)]
mod tests {
    use super::super::data::ChannelData;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(data_type in 0u16..35, numbers in prop::collection::vec(0u8..100, 0..20), count in 0usize..30) {
            let numbers: Vec<f64> = numbers.into_iter().map(f64::from).collect();
            let elements = Elements::Numbers(numbers.clone());
            let reading = SentReading { elements, alarm: (1, 2), unix_millis: 1_700_000_000_123 };
            let details = Details { units: "mA".into(), control: (0.0, 50.0) };
            let payload = encode(data_type, count, &reading, &details).expect("numbers are of every type");
            let data = ChannelData::decode(data_type, count as u32, &payload).expect("a value");
            let expected: Vec<f64> = numbers.into_iter().chain(std::iter::repeat(0.0)).take(count).collect();
            if data.native == Native::Text {
                prop_assert_eq!(data.texts().count(), count);
            } else {
                prop_assert_eq!(data.numbers().collect::<Vec<_>>(), expected);
            }
            if let Some(limits) = data.limits {
                prop_assert_eq!((limits.units.as_str(), limits.display), ("mA", (0.0, 50.0)));
                prop_assert!(limits.control.is_none_or(|control| control == (0.0, 50.0)));
            }
            prop_assert!(data_type < 7 || (data.status, data.severity) == (1, 2));
            prop_assert!(data.unix_millis.is_none_or(|millis| millis == 1_700_000_000_123));
        }
    }
}
