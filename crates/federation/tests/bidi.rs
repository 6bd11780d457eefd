//! Tests both directions on one stream (XEP-0288) against servers that are hostile or don't
//! support it.

#[allow(dead_code, reason = "other tests play more of the peers")]
mod hostile;

use hostile::{EXTERNAL, HostileRig, PROCEED, SUCCESS, TLS_FEATURE, address, at, header, reply};
use rookery_federation::{ConnectionKey, PeerPolicy};
use rookery_stream::tls::trust::{Names, Untrusted};

const BIDI: &str = "<bidi xmlns='urn:xmpp:bidi'/>";
const OFFER: &str = "<stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>EXTERNAL</mechanism>\
                     </mechanisms><bidi xmlns='urn:xmpp:features:bidi'/></stream:features>";
const ENABLE: &str = "<enable xmlns='urn:xmpp:sm:3' resume='true'/>";

/// Returns a server that has called as `a.example`, requested both directions and proven itself.
fn call_both_ways(request: &str) -> (HostileRig, ConnectionKey) {
    let mut server = HostileRig::new(PeerPolicy::Certificate);
    let key = server.call_with_tls(address(1), "a.example", Ok(Names::of(&["a.example"])));
    assert_eq!(server.hear(key, request), "");
    assert!(server.hear(key, EXTERNAL).contains("<success"));
    assert!(!server.hear(key, header("a.example")).contains("features:bidi"), "it is too late after the proof");
    (server, key)
}

/// Returns a server that was called as `a.example`, offers both directions and has been asked for
/// both.
fn calling() -> (HostileRig, ConnectionKey, String) {
    let mut server = HostileRig::new(PeerPolicy::Certificate);
    server.dns.insert("a.example".into(), at(1));
    server.send("romeo@a.example", "1");
    let key = server.answer();
    for bytes in [reply("a.example", "1"), TLS_FEATURE.to_owned(), PROCEED.to_owned()] {
        server.hear(key, bytes);
    }
    server.secure(key, Ok(Names::of(&["a.example"])));
    let said = server.hear(key, reply("a.example", "2") + OFFER);
    (server, key, said)
}

fn ready() -> (HostileRig, ConnectionKey) {
    let (mut server, key, _) = calling();
    server.hear(key, SUCCESS);
    assert!(server.hear(key, reply("a.example", "3") + "<stream:features/>").contains("id='1'"));
    (server, key)
}

fn message(from: &str, to: &str) -> String {
    format!("<message from='{from}' to='{to}' id='m'><body>hi</body></message>")
}

#[test]
fn it_is_offered_in_tls_and_asked_for_before_the_proof() {
    let mut server = HostileRig::new(PeerPolicy::Certificate);
    let key = server.call(address(1)).expect("a place");
    assert!(!server.hear(key, header("a.example")).contains("bidi"));
    assert!(server.hear(key, BIDI).contains("policy-violation"), "STARTTLS comes first (§2.1)");

    let mut server = HostileRig::new(PeerPolicy::Certificate);
    let key = server.call(address(1)).expect("a place");
    server.hear(key, header("a.example"));
    server.hear(key, hostile::STARTTLS);
    server.secure(key, Ok(Names::of(&["a.example"])));
    assert!(server.hear(key, header("a.example")).contains("<bidi xmlns='urn:xmpp:features:bidi'/>"));

    let (_, _, said) = calling();
    let (asked, login) = (said.find("<bidi xmlns='urn:xmpp:bidi'>"), said.find("<auth"));
    assert!(asked.is_some() && asked < login, "{said}");
    assert!(said.contains("<max-bytes>524288</max-bytes>"), "{said}");
}

#[test]
fn nothing_is_sent_to_who_has_proven_nothing() {
    for shown in [Err(Untrusted::UnknownIssuer), Err(Untrusted::Missing), Ok(Names::of(&["c.example"]))] {
        let mut server = HostileRig::new(PeerPolicy::Certificate);
        let key = server.call_with_tls(address(1), "a.example", shown);
        server.hear(key, BIDI);
        assert!(server.hear(key, EXTERNAL).contains("<failure"));
        server.send("romeo@a.example", "1");
        server.advance(10_000);
        assert_eq!(server.said_to(key), "");
        assert_eq!(server.looked_up, ["a.example"], "it is looked for where DNS says");
    }
}

