//! Features between the users of two servers: rooms, archives, vCards, blocking, copies,
//! invitations, push, multicast.

use rookery_federation::Address;
use rookery_testkit::{Client, Config, Internet, Meeting, Server, client, engine};
use rookery_xml::Element;

/// The services of a domain.
const SERVICES: [&str; 4] = ["conference", "pubsub", "multicast", "upload"];

/// Returns a server of a domain with its services, reachable by all names.
pub(crate) fn server(internet: &Internet, domain: &str, components: &[&str]) -> Server {
    let services = SERVICES.map(|service| format!("{service}.{domain}"));
    let own = [domain.to_owned()].into_iter().chain(services);
    let names: Vec<String> = own.chain(components.iter().map(|name| (*name).to_owned())).collect();
    let federation = internet.federation(&names, |_| {});
    let meeting = Meeting { internet: internet.clone(), federation, names, direct_tls: false };
    Server::with(Config {
        domains: vec![domain.to_owned()],
        components: components.iter().map(|name| (*name).to_owned()).collect(),
        internet: Some(meeting),
        ..Config::default()
    })
}

/// Two servers that can reach each other, with a user on each.
pub struct CrossingScene {
    pub internet: Internet,
    pub a: Server,
    pub b: Server,
    pub romeo: Client,
    pub juliet: Client,
}

impl CrossingScene {
    /// Starts both, and logs both users in.
    pub fn new() -> Self {
        let internet = Internet::default();
        let (a, b) = (server(&internet, "a.example", &[]), server(&internet, "b.example", &[]));
        let romeo = a.online("romeo@a.example/orchard");
        let juliet = b.online("juliet@b.example/balcony");
        Self { internet, a, b, romeo, juliet }
    }

    /// Makes Juliet's room, with her in it.
    fn room(&mut self) {
        join(&mut self.juliet, "juliet");
        self.juliet.send(
            "<iq type='set' id='c' to='verona@conference.b.example'><query xmlns='http://jabber.org/protocol/muc#owner'>\
             <x xmlns='jabber:x:data' type='submit'/></query></iq>",
        );
        self.juliet.all();
    }

    /// Configures Juliet's room to broadcast the presence of these roles.
    fn configure(&mut self, roles: &str) {
        self.juliet.send(&format!(
            "<iq type='set' id='c' to='verona@conference.b.example'><query xmlns='http://jabber.org/protocol/muc#owner'>\
             <x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>\
             <value>http://jabber.org/protocol/muc#roomconfig</value></field>\
             <field var='muc#roomconfig_maxusers'><value>2000</value></field>\
             <field var='muc#roomconfig_presencebroadcast'>{roles}</field></x></query></iq>",
        ));
        let told = received_xml(&mut self.juliet);
        assert!(told.contains("type='result'"), "{told}");
    }

    /// Puts the server of a domain where nobody listens, from now on. One that starts is found
    /// again, also the one that takes the place of another that was killed.
    fn lose(&self, domain: &str) {
        let services = SERVICES.map(|service| format!("{service}.{domain}"));
        for name in services.iter().map(String::as_str).chain([domain]) {
            let socket = "1.2.3.4:5269".parse().expect("an address");
            self.internet.say(name, Ok(vec![Address::new(socket, false)]));
        }
    }
}

fn join(client: &mut Client, nick: &str) {
    client.send(&format!(
        "<presence to='verona@conference.b.example/{nick}'><x xmlns='http://jabber.org/protocol/muc'/></presence>"
    ));
}

fn received_xml(client: &mut Client) -> String {
    client.all().iter().map(client::xml).collect()
}

