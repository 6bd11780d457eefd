//! RFC 6121 §4: presence.

use rookery_store::held::HeldStores;
use rookery_store::memory::Memory;
use rookery_testkit::{Client, Config, Server, befriend, play};

/// Returns Juliet and Romeo, on different shards, each of whom sees the other's presence.
fn lovers() -> (Server, Client, Client) {
    let server = Server::new();
    let (one, other) = (server.name_at("juliet", 0), server.name_at("romeo", 1));
    let mut juliet = server.online(&format!("{one}/balcony"));
    let mut romeo = server.online(&format!("{other}/orchard"));
    befriend(&mut juliet, &mut romeo);
    (server, juliet.with_name("juliet"), romeo.with_name("romeo"))
}

/// Plays a dialogue in which JULIET and ROMEO stand for their bare JIDs.
fn dialogue(clients: &mut [&mut Client], juliet: &str, romeo: &str, text: &str) {
    play(clients, &text.replace("JULIET", juliet).replace("ROMEO", romeo));
}

/// §4.2.2, §4.4.2: initial presence and updates go to contacts and to the user's own resources,
/// unchanged byte for byte.
#[test]
fn initial_presence_and_updates_reach_contacts_and_own_resources() {
    let (server, mut juliet, mut romeo) = lovers();
    let (j, r) = (juliet.bare().to_owned(), romeo.bare().to_owned());
    let mut second = server.login(&format!("{}/chamber", j.split('@').next().unwrap())).with_name("second");
    dialogue(
        &mut [&mut juliet, &mut romeo, &mut second],
        &j,
        &r,
        "# A resource that has not sent presence gets none.
         romeo  C: <presence><show>dnd</show></presence>
         romeo  S: <presence from='ROMEO/orchard'><show>dnd</show></presence>
         juliet S: <presence from='ROMEO/orchard'><show>dnd</show></presence>
         second S:
         # Initial presence: to contacts and own resources, including itself; then what they are (§4.3).
         second C: <presence><priority>1</priority><c xmlns='urn:example'>  x </c></presence>
         second S: <presence from='JULIET/chamber'><priority>1</priority><c xmlns='urn:example'>  x </c></presence>
                   <presence from='JULIET/balcony'/>
                   <presence from='ROMEO/orchard'><show>dnd</show></presence>
         romeo  S: <presence from='JULIET/chamber'><priority>1</priority><c xmlns='urn:example'>  x </c></presence>
         juliet S: <presence from='JULIET/chamber'><priority>1</priority><c xmlns='urn:example'>  x </c></presence>",
    );
}

/// §4.3.2: initial presence probes the contacts, and a probe is answered for each available
/// resource. A client also gets the presence of the user's own resources.
#[test]
fn initial_presence_probes_all_resources_of_contacts() {
    let (server, mut juliet, mut romeo) = lovers();
    let mut tomb = server.online(&format!("{}/tomb", romeo.bare().split('@').next().unwrap()));
    juliet.all();
    romeo.all();
    tomb.all();
    let mut second = server.login(&format!("{}/chamber", juliet.bare().split('@').next().unwrap()));
    second.send("<presence/>");
    let (j, r) = (juliet.bare().to_owned(), romeo.bare().to_owned());
    second.expect_in_any_order(&[
        &format!("<presence from='{j}/chamber'/>"),
        &format!("<presence from='{j}/balcony'/>"),
        &format!("<presence from='{r}/orchard'/>"),
        &format!("<presence from='{r}/tomb'/>"),
    ]);
    second.expect_nothing();
    // An update doesn't probe.
    second.send("<presence><show>away</show></presence>");
    second.expect_presence_of_itself();
    second.expect_nothing();
}

