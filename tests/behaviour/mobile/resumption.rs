//! XEP-0198 §5: sessions that outlive their connection.

use rookery_hub::Value;
use rookery_jid::Jid;
use rookery_testkit::{Config, Security, Server, befriend, play};

use super::MobileScene;

fn body(number: usize, of: &rookery_xml::Element) -> String {
    assert_eq!(of.name(), "message", "{number}: {of:?}");
    of.child_text("body", "jabber:client").unwrap_or_default()
}

/// A resumed session gets again what was not acknowledged, in order, then what came since.
#[test]
fn everything_comes_once_and_in_order() {
    let mut scene = MobileScene::new();
    scene.write(&["1", "2", "3"]);
    scene.romeo.all();
    scene.romeo.vanish();
    scene.write(&["4", "5"]);
    let (mut romeo, handled) = scene.resume(2);
    assert_eq!(handled, 0);
    let got: Vec<_> = (3..6).map(|number| body(number, &romeo.expect_element())).collect();
    assert_eq!(got, ["3", "4", "5"]);
    romeo.expect_alive();
    assert_eq!(scene.server.sessions(), 2);
    // A second time, with nothing new but what was not acknowledged.
    romeo.vanish();
    let mut again = romeo.again();
    assert_eq!(again.resume(romeo.jid.as_ref().unwrap(), &scene.id, 4), 1);
    assert_eq!(body(5, &again.expect_element()), "5");
}

/// §5: what the server had handled is not sent again by the client, the rest is.
#[test]
fn the_server_says_what_it_has_handled() {
    let mut scene = MobileScene::new();
    let to = scene.juliet.full().to_owned();
    for number in 1..=3 {
        scene.romeo.send(&format!("<message to='{to}'><body>{number}</body></message>"));
    }
    scene.server.settle();
    // Cut in the middle of a stanza: a part doesn't count.
    scene.romeo.send(&format!("<message to='{to}'><bo"));
    scene.server.settle();
    scene.romeo.vanish();
    let (mut romeo, handled) = scene.resume(0);
    assert_eq!(handled, 3);
    romeo.send(&format!("<message to='{to}'><body>4</body></message>"));
    romeo.pump();
    assert_eq!(scene.juliet.bodies(), ["1", "2", "3", "4"]);
}

/// A detached session is an available resource: nobody hears that its connection is gone, until its
/// time is over.
#[test]
fn the_resource_stays_available_until_its_time_is_over() {
    let server = Server::new();
    let mut juliet = server.online("juliet/balcony");
    let mut romeo = server.online("romeo/orchard");
    befriend(&mut juliet, &mut romeo);
    let id = romeo.enable();
    romeo.vanish();
    juliet.expect_nothing();
    juliet.send("<message to='romeo@example.org' type='chat'><body>hi</body></message>");
    server.advance(599_000);
    juliet.expect_nothing();
    server.advance(2_000);
    juliet.expect("<presence type='unavailable' from='romeo@example.org/orchard'/>");
    // The stanzas for it wait for the next session.
    let mut again = romeo.again();
    again.send(&format!("<resume xmlns='urn:xmpp:sm:3' previd='{id}' h='0'/>"));
    again.expect(
        "<failed xmlns='urn:xmpp:sm:3' h='0'><item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>",
    );
    again.bind("orchard");
    again.send("<presence/>");
    let bodies = again.bodies();
    assert_eq!(bodies, ["hi"]);
}

/// §5: an id is good for its own account only, and for as long as its session.
#[test]
fn ids_are_bound_to_their_account() {
    let mut scene = MobileScene::new();
    scene.romeo.vanish();
    let mut thief = scene.server.login("thief/x").again();
    for previd in [scene.id.as_str(), "", "unknown"] {
        thief.send(&format!("<resume xmlns='urn:xmpp:sm:3' previd='{previd}' h='0'/>"));
        let failed = thief.expect(
            "<failed xmlns='urn:xmpp:sm:3'><item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>",
        );
        assert_eq!(failed.attr("h"), None);
    }
    thief.bind("y");
    thief.expect_alive();
    let (mut romeo, _) = scene.resume(0);
    romeo.expect_alive();
}

