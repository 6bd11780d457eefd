//! Limits of shared resources for one account, and for one domain of another server.

use super::*;

const ROOM: &str = "conference.example.org";

fn number(key: &'static str, number: u64) -> (&'static str, Value) {
    (key, Value::Number(number))
}

/// Enters a room, which creates it. Returns the condition of the error, if there is one.
fn enter(client: &mut Client, room: &str) -> Option<String> {
    client.send(&format!("<presence to='{room}@{ROOM}/n'><x xmlns='http://jabber.org/protocol/muc'/></presence>"));
    client.all().iter().find_map(|found| found.child("error", ns::CLIENT)).map(condition)
}

fn configure_room(client: &mut Client, room: &str, fields: &str) -> String {
    client.send(&configuration(fields).replace(COVEN, &format!("{room}@{ROOM}")));
    outcome(&answer(client))
}

#[test]
fn an_account_creates_as_many_rooms_as_it_may() {
    let mut s = RoomScene::with_options(vec![number("rooms_per_account", 3)]);
    for (room, fields) in [("a", "persistentroom=1"), ("b", "persistentroom=1"), ("c", "")] {
        assert_eq!(enter(&mut s.crone, room), None);
        assert_eq!(configure_room(&mut s.crone, room, fields), "result");
    }
    let mut other = s.server.online(&format!("{}/other", s.crone.bare().split('@').next().unwrap()));
    for client in [&mut s.crone, &mut other] {
        assert_eq!(enter(client, "d").as_deref(), Some("not-allowed"), "its other resources are the same account");
    }
    assert_eq!(enter(&mut s.hag, "d"), None, "others create rooms as ever");
    // Giving a room to others doesn't allow another one.
    let owner = s.with_names("<item affiliation='owner' jid='HAG'/>");
    let own = s.with_names("<item affiliation='none' jid='CRONE'/>");
    for items in [owner, own] {
        let query = format!("<query xmlns='http://jabber.org/protocol/muc#admin'>{items}</query>");
        assert_eq!(outcome(&ask(&mut s.crone, &format!("a@{ROOM}"), "set", &query)), "result");
    }
    s.hush();
    assert_eq!(enter(&mut s.crone, "e").as_deref(), Some("not-allowed"));
    // A temporary room counts until it ends.
    s.crone.send(&format!("<presence to='c@{ROOM}/n' type='unavailable'/>"));
    s.crone.all();
    assert_eq!(enter(&mut s.crone, "e"), None);
    s.server.restart();
    let mut crone = s.server.online(s.crone.full());
    assert_eq!(enter(&mut crone, "f"), None, "temporary rooms are gone");
    assert_eq!(enter(&mut crone, "g").as_deref(), Some("not-allowed"), "persistent ones count as before");
    let destroy = "<query xmlns='http://jabber.org/protocol/muc#owner'><destroy/></query>";
    assert_eq!(outcome(&ask(&mut crone, &format!("b@{ROOM}"), "set", destroy)), "result");
    crone.all();
    assert_eq!(enter(&mut crone, "g"), None);
}

#[test]
fn whom_the_operator_names_creates_more() {
    let crone = Server::new().name_at("crone", 0);
    let admins = ("admins", Value::List(vec![format!("{crone}@example.org")]));
    let mut s = RoomScene::with_options(vec![number("rooms_per_account", 1), admins]);
    assert_eq!(["a", "b", "c"].map(|room| enter(&mut s.crone, room)), [None, None, None]);
}

