//! XEP-0016: the requests with the lists of its examples, the choice of the list that applies, and
//! the block list as a part of the default list.

use rookery_hub::Value;
use rookery_testkit::{Client, Config, Server, play};

use super::{BLOCKED, PrivacyScene, UNAVAILABLE};

const PUBLIC: &str = "<list name='public'><item type='jid' value='tybalt@example.com' action='deny' order='1'/>\
    <item action='allow' order='2'/></list>";
const PRIVATE: &str = "<list name='private'><item type='subscription' value='both' action='allow' order='10'/>\
    <item action='deny' order='15'/></list>";
const SPECIAL: &str = "<list name='special'><item type='jid' value='juliet@example.com' action='allow' order='6'/>\
    <item type='jid' value='benvolio@example.org' action='allow' order='7'/>\
    <item type='jid' value='mercutio@example.org' action='allow' order='42'/>\
    <item action='deny' order='666'/></list>";

/// Sends a privacy request that succeeds. Discards the pushes and the presence that come with it.
fn set(client: &mut Client, query: &str) {
    client.pump();
    client.send(&format!("<iq type='set' id='set'><query xmlns='jabber:iq:privacy'>{query}</query></iq>"));
    let all = client.all();
    let answer = all.iter().find(|element| element.attr("id") == Some("set")).expect("an answer");
    assert_eq!(answer.attr("type"), Some("result"), "{query}");
}

/// Sends a privacy request that is refused with this error type and condition.
fn expect_refusal(client: &mut Client, kind: &str, query: &str, error: &str) {
    let (type_, condition) = error.split_once(' ').expect("type and condition");
    client.send(&format!("<iq type='{kind}' id='no'><query xmlns='jabber:iq:privacy'>{query}</query></iq>"));
    let bare = client.bare().to_owned();
    client.expect(&format!(
        "<iq type='error' id='no' from='{bare}'><error type='{type_}'>\
         <{condition} xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>"
    ));
}

/// §2.3 to §2.8.
#[test]
fn lists_are_kept_and_shown() {
    let server = Server::new();
    let mut orchard = server.login("romeo/orchard").with_name("orchard");
    let mut home = server.login("romeo/home").with_name("home");
    for list in [PUBLIC, PRIVATE, SPECIAL] {
        set(&mut orchard, list);
    }
    set(&mut orchard, "<default name='public'/>");
    set(&mut orchard, "<active name='private'/>");
    home.all();
    let dialogue = "
        orchard C: <iq type='get' id='getlist1'><query xmlns='jabber:iq:privacy'/></iq>
        orchard S: <iq type='result' id='getlist1' from='romeo@example.org'><query xmlns='jabber:iq:privacy'>
                     <active name='private'/><default name='public'/>
                     <list name='public'/><list name='private'/><list name='special'/></query></iq>
        orchard C: <iq type='get' id='getlist2'><query xmlns='jabber:iq:privacy'><list name='special'/></query></iq>
        orchard S: <iq type='result' id='getlist2' from='romeo@example.org'><query xmlns='jabber:iq:privacy'>SPECIAL</query></iq>
        # §2.6: an edit replaces the whole list, and every resource hears its name.
        home    C: <iq type='set' id='edit1'><query xmlns='jabber:iq:privacy'><list name='special'>
                     <item action='deny' order='3'><message/><iq/></item></list></query></iq>
        home    S: <iq type='result' id='edit1' from='romeo@example.org'/>
                   <iq type='set' id='*'><query xmlns='jabber:iq:privacy'><list name='special'/></query></iq>
        orchard S: <iq type='set' id='*'><query xmlns='jabber:iq:privacy'><list name='special'/></query></iq>
        home    C: <iq type='get' id='getlist3'><query xmlns='jabber:iq:privacy'><list name='special'/></query></iq>
        home    S: <iq type='result' id='getlist3' from='romeo@example.org'><query xmlns='jabber:iq:privacy'>
                     <list name='special'><item action='deny' order='3'><message/><iq/></item></list></query></iq>
        # §2.4: the active list is of the session alone.
        home    C: <iq type='get' id='getlist4'><query xmlns='jabber:iq:privacy'/></iq>
        home    S: <iq type='result' id='getlist4' from='romeo@example.org'><query xmlns='jabber:iq:privacy'>
                     <default name='public'/><list name='public'/><list name='private'/><list name='special'/></query></iq>
        # §2.8.
        home    C: <iq type='set' id='remove1'><query xmlns='jabber:iq:privacy'><list name='special'/></query></iq>
        home    S: <iq type='result' id='remove1' from='romeo@example.org'/>
                   <iq type='set' id='*'><query xmlns='jabber:iq:privacy'><list name='special'/></query></iq>
        orchard S: <iq type='set' id='*'><query xmlns='jabber:iq:privacy'><list name='special'/></query></iq>";
    play(&mut [&mut orchard, &mut home], &dialogue.replace("SPECIAL", SPECIAL));
}

