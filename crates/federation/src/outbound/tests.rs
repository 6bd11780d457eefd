//! Tests a hostile server that is called.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rookery_stream::tls::trust::Trust;
use rookery_stream::tls::trust::tlsa::{Association, Associations};

use super::*;
use crate::dialback::Secret;
use crate::settings::PeerPolicy;

struct OutboundCall {
    machine: Outbound,
    scanner: Scanner,
    events: Vec<String>,
}

impl OutboundCall {
    fn new(policy: PeerPolicy, purpose: StreamPurpose) -> (Self, String) {
        let mut settings = FederationSettings::new(Secret::new(b"secret"));
        settings.rules.policy = policy;
        let mut machine = Outbound::new(Arc::new(settings), "a.example", "b.example", purpose);
        let mut out = Vec::new();
        machine.start(false, &mut out);
        (Self { machine, scanner: Scanner::new(), events: Vec::new() }, String::from_utf8(out).unwrap())
    }

    fn send(&mut self, bytes: &str) -> String {
        let (mut rest, mut out) = (bytes.as_bytes(), Vec::new());
        loop {
            let read = self.machine.read(rest, &mut self.scanner, &OutboundHosts, &mut out);
            rest = &rest[read.consumed..];
            match read.event {
                None => return String::from_utf8(out).unwrap(),
                Some(event) => self.events.push(format!("{event:?}")),
            }
        }
    }

    fn secure(policy: PeerPolicy, shown: Result<Names, Untrusted>) -> (Self, String) {
        let (mut call, _) = Self::new(policy, StreamPurpose::Stanzas);
        assert!(call.send(&format!("{HEADER}{STARTTLS}")).contains("<starttls"));
        call.send(PROCEED);
        let mut out = Vec::new();
        let event = call.machine.secured(shown, &mut out);
        call.events.extend(event.map(|event| format!("{event:?}")));
        (call, String::from_utf8(out).unwrap())
    }
}

struct OutboundHosts;

impl Ours for OutboundHosts {
    fn is_ours(&self, host: &str) -> bool {
        matches!(host, "a.example" | "rooms.a.example")
    }
}

const HEADER: &str = "<stream:stream xmlns='jabber:server' xmlns:stream='http://etherx.jabber.org/streams' \
                      xmlns:db='jabber:server:dialback' from='b.example' to='a.example' id='x1' version='1.0'>";
const STARTTLS: &str = "<stream:features><starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/></stream:features>";
const PROCEED: &str = "<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>";
const EXTERNAL: &str = "<stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>\
                        <mechanism>EXTERNAL</mechanism></mechanisms></stream:features>";
const DIALBACK: &str = "<stream:features><dialback xmlns='urn:xmpp:features:dialback'/></stream:features>";
const SUCCESS: &str = "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>";

#[test]
fn it_is_ready_behind_the_features_that_follow_sasl() {
    let (mut call, _) = OutboundCall::secure(PeerPolicy::Certificate, Ok(Names::of(&["b.example"])));
    assert!(call.send(&format!("{HEADER}{EXTERNAL}")).contains(&STANDARD.encode("a.example")));
    call.send(SUCCESS);
    assert!(!call.machine.is_ready(), "what waits must not be overtaken");
    call.send(&format!("{HEADER}<stream:features/>"));
    assert_eq!(call.events, ["StartTls", "Ready"]);
}

#[test]
fn success_says_nothing_about_who_says_it() {
    for shown in [Err(Untrusted::Expired), Err(Untrusted::UnknownIssuer), Ok(Names::of(&["c.example"]))] {
        let (call, said) = OutboundCall::secure(PeerPolicy::Certificate, shown);
        assert_eq!(said, "");
        assert_eq!(call.events, ["StartTls", "End"]);
    }
}

#[test]
fn tls_cannot_be_taken_away() {
    let cases = [
        format!("{HEADER}{EXTERNAL}"),
        format!("{HEADER}{DIALBACK}"),
        format!("{HEADER}<stream:features/>"),
        format!("{HEADER}<stream:features><x xmlns='urn:x'/></stream:features>{EXTERNAL}"),
        HEADER.replace(" version='1.0'", ""),
        format!("{HEADER}{STARTTLS}<failure xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"),
    ];
    for bytes in cases {
        for policy in [PeerPolicy::Certificate, PeerPolicy::Dialback] {
            let (mut call, _) = OutboundCall::new(policy, StreamPurpose::Stanzas);
            let said = call.send(&bytes);
            assert!(!said.contains("<auth") && !said.contains("<db:"), "{said}");
            assert_eq!(call.events, ["End"], "{bytes}");
        }
    }
}

