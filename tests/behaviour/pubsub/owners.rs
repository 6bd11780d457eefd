//! Rights of owners: the configuration, approving and managing subscriptions, and affiliations.

use super::*;

const AUTHORIZATION: &str = "http://jabber.org/protocol/pubsub#subscribe_authorization";

/// Returns the value of a field in the form of a reply.
fn value(answer: &Element, var: &str) -> Option<String> {
    let forms = answer.children().flat_map(Element::children).flat_map(Element::children);
    let fields = forms.flat_map(Element::children);
    fields.filter(|field| field.attr("var") == Some(var)).find_map(|field| field.child_text("value", "jabber:x:data"))
}

/// §8.2, §8.3.
#[test]
fn nodes_are_configured() {
    let mut scene = PubsubScene::new();
    let hamlet = &mut scene.hamlet;
    let own = hamlet.bare().to_owned();
    let defaults = ask(hamlet, SERVICE, "get", OWNER, "<default/>");
    assert_eq!(value(&defaults, "pubsub#access_model").as_deref(), Some("open"));
    let wanted = form(&[
        ("title", "Princely Musings"),
        ("notify_config", "1"),
        ("max_items", "2"),
        ("access_model", "presence"),
    ]);
    set(hamlet, SERVICE, &format!("<create node='n'/><configure>{wanted}</configure>"));
    set(hamlet, SERVICE, &format!("<subscribe node='n' jid='{own}'/>"));
    let found = ask(hamlet, SERVICE, "get", OWNER, "<configure node='n'/>");
    for (var, expected) in
        [("title", "Princely Musings"), ("max_items", "2"), ("access_model", "presence"), ("persist_items", "1")]
    {
        assert_eq!(value(&found, &format!("pubsub#{var}")).as_deref(), Some(expected), "{var}");
    }
    for id in ["a", "b", "c"] {
        set(hamlet, SERVICE, &publish("n", id));
        hamlet.expect(&notification(SERVICE, "n", id));
    }
    assert_eq!(ids(&get(hamlet, SERVICE, "<items node='n'/>")), ["b", "c"]);
    owner_set(
        hamlet,
        SERVICE,
        &format!("<configure node='n'>{}</configure>", form(&[("max_items", "1"), ("deliver_payloads", "0")])),
    );
    hamlet.expect(&format!(
        "<message from='{SERVICE}' type='headline' id='*'><event xmlns='{EVENT}'><configuration node='n'/></event></message>"
    ));
    assert_eq!(ids(&get(hamlet, SERVICE, "<items node='n'/>")), ["c"]);
    set(hamlet, SERVICE, &publish("n", "d"));
    hamlet.expect(&format!(
        "<message from='{SERVICE}' type='headline' id='*'><event xmlns='{EVENT}'>\
         <items node='n'><item id='d'/></items></event></message>"
    ));
    owner_set(hamlet, SERVICE, "<configure node='n'><x xmlns='jabber:x:data' type='cancel'/></configure>");
    let many: String = (0..300).map(|number| format!("<field var='f{number}'><value>1</value></field>")).collect();
    for (wrong, expected) in [
        (String::new(), "modify bad-request"),
        (form(&[("access_model", "odd")]), "modify not-acceptable unsupported-access-model"),
        (form(&[("max_items", "0x7")]), "modify not-acceptable"),
        (form(&[("max_items", "10001")]), "modify not-acceptable"),
        (form(&[("max_payload_size", "999999999")]), "modify not-acceptable"),
        (format!("<x xmlns='jabber:x:data' type='submit'>{many}</x>"), "modify not-acceptable"),
    ] {
        let set = format!("<configure node='n'>{wrong}</configure>");
        assert_eq!(expect_refusal(hamlet, SERVICE, "set", OWNER, &set), expected, "{}", &wrong[..wrong.len().min(200)]);
    }
}

