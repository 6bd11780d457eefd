use super::*;
use crate::Kind;

fn scan(bytes: &[u8]) -> Result<Scan, Fault> {
    Scanner::new().scan(bytes, &Limits::AFTER_LOGIN)
}

#[test]
fn the_items_of_a_stream() {
    let mut buf: &[u8] = b" \r\n<message><body/></message>\t<iq/><a:b/></stream:stream >rest";
    let mut scanner = Scanner::new();
    let mut items = Vec::new();
    for _ in 0..6 {
        let item = scanner.scan(buf, &Limits::AFTER_LOGIN).unwrap();
        let (Scan::Space(len) | Scan::Close(len) | Scan::Stanza(len) | Scan::Rare(len)) = item else { panic!() };
        items.push(item);
        buf = &buf[len..];
    }
    assert_eq!(
        items,
        [Scan::Space(3), Scan::Stanza(26), Scan::Space(1), Scan::Stanza(5), Scan::Rare(6), Scan::Close(17)]
    );
    assert_eq!(buf, b"rest");
    assert_eq!(scanner.scan(buf, &Limits::AFTER_LOGIN), Err(Fault::NotWellFormed));
}

#[test]
fn each_fault_has_its_condition() {
    let cases: [(&[u8], &str); 24] = [
        (b"text", "not-well-formed"),
        (b"<a></b>", "not-well-formed"),
        (b"<a b=c/>", "not-well-formed"),
        (b"<a b='1' b='2'/>", "not-well-formed"),
        (b"<a xmlns:p='u' xmlns:q='u' p:b='' q:b=''/>", "not-well-formed"),
        (b"<a xmlns:p=''/>", "not-well-formed"),
        (b"<a xmlns:xml='u'/>", "not-well-formed"),
        (b"<a xmlns='http://www.w3.org/XML/1998/namespace'/>", "not-well-formed"),
        (b"<a xmlns='http://www.w3.org/2000/xmlns&#47;'/>", "not-well-formed"),
        (b"<a xmlns='' xmlns=''/>", "not-well-formed"),
        (b"<a b='\r'/>", "not-well-formed"),
        (b"<a>]]></a>", "not-well-formed"),
        (b"<a>\xff</a>", "not-well-formed"),
        (b"<a>&#0;</a>", "not-well-formed"),
        (b"<xml:a/>", "not-well-formed"),
        (b"<![CDATA[x]]>", "not-well-formed"),
        (b"</message>", "not-well-formed"),
        (b"<a>&nbsp;</a>", "restricted-xml"),
        (b"<a><!-- x --></a>", "restricted-xml"),
        (b"<!-- x -->", "restricted-xml"),
        (b"<a><?x y?></a>", "restricted-xml"),
        (b"<?xml version='1.0'?>", "restricted-xml"),
        (b"<!DOCTYPE a>", "restricted-xml"),
        (b"<a>&#000000065;</a>", "policy-violation"),
    ];
    for (bytes, condition) in cases {
        assert_eq!(scan(bytes).map_err(Fault::condition), Err(condition), "{}", bytes.escape_ascii());
    }
}

#[test]
fn limits_are_exact() {
    let limits = Limits { bytes: 20, depth: 2, attributes: 2, namespaces: 1 };
    let scan = |bytes: &str| Scanner::new().scan(bytes.as_bytes(), &limits);
    assert_eq!(scan("<a>0123456789012</a>"), Ok(Scan::Stanza(20)));
    assert_eq!(scan("<a>01234567890123</a>"), Err(Fault::TooBig));
    assert_eq!(scan("<a>01234567890123456"), Ok(Scan::Partial));
    assert_eq!(scan("<a>012345678901234567"), Err(Fault::TooBig));
    assert_eq!(scan("<a><b/></a>"), Ok(Scan::Stanza(11)));
    assert_eq!(scan("<a><b><c/></b></a>"), Err(Fault::TooDeep));
    assert_eq!(scan("<a b='' c=''/>"), Ok(Scan::Stanza(14)));
    assert_eq!(scan("<a b='' c='' d=''/>"), Err(Fault::TooManyAttributes));
    let limits = Limits { bytes: 99, ..limits };
    let scan = |bytes: &str| Scanner::new().scan(bytes.as_bytes(), &limits);
    assert_eq!(scan("<a xmlns:b='u'/>"), Ok(Scan::Stanza(16)));
    assert_eq!(scan("<a xmlns:b='u' xmlns:c='u'/>"), Err(Fault::TooManyNamespaces));
    assert_eq!(scan("<a><b xmlns:b='u'/><b xmlns:b='u'/></a>"), Ok(Scan::Stanza(39)));
}

