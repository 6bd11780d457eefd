//! Tests a hostile peer, element by element.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::dialback::Secret;

struct InboundHosts;

impl Ours for InboundHosts {
    fn is_ours(&self, host: &str) -> bool {
        matches!(host, "b.example" | "rooms.b.example")
    }
}

struct InboundPeer {
    machine: Inbound,
    scanner: Scanner,
    said: String,
    delivered: Vec<(String, String)>,
    events: Vec<String>,
}

const HEADER: &str = "<stream:stream xmlns='jabber:server' xmlns:stream='http://etherx.jabber.org/streams' \
                      xmlns:db='jabber:server:dialback' from='a.example' to='b.example' version='1.0'>";
const STARTTLS: &str = "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>";
const EXTERNAL: &str = "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='EXTERNAL'>=</auth>";

impl InboundPeer {
    fn new(policy: PeerPolicy) -> Self {
        let mut settings = FederationSettings::new(Secret::new(b"b's secret"));
        settings.rules.policy = policy;
        Self {
            machine: Inbound::new(Arc::new(settings), false),
            scanner: Scanner::new(),
            said: String::new(),
            delivered: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Sends bytes, and returns the reply.
    fn send(&mut self, bytes: &str) -> String {
        let mut rest = bytes.as_bytes();
        let mut out = Vec::new();
        loop {
            let read = self.machine.read(rest, &mut self.scanner, &InboundHosts, &mut out);
            rest = &rest[read.consumed..];
            match read.event {
                None => break,
                Some(InboundEvent::Stanza(packet, to, _)) => {
                    self.delivered.push((packet.sender().unwrap().to_string(), to.to_string()));
                }
                Some(InboundEvent::Verify(question)) if question.is_certified => {
                    assert!(self.machine.verified(&question.from, &question.to, &Ok(true), &mut out));
                }
                Some(event) => self.events.push(format!("{event:?}")),
            }
        }
        assert!(rest.len() < 10_000, "input is bounded");
        let said = String::from_utf8(out).unwrap();
        self.said += &said;
        said
    }

    fn secure(shown: Result<Names, Untrusted>, policy: PeerPolicy) -> Self {
        let mut peer = Self::new(policy);
        peer.send(HEADER);
        peer.send(STARTTLS);
        peer.machine.secured(shown);
        peer
    }

    fn prove() -> Self {
        let mut peer = Self::secure(Ok(Names::of(&["a.example"])), PeerPolicy::Certificate);
        peer.send(HEADER);
        assert!(peer.send(EXTERNAL).contains("<success"));
        peer.send(HEADER);
        peer
    }
}

fn ids(said: &str) -> Vec<&str> {
    said.split(" id='").skip(1).map(|rest| &rest[..32]).collect()
}

#[test]
fn a_certificate_for_the_domain_is_enough() {
    let mut peer = InboundPeer::prove();
    peer.send("<message from='romeo@a.example/x' to='juliet@b.example'><body>hi</body></message>");
    peer.send("<presence from='romeo@a.example/x' to='room@rooms.b.example/nick'/>");
    assert_eq!(peer.delivered.len(), 2);
    let ids = ids(&peer.said);
    assert_eq!(ids.len(), 3);
    assert!(ids[0] != ids[1] && ids[1] != ids[2], "each header has an id of its own");
}

#[test]
fn nothing_authenticates_without_tls() {
    let mut peer = InboundPeer::new(PeerPolicy::Certificate);
    let said = peer.send(HEADER);
    assert!(said.contains("<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'><required/></starttls>"), "{said}");
    assert!(!said.contains("EXTERNAL") && !said.contains("urn:xmpp:features:dialback"), "{said}");
    assert!(peer.send(EXTERNAL).contains("not-authorized"));
    assert!(peer.send("<db:result from='a.example' to='b.example'>k</db:result>").contains("policy-violation"));
    assert!(peer.send("<message from='a@a.example' to='b@b.example'/>").contains("not-authorized"));
    assert!(peer.machine.has_ended());
}

#[test]
fn plaintext_behind_starttls_is_never_processed() {
    let mut peer = InboundPeer::new(PeerPolicy::Dialback);
    let all = format!("{HEADER}{STARTTLS}<db:result from='a.example' to='b.example'>k</db:result>");
    assert!(peer.send(&all).contains("<failure"));
    assert!(peer.machine.has_ended());
    let mut peer = InboundPeer::new(PeerPolicy::Dialback);
    peer.send(&format!("{HEADER}{STARTTLS}\n"));
    peer.send("<db:result from='a.example' to='b.example'>k</db:result>");
    assert!(peer.machine.has_ended(), "also in another write");
}

#[test]
fn external_is_for_certificates_of_the_domain_alone() {
    let cases = [
        Err(Untrusted::UnknownIssuer),
        Err(Untrusted::Missing),
        Err(Untrusted::Expired),
        Ok(Names::of(&["b.a.example", "*.a.example", "example", "xa.example"])),
    ];
    for shown in cases {
        let mut peer = InboundPeer::secure(shown.clone(), PeerPolicy::Dialback);
        assert!(!peer.send(HEADER).contains("EXTERNAL"), "{shown:?}");
        assert!(peer.send(EXTERNAL).contains("<not-authorized/>"), "{shown:?}");
        assert!(!peer.machine.has_proven());
    }
    let mut peer = InboundPeer::secure(Ok(Names::of(&["a.example", "c.example"])), PeerPolicy::Certificate);
    assert!(peer.send(HEADER).contains("EXTERNAL"));
    // The certificate has this name, but it isn't the one in the header.
    let auth =
        |text: &str| format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='EXTERNAL'>{text}</auth>");
    assert!(peer.send(&auth(&STANDARD.encode("c.example"))).contains("<invalid-authzid/>"));
    assert!(peer.send(&auth("%%%")).contains("<incorrect-encoding/>"));
    let plain = "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGEAYg==</auth>";
    assert!(peer.send(plain).contains("<invalid-mechanism/>"));
    assert!(peer.send(&auth(&STANDARD.encode("A.Example"))).contains("<success"), "the same name in other letters");
}

#[test]
fn sasl_fails_a_few_times_only() {
    let mut peer = InboundPeer::secure(Err(Untrusted::Missing), PeerPolicy::Dialback);
    peer.send(HEADER);
    for _ in 0..4 {
        peer.send(EXTERNAL);
    }
    assert!(!peer.machine.has_ended());
    assert!(peer.send(EXTERNAL).contains("policy-violation"));
}

#[test]
fn names_never_change() {
    let other = |from: &str, to: &str| {
        format!(
            "<stream:stream xmlns='jabber:server' xmlns:stream='http://etherx.jabber.org/streams' \
             from='{from}' to='{to}' version='1.0'>"
        )
    };
    for (header, error) in [
        (other("c.example", "b.example"), "invalid-from"),
        (other("a.example", "rooms.b.example"), "improper-addressing"),
    ] {
        let mut peer = InboundPeer::secure(Ok(Names::of(&["a.example", "c.example"])), PeerPolicy::Certificate);
        assert!(peer.send(&header).contains(error));
        let mut peer = InboundPeer::secure(Ok(Names::of(&["a.example", "c.example"])), PeerPolicy::Certificate);
        peer.send(HEADER);
        peer.send(EXTERNAL);
        assert!(peer.send(&header).contains(error));
    }
    let mut peer = InboundPeer::secure(Ok(Names::of(&["a.example"])), PeerPolicy::Certificate);
    assert!(peer.send(&other("A.EXAMPLE.", "B.Example")).contains("EXTERNAL"), "the same names");
}

#[test]
fn headers_are_judged() {
    let header = |attributes: &str| {
        format!("<stream:stream xmlns='jabber:server' xmlns:stream='http://etherx.jabber.org/streams' {attributes}>")
    };
    let cases = [
        ("from='a.example' to='c.example' version='1.0'", "host-unknown"),
        ("from='a.example' version='1.0'", "improper-addressing"),
        ("from='b.example' to='b.example' version='1.0'", "invalid-from"),
        ("from='rooms.b.example' to='b.example' version='1.0'", "invalid-from"),
        ("from='u@a.example' to='b.example' version='1.0'", "improper-addressing"),
        ("from='a.example/r' to='b.example' version='1.0'", "improper-addressing"),
        ("from='a.example' to='b.example/r' version='1.0'", "improper-addressing"),
        ("from='a.example' to='b.example'", "unsupported-version"),
    ];
    for (attributes, error) in cases {
        let mut peer = InboundPeer::new(PeerPolicy::Certificate);
        let said = peer.send(&header(attributes));
        assert!(said.starts_with("<?xml") && said.contains(error) && said.ends_with("</stream:stream>"), "{said}");
    }
    let mut peer = InboundPeer::new(PeerPolicy::Certificate);
    assert!(peer.send(&HEADER.replace("jabber:server'", "jabber:client'")).contains("invalid-namespace"));
}

#[test]
fn stanzas_come_from_proven_domains_and_go_to_ours() {
    let cases = [
        ("juliet@b.example", "juliet@b.example", "invalid-from"),
        ("room@rooms.b.example/nick", "juliet@b.example", "invalid-from"),
        ("b.example", "juliet@b.example", "invalid-from"),
        ("romeo@x.a.example", "juliet@b.example", "invalid-from"),
        ("romeo@example", "juliet@b.example", "invalid-from"),
        ("romeo@xa.example", "juliet@b.example", "invalid-from"),
        ("romeo@а.example", "juliet@b.example", "invalid-from"),
        ("romeo@a.example@b.example", "juliet@b.example", "invalid-from"),
        ("romeo@a.example", "juliet@c.example", "host-unknown"),
        ("romeo@a.example", "juliet@x.b.example", "host-unknown"),
    ];
    for (from, to, error) in cases {
        let mut peer = InboundPeer::prove();
        let said = peer.send(&format!("<message from='{from}' to='{to}'/>"));
        assert!(said.contains(error), "{from} {to}: {said}");
        assert_eq!(peer.delivered, [], "{from} {to}");
        peer.send("<message from='romeo@a.example' to='juliet@b.example'/>");
        assert_eq!(peer.delivered, [], "nothing counts after it");
    }
    for stanza in ["<message to='juliet@b.example'/>", "<message from='romeo@a.example'/>"] {
        assert!(InboundPeer::prove().send(stanza).contains("improper-addressing"));
    }
    let client = "<message xmlns='jabber:client' from='romeo@a.example' to='juliet@b.example'/>";
    assert!(InboundPeer::prove().send(client).contains("invalid-namespace"));
}

#[test]
fn a_prefix_does_not_hide_a_sender() {
    let mut peer = InboundPeer::prove();
    peer.send("<message xmlns:x='urn:x' x:from='juliet@b.example' from='romeo@A.example' to='juliet@b.example'/>");
    assert_eq!(peer.delivered, [("romeo@a.example".into(), "juliet@b.example".into())]);
    let twice = "<message from='romeo@a.example' from='juliet@b.example' to='juliet@b.example'/>";
    assert!(InboundPeer::prove().send(twice).contains("not-well-formed"));
}

#[test]
fn answers_that_nobody_has_asked_for_prove_nothing() {
    let mut peer = InboundPeer::secure(Err(Untrusted::Missing), PeerPolicy::Dialback);
    peer.send(HEADER);
    for name in ["result", "verify"] {
        let said = peer.send(&format!("<db:{name} from='a.example' to='b.example' id='x' type='valid'/>"));
        assert_eq!(said, "");
    }
    assert!(!peer.machine.has_proven());
    assert!(peer.send("<message from='romeo@a.example' to='juliet@b.example'/>").contains("not-authorized"));
}

#[test]
fn keys_of_others_are_asked_about_and_ours_answered() {
    let mut peer = InboundPeer::secure(Err(Untrusted::Missing), PeerPolicy::Dialback);
    peer.send(HEADER);
    peer.send("<db:result from='a.example' to='b.example'>key</db:result>");
    assert_eq!(peer.events.iter().filter(|event| event.starts_with("Verify")).count(), 1);
    let mut out = Vec::new();
    assert!(!peer.machine.verified("c.example", "b.example", &Ok(true), &mut out), "another domain");
    assert!(!peer.machine.verified("a.example", "rooms.b.example", &Ok(true), &mut out), "another target");
    assert!(out.is_empty() && !peer.machine.has_proven());
    assert!(peer.machine.verified("a.example", "b.example", &Ok(true), &mut out));
    assert_eq!(String::from_utf8(out).unwrap(), "<db:result from='b.example' to='a.example' type='valid'/>");
    assert!(!peer.machine.verified("a.example", "b.example", &Ok(true), &mut Vec::new()), "once");

    let key = Secret::new(b"b's secret").key("c.example", "b.example", "D60000229F");
    let ask =
        |from: &str, key: &str| format!("<db:verify from='{from}' to='b.example' id='D60000229F'>{key}</db:verify>");
    assert!(peer.send(&ask("c.example", &key)).contains("type='valid'"));
    assert!(peer.send(&ask("d.example", &key)).contains("type='invalid'"));
    assert!(peer.send(&ask("c.example", &"k".repeat(300))).contains("type='invalid'"));
    let elsewhere = "<db:verify from='c.example' to='d.example' id='x'>k</db:verify>";
    assert!(peer.send(elsewhere).contains("item-not-found"));
}

#[test]
fn dialback_without_dialback_needs_what_external_needs() {
    let ask = "<db:result from='a.example' to='b.example'>key</db:result>";
    let mut peer = InboundPeer::secure(Ok(Names::of(&["a.example"])), PeerPolicy::Certificate);
    peer.send(HEADER);
    assert!(peer.send(ask).contains("type='valid'"));
    for shown in [Err(Untrusted::UnknownIssuer), Err(Untrusted::Missing), Ok(Names::of(&["c.example"]))] {
        let mut peer = InboundPeer::secure(shown, PeerPolicy::Certificate);
        peer.send(HEADER);
        let said = peer.send(ask);
        assert!(said.contains("type='error'") && said.contains("not-authorized"), "{said}");
        assert!(!peer.machine.has_proven());
    }
}

#[test]
fn dialback_is_refused_by_name_without_ending_the_stream() {
    let mut peer = InboundPeer::secure(Err(Untrusted::Missing), PeerPolicy::Dialback);
    peer.send(HEADER);
    let cases = [
        ("a.example", "c.example", "item-not-found"),
        ("b.example", "b.example", "policy-violation"),
        ("rooms.b.example", "b.example", "policy-violation"),
        ("a b.example", "b.example", "not-acceptable"),
        ("u@a.example", "b.example", "not-acceptable"),
    ];
    for (from, to, condition) in cases {
        let said = peer.send(&format!("<db:result from='{from}' to='{to}'>k</db:result>"));
        assert!(said.contains("type='error'") && said.contains(condition), "{from} {to}: {said}");
        assert!(!peer.machine.has_ended());
    }
    let long = format!("<db:result from='a.example' to='b.example'>{}</db:result>", "k".repeat(256));
    assert!(peer.send(&long).contains("not-acceptable"));
    assert_eq!(peer.events.len(), 1, "nothing but STARTTLS: nobody was asked");
}

#[test]
fn what_is_no_xmpp_ends_at_once() {
    let deep = "<a>".repeat(9);
    for bytes in ["<!DOCTYPE a>", "<!-- a -->", "<?a b?>", "<a>&b;</a>", deep.as_str()] {
        let mut peer = InboundPeer::new(PeerPolicy::Certificate);
        peer.send(HEADER);
        peer.send(bytes);
        assert!(peer.machine.has_ended(), "{bytes}");
    }
    let mut peer = InboundPeer::new(PeerPolicy::Certificate);
    peer.send(HEADER);
    peer.send(&format!("<a b='{}'/>", "c".repeat(11_000)));
    assert!(peer.machine.has_ended(), "too long");
    let mut peer = InboundPeer::new(PeerPolicy::Certificate);
    assert!(peer.send("GET / HTTP/1.1\r\n\r\n").contains("not-well-formed"));
}

#[test]
fn compression_and_unknown_elements_are_refused() {
    let compress = "<compress xmlns='http://jabber.org/protocol/compress'><method>zlib</method></compress>";
    let mut peer = InboundPeer::prove();
    assert!(!peer.said.contains("compress"), "it is offered at no time: {}", peer.said);
    assert!(peer.send(compress).contains("unsupported-stanza-type"));
    let mut peer = InboundPeer::new(PeerPolicy::Dialback);
    peer.send(HEADER);
    peer.send(compress);
    assert!(peer.machine.has_ended());
}

#[test]
fn a_stanza_that_cannot_be_delivered_comes_back_to_its_sender() {
    let mut peer = InboundPeer::prove();
    peer.send("<iq type='get' from='romeo@a.example/x' to='b.example'><query xmlns='a'/></iq>");
    peer.send("<presence type='odd' from='romeo@a.example/x' to='juliet@b.example'/>");
    assert_eq!(peer.events.iter().filter(|event| event.starts_with("Refused")).count(), 2);
    assert_eq!(peer.delivered, []);
    assert!(!peer.machine.has_ended());
}

#[test]
fn what_comes_while_we_are_closing_still_counts() {
    let mut peer = InboundPeer::prove();
    let mut out = Vec::new();
    peer.machine.finish(&mut out);
    assert_eq!(out, STREAM_END);
    assert_eq!(peer.send("<message from='romeo@a.example' to='juliet@b.example'/></stream:stream>"), "");
    assert_eq!(peer.delivered.len(), 1);
    assert!(peer.machine.has_ended());
}

#[test]
fn it_does_not_matter_how_the_bytes_are_cut() {
    let all = "<message from='romeo@a.example' to='juliet@b.example'><body>hi</body></message>".repeat(3);
    let mut peer = InboundPeer::prove();
    let mut carry = Vec::new();
    let mut scanner = Scanner::new();
    for byte in all.bytes() {
        carry.push(byte);
        let read = peer.machine.read(&carry, &mut scanner, &InboundHosts, &mut Vec::new());
        carry.drain(..read.consumed);
        peer.delivered
            .extend(read.event.map(|event| (format!("{event:?}").split('(').next().unwrap().into(), String::new())));
    }
    assert_eq!(peer.delivered.len(), 3);
}

/// A stanza that is too deep or too large ends the stream on arrival: nothing of it is stored, so
/// no server can crash on it later.
#[test]
fn what_is_too_deep_or_too_large_is_never_handed_on() {
    let deep = format!("{}{}", "<x xmlns='y'>".repeat(50_000), "</x>".repeat(50_000));
    let large = format!("<body>{}</body>", "x".repeat(crate::settings::STANZA_BYTES));
    for content in [deep, large] {
        let mut peer = InboundPeer::prove();
        let said = peer.send(&format!("<message from='x@a.example' to='y@b.example'>{content}</message>"));
        assert!(said.contains("<stream:error>") && peer.delivered.is_empty(), "{}", &said[..said.len().min(200)]);
    }
}
