//! XEP-0175: domains that let everybody in, with an account for one session.

use std::net::IpAddr;

use rookery_hub::LoginBy;
use rookery_sasl::Mechanism;
use rookery_testkit::login::bind_request;
use rookery_testkit::{Client, Config, Server};
use rookery_xml::ns;

/// Returns a server with a domain for everybody besides the usual one.
fn server() -> Server {
    Server::with(config())
}

fn config() -> Config {
    Config {
        domains: vec!["example.org".into(), GUESTS.into()],
        login_by: vec![(GUESTS.into(), LoginBy::Anonymous)],
        ..Config::default()
    }
}

/// Logs an anonymous client in.
fn guest(server: &Server) -> Client {
    let mut client = server.connect();
    client.open(GUESTS);
    assert_eq!(client.mechanisms(), ["ANONYMOUS"]);
    client.send("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='ANONYMOUS'/>");
    client.expect("<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>");
    client.open(GUESTS);
    client.bind("mine");
    client.send("<presence/>");
    client.expect_presence_of_itself();
    client
}

#[test]
fn everybody_gets_a_name_that_nobody_else_has() {
    let server = server();
    let (mut one, mut other) = (guest(&server), guest(&server));
    assert_ne!(one.bare(), other.bare());
    for client in [&one, &other] {
        let jid = client.jid.as_ref().unwrap();
        let local = jid.local().unwrap();
        let parts: Vec<usize> = local.split('-').map(str::len).collect();
        assert_eq!((jid.domain(), parts.as_slice()), (GUESTS, &[8, 4, 4, 4, 12][..]), "{local}");
        assert_ne!(jid.resource(), Some("mine"), "the server chooses");
    }
    let mut juliet = server.online("juliet/balcony");
    one.send("<message to='juliet@example.org/balcony'><body>Help!</body></message>");
    juliet.expect_message(one.full(), "Help!");
    juliet.send(&format!("<message to='{}'><body>With what?</body></message>", one.full()));
    one.expect_message(juliet.full(), "With what?");
    other.expect_nothing();
}

/// XEP-0388 and XEP-0386 in one exchange.
#[test]
fn one_exchange_is_enough() {
    let server = server();
    let mut client = server.connect();
    client.open(GUESTS);
    client.send(
        "<authenticate xmlns='urn:xmpp:sasl:2' mechanism='ANONYMOUS'><bind xmlns='urn:xmpp:bind:0'/></authenticate>",
    );
    let success = client.expect_element();
    assert!(success.is("success", ns::SASL2) && success.child("bound", ns::BIND2).is_some(), "{success:?}");
    let identity = success.child_text("authorization-identifier", ns::SASL2).unwrap();
    assert!(identity.contains("@guests.example/"), "{identity}");
}

#[test]
fn elsewhere_nobody_comes_in_without_a_password() {
    let server = server();
    let mut client = server.connect();
    client.open("example.org");
    assert!(!client.mechanisms().contains(&"ANONYMOUS".to_owned()));
    assert_eq!(client.authenticate("", "", Mechanism::Anonymous), Err("invalid-mechanism".into()));
    let mut client = server.connect();
    client.open(GUESTS);
    server.account("juliet@guests.example");
    assert_eq!(client.authenticate("juliet", "r0m30myr0m30", Mechanism::Plain), Err("invalid-mechanism".into()));
}

