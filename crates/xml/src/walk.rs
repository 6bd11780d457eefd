//! A second look at bytes that the scanner has accepted, for those who want more than the [`Stanza`](crate::Stanza)
//! shows. Nothing is checked here; on bytes that were never scanned it ends early.

use crate::lex::{self, QName};
use crate::ns;
use crate::scope::Namespace;
use crate::unescape;
use crate::view::Span;
use std::borrow::Cow;

/// A piece of markup or content.
pub(crate) enum Token<'a> {
    Open(Open<'a>),
    /// An end tag, up to here.
    Close(usize),
    /// Character data as written.
    Text(&'a [u8]),
    /// The content of a CDATA section.
    Cdata(&'a [u8]),
}

/// A start tag.
#[derive(Clone, Copy)]
pub(crate) struct Open<'a> {
    buf: &'a [u8],
    pub(crate) name: QName,
    /// Behind its `>`.
    pub(crate) end: usize,
    pub(crate) self_closed: bool,
}

/// Yields the tokens from a place on.
pub(crate) struct Walk<'a> {
    buf: &'a [u8],
    pub(crate) at: usize,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(buf: &'a [u8], at: usize) -> Self {
        Self { buf, at }
    }

    fn token(&mut self) -> Option<Token<'a>> {
        let start = self.at;
        let token = match self.buf.get(start..)? {
            [b'<', b'/', ..] => {
                self.at = start + self.buf[start..].iter().position(|&b| b == b'>')? + 1;
                Token::Close(self.at)
            }
            [b'<', b'!', ..] => {
                let content = lex::cdata_start(self.buf, start).ok()?;
                self.at = content;
                lex::cdata(self.buf, &mut self.at).ok()?;
                Token::Cdata(&self.buf[content..self.at - 3])
            }
            [b'<', ..] => {
                let open = Open::read(self.buf, start)?;
                self.at = open.end;
                Token::Open(open)
            }
            rest => {
                let len = memchr::memchr(b'<', rest)?;
                self.at = start + len;
                Token::Text(&rest[..len])
            }
        };
        Some(token)
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        self.token()
    }
}

impl<'a> Open<'a> {
    /// Reads the start tag at `at`.
    pub(crate) fn read(buf: &'a [u8], at: usize) -> Option<Self> {
        let name = lex::qname(buf, at + 1).ok()?;
        let mut attributes = Attributes { buf, at: name.end };
        while attributes.next().is_some() {}
        let end = lex::space(buf, attributes.at).ok()?;
        let self_closed = buf[end] == b'/';
        Some(Self { buf, name, end: end + 1 + usize::from(self_closed), self_closed })
    }

    pub(crate) fn attributes(&self) -> Attributes<'a> {
        Attributes { buf: self.buf, at: self.name.end }
    }

    pub(crate) fn prefix(&self) -> &'a [u8] {
        prefix(self.buf, self.name)
    }

    pub(crate) fn local(&self) -> Span {
        Span { start: self.name.local as u32, end: self.name.end as u32 }
    }

    /// What this tag binds `prefix` to; the empty prefix stands for the default namespace.
    pub(crate) fn binding(&self, wanted: &[u8]) -> Option<Span> {
        self.attributes().find(|(name, _)| declared(self.buf, *name) == Some(wanted)).map(|(_, value)| value)
    }
}

/// The prefix that an attribute declares, which is empty for `xmlns`; `None` if it is no declaration.
pub(crate) fn declared(buf: &[u8], name: QName) -> Option<&[u8]> {
    match prefix(buf, name) {
        b"xmlns" => Some(&buf[name.local..name.end]),
        b"" if buf[name.start..name.end] == *b"xmlns" => Some(b""),
        _ => None,
    }
}

/// The prefix of a name, empty if it has none.
pub(crate) fn prefix(buf: &[u8], name: QName) -> &[u8] {
    buf.get(name.start..name.local.saturating_sub(1)).unwrap_or_default()
}

/// The attributes of a start tag with their values, quotes excluded.
pub(crate) struct Attributes<'a> {
    buf: &'a [u8],
    at: usize,
}

impl Iterator for Attributes<'_> {
    type Item = (QName, Span);

    fn next(&mut self) -> Option<Self::Item> {
        let start = lex::space(self.buf, self.at).ok()?;
        let name = lex::qname(self.buf, start).ok()?;
        let quote = lex::equals_quote(self.buf, name).ok()?;
        let value = quote + 1;
        let end = value + memchr::memchr(self.buf[quote], self.buf.get(value..)?)?;
        self.at = end + 1;
        Some((name, Span { start: value as u32, end: end as u32 }))
    }
}

/// The text of a namespace. One that is inherited from the stream is the content namespace.
pub(crate) fn namespace_text(buf: &[u8], namespace: Namespace) -> Cow<'_, str> {
    match namespace {
        Namespace::Inherited => Cow::Borrowed(ns::CLIENT),
        Namespace::Declared(uri) => unescape::value(uri.of(buf)),
    }
}
