//! SQLite's schema, and the way from an older one to the current one.
//!
//! `user_version` counts the migrations that a file went through; `application_id` distinguishes
//! our files from others'; `rookery_schema` has the oldest version whose servers can use a file of
//! a version, unless that is its own. All missing steps run in one transaction with their count, so
//! a crash leaves a file either before or after them. A file is migrated by `sql/migrate.rs`, like
//! any other database.

use super::driver::SqliteDriver;
use crate::StoreError;
use crate::sql::migrate::{Change, Migrating};
use crate::sql::transactions::Transactions;

impl Migrating for SqliteDriver {
    fn changes(&self) -> &'static [Change] {
        CHANGES
    }

    fn schema_version(&mut self) -> Result<i64, StoreError> {
        version(self)
    }

    fn place(&self) -> String {
        self.database().to_owned()
    }

    /// Takes the lock that every write takes.
    fn lock_schema(&mut self) -> Result<(), StoreError> {
        self.begin_write(0)
    }

    fn run_step(&mut self, number: i64, change: &Change, _: bool) -> Result<(), StoreError> {
        self.run(change.sql)?;
        self.run(&self.note_of(number, change))
    }

    fn note_of(&self, number: i64, change: &Change) -> String {
        let note = format!("PRAGMA user_version = {number}; PRAGMA application_id = {APPLICATION};");
        match change.runs_from {
            None => note,
            Some(from) => {
                format!("{note} INSERT INTO rookery_schema (version, runs_from) VALUES ({number}, {from});")
            }
        }
    }

    fn by_hand(&self, number: i64, change: &Change, _: bool) -> String {
        format!("BEGIN IMMEDIATE;\n{}{}\nCOMMIT;\n", change.sql, self.note_of(number, change))
    }

    fn unlock_schema(&mut self, outcome: Result<(), StoreError>) -> Result<(), StoreError> {
        let outcome = outcome.and_then(|()| self.commit());
        if outcome.is_err() {
            self.rollback();
        }
        outcome
    }
}

fn version(driver: &SqliteDriver) -> Result<i64, StoreError> {
    let version = driver.setting("user_version")?;
    let application = driver.setting("application_id")?;
    // Every schema change in SQLite increments schema_version: 0 is an empty file.
    let untouched = application == 0 && version == 0 && driver.setting("schema_version")? == 0;
    if application != APPLICATION && !untouched {
        return Err(StoreError::Foreign(driver.database().into()));
    }
    Ok(version)
}

/// The mark of our files: "Rook" in ASCII.
pub(super) const APPLICATION: i64 = 0x526F_6F6B;

/// The newest schema.
pub(super) const KNOWN: i64 = CHANGES.len() as i64;