/// §7.1.3.6: the four kinds of nodes.
#[test]
fn the_configuration_decides_what_events_contain() {
    let mut scene = PubsubScene::new();
    let hamlet = &mut scene.hamlet;
    let own = hamlet.bare().to_owned();
    let (none, id) = ("<publish node='n'/>", "<publish node='n'><item id='i'/></publish>");
    let full = publish("n", "i");
    let required = |name: &str| format!("modify bad-request {name}");
    let event = |content: &str| {
        format!(
            "<message from='{SERVICE}' type='headline' id='*'><event xmlns='{EVENT}'><items node='n'>{content}</items></event></message>"
        )
    };
    let with = format!("<item id='i'>{}</item>", entry("i"));
    for (persist, payloads, expected) in [
        ("1", "1", [Err(required("item-required")), Err(required("payload-required")), Ok(event(&with))]),
        ("1", "0", [Err(required("item-required")), Ok(event("<item id='i'/>")), Ok(event("<item id='i'/>"))]),
        ("0", "1", [Err(required("payload-required")), Err(required("payload-required")), Ok(event(&with))]),
        ("0", "0", [Ok(event("")), Err(required("item-forbidden")), Err(required("item-forbidden"))]),
    ] {
        let wanted = form(&[("persist_items", persist), ("deliver_payloads", payloads)]);
        set(hamlet, SERVICE, &format!("<create node='n'/><configure>{wanted}</configure>"));
        set(hamlet, SERVICE, &format!("<subscribe node='n' jid='{own}'/>"));
        for (publication, expected) in [none, id, &full].into_iter().zip(expected) {
            let answer = ask(hamlet, SERVICE, "set", PUBSUB, publication);
            match expected {
                Ok(event) => {
                    is_result(answer);
                    hamlet.expect(&event);
                }
                Err(expected) => assert_eq!(error(&answer), expected, "{persist} {payloads} {publication}"),
            }
        }
        if persist == "0" {
            let unsupported = "cancel feature-not-implemented unsupported";
            assert_eq!(expect_refusal(hamlet, SERVICE, "get", PUBSUB, "<items node='n'/>"), unsupported);
            assert_eq!(expect_refusal(hamlet, SERVICE, "set", OWNER, "<purge node='n'/>"), unsupported);
        }
        owner_set(hamlet, SERVICE, "<delete node='n'/>");
        hamlet.all();
    }
}

/// §8.6: an owner approves or denies a subscription.
#[test]
fn subscriptions_are_approved() {
    let mut scene = PubsubScene::new();
    let who = scene.francisco.bare().to_owned();
    let wanted = form(&[("access_model", "authorize")]);
    set(&mut scene.hamlet, SERVICE, &format!("<create node='n'/><configure>{wanted}</configure>"));
    set(&mut scene.hamlet, SERVICE, &publish("n", "i"));
    let subscribe = format!("<subscribe node='n' jid='{who}'/>");
    let state = |answer: &Element| {
        let found = answer.children().flat_map(Element::children).next().expect("a subscription");
        found.attr("subscription").expect("a state").to_owned()
    };
    let told = |state: &str| {
        format!(
            "<message from='{SERVICE}' id='*'><event xmlns='{EVENT}'>\
             <subscription node='n' jid='{who}' subscription='{state}'/></event><no-store xmlns='urn:xmpp:hints'/></message>"
        )
    };
    for (allow, expected) in [("0", "none"), ("1", "subscribed")] {
        assert_eq!(state(&set(&mut scene.francisco, SERVICE, &subscribe)), "pending");
        let asked = scene.hamlet.expect_element();
        let form = asked.child("x", "jabber:x:data").expect("a form");
        assert_eq!(form.attr("type"), Some("form"));
        let again = expect_refusal(&mut scene.francisco, SERVICE, "set", PUBSUB, &subscribe);
        assert_eq!(again, "auth not-authorized pending-subscription");
        let items = expect_refusal(&mut scene.francisco, SERVICE, "get", PUBSUB, "<items node='n'/>");
        assert_eq!(items, "auth not-authorized not-subscribed");
        let decision = form_of(AUTHORIZATION, &[("node", "n"), ("subscriber_jid", &who), ("allow", allow)]);
        // Only an owner's decision counts.
        scene.francisco.send(&format!("<message to='{SERVICE}' id='f'>{decision}</message>"));
        scene.francisco.expect_nothing();
        scene.hamlet.send(&format!("<message to='{SERVICE}' id='f'>{decision}</message>"));
        scene.francisco.expect(&told(expected));
    }
    assert_eq!(ids(&get(&mut scene.francisco, SERVICE, "<items node='n'/>")), ["i"]);
    set(&mut scene.hamlet, SERVICE, &publish("n", "j"));
    scene.francisco.expect(&notification(SERVICE, "n", "j"));
}

