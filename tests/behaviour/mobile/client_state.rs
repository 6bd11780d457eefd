//! XEP-0352: stanzas that wait while a client is inactive.

use rookery_fanout::OutboxLimits;
use rookery_testkit::{Client, Config, Server, befriend};

fn friends(server: &Server) -> (Client, Client) {
    let mut juliet = server.online("juliet/balcony");
    let mut romeo = server.online("romeo/orchard");
    befriend(&mut juliet, &mut romeo);
    (juliet, romeo)
}

/// §3.2: presence waits, the newest of each sender, and all comes when the client is active.
#[test]
fn presence_waits_and_comes_together() {
    let server = Server::new();
    let (mut juliet, mut romeo) = friends(&server);
    romeo.send("<inactive xmlns='urn:xmpp:csi:0'/>");
    romeo.pump();
    for show in ["away", "xa", "dnd"] {
        juliet.send(&format!("<presence><show>{show}</show></presence>"));
        juliet.pump();
    }
    juliet.send(
        "<message to='romeo@example.org/orchard' type='chat'><composing xmlns='http://jabber.org/protocol/chatstates'/></message>",
    );
    juliet.pump();
    romeo.expect_nothing();
    // §5.1: what waited comes before the reply to what follows.
    romeo.send("<active xmlns='urn:xmpp:csi:0'/><iq type='get' id='1'><ping xmlns='urn:xmpp:ping'/></iq>");
    romeo.expect("<presence from='juliet@example.org/balcony'><show>dnd</show></presence>");
    romeo.expect("<message type='chat' from='juliet@example.org/balcony'><composing xmlns='http://jabber.org/protocol/chatstates'/></message>");
    romeo.expect("<iq type='result' id='1' from='*'/>");
    juliet.send("<presence/>");
    romeo.expect("<presence from='juliet@example.org/balcony'/>");
}

/// News that a user wants to be told goes at once, behind what waits before it.
#[test]
fn what_matters_takes_along_what_waits() {
    let server = Server::new();
    let (mut juliet, mut romeo) = friends(&server);
    romeo.send("<inactive xmlns='urn:xmpp:csi:0'/>");
    romeo.pump();
    juliet.send("<presence><show>away</show></presence>");
    juliet.pump();
    romeo.expect_nothing();
    juliet.send("<message to='romeo@example.org' type='chat'><body>hi</body></message>");
    romeo.expect("<presence from='juliet@example.org/balcony'><show>away</show></presence>");
    romeo.expect_message("juliet@example.org/balcony", "hi");
    juliet.send("<presence/>");
    juliet.pump();
    romeo.expect_nothing();
}

/// The soft limit of the outbox bounds what waits.
#[test]
fn what_waits_is_bounded() {
    let mut config = Config::default();
    config.settings.outbox = OutboxLimits { soft: 4096, hard: 65536, ..OutboxLimits::default() };
    let server = Server::with(config);
    let (mut juliet, mut romeo) = friends(&server);
    romeo.send("<inactive xmlns='urn:xmpp:csi:0'/>");
    romeo.pump();
    for number in 0..50 {
        juliet.send(&format!(
            "<message to='romeo@example.org/orchard' id='{number}'><composing xmlns='http://jabber.org/protocol/chatstates'/></message>"
        ));
        juliet.pump();
    }
    let got = romeo.all().len();
    assert!((10..50).contains(&got), "{got}");
    romeo.send("<active xmlns='urn:xmpp:csi:0'/>");
    assert_eq!(got + romeo.all().len(), 50);
}

/// §5.2: a resumed stream is active.
#[test]
fn a_resumed_stream_is_active() {
    let server = Server::new();
    let (mut juliet, mut romeo) = friends(&server);
    let id = romeo.enable();
    romeo.send("<inactive xmlns='urn:xmpp:csi:0'/>");
    romeo.pump();
    juliet.send("<presence><show>away</show></presence>");
    juliet.pump();
    romeo.vanish();
    let mut again = romeo.again();
    again.resume(romeo.jid.as_ref().unwrap(), &id, 0);
    again.expect("<presence from='juliet@example.org/balcony'><show>away</show></presence>");
    juliet.send("<presence/>");
    again.expect("<presence from='juliet@example.org/balcony'/>");
}

/// The presence that tells of a new room is not lost for one that tells less: nothing else says
/// that the room waits for its configuration (XEP-0045 §10.1).
#[test]
fn events_of_a_room_are_not_superseded() {
    let server = Server::new();
    let mut romeo = server.online("romeo/orchard");
    romeo.send("<inactive xmlns='urn:xmpp:csi:0'/>");
    let room = "new@conference.example.org/romeo";
    romeo.send(&format!("<presence to='{room}'><x xmlns='http://jabber.org/protocol/muc'/></presence>"));
    romeo.send(&format!("<presence to='{room}'><show>away</show></presence>"));
    romeo.send("<active xmlns='urn:xmpp:csi:0'/>");
    let heard = romeo.all();
    let codes = heard.iter().filter_map(|it| it.child("x", "http://jabber.org/protocol/muc#user")).flat_map(|user| {
        user.children().filter(|child| child.name() == "status").filter_map(|status| status.attr("code"))
    });
    assert_eq!(codes.filter(|code| *code == "201").count(), 1, "{heard:?}");
}