const CHANGES: &[Change] = &[
    Change::alone(include_str!("schema-1.sql")),
    Change::alone(include_str!("schema-2.sql")),
    Change::alone(include_str!("schema-3.sql")),
    Change::alone(include_str!("schema-4.sql")),
    Change::alone(include_str!("schema-5.sql")),
    Change::alone(include_str!("schema-6.sql")),
    Change::alone(include_str!("schema-7.sql")),
    Change::alone(include_str!("schema-8.sql")),
    Change::alone(include_str!("schema-9.sql")),
    Change::alone(include_str!("schema-10.sql")),
    Change::alone(include_str!("schema-11.sql")),
    Change::alone(include_str!("schema-12.sql")),
    Change::alone(include_str!("schema-13.sql")),
    Change::alone(include_str!("schema-14.sql")),
    Change::alone(include_str!("schema-15.sql")),
    Change::alone(include_str!("schema-16.sql")),
    Change::beside(16, include_str!("schema-17.sql")),
    Change::beside(16, include_str!("schema-18.sql")),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::connection::{SqlConnection, all};
    use crate::{Archive, ArchiveQuery, Pubsub, pubsub, wait};
    use rookery_jid::Jid;
    use std::time::Duration;

    /// A new table needs a decision here about its rows when an account is removed.
    #[test]
    fn an_account_takes_every_row_along() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("rookery.db");
        super::super::open(&path, &super::super::SqliteOptions::default()).expect("a new database").close();
        let mut driver = SqliteDriver::open_to_read(&path, Duration::from_secs(1)).expect("the newest schema");
        let connection: &mut dyn SqlConnection = &mut driver;
        let staying = all(connection, WITHOUT_CASCADE, &[], |row| row.text(0).map(str::to_owned)).expect("tables");
        let expected = [
            "accounts",
            // Removed once their archive is gone.
            "archive_conversations",
            "archive_messages",
            "archive_shares",
            "counters",
            "lists",
            "meta",
            "rookery_schema",
            // Rooms outlive their creators.
            "rooms",
            // These lose their owner, until their files are gone.
            "slots",
        ];
        assert_eq!(staying, expected);
    }

    /// Schema 9 computes a number from each contact's address, in SQL, which must be the one that
    /// queries use.
    #[test]
    fn conversations_of_an_older_file_are_found() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("rookery.db");
        std::fs::File::create(&path).expect("an empty file");
        let driver = SqliteDriver::open(&path, Duration::from_secs(1)).expect("an empty database");
        CHANGES.iter().take(8).for_each(|change| driver.run(change.sql).expect("schema 8"));
        driver.run(SCHEMA_8_WITH_MESSAGES).expect("rows of schema 8");
        drop(driver);
        let store = super::super::open(&path, &super::super::SqliteOptions::default()).expect("the newest schema");
        let room = Jid::parse("room@conference.a.example").expect("an address");
        for (contact, expected) in [("jüliet.of.the.house.of.capulet@b.example", vec![1 << 52]), ("b.example", vec![2])]
        {
            let with = Some(Jid::parse(contact).expect("an address"));
            let query = ArchiveQuery { with, limit: 9, max_bytes: 99, ..ArchiveQuery::default() };
            let page = wait(store.page(room.as_ref(), query)).expect("an archive").expect("a page");
            assert_eq!(page.messages.into_iter().map(|(id, _)| id).collect::<Vec<_>>(), expected, "{contact}");
        }
    }

    /// Schema 12 counts the existing messages, so the bounds hold from the first message on.
    #[test]
    fn what_an_older_file_has_is_counted() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("rookery.db");
        std::fs::File::create(&path).expect("an empty file");
        let driver = SqliteDriver::open(&path, Duration::from_secs(1)).expect("an empty database");
        CHANGES.iter().take(11).for_each(|change| driver.run(change.sql).expect("schema 11"));
        driver.run(SCHEMA_11_WITH_MESSAGES).expect("rows of schema 11");
        drop(driver);
        super::super::open(&path, &super::super::SqliteOptions::default()).expect("the newest schema").close();
        let mut driver = SqliteDriver::open_to_read(&path, Duration::from_secs(1)).expect("the newest schema");
        let mut numbers = |sql| {
            all(&mut driver, sql, &[], |row| Ok([row.integer(0)?, row.integer(1)?, row.integer(2)?])).expect("rows")
        };
        let archives = numbers("SELECT id, bytes, counted FROM archives ORDER BY id");
        assert_eq!(archives, [[7, 3 * 128 + 6, 1 << 52], [8, 0, 0]]);
        let shares = numbers("SELECT owner, contact_key, bytes FROM archive_shares ORDER BY contact_key");
        assert_eq!(shares, [[7, 1, 2 * 128 + 3], [7, 2, 128 + 3]]);
        assert_eq!(
            numbers("SELECT id, offline_messages, offline_bytes FROM accounts ORDER BY id"),
            [[1, 2, 5], [2, 0, 0]]
        );
    }

    const SCHEMA_11_WITH_MESSAGES: &str = "\
        PRAGMA user_version = 11; PRAGMA application_id = 0x526F6F6B; \
        INSERT INTO accounts (id, domain, localpart, roster_version, roster_oldest, roster_items, offline_messages) \
        VALUES (1, 'a.example', 'romeo', 1, 1, 0, 2), (2, 'a.example', 'juliet', 1, 1, 0, 0); \
        INSERT INTO offline_messages (owner, unix_ms, stanza) VALUES (1, 5, x'0102'), (1, 6, x'010203'); \
        INSERT INTO archives (id, domain, localpart) VALUES (7, 'conference.a.example', 'room'), (8, 'a.example', 'x'); \
        INSERT INTO archive_messages (owner, id, contact_key, contact, resource, stanza) VALUES \
        (7, 2, 1, 'b.example', '', x'01'), (7, 3, 1, 'b.example', '', x'0102'), (7, 1 << 52, 2, 'c.example', 'x', x'010203')";

    const SCHEMA_8_WITH_MESSAGES: &str = "\
        PRAGMA user_version = 8; PRAGMA application_id = 0x526F6F6B; \
        INSERT INTO archives (id, domain, localpart) VALUES (7, 'conference.a.example', 'room'); \
        INSERT INTO archive_messages (owner, id, stretch, contact, resource, stanza) VALUES \
        (7, 2, 0, 'b.example', '', x'01'), (7, 1 << 52, 2, 'jüliet.of.the.house.of.capulet@b.example', 'x', x'02')";

    /// Schema 14 counts the size of an older file's nodes in SQL: it must equal the count of the
    /// operations.
    #[test]
    fn nodes_of_an_older_file_are_counted() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("rookery.db");
        std::fs::File::create(&path).expect("an empty file");
        let driver = SqliteDriver::open(&path, Duration::from_secs(1)).expect("an empty database");
        CHANGES.iter().take(13).for_each(|change| driver.run(change.sql).expect("schema 13"));
        driver.run(SCHEMA_13_WITH_NODES).expect("rows of schema 13");
        drop(driver);
        let store = super::super::open(&path, &super::super::SqliteOptions::default()).expect("the newest schema");
        let service = Jid::parse("pubsub.a.example").expect("an address");
        let node = wait(Pubsub::node(&store, service.as_ref(), "n")).expect("an answer").expect("the node");
        assert_eq!(node.creator, Jid::parse("a@a.example").ok());
        let item = |id: &str| pubsub::Item {
            id: id.to_owned(),
            publisher: Jid::parse("a@a.example").expect("an address"),
            unix_ms: 1,
            payload: b"<p/>".to_vec(),
        };
        let owners = 2 * ("a@a.example".len() as u64 + pubsub::OVERHEAD);
        let full = 3 + owners + item("ü").bytes() + item("x").bytes();
        for (node_bytes, expected) in [(full - 1, pubsub::Published::NodeFull), (full, pubsub::Published::Kept)] {
            let room = pubsub::NodeRoom { node_bytes, ..pubsub::NodeRoom::ANY };
            let kept = pubsub::ItemsKept { items: 9, since_ms: 0 };
            assert_eq!(wait(store.publish(service.as_ref(), "n", item("x"), kept, room)), Ok(expected));
        }
    }

    /// Schema 15 turns texts into rows.
    #[test]
    fn lists_of_an_older_file_are_found() {
        use crate::Meta;
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("rookery.db");
        std::fs::File::create(&path).expect("an empty file");
        let driver = SqliteDriver::open(&path, Duration::from_secs(1)).expect("an empty database");
        CHANGES.iter().take(14).for_each(|change| driver.run(change.sql).expect("schema 14"));
        driver.run(SCHEMA_14_WITH_TEXTS).expect("rows of schema 14");
        drop(driver);
        let store = super::super::open(&path, &super::super::SqliteOptions::default()).expect("the newest schema");
        let entries = |list: &str| {
            let entries = wait(store.entries(list)).expect("entries").into_iter();
            entries.map(|(name, bytes)| format!("{name}={}", String::from_utf8_lossy(&bytes))).collect::<Vec<_>>()
        };
        assert_eq!(entries("admins/a.example"), ["julia@a.example=", "röm@a.example="]);
        assert_eq!(entries("blacklist/a.example"), ["b.example="]);
        assert!(entries("whitelist/a.example").is_empty());
        assert_eq!(entries("api-tokens"), ["one=one\thash\t7\t\tusers:read", "two=two\thash\t8\ta.example\t"]);
        assert_eq!(entries("removed"), ["romeo@a.example=5 remove ab romeo@a.example"]);
        let acts = ["0000000000000009-000001=9\ta\tpage\t\tdid this", "0000000000000010-000002=10\tb\tapi\t\tdid that"];
        assert_eq!(entries("journal"), acts);
        assert_eq!(wait(store.get("admins/a.example")), Ok(None));
        assert_eq!(wait(store.get("motd/a.example")), Ok(Some(b"stays\nas it is".to_vec())));
    }

    const SCHEMA_14_WITH_TEXTS: &str = "\
        PRAGMA user_version = 14; PRAGMA application_id = 0x526F6F6B; \
        INSERT INTO meta (name, bytes) VALUES \
        ('admins/a.example', CAST('röm@a.example' || char(10) || 'julia@a.example' AS BLOB)), \
        ('blacklist/a.example', CAST('b.example' AS BLOB)), ('whitelist/a.example', x''), \
        ('api-tokens', CAST('one' || char(9) || 'hash' || char(9) || '7' || char(9) || char(9) || 'users:read' || char(10) || \
            'two' || char(9) || 'hash' || char(9) || '8' || char(9) || 'a.example' || char(9) AS BLOB)), \
        ('removed', CAST('5 remove ab romeo@a.example' AS BLOB)), \
        ('journal', CAST('9' || char(9) || 'a' || char(9) || 'page' || char(9) || char(9) || 'did this' || char(10) || \
            '10' || char(9) || 'b' || char(9) || 'api' || char(9) || char(9) || 'did that' AS BLOB)), \
        ('motd/a.example', CAST('stays' || char(10) || 'as it is' AS BLOB))";

    const SCHEMA_13_WITH_NODES: &str = "\
        PRAGMA user_version = 13; PRAGMA application_id = 0x526F6F6B; \
        INSERT INTO pubsub_nodes (id, host, node, config, items) VALUES (7, 'pubsub.a.example', 'n', x'010203', 1); \
        INSERT INTO pubsub_affiliations VALUES (7, 'b@a.example', 1), (7, 'a@a.example', 1); \
        INSERT INTO pubsub_items VALUES (7, 'ü', 1, 'a@a.example', 1, x'3C702F3E')";

    /// The tables whose rows aren't removed with those that they refer to.
    const WITHOUT_CASCADE: &str = "\
        SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND NOT EXISTS \
        (SELECT 1 FROM pragma_foreign_key_list(sqlite_master.name) WHERE on_delete = 'CASCADE') ORDER BY name";
}
