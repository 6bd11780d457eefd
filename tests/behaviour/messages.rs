//! RFC 6121 §8: the rules of delivery, row by row of the tables in §8.5.4, with and without the
//! module for offline messages.

use rookery_testkit::{Client, Config, Server, play};

/// The fate of a stanza, in a row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessageFate {
    /// Delivered to that session, or those sessions, and nothing else.
    To(&'static [usize]),
    /// The sender gets this error, of that type.
    Error(&'static str, &'static str),
    /// Nobody hears of it.
    Silence,
}

use MessageFate::{Error, Silence, To};

const UNAVAILABLE: MessageFate = Error("cancel", "service-unavailable");

/// Sends one stanza to `to` and checks what becomes of it. The sender's name is `sender`.
fn row(sender: &mut Client, receivers: &mut [Client], stanza: &str, to: &str, fate: MessageFate) {
    let stanza = stanza.replace("TO", to);
    sender.send(&stanza);
    let delivered: &[usize] = match fate {
        To(receivers) => receivers,
        _ => &[],
    };
    for (at, receiver) in receivers.iter_mut().enumerate() {
        receiver.pump();
        if delivered.contains(&at) {
            let found = receiver.expect_element();
            assert_eq!(found.attr("from"), Some(sender.full()), "{stanza}");
            assert_eq!(found.attr("to"), Some(to), "an address is not rewritten (§8.5.2.1.1): {stanza}");
        }
        receiver.expect_nothing();
    }
    if let Error(type_, condition) = fate {
        let name = rookery_testkit::element(&stanza).name().to_owned();
        sender.expect(&format!(
            "<{name} type='error' id='1' from='{to}'><error type='{type_}'>\
             <{condition} xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></{name}>"
        ));
    }
    sender.expect_nothing();
}

fn message(type_: &str) -> String {
    format!("<message to='TO' type='{type_}' id='1'><body>x</body></message>")
}

fn without_offline() -> Server {
    Server::with(Config { modules_off: vec!["offline"], ..Config::default() })
}

/// §8.5.1: no such user. Headlines and errors are dropped, the rest is answered.
#[test]
fn a_nonexistent_account_gets_no_messages_and_no_requests() {
    for server in [Server::new(), without_offline()] {
        let mut sender = server.login("juliet/balcony");
        for to in ["nobody@example.org", "nobody@example.org/r"] {
            for (type_, fate) in [
                ("normal", UNAVAILABLE),
                ("chat", UNAVAILABLE),
                ("groupchat", UNAVAILABLE),
                ("headline", Silence),
                ("error", Silence),
            ] {
                row(&mut sender, &mut [], &message(type_), to, fate);
            }
            for type_ in ["get", "set"] {
                let iq = format!("<iq to='TO' type='{type_}' id='1'><query xmlns='urn:example'/></iq>");
                row(&mut sender, &mut [], &iq, to, UNAVAILABLE);
            }
            for type_ in ["result", "error"] {
                row(&mut sender, &mut [], &format!("<iq to='TO' type='{type_}' id='1'/>"), to, Silence);
            }
            row(&mut sender, &mut [], "<presence to='TO'/>", to, Silence);
            row(&mut sender, &mut [], "<presence to='TO' type='unavailable'/>", to, Silence);
        }
    }
}

/// §8.5.2.2 and §8.5.3.2: the account has no connected resource, with nothing that keeps messages.
#[test]
fn without_a_resource_or_storage_messages_are_refused_by_type() {
    let server = without_offline();
    server.account("romeo");
    let mut sender = server.login("juliet/balcony");
    for to in ["romeo@example.org", "romeo@example.org/orchard"] {
        for (type_, fate) in [
            ("normal", UNAVAILABLE),
            ("chat", UNAVAILABLE),
            ("groupchat", UNAVAILABLE),
            ("headline", Silence),
            ("error", Silence),
        ] {
            row(&mut sender, &mut [], &message(type_), to, fate);
        }
    }
}

/// The same where messages are kept: to the bare JID normal and chat wait, and so does chat to a
/// full JID.
#[test]
fn without_a_resource_messages_are_stored_by_type() {
    let server = Server::new();
    server.account("romeo");
    let mut sender = server.login("juliet/balcony");
    for (to, type_, fate) in [
        ("romeo@example.org", "normal", Silence),
        ("romeo@example.org", "chat", Silence),
        ("romeo@example.org", "groupchat", UNAVAILABLE),
        ("romeo@example.org", "headline", Silence),
        ("romeo@example.org", "error", Silence),
        ("romeo@example.org/orchard", "normal", UNAVAILABLE),
        ("romeo@example.org/orchard", "chat", Silence),
        ("romeo@example.org/orchard", "groupchat", UNAVAILABLE),
        ("romeo@example.org/orchard", "headline", Silence),
        ("romeo@example.org/orchard", "error", Silence),
    ] {
        row(&mut sender, &mut [], &message(type_).replace(">x<", &format!(">{to} {type_}<")), to, fate);
    }
    let mut romeo = server.online("romeo/orchard");
    let kept = ["romeo@example.org normal", "romeo@example.org chat", "romeo@example.org/orchard chat"];
    assert_eq!(romeo.bodies(), kept);
}

