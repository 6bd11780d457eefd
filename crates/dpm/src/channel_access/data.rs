//! Values with their details: alarm, time, units and limits.
//!
//! A type is a number: that of the native type, plus a multiple of seven for the details.

/// The type of a variable's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Native {
    /// A text of 40 bytes, up to the first zero.
    Text,
    /// 16 bits with a sign.
    Short,
    /// 32 bits of IEEE 754.
    Float,
    /// The number of a choice.
    Enumerated,
    /// 8 bits without a sign.
    Char,
    /// 32 bits with a sign.
    Long,
    /// 64 bits of IEEE 754.
    Double,
}

/// The details that accompany a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataForm {
    /// Nothing.
    Plain,
    /// The alarm.
    Status,
    /// The alarm and the time.
    Time,
    /// The alarm, units and limits for displays and alarms.
    Graphic,
    /// All of these, and the limits between which it can be set.
    Control,
}

/// A received value.
#[derive(Debug, Clone, PartialEq)]
pub struct ChannelData<'a> {
    /// The type of its elements.
    pub native: Native,
    /// The number of the alarm, if there is one.
    pub status: u16,
    /// Its severity: 0 none, 1 minor, 2 major, 3 invalid value.
    pub severity: u16,
    /// The time of the reading, in milliseconds since 1970, if it was sent.
    pub unix_millis: Option<i64>,
    /// Units and limits, if they were sent.
    pub limits: Option<NumberLimits>,
    /// The names of the choices of an enumeration, if they were sent.
    pub choices: Vec<String>,
    elements: &'a [u8],
}

/// Units and limits of a number.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NumberLimits {
    /// The name of its units.
    pub units: String,
    /// The digits after the decimal point in displays, for floating types.
    pub precision: i16,
    /// The lowest and the highest value of a display.
    pub display: (f64, f64),
    /// The values at which an alarm is major and minor, low and high: LOLO, LOW, HIGH, HIHI.
    pub alarm: [f64; 4],
    /// The lowest and the highest permitted value.
    pub control: Option<(f64, f64)>,
}

impl Native {
    const ALL: [Self; 7] =
        [Self::Text, Self::Short, Self::Float, Self::Enumerated, Self::Char, Self::Long, Self::Double];

    /// Returns the native type of a number, if there is one.
    pub fn of(number: u16) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Returns the number of this type with these details.
    pub fn with(self, form: DataForm) -> u16 {
        self as u16 + 7 * form as u16
    }

    /// Returns the bytes of an element.
    pub fn size(self) -> usize {
        match self {
            Self::Text => 40,
            Self::Short | Self::Enumerated => 2,
            Self::Float | Self::Long => 4,
            Self::Char => 1,
            Self::Double => 8,
        }
    }

    /// Returns the bytes between the time of a value and its elements.
    fn gap(self) -> usize {
        match self {
            Self::Text | Self::Float | Self::Long => 0,
            Self::Short | Self::Enumerated => 2,
            Self::Char => 3,
            Self::Double => 4,
        }
    }

    fn number(self, bytes: &[u8]) -> f64 {
        match (self, bytes) {
            (Self::Short, [a, b, ..]) => f64::from(i16::from_be_bytes([*a, *b])),
            (Self::Enumerated, [a, b, ..]) => f64::from(u16::from_be_bytes([*a, *b])),
            (Self::Char, [a, ..]) => f64::from(*a),
            (Self::Float, [a, b, c, d, ..]) => f64::from(f32::from_be_bytes([*a, *b, *c, *d])),
            (Self::Long, [a, b, c, d, ..]) => f64::from(i32::from_be_bytes([*a, *b, *c, *d])),
            (Self::Double, bytes) => bytes.first_chunk().map_or(f64::NAN, |bytes| f64::from_be_bytes(*bytes)),
            _ => f64::NAN,
        }
    }
}

impl DataForm {
    /// Returns the native type and details of a number, if there is such a type.
    pub fn of(number: u16) -> Option<(Native, Self)> {
        const ALL: [DataForm; 5] =
            [DataForm::Plain, DataForm::Status, DataForm::Time, DataForm::Graphic, DataForm::Control];
        Some((Native::of(number % 7)?, *ALL.get(usize::from(number / 7))?))
    }
}

