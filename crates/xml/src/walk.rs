//! A second look at bytes that the scanner has accepted, for code that needs more than the
//! [`Stanza`](crate::Stanza) shows. Nothing is checked here; on bytes that were never scanned it
//! ends early.

use crate::lex::{self, QName};
use crate::ns;
use crate::scope::Namespace;
use crate::unescape;
use crate::view::Span;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// A piece of markup or content.
pub(crate) enum WalkToken<'a> {
    Open(WalkTag<'a>),
    /// An end tag.
    Close,
    /// Character data as written.
    Text(&'a [u8]),
    /// The content of a CDATA section.
    Cdata(&'a [u8]),
}

/// A start tag.
#[derive(Clone, Copy)]
pub(crate) struct WalkTag<'a> {
    buf: &'a [u8],
    pub(crate) name: QName,
    /// The place after its `>`.
    pub(crate) end: usize,
    pub(crate) self_closed: bool,
    /// True if it declares a namespace.
    declares: bool,
    /// Its first attributes: those of most elements, so that they are read once.
    few: [(WalkName, Span); FEW],
    count: usize,
    /// The place after the last of those, where further attributes are read from the bytes.
    behind_few: usize,
}

/// A name in twelve bytes.
#[derive(Clone, Copy, Default)]
struct WalkName {
    start: u32,
    local: u32,
    end: u32,
}

/// Yields the tokens from a place on.
pub(crate) struct TokenWalk<'a> {
    buf: &'a [u8],
    pub(crate) at: usize,
}

impl<'a> TokenWalk<'a> {
    pub(crate) fn new(buf: &'a [u8], at: usize) -> Self {
        Self { buf, at }
    }

    fn token(&mut self) -> Option<WalkToken<'a>> {
        let start = self.at;
        let token = match self.buf.get(start..)? {
            [b'<', b'/', ..] => {
                self.at = start + self.buf[start..].iter().position(|&b| b == b'>')? + 1;
                WalkToken::Close
            }
            [b'<', b'!', ..] => {
                let content = lex::cdata_start(self.buf, start).ok()?;
                self.at = content;
                lex::cdata(self.buf, &mut self.at).ok()?;
                WalkToken::Cdata(&self.buf[content..self.at - 3])
            }
            [b'<', ..] => {
                let open = WalkTag::read(self.buf, start)?;
                self.at = open.end;
                WalkToken::Open(open)
            }
            rest => {
                let len = memchr::memchr(b'<', rest)?;
                self.at = start + len;
                WalkToken::Text(&rest[..len])
            }
        };
        Some(token)
    }
}

/// A piece of markup that is skipped.
pub(crate) enum Skipped {
    /// A start tag.
    Open,
    /// An end tag.
    Close,
    /// An element without content, or a CDATA section.
    Other,
}

impl TokenWalk<'_> {
    /// Moves past the next piece of markup.
    pub(crate) fn pass(&mut self) -> Option<Skipped> {
        let start = self.at + memchr::memchr(b'<', self.buf.get(self.at..)?)?;
        if self.buf.get(start + 1) == Some(&b'!') {
            self.at = lex::cdata_start(self.buf, start).ok()?;
            lex::cdata(self.buf, &mut self.at).ok()?;
            return Some(Skipped::Other);
        }
        let mut at = start + 1;
        // A `>` within quotes ends nothing.
        let end = loop {
            let found = at + memchr::memchr3(b'>', b'\'', b'"', self.buf.get(at..)?)?;
            match self.buf.get(found)? {
                b'>' => break found,
                quote => at = found + 1 + memchr::memchr(*quote, self.buf.get(found + 1..)?)? + 1,
            }
        };
        self.at = end + 1;
        Some(match (self.buf.get(start + 1)?, self.buf.get(end - 1)?) {
            (b'/', _) => Skipped::Close,
            (_, b'/') => Skipped::Other,
            _ => Skipped::Open,
        })
    }
}

impl<'a> Iterator for TokenWalk<'a> {
    type Item = WalkToken<'a>;

    fn next(&mut self) -> Option<WalkToken<'a>> {
        self.token()
    }
}

