//! The untrusted route: what is checked, in which order, and what the sender hears.

use rookery_hub::Value;
use rookery_testkit::{Client, Config};
use rookery_xml::ns;

use super::{MulticastScene, expect_refusal, header, message, refused_away, saw};

fn list(rules: &[&str]) -> Value {
    Value::List(rules.iter().map(|&rule| rule.to_owned()).collect())
}

/// Returns the recipients `to:u0@example.org to:u1@example.org …`, who need not exist.
fn many(count: usize) -> String {
    (0..count).map(|at| format!("to:u{at}@example.org ")).collect()
}

/// §2.2: who may not use the service hears `forbidden`, whatever the stanza is.
#[test]
fn access_comes_first() {
    let mut scene = MulticastScene::with_options(vec![("access", list(&["news@example.org"]))]);
    for header in ["to:NEAR to:FAR", "", "odd:NEAR", "to:@", &many(101)] {
        scene.says(header);
        scene.is_refused("auth", "forbidden");
        scene.sender.expect_nothing();
    }
}

#[test]
fn access_is_given_by_class_domain_and_address() {
    let allows = |rules: &[&str], from: &str| {
        let options = vec![("multicast", "access", list(rules))];
        let domains = vec!["example.org".into(), "example.com".into()];
        let mut scene = MulticastScene::with(Config { federates: true, options, domains, ..Config::default() });
        match from.split_once('@') {
            Some((_, "example.org" | "example.com")) => {
                let mut sender: Client = scene.server.login(&format!("{from}/x"));
                sender.send(&scene.with_names(&message("multicast.example.org", "to:NEAR")));
                sender.pump();
            }
            _ => scene.comes_in(&format!("{from}/x"), "to:NEAR"),
        }
        let arrived = !saw(&mut scene.near).is_empty();
        let refusals = refused_away(&scene.server.take_left());
        assert!(refusals.iter().all(|(_, from, condition)| {
            (from.as_str(), condition.as_str()) == ("multicast.example.org", "forbidden") && !arrived
        }));
        arrived
    };
    for (rules, from, expected) in [
        (&["all"][..], "a@elsewhere.net", true),
        (&["local"], "a@example.org", true),
        (&["local"], "a@example.com", true),
        (&["local"], "a@elsewhere.net", false),
        (&["elsewhere.net"], "a@elsewhere.net", true),
        (&["elsewhere.net"], "a@sub.elsewhere.net", false),
        (&["elsewhere.net"], "a@example.org", false),
        (&["x@example.org", "a@example.org"], "a@example.org", true),
        (&["a@example.org"], "b@example.org", false),
        (&[], "a@example.org", false),
    ] {
        assert_eq!(allows(rules, from), expected, "{rules:?} {from}");
    }
}

/// §4: a header that does not decode is refused as a whole, and the sender is told which address is
/// to blame.
#[test]
fn a_header_that_does_not_decode_is_refused_with_its_fault() {
    let mut scene = MulticastScene::new();
    for (content, blamed) in [
        ("<address jid='b@example.org'/>", "address 2 (b@example.org): it has no type"),
        ("<address type='from' jid='b@example.org'/>", "address 2 (b@example.org): its type"),
        ("<address type='to' jid='b@example.org' uri='sip:b'/>", "address 2 (b@example.org): a URI excludes"),
        ("<address type='to' uri='sip:b' node='n'/>", "address 2 (sip:b): a URI excludes"),
        ("<address type='replyto' jid='@'/>", "address 2 (@): its JID is malformed"),
        ("<address type='to' jid='b@example.org' delivered='maybe'/>", "address 2 (b@example.org): 'delivered'"),
        ("<to jid='b@example.org'/>", "address 2: <to/> isn't an address"),
        ("<address xmlns='urn:example' type='to' jid='b@example.org'/>", "address 2: <address/> isn't an address"),
    ] {
        let good = scene.with_names("<address type='to' jid='NEAR'/>");
        let header = header(&format!("{good}{content}<address type='to' jid='@'/>"));
        scene.sender.send(&format!("<message to='multicast.example.org' id='m'>{header}</message>"));
        let text = scene.is_refused("modify", "bad-request");
        assert!(text.starts_with(blamed), "{text}");
        // The malformed address after it isn't reported, since the header as a whole was refused.
        scene.sender.expect_nothing();
    }
}

