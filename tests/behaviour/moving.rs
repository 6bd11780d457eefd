//! Homes that move from one node to another while both live: a node joins, or leaves in order. To
//! clients of XEP-0198 it looks like a short loss of the network; occupants of rooms notice
//! nothing.

mod lists;

use rookery_jid::Jid;
use rookery_testkit::client::xml;
use rookery_testkit::{Client, Config, Security, Server, befriend};

/// Returns two nodes of two shards each: shards 0 and 1 are the one, 2 and 3 the other.
fn nodes() -> Server {
    Server::with(Config { shards: 4, nodes: 2, ..Config::default() })
}

/// Logs a user in whose home is a shard, by way of another shard, with a resource.
fn at(server: &Server, stem: &str, home: usize, by_way_of: usize, resource: &str) -> Client {
    let account = server.account(&server.name_at(stem, home));
    let mut client = server.connect_at(by_way_of);
    client.log_in(&account, Security::Plain);
    client.bind(resource);
    client.send("<presence/>");
    client.expect_presence_of_itself();
    client
}

fn say(to: &str, text: &str) -> String {
    format!("<message type='chat' to='{to}'><body>{text}</body></message>")
}

/// Comes back to a session by way of a shard.
fn back(server: &Server, client: &Client, id: &str, by_way_of: usize, handled: u32) -> (Client, u32) {
    let jid = client.jid.clone().expect("bound");
    let mut again = server.connect_at(by_way_of);
    again.log_in(&jid.to_bare(), Security::Plain);
    let h = again.resume(&jid, id, handled);
    (again, h)
}

/// Takes the stanzas that come before a connection is closed without a stream error.
fn is_cut(client: &mut Client) {
    let last = client.all();
    assert!(!client.is_open() && last.iter().all(|found| found.name() != "error"), "{last:?}");
}

/// Returns a room that is at home on the second node.
fn room_there(server: &Server) -> String {
    let rooms = (0..).map(|number| format!("room{number}@conference.example.org"));
    rooms.into_iter().find(|room| server.home_of(room) >= 2).expect("some room is at home there")
}

fn enter(client: &mut Client, room: &str, nick: &str) {
    client.send(&format!("<presence to='{room}/{nick}'><x xmlns='http://jabber.org/protocol/muc'/></presence>"));
    client.all();
    client.send(&format!(
        "<iq type='set' id='c' to='{room}'><query xmlns='http://jabber.org/protocol/muc#owner'>\
         <x xmlns='jabber:x:data' type='submit'/></query></iq>"
    ));
    client.all();
}

#[test]
fn a_session_goes_on_at_its_new_home() {
    // By way of the node that hands it on: `following` has the others.
    for by_way_of in [2, 3] {
        let server = nodes();
        let mut romeo = at(&server, "romeo", 0, 0, "orchard");
        let mut juliet = at(&server, "juliet", 2, by_way_of, "balcony");
        befriend(&mut romeo, &mut juliet);
        romeo.all();
        let id = juliet.enable();
        romeo.send(&say(juliet.full(), "one"));
        juliet.send(&say(romeo.full(), "mine"));
        assert_eq!(romeo.bodies(), ["mine"]);
        juliet.pump();
        server.remove(1);
        server.advance(2_000);
        romeo.send(&say(juliet.full(), "two"));
        romeo.expect_nothing();
        is_cut(&mut juliet);
        let (mut juliet, handled) = back(&server, &juliet, &id, 3 - by_way_of, 0);
        assert_eq!(handled, 1, "what its old home has handled is not sent again");
        assert_eq!(juliet.bodies(), ["one", "two"]);
        romeo.expect_nothing();
        juliet.send("<presence><show>away</show></presence>");
        romeo.expect(&format!("<presence from='{}'><show>away</show></presence>", juliet.full()));
        assert_eq!(server.sessions(), 2);
    }
}

