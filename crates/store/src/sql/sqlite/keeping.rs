//! Copies of a database from before its schema changes.
//!
//! The steps of a schema run in transactions and keep every row, so the copy isn't for them: it is
//! for the faults that nobody knows yet, when an operator wants the old state back and has no
//! backup.
//!
//! # Invariants
//!
//! - A file under the name of a copy is complete and was checked: it is written under another name
//!   first. Its schema is the version in its name.
//! - Only the latest copies stay.
//! - A disk without room for a copy doesn't keep a server from starting: it would be down until
//!   somebody comes, and the previous release can use the updated database as well. A database that
//!   can't be copied for any other reason isn't changed: it may be damaged.

use super::driver::SqliteDriver;
use super::place::directory;
use super::schema;
use super::snapshot::snapshot;
use crate::StoreError;
use crate::sql::connection::{SqlConnection, one};
use crate::sql::migrate;
use rustix::fs::statvfs;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Returns the name of the copy of a database whose schema had a version.
pub fn kept_copy(database: &Path, version: i64) -> PathBuf {
    beside(database, &format!("{BEFORE}{version}"))
}

/// Keeps a copy of a database file if this server is going to change its schema. Returns a lock for
/// which others that start at the same time wait: as long as it is held, the schema changes only
/// here. `None` if it needn't change.
///
/// # Errors
///
/// The database can't be read or the copy can't be written, for another reason than a full disk.
pub(super) fn keep(path: &Path, driver: &mut SqliteDriver) -> Result<Option<File>, StoreError> {
    if !is_due(driver)? {
        return Ok(None);
    }
    let failed = |error: io::Error| StoreError::other(path, error);
    let lock = File::open(directory(path)).map_err(failed)?;
    lock.lock().map_err(failed)?;
    if !is_due(driver)? {
        return Ok(None);
    }
    let version = migrate::version(driver)?;
    let copied = match has_room(path).map_err(failed)? {
        true => copy(path, version).map(Some),
        false => Ok(None),
    };
    match copied {
        Ok(Some(copy)) => {
            let copy = copy.display();
            tracing::info!(%copy, schema = version, "a copy of the database is kept before its schema is updated");
            prune(path, version).map_err(failed)?;
        }
        Ok(None) | Err(StoreError::Full(_)) => {
            tracing::warn!(
                database = %path.display(),
                schema = version,
                "there is no room for a copy of the database before its schema is updated; free some space, and make \
                 a backup before the next upgrade"
            );
        }
        Err(error) => return Err(error),
    }
    Ok(Some(lock))
}

/// Returns whether there are rows that steps of the schema could spoil.
fn is_due(driver: &mut SqliteDriver) -> Result<bool, StoreError> {
    Ok((1..schema::KNOWN).contains(&migrate::version(driver)?))
}

/// Returns whether the disk has room for a copy, and for the server after that.
fn has_room(path: &Path) -> io::Result<bool> {
    let bytes = |path: &Path| fs::metadata(path).map_or(0, |found| found.len());
    let needed = bytes(path).saturating_add(bytes(&beside(path, "-wal"))).saturating_add(SPARE_BYTES);
    let disk = statvfs(directory(path))?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize) >= needed)
}

/// Writes the copy and checks it.
fn copy(path: &Path, version: i64) -> Result<PathBuf, StoreError> {
    let copy = kept_copy(path, version);
    let new = beside(&copy, ".new");
    let written = (|| {
        let failed = |error: io::Error| StoreError::other(&new, error);
        // Left by a start that was interrupted.
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => snapshot(path, &new)?,
        }
        examine(&new, version)?;
        hand_over(&new, path).map_err(failed)?;
        let synced = File::open(&new).and_then(|file| file.sync_all());
        synced.and_then(|()| fs::rename(&new, &copy)).map_err(failed)?;
        File::open(directory(path)).and_then(|directory| directory.sync_all()).map_err(failed)
    })();
    written.map(|()| copy).inspect_err(|_| drop(fs::remove_file(&new)))
}

/// Checks that a copy is intact and has the expected schema.
fn examine(copy: &Path, version: i64) -> Result<(), StoreError> {
    let mut driver = SqliteDriver::open_to_read(copy, Duration::ZERO)?;
    let found = migrate::version(&mut driver)?;
    if found != version {
        return Err(driver.corrupt(format!("the copy has schema version {found} instead of {version}")));
    }
    match one(&mut driver, "PRAGMA quick_check(1)", &[], |row| Ok(row.text(0)?.to_owned()))? {
        Some(found) if found == "ok" => Ok(()),
        found => Err(driver.corrupt(found.unwrap_or_default())),
    }
}

/// Gives a copy that root has made to the owner of the database.
fn hand_over(copy: &Path, database: &Path) -> io::Result<()> {
    let (made, owner) = (fs::metadata(copy)?, fs::metadata(database)?);
    match made.uid() == 0 && owner.uid() != 0 {
        true => chown(copy, Some(owner.uid()), Some(owner.gid())),
        false => Ok(()),
    }
}

/// Removes the oldest copies. The one of `version` is new.
fn prune(path: &Path, version: i64) -> io::Result<()> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Ok(()) };
    let start = format!("{name}{BEFORE}");
    let mut versions: Vec<i64> = Vec::new();
    for entry in fs::read_dir(directory(path))? {
        let found = entry?.file_name();
        versions.extend(found.to_str().and_then(|found| found.strip_prefix(&start)?.parse::<i64>().ok()));
    }
    versions.retain(|found| *found != version);
    versions.sort_unstable();
    let older = versions.len().saturating_sub(MOST - 1);
    versions.iter().take(older).try_for_each(|version| fs::remove_file(kept_copy(path, *version)))
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    PathBuf::from(name)
}

/// The part of a copy's name between that of the database and the version.
const BEFORE: &str = ".schema-";
/// The most copies of one database.
const MOST: usize = 2;
/// The space that has to stay free beside a copy, in bytes: with less, a small disk is full.
const SPARE_BYTES: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::transactions::Transactions;
    use std::fs::TryLockError;

    /// Another start would copy the updated file under the name of the older schema.
    #[test]
    fn others_wait_until_the_schema_is_updated() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rookery.db");
        super::super::open(&path, &super::super::SqliteOptions::default()).expect("a new database").close();
        let mut driver = SqliteDriver::open(&path, Duration::ZERO).expect("the database");
        driver.begin_write(0).expect("a transaction");
        driver.run(&format!("PRAGMA user_version = {}", schema::KNOWN - 1)).expect("an older schema");
        driver.commit().expect("written");
        let lock = keep(&path, &mut driver).expect("a copy");
        assert!(lock.is_some() && kept_copy(&path, schema::KNOWN - 1).exists());
        let other = File::open(folder.path()).expect("the folder");
        assert!(matches!(other.try_lock(), Err(TryLockError::WouldBlock)));
        drop(lock);
        assert!(other.try_lock().is_ok());
    }

    #[test]
    fn the_latest_copies_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let database = folder.path().join("rookery.db");
        for version in [3, 9, 10, 11] {
            fs::write(kept_copy(&database, version), "").expect("a copy");
        }
        fs::write(folder.path().join("rookery.db.schema-mine"), "").expect("the operator's own file");
        prune(&database, 10).expect("pruned");
        let mut left: Vec<_> = fs::read_dir(folder.path())
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
            .collect();
        left.sort();
        assert_eq!(left, ["rookery.db.schema-10", "rookery.db.schema-11", "rookery.db.schema-mine"]);
    }
}
