//! The time until other nodes take over. They ask a silent node for presence, and have news for its
//! accounts; both go to the new homes once these are known. A new home may die as well.

use rookery_hub::Value;
use rookery_jid::Jid;
use rookery_store::held::HeldStores;
use rookery_store::memory::Memory;
use rookery_testkit::login::bind_request;
use rookery_testkit::{Client, Config, Security, Server, befriend};

use super::{WRITTEN_MS, at, back, ids, kill, nodes, say};
use crate::pubsub::pep::{TUNE, wants};

/// Logs in with another resource of a user, at a shard.
fn another(server: &Server, of: &Client, shard: usize, resource: &str) -> Client {
    let mut client = server.connect_at(shard);
    client.log_in(&of.jid.as_ref().expect("bound").to_bare(), Security::Plain);
    client.bind(resource);
    client.send("<presence/>");
    client
}

/// Returns the senders of the available presence that a client has got.
fn senders_seen(client: &mut Client) -> Vec<String> {
    let mut seen: Vec<_> = client
        .all()
        .iter()
        .filter(|got| got.name() == "presence" && got.attr("type").is_none())
        .filter_map(|got| got.attr("from").map(str::to_owned))
        .collect();
    seen.sort();
    seen.dedup();
    seen
}

/// The contacts' new homes are the asker's own shard, and the other shard of the same node.
#[test]
fn who_logs_in_meanwhile_sees_contacts_whose_home_it_was() {
    let server = nodes();
    let mut romeo = at(&server, "romeo", 0, 0, "orchard");
    let mut friends = [("juliet", 2), ("nurse", 3)].map(|(stem, home)| at(&server, stem, home, home, "r"));
    for friend in &mut friends {
        befriend(&mut romeo, friend);
        friend.enable();
    }
    server.advance(WRITTEN_MS);
    server.silence(1);
    let mut phone = another(&server, &romeo, 0, "phone");
    let own = [romeo.full().to_owned(), phone.full().to_owned()];
    assert_eq!(senders_seen(&mut phone), own, "nobody answers for the others yet");
    server.bury(1);
    assert_eq!(senders_seen(&mut phone), friends.each_ref().map(|friend| friend.full().to_owned()));
}

#[test]
fn who_logs_in_meanwhile_sees_members_of_a_group_whose_home_it_was() {
    let of = nodes();
    let names = [("juliet", 2), ("nurse", 3), ("romeo", 0)].map(|(stem, home)| of.name_at(stem, home));
    let members = names.iter().map(|name| format!("{name}@example.org")).collect::<Vec<_>>().join(", ");
    let groups = Value::List(vec![format!("Verona: {members}")]);
    let options = vec![("shared_roster", "groups", groups)];
    let server = Server::with(Config { shards: 4, nodes: 2, options, ..Config::default() });
    let romeo = at(&server, "romeo", 0, 0, "orchard");
    let mut friends = [("juliet", 2), ("nurse", 3)].map(|(stem, home)| at(&server, stem, home, home, "r"));
    for friend in &mut friends {
        friend.all();
        friend.enable();
    }
    server.advance(WRITTEN_MS);
    server.silence(1);
    let mut phone = another(&server, &romeo, 0, "phone");
    let own = [romeo.full().to_owned(), phone.full().to_owned()];
    assert_eq!(senders_seen(&mut phone), own, "nobody answers for the others yet");
    server.bury(1);
    assert_eq!(senders_seen(&mut phone), friends.each_ref().map(|friend| friend.full().to_owned()));
}

#[test]
fn news_of_meanwhile_reach_contacts_whose_home_it_was() {
    let server = nodes();
    let mut romeo = at(&server, "romeo", 0, 0, "orchard");
    let mut juliet = at(&server, "juliet", 2, 2, "balcony");
    befriend(&mut romeo, &mut juliet);
    let id = juliet.enable();
    wants(&mut juliet, &[TUNE]);
    let jid = juliet.jid.clone().expect("bound");
    server.advance(WRITTEN_MS);
    juliet.all();
    server.silence(1);
    romeo.send(&format!(
        "<iq type='set' id='p'><pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='{TUNE}'>\
         <item id='current'><tune xmlns='{TUNE}'/></item></publish></pubsub></iq>"
    ));
    romeo.pump();
    server.bury(1);
    let (mut juliet, _) = super::back(&server, &jid, &id, 0, 0);
    let got = juliet.all();
    let news = got.iter().filter(|got| got.child("event", "http://jabber.org/protocol/pubsub#event").is_some());
    assert_eq!(news.count(), 1, "{got:?}");
}

/// Returns three nodes of two shards each, with a session that can be resumed. Its home is on the
/// second node, and its next home will be on the third.
fn three_nodes() -> (Server, Client, String) {
    let server = Server::with(Config { shards: 6, nodes: 3, ..Config::default() });
    let mut juliet = at(&server, "juliet", 2, 2, "balcony");
    let id = juliet.enable();
    server.advance(WRITTEN_MS);
    juliet.all();
    (server, juliet, id)
}

/// Kills the third node as well, while it takes over from the second one, and lets the client come
/// back. Returns the messages that the client then gets.
fn kill_the_next_home(server: &Server, jid: &Jid, id: &str) -> Vec<String> {
    server.silence(2);
    server.slow_journals(false);
    server.slow_lookups(false);
    server.bury(2);
    let (mut juliet, _) = super::back(server, jid, id, 0, 0);
    juliet.bodies()
}