impl<'a> ChannelData<'a> {
    /// Reads a payload of a type and a number of elements; `None` if it is invalid.
    pub fn decode(data_type: u16, count: u32, payload: &'a [u8]) -> Option<Self> {
        let (native, form) = DataForm::of(data_type)?;
        let mut rest = PayloadRest(payload);
        let mut data = Self {
            native,
            status: 0,
            severity: 0,
            unix_millis: None,
            limits: None,
            choices: Vec::new(),
            elements: &[],
        };
        if form != DataForm::Plain {
            (data.status, data.severity) = (rest.word()?, rest.word()?);
        }
        match form {
            DataForm::Plain => {}
            DataForm::Status => drop(rest.take(native.gap_after_status())?),
            DataForm::Time => {
                let (seconds, nanos) = (rest.long()?, rest.long()?);
                data.unix_millis = Some((i64::from(seconds) + EPOCH) * 1000 + i64::from(nanos / 1_000_000));
                rest.take(native.gap())?;
            }
            DataForm::Graphic | DataForm::Control => match native {
                Native::Text => {}
                Native::Enumerated => data.choices = rest.choices()?,
                _ => data.limits = Some(rest.limits(native, form)?),
            },
        }
        let size = native.size().checked_mul(usize::try_from(count).ok()?)?;
        data.elements = rest.take(size)?;
        Some(data)
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.elements.len() / self.native.size()
    }

    /// Returns true if it has no elements.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// Returns its elements as numbers; texts have none.
    pub fn numbers(&self) -> impl Iterator<Item = f64> + '_ {
        let native = self.native;
        self.elements.chunks_exact(native.size()).map(move |bytes| native.number(bytes))
    }

    /// Returns its elements as texts, each up to its first zero; elements of other types are no
    /// texts.
    pub fn texts(&self) -> impl Iterator<Item = &'a [u8]> {
        let elements = if self.native == Native::Text { self.elements } else { &[] };
        elements.chunks_exact(Native::Text.size()).map(until_zero)
    }
}

impl<'a> ChannelData<'a> {
    /// Returns an array of characters as a text, up to its first zero; empty for other types.
    pub fn characters(&self) -> &'a [u8] {
        if self.native == Native::Char { until_zero(self.elements) } else { &[] }
    }
}

impl Native {
    /// Returns the bytes between the alarm of a value and its elements.
    pub(super) fn gap_after_status(self) -> usize {
        match self {
            Self::Double => 4,
            Self::Char => 1,
            _ => 0,
        }
    }
}

/// Appends alarm and time to a payload, in the form in which they precede elements of a native
/// type.
pub fn write_time(native: Native, (status, severity): (u16, u16), unix_millis: i64, out: &mut Vec<u8>) {
    let seconds = u32::try_from(unix_millis.div_euclid(1000) - EPOCH).unwrap_or_default();
    let nanos = unix_millis.rem_euclid(1000) as u32 * 1_000_000;
    for word in [status, severity] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    for word in [seconds, nanos] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    out.resize(out.len() + native.gap(), 0);
}

/// The unread part of a payload.
struct PayloadRest<'a>(&'a [u8]);

impl<'a> PayloadRest<'a> {
    fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(size)?;
        self.0 = rest;
        Some(taken)
    }

    fn word(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_be_bytes)
    }

    fn long(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_be_bytes)
    }

    fn text(&mut self, size: usize) -> Option<String> {
        Some(String::from_utf8_lossy(until_zero(self.take(size)?)).into_owned())
    }

    fn choices(&mut self) -> Option<Vec<String>> {
        let used = usize::from(self.word()?);
        let all = (0..CHOICES).map(|_| self.text(CHOICE)).collect::<Option<Vec<_>>>()?;
        Some(all.into_iter().take(used).collect())
    }

    fn limits(&mut self, native: Native, form: DataForm) -> Option<NumberLimits> {
        let mut limits = NumberLimits::default();
        if matches!(native, Native::Float | Native::Double) {
            limits.precision = self.word()? as i16;
            self.word()?;
        }
        limits.units = self.text(UNITS)?;
        let mut number = || Some(native.number(self.take(native.size())?));
        // They arrive as upper and lower display limits, then HIHI, HIGH, LOW and LOLO.
        let (high, low) = (number()?, number()?);
        limits.display = (low, high);
        let falling = [number()?, number()?, number()?, number()?];
        limits.alarm = [falling[3], falling[2], falling[1], falling[0]];
        if form == DataForm::Control {
            let (high, low) = (number()?, number()?);
            limits.control = Some((low, high));
        }
        if native == Native::Char {
            self.take(1)?;
        }
        Some(limits)
    }
}

fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// The seconds from 1970 to 1990, the epoch of EPICS.
const EPOCH: i64 = 631_152_000;
/// The length of a unit's name, in bytes.
const UNITS: usize = 8;
/// The most choices of an enumeration, and the length of each, in bytes.
const CHOICES: usize = 16;
const CHOICE: usize = 26;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_double_with_its_time_is_read() {
        let mut payload = Vec::new();
        write_time(Native::Double, (0, 2), 1_700_000_000_250, &mut payload);
        for number in [1.5f64, -2.0] {
            payload.extend_from_slice(&number.to_be_bytes());
        }
        let data = ChannelData::decode(Native::Double.with(DataForm::Time), 2, &payload).expect("a value");
        assert_eq!((data.severity, data.unix_millis), (2, Some(1_700_000_000_250)));
        assert_eq!(data.numbers().collect::<Vec<_>>(), [1.5, -2.0]);
        assert!(data.texts().next().is_none());
    }

    #[test]
    fn limits_are_read_in_the_order_in_which_they_come() {
        let mut payload = vec![0, 0, 0, 0, 0, 3, 0, 0];
        payload.extend_from_slice(b"mA\0\0\0\0\0\0");
        for number in 1..=8 {
            payload.extend_from_slice(&f64::from(number).to_be_bytes());
        }
        payload.extend_from_slice(&9.0f64.to_be_bytes());
        let data = ChannelData::decode(Native::Double.with(DataForm::Control), 1, &payload).expect("a value");
        let limits = data.limits.clone().expect("limits");
        assert_eq!((limits.units.as_str(), limits.precision, limits.display), ("mA", 3, (2.0, 1.0)));
        assert_eq!((limits.alarm, limits.control), ([6.0, 5.0, 4.0, 3.0], Some((8.0, 7.0))));
        assert_eq!(data.numbers().collect::<Vec<_>>(), [9.0]);
    }

    #[test]
    fn choices_of_an_enumeration_are_read() {
        let mut payload = vec![0, 0, 0, 0, 0, 2];
        for name in ["Off", "On"].into_iter().chain([""; 14]) {
            let mut choice = name.as_bytes().to_vec();
            choice.resize(CHOICE, 0);
            payload.extend(choice);
        }
        payload.extend_from_slice(&1u16.to_be_bytes());
        let data = ChannelData::decode(Native::Enumerated.with(DataForm::Control), 1, &payload).expect("a value");
        assert_eq!(data.choices, ["Off", "On"]);
        assert_eq!(data.numbers().collect::<Vec<_>>(), [1.0]);
    }

    proptest! {
        #[test]
        fn any_payload_is_read_or_refused(data_type in 0u16..40, count in 0u32..2000, payload: Vec<u8>) {
            if let Some(data) = ChannelData::decode(data_type, count, &payload) {
                prop_assert_eq!(data.len(), count as usize);
                prop_assert!(data.numbers().count() == data.len() && data.texts().count() <= data.len());
            }
        }

        #[test]
        fn payloads_that_are_cut_short_are_refused(number: f64, cut in 0usize..24) {
            let mut payload = Vec::new();
            write_time(Native::Double, (0, 0), 1_700_000_000_000, &mut payload);
            payload.extend_from_slice(&number.to_be_bytes());
            prop_assert!(ChannelData::decode(Native::Double.with(DataForm::Time), 1, &payload[..cut]).is_none());
        }
    }
}