/// The next owner of a removed account's name starts with nothing: neither rights nor counts.
#[test]
fn rooms_of_a_removed_account_count_for_nobody() {
    let options =
        vec![("register", "allow_creation", Value::Switch(false)), ("rooms", "rooms_per_account", Value::Number(1))];
    let mut s = RoomScene::with(Config { options, ..Config::default() });
    assert_eq!(enter(&mut s.hag, "a"), None);
    assert_eq!(configure_room(&mut s.hag, "a", "persistentroom=1"), "result");
    s.hag.send("<iq type='set' id='gone'><query xmlns='jabber:iq:register'><remove/></query></iq>");
    s.hag.pump();
    // The room is told of the removal, although nobody sends it anything.
    s.server.advance(10_000);
    for restarts in [false, true] {
        if restarts {
            s.server.restart();
        }
        let mut heir = s.server.login(s.hag.full());
        heir.send("<presence/>");
        heir.all();
        let room = if restarts { "c" } else { "b" };
        assert_eq!(enter(&mut heir, room), None);
        heir.send(&format!("<presence to='{room}@{ROOM}/n' type='unavailable'/>"));
        heir.all();
    }
}

#[test]
fn other_servers_share_what_their_users_may_take() {
    let options = [("create", Value::List(vec!["all".into()])), number("rooms_per_remote_domain", 2)];
    let options = options.into_iter().chain([number("occupancies_per_remote_domain", 3)]);
    let options = options.map(|(key, value)| ("rooms", key, value)).collect();
    let s = RoomScene::with(Config { options, federates: true, ..Config::default() });
    let enter = |user: &str, room: &str| {
        s.server.incoming(&format!(
            "<presence from='{user}/r' to='{room}@{ROOM}/{}'><x xmlns='http://jabber.org/protocol/muc'/></presence>",
            user.replace('@', ".")
        ));
        let left: Vec<_> = s.server.take_left().iter().map(|left| rookery_testkit::element(&left.text)).collect();
        left.iter().find_map(|found| found.child("error", ns::CLIENT)).map(condition)
    };
    assert_eq!(enter("a@far.example", "a"), None);
    assert_eq!(enter("b@far.example", "b"), None);
    assert_eq!(enter("c@far.example", "c").as_deref(), Some("not-allowed"));
    assert_eq!(enter("c@near.example", "c"), None);
    for room in ["a", "b"] {
        let field = "<iq from='a@far.example/r' to='ROOM' type='set' id='c'><query xmlns='http://jabber.org/protocol/muc#owner'>\
                     <x xmlns='jabber:x:data' type='submit'/></query></iq>";
        let field = field.replace("ROOM", &format!("{room}@{ROOM}")).replace("a@far", &format!("{room}@far"));
        s.server.incoming(&field);
    }
    assert_eq!(enter("d@far.example", "a"), None);
    assert_eq!(enter("e@far.example", "b").as_deref(), Some("resource-constraint"));
    s.server.incoming(&format!("<presence from='d@far.example/r' to='a@{ROOM}/d' type='unavailable'/>"));
    s.server.take_left();
    assert_eq!(enter("e@far.example", "b"), None);
}

#[test]
fn an_account_is_in_as_many_rooms_as_it_may_be() {
    let mut s = RoomScene::with_options(vec![number("occupancies_per_account", 3)]);
    for room in ["a", "b", "c", "d"] {
        assert_eq!(enter(&mut s.crone, room).is_some(), room == "d");
    }
    assert_eq!(enter(&mut s.crone, "a"), None, "it is in there already");
    assert_eq!(enter(&mut s.wiccarocks, "e"), None);
    for (room, leave) in [
        ("f", format!("<presence to='a@{ROOM}/n' type='unavailable'/>")),
        ("g", "<iq to='b@ROOM' type='set' id='d'><query xmlns='http://jabber.org/protocol/muc#owner'><destroy/></query></iq>".replace("ROOM", ROOM)),
        ("h", "<presence type='unavailable'/>".into()),
    ] {
        s.crone.send(&leave);
        s.crone.all();
        assert_eq!(enter(&mut s.crone, room), None, "{leave}");
    }
}

