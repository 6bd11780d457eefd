//! Compares the recorded sizes of archives and waiting messages with the database's rows.

use rookery_jid::Jid;
use rookery_sasl::Credentials;
use rookery_store::sql::SqlStore;
use rookery_store::sqlite::{self, SqliteOptions};
use rookery_store::{Accounts, Archive, ArchiveOf, ArchivedMessage, Expiry, Offline, OfflineRoom, Retention, wait};
use std::path::Path;

/// Changes archives randomly, in any order, and reopens the store at intervals.
#[test]
fn archives_are_counted_exactly() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let file = place.path().join("rookery.db");
    let (mut store, mut random, mut newest) = (open(&file), Random(7), 1000);
    for step in 0..400 {
        let owner = jid(&format!("user{}@a.example", random.below(3)));
        match random.below(12) {
            0 => {
                let id = random.below(newest) + 1;
                let stanza = vec![b'y'; random.below(2000) as usize];
                wait(store.replace(owner.as_ref(), id, stanza)).expect("a database");
            }
            1 => {
                let domains = vec![Expiry { domain: "a.example".into(), before: random.below(newest) / 2 }];
                wait(store.sweep(0, Retention { domains, ..Retention::default() }, 20)).expect("a database");
            }
            2 => {
                store.close();
                store = open(&file);
            }
            3 if random.below(10) == 0 => {
                wait(Accounts::remove(&store, owner.as_ref())).expect("a database");
                create(&store, &owner);
                while wait(store.clear(10)).expect("a database") {}
            }
            _ => {
                let messages = (0..random.below(90)).map(|_| {
                    newest += random.below(3);
                    // Some messages come late, and some twice.
                    let id = if random.below(8) == 0 { random.below(newest) + 1 } else { newest };
                    let with = jid(&format!("contact{}@b.example", random.below(40)));
                    let stanza = vec![b'x'; random.below(1500) as usize];
                    ArchivedMessage {
                        owner: owner.clone(),
                        of: ArchiveOf::Account,
                        id,
                        with,
                        contacts_only: false,
                        stanza,
                        most: 300_000,
                    }
                });
                wait(store.append(messages.collect())).expect("a database");
            }
        }
        assert_eq!(wrong(&file), 0, "step {step}");
    }
    let largest: i64 = query(
        &file,
        "SELECT MAX((SELECT SUM(length(stanza) + 128) FROM archive_messages WHERE owner = archives.id)) FROM archives",
    );
    // Only a message that was replaced by a larger one may have enlarged it.
    assert!((250_000..=310_000).contains(&largest), "{largest}: full, and not above");
}

#[test]
fn waiting_messages_are_counted_exactly() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let file = place.path().join("rookery.db");
    let (store, mut random, owner) = (open(&file), Random(3), jid("user0@a.example"));
    for step in 0..200 {
        if random.below(10) == 0 {
            let waiting = wait(store.load(owner.as_ref(), 0, 3000)).expect("a database");
            let up_to = waiting.last().map_or(0, |message| message.id);
            wait(Offline::remove(&store, owner.as_ref(), up_to)).expect("a database");
        } else {
            let (sender, room) =
                (jid(&format!("contact{}@b.example", random.below(5))), OfflineRoom { messages: 30, bytes: 20_000 });
            wait(store.push(owner.as_ref(), sender.as_ref(), vec![b'x'; random.below(2000) as usize], 1, room))
                .expect("a database");
        }
        assert_eq!(wrong(&file), 0, "step {step}");
    }
}

/// Returns the number of counts that differ from the rows.
fn wrong(file: &Path) -> i64 {
    query(
        file,
        "SELECT (SELECT COUNT(*) FROM archives WHERE domain <> '' AND bytes <> (SELECT COALESCE(SUM(length(stanza) + 128), 0) \
         FROM archive_messages WHERE owner = archives.id AND archive_messages.id <= counted)) \
         + (SELECT COUNT(*) FROM accounts WHERE offline_bytes <> (SELECT COALESCE(SUM(length(stanza)), 0) \
         FROM offline_messages WHERE owner = accounts.id))",
    )
}

fn query(file: &Path, sql: &str) -> i64 {
    let connection = rusqlite::Connection::open(file).expect("a database");
    connection.query_row(sql, [], |row| row.get(0)).expect("a row")
}

fn open(file: &Path) -> SqlStore {
    let store = sqlite::open(file, &SqliteOptions::default()).expect("a database");
    for number in 0..3 {
        create(&store, &jid(&format!("user{number}@a.example")));
    }
    store
}

fn create(store: &SqlStore, account: &Jid) {
    let credentials = Credentials::derive_with("secret", 1, [[7; 16]; 3]).expect("a password");
    wait(store.create(account.as_ref(), credentials)).expect("a database");
}

fn jid(text: &str) -> Jid {
    Jid::parse(text).expect("an address")
}

/// Random numbers that are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound.max(1)
    }
}
