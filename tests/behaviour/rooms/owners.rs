//! §10: requests of owners.

use super::*;

/// Examples 151 to 153.
#[test]
fn an_instant_room_opens_at_once() {
    let mut s = RoomScene::new();
    join(&mut s.crone, "firstwitch");
    s.crone_hears(&["firstwitch presence owner/moderator jid=CRONE/r 110 201", "ROOM message/groupchat subject="]);
    s.crone.send(&configuration(""));
    s.crone_hears(&["ROOM iq/result"]);
    join(&mut s.hag, "thirdwitch");
    assert_eq!(take_stanzas(&mut s.hag).len(), 3);
}

/// §10.1.1.
#[test]
fn not_everybody_may_create_rooms() {
    let mut s = RoomScene::with_options(vec![("create", Value::List(vec!["other.example".into()]))]);
    join(&mut s.crone, "firstwitch");
    s.crone_hears(&["firstwitch presence/error not-allowed"]);
    let mut s = RoomScene::with_options(vec![("max_rooms", Value::Number(1))]).open("");
    s.hag.send("<presence to='other@conference.example.org/n'><x xmlns='http://jabber.org/protocol/muc'/></presence>");
    assert_eq!(outcome(&s.hag.expect_element()), "resource-constraint");
}

/// Examples 154 to 159: requesting and submitting the form.
#[test]
fn a_reserved_room_is_configured() {
    let mut s = RoomScene::new();
    join(&mut s.crone, "firstwitch");
    s.crone.all();
    let query = "<query xmlns='http://jabber.org/protocol/muc#owner'/>";
    let form = ask(&mut s.crone, COVEN, "get", query);
    let x = form.child("query", ns::MUC_OWNER).unwrap().child("x", ns::DATA_FORMS).unwrap();
    let vars: Vec<_> = x.children().filter_map(|field| field.attr("var")).collect();
    for var in [
        "roomname",
        "roomdesc",
        "lang",
        "changesubject",
        "allowinvites",
        "allowpm",
        "maxusers",
        "presencebroadcast",
        "getmemberlist",
        "publicroom",
        "persistentroom",
        "moderatedroom",
        "membersonly",
        "passwordprotectedroom",
        "roomsecret",
        "whois",
        "roomadmins",
        "roomowners",
    ] {
        assert!(vars.contains(&format!("muc#roomconfig_{var}").as_str()), "{var}");
    }
    assert!(vars.contains(&"muc#maxhistoryfetch"));
    assert_eq!(outcome(&configure(&mut s.crone, "roomname=Cave moderatedroom=1 whois=anyone")), "result");
    let info = ask(&mut s.hag, COVEN, "get", "<query xmlns='http://jabber.org/protocol/disco#info'/>");
    let query = info.child("query", ns::DISCO_INFO).unwrap();
    assert_eq!(query.child("identity", ns::DISCO_INFO).unwrap().attr("name"), Some("Cave"));
    let features: Vec<_> = query.children().filter_map(|child| child.attr("var")).collect();
    for feature in ["muc_public", "muc_persistent", "muc_open", "muc_moderated", "muc_nonanonymous", "muc_unsecured"] {
        assert!(features.contains(&feature), "{feature}");
    }
}

#[test]
fn wrong_configurations_change_nothing() {
    let mut s = RoomScene::open_scene();
    for fields in [
        "whois=everyone",
        "maxusers=0",
        "maxusers=many",
        "membersonly=perhaps",
        "allowpm=some",
        "presencebroadcast=king",
        "passwordprotectedroom=1",
        "roomowners=@",
        "roomname=Cave whois=x",
    ] {
        assert_eq!(outcome(&configure(&mut s.crone, fields)), "not-acceptable", "{fields}");
    }
    assert_eq!(outcome(&configure(&mut s.crone, "roomowners=hag@example.org roomadmins=x@example.org")), "result");
    s.crone.all();
    assert_eq!(
        outcome(&configure(&mut s.crone, "roomname=Cave")),
        "forbidden",
        "the owner who gives the room away has no say"
    );
}

/// §10.2.
#[test]
fn only_owners_configure() {
    let mut s = RoomScene::open_scene().all_in();
    let query = "<query xmlns='http://jabber.org/protocol/muc#owner'/>";
    assert_eq!(outcome(&ask(&mut s.hag, COVEN, "get", query)), "forbidden");
    assert_eq!(outcome(&configure(&mut s.hag, "")), "forbidden");
    let destroy = "<query xmlns='http://jabber.org/protocol/muc#owner'><destroy/></query>";
    assert_eq!(outcome(&ask(&mut s.hag, COVEN, "set", destroy)), "forbidden");
    let cancel = "<query xmlns='http://jabber.org/protocol/muc#owner'><x xmlns='jabber:x:data' type='cancel'/></query>";
    assert_eq!(outcome(&ask(&mut s.crone, COVEN, "set", cancel)), "result");
    s.hag.expect_nothing();
}