/// §3: to the service only with a header that names somebody.
#[test]
fn a_stanza_without_recipients_is_refused() {
    let mut scene = MulticastScene::new();
    let empty = header("");
    for content in ["<body>hi</body>", &empty, "<addresses xmlns='urn:example'/>", &header("<address type='noreply'/>")]
    {
        scene.sender.send(&format!("<message to='multicast.example.org' id='m'>{content}</message>"));
        assert!(!scene.is_refused("modify", "bad-request").is_empty(), "it says why");
        scene.sender.expect_nothing();
    }
    scene.shows("", "");
    scene.is_refused("modify", "bad-request");
    // Those who have it already are named: nothing is left to be done, and nothing is wrong.
    scene.says("to!NEAR bcc!FAR");
    scene.nothing_is_delivered();
    scene.sender.expect_nothing();
}

/// §4.2, §8: each recipient without a usable JID is reported for itself, and the others get their
/// copies.
#[test]
fn malformed_addresses_do_not_stop_the_others() {
    let mut scene = MulticastScene::new();
    let content = "<address type='to' jid='a@@example.org'/><address type='cc' uri='sip:a@example.org'/>\
         <address type='bcc' desc='Somebody'/><address type='to' jid='NEAR'/><address type='bcc' jid='FAR'/>";
    let header = scene.with_names(&header(content));
    scene.sender.send(&format!("<message to='multicast.example.org' id='m'>{header}</message>"));
    for blamed in ["a@@example.org", "sip:a@example.org", "an address has no JID"] {
        let text = expect_refusal(&mut scene.sender, "modify", "jid-malformed");
        assert!(text.contains(blamed), "{text}");
    }
    scene.see("to!NEAR", "to!NEAR bcc:FAR");
}

/// They are reported even if a later check refuses all.
#[test]
fn malformed_addresses_are_told_before_the_limit() {
    let mut scene = MulticastScene::with_options(vec![("local_messages", Value::Number(1))]);
    scene.says("to:NEAR to:@ to:FAR");
    expect_refusal(&mut scene.sender, "modify", "jid-malformed");
    scene.is_refused("modify", "not-acceptable");
    scene.sender.expect_nothing();
}

/// A stanza makes no more errors than it may have recipients, or a hundred.
#[test]
fn errors_about_malformed_addresses_are_bounded() {
    let mut scene = MulticastScene::new();
    scene.says(&"to:@ ".repeat(300));
    assert_eq!(scene.sender.all().len(), 100);
    scene.sender.expect_alive();
}

/// §8, `not-acceptable`: the default limits, exact, by class of the sender and kind of the stanza.
#[test]
fn a_header_has_a_hundred_recipients_by_default() {
    let mut scene = MulticastScene::new();
    for count in [101, 100] {
        scene.says(&format!("{}cc:FAR", many(count - 1)));
        scene.shows("", &format!("{}cc:FAR", many(count - 1)));
        if count > 100 {
            assert!(
                expect_refusal(&mut scene.sender, "modify", "not-acceptable").contains("100"),
                "the text tells the limit"
            );
            scene.is_refused("modify", "not-acceptable");
        }
    }
    assert_eq!(scene.far.all().len(), 2);
    let scene = MulticastScene::new();
    for (count, refused) in [(21, true), (20, false)] {
        scene.comes_in("a@elsewhere.net/x", &many(count));
        let refusals = refused_away(&scene.server.take_left());
        let is_refusal = |condition: &str| condition == "not-acceptable";
        assert_eq!(refusals.iter().filter(|(.., condition)| is_refusal(condition)).count(), usize::from(refused));
    }
}

