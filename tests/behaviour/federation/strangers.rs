//! Claims and requests of users of other servers, and what their servers are told.

use rookery_federation::{Address, FederationSettings, NotFound, Rule};
use rookery_hub::Value;
use rookery_stream::tls::certificate::Authority;
use rookery_testkit::client::xml;
use rookery_testkit::{Config, Internet};

use super::{chat, names, plain, scene, server, start};

#[test]
fn who_is_nowhere_is_told_by_its_cause() {
    let internet = Internet::default();
    let a = server(&internet, "a.example", plain);
    let mut romeo = a.online("romeo@a.example/orchard");
    let error = |condition: &str, type_: &str, domain: &str| {
        format!(
            "<message type='error' id='1' from='x@{domain}' to='romeo@a.example/orchard'><error type='{type_}'>\
             <{condition} xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>"
        )
    };
    chat(&mut romeo, "x@nowhere.example", "1");
    romeo.expect(&error("remote-server-not-found", "cancel", "nowhere.example"));
    internet.say("broken.example", Err(NotFound::NoAnswer));
    chat(&mut romeo, "x@broken.example", "1");
    romeo.expect(&error("remote-server-timeout", "wait", "broken.example"));
    // Nobody listens there.
    internet.say("gone.example", Ok(vec![Address::new("1.2.3.4:5269".parse().unwrap(), false)]));
    chat(&mut romeo, "x@gone.example", "1");
    romeo.expect(&error("remote-server-timeout", "wait", "gone.example"));
    // Neither an error nor a reply that nobody waits for is answered with an error.
    romeo.send("<message type='error' to='x@nowhere.example'/>");
    romeo.send("<iq type='result' id='9' to='x@nowhere.example'/>");
    romeo.expect_nothing();
}

/// Errors don't say more than the standard's condition: a nickname in a room is all that their
/// reader may know.
#[test]
fn errors_name_no_server() {
    let internet = Internet::default();
    let deny = |settings: &mut FederationSettings| settings.rules.deny = vec![Rule::read("excluded.example").unwrap()];
    let b = server(&internet, "b.example", deny);
    let mut juliet = b.online("juliet@b.example/balcony");
    let at = |socket: &str| Ok(vec![Address::new(socket.parse().unwrap(), false)]);
    internet.say("silent.example", Err(NotFound::NoAnswer));
    internet.say("refusing.example", at("1.2.3.4:5269"));
    internet.say("private.example", at("127.0.0.1:5222"));
    let other = Authority::new(1_700_000_000).expect("an authority");
    let foreign = other.issue(&names("foreign.example"), 1_700_000_000).expect("a certificate");
    let meeting = internet.meeting_with(&foreign, &names("foreign.example"), plain);
    let _foreign = start("foreign.example", Config::default(), meeting);
    let closed =
        |settings: &mut FederationSettings| settings.rules.deny = vec![Rule::read("b.example: we know you").unwrap()];
    let _closed = server(&internet, "closed.example", closed);
    for domain in ["nowhere", "silent", "refusing", "private", "foreign", "closed", "excluded"] {
        chat(&mut juliet, &format!("x@{domain}.example"), "1");
        let error = xml(&juliet.expect_element());
        let inside = error.split("<error").nth(1).expect("an error");
        for told in [domain, "1.2.3.4", "127.0.0.1", "certificate", "we know you"] {
            assert!(!inside.contains(told) || told == "excluded", "{domain}: {error}");
        }
        assert_eq!(inside.contains("<text"), domain == "excluded", "{error}");
    }
}

/// A server that answers all it gets with errors, and errors with errors.
#[test]
fn errors_are_not_answered_with_errors() {
    let (a, _b, mut romeo, mut juliet) = scene();
    let error = |to: &str| {
        format!(
            "<message type='error' to='{to}' id='1'><body>1</body><error type='cancel'>\
             <item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>"
        )
    };
    let before = a.counters().remote_out;
    for to in
        ["nobody@a.example", "a.example", "nobody@a.example/x", "room@conference.a.example", "nobody@nowhere.a.example"]
    {
        juliet.send(&error(to));
        juliet.send(&error(to).replace("message", "presence"));
        juliet.send(&error(to).replace("message", "iq"));
        juliet.send(&format!("<iq type='result' id='1' to='{to}'/>"));
    }
    juliet.all();
    assert_eq!(a.counters().remote_out, before);
    // An error for a user of this server is delivered, and has no other effect.
    juliet.send(&error("romeo@a.example/orchard"));
    assert!(xml(&romeo.expect_element()).contains("item-not-found"));
    juliet.expect_nothing();
    assert_eq!(a.counters().remote_out, before);
}

#[test]
fn what_is_for_own_users_is_refused_to_others() {
    let (_a, _b, mut romeo, _juliet) = scene();
    let requests = [
        ("b.example", "set", "<query xmlns='jabber:iq:register'><username>x</username><password>y</password></query>"),
        (
            "b.example",
            "set",
            "<command xmlns='http://jabber.org/protocol/commands' node='http://jabber.org/protocol/admin#add-user'/>",
        ),
        ("juliet@b.example", "get", "<query xmlns='jabber:iq:roster'/>"),
        (
            "juliet@b.example",
            "set",
            "<query xmlns='jabber:iq:roster'><item jid='romeo@a.example' subscription='both'/></query>",
        ),
        ("juliet@b.example", "get", "<query xmlns='jabber:iq:private'><x xmlns='urn:x'/></query>"),
        ("juliet@b.example", "set", "<query xmlns='urn:xmpp:mam:2'/>"),
        ("juliet@b.example", "set", "<block xmlns='urn:xmpp:blocking'><item jid='x@y.example'/></block>"),
        ("b.example", "set", "<enable xmlns='urn:xmpp:push:0' jid='push.example' node='n'/>"),
    ];
    for (to, type_, payload) in requests {
        romeo.send(&format!("<iq type='{type_}' id='q' to='{to}'>{payload}</iq>"));
        let answer = xml(&romeo.expect_element());
        assert!(answer.contains("type='error'"), "{payload}: {answer}");
    }
}

