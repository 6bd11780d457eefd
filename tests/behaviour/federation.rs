//! Two servers that meet: streams, TLS, certificates and dialback as on a real network (RFC 6120,
//! XEP-0178, XEP-0220).
//!
//! # Layout
//!
//! `proofs` is how servers prove who they are, `rules` what operators decide, `breaks` what ends in
//! the middle, `meetings` those who call at the same time, `loops` ways that lead nowhere,
//! `strangers` what users of other servers may not, `nodes` a cluster and other servers.

use rookery_federation::FederationSettings;
use rookery_testkit::client::xml;
use rookery_testkit::{Client, Config, Internet, Meeting, Server};

mod breaks;
mod loops;
mod meetings;
mod nodes;
mod proofs;
mod rules;
mod strangers;

/// Returns a server of a domain and its rooms, whose certificate is good.
fn server(internet: &Internet, domain: &str, change: impl FnOnce(&mut FederationSettings)) -> Server {
    start(domain, Config::default(), internet.meeting(&names(domain), change))
}

fn start(domain: &str, config: Config, meeting: Meeting) -> Server {
    Server::with(Config { domains: vec![domain.to_owned()], internet: Some(meeting), ..config })
}

fn names(domain: &str) -> Vec<String> {
    vec![domain.to_owned(), format!("conference.{domain}")]
}

/// Returns two servers that trust each other, and a user of each.
fn scene() -> (Server, Server, Client, Client) {
    let internet = Internet::default();
    let (a, b) = (server(&internet, "a.example", plain), server(&internet, "b.example", plain));
    let romeo = a.online("romeo@a.example/orchard");
    let juliet = b.online("juliet@b.example/balcony");
    (a, b, romeo, juliet)
}

fn plain(_: &mut FederationSettings) {}

fn chat(client: &mut Client, to: &str, body: &str) {
    client.send(&format!("<message to='{to}' id='{body}' type='chat'><body>{body}</body></message>"));
}

/// Checks that a user of each of two servers hears the other.
fn expect_talk(a: &Server, b: &Server) {
    let mut romeo = a.online("romeo@a.example/orchard");
    let mut juliet = b.online("juliet@b.example/balcony");
    chat(&mut romeo, "juliet@b.example/balcony", "1");
    juliet.expect_message("romeo@a.example/orchard", "1");
    chat(&mut juliet, "romeo@a.example/orchard", "2");
    romeo.expect_message("juliet@b.example/balcony", "2");
}

#[test]
fn users_of_two_servers_chat() {
    let (_a, _b, mut romeo, mut juliet) = scene();
    for number in 0..100 {
        chat(&mut romeo, "juliet@b.example/balcony", &number.to_string());
    }
    let expected: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    assert_eq!(juliet.bodies(), expected);
    chat(&mut juliet, "romeo@a.example", "good night");
    romeo.expect_message("juliet@b.example/balcony", "good night");
}

#[test]
fn many_accounts_of_many_shards_meet() {
    let internet = Internet::default();
    let servers = ["a.example", "b.example"].map(|domain| {
        let meeting = Meeting { direct_tls: true, ..internet.meeting(&names(domain), plain) };
        start(domain, Config { shards: 5, ..Config::default() }, meeting)
    });
    let mut ones: Vec<_> = (0..10).map(|number| servers[0].online(&format!("one{number}@a.example/x"))).collect();
    let mut others: Vec<_> = (0..10).map(|number| servers[1].online(&format!("two{number}@b.example/x"))).collect();
    for (number, one) in ones.iter_mut().enumerate() {
        chat(one, &format!("two{number}@b.example/x"), "hi");
    }
    for (number, other) in others.iter_mut().enumerate() {
        other.expect_message(&format!("one{number}@a.example/x"), "hi");
        chat(other, &format!("one{number}@a.example/x"), "hi yourself");
    }
    for (number, one) in ones.iter_mut().enumerate() {
        one.expect_message(&format!("two{number}@b.example/x"), "hi yourself");
    }
}

#[test]
fn contacts_of_two_servers_see_each_other() {
    let (a, _b, mut romeo, mut juliet) = scene();
    romeo.ask("<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>");
    juliet.ask("<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>");
    romeo.send("<presence type='subscribe' to='juliet@b.example'/>");
    juliet.expect("<presence type='subscribe' from='romeo@a.example' to='juliet@b.example'/>");
    juliet.send("<presence type='subscribed' to='romeo@a.example'/>");
    let seen = |client: &mut Client| client.all().iter().map(xml).collect::<String>();
    let told = seen(&mut romeo);
    assert!(told.contains("type='subscribed'") && told.contains("from='juliet@b.example/balcony'"), "{told}");
    juliet.send("<presence><show>away</show></presence>");
    assert!(seen(&mut romeo).contains("<show>away</show>"));
    // A client that comes later asks, and is told.
    let mut phone = a.online("romeo@a.example/phone");
    assert!(seen(&mut phone).contains("<show>away</show>"));
    juliet.send("<presence type='unavailable'/>");
    assert!(seen(&mut romeo).contains("type='unavailable'"));
    // A stranger's probe gets no reply.
    let mut paris = a.online("paris@a.example/x");
    paris.send("<presence type='probe' to='juliet@b.example'/>");
    paris.expect_nothing();
}

#[test]
fn rooms_have_occupants_of_other_servers() {
    let (a, _b, mut romeo, mut juliet) = scene();
    let join = |client: &mut Client, nick: &str| {
        client.send(&format!(
            "<presence to='verona@conference.b.example/{nick}'><x xmlns='http://jabber.org/protocol/muc'/></presence>"
        ));
    };
    join(&mut juliet, "juliet");
    juliet.send(
        "<iq type='set' id='c' to='verona@conference.b.example'><query xmlns='http://jabber.org/protocol/muc#owner'>\
                 <x xmlns='jabber:x:data' type='submit'/></query></iq>",
    );
    juliet.all();
    join(&mut romeo, "romeo");
    let seen: String = romeo.all().iter().map(xml).collect();
    assert!(seen.contains("verona@conference.b.example/juliet") && seen.contains("code='110'"), "{seen}");
    juliet.all();
    romeo.send("<message type='groupchat' to='verona@conference.b.example'><body>O, speak again</body></message>");
    juliet.expect_message("verona@conference.b.example/romeo", "O, speak again");
    romeo.expect_message("verona@conference.b.example/romeo", "O, speak again");
    juliet.send("<message type='groupchat' to='verona@conference.b.example'><body>Ay me</body></message>");
    romeo.expect_message("verona@conference.b.example/juliet", "Ay me");
    // Idle streams are closed, and nobody leaves the room for it.
    juliet.all();
    a.advance(3_600_000);
    juliet.expect_nothing();
    juliet.send("<message type='groupchat' to='verona@conference.b.example'><body>Romeo?</body></message>");
    romeo.expect_message("verona@conference.b.example/juliet", "Romeo?");
}

#[test]
fn requests_cross_and_their_answers_come_back() {
    let (_a, _b, mut romeo, _juliet) = scene();
    romeo.send("<iq type='get' id='p' to='b.example'><ping xmlns='urn:xmpp:ping'/></iq>");
    romeo.expect("<iq type='result' id='p' from='b.example' to='romeo@a.example/orchard'/>");
}
