//! A cluster of two nodes that exchange nothing but bytes: accounts, rooms and sessions are at home
//! on one of them, wherever their clients connect.

mod limits;
mod steering;

use rookery_hub::{Settings, Steering, ToldAddresses};
use rookery_jid::Jid;
use rookery_sasl::Mechanism;
use rookery_testkit::bosh::{Bosh, BoshPending};
use rookery_testkit::config::NODES;
use rookery_testkit::server::PASSWORD;
use rookery_testkit::{Client, Config, Security, Server, befriend};
use rookery_xml::{Element, ns};

/// Returns two nodes of two shards each: the first node has shards 0 and 1, the second one 2 and 3.
fn nodes() -> Server {
    Server::with(Config { shards: 4, nodes: 2, ..Config::default() })
}

/// Logs in a user whose home is shard `home`, through shard `by_way_of`.
fn at_home(server: &Server, stem: &str, home: usize, by_way_of: usize) -> Client {
    let name = server.name_at(stem, home);
    let account = server.account(&name);
    let mut client = server.connect_at(by_way_of);
    client.log_in(&account, Security::Plain);
    client.bind("phone");
    client.send("<presence/>");
    client.expect_presence_of_itself();
    client
}

fn say(to: &str, text: &str) -> String {
    format!("<message type='chat' to='{to}'><body>{text}</body></message>")
}

/// Logs in at a shard and opens the new stream, whose header is the first element that the home
/// sends.
fn log_in_at(server: &Server, account: &Jid, shard: usize, security: Security) -> Client {
    let mut client = server.connect_at(shard);
    client.open("example.org");
    if security == Security::StartTls {
        client.start_tls("example.org");
    }
    let local = account.local().expect("an account").to_owned();
    client.authenticate(&local, PASSWORD, Mechanism::Plain).expect("the right password");
    client.send("<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' to='example.org' version='1.0'>");
    client
}

#[test]
fn clients_chat_wherever_they_connect() {
    let server = nodes();
    for (home, front) in [(0, 2), (1, 3), (2, 0), (3, 3), (0, 0)] {
        let mut romeo = at_home(&server, "romeo", 1, 1);
        let mut juliet = at_home(&server, "juliet", home, front);
        romeo.send(&say(juliet.full(), "one"));
        juliet.expect_message(romeo.full(), "one");
        juliet.send(&say(romeo.full(), "two"));
        romeo.expect_message(juliet.full(), "two");
        romeo.close();
        juliet.close();
        assert_eq!((server.sessions(), server.connections()), (0, 0), "home {home}, by way of {front}");
    }
}

#[test]
fn contacts_of_two_nodes_see_each_other_come_and_go() {
    let server = nodes();
    let mut romeo = at_home(&server, "romeo", 0, 3);
    let mut juliet = at_home(&server, "juliet", 2, 2);
    befriend(&mut romeo, &mut juliet);
    romeo.send("<presence><show>away</show></presence>");
    juliet.expect(&format!("<presence from='{}'><show>away</show></presence>", romeo.full()));
    romeo.all();
    romeo.vanish();
    juliet.expect(&format!("<presence type='unavailable' from='{}'/>", romeo.full()));
}

#[test]
fn a_room_has_occupants_of_all_nodes() {
    let server = nodes();
    let mut all: Vec<Client> = (0..4).map(|shard| at_home(&server, "user", shard, (shard + 1) % 4)).collect();
    for (at, client) in all.iter_mut().enumerate() {
        client.send(&format!("<presence to='verona@conference.example.org/nick{at}'><x xmlns='http://jabber.org/protocol/muc'/></presence>"));
        client.all();
        if at == 0 {
            client.send(
                "<iq type='set' id='c' to='verona@conference.example.org'><query xmlns='http://jabber.org/protocol/muc#owner'>\
                 <x xmlns='jabber:x:data' type='submit'/></query></iq>",
            );
            client.all();
        }
    }
    all.iter_mut().for_each(|client| drop(client.all()));
    for at in 0..4 {
        let text = format!("from {at}");
        all[at].send(&format!(
            "<message type='groupchat' to='verona@conference.example.org'><body>{text}</body></message>"
        ));
        for client in &mut all {
            assert_eq!(client.bodies(), std::slice::from_ref(&text));
        }
    }
}