/// A domain has one name, whatever letters it is written in: DNS, TLS and certificates know it in
/// A-labels, addresses in U-labels (RFC 6120 §13.7.1.1, RFC 7622 §3.2).
#[test]
fn domains_of_any_letters_meet() {
    let internet = Internet::default();
    let own = "b\u{fc}cher.example";
    let issued = internet.issue(&["xn--bcher-kva.example".to_owned()]);
    let meeting = internet.meeting_with(&issued, &[own.to_owned()], |_| {});
    let b = Server::with(Config { domains: vec![own.to_owned()], internet: Some(meeting), ..Config::default() });
    let a = server(&internet, "a.example", &[]);
    let mut juliet = b.online("juliet@b\u{fc}cher.example/balcony");
    let mut romeo = a.online("romeo@a.example/orchard");
    for domain in [own, "xn--bcher-kva.example", "B\u{dc}CHER.example"] {
        romeo.send(&format!("<message to='juliet@{domain}/balcony' type='chat'><body>{domain}</body></message>"));
        juliet.expect_message("romeo@a.example/orchard", domain);
    }
    juliet.send("<message to='romeo@a.example/orchard' type='chat'><body>back</body></message>");
    romeo.expect_message("juliet@b\u{fc}cher.example/balcony", "back");
    assert_eq!(internet.calls(), 1, "one stream serves all spellings, and both directions");
}

/// A thousand occupants are on a server that dies. One message finds out, and the work grows with
/// their number: nobody is told of the others' end who is gone as well. A thousand logins take
/// minutes in a database, so there are fewer there.
#[test]
fn occupants_of_a_server_that_is_gone_are_removed_in_one_pass() {
    let occupants = if engine::is_database() { 50 } else { 1000 };
    let mut scene = CrossingScene::new();
    scene.room();
    // While they enter nobody hears of it, which would take a million stanzas.
    scene.configure("<value>moderator</value>");
    let mut others: Vec<Client> =
        (0..occupants).map(|number| scene.a.online(&format!("user{number}@a.example/x"))).collect();
    for (number, other) in others.iter_mut().enumerate() {
        join(other, &format!("nick{number}"));
        other.pump();
    }
    let inside = others.iter_mut().filter_map(|other| received_xml(other).contains("code='110'").then_some(())).count();
    assert_eq!(inside, occupants);
    scene.configure("<value>moderator</value><value>participant</value><value>visitor</value>");
    scene.juliet.all();
    scene.a.kill();
    scene.lose("a.example");
    // Stanzas that were under way are given up.
    scene.b.advance(10_000);
    scene.juliet.all();
    let before = scene.b.counters().remote_out;
    scene.juliet.send("<message type='groupchat' to='verona@conference.b.example'><body>Romeo?</body></message>");
    scene.b.advance(120_000);
    let told = received_xml(&mut scene.juliet);
    let gone = told.matches("type='unavailable'").count();
    assert_eq!((gone, told.matches("code='333'").count()), (occupants, occupants));
    // The message, one that looks for the occupants for whom it didn't come back, and the presence
    // that each has left.
    let left = scene.b.counters().remote_out - before;
    assert!(left <= 3 * occupants as u64, "{left}");
    // They are gone: the next message bounces for nobody.
    scene.juliet.send("<message type='groupchat' to='verona@conference.b.example'><body>alone</body></message>");
    scene.juliet.expect_message("verona@conference.b.example/juliet", "alone");
    scene.juliet.expect_nothing();
}

/// Only the nick of an occupant is known, even when a message for it comes back.
#[test]
fn a_whisper_that_comes_back_names_no_server() {
    let mut scene = CrossingScene::new();
    scene.room();
    let mut nurse = scene.b.online("nurse@b.example/hall");
    join(&mut nurse, "nurse");
    join(&mut scene.romeo, "romeo");
    scene.romeo.all();
    nurse.all();
    scene.a.kill();
    scene.lose("a.example");
    let whisper = "<message type='chat' id='w' to='verona@conference.b.example/romeo'><body>psst</body></message>";
    for _ in 0..2 {
        nurse.send(whisper);
        scene.b.advance(120_000);
        let told = received_xml(&mut nurse);
        assert!(!told.is_empty() && !told.contains("a.example"), "{told}");
    }
}