impl<'a> WalkTag<'a> {
    /// Reads the start tag at `at`.
    pub(crate) fn read(buf: &'a [u8], at: usize) -> Option<Self> {
        let name = lex::qname(buf, at + 1).ok()?;
        let mut attributes = Attributes { buf, at: name.end };
        let (mut few, mut count, mut declares, mut behind_few) = ([Default::default(); FEW], 0, false, name.end);
        while let Some((name, value)) = attributes.next() {
            declares |= buf[name.start..name.end].starts_with(b"xmlns");
            if let Some(free) = few.get_mut(count) {
                *free = (WalkName { start: name.start as u32, local: name.local as u32, end: name.end as u32 }, value);
                behind_few = attributes.at;
            }
            count += 1;
        }
        let end = lex::space(buf, attributes.at).ok()?;
        let self_closed = buf[end] == b'/';
        let end = end + 1 + usize::from(self_closed);
        Some(Self { buf, name, end, self_closed, declares, few, count, behind_few })
    }

    pub(crate) fn attributes(&self) -> impl Iterator<Item = (QName, Span)> + use<'a> {
        let known = self.few.into_iter().take(self.count).map(|(name, value)| {
            (QName { start: name.start as usize, local: name.local as usize, end: name.end as usize }, value)
        });
        let more = (self.count > FEW).then_some(Attributes { buf: self.buf, at: self.behind_few });
        known.chain(more.into_iter().flatten())
    }

    pub(crate) fn prefix(&self) -> &'a [u8] {
        prefix(self.buf, self.name)
    }

    /// Returns whether its namespace is that of unprefixed elements around it.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        !self.declares && self.name.local == self.name.start
    }

    pub(crate) fn local(&self) -> Span {
        Span { start: self.name.local as u32, end: self.name.end as u32 }
    }

    /// Returns the value that this tag binds `prefix` to; the empty prefix stands for the default
    /// namespace.
    pub(crate) fn binding(&self, wanted: &[u8]) -> Option<Span> {
        if !self.declares {
            return None;
        }
        self.attributes().find(|(name, _)| declared_prefix(self.buf, *name) == Some(wanted)).map(|(_, value)| value)
    }
}

/// Returns the prefixes that an element or its descendants use without declaring them, except for
/// `xml`.
pub(crate) fn foreign_prefixes(element: &[u8]) -> BTreeSet<&[u8]> {
    let mut foreign = BTreeSet::new();
    if memchr::memchr(b':', element).is_none() {
        return foreign;
    }
    // The declarations of the elements around the place, and for each element the number of those
    // before it.
    let (mut declared_here, mut outside) = (Vec::new(), Vec::new());
    for token in TokenWalk::new(element, 0) {
        match token {
            WalkToken::Open(open) => {
                let before = declared_here.len();
                declared_here.extend(open.attributes().filter_map(|(name, _)| declared_prefix(element, name)));
                let of_attributes = open.attributes().map(|(name, _)| prefix(element, name));
                for used in of_attributes.chain([open.prefix()]) {
                    if !matches!(used, b"" | b"xml" | b"xmlns") && !declared_here.contains(&used) {
                        foreign.insert(used);
                    }
                }
                if open.self_closed {
                    declared_here.truncate(before);
                } else {
                    outside.push(before);
                }
            }
            WalkToken::Close => match outside.pop() {
                Some(before) => declared_here.truncate(before),
                None => break,
            },
            WalkToken::Text(_) | WalkToken::Cdata(_) => {}
        }
    }
    foreign
}

/// Returns the prefix that an attribute declares, which is empty for `xmlns`; `None` if it isn't a
/// declaration.
pub(crate) fn declared_prefix(buf: &[u8], name: QName) -> Option<&[u8]> {
    match prefix(buf, name) {
        b"xmlns" => Some(&buf[name.local..name.end]),
        b"" if buf[name.start..name.end] == *b"xmlns" => Some(b""),
        _ => None,
    }
}

/// Returns the prefix of a name, empty if it has none.
pub(crate) fn prefix(buf: &[u8], name: QName) -> &[u8] {
    buf.get(name.start..name.local.saturating_sub(1)).unwrap_or_default()
}

/// Attributes that are read when an element is.
const FEW: usize = 4;

/// The attributes of a start tag with their values, quotes excluded.
struct Attributes<'a> {
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

/// Returns the text of a namespace. One that is inherited from the stream is the content namespace.
pub(crate) fn namespace_text(buf: &[u8], namespace: Namespace) -> Cow<'_, str> {
    match namespace {
        Namespace::Inherited => Cow::Borrowed(ns::CLIENT),
        Namespace::Declared(uri) => unescape::value(uri.of(buf)),
    }
}
