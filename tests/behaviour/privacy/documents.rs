//! Documents in memory: the block list of an account without sessions counts, whatever the store
//! does.

use std::sync::Arc;

use rookery_store::StoreError;
use rookery_store::error::EngineWords;
use rookery_store::held::HeldStores;
use rookery_store::memory::Memory;
use rookery_testkit::{Client, Config, Security, Server};

use super::{UNAVAILABLE, block};

/// Returns a server over a store whose answers a test can hold back, and Romeo, who is online.
/// Juliet has blocked him and is away.
fn slow() -> (Server, Arc<HeldStores>, Client) {
    let held = HeldStores::new(Memory::stores());
    held.set_flowing(true);
    let server = Server::with(Config { stores: held.stores(), ..Config::default() });
    let romeo = server.login("romeo/orchard");
    let mut juliet = server.login("juliet/balcony");
    block(&mut juliet, &["romeo@example.org"]);
    juliet.close();
    (server, held, romeo)
}

fn say(client: &mut Client, id: &str) {
    client.send(&format!("<message to='juliet@example.org' type='chat' id='{id}'><body>{id}</body></message>"));
}

fn expect_refusal(client: &mut Client, id: &str) {
    client.expect(&format!("<message type='error' id='{id}' from='juliet@example.org'>{UNAVAILABLE}</message>"));
}

fn stored_count(server: &Server) -> u64 {
    server.finish(server.stores().offline.count(server.address("juliet").as_ref())).expect("a count")
}

/// A time after which an account without sessions is no longer in memory, in milliseconds.
const FORGOTTEN_MS: u64 = 120_000;

/// No message from a blocked contact is stored: neither right after the logout, nor when the list
/// has to be loaded first.
#[test]
fn an_account_without_session_refuses_before_anything_is_stored() {
    let (server, _, mut romeo) = slow();
    say(&mut romeo, "1");
    expect_refusal(&mut romeo, "1");
    server.advance(FORGOTTEN_MS);
    say(&mut romeo, "2");
    expect_refusal(&mut romeo, "2");
    let mut nurse = server.login("nurse/house");
    say(&mut nurse, "3");
    nurse.expect_nothing();
    assert_eq!(stored_count(&server), 1);
    server.restart();
    let mut romeo = server.login("romeo/orchard");
    say(&mut romeo, "4");
    expect_refusal(&mut romeo, "4");
    assert_eq!(server.online("juliet/balcony").bodies(), ["3"]);
}

/// While the list is being loaded, stanzas for the account wait and keep their order; those for
/// others don't wait.
#[test]
fn a_slow_store_keeps_the_order() {
    let (server, held, mut romeo) = slow();
    let mut nurse = server.login("nurse/house");
    server.advance(FORGOTTEN_MS);
    held.set_flowing(false);
    say(&mut nurse, "1");
    say(&mut romeo, "2");
    say(&mut nurse, "3");
    nurse.expect_nothing();
    romeo.expect_nothing();
    assert_eq!(held.waiting(), 1, "one question for all of them");
    nurse.send("<message to='romeo@example.org/orchard'><body>aside</body></message>");
    romeo.expect_message("nurse@example.org/house", "aside");
    held.set_flowing(true);
    held.release_all();
    expect_refusal(&mut romeo, "2");
    nurse.expect_nothing();
    held.release_all();
    assert_eq!(server.online("juliet/balcony").bodies(), ["1", "3"]);
}

