//! Input that no client sends. Each case gets the error that its standard names, then the closing
//! handshake.

use rookery_testkit::websocket::{BINARY, TEXT, frame};
use rookery_testkit::{Client, Server};

fn expect_refusal(mut client: Client, condition: &str, status: u16) {
    client.expect_stream_error(condition);
    assert_eq!(client.wire.controls, [(8, status.to_be_bytes().to_vec())]);
}

#[test]
fn forty_megabytes_before_login_are_refused_by_their_head() {
    let server = Server::new();
    let mut client = server.connect_websocket(0);
    let mut head = vec![0x81, 0x80 | 127];
    head.extend((40u64 << 20).to_be_bytes());
    head.extend([1, 2, 3, 4]);
    client.send_bytes(&head);
    client.expect_header();
    expect_refusal(client, "policy-violation", 1009);
}

#[test]
fn many_small_fragments_are_no_way_around_the_limit() {
    let server = Server::new();
    let mut client = server.connect_websocket(0);
    client.open("example.org");
    client.send_bytes(&frame(false, TEXT, b"<a>"));
    for _ in 0..11 {
        client.send_bytes(&frame(false, 0, &[b'x'; 1000]));
    }
    expect_refusal(client, "policy-violation", 1009);
}

#[test]
fn unmasked_and_binary_frames_are_refused() {
    let server = Server::new();
    let mut client = server.login_websocket("juliet/balcony");
    client.send_bytes(b"\x81\x04<a/>");
    expect_refusal(client, "bad-format", 1002);
    let mut client = server.login_websocket("juliet/balcony");
    client.send_bytes(&frame(true, BINARY, b"<a/>"));
    expect_refusal(client, "bad-format", 1003);
}

#[test]
fn a_message_is_one_element_of_utf_8() {
    let server = Server::new();
    let two = "<presence xmlns='jabber:client'/><presence xmlns='jabber:client'/>";
    let cases: [(&[u8], &str); 6] = [
        (two.as_bytes(), "not-well-formed"),
        (b"<message xmlns='jabber:client'>", "not-well-formed"),
        (b"hello", "not-well-formed"),
        (b"</message>", "not-well-formed"),
        (b"<?xml version='1.0'?><presence/>", "restricted-xml"),
        (b"<open xmlns='urn:ietf:params:xml:ns:xmpp-framing' to='example.org' version='1.0'/>", "bad-format"),
    ];
    for (message, condition) in cases {
        let mut client = server.login_websocket("juliet/balcony");
        client.send_bytes(&frame(true, TEXT, message));
        expect_refusal(client, condition, 1000);
    }
    let mut client = server.login_websocket("juliet/balcony");
    client.send_bytes(&frame(true, TEXT, b"<message xmlns='jabber:client'><body>\xff</body></message>"));
    expect_refusal(client, "not-well-formed", 1007);
    assert_eq!(server.sessions(), 0);
}

#[test]
fn before_login_the_same_holds() {
    let server = Server::new();
    for message in ["<presence/><presence/>", "<presence>", "text"] {
        let mut client = server.connect_websocket(0);
        client.open("example.org");
        client.send(message);
        expect_refusal(client, "not-well-formed", 1000);
    }
    let mut client = server.connect_websocket(0);
    client.open("example.org");
    client.send("<presence xmlns='jabber:client'/>");
    expect_refusal(client, "not-authorized", 1000);
}

#[test]
fn a_stream_header_of_tcp_is_no_document() {
    let server = Server::new();
    let mut client = server.connect_websocket(0);
    client.send(
        "<stream:stream to='example.org' version='1.0' xmlns='jabber:client' \
         xmlns:stream='http://etherx.jabber.org/streams'>",
    );
    client.expect_header();
    expect_refusal(client, "not-well-formed", 1000);
}

#[test]
fn who_says_nothing_is_closed() {
    let server = Server::new();
    let mut client = server.connect_websocket(0);
    server.advance(61_000);
    client.expect_header();
    expect_refusal(client, "connection-timeout", 1000);
    server.advance(10_000);
    assert_eq!(server.connections(), 0);
}
