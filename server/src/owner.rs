//! Files that root creates for the server, which runs as another user and couldn't write them.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::Path;

use crate::failure::CommandFailure;

/// A user and group, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// The number of the user.
    pub user: u32,
    /// The number of the group.
    pub group: u32,
}

impl Owner {
    /// Returns the owner of a folder in which root acts for another user; `None` if the files that
    /// this process creates there belong to the folder's owner anyway.
    pub fn behind_root(folder: &Path) -> Option<Owner> {
        let found = fs::metadata(folder).ok().filter(|found| found.uid() != 0)?;
        rustix::process::geteuid().is_root().then(|| Owner { user: found.uid(), group: found.gid() })
    }

    /// Makes this user and group the owner of a file, or of a folder and everything in it. Links
    /// aren't followed.
    ///
    /// # Errors
    ///
    /// [`CommandFailure::Failed`] with the path whose owner can't be changed.
    pub fn take(self, path: &Path) -> Result<(), CommandFailure> {
        let taken = || -> io::Result<()> {
            lchown(path, Some(self.user), Some(self.group))?;
            if !fs::symlink_metadata(path)?.is_dir() {
                return Ok(());
            }
            fs::read_dir(path)?.try_for_each(|entry| {
                self.take(&entry?.path()).map_err(|failure| io::Error::other(failure.to_string()))
            })
        };
        taken().map_err(|error| CommandFailure::file(path, &error))
    }
}