/// An occupant that comes back in the moment in which errors are counted isn't taken for gone.
#[test]
fn who_enters_again_behind_an_error_stays() {
    let mut scene = CrossingScene::new();
    scene.room();
    join(&mut scene.romeo, "romeo");
    scene.romeo.all();
    scene.juliet.all();
    let error = "<error type='cancel'><gone xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>";
    scene.romeo.send(&format!("<message type='error' id='m' to='verona@conference.b.example'>{error}</message>"));
    join(&mut scene.romeo, "romeo");
    let told = received_xml(&mut scene.juliet);
    assert!(told.contains("code='333'"), "{told}");
    assert!(told.rfind("type='unavailable'") < told.rfind("<presence"), "{told}");
    scene.romeo.all();
    scene.juliet.send("<message type='groupchat' to='verona@conference.b.example'><body>welcome</body></message>");
    scene.romeo.expect_message("verona@conference.b.example/juliet", "welcome");
}

/// Occupants whose server is gone, or has forgotten them, leave a room even if nobody speaks in it.
#[test]
fn a_quiet_room_finds_out_who_is_gone() {
    for is_back in [false, true] {
        let mut scene = CrossingScene::new();
        scene.room();
        join(&mut scene.romeo, "romeo");
        scene.romeo.all();
        // All that has left is acknowledged by then, and nothing more is on its way.
        scene.b.advance(120_000);
        scene.juliet.all();
        if is_back {
            scene.a.restart();
        } else {
            scene.a.kill();
            scene.lose("a.example");
        }
        scene.b.advance(10_000);
        assert_eq!(received_xml(&mut scene.juliet), "", "a server that restarts has a moment");
        scene.b.advance(120_000);
        let told = received_xml(&mut scene.juliet);
        assert!(told.contains("type='unavailable'") && told.contains("code='333'"), "is back: {is_back}; {told}");
        scene.b.advance(120_000);
        assert_eq!(received_xml(&mut scene.juliet), "");
    }
}

/// A broken stream reveals nothing about the occupants of a room, and they don't notice it.
#[test]
fn a_lost_stream_removes_nobody_who_is_there() {
    let mut scene = CrossingScene::new();
    scene.room();
    join(&mut scene.romeo, "romeo");
    scene.romeo.all();
    scene.juliet.all();
    scene.b.run_at(scene.b.home_of_domain("a.example"), |world| world.lost("a.example"));
    scene.b.advance(120_000);
    assert_eq!(received_xml(&mut scene.juliet), "");
    let told = scene.romeo.all();
    let shows = |message: &Element| message.children().any(|child| matches!(child.name(), "body" | "subject" | "x"));
    assert!(told.len() == 1 && !told.iter().any(shows), "{told:?}");
    scene.juliet.send("<message type='groupchat' to='verona@conference.b.example'><body>still here?</body></message>");
    scene.romeo.expect_message("verona@conference.b.example/juliet", "still here?");
}

#[test]
fn an_error_about_something_else_removes_nobody() {
    let mut scene = CrossingScene::new();
    scene.room();
    join(&mut scene.romeo, "romeo");
    scene.romeo.all();
    scene.juliet.all();
    // A reply to a question of another occupant says nothing of the room.
    scene
        .juliet
        .send("<iq type='get' id='v' to='verona@conference.b.example/romeo'><query xmlns='jabber:iq:version'/></iq>");
    let asked = scene.romeo.expect_element();
    let (id, from) = (asked.attr("id").expect("an id"), asked.attr("from").expect("a sender"));
    scene.romeo.send(&format!(
        "<iq type='error' id='{id}' to='{from}'><error type='cancel'>\
         <service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>"
    ));
    assert!(received_xml(&mut scene.juliet).contains("service-unavailable"));
    scene.juliet.send("<message type='groupchat' to='verona@conference.b.example'><body>still here?</body></message>");
    scene.romeo.expect_message("verona@conference.b.example/juliet", "still here?");
    // He finds himself there (XEP-0410).
    scene.romeo.send("<iq type='get' id='s' to='verona@conference.b.example/romeo'><ping xmlns='urn:xmpp:ping'/></iq>");
    scene.romeo.expect("<iq type='result' id='s' from='verona@conference.b.example/romeo'/>");
}

