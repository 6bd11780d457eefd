//! The service's place, and its replies about itself (§2).

use rookery_hub::Value;
use rookery_testkit::{Client, Config, Server};
use rookery_xml::{Element, ns};

use super::{MulticastScene, error, saw};

fn info(client: &mut Client, whom: &str) -> Element {
    let answer = client.ask(&format!("<iq type='get' id='i' to='{whom}'><query xmlns='{}'/></iq>", ns::DISCO_INFO));
    assert_eq!((answer.attr("type"), answer.attr("from")), (Some("result"), Some(whom)));
    answer.child("query", ns::DISCO_INFO).expect("a query").clone()
}

/// Returns the items of the domain that have to do with this service: addresses and names.
fn items(client: &mut Client) -> Vec<(String, String)> {
    let answer =
        client.ask(&format!("<iq type='get' id='i' to='example.org'><query xmlns='{}'/></iq>", ns::DISCO_ITEMS));
    let query = answer.child("query", ns::DISCO_ITEMS).expect("a query");
    let text = |item: &Element, name| item.attr(name).unwrap_or_default().to_owned();
    let items = query.children().map(|item| (text(item, "jid"), text(item, "name")));
    items
        .filter(|(jid, _)| {
            !["conference.example.org", "pubsub.example.org", "upload.example.org"].contains(&jid.as_str())
        })
        .collect()
}

/// Returns the limits that a form tells, as `message=100`.
fn limits(info: &Element) -> Vec<String> {
    let form = info.child("x", ns::DATA_FORMS).expect("a form");
    let fields = form.children().map(|field| {
        let value = field.child_text("value", ns::DATA_FORMS).unwrap_or_default();
        format!("{}={value}", field.attr("var").unwrap_or_default())
    });
    fields.collect()
}

#[test]
fn it_is_an_item_of_its_domain() {
    let mut juliet = Server::new().login("juliet/balcony");
    assert!(items(&mut juliet).contains(&("multicast.example.org".to_owned(), "Multicast".to_owned())));
}

#[test]
fn it_tells_what_it_is() {
    let mut juliet = Server::new().login("juliet/balcony");
    juliet.send(
        "<iq type='get' id='i' to='multicast.example.org'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>",
    );
    juliet.expect(
        "<iq type='result' id='i' from='multicast.example.org'><query xmlns='http://jabber.org/protocol/disco#info'>\
         <identity category='service' type='multicast' name='Multicast'/>\
         <feature var='http://jabber.org/protocol/address'/><feature var='http://jabber.org/protocol/disco#info'/>\
         <feature var='http://jabber.org/protocol/disco#items'/><feature var='vcard-temp'/>\
         <x xmlns='jabber:x:data' type='result'>\
         <field var='FORM_TYPE' type='hidden'><value>http://jabber.org/protocol/address</value></field>\
         <field var='message'><value>100</value></field><field var='presence'><value>100</value></field></x></query></iq>",
    );
    juliet.send(
        "<iq type='get' id='j' to='multicast.example.org'><query xmlns='http://jabber.org/protocol/disco#items'/></iq>",
    );
    juliet.expect("<iq type='result' id='j' from='multicast.example.org'><query xmlns='http://jabber.org/protocol/disco#items'/></iq>");
}

/// The limits are those of the asker; where there is none, none is told.
#[test]
fn it_tells_the_limits_that_hold_for_the_asker() {
    let options = vec![
        ("local_messages", Value::Number(7)),
        ("local_presences", Value::Number(0)),
        ("remote_messages", Value::Number(0)),
        ("remote_presences", Value::Number(3)),
    ];
    let mut scene = MulticastScene::with_options(options);
    let form = "FORM_TYPE=http://jabber.org/protocol/address";
    assert_eq!(limits(&info(&mut scene.sender, "multicast.example.org")), [form, "message=7"]);
    scene.server.incoming(
        "<iq type='get' id='i' from='elsewhere.net' to='multicast.example.org'>\
         <query xmlns='http://jabber.org/protocol/disco#info'/></iq>",
    );
    let left = scene.server.take_left();
    let answer = rookery_testkit::element(&left[0].text);
    assert_eq!(left[0].to, "elsewhere.net");
    assert_eq!(limits(answer.child("query", ns::DISCO_INFO).expect("a query")), [form, "presence=3"]);
}

