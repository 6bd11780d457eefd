//! Input that must not get through, or through to others.

use rookery_stream::bosh::AnswerStatus;
use rookery_testkit::bosh::Bosh;
use rookery_testkit::{Config, Server};
use rookery_xml::{Limits, ns};

const BOSH: &str = "xmlns='http://jabber.org/protocol/httpbind'";

#[test]
fn what_is_no_request_is_refused() {
    let server = Server::new();
    let bad = [
        "",
        "hello",
        "<body",
        "<!DOCTYPE body><body/>",
        "<html xmlns='http://jabber.org/protocol/httpbind' rid='1'/>",
        "<body rid='1'/>",
        "<body rid='1' xmlns='jabber:client'/>",
        &format!("<body {BOSH}/>"),
        &format!("<body rid='0' {BOSH}/>"),
        &format!("<body rid='-1' {BOSH}/>"),
        &format!("<body rid='9007199254740992' {BOSH}/>"),
        &format!("<body rid='1' wait='soon' {BOSH}/>"),
        &format!("<body rid='1' rid='2' {BOSH}/>"),
        &format!("<body rid='1' xmpp:version='1.0' {BOSH}/>"),
        "\u{feff}<body rid='1' xmlns='http://jabber.org/protocol/httpbind'/>",
    ];
    for bad in bad {
        server.post(bad).expect_end("bad-request");
    }
    assert_eq!(server.connections(), 0);
}

#[test]
fn an_unknown_session_is_not_found() {
    let server = Server::new();
    let _first = Bosh::login(&server, "romeo/orchard");
    let (juliet, _) = Bosh::login(&server, "juliet/balcony");
    assert_ne!(juliet.sid, juliet.sid.to_uppercase());
    let sids =
        ["", "x", "0", &"f".repeat(32), &juliet.sid.to_uppercase(), &format!("{} ", juliet.sid), &"9".repeat(64)];
    for sid in sids {
        server.post(&format!("<body rid='{}' sid='{sid}' {BOSH}/>", juliet.rid)).expect_end("item-not-found");
    }
    assert_eq!(server.sessions(), 2);
}

#[test]
fn what_is_no_xml_ends_the_session() {
    for bad in [
        "<message",
        "<message></presence>",
        "text",
        "<message/>text",
        "<!-- x --><message/>",
        "<?php x ?>",
        "</body><body>",
        "<message><body>&nbsp;</body></message>",
        "<x:y/>",
        "</stream:stream>",
        "<message>\u{ffff}</message>",
    ] {
        let server = Server::new();
        let (mut juliet, waits) = Bosh::login(&server, "juliet/balcony");
        juliet.ask("", bad).expect_end("bad-request");
        waits.expect_end("other-request");
        assert_eq!((server.sessions(), server.connections()), (0, 0), "{bad}");
    }
}

#[test]
fn a_request_that_breaks_off_is_none() {
    let server = Server::new();
    let (juliet, _) = Bosh::login(&server, "juliet/balcony");
    let whole = format!("<body rid='{}' sid='{}' {BOSH}><message/></body>", juliet.rid, juliet.sid);
    server.post(&whole[..whole.len() - 1]).expect_end("bad-request");
    assert_eq!(server.sessions(), 0);
}

#[test]
fn what_is_too_large_is_refused() {
    let limits = Limits { bytes: 10_000, ..Limits::AFTER_LOGIN };
    let server = Server::with(Config { limits, ..Config::default() });
    let (mut juliet, waits) = Bosh::login(&server, "juliet/balcony");
    juliet.ask("", &format!("<message to='a@example.org'><body>{}</body></message>", "x".repeat(10_000)));
    let body = waits.expect_end("remote-stream-error");
    assert!(
        body.child("error", ns::STREAMS)
            .is_some_and(|error| error.child("policy-violation", ns::STREAM_ERRORS).is_some())
    );
    // Before login, the size of the whole request is limited, not only that of each element.
    let mut client = Bosh::new(&server);
    client.open("hold='1' wait='60' ver='1.6'");
    client
        .ask("", &"<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='X'/>".repeat(300))
        .expect_end("remote-stream-error");
    assert_eq!(server.connections(), 0);
}

