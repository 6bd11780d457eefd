//! Components (XEP-0114): programs of their own that serve all addresses of a name.

use rookery_testkit::config::COMPONENT_SECRET;
use rookery_testkit::{Client, Config, Internet, Meeting, Server, client};

const BRIDGE: &str = "bridge.example.org";
const OTHER: &str = "other.example.net";

fn server() -> Server {
    Server::with(config())
}

fn config() -> Config {
    Config { shards: 3, components: vec![BRIDGE.to_owned(), OTHER.to_owned()], ..Config::default() }
}

fn error(kind: &str, from: &str, to: &str, condition: &str, type_: &str) -> String {
    format!(
        "<{kind} type='error' id='1' from='{from}' to='{to}'><error type='{type_}'>\
         <{condition} xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></{kind}>"
    )
}

fn received_xml(client: &mut Client) -> String {
    client.all().iter().map(client::xml).collect()
}

#[test]
fn a_component_and_users_talk() {
    let server = server();
    let mut bridge = server.component(BRIDGE);
    let mut romeo = server.online("romeo/orchard");
    romeo.send("<message to='mercutio@bridge.example.org/x' type='chat'><body>hello</body></message>");
    bridge.expect(
        "<message from='romeo@example.org/orchard' to='mercutio@bridge.example.org/x' type='chat'>\
         <body>hello</body></message>",
    );
    bridge.send(
        "<message from='mercutio@bridge.example.org/x' to='romeo@example.org' type='chat'><body>hi</body></message>",
    );
    romeo.expect_message("mercutio@bridge.example.org/x", "hi");
    // Requests of either are answered by the other.
    romeo.send("<iq type='get' id='v' to='bridge.example.org'><query xmlns='jabber:iq:version'/></iq>");
    bridge.expect("<iq type='get' id='v' from='romeo@example.org/orchard' to='bridge.example.org'><query xmlns='jabber:iq:version'/></iq>");
    bridge.send("<iq type='result' id='v' from='bridge.example.org' to='romeo@example.org/orchard'><query xmlns='jabber:iq:version'/></iq>");
    romeo.expect("<iq type='result' id='v' from='bridge.example.org'><query xmlns='jabber:iq:version'/></iq>");
    bridge.send("<iq type='get' id='p' from='bridge.example.org' to='example.org'><ping xmlns='urn:xmpp:ping'/></iq>");
    bridge.expect("<iq type='result' id='p' from='example.org' to='bridge.example.org'/>");
}

#[test]
fn libraries_may_name_the_namespace_of_clients() {
    let server = server();
    let mut bridge = server.component(BRIDGE);
    let mut romeo = server.online("romeo/orchard");
    bridge.send(
        "<message xmlns='jabber:client' from='x@bridge.example.org' to='romeo@example.org'><body>1</body></message>",
    );
    romeo.expect_message("x@bridge.example.org", "1");
    bridge.send("<message xmlns='jabber:component:accept' from='x@bridge.example.org' to='romeo@example.org'><body>2</body></message>");
    romeo.expect_message("x@bridge.example.org", "2");
    bridge.send("<message xmlns='jabber:other' from='x@bridge.example.org' to='romeo@example.org'/>");
    bridge.expect_stream_error("unsupported-stanza-type");
}

#[test]
fn components_and_other_servers_reach_each_other() {
    let internet = Internet::default();
    let names = vec!["a.example".to_owned(), "bridge.a.example".to_owned()];
    let federation = internet.federation(&names, |_| {});
    let meeting = Meeting { internet: internet.clone(), federation, names, direct_tls: false };
    let a = Server::with(Config {
        domains: vec!["a.example".into()],
        components: vec!["bridge.a.example".into()],
        internet: Some(meeting),
        ..Config::default()
    });
    let names = vec!["b.example".to_owned()];
    let federation = internet.federation(&names, |_| {});
    let meeting = Meeting { internet: internet.clone(), federation, names, direct_tls: false };
    let b = Server::with(Config { domains: vec!["b.example".into()], internet: Some(meeting), ..Config::default() });
    let mut bridge = a.component("bridge.a.example");
    let mut juliet = b.online("juliet@b.example/balcony");
    juliet.send("<message to='x@bridge.a.example' type='chat'><body>out</body></message>");
    bridge.expect(
        "<message from='juliet@b.example/balcony' to='x@bridge.a.example' type='chat'><body>out</body></message>",
    );
    bridge.send("<message from='x@bridge.a.example' to='juliet@b.example' type='chat'><body>in</body></message>");
    juliet.expect_message("x@bridge.a.example", "in");
    // Another server can't speak for it.
    bridge.send("<message from='x@bridge.a.example' id='1' to='x@nowhere.example'><body>in</body></message>");
    bridge.expect(&error("message", "x@nowhere.example", "x@bridge.a.example", "remote-server-not-found", "cancel"));
}

