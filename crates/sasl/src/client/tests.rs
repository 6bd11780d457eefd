//! Tests the RFCs' examples from the client's side, and lies that a client must not believe.

use proptest::prelude::*;

use super::*;

const NOTHING: Announced<'_> = Announced { mechanisms: &[], binding_types: None };
const USER: Login<'_> = Login { username: "user", password: "pencil", authzid: None };

fn begin(nonce: &str, mechanism: Mechanism) -> (Exchange, String) {
    let none = ChannelBindings::default();
    let (exchange, first) = Exchange::start_with(nonce, mechanism, &USER, &none, &NOTHING).unwrap();
    (exchange, String::from_utf8(first).unwrap())
}

/// RFC 5802 §5.
#[test]
fn example_of_rfc_5802() {
    let (mut exchange, first) = begin("fyko+d2lbbFgONRv9qkxdawL", Mechanism::ScramSha1);
    assert_eq!(first, "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL");
    let challenge = b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096";
    let last = exchange.challenge(challenge, None).unwrap();
    let expected = "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=";
    assert_eq!(String::from_utf8(last).unwrap(), expected);
    assert_eq!(exchange.finish(b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ="), Ok(()));
}

/// RFC 7677 §3.
#[test]
fn example_of_rfc_7677() {
    let (mut exchange, _) = begin("rOprNGfwEbeRWgbNEkqO", Mechanism::ScramSha256);
    let challenge = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    let last = String::from_utf8(exchange.challenge(challenge, None).unwrap()).unwrap();
    assert!(last.ends_with(",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="), "{last}");
    assert_eq!(exchange.finish(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="), Ok(()));
}

#[test]
fn servers_that_lie_are_refused() {
    let challenge = |message: &[u8]| begin("abc", Mechanism::ScramSha1).0.challenge(message, None).unwrap_err();
    assert_eq!(challenge(b"r=abX,s=QSXC,i=1"), ClientError::Nonce);
    assert_eq!(challenge(b"r=abc,s=QSXC,i=1"), ClientError::Nonce);
    assert_eq!(challenge(b"r=abcd,s=QSXC,i=4000000000"), ClientError::TooManyIterations);
    assert_eq!(challenge(b"r=abcd,s=?,i=1"), ClientError::Malformed);
    let changed = b"r=abcd,s=QSXC,i=1,h=AAAA";
    assert_eq!(challenge(changed), ClientError::Downgrade);
    let unaware = begin("abc", Mechanism::ScramSha1).0.without_downgrade_check().challenge(changed, None);
    assert!(unaware.is_ok(), "a client that doesn't know XEP-0474");
    let (mut exchange, _) = begin("abc", Mechanism::ScramSha1);
    assert_eq!(exchange.finish(b""), Err(ClientError::OutOfOrder));
    let (mut exchange, _) = begin("abc", Mechanism::ScramSha1);
    exchange.challenge(b"r=abcd,s=QSXC,i=1", None).unwrap();
    assert_eq!(exchange.finish(b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ="), Err(ClientError::ServerSignature));
}

#[test]
fn passwords_are_derived_once() {
    let cache = SaltedPasswords::new();
    let answer = || {
        let (mut exchange, _) = begin("abc", Mechanism::ScramSha512);
        exchange.challenge(b"r=abcd,s=QSXC,i=3", Some(&cache)).unwrap()
    };
    let (one, two) = (answer(), answer());
    assert_eq!(one, two);
    assert_eq!(cache.len(), 1);
    assert_eq!(begin("abc", Mechanism::ScramSha512).0.challenge(b"r=abcd,s=QSXC,i=3", None).unwrap(), one);
}

#[test]
fn the_strongest_common_mechanism() {
    let bindings = ChannelBindings { exporter: Some([1; 32]), server_end_point: None };
    let mechanisms = ["PLAIN", "SCRAM-SHA-1", "SCRAM-SHA-1-PLUS", "X-OTHER"];
    let announced = |binding_types| Announced { mechanisms: &mechanisms, binding_types };
    let exporter: &[&str] = &["tls-exporter"];
    assert_eq!(announced(Some(exporter)).strongest(&bindings), Some(Mechanism::ScramSha1Plus));
    assert_eq!(announced(Some(&["tls-unique"])).strongest(&bindings), Some(Mechanism::ScramSha1));
    assert_eq!(announced(None).strongest(&ChannelBindings::default()), Some(Mechanism::ScramSha1));
    assert_eq!(NOTHING.strongest(&bindings), None);
}

proptest! {
    #[test]
    fn no_challenge_panics(message in prop_oneof![any::<Vec<u8>>(), "r=abc[ -~]{0,9},s=[A-Za-z=]{0,8},i=[0-9]{0,3}(,[ -~]*)?".prop_map(String::into_bytes)], last: Vec<u8>) {
        let (mut exchange, _) = begin("abc", Mechanism::ScramSha1);
        let _ = exchange.challenge(&message, None);
        let _ = exchange.finish(&last);
    }
}