#[test]
fn a_message_for_nobody_waits_at_home() {
    let server = nodes();
    let name = server.name_at("juliet", 2);
    let account = server.account(&name);
    let mut romeo = at_home(&server, "romeo", 0, 0);
    romeo.send(&say(account.as_str(), "later"));
    romeo.expect_nothing();
    let mut juliet = server.connect_at(1);
    juliet.log_in(&account, Security::Plain);
    juliet.bind("phone");
    juliet.send("<presence/>");
    assert!(juliet.bodies().contains(&"later".to_owned()), "what was kept comes at login");
}

#[test]
fn a_session_is_resumed_by_way_of_another_node() {
    let server = nodes();
    let mut romeo = at_home(&server, "romeo", 0, 0);
    let name = server.name_at("juliet", 2);
    let account = server.account(&name);
    let mut juliet = server.connect_at(0);
    juliet.log_in(&account, Security::Plain);
    let jid = juliet.bind("phone");
    let id = juliet.enable();
    juliet.send("<presence/>");
    juliet.expect_presence_of_itself();
    juliet.vanish();
    assert_eq!(server.sessions(), 2, "it waits for its client");
    romeo.send(&say(jid.as_str(), "where are you?"));
    romeo.expect_nothing();
    let mut again = server.connect_at(3);
    again.log_in(&account, Security::Plain);
    assert_eq!(again.resume(&jid, &id, 1), 1);
    again.expect_message(romeo.full(), "where are you?");
}

#[test]
fn tls_and_websockets_end_where_the_client_connects() {
    let server = Server::with(Config { shards: 2, nodes: 2, tls: true, ..Config::default() });
    let mut romeo = at_home(&server, "romeo", 0, 0);
    for front in 0..2 {
        let account = server.account(&server.name_at("juliet", 1));
        let mut juliet = server.connect_at(front);
        juliet.log_in(&account, Security::StartTls);
        juliet.bind("balcony");
        romeo.send(&say(juliet.full(), "encrypted"));
        juliet.expect_message(romeo.full(), "encrypted");
        juliet.close();
        let mut juliet = server.connect_websocket(front);
        juliet.log_in(&account, Security::Plain);
        juliet.bind("browser");
        juliet.send(&say(romeo.full(), "framed"));
        romeo.expect_message(juliet.full(), "framed");
        romeo.send(&say(juliet.full(), "framed, too"));
        juliet.expect_message(romeo.full(), "framed, too");
        juliet.close();
    }
    romeo.close();
    assert_eq!((server.sessions(), server.connections()), (0, 0));
}

/// The requests of each session go to the two nodes in turn.
#[test]
fn requests_of_bosh_come_in_on_any_node() {
    let server = nodes();
    let mut romeo = at_home(&server, "romeo", 0, 0);
    for home in 0..4 {
        for _ in 0..2 {
            let name = server.name_at("juliet", home);
            let (mut juliet, waits) = Bosh::login(&server, &format!("{name}/browser"));
            romeo.send(&say(&juliet.jid, "one"));
            assert!(waits.expect().child("message", ns::CLIENT).is_some(), "home {home}");
            let waits = juliet.ask("", "");
            let held = juliet
                .ask("", &format!("<message to='{}' xmlns='jabber:client'><body>two</body></message>", romeo.full()));
            romeo.expect_message(&juliet.jid, "two");
            waits.expect_empty();
            // The client repeats a request whose response it already has.
            let again = juliet.ask_as(juliet.rid - 2, "", "");
            again.expect_empty();
            juliet.ask("type='terminate'", "").expect_empty();
            held.expect_end("");
            juliet.ask("", "").expect_end("item-not-found");
            // This makes the number of requests odd, so that the next session begins at the other
            // node.
            juliet.ask("", "").expect_end("item-not-found");
        }
    }
    romeo.close();
    assert_eq!((server.sessions(), server.connections()), (0, 0));
}

