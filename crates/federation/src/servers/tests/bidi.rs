//! Tests one stream for both directions (XEP-0288), between servers that both support it.

use super::*;

fn dialback(world: &mut ServersWorld) {
    world.sides.iter_mut().for_each(|side| side.shown = Err(Untrusted::UnknownIssuer));
}

#[test]
fn one_stream_carries_both_directions_whatever_proves_them() {
    for (policy, connections) in [(PeerPolicy::Certificate, 1), (PeerPolicy::Dialback, 2)] {
        let mut world = ServersWorld::new([policy; 2]);
        if policy == PeerPolicy::Dialback {
            dialback(&mut world);
        }
        world.send(0, "romeo@a.example/x", "juliet@b.example", "there");
        world.settle();
        for number in 0..100 {
            world.send(1, "juliet@b.example", "romeo@a.example", &number.to_string());
            world.settle();
        }
        let expected: Vec<_> = (0..100).map(|number| format!("juliet@b.example romeo@a.example: {number}")).collect();
        assert_eq!(world.sides[0].delivered, expected);
        // With dialback another connection asks about the key.
        assert_eq!(world.attempts.len(), connections, "{policy:?}");
        world.advance(5_000);
        assert_eq!([world.sides[0].servers.waiting(), world.sides[1].servers.waiting()], [0, 0], "all is acknowledged");
        assert!(world.attempts.iter().all(|(from, _)| *from == 0 || policy == PeerPolicy::Dialback));
    }
}

#[test]
fn a_stream_is_for_one_pair_of_domains() {
    let mut world = ServersWorld::new(BOTH);
    world.sides[1].shown = Ok(Names::of(&["b.example", "rooms.b.example"]));
    world.send(0, "romeo@a.example/x", "juliet@b.example", "1");
    world.settle();
    world.send(1, "hall@rooms.b.example", "romeo@a.example", "2");
    world.settle();
    assert_eq!(world.sides[0].delivered, ["hall@rooms.b.example romeo@a.example: 2"]);
    assert_eq!(world.attempts.len(), 2, "a room speaks on a stream of its own");
}

#[test]
fn where_an_operator_doesn_t_want_it_each_direction_has_a_stream() {
    for side in 0..2 {
        let mut world = ServersWorld::new(BOTH);
        world.change(side, |settings| settings.bidi = false);
        world.send(0, "romeo@a.example/x", "juliet@b.example", "1");
        world.settle();
        world.send(1, "juliet@b.example", "romeo@a.example", "2");
        world.settle();
        assert_eq!(world.sides[0].delivered.len() + world.sides[1].delivered.len(), 2);
        assert_eq!(world.attempts.len(), 2, "{side}");
    }
}

#[test]
fn a_server_that_can_t_be_called_is_answered() {
    let mut world = ServersWorld::new(BOTH);
    world.dead.insert(address(0));
    world.send(1, "juliet@b.example", "romeo@a.example", "early");
    world.advance(1_000);
    world.send(0, "romeo@a.example/x", "juliet@b.example", "1");
    world.settle();
    assert_eq!(world.sides[0].delivered, ["juliet@b.example romeo@a.example: early"]);
    world.send(1, "juliet@b.example", "romeo@a.example", "2");
    world.settle();
    assert_eq!(world.sides[0].delivered.len(), 2);
    assert_eq!(world.sides[1].bounced, []);
}

/// Two servers that call each other at the same moment keep both streams: neither waits for the
/// other's.
#[test]
fn servers_that_call_at_the_same_time_both_get_through() {
    let mut world = ServersWorld::new(BOTH);
    for number in 0..50 {
        world.send(0, "romeo@a.example/x", "juliet@b.example", &number.to_string());
        world.send(1, "juliet@b.example", "romeo@a.example/x", &number.to_string());
    }
    world.settle();
    for side in &world.sides {
        assert_eq!(side.delivered.len(), 50);
        assert!(side.bounced.is_empty());
    }
}

#[test]
fn a_stream_rests_when_neither_direction_needs_it() {
    let mut world = ServersWorld::new(BOTH);
    world.send(0, "romeo@a.example/x", "juliet@b.example", "1");
    world.settle();
    for number in 0..10 {
        world.advance(300_000);
        world.send(1, "juliet@b.example", "romeo@a.example", &number.to_string());
    }
    world.advance(60_000);
    assert_eq!((world.attempts.len(), world.sides[0].delivered.len()), (1, 10), "the other direction keeps it");
    world.advance(2_000_000);
    assert_eq!([world.sides[0].servers.len(), world.sides[1].servers.len()], [0, 0]);
    world.send(1, "juliet@b.example", "romeo@a.example", "late");
    world.settle();
    assert_eq!((world.attempts.len(), world.sides[0].delivered.len()), (2, 11));
    assert!(world.sides.iter().all(|side| side.bounced.is_empty()));
}

/// After a break, the direction back is resumed by the server that has opened the stream, or by the
/// other one if that has something to send first.
#[test]
fn both_directions_go_on_when_a_stream_breaks() {
    for (first, other) in OTHERS.into_iter().enumerate() {
        let mut world = ServersWorld::new(BOTH);
        world.send(0, "romeo@a.example/x", "juliet@b.example", "1");
        world.settle();
        world.send(1, "juliet@b.example", "romeo@a.example", "2");
        world.advance(10_000);
        // Both are written, and neither is acknowledged when all connections break.
        world.send(0, "romeo@a.example/x", "juliet@b.example", "3");
        world.send(1, "juliet@b.example", "romeo@a.example", "4");
        world.left = Some(if first == 0 { 0 } else { 1 });
        world.settle();
        world.send(first, if first == 0 { "romeo@a.example/x" } else { "juliet@b.example" }, other, "5");
        world.advance(120_000);
        let delivered = [&world.sides[0].delivered, &world.sides[1].delivered].map(Vec::len);
        assert_eq!(delivered, if first == 0 { [2, 3] } else { [3, 2] }, "{first}");
        assert!(world.sides.iter().all(|side| side.bounced.is_empty() && side.servers.waiting() == 0));
    }
}

const OTHERS: [&str; 2] = ["juliet@b.example", "romeo@a.example"];