#[test]
fn a_session_survives_a_new_home_that_dies_before_it_has_read_the_journal() {
    let (server, mut juliet, id) = three_nodes();
    let jid = juliet.jid.clone().expect("bound");
    let mut romeo = at(&server, "romeo", 0, 0, "orchard");
    romeo.send(&super::say(juliet.full(), "one"));
    assert_eq!(juliet.bodies(), ["one"]);
    server.silence(1);
    server.slow_lookups(true);
    server.bury(1);
    assert_eq!(server.home_of(juliet.bare()) / 2, 2, "the third node takes over");
    assert_eq!(kill_the_next_home(&server, &jid, &id), ["one"]);
}

#[test]
fn a_session_survives_a_new_home_that_dies_before_its_own_journal_has_it() {
    let (server, mut juliet, id) = three_nodes();
    let jid = juliet.jid.clone().expect("bound");
    let mut romeo = at(&server, "romeo", 0, 0, "orchard");
    romeo.send(&super::say(juliet.full(), "one"));
    assert_eq!(juliet.bodies(), ["one"]);
    server.silence(1);
    server.slow_lookups(true);
    server.bury(1);
    server.slow_journals(true);
    server.slow_lookups(false);
    assert_eq!(kill_the_next_home(&server, &jid, &id), ["one"]);
}

/// The later state of the session is in that journal.
#[test]
fn a_session_continues_from_the_journal_of_the_home_that_died_last() {
    let (server, mut juliet, id) = three_nodes();
    let jid = juliet.jid.clone().expect("bound");
    let mut romeo = at(&server, "romeo", 0, 0, "orchard");
    romeo.send(&super::say(juliet.full(), "one"));
    assert_eq!(juliet.bodies(), ["one"]);
    super::kill(&server);
    let (mut juliet, _) = super::back(&server, &jid, &id, 4, 1);
    server.advance(WRITTEN_MS);
    romeo.send(&super::say(juliet.full(), "two"));
    assert_eq!(juliet.bodies(), ["two"]);
    server.advance(WRITTEN_MS);
    assert_eq!(kill_the_next_home(&server, &jid, &id), ["two"], "the first one was acknowledged");
}

/// The client has got an answer that the first journal lacks. The count in its request to resume
/// includes that answer, and nothing that has come since.
#[test]
fn what_comes_before_the_client_is_back_survives_another_death() {
    let (server, mut juliet, id) = three_nodes();
    let jid = juliet.jid.clone().expect("bound");
    let mut romeo = at(&server, "romeo", 0, 0, "orchard");
    server.slow_journals(true);
    juliet.send("<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>");
    assert!(juliet.all().iter().any(|got| got.attr("id") == Some("p")), "nobody else has that");
    server.silence(1);
    server.slow_journals(false);
    server.bury(1);
    romeo.send(&super::say(jid.as_str(), "one"));
    romeo.pump();
    server.advance(WRITTEN_MS);
    server.silence(2);
    server.bury(2);
    let (mut juliet, _) = super::back(&server, &jid, &id, 0, 1);
    assert_eq!(juliet.bodies(), ["one"]);
}

/// The client's connection breaks again before the client learns that it has its session back. The
/// session may move before it comes the next time.
#[test]
fn what_is_said_again_after_a_return_that_was_in_vain_has_the_same_id() {
    for moves in [false, true] {
        let server = Server::with(Config { shards: 6, nodes: 3, ..Config::default() });
        let mut juliet = at(&server, "juliet", 2, 2, "balcony");
        let id = juliet.enable();
        let jid = juliet.jid.clone().expect("bound");
        let text = format!("<message type='chat' id='m1' to='{jid}'><body>to myself</body></message>");
        juliet.send(&text);
        let first = ids(&mut juliet);
        assert_eq!(first.len(), 1);
        kill(&server);
        let home = server.home_of(jid.local().expect("a name")) / 2;
        let (mut in_vain, handled) = back(&server, &jid, &id, 2 * home, 1);
        assert_eq!(handled, 0);
        in_vain.vanish();
        match moves {
            true => server.remove(home),
            false => server.advance(60_000),
        }
        let (mut juliet, _) = back(&server, &jid, &id, server.home_of(jid.local().expect("a name")), 1);
        juliet.send(&text);
        assert_eq!(ids(&mut juliet), first, "moves: {moves}");
    }
}

/// The store is slow to tell the new home about the account, whose other resource is bound by a new
/// session meanwhile.
#[test]
fn what_a_returning_session_has_got_is_not_given_back_to_it() {
    let held = HeldStores::new(Memory::stores());
    held.set_flowing(true);
    let server = Server::with(Config { shards: 4, nodes: 2, stores: held.stores(), ..Config::default() });
    let mut romeo = at(&server, "romeo", 0, 0, "orchard");
    let mut phone = at(&server, "juliet", 2, 2, "phone");
    let mut desk = another(&server, &phone, 2, "desk");
    phone.all();
    desk.all();
    let (jid, id) = (desk.jid.clone().expect("bound"), desk.enable());
    phone.enable();
    phone.vanish();
    romeo.send(&say(phone.bare(), "both"));
    romeo.pump();
    assert_eq!(desk.bodies(), ["both"]);
    desk.send("<a xmlns='urn:xmpp:sm:3' h='1'/>");
    desk.pump();
    server.advance(WRITTEN_MS);
    held.set_flowing(false);
    kill(&server);
    held.set_flowing(true);
    let mut phone = server.connect_at(0);
    phone.log_in(&jid.to_bare(), Security::Plain);
    phone.send(&bind_request(Some("phone")));
    server.settle();
    held.release_all();
    server.settle();
    let bound = phone.expect_element();
    phone.take_bound(&bound);
    let (mut desk, _) = back(&server, &jid, &id, 0, 1);
    assert_eq!(desk.bodies(), [""; 0]);
}
