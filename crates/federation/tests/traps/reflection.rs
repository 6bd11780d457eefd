//! The work that others make this server do, for them and against third parties.

use rookery_federation::inbound::{MOST_PENDING, MOST_REQUESTS};
use rookery_federation::{Address, NotFound, PeerPolicy};
use rookery_stream::tls::trust::Untrusted;

use crate::hostile::{HostileRig, address, at};
use crate::result;

#[test]
fn one_address_makes_few_connections_however_it_asks() {
    let mut server = HostileRig::new(PeerPolicy::Dialback);
    let keys: Vec<_> = (0..10)
        .map(|stream| {
            let key = server.call_with_tls(address(1), "x.example", Err(Untrusted::Missing));
            for number in 0..MOST_PENDING {
                server.hear(key, result(&format!("x{stream}-{number}.example")));
            }
            key
        })
        .collect();
    assert_eq!(server.looked_up.len(), 20, "of the address, not of each stream");
    let other = server.call_with_tls(address(2), "y.example", Err(Untrusted::Missing));
    server.hear(other, result("y.example"));
    assert_eq!(server.looked_up.len(), 21, "others are asked for");
    for key in keys {
        assert!(!server.gone.contains(&key));
    }
}

#[test]
fn one_domain_is_asked_over_one_connection_for_all() {
    let mut server = HostileRig::new(PeerPolicy::Dialback);
    server.dns.insert("victim.example".into(), at(99));
    for number in 0..200 {
        let key = server.call_with_tls(address(number), "victim.example", Err(Untrusted::Missing));
        server.hear(key, result("victim.example"));
    }
    assert_eq!((server.looked_up.len(), server.calls.len()), (1, 1));
}

#[test]
fn a_stranger_s_domain_has_few_addresses_that_are_tried() {
    let mut server = HostileRig::new(PeerPolicy::Dialback);
    let victims = (0..100).map(|number| Address::new(address(number), false)).collect();
    server.dns.insert("a.example".into(), Ok(victims));
    let key = server.call_with_tls(address(1), "a.example", Err(Untrusted::Missing));
    server.hear(key, result("a.example"));
    server.advance(25_000);
    assert_eq!(server.calls.len(), 8);
}

#[test]
fn questions_of_strangers_never_take_the_place_of_stanzas() {
    let mut server = HostileRig::new(PeerPolicy::Dialback);
    for number in 0..=255 {
        let key = server.call_with_tls(address(number), "x.example", Err(Untrusted::Missing));
        for name in 0..4 {
            server.hear(key, result(&format!("x{number}-{name}.example")));
        }
    }
    assert_eq!(server.looked_up.len(), 250, "a quarter of all that may be looked for");
    server.send("romeo@c.example", "1");
    assert_eq!((server.looked_up.len(), &server.bounced[..]), (251, &[][..]));
}

#[test]
fn keys_are_verified_without_memory_and_not_for_ever() {
    let mut server = HostileRig::new(PeerPolicy::Dialback);
    let key = server.call_with_tls(address(1), "a.example", Err(Untrusted::Missing));
    let ask = "<db:verify from='a.example' to='b.example' id='1'>key</db:verify>";
    for _ in 0..MOST_REQUESTS {
        assert!(server.hear(key, ask).contains("type='invalid'"));
    }
    assert!(server.hear(key, ask).contains("policy-violation"));
    assert_eq!((server.looked_up.len(), server.calls.len()), (0, 0));
}

#[test]
fn failed_names_of_strangers_are_forgotten() {
    let mut server = HostileRig::new(PeerPolicy::Dialback);
    for round in 0..300_u32 {
        let key = server.call_with_tls(address((round % 200) as u8), "x.example", Err(Untrusted::Missing));
        let name = format!("x{round}.example");
        server.dns.insert(name.clone(), Err(NotFound::NoServer));
        assert!(server.hear(key, result(&name)).contains("remote-server-not-found"));
        server.servers.closed(key, "closed");
        server.advance(1_000);
    }
    server.advance(10_000);
    assert_eq!(server.servers.len(), 0);
    assert_eq!(server.servers.ways(), 0);
}

#[test]
fn what_is_no_element_of_a_stream_ends_it_before_it_is_built() {
    let children = "<x/>".repeat(2_000);
    for element in [
        format!("<db:result from='a.example' to='b.example'>{children}</db:result>"),
        format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='EXTERNAL'>{children}</auth>"),
        format!("<other xmlns='urn:other'>{children}</other>"),
    ] {
        let mut server = HostileRig::new(PeerPolicy::Dialback);
        let key = server.call_with_tls(address(1), "a.example", Err(Untrusted::Missing));
        server.hear(key, element);
        assert!(server.gone.contains(&key));
    }
}
