//! Shared roster groups: contacts that the operator sets.

use rookery_hub::Value;
use rookery_jid::Jid;
use rookery_sasl::Credentials;
use rookery_store::held::HeldStores;
use rookery_store::memory::Memory;
use rookery_testkit::{Client, Config, Server, play};
use rookery_xml::{Element, ns};

fn config(groups: &[&str]) -> Config {
    Config { options: vec![option(groups)], ..Config::default() }
}

fn option(groups: &[&str]) -> (&'static str, &'static str, Value) {
    ("shared_roster", "groups", Value::List(groups.iter().map(|group| (*group).to_owned()).collect()))
}

/// Returns a name on each of the two shards.
fn names(server: &Server) -> (String, String) {
    (server.name_at("alice", 0), server.name_at("bob", 1))
}

/// Returns the address, the subscription and the groups of each contact in a roster.
fn roster(client: &mut Client) -> Vec<(String, String, Vec<String>)> {
    client.pump();
    client.all();
    let result = client.ask("<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>");
    let query = result.child("query", ns::ROSTER).expect("a roster");
    let item = |item: &Element| {
        let groups = item.children().map(Element::text).collect();
        (item.attr("jid").unwrap_or_default().into(), item.attr("subscription").unwrap_or_default().into(), groups)
    };
    query.children().map(item).collect()
}

fn entry(jid: &str, subscription: &str, groups: &[&str]) -> (String, String, Vec<String>) {
    (jid.into(), subscription.into(), groups.iter().map(|group| (*group).to_owned()).collect())
}

/// Members see each other without a request, whatever their shards are.
#[test]
fn members_are_contacts() {
    let (alice, bob) = names(&Server::new());
    let server = Server::with(config(&[&format!("Sales: {alice}@example.org, {bob}@example.org, carol@example.org")]));
    let mut alice = server.online(&format!("{alice}/a")).with_name("alice");
    let mut dave = server.online("dave/d");
    let (a, b) = (alice.bare().to_owned(), format!("{bob}@example.org"));
    assert_eq!(roster(&mut alice), [entry(&b, "both", &["Sales"]), entry("carol@example.org", "both", &["Sales"])]);
    assert!(roster(&mut dave).is_empty());
    let mut bob = server.online(&format!("{bob}/b")).with_name("bob");
    let dialogue = "
        alice S: <presence from='BOB/b'/>
        bob   S: <presence from='ALICE/a'/>
        bob   C: <presence><status>1</status></presence>
        bob   S: <presence from='BOB/b'><status>1</status></presence>
        alice S: <presence from='BOB/b'><status>1</status></presence>
        # Who is a contact already needn't be asked.
        alice C: <presence type='subscribe' to='BOB'/>
        alice S:
        bob   C: <presence type='unavailable'/>
        alice S: <presence type='unavailable' from='BOB/b'/>";
    play(&mut [&mut alice, &mut bob], &dialogue.replace("ALICE", &a).replace("BOB", &b));
    dave.expect_nothing();
}

