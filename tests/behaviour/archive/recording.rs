//! The content of an archive (§5.1), and the rights to see it.

use rookery_hub::Value;
use rookery_testkit::Config;
use rookery_xml::ns;

use super::{ArchiveScene, expect_refusal, page, query};

#[test]
fn both_sides_of_a_conversation_are_archived_once() {
    let mut scene = ArchiveScene::new();
    scene.romeo_says("Call me but love");
    let (juliet, romeo) = (scene.juliet.full().to_owned(), scene.romeo.full().to_owned());
    scene.juliet.send(&format!("<message type='chat' to='{romeo}'><body>What man art thou</body></message>"));
    scene.romeo.expect_message(&juliet, "What man art thou");
    for client in [&mut scene.juliet, &mut scene.romeo] {
        let page = page(client, &[], "");
        assert_eq!(page.bodies(), ["Call me but love", "What man art thou"]);
        assert!(page.is_complete());
        assert_eq!(page.rsm("first").as_deref(), Some(page.id(0)));
        assert_eq!(page.rsm("last").as_deref(), Some(page.id(1)));
        assert_eq!(page.rsm("count").as_deref(), Some("2"));
    }
}

#[test]
fn the_forwarded_message_is_the_one_that_was_sent() {
    let mut scene = ArchiveScene::new();
    let to = scene.juliet.full().to_owned();
    scene.romeo.send(&format!(
        "<message type='chat' id='m1' to='{to}'><body>hi</body><x xmlns='urn:example' a='&lt;'>text</x></message>"
    ));
    scene.juliet.expect_element();
    scene.juliet.send(&query(&[], ""));
    let from = scene.romeo.full().to_owned();
    let bare = scene.juliet.bare().to_owned();
    scene.juliet.expect(&format!(
        "<message from='{bare}' to='{to}'><result xmlns='urn:xmpp:mam:2' queryid='f27' id='*'><forwarded xmlns='urn:xmpp:forward:0'>\
         <delay xmlns='urn:xmpp:delay' stamp='*'/><message xmlns='jabber:client' type='chat' id='m1' from='{from}' to='{to}'>\
         <body>hi</body><x xmlns='urn:example' a='&lt;'>text</x></message></forwarded></result></message>"
    ));
}

#[test]
fn messages_are_archived_for_users_who_are_away_and_carry_the_same_id_later() {
    let mut scene = ArchiveScene::new();
    scene.juliet.send("<presence type='unavailable'/>");
    scene.juliet.pump();
    let (to, from) = (scene.juliet.bare().to_owned(), scene.romeo.full().to_owned());
    scene.romeo.send(&format!("<message type='chat' to='{to}'><body>Art thou there?</body></message>"));
    scene.romeo.pump();
    let archived = page(&mut scene.juliet, &[], "");
    assert_eq!(archived.bodies(), ["Art thou there?"]);
    scene.juliet.send("<presence/>");
    scene.juliet.expect_presence_of_itself();
    let message = scene.juliet.expect_message(&from, "Art thou there?");
    let id = message.child("stanza-id", ns::STANZA_ID).expect("an id");
    assert_eq!((id.attr("id"), id.attr("by")), (Some(archived.id(0)), Some(to.as_str())));
    assert!(message.child("delay", ns::DELAY).is_some());
    assert_eq!(page(&mut scene.juliet, &[], "").messages.len(), 1, "delivered later, archived once");
}

#[test]
fn what_is_of_the_moment_refused_or_not_to_be_stored_is_not_archived() {
    let mut scene = ArchiveScene::new();
    let to = scene.juliet.bare().to_owned();
    for message in [
        format!("<message type='chat' to='{to}'><composing xmlns='http://jabber.org/protocol/chatstates'/></message>"),
        format!("<message type='chat' to='{to}'><body>secret</body><no-store xmlns='urn:xmpp:hints'/></message>"),
        format!("<message type='headline' to='{to}'><body>news</body></message>"),
        format!("<message type='error' to='{to}'><body>no</body><error type='cancel'/></message>"),
        format!("<message type='groupchat' to='{to}'><body>all</body></message>"),
        format!("<message to='{to}/nowhere'><body>refused</body></message>"),
    ] {
        scene.romeo.send(&message);
    }
    scene.juliet.all();
    assert_eq!(page(&mut scene.juliet, &[], "").bodies(), Vec::<&str>::new());
    // The sender has said these, all the same.
    scene.romeo.all();
    assert_eq!(page(&mut scene.romeo, &[], "").bodies(), ["refused"]);
}

