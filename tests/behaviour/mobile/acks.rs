//! XEP-0198 §3, §4 and §6: enabling, counting, asking.

use rookery_hub::Value;
use rookery_testkit::{Config, Server};
use rookery_xml::ns;

use super::MobileScene;

/// §2: the feature is offered where a resource can be bound.
#[test]
fn the_feature_is_offered_after_login() {
    let server = Server::new();
    let account = server.account("romeo");
    let mut romeo = server.connect();
    romeo.log_in(&account, rookery_testkit::Security::Plain);
    let features = romeo.features.clone().expect("features");
    assert!(features.child("sm", "urn:xmpp:sm:3").is_some() && features.child("csi", "urn:xmpp:csi:0").is_some());
    // §3: not before a resource is bound.
    romeo.send("<enable xmlns='urn:xmpp:sm:3'/>");
    romeo.expect(
        "<failed xmlns='urn:xmpp:sm:3'><unexpected-request xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>",
    );
    romeo.bind("orchard");
    romeo.expect_alive();
}

/// §3: without `resume` there is neither an id nor a promise.
#[test]
fn without_resumption_there_is_no_id() {
    let server = Server::new();
    let mut romeo = server.login("romeo/orchard");
    romeo.send("<enable xmlns='urn:xmpp:sm:3'/>");
    let enabled = romeo.expect("<enabled xmlns='urn:xmpp:sm:3'/>");
    assert!(enabled.attrs().is_empty(), "{enabled:?}");
    romeo.vanish();
    assert_eq!(server.sessions(), 0);
}

/// §3: the shorter of both times holds.
#[test]
fn a_client_may_want_less_time() {
    let server = Server::new();
    let mut romeo = server.login("romeo/orchard");
    romeo.send("<enable xmlns='urn:xmpp:sm:3' resume='1' max='30'/>");
    romeo.expect("<enabled xmlns='urn:xmpp:sm:3' resume='true' id='*' max='30'/>");
    romeo.vanish();
    assert_eq!(server.sessions(), 1);
    server.advance(29_000);
    assert_eq!(server.sessions(), 1);
    server.advance(2_000);
    assert_eq!(server.sessions(), 0);
}

/// §3: a second `<enable/>` ends the stream.
#[test]
fn enabling_twice_ends_the_stream() {
    let mut scene = MobileScene::new();
    scene.romeo.send("<enable xmlns='urn:xmpp:sm:3'/>");
    scene.romeo.expect(
        "<failed xmlns='urn:xmpp:sm:3'><unexpected-request xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>",
    );
    scene.romeo.expect_stream_error("policy-violation");
}

/// §4: stanzas are counted from `<enable/>` on, and nothing else is.
#[test]
fn stanzas_are_counted() {
    let mut scene = MobileScene::new();
    let romeo = &mut scene.romeo;
    romeo.send("<r xmlns='urn:xmpp:sm:3'/>");
    romeo.expect("<a xmlns='urn:xmpp:sm:3' h='0'/>");
    romeo.send(&format!("<message to='{}'/><presence/> <inactive xmlns='urn:xmpp:csi:0'/>", scene.juliet.bare()));
    romeo.send("<active xmlns='urn:xmpp:csi:0'/><a xmlns='urn:xmpp:sm:3' h='0'/><r xmlns='urn:xmpp:sm:3'/>");
    romeo.expect_presence_of_itself();
    romeo.expect("<a xmlns='urn:xmpp:sm:3' h='2'/>");
    romeo.expect_nothing();
}

/// §4: a stanza that waits for the store is handled: it will be worked off whatever becomes of the
/// stream.
#[test]
fn what_waits_in_the_backlog_counts() {
    let mut scene = MobileScene::new();
    scene.romeo.send("<iq type='get' id='1'><query xmlns='jabber:iq:roster'/></iq>");
    scene.romeo.send("<r xmlns='urn:xmpp:sm:3'/>");
    scene
        .romeo
        .expect_in_any_order(&["<iq type='result' id='1' from='*'>...</iq>", "<a xmlns='urn:xmpp:sm:3' h='1'/>"]);
}

