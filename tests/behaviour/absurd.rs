//! Numbers, lists and forms that nobody needs.

use rookery_hub::Value;
use rookery_jid::Jid;
use rookery_store::pubsub::NodeRoom;
use rookery_store::{Affiliated, Affiliation, RoomDocument};
use rookery_testkit::{Client, Config, Server};
use rookery_xml::{Element, ns};

const ITEMS: &str = "http://jabber.org/protocol/disco#items";
const PUBSUB: &str = "http://jabber.org/protocol/pubsub";

/// Returns the condition of an error; `None` of a result.
fn condition(answer: &Element) -> Option<String> {
    let error = answer.child("error", ns::CLIENT)?;
    error
        .children()
        .find(|child| child.ns() == ns::STANZA_ERRORS && child.name() != "text")
        .map(|child| child.name().to_owned())
}

fn ask(client: &mut Client, to: &str, type_: &str, payload: &str) -> Element {
    client.ask(&format!("<iq type='{type_}' id='q' to='{to}'>{payload}</iq>"))
}

fn disco(client: &mut Client, to: &str, set: &str) -> Element {
    ask(client, to, "get", &format!("<query xmlns='{ITEMS}'>{set}</query>"))
}

fn items(answer: &Element) -> Vec<String> {
    let query = answer.child("query", ITEMS).expect("a list");
    query.children().filter_map(|item| item.attr("jid").map(str::to_owned)).collect()
}

/// A client lists 3000 rooms: those that don't fit into one reply come page by page (XEP-0059),
/// each room once.
#[test]
fn three_thousand_rooms_are_listed() {
    let server = Server::new();
    let document = RoomDocument { is_public: true, ..RoomDocument::default() };
    for number in 0..3000 {
        let room = server.address(&format!("room{number:04}@conference.example.org"));
        server.finish(server.stores().rooms.put(room.as_ref(), document.clone())).expect("stored");
    }
    server.restart();
    let mut alice = server.online("alice/a");
    let first = disco(&mut alice, "conference.example.org", "");
    assert_eq!(condition(&first), None);
    let mut found = items(&first);
    while found.len() < 3000 {
        let last = found.last().expect("a page has rooms").clone();
        let set = format!("<set xmlns='http://jabber.org/protocol/rsm'><max>1000</max><after>{last}</after></set>");
        let page = items(&disco(&mut alice, "conference.example.org", &set));
        assert!(!page.is_empty() && page.len() <= 1000, "{}", page.len());
        found.extend(page);
    }
    let mut sorted = found.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!((found.len(), sorted.len()), (3000, 3000));
    alice.expect_alive();
}

/// The same of 3000 nodes (XEP-0060 §5.2), every third of which only its owner may see.
#[test]
fn three_thousand_nodes_are_listed() {
    let server = Server::new();
    let mut alice = server.online("alice/a");
    let (host, owner) = (Jid::parse("pubsub.example.org").expect("an address"), server.address("bob"));
    alice.send(&format!(
        "<iq type='set' id='1' to='{host}'><pubsub xmlns='{PUBSUB}'><create node='closed'/><configure>\
         <x xmlns='jabber:x:data' type='submit'><field var='pubsub#access_model'><value>whitelist</value></field></x>\
         </configure></pubsub></iq>"
    ));
    alice.expect_element();
    let closed = server.finish(server.stores().pubsub.node(host.as_ref(), "closed")).unwrap().expect("a node").config;
    for number in 0..3000 {
        let config = if number % 3 == 0 { closed.clone() } else { Vec::new() };
        let node = format!("node{number:04}");
        server
            .finish(server.stores().pubsub.create_node(host.as_ref(), &node, config, owner.as_ref(), NodeRoom::ANY))
            .expect("stored");
    }
    let nodes = |answer: &Element| -> Vec<String> {
        let query = answer.child("query", ITEMS).unwrap_or_else(|| panic!("a list: {answer:?}"));
        query.children().filter_map(|item| item.attr("node").map(str::to_owned)).collect()
    };
    let mut carol = server.online("carol/c");
    let first = disco(&mut carol, host.as_str(), "");
    let mut found = nodes(&first);
    assert!(first.child("query", ITEMS).and_then(|query| query.child("set", ns::RSM)).is_some(), "it is a part");
    loop {
        let last = found.last().expect("nodes").clone();
        let page = nodes(&disco(
            &mut carol,
            host.as_str(),
            &format!("<set xmlns='{}'><max>700</max><after>{last}</after></set>", ns::RSM),
        ));
        if page.is_empty() {
            break;
        }
        assert!(page.len() <= 700);
        found.extend(page);
    }
    let wanted: Vec<_> = (0..3000).filter(|number| number % 3 != 0).map(|number| format!("node{number:04}")).collect();
    assert_eq!(found, wanted, "each once, and none that she may not see");
    let last = disco(&mut carol, host.as_str(), &format!("<set xmlns='{}'><before/></set>", ns::RSM));
    assert_eq!(condition(&last).as_deref(), Some("feature-not-implemented"));
}

