//! The smallest pieces of XML, over bytes that may end anywhere.
//!
//! Each function moves past one piece or returns the reason why it can't: [`Stop::Partial`] if the
//! bytes end first. Functions with a cursor leave it at a place where they may be called again with
//! more bytes, so that a long text that arrives in small pieces is still read once.

use crate::Fault;
use crate::stride;

/// The reason why lexing stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The bytes end within the piece.
    Partial,
    /// The bytes are wrong, whatever follows.
    Fault(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// A qualified name: `start..end` with the local part from `local`, which equals `start` if there
/// is no prefix.
#[derive(Clone, Copy)]
pub(crate) struct QName {
    pub(crate) start: usize,
    pub(crate) local: usize,
    pub(crate) end: usize,
}

/// Reads a qualified name (Namespaces in XML §4). The byte after it is in the buffer.
#[inline(always)]
pub(crate) fn qname(buf: &[u8], start: usize) -> Result<QName, Stop> {
    if let Some(end) = stride::plain_name(buf, start) {
        return Ok(QName { start, local: start, end });
    }
    any_qname(buf, start)
}

#[inline(never)]
fn any_qname(buf: &[u8], start: usize) -> Result<QName, Stop> {
    let first = ncname(buf, start)?;
    let mut name = QName { start, local: start, end: first };
    if buf[first] == b':' {
        name.local = first + 1;
        name.end = ncname(buf, first + 1)?;
    }
    if name.end - start > MAX_NAME {
        return Err(Fault::NameTooLong.into());
    }
    Ok(name)
}

/// Reads a name without a colon and returns its end, where there is another byte.
#[inline(always)]
fn ncname(buf: &[u8], start: usize) -> Result<usize, Stop> {
    let mut at = start;
    match buf.get(at) {
        Some(&b) if CLASS[usize::from(b)] & NAME_START != 0 => at += 1,
        Some(0x80..) => return ncname_beyond_ascii(buf, start),
        Some(_) => return Err(Fault::NotWellFormed.into()),
        None => return Err(Stop::Partial),
    }
    loop {
        match buf.get(at) {
            Some(&b) if CLASS[usize::from(b)] & NAME != 0 => at += 1,
            Some(0x80..) => return ncname_beyond_ascii(buf, start),
            Some(_) => return Ok(at),
            None if at - start > MAX_NAME => return Err(Fault::NameTooLong.into()),
            None => return Err(Stop::Partial),
        }
    }
}

#[cold]
fn ncname_beyond_ascii(buf: &[u8], start: usize) -> Result<usize, Stop> {
    let mut at = start;
    loop {
        let (c, len) = match buf.get(at) {
            None if at - start > MAX_NAME => return Err(Fault::NameTooLong.into()),
            None => return Err(Stop::Partial),
            Some(&b) if b.is_ascii() => (char::from(b), 1),
            Some(_) => decode(&buf[at..])?,
        };
        if at == start && !is_name_start(c) {
            return Err(Fault::NotWellFormed.into());
        }
        if !is_name(c) {
            return if c.is_ascii() { Ok(at) } else { Err(Fault::NotWellFormed.into()) };
        }
        at += len;
    }
}

/// Moves over white space (XML §2.3 \[3\]) to the byte after it.
#[inline(always)]
pub(crate) fn space(buf: &[u8], mut at: usize) -> Result<usize, Stop> {
    loop {
        match buf.get(at) {
            Some(&b) if is_space(b) => at += 1,
            Some(_) => return Ok(at),
            None => return Err(Stop::Partial),
        }
    }
}

/// Reads from the end of an attribute's name to the opening quote of its value and returns that
/// quote's place.
#[inline(always)]
pub(crate) fn equals_quote(buf: &[u8], name: QName) -> Result<usize, Stop> {
    let mut at = name.end;
    if buf[at] != b'=' {
        at = bounded_space(buf, at)?;
        if buf[at] != b'=' {
            return Err(Fault::NotWellFormed.into());
        }
    }
    at += 1;
    match buf.get(at) {
        Some(b'\'' | b'"') => Ok(at),
        Some(_) => {
            at = bounded_space(buf, at)?;
            if matches!(buf[at], b'\'' | b'"') { Ok(at) } else { Err(Fault::NotWellFormed.into()) }
        }
        None => Err(Stop::Partial),
    }
}

/// Reads white space of a bounded length: it is read again if the bytes end in it.
pub(crate) fn bounded_space(buf: &[u8], from: usize) -> Result<usize, Stop> {
    let end = space(buf, from);
    if end.unwrap_or(buf.len()) - from > MAX_NAME {
        return Err(Fault::NameTooLong.into());
    }
    end
}

/// Moves the cursor to the quote that ends an attribute value (XML §2.3 \[10\]).
///
/// A raw carriage return is refused: parsers disagree on what it becomes.
#[inline(always)]
pub(crate) fn value(buf: &[u8], cursor: &mut usize, quote: u8) -> Result<(), Stop> {
    loop {
        stride::skip_plain_value(buf, cursor);
        match buf.get(*cursor) {
            Some(&b) if b == quote => return Ok(()),
            Some(b'&') => *cursor = reference(buf, *cursor)?,
            Some(0x80..) => step(beyond_ascii(buf, *cursor), cursor)?,
            Some(b'<') => return Err(Fault::NotWellFormed.into()),
            Some(b'\t' | b'\n' | b' '..) => *cursor += 1,
            Some(_) => return Err(Fault::NotWellFormed.into()),
            None => return Err(Stop::Partial),
        }
    }
}

/// Moves the cursor to the `<` that ends character data (XML §2.4).
#[inline(always)]
pub(crate) fn text(buf: &[u8], cursor: &mut usize) -> Result<(), Stop> {
    loop {
        stride::skip_plain_text(buf, cursor);
        match buf.get(*cursor) {
            Some(b'<') => return Ok(()),
            Some(b'&') => *cursor = reference(buf, *cursor)?,
            Some(0x80..) => step(beyond_ascii(buf, *cursor), cursor)?,
            Some(b'>') if buf[..*cursor].ends_with(b"]]") => return Err(Fault::NotWellFormed.into()),
            Some(b'\t' | b'\n' | b'\r' | b' '..) => *cursor += 1,
            Some(_) => return Err(Fault::NotWellFormed.into()),
            None => return Err(Stop::Partial),
        }
    }
}

/// Reads a run of characters beyond ASCII and returns where it stopped, and why if not at ASCII.
/// The cursor is passed by value: a reference to it would keep it out of the registers everywhere.
#[inline(never)]
fn beyond_ascii(buf: &[u8], mut at: usize) -> (usize, Result<(), Stop>) {
    loop {
        match buf.get(at..).unwrap_or_default() {
            // Every character of two bytes is allowed.
            [0xC2..=0xDF, 0x80..=0xBF, ..] => at += 2,
            rest @ [0x80..=0xFF, ..] => match decode(rest) {
                Ok((_, len)) => at += len,
                Err(stop) => return (at, Err(stop)),
            },
            _ => return (at, Ok(())),
        }
    }
}

#[inline(always)]
fn step((at, end): (usize, Result<(), Stop>), cursor: &mut usize) -> Result<(), Stop> {
    *cursor = at;
    end
}

/// Moves over the `<![CDATA[` at `at`.
pub(crate) fn cdata_start(buf: &[u8], at: usize) -> Result<usize, Stop> {
    let rest = buf.get(at..).unwrap_or_default();
    if rest.starts_with(CDATA) {
        Ok(at + CDATA.len())
    } else if CDATA.starts_with(rest) {
        Err(Stop::Partial)
    } else if rest.starts_with(b"<![") {
        Err(Fault::NotWellFormed.into())
    } else {
        Err(Fault::RestrictedXml.into())
    }
}

/// Moves the cursor past the `]]>` that ends a CDATA section (XML §2.7).
pub(crate) fn cdata(buf: &[u8], cursor: &mut usize) -> Result<(), Stop> {
    loop {
        stride::skip_plain_cdata(buf, cursor);
        let rest = buf.get(*cursor..).unwrap_or_default();
        match rest {
            [b']', b']', b'>', ..] => {
                *cursor += 3;
                return Ok(());
            }
            [] | [b']'] | [b']', b']'] => return Err(Stop::Partial),
            [0x80..=0xFF, ..] => step(beyond_ascii(buf, *cursor), cursor)?,
            [b'\t' | b'\n' | b'\r' | b' '..=0x7F, ..] => *cursor += 1,
            _ => return Err(Fault::NotWellFormed.into()),
        }
    }
}

/// Reads the reference whose `&` is at `at` and returns its end (XML §4.1). Only the five entities
/// of XML §4.6 exist.
#[inline(never)]
pub(crate) fn reference(buf: &[u8], at: usize) -> Result<usize, Stop> {
    let rest = buf.get(at + 1..).unwrap_or_default();
    let window = &rest[..rest.len().min(MAX_REFERENCE)];
    let Some(len) = window.iter().position(|&b| b == b';') else {
        return Err(if window.len() < MAX_REFERENCE { Stop::Partial } else { not_a_reference(window).into() });
    };
    match character_of(&window[..len]) {
        Some(_) => Ok(at + 1 + len + 1),
        None => Err(not_a_reference(&window[..len]).into()),
    }
}

/// Returns the character that `&name;` stands for.
pub(crate) fn character_of(name: &[u8]) -> Option<char> {
    let (digits, radix) = match name {
        b"amp" => return Some('&'),
        b"lt" => return Some('<'),
        b"gt" => return Some('>'),
        b"apos" => return Some('\''),
        b"quot" => return Some('"'),
        [b'#', b'x', digits @ ..] => (digits, 16),
        [b'#', digits @ ..] => (digits, 10),
        _ => return None,
    };
    if !(1..=MAX_DIGITS).contains(&digits.len()) {
        return None;
    }
    let code = digits.iter().try_fold(0u32, |code, &b| {
        let digit = char::from(b).to_digit(radix)?;
        code.checked_mul(radix)?.checked_add(digit)
    })?;
    char::from_u32(code).filter(|&c| is_char(c))
}

/// Returns the fault: either a possible entity of a DTD, or garbage.
#[cold]
fn not_a_reference(name: &[u8]) -> Fault {
    match name {
        [b'#', b'x' | b'0'..=b'9', rest @ ..] if rest.len() >= MAX_DIGITS => Fault::NameTooLong,
        [first, rest @ ..] if is_entity_byte(*first) && rest.iter().all(|&b| is_entity_byte(b)) => Fault::RestrictedXml,
        _ => Fault::NotWellFormed,
    }
}

fn is_entity_byte(b: u8) -> bool {
    !b.is_ascii() || CLASS[usize::from(b)] & NAME != 0
}

/// Decodes one character beyond ASCII and its length. Overlong forms, surrogates and U+FFFE, U+FFFF
/// are refused.
#[inline]
pub(crate) fn decode(bytes: &[u8]) -> Result<(char, usize), Stop> {
    let (len, least, mut code) = match bytes.first() {
        Some(&b @ 0xC2..=0xDF) => (2, 0x80, u32::from(b & 0x1F)),
        Some(&b @ 0xE0..=0xEF) => (3, 0x800, u32::from(b & 0x0F)),
        Some(&b @ 0xF0..=0xF4) => (4, 0x1_0000, u32::from(b & 0x07)),
        Some(_) => return Err(Fault::NotWellFormed.into()),
        None => return Err(Stop::Partial),
    };
    for k in 1..len {
        match bytes.get(k) {
            Some(&b) if b & 0xC0 == 0x80 => code = code << 6 | u32::from(b & 0x3F),
            Some(_) => return Err(Fault::NotWellFormed.into()),
            None => return Err(Stop::Partial),
        }
    }
    match char::from_u32(code) {
        Some(c) if code >= least && is_char(c) => Ok((c, len)),
        _ => Err(Fault::NotWellFormed.into()),
    }
}

/// Returns whether a character may stand in XML (§2.2 \[2\]).
pub(crate) fn is_char(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{FFFD}' | '\u{10000}'..)
}

/// Returns whether a byte is white space (XML §2.3 \[3\]).
#[inline(always)]
pub(crate) fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\n' | b'\r')
}

