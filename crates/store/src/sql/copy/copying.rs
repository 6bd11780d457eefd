//! The engine's part of a copy.

use super::catalogue::Table;
use super::cells::RowCells;
use crate::StoreError;
#[cfg(any(feature = "postgres", feature = "mysql"))]
use crate::sql::archive::months::Months;
use crate::sql::migrate::Migrating;

/// The part of a copy that each engine does in its own way.
pub(crate) trait Copying: Migrating {
    /// Returns the highest number that the engine has assigned to a row of a table so far, 0 if it
    /// doesn't record that.
    fn last_number(&mut self, table: &'static Table) -> Result<i64, StoreError>;

    /// Makes the engine continue above a number.
    fn go_on_above(&mut self, table: &'static Table, number: i64) -> Result<(), StoreError>;

    /// Derives the engine's additional data from rows that were just inserted.
    fn derive(&mut self, table: &'static Table, rows: &[RowCells]) -> Result<(), StoreError>;

    /// Removes the rows that the engine has derived, together with all others.
    fn clear_derived(&mut self) -> Result<(), StoreError>;

    /// Returns the part that divides archives into months, for an engine that can.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    fn months(&mut self) -> Option<&mut dyn Months> {
        None
    }

    /// Makes an engine that plans by statistics update them once all rows are there.
    fn look_over(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Transactions of a copy have no numbers: if the end of one is unknown, its rows are searched for
/// when the copy continues.
pub(super) const UNNUMBERED: u64 = 0;
