//! The plans of the statements of archives: each must find its rows by an index, on every engine,
//! whatever statistics it has about the tables.
//!
//! This holds for archives in one table and for partitioned ones.
//!
//! The operations run over a connection that records, in a database with a few thousand messages.
//! Each recorded statement is then explained, with its values.

use super::months::first_end;
use super::{MAKE_FOR_ROOMS, append, clear, ends, page, purge, sweep};
use crate::sql::accounts;
use crate::sql::archives::KnownArchives;
use crate::sql::connection::{EachRow, SqlConnection, SqlValue};
use crate::sql::copy::copying::Copying;
use crate::sql::dialect::{Dialect, number_values};
use crate::sql::{mysql, postgres, sqlite};
use crate::{ArchiveOf, ArchiveQuery, ArchivedMessage, Expiry, Retention, StoreError};
use rookery_jid::Jid;
use rookery_needs::{Mariadb, Postgres};
use rookery_sasl::Credentials;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::LazyLock;

/// A connection that records its statements, each text with its first values.
struct Listening<'c> {
    connection: &'c mut dyn Copying,
    heard: BTreeMap<&'static str, Vec<String>>,
}

impl Listening<'_> {
    fn hear(&mut self, sql: &'static str, values: &[SqlValue<'_>]) {
        let literal = |value: &SqlValue<'_>| match value {
            SqlValue::Null => "NULL".to_owned(),
            SqlValue::Integer(number) => number.to_string(),
            SqlValue::Text(text) => format!("'{}'", text.replace('\'', "''")),
            SqlValue::Bytes(_) => "''".to_owned(),
        };
        // A write without a condition has no plan.
        if sql.contains(" WHERE ") {
            self.heard.entry(sql).or_insert_with(|| values.iter().map(literal).collect());
        }
    }
}

impl SqlConnection for Listening<'_> {
    fn dialect(&self) -> Dialect {
        self.connection.dialect()
    }

    fn execute(&mut self, sql: &'static str, values: &[SqlValue<'_>]) -> Result<u64, StoreError> {
        self.hear(sql, values);
        self.connection.execute(sql, values)
    }

    fn query(&mut self, sql: &'static str, values: &[SqlValue<'_>], each: &mut EachRow<'_>) -> Result<(), StoreError> {
        self.hear(sql, values);
        self.connection.query(sql, values, each)
    }

    fn corrupt(&self, what: String) -> StoreError {
        self.connection.corrupt(what)
    }

    fn known_archives(&mut self) -> &mut KnownArchives {
        self.connection.known_archives()
    }
}

/// Returns the statements that operations on archives run, with values, in a database that they
/// have filled.
fn statements(connection: &mut dyn Copying) -> Vec<(&'static str, Vec<String>)> {
    connection.begin_write(1).expect("a transaction");
    fill(connection);
    connection.commit().expect("committed");
    connection.begin_write(2).expect("a transaction");
    connection.known_archives().forget_all();
    let mut listening = Listening { connection, heard: BTreeMap::new() };
    ask(&mut listening);
    let heard = listening.heard.into_iter().collect();
    connection.rollback();
    heard
}

/// Creates twenty accounts with a hundred messages each, one with two thousand, a room, and many
/// rooms without messages.
fn fill(c: &mut dyn SqlConnection) {
    let keys = Credentials::derive_with("secret", 1, [[7; 16]; 3]).expect("keys");
    let owners: Vec<_> = (0..OWNERS).map(owner).collect();
    accounts::create_many(c, &owners.iter().map(|owner| (owner.clone(), keys.clone())).collect::<Vec<_>>())
        .expect("accounts");
    for first in (0..2000).step_by(100) {
        let ids = move |count| first..first + count;
        let mut messages: Vec<_> = ids(100).map(|at| message(owner(0), at)).collect();
        messages.extend((1..OWNERS).flat_map(|number| ids(5).map(move |at| message(owner(number), at))));
        messages.extend(ids(20).map(|at| ArchivedMessage { of: ArchiveOf::Room, ..message(room(), at) }));
        append(c, &messages).expect("written");
    }
    let others: Vec<_> = (0..2000).map(|number| format!("room{number}")).collect();
    let rows: Vec<_> =
        others.iter().map(|name| [SqlValue::Text("conference.a.example"), SqlValue::Text(name)]).collect();
    MAKE_FOR_ROOMS.insert(c, &rows).expect("written");
}

