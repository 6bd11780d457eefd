//! Tests time and space: what one server costs others.

use rookery_fanout::Packet;
use rookery_fanout::multicast::Outgoing;
use rookery_federation::{Action, Address, FederationSettings, PeerPolicy, Secret};
use rookery_jid::Jid;
use rookery_stream::tls::trust::{Names, Untrusted};

use crate::hostile::{self, EXTERNAL, Elsewhere, HostileHosts, HostileRig, STARTTLS, address, at, header};
use crate::result;

#[test]
fn a_trickle_of_bytes_keeps_no_connection() {
    for what in [header("a.example"), " ".repeat(1000), format!("{}<a>", header("a.example"))] {
        let mut server = HostileRig::new(PeerPolicy::Dialback);
        let key = server.call(address(1)).expect("a place");
        for byte in what.bytes().take(3) {
            server.hear(key, [byte]);
            assert!(!server.gone.contains(&key));
            server.advance(9_900);
        }
        server.advance(300);
        assert!(server.gone.contains(&key));
        assert_eq!(server.servers.len(), 0);
    }
}

/// Strangers share a part of the connections, whatever their addresses; servers that have proven a
/// domain keep theirs.
#[test]
fn all_strangers_together_have_so_many_connections() {
    let mut server = HostileRig::new(PeerPolicy::Certificate);
    let known = server.call_proven(address(1), "a.example");
    let mut strangers = 0;
    for number in 0..1_000_u32 {
        let [_, _, third, fourth] = number.to_be_bytes();
        strangers += usize::from(server.call(([7, 7, third, fourth], 5269).into()).is_some());
    }
    assert_eq!((strangers, server.servers.len()), (500, 501));
    assert_eq!(server.hear(known, "<message from='u@a.example' to='juliet@b.example'/>"), "");
    assert_eq!(server.delivered.len(), 1);
    // They are gone after half a minute, and there is room again.
    server.advance(31_000);
    server.call_proven(address(2), "c.example");
}

#[test]
fn a_connection_that_moves_between_shards_still_counts() {
    let (mut first, mut second) = (HostileRig::new(PeerPolicy::Dialback), HostileRig::new(PeerPolicy::Dialback));
    let mut here = 0;
    for _ in 0..100 {
        let key = first.call_with_tls(address(1), "a.example", Err(Untrusted::Missing));
        first.servers.received(key, result("a.example").as_bytes(), &Elsewhere);
        let Some(rookery_federation::Action::Move(_, arrival, 1)) = first.servers.next_action() else {
            panic!("it moves")
        };
        let key = second.servers.adopt(*arrival, &HostileHosts);
        second.run();
        here += usize::from(!second.gone.contains(&key));
        first.now_ms += 100;
    }
    assert_eq!(here, 20);
}

#[test]
fn a_server_that_does_not_read_is_given_up_and_others_notice_nothing() {
    let mut server = HostileRig::new(PeerPolicy::Certificate);
    server.dns.insert("slow.example".into(), at(1));
    server.dns.insert("good.example".into(), at(2));
    server.send("romeo@slow.example", "0");
    let slow = server.welcome("slow.example");
    server.stalled.insert(slow);
    server.hear(slow, "<stream:features/>");
    for number in 1..3_000 {
        server.send_from("juliet@b.example/x", "romeo@slow.example", &number.to_string(), &"x".repeat(10_000));
    }
    let refused = server.bounced.len();
    assert!(refused > 0 && server.bounced.iter().all(|(_, condition)| condition == "resource-constraint"));
    server.send("romeo@good.example", "good");
    let good = server.welcome("good.example");
    assert!(server.hear(good, "<stream:features/>").contains("id='good'"), "at once");
    server.advance(60_000);
    assert!(server.gone.contains(&slow));
    assert_eq!(server.bounced.len(), 3_000);
    assert!(server.bounced[refused..].iter().all(|(_, condition)| condition == "remote-server-timeout"));
    // The good server answers no ping, so its stream stays a while longer.
    server.advance(32_000);
    assert_eq!(server.servers.waiting(), 0);
}

