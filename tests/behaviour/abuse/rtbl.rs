//! Block lists of hashes for rooms.

use rookery_hub::Value;
use rookery_testkit::remote::Left;
use rookery_testkit::{Config, Server};

/// The SHA-256 of `spam@x.example` and of `bad.example`.
const SPAMMER: &str = "9ceeaf45201ae45924dd22445ea70f602fd368171af5971aaa47374c6833d8cb";
const DOMAIN: &str = "86bbe8ffb912a153c9a8b396246aeeae079cd324af4dd947a2bf59a698eabc62";
const ROOM: &str = "room@conference.example.org";

/// Returns a server that follows a list which has the first of them, and a room of Juliet's.
fn server() -> (Server, rookery_testkit::Client) {
    server_with(Vec::new())
}

fn server_with(more: Vec<(&'static str, &'static str, Value)>) -> (Server, rookery_testkit::Client) {
    let lists = Value::List(vec!["lists.example bans".into()]);
    let options = [vec![("rtbl", "lists", lists)], more].concat();
    let server = Server::with(Config { federates: true, options, ..Config::default() });
    let mut juliet = server.online("juliet/balcony");
    juliet.send(&format!("<presence to='{ROOM}/Juliet'><x xmlns='http://jabber.org/protocol/muc'/></presence>"));
    juliet.send(&format!(
        "<iq type='set' id='c' to='{ROOM}'><query xmlns='http://jabber.org/protocol/muc#owner'>\
         <x xmlns='jabber:x:data' type='submit'/></query></iq>"
    ));
    juliet.all();
    server.advance(5_000);
    let asked = server.take_left();
    let (subscribe, items) = (&asked[0], &asked[1]);
    assert!(subscribe.text.contains("<subscribe") && subscribe.text.contains("node='bans'"), "{asked:?}");
    let id = id(items);
    server.incoming(&format!(
        "<iq type='result' id='{id}' from='lists.example' to='example.org'><pubsub xmlns='http://jabber.org/protocol/pubsub'>\
         <items node='bans'><item id='{SPAMMER}'/><item id='nonsense'/></items></pubsub></iq>"
    ));
    (server, juliet)
}

fn id(left: &Left) -> String {
    let rest = left.text.split_once(" id='").expect("an id").1;
    rest.split('\'').next().expect("an id").to_owned()
}

fn event(server: &Server, from: &str, items: &str) {
    server.incoming(&format!(
        "<message from='{from}' to='example.org'><event xmlns='http://jabber.org/protocol/pubsub#event'>\
         <items node='bans'>{items}</items></event></message>"
    ));
}

/// Lets somebody try to enter, and returns whether that was refused.
fn is_refused(server: &Server, who: &str) -> bool {
    server.take_left();
    server.incoming(&format!(
        "<presence from='{who}' to='{ROOM}/Nick'><x xmlns='http://jabber.org/protocol/muc'/></presence>"
    ));
    let left = server.take_left();
    server.incoming(&format!("<presence type='unavailable' from='{who}' to='{ROOM}/Nick'/>"));
    assert!(!left.is_empty(), "no answer");
    let refusal = left.iter().find(|left| left.text.contains("<forbidden"));
    // XEP-0045 §7.2: this element tells clients that they aren't in the room.
    assert!(refusal.is_none_or(|left| left.text.contains("<x xmlns='http://jabber.org/protocol/muc'/>")), "{left:?}");
    refusal.is_some()
}

#[test]
fn listed_addresses_stay_out() {
    let (server, mut juliet) = server();
    assert!(is_refused(&server, "spam@x.example/r"));
    assert!(!is_refused(&server, "friend@x.example/r"));
    juliet.all();
    event(&server, "lists.example", &format!("<item id='{DOMAIN}'/><retract id='{SPAMMER}'/>"));
    assert!(!is_refused(&server, "spam@x.example/r"));
    assert!(is_refused(&server, "anybody@bad.example/r"));
}

#[test]
fn only_the_service_changes_a_list() {
    let (server, _juliet) = server();
    event(&server, "spam@x.example", &format!("<retract id='{SPAMMER}'/>"));
    event(&server, "other.example", &format!("<retract id='{SPAMMER}'/>"));
    assert!(is_refused(&server, "spam@x.example/r"));
}

#[test]
fn who_is_listed_later_falls_silent() {
    let (server, mut juliet) = server();
    server.incoming(&format!(
        "<presence from='a@bad.example/r' to='{ROOM}/Bad'><x xmlns='http://jabber.org/protocol/muc'/></presence>"
    ));
    juliet.all();
    let say = format!("<message type='groupchat' from='a@bad.example/r' to='{ROOM}'><body>x</body></message>");
    server.incoming(&say);
    assert_eq!(juliet.bodies(), ["x"]);
    event(&server, "lists.example", &format!("<item id='{DOMAIN}'/>"));
    server.incoming(&say);
    assert_eq!(juliet.bodies(), [""; 0]);
}

