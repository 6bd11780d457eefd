//! Reads rows in the order of their keys, a bounded portion at a time, and inserts them.

use std::ops::ControlFlow;

use super::catalogue::{SIZES, Table, tables};
use super::cells::{Cell, RowCells};
use crate::StoreError;
use crate::sql::connection::{SqlConnection, SqlValue, one};

/// Reads the rows of a table, after a key if one is given: up to [`PAGE`] of them, and no more
/// bytes than [`PAGE_BYTES`] and one row. An empty page is the end.
pub(super) fn page(
    c: &mut dyn SqlConnection,
    table: &'static Table,
    behind: Option<&[Cell]>,
) -> Result<Vec<RowCells>, StoreError> {
    let mut rows = Vec::new();
    let mut bytes = 0;
    let mut ask = |text: &'static str, values: &[SqlValue<'_>]| {
        let left = PAGE - rows.len();
        let values = [values, &[SqlValue::number(left as u64)]].concat();
        c.query(text, &values, &mut |row| {
            let cells = table.columns.iter().enumerate().map(|(column, (_, kind))| Cell::read(row, column, *kind));
            let record = cells.collect::<Result<RowCells, _>>()?;
            bytes += record.iter().map(Cell::len).sum::<usize>();
            rows.push(record);
            Ok(if bytes >= PAGE_BYTES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(rows.len() >= PAGE || bytes >= PAGE_BYTES)
    };
    let Some(key) = behind else {
        return ask(&table.texts.first, &[]).map(|_| rows);
    };
    // The rows that differ only in the last column of the key come first, then those that differ in
    // the one before as well: each is a range of the key.
    for (equal, text) in table.texts.behind.iter().enumerate().rev() {
        let values: Vec<_> = key.iter().take(equal + 1).map(Cell::value).collect();
        if ask(text, &values)? {
            break;
        }
    }
    Ok(rows)
}

/// Returns the key of the last row of a table.
pub(super) fn last_key(c: &mut dyn SqlConnection, table: &'static Table) -> Result<Option<RowCells>, StoreError> {
    one(c, &table.texts.last, &[], |row| {
        table.key_columns().iter().enumerate().map(|(column, (_, kind))| Cell::read(row, column, *kind)).collect()
    })
}

/// Counts the rows of a table.
pub(super) fn count(c: &mut dyn SqlConnection, table: &'static Table) -> Result<u64, StoreError> {
    Ok(one(c, &table.texts.count, &[], |row| row.number(0))?.unwrap_or_default())
}

/// Counts the rows of all tables.
pub(super) fn total(c: &mut dyn SqlConnection) -> Result<u64, StoreError> {
    tables().iter().map(|table| count(c, table)).sum()
}

/// Inserts rows.
pub(super) fn insert(c: &mut dyn SqlConnection, table: &'static Table, rows: &[RowCells]) -> Result<(), StoreError> {
    let mut rest = rows;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fitting = rest.iter().take_while(|row| {
            bytes += row.iter().map(Cell::len).sum::<usize>();
            bytes <= STATEMENT_BYTES
        });
        let fitting = fitting.count().max(1);
        let at = SIZES.iter().position(|size| *size <= fitting).unwrap_or(SIZES.len() - 1);
        let (portion, behind) = rest.split_at(SIZES.get(at).copied().unwrap_or(1).min(rest.len()));
        let values: Vec<_> = portion.iter().flatten().map(Cell::value).collect();
        if let Some(text) = table.texts.insert.get(at) {
            c.execute(text, &values)?;
        }
        rest = behind;
    }
    Ok(())
}

/// The number of rows that are read at a time.
pub(super) const PAGE: usize = 1000;
/// The bytes of rows that are read at a time.
pub(super) const PAGE_BYTES: usize = 4 << 20;
/// The most bytes that are inserted by one statement, unless a single row has more: engines bound
/// the size of a statement.
const STATEMENT_BYTES: usize = 1 << 20;
