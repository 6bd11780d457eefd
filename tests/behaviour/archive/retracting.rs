//! Tombstones of retracted messages (XEP-0424 §5).

use rookery_testkit::Client;
use rookery_xml::{Element, ns};

use super::{ArchiveScene, query};

/// Both archives still show that there was a message, but not its text.
#[test]
fn what_was_taken_back_leaves_a_tombstone_on_both_sides() {
    let mut scene = ArchiveScene::new();
    say(&mut scene, "wrong-recipient-1", "<body>Have not saints lips</body>");
    say(&mut scene, "kept", "<body>Stay</body>");
    say(&mut scene, "retract-message-1", &retract("wrong-recipient-1"));
    for client in [&mut scene.juliet, &mut scene.romeo] {
        let messages = archived_messages(client);
        assert_eq!(ids(&messages), ["wrong-recipient-1", "kept", "retract-message-1"]);
        let retracted = messages[0].child("retracted", ns::RETRACT).expect("a tombstone");
        assert_eq!(retracted.attr("id"), Some("retract-message-1"));
        assert!(retracted.attr("stamp").is_some() && messages[0].child("body", ns::CLIENT).is_none());
        assert!(messages[1].child("body", ns::CLIENT).is_some());
    }
}

/// §6: only the sender may retract a message.
#[test]
fn others_take_nothing_back() {
    let mut scene = ArchiveScene::new();
    say(&mut scene, "said", "<body>Have not saints lips</body>");
    let to = scene.romeo.full().to_owned();
    scene.juliet.send(&format!("<message type='chat' to='{to}' id='forged'>{}</message>", retract("said")));
    scene.romeo.expect_element();
    // Nor does a retraction without an id, which no tombstone could name, or of a message that
    // never existed.
    let to = scene.juliet.full().to_owned();
    scene.romeo.send(&format!("<message type='chat' to='{to}'>{}</message>", retract("said")));
    scene.juliet.expect_element();
    say(&mut scene, "vain", &retract("nothing"));
    for client in [&mut scene.juliet, &mut scene.romeo] {
        let messages = archived_messages(client);
        assert!(messages[0].child("body", ns::CLIENT).is_some(), "{messages:?}");
        assert!(messages.iter().all(|message| message.child("retracted", ns::RETRACT).is_none()));
    }
}

fn say(scene: &mut ArchiveScene, id: &str, content: &str) {
    let to = scene.juliet.full().to_owned();
    scene.romeo.send(&format!("<message type='chat' to='{to}' id='{id}'>{content}</message>"));
    scene.juliet.expect_element();
}

fn retract(id: &str) -> String {
    format!("<retract id='{id}' xmlns='urn:xmpp:message-retract:1'/><store xmlns='urn:xmpp:hints'/>")
}

/// Returns all messages of an archive.
fn archived_messages(client: &mut Client) -> Vec<Element> {
    client.send(&query(&[], ""));
    let mut messages = Vec::new();
    loop {
        let stanza = client.expect_element();
        let Some(result) = stanza.child("result", ns::MAM) else { return messages };
        let forwarded = result.child("forwarded", ns::FORWARD).expect("a forwarded message");
        messages.push(forwarded.child("message", ns::CLIENT).expect("a message").clone());
    }
}

fn ids(messages: &[Element]) -> Vec<&str> {
    messages.iter().filter_map(|message| message.attr("id")).collect()
}
