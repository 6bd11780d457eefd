//! Tests the index of searches: it only leaves out messages that can't have the terms, whatever was
//! done to the archive.

#[allow(dead_code, reason = "tests of other troubles need more of it")]
mod engines;

use engines::EngineServer;
use rookery_jid::Jid;
use rookery_needs::{Mariadb, Postgres};
use rookery_sasl::Credentials;
use rookery_store::sql::copy::{self, CopyEnd, EndAddress};
use rookery_store::sql::{IndexPlan, Migrations};
use rookery_store::{ArchiveOf, ArchiveQuery, ArchivedMessage, Expiry, Retention, StoreError, Stores, mysql, wait};
use std::collections::BTreeSet;
use std::sync::Arc;

/// An engine that can have an index.
trait Indexes: EngineServer {
    /// Returns the address of a database as the option `search` in `[store]` opens it.
    fn address(&self, database: &str, has_index: bool, migrations: Migrations) -> EndAddress;
}

impl Indexes for Postgres {
    fn address(&self, database: &str, has_index: bool, migrations: Migrations) -> EndAddress {
        use rookery_store::postgres::{self, PostgresOptions};
        let options = PostgresOptions::at(postgres::PostgresAddress::parse(database).expect("an address"));
        let terms_of = if has_index { Some(terms as rookery_store::TermsOf) } else { None };
        let options = PostgresOptions { terms_of, migrations, trusts_durability: true, connections: 2, ..options };
        EndAddress::Postgres(Box::new(options))
    }
}

impl Indexes for Mariadb {
    fn address(&self, database: &str, has_index: bool, migrations: Migrations) -> EndAddress {
        let name = database.rsplit('/').next().expect("a name");
        EngineServer::sql(self, database, &format!("GRANT DROP ON {name}.* TO rookery@'%'"));
        let options = mysql::MysqlOptions::at(mysql::MysqlAddress::parse(database).expect("an address"));
        let terms_of = if has_index { Some(terms as rookery_store::TermsOf) } else { None };
        EndAddress::Mysql(Box::new(mysql::MysqlOptions { terms_of, migrations, connections: 2, ..options }))
    }
}

engines::tests!(
    an_index_leaves_out_what_cannot_be_meant,
    an_index_is_made_for_archives_that_are_there,
    what_is_written_without_an_index_is_not_missed_later,
    an_index_is_not_made_by_those_who_may_not,
);

