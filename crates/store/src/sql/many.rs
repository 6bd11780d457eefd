//! One statement for many contacts, owners or ids, instead of a loop with one statement for each.
//!
//! Texts of statements are static, so that a connection prepares each once; therefore there are
//! only a few fixed sizes.

use super::connection::{EachRow, SqlConnection, SqlValue};
use super::dialect::{Dialect, DialectText};
use crate::StoreError;
use rookery_jid::Jid;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// A statement with a list of values after an `IN`. A list that is shorter than the next size is
/// filled up with its last value, a longer one takes several statements.
pub(crate) struct Among {
    before: DialectText,
    after: &'static str,
    /// The texts by engine and size.
    texts: [[OnceLock<String>; LISTS.len()]; 3],
}

impl Among {
    /// Returns a statement whose list is between the two texts.
    pub(crate) const fn new(before: &'static str, after: &'static str) -> Among {
        Among::differing(DialectText::same(before), after)
    }

    /// Returns a statement whose text in front of the list differs between engines.
    pub(crate) const fn differing(before: DialectText, after: &'static str) -> Among {
        Among { before, after, texts: [const { [const { OnceLock::new() }; LISTS.len()] }; 3] }
    }

    /// Runs a query for a list, and passes all rows to `each`. Values: those before the list, the
    /// list, those after it.
    pub(crate) fn query(
        &'static self,
        c: &mut dyn SqlConnection,
        (before, list, after): (&[SqlValue<'_>], &[SqlValue<'_>], &[SqlValue<'_>]),
        each: &mut EachRow<'_>,
    ) -> Result<(), StoreError> {
        self.portions(c.dialect(), list)
            .try_for_each(|(text, portion)| c.query(text, &[before, &portion, after].concat(), each))
    }

    /// Runs a statement without result rows for a list.
    pub(crate) fn execute(
        &'static self,
        c: &mut dyn SqlConnection,
        (before, list, after): (&[SqlValue<'_>], &[SqlValue<'_>], &[SqlValue<'_>]),
    ) -> Result<(), StoreError> {
        let mut portions = self.portions(c.dialect(), list);
        portions.try_for_each(|(text, portion)| c.execute(text, &[before, &portion, after].concat()).map(drop))
    }

    fn portions<'v>(
        &'static self,
        dialect: Dialect,
        list: &'v [SqlValue<'v>],
    ) -> impl Iterator<Item = (&'static str, Vec<SqlValue<'v>>)> {
        let before = self.before.on(dialect);
        list.chunks(LISTS[LISTS.len() - 1]).map(move |portion| {
            let at = LISTS.iter().position(|size| *size >= portion.len()).unwrap_or_default();
            let mut values = portion.to_vec();
            values.resize(LISTS[at], portion[portion.len() - 1]);
            let text = || format!("{before}({}){}", vec!["?"; LISTS[at]].join(", "), self.after);
            (self.texts[dialect as usize][at].get_or_init(text).as_str(), values)
        })
    }
}

/// A query for the rows of an owner with one of many texts. Engines other than SQLite have
/// digests of texts that may be too long for an index: see
/// [`by_digest!`](super::dialect::by_digest).
pub(crate) struct ByTexts {
    /// The query for SQLite with the texts, for MariaDB with their digests.
    listed: Among,
    /// The query for PostgreSQL, which would read all rows of the owner for such a list: the
    /// digests are joined in one value, and each is looked up separately.
    joined: &'static str,
}

impl ByTexts {
    /// Returns a query. Values of each text: owner, and the list or the joined digests.
    pub(crate) const fn new(by_text: &'static str, by_digest: &'static str, joined: &'static str) -> ByTexts {
        ByTexts {
            listed: Among::differing(DialectText { sqlite: by_text, postgres: joined, mysql: by_digest }, ""),
            joined,
        }
    }

    /// Runs the query, and passes all rows to `each`.
    pub(crate) fn query<'t>(
        &'static self,
        c: &mut dyn SqlConnection,
        owner: i64,
        texts: impl Iterator<Item = &'t str>,
        each: &mut EachRow<'_>,
    ) -> Result<(), StoreError> {
        let owner = SqlValue::Integer(owner);
        let dialect = c.dialect();
        if let Dialect::Sqlite = dialect {
            return self.listed.query(c, (&[owner], &texts.map(SqlValue::Text).collect::<Vec<_>>(), &[]), each);
        }
        let digests: Vec<[u8; 32]> = texts.map(|text| Sha256::digest(text).into()).collect();
        match dialect {
            Dialect::Postgres => c.query(self.joined, &[owner, SqlValue::Bytes(digests.as_flattened())], each),
            Dialect::Sqlite | Dialect::Mysql => {
                let digests: Vec<_> = digests.iter().map(|digest| SqlValue::Bytes(digest)).collect();
                self.listed.query(c, (&[owner], &digests, &[]), each)
            }
        }
    }
}

/// A statement that inserts rows, several at a time.
pub(crate) struct Rows {
    into: &'static str,
    row: &'static str,
    texts: [OnceLock<String>; ROWS.len()],
}

impl Rows {
    /// Returns a statement that inserts rows. `into` is the text before the rows, `row` one row
    /// with its values in brackets.
    pub(crate) const fn new(into: &'static str, row: &'static str) -> Rows {
        Rows { into, row, texts: [const { OnceLock::new() }; ROWS.len()] }
    }