/// Each of the four limits is for itself; 0 is none; those who have the stanza already don't count,
/// repetitions do.
#[test]
fn configured_limits_hold() {
    let options = vec![
        ("local_messages", Value::Number(2)),
        ("local_presences", Value::Number(1)),
        ("remote_messages", Value::Number(0)),
        ("remote_presences", Value::Number(3)),
    ];
    let mut scene = MulticastScene::with_options(options);
    scene.says("to!a@example.org cc!b@example.org to:NEAR bcc:FAR noreply:");
    assert_eq!((scene.near.all().len(), scene.far.all().len()), (1, 1));
    for header in ["to:NEAR to:NEAR to:NEAR", "to:NEAR cc:FAR bcc:a@elsewhere.net"] {
        scene.says(header);
        scene.is_refused("modify", "not-acceptable");
    }
    scene.shows("", "to:NEAR");
    assert_eq!(scene.near.all().len(), 1);
    scene.shows("", "to:NEAR to:FAR");
    scene.is_refused("modify", "not-acceptable");
    scene.comes_in("a@elsewhere.net/x", &format!("{}to:NEAR", many(500)));
    assert_eq!(scene.near.all().len(), 1);
    scene.server.take_left();
    let presence = |count: usize| {
        let presence = scene.with_names(&super::presence("multicast.example.org", "", &many(count)));
        scene.server.incoming(&presence.replacen("<presence ", "<presence from='a@elsewhere.net/x' ", 1));
        refused_away(&scene.server.take_left()).into_iter().map(|(.., condition)| condition).collect::<Vec<_>>()
    };
    assert_eq!((presence(3), presence(4)), (vec![], vec!["not-acceptable".to_owned()]));
}

/// §2.2, relaying: who is not of this server reaches none but the users of the domain, and else
/// nobody.
#[test]
fn others_can_not_relay() {
    let domains = vec!["example.org".into(), "example.com".into()];
    let mut scene = MulticastScene::with(Config { federates: true, domains, ..Config::default() });
    let refused = |scene: &mut MulticastScene, header: &str| {
        scene.comes_in("a@elsewhere.net/x", header);
        let left = scene.server.take_left();
        assert_eq!(left.len(), refused_away(&left).len(), "nothing but errors");
        refused_away(&left)
    };
    let refusal = |condition: &str| {
        vec![("a@elsewhere.net/x".to_owned(), "multicast.example.org".to_owned(), condition.to_owned())]
    };
    for third in ["a@third.net", "b@elsewhere.net", "a@example.com"] {
        assert_eq!(refused(&mut scene, &format!("to:NEAR cc:FAR bcc:{third}")), refusal("forbidden"), "{third}");
        scene.nothing_is_delivered();
    }
    // The limit is checked before the right to relay.
    assert_eq!(refused(&mut scene, &format!("{}to:b@elsewhere.net", many(20))), refusal("not-acceptable"));
    // A recipient who has it already is not relayed to.
    assert_eq!(refused(&mut scene, "to:NEAR bcc:FAR to!a@third.net"), []);
    scene.see("to!a@third.net to!NEAR", "to!a@third.net to!NEAR bcc:FAR");
}

/// Users of another domain of this server are its own.
#[test]
fn all_domains_of_the_server_are_local() {
    let domains = vec!["example.org".into(), "example.com".into()];
    let scene = MulticastScene::with(Config { federates: true, domains, ..Config::default() });
    let mut sender = scene.server.login("a@example.com/x");
    sender.send(&message("multicast.example.org", &format!("{}to:b@elsewhere.net", many(50))));
    let left = scene.server.take_left();
    assert_eq!(super::copies(&left).len(), 1);
}

