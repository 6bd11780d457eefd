//! A node dies: its sessions and rooms continue at their new homes, as far as its journal has them.

mod meanwhile;
mod outage;
mod rights;
mod shards;

use std::sync::Arc;

use rookery_jid::Jid;
use rookery_store::held::HeldStores;
use rookery_store::memory::Memory;
use rookery_testkit::{Client, Config, Security, Server, befriend};

/// Returns two nodes of two shards each: the first node has shards 0 and 1, the second one 2 and 3.
fn nodes() -> Server {
    Server::with(Config { shards: 4, nodes: 2, ..Config::default() })
}

/// Returns the same with their store, which may be taken away.
fn nodes_with_a_store() -> (Arc<HeldStores>, Server) {
    let held = HeldStores::new(Memory::stores());
    held.set_flowing(true);
    let server = Server::with(Config { shards: 4, nodes: 2, stores: held.stores(), ..Config::default() });
    (held, server)
}

/// Logs in a user whose home is shard `home`, through shard `by_way_of`, with a resource.
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

/// Asks how many stanzas of a client the server has handled, and returns the last count.
fn ask_handled(server: &Server, client: &mut Client) -> Option<String> {
    client.send("<r xmlns='urn:xmpp:sm:3'/>");
    client.pump();
    server.advance(WRITTEN_MS);
    let got = client.all();
    got.iter().filter(|got| got.name() == "a").filter_map(|a| a.attr("h").map(str::to_owned)).next_back()
}

/// Resumes a session through a shard. Returns the client and the server's count.
fn back(server: &Server, jid: &Jid, id: &str, by_way_of: usize, handled: u32) -> (Client, u32) {
    let mut again = server.connect_at(by_way_of);
    again.log_in(&jid.to_bare(), Security::Plain);
    let h = again.resume(jid, id, handled);
    (again, h)
}

/// Returns the ids that archives have given to the messages that a client got.
fn ids(client: &mut Client) -> Vec<String> {
    let all = client.all();
    let ids = all.iter().filter_map(|message| message.child("stanza-id", "urn:xmpp:sid:0")?.attr("id"));
    ids.map(str::to_owned).collect()
}

/// Kills the second node.
fn kill(server: &Server) {
    server.silence(1);
    server.bury(1);
}

/// A letter and a write of its own for each stanza would cost more than the stanza.
#[test]
fn what_follows_closely_leaves_together_and_clients_get_it_no_sooner_than_the_journal() {
    let server = nodes();
    let mut romeo = at(&server, "romeo", 0, 0, "orchard");
    let mut juliet = at(&server, "juliet", 2, 2, "balcony");
    befriend(&mut romeo, &mut juliet);
    romeo.all();
    juliet.enable();
    server.linger(3);
    server.advance(1_000);
    let at_once = |from: &mut Client, to: &mut Client, text: &str| {
        from.send(&say(to.full(), text));
        to.bodies()
    };
    assert_eq!(at_once(&mut romeo, &mut juliet, "1"), ["1"], "after a pause nothing waits");
    assert_eq!(at_once(&mut romeo, &mut juliet, "2"), [""; 0], "the letter waits");
    assert_eq!(at_once(&mut romeo, &mut juliet, "3"), [""; 0]);
    server.advance(3);
    assert_eq!(juliet.bodies(), ["2", "3"]);
    server.advance(1_000);
    // The nurse is on Juliet's own node, so that only the journal can make the message wait.
    let mut nurse = at(&server, "nurse", 2, 2, "kitchen");
    server.advance(1_000);
    assert_eq!(at_once(&mut nurse, &mut juliet, "4"), ["4"]);
    assert_eq!(at_once(&mut nurse, &mut juliet, "5"), [""; 0], "the journal has to have it first");
    server.advance(3);
    assert_eq!(juliet.bodies(), ["5"]);
}

