//! Readings that are text: primary transform 68 with common transform 60 or 84.

use super::common::CommonTransform;
use super::raw::raw;
use crate::status::Status;

/// The way in which bytes become text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextKind {
    /// A word as four hexadecimal digits.
    Hexadecimal16,
    /// A double word as eight hexadecimal digits.
    Hexadecimal32,
    /// All bytes are characters, up to the first zero.
    Characters,
    /// The name of a number in the database.
    Enumerated,
}

/// The names of numbers.
pub type Enumeration = Vec<(i32, String)>;

impl TextKind {
    /// Returns the kind that the first constant selects. Only the number (472) of the time of day
    /// is known, so it isn't supported.
    pub(super) fn of(common: &CommonTransform) -> Option<Self> {
        if !matches!(common.index, 60 | 84) {
            return None;
        }
        match *common.constants.first()? {
            2.0 => Some(Self::Hexadecimal16),
            3.0 => Some(Self::Hexadecimal32),
            8.0 => Some(Self::Characters),
            12.0 | 288.0 | 289.0 => Some(Self::Enumerated),
            _ => None,
        }
    }

    /// Returns the text of one element.
    ///
    /// # Errors
    /// [`SCALEFAIL`](Status::SCALEFAIL) for a number without a name, or of another length than 1, 2
    /// or 4 bytes.
    pub fn read(self, bytes: &[u8], names: &[(i32, String)]) -> Result<String, Status> {
        let number = || raw(bytes).ok_or(Status::SCALEFAIL);
        Ok(match self {
            Self::Hexadecimal16 => format!("{:04X}", number()? as u16),
            Self::Hexadecimal32 => format!("{:08X}", number()?),
            Self::Characters => {
                let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
                bytes[..end].iter().copied().map(char::from).collect()
            }
            Self::Enumerated => {
                let number = number()?;
                names.iter().find(|name| name.0 == number).ok_or(Status::SCALEFAIL)?.1.clone()
            }
        })
    }

    /// Returns the bytes of a text, `size` of them.
    ///
    /// # Errors
    /// [`SCALEFAIL`](Status::SCALEFAIL) for a text that is too long, has characters beyond Latin-1,
    /// or is neither a hexadecimal number nor one of the names, whichever this kind needs.
    pub fn write(self, text: &str, size: usize, names: &[(i32, String)]) -> Result<Vec<u8>, Status> {
        let number = |number: u32| {
            let bytes = number.to_le_bytes();
            let fits = size <= 4 && bytes[size..].iter().all(|byte| *byte == 0);
            if fits { Ok(bytes[..size].to_vec()) } else { Err(Status::SCALEFAIL) }
        };
        match self {
            Self::Hexadecimal16 | Self::Hexadecimal32 => {
                number(u32::from_str_radix(text.trim(), 16).map_err(|_| Status::SCALEFAIL)?)
            }
            Self::Characters => {
                let mut bytes = Vec::with_capacity(size);
                for character in text.chars() {
                    bytes.push(u8::try_from(u32::from(character)).map_err(|_| Status::SCALEFAIL)?);
                }
                if bytes.len() > size {
                    return Err(Status::SCALEFAIL);
                }
                bytes.resize(size, 0);
                Ok(bytes)
            }
            Self::Enumerated => {
                let named = names.iter().find(|name| name.1.eq_ignore_ascii_case(text.trim()));
                let value = named.ok_or(Status::SCALEFAIL)?.0;
                let bytes = value.to_le_bytes().get(..size).ok_or(Status::SCALEFAIL)?.to_vec();
                // A number that is too large for the bytes would be read back as a different one.
                if raw(&bytes) == Some(value) { Ok(bytes) } else { Err(Status::SCALEFAIL) }
            }
        }
    }
}
