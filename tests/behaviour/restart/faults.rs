//! Restarts with a store that is slow, busy or unavailable, with sessions for which there is no
//! room, and at inconvenient moments.

use std::sync::Arc;

use rookery_store::StoreError;
use rookery_store::held::HeldStores;
use rookery_store::memory::Memory;
use rookery_testkit::Config;
use rookery_testkit::login::bind_request;
use rookery_xml::Element;

use super::*;

/// Returns a server with a store whose answers can be held back.
fn with_held(shards: usize) -> (Server, Arc<HeldStores>) {
    let held = HeldStores::new(Memory::stores());
    held.set_flowing(true);
    (Server::with(Config { stores: held.stores(), shards, ..Config::default() }), held)
}

/// Returns the addresses in unavailable presence.
fn unavailable_addresses(heard: &[Element]) -> Vec<String> {
    let gone = heard.iter().filter(|found| found.name() == "presence" && found.attr("type") == Some("unavailable"));
    gone.filter_map(|found| Some(found.attr("from")?.to_owned())).collect()
}

/// Returns the addresses in available presence.
fn available_addresses(heard: &[Element]) -> Vec<String> {
    let there = heard.iter().filter(|found| found.name() == "presence" && found.attr("type").is_none());
    there.filter_map(|found| Some(found.attr("from")?.to_owned())).collect()
}

/// Logs in once more, and returns the messages that have waited.
fn waiting_for(client: &Client, resource: &str) -> Vec<String> {
    let mut again = client.again();
    again.bind(resource);
    again.send("<presence/>");
    again.bodies()
}

/// The old process still exists for a while after it has handed on its cards.
#[test]
fn a_session_whose_time_ends_meanwhile_is_in_one_process() {
    let server = Server::new();
    let [mut juliet, mut romeo] = ["juliet/balcony", "romeo/orchard"].map(|name| server.online(name));
    befriend(&mut juliet, &mut romeo);
    romeo.all();
    let ids = [juliet.enable(), romeo.enable()];
    romeo.vanish();
    write(&mut juliet, "romeo@example.org", "hi");
    juliet.all();
    server.advance(PATIENCE_MS - 500);
    juliet.all();
    assert_eq!(server.hand_over(AWAY_MS).len(), 2);
    server.advance(2000);
    let (mut juliet, _) = back(&juliet, &ids[0], 0);
    assert_eq!(unavailable_addresses(&juliet.all()), ["romeo@example.org/orchard"], "once");
    assert_eq!(waiting_for(&romeo, "orchard"), ["hi"], "once");
}

/// Sessions for whose cards there is no room end while the others can still be told.
#[test]
fn a_session_without_a_place_ends_in_the_hearing_of_others() {
    let (server, _) = with_held(1);
    let [mut juliet, mut romeo] = ["juliet/x", "romeo/x"].map(|name| server.online(name));
    befriend(&mut juliet, &mut romeo);
    let ids = [juliet.enable(), romeo.enable()];
    let to = romeo.bare().to_owned();
    write(&mut juliet, &to, "hi");
    let both = server.hand_over(AWAY_MS).iter().map(Vec::len).sum();
    let (mut juliet, _) = back(&juliet, &ids[0], 0);
    juliet.all();
    // Only three quarters of the room are for sessions that continue.
    assert_eq!(server.hand_over_within(AWAY_MS, both).len(), 1);
    let (mut juliet, _) = back(&juliet, &ids[0], 0);
    assert_eq!(unavailable_addresses(&juliet.all()), [romeo.full()]);
    assert_eq!(waiting_for(&romeo, "x"), ["hi"]);
}