/// The list is bounded, however often somebody bans users with long reasons. Owners can read it and
/// empty it.
#[test]
fn owners_mend_a_list_that_an_admin_has_filled() {
    let mut s = RoomScene::with_options(vec![number("affiliation_bytes", 300_000)]).open("").all_in();
    let admin = s.with_names("<item affiliation='admin' jid='HAG'/>");
    assert_eq!(outcome(&administer(&mut s.crone, "set", &admin)), "result");
    s.hush();
    let mut refused = None;
    for stanza in 0..10 {
        let ban = |number: usize| {
            let reason = if number == 0 { "&lt;".repeat(4000) } else { "x".repeat(50) };
            format!(
                "<item affiliation='outcast' jid='u{stanza}.{number:03}@far.example'><reason>{reason}</reason></item>"
            )
        };
        let items: String = (0..500).map(ban).collect();
        let found = outcome(&administer(&mut s.hag, "set", &items));
        if found != "result" {
            refused.get_or_insert((stanza, found));
        }
    }
    let (stanza, condition) = refused.expect("the list has an end");
    assert_eq!(condition, "resource-constraint");
    assert!((5..9).contains(&stanza), "{stanza}");
    // All of the list, page by page. A client that doesn't ask for pages gets the first page.
    let mut outcasts = Vec::new();
    let mut set = String::new();
    loop {
        let list = administer(&mut s.crone, "get", &format!("<item affiliation='outcast'/>{set}"));
        let query = list.child("query", ns::MUC_ADMIN).unwrap();
        let written = rookery_xml::Writer::write(&list).bytes().len();
        assert!(written < 256 * 1024, "{written}");
        let items = query.children().filter_map(|item| item.attr("jid").map(str::to_owned));
        let before = outcasts.len();
        outcasts.extend(items);
        let count = query.child("set", ns::RSM).unwrap().child_text("count", ns::RSM).unwrap();
        assert_eq!(count, (stanza * 500).to_string());
        if outcasts.len() == before {
            break;
        }
        set = format!("<set xmlns='{}'><after>{}</after></set>", ns::RSM, outcasts.last().unwrap());
    }
    assert_eq!(outcasts.len(), stanza * 500);
    for some in outcasts.chunks(2000) {
        let none: String = some.iter().map(|jid| format!("<item affiliation='none' jid='{jid}'/>")).collect();
        assert_eq!(outcome(&administer(&mut s.crone, "set", &none)), "result");
    }
    let list = administer(&mut s.crone, "get", "<item affiliation='outcast'/>");
    let query = list.child("query", ns::MUC_ADMIN).unwrap();
    assert_eq!(query.children().count(), 0, "and no word of parts where there are none");
    s.crone.expect_alive();
}

/// A change that makes a full list shorter is always accepted.
#[test]
fn a_full_list_takes_what_makes_it_shorter() {
    let options = vec![number("affiliation_bytes", 200), number("max_affiliations", 3)];
    let mut s = RoomScene::with_options(options).open("");
    let ban =
        |reason: &str| format!("<item affiliation='outcast' jid='a@far.example'><reason>{reason}</reason></item>");
    let long = "x".repeat(120);
    assert_eq!(outcome(&administer(&mut s.crone, "set", &ban(&long))), "result");
    let more = "<item affiliation='outcast' jid='b@far.example'><reason>for a reason that has no place any more</reason></item>";
    assert_eq!(outcome(&administer(&mut s.crone, "set", more)), "resource-constraint");
    assert_eq!(outcome(&administer(&mut s.crone, "set", &ban(&format!("{long}{long}")))), "resource-constraint");
    assert_eq!(outcome(&administer(&mut s.crone, "set", &ban("short"))), "result");
    assert_eq!(outcome(&administer(&mut s.crone, "set", more)), "result");
    let third = "<item affiliation='member' jid='c@far.example'/>";
    assert_eq!(outcome(&administer(&mut s.crone, "set", third)), "resource-constraint", "by number");
    let swap = format!("<item affiliation='none' jid='b@far.example'/>{third}");
    assert_eq!(
        outcome(&administer(&mut s.crone, "set", &swap)),
        "resource-constraint",
        "no order of items is relied on"
    );
    assert_eq!(outcome(&administer(&mut s.crone, "set", "<item affiliation='none' jid='b@far.example'/>")), "result");
    assert_eq!(outcome(&administer(&mut s.crone, "set", third)), "result");
}

