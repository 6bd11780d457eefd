//! Tests partitioned archives: they have the same results as those in one table, and months that
//! are too old for all owners are dropped as a whole.

#[allow(dead_code, reason = "tests of other troubles need more of it")]
mod engines;

use engines::EngineServer;
use rookery_jid::Jid;
use rookery_needs::{Mariadb, Postgres, Proxy, ProxyDirection};
use rookery_sasl::Credentials;
use rookery_store::sql::copy::{self, CopyEnd, EndAddress};
use rookery_store::sql::{MigrationPlan, Migrations};
use rookery_store::{
    ArchiveOf, ArchiveQuery, ArchivedMessage, Expiry, Retention, StoreError, Stores, mysql, postgres, wait,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// An engine that can divide archives.
trait Divides: EngineServer {
    /// Returns the address of a database as `[store] archives = "months"` opens it, with all
    /// permissions that this needs.
    fn by_months(&self, database: &str) -> EndAddress;

    /// Returns the number of parts.
    fn parts(&self, database: &str) -> usize;

    /// Counts the messages in the part that has no end.
    const REST: &'static str;
}

impl Divides for Postgres {
    const REST: &'static str = "SELECT COUNT(*) FROM archive_messages_rest";

    fn by_months(&self, database: &str) -> EndAddress {
        let options = postgres::PostgresOptions::at(postgres::PostgresAddress::parse(database).expect("an address"));
        let options = postgres::PostgresOptions { months: true, trusts_durability: true, connections: 2, ..options };
        EndAddress::Postgres(Box::new(options))
    }

    fn parts(&self, database: &str) -> usize {
        let count = "SELECT COUNT(*) FROM pg_inherits WHERE inhparent = 'archive_messages'::regclass";
        EngineServer::sql(self, database, count).parse().expect("a number")
    }
}

impl Divides for Mariadb {
    const REST: &'static str = "SELECT COUNT(*) FROM archive_messages PARTITION (rest)";

    fn by_months(&self, database: &str) -> EndAddress {
        let name = database.rsplit('/').next().expect("a name");
        EngineServer::sql(self, database, &format!("GRANT DROP, LOCK TABLES ON {name}.* TO rookery@'%'"));
        let options = mysql::MysqlOptions::at(mysql::MysqlAddress::parse(database).expect("an address"));
        EndAddress::Mysql(Box::new(mysql::MysqlOptions { months: true, connections: 2, ..options }))
    }

    fn parts(&self, database: &str) -> usize {
        let count = "SELECT COUNT(*) FROM information_schema.partitions WHERE table_schema = DATABASE() \
            AND table_name = 'archive_messages' AND partition_name IS NOT NULL";
        EngineServer::sql(self, database, count).parse().expect("a number")
    }
}

#[test]
fn postgres_divides_archives_that_are_in_use() {
    divide_in_use::<Postgres>();
}

#[test]
fn mariadb_divides_archives_that_are_in_use() {
    divide_in_use::<Mariadb>();
}

/// Nothing is lost or refused while `rookery store migrate` divides a database in use.
fn divide_in_use<S: Divides>() {
    let Some(server) = S::start() else { return };
    let database = server.database();
    let stores = Stores::of(Arc::new(S::open(&database, 2)));
    let owners = accounts(&stores, 3);
    let mut ids: Vec<Vec<u64>> = owners.iter().map(|owner| say(&stores, owner, -300..0, 100)).collect();
    let address = server.by_months(&database);
    let plan = address.plan().expect("a plan");
    let is_due = |plan: &MigrationPlan| plan.division.as_ref().is_some_and(|sql| sql.contains("archive_messages"));
    assert!(plan.steps.is_empty() && is_due(&plan), "{plan:?}");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (stores, is_over) = (&stores, &is_over);
        let writers = owners.iter().zip(&mut ids).map(|(owner, ids)| {
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let id = ids.last().map_or(0, |last| last + 1);
                    wait(stores.archive.append([message(owner, id)].into())).expect("written");
                    ids.push(id);
                }
            })
        });
        let reader = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let query = ArchiveQuery { limit: 50, max_bytes: 1 << 20, ..ArchiveQuery::default() };
                let page = wait(stores.archive.page(owners[0].as_ref(), query)).expect("read").expect("an archive");
                assert_eq!(page.messages.len(), 50);
            }
        });
        let writers: Vec<_> = writers.collect();
        let divided = address.migrate();
        is_over.store(true, Ordering::Relaxed);
        writers.into_iter().for_each(|writer| writer.join().expect("a writer"));
        reader.join().expect("a reader");
        assert_eq!(divided, Ok(0), "no step of the schema");
    });
    let parts = server.parts(&database);
    assert!(parts >= PARTS, "{parts} parts: what is there, the next month and what comes after it");
    assert_eq!(address.plan().expect("a plan").division, None);
    for (owner, ids) in owners.iter().zip(&ids) {
        assert!(ids.len() > 300);
        assert_eq!(all(&stores, owner), *ids);
    }
    assert_eq!(address.migrate(), Ok(0), "once more does nothing");
    assert_counts(&server, &database);
}

