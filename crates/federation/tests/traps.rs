//! Tries what other servers must never achieve: each test is a hostile peer.

#![allow(clippy::disallowed_methods, reason = "tests may choose by a seed of their own")]

mod hostile;

use hostile::{EXTERNAL, Here, STARTTLS, Server, address, at, header};
use rookery_federation::inbound::{MOST_PENDING, MOST_REQUESTS, Ours};
use rookery_federation::{Address, Home, NotFound, Pattern, Policy, Secret, Settings};
use rookery_stream::tls::trust::{Names, Untrusted};
use std::sync::Arc;

const MESSAGE: &str = "<message from='romeo@a.example/x' to='juliet@b.example'/>";

fn result(from: &str) -> String {
    format!("<db:result from='{from}' to='b.example'>key</db:result>")
}

// --- answers that nobody has asked for ---

#[test]
fn answers_that_nobody_has_asked_for_open_nothing_in_any_state() {
    let answers = |server: &mut Server, key| {
        for name in ["result", "verify"] {
            for (from, to) in [("a.example", "b.example"), ("b.example", "a.example"), ("c.example", "b.example")] {
                server.hear(key, format!("<db:{name} from='{from}' to='{to}' id='1' type='valid'/>"));
            }
        }
    };
    let states: [fn(&mut Server) -> rookery_federation::Key; 4] = [
        |server| {
            let key = server.call(address(1)).expect("a place");
            server.hear(key, header("c.example"));
            key
        },
        |server| server.secured(address(1), "c.example", Err(Untrusted::Missing)),
        |server| {
            let key = server.secured(address(1), "a.example", Err(Untrusted::Missing));
            server.hear(key, result("a.example"));
            key
        },
        |server| server.proven(address(1), "c.example"),
    ];
    for state in states {
        let mut server = Server::new(Policy::Dialback);
        let key = state(&mut server);
        answers(&mut server, key);
        server.hear(key, MESSAGE);
        assert_eq!(server.delivered, []);
    }
}

#[test]
fn an_authority_speaks_for_its_own_domain_and_the_question_it_was_asked() {
    let mut server = Server::new(Policy::Dialback);
    server.dns.insert("a.example".into(), at(11));
    server.dns.insert("c.example".into(), at(12));
    let asker = server.secured(address(1), "a.example", Err(Untrusted::Missing));
    let other = server.secured(address(2), "c.example", Err(Untrusted::Missing));
    server.hear(asker, result("a.example"));
    server.hear(other, result("c.example"));
    let authorities = [server.calls[0].0, server.calls[1].0];
    let mut ids = Vec::new();
    for (key, domain) in authorities.into_iter().zip(["a.example", "c.example"]) {
        server.servers.connected(key);
        server.run();
        for bytes in [hostile::reply(domain, "1"), hostile::TLS_FEATURE.into(), hostile::PROCEED.into()] {
            server.hear(key, bytes);
        }
        server.secure(key, Err(Untrusted::Missing));
        server.hear(key, hostile::reply(domain, "2"));
        let asked = server.hear(key, "<stream:features/>");
        let id = asked.split(" id='").nth(1).expect("a question").split('\'').next().expect("an id");
        ids.push(id.to_owned());
    }
    let verify =
        |from: &str, to: &str, id: &str| format!("<db:verify from='{from}' to='{to}' id='{id}' type='valid'/>");
    // Each is told by the wrong one, with the wrong id, or about the wrong pair.
    server.hear(authorities[1], verify("a.example", "b.example", &ids[0]));
    server.hear(authorities[0], verify("c.example", "b.example", &ids[1]));
    server.hear(authorities[0], verify("a.example", "b.example", &ids[1]));
    server.hear(authorities[0], verify("a.example", "rooms.b.example", &ids[0]));
    server.hear(authorities[0], "<db:result from='a.example' to='b.example' type='valid'/>");
    server.hear(asker, verify("a.example", "b.example", &ids[0]));
    assert_eq!((server.said_to(asker), server.said_to(other)), (String::new(), String::new()));
    // The right answer is about one of them.
    server.hear(authorities[0], verify("a.example", "b.example", &ids[0]));
    assert!(server.said_to(asker).contains("type='valid'"));
    server.hear(asker, MESSAGE);
    assert_eq!(server.delivered.len(), 1);
    assert!(server.hear(other, MESSAGE.replace("a.example", "c.example")).contains("not-authorized"));
}

