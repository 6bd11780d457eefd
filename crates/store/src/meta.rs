//! The server's own few settings, such as the secret behind the salts of unknown accounts, and its
//! lists, such as that of administrators.
//!
//! Each entry of a list is a separate row, so concurrent changes of different entries don't undo
//! each other.

use crate::pending::ready;
use crate::{Pending, StoreError};
use rookery_observe::Histogram;
use std::time::Duration;

/// The key of a text that a process changes before and after it writes data of accounts while a
/// server is running, as an import does. A server that has read the same text twice has missed
/// nothing in between.
pub const WRITTEN_BESIDE: &str = "written-beside";

/// The settings and lists.
pub trait Meta: Send + Sync {
    /// Returns the bytes under a key.
    fn get(&self, key: &str) -> Pending<Option<Vec<u8>>>;

    /// Stores bytes under a key, in place of earlier ones.
    fn put(&self, key: &str, bytes: Vec<u8>) -> Pending<()>;

    /// Returns the entries of a list with their bytes, by name.
    fn entries(&self, list: &str) -> Pending<Vec<(String, Vec<u8>)>>;

    /// Puts an entry into a list, in place of one of that name.
    fn put_entry(&self, list: &str, name: &str, bytes: Vec<u8>) -> Pending<()>;

    /// Puts a new entry into a list that has fewer than `most`.
    fn add_entry(&self, list: &str, name: &str, bytes: Vec<u8>, most: usize) -> Pending<Added>;

    /// Removes an entry from a list. Returns `false` if there was none of that name.
    fn remove_entry(&self, list: &str, name: &str) -> Pending<bool>;

    /// Replaces an entry that has these bytes, or removes it. Returns `false` and changes nothing
    /// if no entry of that name has them.
    fn replace_entry(&self, list: &str, name: &str, before: Vec<u8>, after: Option<Vec<u8>>) -> Pending<bool>;

    /// Replaces all entries of a list.
    fn set_entries(&self, list: &str, entries: Vec<(String, Vec<u8>)>) -> Pending<()>;

    /// Makes the engine analyse the data, so that it finds the best plans after many writes.
    /// Engines that do so by themselves do nothing.
    fn look_over(&self) -> Pending<()> {
        ready(Ok(()))
    }

    /// Returns the reason why the store can't write at present, if writes have failed. It may still
    /// be able to read.
    fn trouble(&self) -> Option<StoreError> {
        None
    }

    /// Returns the store's counts since it was opened, for the metrics.
    fn activity(&self) -> Activity {
        Activity::default()
    }

    /// Returns the times of each statement since the store was opened, the statements that have
    /// taken most time first; empty for a store without statements.
    fn statement_times(&self) -> Vec<StatementTimes> {
        Vec::new()
    }

    /// Returns the number of logins that may be in progress at a time: more would only wait for
    /// each other, and keep other operations waiting.
    fn logins_at_once(&self) -> usize {
        usize::MAX
    }
}

/// Counts of a store's operations, and the age of the oldest one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// The time that the oldest unfinished operation has waited.
    pub waiting: Duration,
    /// Operations that wait or run.
    pub operations: usize,
    /// The number of bytes that these operations carry, such as stanzas to write.
    pub bytes: usize,
    /// The number of open connections to the database.
    pub connections: usize,
    /// The number of batches and operations that were run again because others interfered or the
    /// connection was lost.
    pub retries: u64,
    /// The number of connections that replaced lost ones.
    pub reconnects: u64,
    /// The number of operations that were refused because the database was unavailable for too
    /// long.
    pub given_up: u64,
    /// The time since which the database can't be reached, in milliseconds since 1970.
    pub away_since_ms: Option<u64>,
}

/// The times that a statement of a store has taken.
#[derive(Clone, Debug)]
pub struct StatementTimes {
    /// Its text in one line, without values.
    pub sql: String,
    /// In nanoseconds, from the call to the last row.
    pub times: Histogram,
}

/// The outcome of [`Meta::add_entry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// The entry is stored.
    Done,
    /// There already is an entry of that name.
    Exists,
    /// The list has reached its limit.
    Full,
}
