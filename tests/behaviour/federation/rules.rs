//! Decisions of operators: the domains to communicate with, and their rates.

use rookery_federation::{Own, Rule, Rules};
use rookery_testkit::client::xml;
use rookery_testkit::{Config, Internet, Server};

use super::{chat, plain, server};

#[test]
fn denied_servers_are_refused_in_both_directions() {
    let internet = Internet::default();
    let deny = |settings: &mut rookery_federation::FederationSettings| {
        settings.rules.deny = vec![Rule::read("b.example: it floods rooms").unwrap()]
    };
    let (a, b) = (server(&internet, "a.example", deny), server(&internet, "b.example", plain));
    let mut romeo = a.online("romeo@a.example/orchard");
    let mut juliet = b.online("juliet@b.example/balcony");
    chat(&mut romeo, "juliet@b.example", "1");
    romeo.expect(
        "<message type='error' id='1' from='juliet@b.example' to='romeo@a.example/orchard'><error type='cancel'>\
         <not-allowed xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>\
         <text xmlns='urn:ietf:params:xml:ns:xmpp-stanzas' xml:lang='en'>it floods rooms</text></error></message>",
    );
    chat(&mut juliet, "romeo@a.example", "2");
    assert!(xml(&juliet.expect_element()).contains("remote-server-timeout"));
    romeo.expect_nothing();
}

/// Of two domains of one server only one federates: the other's users are told, and so are those
/// who write to them; both still reach each other.
#[test]
fn a_domain_that_does_not_federate_is_apart_from_its_neighbour() {
    let internet = Internet::default();
    let domains = ["b.example", "closed.example"].map(str::to_owned);
    let meeting = internet.meeting(&domains, |settings| {
        let rules = Rules { enabled: false, ..Rules::default() };
        settings.own = vec![Own { hosts: vec!["closed.example".into(), "conference.closed.example".into()], rules }];
    });
    let b = Server::with(Config { domains: domains.to_vec(), internet: Some(meeting), ..Config::default() });
    let a = server(&internet, "a.example", plain);
    let mut romeo = a.online("romeo@a.example/orchard");
    let mut juliet = b.online("juliet@b.example/balcony");
    let mut nurse = b.online("nurse@closed.example/kitchen");
    chat(&mut nurse, "romeo@a.example", "1");
    nurse.expect(
        "<message type='error' id='1' from='romeo@a.example' to='nurse@closed.example/kitchen'><error type='cancel'>\
         <not-allowed xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>\
         <text xmlns='urn:ietf:params:xml:ns:xmpp-stanzas' xml:lang='en'>This domain does not communicate with other \
         servers.</text></error></message>",
    );
    nurse.send("<iq type='get' id='2' to='a.example'><ping xmlns='urn:xmpp:ping'/></iq>");
    assert!(xml(&nurse.expect_element()).contains("not-allowed"));
    chat(&mut romeo, "nurse@closed.example", "3");
    assert!(xml(&romeo.expect_element()).contains("remote-server-timeout"));
    chat(&mut romeo, "juliet@b.example", "4");
    juliet.expect_message("romeo@a.example/orchard", "4");
    chat(&mut juliet, "romeo@a.example", "5");
    romeo.expect_message("juliet@b.example/balcony", "5");
    chat(&mut juliet, "nurse@closed.example", "6");
    nurse.expect_message("juliet@b.example/balcony", "6");
    romeo.expect_nothing();
}

/// Switching federation off ends its streams, and nothing leaves any more.
#[test]
fn federation_that_is_switched_off_ends() {
    let internet = Internet::default();
    let a = server(&internet, "a.example", plain);
    let b = server(&internet, "b.example", plain);
    let (mut romeo, mut juliet) = (a.online("romeo@a.example/orchard"), b.online("juliet@b.example/balcony"));
    chat(&mut romeo, "juliet@b.example", "1");
    juliet.expect_message("romeo@a.example/orchard", "1");
    chat(&mut juliet, "romeo@a.example", "2");
    romeo.expect_message("juliet@b.example/balcony", "2");
    b.reload(|config| config.internet = None);
    b.advance(10_000);
    chat(&mut juliet, "romeo@a.example", "3");
    assert!(xml(&juliet.expect_element()).contains("remote-server-not-found"));
    chat(&mut romeo, "juliet@b.example", "4");
    a.advance(120_000);
    assert!(xml(&romeo.expect_element()).contains("remote-server-timeout"));
    juliet.expect_nothing();
}

