//! The only writer of XML: everything that the server generates goes through it, so that it can't
//! be malformed.
//!
//! Text is escaped; names that XML doesn't allow are corrected; an attribute that is set twice
//! keeps its first value; and anything still open at the end is closed. A root written without a
//! namespace takes that of the stream it is sent on.

use std::ops::Range;

use crate::built::Built;
use crate::element::{Attr, Element, Node};
use crate::escape;
use crate::lex::{is_name, is_name_start};
use crate::ns;
use crate::stanza::{Child, Stanza};
use crate::walk::{self, WalkTag};

/// Writes one element after the other into one buffer.
#[derive(Debug)]
pub struct Writer {
    out: Vec<u8>,
    open: Vec<Unclosed>,
    /// True if the last start tag still takes attributes.
    in_tag: bool,
    /// Names of the attributes of that tag.
    names: Vec<Range<usize>>,
    splice: usize,
}

/// An element to be closed, as ranges of the output.
#[derive(Clone, Debug)]
struct Unclosed {
    name: Range<usize>,
    /// Its default namespace as written; `None` is that of the stream.
    ns: Option<Range<usize>>,
}

impl Writer {
    /// Starts a root in the namespace of its stream, whatever that is.
    pub fn new(name: &str) -> Self {
        let mut writer =
            Self { out: Vec::with_capacity(256), open: Vec::new(), in_tag: false, names: Vec::new(), splice: 0 };
        writer.open_tag(name);
        writer.splice = writer.out.len();
        writer
    }

    /// Starts a root that names its namespace.
    pub fn with_ns(name: &str, ns: &str) -> Self {
        let mut writer = Self::new(name);
        writer.declare(ns);
        writer
    }

    /// Sets an attribute of the element started last. It has no effect once that has content.
    pub fn attr(&mut self, name: &str, value: &str) -> &mut Self {
        debug_assert!(self.in_tag, "attribute {name} comes after content");
        debug_assert!(name != "xmlns" && !name.starts_with("xmlns:"), "namespaces are declared by the writer");
        if self.in_tag {
            let start = self.out.len();
            self.out.push(b' ');
            self.push_attr_name(name);
            let range = start + 1..self.out.len();
            if self.names.iter().any(|other| self.out[other.clone()] == self.out[range.clone()]) {
                self.out.truncate(start);
                return self;
            }
            self.names.push(range);
            self.push_value(value);
        }
        self
    }

    /// Sets an attribute if there is a value.
    pub fn opt_attr(&mut self, name: &str, value: Option<&str>) -> &mut Self {
        match value {
            Some(value) => self.attr(name, value),
            None => self,
        }
    }

    /// Starts a child in the namespace of its parent.
    pub fn start(&mut self, name: &str) -> &mut Self {
        let ns = self.open.last().and_then(|parent| parent.ns.clone());
        self.close_tag();
        self.open_tag(name);
        if let Some(child) = self.open.last_mut() {
            child.ns = ns;
        }
        self
    }

    /// Starts a child in this namespace, declaring it unless the parent is in it.
    pub fn start_ns(&mut self, name: &str, ns: &str) -> &mut Self {
        self.start(name);
        if !self.is_in(ns) {
            self.declare(ns);
        }
        self
    }

    /// Adds text.
    pub fn text(&mut self, text: &str) -> &mut Self {
        if !text.is_empty() {
            self.close_tag();
            escape::push_text(&mut self.out, text);
        }
        self
    }

    /// Ends the element started last. The root is ended by [`finish`](Self::finish).
    pub fn end(&mut self) -> &mut Self {
        debug_assert!(self.open.len() > 1, "the root is ended by finish()");
        if self.open.len() > 1 {
            self.end_any();
        }
        self
    }

    /// Adds a child without attributes that holds this text.
    pub fn text_child(&mut self, name: &str, text: &str) -> &mut Self {
        self.start(name).text(text).end()
    }

