//! Components that act for accounts (XEP-0356), and in place of the server (XEP-0355).

use rookery_federation::Address;
use rookery_hub::{Privileges, RequestTypes};
use rookery_testkit::{Client, Config, Internet, Server, client};
use rookery_xml::Element;

const BRIDGE: &str = "bridge.example.org";
const OTHER: &str = "other.example.org";
const PUBSUB: &str = "http://jabber.org/protocol/pubsub";
const OWNER: &str = "http://jabber.org/protocol/pubsub#owner";

fn all() -> Privileges {
    Privileges {
        roster: RequestTypes::BOTH,
        roster_pushes: false,
        messages: true,
        presence: true,
        roster_presence: false,
        requests: vec![
            (PUBSUB.to_owned(), RequestTypes::BOTH),
            (OWNER.to_owned(), RequestTypes { get: false, set: true }),
        ],
        delegated: vec!["urn:example:service".to_owned()],
    }
}

struct PrivilegeScene {
    server: Server,
    bridge: Client,
    romeo: Client,
}

impl PrivilegeScene {
    fn with(privileges: Privileges) -> Self {
        let server = Server::with(Config {
            shards: 3,
            components: vec![BRIDGE.to_owned(), OTHER.to_owned()],
            privileges: vec![(BRIDGE.to_owned(), privileges)],
            ..Config::default()
        });
        let romeo = server.online("romeo/orchard");
        let mut bridge = server.component(BRIDGE);
        bridge.all();
        Self { server, bridge, romeo }
    }
}

fn received_xml(client: &mut Client) -> String {
    client.all().iter().map(client::xml).collect()
}

fn privileged_message(from: &str, to: &str) -> String {
    format!(
        "<message from='{BRIDGE}' to='example.org' id='w'><privilege xmlns='urn:xmpp:privilege:2'>\
         <forwarded xmlns='urn:xmpp:forward:0'><message xmlns='jabber:client' type='chat' from='{from}' to='{to}' id='m'>\
         <body>from elsewhere</body></message></forwarded></privilege></message>"
    )
}

fn privileged_iq(to: &str, type_: &str, inner: &str) -> String {
    format!(
        "<iq type='{type_}' id='o' from='{BRIDGE}' to='{to}'>\
         <privileged_iq xmlns='urn:xmpp:privilege:2'>{inner}</privileged_iq></iq>"
    )
}

