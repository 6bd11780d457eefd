//! Copies between files of SQLite, through the code that copies between all engines.

use super::*;
use crate::sql::connection::all;
use crate::sql::{postgres, sqlite};
use crate::{
    Accounts, Archive, ArchiveOf, ArchiveQuery, ArchivedMessage, Documents, Edit, Meta, Offline, OfflineRoom,
    RosterItem, Rosters, pubsub, wait,
};
use rookery_jid::Jid;
use rookery_sasl::Credentials;
use std::path::PathBuf;
use tempfile::TempDir;

/// The tables of a file and their columns are those of the catalogue.
#[test]
fn the_catalogue_has_every_table_and_column() {
    let place = CopyFolder::new();
    sqlite::open(&place.file("a.db"), &sqlite::SqliteOptions::default()).expect("a database").close();
    let mut end = CopyEnd::source(&place.address("a.db")).expect("opened");
    let text = |row: &dyn crate::sql::connection::Row| {
        Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned(), row.integer(2)? > 0))
    };
    let found = all(end.connection(), COLUMNS, &[], text).expect("columns");
    let mut expected: Vec<_> = tables()
        .iter()
        .flat_map(|table| table.columns.iter().map(|(column, kind)| (format!("{}.{column}", table.name), *kind)))
        .map(|(name, kind)| {
            use cells::ColumnKind;
            let (kind, is_set) = match kind {
                ColumnKind::Integer => ("INTEGER", true),
                ColumnKind::Text => ("TEXT", true),
                ColumnKind::Bytes => ("BLOB", true),
                ColumnKind::OptionalInteger => ("INTEGER", false),
                ColumnKind::OptionalText => ("TEXT", false),
                ColumnKind::OptionalBytes => ("BLOB", false),
            };
            (name, kind.to_owned(), is_set)
        })
        .collect();
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn a_copy_is_the_same() {
    let place = CopyFolder::fill();
    let (mut from, mut to) = place.ends();
    let mut told = Vec::new();
    let copied = copy(&mut from, &mut to, &mut |progress| told.push(progress)).expect("copied");
    assert!(copied.iter().all(|table| table.is_same() && table.difference.is_none()), "{copied:?}");
    assert_eq!(copied, compare(&mut from, &mut to, &mut |_| ()).expect("compared"));
    let is_ahead = |two: &[Progress]| two[0].phase != two[1].phase || two[0].rows <= two[1].rows;
    assert!(told.windows(2).all(is_ahead) && told.iter().all(|at| at.rows <= at.of), "{told:?}");
    assert_eq!(told.last().map(|last| (last.phase, last.rows)), Some((CopyPhase::Comparing, told[0].of)));
    assert_eq!(counts(&mut from), counts(&mut to));
    drop((from, to));
    place.is_what_was_filled_in("b.db");
}

#[test]
fn a_copy_goes_on_where_it_was_interrupted() {
    let place = CopyFolder::fill();
    let mut interrupted = 0;
    for after in 1.. {
        let (mut from, mut to) = place.ends();
        let mut calls = 0;
        let broken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            copy(&mut from, &mut to, &mut |progress| {
                calls += usize::from(progress.phase == CopyPhase::Copying);
                assert!(calls <= after, "interrupted");
            })
        }));
        match broken {
            Err(_) => interrupted += 1,
            Ok(copied) => {
                copied.expect("copied");
                break;
            }
        }
        drop((from, to));
        let refused = sqlite::open(&place.file("b.db"), &sqlite::SqliteOptions::default()).err();
        assert!(matches!(refused, Some(StoreError::Unfinished(_))), "{refused:?}");
    }
    assert!(interrupted > 20, "{interrupted}");
    let (mut from, mut to) = place.ends();
    let compared = compare(&mut from, &mut to, &mut |_| ()).expect("compared");
    assert!(compared.iter().all(Compared::is_same), "{compared:?}");
    drop((from, to));
    place.is_what_was_filled_in("b.db");
}

/// SQLite gives the number of the newest account, if that is removed, to the next one.
#[test]
fn a_copy_goes_on_although_numbers_were_given_again() {
    let place = CopyFolder::fill();
    let (mut from, mut to) = place.ends();
    let interrupted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        copy(&mut from, &mut to, &mut |progress| assert_ne!(progress.table, "archives", "interrupted"))
    }));
    assert!(interrupted.is_err());
    let names = ["UPDATE accounts SET localpart = '0' WHERE id = 1", "UPDATE accounts SET domain = 'z' WHERE id = 2"];
    for sql in names {
        to.connection().execute(sql, &[]).expect("another account had the number");
    }
    let first = "UPDATE accounts SET domain = 'a.example', localpart = 'juliet' WHERE id = 2";
    to.connection().execute(first, &[]).expect("the account had another number");
    drop((from, to));
    let (mut from, mut to) = place.ends();
    let copied = copy(&mut from, &mut to, &mut |_| ()).expect("copied");
    assert!(copied.iter().all(Compared::is_same), "{copied:?}");
    drop((from, to));
    place.is_what_was_filled_in("b.db");
}