#[test]
fn addresses_are_checked() {
    // §17.2.
    let server = Server::new();
    let create = |attributes: &str| Bosh::new(&server).create(attributes);
    create("to='example.net' ver='1.6'").expect_end("host-unknown");
    create("to='a@b@c' ver='1.6'").expect_end("improper-addressing");
    create("ver='1.6'").expect();
    let several = Server::with(Config { domains: vec!["a.example".into(), "b.example".into()], ..Config::default() });
    Bosh::new(&several).create("ver='1.6'").expect_end("improper-addressing");
    Bosh::new(&several).create("to='' ver='1.6'").expect_end("improper-addressing");
    assert_eq!(several.connections(), 0);
}

#[test]
fn legacy_clients_get_codes() {
    // §17.1.
    let server = Server::new();
    let cases: [(&str, i64, &str, AnswerStatus); 3] = [
        ("", 9, "", AnswerStatus::NotFound),
        ("", 0, "text", AnswerStatus::BadRequest),
        ("", 0, "", AnswerStatus::Forbidden),
    ];
    for (attributes, forward, content, status) in cases {
        let mut client = Bosh::new(&server);
        client.open("hold='1' wait='60'");
        client.ask("", "").expect_nothing();
        let answer =
            client.ask_as(client.rid.wrapping_add_signed(forward), attributes, content).answer().expect("an answer");
        assert_eq!(answer.status, status, "{answer:?}");
    }
}

#[test]
fn a_session_that_was_encrypted_stays_so() {
    // §19.1; a client without a right to the session can't end it either.
    let server = Server::new();
    let opened =
        server.post_over(&format!("<body rid='7' to='example.org' hold='1' wait='60' ver='1.6' {BOSH}/>"), true);
    let sid = opened.expect().attr("sid").expect("a session").to_owned();
    server.post(&format!("<body rid='8' sid='{sid}' type='terminate' {BOSH}/>")).expect_end("item-not-found");
    server.post_over(&format!("<body rid='8' sid='{sid}' {BOSH}/>"), true).expect_nothing();
}

#[test]
fn a_stream_does_not_begin_twice() {
    let server = Server::new();
    let (mut juliet, waits) = Bosh::login(&server, "juliet/balcony");
    juliet.ask("xmpp:restart='true' xmlns:xmpp='urn:xmpp:xbosh'", "");
    let body = waits.expect_end("remote-stream-error");
    assert!(
        body.child("error", ns::STREAMS).is_some_and(|error| error.child("bad-format", ns::STREAM_ERRORS).is_some())
    );
}

#[test]
fn content_types_of_clients_are_theirs_to_choose() {
    let server = Server::new();
    let answer =
        Bosh::new(&server).create("to='example.org' content='text/plain; charset=utf-8'").answer().expect("an answer");
    assert_eq!(answer.content_type.as_deref(), Some("text/plain; charset=utf-8"));
    let answer = Bosh::new(&server)
        .create("to='example.org' content='text/html&#10;Set-Cookie: a'")
        .answer()
        .expect("an answer");
    assert_eq!(answer.content_type, None, "nothing gets into a header that is none");
}

#[test]
fn who_may_not_log_in_in_the_clear_is_not_asked_to() {
    let server = Server::with(Config { plaintext: false, tls: true, ..Config::default() });
    let body = Bosh::new(&server).open("hold='1' wait='60' ver='1.6'");
    let features = body.child("features", ns::STREAMS).expect("features");
    assert!(features.child("mechanisms", ns::SASL).is_none() && features.child("starttls", ns::STARTTLS).is_none());
}

#[test]
fn sessions_of_one_address_are_counted() {
    let server = Server::with(Config { connections_per_address: 2, ..Config::default() });
    let (mut one, _) = Bosh::login(&server, "juliet/balcony");
    let _two = Bosh::login(&server, "juliet/window");
    Bosh::new(&server).create("to='example.org' ver='1.6'").expect_end("policy-violation");
    one.ask("type='terminate'", "").expect();
    Bosh::new(&server).create("to='example.org' ver='1.6'").expect();
}

#[test]
fn sessions_that_never_log_in_are_bounded() {
    let server = Server::new();
    let opened: Vec<_> = (0..100).map(|_| Bosh::new(&server).create("to='example.org' ver='1.6'")).collect();
    opened.iter().for_each(|opened| drop(opened.expect()));
    Bosh::new(&server).create("to='example.org' ver='1.6'").expect_end("policy-violation");
    // A client that has not logged in within a minute makes room.
    server.advance(61_000);
    let (_juliet, _) = Bosh::login(&server, "juliet/balcony");
}
