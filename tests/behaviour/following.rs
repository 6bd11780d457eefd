//! Clients that are connected to one node, and whose session is at home on another: when that dies,
//! or hands the session on, they notice nothing.

use rookery_testkit::{Client, Config, Security, Server};
use rookery_xml::ns;

/// Returns three nodes of two shards each. What is at home on the second one is on the third when
/// that is gone.
fn nodes() -> Server {
    Server::with(Config { shards: 6, nodes: 3, ..Config::default() })
}

/// The shards by way of which a client of the second node may be connected: of a node that has
/// nothing to do with it, of its next home, and of another shard there.
const WAYS: [usize; 4] = [0, 1, 4, 5];
/// The time within which archives write what they have, and what is theirs is acknowledged.
const WRITTEN_MS: u64 = 2_000;

/// Logs a user in whose home is a shard, by way of another shard.
fn at(server: &Server, stem: &str, home: usize, by_way_of: usize, is_websocket: bool) -> Client {
    let account = server.account(&server.name_at(stem, home));
    let mut client = if is_websocket { server.connect_websocket(by_way_of) } else { server.connect_at(by_way_of) };
    client.log_in(&account, Security::Plain);
    client.bind("r");
    client.send("<presence/>");
    client.expect_presence_of_itself();
    client
}

fn say(to: &str, text: &str) -> String {
    format!("<message type='chat' to='{to}'><body>{text}</body></message>")
}

/// Asks how many stanzas of a client are handled, and returns the last reply.
fn ask_handled(server: &Server, client: &mut Client) -> Option<String> {
    client.send("<r xmlns='urn:xmpp:sm:3'/>");
    client.pump();
    server.advance(WRITTEN_MS);
    let got = client.all();
    got.iter().filter(|got| got.name() == "a").filter_map(|a| a.attr("h").map(str::to_owned)).next_back()
}

/// Kills the second node.
fn kill(server: &Server) {
    server.silence(1);
    server.bury(1);
    server.advance(1_000);
}

/// Returns a client at home on the second node, whose stanzas are counted, and one at home on the
/// first.
fn two(server: &Server, by_way_of: usize, is_websocket: bool) -> (Client, Client, String) {
    let mut juliet = at(server, "juliet", 2, by_way_of, is_websocket);
    let romeo = at(server, "romeo", 0, 0, false);
    let id = juliet.enable();
    (juliet, romeo, id)
}

/// Lets both talk.
fn talk(juliet: &mut Client, romeo: &mut Client, topic: &str) {
    let (here, there) = (juliet.full().to_owned(), romeo.full().to_owned());
    for number in 0..3 {
        juliet.send(&say(&there, &format!("{topic} {number}")));
        assert_eq!(romeo.bodies(), [format!("{topic} {number}")]);
        romeo.send(&say(&here, &format!("{topic} {number}")));
        assert_eq!(juliet.bodies(), [format!("{topic} {number}")]);
    }
}

#[test]
fn a_client_notices_nothing_of_the_death_of_its_home() {
    for is_websocket in [false, true] {
        for by_way_of in WAYS {
            let server = nodes();
            let (mut juliet, mut romeo, _) = two(&server, by_way_of, is_websocket);
            talk(&mut juliet, &mut romeo, "before");
            juliet.send("<a xmlns='urn:xmpp:sm:3' h='2'/>");
            assert_eq!(ask_handled(&server, &mut juliet).as_deref(), Some("3"), "by way of {by_way_of}");
            server.silence(1);
            romeo.send(&say(juliet.full(), "meanwhile"));
            juliet.send(&say(romeo.full(), "meanwhile"));
            romeo.expect_nothing();
            kill(&server);
            assert!(juliet.is_open(), "by way of {by_way_of}");
            assert_eq!(juliet.bodies(), ["meanwhile"], "by way of {by_way_of}");
            assert_eq!(romeo.bodies(), ["meanwhile"], "by way of {by_way_of}");
            talk(&mut juliet, &mut romeo, "after");
            assert_eq!(ask_handled(&server, &mut juliet).as_deref(), Some("7"), "by way of {by_way_of}");
            // A count that is too high would end the stream.
            juliet.send("<a xmlns='urn:xmpp:sm:3' h='7'/>");
            juliet.expect_alive();
        }
    }
}