/// Otherwise two nodes would act for the same accounts.
#[test]
fn nobody_acts_for_the_homes_of_a_node_that_does_not_hand_on_before_it_is_fenced_off() {
    let server = nodes();
    assert_eq!(server.take_overdue(), []);
    let mut romeo = at(&server, "romeo", 0, 0, "orchard");
    let juliet = at(&server, "juliet", 2, 2, "balcony");
    let account = juliet.jid.clone().expect("bound").to_bare();
    let acting = || server.inspect(|world| world.acts_for(account.as_str()));
    // Only one of the two nodes learns that the other is to have no homes.
    server.tell_homes(0, Some(1));
    server.advance(15_000);
    assert_eq!(server.take_overdue(), [], "its letters may wait to be read");
    romeo.send(&say(account.as_str(), "wait"));
    server.advance(25_000);
    assert_eq!(acting(), [false, false, true, false]);
    assert_eq!(server.take_overdue(), [(2, 1)]);
    server.silence(1);
    server.bury(1);
    server.advance(2_000);
    // The other one is fenced off.
    assert_eq!(acting()[..2].iter().filter(|acts| **acts).count(), 1);
    let mut juliet = server.connect_at(1);
    juliet.log_in(&account, Security::Plain);
    juliet.bind("balcony");
    juliet.send("<presence/>");
    assert_eq!(juliet.bodies(), ["wait"]);
}

/// A client that asks for all after the last id that it knows would miss what has a lower one.
#[test]
fn an_archive_grows_at_its_new_home_whatever_the_clock_there_shows() {
    let server = nodes();
    let mut romeo = at(&server, "romeo", 0, 0, "orchard");
    let mut juliet = at(&server, "juliet", 2, 0, "balcony");
    let account = juliet.jid.clone().expect("bound").to_bare();
    for text in ["one", "two"] {
        romeo.send(&say(account.as_str(), text));
        assert_eq!(juliet.bodies(), [text]);
    }
    juliet.vanish();
    server.set_time_of_day(-20_000);
    server.remove(1);
    server.advance(2_000);
    romeo.send(&say(account.as_str(), "three"));
    romeo.pump();
    let mut juliet = server.connect_at(1);
    juliet.log_in(&account, Security::Plain);
    juliet.bind("balcony");
    juliet.send("<iq type='set' id='q'><query xmlns='urn:xmpp:mam:2'/></iq>");
    let found = juliet.all();
    let results = found.iter().filter_map(|found| found.child("result", "urn:xmpp:mam:2")).map(xml);
    let bodies: Vec<_> = results.filter_map(|result| Some(result.split_once("<body>")?.1[..3].to_owned())).collect();
    assert_eq!(bodies, ["one", "two", "thr"]);
}

#[test]
fn a_session_without_a_connection_moves_and_comes_back_with_the_homes() {
    let server = nodes();
    let mut romeo = at(&server, "romeo", 0, 0, "orchard");
    let mut juliet = at(&server, "juliet", 2, 2, "balcony");
    let id = juliet.enable();
    juliet.vanish();
    romeo.send(&say(juliet.full(), "one"));
    romeo.pump();
    server.remove(1);
    romeo.send(&say(juliet.full(), "two"));
    romeo.pump();
    server.share_out();
    romeo.send(&say(juliet.full(), "three"));
    romeo.pump();
    assert_eq!(server.inspect(|world| world.session_count()), [1, 0, 1, 0], "it is where it was at first");
    let (mut juliet, _) = back(&server, &juliet, &id, 1, 0);
    assert_eq!(juliet.bodies(), ["one", "two", "three"]);
}

/// Replies to a session that leaves would wait at its new home, and the session for them: it would
/// leave without what it has sent, which its client would send again.
#[test]
fn a_session_that_leaves_is_answered_before_others_go_by_its_new_home() {
    let server = nodes();
    let romeo = server.account(&server.name_at("romeo", 0));
    let mut juliet = at(&server, "juliet", 2, 2, "balcony");
    let id = juliet.enable();
    server.tell_homes(0, Some(1));
    juliet.send(&format!("<message type='chat' id='m' to='{romeo}/nowhere'><body>?</body></message>"));
    juliet.send(&format!("<iq type='get' id='q' to='{romeo}/nowhere'><ping xmlns='urn:xmpp:ping'/></iq>"));
    juliet.pump();
    server.tell_homes(1, Some(1));
    server.advance(100);
    is_cut(&mut juliet);
    let (mut juliet, handled) = back(&server, &juliet, &id, 0, 0);
    assert_eq!(handled, 2, "nothing is sent again");
    assert_eq!(juliet.all().iter().filter(|found| found.attr("id") == Some("q")).count(), 1);
}

