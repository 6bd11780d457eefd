//! XEP-0160: messages for users who are away. RFC 6121 §8.5.2.2.1.

use rookery_hub::Value;
use rookery_store::StoreError;
use rookery_store::held::HeldStores;
use rookery_store::memory::Memory;
use rookery_testkit::{Client, Config, Server, befriend};
use rookery_xml::{Element, ns};

fn say(client: &mut Client, to: &str, bodies: &[&str]) {
    for body in bodies {
        client.send(&format!("<message to='{to}' type='chat' id='m'><body>{body}</body></message>"));
    }
    client.pump();
}

fn waiting(server: &Server, name: &str) -> u64 {
    let owner = server.address(name);
    server.finish(server.stores().offline.count(owner.as_ref())).expect("a count")
}

/// Returns the bodies and the stamps of delayed delivery (XEP-0203), in their order.
fn take_delivered(client: &mut Client) -> Vec<(String, Option<String>)> {
    let stamp = |message: &Element| {
        let delay = message.child("delay", ns::DELAY)?;
        assert_eq!(delay.attr("from"), Some("example.org"));
        delay.attr("stamp").map(str::to_owned)
    };
    let messages = client.all().into_iter().filter(|element| element.is("message", ns::CLIENT));
    messages.map(|message| (message.child_text("body", ns::CLIENT).unwrap_or_default(), stamp(&message))).collect()
}

#[test]
fn messages_wait_and_come_in_order_with_the_time_of_their_arrival() {
    let server = Server::new();
    server.account("romeo");
    let mut juliet = server.login("juliet/balcony");
    say(&mut juliet, "romeo@example.org", &["1"]);
    server.advance(61_000);
    say(&mut juliet, "romeo@example.org", &["2", "3"]);
    juliet.expect_nothing();
    server.restart();
    let mut romeo = server.login("romeo/orchard");
    romeo.expect_nothing();
    romeo.send("<presence/>");
    let stamp = |text: &str| Some(format!("2026-01-01T00:{text}Z"));
    let expected = [("1", "00:00"), ("2", "01:01"), ("3", "01:01")].map(|(body, at)| (body.to_owned(), stamp(at)));
    assert_eq!(take_delivered(&mut romeo), expected);
    assert_eq!(waiting(&server, "romeo"), 0);
    romeo.close();
    assert!(take_delivered(&mut server.online("romeo/orchard")).is_empty(), "each is delivered once");
}

/// RFC 6120 §10.1: messages that have waited come before new ones, however slow the store is.
#[test]
fn what_waited_comes_before_what_is_new() {
    let held = HeldStores::new(Memory::stores());
    held.set_flowing(true);
    let server = Server::with(Config { stores: held.stores(), ..Config::default() });
    server.account("romeo");
    let mut juliet = server.login("juliet/balcony");
    say(&mut juliet, "romeo@example.org", &["1", "2"]);
    let mut romeo = server.login("romeo/orchard");
    held.set_flowing(false);
    romeo.send("<presence/>");
    romeo.pump();
    say(&mut juliet, "romeo@example.org", &["3"]);
    say(&mut juliet, "romeo@example.org/orchard", &["4"]);
    assert!(romeo.bodies().is_empty());
    let mut bodies = Vec::new();
    for _ in 0..20 {
        held.release_one();
        bodies.extend(romeo.bodies());
    }
    assert_eq!(bodies, ["1", "2", "3", "4"]);
    held.set_flowing(true);
    assert_eq!(waiting(&server, "romeo"), 0);
}

/// XEP-0160 §2: the sender gets `<service-unavailable/>` once the queue is full. Messages in the
/// queue stay, and a sender of many leaves room for others.
#[test]
fn the_queue_is_bounded() {
    let options = vec![("offline", "limit", Value::Number(4))];
    let server = Server::with(Config { options, ..Config::default() });
    server.account("romeo");
    let mut juliet = server.login("juliet/balcony");
    say(&mut juliet, "romeo@example.org", &["1", "2"]);
    juliet.expect_nothing();
    say(&mut juliet, "romeo@example.org", &["3"]);
    juliet.expect(
        "<message type='error' id='m' from='romeo@example.org'><error type='cancel'>\
         <service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>",
    );
    let mut nurse = server.login("nurse/hall");
    say(&mut nurse, "romeo@example.org", &["4"]);
    nurse.expect_nothing();
    assert_eq!(server.online("romeo/orchard").bodies(), ["1", "2", "4"]);
}

