//! XEP-0198 §5: what a session that is resumed, or over, counts as handled is in the store.

use rookery_hub::Value;

use super::*;

/// §5: what `<resumed/>` counts is in the store as well, and nothing is processed twice.
#[test]
fn a_session_is_resumed_when_it_is_settled() {
    let mut scene = CustodyScene::new();
    let away = scene.away(1);
    scene.held.set_flowing(false);
    scene.write(&away, "1");
    scene.server.settle();
    scene.held.set_flowing(true);
    scene.romeo.vanish();
    let jid = scene.romeo.jid.clone().expect("bound");
    let resume = format!("<resume xmlns='urn:xmpp:sm:3' previd='{}' h='0'/>", scene.id);
    let [mut impatient, mut patient] = [(), ()].map(|()| {
        let mut romeo = scene.server.connect();
        romeo.log_in(&jid.to_bare(), rookery_testkit::Security::Plain);
        romeo.send(&resume);
        romeo.send(&format!("<message to='{}'><body>2</body></message>", scene.juliet.full()));
        romeo.expect_nothing();
        romeo
    });
    impatient.vanish();
    scene.held.release_all();
    patient.expect(&format!("<resumed xmlns='urn:xmpp:sm:3' previd='{}' h='1'/>", scene.id));
    patient.jid = Some(jid);
    patient.expect_alive();
    assert_eq!(scene.juliet.bodies(), ["2"]);
    let account = scene.server.address(&away);
    assert_eq!(scene.server.finish(scene.server.stores().offline.count(account.as_ref())), Ok(1));
}

/// A connection waits for that as long as a login may take; the session stays for the next one.
#[test]
fn a_resumption_does_not_wait_for_ever() {
    let mut scene = CustodyScene::new();
    let away = scene.away(0);
    scene.held.set_flowing(false);
    scene.write(&away, "1");
    scene.server.settle();
    scene.held.set_flowing(true);
    scene.romeo.vanish();
    let mut romeo = scene.romeo.again();
    romeo.send(&format!("<resume xmlns='urn:xmpp:sm:3' previd='{}' h='0'/>", scene.id));
    romeo.expect_nothing();
    scene.server.advance(70_000);
    romeo.expect_stream_error("connection-timeout");
    scene.held.release_all();
    let mut again = scene.romeo.again();
    assert_eq!(again.resume(scene.romeo.jid.as_ref().expect("bound"), &scene.id, 0), 1);
}

/// §6: of a session that has ended, what is in the store by then counts.
#[test]
fn a_session_that_is_over_counts_what_is_stored() {
    let mut scene = CustodyScene::new();
    let away = scene.away(0);
    let to = scene.juliet.full().to_owned();
    scene.write(&to, "1");
    scene.ask();
    scene.expect_acknowledged(1);
    scene.held.set_flowing(false);
    scene.write(&away, "2");
    scene.server.settle();
    scene.held.set_flowing(true);
    scene.romeo.vanish();
    scene.server.advance(700_000);
    let resume = format!("<resume xmlns='urn:xmpp:sm:3' previd='{}' h='0'/>", scene.id);
    for h in [1, 2] {
        let mut romeo = scene.romeo.again();
        romeo.send(&resume);
        romeo.expect(&format!(
            "<failed xmlns='urn:xmpp:sm:3' h='{h}'>\
             <item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>"
        ));
        scene.held.release_all();
    }
}

/// §5: a message that was refused when nobody was there to hear of it is not handled, however the
/// store's refusal and the end of the session follow each other.
#[test]
fn a_session_that_is_over_does_not_count_what_was_refused() {
    for ends_first in [true, false] {
        let mut scene = CustodyScene::new();
        let away = scene.away(0);
        let to = scene.juliet.full().to_owned();
        scene.write(&to, "1");
        scene.ask();
        scene.expect_acknowledged(1);
        scene.held.set_flowing(false);
        scene.held.fail_one(0, StoreError::Busy);
        scene.write(&away, "2");
        scene.server.settle();
        scene.held.set_flowing(true);
        scene.romeo.vanish();
        let release = |scene: &CustodyScene| {
            scene.held.release_all();
            scene.server.settle();
        };
        if ends_first {
            scene.server.advance(700_000);
            release(&scene);
        } else {
            release(&scene);
            scene.server.advance(700_000);
        }
        let mut romeo = scene.romeo.again();
        romeo.send(&format!("<resume xmlns='urn:xmpp:sm:3' previd='{}' h='0'/>", scene.id));
        romeo.expect(
            "<failed xmlns='urn:xmpp:sm:3' h='1'>\
             <item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>",
        );
    }
}