/// §10.1.3: an owner who cancels the first configuration doesn't want the room.
#[test]
fn a_cancelled_room_is_gone() {
    let mut s = RoomScene::new();
    join(&mut s.crone, "firstwitch");
    s.crone.all();
    let cancel = "<query xmlns='http://jabber.org/protocol/muc#owner'><x xmlns='jabber:x:data' type='cancel'/></query>";
    s.crone.send(&format!("<iq to='{COVEN}' type='set' id='x'>{cancel}</iq>"));
    s.crone_hears(&["firstwitch presence/unavailable none/none jid=CRONE/r 110 destroy", "ROOM iq/result"]);
    join(&mut s.hag, "thirdwitch");
    assert!(take_stanzas(&mut s.hag)[0].ends_with("110 201"));
}

/// §10.1.3, §15.5.3: every field of the form is kept as it was submitted, also across a restart.
#[test]
fn every_field_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let logs = Value::Text(folder.path().to_str().unwrap().to_owned());
    let mut s = RoomScene::with_options(vec![("logs", logs)]).open("");
    let fields = [
        ("muc#maxhistoryfetch", "7"),
        ("allowpm", "moderators"),
        ("allowinvites", "1"),
        ("changesubject", "1"),
        ("enablearchiving", "0"),
        ("enablelogging", "1"),
        ("getmemberlist", "moderator+participant"),
        ("lang", "de"),
        ("pubsub", "xmpp:pubsub.example.org?;node=coven"),
        ("maxusers", "50"),
        ("membersonly", "1"),
        ("moderatedroom", "1"),
        ("passwordprotectedroom", "1"),
        ("persistentroom", "1"),
        ("presencebroadcast", "moderator"),
        ("publicroom", "0"),
        ("registration", "0"),
        ("roomadmins", "wiccarocks@example.org"),
        ("roomdesc", "Cauldron"),
        ("roomname", "Cave"),
        ("roomsecret", "cauldronburn"),
        ("whois", "anyone"),
    ];
    let submitted: Vec<_> = fields.iter().map(|(var, value)| format!("{var}={value}")).collect();
    assert_eq!(outcome(&configure(&mut s.crone, &submitted.join(" "))), "result");
    for _ in 0..2 {
        let form = ask(&mut s.crone, COVEN, "get", "<query xmlns='http://jabber.org/protocol/muc#owner'/>");
        let x = form.child("query", ns::MUC_OWNER).unwrap().child("x", ns::DATA_FORMS).unwrap();
        for (var, wanted) in fields {
            let name = if var.starts_with("muc#") { var.to_owned() } else { format!("muc#roomconfig_{var}") };
            let field = x.children().find(|field| field.attr("var") == Some(name.as_str())).unwrap();
            let values = field.children().filter(|child| child.name() == "value").map(Element::text);
            assert_eq!(values.collect::<Vec<_>>().join("+"), wanted, "{var}");
        }
        s.server.restart();
        s.crone = s.server.online(s.crone.full());
    }
}

/// §10.1.3: the lists of admins and owners are complete: users who are no longer in them lose the
/// affiliation.
#[test]
fn a_form_makes_admins_and_owners() {
    let mut s = RoomScene::open_scene().all_in();
    let (crone, wicca, hag) = (s.crone.bare().to_owned(), s.wiccarocks.bare().to_owned(), s.hag.bare().to_owned());
    let lists = format!("roomadmins={wicca} roomowners={crone}+{hag}");
    assert_eq!(outcome(&configure(&mut s.crone, &lists)), "result");
    let found = take_stanzas(&mut s.wiccarocks);
    assert!(found.iter().any(|text| text.starts_with("secondwitch presence admin/moderator")), "{found:?}");
    assert!(found.iter().any(|text| text.starts_with("thirdwitch presence owner/moderator")), "{found:?}");
    s.hush();
    assert_eq!(outcome(&configure(&mut s.hag, &format!("roomadmins= roomowners={hag}"))), "result");
    let found = take_stanzas(&mut s.wiccarocks);
    assert!(found.iter().any(|text| text.starts_with("secondwitch presence none/participant")), "{found:?}");
    assert!(found.iter().any(|text| text.starts_with("firstwitch presence none/participant")), "{found:?}");
    assert_eq!(outcome(&configure(&mut s.hag, "roomowners=")), "conflict", "§10.4: somebody has to own it");
}

/// §10.2.1: codes 170 and 171.
#[test]
fn logging_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let logs = Value::Text(folder.path().to_str().unwrap().to_owned());
    let mut s = RoomScene::with_options(vec![("logs", logs)]).open("").all_in();
    assert!(offers_logging(&mut s.crone));
    for (fields, code) in [("enablelogging=1", "170"), ("enablelogging=0", "171")] {
        assert_eq!(outcome(&configure(&mut s.crone, fields)), "result");
        s.hag_hears(&[&format!("ROOM message/groupchat {code}")]);
    }
}

/// If nothing can be logged, logging is neither offered to an owner nor accepted.
#[test]
fn logging_is_refused_without_a_place_for_it() {
    let mut s = RoomScene::open_scene().all_in();
    assert!(!offers_logging(&mut s.crone));
    assert_eq!(outcome(&configure(&mut s.crone, "enablelogging=1 roomname=Cave")), "not-acceptable");
    s.hag.expect_nothing();
    assert_eq!(outcome(&configure(&mut s.crone, "enablelogging=0 roomname=Cave")), "result", "that asks for nothing");
}

