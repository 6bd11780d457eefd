//! Tests the operator's decisions, and the secret.

use std::sync::Arc;

use rookery_federation::inbound::Ours;
use rookery_federation::{
    Action, Arrival, ConnectionKey, FederationSettings, Home, Own, Pattern, PeerPolicy, Rule, Rules, Secret,
};
use rookery_stream::tls::trust::{Names, Untrusted};

use crate::hostile::{
    EXTERNAL, EXTERNAL_FEATURE, Elsewhere, HostileHosts, HostileRig, PROCEED, STARTTLS, SUCCESS, TLS_FEATURE, address,
    at, header, reply,
};

#[test]
fn streams_of_hosts_that_are_gone_end() {
    struct NothingTrusted;
    impl Ours for NothingTrusted {
        fn is_ours(&self, _: &str) -> bool {
            false
        }
    }
    impl Home for NothingTrusted {
        fn home(&self, _: &str) -> usize {
            0
        }
        fn shard(&self) -> usize {
            0
        }
    }
    let mut server = HostileRig::new(PeerPolicy::Certificate);
    server.dns.insert("a.example".into(), at(1));
    let coming = server.call_proven(address(1), "a.example");
    server.send("romeo@a.example", "1");
    let leaving = server.welcome("a.example");
    server.hear(leaving, "<stream:features/>");
    server.said_to(coming);
    server.servers.apply(Arc::new(FederationSettings::new(Secret::new(b"secret"))), &NothingTrusted);
    server.run();
    for key in [coming, leaving] {
        assert!(server.said_to(key).contains("host-gone") && server.gone.contains(&key));
    }
}

/// A domain calls no server before it has a certificate, if certificates are required: DNS isn't
/// queried either.
#[test]
fn a_domain_without_a_certificate_calls_nobody() {
    let settings = || {
        let mut settings = FederationSettings::new(Secret::new(b"secret"));
        settings.rules.exceptions = vec![(Pattern::read("old.example").expect("a pattern"), PeerPolicy::Dialback)];
        settings
    };
    let mut server = HostileRig::with(FederationSettings { uncertified: vec!["b.example".into()], ..settings() });
    server.send_from("romeo@b.example/x", "juliet@a.example", "1", "");
    assert_eq!(server.bounced, [("1".to_owned(), "remote-server-timeout".to_owned())]);
    assert!(server.looked_up.is_empty() && server.calls.is_empty() && server.servers.ways() == 0);
    // A service that has a certificate may call, and a server for which dialback is enough may be
    // called.
    server.send_from("room@rooms.b.example/x", "juliet@a.example", "2", "");
    server.send_from("romeo@b.example/x", "juliet@old.example", "3", "");
    assert_eq!(server.looked_up, ["a.example", "old.example"]);
    // The certificate comes with a reload.
    server.servers.apply(Arc::new(settings()), &HostileHosts);
    server.send_from("romeo@b.example/x", "juliet@c.example", "4", "");
    assert_eq!(server.looked_up.last().map(String::as_str), Some("c.example"));
    assert_eq!(server.bounced.len(), 1);
}

/// Returns settings with rules of its own for `rooms.b.example`, and dialback for all others.
fn rooms_have(rules: Rules) -> FederationSettings {
    let mut settings = FederationSettings::new(Secret::new(b"secret"));
    settings.rules.policy = PeerPolicy::Dialback;
    settings.own = vec![Own { hosts: vec!["rooms.b.example".into()], rules }];
    settings
}

fn to_rooms(text: &str) -> String {
    text.replace("to='b.example'", "to='rooms.b.example'")
}

const RESULT: &str = "<db:result from='a.example' to='rooms.b.example'>0123</db:result>";
const TO_ROOMS: &str = "<message from='romeo@a.example' to='x@rooms.b.example'/>";
const TO_NEIGHBOUR: &str = "<message from='romeo@a.example' to='juliet@b.example'/>";