/// §4.3.2: for a contact who is away, the reply to a probe is "the full XML of the last presence
/// stanza of type 'unavailable'", with the time of that stanza.
#[test]
fn a_contact_who_is_away_answers_with_the_last_word() {
    let (server, mut juliet, mut romeo) = lovers();
    let r = romeo.bare().to_owned();
    romeo.send("<presence type='unavailable'><status>Banished</status></presence>");
    juliet.expect(&format!("<presence type='unavailable' from='{r}/orchard'><status>Banished</status></presence>"));
    romeo.close();
    server.advance(3_600_000);
    server.restart();
    let mut juliet = server.login(&format!("{}/balcony", juliet.bare().split('@').next().unwrap()));
    juliet.send("<presence/>");
    juliet.expect_presence_of_itself();
    juliet.expect(&format!(
        "<presence type='unavailable' from='{r}/orchard'><status>Banished</status>\
         <delay xmlns='urn:xmpp:delay' from='{r}' stamp='2026-01-01T00:00:00Z'/></presence>"
    ));
    juliet.expect_nothing();
}

/// §4.5: contacts get unavailable presence when the client sends it or its connection is gone, for
/// whatever reason.
#[test]
fn the_end_of_a_session_is_seen_by_contacts() {
    type End = fn(&mut Client);
    let ends: [(&str, End); 4] = [
        ("<status>by word</status>", |client| {
            client.send("<presence type='unavailable'><status>by word</status></presence>")
        }),
        ("", Client::close),
        ("", Client::vanish),
        ("", |client| {
            client.wire.peer.shutdown();
            client.pump();
        }),
    ];
    for (content, end) in ends {
        let (server, mut juliet, mut romeo) = lovers();
        let mut second = server.online(&format!("{}/chamber", juliet.bare().split('@').next().unwrap()));
        for client in [&mut juliet, &mut romeo, &mut second] {
            client.all();
        }
        let from = juliet.full().to_owned();
        end(&mut juliet);
        for client in [&mut romeo, &mut second] {
            client.expect(&format!("<presence type='unavailable' from='{from}'>{content}</presence>"));
            client.expect_nothing();
        }
    }
}

/// §4.5.2: a session that becomes unavailable twice says so once; a session that was never
/// available says nothing.
#[test]
fn unavailable_presence_is_sent_once() {
    let (server, mut juliet, mut romeo) = lovers();
    let mut second = server.login(&format!("{}/chamber", juliet.bare().split('@').next().unwrap()));
    second.close();
    romeo.expect_nothing();
    juliet.send("<presence type='unavailable'/>");
    assert_eq!(romeo.all().len(), 1);
    juliet.send("<presence type='unavailable'/>");
    juliet.close();
    romeo.expect_nothing();
}

/// §4.6: directed presence reaches anybody, and its recipients are told of its end, once.
#[test]
fn directed_presence_ends_once_for_each_recipient() {
    let (server, mut juliet, mut romeo) = lovers();
    let mut nurse = server.online("nurse/house");
    let mut peter = server.online("peter/house");
    let (j, r) = (juliet.bare().to_owned(), romeo.bare().to_owned());
    dialogue(
        &mut [&mut juliet, &mut romeo, &mut nurse, &mut peter],
        &j,
        &r,
        "juliet C: <presence to='nurse@example.org/house'><status>hi</status></presence>
         nurse  S: <presence from='JULIET/balcony'><status>hi</status></presence>
         juliet C: <presence to='peter@example.org'/>
         peter  S: <presence from='JULIET/balcony'/>
         juliet C: <presence type='unavailable' to='peter@example.org'/>
         peter  S: <presence type='unavailable' from='JULIET/balcony'/>
         # A contact who is subscribed gets directed presence too, but the end only once.
         juliet C: <presence to='ROMEO'><show>chat</show></presence>
         romeo  S: <presence from='JULIET/balcony'><show>chat</show></presence>
         # Updates concern contacts only.
         juliet C: <presence><show>xa</show></presence>
         juliet S: <presence from='JULIET/balcony'><show>xa</show></presence>
         romeo  S: <presence from='JULIET/balcony'><show>xa</show></presence>
         nurse  S:",
    );
    juliet.vanish();
    for client in [&mut romeo, &mut nurse] {
        client.expect(&format!("<presence type='unavailable' from='{j}/balcony'/>"));
        client.expect_nothing();
    }
    peter.expect_nothing();
}

