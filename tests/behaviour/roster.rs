//! RFC 6121 §2: rosters.

use rookery_hub::RosterLimits;
use rookery_testkit::{Client, Config, Server, befriend, element, play};
use rookery_xml::{Element, ns};

const GET: &str = "<iq type='get' id='roster'><query xmlns='jabber:iq:roster'/></iq>";

/// Returns a session that has requested its roster, and so gets pushes (an interested resource,
/// §2.2).
fn login_interested(server: &Server, address: &str) -> Client {
    let mut client = server.login(address);
    let roster = client.ask(GET);
    assert_eq!(roster.attr("type"), Some("result"));
    client
}

/// Returns the items in the result of a roster request, as text, and the version.
fn roster(client: &mut Client) -> (Vec<String>, String) {
    let result = client.ask(GET);
    let query = result.child("query", ns::ROSTER).expect("a roster");
    let items = query.children().map(|item| {
        let mut text = item.attr("jid").unwrap_or_default().to_owned();
        for name in ["name", "subscription", "ask"] {
            text.extend(item.attr(name).map(|value| format!(" {name}={value}")));
        }
        text.extend(item.children().map(|group| format!(" [{}]", group.text())));
        text
    });
    (items.collect(), query.attr("ver").unwrap_or_default().to_owned())
}

fn set(item: &str) -> String {
    format!("<iq type='set' id='set'><query xmlns='jabber:iq:roster'>{item}</query></iq>")
}

fn push(item: &str) -> String {
    format!("<iq type='set' id='*'><query xmlns='jabber:iq:roster' ver='*'>{item}</query></iq>")
}

fn error(type_: &str, condition: &str) -> String {
    format!(
        "<iq type='error' id='set' from='juliet@example.org'><error type='{type_}'>\
         <{condition} xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>"
    )
}

/// §2.1.6: "the server MUST push" to all interested resources, and to no other resource. §2.1.5:
/// the result comes after that.
#[test]
fn a_change_is_pushed_to_all_interested_resources() {
    let server = Server::new();
    let balcony = login_interested(&server, "juliet/balcony");
    let chamber = login_interested(&server, "juliet/chamber");
    let uninterested = server.online("juliet/street");
    let mut nurse = login_interested(&server, "nurse/house");
    play(
        &mut [&mut balcony.with_name("balcony"), &mut chamber.with_name("chamber"), &mut uninterested.with_name("street"), &mut nurse],
        "balcony C: <iq type='set' id='1'><query xmlns='jabber:iq:roster'>
                      <item jid='Nurse@example.org' name='Nurse'><group>Servants</group><group>Friends</group></item></query></iq>
         balcony S: <iq type='set' id='*'><query xmlns='jabber:iq:roster' ver='*'>
                      <item jid='nurse@example.org' name='Nurse' subscription='none'>
                        <group>Servants</group><group>Friends</group></item></query></iq>
         balcony S: <iq type='result' id='1' from='juliet@example.org'/>
         chamber S: <iq type='set' id='*'><query xmlns='jabber:iq:roster' ver='*'>
                      <item jid='nurse@example.org' name='Nurse' subscription='none'>
                        <group>Servants</group><group>Friends</group></item></query></iq>
         street  S:
         # An update replaces name and groups (§2.4).
         chamber C: <iq type='set' id='2'><query xmlns='jabber:iq:roster'><item jid='nurse@example.org'/></query></iq>
         chamber S: <iq type='set' id='*'><query xmlns='jabber:iq:roster' ver='*'>
                      <item jid='nurse@example.org' subscription='none'/></query></iq>
         chamber S: <iq type='result' id='2' from='juliet@example.org'/>
         balcony S: <iq type='set' id='*'><query xmlns='jabber:iq:roster' ver='*'>
                      <item jid='nurse@example.org' subscription='none'/></query></iq>
         # Results of pushes, and what a client claims about a subscription, change nothing (§2.1.2.5).
         chamber C: <iq type='result' id='push'/>
         chamber C: <iq type='set' id='3'><query xmlns='jabber:iq:roster'>
                      <item jid='nurse@example.org' subscription='both' ask='subscribe' approved='true' name='N'/></query></iq>
         chamber S: <iq type='set' id='*'><query xmlns='jabber:iq:roster' ver='*'>
                      <item jid='nurse@example.org' name='N' subscription='none'/></query></iq>
         chamber S: <iq type='result' id='3' from='juliet@example.org'/>
         balcony S: <iq type='set' id='*'><query xmlns='jabber:iq:roster' ver='*'>
                      <item jid='nurse@example.org' name='N' subscription='none'/></query></iq>
         # Removal (§2.5).
         balcony C: <iq type='set' id='4'><query xmlns='jabber:iq:roster'>
                      <item jid='nurse@example.org' subscription='remove'/></query></iq>
         balcony S: <iq type='set' id='*'><query xmlns='jabber:iq:roster' ver='*'>
                      <item jid='nurse@example.org' subscription='remove'/></query></iq>
         balcony S: <iq type='result' id='4' from='juliet@example.org'/>
         chamber S: <iq type='set' id='*'><query xmlns='jabber:iq:roster' ver='*'>
                      <item jid='nurse@example.org' subscription='remove'/></query></iq>",
    );
}

