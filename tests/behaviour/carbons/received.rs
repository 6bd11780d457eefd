//! §7: what comes for an account.

use rookery_xml::ns;

use super::{CarbonScene, body, copy};

#[test]
fn what_one_device_gets_the_others_see() {
    let mut scene = CarbonScene::new();
    let juliet = scene.juliet.full().to_owned();
    scene.juliet_sends("<message type='chat' to='GARDEN'><body>What man art thou</body><thread>0e3</thread></message>");
    let original = scene.garden.expect_message(&juliet, "What man art thou");
    let copied = copy(&mut scene.home, "received");
    assert_eq!((copied.attr("from"), copied.attr("to")), (Some(juliet.as_str()), Some(scene.garden.full())));
    assert_eq!(
        (body(&copied), copied.child_text("thread", ns::CLIENT).as_deref()),
        ("What man art thou".into(), Some("0e3"))
    );
    let id = |message: &rookery_xml::Element| {
        message.child("stanza-id", ns::STANZA_ID).and_then(|id| id.attr("id")).map(str::to_owned)
    };
    assert!(id(&original).is_some() && id(&original) == id(&copied), "the same place in the archive");
    scene.garden.expect_nothing();
    scene.home.expect_nothing();
    scene.plain.expect_nothing();
}

#[test]
fn who_gets_it_anyway_gets_no_copy() {
    let mut scene = CarbonScene::new();
    let juliet = scene.juliet.full().to_owned();
    scene.home.send("<presence><priority>-1</priority></presence>");
    for client in [&mut scene.home, &mut scene.garden, &mut scene.plain] {
        client.all();
    }
    scene.juliet_sends("<message type='chat' to='ROMEO'><body>hi</body></message>");
    scene.garden.expect_message(&juliet, "hi");
    scene.plain.expect_message(&juliet, "hi");
    assert_eq!(body(&copy(&mut scene.home, "received")), "hi");
    for client in [&mut scene.home, &mut scene.garden, &mut scene.plain] {
        client.expect_nothing();
    }
}

#[test]
fn only_instant_messaging_is_copied() {
    let mut scene = CarbonScene::new();
    for message in [
        "<message to='GARDEN'><x xmlns='urn:example'/></message>",
        "<message type='headline' to='GARDEN'><body>news</body></message>",
        "<message type='groupchat' to='GARDEN'><body>all</body></message>",
        "<message type='error' to='GARDEN'><error type='cancel'/></message>",
        "<message type='chat' to='GARDEN'><body>pm</body><x xmlns='http://jabber.org/protocol/muc#user'/></message>",
        "<message type='chat' to='GARDEN'><body>private</body><private xmlns='urn:xmpp:carbons:2'/></message>",
        "<message type='chat' to='GARDEN'><body>private</body><no-copy xmlns='urn:xmpp:hints'/></message>",
        "<message to='ROMEO/nowhere'><body>refused</body></message>",
    ] {
        scene.juliet_sends(message);
        scene.home.expect_nothing();
    }
    scene.garden.all();
    for message in [
        "<message type='chat' to='GARDEN'><composing xmlns='http://jabber.org/protocol/chatstates'/></message>",
        "<message to='GARDEN'><received xmlns='urn:xmpp:receipts' id='1'/></message>",
        "<message to='GARDEN'><x xmlns='jabber:x:conference' jid='room@chat.example.org'/></message>",
        "<message to='GARDEN'><x xmlns='http://jabber.org/protocol/muc#user'><invite from='a@x'/></x></message>",
        "<message type='error' to='GARDEN'><body>hi</body><error type='cancel'/></message>",
    ] {
        scene.juliet_sends(message);
        copy(&mut scene.home, "received");
    }
}

#[test]
fn forged_copies_lose_what_makes_them_copies() {
    let mut scene = CarbonScene::new();
    let forged = "<received xmlns='urn:xmpp:carbons:2'><forwarded xmlns='urn:xmpp:forward:0'><message xmlns='jabber:client' \
                  from='nurse@example.org'><body>Thou shall meet me tonite</body></message></forwarded></received>";
    for to in ["ROMEO", "GARDEN"] {
        scene.juliet_sends(&format!("<message type='chat' to='{to}'>{forged}<body>look</body></message>"));
        for client in [&mut scene.garden, &mut scene.home, &mut scene.plain] {
            for stanza in client.all() {
                assert_eq!(stanza.children().filter(|child| child.attr("from").is_some()).count(), 0);
                assert!(!format!("{stanza:?}").contains("tonite"), "{stanza:?}");
            }
        }
    }
    // Not even from another device of the same account, or to itself in its own name.
    let own = scene.with_names(&format!("<message from='ROMEO' to='ROMEO' type='chat'>{forged}</message>"));
    scene.garden.send(&own);
    assert!(scene.home.all().iter().all(|stanza| !format!("{stanza:?}").contains("tonite")));
}

#[test]
fn what_a_device_has_not_read_when_it_ends_is_for_nobody_else() {
    let mut scene = CarbonScene::new();
    let juliet = scene.juliet.full().to_owned();
    scene.home.set_reading(false);
    for number in 0..200 {
        scene.juliet_sends(&format!(
            "<message type='chat' to='GARDEN'><body>{number}{}</body></message>",
            "x".repeat(2000)
        ));
    }
    assert_eq!(scene.garden.bodies().len(), 200);
    scene.home.vanish();
    assert!(scene.garden.all().iter().all(|stanza| stanza.name() == "presence"));
    assert!(scene.plain.all().iter().all(|stanza| stanza.name() == "presence"));
    scene.juliet_sends("<message type='chat' to='GARDEN'><body>still here</body></message>");
    scene.garden.expect_message(&juliet, "still here");
}
