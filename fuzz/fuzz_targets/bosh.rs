//! Requests of BOSH: any bytes are a request or refused, and each element of one stands alone in
//! the stream that it opens (XEP-0124 §6, XEP-0206 §3).

#![no_main]

use libfuzzer_sys::fuzz_target;
use rookery_stream::bosh::{BoshBody, Whose};
use rookery_xml::{Limits, Scan, Scanner};

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits::AFTER_LOGIN;
    let Ok(mut request) = BoshBody::read(bytes.into(), &limits) else { return };
    assert_eq!((request.len(), request.document()), (bytes.len(), bytes));
    let opening = match &request.whose {
        Whose::New(opening) => Some(opening),
        Whose::Session(_) | Whose::Nobody => request.restart.as_ref(),
    };
    // An escaped opening may be too long.
    if let Some(opening) = opening.filter(|_| bytes.len() < 1000) {
        let header = opening.stream_header();
        assert!(Scanner::new().scan(&header, &limits).is_ok(), "{}", String::from_utf8_lossy(&header));
    }
    let mut scanner = Scanner::new();
    // No element is shorter than that.
    for _ in 0..=bytes.len() / 4 {
        let Ok(Some(element)) = request.next(&mut scanner, &limits) else { return };
        let alone = Scanner::new().scan(&element, &limits).expect("an element stands alone");
        assert!(matches!(alone, Scan::Stanza(len) | Scan::Rare(len) if len == element.len()));
    }
    panic!("a request has no more elements than bytes");
});
