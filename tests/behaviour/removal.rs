//! A removed account leaves nothing behind, not even for the next account of its name.

use std::sync::Arc;

use rookery_hub::Value;
use rookery_jid::Jid;
use rookery_operations::users;
use rookery_sasl::Mechanism;
use rookery_store::forward::Forward;
use rookery_store::held::HeldStores;
use rookery_store::memory::Memory;
use rookery_store::{StoreError, Stores, Subscription};
use rookery_testkit::server::PASSWORD;
use rookery_testkit::wire::Item;
use rookery_testkit::{Client, Config, Server, befriend};
use rookery_xml::{Element, ns};

/// Alice, whose home is a shard of the test's choice, with her contact Bob.
struct RemovalScene {
    server: Server,
    alice: Client,
    bob: Client,
}

impl RemovalScene {
    fn at(shard: usize) -> Self {
        Self::with(shard, Memory::stores())
    }

    fn with(shard: usize, stores: Stores) -> Self {
        let options = vec![
            ("register", "allow_creation", Value::Switch(false)),
            ("administration", "admins", Value::List(vec!["bard@example.org".into()])),
        ];
        let server = Server::with(Config { options, stores, ..Config::default() });
        let [alice, bob] = [("alice", shard), ("bob", 0)].map(|(stem, at)| server.name_at(stem, at));
        let mut alice = server.online(&format!("{alice}/a")).with_name("alice");
        let mut bob = server.online(&format!("{bob}/b")).with_name("bob");
        befriend(&mut alice, &mut bob);
        Self { server, alice, bob }
    }

    /// Returns a scene and its store, which completes its operations by itself until a test holds
    /// them back.
    fn with_held_store(shard: usize) -> (Self, Arc<HeldStores>) {
        let held = HeldStores::new(Memory::stores());
        held.set_flowing(true);
        (Self::with(shard, held.stores()), held)
    }

    fn account(&self) -> Jid {
        Jid::parse(self.alice.bare()).expect("an address")
    }

    /// Returns whether the account exists, in the store behind the one that holds its answers back.
    fn is_there(&self, held: &HeldStores) -> bool {
        self.server.finish(held.inner().accounts.exists(self.account().as_ref())).expect("a store")
    }

    fn remove(&mut self, way: RemovalWay) {
        match way {
            RemovalWay::Itself => {
                self.alice.send(REMOVE);
            }
            RemovalWay::Operator => {
                let account = self.account();
                self.server.run_at(1, |world| users::remove(world, account, |_, removed| removed.expect("an account")));
            }
            RemovalWay::Command => {
                let mut admin = self.server.login("bard/globe");
                let node = "http://jabber.org/protocol/admin#delete-user";
                let form = format!(
                    "<x xmlns='jabber:x:data' type='submit'><field var='accountjids'><value>{}</value></field></x>",
                    self.alice.bare()
                );
                let command = |rest: &str, form: &str| {
                    format!(
                        "<iq type='set' id='c' to='example.org'><command xmlns='{}' node='{node}'{rest}>{form}</command></iq>",
                        ns::COMMANDS
                    )
                };
                let asked = admin.ask(&command("", ""));
                let session =
                    asked.child("command", ns::COMMANDS).and_then(|asked| asked.attr("sessionid")).expect("a session");
                let done = admin.ask(&command(&format!(" action='complete' sessionid='{session}'"), &form));
                assert_eq!(done.child("command", ns::COMMANDS).and_then(|done| done.attr("status")), Some("completed"));
            }
        }
        self.alice.all_to_the_end();
        let account = self.account();
        assert_eq!(self.server.finish(self.server.stores().accounts.exists(account.as_ref())), Ok(false));
    }

    /// Returns a client of the next owner of Alice's name.
    fn heir(&self) -> Client {
        self.server.login(&format!("{}/a", self.alice.bare().split('@').next().expect("a name"))).with_name("heir")
    }
}

#[derive(Debug, Clone, Copy)]
enum RemovalWay {
    Itself,
    Operator,
    Command,
}

const WAYS: [RemovalWay; 3] = [RemovalWay::Itself, RemovalWay::Operator, RemovalWay::Command];

fn is_result(answer: &Element) {
    assert_eq!(answer.attr("type"), Some("result"), "{answer:?}");
}

