//! Tests PostgreSQL and MariaDB alike: keys of any length, more values than a statement takes, the
//! removal of an account's data, invalid rows, killed connections, servers that start at once,
//! clocks that differ, and databases of other programs.

#[allow(dead_code, reason = "tests of other troubles need more of it")]
mod engines;
#[allow(dead_code, reason = "another test needs more of it")]
#[path = "both/rows.rs"]
mod rows;
#[allow(dead_code, reason = "another test needs more of it")]
#[path = "engines/writers.rs"]
mod writers;

use engines::EngineServer;
use rookery_jid::Jid;
use rookery_sasl::Credentials;
use rookery_store::pubsub::{Created, NodeRoom, NodeSubscription};
use rookery_store::sql::foreign::{Foreign, ForeignKey, WantedRows};
use rookery_store::sql::{Severity, SqlStore};
use rookery_store::{
    Accounts, Affiliated, Affiliation, Archive, ArchiveOf, ArchiveQuery, ArchivedMessage, Edit, Invitation,
    Invitations, Pubsub, Purpose, RoomDocument, RoomStore, RosterItem, Rosters, Stores, Subscription, wait,
};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

engines::tests! {
    keys_of_any_length_are_told_apart,
    an_account_takes_every_row_along,
    killed_connections_lose_and_double_nothing,
    ten_servers_start_at_once,
    what_is_too_much_for_a_statement_goes_in_several,
    affiliations_of_many_take_few_statements,
    a_room_with_much_about_users_takes_few_statements,
    rows_that_the_server_cannot_have_written_are_told,
    servers_whose_clocks_differ_share_a_database,
    a_database_of_another_program_is_refused,
    another_schema_is_refused,
    rows_of_another_program_are_read_page_by_page,
}