/// The account logs in while its list is being loaded: nothing is delivered before the list is
/// there, and nothing is lost.
#[test]
fn a_login_while_documents_load_keeps_the_order() {
    let (server, held, mut romeo) = slow();
    let mut nurse = server.login("nurse/house");
    server.advance(FORGOTTEN_MS);
    let mut juliet = server.connect();
    juliet.log_in(&server.address("juliet"), Security::Plain);
    held.set_flowing(false);
    say(&mut nurse, "1");
    say(&mut romeo, "2");
    nurse.pump();
    romeo.pump();
    juliet.send("<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>tower</resource></bind></iq>");
    juliet.pump();
    say(&mut nurse, "3");
    nurse.pump();
    held.set_flowing(true);
    held.release_all();
    expect_refusal(&mut romeo, "2");
    let bound = juliet.expect_element();
    assert_eq!(bound.attr("type"), Some("result"));
    juliet.send("<presence/>");
    assert_eq!(juliet.bodies(), ["1", "3"]);
    say(&mut romeo, "4");
    expect_refusal(&mut romeo, "4");
    assert_eq!(juliet.bodies(), [""; 0]);
}

/// If the store fails, senders get errors, and nothing passes a list that can't be read.
#[test]
fn a_failing_store_bounces() {
    let (server, held, mut romeo) = slow();
    let mut nurse = server.login("nurse/house");
    server.advance(FORGOTTEN_MS);
    let mut juliet = server.connect();
    juliet.log_in(&server.address("juliet"), Security::Plain);
    let engine = || EngineWords { database: "test".into(), message: "as told".into() };
    for (fault, type_, condition) in [
        (StoreError::Locked(engine()), "wait", "resource-constraint"),
        (StoreError::ReadOnly(engine()), "wait", "resource-constraint"),
        (StoreError::Corrupt(engine()), "cancel", "internal-server-error"),
    ] {
        held.set_fault(Some(fault));
        say(&mut nurse, "1");
        let error = format!("<error type='{type_}'><{condition} xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>");
        nurse.expect(&format!("<message type='error' id='1' from='juliet@example.org'>{error}</message>"));
    }
    juliet.send("<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>");
    assert_eq!(juliet.expect_element().attr("type"), Some("error"));
    held.set_fault(None);
    say(&mut romeo, "2");
    expect_refusal(&mut romeo, "2");
    say(&mut nurse, "3");
    nurse.expect_nothing();
    assert_eq!(stored_count(&server), 1);
}

/// A change counts at once. If the store refuses it, it is undone, and a contact that was shut out
/// sees the account again.
#[test]
fn a_change_that_the_store_refuses_is_taken_back() {
    let held = HeldStores::new(Memory::stores());
    held.set_flowing(true);
    let server = Server::with(Config { stores: held.stores(), ..Config::default() });
    let mut juliet = server.online("juliet/balcony");
    let mut romeo = server.online("romeo/orchard");
    rookery_testkit::befriend(&mut juliet, &mut romeo);
    block(&mut juliet, &["paris@example.org"]);
    held.set_flowing(false);
    held.set_fault(Some(StoreError::ReadOnly(EngineWords { database: "test".into(), message: "as told".into() })));
    for jid in ["romeo@example.org", "tybalt@example.org"] {
        juliet
            .send(&format!("<iq type='set' id='b'><block xmlns='urn:xmpp:blocking'><item jid='{jid}'/></block></iq>"));
    }
    juliet.expect("<presence type='unavailable' from='romeo@example.org'/>");
    romeo.expect("<presence type='unavailable' from='juliet@example.org/balcony'/>");
    say(&mut romeo, "1");
    expect_refusal(&mut romeo, "1");
    held.set_fault(None);
    held.set_flowing(true);
    held.release_all();
    let answers = juliet.all();
    let refused = answers.iter().filter(|answer| answer.attr("type") == Some("error")).count();
    assert_eq!(refused, 2, "{answers:?}");
    juliet.send("<iq type='get' id='l'><blocklist xmlns='urn:xmpp:blocking'/></iq>");
    juliet.expect(
        "<iq type='result' id='l' from='juliet@example.org'><blocklist xmlns='urn:xmpp:blocking'>\
         <item jid='paris@example.org'/></blocklist></iq>",
    );
    romeo.expect("<presence from='juliet@example.org/balcony'/>");
    say(&mut romeo, "2");
    assert_eq!(juliet.bodies(), ["2"]);
}