/// §2.3 to §2.8: the errors.
#[test]
fn wrong_requests_are_refused() {
    let server = Server::new();
    let mut romeo = server.login("romeo/orchard");
    set(&mut romeo, PUBLIC);
    for (kind, query, error) in [
        ("get", "<list name='The Empty Set'/>", "cancel item-not-found"),
        ("get", "<list name='public'/><list name='private'/>", "modify bad-request"),
        ("get", "<active name='public'/>", "modify bad-request"),
        ("set", "", "modify bad-request"),
        ("set", "<active name='The Empty Set'/>", "cancel item-not-found"),
        ("set", "<default name='The Empty Set'/>", "cancel item-not-found"),
        ("set", "<list name='The Empty Set'/>", "cancel item-not-found"),
        ("set", "<active name='public'/><default name='public'/>", "modify bad-request"),
        ("set", "<list><item action='deny' order='1'/></list>", "modify bad-request"),
        (
            "set",
            "<list name='x'><item action='deny' order='1'/><item action='deny' order='1'/></list>",
            "modify bad-request",
        ),
        ("set", "<list name='x'><item action='deny' order='-1'/></list>", "modify bad-request"),
        ("set", "<list name='x'><item action='deny'/></list>", "modify bad-request"),
        ("set", "<list name='x'><item action='hide' order='1'/></list>", "modify bad-request"),
        ("set", "<list name='x'><item type='jid' value='@' action='deny' order='1'/></list>", "modify jid-malformed"),
        (
            "set",
            "<list name='x'><item type='subscription' value='remove' action='deny' order='1'/></list>",
            "modify bad-request",
        ),
        (
            "set",
            "<list name='x'><item type='group' value='Nobody' action='deny' order='1'/></list>",
            "cancel item-not-found",
        ),
    ] {
        expect_refusal(&mut romeo, kind, query, error);
    }
    let long: String = (0..2001).map(|at| format!("<item action='deny' order='{at}'/>")).collect();
    expect_refusal(&mut romeo, "set", &format!("<list name='x'>{long}</list>"), "wait resource-constraint");
}

/// §2.5, §2.8: while another resource uses a list, it can't be removed, and no other list can
/// become the default in its place.
#[test]
fn a_list_in_use_is_a_conflict() {
    let server = Server::new();
    let mut orchard = server.login("romeo/orchard");
    let mut home = server.login("romeo/home");
    set(&mut orchard, PUBLIC);
    set(&mut orchard, SPECIAL);
    set(&mut orchard, "<default name='public'/>");
    home.all();
    for query in ["<default name='special'/>", "<default/>", "<list name='public'/>"] {
        expect_refusal(&mut orchard, "set", query, "cancel conflict");
    }
    set(&mut home, "<active name='special'/>");
    expect_refusal(&mut orchard, "set", "<list name='special'/>", "cancel conflict");
    set(&mut orchard, "<default/>");
    set(&mut home, "<active/>");
    set(&mut orchard, "<active name='special'/>");
    set(&mut orchard, "<list name='special'/>");
    orchard.send("<iq type='get' id='names'><query xmlns='jabber:iq:privacy'/></iq>");
    orchard.expect("<iq type='result' id='names' from='romeo@example.org'><query xmlns='jabber:iq:privacy'><list name='public'/></query></iq>");
}

