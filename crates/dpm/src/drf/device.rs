//! The names of devices.

use std::fmt;

use super::error::Error;
use super::property::Property;

/// A device, as a request names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Device {
    /// By name, such as `M:OUTTMP`.
    Name(String),
    /// By its index in the database, written `0:27235`.
    Index(u32),
}

impl Device {
    pub(super) fn parse(name: &str) -> Result<(Self, Property), Error> {
        let mut characters = name.chars();
        let (Some(first), Some(qualifier)) = (characters.next(), characters.next()) else { return Err(Error::Device) };
        let rest = characters.as_str();
        let property = Property::of_qualifier(qualifier).ok_or(Error::Device)?;
        let is_name = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || b"_:-".contains(&byte);
        if rest.is_empty() || rest.len() > LONGEST_NAME || !rest.bytes().all(is_name) {
            return Err(Error::Device);
        }
        match first {
            'A'..='Z' => Ok((Self::Name(format!("{first}:{rest}")), property)),
            '0' | '#' => rest.parse().map(|index| (Self::Index(index), property)).map_err(|_| Error::Device),
            _ => Err(Error::Device),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Name(name) => formatter.write_str(name),
            Device::Index(index) => write!(formatter, "0:{index}"),
        }
    }
}

/// The number of characters that may follow the first two of a name.
pub(super) const LONGEST_NAME: usize = 62;
