//! Mistakes in requests.

use crate::status::Status;

/// The reason why a request is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// The device's name.
    Device,
    /// The property or its field.
    Field,
    /// The range.
    Range,
    /// The text behind `@` is wrong.
    Event,
}

impl Error {
    /// Returns the status that a client is told.
    pub fn status(self) -> Status {
        match self {
            Error::Device | Error::Field | Error::Range => Status::BAD_REQUEST,
            Error::Event => Status::BAD_EVENT,
        }
    }
}