/// Dialback proves pairs, one after the other (XEP-0220 §2.6).
#[test]
fn nothing_is_sent_to_a_domain_that_is_not_proven() {
    let mut server = HostileRig::new(PeerPolicy::Dialback);
    for number in [1, 2] {
        server.dns.insert(["a.example", "c.example"][number - 1].into(), at(number as u8));
    }
    let key = server.call_with_tls(address(1), "a.example", Err(Untrusted::UnknownIssuer));
    server.hear(key, BIDI);
    server.hear(key, "<db:result from='c.example' to='b.example'>wrong</db:result>");
    server.send("x@c.example", "early");
    server.send("romeo@a.example", "early");
    server.advance(10_000);
    assert!(!server.said_to(key).contains("<message"), "neither is proven");
    // The peer's own verdict doesn't count.
    for name in ["result", "verify"] {
        let verdict = format!("<db:{name} from='a.example' to='b.example' id='x' type='valid'/>");
        assert_eq!(server.hear(key, verdict), "");
    }
    server.send("romeo@a.example", "late");
    server.advance(10_000);
    assert!(!server.said_to(key).contains("<message"));
}

#[test]
fn who_has_not_asked_is_sent_nothing_on_its_own_stream() {
    let mut server = HostileRig::new(PeerPolicy::Certificate);
    let key = server.call_proven(address(1), "a.example");
    server.hear(key, BIDI);
    server.hear(key, message("romeo@a.example/x", "juliet@b.example"));
    server.send("romeo@a.example", "1");
    server.advance(10_000);
    assert_eq!(server.said_to(key), "");
    assert_eq!(server.looked_up, ["a.example"]);
}

#[test]
fn answers_leave_for_the_proven_domain_alone() {
    let (mut server, key) = call_both_ways(BIDI);
    server.hear(key, message("romeo@a.example/x", "juliet@b.example"));
    server.send("romeo@a.example", "1");
    assert!(server.said_to(key).contains("id='1'"));
    server.send("romeo@x.a.example", "2");
    server.send("romeo@example", "3");
    server.send_from("hall@rooms.b.example", "romeo@a.example", "4", "hi");
    assert_eq!(server.said_to(key), "");
    assert_eq!(server.looked_up, ["x.a.example", "example", "a.example"]);
}

/// The request is accepted under both namespaces, since some servers use that of the feature.
#[test]
fn a_server_that_agrees_on_nothing_is_answered_a_little_later() {
    for request in [BIDI, "<bidi xmlns='urn:xmpp:features:bidi'/>"] {
        let (mut server, key) = call_both_ways(request);
        server.advance(2_000);
        server.send("romeo@a.example", "1");
        assert!(server.said_to(key).contains("id='1'"), "{request}");
        assert!(server.looked_up.is_empty());
    }
}

#[test]
fn a_stanza_above_what_the_request_allows_costs_its_sender_alone() {
    let limits = "<bidi xmlns='urn:xmpp:bidi'><limits xmlns='urn:xmpp:stream-limits:0'><idle-seconds>9</idle-seconds>\
                  <max-bytes>1000</max-bytes></limits></bidi>";
    let (mut server, key) = call_both_ways(limits);
    server.hear(key, ENABLE);
    server.send_from("juliet@b.example/x", "romeo@a.example", "large", &"x".repeat(1000));
    server.send("romeo@a.example", "small");
    let said = server.said_to(key);
    assert!(said.contains("id='small'") && !said.contains("large"), "{said}");
    assert_eq!(server.bounced, [("large".into(), "policy-violation".into())]);
}

#[test]
fn no_more_is_acknowledged_than_was_answered() {
    let (mut server, key) = call_both_ways(BIDI);
    assert!(server.hear(key, ENABLE).contains("<enabled"));
    assert_eq!(server.hear(key, "<a xmlns='urn:xmpp:sm:3' h='7'/>"), "", "nothing was sent, and nothing is believed");
    server.send("romeo@a.example", "1");
    server.send("romeo@a.example", "2");
    server.said_to(key);
    server.hear(key, "<a xmlns='urn:xmpp:sm:3' h='1'/>");
    let said = server.hear(key, "<a xmlns='urn:xmpp:sm:3' h='3'/>");
    assert!(said.contains("handled-count-too-high") && said.contains("send-count='2'"), "{said}");
    assert!(server.gone.contains(&key));
    assert_eq!(server.bounced, [("2".into(), "remote-server-timeout".into())]);
    assert_eq!(server.servers.waiting(), 0);
}

