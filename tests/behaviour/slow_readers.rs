//! Clients that don't read: a sender never waits for them, and the stanzas that they missed aren't
//! lost.

use rookery_fanout::OutboxLimits;
use rookery_testkit::{Client, Config, Security, Server};

fn small_outboxes() -> Server {
    let mut config = Config { tls: true, ..Config::default() };
    config.settings.outbox = OutboxLimits { soft: 8 * 1024, hard: 64 * 1024, ..OutboxLimits::default() };
    Server::with(config)
}

/// Returns an available session over TCP or TLS.
fn online(server: &Server, name: &str, security: Security) -> Client {
    let mut client = server.connect();
    client.log_in(&server.account(name), security);
    client.bind("r");
    client.send("<presence/>");
    client.expect_presence_of_itself();
    client
}

fn say(client: &mut Client, bodies: &[String]) {
    for body in bodies {
        client.send(&format!("<message to='romeo@example.org' type='chat'><body>{body}</body></message>"));
    }
    client.pump();
}

fn bodies(count: usize, bytes: usize) -> Vec<String> {
    (0..count).map(|number| format!("{number:04}{}", "x".repeat(bytes))).collect()
}

/// However writes are divided, no bytes are written twice or left out.
#[test]
fn partial_writes_leave_the_stream_whole() {
    let server = small_outboxes();
    for security in [Security::Plain, Security::StartTls] {
        let mut juliet = server.login("juliet/balcony");
        let mut romeo = online(&server, "romeo", security);
        let bodies = bodies(100, 300);
        for (window, most) in [(1, 1000), (7, 3), (333, 1000), (1000, 77), (5_000, 5_000)] {
            romeo.wire.peer.set_window(window);
            romeo.wire.peer.set_most(most);
            say(&mut juliet, &bodies);
            assert_eq!(romeo.bodies(), bodies, "{security:?}, window {window}");
        }
        romeo.expect_alive();
        romeo.close();
        juliet.close();
    }
}

/// A client that reads too slowly is closed with `resource-constraint` (RFC 6120 §4.9.3.17). The
/// stanzas that it hasn't read wait for its next session.
#[test]
fn a_reader_that_stops_is_closed_and_its_messages_survive() {
    for security in [Security::Plain, Security::StartTls] {
        let server = small_outboxes();
        let mut juliet = server.login("juliet/balcony");
        let mut nurse = server.online("nurse/house");
        let mut romeo = online(&server, "romeo", security);
        romeo.set_reading(false);
        romeo.wire.peer.set_window(5_000);
        let bodies = bodies(100, 1_000);
        say(&mut juliet, &bodies);
        // Neither the sender nor anybody else notices.
        juliet.expect_alive();
        nurse.expect_alive();
        assert_eq!(server.sessions(), 2, "{security:?}: the session is over, though its client doesn't know");
        // The client reads again: its stream is complete up to the end, which has the reason.
        romeo.set_reading(true);
        let mut read = Vec::new();
        loop {
            let element = romeo.expect_element();
            match element.child_text("body", rookery_xml::ns::CLIENT) {
                Some(body) => read.push(body),
                None => {
                    assert!(element.children().next().is_some_and(|error| error.name() == "resource-constraint"));
                    break;
                }
            }
        }
        romeo.expect_end();
        assert_eq!(read, bodies[..read.len()], "{security:?}");
        let mut romeo = online(&server, "romeo", security);
        let again = romeo.bodies();
        assert_eq!(again, bodies[bodies.len() - again.len()..], "{security:?}: the rest, in order");
        assert!(read.len() + again.len() >= bodies.len(), "{security:?}: nothing is lost");
    }
}

/// The same, but the client never reads again: its connection is dropped after a few seconds.
#[test]
fn a_reader_that_never_wakes_up_is_dropped() {
    let server = small_outboxes();
    let mut juliet = server.login("juliet/balcony");
    let mut romeo = server.online("romeo/orchard");
    romeo.set_reading(false);
    romeo.wire.peer.set_window(5_000);
    let bodies = bodies(100, 1_000);
    say(&mut juliet, &bodies);
    assert_eq!(server.connections(), 2);
    server.advance(5_000);
    assert_eq!(server.connections(), 1);
    assert!(romeo.wire.peer.is_closed());
    let again = server.online("romeo/tomb").bodies();
    assert!(again.len() >= bodies.len() - 5, "only what lay in the connection may be gone: {}", again.len());
    assert_eq!(again, bodies[bodies.len() - again.len()..]);
}

