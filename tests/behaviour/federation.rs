//! Two servers that meet: streams, TLS, certificates and dialback as on a real network (RFC 6120,
//! XEP-0178, XEP-0220).

use rookery_federation::{Address, NotFound, Own, Policy, Rules, Settings};
use rookery_stream::tls::Identity;
use rookery_stream::tls::certificate::{Authority, Issued, self_signed};
use rookery_stream::tls::peer::PeerSettings;
use rookery_stream::tls::trust::Trust;
use rookery_stream::tls::trust::tlsa::{Association, Associations};
use rookery_testkit::client::xml;
use rookery_testkit::{Client, Config, Internet, Meeting, Server};

/// Returns a server of a domain and its rooms, whose certificate is good.
fn server(internet: &Internet, domain: &str, change: impl FnOnce(&mut Settings)) -> Server {
    start(domain, Config::default(), internet.meeting(&names(domain), change))
}

/// Returns such a server with a certificate of the test's.
fn server_with(internet: &Internet, domain: &str, issued: &Issued, change: impl FnOnce(&mut Settings)) -> Server {
    start(domain, Config::default(), internet.meeting_with(issued, &names(domain), change))
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

fn own_certificate(domain: &str) -> Issued {
    let made = self_signed(&[domain.to_owned()], 1_700_000_000).expect("a certificate");
    Issued { chain: made.certificate, key: made.key }
}

fn plain(_: &mut Settings) {}

fn chat(client: &mut Client, to: &str, body: &str) {
    client.send(&format!("<message to='{to}' id='{body}' type='chat'><body>{body}</body></message>"));
}

/// Has a user of each of two servers hear the other.
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
fn who_is_nowhere_is_told_by_its_cause() {
    let internet = Internet::default();
    let a = server(&internet, "a.example", plain);
    let mut romeo = a.online("romeo@a.example/orchard");
    let error = |condition: &str, type_: &str, domain: &str| {
        format!(
            "<message type='error' id='1' from='x@{domain}' to='romeo@a.example/orchard'><error type='{type_}'>\
             <{condition} xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>"
        )
    };
    chat(&mut romeo, "x@nowhere.example", "1");
    romeo.expect(&error("remote-server-not-found", "cancel", "nowhere.example"));
    internet.say("broken.example", Err(NotFound::NoAnswer));
    chat(&mut romeo, "x@broken.example", "1");
    romeo.expect(&error("remote-server-timeout", "wait", "broken.example"));
    // Nobody listens there.
    internet.say("gone.example", Ok(vec![Address::new("1.2.3.4:5269".parse().unwrap(), false)]));
    chat(&mut romeo, "x@gone.example", "1");
    romeo.expect(&error("remote-server-timeout", "wait", "gone.example"));
    // An error is not answered with one, nor is what nobody waits for.
    romeo.send("<message type='error' to='x@nowhere.example'/>");
    romeo.send("<iq type='result' id='9' to='x@nowhere.example'/>");
    romeo.expect_nothing();
}

#[test]
fn a_server_without_a_good_certificate_gets_and_gives_nothing() {
    let internet = Internet::default();
    let other = Authority::new(1_700_000_000).expect("an authority");
    let foreign = other.issue(&["b.example".to_owned()], 1_700_000_000).expect("a certificate");
    for issued in [own_certificate("b.example"), foreign] {
        let internet_of_two = internet.clone();
        let a = server(&internet_of_two, "a.example", plain);
        let b =
            server_with(&internet_of_two, "b.example", &issued, |settings| settings.rules.policy = Policy::Dialback);
        let mut romeo = a.online("romeo@a.example/orchard");
        let mut juliet = b.online("juliet@b.example/balcony");
        chat(&mut romeo, "juliet@b.example/balcony", "secret");
        let error = romeo.expect_element();
        assert!(xml(&error).contains("remote-server-timeout"));
        juliet.expect_nothing();
        chat(&mut juliet, "romeo@a.example/orchard", "from nobody");
        let error = juliet.expect_element();
        assert!(xml(&error).contains("remote-server-timeout"));
        romeo.expect_nothing();
    }
}

/// Has DNS say, signed, that this is the certificate of a domain's server (DANE-EE).
fn associate(internet: &Internet, domain: &str, issued: &Issued) {
    let der = Trust::read_pem(issued.chain.as_bytes()).expect("a certificate");
    let record = Association::read(3, 0, 0, &der[0]);
    let tlsa = Associations::new(domain, &format!("xmpp.{domain}"), 5269, record).map(Into::into);
    let found = internet.says(domain).expect("an address");
    internet.say(domain, Ok(found.into_iter().map(|address| Address { tlsa: tlsa.clone(), ..address }).collect()));
}

/// RFC 7673 §4: the record is proof, and where there is one no other proof is.
#[test]
fn what_a_signed_zone_says_of_a_certificate_is_proof() {
    let internet = Internet::default();
    let own = own_certificate("b.example");
    let a = server(&internet, "a.example", plain);
    let b = server_with(&internet, "b.example", &own, |settings| settings.rules.policy = Policy::Dialback);
    associate(&internet, "b.example", &own);
    expect_talk(&a, &b);
}

#[test]
fn a_certificate_that_a_signed_zone_does_not_name_ends_it_whatever_else_would_do() {
    for policy in [Policy::Certificate, Policy::Dialback, Policy::Plain] {
        let internet = Internet::default();
        let a = server(&internet, "a.example", |settings| settings.rules.policy = policy);
        // Its certificate is of an authority that everybody trusts.
        let b = server(&internet, "b.example", |settings| settings.rules.policy = policy);
        associate(&internet, "b.example", &own_certificate("b.example"));
        let mut romeo = a.online("romeo@a.example/orchard");
        let mut juliet = b.online("juliet@b.example/balcony");
        chat(&mut romeo, "juliet@b.example/balcony", "secret");
        assert!(xml(&romeo.expect_element()).contains("remote-server-timeout"), "{policy:?}");
        juliet.expect_nothing();
    }
}

/// XEP-0487: what leads to a server may name another host to ask for. Who is shown there has to be
/// the domain all the same.
#[test]
fn the_name_that_is_asked_for_proves_no_domain() {
    for (asked, is_proven) in [(None, true), (Some("b.example"), true), (Some("web.example"), false)] {
        let internet = Internet::default();
        let a = server(&internet, "a.example", plain);
        let mut meeting = internet.meeting(&names("b.example"), plain);
        let [own, web] = [names("b.example"), names("web.example")].map(|names| {
            let issued = internet.issue(&names);
            Identity::from_pem(&names, issued.chain.as_bytes(), issued.key.as_bytes()).expect("an identity")
        });
        let tls = PeerSettings::new(&[own, web], &names("b.example")).expect("TLS settings");
        (meeting.federation.tls, meeting.direct_tls) = (tls.into(), true);
        let b = start("b.example", Config::default(), meeting);
        let found = internet.says("b.example").expect("an address");
        let named = found.into_iter().map(|address| Address { sni: asked.map(Into::into), ..address });
        internet.say("b.example", Ok(named.collect()));
        let mut romeo = a.online("romeo@a.example/orchard");
        let mut juliet = b.online("juliet@b.example/balcony");
        chat(&mut romeo, "juliet@b.example/balcony", "hello");
        if is_proven {
            juliet.expect_message("romeo@a.example/orchard", "hello");
        } else {
            assert!(xml(&romeo.expect_element()).contains("remote-server-timeout"));
            juliet.expect_nothing();
        }
    }
}

#[test]
fn dialback_serves_where_the_operator_allows_it() {
    let internet = Internet::default();
    let dialback = |settings: &mut Settings| settings.rules.policy = Policy::Dialback;
    let a = server_with(&internet, "a.example", &own_certificate("a.example"), dialback);
    let b = server_with(&internet, "b.example", &own_certificate("b.example"), dialback);
    expect_talk(&a, &b);
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
    // A stranger's probe is answered with nothing.
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

#[test]
fn denied_servers_are_refused_in_both_directions() {
    let internet = Internet::default();
    let deny =
        |settings: &mut Settings| settings.rules.deny = vec![rookery_federation::Pattern::read("b.example").unwrap()];
    let (a, b) = (server(&internet, "a.example", deny), server(&internet, "b.example", plain));
    let mut romeo = a.online("romeo@a.example/orchard");
    let mut juliet = b.online("juliet@b.example/balcony");
    chat(&mut romeo, "juliet@b.example", "1");
    assert!(xml(&romeo.expect_element()).contains("not-allowed"));
    chat(&mut juliet, "romeo@a.example", "2");
    assert!(xml(&juliet.expect_element()).contains("remote-server-timeout"));
    romeo.expect_nothing();
}

/// Of two domains of one server only one federates: the other's users are told, and so are those
/// who write to them; both are neighbours as ever.
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
         <not-allowed xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>",
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

#[test]
fn a_server_that_has_died_is_found_again() {
    let (a, b, mut romeo, mut juliet) = scene();
    chat(&mut romeo, "juliet@b.example/balcony", "1");
    juliet.expect_message("romeo@a.example/orchard", "1");
    // It acknowledges.
    a.advance(10_000);
    b.kill();
    let mut juliet = b.online("juliet@b.example/balcony");
    romeo.expect_nothing();
    chat(&mut romeo, "juliet@b.example/balcony", "2");
    juliet.expect_message("romeo@a.example/orchard", "2");
}

/// Connections break in the middle of whatever is said, TLS included: everything arrives once, in
/// its order.
#[test]
fn connections_that_break_lose_double_and_reorder_nothing() {
    let internet = Internet::default();
    let servers = ["a.example", "b.example"].map(|domain| {
        start(domain, Config { shards: 2, ..Config::default() }, internet.meeting(&names(domain), plain))
    });
    let mut romeo = servers[0].online("romeo@a.example/orchard");
    let mut juliet = servers[1].online("juliet@b.example/balcony");
    internet.live_for((0..200).map(|number| 30_000 + number * 7_919 % 40_000));
    let (mut sent, mut there, mut back) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..3_000 {
        chat(&mut romeo, "juliet@b.example/balcony", &number.to_string());
        chat(&mut juliet, "romeo@a.example/orchard", &number.to_string());
        sent.push(number.to_string());
        if number % 10 == 0 {
            // Strangers take 600 in a minute.
            servers[0].advance(1_200);
            there.extend(juliet.bodies());
            back.extend(romeo.bodies());
        }
    }
    servers[0].advance(60_000);
    there.extend(juliet.bodies());
    back.extend(romeo.bodies());
    assert!(internet.calls() > 15, "{}", internet.calls());
    assert_eq!((&there, &back), (&sent, &sent));
}

#[test]
fn a_server_stops_with_streams_open() {
    let (a, _b, mut romeo, mut juliet) = scene();
    chat(&mut romeo, "juliet@b.example/balcony", "1");
    juliet.expect_message("romeo@a.example/orchard", "1");
    a.stop();
    a.advance(20_000);
    assert!(a.is_finished());
}

/// A domain whose DNS leads to this server: it calls itself, once, and says no.
#[test]
fn a_domain_that_leads_back_here_is_a_loop_that_ends_at_once() {
    let internet = Internet::default();
    let a = server(&internet, "a.example", plain);
    let here = internet.says("a.example");
    internet.say("loop.example", here);
    let mut romeo = a.online("romeo@a.example/orchard");
    for _ in 0..10 {
        chat(&mut romeo, "x@loop.example", "1");
        assert!(xml(&romeo.expect_element()).contains("remote-server-timeout"));
    }
    assert_eq!(internet.calls(), 1);
}

/// A server that answers all it gets with errors, and errors with errors.
#[test]
fn errors_are_not_answered_with_errors() {
    let (a, _b, mut romeo, mut juliet) = scene();
    let error = |to: &str| {
        format!(
            "<message type='error' to='{to}' id='1'><body>1</body><error type='cancel'>\
             <item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>"
        )
    };
    let before = a.counters().remote_out;
    for to in
        ["nobody@a.example", "a.example", "nobody@a.example/x", "room@conference.a.example", "nobody@nowhere.a.example"]
    {
        juliet.send(&error(to));
        juliet.send(&error(to).replace("message", "presence"));
        juliet.send(&error(to).replace("message", "iq"));
        juliet.send(&format!("<iq type='result' id='1' to='{to}'/>"));
    }
    juliet.all();
    assert_eq!(a.counters().remote_out, before);
    // An error for somebody here is delivered, and that is all.
    juliet.send(&error("romeo@a.example/orchard"));
    assert!(xml(&romeo.expect_element()).contains("item-not-found"));
    juliet.expect_nothing();
    assert_eq!(a.counters().remote_out, before);
}

#[test]
fn what_is_for_own_users_is_refused_to_others() {
    let (_a, _b, mut romeo, _juliet) = scene();
    let requests = [
        ("b.example", "set", "<query xmlns='jabber:iq:register'><username>x</username><password>y</password></query>"),
        (
            "b.example",
            "set",
            "<command xmlns='http://jabber.org/protocol/commands' node='http://jabber.org/protocol/admin#add-user'/>",
        ),
        ("juliet@b.example", "get", "<query xmlns='jabber:iq:roster'/>"),
        (
            "juliet@b.example",
            "set",
            "<query xmlns='jabber:iq:roster'><item jid='romeo@a.example' subscription='both'/></query>",
        ),
        ("juliet@b.example", "get", "<query xmlns='jabber:iq:private'><x xmlns='urn:x'/></query>"),
        ("juliet@b.example", "set", "<query xmlns='urn:xmpp:mam:2'/>"),
        ("juliet@b.example", "set", "<block xmlns='urn:xmpp:blocking'><item jid='x@y.example'/></block>"),
        ("b.example", "set", "<enable xmlns='urn:xmpp:push:0' jid='push.example' node='n'/>"),
    ];
    for (to, type_, payload) in requests {
        romeo.send(&format!("<iq type='{type_}' id='q' to='{to}'>{payload}</iq>"));
        let answer = xml(&romeo.expect_element());
        assert!(answer.contains("type='error'"), "{payload}: {answer}");
    }
}

#[test]
fn what_others_forge_changes_nothing() {
    let (a, b, mut romeo, mut juliet) = scene();
    juliet.ask("<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>");
    // A roster push, an approval that nobody has asked for, and the answer to nobody's question.
    romeo.send("<iq type='set' id='1' to='juliet@b.example/balcony'><query xmlns='jabber:iq:roster'><item jid='x@y.example'/></query></iq>");
    romeo.send("<presence type='subscribed' to='juliet@b.example'/>");
    romeo.send("<presence type='unsubscribed' to='juliet@b.example'/>");
    romeo.all();
    juliet.all();
    let roster = xml(&juliet.ask("<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>"));
    assert!(!roster.contains("<item"), "{roster}");
    // Ids in the name of this server's archives are cut out, in whatever letters; those of others
    // stay.
    romeo.send(
        "<message to='juliet@b.example/balcony' type='chat'><body>hi</body>\
         <stanza-id xmlns='urn:xmpp:sid:0' by='Juliet@B.example' id='forged'/>\
         <stanza-id xmlns='urn:xmpp:sid:0' by='juliet@b.example' id='forged'/>\
         <stanza-id xmlns='urn:xmpp:sid:0' by='room@elsewhere.example' id='kept'/></message>",
    );
    let message = xml(&juliet.expect_element());
    assert!(!message.contains("forged") && message.contains("kept"), "{message}");
    // Copies of what nobody has sent, and results of an archive that nobody has asked, are ordinary
    // messages: nobody opens them.
    let inner = "<forwarded xmlns='urn:xmpp:forward:0'><message xmlns='jabber:client' type='chat' \
                 from='nurse@b.example' to='juliet@b.example'><body>forged</body></message></forwarded>";
    for wrapper in [
        format!("<received xmlns='urn:xmpp:carbons:2'>{inner}</received>"),
        format!("<sent xmlns='urn:xmpp:carbons:2'>{inner}</sent>"),
        format!("<result xmlns='urn:xmpp:mam:2' queryid='q' id='1'>{inner}</result>"),
    ] {
        romeo.send(&format!("<message to='juliet@b.example/balcony' type='chat'>{wrapper}</message>"));
        for message in juliet.all() {
            assert_eq!(message.attr("from"), Some("romeo@a.example/orchard"), "{message:?}");
        }
    }
    // An id of an occupant, and a stamp in the name of this server.
    romeo.send(
        "<message to='juliet@b.example/balcony' type='chat'><body>hi</body>\
         <delay xmlns='urn:xmpp:delay' from='b.example' stamp='2001-01-01T00:00:00Z'/></message>",
    );
    let message = xml(&juliet.expect_element());
    assert!(!message.contains("2001-01-01"), "{message}");
    // The answer to a question that this server asks has an id that nobody knows.
    romeo.send("<iq type='result' id='ask-0-AAAAAAAAAAAAAAAA' to='b.example'/>");
    romeo.send("<iq type='result' id='ask-0-AAAAAAAAAAAAAAAA' to='juliet@b.example/balcony'/>");
    assert!(juliet.all().iter().all(|element| element.attr("from") == Some("romeo@a.example/orchard")));
    drop((a, b));
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

/// Errors don't say more than the standard's condition: a nickname in a room is all that their
/// reader may know.
#[test]
fn errors_name_no_server() {
    let internet = Internet::default();
    let b = server(&internet, "b.example", plain);
    let mut juliet = b.online("juliet@b.example/balcony");
    internet.say("silent.example", Err(NotFound::NoAnswer));
    for domain in ["nowhere.example", "silent.example"] {
        chat(&mut juliet, &format!("x@{domain}"), "1");
        let error = xml(&juliet.expect_element());
        let inside = error.split("<error").nth(1).expect("an error");
        assert!(!inside.contains(domain) && !inside.contains("<text"), "{error}");
    }
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

/// If the operator wants it, who has never been written to is slow.
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
