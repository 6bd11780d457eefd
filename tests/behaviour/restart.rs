//! Sessions that outlive the server's process: to clients with XEP-0198, a restart in good order
//! looks like a moment without a network.

mod elsewhere;
mod faults;

use rookery_hub::Card;
use rookery_jid::Jid;
use rookery_testkit::{Client, Server, befriend};

/// The milliseconds that a restart takes.
const AWAY_MS: u64 = 3000;
/// The milliseconds for which a session waits for its client, by default.
const PATIENCE_MS: u64 = 600_000;

/// Resumes a session with this number of handled stanzas.
fn back(client: &Client, id: &str, handled: u32) -> (Client, u32) {
    let mut again = client.again();
    let h = again.resume(client.jid.as_ref().expect("bound"), id, handled);
    (again, h)
}

fn write(from: &mut Client, to: &str, body: &str) {
    from.send(&format!("<message to='{to}' type='chat'><body>{body}</body></message>"));
    from.pump();
}

/// Returns a card whose state this version can't read. The rest of the card can be read.
pub(crate) fn unreadable(card: &[u8]) -> Vec<u8> {
    let is_so = |card: &Vec<u8>| matches!(Card::decode(card), Ok(Card::Session(card)) if card.peer().is_none());
    let changed = (0..card.len()).rev().find_map(|at| {
        let mut card = card.to_vec();
        card[at] = 99;
        is_so(&card).then_some(card)
    });
    changed.expect("the state is somewhere")
}

/// XEP-0198 §5, across a restart: both counts continue, and stanzas that were not acknowledged come
/// again, in order and once.
#[test]
fn everything_comes_once_and_in_order() {
    let server = Server::new();
    let [juliet, romeo] = [("juliet", 0), ("romeo", 1)].map(|(stem, at)| server.name_at(stem, at));
    let mut juliet = server.online(&format!("{juliet}/balcony"));
    let mut romeo = server.online(&format!("{romeo}/orchard"));
    let id = romeo.enable();
    let to = romeo.bare().to_owned();
    ["1", "2", "3"].iter().for_each(|body| write(&mut juliet, &to, body));
    assert_eq!(romeo.bodies(), ["1", "2", "3"]);
    let nurse = server.login("nurse/x").full().to_owned();
    write(&mut romeo, &nurse, "mine");
    assert_eq!(server.hand_over(AWAY_MS).len(), 1, "juliet's session can't go on, and so isn't kept");
    let (mut romeo, handled) = back(&romeo, &id, 1);
    assert_eq!(handled, 1, "what the server has handled is not sent again");
    assert_eq!(romeo.bodies(), ["2", "3"]);
    let mut juliet = server
        .online(juliet.full().split_once("@example.org").map(|(name, _)| format!("{name}/again")).as_deref().unwrap());
    write(&mut juliet, &to, "4");
    assert_eq!(romeo.bodies(), ["4"]);
    // After two more restarts, nothing that was acknowledged comes again.
    server.hand_over(AWAY_MS);
    server.hand_over(AWAY_MS);
    let (mut romeo, _) = back(&romeo, &id, 3);
    assert_eq!(romeo.bodies(), ["4"]);
    romeo.expect_alive();
}

/// A session that has no connection keeps the messages that have come for it.
#[test]
fn a_session_that_waits_goes_on_waiting() {
    let server = Server::new();
    let mut juliet = server.online("juliet/balcony");
    let mut romeo = server.online("romeo/orchard");
    let id = romeo.enable();
    romeo.vanish();
    write(&mut juliet, "romeo@example.org", "1");
    server.advance(PATIENCE_MS / 2);
    server.hand_over(AWAY_MS);
    server.advance(PATIENCE_MS / 2 - 2 * AWAY_MS);
    let (mut romeo, _) = back(&romeo, &id, 0);
    let got = romeo.expect_element();
    assert_eq!(got.child_text("body", "jabber:client").as_deref(), Some("1"));
    assert!(got.child("delay", "urn:xmpp:delay").is_none(), "it is the same stanza");
}