/// If one of several resources doesn't read, the others still get everything, once.
#[test]
fn other_resources_are_unharmed() {
    let server = small_outboxes();
    let mut juliet = server.login("juliet/balcony");
    let mut orchard = server.online("romeo/orchard");
    let mut tomb = server.online("romeo/tomb");
    orchard.all();
    tomb.set_reading(false);
    tomb.wire.peer.set_window(1_000);
    let bodies = bodies(100, 1_000);
    for body in &bodies {
        say(&mut juliet, std::slice::from_ref(body));
        orchard.pump();
    }
    assert_eq!(orchard.bodies(), bodies);
    orchard.expect_alive();
    assert_eq!(server.sessions(), 2);
}

/// A request to a client that doesn't read gets an error in the client's name (RFC 6121
/// §8.5.3.2.3), so that nobody waits for ever.
#[test]
fn a_request_that_was_not_read_is_answered() {
    let server = small_outboxes();
    let mut juliet = server.login("juliet/balcony");
    let mut romeo = server.login("romeo/orchard");
    romeo.set_reading(false);
    romeo.wire.peer.set_window(100);
    say(&mut juliet, &[]);
    juliet.send(&format!("<message to='romeo@example.org/orchard'><body>{}</body></message>", "x".repeat(500)));
    juliet.send("<iq type='get' to='romeo@example.org/orchard' id='1'><query xmlns='urn:example'/></iq>");
    juliet.expect_nothing();
    romeo.vanish();
    juliet.expect_in_any_order(&[
        "<message type='error' from='romeo@example.org/orchard'><error type='cancel'>\
         <service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>",
        "<iq type='error' id='1' from='romeo@example.org/orchard'><error type='cancel'>\
         <service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>",
    ]);
}

/// If a shard holds too many bytes, it ends the sessions with the most of them, no matter which of
/// them gets the next stanza.
#[test]
fn the_shard_is_relieved_by_those_who_fill_it() {
    let mut config = Config { shards: 1, ..Config::default() };
    config.settings.outbox =
        OutboxLimits { soft: 4 * 1024, hard: 64 * 1024, total: 300 * 1024, ..OutboxLimits::default() };
    let server = Server::with(config);
    let mut juliet = server.login("juliet/balcony");
    let silent = |name: &str| {
        let client = server.online(name);
        client.wire.peer.set_window(100);
        client
    };
    let mut innocent = silent("innocent/r");
    innocent.set_reading(false);
    let mut fat: Vec<Client> = (0..10).map(|number| silent(&format!("silent{number}/r"))).collect();
    fat.iter_mut().for_each(|client| client.set_reading(false));
    let send = |juliet: &mut Client, to: &str, count: usize| {
        for number in 0..count {
            let body = format!("{number}{}", "x".repeat(2_000));
            juliet.send(&format!("<message to='{to}@example.org' type='chat'><body>{body}</body></message>"));
        }
        juliet.pump();
    };
    send(&mut juliet, "innocent", 10);
    for number in 0..10 {
        send(&mut juliet, &format!("silent{number}"), 25);
        // This client is above the soft limit as well, and gets the next stanza while there are too
        // many bytes.
        send(&mut juliet, "innocent", 1);
    }
    assert!(server.counters().overflows >= 4, "{}", server.counters().overflows);
    innocent.set_reading(true);
    assert_eq!(innocent.bodies().len(), 20);
    innocent.expect_alive();
    juliet.expect_alive();
    assert!(server.sessions() < 12);
}

/// The bytes that wait for all sessions of an account together are bounded.
#[test]
fn many_sessions_of_one_account_hold_no_more_than_it_may() {
    let mut config = Config { shards: 1, ..Config::default() };
    config.settings.outbox =
        OutboxLimits { soft: 4 * 1024, hard: 64 * 1024, account: 150 * 1024, ..OutboxLimits::default() };
    let server = Server::with(config);
    let mut juliet = server.login("juliet/balcony");
    let mut clients: Vec<Client> = (0..10).map(|number| server.login(&format!("romeo/{number}"))).collect();
    for client in &mut clients {
        client.wire.peer.set_window(100);
        client.set_reading(false);
    }
    for number in 0..10 {
        for _ in 0..25 {
            let body = "x".repeat(2_000);
            juliet.send(&format!(
                "<message to='romeo@example.org/{number}' type='headline'><body>{body}</body></message>"
            ));
        }
        juliet.pump();
    }
    assert!((2..=4).contains(&(server.sessions() - 1)), "{}", server.sessions());
    assert!(server.counters().overflows >= 6);
    juliet.expect_alive();
}