#[test]
fn without_other_servers_components_reach_nobody_else() {
    let server = server();
    let mut bridge = server.component(BRIDGE);
    bridge.send("<message from='x@bridge.example.org' id='1' to='x@nowhere.example'><body>in</body></message>");
    bridge.expect(&error("message", "x@nowhere.example", "x@bridge.example.org", "remote-server-not-found", "cancel"));
    let mut romeo = server.online("romeo/orchard");
    romeo.send("<message id='1' to='x@nowhere.example'><body>in</body></message>");
    romeo.expect(&error(
        "message",
        "x@nowhere.example",
        "romeo@example.org/orchard",
        "remote-server-not-found",
        "cancel",
    ));
}

#[test]
fn two_components_reach_each_other_and_speak_for_themselves_alone() {
    let server = server();
    let (mut bridge, mut other) = (server.component(BRIDGE), server.component(OTHER));
    bridge.send("<message from='a@bridge.example.org' to='b@other.example.net'><body>hi</body></message>");
    other.expect("<message from='a@bridge.example.org' to='b@other.example.net'><body>hi</body></message>");
    for from in
        ["b@other.example.net", "romeo@example.org", "example.org", "a@sub.bridge.example.org", "@bridge.example.org"]
    {
        let mut bridge = server.component(BRIDGE);
        bridge.send(&format!("<message from='{from}' to='romeo@example.org'><body>hi</body></message>"));
        bridge.expect_stream_error("invalid-from");
    }
    bridge.send("<message to='romeo@example.org'><body>hi</body></message>");
    bridge.expect_stream_error("invalid-from");
    other.expect_nothing();
}

#[test]
fn stanzas_that_cannot_be_sent_come_back() {
    let server = server();
    let mut bridge = server.component(BRIDGE);
    bridge.send("<message id='1' from='a@bridge.example.org'><body>hi</body></message>");
    bridge.expect(&error("message", "bridge.example.org", "a@bridge.example.org", "bad-request", "modify"));
    bridge.send("<message id='1' from='a@bridge.example.org' to='@@'><body>hi</body></message>");
    bridge.expect(&error("message", "bridge.example.org", "a@bridge.example.org", "jid-malformed", "modify"));
    bridge.send("<iq id='1' type='get' from='a@bridge.example.org' to='example.org'/>");
    bridge.expect(&error("iq", "example.org", "a@bridge.example.org", "bad-request", "modify"));
    // An error gets no reply.
    bridge.send("<message type='error' from='a@bridge.example.org'/>");
    bridge.expect_nothing();
}

#[test]
fn a_component_proves_its_name() {
    let server = server();
    for shard in 0..3 {
        let mut wrong = server.connect_component(shard);
        let digest = wrong.open_component(BRIDGE, "something else");
        wrong.send(&format!("<handshake>{digest}</handshake>"));
        wrong.expect_stream_error("not-authorized");
        let mut early = server.connect_component(shard);
        early.open_component(BRIDGE, COMPONENT_SECRET);
        early.send("<message from='a@bridge.example.org' to='romeo@example.org'><body>hi</body></message>");
        early.expect_stream_error("not-authorized");
        let mut nested = server.connect_component(shard);
        let digest = nested.open_component(BRIDGE, COMPONENT_SECRET);
        nested.send(&format!("<handshake>{digest}<x/></handshake>"));
        nested.expect_stream_error("not-authorized");
        // Some write the digest in capitals.
        let mut loud = server.connect_component(shard);
        let digest = loud.open_component(BRIDGE, COMPONENT_SECRET).to_uppercase();
        loud.send(&format!("<handshake>{digest}</handshake><presence from='bridge.example.org' to='x@other.example.net' id='1' type='subscribe'/>"));
        loud.expect("<handshake/>");
        loud.expect(&error("presence", "x@other.example.net", "bridge.example.org", "remote-server-timeout", "wait"));
        loud.send("<handshake/>");
        loud.expect_stream_error("not-authorized");
    }
}

