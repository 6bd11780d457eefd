//! Rows as values that are the same for every engine.

use sha2::{Digest, Sha256};

use crate::StoreError;
use crate::sql::connection::{Row, SqlValue};

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnKind {
    Integer,
    Text,
    Bytes,
    OptionalInteger,
    OptionalText,
    OptionalBytes,
}

/// A value of a row. Values of one column have the same order in every engine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cell {
    Null,
    Integer(i64),
    Text(String),
    Bytes(Vec<u8>),
}

/// A row, with its values in the order of the table's columns.
pub(crate) type RowCells = Vec<Cell>;

impl Cell {
    pub(super) fn read(row: &dyn Row, column: usize, kind: ColumnKind) -> Result<Cell, StoreError> {
        let text = |text: &str| Cell::Text(text.to_owned());
        let bytes = |bytes: &[u8]| Cell::Bytes(bytes.to_vec());
        Ok(match kind {
            ColumnKind::Integer => Cell::Integer(row.integer(column)?),
            ColumnKind::Text => text(row.text(column)?),
            ColumnKind::Bytes => bytes(row.bytes(column)?),
            ColumnKind::OptionalInteger => row.optional_integer(column)?.map_or(Cell::Null, Cell::Integer),
            ColumnKind::OptionalText => row.optional_text(column)?.map_or(Cell::Null, text),
            ColumnKind::OptionalBytes => row.optional_bytes(column)?.map_or(Cell::Null, bytes),
        })
    }

    pub(super) fn value(&self) -> SqlValue<'_> {
        match self {
            Cell::Null => SqlValue::Null,
            Cell::Integer(integer) => SqlValue::Integer(*integer),
            Cell::Text(text) => SqlValue::Text(text),
            Cell::Bytes(bytes) => SqlValue::Bytes(bytes),
        }
    }

    /// Returns its number, 0 if it isn't one.
    pub(crate) fn integer(&self) -> i64 {
        match self {
            Cell::Integer(integer) => *integer,
            _ => 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Cell::Null | Cell::Integer(_) => 8,
            Cell::Text(text) => text.len(),
            Cell::Bytes(bytes) => bytes.len(),
        }
    }

    /// Adds the value to a digest, after its type and its length, so that no two rows have the same
    /// bytes.
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

/// Returns the key of a row in a readable form.
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