    /// Adds a tree as a child.
    pub fn element(&mut self, element: &Element) -> &mut Self {
        self.start_ns(element.name(), element.ns());
        self.content(element);
        self.end()
    }

    /// Adds a child of a stanza, byte for byte except for declarations that it inherited from the
    /// stanza's root.
    pub fn copy(&mut self, child: &Child<'_>) -> &mut Self {
        self.close_tag();
        let (buf, open) = (child.whole(), child.open());
        self.out.extend_from_slice(&buf[child.range().start..open.name.end]);
        if open.binding(b"").is_none() {
            let default = walk::namespace_text(buf, child.default_ns());
            if !self.is_in(&default) {
                self.push_declaration("xmlns", &default);
            }
        }
        let foreign = walk::foreign_prefixes(child.bytes());
        // The root's tag is read only for children that need it: there may be many children, and it
        // may be long.
        let root = if foreign.is_empty() { None } else { WalkTag::read(buf, 0) };
        for (name, value) in root.iter().flat_map(WalkTag::attributes) {
            if walk::declared_prefix(buf, name).is_some_and(|prefix| foreign.contains(prefix)) {
                // Whole as it was written, quotes included.
                self.out.push(b' ');
                self.out.extend_from_slice(&buf[name.start..value.end as usize + 1]);
            }
        }
        self.out.extend_from_slice(&buf[open.name.end..child.range().end]);
        self
    }

    /// Adds a whole stanza as a child, byte for byte except for its namespace: a content namespace
    /// of any stream becomes that of a client's (XEP-0297 §3.1).
    pub fn stanza(&mut self, stanza: &Stanza<'_>) -> &mut Self {
        self.forward(stanza, None)
    }

    /// Adds a whole stanza as [`Writer::stanza`] does, with this `to` unless it has its own.
    pub fn stanza_to(&mut self, stanza: &Stanza<'_>, to: &str) -> &mut Self {
        self.forward(stanza, Some(to).filter(|_| stanza.raw_to().is_none()))
    }

    fn forward(&mut self, stanza: &Stanza<'_>, to: Option<&str>) -> &mut Self {
        let ns = stanza.ns();
        let ns = if ns::is_content(&ns) { ns::CLIENT } else { &ns };
        if stanza.has_prefix() {
            let mut root = Element::read(stanza);
            to.into_iter().for_each(|to| root.set_attr("to", to));
            return self.element(&root);
        }
        self.close_tag();
        let (bytes, head) = (stanza.bytes(), stanza.head());
        self.out.extend_from_slice(&bytes[..head.name_end]);
        if !self.is_in(ns) {
            self.push_declaration("xmlns", ns);
        }
        if let Some(to) = to {
            self.push_declaration("to", to);
        }
        let declared = head.xmlns.unwrap_or(head.name_end..head.name_end);
        self.out.extend_from_slice(&bytes[head.name_end..declared.start]);
        self.out.extend_from_slice(&bytes[declared.end..]);
        self
    }

    /// Closes all open elements and returns the result.
    pub fn finish(mut self) -> Built {
        while !self.open.is_empty() {
            self.end_any();
        }
        Built::new(self.out, self.splice)
    }

    /// Returns a whole tree, its root without namespace if that is the stream's.
    pub fn write(root: &Element) -> Built {
        let mut writer =
            if ns::is_content(root.ns()) { Self::new(root.name()) } else { Self::with_ns(root.name(), root.ns()) };
        writer.content(root);
        writer.finish()
    }

    fn content(&mut self, element: &Element) {
        for (at, attr) in element.attrs().iter().enumerate() {
            self.element_attr(attr, at, &element.attrs()[..at]);
        }
        for node in element.nodes() {
            match node {
                Node::Element(child) => self.element(child),
                Node::Text(text) => self.text(text),
            };
        }
    }