/// §2.9 to §2.12: rules for each kind of stanza.
#[test]
fn what_an_item_names_is_all_that_is_stopped() {
    for shard in [0, 1] {
        let mut scene = PrivacyScene::at(shard);
        let item = |child: &str| {
            format!("<list name='l'><item type='jid' value='ROMEO' action='deny' order='1'><{child}/></item></list>")
        };
        let list = scene.with_names(&item("message"));
        set(&mut scene.juliet, &list);
        set(&mut scene.juliet, "<default name='l'/>");
        scene.play(
            &"romeo  C: <message to='JULIET' id='m'><body>1</body></message>
              romeo  S: <message type='error' id='m' from='JULIET'>ERROR</message>
              romeo  C: <presence><status>1</status></presence>
              romeo  S: <presence from='ROMEO/orchard'><status>1</status></presence>
              juliet S: <presence from='ROMEO/orchard'><status>1</status></presence>
              juliet C: <message to='ROMEO'><body>2</body></message>
              romeo  S: <message from='JULIET/balcony'><body>2</body></message>"
                .replace("ERROR", UNAVAILABLE),
        );
        let list = scene.with_names(&item("presence-in"));
        scene.play(&format!(
            "juliet C: <iq type='set' id='s'><query xmlns='jabber:iq:privacy'>{list}</query></iq>
             juliet S: <presence type='unavailable' from='ROMEO'/><iq type='result' id='s' from='JULIET'/>
                       <iq type='set' id='*'><query xmlns='jabber:iq:privacy'><list name='l'/></query></iq>
             romeo  C: <presence><status>2</status></presence>
             romeo  S: <presence from='ROMEO/orchard'><status>2</status></presence>
             juliet C: <presence><status>3</status></presence>
             juliet S: <presence from='JULIET/balcony'><status>3</status></presence>
             romeo  S: <presence from='JULIET/balcony'><status>3</status></presence>
             romeo  C: <message to='JULIET'><body>4</body></message>
             juliet S: <message from='ROMEO/orchard'><body>4</body></message>"
        ));
        let list = scene.with_names(&item("presence-out"));
        scene.play(&format!(
            "juliet C: <iq type='set' id='s'><query xmlns='jabber:iq:privacy'>{list}</query></iq>
             juliet S: <iq type='result' id='s' from='JULIET'/>
                       <iq type='set' id='*'><query xmlns='jabber:iq:privacy'><list name='l'/></query></iq>
                       <presence from='ROMEO/orchard'><status>2</status></presence>
             romeo  S: <presence type='unavailable' from='JULIET/balcony'/>
             juliet C: <presence><status>5</status></presence>
             juliet S: <presence from='JULIET/balcony'><status>5</status></presence>
             romeo  C: <presence type='probe' to='JULIET'/>
             romeo  S:
             juliet C: <presence to='ROMEO' id='p'/>
             juliet S: <presence type='error' id='p' from='ROMEO'>{BLOCKED}</presence>
             romeo  C: <iq type='get' id='i' to='JULIET/balcony'><query xmlns='jabber:iq:version'/></iq>
             juliet S: <iq type='get' id='i' from='ROMEO/orchard'><query xmlns='jabber:iq:version'/></iq>"
        ));
    }
}