/// XEP-0198 §5: `</stream:stream>` would end the session, so the stream of a session that continues
/// is cut. All others are told why they end (RFC 6120 §4.9.3.19).
#[test]
fn streams_that_go_on_are_cut_and_others_end() {
    let server = Server::new();
    let mut juliet = server.online("juliet/balcony");
    let mut romeo = server.online("romeo/orchard");
    romeo.enable();
    server.hand_over(AWAY_MS);
    let said = romeo.all();
    assert!(said.iter().all(|element| element.is("a", "urn:xmpp:sm:3")), "{said:?}");
    romeo.expect_closed();
    juliet.expect_stream_error("system-shutdown");
}

/// Contacts notice nothing of a restart, neither at the stop nor at the start nor when the client
/// is back. They are told as usual about users who don't come back.
#[test]
fn no_contact_notices() {
    let server = Server::new();
    let [mut juliet, mut romeo, mut nurse] = ["juliet/a", "romeo/b", "nurse/c"].map(|name| server.online(name));
    befriend(&mut juliet, &mut romeo);
    befriend(&mut juliet, &mut nurse);
    let ids = [&mut juliet, &mut romeo].map(Client::enable);
    for client in [&mut juliet, &mut romeo, &mut nurse] {
        client.all();
    }
    let handled = 0;
    server.hand_over(AWAY_MS);
    let (mut juliet, _) = back(&juliet, &ids[0], handled);
    // The nurse has no stream management.
    juliet.expect("<presence type='unavailable' from='nurse@example.org/c'/>");
    juliet.expect_nothing();
    let (romeo, _) = back(&romeo, &ids[1], handled);
    juliet.expect_nothing();
    // A new session gets the presence of both.
    let mut other = server.login("juliet/other");
    other.send("<presence/>");
    other.pump();
    let seen: Vec<_> = other.all().iter().filter_map(|found| Some(found.attr("from")?.to_owned())).collect();
    assert!(seen.contains(&"romeo@example.org/b".to_owned()) && seen.contains(&"juliet@example.org/a".to_owned()));
    drop(romeo);
    server.hand_over(AWAY_MS);
    let mut late = server.online("juliet/late");
    late.all();
    server.advance(PATIENCE_MS - 2 * AWAY_MS);
    late.expect_nothing();
    server.advance(2 * AWAY_MS);
    let gone: Vec<_> = late
        .all()
        .iter()
        .filter_map(|found| Some((found.attr("type")?.to_owned(), found.attr("from")?.to_owned())))
        .collect();
    assert!(gone.contains(&("unavailable".to_owned(), "romeo@example.org/b".to_owned())), "{gone:?}");
}

/// Carbons, the block list and roster pushes go on without being requested again.
#[test]
fn what_a_client_has_asked_for_stays() {
    let server = Server::new();
    let mut phone = server.online("romeo/phone");
    let mut desk = server.online("romeo/desk");
    for client in [&mut phone, &mut desk] {
        client.all();
    }
    phone.ask("<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>");
    phone.ask("<iq type='set' id='c'><enable xmlns='urn:xmpp:carbons:2'/></iq>");
    phone.ask("<iq type='get' id='b'><blocklist xmlns='urn:xmpp:blocking'/></iq>");
    let ids = [&mut phone, &mut desk].map(Client::enable);
    server.hand_over(AWAY_MS);
    let (mut phone, _) = back(&phone, &ids[0], 0);
    let (mut desk, _) = back(&desk, &ids[1], 0);
    let mut juliet = server.online("juliet/balcony");
    write(&mut juliet, "romeo@example.org/desk", "hi");
    assert_eq!(desk.bodies(), ["hi"]);
    assert!(phone.expect_element().child("received", "urn:xmpp:carbons:2").is_some());
    desk.ask("<iq type='set' id='b'><block xmlns='urn:xmpp:blocking'><item jid='tybalt@example.org'/></block></iq>");
    assert!(phone.expect_element().child("block", "urn:xmpp:blocking").is_some());
    desk.ask("<iq type='set' id='r'><query xmlns='jabber:iq:roster'><item jid='nurse@example.org'/></query></iq>");
    assert!(phone.expect_element().child("query", "jabber:iq:roster").is_some());
}

