//! RFC 6120 §10.1: stanzas from one sender to one receiver are processed and delivered in the order
//! in which they were sent.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
use rookery_store::held::HeldStores;
use rookery_store::memory::Memory;
use rookery_testkit::{Client, Config, Security, Server, befriend};
use rookery_xml::ns;

/// Returns a server over a store whose answers a test can hold back.
fn slow(shards: usize) -> (Server, Arc<HeldStores>) {
    let held = HeldStores::new(Memory::stores());
    held.set_flowing(true);
    (Server::with(Config { shards, stores: held.stores(), ..Config::default() }), held)
}

fn message(to: &str, body: &str) -> String {
    format!("<message to='{to}' type='chat'><body>{body}</body></message>")
}

const ROSTER_SET: &str =
    "<iq type='set' id='set'><query xmlns='jabber:iq:roster'><item jid='nurse@example.org'/></query></iq>";

/// While a stanza waits for the store, later ones from the same session wait behind it, and others
/// don't.
#[test]
fn nothing_overtakes_what_waits_for_the_store() {
    let (server, held) = slow(2);
    let mut romeo = server.login("romeo/orchard");
    let mut juliet = server.login("juliet/balcony");
    let mut nurse = server.login("nurse/house");
    held.set_flowing(false);
    juliet.send(&message("romeo@example.org/orchard", "1"));
    juliet.send(ROSTER_SET);
    juliet.send(&message("romeo@example.org/orchard", "2"));
    juliet.send("<iq type='get' id='ping'><ping xmlns='urn:xmpp:ping'/></iq>");
    juliet.send("<presence type='subscribe' to='romeo@example.org'/>");
    juliet.send(&message("romeo@example.org/orchard", "3"));
    juliet.expect_nothing();
    romeo.expect_message("juliet@example.org/balcony", "1");
    romeo.expect_nothing();
    nurse.send(&message("romeo@example.org/orchard", "from somebody else"));
    romeo.expect_message("nurse@example.org/house", "from somebody else");
    assert!(held.release_one());
    juliet.expect("<iq type='result' id='set' from='juliet@example.org'/>");
    juliet.expect("<iq type='result' id='ping' from='juliet@example.org'/>");
    juliet.expect_nothing();
    romeo.expect_message("juliet@example.org/balcony", "2");
    romeo.expect_nothing();
    assert!(held.release_one());
    // The request has left Juliet's backlog, and waits for Romeo's roster; the message stays behind
    // it.
    romeo.expect_nothing();
    assert!(held.release_one());
    romeo.expect_message("juliet@example.org/balcony", "3");
}

/// A session begins when everything is handled that an older one of its full JID has sent (RFC 6120
/// §7.7.2.2). Otherwise the older one's presence would count as the newest.
#[test]
fn a_session_begins_behind_the_older_one_of_its_resource() {
    let (server, held) = slow(2);
    let mut friend = server.online("juliet/friend");
    let mut older = server.online("juliet/balcony");
    friend.all();
    held.set_flowing(false);
    older.send(ROSTER_SET);
    older.send("<presence><status>older</status></presence>");
    older.wire.peer.shutdown();
    server.settle();
    held.set_flowing(true);
    let mut newer = server.connect();
    newer.log_in(&server.account("juliet"), Security::Plain);
    newer.send("<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>balcony</resource></bind></iq>");
    newer.expect_nothing();
    assert_eq!(held.release_all(), 1, "only the older session waits for the store");
    assert!(newer.all().iter().any(|heard| heard.attr("id") == Some("bind") && heard.attr("type") == Some("result")));
    newer.send("<presence><status>newer</status></presence>");
    let shown = friend.all().into_iter().filter(|heard| heard.attr("from") == Some("juliet@example.org/balcony"));
    let shown: Vec<_> = shown.map(|heard| heard.child_text("status", ns::CLIENT).unwrap_or_default()).collect();
    assert_eq!(shown, ["older", "", "newer"]);
}

/// A backlog is bounded: reading stops when it is long, and continues when it is short again.
/// Nothing is lost.
#[test]
fn a_long_backlog_stops_reading() {
    let (server, held) = slow(2);
    server.reload(|config| config.settings.backlog_bytes = 5_000);
    let mut romeo = server.login("romeo/orchard");
    let mut juliet = server.login("juliet/balcony");
    juliet.wire.peer.set_most(1_000);
    held.set_flowing(false);
    juliet.send(ROSTER_SET);
    let bodies: Vec<String> = (0..300).map(|number| format!("{number:0100}")).collect();
    for body in &bodies {
        juliet.send(&message("romeo@example.org/orchard", body));
    }
    server.settle();
    assert!(juliet.wire.peer.unread_bytes() > 30_000, "the server leaves the rest in the network");
    assert!(romeo.bodies().is_empty());
    held.set_flowing(true);
    held.release_all();
    assert_eq!(romeo.bodies(), bodies);
    juliet.expect_element();
    juliet.expect_alive();
}