/// The same where the session ends because too much waits for it, the error included.
#[test]
fn a_session_that_overflows_does_not_count_what_was_refused() {
    let options = vec![("stream_management", "max_stanzas", Value::Number(10))];
    let mut scene = CustodyScene::with(Config { options, modules_off: vec!["archive"], ..Config::default() });
    let away = scene.away(0);
    let to = scene.juliet.full().to_owned();
    scene.write(&to, "1");
    scene.ask();
    scene.expect_acknowledged(1);
    scene.romeo.set_reading(false);
    scene.held.set_flowing(false);
    scene.held.fail_one(0, StoreError::Busy);
    scene.write(&away, "2");
    scene.server.settle();
    scene.held.set_flowing(true);
    scene.held.release_all();
    scene.server.settle();
    let romeo = scene.romeo.full().to_owned();
    for number in 0..20 {
        scene.juliet.send(&format!("<message to='{romeo}' type='headline'><body>{number}</body></message>"));
    }
    scene.server.settle();
    let mut romeo = scene.romeo.again();
    romeo.send(&format!("<resume xmlns='urn:xmpp:sm:3' previd='{}' h='0'/>", scene.id));
    romeo.expect(
        "<failed xmlns='urn:xmpp:sm:3' h='1'>\
         <item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>",
    );
}

/// The same where another node has refused it: that one knows nothing of the count.
#[test]
fn a_session_that_is_over_does_not_count_what_another_node_refused() {
    for ends_first in [true, false] {
        let mut scene =
            CustodyScene::with(Config { shards: 2, nodes: 2, modules_off: vec!["archive"], ..Config::default() });
        let away = scene.away(1);
        let to = scene.juliet.full().to_owned();
        scene.write(&to, "1");
        scene.server.advance(WRITTEN_MS);
        scene.held.set_flowing(false);
        scene.held.fail_one(0, StoreError::Busy);
        scene.write(&away, "2");
        scene.server.settle();
        scene.held.set_flowing(true);
        scene.romeo.vanish();
        let release = |scene: &CustodyScene| {
            scene.held.release_all();
            scene.server.settle();
        };
        if ends_first {
            scene.server.advance(700_000);
            release(&scene);
        } else {
            release(&scene);
            scene.server.advance(700_000);
        }
        let mut romeo = scene.romeo.again();
        romeo.send(&format!("<resume xmlns='urn:xmpp:sm:3' previd='{}' h='0'/>", scene.id));
        romeo.expect(
            "<failed xmlns='urn:xmpp:sm:3' h='1'>\
             <item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>",
        );
    }
}

/// The same where the message waited behind that of somebody else, for an account or a room that
/// the store could not tell of.
#[test]
fn what_was_refused_behind_others_does_not_count() {
    for is_room in [false, true] {
        let mut scene = CustodyScene::new();
        let to = if is_room { "verona@conference.example.org".to_owned() } else { scene.away(0) };
        scene.held.set_flowing(false);
        scene.held.fail_one(0, StoreError::Busy);
        scene.juliet.send(&format!("<message to='{to}' type='chat'><body>before</body></message>"));
        scene.server.settle();
        scene.write(&to, "behind");
        scene.server.settle();
        scene.held.set_flowing(true);
        scene.romeo.vanish();
        scene.server.advance(700_000);
        scene.held.release_all();
        scene.server.settle();
        scene.juliet.expect("<message from='*' type='error'>...</message>");
        let mut romeo = scene.romeo.again();
        romeo.send(&format!("<resume xmlns='urn:xmpp:sm:3' previd='{}' h='0'/>", scene.id));
        romeo.expect(
            "<failed xmlns='urn:xmpp:sm:3' h='0'>\
             <item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>",
        );
    }
}

