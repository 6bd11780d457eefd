//! The data folder: everything that the server writes.

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::failure::CommandFailure;
use crate::owner::Owner;

/// The data folder and the names in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Creates a reference to a folder, without touching the disk.
    pub fn new(path: PathBuf) -> Folder {
        Folder { path }
    }

    /// Creates the folder, readable only by its owner, unless it exists.
    ///
    /// # Errors
    ///
    /// [`CommandFailure::Unfit`] with the remedy.
    pub fn create(&self) -> Result<(), CommandFailure> {
        if self.path.is_dir() {
            return Ok(());
        }
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.path);
        made.map_err(|error| {
            let path = self.path.display();
            CommandFailure::Unfit(format!(
                "the data folder {path} can't be created: {error}; choose another one with --data-dir, or create it and give it to the server's user"
            ))
        })
    }

    /// Creates the folder for a server. If root does so, the [user](Owner::of_new) that will run
    /// the server becomes its owner, and the owner of the folders above it that had to be created
    /// as well; if that user isn't known, they stay root's.
    ///
    /// # Errors
    ///
    /// As [`Folder::create`], and [`CommandFailure::Failed`] if its owner can't be changed.
    pub fn create_for_server(&self) -> Result<(), CommandFailure> {
        let path = std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone());
        let first = path.ancestors().take_while(|path| !path.exists()).last();
        self.create()?;
        let Some(first) = first else { return Ok(()) };
        Owner::of_new(first)?.map_or(Ok(()), |owner| owner.take(first))
    }

    /// Ensures that the folder exists. Commands never create one: in the wrong place they would
    /// work on an empty database of their own. A server that found their accounts there would
    /// create no administrator.
    ///
    /// # Errors
    ///
    /// [`CommandFailure::Failed`] with the path that was tried.
    pub fn find(&self) -> Result<(), CommandFailure> {
        if self.path.is_dir() {
            return Ok(());
        }
        let path = std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone());
        Err(CommandFailure::Failed(format!(
            "there is no data folder {}: give the server's with --data-dir or ROOKERY_DATA_DIR; if there is no server yet, `rookery` creates the folder at its first start, and an administrator",
            path.display()
        )))
    }

    /// Hands files whose names begin with `start` over to the folder's owner if root has created
    /// them, since the server, which runs as the owner, couldn't write them.
    ///
    /// # Errors
    ///
    /// [`CommandFailure::Failed`] with the path whose owner can't be changed.
    pub fn hand_over(&self, start: &str) -> Result<(), CommandFailure> {
        let Some(owner) = Owner::behind_root(&self.path) else { return Ok(()) };
        let entries = fs::read_dir(&self.path).map_err(|error| CommandFailure::file(&self.path, &error))?;
        let mut paths = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(start));
        paths.try_for_each(|entry| owner.take(&entry.path()))
    }

    /// Ensures that no other server uses the folder, for as long as the lock lives.
    ///
    /// # Errors
    ///
    /// [`CommandFailure::Failed`] if one does, or if the lock can't be created;
    /// [`CommandFailure::Unfit`] if the folder isn't writable.
    pub fn lock(&self) -> Result<Lock, CommandFailure> {
        let path = self.path.join(LOCK);
        let failed = |error| CommandFailure::file(&path, &error);
        let mut file =
            fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.as_mut().map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                let path = path.display();
                CommandFailure::Unfit(format!("{path}: {error}; give the data folder to the server's user"))
            }
            _ => CommandFailure::file(&path, error),
        })?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = self.running().map_or(String::new(), |pid| format!(" (process {pid})"));
                return Err(CommandFailure::Failed(format!(
                    "a server{holder} is already running in {}",
                    self.path.display()
                )));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // The lock is what matters: on a full disk, messages only lack the process id.
        let written =
            file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
        if let Err(error) = written {
            tracing::warn!(path = %path.display(), %error, "the process id can't be written to the lock file");
        }
        self.hand_over(LOCK)?;
        Ok(Lock { _file: file.try_clone().map_err(failed)? })
    }

    /// Returns the process id of the server that runs in this folder, as it wrote it; `None` if
    /// none runs.
    pub fn running(&self) -> Option<String> {
        let mut file = File::open(self.path.join(LOCK)).ok()?;
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                file.read_to_string(&mut pid).ok()?;
                Some(pid.trim().to_owned())
            }
            _ => None,
        }
    }

    /// Returns the path of the folder itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the configuration file that is read if no other is named.
    pub fn config(&self) -> PathBuf {
        self.path.join("rookery.toml")
    }

    /// Returns the socket on which the running server answers the command line.
    pub fn control(&self) -> PathBuf {
        self.path.join(CONTROL)
    }

    /// Returns the file of the database.
    pub fn database(&self) -> PathBuf {
        self.path.join("rookery.db")
    }

    /// Returns SQLite's write-ahead log of the database.
    pub fn log_of_database(&self) -> PathBuf {
        self.path.join("rookery.db-wal")
    }

    /// Returns the folder of the files that users have shared.
    pub fn uploads(&self) -> PathBuf {
        self.path.join("uploads")
    }

    /// Returns the file in which sessions wait for the next start.
    pub fn sessions(&self) -> PathBuf {
        self.path.join(SESSIONS)
    }

    /// Returns the file of the self-signed certificate.
    pub fn certificate(&self) -> PathBuf {
        self.path.join("certs/self-signed.pem")
    }

    /// Returns the file of the self-signed certificate's key.
    pub fn key(&self) -> PathBuf {
        self.path.join("certs/self-signed.key")
    }

    /// Returns the file with the chain and key that an authority has issued for a domain, given in
    /// A-labels.
    pub fn issued_file(&self, domain: &str) -> PathBuf {
        self.path.join("certs/acme").join(format!("{domain}.pem"))
    }

    /// Returns the file with the account at the ACME authority.
    pub fn account(&self) -> PathBuf {
        self.path.join("certs/acme/account.toml")
    }

    /// Returns the file with the password of the first account, written if there is no terminal.
    pub fn first_password(&self) -> PathBuf {
        self.path.join("first-password")
    }

    /// Returns the file that exists while a restore moves files into place: no server may start
    /// then.
    pub fn restoring(&self) -> PathBuf {
        self.path.join(RESTORING)
    }

    /// Returns the message that a restore was interrupted, which keeps a server from starting.
    pub fn half_restored(&self) -> String {
        let path = self.path.display();
        format!(
            "a restore into {path} was interrupted: run the same `rookery restore` again before a server starts here"
        )
    }

    /// Returns the folder in which a backup is unpacked.
    pub fn parts(&self) -> PathBuf {
        self.path.join(PARTS)
    }

    /// Returns the name beside which a backup to standard output makes its temporary files.
    pub fn stream_stem(&self) -> PathBuf {
        self.path.join(STREAMED)
    }

    /// Returns the folder into which a restore puts files that belong outside of the data folder.
    pub fn restored_folder(&self) -> PathBuf {
        self.path.join("restored")
    }

    /// Returns the file that keeps a second server out.
    pub fn lock_file(&self) -> PathBuf {
        self.path.join(LOCK)
    }

    /// Returns the file in which a start records its announcements for the next one.
    pub fn state(&self) -> PathBuf {
        self.path.join("state.toml")
    }
}

