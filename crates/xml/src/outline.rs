//! Outlines: the part of a scan that is kept beside the bytes of a forwarded stanza, so that it
//! needs no second scan: the positions in its start tag, in twenty bytes.
//!
//! # Invariants
//! - An [`Outline`] is only made from a [`Built`], whose bytes are valid. It fits all bytes that
//!   have the same start tag; with others it shows less, or nonsense, and never panics.
//! - Places that it doesn't keep can be found: a start tag that is too long for it is read again.

use crate::built::Built;
use crate::lex::{MAX_NAME, is_space};
use crate::namespaces::Namespaces;
use crate::scope::Namespace;
use crate::stanza::Stanza;
use crate::view::{Kind, Span, StanzaView};

/// The places of the parts of a stanza's start tag. The stanza is in canonical form: its root has
/// neither prefix nor `to`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outline {
    name_end: u16,
    /// The place of the `>` or `/>`; 0 if the tag is too long for its places to be kept.
    head_end: u16,
    from: Short,
    id: Short,
    type_: Short,
    lang: Short,
}

const _: () = assert!(MAX_NAME < u16::MAX as usize, "the end of a root's name fits");
const _: () = assert!(size_of::<Outline>() == 20, "every packet has one");

/// A range within the first 64 KiB; empty for none.
#[derive(Clone, Copy, Debug, Default)]
struct Short {
    start: u16,
    end: u16,
}

impl Outline {
    /// Notes the places of a stanza.
    pub fn of(built: &Built) -> Self {
        let tag = StartTag::read(built.bytes()).unwrap_or_default();
        let name_end = u16::try_from(tag.name_end).unwrap_or_default();
        let Ok(head_end) = u16::try_from(tag.head_end) else { return Self { name_end, ..Self::default() } };
        // All values lie before `head_end`, so they fit too.
        let short = |span: Span| Short { start: span.start as u16, end: span.end as u16 };
        let (from, id, type_, lang) = (short(tag.from), short(tag.id), short(tag.type_), short(tag.lang));
        Self { name_end, head_end, from, id, type_, lang }
    }

    /// Returns the place after the root's name, where attributes can be added.
    #[inline]
    pub fn name_end(&self) -> usize {
        self.name_end.into()
    }

    /// Returns the value of `from` as written; empty if there is none.
    #[inline]
    pub fn from<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        self.value(bytes, self.from, |tag| tag.from).unwrap_or_default()
    }

    /// Returns the value of `id` as written.
    #[inline]
    pub fn id<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        self.value(bytes, self.id, |tag| tag.id)
    }

    /// Returns a view of the stanza in its bytes. The caller has kept its `kind`, `has_body` and
    /// `namespaces`.
    pub fn stanza<'a>(&self, bytes: &'a [u8], kind: Kind, has_body: bool, namespaces: Namespaces) -> Stanza<'a> {
        let tag = self.start_tag(bytes);
        // A stanza in canonical form inherits its namespace; other elements name theirs.
        let xmlns = match kind {
            Kind::Other => StartTag::read(bytes).unwrap_or_default().xmlns,
            Kind::Message | Kind::Presence | Kind::Iq => Span::NONE,
        };
        let self_closed = bytes.get(tag.head_end as usize) == Some(&b'/');
        let end = if self_closed { Some(tag.head_end) } else { memchr::memrchr(b'<', bytes).map(|at| at as u32) };
        let view = StanzaView {
            kind,
            has_body,
            self_closed,
            local: 1,
            name_end: tag.name_end,
            head_end: tag.head_end,
            content_end: end.unwrap_or_default(),
            len: bytes.len() as u32,
            to: Span::NONE,
            from: tag.from,
            id: tag.id,
            kind_type: tag.type_,
            lang: tag.lang,
            xmlns,
            ns: if xmlns.is_some() { Namespace::Declared(xmlns) } else { Namespace::Inherited },
            namespaces,
        };
        Stanza::new(bytes, view)
    }

    fn value<'a>(&self, bytes: &'a [u8], kept: Short, read: impl FnOnce(StartTag) -> Span) -> Option<&'a [u8]> {
        let span = if self.head_end == 0 { read(StartTag::read(bytes)?) } else { kept.into() };
        span.is_some().then(|| span.of(bytes))
    }

    fn start_tag(&self, bytes: &[u8]) -> StartTag {
        if self.head_end == 0 {
            return StartTag::read(bytes).unwrap_or_default();
        }
        StartTag {
            name_end: self.name_end.into(),
            head_end: self.head_end.into(),
            from: self.from.into(),
            id: self.id.into(),
            type_: self.type_.into(),
            lang: self.lang.into(),
            xmlns: Span::NONE,
        }
    }
}

