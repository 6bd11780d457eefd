//! §8: requests of moderators.

use super::*;

/// Examples 87 to 90.
#[test]
fn the_subject_is_changed_by_who_may() {
    let mut s = RoomScene::open_scene().all_in();
    let subject = |text: &str| {
        format!("<message to='{COVEN}' type='groupchat' id='lh2bs617'><subject>{text}</subject></message>")
    };
    s.hag.send(&subject("Mine"));
    s.hag_hears(&["ROOM message/error forbidden"]);
    s.crone.send(&subject("Fire Burn and Cauldron Bubble!"));
    s.hag_hears(&["firstwitch message/groupchat subject=Fire Burn and Cauldron Bubble!"]);
    // With a body it is a message, and doesn't set the subject.
    s.hag.send(&format!("<message to='{COVEN}' type='groupchat'><subject>a</subject><body>b</body></message>"));
    s.hag_hears(&["thirdwitch message/groupchat subject=a body=b"]);
    configure(&mut s.crone, "changesubject=1");
    s.hush();
    s.hag.send(&subject(""));
    s.hag_hears(&["thirdwitch message/groupchat subject="]);
    leave(&mut s.wiccarocks, "secondwitch");
    s.hush();
    join(&mut s.wiccarocks, "secondwitch");
    assert_eq!(take_stanzas(&mut s.wiccarocks).last().unwrap(), "thirdwitch message/groupchat subject= late");
}

/// Examples 91 to 95: first the kicked occupant is told, then the reply comes, then the others are
/// told.
#[test]
fn a_moderator_kicks() {
    let mut s = RoomScene::open_scene().all_in();
    let item = "<item nick='thirdwitch' role='none'><reason>Avaunt, you cullion!</reason></item>";
    assert_eq!(outcome(&administer(&mut s.wiccarocks, "set", item)), "forbidden");
    s.crone.send(&format!(
        "<iq to='{COVEN}' type='set' id='kick1'><query xmlns='http://jabber.org/protocol/muc#admin'>{item}</query></iq>"
    ));
    s.hag_hears(&[
        "thirdwitch presence/unavailable none/none jid=HAG/r actor=firstwitch reason=Avaunt, you cullion! 110 307",
    ]);
    s.crone_hears(&[
        "ROOM iq/result",
        "thirdwitch presence/unavailable none/none jid=HAG/r actor=firstwitch reason=Avaunt, you cullion! 307",
    ]);
    s.wicca_hears(&["thirdwitch presence/unavailable none/none actor=firstwitch reason=Avaunt, you cullion! 307"]);
    say(&mut s.hag, "hey");
    s.hag_hears(&["ROOM message/error not-acceptable"]);
    assert_eq!(outcome(&administer(&mut s.crone, "set", item)), "item-not-found");
}

/// Example 96.
#[test]
fn nobody_kicks_upwards() {
    let mut s = RoomScene::open_scene().all_in();
    let admin = s.with_names("<item jid='WICCA' affiliation='admin'/>");
    administer(&mut s.crone, "set", &admin);
    administer(&mut s.crone, "set", "<item nick='thirdwitch' role='moderator'/>");
    s.hush();
    for (nick, wanted) in [("firstwitch", "not-allowed"), ("secondwitch", "not-allowed"), ("nobody", "item-not-found")]
    {
        let item = format!("<item nick='{nick}' role='none'/>");
        assert_eq!(outcome(&administer(&mut s.hag, "set", &item)), wanted, "{nick}");
    }
    let item = "<item nick='firstwitch' role='none'/>";
    assert_eq!(outcome(&administer(&mut s.wiccarocks, "set", item)), "not-allowed");
}

/// Examples 97 to 105.
#[test]
fn voice_is_granted_and_revoked() {
    let mut s = RoomScene::configure_scene("moderatedroom=1").all_in();
    assert_eq!(outcome(&administer(&mut s.hag, "set", "<item nick='thirdwitch' role='participant'/>")), "forbidden");
    let item = "<item nick='thirdwitch' role='participant'><reason>A worthy witch indeed!</reason></item>";
    assert_eq!(outcome(&administer(&mut s.crone, "set", item)), "result");
    s.wicca_hears(&["thirdwitch presence none/participant reason=A worthy witch indeed!"]);
    s.hag_hears(&["thirdwitch presence none/participant jid=HAG/r reason=A worthy witch indeed! 110"]);
    assert_eq!(outcome(&administer(&mut s.crone, "set", "<item nick='thirdwitch' role='visitor'/>")), "result");
    s.wicca_hears(&["thirdwitch presence none/visitor"]);
    let own = "<item nick='firstwitch' role='visitor'/>";
    assert_eq!(outcome(&administer(&mut s.crone, "set", own)), "not-allowed", "an owner has voice");
}

