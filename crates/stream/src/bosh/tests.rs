//! Tests requests with any content. Sessions are tested with a server behind them.

use proptest::prelude::*;
use rookery_xml::{Limits, Scanner, ns};

use super::request::write_sid;
use super::{BoshBody, Whose};

fn read(text: &str) -> Result<BoshBody, rookery_xml::Fault> {
    BoshBody::read(text.as_bytes().into(), &Limits::AFTER_LOGIN)
}

fn elements(request: &mut BoshBody) -> Result<Vec<String>, rookery_xml::Fault> {
    let mut found = Vec::new();
    while let Some(element) = request.next(&mut Scanner::new(), &Limits::AFTER_LOGIN)? {
        found.push(String::from_utf8(element.into_owned()).expect("the scanner has checked it"));
    }
    Ok(found)
}

#[test]
fn elements_are_told_apart() {
    let ns = ns::HTTP_BIND;
    let mut request = read(&format!("<body rid='1' xmlns='{ns}'> <a/>\n<b>x</b></body>\n")).unwrap();
    assert!(!request.is_empty());
    assert_eq!(elements(&mut request).unwrap(), ["<a/>", "<b>x</b>"]);
    for nothing in [format!("<body rid='1' xmlns='{ns}'/>"), format!("<x:body rid='1' xmlns:x='{ns}'> </x:body > ")] {
        let mut request = read(&nothing).unwrap();
        assert!(request.is_empty(), "{nothing}");
        assert!(elements(&mut request).unwrap().is_empty());
    }
    for wrong in ["<a/></body><b/>", "<a/></bodi>", "<a/>", "x</body>", "<a></body>", ""] {
        let mut request = read(&format!("<body rid='1' xmlns='{ns}'>{wrong}")).unwrap();
        assert!(elements(&mut request).is_err(), "{wrong}");
    }
    assert!(elements(&mut read(&format!("<body rid='1' xmlns='{ns}'/><a/>")).unwrap()).is_err());
}

#[test]
fn an_id_is_read_as_it_is_written() {
    for sid in [0, 1, u128::MAX, 0x0123_4567_89ab_cdef] {
        let text = format!("<body rid='1' sid='{}' xmlns='{}'/>", write_sid(sid), ns::HTTP_BIND);
        assert_eq!(read(&text).unwrap().whose, Whose::Session(sid));
    }
}

#[test]
fn a_header_says_no_more_than_the_request() {
    let text = "<body rid='1' to='a&apos;b' xml:lang='de' xmlns='http://jabber.org/protocol/httpbind'/>";
    let Whose::New(opening) = read(text).unwrap().whose else { panic!("a new session") };
    let header = String::from_utf8(opening.stream_header()).unwrap();
    assert!(header.ends_with(" to='a&apos;b' xml:lang='de' version='1.0'>"), "{header}");
}

proptest! {
    #[test]
    fn nothing_that_is_sent_does_harm(text in "(<body |<|rid='1' |sid='0' |xmlns='http://jabber.org/protocol/httpbind'|/>|>|</body>|<a>|</a>|<a/>|&amp;|[ -~]|\\PC){0,40}") {
        if let Ok(mut request) = read(&text) {
            let len = request.len();
            if let Ok(found) = elements(&mut request) {
                prop_assert!(found.iter().map(String::len).sum::<usize>() <= len);
                prop_assert!(!request.has_content());
            }
        }
    }

    #[test]
    fn bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        let begun = [b"<body rid='1' xmlns='http://jabber.org/protocol/httpbind'>".as_slice(), &bytes].concat();
        if let Ok(mut request) = BoshBody::read(begun.into(), &Limits::AFTER_LOGIN) {
            let _ = elements(&mut request);
        }
    }
}