/// A client can change the name and the groups of a contact from a group, but it can't remove the
/// contact or the operator's group.
#[test]
fn a_contact_by_group_cannot_be_edited_away() {
    let server = Server::with(config(&["Sales: alice@example.org, bob@example.org"]));
    let mut alice = server.login("alice/a");
    roster(&mut alice);
    play(
        &mut [&mut alice],
        "C: <iq type='set' id='1'><query xmlns='jabber:iq:roster'><item jid='bob@example.org' subscription='remove'/></query></iq>
         S: <iq type='error' id='1' from='alice@example.org'><error type='cancel'>
              <not-allowed xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         C: <iq type='set' id='2'><query xmlns='jabber:iq:roster'>
              <item jid='bob@example.org' name='Bobby'><group>Friends</group></item></query></iq>
         S: <iq type='set' id='*'><query xmlns='jabber:iq:roster'>
              <item jid='bob@example.org' name='Bobby' subscription='both'><group>Friends</group><group>Sales</group></item></query></iq>
            <iq type='result' id='2' from='alice@example.org'/>
         C: <iq type='get' id='3'><query xmlns='jabber:iq:roster' ver='1'/></iq>
         S: <iq type='result' id='3' from='alice@example.org'><query xmlns='jabber:iq:roster'>
              <item jid='bob@example.org' name='Bobby' subscription='both'><group>Friends</group><group>Sales</group></item></query></iq>
         C: <iq type='set' id='4'><query xmlns='jabber:iq:roster'><item jid='dave@example.org'/></query></iq>
         S: <iq type='set' id='*'><query xmlns='jabber:iq:roster'><item jid='dave@example.org' subscription='none'/></query></iq>
            <iq type='result' id='4' from='alice@example.org'/>
         C: <iq type='set' id='5'><query xmlns='jabber:iq:roster'><item jid='dave@example.org' subscription='remove'/></query></iq>
         S: <iq type='set' id='*'><query xmlns='jabber:iq:roster'><item jid='dave@example.org' subscription='remove'/></query></iq>
            <iq type='result' id='5' from='alice@example.org'/>",
    );
}

/// If a group is shown to another one, only the members of that one see the others.
#[test]
fn a_group_is_shown_to_others() {
    let (alice, bob) = names(&Server::new());
    let server = Server::with(config(&[
        &format!("Support: {alice}@example.org -> Users"),
        &format!("Users: {bob}@example.org, bea@example.org -> Nobody"),
        "Nobody:",
    ]));
    let mut alice = server.online(&format!("{alice}/a"));
    let mut bob = server.online(&format!("{bob}/b"));
    bob.expect(&format!("<presence from='{}'/>", alice.full()));
    alice.expect_nothing();
    assert_eq!(roster(&mut bob), [entry(alice.bare(), "to", &["Support"])]);
    assert_eq!(roster(&mut alice), []);
}

/// `@all@` is every account, also one that is created later. Its presence reaches everybody once.
#[test]
fn a_group_may_be_everybody() {
    let (alice, bob) = names(&Server::new());
    let server = Server::with(config(&["Everybody: @all@"]));
    server.account("away");
    let mut alice = server.online(&format!("{alice}/a"));
    server.advance(10_000);
    assert_eq!(roster(&mut alice), [entry("away@example.org", "both", &["Everybody"])]);
    let mut bob = server.online(&format!("{bob}/b"));
    bob.expect(&format!("<presence from='{}'/>", alice.full()));
    alice.expect(&format!("<presence from='{}'/>", bob.full()));
    bob.expect_nothing();
    server.advance(10_000);
    alice.expect(&format!(
        "<iq type='set' id='*'><query xmlns='jabber:iq:roster'><item jid='{}' subscription='both'>\
         <group>Everybody</group></item></query></iq>",
        bob.bare()
    ));
    alice.expect_nothing();
    assert_eq!(roster(&mut bob).len(), 2);
}

/// `@online@` is every account that is online, as they come and go.
#[test]
fn a_group_may_be_everybody_who_is_online() {
    let (alice, bob) = names(&Server::new());
    let server = Server::with(config(&["Online: @online@"]));
    server.account("away");
    let mut alice = server.online(&format!("{alice}/a"));
    server.advance(10_000);
    assert_eq!(roster(&mut alice), []);
    let mut bob = server.online(&format!("{bob}/b"));
    alice.expect(&format!("<presence from='{}'/>", bob.full()));
    server.advance(10_000);
    let push = |item: &str| format!("<iq type='set' id='*'><query xmlns='jabber:iq:roster'>{item}</query></iq>");
    let bare = bob.bare().to_owned();
    alice.expect(&push(&format!("<item jid='{bare}' subscription='both'><group>Online</group></item>")));
    assert_eq!(roster(&mut bob), [entry(alice.bare(), "both", &["Online"])]);
    bob.close();
    alice.expect(&format!("<presence type='unavailable' from='{bare}/b'/>"));
    server.advance(10_000);
    alice.expect(&push(&format!("<item jid='{bare}' subscription='remove'/>")));
    assert_eq!(roster(&mut alice), []);
}

