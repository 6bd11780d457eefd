//! Tests two servers that meet, in memory.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use rookery_stream::tls::trust::Names;

use super::*;
use crate::dialback::Secret;
use crate::settings::PeerPolicy;
use crate::targets::NotFound;

mod bidi;
mod deaths;
mod world;

use world::*;

fn proven_domains(world: &ServersWorld, side: usize) -> Vec<String> {
    let machines = world.sides[side].servers.streams.iter().filter_map(|(_, stream)| match &stream.machine {
        Machine::In { machine, .. } => Some(machine),
        Machine::Out { .. } | Machine::Component(_) => None,
    });
    machines.flat_map(|machine| machine.proven().map(str::to_owned).collect::<Vec<_>>()).collect()
}

const BOTH: [PeerPolicy; 2] = [PeerPolicy::Certificate; 2];

#[test]
fn certificates_prove_both_sides_and_stanzas_keep_their_order() {
    let mut world = ServersWorld::new(BOTH);
    for number in 0..200 {
        world.send(0, "romeo@a.example/x", "juliet@b.example", &number.to_string());
    }
    world.settle();
    for number in 200..1000 {
        world.send(0, "romeo@a.example/x", "juliet@b.example", &number.to_string());
    }
    world.settle();
    let expected: Vec<_> = (0..1000).map(|number| format!("romeo@a.example/x juliet@b.example: {number}")).collect();
    assert_eq!(world.sides[1].delivered, expected);
    assert_eq!(world.attempts.len(), 1);
    assert_eq!(proven_domains(&world, 1), ["a.example"]);
    world.send(1, "juliet@b.example", "romeo@a.example", "back");
    world.settle();
    assert_eq!(world.sides[0].delivered, ["juliet@b.example romeo@a.example: back"]);
}

#[test]
fn dialback_proves_who_has_no_certificate_where_that_is_allowed() {
    let mut world = ServersWorld::new([PeerPolicy::Dialback; 2]);
    for side in &mut world.sides {
        side.shown = Err(Untrusted::UnknownIssuer);
    }
    world.send(0, "romeo@a.example/x", "juliet@b.example", "1");
    world.settle();
    assert_eq!(world.sides[1].delivered, ["romeo@a.example/x juliet@b.example: 1"]);
    assert_eq!(proven_domains(&world, 1), ["a.example"]);
    // One connection is for the stanzas, the other asks the authority about the key, and is closed
    // again.
    assert_eq!(world.attempts.len(), 2);
    assert_eq!(world.sides[0].servers.len() + world.sides[1].servers.len(), 2);
}

#[test]
fn who_is_impersonated_by_dialback_says_no() {
    let mut world = ServersWorld::new([PeerPolicy::Dialback; 2]);
    for side in &mut world.sides {
        side.shown = Err(Untrusted::UnknownIssuer);
    }
    // DNS leads to the real `a.example`, which has another secret.
    let mut impostor = Outbound::new(
        world.sides[1].servers.settings.clone(),
        "a.example",
        "b.example",
        outbound::StreamPurpose::Stanzas,
    );
    let key = world.sides[1].servers.accept(address(7), false).unwrap();
    let said = talk(&mut world, key, &mut impostor);
    assert!(said.contains("type='invalid'"), "{said}");
    assert_eq!(proven_domains(&world, 1), [""; 0]);
}

/// Lets another party's machine call the second server, and returns all replies of the server.
fn talk(world: &mut ServersWorld, key: ConnectionKey, caller: &mut Outbound) -> String {
    let (mut scanner, mut said, mut out) = (Scanner::new(), Vec::new(), Vec::new());
    let mut read = 0;
    caller.start(false, &mut out);
    for _ in 0..50 {
        let chunk = std::mem::take(&mut out);
        world.sides[1].servers.received(key, &chunk, &"b.example");
        let mut others = VecDeque::new();
        while let Some(action) = world.sides[1].servers.next_action() {
            match action {
                Action::Write(at, bytes) if at == key => said.extend_from_slice(&bytes),
                Action::StartTls(at, _) if at == key => world.sides[1].servers.secured(key, Err(Untrusted::Missing)),
                other => others.push_back(other),
            }
        }
        world.sides[1].servers.actions = others;
        world.settle_but(key, &mut said);
        let step = caller.read(&said[read..], &mut scanner, &"b.example", &mut out);
        read += step.consumed;
        if matches!(step.event, Some(outbound::OutboundEvent::StartTls)) {
            read = said.len();
            caller.secured(Err(Untrusted::Missing), &mut out);
        }
    }
    String::from_utf8(said).unwrap()
}