/// Returns whether a character may begin a name (XML §2.3 \[4\]), without the colon and without
/// U+FDF0 to U+FFFD, compatibility characters that some parsers refuse.
pub(crate) fn is_name_start(c: char) -> bool {
    matches!(c,
        'A'..='Z' | 'a'..='z' | '_'
        | '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}' | '\u{F8}'..='\u{2FF}' | '\u{370}'..='\u{37D}'
        | '\u{37F}'..='\u{1FFF}' | '\u{200C}'..='\u{200D}' | '\u{2070}'..='\u{218F}' | '\u{2C00}'..='\u{2FEF}'
        | '\u{3001}'..='\u{D7FF}' | '\u{F900}'..='\u{FDCF}' | '\u{10000}'..='\u{EFFFF}')
}

/// Returns whether a character may stand in a name (XML §2.3 \[4a\]), without the colon.
pub(crate) fn is_name(c: char) -> bool {
    is_name_start(c) || matches!(c, '0'..='9' | '-' | '.' | '\u{B7}' | '\u{300}'..='\u{36F}' | '\u{203F}'..='\u{2040}')
}

/// The longest name, in bytes. Short, because a name is read again when the bytes end in it.
pub(crate) const MAX_NAME: usize = 512;
/// The longest number of a character reference, with room for leading zeros.
const MAX_DIGITS: usize = 8;
/// The longest reference without its `&`: `#x`, digits and `;`.
const MAX_REFERENCE: usize = 2 + MAX_DIGITS + 1;
const CDATA: &[u8] = b"<![CDATA[";

