//! An optional index of messages' texts, on engines in other processes: with it a search reads the
//! messages that may contain its words, and not a whole archive.
//!
//! A message has terms, small numbers that the caller computes from its stanza ([`TermsOf`]). The
//! index keeps them in a separate table beside the messages, each mixed with the number of its
//! archive: so a search never meets messages of others, however many contain the same words.
//! PostgreSQL has them in a GIN index, MariaDB as words in a `FULLTEXT` index; both only name
//! candidates, and the caller searches those. Thus all engines find the same messages, with and
//! without an index. `fill` creates the index and fills it.
//!
//! # Invariants
//!
//! - A message and its terms are written, and removed, in one transaction.
//! - Archives up to the one named in `rookery_search` are completely in the index; others are
//!   searched without it. In an empty database, all archives are.
//! - A server that doesn't write terms drops the index when it starts, or marks it if it may not
//!   drop it: so other servers don't miss its messages later.
//! - Only one connection fills the index (see `Months::is_alone`), and it continues after the last
//!   finished archive.

#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(in crate::sql) mod fill;

use crate::archive::{GatheredPage, MOST_TERMS};
use crate::sql::archives::contact_key;
use crate::sql::connection::{SqlConnection, SqlValue, one};
use crate::sql::dialect::{Dialect, DialectText};
use crate::sql::many::Rows;
use crate::{ArchivePage, ArchiveQuery, ArchivedMessage, StoreError};
use std::ops::ControlFlow;

/// Stores the terms of messages that were written, each with the number of its archive.
pub(super) fn note(c: &mut dyn SqlConnection, messages: &[(i64, &ArchivedMessage)]) -> Result<(), StoreError> {
    let Some(terms_of) = c.terms_of() else { return Ok(()) };
    let rows = messages.iter().map(|(archive, message)| (*archive, message.id, terms_of(&message.stanza)));
    insert(c, rows.collect())
}

fn insert(c: &mut dyn SqlConnection, rows: Vec<(i64, u64, Vec<u32>)>) -> Result<(), StoreError> {
    let dialect = c.dialect();
    let rows = rows.into_iter().filter(|(_, _, terms)| !terms.is_empty());
    let rows = rows.map(|(archive, id, terms)| {
        let is_any = terms.len() > MOST_TERMS;
        let terms = if is_any { words(dialect, [ANY].into_iter()) } else { words(dialect, mix(archive, &terms)) };
        (archive, id, terms)
    });
    let rows: Vec<_> = rows.collect();
    let values: Vec<[SqlValue<'_>; 3]> = rows
        .iter()
        .map(|(archive, id, terms)| [SqlValue::Integer(*archive), SqlValue::number(*id), SqlValue::Text(terms)])
        .collect();
    let insert = if dialect == Dialect::Postgres { &INSERT_NUMBERS } else { &INSERT_WORDS };
    insert.insert(c, &values)
}

/// Removes the terms of a message.
pub(in crate::sql) fn forget(c: &mut dyn SqlConnection, archive: i64, id: u64) -> Result<(), StoreError> {
    match c.terms_of() {
        Some(_) => c.execute(FORGET, &[SqlValue::Integer(archive), SqlValue::number(id)]).map(drop),
        None => Ok(()),
    }
}

/// Removes the terms of all messages of an archive up to an id.
pub(super) fn forget_up_to(c: &mut dyn SqlConnection, archive: u64, id: u64) -> Result<(), StoreError> {
    match c.terms_of() {
        Some(_) => c.execute(FORGET_UP_TO, &[SqlValue::number(archive), SqlValue::number(id)]).map(drop),
        None => Ok(()),
    }
}

/// Removes the terms of some owners' messages that were removed with a month.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(super) fn forget_gone(c: &mut dyn SqlConnection, owners: &[SqlValue<'_>; 2]) -> Result<(), StoreError> {
    match c.terms_of() {
        Some(_) => c.execute(FORGET_GONE.on(c.dialect()), owners).map(drop),
        None => Ok(()),
    }
}

/// Returns the last archive that is in the index, as are all archives before it.
fn last_indexed(c: &mut dyn SqlConnection) -> Result<i64, StoreError> {
    Ok(one(c, FILLED, &[], |row| row.integer(0))?.unwrap_or_default())
}