/// §2.1.3 and §2.1.4: a client gets the items that were set, also after a restart.
#[test]
fn a_roster_outlives_the_server() {
    let server = Server::new();
    let mut juliet = server.login("juliet/balcony");
    assert_eq!(roster(&mut juliet).0, Vec::<String>::new());
    for item in [
        "<item jid='romeo@example.org' name='&lt;R&gt;'><group>a &amp; b</group></item>",
        "<item jid='nurse@example.net'/>",
    ] {
        juliet.send(&set(item));
    }
    juliet.all();
    let before = roster(&mut juliet);
    assert_eq!(
        before.0,
        ["nurse@example.net subscription=none", "romeo@example.org name=<R> subscription=none [a & b]"]
    );
    server.restart();
    let mut juliet = server.login("juliet/balcony");
    assert_eq!(roster(&mut juliet), before);
}

/// §2.1.5, §2.3.3 and §2.5.3: requests that a client may not make.
#[test]
fn wrong_sets_are_refused_and_change_nothing() {
    let mut config = Config::default();
    config.settings.roster =
        RosterLimits { items: 3, name_bytes: 10, groups: 2, group_bytes: 5, ..RosterLimits::default() };
    let server = Server::with(config);
    let mut juliet = login_interested(&server, "juliet/balcony");
    for (item, type_, condition) in [
        ("", "modify", "bad-request"),
        ("<item jid='a@example.org'/><item jid='b@example.org'/>", "modify", "bad-request"),
        ("<item/>", "modify", "bad-request"),
        ("<other jid='a@example.org'/>", "modify", "bad-request"),
        ("<item jid='a@example.org'><group>x</group><group>x</group></item>", "modify", "bad-request"),
        ("<item jid='@example.org'/>", "modify", "jid-malformed"),
        ("<item jid='a@example.org' name='12345678901'/>", "modify", "not-acceptable"),
        ("<item jid='a@example.org'><group/></item>", "modify", "not-acceptable"),
        ("<item jid='a@example.org'><group>123456</group></item>", "modify", "not-acceptable"),
        (
            "<item jid='a@example.org'><group>1</group><group>2</group><group>3</group></item>",
            "modify",
            "not-acceptable",
        ),
        ("<item jid='juliet@example.org'/>", "cancel", "not-allowed"),
        ("<item jid='a@example.org' subscription='remove'/>", "cancel", "item-not-found"),
    ] {
        juliet.send(&set(item));
        juliet.expect(&error(type_, condition));
        juliet.expect_nothing();
    }
    let (items, version) = roster(&mut juliet);
    assert!(items.is_empty(), "{items:?}");
    for jid in ["a", "b", "c"] {
        juliet.send(&set(&format!("<item jid='{jid}@example.org'/>")));
        juliet.expect(&push(&format!("<item jid='{jid}@example.org' subscription='none'/>")));
        juliet.expect_element();
    }
    juliet.send(&set("<item jid='d@example.org'/>"));
    juliet.expect(&error("wait", "resource-constraint"));
    assert_ne!(roster(&mut juliet).1, version);
    // Nobody can read or change somebody else's roster (§2.1.5).
    let mut romeo = server.login("romeo/orchard");
    for (type_, condition) in [("get", "service-unavailable"), ("set", "forbidden")] {
        let iq = format!(
            "<iq type='{type_}' id='x' to='juliet@example.org'><query xmlns='jabber:iq:roster'><item jid='z@z'/></query></iq>"
        );
        let answer = romeo.ask(&iq);
        let error = answer.child("error", ns::CLIENT).expect("an error");
        assert!(error.child(condition, ns::STANZA_ERRORS).is_some(), "{answer:?}");
    }
}