/// §8.8, §6.3, §5.6.
#[test]
fn subscriptions_are_managed() {
    let mut scene = PubsubScene::new();
    rookery_testkit::befriend(&mut scene.hamlet, &mut scene.francisco);
    let who = scene.francisco.bare().to_owned();
    set(&mut scene.hamlet, SERVICE, "<create node='n'/>");
    let change = |jid: &str, state: &str| {
        format!("<subscriptions node='n'><subscription jid='{jid}' subscription='{state}'/></subscriptions>")
    };
    owner_set(&mut scene.hamlet, SERVICE, &change(&who, "subscribed"));
    scene.francisco.all();
    let list = xml(&is_result(ask(&mut scene.hamlet, SERVICE, "get", OWNER, "<subscriptions node='n'/>")));
    assert!(list.contains(&format!("<subscription jid='{who}' subscription='subscribed'/>")), "{list}");
    let own = xml(&get(&mut scene.francisco, SERVICE, "<subscriptions/>"));
    assert!(own.contains(&format!("<subscription node='n' jid='{who}' subscription='subscribed'/>")), "{own}");

    // The options of a subscription.
    let quiet = form_of("http://jabber.org/protocol/pubsub#subscribe_options", &[("deliver", "0")]);
    set(&mut scene.francisco, SERVICE, &format!("<options node='n' jid='{who}'>{quiet}</options>"));
    set(&mut scene.hamlet, SERVICE, &publish("n", "a"));
    scene.francisco.expect_nothing();
    let found = get(&mut scene.francisco, SERVICE, &format!("<options node='n' jid='{who}'/>"));
    assert_eq!(value(&found, "pubsub#deliver").as_deref(), Some("0"));
    let wrong = format!("<options node='n' jid='{who}'>{}</options>", quiet.replace(">0<", ">perhaps<"));
    assert_eq!(
        expect_refusal(&mut scene.francisco, SERVICE, "set", PUBSUB, &wrong),
        "modify bad-request invalid-options"
    );

    let answer = ask(&mut scene.hamlet, SERVICE, "set", OWNER, &change(&who, "odd"));
    assert_eq!(error(&answer), "modify not-acceptable");
    assert!(
        xml(&answer).contains(&format!("<subscription jid='{who}' subscription='subscribed'/>")),
        "{}",
        xml(&answer)
    );
    owner_set(&mut scene.hamlet, SERVICE, &change(&who, "none"));
    let list = xml(&is_result(ask(&mut scene.hamlet, SERVICE, "get", OWNER, "<subscriptions node='n'/>")));
    assert!(!list.contains(&who), "{list}");
}