impl From<Short> for Span {
    fn from(short: Short) -> Self {
        Self { start: short.start.into(), end: short.end.into() }
    }
}

/// The places in a start tag.
#[derive(Clone, Copy, Debug, Default)]
struct StartTag {
    name_end: u32,
    head_end: u32,
    from: Span,
    id: Span,
    type_: Span,
    lang: Span,
    xmlns: Span,
}

impl StartTag {
    /// Reads the start tag at the beginning of bytes that are known to be well-formed; `None` for
    /// others.
    fn read(bytes: &[u8]) -> Option<Self> {
        let behind = |at: usize, is: fn(u8) -> bool| Some(at + bytes.get(at..)?.iter().position(|&b| is(b))?);
        let mut at = behind(1, |b| is_space(b) || matches!(b, b'/' | b'>'))?;
        let mut tag = Self { name_end: at as u32, ..Self::default() };
        loop {
            let start = behind(at, |b| !is_space(b))?;
            if matches!(bytes.get(start)?, b'/' | b'>') {
                tag.head_end = start as u32;
                return Some(tag);
            }
            let equals = behind(start, |b| b == b'=')?;
            let quote = behind(equals, |b| matches!(b, b'\'' | b'"'))?;
            let end = quote + 1 + memchr::memchr(*bytes.get(quote)?, bytes.get(quote + 1..)?)?;
            let value = Span { start: quote as u32 + 1, end: end as u32 };
            match bytes.get(start..equals)?.trim_ascii_end() {
                b"from" => tag.from = value,
                b"id" => tag.id = value,
                b"type" => tag.type_ = value,
                b"xml:lang" => tag.lang = value,
                b"xmlns" => tag.xmlns = value,
                _ => {}
            }
            at = end + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, Writer, ns};

    /// Asserts that the outline shows of a stanza's canonical form what a scan does.
    fn assert_shows(text: &str) {
        let limits = Limits { bytes: usize::MAX, ..Limits::AFTER_LOGIN };
        let built = Stanza::parse(text.as_bytes(), &limits).unwrap().canonical(Some("a@x/'q'"), Some("de"));
        let scanned = Stanza::parse(built.bytes(), &limits).unwrap();
        let outline = Outline::of(&built);
        let shown = outline.stanza(built.bytes(), scanned.kind(), scanned.has_body(), scanned.namespaces());
        assert_eq!(shown.view(), scanned.view(), "{text}");
        assert_eq!(outline.name_end(), scanned.head().name_end);
        assert_eq!(Some(outline.from(built.bytes())), scanned.raw_from().map(|raw| raw.bytes));
        assert_eq!(outline.id(built.bytes()), scanned.raw_id().map(|raw| raw.bytes));
    }

    #[test]
    fn an_outline_shows_what_a_scan_would() {
        for text in [
            "<message/>",
            "<presence\n/>",
            "<iq type='get' id='1'><query xmlns='jabber:iq:roster'/></iq >",
            "<message xmlns='jabber:client' to='b' from='x' type = \"chat\" id='>/='><body>1 &lt; 2</body></message>",
            "<message id='' xml:lang='' typ='a' type=''>text<![CDATA[<x>]]></message>",
            "<c:message xmlns:c='jabber:client' to='b' d='=\"'><c:body/></c:message>",
            "<message xmlns:p='urn:p' p:id='no' id='yes'><p:x p:type='z'/></message>",
        ] {
            assert_shows(text);
        }
        for long in [usize::from(u16::MAX) - 60, usize::from(u16::MAX), 100_000] {
            for at in ["id", "type", "other", "xml:lang"] {
                assert_shows(&format!("<message {at}='{}' to='b'><body/></message>", "x".repeat(long)));
            }
        }
    }

    #[test]
    fn an_element_that_is_no_stanza_keeps_its_namespace() {
        let built = Writer::with_ns("r", ns::SM).finish();
        let shown = Outline::of(&built).stanza(built.bytes(), Kind::Other, false, Namespaces::NONE);
        assert_eq!((shown.name(), &*shown.ns()), ("r", ns::SM));
    }

    #[test]
    fn bytes_of_which_it_is_not_show_no_more_than_they_have() {
        let built = Stanza::parse(b"<message id='1' type='chat'><body/></message>", &Limits::AFTER_LOGIN)
            .unwrap()
            .canonical(Some("a@x"), None);
        for len in 0..built.bytes().len() {
            let bytes = &built.bytes()[..len];
            let shown = Outline::of(&built).stanza(bytes, Kind::Message, true, Namespaces::NONE);
            assert!(shown.children().count() <= 1);
            let (_, _, _, _) = (shown.id(), shown.insert_point(), shown.head(), shown.name());
        }
    }
}
