//! Copies a whole database to another one, of the same or of another engine, and compares two.
//!
//! Rows go table by table in the order of their keys, a portion in each transaction. The source is read in one transaction, so that the copy is
//! of one moment, whoever writes meanwhile.
//!
//! # Invariants
//!
//! - A copy goes to a database in which nothing is, or to one that the same copy was interrupted in: what is there is never mixed with it.
//! - A database that a copy was begun in and not ended is marked, and no server starts on it. The mark goes with the last rows.
//! - A copy that was interrupted goes on behind the last key of each table.
//!
//! # Layout
//!
//! `catalogue` has the tables with their statements, `rows` reads and inserts rows, `mark` is what an unfinished copy is known by, `copying` what an engine
//! does in its own way, `end` a database that is copied from or to.

pub(super) mod catalogue;
pub(super) mod copying;
mod end;
pub(super) mod mark;
pub(super) mod rows;

use rookery_base::hex;
use std::fmt;

use sha2::{Digest, Sha256};

#[cfg(any(feature = "postgres", feature = "mysql"))]
use super::archive::months::make_behind;
#[cfg(any(feature = "postgres", feature = "mysql"))]
use super::connection::one;
use super::connection::{Connection, Value};
use super::slots::FILLED;
use crate::StoreError;
use catalogue::{COUNTERS, MESSAGES, SLOTS, Table, tables};
use copying::Copying;
pub use end::{Address, End};
use mark::{MARK, SET_MARK, is_unfinished};
use rows::{Cell, Record, count, digest_row, insert, key_words, last_key, page};

/// Tells how far a copy or a comparison is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub phase: Phase,
    /// The table.
    pub table: &'static str,
    /// Rows of all tables that are done.
    pub rows: u64,
    /// Rows of all tables.
    pub of: u64,
}

/// What is done with all rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// They are copied.
    Copying,
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

impl Compared {
    /// Tells whether both sides have the same rows.
    pub fn is_same(&self) -> bool {
        self.from == self.to
    }
}

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

/// Copies everything from one database to another that is empty, or goes on with a copy that was interrupted; then compares the two, with the source as it
/// was when the copy began.
///
/// # Errors
///
/// [`CopyError::NotEmpty`] if there is something else; what either engine says. What was copied stays, and the copy can be run again.
pub fn copy(from: &mut End, to: &mut End, progress: &mut dyn FnMut(Progress)) -> Result<Vec<Compared>, CopyError> {
    let (from, to) = (from.connection(), to.connection());
    begin(to)?;
    from.begin_read().map_err(CopyError::From)?;
    let copied = copy_all(from, to, progress).and_then(|()| {
        to.begin_read().map_err(CopyError::To)?;
        compare_all(from, to, progress)
    });
    from.rollback();
    to.rollback();
    copied
}

/// Removes everything from a database but its schema.
///
/// # Errors
///
/// The error of the engine; nothing is removed then.
pub fn clear(database: &mut End) -> Result<(), StoreError> {
    let database = database.connection();
    database.begin_write(UNNUMBERED)?;
    let cleared = tables().iter().rev().try_for_each(|table| database.execute(&table.texts.clear, &[]).map(drop));
    let cleared = cleared.and_then(|()| database.clear_derived());
    // What a new database begins with.
    let cleared = cleared.and_then(|()| database.execute(FIRST_VERSION, &[]));
    let outcome = cleared.and_then(|_| database.commit());
    if outcome.is_err() {
        database.rollback();
    }
    outcome
}

/// Counts the rows of all tables.
///
/// # Errors
///
/// The error of the engine.
pub fn counts(database: &mut End) -> Result<Vec<(&'static str, u64)>, StoreError> {
    let database = database.connection();
    database.begin_read()?;
    let counted = tables().iter().map(|table| Ok((table.name, count(database, table)?))).collect();
    database.rollback();
    counted
}

/// Shows the token of every slot that has its file.
///
/// # Errors
///
/// The error of the engine.
pub fn uploads(database: &mut End, each: &mut dyn FnMut(&str)) -> Result<(), StoreError> {
    let slots = tables().iter().filter(|table| table.name == SLOTS);
    let database = database.connection();
    for table in slots {
        let mut last: Option<Record> = None;
        loop {
            let portion = page(database, table, last.as_deref())?;
            let Some(newest) = portion.last() else { break };
            last = newest.get(..table.key).map(<[Cell]>::to_vec);
            for slot in &portion {
                if let (Some(Cell::Text(token)), Some(Cell::Integer(FILLED))) = (slot.first(), slot.last()) {
                    each(token);
                }
            }
        }
    }
    Ok(())
}

/// Compares two databases, table by table.
///
/// # Errors
///
/// What either engine says.
pub fn compare(from: &mut End, to: &mut End, progress: &mut dyn FnMut(Progress)) -> Result<Vec<Compared>, CopyError> {
    let (from, to) = (from.connection(), to.connection());
    from.begin_read().map_err(CopyError::From)?;
    to.begin_read().map_err(CopyError::To)?;
    let compared = compare_all(from, to, progress);
    from.rollback();
    to.rollback();
    compared
}

/// Marks an empty database, unless it is marked.
fn begin(to: &mut dyn Copying) -> Result<(), CopyError> {
    to.begin_write(UNNUMBERED).map_err(CopyError::To)?;
    let outcome = mark(to).and_then(|()| to.commit().map_err(CopyError::To));
    if outcome.is_err() {
        to.rollback();
    }
    outcome
}

