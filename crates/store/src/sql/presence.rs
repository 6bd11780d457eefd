//! The operations of [`LastPresence`](crate::LastPresence).

use super::connection::{Row, SqlConnection, SqlValue, account_values, one};
use super::dialect::DialectText;
use super::many::{Among, by_domain};
use super::statements::*;
use crate::presence::SeenWith;
use crate::{LastSeen, StoreError};
use rookery_jid::{Jid, JidRef};
use std::collections::HashMap;
use std::ops::ControlFlow;

pub(crate) fn put(c: &mut dyn SqlConnection, owner: JidRef<'_>, unix_ms: u64, stanza: &[u8]) -> Result<(), StoreError> {
    let [domain, local] = account_values(owner);
    let values = [SqlValue::number(unix_ms), SqlValue::Bytes(stanza), domain, local];
    if c.execute(UPDATE_PRESENCE, &values)? == 0 && c.execute(INSERT_PRESENCE, &values)? == 0 {
        return Err(StoreError::NoAccount);
    }
    Ok(())
}

pub(crate) fn last(c: &mut dyn SqlConnection, owner: JidRef<'_>) -> Result<Option<LastSeen>, StoreError> {
    let read = |row: &dyn Row| {
        Ok(LastSeen { owner: owner.bare().to_jid(), unix_ms: row.number(0)?, stanza: row.bytes(1)?.to_vec() })
    };
    one(c, LAST_PRESENCE, &account_values(owner), read)
}

pub(crate) fn of(
    c: &mut dyn SqlConnection,
    asker: JidRef<'_>,
    owners: &[Jid],
    document: &str,
) -> Result<Vec<SeenWith>, StoreError> {
    let mut found = HashMap::new();
    for (domain, locals) in by_domain(owners) {
        let before = [SqlValue::Text(asker.bare_str()), SqlValue::Text(document), SqlValue::Text(domain)];
        PRESENCE_FOR.query(c, (&before, &locals, &[]), &mut |row| {
            let read = (row.number(1)?, row.bytes(2)?.to_vec(), row.optional_bytes(3)?.map(<[u8]>::to_vec));
            found.insert((domain, row.text(0)?.to_owned()), read);
            Ok(ControlFlow::Continue(()))
        })?;
    }
    let seen = owners.iter().filter_map(|owner| {
        let (unix_ms, stanza, document) =
            found.get(&(owner.domain(), owner.local().unwrap_or_default().to_owned())).cloned()?;
        Some((LastSeen { owner: owner.clone(), unix_ms, stanza }, document))
    });
    Ok(seen.collect())
}

/// Returns the query for the last presence of many accounts; the first text selects those whose
/// roster has the asker, the second their document.
macro_rules! presence_for {
    ($asker:literal, $document:literal) => {
        concat!(
            "SELECT a.localpart, p.unix_ms, p.stanza, d.bytes FROM accounts a \
             JOIN last_presence p ON p.owner = a.id \
             JOIN roster_items i ON i.owner = a.id AND ",
            $asker,
            " AND i.subscription >= 2 \
             LEFT JOIN documents d ON d.owner = a.id AND ",
            $document,
            " WHERE a.domain = ? AND a.localpart IN "
        )
    };
}

/// Subscriptions 2 and 3 are `from` and `both`. Values: asker, document, domain, localparts.
///
/// PostgreSQL estimates as many rows as a list has places, and underestimates whole tables: the
/// query makes it look up each account's rows separately, and compute the digests once. There and
/// in MariaDB an index has all rosters that contain a contact in one place: by the key of the
/// rosters, each row would be on another page.
static PRESENCE_FOR: Among = Among::differing(
    DialectText {
        sqlite: presence_for!("i.contact = ?", "d.name = ?"),
        postgres: "WITH asked AS MATERIALIZED (SELECT rookery_digest(?) AS asker, rookery_digest(?) AS document) \
            SELECT a.localpart, p.unix_ms, p.stanza, d.bytes FROM accounts a \
            JOIN LATERAL (SELECT unix_ms, stanza FROM last_presence WHERE owner = a.id OFFSET 0) p ON true \
            JOIN LATERAL (SELECT 1 FROM roster_items WHERE owner = a.id \
                AND contact_digest = (SELECT asker FROM asked) AND subscription >= 2 OFFSET 0) i ON true \
            LEFT JOIN LATERAL (SELECT bytes FROM documents WHERE owner = a.id \
                AND name_digest = (SELECT document FROM asked) OFFSET 0) d ON true \
            WHERE a.domain = ? AND a.localpart IN ",
        mysql: presence_for!("i.contact_digest = UNHEX(SHA2(?, 256))", "d.name_digest = UNHEX(SHA2(?, 256))"),
    },
    "",
);

/// Values: domain, localpart.
const LAST_PRESENCE: &str = "\
    SELECT last_presence.unix_ms, last_presence.stanza FROM accounts \
    JOIN last_presence ON last_presence.owner = accounts.id WHERE accounts.domain = ? AND accounts.localpart = ?";