/// XEP-0059 wherever there are pages: texts that aren't numbers, too large numbers, and SQL.
#[test]
fn pages_with_absurd_numbers_are_refused_or_bounded() {
    let server = Server::new();
    let mut alice = server.online("alice/a");
    alice.send("<presence to='coven@conference.example.org/n'><x xmlns='http://jabber.org/protocol/muc'/></presence>");
    alice.all();
    let create =
        ask(&mut alice, "pubsub.example.org", "set", &format!("<pubsub xmlns='{PUBSUB}'><create node='n'/></pubsub>"));
    assert_eq!(condition(&create), None);
    let own = alice.bare().to_owned();
    let publish = format!(
        "<pubsub xmlns='{PUBSUB}'><publish node='own'><item id='i'><a xmlns='urn:a'/></item></publish></pubsub>"
    );
    assert_eq!(condition(&ask(&mut alice, &own, "set", &publish)), None);
    let sets = [
        ("<max>-1</max>", true),
        ("<max>1e9</max>", true),
        ("<max>x</max>", true),
        ("<max>99999999999999999999999999</max>", false),
        ("<max>1; DROP TABLE rooms</max>", true),
        ("<max>5</max><after>' OR 1=1 --</after>", false),
        ("<max>5</max><before>\"); DELETE FROM archive_messages; --</before>", false),
        ("<max>5</max><index>-7</index>", true),
        ("<max>5</max><index>18446744073709551616</index>", false),
    ];
    for (set, is_wrong) in sets {
        let set = format!("<set xmlns='http://jabber.org/protocol/rsm'>{set}</set>");
        let places = [
            ("conference.example.org", "get", format!("<query xmlns='{ITEMS}'>{set}</query>")),
            (own.as_str(), "set", format!("<query xmlns='urn:xmpp:mam:2'>{set}</query>")),
            ("coven@conference.example.org", "set", format!("<query xmlns='urn:xmpp:mam:2'>{set}</query>")),
            ("pubsub.example.org", "get", format!("<pubsub xmlns='{PUBSUB}'><items node='n'/>{set}</pubsub>")),
            ("pubsub.example.org", "get", format!("<query xmlns='{ITEMS}'>{set}</query>")),
            (own.as_str(), "get", format!("<pubsub xmlns='{PUBSUB}'><items node='own'/>{set}</pubsub>")),
        ];
        for (to, type_, payload) in places {
            let answer = ask(&mut alice, to, type_, &payload);
            let condition = condition(&answer);
            let allowed = ["bad-request", "item-not-found", "feature-not-implemented"];
            assert!(
                condition.as_deref().is_none_or(|condition| allowed.contains(&condition)),
                "{to}: {set}: {condition:?}"
            );
            assert!(!is_wrong || condition.is_some(), "{to}: {set}: {answer:?}");
        }
    }
    alice.expect_alive();
    let rooms = disco(&mut alice, &own, "");
    assert_eq!(condition(&rooms), None, "all is still there");
}

/// An item of the largest size that is allowed, and one that is a byte larger.
#[test]
fn items_have_a_largest_size() {
    let options = vec![("pubsub", "item_bytes", Value::Number(1000))];
    let server = Server::with(Config { options, ..Config::default() });
    let mut alice = server.online("alice/a");
    let publish = |length: usize| {
        let payload = format!("<a xmlns='urn:a'>{}</a>", "x".repeat(length));
        (
            payload.len(),
            format!("<pubsub xmlns='{PUBSUB}'><publish node='n'><item id='i'>{payload}</item></publish></pubsub>"),
        )
    };
    let room = 1000 - publish(0).0;
    let (size, fits) = publish(room);
    assert_eq!(size, 1000);
    assert_eq!(condition(&ask(&mut alice, "pubsub.example.org", "set", &fits)), None);
    let answer = ask(&mut alice, "pubsub.example.org", "set", &publish(room + 1).1);
    assert_eq!(condition(&answer).as_deref(), Some("not-acceptable"));
    let error = answer.child("error", ns::CLIENT).expect("an error");
    assert!(error.child("payload-too-big", ns::PUBSUB_ERRORS).is_some(), "{answer:?}");
}

