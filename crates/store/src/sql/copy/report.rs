//! Reports on a copy or a comparison: its progress, its result, its failure.

use std::fmt;

use crate::StoreError;

/// Tells how far a copy or a comparison is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The part of the work.
    pub phase: CopyPhase,
    /// The table.
    pub table: &'static str,
    /// Rows of all tables that are done.
    pub rows: u64,
    /// Rows of all tables.
    pub of: u64,
}

/// A part of the work, which goes along all rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopyPhase {
    /// They are copied.
    Copying,
    /// Rows that have changed in the source since they were copied are brought up to date.
    Mending,
    /// Both sides are compared.
    Comparing,
}

/// The reason why a copy ended before its time.
#[derive(Debug)]
pub enum CopyError {
    /// The destination has rows of its own, in this table.
    NotEmpty(&'static str),
    /// The database that is copied from.
    From(StoreError),
    /// The database that is copied to.
    To(StoreError),
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CopyError::NotEmpty(table) => write!(f, "the destination isn't empty: there are rows in its table {table}"),
            CopyError::From(error) => write!(f, "the source: {error}"),
            CopyError::To(error) => write!(f, "the destination: {error}"),
        }
    }
}

impl std::error::Error for CopyError {}

/// The two sides of a table, compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// The table.
    pub table: &'static str,
    /// The source's rows, and the SHA-256 over all of them in hexadecimal.
    pub from: (u64, String),
    /// The destination's.
    pub to: (u64, String),
    /// The key of the first row that the two don't have in common.
    pub difference: Option<String>,
}

impl Compared {
    /// Returns whether both sides have the same rows.
    pub fn is_same(&self) -> bool {
        self.from == self.to
    }
}