#[test]
fn months_of_postgres_go_as_a_whole() {
    remove_months::<Postgres>();
}

#[test]
fn months_of_mariadb_go_as_a_whole() {
    remove_months::<Mariadb>();
}

fn remove_months<S: Divides>() {
    let Some(server) = S::start() else { return };
    let database = server.database();
    let address = server.by_months(&database);
    let stores = Stores::of(Arc::new(address.open().expect("a database that is divided when it is made")));
    let parts = server.parts(&database);
    assert!(parts >= PARTS, "{parts} parts");
    let owners = accounts(&stores, 40);
    // Half a year, of which the server has created three months.
    let ids: Vec<_> = owners.iter().map(|owner| say(&stores, owner, 0..180, 2)).collect();
    let rest = EngineServer::sql(&server, &database, S::REST).parse::<usize>().expect("a number");
    assert!(rest > 0, "a message always has a place");
    assert_eq!(wait(stores.archive.months(keeping(0, &[]))), Ok(0), "a domain without a setting keeps everything");
    assert_eq!(wait(stores.archive.months(keeping(100, &[("b.example", 90)]))), Ok(0), "a.example says nothing");
    assert!(server.parts(&database) > parts, "months are made as time goes by");
    let removed = wait(stores.archive.months(keeping(100, &[("a.example", 90)]))).expect("removed");
    assert!((2..=3).contains(&removed), "{removed} months");
    for (owner, ids) in owners.iter().zip(&ids) {
        let left = all(&stores, owner);
        let days = |id: &u64| (id.saturating_sub(at(0))) / (at(1) - at(0));
        let (oldest, gone) = (days(&left[0]), ids.len() - left.len());
        assert!((58..=90).contains(&oldest), "day {oldest} is the oldest");
        assert_eq!(left, ids[gone..], "the rest is there");
    }
    assert_counts(&server, &database);
    // The rest of the last month is removed one by one, and the counts hold while others write.
    let retention = keeping(100, &[("a.example", 90)]);
    while wait(stores.archive.sweep(0, retention.clone(), 500)).expect("swept").removed > 0 {}
    assert!(owners.iter().all(|owner| all(&stores, owner)[0] >= at(90)));
    owners.iter().for_each(|owner| drop(say(&stores, owner, 181..182, 100)));
    assert_counts(&server, &database);
    assert_eq!(wait(stores.archive.months(retention)), Ok(0), "nothing is left to do");
}

#[test]
fn a_removal_from_postgres_that_is_cut_off_goes_on() {
    cut_removals::<Postgres>();
}

#[test]
fn a_removal_from_mariadb_that_is_cut_off_goes_on() {
    cut_removals::<Mariadb>();
}