/// If a connection breaks while the server doesn't read from it, the server notices at once, and
/// not only when the store has answered.
#[test]
fn a_connection_that_is_not_read_from_may_break() {
    let (server, held) = slow(1);
    server.reload(|config| config.settings.backlog_bytes = 500);
    let mut romeo = server.login("romeo/orchard");
    let mut juliet = server.login("juliet/balcony");
    held.set_flowing(false);
    juliet.send(ROSTER_SET);
    for number in 0..20 {
        juliet.send(&message("romeo@example.org/orchard", &number.to_string()));
    }
    server.settle();
    juliet.vanish();
    romeo.expect_alive();
    held.set_flowing(true);
    held.release_all();
    romeo.pump();
    assert!(!romeo.bodies().is_empty());
    assert_eq!((server.sessions(), server.connections()), (1, 1));
}

/// Stanzas that were sent before a connection ended are processed, however it ended.
#[test]
fn a_backlog_is_worked_off_after_its_connection_is_gone() {
    type End = fn(&mut Client);
    let ends: [End; 3] = [
        |client| client.send("</stream:stream>"),
        |client| client.wire.peer.shutdown(),
        |client| {
            client.pump();
            client.wire.peer.reset();
        },
    ];
    for end in ends {
        let (server, held) = slow(2);
        let mut romeo = server.online("romeo/orchard");
        let mut juliet = server.online("juliet/balcony");
        befriend(&mut juliet, &mut romeo);
        held.set_flowing(false);
        juliet.send(ROSTER_SET);
        juliet.send(&message("romeo@example.org/orchard", "last words"));
        end(&mut juliet);
        romeo.expect_nothing();
        held.set_flowing(true);
        held.release_all();
        romeo.expect_message("juliet@example.org/balcony", "last words");
        romeo.expect("<presence type='unavailable' from='juliet@example.org/balcony'/>");
        romeo.expect_nothing();
        assert_eq!(server.sessions(), 1);
    }
}

/// A stream error is the end (RFC 6120 §4.9.1.1), also for stanzas that wait.
#[test]
fn nothing_behind_a_stream_error_is_processed() {
    for slow_store in [false, true] {
        let (server, held) = slow(2);
        let mut romeo = server.login("romeo/orchard");
        let mut juliet = server.login("juliet/balcony");
        held.set_flowing(!slow_store);
        juliet.send(ROSTER_SET);
        juliet.send(&message("romeo@example.org/orchard", "before"));
        juliet.send("<bogus/>");
        juliet.send(&message("romeo@example.org/orchard", "behind"));
        server.settle();
        held.set_flowing(true);
        held.release_all();
        juliet.expect("<iq type='result' id='set' from='juliet@example.org'/>");
        juliet.expect_stream_error("unsupported-stanza-type");
        assert_eq!(romeo.bodies(), ["before"], "slow: {slow_store}");
    }
}

/// A session can get stanzas once its resource is bound, which is before its client knows that.
#[test]
fn what_comes_while_a_resource_is_being_bound_follows_the_result() {
    let (server, held) = slow(2);
    let mut romeo = server.login("romeo/orchard");
    let mut juliet = server.connect();
    juliet.log_in(&server.account("juliet"), Security::Plain);
    held.set_flowing(false);
    juliet.send(&rookery_testkit::login::bind_request(Some("balcony")));
    juliet.expect_nothing();
    romeo.send(&message("juliet@example.org/balcony", "early"));
    server.settle();
    held.set_flowing(true);
    held.release_all();
    let bound = juliet.expect_element();
    juliet.take_bound(&bound);
    juliet.expect_message("romeo@example.org/orchard", "early");
}

/// Stanzas that are pipelined behind a login arrive in order, although its look-ups are slow and
/// the connection moves to another shard.
#[test]
fn a_connection_moves_while_the_store_is_slow() {
    for arrives_at in 0..3 {
        let (server, held) = slow(3);
        let mut romeo = server.login("romeo/orchard");
        let name = server.name_at("juliet", 2);
        server.account(&name);
        held.set_flowing(false);
        let mut juliet = server.connect_at(arrives_at);
        juliet.wire.peer.set_most(700);
        juliet.open("example.org");
        let auth = format!("\0{name}\0{}", rookery_testkit::server::PASSWORD);
        let login = rookery_testkit::login::sasl("auth", Some(rookery_sasl::Mechanism::Plain), auth.as_bytes());
        let mut all = [login, rookery_testkit::login::stream_header("example.org")].concat();
        all += &rookery_testkit::login::bind_request(Some("balcony"));
        let bodies: Vec<String> = (0..200).map(|number| format!("{number:0100}")).collect();
        for body in &bodies {
            all += &message("romeo@example.org/orchard", body);
        }
        juliet.send(&all);
        let mut got = Vec::new();
        for _ in 0..20 {
            server.settle();
            assert!(got.is_empty() || held.waiting() == 0);
            held.release_one();
            got.extend(romeo.bodies());
        }
        assert_eq!(got, bodies);
    }
}