#[test]
fn names_that_are_no_components_are_refused() {
    let server = server();
    for (name, condition) in [
        ("example.org", "conflict"),
        ("conference.example.org", "conflict"),
        ("nobody.example.org", "host-unknown"),
        ("a@bridge.example.org", "improper-addressing"),
    ] {
        let mut stranger = server.connect_component(0);
        stranger.send(&rookery_testkit::login::component_header(name));
        stranger.expect_header();
        stranger.expect_stream_error(condition);
    }
    let mut client = server.connect_component(0);
    client.send(&rookery_testkit::login::stream_header(BRIDGE));
    client.expect_header();
    client.expect_stream_error("invalid-namespace");
    let mut silent = server.connect_component(0);
    silent.send(&rookery_testkit::login::component_header(BRIDGE));
    silent.expect_header();
    server.advance(30_000);
    silent.expect_stream_error("connection-timeout");
}

#[test]
fn who_writes_to_a_component_that_is_away_is_told() {
    let server = server();
    let mut romeo = server.online("romeo/orchard");
    let refused =
        error("message", "x@bridge.example.org", "romeo@example.org/orchard", "remote-server-timeout", "wait");
    romeo.send("<message id='1' to='x@bridge.example.org'><body>hi</body></message>");
    romeo.expect(&refused);
    let mut bridge = server.component(BRIDGE);
    romeo.send("<message id='1' to='x@bridge.example.org'><body>hi</body></message>");
    bridge.expect_element();
    bridge.close();
    romeo.send("<message id='1' to='x@bridge.example.org'><body>hi</body></message>");
    romeo.expect(&refused);
    let mut bridge = server.component(BRIDGE);
    bridge.vanish();
    romeo.send("<message id='1' to='x@bridge.example.org'><body>hi</body></message>");
    romeo.expect(&refused);
}

/// Stanzas that are on their way to a component arrive before the end of a stream that this server
/// ends, and don't come back as well (RFC 6120 §8.3.1).
#[test]
fn what_a_component_still_gets_does_not_come_back() {
    let server = server();
    let mut bridge = server.component(BRIDGE);
    bridge.set_reading(false);
    let mut romeo = server.online("romeo/orchard");
    let body = "x".repeat(60_000);
    for number in 0..300 {
        romeo.send(&format!("<message id='{number}' to='x@bridge.example.org'><body>{body}</body></message>"));
        server.advance(10_000);
        romeo.expect_alive();
    }
    bridge.send("<message from='x@somewhere.example' to='romeo@example.org'/>");
    bridge.set_reading(true);
    let ids = |client: &mut Client| -> Vec<String> {
        let elements = client.all_to_the_end().into_iter();
        elements.filter_map(|element| element.attr("id").map(str::to_owned)).collect()
    };
    let arrived = ids(&mut bridge);
    let back: Vec<String> = romeo.all().iter().filter_map(|element| element.attr("id").map(str::to_owned)).collect();
    assert!(!arrived.is_empty() && arrived.iter().all(|id| !back.contains(id)), "{arrived:?} {back:?}");
    assert_eq!(arrived.len() + back.len(), 300, "{arrived:?} {back:?}");
}

#[test]
fn several_connections_share_the_load_and_keep_the_order_of_each_sender() {
    let server = server();
    let mut connections: Vec<Client> = (0..3).map(|_| server.component(BRIDGE)).collect();
    let mut senders: Vec<Client> = (0..20).map(|number| server.online(&format!("user{number}/x"))).collect();
    for round in 0..5 {
        for sender in &mut senders {
            sender.send(&format!("<message to='x@bridge.example.org'><body>{round}</body></message>"));
        }
    }
    let mut heard = std::collections::BTreeMap::<String, Vec<String>>::new();
    for connection in &mut connections {
        let elements = connection.all();
        assert!(!elements.is_empty(), "each has a share");
        for element in elements {
            let from = element.attr("from").expect("a sender").to_owned();
            heard.entry(from).or_default().push(element.child_text("body", "jabber:client").expect("a body"));
        }
    }
    assert_eq!(heard.len(), 20);
    assert!(heard.values().all(|bodies| *bodies == ["0", "1", "2", "3", "4"]), "{heard:?}");
    // The others take over.
    connections.remove(0).vanish();
    for sender in &mut senders {
        sender.send("<message to='x@bridge.example.org'><body>again</body></message>");
    }
    assert_eq!(connections.iter_mut().map(|connection| connection.all().len()).sum::<usize>(), 20);
}