fn an_index_leaves_out_what_cannot_be_meant<S: Indexes>() {
    let Some(server) = S::start() else { return };
    let database = server.database();
    let stores = Stores::of(Arc::new(server.address(&database, true, Migrations::Auto).open().expect("a database")));
    let [juliet, romeo] = accounts(&stores);
    fill(&stores, &juliet, 1..300);
    fill(&stores, &romeo, 1..300);
    let all: Vec<_> = (1..300).collect();
    for query in queries() {
        let found = find(&stores, &juliet, &query);
        let expected: Vec<_> = all.iter().copied().filter(|id| is_meant(*id, &query)).collect();
        assert_eq!(found, expected, "{query:?}");
    }
    // A message with more terms than an index takes may have any.
    let letter =
        |number: u64| char::from(33 + ((number * number).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u8 % 90);
    let long: String = (0..20_000).map(letter).collect();
    assert!(terms(long.as_bytes()).len() > 4096);
    wait(stores.archive.append([message(&juliet, 400, &long)].into())).expect("written");
    let nothing = ArchiveQuery { terms: of("quite another"), ..page() };
    assert_eq!(find(&stores, &juliet, &nothing), [400]);
    // Removed messages can't be found any more, and take no place on a page.
    let seven = ArchiveQuery { terms: of("number 77"), ..page() };
    assert_eq!(find(&stores, &juliet, &seven), [77, 177, 277, 400]);
    assert!(wait(stores.archive.replace(juliet.as_ref(), 177, b"taken back".to_vec())).expect("replaced"));
    assert_eq!(find(&stores, &juliet, &seven), [77, 277, 400]);
    assert_eq!(wait(stores.archive.expire(juliet.as_ref(), 100, 1000)), Ok(99));
    assert_eq!(find(&stores, &juliet, &seven), [277, 400]);
    wait(stores.archive.purge(juliet.as_ref())).expect("purged");
    assert!(find(&stores, &juliet, &seven).is_empty());
    let domains = vec![Expiry { domain: "a.example".into(), before: 200 }];
    let retention = Retention { domains, ..Retention::default() };
    while wait(stores.archive.sweep(0, retention.clone(), 50)).expect("swept").removed > 0 {}
    assert_eq!(find(&stores, &romeo, &seven), [277]);
    while wait(stores.archive.clear(50)).expect("cleared") {}
    let left = server.sql(&database, "SELECT COUNT(*) FROM archive_terms");
    assert_eq!(left, "100", "terms go with their messages");
}

/// Existing messages are found without an index until they are added to it, even if that was
/// interrupted.
fn an_index_is_made_for_archives_that_are_there<S: Indexes>() {
    let Some(server) = S::start() else { return };
    let database = server.database();
    let plain = server.address(&database, false, Migrations::Auto);
    let stores = Stores::of(Arc::new(plain.open().expect("a database")));
    let [juliet, romeo] = accounts(&stores);
    fill(&stores, &juliet, 1..1200);
    fill(&stores, &romeo, 1..300);
    drop(stores);
    let address = server.address(&database, true, Migrations::Auto);
    assert!(matches!(address.plan().expect("a plan").index, IndexPlan::Make(sql) if sql.contains("archive_terms")));
    let stores = Stores::of(Arc::new(address.open().expect("a database")));
    assert_eq!(address.plan().expect("a plan").index, IndexPlan::Fill);
    fill(&stores, &juliet, 1200..1300);
    let seven = ArchiveQuery { terms: of("number 77"), ..page() };
    assert_eq!(find(&stores, &juliet, &seven).len(), 1299, "an archive that isn't in the index is looked through");
    // An earlier run was interrupted in the middle of an archive.
    let begun =
        "INSERT INTO archive_terms (owner, id, terms) SELECT owner, 7, terms FROM archive_terms WHERE id = 1200";
    server.sql(&database, begun);
    address.migrate().expect("filled");
    assert_eq!(address.plan().expect("a plan").index, IndexPlan::Nothing);
    let expected: Vec<_> = (1..1300).filter(|id| is_meant(*id, &seven)).collect();
    assert_eq!(find(&stores, &juliet, &seven), expected);
    assert_eq!(find(&stores, &romeo, &seven), [77, 177, 277]);
    assert_eq!(address.migrate(), Ok(0), "once more does nothing");
    // Messages that are copied to another database are in no index there until that is filled.
    let other = server.database();
    let to = server.address(&other, true, Migrations::Auto);
    let (mut from, mut end) = (CopyEnd::source(&address).expect("opened"), CopyEnd::destination(&to).expect("opened"));
    copy::copy(&mut from, &mut end, &mut |_| {}).expect("copied");
    drop((from, end));
    let copied = Stores::of(Arc::new(to.open().expect("a database")));
    assert_eq!(find(&copied, &juliet, &seven).len(), 1299);
    to.migrate().expect("filled");
    assert_eq!(find(&copied, &juliet, &seven), expected);
    // An operator can remove the index.
    assert_eq!(plain.plan().expect("a plan").index, IndexPlan::Remove);
    drop(stores);
    plain.migrate().expect("removed");
    assert_eq!(plain.plan().expect("a plan").index, IndexPlan::Nothing);
}

fn what_is_written_without_an_index_is_not_missed_later<S: Indexes>() {
    let Some(server) = S::start() else { return };
    let database = server.database();
    let address = server.address(&database, true, Migrations::Auto);
    let stores = Stores::of(Arc::new(address.open().expect("a database")));
    let [juliet, _] = accounts(&stores);
    fill(&stores, &juliet, 1..100);
    for (migrations, ids) in [(Migrations::Auto, 100..200), (Migrations::Never, 200..300)] {
        let without = server.address(&database, false, migrations).open().expect("a database");
        fill(&Stores::of(Arc::new(without)), &juliet, ids.clone());
        let seven = ArchiveQuery { terms: of("number 77"), after: ids.start - 1, ..page() };
        let expected: Vec<_> = ids.clone().filter(|id| is_meant(*id, &seven)).collect();
        assert_eq!(find(&stores, &juliet, &seven), ids.collect::<Vec<_>>(), "by looking");
        address.migrate().expect("filled");
        assert_eq!(find(&stores, &juliet, &seven), expected);
    }
}

fn an_index_is_not_made_by_those_who_may_not<S: Indexes>() {
    let Some(server) = S::start() else { return };
    let database = server.database();
    server.address(&database, false, Migrations::Auto).migrate().expect("a schema");
    let address = server.address(&database, true, Migrations::Never);
    let refused = address.open().err().expect("no index");
    assert!(matches!(&refused, StoreError::Unfit(_)) && refused.to_string().contains("store migrate"), "{refused}");
    address.migrate().expect("made");
    let stores = Stores::of(Arc::new(address.open().expect("a database")));
    let [juliet, _] = accounts(&stores);
    fill(&stores, &juliet, 1..100);
    assert_eq!(find(&stores, &juliet, &ArchiveQuery { terms: of("number 77"), ..page() }), [77]);
}

/// All kinds of pages.
fn queries() -> Vec<ArchiveQuery> {
    let contact = |text: &str| Some(Jid::parse(text).expect("an address"));
    let mut queries = Vec::new();
    for words in ["number 1", "number 77", "contact", "abcdef"] {
        for with in [None, contact("contact1@b.example"), contact("contact1@b.example/phone")] {
            for (after, before) in [(0, 0), (20, 250)] {
                queries.push(ArchiveQuery { terms: of(words), with: with.clone(), after, before, ..page() });
            }
        }
    }
    queries
}

fn page() -> ArchiveQuery {
    ArchiveQuery { limit: 20, max_bytes: 1 << 20, ..ArchiveQuery::default() }
}

/// Returns whether a message may match a query.
fn is_meant(id: u64, query: &ArchiveQuery) -> bool {
    let (said, with) = (terms(body(id).as_bytes()), with(id));
    query.terms.iter().all(|term| said.contains(term))
        && query.with.as_ref().is_none_or(|asked| *asked == with || asked.as_ref() == with.bare())
        && id > query.after
        && (query.before == 0 || id < query.before)
}

/// Returns the ids of all results, read forward, after checking that they are the same backward.
fn find(stores: &Stores, owner: &Jid, wanted: &ArchiveQuery) -> Vec<u64> {
    let read = |last: bool| {
        let (mut ids, mut query) = (Vec::new(), ArchiveQuery { last, ..wanted.clone() });
        loop {
            let page = wait(stores.archive.page(owner.as_ref(), query.clone())).expect("read").expect("a page");
            let mut found: Vec<_> = page.messages.into_iter().map(|(id, _)| id).collect();
            if last {
                found.reverse();
                query.before = found.last().copied().unwrap_or(query.before);
            } else {
                query.after = found.last().copied().unwrap_or(query.after);
            }
            ids.extend(found);
            if !page.more {
                return ids;
            }
        }
    };
    let (forward, mut backward) = (read(false), read(true));
    backward.reverse();
    assert_eq!(forward, backward, "{wanted:?}");
    forward
}

/// Returns the terms of words.
fn of(words: &str) -> Vec<u32> {
    terms(words.as_bytes())
}

/// Returns the terms of a stanza: three bytes each.
fn terms(stanza: &[u8]) -> Vec<u32> {
    let terms: BTreeSet<_> =
        stanza.windows(3).map(|three| three.iter().fold(0, |all, one| all << 8 | u32::from(*one))).collect();
    terms.into_iter().collect()
}

fn accounts(stores: &Stores) -> [Jid; 2] {
    let owners = ["juliet@a.example", "romeo@a.example"].map(|owner| Jid::parse(owner).expect("an address"));
    let credentials = Credentials::derive_with("secret", 1, [[7; 16]; 3]).expect("a password");
    let created = owners.iter().map(|owner| (owner.clone(), credentials.clone())).collect();
    wait(stores.accounts.create_many(created)).expect("accounts");
    owners
}

fn fill(stores: &Stores, owner: &Jid, ids: std::ops::Range<u64>) {
    let messages: Vec<_> = ids.map(|id| message(owner, id, &body(id))).collect();
    for messages in messages.chunks(50) {
        wait(stores.archive.append(messages.into())).expect("written");
    }
}

fn body(id: u64) -> String {
    format!("contact{}, this is number {}", id % 3, id % 100)
}

fn with(id: u64) -> Jid {
    let resource = if id.is_multiple_of(2) { "phone" } else { "desk" };
    Jid::parse(&format!("contact{}@b.example/{resource}", id % 3)).expect("an address")
}

fn message(owner: &Jid, id: u64, said: &str) -> ArchivedMessage {
    let stanza = said.as_bytes().to_vec();
    ArchivedMessage {
        owner: owner.clone(),
        of: ArchiveOf::Account,
        id,
        with: with(id),
        contacts_only: false,
        stanza,
        most: 0,
    }
}
