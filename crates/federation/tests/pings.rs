//! Tests servers without acknowledgements: the answers to pings show which stanzas have arrived,
//! and the rest are bounced when a connection breaks.

#[allow(dead_code, reason = "other tests play more of the peers")]
mod hostile;

use hostile::{HostileRig, address, at};
use rookery_federation::{ConnectionKey, PeerPolicy};

/// Returns a server that calls `a.example`, which doesn't acknowledge stanzas; `1` to `3` have
/// left.
fn scene() -> (HostileRig, ConnectionKey) {
    let mut server = HostileRig::new(PeerPolicy::Certificate);
    server.dns.insert("a.example".into(), at(1));
    server.send("romeo@a.example", "1");
    let key = server.welcome("a.example");
    assert!(server.hear(key, "<stream:features/>").contains("id='1'"));
    server.send("romeo@a.example", "2");
    server.send("romeo@a.example", "3");
    server.said_to(key);
    (server, key)
}

/// Returns the id of the one ping that has left.
fn ping_id(said: &str) -> String {
    assert_eq!((said.matches("<iq ").count(), said.matches("urn:xmpp:ping").count()), (1, 1), "{said}");
    for attribute in ["type='get'", "from='b.example'", "to='a.example'"] {
        assert!(said.contains(attribute), "{said}");
    }
    said.split("<iq ").nth(1).and_then(|iq| iq.split("id='").nth(1)?.split('\'').next()).expect("an id").to_owned()
}

fn answer(id: &str) -> String {
    format!("<iq type='result' id='{id}' from='a.example' to='b.example'/>")
}

fn back(server: &HostileRig) -> Vec<&str> {
    server.bounced.iter().map(|(id, _)| id.as_str()).collect()
}

fn breaks(server: &mut HostileRig, key: ConnectionKey) {
    server.servers.closed(key, "the cable was cut");
    server.run();
}

#[test]
fn what_no_answer_stands_behind_comes_back_when_the_connection_breaks() {
    let (mut server, key) = scene();
    server.advance(2_000);
    let id = ping_id(&server.said_to(key));
    let theirs = server.call_proven(address(2), "a.example");
    assert_eq!(server.hear(theirs, answer(&id)), "");
    assert_eq!((server.servers.waiting(), &server.delivered[..]), (0, &[][..]), "nobody else is handed it");
    server.send("romeo@a.example", "4");
    breaks(&mut server, key);
    assert_eq!(server.bounced, [("4".into(), "remote-server-timeout".into())]);
    // If no reply comes at all, none of them is known to have arrived.
    let (mut server, key) = scene();
    server.advance(2_000);
    breaks(&mut server, key);
    assert_eq!(back(&server), ["1", "2", "3"]);
    assert_eq!(server.servers.waiting(), 0);
}

/// An error is an answer, too: a server that refuses pings has read the earlier stanzas all the
/// same.
#[test]
fn an_error_is_an_answer() {
    let (mut server, key) = scene();
    server.advance(2_000);
    let id = ping_id(&server.said_to(key));
    let theirs = server.call_proven(address(2), "a.example");
    server.hear(
        theirs,
        format!(
            "<iq type='error' id='{id}' from='a.example' to='b.example'><error type='cancel'>\
             <service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>"
        ),
    );
    breaks(&mut server, key);
    assert_eq!((back(&server), server.delivered.len()), (vec![], 0));
}

#[test]
fn answers_of_others_and_with_other_ids_count_for_nothing() {
    let (mut server, key) = scene();
    server.advance(2_000);
    let id = ping_id(&server.said_to(key));
    let theirs = server.call_proven(address(2), "a.example");
    let others = server.call_proven(address(3), "c.example");
    for (stream, said) in [
        (theirs, answer("1")),
        (theirs, answer(&id).replace("to='b.example'", "to='rooms.b.example'")),
        (theirs, answer(&id).replace("to='b.example'", "to='juliet@b.example'")),
        (theirs, answer(&id).replace("from='a.example'", "from='romeo@a.example'")),
        (theirs, answer(&id).replace("'result'", "'get'").replace("/>", "><ping xmlns='urn:xmpp:ping'/></iq>")),
        (others, answer(&id).replace("from='a.example'", "from='c.example'")),
    ] {
        let before = server.delivered.len();
        server.hear(stream, said);
        assert_eq!(server.delivered.len(), before + 1, "it is somebody else's");
    }
    breaks(&mut server, key);
    assert_eq!(back(&server), ["1", "2", "3"]);
}

/// Stanzas that left while a reply was on its way are confirmed by another ping, even if no others
/// follow.
#[test]
fn a_late_answer_is_followed_by_another_ping() {
    let (mut server, key) = scene();
    let theirs = server.call_proven(address(2), "a.example");
    server.advance(2_000);
    let id = ping_id(&server.said_to(key));
    server.advance(1_000);
    server.send("romeo@a.example", "4");
    server.said_to(key);
    server.advance(10_000);
    assert_eq!(server.said_to(key), "", "one at a time");
    server.hear(theirs, answer(&id));
    server.advance(2_000);
    let id = ping_id(&server.said_to(key));
    server.hear(theirs, answer(&id));
    breaks(&mut server, key);
    assert_eq!(back(&server), [""; 0]);
}

