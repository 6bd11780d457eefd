//! Extensions of XEP-0045: self-ping (XEP-0410), pseudonyms (XEP-0421), retraction and moderation
//! (XEP-0424, XEP-0425), avatars (XEP-0486).

use super::*;

const PING: &str = "<ping xmlns='urn:xmpp:ping'/>";

/// XEP-0410 §3.
#[test]
fn a_client_can_ask_whether_it_is_there() {
    let mut s = RoomScene::open_scene();
    let own = format!("{COVEN}/thirdwitch");
    for room in [COVEN, "nothing@conference.example.org"] {
        let refused = ask(&mut s.hag, &format!("{room}/thirdwitch"), "get", PING);
        assert_eq!(outcome(&refused), "not-acceptable");
        let by = refused.child("error", ns::CLIENT).and_then(|error| error.attr("by"));
        assert_eq!(by, Some(room), "no server on the way has refused it");
    }
    join(&mut s.hag, "thirdwitch");
    s.hush();
    let pong = ask(&mut s.hag, &own, "get", PING);
    assert_eq!((outcome(&pong).as_str(), pong.attr("from")), ("result", Some(own.as_str())));
    assert_eq!(outcome(&ask(&mut s.hag, &format!("{COVEN}/oldnick"), "get", PING)), "item-not-found");
}

/// XEP-0421 §3: an account's pseudonym is the same for all of its nicks, and another one in another
/// room.
#[test]
fn pseudonyms_are_stable() {
    let mut s = RoomScene::open_scene();
    let mut seen = Vec::new();
    for (room, nick) in [(COVEN, "thirdwitch"), (COVEN, "oldhag"), ("other@conference.example.org", "thirdwitch")] {
        s.hag.send(&format!("<presence to='{room}/{nick}'><x xmlns='http://jabber.org/protocol/muc'/></presence>"));
        let own = s.hag.all().into_iter().find(|stanza| short(stanza).contains(" 110")).unwrap();
        seen.push(own.child("occupant-id", ns::OCCUPANT_ID).unwrap().attr("id").unwrap().to_owned());
        s.hag.send(&format!("<presence to='{room}/{nick}' type='unavailable'/>"));
        s.hag.all();
    }
    assert!(seen[0] == seen[1] && seen[0] != seen[2]);
}

fn stanza_id(message: &Element) -> String {
    message.child("stanza-id", ns::STANZA_ID).unwrap().attr("id").unwrap().to_owned()
}

/// XEP-0424 §3: a retracted message isn't shown to occupants who enter later, and others can't
/// retract it.
#[test]
fn who_enters_later_does_not_see_what_was_retracted() {
    let mut s = RoomScene::open_scene().all_in();
    for body in ["kept", "regretted"] {
        say(&mut s.hag, body);
    }
    let id = stanza_id(s.hag.all().last().unwrap());
    let retract = format!(
        "<message to='{COVEN}' type='groupchat'><retract xmlns='urn:xmpp:message-retract:1' id='{id}'/></message>"
    );
    s.wiccarocks.send(&retract);
    s.hush();
    let mut later = s.server.online("later/r");
    join(&mut later, "later");
    assert_eq!(later.bodies(), ["kept", "regretted"]);
    s.hag.send(&retract);
    s.hush();
    leave(&mut later, "later");
    later.all();
    join(&mut later, "later");
    assert_eq!(later.bodies(), ["kept"]);
}

