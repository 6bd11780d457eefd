//! §7.1 and §7.2: entering a room.

use super::*;

/// Examples 17 to 20, with the room on either shard.
#[test]
fn everybody_hears_of_who_enters() {
    let mut s = RoomScene::open_scene();
    join(&mut s.wiccarocks, "secondwitch");
    let subject = "ROOM message/groupchat subject=";
    let own = "secondwitch presence none/participant jid=WICCA/r 110";
    s.wicca_hears(&["firstwitch presence owner/moderator", own, subject]);
    s.crone_hears(&["secondwitch presence none/participant jid=WICCA/r"]);
    join(&mut s.hag, "thirdwitch");
    s.hag_hears(&[
        "firstwitch presence owner/moderator",
        "secondwitch presence none/participant",
        "thirdwitch presence none/participant jid=HAG/r 110",
        subject,
    ]);
    s.wicca_hears(&["thirdwitch presence none/participant"]);
    s.crone_hears(&["thirdwitch presence none/participant jid=HAG/r"]);
}

/// §7.2.1.
#[test]
fn a_nick_is_needed() {
    let mut s = RoomScene::open_scene();
    for to in [COVEN.to_owned(), format!("{COVEN}/%20").replace("%20", "&#x3164;"), format!("{COVEN}/ ")] {
        s.hag.send(&format!("<presence to='{to}'><x xmlns='http://jabber.org/protocol/muc'/></presence>"));
        let found = s.hag.expect_element();
        assert_eq!(outcome(&found), "jid-malformed", "{to}");
    }
    s.crone.expect_nothing();
}

/// §7.2.4: all occupants see the real addresses, and a newcomer is told so.
#[test]
fn non_anonymous_rooms_show_real_addresses() {
    let mut s = RoomScene::configure_scene("whois=anyone");
    join(&mut s.wiccarocks, "secondwitch");
    s.wicca_hears(&[
        "firstwitch presence owner/moderator jid=CRONE/r",
        "secondwitch presence none/participant jid=WICCA/r 100 110",
        "ROOM message/groupchat subject=",
    ]);
    s.crone_hears(&["secondwitch presence none/participant jid=WICCA/r"]);
}

/// §7.2.6.
#[test]
fn a_password_is_asked_for() {
    let mut s = RoomScene::configure_scene("passwordprotectedroom=1 roomsecret=cauldronburn");
    join(&mut s.hag, "thirdwitch");
    s.hag_hears(&["thirdwitch presence/error not-authorized"]);
    join_with(&mut s.hag, "thirdwitch", "<password>cauldronburns</password>");
    s.hag_hears(&["thirdwitch presence/error not-authorized"]);
    join_with(&mut s.hag, "thirdwitch", "<password>cauldronburn</password>");
    assert_eq!(take_stanzas(&mut s.hag).len(), 3);
    let all = s.crone.all();
    assert_eq!(all.len(), 1);
    assert!(all[0].child("x", ns::MUC).is_none(), "the password is not shown to others");
}

/// §7.2.7.
#[test]
fn members_only_rooms_let_members_in() {
    let mut s = RoomScene::configure_scene("membersonly=1");
    join(&mut s.hag, "thirdwitch");
    let refusal = format!(
        "<presence from='{COVEN}/thirdwitch' type='error'><x xmlns='http://jabber.org/protocol/muc'/>\
         <error type='auth'><registration-required xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></presence>"
    );
    s.hag.expect(&refusal);
    let member = s.with_names("<item affiliation='member' jid='HAG'/>");
    assert_eq!(outcome(&administer(&mut s.crone, "set", &member)), "result");
    s.hag.all();
    join(&mut s.hag, "thirdwitch");
    assert!(take_stanzas(&mut s.hag)[1].starts_with("thirdwitch presence member/participant"));
}

/// §7.2.8.
#[test]
fn outcasts_stay_outside() {
    let mut s = RoomScene::open_scene();
    let outcast = s.with_names("<item affiliation='outcast' jid='HAG'/>");
    administer(&mut s.crone, "set", &outcast);
    s.hush();
    join(&mut s.hag, "thirdwitch");
    s.hag_hears(&["thirdwitch presence/error forbidden"]);
}