#[test]
fn it_has_a_card() {
    let card = "<iq type='get' id='v' to='multicast.example.org'><vCard xmlns='vcard-temp'/></iq>";
    let mut juliet = Server::new().login("juliet/balcony");
    juliet.send(card);
    juliet.expect(
        "<iq type='result' id='v' from='multicast.example.org'><vCard xmlns='vcard-temp'><FN>Multicast</FN>\
         <DESC>Sends one stanza to many recipients.</DESC></vCard></iq>",
    );
    let text = |text: &str| Value::Text(text.to_owned());
    let options = vec![("name", text("To <all>")), ("url", text("https://example.org/")), ("description", text("d"))];
    let mut scene = MulticastScene::with_options(options);
    scene.sender.send(card);
    scene.sender.expect(
        "<iq type='result' id='v' from='multicast.example.org'><vCard xmlns='vcard-temp'><FN>To &lt;all&gt;</FN>\
         <URL>https://example.org/</URL><DESC>d</DESC></vCard></iq>",
    );
    assert_eq!(items(&mut scene.sender)[0].1, "To <all>");
}

#[test]
fn what_it_does_not_know_is_refused() {
    let mut juliet = Server::new().login("juliet/balcony");
    for (request, type_, condition) in [
        ("type='get'><ping xmlns='urn:xmpp:ping'/>", "cancel", "service-unavailable"),
        ("type='set'><x xmlns='urn:example'/>", "cancel", "service-unavailable"),
        // §3: not "as the direct child of an IQ stanza".
        (&format!("type='set'>{}", super::addresses("to:juliet@example.org")), "cancel", "service-unavailable"),
        ("type='set'><query xmlns='http://jabber.org/protocol/disco#info'/>", "modify", "bad-request"),
        ("type='get'><x xmlns='http://jabber.org/protocol/disco#info'/>", "modify", "bad-request"),
        ("type='get'><query xmlns='http://jabber.org/protocol/disco#info' node='n'/>", "cancel", "item-not-found"),
        ("type='get'><query xmlns='http://jabber.org/protocol/disco#items' node='n'/>", "cancel", "item-not-found"),
        ("type='set'><vCard xmlns='vcard-temp'/>", "modify", "bad-request"),
    ] {
        juliet.send(&format!("<iq id='i' to='multicast.example.org' {request}</iq>"));
        juliet.expect(&format!("<iq {}</iq>", error("i", "multicast.example.org", type_, condition)));
        juliet.expect_nothing();
    }
}

#[test]
fn its_address_can_be_another() {
    let mut scene = MulticastScene::with_options(vec![("host", Value::Text("all.@".into()))]);
    assert_eq!(items(&mut scene.sender)[0].0, "all.example.org");
    assert_eq!(limits(&info(&mut scene.sender, "all.example.org")).len(), 3);
    scene.says_to("all.example.org", "to:NEAR bcc:all.example.org");
    scene.see("to!NEAR", "");
    // The usual address belongs to another server in that case.
    scene.says("to:NEAR");
    let left = scene.server.take_left();
    assert_eq!(left.iter().map(|left| left.to.as_str()).collect::<Vec<_>>(), ["multicast.example.org"]);
    scene.nothing_is_delivered();
}

/// Each domain has its own, with its own address.
#[test]
fn every_domain_has_one() {
    let domains = vec!["example.org".into(), "example.com".into()];
    let mut scene = MulticastScene::with(Config { domains, ..Config::default() });
    scene.says_to("multicast.example.com", "to:NEAR");
    scene.see("to!NEAR", "");
}

#[test]
fn it_can_be_off() {
    let mut scene = MulticastScene::with(Config { modules_off: vec!["multicast"], ..Config::default() });
    assert!(items(&mut scene.sender).iter().all(|(host, _)| host != "multicast.example.org"));
    scene.says("to:NEAR");
    let nowhere = error("m", "multicast.example.org", "cancel", "remote-server-not-found");
    scene.sender.expect(&format!("<message {nowhere}</message>"));
    scene.says_to("example.org", "to:NEAR");
    scene.sender.expect(&format!("<message {}</message>", error("m", "example.org", "cancel", "service-unavailable")));
    scene.nothing_is_delivered();
}

/// The operator changes limits and access while the server runs.
#[test]
fn options_are_changed_by_a_reload() {
    let mut scene = MulticastScene::new();
    scene.server.reload(|config| config.options.push(("multicast", "local_messages", Value::Number(1))));
    scene.says("to:NEAR to:FAR");
    scene.is_refused("modify", "not-acceptable");
    scene.server.reload(|config| config.options.push(("multicast", "host", Value::Text("all.@".into()))));
    scene.says_to("all.example.org", "to:NEAR");
    assert_eq!(saw(&mut scene.near).matches('!').count(), 1);
}
