//! The statements that the server sends its database: each is a round trip if the database is on
//! another machine.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use rookery_jid::Jid;
use rookery_sasl::Credentials;
use rookery_store::pubsub::{Item, ItemsKept, NodeRoom, WantedItems};
use rookery_store::sql::SqlStore;
use rookery_store::{
    ArchiveOf, ArchiveQuery, ArchivedMessage, Edit, OfflineRoom, RosterItem, Stores, Subscription, sqlite, wait,
};
use rookery_testkit::engine::at_once;
use rookery_testkit::{Server, config::Config};

/// A database in a folder that is removed with it.
struct StatementDatabase {
    store: Arc<SqlStore>,
    stores: Stores,
    _folder: tempfile::TempDir,
}

impl StatementDatabase {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("rookery.db");
        let store = Arc::new(sqlite::open(&path, &sqlite::SqliteOptions::default()).expect("a new database"));
        let stores = at_once(Stores::of(store.clone()), ());
        Self { store, stores, _folder: folder }
    }

    /// Counts the statements that some work takes.
    fn count_statements<T>(&self, work: impl FnOnce() -> T) -> u64 {
        let before = self.store.statements();
        work();
        self.store.statements() - before
    }

    fn account(&self, name: &str) -> Jid {
        let account = jid(&format!("{name}@example.org"));
        wait(self.stores.accounts.create(account.as_ref(), credentials())).expect("an account");
        account
    }

    fn befriend(&self, owner: &Jid, contact: &Jid) {
        let item = RosterItem { subscription: Subscription::Both, ..RosterItem::new(contact.clone()) };
        let edit = Box::new(move |_: Option<&RosterItem>, _: rookery_store::SizeOf<'_>| Edit::Put(item.clone()));
        wait(self.stores.rosters.change(owner.as_ref(), contact.as_ref(), edit)).expect("a contact");
    }
}

fn jid(text: &str) -> Jid {
    Jid::parse(text).expect("an address")
}

fn credentials() -> Credentials {
    Credentials::derive_with("secret", 1, [[7; 16]; 3]).expect("credentials")
}

/// Returns the number of statements for a login of a user with this many contacts, all of whom are
/// away. It includes everything that the login requests: keys, the roster, last presence, requests,
/// offline messages and announcements.
fn login(contacts: usize, shards: usize) -> u64 {
    let database = StatementDatabase::new();
    let server = Server::with(Config { stores: database.stores.clone(), shards, ..Config::default() });
    let romeo = server.account("romeo");
    for number in 0..contacts {
        let contact = database.account(&format!("contact{number}"));
        database.befriend(&romeo, &contact);
        database.befriend(&contact, &romeo);
        let presence = b"<presence type='unavailable'/>".to_vec();
        wait(database.stores.last_presence.put(contact.as_ref(), 1, presence)).expect("a last presence");
    }
    // The statements with which shards start don't belong to the login.
    server.settle();
    let statements = database.count_statements(|| {
        let mut client = server.login("romeo/orchard");
        client.send("<iq type='get' id='roster'><query xmlns='jabber:iq:roster'/></iq>");
        client.expect("<iq type='result' id='roster' from='romeo@example.org' to='romeo@example.org/orchard'>...</iq>");
        client.send("<presence/>");
        client.expect_presence_of_itself();
        server.settle();
    });
    // One statement is the testkit's, which makes sure that the account exists.
    statements - 1
}

#[test]
fn a_login_takes_few_statements_whatever_the_roster() {
    for contacts in [0, 10, 300] {
        let statements = login(contacts, 1);
        assert!(statements <= 8, "{statements} statements with {contacts} contacts");
    }
    // Each shard looks up the contacts whose home it is.
    let statements = login(300, 4);
    assert!(statements <= 11, "{statements} statements with four shards");
}