#[test]
fn what_waits_for_all_domains_together_is_bounded() {
    let mut settings = FederationSettings::new(Secret::new(b"secret"));
    settings.queue_bytes = 8 << 20;
    let mut server = HostileRig::with(settings);
    for number in 0..300 {
        server.send_from("juliet@b.example", &format!("romeo@x{number}.example"), "1", &"x".repeat(1 << 20));
    }
    assert!(server.servers.waiting() <= 64 << 20);
    assert!(server.bounced.len() >= 230 && server.bounced.iter().all(|(_, why)| why == "resource-constraint"));
    server.advance(61_000);
    assert_eq!((server.bounced.len(), server.servers.waiting()), (300, 0));
}

#[test]
fn a_dead_address_does_not_hide_a_living_one() {
    let mut server = HostileRig::new(PeerPolicy::Certificate);
    let six = Address::new("[2600::1]:5269".parse().expect("an address"), false);
    let four = Address::new(address(4), false);
    server.dns.insert("a.example".into(), Ok(vec![six, four]));
    server.send("romeo@a.example", "1");
    server.advance(250);
    assert_eq!(server.calls.len(), 2);
    let key = server.welcome("a.example");
    assert!(server.hear(key, "<stream:features/>").contains("id='1'"));
    assert_eq!(server.servers.len(), 1, "the other one is dropped");
}

#[test]
fn a_machine_that_says_nothing_does_not_hide_another() {
    let mut server = HostileRig::new(PeerPolicy::Certificate);
    let both = [1, 2].map(|number| Address::new(address(number), true));
    server.dns.insert("a.example".into(), Ok(both.to_vec()));
    server.send("romeo@a.example", "1");
    server.answer();
    server.advance(15_000);
    assert_eq!(server.calls.len(), 2);
    assert_eq!(server.bounced, []);
}

#[test]
fn a_dead_domain_delays_no_other() {
    let mut server = HostileRig::new(PeerPolicy::Certificate);
    server.dns.insert("dead.example".into(), at(1));
    server.dns.insert("good.example".into(), at(2));
    server.send("romeo@silent-dns.example", "1");
    server.send("romeo@dead.example", "2");
    server.send("romeo@good.example", "3");
    let good = server.welcome("good.example");
    assert!(server.hear(good, "<stream:features/>").contains("id='3'"));
    assert_eq!(server.now_ms, 1, "without waiting");
}

#[test]
fn who_ends_each_attempt_at_whatever_stage_is_called_seldom() {
    for stage in 0..8 {
        let mut server = HostileRig::new(PeerPolicy::Certificate);
        server.dns.insert("a.example".into(), at(1));
        for _ in 0..600 {
            server.send("romeo@a.example", "1");
            let open = server.calls.last().filter(|(key, _)| !server.gone.contains(key)).map(|(key, _)| *key);
            if let Some(key) = open {
                server.servers.connected(key);
                server.run();
                let steps = [hostile::reply("a.example", "1"), hostile::TLS_FEATURE.into(), hostile::PROCEED.into()];
                steps.iter().take(stage).for_each(|bytes| _ = server.hear(key, bytes));
                if stage > 3 {
                    server.secure(key, Ok(Names::of(&["a.example"])));
                    let steps =
                        [hostile::reply("a.example", "2"), hostile::EXTERNAL_FEATURE.into(), hostile::SUCCESS.into()];
                    steps.iter().take(stage - 4).for_each(|bytes| _ = server.hear(key, bytes));
                }
                server.servers.closed(key, "closed");
                server.gone.insert(key);
            }
            server.advance(1_000);
        }
        assert!(server.calls.len() <= 12, "stage {stage}: {}", server.calls.len());
        // The last ones may wait for the next attempt, whose time is random.
        (0..120).for_each(|_| server.advance(1_000));
        assert_eq!(server.bounced.len(), 600, "stage {stage}");
    }
}