#[test]
fn occupants_of_other_servers_read_the_archive_of_a_room_and_no_account_s() {
    let mut scene = CrossingScene::new();
    scene.room();
    join(&mut scene.romeo, "romeo");
    scene.romeo.all();
    scene.juliet.send("<message type='groupchat' to='verona@conference.b.example' id='1'><body>kept</body></message>");
    scene.romeo.all();
    scene.romeo.send(
        "<iq type='set' id='m' to='verona@conference.b.example'><query xmlns='urn:xmpp:mam:2' queryid='q'/></iq>",
    );
    let told = received_xml(&mut scene.romeo);
    assert!(told.contains("<body>kept</body>") && told.contains("<fin"), "{told}");
    scene.romeo.send("<iq type='set' id='m' to='juliet@b.example'><query xmlns='urn:xmpp:mam:2' queryid='q'/></iq>");
    let told = received_xml(&mut scene.romeo);
    assert!(told.contains("type='error'") && !told.contains("<fin"), "{told}");
}

#[test]
fn cards_are_read_across_servers_and_changed_by_their_owner_alone() {
    let mut scene = CrossingScene::new();
    scene.juliet.ask("<iq type='set' id='v'><vCard xmlns='vcard-temp'><FN>Juliet Capulet</FN></vCard></iq>");
    scene.romeo.send("<iq type='get' id='v' to='juliet@b.example'><vCard xmlns='vcard-temp'/></iq>");
    assert!(received_xml(&mut scene.romeo).contains("<FN>Juliet Capulet</FN>"));
    scene
        .romeo
        .send("<iq type='set' id='v' to='juliet@b.example'><vCard xmlns='vcard-temp'><FN>Rosaline</FN></vCard></iq>");
    assert!(received_xml(&mut scene.romeo).contains("type='error'"));
}

#[test]
fn who_is_blocked_on_another_server_gets_nothing_through() {
    let mut scene = CrossingScene::new();
    scene.juliet.ask("<iq type='set' id='b'><block xmlns='urn:xmpp:blocking'><item jid='a.example'/></block></iq>");
    scene.juliet.all();
    scene.romeo.send("<message to='juliet@b.example' id='1' type='chat'><body>hi</body></message>");
    assert!(received_xml(&mut scene.romeo).contains("service-unavailable"));
    scene.juliet.expect_nothing();
}

#[test]
fn copies_are_made_of_what_comes_from_another_server_and_of_what_goes_there() {
    let mut scene = CrossingScene::new();
    let mut phone = scene.b.online("juliet@b.example/phone");
    phone.ask("<iq type='set' id='e'><enable xmlns='urn:xmpp:carbons:2'/></iq>");
    phone.all();
    scene.romeo.send("<message to='juliet@b.example/balcony' type='chat'><body>one</body></message>");
    let told = received_xml(&mut phone);
    assert!(told.contains("<received") && told.contains("<body>one</body>"), "{told}");
    scene.juliet.send("<message to='romeo@a.example' type='chat'><body>two</body></message>");
    let told = received_xml(&mut phone);
    assert!(told.contains("<sent") && told.contains("<body>two</body>"), "{told}");
}

#[test]
fn invitations_cross() {
    let mut scene = CrossingScene::new();
    scene.room();
    scene.juliet.send(
        "<message to='verona@conference.b.example'><x xmlns='http://jabber.org/protocol/muc#user'>\
         <invite to='romeo@a.example'><reason>come</reason></invite></x></message>",
    );
    let told = received_xml(&mut scene.romeo);
    assert!(told.contains("from='verona@conference.b.example'") && told.contains("<reason>come</reason>"), "{told}");
}

#[test]
fn nobody_from_elsewhere_gets_a_slot_for_a_file() {
    let mut scene = CrossingScene::new();
    scene.romeo.send(
        "<iq type='get' id='u' to='upload.b.example'><request xmlns='urn:xmpp:http:upload:0' filename='a.png' size='10'/></iq>",
    );
    let told = received_xml(&mut scene.romeo);
    assert!(told.contains("type='error'") && !told.contains("<put"), "{told}");
}

