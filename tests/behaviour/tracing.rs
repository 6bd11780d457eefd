//! Traces show where a message went, or why it did not arrive.

use std::sync::{Arc, Mutex};

use rookery_hub::{DriverQuestion, Sighting, Step, Subject, Trace, TraceExtent, Value};
use rookery_shard::traced::SeenElsewhere;
use rookery_testkit::{Client, Config, Server, befriend};

/// A trace that a test makes a server write.
struct Tracing(Arc<Trace>);

impl Tracing {
    fn of(server: &Server, subject: &str) -> Self {
        Self::with(
            server,
            Trace::new(1, Subject::parse(subject).expect("a subject"), extent(100), u64::MAX, server.shards()),
        )
    }

    fn with(server: &Server, trace: Trace) -> Self {
        let trace = Arc::new(trace);
        for shard in 0..server.shards() {
            let trace = trace.clone();
            server.run_at(shard, move |world| assert!(world.trace(trace)));
        }
        Self(trace)
    }

    fn end(&self, server: &Server) {
        for shard in 0..server.shards() {
            let reader = self.0.reader();
            server.run_at(shard, move |world| world.end_trace(reader));
        }
    }

    fn take_seen(&self) -> Vec<Sighting> {
        self.0.take().0
    }

    /// Asserts that these steps of one stanza were seen, in this order, perhaps with others in
    /// between. Each is a step and a part of its reason.
    #[track_caller]
    fn expect(&self, wanted: &[(Step, &str)]) -> Vec<Sighting> {
        let seen = self.take_seen();
        let mut left = wanted.iter();
        let mut next = left.next();
        let stanza = seen.iter().find(|sighting| next.is_some_and(|wanted| is(sighting, wanted))).map(|it| it.stanza);
        for sighting in seen.iter().filter(|sighting| Some(sighting.stanza) == stanza) {
            if next.is_some_and(|wanted| is(sighting, wanted)) {
                next = left.next();
            }
        }
        let lines: Vec<_> = seen.iter().map(line).collect();
        assert!(next.is_none(), "{next:?} was not seen of one stanza, in this order:\n{}", lines.join("\n"));
        seen
    }
}

fn extent(most_stanzas: usize) -> TraceExtent {
    TraceExtent { has_contents: false, most_stanzas }
}

fn is(sighting: &Sighting, (step, why): &(Step, &str)) -> bool {
    sighting.step == *step && sighting.why.contains(why)
}

fn line(sighting: &Sighting) -> String {
    let Sighting { stanza, step, to, why, .. } = sighting;
    format!("{stanza:?} {} {to}: {why}", step.name())
}

fn say(client: &mut Client, to: &str, body: &str) {
    client.send(&format!("<message to='{to}' type='chat' id='m1'><body>{body}</body></message>"));
    client.pump();
}

fn block(client: &mut Client, jid: &str) {
    client.ask(&format!("<iq type='set' id='b'><block xmlns='urn:xmpp:blocking'><item jid='{jid}'/></block></iq>"));
}

/// RFC 6121 §8.5.2.1.1, on two shards.
#[test]
fn who_gets_a_message_and_who_does_not_has_a_reason() {
    let server = Server::new();
    let (romeo, juliet) = (server.name_at("romeo", 0), server.name_at("juliet", 1));
    let mut from = server.online(&format!("{romeo}/orchard"));
    let _balcony = server.online(&format!("{juliet}/balcony"));
    let mut chamber = server.login(&format!("{juliet}/chamber"));
    chamber.send("<presence><priority>-1</priority></presence>");
    let _nook = server.login(&format!("{juliet}/nook"));
    server.settle();
    let trace = Tracing::of(&server, &format!("{juliet}@example.org"));
    say(&mut from, &format!("{juliet}@example.org"), "secret");
    let seen = trace.expect(&[
        (Step::Received, "from the session"),
        (Step::Goes, "to shard 1, the home of the account"),
        (Step::Given, "priority of 0 or more"),
        (Step::Noted, "/chamber: its priority is -1"),
        (Step::Noted, "/nook: it has sent no available presence"),
    ]);
    assert_eq!(seen.iter().map(|sighting| sighting.shard).max(), Some(1));
    assert!(seen.iter().all(|sighting| sighting.stanza == seen[0].stanza), "one number for one stanza");
    let first = seen.iter().filter_map(|sighting| sighting.first.as_ref()).collect::<Vec<_>>();
    assert_eq!(first.len(), 1);
    assert!(first[0].content.contains("body [") && !first[0].content.contains("secret"), "{first:?}");
}

