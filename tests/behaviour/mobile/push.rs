//! XEP-0357: push services are told of messages that nobody looks at. The service is another
//! server, or somebody's session here.

use rookery_hub::Value;
use rookery_testkit::{Client, Config, Server};
use rookery_xml::{Element, ns};

struct PushScene {
    server: Server,
    juliet: Client,
    romeo: Client,
}

impl PushScene {
    fn new() -> Self {
        Self::with(Vec::new())
    }

    fn with(options: Vec<(&'static str, &'static str, Value)>) -> Self {
        let server = Server::with(Config { federates: true, options, ..Config::default() });
        let [juliet, romeo] = [("juliet", 0), ("romeo", 1)].map(|(stem, at)| server.name_at(stem, at));
        let juliet = server.login(&format!("{juliet}/balcony")).with_name("juliet");
        let romeo = server.online(&format!("{romeo}/orchard")).with_name("romeo");
        Self { server, juliet, romeo }
    }

    fn enable(&mut self, node: &str, form: &str) {
        let id = node;
        self.romeo.send(&format!(
            "<iq type='set' id='{id}'><enable xmlns='urn:xmpp:push:0' jid='push.example.net' node='{node}'>{form}</enable></iq>"
        ));
        let romeo = self.romeo.bare().to_owned();
        self.romeo.expect(&format!("<iq type='result' id='{id}' from='{romeo}'/>"));
    }

    fn write(&mut self, body: &str) {
        let to = self.romeo.bare().to_owned();
        self.juliet.send(&format!("<message to='{to}' type='chat'><body>{body}</body></message>"));
        self.juliet.pump();
    }

    /// Returns the requests that have left for push services.
    fn published_requests(&self) -> Vec<Element> {
        let left = self.server.take_left().into_iter();
        left.filter_map(|left| Element::parse(left.text.as_bytes()).ok()).filter(|left| left.name() == "iq").collect()
    }