/// §8.9, §4.1.
#[test]
fn affiliations_are_managed() {
    let mut scene = PubsubScene::new();
    let (owner, who) = (scene.hamlet.bare().to_owned(), scene.francisco.bare().to_owned());
    let closed = form(&[("access_model", "whitelist")]);
    set(&mut scene.hamlet, SERVICE, &format!("<create node='n'/><configure>{closed}</configure>"));
    set(&mut scene.hamlet, SERVICE, &publish("n", "theirs"));
    let change = |jid: &str, affiliation: &str| {
        format!("<affiliations node='n'><affiliation jid='{jid}' affiliation='{affiliation}'/></affiliations>")
    };
    let (forbidden, fine) = ("auth forbidden", "");
    let subscribe = format!("<subscribe node='n' jid='{who}'/>");
    for (affiliation, [subscribes, retrieves, publishes, removes, configures]) in [
        ("none", ["cancel not-allowed closed-node", "cancel not-allowed closed-node", forbidden, forbidden, forbidden]),
        ("member", [fine, fine, forbidden, forbidden, forbidden]),
        ("publish-only", [forbidden, forbidden, fine, forbidden, forbidden]),
        ("publisher", [fine, fine, fine, fine, forbidden]),
        ("outcast", [forbidden; 5]),
        ("owner", [fine; 5]),
    ] {
        set(&mut scene.hamlet, SERVICE, &publish("n", "theirs"));
        owner_set(&mut scene.hamlet, SERVICE, &change(&who, affiliation));
        scene.francisco.all();
        for (type_, ns, action, expected) in [
            ("set", PUBSUB, subscribe.as_str(), subscribes),
            ("get", PUBSUB, "<items node='n'/>", retrieves),
            ("set", PUBSUB, &publish("n", "own"), publishes),
            ("set", PUBSUB, "<retract node='n'><item id='theirs'/></retract>", removes),
            ("get", OWNER, "<configure node='n'/>", configures),
        ] {
            scene
                .francisco
                .send(&format!("<iq type='{type_}' id='q' to='{SERVICE}'><pubsub xmlns='{ns}'>{action}</pubsub></iq>"));
            let all = scene.francisco.all();
            let answer = all.iter().find(|element| element.name() == "iq").expect("an answer");
            let found = if answer.attr("type") == Some("error") { error(answer) } else { String::new() };
            assert_eq!(found, expected, "{affiliation}: {action}");
        }
    }
    let list = xml(&is_result(ask(&mut scene.hamlet, SERVICE, "get", OWNER, "<affiliations node='n'/>")));
    assert!(list.contains(&format!("<affiliation jid='{who}' affiliation='owner'/>")), "{list}");
    let own = xml(&get(&mut scene.francisco, SERVICE, "<affiliations/>"));
    assert!(own.contains("<affiliation node='n' affiliation='owner'/>"), "{own}");
    // One of two owners can be removed, but not the last one.
    owner_set(&mut scene.francisco, SERVICE, &change(&owner, "none"));
    let answer = ask(&mut scene.francisco, SERVICE, "set", OWNER, &change(&who, "member"));
    assert_eq!(error(&answer), "modify not-acceptable");
    assert!(xml(&answer).contains(&format!("<affiliation jid='{who}' affiliation='owner'/>")), "{}", xml(&answer));
    let odd = expect_refusal(&mut scene.francisco, SERVICE, "set", OWNER, &change(&who, "king"));
    assert_eq!(odd, "cancel feature-not-implemented unsupported");
}

/// §8.2: a user that a node is closed to gets no more notifications from it.
#[test]
fn a_node_that_is_closed_is_silent() {
    let mut scene = PubsubScene::new();
    let who = scene.francisco.bare().to_owned();
    set(&mut scene.hamlet, SERVICE, "<create node='n'/>");
    set(&mut scene.francisco, SERVICE, &format!("<subscribe node='n' jid='{who}'/>"));
    let closed = form(&[("access_model", "whitelist")]);
    owner_set(&mut scene.hamlet, SERVICE, &format!("<configure node='n'>{closed}</configure>"));
    set(&mut scene.hamlet, SERVICE, &publish("n", "a"));
    scene.francisco.expect_nothing();
    let member = format!("<affiliations node='n'><affiliation jid='{who}' affiliation='member'/></affiliations>");
    owner_set(&mut scene.hamlet, SERVICE, &member);
    set(&mut scene.hamlet, SERVICE, &publish("n", "b"));
    scene.francisco.expect(&notification(SERVICE, "n", "b"));
}

