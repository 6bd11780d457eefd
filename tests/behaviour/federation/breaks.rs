//! Servers and connections that end in the middle.

use rookery_testkit::client::xml;
use rookery_testkit::wire::{Item, Wire};
use rookery_testkit::{Config, Internet};

use super::{chat, names, plain, scene, server, start};

#[test]
fn a_server_that_has_died_is_found_again() {
    let (a, b, mut romeo, mut juliet) = scene();
    chat(&mut romeo, "juliet@b.example/balcony", "1");
    juliet.expect_message("romeo@a.example/orchard", "1");
    // It acknowledges.
    a.advance(10_000);
    b.kill();
    let mut juliet = b.online("juliet@b.example/balcony");
    romeo.expect_nothing();
    chat(&mut romeo, "juliet@b.example/balcony", "2");
    juliet.expect_message("romeo@a.example/orchard", "2");
}

/// Connections break at any byte, those of TLS included: everything arrives once and in order.
#[test]
fn connections_that_break_lose_double_and_reorder_nothing() {
    let internet = Internet::default();
    let servers = ["a.example", "b.example"].map(|domain| {
        start(domain, Config { shards: 2, ..Config::default() }, internet.meeting(&names(domain), plain))
    });
    let mut romeo = servers[0].online("romeo@a.example/orchard");
    let mut juliet = servers[1].online("juliet@b.example/balcony");
    internet.live_for((0..200).map(|number| 30_000 + number * 7_919 % 40_000));
    let (mut sent, mut there, mut back) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..3_000 {
        chat(&mut romeo, "juliet@b.example/balcony", &number.to_string());
        chat(&mut juliet, "romeo@a.example/orchard", &number.to_string());
        sent.push(number.to_string());
        if number % 10 == 0 {
            // Strangers take 600 in a minute.
            servers[0].advance(1_200);
            there.extend(juliet.bodies());
            back.extend(romeo.bodies());
        }
    }
    servers[0].advance(60_000);
    there.extend(juliet.bodies());
    back.extend(romeo.bodies());
    assert!(internet.calls() > 15, "{}", internet.calls());
    assert_eq!((&there, &back), (&sent, &sent));
}

#[test]
fn a_server_stops_with_streams_open() {
    let (a, _b, mut romeo, mut juliet) = scene();
    chat(&mut romeo, "juliet@b.example/balcony", "1");
    juliet.expect_message("romeo@a.example/orchard", "1");
    a.stop();
    a.advance(20_000);
    assert!(a.is_finished());
}

/// A domain whose DNS leads to this server: it calls itself, once, and says no.
#[test]
fn a_domain_that_leads_back_here_is_a_loop_that_ends_at_once() {
    let internet = Internet::default();
    let a = server(&internet, "a.example", plain);
    let here = internet.says("a.example");
    internet.say("loop.example", here);
    let mut romeo = a.online("romeo@a.example/orchard");
    for _ in 0..10 {
        chat(&mut romeo, "x@loop.example", "1");
        assert!(xml(&romeo.expect_element()).contains("remote-server-timeout"));
    }
    assert_eq!(internet.calls(), 1);
}

/// A server that ends its stream in good order reads to the end of ours: a stanza of which it has
/// got half arrives, and doesn't come back as well (RFC 6120 §4.4, §8.3.1).
#[test]
fn half_a_stanza_on_a_stream_that_both_sides_end_arrives_and_does_not_come_back() {
    let internet = Internet::default();
    let calls = internet.play("b.example");
    let meeting = internet.meeting_without_tls(&names("a.example"));
    let a = start("a.example", Config::default(), meeting);
    let mut romeo = a.online("romeo@a.example/orchard");
    chat(&mut romeo, "juliet@b.example", "1");
    a.settle();
    let mut wire = Wire::new(calls.take().expect("a call"));
    let read = |wire: &mut Wire| {
        a.settle();
        while wire.receive() {
            a.settle();
        }
        let elements = std::iter::from_fn(|| wire.take()).filter_map(|item| match item {
            Item::Element(element) => element.attr("id").map(str::to_owned),
            _ => None,
        });
        elements.collect::<Vec<String>>()
    };
    read(&mut wire);
    // Without a version: it has no features, and asks for no TLS (RFC 6120 §4.7.5).
    wire.send(
        b"<stream:stream xmlns='jabber:server' xmlns:stream='http://etherx.jabber.org/streams' \
          xmlns:db='jabber:server:dialback' from='b.example' to='a.example' id='1'>",
    );
    read(&mut wire);
    wire.send(b"<db:result from='b.example' to='a.example' type='valid'/>");
    assert_eq!(read(&mut wire), ["1"]);
    wire.peer.set_window(40);
    chat(&mut romeo, "juliet@b.example", "2");
    a.settle();
    assert_eq!(wire.peer.arrived_bytes(), 40, "the rest waits");
    wire.send(b"</stream:stream>");
    a.settle();
    assert_eq!(read(&mut wire), ["2"]);
    romeo.expect_nothing();
    wire.peer.shutdown();
    a.advance(20_000);
    romeo.expect_nothing();
}
