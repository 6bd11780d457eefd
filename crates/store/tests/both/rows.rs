//! Tests rows that this server can't have written: a reader gets an error, nothing panics, and
//! intact rows are read as before.

use crate::engines::EngineServer;
use rookery_jid::Jid;
use rookery_sasl::Credentials;
use rookery_store::pubsub::{self, Item, ItemsKept, NodeRoom, NodeSubscription, WantedItems};
use rookery_store::{
    Affiliated, Affiliation, ArchiveOf, ArchiveQuery, ArchivedMessage, Choice, Edit, Expiry, Invitation, OfflineRoom,
    Pending, Purpose, Retention, RoomDocument, RosterItem, SizeOf, Slot, SlotQuota, SlotStage, StoreError, Stores,
    Subscription, wait,
};
use std::sync::Arc;

/// Writes invalid values into each column of each table in turn, and calls all reads.
pub fn rows_that_the_server_cannot_have_written_are_told<S: EngineServer>() {
    let Some(server) = S::start() else { return };
    let database = server.database();
    let stores = Stores::of(Arc::new(S::open(&database, 1)));
    fill(&stores);
    let whole = |when: &str| {
        for (what, answer) in read(&stores).into_iter().chain(write(&stores)) {
            assert_eq!(answer, Ok(()), "{what} {when}");
        }
    };
    whole("before");
    let columns = server.sql(&database, S::COLUMNS);
    let tables = tables(&columns);
    let (mut written, mut told) = (0, 0);
    for (table, columns) in tables.iter().filter(|(table, _)| !OTHERS.contains(table)) {
        let rows = server.sql(&database, &format!("SELECT COUNT(*) FROM {table}"));
        assert_ne!(rows, "0", "{table} has a row to be changed");
        // Numbers that the database assigns are left alone.
        let spoilt = columns.iter().filter(|column| **column != "id");
        for (column, value) in spoilt.flat_map(|column| S::VALUES.iter().map(move |value| (column, value))) {
            let spoil = format!("CREATE TABLE saved AS SELECT * FROM {table}; UPDATE {table} SET {column} = {value}");
            let is_spoilt = server.try_sql(&database, &spoil).is_ok();
            let place = format!("with {value} in {table}.{column}");
            for (what, answer) in read(&stores).into_iter().chain(write(&stores)).filter(|_| is_spoilt) {
                let is_clear = !matches!(
                    answer,
                    Err(StoreError::Panicked(_) | StoreError::Busy | StoreError::Closed | StoreError::Lost(_))
                );
                assert!(is_clear, "{what} {place}: {answer:?}");
                told += usize::from(matches!(answer, Err(StoreError::Corrupt(_))));
            }
            written += usize::from(is_spoilt);
            let all = columns.join(", ");
            let restore = match rows.as_str() {
                _ if !is_spoilt => String::new(),
                // Other rows refer to it.
                "1" if columns.contains(&"id") => format!(
                    "DELETE FROM {table} WHERE id NOT IN (SELECT id FROM saved); \
                     UPDATE {table} SET {column} = (SELECT {column} FROM saved);"
                ),
                _ => format!("DELETE FROM {table}; INSERT INTO {table} ({all}) SELECT {all} FROM saved;"),
            };
            server.sql(&database, &format!("{restore} DROP TABLE IF EXISTS saved"));
        }
        whole(&format!("after {table}"));
    }
    println!("{written} values, told {told} times");
    assert!(written > 150 && told > 60, "{written} values were written, {told} times it was told");
}

/// Tables outside of operations, where a fault is found at the start.
const OTHERS: [&str; 2] = ["rookery_schema", "rookery_lanes"];

/// Reads lines of tables and columns.
fn tables(lines: &str) -> Vec<(&str, Vec<&str>)> {
    let mut tables: Vec<(&str, Vec<&str>)> = Vec::new();
    for (table, column) in lines.lines().filter_map(|line| line.split_once(' ')) {
        match tables.last_mut().filter(|(last, _)| *last == table) {
            Some((_, columns)) => columns.push(column),
            None => tables.push((table, vec![column])),
        }
    }
    tables
}