#[test]
fn what_is_there_is_not_mixed_with_a_copy() {
    let place = CopyFolder::fill();
    let (mut from, mut to) = place.ends();
    copy(&mut from, &mut to, &mut |_| ()).expect("copied");
    assert!(matches!(copy(&mut from, &mut to, &mut |_| ()), Err(CopyError::NotEmpty("accounts"))));
    clear(&mut to).expect("cleared");
    copy(&mut from, &mut to, &mut |_| ()).expect("copied again");
}

#[test]
fn differences_are_found() {
    let place = CopyFolder::fill();
    let (mut from, mut to) = place.ends();
    copy(&mut from, &mut to, &mut |_| ()).expect("copied");
    to.connection().execute("UPDATE archive_messages SET stanza = x'00' WHERE id = 1500", &[]).expect("changed");
    to.connection().execute("DELETE FROM documents", &[]).expect("changed");
    let compared = compare(&mut from, &mut to, &mut |_| ()).expect("compared");
    let different: Vec<_> =
        compared.iter().filter_map(|table| Some((table.table, table.difference.clone()?, table.to.0))).collect();
    let [("documents", document, 0), ("archive_messages", message, 3000)] = different.as_slice() else {
        panic!("{different:?}")
    };
    assert!(document.contains("\"nss \"") && message.ends_with(", 1500"), "{different:?}");
    assert!(compared.iter().all(|table| table.is_same() == table.difference.is_none()), "{compared:?}");
}

/// A number that was assigned once isn't assigned again by the copy, either.
#[test]
fn numbers_go_on() {
    let place = CopyFolder::fill();
    let (mut from, mut to) = place.ends();
    copy(&mut from, &mut to, &mut |_| ()).expect("copied");
    drop((from, to));
    let ids = ["a.db", "b.db"].map(|name| {
        let store = sqlite::open(&place.file(name), &sqlite::SqliteOptions::default()).expect("opened");
        let push = store.push(juliet().as_ref(), juliet().as_ref(), vec![1], 1, OfflineRoom::UNBOUNDED);
        wait(push).expect("kept");
        wait(store.load(juliet().as_ref(), 0, 1 << 20)).expect("loaded").last().expect("a message").id
    });
    assert_eq!(ids[0], ids[1]);
    assert!(ids[0] > 2, "{ids:?}");
}

/// From a file to PostgreSQL, interrupted again and again, and back to another file: all three
/// have the same data, and numbers continue.
#[test]
fn a_copy_goes_to_postgresql_and_back() {
    if rookery_needs::skips("store.a_copy_goes_to_postgresql_and_back") {
        return;
    }
    let place = CopyFolder::fill();
    let cluster = rookery_needs::Postgres::start();
    let address = postgres::PostgresAddress::parse(&cluster.database()).expect("an address");
    // A test's cluster needn't survive a power cut.
    let options = postgres::PostgresOptions { trusts_durability: true, ..postgres::PostgresOptions::at(address) };
    let there = EndAddress::Postgres(Box::new(options));
    for after in 1.. {
        let mut from = CopyEnd::source(&place.address("a.db")).expect("a source");
        let mut to = CopyEnd::destination(&there).expect("a destination");
        let mut calls = 0;
        let broken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            copy(&mut from, &mut to, &mut |progress| {
                calls += usize::from(progress.phase == CopyPhase::Copying);
                assert!(calls <= 4 * after, "interrupted");
            })
        }));
        if let Ok(copied) = broken {
            let copied = copied.expect("copied");
            assert!(after > 3 && copied.iter().all(Compared::is_same), "{copied:?}");
            break;
        }
        drop((from, to));
        let refused = CopyEnd::source(&there).err();
        assert!(matches!(refused, Some(StoreError::Unfinished(_))), "{refused:?}");
    }
    let (mut from, mut to) =
        (CopyEnd::source(&there).expect("a source"), CopyEnd::destination(&place.address("b.db")).expect("opened"));
    let copied = copy(&mut from, &mut to, &mut |_| ()).expect("copied");
    assert!(copied.iter().all(|table| table.is_same() && table.difference.is_none()), "{copied:?}");
    drop((from, to));
    place.is_what_was_filled_in("b.db");
    let (mut one, mut other) = (
        CopyEnd::source(&place.address("a.db")).expect("opened"),
        CopyEnd::source(&place.address("b.db")).expect("opened"),
    );
    assert!(compare(&mut one, &mut other, &mut |_| ()).expect("compared").iter().all(Compared::is_same));
    let offline = tables().iter().find(|table| table.name == "offline_messages").expect("a table");
    assert_eq!(one.connection().last_number(offline), Ok(2));
    assert_eq!(other.connection().last_number(offline), Ok(2));
    let (mut from, mut to) = (one, CopyEnd::destination(&there).expect("opened"));
    assert!(matches!(copy(&mut from, &mut to, &mut |_| ()), Err(CopyError::NotEmpty(_))));
    clear(&mut to).expect("cleared");
    assert!(copy(&mut from, &mut to, &mut |_| ()).expect("copied again").iter().all(Compared::is_same));
}

