//! §7.4 to §7.14: requests of occupants.

use super::*;

/// Examples 45 and 46: all occupants get the message, including the sender, with the room's id and
/// the sender's pseudonym.
#[test]
fn a_message_goes_to_all() {
    let mut s = RoomScene::open_scene().all_in();
    let id = "Harpier cries: 'tis time, 'tis time.";
    s.hag.send(&format!(
        "<message to='{COVEN}' type='groupchat' id='hysf1v37' xml:lang='en'><body>{id}</body></message>"
    ));
    let mut ids = Vec::new();
    for client in [&mut s.hag, &mut s.crone, &mut s.wiccarocks] {
        let found = client.expect(&format!(
            "<message from='{COVEN}/thirdwitch' type='groupchat' id='hysf1v37' xml:lang='en'><body>*</body>\
             <occupant-id xmlns='urn:xmpp:occupant-id:0' id='*'/>\
             <stanza-id xmlns='urn:xmpp:sid:0' by='{COVEN}' id='*'/></message>"
        ));
        ids.push(found.child("stanza-id", ns::STANZA_ID).unwrap().attr("id").unwrap().to_owned());
        assert_eq!(found.attr("to"), Some(client.full()));
    }
    assert!(ids[0] == ids[1] && ids[1] == ids[2]);
}

/// §7.4.
#[test]
fn visitors_and_strangers_do_not_speak() {
    let mut s = RoomScene::configure_scene("moderatedroom=1");
    say(&mut s.hag, "let me in");
    s.hag_hears(&["ROOM message/error not-acceptable"]);
    join(&mut s.hag, "thirdwitch");
    s.hush();
    say(&mut s.hag, "may I?");
    s.hag_hears(&["ROOM message/error forbidden"]);
    s.crone.expect_nothing();
}

/// Examples 47 and 48.
#[test]
fn a_private_message_goes_to_one() {
    let mut s = RoomScene::open_scene().all_in();
    s.wiccarocks.send(&format!(
        "<message to='{COVEN}/firstwitch' type='chat' id='hgn27af1'><body>I'll give thee a wind.</body>\
         <x xmlns='http://jabber.org/protocol/muc#user'><item affiliation='owner'/><status code='100'/></x></message>"
    ));
    s.crone.expect(&format!(
        "<message from='{COVEN}/secondwitch' type='chat' id='hgn27af1'><body>I'll give thee a wind.</body>\
         <x xmlns='http://jabber.org/protocol/muc#user'/><occupant-id xmlns='urn:xmpp:occupant-id:0' id='*'/></message>"
    ));
    s.hag.expect_nothing();
    s.wiccarocks.expect_nothing();
}

/// §7.5.
#[test]
fn private_messages_are_refused_by_name() {
    let mut s = RoomScene::open_scene();
    let private =
        |to: &str, type_: &str| format!("<message to='{COVEN}/{to}' type='{type_}'><body>psst</body></message>");
    s.hag.send(&private("firstwitch", "chat"));
    s.hag_hears(&["firstwitch message/error not-acceptable"]);
    join(&mut s.hag, "thirdwitch");
    s.hush();
    s.hag.send(&private("nobody", "chat"));
    s.hag_hears(&["nobody message/error item-not-found"]);
    s.hag.send(&private("firstwitch", "groupchat"));
    s.hag_hears(&["firstwitch message/error bad-request"]);
    configure(&mut s.crone, "allowpm=moderators");
    s.hush();
    s.hag.send(&private("firstwitch", "chat"));
    s.hag_hears(&["firstwitch message/error forbidden"]);
    s.crone.send(&private("thirdwitch", "chat"));
    assert_eq!(s.hag.bodies(), ["psst"]);
    configure(&mut s.crone, "allowpm=none");
    s.hush();
    s.crone.send(&private("thirdwitch", "chat"));
    s.crone_hears(&["thirdwitch message/error forbidden"]);
    s.hag.expect_nothing();
}