fn set(client: &mut Client, payload: &str) {
    is_result(&answer(client, "set", payload));
}

/// Returns the reply to an IQ, and discards the stanzas before it.
fn answer(client: &mut Client, kind: &str, payload: &str) -> Element {
    client.send(&format!("<iq type='{kind}' id='q'>{payload}</iq>"));
    loop {
        let found = client.expect_element();
        if found.name() == "iq" && found.attr("id") == Some("q") {
            return found;
        }
    }
}

fn condition(answer: &Element) -> &str {
    let error = answer.child("error", ns::CLIENT).unwrap_or_else(|| panic!("no error: {answer:?}"));
    error.children().next().map(Element::name).unwrap_or_default()
}

/// Returns the number of messages in an archive.
fn count_archived(client: &mut Client) -> usize {
    client.send("<iq type='set' id='q'><query xmlns='urn:xmpp:mam:2'/></iq>");
    let mut count = 0;
    while client.expect_element().name() == "message" {
        count += 1;
    }
    count
}

#[test]
fn the_next_owner_of_a_name_finds_nothing() {
    for (shard, way) in [0, 1].into_iter().flat_map(|shard| WAYS.map(|way| (shard, way))) {
        let mut scene = RemovalScene::at(shard);
        set(&mut scene.alice, "<vCard xmlns='vcard-temp'><FN>Alice</FN></vCard>");
        set(&mut scene.alice, "<query xmlns='jabber:iq:private'><n xmlns='urn:n'>mine</n></query>");
        set(&mut scene.alice, "<block xmlns='urn:xmpp:blocking'><item jid='mallory@example.org'/></block>");
        set(
            &mut scene.alice,
            "<pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='urn:n'><item id='1'><n xmlns='urn:n'/></item></publish></pubsub>",
        );
        let to = scene.alice.bare().to_owned();
        scene.bob.send(&format!("<message type='chat' to='{to}'><body>just said</body></message>"));
        scene.alice.all();
        scene.remove(way);
        // A message that comes while nobody has the name isn't for the next owner.
        scene.bob.send(&format!("<message type='chat' to='{to}'><body>too late</body></message>"));
        scene.bob.all();
        let mut mallory = scene.server.online("mallory/m");

        let account = scene.server.account(&to);
        mallory.send(&format!("<message type='chat' to='{to}'><body>welcome</body></message>"));
        mallory.expect_nothing();
        let mut heir = scene.heir();
        scene.server.advance(5_000);
        heir.send("<presence/>");
        let heard = heir.all();
        let bodies: Vec<_> = heard.iter().filter_map(|it| it.child_text("body", ns::CLIENT)).collect();
        assert_eq!(bodies, ["welcome"], "{way:?}: nobody is blocked, and nothing else waits");
        let shown = heard.iter().filter(|it| it.name() == "presence").filter(|it| it.attr("from") != Some(heir.full()));
        assert_eq!(shown.count(), 0, "{way:?}: {heard:?}");
        assert_eq!(count_archived(&mut heir), 1, "{way:?}: what Mallory has said");
        let roster = answer(&mut heir, "get", "<query xmlns='jabber:iq:roster'/>");
        assert_eq!(roster.child("query", ns::ROSTER).expect("a roster").children().count(), 0);
        let card = answer(&mut heir, "get", "<vCard xmlns='vcard-temp'/>");
        assert_eq!(card.children().map(|card| card.children().count()).sum::<usize>(), 0, "{card:?}");
        let kept = answer(&mut heir, "get", "<query xmlns='jabber:iq:private'><n xmlns='urn:n'/></query>");
        assert_eq!(kept.children().next().and_then(|query| query.child("n", "urn:n")).expect("n").text(), "");
        let items = "<pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='urn:n'/></pubsub>";
        assert_eq!(condition(&answer(&mut heir, "get", items)), "item-not-found");
        let stores = scene.server.stores();
        assert_eq!(
            scene.server.finish(stores.documents.starting(account.as_ref(), "")).map(|found| found.len()),
            Ok(0)
        );

        // The former contacts show each other nothing.
        scene.bob.all();
        scene.bob.send("<presence><status>to friends</status></presence>");
        scene.bob.all();
        heir.expect_nothing();
        heir.send("<presence><status>to friends</status></presence>");
        heir.all();
        scene.bob.expect_nothing();
        let roster = answer(&mut scene.bob, "get", "<query xmlns='jabber:iq:roster'/>");
        let item = roster.child("query", ns::ROSTER).and_then(|roster| roster.children().next().cloned());
        assert_eq!(item.expect("Alice stays in Bob's roster").attr("subscription"), Some("none"));
    }
}