#[test]
fn a_component_that_does_not_read_is_bounded() {
    let server = server();
    let mut bridge = server.component(BRIDGE);
    bridge.set_reading(false);
    let mut romeo = server.online("romeo/orchard");
    let body = "x".repeat(60_000);
    let mut is_refused = false;
    // More than the virtual network and the queue hold.
    for _ in 0..620 {
        romeo.send(&format!("<message id='1' to='x@bridge.example.org'><body>{body}</body></message>"));
        server.advance(10_000);
        is_refused |= romeo.all().iter().any(|element| client::xml(element).contains("resource-constraint"));
    }
    assert!(is_refused, "the queue has an end");
}

#[test]
fn contacts_behind_a_component_see_and_are_seen() {
    let server = server();
    let mut bridge = server.component(BRIDGE);
    let mut romeo = server.online("romeo/orchard");
    romeo.ask("<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>");
    romeo.send("<presence type='subscribe' to='mercutio@bridge.example.org'/>");
    bridge.expect("<presence type='subscribe' from='romeo@example.org' to='mercutio@bridge.example.org'/>");
    bridge.send(
        "<presence type='subscribed' from='mercutio@bridge.example.org' to='romeo@example.org'/>\
                 <presence type='subscribe' from='mercutio@bridge.example.org' to='romeo@example.org'/>\
                 <presence from='mercutio@bridge.example.org/x' to='romeo@example.org'/>",
    );
    let told = received_xml(&mut romeo);
    assert!(told.contains("type='subscribed'") && told.contains("from='mercutio@bridge.example.org/x'"), "{told}");
    romeo.send("<presence type='subscribed' to='mercutio@bridge.example.org'/>");
    let told = received_xml(&mut bridge);
    assert!(told.contains("type='subscribed'") && told.contains("from='romeo@example.org/orchard'"), "{told}");
    romeo.send("<presence><show>away</show></presence>");
    assert!(received_xml(&mut bridge).contains("<show>away</show>"));
    // A client that comes later asks.
    let _phone = server.online("romeo/phone");
    assert!(received_xml(&mut bridge).contains("type='probe'"));
}

#[test]
fn users_of_a_component_that_goes_are_gone() {
    let server = server();
    let mut first = server.component(BRIDGE);
    let mut second = server.component(BRIDGE);
    let (mut romeo, mut juliet) = (server.online("romeo/orchard"), server.online("juliet/balcony"));
    let (to_romeo, to_juliet) = (romeo.bare().to_owned(), juliet.full().to_owned());
    for from in ["a@bridge.example.org/x", "b@bridge.example.org/x", "c@bridge.example.org/x"] {
        first.send(&format!("<presence from='{from}' to='{to_romeo}'/>"));
    }
    first.send(&format!("<presence from='a@bridge.example.org/x' to='{to_juliet}'/>"));
    // One of them has said goodbye, and another is still being asked for a subscription.
    second.send(&format!("<presence type='unavailable' from='c@bridge.example.org/x' to='{to_romeo}'/>"));
    second.send(&format!("<presence type='subscribe' from='d@bridge.example.org' to='{to_juliet}'/>"));
    romeo.all();
    juliet.all();
    first.vanish();
    romeo.expect_nothing();
    second.close();
    for from in ["a@bridge.example.org/x", "b@bridge.example.org/x"] {
        romeo.expect(&format!("<presence type='unavailable' from='{from}'/>"));
    }
    juliet.expect("<presence type='unavailable' from='a@bridge.example.org/x'/>");
    juliet.expect_nothing();
    // Nobody hears of the same again.
    let mut third = server.component(BRIDGE);
    third.send(&format!("<presence from='a@bridge.example.org/x' to='{to_romeo}'/>"));
    romeo.expect("<presence from='a@bridge.example.org/x'/>");
    third.vanish();
    romeo.expect("<presence type='unavailable' from='a@bridge.example.org/x'/>");
    romeo.expect_nothing();
}