/// A session that can't move ends, and those who move with it hear of that at their new home, when
/// they are there. That comes together with them, and must not keep them from being there.
#[test]
fn what_waits_for_those_who_move_does_not_hold_them_up() {
    let server = nodes();
    let (mut juliet, mut nurse) = (at(&server, "juliet", 2, 2, "balcony"), at(&server, "nurse", 2, 2, "kitchen"));
    befriend(&mut juliet, &mut nurse);
    nurse.all();
    juliet.all();
    let id = juliet.enable();
    server.remove(1);
    server.advance(1_000);
    let (mut juliet, _) = back(&server, &juliet, &id, 0, 0);
    juliet.expect(&format!("<presence type='unavailable' from='{}'/>", nurse.full()));
}

#[test]
fn two_devices_move_together_and_keep_their_own() {
    let server = nodes();
    let mut romeo = at(&server, "romeo", 0, 0, "orchard");
    let mut phone = at(&server, "juliet", 2, 2, "phone");
    let mut desk = at(&server, "juliet", 2, 0, "desk");
    phone.all();
    desk.all();
    let ids = [phone.enable(), desk.enable()];
    phone.vanish();
    romeo.send(&say(phone.bare(), "both"));
    romeo.send(&say(phone.full(), "phone"));
    desk.pump();
    server.remove(1);
    romeo.send(&say(phone.bare(), "both again"));
    romeo.pump();
    let (mut phone, _) = back(&server, &phone, &ids[0], 0, 0);
    let (mut desk, _) = back(&server, &desk, &ids[1], 1, 0);
    assert_eq!(phone.bodies(), ["both", "phone", "both again"]);
    assert_eq!(desk.bodies(), ["both", "both again"]);
}

#[test]
fn a_session_that_cannot_be_resumed_ends_and_its_client_comes_again() {
    let server = nodes();
    let (mut romeo, mut juliet) = (at(&server, "romeo", 0, 0, "orchard"), at(&server, "juliet", 2, 2, "balcony"));
    server.tell_homes(0, Some(1));
    server.tell_homes(1, Some(1));
    juliet.expect_stream_error("system-shutdown");
    let account = juliet.jid.clone().expect("bound").to_bare();
    let mut again = server.connect_at(3);
    again.log_in(&account, Security::Plain);
    again.bind("phone");
    again.send(&say(romeo.full(), "from my new home"));
    romeo.expect_message(again.full(), "from my new home");
}

#[test]
fn who_is_in_a_room_that_moves_notices_nothing() {
    let server = nodes();
    let room = room_there(&server);
    // One is at home with the room, one at the other node, one comes from another server.
    let mut romeo = at(&server, "romeo", 0, 0, "orchard");
    let mut juliet = at(&server, "juliet", 2, 2, "balcony");
    let mut nurse = at(&server, "nurse", 1, 3, "house");
    for (client, nick) in [(&mut romeo, "romeo"), (&mut juliet, "juliet"), (&mut nurse, "nurse")] {
        enter(client, &room, nick);
    }
    romeo.send(&format!("<message type='groupchat' to='{room}'><subject>Verona</subject></message>"));
    romeo.send(&format!("<message type='groupchat' to='{room}'><body>before</body></message>"));
    [&mut romeo, &mut juliet, &mut nurse].iter_mut().for_each(|client| drop(client.all()));
    let id = juliet.enable();
    for round in 0..2 {
        match round {
            0 => server.remove(1),
            _ => server.share_out(),
        }
        server.advance(3_000);
        for client in [&mut romeo, &mut nurse] {
            assert_eq!(client.all().iter().map(xml).collect::<Vec<_>>(), [""; 0], "{}", client.full());
        }
        if round == 0 {
            is_cut(&mut juliet);
        }
        let (mut again, _) = back(&server, &juliet, &id, 1, u32::from(round > 0));
        assert_eq!(again.bodies(), [""; 0]);
        again.send(&format!("<message type='groupchat' to='{room}'><body>after {round}</body></message>"));
        for client in [&mut romeo, &mut nurse, &mut again] {
            assert_eq!(client.bodies(), [format!("after {round}")], "{}", client.full());
        }
        again.vanish();
        if round == 1 {
            let mut mercutio = at(&server, "mercutio", 0, 2, "street");
            mercutio.send(&format!(
                "<presence to='{room}/mercutio'><x xmlns='http://jabber.org/protocol/muc'/></presence>"
            ));
            let got = mercutio.all().iter().map(xml).collect::<String>();
            for part in ["before", "after 0", "<subject>Verona</subject>", "/romeo", "/juliet", "/nurse"] {
                assert!(got.contains(part), "{part} is not in {got}");
            }
        }
    }
}