/// RFC 7673 §3: if DNS names certificates, the server has TLS.
#[test]
fn tls_cannot_be_taken_away_where_dns_names_certificates() {
    for bytes in [format!("{HEADER}{DIALBACK}"), HEADER.replace(" version='1.0'", "")] {
        for purpose in [StreamPurpose::Stanzas, StreamPurpose::Questions] {
            let (mut call, _) = OutboundCall::new(PeerPolicy::Plain, purpose);
            call.machine = call.machine.require_tls();
            assert!(!call.send(&bytes).contains("<db:"));
            assert_eq!(call.events, ["End"], "{bytes}");
        }
    }
}

#[test]
fn a_certificate_that_dns_names_is_proof() {
    let record = Association::read(3, 0, 0, b"a certificate");
    let associations = Associations::new("b.example", "xmpp.b.example", 5269, record).expect("a record");
    let shown = Trust::new([]).judge_associated(&[b"a certificate"], &associations, 0);
    let (mut call, _) = OutboundCall::secure(PeerPolicy::Certificate, shown);
    call.send(&format!("{HEADER}{EXTERNAL}{SUCCESS}{HEADER}<stream:features/>"));
    assert_eq!((call.machine.is_ready(), call.machine.security()), (true, "TLS, DANE"));
}

#[test]
fn a_certificate_that_dns_does_not_name_ends_it_under_any_policy() {
    for policy in [PeerPolicy::Certificate, PeerPolicy::Dialback, PeerPolicy::Plain] {
        let (call, said) =
            OutboundCall::secure(policy, Err(Untrusted::Unassociated("_5269._tcp.b.example.".to_owned())));
        assert_eq!((said.as_str(), call.events.join(" ").as_str()), ("", "StartTls End"), "{policy:?}");
        assert!(call.machine.cause().contains("TLSA records of _5269._tcp.b.example."), "{}", call.machine.cause());
    }
}

#[test]
fn what_comes_with_proceed_is_not_processed() {
    let (mut call, _) = OutboundCall::new(PeerPolicy::Dialback, StreamPurpose::Stanzas);
    call.send(&format!("{HEADER}{STARTTLS}"));
    let said = call.send(&format!("{PROCEED}{HEADER}{DIALBACK}"));
    assert_eq!(said, "");
    assert_eq!(call.events, ["StartTls"]);
}

#[test]
fn unasked_answers_do_not_make_it_ready() {
    let valid = "<db:result from='b.example' to='a.example' type='valid'/>";
    let verify = "<db:verify from='b.example' to='a.example' id='x1' type='valid'/>";
    let (mut call, _) = OutboundCall::new(PeerPolicy::Dialback, StreamPurpose::Stanzas);
    call.send(&format!("{HEADER}{valid}{verify}"));
    let (mut tls, _) = OutboundCall::secure(PeerPolicy::Dialback, Err(Untrusted::Missing));
    tls.send(&format!("{HEADER}{valid}{verify}{SUCCESS}"));
    assert!(!call.machine.is_ready() && !tls.machine.is_ready());
    assert!(tls.send(DIALBACK).starts_with("<db:result from='a.example' to='b.example'>"));
    tls.send("<db:result from='c.example' to='a.example' type='valid'/><db:result from='b.example' to='c.example' type='valid'/>");
    assert!(!tls.machine.is_ready(), "about another pair");
    tls.send(valid);
    assert!(tls.machine.is_ready());
}

#[test]
fn dialback_follows_where_sasl_fails() {
    let (mut call, _) = OutboundCall::secure(PeerPolicy::Certificate, Ok(Names::of(&["b.example"])));
    let failure = "<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><not-authorized/></failure>";
    let said = call.send(&format!("{HEADER}{EXTERNAL}{failure}"));
    assert!(said.contains("<auth") && said.contains("<db:result"), "{said}");
    call.send("<db:result from='b.example' to='a.example' type='invalid'/>");
    assert!(call.machine.has_ended());
    assert_eq!(call.machine.cause(), "it couldn't confirm our identity by dialback");
}

#[test]
fn odd_headers_are_refused() {
    for header in [
        HEADER.replace("b.example", "c.example"),
        HEADER.replace("id='x1' ", ""),
        HEADER.replace("jabber:server'", "jabber:client'"),
    ] {
        let (mut call, _) = OutboundCall::new(PeerPolicy::Plain, StreamPurpose::Stanzas);
        call.send(&header);
        assert_eq!(call.events, ["End"], "{header}");
    }
}

#[test]
fn stanzas_of_the_called_server_are_dropped() {
    let (mut call, _) = OutboundCall::secure(PeerPolicy::Certificate, Ok(Names::of(&["b.example"])));
    call.send(&format!("{HEADER}{EXTERNAL}{SUCCESS}{HEADER}<stream:features/>"));
    assert_eq!(call.send("<message from='x@b.example' to='y@a.example'/>"), "");
    assert!(call.machine.is_ready());
}
