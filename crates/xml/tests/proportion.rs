//! Tests that a stanza never becomes anything out of proportion to it, however long its names are
//! and however often it uses them.

use std::collections::BTreeSet;

use proptest::prelude::*;
use rookery_xml::{Attr, Element, Fault, Limits, Node, Scan, Scanner, Stanza, Writer, slow};

/// Bytes on the heap for each byte that was read, at most: the worst are short elements with one
/// short attribute and one short child.
const MEMORY: usize = 64;

/// Returns the bytes that a tree takes, those of its own root included. A vector may have twice the
/// places that it needs, and four at least.
fn memory(root: &Element) -> usize {
    fn places(used: usize) -> usize {
        if used == 0 { 0 } else { (2 * used).max(4) }
    }
    let mut names = BTreeSet::new();
    let mut bytes = size_of::<Element>();
    let mut rest = vec![root];
    while let Some(element) = rest.pop() {
        names.insert((element.ns().as_ptr(), element.ns().len()));
        names.extend(element.attrs().iter().map(|attr| (attr.ns.as_ptr(), attr.ns.len())));
        bytes += element.name().len() + places(element.attrs().len()) * size_of::<Attr>();
        bytes += element.attrs().iter().map(|attr| attr.name.len() + attr.value.len()).sum::<usize>();
        bytes += places(element.nodes().len()) * size_of::<Node>();
        for node in element.nodes() {
            match node {
                Node::Text(text) => bytes += 2 * text.len(),
                Node::Element(child) => rest.push(child),
            }
        }
    }
    bytes + names.into_iter().map(|(_, len)| len + 2 * size_of::<usize>()).sum::<usize>()
}

/// Asserts that a stanza, if it is accepted, takes no more than its length allows.
fn is_in_proportion(text: &str) -> Result<(), Fault> {
    let limits = Limits { bytes: text.len(), ..Limits::AFTER_LOGIN };
    let stanza = Stanza::parse(text.as_bytes(), &limits)?;
    let tree = Element::read(&stanza);
    let most = MEMORY * text.len();
    assert!(memory(&tree) <= most, "{} bytes for {}", memory(&tree), text.len());
    let written = Writer::write(&tree).into_bytes().len();
    // Four for the namespaces, and what tags and references take when they are written another way.
    assert!(written <= 12 * text.len(), "{written} bytes for {}: {text}", text.len());
    let mut copied = Writer::with_ns("copied", "urn:elsewhere");
    for child in stanza.children() {
        assert!(memory(&child.element()) <= most);
        copied.copy(&child);
    }
    let copied = copied.finish().into_bytes().len();
    assert!(copied <= 12 * text.len() + 64, "{copied} bytes copied for {}: {text}", text.len());
    Ok(())
}

/// Returns a name of a namespace with this number of bytes.
fn uri(len: usize) -> String {
    "u".repeat(len)
}

#[test]
fn a_namespace_that_thousands_of_elements_are_in_is_in_memory_once() {
    for len in [1, 100, 1024] {
        for content in ["<a/>", "<a xmlns=''/>", "<a b=''><c/></a>", "<a><a><a/></a></a>", "<a>t<b/></a>"] {
            let text = format!("<iq><query xmlns='{}'>{}</query></iq>", uri(len), content.repeat(20_000));
            let limits = Limits { bytes: text.len(), ..Limits::AFTER_LOGIN };
            let tree = Element::read(&Stanza::parse(text.as_bytes(), &limits).unwrap());
            assert!(memory(&tree) <= MEMORY * text.len(), "{} for {}", memory(&tree), text.len());
        }
    }
}

#[test]
fn prefixes_make_no_large_stanza_of_a_small_one() {
    let with = |len: usize, outer: &str, content: &str, count: usize| {
        format!("<message xmlns:p='{}'>{outer}{}</message>", uri(len), content.repeat(count))
    };
    for content in ["<p:a/>", "<a p:b=''/>", "<x><p:a/></x>", "<p:x><a/></p:x>", "<p:x><a p:a='' p:b=''/></p:x>"] {
        assert_eq!(is_in_proportion(&with(1024, "", content, 5000)), Err(Fault::NamespacesTooBig), "{content}");
        // These are ordinary stanzas.
        assert_eq!(is_in_proportion(&with(20, "", content, 5000)), Ok(()), "{content}");
        assert_eq!(is_in_proportion(&with(200, &"text".repeat(5000), content, 100)), Ok(()), "{content}");
    }
    let inherited =
        format!("<message><x xmlns='{}' xmlns:p='p'>{}</x></message>", uri(1000), "<p:a><b/></p:a>".repeat(5000));
    assert_eq!(is_in_proportion(&inherited), Err(Fault::NamespacesTooBig));
}