/// §2.2: an active list applies to its session alone, in place of the default list.
#[test]
fn each_session_goes_by_its_own_list() {
    let mut scene = PrivacyScene::at(1);
    let name = scene.juliet.bare().split('@').next().map(str::to_owned).expect("a name");
    let mut chamber = scene.server.online(&format!("{name}/chamber"));
    chamber.all();
    scene.juliet.all();
    scene.romeo.all();
    let list = scene.with_names("<list name='quiet'><item type='jid' value='ROMEO' action='deny' order='1'/></list>");
    set(&mut chamber, &list);
    set(&mut chamber, "<active name='quiet'/>");
    scene.juliet.all();
    scene.romeo.expect(&format!("<presence type='unavailable' from='{}'/>", chamber.full()));
    let to = scene.with_names("<message to='JULIET' type='chat'><body>1</body></message>");
    scene.romeo.send(&format!("{to}<presence><status>1</status></presence>"));
    scene.romeo.expect_presence_of_itself();
    let (romeo, full) = (scene.romeo.full().to_owned(), chamber.full().to_owned());
    scene.juliet.expect_message(&romeo, "1");
    assert_eq!(scene.juliet.all().len(), 1);
    chamber.expect_nothing();
    scene.romeo.send(&format!("<message to='{full}' type='chat' id='m'><body>2</body></message>"));
    scene.romeo.expect(&format!("<message type='error' id='m' from='{full}'>{UNAVAILABLE}</message>"));
    // In the other direction, the default list stops stanzas although one session accepts them.
    set(&mut scene.juliet, "<list name='open'><item action='allow' order='1'/></list>");
    set(&mut scene.juliet, "<active name='open'/>");
    set(&mut scene.juliet, "<default name='quiet'/>");
    set(&mut chamber, "<active/>");
    chamber.all();
    scene.juliet.all();
    scene.romeo.send(&to);
    scene.juliet.expect_message(&romeo, "1");
    chamber.expect_nothing();
    scene.romeo.expect_nothing();
    scene.juliet.close();
    scene.romeo.all();
    scene.romeo.send(&to);
    let answer = scene.romeo.expect_element();
    assert_eq!(answer.attr("type"), Some("error"));
}

/// §2.2, ninth rule: groups and subscriptions are those in the roster at the time of the stanza,
/// for an account with a session and without.
#[test]
fn rules_may_name_groups_and_subscriptions() {
    for shard in [0, 1] {
        let mut scene = PrivacyScene::at(shard);
        let mut nurse = scene.server.login("nurse/house");
        let item = "<iq type='set' id='r'><query xmlns='jabber:iq:roster'><item jid='ROMEO'><group>GROUP</group></item></query></iq>";
        let group = |scene: &mut PrivacyScene, group: &str| {
            let set = scene.with_names(item).replace("GROUP", group);
            scene.juliet.send(&set);
            scene.juliet.all();
        };
        group(&mut scene, "Enemies");
        set(
            &mut scene.juliet,
            "<list name='l'><item type='group' value='Enemies' action='deny' order='1'><message/></item>\
             <item type='subscription' value='none' action='deny' order='2'><message/></item></list>",
        );
        set(&mut scene.juliet, "<default name='l'/>");
        let say = scene.with_names("<message to='JULIET' type='chat' id='m'><body>x</body></message>");
        let error = scene.with_names(&format!("<message type='error' id='m' from='JULIET'>{UNAVAILABLE}</message>"));
        for client in [&mut scene.romeo, &mut nurse] {
            client.send(&say);
            client.expect(&error);
        }
        group(&mut scene, "Friends");
        scene.romeo.send(&say);
        assert_eq!(scene.juliet.bodies(), ["x"]);
        scene.juliet.close();
        scene.romeo.all();
        scene.server.advance(120_000);
        nurse.send(&say);
        nurse.expect(&error);
        scene.romeo.send(&say);
        scene.romeo.expect_nothing();
        let name = scene.juliet.bare().split('@').next().map(str::to_owned).expect("a name");
        let mut again = scene.server.online(&format!("{name}/balcony"));
        assert_eq!(again.bodies(), ["x"]);
        nurse.send(&say);
        nurse.expect(&error);
    }
}

