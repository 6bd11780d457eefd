//! Fills the tables of a destination with the rows of a source.

use super::catalogue::{COUNTERS, MESSAGES, Table, tables};
use super::cells::{Cell, RowCells};
use super::copying::{Copying, UNNUMBERED};
use super::report::{CopyError, CopyPhase, Progress};
use super::rows::{count, insert, last_key, page};
use crate::StoreError;
#[cfg(any(feature = "postgres", feature = "mysql"))]
use crate::sql::archive::months::make_behind;
#[cfg(any(feature = "postgres", feature = "mysql"))]
use crate::sql::connection::one;

/// Copies the rows of some tables that the destination lacks: those after the last one of each. The
/// source has `of` rows in all tables.
pub(super) fn fill(
    tables: &'static [Table],
    from: &mut dyn Copying,
    to: &mut dyn Copying,
    tell: &mut dyn FnMut(Progress),
    of: u64,
) -> Result<(), CopyError> {
    let mut rows = 0;
    for table in tables {
        let mut last = last_key(to, table).map_err(CopyError::To)?;
        if last.is_some() {
            rows += count(to, table).map_err(CopyError::To)?;
        } else if table.name == MESSAGES {
            make_months(from, to)?;
        }
        loop {
            tell(Progress { phase: CopyPhase::Copying, table: table.name, rows, of });
            let portion = page(from, table, last.as_deref()).map_err(CopyError::From)?;
            let Some(newest) = portion.last() else { break };
            last = Some(table.key_of(newest).to_vec());
            put(to, table, &portion).map_err(CopyError::To)?;
            rows += portion.len() as u64;
        }
    }
    Ok(())
}

/// Creates the months of the copied messages, if the destination's archives are divided.
#[cfg(any(feature = "postgres", feature = "mysql"))]
fn make_months(from: &mut dyn Copying, to: &mut dyn Copying) -> Result<(), CopyError> {
    let Some(months) = to.months() else { return Ok(()) };
    if months.parts().map_err(CopyError::To)?.is_empty() {
        return Ok(());
    }
    let oldest = one(from, OLDEST, &[], |row| row.optional_integer(0)).map_err(CopyError::From)?.flatten();
    let oldest = oldest.and_then(|oldest| u64::try_from(oldest).ok());
    oldest.map_or(Ok(()), |oldest| make_behind(months, oldest)).map_err(CopyError::To)
}

#[cfg(not(any(feature = "postgres", feature = "mysql")))]
fn make_months(_: &mut dyn Copying, _: &mut dyn Copying) -> Result<(), CopyError> {
    Ok(())
}

/// Writes a portion, completely or not at all.
pub(super) fn put(to: &mut dyn Copying, table: &'static Table, portion: &[RowCells]) -> Result<(), StoreError> {
    to.begin_write(UNNUMBERED)?;
    insert(to, table, portion)?;
    to.derive(table, portion)?;
    to.commit()
}

/// Copies the data of the server as a whole, and removes the mark.
pub(super) fn end(from: &mut dyn Copying, to: &mut dyn Copying) -> Result<(), CopyError> {
    to.begin_write(UNNUMBERED).map_err(CopyError::To)?;
    for table in tables() {
        if table.name == COUNTERS {
            let counters = page(from, table, None).map_err(CopyError::From)?;
            to.execute(&table.texts.clear, &[]).map_err(CopyError::To)?;
            insert(to, table, &counters).map_err(CopyError::To)?;
        } else if table.is_numbered {
            let given = from.last_number(table).map_err(CopyError::From)?;
            let last = last_key(to, table).map_err(CopyError::To)?;
            let last = last.and_then(|key| key.first().map(Cell::integer)).unwrap_or_default();
            to.go_on_above(table, given.max(last)).map_err(CopyError::To)?;
        }
    }
    to.commit().map_err(CopyError::To)?;
    to.look_over().map_err(CopyError::To)
}

/// The oldest message of all, by the oldest of each archive: a search among all messages would read
/// them.
#[cfg(any(feature = "postgres", feature = "mysql"))]
const OLDEST: &str = "\
    SELECT MIN((SELECT m.id FROM archive_messages m WHERE m.owner = a.id ORDER BY m.id LIMIT 1)) FROM archives a";

/// Returns the statement above.
#[cfg(test)]
pub(in crate::sql) fn list_statements() -> Vec<crate::sql::listed::ListedTexts> {
    crate::sql::listed::listed![OLDEST]
}
