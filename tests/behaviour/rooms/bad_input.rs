//! Input that peers forge, repeat or send in excess.

use super::*;

/// XEP-0359 §6, XEP-0203 §4 and others: only the room can say what the room says.
#[test]
fn forged_payloads_are_cut_out() {
    let mut s = RoomScene::open_scene().all_in();
    let payload = format!(
        "<body>hi</body><stanza-id xmlns='urn:xmpp:sid:0' by='{COVEN}' id='forged'/>\
         <stanza-id xmlns='urn:xmpp:sid:0' by='{COVEN}/x' id='forged'/>\
         <stanza-id xmlns='urn:xmpp:sid:0' by='else@x.example' id='kept'/>\
         <delay xmlns='urn:xmpp:delay' from='{COVEN}' stamp='2002-10-13T23:58:37Z'/>\
         <delay xmlns='urn:xmpp:delay' stamp='2002-10-13T23:58:37Z'/>\
         <occupant-id xmlns='urn:xmpp:occupant-id:0' id='forged'/>\
         <x xmlns='http://jabber.org/protocol/muc#user'><status code='104'/></x>\
         <retract xmlns='urn:xmpp:message-retract:1' id='1'><moderated xmlns='urn:xmpp:message-moderate:1' by='{COVEN}'/></retract>\
         <received xmlns='urn:xmpp:carbons:2'/><result xmlns='urn:xmpp:mam:2'/>"
    );
    for (to, type_) in [(COVEN.to_owned(), "groupchat"), (format!("{COVEN}/firstwitch"), "chat")] {
        s.hag.send(&format!("<message to='{to}' type='{type_}'>{payload}</message>"));
        let found = s.crone.expect_element();
        let ids = found.children().filter(|child| child.name() == "stanza-id").map(|child| child.attr("id").unwrap());
        let ids: Vec<_> = ids.collect();
        assert!(!ids.contains(&"forged") && ids.contains(&"kept"), "{found:?}");
        for name in ["delay", "retract", "received", "result"] {
            assert!(!found.children().any(|child| child.name() == name), "{name}");
        }
        let x = found.child("x", ns::MUC_USER);
        assert!(x.is_none_or(|x| x.children().next().is_none()));
        let pseudonyms: Vec<_> = found.children().filter(|child| child.name() == "occupant-id").collect();
        assert!(pseudonyms.len() == 1 && pseudonyms[0].attr("id") != Some("forged"));
    }
}

/// Names that are equal once they are normalised are one room.
#[test]
fn room_names_that_are_alike_are_one() {
    let mut s = RoomScene::open_scene();
    s.hag.send(
        "<presence to='COVEN@conference.example.org/thirdwitch'><x xmlns='http://jabber.org/protocol/muc'/></presence>",
    );
    assert_eq!(take_stanzas(&mut s.hag).len(), 3);
    s.crone_hears(&["thirdwitch presence none/participant jid=HAG/r"]);
}

/// Nicks that are equal once they are normalised are one nick: for entering, changing the nick,
/// addressing an occupant and registering.
#[test]
fn nicks_that_are_alike_are_one() {
    let mut s = RoomScene::open_scene().all_in();
    // Full width, a ligature, decomposed letters, spaces, case: each is a spelling of a nick that
    // somebody has.
    s.wiccarocks.send(&format!("<presence to='{COVEN}/fi\u{e9}nd'/>"));
    s.hush();
    for alike in ["\u{fb01}\u{e9}nd", "fie\u{301}nd", "FI\u{c9}ND", " fi\u{e9}nd ", "\u{ff46}i\u{e9}nd"] {
        s.hag.send(&format!("<presence to='{COVEN}/{alike}'/>"));
        assert_eq!(s.hag.all().iter().map(outcome).collect::<Vec<_>>(), ["conflict"], "{alike}");
        let register = format!(
            "<query xmlns='jabber:iq:register'><x xmlns='jabber:x:data' type='submit'>\
             <field var='muc#register_roomnick'><value>{alike}</value></field></x></query>"
        );
        assert_eq!(outcome(&ask(&mut s.hag, COVEN, "set", &register)), "conflict", "{alike}");
        s.hag.send(&format!("<message to='{COVEN}/{alike}' type='chat'><body>{alike}</body></message>"));
        s.hag.pump();
        assert_eq!(s.wiccarocks.bodies(), [alike]);
    }
    s.crone.expect_nothing();
}