/// XEP-0175 §3: nothing that lasts longer than the session.
#[test]
fn nothing_is_kept() {
    let server = server();
    let mut juliet = server.online("juliet/balcony");
    let mut client = guest(&server);
    client.send("<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>");
    client.expect("<iq type='result' id='r' from='*'><query xmlns='jabber:iq:roster'/></iq>");
    let refused = "<error type='cancel'><not-allowed xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>";
    client.send("<iq type='set' id='s'><query xmlns='jabber:iq:roster'><item jid='juliet@example.org'/></query></iq>");
    client.expect(&format!("<iq type='error' id='s' from='*'>{refused}</iq>"));
    client.send("<presence type='subscribe' to='juliet@example.org' id='p'/>");
    client.expect(&format!("<presence type='error' from='juliet@example.org' id='p'>{refused}</presence>"));
    for payload in ["<query xmlns='jabber:iq:private'><a xmlns='b'/></query>", "<vCard xmlns='vcard-temp'/>"] {
        client.send(&format!("<iq type='set' id='k'>{payload}</iq>"));
        client.expect(
            "<iq type='error' id='k' from='*'><error type='cancel'>\
             <service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>",
        );
    }
    juliet.send(&format!("<presence type='subscribe' to='{}'/>", client.bare()));
    juliet.all();
    client.expect_nothing();
    let gone = client.full().to_owned();
    client.close();
    juliet.send(&format!("<message to='{gone}' id='m'><body>Still there?</body></message>"));
    juliet.expect(&format!(
        "<message type='error' from='{gone}' id='m'><error type='cancel'>\
         <service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>"
    ));
    assert_eq!(server.finish(server.stores().accounts.count(Some(GUESTS))), Ok(0));
    assert_eq!((server.sessions(), server.counters().store_errors), (1, 0));
}

/// Guests may enter rooms, but only users with an account of their own may create one.
#[test]
fn guests_enter_rooms_and_make_none() {
    let server = server();
    let mut juliet = server.online("juliet/balcony");
    let enter =
        |room: &str| format!("<presence to='{room}/nick'><x xmlns='http://jabber.org/protocol/muc'/></presence>");
    juliet.send(&enter("help@conference.example.org"));
    juliet.all();
    juliet.send(
        "<iq type='set' id='c' to='help@conference.example.org'><query xmlns='http://jabber.org/protocol/muc#owner'>\
         <x xmlns='jabber:x:data' type='submit'/></query></iq>",
    );
    juliet.all();
    let mut client = guest(&server);
    client.send(
        "<presence to='help@conference.example.org/guest'><x xmlns='http://jabber.org/protocol/muc'/></presence>",
    );
    let heard = client.all();
    assert!(heard.iter().any(|stanza| stanza.attr("from") == Some("help@conference.example.org/guest")), "{heard:?}");
    for host in ["conference.example.org", "conference.guests.example"] {
        client.send(&enter(&format!("mine@{host}")));
        let refusal = client.expect_element();
        assert_eq!((refusal.name(), refusal.attr("type")), ("presence", Some("error")), "{refusal:?}");
    }
}

#[test]
fn an_address_lets_so_many_in() {
    // Each node counts for itself.
    let server = Server::with(Config { nodes: 1, ..config() });
    let come = |address: &str| {
        let mut client = server.connect_from(address.parse::<IpAddr>().unwrap());
        client.open(GUESTS);
        let outcome = client.authenticate("", "", Mechanism::Anonymous);
        client.vanish();
        outcome
    };
    let outcomes: Vec<_> = (0..BURST + 1).map(|_| come("192.0.2.7")).collect();
    assert!(outcomes[..BURST].iter().all(Result::is_ok));
    assert_eq!(outcomes[BURST], Err("temporary-auth-failure".into()));
    assert_eq!(come("192.0.2.8"), Ok(()), "others come in");
    server.advance(6_000);
    assert_eq!((come("192.0.2.7"), come("192.0.2.7").is_ok()), (Ok(()), false), "one more after a while");
}

/// A client that names a session of somebody else gets a new one.
#[test]
fn no_session_is_taken_up_again() {
    let server = server();
    let mut client = guest(&server);
    client.send("<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
    let answer = client.expect_element();
    assert!(!answer.is("enabled", ns::SM), "{answer:?}");
    client.vanish();
    assert_eq!(server.sessions(), 0);
    let mut client = server.connect();
    client.open(GUESTS);
    client.send(&bind_request(None));
    client.expect_stream_error("not-authorized");
}

const GUESTS: &str = "guests.example";
/// Logins of one address at once.
const BURST: usize = 100;
