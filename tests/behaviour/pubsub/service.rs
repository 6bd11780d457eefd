//! The service: creating, publishing, subscribing, notifying, retrieving and removing.

use super::*;

/// §8.1, §6.1, §7.1.2: the way of an item, with the node on either shard.
#[test]
fn subscribers_are_notified() {
    let mut scene = PubsubScene::new();
    for node in ["princely_musings", "a", "b", "c"] {
        let subscriber = scene.francisco.bare().to_owned();
        scene.hamlet.send(&format!(
            "<iq type='set' to='{SERVICE}' id='create1'><pubsub xmlns='{PUBSUB}'><create node='{node}'/></pubsub></iq>"
        ));
        scene.hamlet.expect(&format!(
            "<iq type='result' from='{SERVICE}' id='create1'><pubsub xmlns='{PUBSUB}'><create node='{node}'/></pubsub></iq>"
        ));
        scene.francisco.send(&format!(
            "<iq type='set' to='{SERVICE}' id='sub1'><pubsub xmlns='{PUBSUB}'>\
             <subscribe node='{node}' jid='{subscriber}'/></pubsub></iq>"
        ));
        scene.francisco.expect(&format!(
            "<iq type='result' from='{SERVICE}' id='sub1'><pubsub xmlns='{PUBSUB}'>\
             <subscription node='{node}' jid='{subscriber}' subscription='subscribed'/></pubsub></iq>"
        ));
        let done = set(&mut scene.hamlet, SERVICE, &publish(node, "ae890ac52d0df67ed7cfdf51b644e901"));
        assert_eq!(published_id(&done), "ae890ac52d0df67ed7cfdf51b644e901");
        scene.francisco.expect(&notification(SERVICE, node, "ae890ac52d0df67ed7cfdf51b644e901"));
        scene.hamlet.expect_nothing();
        let found = get(&mut scene.francisco, SERVICE, &format!("<items node='{node}'/>"));
        assert_eq!(ids(&found), ["ae890ac52d0df67ed7cfdf51b644e901"]);

        set(&mut scene.francisco, SERVICE, &format!("<unsubscribe node='{node}' jid='{subscriber}'/>"));
        set(&mut scene.hamlet, SERVICE, &publish(node, "second"));
        scene.francisco.expect_nothing();
    }
}

/// §7.1.2: an item without an id gets one.
#[test]
fn the_service_names_items_and_nodes() {
    let mut scene = PubsubScene::new();
    let created = set(&mut scene.hamlet, SERVICE, "<create/>");
    let node = created.children().flat_map(Element::children).find_map(|create| create.attr("node")).expect("a node");
    let item = format!("<publish node='{node}'><item>{}</item></publish>", entry("x"));
    let done = set(&mut scene.hamlet, SERVICE, &item);
    let id = published_id(&done);
    assert_eq!(ids(&get(&mut scene.hamlet, SERVICE, &format!("<items node='{node}'/>"))), [id]);
}