/// Long names of rooms shorten pages, and don't end sessions.
#[test]
fn a_list_of_rooms_fits_a_session() {
    let server = Server::new();
    let document = |name: String| rookery_store::RoomDocument { is_public: true, name, ..Default::default() };
    for number in 0..400 {
        let room = server.address(&format!("room{number:04}@{ROOM}"));
        server.finish(server.stores().rooms.put(room.as_ref(), document("<".repeat(4096)))).expect("stored");
    }
    server.restart();
    let mut alice = server.online("alice/a");
    let (mut found, mut set) = (0, String::new());
    loop {
        let query = format!("<query xmlns='http://jabber.org/protocol/disco#items'>{set}</query>");
        let page = ask(&mut alice, ROOM, "get", &query);
        assert!(rookery_xml::Writer::write(&page).bytes().len() < 256 * 1024);
        let query = page.child("query", ns::DISCO_ITEMS).unwrap();
        let rooms: Vec<_> = query.children().filter_map(|item| item.attr("jid")).collect();
        found += rooms.len();
        let Some(last) = rooms.last() else { break };
        set = format!("<set xmlns='{}'><after>{last}</after></set>", ns::RSM);
    }
    assert_eq!(found, 400);
}

/// The number of rooms with which a user can register is bounded, since each room keeps the user's
/// data.
#[test]
fn a_user_registers_with_as_many_rooms_as_it_may() {
    let mut s = RoomScene::with_options(vec![number("registrations_per_account", 2)]);
    let form = |nick: &str| {
        format!(
            "<query xmlns='jabber:iq:register'><x xmlns='jabber:x:data' type='submit'>\
             <field var='muc#register_roomnick'><value>{nick}</value></field></x></query>"
        )
    };
    let mut outcomes = Vec::new();
    for (room, fields) in [("a", ""), ("b", "membersonly=1"), ("c", ""), ("d", "membersonly=1")] {
        assert_eq!(enter(&mut s.crone, room), None);
        assert_eq!(configure_room(&mut s.crone, room, &format!("persistentroom=1 {fields}")), "result");
        outcomes.push(outcome(&ask(&mut s.hag, &format!("{room}@{ROOM}"), "set", &form("hecate"))));
    }
    assert_eq!(outcomes, ["result", "result", "resource-constraint", "resource-constraint"]);
    assert_eq!(outcome(&ask(&mut s.hag, &format!("a@{ROOM}"), "set", &form("other"))), "result", "another nick there");
    let remove = "<query xmlns='jabber:iq:register'><remove/></query>";
    assert_eq!(outcome(&ask(&mut s.hag, &format!("b@{ROOM}"), "set", remove)), "result");
    assert_eq!(outcome(&ask(&mut s.hag, &format!("c@{ROOM}"), "set", &form("hecate"))), "result");
}

fn invite(from: &mut Client, users: &[&str]) {
    let invites: String = users.iter().map(|user| format!("<invite to='{user}'/>")).collect();
    from.send(&format!("<message to='{COVEN}'><x xmlns='{}'>{invites}</x></message>", ns::MUC_USER));
    from.pump();
}

fn is_invitation(stanza: &Element) -> bool {
    stanza.child("x", ns::MUC_USER).is_some_and(|x| x.child("invite", ns::MUC_USER).is_some())
}