/// A few large messages fill the queue as well as many small ones.
#[test]
fn the_queue_is_bounded_in_bytes() {
    let options = vec![("offline", "most_bytes", Value::Number(400_000))];
    let server = Server::with(Config { options, ..Config::default() });
    server.account("romeo");
    let mut juliet = server.login("juliet/balcony");
    let body = "x".repeat(90_000);
    say(&mut juliet, "romeo@example.org", &[&body, &body]);
    juliet.expect_nothing();
    say(&mut juliet, "romeo@example.org", &[&body]);
    assert_eq!(juliet.expect_element().attr("type"), Some("error"));
    say(&mut juliet, "romeo@example.org", &["a short one"]);
    juliet.expect_nothing();
    assert_eq!(waiting(&server, "romeo"), 3);
}

/// RFC 6121 §8.5.2.2.1: a resource with a negative priority counts as none.
#[test]
fn a_negative_priority_gets_none_until_it_changes() {
    let server = Server::new();
    let mut juliet = server.login("juliet/balcony");
    let mut romeo = server.login("romeo/orchard");
    romeo.send("<presence><priority>-1</priority></presence>");
    romeo.expect_presence_of_itself();
    say(&mut juliet, "romeo@example.org", &["1"]);
    romeo.expect_nothing();
    assert_eq!(waiting(&server, "romeo"), 1);
    romeo.send("<presence/>");
    assert_eq!(romeo.bodies(), ["1"]);
    romeo.send("<presence><show>away</show></presence>");
    assert!(romeo.bodies().is_empty());
}

/// Only one of several sessions gets stored messages; all of them get new ones.
#[test]
fn one_session_gets_them() {
    let server = Server::new();
    server.account("romeo");
    let mut juliet = server.login("juliet/balcony");
    say(&mut juliet, "romeo@example.org", &["1"]);
    let mut orchard = server.online("romeo/orchard");
    let mut tomb = server.online("romeo/tomb");
    say(&mut juliet, "romeo@example.org", &["2"]);
    assert_eq!((orchard.bodies(), tomb.bodies()), (vec!["1".into(), "2".into()], vec!["2".to_owned()]));
}

/// Messages that a dying session had not read are there for the next one, in order. A message that
/// a client has received and not acknowledged is still in the store. Another session that comes and
/// goes is no reason to deliver it again.
#[test]
fn a_session_gets_each_once_though_another_comes_and_goes() {
    let server = Server::new();
    let romeo = server.account("romeo");
    let mut juliet = server.online("juliet/balcony");
    say(&mut juliet, romeo.as_str(), &["1", "2"]);
    let mut orchard = server.login("romeo/orchard");
    orchard.enable();
    let mut handled = 0;
    let mut bodies = |orchard: &mut Client| -> Vec<String> {
        let stanzas: Vec<Element> = orchard.all().into_iter().filter(|it| it.ns() == ns::CLIENT).collect();
        handled += stanzas.len();
        stanzas.iter().filter_map(|it| it.child_text("body", ns::CLIENT)).collect()
    };
    orchard.send("<presence/>");
    assert_eq!(bodies(&mut orchard), ["1", "2"]);
    let garden = server.login("romeo/garden");
    garden.wire.peer.write(b"<presence/></stream:stream>");
    assert_eq!(bodies(&mut orchard), Vec::<String>::new(), "it has them");
    say(&mut juliet, romeo.as_str(), &["3"]);
    assert_eq!(bodies(&mut orchard), ["3"]);
    // The resource was unavailable, and is available again before it has acknowledged anything.
    orchard.send("<presence type='unavailable'/><presence/>");
    assert_eq!(bodies(&mut orchard), Vec::<String>::new());
    assert_eq!(waiting(&server, "romeo"), 2);
    orchard.send(&format!("<a xmlns='urn:xmpp:sm:3' h='{handled}'/>"));
    orchard.pump();
    assert_eq!(waiting(&server, "romeo"), 0);
}