/// Presence and messages have one order between them: RFC 6121 §3.1.6 and §4.2 rely on that.
#[test]
fn presence_and_messages_keep_their_order_across_shards() {
    let server = Server::with(Config { shards: 3, ..Config::default() });
    let (one, other) = (server.name_at("juliet", 0), server.name_at("romeo", 2));
    let mut juliet = server.online(&format!("{one}/balcony"));
    let mut romeo = server.online(&format!("{other}/orchard"));
    befriend(&mut juliet, &mut romeo);
    let to = romeo.full().to_owned();
    for round in 0..20 {
        juliet.send(&format!("<presence><status>{round}</status></presence>"));
        juliet.send(&message(&to, &round.to_string()));
    }
    let heard: Vec<String> = romeo
        .all()
        .iter()
        .map(|element| format!("{} {}", element.name(), element.children().next().unwrap().text()))
        .collect();
    let expected: Vec<String> = (0..20).flat_map(|n| [format!("presence {n}"), format!("message {n}")]).collect();
    assert_eq!(heard, expected);
}

/// A server that dies loses stanzas that were on their way, and nothing else: a message that it had
/// acknowledged by storing it is there, once.
#[test]
fn a_restart_in_mid_stream() {
    let server = Server::new();
    server.account("romeo");
    let mut juliet = server.login("juliet/balcony");
    for body in ["1", "2"] {
        juliet.send(&message("romeo@example.org", body));
    }
    juliet.expect_alive();
    juliet.send("<message to='romeo@example.org' type='chat'><body>3</bo");
    server.settle();
    server.kill();
    assert!(!juliet.is_open());
    let mut juliet = server.login("juliet/balcony");
    juliet.send(&message("romeo@example.org", "4"));
    let mut romeo = server.online("romeo/orchard");
    juliet.pump();
    assert_eq!(romeo.bodies(), ["1", "2", "4"]);
    juliet.expect_alive();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// In whatever order the shards take turns, however bytes are divided and the store delays:
    /// each sender's messages arrive in order, and each of them once.
    #[test]
    fn many_senders_to_one_receiver(
        shards in 1usize..5,
        senders in 1usize..6,
        most in 1usize..400,
        window in 100usize..3_000,
        schedule in prop::collection::vec((0u8..12, any::<u8>()), 60..240),
    ) {
        let (server, held) = slow(shards);
        let mut romeo = server.online("romeo/orchard");
        romeo.wire.peer.set_window(window);
        let mut clients: Vec<Client> = (0..senders).map(|number| server.login(&format!("sender{number}/r"))).collect();
        clients.iter().for_each(|client| client.wire.peer.set_most(most));
        held.set_flowing(false);
        let mut sent = vec![0; senders];
        for (action, which) in schedule {
            let which = usize::from(which);
            match action {
                0..5 => {
                    let sender = which % senders;
                    let to = ["romeo@example.org", "romeo@example.org/orchard"][which / senders % 2];
                    clients[sender].send(&message(to, &format!("{sender} {}", sent[sender])));
                    sent[sender] += 1;
                }
                5 => clients[which % senders].send(ROSTER_SET),
                6 => drop(held.release_one()),
                7 => drop(romeo.wire.receive()),
                _ => drop(server.step(which % shards)),
            }
        }
        held.set_flowing(true);
        held.release_all();
        let mut arrived: HashMap<usize, usize> = HashMap::new();
        for element in romeo.all() {
            let body = element.child_text("body", ns::CLIENT).expect("a message");
            let (sender, number) = body.split_once(' ').expect("sender and number");
            let next = arrived.entry(sender.parse().unwrap()).or_default();
            prop_assert_eq!(number.parse::<usize>().unwrap(), *next);
            *next += 1;
        }
        for (sender, sent) in sent.iter().enumerate() {
            prop_assert_eq!(arrived.get(&sender).copied().unwrap_or_default(), *sent);
        }
    }

    /// The same if the receiver's connection breaks again and again: the messages that its sessions
    /// read, one session after another, are still in the order of each sender, and none comes
    /// twice. Only those within a broken connection may be missing.
    #[test]
    fn a_receiver_whose_connection_breaks(
        shards in 1usize..4,
        window in 50usize..800,
        schedule in prop::collection::vec((0u8..16, any::<u8>()), 60..240),
    ) {
        let server = Server::with(Config { shards, ..Config::default() });
        let mut senders: Vec<Client> = (0..3).map(|number| server.login(&format!("sender{number}/r"))).collect();
        let session = || {
            let romeo = server.online("romeo/orchard");
            romeo.wire.peer.set_window(window);
            romeo
        };
        let mut romeo = session();
        let (mut sent, mut heard, mut deaths) = (vec![0; 3], Vec::new(), 0);
        for (action, which) in schedule {
            let which = usize::from(which);
            match action {
                0..5 => {
                    let sender = which % 3;
                    senders[sender].send(&message("romeo@example.org", &format!("{sender} {}", sent[sender])));
                    sent[sender] += 1;
                }
                5 => {
                    heard.extend(romeo.unsettled_bodies());
                    romeo.vanish();
                    romeo = session();
                    deaths += 1;
                }
                6 | 7 => drop(romeo.wire.receive()),
                _ => drop(server.step(which % shards)),
            }
        }
        heard.extend(romeo.bodies());
        let mut next = [0; 3];
        for body in &heard {
            let (sender, number) = body.split_once(' ').expect("sender and number");
            let (sender, number): (usize, usize) = (sender.parse().unwrap(), number.parse().unwrap());
            prop_assert!(number >= next[sender], "{body} came after {}: {heard:?}", next[sender]);
            next[sender] = number + 1;
        }
        let lost = sent.iter().sum::<usize>() - heard.len();
        let lay_there = window / 80 + 1;
        prop_assert!(lost <= deaths * lay_there, "{lost} lost in {deaths} connections of {window} bytes");
    }
}