#[test]
fn whom_a_question_is_put_to_can_send_little() {
    let mut server = Server::new(Policy::Dialback);
    server.dns.insert("a.example".into(), at(11));
    let asker = server.secured(address(1), "a.example", Err(Untrusted::Missing));
    server.hear(asker, result("a.example"));
    let authority = server.answer();
    for bytes in [hostile::reply("a.example", "1"), hostile::TLS_FEATURE.into(), hostile::PROCEED.into()] {
        server.hear(authority, bytes);
    }
    server.secure(authority, Err(Untrusted::Missing));
    server.hear(authority, hostile::reply("a.example", "2"));
    server.hear(authority, "<stream:features/>");
    server.hear(authority, format!("<message><body>{}", "x".repeat(20_000)));
    assert!(server.gone.contains(&authority));
    assert!(server.said_to(asker).contains("remote-server-timeout"));
}

// --- names ---

#[test]
fn a_stream_that_was_proven_by_dialback_speaks_for_that_domain_alone() {
    let froms = [
        "juliet@b.example",
        "room@rooms.b.example/nick",
        "romeo@x.a.example",
        "romeo@example",
        "romeo@xa.example",
        "romeo@\u{430}.example",
        "romeo@a.example.c.example",
    ];
    for from in froms {
        let mut server = Server::new(Policy::Dialback);
        let key = server.secured(address(1), "a.example", Ok(Names::of(&["a.example"])));
        assert!(server.hear(key, result("a.example")).contains("type='valid'"));
        let said = server.hear(key, format!("<message from='{from}' to='juliet@b.example'/>"));
        assert!(said.contains("invalid-from"), "{from}: {said}");
        assert_eq!(server.delivered, []);
    }
}

#[test]
fn spellings_of_a_name_are_one_name_and_others_are_others() {
    // A full-width letter, capitals, a final dot, and the form with A-labels are the same name as
    // prepared.
    for same in ["b\u{fc}cher.example", "B\u{dc}CHER.example", "xn--bcher-kva.example", "b\u{fc}cher.example."] {
        let mut server = Server::new(Policy::Certificate);
        let key = server.secured(address(1), same, Ok(Names::of(&["xn--bcher-kva.example"])));
        assert!(server.hear(key, EXTERNAL).contains("<success"), "{same}");
        server.hear(key, header("b\u{fc}cher.example"));
        server.hear(key, "<message from='u@b\u{fc}cher.example' to='juliet@b.example'/>");
        assert_eq!(server.delivered, [("u@b\u{fc}cher.example".into(), "juliet@b.example".into())], "{same}");
    }
    let others =
        [("fa\u{df}.example", "xn--fa-hia.example", "fass.example"), ("a.example", "a.example", "\u{430}.example")];
    for (proven, certified, other) in others {
        let mut server = Server::new(Policy::Certificate);
        let key = server.secured(address(1), proven, Ok(Names::of(&[certified])));
        assert!(server.hear(key, EXTERNAL).contains("<success"));
        server.hear(key, header(proven));
        server.hear(key, format!("<message from='u@{other}' to='juliet@b.example'/>"));
        assert_eq!(server.delivered, [], "{proven} {other}");
    }
}

#[test]
fn a_name_cannot_be_left_out_to_become_another() {
    let without = |name: &str| {
        header("a.example")
            .replace(&format!(" {name}='a.example'"), "")
            .replace(" to='b.example'", if name == "to" { "" } else { " to='b.example'" })
    };
    // Some leave names out when they begin again: those of before hold.
    for name in ["from", "to"] {
        let mut server = Server::new(Policy::Certificate);
        let key = server.call(address(1)).expect("a place");
        server.hear(key, header("a.example"));
        server.hear(key, STARTTLS);
        server.secure(key, Ok(Names::of(&["a.example"])));
        assert!(server.hear(key, without(name)).contains("EXTERNAL"), "{name}");
        assert!(server.hear(key, EXTERNAL).contains("<success"));
        server.hear(key, without(name));
        server.hear(key, "<message from='u@c.example' to='juliet@b.example'/>");
        assert_eq!(server.delivered, []);
    }
}