/// A store that is busy or unavailable delays a restart, but no session is lost.
#[test]
fn a_store_that_is_away_for_a_while_costs_nobody_a_session() {
    let (server, held) = with_held(2);
    let [mut juliet, mut romeo] = ["juliet/balcony", "romeo/orchard"].map(|name| server.online(name));
    befriend(&mut juliet, &mut romeo);
    let ids = [juliet.enable(), romeo.enable()];
    write(&mut juliet, "romeo@example.org", "hi");
    let _ = [&mut juliet, &mut romeo].map(Client::all);
    assert!(!server.hand_over_early(AWAY_MS, || held.set_fault(Some(StoreError::Busy))));
    server.advance(120_000);
    // The next restart comes before the last one is complete.
    assert!(!server.hand_over_early(AWAY_MS, || {}));
    server.advance(120_000);
    held.set_fault(None);
    server.advance(20_000);
    let (mut romeo, _) = back(&romeo, &ids[1], 0);
    let (mut juliet, _) = back(&juliet, &ids[0], 0);
    assert_eq!(romeo.bodies().last().map(String::as_str), Some("hi"));
    assert_eq!(unavailable_addresses(&juliet.all()), [""; 0]);
    write(&mut juliet, "romeo@example.org", "here?");
    assert_eq!(romeo.bodies(), ["here?"], "it takes messages to the bare JID");
}

/// A session that begins while others wait for the store sees them: probes wait for those of
/// contacts, and it isn't bound before those of its own account are available again.
#[test]
fn a_session_that_begins_meanwhile_sees_those_that_continue() {
    let (server, held) = with_held(2);
    let [mut juliet, mut romeo] = ["juliet/balcony", "romeo/orchard"].map(|name| server.online(name));
    befriend(&mut juliet, &mut romeo);
    befriend(&mut server.online("nurse/house"), &mut romeo);
    let ids = [juliet.enable(), romeo.enable()];
    let _ = [&mut juliet, &mut romeo].map(Client::all);
    assert!(!server.hand_over_early(AWAY_MS, || held.set_flowing(false)));
    held.set_flowing(true);
    let mut nurse = server.login("nurse/house");
    nurse.send("<presence/>");
    assert_eq!(available_addresses(&nurse.all()), [nurse.full()]);
    let mut late = juliet.again();
    late.send(&bind_request(Some("late")));
    late.expect_nothing();
    assert!(held.release_all() > 0, "the others wait for the store");
    server.settle();
    assert_eq!(available_addresses(&nurse.all()), [romeo.full()]);
    let bound = late.expect_element();
    late.take_bound(&bound);
    late.send("<presence/>");
    let mut seen = available_addresses(&late.all());
    seen.sort_unstable();
    assert_eq!(seen, [juliet.full(), late.full(), romeo.full()]);
    let (mut juliet, _) = back(&juliet, &ids[0], 0);
    assert_eq!(available_addresses(&juliet.all()), [late.full()]);
}

/// A session that begins meanwhile changes what the store has, and doesn't replace it.
#[test]
fn a_session_that_begins_meanwhile_adds_to_the_block_list() {
    let (server, held) = with_held(2);
    let mut juliet = server.online("juliet/balcony");
    juliet.enable();
    let block = |whom: &str| {
        format!("<iq type='set' id='b'><block xmlns='urn:xmpp:blocking'><item jid='{whom}@example.org'/></block></iq>")
    };
    juliet.send(&block("romeo"));
    juliet.all();
    assert!(!server.hand_over_early(AWAY_MS, || held.set_flowing(false)));
    held.set_flowing(true);
    let mut late = juliet.again();
    late.send(&bind_request(Some("late")));
    late.expect_nothing();
    held.release_all();
    server.settle();
    let bound = late.expect_element();
    late.take_bound(&bound);
    late.send(&block("nurse"));
    late.send("<iq type='get' id='l'><blocklist xmlns='urn:xmpp:blocking'/></iq>");
    let all = late.all();
    let list = all.iter().find(|found| found.attr("id") == Some("l")).expect("a reply");
    let list = list.child("blocklist", "urn:xmpp:blocking").expect("a list");
    let blocked: Vec<_> = list.children().filter_map(|item| item.attr("jid")).collect();
    assert_eq!(blocked, ["nurse@example.org", "romeo@example.org"]);
}

/// Makes one question fail that the server asks the store at its start, in a restart for each of
/// the questions. `look` gets the server, one of two friends and the id of its session.
fn failing(fault: &StoreError, look: impl Fn(&Server, &Client, &str)) {
    for at in 0.. {
        let (server, held) = with_held(1);
        let [mut juliet, mut romeo] = ["juliet/balcony", "romeo/orchard"].map(|name| server.online(name));
        befriend(&mut juliet, &mut romeo);
        let (id, _) = (juliet.enable(), romeo.enable());
        let _ = [&mut juliet, &mut romeo].map(Client::all);
        server.hand_over_early(AWAY_MS, || held.fail_one(at, fault.clone()));
        if !held.has_failed() {
            assert!(at >= 6, "three questions for each account: {at}");
            return;
        }
        server.advance(2000);
        look(&server, &juliet, &id);
    }
}