/// A bridge with more users than are told at a time, which comes back while they are.
#[test]
fn who_comes_back_with_its_component_stays() {
    let server = server();
    let mut romeo = server.online("romeo/orchard");
    let to = romeo.bare().to_owned();
    let mut bridge = server.component(BRIDGE);
    let show = |bridge: &mut Client, number: u32| {
        bridge.send(&format!("<presence from='u{number:04}@bridge.example.org/x' to='{to}'/>"));
    };
    (0..1200).for_each(|number| show(&mut bridge, number));
    assert_eq!(romeo.all().len(), 1200);
    bridge.vanish();
    let mut bridge = server.component(BRIDGE);
    // The last user, whose presence hasn't been sent to anybody yet.
    show(&mut bridge, 1199);
    server.advance(1000);
    let told = romeo.all();
    let of_last: Vec<_> =
        told.iter().filter(|presence| presence.attr("from") == Some("u1199@bridge.example.org/x")).collect();
    assert_eq!(of_last.last().expect("presence").attr("type"), None);
    assert!(told.iter().filter(|presence| presence.attr("type") == Some("unavailable")).count() >= 1199);
}

#[test]
fn users_of_a_component_are_in_rooms() {
    let server = server();
    let mut bridge = server.component(BRIDGE);
    let mut romeo = server.online("romeo/orchard");
    let join = |nick: &str| {
        format!("to='verona@conference.example.org/{nick}'><x xmlns='http://jabber.org/protocol/muc'/></presence>")
    };
    romeo.send(&format!("<presence {}", join("romeo")));
    romeo.send(
        "<iq type='set' id='c' to='verona@conference.example.org'><query xmlns='http://jabber.org/protocol/muc#owner'>\
         <x xmlns='jabber:x:data' type='submit'/></query></iq>",
    );
    romeo.all();
    bridge.send(&format!("<presence from='a@bridge.example.org/x' {}", join("a")));
    bridge.send(&format!("<presence from='b@bridge.example.org/x' {}", join("b")));
    romeo.all();
    assert!(received_xml(&mut bridge).contains("code='110'"));
    romeo.send("<message type='groupchat' to='verona@conference.example.org'><body>all</body></message>");
    let told = bridge.bodies();
    assert_eq!(told, ["all", "all"]);
    romeo.all();
    // A component that goes away takes its occupants with it.
    bridge.vanish();
    let told = received_xml(&mut romeo);
    assert_eq!(told.matches("code='333'").count(), 2, "{told}");
}

#[test]
fn discovery_lists_components_with_their_domain() {
    let server = server();
    let mut romeo = server.online("romeo/orchard");
    let items = client::xml(
        &romeo
            .ask("<iq type='get' id='d' to='example.org'><query xmlns='http://jabber.org/protocol/disco#items'/></iq>"),
    );
    assert!(items.contains("jid='bridge.example.org'") && items.contains("jid='other.example.net'"), "{items}");
}

#[test]
fn components_end_with_the_configuration_and_the_server() {
    let server = server();
    let (mut bridge, mut other) = (server.component(BRIDGE), server.component(OTHER));
    server.reload(|config| config.components = vec![OTHER.to_owned()]);
    bridge.expect_stream_error("host-gone");
    let mut romeo = server.online("romeo/orchard");
    romeo.send("<message to='x@other.example.net'><body>still here</body></message>");
    assert_eq!(other.bodies(), ["still here"]);
    romeo.send("<message id='1' to='x@bridge.example.org'><body>hi</body></message>");
    romeo.expect(&error(
        "message",
        "x@bridge.example.org",
        "romeo@example.org/orchard",
        "remote-server-not-found",
        "cancel",
    ));
    server.stop();
    other.expect_stream_error("system-shutdown");
    romeo.wire.peer.shutdown();
    server.advance(20_000);
    assert!(server.is_finished());
}