#[test]
fn nothing_leaves_for_a_server_that_is_not_the_domain_s() {
    for shown in
        [Err(Untrusted::Expired), Err(Untrusted::UnknownIssuer), Ok(Names::of(&["c.example"])), Err(Untrusted::Missing)]
    {
        let mut world = ServersWorld::new(BOTH);
        world.sides[1].shown = shown;
        world.send(0, "romeo@a.example/x", "juliet@b.example", "secret");
        world.settle();
        assert_eq!(world.sides[1].delivered, [""; 0]);
        assert_eq!(world.sides[0].bounced, [("secret".into(), "remote-server-timeout".into())]);
    }
}

#[test]
fn who_proves_nothing_delivers_nothing() {
    let mut world = ServersWorld::new(BOTH);
    world.sides[0].shown = Err(Untrusted::UnknownIssuer);
    world.send(0, "romeo@a.example/x", "juliet@b.example", "1");
    world.settle();
    assert_eq!(world.sides[1].delivered, [""; 0]);
    assert_eq!(world.sides[0].bounced, [("1".into(), "remote-server-timeout".into())]);
}

#[test]
fn who_is_not_there_is_not_asked_again_at_once() {
    let mut world = ServersWorld::new(BOTH);
    world.unknown.insert("b.example", NotFound::NoServer);
    world.send(0, "romeo@a.example/x", "juliet@b.example", "1");
    world.settle();
    world.send(0, "romeo@a.example/x", "juliet@b.example", "2");
    world.settle();
    let gone = |id: &str| (id.to_owned(), "remote-server-not-found".to_owned());
    assert_eq!(world.sides[0].bounced, [gone("1"), gone("2")]);
    assert_eq!(world.attempts, []);
    world.unknown.clear();
    world.advance(300_000);
    world.send(0, "romeo@a.example/x", "juliet@b.example", "3");
    world.settle();
    assert_eq!(world.sides[1].delivered.len(), 1);
}

#[test]
fn no_answer_of_dns_is_not_an_answer() {
    let mut world = ServersWorld::new(BOTH);
    world.unknown.insert("b.example", NotFound::NoAnswer);
    world.send(0, "romeo@a.example/x", "juliet@b.example", "1");
    world.settle();
    assert_eq!(world.sides[0].bounced, [("1".into(), "remote-server-timeout".into())]);
}

#[test]
fn an_address_that_never_answers_costs_what_the_operator_allows() {
    let mut world = ServersWorld::new(BOTH);
    world.dead.insert(address(1));
    world.send(0, "romeo@a.example/x", "juliet@b.example", "1");
    world.advance(9_999);
    assert_eq!(world.sides[0].bounced, []);
    world.advance(1);
    assert_eq!(world.sides[0].bounced, [("1".into(), "remote-server-timeout".into())]);
    assert!(world.sides[0].servers.is_empty());
}

#[test]
fn storms_of_attempts_are_paced() {
    let mut world = ServersWorld::new(BOTH);
    world.sides[1].shown = Err(Untrusted::Expired);
    for _ in 0..600 {
        world.send(0, "romeo@a.example/x", "juliet@b.example", "1");
        world.advance(1000);
    }
    assert!(world.attempts.len() <= 12, "{}", world.attempts.len());
    assert_eq!(world.sides[0].bounced.len(), 600);
}

#[test]
fn an_idle_stream_closes_and_the_next_stanza_opens_another() {
    let mut world = ServersWorld::new(BOTH);
    world.send(0, "romeo@a.example/x", "juliet@b.example", "1");
    world.advance(599_000);
    assert_eq!(world.sides[0].servers.len(), 1);
    world.advance(2_000);
    assert!(world.sides[0].servers.is_empty() && world.sides[1].servers.is_empty());
    assert!(world.sides.iter().all(|side| side.lost.is_empty()), "nobody is lost");
    world.send(0, "romeo@a.example/x", "juliet@b.example", "2");
    world.settle();
    assert_eq!(world.sides[1].delivered.len(), 2);
    world.advance(3_000_000);
    assert!(world.sides[0].servers.routes.is_empty() && world.sides[0].servers.by_remote.is_empty());
}

#[test]
fn one_sender_does_not_fill_the_queue_of_others() {
    let mut world = ServersWorld::new(BOTH);
    world.dead.insert(address(1));
    for number in 0..400 {
        world.send(0, "romeo@a.example/x", "juliet@b.example", &number.to_string());
    }
    world.send(0, "mercutio@a.example/x", "juliet@b.example", "other");
    world.settle();
    let refused: Vec<_> = world.sides[0].bounced.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(refused.len(), 150);
    assert!(!refused.contains(&"other"));
    assert!(world.sides[0].bounced.iter().all(|(_, condition)| condition == "resource-constraint"));
}