/// §8.7: an owner lists the pending requests by a command.
#[test]
fn waiting_requests_are_asked_for() {
    let mut scene = PubsubScene::new();
    let configure = "<create node='n'/><configure><x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>\
         <value>http://jabber.org/protocol/pubsub#node_config</value></field>\
         <field var='pubsub#access_model'><value>authorize</value></field></x></configure>";
    set(&mut scene.hamlet, SERVICE, configure);
    let francisco = scene.francisco.bare().to_owned();
    set(&mut scene.francisco, SERVICE, &format!("<subscribe node='n' jid='{francisco}'/>"));
    scene.hamlet.all();
    let command = |content: &str| {
        let node = "http://jabber.org/protocol/pubsub#get-pending";
        format!(
            "<iq type='set' id='q' to='{SERVICE}'><command xmlns='http://jabber.org/protocol/commands' node='{node}'>{content}</command></iq>"
        )
    };
    let chosen = |node: &str| {
        let field = format!("<field var='pubsub#node'><value>{node}</value></field>");
        command(&format!("<x xmlns='jabber:x:data' type='submit'>{field}</x>"))
    };
    let nodes = xml(&scene.hamlet.ask(&command("")));
    assert!(nodes.contains("status='executing'") && nodes.contains("<value>n</value>"), "{nodes}");
    let done = xml(&scene.hamlet.ask(&chosen("n")));
    assert!(done.contains("status='completed'"), "{done}");
    let request = xml(&scene.hamlet.expect_element());
    assert!(request.contains(&francisco) && request.contains("pubsub#allow"), "{request}");
    assert_eq!(error(&scene.hamlet.ask(&chosen("nothing"))), "cancel item-not-found");
    for forbidden in [command(""), chosen("n")] {
        assert_eq!(error(&scene.francisco.ask(&forbidden)), "auth forbidden");
    }
    let no_node = command("<x xmlns='jabber:x:data' type='submit'/>");
    assert_eq!(error(&scene.hamlet.ask(&no_node)), "modify bad-request");
}

/// §6.1.6: an address has only one subscription to a node. Subscription ids that it sends are
/// ignored (§6.2.3.5).
#[test]
fn an_address_has_one_subscription() {
    let PubsubScene { mut hamlet, mut francisco, .. } = PubsubScene::new();
    set(&mut hamlet, SERVICE, "<create node='n'/>");
    let who = francisco.bare().to_owned();
    let subscribe = format!("<subscribe node='n' jid='{who}'/>");
    let first = xml(&set(&mut francisco, SERVICE, &subscribe));
    assert!(first.contains("subscription='subscribed'") && !first.contains("subid"), "{first}");
    let deliver = form_of("http://jabber.org/protocol/pubsub#subscribe_options", &[("deliver", "0")]);
    set(&mut francisco, SERVICE, &format!("<options node='n' jid='{who}' subid='made-up'>{deliver}</options>"));
    let second = xml(&set(&mut francisco, SERVICE, &format!("<subscribe node='n' jid='{who}' subid='other'/>")));
    assert_eq!(second, first, "the same as before");
    let list = get(&mut francisco, SERVICE, "<subscriptions/>");
    assert_eq!(xml(&list).matches("<subscription ").count(), 1);
    set(&mut hamlet, SERVICE, &publish("n", "quiet"));
    francisco.expect_nothing();
    // An option that subscriptions don't have is ignored, and a value that is invalid for an option
    // is refused.
    let odd = form_of("http://jabber.org/protocol/pubsub#subscribe_options", &[("digest", "1"), ("deliver", "maybe")]);
    let odd = format!("<options node='n' jid='{who}'>{odd}</options>");
    assert_eq!(expect_refusal(&mut francisco, SERVICE, "set", PUBSUB, &odd), "modify bad-request invalid-options");
    let shown = xml(&get(&mut francisco, SERVICE, &format!("<options node='n' jid='{who}'/>")));
    assert!(shown.contains("pubsub#deliver") && !shown.contains("digest"), "{shown}");
    set(&mut francisco, SERVICE, &format!("<unsubscribe node='n' jid='{who}' subid='made-up'/>"));
    let gone = format!("<unsubscribe node='n' jid='{who}'/>");
    assert_eq!(
        expect_refusal(&mut francisco, SERVICE, "set", PUBSUB, &gone),
        "cancel unexpected-request not-subscribed"
    );
}