    /// Inserts all rows, with as few statements as the prepared sizes allow. Several rows in one
    /// statement have at most [`PORTION`] bytes, for engines that limit the size of a statement.
    pub(crate) fn insert<const N: usize>(
        &'static self,
        c: &mut dyn SqlConnection,
        mut rows: &[[SqlValue<'_>; N]],
    ) -> Result<(), StoreError> {
        let fits = |portion: &[[SqlValue<'_>; N]]| {
            portion.len() == 1 || portion.as_flattened().iter().map(SqlValue::bytes).sum::<usize>() <= PORTION
        };
        while !rows.is_empty() {
            let mut portions = ROWS.into_iter().zip(&self.texts);
            let largest = portions.find_map(|(size, text)| {
                let (portion, rest) = rows.split_at_checked(size).filter(|(portion, _)| fits(portion))?;
                Some((portion, rest, text))
            });
            // One row always fits.
            let Some((portion, rest, text)) = largest else { break };
            let text = text.get_or_init(|| format!("{} {}", self.into, vec![self.row; portion.len()].join(", ")));
            c.execute(text, portion.as_flattened())?;
            rows = rest;
        }
        Ok(())
    }
}

/// Returns the localparts of accounts, by domain: an `IN` has single values.
pub(crate) fn by_domain<'j>(accounts: impl IntoIterator<Item = &'j Jid>) -> BTreeMap<&'j str, Vec<SqlValue<'j>>> {
    let mut domains: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for account in accounts {
        let local = account.local().unwrap_or_default();
        domains.entry(account.domain()).or_default().push(SqlValue::Text(local));
    }
    domains
}

/// The sizes of lists. With the largest, 1000 contacts are two statements.
const LISTS: [usize; 5] = [1, 8, 32, 128, 512];

/// The numbers of rows, largest first. Each statement costs SQLite an entry in its undo log.
const ROWS: [usize; 8] = [200, 64, 32, 16, 8, 4, 2, 1];

// An insert of rows that fit in no size would end early.
const _: () = assert!(ROWS[ROWS.len() - 1] == 1);

/// The largest size of several rows in one statement, in bytes.
const PORTION: usize = 4 << 20;

#[cfg(test)]
impl crate::sql::listed::ListOfTexts for Among {
    fn texts(&self, dialect: Dialect) -> Vec<String> {
        LISTS.map(|size| format!("{}({}){}", self.before.on(dialect), vec!["?"; size].join(", "), self.after)).into()
    }
}

#[cfg(test)]
impl crate::sql::listed::ListOfTexts for ByTexts {
    fn texts(&self, dialect: Dialect) -> Vec<String> {
        match dialect {
            Dialect::Postgres => vec![self.joined.to_owned()],
            Dialect::Sqlite | Dialect::Mysql => self.listed.texts(dialect),
        }
    }
}

#[cfg(test)]
impl crate::sql::listed::ListOfTexts for Rows {
    fn texts(&self, _: Dialect) -> Vec<String> {
        ROWS.map(|size| format!("{} {}", self.into, vec![self.row; size].join(", "))).into()
    }
}