#[test]
fn a_client_notices_nothing_when_its_home_moves() {
    for is_websocket in [false, true] {
        for by_way_of in WAYS {
            let server = nodes();
            let (mut juliet, mut romeo, _) = two(&server, by_way_of, is_websocket);
            for (round, topic) in ["there", "back", "there again"].into_iter().enumerate() {
                talk(&mut juliet, &mut romeo, topic);
                juliet.send(&say(romeo.full(), "meanwhile"));
                romeo.send(&say(juliet.full(), "meanwhile"));
                match round % 2 {
                    0 => server.remove(1),
                    _ => server.share_out(),
                }
                server.advance(3_000);
                // Those who are connected to the home itself, too.
                assert!(juliet.is_open(), "{topic}, by way of {by_way_of}");
                assert_eq!(juliet.bodies(), ["meanwhile"], "{topic}, by way of {by_way_of}");
                assert_eq!(romeo.bodies(), ["meanwhile"], "{topic}, by way of {by_way_of}");
                let count = (round + 1) * 4;
                assert_eq!(
                    ask_handled(&server, &mut juliet),
                    Some(count.to_string()),
                    "{topic}, by way of {by_way_of}"
                );
            }
        }
    }
}

/// The node that has the connection has what the journal lacks, and sends it again; messages have
/// the id that they had.
#[test]
fn what_the_journal_lacked_of_a_client_is_said_again() {
    for by_way_of in WAYS {
        let server = nodes();
        let (mut juliet, mut romeo, _) = two(&server, by_way_of, false);
        talk(&mut juliet, &mut romeo, "before");
        assert_eq!(ask_handled(&server, &mut juliet).as_deref(), Some("3"));
        server.slow_journals(true);
        for number in 0..3 {
            juliet.send(&format!(
                "<message type='chat' id='m{number}' to='{}'><body>{number}</body></message>",
                romeo.full()
            ));
        }
        assert_eq!(romeo.bodies(), ["0", "1", "2"]);
        // A part of a stanza is on its way, too.
        juliet.send("<message type='chat' to='");
        juliet.pump();
        kill(&server);
        juliet.send(&format!("{}'><body>whole</body></message>", romeo.full()));
        assert_eq!(romeo.bodies(), ["0", "1", "2", "whole"], "by way of {by_way_of}");
        server.slow_journals(false);
        assert_eq!(ask_handled(&server, &mut juliet).as_deref(), Some("7"), "by way of {by_way_of}");
    }
}

#[test]
fn a_client_that_has_got_more_than_the_journal_knows_comes_back() {
    let server = nodes();
    let (mut juliet, mut romeo, id) = two(&server, 0, false);
    let jid = juliet.jid.clone().expect("bound");
    talk(&mut juliet, &mut romeo, "before");
    server.slow_journals(true);
    romeo.send(&say(juliet.full(), "one"));
    assert_eq!(juliet.bodies(), ["one"]);
    kill(&server);
    juliet.expect_closed();
    let mut again = server.connect_at(1);
    again.log_in(&jid.to_bare(), Security::Plain);
    again.resume(&jid, &id, 4);
    romeo.send(&say(jid.as_str(), "two"));
    assert_eq!(again.bodies(), ["two"]);
}

#[test]
fn a_client_that_has_come_back_otherwise_is_not_disturbed() {
    for by_way_of in WAYS {
        let server = nodes();
        let (mut juliet, mut romeo, id) = two(&server, by_way_of, false);
        let jid = juliet.jid.clone().expect("bound");
        talk(&mut juliet, &mut romeo, "before");
        server.advance(WRITTEN_MS);
        server.silence(1);
        server.depart(1);
        // The client considers its connection dead, and resumes its session over another one.
        let mut again = server.connect_at(1);
        again.log_in_ahead(&jid.to_bare());
        again.send(&format!("<resume xmlns='urn:xmpp:sm:3' previd='{id}' h='3'/>"));
        server.settle();
        server.bury(1);
        again.expect_header();
        again.all();
        again.jid = Some(jid.clone());
        server.advance(5_000);
        romeo.send(&say(jid.as_str(), "to the new one"));
        assert_eq!(again.bodies(), ["to the new one"], "by way of {by_way_of}");
        again.expect_alive();
        assert!(!juliet.is_open(), "by way of {by_way_of}");
    }
}

#[test]
fn a_connection_in_the_middle_of_a_stanza_is_closed() {
    let server = nodes();
    let (mut juliet, mut romeo, id) = two(&server, 0, false);
    let jid = juliet.jid.clone().expect("bound");
    juliet.wire.peer.set_window(1_000);
    juliet.set_reading(false);
    let text = "x".repeat(100_000);
    for _ in 0..3 {
        romeo.send(&say(juliet.full(), &text));
        romeo.pump();
    }
    kill(&server);
    juliet.set_reading(true);
    assert!(!juliet.is_open());
    let mut again = server.connect_at(1);
    again.log_in(&jid.to_bare(), Security::Plain);
    again.resume(&jid, &id, 0);
    assert_eq!(again.bodies().len(), 3);
}

