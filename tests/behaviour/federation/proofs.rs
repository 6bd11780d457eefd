//! Proofs of a server's identity: certificates, signed DNS records about them, and dialback (RFC
//! 6120 §13.7, RFC 7673, XEP-0220).

use rookery_federation::{Address, FederationSettings, PeerPolicy};
use rookery_stream::tls::Identity;
use rookery_stream::tls::certificate::{Authority, IssuedCertificate, self_signed};
use rookery_stream::tls::peer::PeerSettings;
use rookery_stream::tls::trust::Trust;
use rookery_stream::tls::trust::tlsa::{Association, Associations};
use rookery_testkit::client::xml;
use rookery_testkit::{Config, Internet, Server};

use super::{chat, expect_talk, names, plain, server, start};

/// Returns a server of a domain and its rooms, with a certificate of the test's.
pub(super) fn server_with(
    internet: &Internet,
    domain: &str,
    issued: &IssuedCertificate,
    change: impl FnOnce(&mut FederationSettings),
) -> Server {
    start(domain, Config::default(), internet.meeting_with(issued, &names(domain), change))
}

pub(super) fn own_certificate(domain: &str) -> IssuedCertificate {
    let made = self_signed(&[domain.to_owned()], 1_700_000_000).expect("a certificate");
    IssuedCertificate { chain: made.certificate, key: made.key }
}

#[test]
fn a_server_without_a_good_certificate_gets_and_gives_nothing() {
    let internet = Internet::default();
    let other = Authority::new(1_700_000_000).expect("an authority");
    let foreign = other.issue(&["b.example".to_owned()], 1_700_000_000).expect("a certificate");
    for issued in [own_certificate("b.example"), foreign] {
        let internet_of_two = internet.clone();
        let a = server(&internet_of_two, "a.example", plain);
        let b = server_with(&internet_of_two, "b.example", &issued, |settings| {
            settings.rules.policy = PeerPolicy::Dialback
        });
        let mut romeo = a.online("romeo@a.example/orchard");
        let mut juliet = b.online("juliet@b.example/balcony");
        chat(&mut romeo, "juliet@b.example/balcony", "secret");
        let error = romeo.expect_element();
        assert!(xml(&error).contains("remote-server-timeout"));
        juliet.expect_nothing();
        chat(&mut juliet, "romeo@a.example/orchard", "from nobody");
        let error = juliet.expect_element();
        assert!(xml(&error).contains("remote-server-timeout"));
        romeo.expect_nothing();
    }
}

/// Lets DNS say, signed, that this is the certificate of a domain's server (DANE-EE).
fn associate(internet: &Internet, domain: &str, issued: &IssuedCertificate) {
    let der = Trust::read_pem(issued.chain.as_bytes()).expect("a certificate");
    let record = Association::read(3, 0, 0, &der[0]);
    let tlsa = Associations::new(domain, &format!("xmpp.{domain}"), 5269, record).map(Into::into);
    let found = internet.says(domain).expect("an address");
    internet.say(domain, Ok(found.into_iter().map(|address| Address { tlsa: tlsa.clone(), ..address }).collect()));
}

/// RFC 7673 §4: the record is proof, and where there is one no other proof is.
#[test]
fn what_a_signed_zone_says_of_a_certificate_is_proof() {
    let internet = Internet::default();
    let own = own_certificate("b.example");
    let a = server(&internet, "a.example", plain);
    let b = server_with(&internet, "b.example", &own, |settings| settings.rules.policy = PeerPolicy::Dialback);
    associate(&internet, "b.example", &own);
    expect_talk(&a, &b);
}

/// The same for a server that calls: it has no other proof, and nobody is called to find that out.
#[test]
fn who_calls_is_proven_by_what_a_signed_zone_says() {
    for (is_believed, is_named) in [(true, true), (false, true), (true, false)] {
        let internet = Internet::default();
        let (own, other) = (own_certificate("b.example"), own_certificate("b.example"));
        let a = server(&internet, "a.example", |settings| settings.dane = is_believed);
        let b = server_with(&internet, "b.example", &own, |settings| settings.rules.policy = PeerPolicy::Dialback);
        associate(&internet, "b.example", if is_named { &own } else { &other });
        let mut romeo = a.online("romeo@a.example/orchard");
        let mut juliet = b.online("juliet@b.example/balcony");
        chat(&mut juliet, "romeo@a.example/orchard", "hello");
        if is_believed && is_named {
            romeo.expect_message("juliet@b.example/balcony", "hello");
        } else {
            assert!(xml(&juliet.expect_element()).contains("remote-server-timeout"));
            romeo.expect_nothing();
        }
        assert_eq!(internet.calls(), 1, "believed: {is_believed}, named: {is_named}");
    }
}

#[test]
fn a_certificate_that_a_signed_zone_does_not_name_ends_it_whatever_else_would_do() {
    for policy in [PeerPolicy::Certificate, PeerPolicy::Dialback, PeerPolicy::Plain] {
        let internet = Internet::default();
        let a = server(&internet, "a.example", |settings| settings.rules.policy = policy);
        // Its certificate is of an authority that everybody trusts.
        let b = server(&internet, "b.example", |settings| settings.rules.policy = policy);
        associate(&internet, "b.example", &own_certificate("b.example"));
        let mut romeo = a.online("romeo@a.example/orchard");
        let mut juliet = b.online("juliet@b.example/balcony");
        chat(&mut romeo, "juliet@b.example/balcony", "secret");
        assert!(xml(&romeo.expect_element()).contains("remote-server-timeout"), "{policy:?}");
        juliet.expect_nothing();
    }
}

/// XEP-0487: the file that leads to a server may name another host for TLS. The certificate must be
/// for the domain all the same.
#[test]
fn the_name_that_is_asked_for_proves_no_domain() {
    for (asked, is_proven) in [(None, true), (Some("b.example"), true), (Some("web.example"), false)] {
        let internet = Internet::default();
        let a = server(&internet, "a.example", plain);
        let mut meeting = internet.meeting(&names("b.example"), plain);
        let [own, web] = [names("b.example"), names("web.example")].map(|names| {
            let issued = internet.issue(&names);
            Identity::from_pem(&names, issued.chain.as_bytes(), issued.key.as_bytes()).expect("an identity")
        });
        let tls = PeerSettings::new(&[own, web], &names("b.example")).expect("TLS settings");
        (meeting.federation.tls, meeting.direct_tls) = (tls.into(), true);
        let b = start("b.example", Config::default(), meeting);
        let found = internet.says("b.example").expect("an address");
        let named = found.into_iter().map(|address| Address { sni: asked.map(Into::into), ..address });
        internet.say("b.example", Ok(named.collect()));
        let mut romeo = a.online("romeo@a.example/orchard");
        let mut juliet = b.online("juliet@b.example/balcony");
        chat(&mut romeo, "juliet@b.example/balcony", "hello");
        if is_proven {
            juliet.expect_message("romeo@a.example/orchard", "hello");
        } else {
            assert!(xml(&romeo.expect_element()).contains("remote-server-timeout"));
            juliet.expect_nothing();
        }
    }
}

#[test]
fn dialback_serves_where_the_operator_allows_it() {
    let internet = Internet::default();
    let dialback = |settings: &mut FederationSettings| settings.rules.policy = PeerPolicy::Dialback;
    let a = server_with(&internet, "a.example", &own_certificate("a.example"), dialback);
    let b = server_with(&internet, "b.example", &own_certificate("b.example"), dialback);
    expect_talk(&a, &b);
}