/// Any question about an account may fail.
#[test]
fn a_question_that_fails_once_is_asked_again() {
    for fault in [StoreError::Busy, StoreError::Panicked("once".into())] {
        failing(&fault, |server, juliet, id| {
            assert_eq!(server.sessions(), 2);
            assert_eq!(unavailable_addresses(&back(juliet, id, 0).0.all()), [""; 0]);
            let mut late = server.login("juliet/late");
            late.send("<presence/>");
            let seen = late.all();
            assert!(seen.iter().any(|seen| seen.attr("from") == Some("romeo@example.org/orchard")), "{seen:?}");
        });
    }
}

/// If the store is broken for good, sessions end instead of waiting for ever.
#[test]
fn sessions_end_with_a_store_that_is_broken() {
    let (server, held) = with_held(2);
    let mut romeo = server.online("romeo/orchard");
    let id = romeo.enable();
    let broken = StoreError::Panicked("a damaged page".into());
    assert!(!server.hand_over_early(AWAY_MS, || held.set_fault(Some(broken))));
    assert_eq!(server.sessions(), 1);
    server.advance(120_000);
    assert_eq!(server.sessions(), 0);
    held.set_fault(None);
    let mut again = romeo.again();
    again.send(&format!("<resume xmlns='urn:xmpp:sm:3' previd='{id}' h='0'/>"));
    assert_eq!(again.expect_element().name(), "failed");
}

/// However many sessions there are, the store never gets more operations at a time than it can
/// take.
#[test]
fn the_store_is_asked_for_some_accounts_at_a_time() {
    let (server, held) = with_held(1);
    let names: Vec<_> = (0..300).map(|number| format!("user{number}/x")).collect();
    let clients: Vec<_> = names.iter().map(|name| server.online(name)).collect();
    let ids: Vec<_> = clients.into_iter().map(|mut client| (client.enable(), client)).collect();
    assert!(!server.hand_over_early(AWAY_MS, || held.set_flowing(false)));
    assert_eq!(server.sessions(), names.len(), "all are there at once");
    let mut rounds = 0;
    while held.waiting() > 0 {
        assert!(held.waiting() < names.len() / 2, "{} at a time", held.waiting());
        held.release_all();
        server.settle();
        rounds += 1;
    }
    assert!(rounds > 3, "by turns: {rounds}");
    held.set_flowing(true);
    for (id, client) in ids.iter().rev().take(3) {
        back(client, id, 0).0.expect_alive();
    }
    assert_eq!(server.inspect(|world| world.tasks_waiting()), [0]);
}

/// A client that resumes its session before the session is complete keeps it.
#[test]
fn a_client_that_comes_early_stays() {
    let (server, held) = with_held(2);
    let [mut juliet, mut romeo] = ["juliet/balcony", "romeo/orchard"].map(|name| server.online(name));
    let id = romeo.enable();
    assert!(!server.hand_over_early(AWAY_MS, || held.set_fault(Some(StoreError::Busy))));
    held.set_fault(None);
    let (mut romeo, _) = back(&romeo, &id, 0);
    romeo.send("<iq type='get' id='p' to='example.org'><ping xmlns='urn:xmpp:ping'/></iq>");
    romeo.expect_nothing();
    server.advance(2000);
    let answered: Vec<_> = romeo.all().iter().filter_map(|found| found.attr("id").map(str::to_owned)).collect();
    assert_eq!(answered, ["p"], "what it sends waits until then");
    romeo.send("<a xmlns='urn:xmpp:sm:3' h='1'/>");
    server.advance(PATIENCE_MS + AWAY_MS);
    romeo.expect_alive();
    juliet = juliet.again();
    juliet.bind("balcony");
    write(&mut juliet, "romeo@example.org", "hi");
    assert_eq!(romeo.bodies(), ["hi"]);
}