#[test]
fn a_session_goes_on_with_what_its_client_had_not_acknowledged() {
    let server = nodes();
    let mut romeo = at(&server, "romeo", 0, 0, "orchard");
    let mut juliet = at(&server, "juliet", 2, 2, "balcony");
    befriend(&mut romeo, &mut juliet);
    romeo.all();
    let id = juliet.enable();
    let jid = juliet.jid.clone().expect("bound");
    juliet.send(&say(romeo.full(), "mine"));
    assert_eq!(romeo.bodies(), ["mine"]);
    server.advance(WRITTEN_MS);
    romeo.send(&say(juliet.full(), "one"));
    romeo.send(&say(juliet.full(), "two"));
    romeo.pump();
    // The client gets both, but will say that it has handled only the first one.
    assert_eq!(juliet.bodies(), ["one", "two"]);
    kill(&server);
    romeo.send(&say(juliet.full(), "three"));
    romeo.expect_nothing();
    let (mut juliet, handled) = back(&server, &jid, &id, 0, 1);
    assert_eq!(handled, 1, "what its old home has handled is not sent again");
    assert_eq!(juliet.bodies(), ["two", "three"]);
    juliet.send("<presence><show>away</show></presence>");
    romeo.expect(&format!("<presence from='{jid}'><show>away</show></presence>"));
}

#[test]
fn a_session_without_a_connection_goes_on_and_ends_in_time() {
    let server = nodes();
    let (mut romeo, mut juliet) = (at(&server, "romeo", 0, 0, "orchard"), at(&server, "juliet", 2, 2, "balcony"));
    befriend(&mut romeo, &mut juliet);
    romeo.all();
    juliet.enable();
    let full = juliet.full().to_owned();
    juliet.vanish();
    server.advance(60_000);
    kill(&server);
    romeo.expect_nothing();
    server.advance(600_000);
    romeo.expect(&format!("<presence from='{full}' type='unavailable'/>"));
}

#[test]
fn a_client_may_have_got_more_than_the_journal_knows() {
    let server = nodes();
    let (mut romeo, mut juliet) = (at(&server, "romeo", 0, 0, "orchard"), at(&server, "juliet", 2, 2, "balcony"));
    let id = juliet.enable();
    let jid = juliet.jid.clone().expect("bound");
    romeo.enable();
    romeo.send(&say(juliet.full(), "one"));
    assert_eq!(juliet.bodies(), ["one"]);
    assert_eq!(ask_handled(&server, &mut romeo).as_deref(), Some("1"));
    server.slow_journals(true);
    romeo.send(&say(juliet.full(), "two"));
    assert_eq!(juliet.bodies(), ["two"]);
    assert_ne!(ask_handled(&server, &mut romeo).as_deref(), Some("2"), "nobody but the node that dies has it");
    kill(&server);
    let (mut juliet, _) = back(&server, &jid, &id, 0, 2);
    assert_eq!(juliet.bodies(), [""; 0], "what the client says that it has is not sent again");
    romeo.send(&say(jid.as_str(), "three"));
    assert_eq!(juliet.bodies(), ["three"]);
}

#[test]
fn a_client_is_told_no_count_that_the_journal_lacks() {
    let server = nodes();
    let mut juliet = at(&server, "juliet", 2, 2, "balcony");
    let id = juliet.enable();
    let jid = juliet.jid.clone().expect("bound");
    juliet.send(&say(jid.bare_str(), "one"));
    assert_eq!(ask_handled(&server, &mut juliet).as_deref(), Some("1"));
    server.slow_journals(true);
    juliet.send("<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>");
    assert_ne!(ask_handled(&server, &mut juliet).as_deref(), Some("2"));
    server.slow_journals(false);
    assert_eq!(ask_handled(&server, &mut juliet).as_deref(), Some("2"));
    kill(&server);
    let (_, handled) = back(&server, &jid, &id, 0, 0);
    assert_eq!(handled, 2);
}

#[test]
fn what_is_said_again_has_the_same_id() {
    let server = nodes();
    let (mut romeo, mut juliet) = (at(&server, "romeo", 0, 0, "orchard"), at(&server, "juliet", 2, 2, "balcony"));
    let id = juliet.enable();
    let jid = juliet.jid.clone().expect("bound");
    server.slow_journals(true);
    let text = format!("<message type='chat' id='m1' to='{}'><body>once</body></message>", romeo.full());
    juliet.send(&text);
    juliet.pump();
    server.advance(WRITTEN_MS);
    let first = ids(&mut romeo);
    assert_eq!(first.len(), 1);
    kill(&server);
    let (mut juliet, handled) = back(&server, &jid, &id, 0, 0);
    assert_eq!(handled, 0, "nobody knows what has come of it");
    juliet.send(&text);
    juliet.send(&format!("<message type='chat' id='m2' to='{}'><body>once</body></message>", romeo.full()));
    juliet.pump();
    server.advance(WRITTEN_MS);
    let again = ids(&mut romeo);
    assert_eq!((again.len(), &again[0]), (2, &first[0]));
    assert_ne!(again[1], first[0], "another message is another one");
    for client in [&mut romeo, &mut juliet] {
        client.send("<iq type='set' id='q'><query xmlns='urn:xmpp:mam:2'/></iq>");
        client.pump();
        server.advance(WRITTEN_MS);
        let all = client.all();
        let results = all.iter().filter(|found| found.child("result", "urn:xmpp:mam:2").is_some());
        assert_eq!(results.count(), 2, "{all:?}");
    }
}