#[test]
fn a_child_is_copied_with_the_declarations_that_it_uses() {
    let declared: String = (0..30).map(|n| format!(" xmlns:p{n}='{}{n}'", uri(1000))).collect();
    let text = format!("<message{declared}>{}</message>", "<a/>".repeat(20_000));
    assert_eq!(is_in_proportion(&text), Err(Fault::NamespacesTooBig), "each might be in the longest");
    let text = format!("<message{declared}>{}</message>", "<a xmlns='u'><p1:b xmlns:p1='v'/>:</a>".repeat(3000));
    assert_eq!(is_in_proportion(&text), Ok(()));
    let text = "<message xmlns:p='urn:p' xmlns:q='urn:q'><a><p:b/><q:c xmlns:q='urn:r'/></a></message>";
    let stanza = Stanza::parse(text.as_bytes(), &Limits::AFTER_LOGIN).unwrap();
    let mut copied = Writer::new("copied");
    copied.copy(&stanza.children().next().unwrap());
    assert_eq!(
        String::from_utf8(copied.finish().into_bytes()).unwrap(),
        "<copied><a xmlns:p='urn:p'><p:b/><q:c xmlns:q='urn:r'/></a></copied>"
    );
}

#[test]
fn longer_namespaces_than_anybody_needs_are_refused() {
    let scan = |text: String| Scanner::new().scan(text.as_bytes(), &Limits::AFTER_LOGIN);
    for (before, after) in [("<a xmlns='", "'/>"), ("<a xmlns:p='", "'/>"), ("<a><b xmlns=\"", "\"/></a>")] {
        let longest = format!("{before}{}{after}", uri(1024));
        assert_eq!(scan(longest.clone()), Ok(Scan::Stanza(longest.len())));
        let refused = scan(format!("{before}{}{after}", uri(1025)));
        assert_eq!(refused, Err(Fault::NameTooLong));
        assert_eq!(refused.map_err(Fault::condition), Err("policy-violation"));
    }
}

#[test]
fn declarations_of_a_stream_header_are_bounded_like_others() {
    let prefixes = |len: usize| [("p".to_owned(), uri(len))];
    let canonical = |content: &str, count: usize, len: usize| {
        let text = format!("<message>{}</message>", content.repeat(count));
        slow::canonical(text.as_bytes(), "jabber:client", &prefixes(len)).map(|bytes| bytes.len())
    };
    assert!(canonical("<p:a/>", 30_000, 20).is_ok());
    assert_eq!(canonical("<p:a/>", 30_000, 1000), Err(Fault::NamespacesTooBig));
    assert_eq!(canonical("<a p:b=''/>", 20_000, 1000), Err(Fault::NamespacesTooBig));
    assert_eq!(canonical("<p:a/>", 1, 1025), Err(Fault::NameTooLong));
    let header = format!("<stream:stream xmlns:stream='http://etherx.jabber.org/streams' xmlns='{}'>", uri(1025));
    assert_eq!(rookery_xml::header::parse(header.as_bytes(), &Limits::BEFORE_LOGIN), Err(Fault::NameTooLong));
    let body = format!("<body xmlns:p='{}'/>", uri(1025));
    let wrapper = rookery_xml::wrapper::Wrapper::read(body.as_bytes(), &Limits::AFTER_LOGIN);
    assert_eq!(wrapper, Err(Fault::NameTooLong));
}

#[test]
fn attributes_of_one_namespace_share_its_declaration() {
    let attributes: String = (0..62).map(|n| format!(" p:a{n}='{n}'")).collect();
    let text = format!("<message xmlns:p='{}'{attributes}/>", uri(1000));
    let tree = Element::parse(text.as_bytes()).unwrap();
    let written = Writer::write(&tree).into_bytes();
    assert!(written.len() < text.len() + 200, "{}", written.len());
    assert_eq!(Element::parse(&written).unwrap(), tree);
}

fn content() -> impl Strategy<Value = String> {
    let attribute = prop_oneof![
        Just(String::new()),
        Just(" a=''".to_owned()),
        Just(" p:a='1' q:a='2'".to_owned()),
        Just(" xml:lang='de'".to_owned()),
        (1_usize..1024).prop_map(|len| format!(" xmlns='{}'", uri(len))),
        (1_usize..1024).prop_map(|len| format!(" xmlns:p='{}'", uri(len))),
        (1_usize..200).prop_map(|len| format!(" b='{}'", "&lt;".repeat(len))),
    ];
    let name = prop_oneof![Just("a"), Just("p:b"), Just("q:c"), Just("longer-name")];
    let leaf = (name, attribute).prop_map(|(name, attribute)| (name, attribute, String::new()));
    let leaf = leaf.prop_map(|(name, attribute, inner)| format!("<{name}{attribute}>{inner}</{name}>"));
    leaf.prop_recursive(6, 60, 12, |inner| {
        (prop_oneof![Just("x"), Just("p:y"), Just("q:z")], proptest::collection::vec((inner, 1_usize..40), 0..6))
            .prop_map(|(name, children)| {
                let inner: String = children.into_iter().map(|(child, count)| child.repeat(count)).collect();
                format!("<{name}>{inner}text</{name}>")
            })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn whatever_is_read_is_in_proportion(content in content(), p in 1_usize..1024, default in 1_usize..1024) {
        prop_assume!(content.len() < 400_000);
        let text = format!(
            "<message xmlns:p='{}' xmlns:q='urn:q'><query xmlns='{}'>{content}</query></message>", uri(p), uri(default)
        );
        match is_in_proportion(&text) {
            Ok(()) | Err(Fault::NamespacesTooBig) => {}
            Err(fault) => prop_assert!(false, "{fault:?}: {text}"),
        }
    }
}
