//! Unescapes bytes into text: references resolved, white space normalised.
//!
//! Everything here works on bytes that the scanner has accepted. With other bytes, the worst
//! result is odd text.

use std::borrow::Cow;

use crate::lex;

/// Returns the text of an attribute value (XML §3.3.3). Borrows if nothing in it has to be
/// replaced.
#[inline]
pub fn value(raw: &[u8]) -> Cow<'_, str> {
    unescape(raw, |b| matches!(b, b'\t' | b'\n' | b'\r').then_some(' '))
}

/// Returns the text of character data (XML §2.11): line ends become line feeds.
#[inline]
pub(crate) fn text(raw: &[u8]) -> Cow<'_, str> {
    unescape(raw, |b| (b == b'\r').then_some('\n'))
}

/// Returns the text of a CDATA section, in which `&` is an ordinary character.
#[inline]
pub(crate) fn cdata(raw: &[u8]) -> Cow<'_, str> {
    let text = utf8(raw);
    if text.contains('\r') { Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n")) } else { text }
}

/// Returns whether two attribute values mean the same text. Allocates only if one of them isn't
/// plain.
#[inline]
pub(crate) fn same_text(one: &[u8], other: &[u8]) -> bool {
    let plain = |raw: &[u8]| !raw.iter().any(|&b| b == b'&' || b < b' ');
    if plain(one) && plain(other) { one == other } else { value(one) == value(other) }
}

fn unescape(raw: &[u8], normal: impl Fn(u8) -> Option<char>) -> Cow<'_, str> {
    let text = utf8(raw);
    let is_special = |b: u8| b == b'&' || normal(b).is_some();
    // The loop always runs to the end: without an early exit, the compiler compares many bytes at
    // once.
    if !raw.iter().fold(false, |any, &b| any | is_special(b)) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = &*text;
    while let Some(at) = rest.bytes().position(is_special) {
        out.push_str(&rest[..at]);
        let tail = &rest[at..];
        let taken = match normal(tail.as_bytes()[0]) {
            Some(c) => {
                out.push(c);
                if tail.starts_with("\r\n") { 2 } else { 1 }
            }
            None => push_reference(&mut out, tail),
        };
        rest = &tail[taken..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Resolves the reference at the start of `tail` and returns its length.
fn push_reference(out: &mut String, tail: &str) -> usize {
    let referred = tail.find(';').and_then(|end| Some((lex::character_of(tail.get(1..end)?.as_bytes())?, end + 1)));
    let (c, len) = referred.unwrap_or(('&', 1));
    out.push(c);
    len
}

fn utf8(raw: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(raw) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Borrowed(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_normalised() {
        assert!(matches!(value("plain é".as_bytes()), Cow::Borrowed("plain é")));
        assert_eq!(value(b"a&amp;b&#x41;&#10;\t\n&lt;"), "a&bA\n  <");
        assert_eq!(text(b"a\r\nb\rc\n\t&#13;&gt;"), "a\nb\nc\n\t\r>");
        assert_eq!(cdata(b"&amp;\r\n]]"), "&amp;\n]]");
    }

    #[test]
    fn namespaces_are_compared_by_meaning() {
        assert!(same_text(b"urn:x", b"urn:x"));
        assert!(same_text(b"urn:&#x78;", b"urn:x"));
        assert!(same_text(b"a\tb", b"a b"));
        assert!(!same_text(b"urn:x", b"urn:y"));
    }
}