#[test]
fn a_component_is_told_what_it_may() {
    let mut scene = PrivilegeScene::with(all());
    let mut bridge = scene.server.component(BRIDGE);
    // Either connection of the component may be the one that is told.
    let told = received_xml(&mut bridge) + &received_xml(&mut scene.bridge);
    for part in [
        "<perm access='roster' type='both' push='false'/>",
        "<perm access='message' type='outgoing'/>",
        "<perm access='presence' type='managed_entity'/>",
        &format!("<namespace ns='{OWNER}' type='set'/>"),
        "<delegated namespace='urn:example:service'/>",
        "from='example.org'",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let mut other = scene.server.component(OTHER);
    other.expect_nothing();
}

#[test]
fn a_bridge_keeps_its_users_in_the_roster() {
    let mut scene = PrivilegeScene::with(all());
    let romeo = scene.romeo.bare().to_owned();
    scene.romeo.ask("<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>");
    let set = |from: &str, item: &str| {
        format!("<iq type='set' id='s' from='{from}' to='{romeo}'><query xmlns='jabber:iq:roster'>{item}</query></iq>")
    };
    scene.bridge.send(&set(
        BRIDGE,
        "<item jid='a@bridge.example.org' name='Ann' subscription='both'><group>Bridge</group></item>",
    ));
    assert!(received_xml(&mut scene.bridge).contains("type='result'"));
    let push = received_xml(&mut scene.romeo);
    assert!(push.contains("jid='a@bridge.example.org'") && push.contains("subscription='both'"), "{push}");
    // A bridge can only set subscriptions to its own users.
    scene.bridge.send(&set(BRIDGE, "<item jid='paris@example.org' subscription='both'/>"));
    scene.bridge.all();
    let push = received_xml(&mut scene.romeo);
    assert!(push.contains("paris@example.org") && push.contains("subscription='none'"), "{push}");
    let get = format!("<iq type='get' id='g' from='{BRIDGE}' to='{romeo}'><query xmlns='jabber:iq:roster'/></iq>");
    scene.bridge.send(&get);
    let told = received_xml(&mut scene.bridge);
    assert!(told.contains("name='Ann'") && told.contains(&format!("from='{romeo}'")), "{told}");
    scene.bridge.send(&set(BRIDGE, "<item jid='a@bridge.example.org' subscription='remove'/>"));
    assert!(received_xml(&mut scene.bridge).contains("type='unsubscribe"));
    // The component's users have no such right, nor has another component.
    scene.bridge.send(&get.replace(BRIDGE, "a@bridge.example.org"));
    assert!(received_xml(&mut scene.bridge).contains("type='error'"));
    let mut other = scene.server.component(OTHER);
    other.send(&set(OTHER, "<item jid='b@other.example.org' subscription='both'/>"));
    assert!(received_xml(&mut other).contains("<forbidden"));
}

/// A subscription that a client sets in its own roster is ignored.
#[test]
fn a_client_subscribes_nobody_by_its_roster() {
    let mut scene = PrivilegeScene::with(all());
    scene.romeo.ask("<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>");
    scene.romeo.send(
        "<iq type='set' id='s'><query xmlns='jabber:iq:roster'>\
         <item jid='juliet@example.org' subscription='both'/></query></iq>",
    );
    let told = received_xml(&mut scene.romeo);
    assert!(told.contains("subscription='none'") && !told.contains("subscription='both'"), "{told}");
}

#[test]
fn roster_access_is_as_wide_as_it_was_given() {
    let mut scene =
        PrivilegeScene::with(Privileges { roster: RequestTypes { get: true, set: false }, ..Privileges::default() });
    let romeo = scene.romeo.bare().to_owned();
    for (type_, expected) in [("get", "type='result'"), ("set", "<forbidden")] {
        let item = if type_ == "set" { "<item jid='a@bridge.example.org'/>" } else { "" };
        scene.bridge.send(&format!(
            "<iq type='{type_}' id='g' from='{BRIDGE}' to='{romeo}'><query xmlns='jabber:iq:roster'>{item}</query></iq>"
        ));
        let told = received_xml(&mut scene.bridge);
        assert!(told.contains(expected), "{type_}: {told}");
    }
}

/// A component is told of changes to rosters if it may read them and wants to know, no matter who
/// makes the changes and whether a client is online.
#[test]
fn a_component_hears_of_changes_of_rosters() {
    let item = |rest: &str| format!("<query xmlns='jabber:iq:roster'><item jid='juliet@example.org'{rest}/></query>");
    for (roster, is_told) in [(RequestTypes::BOTH, true), (RequestTypes { get: false, set: true }, false)] {
        let privileges = Privileges { roster, roster_pushes: true, ..Privileges::default() };
        let mut scene = PrivilegeScene::with(privileges.clone());
        let mut again = scene.server.component(BRIDGE);
        let told = received_xml(&mut again) + &received_xml(&mut scene.bridge);
        assert!(told.contains(&format!("push='{is_told}'")), "{told}");
        let owner = scene.romeo.bare().to_owned();
        scene.romeo.send(&format!("<iq type='set' id='s'>{}</iq>", item(" name='Juliet'")));
        let heard = |scene: &mut PrivilegeScene, again: &mut Client| {
            scene.bridge.all().into_iter().chain(again.all()).collect()
        };
        let pushes: Vec<Element> = heard(&mut scene, &mut again);
        assert_eq!(pushes.len(), usize::from(is_told), "{pushes:?}");
        for push in &pushes {
            assert_eq!(
                (push.attr("type"), push.attr("from"), push.attr("to")),
                (Some("set"), Some(&*owner), Some(BRIDGE))
            );
            assert!(client::xml(push).contains("name='Juliet'"), "{push:?}");
            // The reply to the push goes to nobody.
            let id = push.attr("id").expect("an id");
            scene.bridge.send(&format!("<iq type='result' id='{id}' from='{BRIDGE}' to='{owner}'/>"));
        }
        // The component makes the change itself, while no client is online.
        scene.romeo.all();
        scene.romeo.close();
        scene.server.settle();
        let request = item(" name='J.'");
        scene.bridge.send(&format!("<iq type='set' id='o' from='{BRIDGE}' to='{owner}'>{request}</iq>"));
        let told: Vec<Element> = heard(&mut scene, &mut again);
        let text: String = told.iter().map(client::xml).collect();
        assert!(text.contains("id='o'") && text.contains("type='result'"), "{text}");
        assert_eq!(text.contains("name='J.'"), is_told, "{text}");
        scene.bridge.send(&format!(
            "<iq type='set' id='o' from='{BRIDGE}' to='{owner}'>{}</iq>",
            item(" subscription='remove'")
        ));
        let told: Vec<Element> = heard(&mut scene, &mut again);
        assert_eq!(told.iter().any(|push| client::xml(push).contains("subscription='remove'")), is_told, "{told:?}");
    }
}

/// Messages that a bridge sends for an account are in the account's archive, and its other clients
/// see them.
#[test]
fn messages_in_the_name_of_an_account_are_its_own() {
    let mut scene = PrivilegeScene::with(all());
    let mut juliet = scene.server.online("juliet/balcony");
    let (romeo, to) = (scene.romeo.bare().to_owned(), juliet.bare().to_owned());
    scene.romeo.ask("<iq type='set' id='e'><enable xmlns='urn:xmpp:carbons:2'/></iq>");
    scene.bridge.all();
    scene.bridge.send(&privileged_message(&romeo, &to));
    scene.bridge.expect_nothing();
    let told = received_xml(&mut juliet);
    assert!(told.contains(&format!("from='{romeo}'")) && told.contains("from elsewhere"), "{told}");
    let told = received_xml(&mut scene.romeo);
    assert!(told.contains("<sent") && told.contains("from elsewhere"), "{told}");
    scene.romeo.send("<iq type='set' id='a'><query xmlns='urn:xmpp:mam:2' queryid='q'/></iq>");
    let told = received_xml(&mut scene.romeo);
    assert!(told.contains("from elsewhere") && told.contains("<fin"), "{told}");
}

/// The sender must be the bare address of an account at the domain that the component sends the
/// message to (XEP-0356 §6.1).
#[test]
fn messages_in_other_names_are_forbidden() {
    let mut scene = PrivilegeScene::with(all());
    let mut juliet = scene.server.online("juliet/balcony");
    let (romeo, to) = (scene.romeo.full().to_owned(), juliet.bare().to_owned());
    for from in [&*romeo, "romeo@elsewhere.example", "a@conference.example.org", "example.org", "@@"] {
        scene.bridge.send(&privileged_message(from, &to));
        let told = received_xml(&mut scene.bridge);
        assert!(told.contains("<forbidden") && told.contains("id='w'"), "{from}: {told}");
    }
    let request = privileged_message("romeo@example.org", &to);
    scene.bridge.send(
        &request
            .replace("<message xmlns='jabber:client'", "<presence xmlns='jabber:client'")
            .replace("</body></message>", "</body></presence>"),
    );
    assert!(received_xml(&mut scene.bridge).contains("<forbidden"), "another kind than was wrapped");
    let mut other = scene.server.component(OTHER);
    other.send(&request.replace(BRIDGE, OTHER));
    assert!(received_xml(&mut other).contains("<forbidden"));
    scene.bridge.send(&request.replace(&format!("from='{BRIDGE}'"), "from='a@bridge.example.org'"));
    assert!(received_xml(&mut scene.bridge).contains("<forbidden"), "its users have no privileges");
    juliet.expect_nothing();
}

#[test]
fn requests_in_the_name_of_an_account_are_its_own() {
    let mut scene = PrivilegeScene::with(all());
    let romeo = scene.romeo.bare().to_owned();
    let publish = format!(
        "<iq xmlns='jabber:client' type='set' id='i' from='{romeo}'><pubsub xmlns='{PUBSUB}'><publish node='urn:n'>\
         <item id='1'><x xmlns='urn:x'/></item></publish></pubsub></iq>"
    );
    scene.bridge.send(&privileged_iq(&romeo, "set", &publish));
    let told = received_xml(&mut scene.bridge);
    assert!(told.contains("id='o'") && told.contains("type='result'") && told.contains("id='i'"), "{told}");
    scene.romeo.all();
    let items = format!("<pubsub xmlns='{PUBSUB}'><items node='urn:n'/></pubsub>");
    let own = client::xml(&scene.romeo.ask(&format!("<iq type='get' id='g'>{items}</iq>")));
    assert!(own.contains("<item id='1'"), "{own}");
    // An error comes back unchanged, in the inner and the outer stanza.
    let wrong = format!(
        "<iq xmlns='jabber:client' type='get' id='i'><pubsub xmlns='{PUBSUB}'><items node='urn:none'/></pubsub></iq>"
    );
    scene.bridge.send(&privileged_iq(&romeo, "get", &wrong));
    let told = received_xml(&mut scene.bridge);
    assert!(told.matches("item-not-found").count() == 2 && told.contains("<privilege"), "{told}");
    scene.romeo.expect_nothing();
}

/// The six cases that XEP-0356 §5 forbids, and more.
#[test]
fn requests_that_were_not_granted_are_forbidden() {
    let mut scene = PrivilegeScene::with(all());
    let romeo = scene.romeo.bare().to_owned();
    let iq = |type_: &str, from: &str, ns: &str| {
        format!("<iq xmlns='jabber:client' type='{type_}' id='i' from='{from}'><pubsub xmlns='{ns}'/></iq>")
    };
    let full = scene.romeo.full().to_owned();
    for (what, request) in [
        ("a namespace", privileged_iq(&romeo, "get", &iq("get", &romeo, "urn:other"))),
        ("a type of request", privileged_iq(&romeo, "get", &iq("get", &romeo, OWNER))),
        ("another type within", privileged_iq(&romeo, "get", &iq("set", &romeo, PUBSUB))),
        ("somebody else within", privileged_iq(&romeo, "get", &iq("get", "juliet@example.org", PUBSUB))),
        ("a session", privileged_iq(&full, "get", &iq("get", &romeo, PUBSUB))),
        ("the server itself", privileged_iq("example.org", "get", &iq("get", "example.org", PUBSUB))),
        ("nothing", privileged_iq(&romeo, "get", "")),
        (
            "a user of the component",
            privileged_iq(&romeo, "get", &iq("get", &romeo, PUBSUB)).replace(BRIDGE, "a@bridge.example.org"),
        ),
    ] {
        scene.bridge.send(&request);
        let told = received_xml(&mut scene.bridge);
        assert!(told.contains("<forbidden") && told.contains("id='o'"), "{what}: {told}");
    }
    let mut other = scene.server.component(OTHER);
    other.send(&privileged_iq(&romeo, "get", &iq("get", &romeo, PUBSUB)).replace(BRIDGE, OTHER));
    assert!(received_xml(&mut other).contains("<forbidden"));
    scene.romeo.expect_nothing();
}

#[test]
fn a_component_sees_who_is_available() {
    let mut scene = PrivilegeScene::with(all());
    let mut juliet = scene.server.online("juliet/balcony");
    let full = juliet.full().to_owned();
    assert!(received_xml(&mut scene.bridge).contains(&format!("from='{full}'")));
    juliet.send("<presence><show>away</show></presence>");
    assert!(received_xml(&mut scene.bridge).contains("<show>away</show>"));
    // A component also gets the presence of clients that were there before it.
    let mut again = scene.server.component(BRIDGE);
    let told = received_xml(&mut again) + &received_xml(&mut scene.bridge);
    assert!(told.contains(&format!("from='{full}'")) && told.contains(scene.romeo.full()), "{told}");
    juliet.close();
    let told = received_xml(&mut again) + &received_xml(&mut scene.bridge);
    assert!(told.contains("type='unavailable'"), "{told}");
    let mut other = scene.server.component(OTHER);
    scene.romeo.send("<presence/>");
    other.expect_nothing();
}

/// Returns two servers, the first of which has components, and a user of each. The users see each
/// other's presence.
fn neighbours(privileges: Privileges) -> (Server, Server, Client, Client) {
    neighbours_on(&Internet::default(), privileges)
}

fn neighbours_on(internet: &Internet, privileges: Privileges) -> (Server, Server, Client, Client) {
    let names = |domain: &str| vec![domain.to_owned()];
    let a = Server::with(Config {
        domains: names("example.org"),
        components: vec![BRIDGE.to_owned(), OTHER.to_owned()],
        privileges: vec![(BRIDGE.to_owned(), privileges)],
        internet: Some(internet.meeting(&names("example.org"), |_| {})),
        ..Config::default()
    });
    let meeting = internet.meeting(&names("b.example"), |_| {});
    let b = Server::with(Config { domains: names("b.example"), internet: Some(meeting), ..Config::default() });
    let mut juliet = b.online("juliet@b.example/balcony");
    let mut romeo = a.online("romeo@example.org/orchard");
    juliet.send("<presence to='romeo@example.org' type='subscribe'/>");
    romeo.all();
    romeo.send("<presence to='juliet@b.example' type='subscribed'/>");
    romeo.send("<presence to='juliet@b.example' type='subscribe'/>");
    juliet.all();
    juliet.send("<presence to='romeo@example.org' type='subscribed'/>");
    romeo.all();
    juliet.all();
    (a, b, romeo, juliet)
}

/// XEP-0356 §7.2: a component gets the presence of contacts on other servers, each change once,
/// also while the account is away, and also if it connects later.
#[test]
fn a_component_sees_contacts_elsewhere() {
    let reader = Privileges { roster: RequestTypes::BOTH, roster_presence: true, ..Privileges::default() };
    let (a, b, mut romeo, mut juliet) = neighbours(reader);
    let mut bridge = a.component(BRIDGE);
    let told = received_xml(&mut bridge);
    assert!(told.contains("<perm access='presence' type='roster'/>"), "{told}");
    assert!(told.contains("from='juliet@b.example/balcony'"), "she was there before: {told}");
    assert!(told.contains("from='romeo@example.org/orchard'"), "accounts are seen, too: {told}");
    juliet.send("<presence><show>away</show></presence>");
    assert_eq!(received_xml(&mut bridge).matches("<show>away</show>").count(), 1);
    // Another account of this server sees her as well.
    let mut nurse = a.online("nurse@example.org/hall");
    nurse.send("<presence to='juliet@b.example' type='subscribe'/>");
    juliet.all();
    juliet.send("<presence to='nurse@example.org' type='subscribed'/>");
    nurse.all();
    received_xml(&mut bridge);
    juliet.send("<presence><show>dnd</show></presence>");
    assert_eq!(received_xml(&mut bridge).matches("<show>dnd</show>").count(), 1, "once");
    // From here on, no account that sees her is online.
    romeo.close();
    nurse.close();
    a.settle();
    received_xml(&mut bridge);
    juliet.send("<presence><show>xa</show></presence>");
    assert_eq!(received_xml(&mut bridge).matches("<show>xa</show>").count(), 1);
    juliet.close();
    b.settle();
    let told = received_xml(&mut bridge);
    assert!(told.contains("type='unavailable'") && told.contains("juliet@b.example/balcony"), "{told}");
    let mut again = a.component(BRIDGE);
    let told = received_xml(&mut again) + &received_xml(&mut bridge);
    assert!(!told.contains("juliet"), "{told}");
}

/// The presence that contacts elsewhere send to a session that asks for it is for the component as
/// well: after a restart, the server has no other.
#[test]
fn a_component_sees_contacts_that_answer_a_session() {
    let reader = Privileges { roster: RequestTypes::BOTH, roster_presence: true, ..Privileges::default() };
    let (a, _b, romeo, _juliet) = neighbours(reader);
    drop(romeo);
    a.restart();
    let mut romeo = a.online("romeo@example.org/orchard");
    a.advance(10_000);
    assert!(received_xml(&mut romeo).contains("from='juliet@b.example/balcony'"));
    let mut bridge = a.component(BRIDGE);
    let told = received_xml(&mut bridge);
    assert!(told.contains("from='juliet@b.example/balcony'"), "{told}");
}

/// A server that dies doesn't announce that its users are gone. A day later their presence is
/// requested again, and users who aren't there any more are shown to nobody.
#[test]
fn contacts_whose_server_has_died_are_forgotten() {
    const DAY_MS: u64 = 24 * 3_600_000;
    let reader = || Privileges { roster: RequestTypes::BOTH, roster_presence: true, ..Privileges::default() };
    for is_back in [false, true] {
        let internet = Internet::default();
        let (a, b, _romeo, juliet) = neighbours_on(&internet, reader());
        let shows_juliet = || {
            let mut bridge = a.component(BRIDGE);
            let told = received_xml(&mut bridge);
            bridge.close();
            a.settle();
            told.contains("from='juliet@b.example/balcony'")
        };
        // She sends nothing for two days, and is still shown.
        a.advance(2 * DAY_MS);
        assert!(shows_juliet(), "who has nothing to say stays");
        drop(juliet);
        b.kill();
        if !is_back {
            let nowhere = Address::new("1.2.3.4:5269".parse().expect("an address"), false);
            internet.say("b.example", Ok(vec![nowhere]));
        }
        assert!(shows_juliet(), "nobody knows yet");
        a.advance(DAY_MS + DAY_MS / 8);
        assert!(!shows_juliet(), "is back: {is_back}");
    }
}

#[test]
fn a_component_sees_no_contacts_that_are_not_for_it() {
    let accounts = Privileges { presence: true, ..Privileges::default() };
    // It can't read rosters, so it may not get the presence of contacts either.
    let blind = Privileges { roster_presence: true, presence: true, ..Privileges::default() };
    for privileges in [accounts, blind] {
        let (a, _b, _romeo, mut juliet) = neighbours(privileges);
        let mut bridge = a.component(BRIDGE);
        juliet.send("<presence><show>away</show></presence>");
        let told = received_xml(&mut bridge);
        assert!(told.contains("type='managed_entity'") && !told.contains("juliet"), "{told}");
    }
    let reader = Privileges { roster: RequestTypes::BOTH, roster_presence: true, ..Privileges::default() };
    let (a, b, _romeo, _juliet) = neighbours(reader);
    let (mut bridge, mut other) = (a.component(BRIDGE), a.component(OTHER));
    received_xml(&mut bridge);
    // Paris isn't in the roster of anyone that she writes to.
    let mut paris = b.online("paris@b.example/hall");
    paris.send("<presence to='romeo@example.org'/>");
    paris.send("<presence to='nobody@example.org'/>");
    paris.send("<presence to='romeo@example.org' type='unavailable'/>");
    bridge.expect_nothing();
    other.expect_nothing();
}

fn ask_service(client: &mut Client, to: &str) {
    client.send(&format!("<iq type='get' id='d' to='{to}'><ask xmlns='urn:example:service'>who?</ask></iq>"));
}

#[test]
fn a_component_answers_in_the_place_of_the_server() {
    let mut scene = PrivilegeScene::with(all());
    scene.bridge.all();
    let (romeo, full) = (scene.romeo.bare().to_owned(), scene.romeo.full().to_owned());
    for to in [&*romeo, "example.org"] {
        ask_service(&mut scene.romeo, to);
        let asked = scene.bridge.all().pop().expect("a request");
        let text = client::xml(&asked);
        assert!(
            text.contains("<delegation") && text.contains(&format!("from='{full}'")) && text.contains("who?"),
            "{text}"
        );
        let (id, from) = (asked.attr("id").expect("an id"), asked.attr("from").expect("a sender"));
        scene.bridge.send(&format!(
            "<iq type='result' id='{id}' from='{BRIDGE}' to='{from}'><delegation xmlns='urn:xmpp:delegation:2'>\
             <forwarded xmlns='urn:xmpp:forward:0'><iq xmlns='jabber:client' type='result' id='d' from='{to}' to='{full}'>\
             <answer xmlns='urn:example:service'>I</answer></iq></forwarded></delegation></iq>"
        ));
        scene.romeo.expect(&format!(
            "<iq type='result' id='d' from='{to}'><answer xmlns='urn:example:service'>I</answer></iq>"
        ));
    }
    // The component's own requests go to the server.
    scene.bridge.send(&format!(
        "<iq type='get' id='x' from='{BRIDGE}' to='example.org'><ask xmlns='urn:example:service'/></iq>"
    ));
    assert!(received_xml(&mut scene.bridge).contains("service-unavailable"));
}

/// A reply that is for somebody else, or to another request, is ignored (XEP-0355 §4.3).
#[test]
fn answers_that_do_not_fit_the_request_are_not_passed_on() {
    let mut scene = PrivilegeScene::with(all());
    let mut juliet = scene.server.online("juliet/balcony");
    scene.bridge.all();
    let (full, victim) = (scene.romeo.full().to_owned(), juliet.full().to_owned());
    for (from, to, id, type_) in [
        ("example.org", &*victim, "d", "result"),
        ("juliet@example.org", &*full, "d", "result"),
        ("example.org", &*full, "other", "result"),
        ("example.org", &*full, "d", "set"),
    ] {
        ask_service(&mut scene.romeo, "example.org");
        let asked = scene.bridge.all().pop().expect("a request");
        let (own, back) = (asked.attr("id").expect("an id"), asked.attr("from").expect("a sender"));
        scene.bridge.send(&format!(
            "<iq type='result' id='{own}' from='{BRIDGE}' to='{back}'><delegation xmlns='urn:xmpp:delegation:2'>\
             <forwarded xmlns='urn:xmpp:forward:0'><iq xmlns='jabber:client' type='{type_}' id='{id}' from='{from}' to='{to}'/>\
             </forwarded></delegation></iq>"
        ));
        let told = received_xml(&mut scene.romeo);
        assert!(told.contains("service-unavailable") && told.contains("id='d'"), "{told}");
    }
    juliet.expect_nothing();
    // A component that is away, and so replies nothing, has the same effect.
    scene.bridge.vanish();
    ask_service(&mut scene.romeo, "example.org");
    scene.server.advance(60_000);
    assert!(received_xml(&mut scene.romeo).contains("service-unavailable"));
}
