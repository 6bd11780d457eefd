//! Tests that everything written can be read, by the scanner and by another parser, and has the
//! intended meaning.

use proptest::prelude::*;
use rookery_xml::{Element, Limits, Node, Stanza, Writer, escape_attr, escape_text, ns};

#[path = "differential/oracle.rs"]
#[allow(dead_code, reason = "the differential test uses more of it")]
mod oracle;

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,12}",
        "\\PC{0,8}",
        proptest::collection::vec(any::<char>(), 0..8).prop_map(String::from_iter),
        Just("]]>&<'\"\r\n\t\u{0}\u{FFFE}".to_owned()),
    ]
}

fn element() -> impl Strategy<Value = Element> {
    let name = prop_oneof!["[a-z]{1,6}", Just("body".to_owned()), Just("имя-1".to_owned())];
    let namespace = prop_oneof![Just(ns::CLIENT), Just(""), Just("urn:a"), Just("urn:'b'&<c>"), Just(ns::SERVER)];
    let attributes = proptest::collection::vec((prop_oneof!["[a-z]{1,3}", Just("xml:lang".to_owned())], text()), 0..4);
    let leaf = (name, namespace, attributes, text()).prop_map(|(name, namespace, attributes, text)| {
        let element = Element::new(name, namespace).with_text(text);
        attributes.into_iter().fold(element, |element, (name, value)| element.with_attr(name, value))
    });
    leaf.prop_recursive(4, 20, 4, |inner| {
        (inner.clone(), proptest::collection::vec((inner, text()), 0..4)).prop_map(|(parent, children)| {
            children.into_iter().fold(parent, |parent, (child, text)| parent.with_child(child).with_text(text))
        })
    })
}

/// Returns what a reader gets of text in which some characters can't be written.
fn readable(text: &str) -> String {
    text.chars()
        .map(|c| if matches!(c, '\t' | '\n' | '\r' | ' '..='\u{FFFD}' | '\u{10000}'..) { c } else { '\u{FFFD}' })
        .collect()
}

/// Returns the element as it is expected: a root in a content namespace takes that of the stream,
/// which is `jabber:client` to both readers.
fn expected_element(element: &Element) -> Element {
    let ns = if ns::is_content(element.ns()) { ns::CLIENT } else { element.ns() };
    expected_in(element, ns, ns::is_content(element.ns()))
}

fn expected_in(element: &Element, ns: &str, inherits: bool) -> Element {
    let mut read = Element::new(element.name(), ns);
    for attr in element.attrs() {
        read.set_attr(&attr.name, readable(&attr.value));
    }
    for node in element.nodes() {
        match node {
            Node::Text(text) => read.push_text(&readable(text)),
            Node::Element(child) => {
                let inherits = inherits && ns::is_content(child.ns());
                let ns = if inherits { ns::CLIENT } else { child.ns() };
                read.push_child(expected_in(child, ns, inherits));
            }
        }
    }
    read
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(element in element()) {
        let built = Writer::write(&element);
        let stanza = Stanza::parse(built.bytes(), &Limits::AFTER_LOGIN);
        prop_assert!(stanza.is_ok(), "{}", built.bytes().escape_ascii());
        let expected = expected_element(&element);
        let read = Element::read(&stanza.unwrap());
        prop_assert!(oracle::same(&read, &expected), "{read:?}\n{expected:?}");
        match oracle::read(built.bytes()) {
            oracle::OracleVerdict::Element(seen) => prop_assert!(oracle::same(&seen, &expected)),
            oracle::OracleVerdict::Refused(reason) => prop_assert!(false, "{reason}: {}", built.bytes().escape_ascii()),
        }
        // The splice comes after the root's name.
        let head = stanza.unwrap().head();
        prop_assert_eq!(built.splice(), head.name_end);
    }

    #[test]
    fn calls_in_any_order_write_xml(calls in proptest::collection::vec((0..6u8, text()), 0..20)) {
        let mut writer = Writer::new("message");
        let (mut depth, mut in_tag) = (0, true);
        for (at, (call, text)) in calls.iter().enumerate() {
            match call {
                0 if in_tag => { writer.attr(&format!("a{}", at % 3), text); }
                1 if depth < 20 => { writer.start("x"); depth += 1; in_tag = true; }
                2 if depth < 20 => { writer.start_ns("y", text); depth += 1; in_tag = true; }
                3 if depth > 0 => { writer.end(); depth -= 1; in_tag = false; }
                4 => { writer.text(text); in_tag &= text.is_empty(); }
                5 => { writer.element(&Element::new("z", "urn:z").with_text(text)); in_tag = false; }
                _ => {}
            }
        }
        let built = writer.finish();
        prop_assert!(Stanza::parse(built.bytes(), &Limits::AFTER_LOGIN).is_ok(), "{}", built.bytes().escape_ascii());
        prop_assert!(matches!(oracle::read(built.bytes()), oracle::OracleVerdict::Element(_)));
    }

    #[test]
    fn escaped_text_means_the_same(text in text()) {
        let document = format!("<a b='{}' c=\"{}\">{}</a>", escape_attr(&text), escape_attr(&text), escape_text(&text));
        let element = Element::parse(document.as_bytes());
        prop_assert!(element.is_ok(), "{document}");
        let element = element.unwrap();
        let expected = readable(&text);
        prop_assert_eq!(element.attr("b"), Some(expected.as_str()));
        prop_assert_eq!(element.attr("c"), Some(expected.as_str()));
        prop_assert_eq!(element.text(), expected);
    }
}

