//! The part of a property: `[2:5]` in elements, `{256:16}` in bytes.

use std::fmt;

use super::Error;

/// A part of a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Range {
    /// Everything.
    All,
    /// From one element to another, both included, or to the end.
    Elements(u16, Option<u16>),
    /// This many bytes from one byte on, or all until the end.
    Bytes(u32, Option<u32>),
}

impl Range {
    /// Reads a range with its brackets.
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let inside = |open, close| text.strip_prefix(open).and_then(|text| text.strip_suffix(close));
        if let Some(elements) = inside('[', ']') {
            let (from, to) = numbers(elements)?;
            let narrow = |number: u32| u16::try_from(number).ok().filter(|number| *number <= LAST).ok_or(Error::Range);
            match (narrow(from)?, to) {
                (0, Some(None)) => Ok(Range::All),
                (from, Some(None)) => Ok(Range::Elements(from, None)),
                (from, None) => Ok(Range::Elements(from, Some(from))),
                (from, Some(Some(to))) => {
                    let to = narrow(to)?;
                    if to < from { Err(Error::Range) } else { Ok(Range::Elements(from, Some(to))) }
                }
            }
        } else if let Some(bytes) = inside('{', '}') {
            match numbers(bytes)? {
                (0, Some(None)) => Ok(Range::All),
                (offset, Some(length)) => Ok(Range::Bytes(offset, length)),
                (offset, None) => Ok(Range::Bytes(offset, Some(1))),
            }
        } else {
            Err(Error::Range)
        }
    }
}

/// Returns the numbers of `from:to`; the outer option of the second says whether there was a colon.
/// An empty text stands for the whole property.
fn numbers(text: &str) -> Result<(u32, Option<Option<u32>>), Error> {
    let number = |text: &str| if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(|_| Error::Range) };
    match text.split_once(':') {
        Some((from, to)) => Ok((number(from)?.unwrap_or(0), Some(number(to)?))),
        None => Ok(number(text)?.map_or((0, Some(None)), |from| (from, None))),
    }
}

impl fmt::Display for Range {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Range::All => formatter.write_str("[]"),
            Range::Elements(from, None) => write!(formatter, "[{from}:]"),
            Range::Elements(from, Some(to)) if from == to => write!(formatter, "[{from}]"),
            Range::Elements(from, Some(to)) => write!(formatter, "[{from}:{to}]"),
            Range::Bytes(offset, None) => write!(formatter, "{{{offset}:}}"),
            Range::Bytes(offset, Some(1)) => write!(formatter, "{{{offset}}}"),
            Range::Bytes(offset, Some(length)) => write!(formatter, "{{{offset}:{length}}}"),
        }
    }
}

/// The largest index of an element.
const LAST: u16 = 32767;