/// §6.1.3, §6.2.3, §6.5.9, §7.1.3, §7.2.3: the errors of requests that any user may try.
#[test]
fn what_is_wrong_is_named() {
    let mut scene = PubsubScene::new();
    let own = scene.francisco.bare().to_owned();
    set(&mut scene.hamlet, SERVICE, "<create node='n'/>");
    set(&mut scene.hamlet, SERVICE, &publish("n", "i"));
    let large = "x".repeat(140_000);
    let sub = |node: &str, jid: &str| format!("<subscribe node='{node}' jid='{jid}'/>");
    for (type_, ns, action, expected) in [
        ("set", PUBSUB, "<create node='n'/>".to_owned(), "cancel conflict"),
        ("set", PUBSUB, sub("nothing", &own), "cancel item-not-found"),
        ("set", PUBSUB, sub("n", "other@example.org"), "modify bad-request invalid-jid"),
        ("set", PUBSUB, sub("n", "@"), "modify bad-request invalid-jid"),
        ("set", PUBSUB, format!("<subscribe jid='{own}'/>"), "modify bad-request nodeid-required"),
        ("set", PUBSUB, format!("<unsubscribe node='n' jid='{own}'/>"), "cancel unexpected-request not-subscribed"),
        ("set", PUBSUB, "<unsubscribe node='n' jid='other@example.org'/>".to_owned(), "auth forbidden"),
        ("get", PUBSUB, format!("<options node='n' jid='{own}'/>"), "modify unexpected-request not-subscribed"),
        ("get", PUBSUB, "<options node='n'/>".to_owned(), "modify bad-request jid-required"),
        ("get", PUBSUB, "<items node='nothing'/>".to_owned(), "cancel item-not-found"),
        ("get", PUBSUB, "<items/>".to_owned(), "modify bad-request nodeid-required"),
        ("get", PUBSUB, "<items node='n' max_items='-1'/>".to_owned(), "modify bad-request"),
        ("set", PUBSUB, publish("n", "j"), "auth forbidden"),
        ("set", PUBSUB, "<retract node='n'><item id='i'/></retract>".to_owned(), "auth forbidden"),
        ("set", PUBSUB, "<retract><item id='i'/></retract>".to_owned(), "modify bad-request nodeid-required"),
        ("set", PUBSUB, "<retract node='n'/>".to_owned(), "modify bad-request item-required"),
        ("set", PUBSUB, "<retract node='n'><item/></retract>".to_owned(), "modify bad-request item-required"),
        ("set", PUBSUB, "<retract node='nothing'><item id='i'/></retract>".to_owned(), "cancel item-not-found"),
        ("set", PUBSUB, "<juggle/>".to_owned(), "modify bad-request"),
        ("set", PUBSUB, String::new(), "modify bad-request"),
        ("get", OWNER, "<configure node='n'/>".to_owned(), "auth forbidden"),
        ("get", OWNER, "<configure/>".to_owned(), "modify bad-request nodeid-required"),
        ("get", OWNER, "<configure node='nothing'/>".to_owned(), "cancel item-not-found"),
        ("set", OWNER, "<delete node='n'/>".to_owned(), "auth forbidden"),
        ("set", OWNER, "<purge node='n'/>".to_owned(), "auth forbidden"),
        ("get", OWNER, "<subscriptions node='n'/>".to_owned(), "auth forbidden"),
        ("get", OWNER, "<affiliations node='n'/>".to_owned(), "auth forbidden"),
    ] {
        assert_eq!(expect_refusal(&mut scene.francisco, SERVICE, type_, ns, &action), expected, "{action}");
    }
    for (action, expected) in [
        ("<publish node='n'/>".to_owned(), "modify bad-request item-required"),
        ("<publish node='n'><item id='j'/></publish>".to_owned(), "modify bad-request payload-required"),
        ("<publish node='n'><item><a/><b/></item></publish>".to_owned(), "modify bad-request invalid-payload"),
        ("<publish node='n'><item><a/></item><item><b/></item></publish>".to_owned(), "modify bad-request"),
        (publish("n", &"x".repeat(1024)), "modify not-acceptable"),
        (
            format!("<publish node='n'><item>{}</item></publish>", entry(&large)),
            "modify not-acceptable payload-too-big",
        ),
        (publish("", "j"), "modify bad-request nodeid-required"),
        (publish(&"x".repeat(1024), "j"), "modify not-acceptable"),
        ("<retract node='n'><item id='nothing'/></retract>".to_owned(), "cancel item-not-found"),
    ] {
        let found = expect_refusal(&mut scene.hamlet, SERVICE, "set", PUBSUB, &action);
        assert_eq!(found, expected, "{}", &action[..action.len().min(100)]);
    }
    assert_eq!(ids(&get(&mut scene.francisco, SERVICE, "<items node='n'/>")), ["i"]);
}

