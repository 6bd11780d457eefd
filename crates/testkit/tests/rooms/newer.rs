//! What has grown around XEP-0045: self-ping (0410), pseudonyms (0421), retraction and moderation (0424, 0425), avatars (0486).

use super::*;

const PING: &str = "<ping xmlns='urn:xmpp:ping'/>";

/// XEP-0410 §3.
#[test]
fn a_client_can_ask_whether_it_is_there() {
    let mut s = Scene::opened();
    let own = format!("{COVEN}/thirdwitch");
    assert_eq!(outcome(&ask(&mut s.hag, &own, "get", PING)), "not-acceptable");
    assert_eq!(outcome(&ask(&mut s.hag, "nothing@conference.example.org/thirdwitch", "get", PING)), "not-acceptable");
    join(&mut s.hag, "thirdwitch");
    s.hush();
    let pong = ask(&mut s.hag, &own, "get", PING);
    assert_eq!((outcome(&pong).as_str(), pong.attr("from")), ("result", Some(own.as_str())));
    assert_eq!(outcome(&ask(&mut s.hag, &format!("{COVEN}/oldnick"), "get", PING)), "item-not-found");
}

/// XEP-0421 §3: the same for an account whatever its nick, another in another room.
#[test]
fn pseudonyms_are_stable() {
    let mut s = Scene::opened();
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

/// XEP-0424 §3: what was retracted is not shown to who enters later; others can't retract it.
#[test]
fn who_enters_later_does_not_see_what_was_retracted() {
    let mut s = Scene::opened().all_in();
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

/// XEP-0425 §2.
#[test]
fn moderators_retract_what_others_said() {
    let mut s = Scene::opened().all_in();
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
    let mut s = Scene::configured("persistentroom=1").all_in();
    let vcard = "<vCard xmlns='vcard-temp'><PHOTO><TYPE>image/png</TYPE><BINVAL>aGVs bG8=</BINVAL></PHOTO></vCard>";
    assert_eq!(outcome(&ask(&mut s.hag, COVEN, "set", vcard)), "forbidden");
    assert_eq!(outcome(&ask(&mut s.hag, COVEN, "get", "<vCard xmlns='vcard-temp'/>")), "item-not-found");
    assert_eq!(outcome(&ask(&mut s.crone, COVEN, "set", vcard)), "result");
    s.hag_hears(&["ROOM message/groupchat 104"]);
    let found = ask(&mut s.hag, COVEN, "get", "<vCard xmlns='vcard-temp'/>");
    assert!(found.child("vCard", ns::VCARD).unwrap().child("PHOTO", ns::VCARD).is_some());
    let info = ask(&mut s.hag, COVEN, "get", "<query xmlns='http://jabber.org/protocol/disco#info'/>");
    let x = info.child("query", ns::DISCO_INFO).unwrap().child("x", ns::DATA_FORMS).unwrap();
    let hash = x.children().find(|field| field.attr("var") == Some("muc#roominfo_avatarhash")).unwrap();
    assert_eq!(hash.child_text("value", ns::DATA_FORMS).as_deref(), Some("aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d"));
    assert_eq!(outcome(&ask(&mut s.crone, COVEN, "set", "<vCard xmlns='vcard-temp'/>")), "result");
    assert_eq!(outcome(&ask(&mut s.hag, COVEN, "get", "<vCard xmlns='vcard-temp'/>")), "item-not-found");
}