/// §5.1: in a moderated room, the voice of the last visit counts. A user need not ask for it again,
/// and can't get it back by entering again. It outlives a restart.
#[test]
fn voice_is_remembered_across_visits() {
    let mut s = RoomScene::configure_scene("moderatedroom=1 persistentroom=1");
    let member = s.with_names("<item affiliation='member' jid='WICCA'/>");
    administer(&mut s.crone, "set", &member);
    let mut s = s.all_in();
    for (nick, role) in [("thirdwitch", "participant"), ("secondwitch", "visitor")] {
        let item = format!("<item nick='{nick}' role='{role}'/>");
        assert_eq!(outcome(&administer(&mut s.crone, "set", &item)), "result");
    }
    s.hush();
    for is_restarted in [false, true] {
        leave(&mut s.wiccarocks, "secondwitch");
        leave(&mut s.hag, "thirdwitch");
        s.hush();
        if is_restarted {
            s.server.restart();
            for client in [&mut s.crone, &mut s.wiccarocks, &mut s.hag] {
                *client = s.server.online(client.full());
            }
            join(&mut s.crone, "firstwitch");
        }
        join(&mut s.wiccarocks, "secondwitch");
        join(&mut s.hag, "thirdwitch");
        s.crone.all();
        let own = |client: &mut Client| take_stanzas(client).into_iter().rfind(|text| text.ends_with("110")).unwrap();
        assert!(own(&mut s.hag).contains("none/participant"), "{is_restarted}");
        assert!(own(&mut s.wiccarocks).contains("member/visitor"), "{is_restarted}");
        say(&mut s.wiccarocks, "may I?");
        s.wicca_hears(&["ROOM message/error forbidden"]);
        say(&mut s.hag, "thank you");
        assert_eq!(s.crone.bodies(), ["thank you"]);
        s.hush();
    }
    // The affiliation counts again once it changes, and in a room that isn't moderated.
    leave(&mut s.wiccarocks, "secondwitch");
    s.hush();
    for affiliation in ["none", "member"] {
        let item = s.with_names(&format!("<item affiliation='{affiliation}' jid='WICCA'/>"));
        administer(&mut s.crone, "set", &item);
    }
    s.hush();
    join(&mut s.wiccarocks, "secondwitch");
    assert!(take_stanzas(&mut s.wiccarocks).iter().any(|text| text.contains("member/participant")));
}

/// §8.5.
#[test]
fn the_voice_list_is_for_moderators() {
    let mut s = RoomScene::open_scene().all_in();
    assert_eq!(outcome(&administer(&mut s.hag, "get", "<item role='participant'/>")), "forbidden");
    let list = administer(&mut s.crone, "get", "<item role='participant'/>");
    let items: Vec<_> = list.child("query", ns::MUC_ADMIN).unwrap().children().cloned().collect();
    let found: Vec<_> = items.iter().map(|item| (item.attr("nick").unwrap(), item.attr("jid").unwrap())).collect();
    assert_eq!(found, [("secondwitch", s.wiccarocks.full()), ("thirdwitch", s.hag.full())]);
}

/// §8.5: a list is applied as a whole or not at all.
#[test]
fn one_wrong_item_stops_all() {
    let mut s = RoomScene::configure_scene("moderatedroom=1").all_in();
    let items = "<item nick='secondwitch' role='participant'/><item nick='nobody' role='participant'/>";
    assert_eq!(outcome(&administer(&mut s.crone, "set", items)), "item-not-found");
    let items = "<item nick='secondwitch' role='participant'/><item nick='firstwitch' role='visitor'/>";
    assert_eq!(outcome(&administer(&mut s.crone, "set", items)), "not-allowed");
    s.wiccarocks.expect_nothing();
    let items = "<item nick='secondwitch' role='participant'/><item nick='thirdwitch' role='participant'/>";
    assert_eq!(outcome(&administer(&mut s.crone, "set", items)), "result");
    assert_eq!(take_stanzas(&mut s.wiccarocks).len(), 2);
}

/// §18.1: an occupant who can't be reached is removed, and all are told why.
#[test]
fn who_bounces_messages_is_removed() {
    let mut s = RoomScene::open_scene().all_in();
    s.hag.send(&format!(
        "<message to='{COVEN}/firstwitch' type='error'><error type='cancel'>\
         <service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>"
    ));
    s.hag_hears(&["thirdwitch presence/unavailable none/none jid=HAG/r 110 333"]);
    s.wicca_hears(&["thirdwitch presence/unavailable none/none 333"]);
}
