//! XEP-0191: its requests, and the stanzas that they stop. Section numbers are those of the
//! standard.

use rookery_hub::Value;
use rookery_testkit::{Config, Server, play};

use super::{BLOCKED, PrivacyScene, UNAVAILABLE, block};

/// §3.1.
#[test]
fn the_domain_shows_the_feature() {
    let mut juliet = Server::new().login("juliet/balcony");
    let info = juliet
        .ask("<iq type='get' id='d' to='example.org'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>");
    let query = info.child("query", "http://jabber.org/protocol/disco#info").expect("a query");
    for feature in ["urn:xmpp:blocking", "jabber:iq:privacy"] {
        assert!(query.children().any(|child| child.attr("var") == Some(feature)), "{feature}");
    }
}

/// §3.2 to §3.5, with the addresses of the examples: the list, and the pushes to the resources that
/// have requested it.
#[test]
fn a_block_list_is_pushed_to_those_who_asked_for_it() {
    let server = Server::new();
    let mut chamber = server.login("juliet/chamber").with_name("chamber");
    let mut balcony = server.login("juliet/balcony").with_name("balcony");
    let mut nook = server.login("juliet/nook").with_name("nook");
    play(
        &mut [&mut chamber, &mut balcony, &mut nook],
        "chamber C: <iq type='get' id='blocklist1'><blocklist xmlns='urn:xmpp:blocking'/></iq>
         chamber S: <iq type='result' id='blocklist1' from='juliet@example.org'><blocklist xmlns='urn:xmpp:blocking'/></iq>
         balcony C: <iq type='get' id='blocklist2'><blocklist xmlns='urn:xmpp:blocking'/></iq>
         balcony S: <iq type='result' id='blocklist2' from='juliet@example.org'><blocklist xmlns='urn:xmpp:blocking'/></iq>
         chamber C: <iq type='set' id='block1'><block xmlns='urn:xmpp:blocking'><item jid='romeo@montague.net'/></block></iq>
         chamber S: <iq type='result' id='block1' from='juliet@example.org'/>
                    <iq type='set' id='*'><block xmlns='urn:xmpp:blocking'><item jid='romeo@montague.net'/></block></iq>
         balcony S: <iq type='set' id='*'><block xmlns='urn:xmpp:blocking'><item jid='romeo@montague.net'/></block></iq>
         # From any resource, whether it follows the list or not; several at once.
         nook    C: <iq type='set' id='block2'><block xmlns='urn:xmpp:blocking'>
                      <item jid='Iago@Shakespeare.lit'/><item jid='romeo@montague.net'/></block></iq>
         nook    S: <iq type='result' id='block2' from='juliet@example.org'/>
         chamber S: <iq type='set' id='*'><block xmlns='urn:xmpp:blocking'>
                      <item jid='iago@shakespeare.lit'/><item jid='romeo@montague.net'/></block></iq>
         balcony S: <iq type='set' id='*'><block xmlns='urn:xmpp:blocking'>
                      <item jid='iago@shakespeare.lit'/><item jid='romeo@montague.net'/></block></iq>
         nook    C: <iq type='get' id='blocklist3'><blocklist xmlns='urn:xmpp:blocking'/></iq>
         nook    S: <iq type='result' id='blocklist3' from='juliet@example.org'><blocklist xmlns='urn:xmpp:blocking'>
                      <item jid='iago@shakespeare.lit'/><item jid='romeo@montague.net'/></blocklist></iq>
         nook    C: <iq type='set' id='unblock1'><unblock xmlns='urn:xmpp:blocking'><item jid='romeo@montague.net'/></unblock></iq>
         nook    S: <iq type='result' id='unblock1' from='juliet@example.org'/>
                    <iq type='set' id='*'><unblock xmlns='urn:xmpp:blocking'><item jid='romeo@montague.net'/></unblock></iq>
         chamber S: <iq type='set' id='*'><unblock xmlns='urn:xmpp:blocking'><item jid='romeo@montague.net'/></unblock></iq>
         balcony S: <iq type='set' id='*'><unblock xmlns='urn:xmpp:blocking'><item jid='romeo@montague.net'/></unblock></iq>
         nook    C: <iq type='set' id='unblock2'><unblock xmlns='urn:xmpp:blocking'/></iq>
         nook    S: <iq type='result' id='unblock2' from='juliet@example.org'/>
                    <iq type='set' id='*'><unblock xmlns='urn:xmpp:blocking'/></iq>
         chamber S: <iq type='set' id='*'><unblock xmlns='urn:xmpp:blocking'/></iq>
         balcony S: <iq type='set' id='*'><unblock xmlns='urn:xmpp:blocking'/></iq>
         nook    C: <iq type='get' id='blocklist4'><blocklist xmlns='urn:xmpp:blocking'/></iq>
         nook    S: <iq type='result' id='blocklist4' from='juliet@example.org'><blocklist xmlns='urn:xmpp:blocking'/></iq>",
    );
}