/// Cuts the connection that removes a month, each month after another number of bytes. Everything
/// is counted once in the end.
fn cut_removals<S: Divides>() {
    let Some(server) = S::start() else { return };
    let database = server.database();
    drop(server.by_months(&database).open().expect("a database"));
    let proxy = Proxy::start(&server.socket());
    let name = database.rsplit('/').next().expect("a name");
    let stores = Stores::of(Arc::new(S::open(&server.address_by(&proxy, name), 1)));
    let owners = accounts(&stores, 3);
    assert_eq!(wait(stores.archive.months(keeping(620, &[]))), Ok(0), "months are made");
    let ids: Vec<_> = owners.iter().map(|owner| say(&stores, owner, (0..620).step_by(4), 1)).collect();
    let (mut days, mut cuts) = (40, 0);
    for bytes in (1..).map(|round| round * 570) {
        for direction in [ProxyDirection::Asked, ProxyDirection::Answered] {
            days += 31;
            let retention = keeping(620, &[("a.example", days)]);
            proxy.cut_behind(direction, bytes);
            let outcome = wait(stores.archive.months(retention.clone()));
            let was_spared = proxy.spare();
            cuts += usize::from(outcome.is_err());
            assert!(!was_spared || outcome.is_ok(), "{outcome:?}");
            // A server whose client is gone finishes its work before it lets another connection
            // manage the months.
            let is_over = || {
                let gone = "SELECT COUNT(*) FROM information_schema.tables WHERE table_name = 'archive_messages_gone'";
                let is_removed = |owner: &Jid| all(&stores, owner)[0] >= at(days - 31);
                server.sql(&database, gone) == "0" && owners.iter().all(is_removed)
            };
            let mut again = wait(stores.archive.months(retention.clone()));
            for _ in 0..30 {
                assert!(again.is_ok(), "{again:?} after {outcome:?}");
                if is_over() {
                    break;
                }
                thread::sleep(Duration::from_millis(200));
                again = wait(stores.archive.months(retention.clone()));
            }
            for (owner, ids) in owners.iter().zip(&ids) {
                let left = all(&stores, owner);
                assert!(
                    left[0] >= at(days - 31) && left == ids[ids.len() - left.len()..],
                    "day {days}: {outcome:?}, {again:?}"
                );
            }
            assert_counts(&server, &database);
        }
        if days > 540 {
            break;
        }
    }
    assert!(cuts > 5, "{cuts} removals were cut off");
}

#[test]
fn a_division_of_postgres_that_was_interrupted_is_in_nobodys_way() {
    let Some(server) = <Postgres as EngineServer>::start() else { return };
    let database = EngineServer::database(&server);
    let stores = Stores::of(Arc::new(Postgres::open(&database, 1)));
    let owner = &accounts(&stores, 1)[0];
    say(&stores, owner, -10..0, 1);
    // It was interrupted in the check of the existing rows; and its month is over now.
    let condition = "ALTER TABLE archive_messages ADD CONSTRAINT archive_messages_first CHECK (id < 7) NOT VALID";
    EngineServer::sql(&server, &database, condition);
    assert!(wait(stores.archive.append([message(owner, at(1))].into())).is_err());
    // A server that may change no tables reports it when it starts and while it runs.
    let EndAddress::Postgres(options) = server.by_months(&database) else { unreachable!("a PostgreSQL") };
    let options = postgres::PostgresOptions { migrations: Migrations::Never, ..*options };
    let refused = postgres::open(&options).err().expect("refused");
    assert!(matches!(&refused, StoreError::Unfit(_)) && refused.to_string().contains("store migrate"), "{refused}");
    assert_eq!(wait(stores.archive.months(keeping(0, &[]))), Ok(0));
    let running = Stores::of(Arc::new(postgres::open(&options).expect("a database without a fault")));
    assert_eq!(wait(running.archive.months(keeping(0, &[]))), Ok(0));
    EngineServer::sql(&server, &database, condition);
    assert_eq!(wait(running.archive.months(keeping(0, &[]))), Err(refused));
    drop(running);
    assert_eq!(wait(stores.archive.months(keeping(0, &[]))), Ok(0));
    wait(stores.archive.append([message(owner, at(1))].into())).expect("written again");
    // Roles with permissions on the table keep them, and it can be divided again.
    EngineServer::sql(&server, &database, "CREATE ROLE reader; GRANT SELECT ON archive_messages TO reader");
    server.by_months(&database).migrate().expect("divided");
    let may =
        EngineServer::sql(&server, &database, "SELECT has_table_privilege('reader', 'archive_messages', 'SELECT')");
    assert_eq!(may, "t");
    assert_eq!(all(&stores, owner).len(), 11);
}

