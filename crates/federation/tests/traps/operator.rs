//! Decisions of the operator, and its secret.

use std::sync::Arc;

use rookery_federation::inbound::Ours;
use rookery_federation::{Home, Own, Pattern, Policy, Rules, Secret, Settings};
use rookery_stream::tls::trust::{Names, Untrusted};

use crate::hostile::{EXTERNAL, Here, PROCEED, STARTTLS, Server, TLS_FEATURE, address, at, header, reply};

#[test]
fn streams_of_hosts_that_are_gone_end() {
    struct Nothing;
    impl Ours for Nothing {
        fn is_ours(&self, _: &str) -> bool {
            false
        }
    }
    impl Home for Nothing {
        fn home(&self, _: &str) -> usize {
            0
        }
        fn shard(&self) -> usize {
            0
        }
    }
    let mut server = Server::new(Policy::Certificate);
    server.dns.insert("a.example".into(), at(1));
    let coming = server.proven(address(1), "a.example");
    server.send("romeo@a.example", "1");
    let leaving = server.welcome("a.example");
    server.hear(leaving, "<stream:features/>");
    server.said_to(coming);
    server.servers.apply(Arc::new(Settings::new(Secret::new(b"secret"))), &Nothing);
    server.run();
    for key in [coming, leaving] {
        assert!(server.said_to(key).contains("host-gone") && server.gone.contains(&key));
    }
}

/// A domain calls nobody before it has a certificate, if these are the proof: DNS isn't asked
/// either.
#[test]
fn a_domain_without_a_certificate_calls_nobody() {
    let settings = || {
        let mut settings = Settings::new(Secret::new(b"secret"));
        settings.rules.exceptions = vec![(Pattern::read("old.example").expect("a pattern"), Policy::Dialback)];
        settings
    };
    let mut server = Server::with(Settings { uncertified: vec!["b.example".into()], ..settings() });
    server.send_from("romeo@b.example/x", "juliet@a.example", "1", "");
    assert_eq!(server.bounced, [("1".to_owned(), "remote-server-timeout".to_owned())]);
    assert!(server.looked_up.is_empty() && server.calls.is_empty() && server.servers.ways() == 0);
    // A service that has one, and a server that is believed by dialback.
    server.send_from("room@rooms.b.example/x", "juliet@a.example", "2", "");
    server.send_from("romeo@b.example/x", "juliet@old.example", "3", "");
    assert_eq!(server.looked_up, ["a.example", "old.example"]);
    // It comes with a reload.
    server.servers.apply(Arc::new(settings()), &Here);
    server.send_from("romeo@b.example/x", "juliet@c.example", "4", "");
    assert_eq!(server.looked_up.last().map(String::as_str), Some("c.example"));
    assert_eq!(server.bounced.len(), 1);
}

/// Returns settings with rules of its own for `rooms.b.example`, and dialback enough for others.
fn rooms_have(rules: Rules) -> Settings {
    let mut settings = Settings::new(Secret::new(b"secret"));
    settings.rules.policy = Policy::Dialback;
    settings.own = vec![Own { hosts: vec!["rooms.b.example".into()], rules }];
    settings
}

fn to_rooms(text: &str) -> String {
    text.replace("to='b.example'", "to='rooms.b.example'")
}

const RESULT: &str = "<db:result from='a.example' to='rooms.b.example'>0123</db:result>";
const TO_ROOMS: &str = "<message from='romeo@a.example' to='x@rooms.b.example'/>";
const TO_NEIGHBOUR: &str = "<message from='romeo@a.example' to='juliet@b.example'/>";

