//! Claims of users in the name of others: their servers, their archives, their rooms.

use rookery_testkit::{Client, Config, Server};
use rookery_xml::{Element, ns};

/// Returns Romeo and Juliet, whose homes are the two shards.
fn scene() -> (Server, Client, Client) {
    let server = Server::new();
    let [romeo, juliet] = [("romeo", 0), ("juliet", 1)].map(|(stem, at)| format!("{}/r", server.name_at(stem, at)));
    let (romeo, juliet) = (server.online(&romeo), server.online(&juliet));
    (server, romeo, juliet)
}

fn delays(message: &Element) -> Vec<&str> {
    let delays = message.children().filter(|child| child.is("delay", ns::DELAY));
    delays.filter_map(|delay| delay.attr("from")).collect()
}

/// XEP-0203 §5: only the recipient's account and server say when they have received something. What
/// others have seen stays.
#[test]
fn delays_in_the_name_of_the_recipient_are_cut_out() {
    let (_, mut romeo, mut juliet) = scene();
    let (to, full) = (juliet.bare().to_owned(), juliet.full().to_owned());
    let delay = |from: &str| format!("<delay xmlns='urn:xmpp:delay' from='{from}' stamp='2002-09-10T23:08:25Z'/>");
    for (to, type_) in [(&to, "chat"), (&full, "chat"), (&full, "headline"), (&to, "normal")] {
        let forged: String = [to, &full, "example.org", "EXAMPLE.org"].map(delay).concat();
        let kept = delay("room@chat.example.net");
        romeo.send(&format!("<message type='{type_}' to='{to}'><body>late</body>{forged}{kept}</message>"));
        let message = juliet.expect_element();
        assert_eq!(delays(&message), ["room@chat.example.net"], "{type_} to {to}");
    }
    // A message that really waits says so, once and by the server.
    let account = juliet.bare().to_owned();
    juliet.send("<presence type='unavailable'/>");
    juliet.all();
    romeo.send(&format!("<message type='chat' to='{account}'><body>away</body>{}</message>", delay(&account)));
    romeo.expect_alive();
    juliet.send("<presence/>");
    let waited = juliet.all().into_iter().find(|stanza| stanza.name() == "message").expect("the message that waited");
    assert_eq!(delays(&waited), ["example.org"]);
    assert!(!format!("{waited:?}").contains("2002"));
}

/// RFC 6121 §2.1.6, §2.3.3: a roster push comes from the user's own account. Nobody learns by it
/// who is there either.
#[test]
fn roster_pushes_of_others_are_refused() {
    let (server, mut romeo, mut juliet) = scene();
    let item = "<query xmlns='jabber:iq:roster'><item jid='mercutio@example.org' subscription='both'/></query>";
    let absent = format!("{}/absent", juliet.bare());
    for to in [juliet.full(), &absent, "nobody@example.org/r"] {
        romeo.send(&format!("<iq type='set' id='p' to='{to}'>{item}</iq>"));
        let answer = romeo.expect_element();
        let error = answer.child("error", ns::CLIENT).expect("an error");
        // RFC 6121 §8.5.3.2.3, and the same where there is such a resource.
        assert!(error.child("service-unavailable", ns::STANZA_ERRORS).is_some(), "{to}: {answer:?}");
    }
    // §2.1.5, §2.3.3, whether there is such an account or not.
    for to in [juliet.bare(), "nobody@example.org"] {
        romeo.send(&format!("<iq type='set' id='p' to='{to}'>{item}</iq>"));
        let answer = romeo.expect_element();
        let error = answer.child("error", ns::CLIENT).expect("an error");
        assert!(error.child("forbidden", ns::STANZA_ERRORS).is_some(), "{to}: {answer:?}");
    }
    juliet.expect_nothing();
    // A request that only names the namespace is not affected.
    romeo.send(&format!("<iq type='get' id='g' to='{}'><query xmlns='jabber:iq:version'/></iq>", juliet.full()));
    juliet.expect("<iq type='get' id='g' from='*'><query xmlns='jabber:iq:version'/></iq>");
    // Neither do other servers.
    drop((server, romeo));
    let server = Server::with(Config { federates: true, ..Config::default() });
    let mut juliet = server.online("juliet/balcony");
    let push = format!("<iq type='set' id='p' from='montague.example' to='juliet@example.org/balcony'>{item}</iq>");
    server.incoming(&push);
    juliet.expect_nothing();
    assert!(server.take_left().iter().any(|left| left.text.contains("<service-unavailable ")));
}

/// XEP-0313 §4.2, XEP-0045 §7.8.2: results and invitations of others come, with the sender's own
/// address, by which clients tell them from real ones.
#[test]
fn a_sender_that_plays_an_archive_or_a_room_is_named() {
    let (_, mut romeo, mut juliet) = scene();
    let result = "<result xmlns='urn:xmpp:mam:2' id='1'><forwarded xmlns='urn:xmpp:forward:0'>\
                  <message xmlns='jabber:client' from='nurse@example.org'><body>lies</body></message></forwarded></result>";
    let invitation =
        "<x xmlns='http://jabber.org/protocol/muc#user'><invite from='nurse@example.org'/><password>x</password></x>";
    let from = romeo.full().to_owned();
    for payload in [result, invitation] {
        romeo.send(&format!("<message to='{}'>{payload}</message>", juliet.full()));
        assert_eq!(juliet.expect_element().attr("from"), Some(from.as_str()));
    }
    // The forged result is not in the archive.
    juliet.send("<iq type='set' id='q'><query xmlns='urn:xmpp:mam:2'/></iq>");
    assert!(!format!("{:?}", juliet.all()).contains("lies"));
}

/// XEP-0359 §3, XEP-0280 §7 and XEP-0191 are in `archive::ids`, `carbons::received` and `privacy`;
/// here the sender's account is forged in what it sends itself.
#[test]
fn nobody_answers_in_the_name_of_others() {
    let (_, mut romeo, mut juliet) = scene();
    let nurse = "nurse@example.org";
    juliet.send(&format!("<iq type='get' id='v' to='{}'><query xmlns='jabber:iq:version'/></iq>", romeo.full()));
    romeo.expect("<iq type='get' id='v' from='*'><query xmlns='jabber:iq:version'/></iq>");
    let answer = |from: &str| {
        format!("<iq type='result' id='v' from='{from}' to='{}'><query xmlns='jabber:iq:version'/></iq>", juliet.full())
    };
    romeo.send(&answer(nurse));
    romeo.expect_stream_error("invalid-from");
    juliet.expect_nothing();
}
