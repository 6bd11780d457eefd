//! §8: what a device sends.

use rookery_xml::ns;

use super::{CarbonScene, body, copy};

#[test]
fn what_one_device_sends_the_others_see() {
    let mut scene = CarbonScene::new();
    let from = scene.garden.full().to_owned();
    scene.garden_sends("<message type='chat' to='JULIET' id='m'><body>Neither, fair saint</body></message>");
    let arrived = scene.juliet.expect_message(&from, "Neither, fair saint");
    let copied = copy(&mut scene.home, "sent");
    assert_eq!((copied.attr("from"), copied.attr("to")), (Some(from.as_str()), Some(scene.juliet.full())));
    assert_eq!((body(&copied).as_str(), copied.attr("id")), ("Neither, fair saint", Some("m")));
    // Its place in the sender's archive, which the recipient does not see.
    let by = |message: &rookery_xml::Element| {
        let ids = message.children().filter(|child| child.is("stanza-id", ns::STANZA_ID));
        ids.filter_map(|id| id.attr("by").map(str::to_owned)).collect::<Vec<_>>()
    };
    assert_eq!(by(&copied), [scene.garden.bare()]);
    assert_eq!(by(&arrived), [scene.juliet.bare()]);
    scene.garden.expect_nothing();
    scene.plain.expect_nothing();
}

#[test]
fn a_device_without_copies_is_copied_all_the_same() {
    let mut scene = CarbonScene::new();
    let message = scene.with_names("<message type='chat' to='JULIET'><body>hi</body></message>");
    scene.plain.send(&message);
    assert_eq!(body(&copy(&mut scene.garden, "sent")), "hi");
    assert_eq!(body(&copy(&mut scene.home, "sent")), "hi");
    scene.plain.expect_nothing();
}

#[test]
fn private_messages_and_rooms_are_not_copied() {
    let mut scene = CarbonScene::new();
    for message in [
        "<message type='chat' to='JULIET'><body>hi</body><private xmlns='urn:xmpp:carbons:2'/></message>",
        "<message type='chat' to='JULIET'><body>hi</body><no-copy xmlns='urn:xmpp:hints'/></message>",
        "<message type='groupchat' to='room@chat.example.org'><body>hi</body></message>",
        "<message type='headline' to='JULIET'><body>hi</body></message>",
        "<message to='JULIET'><x xmlns='urn:example'/></message>",
    ] {
        scene.garden_sends(message);
        scene.home.expect_nothing();
    }
    let private = scene.juliet.all();
    assert!(private.iter().any(|message| message.child("private", ns::CARBONS).is_some()), "it stays in the message");
    scene.garden_sends(
        "<message type='chat' to='room@chat.example.org/nick'><body>pm</body><x xmlns='http://jabber.org/protocol/muc#user'/></message>",
    );
    assert_eq!(body(&copy(&mut scene.home, "sent")), "pm", "a private message to an occupant is copied");
}

#[test]
fn notes_to_oneself_come_once() {
    let mut scene = CarbonScene::new();
    scene.garden_sends("<message type='chat' to='ROMEO'><body>note</body></message>");
    for client in [&mut scene.garden, &mut scene.home, &mut scene.plain] {
        assert_eq!(client.bodies(), ["note"]);
    }
    let home = scene.home.full().to_owned();
    scene.garden_sends(&format!("<message type='chat' to='{home}'><body>to the other</body></message>"));
    assert_eq!(scene.home.bodies(), ["to the other"]);
    scene.garden.expect_nothing();
}

/// An earlier message of another account on the same shard has its place in that one's archive
/// alone.
#[test]
fn an_error_has_no_place_in_an_archive() {
    let mut scene = CarbonScene::new();
    let nurse = scene.server.name_at("nurse", 0);
    let mut nurse = scene.server.online(&format!("{nurse}/r"));
    nurse.send(&scene.with_names("<message type='chat' to='JULIET'><body>Madam!</body></message>"));
    nurse.pump();
    scene.garden_sends(
        "<message type='error' to='JULIET'><body>hi</body><error type='cancel'>\
         <not-acceptable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>",
    );
    let copied = copy(&mut scene.home, "sent");
    assert_eq!(body(&copied), "hi");
    assert!(copied.children().all(|child| child.name() != "stanza-id"), "{copied:?}");
}
