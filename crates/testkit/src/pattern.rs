//! Patterns of expected stanzas: XML in which `*` stands for anything.
//!
//! An element matches a pattern of the same name, namespace, attributes and content. These
//! wildcards exist:
//!
//! * the attribute value `*`: the attribute is there, with any value;
//! * the text `*`: some text, at least one letter;
//! * the text `...` after the other content: and anything else.
//!
//! A first-level pattern without `to` matches any `to`: clients rarely care how they are
//! addressed. `<text/>` in errors is for humans and never compared, and neither is the
//! `<stanza-id/>` that an archive puts into most messages, unless the pattern has one.

use std::cell::RefCell;
use std::collections::BTreeMap;

use rookery_xml::{Element, Limits, Node, Scan, Scanner, Stanza, ns, slow};

/// Reads one element; the prefix `stream` may be used as if a stream header had declared it.
///
/// # Panics
/// If it isn't one element.
pub fn element(xml: &str) -> Element {
    let mut all = elements(xml);
    assert_eq!(all.len(), 1, "exactly one element was expected: {xml}");
    all.remove(0)
}

/// Reads several elements.
///
/// # Panics
/// If there is anything else.
pub fn elements(xml: &str) -> Vec<Element> {
    let limits = Limits { bytes: usize::MAX, ..Limits::AFTER_LOGIN };
    let (mut rest, mut found) = (xml.as_bytes(), Vec::new());
    while !rest.is_empty() {
        let mut scanner = Scanner::new();
        let len = match scanner.scan(rest, &limits) {
            Ok(Scan::Space(len)) => len,
            Ok(Scan::Stanza(len)) => {
                found.push(Element::read(&scanner.stanza(rest)));
                len
            }
            Ok(Scan::Rare(len)) => {
                found.push(element_of_stream(&rest[..len]));
                len
            }
            other => panic!("a test has wrong XML ({other:?}): {xml}"),
        };
        rest = &rest[len..];
    }
    found
}

/// Reads an element that uses the prefix `stream` of its stream's header, or `db`, which those of
/// servers also declare (XEP-0220 §2.2).
///
/// Streams begin with the same features again and again, so recent results are cached.
pub(crate) fn element_of_stream(bytes: &[u8]) -> Element {
    thread_local! {
        static KNOWN: RefCell<BTreeMap<Vec<u8>, Element>> = const { RefCell::new(BTreeMap::new()) };
    }
    KNOWN.with_borrow_mut(|known| {
        if let Some(element) = known.get(bytes) {
            return element.clone();
        }
        let element = read_element_of_stream(bytes);
        if known.len() >= MOST_KNOWN {
            known.clear();
        }
        known.insert(bytes.to_owned(), element.clone());
        element
    })
}

fn read_element_of_stream(bytes: &[u8]) -> Element {
    let prefixes = [("stream".into(), ns::STREAMS.into()), ("db".into(), ns::DIALBACK.into())];
    let canonical = slow::canonical(bytes, ns::CLIENT, &prefixes);
    let canonical = canonical.unwrap_or_else(|fault| panic!("{fault}: {}", String::from_utf8_lossy(bytes)));
    let limits = Limits { bytes: usize::MAX, ..Limits::AFTER_LOGIN };
    Element::read(&Stanza::parse(&canonical, &limits).expect("the writer's own XML"))
}

/// Compares an element with a pattern; the error says where they differ.
pub fn matches(pattern: &Element, found: &Element) -> Result<(), String> {
    let mut found = found.clone();
    if pattern.attr("to").is_none() {
        found.remove_attr("to");
    }
    compare(pattern, &found)
}