/// To other servers, a host that doesn't federate is like a nonexistent one: for streams, keys and
/// stanzas, also on streams of its neighbour. None of its own stanzas leave, and the neighbour
/// isn't affected.
#[test]
fn a_host_that_does_not_federate_is_closed_whatever_its_neighbour_does() {
    let closed = || rooms_have(Rules { enabled: false, ..Rules::default() });
    let mut server = HostileRig::with(closed());
    for nameless in [false, true] {
        let key = server.call(address(9)).expect("a place");
        let head = to_rooms(&header("a.example"));
        let said = server.hear(key, if nameless { head.replace(" from='a.example'", "") } else { head });
        let nowhere = server.call(address(9)).expect("a place");
        let there = header("a.example").replace("to='b.example'", "to='x.example'");
        let expected = server.hear(nowhere, there).replace("x.example", "rooms.b.example");
        let last = |said: &str| said.split("<stream:error>").nth(1).map(str::to_owned);
        assert!(last(&said).is_some_and(|error| error.contains("host-unknown")), "{said}");
        assert_eq!(last(&said), last(&expected));
        assert!(server.gone.contains(&key) && !said.contains("<stream:features"), "{said}");
    }
    let key = server.call_proven(address(1), "a.example");
    for request in [
        "<db:result from='a.example' to='HOST'>0123</db:result>",
        "<db:verify from='a.example' to='HOST' id='1'>0123</db:verify>",
    ] {
        let [closed, nowhere] = ["rooms.b.example", "x.example"]
            .map(|host| server.hear(key, request.replace("HOST", host)).replace(host, "HOST"));
        assert!(closed.contains("type='error'") && closed.contains("item-not-found"), "{closed}");
        assert_eq!(closed, nowhere);
    }
    assert_eq!(server.hear(key, TO_NEIGHBOUR), "");
    let said = server.hear(key, TO_ROOMS);
    assert!(said.contains("host-unknown") && server.gone.contains(&key), "{said}");
    assert_eq!(server.delivered, [("romeo@a.example".to_owned(), "juliet@b.example".to_owned())]);
    server.send_from("room@rooms.b.example/x", "romeo@a.example", "1", "");
    assert_eq!(server.bounced, [("1".to_owned(), "not-allowed".to_owned())]);
    assert!(server.looked_up.is_empty());
    server.send_from("juliet@b.example/x", "romeo@a.example", "2", "");
    assert_eq!(server.looked_up, ["a.example"]);
}

/// A reload closes the streams of the host, and leaves those of its neighbour open.
#[test]
fn a_host_that_stops_to_federate_ends_its_own_streams() {
    let mut server = HostileRig::with(rooms_have(Rules::default()));
    let of_neighbour = server.call_proven(address(1), "a.example");
    let key = server.call(address(2)).expect("a place");
    server.hear(key, to_rooms(&header("a.example")));
    server.hear(key, STARTTLS);
    server.secure(key, Ok(Names::of(&["a.example"])));
    server.hear(key, to_rooms(&header("a.example")));
    assert!(server.hear(key, EXTERNAL).contains("<success"));
    server.dns.insert("a.example".into(), at(1));
    server.send_from("hall@rooms.b.example", "romeo@a.example", "1", "");
    let leaving = server.answer();
    server.reload(rooms_have(Rules { enabled: false, ..Rules::default() }));
    assert!(server.said_to(key).contains("host-gone") && server.gone.contains(&key));
    assert!(server.gone.contains(&leaving) && !server.gone.contains(&of_neighbour));
    assert_eq!(server.bounced, [("1".to_owned(), "remote-server-timeout".to_owned())]);
    assert_eq!(server.hear(of_neighbour, TO_NEIGHBOUR), "");
    assert_eq!(server.delivered.len(), 1);
}

/// A proof that satisfies one host doesn't satisfy a stricter one on the same stream.
#[test]
fn a_host_with_a_stricter_policy_takes_nothing_on_a_weaker_proof() {
    let mut server = HostileRig::with(rooms_have(Rules::default()));
    server.dns.insert("a.example".into(), at(1));
    let key = server.call_with_tls(address(1), "a.example", Err(Untrusted::UnknownIssuer));
    let said = server.hear(key, RESULT);
    assert!(said.contains("type='error'") && said.contains("not-authorized"), "{said}");
    server.hear(key, RESULT.replace("rooms.", ""));
    let owner = server.answer();
    for bytes in [reply("a.example", "1"), TLS_FEATURE.to_owned(), PROCEED.to_owned()] {
        server.hear(owner, bytes);
    }
    server.secure(owner, Err(Untrusted::UnknownIssuer));
    server.hear(owner, reply("a.example", "2"));
    let asked = server.hear(owner, "<stream:features/>");
    let id = asked.split(" id='").nth(1).and_then(|rest| rest.split('\'').next()).expect("an id");
    server.hear(owner, format!("<db:verify from='a.example' to='b.example' id='{id}' type='valid'/>"));
    assert!(server.said_to(key).contains("type='valid'"));
    server.hear(key, TO_NEIGHBOUR);
    assert_eq!(server.delivered.len(), 1);
    let said = server.hear(key, TO_ROOMS);
    assert!(said.contains("policy-violation") && server.gone.contains(&key), "{said}");
    assert_eq!(server.delivered.len(), 1);
}

