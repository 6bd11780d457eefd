//! The scanner's result: a view of a valid stanza's bytes.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use crate::element::Element;
use crate::fault::Fault;
use crate::limits::Limits;
use crate::namespaces::Namespaces;
use crate::scan::{Scan, Scanner};
use crate::scope::Namespace;
use crate::unescape;
use crate::view::{Kind, Span, StanzaView};
use crate::walk::{Skipped, TokenWalk, WalkTag, namespace_text};

/// A first-level element that passed the scanner. Holding one is the proof that its bytes are
/// valid.
///
/// Its attributes are read from the bytes when asked for. `Cow`s borrow unless a value holds
/// references or line breaks.
#[derive(Clone, Copy)]
pub struct Stanza<'a> {
    bytes: &'a [u8],
    view: StanzaView,
}

/// An attribute value as it is written, references and all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw<'a> {
    /// The bytes between the quotes.
    pub bytes: &'a [u8],
    /// `'` or `"`, whichever encloses it. Written between quotes of this kind the bytes are valid
    /// as they are.
    pub quote: u8,
    /// The place of the bytes within the stanza.
    pub range: Range<usize>,
}

/// The places where the root's start tag can be cut and added to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The place just after the root's name, where attributes may be inserted.
    pub name_end: usize,
    /// Place of the `>` or `/>` that ends the start tag.
    pub head_end: usize,
    /// True if the start tag ends with `/>`, so that the root has no content.
    pub is_empty: bool,
    /// The attribute `to` with the white space before it.
    pub to: Option<Range<usize>>,
    /// The attribute `from` with the white space before it.
    pub from: Option<Range<usize>>,
    /// The attribute `xmlns` with the white space before it.
    pub xmlns: Option<Range<usize>>,
}

/// The place for a further child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InsertPoint {
    /// Place of the end tag, or of `/>`.
    pub offset: usize,
    /// True if it is `/>`, which then has to become `>` child `</name>`.
    pub self_closed: bool,
}

impl<'a> Stanza<'a> {
    pub(crate) fn new(buf: &'a [u8], view: StanzaView) -> Self {
        Self { bytes: buf.get(..view.len as usize).unwrap_or_default(), view }
    }

    /// Scans bytes that hold exactly one stanza, as WebSocket frames and the database do.
    pub fn parse(bytes: &'a [u8], limits: &Limits) -> Result<Self, Fault> {
        let mut scanner = Scanner::new();
        match scanner.scan(bytes, limits)? {
            Scan::Stanza(len) if len == bytes.len() => Ok(scanner.stanza(bytes)),
            Scan::Rare(_) => Err(Fault::BadNamespacePrefix),
            _ => Err(Fault::NotWellFormed),
        }
    }

    /// Returns the whole stanza as it came.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the kind of stanza. A root in a foreign namespace is [`Kind::Other`] whatever its
    /// name.
    #[inline]
    pub fn kind(&self) -> Kind {
        self.view.kind
    }

