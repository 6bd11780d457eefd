//! Reports on a copy or a comparison: its progress, its result, its failure.

use std::fmt;

use crate::StoreError;

/// The progress of a copy or a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The part of the work.
    pub phase: CopyPhase,
    /// The name of the table that is being worked on.
    pub table: &'static str,
    /// The number of finished rows of all tables.
    pub rows: u64,
    /// The number of rows of all tables.
    pub of: u64,
}

/// A part of the work, which covers all rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopyPhase {
    /// Rows are copied.
    Copying,
    /// Rows that have changed in the source since they were copied are updated.
    Mending,
    /// Both sides are compared.
    Comparing,
}

/// The reason why a copy ended early.
#[derive(Debug)]
pub enum CopyError {
    /// The destination has other data, in this table.
    NotEmpty(&'static str),
    /// An error of the database that is copied from.
    From(StoreError),
    /// An error of the database that is copied to.
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

/// The result of comparing a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// The name of the compared table.
    pub table: &'static str,
    /// The source's rows, and the SHA-256 over all of them in hexadecimal.
    pub from: (u64, String),
    /// The destination's rows, and the SHA-256 over all of them in hexadecimal.
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