#[test]
fn a_block_is_named_with_its_account() {
    let server = Server::new();
    let (mut romeo, mut juliet) = (server.online("romeo/orchard"), server.online("juliet/balcony"));
    block(&mut juliet, "romeo@example.org");
    let trace = Tracing::of(&server, "juliet@example.org");
    say(&mut romeo, "juliet@example.org", "1");
    trace.expect(&[
        (Step::Received, ""),
        (Step::Noted, "juliet@example.org blocks romeo@example.org/orchard"),
        (Step::Refused, "<service-unavailable/>"),
        (Step::Stopped, "by the module privacy"),
    ]);
    say(&mut juliet, "romeo@example.org", "2");
    trace.expect(&[(Step::Refused, "juliet@example.org blocks romeo@example.org itself"), (Step::Stopped, "privacy")]);
}

/// XEP-0160.
#[test]
fn offline_messages_are_kept_full_or_for_nobody() {
    let config = Config { options: vec![("offline", "limit", Value::Number(1))], ..Config::default() };
    let server = Server::with(config);
    server.account("romeo");
    let mut juliet = server.online("juliet/balcony");
    let trace = Tracing::of(&server, "juliet@example.org");
    say(&mut juliet, "romeo@example.org", "1");
    trace.expect(&[(Step::Noted, "has no session here"), (Step::Kept, "waits for the user in the store")]);
    say(&mut juliet, "romeo@example.org", "2");
    trace.expect(&[
        (Step::Noted, "offline messages of the account are full"),
        (Step::Refused, "<service-unavailable/>"),
    ]);
    say(&mut juliet, "nobody@example.org", "3");
    trace.expect(&[(Step::Noted, "there is no such account"), (Step::Refused, "<service-unavailable/>")]);
    juliet.send("<message to='romeo@example.org' type='chat' id='s'><active xmlns='http://jabber.org/protocol/chatstates'/></message>");
    juliet.pump();
    trace.expect(&[(Step::Stopped, "it is only meaningful now")]);
}

/// RFC 6121 §8.5.3.2.1: messages of types that are for one session alone.
#[test]
fn types_for_one_session_go_to_nobody_else() {
    let server = Server::new();
    let (mut romeo, _juliet) = (server.online("romeo/orchard"), server.online("juliet/balcony"));
    let trace = Tracing::of(&server, "juliet@example.org");
    romeo.send("<message to='juliet@example.org/gone' id='n'><body>1</body></message>");
    romeo.pump();
    trace.expect(&[
        (Step::Noted, "no session has bound this resource"),
        (Step::Noted, "not for other resources"),
        (Step::Refused, "<service-unavailable/>"),
    ]);
    romeo.send("<message to='juliet@example.org/gone' type='headline' id='h'><body>1</body></message>");
    romeo.pump();
    trace.expect(&[(Step::Stopped, "for the addressed session alone")]);
    romeo.send("<iq to='juliet@example.org/gone' type='get' id='q'><query xmlns='jabber:iq:version'/></iq>");
    romeo.pump();
    trace.expect(&[(Step::Noted, "no session has bound this resource"), (Step::Refused, "<service-unavailable/>")]);
}

