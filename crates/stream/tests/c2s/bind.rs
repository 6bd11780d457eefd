//! Resource binding: RFC 6120 §7.

use rookery_stream::c2s::NegotiatedSession;

use crate::dialogue::{DialoguePlayer, OPEN, machine, play, policy, secure};

const LOGIN: &str =
    "C: {open}<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGp1bGlldABwZW5jaWw=</auth>
     S: {opened 1}
     S: {login features}
     E: Verify { account: juliet@example.org, .. }
     A: right
     S: <success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>
     E: Authenticated { account: juliet@example.org }\n";

/// Plays client elements on the stream after login.
pub(crate) fn after_login(transcript: &str) {
    let opened = "C: {open}\nS: {opened 2}\nS: {bind features}\nE: BegunAgain\n";
    play(policy, secure(), &format!("{LOGIN}{opened}{transcript}"));
}

#[test]
fn the_client_may_name_a_resource() {
    after_login(
        "C: <iq type='set' id='b&apos;1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>balcony</resource></bind></iq>
         E: Bind { resource: Some(balcony) }
         A: bound juliet@example.org/balcony
         S: <iq type='result' id='b&apos;1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><jid>juliet@example.org/balcony</jid></bind></iq>",
    );
}

#[test]
fn the_client_may_leave_it_to_the_server() {
    for bind in ["", "<resource/>"] {
        after_login(&format!(
            "C: <iq type='set' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>{bind}</bind></iq>
             E: Bind {{ resource: None }}
             A: bound juliet@example.org/4db06f06
             S: <iq type='result' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><jid>juliet@example.org/4db06f06</jid></bind></iq>"
        ));
    }
}

#[test]
fn a_resource_is_prepared_and_escaped() {
    after_login(
        "C: <iq type='set' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>a&amp;\u{FF21}</resource></bind></iq>
         E: Bind { resource: Some(a&A) }
         A: bound juliet@example.org/a&A
         S: <iq type='result' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><jid>juliet@example.org/a&amp;A</jid></bind></iq>",
    );
}

#[test]
fn a_refused_client_may_try_again() {
    after_login(
        "C: <iq type='set' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>balcony</resource></bind></iq>
         E: Bind { resource: Some(balcony) }
         A: refused conflict
         S: <iq type='error' id='1'><error type='cancel'><conflict xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         C: <iq type='set' id='2'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>
         E: Bind { resource: None }
         A: refused limit
         S: <iq type='error' id='2'><error type='wait'><resource-constraint xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>
         S: <text xmlns='urn:ietf:params:xml:ns:xmpp-stanzas' xml:lang='en'>too many</text></error></iq>
         C: <iq type='set' id='3'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>
         E: Bind { resource: None }
         A: bound juliet@example.org/x
         S: <iq type='result' id='3'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><jid>juliet@example.org/x</jid></bind></iq>",
    );
}

#[test]
fn a_resource_that_cannot_be_one_is_a_bad_request() {
    let long = "x".repeat(1024);
    let mut player = logged_in("");
    let bind = format!("<bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>{long}</resource></bind>");
    player.receive(format!("<iq type='set' id='1'>{bind}</iq>").as_bytes());
    let answer = player.take_sent();
    assert!(answer.starts_with("<iq type='error' id='1'><error type='modify'><bad-request "), "{answer}");
    assert_eq!(player.event(), None);
    player.receive(format!("<iq type='set'>{}</iq>", bind.replace(&long, "x")).as_bytes());
    let answer = player.take_sent();
    assert!(answer.starts_with("<iq type='error'><error type='modify'><bad-request "), "{answer}");
}

#[test]
fn nothing_but_bind_is_authorized_before_it() {
    for stanza in [
        "<message/>",
        "<presence/>",
        "<iq type='get' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>",
        "<iq type='set' id='1'><session xmlns='urn:ietf:params:xml:ns:xmpp-session'/></iq>",
        "<iq type='set' id='1'><query xmlns='jabber:iq:register'/></iq>",
    ] {
        after_login(&format!("C: {stanza}\nS: {{error not-authorized}}\nE: End"));
    }
}

#[test]
fn starttls_after_login_fails() {
    after_login(
        "C: <starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>
         S: <failure xmlns='urn:ietf:params:xml:ns:xmpp-tls'/></stream:stream>
         E: End",
    );
}

#[test]
fn the_stream_after_login_is_the_accounts() {
    let header = "version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'";
    for (addresses, error) in [
        ("to='example.net'", "not-authorized The host may not change after login."),
        ("to='example.org' from='romeo@example.org'", "invalid-from The 'from' is not the user who has logged in."),
    ] {
        play(
            policy,
            secure(),
            &format!("{LOGIN}C: <stream:stream {addresses} {header}>\nS: {{opened 2}}\nS: {{error {error}}}\nE: End"),
        );
    }
}

#[test]
fn without_to_the_host_stays() {
    play(
        policy,
        secure(),
        &format!(
            "{LOGIN}C: <stream:stream version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>
             S: {{opened 2}}
             S: {{bind features}}
             E: BegunAgain"
        ),
    );
}

#[test]
fn what_follows_is_left_to_the_session() {
    let mut player = logged_in(" xml:lang='de' xmlns:x='urn:example'");
    player.receive(b"<iq type='set' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq><presence/><message");
    assert_eq!(player.rest(), b"<presence/><message");
    player.answer("bound juliet@example.org/x");
    assert_eq!(player.rest(), b"<presence/><message");
    let bound = player.machine.into_bound();
    let expected = NegotiatedSession {
        jid: "juliet@example.org/x".parse().unwrap(),
        lang: Some("de".to_owned()),
        prefixes: vec![("x".to_owned(), "urn:example".to_owned())],
    };
    assert_eq!(bound, Some(expected));
}

#[test]
fn prefixes_of_the_header_may_be_used() {
    let mut player = logged_in(" xmlns:b='urn:ietf:params:xml:ns:xmpp-bind' xmlns:c='jabber:client'");
    player.receive(b"<c:iq type='set' id='1'><b:bind><b:resource>x</b:resource></b:bind></c:iq>");
    let event = format!("{:?}", player.event()).replace('"', "");
    assert_eq!(event, "Some(Bind { resource: Some(x) })");
}

#[test]
fn an_unbound_machine_leaves_nothing() {
    assert_eq!(logged_in("").machine.into_bound(), None);
}

/// Returns a stream after login whose header has these attributes too.
fn logged_in(attributes: &str) -> DialoguePlayer {
    let mut player = DialoguePlayer::new(machine(policy(), secure()));
    player.receive(OPEN.as_bytes());
    player.receive(b"<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGp1bGlldABwZW5jaWw=</auth>");
    player.answer("right");
    player.receive(OPEN.replace("version='1.0'>", &format!("version='1.0'{attributes}>")).as_bytes());
    while player.event().is_some() {}
    player.take_sent();
    player
}
