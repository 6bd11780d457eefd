//! The reasons why store operations fail, as texts for the operator: the fault, and the remedy.

use std::fmt;
use std::path::{Path, PathBuf};

use rookery_base::date;
use serde::{Deserialize, Serialize};

/// The reason why an operation failed. The operation has changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoreError {
    /// The owner isn't an account, which is the caller's mistake.
    NoAccount,
    /// Too many operations wait; this one wasn't queued.
    Busy,
    /// The store was shut down.
    Closed,
    /// The code of the caller or of the store panicked in the operation; the store continues.
    Panicked(String),
    /// There is no room left: on the disk, in a quota, or within the configured size.
    Full(EngineWords),
    /// Another process held the database for longer than the store waits.
    Locked(EngineWords),
    /// Other connections repeatedly changed the same rows at the same time.
    Conflict(EngineWords),
    /// The connection to the database was lost, or can't be made. If the operation was being
    /// committed at that moment, it may have taken effect.
    Lost(EngineWords),
    /// The database can be read but not written.
    ReadOnly(EngineWords),
    /// The file is damaged, or no database at all.
    Corrupt(EngineWords),
    /// The operating system failed to read or write.
    Io(EngineWords),
    /// The database was written by a newer version of this server.
    TooNew {
        /// The file of the database.
        database: PathBuf,
        /// The version of its schema.
        found: i64,
        /// The oldest version that a server must know to use it.
        runs_from: i64,
        /// The newest schema that this server knows.
        known: i64,
    },
    /// The schema is older than this server's, and this server may not change it.
    OldSchema {
        /// The file of the database, or the address of its server.
        database: String,
        /// The version of its schema, 0 for none.
        found: i64,
        /// The version that this server needs.
        known: i64,
    },
    /// A copy to this database was begun and not finished.
    Unfinished(String),
    /// The database belongs to another program.
    Foreign(PathBuf),
    /// The database can't keep the promises of this store because of its settings, its version or
    /// its schema.
    Unfit(EngineWords),
    /// The directory of the database is missing or can't be written.
    Directory {
        /// The directory.
        path: PathBuf,
        /// The operating system's reason.
        reason: String,
    },
    /// Anything else that the engine reported.
    Other(EngineWords),
    /// Others have taken over from this process: it must not write any more.
    Fenced(EngineWords),
    /// There is no database file of this name, where one is only read.
    Missing(PathBuf),
    /// The database couldn't be reached for longer than the operation could wait.
    Away {
        /// The reason why it can't be reached.
        engine: EngineWords,
        /// The time since which it can't, in milliseconds since 1970.
        since_ms: u64,
    },
}

/// A message of the storage engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineWords {
    /// The database: a file, or the address of a server.
    pub database: String,
    /// The engine's report of the fault, in its own language.
    pub message: String,
}

impl StoreError {
    /// Returns the error for anything else that went wrong with a database file.
    pub(crate) fn other(database: &Path, error: impl fmt::Display) -> StoreError {
        StoreError::Other(EngineWords { database: database.display().to_string(), message: error.to_string() })
    }

    /// Returns the engine's words, if it has said any.
    pub(crate) fn words_mut(&mut self) -> Option<&mut EngineWords> {
        match self {
            StoreError::Full(engine)
            | StoreError::Locked(engine)
            | StoreError::Conflict(engine)
            | StoreError::Lost(engine)
            | StoreError::ReadOnly(engine)
            | StoreError::Corrupt(engine)
            | StoreError::Io(engine)
            | StoreError::Unfit(engine)
            | StoreError::Other(engine)
            | StoreError::Fenced(engine)
            | StoreError::Away { engine, .. } => Some(engine),
            _ => None,
        }
    }