/// §4.6.3: directed presence also ends for a session that never sent broadcast presence.
#[test]
fn directed_presence_ends_for_a_session_that_is_not_available() {
    let server = Server::new();
    let mut juliet = server.login("juliet/balcony");
    let mut nurse = server.online("nurse/house");
    juliet.send("<presence to='nurse@example.org/house'/>");
    nurse.expect("<presence from='juliet@example.org/balcony'/>");
    juliet.vanish();
    nurse.expect("<presence type='unavailable' from='juliet@example.org/balcony'/>");
    nurse.expect_nothing();
}

#[test]
fn directed_presence_is_bounded() {
    let mut config = Config::default();
    config.settings.max_directed = 2;
    let server = Server::with(config);
    let mut juliet = server.login("juliet/balcony");
    for name in ["a", "b", "a"] {
        juliet.send(&format!("<presence to='{name}@example.org'/>"));
    }
    juliet.expect_nothing();
    juliet.send("<presence to='c@example.org' id='1'/>");
    juliet.expect(
        "<presence type='error' id='1' from='c@example.org'><error type='wait'>\
         <resource-constraint xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></presence>",
    );
}

/// §4.7.2.3: a new priority decides about messages to the bare JID at once. A priority that isn't a
/// number from -128 to 127 is refused.
#[test]
fn a_negative_priority_takes_no_messages() {
    let server = Server::new();
    let mut juliet = server.login("juliet/balcony");
    let mut romeo = server.online("romeo/orchard");
    let mut second = server.online("romeo/tomb");
    romeo.all();
    second.all();
    let mut arrives = |romeo: &mut Client, second: &mut Client| {
        juliet.send("<message to='romeo@example.org'><body>x</body></message>");
        (romeo.bodies().len(), second.bodies().len())
    };
    assert_eq!(arrives(&mut romeo, &mut second), (1, 1));
    romeo.send("<presence><priority>-1</priority></presence>");
    romeo.expect_presence_of_itself();
    assert_eq!(arrives(&mut romeo, &mut second), (0, 1));
    romeo.send("<presence><priority> 127 </priority></presence>");
    romeo.expect_presence_of_itself();
    assert_eq!(arrives(&mut romeo, &mut second), (1, 1));
    second.all();
    for wrong in ["128", "-129", "x", ""] {
        romeo.send(&format!("<presence id='p'><priority>{wrong}</priority></presence>"));
        romeo.expect(
            "<presence type='error' id='p'><error type='modify'>\
             <bad-request xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></presence>",
        );
        second.expect_nothing();
    }
}

/// §4.3.2: a user without a subscription gets a reply from the bare JID, which is the same whether
/// the contact is there, is away or doesn't exist. With a subscription, the user gets the present
/// or the last presence.
#[test]
fn probes_from_elsewhere_are_answered() {
    let server = Server::with(Config { federates: true, ..Config::default() });
    let mut romeo = server.online("romeo/orchard");
    server.account("nurse");
    server.take_left();
    for name in ["romeo", "nurse", "nobody"] {
        server.incoming(&format!("<presence type='probe' from='paris@example.net/palace' to='{name}@example.org'/>"));
        let left: Vec<String> = server.take_left().into_iter().map(|left| left.text).collect();
        let refusal = format!("<presence to='paris@example.net' from='{name}@example.org' type='unsubscribed'/>");
        assert_eq!(left, [refusal], "{name}");
    }
    romeo.expect_nothing();

    server.incoming("<presence type='subscribe' from='juliet@example.net' to='romeo@example.org'/>");
    romeo.expect("<presence type='subscribe' from='juliet@example.net'/>");
    romeo.send("<presence type='subscribed' to='juliet@example.net'/>");
    romeo.send("<presence type='unavailable'><status>gone</status></presence>");
    romeo.pump();
    server.take_left();
    server.incoming("<presence type='probe' from='juliet@example.net/balcony' to='romeo@example.org'/>");
    let left = server.take_left();
    assert!(left.len() == 1 && left[0].to == "juliet@example.net/balcony", "{left:?}");
    assert!(left[0].text.contains("type='unavailable'") && left[0].text.contains("<status>gone</status>"), "{left:?}");
}

