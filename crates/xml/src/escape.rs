//! Escapes text into XML. The result is valid wherever the function's name says.
//!
//! A character that XML can't represent, even as a reference (control characters, U+FFFE, U+FFFF),
//! becomes U+FFFD.

use std::borrow::Cow;

use crate::lex::is_char;

/// Escapes the value of an attribute, for quotes of either kind. Line breaks and tabs survive the
/// reader's normalisation (XML §3.3.3).
#[inline]
pub fn escape_attr(text: &str) -> Cow<'_, str> {
    escape(text, attr_replacement)
}

/// Escapes character data. `>` is escaped too, so that no `]]>` can arise.
#[inline]
pub fn escape_text(text: &str) -> Cow<'_, str> {
    escape(text, text_replacement)
}

#[inline]
pub(crate) fn push_attr(out: &mut Vec<u8>, text: &str) {
    push(out, text, attr_replacement);
}

#[inline]
pub(crate) fn push_text(out: &mut Vec<u8>, text: &str) {
    push(out, text, text_replacement);
}

fn attr_replacement(c: char) -> Option<&'static str> {
    match c {
        '\'' => Some("&apos;"),
        '"' => Some("&quot;"),
        '\t' => Some("&#9;"),
        '\n' => Some("&#10;"),
        _ => text_replacement(c),
    }
}

fn text_replacement(c: char) -> Option<&'static str> {
    match c {
        '&' => Some("&amp;"),
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        '\r' => Some("&#13;"),
        c if !is_char(c) => Some("\u{FFFD}"),
        _ => None,
    }
}

type Replacement = fn(char) -> Option<&'static str>;

fn escape(text: &str, replacement: Replacement) -> Cow<'_, str> {
    if text.bytes().all(is_plain) || next(text, replacement).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some((at, len, written)) = next(rest, replacement) {
        out.push_str(&rest[..at]);
        out.push_str(written);
        rest = &rest[at + len..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

fn push(out: &mut Vec<u8>, text: &str, replacement: Replacement) {
    // Nearly always nothing has to be escaped, and the sender of every stanza comes through here.
    if text.bytes().all(is_plain) {
        return out.extend_from_slice(text.as_bytes());
    }
    let mut rest = text;
    while let Some((at, len, written)) = next(rest, replacement) {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        out.extend_from_slice(written.as_bytes());
        rest = &rest[at + len..];
    }
    out.extend_from_slice(rest.as_bytes());
}

/// Returns whether a byte is a character that can stand unchanged everywhere. It misses some of
/// these, which are then examined closely.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && !matches!(byte, b'&' | b'\'' | b'"' | b'<' | b'>')
}

/// Returns the next character that can't stand as it is: its place, its length and what to write.
fn next(text: &str, replacement: Replacement) -> Option<(usize, usize, &'static str)> {
    text.char_indices().find_map(|(at, c)| replacement(c).map(|written| (at, c.len_utf8(), written)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_borrowed() {
        assert!(matches!(escape_attr("a é"), Cow::Borrowed("a é")));
        assert!(matches!(escape_text("it's \"so\"\n\t"), Cow::Borrowed(_)));
    }

    #[test]
    fn what_means_something_is_escaped() {
        assert_eq!(
            escape_attr("<a b='c' d=\"e\"/>&\n\t\r"),
            "&lt;a b=&apos;c&apos; d=&quot;e&quot;/&gt;&amp;&#10;&#9;&#13;"
        );
        assert_eq!(escape_text("]]>&\r\u{0}\u{FFFE}x"), "]]&gt;&amp;&#13;\u{FFFD}\u{FFFD}x");
    }
}
