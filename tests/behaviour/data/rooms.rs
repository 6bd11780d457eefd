//! Readings and alarms in rooms (XEP-0045).

use rookery_jid::Jid;
use rookery_pubsub::data::say;

use super::*;

const ROOM: &str = "operators@conference.example.org";

fn enter(client: &mut Client, nick: &str) -> String {
    client.send(&format!("<presence to='{ROOM}/{nick}'><x xmlns='http://jabber.org/protocol/muc'/></presence>"));
    client.all().iter().map(xml).collect()
}

fn alarm(scene: &DataScene, text: &str) {
    let (room, text) = (Jid::parse(ROOM).expect("an address"), text.to_owned());
    scene.server.run_at(0, move |world| say(world, "example.org", &room, text));
}

/// §7.2, §7.4: the service enters a room when it has something to say.
#[test]
fn a_room_hears_what_is_said() {
    let mut scene = DataScene::new();
    enter(&mut scene.hamlet, "Hamlet");
    scene.hamlet.send(&format!(
        "<iq type='set' id='o' to='{ROOM}'><query xmlns='http://jabber.org/protocol/muc#owner'><x xmlns='jabber:x:data' type='submit'/></query></iq>"
    ));
    scene.hamlet.all();
    for text in ["one", "two", "three"] {
        alarm(&scene, text);
    }
    let heard: Vec<_> = scene.hamlet.all().iter().map(xml).collect();
    let said: Vec<_> = heard.iter().filter(|stanza| stanza.contains("<body>")).collect();
    assert_eq!(said.len(), 3, "{heard:?}");
    for (stanza, text) in said.into_iter().zip(["one", "two", "three"]) {
        assert!(
            stanza.contains(&format!("from='{ROOM}/Alarms'")) && stanza.contains(&format!("<body>{text}</body>")),
            "{stanza}"
        );
    }
}

/// A room that isn't there is made, and holds what was said for those who come.
#[test]
fn a_room_that_is_not_there_is_made() {
    let mut scene = DataScene::new();
    alarm(&scene, "one");
    let heard = enter(&mut scene.hamlet, "Hamlet");
    assert!(heard.contains("<body>one</body>") && heard.contains(&format!("{ROOM}/Alarms")), "{heard}");
}

/// Somebody who has its nick already keeps it; and a message that could not be said is said when
/// the room lets the service in.
#[test]
fn a_refusal_is_no_loss() {
    let mut scene = DataScene::new();
    enter(&mut scene.hamlet, "Alarms");
    // Locked until it is configured (§10.1.2): nobody else gets in.
    alarm(&scene, "one");
    assert!(scene.hamlet.bodies().is_empty());
    scene.hamlet.send(&format!(
        "<iq type='set' id='o' to='{ROOM}'><query xmlns='http://jabber.org/protocol/muc#owner'><x xmlns='jabber:x:data' type='submit'/></query></iq>"
    ));
    scene.server.advance(60_000);
    let heard: String = scene.hamlet.all().iter().map(xml).collect();
    assert!(heard.contains(&format!("from='{ROOM}/Alarms_'")) && heard.contains("<body>one</body>"), "{heard}");
    // Thrown out (§8.2), it comes back when it has something to say.
    scene.hamlet.send(&format!(
        "<iq type='set' id='k' to='{ROOM}'><query xmlns='http://jabber.org/protocol/muc#admin'><item nick='Alarms_' role='none'/></query></iq>"
    ));
    scene.hamlet.all();
    alarm(&scene, "two");
    scene.server.advance(60_000);
    let heard: String = scene.hamlet.all().iter().map(xml).collect();
    assert!(heard.contains("<body>two</body>"), "{heard}");
}