/// Reads pages of all kinds, and does the background work.
fn ask(c: &mut dyn SqlConnection) {
    let with = |jid: &str| Some(Jid::parse(jid).expect("an address"));
    for with in [None, with("contact3@b.example"), with("contact3@b.example/phone")] {
        for last in [false, true] {
            let (after, before) = (id(500), id(1500));
            let query = ArchiveQuery { with: with.clone(), after, before, last, limit: 50, ..ArchiveQuery::default() };
            let query = ArchiveQuery { max_bytes: 1 << 20, count_to: 100, known: vec![id(7)], ..query };
            let found = page(c, owner(0).as_ref(), &query).expect("read").expect("known");
            assert_eq!(found.messages.len(), 50);
        }
    }
    for count in [1, 30] {
        let ids = Some((0..count).map(id).collect());
        let query = ArchiveQuery { ids, limit: 50, max_bytes: 1 << 20, ..ArchiveQuery::default() };
        page(c, owner(0).as_ref(), &query).expect("read").expect("known");
    }
    ends(c, owner(0).as_ref()).expect("read");
    append(c, &(0..3).map(|number| message(owner(number), 3000)).collect::<Vec<_>>()).expect("written");
    let domains = vec![Expiry { domain: "a.example".into(), before: id(50) }];
    sweep(c, 0, &Retention { domains, ..Retention::default() }, 500).expect("swept");
    purge(c, owner(3).as_ref()).expect("purged");
    clear(c, 50).expect("cleared");
}

fn owner(number: usize) -> Jid {
    Jid::parse(&format!("user{number}@a.example")).expect("an address")
}

fn room() -> Jid {
    Jid::parse("room@conference.a.example").expect("an address")
}

fn message(owner: Jid, at: u64) -> ArchivedMessage {
    let with = Jid::parse(&format!("contact{}@b.example/phone", at % 5)).expect("an address");
    let stanza = format!("<message><body>{}</body></message>", "Wherefore art thou? ".repeat(5)).into_bytes();
    ArchivedMessage { owner, of: ArchiveOf::Account, id: id(at), with, contacts_only: false, stanza, most: 1 << 30 }
}

/// Returns an id of a message; they are half a minute apart, half of them in the month after the
/// first part.
fn id(at: u64) -> u64 {
    static MIDDLE: LazyLock<u64> = LazyLock::new(first_end);
    *MIDDLE - (1000 << 36) + (at << 36)
}

const OWNERS: usize = 20;

/// Fails with all plans that read more than they have to.
fn assert_good(plans: impl IntoIterator<Item = (String, String, Option<String>)>) {
    let bad = plans.into_iter().filter_map(|(sql, plan, fault)| Some(format!("{}:\n{sql}\n{plan}\n", fault?)));
    let bad: Vec<_> = bad.collect();
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// Returns a statement with literals in place of the `?`.
fn with_values(sql: &str, values: &[String]) -> String {
    let mut values = values.iter();
    sql.split('?')
        .map(str::to_owned)
        .reduce(|text, rest| text + values.next().map_or("?", |value| value) + &rest)
        .unwrap_or_default()
}

#[test]
fn sqlite_finds_messages_by_their_keys() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut connection = sqlite::destination(&folder.path().join("rookery.db")).expect("a database");
    let heard = statements(&mut *connection);
    assert!(heard.len() > 20, "{heard:?}");
    connection.begin_read().expect("a transaction");
    assert_good(heard.into_iter().map(|(sql, values)| {
        let explain: &'static str = format!("EXPLAIN QUERY PLAN {}", with_values(sql, &values)).leak();
        let mut plan = Vec::new();
        let each: &mut EachRow<'_> = &mut |row| {
            plan.push(row.text(3)?.to_owned());
            Ok(ControlFlow::Continue(()))
        };
        connection.query(explain, &[], each).expect("a plan");
        let is_scan = |line: &String| {
            // All rows that were found are counted.
            line.starts_with("SCAN ") && !line.starts_with("SCAN CONSTANT") && line != "SCAN counted"
        };
        let is_sort = |line: &String| line.contains("TEMP B-TREE");
        let fault = plan.iter().any(|line| is_scan(line) || is_sort(line)).then(|| "a scan or a sort".to_owned());
        (sql.to_owned(), plan.join("\n"), fault)
    }));
}

