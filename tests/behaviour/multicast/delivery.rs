//! Copies and their recipients (§5), on this server and without the service of another one.

use rookery_testkit::{Config, Server};
use rookery_xml::ns;

use super::{MulticastScene, copies, error, header, saw, short, to_pairs};

/// §4.5, §4.6.3: everybody sees `to` and `cc`, marked; who is blind sees his own address and no
/// other blind one.
#[test]
fn visible_addresses_are_marked_and_blind_ones_hidden() {
    let mut scene = MulticastScene::new();
    scene.says("to:NEAR cc:FAR");
    scene.see("to!NEAR cc!FAR", "to!NEAR cc!FAR");
    scene.says("bcc:NEAR bcc:FAR");
    scene.see("bcc:NEAR", "bcc:FAR");
    scene.says("bcc:FAR to:NEAR bcc:nobody@example.org");
    scene.sender.expect(&format!("<message {}</message>", unavailable("nobody@example.org")));
    scene.see("to!NEAR", "to!NEAR bcc:FAR");
}

fn unavailable(from: &str) -> String {
    error("m", from, "cancel", "service-unavailable")
}

/// §5: `from`, the id and everything else stay as they are, and `to` is the recipient.
#[test]
fn the_rest_of_the_stanza_is_untouched() {
    let mut scene = MulticastScene::new();
    let text = "<message type='chat' to='multicast.example.org' id='m' xml:lang='it'><subject>x</subject>\
         <addresses xmlns='http://jabber.org/protocol/address'><address jid='FAR' type='to' node='n' desc='&lt;F&gt;'>\
         <x xmlns='urn:x'>y</x></address></addresses><body>hi &amp; ho</body><thread>t</thread></message>";
    let text = scene.with_names(text);
    scene.sender.send(&text);
    let from = scene.sender.full().to_owned();
    let found = scene.far.expect(
        &text
            .replace(" to='multicast.example.org'", &format!(" from='{from}'"))
            .replace("<address ", "<address delivered='true' "),
    );
    assert_eq!(found.attr("to"), Some(scene.far.bare()));
}

/// §4.5: an address that is marked is not delivered to, and shown to the others unless it is a
/// blind one.
#[test]
fn an_address_marked_as_delivered_gets_no_copy() {
    let mut scene = MulticastScene::new();
    scene.says("to!NEAR bcc!a@elsewhere.net cc!b@elsewhere.net to:FAR");
    scene.see("", "to!NEAR cc!b@elsewhere.net to!FAR");
    let content = "<address type='to' jid='NEAR' delivered='false'/><address type='to' jid='FAR' delivered='1'/>";
    let header = scene.with_names(&header(content));
    scene.sender.send(&format!("<message to='multicast.example.org' id='m'>{header}</message>"));
    assert_eq!(scene.near.all().len(), 1, "'false' is no mark");
    scene.far.expect_nothing();
}

/// §4.6: information about replies and origin goes to everybody.
#[test]
fn information_passes() {
    let mut scene = MulticastScene::new();
    let information = "replyto:a@example.org/x replyroom:b@example.org ofrom:c@example.org noreply:";
    scene.says(&format!("to:NEAR {information} bcc:FAR"));
    scene.see(&format!("{information} to!NEAR"), &format!("{information} to!NEAR bcc:FAR"));
}

/// A recipient who is listed twice gets one copy; the visible listing counts. A resource is another
/// recipient than the account.
#[test]
fn repeated_addresses_get_one_copy() {
    let mut scene = MulticastScene::new();
    let header = scene.with_names("bcc:NEAR to:NEAR cc:NEAR to:UPPER to:FAR/r bcc:FAR/r");
    let upper = scene.near.bare().to_uppercase();
    scene.sender.send(&super::message("multicast.example.org", &header.replace("UPPER", &upper)));
    scene.see("to!NEAR to!FAR/r", "to!NEAR to!FAR/r");
    scene.says("to:NEAR bcc:NEAR/r");
    scene.see("to!NEAR, to!NEAR bcc:NEAR/r", "");
}

/// A blind address that says more than a JID is passed on whole.
#[test]
fn a_blind_address_keeps_its_description() {
    let mut scene = MulticastScene::new();
    let content = "<address type='bcc' jid='NEAR' desc='N'/><address type='bcc' jid='FAR' node='&amp;'><x xmlns='urn:x'/></address>\
         <address type='bcc' jid='a@elsewhere.net' desc='A'/>";
    let header = scene.with_names(&header(content));
    scene.sender.send(&format!("<message to='multicast.example.org' id='m'>{header}</message>"));
    let [near, far] = [&mut scene.near, &mut scene.far].map(|client| {
        let found = client.expect_element();
        client.expect_nothing();
        let header = found.child("addresses", ns::ADDRESS).expect("a header").clone();
        assert_eq!(header.children().count(), 1);
        header.children().next().expect("an address").clone()
    });
    assert_eq!((near.attr("desc"), near.attr("delivered")), (Some("N"), None));
    assert_eq!((far.attr("node"), far.children().count()), (Some("&"), 1));
    let left = scene.server.take_left();
    let text = &left.iter().find(|left| left.to == "a@elsewhere.net").expect("a copy").text;
    assert!(text.contains("desc='A'") && !text.contains("desc='N'"), "{text}");
}