/// §3.3: messages and requests from a blocked contact come back as errors; other stanzas are
/// dropped.
#[test]
fn stanzas_from_the_blocked_are_refused() {
    for shard in [0, 1] {
        let mut scene = PrivacyScene::at(shard);
        scene.block();
        for to in ["JULIET", "JULIET/balcony"] {
            let dialogue = "
                romeo C: <message to='TO' type='chat' id='m1'><body>Wherefore?</body></message>
                romeo S: <message type='error' id='m1' from='TO'>ERROR</message>
                romeo C: <message to='TO' id='m2'><body>Wherefore?</body></message>
                romeo S: <message type='error' id='m2' from='TO'>ERROR</message>
                romeo C: <iq to='TO' type='get' id='i1'><query xmlns='jabber:iq:version'/></iq>
                romeo S: <iq type='error' id='i1' from='TO'>ERROR</iq>
                romeo C: <iq to='TO' type='set' id='i2'><query xmlns='jabber:iq:version'/></iq>
                romeo S: <iq type='error' id='i2' from='TO'>ERROR</iq>
                romeo C: <iq to='TO' type='result' id='i3'/>
                         <message to='TO' type='headline'><body>News</body></message>
                         <message to='TO' type='groupchat'><body>All</body></message>
                         <message to='TO' type='error'><body>Wrong</body></message>
                         <presence to='TO'/><presence to='TO' type='unavailable'/>
                         <presence to='TO' type='probe'/><presence to='TO' type='error'/>
                         <presence><status>Here</status></presence>
                romeo S: <presence from='ROMEO/orchard'><status>Here</status></presence>
                juliet S:";
            scene.play(&dialogue.replace("TO", to).replace("ERROR", UNAVAILABLE));
        }
    }
}

/// §3.3: stanzas to a blocked contact come back with the condition for blocked contacts.
#[test]
fn stanzas_to_the_blocked_are_refused() {
    for shard in [0, 1] {
        let mut scene = PrivacyScene::at(shard);
        scene.block();
        let dialogue = "
            juliet C: <message to='ROMEO' type='chat' id='m1'><body>Can you hear me now?</body></message>
            juliet S: <message type='error' id='m1' from='ROMEO'>ERROR</message>
            juliet C: <message to='ROMEO/orchard' id='m2'><body>Can you hear me now?</body></message>
            juliet S: <message type='error' id='m2' from='ROMEO/orchard'>ERROR</message>
            juliet C: <iq to='ROMEO/orchard' type='get' id='i1'><query xmlns='jabber:iq:version'/></iq>
            juliet S: <iq type='error' id='i1' from='ROMEO/orchard'>ERROR</iq>
            juliet C: <presence to='ROMEO' id='p1'/>
            juliet S: <presence type='error' id='p1' from='ROMEO'>ERROR</presence>
            juliet C: <presence to='ROMEO' type='subscribe' id='p2'/>
            juliet S: <presence type='error' id='p2' from='ROMEO'>ERROR</presence>
            juliet C: <iq to='ROMEO/orchard' type='result' id='i2'/><presence to='ROMEO' type='unavailable'/>
                      <presence to='ROMEO' type='probe'/><presence><status>Here</status></presence>
            juliet S: <presence from='JULIET/balcony'><status>Here</status></presence>
            romeo  S:";
        scene.play(&dialogue.replace("ERROR", BLOCKED));
    }
}

