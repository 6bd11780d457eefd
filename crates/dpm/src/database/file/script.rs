//! Scripts by which the simulator plays devices, and the faults of its front-ends.

/// The readings that a simulated front-end plays for a device.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// The device.
    pub device: String,
    /// `constant`, `ramp`, `sine`, `noise`, `counter`, `setting` (its current setting) or `silent`.
    pub shape: String,
    /// The lowest raw value, or the constant one.
    pub low: i32,
    /// The highest raw value.
    pub high: i32,
    /// The period of a ramp or sine, in seconds.
    pub seconds: f64,
    /// The limits of its analog alarm, raw; without them all its readings are good.
    pub alarm: Option<[i32; 2]>,
}

impl Default for Script {
    fn default() -> Self {
        Self { device: String::new(), shape: String::new(), low: 0, high: 0, seconds: 1.0, alarm: None }
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