// --- what others make this server do ---

#[test]
fn one_address_makes_few_connections_however_it_asks() {
    let mut server = Server::new(Policy::Dialback);
    let keys: Vec<_> = (0..10)
        .map(|stream| {
            let key = server.secured(address(1), "x.example", Err(Untrusted::Missing));
            for number in 0..MOST_PENDING {
                server.hear(key, result(&format!("x{stream}-{number}.example")));
            }
            key
        })
        .collect();
    assert_eq!(server.looked_up.len(), 20, "of the address, not of each stream");
    let other = server.secured(address(2), "y.example", Err(Untrusted::Missing));
    server.hear(other, result("y.example"));
    assert_eq!(server.looked_up.len(), 21, "others are asked for");
    for key in keys {
        assert!(!server.gone.contains(&key));
    }
}

#[test]
fn one_domain_is_asked_over_one_connection_whoever_wants_it() {
    let mut server = Server::new(Policy::Dialback);
    server.dns.insert("victim.example".into(), at(99));
    for number in 0..200 {
        let key = server.secured(address(number), "victim.example", Err(Untrusted::Missing));
        server.hear(key, result("victim.example"));
    }
    assert_eq!((server.looked_up.len(), server.calls.len()), (1, 1));
}

#[test]
fn a_stranger_s_domain_has_few_addresses_that_are_tried() {
    let mut server = Server::new(Policy::Dialback);
    let victims = (0..100).map(|number| Address::new(address(number), false)).collect();
    server.dns.insert("a.example".into(), Ok(victims));
    let key = server.secured(address(1), "a.example", Err(Untrusted::Missing));
    server.hear(key, result("a.example"));
    server.advance(25_000);
    assert_eq!(server.calls.len(), 8);
}

#[test]
fn questions_of_strangers_never_take_the_place_of_stanzas() {
    let mut server = Server::new(Policy::Dialback);
    for number in 0..=255 {
        let key = server.secured(address(number), "x.example", Err(Untrusted::Missing));
        for name in 0..4 {
            server.hear(key, result(&format!("x{number}-{name}.example")));
        }
    }
    assert_eq!(server.looked_up.len(), 250, "a quarter of all that may be looked for");
    server.send("romeo@c.example", "1");
    assert_eq!((server.looked_up.len(), &server.bounced[..]), (251, &[][..]));
}

#[test]
fn keys_are_verified_without_memory_and_not_for_ever() {
    let mut server = Server::new(Policy::Dialback);
    let key = server.secured(address(1), "a.example", Err(Untrusted::Missing));
    let ask = "<db:verify from='a.example' to='b.example' id='1'>key</db:verify>";
    for _ in 0..MOST_REQUESTS {
        assert!(server.hear(key, ask).contains("type='invalid'"));
    }
    assert!(server.hear(key, ask).contains("policy-violation"));
    assert_eq!((server.looked_up.len(), server.calls.len()), (0, 0));
}

#[test]
fn failed_names_of_strangers_are_forgotten() {
    let mut server = Server::new(Policy::Dialback);
    for round in 0..300_u32 {
        let key = server.secured(address((round % 200) as u8), "x.example", Err(Untrusted::Missing));
        let name = format!("x{round}.example");
        server.dns.insert(name.clone(), Err(NotFound::NoServer));
        assert!(server.hear(key, result(&name)).contains("remote-server-not-found"));
        server.servers.closed(key, "closed");
        server.advance(1_000);
    }
    server.advance(10_000);
    assert_eq!(server.servers.len(), 0);
    assert_eq!(server.servers.ways(), 0);
}