const NAME_START: u8 = 1;
const NAME: u8 = 2;

/// The places in a name that each ASCII byte may have.
const CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let mut b = 0;
    while b < 128 {
        if (b as u8).is_ascii_alphabetic() || b == b'_' as usize {
            class[b] = NAME_START | NAME;
        } else if (b as u8).is_ascii_digit() || b == b'-' as usize || b == b'.' as usize {
            class[b] = NAME;
        }
        b += 1;
    }
    class
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stops_at_each_meaning_whatever_its_place() {
        for lead in 0..80 {
            let plain = "x".repeat(lead);
            for (rest, end) in [("<", Ok(())), ("\u{1}<", Err(Fault::NotWellFormed.into())), ("", Err(Stop::Partial))] {
                let bytes = format!("{plain}{rest}");
                let mut cursor = 0;
                assert_eq!(text(bytes.as_bytes(), &mut cursor), end);
                assert_eq!(cursor, lead);
            }
            let mut cursor = 0;
            let bytes = format!("{plain}é&amp;]]&gt;\r\n{plain}>]>\u{10FFFF}<");
            assert_eq!(text(bytes.as_bytes(), &mut cursor), Ok(()));
            assert_eq!(cursor, bytes.len() - 1);
            let mut cursor = 0;
            assert_eq!(text(format!("{plain}]]>").as_bytes(), &mut cursor), Err(Fault::NotWellFormed.into()));
        }
    }

    #[test]
    fn references() {
        for good in ["&amp;", "&lt;", "&gt;", "&apos;", "&quot;", "&#65;", "&#x1F600;", "&#x0010FFFF;", "&#9;"] {
            assert_eq!(reference(good.as_bytes(), 0), Ok(good.len()), "{good}");
        }
        let bad = [
            ("&nbsp;", Fault::RestrictedXml),
            ("&longer-than-all;", Fault::RestrictedXml),
            ("&;", Fault::NotWellFormed),
            ("& x;", Fault::NotWellFormed),
            ("&#;", Fault::NotWellFormed),
            ("&#x;", Fault::NotWellFormed),
            ("&#X41;", Fault::NotWellFormed),
            ("&#0;", Fault::NotWellFormed),
            ("&#xFFFE;", Fault::NotWellFormed),
            ("&#xD800;", Fault::NotWellFormed),
            ("&#x110000;", Fault::NotWellFormed),
            ("&#000000065;", Fault::NameTooLong),
            ("&#9999999;", Fault::NotWellFormed),
            ("&#0000000065;", Fault::NameTooLong),
        ];
        for (raw, fault) in bad {
            assert_eq!(reference(raw.as_bytes(), 0), Err(fault.into()), "{raw}");
        }
        assert_eq!(reference(b"&am", 0), Err(Stop::Partial));
    }

    #[test]
    fn utf_8_is_checked() {
        for c in ['\u{80}', '\u{7FF}', '\u{800}', '\u{D7FF}', '\u{E000}', '\u{FFFD}', '\u{10000}', '\u{10FFFF}'] {
            let text = c.to_string();
            assert_eq!(decode(text.as_bytes()), Ok((c, text.len())));
            assert_eq!(decode(&text.as_bytes()[..1]), Err(Stop::Partial));
        }
        let bad: [&[u8]; 8] = [
            b"\x80",
            b"\xC0\xAF",
            b"\xE0\x80\xAF",
            b"\xED\xA0\x80",
            b"\xEF\xBF\xBE",
            b"\xEF\xBF\xBF",
            b"\xF4\x90\x80\x80",
            b"\xC3<",
        ];
        for bytes in bad {
            assert_eq!(decode(bytes), Err(Fault::NotWellFormed.into()), "{bytes:x?}");
        }
    }
}