#[test]
fn push_services_are_on_other_servers() {
    let internet = Internet::default();
    let a = server(&internet, "a.example", &["push.a.example"]);
    let b = server(&internet, "b.example", &[]);
    let mut push = a.component("push.a.example");
    let mut romeo = a.online("romeo@a.example/orchard");
    let mut juliet = b.online("juliet@b.example/balcony");
    juliet.ask("<iq type='set' id='e'><enable xmlns='urn:xmpp:push:0' jid='push.a.example' node='n'/></iq>");
    juliet.close();
    romeo.send("<message to='juliet@b.example' type='chat'><body>wake up</body></message>");
    let request = push.expect_element();
    let told = client::xml(&request);
    assert!(told.contains("node='n'") && !told.contains("wake up"), "{told}");
    // A reply of the service is taken.
    let (id, from) = (request.attr("id").expect("an id"), request.attr("from").expect("a sender"));
    push.send(&format!("<iq type='result' id='{id}' from='push.a.example' to='{from}'/>"));
    push.expect_nothing();
}

#[test]
fn multicast_reaches_many_of_another_server() {
    let mut scene = CrossingScene::new();
    let mut nurse = scene.b.online("nurse@b.example/hall");
    let one = "<address type='to' jid='juliet@b.example/balcony'/>";
    let other = "<address type='bcc' jid='nurse@b.example/hall'/>";
    scene.romeo.send(&format!(
        "<message to='multicast.a.example'><addresses xmlns='http://jabber.org/protocol/address'>{one}{other}</addresses>\
         <body>all</body></message>"
    ));
    scene.a.advance(10_000);
    for client in [&mut scene.juliet, &mut nurse] {
        let told = received_xml(client);
        assert!(told.contains("<body>all</body>") && told.contains("from='romeo@a.example/orchard'"), "{told}");
        let sees_herself = client.full() == "nurse@b.example/hall";
        assert_eq!(told.contains("jid='nurse@b.example/hall'"), sees_herself, "nobody else sees who is blind: {told}");
    }
}

#[test]
fn nodes_have_subscribers_of_other_servers() {
    let mut scene = CrossingScene::new();
    scene.juliet.ask("<iq type='set' id='c' to='pubsub.b.example'><pubsub xmlns='http://jabber.org/protocol/pubsub'><create node='news'/></pubsub></iq>");
    scene.romeo.send(
        "<iq type='set' id='s' to='pubsub.b.example'><pubsub xmlns='http://jabber.org/protocol/pubsub'>\
         <subscribe node='news' jid='romeo@a.example'/></pubsub></iq>",
    );
    assert!(received_xml(&mut scene.romeo).contains("subscription='subscribed'"));
    // Nobody subscribes somebody else.
    scene.romeo.send(
        "<iq type='set' id='s' to='pubsub.b.example'><pubsub xmlns='http://jabber.org/protocol/pubsub'>\
         <subscribe node='news' jid='paris@a.example'/></pubsub></iq>",
    );
    assert!(received_xml(&mut scene.romeo).contains("type='error'"));
    scene.juliet.send(
        "<iq type='set' id='p' to='pubsub.b.example'><pubsub xmlns='http://jabber.org/protocol/pubsub'>\
         <publish node='news'><item id='1'><x xmlns='y'/></item></publish></pubsub></iq>",
    );
    let told = received_xml(&mut scene.romeo);
    assert!(told.contains("from='pubsub.b.example'") && told.contains("<item id='1'"), "{told}");
}

#[test]
fn contacts_of_a_server_that_is_gone_are_not_told_to_have_left() {
    let mut scene = CrossingScene::new();
    scene.romeo.ask("<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>");
    scene.romeo.send("<presence type='subscribe' to='juliet@b.example'/>");
    scene.juliet.all();
    scene.juliet.send("<presence type='subscribed' to='romeo@a.example'/>");
    scene.romeo.all();
    scene.lose("b.example");
    scene.b.stop();
    scene.b.advance(30_000);
    scene.romeo.all();
    // A new session asks for her and learns nothing; what is kept of the subscription stays.
    let mut phone = scene.a.online("romeo@a.example/phone");
    scene.a.advance(120_000);
    let told = received_xml(&mut phone);
    assert!(!told.contains("unsubscribed"), "{told}");
    let roster = client::xml(&phone.ask("<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>"));
    assert!(roster.contains("subscription='to'"), "{roster}");
}