/// Returns a page of the messages that may have the terms of a query, if an index covers the
/// archive.
pub(super) fn page(
    c: &mut dyn SqlConnection,
    archive: i64,
    query: &ArchiveQuery,
    [after, before]: [SqlValue<'_>; 2],
) -> Result<Option<ArchivePage>, StoreError> {
    let Some(words) = index_query(c, archive, query)? else { return Ok(None) };
    if c.dialect() == Dialect::Postgres {
        // The index of terms only supports bitmap scans, which sessions disable otherwise.
        one(c, WITH_BITMAPS.postgres, &[], |_| Ok(()))?;
    }
    let (archive, limit) = (SqlValue::Integer(archive), SqlValue::number(query.limit.saturating_add(1) as u64));
    let mut contact = Vec::new();
    if let Some(with) = &query.with {
        contact.extend([SqlValue::Integer(contact_key(with.bare_str())), SqlValue::Text(with.bare_str())]);
        contact.extend(with.resource().map(SqlValue::Text));
    }
    let statements = if query.last { &BACKWARD } else { &FORWARD };
    let statement = match contact.len() {
        0 => &statements.everybody,
        2 => &statements.bare,
        _ => &statements.full,
    };
    let values = [&[SqlValue::Text(&words), archive, after, before, archive], &contact[..], &[limit, archive]].concat();
    let mut page = GatheredPage::new(query);
    c.query(statement.on(c.dialect()), &values, &mut |row| {
        let is_taken = page.take(row.number(0)?, row.bytes(1)?);
        Ok(if is_taken { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    Ok(Some(page.page()))
}

/// Returns the query for the index if the index covers this archive: the terms in the engine's
/// form.
fn index_query(c: &mut dyn SqlConnection, archive: i64, query: &ArchiveQuery) -> Result<Option<String>, StoreError> {
    if query.terms.is_empty() || c.terms_of().is_none() || last_indexed(c)? < archive {
        return Ok(None);
    }
    let terms = &query.terms[..query.terms.len().min(MOST_ASKED)];
    let dialect = c.dialect();
    let words = words(dialect, mix(archive, terms));
    Ok(Some(match dialect {
        Dialect::Postgres => words,
        Dialect::Sqlite | Dialect::Mysql => {
            let all: Vec<_> = words.split(' ').map(|word| format!("+{word}")).collect();
            format!("({}) {}", all.join(" "), word(ANY))
        }
    }))
}

/// Mixes terms with the number of their archive.
fn mix(archive: i64, terms: &[u32]) -> impl Iterator<Item = u32> {
    let archive = archive.cast_unsigned().wrapping_mul(0x9E37_79B9_7F4A_7C15);
    terms.iter().map(move |term| {
        // The last steps of SplitMix64.
        let mut mixed = archive ^ u64::from(*term);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        // Avoids the sign, and 0, which stands for any term.
        ((mixed >> 34) as u32).max(1)
    })
}

/// Returns terms in an engine's form: an array for PostgreSQL, words for MariaDB.
fn words(dialect: Dialect, terms: impl Iterator<Item = u32>) -> String {
    match dialect {
        Dialect::Postgres => {
            let numbers: Vec<_> = terms.map(|term| term.to_string()).collect();
            format!("{{{}}}", numbers.join(","))
        }
        Dialect::Sqlite | Dialect::Mysql => terms.map(word).collect::<Vec<_>>().join(" "),
    }
}

/// Returns a term as six letters and digits.
fn word(term: u32) -> String {
    let digit = |shift: u32| char::from(DIGITS[(term >> shift) as usize % DIGITS.len()]);
    (0..6).rev().map(|at| digit(at * 5)).collect()
}

const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

/// The term of a message with more terms than the index takes: it may contain any word.
const ANY: u32 = 0;

/// The most terms in a query of the index: those of a long word already leave few messages.
const MOST_ASKED: usize = 24;

const WITH_BITMAPS: DialectText =
    DialectText { postgres: "SELECT set_config('enable_bitmapscan', 'on', true)", ..DialectText::same("SELECT 1") };

const FILLED: &str = "SELECT filled FROM rookery_search WHERE id = 1";

/// Values: archive, id, terms.
static INSERT_NUMBERS: Rows =
    Rows::new("INSERT INTO archive_terms (owner, id, terms) VALUES", "(?, ?, CAST(CAST(? AS text) AS int4[]))");

/// Values: archive, id, terms.
static INSERT_WORDS: Rows = Rows::new("INSERT INTO archive_terms (owner, id, terms) VALUES", "(?, ?, ?)");

/// Values: archive, id.
const FORGET: &str = "DELETE FROM archive_terms WHERE owner = ? AND id = ?";

/// Values: archive, id.
const FORGET_UP_TO: &str = "DELETE FROM archive_terms WHERE owner = ? AND id <= ?";

/// Values: an owner, another one.
#[cfg(any(feature = "postgres", feature = "mysql"))]
const FORGET_GONE: DialectText = DialectText {
    mysql: "DELETE t FROM archive_terms t JOIN archive_messages_gone g ON t.owner = g.owner AND t.id = g.id \
        WHERE g.owner > ? AND g.owner <= ?",
    ..DialectText::same(
        "DELETE FROM archive_terms t USING archive_messages_gone g \
         WHERE g.owner > ? AND g.owner <= ? AND t.owner = g.owner AND t.id = g.id",
    )
};

/// Returns the statement for a page of the index's results. The join leaves out removed messages
/// whose terms are still there; the rest is sorted by id alone.
///
/// PostgreSQL must find terms by their index and nothing else, even in archives that it knows
/// little about: the owner is compared in a way that no index supports.
macro_rules! found {
    ($contact:literal, $order:literal) => {
        DialectText {
            mysql: concat!(
                "SELECT m.id, m.stanza FROM (SELECT k.id FROM archive_terms t STRAIGHT_JOIN archive_messages k ON k.id = t.id \
                 WHERE MATCH (t.terms) AGAINST (? IN BOOLEAN MODE) AND t.owner = ? AND t.id > ? AND t.id < ? AND k.owner = ?",
                $contact, " ORDER BY t.id", $order, " LIMIT ?) f STRAIGHT_JOIN archive_messages m \
                 WHERE m.owner = ? AND m.id = f.id ORDER BY f.id", $order
            ),
            ..DialectText::same(concat!(
                "WITH found AS MATERIALIZED (SELECT id FROM archive_terms \
                 WHERE (terms @> CAST(CAST(? AS text) AS int4[]) OR terms @> '{0}') AND owner + 0 = ? AND id > ? AND id < ?) \
                 SELECT m.id, m.stanza FROM (SELECT k.id FROM found t JOIN archive_messages k ON k.id = t.id WHERE k.owner = ?",
                $contact, " ORDER BY k.id", $order, " LIMIT ?) f JOIN archive_messages m \
                 ON m.owner = ? AND m.id = f.id ORDER BY f.id", $order
            ))
        }
    };
}

/// The statements of a direction. Values: terms, archive, after, before, archive, the contact if
/// there is one, limit, archive.
struct SearchStatements {
    everybody: DialectText,
    /// With a bare contact: key, address.
    bare: DialectText,
    /// With a full contact: key, address, resource.
    full: DialectText,
}

const FORWARD: SearchStatements = SearchStatements {
    everybody: found!("", ""),
    bare: found!(" AND k.contact_key = ? AND k.contact = ?", ""),
    full: found!(" AND k.contact_key = ? AND k.contact = ? AND k.resource = ?", ""),
};

const BACKWARD: SearchStatements = SearchStatements {
    everybody: found!("", " DESC"),
    bare: found!(" AND k.contact_key = ? AND k.contact = ?", " DESC"),
    full: found!(" AND k.contact_key = ? AND k.contact = ? AND k.resource = ?", " DESC"),
};

/// Returns the statements above.
#[cfg(test)]
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(in crate::sql) fn list_statements() -> Vec<crate::sql::listed::ListedTexts> {
    crate::sql::listed::listed![
        WITH_BITMAPS,
        FILLED,
        INSERT_NUMBERS,
        INSERT_WORDS,
        FORGET,
        FORGET_UP_TO,
        FORGET_GONE,
        FORWARD,
        BACKWARD
    ]
}

#[cfg(test)]
impl crate::sql::listed::ListOfTexts for SearchStatements {
    fn texts(&self, dialect: Dialect) -> Vec<String> {
        [&self.everybody, &self.bare, &self.full].map(|text| text.on(dialect).to_owned()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_of_different_archives_differ() {
        let terms = [1, 2, u32::MAX];
        let of = |archive: i64| mix(archive, &terms).collect::<Vec<_>>();
        assert_eq!(of(7), of(7));
        assert!(of(7).iter().all(|term| *term > ANY && *term < 1 << 30 && !of(8).contains(term)));
        assert_eq!(words(Dialect::Postgres, [0, 1 << 29].into_iter()), "{0,536870912}");
        assert_eq!(words(Dialect::Mysql, [0, 31, 1 << 29].into_iter()), "000000 00000v g00000");
    }
}