fn compare(pattern: &Element, found: &Element) -> Result<(), String> {
    let name = pattern.name();
    if (name, pattern.ns()) != (found.name(), found.ns()) {
        let found = format!("<{} xmlns='{}'/>", found.name(), found.ns());
        return Err(format!("<{name} xmlns='{}'/> was expected, not {found}", pattern.ns()));
    }
    for attr in pattern.attrs() {
        match found.attr(&attr.name) {
            None => return Err(format!("<{name}/> has no '{}'", attr.name)),
            Some(value) if attr.value != "*" && value != attr.value => {
                return Err(format!("'{}' of <{name}/> is '{value}', not '{}'", attr.name, attr.value));
            }
            Some(_) => {}
        }
    }
    if let Some(attr) = found.attrs().iter().find(|attr| pattern.attr(&attr.name).is_none()) {
        return Err(format!("<{name}/> has '{}' = '{}', which was not expected", attr.name, attr.value));
    }
    content(pattern, found)
}

fn content(pattern: &Element, found: &Element) -> Result<(), String> {
    let name = pattern.name();
    let mut wanted = significant(pattern);
    let is_open = matches!(wanted.last(), Some(Node::Text(text)) if text.trim() == "...");
    if is_open {
        wanted.pop();
    }
    let mut found = significant(found);
    if pattern.children().all(|child| !is_stanza_id(child)) {
        found.retain(|node| !matches!(node, Node::Element(child) if is_stanza_id(child)));
    }
    for (at, node) in wanted.iter().enumerate() {
        match (node, found.get(at)) {
            (Node::Element(pattern), Some(Node::Element(found))) => compare(pattern, found)?,
            (Node::Text(text), Some(Node::Text(found))) if text == "*" || text == found => {}
            (node, other) => {
                return Err(format!("in <{name}/> {} was expected, not {}", tell(Some(node)), tell(other.copied())));
            }
        }
    }
    match found.get(wanted.len()) {
        Some(more) if !is_open => Err(format!("in <{name}/> nothing more was expected than {}", tell(Some(more)))),
        _ => Ok(()),
    }
}

fn is_stanza_id(element: &Element) -> bool {
    element.is("stanza-id", ns::STANZA_ID)
}

/// Returns the content without explanations for humans.
fn significant(element: &Element) -> Vec<&Node> {
    let is_text = |node: &&Node| match node {
        Node::Element(child) => !child.is("text", ns::STANZA_ERRORS) && !child.is("text", ns::STREAM_ERRORS),
        Node::Text(_) => true,
    };
    element.nodes().iter().filter(is_text).collect()
}

fn tell(node: Option<&Node>) -> String {
    match node {
        None => "the end".into(),
        Some(Node::Text(text)) => format!("'{text}'"),
        Some(Node::Element(element)) => format!("<{} xmlns='{}'/>", element.name(), element.ns()),
    }
}

/// The most elements that are cached.
const MOST_KNOWN: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn is(pattern: &str, found: &str) -> bool {
        matches(&element(pattern), &element(found)).is_ok()
    }

    #[test]
    fn what_is_the_same_matches() {
        assert!(is(
            "<message from='a' type='chat'><body>x</body></message>",
            "<message type='chat' from='a'><body>x</body></message>"
        ));
        assert!(is("<message/>", "<message to='b'/>"));
        assert!(is(
            "<stream:error><conflict xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>",
            "<stream:error><conflict xmlns='urn:ietf:params:xml:ns:xmpp-streams'/><text xmlns='urn:ietf:params:xml:ns:xmpp-streams'>x</text></stream:error>"
        ));
    }

    #[test]
    fn wildcards() {
        assert!(is("<iq id='*'><x>*</x><y/>...</iq>", "<iq id='7'><x>text</x><y/><z/></iq>"));
        assert!(!is("<iq id='*'/>", "<iq/>"));
        assert!(!is("<iq><x>*</x></iq>", "<iq><x/></iq>"));
        assert!(!is("<iq><x/>...</iq>", "<iq><y/></iq>"));
    }

    #[test]
    fn what_differs_does_not_match() {
        for found in [
            "<message/>",
            "<message id='2'><body/></message>",
            "<message id='1'><body/><a/></message>",
            "<message id='1'><body>x</body></message>",
            "<iq id='1'><body/></iq>",
            "<message id='1' x='2'><body/></message>",
            "<message id='1'><body xmlns='b'/></message>",
        ] {
            assert!(!is("<message id='1'><body/></message>", found), "{found}");
        }
    }
}