/// A server that floods is read later: nothing is lost, and another one notices nothing.
#[test]
fn a_server_that_floods_waits() {
    let internet = Internet::default();
    let a = server(&internet, "a.example", plain);
    let c = server(&internet, "c.example", plain);
    let b = server(&internet, "b.example", |settings| {
        (settings.stanzas_per_second, settings.burst_seconds) = (10, 2);
    });
    let (mut romeo, mut paris) = (a.online("romeo@a.example/orchard"), c.online("paris@c.example/hall"));
    let mut juliet = b.online("juliet@b.example/balcony");
    for number in 0..100 {
        chat(&mut romeo, "juliet@b.example/balcony", &number.to_string());
        romeo.pump();
    }
    let mut heard = juliet.bodies();
    assert!(heard.len() < 100, "not all at once: {}", heard.len());
    chat(&mut paris, "juliet@b.example/balcony", "hello");
    assert_eq!(juliet.bodies(), ["hello"]);
    b.advance(60_000);
    heard.extend(juliet.bodies());
    let expected: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    assert_eq!(heard, expected);
}

/// If the operator wants it, a domain that no user has written to has a lower rate.
#[test]
fn a_new_server_is_slow_until_somebody_writes_to_it() {
    let internet = Internet::default();
    let a = server(&internet, "a.example", plain);
    let b = server(&internet, "b.example", |settings| (settings.newcomer_stanzas, settings.burst_seconds) = (1, 1));
    let mut romeo = a.online("romeo@a.example/orchard");
    let mut juliet = b.online("juliet@b.example/balcony");
    for number in 0..20 {
        chat(&mut romeo, "juliet@b.example/balcony", &number.to_string());
        romeo.pump();
    }
    let heard = juliet.bodies().len();
    assert!((1..5).contains(&heard), "{heard}");
    b.advance(60_000);
    assert_eq!(juliet.bodies().len(), 20 - heard);
    chat(&mut juliet, "romeo@a.example", "who are you?");
    romeo.expect_message("juliet@b.example/balcony", "who are you?");
    b.advance(60_000);
    for number in 0..50 {
        chat(&mut romeo, "juliet@b.example/balcony", &number.to_string());
        romeo.pump();
    }
    assert_eq!(juliet.bodies().len(), 50, "it is no stranger any more");
}

/// However many connections strangers make, a message between clients takes as many turns of the
/// shards as without them, and few of the connections stay.
#[test]
fn a_flood_of_connections_delays_no_client() {
    let address = std::net::Ipv4Addr::new(198, 51, 100, 1).into();
    let deliver = |each_turn: usize| {
        let b = server(&Internet::default(), "b.example", plain);
        let (mut juliet, mut nurse) = (b.online("juliet@b.example/balcony"), b.online("nurse@b.example/hall"));
        let mut strangers = Vec::new();
        chat(&mut juliet, "nurse@b.example/hall", "hello");
        for turn in 1..100 {
            for _ in 0..each_turn {
                let mut stranger = b.connect_server(address);
                stranger.send(
                    "<stream:stream xmlns='jabber:server' xmlns:stream='http://etherx.jabber.org/streams' \
                     from='a.example' to='b.example' version='1.0'>",
                );
                strangers.push(stranger);
            }
            for shard in 0..b.shards() {
                b.step(shard);
            }
            nurse.wire.receive();
            if nurse.unsettled_bodies() == ["hello"] {
                return (turn, strangers);
            }
        }
        panic!("it never arrived");
    };
    let (alone, _) = deliver(0);
    let (flooded, mut strangers) = deliver(500);
    assert_eq!(flooded, alone);
    assert!(strangers.len() >= 500);
    let open = strangers.iter_mut().filter_map(|stranger| stranger.is_open().then_some(())).count();
    assert!((1..=80).contains(&open), "{open}");
}