/// A queue that waits for the store is bounded in bytes, and each sender has a share of it: a
/// sender of more is refused, and others aren't.
#[test]
fn a_flood_while_the_store_is_slow_hits_its_sender_alone() {
    let (server, held) = slow(1);
    let mut mallory = server.login("mallory/x");
    let mut romeo = server.login("romeo/orchard");
    server.account("juliet");
    held.set_flowing(false);
    let large = "x".repeat(200_000);
    for _ in 0..100 {
        mallory.send(&message("juliet@example.org", &large));
        server.settle();
    }
    let refused = mallory.all();
    assert!(refused.len() >= 10, "a quarter of 64 MiB is 16 MiB, and 20 came: {}", refused.len());
    for error in refused {
        let error = error.child("error", ns::CLIENT).expect("an error");
        assert!(error.child("resource-constraint", ns::STANZA_ERRORS).is_some(), "{error:?}");
    }
    romeo.send(&message("juliet@example.org", "from somebody else"));
    romeo.expect_nothing();
    held.set_flowing(true);
    held.release_all();
    romeo.expect_nothing();
    // Of the messages that finally reached the store, it kept as many as it may.
    mallory.all();
    mallory.expect_alive();
    mallory.vanish();
    let mut juliet = server.online("juliet/balcony");
    assert_eq!(juliet.bodies().last().map(String::as_str), Some("from somebody else"));
}

/// The same for stanzas that wait until it is known which rooms exist: a flood leaves room for
/// others, and nothing is counted for ever.
#[test]
fn a_flood_of_rooms_while_the_store_is_slow_hits_its_sender_alone() {
    let (server, held) = slow(1);
    let mut mallory = server.login("mallory/x");
    let mut romeo = server.login("romeo/orchard");
    held.set_flowing(false);
    let large = "x".repeat(200_000);
    let refusals = |client: &mut Client| {
        let errors = client.all().into_iter().filter_map(|stanza| stanza.child("error", ns::CLIENT).cloned());
        errors.filter(|error| error.child("resource-constraint", ns::STANZA_ERRORS).is_some()).count()
    };
    let mut refused = 0;
    for _ in 0..100 {
        mallory.send(&message("garden@conference.example.org", &large));
        server.settle();
        refused += refusals(&mut mallory);
    }
    assert!(refused >= 10, "a quarter of 64 MiB is 16 MiB, and 20 came: {refused}");
    romeo.send(&message("garden@conference.example.org", "from somebody else"));
    romeo.expect_nothing();
    held.set_flowing(true);
    held.release_all();
    server.settle();
    assert_eq!(refusals(&mut romeo), 0, "it had its turn");
    mallory.all();
    mallory.send(&message("garden@conference.example.org", "again"));
    server.settle();
    assert_eq!(refusals(&mut mallory), 0, "what waited counts no more");
}