/// After a reload with other groups, clients get the changes, and presence follows.
#[test]
fn a_reload_changes_the_groups() {
    let (alice, bob) = names(&Server::new());
    let group = format!("Sales: {alice}@example.org, {bob}@example.org");
    let server = Server::with(config(&[]));
    let mut alice = server.online(&format!("{alice}/a"));
    let mut bob = server.online(&format!("{bob}/b"));
    roster(&mut alice);
    server.advance(10_000);
    server.reload(|config| config.options = vec![option(&[&group])]);
    server.advance(10_000);
    let (a, b) = (alice.full().to_owned(), bob.full().to_owned());
    let push = |item: &str| format!("<iq type='set' id='*'><query xmlns='jabber:iq:roster'>{item}</query></iq>");
    let new = push(&format!("<item jid='{}' subscription='both'><group>Sales</group></item>", bob.bare()));
    alice.expect_in_any_order(&[&new, &format!("<presence from='{b}'/>")]);
    bob.expect(&format!("<presence from='{a}'/>"));
    server.reload(|config| config.options = vec![option(&[])]);
    server.advance(10_000);
    let gone = push(&format!("<item jid='{}' subscription='remove'/>", bob.bare()));
    alice.expect_in_any_order(&[&gone, &format!("<presence type='unavailable' from='{b}'/>")]);
    bob.expect(&format!("<presence type='unavailable' from='{a}'/>"));
    alice.expect_nothing();
}

/// A contact from a group that is also in the user's own roster is one contact, and gets presence
/// once.
#[test]
fn own_contacts_among_the_members_hear_of_presence_once() {
    let (alice, bob) = names(&Server::new());
    let server = Server::with(config(&[&format!("Sales: {alice}@example.org, {bob}@example.org")]));
    let options = config(&[]).options;
    server.reload(|config| config.options = options);
    let mut alice = server.online(&format!("{alice}/a"));
    let mut bob = server.online(&format!("{bob}/b"));
    rookery_testkit::befriend(&mut alice, &mut bob);
    let group = format!("Sales: {}, {}", alice.bare(), bob.bare());
    server.reload(|config| config.options = vec![option(&[&group])]);
    server.advance(10_000);
    alice.all();
    bob.all();
    alice.send("<presence><status>once</status></presence>");
    bob.expect(&format!("<presence from='{}'><status>once</status></presence>", alice.full()));
    bob.expect_nothing();
    let resource = alice.bare().split('@').next().map(|name| format!("{name}/again")).expect("a name");
    let mut again = server.online(&resource);
    let all = again.all();
    assert_eq!(all.iter().filter(|presence| presence.attr("from") == Some(bob.full())).count(), 1);
    assert_eq!(roster(&mut again), [entry(bob.bare(), "both", &["Sales"])]);
}

/// The block list applies to contacts from groups as to others.
#[test]
fn a_member_is_blocked() {
    for groups in ["Sales: ALICE@example.org, BOB@example.org", "Everybody: @all@"] {
        let (alice, bob) = names(&Server::new());
        let server = Server::with(config(&[&groups.replace("ALICE", &alice).replace("BOB", &bob)]));
        let mut alice = server.online(&format!("{alice}/a"));
        let mut bob = server.online(&format!("{bob}/b"));
        alice.all();
        bob.all();
        alice.send(&format!(
            "<iq type='set' id='b'><block xmlns='urn:xmpp:blocking'><item jid='{}'/></block></iq>",
            bob.bare()
        ));
        alice.all();
        bob.expect(&format!("<presence type='unavailable' from='{}'/>", alice.full()));
        alice.send("<presence><status>hidden</status></presence>");
        alice.all();
        bob.expect_nothing();
        let resource = bob.bare().split('@').next().map(|name| format!("{name}/again")).expect("a name");
        let mut again = server.online(&resource);
        let all = again.all();
        assert!(all.iter().all(|presence| presence.attr("from") != Some(alice.full())), "{groups}");
        alice.expect_nothing();
    }
}