/// A probe tells a stranger neither whether the account exists nor whether the user is there
/// (§4.3.2, RFC 6120 §13.10.2).
#[test]
fn strangers_learn_nothing_by_probes() {
    let server = Server::new();
    let mut stranger = server.online("paris/palace");
    let romeo = server.online("romeo/orchard");
    server.account("nurse");
    let mut answers = Vec::new();
    for name in ["romeo", "nurse", "nobody"] {
        stranger.send(&format!("<presence type='probe' to='{name}@example.org'/>"));
        let answer: Vec<String> = stranger.all().iter().map(rookery_testkit::client::xml).collect();
        answers.push(answer.join("").replace(name, "NAME"));
    }
    assert_eq!(answers[0], answers[1], "available, away");
    assert_eq!(answers[1], answers[2], "away, no account");
    drop(romeo);
}

/// The store's last presence of a contact is older than the presence that the contact sends in the
/// meantime (§4.3.2), whatever else the asking account waits for.
#[test]
fn a_contact_who_comes_while_the_store_is_asked_is_seen() {
    for (shards, released) in [1, 2].into_iter().flat_map(|shards| (0..10).map(move |released| (shards, released))) {
        let held = HeldStores::new(Memory::stores());
        held.set_flowing(true);
        let server = Server::with(Config { shards, stores: held.stores(), ..Config::default() });
        let [romeo, juliet] = [("romeo", 0), ("juliet", shards - 1)].map(|(stem, at)| server.name_at(stem, at));
        let mut romeo = server.online(&format!("{romeo}/orchard")).with_name("romeo");
        let mut juliet = server.online(&format!("{juliet}/balcony")).with_name("juliet");
        befriend(&mut romeo, &mut juliet);
        for client in [&mut romeo, &mut juliet] {
            client.send("<presence type='unavailable'/>");
            client.pump();
        }
        romeo.all();
        held.set_flowing(false);
        romeo.send("<presence/>");
        server.settle();
        for _ in 0..released {
            held.release_one();
            server.settle();
        }
        juliet.send("<presence/>");
        server.settle();
        held.set_flowing(true);
        while held.release_one() {
            server.settle();
        }
        let seen = romeo.all();
        let of_juliet = seen.iter().filter(|element| element.attr("from") == Some(juliet.full()));
        let types: Vec<_> = of_juliet.map(|element| element.attr("type")).collect();
        assert_eq!(types.last(), Some(&None), "{shards} shards, {released} answers before: {types:?}");
        assert!(released > 0 || types.len() == 1, "{types:?}");
    }
}

/// §4.5: a session whose last stanzas wait for the store ends after a newer session has taken its
/// resource. Contacts still see the newer one.
#[test]
fn who_is_back_is_not_gone_when_the_session_before_ends() {
    let held = HeldStores::new(Memory::stores());
    held.set_flowing(true);
    let server = Server::with(Config { stores: held.stores(), ..Config::default() });
    let mut earlier = server.online("juliet/balcony");
    let mut romeo = server.online("romeo/orchard");
    befriend(&mut earlier, &mut romeo);
    held.set_flowing(false);
    earlier.send("<iq type='set' id='1'><query xmlns='jabber:iq:roster'><item jid='nurse@example.org'/></query></iq>");
    server.settle();
    earlier.wire.peer.reset();
    server.settle();
    held.set_flowing(true);
    let mut later = server.online("juliet/balcony");
    romeo.all();
    later.all();
    assert!(held.release_all() > 0, "the session before is still there");
    server.settle();
    romeo.expect_nothing();
    // The newer session may get the reply, which was for its address.
    assert!(later.all().iter().all(|found| found.name() != "presence"));
    assert_eq!(server.sessions(), 2);
    later.send("<presence type='unavailable'/>");
    romeo.expect("<presence type='unavailable' from='juliet@example.org/balcony'/>");
}