/// XEP-0424 §5, XEP-0425 §4: the archive has a tombstone for a message that its sender or a
/// moderator retracted.
#[test]
fn archives_of_rooms_keep_tombstones() {
    let mut s = RoomScene::open_scene().all_in();
    for body in ["regretted", "potions!"] {
        say(&mut s.hag, body);
    }
    let said: Vec<_> = s.crone.all().iter().map(stanza_id).collect();
    s.hush();
    s.wiccarocks.send(&retraction(&said[0], "not-mine"));
    s.hag.send(&retraction(&said[0], "mine"));
    s.hush();
    let reason = "<retract xmlns='urn:xmpp:message-retract:1'/><reason>no</reason>";
    let moderate = format!("<moderate id='{}' xmlns='urn:xmpp:message-moderate:1'>{reason}</moderate>", said[1]);
    assert_eq!(outcome(&ask(&mut s.crone, COVEN, "set", &moderate)), "result");
    s.hush();
    s.hag.send(&format!("<iq to='{COVEN}' type='set' id='q'><query xmlns='urn:xmpp:mam:2'/></iq>"));
    let results = s.hag.all();
    let tombstone = |id: &str| {
        let results = results.iter().filter_map(|message| message.child("result", ns::MAM));
        let result = results.into_iter().find(|result| result.attr("id") == Some(id)).unwrap();
        let message = result.child("forwarded", ns::FORWARD).unwrap().child("message", ns::CLIENT).unwrap();
        assert_eq!(message.attr("from"), Some(format!("{COVEN}/thirdwitch").as_str()));
        assert!(message.child("body", ns::CLIENT).is_none() && message.child("occupant-id", ns::OCCUPANT_ID).is_some());
        message.child("retracted", ns::RETRACT).unwrap().clone()
    };
    assert_eq!(tombstone(&said[0]).attr("id"), Some("mine"));
    let moderated = tombstone(&said[1]);
    assert_eq!(moderated.child_text("reason", ns::RETRACT).as_deref(), Some("no"));
    assert_eq!(
        moderated.child("moderated", ns::MODERATE).unwrap().attr("by"),
        Some(format!("{COVEN}/firstwitch").as_str())
    );
}

fn retraction(id: &str, own: &str) -> String {
    format!(
        "<message to='{COVEN}' type='groupchat' id='{own}'><retract xmlns='urn:xmpp:message-retract:1' id='{id}'/></message>"
    )
}

/// XEP-0425 §2.
#[test]
fn moderators_retract_what_others_said() {
    let mut s = RoomScene::open_scene().all_in();
    say(&mut s.hag, "DM me for free magic potions!");
    let id = stanza_id(s.crone.all().last().unwrap());
    s.hush();
    let moderate = format!(
        "<moderate id='{id}' xmlns='urn:xmpp:message-moderate:1'><retract xmlns='urn:xmpp:message-retract:1'/>\
         <reason>inappropriate</reason></moderate>"
    );
    assert_eq!(outcome(&ask(&mut s.wiccarocks, COVEN, "set", &moderate)), "forbidden");
    assert_eq!(outcome(&ask(&mut s.crone, COVEN, "set", &moderate)), "result");
    s.hag.expect(&format!(
        "<message type='groupchat' id='*' from='{COVEN}'><retract id='{id}' xmlns='urn:xmpp:message-retract:1'>\
         <moderated by='{COVEN}/firstwitch' xmlns='urn:xmpp:message-moderate:1'>\
         <occupant-id xmlns='urn:xmpp:occupant-id:0' id='*'/></moderated><reason>inappropriate</reason></retract>\
         <stanza-id xmlns='urn:xmpp:sid:0' by='{COVEN}' id='*'/></message>"
    ));
    let mut later = s.server.online("later/r");
    join(&mut later, "later");
    assert_eq!(later.bodies(), [""; 0]);
    let broken =
        "<moderate xmlns='urn:xmpp:message-moderate:1'><retract xmlns='urn:xmpp:message-retract:1'/></moderate>";
    assert_eq!(outcome(&ask(&mut s.crone, COVEN, "set", broken)), "bad-request");
}