/// XEP-0280, XEP-0313 with XEP-0441.
#[test]
fn archives_and_copies_are_told() {
    let server = Server::new();
    let (mut romeo, mut juliet) = (server.online("romeo/orchard"), server.online("juliet/balcony"));
    let mut nook = server.online("juliet/nook");
    nook.ask("<iq type='set' id='c'><enable xmlns='urn:xmpp:carbons:2'/></iq>");
    juliet.ask("<iq type='set' id='p'><prefs xmlns='urn:xmpp:mam:2' default='never'><always/><never/></prefs></iq>");
    let trace = Tracing::of(&server, "romeo@example.org");
    say(&mut romeo, "juliet@example.org/balcony", "1");
    trace.expect(&[
        (Step::Kept, "in the archive of romeo@example.org"),
        (Step::Noted, "juliet@example.org archives nothing from romeo@example.org/orchard"),
        (Step::Noted, "1 other sessions of juliet@example.org get a copy"),
        (Step::Given, "to the session that it is addressed to"),
    ]);
}

/// XEP-0045 §7.4, §7.2.
#[test]
fn rooms_say_who_the_sender_is_there() {
    let server = Server::new();
    let mut crone = server.online("crone/desktop");
    crone.send(
        "<presence to='coven@conference.example.org/first'><x xmlns='http://jabber.org/protocol/muc'/></presence>",
    );
    crone.pump();
    crone.ask("<iq type='set' id='o' to='coven@conference.example.org'><query xmlns='http://jabber.org/protocol/muc#owner'>\
         <x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>http://jabber.org/protocol/muc#roomconfig</value></field>\
         <field var='muc#roomconfig_moderatedroom'><value>1</value></field></x></query></iq>");
    let mut hag = server.online("hag/pda");
    let trace = Tracing::of(&server, "hag@example.org");
    let shout = "<message to='coven@conference.example.org' type='groupchat' id='g'><body>1</body></message>";
    hag.send(shout);
    hag.pump();
    trace.expect(&[
        (Step::Goes, "service of the module rooms"),
        (Step::Noted, "hag@example.org/pda is not in the room"),
        (Step::Refused, "<not-acceptable/>"),
    ]);
    hag.send(
        "<presence to='coven@conference.example.org/second'><x xmlns='http://jabber.org/protocol/muc'/></presence>",
    );
    hag.pump();
    trace.take_seen();
    hag.send(shout);
    hag.pump();
    trace.expect(&[
        (Step::Noted, "role visitor, affiliation none; 2 occupants, moderated"),
        (Step::Refused, "<forbidden/>"),
    ]);
    let mut toad = server.online("toad/pond");
    let trace = Tracing::of(&server, "toad@example.org");
    toad.send(
        "<presence to='coven@conference.example.org/first'><x xmlns='http://jabber.org/protocol/muc'/></presence>",
    );
    toad.pump();
    trace.expect(&[(Step::Refused, "the room refuses it, its sender gets <conflict/>")]);
}

#[test]
fn a_server_that_knows_no_others_says_so() {
    let server = Server::new();
    let mut romeo = server.online("romeo/orchard");
    let trace = Tracing::of(&server, "example.net");
    say(&mut romeo, "juliet@example.net", "1");
    trace.expect(&[
        (Step::Received, ""),
        (Step::Noted, "there is no [federation]"),
        (Step::Refused, "<remote-server-not-found/>"),
    ]);
}

#[test]
fn what_leaves_for_another_server_and_comes_from_there_is_seen() {
    let config = Config {
        federates: true,
        options: vec![("strangers", "refuse_remote", Value::Switch(true))],
        ..Config::default()
    };
    let server = Server::with(config);
    let mut romeo = server.online("romeo/orchard");
    let trace = Tracing::of(&server, "example.net");
    say(&mut romeo, "juliet@example.net", "1");
    trace.expect(&[(Step::Received, ""), (Step::Goes, "to the stream with the server example.net")]);
    server.incoming(
        "<message from='iago@example.net/x' to='romeo@example.org' type='chat' id='i'><body>2</body></message>",
    );
    trace.expect(&[
        (Step::Received, "from its server"),
        (Step::Noted, "its sender is not in the roster"),
        (Step::Refused, "<service-unavailable/>"),
    ]);
}