/// Returns the statements above.
#[cfg(test)]
pub(in crate::sql) fn list_statements() -> Vec<crate::sql::listed::ListedTexts> {
    crate::sql::listed::listed![PRESENCE_FOR, LAST_PRESENCE]
}

#[cfg(all(test, feature = "postgres", feature = "mysql"))]
mod tests {
    use super::*;
    use crate::sql::dialect::{Dialect, number_values};
    use crate::sql::listed::ListOfTexts;
    use crate::sql::{mysql, postgres};
    use rookery_needs::{Mariadb, Postgres};

    /// Returns the statement for a list of the size that a hundred contacts need.
    fn statement(dialect: Dialect) -> String {
        PRESENCE_FOR.texts(dialect).into_iter().find(|text| text.matches('?').count() > 100).unwrap_or_default()
    }

    /// Returns the values of the statement as literals: every account queries all.
    fn literals(statement: &str) -> Vec<String> {
        let contacts = (1..).map(|number| format!("'user{}'", number % 100));
        let values = ["'user7@a.example'", "'privacy'", "'a.example'"].into_iter().map(str::to_owned).chain(contacts);
        values.take(statement.matches('?').count()).collect()
    }

    #[test]
    fn postgres_finds_an_asker_in_all_rosters_in_one_place() {
        if rookery_needs::skips("store.postgres") {
            return;
        }
        let (cluster, text) = (Postgres::start(), statement(Dialect::Postgres));
        let address = cluster.database();
        let options = postgres::PostgresOptions::at(postgres::PostgresAddress::parse(&address).expect("an address"));
        let options = postgres::PostgresOptions { trusts_durability: true, ..options };
        drop(postgres::destination(&options).expect("a database"));
        // The visibility map of pages is VACUUM's, which can't run in a transaction.
        for sql in [
            "INSERT INTO accounts (domain, localpart, roster_version, roster_oldest, roster_items, offline_messages) \
             SELECT 'a.example', 'user' || number, 1, 1, 100, 0 FROM generate_series(0, 99) number",
            "INSERT INTO last_presence SELECT id, 1, 'x' FROM accounts",
            "INSERT INTO roster_items (owner, contact, version, roster_groups, subscription, ask, approved, listed) \
             SELECT a.id, b.localpart || '@a.example', 1, '', 3, 0, 0, 1 FROM accounts a, accounts b",
            "VACUUM ANALYZE",
        ] {
            cluster.psql(&address, sql).expect(sql);
        }
        for mode in ["force_custom_plan", "force_generic_plan"] {
            let plan = cluster.psql(
                &address,
                &format!(
                    "SET enable_seqscan = off; SET enable_bitmapscan = off; SET plan_cache_mode = {mode}; \
                     PREPARE asked AS {}; EXPLAIN EXECUTE asked({})",
                    number_values(&text),
                    literals(&text).join(", ")
                ),
            );
            let plan = plan.expect("a plan");
            assert!(plan.contains("Index Only Scan using roster_items_shown"), "{mode}: {plan}");
            assert!(plan.contains("(owner = a.id) AND (name_digest ="), "{mode}: {plan}");
        }
    }

    #[test]
    fn mariadb_finds_an_asker_in_all_rosters_in_one_place() {
        if rookery_needs::skips("store.mariadb") {
            return;
        }
        let (server, text) = (Mariadb::start(), statement(Dialect::Mysql));
        let address = server.database();
        let options = mysql::MysqlOptions::at(mysql::MysqlAddress::parse(&address).expect("an address"));
        drop(mysql::destination(&options).expect("a database"));
        for sql in [
            "INSERT INTO accounts (domain, localpart, roster_version, roster_oldest, roster_items, offline_messages) \
             SELECT 'a.example', CONCAT('user', seq), 1, 1, 100, 0 FROM seq_0_to_99",
            "INSERT INTO last_presence SELECT id, 1, 'x' FROM accounts",
            "INSERT INTO documents (owner, name, bytes) SELECT id, CONCAT('name', seq), 'x' FROM accounts, seq_1_to_9",
            "INSERT INTO roster_items (owner, contact, version, roster_groups, subscription, ask, approved, listed) \
             SELECT a.id, CONCAT(b.localpart, '@a.example'), 1, '', 3, 0, 0, 1 FROM accounts a, accounts b",
            "ANALYZE TABLE accounts, last_presence, roster_items, documents PERSISTENT FOR ALL",
        ] {
            server.sql(&address, sql).expect(sql);
        }
        let values = literals(&text);
        let mut values = values.iter();
        let text: String =
            text.split_inclusive('?').map(|part| part.replace('?', values.next().map_or("", String::as_str))).collect();
        let plan = server.sql(&address, &format!("EXPLAIN {text}")).expect("a plan");
        // Number, kind of query, table, access path, possible keys, the key, …, notes.
        let of = |table: &str| plan.lines().find(|line| line.split('\t').nth(2) == Some(table)).unwrap_or_default();
        let key = |table: &str| of(table).split('\t').nth(5).unwrap_or_default();
        assert!(key("i") == "roster_items_shown" && of("i").contains("Using index"), "{plan}");
        assert!(of("d").split('\t').nth(3) == Some("eq_ref"), "{plan}");
    }
}