/// Invalid requests, after which the client may still bind a resource.
#[test]
fn malformed_requests_are_refused() {
    let mut scene = MobileScene::new();
    let mut romeo = scene.romeo.again();
    let id = &scene.id;
    for wrong in [format!("previd='{id}'"), "h='0'".into(), format!("previd='{id}' h='-1'")] {
        romeo.send(&format!("<resume xmlns='urn:xmpp:sm:3' {wrong}/>"));
        romeo.expect(
            "<failed xmlns='urn:xmpp:sm:3'><bad-request xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>",
        );
    }
    romeo.bind("elsewhere");
    romeo.expect_alive();
    scene.romeo.expect_alive();
}

/// §6: a client that claims more than it was sent is not resumed, and the session is as it was.
#[test]
fn too_high_a_count_does_not_resume() {
    let mut scene = MobileScene::new();
    scene.write(&["1"]);
    let mut liar = scene.romeo.again();
    liar.send(&format!("<resume xmlns='urn:xmpp:sm:3' previd='{}' h='2'/>", scene.id));
    liar.expect(
        "<stream:error><undefined-condition xmlns='urn:ietf:params:xml:ns:xmpp-streams'/>\
         <handled-count-too-high xmlns='urn:xmpp:sm:3' h='2' send-count='1'/></stream:error>",
    );
    liar.expect_end();
    assert_eq!(scene.romeo.bodies(), ["1"]);
    scene.romeo.expect_alive();
}

/// §5: the older connection, if it is still there, ends with `conflict`.
#[test]
fn the_older_connection_is_replaced() {
    let mut scene = MobileScene::new();
    scene.write(&["1"]);
    let (mut romeo, _) = scene.resume(0);
    assert_eq!(romeo.bodies(), ["1"]);
    assert_eq!(scene.romeo.bodies_to_the_end(), ["1"]);
    assert!(scene.romeo.wire.peer.is_at_end());
    romeo.expect_alive();
    scene.server.advance(10_000);
    assert_eq!(scene.server.connections(), 2);
}

/// The same where the older connection is full, in the middle of a stanza, with TLS and without.
#[test]
fn a_connection_that_is_stuck_is_replaced() {
    for security in [Security::Plain, Security::StartTls] {
        let server = Server::with(Config { tls: true, ..Config::default() });
        let account = server.account("romeo");
        let mut juliet = server.login("juliet/balcony");
        let mut romeo = server.connect();
        romeo.log_in(&account, security);
        let jid = romeo.bind("orchard");
        let id = romeo.enable();
        romeo.wire.peer.set_window(700);
        romeo.set_reading(false);
        let bodies: Vec<String> = (0..15).map(|number| format!("{number:02}{}", "x".repeat(200))).collect();
        for body in &bodies {
            juliet.send(&format!("<message to='{jid}' type='chat'><body>{body}</body></message>"));
        }
        juliet.pump();
        let mut again = server.connect();
        again.log_in(&account, security);
        again.resume(&jid, &id, 1);
        assert_eq!(again.bodies(), bodies[1..], "{security:?}");
        romeo.wire.peer.set_window(1 << 20);
        romeo.set_reading(true);
        let got = romeo.bodies_to_the_end();
        assert_eq!(got, bodies[..got.len()], "{security:?}: what it gets is whole");
        assert!(romeo.wire.peer.is_at_end());
        again.expect_alive();
    }
}

/// A client may go on at once, without waiting for the reply.
#[test]
fn what_is_sent_behind_the_request_is_heard() {
    let mut scene = MobileScene::new();
    scene.romeo.vanish();
    let mut romeo = scene.romeo.again();
    romeo.send(&format!("<resume xmlns='urn:xmpp:sm:3' previd='{}' h='0'/>", scene.id));
    romeo.send(&format!("<message to='{}'><body>hi</body></message><r xmlns='urn:xmpp:sm:3'/>", scene.juliet.full()));
    romeo.expect("<resumed xmlns='urn:xmpp:sm:3' h='0' previd='*'/>");
    assert_eq!(scene.juliet.bodies(), ["hi"]);
    // It is archived in a moment.
    scene.server.advance(200);
    romeo.expect("<a xmlns='urn:xmpp:sm:3' h='1'/>");
}