/// A room doesn't get past the block list of a user.
#[test]
fn whom_somebody_blocks_has_no_room_invite_it() {
    let mut s = RoomScene::open_scene();
    join(&mut s.wiccarocks, "secondwitch");
    s.hush();
    let block =
        |jid: &str| format!("<iq type='set' id='b'><block xmlns='urn:xmpp:blocking'><item jid='{jid}'/></block></iq>");
    let crone = s.crone.bare().to_owned();
    s.hag.send(&block(&crone));
    s.hush();
    let hag = s.hag.bare().to_owned();
    invite(&mut s.crone, &[&hag]);
    s.hag.expect_nothing();
    s.crone.expect_nothing();
    invite(&mut s.wiccarocks, &[&hag]);
    assert!(is_invitation(&s.hag.expect_element()), "others invite as ever");
    // A user who becomes a member of a members-only room is also invited.
    configure(&mut s.crone, "membersonly=1");
    s.hush();
    let member = s.with_names("<item affiliation='member' jid='HAG'/>");
    assert_eq!(outcome(&administer(&mut s.crone, "set", &member)), "result");
    s.hag.expect_nothing();
    // The room doesn't tell her of a new affiliation either, and messages to her nick don't reach
    // her.
    let mut s = RoomScene::open_scene().all_in();
    let crone = s.crone.bare().to_owned();
    s.wiccarocks.send(&block(&crone));
    s.hush();
    let whisper = format!("<message to='{COVEN}/secondwitch' type='chat' id='w'><body>psst</body></message>");
    s.crone.send(&whisper);
    s.wiccarocks.expect_nothing();
    s.crone.expect_nothing();
    s.hag.send(&whisper);
    assert_eq!(s.wiccarocks.bodies(), ["psst"], "others whisper as ever");
    leave(&mut s.wiccarocks, "secondwitch");
    s.hush();
    for affiliation in ["member", "none", "outcast"] {
        let items = s.with_names(&format!("<item affiliation='{affiliation}' jid='WICCA'/>"));
        assert_eq!(outcome(&administer(&mut s.crone, "set", &items)), "result");
    }
    s.wiccarocks.expect_nothing();
    // A declined invitation would go in the opposite direction.
    let mut s = RoomScene::open_scene();
    let (crone, hag) = (s.crone.bare().to_owned(), s.hag.bare().to_owned());
    invite(&mut s.crone, &[&hag]);
    s.hush();
    s.crone.send(&block(&hag));
    s.hush();
    let decline = format!("<decline to='{crone}'><reason>and more</reason></decline>");
    s.hag.send(&format!("<message to='{COVEN}'><x xmlns='{}'>{decline}</x></message>", ns::MUC_USER));
    s.hag.pump();
    s.crone.expect_nothing();
}

#[test]
fn invitations_have_a_number_and_a_rate() {
    let mut s = RoomScene::with_options(vec![number("invitations_per_minute", 2)]).open("");
    let users: Vec<_> = (0..21).map(|number| format!("u{number}@far.example")).collect();
    let users: Vec<_> = users.iter().map(String::as_str).collect();
    invite(&mut s.crone, &users);
    s.crone_hears(&["ROOM message/error not-acceptable"]);
    let hag = s.hag.bare().to_owned();
    let count = |s: &mut RoomScene, times: usize| {
        (0..times).for_each(|_| invite(&mut s.crone, &[&hag]));
        let refused = take_stanzas(&mut s.crone).iter().filter(|text| text.ends_with("resource-constraint")).count();
        (s.hag.all().iter().filter(|found| is_invitation(found)).count(), refused)
    };
    assert_eq!(count(&mut s, 15), (10, 5), "five minutes' worth at once");
    // Neither another room nor a change of affiliations gets around the rate.
    s.crone.send(&format!("<presence to='b@{ROOM}/n'><x xmlns='http://jabber.org/protocol/muc'/></presence>"));
    s.crone.all();
    configure_room(&mut s.crone, "b", "membersonly=1");
    let member = s.with_names(
        "<query xmlns='http://jabber.org/protocol/muc#admin'><item affiliation='member' jid='HAG'/></query>",
    );
    assert_eq!(outcome(&ask(&mut s.crone, &format!("b@{ROOM}"), "set", &member)), "result");
    s.hag.expect_nothing();
    s.server.advance(60_000);
    assert_eq!(count(&mut s, 4), (2, 2));
}

