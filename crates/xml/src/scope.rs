//! Prefixes in scope at the scanner's position, and the check that an element's attributes are
//! distinct.
//!
//! Both need memory, which is an array of fixed size here. Attributes are compared by their
//! written name as they arrive, and by namespace at the end of the tag, in the rare case that any
//! of them has a prefix.

use crate::fault::Fault;
use crate::lex::{MAX_NAME, QName};
use crate::limits::{Limits, MAX_ATTRIBUTES, MAX_NAMESPACE, MAX_NAMESPACES};
use crate::ns;
use crate::unescape::same_text;
use crate::view::Span;

/// The namespace of an element as far as it can be told from its own tag and the prefixes in scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Namespace {
    /// It is the default namespace of the surrounding element.
    Inherited,
    /// It is this attribute value.
    Declared(Span),
}

#[derive(Clone, Debug)]
pub(crate) struct NamespaceScope {
    attributes: u8,
    /// Attributes with a prefix other than `xml` and `xmlns`.
    foreign: u8,
    bound: u8,
    bound_outside: u8,
    /// Bytes of the longest namespace name of the stanza so far.
    longest: u16,
    /// At least the bytes that the namespaces of its elements and attributes take where each names
    /// its own: see [`Limits::spelled_out`].
    spelled: usize,
    names: [AttributeName; MAX_ATTRIBUTES],
    bindings: [Binding; MAX_NAMESPACES],
}

/// The name of an attribute of the tag being read.
#[derive(Clone, Copy, Debug, Default)]
struct AttributeName {
    start: u32,
    len: u16,
    /// The start of the local part within it.
    local: u16,
}

const _: () = assert!(MAX_NAME <= u16::MAX as usize, "the length of a name fits");
const _: () = assert!(MAX_NAMESPACE <= u16::MAX as usize, "the length of a namespace fits");
const _: () = assert!(MAX_ATTRIBUTES <= u8::MAX as usize, "the number of attributes fits");
const _: () = assert!(MAX_NAMESPACES <= u8::MAX as usize, "the number of bound prefixes fits");

/// A prefix and what it is bound to.
#[derive(Clone, Copy, Debug, Default)]
struct Binding {
    prefix: u32,
    prefix_len: u16,
    uri_len: u16,
    uri: u32,
}

