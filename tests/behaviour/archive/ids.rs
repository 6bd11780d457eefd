//! XEP-0359: Unique and Stable Stanza IDs.

use rookery_xml::{Element, ns};

use super::{ArchiveScene, page};

fn ids(message: &Element) -> Vec<(&str, &str)> {
    let ids = message.children().filter(|child| child.is("stanza-id", ns::STANZA_ID));
    ids.map(|id| (id.attr("by").unwrap_or_default(), id.attr("id").unwrap_or_default())).collect()
}

#[test]
fn a_message_carries_its_place_in_the_archive_of_its_recipient_only() {
    let mut scene = ArchiveScene::new();
    let message = scene.romeo_says("hi");
    let (juliet, romeo) = (scene.juliet.bare().to_owned(), page(&mut scene.romeo, &[], ""));
    let archived = page(&mut scene.juliet, &[], "");
    assert_eq!(ids(&message), [(juliet.as_str(), archived.id(0))]);
    assert_ne!(romeo.id(0), archived.id(0), "each archive has its own");
}

#[test]
fn forged_ids_are_cut_out_and_those_of_others_stay() {
    let mut scene = ArchiveScene::new();
    let to = scene.juliet.bare().to_owned();
    let room = "<stanza-id xmlns='urn:xmpp:sid:0' by='room@chat.example.org' id='theirs'/>";
    let origin = "<origin-id xmlns='urn:xmpp:sid:0' id='mine'/>";
    for forged in [
        format!("<stanza-id xmlns='urn:xmpp:sid:0' by='{to}' id='forged'/>"),
        format!("<stanza-id by='{}' xmlns='urn:xmpp:sid:0' id='forged'>text</stanza-id>", to.to_uppercase()),
        format!("<x:stanza-id xmlns:x='urn:xmpp:&#115;id:0' by='{to}' id='forged'/>"),
    ] {
        for (type_, archived) in [("chat", 1), ("headline", 0)] {
            scene
                .romeo
                .send(&format!("<message type='{type_}' to='{to}'><body>hi</body>{forged}{room}{origin}</message>"));
            let message = scene.juliet.expect_element();
            let own = ids(&message).into_iter().filter(|(by, id)| *by == to && *id != "forged").count();
            assert_eq!(own, archived, "{forged}");
            assert!(!ids(&message).iter().any(|(_, id)| *id == "forged"), "{forged}");
            assert!(ids(&message).contains(&("room@chat.example.org", "theirs")));
            let origin = message.child("origin-id", ns::STANZA_ID).and_then(|origin| origin.attr("id"));
            assert_eq!(origin, Some("mine"), "§3: it is preserved");
        }
    }
}

#[test]
fn ids_by_the_sender_are_not_sent() {
    let mut scene = ArchiveScene::new();
    let (own, to) = (scene.romeo.bare().to_owned(), scene.juliet.bare().to_owned());
    let forged = format!("<stanza-id xmlns='urn:xmpp:sid:0' by='{own}' id='forged'/>");
    scene.romeo.send(&format!("<message type='chat' to='{to}'><body>hi</body>{forged}</message>"));
    let message = scene.juliet.expect_element();
    assert!(ids(&message).iter().all(|(by, _)| *by == to), "{message:?}");
}
