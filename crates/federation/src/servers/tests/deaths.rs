//! Tests connections that break and servers that die: each stanza arrives once, or its sender is
//! told.

use super::*;

/// Returns how often a stanza has arrived, and how often it was bounced.
fn fate(world: &ServersWorld, from: usize, id: &str) -> (usize, usize) {
    let arrived = world.sides[1 - from].delivered.iter().filter(|line| line.ends_with(&format!(": {id}"))).count();
    (arrived, world.sides[from].bounced.iter().filter(|(of, _)| of == id).count())
}

/// Returns the numbers of the stanzas that have arrived.
fn numbers(world: &ServersWorld, side: usize) -> Vec<u32> {
    world.sides[side].delivered.iter().map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect()
}

/// A connection breaks after each byte of a conversation in turn.
#[test]
fn whenever_a_connection_breaks_each_stanza_arrives_or_comes_back() {
    let run = |cut: Option<usize>, policy: PeerPolicy| {
        let mut world = ServersWorld::new([policy; 2]);
        if policy == PeerPolicy::Dialback {
            world.sides.iter_mut().for_each(|side| side.shown = Err(Untrusted::UnknownIssuer));
        }
        world.left = cut;
        for id in ["1", "2", "3"] {
            world.send(0, "romeo@a.example/x", "juliet@b.example", id);
        }
        world.settle();
        let carried = world.carried;
        world.advance(400_000);
        world.send(0, "romeo@a.example/x", "juliet@b.example", "4");
        world.advance(10_000);
        (world, carried)
    };
    for policy in [PeerPolicy::Certificate, PeerPolicy::Dialback] {
        let (whole, carried) = run(None, policy);
        assert_eq!(whole.sides[1].delivered.len(), 4);
        let mut arrived = 0;
        for cut in 0..carried {
            let (world, _) = run(Some(cut), policy);
            for id in ["1", "2", "3", "4"] {
                let fate = fate(&world, 0, id);
                assert!(matches!(fate, (1, 0) | (0, 1)), "{policy:?}, cut at {cut} of {carried}: {id}: {fate:?}");
                arrived += fate.0;
            }
            assert!(numbers(&world, 1).is_sorted());
            assert_eq!(world.sides[0].servers.waiting(), 0);
        }
        assert!(arrived > carried, "{arrived} of {carried} runs");
    }
}

/// Hundreds of deaths do no more harm than one, in both directions at the same time.
#[test]
fn hundreds_of_deaths_lose_double_and_reorder_nothing() {
    for seed in 1..5_u64 {
        let mut state = seed;
        let mut draw = move |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % most
        };
        let mut world = ServersWorld::new(BOTH);
        let (mut sent, mut deaths) = (0_u32, 0);
        while deaths < 300 {
            if world.left.is_none() {
                world.left = Some(draw(20_000) as usize);
                deaths += 1;
            }
            for _ in 0..draw(20) {
                world.send(0, "romeo@a.example/x", "juliet@b.example", &sent.to_string());
                world.send(1, "juliet@b.example/x", "romeo@a.example", &sent.to_string());
                sent += 1;
            }
            world.advance(draw(2_000));
        }
        world.left = None;
        world.advance(200_000);
        for side in 0..2 {
            let arrived = numbers(&world, 1 - side);
            assert!(arrived.is_sorted_by(|one, next| one < next), "seed {seed}: {arrived:?}");
            let returned: Vec<u32> = world.sides[side].bounced.iter().map(|(id, _)| id.parse().unwrap()).collect();
            let all: BTreeSet<u32> = arrived.iter().chain(&returned).copied().collect();
            assert_eq!(
                (all.len(), arrived.len() + returned.len()),
                (sent as usize, sent as usize),
                "seed {seed}, {side}"
            );
            assert!(arrived.len() > returned.len(), "{} of {sent}", arrived.len());
            assert_eq!(world.sides[side].servers.waiting(), 0);
        }
    }
}

/// A restarted server knows of no stream: stanzas that it had not acknowledged are bounced, and
/// none leaves twice.
#[test]
fn a_server_that_has_died_leaves_nobody_in_doubt() {
    let mut world = ServersWorld::new(BOTH);
    world.send(0, "romeo@a.example/x", "juliet@b.example", "1");
    world.advance(10_000);
    world.send(0, "romeo@a.example/x", "juliet@b.example", "2");
    world.settle();
    let mut fresh = ServersWorld::new(BOTH);
    world.sides[1].servers = fresh.sides.remove(1).servers;
    world.cut_all();
    world.send(0, "romeo@a.example/x", "juliet@b.example", "3");
    world.advance(10_000);
    assert_eq!([fate(&world, 0, "1"), fate(&world, 0, "2"), fate(&world, 0, "3")], [(1, 0), (1, 1), (1, 0)]);
    assert_eq!(world.sides[0].bounced, [("2".into(), "remote-server-timeout".into())]);
}

/// A server is unreachable for a while, with all its state: its stream continues.
#[test]
fn a_stream_waits_a_minute_for_its_server() {
    for (away_ms, fates) in [(18_000, [(1, 0), (1, 0)]), (70_000, [(1, 1), (0, 1)])] {
        let mut world = ServersWorld::new(BOTH);
        world.send(0, "romeo@a.example/x", "juliet@b.example", "1");
        world.settle();
        world.dead.insert(address(1));
        world.cut_all();
        world.send(0, "romeo@a.example/x", "juliet@b.example", "2");
        world.advance(away_ms);
        world.dead.clear();
        world.advance(60_000);
        assert_eq!([fate(&world, 0, "1"), fate(&world, 0, "2")], fates, "{away_ms}");
        assert_eq!(world.sides[0].servers.waiting(), 0);
    }
}

impl ServersWorld {
    /// Breaks all connections.
    fn cut_all(&mut self) {
        for wire in 0..self.wires.len() {
            self.sever(wire, 0);
        }
    }
}