#[test]
fn a_stanza_is_written_as_it_reads() {
    let mut writer = Writer::new("message");
    writer.attr("to", "a'b@c.example").opt_attr("id", None).opt_attr("type", Some("chat"));
    writer.text_child("body", "1 < 2");
    writer.start_ns("x", "urn:x").start("y").end().end();
    writer.element(&Element::new("body", ns::CLIENT));
    let built = writer.finish();
    let expected =
        "<message to='a&apos;b@c.example' type='chat'><body>1 &lt; 2</body><x xmlns='urn:x'><y/></x><body/></message>";
    assert_eq!(String::from_utf8_lossy(built.bytes()), expected);
    assert_eq!(built.splice(), "<message".len());
}

#[test]
fn a_copied_child_brings_its_declarations() {
    let stanza = b"<iq xmlns:p='urn:p' xmlns='jabber:client'><query p:a='1'><p:x/></query></iq>";
    let stanza = Stanza::parse(stanza, &Limits::AFTER_LOGIN).unwrap();
    let mut writer = Writer::with_ns("forwarded", ns::FORWARD);
    writer.copy(&stanza.children().next().unwrap());
    assert_eq!(
        String::from_utf8_lossy(writer.finish().bytes()),
        "<forwarded xmlns='urn:xmpp:forward:0'><query xmlns='jabber:client' xmlns:p='urn:p' p:a='1'><p:x/></query></forwarded>"
    );
}

#[test]
fn a_stanza_within_another_names_its_namespace() {
    for (source, expected) in [
        (
            "<message from='a@x'><body>1 &lt; 2</body></message>",
            "<message xmlns='jabber:client' from='a@x'><body>1 &lt; 2</body></message>",
        ),
        ("<message id='1'  xmlns=\"jabber:server\" to='b@y'/>", "<message xmlns='jabber:client' id='1' to='b@y'/>"),
        ("<a:iq xmlns:a='jabber:client' a:b='1'/>", "<iq xmlns='jabber:client' xmlns:a='jabber:client' a:b='1'/>"),
        ("<note xmlns='urn:x'><y/></note>", "<note xmlns='urn:x'><y/></note>"),
    ] {
        let stanza = Stanza::parse(source.as_bytes(), &Limits::AFTER_LOGIN).unwrap();
        let mut writer = Writer::with_ns("forwarded", ns::FORWARD);
        writer.stanza(&stanza);
        let built = writer.finish();
        let inner = Element::read(&Stanza::parse(built.bytes(), &Limits::AFTER_LOGIN).unwrap());
        let wanted = Element::read(&Stanza::parse(expected.as_bytes(), &Limits::AFTER_LOGIN).unwrap());
        assert!(oracle::same(inner.children().next().unwrap(), &wanted), "{}", built.bytes().escape_ascii());
    }
}
