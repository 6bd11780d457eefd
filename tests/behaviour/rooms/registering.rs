//! §7.10 and §9.9: registration with a room, at once or once an admin has approved it.

use super::*;
use rookery_store::held::HeldStores;
use rookery_store::memory::Memory;

const QUERY: &str = "<query xmlns='jabber:iq:register'/>";
const REMOVE: &str = "<query xmlns='jabber:iq:register'><remove/></query>";
const TYPE: &str = "<field var='FORM_TYPE'><value>http://jabber.org/protocol/muc#register</value></field>";

fn registration(nick: &str) -> String {
    registration_with(&[("roomnick", nick)])
}

fn registration_with(fields: &[(&str, &str)]) -> String {
    let field = |(var, value): &(&str, &str)| format!("<field var='muc#register_{var}'><value>{value}</value></field>");
    let fields: String = fields.iter().map(field).collect();
    format!("<query xmlns='jabber:iq:register'><x xmlns='jabber:x:data' type='submit'>{TYPE}{fields}</x></query>")
}

/// Returns an admin's decision to the room, which names the nick alone, as in the standard's
/// example.
fn decision(nick: &str, allow: &str) -> String {
    format!(
        "<message to='{COVEN}'><x xmlns='jabber:x:data' type='submit'>{TYPE}<field var='muc#register_roomnick'>\
         <value>{nick}</value></field><field var='muc#register_allow'><value>{allow}</value></field></x></message>"
    )
}

fn values(form: &Element, var: &str) -> Vec<String> {
    let x = form.child("x", ns::DATA_FORMS).unwrap();
    let field = x.children().find(|field| field.attr("var") == Some(var));
    let values = field.into_iter().flat_map(Element::children).filter(|child| child.name() == "value");
    values.map(Element::text).collect()
}

/// §7.10: a user who registers becomes a member, and the nick is reserved.
#[test]
fn users_register_with_a_room() {
    let mut s = RoomScene::open_scene();
    let form = ask(&mut s.hag, COVEN, "get", QUERY);
    let x = form.child("query", ns::REGISTER).unwrap().child("x", ns::DATA_FORMS).unwrap();
    assert!(x.children().any(|field| field.attr("var") == Some("muc#register_roomnick")));
    assert_eq!(outcome(&ask(&mut s.hag, COVEN, "set", &registration("firstwitch"))), "conflict");
    assert_eq!(outcome(&ask(&mut s.hag, COVEN, "set", QUERY)), "bad-request");
    assert_eq!(outcome(&ask(&mut s.hag, COVEN, "set", &registration("thirdwitch"))), "result");
    let registered = ask(&mut s.hag, COVEN, "get", QUERY);
    let query_found = registered.child("query", ns::REGISTER).unwrap();
    assert_eq!(query_found.child_text("username", ns::REGISTER).as_deref(), Some("thirdwitch"));
    // §7.12.
    let node = "<query xmlns='http://jabber.org/protocol/disco#info' node='x-roomuser-item'/>";
    let found = ask(&mut s.hag, COVEN, "get", node);
    let identity = found.child("query", ns::DISCO_INFO).unwrap().children().next().unwrap().clone();
    assert_eq!(identity.attr("name"), Some("thirdwitch"));
    assert_eq!(ask(&mut s.crone, COVEN, "get", node).child("query", ns::DISCO_INFO).unwrap().children().count(), 0);
    // Nobody else can enter with that nick.
    join(&mut s.wiccarocks, "Thirdwitch");
    assert_eq!(s.wiccarocks.all().iter().map(outcome).collect::<Vec<_>>(), ["conflict"]);
    join(&mut s.hag, "thirdwitch");
    assert!(take_stanzas(&mut s.hag).iter().any(|text| text.contains("member/participant")));
    assert_eq!(outcome(&ask(&mut s.hag, COVEN, "set", REMOVE)), "result");
    assert!(take_stanzas(&mut s.crone).last().unwrap().contains("thirdwitch presence none/participant"));
}