/// XEP-0191 §5: the block list consists of the items that the default list denies entirely.
#[test]
fn the_block_list_is_the_default_list() {
    let server = Server::with(Config::default());
    let mut old = server.login("juliet/old").with_name("old");
    let mut new = server.login("juliet/new").with_name("new");
    set(&mut old, PUBLIC);
    set(&mut old, PRIVATE);
    new.ask("<iq type='get' id='1'><blocklist xmlns='urn:xmpp:blocking'/></iq>");
    new.all();
    old.send("<iq type='set' id='d'><query xmlns='jabber:iq:privacy'><default name='public'/></query></iq>");
    old.expect("<iq type='result' id='d' from='juliet@example.org'/>");
    new.expect("<iq type='set' id='*'><block xmlns='urn:xmpp:blocking'><item jid='tybalt@example.com'/></block></iq>");
    play(
        &mut [&mut old, &mut new],
        "new C: <iq type='set' id='b'><block xmlns='urn:xmpp:blocking'><item jid='iago@example.com'/></block></iq>
         new S: <iq type='result' id='b' from='juliet@example.org'/>
                <iq type='set' id='*'><block xmlns='urn:xmpp:blocking'><item jid='iago@example.com'/></block></iq>
         old S: <iq type='set' id='*'><query xmlns='jabber:iq:privacy'><list name='public'/></query></iq>
         old C: <iq type='get' id='g'><query xmlns='jabber:iq:privacy'><list name='public'/></query></iq>
         old S: <iq type='result' id='g' from='juliet@example.org'><query xmlns='jabber:iq:privacy'><list name='public'>
                  <item type='jid' value='iago@example.com' action='deny' order='1'/>
                  <item type='jid' value='tybalt@example.com' action='deny' order='2'/>
                  <item action='allow' order='3'/></list></query></iq>",
    );
}

/// The length of a list is checked before its items are read, so that a refused list costs next to
/// nothing.
#[test]
fn lists_have_an_end() {
    let options = vec![("privacy", "max_items", Value::Number(30)), ("privacy", "max_rules", Value::Number(3))];
    let mut s = PrivacyScene::with(0, Config { options, ..Config::default() });
    let mut outcome = |payload: String| {
        s.juliet.send(&format!("<iq type='set' id='q'>{payload}</iq>"));
        let all = s.juliet.all();
        let answer = all.iter().find(|found| found.attr("id") == Some("q")).expect("an answer");
        let error = answer.child("error", "jabber:client").and_then(|error| error.children().next());
        error.map_or("result".to_owned(), |condition| condition.name().to_owned())
    };
    let block = |from: usize, to: usize| {
        let items: String = (from..to).map(|n| format!("<item jid='u{n}@far.example'/>")).collect();
        format!("<block xmlns='urn:xmpp:blocking'>{items}</block>")
    };
    // Its items aren't even read: otherwise the invalid address in it would be found.
    let broken = block(0, 31).replace("u30@", "@");
    assert_eq!(outcome(broken), "resource-constraint");
    assert_eq!(outcome(block(0, 20)), "result");
    assert_eq!(outcome(block(10, 25)), "result", "those who are blocked already count once");
    assert_eq!(outcome(block(25, 35)), "resource-constraint");
    let list = |items: String| format!("<query xmlns='jabber:iq:privacy'><list name='l'>{items}</list></query>");
    let rule = |n: usize| format!("<item type='subscription' value='none' action='deny' order='{n}'/>");
    assert_eq!(outcome(list((0..31).map(rule).collect())), "resource-constraint");
    assert_eq!(outcome(list((0..4).map(rule).collect())), "resource-constraint", "too many that name no address");
    assert_eq!(outcome(list((0..3).map(rule).collect())), "result");
}