#[test]
fn a_home_that_dies_ends_its_sessions_of_bosh() {
    for others in 0..2 {
        let server = nodes();
        // So the session begins at each of the nodes once.
        (0..others).for_each(|_| drop(Bosh::new(&server).create("to='example.org'")));
        let (mut juliet, waits) = Bosh::login(&server, &format!("{}/browser", server.name_at("juliet", 2)));
        server.silence(1);
        server.depart(1);
        let ended = |pending: BoshPending| {
            let condition = pending.answer().map(|_| pending.expect());
            condition.and_then(|body| body.attr("condition").map(str::to_owned))
        };
        let told: Vec<_> = [waits, juliet.ask("", ""), juliet.ask("", "")].into_iter().filter_map(ended).collect();
        let known = ["remote-connection-failed", "item-not-found"];
        // The dead node isn't stopped, and answers requests that still reach it.
        assert!(told.iter().any(|told| known.contains(&told.as_str())), "{told:?}");
    }
}

#[test]
fn an_id_of_a_session_that_somebody_made_up_stays_where_it_is() {
    let server = nodes();
    let (mut juliet, _waits) = Bosh::login(&server, "juliet/browser");
    juliet.sid = format!("{}{}", &juliet.sid[..31], if juliet.sid.ends_with('0') { '1' } else { '0' });
    for _ in 0..2 {
        juliet.ask("", "").expect_end("item-not-found");
    }
}

/// A node only sends a bounded amount ahead of what the other one has passed on, in both
/// directions.
#[test]
fn a_slow_reader_on_another_node_holds_up_nobody() {
    let server = nodes();
    let mut romeo = at_home(&server, "romeo", 0, 2);
    let mut juliet = at_home(&server, "juliet", 2, 0);
    juliet.set_reading(false);
    let text = "x".repeat(10_000);
    for _ in 0..30 {
        romeo.send(&say(juliet.full(), &text));
        romeo.expect_nothing();
    }
    romeo.expect_alive();
    juliet.set_reading(true);
    assert_eq!(juliet.bodies().len(), 30, "all of it comes when it reads");
    // A burst of more than the window of a line.
    let burst: String = (0..100).map(|_| say(juliet.full(), &text)).collect();
    romeo.send(&burst);
    assert_eq!(juliet.bodies().len(), 100);
}

#[test]
fn a_home_that_dies_disconnects_its_clients() {
    let server = nodes();
    let mut juliet = at_home(&server, "juliet", 2, 0);
    let mut romeo = at_home(&server, "romeo", 0, 0);
    server.depart(1);
    juliet.expect_closed();
    romeo.expect_alive();
}

/// After the death of a node, nobody can answer until others have its homes.
#[test]
fn a_login_waits_while_its_home_is_silent() {
    for shard in [0, 1] {
        let server = nodes();
        let account = server.account(&server.name_at("juliet", 2));
        server.silence(1);
        server.depart(1);
        // The client gets the features at once.
        let mut juliet = server.connect_at(shard);
        juliet.log_in(&account, Security::Plain);
        juliet.send(BIND);
        juliet.expect_nothing();
        server.bury(1);
        let bound = juliet.expect_element();
        juliet.take_bound(&bound);
        juliet.send("<presence/>");
        juliet.expect_presence_of_itself();
    }
}

/// A silent node may only have been slow.
#[test]
fn a_login_goes_to_a_home_that_nobody_takes_over() {
    let server = nodes();
    let account = server.account(&server.name_at("juliet", 2));
    server.depart(1);
    let mut juliet = server.connect_at(0);
    juliet.log_in(&account, Security::Plain);
    juliet.send(BIND);
    juliet.expect_nothing();
    server.advance(11_000);
    let bound = juliet.expect_element();
    juliet.take_bound(&bound);
}

