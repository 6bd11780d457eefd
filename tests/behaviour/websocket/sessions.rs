//! Sessions over a WebSocket, which can do what sessions over other transports can.

use rookery_testkit::{Config, Security, Server, play};

#[test]
fn a_stream_opens_and_closes_as_the_standard_shows() {
    // RFC 7395 §3.4 and §3.6.
    let server = Server::new();
    let mut client = server.connect_websocket(0);
    client.send("<open xmlns='urn:ietf:params:xml:ns:xmpp-framing' to='example.org' version='1.0'/>");
    let header = client.expect_header();
    assert_eq!((header.from.as_deref(), header.version.as_deref()), (Some("example.org"), Some("1.0")));
    assert!(header.id.is_some());
    let features = client.expect_element();
    assert!(features.is("features", "http://etherx.jabber.org/streams"));
    assert!(features.child("starttls", "urn:ietf:params:xml:ns:xmpp-tls").is_none());
    client.send("<close xmlns='urn:ietf:params:xml:ns:xmpp-framing'/>");
    client.expect_end();
    assert_eq!(client.wire.controls, [(8, vec![0x03, 0xe8])], "the closing handshake");
}

#[test]
fn starttls_is_not_offered_and_login_without_tls_is_what_it_is_elsewhere() {
    let server = Server::with(Config { tls: true, plaintext: false, ..Config::default() });
    let mut client = server.connect_websocket(0);
    let features = client.open("example.org").clone();
    assert!(features.child("starttls", "urn:ietf:params:xml:ns:xmpp-tls").is_none());
    assert!(client.mechanisms().is_empty());
}

#[test]
fn people_chat_over_both() {
    let server = Server::new();
    let mut juliet = server.login_websocket("juliet/balcony");
    let mut romeo = server.login("romeo/orchard");
    play(
        &mut [&mut juliet, &mut romeo],
        "juliet C: <message xmlns='jabber:client' to='romeo@example.org/orchard'><body>Wherefore?</body></message>
         romeo  S: <message from='juliet@example.org/balcony'><body>Wherefore?</body></message>
         romeo  C: <message to='juliet@example.org/balcony'><body>Neither &lt;fair&gt; maid</body></message>
         juliet S: <message from='romeo@example.org/orchard'><body>Neither &lt;fair&gt; maid</body></message>",
    );
    juliet.close();
    assert_eq!(server.sessions(), 1);
}

#[test]
fn what_is_long_arrives_whole_through_a_narrow_window() {
    for len in [80, 100, 125, 126, 127, 400, 65_500, 66_000] {
        let server = Server::new();
        let mut juliet = server.login_websocket("juliet/balcony");
        let mut romeo = server.login("romeo/orchard");
        juliet.wire.peer.set_window(97);
        let body = "x".repeat(len);
        for _ in 0..3 {
            romeo.send(&format!("<message to='juliet@example.org/balcony'><body>{body}</body></message>"));
        }
        for _ in 0..3 {
            juliet.expect_message("romeo@example.org/orchard", &body);
        }
        juliet.expect_alive();
    }
}

#[test]
fn who_does_not_read_loses_the_connection_and_no_message() {
    let server = Server::with(Config {
        settings: rookery_hub::Settings {
            outbox: rookery_fanout::OutboxLimits { soft: 4_000, hard: 20_000, ..Default::default() },
            ..rookery_hub::Settings::default()
        },
        ..Config::default()
    });
    let mut juliet = server.login_websocket("juliet/balcony");
    juliet.send("<presence xmlns='jabber:client'/>");
    juliet.expect_presence_of_itself();
    let mut romeo = server.login("romeo/orchard");
    juliet.wire.peer.set_window(500);
    juliet.set_reading(false);
    for number in 0..60 {
        romeo.send(&format!("<message to='juliet@example.org'><body>{number:0>500}</body></message>"));
    }
    romeo.pump();
    juliet.set_reading(true);
    let seen = juliet.unsettled_bodies().len();
    drop(juliet);
    let mut again = server.online("juliet/balcony");
    let later = again.bodies();
    assert!(!later.is_empty() && later.len() + seen <= 60 + 1);
    assert_eq!(later.last().map(|body| body.trim_start_matches('0').to_owned()).as_deref(), Some("59"));
}

#[test]
fn a_session_goes_on_over_the_other_transport() {
    // XEP-0198 §5, RFC 7395 §3.6: a WebSocket that closes without <close/> leaves a session that
    // can be resumed.
    let server = Server::new();
    let mut juliet = server.login_websocket("juliet/balcony");
    let id = juliet.enable();
    let jid = juliet.jid.clone().expect("bound");
    let mut romeo = server.login("romeo/orchard");
    juliet.send_bytes(&rookery_testkit::websocket::frame(true, 8, &1001u16.to_be_bytes()));
    juliet.pump();
    romeo.send("<message to='juliet@example.org/balcony'><body>one</body></message>");
    romeo.pump();
    let account = server.account("juliet");

    let mut stream = server.connect();
    stream.log_in(&account, Security::Plain);
    assert_eq!(stream.resume(&jid, &id, 0), 0);
    stream.expect_message("romeo@example.org/orchard", "one");
    stream.vanish();
    romeo.send("<message to='juliet@example.org/balcony'><body>two</body></message>");
    romeo.pump();

    let mut websocket = server.connect_websocket(0);
    websocket.log_in(&account, Security::Plain);
    assert_eq!(websocket.resume(&jid, &id, 1), 0);
    websocket.expect_message("romeo@example.org/orchard", "two");
    websocket.send("<r xmlns='urn:xmpp:sm:3'/>");
    websocket.expect("<a xmlns='urn:xmpp:sm:3' h='0'/>");
}

#[test]
fn the_newer_of_two_transports_takes_the_session_over_in_the_middle_of_a_stanza() {
    let server = Server::new();
    let mut juliet = server.login_websocket("juliet/balcony");
    let id = juliet.enable();
    let jid = juliet.jid.clone().expect("bound");
    let mut romeo = server.login("romeo/orchard");
    juliet.wire.peer.set_window(50);
    juliet.set_reading(false);
    romeo.send("<message to='juliet@example.org/balcony'><body>half of this is on its way already</body></message>");
    romeo.pump();
    let account = server.account("juliet");
    let mut stream = server.connect();
    stream.log_in(&account, Security::Plain);
    stream.resume(&jid, &id, 0);
    stream.expect_message("romeo@example.org/orchard", "half of this is on its way already");
    juliet.wire.peer.set_window(10_000);
    juliet.set_reading(true);
    juliet.expect_message("romeo@example.org/orchard", "half of this is on its way already");
    juliet.expect_stream_error("conflict");
}

#[test]
fn the_end_of_the_server_is_told() {
    let server = Server::new();
    let mut juliet = server.login_websocket("juliet/balcony");
    server.stop();
    juliet.expect_stream_error("system-shutdown");
    assert_eq!(juliet.wire.controls, [(8, vec![0x03, 0xe8])]);
}