/// Her new session has the address of the old one, and is not in the room.
#[test]
fn who_comes_back_in_another_session_is_no_longer_in_the_room() {
    let server = nodes();
    let room = room_there(&server);
    let mut romeo = at(&server, "romeo", 0, 0, "orchard");
    let mut juliet = at(&server, "juliet", 2, 2, "balcony");
    enter(&mut romeo, &room, "romeo");
    enter(&mut juliet, &room, "juliet");
    romeo.all();
    server.tell_homes(0, Some(1));
    server.tell_homes(1, Some(1));
    juliet.expect_stream_error("system-shutdown");
    let mut again = server.connect_at(1);
    again.log_in(&juliet.jid.clone().expect("bound").to_bare(), Security::Plain);
    again.bind("balcony");
    again.send("<presence/>");
    server.advance(16_000);
    let got: Vec<_> = romeo.all().iter().map(xml).collect();
    let is_out = |text: &String| text.contains("unavailable") && text.contains("/juliet");
    assert!(got.iter().any(is_out), "{got:?}");
    // She enters again like any other occupant, until her home moves to a node that joins.
    enter(&mut again, &room, "juliet");
    assert!(romeo.all().iter().map(xml).any(|text| text.contains("/juliet") && !text.contains("unavailable")));
    server.share_out();
    again.expect_stream_error("reset");
    let mut third = server.connect_at(3);
    third.log_in(&juliet.jid.clone().expect("bound").to_bare(), Security::Plain);
    third.bind("balcony");
    third.send("<presence/>");
    server.advance(16_000);
    let got: Vec<_> = romeo.all().iter().map(xml).collect();
    assert!(got.iter().any(is_out), "{got:?}");
}

#[test]
fn whose_session_ends_with_a_move_leaves_rooms_that_stay() {
    let server = nodes();
    let rooms = (0..).map(|number| format!("room{number}@conference.example.org"));
    let room = rooms.into_iter().find(|room| server.home_of(room) < 2).expect("some room is at home there");
    let mut romeo = at(&server, "romeo", 0, 0, "orchard");
    let mut juliet = at(&server, "juliet", 2, 2, "balcony");
    enter(&mut romeo, &room, "romeo");
    enter(&mut juliet, &room, "juliet");
    romeo.all();
    server.tell_homes(0, Some(1));
    server.tell_homes(1, Some(1));
    juliet.expect_stream_error("system-shutdown");
    server.advance(16_000);
    let got: Vec<_> = romeo.all().iter().map(xml).collect();
    assert!(got.iter().any(|text| text.contains("unavailable") && text.contains("/juliet")), "{got:?}");
    let mut again = server.connect_at(1);
    again.log_in(&juliet.jid.clone().expect("bound").to_bare(), Security::Plain);
    again.bind("balcony");
    again.send("<presence/>");
    enter(&mut again, &room, "juliet");
    romeo.all();
    server.share_out();
    again.expect_stream_error("reset");
    server.advance(16_000);
    let got: Vec<_> = romeo.all().iter().map(xml).collect();
    assert!(got.iter().any(|text| text.contains("unavailable") && text.contains("/juliet")), "{got:?}");
}

