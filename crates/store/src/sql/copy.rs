//! Copies a whole database to another one, of the same or of another engine, and compares two.
//!
//! Rows are copied table by table in the order of their keys, a portion in each transaction. The
//! source is read in one transaction, so that the copy reflects one moment, even if others are
//! writing.
//!
//! # Invariants
//!
//! - A copy goes to an empty database, or to one where the same copy was interrupted: existing
//!   data is never mixed with it.
//! - A database with an unfinished copy is marked, and no server starts on it. The mark is removed
//!   when both were compared and are equal.
//! - An interrupted copy continues after the last key of each table. If the two are still different
//!   then, because the source was written to, the differences are repaired.
//! - A lost connection is replaced, and the copy continues with the new one.
//!
//! # Layout
//!
//! `catalogue` has the tables with their statements, `cells` the values of rows, `rows` reads and
//! inserts them, `mark` identifies an unfinished copy, `copying` is each engine's own part, `end` a
//! database that is copied from or to. `course` directs a copy through all interruptions: `filling`
//! copies rows, `mending` updates those that have changed since, `comparing` compares,
//! `reconnecting` restores a lost connection. `report` describes progress, result and failure.

pub(super) mod catalogue;
pub(super) mod cells;
mod comparing;
pub(super) mod copying;
mod course;
mod end;
pub(super) mod filling;
pub(super) mod mark;
mod mending;
mod reconnecting;
mod report;
mod rows;

use super::slots::FILLED;
use crate::StoreError;
use catalogue::{SLOTS, tables};
use cells::{Cell, RowCells};
use comparing::{RowReader, compare_tables};
use copying::UNNUMBERED;
use course::Course;
pub use end::{CopyEnd, EndAddress};
use reconnecting::Reconnecting;
pub use report::{Compared, CopyError, CopyPhase, Progress};
use rows::{count, page, total};

/// Copies everything to an empty database, or continues an interrupted copy, and then compares the
/// two, with the source as it was when the copy began. A lost connection is replaced; if it was the
/// source's, the copy is of a later moment.
///
/// # Errors
///
/// [`CopyError::NotEmpty`] if it has other data, otherwise the error of either engine; one that is
/// unavailable is reported after ten minutes. Copied data stays, and the copy can be run again.
pub fn copy(
    from: &mut CopyEnd,
    to: &mut CopyEnd,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<Compared>, CopyError> {
    Course::begin(from.connection(), to.connection(), progress)?.run()
}

/// Removes everything from a database except its schema.
///
/// # Errors
///
/// The error of the engine; nothing is removed then.
pub fn clear(database: &mut CopyEnd) -> Result<(), StoreError> {
    Reconnecting::to_write().persist(database.connection(), |database| {
        database.begin_write(UNNUMBERED)?;
        for table in tables().iter().rev() {
            database.execute(&table.texts.clear, &[])?;
        }
        database.clear_derived()?;
        // The initial content of a new database.
        database.execute(FIRST_VERSION, &[])?;
        database.commit()
    })
}

/// Counts the rows of all tables.
///
/// # Errors
///
/// The error of the engine.
pub fn counts(database: &mut CopyEnd) -> Result<Vec<(&'static str, u64)>, StoreError> {
    let database = database.connection();
    database.begin_read()?;
    let counted = tables().iter().map(|table| Ok((table.name, count(database, table)?))).collect();
    database.rollback();
    counted
}

/// Passes the token of every upload slot with a file to `each`.
///
/// # Errors
///
/// The error of the engine.
pub fn uploads(database: &mut CopyEnd, each: &mut dyn FnMut(&str)) -> Result<(), StoreError> {
    let slots = tables().iter().filter(|table| table.name == SLOTS);
    let database = database.connection();
    for table in slots {
        let mut last: Option<RowCells> = None;
        loop {
            let portion = page(database, table, last.as_deref())?;
            let Some(newest) = portion.last() else { break };
            last = Some(table.key_of(newest).to_vec());
            for slot in &portion {
                if let (Some(Cell::Text(token)), Some(Cell::Integer(FILLED))) = (slot.first(), slot.last()) {
                    each(token);
                }
            }
        }
    }
    Ok(())
}

/// Compares two databases without writers, table by table. If a connection is lost, the comparison
/// continues over a new one.
///
/// # Errors
///
/// The errors of either engine. If one is unavailable, the comparison waits for it up to ten
/// minutes.
pub fn compare(
    from: &mut CopyEnd,
    to: &mut CopyEnd,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<Compared>, CopyError> {
    let mut from = RowReader::at_rest(from.connection()).map_err(CopyError::From)?;
    let mut to = RowReader::at_rest(to.connection()).map_err(CopyError::To)?;
    let of = from.read(|c| total(c)).map_err(CopyError::From)?;
    compare_tables(tables(), &mut from, &mut to, progress, (0, of))
}

const FIRST_VERSION: &str = "INSERT INTO counters (name, value) VALUES ('next_roster_version', 1)";

#[cfg(test)]
mod tests;

/// Returns the statement above.
#[cfg(test)]
pub(in crate::sql) fn list_statements() -> Vec<crate::sql::listed::ListedTexts> {
    crate::sql::listed::listed![FIRST_VERSION]
}