#[test]
fn order_holds_however_long_each_step_takes() {
    // Many short ones, and one of ten thousand.
    let runs = (1..20_u64).map(|seed| (seed, 1_000)).chain([(20, 10_000)]);
    for (seed, stanzas) in runs {
        let mut state = seed;
        let mut draw = move |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % most
        };
        let mut settings = FederationSettings::new(Secret::new(b"secret"));
        (settings.queue_stanzas, settings.queue_bytes) = (100_000, 16 << 20);
        let mut server = HostileRig::with(settings);
        server.dns.insert("a.example".into(), at(1));
        let mut steps = vec![
            hostile::reply("a.example", "1"),
            hostile::TLS_FEATURE.into(),
            hostile::PROCEED.into(),
            "TLS".to_owned(),
            hostile::reply("a.example", "2"),
            hostile::EXTERNAL_FEATURE.into(),
            hostile::SUCCESS.into(),
            hostile::reply("a.example", "3"),
            "<stream:features/>".to_owned(),
        ]
        .into_iter();
        let (mut key, mut said) = (None, String::new());
        for number in 0..stanzas {
            server.send("romeo@a.example", &number.to_string());
            server.now_ms += draw(20_000 / u64::from(stanzas));
            if draw(u64::from(stanzas) / 25) != 0 {
                continue;
            }
            let Some(key) = key else {
                key = Some(server.answer());
                continue;
            };
            match steps.next().as_deref() {
                Some("TLS") => said += &server.secure(key, Ok(Names::of(&["a.example"]))),
                Some(step) => said += &server.hear(key, step),
                // The server reads for a while, and then pauses.
                None if server.stalled.remove(&key) => {
                    server.servers.drained(key);
                    server.run();
                }
                None => _ = server.stalled.insert(key),
            }
        }
        let key = key.unwrap_or_else(|| server.answer());
        for step in steps {
            said += &server.hear(key, step);
        }
        server.stalled.clear();
        for _ in 0..50 {
            server.servers.drained(key);
            server.run();
        }
        said += &server.said_to(key);
        let ids: Vec<_> = said
            .split("<message")
            .skip(1)
            .map(|text| text.split("id='").nth(1).unwrap().split('\'').next().unwrap().parse::<u32>().unwrap())
            .collect();
        assert_eq!(ids, (0..stanzas).collect::<Vec<_>>(), "seed {seed}");
        assert_eq!(server.bounced, []);
    }
}

#[test]
fn a_stanza_too_large_for_the_peer_costs_its_sender_alone() {
    let mut server = HostileRig::new(PeerPolicy::Certificate);
    server.dns.insert("a.example".into(), at(1));
    server.send_from("juliet@b.example", "romeo@a.example", "large", &"x".repeat(400));
    server.send("romeo@a.example", "small");
    let key = server.welcome("a.example");
    let limits = "<limits xmlns='urn:xmpp:stream-limits:0'><max-bytes>300</max-bytes></limits>";
    let said = server.hear(key, format!("<stream:features>{limits}</stream:features>"));
    assert!(said.contains("id='small'") && !said.contains("id='large'"), "{said}");
    assert_eq!(server.bounced, [("large".into(), "policy-violation".into())]);
    assert!(!server.gone.contains(&key));
}

/// Stanzas that arrive for a domain within a tick leave in one write, in their order, no matter how
/// many users have sent them.
#[test]
fn stanzas_of_a_tick_leave_in_one_write() {
    let mut server = HostileRig::new(PeerPolicy::Certificate);
    for domain in ["a.example", "c.example"] {
        server.dns.insert(domain.into(), at(1));
    }
    let mut keys = Vec::new();
    for domain in ["a.example", "c.example"] {
        server.send(&format!("romeo@{domain}"), "first");
        let key = server.welcome(domain);
        server.hear(key, "<stream:features/>");
        keys.push(key);
    }
    for number in 0..100 {
        for domain in ["a.example", "c.example"] {
            let text = format!("<message from='user{number}@b.example/x' id='{number}'/>");
            let packet = Packet::from_bytes(text.as_bytes()).expect("a packet");
            let to = Jid::parse(&format!("romeo@{domain}")).expect("an address");
            server.servers.send(Outgoing::plain(to, packet));
        }
    }
    server.servers.flush();
    let mut writes = Vec::new();
    while let Some(action) = server.servers.next_action() {
        let Action::Write(key, bytes) = action else { panic!("{action:?}") };
        let text = String::from_utf8(bytes).expect("text");
        let ids = text.split("id='").skip(1).map(|rest| rest.split('\'').next().expect("an id").to_owned());
        writes.push((key, ids.collect::<Vec<_>>()));
    }
    let expected: Vec<_> = (0..100).map(|number| number.to_string()).collect();
    assert_eq!(writes, keys.into_iter().map(|key| (key, expected.clone())).collect::<Vec<_>>());
}