/// §7.2.9.
#[test]
fn a_nick_is_had_by_one_account() {
    let mut s = RoomScene::open_scene();
    for nick in ["firstwitch", "FirstWitch", " firstwitch"] {
        join(&mut s.hag, nick);
        let found = s.hag.all();
        assert_eq!(found.iter().map(outcome).collect::<Vec<_>>(), ["conflict"], "{nick}");
    }
    s.crone.expect_nothing();
}

/// Returns the scene with a second session of the crone, which has entered with the same nick. The
/// stanzas about that haven't been read yet.
fn share_nick() -> (RoomScene, Client) {
    let mut s = RoomScene::open_scene();
    join(&mut s.wiccarocks, "secondwitch");
    s.hush();
    let bare = s.crone.bare().to_owned();
    let mut phone = s.server.online(&format!("{bare}/phone"));
    phone.all();
    s.crone.all();
    join(&mut phone, "firstwitch");
    (s, phone)
}

/// §7.2.9: sessions of one account share a nick, and each of them gets the other occupants.
#[test]
fn sessions_of_an_account_share_a_nick() {
    let (mut s, mut phone) = share_nick();
    s.wicca_hears(&["firstwitch presence owner/moderator"]);
    let own = format!("firstwitch presence owner/moderator jid={}/phone 110", s.crone.bare());
    let other = s.with_names("secondwitch presence none/participant jid=WICCA/r");
    assert_eq!(take_stanzas(&mut phone), [other, own, "ROOM message/groupchat subject=".to_owned()]);
}

#[test]
fn all_sessions_with_a_nick_hear_what_is_said() {
    let (mut s, mut phone) = share_nick();
    s.hush();
    phone.all();
    say(&mut s.wiccarocks, "hello");
    for client in [&mut s.wiccarocks, &mut s.crone, &mut phone] {
        assert_eq!(client.bodies(), ["hello"]);
    }
}

#[test]
fn a_nick_leaves_with_the_last_session_that_has_it() {
    let (mut s, mut phone) = share_nick();
    s.hush();
    phone.all();
    leave(&mut s.crone, "firstwitch");
    s.crone_hears(&["firstwitch presence/unavailable owner/none jid=CRONE/r 110"]);
    s.wicca_hears(&["firstwitch presence owner/moderator"]);
    phone.vanish();
    s.wicca_hears(&["firstwitch presence/unavailable owner/none"]);
}

/// §7.2.3: a session that enters with another spelling of a shared nick is told that it was
/// modified.
#[test]
fn a_modified_nick_is_told() {
    let s = RoomScene::open_scene();
    let bare = s.crone.bare().to_owned();
    let mut other = s.server.online(&format!("{bare}/phone"));
    join(&mut other, "FirstWitch");
    let own = take_stanzas(&mut other).into_iter().find(|text| text.contains(" 110")).unwrap();
    assert!(own.starts_with("firstwitch presence owner/moderator") && own.ends_with(" 110 210"), "{own}");
}

/// §7.2.10: owners can enter above the limit.
#[test]
fn a_room_may_be_full() {
    let mut s = RoomScene::configure_scene("maxusers=1");
    join(&mut s.hag, "thirdwitch");
    s.hag_hears(&["thirdwitch presence/error service-unavailable"]);
    let owner = s.with_names("<item affiliation='owner' jid='HAG'/>");
    administer(&mut s.crone, "set", &owner);
    s.hush();
    join(&mut s.hag, "thirdwitch");
    assert_eq!(take_stanzas(&mut s.hag).len(), 3);
}

/// §7.2.11, §10.1.
#[test]
fn a_locked_room_does_not_exist_for_others() {
    let mut s = RoomScene::new();
    join(&mut s.crone, "firstwitch");
    join(&mut s.hag, "thirdwitch");
    s.hag_hears(&["thirdwitch presence/error item-not-found"]);
    say(&mut s.hag, "hello?");
    s.hag_hears(&["ROOM message/error item-not-found"]);
    let info = ask(&mut s.hag, COVEN, "get", "<query xmlns='http://jabber.org/protocol/disco#info'/>");
    assert_eq!(outcome(&info), "item-not-found");
}

