//! PostgreSQL and MariaDB alike: keys of any length, what a removed account takes along, connections that are killed, and servers that start at once.

#[allow(dead_code, reason = "tests of other troubles need more of it")]
mod engines;
#[allow(dead_code, reason = "another test needs more of it")]
#[path = "engines/writers.rs"]
mod writers;

use engines::Server;
use rookery_jid::Jid;
use rookery_needs::{Mariadb, Postgres};
use rookery_sasl::Credentials;
use rookery_store::pubsub::{Created, NodeSubscription, Room};
use rookery_store::sql::SqlStore;
use rookery_store::{Accounts, Edit, Pubsub, RosterItem, Rosters, Stores, wait};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Runs each test on every engine.
macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        mod postgres {
            $(#[test] fn $name() { super::$name::<super::Postgres>(); })*
        }
        mod mariadb {
            $(#[test] fn $name() { super::$name::<super::Mariadb>(); })*
        }
    };
}

tests! {
    keys_of_any_length_are_told_apart,
    an_account_takes_every_row_along,
    killed_connections_lose_and_double_nothing,
    several_servers_start_at_once,
}

fn keys_of_any_length_are_told_apart<S: Server>() {
    let Some(server) = S::start() else { return };
    let store = S::open(&server.database(), 2);
    let long = |letter: &str| letter.repeat(1023);
    let domain = format!("{}{}", "d.".repeat(507), "example.d");
    assert_eq!(domain.len(), 1023);
    let owner = Jid::new(Some(&long("o")), &domain, None).expect("a long address");
    create(&store, &owner);
    let contact = |resource: &str| Jid::new(Some(&long("c")), &domain, Some(resource)).expect("a long address");
    let contacts =
        [contact(&long("r")), contact(&format!("{}s", "r".repeat(1022))), contact("ß"), contact("ss"), contact("🐦")];
    assert_eq!(contacts[0].as_str().len(), 3071);
    let node_of = |node: &str| Pubsub::create_node(&store, owner.as_ref(), node, vec![1], owner.as_ref(), Room::ANY);
    let node = long("n");
    assert_eq!(wait(node_of(&node)), Ok(Created::Done));
    assert_eq!(wait(node_of(&format!("{} ", "n".repeat(1022)))), Ok(Created::Done));
    for contact in &contacts {
        let item = RosterItem::new(contact.clone());
        let put = Box::new(move |_: Option<&RosterItem>, _: rookery_store::SizeOf<'_>| Edit::Put(item.clone()));
        wait(store.change(owner.as_ref(), contact.as_ref(), put)).expect("an item");
        let subscription = NodeSubscription { pending: false, options: contact.as_str().as_bytes().to_vec() };
        let set = store.set_subscription(owner.as_ref(), &node, contact.as_ref(), Some(subscription), 99);
        wait(set).expect("a subscription");
    }
    let names = ["\u{1f426} \u{df}", "\u{1f426} ss", "\u{1f426} ss "];
    for name in names {
        let item = RosterItem { name: Some(name.to_owned()), ..RosterItem::new(contacts[4].clone()) };
        let put = Box::new(move |_: Option<&RosterItem>, _: rookery_store::SizeOf<'_>| Edit::Put(item.clone()));
        wait(store.change(owner.as_ref(), contacts[4].as_ref(), put)).expect("an item");
        let item = wait(store.item(owner.as_ref(), contacts[4].as_ref())).expect("an answer").expect("an item");
        assert_eq!(item.name.as_deref(), Some(name));
    }
    let roster = wait(Rosters::get(&store, owner.as_ref())).expect("a roster");
    assert_eq!(roster.items.len(), contacts.len());
    let item = wait(store.item(owner.as_ref(), contacts[1].as_ref())).expect("an answer").expect("an item");
    assert_eq!(item.jid, contacts[1]);
    let found = wait(store.subscriptions_of(owner.as_ref(), contacts[0].bare())).expect("subscriptions");
    assert_eq!(found.len(), contacts.len());
    wait(store.set_subscription(owner.as_ref(), &node, contacts[2].as_ref(), None, 99)).expect("an answer");
    let found = wait(store.subscriptions_of(owner.as_ref(), contacts[0].bare())).expect("subscriptions");
    assert!(found.iter().all(|(_, subscriber, _)| *subscriber != contacts[2]) && found.len() == contacts.len() - 1);
}

/// Whoever adds a table decides here what becomes of it when an account is removed.
fn an_account_takes_every_row_along<S: Server>() {
    let Some(server) = S::start() else { return };
    let database = server.database();
    S::open(&database, 1).close();
    let staying = server.sql(&database, S::WITHOUT_CASCADE);
    let expected = [
        "accounts",
        // Cleared once their archive is gone.
        "archive_messages",
        "archive_shares",
        "counters",
        "lists",
        "meta",
        "rookery_epoch",
        "rookery_lanes",
        "rookery_schema",
        // Rooms outlive those who made them.
        "rooms",
        // Without their owner until their files are gone.
        "slots",
    ];
    assert_eq!(staying.lines().collect::<Vec<_>>(), expected);
}

fn killed_connections_lose_and_double_nothing<S: Server>() {
    let Some(server) = S::start() else { return };
    let database = server.database();
    let stores = Stores::of(Arc::new(S::open(&database, 2)));
    writers::prepare(&stores).expect("accounts");
    let told = writers::write_while(&stores, || {
        for _ in 0..100 {
            server.disconnect(&database);
            thread::sleep(Duration::from_millis(10));
        }
    });
    let outcome = writers::compare(&stores, &told).expect("a comparison");
    assert!(outcome.acknowledged >= writers::WRITERS, "{outcome}");
    assert_eq!((outcome.lost, outcome.doubled, outcome.disordered), (0, 0, 0), "{outcome}");
    let counts = "SELECT COUNT(*) FROM accounts WHERE offline_messages <> (SELECT COUNT(*) FROM offline_messages WHERE owner = accounts.id)";
    assert_eq!(server.sql(&database, counts), "0");
}

fn several_servers_start_at_once<S: Server>() {
    let Some(server) = S::start() else { return };
    let database = server.database();
    let stores = thread::scope(|scope| {
        let starts: Vec<_> = (0..4).map(|_| scope.spawn(|| S::open(&database, 2))).collect();
        starts.into_iter().map(|start| start.join().expect("a start")).collect::<Vec<_>>()
    });
    let account = Jid::parse("romeo@a.example").expect("an address");
    let created: Vec<_> = stores.iter().map(|store| store.create(account.as_ref(), credentials())).collect();
    let created: Vec<_> = created.into_iter().map(|created| wait(created).expect("an answer")).collect();
    assert_eq!(created.iter().filter(|created| **created).count(), 1, "one of them has made it: {created:?}");
}

fn create(store: &SqlStore, account: &Jid) {
    assert_eq!(wait(store.create(account.as_ref(), credentials())), Ok(true));
}

fn credentials() -> Credentials {
    Credentials::derive_with("secret", 1, [[7; 16]; 3]).expect("a password")
}
