//! Scaling: raw values of front-ends in primary units (often volts) and in engineering units, and
//! back.
//!
//! Raw little-endian integers of 1, 2 or 4 bytes are sign-extended to an `i32`. A *primary*
//! transform turns that into a number, and a *common* transform with the device's constants turns
//! the number into engineering units. The database has an index for both. A value that can't be
//! scaled has the status [`SCALEFAIL`](crate::status::Status::SCALEFAIL); numbers that overflow on
//! the way to engineering units become infinite, without an error.
//!
//! Where the Java DPM's inverse is known not to invert (common 32 and 66 with general constants,
//! primary 46 and 58 with the top bit set), ours does.

mod common;
mod inverse;
pub mod primary;
mod raw;
mod text;

pub use common::{CommonTransform, Piece};
pub use raw::raw;
pub use text::{Enumeration, TextKind};

use crate::status::Status;

/// The scaling of one property of a device.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaling {
    /// The index of the primary transform.
    pub primary: u16,
    /// The number of bytes of a raw value: 1, 2 or 4; [`DOUBLE`] for one that is already a number.
    pub input: usize,
    /// The common transform.
    pub common: CommonTransform,
}

impl Scaling {
    /// Returns the primary units of the bytes of one element.
    ///
    /// # Errors
    /// [`SCALEFAIL`](Status::SCALEFAIL) for too few bytes, and for a value that the transform can't
    /// scale.
    pub fn to_primary(&self, bytes: &[u8]) -> Result<f64, Status> {
        if self.input == DOUBLE {
            return bytes.first_chunk().map(|bytes| f64::from_le_bytes(*bytes)).ok_or(Status::SCALEFAIL);
        }
        let raw = bytes.get(..self.input).and_then(raw).ok_or(Status::SCALEFAIL)?;
        primary::scale(self.primary, self.input, raw)
    }

    /// Returns the engineering units of the bytes of one element.
    ///
    /// # Errors
    /// [`SCALEFAIL`](Status::SCALEFAIL) for too few bytes, and for a value that a transform can't
    /// scale.
    pub fn to_common(&self, bytes: &[u8]) -> Result<f64, Status> {
        self.common.scale(self.to_primary(bytes)?)
    }

    /// Returns the raw value nearest to a number of primary units.
    ///
    /// # Errors
    /// [`SCALEFAIL`](Status::SCALEFAIL) for numbers that the raw value cannot hold, which would be
    /// read back as different ones; [`NOSCALE`](Status::NOSCALE) if a value isn't raw
    /// ([`DOUBLE`]).
    pub fn from_primary(&self, value: f64) -> Result<i32, Status> {
        if self.input == DOUBLE {
            // No raw value has this many bits.
            return Err(Status::NOSCALE);
        }
        let raw = primary::unscale(self.primary, self.input, value)?;
        let back = self.to_primary(&self.bytes(raw)?)?;
        let step = primary::step(self.primary, self.input, value) + value.abs() * ROUNDING;
        if (back - value).abs() <= step { Ok(raw) } else { Err(Status::SCALEFAIL) }
    }

    /// Returns the raw value nearest to a number of engineering units.
    ///
    /// # Errors
    /// As those of [`from_primary`](Self::from_primary);
    /// [`SCALEFAIL`](Status::SCALEFAIL) also if nothing scales to the number.
    pub fn from_common(&self, value: f64) -> Result<i32, Status> {
        let limits = primary::limits(self.primary, self.input);
        self.from_primary(self.common.unscale(value, limits)?)
    }

    /// Returns the bytes of the value nearest to a number of primary units.
    ///
    /// # Errors
    /// [`SCALEFAIL`](Status::SCALEFAIL) for numbers that the bytes cannot hold.
    pub fn primary_bytes(&self, value: f64) -> Result<Vec<u8>, Status> {
        match self.input {
            DOUBLE if value.is_finite() => Ok(value.to_le_bytes().to_vec()),
            DOUBLE => Err(Status::SCALEFAIL),
            _ => self.bytes(self.from_primary(value)?),
        }
    }

    /// Returns the bytes of the value nearest to a number of engineering units.
    ///
    /// # Errors
    /// [`SCALEFAIL`](Status::SCALEFAIL) for numbers that the bytes cannot hold.
    pub fn common_bytes(&self, value: f64) -> Result<Vec<u8>, Status> {
        match self.input {
            DOUBLE => self.primary_bytes(self.common.unscale(value, (-primary::FLOATS, primary::FLOATS))?),
            _ => self.bytes(self.from_common(value)?),
        }
    }

    /// Returns the bytes of a raw value, as many as an element has.
    ///
    /// # Errors
    /// [`SCALEFAIL`](Status::SCALEFAIL) for a value that doesn't fit them, with or without a sign.
    pub fn bytes(&self, raw: i32) -> Result<Vec<u8>, Status> {
        let fits = match self.input {
            1 => (-0x80..=0xff).contains(&raw),
            2 => (-0x8000..=0xffff).contains(&raw),
            _ => true,
        };
        if fits { Ok(raw.to_le_bytes()[..self.input.min(4)].to_vec()) } else { Err(Status::SCALEFAIL) }
    }

    /// Returns the kind of text that readings have; `None` if they are numbers.
    pub fn text(&self) -> Option<TextKind> {
        (self.primary == primary::STRING).then(|| TextKind::of(&self.common)).flatten()
    }
}

/// The size of a value that is already a number: a double of IEEE 754, little endian.
pub const DOUBLE: usize = size_of::<f64>();
/// The error of arithmetic with 64-bit floats, relative to the number.
const ROUNDING: f64 = 1e-12;
