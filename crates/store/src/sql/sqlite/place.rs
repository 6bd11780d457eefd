//! The place of a database: its directory and file, created so that only the server can read them.

use crate::StoreError;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Returns the directory of a database file.
pub(super) fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes sure that SQLite can create its log next to the database; otherwise it would only report
/// that it is "unable to open" the file.
pub(super) fn prepare_directory(path: &Path) -> Result<(), StoreError> {
    let directory = directory(path);
    let refused = |error: io::Error| StoreError::Directory { path: directory.into(), reason: error.to_string() };
    // The database holds data from which passwords can be guessed, so only this user may read it.
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(refused)?;
    probe(directory).map_err(refused)
}

/// Returns an error if no files can be created in a directory, by creating one: permissions alone
/// aren't conclusive (read-only mounts, quotas, ACLs).
pub(super) fn probe(directory: &Path) -> io::Result<()> {
    let probe = directory.join(format!(".rookery-probe-{}", std::process::id()));
    fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&probe)?;
    fs::remove_file(&probe)
}

/// Creates the file so that only its owner can read it; SQLite gives its log the same permissions.
pub(super) fn prepare_file(path: &Path) -> Result<(), StoreError> {
    let created = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match created {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(StoreError::Directory { path: directory(path).into(), reason: error.to_string() })
        }
        _ => Ok(()),
    }
}