/// §3.3, §3.4: the contact sees the account become unavailable and available again, and the account
/// sees the same of the contact.
#[test]
fn a_block_hides_presence_until_it_ends() {
    for shard in [0, 1] {
        let mut scene = PrivacyScene::at(shard);
        scene.play(
            "juliet C: <iq type='set' id='b'><block xmlns='urn:xmpp:blocking'><item jid='ROMEO'/></block></iq>
             juliet S: <presence type='unavailable' from='ROMEO'/><iq type='result' id='b' from='JULIET'/>
             romeo  S: <presence type='unavailable' from='JULIET/balcony'/>
             romeo  C: <presence><status>Hello</status></presence>
             romeo  S: <presence from='ROMEO/orchard'><status>Hello</status></presence>
             juliet C: <iq type='set' id='u'><unblock xmlns='urn:xmpp:blocking'><item jid='ROMEO'/></unblock></iq>
             juliet S: <iq type='result' id='u' from='JULIET'/><presence from='ROMEO/orchard'><status>Hello</status></presence>
             romeo  S: <presence from='JULIET/balcony'/>
             romeo  C: <message to='JULIET'><body>There you are</body></message>
             juliet S: <message from='ROMEO/orchard'><body>There you are</body></message>",
        );
    }
}

/// §3.3: only contacts that may see the presence are told of its end; a stranger learns nothing.
#[test]
fn a_stranger_hears_nothing_of_a_block() {
    let mut scene = PrivacyScene::at(1);
    let mut paris = scene.server.online("paris/crypt");
    block(&mut scene.juliet, &["paris@example.org", "tybalt@elsewhere.example", "elsewhere.example"]);
    paris.expect_nothing();
    assert_eq!(scene.server.take_left(), []);
}

/// §3.3: a recipient of directed presence is told of its end by the block, and not once more at the
/// end of the session.
#[test]
fn directed_presence_ends_with_a_block() {
    let server = Server::with(Config { federates: true, ..Config::default() });
    let mut juliet = server.online("juliet/balcony");
    juliet.send("<presence to='room@chat.elsewhere.example/Juliet'/>");
    assert_eq!(server.take_left().len(), 1);
    block(&mut juliet, &["chat.elsewhere.example"]);
    let left = server.take_left();
    assert!(left.len() == 1 && left[0].text.contains("type='unavailable'"), "{left:?}");
    juliet.close();
    assert_eq!(server.take_left(), []);
}

/// §7: the four forms of addresses, for users of other servers.
#[test]
fn a_blocked_address_includes_its_accounts_and_resources() {
    for (item, blocked, others) in [
        ("a@x.example/r", &["a@x.example/r"][..], &["a@x.example/s", "b@x.example/r", "x.example"][..]),
        ("a@x.example", &["a@x.example/r", "a@x.example"], &["b@x.example/r", "x.example", "a@y.x.example"]),
        ("x.example/r", &["x.example/r"], &["a@x.example/r", "x.example"]),
        ("x.example", &["a@x.example/r", "x.example/r", "x.example"], &["y.x.example", "a@y.example/r"]),
    ] {
        let server = Server::with(Config { federates: true, ..Config::default() });
        let mut juliet = server.online("juliet/balcony");
        block(&mut juliet, &[item]);
        for (from, is_blocked) in blocked.iter().map(|from| (from, true)).chain(others.iter().map(|from| (from, false)))
        {
            server.incoming(&format!("<message from='{from}' to='juliet@example.org'><body>x</body></message>"));
            assert_eq!(juliet.bodies().is_empty(), is_blocked, "{item} {from}");
            assert_eq!(server.take_left().len(), usize::from(is_blocked), "{item} {from}");
        }
    }
}