/// XEP-0486 §3.
#[test]
fn owners_give_a_room_an_avatar() {
    let mut s = RoomScene::configure_scene("persistentroom=1").all_in();
    let vcard = "<vCard xmlns='vcard-temp'><PHOTO><TYPE>image/png</TYPE><BINVAL>aGVs bG8=</BINVAL></PHOTO></vCard>";
    assert_eq!(outcome(&ask(&mut s.hag, COVEN, "set", vcard)), "forbidden");
    let is_empty = |found: &Element| found.child("vCard", ns::VCARD).is_some_and(|vcard| vcard.children().count() == 0);
    assert!(is_empty(&ask(&mut s.hag, COVEN, "get", "<vCard xmlns='vcard-temp'/>")));
    assert_eq!(outcome(&ask(&mut s.crone, COVEN, "set", vcard)), "result");
    s.hag_hears(&["ROOM message/groupchat 104"]);
    let found = ask(&mut s.hag, COVEN, "get", "<vCard xmlns='vcard-temp'/>");
    assert!(found.child("vCard", ns::VCARD).unwrap().child("PHOTO", ns::VCARD).is_some());
    let info = ask(&mut s.hag, COVEN, "get", "<query xmlns='http://jabber.org/protocol/disco#info'/>");
    let x = info.child("query", ns::DISCO_INFO).unwrap().child("x", ns::DATA_FORMS).unwrap();
    let hash = x.children().find(|field| field.attr("var") == Some("muc#roominfo_avatarhash")).unwrap();
    assert_eq!(hash.child_text("value", ns::DATA_FORMS).as_deref(), Some("aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d"));
    assert_eq!(outcome(&ask(&mut s.crone, COVEN, "set", "<vCard xmlns='vcard-temp'/>")), "result");
    assert!(is_empty(&ask(&mut s.hag, COVEN, "get", "<vCard xmlns='vcard-temp'/>")), "§3.2: it is unpublished");
}

pub(super) fn command(client: &mut Client, name: &str, fields: &[(&str, &str)]) -> Element {
    let fields: String =
        fields.iter().map(|(var, value)| format!("<field var='hats#{var}'><value>{value}</value></field>")).collect();
    let form = format!("<x xmlns='jabber:x:data' type='submit'>{fields}</x>");
    let form = if fields.is_empty() { "" } else { &form };
    let node = format!("urn:xmpp:hats:commands:{name}");
    ask(
        client,
        COVEN,
        "set",
        &format!("<command xmlns='http://jabber.org/protocol/commands' node='{node}'>{form}</command>"),
    )
}

/// XEP-0317 §5: hats are created, assigned, shown and taken away. They outlive a restart.
#[test]
fn admins_give_hats() {
    let mut s = RoomScene::configure_scene("persistentroom=1").all_in();
    let hag = s.hag.bare().to_owned();
    let (title, uri) = (("title", "Host"), ("uri", "http://schemas.example.com/hats#host"));
    assert_eq!(outcome(&command(&mut s.hag, "create", &[title, uri])), "forbidden");
    let form = command(&mut s.crone, "create", &[]);
    let asked = form.child("command", ns::COMMANDS).unwrap();
    assert_eq!(asked.attr("status"), Some("executing"));
    assert_eq!(outcome(&command(&mut s.crone, "assign", &[uri, ("jid", &hag)])), "item-not-found");
    assert_eq!(outcome(&command(&mut s.crone, "create", &[uri])), "bad-request");
    assert_eq!(outcome(&command(&mut s.crone, "create", &[title, uri, ("hue", "many")])), "not-acceptable");
    assert_eq!(outcome(&command(&mut s.crone, "create", &[title, uri, ("hue", "327.2")])), "result");
    assert_eq!(outcome(&command(&mut s.crone, "create", &[title, uri])), "conflict");
    s.hush();
    assert_eq!(outcome(&command(&mut s.crone, "assign", &[uri, ("jid", &hag)])), "result");
    let shown = s.wiccarocks.expect_element();
    let hat = shown.child("hats", ns::HATS).unwrap().children().next().unwrap();
    assert_eq!((hat.attr("title"), hat.attr("hue")), (Some("Host"), Some("327.2")));
    let list = command(&mut s.crone, "list-assigned", &[]);
    let x = list.child("command", ns::COMMANDS).unwrap().child("x", ns::DATA_FORMS).unwrap();
    assert_eq!(x.children().filter(|child| child.name() == "item").count(), 1);
    s.server.restart();
    let mut hag = s.server.online(s.hag.full());
    join(&mut hag, "thirdwitch");
    assert!(hag.expect_element().child("hats", ns::HATS).is_some());
    let mut crone = s.server.online(s.crone.full());
    assert_eq!(outcome(&command(&mut crone, "destroy", &[uri])), "result");
    assert!(hag.all().iter().any(|found| found.name() == "presence" && found.child("hats", ns::HATS).is_none()));
}