/// The server asks once for many stanzas, and a moment after the last one.
#[test]
fn the_server_asks_seldom() {
    let mut scene = MobileScene::new();
    scene.write(&["1", "2", "3"]);
    assert_eq!(scene.romeo.bodies(), ["1", "2", "3"]);
    scene.server.advance(2_500);
    scene.romeo.expect("<r xmlns='urn:xmpp:sm:3'/>");
    scene.write(&["4"]);
    scene.server.advance(10_000);
    assert_eq!(scene.romeo.bodies(), ["4"], "one request at a time");
    scene.romeo.send("<a xmlns='urn:xmpp:sm:3' h='3'/>");
    scene.server.advance(2_500);
    scene.romeo.expect("<r xmlns='urn:xmpp:sm:3'/>");
    scene.romeo.send("<a xmlns='urn:xmpp:sm:3' h='4'/>");
    scene.server.advance(600_000);
    scene.romeo.expect_nothing();
    let many: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    scene.write(&many);
    let got = scene.romeo.all();
    assert_eq!(got.iter().filter(|element| element.name() == "message").count(), 100);
    let requests = got.iter().filter(|element| element.is("r", "urn:xmpp:sm:3")).count();
    assert_eq!(requests, 1, "a long run is asked for once");
}

/// A client that doesn't reply has no connection any more, whatever the system says. Its session
/// waits for it.
#[test]
fn silence_is_a_broken_connection() {
    let mut scene = MobileScene::new();
    scene.write(&["1"]);
    scene.server.advance(200_000);
    assert!(scene.romeo.wire.peer.is_closed());
    assert_eq!(scene.server.sessions(), 2);
    let (mut romeo, _) = scene.resume(0);
    assert_eq!(romeo.bodies(), ["1"]);
}

/// §6: more was acknowledged than was sent.
#[test]
fn too_high_a_count_ends_the_stream() {
    let mut scene = MobileScene::new();
    scene.write(&["1"]);
    scene.romeo.expect_element();
    scene.romeo.send("<a xmlns='urn:xmpp:sm:3' h='10'/>");
    scene.romeo.expect(
        "<stream:error><undefined-condition xmlns='urn:ietf:params:xml:ns:xmpp-streams'/><text \
         xmlns='urn:ietf:params:xml:ns:xmpp-streams'>more stanzas were acknowledged than were sent</text>\
         <handled-count-too-high xmlns='urn:xmpp:sm:3' h='10' send-count='1'/></stream:error>",
    );
    scene.romeo.expect_end();
    // The message was not acknowledged by a client that can be believed.
    let mut romeo = scene.server.online(&format!("{}/new", scene.romeo.jid.as_ref().unwrap().local().unwrap()));
    assert_eq!(romeo.bodies(), ["1"]);
}

/// Invalid acknowledgements.
#[test]
fn malformed_acknowledgements_end_the_stream() {
    for wrong in ["", "h=''", "h='-1'", "h='x'", "h='4294967296'"] {
        let mut scene = MobileScene::new();
        scene.romeo.send(&format!("<a xmlns='urn:xmpp:sm:3' {wrong}/>"));
        scene.romeo.expect_stream_error("bad-format");
    }
}

/// Elements of stream management on a stream that hasn't enabled it.
#[test]
fn without_stream_management_there_is_nothing_to_acknowledge() {
    let server = Server::new();
    let mut romeo = server.login("romeo/orchard");
    for element in ["r", "a", "resume"] {
        romeo.send(&format!("<{element} xmlns='urn:xmpp:sm:3' h='1'/>"));
        romeo.expect(
            "<failed xmlns='urn:xmpp:sm:3'><unexpected-request xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>",
        );
    }
    romeo.expect_alive();
}