/// A client that has logged in as the owner of an account, or is about to, must begin again if the
/// account is removed: it isn't a client of the next owner of the name.
#[test]
fn who_is_logging_in_has_to_begin_again() {
    for shard in [0, 1] {
        let mut scene = RemovalScene::at(shard);
        let name = scene.alice.bare().split('@').next().expect("a name").to_owned();
        let mut unbound = scene.alice.again();
        let mut proving = [0, 1].map(|at| {
            let mut client = scene.server.connect_at(at).with_name("proving");
            client.open("example.org");
            client
        });
        let exchanges = proving.each_mut().map(|client| {
            let (exchange, initial) = client.exchange(&name, PASSWORD, Mechanism::ScramSha256);
            client.send(&rookery_testkit::login::sasl("auth", Some(Mechanism::ScramSha256), &initial));
            assert_eq!(client.expect_element().name(), "challenge");
            exchange
        });
        let mut other = scene.server.connect();
        other.log_in(&Jid::parse(scene.bob.bare()).expect("an address"), rookery_testkit::Security::Plain);
        scene.remove(RemovalWay::Operator);
        scene.server.account(&name);
        unbound.expect_stream_error("not-authorized");
        for (mut client, _) in proving.into_iter().zip(exchanges) {
            client.expect_stream_error("not-authorized");
        }
        other.bind("other");
        other.expect_alive();
    }
}

/// An account stays if its contacts can't be told: they would show themselves to the next owner of
/// the name.
#[test]
fn an_account_stays_whose_contacts_are_unknown() {
    let (scene, held) = RemovalScene::with_held_store(1);
    let (account, contact) = (scene.account(), scene.bob.jid.clone().expect("bound").to_bare());
    for (fault, expected) in [(Some(StoreError::Busy), Err(StoreError::Busy)), (None, Ok(true))] {
        if let Some(fault) = fault {
            held.fail_one(0, fault);
        }
        let (gone, wanted) = (account.clone(), expected.clone());
        let home = scene.server.home_of(account.as_str());
        scene.server.run_at(home, move |world| {
            world.remove_account(gone, move |_, removed| assert_eq!(removed, wanted));
        });
        scene.server.settle();
        let stores = scene.server.stores();
        assert_eq!(scene.server.finish(stores.accounts.exists(account.as_ref())), Ok(expected.is_err()));
        let roster = scene.server.finish(stores.rosters.get(contact.as_ref())).expect("a roster");
        let item = roster.items.iter().find(|item| item.jid == account).map(|item| item.subscription);
        assert_eq!(item == Some(Subscription::Both), expected.is_err(), "{item:?}");
    }
}

/// The second look at the roster finds subscriptions that were approved meanwhile. If it fails, a
/// contact may show itself to the next owner of the name, so the operator must be told.
#[test]
fn a_second_look_at_the_roster_that_fails_is_reported() {
    let (scene, held) = RemovalScene::with_held_store(1);
    let account = scene.account();
    let home = scene.server.home_of(account.as_str());
    let before = scene.server.counters().store_errors;
    held.fail_one(1, StoreError::Closed);
    scene.server.run_at(home, move |world| {
        world.remove_account(account, |_, removed| assert_eq!(removed, Ok(true)));
    });
    assert!(held.has_failed() && !scene.is_there(&held));
    assert_eq!(scene.server.counters().store_errors, before + 1);
}

/// A request that follows the removal of the account isn't carried out: contacts would answer the
/// next owner of the name.
#[test]
fn who_removes_the_account_asks_nobody_behind_that() {
    for shard in [0, 1] {
        let mut scene = RemovalScene::at(shard);
        let mut nurse = scene.server.online("nurse/n");
        // The first request waits for the store, and the other two wait behind it.
        let first = "<presence type='subscribe' to='romeo@example.org'/>";
        let last = format!("<presence type='subscribe' to='{}'/>", nurse.bare());
        scene.alice.send(&format!("{first}{REMOVE}{last}"));
        scene.alice.all_to_the_end();
        nurse.expect_nothing();
        drop(scene.heir());
        nurse.expect_nothing();
    }
}

