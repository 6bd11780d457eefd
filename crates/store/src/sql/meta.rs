//! The operations of [`Meta`](crate::Meta).

use super::connection::{SqlConnection, SqlValue, all, one};
use super::dialect::{Dialect, DialectText};
use super::many::Rows;
use super::statements::*;
use crate::{Added, StoreError};

pub(crate) fn get(c: &mut dyn SqlConnection, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
    one(c, META, &[SqlValue::Text(key)], |row| Ok(row.bytes(0)?.to_vec()))
}

pub(crate) fn put(c: &mut dyn SqlConnection, key: &str, bytes: &[u8]) -> Result<(), StoreError> {
    let values = [SqlValue::Bytes(bytes), SqlValue::Text(key)];
    if c.execute(UPDATE_META, &values)? == 0 {
        c.execute(INSERT_META, &values)?;
    }
    Ok(())
}

pub(crate) fn entries(c: &mut dyn SqlConnection, list: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
    all(c, ENTRIES, &[SqlValue::Text(list)], |row| Ok((row.text(0)?.to_owned(), row.bytes(1)?.to_vec())))
}

pub(crate) fn put_entry(c: &mut dyn SqlConnection, list: &str, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
    let values = [SqlValue::Bytes(bytes), SqlValue::Text(list), SqlValue::Text(name)];
    if c.execute(UPDATE_ENTRY, &values)? == 0 {
        INSERT_ENTRIES.insert(c, &[values])?;
    }
    Ok(())
}

pub(crate) fn add_entry(
    c: &mut dyn SqlConnection,
    list: &str,
    name: &str,
    bytes: &[u8],
    most: u64,
) -> Result<Added, StoreError> {
    let (list, name) = (SqlValue::Text(list), SqlValue::Text(name));
    if c.execute(ADD_ENTRY, &[SqlValue::Bytes(bytes), list, name, list, name, list, SqlValue::number(most)])? > 0 {
        return Ok(Added::Done);
    }
    let is_there = one(c, ENTRY, &[list, name], |_| Ok(()))?.is_some();
    Ok(if is_there { Added::Exists } else { Added::Full })
}

pub(crate) fn remove_entry(c: &mut dyn SqlConnection, list: &str, name: &str) -> Result<bool, StoreError> {
    Ok(c.execute(REMOVE_ENTRY, &[SqlValue::Text(list), SqlValue::Text(name)])? > 0)
}

pub(crate) fn replace_entry(
    c: &mut dyn SqlConnection,
    list: &str,
    name: &str,
    before: &[u8],
    after: Option<&[u8]>,
) -> Result<bool, StoreError> {
    let (list, name, before) = (SqlValue::Text(list), SqlValue::Text(name), SqlValue::Bytes(before));
    let changed = match after {
        Some(after) => c.execute(REPLACE_ENTRY, &[SqlValue::Bytes(after), list, name, before])?,
        None => c.execute(REMOVE_ENTRY_OF, &[list, name, before])?,
    };
    Ok(changed > 0)
}

pub(crate) fn set_entries(
    c: &mut dyn SqlConnection,
    list: &str,
    entries: &[(String, Vec<u8>)],
) -> Result<(), StoreError> {
    let list = SqlValue::Text(list);
    c.execute(REMOVE_ENTRIES, &[list])?;
    let rows: Vec<_> =
        entries.iter().map(|(name, bytes)| [SqlValue::Bytes(bytes), list, SqlValue::Text(name)]).collect();
    INSERT_ENTRIES.insert(c, &rows)
}

/// Analyses the tables now: PostgreSQL does so by itself after a minute, and reads whole tables
/// until then. Other engines update their statistics as they write.
pub(crate) fn look_over(c: &mut dyn SqlConnection) -> Result<(), StoreError> {
    match c.dialect() {
        Dialect::Postgres => c.execute(LOOK_OVER.on(Dialect::Postgres), &[]).map(drop),
        Dialect::Sqlite | Dialect::Mysql => Ok(()),
    }
}

/// Only PostgreSQL's text is run.
const LOOK_OVER: DialectText = DialectText { sqlite: "ANALYZE", postgres: "ANALYZE", mysql: "ANALYZE TABLE accounts" };

/// Values: list.
const ENTRIES: &str = "SELECT name, bytes FROM lists WHERE list = ? ORDER BY name";

/// Values: list, name.
const ENTRY: &str = "SELECT 1 FROM lists WHERE list = ? AND name = ?";

/// Values: bytes, list, name.
const UPDATE_ENTRY: &str = "UPDATE lists SET bytes = ? WHERE list = ? AND name = ?";

/// Values: bytes, list, name.
static INSERT_ENTRIES: Rows = Rows::new("INSERT INTO lists (bytes, list, name) VALUES", "(?, ?, ?)");

/// Values: bytes, list, name, list, name, list, the limit.
const ADD_ENTRY: &str = "\
    INSERT INTO lists (bytes, list, name) SELECT ?, ?, ? FROM counters WHERE name = 'next_roster_version' \
    AND NOT EXISTS (SELECT 1 FROM lists known WHERE known.list = ? AND known.name = ?) \
    AND (SELECT COUNT(*) FROM lists known WHERE known.list = ?) < ?";

/// Values: list, name.
const REMOVE_ENTRY: &str = "DELETE FROM lists WHERE list = ? AND name = ?";

/// Values: bytes, list, name, bytes before.
const REPLACE_ENTRY: &str = "UPDATE lists SET bytes = ? WHERE list = ? AND name = ? AND bytes = ?";

/// Values: list, name, bytes.
const REMOVE_ENTRY_OF: &str = "DELETE FROM lists WHERE list = ? AND name = ? AND bytes = ?";

/// Values: list.
const REMOVE_ENTRIES: &str = "DELETE FROM lists WHERE list = ?";

/// Returns the statements above.
#[cfg(test)]
pub(in crate::sql) fn list_statements() -> Vec<crate::sql::listed::ListedTexts> {
    crate::sql::listed::listed![
        LOOK_OVER,
        ENTRIES,
        ENTRY,
        UPDATE_ENTRY,
        INSERT_ENTRIES,
        ADD_ENTRY,
        REMOVE_ENTRY,
        REPLACE_ENTRY,
        REMOVE_ENTRY_OF,
        REMOVE_ENTRIES
    ]
}