#[test]
fn a_session_that_dies_midway_loses_nothing() {
    let server = Server::new();
    server.account("romeo");
    let mut juliet = server.login("juliet/balcony");
    let bodies: Vec<String> = (0..40).map(|number| format!("{number:03}{}", "x".repeat(1000))).collect();
    say(&mut juliet, "romeo@example.org", &bodies.iter().map(String::as_str).collect::<Vec<_>>());
    let mut romeo = server.login("romeo/orchard");
    romeo.wire.peer.set_window(5_000);
    romeo.set_reading(false);
    romeo.send("<presence/>");
    server.settle();
    // He reads about three messages, and is gone.
    romeo.wire.appetite = 4_000;
    romeo.wire.receive();
    let read = std::iter::from_fn(|| romeo.wire.take()).count();
    assert!((2..6).contains(&read), "{read}");
    romeo.vanish();
    let found = server.online("romeo/tomb").bodies();
    assert_eq!(found, bodies[bodies.len() - found.len()..], "the rest, in order");
    assert!(found.len() >= bodies.len() - 6, "only what the connection had taken is gone: {}", found.len());
}

/// The same with more than one portion: messages that the session gives back must not come after
/// later ones that were still in the store.
#[test]
fn what_comes_back_keeps_its_place() {
    let server = Server::new();
    server.account("romeo");
    let mut juliet = server.login("juliet/balcony");
    let bodies: Vec<String> = (0..200).map(|number| format!("{number:03}{}", "x".repeat(6_000))).collect();
    say(&mut juliet, "romeo@example.org", &bodies.iter().map(String::as_str).collect::<Vec<_>>());
    let mut romeo = server.login("romeo/orchard");
    romeo.set_reading(false);
    romeo.wire.peer.set_window(5_000);
    romeo.send("<presence/>");
    server.settle();
    romeo.vanish();
    let found = server.online("romeo/tomb").bodies();
    assert!(found.is_sorted(), "{:?}", found.iter().map(|body| &body[..3]).collect::<Vec<_>>());
    assert!(found.len() >= bodies.len() - 1, "{}", found.len());
}

/// More messages than an outbox holds come in portions, as fast as the client reads.
#[test]
fn more_than_fits_comes_in_portions() {
    let mut config = Config::default();
    config.settings.outbox = rookery_fanout::OutboxLimits { soft: 8 * 1024, hard: 32 * 1024, ..Default::default() };
    let server = Server::with(config);
    server.account("romeo");
    let mut juliet = server.login("juliet/balcony");
    let bodies: Vec<String> = (0..200).map(|number| format!("{number:03}{}", "x".repeat(1000))).collect();
    say(&mut juliet, "romeo@example.org", &bodies.iter().map(String::as_str).collect::<Vec<_>>());
    let mut romeo = server.login("romeo/orchard");
    romeo.wire.peer.set_window(2_000);
    romeo.send("<presence/>");
    assert_eq!(romeo.bodies(), bodies);
    assert_eq!(waiting(&server, "romeo"), 0);
    romeo.expect_alive();
}

/// If the store fails, the sender gets an error: the message isn't lost silently.
#[test]
fn a_store_that_fails_is_told_to_the_sender() {
    let held = HeldStores::new(Memory::stores());
    held.set_flowing(true);
    let server = Server::with(Config { stores: held.stores(), ..Config::default() });
    server.account("romeo");
    let mut juliet = server.login("juliet/balcony");
    for (fault, type_, condition) in [
        (StoreError::Busy, "wait", "resource-constraint"),
        (StoreError::Panicked("test".into()), "cancel", "internal-server-error"),
    ] {
        held.set_fault(Some(fault));
        say(&mut juliet, "romeo@example.org", &["lost?"]);
        juliet.expect(&format!(
            "<message type='error' id='m' from='romeo@example.org'><error type='{type_}'>\
             <{condition} xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>"
        ));
    }
    held.set_fault(None);
    say(&mut juliet, "romeo@example.org", &["kept"]);
    assert_eq!(server.online("romeo/orchard").bodies(), ["kept"]);
}