/// However many members a group has, a login takes the same number of the store's operations.
#[test]
fn a_large_group_costs_the_store_nothing() {
    let mut asked = Vec::new();
    for members in [0, 5000] {
        let held = HeldStores::new(Memory::stores());
        held.set_flowing(true);
        let list: String = (0..members).map(|at| format!("m{at}@example.org, ")).collect();
        let groups = format!("Large: {list} alice@example.org");
        let server = Server::with(Config { stores: held.stores(), ..config(&[&groups]) });
        let mut alice = server.login("alice/a");
        held.set_flowing(false);
        let mut operations = 0;
        alice.send("<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq><presence/>");
        alice.pump();
        while held.waiting() > 0 {
            operations += held.release_all();
            alice.pump();
        }
        let result = alice.expect_element();
        let query = result.child("query", ns::ROSTER).expect("a roster");
        assert_eq!(query.children().count(), members);
        asked.push(operations);
    }
    assert_eq!(asked[0], asked[1]);
}

/// XEP-0163 §4.3: items of an account for those who see its presence reach contacts from groups,
/// who may also request them.
#[test]
fn personal_nodes_are_open_to_members() {
    let (alice, bob) = names(&Server::new());
    let server = Server::with(config(&[&format!("Sales: {alice}@example.org, {bob}@example.org")]));
    let mut alice = server.online(&format!("{alice}/a"));
    let mut bob = server.login(&format!("{bob}/b"));
    let mut dave = server.login("dave/d");
    alice.send(
        "<iq type='set' id='p'><pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='urn:example:mood'>\
         <item id='1'><mood xmlns='urn:example:mood'/></item></publish></pubsub></iq>",
    );
    alice.all();
    let ask = format!(
        "<iq type='get' id='g' to='{}'><pubsub xmlns='http://jabber.org/protocol/pubsub'>\
         <items node='urn:example:mood'/></pubsub></iq>",
        alice.bare()
    );
    assert_eq!(bob.ask(&ask).attr("type"), Some("result"));
    assert_eq!(dave.ask(&ask).attr("type"), Some("error"));
}

/// `@all@` with ten thousand accounts: a login takes the same number of the store's operations, and
/// the accounts are listed once for all logins.
#[test]
fn everybody_costs_the_store_nothing() {
    let mut asked = Vec::new();
    for accounts in [10, 10_000] {
        let memory = Memory::stores();
        let credentials = Credentials::derive_with("pencil", 1, [*b"0123456789abcdef"; 3]).expect("credentials");
        for number in 0..accounts {
            let jid = Jid::parse(&format!("m{number}@example.org")).expect("an address");
            rookery_store::wait(memory.accounts.create(jid.as_ref(), credentials.clone())).expect("an account");
        }
        let held = HeldStores::new(memory);
        held.set_flowing(true);
        let server = Server::with(Config { stores: held.stores(), ..config(&["Everybody: @all@"]) });
        server.account("alice");
        server.advance(10_000);
        let mut operations = Vec::new();
        for resource in ["a", "b", "c"] {
            let mut alice = server.login(&format!("alice/{resource}"));
            held.set_flowing(false);
            let mut count = 0;
            alice.send("<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq><presence/>");
            alice.pump();
            while held.waiting() > 0 {
                count += held.release_all();
                alice.pump();
            }
            held.set_flowing(true);
            let all = alice.all();
            let query = all.iter().find_map(|stanza| stanza.child("query", ns::ROSTER)).expect("a roster");
            assert_eq!(query.children().count(), accounts);
            operations.push(count);
        }
        asked.push(operations);
    }
    assert_eq!(asked[0], asked[1]);
}