#[test]
fn who_was_called_speaks_for_its_domain_to_ours() {
    let cases = [
        ("juliet@b.example", "juliet@b.example", "invalid-from"),
        ("hall@rooms.b.example/nick", "juliet@b.example", "invalid-from"),
        ("romeo@x.a.example", "juliet@b.example", "invalid-from"),
        ("romeo@example", "juliet@b.example", "invalid-from"),
        ("romeo@c.example", "juliet@b.example", "invalid-from"),
        ("romeo@a.example", "juliet@c.example", "host-unknown"),
        ("romeo@a.example", "juliet@x.b.example", "host-unknown"),
    ];
    for (from, to, error) in cases {
        let (mut server, key) = ready();
        let said = server.hear(key, message(from, to));
        assert!(said.contains(error), "{from} {to}: {said}");
        server.hear(key, message("romeo@a.example", "juliet@b.example"));
        assert_eq!(server.delivered, [], "nothing counts after it");
        assert!(server.gone.contains(&key));
    }
    let (mut server, key) = ready();
    server.hear(key, message("romeo@A.example/x", "juliet@b.example"));
    assert_eq!(server.delivered, [("romeo@a.example/x".into(), "juliet@b.example".into())]);
}

#[test]
fn who_was_called_says_nothing_before_it_has_let_us_in() {
    let (mut server, key, _) = calling();
    assert!(server.hear(key, message("romeo@a.example", "juliet@b.example")).contains("not-authorized"));
    assert_eq!(server.delivered, []);
    // Nothing is sent at all if it wasn't requested.
    let mut server = HostileRig::new(PeerPolicy::Certificate);
    server.dns.insert("a.example".into(), at(1));
    server.send("romeo@a.example", "1");
    let key = server.welcome("a.example");
    server.hear(key, "<stream:features/>");
    server.hear(key, message("romeo@a.example", "juliet@b.example"));
    assert_eq!(server.delivered, []);
}

/// Unrequested verdicts could travel both ways now (§4).
#[test]
fn who_was_called_proves_no_other_domain_on_our_stream() {
    let (mut server, key) = ready();
    for verdict in [
        "<db:result from='c.example' to='b.example' type='valid'/>",
        "<db:verify from='c.example' to='b.example' id='x' type='valid'/>",
    ] {
        assert_eq!(server.hear(key, verdict), "");
    }
    let said = server.hear(key, "<db:result from='c.example' to='b.example'>key</db:result>");
    assert!(said.contains("type='error'") && said.contains("resource-constraint"), "{said}");
    let said = server.hear(key, "<db:verify from='a.example' to='b.example' id='x'>key</db:verify>");
    assert!(said.contains("type='invalid'"), "{said}");
    assert_eq!(server.looked_up, ["a.example"], "no key is verified for it");
    assert!(server.hear(key, message("romeo@c.example", "juliet@b.example")).contains("invalid-from"));
}

/// Some servers close the stream (ejabberd 24.10 to 26.04).
#[test]
fn a_server_that_can_t_bear_the_request_is_not_asked_again() {
    let (mut server, key, _) = calling();
    server.hear(
        key,
        "<stream:error><unsupported-stanza-type xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>",
    );
    assert!(server.gone.contains(&key) && server.bounced.is_empty());
    assert_eq!(server.calls.len(), 2);
    let key = server.answer();
    for bytes in [reply("a.example", "1"), TLS_FEATURE.to_owned(), PROCEED.to_owned()] {
        server.hear(key, bytes);
    }
    server.secure(key, Ok(Names::of(&["a.example"])));
    let said = server.hear(key, reply("a.example", "2") + OFFER);
    assert!(said.contains("<auth") && !said.contains("bidi"), "{said}");
}
