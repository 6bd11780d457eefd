//! Rows as values of their own: read in the order of their keys, a bounded portion at a time, and inserted.

use std::ops::ControlFlow;

use sha2::{Digest, Sha256};

use super::catalogue::{Kind, SIZES, Table};
use crate::StoreError;
use crate::sql::connection::{Connection, Row, Value, one};

/// A value of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    Null,
    Integer(i64),
    Text(String),
    Bytes(Vec<u8>),
}

/// A row, with its values in the order of the table's columns.
pub(crate) type Record = Vec<Cell>;

impl Cell {
    fn read(row: &dyn Row, column: usize, kind: Kind) -> Result<Cell, StoreError> {
        let text = |text: &str| Cell::Text(text.to_owned());
        let bytes = |bytes: &[u8]| Cell::Bytes(bytes.to_vec());
        Ok(match kind {
            Kind::Integer => Cell::Integer(row.integer(column)?),
            Kind::Text => text(row.text(column)?),
            Kind::Bytes => bytes(row.bytes(column)?),
            Kind::OptionalInteger => row.optional_integer(column)?.map_or(Cell::Null, Cell::Integer),
            Kind::OptionalText => row.optional_text(column)?.map_or(Cell::Null, text),
            Kind::OptionalBytes => row.optional_bytes(column)?.map_or(Cell::Null, bytes),
        })
    }

    fn value(&self) -> Value<'_> {
        match self {
            Cell::Null => Value::Null,
            Cell::Integer(integer) => Value::Integer(*integer),
            Cell::Text(text) => Value::Text(text),
            Cell::Bytes(bytes) => Value::Bytes(bytes),
        }
    }

    /// Returns the number that it is, 0 if it is none.
    pub(crate) fn integer(&self) -> i64 {
        match self {
            Cell::Integer(integer) => *integer,
            _ => 0,
        }
    }

    fn len(&self) -> usize {
        match self {
            Cell::Null | Cell::Integer(_) => 8,
            Cell::Text(text) => text.len(),
            Cell::Bytes(bytes) => bytes.len(),
        }
    }

    /// Adds it to a digest: its type and its length go first, so that no two rows have the same bytes.
    fn digest(&self, digest: &mut Sha256) {
        let mut part = |kind: u8, bytes: &[u8]| {
            digest.update([kind]);
            digest.update((bytes.len() as u64).to_be_bytes());
            digest.update(bytes);
        };
        match self {
            Cell::Null => part(0, &[]),
            Cell::Integer(integer) => part(1, &integer.to_be_bytes()),
            Cell::Text(text) => part(2, text.as_bytes()),
            Cell::Bytes(bytes) => part(3, bytes),
        }
    }
}

/// Writes the key of a row for people.
pub(super) fn key_words(key: &[Cell]) -> String {
    let words = key.iter().map(|cell| match cell {
        Cell::Null => "NULL".to_owned(),
        Cell::Integer(integer) => integer.to_string(),
        Cell::Text(text) => format!("{text:?}"),
        Cell::Bytes(bytes) => format!("{} bytes", bytes.len()),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Adds a row to a digest.
pub(super) fn digest_row(row: &[Cell], digest: &mut Sha256) {
    row.iter().for_each(|cell| cell.digest(digest));
}

/// Reads the rows of a table, those behind a key if there is one: up to [`PAGE`] of them, and no more bytes than [`PAGE_BYTES`] and one row.
/// None means that there are no more.
pub(super) fn page(
    c: &mut dyn Connection,
    table: &'static Table,
    behind: Option<&[Cell]>,
) -> Result<Vec<Record>, StoreError> {
    let mut rows = Vec::new();
    let mut bytes = 0;
    let mut ask = |text: &'static str, values: &[Value<'_>]| {
        let left = PAGE - rows.len();
        let values = [values, &[Value::number(left as u64)]].concat();
        c.query(text, &values, &mut |row| {
            let cells = table.columns.iter().enumerate().map(|(column, (_, kind))| Cell::read(row, column, *kind));
            let record = cells.collect::<Result<Record, _>>()?;
            bytes += record.iter().map(Cell::len).sum::<usize>();
            rows.push(record);
            Ok(if bytes >= PAGE_BYTES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(rows.len() >= PAGE || bytes >= PAGE_BYTES)
    };
    let Some(key) = behind else {
        return ask(&table.texts.first, &[]).map(|_| rows);
    };
    // First the rows that differ in the last column of the key alone, then those that differ in the one before, too: each is a range of the key.
    for (equal, text) in table.texts.behind.iter().enumerate().rev() {
        let values: Vec<_> = key.iter().take(equal + 1).map(Cell::value).collect();
        if ask(text, &values)? {
            break;
        }
    }
    Ok(rows)
}

/// Returns the key of the last row of a table.
pub(super) fn last_key(c: &mut dyn Connection, table: &'static Table) -> Result<Option<Record>, StoreError> {
    one(c, &table.texts.last, &[], |row| {
        table.key_columns().iter().enumerate().map(|(column, (_, kind))| Cell::read(row, column, *kind)).collect()
    })
}

/// Counts the rows of a table.
pub(super) fn count(c: &mut dyn Connection, table: &'static Table) -> Result<u64, StoreError> {
    Ok(one(c, &table.texts.count, &[], |row| row.number(0))?.unwrap_or_default())
}

/// Inserts rows.
pub(super) fn insert(c: &mut dyn Connection, table: &'static Table, rows: &[Record]) -> Result<(), StoreError> {
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

/// Rows that are read at a time.
const PAGE: usize = 1000;
/// Their bytes.
const PAGE_BYTES: usize = 4 << 20;
/// Bytes that are inserted by one statement, unless a single row has more: engines bound the size of a statement.
const STATEMENT_BYTES: usize = 1 << 20;