/// A home that was silent for a while has the session still, and nobody else has taken it over.
#[test]
fn a_client_goes_on_with_a_home_that_was_only_slow() {
    let server = nodes();
    let (mut juliet, mut romeo, _) = two(&server, 0, false);
    talk(&mut juliet, &mut romeo, "before");
    assert_eq!(ask_handled(&server, &mut juliet).as_deref(), Some("3"));
    server.depart(1);
    romeo.send(&say(juliet.full(), "meanwhile"));
    juliet.send(&say(romeo.full(), "meanwhile"));
    server.advance(12_000);
    assert_eq!(juliet.bodies(), ["meanwhile"]);
    assert_eq!(romeo.bodies(), ["meanwhile"]);
    talk(&mut juliet, &mut romeo, "after");
    assert_eq!(ask_handled(&server, &mut juliet).as_deref(), Some("7"));
}

/// A process whose lease is renewed late has lost nothing, and its clients and sessions haven't.
#[test]
fn a_node_that_only_seems_silent_keeps_all_connections() {
    for is_managed in [false, true] {
        let server = nodes();
        let mut juliet = at(&server, "juliet", 2, 0, false);
        let mut romeo = at(&server, "romeo", 0, 2, false);
        let mut websocket = at(&server, "nurse", 3, 5, true);
        for client in [&mut juliet, &mut romeo, &mut websocket] {
            if is_managed {
                client.enable();
            }
        }
        server.advance(WRITTEN_MS);
        server.seem_silent(1);
        for second in 0..3 {
            romeo.send(&say(juliet.full(), "there"));
            juliet.send(&say(romeo.full(), "back"));
            websocket.send(&say(romeo.full(), "as well"));
            server.advance(1_000);
            assert_eq!(juliet.bodies(), ["there"], "{second}");
            let mut got = romeo.bodies();
            got.sort_unstable();
            assert_eq!(got, ["as well", "back"], "{second}");
        }
        assert!(juliet.is_open() && romeo.is_open() && websocket.is_open());
    }
}

#[test]
fn a_client_waits_for_a_home_for_a_while() {
    let server = nodes();
    let (mut juliet, mut romeo, _) = two(&server, 0, false);
    talk(&mut juliet, &mut romeo, "before");
    server.silence(1);
    server.depart(1);
    server.advance(30_000);
    assert!(juliet.is_open());
    server.advance(40_000);
    juliet.expect_closed();
}

#[test]
fn a_client_whose_user_does_not_look_stays_so() {
    let server = nodes();
    let (mut juliet, mut romeo, _) = two(&server, 0, false);
    rookery_testkit::befriend(&mut juliet, &mut romeo);
    juliet.send("<inactive xmlns='urn:xmpp:csi:0'/>");
    server.advance(WRITTEN_MS);
    juliet.all();
    kill(&server);
    juliet.all();
    romeo.send("<presence><show>away</show></presence>");
    let got = juliet.all();
    assert!(got.iter().all(|got| !got.is("presence", ns::CLIENT)), "it waits: {got:?}");
    juliet.send("<active xmlns='urn:xmpp:csi:0'/>");
    let got = juliet.all();
    assert!(got.iter().any(|got| got.is("presence", ns::CLIENT)), "{got:?}");
}

/// A client that has sent more than the limit of kept stanzas continues as soon as all of them are
/// stored.
#[test]
fn a_client_may_send_as_much_as_it_likes() {
    let server = nodes();
    let (mut juliet, mut romeo, _) = two(&server, 0, false);
    let text = "x".repeat(20_000);
    server.slow_journals(true);
    for _ in 0..10 {
        juliet.send(&say(romeo.full(), &text));
        juliet.pump();
    }
    assert_eq!(romeo.bodies().len(), 10, "nothing holds it up");
    server.slow_journals(false);
    assert_eq!(ask_handled(&server, &mut juliet).as_deref(), Some("10"));
    kill(&server);
    talk(&mut juliet, &mut romeo, "after");
}