#[test]
fn what_is_for_nobody_is_refused_by_name() {
    let mut s = RoomScene::open_scene();
    let cases = [
        ("<message to='none@conference.example.org' type='groupchat'><body>x</body></message>", "item-not-found"),
        ("<message to='conference.example.org' type='groupchat'><body>x</body></message>", "service-unavailable"),
        ("<presence to='conference.example.org/nick'/>", "item-not-found"),
        (
            "<iq to='none@conference.example.org' type='get' id='1'><query xmlns='http://jabber.org/protocol/muc#owner'/></iq>",
            "item-not-found",
        ),
        ("<iq to='conference.example.org' type='get' id='1'><x xmlns='urn:nothing'/></iq>", "service-unavailable"),
        (
            "<iq to='coven@conference.example.org' type='get' id='1'><x xmlns='urn:nothing'/></iq>",
            "service-unavailable",
        ),
        ("<message to='coven@conference.example.org'><body>x</body></message>", "bad-request"),
        (
            "<message to='coven@conference.example.org'><x xmlns='http://jabber.org/protocol/muc#user'><invite to='a@x'/></x></message>",
            "forbidden",
        ),
    ];
    for (stanza, wanted) in cases {
        s.hag.send(stanza);
        assert_eq!(outcome(&s.hag.expect_element()), wanted, "{stanza}");
    }
    s.crone.expect_nothing();
}

#[test]
fn who_speaks_too_fast_is_told_to_wait() {
    let mut s = RoomScene::with_options(vec![("messages_per_second", Value::Number(1))]).open("");
    for _ in 0..6 {
        say(&mut s.crone, "again");
    }
    let found = take_stanzas(&mut s.crone);
    assert_eq!(found.iter().filter(|text| text.contains("body=again")).count(), 5);
    assert_eq!(found.last().unwrap(), "ROOM message/error resource-constraint");
    s.server.advance(1000);
    say(&mut s.crone, "again");
    assert_eq!(s.crone.bodies(), ["again"]);
}

/// A form of a thousand fields, a list of a thousand users, absurd sizes.
#[test]
fn large_requests_are_bounded() {
    let mut s =
        RoomScene::with_options(vec![("max_affiliations", Value::Number(10)), ("subject_bytes", Value::Number(500))])
            .open("");
    let fields: String = (0..1000).map(|n| format!("x{n}=1 ")).collect();
    assert_eq!(outcome(&configure(&mut s.crone, &fields)), "bad-request");
    let items: String = (0..20).map(|n| format!("<item affiliation='member' jid='u{n}@x.example'/>")).collect();
    assert_eq!(outcome(&administer(&mut s.crone, "set", &items)), "resource-constraint");
    let long = "x".repeat(10_000);
    assert_eq!(outcome(&configure(&mut s.crone, &format!("roomdesc={long}"))), "not-acceptable");
    s.crone.send(&format!("<message to='{COVEN}' type='groupchat'><subject>{long}</subject></message>"));
    assert_eq!(outcome(&s.crone.expect_element()), "not-acceptable");
    let reason = format!("<item affiliation='member' jid='a@x.example'><reason>{long}</reason></item>");
    assert_eq!(outcome(&administer(&mut s.crone, "set", &reason)), "not-acceptable");
}

/// Occupants of other servers, and ghosts among them.
#[test]
fn occupants_may_be_elsewhere() {
    let mut s = RoomScene::with(Config { federates: true, ..Config::default() }).open("");
    let presence = |to: &str, content: &str| format!("<presence from='far@other.example/r' to='{to}'{content}");
    s.server.incoming(&presence(&format!("{COVEN}/far"), "><x xmlns='http://jabber.org/protocol/muc'/></presence>"));
    let left = s.server.take_left();
    let seen: Vec<_> = left.iter().map(|left| short(&rookery_testkit::element(&left.text))).collect();
    assert_eq!(seen[1], "far presence none/participant jid=far@other.example/r 110", "{seen:?}");
    s.crone_hears(&["far presence none/participant jid=far@other.example/r"]);
    say(&mut s.crone, "hello");
    s.crone.pump();
    let left = s.server.take_left();
    assert_eq!(left.iter().map(|left| left.to.as_str()).collect::<Vec<_>>(), ["far@other.example/r"]);
    s.crone.all();
    s.server.incoming(&format!(
        "<message from='far@other.example/r' to='{COVEN}/firstwitch' type='error'><error type='wait'>\
         <remote-server-timeout xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>"
    ));
    s.crone_hears(&["far presence/unavailable none/none jid=far@other.example/r 333"]);
}