/// Example 148 and the following ones: an admin who isn't in the room is asked as well and
/// approves, and the user becomes a member with that nick.
#[test]
fn an_admin_approves_a_registration() {
    for fields in ["membersonly=1", "moderatedroom=1"] {
        let mut s = RoomScene::configure_scene(fields);
        let admin = s.with_names("<item affiliation='admin' jid='WICCA'/>");
        administer(&mut s.crone, "set", &admin);
        s.hush();
        let form = ask(&mut s.hag, COVEN, "get", QUERY);
        let x = form.child("query", ns::REGISTER).unwrap().child("x", ns::DATA_FORMS).unwrap();
        assert!(x.children().any(|field| field.attr("var") == Some("muc#register_email")));
        let wanted = [("roomnick", "thirdwitch"), ("first", "Brunhilde"), ("faqentry", "Just another witch.")];
        assert_eq!(outcome(&ask(&mut s.hag, COVEN, "set", &registration_with(&wanted))), "result");
        for admin in [&mut s.crone, &mut s.wiccarocks] {
            let asked = admin.expect_element();
            assert_eq!((asked.attr("from"), asked.attr("type")), (Some(COVEN), None));
            for (var, value) in wanted {
                assert_eq!(values(&asked, &format!("muc#register_{var}")), [value], "{var}");
            }
            assert_eq!(values(&asked, "muc#register_allow"), ["0"]);
            assert_eq!(values(&asked, "muc#jid"), [s.hag.bare()]);
        }
        // The request alone changes nothing.
        s.hag.expect_nothing();
        assert_eq!(
            ask(&mut s.hag, COVEN, "get", QUERY)
                .child("query", ns::REGISTER)
                .unwrap()
                .child("registered", ns::REGISTER),
            None
        );
        s.hag.send(&decision("thirdwitch", "true"));
        s.hag_hears(&["ROOM message/error forbidden"]);
        s.wiccarocks.send(&decision("Thirdwitch", "true"));
        s.wiccarocks.expect_nothing();
        s.hag_hears(&["ROOM message member/none jid=HAG 101"]);
        s.crone_hears(&["ROOM message member/none jid=HAG"]);
        let registered = ask(&mut s.hag, COVEN, "get", QUERY);
        let nick = registered.child("query", ns::REGISTER).unwrap().child_text("username", ns::REGISTER);
        assert_eq!(nick.as_deref(), Some("Thirdwitch"), "as the admin wrote it");
        join(&mut s.hag, "Thirdwitch");
        assert!(take_stanzas(&mut s.hag).iter().any(|text| text.starts_with("Thirdwitch presence member/participant")));
        // The decision has been made.
        s.crone.all();
        s.crone.send(&decision("thirdwitch", "true"));
        s.crone_hears(&["ROOM message/error item-not-found"]);
    }
}

/// A visitor whose request is approved is shown to all as a member, and has voice.
#[test]
fn an_approved_visitor_is_shown_as_a_member() {
    let mut s = RoomScene::configure_scene("moderatedroom=1").all_in();
    assert_eq!(outcome(&ask(&mut s.hag, COVEN, "set", &registration("thirdwitch"))), "result");
    s.crone.all();
    s.crone.send(&decision("thirdwitch", "1"));
    s.crone.pump();
    s.wicca_hears(&["thirdwitch presence member/participant actor=firstwitch"]);
    s.hag_hears(&["thirdwitch presence member/participant jid=HAG/r actor=firstwitch 110"]);
}

