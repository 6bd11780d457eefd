//! Frames in all the forms that RFC 6455 §5 allows.

use rookery_testkit::Server;
use rookery_testkit::websocket::{CONTINUATION, PING, PONG, TEXT, frame};

const MESSAGE: &str = "<message xmlns='jabber:client' to='romeo@example.org/orchard'><body>Wherefore?</body></message>";

#[test]
fn fragments_and_pings_between_them_are_one_message() {
    let server = Server::new();
    let mut juliet = server.login_websocket("juliet/balcony");
    let mut romeo = server.login("romeo/orchard");
    let (first, second) = MESSAGE.as_bytes().split_at(40);
    juliet.send_bytes(&frame(false, TEXT, first));
    juliet.send_bytes(&frame(true, PING, b"are you there"));
    juliet.pump();
    assert_eq!(juliet.wire.controls, [(PONG, b"are you there".to_vec())]);
    romeo.expect_nothing();
    juliet.send_bytes(&frame(false, CONTINUATION, b""));
    juliet.send_bytes(&frame(true, CONTINUATION, second));
    romeo.expect_message("juliet@example.org/balcony", "Wherefore?");
}

#[test]
fn bytes_may_come_one_by_one() {
    let server = Server::new();
    let mut juliet = server.login_websocket("juliet/balcony");
    let mut romeo = server.login("romeo/orchard");
    for byte in frame(true, TEXT, MESSAGE.as_bytes()).into_iter().chain(frame(true, TEXT, MESSAGE.as_bytes())) {
        juliet.send_bytes(&[byte]);
        juliet.pump();
    }
    romeo.expect_message("juliet@example.org/balcony", "Wherefore?");
    romeo.expect_message("juliet@example.org/balcony", "Wherefore?");
    romeo.expect_nothing();
}

#[test]
fn the_whole_login_may_come_byte_by_byte_and_ahead() {
    let server = Server::new();
    let mut client = server.connect_websocket(0);
    let open = "<open xmlns='urn:ietf:params:xml:ns:xmpp-framing' to='example.org' version='1.0'/>";
    for byte in frame(true, TEXT, open.as_bytes()) {
        client.send_bytes(&[byte]);
        client.pump();
    }
    client.expect_header();
    client.expect_element();
    server.account("juliet");
    let plain = "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGp1bGlldAByMHIzMG15cjBtMzA=</auth>";
    let wrong = frame(true, TEXT, plain.as_bytes());
    client.send_bytes(&[wrong.clone(), frame(true, PING, b"x"), wrong].concat());
    client.expect("<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><not-authorized/></failure>");
    client.expect("<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><not-authorized/></failure>");
    assert_eq!(client.wire.controls, [(PONG, b"x".to_vec())]);
}

#[test]
fn a_ping_is_not_answered_in_the_middle_of_a_stanza() {
    let server = Server::new();
    let mut juliet = server.login_websocket("juliet/balcony");
    let mut romeo = server.login("romeo/orchard");
    juliet.wire.peer.set_window(30);
    juliet.set_reading(false);
    romeo.send("<message to='juliet@example.org/balcony'><body>Neither, fair maid</body></message>");
    romeo.pump();
    juliet.send_bytes(&frame(true, PING, b"1"));
    juliet.send_bytes(&frame(true, PING, b"2"));
    juliet.pump();
    juliet.set_reading(true);
    juliet.expect_message("romeo@example.org/orchard", "Neither, fair maid");
    juliet.pump();
    assert_eq!(juliet.wire.controls, [(PONG, b"2".to_vec())], "the last of several is answered");
}

#[test]
fn white_space_keeps_a_connection_and_an_unasked_pong_means_nothing() {
    let server = Server::new();
    let mut juliet = server.login_websocket("juliet/balcony");
    juliet.send(" ");
    juliet.send("");
    juliet.send_bytes(&frame(true, PONG, b"?"));
    juliet.expect_alive();
}