/// A ping leaves once in a while, and only after stanzas whose loss would matter.
#[test]
fn pings_are_few() {
    let (mut server, key) = scene();
    let theirs = server.call_proven(address(2), "a.example");
    let mut pings = 0;
    for number in 0..100 {
        server.send("romeo@a.example", &number.to_string());
        server.advance(100);
        let said = server.said_to(key);
        if said.contains("urn:xmpp:ping") {
            pings += 1;
            server.hear(theirs, answer(&ping_id(&said)));
        }
    }
    assert!((3..=5).contains(&pings), "{pings} in ten seconds");
    server.advance(2_000);
    let said = server.said_to(key);
    if said.contains("urn:xmpp:ping") {
        server.hear(theirs, answer(&ping_id(&said)));
    }
    assert_eq!(server.servers.waiting(), 0);
    // Senders aren't told about the loss of a presence or an answer.
    for text in ["<presence from='juliet@b.example/x'/>", "<iq type='result' id='1' from='juliet@b.example/x'/>"] {
        server.send_text("romeo@a.example", text);
    }
    server.said_to(key);
    server.advance(100_000);
    assert!(!server.said_to(key).contains("urn:xmpp:ping"));
    assert_eq!(server.servers.waiting(), 0);
    breaks(&mut server, key);
    assert_eq!(back(&server), [""; 0]);
}

/// A server that replies to nothing isn't pinged any more, and has no disadvantage: its stream
/// continues.
#[test]
fn a_server_that_answers_no_ping_is_left_alone() {
    let (mut server, key) = scene();
    server.advance(2_000);
    ping_id(&server.said_to(key));
    server.advance(89_000);
    assert!(server.servers.waiting() > 0);
    server.advance(1_001);
    assert_eq!((server.servers.waiting(), server.gone.contains(&key)), (0, false));
    server.send("romeo@a.example", "4");
    server.advance(5_000);
    assert!(!server.said_to(key).contains("urn:xmpp:ping"));
    breaks(&mut server, key);
    assert_eq!(back(&server), [""; 0]);
    // It is tried again a day later.
    server.send("romeo@a.example", "5");
    let key = server.welcome("a.example");
    server.hear(key, "<stream:features/>");
    server.advance(86_400_000);
    server.send("romeo@a.example", "6");
    let key = server.welcome("a.example");
    server.hear(key, "<stream:features/>");
    server.advance(2_000);
    ping_id(&server.said_to(key));
}

/// A stream that ends properly has been read, whichever side ends it.
#[test]
fn a_stream_that_ends_in_good_order_has_arrived() {
    let (mut server, key) = scene();
    server.hear(key, "</stream:stream>");
    assert_eq!((back(&server), server.servers.waiting()), (vec![], 0));
    let (mut server, _) = scene();
    server.servers.close("a.example", None);
    server.run();
    assert_eq!((back(&server), server.servers.waiting()), (vec![], 0));
    let (mut server, _) = scene();
    server.servers.stop();
    server.run();
    assert_eq!((back(&server), server.servers.waiting()), (vec![], 0));
    // One that ends with an error may not have been read.
    let (mut server, key) = scene();
    server
        .hear(key, "<stream:error><internal-server-error xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>");
    assert_eq!(back(&server), ["1", "2", "3"]);
    // An idle stream isn't kept for an answer.
    let (mut server, key) = scene();
    server.advance(30_000);
    server.advance(570_000);
    assert!(server.gone.contains(&key));
    assert_eq!((back(&server), server.servers.waiting()), (vec![], 0));
}

/// Stanzas that wait for an answer are bounded, and never keep others from leaving.
#[test]
fn what_waits_for_an_answer_is_bounded() {
    let (mut server, key) = scene();
    for number in 0..10_000 {
        server.send_from("juliet@b.example/x", "romeo@a.example", &number.to_string(), &"x".repeat(1_000));
        assert!(server.said_to(key).contains(&format!("id='{number}'")));
        assert!(server.servers.waiting() <= 257 * 1024);
    }
    // An answer about stanzas that were given up long ago changes nothing.
    server.advance(2_000);
    let id = ping_id(&server.said_to(key));
    for number in 0..1_000 {
        server.send_from("juliet@b.example/x", "romeo@a.example", &number.to_string(), &"x".repeat(1_000));
    }
    let theirs = server.call_proven(address(2), "a.example");
    let before = server.servers.waiting();
    server.hear(theirs, answer(&id));
    assert_eq!((server.servers.waiting(), server.gone.contains(&key)), (before, false));
    server.said_to(key);
    server.advance(2_000);
    let id = ping_id(&server.said_to(key));
    server.hear(theirs, answer(&id));
    assert_eq!(server.servers.waiting(), 0);
}