    /// Returns what went wrong, without the database and the remedy.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(crate) fn message(&self) -> String {
        let mut error = self.clone();
        match error.words_mut() {
            Some(engine) => std::mem::take(&mut engine.message),
            None => error.to_string(),
        }
    }

    /// Returns whether the operation should be run again at once: it failed only because others
    /// interfered.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, StoreError::Conflict(_))
    }

    /// Returns whether the store was only unavailable: nothing is wrong with the operation or with
    /// its data, and the same one should be tried again later. Every other error is a refusal.
    pub fn is_outage(&self) -> bool {
        matches!(
            self,
            StoreError::Busy
                | StoreError::Away { .. }
                | StoreError::Locked(_)
                | StoreError::Conflict(_)
                | StoreError::Lost(_)
                | StoreError::Io(_)
                // For example while one host takes over from another.
                | StoreError::ReadOnly(_)
                // The nodes that have taken over can do it.
                | StoreError::Fenced(_)
        )
    }

    /// Returns whether the same operation may succeed later, when the store is available again or
    /// an operator has made room: a sender should then be told to wait, not that the stanza can't
    /// be processed (RFC 6120 §8.3.3).
    pub fn is_temporary(&self) -> bool {
        self.is_outage() || matches!(self, StoreError::Closed | StoreError::Full(_))
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::NoAccount => f.write_str("there is no such account"),
            StoreError::Busy => f.write_str(
                "too many storage operations are waiting: the database or its disk is too slow for the traffic; check \
                 their load and latency, or raise the limit of the queue if these are short bursts",
            ),
            StoreError::Closed => f.write_str("the store is shut down"),
            StoreError::Panicked(what) => {
                write!(f, "a storage operation panicked ({what}); nothing was changed; please report this as a bug")
            }
            StoreError::Full(engine) => write!(
                f,
                "no room for the database {engine}; free space on its disk, or raise the disk quota or the configured \
                 size limit; writes succeed again as soon as there is room"
            ),
            StoreError::Locked(engine) => write!(
                f,
                "another process holds the database {engine}; find it (`fuser` names that of a file, pg_stat_activity \
                 that of a server) and stop it: a backup or an open SQL shell is the usual cause"
            ),
            StoreError::Conflict(engine) => write!(
                f,
                "other connections kept changing the same rows of the database {engine}; the operation was given up \
                 after several attempts; find out what else writes to this database"
            ),
            StoreError::Lost(engine) => {
                write!(f, "the database {engine} can't be reached; check that its server runs and accepts connections")
            }
            StoreError::ReadOnly(engine) => write!(
                f,
                "the database can't be written: {engine}; give the server's user write permission on the file and on \
                 its directory, and check that the disk isn't mounted read-only, or the database's server a replica"
            ),
            StoreError::Corrupt(engine) => write!(
                f,
                "the database is damaged: {engine}; stop the server and restore a backup; if the database is a file of \
                 SQLite, keep a copy of it together with its -wal file first, from which the `.recover` command of the \
                 sqlite3 shell may get more"
            ),
            StoreError::Io(engine) => write!(
                f,
                "the operating system failed on the database {engine}; check the kernel log for disk errors, the \
                 permissions, and the limit of open files"
            ),
            StoreError::TooNew { database, found, runs_from, known } => write!(
                f,
                "the database {} has schema version {found}, for servers that know version {runs_from} at least; this \
                 server knows versions up to {known}: it was written by a newer server; start that one, or restore the \
                 backup from before the upgrade",
                database.display()
            ),
            StoreError::OldSchema { database, found, known } => write!(
                f,
                "the database {database} has schema version {found}, this server needs {known}, and `migrate` in [store] is \
                 \"never\": run `rookery store migrate` as a user who may change its tables (`--sql` prints the statements)"
            ),
            StoreError::Unfinished(database) => write!(
                f,
                "a copy to the database {database} was interrupted: run the same `rookery store copy` or `rookery restore` again \
                 to finish it"
            ),
            StoreError::Foreign(database) => write!(
                f,
                "{} is a database of another program; set a different one in the configuration",
                database.display()
            ),
            StoreError::Unfit(engine) => write!(f, "the database can't be used as it is: {engine}"),
            StoreError::Directory { path, reason } => write!(
                f,
                "the directory {} for the database can't be used: {reason}; create it and give the server's user \
                 write permission on it, or set a different one in the configuration",
                path.display()
            ),
            StoreError::Other(engine) => write!(f, "the database failed: {engine}"),
            StoreError::Fenced(engine) => write!(
                f,
                "the database {engine} refuses further writes of this process, which was silent for too long: other nodes \
                 have taken over; find out why it was stalled or cut off, and start it again"
            ),
            StoreError::Missing(file) => {
                write!(f, "there is no database {}: name one that exists", file.display())
            }
            StoreError::Away { engine, since_ms } => write!(
                f,
                "the database {engine} has been unreachable since {}; check that its server runs and accepts connections",
                date::timestamp(*since_ms)
            ),
        }
    }
}

impl std::error::Error for StoreError {}

impl fmt::Display for EngineWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.database, self.message)
    }
}