/// Only an account of this server has its rights: on another server anyone may have the same local
/// part (CVE-2020-8086).
#[test]
fn an_administrator_s_name_elsewhere_has_no_rights() {
    let internet = Internet::default();
    let admins = ("administration", "admins", Value::List(vec!["admin@b.example".into()]));
    let config = Config { options: vec![admins], ..Config::default() };
    let b = start("b.example", config, internet.meeting(&names("b.example"), plain));
    let a = server(&internet, "a.example", plain);
    let (mut own, mut other) = (b.online("admin@b.example/desk"), a.online("admin@a.example/desk"));
    for node in ["add-user", "delete-user", "disable-user", "edit-blacklist", "get-registered-users-num"] {
        let command = format!(
            "<iq type='set' id='q' to='b.example'><command xmlns='http://jabber.org/protocol/commands' \
             node='http://jabber.org/protocol/admin#{node}'/></iq>"
        );
        own.send(&command);
        let answer = xml(&own.expect_element());
        assert!(answer.contains("type='result'") && answer.contains("<command"), "{node}: {answer}");
        other.send(&command);
        let answer = xml(&other.expect_element());
        assert!(answer.contains("type='error'") && !answer.contains("jabber:x:data"), "{node}: {answer}");
    }
    other.send(
        "<iq type='get' id='q' to='b.example'><query xmlns='http://jabber.org/protocol/disco#items' \
         node='http://jabber.org/protocol/commands'/></iq>",
    );
    assert!(!xml(&other.expect_element()).contains("protocol/admin#"));
}

#[test]
fn what_others_forge_changes_nothing() {
    let (a, b, mut romeo, mut juliet) = scene();
    juliet.ask("<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>");
    // A roster push, an approval that nobody has asked for, and the answer to nobody's question.
    romeo.send("<iq type='set' id='1' to='juliet@b.example/balcony'><query xmlns='jabber:iq:roster'><item jid='x@y.example'/></query></iq>");
    romeo.send("<presence type='subscribed' to='juliet@b.example'/>");
    romeo.send("<presence type='unsubscribed' to='juliet@b.example'/>");
    romeo.all();
    juliet.all();
    let roster = xml(&juliet.ask("<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>"));
    assert!(!roster.contains("<item"), "{roster}");
    // Ids in the name of this server's archives are cut out, in whatever letters; those of others
    // stay.
    romeo.send(
        "<message to='juliet@b.example/balcony' type='chat'><body>hi</body>\
         <stanza-id xmlns='urn:xmpp:sid:0' by='Juliet@B.example' id='forged'/>\
         <stanza-id xmlns='urn:xmpp:sid:0' by='juliet@b.example' id='forged'/>\
         <stanza-id xmlns='urn:xmpp:sid:0' by='room@elsewhere.example' id='kept'/></message>",
    );
    let message = xml(&juliet.expect_element());
    assert!(!message.contains("forged") && message.contains("kept"), "{message}");
    // Forged carbon copies, and results of an archive that nobody has queried, are ordinary
    // messages: the server doesn't unpack them.
    let inner = "<forwarded xmlns='urn:xmpp:forward:0'><message xmlns='jabber:client' type='chat' \
                 from='nurse@b.example' to='juliet@b.example'><body>forged</body></message></forwarded>";
    for wrapper in [
        format!("<received xmlns='urn:xmpp:carbons:2'>{inner}</received>"),
        format!("<sent xmlns='urn:xmpp:carbons:2'>{inner}</sent>"),
        format!("<result xmlns='urn:xmpp:mam:2' queryid='q' id='1'>{inner}</result>"),
    ] {
        romeo.send(&format!("<message to='juliet@b.example/balcony' type='chat'>{wrapper}</message>"));
        for message in juliet.all() {
            assert_eq!(message.attr("from"), Some("romeo@a.example/orchard"), "{message:?}");
        }
    }
    // An id of an occupant, and a stamp in the name of this server.
    romeo.send(
        "<message to='juliet@b.example/balcony' type='chat'><body>hi</body>\
         <delay xmlns='urn:xmpp:delay' from='b.example' stamp='2001-01-01T00:00:00Z'/></message>",
    );
    let message = xml(&juliet.expect_element());
    assert!(!message.contains("2001-01-01"), "{message}");
    // The answer to a question that this server asks has an id that nobody knows.
    romeo.send("<iq type='result' id='ask-0-AAAAAAAAAAAAAAAA' to='b.example'/>");
    romeo.send("<iq type='result' id='ask-0-AAAAAAAAAAAAAAAA' to='juliet@b.example/balcony'/>");
    assert!(juliet.all().iter().all(|element| element.attr("from") == Some("romeo@a.example/orchard")));
    drop((a, b));
}
