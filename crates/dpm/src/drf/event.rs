//! Events: the times at which a request is answered.

use std::fmt;

use super::{Device, Error};

/// The times at which a request is answered.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DrfEvent {
    /// No event, or `U`: the database's default.
    Default,
    /// `I`: once, now.
    Immediate,
    /// `N`: never, as for settings.
    Never,
    /// `P`: repeatedly.
    Periodic {
        /// The time between two readings.
        period: Time,
        /// True if it is also answered now.
        at_once: bool,
    },
    /// `Q`: checked repeatedly, answered when the value has changed.
    OnChange {
        /// The time between two checks.
        period: Time,
        /// True if it is also answered now.
        at_once: bool,
    },
    /// `E`: on an event of the accelerator's clock.
    Clock {
        /// The number of the clock event, written in hexadecimal.
        number: u16,
        /// The source: hardware, software or either.
        clock: EventClock,
        /// The delay after it.
        delay: Time,
    },
    /// `S`: when a device reaches a state.
    State {
        /// The name or the index of the device whose state counts.
        device: String,
        /// The state.
        value: u16,
        /// The delay after it.
        delay: Time,
        /// The comparison of the state with `value`.
        comparison: Comparison,
    },
}

/// A span of time as it was written: in microseconds, or as a frequency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Time {
    /// Microseconds.
    Micros(u64),
    /// A number of times per second.
    Hertz(u32),
}

/// The source of a clock event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventClock {
    /// The timing hardware.
    Hardware,
    /// The network.
    Software,
    /// Either of them.
    Either,
}

/// The comparison of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "their signs stand in the table below")]
pub enum Comparison {
    Equal,
    NotEqual,
    Any,
    Greater,
    Less,
    LessOrEqual,
    GreaterOrEqual,
}

impl DrfEvent {
    /// Reads the text after `@`, in upper case.
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let words: Vec<&str> = text.split(',').map(str::trim).collect();
        match words[..] {
            ["U"] => Ok(Self::Default),
            ["I"] => Ok(Self::Immediate),
            ["N"] => Ok(Self::Never),
            ["P", ref rest @ ..] => read_period(rest).map(|(period, at_once)| Self::Periodic { period, at_once }),
            ["Q", ref rest @ ..] => read_period(rest).map(|(period, at_once)| Self::OnChange { period, at_once }),
            ["E", number, ref rest @ ..] => {
                let number = u16::from_str_radix(number, 16).map_err(|_| Error::Event)?;
                let (clock, delay) = match rest {
                    [] => (EventClock::Either, Time::Micros(0)),
                    [clock] => (EventClock::parse(clock)?, Time::Micros(0)),
                    [clock, delay] => (EventClock::parse(clock)?, Time::parse(delay)?),
                    _ => return Err(Error::Event),
                };
                Ok(Self::Clock { number, clock, delay })
            }
            ["S", device, value, delay, comparison] => Ok(Self::State {
                device: Device::parse(device).map_err(|_| Error::Event)?.0.to_string(),
                value: value.parse().map_err(|_| Error::Event)?,
                delay: Time::parse(delay)?,
                comparison: Comparison::parse(comparison)?,
            }),
            _ => Err(Error::Event),
        }
    }
}

/// Reads the period, and whether the first answer is immediate.
fn read_period(words: &[&str]) -> Result<(Time, bool), Error> {
    let truth = |word: &str| match word {
        "TRUE" | "T" => Ok(true),
        "FALSE" | "F" => Ok(false),
        _ => Err(Error::Event),
    };
    match words {
        [] => Ok((Time::Micros(DEFAULT_PERIOD), true)),
        [period] => Ok((Time::parse(period)?, true)),
        [period, at_once] => Ok((Time::parse(period)?, truth(at_once)?)),
        _ => Err(Error::Event),
    }
}

