//! The scanner's notes on a stanza: positions in the bytes, nothing else.

use crate::lex::QName;
use crate::namespaces::Namespaces;
use crate::ns;
use crate::scope::Namespace;
use crate::unescape::same_text;

/// A range of the stanza's bytes. No value starts at 0, where the `<` is, so that 0 means none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    pub(crate) const NONE: Self = Self { start: 0, end: 0 };

    #[inline(always)]
    pub(crate) fn is_some(self) -> bool {
        self.end != 0
    }

    /// Returns the bytes; none if `buf` isn't the buffer that the span is of.
    #[inline(always)]
    pub(crate) fn of(self, buf: &[u8]) -> &[u8] {
        buf.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

impl Span {
    /// Returns the place of the attribute that has this value and a name of this number of bytes:
    /// from the white space before the name to the closing quote.
    pub(crate) fn with_space(self, buf: &[u8], name: usize) -> Option<std::ops::Range<usize>> {
        let before = buf.get(..(self.start as usize).checked_sub(1)?)?.trim_ascii_end();
        let before = before.strip_suffix(b"=")?.trim_ascii_end();
        let before = before.get(..before.len().checked_sub(name)?)?.trim_ascii_end();
        Some(before.len()..self.end as usize + 1)
    }
}

/// The kind of an element: one of the three stanzas (RFC 6120 §8), or none of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `<message/>` (RFC 6120 §8.2.1)
    Message,
    /// `<presence/>` (RFC 6120 §8.2.2)
    Presence,
    /// `<iq/>` (RFC 6120 §8.2.3)
    Iq,
    /// Anything else, or the same name in a foreign namespace
    #[default]
    Other,
}

/// The places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StanzaView {
    pub(crate) kind: Kind,
    pub(crate) has_body: bool,
    pub(crate) self_closed: bool,
    /// Start of the root's local name.
    pub(crate) local: u32,
    /// End of the root's name.
    pub(crate) name_end: u32,
    /// The `>` or `/>` of the root's start tag.
    pub(crate) head_end: u32,
    /// The place for a further child.
    pub(crate) content_end: u32,
    pub(crate) len: u32,
    pub(crate) to: Span,
    pub(crate) from: Span,
    pub(crate) id: Span,
    pub(crate) kind_type: Span,
    pub(crate) lang: Span,
    pub(crate) xmlns: Span,
    pub(crate) ns: Namespace,
    /// All namespaces that are declared.
    pub(crate) namespaces: Namespaces,
}

impl Default for StanzaView {
    fn default() -> Self {
        Self {
            kind: Kind::Other,
            has_body: false,
            self_closed: false,
            local: 0,
            name_end: 0,
            head_end: 0,
            content_end: 0,
            len: 0,
            to: Span::NONE,
            from: Span::NONE,
            id: Span::NONE,
            kind_type: Span::NONE,
            lang: Span::NONE,
            xmlns: Span::NONE,
            ns: Namespace::Inherited,
            namespaces: Namespaces::NONE,
        }
    }
}

impl StanzaView {
    /// Notes an attribute of the root.
    #[inline(always)]
    pub(crate) fn note_attribute(&mut self, written: &[u8], value: Span) {
        let place = match written {
            [b't', b'o'] => &mut self.to,
            [b'i', b'd'] => &mut self.id,
            [b'f', b'r', b'o', b'm'] => &mut self.from,
            [b't', b'y', b'p', b'e'] => &mut self.kind_type,
            [b'x', b'm', b'l', b'n', b's'] => &mut self.xmlns,
            [b'x', b'm', b'l', b':', b'l', b'a', b'n', b'g'] => &mut self.lang,
            _ => return,
        };
        *place = value;
    }

    /// Notes the root, whose start tag is whole; its `>` or `/>` is at `head_end`.
    #[inline(always)]
    pub(crate) fn note_root(&mut self, buf: &[u8], name: QName, own: Namespace, head_end: usize) {
        self.local = name.local as u32;
        self.name_end = name.end as u32;
        self.head_end = head_end as u32;
        self.self_closed = buf[head_end] == b'/';
        self.ns = own;
        self.kind = match &buf[name.local..name.end] {
            b"message" => Kind::Message,
            b"presence" => Kind::Presence,
            b"iq" => Kind::Iq,
            _ => Kind::Other,
        };
        if self.kind != Kind::Other && !is_content(buf, own) {
            self.kind = Kind::Other;
        }
    }

    /// Notes a child of the root, whose start tag is whole.
    #[inline(always)]
    pub(crate) fn note_child(&mut self, buf: &[u8], local: Span, own: Namespace) {
        let own = if own == Namespace::Inherited { self.default_ns() } else { own };
        if local.of(buf) == b"body" && !self.has_body {
            self.has_body = own == self.ns || is_same(buf, own, self.ns);
        }
    }

    /// Notes the end of the root: its end tag, or `/>`, is at `content_end`.
    #[inline(always)]
    pub(crate) fn end(&mut self, content_end: usize, len: usize) {
        self.content_end = content_end as u32;
        self.len = len as u32;
    }

    /// Returns the namespace of children without prefix and `xmlns`.
    pub(crate) fn default_ns(&self) -> Namespace {
        if self.xmlns.is_some() { Namespace::Declared(self.xmlns) } else { Namespace::Inherited }
    }
}

/// Returns whether this is the stream's content namespace, which is also what a root inherits.
#[inline(always)]
fn is_content(buf: &[u8], namespace: Namespace) -> bool {
    match namespace {
        Namespace::Inherited => true,
        Namespace::Declared(uri) => {
            [ns::CLIENT, ns::SERVER, ns::COMPONENT_ACCEPT].iter().any(|ns| same_text(uri.of(buf), ns.as_bytes()))
        }
    }
}

#[cold]
fn is_same(buf: &[u8], one: Namespace, other: Namespace) -> bool {
    match (one, other) {
        (Namespace::Declared(one), Namespace::Declared(other)) => same_text(one.of(buf), other.of(buf)),
        (Namespace::Inherited, _) => is_content(buf, other),
        (_, Namespace::Inherited) => is_content(buf, one),
    }
}
