//! SQLite: everything in one file, without a server to run.
//!
//! The file is opened with a write-ahead log (a crash needs no repair, readers never wait) and `synchronous = FULL`:
//! a commit returns after the log is on the disk. Other processes may use the file meanwhile – a backup, `rookery
//! check`, an SQL shell; the store waits for them for a bounded time.

mod check;
mod driver;
mod schema;

pub use check::{Finding, Severity, check};

use super::{Bounds, SqlStore};
use crate::StoreError;
use driver::Driver;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

/// How a database is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How much may wait.
    pub bounds: Bounds,
    /// How long an operation waits for another process that holds the database. Everybody behind it waits as long.
    pub lock_wait: Duration,
    /// How large the database may grow, in bytes; further writes answer [`StoreError::Full`].
    pub max_bytes: Option<u64>,
    /// Memory for pages of the file, in bytes.
    pub cache_bytes: usize,
    /// Undoes every write once and runs it again, as an engine does that lets another connection go first: for tests that operations
    /// can be run again.
    pub contested: bool,
}

impl Default for Options {
    /// Two seconds for locks, no limit of the size, 16 MiB of cache.
    fn default() -> Options {
        Options {
            bounds: Bounds::default(),
            lock_wait: Duration::from_secs(2),
            max_bytes: None,
            cache_bytes: 16 << 20,
            contested: false,
        }
    }
}

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
    SqlStore::start(driver, options.bounds).map_err(|error| StoreError::other(path, error))
}

/// The directory of a database file.
fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes sure that SQLite can create its log beside the database: it would report that only as "unable to open".
fn prepare_directory(path: &Path) -> Result<(), StoreError> {
    let directory = directory(path);
    let refused = |error: io::Error| StoreError::Directory { path: directory.into(), reason: error.to_string() };
    // The database holds what a password can be guessed from, so nobody else may look.
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(refused)?;
    probe(directory).map_err(refused)
}

/// Whether files can be created in a directory, told by creating one: permissions alone don't tell (read-only mounts,
/// quotas, ACLs).
fn probe(directory: &Path) -> io::Result<()> {
    let probe = directory.join(format!(".rookery-probe-{}", std::process::id()));
    fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&probe)?;
    fs::remove_file(&probe)
}

/// Creates the file readable for its owner alone; SQLite gives its log the same permissions.
fn prepare_file(path: &Path) -> Result<(), StoreError> {
    let created = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match created {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(StoreError::Directory { path: directory(path).into(), reason: error.to_string() })
        }
        _ => Ok(()),
    }
}