/// `@online@` and `@all@` together: a member who comes, shows a status and goes takes the same
/// number of the store's operations, with few members online and with many. The others take none.
#[test]
fn those_who_are_there_cost_the_store_nothing() {
    let mut asked = Vec::new();
    for others in [3, 60] {
        let held = HeldStores::new(Memory::stores());
        held.set_flowing(true);
        let groups = config(&["There: @online@", "Everybody: @all@"]);
        let server = Server::with(Config { stores: held.stores(), ..groups });
        let mut there: Vec<_> = (0..others).map(|number| server.online(&format!("m{number}/r"))).collect();
        server.advance(10_000);
        there.iter_mut().for_each(|client| drop(client.all()));
        let mut alice = server.login("alice/a");
        held.set_flowing(false);
        let mut operations = Vec::new();
        for stanza in [
            "<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>",
            "<presence/>",
            "<presence><show>away</show></presence>",
            "<presence type='unavailable'/>",
        ] {
            alice.send(stanza);
            let mut count = 0;
            server.settle();
            while held.waiting() > 0 {
                count += held.release_all();
                server.settle();
            }
            operations.push(count);
        }
        let seen = there.iter_mut().map(|client| {
            let shown = client.all();
            shown.iter().filter(|it| it.name() == "presence" && it.attr("from") == Some(alice.full())).count()
        });
        assert_eq!(seen.collect::<Vec<_>>(), vec![3; others], "all of them have seen all of it");
        asked.push(operations);
    }
    assert_eq!(asked[0], asked[1]);
    assert!(asked[0].iter().sum::<usize>() < 20, "{asked:?}");
}

fn small_outbox(groups: &[&str]) -> Config {
    let mut config = config(groups);
    config.settings.outbox.soft = 4 * 1024;
    config.settings.outbox.hard = 16 * 1024;
    config
}

/// A newcomer sees all members who are online, even if that is more than an outbox holds, except
/// for those who are blocked.
#[test]
fn more_members_are_seen_than_an_outbox_holds() {
    let server = Server::with(small_outbox(&["Everybody: @all@"]));
    let status = format!("<presence><status>{}</status></presence>", "x".repeat(500));
    let mut others: Vec<Client> = (0..100).map(|at| server.login(&format!("m{at}/r"))).collect();
    for other in &mut others {
        other.send(&status);
        other.all();
    }
    for other in &mut others {
        other.all();
    }
    let mut alice = server.login("alice/a");
    alice.send("<iq type='set' id='b'><block xmlns='urn:xmpp:blocking'><item jid='m7@example.org'/></block></iq>");
    alice.all();
    alice.send("<presence/>");
    let mut seen = Vec::new();
    for _ in 0..100 {
        seen.extend(alice.all().iter().filter_map(|stanza| stanza.attr("from").map(str::to_owned)));
        server.advance(10);
    }
    let seen: std::collections::BTreeSet<_> = seen.into_iter().filter(|from| from.starts_with('m')).collect();
    assert_eq!(seen.len(), 99, "{seen:?}");
    assert!(!seen.contains("m7@example.org/r"));
    alice.expect_alive();
}

/// A reload that gives everybody hundreds of contacts pushes each of them, and ends no session.
#[test]
fn a_reload_tells_more_than_an_outbox_holds() {
    let server = Server::with(small_outbox(&[]));
    for at in 0..500 {
        server.account(&format!("m{at}"));
    }
    let mut alice = server.online("alice/a");
    let mut bob = server.online("bob/b");
    roster(&mut alice);
    roster(&mut bob);
    server.advance(10_000);
    server.reload(|config| config.options = vec![option(&["Everybody: @all@"])]);
    for client in [&mut alice, &mut bob] {
        let mut told = std::collections::BTreeSet::new();
        for _ in 0..2000 {
            for stanza in client.all() {
                let items =
                    stanza.child("query", ns::ROSTER).map(|query| query.children().cloned().collect::<Vec<_>>());
                told.extend(items.into_iter().flatten().filter_map(|item| item.attr("jid").map(str::to_owned)));
            }
            if told.len() == 501 {
                break;
            }
            server.advance(10);
        }
        assert_eq!(told.len(), 501);
        client.expect_alive();
    }
    // If the configuration hasn't changed, nothing is pushed.
    server.reload(|_| ());
    server.advance(10_000);
    alice.expect_nothing();
}