#[test]
fn nobody_sends_us_into_private_networks() {
    let mut world = ServersWorld::new(BOTH);
    world.send(0, "romeo@a.example/x", "juliet@b.example", "1");
    world.sides[0].servers.next_action();
    let found = Ok(vec![Address::new("127.0.0.1:5222".parse().unwrap(), false)]);
    world.sides[0].servers.resolved("b.example", &found);
    world.settle();
    assert_eq!(world.attempts, []);
    assert_eq!(world.sides[0].bounced, [("1".into(), "remote-server-not-found".into())]);
}

#[test]
fn denied_domains_are_neither_looked_up_nor_heard() {
    let mut world = ServersWorld::new(BOTH);
    world.send(0, "romeo@a.example/x", "juliet@b.example", "1");
    world.settle();
    world.change(1, |settings| settings.rules.deny = vec![crate::Rule::read("a.example").unwrap()]);
    assert!(world.sides[1].servers.is_empty(), "its stream has ended");
    world.send(1, "juliet@b.example", "romeo@a.example", "back");
    world.settle();
    assert_eq!(world.sides[1].bounced, [("back".into(), "not-allowed".into())]);
    world.advance(10_000);
    world.send(0, "romeo@a.example/x", "juliet@b.example", "2");
    world.settle();
    assert_eq!(world.sides[1].delivered.len(), 1);
    assert_eq!(world.sides[0].bounced, [("2".into(), "remote-server-timeout".into())]);
}

#[test]
fn one_address_has_few_connections_that_prove_nothing() {
    let mut world = ServersWorld::new(BOTH);
    let keys: Vec<_> = (0..100).filter_map(|_| world.sides[1].servers.accept(address(9), false)).collect();
    assert_eq!(keys.len(), crate::strangers::MOST_OF_ADDRESS as usize);
    assert!(world.sides[1].servers.accept(address(8), false).is_some(), "others are let in");
    world.advance(31_000);
    for key in keys {
        world.sides[1].servers.closed(key, "closed");
    }
    assert!(world.sides[1].servers.accept(address(9), false).is_some());
}

#[test]
fn stopping_gives_back_what_waits() {
    let mut world = ServersWorld::new(BOTH);
    world.dead.insert(address(1));
    world.send(0, "romeo@a.example/x", "juliet@b.example", "1");
    world.settle();
    world.sides[0].servers.stop();
    world.settle();
    assert_eq!(world.sides[0].bounced, [("1".into(), "remote-server-timeout".into())]);
    assert!(world.sides[0].servers.is_empty());
}

#[test]
fn many_names_on_one_stream_make_few_connections() {
    let mut world = ServersWorld::new([PeerPolicy::Dialback; 2]);
    let key = world.sides[1].servers.accept(address(9), false).unwrap();
    let header = "<stream:stream xmlns='jabber:server' xmlns:stream='http://etherx.jabber.org/streams' \
                  xmlns:db='jabber:server:dialback' from='x.example' to='b.example' version='1.0'>";
    let servers = &mut world.sides[1].servers;
    servers.received(
        key,
        format!("{header}<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>").as_bytes(),
        &"b.example",
    );
    servers.secured(key, Err(Untrusted::Missing));
    servers.received(key, header.as_bytes(), &"b.example");
    servers.actions.clear();
    for number in 0..1_000 {
        let ask = format!("<db:result from='x{number}.example' to='b.example'>key</db:result>");
        servers.received(key, ask.as_bytes(), &"b.example");
    }
    let resolved = servers.actions.iter().filter(|action| matches!(action, Action::Resolve(_))).count();
    assert_eq!(resolved, inbound::MOST_PENDING);
    // Many streams that name one domain lead to one connection to its server.
    assert_eq!(servers.routes.len(), inbound::MOST_PENDING);
}

#[test]
fn a_server_that_breaks_off_or_cannot_be_reached_is_lost() {
    let mut world = ServersWorld::new(BOTH);
    world.send(0, "romeo@a.example/x", "juliet@b.example", "1");
    world.settle();
    world.left = Some(1);
    world.send(0, "romeo@a.example/x", "juliet@b.example", "2");
    world.settle();
    assert_eq!(world.sides[0].lost, ["b.example"], "its stream has broken");
    assert_eq!(world.sides[1].lost, ["a.example"], "so has this one's");
    world.sides[0].lost.clear();
    world.left = None;
    world.unknown.insert("c.example", NotFound::NoAnswer);
    world.send(0, "romeo@a.example/x", "paris@c.example", "3");
    world.settle();
    assert_eq!(world.sides[0].lost, ["c.example"]);
}