/// Full and bare JIDs follow the rules of delivery (RFC 6121 §8.5): all resources, one, or an error
/// of the recipient.
#[test]
fn full_and_bare_addresses_reach_their_resources() {
    let mut scene = MulticastScene::new();
    let near = scene.near.bare().to_owned();
    let mut second = scene.server.online(&format!("{}/second", near.split('@').next().expect("a name")));
    scene.near.all();
    second.all();
    scene.says("to:NEAR bcc:FAR/r");
    scene.see("to!NEAR", "to!NEAR bcc:FAR/r");
    assert_eq!(saw(&mut second), format!("to!{near}"));
    scene.says("bcc:NEAR/second bcc:FAR/away");
    assert_eq!(saw(&mut second), format!("bcc:{near}/second"));
    let away = scene.with_names("FAR/away");
    scene.sender.expect(&format!("<message {}</message>", unavailable(&away)));
    scene.nothing_is_delivered();
}

/// A message that waits for somebody who is away has the header that is for them.
#[test]
fn messages_wait_with_their_header() {
    let mut scene = MulticastScene::new();
    for name in ["away", "blind", "rich"] {
        scene.server.account(name);
    }
    let rich = header(
        "<address type='to' jid='away@example.org'/><address type='bcc' jid='blind@example.org'/>\
         <address type='bcc' jid='rich@example.org' desc='R'/>",
    );
    scene.sender.send(&format!("<message to='multicast.example.org' id='m'><body>hi</body>{rich}</message>"));
    scene.sender.expect_alive();
    scene.server.restart();
    for (name, own) in [("away", ""), ("blind", " bcc:blind@example.org"), ("rich", " bcc:rich@example.org")] {
        let mut client = scene.server.online(&format!("{name}/r"));
        let all = client.all();
        assert_eq!(all.iter().map(short).collect::<Vec<_>>(), [format!("to!away@example.org{own}")]);
        assert_eq!(all[0].attr("to"), Some(format!("{name}@example.org").as_str()));
        assert_eq!(all[0].child_text("body", ns::CLIENT).as_deref(), Some("hi"));
        assert!(all[0].child("delay", ns::DELAY).is_some());
    }
}

/// A copy that a dying session did not read goes where it would have gone, with the right header.
#[test]
fn what_was_not_read_keeps_its_header() {
    let mut scene = MulticastScene::new();
    scene.far.set_reading(false);
    scene.far.wire.peer.set_window(10);
    scene.says("to:NEAR bcc:FAR");
    scene.server.settle();
    scene.far.vanish();
    let far = scene.far.bare().to_owned();
    let mut far = scene.server.online(&format!("{}/again", far.split('@').next().expect("a name")));
    let wanted = scene.with_names("to!NEAR bcc:FAR");
    assert_eq!(saw(&mut far), wanted);
}

/// Somebody who has no account here: the error is that recipient's own, and the others get theirs.
#[test]
fn recipients_that_do_not_exist_keep_nobody_from_a_copy() {
    let mut scene = MulticastScene::new();
    scene.says("to:nobody@example.org cc:NEAR bcc:none@example.org to:FAR");
    let [nobody, none] =
        ["nobody", "none"].map(|name| format!("<message {}</message>", unavailable(&format!("{name}@example.org"))));
    scene.sender.expect_in_any_order(&[&nobody, &none]);
    let seen = "to!nobody@example.org cc!NEAR to!FAR";
    scene.see(seen, seen);
}

/// No stanza goes round in circles: services and domains of this server, which read headers, get no
/// copy, be their address visible or blind.
#[test]
fn the_service_and_the_domains_are_no_recipients() {
    let domains = vec!["example.org".into(), "example.com".into()];
    let mut scene = MulticastScene::with(Config { federates: true, domains, ..Config::default() });
    for type_ in ["to", "cc", "bcc"] {
        for host in ["multicast.example.org", "multicast.example.com", "example.org", "example.com", "example.org/x"] {
            scene.says(&format!("{type_}:{host} to:NEAR"));
            assert_eq!(scene.near.all().len(), 1, "{type_} {host}");
            scene.shows("", &format!("{type_}:{host}"));
        }
    }
    scene.sender.expect_nothing();
    scene.nothing_is_delivered();
}

