//! The choices of an operator for a database.

use crate::sql::{Bounds, Migrations};
use std::time::Duration;

/// Says how a database is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bounds what may wait.
    pub bounds: Bounds,
    /// How long an operation waits for another process that holds the database. Everybody behind it waits as long.
    pub lock_wait: Duration,
    /// How large the database may grow, in bytes; further writes fail with [`StoreError::Full`](crate::StoreError::Full).
    pub max_bytes: Option<u64>,
    /// Memory for pages of the file, in bytes. A message of an archive touches a page of its owner: if those of all owners
    /// who write don't fit, each is read again for each group of messages.
    pub cache_bytes: usize,
    /// When the schema may change.
    pub migrations: Migrations,
    /// Undoes every write once and runs it again, as an engine does that lets another connection go first: for tests that operations
    /// can be run again.
    pub contested: bool,
}

impl Default for Options {
    /// Two seconds for locks, no limit of the size, 64 MiB of cache.
    fn default() -> Options {
        Options {
            bounds: Bounds::default(),
            lock_wait: Duration::from_secs(2),
            max_bytes: None,
            cache_bytes: 64 << 20,
            migrations: Migrations::Auto,
            contested: false,
        }
    }
}
