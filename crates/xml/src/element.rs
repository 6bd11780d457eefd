//! An owned tree of a few elements, for handlers that read or build payloads. The hot path never
//! makes one.
//!
//! # Invariants
//! - Data that a peer wrote once is in memory once: elements and attributes share the names of
//!   their namespaces, so that a tree takes at most a constant times the bytes that it was read
//!   from. A shared name is counted atomically, since trees travel between shards.

use std::sync::Arc;

use crate::fault::Fault;
use crate::lex::QName;
use crate::limits::Limits;
use crate::ns;
use crate::stanza::{Child, Stanza};
use crate::unescape;
use crate::walk::{self, TokenWalk, WalkTag, WalkToken};

/// An element: its name, namespace, attributes and content. Prefixes are resolved and forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    name: String,
    ns: Arc<str>,
    attrs: Vec<Attr>,
    nodes: Vec<Node>,
}

/// An attribute of an [`Element`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attr {
    /// The local name; `xml:lang` and similar names keep their prefix.
    pub name: String,
    /// The namespace, empty for an attribute without a prefix.
    pub ns: Arc<str>,
    /// The value, with references resolved.
    pub value: String,
}

/// A piece of an element's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A child element.
    Element(Element),
    /// Character data, never empty and never next to other character data.
    Text(String),
}

impl Element {
    /// Returns an empty element. Names that XML doesn't allow are mended by the
    /// [`Writer`](crate::Writer).
    pub fn new(name: impl Into<String>, ns: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), ns: ns.into(), attrs: Vec::new(), nodes: Vec::new() }
    }

    /// Scans and reads bytes that hold exactly one element.
    pub fn parse(bytes: &[u8]) -> Result<Self, Fault> {
        Stanza::parse(bytes, &Limits::AFTER_LOGIN).map(|stanza| Self::read(&stanza))
    }

    /// Reads a scanned stanza. Elements in the stream's content namespace get `jabber:client`.
    pub fn read(stanza: &Stanza<'_>) -> Self {
        TreeReader::new(stanza.bytes()).read(0)
    }

    pub(crate) fn read_child(child: &Child<'_>) -> Self {
        let buf = child.whole();
        let mut reader = TreeReader::new(buf);
        if let Some(root) = WalkTag::read(buf, 0) {
            reader.enter(&root);
        }
        reader.read(child.range().start)
    }

    /// Returns the element with this attribute, which replaces one of the same name.
    #[must_use]
    pub fn with_attr(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.set_attr(name, value);
        self
    }

    /// Returns the element with this attribute, if there is a value.
    #[must_use]
    pub fn with_opt_attr(self, name: impl Into<String>, value: Option<impl Into<String>>) -> Self {
        match value {
            Some(value) => self.with_attr(name, value),
            None => self,
        }
    }

    /// Returns the element with this attribute after the others, whatever its namespace.
    #[must_use]
    pub fn with_namespaced_attr(mut self, attr: Attr) -> Self {
        self.attrs.push(attr);
        self
    }

    /// Returns the element with this text after its content.
    #[must_use]
    pub fn with_text(mut self, text: impl AsRef<str>) -> Self {
        self.push_text(text.as_ref());
        self
    }

    /// Returns the element with this child after its content.
    #[must_use]
    pub fn with_child(mut self, child: Element) -> Self {
        self.push_child(child);
        self
    }

    /// Sets an attribute that has no namespace, or `xml:lang`.
    pub fn set_attr(&mut self, name: impl Into<String>, value: impl Into<String>) {
        let (name, value) = (name.into(), value.into());
        let ns = if name.starts_with("xml:") { ns::XML } else { "" };
        match self.attrs.iter_mut().find(|attr| attr.name == name && *attr.ns == *ns) {
            Some(attr) => attr.value = value,
            None => self.attrs.push(Attr { name, ns: if ns.is_empty() { Arc::default() } else { ns.into() }, value }),
        }
    }

    /// Removes an attribute without namespace, or `xml:lang`.
    pub fn remove_attr(&mut self, name: &str) -> Option<String> {
        let at = self.position(name)?;
        Some(self.attrs.remove(at).value)
    }

    /// Adds a child after the content.
    pub fn push_child(&mut self, child: Element) {
        self.nodes.push(Node::Element(child));
    }

    /// Adds text after the content.
    pub fn push_text(&mut self, text: &str) {
        match self.nodes.last_mut() {
            _ if text.is_empty() => {}
            Some(Node::Text(last)) => last.push_str(text),
            _ => self.nodes.push(Node::Text(text.to_owned())),
        }
    }

    /// Keeps only the children for which `keep` returns true; text stays.
    pub fn retain_children(&mut self, mut keep: impl FnMut(&Element) -> bool) {
        self.nodes.retain(|node| match node {
            Node::Element(child) => keep(child),
            Node::Text(_) => true,
        });
    }

    /// Returns the local name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the namespace.
    pub fn ns(&self) -> &str {
        &self.ns
    }

    /// Returns whether it has this name and namespace.
    pub fn is(&self, name: &str, ns: &str) -> bool {
        self.name == name && *self.ns == *ns
    }

    /// Returns the value of an attribute without namespace, or of `xml:lang`.
    pub fn attr(&self, name: &str) -> Option<&str> {
        self.position(name).map(|at| self.attrs[at].value.as_str())
    }

    /// Returns all attributes, in the order in which they were written.
    pub fn attrs(&self) -> &[Attr] {
        &self.attrs
    }

    /// Returns the content in order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the child elements in order.
    pub fn children(&self) -> impl Iterator<Item = &Element> {
        self.nodes.iter().filter_map(|node| match node {
            Node::Element(child) => Some(child),
            Node::Text(_) => None,
        })
    }

    /// Returns the first child of this name and namespace.
    pub fn child(&self, name: &str, ns: &str) -> Option<&Element> {
        self.children().find(|child| child.is(name, ns))
    }

    /// Returns the element's own text, without that of its children.
    pub fn text(&self) -> String {
        self.nodes
            .iter()
            .filter_map(|node| match node {
                Node::Text(text) => Some(text.as_str()),
                Node::Element(_) => None,
            })
            .collect()
    }

    /// Returns the text of the first child of this name and namespace.
    pub fn child_text(&self, name: &str, ns: &str) -> Option<String> {
        self.child(name, ns).map(Element::text)
    }

    pub(crate) fn push_attr(&mut self, attr: Attr) {
        self.attrs.push(attr);
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.attrs.iter().position(|attr| attr.name == name && (attr.ns.is_empty() || name.starts_with("xml:")))
    }
}