/// §8.5.2.1.1: "if there are no non-negative available resources" it is as if there were none; a
/// full JID works all the same.
#[test]
fn resources_that_take_no_messages_count_as_none() {
    let server = without_offline();
    let mut sender = server.login("juliet/balcony");
    let mut negative = server.login("romeo/negative");
    negative.send("<presence><priority>-1</priority></presence>");
    negative.expect_presence_of_itself();
    let connected = server.login("romeo/connected");
    let mut receivers = [negative, connected];
    for (type_, bare) in [
        ("normal", UNAVAILABLE),
        ("chat", UNAVAILABLE),
        ("groupchat", UNAVAILABLE),
        ("headline", Silence),
        ("error", Silence),
    ] {
        row(&mut sender, &mut receivers, &message(type_), "romeo@example.org", bare);
        row(&mut sender, &mut receivers, &message(type_), "romeo@example.org/negative", To(&[0]));
        row(&mut sender, &mut receivers, &message(type_), "romeo@example.org/connected", To(&[1]));
    }
}

/// §8.5.2.1.1: to the bare JID "deliver the message to all of the resources" that are available
/// with a priority that isn't negative; groupchat and errors never.
#[test]
fn available_resources_get_messages_by_their_types_and_priorities() {
    let server = Server::new();
    let mut sender = server.login("juliet/balcony");
    let mut receivers: Vec<Client> = ["orchard", "tomb", "mantua"].map(|r| server.login(&format!("romeo/{r}"))).into();
    for (at, presence) in ["<presence/>", "<presence><priority>5</priority></presence>"].iter().enumerate() {
        receivers[at].send(presence);
    }
    receivers[2].send("<presence><priority>-128</priority></presence>");
    receivers.iter_mut().for_each(|receiver| drop(receiver.all()));
    for (type_, bare) in [
        ("normal", To(&[0, 1])),
        ("chat", To(&[0, 1])),
        ("groupchat", UNAVAILABLE),
        ("headline", To(&[0, 1])),
        ("error", Silence),
    ] {
        row(&mut sender, &mut receivers, &message(type_), "romeo@example.org", bare);
        row(&mut sender, &mut receivers, &message(type_), "romeo@example.org/tomb", To(&[1]));
        row(&mut sender, &mut receivers, &message(type_), "romeo@example.org/mantua", To(&[2]));
    }
    // §5.2.2: a type that nobody knows counts as normal.
    row(&mut sender, &mut receivers, &message("urgent"), "romeo@example.org", To(&[0, 1]));
    row(
        &mut sender,
        &mut receivers,
        "<message to='TO' id='1'><body>x</body></message>",
        "romeo@example.org",
        To(&[0, 1]),
    );
}

/// §8.5.3.2.1: no resource of that name, while others are available.
#[test]
fn a_full_jid_without_a_resource_follows_the_standards_table() {
    for server in [Server::new(), without_offline()] {
        let mut sender = server.login("juliet/balcony");
        let mut receivers = [server.online("romeo/orchard")];
        for (type_, fate) in
            [("normal", UNAVAILABLE), ("groupchat", UNAVAILABLE), ("headline", Silence), ("error", Silence)]
        {
            row(&mut sender, &mut receivers, &message(type_), "romeo@example.org/tomb", fate);
        }
        // Chat goes on as if for the bare JID; the address stays as it was.
        sender.send("<message to='romeo@example.org/tomb' type='chat'><body>x</body></message>");
        receivers[0].expect_message("juliet@example.org/balcony", "x");
        row(&mut sender, &mut receivers, "<presence to='TO'/>", "romeo@example.org/tomb", Silence);
        row(&mut sender, &mut receivers, "<presence to='TO' type='unavailable'/>", "romeo@example.org/tomb", Silence);
        for type_ in ["get", "set"] {
            let iq = format!("<iq to='TO' type='{type_}' id='1'><query xmlns='urn:example'/></iq>");
            row(&mut sender, &mut receivers, &iq, "romeo@example.org/tomb", UNAVAILABLE);
        }
        row(&mut sender, &mut receivers, "<iq to='TO' type='result' id='1'/>", "romeo@example.org/tomb", Silence);
    }
}