fn offers_logging(owner: &mut Client) -> bool {
    let form = ask(owner, COVEN, "get", "<query xmlns='http://jabber.org/protocol/muc#owner'/>");
    let x = form.child("query", ns::MUC_OWNER).unwrap().child("x", ns::DATA_FORMS).unwrap();
    x.children().any(|field| field.attr("var") == Some("muc#roomconfig_enablelogging"))
}

/// §10.2.1.
#[test]
fn changes_that_concern_privacy_are_told() {
    let mut s = RoomScene::open_scene().all_in();
    for (fields, codes) in
        [("whois=anyone", "172"), ("whois=moderators", "173"), ("roomname=Cave", "104"), ("roomname=Cave", "")]
    {
        assert_eq!(outcome(&configure(&mut s.crone, fields)), "result");
        let wanted = if codes.is_empty() { vec![] } else { vec![format!("ROOM message/groupchat {codes}")] };
        assert_eq!(take_stanzas(&mut s.hag), wanted, "{fields}");
    }
}

/// §10.2: occupants who aren't members must leave when the room becomes members-only.
#[test]
fn a_room_becomes_members_only() {
    let mut s = RoomScene::open_scene().all_in();
    let member = s.with_names("<item affiliation='member' jid='WICCA'/>");
    administer(&mut s.crone, "set", &member);
    s.hush();
    configure(&mut s.crone, "membersonly=1");
    s.hag_hears(&["ROOM message/groupchat 104", "thirdwitch presence/unavailable none/none jid=HAG/r 110 322"]);
    s.wicca_hears(&["ROOM message/groupchat 104", "thirdwitch presence/unavailable none/none 322"]);
}

/// §10.3 to §10.8.
#[test]
fn owners_make_owners_and_admins() {
    let mut s = RoomScene::open_scene().all_in();
    let item = |affiliation: &str, jid: &str| format!("<item affiliation='{affiliation}' jid='{jid}'/>");
    let (crone, wicca, hag) = (s.crone.bare().to_owned(), s.wiccarocks.bare().to_owned(), s.hag.bare().to_owned());
    assert_eq!(outcome(&administer(&mut s.crone, "set", &item("admin", &wicca))), "result");
    s.hag_hears(&["secondwitch presence admin/moderator actor=firstwitch"]);
    s.wiccarocks.all();
    assert_eq!(outcome(&administer(&mut s.wiccarocks, "set", &item("admin", &hag))), "forbidden");
    assert_eq!(outcome(&administer(&mut s.wiccarocks, "set", &item("none", &crone))), "forbidden");
    assert_eq!(outcome(&administer(&mut s.wiccarocks, "get", "<item affiliation='owner'/>")), "forbidden");
    // §10.4.
    assert_eq!(outcome(&administer(&mut s.crone, "set", &item("admin", &crone))), "conflict");
    assert_eq!(outcome(&administer(&mut s.crone, "set", &item("owner", &hag))), "result");
    assert_eq!(outcome(&administer(&mut s.crone, "set", &item("none", &crone))), "result");
    let found = take_stanzas(&mut s.hag);
    assert!(found.last().unwrap().starts_with("firstwitch presence none/participant"), "{found:?}");
    assert_eq!(outcome(&administer(&mut s.hag, "set", &item("none", &wicca))), "result");
    s.crone.all();
    let found = take_stanzas(&mut s.wiccarocks);
    assert!(found.last().unwrap().starts_with("secondwitch presence none/participant"), "{found:?}");
}

/// Examples 193 to 197: each occupant is only told that it has left.
#[test]
fn a_room_is_destroyed() {
    let mut s = RoomScene::configure_scene("persistentroom=1").all_in();
    let destroy = "<query xmlns='http://jabber.org/protocol/muc#owner'><destroy jid='cave@conference.example.org'>\
                   <reason>Macbeth doth come.</reason><password>abc</password></destroy></query>";
    assert_eq!(outcome(&ask(&mut s.crone, COVEN, "set", destroy)), "result");
    s.hag.expect(&s.with_names(
        "<presence from='COVEN/thirdwitch' type='unavailable'><occupant-id xmlns='urn:xmpp:occupant-id:0' id='*'/>\
         <x xmlns='http://jabber.org/protocol/muc#user'><item affiliation='none' role='none' jid='HAG/r'/>\
         <destroy jid='cave@conference.example.org'><password>abc</password><reason>Macbeth doth come.</reason></destroy>\
         <status code='110'/></x></presence>",
    ));
    s.hag.expect_nothing();
    assert_eq!(
        outcome(&ask(&mut s.hag, COVEN, "get", "<query xmlns='http://jabber.org/protocol/disco#info'/>")),
        "item-not-found"
    );
    s.server.restart();
    assert!(s.server.finish(s.server.stores().rooms.list("conference.example.org")).unwrap().is_empty());
}