/// Examples 53 and 54.
#[test]
fn nicks_change() {
    let mut s = RoomScene::open_scene().all_in();
    s.hag.send(&format!("<presence to='{COVEN}/oldhag' id='ifd1c35'/>"));
    s.hag_hears(&[
        "thirdwitch presence/unavailable none/participant jid=HAG/r nick=oldhag 110 303",
        "oldhag presence none/participant jid=HAG/r 110",
    ]);
    s.crone_hears(&[
        "thirdwitch presence/unavailable none/participant jid=HAG/r nick=oldhag 303",
        "oldhag presence none/participant jid=HAG/r",
    ]);
    s.wicca_hears(&[
        "thirdwitch presence/unavailable none/participant nick=oldhag 303",
        "oldhag presence none/participant",
    ]);
    say(&mut s.hag, "it is me");
    assert_eq!(take_stanzas(&mut s.crone), ["oldhag message/groupchat body=it is me"]);
    s.hush();
    // The old nick is free.
    s.wiccarocks.send(&format!("<presence to='{COVEN}/thirdwitch'/>"));
    assert_eq!(take_stanzas(&mut s.crone).len(), 2);
}

/// Example 57.
#[test]
fn a_nick_of_somebody_else_is_not_taken() {
    let mut s = RoomScene::open_scene().all_in();
    s.hag.send(&format!("<presence to='{COVEN}/secondwitch' id='ifd1c35'/>"));
    s.hag_hears(&["secondwitch presence/error conflict"]);
    s.hag.send(&format!("<presence to='{COVEN}/{}'/>", "x".repeat(300)));
    assert_eq!(s.hag.all().iter().map(outcome).collect::<Vec<_>>(), ["not-acceptable"]);
    s.crone.expect_nothing();
    // An occupant may take another spelling of its own nick.
    s.hag.send(&format!("<presence to='{COVEN}/ThirdWitch'/>"));
    assert_eq!(take_stanzas(&mut s.wiccarocks).len(), 2);
}

/// Examples 59 and 60: elements that only the room may add are removed.
#[test]
fn what_occupants_show_is_passed_on() {
    let mut s = RoomScene::open_scene().all_in();
    s.wiccarocks.send(&format!(
        "<presence to='{COVEN}/secondwitch' id='kr7v143h' xml:lang='de'><show>xa</show><status>gone</status>\
         <x xmlns='http://jabber.org/protocol/muc#user'><item affiliation='owner' role='moderator'/></x>\
         <occupant-id xmlns='urn:xmpp:occupant-id:0' id='forged'/><hats xmlns='urn:xmpp:hats:0'/>\
         <c xmlns='http://jabber.org/protocol/caps' node='n' ver='v' hash='sha-1'/></presence>"
    ));
    let found = s.hag.expect_element();
    assert_eq!(short(&found), "secondwitch presence show=xa status=gone none/participant");
    assert_eq!(found.attr("xml:lang"), Some("de"));
    assert!(found.child("c", ns::CAPS).is_some() && found.child("hats", ns::HATS).is_none());
    let pseudonyms: Vec<_> = found.children().filter(|child| child.name() == "occupant-id").collect();
    assert!(pseudonyms.len() == 1 && pseudonyms[0].attr("id") != Some("forged"));
    s.crone_hears(&["secondwitch presence show=xa status=gone none/participant jid=WICCA/r"]);
    s.wicca_hears(&["secondwitch presence show=xa status=gone none/participant jid=WICCA/r 110"]);
    // An occupant who enters later also sees it.
    leave(&mut s.hag, "thirdwitch");
    s.hush();
    join(&mut s.hag, "thirdwitch");
    assert_eq!(take_stanzas(&mut s.hag)[1], "secondwitch presence show=xa status=gone none/participant");
}