#[test]
fn a_session_that_moves_ends_and_a_room_goes_on() {
    let server = nodes();
    let (mut romeo, mut juliet) = (at_home(&server, "romeo", 0, 0), at_home(&server, "juliet", 2, 2));
    let room =
        (0..).map(|number| format!("room{number}@conference.example.org")).find(|room| server.home_of(room) >= 2);
    let room = room.expect("some room is at home there");
    let enter = format!("<presence to='{room}/romeo'><x xmlns='http://jabber.org/protocol/muc'/></presence>");
    romeo.send(&enter);
    romeo.all();
    server.remove(1);
    juliet.expect_stream_error("system-shutdown");
    let told: Vec<String> = romeo.all().iter().map(rookery_testkit::client::xml).collect();
    assert_eq!(told, [""; 0], "the room goes on, and who is in it hears nothing");
    let mut again = server.connect_at(3);
    let account = server.account(juliet.bare().split('@').next().expect("a name"));
    again.log_in(&account, Security::Plain);
    again.bind("phone");
    again.send(&say(romeo.full(), "from my new home"));
    romeo.expect_message(again.full(), "from my new home");
    romeo.send(&format!("<message type='groupchat' to='{room}'><body>still here</body></message>"));
    assert_eq!(romeo.bodies(), ["still here"]);
}

/// Enters a room that is at home on a node, creates it if it doesn't exist yet, and gives it a name
/// if there is one. Returns the stanzas that came.
fn enter(client: &mut Client, room: &str, name: Option<&str>) -> String {
    let nick = client.bare().split('@').next().unwrap_or_default().to_owned();
    client.send(&format!("<presence to='{room}/{nick}'><x xmlns='http://jabber.org/protocol/muc'/></presence>"));
    let told = client.all().iter().map(rookery_testkit::client::xml).collect();
    if let Some(name) = name {
        client.send(&format!(
            "<iq type='set' id='c' to='{room}'><query xmlns='http://jabber.org/protocol/muc#owner'>\
             <x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>http://jabber.org/protocol/muc#roomconfig</value></field>\
             <field var='muc#roomconfig_roomname'><value>{name}</value></field>\
             <field var='muc#roomconfig_publicroom'><value>1</value></field>\
             <field var='muc#roomconfig_persistentroom'><value>1</value></field></x></query></iq>"
        ));
        client.expect(&format!("<iq type='result' id='c' from='{room}'/>"));
        client.all();
    }
    told
}

/// Returns the rooms that the service lists for a user.
fn list_rooms(client: &mut Client) -> Vec<String> {
    let list = client.ask(
        "<iq type='get' id='l' to='conference.example.org'><query xmlns='http://jabber.org/protocol/disco#items'/></iq>",
    );
    let query = list.children().next().expect("a query");
    query.children().filter_map(|item| item.attr("jid").map(str::to_owned)).collect()
}

#[test]
fn a_room_is_listed_at_all_nodes_and_keeps_its_owner_when_its_home_moves() {
    let server = nodes();
    let room = (0..).map(|number| format!("room{number}@conference.example.org"));
    let room = room.into_iter().find(|room| server.home_of(room) >= 2).expect("some room is at home there");
    let (mut romeo, mut juliet) = (at_home(&server, "romeo", 0, 0), at_home(&server, "juliet", 2, 2));
    // Both nodes know that there is no room yet.
    assert_eq!((list_rooms(&mut romeo), list_rooms(&mut juliet)), (vec![], vec![]));
    let told = enter(&mut romeo, &room, Some("Verona"));
    assert!(told.contains("affiliation='owner'"), "{told}");
    assert_eq!(list_rooms(&mut romeo), std::slice::from_ref(&room), "though it is at home elsewhere");
    assert_eq!(list_rooms(&mut juliet), std::slice::from_ref(&room));
    let other = (0..).map(|number| format!("other{number}@conference.example.org"));
    let other = other.into_iter().find(|room| server.home_of(room) >= 2).expect("some room is at home there");
    enter(&mut juliet, &other, None);
    server.remove(1);
    romeo.all();
    let mut mercutio = at_home(&server, "mercutio", 1, 1);
    let told = enter(&mut mercutio, &room, None);
    assert!(
        told.contains("affiliation='none'") && told.contains("affiliation='owner'"),
        "Romeo is still there: {told}"
    );
    // The other room is empty and not persistent.
    assert!(!list_rooms(&mut romeo).contains(&other), "{other}");
    let told = enter(&mut romeo, &room, None);
    assert!(told.contains("affiliation='owner'"), "{told}");
    romeo.send(&format!(
        "<iq type='set' id='d' to='{room}'><query xmlns='http://jabber.org/protocol/muc#owner'><destroy/></query></iq>"
    ));
    romeo.all();
    assert_eq!(list_rooms(&mut romeo), Vec::<String>::new());
}