/// §6.5: retrieving all items, the most recent ones, items by id, and page by page.
#[test]
fn items_are_retrieved() {
    let mut scene = PubsubScene::new();
    set(&mut scene.hamlet, SERVICE, "<create node='n'/>");
    for id in ["a", "b", "c", "d"] {
        set(&mut scene.hamlet, SERVICE, &publish("n", id));
    }
    let mut found = |items: &str, set: &str| {
        let set = if set.is_empty() {
            String::new()
        } else {
            format!("<set xmlns='http://jabber.org/protocol/rsm'>{set}</set>")
        };
        get(&mut scene.francisco, SERVICE, &format!("{items}{set}"))
    };
    assert_eq!(ids(&found("<items node='n'/>", "")), ["a", "b", "c", "d"]);
    assert_eq!(ids(&found("<items node='n' max_items='2'/>", "")), ["c", "d"]);
    assert_eq!(ids(&found("<items node='n' max_items='99999999999999999999999'/>", "")), ["a", "b", "c", "d"]);
    assert_eq!(ids(&found("<items node='n'><item id='c'/><item id='x'/></items>", "")), ["c"]);
    assert_eq!(ids(&found("<items node='n'/>", "<max>2</max><after>b</after>")), ["c", "d"]);
    assert_eq!(ids(&found("<items node='n'/>", "<max>2</max><before/>")), ["c", "d"]);
    assert_eq!(ids(&found("<items node='n'/>", "<max>0</max>")), [""; 0]);
    let page = found("<items node='n'/>", "<max>1</max><index>1</index>");
    let pubsub = page.children().next().expect("pubsub");
    let set = pubsub.child("set", "http://jabber.org/protocol/rsm").expect("a page");
    assert_eq!(
        xml(set),
        "<set xmlns='http://jabber.org/protocol/rsm'><first index='1'>b</first><last>b</last><count>4</count></set>"
    );
    let lost = "<items node='n'/><set xmlns='http://jabber.org/protocol/rsm'><after>&apos; OR 1=1</after></set>";
    assert_eq!(expect_refusal(&mut scene.francisco, SERVICE, "get", PUBSUB, lost), "cancel item-not-found");
}

/// §7.2, §8.4, §8.5: removing items, purging and deleting nodes, and the notifications of that.
#[test]
fn removals_are_told() {
    let mut scene = PubsubScene::new();
    let own = scene.francisco.full().to_owned();
    set(&mut scene.hamlet, SERVICE, "<create node='n'/>");
    set(&mut scene.francisco, SERVICE, &format!("<subscribe node='n' jid='{own}'/>"));
    for id in ["a", "b", "c"] {
        set(&mut scene.hamlet, SERVICE, &publish("n", id));
        scene.francisco.expect(&notification(SERVICE, "n", id));
    }
    let event = |content: &str| {
        format!("<message from='{SERVICE}' type='headline' id='*'><event xmlns='{EVENT}'>{content}</event></message>")
    };
    set(&mut scene.hamlet, SERVICE, "<retract node='n' notify='true'><item id='a'/></retract>");
    scene.francisco.expect(&event("<items node='n'><retract id='a'/></items>"));
    assert_eq!(ids(&get(&mut scene.francisco, SERVICE, "<items node='n'/>")), ["b", "c"]);
    owner_set(&mut scene.hamlet, SERVICE, "<purge node='n'/>");
    scene.francisco.expect(&event("<purge node='n'/>"));
    assert_eq!(ids(&get(&mut scene.francisco, SERVICE, "<items node='n'/>")), [""; 0]);
    owner_set(&mut scene.hamlet, SERVICE, "<delete node='n'><redirect uri='xmpp:elsewhere'/></delete>");
    scene.francisco.expect(&event("<delete node='n'><redirect uri='xmpp:elsewhere'/></delete>"));
    assert_eq!(
        expect_refusal(&mut scene.francisco, SERVICE, "get", PUBSUB, "<items node='n'/>"),
        "cancel item-not-found"
    );
    assert_eq!(ids(&set(&mut scene.hamlet, SERVICE, "<create node='n'/>")), [""; 0]);
    set(&mut scene.hamlet, SERVICE, &publish("n", "new"));
    scene.francisco.expect_nothing();
}

