//! Values of statements and columns of rows, in the binary protocol of MariaDB and MySQL.

use crate::StoreError;
use crate::error::EngineWords;
use crate::sql::connection::{Row, SqlValue};
use mysql_async::{Params, Value as Wire};

/// Returns the values of a statement in the library's form.
pub(super) fn parameters(values: &[SqlValue<'_>]) -> Params {
    if values.is_empty() {
        return Params::Empty;
    }
    let wire = |value: &SqlValue<'_>| match *value {
        SqlValue::Null => Wire::NULL,
        SqlValue::Integer(number) => Wire::Int(number),
        SqlValue::Text(text) => Wire::Bytes(text.as_bytes().to_vec()),
        SqlValue::Bytes(bytes) => Wire::Bytes(bytes.to_vec()),
    };
    Params::Positional(values.iter().map(wire).collect())
}

/// Returns the approximate number of bytes that a row takes.
pub(super) fn size(row: &mysql_async::Row) -> usize {
    let bytes = |at| match row.as_ref(at) {
        Some(Wire::Bytes(bytes)) => bytes.len() + size_of::<Wire>(),
        _ => size_of::<Wire>(),
    };
    (0..row.len()).map(bytes).sum()
}

/// A row of a query.
pub(super) struct MysqlRow<'a> {
    pub(super) row: mysql_async::Row,
    pub(super) database: &'a str,
}

impl MysqlRow<'_> {
    fn value(&self, column: usize) -> Result<&Wire, StoreError> {
        self.row.as_ref(column).ok_or_else(|| self.corrupt(format!("there is no column {column} in a row")))
    }

    fn wrong(&self, column: usize, what: &str) -> StoreError {
        self.corrupt(format!("column {column} of a row has another type than it was written with: {what}"))
    }
}

impl Row for MysqlRow<'_> {
    /// Returns an integer. Sums of integers arrive as decimal numbers, which are texts.
    fn integer(&self, column: usize) -> Result<i64, StoreError> {
        self.optional_integer(column)?.ok_or_else(|| self.wrong(column, "there is no number"))
    }

    fn optional_integer(&self, column: usize) -> Result<Option<i64>, StoreError> {
        let number = match self.value(column)? {
            Wire::NULL => return Ok(None),
            Wire::Int(number) => Some(*number),
            Wire::UInt(number) => i64::try_from(*number).ok(),
            Wire::Bytes(digits) => std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()),
            _ => None,
        };
        number.map(Some).ok_or_else(|| self.wrong(column, "it isn't a 64-bit integer"))
    }

    fn text(&self, column: usize) -> Result<&str, StoreError> {
        self.optional_text(column)?.ok_or_else(|| self.wrong(column, "there is no text"))
    }

    fn optional_text(&self, column: usize) -> Result<Option<&str>, StoreError> {
        let Some(bytes) = self.optional_bytes(column)? else { return Ok(None) };
        std::str::from_utf8(bytes).map(Some).map_err(|error| self.wrong(column, &error.to_string()))
    }

    fn bytes(&self, column: usize) -> Result<&[u8], StoreError> {
        self.optional_bytes(column)?.ok_or_else(|| self.wrong(column, "there are no bytes"))
    }

    fn optional_bytes(&self, column: usize) -> Result<Option<&[u8]>, StoreError> {
        match self.value(column)? {
            Wire::NULL => Ok(None),
            Wire::Bytes(bytes) => Ok(Some(bytes)),
            _ => Err(self.wrong(column, "it is neither text nor bytes")),
        }
    }

    fn corrupt(&self, what: String) -> StoreError {
        StoreError::Corrupt(EngineWords { database: self.database.to_owned(), message: what })
    }
}