/// §5: no block applies to the user's own resources and server.
#[test]
fn the_own_account_and_server_are_never_blocked() {
    let server = Server::new();
    let mut balcony = server.online("juliet/balcony");
    let mut chamber = server.online("juliet/chamber");
    balcony.all();
    chamber.all();
    block(&mut balcony, &["juliet@example.org", "juliet@example.org/chamber", "example.org"]);
    balcony.all();
    chamber.send("<message to='juliet@example.org/balcony'><body>Note</body></message>");
    balcony.expect_message("juliet@example.org/chamber", "Note");
    chamber.send("<presence><status>Reading</status></presence>");
    chamber.expect_presence_of_itself();
    balcony.expect("<presence from='juliet@example.org/chamber'><status>Reading</status></presence>");
    balcony.expect_alive();
    let mut romeo = server.login("romeo/orchard");
    romeo.send("<message to='juliet@example.org' id='m'><body>x</body></message>");
    romeo.expect(&format!("<message type='error' id='m' from='juliet@example.org'>{UNAVAILABLE}</message>"));
}

/// §3.3, RFC 6120 §8.3.3: wrong requests get an error with the condition for it, and change
/// nothing.
#[test]
fn wrong_requests_are_refused() {
    let server =
        Server::with(Config { options: vec![("privacy", "max_items", Value::Number(2))], ..Config::default() });
    server.account("romeo");
    let mut juliet = server.login("juliet/balcony");
    let refused = |type_: &str, condition: &str| {
        format!("<error type='{type_}'><{condition} xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>")
    };
    let (bad, malformed) = (refused("modify", "bad-request"), refused("modify", "jid-malformed"));
    for (type_, payload, error) in [
        ("set", "<block xmlns='urn:xmpp:blocking'/>", &bad),
        ("set", "<block xmlns='urn:xmpp:blocking'><item/></block>", &bad),
        ("set", "<block xmlns='urn:xmpp:blocking'><thing jid='a@b'/></block>", &bad),
        ("set", "<block xmlns='urn:xmpp:blocking'><item jid=''/></block>", &malformed),
        ("set", "<block xmlns='urn:xmpp:blocking'><item jid='a@b'/><item jid='@b'/></block>", &malformed),
        ("set", "<unblock xmlns='urn:xmpp:blocking'><item jid='a@b@c'/></unblock>", &malformed),
        ("set", "<blocklist xmlns='urn:xmpp:blocking'/>", &bad),
        ("get", "<block xmlns='urn:xmpp:blocking'><item jid='a@b'/></block>", &bad),
        (
            "set",
            "<block xmlns='urn:xmpp:blocking'><item jid='a@b'/><item jid='b@b'/><item jid='c@b'/></block>",
            &refused("wait", "resource-constraint"),
        ),
    ] {
        juliet.send(&format!("<iq type='{type_}' id='w'>{payload}</iq>"));
        juliet.expect(&format!("<iq type='error' id='w' from='juliet@example.org'>{error}</iq>"));
    }
    juliet.send("<iq type='get' id='l'><blocklist xmlns='urn:xmpp:blocking'/></iq>");
    juliet.expect("<iq type='result' id='l' from='juliet@example.org'><blocklist xmlns='urn:xmpp:blocking'/></iq>");
    // Nobody can request the list of somebody else, whether that account exists or not.
    for to in ["romeo@example.org", "nobody@example.org"] {
        juliet.send(&format!("<iq type='get' id='o' to='{to}'><blocklist xmlns='urn:xmpp:blocking'/></iq>"));
        juliet.expect(&format!("<iq type='error' id='o' from='{to}'>{UNAVAILABLE}</iq>"));
    }
}

/// A domain without the module has no part of this feature.
#[test]
fn the_module_can_be_off() {
    let server = Server::with(Config { modules_off: vec!["privacy"], ..Config::default() });
    let mut juliet = server.login("juliet/balcony");
    juliet.send("<iq type='get' id='l'><blocklist xmlns='urn:xmpp:blocking'/></iq>");
    juliet.expect(&format!("<iq type='error' id='l' from='juliet@example.org'>{UNAVAILABLE}</iq>"));
}