/// A folder with files of databases.
struct CopyFolder {
    folder: TempDir,
}

impl CopyFolder {
    fn new() -> CopyFolder {
        CopyFolder { folder: tempfile::tempdir().expect("a folder") }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn address(&self, name: &str) -> EndAddress {
        EndAddress::Sqlite(self.file(name))
    }

    fn ends(&self) -> (CopyEnd, CopyEnd) {
        let from = CopyEnd::source(&self.address("a.db")).expect("a source");
        (from, CopyEnd::destination(&self.address("b.db")).expect("a destination"))
    }

    /// Makes the file `a.db` with data that is hard to copy.
    fn fill() -> CopyFolder {
        let place = CopyFolder::new();
        let store = sqlite::open(&place.file("a.db"), &sqlite::SqliteOptions::default()).expect("a database");
        let keys = Credentials::derive("pencil", 1).expect("keys");
        for jid in [juliet(), long(), jid("strasse@a.example")] {
            assert!(wait(store.create(jid.as_ref(), keys.clone())).expect("made"));
        }
        for _ in 0..2 {
            let push = store.push(juliet().as_ref(), long().as_ref(), vec![0xF0; 9], 1, OfflineRoom::UNBOUNDED);
            wait(push).expect("kept");
        }
        let all = wait(store.load(juliet().as_ref(), 0, 1 << 20)).expect("loaded");
        wait(Offline::remove(&store, juliet().as_ref(), all.last().expect("messages").id)).expect("gone");
        let edit: crate::EditRoster = Box::new(|_, _| {
            Edit::Put(RosterItem {
                name: Some("\u{1F98A} fox  ".into()),
                groups: vec!["".into(), " a:b ".into()],
                ..RosterItem::new(long())
            })
        });
        wait(store.change(juliet().as_ref(), long().as_ref(), edit)).expect("changed");
        wait(Documents::put(&store, juliet().as_ref(), "n\u{df}", Some(vec![0, 255]))).expect("kept");
        wait(Documents::put(&store, juliet().as_ref(), "nss ", Some(Vec::new()))).expect("kept");
        wait(Meta::put(&store, "a", vec![1; 100])).expect("kept");
        let config = vec![b'x'; 5];
        let room = pubsub::NodeRoom::ANY;
        wait(crate::Pubsub::create_node(&store, juliet().as_ref(), &"n".repeat(1023), config, juliet().as_ref(), room))
            .expect("made");
        let subscriber = jid(&format!("{}/{}", long(), "r".repeat(1023)));
        let subscription = pubsub::NodeSubscription { pending: false, options: vec![] };
        let set = crate::Pubsub::set_subscription(
            &store,
            juliet().as_ref(),
            &"n".repeat(1023),
            subscriber.as_ref(),
            Some(subscription),
            9,
        );
        wait(set).expect("set");
        for start in [0, 1000, 2000] {
            let messages: Vec<_> = (start..start + 1000).map(message).collect();
            wait(store.append(messages.into())).expect("kept");
        }
        store.close();
        place
    }

    /// Checks a server's view of a copy.
    fn is_what_was_filled_in(&self, name: &str) {
        let store = sqlite::open(&self.file(name), &sqlite::SqliteOptions::default()).expect("opened");
        assert!(wait(store.credentials(long().as_ref())).expect("read").expect("keys").verify("pencil"));
        let roster = wait(Rosters::get(&store, juliet().as_ref())).expect("read");
        assert_eq!(roster.items[0].name.as_deref(), Some("\u{1F98A} fox  "));
        for (with, expected) in [(long(), 1500), (jid("b.example"), 1500)] {
            let query = ArchiveQuery { with: Some(with), limit: 5000, max_bytes: 1 << 24, ..ArchiveQuery::default() };
            let page = wait(store.page(juliet().as_ref(), query)).expect("read").expect("an archive");
            assert_eq!(page.messages.len(), expected, "conversations are found");
        }
    }
}

fn message(number: u64) -> ArchivedMessage {
    let with = if number.is_multiple_of(2) { long() } else { jid("b.example") };
    // The bytes of a few of them fill a portion.
    let stanza = vec![b'x'; if number.is_multiple_of(100) { 300_000 } else { 10 }];
    ArchivedMessage {
        owner: juliet(),
        of: ArchiveOf::Account,
        id: number + 1,
        with,
        contacts_only: false,
        stanza,
        most: 0,
    }
}

fn juliet() -> Jid {
    jid("juliet@a.example")
}

/// Returns the longest bare JID.
fn long() -> Jid {
    let domain = format!("{}.example", vec!["d".repeat(60); 4].join("."));
    jid(&format!("{}@{domain}", "l".repeat(1023)))
}

fn jid(text: &str) -> Jid {
    Jid::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

const COLUMNS: &str = "\
    SELECT m.name || '.' || c.name, c.type, c.\"notnull\" OR c.pk > 0 FROM sqlite_schema AS m, pragma_table_info(m.name) AS c \
    WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND m.name NOT IN ('archive_conversations', 'rookery_schema') ORDER BY 1";
