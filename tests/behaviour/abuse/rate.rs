//! A session that sends too fast is read later.

use rookery_hub::Settings;
use rookery_hub::rate::Rate;
use rookery_testkit::{Client, Config, Server};

fn server(rate: Rate) -> (Server, Client, Client) {
    let server = Server::with(Config { settings: Settings { rate, ..Settings::default() }, ..Config::default() });
    let romeo = server.online("romeo/orchard");
    let juliet = server.login("juliet/balcony");
    (server, romeo, juliet)
}

fn say(client: &mut Client, times: std::ops::Range<usize>) {
    for body in times {
        client.send(&format!("<message to='romeo@example.org/orchard' type='chat'><body>{body}</body></message>"));
    }
}

fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

/// The burst passes at once, the rest with time; nothing is lost or out of order, and nobody else
/// waits.
#[test]
fn a_session_sends_so_many_stanzas_per_second() {
    let (server, mut romeo, mut juliet) = server(Rate { bytes: 0, stanzas: 10, burst_seconds: 2 });
    let mut nurse = server.login("nurse/house");
    server.advance(10_000);
    say(&mut juliet, 0..50);
    juliet.pump();
    assert_eq!(romeo.bodies(), numbers(0..21), "the one that is too much is taken");
    say(&mut nurse, 100..101);
    nurse.pump();
    assert_eq!(romeo.bodies(), ["100"]);
    server.advance(1000);
    assert_eq!(romeo.bodies(), numbers(21..31));
    server.advance(60_000);
    assert_eq!(romeo.bodies(), numbers(31..50));
    juliet.expect_alive();
}

/// Bytes count as well: one large stanza is as much as many small ones.
#[test]
fn a_session_sends_so_many_bytes_per_second() {
    let (server, mut romeo, mut juliet) = server(Rate { bytes: 1000, stanzas: 0, burst_seconds: 1 });
    server.advance(10_000);
    let text = "x".repeat(5000);
    juliet.send(&format!("<message to='romeo@example.org/orchard' type='chat'><body>{text}</body></message>"));
    say(&mut juliet, 0..1);
    juliet.pump();
    assert_eq!(romeo.bodies().len(), 1);
    server.advance(3000);
    assert_eq!(romeo.bodies().len(), 0);
    server.advance(2000);
    assert_eq!(romeo.bodies(), ["0"]);
}

/// A session whose client disappears while it waits ends like any other, and its successor starts
/// with a full allowance.
#[test]
fn a_session_that_waits_can_end() {
    let (server, mut romeo, mut juliet) = server(Rate { bytes: 0, stanzas: 1, burst_seconds: 1 });
    server.advance(10_000);
    say(&mut juliet, 0..5);
    juliet.pump();
    juliet.vanish();
    assert_eq!(server.sessions(), 1);
    assert_eq!(romeo.bodies(), numbers(0..2));
    let mut again = server.login("juliet/balcony");
    server.advance(10_000);
    say(&mut again, 5..6);
    again.pump();
    assert_eq!(romeo.bodies(), ["5"]);
}

/// Without limits nobody waits.
#[test]
fn without_a_limit_nothing_waits() {
    let (_server, mut romeo, mut juliet) = server(Rate { bytes: 0, stanzas: 0, burst_seconds: 0 });
    say(&mut juliet, 0..500);
    juliet.pump();
    assert_eq!(romeo.bodies().len(), 500);
}
