//! An operator's choices for a database.

use crate::sql::{Migrations, QueueBounds};
use std::time::Duration;

/// The options for opening a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqliteOptions {
    /// The bounds of the queue.
    pub bounds: QueueBounds,
    /// The time that an operation waits for another process that holds the database. All later
    /// operations wait as long. The maximum is the ten minutes of a command, whose operator is
    /// informed after ten seconds: see [`tell_waits`](super::tell_waits).
    pub lock_wait: Duration,
    /// The most bytes of the database; further writes fail with
    /// [`StoreError::Full`](crate::StoreError::Full).
    pub max_bytes: Option<u64>,
    /// The bytes of the cache of pages. Four times as much saves a busy server a fifth of its
    /// reads, but no measurable CPU, since the system caches the pages, too.
    pub cache_bytes: usize,
    /// The occasion on which the schema may change.
    pub migrations: Migrations,
    /// True if a copy of the file is kept before its schema changes.
    pub keeps_copy: bool,
    /// Undoes every write once and runs it again, as an engine does that gives another connection
    /// priority: for tests that operations can be run again.
    pub contested: bool,
}

impl SqliteOptions {
    /// Returns the options of a command, which an operator would only have to repeat: it waits for
    /// ten minutes.
    pub fn of_commands() -> SqliteOptions {
        SqliteOptions { lock_wait: super::waiting::OF_COMMANDS, ..SqliteOptions::default() }
    }
}

impl Default for SqliteOptions {
    /// Returns two seconds for locks, no limit of the size, 16 MiB of cache.
    fn default() -> SqliteOptions {
        SqliteOptions {
            bounds: QueueBounds::default(),
            lock_wait: Duration::from_secs(2),
            max_bytes: None,
            cache_bytes: 16 << 20,
            migrations: Migrations::Auto,
            keeps_copy: true,
            contested: false,
        }
    }
}