#[test]
fn the_greatest_limits_fit_the_scanner() {
    let limits = Limits { bytes: usize::MAX, depth: 1000, attributes: 1000, namespaces: 1000 };
    let scan = |bytes: String| Scanner::new().scan(bytes.as_bytes(), &limits);
    let nested = |depth: usize| "<a>".repeat(depth) + &"</a>".repeat(depth);
    assert_eq!(scan(nested(32)), Ok(Scan::Stanza(32 * 7)));
    assert_eq!(scan(nested(33)), Err(Fault::TooDeep));
    let attributes = |count: usize| {
        let attributes: String = (0..count).map(|at| format!(" a{at}=''")).collect();
        format!("<a{attributes}/>")
    };
    assert!(matches!(scan(attributes(64)), Ok(Scan::Stanza(_))));
    assert_eq!(scan(attributes(65)), Err(Fault::TooManyAttributes));
    let bound = |count: usize| {
        let bound: String = (0..count).map(|at| format!(" xmlns:a{at}='u'")).collect();
        format!("<a{bound}/>")
    };
    assert!(matches!(scan(bound(32)), Ok(Scan::Stanza(_))));
    assert_eq!(scan(bound(33)), Err(Fault::TooManyNamespaces));
}

/// The place where a scanner that is fed in drops goes on is never far behind what it has seen, so
/// that its work is linear.
#[test]
fn drops_are_read_once() {
    let long = |part: &str| part.repeat(20_000);
    let texts = [
        format!("<a>{}", long("x")),
        format!("<a>{}", long("é")),
        format!("<a>{}", long("]")),
        format!("<a>{}", long("&amp;")),
        format!("<a>{}", long(" \n")),
        format!("<a>{}", long("<b/>")),
        format!("<a><![CDATA[{}", long("]")),
        format!("<a b='{}", long("x")),
        format!("<a b='{}", long("&#65;")),
        format!("<a b='{}", long("字")),
        format!("<a {}", long(" ")),
        format!("<a b='' {}", long("\n")),
    ];
    for text in texts {
        let mut scanner = Scanner::new();
        for end in 1..=text.len() {
            assert_eq!(scanner.scan(&text.as_bytes()[..end], &Limits::AFTER_LOGIN), Ok(Scan::Partial), "{:.40}", text);
            let read_again = end - scanner.at.max(scanner.seen) as usize;
            assert!(read_again <= 16, "{read_again} bytes of {:.40}", text);
        }
    }
}

/// A part that is read again from its start when the bytes end in it has a bounded length.
#[test]
fn names_and_gaps_are_short() {
    let long = |part: &str| part.repeat(2000);
    for text in [
        format!("<{}", long("a")),
        format!("<{}", long("é")),
        format!("<a {}", long("b")),
        format!("<a {}", long("é")),
        format!("<a b{}", long(" ")),
        format!("<a b={}", long(" ")),
        format!("<a></a{}", long(" ")),
        format!("</stream:stream{}", long(" ")),
    ] {
        assert_eq!(scan(text.as_bytes()), Err(Fault::NameTooLong), "{:.40}", text);
    }
}