/// All contacts of an account together have a limit. At the limit, only changes that don't make the
/// roster larger are accepted.
#[test]
fn a_roster_has_a_limit_in_bytes() {
    let mut config = Config::default();
    config.settings.roster = RosterLimits { bytes: 200, ..RosterLimits::default() };
    let server = Server::with(config);
    let mut juliet = login_interested(&server, "juliet/balcony");
    let name = |length: usize| "x".repeat(length);
    let mut put = |jid: &str, name: &str| {
        juliet.send(&set(&format!("<item jid='{jid}@example.org' name='{name}'/>")));
        let mut answers = juliet.all();
        assert!(answers.len() <= 2);
        answers.pop().expect("an answer").attr("type") == Some("result")
    };
    assert!(put("a", &name(80)) && put("b", &name(80)));
    assert!(!put("c", &name(80)), "too much in all");
    assert!(!put("b", &name(99)), "nor may one become so large");
    assert!(put("b", &name(70)) && put("b", &name(80)) && put("c", ""));
    juliet.send("<presence/>");
    juliet.all();
    juliet.send("<presence type='subscribe' to='a-rather-long-name@example.org'/>");
    let answer = juliet.expect_element();
    assert_eq!((answer.name(), answer.attr("type")), ("presence", Some("error")));
    let (items, _) = roster(&mut juliet);
    assert_eq!(items.len(), 3);
}

/// §2.6: "If the server determines that the roster has not been modified since the version ID sent
/// by the client", the reply is an empty result; otherwise the changes are pushed, or the reply is
/// the whole roster.
#[test]
fn a_client_gets_the_changes_since_its_version() {
    let server = Server::new();
    let mut juliet = server.login("juliet/balcony");
    for name in ["a", "b", "c"] {
        juliet.send(&set(&format!("<item jid='{name}@example.org'/>")));
    }
    juliet.all();
    let (items, version) = roster(&mut juliet);
    assert_eq!(items.len(), 3);
    let ask = |client: &mut Client, version: &str| {
        client.send(&format!("<iq type='get' id='v'><query xmlns='jabber:iq:roster' ver='{version}'/></iq>"));
        client.all()
    };
    let unchanged = element("<iq type='result' id='v' from='juliet@example.org'/>");
    let is_unchanged = |answer: &Element| rookery_testkit::matches(&unchanged, answer).is_ok();
    let current = ask(&mut juliet, &version);
    assert!(current.len() == 1 && is_unchanged(&current[0]), "{current:?}");
    // Changes in the meantime: one item removed, one renamed, one new. Each is pushed once, in its
    // last state.
    for item in [
        "<item jid='a@example.org' subscription='remove'/>",
        "<item jid='b@example.org' name='x'/>",
        "<item jid='d@example.org'/>",
        "<item jid='b@example.org' name='B'/>",
    ] {
        juliet.send(&set(item));
    }
    juliet.all();
    let mut other = server.login("juliet/chamber");
    let answer = ask(&mut other, &version);
    assert!(is_unchanged(&answer[0]));
    let pushed: Vec<_> = answer[1..]
        .iter()
        .map(|push| {
            let query = push.child("query", ns::ROSTER).expect("a push");
            let item = query.children().next().expect("an item");
            let ver: u64 = query.attr("ver").expect("ver").parse().expect("a number");
            (
                ver,
                item.attr("jid").unwrap().to_owned(),
                item.attr("name").map(str::to_owned),
                item.attr("subscription").unwrap().to_owned(),
            )
        })
        .collect();
    assert!(pushed.is_sorted(), "in the order of their versions: {pushed:?}");
    let mut states: Vec<_> = pushed
        .iter()
        .map(|(_, jid, name, subscription)| (jid.as_str(), name.as_deref(), subscription.as_str()))
        .collect();
    states.sort_unstable();
    assert_eq!(
        states,
        [("a@example.org", None, "remove"), ("b@example.org", Some("B"), "none"), ("d@example.org", None, "none")]
    );
    let last = pushed.last().unwrap().0.to_string();
    assert_eq!(last, roster(&mut juliet).1, "the last push brings the client to the current version");
    // §2.6.2: without a version yet (empty), or with one that was never given out, the client gets
    // the whole roster.
    for version in ["", "999999", "not-a-version"] {
        let answer = ask(&mut other, version);
        assert_eq!(answer.len(), 1);
        let query = answer[0].child("query", ns::ROSTER).expect("the whole roster");
        assert_eq!(query.children().count(), 3);
    }
}

