//! A database of another program, which is only read, since other servers also store accounts in
//! SQL.
//!
//! Everything is read as text, in the engine's representation: types of columns differ between
//! engines and between versions of those programs. Bytes that aren't text appear as `\x` and
//! hexadecimal digits.

use super::connection::SqlValue;
use super::copy::EndAddress;
use super::dialect::Dialect;
#[cfg(feature = "mysql")]
use super::mysql;
#[cfg(feature = "postgres")]
use super::postgres;
use super::sqlite;
use super::transactions::Transactions;
use crate::StoreError;
use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;

/// A database of another program.
pub struct Foreign {
    connection: Box<dyn Transactions + Send>,
    /// The statements that were run, a few dozen, which connections keep for ever.
    texts: HashMap<String, &'static str>,
}

/// A selection of a table's rows.
#[derive(Clone, Copy, Debug)]
pub struct WantedRows<'a> {
    /// The name of the table in that database.
    pub table: &'a str,
    /// The names of the columns, in the order in which the rows have them.
    pub columns: &'a [&'a str],
    /// The columns with the values that they must have.
    pub equal: &'a [(&'a str, ForeignKey<'a>)],
    /// The columns by which rows are ordered.
    pub order: &'a [&'a str],
    /// Only rows after the one that has these values in those columns, one for each of them. Rows
    /// that share the values with others may be lost between two pages, so together they have to be
    /// unique.
    pub after: Option<&'a [ForeignKey<'a>]>,
    /// True to return equal rows once.
    pub distinct: bool,
    /// The most rows that are read.
    pub limit: usize,
}

/// A value by which rows are found.
#[derive(Clone, Copy, Debug)]
pub enum ForeignKey<'a> {
    /// A value of a text column.
    Text(&'a str),
    /// A value of a column of whole numbers.
    Number(i64),
}

/// A row: texts, or `None` for NULL.
pub type TextRow = Vec<Option<String>>;

impl<'a> WantedRows<'a> {
    /// Selects all rows of a table that have these values.
    pub fn of(table: &'a str, columns: &'a [&'a str], equal: &'a [(&'a str, ForeignKey<'a>)]) -> Self {
        WantedRows { table, columns, equal, order: &[], after: None, distinct: false, limit: usize::MAX }
    }

    /// Orders the rows by columns, and leaves out those up to the row with these values.
    pub fn behind(self, order: &'a [&'a str], after: Option<&'a [ForeignKey<'a>]>, limit: usize) -> Self {
        WantedRows { order, after, limit, ..self }
    }
}

impl Foreign {
    /// Opens a database to read from it.
    ///
    /// # Errors
    ///
    /// The error of the engine.
    pub fn open(address: &EndAddress) -> Result<Foreign, StoreError> {
        let connection: Box<dyn Transactions + Send> = match address {
            EndAddress::Sqlite(file) => sqlite::foreign(file)?,
            #[cfg(feature = "postgres")]
            EndAddress::Postgres(options) => postgres::foreign(options)?,
            #[cfg(feature = "mysql")]
            EndAddress::Mysql(options) => mysql::foreign(options)?,
        };
        Ok(Foreign { connection, texts: HashMap::new() })
    }

    /// Returns the names of a table's columns; none if there is no such table.
    ///
    /// # Errors
    ///
    /// The error of the engine.
    pub fn columns(&mut self, table: &str) -> Result<Vec<String>, StoreError> {
        let text = match self.connection.dialect() {
            Dialect::Sqlite => "SELECT name FROM pragma_table_info(?)",
            Dialect::Postgres => {
                "SELECT CAST(column_name AS TEXT) FROM information_schema.columns \
                 WHERE table_name = ? AND table_schema = current_schema()"
            }
            Dialect::Mysql => {
                "SELECT CAST(column_name AS CHAR) FROM information_schema.columns \
                 WHERE table_name = ? AND table_schema = DATABASE()"
            }
        };
        let mut names = Vec::new();
        self.connection.query(text, &[SqlValue::Text(table)], &mut |row| {
            names.push(row.text(0)?.to_owned());
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(names)
    }

    /// Reads rows.
    ///
    /// # Errors
    ///
    /// The error of the engine, also if there is no such table or column.
    pub fn rows(&mut self, wanted: &WantedRows<'_>) -> Result<Vec<TextRow>, StoreError> {
        let text = self.text(text(wanted, self.connection.dialect()));
        let after = wanted.after.unwrap_or_default();
        let keys = wanted.equal.iter().map(|(_, key)| *key).chain(after.first().copied()).chain(after.iter().copied());
        let values: Vec<_> = keys.map(ForeignKey::value).chain([SqlValue::number(wanted.limit as u64)]).collect();
        let mut rows = Vec::new();
        self.connection.query(text, &values, &mut |row| {
            let cells = (0..wanted.columns.len()).map(|column| Ok(row.optional_text(column)?.map(column_text)));
            rows.push(cells.collect::<Result<TextRow, StoreError>>()?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(rows)
    }

    fn text(&mut self, text: String) -> &'static str {
        self.texts.entry(text).or_insert_with_key(|text| text.clone().leak())
    }
}

impl fmt::Debug for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Foreign").finish_non_exhaustive()
    }
}

impl<'a> ForeignKey<'a> {
    fn value(self) -> SqlValue<'a> {
        match self {
            ForeignKey::Text(text) => SqlValue::Text(text),
            ForeignKey::Number(number) => SqlValue::Integer(number),
        }
    }

    /// Returns the placeholder of this value in a statement. A number is read with 64 bits, so that
    /// it can be compared with columns of all sizes.
    fn place(self, dialect: Dialect) -> &'static str {
        match (self, dialect) {
            (ForeignKey::Text(_), _) | (ForeignKey::Number(_), Dialect::Sqlite) => "?",
            (ForeignKey::Number(_), Dialect::Postgres) => "CAST(? AS BIGINT)",
            (ForeignKey::Number(_), Dialect::Mysql) => "CAST(? AS SIGNED)",
        }
    }
}

