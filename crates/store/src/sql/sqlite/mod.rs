//! SQLite: everything in one file, without a server to run.
//!
//! The file is opened with a write-ahead log (a crash needs no repair, readers never wait) and `synchronous = FULL`:
//! a commit returns after the log is on the disk. Other processes may use the file meanwhile – a backup, `rookery
//! check`, an SQL shell; the store waits for them for a bounded time.

mod check;
mod driver;
mod options;
mod place;
mod schema;

pub use super::finding::{Finding, Severity};
pub use check::check;
pub use options::Options;

use super::SqlStore;
use crate::StoreError;
use driver::Driver;
use place::{prepare_directory, prepare_file};
use std::path::Path;

/// Opens a database file, creating it and its directory if they don't exist and bringing an older schema up to date.
///
/// # Errors
///
/// [`StoreError::Directory`] if the directory can't be created or written, [`StoreError::TooNew`] and
/// [`StoreError::Foreign`] if the file isn't for this server, [`StoreError::ReadOnly`] if it can't be written,
/// otherwise what SQLite reports.
pub fn open(path: &Path, options: &Options) -> Result<SqlStore, StoreError> {
    prepare_directory(path)?;
    prepare_file(path)?;
    let mut driver = Driver::open(path, options.lock_wait)?;
    // Look before anything is written: the file may not be ours.
    schema::version(&driver)?;
    driver.set_up(options)?;
    schema::migrate(&mut driver)?;
    SqlStore::start(driver.into(), options.bounds).map_err(|error| StoreError::other(path, error))
}
