//! Tests callers whose certificate DNS names (DANE), and impostors.

use std::sync::Arc;

use rookery_federation::{Address, ConnectionKey, FederationSettings, Found, NotFound, PeerPolicy, Secret};
use rookery_stream::tls::trust::tlsa::{Association, Associations, Fingerprints};
use rookery_stream::tls::trust::{Names, Untrusted};

use crate::hostile::{self, HostileRig, STARTTLS, address, at, header};
use crate::{MESSAGE, result};

fn server(policy: PeerPolicy) -> HostileRig {
    let mut settings = FederationSettings::new(Secret::new(b"secret"));
    (settings.rules.policy, settings.dane) = (policy, true);
    HostileRig::with(settings)
}

/// Lets DNS name a certificate, in a record of a use, for the server of a domain.
fn name_certificate(domain: &str, usage: u8, certificate: &[u8]) -> Found {
    let records = Association::read(usage, 0, 0, certificate);
    let tlsa = Associations::new(domain, "xmpp.host.example", 5269, records).map(Arc::new);
    Ok(vec![Address { tlsa, ..Address::new(address(1), false) }])
}

/// Connects as a domain, with a certificate that is shown and judged as given.
fn caller(
    server: &mut HostileRig,
    domain: &str,
    certificate: &[u8],
    judged: Result<Names, Untrusted>,
) -> ConnectionKey {
    let key = server.call(address(9)).expect("a place");
    server.hear(key, header(domain));
    server.hear(key, STARTTLS);
    server.servers.shown(key, Fingerprints::of(certificate).expect("digests"));
    server.secure(key, judged);
    server.hear(key, header(domain));
    key
}

fn no_names() -> Result<Names, Untrusted> {
    Err(Untrusted::UnknownIssuer)
}

#[test]
fn a_caller_proves_itself_by_the_certificate_that_dns_names() {
    for policy in [PeerPolicy::Certificate, PeerPolicy::Dialback, PeerPolicy::Plain] {
        // Certified only for its host, or for no name.
        for judged in [no_names(), Ok(Names::of(&["xmpp.host.example"]))] {
            let mut server = server(policy);
            server.dns.insert("a.example".into(), name_certificate("a.example", 3, b"its certificate"));
            let key = caller(&mut server, "a.example", b"its certificate", judged);
            assert!(server.hear(key, result("a.example")).contains("type='valid'"), "{policy:?}");
            server.hear(key, MESSAGE);
            assert_eq!(server.delivered.len(), 1, "{policy:?}");
            assert_eq!(server.calls.len(), 0, "nobody is called");
            // It proves that domain, and no other.
            assert!(server.hear(key, MESSAGE.replace("a.example", "x.a.example")).contains("invalid-from"));
        }
    }
}

#[test]
fn what_dns_does_not_name_is_refused_and_nobody_is_called() {
    let others = [
        ("another certificate", name_certificate("a.example", 3, b"another")),
        ("an authority", name_certificate("a.example", 2, b"its certificate")),
        ("one that an authority has to stand for", name_certificate("a.example", 1, b"its certificate")),
        ("no certificate", at(1)),
        ("no server", Err(NotFound::NoServer)),
        ("nothing", Err(NotFound::NoAnswer)),
    ];
    for (what, found) in others {
        let mut server = server(PeerPolicy::Certificate);
        server.dns.insert("a.example".into(), found);
        let key = caller(&mut server, "a.example", b"its certificate", no_names());
        let said = server.hear(key, result("a.example"));
        assert!(said.contains("type='error'"), "{what}: {said}");
        assert!(server.hear(key, MESSAGE).contains("not-authorized"), "{what}");
        assert_eq!((server.delivered.len(), server.calls.len()), (0, 0), "{what}");
    }
}

/// DNS that isn't trusted isn't even queried if certificates are required.
#[test]
fn dns_is_asked_where_it_is_believed_alone() {
    let mut server = HostileRig::new(PeerPolicy::Certificate);
    server.dns.insert("a.example".into(), name_certificate("a.example", 3, b"its certificate"));
    let key = caller(&mut server, "a.example", b"its certificate", no_names());
    assert!(server.hear(key, result("a.example")).contains("not-authorized"));
    assert_eq!(server.looked_up, [""; 0]);
    // A caller without a certificate isn't looked up either.
    let mut server = self::server(PeerPolicy::Certificate);
    let key = server.call_with_tls(address(1), "a.example", Err(Untrusted::Missing));
    assert!(server.hear(key, result("a.example")).contains("not-authorized"));
    assert_eq!(server.looked_up, [""; 0]);
}