#[test]
fn what_is_no_element_of_a_stream_ends_it_before_it_is_built() {
    let children = "<x/>".repeat(2_000);
    for element in [
        format!("<db:result from='a.example' to='b.example'>{children}</db:result>"),
        format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='EXTERNAL'>{children}</auth>"),
        format!("<other xmlns='urn:other'>{children}</other>"),
    ] {
        let mut server = Server::new(Policy::Dialback);
        let key = server.secured(address(1), "a.example", Err(Untrusted::Missing));
        server.hear(key, element);
        assert!(server.gone.contains(&key));
    }
}

// --- time and room ---

#[test]
fn a_trickle_of_bytes_keeps_no_connection() {
    for what in [header("a.example"), " ".repeat(1000), format!("{}<a>", header("a.example"))] {
        let mut server = Server::new(Policy::Dialback);
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

#[test]
fn a_connection_that_moves_between_shards_still_counts() {
    /// A home of no domain: each belongs to another shard.
    struct Elsewhere;
    impl Ours for Elsewhere {
        fn is_ours(&self, host: &str) -> bool {
            Here.is_ours(host)
        }
    }
    impl Home for Elsewhere {
        fn home(&self, _: &str) -> usize {
            1
        }
        fn shard(&self) -> usize {
            0
        }
    }
    let (mut first, mut second) = (Server::new(Policy::Dialback), Server::new(Policy::Dialback));
    let mut here = 0;
    for _ in 0..100 {
        let key = first.secured(address(1), "a.example", Err(Untrusted::Missing));
        first.servers.received(key, result("a.example").as_bytes(), &Elsewhere);
        let Some(rookery_federation::Action::Move(_, arrival, 1)) = first.servers.next_action() else {
            panic!("it moves")
        };
        let key = second.servers.adopt(*arrival, &Here);
        second.run();
        here += usize::from(!second.gone.contains(&key));
        first.now_ms += 100;
    }
    assert_eq!(here, 20);
}

#[test]
fn a_server_that_does_not_read_is_given_up_and_others_notice_nothing() {
    let mut server = Server::new(Policy::Certificate);
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
    assert_eq!(server.servers.waiting(), 0);
}

#[test]
fn what_waits_for_all_domains_together_is_bounded() {
    let mut settings = Settings::new(Secret::new(b"secret"));
    settings.queue_bytes = 8 << 20;
    let mut server = Server::with(settings);
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
    let mut server = Server::new(Policy::Certificate);
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
    let mut server = Server::new(Policy::Certificate);
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
    let mut server = Server::new(Policy::Certificate);
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
        let mut server = Server::new(Policy::Certificate);
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
        // The last ones may wait for the next attempt, which comes when chance wants it.
        (0..120).for_each(|_| server.advance(1_000));
        assert_eq!(server.bounced.len(), 600, "stage {stage}");
    }
}

#[test]
fn order_holds_however_long_each_step_takes() {
    for seed in 1..20_u64 {
        let mut state = seed;
        let mut draw = move |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % most
        };
        let mut settings = Settings::new(Secret::new(b"secret"));
        settings.queue_stanzas = 10_000;
        let mut server = Server::with(settings);
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
        for number in 0..1_000 {
            server.send("romeo@a.example", &number.to_string());
            server.now_ms += draw(20);
            if draw(40) != 0 {
                continue;
            }
            let Some(key) = key else {
                key = Some(server.answer());
                continue;
            };
            match steps.next().as_deref() {
                Some("TLS") => said += &server.secure(key, Ok(Names::of(&["a.example"]))),
                Some(step) => said += &server.hear(key, step),
                // It reads for a while, and for a while it doesn't.
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
        assert_eq!(ids, (0..1_000).collect::<Vec<_>>(), "seed {seed}");
        assert_eq!(server.bounced, []);
    }
}

#[test]
fn a_stanza_too_large_for_the_peer_costs_its_sender_alone() {
    let mut server = Server::new(Policy::Certificate);
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

#[test]
fn a_sender_who_writes_to_the_whole_world_keeps_nobody_from_theirs() {
    let mut server = Server::new(Policy::Certificate);
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
    let mut server = Server::new(Policy::Certificate);
    let keys: Vec<_> = (0..100).map(|number| server.proven(address(number), "a.example")).collect();
    let over = server.secured(address(200), "a.example", Ok(Names::of(&["a.example"])));
    server.hear(over, EXTERNAL);
    assert!(server.gone.contains(&over));
    let over = server.secured(address(201), "a.example", Ok(Names::of(&["a.example"])));
    assert!(server.hear(over, result("a.example")).contains("resource-constraint"));
    // A service of ours is another pair: a server of many domains has a stream from each for each.
    let other = server.call(address(204)).expect("a place");
    let to_rooms = header("a.example").replace("'b.example'", "'rooms.b.example'");
    server.hear(other, &to_rooms);
    server.hear(other, STARTTLS);
    server.secure(other, Ok(Names::of(&["a.example"])));
    server.hear(other, &to_rooms);
    assert!(server.hear(other, EXTERNAL).contains("<success") && !server.gone.contains(&other));
    // Others are let in, and so is the domain when it has closed one.
    server.proven(address(202), "c.example");
    server.servers.closed(keys[0], "closed");
    server.proven(address(203), "a.example");
}

// --- what the operator changes ---

#[test]
fn streams_of_hosts_that_are_gone_end() {
    struct Nothing;
    impl Ours for Nothing {
        fn is_ours(&self, _: &str) -> bool {
            false
        }
    }
    impl Home for Nothing {
        fn home(&self, _: &str) -> usize {
            0
        }
        fn shard(&self) -> usize {
            0
        }
    }
    let mut server = Server::new(Policy::Certificate);
    server.dns.insert("a.example".into(), at(1));
    let coming = server.proven(address(1), "a.example");
    server.send("romeo@a.example", "1");
    let leaving = server.welcome("a.example");
    server.hear(leaving, "<stream:features/>");
    server.said_to(coming);
    server.servers.apply(Arc::new(Settings::new(Secret::new(b"secret"))), &Nothing);
    server.run();
    for key in [coming, leaving] {
        assert!(server.said_to(key).contains("host-gone") && server.gone.contains(&key));
    }
}

/// A domain calls nobody before it has a certificate, if these are the proof: DNS isn't asked
/// either.
#[test]
fn a_domain_without_a_certificate_calls_nobody() {
    let settings = || {
        let mut settings = Settings::new(Secret::new(b"secret"));
        settings.exceptions = vec![(Pattern::read("old.example").expect("a pattern"), Policy::Dialback)];
        settings
    };
    let mut server = Server::with(Settings { uncertified: vec!["b.example".into()], ..settings() });
    server.send_from("romeo@b.example/x", "juliet@a.example", "1", "");
    assert_eq!(server.bounced, [("1".to_owned(), "remote-server-timeout".to_owned())]);
    assert!(server.looked_up.is_empty() && server.calls.is_empty() && server.servers.ways() == 0);
    // A service that has one, and a server that is believed by dialback.
    server.send_from("room@rooms.b.example/x", "juliet@a.example", "2", "");
    server.send_from("romeo@b.example/x", "juliet@old.example", "3", "");
    assert_eq!(server.looked_up, ["a.example", "old.example"]);
    // It comes with a reload.
    server.servers.apply(Arc::new(settings()), &Here);
    server.send_from("romeo@b.example/x", "juliet@c.example", "4", "");
    assert_eq!(server.looked_up.last().map(String::as_str), Some("c.example"));
    assert_eq!(server.bounced.len(), 1);
}

#[test]
fn the_secret_is_never_shown() {
    let secret = "0123456789abcdef0123456789abcdef";
    let shown = format!("{:?}", Settings::new(Secret::new(secret.as_bytes())));
    assert!(shown.contains("Secret") && !shown.contains(secret), "{shown}");
    assert!(!shown.contains(&rookery_base::hex::encode(secret)) && !shown.contains("[48, 49"), "{shown}");
}
