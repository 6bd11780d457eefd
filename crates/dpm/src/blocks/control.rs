//! Commands: a number or a text that a client sets stands for a value in the database.

use crate::status::Status;

/// A command of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlCommand {
    /// Its place in the fixed order: RESET 0, ON 1, OFF 2…
    pub order: u8,
    /// The value that is sent to the front-end.
    pub value: u32,
    /// Its name.
    pub short: String,
    /// The effect, a text that may also be sent.
    pub long: String,
}

/// Returns the place of a command in the fixed order, by its name.
pub fn order(name: &str) -> Option<u8> {
    ORDER.iter().position(|known| known.eq_ignore_ascii_case(name)).map(|order| order as u8)
}

impl ControlCommand {
    /// Returns the command with a number that a client set.
    ///
    /// # Errors
    /// [`SCALEFAIL`](Status::SCALEFAIL) if the device has no such command.
    pub fn by_number(commands: &[ControlCommand], number: f64) -> Result<&ControlCommand, Status> {
        commands.iter().find(|command| f64::from(command.order) == number).ok_or(Status::SCALEFAIL)
    }

    /// Returns the command with a text that a client set, its name or its long name, regardless of
    /// case.
    ///
    /// # Errors
    /// [`SCALEFAIL`](Status::SCALEFAIL) if the device has no such command.
    pub fn by_text<'a>(commands: &'a [ControlCommand], text: &str) -> Result<&'a ControlCommand, Status> {
        let is_it = |command: &&ControlCommand| {
            [&command.short, &command.long].iter().any(|name| name.eq_ignore_ascii_case(text))
        };
        commands.iter().find(is_it).ok_or(Status::SCALEFAIL)
    }
}

const ORDER: &[&str] = &["RESET", "ON", "OFF", "POSITIVE", "NEGATIVE", "RAMP", "DC", "LOCAL", "REMOTE", "TRIP"];
