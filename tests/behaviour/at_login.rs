//! Everything that others can leave for an account comes when it logs in, in portions, and ends no
//! session: however much it is, and however slowly its client reads.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rookery_hub::Value;
use rookery_jid::Jid;
use rookery_store::{Edit, EditRoster, RosterItem, Subscription};
use rookery_testkit::{Client, Config, Server};
use rookery_xml::{Element, ns};
use sha1::{Digest, Sha1};

const DISCO: &str = "http://jabber.org/protocol/disco#info";
const ROSTER: &str = "<iq type='get' id='roster'><query xmlns='jabber:iq:roster'/></iq>";
/// Nodes that clients want to hear of, as mood, tune, avatars and keys are.
const NODES: usize = 10;

/// Something that waits for romeo.
struct AtLoginSource {
    name: &'static str,
    /// Stores as much as is allowed, or more than an outbox takes.
    fill: fn(&Server),
    /// The request that a client sends for it besides its presence, and how many of them.
    ask: (&'static str, usize),
    /// Tells whether a stanza is one of these.
    is_of: fn(&Element) -> bool,
    /// The number of stanzas that have to come.
    count: usize,
}

const SOURCES: [AtLoginSource; 10] = [
    AtLoginSource {
        name: "requests of strangers",
        fill: |server| {
            let status = "x".repeat(240_000);
            for number in 0..5 {
                server.incoming(&request(number, &status));
            }
            for number in 5..600 {
                server.incoming(&request(number, &status[..3000]));
            }
        },
        ask: ("", 0),
        is_of: |stanza| stanza.name() == "presence" && stanza.attr("type") == Some("subscribe"),
        count: 500,
    },
    AtLoginSource {
        name: "requests that an earlier version kept whole",
        fill: |server| {
            for number in 0..20 {
                let contact = Jid::parse(&format!("stranger{number}@other.example")).expect("a JID");
                let stanza = request(number, &"x".repeat(240_000)).into_bytes();
                change(server, "romeo", RosterItem::for_request(contact, stanza));
            }
        },
        ask: ("", 0),
        is_of: |stanza| stanza.name() == "presence" && stanza.attr("type") == Some("subscribe"),
        count: 20,
    },
    AtLoginSource {
        name: "last items of contacts",
        fill: |server| {
            for name in ["juliet", "nurse"] {
                let contact = befriend(server, name);
                let mut client = server.login(&format!("{name}/publishing"));
                for node in 0..NODES {
                    // The larger ones come without their payload.
                    let bytes = if node % 2 == 0 { 60_000 } else { 120_000 };
                    let payload = format!("<x xmlns='urn:x'>{}</x>", "x".repeat(bytes));
                    client.send(&format!(
                        "<iq type='set' id='p'><pubsub xmlns='http://jabber.org/protocol/pubsub'>\
                         <publish node='node{node}'><item id='i'>{payload}</item></publish></pubsub></iq>"
                    ));
                    assert_eq!(client.expect_element().attr("type"), Some("result"), "{contact}");
                }
            }
        },
        ask: ("", 0),
        is_of: |stanza| stanza.child("event", ns::PUBSUB_EVENT).is_some(),
        count: 2 * NODES,
    },
    AtLoginSource {
        name: "messages while away",
        fill: |server| {
            server.account("romeo");
            let mut juliet = server.login("juliet/balcony");
            for _ in 0..40 {
                let body = "x".repeat(60_000);
                juliet.send(&format!("<message to='romeo@example.org' type='chat'><body>{body}</body></message>"));
                juliet.pump();
            }
        },
        ask: ("", 0),
        is_of: |stanza| stanza.name() == "message" && stanza.child("delay", ns::DELAY).is_some(),
        count: 40,
    },
    AtLoginSource {
        name: "the roster, again and again",
        fill: full_roster,
        ask: (ROSTER, 5),
        is_of: |stanza| stanza.attr("id") == Some("roster") && stanza.child("query", ns::ROSTER).is_some(),
        count: 5,
    },
    AtLoginSource {
        name: "presence of contacts",
        fill: |server| {
            for number in 0..12 {
                let name = format!("contact{number}");
                befriend(server, &name);
                let mut client = server.login(&format!("{name}/r"));
                client.send(&format!("<presence><status>{}</status></presence>", "x".repeat(200_000)));
                client.pump();
                std::mem::forget(client);
            }
        },
        ask: ("", 0),
        is_of: |stanza| {
            stanza.name() == "presence" && stanza.attr("from").is_some_and(|from| from.starts_with("contact"))
        },
        count: 12,
    },
    AtLoginSource {
        name: "the last presence of contacts who are away",
        fill: |server| {
            for number in 0..20 {
                let contact = befriend(server, &format!("contact{number}"));
                let status = "x".repeat(240_000);
                let stanza =
                    format!("<presence type='unavailable' from='{contact}/r'><status>{status}</status></presence>");
                let put = server.stores().last_presence.put(contact.as_ref(), server.now(), stanza.into_bytes());
                server.finish(put).expect("a last presence");
            }
        },
        ask: ("", 0),
        is_of: |stanza| {
            stanza.name() == "presence" && stanza.attr("from").is_some_and(|from| from.starts_with("contact"))
        },
        count: 20,
    },
    AtLoginSource {
        name: "the archive, many pages at once",
        fill: |server| {
            server.account("romeo");
            let mut juliet = server.login("juliet/balcony");
            for _ in 0..20 {
                let body = "x".repeat(60_000);
                juliet.send(&format!("<message to='romeo@example.org' type='chat'><body>{body}</body></message>"));
                juliet.pump();
            }
            server
                .finish(server.stores().offline.remove(server.address("romeo").as_ref(), u64::MAX >> 1))
                .expect("none");
        },
        ask: ("<iq type='set' id='page'><query xmlns='urn:xmpp:mam:2'/></iq>", 8),
        is_of: |stanza| stanza.attr("id") == Some("page") && stanza.attr("type") == Some("result"),
        count: 8,
    },
    AtLoginSource {
        name: "the message of the day",
        fill: |server| {
            let mut admin = server.login("bard/globe");
            let body = "x".repeat(240_000);
            admin.send(&format!("<message to='example.org/announce/motd'><body>{body}</body></message>"));
            admin.expect_alive();
        },
        ask: ("", 0),
        is_of: |stanza| stanza.name() == "message" && stanza.attr("from") == Some("example.org"),
        count: 1,
    },
    AtLoginSource {
        name: "a room that clients join at login",
        fill: |server| {
            let mut juliet = server.login("juliet/balcony");
            juliet.send("<presence to='room@conference.example.org/juliet'><x xmlns='http://jabber.org/protocol/muc'/></presence>");
            juliet.all();
            juliet.send(
                "<iq type='set' id='c' to='room@conference.example.org'><query xmlns='http://jabber.org/protocol/muc#owner'>\
                 <x xmlns='jabber:x:data' type='submit'/></query></iq>",
            );
            juliet.all();
            for _ in 0..20 {
                let body = "x".repeat(100_000);
                juliet.send(&format!(
                    "<message to='room@conference.example.org' type='groupchat'><body>{body}</body></message>"
                ));
                juliet.all();
                server.advance(1000);
            }
            std::mem::forget(juliet);
        },
        ask: (
            "<presence to='room@conference.example.org/romeo'><x xmlns='http://jabber.org/protocol/muc'/></presence>",
            1,
        ),
        is_of: |stanza| stanza.name() == "message" && stanza.child_text("body", ns::CLIENT).is_some(),
        count: 10,
    },
];

fn server() -> Server {
    let admins = ("administration", "admins", Value::List(vec!["bard@example.org".into()]));
    // Some operators raise this limit; by default, larger items come without payload.
    let large = ("pep", "item_bytes", Value::Number(131_072));
    Server::with(Config { federates: true, options: vec![admins, large], ..Config::default() })
}

fn request(number: usize, status: &str) -> String {
    format!(
        "<presence type='subscribe' from='stranger{number}@other.example' to='romeo@example.org' id='{number}'>\
         <status>{status}</status><x xmlns='urn:x'>dropped</x></presence>"
    )
}

fn change(server: &Server, owner: &str, item: RosterItem) {
    let (owner, contact) = (server.account(owner), item.jid.clone());
    let edit: EditRoster = Box::new(move |_, _| Edit::Put(item.clone()));
    server.finish(server.stores().rosters.change(owner.as_ref(), contact.as_ref(), edit)).expect("a roster");
}

/// Makes an account whose contact romeo is, and the other way round.
fn befriend(server: &Server, name: &str) -> Jid {
    let (contact, romeo) = (server.account(name), server.account("romeo"));
    let item = |jid: &Jid| RosterItem { subscription: Subscription::Both, ..RosterItem::new(jid.clone()) };
    change(server, "romeo", item(&contact));
    change(server, name, item(&romeo));
    contact
}

/// Makes the largest roster that there may be, as far as items of one size allow.
fn full_roster(server: &Server) {
    for number in 0..1000 {
        let contact = Jid::parse(&format!("contact{number:04}@other.example")).expect("a JID");
        let item = RosterItem { name: Some("x".repeat(1000)), ..RosterItem::new(contact) };
        change(server, "romeo", item);
    }
}

/// Logs in, becomes available, and takes all that comes; a slow client takes it in small pieces.
fn everything(server: &Server, source: &AtLoginSource, is_slow: bool, resource: &str) -> (Client, Vec<Element>) {
    let mut client = server.login(&format!("romeo/{resource}"));
    if is_slow {
        client.wire.peer.set_window(20_000);
        client.wire.appetite = 15_000;
        client.set_reading(false);
    }
    let features: String = (0..NODES).map(|node| format!("node{node}+notify<")).collect();
    let ver = STANDARD.encode(Sha1::digest(format!("client/pc//Test<{features}")));
    client.send(&format!(
        "<presence><c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='urn:test' ver='{ver}'/></presence>"
    ));
    (0..source.ask.1).for_each(|_| client.send(source.ask.0));
    server.settle();
    server.advance(1000);
    client.set_reading(true);
    let mut stanzas = Vec::new();
    loop {
        let more = client.all();
        if more.is_empty() {
            return (client, stanzas);
        }
        for asked in more.iter().filter(|stanza| stanza.attr("type") == Some("get")) {
            let (id, to) = (asked.attr("id").expect("an id"), asked.attr("from").expect("from"));
            let features: String = (0..NODES).map(|node| format!("<feature var='node{node}+notify'/>")).collect();
            client.send(&format!(
                "<iq type='result' id='{id}' to='{to}'><query xmlns='{DISCO}' node='urn:test#{ver}'>\
                 <identity category='client' type='pc' name='Test'/>{features}</query></iq>"
            ));
        }
        stanzas.extend(more);
    }
}

#[test]
fn nothing_that_comes_at_login_ends_a_session() {
    for source in &SOURCES {
        for is_slow in [false, true] {
            let server = server();
            server.account("romeo");
            (source.fill)(&server);
            let (mut client, stanzas) = everything(&server, source, is_slow, "orchard");
            let found = stanzas.iter().filter(|stanza| (source.is_of)(stanza)).count();
            assert_eq!(found, source.count, "{}, slow: {is_slow}", source.name);
            client.expect_alive();
            assert_eq!(server.counters().overflows, 0, "{}, slow: {is_slow}", source.name);
        }
    }
}

/// With everything at once, by two clients of the account.
#[test]
fn nor_does_all_of_it_together() {
    let server = server();
    server.account("romeo");
    SOURCES.iter().filter(|source| source.ask.1 == 0).for_each(|source| (source.fill)(&server));
    full_roster(&server);
    let asks = AtLoginSource { ask: (ROSTER, 5), ..AtLoginSource { ..SOURCES[4] } };
    for (is_slow, resource) in [(true, "orchard"), (false, "tomb")] {
        let (mut client, stanzas) = everything(&server, &asks, is_slow, resource);
        for source in SOURCES.iter().filter(|source| source.ask.1 == 0) {
            let found = stanzas.iter().filter(|stanza| (source.is_of)(stanza)).count();
            assert!(found > 0 || resource == "tomb", "{}, slow: {is_slow}", source.name);
        }
        client.expect_alive();
        client.close();
    }
    assert_eq!(server.counters().overflows, 0);
}

/// A client that acknowledges what it gets (XEP-0198), and does so late.
#[test]
fn nor_is_a_session_that_acknowledges_late_ended_by_it() {
    for source in SOURCES.iter().filter(|source| source.ask.1 == 0) {
        let server = server();
        server.account("romeo");
        (source.fill)(&server);
        let mut client = server.login("romeo/orchard");
        client.send("<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
        client.expect_element();
        client.send("<presence/>");
        let (mut handled, mut found) = (0, 0);
        loop {
            let more = client.all();
            handled += more.iter().filter(|stanza| stanza.ns() == ns::CLIENT).count();
            found += more.iter().filter(|stanza| (source.is_of)(stanza)).count();
            if !more.iter().any(|stanza| stanza.is("r", ns::SM)) {
                break;
            }
            client.send(&format!("<a xmlns='urn:xmpp:sm:3' h='{handled}'/>"));
            server.advance(1000);
        }
        let needs_capabilities = source.name == "last items of contacts";
        assert!(found == source.count || needs_capabilities, "{}: {found}", source.name);
        client.expect_alive();
        assert_eq!(server.counters().overflows, 0, "{}", source.name);
    }
}

/// An account can get rid of all that strangers leave for it: requests are declined, and the roster
/// has its own room.
#[test]
fn requests_take_no_place_of_contacts_and_can_be_declined() {
    let mut config = Config { federates: true, ..Config::default() };
    (config.settings.roster.items, config.settings.roster.requests) = (3, 4);
    let server = Server::with(config);
    server.account("romeo");
    for number in 0..10 {
        server.incoming(&request(number, "hi"));
    }
    let mut romeo = server.login("romeo/orchard");
    romeo.send("<presence/>");
    let is_request = |stanza: &&Element| stanza.attr("type") == Some("subscribe");
    let requests = romeo.all();
    let from: Vec<_> = requests.iter().filter(is_request).filter_map(|stanza| stanza.attr("from")).collect();
    assert_eq!(from.len(), 4);
    for number in 0..3 {
        let item = format!("<item jid='c{number}@example.org'/>");
        romeo.send(&format!("<iq type='set' id='{number}'><query xmlns='jabber:iq:roster'>{item}</query></iq>"));
        assert_eq!(romeo.expect_element().attr("type"), Some("result"));
    }
    // There is no place for one more contact.
    romeo.send(&format!("<presence type='subscribed' to='{}'/>", from[0]));
    let error = romeo.expect_element();
    assert!(
        error
            .child("error", ns::CLIENT)
            .is_some_and(|error| error.child("resource-constraint", ns::STANZA_ERRORS).is_some())
    );
    for contact in &from {
        romeo.send(&format!("<presence type='unsubscribed' to='{contact}'/>"));
    }
    romeo.expect_nothing();
    server.incoming(&request(20, "hi"));
    assert_eq!(romeo.expect_element().attr("from"), Some("stranger20@other.example"));
}