/// Examples 61 to 66: mediated invitations, and declining them.
#[test]
fn others_are_invited_and_may_decline() {
    let mut s = RoomScene::configure_scene("passwordprotectedroom=1 roomsecret=cauldronburn");
    let invite = s.with_names(
        "<message to='COVEN'><x xmlns='http://jabber.org/protocol/muc#user'><invite to='HAG'><reason>Hey Hecate</reason>\
         <continue thread='e0ffe42b28561960c6b12b944a092794b9683a38'/></invite></x></message>",
    );
    s.wiccarocks.send(&invite);
    s.wicca_hears(&["ROOM message/error forbidden"]);
    s.crone.send(&invite);
    s.crone.expect_nothing();
    let wanted = s.with_names(
        "<message from='COVEN'><x xmlns='http://jabber.org/protocol/muc#user'><invite from='CRONE'>\
         <reason>Hey Hecate</reason><continue thread='e0ffe42b28561960c6b12b944a092794b9683a38'/></invite>\
         <password>cauldronburn</password></x><x xmlns='jabber:x:conference' jid='COVEN' reason='Hey Hecate'/></message>",
    );
    s.hag.expect(&wanted);
    let decline = s.with_names(
        "<message to='COVEN'><x xmlns='http://jabber.org/protocol/muc#user'><decline to='CRONE'>\
         <reason>Sorry</reason></decline></x></message>",
    );
    s.wiccarocks.send(&decline);
    s.wicca_hears(&["ROOM message/error forbidden"]);
    s.hag.send(&decline);
    let wanted = s.with_names(
        "<message from='COVEN'><x xmlns='http://jabber.org/protocol/muc#user'><decline from='HAG'>\
         <reason>Sorry</reason></decline></x></message>",
    );
    s.crone.expect(&wanted);
    s.hag.expect_nothing();
}

/// XEP-0249 §2: a direct invitation doesn't go through the room. It arrives as it was sent, also at
/// a user who was away.
#[test]
fn direct_invitations_pass_untouched() {
    let mut s = RoomScene::configure_scene("passwordprotectedroom=1 roomsecret=cauldronburn");
    let invitation = "<x xmlns='jabber:x:conference' jid='coven@conference.example.org' password='cauldronburn' \
                      reason='Hey Hecate' continue='true' thread='e0ffe42b28561960c6b12b944a092794b9683a38'/>";
    let sent = s.with_names(&format!("<message to='HAG'>{invitation}</message>"));
    s.crone.send(&sent);
    let archived = "<stanza-id xmlns='urn:xmpp:sid:0' by='HAG' id='*'/>";
    let wanted = s.with_names(&format!("<message from='CRONE/r'>{invitation}{archived}</message>"));
    s.hag.expect(&wanted);
    s.hag.send("<presence type='unavailable'/>");
    s.hag.all();
    s.crone.send(&sent);
    s.crone.pump();
    s.hag.send("<presence/>");
    let found = s.hag.all().into_iter().find(|found| found.name() == "message").expect("it has waited");
    assert_eq!(found.child("x", ns::CONFERENCE).unwrap().attr("password"), Some("cauldronburn"));
}

/// §9.5: an invitation to a members-only room makes its recipient a member, and the owner decides
/// who may invite.
#[test]
fn who_is_invited_to_a_members_only_room_may_enter() {
    let mut s = RoomScene::configure_scene("membersonly=1");
    let member = s.with_names("<item affiliation='member' jid='WICCA'/>");
    administer(&mut s.crone, "set", &member);
    join(&mut s.wiccarocks, "secondwitch");
    s.hush();
    let invite = s.with_names(
        "<message to='COVEN'><x xmlns='http://jabber.org/protocol/muc#user'><invite to='HAG'/></x></message>",
    );
    s.wiccarocks.send(&invite);
    s.wicca_hears(&["ROOM message/error forbidden"]);
    configure(&mut s.crone, "allowinvites=1");
    s.hush();
    s.wiccarocks.send(&invite);
    s.wiccarocks.pump();
    assert_eq!(s.hag.all().len(), 1);
    join(&mut s.hag, "thirdwitch");
    assert!(take_stanzas(&mut s.hag).iter().any(|text| text.contains("member/participant") && text.ends_with("110")));
}