/// CVE-2021-37601: lists of a room are for those who manage it.
#[test]
fn strangers_of_other_servers_learn_nothing_of_a_room_s_lists() {
    let mut scene = CrossingScene::new();
    scene.room();
    let admin = "http://jabber.org/protocol/muc#admin";
    scene.juliet.send(&format!(
        "<iq type='set' id='a' to='verona@conference.b.example'><query xmlns='{admin}'>\
         <item affiliation='member' jid='nurse@b.example'/><item affiliation='outcast' jid='paris@c.example'/></query></iq>"
    ));
    scene.juliet.all();
    let questions = ["owner", "admin", "member", "outcast"]
        .map(|affiliation| format!("<query xmlns='{admin}'><item affiliation='{affiliation}'/></query>"));
    let more = ["moderator", "participant", "visitor"]
        .map(|role| format!("<query xmlns='{admin}'><item role='{role}'/></query>"));
    let owner = "<query xmlns='http://jabber.org/protocol/muc#owner'/>".to_owned();
    for is_in in [false, true] {
        if is_in {
            join(&mut scene.romeo, "romeo");
            scene.romeo.all();
        }
        for question in questions.iter().chain(&more).chain([&owner]) {
            scene.romeo.send(&format!("<iq type='get' id='q' to='verona@conference.b.example'>{question}</iq>"));
            let told = received_xml(&mut scene.romeo);
            assert!(told.contains("type='error'"), "{question}: {told}");
            for jid in ["nurse@b.example", "paris@c.example", "juliet@b.example"] {
                assert!(!told.contains(jid), "{question}: {told}");
            }
        }
    }
    // Nor may they change them.
    scene.romeo.send(&format!(
        "<iq type='set' id='s' to='verona@conference.b.example'><query xmlns='{admin}'>\
         <item affiliation='owner' jid='romeo@a.example'/></query></iq>"
    ));
    assert!(received_xml(&mut scene.romeo).contains("type='error'"));
}

/// Nobody takes a nick by writing it in another way (XEP-0045 §7.2.9, RFC 8266).
#[test]
fn nicks_are_compared_across_servers_as_people_read_them() {
    let mut scene = CrossingScene::new();
    scene.room();
    for nick in ["JULIET", "Ｊuliet", "  juliet ", "juliet"] {
        join(&mut scene.romeo, nick);
        let told = received_xml(&mut scene.romeo);
        assert!(told.contains("<conflict") || told.contains("<jid-malformed"), "{nick}: {told}");
    }
    assert_eq!(received_xml(&mut scene.juliet), "");
}

/// Some errors of an occupant's server show that the occupant is gone (XEP-0045 §18.1), and for
/// what: nothing else removes anybody.
#[test]
fn an_occupant_is_removed_for_errors_that_say_so() {
    let errors = [
        ("gone", true),
        ("item-not-found", true),
        ("recipient-unavailable", true),
        ("redirect", true),
        ("remote-server-not-found", true),
        ("remote-server-timeout", true),
        ("policy-violation", false),
        ("resource-constraint", false),
        ("forbidden", false),
        ("not-acceptable", false),
    ];
    for (condition, is_gone) in errors {
        let mut scene = CrossingScene::new();
        scene.room();
        join(&mut scene.romeo, "romeo");
        scene.romeo.all();
        scene.juliet.all();
        let error = format!("<error type='cancel'><{condition} xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>");
        // An iq is about something else.
        scene.romeo.send(&format!("<iq type='error' id='x' to='verona@conference.b.example/juliet'>{error}</iq>"));
        assert!(!received_xml(&mut scene.juliet).contains("unavailable"), "iq {condition}");
        scene.romeo.send(&format!("<message type='error' id='m' to='verona@conference.b.example'>{error}</message>"));
        let told = received_xml(&mut scene.juliet);
        assert_eq!(told.contains("code='333'"), is_gone, "message {condition}: {told}");
    }
}
