//! A restart as seen by contacts on other servers and by push services.

use rookery_testkit::Config;

use super::*;

fn federating() -> Server {
    Server::with(Config { federates: true, ..Config::default() })
}

/// Contacts on other servers may have come or gone while the server was away. Each account asks
/// them once (RFC 6121 §4.3), however many sessions it has, and all of its sessions get the
/// answers.
#[test]
fn contacts_elsewhere_are_asked_once() {
    let server = federating();
    let [mut phone, mut desk] = ["romeo/phone", "romeo/desk"].map(|name| server.online(name));
    for contact in ["juliet", "nurse"] {
        phone.send(&format!("<presence type='subscribe' to='{contact}@example.net'/>"));
        phone.pump();
        server.incoming(&format!("<presence type='subscribed' from='{contact}@example.net' to='romeo@example.org'/>"));
    }
    server.incoming("<presence from='juliet@example.net/balcony' to='romeo@example.org'/>");
    phone.all();
    desk.all();
    let ids = [phone.enable(), desk.enable()];
    server.take_left();
    server.hand_over(AWAY_MS);
    server.advance(2000);
    let mut left: Vec<_> = server.take_left().into_iter().map(|left| left.text).collect();
    left.sort();
    let probe = |to: &str| format!("<presence to='{to}@example.net' from='romeo@example.org' type='probe'/>");
    assert_eq!(left, [probe("juliet"), probe("nurse")]);
    server.incoming("<presence type='unavailable' from='juliet@example.net' to='romeo@example.org'/>");
    server.advance(10_000);
    assert!(server.take_left().is_empty());
    for (client, id) in [&phone, &desk].into_iter().zip(ids) {
        let heard = back(client, &id, 0).0.all();
        let news = |found: &&rookery_xml::Element| found.attr("from") == Some("juliet@example.net");
        assert_eq!(heard.iter().filter(news).count(), 1, "{heard:?}");
    }
}

/// XEP-0357: a client that doesn't notice that its connection is gone is woken by a push for the
/// messages that it may have missed. If it had no connection before, it was woken then.
#[test]
fn a_sleeping_client_is_called_for_what_it_may_have_missed() {
    for was_lost in [false, true] {
        let server = federating();
        let mut juliet = server.online("juliet/balcony");
        let mut romeo = server.online("romeo/orchard");
        romeo.ask("<iq type='set' id='p'><enable xmlns='urn:xmpp:push:0' jid='push.example.net' node='n'/></iq>");
        let id = romeo.enable();
        write(&mut juliet, "romeo@example.org", "hi");
        if was_lost {
            romeo.vanish();
        }
        let called = |server: &Server| server.take_left().iter().filter(|left| left.to == "push.example.net").count();
        assert_eq!(called(&server), usize::from(was_lost));
        server.hand_over(AWAY_MS);
        assert_eq!(called(&server), usize::from(!was_lost));
        server.hand_over(AWAY_MS);
        assert_eq!(called(&server), 0, "once");
        let (mut romeo, _) = back(&romeo, &id, 0);
        assert_eq!(romeo.bodies(), ["hi"]);
    }
}
