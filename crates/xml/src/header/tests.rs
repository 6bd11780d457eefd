use super::*;

const CLIENT_HEADER: &str = "<?xml version='1.0' encoding='UTF-8'?>\n<stream:stream from='juliet@im.example.com' \
     to='im.example.com' version='1.0' xml:lang='en' id='++&amp;9' xmlns='jabber:client' \
     xmlns:stream='http://etherx.jabber.org/streams' xmlns:db=\"jabber:server:dialback\">";

fn parse_header(raw: &str) -> Result<Option<(usize, Header)>, Fault> {
    parse(raw.as_bytes(), &Limits::BEFORE_LOGIN)
}

#[test]
fn the_usual_header() {
    let (len, header) = parse_header(&format!("{CLIENT_HEADER}<iq/>")).unwrap().unwrap();
    assert_eq!(len, CLIENT_HEADER.len());
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        header,
        Header {
            prefix: text("stream"),
            to: text("im.example.com"),
            from: text("juliet@im.example.com"),
            id: text("++&9"),
            version: text("1.0"),
            lang: text("en"),
            default_ns: ns::CLIENT.to_owned(),
            prefixes: vec![("db".to_owned(), ns::DIALBACK.to_owned())],
        }
    );
}

#[test]
fn every_beginning_of_it_is_incomplete() {
    for end in 0..CLIENT_HEADER.len() {
        assert_eq!(parse_header(&CLIENT_HEADER[..end]), Ok(None), "{}", &CLIENT_HEADER[..end]);
    }
}

#[test]
fn other_ways_to_write_it() {
    let prefixes =
        |raw: &str| parse_header(raw).map(|found| found.map(|(_, header)| (header.prefix, header.default_ns)));
    assert_eq!(
        prefixes("\n<s:stream xmlns:s='http://etherx.jabber.org/streams' xmlns='jabber:server'\n>"),
        Ok(Some((Some("s".to_owned()), ns::SERVER.to_owned())))
    );
    assert_eq!(prefixes("<stream xmlns='http://etherx.jabber.org/streams'>"), Ok(Some((None, ns::STREAMS.to_owned()))));
    let bare = "<stream:stream xmlns:stream='http://etherx.jabber.org/streams'>";
    for declaration in [
        "<?xml version=\"1.0\"?>",
        "<?xml version = '1.0' encoding='utf-8' ?>",
        "<?xml version='1.0' standalone='yes'?>",
        "<?xml\tversion='1.0' encoding='UTF-8' standalone='no'?>\r\n",
    ] {
        assert!(matches!(parse_header(&format!("{declaration}{bare}")), Ok(Some(_))), "{declaration}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    let declared = "xmlns:stream='http://etherx.jabber.org/streams'";
    let cases = [
        ("<stream:stream xmlns:stream='urn:other'>", Fault::InvalidNamespace),
        ("<stream xmlns='jabber:client'>", Fault::InvalidNamespace),
        ("<stream:stream xmlns='jabber:client'>", Fault::BadNamespacePrefix),
        ("<stream:stream x:y='' DECLARED>", Fault::BadNamespacePrefix),
        ("<stream:features DECLARED>", Fault::BadFormat),
        ("<stream:stream DECLARED/>", Fault::BadFormat),
        ("<?xml version='1.0' encoding='ISO-8859-1'?><stream:stream DECLARED>", Fault::UnsupportedEncoding),
        ("<?xml version='1.0' encoding='UTF-16'?>", Fault::UnsupportedEncoding),
        ("<?xml version='1.1'?>", Fault::NotWellFormed),
        ("<?xml encoding='UTF-8'?>", Fault::NotWellFormed),
        ("<?xml version='1.0' version='1.0'?>", Fault::NotWellFormed),
        ("<?xml-stylesheet href='x'?>", Fault::RestrictedXml),
        ("<?xml version='1.0'?><?xml version='1.0'?>", Fault::RestrictedXml),
        ("<!DOCTYPE x>", Fault::RestrictedXml),
        ("<!-- x -->", Fault::RestrictedXml),
        ("<stream:stream DECLARED a='' a=''>", Fault::NotWellFormed),
        (
            "<stream:stream DECLARED xmlns:s='http://etherx.jabber.org/streams' s:a='' stream:a=''>",
            Fault::NotWellFormed,
        ),
        ("<stream:stream DECLARED xmlns:xml='urn:x'>", Fault::NotWellFormed),
        ("<stream:stream DECLARED a='&nbsp;'>", Fault::RestrictedXml),
        ("<stream:stream DECLARED a='\u{FFFE}'>", Fault::NotWellFormed),
        ("GET / HTTP/1.1", Fault::NotWellFormed),
        ("\u{16}\u{3}\u{1}", Fault::NotWellFormed),
    ];
    for (raw, fault) in cases {
        assert_eq!(parse_header(&raw.replace("DECLARED", declared)), Err(fault), "{raw}");
    }
}

#[test]
fn an_endless_header_is_too_big() {
    let endless = format!("<stream:stream a='{}", "x".repeat(20_000));
    assert_eq!(parse_header(&endless), Err(Fault::TooBig));
    assert_eq!(parse_header(&endless[..10_000]), Ok(None));
}
