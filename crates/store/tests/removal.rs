//! Tests the removal of an account with a large archive: at once, however large it is, and the rest
//! a few rows at a time, also by a store that was opened later.

#[expect(dead_code, reason = "nothing is done to the servers here")]
mod engines;

use engines::EngineServer;
use rookery_jid::Jid;
use rookery_needs::{Mariadb, Postgres};
use rookery_sasl::Credentials;
use rookery_store::sql::SqlStore;
use rookery_store::{Accounts, Archive, ArchiveOf, ArchiveQuery, ArchivedMessage, sqlite, wait};

#[test]
fn in_sqlite() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("rookery.db");
    let open = || sqlite::open(&file, &sqlite::SqliteOptions::default()).expect("a database");
    remove_small_and_large(open, |sql| {
        let connection = rusqlite::Connection::open(&file).expect("a database");
        connection.query_row(sql, [], |row| row.get(0)).expect("a row")
    });
}

#[test]
fn in_postgres() {
    on::<Postgres>(Postgres::psql);
}

#[test]
fn in_mariadb() {
    on::<Mariadb>(Mariadb::sql);
}

fn on<S: EngineServer>(ask: fn(&S, &str, &str) -> Result<String, String>) {
    let Some(server) = S::start() else { return };
    let address = server.database();
    let count = |sql: &str| ask(&server, &address, sql).expect("a row").parse().expect("a number");
    remove_small_and_large(|| S::open(&address, 2), count);
}

fn remove_small_and_large(open: impl Fn() -> SqlStore, count: impl Fn(&str) -> i64) {
    let (small, large) = (jid("small@a.example"), jid("large@a.example"));
    let store = open();
    for (account, messages) in [(&small, 10), (&large, MESSAGES)] {
        let credentials = Credentials::derive_with("secret", 1, [[7; 16]; 3]).expect("a password");
        wait(store.create(account.as_ref(), credentials)).expect("a database");
        for first in (0..messages).step_by(500) {
            let ids = first + 1..=(first + 500).min(messages);
            wait(store.append(ids.map(|id| message(account, id)).collect())).expect("a database");
        }
    }
    let statements_of = |account: &Jid| {
        let before = store.statements();
        assert_eq!(wait(Accounts::remove(&store, account.as_ref())), Ok(true));
        store.statements() - before
    };
    assert_eq!(statements_of(&small), statements_of(&large));
    let page = wait(store.page(large.as_ref(), ArchiveQuery { limit: 1, ..ArchiveQuery::default() }));
    assert_eq!(page.expect("a page").expect("an empty one").messages, []);
    let left = || count("SELECT COUNT(*) FROM archive_messages") + count("SELECT COUNT(*) FROM archive_shares");
    for _ in 0..10 {
        assert_eq!(wait(store.clear(STEP)), Ok(true));
    }
    let in_between = left();
    assert!(in_between >= MESSAGES as i64 - 10 * STEP as i64, "{in_between}: little at a time");
    store.close();
    let (store, mut steps, mut before) = (open(), 0, in_between);
    while wait(store.clear(STEP)).expect("a database") {
        let now = left();
        assert!(before - now <= 2 * STEP as i64, "{before}, then {now}");
        (before, steps) = (now, steps + 1);
    }
    assert!(steps > in_between / (2 * STEP as i64), "{steps}");
    assert_eq!((left(), count("SELECT COUNT(*) FROM archives")), (0, 0));
}

fn message(owner: &Jid, id: u64) -> ArchivedMessage {
    ArchivedMessage {
        owner: owner.clone(),
        of: ArchiveOf::Account,
        id,
        with: jid(&format!("contact{}@b.example", id % 300)),
        contacts_only: false,
        // Large enough for the size of each conversation to be recorded.
        stanza: vec![b'x'; 5000],
        most: 0,
    }
}

fn jid(text: &str) -> Jid {
    Jid::parse(text).expect("an address")
}

const MESSAGES: u64 = 3000;
/// The rows that are removed in a step.
const STEP: usize = 50;