/// §7.2.13 to §7.2.15: history, then the subject.
#[test]
fn history_comes_before_the_subject() {
    let mut s = RoomScene::configure_scene("muc#maxhistoryfetch=3").all_in();
    for body in ["one", "two", "three", "four"] {
        say(&mut s.crone, body);
    }
    s.crone.send(&format!("<message to='{COVEN}' type='groupchat'><subject>Spells</subject></message>"));
    s.hush();
    leave(&mut s.hag, "thirdwitch");
    s.hush();
    for (wish, wanted) in [
        ("", vec!["two", "three", "four"]),
        ("<history maxstanzas='2'/>", vec!["three", "four"]),
        ("<history maxchars='0'/>", vec![]),
        ("<history since='1970-01-01T00:00:00Z' maxstanzas='1'/>", vec!["four"]),
        ("<history maxstanzas='18446744073709551616'/>", vec!["two", "three", "four"]),
    ] {
        join_with(&mut s.hag, "thirdwitch", wish);
        let found = take_stanzas(&mut s.hag);
        let messages: Vec<_> = found.iter().filter(|text| text.contains("message")).cloned().collect();
        let mut wanted: Vec<_> =
            wanted.iter().map(|body| format!("firstwitch message/groupchat body={body} late")).collect();
        wanted.push("firstwitch message/groupchat subject=Spells late".into());
        assert_eq!(messages, wanted, "{wish}");
        let own = found.iter().position(|text| text.ends_with("110")).unwrap();
        assert!(found[own + 1..].iter().all(|text| text.contains("message")), "presence comes first");
        leave(&mut s.hag, "thirdwitch");
        s.hush();
    }
}

#[test]
fn history_can_be_bounded_in_time() {
    let mut s = RoomScene::open_scene();
    say(&mut s.crone, "old");
    s.crone.all();
    s.server.advance(100_000);
    say(&mut s.crone, "new");
    s.crone.all();
    join_with(&mut s.hag, "thirdwitch", "<history seconds='60'/>");
    assert_eq!(s.hag.bodies(), ["new"]);
}

/// §7.2.17, and a presence update from a user who isn't in the room.
#[test]
fn who_is_not_in_the_room_is_told() {
    let mut s = RoomScene::open_scene();
    s.hag.send(&format!("<presence to='{COVEN}/thirdwitch'/>"));
    s.hag_hears(&["thirdwitch presence/unavailable none/none reason=You are not in the room. 110 307 333"]);
    s.crone.expect_nothing();
}

/// §17.3: a session that asks to enter again gets everything again, and others get nothing.
#[test]
fn who_enters_twice_gets_everything_again() {
    let mut s = RoomScene::open_scene().all_in();
    join(&mut s.hag, "thirdwitch");
    let found = take_stanzas(&mut s.hag);
    assert_eq!(found.len(), 4, "{found:?}");
    s.crone.expect_nothing();
    s.wiccarocks.expect_nothing();
}

/// A client whose session ended before the room knew of that may choose another nick: it gets all
/// that a newcomer gets, and others see a change of its nick.
#[test]
fn who_enters_again_under_another_nick_gets_everything_again() {
    let mut s = RoomScene::open_scene().all_in();
    join(&mut s.hag, "hecate");
    let found = take_stanzas(&mut s.hag);
    for wanted in ["firstwitch presence", "secondwitch presence", "hecate presence"] {
        assert!(found.iter().any(|line| line.starts_with(wanted)), "{wanted}: {found:?}");
    }
    let seen = take_stanzas(&mut s.crone);
    assert_eq!(seen.len(), 2, "{seen:?}");
}

/// RFC 6120 §10.1: the stanzas for a newcomer to a room don't overtake stanzas that already wait
/// for the newcomer's account.
#[test]
fn a_welcome_waits_behind_what_came_before() {
    let held = rookery_store::held::HeldStores::new(rookery_store::memory::Memory::stores());
    held.set_flowing(true);
    let mut s = RoomScene::with(Config { stores: held.stores(), ..Config::default() }).open("").all_in();
    held.set_flowing(false);
    // Only the roster shows that this request is new: it waits for the roster, as does every stanza
    // behind it.
    s.hag.send(&format!("<presence type='subscribe' to='{}'/>", s.wiccarocks.bare()));
    s.server.settle();
    held.release_one();
    s.server.settle();
    leave(&mut s.hag, "thirdwitch");
    join(&mut s.wiccarocks, "secondwitch");
    s.wiccarocks.expect_nothing();
    held.set_flowing(true);
    held.release_all();
    let heard = take_stanzas(&mut s.wiccarocks);
    let [left, again] = ["thirdwitch presence/unavailable", "firstwitch presence owner"]
        .map(|text| heard.iter().position(|line| line.starts_with(text)));
    assert!(left.is_some() && left < again, "{heard:?}");
}