/// Both write while a node dies or homes move, at any moment.
#[test]
fn what_both_say_arrives_whatever_happens_meanwhile() {
    for seed in 0..60_u64 {
        let server = Server::with(Config { shards: 6, nodes: 3, seed, ..Config::default() });
        let by_way_of = WAYS[seed as usize % WAYS.len()];
        let dies = seed / 4 % 3 == 0;
        let (mut juliet, mut romeo, _) = two(&server, by_way_of, seed / 12 % 2 == 1);
        romeo.enable();
        let mut chance = seed * 7919 + 1;
        let mut draw = |most: u64| {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (chance >> 33) % most
        };
        let (mut said, mut heard) = (0, 0);
        for turn in 0..200 {
            server.move_clock(server.now() + 20);
            match turn {
                // The input that it has not read is with its writers, which these nodes don't do.
                60 if dies => {
                    server.settle();
                    server.silence(1);
                }
                90 if dies => server.bury(1),
                60 => server.tell_homes(draw(3) as usize, Some(1)),
                65 if !dies => (0..3).for_each(|node| server.tell_homes(node, Some(1))),
                130 if !dies => (0..3).for_each(|node| server.tell_homes(2 - node, None)),
                _ => {}
            }
            if draw(2) == 0 {
                juliet.send(&format!(
                    "<message type='chat' id='{said}' to='{}'><body>{said}</body></message>",
                    romeo.full()
                ));
                said += 1;
                if draw(3) == 0 {
                    juliet.send("<r xmlns='urn:xmpp:sm:3'/>");
                }
            }
            if draw(2) == 0 {
                romeo.send(&format!(
                    "<message type='chat' id='{heard}' to='{}'><body>{heard}</body></message>",
                    juliet.full()
                ));
                heard += 1;
            }
            for _ in 0..draw(8) {
                server.step(draw(6) as usize);
            }
        }
        server.settle();
        server.advance(3_000);
        let numbers = |count: u64| (0..count).map(|number| number.to_string()).collect::<Vec<_>>();
        assert!(juliet.is_open(), "seed {seed}");
        assert!(romeo.is_open(), "seed {seed}");
        assert_eq!(juliet.bodies(), numbers(heard), "seed {seed}");
        let mut got = romeo.bodies();
        if dies {
            // At least once, under the same id.
            let mut seen = std::collections::BTreeSet::new();
            got.retain(|body| seen.insert(body.clone()));
        }
        assert_eq!(got, numbers(said), "seed {seed}");
        assert_eq!(ask_handled(&server, &mut juliet), Some(said.to_string()), "seed {seed}");
        juliet.expect_alive();
    }
}

/// Otherwise it would make a session after its node has said that all that leave are at rest, and
/// the answers to what that session sends would wait for it elsewhere. A client that is connected
/// to another node waits there for the next home.
#[test]
fn a_login_ends_as_soon_as_its_home_is_to_leave() {
    for by_way_of in [2, 0] {
        let server = nodes();
        let account = server.account(&server.name_at("juliet", 2));
        let mut juliet = server.connect_at(by_way_of);
        juliet.log_in(&account, Security::Plain);
        // The others don't know yet that this node is to have no homes.
        server.tell_homes(1, Some(1));
        server.settle();
        let last = juliet.all();
        assert_eq!(juliet.is_open(), by_way_of == 0);
        assert!(last.iter().all(|found| found.name() != "error"), "{by_way_of}: {last:?}");
        server.remove(1);
        server.advance(WRITTEN_MS);
        if by_way_of == 2 {
            juliet = server.connect_at(by_way_of);
            juliet.log_in(&account, Security::Plain);
        }
        juliet.bind("r");
        juliet.send("<presence/>");
        juliet.expect_presence_of_itself();
        assert_eq!(server.sessions(), 1);
    }
}

#[test]
fn a_login_goes_on_when_its_home_dies_before_anybody_knows() {
    for is_websocket in [false, true] {
        for by_way_of in WAYS {
            let server = nodes();
            let (mut juliet, mut romeo, id) = two(&server, by_way_of, is_websocket);
            let full = juliet.jid.clone().expect("bound");
            juliet.vanish();
            server.silence(1);
            let mut again =
                if is_websocket { server.connect_websocket(by_way_of) } else { server.connect_at(by_way_of) };
            // The client gets the features at once.
            again.log_in(&full.to_bare(), Security::Plain);
            again.send(&format!("<resume xmlns='urn:xmpp:sm:3' previd='{id}' h='0'/>"));
            again.expect_nothing();
            kill(&server);
            assert!(again.is_open(), "by way of {by_way_of}");
            again.expect(&format!("<resumed xmlns='urn:xmpp:sm:3' previd='{id}' h='*'/>"));
            again.jid = Some(full);
            talk(&mut again, &mut romeo, "after");
        }
    }
}
