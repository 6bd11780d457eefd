//! RAD50: ACNET's packing of names of up to six characters into 32 bits.
//!
//! Three characters make 16 bits, each worth a power of 40. The first three are the low half. The
//! alphabet has no lower case, so names are compared regardless of case.

use std::fmt;

/// A name of a node or task, packed. `DPMD` is `19001b8d`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Rad50(pub u32);

/// The error for a text that isn't a RAD50 name: it has more than six characters, or one other than
/// space, A–Z, `$`, `.`, `%`, 0–9.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotRad50;

impl Rad50 {
    /// Packs a name. Case is ignored.
    ///
    /// # Errors
    /// [`NotRad50`] for a name with too many characters, or with one outside of the alphabet.
    pub fn parse(name: &str) -> Result<Self, NotRad50> {
        if name.len() > CHARACTERS {
            return Err(NotRad50);
        }
        let mut halves = [0u32; 2];
        for (position, byte) in name.bytes().chain(std::iter::repeat(b' ')).take(CHARACTERS).enumerate() {
            let code = ALPHABET.iter().position(|known| *known == byte.to_ascii_uppercase()).ok_or(NotRad50)?;
            let half = &mut halves[position / 3];
            *half = *half * 40 + code as u32;
        }
        Ok(Self(halves[1] << 16 | halves[0]))
    }

    /// Packs a name that is known at compile time; an invalid one stops the build (or panics).
    pub const fn literal(name: &[u8]) -> Self {
        let mut halves = [0u32; 2];
        let mut position = 0;
        while position < CHARACTERS {
            let byte = if position < name.len() { name[position] } else { b' ' };
            let mut code = 0;
            while ALPHABET[code] != byte {
                code += 1;
            }
            halves[position / 3] = halves[position / 3] * 40 + code as u32;
            position += 1;
        }
        Self(halves[1] << 16 | halves[0])
    }
}

impl fmt::Display for Rad50 {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [b' '; CHARACTERS];
        for (half, characters) in [self.0 & 0xffff, self.0 >> 16].into_iter().zip(text.chunks_mut(3)) {
            let codes = [half / 1600, half / 40 % 40, half % 40];
            for (code, character) in codes.into_iter().zip(characters) {
                // 65535 / 1600 is 40, one more than the largest index in the alphabet. No name
                // packs to that.
                *character = ALPHABET.get(code as usize).copied().unwrap_or(b'?');
            }
        }
        let text = std::str::from_utf8(&text).unwrap_or_default();
        formatter.write_str(text.trim_end())
    }
}

impl fmt::Debug for Rad50 {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Rad50({self})")
    }
}

const CHARACTERS: usize = 6;
const ALPHABET: &[u8; 40] = b" ABCDEFGHIJKLMNOPQRSTUVWXYZ$.%0123456789";
