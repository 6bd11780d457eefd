//! The other parser.

use rookery_xml::{Attr, Element, Node, ns};
use rxml::{Event, Options, Parse, Parser, WithOptions};

/// The verdict of the other parser.
pub enum OracleVerdict {
    /// It accepted the bytes as this element.
    Element(Element),
    /// It gave up for this reason.
    Refused(String),
}

/// Reads bytes that should be one element, as the content of a stream.
pub fn read(bytes: &[u8]) -> OracleVerdict {
    let mut document = STREAM.to_vec();
    document.extend_from_slice(bytes);
    document.extend_from_slice(b"</s>");
    parse(&document, true)
}

/// Reads the element that the bytes start with, and ignores the bytes after it.
pub fn first_element(bytes: &[u8]) -> OracleVerdict {
    let mut document = STREAM.to_vec();
    document.extend_from_slice(bytes);
    parse(&document, false)
}

/// Returns whether two trees are the same but for the order of attributes.
pub fn same(one: &Element, other: &Element) -> bool {
    let sorted = |element: &Element| {
        let mut attrs: Vec<_> =
            element.attrs().iter().map(|attr| (attr.ns.clone(), attr.name.clone(), attr.value.clone())).collect();
        attrs.sort();
        attrs
    };
    one.is(other.name(), other.ns())
        && sorted(one) == sorted(other)
        && one.nodes().len() == other.nodes().len()
        && one.nodes().iter().zip(other.nodes()).all(|nodes| match nodes {
            (Node::Element(one), Node::Element(other)) => same(one, other),
            (Node::Text(one), Node::Text(other)) => one == other,
            _ => false,
        })
}

fn parse(document: &[u8], whole: bool) -> OracleVerdict {
    let mut parser = Parser::with_options(Options::default());
    let mut rest = document;
    let mut open: Vec<Element> = Vec::new();
    let mut children = Vec::new();
    let mut is_root = true;
    loop {
        let event = match parser.parse(&mut rest, true) {
            Ok(Some(event)) => event,
            Ok(None) => break,
            Err(error) => return OracleVerdict::Refused(format!("{error:?}")),
        };
        match event {
            Event::StartElement(..) if is_root => is_root = false,
            Event::StartElement(_, (ns, name), attrs) => open.push(element(ns.as_str(), name.as_str(), attrs)),
            Event::EndElement(_) => match (open.pop(), open.last_mut()) {
                (Some(element), Some(parent)) => parent.push_child(element),
                (Some(element), None) if whole => children.push(element),
                (Some(element), None) => return OracleVerdict::Element(element),
                (None, _) => {}
            },
            Event::Text(_, text) => match open.last_mut() {
                Some(element) => element.push_text(&text),
                None => return OracleVerdict::Refused("text between stanzas".to_owned()),
            },
            Event::XmlDeclaration(..) => {}
        }
    }
    match children.pop() {
        Some(element) if children.is_empty() => OracleVerdict::Element(element),
        _ => OracleVerdict::Refused("not one element".to_owned()),
    }
}

fn element(namespace: &str, name: &str, attrs: rxml::AttrMap) -> Element {
    let mut parts = attrs.into_iter().map(|((ns, name), value)| {
        let prefix = if ns == ns::XML { "xml:" } else { "" };
        Attr { name: format!("{prefix}{name}"), ns: ns.as_str().into(), value }
    });
    parts.by_ref().fold(Element::new(name, namespace), Element::with_namespaced_attr)
}

const STREAM: &[u8] = b"<s xmlns='jabber:client'>";
