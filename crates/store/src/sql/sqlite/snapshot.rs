//! The content of a database at one moment, in a file of its own.

use super::driver::SqliteDriver;
use super::place::prepare_file;
use super::waiting::OF_COMMANDS;
use crate::StoreError;
use crate::sql::connection::{SqlConnection, SqlValue};
use crate::sql::migrate;
use std::path::Path;

/// Writes the content of a database file at one moment to a new file, without blocking writers.
///
/// # Errors
///
/// [`StoreError::Foreign`] and [`StoreError::TooNew`] if the file isn't for this server, otherwise
/// SQLite's error; the new file may be incomplete then.
pub fn snapshot(path: &Path, to: &Path) -> Result<(), StoreError> {
    prepare_file(to)?;
    let mut driver = SqliteDriver::open_to_read(path, OF_COMMANDS)?;
    migrate::version(&mut driver)?;
    let to = to.to_str().ok_or_else(|| StoreError::other(to, "its name isn't text"))?;
    driver.execute("VACUUM INTO ?", &[SqlValue::Text(to)]).map(drop)
}