/// XEP-0198.
#[test]
fn what_waits_for_an_acknowledgement_or_a_client_is_told() {
    let server = Server::new();
    let mut juliet = server.online("juliet/balcony");
    let mut romeo = server.online("romeo/orchard");
    romeo.enable();
    let trace = Tracing::of(&server, "romeo@example.org");
    say(&mut juliet, "romeo@example.org", "1");
    trace.expect(&[(Step::Given, "kept until it is acknowledged")]);
    romeo.send("<a xmlns='urn:xmpp:sm:3' h='1'/>");
    romeo.pump();
    trace.expect(&[(Step::Session, "has acknowledged 1 stanzas in all; 0 are unacknowledged")]);
    romeo.vanish();
    server.settle();
    trace.expect(&[(Step::Session, "its connection was lost; it waits")]);
    say(&mut juliet, "romeo@example.org", "2");
    trace.expect(&[(Step::Given, "without a connection")]);
    server.advance(3_600_000);
    trace.expect(&[(Step::Noted, "a session ended before it had got it"), (Step::Kept, "waits for the user")]);
}

/// RFC 6121 §4.3.2 and Appendix A.
#[test]
fn presence_is_stopped_for_those_who_are_not_subscribed() {
    let server = Server::new();
    let (mut romeo, mut juliet) = (server.online("romeo/orchard"), server.online("juliet/balcony"));
    let trace = Tracing::of(&server, "juliet@example.org");
    romeo.send("<presence type='probe' to='juliet@example.org'/>");
    romeo.pump();
    let probed = trace.take_seen();
    let is_told = |sighting: &Sighting| is(sighting, &(Step::Stopped, "the asker has no subscription"));
    assert!(probed.iter().any(is_told), "{:?}", probed.iter().map(line).collect::<Vec<_>>());
    romeo.send("<presence type='subscribed' to='juliet@example.org' id='s'/>");
    romeo.pump();
    trace.expect(&[(Step::Stopped, "it doesn't change")]);
    befriend(&mut romeo, &mut juliet);
    trace.take_seen();
    romeo.send("<presence id='away'><show>away</show></presence>");
    romeo.pump();
    trace.expect(&[(Step::Given, "as all available resources")]);
}

/// RFC 6120 §8.2.3, §8.1.1.1.
#[test]
fn what_is_wrong_by_itself_is_refused_at_once() {
    let server = Server::new();
    let mut romeo = server.online("romeo/orchard");
    let trace = Tracing::of(&server, "romeo@example.org");
    romeo.send("<iq type='get' id='q' to='juliet@example.org'/>");
    romeo.pump();
    trace.expect(&[(Step::Received, ""), (Step::Refused, "<bad-request/>")]);
    romeo.send("<iq type='get' id='r' to='example.org'><x xmlns='urn:unknown'/></iq>");
    romeo.pump();
    trace.expect(&[
        (Step::Answered, "by the server"),
        (Step::Noted, "no active module"),
        (Step::Refused, "<service-unavailable/>"),
    ]);
    romeo.send("<message from='other@example.org' to='juliet@example.org'/>");
    romeo.pump();
    trace.expect(&[(Step::Session, "its stream ends with <invalid-from/>")]);
}

/// An account, a session and a domain can each be traced, and differ.
#[test]
fn nothing_else_is_seen_and_nothing_after_the_end() {
    let server = Server::new();
    let mut juliet = server.online("juliet/balcony");
    let mut romeo = server.online("romeo/orchard");
    let trace = Tracing::of(&server, "juliet@example.org/balcony");
    say(&mut romeo, "iago@example.org", "1");
    assert_eq!(trace.take_seen(), []);
    say(&mut romeo, "juliet@example.org", "2");
    trace.expect(&[(Step::Given, "")]);
    trace.end(&server);
    say(&mut romeo, "juliet@example.org", "3");
    assert_eq!(trace.take_seen(), []);
    // A trace also ends when its time is over, even if its reader is gone.
    let subject = || Subject::parse("juliet@example.org").expect("a subject");
    let trace = Tracing::with(&server, Trace::new(1, subject(), extent(100), server.now() + 1000, server.shards()));
    server.advance(2000);
    say(&mut romeo, "juliet@example.org", "4");
    assert_eq!(trace.take_seen(), []);
    // It also ends at its limit of stanzas.
    let trace = Tracing::with(&server, Trace::new(1, subject(), extent(1), u64::MAX, server.shards()));
    romeo.send("<message to='juliet@example.org' id='5'><body>5</body></message>");
    romeo.send("<message to='juliet@example.org' id='6'><body>6</body></message>");
    romeo.pump();
    assert!(trace.take_seen().iter().all(|sighting| sighting.id == "5") && trace.0.is_full());
    juliet.pump();
}