/// Nodes take note of new homes one after the other; whatever is written meanwhile arrives, once
/// and in its order.
#[test]
fn what_is_under_way_while_homes_move_keeps_its_order() {
    for seed in 0..24_u64 {
        let server = Server::with(Config { shards: 4, nodes: 2, seed, ..Config::default() });
        let room = room_there(&server);
        let mut juliet = at(&server, "juliet", 2, 2, "balcony");
        enter(&mut juliet, &room, "juliet");
        let mut writers: Vec<Client> = [(0, 0), (1, 3), (3, 1), (2, 2)]
            .into_iter()
            .map(|(home, way)| at(&server, "writer", home, way, "r"))
            .collect();
        for (number, writer) in writers.iter_mut().enumerate() {
            enter(writer, &room, &format!("writer{number}"));
            writer.enable();
        }
        juliet.all();
        let id = juliet.enable();
        let mut sent = vec![0; writers.len()];
        let mut chance = seed * 7919 + 1;
        let mut draw = |most: u64| {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (chance >> 33) % most
        };
        let told_first = (seed % 2) as usize;
        for turn in 0..240 {
            server.move_clock(server.now() + 50);
            if turn == 60 {
                server.tell_homes(told_first, Some(1));
            }
            if turn == 100 {
                server.tell_homes(1 - told_first, Some(1));
            }
            // The old home may have much to do when the others learn of the new one.
            match turn {
                95 if seed % 4 == 1 => server.stall(Some(2)),
                110 => server.stall(None),
                _ => {}
            }
            let who = draw(writers.len() as u64) as usize;
            // Those whose own home moves lose their connections by that.
            if who < 2 || turn < 60 {
                let text = format!("{who} {}", sent[who]);
                sent[who] += 1;
                writers[who].send(&say(juliet.full(), &text));
                writers[who].send(&format!("<message type='groupchat' to='{room}'><body>{text}</body></message>"));
            }
            for _ in 0..draw(if (95..110).contains(&turn) { 12 } else { 4 }) {
                server.step(draw(4) as usize);
            }
        }
        server.settle();
        server.advance(3_000);
        let (mut juliet, _) = back(&server, &juliet, &id, (seed % 4) as usize, 0);
        let got = juliet.all();
        for (who, &sent) in sent.iter().enumerate() {
            let of = |kind: &str| -> Vec<String> {
                let messages = got.iter().filter(|found| found.name() == "message" && found.attr("type") == Some(kind));
                let bodies = messages
                    .filter_map(|message| Some(message.children().find(|child| child.name() == "body")?.text()));
                bodies.filter(|body| body.starts_with(&format!("{who} "))).collect()
            };
            let wanted: Vec<String> = (0..sent).map(|number| format!("{who} {number}")).collect();
            for got in [of("chat"), of("groupchat")] {
                // The last messages of a client whose own home moves may not have been read.
                let is_all = who < 2 && got == wanted;
                assert!(is_all || who >= 2 && wanted.starts_with(&got), "seed {seed}: {got:?} of {}", wanted.len());
            }
        }
        assert!(got.iter().all(|found| found.attr("type") != Some("unavailable")), "seed {seed}: {got:?}");
    }
}

/// Nodes come and go faster than what moves for them.
#[test]
fn homes_that_move_again_before_all_has_come_lose_nothing() {
    for seed in 0..16_u64 {
        let server = Server::with(Config { shards: 4, nodes: 2, seed, ..Config::default() });
        let room = room_there(&server);
        let mut juliet = at(&server, "juliet", 2, 2, "balcony");
        let mut romeo = at(&server, "romeo", 0, 0, "orchard");
        enter(&mut juliet, &room, "juliet");
        enter(&mut romeo, &room, "romeo");
        juliet.all();
        romeo.all();
        let id = juliet.enable();
        juliet.vanish();
        let mut chance = seed * 104_729 + 7;
        let mut draw = |most: u64| {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (chance >> 33) % most
        };
        let mut sent = 0;
        for turn in 0..300 {
            server.move_clock(server.now() + 20);
            if turn % 30 == 10 {
                let without = (turn / 30 % 2 == 0).then_some(1);
                let first = draw(2) as usize;
                server.tell_homes(first, without);
                for _ in 0..draw(12) {
                    server.step(draw(4) as usize);
                }
                server.tell_homes(1 - first, without);
            }
            if draw(3) == 0 {
                romeo.send(&say(juliet.full(), &format!("chat {sent}")));
                romeo.send(&format!("<message type='groupchat' to='{room}'><body>room {sent}</body></message>"));
                sent += 1;
            }
            for _ in 0..draw(6) {
                server.step(draw(4) as usize);
            }
        }
        server.settle();
        server.advance(3_000);
        let (mut juliet, _) = back(&server, &juliet, &id, (seed % 4) as usize, 0);
        let got = juliet.bodies();
        for kind in ["chat", "room"] {
            let of: Vec<&String> = got.iter().filter(|body| body.starts_with(kind)).collect();
            let wanted: Vec<String> = (0..sent).map(|number| format!("{kind} {number}")).collect();
            assert_eq!(of, wanted.iter().collect::<Vec<_>>(), "seed {seed}");
        }
        let heard = romeo.all().iter().map(xml).collect::<String>();
        assert!(!heard.contains("unavailable") && !heard.contains("type='error'"), "seed {seed}: {heard}");
    }
}

