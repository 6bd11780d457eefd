//! A node dies while the database is away or slow.

use rookery_store::StoreError;
use rookery_testkit::Security;

use super::{WRITTEN_MS, at, back, enter, ids, kill, nodes_with_a_store, room_there};

/// The recipient's home lives, but its archive doesn't have the message yet.
#[test]
fn what_waits_for_the_archive_of_a_living_home_has_the_same_id_again() {
    let (held, server) = nodes_with_a_store();
    let (mut romeo, mut juliet) = (at(&server, "romeo", 0, 0, "orchard"), at(&server, "juliet", 2, 2, "balcony"));
    let (id, jid) = (juliet.enable(), juliet.jid.clone().expect("bound"));
    held.set_fault(Some(StoreError::Busy));
    let text = format!("<message type='chat' id='m1' to='{}'><body>once</body></message>", romeo.full());
    juliet.send(&text);
    let first = ids(&mut romeo);
    assert_eq!(first.len(), 1);
    server.advance(100);
    held.set_fault(None);
    kill(&server);
    let (mut juliet, handled) = back(&server, &jid, &id, 0, 0);
    assert_eq!(handled, 0, "no archive has it");
    held.set_fault(Some(StoreError::Busy));
    juliet.send(&text);
    juliet.pump();
    server.advance(100);
    assert_eq!(ids(&mut romeo), first);
    held.set_fault(None);
    server.advance(60_000);
    for client in [&mut romeo, &mut juliet] {
        client.send("<iq type='set' id='q'><query xmlns='urn:xmpp:mam:2'/></iq>");
        let all = client.all();
        let results = all.iter().filter(|found| found.child("result", "urn:xmpp:mam:2").is_some());
        assert_eq!(results.count(), 1, "{all:?}");
    }
}

/// The archive has the message already, and the database is away for a moment when it comes again.
#[test]
fn an_archive_that_is_away_for_a_moment_is_asked_again() {
    let (held, server) = nodes_with_a_store();
    let (mut romeo, mut juliet) = (at(&server, "romeo", 0, 0, "orchard"), at(&server, "juliet", 2, 2, "balcony"));
    let (id, jid) = (juliet.enable(), juliet.jid.clone().expect("bound"));
    server.slow_journals(true);
    let text = format!("<message type='chat' id='m1' to='{}'><body>once</body></message>", romeo.full());
    juliet.send(&text);
    juliet.pump();
    server.advance(5_000);
    let first = ids(&mut romeo);
    assert_eq!(first.len(), 1);
    kill(&server);
    let (mut juliet, handled) = back(&server, &jid, &id, 0, 0);
    assert_eq!(handled, 0, "nobody knows what has come of it");
    held.set_fault(Some(StoreError::Busy));
    juliet.send(&text);
    juliet.pump();
    server.advance(10_000);
    assert_eq!(ids(&mut romeo), [""; 0], "it waits");
    held.set_fault(None);
    server.advance(5_000);
    assert_eq!(ids(&mut romeo), first);
    held.set_fault(Some(StoreError::Busy));
    let other = format!("<message type='chat' id='m2' to='{}'><body>two</body></message>", romeo.full());
    juliet.send(&other);
    juliet.pump();
    server.advance(30_000);
    assert_eq!(ids(&mut romeo).len(), 1, "it doesn't wait for ever");
}

/// The sender has another nick by the time at which the message comes again, and the same pseudonym
/// (XEP-0421).
#[test]
fn what_is_said_again_under_another_nick_has_the_same_id() {
    let (held, server) = nodes_with_a_store();
    let (mut romeo, mut juliet) = (at(&server, "romeo", 0, 0, "orchard"), at(&server, "juliet", 2, 2, "balcony"));
    let room = room_there(&server);
    enter(&mut romeo, &room, "romeo");
    enter(&mut juliet, &room, "juliet");
    let (id, jid) = (juliet.enable(), juliet.jid.clone().expect("bound"));
    server.advance(3_000);
    romeo.all();
    juliet.all();
    held.set_fault(Some(StoreError::Busy));
    let text = format!("<message type='groupchat' id='g1' to='{room}'><body>hear</body></message>");
    juliet.send(&text);
    let first = ids(&mut romeo);
    assert_eq!(first.len(), 1);
    juliet.send(&format!("<presence to='{room}/capulet'/>"));
    juliet.pump();
    // The journal has the new nick by then, and no archive has the message.
    server.advance(WRITTEN_MS);
    romeo.all();
    held.set_fault(None);
    kill(&server);
    let (mut juliet, handled) = back(&server, &jid, &id, 0, 0);
    assert_eq!(handled, 0, "no archive has it");
    romeo.all();
    juliet.send(&text);
    let again = romeo.all();
    let again = again.iter().find(|found| found.child("body", "jabber:client").is_some()).expect("it comes again");
    assert_eq!(again.attr("from"), Some(&*format!("{room}/capulet")));
    assert_eq!(again.child("stanza-id", "urn:xmpp:sid:0").and_then(|found| found.attr("id")), Some(&*first[0]));
}

/// The recipient has no session, and the database is slow when the archive is asked for the first
/// message: the second one waits, after however many answers.
#[test]
fn nothing_overtakes_a_message_that_comes_again_for_somebody_absent() {
    for answers in 0..6 {
        let (held, server) = nodes_with_a_store();
        let mut romeo = at(&server, "romeo", 0, 0, "orchard");
        let juliet = server.account(&server.name_at("juliet", 2));
        let say = |id: &str| format!("<message type='chat' id='{id}' to='{juliet}'><body>{id}</body></message>");
        server.silence(1);
        romeo.send(&say("m1"));
        romeo.pump();
        server.advance(WRITTEN_MS);
        held.set_flowing(false);
        server.bury(1);
        for _ in 0..answers {
            held.release_one();
            server.settle();
        }
        held.set_flowing(true);
        romeo.send(&say("m2"));
        romeo.pump();
        held.release_all();
        server.advance(WRITTEN_MS);
        let mut client = server.connect_at(0);
        client.log_in(&juliet, Security::Plain);
        client.bind("balcony");
        client.send("<presence/>");
        assert_eq!(client.bodies(), ["m1", "m2"], "after {answers} answers");
    }
}