#[test]
fn a_component_is_reached_at_whichever_node_it_has_called() {
    const BRIDGE: &str = "bridge.example.org";
    for front in 0..4 {
        let server =
            Server::with(Config { shards: 4, nodes: 2, components: vec![BRIDGE.to_owned()], ..Config::default() });
        let attached = || {
            let mut bridge = server.connect_component(front).with_name(BRIDGE);
            bridge.attach(BRIDGE);
            bridge
        };
        let talk = |bridge: &mut Client, user: &mut Client| {
            user.send(&say("x@bridge.example.org", "out"));
            bridge.expect(&format!(
                "<message type='chat' from='{}' to='x@bridge.example.org'><body>out</body></message>",
                user.full()
            ));
            bridge.send(&format!(
                "<message type='chat' from='x@bridge.example.org' to='{}'><body>in</body></message>",
                user.full()
            ));
            user.expect_message("x@bridge.example.org", "in");
        };
        let mut bridge = attached();
        for home in 0..4 {
            let mut user = at_home(&server, "user", home, (home + front) % 4);
            talk(&mut bridge, &mut user);
            user.close();
        }
        // All homes are on one node now, and the component's connection has stayed where it was.
        server.remove(1 - server.home_of_domain(BRIDGE) / 2);
        let mut user = at_home(&server, "somebody", server.home_of_domain(BRIDGE), 0);
        talk(&mut bridge, &mut user);
        bridge.vanish();
        user.send("<message id='1' to='x@bridge.example.org'><body>?</body></message>");
        let told = user.all().iter().map(rookery_testkit::client::xml).collect::<String>();
        assert!(told.contains("type='error'") && told.contains("remote-server-timeout"), "{told}");
        talk(&mut attached(), &mut user);
    }
}

/// Makes a room whose home is the first node, in which Romeo and Juliet know each other by their
/// nicks. Romeo's home is on the same node, Juliet's on the other. Romeo's stanzas are counted.
fn two_in_a_room(server: &Server) -> (Client, Client, String) {
    let (mut romeo, mut juliet) = (at_home(server, "romeo", 0, 0), at_home(server, "juliet", 2, 2));
    let room = (0..).map(|number| format!("room{number}@conference.example.org"));
    let room = room.into_iter().find(|room| server.home_of(room) < 2).expect("some room is at home there");
    for (client, nick) in [(&mut romeo, "romeo"), (&mut juliet, "juliet")] {
        client.send(&format!("<presence to='{room}/{nick}'><x xmlns='http://jabber.org/protocol/muc'/></presence>"));
        client.all();
        client.send(&format!(
            "<iq type='set' id='c' to='{room}'><query xmlns='http://jabber.org/protocol/muc#owner'>\
             <x xmlns='jabber:x:data' type='submit'/></query></iq>"
        ));
        client.all();
    }
    romeo.all();
    romeo.enable();
    (romeo, juliet, room)
}

