//! Errors bear the names of XEP-0060.

use super::*;

#[test]
fn what_is_wrong_is_named() {
    let mut scene = DataScene::new();
    let own = scene.hamlet.bare().to_owned();
    subscribe(&mut scene.hamlet, "b");
    let sub = |node: &str, jid: &str| format!("<subscribe node='{node}' jid='{jid}'/>");
    for (type_, ns, action, expected) in [
        ("set", PUBSUB, sub("nobody", &own), "cancel item-not-found"),
        ("set", PUBSUB, sub("a", "other@example.org"), "modify bad-request invalid-jid"),
        ("set", PUBSUB, sub("a", "@"), "modify bad-request invalid-jid"),
        ("set", PUBSUB, format!("<subscribe jid='{own}'/>"), "modify bad-request nodeid-required"),
        ("set", PUBSUB, format!("<unsubscribe node='a' jid='{own}'/>"), "cancel unexpected-request not-subscribed"),
        ("set", PUBSUB, format!("<unsubscribe node='nobody' jid='{own}'/>"), "cancel item-not-found"),
        ("set", PUBSUB, "<unsubscribe node='b' jid='other@example.org'/>".into(), "auth forbidden"),
        ("get", PUBSUB, format!("<options node='a' jid='{own}'/>"), "modify unexpected-request not-subscribed"),
        ("get", PUBSUB, "<items node='nobody'/>".into(), "cancel item-not-found"),
        ("get", PUBSUB, "<items/>".into(), "modify bad-request nodeid-required"),
        ("set", PUBSUB, "<create node='mine'/>".into(), "cancel feature-not-implemented unsupported"),
        ("set", PUBSUB, "<publish node='a'><item/></publish>".into(), "auth forbidden"),
        ("set", PUBSUB, "<publish node='nobody'><item/></publish>".into(), "cancel item-not-found"),
        ("set", PUBSUB, "<retract node='a'><item id='current'/></retract>".into(), "auth forbidden"),
        ("get", OWNER, "<configure node='a'/>".into(), "auth forbidden"),
        ("set", OWNER, "<delete node='a'/>".into(), "auth forbidden"),
        ("get", OWNER, "<subscriptions node='b'/>".into(), "auth forbidden"),
        ("set", PUBSUB, "<juggle/>".into(), "modify bad-request"),
        ("set", PUBSUB, String::new(), "modify bad-request"),
    ] {
        assert_eq!(expect_refusal(&mut scene.hamlet, type_, ns, &action), expected, "{action}");
    }
    for (field, value) in [
        ("deliver", "maybe"),
        ("digest_frequency", "-1"),
        ("digest_frequency", "often"),
        ("digest_frequency", "86400001"),
    ] {
        let form = options(&[(field, value)]);
        let action = format!("<options node='b' jid='{own}'>{form}</options>");
        assert_eq!(
            expect_refusal(&mut scene.hamlet, "set", PUBSUB, &action),
            "modify bad-request invalid-options",
            "{value}"
        );
        let action = format!("{}<options>{form}</options>", sub("a", &own));
        assert_eq!(
            expect_refusal(&mut scene.hamlet, "set", PUBSUB, &action),
            "modify bad-request invalid-options",
            "{value}"
        );
    }
    assert_eq!(scene.open(), ["b"]);
    let answer =
        scene.hamlet.ask(&format!("<iq type='get' id='v' to='{SERVICE}'><query xmlns='jabber:iq:version'/></iq>"));
    assert_eq!(words(&answer), "cancel service-unavailable");
    let answer = scene
        .hamlet
        .ask(&format!("<iq type='get' id='v' to='{SERVICE}/alarms'><query xmlns='jabber:iq:version'/></iq>"));
    assert_eq!(words(&answer), "cancel service-unavailable");
}

/// A reading that comes in for a node which was closed meanwhile goes to nobody.
#[test]
fn late_readings_are_dropped() {
    let mut scene = DataScene::new();
    subscribe(&mut scene.hamlet, "a");
    let (topic, shard) = scene.outside.open.lock().expect("no test panics here")[0].clone();
    unsubscribe(&mut scene.hamlet, "a");
    let payload = Element::new("reading", "urn:example:outside");
    scene.server.run_at(shard, move |world| deliver(world, vec![(topic, Reading { payload, unix_ms: 0 })]));
    scene.hamlet.expect_nothing();
    assert!(scene.open().is_empty());
}