/// While the connection is gone, the newest presence of each sender is enough.
#[test]
fn presence_is_superseded_while_detached() {
    let server = Server::new();
    let mut juliet = server.online("juliet/balcony");
    let mut romeo = server.online("romeo/orchard");
    befriend(&mut juliet, &mut romeo);
    let id = romeo.enable();
    romeo.vanish();
    for show in ["away", "xa", "dnd", "chat"] {
        juliet.send(&format!("<presence><show>{show}</show></presence>"));
        juliet.pump();
    }
    let mut again = romeo.again();
    again.resume(romeo.jid.as_ref().unwrap(), &id, 0);
    again.expect("<presence from='juliet@example.org/balcony'><show>chat</show></presence>");
    again.expect_nothing();
}

/// Offline messages leave the store when they are acknowledged, not before.
#[test]
fn offline_messages_stay_in_the_store_until_they_are_acknowledged() {
    let server = Server::new();
    let mut juliet = server.login("juliet/balcony");
    let romeo = server.account("romeo");
    for number in 1..=3 {
        juliet.send(&format!("<message to='{romeo}' type='chat'><body>{number}</body></message>"));
    }
    juliet.pump();
    let mut phone = server.login("romeo/phone");
    let id = phone.enable();
    phone.send("<presence/>");
    assert_eq!(phone.bodies(), ["1", "2", "3"]);
    let count = || server.finish(server.stores().offline.count(romeo.as_ref())).unwrap();
    assert_eq!(count(), 3);
    // It has its own presence and the first message.
    phone.send("<a xmlns='urn:xmpp:sm:3' h='2'/>");
    server.settle();
    phone.vanish();
    let mut again = phone.again();
    again.resume(phone.jid.as_ref().unwrap(), &id, 2);
    assert_eq!(again.bodies(), ["2", "3"]);
    again.send("<a xmlns='urn:xmpp:sm:3' h='4'/>");
    again.expect_alive();
    assert_eq!(count(), 0);
}

/// The same, but the client never comes back: what it had not acknowledged is still there.
#[test]
fn offline_messages_survive_a_client_that_does_not_come_back() {
    let server = Server::new();
    let mut juliet = server.login("juliet/balcony");
    let romeo = server.account("romeo");
    for number in 1..=3 {
        juliet.send(&format!("<message to='{romeo}' type='chat'><body>{number}</body></message>"));
    }
    juliet.pump();
    let mut phone = server.login("romeo/phone");
    phone.enable();
    phone.send("<presence/>");
    phone.all();
    phone.send("<a xmlns='urn:xmpp:sm:3' h='2'/>");
    server.settle();
    phone.vanish();
    server.advance(700_000);
    let mut desktop = server.online("romeo/desktop");
    assert_eq!(desktop.bodies(), ["2", "3"]);
}

/// Too much for a session without connection: it ends, and what it had goes to storage.
#[test]
fn a_detached_session_is_bounded() {
    let options = vec![("stream_management", "max_bytes", Value::Number(4000))];
    let mut scene = MobileScene::on(Server::with(Config { options, ..Config::default() }));
    scene.romeo.vanish();
    let long = "x".repeat(500);
    scene.write(&[long.as_str(); 20]);
    assert_eq!(scene.server.sessions(), 1);
    let mut romeo = scene.server.online(&format!("{}/new", scene.romeo.jid.as_ref().unwrap().local().unwrap()));
    assert_eq!(romeo.bodies().len(), 20);
}

/// A session for which much is unacknowledged gets its offline messages when it has acknowledged
/// that. Meanwhile, nobody asks the store for them again and again.
#[test]
fn a_session_without_room_gets_what_waits_once_it_has_acknowledged() {
    let options = vec![("stream_management", "max_bytes", Value::Number(16_000))];
    let mut scene = MobileScene::on(Server::with(Config { options, ..Config::default() }));
    let long = "x".repeat(500);
    scene.write(&[long.as_str(); 18]);
    let got = scene.romeo.all();
    scene.romeo.send("<presence type='unavailable'/>");
    scene.server.settle();
    scene.write(&["late"]);
    scene.server.settle();
    scene.romeo.send("<presence/>");
    scene.server.settle();
    let more = scene.romeo.all();
    let is_late = |found: &rookery_xml::Element| found.child_text("body", "jabber:client").as_deref() == Some("late");
    assert!(!more.iter().any(is_late), "there is no room: {more:?}");
    let is_stanza = |found: &&rookery_xml::Element| matches!(found.name(), "message" | "presence" | "iq");
    let count = got.iter().chain(&more).filter(is_stanza).count();
    scene.romeo.send(&format!("<a xmlns='urn:xmpp:sm:3' h='{count}'/>"));
    scene.server.settle();
    scene.server.advance(2_000);
    assert!(scene.romeo.all().iter().any(is_late));
}