#[test]
fn a_private_message_of_a_room_survives_the_node_of_the_account_that_gets_it() {
    let server = nodes();
    let (mut romeo, juliet, room) = two_in_a_room(&server);
    server.silence(1);
    romeo.send(&say(&format!("{room}/juliet"), "psst"));
    romeo.send("<r xmlns='urn:xmpp:sm:3'/>");
    server.advance(WRITTEN_MS);
    assert!(!acknowledges(&romeo.all(), 1), "nobody has it yet");
    server.bury(1);
    server.advance(WRITTEN_MS);
    assert!(acknowledges(&romeo.all(), 1), "the new home has it");
    let mut again = server.connect_at(0);
    let account = server.account(juliet.bare().split('@').next().expect("a name"));
    again.log_in(&account, Security::Plain);
    again.bind("phone");
    again.send("<presence/>");
    assert!(again.bodies().contains(&"psst".to_owned()), "it was kept for later");
}

#[test]
fn the_sender_of_a_private_message_in_a_room_hears_that_it_cannot_be_brought() {
    let server = nodes();
    let (mut romeo, _juliet, room) = two_in_a_room(&server);
    server.silence(1);
    romeo.send(&say(&format!("{room}/juliet"), "psst"));
    romeo.send("<r xmlns='urn:xmpp:sm:3'/>");
    server.advance(WRITTEN_MS);
    assert!(!acknowledges(&romeo.all(), 1), "nobody has it yet");
    server.refuse_what_waits();
    server.advance(WRITTEN_MS);
    let got = romeo.all();
    let is_error = |element: &Element| {
        let from = element.attr("from") == Some(&format!("{room}/juliet"));
        from && element.name() == "message" && element.attr("type") == Some("error")
    };
    let error = got.iter().position(is_error).expect("an error");
    assert!(acknowledges(&got[error..], 1), "the error comes before the acknowledgement: {got:?}");
}

/// The time within which archives store their messages and these are acknowledged, in milliseconds.
const WRITTEN_MS: u64 = 2_000;

/// Returns whether this many stanzas are acknowledged (XEP-0198 §4).
fn acknowledges(got: &[Element], count: u32) -> bool {
    got.iter().any(|element| element.name() == "a" && element.attr("h") == Some(&count.to_string()))
}

/// The topics whose tests run once more at two nodes, in addition to the tests above.
const TOPICS: [&str; 22] = [
    "archive::",
    "bosh::",
    "carbons::",
    "components::",
    "federation::",
    "last_activity::",
    "messages::",
    "mobile::client_state::",
    "mobile::fast::",
    "mobile::push::",
    "mobile::sasl2::",
    "multicast::",
    "offline::",
    "presence::",
    "privacy::",
    "privileges::",
    "pubsub::",
    "rooms::entering::",
    "rooms::moderators::",
    "rooms::occupants::",
    "roster::",
    "subscriptions::",
];

/// Tests of facts that only one node knows. A stream that breaks can't be resumed at another node,
/// nor carry stanzas that the home of its domain sends; each node knows to whom it has written, and
/// counts its own connections. The last test sends requests that overtake each other, as they may
/// between nodes.
const BY_PROCESS: [&str; 7] = [
    "connections_that_break_lose_double_and_reorder_nothing",
    "what_a_signed_zone_says_of_a_certificate_is_proof",
    "a_new_server_is_slow_until_somebody_writes_to_it",
    "sessions_of_one_address_are_counted",
    "sessions_that_never_log_in_are_bounded",
    "the_client_ends_its_session",
    "repetitions_are_counted",
];

#[test]
fn features_are_the_same_at_two_nodes() {
    let tests = std::env::current_exe().expect("the path of these tests");
    let mut run = std::process::Command::new(tests);
    let run = run
        .arg("--quiet")
        .args(BY_PROCESS.iter().flat_map(|test| ["--skip", test]))
        .args(TOPICS)
        .env(NODES, "2")
        .output()
        .expect("these tests again");
    let told = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{NODES}=2\n{told}");
    assert!(told.contains("test result: ok"), "{told}");
}

const BIND: &str = "<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>";
