//! SQLite: everything in one file, without a server to run.
//!
//! The file is opened with a write-ahead log (a crash needs no repair, readers never wait) and
//! `synchronous = FULL`: a commit returns after the log is on the disk. Other processes may use the
//! file at the same time – a backup, `rookery check`, an SQL shell; the store waits for them for a
//! bounded time.
//!
//! One connection does all writes and everything that a login waits for, and another one the long
//! reads, such as pages of archives: they read so many rows that logins would have to wait for
//! them.

mod check;
mod copying;
mod driver;
mod keeping;
mod options;
mod place;
mod schema;
mod snapshot;
mod waiting;

pub use super::finding::{Finding, Severity};
pub use check::check;
pub use keeping::kept_copy;
pub use options::SqliteOptions;
pub use snapshot::snapshot;
pub use waiting::tell_waits;

use super::SqlStore;
use super::copy::copying::Copying;
use super::migrate::{self, MigrationPlan, Migrations};
use super::store::StoreConnections;
use super::transactions::Transactions;
use crate::StoreError;
use driver::SqliteDriver;
use place::{prepare_directory, prepare_file};
use std::path::Path;
use waiting::OF_COMMANDS;

/// Opens a database file, creating it and its directory if they don't exist and updating an older
/// schema, of which it [keeps a copy](kept_copy) first.
///
/// # Errors
///
/// [`StoreError::Directory`] if the directory can't be created or written, [`StoreError::TooNew`]
/// and [`StoreError::Foreign`] if the file isn't for this server, [`StoreError::OldSchema`] if its
/// schema may not be changed, [`StoreError::ReadOnly`] if it can't be written, otherwise SQLite's
/// error.
pub fn open(path: &Path, options: &SqliteOptions) -> Result<SqlStore, StoreError> {
    prepare_directory(path)?;
    prepare_file(path)?;
    let mut driver = SqliteDriver::open(path, options.lock_wait)?;
    // Checked before anything is written, since the file may not be ours.
    migrate::version(&mut driver)?;
    let lock = match options.migrations {
        Migrations::Never => {
            migrate::prepare(&mut driver, Migrations::Never)?;
            None
        }
        Migrations::Auto if options.keeps_copy => keeping::keep(path, &mut driver)?,
        Migrations::Auto => None,
    };
    driver.set_up(options)?;
    migrate::prepare(&mut driver, options.migrations)?;
    drop(lock);
    let mut reader = SqliteDriver::open(path, options.lock_wait)?;
    reader.set_up_to_read()?;
    let connections = StoreConnections { owners: vec![driver], archive: None, reads: Some(reader) };
    SqlStore::start(connections, options.bounds).map_err(|error| StoreError::other(path, error))
}

/// Returns the steps of the schema that a database file lacks. Changes nothing; a nonexistent file
/// lacks all of them.
///
/// # Errors
///
/// [`StoreError::TooNew`] and [`StoreError::Foreign`] if the file isn't for this server, otherwise
/// SQLite's error.
pub fn plan(path: &Path) -> Result<MigrationPlan, StoreError> {
    match path.exists() {
        true => migrate::plan(&mut SqliteDriver::open_to_read(path, OF_COMMANDS)?),
        false => migrate::plan(&mut SqliteDriver::in_memory()?),
    }
}

/// Updates the schema of a database file, creating the file if it is missing; with `keeps_copy`, a
/// [copy](kept_copy) of the older file is kept. Returns the number of steps that were run.
///
/// # Errors
///
/// Those of [`open`].
pub fn migrate(path: &Path, keeps_copy: bool) -> Result<usize, StoreError> {
    let steps = plan(path)?.steps.len();
    open(path, &SqliteOptions { lock_wait: OF_COMMANDS, keeps_copy, ..SqliteOptions::default() })?.close();
    Ok(steps)
}

/// Opens a file to copy from it.
pub(super) fn source(path: &Path) -> Result<Box<dyn Copying + Send>, StoreError> {
    expect_file(path)?;
    let mut driver = SqliteDriver::open_to_read(path, OF_COMMANDS)?;
    driver.keep_statements();
    migrate::refuse_newer(&mut driver)?;
    migrate::prepare(&mut driver, Migrations::Never)?;
    Ok(Box::new(driver))
}

/// Returns an error if there is no file, which SQLite would take for a fault of the disk.
fn expect_file(path: &Path) -> Result<(), StoreError> {
    match path.try_exists() {
        Ok(false) => Err(StoreError::Missing(path.to_owned())),
        // Any other fault is reported when the file is opened.
        _ => Ok(()),
    }
}

/// Opens a file of another program to read from it.
pub(super) fn foreign(path: &Path) -> Result<Box<dyn Transactions + Send>, StoreError> {
    expect_file(path)?;
    let driver = SqliteDriver::open_to_read(path, OF_COMMANDS)?;
    driver.keep_statements();
    Ok(Box::new(driver))
}

/// Opens a file to copy to it, creating it if it is missing.
pub(super) fn destination(path: &Path) -> Result<Box<dyn Copying + Send>, StoreError> {
    prepare_directory(path)?;
    prepare_file(path)?;
    let mut driver = SqliteDriver::open(path, OF_COMMANDS)?;
    migrate::refuse_newer(&mut driver)?;
    driver.set_up(&SqliteOptions::default())?;
    migrate::migrate(&mut driver)?;
    Ok(Box::new(driver))
}