/// XEP-0478: the other server announces how long a stream may be quiet. Ours is closed before that,
/// so that no stanza is lost to the end; a small value can't make us reconnect for ever.
#[test]
fn a_stream_rests_before_the_other_server_would_end_it() {
    let features = |seconds: &str| {
        let limits =
            format!("<limits xmlns='urn:xmpp:stream-limits:0'><idle-seconds>{seconds}</idle-seconds></limits>");
        format!("<stream:features>{limits}</stream:features>")
    };
    for (said, rests_after) in
        [("120", 90), ("4", 10), ("0", 10), ("100000", 600), ("18446744073709551615", 600), ("-1", 600), ("soon", 600)]
    {
        let mut server = HostileRig::new(PeerPolicy::Certificate);
        server.dns.insert("a.example".into(), at(1));
        server.send("romeo@a.example", "1");
        let key = server.welcome("a.example");
        server.hear(key, features(said));
        server.advance(rests_after * 1_000 - 1);
        assert!(!server.gone.contains(&key), "{said}");
        server.advance(1);
        assert!(server.gone.contains(&key), "{said}");
        assert_eq!(server.bounced, [], "{said}");
    }
    // A stanza restarts the time.
    let mut server = HostileRig::new(PeerPolicy::Certificate);
    server.dns.insert("a.example".into(), at(1));
    server.send("romeo@a.example", "1");
    let key = server.welcome("a.example");
    server.hear(key, features("120"));
    for id in ["2", "3", "4"] {
        server.advance(89_000);
        server.send("romeo@a.example", id);
    }
    assert!(!server.gone.contains(&key) && server.calls.len() == 1);
    server.advance(90_000);
    assert!(server.gone.contains(&key));
}

#[test]
fn a_sender_who_writes_to_the_whole_world_keeps_nobody_from_theirs() {
    let mut server = HostileRig::new(PeerPolicy::Certificate);
    for number in 0..2_000 {
        server.send(&format!("romeo@x{number}.example"), "spam");
    }
    assert_eq!((server.looked_up.len(), server.bounced.len(), server.servers.ways()), (500, 1_500, 500));
    assert!(server.bounced.iter().all(|(_, condition)| condition == "resource-constraint"));
    server.send_from("mercutio@b.example/x", "romeo@y.example", "1", "hi");
    assert_eq!(server.looked_up.last().map(String::as_str), Some("y.example"));
    server.advance(61_000);
    server.bounced.clear();
    server.send("romeo@z.example", "later");
    assert_eq!(server.bounced, []);
}

#[test]
fn a_domain_has_so_many_streams() {
    let mut server = HostileRig::new(PeerPolicy::Certificate);
    let keys: Vec<_> = (0..100).map(|number| server.call_proven(address(number), "a.example")).collect();
    let over = server.call_with_tls(address(200), "a.example", Ok(Names::of(&["a.example"])));
    server.hear(over, EXTERNAL);
    assert!(server.gone.contains(&over));
    let over = server.call_with_tls(address(201), "a.example", Ok(Names::of(&["a.example"])));
    assert!(server.hear(over, result("a.example")).contains("resource-constraint"));
    // A service of ours makes another pair: a server with many domains opens one stream for each
    // pair.
    let other = server.call(address(204)).expect("a place");
    let to_rooms = header("a.example").replace("'b.example'", "'rooms.b.example'");
    server.hear(other, &to_rooms);
    server.hear(other, STARTTLS);
    server.secure(other, Ok(Names::of(&["a.example"])));
    server.hear(other, &to_rooms);
    assert!(server.hear(other, EXTERNAL).contains("<success") && !server.gone.contains(&other));
    // Others are let in, and so is the domain when it has closed one.
    server.call_proven(address(202), "c.example");
    server.servers.closed(keys[0], "closed");
    server.call_proven(address(203), "a.example");
}