#[test]
fn a_division_of_mariadb_that_was_interrupted_goes_on() {
    let Some(server) = <Mariadb as EngineServer>::start() else { return };
    let database = EngineServer::database(&server);
    let stores = Stores::of(Arc::new(Mariadb::open(&database, 1)));
    let owner = &accounts(&stores, 1)[0];
    let mut ids = say(&stores, owner, -10..0, 1);
    let address = server.by_months(&database);
    let statements = address.plan().expect("a plan").division.expect("statements");
    // It was interrupted in the exchange, before the table has its name; a server that doesn't know
    // continues to write.
    let (exchanged, _) = statements.split_once("RENAME TABLE").expect("the exchange");
    EngineServer::sql(&server, &database, exchanged);
    ids.extend(say(&stores, owner, 0..2, 1));
    assert_eq!(all(&stores, owner).len(), 2);
    address.migrate().expect("divided");
    assert_eq!(all(&stores, owner), ids);
    assert!(server.parts(&database) >= PARTS);
}

#[test]
fn divided_archives_are_copied() {
    fn copy<S: Divides>() {
        let Some(server) = S::start() else { return };
        let (database, folder) = (server.database(), tempfile::tempdir().expect("a temporary folder"));
        let file = EndAddress::Sqlite(folder.path().join("rookery.db"));
        let stores = Stores::of(Arc::new(file.open().expect("a database")));
        let owners = accounts(&stores, 3);
        let ids: Vec<_> = owners.iter().map(|owner| say(&stores, owner, -100..100, 3)).collect();
        drop(stores);
        let address = server.by_months(&database);
        let back = EndAddress::Sqlite(folder.path().join("back.db"));
        for (from, to) in [(&file, &address), (&address, &back)] {
            let (mut from, mut to) =
                (CopyEnd::source(from).expect("opened"), CopyEnd::destination(to).expect("opened"));
            let compared = copy::copy(&mut from, &mut to, &mut |_| {}).expect("copied");
            assert!(compared.iter().all(copy::Compared::is_same), "{compared:?}");
        }
        // Each month of the copied messages is a part, and is dropped as one.
        let parts = server.parts(&database);
        assert!(parts >= 7, "{parts} parts");
        let stores = Stores::of(Arc::new(address.open().expect("a database")));
        owners.iter().zip(&ids).for_each(|(owner, ids)| assert_eq!(all(&stores, owner), *ids));
        assert_counts(&server, &database);
        let removed = wait(stores.archive.months(keeping(0, &[("a.example", -40)]))).expect("removed");
        assert!((1..=3).contains(&removed), "{removed} months");
        assert_counts(&server, &database);
        copy::clear(&mut CopyEnd::destination(&address).expect("opened")).expect("cleared");
        assert_eq!(wait(stores.archive.ends(owners[0].as_ref())), Ok(None));
    }
    copy::<Postgres>();
    copy::<Mariadb>();
}

/// A server that may not change tables leaves months alone.
#[test]
fn months_are_left_alone_where_nothing_may_be_migrated() {
    let Some(server) = <Postgres as EngineServer>::start() else { return };
    let database = EngineServer::database(&server);
    let EndAddress::Postgres(options) = server.by_months(&database) else { unreachable!("a PostgreSQL") };
    postgres::migrate(&options).expect("a schema");
    let options = postgres::PostgresOptions { migrations: Migrations::Never, ..*options };
    let stores = Stores::of(Arc::new(postgres::open(&options).expect("a database")));
    let owner = &accounts(&stores, 1)[0];
    say(&stores, owner, 0..100, 1);
    let parts = server.parts(&database);
    assert_eq!(wait(stores.archive.months(keeping(1000, &[("a.example", 900)]))), Ok(0));
    assert_eq!((server.parts(&database), all(&stores, owner).len()), (parts, 100));
}

/// Creates this many accounts of `a.example`, and returns their bare JIDs.
fn accounts(stores: &Stores, count: usize) -> Vec<Jid> {
    let owners: Vec<_> = (0..count).map(|n| Jid::parse(&format!("user{n}@a.example")).expect("an address")).collect();
    let credentials = Credentials::derive_with("secret", 1, [[7; 16]; 3]).expect("a password");
    let created = owners.iter().map(|owner| (owner.clone(), credentials.clone())).collect();
    wait(stores.accounts.create_many(created)).expect("accounts");
    owners
}