/// §7.7, §7.6, §17.4: stanzas other than messages also have a rate, which doesn't start again when
/// a user leaves and enters.
#[test]
fn occupants_stir_no_faster_than_they_may() {
    let mut s = RoomScene::with_options(vec![number("requests_per_second", 2)]).open("").all_in();
    s.server.advance(10_000);
    s.hush();
    let show = |s: &mut RoomScene, times: usize| {
        for number in 0..times {
            s.hag.send(&format!("<presence to='{COVEN}/thirdwitch'><status>{number}</status></presence>"));
        }
        let refused = take_stanzas(&mut s.hag).iter().filter(|text| text.ends_with("resource-constraint")).count();
        (take_stanzas(&mut s.crone).len(), refused)
    };
    // Each presence costs two of the ten requests that may come at once.
    assert_eq!(show(&mut s, 8), (5, 3));
    s.hag.send(&format!("<presence to='{COVEN}/fourthwitch'/>"));
    s.hag_hears(&["fourthwitch presence/error resource-constraint"]);
    let info = "<query xmlns='http://jabber.org/protocol/disco#info'/>";
    assert_eq!(outcome(&ask(&mut s.hag, &format!("{COVEN}/firstwitch"), "get", info)), "resource-constraint");
    assert_eq!(outcome(&ask(&mut s.hag, COVEN, "get", info)), "resource-constraint");
    s.crone.expect_nothing();
    let ping = "<ping xmlns='urn:xmpp:ping'/>";
    assert_eq!(outcome(&ask(&mut s.hag, &format!("{COVEN}/thirdwitch"), "get", ping)), "result", "it is still there");
    leave(&mut s.hag, "thirdwitch");
    s.hush();
    join(&mut s.hag, "thirdwitch");
    s.hag_hears(&["thirdwitch presence/error resource-constraint"]);
    assert_eq!(show(&mut s, 0).0, 0);
    s.server.advance(5000);
    join(&mut s.hag, "thirdwitch");
    s.hush();
    assert_eq!(show(&mut s, 8), (4, 4), "having entered costs too");
    // Others can still ask.
    assert_eq!(outcome(&ask(&mut s.wiccarocks, COVEN, "get", info)), "result");
}

/// A presence that hundreds of occupants get costs more than one that few get.
#[test]
fn what_many_hear_of_is_slower() {
    let options = vec![("rooms", "requests_per_second", Value::Number(2))];
    let mut s = RoomScene::with(Config { options, federates: true, ..Config::default() }).open("");
    let mut passed = Vec::new();
    for occupants in [0, 300] {
        for number in 0..occupants {
            s.server.incoming(&format!(
                "<presence from='u{number}@far.example/r' to='{COVEN}/n{number}'><x xmlns='http://jabber.org/protocol/muc'/></presence>"
            ));
        }
        s.hush();
        s.server.take_left();
        s.server.advance(60_000);
        for number in 0..6 {
            s.crone
                .send(&format!("<presence to='{COVEN}/firstwitch'><status>{occupants} {number}</status></presence>"));
        }
        passed.push(take_stanzas(&mut s.crone).iter().filter(|text| text.contains(" 110")).count());
        s.server.take_left();
    }
    assert_eq!(passed, [5, 2]);
}