#[test]
fn an_admin_denies_or_skips() {
    let mut s = RoomScene::configure_scene("membersonly=1");
    assert_eq!(outcome(&ask(&mut s.hag, COVEN, "set", &registration("thirdwitch"))), "result");
    s.crone.all();
    s.crone.send(&format!("<message to='{COVEN}'><x xmlns='jabber:x:data' type='cancel'/></message>"));
    s.crone.expect_nothing();
    s.crone.send(&decision("thirdwitch", "maybe"));
    s.crone_hears(&["ROOM message/error bad-request"]);
    s.crone.send(&decision("thirdwitch", "0"));
    s.crone.expect_nothing();
    let answer = s.hag.expect_element();
    assert!(answer.attr("from") == Some(COVEN) && answer.child_text("body", ns::CLIENT).unwrap().contains("denied"));
    join(&mut s.hag, "thirdwitch");
    s.hag_hears(&["thirdwitch presence/error registration-required"]);
    s.crone.send(&decision("thirdwitch", "1"));
    s.crone_hears(&["ROOM message/error item-not-found"]);
}

/// Admins are asked once about each request, a nick in a request can't be requested by others, and
/// a request can be withdrawn.
#[test]
fn requests_are_told_apart() {
    let mut s = RoomScene::configure_scene("membersonly=1");
    for _ in 0..3 {
        assert_eq!(outcome(&ask(&mut s.hag, COVEN, "set", &registration("witch"))), "result");
    }
    assert_eq!(s.crone.all().len(), 1);
    assert_eq!(outcome(&ask(&mut s.wiccarocks, COVEN, "set", &registration(" WITCH "))), "conflict");
    assert_eq!(outcome(&ask(&mut s.wiccarocks, COVEN, "set", &registration("firstwitch"))), "conflict");
    assert_eq!(outcome(&ask(&mut s.wiccarocks, COVEN, "set", QUERY)), "bad-request");
    let long = "x".repeat(5000);
    let wanted = [("roomnick", "second"), ("url", long.as_str())];
    assert_eq!(outcome(&ask(&mut s.wiccarocks, COVEN, "set", &registration_with(&wanted))), "not-acceptable");
    assert_eq!(outcome(&ask(&mut s.wiccarocks, COVEN, "set", REMOVE)), "registration-required");
    assert_eq!(outcome(&ask(&mut s.hag, COVEN, "set", REMOVE)), "result");
    assert_eq!(outcome(&ask(&mut s.wiccarocks, COVEN, "set", &registration("witch"))), "result");
    assert_eq!(s.crone.all().len(), 1);
    // Somebody else has the nick by the time of the decision.
    let member = s.with_names("<item affiliation='member' jid='HAG' nick='witch'/>");
    administer(&mut s.crone, "set", &member);
    s.hush();
    s.crone.send(&decision("witch", "1"));
    s.crone_hears(&["ROOM message/error conflict"]);
}

/// A request to register ends when the user gets an affiliation in another way.
#[test]
fn an_affiliation_ends_the_waiting() {
    for affiliation in ["outcast", "member"] {
        let mut s = RoomScene::configure_scene("membersonly=1");
        ask(&mut s.hag, COVEN, "set", &registration("thirdwitch"));
        let item = s.with_names(&format!("<item affiliation='{affiliation}' jid='HAG'/>"));
        administer(&mut s.crone, "set", &item);
        s.hush();
        s.crone.send(&decision("thirdwitch", "1"));
        s.crone_hears(&["ROOM message/error item-not-found"]);
    }
}

/// Of a flood of requests, admins get only as many as the limits allow.
#[test]
fn requests_are_bounded() {
    let mut s = RoomScene::with(Config { federates: true, ..Config::default() }).open("membersonly=1");
    let mut asked = 0;
    for number in 0..150 {
        s.server.incoming(&format!(
            "<iq from='u{number}@far.example/r' to='{COVEN}' type='set' id='r'>{}</iq>",
            registration(&format!("n{number}"))
        ));
        asked += s.crone.all().len();
    }
    let refused = s.server.take_left().iter().filter(|left| left.text.contains("resource-constraint")).count();
    assert_eq!((asked, refused), (50, 100), "five minutes' worth at once");
    s.server.advance(600_000);
    for number in 200..300 {
        s.server.incoming(&format!(
            "<iq from='u{number}@far.example/r' to='{COVEN}' type='set' id='r'>{}</iq>",
            registration(&format!("n{number}"))
        ));
        asked += s.crone.all().len();
    }
    assert_eq!(asked, 100, "no more than that wait");
}