#[test]
fn what_no_archive_had_yet_has_the_same_id_again() {
    let server = nodes();
    let mut juliet = at(&server, "juliet", 2, 2, "balcony");
    let id = juliet.enable();
    let jid = juliet.jid.clone().expect("bound");
    let text = format!("<message type='chat' id='m1' to='{jid}'><body>to myself</body></message>");
    juliet.send(&text);
    let first = ids(&mut juliet);
    assert_eq!(first.len(), 1);
    kill(&server);
    let (mut juliet, handled) = back(&server, &jid, &id, 0, 1);
    assert_eq!(handled, 0);
    juliet.send(&text);
    assert_eq!(ids(&mut juliet), first);
    server.advance(WRITTEN_MS);
    juliet.send("<iq type='set' id='q'><query xmlns='urn:xmpp:mam:2'/></iq>");
    let all = juliet.all();
    let results = all.iter().filter_map(|found| found.child("result", "urn:xmpp:mam:2")?.attr("id"));
    assert_eq!(results.collect::<Vec<_>>(), first, "the archive has it once, under that id");
}

/// A node that leaves hands on what it knows of the messages of a node that has died.
#[test]
fn what_is_said_again_to_the_next_home_but_one_has_the_same_id() {
    let server = Server::with(Config { shards: 6, nodes: 3, ..Config::default() });
    let mut romeo = at(&server, "romeo", 4, 4, "orchard");
    let mut juliet = at(&server, "juliet", 2, 2, "balcony");
    let (id, own) = (juliet.enable(), romeo.enable());
    let jid = juliet.jid.clone().expect("bound");
    let rooms = (0..).map(|number| format!("room{number}@conference.example.org"));
    let room = rooms.into_iter().find(|room| server.home_of(room) / 2 == 1).expect("some room is at home there");
    enter(&mut juliet, &room, "juliet");
    enter(&mut romeo, &room, "romeo");
    server.advance(3_000);
    juliet.all();
    romeo.all();
    let texts = [
        format!("<message type='chat' id='m1' to='{jid}'><body>to myself</body></message>"),
        format!("<message type='groupchat' id='g1' to='{room}'><body>hear</body></message>"),
    ];
    texts.iter().for_each(|text| juliet.send(text));
    let (first, heard) = (ids(&mut juliet), ids(&mut romeo));
    assert_eq!((first.len(), heard.len()), (2, 1));
    kill(&server);
    // The node that has taken over leaves in good order.
    server.remove(2);
    let romeo_jid = romeo.jid.clone().expect("bound");
    let (mut romeo, _) = back(&server, &romeo_jid, &own, 0, 0);
    let (mut juliet, _) = back(&server, &jid, &id, 0, 0);
    juliet.all();
    romeo.all();
    texts.iter().for_each(|text| juliet.send(text));
    let again = ids(&mut juliet);
    assert_eq!((again, ids(&mut romeo)), (first, heard));
}

/// The node was told to leave, but dies before it has begun to: the nodes that wait for its data
/// read its journal instead.
#[test]
fn a_node_that_dies_before_it_leaves_has_its_journal_read() {
    let server = nodes();
    let mut romeo = at(&server, "romeo", 0, 0, "orchard");
    let mut juliet = at(&server, "juliet", 2, 2, "balcony");
    let room = room_there(&server);
    enter(&mut juliet, &room, "juliet");
    enter(&mut romeo, &room, "romeo");
    juliet.all();
    let id = juliet.enable();
    let jid = juliet.jid.clone().expect("bound");
    server.advance(3_000);
    romeo.all();
    server.silence(1);
    server.tell_homes(0, Some(1));
    server.settle();
    // The node is first found to be silent, and then fenced off.
    server.depart(1);
    server.advance(2_000);
    server.bury(1);
    let (mut juliet, _) = back(&server, &jid, &id, 0, 0);
    juliet.all();
    romeo.expect_nothing();
    romeo.send(&format!("<message type='groupchat' to='{room}'><body>still here</body></message>"));
    for client in [&mut romeo, &mut juliet] {
        assert_eq!(client.bodies(), ["still here"]);
    }
}