/// Clients that enter rooms, ask all occupants for their vCards and sometimes change their presence
/// don't notice the rate.
#[test]
fn ordinary_clients_are_never_too_fast() {
    let mut s = RoomScene::open_scene().all_in();
    for number in 0..200 {
        s.hag.send(&format!("<iq to='{COVEN}/firstwitch' type='get' id='v{number}'><vCard xmlns='vcard-temp'/></iq>"));
    }
    for show in ["away", "xa", "away", "dnd", "chat"] {
        s.hag.send(&format!("<presence to='{COVEN}/thirdwitch'><show>{show}</show></presence>"));
        s.hag.send(&format!("<presence to='{COVEN}/{show}'/>"));
        s.hag.send(&format!("<presence to='{COVEN}/thirdwitch'/>"));
    }
    let found = take_stanzas(&mut s.hag);
    assert!(!found.iter().any(|text| text.contains("constraint")), "{found:?}");
}

/// A form with owners of long addresses must fit into a session; `muc#admin` has the longer lists.
#[test]
fn a_form_with_many_owners_fits_a_session() {
    let mut s = RoomScene::open_scene();
    let local = "o".repeat(1000);
    for part in 0..4 {
        let owner = |number: usize| format!("<item affiliation='owner' jid='{local}{part}.{number:03}@far.example'/>");
        let items: String = (0..150).map(owner).collect();
        assert_eq!(outcome(&administer(&mut s.crone, "set", &items)), "result");
    }
    let form = ask(&mut s.crone, COVEN, "get", "<query xmlns='http://jabber.org/protocol/muc#owner'/>");
    assert!(rookery_xml::Writer::write(&form).bytes().len() < 256 * 1024);
    let x = form.child("query", ns::MUC_OWNER).unwrap().child("x", ns::DATA_FORMS).unwrap();
    let has = |var: &str| x.children().any(|field| field.attr("var") == Some(var));
    assert!(has("muc#roomconfig_roomadmins") && !has("muc#roomconfig_roomowners"));
    let list = administer(&mut s.crone, "get", "<item affiliation='owner'/>");
    assert!(list.child("query", ns::MUC_ADMIN).unwrap().child("set", ns::RSM).is_some(), "in parts");
}

/// A stranger who asks rooms from outside has one rate for all rooms, and others don't notice it.
#[test]
fn strangers_ask_no_faster_than_they_may() {
    let mut s = RoomScene::with_options(vec![number("requests_per_second", 2)]).open("");
    s.server.advance(10_000);
    let info = "<query xmlns='http://jabber.org/protocol/disco#info'/>";
    let items = "<query xmlns='http://jabber.org/protocol/disco#items'/>";
    let asked: Vec<_> =
        [(COVEN, info), (ROOM, items), (COVEN, items), (ROOM, info)].into_iter().cycle().take(12).collect();
    let outcomes: Vec<_> = asked.iter().map(|(to, query)| outcome(&ask(&mut s.hag, to, "get", query))).collect();
    assert_eq!(outcomes.iter().filter(|outcome| *outcome == "result").count(), 10);
    assert_eq!(outcomes[10..], ["resource-constraint", "resource-constraint"]);
    assert_eq!(outcome(&ask(&mut s.wiccarocks, COVEN, "get", info)), "result");
    s.server.advance(1000);
    assert_eq!(outcome(&ask(&mut s.hag, COVEN, "get", info)), "result");
}

/// A list of roles has each role once, even if a form repeats it.
#[test]
fn roles_are_listed_once() {
    let mut s = RoomScene::open_scene();
    let roles = ["visitor"; 2000].join("+") + "+moderator";
    assert_eq!(outcome(&configure(&mut s.crone, &format!("presencebroadcast={roles}"))), "result");
    let form = ask(&mut s.crone, COVEN, "get", "<query xmlns='http://jabber.org/protocol/muc#owner'/>");
    let x = form.child("query", ns::MUC_OWNER).unwrap().child("x", ns::DATA_FORMS).unwrap();
    let field = x.children().find(|field| field.attr("var") == Some("muc#roomconfig_presencebroadcast")).unwrap();
    let values: Vec<_> = field.children().filter(|child| child.name() == "value").map(Element::text).collect();
    assert_eq!(values, ["moderator", "visitor"]);
}