/// §8.5.2.1.3 and §8.5.3.1: IQs go to full JIDs; for a bare JID the server answers, and never
/// delivers.
#[test]
fn a_request_reaches_a_full_jid_only() {
    let server = Server::new();
    let mut sender = server.login("juliet/balcony");
    let mut receivers = [server.online("romeo/orchard")];
    for type_ in ["get", "set"] {
        let iq = format!("<iq to='TO' type='{type_}' id='1'><query xmlns='urn:example'/></iq>");
        row(&mut sender, &mut receivers, &iq, "romeo@example.org/orchard", To(&[0]));
        row(&mut sender, &mut receivers, &iq, "romeo@example.org", UNAVAILABLE);
        row(&mut sender, &mut receivers, &iq, "example.org", UNAVAILABLE);
    }
    for type_ in ["result", "error"] {
        let iq = format!("<iq to='TO' type='{type_}' id='1'/>");
        row(&mut sender, &mut receivers, &iq, "romeo@example.org/orchard", To(&[0]));
        row(&mut sender, &mut receivers, &iq, "romeo@example.org", Silence);
        row(&mut sender, &mut receivers, &iq, "example.org", Silence);
    }
    // RFC 6120 §8.2.3: exactly one child, an id, and one of four types.
    play(
        &mut [&mut sender],
        "C: <iq type='get' id='a'/>
         S: <iq type='error' id='a'><error type='modify'><bad-request xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         C: <iq type='set' id='b'><x xmlns='urn:x'/><y xmlns='urn:y'/></iq>
         S: <iq type='error' id='b'><error type='modify'><bad-request xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         C: <iq type='put' id='c'><x xmlns='urn:x'/></iq>
         S: <iq type='error' id='c'><error type='modify'><bad-request xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         C: <iq id='d'><x xmlns='urn:x'/></iq>
         S: <iq type='error' id='d'><error type='modify'><bad-request xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         C: <iq type='get'><x xmlns='urn:x'/></iq>
         S: <iq type='error'><error type='modify'><bad-request xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>",
    );
}

/// RFC 6120 §10.3: what a client sends without 'to' is for its own account.
#[test]
fn stanzas_without_to_are_for_the_own_account() {
    let server = Server::new();
    let mut one = server.online("juliet/balcony");
    let mut other = server.online("juliet/chamber");
    one.all();
    other.all();
    one.send("<message><body>to myself</body></message>");
    one.expect_message("juliet@example.org/balcony", "to myself");
    other.expect_message("juliet@example.org/balcony", "to myself");
    play(
        &mut [&mut one],
        "C: <iq type='get' id='1'><query xmlns='urn:example'/></iq>
         S: <iq type='error' id='1' from='juliet@example.org'><error type='cancel'>
              <service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         C: <iq type='get' id='2'><ping xmlns='urn:xmpp:ping'/></iq>
         S: <iq type='result' id='2' from='juliet@example.org'/>
         C: <iq type='set' id='3'><session xmlns='urn:ietf:params:xml:ns:xmpp-session'/></iq>
         S: <iq type='result' id='3' from='juliet@example.org'/>
         C: <iq type='result' id='4'/>
         C: <presence type='subscribe'/>
         S: <presence type='error'><error type='modify'><bad-request xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></presence>",
    );
}

/// RFC 6120 §10.5: the domain itself, and §8.3.3.16: domains that are not here.
#[test]
fn stanzas_for_the_domain_itself_and_for_unknown_domains_are_refused() {
    let server = Server::new();
    let mut sender = server.login("juliet/balcony");
    for type_ in ["normal", "chat", "groupchat"] {
        row(&mut sender, &mut [], &message(type_), "example.org", UNAVAILABLE);
        row(&mut sender, &mut [], &message(type_), "romeo@example.com", Error("cancel", "remote-server-not-found"));
    }
    row(&mut sender, &mut [], &message("error"), "romeo@example.com", Silence);
    row(&mut sender, &mut [], "<presence to='TO'/>", "example.org", Silence);
    row(
        &mut sender,
        &mut [],
        "<presence id='1' to='TO'/>",
        "romeo@example.com",
        Error("cancel", "remote-server-not-found"),
    );
    row(&mut sender, &mut [], "<presence to='TO' type='unavailable'/>", "romeo@example.com", Silence);
    let iq = "<iq to='TO' type='get' id='1'><query xmlns='urn:example'/></iq>";
    row(&mut sender, &mut [], iq, "romeo@example.com", Error("cancel", "remote-server-not-found"));
    // §8.3.3.8: no address at all, told as it was written.
    row(&mut sender, &mut [], &message("chat"), "@example.org", Error("modify", "jid-malformed"));
    row(&mut sender, &mut [], iq, "a@b@example.org/", Error("modify", "jid-malformed"));
}

/// RFC 6120 §8.1.2.1: the server stamps who it is from, whatever the client said, and takes
/// addresses prepared.
#[test]
fn senders_and_addresses_are_prepared() {
    let server = Server::new();
    let mut juliet = server.login("juliet/balcony");
    let mut romeo = server.login("romeo/Orchard & 'more' <here>");
    play(
        &mut [&mut juliet, &mut romeo],
        "juliet C: <message to='ROMEO@Example.ORG/Orchard &amp; &apos;more&apos; &lt;here>'><body>1</body></message>
         romeo  S: <message to='romeo@example.org/Orchard &amp; &apos;more&apos; &lt;here>' from='juliet@example.org/balcony'>
                     <body>1</body></message>
         juliet C: <message from='juliet@example.org' to='romeo@example.org/Orchard &amp; &apos;more&apos; &lt;here>' id='2'/>
         romeo  S: <message from='juliet@example.org/balcony' id='2'/>
         romeo  C: <message from='romeo@example.org/Orchard &amp; &apos;more&apos; &lt;here>' to='juliet@example.org/balcony' id='3'/>
         juliet S: <message from='romeo@example.org/Orchard &amp; &apos;more&apos; &lt;here>' id='3'/>",
    );
}