/// Returns the text of a column. Bytes arrive as `\x` and hexadecimal digits, and are decoded if
/// they are text.
fn column_text(text: &str) -> String {
    let decoded = text.strip_prefix("\\x").and_then(|digits| {
        let pair = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(pair).collect();
        String::from_utf8(bytes?).ok()
    });
    decoded.unwrap_or_else(|| text.to_owned())
}

fn text(wanted: &WantedRows<'_>, dialect: Dialect) -> String {
    let quote = match dialect {
        Dialect::Sqlite | Dialect::Postgres => '"',
        Dialect::Mysql => '`',
    };
    // Some names are SQL keywords in one engine or the other.
    let quoted = |name: &str| format!("{quote}{name}{quote}");
    let columns = wanted.columns.iter().map(|column| match (quoted(column), dialect) {
        (column, Dialect::Sqlite) => {
            format!("CASE typeof({column}) WHEN 'blob' THEN '\\x' || hex({column}) ELSE CAST({column} AS TEXT) END")
        }
        (column, Dialect::Postgres) => format!("CAST({column} AS TEXT)"),
        // Numbers have the character set of bytes, too. `0x5C78` is `\x`. The result is bytes: the
        // order in which one page of rows follows another.
        (column, Dialect::Mysql) => format!(
            "CAST(CASE CHARSET({column}) WHEN 'binary' THEN CONCAT(0x5C78, HEX(CAST({column} AS BINARY))) \
             ELSE CONVERT({column} USING utf8mb4) END AS BINARY)"
        ),
    });
    let equal = wanted.equal.iter().map(|(column, key)| format!("{} = {}", quoted(column), key.place(dialect)));
    // Not every engine finds the first row by an index if two columns are compared at once.
    let compared = |column: &str, key: ForeignKey<'_>| match (key, dialect) {
        // These columns may have an order of their own, in which some names are even equal.
        (ForeignKey::Text(_), Dialect::Mysql) => format!("CAST(CONVERT({} USING utf8mb4) AS BINARY)", quoted(column)),
        _ => quoted(column),
    };
    let after = wanted.after.and_then(|after| {
        let keys = || wanted.order.iter().zip(after);
        let (first, key) = keys().next()?;
        let columns: Vec<_> = keys().map(|(column, key)| compared(column, *key)).collect();
        let places: Vec<_> = keys().map(|(_, key)| key.place(dialect)).collect();
        Some(format!(
            "{} >= {} AND ({}) > ({})",
            compared(first, *key),
            key.place(dialect),
            columns.join(", "),
            places.join(", ")
        ))
    });
    let conditions: Vec<_> = equal.chain(after).collect();
    let mut text = String::from(if wanted.distinct { "SELECT DISTINCT " } else { "SELECT " });
    text.push_str(&columns.collect::<Vec<_>>().join(", "));
    text.push_str(&format!(" FROM {}", quoted(wanted.table)));
    if !conditions.is_empty() {
        text.push_str(&format!(" WHERE {}", conditions.join(" AND ")));
    }
    if !wanted.order.is_empty() {
        let order: Vec<_> = match wanted.distinct {
            // Equal rows can only be ordered by the data that is read from them.
            true => (1..=wanted.order.len()).map(|number| number.to_string()).collect(),
            // A bare name would mean the text that is read, which orders numbers by their digits.
            false => wanted.order.iter().map(|column| format!("{}.{}", quoted(wanted.table), quoted(column))).collect(),
        };
        text.push_str(&format!(" ORDER BY {}", order.join(", ")));
    }
    text.push_str(" LIMIT ?");
    text
}