#[test]
fn contents_are_seen_by_wish_and_passwords_never() {
    let server = Server::new();
    let mut romeo = server.online("romeo/orchard");
    let subject = Subject::parse("romeo@example.org").expect("a subject");
    let extent = TraceExtent { has_contents: true, ..extent(100) };
    let trace = Tracing::with(&server, Trace::new(1, subject, extent, u64::MAX, server.shards()));
    say(&mut romeo, "juliet@example.org", "but soft");
    romeo.send("<presence to='coven@conference.example.org/r'><x xmlns='http://jabber.org/protocol/muc'><password>swordfish</password></x></presence>");
    romeo.pump();
    let contents: String =
        trace.take_seen().into_iter().filter_map(|sighting| sighting.first).map(|it| it.content).collect();
    assert!(contents.contains("but soft") && contents.contains("[not shown]"), "{contents}");
    assert!(!contents.contains("swordfish"), "{contents}");
}

#[test]
fn a_reader_on_another_node_asks_for_what_was_seen() {
    let server = Server::with(Config { shards: 4, nodes: 2, ..Config::default() });
    let [romeo, juliet] = [("romeo", 0), ("juliet", 2)].map(|(stem, shard)| server.name_at(stem, shard));
    let mut romeo = server.online(&format!("{romeo}/orchard"));
    let _juliet = server.online(&format!("{juliet}/balcony"));
    let question = DriverQuestion::Trace {
        reader: 1,
        subject: server.account(&juliet).to_string(),
        extent: extent(100),
        remaining_ms: 60_000,
    };
    let ask = || {
        let (answers, question) = (Arc::new(Mutex::new(Vec::new())), question.clone());
        let told = answers.clone();
        server.run_at(0, move |world| {
            world.ask_drivers_elsewhere(&question, move |_, answers| {
                let read = |bytes: &[u8]| postcard::from_bytes::<SeenElsewhere>(bytes).expect("an answer");
                *told.lock().expect("no panic") = answers.into_iter().map(|it| read(&it.expect("in time"))).collect();
            });
        });
        server.settle();
        std::mem::take(&mut *answers.lock().expect("no panic"))
    };
    let traced = || server.inspect(|world| world.is_tracing());
    assert_eq!(ask().iter().map(|shard| shard.sightings.len()).collect::<Vec<_>>(), [0, 0]);
    assert_eq!(traced(), [false, false, true, true]);
    say(&mut romeo, server.account(&juliet).as_str(), "over there");
    server.advance(9_000);
    let seen = ask();
    assert!(seen[0].sightings.iter().any(|sighting| sighting.step == Step::Given), "{seen:?}");
    assert_eq!(ask()[0].sightings, [], "each is told once");
    // It ends there soon after the last question.
    server.advance(9_000);
    assert_eq!(traced(), [false, false, true, true]);
    server.advance(2_000);
    assert_eq!(traced(), [false; 4]);
}

#[test]
fn a_stanza_that_is_sent_again_and_again_ends_the_trace() {
    let server = Server::new();
    let (mut romeo, _juliet) = (server.online("romeo/orchard"), server.online("juliet/balcony"));
    let subject = Subject::parse("juliet@example.org").expect("a subject");
    let trace = Tracing::with(&server, Trace::new(1, subject, extent(2), u64::MAX, server.shards()));
    let mut firsts = 0;
    for is_full in [false, false, true] {
        say(&mut romeo, "juliet@example.org", "the same");
        let seen = trace.take_seen();
        firsts += seen.iter().filter(|sighting| sighting.first.is_some()).count();
        assert_eq!((trace.0.is_full(), seen.is_empty()), (is_full, is_full));
    }
    assert_eq!(firsts, 2, "each is described once");
}
