//! Keys that protect a session whose requests can be read on the way (XEP-0124 §15).

use rookery_testkit::Server;
use rookery_testkit::bosh::Bosh;
use rookery_xml::ns;
use sha1::{Digest, Sha1};

/// Returns a sequence of keys, the one to be shown next last.
fn keys(seed: &str, count: usize) -> Vec<String> {
    let next = |key: &String| Some(hex(key));
    std::iter::successors(Some(hex(seed)), next).take(count).collect()
}

fn hex(text: &str) -> String {
    Sha1::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn open(server: &Server, keys: &mut Vec<String>) -> Bosh {
    server.account("juliet");
    let mut client = Bosh::new(server);
    client.open(&format!("hold='1' wait='60' ver='1.6' newkey='{}'", keys.pop().unwrap().to_uppercase()));
    client
}

#[test]
fn a_sequence_goes_on_and_can_be_changed() {
    let server = Server::new();
    let mut first = keys("seed", 3);
    let mut client = open(&server, &mut first);
    let waits = client.ask(&format!("key='{}'", first.pop().unwrap()), "");
    waits.expect_nothing();
    server.advance(6_000);
    let mut second = keys("another", 4);
    let wrong = client.ask(&format!("key='{}' newkey='{}'", first.pop().unwrap(), second.pop().unwrap()), "");
    wrong.expect_nothing();
    waits.expect_empty();
    server.advance(6_000);
    client.ask(&format!("key='{}'", second.pop().unwrap()), "").expect_nothing();
    wrong.expect_empty();
}

#[test]
fn a_wrong_key_or_none_ends_the_session() {
    for key in [String::new(), format!("key='{}'", hex("guessed")), "key='x'".into()] {
        let server = Server::new();
        let mut keys = keys("seed", 5);
        let mut client = open(&server, &mut keys);
        client
            .ask(&key, &format!("<auth xmlns='{}' mechanism='PLAIN'>AGEAYg==</auth>", ns::SASL))
            .expect_end("item-not-found");
        assert_eq!(server.connections(), 0);
    }
}

#[test]
fn who_repeats_a_request_needs_its_key() {
    let server = Server::new();
    let mut keys = keys("seed", 5);
    let mut client = open(&server, &mut keys);
    let key = keys.pop().unwrap();
    let waits = client.ask(&format!("key='{key}'"), "");
    waits.expect_nothing();
    client.ask_as(client.rid - 1, &format!("key='{key}'"), "").expect_nothing();
    client.ask_as(client.rid - 1, &format!("key='{}'", keys[0]), "").expect_end("item-not-found");
}
