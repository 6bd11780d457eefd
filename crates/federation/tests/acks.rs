//! Tests acknowledgements (XEP-0198) against servers that are hostile, forgetful or silent.

#[allow(dead_code, reason = "other tests play more of the peers")]
mod hostile;

use hostile::{HostileRig, at};
use rookery_federation::{ConnectionKey, PeerPolicy};
use rookery_stream::tls::trust::{Names, Untrusted};

const ACKS: &str = "<stream:features><sm xmlns='urn:xmpp:sm:3'/></stream:features>";
const ENABLED: &str = "<enabled xmlns='urn:xmpp:sm:3' id='x' resume='true'/>";

fn ack(h: u32) -> String {
    format!("<a xmlns='urn:xmpp:sm:3' h='{h}'/>")
}

/// Returns a server that calls `a.example`, which acknowledges stanzas; `1` to `3` have left.
fn scene(enabled: &str) -> (HostileRig, ConnectionKey) {
    let mut server = HostileRig::new(PeerPolicy::Certificate);
    server.dns.insert("a.example".into(), at(1));
    server.send("romeo@a.example", "1");
    let key = server.welcome("a.example");
    // The fate of stanzas that left before the reply would be unknown.
    assert_eq!(server.hear(key, ACKS), "<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
    assert_eq!(ids(&server.hear(key, enabled)), ["1"]);
    server.send("romeo@a.example", "2");
    server.send("romeo@a.example", "3");
    server.said_to(key);
    (server, key)
}

fn called_again(server: &mut HostileRig, key: ConnectionKey) -> ConnectionKey {
    server.servers.closed(key, "closed");
    server.gone.insert(key);
    server.advance(5_000);
    assert_eq!(server.calls.len(), 2);
    let key = server.answer();
    server.gone.remove(&key);
    server.greet(key, "a.example");
    key
}

fn ids(said: &str) -> Vec<&str> {
    said.split("<message").skip(1).map(|text| text.split("id='").nth(1).unwrap().split('\'').next().unwrap()).collect()
}

#[test]
fn what_has_not_arrived_leaves_again_before_anything_newer() {
    let (mut server, key) = scene(ENABLED);
    server.hear(key, ack(1));
    let key = called_again(&mut server, key);
    server.send("romeo@a.example", "4");
    let said = server.hear(key, ACKS);
    assert_eq!(said, "<resume xmlns='urn:xmpp:sm:3' previd='x' h='0'/>");
    let said = server.hear(key, "<resumed xmlns='urn:xmpp:sm:3' previd='x' h='2'/>");
    assert_eq!(ids(&said), ["3", "4"]);
    server.hear(key, ack(4));
    assert_eq!((server.servers.waiting(), &server.bounced[..]), (0, &[][..]));
}

/// Stanzas sent on a broken stream wait as well; an operator sees how many, and why.
#[test]
fn an_operator_sees_what_waits_for_a_stream_that_has_broken() {
    let (mut server, key) = scene(ENABLED);
    server.hear(key, ack(1));
    server.servers.closed(key, "the cable was cut");
    server.run();
    server.send("romeo@a.example", "4");
    let reports = server.servers.report();
    let shown: Vec<_> = reports.iter().map(|it| (&*it.remote, &*it.state, it.waiting, &*it.trouble)).collect();
    assert_eq!(shown, [("a.example", "waits to resume", 3, "the cable was cut")]);
    let mut tally = rookery_federation::report::Tally::default();
    server.servers.count(&mut tally);
    assert_eq!(tally.waiting, 3);
}

#[test]
fn a_server_that_forgets_the_stream_is_sent_what_it_says_it_has_not_had() {
    let (mut server, key) = scene(ENABLED);
    let key = called_again(&mut server, key);
    server.hear(key, ACKS);
    let failed =
        "<failed xmlns='urn:xmpp:sm:3' h='1'><item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>";
    assert!(server.hear(key, failed).starts_with("<enable"));
    assert_eq!(ids(&server.hear(key, ENABLED)), ["2", "3"]);
    server.hear(key, ack(2));
    assert_eq!((server.servers.waiting(), &server.bounced[..]), (0, &[][..]));
}

#[test]
fn what_nobody_knows_is_told_to_its_senders_and_never_sent_twice() {
    let told: [&[&str]; 3] = [&["1", "2", "3"], &["1", "2", "3"], &["1", "2", "3"]];
    let failed = "<failed xmlns='urn:xmpp:sm:3'><item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>";
    let plain = "<stream:features/>";
    for ((features, answer), told) in
        [(ACKS, failed), (plain, ""), (ACKS, "<failed xmlns='urn:xmpp:sm:3' h='9'/>")].into_iter().zip(told)
    {
        let (mut server, key) = scene(ENABLED);
        let key = called_again(&mut server, key);
        server.send("romeo@a.example", "4");
        let said = server.hear(key, features) + &server.hear(key, answer) + &server.hear(key, ENABLED);
        assert_eq!(ids(&said), ["4"], "{answer}");
        let bounced: Vec<_> = server.bounced.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(bounced, told);
        assert!(server.bounced.iter().all(|(_, condition)| condition == "remote-server-timeout"));
    }
}

/// As Prosody does.
#[test]
fn a_stream_that_can_t_be_resumed_gives_back_what_is_not_acknowledged() {
    let (mut server, key) = scene("<enabled xmlns='urn:xmpp:sm:3'/>");
    server.hear(key, ack(2));
    server.servers.closed(key, "closed");
    server.run();
    assert_eq!(server.bounced, [("3".into(), "remote-server-timeout".into())]);
    assert_eq!(server.servers.waiting(), 0);
}

#[test]
fn a_server_that_doesn_t_acknowledge_after_all_gets_stanzas_all_the_same() {
    let (mut server, key) = scene("<failed xmlns='urn:xmpp:sm:3'/>");
    server.send("romeo@a.example", "4");
    assert_eq!(ids(&server.said_to(key)), ["4"]);
    // Pings find out whether they have arrived (`pings`).
    server.servers.closed(key, "closed");
    server.run();
    let bounced: Vec<_> = server.bounced.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(bounced, ["1", "2", "3", "4"]);
}

#[test]
fn nothing_more_is_acknowledged_than_was_sent() {
    for h in ["4", "4294967295", "2147483648"] {
        let (mut server, key) = scene(ENABLED);
        let said = server.hear(key, format!("<a xmlns='urn:xmpp:sm:3' h='{h}'/>"));
        assert!(said.contains("handled-count-too-high") && said.contains("send-count='3'"), "{said}");
        assert!(server.gone.contains(&key));
        assert_eq!((server.bounced.len(), server.servers.waiting()), (3, 0));
        // The same holds when a stream is resumed.
        let (mut server, key) = scene(ENABLED);
        let key = called_again(&mut server, key);
        server.hear(key, ACKS);
        let said = server.hear(key, format!("<resumed xmlns='urn:xmpp:sm:3' previd='x' h='{h}'/>"));
        assert!(said.contains("handled-count-too-high") && server.gone.contains(&key), "{said}");
        assert_eq!((server.bounced.len(), server.servers.waiting()), (3, 0));
    }
}

#[test]
fn answers_that_mean_nothing_change_nothing() {
    let (mut server, key) = scene(ENABLED);
    for odd in [
        "<a xmlns='urn:xmpp:sm:3'/>",
        "<a xmlns='urn:xmpp:sm:3' h='-1'/>",
        "<a xmlns='urn:xmpp:sm:3' h='99999999999'/>",
        "<resumed xmlns='urn:xmpp:sm:3' previd='x' h='3'/>",
        "<resume xmlns='urn:xmpp:sm:3' previd='x' h='3'/>",
    ] {
        assert_eq!(server.hear(key, odd), "");
    }
    assert_eq!(server.hear(key, "<r xmlns='urn:xmpp:sm:3'/>"), ack(0));
    assert!(server.servers.waiting() > 0 && !server.gone.contains(&key));
}

/// A server that dies has acknowledged nothing that dies with it.
#[test]
fn nothing_is_acknowledged_that_the_store_does_not_have() {
    let message = "<message from='x@a.example' to='y@b.example'/>";
    let mut server = HostileRig::new(PeerPolicy::Certificate);
    server.store = Some(Vec::new());
    let key = server.call_proven(hostile::address(1), "a.example");
    let enabled = server.hear(key, "<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
    let id = enabled.split("id='").nth(1).unwrap().split('\'').next().unwrap().to_owned();
    server.hear(key, format!("{message}{message}"));
    assert_eq!(server.hear(key, "<r xmlns='urn:xmpp:sm:3'/>"), "");
    server.hear(key, message);
    server.advance(1_000);
    assert_eq!(server.said_to(key), "");
    server.store.as_mut().unwrap().drain(..2);
    server.advance(20);
    assert_eq!(server.said_to(key), ack(2), "what has come after the question is another matter");
    // A server without any answer takes us for dead.
    server.hear(key, "<r xmlns='urn:xmpp:sm:3'/>");
    server.advance(3_000);
    assert_eq!(server.said_to(key), ack(2));
    // It isn't told when the stream is resumed elsewhere either, since it would resend stanzas that
    // are being stored.
    server.servers.closed(key, "closed");
    server.run();
    let key = server.call_proven(hostile::address(1), "a.example");
    assert_eq!(server.hear(key, format!("<resume xmlns='urn:xmpp:sm:3' previd='{id}' h='0'/>")), "");
    server.advance(1_000);
    assert_eq!(server.said_to(key), "");
    server.store = None;
    server.advance(20);
    assert_eq!(server.said_to(key), format!("<resumed xmlns='urn:xmpp:sm:3' previd='{id}' h='3'/>"));
}

#[test]
fn a_server_that_is_silent_is_left_after_a_minute_and_told_about_after_another() {
    let (mut server, key) = scene(ENABLED);
    server.advance(2_000);
    assert_eq!(server.said_to(key), "<r xmlns='urn:xmpp:sm:3'/>");
    server.advance(59_000);
    assert_eq!((server.calls.len(), server.said_to(key).as_str()), (1, ""));
    server.advance(2_000);
    assert!(server.gone.contains(&key));
    assert_eq!((server.calls.len(), &server.bounced[..]), (2, &[][..]), "it may only be the connection");
    server.advance(75_000);
    assert_eq!((server.bounced.len(), server.servers.waiting()), (3, 0));
}

#[test]
fn a_server_that_resumes_and_never_acknowledges_is_left_one_day() {
    let (mut server, mut key) = scene(ENABLED);
    for _ in 0..20 {
        let calls = server.calls.len();
        server.servers.closed(key, "closed");
        server.gone.insert(key);
        server.advance(5_000);
        if server.calls.len() == calls {
            break;
        }
        key = server.answer();
        server.gone.remove(&key);
        server.greet(key, "a.example");
        server.hear(key, ACKS);
        server.hear(key, "<resumed xmlns='urn:xmpp:sm:3' previd='x' h='0'/>");
    }
    assert_eq!((server.calls.len(), server.bounced.len(), server.servers.waiting()), (11, 3, 0));
}

#[test]
fn an_idle_stream_is_asked_whether_its_server_is_there() {
    let (mut server, key) = scene(ENABLED);
    server.hear(key, ack(3));
    server.advance(100_000);
    assert_eq!(server.said_to(key), "");
    server.advance(30_000);
    assert_eq!(server.said_to(key), "<r xmlns='urn:xmpp:sm:3'/>");
    server.hear(key, ack(3));
    server.advance(109_000);
    assert_eq!(server.said_to(key), "");
    // No answer comes: the stream ends, and isn't replaced.
    server.advance(100_000);
    assert!(server.gone.contains(&key));
    assert_eq!((server.calls.len(), server.servers.len()), (1, 0));
}

#[test]
fn what_waits_for_acknowledgements_is_bounded() {
    let (mut server, key) = scene(ENABLED);
    for number in 4..400 {
        server.send_from("juliet@b.example/x", "romeo@a.example", &number.to_string(), &"x".repeat(10_000));
    }
    let left = server.said_to(key);
    assert!((1 << 20..(1 << 20) + 80_000).contains(&left.len()), "{}", left.len());
    assert_eq!(left.matches("<r xmlns").count(), 1, "one question at a time");
    let first = ids(&left).len() as u32 + 3;
    let rest = server.hear(key, ack(first));
    assert_eq!(ids(&rest).first().copied(), Some((first + 1).to_string().as_str()));
    assert_eq!(server.bounced, []);
}

// --- calling servers ---

const MESSAGE: &str = "<message from='romeo@a.example/x' to='juliet@b.example'/>";

fn enable(server: &mut HostileRig, key: ConnectionKey) -> String {
    let said = server.hear(key, "<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
    assert!(said.contains("resume='true'") && said.contains("max='300'"), "{said}");
    said.split("id='").nth(1).expect("an id").split('\'').next().expect("an id").to_owned()
}

fn resume(id: &str) -> String {
    format!("<resume xmlns='urn:xmpp:sm:3' previd='{id}' h='0'/>")
}

#[test]
fn a_stream_goes_on_for_the_domain_that_it_was_of_and_once() {
    for is_alive in [false, true] {
        let mut server = HostileRig::new(PeerPolicy::Certificate);
        let old = server.call_proven(hostile::address(1), "a.example");
        let id = enable(&mut server, old);
        server.hear(old, MESSAGE.repeat(3));
        if !is_alive {
            server.servers.closed(old, "closed");
        }
        // Another server that knows the id can't resume, and neither can the right one without it.
        let other = server.call_proven(hostile::address(2), "c.example");
        assert!(server.hear(other, resume(&id)).contains("item-not-found"));
        let new = server.call_proven(hostile::address(1), "a.example");
        assert!(server.hear(new, resume("nonsense")).contains("item-not-found"));
        let said = server.hear(new, resume(&id));
        assert_eq!(said, format!("<resumed xmlns='urn:xmpp:sm:3' previd='{id}' h='3'/>"));
        assert_eq!(server.gone.contains(&old), is_alive);
        // Further input from the old connection doesn't count.
        server.hear(old, MESSAGE);
        server.hear(new, MESSAGE);
        assert_eq!(server.hear(new, "<r xmlns='urn:xmpp:sm:3'/>"), ack(4));
        assert_eq!(server.delivered.len(), 4);
        // It can't be resumed twice.
        let third = server.call_proven(hostile::address(1), "a.example");
        assert!(server.hear(third, resume(&id)).contains("h='4'") && server.gone.contains(&new));
    }
}

#[test]
fn only_who_has_proven_a_domain_is_acknowledged_anything() {
    let mut server = HostileRig::new(PeerPolicy::Dialback);
    let key = server.call_with_tls(hostile::address(1), "a.example", Err(Untrusted::Missing));
    for element in ["<enable xmlns='urn:xmpp:sm:3' resume='true'/>", &resume("x"), "<r xmlns='urn:xmpp:sm:3'/>"] {
        assert!(server.hear(key, element).contains("unexpected-request"), "{element}");
    }
    // The number of requests is limited.
    server.hear(key, resume("x").repeat(5));
    assert!(server.gone.contains(&key));
}

#[test]
fn a_broken_stream_is_kept_for_five_minutes_and_sixteen_of_a_domain() {
    let mut server = HostileRig::new(PeerPolicy::Certificate);
    let mut names = Vec::new();
    for _ in 0..17 {
        let key = server.call_proven(hostile::address(1), "a.example");
        names.push(enable(&mut server, key));
        server.servers.closed(key, "closed");
        server.advance(100);
    }
    let key = server.call_proven(hostile::address(1), "a.example");
    assert!(server.hear(key, resume(&names[0])).contains("item-not-found"));
    assert!(server.hear(key, resume(&names[1])).contains("<resumed"));
    server.advance(300_000);
    let key = server.call_proven(hostile::address(1), "a.example");
    assert!(server.hear(key, resume(&names[5])).contains("item-not-found"));
}

#[test]
fn a_stream_that_ended_in_good_order_is_not_resumed_and_its_last_word_is_what_has_arrived() {
    let mut server = HostileRig::new(PeerPolicy::Certificate);
    let key = server.call_proven(hostile::address(1), "a.example");
    let id = enable(&mut server, key);
    // The store needs a moment.
    assert_eq!(server.hear(key, format!("{MESSAGE}</stream:stream>")), "");
    server.advance(20);
    assert_eq!(server.said_to(key), format!("{}</stream:stream>", ack(1)));
    let key = server.call_proven(hostile::address(1), "a.example");
    assert!(server.hear(key, resume(&id)).contains("item-not-found"));
    enable(&mut server, key);
    server.hear(key, MESSAGE);
    server.servers.stop();
    server.run();
    let said = server.said_to(key);
    assert!(said.starts_with(&ack(1)) && said.contains("system-shutdown"), "{said}");
}

#[test]
fn a_header_s_answer_offers_acknowledgements_when_they_may_be_asked_for() {
    let mut server = HostileRig::new(PeerPolicy::Certificate);
    let key = server.call_with_tls(hostile::address(1), "a.example", Ok(Names::of(&["a.example"])));
    assert!(server.hear(key, hostile::EXTERNAL).contains("<success"));
    assert!(server.hear(key, hostile::header("a.example")).contains("<sm xmlns='urn:xmpp:sm:3'/>"));
}
