//! Mistakes in requests.

use crate::status::Status;

/// The reason why a request is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// The device's name.
    Device,
    /// The property or its field.
    Field,
    /// The range in brackets, or its bounds.
    Range,
    /// The text after `@` is wrong.
    Event,
}

impl Error {
    /// Returns the status for the client.
    pub fn status(self) -> Status {
        match self {
            Error::Device | Error::Field | Error::Range => Status::BAD_REQUEST,
            Error::Event => Status::BAD_EVENT,
        }
    }
}