/// RFC 6121 §8.5.2.2.1 and XEP-0334 §4: a message that must not be stored is lost if the user is
/// away. Only senders who may know that the user is away are told so. Strangers get the same for a
/// user who is here, who is away, and who doesn't exist.
#[test]
fn strangers_do_not_hear_who_is_here() {
    let server = Server::new();
    let (mut romeo, mut juliet) = (server.online("romeo/orchard"), server.online("juliet/balcony"));
    let mut tybalt = server.online("tybalt/street");
    befriend(&mut romeo, &mut juliet);
    let whisper = |client: &mut Client, to: &str| {
        client.send(&format!(
            "<message to='{to}@example.org' type='chat' id='m'><body>psst</body><no-store xmlns='urn:xmpp:hints'/></message>"
        ));
        client.pump();
    };
    whisper(&mut juliet, "romeo");
    whisper(&mut tybalt, "romeo");
    assert_eq!(romeo.bodies(), ["psst", "psst"]);
    romeo.close();
    for client in [&mut juliet, &mut tybalt] {
        client.all();
    }
    for nobody in ["romeo", "nobody"] {
        whisper(&mut tybalt, nobody);
        tybalt.expect_nothing();
    }
    whisper(&mut juliet, "romeo");
    assert_eq!(juliet.expect_element().attr("type"), Some("error"), "a contact knows anyway");
    assert_eq!(waiting(&server, "romeo"), 0);
}

/// A sender of more messages than the store accepts gets errors, and nobody else does.
#[test]
fn a_flood_leaves_room_for_the_messages_of_others() {
    let held = HeldStores::new(Memory::stores());
    held.set_flowing(true);
    let server = Server::with(Config { stores: held.stores(), modules_off: vec!["archive"], ..Config::default() });
    server.account("romeo");
    let (mut juliet, mut nurse) = (server.login("juliet/balcony"), server.login("nurse/hall"));
    // The state of an absent user is requested from the store once.
    say(&mut juliet, "romeo@example.org", &["first"]);
    held.set_flowing(false);
    let body = "x".repeat(200_000);
    for _ in 0..50 {
        say(&mut juliet, "romeo@example.org", &[&body]);
        server.advance(100);
    }
    say(&mut nurse, "romeo@example.org", &["mine"]);
    while held.release_all() > 0 {
        server.settle();
    }
    held.set_flowing(true);
    server.settle();
    let refused = juliet.all().into_iter().filter(|answer| answer.attr("type") == Some("error")).count();
    assert!((5..50).contains(&refused), "{refused} of ten megabytes");
    nurse.expect_nothing();
    assert_eq!(waiting(&server, "romeo"), 52 - refused as u64);
}

/// Each resource gets a copy of a message to the bare JID (RFC 6121 §8.5.2.1.1); the account has it
/// once.
#[test]
fn a_message_that_two_ending_resources_did_not_get_is_stored_once() {
    type End = fn(&mut Client);
    let ends: [End; 3] = [
        |client| client.send("</stream:stream>"),
        |client| client.wire.peer.shutdown(),
        |client| client.wire.peer.reset(),
    ];
    for (one, other) in (0..9).map(|number| (ends[number / 3], ends[number % 3])) {
        let server = Server::with(Config { shards: 1, ..Config::default() });
        let mut romeo = server.online("romeo/orchard");
        let mut resources = ["balcony", "chamber"].map(|name| server.online(&format!("juliet/{name}")));
        for resource in &mut resources {
            resource.all();
            resource.wire.peer.set_window(0);
        }
        romeo.send("<message to='juliet@example.org' type='chat'><body>hello</body></message>");
        server.settle();
        let [balcony, chamber] = &mut resources;
        one(balcony);
        other(chamber);
        server.advance(300_000);
        let account = server.address("juliet");
        assert_eq!(server.finish(server.stores().offline.count(account.as_ref())), Ok(1));
    }
}

/// The same if one resource accepts no more messages when the other one ends: it has its copy
/// already.
#[test]
fn a_message_that_an_unavailable_resource_did_not_get_is_stored_once() {
    let server = Server::with(Config { shards: 1, ..Config::default() });
    let mut romeo = server.online("romeo/orchard");
    let mut resources = ["balcony", "chamber"].map(|name| server.online(&format!("juliet/{name}")));
    for resource in &mut resources {
        resource.all();
        resource.wire.peer.set_window(0);
    }
    romeo.send("<message to='juliet@example.org' type='chat'><body>hello</body></message>");
    server.settle();
    let [balcony, chamber] = &mut resources;
    chamber.send("<presence type='unavailable'/>");
    server.settle();
    for (resource, stored) in [(balcony, 0), (chamber, 1)] {
        resource.vanish();
        let account = server.address("juliet");
        assert_eq!(server.finish(server.stores().offline.count(account.as_ref())), Ok(stored));
    }
}