/// One of the nodes is notified of a change, and rooms are at home on both.
#[test]
fn a_change_of_a_list_is_known_on_all_nodes() {
    // The SHA-256 of `mercutio@example.org`.
    let own = "646dc00df1be01181945dc400d75046222c5575b9f1d61515319b4ff7f5aa117";
    let lists = ("rtbl", "lists", Value::List(vec!["lists.example bans".into()]));
    let options = vec![lists, ("rtbl", "local", Value::Switch(true))];
    let server = Server::with(Config { federates: true, options, shards: 4, nodes: 2, ..Config::default() });
    server.advance(5_000);
    let asked = server.take_left();
    let asked: Vec<_> = asked.iter().filter(|left| left.text.contains("<items ")).map(id).collect();
    assert_eq!(asked.len(), 2, "each node fetches the list");
    for id in asked {
        server.incoming(&format!(
            "<iq type='result' id='{id}' from='lists.example' to='example.org'>\
             <pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='bans'/></pubsub></iq>"
        ));
    }
    let mut client = server.online("mercutio/r");
    for (change, is_listed) in [(format!("<item id='{own}'/>"), true), (format!("<retract id='{own}'/>"), false)] {
        event(&server, "lists.example", &change);
        for number in 0..8 {
            let room = format!("room{number}@conference.example.org");
            client.send(&format!("<presence to='{room}/M'><x xmlns='http://jabber.org/protocol/muc'/></presence>"));
            let is_refused = client.all().iter().any(|found| found.attr("type") == Some("error"));
            assert_eq!(is_refused, is_listed, "{room}");
        }
    }
}

/// Listed accounts of this server may enter all the same, unless the operator wants to keep them
/// out.
#[test]
fn own_accounts_are_the_operators_choice() {
    // The SHA-256 of `mercutio@example.org`.
    let own = "646dc00df1be01181945dc400d75046222c5575b9f1d61515319b4ff7f5aa117";
    for local in [false, true] {
        let (server, _juliet) = server_with(vec![("rtbl", "local", Value::Switch(local))]);
        event(&server, "lists.example", &format!("<item id='{own}'/>"));
        for (name, is_listed) in [("mercutio/r", true), ("romeo/r", false)] {
            let mut client = server.online(name);
            client
                .send(&format!("<presence to='{ROOM}/{name}'><x xmlns='http://jabber.org/protocol/muc'/></presence>"));
            let is_refused = client.all().iter().any(|found| found.attr("type") == Some("error"));
            assert_eq!(is_refused, local && is_listed, "{name}, {local}");
        }
    }
}

/// A list that can't be fetched is requested again soon.
#[test]
fn a_list_that_fails_is_asked_for_again() {
    let lists = Value::List(vec!["lists.example bans".into()]);
    let server = Server::with(Config { federates: true, options: vec![("rtbl", "lists", lists)], ..Config::default() });
    server.advance(5_000);
    for _ in 0..2 {
        let asked = server.take_left();
        let items = asked.iter().find(|left| left.text.contains("<items ")).expect("a request");
        server.incoming(&format!(
            "<iq type='error' id='{}' from='lists.example' to='example.org'><error type='cancel'>\
             <item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>",
            id(items)
        ));
        server.advance(10_000);
        assert!(server.take_left().is_empty(), "not at once");
        server.advance(30_000);
    }
    assert!(server.take_left().iter().any(|left| left.text.contains("<items ")));
}

/// If the operator wants it, listed addresses are kept out of the whole server, not only of rooms.
#[test]
fn listed_servers_stay_out_of_everything() {
    for servers in [false, true] {
        let (server, mut juliet) = server_with(vec![("rtbl", "servers", Value::Switch(servers))]);
        event(&server, "lists.example", &format!("<item id='{DOMAIN}'/>"));
        for from in ["a@bad.example/r", "spam@x.example/r", "friend@x.example/r", "lists.example"] {
            let text =
                format!("<message from='{from}' to='juliet@example.org' type='chat'><body>{from}</body></message>");
            server.incoming(&text);
        }
        let heard = juliet.bodies();
        let expected = ["a@bad.example/r", "spam@x.example/r", "friend@x.example/r", "lists.example"];
        assert_eq!(heard, if servers { &expected[2..] } else { &expected[..] });
        server.take_left();
        juliet.send("<message id='m' to='a@bad.example' type='chat'><body>x</body></message>");
        assert_eq!(server.take_left().is_empty(), servers);
        let refused = juliet.all().iter().any(|found| found.attr("type") == Some("error"));
        assert_eq!(refused, servers, "who writes there is told");
    }
}