/// Returns a rig on which the server of `a.example` has let us in, without a certificate, on a
/// stream for both directions.
fn call() -> (HostileRig, ConnectionKey) {
    let mut server = HostileRig::with(rooms_have(Rules { policy: PeerPolicy::Dialback, ..Rules::default() }));
    server.dns.insert("a.example".into(), at(1));
    server.send("romeo@a.example", "1");
    let key = server.answer();
    for bytes in [reply("a.example", "1"), TLS_FEATURE.to_owned(), PROCEED.to_owned()] {
        server.hear(key, bytes);
    }
    server.secure(key, Err(Untrusted::UnknownIssuer));
    let bidi = "<bidi xmlns='urn:xmpp:features:bidi'/></stream:features>";
    let offer = EXTERNAL_FEATURE.replace("</stream:features>", bidi);
    for bytes in [reply("a.example", "2"), offer, SUCCESS.to_owned(), reply("a.example", "3")] {
        server.hear(key, bytes);
    }
    assert!(server.hear(key, "<stream:features/>").contains("id='1'"));
    (server, key)
}

/// A peer's stanzas are checked by the current rules also on streams that we have opened.
#[test]
fn a_stream_that_we_have_opened_goes_by_the_latest_rules() {
    for (rules, error) in [
        (Rules { enabled: false, policy: PeerPolicy::Dialback, ..Rules::default() }, "host-unknown"),
        (
            Rules { deny: vec![rule("a.example: spam")], policy: PeerPolicy::Dialback, ..Rules::default() },
            "policy-violation",
        ),
        (Rules::default(), "policy-violation"),
    ] {
        let (mut server, key) = call();
        assert_eq!(server.hear(key, TO_ROOMS), "");
        server.reload(rooms_have(rules));
        assert!(!server.gone.contains(&key), "it is for the neighbour");
        assert_eq!(server.hear(key, TO_NEIGHBOUR), "");
        let said = server.hear(key, TO_ROOMS);
        assert!(said.contains(error) && server.gone.contains(&key), "{said}");
        assert_eq!(server.delivered.len(), 2);
    }
}

/// A reload that requires more also ends streams that we have opened, and those being negotiated
/// with less.
#[test]
fn a_stricter_policy_ends_streams_that_we_have_opened() {
    let strict = || FederationSettings::new(Secret::new(b"secret"));
    let (mut server, key) = call();
    server.reload(strict());
    assert!(server.said_to(key).contains("policy-violation") && server.gone.contains(&key));
    let mut server = HostileRig::with(rooms_have(Rules::default()));
    server.dns.insert("a.example".into(), at(1));
    server.send("romeo@a.example", "1");
    let key = server.answer();
    for bytes in [reply("a.example", "1"), TLS_FEATURE.to_owned(), PROCEED.to_owned()] {
        server.hear(key, bytes);
    }
    server.secure(key, Err(Untrusted::UnknownIssuer));
    server.reload(strict());
    assert!(server.gone.contains(&key));
    assert_eq!(server.bounced, [("1".to_owned(), "remote-server-timeout".to_owned())]);
    // A server that has shown nothing yet is checked when it does.
    server.servers.close("a.example", None);
    server.send("romeo@a.example", "2");
    let key = server.answer();
    server.reload(strict());
    server.greet(key, "a.example");
    assert!(server.hear(key, "<stream:features/>").contains("id='2'"));
}

#[test]
fn what_is_looked_for_when_a_domain_is_excluded_is_called_no_more() {
    let mut server = HostileRig::new(PeerPolicy::Certificate);
    server.send("romeo@a.example", "1");
    assert_eq!(server.looked_up, ["a.example"]);
    let mut settings = FederationSettings::new(Secret::new(b"secret"));
    settings.rules.deny = vec![rule("a.example")];
    server.reload(settings);
    assert_eq!(server.bounced, [("1".to_owned(), "remote-server-timeout".to_owned())]);
    server.servers.resolved("a.example", &at(1));
    server.run();
    assert_eq!(server.calls.len(), 0);
}