/// Returns operations as the server calls them, each with the number of statements that it takes.
fn operations() -> Vec<(&'static str, u64)> {
    let database = StatementDatabase::new();
    let (stores, romeo, host) = (&database.stores, database.account("romeo"), jid("pubsub.example.org"));
    let owner = romeo.as_ref();
    let contacts: Vec<Jid> = (0..300).map(|number| database.account(&format!("contact{number}"))).collect();
    contacts.iter().for_each(|contact| database.befriend(&romeo, contact));
    let mut rows = Vec::new();
    let mut row = |name, work: &mut dyn FnMut()| rows.push((name, database.count_statements(work)));
    macro_rules! rows {
        ($($name:literal: $call:expr;)*) => {
            $(row($name, &mut || _ = wait($call).expect($name));)*
        };
    }
    let new =
        |name: &'static str| (0..64).map(move |n| (jid(&format!("{name}{n}@example.org")), credentials())).collect();
    let messages = |first: u64, owners: &[Jid]| {
        let message = |(n, owner): (usize, &Jid)| ArchivedMessage {
            owner: owner.clone(),
            of: ArchiveOf::Account,
            id: first + n as u64,
            with: jid("juliet@example.org/balcony"),
            contacts_only: false,
            stanza: b"<message/>".to_vec(),
            most: 0,
        };
        owners.iter().enumerate().map(message).collect::<Arc<[_]>>()
    };
    let page = |ids: Option<Vec<u64>>| ArchiveQuery { ids, limit: 50, max_bytes: 1 << 20, ..ArchiveQuery::default() };
    let room = NodeRoom { host_nodes: 99, creator_nodes: 99, node_bytes: 1 << 30, creator_bytes: 1 << 30 };
    let item = || Item { id: "1".into(), publisher: jid("romeo@example.org"), unix_ms: 1, payload: b"<x/>".to_vec() };
    let kept = ItemsKept { items: 9, since_ms: 0 };
    let keep = || Box::new(|_: Option<&RosterItem>, _: rookery_store::SizeOf<'_>| Edit::Keep);
    let rename = || {
        let named = |item: &RosterItem| RosterItem { name: Some("R".into()), ..item.clone() };
        Box::new(move |item: Option<&RosterItem>, _: rookery_store::SizeOf<'_>| {
            item.map(named).map_or(Edit::Keep, Edit::Put)
        })
    };
    let fifty: Vec<Jid> = vec![romeo.clone(); 50];
    rows! {
        "accounts.for_login": stores.accounts.for_login(owner);
        "accounts.create": stores.accounts.create(jid("new@example.org").as_ref(), credentials());
        "accounts.create_many, 64 accounts": stores.accounts.create_many(new("many"));
        "accounts.set_credentials": stores.accounts.set_credentials(owner, credentials());
        "accounts.remove": stores.accounts.remove(jid("new@example.org").as_ref());
        "rosters.get, 300 contacts": stores.rosters.get(owner);
        "rosters.since": stores.rosters.since(owner, 300);
        "rosters.contacts, 300 contacts": stores.rosters.contacts(owner);
        "rosters.item": stores.rosters.item(owner, contacts[0].as_ref());
        "rosters.change, nothing": stores.rosters.change(owner, contacts[0].as_ref(), keep());
        "rosters.change, a name": stores.rosters.change(owner, contacts[0].as_ref(), rename());
        "rosters.pending_in": stores.rosters.pending_in(owner, None, 9);
        "offline.push": stores.offline.push(owner, contacts[0].as_ref(), b"<message/>".to_vec(), 1, OfflineRoom::UNBOUNDED);
        "offline.load": stores.offline.load(owner, 0, 1 << 16);
        "offline.remove": stores.offline.remove(owner, 1);
        "documents.put, a new one": stores.documents.put(owner, "vcard", Some(b"<x/>".to_vec()));
        "documents.put, in place of one": stores.documents.put(owner, "vcard", Some(b"<y/>".to_vec()));
        "documents.get": stores.documents.get(owner, "vcard");
        "documents.starting": stores.documents.starting(owner, "v");
        "documents.of, 300 accounts": stores.documents.of(contacts.clone(), "vcard");
        "last_presence.put, the first": stores.last_presence.put(owner, 1, b"<presence/>".to_vec());
        "last_presence.put, another": stores.last_presence.put(owner, 2, b"<presence/>".to_vec());
        "last_presence.of, 300 accounts": stores.last_presence.of(owner, contacts.clone(), "privacy");
        "archive.append, 50 messages of one account": stores.archive.append(messages(1, &fifty));
        "archive.append, 50 more": stores.archive.append(messages(100, &fifty));
        "archive.append, a message each of 300 accounts": stores.archive.append(messages(200, &contacts));
        "archive.page": stores.archive.page(owner, page(None));
        "archive.page, 50 ids": stores.archive.page(owner, page(Some((1..=50).collect())));
        "pubsub.create_node": stores.pubsub.create_node(host.as_ref(), "news", b"<x/>".to_vec(), owner, room);
        "pubsub.publish": stores.pubsub.publish(host.as_ref(), "news", item(), kept, room);
        "pubsub.items": stores.pubsub.items(host.as_ref(), "news", WantedItems::Ids(vec!["1".into(); 50]), 0);
        "pubsub.news, 300 accounts": stores.pubsub.news(owner, contacts.clone(), vec!["news".into(); 8], None);
    }
    rows
}

#[test]
fn the_table_of_statements_is_up_to_date() {
    let mut text = String::from(HEAD);
    for (contacts, shards) in [(0, 1), (10, 1), (300, 1), (300, 4)] {
        let statements = login(contacts, shards);
        _ = writeln!(text, "| {contacts} | {shards} | {statements} |");
    }
    text.push_str(OPERATIONS);
    for (name, statements) in operations() {
        _ = writeln!(text, "| {name} | {statements} |");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../doc/statements.md");
    if std::env::var_os("UPDATE_DOC").is_some() {
        std::fs::write(&path, &text).expect("a page that can be written");
    }
    let kept = std::fs::read_to_string(&path).expect("doc/statements.md");
    assert_eq!(kept, text, "if that is meant, run this test once with UPDATE_DOC=1");
}

const HEAD: &str = "# Statements

If the database is on another machine, each statement takes a round trip, whatever it does. So their number is bounded: lists of contacts,
accounts or ids go into one statement each, of up to 512. This page is made by `UPDATE_DOC=1 cargo test --workspace up_to_date`;
statements that begin and end transactions are left out, because operations share them.

## A login

Keys, privacy lists, contacts, roster, requests, offline messages, announcement, and the last presence of those contacts who are away:
of these, each shard asks for those whose home it is.

| contacts, all away | shards | statements |
| --- | --- | --- |
";

const OPERATIONS: &str = "
## Operations

As they are usually: what is full or was removed before may take one or two more.

| operation | statements |
| --- | --- |
";
