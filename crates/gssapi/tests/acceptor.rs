//! Tests an acceptor without a realm, as far as no KDC is needed. Clients with tickets are tested
//! end to end, with pacsys and acsys-python.

use std::fs;
use std::path::PathBuf;

use rookery_gssapi::{Acceptor, Initiator};

#[test]
fn what_is_missing_is_told() {
    if rookery_needs::skips("gssapi.what_is_missing_is_told") {
        return;
    }
    let keytab = keytab("missing");
    let none = Acceptor::open(&keytab.with_extension("nowhere"), PRINCIPAL).expect_err("no file");
    assert!(none.to_string().contains("nowhere"), "{none}");
    let other = Acceptor::open(&keytab, "daeset/elsewhere@FNAL.GOV").expect_err("no key");
    assert!(other.to_string().contains("elsewhere"), "{other}");
}

#[test]
fn who_proves_nothing_is_nobody() {
    if rookery_needs::skips("gssapi.who_proves_nothing_is_nobody") {
        return;
    }
    let keytab = keytab("nobody");
    let acceptor = Acceptor::open(&keytab, PRINCIPAL).expect("the key is there");
    // Nothing, noise, the head of a Kerberos token with nothing in it, and SPNEGO.
    for token in ["", "00", "60", "6080", "601506092a864886f71201020201006e0830060201050201", "60060606 2b0601050502"] {
        let mut context = acceptor.context();
        context.verify_mic(b"1234", &[4, 4, 0, 255]).expect_err("nobody signed");
        let token: Vec<u8> = token.bytes().filter(u8::is_ascii_hexdigit).collect();
        let token: Vec<u8> = token
            .chunks(2)
            .map(|pair| u8::from_str_radix(&String::from_utf8_lossy(pair), 16))
            .map(|byte| byte.expect("hexadecimal"))
            .collect();
        context.step(&token).expect_err("no proof");
        assert!(!context.is_complete() && context.peer().is_none());
        context.step(&token).expect_err("it is over");
    }
    for length in 0..200u8 {
        let token: Vec<u8> = (0..length).map(|at| at.wrapping_mul(length) ^ 0x60).collect();
        acceptor.context().step(&token).expect_err("no proof");
    }
}

#[test]
fn a_client_without_a_service_signs_nothing() {
    if rookery_needs::skips("gssapi.a_client_without_a_service_signs_nothing") {
        return;
    }
    rookery_needs::library("libgssapi_krb5.so.2", "libgssapi-krb5-2");
    // The realm is nobody's, so that no ticket of the user who runs this fits it.
    let mut client = Initiator::open("daeset/localhost@NOBODY.INVALID").expect("a name");
    let refused = client.step(None).expect_err("no ticket");
    assert!(!refused.to_string().is_empty() && !client.is_complete());
    client.sign(b"1234").expect_err("nothing is proved");
}

/// Writes a keytab with one key, in the form that MIT documents: version 0x0502, then for each key
/// its length, principal, time, number and bytes. Requires the library.
fn keytab(name: &str) -> PathBuf {
    rookery_needs::library("libgssapi_krb5.so.2", "libgssapi-krb5-2");
    let counted = |text: &str| [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat();
    let mut entry = 2u16.to_be_bytes().to_vec();
    for text in ["FNAL.GOV", "daeset", "localhost"] {
        entry.extend(counted(text));
    }
    entry.extend([0, 0, 0, 1, 0, 0, 0, 0, 1]);
    // AES-256 with SHA-1 and a key of 32 bytes.
    entry.extend([&18u16.to_be_bytes()[..], &32u16.to_be_bytes(), &[7; 32]].concat());
    let file = [&[5, 2][..], &(entry.len() as u32).to_be_bytes(), &entry].concat();
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.keytab"));
    fs::write(&path, file).expect("a file below target/");
    path
}

const PRINCIPAL: &str = "daeset/localhost@FNAL.GOV";
