//! Stream headers: further bytes never change a result, and an accepted header is XML to another
//! parser.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rookery_xml::{Limits, header};
use rxml::{Event, Parse, Parser};

fuzz_target!(|input: (u16, &[u8])| {
    let (split, bytes) = input;
    let limits = Limits::BEFORE_LOGIN;
    let whole = header::parse(bytes, &limits);
    let split = usize::from(split).min(bytes.len());
    match header::parse(&bytes[..split], &limits) {
        Ok(None) => {}
        answer => assert_eq!(answer, whole),
    }
    // The other parser allows no white space before the header, and takes only stand-alone
    // documents.
    if let Ok(Some((len, header))) = whole
        && bytes[0] == b'<'
        && !bytes[..len].windows(10).any(|part| part == b"standalone")
    {
        let mut rest = &bytes[..len];
        let mut parser = Parser::new();
        loop {
            match parser.parse(&mut rest, false) {
                Ok(Some(Event::XmlDeclaration(..))) => {}
                Ok(Some(Event::StartElement(_, (namespace, name), attributes))) => {
                    assert_eq!((namespace.as_str(), name.as_str()), (rookery_xml::ns::STREAMS, "stream"));
                    let to = attributes.get(rxml::Namespace::none(), "to");
                    assert_eq!(to, header.to.as_ref());
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
    }
});