    /// Returns the only request.
    fn one(&self) -> Element {
        let mut all = self.published_requests();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    fn answer(&self, request: &Element, answer: &str) {
        let id = request.attr("id").expect("an id");
        let (type_, content) = if answer.is_empty() { ("result", String::new()) } else { ("error", answer.to_owned()) };
        self.server
            .incoming(&format!("<iq type='{type_}' id='{id}' from='push.example.net' to='example.org'>{content}</iq>"));
    }
}

fn publish(request: &Element) -> &Element {
    let pubsub = request.child("pubsub", ns::PUBSUB).expect("pubsub");
    pubsub.child("publish", ns::PUBSUB).expect("publish")
}

/// Returns a field of the summary.
fn summary_field(request: &Element, var: &str) -> Option<String> {
    let item = publish(request).child("item", ns::PUBSUB)?;
    let form = item.child("notification", ns::PUSH)?.child("x", ns::DATA_FORMS)?;
    let field = form.children().find(|field| field.attr("var") == Some(var))?;
    field.child_text("value", ns::DATA_FORMS)
}

const OPTIONS: &str = "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>http://jabber.org/protocol/pubsub#publish-options\
    </value></field><field var='secret'><value>eruio234vzxc2kla-91</value></field></x>";

/// §5 and §7, the examples: enabled with options, published when nobody is there; nothing is said
/// of the message.
#[test]
fn notifications_are_those_of_the_standards_examples() {
    let mut scene = PushScene::new();
    scene.enable("yxs32uqsflafdk3iuqo", OPTIONS);
    scene.write("seen");
    assert!(scene.published_requests().is_empty(), "somebody looks");
    scene.romeo.close();
    scene.write("Wherefore art thou, Romeo?");
    let request = scene.one();
    assert_eq!((request.attr("type"), request.attr("from")), (Some("set"), Some("example.org")));
    assert_eq!(request.attr("to"), Some("push.example.net"));
    assert_eq!(publish(&request).attr("node"), Some("yxs32uqsflafdk3iuqo"));
    assert_eq!(summary_field(&request, "FORM_TYPE").as_deref(), Some("urn:xmpp:push:summary"));
    assert_eq!(summary_field(&request, "message-count").as_deref(), Some("1"));
    assert_eq!(
        (summary_field(&request, "last-message-sender"), summary_field(&request, "last-message-body")),
        (None, None)
    );
    let pubsub = request.child("pubsub", ns::PUBSUB).unwrap();
    let options = pubsub.child("publish-options", ns::PUBSUB).and_then(|options| options.child("x", ns::DATA_FORMS));
    assert!(options.is_some_and(|options| options.children().any(|field| field.attr("var") == Some("secret"))));
}

/// The option `content`: nothing, the sender only, or the body as well.
#[test]
fn the_operator_decides_what_is_said() {
    for (content, sender, body) in [("none", false, false), ("sender", true, false), ("body", true, true)] {
        let mut scene = PushScene::with(vec![("push", "content", Value::Text(content.into()))]);
        scene.enable("a", "");
        scene.romeo.close();
        scene.write("hi");
        let request = scene.one();
        assert_eq!(summary_field(&request, "last-message-sender").is_some(), sender, "{content}");
        assert_eq!(summary_field(&request, "last-message-body").is_some(), body, "{content}");
    }
}

/// Many messages are one notification, until the service has answered and a moment has passed.
#[test]
fn a_service_is_not_flooded() {
    let mut scene = PushScene::new();
    scene.enable("a", "");
    scene.romeo.close();
    for number in 0..20 {
        scene.write(&number.to_string());
    }
    let first = scene.one();
    scene.server.advance(10_000);
    assert!(scene.published_requests().is_empty(), "it has not answered");
    scene.answer(&first, "");
    assert!(scene.published_requests().is_empty());
    scene.server.advance(6_000);
    let second = scene.one();
    assert_eq!(summary_field(&second, "message-count").as_deref(), Some("19"));
    scene.answer(&second, "");
    scene.server.advance(60_000);
    assert!(scene.published_requests().is_empty());
    scene.write("later");
    assert_eq!(summary_field(&scene.one(), "message-count").as_deref(), Some("1"));
}

/// A session that has lost its connection: for what it had not acknowledged, and for what comes
/// then.
#[test]
fn detached_sessions_are_told_of() {
    let mut scene = PushScene::new();
    scene.enable("a", "");
    scene.romeo.enable();
    scene.write("on its way");
    scene.romeo.all();
    assert!(scene.published_requests().is_empty());
    scene.romeo.vanish();
    let request = scene.one();
    scene.answer(&request, "");
    scene.server.advance(6_000);
    let romeo = scene.romeo.full().to_owned();
    scene
        .juliet
        .send(&format!("<message to='{romeo}'><composing xmlns='http://jabber.org/protocol/chatstates'/></message>"));
    scene.juliet.pump();
    assert!(scene.published_requests().is_empty(), "nobody wants to be told of that");
    scene.write("hi");
    scene.one();
}

/// A message for an inactive client is notified; an active client keeps the account's others quiet.
#[test]
fn inactive_sessions_are_told_of() {
    let mut scene = PushScene::new();
    scene.enable("a", "");
    scene.romeo.send("<inactive xmlns='urn:xmpp:csi:0'/>");
    scene.romeo.pump();
    scene.write("hi");
    let request = scene.one();
    scene.answer(&request, "");
    scene.server.advance(6_000);
    let local = scene.romeo.jid.as_ref().unwrap().local().unwrap().to_owned();
    let _desktop = scene.server.online(&format!("{local}/desktop"));
    scene.write("hi");
    assert!(scene.published_requests().is_empty());
}

/// §7.1: a refusal ends a registration, an error that may pass does not.
#[test]
fn a_refusal_ends_a_registration() {
    let mut scene = PushScene::new();
    scene.enable("a", "");
    scene.romeo.close();
    scene.write("1");
    let passing = "<error type='wait'><resource-constraint xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>";
    scene.answer(&scene.one(), passing);
    scene.server.advance(6_000);
    scene.write("2");
    let refusal = "<error type='cancel'><item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>";
    scene.answer(&scene.one(), refusal);
    scene.server.advance(120_000);
    scene.write("3");
    assert!(scene.published_requests().is_empty());
    let pushes = scene.server.counters().pushes;
    assert_eq!((pushes.accepted, pushes.failed, pushes.refused), (0, 1, 1));
}

/// Nobody but the service can answer for it.
#[test]
fn answers_of_others_do_not_count() {
    let mut scene = PushScene::new();
    scene.enable("a", "");
    scene.romeo.close();
    scene.write("1");
    let request = scene.one();
    let id = request.attr("id").unwrap();
    let refusal = "<error type='cancel'><item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>";
    scene.server.incoming(&format!("<iq type='error' id='{id}' from='evil.example' to='example.org'>{refusal}</iq>"));
    scene.juliet.send(&format!("<iq type='error' id='{id}' to='example.org'>{refusal}</iq>"));
    scene.juliet.pump();
    for odd in ["ask-", "ask-9-x", "ask-0-x", "ask-x-y", "other"] {
        scene.juliet.send(&format!("<iq type='result' id='{odd}' to='example.org'/>"));
    }
    scene.juliet.expect_alive();
    scene.answer(&request, "");
    scene.server.advance(6_000);
    assert_eq!(scene.server.counters().pushes.accepted, 1);
    scene.write("2");
    scene.one();
}

/// §6: disabling a node, or all of a service.
#[test]
fn registrations_are_disabled() {
    let mut scene = PushScene::new();
    for node in ["a", "b", "c"] {
        scene.enable(node, "");
    }
    scene.romeo.send("<iq type='set' id='1'><disable xmlns='urn:xmpp:push:0' jid='push.example.net' node='a'/></iq>");
    scene.romeo.pump();
    let romeo = scene.romeo.bare().to_owned();
    scene.romeo.expect(&format!("<iq type='result' id='1' from='{romeo}'/>"));
    scene.romeo.vanish();
    scene.write("1");
    let published = scene.published_requests();
    let nodes: Vec<_> = published.iter().filter_map(|request| publish(request).attr("node")).collect();
    assert_eq!(nodes, ["b", "c"]);
    let local = scene.romeo.jid.as_ref().unwrap().local().unwrap().to_owned();
    let mut again = scene.server.login(&format!("{local}/again"));
    again.send("<iq type='set' id='1'><disable xmlns='urn:xmpp:push:0' jid='push.example.net'/></iq>");
    again.pump();
    again.vanish();
    scene.server.advance(120_000);
    scene.published_requests();
    scene.write("2");
    assert!(scene.published_requests().is_empty());
}

/// Registrations outlive a restart, and are bounded.
#[test]
fn registrations_are_kept_and_bounded() {
    let mut scene = PushScene::with(vec![("push", "registrations", Value::Number(2))]);
    for node in ["a", "b", "b", "c"] {
        scene.enable(node, "");
    }
    let to = scene.romeo.bare().to_owned();
    scene.server.restart();
    let mut juliet = scene.server.login("juliet/balcony");
    juliet.send(&format!("<message to='{to}' type='chat'><body>hi</body></message>"));
    juliet.pump();
    let published = scene.published_requests();
    let nodes: Vec<_> = published.iter().filter_map(|request| publish(request).attr("node")).collect();
    assert_eq!(nodes, ["b", "c"]);
}

/// Invalid requests, and requests of others.
#[test]
fn malformed_requests_are_refused() {
    let mut scene = PushScene::new();
    let long = "x".repeat(5000);
    let form = format!("<x xmlns='jabber:x:data' type='submit'><field var='a'><value>{long}</value></field></x>");
    for (payload, condition) in [
        ("<enable xmlns='urn:xmpp:push:0'/>".to_owned(), "bad-request"),
        ("<enable xmlns='urn:xmpp:push:0' jid='@'/>".to_owned(), "jid-malformed"),
        ("<other xmlns='urn:xmpp:push:0' jid='a.example'/>".to_owned(), "bad-request"),
        (format!("<enable xmlns='urn:xmpp:push:0' jid='a.example' node='{long}'/>"), "not-acceptable"),
        (format!("<enable xmlns='urn:xmpp:push:0' jid='a.example'>{form}</enable>"), "not-acceptable"),
    ] {
        let answer = scene.romeo.ask(&format!("<iq type='set' id='1'>{payload}</iq>"));
        let error = answer.child("error", ns::CLIENT).unwrap_or_else(|| panic!("{payload}: {answer:?}"));
        assert!(error.child(condition, ns::STANZA_ERRORS).is_some(), "{payload}: {error:?}");
    }
    let romeo = scene.romeo.bare().to_owned();
    let enable = format!("<iq type='set' id='1' to='{romeo}'><enable xmlns='urn:xmpp:push:0' jid='a.example'/></iq>");
    let answer = scene.juliet.ask(&enable);
    let error = answer.child("error", ns::CLIENT).expect("an error");
    assert!(error.child("service-unavailable", ns::STANZA_ERRORS).is_some());
}

/// A push service may be a session of this server, on another shard than the user.
#[test]
fn a_service_may_be_here() {
    let mut scene = PushScene::new();
    let name = scene.server.name_at("service", 0);
    let mut service = scene.server.login(&format!("{name}/s"));
    let jid = service.full().to_owned();
    scene.romeo.send(&format!("<iq type='set' id='1'><enable xmlns='urn:xmpp:push:0' jid='{jid}' node='n'/></iq>"));
    scene.romeo.pump();
    scene.romeo.close();
    scene.write("hi");
    let request = service.expect_element();
    assert_eq!(publish(&request).attr("node"), Some("n"));
    let id = request.attr("id").unwrap();
    service.send(&format!(
        "<iq type='error' id='{id}' to='example.org'><error type='cancel'><gone xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>"
    ));
    service.expect_nothing();
    scene.server.advance(10_000);
    scene.write("hi");
    service.expect_nothing();
}