impl NamespaceScope {
    pub(crate) fn new() -> Self {
        Self {
            attributes: 0,
            foreign: 0,
            bound: 0,
            bound_outside: 0,
            longest: 0,
            spelled: 0,
            names: [AttributeName::default(); MAX_ATTRIBUTES],
            bindings: [Binding::default(); MAX_NAMESPACES],
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.bound = 0;
        self.longest = 0;
        self.spelled = 0;
    }

    /// Enters an element whose start tag begins.
    #[inline(always)]
    pub(crate) fn enter(&mut self) {
        self.attributes = 0;
        self.foreign = 0;
        self.bound_outside = self.bound;
    }

    /// Returns the number of prefixes that were bound before the tag being read.
    #[inline(always)]
    pub(crate) fn bound_outside(&self) -> u8 {
        self.bound_outside
    }

    /// Leaves an element: only the first `bound` bindings remain.
    #[inline(always)]
    pub(crate) fn leave(&mut self, bound: u8) {
        self.bound = bound;
    }

    /// Takes note of an attribute of the tag being read.
    #[inline(always)]
    pub(crate) fn note_attribute(
        &mut self,
        buf: &[u8],
        name: QName,
        written: &[u8],
        value: Span,
        limits: &Limits,
    ) -> Result<(), Fault> {
        let count = usize::from(self.attributes);
        if count >= limits.attributes.min(MAX_ATTRIBUTES) {
            return Err(Fault::TooManyAttributes);
        }
        for other in &self.names[..count] {
            if usize::from(other.len) == written.len() && other.bytes(buf) == written {
                return Err(Fault::NotWellFormed);
            }
        }
        self.names[count] = AttributeName {
            start: name.start as u32,
            len: written.len() as u16,
            local: (name.local - name.start) as u16,
        };
        self.attributes += 1;
        if name.local != name.start {
            return self.note_prefix(buf, name, value, limits);
        }
        Ok(())
    }

    #[inline(never)]
    fn note_prefix(&mut self, buf: &[u8], name: QName, value: Span, limits: &Limits) -> Result<(), Fault> {
        let local = &buf[name.local..name.end];
        match &buf[name.start..name.local - 1] {
            b"xmlns" => self.bind(buf, Span { start: name.local as u32, end: name.end as u32 }, local, value, limits),
            b"xml" => Ok(()),
            _ => {
                self.foreign += 1;
                Ok(())
            }
        }
    }

    /// Binds a prefix (Namespaces in XML §3, with the constraints of §3 and §5).
    fn bind(&mut self, buf: &[u8], at: Span, prefix: &[u8], value: Span, limits: &Limits) -> Result<(), Fault> {
        let uri = value.of(buf);
        let is_xml = same_text(uri, ns::XML.as_bytes());
        if uri.is_empty() || prefix == b"xmlns" || (prefix == b"xml") != is_xml || same_text(uri, ns::XMLNS.as_bytes())
        {
            return Err(Fault::NotWellFormed);
        }
        let count = usize::from(self.bound);
        if count >= limits.namespaces.min(MAX_NAMESPACES) {
            return Err(Fault::TooManyNamespaces);
        }
        let uri_len = self.note_namespace(uri)?;
        self.bindings[count] = Binding { prefix: at.start, prefix_len: prefix.len() as u16, uri: value.start, uri_len };
        self.bound += 1;
        Ok(())
    }

    /// Takes note of the name of a namespace, and returns its length.
    #[inline(always)]
    pub(crate) fn note_namespace(&mut self, uri: &[u8]) -> Result<u16, Fault> {
        if uri.len() > MAX_NAMESPACE {
            return Err(Fault::NameTooLong);
        }
        let len = uri.len() as u16;
        self.longest = self.longest.max(len);
        Ok(len)
    }

    /// Adds to the bytes that the stanza's namespaces would take without prefixes, at the end of a
    /// tag. If no prefix is bound, they take only the bytes that are written.
    #[inline(always)]
    pub(crate) fn spell_out(&mut self, own: Namespace, limits: &Limits) -> Result<(), Fault> {
        if self.bound == 0 { Ok(()) } else { self.spell_out_prefixed(own, limits) }
    }

    #[cold]
    fn spell_out_prefixed(&mut self, own: Namespace, limits: &Limits) -> Result<(), Fault> {
        let longest = usize::from(self.longest);
        let own = match own {
            Namespace::Declared(uri) => (uri.end - uri.start) as usize,
            // The inherited namespace isn't noted, and it has to be named again within an element
            // with a prefix.
            Namespace::Inherited => longest,
        };
        self.spelled = self.spelled.saturating_add(own + usize::from(self.foreign) * longest);
        if self.spelled > limits.spelled_out() { Err(Fault::NamespacesTooBig) } else { Ok(()) }
    }

    /// Returns the namespace of a prefix, `None` if the stanza doesn't declare it. The two fixed
    /// prefixes are refused: only attributes have those, and no caller asks for theirs.
    pub(crate) fn resolve(&self, buf: &[u8], prefix: &[u8]) -> Result<Option<Namespace>, Fault> {
        match prefix {
            b"xml" | b"xmlns" => return Err(Fault::NotWellFormed),
            _ => {}
        }
        let bound = self.bindings[..usize::from(self.bound)].iter().rev();
        Ok(bound.into_iter().find(|binding| binding.prefix(buf) == prefix).map(|binding| {
            Namespace::Declared(Span { start: binding.uri, end: binding.uri + u32::from(binding.uri_len) })
        }))
    }

    /// Checks at the end of a tag that no two attributes are the same by namespace (Namespaces in
    /// XML §6.3). `false` if a prefix is unknown.
    #[inline(always)]
    pub(crate) fn check_attributes(&self, buf: &[u8]) -> Result<bool, Fault> {
        if self.foreign > 0 { self.check_foreign(buf) } else { Ok(true) }
    }

    #[cold]
    fn check_foreign(&self, buf: &[u8]) -> Result<bool, Fault> {
        let names = &self.names[..usize::from(self.attributes)];
        let mut known = true;
        for (at, name) in names.iter().enumerate() {
            let Some(own) = self.foreign_namespace(buf, *name)? else { continue };
            let Namespace::Declared(own) = own else {
                known = false;
                continue;
            };
            for other in &names[..at] {
                if other.local_bytes(buf) == name.local_bytes(buf)
                    && let Some(Namespace::Declared(uri)) = self.foreign_namespace(buf, *other)?
                    && same_text(own.of(buf), uri.of(buf))
                {
                    return Err(Fault::NotWellFormed);
                }
            }
        }
        Ok(known)
    }

    /// Returns the namespace of an attribute with a prefix that isn't fixed,
    /// [`Namespace::Inherited`] standing for an unknown one.
    fn foreign_namespace(&self, buf: &[u8], name: AttributeName) -> Result<Option<Namespace>, Fault> {
        match name.prefix(buf) {
            b"" | b"xml" | b"xmlns" => Ok(None),
            prefix => Ok(Some(self.resolve(buf, prefix)?.unwrap_or(Namespace::Inherited))),
        }
    }
}

/// Checks that a default namespace is neither of the two fixed ones (Namespaces in XML §3).
#[inline(always)]
pub(crate) fn default_may_be(uri: &[u8]) -> Result<(), Fault> {
    // Both have at least this length, begin with `http://w`, and a reference that stands for a part
    // of them begins with `&`.
    match uri {
        [b'h' | b'&', .., _] if uri.len() >= ns::XMLNS.len() && !is_other_http(uri) => default_is_free(uri),
        _ => Ok(()),
    }
}

/// Returns whether these bytes are `http://` and then neither `w` nor a reference.
#[inline(always)]
fn is_other_http(uri: &[u8]) -> bool {
    uri.starts_with(b"http://") && !matches!(uri.get(7), Some(b'w' | b'&'))
}

#[cold]
fn default_is_free(uri: &[u8]) -> Result<(), Fault> {
    if same_text(uri, ns::XML.as_bytes()) || same_text(uri, ns::XMLNS.as_bytes()) {
        return Err(Fault::NotWellFormed);
    }
    Ok(())
}

impl AttributeName {
    #[inline(always)]
    fn bytes(self, buf: &[u8]) -> &[u8] {
        let start = self.start as usize;
        buf.get(start..start + usize::from(self.len)).unwrap_or_default()
    }

    fn local_bytes(self, buf: &[u8]) -> &[u8] {
        self.bytes(buf).get(usize::from(self.local)..).unwrap_or_default()
    }

    fn prefix(self, buf: &[u8]) -> &[u8] {
        self.bytes(buf).get(..usize::from(self.local).saturating_sub(1)).unwrap_or_default()
    }
}

impl Binding {
    fn prefix(self, buf: &[u8]) -> &[u8] {
        let start = self.prefix as usize;
        buf.get(start..start + usize::from(self.prefix_len)).unwrap_or_default()
    }
}