fn mark(to: &mut dyn Copying) -> Result<(), CopyError> {
    if is_unfinished(to).map_err(CopyError::To)? {
        return Ok(());
    }
    for table in tables().iter().filter(|table| table.name != COUNTERS) {
        if last_key(to, table).map_err(CopyError::To)?.is_some() {
            return Err(CopyError::NotEmpty(table.name));
        }
    }
    to.execute(SET_MARK, &[Value::Text(MARK)]).map(drop).map_err(CopyError::To)
}

fn copy_all(from: &mut dyn Copying, to: &mut dyn Copying, progress: &mut dyn FnMut(Progress)) -> Result<(), CopyError> {
    let of = total(from).map_err(CopyError::From)?;
    let mut rows = 0;
    for table in tables().iter().filter(|table| table.name != COUNTERS) {
        let mut last = last_key(to, table).map_err(CopyError::To)?;
        if last.is_some() {
            rows += count(to, table).map_err(CopyError::To)?;
        } else if table.name == MESSAGES {
            make_months(from, to)?;
        }
        loop {
            progress(Progress { phase: Phase::Copying, table: table.name, rows, of });
            let portion = page(from, table, last.as_deref()).map_err(CopyError::From)?;
            let Some(newest) = portion.last() else { break };
            last = newest.get(..table.key).map(<[Cell]>::to_vec);
            put(to, table, &portion).map_err(CopyError::To)?;
            rows += portion.len() as u64;
        }
    }
    end(from, to)
}

/// Makes the months of the messages that are copied, where the destination's archives are divided.
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

/// Keeps a portion, whole or not at all.
fn put(to: &mut dyn Copying, table: &'static Table, portion: &[Record]) -> Result<(), StoreError> {
    to.begin_write(UNNUMBERED)?;
    insert(to, table, portion)?;
    to.derive(table, portion)?;
    to.commit()
}

/// Takes what counts for the whole server over, and with it the mark away.
fn end(from: &mut dyn Copying, to: &mut dyn Copying) -> Result<(), CopyError> {
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

fn compare_all(
    from: &mut dyn Copying,
    to: &mut dyn Copying,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<Compared>, CopyError> {
    let of = total(from).map_err(CopyError::From)?;
    let mut rows = 0;
    let mut compared = Vec::new();
    for table in tables() {
        let (mut one, mut other) = (Side::of(table), Side::of(table));
        let mut difference = None;
        loop {
            progress(Progress { phase: Phase::Comparing, table: table.name, rows: rows + one.count, of });
            let ours = one.next(from).map_err(CopyError::From)?;
            let theirs = other.next(to).map_err(CopyError::To)?;
            if difference.is_none() {
                difference = first_difference(table, &ours, &theirs);
            }
            if ours.is_empty() && theirs.is_empty() {
                break;
            }
        }
        rows += one.count;
        compared.push(Compared { table: table.name, from: one.end(), to: other.end(), difference });
    }
    Ok(compared)
}

/// Returns the key of the first row that two portions don't have in common. Both begin at the same place: as long as there is no difference, portions of
/// equal rows have equal lengths.
fn first_difference(table: &Table, ours: &[Record], theirs: &[Record]) -> Option<String> {
    let at = ours.iter().zip(theirs).position(|(one, other)| one != other);
    let at = at.or_else(|| (ours.len() != theirs.len()).then(|| ours.len().min(theirs.len())))?;
    let keys = [ours, theirs].into_iter().filter_map(|rows| rows.get(at)?.get(..table.key).map(key_words));
    keys.min()
}

/// One side of a table that is compared.
struct Side {
    table: &'static Table,
    last: Option<Record>,
    count: u64,
    digest: Sha256,
    is_at_end: bool,
}

impl Side {
    fn of(table: &'static Table) -> Side {
        Side { table, last: None, count: 0, digest: Sha256::new(), is_at_end: false }
    }

    fn next(&mut self, c: &mut dyn Connection) -> Result<Vec<Record>, StoreError> {
        if self.is_at_end {
            return Ok(Vec::new());
        }
        let portion = page(c, self.table, self.last.as_deref())?;
        match portion.last() {
            Some(newest) => self.last = newest.get(..self.table.key).map(<[Cell]>::to_vec),
            None => self.is_at_end = true,
        }
        self.count += portion.len() as u64;
        portion.iter().for_each(|row| digest_row(row, &mut self.digest));
        Ok(portion)
    }

    fn end(self) -> (u64, String) {
        (self.count, hex::encode(self.digest.finalize()))
    }
}

fn total(c: &mut dyn Connection) -> Result<u64, StoreError> {
    tables().iter().map(|table| count(c, table)).sum()
}

/// Transactions of a copy have no numbers: one whose end isn't known is looked for by its rows when the copy goes on.
const UNNUMBERED: u64 = 0;

/// The oldest message of all, by the oldest of each archive: a search among all messages would read them.
#[cfg(any(feature = "postgres", feature = "mysql"))]
const OLDEST: &str = "\
    SELECT MIN((SELECT m.id FROM archive_messages m WHERE m.owner = a.id ORDER BY m.id LIMIT 1)) FROM archives a";

const FIRST_VERSION: &str = "INSERT INTO counters (name, value) VALUES ('next_roster_version', 1)";

#[cfg(test)]
mod tests;

/// Returns the statements above.
#[cfg(test)]
pub(in crate::sql) fn listed() -> Vec<crate::sql::listed::Listed> {
    crate::sql::listed::listed![OLDEST, FIRST_VERSION]
}