/// A thousand fields, wherever a form is read.
#[test]
fn forms_of_a_thousand_fields_are_refused() {
    let options = vec![("register", "allow_creation", Value::Switch(true))];
    let server = Server::with(Config { options, ..Config::default() });
    let mut alice = server.online("alice/a");
    alice.send("<presence to='coven@conference.example.org/n'><x xmlns='http://jabber.org/protocol/muc'/></presence>");
    alice.all();
    ask(&mut alice, "pubsub.example.org", "set", &format!("<pubsub xmlns='{PUBSUB}'><create node='n'/></pubsub>"));
    let fields: String = (0..1000).map(|n| format!("<field var='f{n}'><value>{n}</value></field>")).collect();
    let form = format!("<x xmlns='jabber:x:data' type='submit'>{fields}</x>");
    let owner = "http://jabber.org/protocol/pubsub#owner";
    let own = alice.bare().to_owned();
    let item = "<publish node='p'><item id='i'><a xmlns='urn:a'/></item></publish>";
    assert_eq!(condition(&ask(&mut alice, &own, "set", &format!("<pubsub xmlns='{PUBSUB}'>{item}</pubsub>"))), None);
    for (to, payload) in [
        ("coven@conference.example.org", format!("<query xmlns='http://jabber.org/protocol/muc#owner'>{form}</query>")),
        ("pubsub.example.org", format!("<pubsub xmlns='{owner}'><configure node='n'>{form}</configure></pubsub>")),
        (
            "pubsub.example.org",
            format!("<pubsub xmlns='{PUBSUB}'><create node='m'/><configure>{form}</configure></pubsub>"),
        ),
        (
            "pubsub.example.org",
            format!("<pubsub xmlns='{PUBSUB}'><subscribe node='n' jid='{own}'/><options>{form}</options></pubsub>"),
        ),
        (own.as_str(), format!("<query xmlns='urn:xmpp:mam:2'>{form}</query>")),
        ("coven@conference.example.org", format!("<query xmlns='jabber:iq:register'>{form}</query>")),
        (own.as_str(), format!("<pubsub xmlns='{PUBSUB}'>{item}<publish-options>{form}</publish-options></pubsub>")),
        (own.as_str(), format!("<pubsub xmlns='{owner}'><configure node='p'>{form}</configure></pubsub>")),
    ] {
        let answer = ask(&mut alice, to, "set", &payload);
        let condition = condition(&answer);
        assert!(matches!(condition.as_deref(), Some("bad-request" | "not-acceptable")), "{to}: {condition:?}");
    }
    alice.expect_alive();
}

/// A member list of a hundred thousand: the room works, and a list that doesn't fit into one stanza
/// comes in parts.
#[test]
fn a_hundred_thousand_members_come_in_parts() {
    let server = Server::new();
    let mut alice = server.online("alice/a");
    let room = server.address("coven@conference.example.org");
    let stores = server.stores();
    alice.send(&format!("<presence to='{room}/n'><x xmlns='http://jabber.org/protocol/muc'/></presence>"));
    alice.all();
    let fields = ["persistentroom", "membersonly"]
        .map(|name| format!("<field var='muc#roomconfig_{name}'><value>1</value></field>"))
        .concat();
    let config = format!(
        "<query xmlns='http://jabber.org/protocol/muc#owner'><x xmlns='jabber:x:data' type='submit'>\
         <field var='FORM_TYPE'><value>http://jabber.org/protocol/muc#roomconfig</value></field>{fields}</x></query>"
    );
    assert_eq!(condition(&ask(&mut alice, room.as_str(), "set", &config)), None);
    let member = |number: usize| Affiliated {
        user: server.address(&format!("u{number}@far.example")),
        affiliation: Affiliation::Member,
        nick: None,
        reason: None,
    };
    assert_eq!(server.finish(stores.rooms.affiliate(room.as_ref(), (0..100_000).map(member).collect())), Ok(true));
    server.restart();
    let mut alice = server.online("alice/a");
    let mut bob = server.online("bob/b");
    alice.send(&format!("<presence to='{room}/n'><x xmlns='http://jabber.org/protocol/muc'/></presence>"));
    assert!(alice.all().iter().any(|stanza| stanza.attr("type").is_none()), "the owner is in");
    bob.send(&format!("<presence to='{room}/b'><x xmlns='http://jabber.org/protocol/muc'/></presence>"));
    assert_eq!(condition(&bob.expect_element()).as_deref(), Some("registration-required"));
    let admin = |items: &str| format!("<query xmlns='http://jabber.org/protocol/muc#admin'>{items}</query>");
    let list = admin("<item affiliation='member'/>");
    assert_eq!(condition(&ask(&mut bob, room.as_str(), "get", &list)).as_deref(), Some("forbidden"));
    let mut set = String::new();
    for page in 0..5 {
        let list = admin(&format!("<item affiliation='member'/>{set}"));
        let part = ask(&mut alice, room.as_str(), "get", &list);
        let query = part.child("query", "http://jabber.org/protocol/muc#admin").expect("a list");
        let found: Vec<_> = query.children().filter_map(|item| item.attr("jid")).collect();
        let told = query.child("set", ns::RSM).expect("it says that it is a part");
        assert_eq!(told.child_text("count", ns::RSM).as_deref(), Some("100000"));
        assert!(found.len() > 1000 && rookery_xml::Writer::write(&part).bytes().len() < 256 * 1024, "{page}");
        set = format!("<set xmlns='{}'><after>{}</after></set>", ns::RSM, found.last().expect("members"));
    }
    let one_more = admin("<item affiliation='member' jid='bob@example.org'/>");
    let answer = condition(&ask(&mut alice, room.as_str(), "set", &one_more));
    assert_eq!(answer.as_deref(), Some("resource-constraint"));
    let one_less = admin("<item affiliation='none' jid='u7@far.example'/>");
    alice.send(&format!("<iq type='set' id='less' to='{room}'>{one_less}</iq>"));
    let heard = alice.all();
    assert!(heard.iter().any(|found| found.attr("id") == Some("less") && found.attr("type") == Some("result")));
    alice.expect_alive();
}