/// §4: a count doesn't fall. A client that was told of a message that was refused is told no count
/// that leaves it out, since it may have heard the first.
#[test]
fn a_session_that_is_over_tells_no_less_than_it_has_told() {
    let mut scene = CustodyScene::new();
    let away = scene.away(0);
    scene.held.set_flowing(false);
    scene.held.fail_one(0, StoreError::Busy);
    scene.write(&away, "1");
    scene.server.settle();
    scene.held.set_flowing(true);
    scene.held.release_all();
    scene.ask();
    scene.romeo.expect("<message from='*' type='error'>...</message>");
    scene.expect_acknowledged(1);
    scene.romeo.vanish();
    scene.server.advance(700_000);
    let mut romeo = scene.romeo.again();
    romeo.send(&format!("<resume xmlns='urn:xmpp:sm:3' previd='{}' h='0'/>", scene.id));
    romeo
        .expect("<failed xmlns='urn:xmpp:sm:3'><item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>");
}

/// The same where the archive has waited for a store that refuses in the end.
#[test]
fn a_session_that_is_over_does_not_count_what_archives_lack() {
    let mut scene = CustodyScene::with(Config::default());
    let to = scene.juliet.full().to_owned();
    scene.held.set_fault(Some(StoreError::Busy));
    scene.write(&to, "hello");
    assert_eq!(scene.juliet.bodies(), ["hello"]);
    scene.romeo.vanish();
    scene.server.advance(700_000);
    scene.held.set_fault(Some(StoreError::Full(engine())));
    scene.server.advance(60_000);
    assert!(scene.server.counters().archive_lost > 0);
    scene.held.set_fault(None);
    let mut romeo = scene.romeo.again();
    romeo.send(&format!("<resume xmlns='urn:xmpp:sm:3' previd='{}' h='0'/>", scene.id));
    romeo.expect(
        "<failed xmlns='urn:xmpp:sm:3' h='0'>\
         <item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>",
    );
}

/// A session that ends and waits for the store when the server stops has been told of its end.
#[test]
fn a_session_ends_once_though_the_server_stops_meanwhile() {
    let mut scene = CustodyScene::new();
    let away = scene.away(0);
    scene.held.set_flowing(false);
    scene.write(&away, "1");
    scene.server.settle();
    scene.romeo.vanish();
    scene.server.advance(700_000);
    scene.server.stop();
    scene.server.advance(10_000);
    scene.held.set_flowing(true);
    scene.held.release_all();
    scene.juliet.vanish();
    scene.server.advance(10_000);
    assert!(scene.server.is_finished());
}

/// A message that archives refuse when the server stops is not acknowledged without a word.
#[test]
fn a_stop_acknowledges_nothing_that_archives_lack() {
    for is_to_itself in [false, true] {
        let mut scene = CustodyScene::with(Config::default());
        let to = if is_to_itself { scene.romeo.bare().to_owned() } else { scene.juliet.full().to_owned() };
        scene.write(&to, "1");
        scene.server.settle();
        scene.held.set_fault(Some(StoreError::Full(engine())));
        scene.server.stop();
        let heard = scene.romeo.all_to_the_end();
        let told = heard.iter().find(|found| found.is("a", rookery_xml::ns::SM)).and_then(|found| found.attr("h"));
        let is_refused = heard.iter().any(|found| found.name() == "message" && found.attr("type") == Some("error"));
        assert!(told == Some("0") || is_refused, "to itself: {is_to_itself}: {heard:?}");
    }
}

/// A server that stops waits a moment for the store before it says what is handled.
#[test]
fn a_stop_waits_for_the_store() {
    let mut scene = CustodyScene::with(Config::default());
    let to = scene.juliet.full().to_owned();
    scene.held.set_flowing(false);
    scene.write(&to, "1");
    scene.server.settle();
    scene.server.stop();
    scene.expect_nothing();
    scene.juliet.bodies_to_the_end();
    assert!(scene.held.release_all() > 0);
    scene.romeo.expect("<a xmlns='urn:xmpp:sm:3' h='1'/>");
    scene.romeo.expect_stream_error("system-shutdown");
}

/// But not for ever.
#[test]
fn a_stop_does_not_wait_for_ever() {
    let mut scene = CustodyScene::new();
    let away = scene.away(0);
    scene.held.set_flowing(false);
    scene.write(&away, "1");
    scene.server.settle();
    scene.server.stop();
    scene.server.advance(6_000);
    scene.romeo.expect("<a xmlns='urn:xmpp:sm:3' h='0'/>");
    scene.romeo.expect_stream_error("system-shutdown");
}

/// The time after which a journal has what was done.
const WRITTEN_MS: u64 = 200;
