//! Scripts by which the simulator plays devices, the faults of its front-ends, and its clock
//! events.

use super::mistake::Wrong;
use super::table::U16;

/// The readings that a simulated front-end plays for a device.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// The name of the device that the script plays.
    pub device: String,
    /// `constant`, `ramp`, `sine`, `noise`, `counter`, `setting` (its current setting) or `silent`.
    pub shape: String,
    /// The lowest value, or the constant one.
    pub low: f64,
    /// The highest value.
    pub high: f64,
    /// True if values are engineering units, false if they are raw numbers.
    pub is_scaled: bool,
    /// The period of a ramp or sine, in seconds.
    pub seconds: f64,
    /// The text that the device reads, for devices that read texts instead of numbers.
    pub text: Option<String>,
    /// The basic status by the last command; without it, commands change the attributes that they
    /// name.
    pub status: Vec<(String, u32)>,
    /// The limits of its analog alarm, raw or scaled as its values are; without them all its
    /// readings are good.
    pub alarm: Option<[f64; 2]>,
    /// The nominal status of its digital alarm and the bits that count; without them every status
    /// is good.
    pub digital: Option<[u32; 2]>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            device: String::new(),
            shape: String::new(),
            low: 0.0,
            high: 0.0,
            is_scaled: false,
            seconds: 1.0,
            text: None,
            status: Vec::new(),
            alarm: None,
            digital: None,
        }
    }
}

/// An event of the simulated clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SimulatedEvent {
    /// The number of the clock event, below `0x8000`.
    pub number: u16,
    /// The time between two of them, in milliseconds; not 0.
    pub every_millis: u64,
}

impl SimulatedEvent {
    /// Checks that there can be such an event.
    pub(super) fn check(&self) -> Result<(), Wrong> {
        if self.number >= 0x8000 {
            return Err(Wrong::new("number", format!("{U16}, and below 0x8000")));
        }
        if self.every_millis == 0 {
            return Err(Wrong::new("every_ms", "from 1 on"));
        }
        Ok(())
    }
}

/// The faults that a simulated node plays.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeFaults {
    /// The name of the node.
    pub node: String,
    /// The delay of its answers, in milliseconds.
    pub delay_millis: u64,
    /// The share of its answers that is lost, from 0 to 1.
    pub loss: f64,
    /// The time for which it works before it dies, in seconds; 0 if it never dies.
    pub up_seconds: u64,
    /// The time for which it is then dead, in seconds.
    pub down_seconds: u64,
}

impl NodeFaults {
    /// Returns whether the node is dead at a time.
    pub(crate) fn is_down(&self, millis: u64) -> bool {
        self.up_seconds > 0 && millis % self.cycle() >= self.up_seconds * 1000
    }

    /// Returns the number of its restarts before a time.
    pub(crate) fn restarts(&self, millis: u64) -> u64 {
        if self.up_seconds > 0 { millis / self.cycle() } else { 0 }
    }

    pub(super) fn cycle(&self) -> u64 {
        (self.up_seconds + self.down_seconds) * 1000
    }
}
