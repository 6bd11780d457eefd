//! Limits of the service: its users, their number of nodes, and the rate of its events.

use super::*;

/// A later reading replaces those that came in between.
#[test]
fn nobody_is_flooded() {
    let mut scene = DataScene::new();
    subscribe(&mut scene.hamlet, "a");
    for count in 0..15 {
        scene.read("a", &format!("{count}"));
        scene.server.advance(66);
    }
    scene.hamlet.expect(&notification("a", "0", ""));
    scene.hamlet.expect_nothing();
    scene.server.advance(10);
    scene.hamlet.expect(&notification("a", "14", ""));
    scene.server.advance(5000);
    scene.hamlet.expect_nothing();
    scene.read("a", "15");
    scene.hamlet.expect(&notification("a", "15", ""));
}

/// §6.3: a subscriber that requests more events gets them, and others don't notice.
#[test]
fn who_asks_for_more_gets_it() {
    let mut scene = DataScene::new();
    subscribe(&mut scene.hamlet, "a");
    let bare = scene.francisco.bare().to_owned();
    let often = options(&[("digest_frequency", "1")]);
    succeed(&mut scene.francisco, "set", &format!("<subscribe node='a' jid='{bare}'/><options>{often}</options>"));
    for count in 0..15 {
        scene.read("a", &format!("{count}"));
        scene.francisco.expect(&notification("a", &format!("{count}"), ""));
        scene.server.advance(66);
    }
    scene.hamlet.expect(&notification("a", "0", ""));
    // The operator's limit of the rate is in force, not the requested rate.
    let form = succeed(&mut scene.francisco, "get", &format!("<options node='a' jid='{bare}'/>"));
    assert!(xml(&form).contains("<value>66</value>"), "{}", xml(&form));

    let off = options(&[("deliver", "0")]);
    succeed(&mut scene.francisco, "set", &format!("<options node='a' jid='{bare}'>{off}</options>"));
    scene.server.advance(1000);
    scene.hamlet.expect(&notification("a", "14", ""));
    scene.read("a", "last");
    scene.francisco.expect_nothing();
    scene.server.advance(1000);
    scene.hamlet.expect(&notification("a", "last", ""));
}

/// A subscription of a full JID ends with its session: one that is made up would never end.
#[test]
fn made_up_resources_are_not_subscribed() {
    let mut scene = DataScene::new();
    let (bare, full) = (scene.hamlet.bare().to_owned(), scene.hamlet.full().to_owned());
    let made_up = format!("<subscribe node='a' jid='{bare}/made-up'/>");
    assert_eq!(expect_refusal(&mut scene.hamlet, "set", PUBSUB, &made_up), "modify bad-request invalid-jid");
    succeed(&mut scene.hamlet, "set", &format!("<subscribe node='a' jid='{full}'/>"));
}

#[test]
fn an_account_has_so_many_subscriptions() {
    let mut scene = DataScene::with(&[("subscriptions", Value::Number(2))]);
    for node in ["a", "b"] {
        subscribe(&mut scene.hamlet, node);
    }
    let bare = scene.hamlet.bare().to_owned();
    let third = format!("<subscribe node='c' jid='{bare}'/>");
    let words = expect_refusal(&mut scene.hamlet, "set", PUBSUB, &third);
    assert_eq!(words, "wait policy-violation too-many-subscriptions");
    unsubscribe(&mut scene.hamlet, "a");
    succeed(&mut scene.hamlet, "set", &third);
    subscribe(&mut scene.francisco, "a");
}

#[test]
fn so_many_nodes_are_open() {
    let mut scene = DataScene::with(&[("nodes", Value::Number(2))]);
    for node in ["a", "b"] {
        subscribe(&mut scene.hamlet, node);
    }
    let bare = scene.francisco.bare().to_owned();
    let words = expect_refusal(&mut scene.francisco, "set", PUBSUB, &format!("<subscribe node='c' jid='{bare}'/>"));
    assert_eq!(words, "wait resource-constraint");
    subscribe(&mut scene.francisco, "b");
}

/// Somebody who may not use it learns nothing of its nodes.
#[test]
fn strangers_learn_nothing() {
    let mut scene = DataScene::with(&[("access", Value::List(vec!["crew@example.org".into()]))]);
    let bare = scene.hamlet.bare().to_owned();
    for node in ["a", "nobody"] {
        for (type_, action) in
            [("set", format!("<subscribe node='{node}' jid='{bare}'/>")), ("get", format!("<items node='{node}'/>"))]
        {
            assert_eq!(
                expect_refusal(&mut scene.hamlet, type_, PUBSUB, &action),
                "cancel not-allowed closed-node",
                "{action}"
            );
        }
        for what in ["info", "items"] {
            let answer = scene.hamlet.ask(&format!(
                "<iq type='get' id='d' to='{SERVICE}'><query xmlns='http://jabber.org/protocol/disco#{what}' node='{node}'/></iq>"
            ));
            assert_eq!(words(&answer), "cancel item-not-found");
        }
    }
    let list = scene.hamlet.ask(&format!(
        "<iq type='get' id='d' to='{SERVICE}'><query xmlns='http://jabber.org/protocol/disco#items'/></iq>"
    ));
    assert!(!xml(&list).contains("<item "), "{}", xml(&list));
    assert!(scene.open().is_empty());
    let mut crew = scene.server.online("crew/r");
    subscribe(&mut crew, "a");
}