/// RFC 6120 §8.3.1: errors get no reply, and aren't sent on.
#[test]
fn errors_are_not_answered() {
    let mut scene = MulticastScene::with_options(vec![("access", list(&[]))]);
    for kind in ["message", "presence"] {
        for content in ["", &header("<address/>"), &scene.with_names(&super::addresses("to:NEAR"))] {
            scene.sender.send(&format!("<{kind} to='multicast.example.org' id='m' type='error'>{content}</{kind}>"));
        }
    }
    scene.sender.send("<iq to='multicast.example.org' id='m' type='error'><query xmlns='urn:example'/></iq>");
    scene.sender.send("<iq to='multicast.example.org' id='0-x' type='result'/>");
    scene.sender.expect_alive();
    scene.nothing_is_delivered();
}

/// An error has no `id` if the stanza had none.
#[test]
fn a_stanza_without_id_is_refused() {
    let mut scene = MulticastScene::new();
    scene.sender.send("<message to='multicast.example.org'><body>hi</body></message>");
    scene.sender.expect(
        "<message type='error' from='multicast.example.org'><error type='modify'>\
         <bad-request xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>",
    );
}

/// A sender who blocks a recipient sends it nothing, as by a single message (XEP-0191 §3.3); one
/// whom a recipient blocks doesn't either.
#[test]
fn block_lists_hold() {
    let mut scene = MulticastScene::new();
    let block =
        |jid: &str| format!("<iq type='set' id='b'><block xmlns='urn:xmpp:blocking'><item jid='{jid}'/></block></iq>");
    let (near, far) = (scene.near.bare().to_owned(), scene.far.bare().to_owned());
    assert_eq!(scene.sender.ask(&block(&far)).attr("type"), Some("result"));
    scene.says("to:NEAR bcc:FAR");
    let refused = scene.sender.expect_element();
    assert_eq!((refused.attr("type"), refused.attr("from")), (Some("error"), Some(far.as_str())));
    let error = refused.child("error", ns::CLIENT).expect("an error");
    assert!(
        error.child("not-acceptable", ns::STANZA_ERRORS).is_some()
            && error.child("blocked", ns::BLOCKING_ERRORS).is_some()
    );
    scene.see("to!NEAR", "");
    let sender = scene.sender.bare().to_owned();
    assert_eq!(scene.near.ask(&block(&sender)).attr("type"), Some("result"));
    scene.says("bcc:NEAR");
    let refused = scene.sender.expect_element();
    assert_eq!((refused.attr("type"), refused.attr("from")), (Some("error"), Some(near.as_str())));
    scene.near.expect_nothing();
}

/// Bytes times recipients count, in a minute: each recipient keeps a copy. Presence isn't kept.
#[test]
fn bytes_times_recipients_are_bounded() {
    let mut scene = MulticastScene::with_options(vec![("minute_bytes", Value::Number(20_000))]);
    let text = "x".repeat(1000);
    let says = |scene: &mut MulticastScene, recipients: &str| {
        let stanza = message("multicast.example.org", recipients).replace("</body>", &format!("{text}</body>"));
        let stanza = scene.with_names(&stanza);
        scene.sender.send(&stanza);
        scene.sender.pump();
    };
    says(&mut scene, "to:NEAR to:FAR");
    scene.sender.expect_nothing();
    assert!(!saw(&mut scene.near).is_empty() && !saw(&mut scene.far).is_empty());
    says(&mut scene, &many(11));
    scene.sender.all();
    says(&mut scene, "to:NEAR to:FAR");
    scene.is_refused("wait", "resource-constraint");
    assert!(saw(&mut scene.near).is_empty(), "it is delivered to nobody");
    scene.shows("", "to:NEAR");
    scene.sender.expect_nothing();
    scene.server.advance(60_000);
    says(&mut scene, "to:NEAR to:FAR");
    scene.sender.expect_nothing();
    assert!(!saw(&mut scene.near).is_empty());
}
