//! §4, §5, §10.1: beginning and ending.

use rookery_testkit::Server;
use rookery_xml::ns;

use super::{CarbonScene, body, copy, enable};

#[test]
fn copies_begin_and_end_on_request() {
    let mut scene = CarbonScene::new();
    enable(&mut scene.home);
    let disable = "<iq type='set' id='disable1'><disable xmlns='urn:xmpp:carbons:2'/></iq>";
    for _ in 0..2 {
        let done = scene.home.ask(disable);
        assert_eq!(done.attr("type"), Some("result"), "again is no error");
    }
    scene.juliet_sends("<message type='chat' to='GARDEN'><body>one</body></message>");
    scene.home.expect_nothing();
    enable(&mut scene.home);
    scene.juliet_sends("<message type='chat' to='GARDEN'><body>two</body></message>");
    assert_eq!(body(&copy(&mut scene.home, "received")), "two");
}

#[test]
fn a_new_session_begins_without() {
    let mut scene = CarbonScene::new();
    let address = scene.home.full().to_owned();
    scene.home.close();
    let mut home = scene.server.online(&address);
    home.all();
    scene.juliet_sends("<message type='chat' to='GARDEN'><body>hi</body></message>");
    home.expect_nothing();
}

#[test]
fn nobody_switches_for_another() {
    let mut scene = CarbonScene::new();
    for (iq, condition) in [
        ("<iq type='set' id='1' to='ROMEO'><disable xmlns='urn:xmpp:carbons:2'/></iq>", "not-allowed"),
        ("<iq type='set' id='1' to='nobody@example.org'><enable xmlns='urn:xmpp:carbons:2'/></iq>", "not-allowed"),
        ("<iq type='get' id='1'><enable xmlns='urn:xmpp:carbons:2'/></iq>", "bad-request"),
        ("<iq type='set' id='1'><private xmlns='urn:xmpp:carbons:2'/></iq>", "bad-request"),
    ] {
        let iq = scene.with_names(iq);
        let answer = scene.juliet.ask(&iq);
        let error = answer.child("error", ns::CLIENT).expect("an error");
        assert!(error.child(condition, ns::STANZA_ERRORS).is_some(), "{answer:?}");
    }
    scene.juliet_sends("<message type='chat' to='GARDEN'><body>hi</body></message>");
    assert_eq!(body(&copy(&mut scene.home, "received")), "hi");
}

#[test]
fn the_server_tells_that_it_can() {
    let mut client = Server::new().online("romeo/garden");
    let info = client
        .ask("<iq type='get' id='info1' to='example.org'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>");
    let query = info.child("query", ns::DISCO_INFO).expect("features");
    assert!(query.children().any(|child| child.attr("var") == Some(ns::CARBONS)));
}