    /// Returns the local name of the root.
    #[inline]
    pub fn name(&self) -> &'a str {
        self.utf8(Span { start: self.view.local, end: self.view.name_end })
    }

    /// Returns the namespace of the root, `jabber:client` if it names none.
    #[inline]
    pub fn ns(&self) -> Cow<'a, str> {
        namespace_text(self.bytes, self.view.ns)
    }

    /// Returns the attribute `to`.
    #[inline]
    pub fn to(&self) -> Option<Cow<'a, str>> {
        self.value(self.view.to)
    }

    /// Returns the attribute `from`.
    #[inline]
    pub fn from(&self) -> Option<Cow<'a, str>> {
        self.value(self.view.from)
    }

    /// Returns the attribute `id`.
    #[inline]
    pub fn id(&self) -> Option<Cow<'a, str>> {
        self.value(self.view.id)
    }

    /// Returns the attribute `type`.
    #[inline]
    pub fn type_(&self) -> Option<Cow<'a, str>> {
        self.value(self.view.kind_type)
    }

    /// Returns the attribute `xml:lang`.
    #[inline]
    pub fn lang(&self) -> Option<Cow<'a, str>> {
        self.value(self.view.lang)
    }

    /// Returns the attribute `to` as written.
    #[inline]
    pub fn raw_to(&self) -> Option<Raw<'a>> {
        self.raw(self.view.to)
    }

    /// Returns the attribute `from` as written.
    #[inline]
    pub fn raw_from(&self) -> Option<Raw<'a>> {
        self.raw(self.view.from)
    }

    /// Returns the attribute `id` as written.
    #[inline]
    pub fn raw_id(&self) -> Option<Raw<'a>> {
        self.raw(self.view.id)
    }

    /// Returns the attribute `type` as written.
    #[inline]
    pub fn raw_type(&self) -> Option<Raw<'a>> {
        self.raw(self.view.kind_type)
    }

    /// Returns the attribute `xml:lang` as written.
    #[inline]
    pub fn raw_lang(&self) -> Option<Raw<'a>> {
        self.raw(self.view.lang)
    }

    /// Returns the first child element.
    #[inline]
    pub fn first_child(&self) -> Option<Child<'a>> {
        self.children().next()
    }

    /// Returns whether a direct child is a `<body/>` in the namespace of the root. Costs no walk.
    #[inline]
    pub fn has_body(&self) -> bool {
        self.view.has_body
    }

    /// Returns the namespaces that are declared anywhere in it. Costs no walk.
    #[inline]
    pub fn namespaces(&self) -> Namespaces {
        self.view.namespaces
    }

    /// Returns the child elements in order.
    pub fn children(&self) -> Children<'a> {
        let start = if self.view.self_closed { self.bytes.len() } else { self.view.head_end as usize + 1 };
        Children {
            whole: self.bytes,
            default: self.default_ns(),
            parent: None,
            plain: None,
            walk: TokenWalk::new(self.bytes, start),
        }
    }

    /// Returns the first child of this name and namespace.
    #[inline]
    pub fn child(&self, name: &str, ns: &str) -> Option<Child<'a>> {
        self.children().find(|child| child.is(name, ns))
    }

    /// Returns the places where the start tag can be cut and added to.
    pub fn head(&self) -> Head {
        Head {
            name_end: self.view.name_end as usize,
            head_end: self.view.head_end as usize,
            is_empty: self.view.self_closed,
            to: self.view.to.with_space(self.bytes, "to".len()),
            from: self.view.from.with_space(self.bytes, "from".len()),
            xmlns: self.view.xmlns.with_space(self.bytes, "xmlns".len()),
        }
    }

    /// Returns the place for a further child.
    #[inline]
    pub fn insert_point(&self) -> InsertPoint {
        InsertPoint { offset: self.view.content_end as usize, self_closed: self.view.self_closed }
    }

    /// Returns whether the root's name is written with a prefix, whose declaration the root then
    /// needs.
    #[inline]
    pub fn has_prefix(&self) -> bool {
        self.bytes.get(1..self.view.local as usize).is_some_and(|prefix| !prefix.is_empty())
    }

    /// Returns the name of the root as written, prefix included.
    #[inline]
    pub(crate) fn written_name(&self) -> &'a [u8] {
        self.bytes.get(1..self.view.name_end as usize).unwrap_or_default()
    }

    #[cfg(test)]
    #[inline]
    pub(crate) fn view(&self) -> StanzaView {
        self.view
    }

    /// Returns the namespace that its children are in unless they say otherwise.
    #[inline]
    pub(crate) fn default_ns(&self) -> Namespace {
        self.view.default_ns()
    }

    fn value(&self, value: Span) -> Option<Cow<'a, str>> {
        value.is_some().then(|| unescape::value(value.of(self.bytes)))
    }

    fn raw(&self, value: Span) -> Option<Raw<'a>> {
        let range = value.start as usize..value.end as usize;
        let quote = *self.bytes.get(range.start.checked_sub(1)?)?;
        Some(Raw { bytes: self.bytes.get(range.clone())?, quote, range })
    }

    fn utf8(&self, span: Span) -> &'a str {
        utf8(self.bytes, span)
    }
}

fn utf8(bytes: &[u8], span: Span) -> &str {
    std::str::from_utf8(span.of(bytes)).unwrap_or_default()
}

impl fmt::Debug for Stanza<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stanza({})", String::from_utf8_lossy(self.bytes))
    }
}

/// The child elements of a stanza, or of one of its children.
pub struct Children<'a> {
    /// The stanza.
    whole: &'a [u8],
    /// The namespace that its children are in unless they say otherwise.
    default: Namespace,
    parent: Option<WalkTag<'a>>,
    /// The namespace of those of them that have neither prefix nor declaration, once one of them
    /// was asked for it.
    plain: Option<Namespace>,
    walk: TokenWalk<'a>,
}

/// A child element within its stanza.
#[derive(Clone, Copy)]
pub struct Child<'a> {
    whole: &'a [u8],
    default: Namespace,
    open: WalkTag<'a>,
    start: usize,
    end: usize,
    ns: Namespace,
}

/// One attribute of a child element, with its namespace resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildAttribute<'a> {
    /// Its name as written, prefix included.
    pub name: &'a str,
    /// The value with its references resolved.
    pub value: Cow<'a, str>,
    /// Its place within the child's bytes, with the white space before it.
    pub range: Range<usize>,
}

impl<'a> Iterator for Children<'a> {
    type Item = Child<'a>;

    fn next(&mut self) -> Option<Child<'a>> {
        loop {
            let start = self.walk.at;
            match self.whole.get(start..)? {
                [b'<', b'/', ..] => return None,
                [b'<', b'!', ..] => _ = self.walk.pass()?,
                [b'<', ..] => {
                    // Read where it will stay: it is too large to be handed around.
                    let open = WalkTag::read(self.whole, start)?;
                    self.walk.at = open.end;
                    let end = if open.self_closed { open.end } else { self.skip_content()? };
                    let ns = match &mut self.plain {
                        Some(plain) if open.is_plain() => *plain,
                        plain => {
                            let ns = resolve(self.whole, self.parent.as_ref(), &open);
                            *plain = if open.is_plain() { Some(ns) } else { *plain };
                            ns
                        }
                    };
                    return Some(Child { whole: self.whole, default: self.default, open, start, end, ns });
                }
                rest => self.walk.at = start + memchr::memchr(b'<', rest)?,
            }
        }
    }
}

