//! Files that root creates for the server, which runs as another user and couldn't write them.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::Path;

use crate::failure::CommandFailure;
use crate::loaded::SERVICE_DATA;

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

    /// Returns whether root acts in a folder of its own, where no other user could run a server.
    pub fn is_root(folder: &Path) -> bool {
        let is_its = fs::metadata(folder).is_ok_and(|found| found.uid() == 0);
        is_its && rustix::process::geteuid().is_root()
    }

    /// Returns the user for whom root has just created a folder: the owner of the folder around it
    /// or, for the data of the service, the service's user. `None` if it stays root's.
    ///
    /// # Errors
    ///
    /// [`CommandFailure::Failed`] if the users of this machine can't be read.
    pub fn of_new(folder: &Path) -> Result<Option<Owner>, CommandFailure> {
        let around = folder.parent().and_then(Owner::behind_root);
        match folder == Path::new(SERVICE_DATA) && rustix::process::geteuid().is_root() {
            true if around.is_none() => Owner::of_service(),
            _ => Ok(around),
        }
    }

    /// Returns the user of this machine that runs the service, if there is one.
    ///
    /// # Errors
    ///
    /// [`CommandFailure::Failed`] if the users of this machine can't be read.
    pub fn of_service() -> Result<Option<Owner>, CommandFailure> {
        let users = fs::read_to_string(USERS).map_err(|error| CommandFailure::file(Path::new(USERS), &error))?;
        Ok(users.lines().find_map(of_line))
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

/// Parses a line of `/etc/passwd`, if it is the service's user.
fn of_line(line: &str) -> Option<Owner> {
    let mut fields = line.split(':');
    let name = fields.next()?;
    let (user, group) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
    (name == USER).then_some(Owner { user, group })
}

/// The user that runs the service.
pub const USER: &str = "rookery";
const USERS: &str = "/etc/passwd";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_found_by_its_name() {
        assert_eq!(
            of_line("rookery:x:991:985::/var/lib/rookery:/usr/sbin/nologin"),
            Some(Owner { user: 991, group: 985 })
        );
        for other in ["rookery2:x:1:1::/:/bin/sh", "rookery:x:a:1", "rookery", ""] {
            assert_eq!(of_line(other), None, "{other}");
        }
    }
}