/// Nor is a request that another session sends at the moment when the account is removed.
#[test]
fn a_session_that_was_ended_asks_nobody() {
    for shard in [0, 1] {
        let mut scene = RemovalScene::at(shard);
        let mut nurse = scene.server.online("nurse/n");
        let name = scene.alice.bare().split('@').next().expect("a name").to_owned();
        let tablet = scene.server.login(&format!("{name}/tablet"));
        scene.alice.wire.peer.write(REMOVE.as_bytes());
        tablet.wire.peer.write(format!("<presence type='subscribe' to='{}'/>", nurse.bare()).as_bytes());
        scene.alice.all_to_the_end();
        nurse.expect_nothing();
    }
}

/// Returns the reply to the request to remove the account, while the store goes on step by step.
fn finish_removal(client: &mut Client, held: &HeldStores) -> Element {
    loop {
        match client.take() {
            Some(Item::Element(element)) if element.attr("id") == Some("gone") => return element,
            Some(_) => {}
            None => assert!(held.release_one(), "an answer comes at last"),
        }
    }
}

/// XEP-0077 §3.2: the reply says that the account is gone, so it comes after the removal, and the
/// end of the stream comes after the reply.
#[test]
fn a_removal_is_confirmed_when_the_account_is_gone() {
    for shard in [0, 1] {
        let (mut scene, held) = RemovalScene::with_held_store(shard);
        scene.alice.all();
        scene.bob.all();
        held.set_flowing(false);
        scene.alice.send(REMOVE);
        is_result(&finish_removal(&mut scene.alice, &held));
        assert!(!scene.is_there(&held));
        scene.alice.expect_stream_error("not-authorized");
        held.set_flowing(true);
        held.release_all();
        // Her contact has seen her become unavailable once.
        let heard = scene.bob.all();
        let gone = heard.iter().filter(|it| it.attr("type") == Some("unavailable"));
        assert_eq!(gone.count(), 1, "{heard:?}");
    }
}

/// If an account can't be removed, the reply says so, and its owner can try again.
#[test]
fn a_removal_that_fails_is_refused() {
    for shard in [0, 1] {
        let (mut scene, held) = RemovalScene::with_held_store(shard);
        scene.alice.all();
        held.set_fault(Some(StoreError::Busy));
        scene.alice.send(REMOVE);
        let answer = finish_removal(&mut scene.alice, &held);
        assert_eq!((answer.attr("type"), condition(&answer)), (Some("error"), "resource-constraint"), "{answer:?}");
        scene.alice.expect_stream_error("not-authorized");
        held.set_fault(None);
        scene.alice = scene.server.online(scene.alice.full());
        scene.remove(RemovalWay::Itself);
    }
}

/// Messages that a client had not read when its account was removed reach nobody of that name.
#[test]
fn what_nobody_has_read_is_not_for_the_next_of_the_name() {
    for shard in [0, 1] {
        let (mut scene, held) = RemovalScene::with_held_store(shard);
        let account = scene.account();
        scene.alice.all();
        scene.alice.set_reading(false);
        scene.alice.wire.peer.set_window(100);
        for _ in 0..3 {
            let body = "for the first Alice ".repeat(20);
            scene.bob.send(&format!("<message type='chat' to='{account}'><body>{body}</body></message>"));
        }
        scene.bob.pump();
        held.set_flowing(false);
        scene.alice.send(REMOVE);
        scene.alice.pump();
        while scene.is_there(&held) {
            assert!(held.release_one());
            scene.server.settle();
        }
        // The name gets a new owner before the shard knows that the old account is gone.
        held.set_flowing(true);
        scene.server.account(account.as_str());
        held.release_all();
        scene.server.settle();
        let mut heir = scene.heir();
        heir.send("<presence/>");
        assert_eq!(heir.bodies(), Vec::<String>::new());
        assert_eq!(count_archived(&mut heir), 0);
    }
}

const REMOVE: &str = "<iq type='set' id='gone'><query xmlns='jabber:iq:register'><remove/></query></iq>";