/// The connection breaks while the server that stops waits for the store, before the server closes
/// it.
#[test]
fn a_connection_that_is_lost_at_the_stop_is_no_end() {
    let (server, held) = with_held(2);
    let mut romeo = server.online("romeo/orchard");
    server.account("nurse");
    let id = romeo.enable();
    held.set_flowing(false);
    write(&mut romeo, "nurse@example.org", "hi");
    let cards = server.hand_over_while(AWAY_MS, || {
        romeo.vanish();
        server.settle();
        held.set_flowing(true);
        while held.release_all() > 0 {
            server.settle();
        }
    });
    assert_eq!(cards.len(), 1);
    let (mut romeo, handled) = back(&romeo, &id, 0);
    assert_eq!(handled, 1);
    romeo.expect_alive();
    let nurse = server.login("nurse/x");
    assert_eq!(waiting_for(&nurse, "y"), ["hi"]);
}

/// Sessions that can't continue give their messages back only if no other session has them, only
/// once, and only when the other sessions are there.
#[test]
fn what_several_sessions_got_is_delivered_once() {
    // The resources whose cards can't be read, and the messages that wait for the next resource.
    for (broken, waiting) in [(&[0][..], &[""; 0][..]), (&[1], &[]), (&[0, 1], &["hi", "hi", "you"])] {
        let server = Server::new();
        let mut juliet = server.online("juliet/balcony");
        let [mut phone, mut desk] = ["romeo/phone", "romeo/desk"].map(|name| server.online(name));
        let _ = [&mut phone, &mut desk].map(Client::all);
        let ids = [phone.enable(), desk.enable()];
        for body in ["hi", "hi", "you"] {
            write(&mut juliet, "romeo@example.org", body);
        }
        server.hand_over_with(AWAY_MS, |mut cards| {
            broken.iter().for_each(|&at| cards[at] = unreadable(&cards[at]));
            cards
        });
        assert_eq!(server.sessions(), 2 - broken.len());
        for (at, client) in [&phone, &desk].into_iter().enumerate().filter(|(at, _)| !broken.contains(at)) {
            let (mut client, _) = back(client, &ids[at], 0);
            let bodies = client.bodies();
            assert_eq!(bodies, ["hi", "hi", "you"], "{broken:?}");
        }
        assert_eq!(waiting_for(&phone, "next"), waiting, "{broken:?}");
    }
}

/// The same if sessions can't be resumed in the next process, by its configuration.
#[test]
fn sessions_end_where_none_can_be_resumed_any_more() {
    let server = Server::new();
    let [mut juliet, mut phone, mut desk] =
        ["juliet/balcony", "romeo/phone", "romeo/desk"].map(|name| server.online(name));
    let _ = [&mut juliet, &mut phone, &mut desk].map(Client::all);
    let _ = [&mut juliet, &mut phone, &mut desk].map(Client::enable);
    write(&mut juliet, "romeo@example.org", "hi");
    server.reload(|config| config.modules_off.push("stream_management"));
    assert_eq!(server.hand_over(AWAY_MS).len(), 3);
    assert_eq!(server.sessions(), 0);
    assert_eq!(waiting_for(&phone, "next"), ["hi"]);
}

/// XEP-0198 §5: if the client may not know that a message was refused, no count may say that it was
/// handled, not even after a restart.
#[test]
fn a_doubt_outlives_the_process() {
    let held = HeldStores::new(Memory::stores());
    held.set_flowing(true);
    let config = Config { stores: held.stores(), modules_off: vec!["archive"], ..Config::default() };
    let server = Server::with(config);
    let mut romeo = server.online("romeo/orchard");
    server.account("nurse");
    let id = romeo.enable();
    held.set_fault(Some(StoreError::Busy));
    write(&mut romeo, "nurse@example.org", "hi");
    held.set_fault(None);
    server.hand_over(AWAY_MS);
    server.advance(PATIENCE_MS + AWAY_MS);
    let mut again = romeo.again();
    again.send(&format!("<resume xmlns='urn:xmpp:sm:3' previd='{id}' h='0'/>"));
    again
        .expect("<failed xmlns='urn:xmpp:sm:3'><item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>");
}
