//! §6: discovery from outside a room.

use super::*;

const INFO: &str = "<query xmlns='http://jabber.org/protocol/disco#info'/>";
const ITEMS: &str = "<query xmlns='http://jabber.org/protocol/disco#items'/>";

/// §6.1 and §6.2.
#[test]
fn the_service_is_found() {
    let mut s = RoomScene::new();
    let items = ask(&mut s.hag, "example.org", "get", ITEMS);
    let query = items.child("query", ns::DISCO_ITEMS).unwrap();
    assert!(query.children().any(|item| item.attr("jid") == Some("conference.example.org")));
    let info = ask(&mut s.hag, "conference.example.org", "get", INFO);
    let query = info.child("query", ns::DISCO_INFO).unwrap();
    let identity = query.child("identity", ns::DISCO_INFO).unwrap();
    assert_eq!((identity.attr("category"), identity.attr("type")), (Some("conference"), Some("text")));
    let features: Vec<_> = query.children().filter_map(|child| child.attr("var")).collect();
    assert!(features.contains(&ns::MUC) && features.is_sorted());
}

/// §6.3: hidden and locked rooms aren't listed; lists come in pages (RSM).
#[test]
fn public_rooms_are_listed() {
    let mut s = RoomScene::new();
    for (room, fields) in [("b", ""), ("a", ""), ("hidden", "publicroom=0"), ("c", ""), ("locked", "-")] {
        let room = format!("{room}@conference.example.org");
        s.crone.send(&format!("<presence to='{room}/n'><x xmlns='http://jabber.org/protocol/muc'/></presence>"));
        s.crone.all();
        if fields != "-" {
            s.crone.send(&configuration(fields).replace(COVEN, &room));
            assert_eq!(outcome(&answer(&mut s.crone)), "result");
        }
    }
    let list = |client: &mut Client, set: &str| {
        let query = format!("<query xmlns='http://jabber.org/protocol/disco#items'>{set}</query>");
        let found = ask(client, "conference.example.org", "get", &query);
        let query = found.child("query", ns::DISCO_ITEMS).unwrap();
        let rooms = query.children().filter_map(|item| Some(item.attr("jid")?.split_once('@')?.0.to_owned()));
        rooms.collect::<Vec<_>>()
    };
    assert_eq!(list(&mut s.hag, ""), ["a", "b", "c"]);
    let set = "<set xmlns='http://jabber.org/protocol/rsm'><max>2</max><after>a@conference.example.org</after></set>";
    assert_eq!(list(&mut s.hag, set), ["b", "c"]);
    let set = "<set xmlns='http://jabber.org/protocol/rsm'><max>1</max><before/></set>";
    assert_eq!(list(&mut s.hag, set), ["c"]);
    let set = "<set xmlns='http://jabber.org/protocol/rsm'><after>'; DROP TABLE rooms</after></set>";
    let query = format!("<query xmlns='http://jabber.org/protocol/disco#items'>{set}</query>");
    assert_eq!(outcome(&ask(&mut s.hag, "conference.example.org", "get", &query)), "item-not-found");
}

/// §6.4: the description of a room, and the users who get each part of it.
#[test]
fn a_room_tells_outsiders_what_they_may_know() {
    let mut s = RoomScene::configure_scene("membersonly=1 roomdesc=Cauldron");
    s.crone.send(&format!("<message to='{COVEN}' type='groupchat'><subject>Secret</subject></message>"));
    s.crone.all();
    let field = |info: &Element, var: &str| {
        let x = info.child("query", ns::DISCO_INFO)?.child("x", ns::DATA_FORMS)?;
        x.children().find(|field| field.attr("var") == Some(var))?.child_text("value", ns::DATA_FORMS)
    };
    let info = ask(&mut s.hag, COVEN, "get", INFO);
    assert_eq!(field(&info, "muc#roominfo_description").as_deref(), Some("Cauldron"));
    assert_eq!(field(&info, "muc#roominfo_subject"), None);
    assert_eq!(field(&info, "muc#roominfo_occupants"), None);
    let info = ask(&mut s.crone, COVEN, "get", INFO);
    assert_eq!(field(&info, "muc#roominfo_subject").as_deref(), Some("Secret"));
    assert_eq!(field(&info, "muc#roominfo_occupants").as_deref(), Some("1"));
    // §6.5.
    let items = ask(&mut s.hag, COVEN, "get", ITEMS);
    assert_eq!(items.child("query", ns::DISCO_ITEMS).unwrap().children().count(), 0);
    // §17.1.1.
    let traffic =
        "<query xmlns='http://jabber.org/protocol/disco#info' node='http://jabber.org/protocol/muc#traffic'/>";
    assert_eq!(outcome(&ask(&mut s.hag, COVEN, "get", traffic)), "service-unavailable");
}