#[test]
fn postgres_finds_messages_by_an_index() {
    if rookery_needs::skips("store.postgres") {
        return;
    }
    let cluster = Postgres::start();
    for months in [false, true] {
        let address = cluster.database();
        let options = postgres::PostgresOptions::at(postgres::PostgresAddress::parse(&address).expect("an address"));
        let options = postgres::PostgresOptions { trusts_durability: true, months, ..options };
        let mut connection = postgres::destination(&options).expect("a database");
        let heard = statements(&mut *connection);
        for analyze in ["", "ANALYZE;"] {
            // A prepared statement is at first planned with its values, and later without.
            for mode in ["force_custom_plan", "force_generic_plan"] {
                assert_good(heard.iter().map(|(sql, values)| {
                    let values = if values.is_empty() { String::new() } else { format!("({})", values.join(", ")) };
                    let explain = format!("PREPARE asked AS {}; EXPLAIN EXECUTE asked{values}", number_values(sql));
                    // The settings of the store's sessions.
                    let set = format!(
                        "{analyze} SET enable_seqscan = off; SET enable_bitmapscan = off; SET plan_cache_mode = {mode}"
                    );
                    let plan = cluster.psql(&address, &format!("{set}; {explain}"));
                    let plan = plan.unwrap_or_else(|error| panic!("{sql}: {error}"));
                    let is_scan = plan.contains("Seq Scan on archive") || plan.contains("Seq Scan on accounts");
                    // Parts follow each other in the order of their ids, so none is sorted into
                    // another.
                    let is_sort = plan.contains("Sort");
                    let is_far = is_bounded(sql) && plan.contains("archive_messages_rest");
                    let is_loose = is_count(sql) && !plan.contains("Index Only Scan");
                    let fault = (is_scan || is_sort || is_far || is_loose).then(|| {
                        let what = "a scan, a sort, a part that can't have any or messages that are counted one by one";
                        format!("{what}, {mode} {analyze} months: {months}")
                    });
                    (sql.to_string(), plan, fault)
                }));
            }
        }
    }
}

/// Returns whether a statement selects messages between two ids, which lie in only some of the
/// parts.
fn is_bounded(sql: &str) -> bool {
    sql.contains("FROM archive_messages") && sql.contains("id > ? AND id < ?")
}

/// Returns whether a statement counts a conversation, for which its messages themselves aren't
/// needed.
fn is_count(sql: &str) -> bool {
    sql.ends_with(" AS counted") && sql.contains("contact_key = ?") && !sql.contains("contact = ?")
}

#[test]
fn mariadb_finds_messages_by_an_index() {
    if rookery_needs::skips("store.mariadb") {
        return;
    }
    let server = Mariadb::start();
    for months in [false, true] {
        let address = server.database();
        let name = address.rsplit('/').next().expect("a name");
        server.sql(&address, &format!("GRANT DROP, LOCK TABLES ON {name}.* TO rookery@'%'")).expect("rights");
        let options = mysql::MysqlOptions::at(mysql::MysqlAddress::parse(&address).expect("an address"));
        let options = mysql::MysqlOptions { months, ..options };
        let mut connection = mysql::destination(&options).expect("a database");
        let heard = statements(&mut *connection);
        for analyze in [false, true] {
            if analyze {
                let tables = "archive_messages, archives, archive_shares, accounts";
                server.sql(&address, &format!("ANALYZE TABLE {tables} PERSISTENT FOR ALL")).expect("statistics");
            }
            assert_good(heard.iter().map(|(sql, values)| {
                let plan = server.sql(&address, &format!("EXPLAIN PARTITIONS {}", with_values(sql, values)));
                let plan = plan.unwrap_or_else(|error| panic!("{sql}: {error}"));
                // Number, kind of query, table, parts, access path, …, notes.
                let is_bad = |line: &str| {
                    let columns: Vec<_> = line.split('\t').collect();
                    let column = |at: usize| columns.get(at).copied().unwrap_or_default();
                    let (table, parts, way) = (column(2), column(3), column(4));
                    let is_scan = matches!(way, "ALL" | "index") && table != "counters" && !table.starts_with('<');
                    let is_far = is_bounded(sql) && parts.contains("rest");
                    let is_loose = is_count(sql) && table == "archive_messages" && !line.contains("Using index");
                    is_scan || is_far || is_loose || line.contains("filesort")
                };
                let fault = plan.lines().any(is_bad).then(|| {
                    let what = "a scan, a sort, a part that can't have any or messages that are counted one by one";
                    format!("{what}, analyzed: {analyze}, months: {months}")
                });
                (sql.to_string(), plan, fault)
            }));
        }
    }
}