/// A session that waits must not keep its own client out: neither its resource nor its place are
/// taken.
#[test]
fn detached_sessions_make_room() {
    let mut config = Config::default();
    config.settings.max_resources = 3;
    config.settings.conflict = rookery_hub::Conflict::RefuseNewer;
    let server = Server::with(config);
    for number in 0..5 {
        let mut phone = server.login(&format!("romeo/{number}"));
        phone.enable();
        phone.vanish();
    }
    assert_eq!(server.sessions(), 3);
    let mut same = server.login("romeo/4");
    same.expect_alive();
    assert_eq!(server.sessions(), 3);
}

/// A server that stops keeps what detached sessions hold.
#[test]
fn a_stop_keeps_what_detached_sessions_hold() {
    let mut scene = MobileScene::new();
    scene.romeo.vanish();
    scene.write(&["1", "2"]);
    scene.server.stop();
    scene.juliet.wire.peer.shutdown();
    scene.server.advance(10_000);
    assert!(scene.server.is_finished());
    scene.server.restart();
    let mut romeo = scene.server.online(&format!("{}/new", scene.romeo.jid.as_ref().unwrap().local().unwrap()));
    assert_eq!(romeo.bodies(), ["1", "2"]);
}

/// Another resource gets what a session that doesn't come back has not acknowledged, but not what
/// it got itself.
#[test]
fn other_resources_take_over() {
    let mut scene = MobileScene::new();
    scene.write(&["1"]);
    scene.romeo.vanish();
    let local = scene.romeo.jid.as_ref().unwrap().local().unwrap().to_owned();
    let mut desktop = scene.server.online(&format!("{local}/desktop"));
    desktop.all();
    scene.write(&["2"]);
    assert_eq!(desktop.bodies(), ["2"]);
    scene.server.advance(700_000);
    assert_eq!(desktop.bodies(), ["1"]);
}

/// §4: what goes elsewhere long after it came tells when that was, be it to another resource or to
/// storage.
#[test]
fn what_comes_back_late_tells_when_it_came() {
    let mut scene = MobileScene::new();
    scene.write(&["1"]);
    scene.romeo.vanish();
    let local = scene.romeo.jid.as_ref().unwrap().local().unwrap().to_owned();
    let mut desktop = scene.server.online(&format!("{local}/desktop"));
    desktop.all();
    scene.server.advance(700_000);
    let stamp = |message: &rookery_xml::Element| {
        let delays: Vec<_> = message.children().filter(|child| child.is("delay", "urn:xmpp:delay")).collect();
        assert_eq!(delays.len(), 1, "{message:?}");
        delays[0].attr("stamp").map(str::to_owned)
    };
    assert_eq!(stamp(&desktop.expect_element()).as_deref(), Some("2026-01-01T00:00:00Z"));
    desktop.all();
    let id = desktop.enable();
    scene.write(&["2"]);
    desktop.vanish();
    scene.server.advance(700_000);
    let mut again = desktop.again();
    again.send(&format!("<resume xmlns='urn:xmpp:sm:3' previd='{id}' h='0'/>"));
    again.expect_element();
    again.bind("again");
    again.send("<presence/>");
    let all = again.all();
    let message = all.iter().find(|element| element.name() == "message").expect("a message");
    assert_eq!(stamp(message).as_deref(), Some("2026-01-01T00:11:40Z"));
}

/// The example of §5 as a dialogue, on a fresh connection.
#[test]
fn a_session_is_resumed_as_in_the_standards_example() {
    let mut scene = MobileScene::new();
    scene.romeo.vanish();
    let mut romeo = scene.romeo.again();
    let id = scene.id.clone();
    play(
        &mut [&mut romeo],
        &format!(
            "C: <resume xmlns='urn:xmpp:sm:3' h='0' previd='{id}'/>\nS: <resumed xmlns='urn:xmpp:sm:3' h='0' previd='{id}'/>"
        ),
    );
    assert_eq!(scene.server.sessions(), 2);
    assert!(Jid::parse(scene.romeo.full()).is_ok());
    scene.juliet.expect_alive();
}