/// Writes this many messages on each of these days from now, and returns their ids.
fn say(stores: &Stores, owner: &Jid, days: impl Iterator<Item = i64>, each: u64) -> Vec<u64> {
    let ids: Vec<_> = days.flat_map(|day| (0..each).map(move |n| at(day) + n)).collect();
    for ids in ids.chunks(50) {
        let messages: Vec<_> = ids.iter().map(|id| message(owner, *id)).collect();
        wait(stores.archive.append(messages.into())).expect("written");
    }
    ids
}

fn message(owner: &Jid, id: u64) -> ArchivedMessage {
    let with = Jid::parse(&format!("contact{}@b.example/phone", id % 3)).expect("an address");
    let stanza = vec![b'x'; 40 + (id % 60) as usize];
    ArchivedMessage { owner: owner.clone(), of: ArchiveOf::Account, id, with, contacts_only: false, stanza, most: 0 }
}

/// Returns the ids of all messages of an archive, read forward, after checking that they are the
/// same backward and by conversations.
fn all(stores: &Stores, owner: &Jid) -> Vec<u64> {
    let read = |with: Option<&Jid>, last: bool| {
        let (mut ids, mut bound) = (Vec::new(), 0);
        loop {
            let (after, before) = if last { (0, bound) } else { (bound, 0) };
            let query = ArchiveQuery { with: with.cloned(), after, before, last, limit: 70, ..ArchiveQuery::default() };
            let query = ArchiveQuery { max_bytes: 1 << 20, ..query };
            let page = wait(stores.archive.page(owner.as_ref(), query)).expect("read").expect("a page");
            let mut found: Vec<_> = page.messages.into_iter().map(|(id, _)| id).collect();
            if last {
                found.reverse();
            }
            bound = found.last().copied().unwrap_or(bound);
            ids.extend(found);
            if !page.more {
                return ids;
            }
        }
    };
    let forward = read(None, false);
    assert!(forward.is_sorted());
    let mut backward = read(None, true);
    backward.reverse();
    assert_eq!(forward, backward);
    let contacts = (0..3).map(|n| Jid::parse(&format!("contact{n}@b.example")).expect("an address"));
    let mut of_contacts: Vec<_> = contacts.flat_map(|contact| read(Some(&contact), false)).collect();
    of_contacts.sort_unstable();
    assert_eq!(forward, of_contacts);
    forward
}

/// Returns the lowest id of a day, counted from now.
fn at(day: i64) -> u64 {
    static NOW: std::sync::LazyLock<u64> = std::sync::LazyLock::new(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock");
        since.as_millis() as u64
    });
    NOW.saturating_add_signed(day * 86_400_000) << 21
}

/// Returns a retention some days later, with the day from which each domain keeps messages.
fn keeping(now: i64, domains: &[(&str, i64)]) -> Retention {
    let expiry = |(domain, day): &(&str, i64)| Expiry { domain: (*domain).to_owned(), before: at(*day) };
    Retention { domains: domains.iter().map(expiry).collect(), now: at(now), day: at(1) - at(0) }
}

/// Fails if the counts in the database differ from the archives' bytes.
fn assert_counts<S: EngineServer>(server: &S, database: &str) {
    let wrong = server.sql(
        database,
        "SELECT id, bytes, counted, (SELECT SUM(length(m.stanza) + 128) FROM archive_messages m \
            WHERE m.owner = archives.id AND m.id <= archives.counted) FROM archives \
         WHERE bytes <> COALESCE((SELECT SUM(length(m.stanza) + 128) FROM archive_messages m \
            WHERE m.owner = archives.id AND m.id <= archives.counted), 0)",
    );
    assert_eq!(wrong, "", "archive, bytes counted, up to this id, bytes there are");
    let wrong = server.sql(
        database,
        "SELECT owner, contact_key, bytes FROM archive_shares s WHERE bytes > COALESCE((SELECT SUM(length(m.stanza) + 128) \
         FROM archive_messages m WHERE m.owner = s.owner AND m.contact_key = s.contact_key), 0)",
    );
    assert_eq!(wrong, "", "conversations that have less than their share says");
}

/// The least number of parts of divided archives. In the last week of a month the first one extends
/// to the end of the next month, so there is one part less than otherwise.
const PARTS: usize = 3;