impl Children<'_> {
    /// Moves to the end of the element whose start tag has just been read.
    fn skip_content(&mut self) -> Option<usize> {
        let mut depth = 1;
        loop {
            match self.walk.pass()? {
                Skipped::Open => depth += 1,
                Skipped::Close => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(self.walk.at);
                    }
                }
                Skipped::Other => {}
            }
        }
    }
}

/// Returns the namespace of an element from its own tag, that of the child that it is in, and the
/// root's.
fn resolve(whole: &[u8], parent: Option<&WalkTag<'_>>, element: &WalkTag<'_>) -> Namespace {
    let prefix = element.prefix();
    let of_parent = || parent.and_then(|parent| parent.binding(prefix));
    let bound = element.binding(prefix).or_else(of_parent).or_else(|| WalkTag::read(whole, 0)?.binding(prefix));
    bound.map_or(Namespace::Inherited, Namespace::Declared)
}

impl<'a> Child<'a> {
    /// Returns the local name.
    #[inline]
    pub fn name(&self) -> &'a str {
        utf8(self.whole, self.open.local())
    }

    /// Returns the namespace; `jabber:client` stands for that of the stream if the stanza names
    /// none.
    #[inline]
    pub fn ns(&self) -> Cow<'a, str> {
        namespace_text(self.whole, self.ns)
    }

    /// Returns whether it has this name and namespace.
    #[inline]
    pub fn is(&self, name: &str, ns: &str) -> bool {
        self.name() == name && self.is_in(ns)
    }

    /// Returns whether its namespace is this one. Most are written without references, so the text
    /// as it is written is compared first.
    fn is_in(&self, ns: &str) -> bool {
        matches!(self.ns, Namespace::Declared(uri) if uri.of(self.whole) == ns.as_bytes()) || self.ns() == ns
    }

    /// Returns the whole element as written. It may depend on declarations of the root: see
    /// [`Writer::copy`](crate::Writer::copy).
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.whole.get(self.range()).unwrap_or_default()
    }

    /// Returns its place within the stanza.
    #[inline]
    pub fn range(&self) -> Range<usize> {
        self.start..self.end
    }

    /// Returns the value of an attribute without prefix, or of `xml:lang`.
    pub fn attr(&self, name: &str) -> Option<Cow<'a, str>> {
        let bytes = self.whole;
        let mut attributes = self.open.attributes();
        let (_, value) =
            attributes.find(|(written, _)| bytes.get(written.start..written.end) == Some(name.as_bytes()))?;
        Some(unescape::value(value.of(bytes)))
    }

    /// Returns the attributes in order, without declarations of namespaces.
    pub fn attributes(&self) -> impl Iterator<Item = ChildAttribute<'a>> + use<'a> {
        let (bytes, start) = (self.whole, self.start);
        let mut before = self.open.name.end;
        self.open.attributes().filter_map(move |(name, value)| {
            let range = before - start..value.end as usize + 1 - start;
            before = value.end as usize + 1;
            let written = utf8(bytes, Span { start: name.start as u32, end: name.end as u32 });
            let is_declaration = written == "xmlns" || written.starts_with("xmlns:");
            (!is_declaration).then(|| ChildAttribute { name: written, value: unescape::value(value.of(bytes)), range })
        })
    }

    /// Returns the child's own child elements, in order. Their descendants are in
    /// [`Child::element`].
    pub fn children(&self) -> Children<'a> {
        let start = if self.open.self_closed { self.whole.len() } else { self.open.end };
        Children {
            whole: self.whole,
            default: self.default,
            parent: Some(self.open),
            plain: None,
            walk: TokenWalk::new(self.whole, start),
        }
    }

    /// Returns the name as written, prefix included.
    #[inline]
    pub fn written_name(&self) -> &'a str {
        utf8(self.whole, Span { start: self.open.name.start as u32, end: self.open.name.end as u32 })
    }

    /// Returns the place of its content within the stanza, between the tags; `None` for `<child/>`.
    pub fn content(&self) -> Option<Range<usize>> {
        if self.open.self_closed {
            return None;
        }
        let close = self.bytes().iter().rposition(|&byte| byte == b'<')?;
        Some(self.open.end..self.start + close)
    }

    /// Returns the element as a tree.
    #[inline]
    pub fn element(&self) -> Element {
        Element::read_child(self)
    }

    /// Returns the stanza that it is in.
    #[inline]
    pub(crate) fn whole(&self) -> &'a [u8] {
        self.whole
    }

    /// Returns the namespace that the children of that stanza are in unless they say otherwise.
    #[inline]
    pub(crate) fn default_ns(&self) -> Namespace {
        self.default
    }

    #[inline]
    pub(crate) fn open(&self) -> WalkTag<'a> {
        self.open
    }
}

impl fmt::Debug for Child<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Child({})", String::from_utf8_lossy(self.bytes()))
    }
}