/// A restart loses no request: an admin can still decide about it.
#[test]
fn who_waits_is_not_forgotten() {
    let mut s = RoomScene::configure_scene("membersonly=1 persistentroom=1");
    let wanted = [("roomnick", "thirdwitch"), ("email", "hag66@witchesonline")];
    assert_eq!(outcome(&ask(&mut s.hag, COVEN, "set", &registration_with(&wanted))), "result");
    s.server.restart();
    let (mut crone, mut hag) = (s.server.online(s.crone.full()), s.server.online(s.hag.full()));
    crone.send(&decision("thirdwitch", "1"));
    crone.pump();
    assert_eq!(take_stanzas(&mut hag), [s.with_names("ROOM message member/none jid=HAG 101")]);
    s.server.restart();
    let mut hag = s.server.online(s.hag.full());
    let registered = ask(&mut hag, COVEN, "get", QUERY);
    let nick = registered.child("query", ns::REGISTER).unwrap().child_text("username", ns::REGISTER);
    assert_eq!(nick.as_deref(), Some("thirdwitch"));
    let mut crone = s.server.online(s.crone.full());
    crone.send(&decision("thirdwitch", "1"));
    assert_eq!(take_stanzas(&mut crone), ["ROOM message/error item-not-found"]);
}

/// A request that can't be stored gets an error.
#[test]
fn a_request_is_answered_when_it_is_stored() {
    let held = HeldStores::new(Memory::stores());
    held.set_flowing(true);
    let config = Config { stores: held.stores(), ..Config::default() };
    let mut s = RoomScene::with(config).open("membersonly=1 persistentroom=1");
    held.set_fault(Some(rookery_store::StoreError::Busy));
    let refused = ask(&mut s.hag, COVEN, "set", &registration("thirdwitch"));
    assert_eq!(refused.child("error", ns::CLIENT).unwrap().attr("type"), Some("wait"));
}

/// An admin who was away gets the request on coming back.
#[test]
fn an_admin_who_is_away_is_asked_later() {
    let mut s = RoomScene::configure_scene("membersonly=1 persistentroom=1");
    let name = s.crone.full().to_owned();
    s.crone.vanish();
    assert_eq!(outcome(&ask(&mut s.hag, COVEN, "set", &registration("thirdwitch"))), "result");
    let mut crone = s.server.online(&name);
    let asked = crone.all().into_iter().find(|found| found.attr("from") == Some(COVEN)).expect("the request");
    assert_eq!(values(&asked, "muc#register_roomnick"), ["thirdwitch"]);
}

/// §7.10: an owner can leave it to admins to choose members. Members can still reserve nicks.
#[test]
fn registration_can_be_closed() {
    for fields in ["registration=0", "registration=0 membersonly=1", "registration=0 moderatedroom=1"] {
        let mut s = RoomScene::configure_scene(fields);
        assert_eq!(outcome(&ask(&mut s.hag, COVEN, "get", QUERY)), "not-allowed", "{fields}");
        assert_eq!(outcome(&ask(&mut s.hag, COVEN, "set", &registration("thirdwitch"))), "not-allowed", "{fields}");
        s.crone.expect_nothing();
        let member = s.with_names("<item affiliation='member' jid='HAG'/>");
        administer(&mut s.crone, "set", &member);
        s.hush();
        assert_eq!(outcome(&ask(&mut s.hag, COVEN, "set", &registration("thirdwitch"))), "result", "{fields}");
        let outcast = s.with_names("<item affiliation='outcast' jid='WICCA'/>");
        administer(&mut s.crone, "set", &outcast);
        s.hush();
        assert_eq!(outcome(&ask(&mut s.wiccarocks, COVEN, "get", QUERY)), "not-allowed", "an outcast");
    }
    let mut s = RoomScene::new();
    assert_eq!(outcome(&ask(&mut s.hag, COVEN, "get", QUERY)), "item-not-found");
}