/// If dialback is enough, the key is verified when DNS names no certificate, or another one.
#[test]
fn a_key_is_verified_where_that_is_enough() {
    for found in [at(1), name_certificate("a.example", 3, b"another")] {
        let mut server = server(PeerPolicy::Dialback);
        server.dns.insert("a.example".into(), found);
        let key = caller(&mut server, "a.example", b"its certificate", no_names());
        server.hear(key, result("a.example"));
        assert_eq!((server.looked_up.len(), server.calls.len()), (1, 1));
    }
}

/// A key that is verified while the operator starts to require certificates proves nothing any
/// more.
#[test]
fn no_key_makes_up_for_a_certificate() {
    let mut server = server(PeerPolicy::Dialback);
    server.dns.insert("a.example".into(), at(11));
    let key = caller(&mut server, "a.example", b"its certificate", no_names());
    server.hear(key, result("a.example"));
    let authority = server.answer();
    for bytes in [hostile::reply("a.example", "1"), hostile::TLS_FEATURE.into(), hostile::PROCEED.into()] {
        server.hear(authority, bytes);
    }
    server.secure(authority, Ok(Names::of(&["a.example"])));
    server.hear(authority, hostile::reply("a.example", "2"));
    let asked = server.hear(authority, "<stream:features/>");
    let id = asked.split(" id='").nth(1).expect("a question").split('\'').next().expect("an id").to_owned();
    let mut settings = FederationSettings::new(Secret::new(b"secret"));
    settings.dane = true;
    server.reload(settings);
    server.said_to(key);
    server.hear(authority, format!("<db:verify from='a.example' to='b.example' id='{id}' type='valid'/>"));
    let said = server.said_to(key);
    assert!(!said.contains("type='valid'"), "{said}");
    server.hear(key, MESSAGE);
    assert_eq!(server.delivered.len(), 0);
}

/// Several domains of one server share a certificate: each is proven by its own zone, and the first
/// stays proven.
#[test]
fn each_domain_of_a_caller_is_named_by_its_own_zone() {
    let mut server = server(PeerPolicy::Certificate);
    server.dns.insert("a.example".into(), name_certificate("a.example", 3, b"its certificate"));
    server.dns.insert("rooms.a.example".into(), name_certificate("rooms.a.example", 3, b"its certificate"));
    server.dns.insert("c.example".into(), name_certificate("c.example", 3, b"another"));
    let key = caller(&mut server, "a.example", b"its certificate", no_names());
    for (domain, is_proven) in [("a.example", true), ("rooms.a.example", true), ("c.example", false)] {
        assert_eq!(server.hear(key, result(domain)).contains("type='valid'"), is_proven, "{domain}");
    }
    for domain in ["a.example", "rooms.a.example"] {
        assert_eq!(server.hear(key, MESSAGE.replace("a.example", domain)), "", "{domain}");
    }
    assert_eq!(server.delivered.len(), 2);
    assert!(server.hear(key, MESSAGE.replace("a.example", "c.example")).contains("invalid-from"));
}

/// An answer of DNS about a certificate holds for a day at most, whatever the stream does.
#[test]
fn what_dns_has_named_is_asked_for_again() {
    let mut server = server(PeerPolicy::Certificate);
    server.dns.insert("a.example".into(), name_certificate("a.example", 3, b"its certificate"));
    let key = caller(&mut server, "a.example", b"its certificate", no_names());
    server.hear(key, result("a.example"));
    for _ in 0..23 * 6 {
        server.advance(600_000);
        assert_eq!(server.hear(key, MESSAGE), "");
    }
    for _ in 0..2 * 6 {
        server.advance(600_000);
        server.hear(key, MESSAGE);
    }
    assert!(server.gone.contains(&key));
}

/// One address can have as many domains looked up as with dialback, and no connection is made.
#[test]
fn strangers_have_few_domains_looked_up() {
    let mut server = server(PeerPolicy::Certificate);
    for stream in 0..10 {
        let key = caller(&mut server, "x.example", b"a certificate", no_names());
        for number in 0..10 {
            server.hear(key, result(&format!("x{stream}-{number}.example")));
        }
    }
    assert_eq!((server.looked_up.len(), server.calls.len()), (20, 0));
}