#[test]
fn a_stream_does_not_outlive_its_certificate() {
    let mut world = ServersWorld::new(BOTH);
    for side in &mut world.sides {
        side.shown = side.shown.clone().map(|names| names.for_seconds(3_600));
    }
    for minute in 0..59 {
        world.send(0, "romeo@a.example/x", "juliet@b.example", &minute.to_string());
        world.advance(60_000);
    }
    assert_eq!(world.attempts.len(), 1);
    // Both servers show new certificates, and the streams continue from there.
    for minute in 59..90 {
        world.send(0, "romeo@a.example/x", "juliet@b.example", &minute.to_string());
        world.advance(60_000);
    }
    assert_eq!(world.attempts.len(), 2);
    world.sides[0].shown = Err(Untrusted::Expired);
    for minute in 90..180 {
        world.send(0, "romeo@a.example/x", "juliet@b.example", &minute.to_string());
        world.advance(60_000);
    }
    let arrived = world.sides[1].delivered.len();
    assert!((119..150).contains(&arrived), "until the second ones have expired: {arrived}");
    assert_eq!(world.sides[0].bounced.len() + arrived, 180);
}

#[test]
fn who_was_proven_by_an_authority_that_is_believed_no_more_proves_it_again() {
    let mut world = ServersWorld::new(BOTH);
    world.send(0, "romeo@a.example/x", "juliet@b.example", "1");
    world.settle();
    world.sides[1].servers.judge_again();
    world.settle();
    assert_eq!(proven_domains(&world, 1), [""; 0]);
    world.sides[0].shown = Err(Untrusted::UnknownIssuer);
    world.send(0, "romeo@a.example/x", "juliet@b.example", "2");
    world.settle();
    assert_eq!((world.attempts.len(), world.sides[1].delivered.len()), (2, 1));
}

#[test]
fn a_stanza_that_the_peer_would_not_take_comes_back_alone() {
    let mut world = ServersWorld::new([PeerPolicy::Certificate; 2]);
    world.change(1, |settings| settings.limits.bytes = 20_000);
    world.send(0, "x@a.example", "y@b.example", "before");
    world.send(0, "x@a.example", "y@b.example", &"large".repeat(4_000));
    world.send(0, "x@a.example", "y@b.example", "behind");
    world.settle();
    assert_eq!(world.sides[1].delivered, ["x@a.example y@b.example: before", "x@a.example y@b.example: behind"]);
    let [(_, condition)] = world.sides[0].bounced.as_slice() else { panic!("{:?}", world.sides[0].bounced) };
    assert_eq!(condition, "policy-violation");
}

#[test]
fn operators_see_streams_and_end_them() {
    let mut world = ServersWorld::new([PeerPolicy::Certificate; 2]);
    world.unknown.insert("c.example", NotFound::NoServer);
    world.send(0, "x@a.example", "y@b.example", "1");
    world.send(0, "x@a.example", "y@c.example", "2");
    world.settle();
    let shown = |world: &ServersWorld, side: usize| -> Vec<String> {
        let mut all = world.sides[side].servers.report();
        all.sort();
        let line = |it: &crate::report::StreamReport| {
            format!("{} {} {} {} {} {}", it.remote, it.local, it.direction.name(), it.state, it.security, it.trouble)
        };
        all.iter().map(line).collect()
    };
    assert_eq!(
        shown(&world, 0),
        [
            "b.example a.example out ready TLS, certificate ",
            "b.example a.example in ready TLS, certificate ",
            "c.example a.example out failed  DNS has no server for it",
        ]
    );
    assert_eq!(shown(&world, 1), ["a.example b.example in ready TLS, certificate "]);
    let mut tally = crate::report::Tally::default();
    world.sides[0].servers.count(&mut tally);
    assert_eq!((tally.ready.get(&("out", "TLS, certificate")), tally.failed), (Some(&1), 1));
    // Streams of our other domains aren't included.
    assert_eq!(world.sides[0].servers.close("b.example", Some(&["z.example".to_owned()])), 0);
    assert_eq!(world.sides[0].servers.close("b.example", Some(&["example".to_owned()])), 1);
    world.settle();
    assert_eq!(shown(&world, 0)[0], "b.example a.example out at rest  ");
    // A failed way may be tried at once.
    assert_eq!(world.sides[0].servers.close("c.example", None), 1);
    world.unknown.clear();
    world.send(0, "x@a.example", "y@b.example", "3");
    world.settle();
    assert_eq!(world.sides[1].delivered.len(), 2);
    assert_eq!(world.sides[1].servers.close("a.example", None), 1);
    world.settle();
    assert_eq!(shown(&world, 1), Vec::<String>::new());
}