/// A host that doesn't federate refuses streams, keys and stanzas, also on streams that are for its
/// neighbour, and nothing of its own leaves; the neighbour notices nothing.
#[test]
fn a_host_that_does_not_federate_is_closed_whatever_its_neighbour_does() {
    let closed = || rooms_have(Rules { enabled: false, ..Rules::default() });
    let mut server = Server::with(closed());
    for nameless in [false, true] {
        let key = server.call(address(9)).expect("a place");
        let head = to_rooms(&header("a.example"));
        let said = server.hear(key, if nameless { head.replace(" from='a.example'", "") } else { head });
        assert!(said.contains("policy-violation") && server.gone.contains(&key), "{said}");
        assert!(!said.contains("<stream:features"), "{said}");
    }
    let key = server.proven(address(1), "a.example");
    let said = server.hear(key, RESULT);
    assert!(said.contains("type='error'") && said.contains("policy-violation"), "{said}");
    let question = "<db:verify from='a.example' to='rooms.b.example' id='1'>0123</db:verify>";
    let said = server.hear(key, question);
    assert!(said.contains("type='error'") && said.contains("policy-violation"), "{said}");
    assert_eq!(server.hear(key, TO_NEIGHBOUR), "");
    let said = server.hear(key, TO_ROOMS);
    assert!(said.contains("policy-violation") && server.gone.contains(&key), "{said}");
    assert_eq!(server.delivered, [("romeo@a.example".to_owned(), "juliet@b.example".to_owned())]);
    server.send_from("room@rooms.b.example/x", "romeo@a.example", "1", "");
    assert_eq!(server.bounced, [("1".to_owned(), "not-allowed".to_owned())]);
    assert!(server.looked_up.is_empty());
    server.send_from("juliet@b.example/x", "romeo@a.example", "2", "");
    assert_eq!(server.looked_up, ["a.example"]);
}

/// A reload closes the streams of the host, and leaves those of its neighbour.
#[test]
fn a_host_that_stops_to_federate_ends_its_own_streams() {
    let mut server = Server::with(rooms_have(Rules::default()));
    let of_neighbour = server.proven(address(1), "a.example");
    let key = server.call(address(2)).expect("a place");
    server.hear(key, to_rooms(&header("a.example")));
    server.hear(key, STARTTLS);
    server.secure(key, Ok(Names::of(&["a.example"])));
    server.hear(key, to_rooms(&header("a.example")));
    assert!(server.hear(key, EXTERNAL).contains("<success"));
    server.servers.apply(Arc::new(rooms_have(Rules { enabled: false, ..Rules::default() })), &Here);
    server.run();
    assert!(server.gone.contains(&key) && !server.gone.contains(&of_neighbour));
    assert_eq!(server.hear(of_neighbour, TO_NEIGHBOUR), "");
    assert_eq!(server.delivered.len(), 1);
}

/// A proof that satisfies one host is none for a stricter one, on the same stream.
#[test]
fn a_host_with_a_stricter_policy_takes_nothing_on_a_weaker_proof() {
    let mut server = Server::with(rooms_have(Rules::default()));
    server.dns.insert("a.example".into(), at(1));
    let key = server.secured(address(1), "a.example", Err(Untrusted::UnknownIssuer));
    let said = server.hear(key, RESULT);
    assert!(said.contains("type='error'") && said.contains("not-authorized"), "{said}");
    server.hear(key, RESULT.replace("rooms.", ""));
    let owner = server.answer();
    for bytes in [reply("a.example", "1"), TLS_FEATURE.to_owned(), PROCEED.to_owned()] {
        server.hear(owner, bytes);
    }
    server.secure(owner, Err(Untrusted::UnknownIssuer));
    server.hear(owner, reply("a.example", "2"));
    let asked = server.hear(owner, "<stream:features/>");
    let id = asked.split(" id='").nth(1).and_then(|rest| rest.split('\'').next()).expect("an id");
    server.hear(owner, format!("<db:verify from='a.example' to='b.example' id='{id}' type='valid'/>"));
    assert!(server.said_to(key).contains("type='valid'"));
    server.hear(key, TO_NEIGHBOUR);
    assert_eq!(server.delivered.len(), 1);
    let said = server.hear(key, TO_ROOMS);
    assert!(said.contains("policy-violation") && server.gone.contains(&key), "{said}");
    assert_eq!(server.delivered.len(), 1);
}

#[test]
fn the_secret_is_never_shown() {
    let secret = "0123456789abcdef0123456789abcdef";
    let shown = format!("{:?}", Settings::new(Secret::new(secret.as_bytes())));
    assert!(shown.contains("Secret") && !shown.contains(secret), "{shown}");
    assert!(!shown.contains(&rookery_base::hex::encode(secret)) && !shown.contains("[48, 49"), "{shown}");
}
