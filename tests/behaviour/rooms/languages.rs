//! Languages (§14): of messages, of the subject, and of the room.

use super::*;

const INFO: &str = "<query xmlns='http://jabber.org/protocol/disco#info'/>";

fn languages(message: &Element, name: &str) -> Vec<(String, String)> {
    let texts = message.children().filter(|child| child.name() == name);
    texts.map(|text| (text.attr("xml:lang").unwrap_or_default().to_owned(), text.text())).collect()
}

/// Texts in several languages keep all of them: for occupants, for newcomers, and in the archive.
#[test]
fn texts_keep_their_languages() {
    let mut s = RoomScene::open_scene();
    let both = |name: &str| format!("<{name}>Toil</{name}><{name} xml:lang='de'>Müh</{name}>");
    let wanted = [(String::new(), "Toil".to_owned()), ("de".to_owned(), "Müh".to_owned())];
    for name in ["body", "subject"] {
        let message = format!("<message to='{COVEN}' type='groupchat' xml:lang='en'>{}</message>", both(name));
        s.crone.send(&message);
        let heard = s.crone.expect_element();
        assert_eq!((heard.attr("xml:lang"), languages(&heard, name)), (Some("en"), wanted.to_vec()));
    }
    join(&mut s.hag, "thirdwitch");
    let entered = s.hag.all();
    let [.., history, subject] = entered.as_slice() else { panic!("{entered:?}") };
    assert_eq!((history.attr("xml:lang"), languages(history, "body")), (Some("en"), wanted.to_vec()));
    assert_eq!((subject.attr("xml:lang"), languages(subject, "subject")), (Some("en"), wanted.to_vec()));
    s.hag.send(&format!("<iq to='{COVEN}' type='set' id='q'><query xmlns='urn:xmpp:mam:2'/></iq>"));
    let results: Vec<_> = s.hag.all().iter().filter_map(|found| found.child("result", ns::MAM).cloned()).collect();
    for (result, name) in results.iter().zip(["body", "subject"]) {
        let message = result.child("forwarded", ns::FORWARD).unwrap().child("message", ns::CLIENT).unwrap();
        assert_eq!((message.attr("xml:lang"), languages(message, name)), (Some("en"), wanted.to_vec()));
    }
    assert_eq!(results.len(), 2);
}

/// Strangers see the language in `muc#roomconfig_lang`, also after a restart, and the room's node
/// as well.
#[test]
fn a_room_has_a_language() {
    let mut s = RoomScene::configure_scene("persistentroom=1 lang=de-AT pubsub=xmpp:pubsub.example.org?;node=coven");
    let field = |client: &mut Client, var: &str| {
        let info = ask(client, COVEN, "get", INFO);
        let x = info.child("query", ns::DISCO_INFO).unwrap().child("x", ns::DATA_FORMS).unwrap();
        x.children().find(|field| field.attr("var") == Some(var))?.child_text("value", ns::DATA_FORMS)
    };
    for _ in 0..2 {
        assert_eq!(field(&mut s.hag, "muc#roominfo_lang").as_deref(), Some("de-AT"));
        let node = field(&mut s.hag, "muc#roomconfig_pubsub");
        assert_eq!(node.as_deref(), Some("xmpp:pubsub.example.org?;node=coven"));
        s.server.restart();
        s.hag = s.server.online(s.hag.full());
        s.crone = s.server.online(s.crone.full());
    }
    for wrong in ["d&#xE9;", "de_AT", "-", "1de", "&quot;&gt;&lt;script&gt;"] {
        assert_eq!(outcome(&configure(&mut s.crone, &format!("lang={wrong}"))), "not-acceptable", "{wrong}");
    }
    assert_eq!(outcome(&configure(&mut s.crone, "lang=")), "result");
    assert_eq!(field(&mut s.hag, "muc#roominfo_lang"), None);
}