/// The settings of the shard where a stream arrives count; they may be newer.
#[test]
fn a_stream_that_moves_between_shards_is_judged_where_it_arrives() {
    let mut first = HostileRig::new(PeerPolicy::Certificate);
    let mut denying = FederationSettings::new(Secret::new(b"secret"));
    denying.rules.deny = vec![rule("a.example: it floods rooms")];
    for (settings, is_in) in [(FederationSettings::new(Secret::new(b"secret")), true), (denying, false)] {
        let mut second = HostileRig::with(settings);
        let arrival = moving(&mut first);
        let key = second.servers.adopt(arrival, &HostileHosts);
        second.run();
        assert_eq!(!second.gone.contains(&key), is_in);
        second.hear(key, header("a.example"));
        second.hear(key, TO_NEIGHBOUR);
        assert_eq!(second.delivered.len(), usize::from(is_in));
    }
}

/// Returns a stream that has proven `a.example`, on its way to another shard.
fn moving(server: &mut HostileRig) -> Arrival {
    let key = server.call_with_tls(address(1), "a.example", Ok(Names::of(&["a.example"])));
    server.servers.received(key, EXTERNAL.as_bytes(), &Elsewhere);
    loop {
        match server.servers.next_action().expect("it moves") {
            Action::Move(_, arrival, 1) => return *arrival,
            Action::Write(..) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// A rule's reason is told to those that it refuses, on either side, and to no one else.
#[test]
fn a_rule_that_refuses_says_why() {
    let with = |change: fn(&mut Rules)| {
        let mut settings = FederationSettings::new(Secret::new(b"secret"));
        change(&mut settings.rules);
        settings
    };
    let reason = "it floods rooms & more";
    for (settings, text) in [
        (with(|rules| rules.deny = vec![rule("*.example: it floods rooms & more")]), Some(reason)),
        (with(|rules| rules.deny = vec![rule("a.example")]), Some("The operator has excluded that server.")),
        (
            with(|rules| rules.allow = vec![rule("c.example: a friend")]),
            Some("Communication is limited to some servers."),
        ),
        (with(|rules| rules.deny = vec![rule("c.example: spam")]), None),
    ] {
        let mut server = HostileRig::with(settings.clone());
        let key = server.call(address(1)).expect("a place");
        let said = server.hear(key, header("a.example"));
        let escaped = text.map(|text| text.replace('&', "&amp;"));
        assert_eq!(said.contains("policy-violation"), text.is_some(), "{said}");
        assert!(escaped.as_ref().is_none_or(|text| said.contains(text)) && !said.contains("friend"), "{said}");
        server.send("romeo@a.example", "1");
        let told: Vec<_> = server.told.iter().map(Option::as_deref).collect();
        assert_eq!(told, text.map(Some).into_iter().collect::<Vec<_>>());
        // An open stream that a reload ends gets the reason, too.
        let mut server = HostileRig::new(PeerPolicy::Certificate);
        let key = server.call_proven(address(1), "a.example");
        server.reload(settings);
        let said = server.said_to(key);
        assert!(escaped.is_none_or(|text| said.contains(&text)), "{said}");
        assert_eq!(server.gone.contains(&key), text.is_some());
    }
}

#[test]
fn a_key_is_not_confirmed_for_an_excluded_server() {
    let mut settings = FederationSettings::new(Secret::new(b"secret"));
    settings.rules.deny = vec![rule("a.example")];
    let key_of = Secret::new(b"secret").key("a.example", "b.example", "1");
    let question = format!("<db:verify from='a.example' to='b.example' id='1'>{key_of}</db:verify>");
    let mut server = HostileRig::with(settings);
    let key = server.call_with_tls(address(1), "c.example", Err(Untrusted::Missing));
    let said = server.hear(key, &question);
    assert!(said.contains("type='error'") && said.contains("policy-violation"), "{said}");
    assert!(server.hear(key, question.replace("from='a.", "from='c.")).contains("type='invalid'"));
}

fn rule(text: &str) -> Rule {
    Rule::read(text).expect("a rule")
}

#[test]
fn the_secret_is_never_shown() {
    let secret = "0123456789abcdef0123456789abcdef";
    let shown = format!("{:?}", FederationSettings::new(Secret::new(secret.as_bytes())));
    assert!(shown.contains("Secret") && !shown.contains(secret), "{shown}");
    assert!(!shown.contains(&rookery_base::hex::encode(secret)) && !shown.contains("[48, 49"), "{shown}");
}
