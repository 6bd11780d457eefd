//! The interface of an engine's connection for operations.

use super::archives::KnownArchives;
use super::dialect::Dialect;
use crate::StoreError;
use crate::archive::TermsOf;
use rookery_jid::{Jid, JidRef};
use std::ops::ControlFlow;

/// A connection inside a transaction. Statements have a `?` for each value, in order.
pub(crate) trait SqlConnection {
    /// Returns the engine's SQL dialect.
    fn dialect(&self) -> Dialect;

    /// Runs a statement without result rows. Returns the number of rows that it inserted, changed
    /// or removed.
    fn execute(&mut self, sql: &'static str, values: &[SqlValue<'_>]) -> Result<u64, StoreError>;

    /// Runs a query and passes its rows to `each`, until that breaks.
    fn query(&mut self, sql: &'static str, values: &[SqlValue<'_>], each: &mut EachRow<'_>) -> Result<(), StoreError>;

    /// Returns the error for rows that this server can't have written.
    fn corrupt(&self, what: String) -> StoreError;

    /// Checks again, in a transaction, whether others have removed messages from archives, and
    /// empties the cache if so. From then on, an archive whose row is locked can't be changed by
    /// others.
    fn renew_archives(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns the cache of archives.
    fn known_archives(&mut self) -> &mut KnownArchives;

    /// Returns the function that extracts the terms of messages, if they are indexed.
    fn terms_of(&self) -> Option<TermsOf> {
        None
    }
}

/// Handles a row and returns whether to continue.
pub(crate) type EachRow<'a> = dyn FnMut(&dyn Row) -> Result<ControlFlow<()>, StoreError> + 'a;

/// A row of a query. Columns count from 0.
pub(crate) trait Row {
    /// Returns an integer that isn't NULL.
    fn integer(&self, column: usize) -> Result<i64, StoreError>;
    /// Returns an integer or NULL.
    fn optional_integer(&self, column: usize) -> Result<Option<i64>, StoreError>;
    /// Returns a text that isn't NULL.
    fn text(&self, column: usize) -> Result<&str, StoreError>;
    /// Returns a text or NULL.
    fn optional_text(&self, column: usize) -> Result<Option<&str>, StoreError>;
    /// Returns bytes that aren't NULL.
    fn bytes(&self, column: usize) -> Result<&[u8], StoreError>;
    /// Returns bytes or NULL.
    fn optional_bytes(&self, column: usize) -> Result<Option<&[u8]>, StoreError>;
    /// Returns the error for a value that this server can't have written.
    fn corrupt(&self, what: String) -> StoreError;

    /// Returns a number, which is never negative.
    fn number(&self, column: usize) -> Result<u64, StoreError> {
        let value = self.integer(column)?;
        u64::try_from(value).map_err(|_| self.corrupt(format!("{value} where a negative number isn't possible")))
    }

    /// Returns an address.
    fn jid(&self, column: usize) -> Result<Jid, StoreError> {
        let text = self.text(column)?;
        Jid::parse(text).map_err(|error| self.corrupt(format!("the address {text:?}: {error}")))
    }
}

/// A value of a statement.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SqlValue<'a> {
    /// No value, as in columns that may have none.
    Null,
    /// A 64-bit integer.
    Integer(i64),
    /// A text in UTF-8.
    Text(&'a str),
    /// A string of bytes.
    Bytes(&'a [u8]),
}

impl SqlValue<'_> {
    /// Returns a number; one that exceeds SQL's integers becomes the largest of them.
    pub(crate) fn number(number: u64) -> SqlValue<'static> {
        SqlValue::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }

    /// Returns 0 or 1.
    pub(crate) fn flag(flag: bool) -> SqlValue<'static> {
        SqlValue::Integer(flag.into())
    }

    /// Returns the size of a text or a string of bytes, and 0 for other values.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            SqlValue::Null | SqlValue::Integer(_) => 0,
            SqlValue::Text(text) => text.len(),
            SqlValue::Bytes(bytes) => bytes.len(),
        }
    }
}

/// Returns the two values that name an account in statements: domain, then localpart.
pub(crate) fn account_values(account: JidRef<'_>) -> [SqlValue<'_>; 2] {
    [SqlValue::Text(account.domain()), SqlValue::Text(account.local().unwrap_or_default())]
}

/// Returns the only row of a query, if it has one.
pub(crate) fn one<T>(
    connection: &mut dyn SqlConnection,
    sql: &'static str,
    values: &[SqlValue<'_>],
    read: impl Fn(&dyn Row) -> Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    let mut found = None;
    connection.query(sql, values, &mut |row| {
        found = Some(read(row)?);
        Ok(ControlFlow::Break(()))
    })?;
    Ok(found)
}

/// Returns all rows of a query.
pub(crate) fn all<T>(
    connection: &mut dyn SqlConnection,
    sql: &'static str,
    values: &[SqlValue<'_>],
    read: impl Fn(&dyn Row) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut found = Vec::new();
    connection.query(sql, values, &mut |row| {
        found.push(read(row)?);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}
