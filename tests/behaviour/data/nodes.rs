//! The way of a reading: subscribe, notify, retrieve, unsubscribe, discover.

use super::*;

/// §6.1, §7.1.2, §6.2: a node is open while somebody is subscribed, wherever it is at home.
#[test]
fn who_subscribes_gets_readings() {
    let mut scene = DataScene::new();
    for node in ["a", "b", "c", "d"] {
        let answer = subscribe(&mut scene.hamlet, node);
        let subscription = answer.children().flat_map(Element::children).next().expect("a subscription");
        assert_eq!(subscription.attr("node"), Some(node));
        assert_eq!(subscription.attr("jid"), Some(scene.hamlet.bare()));
        assert_eq!(subscription.attr("subscription"), Some("subscribed"));
        assert_eq!(scene.open(), [node]);
        scene.read(node, "1");
        scene.hamlet.expect(&notification(node, "1", ""));
        scene.francisco.expect_nothing();
        unsubscribe(&mut scene.hamlet, node);
        assert!(scene.open().is_empty());
    }
}

/// One job for all subscribers: it begins with the first and ends with the last.
#[test]
fn a_node_is_opened_once_for_all() {
    let mut scene = DataScene::new();
    subscribe(&mut scene.hamlet, "a");
    subscribe(&mut scene.francisco, "a");
    assert_eq!(scene.open(), ["a"]);
    scene.read("a", "1");
    for client in [&mut scene.hamlet, &mut scene.francisco] {
        client.expect(&notification("a", "1", ""));
        client.expect_nothing();
    }
    unsubscribe(&mut scene.hamlet, "a");
    assert_eq!(scene.open(), ["a"]);
    scene.server.advance(1000);
    scene.read("a", "2");
    scene.francisco.expect(&notification("a", "2", ""));
    scene.hamlet.expect_nothing();
    unsubscribe(&mut scene.francisco, "a");
    assert!(scene.open().is_empty());
}

/// §6.1.7, §6.5: who comes later gets what was read last, and may ask for it.
#[test]
fn the_last_reading_is_kept() {
    let mut scene = DataScene::new();
    let items = succeed(&mut scene.francisco, "get", "<items node='a'/>");
    assert!(!xml(&items).contains("<item "), "{}", xml(&items));
    subscribe(&mut scene.hamlet, "a");
    scene.read("a", "1");
    scene.hamlet.expect(&notification("a", "1", ""));
    let items = succeed(&mut scene.francisco, "get", "<items node='a'/>");
    assert!(xml(&items).contains(">1</reading>"), "{}", xml(&items));
    let delay = format!("<delay xmlns='urn:xmpp:delay' from='{SERVICE}' stamp='1970-01-01T00:00:00Z'/>");
    subscribe(&mut scene.francisco, "a");
    scene.francisco.expect(&notification("a", "1", &delay));
    // To subscribe again is no error, and brings nothing new.
    subscribe(&mut scene.francisco, "a");
    scene.francisco.expect_nothing();
    scene.hamlet.expect_nothing();
}

/// §5.6: subscribers learn of their own subscriptions, which outlive a restart.
#[test]
fn subscriptions_survive_a_restart() {
    let mut scene = DataScene::new();
    for node in ["a", "b", "c", "d", "e"] {
        subscribe(&mut scene.hamlet, node);
    }
    unsubscribe(&mut scene.hamlet, "d");
    // One of a session is over with it.
    let full = scene.hamlet.full().to_owned();
    succeed(&mut scene.hamlet, "set", &format!("<subscribe node='f' jid='{full}'/>"));
    assert_eq!(scene.open(), ["a", "b", "c", "e", "f"]);
    scene.outside.open.lock().expect("no test panics here").clear();
    scene.server.restart();
    scene.server.settle();
    assert_eq!(scene.open(), ["a", "b", "c", "e"]);
    let name = scene.hamlet.full().to_owned();
    let (user, _) = name.split_once('@').expect("an address");
    let mut hamlet = scene.server.online(&format!("{user}/r"));
    let list = succeed(&mut hamlet, "get", "<subscriptions/>");
    let nodes: Vec<_> = list
        .children()
        .flat_map(Element::children)
        .flat_map(Element::children)
        .filter_map(|it| it.attr("node"))
        .collect();
    assert_eq!(nodes, ["a", "b", "c", "e"]);
    for node in ["a", "b", "c", "e"] {
        scene.read(node, "1");
        hamlet.expect(&notification(node, "1", ""));
    }
}

/// A subscription of a full JID ends with its session.
#[test]
fn a_session_takes_its_subscriptions_with_it() {
    let mut scene = DataScene::new();
    for node in ["a", "b", "c", "d"] {
        let full = scene.francisco.full().to_owned();
        succeed(&mut scene.francisco, "set", &format!("<subscribe node='{node}' jid='{full}'/>"));
    }
    assert_eq!(scene.open().len(), 4);
    scene.francisco.close();
    scene.server.settle();
    assert!(scene.open().is_empty());
}

/// An account that is removed is subscribed to nothing.
#[test]
fn an_account_takes_its_subscriptions_with_it() {
    let mut scene = DataScene::new();
    for node in ["a", "b", "c", "d"] {
        subscribe(&mut scene.francisco, node);
    }
    let account = scene.server.address(scene.francisco.bare());
    let home = scene.server.home_of(scene.francisco.bare());
    scene.server.run_at(home, move |world| world.remove_account(account, |_, removed| assert_eq!(removed, Ok(true))));
    assert!(scene.open().is_empty());
}

/// §5.1 to §5.5.
#[test]
fn service_and_nodes_are_discovered() {
    let mut scene = DataScene::new();
    let client = &mut scene.hamlet;
    let mut disco = |what: &str, to: &str, rest: &str| {
        let answer = client.ask(&format!(
            "<iq type='get' id='d' to='{to}'><query xmlns='http://jabber.org/protocol/disco#{what}' {rest}</query></iq>"
        ));
        xml(&answer)
    };
    let items = disco("items", "example.org", ">");
    assert!(items.contains("jid='data.example.org' name='Outside'"), "{items}");
    let info = disco("info", SERVICE, ">");
    assert!(info.contains("category='pubsub' type='service'") && info.contains("pubsub#subscribe'"), "{info}");
    let nodes = disco("items", SERVICE, ">");
    assert!(nodes.contains("node='a' name='Node a'") && nodes.contains("node='z'"), "{nodes}");
    let page =
        disco("items", SERVICE, "><set xmlns='http://jabber.org/protocol/rsm'><max>2</max><after>c</after></set>");
    assert!(page.contains("node='d'") && page.contains("node='e'") && !page.contains("node='f'"), "{page}");
    assert!(page.contains("<count>26</count>"), "{page}");
    for node in ["a", "b"] {
        let info = disco("info", SERVICE, &format!("node='{node}'>"));
        assert!(info.contains("category='pubsub' type='leaf'"), "{info}");
        for value in [format!("Node {node}"), "something outside".into(), "urn:example:outside".into(), "blip".into()] {
            assert!(info.contains(&format!("<value>{value}</value>")), "{info}");
        }
        let nothing = disco("items", SERVICE, &format!("node='{node}'>"));
        assert!(!nothing.contains("<item "), "{nothing}");
    }
    let unknown = disco("info", SERVICE, "node='nobody'>");
    assert!(unknown.contains("<item-not-found"), "{unknown}");
}