/// The right to be the only server in a folder. The operating system releases it even if the
/// process is killed.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Writes a file atomically: under a temporary name beside it, then renamed.
///
/// # Errors
///
/// [`CommandFailure::Failed`] with the file's name.
pub fn write(path: &Path, text: &str, mode: u32) -> Result<(), CommandFailure> {
    let beside = path.with_extension("new");
    let written = (|| {
        // A leftover of a crash may have other permissions.
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)
    })();
    written.map_err(|error| CommandFailure::file(path, &error))
}

const LOCK: &str = "rookery.lock";
const RESTORING: &str = "rookery.restoring";
const PARTS: &str = "rookery.parts";
const STREAMED: &str = "rookery.backup";

/// The prefix of the folders to which a restore moves the files that it replaces.
pub const BEFORE: &str = "before-restore-";

/// The beginning of the names of copies of the database from before its schema was updated.
const OLDER: &str = "rookery.db.schema-";

/// Returns whether a backup leaves out an entry of the data folder: it is of no use in another
/// folder, or the backup has its content in another form.
pub fn is_kept_out(name: &str) -> bool {
    KEPT_OUT.contains(&name) || [BEFORE, OLDER].iter().any(|start| name.starts_with(start))
}

/// The names that a backup leaves out.
const KEPT_OUT: &[&str] = &[
    "rookery.db",
    "rookery.db-wal",
    "rookery.db-shm",
    "uploads",
    "events",
    LOCK,
    RESTORING,
    PARTS,
    STREAMED_PARTS,
    CONTROL,
    SESSIONS,
];
/// The folder that an interrupted backup to standard output may leave.
const STREAMED_PARTS: &str = "rookery.backup.parts";
/// The sessions that wait for the next start: a backup leaves them out, since a session may be
/// continued only once.
const SESSIONS: &str = "sessions";
/// The socket of the running server.
const CONTROL: &str = "control";
