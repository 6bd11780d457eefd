//! Values of statements and columns of rows, in PostgreSQL's binary formats.

use crate::StoreError;
use crate::error::EngineWords;
use crate::sql::connection::{Row, SqlValue};
use bytes::BytesMut;
use std::error::Error;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

impl ToSql for SqlValue<'_> {
    fn to_sql(&self, type_: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match *self {
            SqlValue::Null => Ok(IsNull::Yes),
            SqlValue::Integer(number) => match *type_ {
                Type::INT2 => i16::try_from(number)?.to_sql(type_, out),
                Type::INT4 => i32::try_from(number)?.to_sql(type_, out),
                Type::INT8 => number.to_sql(type_, out),
                _ => Err(format!("a number where PostgreSQL wants {type_}").into()),
            },
            SqlValue::Text(text) if <&str as ToSql>::accepts(type_) => text.to_sql(type_, out),
            SqlValue::Text(_) => Err(format!("a text where PostgreSQL wants {type_}").into()),
            SqlValue::Bytes(bytes) if <&[u8] as ToSql>::accepts(type_) => bytes.to_sql(type_, out),
            SqlValue::Bytes(_) => Err(format!("bytes where PostgreSQL wants {type_}").into()),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// An integer of any width; sums of integers arrive as decimal numbers.
struct Integer(i64);

impl<'a> FromSql<'a> for Integer {
    fn from_sql(type_: &Type, raw: &'a [u8]) -> Result<Integer, Box<dyn Error + Sync + Send>> {
        Ok(Integer(match *type_ {
            Type::INT2 => i16::from_sql(type_, raw)?.into(),
            Type::INT4 => i32::from_sql(type_, raw)?.into(),
            Type::NUMERIC => whole(raw).ok_or("a decimal number that isn't a 64-bit integer")?,
            _ => i64::from_sql(type_, raw)?,
        }))
    }

    fn accepts(type_: &Type) -> bool {
        matches!(*type_, Type::INT2 | Type::INT4 | Type::INT8 | Type::NUMERIC)
    }
}

/// Reads a decimal number that is an integer: four numbers of 16 bits (count of digits, power of
/// the first, sign, scale), then digits to the base 10 000.
fn whole(raw: &[u8]) -> Option<i64> {
    let mut words = raw.chunks_exact(2).map(|word| i16::from_be_bytes([word[0], word[1]]));
    let (count, power, sign, scale) = (words.next()?, words.next()?, words.next()?, words.next()?);
    if !(sign == 0 || sign == SIGN_OF_NEGATIVE) || scale != 0 || !(-1..=4).contains(&power) {
        return None;
    }
    let (mut value, digits) = (0_i64, words.by_ref().take(usize::try_from(count).ok()?).collect::<Vec<_>>());
    for place in 0..=power {
        let digit = digits.get(usize::try_from(place).ok()?).copied().unwrap_or(0);
        value = value.checked_mul(10_000)?.checked_add(digit.into())?;
    }
    Some(if sign == 0 { value } else { -value })
}

const SIGN_OF_NEGATIVE: i16 = 0x4000;

/// A row of a query.
pub(super) struct PostgresRow<'a> {
    pub(super) row: tokio_postgres::Row,
    pub(super) database: &'a str,
}

impl PostgresRow<'_> {
    fn value<'r, T: FromSql<'r>>(&'r self, column: usize) -> Result<T, StoreError> {
        self.row.try_get(column).map_err(|error| {
            let why = error.into_source().map(|source| source.to_string()).unwrap_or_default();
            self.corrupt(format!("column {column} of a row has another type than it was written with: {why}"))
        })
    }
}

impl Row for PostgresRow<'_> {
    fn integer(&self, column: usize) -> Result<i64, StoreError> {
        self.value::<Integer>(column).map(|integer| integer.0)
    }

    fn optional_integer(&self, column: usize) -> Result<Option<i64>, StoreError> {
        self.value::<Option<Integer>>(column).map(|integer| integer.map(|integer| integer.0))
    }

    fn text(&self, column: usize) -> Result<&str, StoreError> {
        self.value(column)
    }

    fn optional_text(&self, column: usize) -> Result<Option<&str>, StoreError> {
        self.value(column)
    }

    fn bytes(&self, column: usize) -> Result<&[u8], StoreError> {
        self.value(column)
    }

    fn optional_bytes(&self, column: usize) -> Result<Option<&[u8]>, StoreError> {
        self.value(column)
    }

    fn corrupt(&self, what: String) -> StoreError {
        StoreError::Corrupt(EngineWords { database: self.database.to_owned(), message: what })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_numbers_are_read() {
        let read = |words: &[i16]| whole(&words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>());
        assert_eq!(read(&[0, 0, 0, 0]), Some(0));
        assert_eq!(read(&[2, 1, 0, 0, 12, 3456]), Some(123_456));
        assert_eq!(read(&[1, 2, SIGN_OF_NEGATIVE, 0, 5]), Some(-500_000_000));
        assert_eq!(read(&[5, 4, 0, 0, 922, 3372, 368, 5477, 5807]), Some(i64::MAX));
        for wrong in
            [&[1, 0, -16384, 0, 1][..], &[1, 0, 0, 2, 1], &[5, 4, 0, 0, 923, 0, 0, 0, 0], &[1, 9, 0, 0, 1], &[1]]
        {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }
}
