//! Capabilities in directed presence: XEP-0163 §4.3.2.

use rookery_testkit::befriend;

use super::pep::{DISCO, MOOD, TUNE, answer, caps, last};
use super::*;

/// Sends capabilities in presence to one address, and replies to the request for them.
fn tells(client: &mut Client, to: &str, nodes: &[&str]) {
    let (presence, info, ver) = caps(nodes);
    client.send(&direct(&presence, to));
    let asked = client.expect(&format!(
        "<iq type='get' id='*' from='example.org'><query xmlns='{DISCO}' node='urn:test#{ver}'/></iq>"
    ));
    answer(client, &asked, &ver, &info);
}

fn direct(presence: &str, to: &str) -> String {
    presence.replacen("<presence>", &format!("<presence to='{to}'>"), 1)
}

/// Publishes an item, after discarding the stanzas that have arrived.
fn publishes(client: &mut Client, node: &str, id: &str) {
    client.all();
    set(client, "", &publish(node, id));
}

/// Checks that a client gets nothing but the presence of contacts.
fn hears_nothing(client: &mut Client) {
    let messages = client.all().into_iter().filter(|element| element.name() != "presence");
    assert_eq!(messages.map(|element| xml(&element)).collect::<Vec<_>>(), Vec::<String>::new());
}

/// The two become contacts during the session, whose broadcast presence had no capabilities.
#[test]
fn a_new_contact_hears_what_it_has_told_it_wants() {
    let PubsubScene { mut hamlet, mut francisco, .. } = PubsubScene::new();
    let owner = hamlet.bare().to_owned();
    publishes(&mut hamlet, TUNE, "a");
    befriend(&mut hamlet, &mut francisco);
    hears_nothing(&mut francisco);
    tells(&mut francisco, &owner, &[TUNE]);
    francisco.expect(&last(&owner, TUNE, "a"));
    publishes(&mut hamlet, TUNE, "b");
    francisco.expect(&notification(&owner, TUNE, "b"));
    publishes(&mut hamlet, MOOD, "c");
    hears_nothing(&mut francisco);
    // The same presence once more brings nothing.
    francisco.send(&direct(&caps(&[TUNE]).0, &owner));
    hears_nothing(&mut francisco);
}

/// Capabilities that a session sends to one account count for that account alone.
#[test]
fn it_counts_for_whom_it_went_to() {
    let PubsubScene { server, mut hamlet, mut francisco } = PubsubScene::new();
    let mut horatio = server.online("horatio/r");
    befriend(&mut hamlet, &mut francisco);
    befriend(&mut horatio, &mut francisco);
    let (owner, other) = (hamlet.bare().to_owned(), horatio.bare().to_owned());
    tells(&mut francisco, &owner, &[TUNE]);
    publishes(&mut horatio, TUNE, "h");
    hears_nothing(&mut francisco);
    // Once capabilities are known, no client is asked for them again.
    francisco.send(&direct(&caps(&[TUNE]).0, &other));
    francisco.expect(&last(&other, TUNE, "h"));
    // A later list replaces the earlier one, for this account.
    tells(&mut francisco, &owner, &[MOOD]);
    publishes(&mut hamlet, TUNE, "t");
    publishes(&mut hamlet, MOOD, "m");
    francisco.expect(&notification(&owner, MOOD, "m"));
    publishes(&mut horatio, TUNE, "i");
    francisco.expect(&notification(&other, TUNE, "i"));
    // A broadcast with capabilities replaces those for all accounts.
    let (presence, ..) = caps(&[TUNE]);
    francisco.send(&presence);
    let mut last: Vec<_> = francisco.all().iter().filter(|element| element.name() == "message").flat_map(ids).collect();
    last.sort();
    assert_eq!(last, ["i", "t"]);
    publishes(&mut hamlet, MOOD, "n");
    hears_nothing(&mut francisco);
}

/// A client may send its capabilities before it may see the account. They give it no right to
/// anything.
#[test]
fn it_gives_no_rights() {
    let PubsubScene { mut hamlet, mut francisco, .. } = PubsubScene::new();
    let (owner, who) = (hamlet.bare().to_owned(), francisco.bare().to_owned());
    tells(&mut francisco, &owner, &[TUNE]);
    publishes(&mut hamlet, TUNE, "a");
    hears_nothing(&mut francisco);
    francisco.send(&format!("<presence type='subscribe' to='{owner}'/>"));
    francisco.pump();
    hamlet.send(&format!("<presence type='subscribed' to='{who}'/>"));
    let messages: Vec<_> = francisco.all().into_iter().filter(|element| element.name() == "message").collect();
    assert_eq!(messages.iter().flat_map(ids).collect::<Vec<_>>(), ["a"]);
    publishes(&mut hamlet, TUNE, "b");
    francisco.expect(&notification(&owner, TUNE, "b"));
}

/// Capabilities count until the session sends unavailable presence, to this account or to all.
#[test]
fn it_ends_with_the_presence() {
    let PubsubScene { server, mut hamlet, mut francisco } = PubsubScene::new();
    befriend(&mut hamlet, &mut francisco);
    let owner = hamlet.bare().to_owned();
    tells(&mut francisco, &owner, &[TUNE]);
    francisco.send(&format!("<presence type='unavailable' to='{owner}'/>"));
    francisco.pump();
    publishes(&mut hamlet, TUNE, "a");
    hears_nothing(&mut francisco);
    let name = francisco.jid.as_ref().and_then(|jid| jid.local()).expect("a name").to_owned();
    // This session was never available to all.
    let mut phone = server.login(&format!("{name}/phone"));
    phone.send(&direct(&caps(&[TUNE]).0, &owner));
    phone.expect(&last(&owner, TUNE, "a"));
    phone.send("<presence type='unavailable'/>");
    phone.pump();
    publishes(&mut hamlet, TUNE, "b");
    hears_nothing(&mut phone);
}

/// A client that sends other capabilities again and again, and doesn't reply to requests for them,
/// gets a few of these requests and no more.
#[test]
fn questions_are_bounded() {
    let PubsubScene { mut hamlet, mut francisco, .. } = PubsubScene::new();
    let owner = hamlet.bare().to_owned();
    for number in 0..100 {
        francisco.send(&direct(&caps(&[&format!("node {number}")]).0, &owner));
    }
    assert_eq!(francisco.all().iter().filter(|element| element.name() == "iq").count(), 8);
    hamlet.all();
}

/// The capabilities outlive the server's process together with the session (XEP-0198 §5).
#[test]
fn what_was_told_outlives_a_restart() {
    let PubsubScene { server, mut hamlet, mut francisco } = PubsubScene::new();
    let owner = hamlet.bare().to_owned();
    befriend(&mut hamlet, &mut francisco);
    tells(&mut francisco, &owner, &[TUNE]);
    let _ = [&mut hamlet, &mut francisco].map(Client::all);
    let ids = [hamlet.enable(), francisco.enable()];
    server.hand_over(3000);
    for (client, id) in [&mut hamlet, &mut francisco].into_iter().zip(ids) {
        let mut again = client.again();
        again.resume(client.jid.as_ref().expect("bound"), &id, 0);
        again.all();
        *client = again;
    }
    publishes(&mut hamlet, MOOD, "m");
    publishes(&mut hamlet, TUNE, "t");
    francisco.expect(&notification(&owner, TUNE, "t"));
}
