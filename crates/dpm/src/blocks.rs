//! Values that are packed into bits and blocks: basic status, commands, alarm blocks.

mod alarm;
mod control;
mod status;

pub use alarm::{AlarmBlock, AlarmLimits, SIZE as ALARM_SIZE};
pub use control::{ControlCommand, order};
pub use status::{Attribute, AttributeWords, Bit, StatusBits};