/// §7.13 and §8.6.
#[test]
fn voice_is_requested_and_granted() {
    let mut s = RoomScene::configure_scene("moderatedroom=1").all_in();
    let form = |fields: &str| {
        format!(
            "<message to='{COVEN}'><x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>\
             <value>http://jabber.org/protocol/muc#request</value></field>{fields}</x></message>"
        )
    };
    s.hag.send(&form("<field var='muc#role'><value>participant</value></field>"));
    s.hag.expect_nothing();
    s.wiccarocks.expect_nothing();
    let asked = s.crone.expect_element();
    let value = |var: &str| {
        let x = asked.child("x", ns::DATA_FORMS).unwrap();
        let field = x.children().find(|field| field.attr("var") == Some(var)).unwrap();
        field.child_text("value", ns::DATA_FORMS).unwrap()
    };
    assert_eq!((value("muc#roomnick"), value("muc#jid")), ("thirdwitch".into(), s.hag.full().to_owned()));
    let decision = form(
        "<field var='muc#role'><value>participant</value></field><field var='muc#roomnick'><value>thirdwitch</value></field>\
         <field var='muc#request_allow'><value>true</value></field>",
    );
    s.hag.send(&decision);
    s.hag_hears(&["ROOM message/error forbidden"]);
    s.crone.send(&decision);
    s.wiccarocks.pump();
    s.wicca_hears(&["thirdwitch presence none/participant"]);
    s.hag_hears(&["thirdwitch presence none/participant jid=HAG/r 110"]);
}

/// Examples 83 to 86, with a status.
#[test]
fn occupants_leave() {
    let mut s = RoomScene::open_scene().all_in();
    s.wiccarocks.send(&format!(
        "<presence to='{COVEN}/secondwitch' type='unavailable'><status>gone where the goblins go</status></presence>"
    ));
    s.wicca_hears(&["secondwitch presence/unavailable status=gone where the goblins go none/none jid=WICCA/r 110"]);
    s.crone_hears(&["secondwitch presence/unavailable status=gone where the goblins go none/none jid=WICCA/r"]);
    s.hag_hears(&["secondwitch presence/unavailable status=gone where the goblins go none/none"]);
    // §17.3: this is ignored.
    leave(&mut s.wiccarocks, "secondwitch");
    s.wiccarocks.expect_nothing();
    say(&mut s.crone, "still there?");
    s.crone.pump();
    s.wiccarocks.expect_nothing();
}

/// The server makes an occupant leave whose session ends.
#[test]
fn a_session_that_ends_leaves() {
    let mut s = RoomScene::open_scene().all_in();
    s.wiccarocks.vanish();
    s.hag_hears(&["secondwitch presence/unavailable none/none"]);
    s.hag.send("<presence type='unavailable'/>");
    s.hag.pump();
    s.crone_hears(&[
        "secondwitch presence/unavailable none/none jid=WICCA/r",
        "thirdwitch presence/unavailable none/none jid=HAG/r",
    ]);
}

/// §7.14: a temporary room ends when its last occupant leaves.
#[test]
fn an_empty_room_is_gone() {
    let mut s = RoomScene::open_scene();
    leave(&mut s.crone, "firstwitch");
    s.crone.all();
    join(&mut s.hag, "thirdwitch");
    s.hag_hears(&["thirdwitch presence owner/moderator jid=HAG/r 110 201", "ROOM message/groupchat subject="]);
}

/// §7.14: an occupant who has left knows nothing more of the others. An inactive client (XEP-0352)
/// that leaves and enters again is told both, since it wasn't told who left in between.
#[test]
fn who_leaves_and_enters_again_unattended_hears_of_both() {
    let mut s = RoomScene::open_scene().all_in();
    s.hag.send("<inactive xmlns='urn:xmpp:csi:0'/>");
    for (client, nick) in [(&mut s.hag, "thirdwitch"), (&mut s.wiccarocks, "secondwitch")] {
        client.send(&format!("<presence to='{COVEN}/{nick}' type='unavailable'/>"));
        client.pump();
    }
    join(&mut s.hag, "thirdwitch");
    let own = format!("{COVEN}/thirdwitch");
    let heard = s.hag.all();
    let own = heard.iter().filter(|found| found.name() == "presence" && found.attr("from") == Some(&own));
    let own: Vec<_> = own.map(|found| found.attr("type")).collect();
    assert_eq!(own, [Some("unavailable"), None], "{heard:?}");
}