/// §5.1 to §5.5.
#[test]
fn the_service_is_discovered_with_its_nodes() {
    let mut scene = PubsubScene::new();
    let title = form(&[("title", "A title"), ("access_model", "whitelist")]);
    set(&mut scene.hamlet, SERVICE, &format!("<create node='secret'/><configure>{title}</configure>"));
    set(&mut scene.hamlet, SERVICE, "<create node='open'/>");
    set(&mut scene.hamlet, SERVICE, &publish("open", "i"));
    let info = scene.francisco.ask(&format!(
        "<iq type='get' to='{SERVICE}' id='i'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>"
    ));
    let query = info.children().next().expect("query");
    let identity = query.children().next().expect("an identity");
    assert_eq!((identity.attr("category"), identity.attr("type")), (Some("pubsub"), Some("service")));
    let features: Vec<_> = query.children().filter_map(|child| child.attr("var")).collect();
    assert!(features.contains(&PUBSUB) && features.contains(&"http://jabber.org/protocol/pubsub#rsm"));
    assert!(features.is_sorted());

    let items = |client: &mut Client, node: &str| {
        let answer = client.ask(&format!(
            "<iq type='get' to='{SERVICE}' id='i'><query xmlns='http://jabber.org/protocol/disco#items'{node}/></iq>"
        ));
        if answer.attr("type") == Some("error") {
            return error(&answer);
        }
        let items = answer.children().flat_map(Element::children);
        let texts =
            items.map(|item| format!("{} {}", item.attr("node").unwrap_or("-"), item.attr("name").unwrap_or("-")));
        texts.collect::<Vec<_>>().join(", ")
    };
    assert_eq!(items(&mut scene.francisco, ""), "open -");
    assert_eq!(items(&mut scene.hamlet, ""), "open -, secret A title");
    assert_eq!(items(&mut scene.francisco, " node='open'"), "- i");
    assert_eq!(items(&mut scene.francisco, " node='secret'"), "cancel not-allowed closed-node");
    assert_eq!(items(&mut scene.francisco, " node='nothing'"), "cancel item-not-found");

    let node = |client: &mut Client, node: &str| {
        client.ask(&format!(
            "<iq type='get' to='{SERVICE}' id='i'><query xmlns='http://jabber.org/protocol/disco#info' node='{node}'/></iq>"
        ))
    };
    let answer = node(&mut scene.hamlet, "secret");
    let query = answer.children().next().expect("query");
    let identity = query.children().next().expect("an identity");
    assert_eq!((identity.attr("category"), identity.attr("type")), (Some("pubsub"), Some("leaf")));
    let form = query.child("x", "jabber:x:data").expect("meta-data");
    let owner = form.children().find(|field| field.attr("var") == Some("pubsub#owner")).expect("owners");
    assert_eq!(owner.child_text("value", "jabber:x:data").as_deref(), Some(scene.hamlet.bare()));
    assert_eq!(error(&node(&mut scene.francisco, "secret")), "cancel item-not-found");
}

/// The numbers of nodes, items and subscriptions are bounded, and the operator decides who may
/// create nodes.
#[test]
fn limits_hold() {
    use rookery_hub::Value;
    use rookery_testkit::Config;
    let options = vec![
        ("pubsub", "nodes", Value::Number(2)),
        ("pubsub", "items", Value::Number(3)),
        ("pubsub", "subscriptions", Value::Number(1)),
        ("pubsub", "create", Value::List(vec!["hamlet0@example.org".into(), "elsewhere.net".into()])),
    ];
    let server = Server::with(Config { options, ..Config::default() });
    let mut hamlet = server.online("hamlet0@example.org/r");
    let mut francisco = server.online("francisco@example.org/r");
    assert_eq!(expect_refusal(&mut francisco, SERVICE, "set", PUBSUB, "<create node='x'/>"), "auth forbidden");
    assert_eq!(expect_refusal(&mut francisco, SERVICE, "set", PUBSUB, &publish("x", "i")), "auth forbidden");
    set(&mut hamlet, SERVICE, "<create node='a'/>");
    set(&mut hamlet, SERVICE, &publish("b", "i"));
    assert_eq!(expect_refusal(&mut hamlet, SERVICE, "set", PUBSUB, "<create node='c'/>"), "modify policy-violation");
    for id in ["1", "2", "3", "4"] {
        set(&mut hamlet, SERVICE, &publish("a", id));
    }
    assert_eq!(ids(&get(&mut hamlet, SERVICE, "<items node='a'/>")), ["2", "3", "4"]);
    let too_many = format!("<configure node='a'>{}</configure>", form(&[("max_items", "4")]));
    assert_eq!(expect_refusal(&mut hamlet, SERVICE, "set", OWNER, &too_many), "modify not-acceptable");
    set(&mut hamlet, SERVICE, "<subscribe node='a' jid='hamlet0@example.org'/>");
    let one_more = "<subscribe node='a' jid='francisco@example.org'/>";
    assert_eq!(
        expect_refusal(&mut francisco, SERVICE, "set", PUBSUB, one_more),
        "wait policy-violation too-many-subscriptions"
    );
}

/// Returns the id in the reply to a publication.
fn published_id(answer: &Element) -> String {
    let item = answer.children().flat_map(Element::children).flat_map(Element::children).next().expect("an item");
    item.attr("id").expect("an id").to_owned()
}
