//! The operations of [`Meta`](crate::Meta).

use super::connection::{Connection, Value, one};
use super::statements::*;
use crate::StoreError;

pub(crate) fn get(c: &mut dyn Connection, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
    one(c, META, &[Value::Text(key)], |row| Ok(row.bytes(0)?.to_vec()))
}

pub(crate) fn put(c: &mut dyn Connection, key: &str, bytes: &[u8]) -> Result<(), StoreError> {
    let values = [Value::Bytes(bytes), Value::Text(key)];
    if c.execute(UPDATE_META, &values)? == 0 {
        c.execute(INSERT_META, &values)?;
    }
    Ok(())
}