#[test]
fn what_the_view_shows() {
    let bytes = b"<message id='a&amp;b'  to=\"x@y.example\"\txml:lang='en' xmlns='jabber:client'><x xmlns='u'/><body/></message>";
    let stanza = Stanza::parse(bytes, &Limits::AFTER_LOGIN).unwrap();
    assert_eq!((stanza.kind(), stanza.name(), &*stanza.ns()), (Kind::Message, "message", "jabber:client"));
    assert_eq!(stanza.id().as_deref(), Some("a&b"));
    let raw = stanza.raw_id().unwrap();
    assert_eq!((raw.bytes, raw.quote, raw.range), (&b"a&amp;b"[..], b'\'', 13..20));
    assert_eq!(stanza.raw_to().unwrap().quote, b'"');
    assert_eq!((stanza.from(), stanza.type_(), stanza.lang().as_deref()), (None, None, Some("en")));
    assert!(stanza.has_body());
    let head = stanza.head();
    assert_eq!(&bytes[..head.name_end], b"<message");
    assert_eq!(&bytes[head.to.unwrap()], b"  to=\"x@y.example\"");
    assert_eq!(&bytes[head.xmlns.unwrap()], b" xmlns='jabber:client'");
    assert_eq!((bytes[head.head_end], head.is_empty), (b'>', false));
    assert_eq!(&bytes[stanza.insert_point().offset..], b"</message>");
    let empty = Stanza::parse(b"<presence />", &Limits::AFTER_LOGIN).unwrap();
    assert!(empty.head().is_empty && empty.insert_point().self_closed);
    assert_eq!(&empty.bytes()[empty.insert_point().offset..], b"/>");
}

#[test]
fn a_foreign_root_is_no_stanza() {
    let kind = |bytes: &'static str| Stanza::parse(bytes.as_bytes(), &Limits::AFTER_LOGIN).unwrap().kind();
    assert_eq!(kind("<iq xmlns='jabber:server'/>"), Kind::Iq);
    assert_eq!(kind("<c:iq xmlns:c='jabber:client'/>"), Kind::Iq);
    assert_eq!(kind("<iq xmlns='urn:x'/>"), Kind::Other);
    assert_eq!(kind("<iq xmlns=''/>"), Kind::Other);
    assert_eq!(kind("<c:iq xmlns:c='urn:c'/>"), Kind::Other);
}

#[test]
fn an_unfinished_stanza_costs_little() {
    assert!(size_of::<Scanner>() <= 1536, "{}", size_of::<Scanner>());
}

#[test]
fn children_of_children() {
    let bytes = b"<message xmlns:p='urn:p'><a xmlns='urn:a' xmlns:q='urn:q'>t<b c = 'x&lt;' d=\"\"/><p:b/><q:b><b/></q:b></a><e/></message>";
    let stanza = Stanza::parse(bytes, &Limits::AFTER_LOGIN).unwrap();
    let outer = stanza.child("a", "urn:a").unwrap();
    let inner: Vec<_> = outer.children().collect();
    let names: Vec<_> = inner.iter().map(|child| (child.written_name(), child.ns().into_owned())).collect();
    assert_eq!(names, [("b", "urn:a".into()), ("p:b", "urn:p".into()), ("q:b", "urn:q".into())]);
    let attributes: Vec<_> = inner[0].attributes().collect();
    assert_eq!((attributes[0].name, &*attributes[0].value), ("c", "x<"));
    assert_eq!(&inner[0].bytes()[attributes[0].range.clone()], b" c = 'x&lt;'");
    assert_eq!(&inner[0].bytes()[attributes[1].range.clone()], b" d=\"\"");
    assert_eq!(outer.attributes().count(), 0);
    assert!(bytes[outer.content().unwrap()].ends_with(b"</q:b>"));
    let empty = stanza.child("e", "jabber:client").unwrap();
    assert_eq!((empty.content(), empty.children().count()), (None, 0));
}