/// §2.5.2: "the user's server MUST generate presence stanzas of type 'unsubscribe' and
/// 'unsubscribed'".
#[test]
fn removing_a_contact_ends_the_subscriptions() {
    let server = Server::new();
    let mut juliet = login_interested(&server, "juliet/balcony");
    let mut romeo = login_interested(&server, "romeo/orchard");
    for client in [&mut juliet, &mut romeo] {
        client.send("<presence/>");
        client.pump();
    }
    befriend(&mut juliet, &mut romeo);
    play(
        &mut [&mut juliet, &mut romeo],
        "juliet C: <iq type='set' id='1'><query xmlns='jabber:iq:roster'>
                     <item jid='romeo@example.org' subscription='remove'/></query></iq>
         juliet S: <iq type='set' id='*'><query xmlns='jabber:iq:roster' ver='*'>
                     <item jid='romeo@example.org' subscription='remove'/></query></iq>
                   <iq type='result' id='1' from='juliet@example.org'/>
                   <presence type='unavailable' from='romeo@example.org/orchard'/>
         romeo  S: <presence type='unsubscribe' from='juliet@example.org'/>
                   <iq type='set' id='*'><query xmlns='jabber:iq:roster' ver='*'>
                     <item jid='juliet@example.org' subscription='to'/></query></iq>
                   <presence type='unsubscribed' from='juliet@example.org'/>
                   <iq type='set' id='*'><query xmlns='jabber:iq:roster' ver='*'>
                     <item jid='juliet@example.org' subscription='none'/></query></iq>
                   <presence type='unavailable' from='juliet@example.org/balcony'/>
         # Nothing is shared any more.
         juliet C: <presence><status>x</status></presence>
         juliet S: <presence from='juliet@example.org/balcony'><status>x</status></presence>
         romeo  S:",
    );
}

/// §2.1.6: "the server MUST push" later changes. A change that an earlier session of the resource
/// hasn't read is older than the roster that the later session got.
#[test]
fn a_session_gets_no_push_that_an_earlier_one_of_its_resource_has_not_read() {
    let server = Server::new();
    let mut earlier = login_interested(&server, "juliet/balcony");
    let mut chamber = login_interested(&server, "juliet/chamber");
    // The client doesn't read, and few bytes can be on their way to it.
    earlier.set_reading(false);
    earlier.wire.peer.set_window(10);
    for name in ["a", "b", "c"] {
        chamber.send(&set(&format!("<item jid='nurse@example.org' name='{name}'/>")));
        chamber.all();
    }
    let mut later = server.login("juliet/balcony");
    assert_eq!(roster(&mut later).0, ["nurse@example.org name=c subscription=none"]);
    server.advance(60_000);
    earlier.wire.peer.reset();
    server.settle();
    later.expect_nothing();
}

/// §2.6: a client that keeps versions takes the last one to include all changes before it. So no
/// push may overtake an earlier change, although the reply to the client's request waits until it
/// reads.
#[test]
fn no_change_is_pushed_ahead_of_the_roster_that_was_asked_for() {
    let mut config = Config::default();
    config.settings.outbox.soft = 4 * 1024;
    let server = Server::with(config);
    let mut balcony = login_interested(&server, "juliet/balcony");
    let (_, version) = roster(&mut balcony);
    balcony.send(&set("<item jid='nurse@example.org'/>"));
    balcony.all();
    let mut romeo = server.login("romeo/orchard");
    for query in
        ["<query xmlns='jabber:iq:roster'/>".to_owned(), format!("<query xmlns='jabber:iq:roster' ver='{version}'/>")]
    {
        let mut chamber = server.login("juliet/chamber");
        chamber.set_reading(false);
        chamber.wire.peer.set_window(10);
        for _ in 0..8 {
            let body = "x".repeat(1000);
            romeo.send(&format!("<message to='juliet@example.org/chamber' type='chat'><body>{body}</body></message>"));
        }
        romeo.pump();
        chamber.send(&format!("<iq type='get' id='roster'>{query}</iq>"));
        chamber.pump();
        for name in ["a", "b"] {
            let bytes = query.len();
            balcony.send(&set(&format!("<item jid='{name}@example.org' name='{bytes}'/>")));
            balcony.all();
        }
        chamber.wire.peer.set_window(1 << 20);
        chamber.set_reading(true);
        let all = chamber.all();
        let iqs: Vec<_> = all.iter().filter(|element| element.name() == "iq").collect();
        assert_eq!(iqs.first().and_then(|iq| iq.attr("type")), Some("result"), "{iqs:?}");
        let versions = iqs.iter().filter_map(|iq| iq.child("query", ns::ROSTER)?.attr("ver")?.parse::<u64>().ok());
        let versions: Vec<_> = versions.collect();
        assert!(versions.is_sorted(), "{versions:?}");
        assert!(versions.last() > Some(&version.parse().expect("a number")), "{versions:?}");
        // Later changes are pushed.
        balcony.send(&set("<item jid='friar@example.org'/>"));
        balcony.all();
        chamber.expect(&push("<item jid='friar@example.org' subscription='none'/>"));
        balcony.send(&set("<item jid='friar@example.org' subscription='remove'/>"));
        balcony.all();
        chamber.close();
    }
}
