//! The scanner against another parser: input that it accepts, in pieces of any size, is accepted
//! and read alike by the other parser.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rookery_xml::{Element, Fault, Limits, Scan, Scanner, Stanza, Writer};

#[path = "../../crates/xml/tests/differential/oracle.rs"]
#[allow(dead_code, reason = "the differential test uses more of it")]
mod oracle;

fuzz_target!(|input: (u16, &[u8])| {
    let (split, bytes) = input;
    let limits = Limits::AFTER_LOGIN;
    let mut whole = Scanner::new();
    let answer = whole.scan(bytes, &limits);

    let mut pieces = Scanner::new();
    let split = usize::from(split).min(bytes.len());
    let in_pieces = match pieces.scan(&bytes[..split], &limits) {
        Ok(Scan::Partial | Scan::Space(_)) => pieces.scan(bytes, &limits),
        answer => answer,
    };
    if !matches!(answer, Ok(Scan::Space(_))) {
        assert_eq!(in_pieces, answer);
    }

    if let Ok(Scan::Stanza(len)) = answer {
        let oracle::OracleVerdict::Element(seen) = oracle::read(&bytes[..len]) else {
            panic!("only the scanner accepts it")
        };
        let stanza = whole.stanza(bytes);
        let read = Element::read(&stanza);
        // The other parser forgets to normalise a carriage return behind a bracket in CDATA.
        if !bytes.windows(2).any(|pair| pair == b"]\r") {
            assert!(oracle::same(&read, &seen));
        }
        assert_eq!(stanza.children().count(), seen.children().count());
        // Written without prefixes, the stanza may exceed the limit for input.
        let built = Writer::write(&read);
        let limits = Limits { bytes: usize::MAX, ..limits };
        match Stanza::parse(built.bytes(), &limits) {
            Ok(again) => assert!(oracle::same(&Element::read(&again), &read)),
            Err(fault) => assert_eq!(fault, Fault::TooManyAttributes, "the writer writes XML"),
        }
    }
});