/// Juliet's new session has the address of the session that died, but is not in the room.
#[test]
fn who_comes_back_in_another_session_after_a_death_is_no_longer_in_the_room() {
    let server = nodes();
    let mut romeo = at(&server, "romeo", 0, 0, "orchard");
    let mut juliet = at(&server, "juliet", 2, 2, "balcony");
    let room = room_there(&server);
    enter(&mut juliet, &room, "juliet");
    enter(&mut romeo, &room, "romeo");
    server.advance(3_000);
    romeo.all();
    kill(&server);
    let mut again = server.connect_at(0);
    again.log_in(&juliet.jid.clone().expect("bound").to_bare(), Security::Plain);
    again.bind("balcony");
    again.send("<presence/>");
    server.advance(20_000);
    let mut heard = romeo.all().into_iter();
    assert!(heard.any(|got| got.attr("type") == Some("unavailable")), "she is shown there for ever");
}

/// The third node leaves while it reads the journal of the dead node: it hands on the homes
/// together with the data from that journal.
#[test]
fn a_node_that_leaves_has_read_what_it_had_to_take_over() {
    let server = Server::with(Config { shards: 6, nodes: 3, ..Config::default() });
    let mut romeo = at(&server, "romeo", 0, 0, "orchard");
    let mut juliet = at(&server, "juliet", 2, 2, "balcony");
    let id = juliet.enable();
    let jid = juliet.jid.clone().expect("bound");
    server.slow_lookups(true);
    kill(&server);
    server.remove(2);
    server.advance(1_000);
    romeo.send(&format!("<presence to='{jid}'><show>away</show></presence>"));
    romeo.pump();
    server.slow_lookups(false);
    let (mut juliet, _) = back(&server, &jid, &id, 0, 0);
    juliet.expect(&format!("<presence from='{}'><show>away</show></presence>", romeo.full()));
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
fn who_is_in_a_room_of_a_node_that_dies_notices_a_pause() {
    let server = nodes();
    let mut romeo = at(&server, "romeo", 0, 0, "orchard");
    let mut mercutio = at(&server, "mercutio", 1, 1, "street");
    let mut juliet = at(&server, "juliet", 2, 2, "balcony");
    let room = room_there(&server);
    enter(&mut romeo, &room, "romeo");
    enter(&mut mercutio, &room, "mercutio");
    enter(&mut juliet, &room, "juliet");
    let id = juliet.enable();
    let jid = juliet.jid.clone().expect("bound");
    romeo.send(&format!("<message type='groupchat' to='{room}'><subject>balconies</subject></message>"));
    server.advance(3_000);
    for client in [&mut romeo, &mut mercutio, &mut juliet] {
        client.all();
    }
    kill(&server);
    let (mut juliet, _) = back(&server, &jid, &id, 1, 0);
    juliet.all();
    server.advance(20_000);
    romeo.expect_nothing();
    romeo.send(&format!("<message type='groupchat' to='{room}'><body>still here</body></message>"));
    for client in [&mut romeo, &mut mercutio, &mut juliet] {
        assert_eq!(client.bodies(), ["still here"]);
    }
    let mut late = at(&server, "benvolio", 0, 1, "hall");
    late.send(&format!("<presence to='{room}/benvolio'><x xmlns='http://jabber.org/protocol/muc'/></presence>"));
    let got = late.all();
    let subject = got.iter().find_map(|got| got.child("subject", "jabber:client")).map(|subject| subject.text());
    assert_eq!(subject.as_deref(), Some("balconies"));
}

#[test]
fn what_is_said_again_in_a_room_has_the_same_id() {
    let server = nodes();
    let mut romeo = at(&server, "romeo", 0, 0, "orchard");
    let mut juliet = at(&server, "juliet", 2, 2, "balcony");
    let room = room_there(&server);
    enter(&mut romeo, &room, "romeo");
    enter(&mut juliet, &room, "juliet");
    let id = juliet.enable();
    let jid = juliet.jid.clone().expect("bound");
    server.advance(3_000);
    romeo.all();
    juliet.all();
    let said = |client: &mut Client| -> Vec<(String, String)> {
        let all = client.all();
        let said = all.iter().filter_map(|message| {
            let id = message.child("stanza-id", "urn:xmpp:sid:0")?.attr("id")?;
            Some((message.child_text("body", "jabber:client")?, id.to_owned()))
        });
        said.collect()
    };
    let text = format!("<message type='groupchat' id='g1' to='{room}'><body>hear</body></message>");
    juliet.send(&text);
    let first = said(&mut romeo);
    assert_eq!(first.len(), 1);
    kill(&server);
    let (mut juliet, handled) = back(&server, &jid, &id, 0, 1);
    assert_eq!(handled, 0);
    juliet.send(&text);
    assert_eq!(said(&mut romeo), first);
    server.advance(WRITTEN_MS);
    let mut late = at(&server, "benvolio", 0, 1, "hall");
    late.send(&format!("<presence to='{room}/benvolio'><x xmlns='http://jabber.org/protocol/muc'/></presence>"));
    assert_eq!(late.bodies(), ["hear"], "the history has it once");
}

/// The archive may be quicker than the journal.
#[test]
fn what_only_the_archive_of_a_room_had_has_the_same_id() {
    let server = nodes();
    let mut romeo = at(&server, "romeo", 0, 0, "orchard");
    let mut juliet = at(&server, "juliet", 2, 2, "balcony");
    let room = room_there(&server);
    enter(&mut romeo, &room, "romeo");
    enter(&mut juliet, &room, "juliet");
    let id = juliet.enable();
    let jid = juliet.jid.clone().expect("bound");
    server.advance(3_000);
    romeo.all();
    juliet.all();
    server.slow_journals(true);
    let text = format!("<message type='groupchat' id='g1' to='{room}'><body>hear</body></message>");
    juliet.send(&text);
    let first = ids(&mut romeo);
    assert_eq!(first.len(), 1);
    server.advance(1_000);
    kill(&server);
    server.slow_journals(false);
    let (mut juliet, handled) = back(&server, &jid, &id, 0, 1);
    assert_eq!(handled, 0);
    juliet.send(&text);
    assert_eq!(ids(&mut romeo), first);
    server.advance(WRITTEN_MS);
    romeo.send(&format!("<iq type='set' id='q' to='{room}'><query xmlns='urn:xmpp:mam:2'/></iq>"));
    let all = romeo.all();
    let results = all.iter().filter_map(|found| found.child("result", "urn:xmpp:mam:2")?.attr("id"));
    assert_eq!(results.collect::<Vec<_>>(), first, "the archive has it once, under that id");
}

/// A client may stay away for as long as its session waits for it.
#[test]
fn what_is_said_again_minutes_later_has_the_same_id() {
    let server = nodes();
    let mut romeo = at(&server, "romeo", 0, 0, "orchard");
    let mut juliet = at(&server, "juliet", 2, 2, "balcony");
    let room = room_there(&server);
    enter(&mut romeo, &room, "romeo");
    enter(&mut juliet, &room, "juliet");
    let session = juliet.enable();
    let jid = juliet.jid.clone().expect("bound");
    let to = romeo.jid.clone().expect("bound");
    server.advance(3_000);
    romeo.all();
    juliet.all();
    let texts = [
        format!("<message type='groupchat' id='g1' to='{room}'><body>hear</body></message>"),
        format!("<message type='chat' id='c1' to='{to}'><body>you</body></message>"),
    ];
    texts.iter().for_each(|text| juliet.send(text));
    let first = ids(&mut romeo);
    assert_eq!(first.len(), 2);
    kill(&server);
    server.advance(300_000);
    romeo.all();
    let (mut juliet, handled) = back(&server, &jid, &session, 0, 1);
    assert_eq!(handled, 0);
    texts.iter().for_each(|text| juliet.send(text));
    assert_eq!(ids(&mut romeo), first);
}

/// A room that moves takes along which messages it has heard, so that its next home recognises
/// repetitions.
#[test]
fn what_is_said_again_in_a_room_that_has_moved_has_the_same_id() {
    let server = Server::with(Config { shards: 6, nodes: 3, ..Config::default() });
    let mut romeo = at(&server, "romeo", 0, 0, "orchard");
    let mut juliet = at(&server, "juliet", 2, 2, "balcony");
    let rooms = (0..).map(|number| format!("room{number}@conference.example.org"));
    let room = rooms.into_iter().find(|room| server.home_of(room) >= 4).expect("some room is at home there");
    server.remove(2);
    enter(&mut romeo, &room, "romeo");
    enter(&mut juliet, &room, "juliet");
    let id = juliet.enable();
    let jid = juliet.jid.clone().expect("bound");
    server.advance(3_000);
    romeo.all();
    juliet.all();
    let text = format!("<message type='groupchat' id='g1' to='{room}'><body>hear</body></message>");
    juliet.send(&text);
    let first = ids(&mut romeo);
    assert_eq!(first.len(), 1);
    // By those homes the room comes back to where it was first.
    kill(&server);
    let (mut juliet, _) = back(&server, &jid, &id, 0, 1);
    juliet.send(&text);
    assert_eq!(ids(&mut romeo), first);
}

#[test]
fn an_occupant_whose_session_has_ended_with_its_node_leaves() {
    let server = nodes();
    let mut romeo = at(&server, "romeo", 0, 0, "orchard");
    let mut juliet = at(&server, "juliet", 2, 2, "balcony");
    let room = room_there(&server);
    enter(&mut romeo, &room, "romeo");
    enter(&mut juliet, &room, "juliet");
    server.advance(3_000);
    romeo.all();
    kill(&server);
    romeo.expect_nothing();
    server.advance(20_000);
    let got = romeo.all();
    assert!(got.iter().any(|got| got.attr("type") == Some("unavailable")), "{got:?}");
}

/// The room is silent, so no stanza to her session comes back as an error.
#[test]
fn an_occupant_whose_session_has_ended_with_its_node_leaves_the_rooms_of_other_nodes() {
    let server = nodes();
    let mut romeo = at(&server, "romeo", 0, 0, "orchard");
    let mut juliet = at(&server, "juliet", 2, 2, "balcony");
    let mut nurse = at(&server, "nurse", 3, 3, "kitchen");
    let rooms = (0..).map(|number| format!("room{number}@conference.example.org"));
    let room = rooms.into_iter().find(|room| server.home_of(room) < 2).expect("some room is at home there");
    enter(&mut romeo, &room, "romeo");
    enter(&mut juliet, &room, "juliet");
    enter(&mut nurse, &room, "nurse");
    nurse.enable();
    server.advance(3_000);
    romeo.all();
    kill(&server);
    romeo.expect_nothing();
    server.advance(20_000);
    let got = romeo.all();
    let gone = got.iter().filter(|got| got.attr("type") == Some("unavailable")).filter_map(|gone| gone.attr("from"));
    assert_eq!(gone.collect::<Vec<_>>(), [format!("{room}/juliet")], "{got:?}");
}

/// So many batches are under way that no more is written: a letter waits for the writes before it.
#[test]
fn no_letter_overtakes_what_the_journal_has_no_room_for() {
    let server = nodes();
    let mut romeo = at(&server, "romeo", 0, 0, "orchard");
    let mut juliet = at(&server, "juliet", 2, 2, "balcony");
    let mut nurse = at(&server, "nurse", 2, 2, "kitchen");
    juliet.enable();
    server.advance(1_000);
    server.slow_journals(true);
    let texts: Vec<String> = (0..MANY_BATCHES).map(|number| number.to_string()).collect();
    for text in &texts {
        nurse.send(&say(juliet.full(), text));
        nurse.pump();
    }
    assert_eq!(juliet.bodies(), texts, "nothing within a node waits for Redis");
    nurse.send(&say(romeo.full(), "last"));
    nurse.pump();
    assert_eq!(romeo.bodies(), [""; 0], "it left before what the journal lacks");
    server.slow_journals(false);
    assert_eq!(romeo.bodies(), ["last"]);
}

/// More batches than may be under way at a time.
const MANY_BATCHES: usize = 40;
/// The time within which archives store their messages and these are acknowledged, in milliseconds.
const WRITTEN_MS: u64 = 2_000;