/// The operator can do without.
#[test]
fn switched_off_it_is_not_there() {
    let config = Config { modules_off: vec!["stream_management", "client_state"], ..Config::default() };
    let server = Server::with(config);
    let mut romeo = server.login("romeo/orchard");
    let features = romeo.features.clone().expect("features");
    assert!(features.child("sm", "urn:xmpp:sm:3").is_none() && features.child("csi", "urn:xmpp:csi:0").is_none());
    romeo.send("<enable xmlns='urn:xmpp:sm:3'/>");
    romeo.expect(
        "<failed xmlns='urn:xmpp:sm:3'><feature-not-implemented xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>",
    );
    romeo.send("<inactive xmlns='urn:xmpp:csi:0'/>");
    romeo.expect_stream_error("unsupported-stanza-type");
}

/// Stanzas that are not acknowledged are bounded; above the bound the session ends, and what it had
/// not acknowledged waits for the next.
#[test]
fn a_client_that_never_acknowledges_is_closed() {
    let options = vec![("stream_management", "max_stanzas", Value::Number(10))];
    let mut scene = MobileScene::on(Server::with(Config { options, ..Config::default() }));
    let bodies: Vec<String> = (0..11).map(|number| number.to_string()).collect();
    let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
    scene.write(&bodies);
    let got = scene.romeo.all_to_the_end();
    assert!(got.iter().any(|element| element.name() == "error"), "{got:?}");
    let mut romeo = scene.server.online(&format!("{}/new", scene.romeo.jid.as_ref().unwrap().local().unwrap()));
    assert_eq!(romeo.bodies(), bodies);
}

/// It is asked in time, however few stanzas it may owe.
#[test]
fn a_client_that_acknowledges_when_asked_stays_whatever_the_bound() {
    let options = vec![("stream_management", "max_stanzas", Value::Number(6))];
    let mut scene = MobileScene::on(Server::with(Config { options, ..Config::default() }));
    let (mut bodies, mut handled) = (Vec::new(), 0);
    for number in 0..40 {
        scene.write(&[&number.to_string()]);
        for element in scene.romeo.all() {
            match element.name() {
                "message" => bodies.push(element.child_text("body", ns::CLIENT).expect("a body")),
                "r" => scene.romeo.send(&format!("<a xmlns='urn:xmpp:sm:3' h='{handled}'/>")),
                other => panic!("<{other}> came"),
            }
            handled += u32::from(element.name() == "message");
        }
    }
    assert_eq!(bodies, (0..40).map(|number| number.to_string()).collect::<Vec<_>>());
}

/// §4: a clean end gives back what was not acknowledged, and nothing of what was.
#[test]
fn a_clean_end_gives_back_what_was_not_acknowledged() {
    let mut scene = MobileScene::new();
    scene.write(&["1", "2", "3"]);
    scene.romeo.all();
    scene.romeo.send("<a xmlns='urn:xmpp:sm:3' h='2'/>");
    scene.romeo.close();
    assert_eq!(scene.server.sessions(), 1);
    let mut romeo = scene.server.online(&format!("{}/new", scene.romeo.jid.as_ref().unwrap().local().unwrap()));
    assert_eq!(romeo.bodies(), ["3"]);
}

/// A server that stops says what it has handled, and keeps what it was not acknowledged.
#[test]
fn a_stop_says_what_is_handled_and_loses_nothing() {
    let mut scene = MobileScene::new();
    scene.write(&["1", "2"]);
    scene.romeo.all();
    scene.romeo.send(&format!("<message to='{}'/>", scene.juliet.bare()));
    scene.server.settle();
    scene.server.stop();
    scene.romeo.expect("<a xmlns='urn:xmpp:sm:3' h='1'/>");
    scene.romeo.expect_stream_error("system-shutdown");
    for client in [&scene.romeo, &scene.juliet] {
        client.wire.peer.shutdown();
    }
    scene.server.advance(10_000);
    assert!(scene.server.is_finished());
    scene.server.restart();
    let mut romeo = scene.server.online(&format!("{}/new", scene.romeo.jid.as_ref().unwrap().local().unwrap()));
    assert_eq!(romeo.bodies(), ["1", "2"]);
}