/// A session goes to and fro while a third node is slow to say that it has sent all: the home that
/// it comes back to waits for it.
#[test]
fn a_home_waits_for_what_has_to_come_by_way_of_another() {
    let server = Server::with(Config { shards: 6, nodes: 3, ..Config::default() });
    let tell_all = |without| (0..3).for_each(|told| server.tell_homes(told, without));
    server.remove(0);
    let mut romeo = at(&server, "romeo", 2, 2, "orchard");
    let mut juliet = at(&server, "juliet", 4, 4, "balcony");
    let id = juliet.enable();
    juliet.vanish();
    // The homes of the last node go to the first one, which also gets its own back.
    tell_all(Some(2));
    server.stall(Some(3));
    server.settle();
    server.stall(None);
    // Goes by these homes, as all others are at rest, says so, and nothing more.
    server.step(3);
    server.stall(Some(3));
    server.settle();
    assert_eq!(server.inspect(|world| world.session_count()), [0, 0, 1, 0, 0, 0], "the session is on its way");
    tell_all(None);
    server.settle();
    romeo.send(&format!("<presence to='{}'><show>away</show></presence>", juliet.full()));
    romeo.pump();
    // Others don't wait for that shard for ever.
    server.advance(11_000);
    server.advance(10_000);
    assert_eq!(server.inspect(|world| world.session_count()), [0, 0, 1, 0, 1, 0], "the session is back");
    server.stall(None);
    server.settle();
    let (mut juliet, _) = back(&server, &juliet, &id, 4, 0);
    juliet.expect(&format!("<presence from='{}'><show>away</show></presence>", romeo.full()));
}

/// A client that comes back before its session has come waits for it.
#[test]
fn who_comes_back_early_waits_for_the_session() {
    let server = nodes();
    let mut juliet = at(&server, "juliet", 2, 2, "balcony");
    let id = juliet.enable();
    let jid: Jid = juliet.jid.clone().expect("bound");
    juliet.vanish();
    // The new home knows that it is one, the old one does not.
    server.tell_homes(0, Some(1));
    server.settle();
    let mut again = server.connect_at(server.home_of(jid.local().expect("a name")));
    again.log_in_ahead(&jid.to_bare());
    again.send(&format!("<resume xmlns='urn:xmpp:sm:3' previd='{id}' h='0'/>"));
    server.settle();
    server.tell_homes(1, Some(1));
    server.settle();
    again.expect_header();
    let got = again.all().iter().map(xml).collect::<String>();
    assert!(got.contains("<resumed "), "{got}");
}

/// A shard is told of new homes while a session that leaves waits for what it has sent; that comes
/// back from a node that has died, and would go there again by the old ones.
#[test]
fn mail_that_comes_back_goes_by_the_homes_that_are_to_come() {
    let server = Server::with(Config { shards: 6, nodes: 3, ..Config::default() });
    let mut juliet = at(&server, "juliet", 0, 0, "balcony");
    juliet.enable();
    let romeo = server.address(&server.name_at("romeo", 4));
    server.account(romeo.as_str());
    server.silence(2);
    juliet.send(&say(romeo.as_str(), "one"));
    juliet.expect_nothing();
    server.tell_homes(0, Some(0));
    server.settle();
    server.bury(2);
    let mut late = server.connect_at(0);
    late.log_in(&romeo, Security::Plain);
    late.bind("orchard");
    late.send("<presence/>");
    assert_eq!(late.bodies(), ["one"]);
}

/// A node stands still for a while: its clients' sessions elsewhere have lost their connections
/// meanwhile, of which it knows nothing.
#[test]
fn clients_of_a_node_that_was_silent_come_again() {
    let server = nodes();
    let mut juliet = at(&server, "juliet", 0, 2, "balcony");
    let id = juliet.enable();
    server.depart(1);
    is_cut(&mut juliet);
    back(&server, &juliet, &id, 0, 0);
}

/// A node that others take for silent may only be slow: it has its homes until it has handed them
/// on, or is fenced off.
#[test]
fn who_is_only_silent_has_its_homes_until_it_hands_them_on() {
    let server = Server::with(Config { shards: 6, nodes: 3, ..Config::default() });
    let mut romeo = at(&server, "romeo", 0, 0, "orchard");
    let mut juliet = at(&server, "juliet", 2, 0, "balcony");
    juliet.enable();
    server.depart(1);
    server.tell_homes(0, Some(1));
    server.tell_homes(2, Some(1));
    server.settle();
    romeo.send(&say(juliet.full(), "one"));
    romeo.expect_nothing();
    assert_eq!(server.inspect(|world| world.session_count()), [1, 0, 1, 0, 0, 0], "nobody has begun without it");
    server.tell_homes(1, Some(1));
    server.settle();
    server.advance(12_000);
    assert_eq!(server.inspect(|world| world.session_count()), [1, 0, 0, 0, 1, 0]);
    assert_eq!(juliet.bodies(), ["one"]);
}