/// A session whose time ran out during the restart ends at the start, and its messages wait for the
/// next session.
#[test]
fn a_session_whose_time_was_over_ends() {
    let server = Server::new();
    let mut juliet = server.online("juliet/balcony");
    let mut romeo = server.online("romeo/orchard");
    let id = romeo.enable();
    write(&mut juliet, "romeo@example.org", "hi");
    server.hand_over(PATIENCE_MS + AWAY_MS);
    server.advance(2000);
    let mut again = romeo.again();
    again.send(&format!("<resume xmlns='urn:xmpp:sm:3' previd='{id}' h='0'/>"));
    again.expect(
        "<failed xmlns='urn:xmpp:sm:3' h='0'><item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>",
    );
    again.bind("orchard");
    again.send("<presence/>");
    assert_eq!(again.bodies(), ["hi"]);
}

/// If this version can't read a card, the session is lost, but its messages aren't.
#[test]
fn the_messages_of_a_session_that_cannot_be_read_are_not_lost() {
    let server = Server::new();
    let mut juliet = server.online("juliet/balcony");
    let mut romeo = server.online("romeo/orchard");
    romeo.enable();
    write(&mut juliet, "romeo@example.org", "hi");
    server.hand_over_with(AWAY_MS, |mut cards| {
        cards[0] = unreadable(&cards[0]);
        cards
    });
    assert_eq!(server.sessions(), 0);
    let mut again = romeo.again();
    again.bind("orchard");
    again.send("<presence/>");
    assert_eq!(again.bodies(), ["hi"]);
}

/// The session of an account that was removed during the restart doesn't continue, and nobody gets
/// its messages.
#[test]
fn the_session_of_a_removed_account_ends() {
    let server = Server::new();
    let mut juliet = server.online("juliet/balcony");
    let mut romeo = server.online("romeo/orchard");
    romeo.enable();
    write(&mut juliet, "romeo@example.org", "hi");
    let (account, stores) = (Jid::parse("romeo@example.org").unwrap(), server.stores());
    server.hand_over_with(AWAY_MS, |cards| {
        server.finish(stores.accounts.remove(account.as_ref())).expect("removed");
        cards
    });
    assert_eq!(server.sessions(), 0);
    let mut next = server.online("romeo/orchard");
    assert!(next.bodies().is_empty());
}

/// A session can only be resumed by its own account, and its id isn't in the card's bytes.
#[test]
fn a_card_does_not_let_anybody_in() {
    let server = Server::new();
    let mut romeo = server.online("romeo/orchard");
    let id = romeo.enable();
    let cards = server.hand_over(AWAY_MS);
    assert!(cards.iter().all(|card| !card.windows(id.len()).any(|window| window == id.as_bytes())));
    let mut thief = server.login("thief/x").again();
    thief.send(&format!("<resume xmlns='urn:xmpp:sm:3' previd='{id}' h='0'/>"));
    thief
        .expect("<failed xmlns='urn:xmpp:sm:3'><item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>");
}

/// No cards were left for its sessions, so resuming fails with `item-not-found`.
#[test]
fn a_server_that_dies_hands_on_nothing() {
    let server = Server::new();
    let mut romeo = server.online("romeo/orchard");
    let id = romeo.enable();
    server.restart();
    let mut again = romeo.again();
    again.send(&format!("<resume xmlns='urn:xmpp:sm:3' previd='{id}' h='0'/>"));
    again
        .expect("<failed xmlns='urn:xmpp:sm:3'><item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>");
}