    /// Gives an attribute with a namespace a prefix of its own, unless one before it is in the
    /// same.
    fn element_attr(&mut self, attr: &Attr, at: usize, before: &[Attr]) {
        if attr.ns.is_empty() || *attr.ns == *ns::XML {
            self.attr(&attr.name, &attr.value);
            return;
        }
        if is_fixed(&attr.ns) {
            return;
        }
        let declared = before.iter().position(|other| other.ns == attr.ns);
        if declared.is_none() {
            self.push_declaration(&format!("xmlns:a{at}"), &attr.ns);
        }
        self.out.extend_from_slice(format!(" a{}:", declared.unwrap_or(at)).as_bytes());
        self.push_name(&attr.name);
        self.push_value(&attr.value);
    }

    fn open_tag(&mut self, name: &str) {
        self.out.push(b'<');
        let start = self.out.len();
        self.push_name(name);
        self.open.push(Unclosed { name: start..self.out.len(), ns: None });
        self.in_tag = true;
        self.names.clear();
    }

    fn close_tag(&mut self) {
        if self.in_tag {
            self.out.push(b'>');
            self.in_tag = false;
        }
    }

    fn end_any(&mut self) {
        let Some(element) = self.open.pop() else { return };
        if self.in_tag {
            self.out.extend_from_slice(b"/>");
            self.in_tag = false;
        } else {
            self.out.extend_from_slice(b"</");
            self.out.extend_from_within(element.name);
            self.out.push(b'>');
        }
    }

    /// Returns whether `ns` is the default namespace here.
    fn is_in(&self, ns: &str) -> bool {
        match self.open.last().and_then(|element| element.ns.clone()) {
            Some(written) => self.out[written] == *escape::escape_attr(ns).as_bytes(),
            None => ns::is_content(ns),
        }
    }

    fn declare(&mut self, ns: &str) {
        debug_assert!(!is_fixed(ns), "no element is in the namespaces of XML itself");
        let ns = if is_fixed(ns) { "" } else { ns };
        let written = self.push_declaration("xmlns", ns);
        if let Some(element) = self.open.last_mut() {
            element.ns = Some(written);
        }
    }

    /// Writes a namespace declaration and returns where its value is.
    fn push_declaration(&mut self, name: &str, uri: &str) -> Range<usize> {
        self.out.push(b' ');
        self.out.extend_from_slice(name.as_bytes());
        let start = self.out.len() + 2;
        self.push_value(uri);
        start..self.out.len() - 1
    }

    fn push_value(&mut self, value: &str) {
        self.out.extend_from_slice(b"='");
        escape::push_attr(&mut self.out, value);
        self.out.push(b'\'');
    }

    /// Writes the name of an attribute. Those of XML itself keep their prefix; no other prefix is
    /// declared.
    fn push_attr_name(&mut self, name: &str) {
        match name.strip_prefix("xml:") {
            Some(local) => {
                self.out.extend_from_slice(b"xml:");
                self.push_name(local);
            }
            None if name == "xmlns" => self.push_name("_xmlns"),
            None => self.push_name(name),
        }
    }

    /// Writes a name, with `_` in place of each character that may not be in one.
    fn push_name(&mut self, name: &str) {
        debug_assert!(is_ncname(name), "{name:?} isn't a name");
        if is_ncname(name) {
            self.out.extend_from_slice(name.as_bytes());
            return;
        }
        if !name.starts_with(is_name_start) {
            self.out.push(b'_');
        }
        for c in name.chars() {
            let c = if is_name(c) { c } else { '_' };
            self.out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
}

/// Returns whether `ns` is one of the two that only their own prefixes may be bound to (Namespaces
/// in XML §3).
fn is_fixed(ns: &str) -> bool {
    ns == ns::XML || ns == ns::XMLNS
}

fn is_ncname(name: &str) -> bool {
    name.starts_with(is_name_start) && name.chars().all(is_name)
}