/// Others get copies one by one until more is known of their server: each sees what it would see
/// here.
#[test]
fn recipients_elsewhere_get_copies_of_their_own() {
    let mut scene = MulticastScene::new();
    scene.says("to:NEAR cc:a@one.net bcc:b@one.net to:c@two.net bcc:d@two.net/x");
    let seen = scene.with_names("to!NEAR cc!a@one.net to!c@two.net");
    let mut found = copies(&scene.server.take_left());
    found.sort();
    let [blind_b, blind_d] = ["bcc:b@one.net", "bcc:d@two.net/x"].map(|own| format!("{seen} {own}"));
    assert_eq!(
        found,
        to_pairs([("a@one.net", &seen), ("b@one.net", &blind_b), ("c@two.net", &seen), ("d@two.net/x", &blind_d)])
    );
    scene.see(&seen, "");
}

/// Without other servers each of those recipients is answered for itself, as if it had been written
/// to alone.
#[test]
fn addresses_elsewhere_are_refused_by_a_server_that_knows_no_others() {
    let mut scene = MulticastScene::with(Config::default());
    scene.says("to:NEAR cc:a@one.net bcc:b@two.net");
    let [a, b] = ["a@one.net", "b@two.net"]
        .map(|from| format!("<message {}</message>", error("m", from, "cancel", "remote-server-not-found")));
    scene.sender.expect_in_any_order(&[&a, &b]);
    assert_eq!(scene.near.all().len(), 1);
}

/// §2: "the IM service MAY implement multicast directly".
#[test]
fn the_domain_takes_a_header_too() {
    let mut scene = MulticastScene::new();
    scene.says_to("example.org", "to:NEAR bcc:FAR");
    scene.see("to!NEAR", "to!NEAR bcc:FAR");
    let text = message_with_odd_header(&scene);
    scene.sender.send(&text);
    scene.sender.expect(&format!("<message {}</message>", error("m", "example.org", "modify", "bad-request")));
    // Without a header it is no multicast.
    scene.says_to("example.org", "");
    scene.sender.expect(&format!("<message {}</message>", unavailable("example.org")));
    scene.nothing_is_delivered();
    scene.server.incoming(
        &scene.with_names(&super::message("example.org", "to:FAR")).replace("<message ", "<message from='a@one.net' "),
    );
    scene.see("", "to!FAR");
}

fn message_with_odd_header(scene: &MulticastScene) -> String {
    scene.with_names(&super::message("example.org", "to:NEAR odd:FAR"))
}

/// §3: "with no username or resource in the 'to' attribute".
#[test]
fn the_service_has_no_users() {
    let mut scene = MulticastScene::new();
    for service in ["a@multicast.example.org", "multicast.example.org/x"] {
        scene.says_to(service, "to:NEAR");
        scene.sender.expect(&format!("<message {}</message>", error("m", service, "cancel", "item-not-found")));
    }
    scene.nothing_is_delivered();
}

/// A header in a stanza to a user is for that user's client to interpret (§3).
#[test]
fn headers_between_two_are_not_touched() {
    let server = Server::new();
    let mut romeo = server.online("romeo/orchard");
    let mut juliet = server.login("juliet/balcony");
    juliet.send(&super::message("romeo@example.org", "to:a@example.org bcc:b@example.org to!c@example.org"));
    assert_eq!(saw(&mut romeo), "to:a@example.org bcc:b@example.org to!c@example.org");
    juliet.expect_nothing();
}

/// Prefixes of namespaces make no difference.
#[test]
fn a_header_may_have_a_prefix() {
    let mut scene = MulticastScene::new();
    let text = scene.with_names(
        "<message to='multicast.example.org' id='m'><a:addresses xmlns:a='http://jabber.org/protocol/address'>\
         <a:address type='to' jid='NEAR'/><a:address type='bcc' jid='FAR'/></a:addresses></message>",
    );
    scene.sender.send(&text);
    scene.see("to!NEAR", "to!NEAR bcc:FAR");
}

/// A sender who is on the list gets a copy as everybody does, and may be blind to the others.
#[test]
fn the_sender_may_be_a_recipient() {
    let mut scene = MulticastScene::new();
    scene.says("to:NEAR bcc:SENDER");
    let wanted = scene.with_names("to!NEAR bcc:SENDER");
    assert_eq!(saw(&mut scene.sender), wanted);
    scene.see("to!NEAR", "");
}

/// Only the first header is followed; another one is content like any other, and does not come
/// first for a service elsewhere either.
#[test]
fn the_first_header_counts() {
    let mut scene = MulticastScene::new();
    let (first, second) = (super::addresses("to:NEAR bcc:a@one.net"), super::addresses("to:FAR"));
    let text = scene.with_names(&format!("<message to='multicast.example.org' id='m'>{first}{second}</message>"));
    scene.sender.send(&text);
    scene.see("to!NEAR", "");
    let wanted_header = scene.with_names("to!NEAR bcc:a@one.net");
    assert_eq!(copies(&scene.server.take_left()), to_pairs([("a@one.net", &wanted_header)]));
}