/// §6.5: the occupants of a room that everybody may enter are listed for everybody, those of other
/// rooms only for occupants.
#[test]
fn occupants_are_listed_for_those_who_may_see_them() {
    let listed = |client: &mut Client| {
        let items = ask(client, COVEN, "get", ITEMS);
        let query = items.child("query", ns::DISCO_ITEMS).unwrap();
        query.children().map(|item| item.attr("jid").unwrap().to_owned()).collect::<Vec<_>>()
    };
    for (config, strangers_see) in
        [("publicroom=1", true), ("publicroom=0", false), ("publicroom=1 membersonly=1", false)]
    {
        let mut s = RoomScene::configure_scene(config);
        let expected = [format!("{COVEN}/firstwitch")];
        assert_eq!(listed(&mut s.crone), expected, "{config}");
        assert_eq!(listed(&mut s.hag), if strangers_see { &expected[..] } else { &[] }, "{config}");
    }
    let mut s = RoomScene::configure_scene("publicroom=1 presencebroadcast=moderator");
    join(&mut s.hag, "thirdwitch");
    s.hag.all();
    assert_eq!(listed(&mut s.hag), [format!("{COVEN}/firstwitch")], "whose presence nobody sees is not listed");
}

/// §6.6.
#[test]
fn occupants_are_asked_by_occupants() {
    let mut s = RoomScene::open_scene();
    assert_eq!(outcome(&ask(&mut s.hag, &format!("{COVEN}/firstwitch"), "get", INFO)), "bad-request");
    let mut s = s.all_in();
    s.hag.send(&format!("<iq to='{COVEN}/firstwitch' type='get' id='7'>{INFO}</iq>"));
    let asked = s.crone.expect_element();
    assert_eq!(asked.attr("from"), Some(format!("{COVEN}/thirdwitch").as_str()));
    let id = asked.attr("id").unwrap();
    // A reply from another occupant is ignored.
    s.wiccarocks.send(&format!("<iq to='{COVEN}/thirdwitch' type='result' id='{id}'>{INFO}</iq>"));
    s.wiccarocks.pump();
    s.hag.expect_nothing();
    s.crone.send(&format!("<iq to='{COVEN}/thirdwitch' type='result' id='{id}'>{INFO}</iq>"));
    s.hag.expect(&format!("<iq from='{COVEN}/firstwitch' type='result' id='7'>{INFO}</iq>"));
    assert_eq!(outcome(&ask(&mut s.hag, &format!("{COVEN}/nobody"), "get", INFO)), "item-not-found");
}

/// Operators see the numbers of rooms and occupants.
#[test]
fn rooms_and_occupants_are_counted() {
    let mut s = RoomScene::open_scene().all_in();
    let counts = |s: &RoomScene| {
        let of_shards = s.server.inspect(|world| {
            let gauges = world.registry().modules().flat_map(|module| module.gauges());
            gauges.map(|gauge| (gauge.name, (gauge.read)(world))).collect::<Vec<_>>()
        });
        let sum = |name| of_shards.iter().flatten().filter(|(of, _)| *of == name).map(|(_, count)| count).sum::<u64>();
        (sum("rookery_rooms"), sum("rookery_room_occupants"))
    };
    assert_eq!(counts(&s), (1, 3));
    leave(&mut s.hag, "thirdwitch");
    s.hush();
    assert_eq!(counts(&s), (1, 2));
}
