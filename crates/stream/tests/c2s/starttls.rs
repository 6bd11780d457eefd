//! STARTTLS: RFC 6120 §5.

use rookery_stream::c2s::{C2sEvent, Facts};

use crate::dialogue::{DialoguePlayer, OPEN, in_the_clear, machine, play, policy, secure};

#[test]
fn tls_restarts_the_stream() {
    play(
        policy,
        in_the_clear(),
        "C: {open}
         S: {opened 1}
         S: {tls features}
         C: <starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>
         S: <proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>
         E: StartTls
         A: tls
         C: {open}
         S: {opened 2}
         S: {login features}",
    );
}

/// XEP-0368: the same stream, without STARTTLS in its features.
#[test]
fn direct_tls_comes_before_the_stream() {
    let mut machine = machine(policy(), in_the_clear());
    machine.begin_with_tls();
    let mut player = DialoguePlayer::new(machine);
    player.answer("tls");
    player.receive(OPEN.as_bytes());
    let sent = player.take_sent();
    assert!(sent.starts_with("<?xml version='1.0'?><stream:stream ") && sent.contains("<mechanism>PLAIN<"), "{sent}");
    assert!(!sent.contains("<starttls"), "{sent}");
}

#[test]
fn a_handshake_of_direct_tls_that_fails_is_not_talked_to_in_the_clear() {
    for answer in ["timeout", ""] {
        let mut machine = machine(policy(), in_the_clear());
        machine.begin_with_tls();
        let mut player = DialoguePlayer::new(machine);
        match answer {
            "" => player.receive(OPEN.as_bytes()),
            answer => player.answer(answer),
        }
        assert_eq!((player.event(), player.take_sent().as_str()), (Some(C2sEvent::End), ""));
    }
}

#[test]
fn a_client_may_log_in_without_where_that_is_allowed() {
    let facts = Facts { plaintext_login_allowed: true, ..in_the_clear() };
    play(
        policy,
        facts,
        "C: {open}
         S: {opened 1}
         S: <stream:features><starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>
         S: <mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>SCRAM-SHA-512</mechanism>
         S: <mechanism>SCRAM-SHA-256</mechanism><mechanism>SCRAM-SHA-1</mechanism></mechanisms>
         S: <register xmlns='http://jabber.org/features/iq-register'/>
         S: <limits xmlns='urn:xmpp:stream-limits:0'><max-bytes>10000</max-bytes><idle-seconds>60</idle-seconds></limits>
         S: </stream:features>",
    );
}

#[test]
fn what_is_said_in_the_clear_does_not_count_afterwards() {
    play(
        policy,
        in_the_clear(),
        "C: <stream:stream to='example.net' xml:lang='de' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>
         S: <?xml version='1.0'?><stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' id='00000000000000000000000000000001' from='example.net' xml:lang='en' version='1.0'>
         S: {tls features}
         C: <starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>
         S: <proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>
         E: StartTls
         A: tls
         C: <auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'/>
         S: <?xml version='1.0'?><stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' id='00000000000000000000000000000002' from='example.net' xml:lang='en' version='1.0'>
         S: {error bad-format This is not what belongs here.}
         E: End",
    );
}

/// RFC 6120 §5.4.3.3: an attacker in the middle could put it there. It must be cut off here rather
/// than read as if it had come over TLS.
#[test]
fn text_behind_starttls_is_never_read() {
    for behind in ["<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'/>", OPEN, "\n<", "\u{a0}"] {
        let mut player = DialoguePlayer::new(machine(policy(), in_the_clear()));
        player.receive(OPEN.as_bytes());
        player.take_sent();
        player.receive(format!("<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>{behind}").as_bytes());
        assert_eq!(player.take_sent(), "<failure xmlns='urn:ietf:params:xml:ns:xmpp-tls'/></stream:stream>");
        assert_eq!(player.event(), Some(C2sEvent::End));
        assert_eq!(player.event(), None);
        assert_eq!(player.rest(), b"");
    }
}

#[test]
fn a_line_break_behind_starttls_is_dropped() {
    let mut player = DialoguePlayer::new(machine(policy(), in_the_clear()));
    player.receive(OPEN.as_bytes());
    player.take_sent();
    player.receive(b"<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>\r\n");
    assert_eq!(player.take_sent(), "<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>");
    assert_eq!(player.event(), Some(C2sEvent::StartTls));
    assert_eq!((player.event(), player.rest()), (None, &b""[..]));
    player.answer("tls");
    player.receive(OPEN.as_bytes());
    assert!(player.take_sent().starts_with("<?xml version='1.0'?><stream:stream "));
}

#[test]
fn text_behind_proceed_ends_the_connection_without_a_word() {
    let mut player = DialoguePlayer::new(machine(policy(), in_the_clear()));
    player.receive(OPEN.as_bytes());
    player.receive(b"<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>");
    assert_eq!(player.event(), Some(C2sEvent::StartTls));
    player.take_sent();
    player.receive(OPEN.as_bytes());
    assert_eq!(player.event(), Some(C2sEvent::End));
    player.answer("tls");
    player.receive(OPEN.as_bytes());
    assert_eq!((player.take_sent().as_str(), player.rest()), ("", &b""[..]));
}

#[test]
fn a_timeout_of_the_handshake_ends_the_connection_without_a_word() {
    play(
        policy,
        in_the_clear(),
        "C: {open}<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>
         S: {opened 1}
         S: {tls features}
         S: <proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>
         E: StartTls
         A: timeout
         E: End",
    );
}

#[test]
fn starttls_that_is_not_offered_fails() {
    play(
        policy,
        secure(),
        "C: {open}<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>
         S: {opened 1}
         S: {login features}
         S: <failure xmlns='urn:ietf:params:xml:ns:xmpp-tls'/></stream:stream>
         E: End",
    );
}

#[test]
fn a_second_starttls_fails() {
    play(
        policy,
        in_the_clear(),
        "C: {open}<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>
         S: {opened 1}
         S: {tls features}
         S: <proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>
         E: StartTls
         A: tls
         C: {open}<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>
         S: {opened 2}
         S: {login features}
         S: <failure xmlns='urn:ietf:params:xml:ns:xmpp-tls'/></stream:stream>
         E: End",
    );
}

#[test]
fn nobody_logs_in_before_tls_where_it_is_required() {
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "NO-SUCH"] {
        let transcript = format!(
            "C: {{open}}<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='{mechanism}'>AGp1bGlldABwZW5jaWw=</auth>
             S: {{opened 1}}
             S: {{tls features}}
             S: <failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><encryption-required/></failure>
             E: Failed {{ account: None, failure: EncryptionRequired }}"
        );
        play(policy, in_the_clear(), &transcript);
    }
}