#[test]
fn messages_to_oneself_are_archived_once() {
    let mut scene = ArchiveScene::new();
    let own = scene.juliet.bare().to_owned();
    scene.juliet.send(&format!("<message type='chat' to='{own}'><body>Note to self</body></message>"));
    scene.juliet.send("<message type='chat'><body>Another</body></message>");
    assert_eq!(scene.juliet.bodies(), ["Note to self", "Another"]);
    scene.romeo_says("hi");
    assert_eq!(page(&mut scene.juliet, &[], "").bodies(), ["Note to self", "Another", "hi"]);
    assert_eq!(page(&mut scene.juliet, &[("with", &own)], "").bodies(), ["Note to self", "Another"], "§4.1.1");
}

#[test]
fn nobody_sees_the_archive_of_another() {
    let mut scene = ArchiveScene::new();
    scene.romeo_says("For thine eyes only");
    for target in ["JULIET", "nobody@example.org"] {
        for payload in ["<query xmlns='urn:xmpp:mam:2'/>", "<prefs xmlns='urn:xmpp:mam:2' default='never'/>"] {
            let iq = scene.with_names(&format!("<iq type='set' id='1' to='{target}'>{payload}</iq>"));
            expect_refusal(&mut scene.romeo, &iq, "forbidden");
        }
        for payload in ["metadata", "prefs", "query"] {
            let iq = scene
                .with_names(&format!("<iq type='get' id='1' to='{target}'><{payload} xmlns='urn:xmpp:mam:2'/></iq>"));
            expect_refusal(&mut scene.romeo, &iq, "forbidden");
        }
    }
}

#[test]
fn results_and_copies_that_others_forge_are_not_archived() {
    let mut scene = ArchiveScene::new();
    let to = scene.juliet.bare().to_owned();
    scene.romeo.send(&format!(
        "<message to='{to}'><result xmlns='urn:xmpp:mam:2' id='1'><forwarded xmlns='urn:xmpp:forward:0'><message xmlns='jabber:client' \
         from='nurse@example.org'><body>lies</body></message></forwarded></result><body>look</body></message>"
    ));
    scene.juliet.all();
    assert_eq!(page(&mut scene.juliet, &[], "").messages.len(), 0);
}

#[test]
fn where_the_module_is_off_there_is_no_archive() {
    let mut scene = ArchiveScene::with(Config { modules_off: vec!["archive"], ..Config::default() });
    let message = scene.romeo_says("hi");
    assert!(message.child("stanza-id", ns::STANZA_ID).is_none());
    expect_refusal(&mut scene.juliet, &query(&[], ""), "service-unavailable");
}

#[test]
fn old_messages_go() {
    let options = vec![("archive", "expire_days", Value::Number(1))];
    let mut scene = ArchiveScene::with(Config { options, ..Config::default() });
    scene.romeo_says("old");
    scene.server.advance(23 * 60 * 60 * 1000);
    scene.romeo_says("new");
    scene.server.advance(3 * 60 * 60 * 1000);
    assert_eq!(page(&mut scene.juliet, &[], "").bodies(), ["new"]);
    assert_eq!(page(&mut scene.romeo, &[], "").bodies(), ["new"]);
}

#[test]
fn an_account_shows_what_its_archive_can() {
    let mut scene = ArchiveScene::new();
    let own = scene.juliet.bare().to_owned();
    let info = scene
        .juliet
        .ask(&format!("<iq type='get' id='1' to='{own}'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>"));
    let query = info.child("query", ns::DISCO_INFO).expect("features");
    for feature in [ns::MAM, ns::MAM_EXTENDED, ns::STANZA_ID, ns::FULLTEXT] {
        assert!(query.children().any(|child| child.attr("var") == Some(feature)), "{feature}");
    }
}
