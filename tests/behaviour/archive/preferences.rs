//! XEP-0441: Message Archive Management Preferences.

use rookery_hub::Value;
use rookery_testkit::{Config, befriend};
use rookery_xml::ns;

use super::{ArchiveScene, expect_refusal, page};

const ASK: &str = "<iq type='get' id='juliet2'><prefs xmlns='urn:xmpp:mam:2'/></iq>";

fn prefs(default: &str, always: &str, never: &str) -> String {
    let jids = |list: &str| list.split_whitespace().map(|jid| format!("<jid>{jid}</jid>")).collect::<String>();
    format!(
        "<prefs xmlns='urn:xmpp:mam:2' default='{default}'><always>{}</always><never>{}</never></prefs>",
        jids(always),
        jids(never)
    )
}

fn set(scene: &mut ArchiveScene, prefs: &str) {
    let prefs = scene.with_names(prefs);
    scene.juliet.send(&format!("<iq type='set' id='juliet3'>{prefs}</iq>"));
    scene.juliet.expect(&format!("<iq type='result' id='juliet3' from='*' to='*'>{prefs}</iq>"));
}

#[test]
fn preferences_are_what_the_operator_or_the_user_says() {
    let options = vec![("archive", "default", Value::Text("roster".into()))];
    let mut scene = ArchiveScene::with(Config { options, ..Config::default() });
    scene.juliet.send(ASK);
    scene.juliet.expect(&format!("<iq type='result' id='juliet2' from='*' to='*'>{}</iq>", prefs("roster", "", "")));
    set(&mut scene, &prefs("never", "romeo@montague.lit", "montague@montague.lit"));
    scene.server.restart();
    let address = scene.juliet.full().to_owned();
    let mut juliet = scene.server.online(&address);
    juliet.send(ASK);
    let expected = prefs("never", "romeo@montague.lit", "montague@montague.lit");
    juliet.expect(&format!("<iq type='result' id='juliet2' from='*' to='*'>{expected}</iq>"));
}

#[test]
fn what_is_never_archived_has_no_id() {
    let mut scene = ArchiveScene::new();
    set(&mut scene, &prefs("always", "", "ROMEO"));
    let message = scene.romeo_says("off the record");
    assert!(message.child("stanza-id", ns::STANZA_ID).is_none());
    assert_eq!(page(&mut scene.juliet, &[], "").messages.len(), 0);
    assert_eq!(page(&mut scene.romeo, &[], "").messages.len(), 1, "his own archive is his own business");
    set(&mut scene, &prefs("never", "ROMEO", ""));
    scene.romeo_says("on the record");
    assert_eq!(page(&mut scene.juliet, &[], "").bodies(), ["on the record"]);
}

#[test]
fn preferences_hold_while_the_user_is_away() {
    let mut scene = ArchiveScene::new();
    set(&mut scene, &prefs("never", "", ""));
    let address = scene.juliet.full().to_owned();
    scene.juliet.close();
    scene.server.settle();
    let to = scene.with_names("JULIET");
    scene.romeo.send(&format!("<message type='chat' to='{to}'><body>hi</body></message>"));
    let mut juliet = scene.server.online(&address);
    assert_eq!(juliet.bodies(), ["hi"]);
    assert_eq!(page(&mut juliet, &[], "").messages.len(), 0);
}

#[test]
fn contacts_only_means_the_roster() {
    let mut scene = ArchiveScene::new();
    set(&mut scene, &prefs("roster", "", ""));
    scene.romeo_says("stranger");
    assert_eq!(page(&mut scene.juliet, &[], "").messages.len(), 0);
    befriend(&mut scene.juliet, &mut scene.romeo);
    scene.juliet.all();
    scene.romeo_says("friend");
    assert_eq!(page(&mut scene.juliet, &[], "").bodies(), ["friend"]);
}

#[test]
fn malformed_preferences_are_refused() {
    let mut scene = ArchiveScene::new();
    for (payload, condition) in [
        ("<prefs xmlns='urn:xmpp:mam:2'/>", "bad-request"),
        ("<prefs xmlns='urn:xmpp:mam:2' default='often'/>", "bad-request"),
        ("<prefs xmlns='urn:xmpp:mam:2' default='always'><never><jid>@</jid></never></prefs>", "jid-malformed"),
    ] {
        expect_refusal(&mut scene.juliet, &format!("<iq type='set' id='1'>{payload}</iq>"), condition);
    }
    scene.romeo_says("still archived");
    assert_eq!(page(&mut scene.juliet, &[], "").messages.len(), 1);
}