fn keys_of_any_length_are_told_apart<S: EngineServer>() {
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
    let node_of =
        |node: &str| Pubsub::create_node(&store, owner.as_ref(), node, vec![1], owner.as_ref(), NodeRoom::ANY);
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

/// If you add a table, decide here what happens to its rows when an account is removed.
fn an_account_takes_every_row_along<S: EngineServer>() {
    let Some(server) = S::start() else { return };
    let database = server.database();
    S::open(&database, 1).close();
    let staying = server.sql(&database, S::WITHOUT_CASCADE);
    let expected = [
        "accounts",
        // Removed once their archive is gone.
        "archive_messages",
        "archive_shares",
        "counters",
        "lists",
        "meta",
        "rookery_epoch",
        "rookery_lanes",
        "rookery_schema",
        // Rooms outlive their creators.
        "rooms",
        // These lose their owner, until their files are gone.
        "slots",
    ];
    assert_eq!(staying.lines().collect::<Vec<_>>(), expected);
}

fn killed_connections_lose_and_double_nothing<S: EngineServer>() {
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

fn ten_servers_start_at_once<S: EngineServer>() {
    let Some(server) = S::start() else { return };
    let database = server.database();
    let stores = thread::scope(|scope| {
        let starts: Vec<_> = (0..10).map(|_| scope.spawn(|| S::open(&database, 1))).collect();
        starts.into_iter().map(|start| start.join().expect("a start")).collect::<Vec<_>>()
    });
    let account = Jid::parse("romeo@a.example").expect("an address");
    let created: Vec<_> = stores.iter().map(|store| store.create(account.as_ref(), credentials())).collect();
    let created: Vec<_> = created.into_iter().map(|created| wait(created).expect("an answer")).collect();
    assert_eq!(created.iter().filter(|created| **created).count(), 1, "one of them has made it: {created:?}");
}

/// PostgreSQL and MariaDB count the values of a statement in 16 bits.
fn what_is_too_much_for_a_statement_goes_in_several<S: EngineServer>() {
    let Some(server) = S::start() else { return };
    let stores = Stores::of(Arc::new(S::open(&server.database(), 2)));
    let address = |number: usize| Jid::parse(&format!("user{number}@a.example")).expect("an address");
    let (first, last) = (address(0), address(MANY));
    for account in [&first, &last] {
        wait(stores.accounts.create(account.as_ref(), credentials())).expect("an account");
        wait(stores.documents.put(account.as_ref(), "vcard", Some(vec![1]))).expect("a document");
        wait(stores.last_presence.put(account.as_ref(), 1, vec![1])).expect("a presence");
    }
    let item = RosterItem { subscription: Subscription::Both, ..RosterItem::new(first.clone()) };
    let put = Box::new(move |_: Option<&RosterItem>, _: rookery_store::SizeOf<'_>| Edit::Put(item.clone()));
    wait(stores.rosters.change(last.as_ref(), first.as_ref(), put)).expect("an item");
    let everybody: Vec<_> = (0..=MANY).map(address).collect();
    let found = wait(stores.documents.of(everybody.clone(), "vcard")).expect("documents");
    assert_eq!(found.into_iter().map(|(owner, _)| owner).collect::<Vec<_>>(), [first.clone(), last.clone()]);
    let seen = wait(stores.last_presence.of(first.as_ref(), everybody.clone(), "privacy")).expect("presences");
    assert_eq!(seen.len(), 1, "of who shows it");
    let news = wait(stores.pubsub.news(first.as_ref(), everybody, vec!["news".into(); 8], None)).expect("news");
    assert_eq!(news, (Vec::new(), false));
    let message = |id: u64| ArchivedMessage {
        owner: first.clone(),
        of: ArchiveOf::Account,
        id,
        with: last.clone(),
        contacts_only: false,
        stanza: vec![b'x'],
        most: 0,
    };
    let ids: Vec<_> = (1..=MANY as u64).collect();
    wait(stores.archive.append(ids.iter().copied().map(message).collect())).expect("messages");
    let page = ArchiveQuery { ids: Some(ids), limit: MANY, max_bytes: 1 << 30, ..ArchiveQuery::default() };
    let page = wait(stores.archive.page(first.as_ref(), page)).expect("an answer").expect("all of them");
    assert_eq!(page.messages.len(), MANY);
    let node = stores.pubsub.create_node(first.as_ref(), "news", vec![1], first.as_ref(), NodeRoom::ANY);
    assert_eq!(wait(node), Ok(Created::Done));
    let ids = (0..MANY).map(|id| id.to_string()).collect();
    assert_eq!(wait(stores.pubsub.retract(first.as_ref(), "news", ids)), Ok(Vec::new()));
    let entries: Vec<_> = (0..MANY).map(|name| (format!("{name:06}"), vec![1])).collect();
    wait(stores.meta.set_entries("list", entries.clone())).expect("a list");
    assert_eq!(wait(stores.meta.entries("list")), Ok(entries));
}

/// Each statement is a round trip, for which everyone waits whose operations are in the same lane.
fn affiliations_of_many_take_few_statements<S: EngineServer>() {
    let Some(server) = S::start() else { return };
    let store = S::open(&server.database(), 2);
    let room = Jid::parse("coven@chat.a.example").expect("an address");
    let user = |number: usize| Jid::parse(&format!("user{number:04}@a.example")).expect("an address");
    let (users, before) = ((0..3000).map(user), store.statements());
    wait(RoomStore::put(&store, room.as_ref(), RoomDocument::default())).expect("a room");
    let affiliated = |user, affiliation| Affiliated { user, affiliation, nick: None, reason: None };
    // The last one counts of what is said of a user.
    let outcasts = users.clone().map(|user| affiliated(user, Affiliation::Outcast));
    let members = users.map(|user| affiliated(user, Affiliation::Member));
    let all = outcasts.chain(members.clone()).collect();
    assert_eq!(wait(store.affiliate(room.as_ref(), all)), Ok(true));
    assert_eq!(wait(store.affiliate(room.as_ref(), members.clone().collect())), Ok(true));
    let statements = store.statements() - before;
    assert!(statements < 100, "{statements} statements");
    let loaded = wait(RoomStore::load(&store, room.as_ref())).expect("an answer").expect("a room");
    assert_eq!(loaded.affiliations, members.collect::<Vec<_>>());
}

/// One entry is as large as many others together.
fn a_room_with_much_about_users_takes_few_statements<S: EngineServer>() {
    let Some(server) = S::start() else { return };
    let store = S::open(&server.database(), 2);
    let room = Jid::parse("coven@chat.a.example").expect("an address");
    let said = |number: usize| {
        let user = Jid::parse(&format!("user{number:04}@a.example")).expect("an address");
        (user, vec![b'x'; if number == 500 { 5 << 20 } else { 100 }])
    };
    let document = RoomDocument { of_users: (0..1000).map(said).collect(), ..RoomDocument::default() };
    let before = store.statements();
    wait(RoomStore::put(&store, room.as_ref(), document.clone())).expect("a room");
    let statements = store.statements() - before;
    assert!(statements < 40, "{statements} statements");
    let loaded = wait(RoomStore::load(&store, room.as_ref())).expect("an answer").expect("a room");
    assert_eq!(loaded.document.of_users, document.of_users);
}

/// More than 65 535, however many values each has.
const MANY: usize = 66_000;

fn rows_that_the_server_cannot_have_written_are_told<S: EngineServer>() {
    rows::rows_that_the_server_cannot_have_written_are_told::<S>();
}

/// One server's clock is an hour ahead of the other's, and the database's a month and a half ahead
/// of both.
fn servers_whose_clocks_differ_share_a_database<S: EngineServer>() {
    let Some(server) = S::start_at("+45d") else { return };
    let database = server.database();
    let (ahead, behind) = (S::open(&database, 2), S::open(&database, 2));
    let (hour, now) = (3_600_000, 1_800_000_000_000);
    let owner = Jid::parse("romeo@a.example").expect("an address");
    create(&ahead, &owner);
    // The upper bits of ids are the time.
    let message = |ms: u64| ArchivedMessage {
        owner: owner.clone(),
        of: ArchiveOf::Account,
        id: ms << 21,
        with: owner.clone(),
        contacts_only: false,
        stanza: ms.to_string().into_bytes(),
        most: 0,
    };
    for round in 0..50 {
        wait(ahead.append([message(now + hour + round)].into())).expect("a message");
        wait(behind.append([message(now + round)].into())).expect("a message");
        // A server that returns removes connections that ended long ago, and only those.
        if round % 10 == 0 {
            S::open(&database, 1).close();
        }
        server.disconnect(&database);
    }
    let expected: Vec<u64> = (0..50).map(|round| now + round).chain((0..50).map(|round| now + hour + round)).collect();
    for store in [&ahead, &behind] {
        let query = ArchiveQuery { limit: 500, max_bytes: 1 << 20, ..ArchiveQuery::default() };
        let page = wait(store.page(owner.as_ref(), query)).expect("a page").expect("an archive");
        assert_eq!(page.messages.iter().map(|(id, _)| id >> 21).collect::<Vec<_>>(), expected, "each once");
    }
    let invitation = Invitation {
        token: "token".into(),
        domain: "a.example".into(),
        purpose: Purpose::Account(None),
        owner: None,
        expires_ms: now + 2 * hour,
    };
    assert_eq!(wait(Invitations::put(&ahead, invitation.clone(), now + hour, 9)), Ok(true));
    let taken = [Invitations::take(&behind, "token", now), Invitations::take(&ahead, "token", now + hour)];
    let taken: Vec<_> = taken.into_iter().filter_map(|taken| wait(taken).expect("an answer")).collect();
    assert_eq!(taken, [invitation], "one of them gets it, once");
    let clock = S::check(&database).into_iter().find(|finding| finding.text.contains("its clock is "));
    assert_eq!(clock.expect("a finding").severity, Severity::Warning);
}

fn a_database_of_another_program_is_refused<S: EngineServer>() {
    let Some(server) = S::start() else { return };
    let database = server.database();
    server.sql(&database, "CREATE TABLE accounts (name TEXT)");
    let error = expect_refusal::<S>(&database);
    assert!(error.contains("of another program"), "{error}");
    // Nothing was written.
    server.sql(&database, "DROP TABLE accounts");
    S::open(&database, 1);
}

fn another_schema_is_refused<S: EngineServer>() {
    let Some(server) = S::start() else { return };
    let database = server.database();
    S::open(&database, 1).close();
    server.sql(&database, "UPDATE rookery_schema SET checksum = 'x'");
    let error = expect_refusal::<S>(&database);
    assert!(error.contains("version 1 of its schema was made by something else"), "{error}");
    let database = server.database();
    S::open(&database, 1).close();
    let newer = "INSERT INTO rookery_schema (version, checksum, applied_by) VALUES (99, 'x', 'x')";
    server.sql(&database, newer);
    assert!(expect_refusal::<S>(&database).contains("newer server"));
}

/// Reads the rows of a table in pages, by a number and by two of which one is the same in all rows.
/// Numbers of rows have one to four digits.
fn rows_of_another_program_are_read_page_by_page<S: EngineServer>() {
    let Some(server) = S::start() else { return };
    let database = server.database();
    let rows: Vec<_> = (1..=1200).map(|id| format!("(7, {id})")).collect();
    server.sql(&database, "CREATE TABLE other (moment BIGINT, id INTEGER)");
    server.sql(&database, &format!("INSERT INTO other VALUES {}", rows.join(", ")));
    let mut foreign = Foreign::open(&S::copy_address(&database)).expect("a database");
    for order in [&["id"][..], &["moment", "id"]] {
        let (mut found, mut after): (Vec<i64>, Option<Vec<ForeignKey<'_>>>) = (Vec::new(), None);
        loop {
            let wanted = WantedRows::of("other", &["moment", "id"], &[]).behind(order, after.as_deref(), 500);
            let page = foreign.rows(&wanted).expect("rows");
            found.extend(page.iter().map(|row| row[1].as_deref().expect("a number").parse::<i64>().expect("a number")));
            let Some(last) = found.last().filter(|_| !page.is_empty()) else { break };
            let last = [ForeignKey::Number(7), ForeignKey::Number(*last)];
            after = Some(last[last.len() - order.len()..].to_vec());
        }
        assert_eq!(found, (1..=1200).collect::<Vec<_>>(), "by {order:?}");
    }
}

fn expect_refusal<S: EngineServer>(database: &str) -> String {
    let error = S::try_open(database, 1).err().expect("a database to refuse");
    assert!(!error.is_temporary(), "{error:?}");
    error.to_string()
}

fn create(store: &SqlStore, account: &Jid) {
    assert_eq!(wait(store.create(account.as_ref(), credentials())), Ok(true));
}

fn credentials() -> Credentials {
    Credentials::derive_with("secret", 1, [[7; 16]; 3]).expect("a password")
}