/// Adds rows to every table.
fn fill(stores: &Stores) {
    let (romeo, juliet) = (romeo(), juliet());
    let owner = romeo.as_ref();
    let credentials = Credentials::derive_with("secret", 1, [[7; 16]; 3]).expect("a password");
    wait(stores.accounts.create(owner, credentials)).expect("an account");
    wait(stores.accounts.set_disabled(owner, true)).expect("a note");
    for contact in [&juliet, &nurse()] {
        let item = RosterItem {
            subscription: Subscription::Both,
            groups: vec!["g".into()],
            ..RosterItem::new(contact.clone())
        };
        wait(stores.rosters.change(
            owner,
            contact.as_ref(),
            Box::new(move |_: Option<&RosterItem>, _: SizeOf<'_>| Edit::Put(item.clone())),
        ))
        .expect("an item");
    }
    wait(stores.rosters.change(
        owner,
        nurse().as_ref(),
        Box::new(|_: Option<&RosterItem>, _: SizeOf<'_>| Edit::Remove),
    ))
    .expect("a removal");
    let pushed = stores.offline.push(owner, juliet.as_ref(), b"<message/>".to_vec(), 1, OfflineRoom::UNBOUNDED);
    wait(pushed).expect("a message");
    let domain = "a.example".to_owned();
    let invitation = Invitation {
        token: "token".into(),
        domain,
        purpose: Purpose::Account(Some("tybalt".into())),
        owner: Some(romeo.clone()),
        expires_ms: 100,
    };
    assert_eq!(wait(stores.invitations.put(invitation, 1, 9)), Ok(true));
    let slot = Slot {
        token: "slot".into(),
        owner: romeo.clone(),
        name: "file".into(),
        size: 1,
        content_type: None,
        expires_ms: 100,
        keep_ms: 100,
        stage: SlotStage::Reserved,
    };
    wait(stores.slots.reserve(slot, SlotQuota { bytes: 99, files: 9, waiting: 9 })).expect("a slot");
    wait(stores.pubsub.create_node(owner, "news", b"<x/>".to_vec(), owner, NodeRoom::ANY)).expect("a node");
    wait(stores.pubsub.set_affiliation(
        owner,
        "news",
        juliet.as_ref(),
        Some(pubsub::NodeAffiliation::Member),
        NodeRoom::ANY,
    ))
    .expect("an affiliation");
    let member =
        Affiliated { user: juliet.clone(), affiliation: Affiliation::Member, nick: Some("J".into()), reason: None };
    for (_, answer) in write(stores) {
        answer.expect("what is written again and again");
    }
    assert_eq!(wait(stores.rooms.affiliate(room().as_ref(), vec![member])), Ok(true));
    // The size of an archive is only written at intervals.
    for id in 2..70 {
        wait(stores.archive.append([message(id)].into())).expect("a message");
    }
    wait(stores.archive.append([ArchivedMessage { stanza: vec![b'x'; 20 << 10], ..message(70) }].into()))
        .expect("a message");
    for id in 71..140 {
        wait(stores.archive.append([message(id)].into())).expect("a message");
    }
}

/// Writes the existing data again.
fn write(stores: &Stores) -> Vec<(&'static str, Result<(), StoreError>)> {
    let (romeo, juliet) = (romeo(), juliet());
    let owner = romeo.as_ref();
    let item = Item { id: "1".into(), publisher: romeo.clone(), unix_ms: 1, payload: b"<x/>".to_vec() };
    let document = RoomDocument {
        name: "r".into(),
        is_public: true,
        creator: Some(romeo.clone()),
        config: vec![1],
        archive_days: 1,
        subject: Some(vec![1]),
        vcard: None,
        of_users: vec![(romeo.clone(), vec![1])],
    };
    let subscription = NodeSubscription { pending: false, options: vec![1] };
    let keep = Box::new(|_: Option<&RosterItem>, _: SizeOf<'_>| Edit::Keep);
    vec![
        ("rosters.change", outcome_of(stores.rosters.change(owner, juliet.as_ref(), keep))),
        ("offline.remove", outcome_of(stores.offline.remove(owner, 0))),
        ("documents.put", outcome_of(stores.documents.put(owner, "vcard", Some(vec![1])))),
        ("last_presence.put", outcome_of(stores.last_presence.put(owner, 1, b"<presence/>".to_vec()))),
        ("archive.append", outcome_of(stores.archive.append([message(1)].into()))),
        ("archive.replace", outcome_of(stores.archive.replace(owner, 1, b"<message/>".to_vec()))),
        ("archive.clear", outcome_of(stores.archive.clear(9))),
        (
            "pubsub.publish",
            outcome_of(stores.pubsub.publish(owner, "news", item, ItemsKept { items: 9, since_ms: 0 }, NodeRoom::ANY)),
        ),
        (
            "pubsub.set_subscription",
            outcome_of(stores.pubsub.set_subscription(owner, "news", juliet.as_ref(), Some(subscription), 9)),
        ),
        ("pubsub.retract", outcome_of(stores.pubsub.retract(owner, "news", vec!["2".into()]))),
        ("rooms.put", outcome_of(stores.rooms.put(room().as_ref(), document))),
        ("meta.put", outcome_of(stores.meta.put("key", vec![1]))),
        ("meta.put_entry", outcome_of(stores.meta.put_entry("list", "name", vec![1]))),
        ("slots.advance", outcome_of(stores.slots.advance("slot", SlotStage::Filled, SlotStage::Filled, 1, 100))),
    ]
}

/// Calls all reads.
fn read(stores: &Stores) -> Vec<(&'static str, Result<(), StoreError>)> {
    let (romeo, juliet) = (romeo(), juliet());
    let owner = romeo.as_ref();
    let page = || ArchiveQuery { limit: 9, max_bytes: 1 << 20, count_to: 99, ..ArchiveQuery::default() };
    let expiry = Expiry { domain: "b.example".into(), before: 1 };
    let retention = Retention { domains: vec![expiry], now: 1, day: 1 };
    vec![
        ("accounts.credentials", outcome_of(stores.accounts.credentials(owner))),
        ("accounts.for_login", outcome_of(stores.accounts.for_login(owner))),
        ("accounts.is_disabled", outcome_of(stores.accounts.is_disabled(owner))),
        ("accounts.list", outcome_of(stores.accounts.list("a.example", None, 9))),
        ("accounts.list_disabled", outcome_of(stores.accounts.list_disabled("a.example", None, 9))),
        ("accounts.browse", outcome_of(stores.accounts.browse("a.example", Choice { limit: 9, ..Choice::default() }))),
        ("accounts.iterations", outcome_of(stores.accounts.iterations())),
        ("accounts.count", outcome_of(stores.accounts.count(None))),
        ("rosters.get", outcome_of(stores.rosters.get(owner))),
        ("rosters.since", outcome_of(stores.rosters.since(owner, 1))),
        ("rosters.contacts", outcome_of(stores.rosters.contacts(owner))),
        ("rosters.item", outcome_of(stores.rosters.item(owner, juliet.as_ref()))),
        ("rosters.pending_in", outcome_of(stores.rosters.pending_in(owner, None, 9))),
        ("offline.load", outcome_of(stores.offline.load(owner, 0, 1 << 16))),
        ("offline.count", outcome_of(stores.offline.count(owner))),
        ("documents.get", outcome_of(stores.documents.get(owner, "vcard"))),
        ("documents.starting", outcome_of(stores.documents.starting(owner, "v"))),
        ("documents.of", outcome_of(stores.documents.of(vec![romeo.clone()], "vcard"))),
        ("archive.page", outcome_of(stores.archive.page(owner, page()))),
        ("archive.page, the end", outcome_of(stores.archive.page(owner, ArchiveQuery { last: true, ..page() }))),
        (
            "archive.page of somebody",
            outcome_of(stores.archive.page(owner, ArchiveQuery { with: Some(juliet.clone()), ..page() })),
        ),
        (
            "archive.page by ids",
            outcome_of(stores.archive.page(owner, ArchiveQuery { ids: Some(vec![1, 2]), ..page() })),
        ),
        ("archive.ends", outcome_of(stores.archive.ends(owner))),
        ("archive.sweep", outcome_of(stores.archive.sweep(0, retention, 9))),
        ("invitations.get", outcome_of(stores.invitations.get("token", 1))),
        ("invitations.open", outcome_of(stores.invitations.open("a.example", 1, 9))),
        ("invitations.is_reserved", outcome_of(stores.invitations.is_reserved(owner, 1))),
        ("slots.slot", outcome_of(stores.slots.slot("slot", 1))),
        ("slots.expired", outcome_of(stores.slots.list_expired(1, 9))),
        ("last_presence.last", outcome_of(stores.last_presence.last(owner))),
        ("last_presence.of", outcome_of(stores.last_presence.of(juliet.as_ref(), vec![romeo.clone()], "vcard"))),
        ("pubsub.node", outcome_of(stores.pubsub.node(owner, "news"))),
        ("pubsub.nodes", outcome_of(stores.pubsub.nodes(owner, owner, "", 9))),
        ("pubsub.items", outcome_of(stores.pubsub.items(owner, "news", WantedItems::Ids(vec!["1".into()]), 0))),
        ("pubsub.subscriptions_of", outcome_of(stores.pubsub.subscriptions_of(owner, juliet.as_ref()))),
        ("pubsub.affiliations_of", outcome_of(stores.pubsub.affiliations_of(owner, juliet.as_ref()))),
        (
            "pubsub.news",
            outcome_of(stores.pubsub.news(juliet.as_ref(), vec![romeo.clone()], vec!["news".into()], None)),
        ),
        ("pubsub.accounts_nodes", outcome_of(stores.pubsub.accounts_nodes(0, 9))),
        ("rooms.list", outcome_of(stores.rooms.list("rooms.example"))),
        ("rooms.load", outcome_of(stores.rooms.load(room().as_ref()))),
        ("rooms.known_in", outcome_of(stores.rooms.known_in(juliet.as_ref()))),
        ("meta.get", outcome_of(stores.meta.get("key"))),
        ("meta.entries", outcome_of(stores.meta.entries("list"))),
    ]
}

fn outcome_of<T>(pending: Pending<T>) -> Result<(), StoreError> {
    wait(pending).map(drop)
}

fn message(id: u64) -> ArchivedMessage {
    ArchivedMessage {
        owner: romeo(),
        of: ArchiveOf::Account,
        id,
        with: juliet(),
        contacts_only: false,
        stanza: b"<message/>".to_vec(),
        most: 0,
    }
}

fn romeo() -> Jid {
    jid("romeo@a.example")
}

fn juliet() -> Jid {
    jid("juliet@b.example")
}

fn nurse() -> Jid {
    jid("nurse@b.example")
}

fn room() -> Jid {
    jid("verona@rooms.example")
}

fn jid(text: &str) -> Jid {
    Jid::parse(text).expect("an address")
}
