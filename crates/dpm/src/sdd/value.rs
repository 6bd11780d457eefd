//! The values that messages are made of.
//!
//! A value starts with a tag: its high half is the kind, its low half the length of the number that
//! follows. Numbers are signed and big endian. Writers use the fewest bytes; readers accept any
//! number of them up to eight.

/// The reason why bytes are not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SddError {
    /// They end within a value.
    Truncated,
    /// They do not begin with `SDD` and version 2, or belong to another protocol.
    NotSdd,
    /// A tag of another kind than the value that is expected here.
    Tag(u8),
    /// A length or count that is negative, or larger than what follows.
    Length,
    /// A number that its field cannot hold.
    Range,
    /// No message has this id.
    Message(u16),
    /// The message has no field of this id, or had it already.
    Field(u16),
    /// A mandatory field is absent.
    Missing(&'static str),
    /// Bytes follow the message, besides the one zero that pads it to an even length.
    Trailing,
}

impl std::fmt::Display for SddError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SddError::Truncated => formatter.write_str("the message ends too early"),
            SddError::NotSdd => formatter.write_str("no SDD message of the DPM protocol"),
            SddError::Tag(tag) => write!(formatter, "tag {tag:02x} does not belong here"),
            SddError::Length => formatter.write_str("a length does not fit what follows"),
            SddError::Range => formatter.write_str("a number is too large for its field"),
            SddError::Message(id) => write!(formatter, "no message has the id {id:04x}"),
            SddError::Field(id) => write!(formatter, "field {id:04x} is unknown or comes twice"),
            SddError::Missing(name) => write!(formatter, "the field {name} is missing"),
            SddError::Trailing => formatter.write_str("bytes follow the message"),
        }
    }
}

impl std::error::Error for SddError {}

/// Reads values, one after the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the bytes that have not been read yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Reads an integer of up to eight bytes.
    pub(super) fn integer(&mut self) -> Result<i64, SddError> {
        let tag = self.byte()?;
        self.number(tag, INTEGER)
    }

    /// Reads a double; only tag `28` is one.
    pub(super) fn double(&mut self) -> Result<f64, SddError> {
        match self.byte()? {
            DOUBLE => Ok(f64::from_be_bytes(*self.take(8)?.first_chunk().ok_or(SddError::Truncated)?)),
            tag => Err(SddError::Tag(tag)),
        }
    }

    /// Reads a boolean, which is the byte `70` or `71`.
    pub(super) fn read_boolean(&mut self) -> Result<bool, SddError> {
        match self.byte()? {
            FALSE => Ok(false),
            TRUE => Ok(true),
            tag => Err(SddError::Tag(tag)),
        }
    }

    /// Reads the id of a constant.
    pub(super) fn choice(&mut self) -> Result<u16, SddError> {
        let tag = self.byte()?;
        let number = self.number(tag, CHOICE)?;
        i16::try_from(number).map(|id| id as u16).map_err(|_| SddError::Range)
    }

    /// Reads bytes with their length.
    pub(super) fn binary(&mut self) -> Result<&'a [u8], SddError> {
        let length = self.length(BINARY)?;
        self.take(length).map_err(|_| SddError::Length)
    }

    /// Reads a string: Latin-1, a byte for each character.
    pub(super) fn string(&mut self) -> Result<String, SddError> {
        let length = self.length(STRING)?;
        let bytes = self.take(length).map_err(|_| SddError::Length)?;
        Ok(bytes.iter().copied().map(char::from).collect())
    }

    /// Reads the head of an array or struct, and returns the number of items that follow: at most
    /// as many as there are bytes left.
    pub(super) fn array(&mut self) -> Result<usize, SddError> {
        let count = self.length(ARRAY)?;
        if count > self.rest.len() { Err(SddError::Length) } else { Ok(count) }
    }

    fn length(&mut self, kind: u8) -> Result<usize, SddError> {
        let tag = self.byte()?;
        let length = self.number(tag, kind)?;
        usize::try_from(length).map_err(|_| SddError::Length)
    }

    fn number(&mut self, tag: u8, kind: u8) -> Result<i64, SddError> {
        let size = usize::from(tag & 0x0f);
        if tag & 0xf0 != kind || !(1..=8).contains(&size) {
            return Err(SddError::Tag(tag));
        }
        let bytes = self.take(size)?;
        let sign = if bytes[0] & 0x80 == 0 { 0 } else { -1 };
        Ok(bytes.iter().fold(sign, |number, byte| number << 8 | i64::from(*byte)))
    }

    fn byte(&mut self) -> Result<u8, SddError> {
        Ok(self.take(1)?[0])
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], SddError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(SddError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }
}

/// Appends an integer in the fewest bytes that hold it.
pub(super) fn put_integer(out: &mut Vec<u8>, number: i64) {
    put_number(out, INTEGER, number);
}

/// Appends a double.
pub(super) fn put_double(out: &mut Vec<u8>, number: f64) {
    out.push(DOUBLE);
    out.extend_from_slice(&number.to_be_bytes());
}

/// Appends a truth value.
pub(super) fn put_boolean(out: &mut Vec<u8>, value: bool) {
    out.push(if value { TRUE } else { FALSE });
}

/// Appends the id of a constant, which always has two bytes.
pub(super) fn put_choice(out: &mut Vec<u8>, id: u16) {
    out.push(CHOICE | 2);
    out.extend_from_slice(&id.to_be_bytes());
}

/// Appends bytes with their length.
pub(super) fn put_binary(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, BINARY, bytes.len() as i64);
    out.extend_from_slice(bytes);
}

/// Appends a string as Latin-1; characters that it lacks become `?`.
pub(super) fn put_string(out: &mut Vec<u8>, text: &str) {
    put_number(out, STRING, text.chars().count() as i64);
    out.extend(text.chars().map(|character| u8::try_from(u32::from(character)).unwrap_or(b'?')));
}

/// Appends the head of an array or struct.
pub(super) fn put_array(out: &mut Vec<u8>, count: usize) {
    put_number(out, ARRAY, count as i64);
}

fn put_number(out: &mut Vec<u8>, kind: u8, number: i64) {
    // One byte per eight bits, including the sign.
    let significant = 65 - if number < 0 { (!number).leading_zeros() } else { number.leading_zeros() };
    let size = significant.div_ceil(8).clamp(1, 8) as usize;
    out.push(kind | size as u8);
    out.extend_from_slice(&number.to_be_bytes()[8 - size..]);
}

const INTEGER: u8 = 0x10;
const DOUBLE: u8 = 0x28;
const BINARY: u8 = 0x30;
const STRING: u8 = 0x40;
const ARRAY: u8 = 0x50;
const FALSE: u8 = 0x70;
const TRUE: u8 = 0x71;
const CHOICE: u8 = 0x80;