/// Reads trees from scanned bytes. `scope` holds the meanings of prefixes, innermost last; the
/// empty one is the default.
struct TreeReader<'a> {
    buf: &'a [u8],
    scope: Vec<(&'a [u8], Arc<str>)>,
    /// The namespace of elements that are in none declared by their own stanza, once there is one.
    client: Option<Arc<str>>,
}

impl<'a> TreeReader<'a> {
    fn new(buf: &'a [u8]) -> Self {
        Self { buf, scope: Vec::new(), client: None }
    }

    /// Reads the element at `at`. The stack is as deep as the scanner allowed.
    fn read(&mut self, at: usize) -> Element {
        let mut unfinished: Vec<(Element, usize)> = Vec::new();
        for token in TokenWalk::new(self.buf, at) {
            let finished = match token {
                WalkToken::Open(open) => {
                    let outside = self.scope.len();
                    self.enter(&open);
                    let element = self.element(&open);
                    if !open.self_closed {
                        unfinished.push((element, outside));
                        continue;
                    }
                    self.scope.truncate(outside);
                    element
                }
                WalkToken::Close => {
                    let Some((element, outside)) = unfinished.pop() else { break };
                    self.scope.truncate(outside);
                    element
                }
                WalkToken::Text(raw) => {
                    push_text(&mut unfinished, &unescape::text(raw));
                    continue;
                }
                WalkToken::Cdata(raw) => {
                    push_text(&mut unfinished, &unescape::cdata(raw));
                    continue;
                }
            };
            match unfinished.last_mut() {
                Some((parent, _)) => parent.push_child(finished),
                None => return finished,
            }
        }
        // This happens only with bytes that were never scanned.
        Element::new("", "")
    }

    fn enter(&mut self, open: &WalkTag<'a>) {
        for (name, value) in open.attributes() {
            if let Some(prefix) = walk::declared_prefix(self.buf, name) {
                self.scope.push((prefix, unescape::value(value.of(self.buf)).into()));
            }
        }
    }

    fn element(&mut self, open: &WalkTag<'a>) -> Element {
        let ns = match open.prefix() {
            b"" => self.bound(b"").unwrap_or_else(|| self.client.get_or_insert_with(|| ns::CLIENT.into()).clone()),
            prefix => self.bound(prefix).unwrap_or_default(),
        };
        let mut element = Element::new(self.utf8(open.name.local, open.name.end), ns);
        for (name, value) in open.attributes() {
            if walk::declared_prefix(self.buf, name).is_none() {
                let (name, ns) = self.attr_name(name);
                let value = unescape::value(value.of(self.buf)).into_owned();
                element.push_attr(Attr { name: name.to_owned(), ns, value });
            }
        }
        element
    }

    fn attr_name(&self, name: QName) -> (&'a str, Arc<str>) {
        match walk::prefix(self.buf, name) {
            b"" => (self.utf8(name.start, name.end), Arc::default()),
            b"xml" => (self.utf8(name.start, name.end), ns::XML.into()),
            prefix => (self.utf8(name.local, name.end), self.bound(prefix).unwrap_or_default()),
        }
    }

    fn bound(&self, prefix: &[u8]) -> Option<Arc<str>> {
        self.scope.iter().rev().find(|(bound, _)| *bound == prefix).map(|(_, uri)| uri.clone())
    }

    fn utf8(&self, start: usize, end: usize) -> &'a str {
        self.buf.get(start..end).and_then(|raw| std::str::from_utf8(raw).ok()).unwrap_or_default()
    }
}

fn push_text(unfinished: &mut [(Element, usize)], text: &str) {
    if let Some((element, _)) = unfinished.last_mut() {
        element.push_text(text);
    }
}