impl Time {
    /// Reads a number with its unit: `S`, `M` (milliseconds, the default), `U`, `H` or `K`.
    fn parse(text: &str) -> Result<Self, Error> {
        let (number, unit) = match text.as_bytes().last() {
            Some(b'0'..=b'9') => (text, 'M'),
            Some(unit) => (&text[..text.len() - 1], char::from(*unit)),
            None => return Err(Error::Event),
        };
        if !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Error::Event);
        }
        let number: u32 = number.parse().map_err(|_| Error::Event)?;
        match unit {
            'S' => Ok(Self::Micros(u64::from(number) * 1_000_000)),
            'M' => Ok(Self::Micros(u64::from(number) * 1000)),
            'U' => Ok(Self::Micros(u64::from(number))),
            'H' => Ok(Self::Hertz(number)),
            'K' => number.checked_mul(1000).map(Self::Hertz).ok_or(Error::Event),
            _ => Err(Error::Event),
        }
    }

    /// Returns the time in microseconds, rounded down; 0 for a frequency of 0.
    pub fn micros(self) -> u64 {
        match self {
            Self::Micros(micros) => micros,
            Self::Hertz(0) => 0,
            Self::Hertz(hertz) => 1_000_000 / u64::from(hertz),
        }
    }

    /// Returns the time in milliseconds, rounded; 0 for a frequency of 0.
    pub fn millis(self) -> u64 {
        match self {
            Self::Micros(micros) => (micros + 500) / 1000,
            Self::Hertz(0) => 0,
            Self::Hertz(hertz) => (1000 + u64::from(hertz) / 2) / u64::from(hertz),
        }
    }
}

impl EventClock {
    fn parse(text: &str) -> Result<Self, Error> {
        match text {
            "H" => Ok(Self::Hardware),
            "S" => Ok(Self::Software),
            "E" => Ok(Self::Either),
            _ => Err(Error::Event),
        }
    }

    /// Returns the letter by which requests name the source.
    pub fn letter(self) -> char {
        match self {
            Self::Hardware => 'H',
            Self::Software => 'S',
            Self::Either => 'E',
        }
    }
}

impl Comparison {
    /// Returns the comparison that a sign such as `>=` stands for; `None` for an unknown sign.
    pub fn of_sign(sign: &str) -> Option<Self> {
        Self::parse(sign).ok()
    }

    /// Returns whether the comparison holds for a state and a value.
    pub fn holds(self, state: i32, value: i32) -> bool {
        match self {
            Self::Equal => state == value,
            Self::NotEqual => state != value,
            Self::Any => true,
            Self::Greater => state > value,
            Self::Less => state < value,
            Self::LessOrEqual => state <= value,
            Self::GreaterOrEqual => state >= value,
        }
    }

    fn parse(text: &str) -> Result<Self, Error> {
        COMPARISONS.iter().find(|row| row.1 == text).map(|row| row.0).ok_or(Error::Event)
    }

    /// Returns the sign of the comparison as requests write it.
    pub fn sign(self) -> &'static str {
        COMPARISONS.iter().find(|row| row.0 == self).map_or("", |row| row.1)
    }
}

impl fmt::Display for DrfEvent {
    /// Writes the event with the `@`; nothing for the database's default, which can also be written
    /// as `U`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let truth = |at_once: &bool| if *at_once { "TRUE" } else { "FALSE" };
        match self {
            DrfEvent::Default => Ok(()),
            DrfEvent::Immediate => formatter.write_str("@I"),
            DrfEvent::Never => formatter.write_str("@N"),
            DrfEvent::Periodic { period, at_once } => write!(formatter, "@P,{period},{}", truth(at_once)),
            DrfEvent::OnChange { period, at_once } => write!(formatter, "@Q,{period},{}", truth(at_once)),
            DrfEvent::Clock { number, clock, delay } => {
                write!(formatter, "@E,{number:X},{},{delay}", clock.letter())
            }
            DrfEvent::State { device, value, delay, comparison } => {
                write!(formatter, "@S,{device},{value},{delay},{}", comparison.sign())
            }
        }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Time::Micros(0) => formatter.write_str("0"),
            Time::Micros(micros) if micros % 1_000_000 == 0 => write!(formatter, "{}S", micros / 1_000_000),
            Time::Micros(micros) if micros % 1000 == 0 => write!(formatter, "{}", micros / 1000),
            Time::Micros(micros) => write!(formatter, "{micros}U"),
            Time::Hertz(hertz) if *hertz > 0 && hertz % 1000 == 0 => write!(formatter, "{}K", hertz / 1000),
            Time::Hertz(hertz) => write!(formatter, "{hertz}H"),
        }
    }
}

const COMPARISONS: &[(Comparison, &str)] = &[
    (Comparison::Equal, "="),
    (Comparison::NotEqual, "!="),
    (Comparison::Any, "*"),
    (Comparison::Greater, ">"),
    (Comparison::Less, "<"),
    (Comparison::LessOrEqual, "<="),
    (Comparison::GreaterOrEqual, ">="),
];
/// The default period in microseconds.
const DEFAULT_PERIOD: u64 = 1_000_000;
