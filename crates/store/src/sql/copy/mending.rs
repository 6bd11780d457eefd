//! Updates an earlier copy from the source.
//!
//! Rows that the source doesn't have are removed first, from the referring tables back to the
//! referenced ones; then new ones are inserted in the opposite order. A numbered row is changed in
//! place, since rows that refer to it would be removed with it. All other differing rows are
//! removed and inserted, so that two rows never have the same unique value, not even for a moment;
//! also a numbered one whose name has changed, since SQLite gives the number of the newest account
//! to the next one when that account is removed.

use super::catalogue::Table;
use super::cells::{Cell, RowCells};
use super::copying::{Copying, UNNUMBERED};
use super::filling::put;
use super::report::{CopyError, CopyPhase, Progress};
use super::rows::{PAGE, PAGE_BYTES, page};
use crate::StoreError;
use std::cmp::Ordering;
use std::collections::VecDeque;

/// Mends tables, each after the tables that it refers to. The source has `of` rows in all tables.
pub(super) fn mend(
    tables: &'static [Table],
    from: &mut dyn Copying,
    to: &mut dyn Copying,
    tell: &mut dyn FnMut(Progress),
    of: u64,
) -> Result<(), CopyError> {
    let mut walked = 0;
    let mut tell = |table: &Table, rows: usize| {
        walked += rows as u64;
        // There are two walks along all of them.
        tell(Progress { phase: CopyPhase::Mending, table: table.name, rows: walked / 2, of });
    };
    for table in tables.iter().rev() {
        Walk::along(table).run(from, to, &mut tell, remove)?;
    }
    for table in tables {
        Walk::along(table).run(from, to, &mut tell, bring)?;
    }
    Ok(())
}

/// Removes the rows that can't stay as they are.
fn remove(to: &mut dyn Copying, table: &'static Table, found: &Differences) -> Result<(), StoreError> {
    if found.gone.is_empty() {
        return Ok(());
    }
    to.begin_write(UNNUMBERED)?;
    for row in &found.gone {
        let values: Vec<_> = table.key_of(row).iter().map(Cell::value).collect();
        to.execute(&table.texts.remove, &values)?;
    }
    to.commit()
}

/// Inserts missing rows, and changes rows that differ.
fn bring(to: &mut dyn Copying, table: &'static Table, found: &Differences) -> Result<(), StoreError> {
    if !found.changed.is_empty() {
        to.begin_write(UNNUMBERED)?;
        for row in &found.changed {
            let key = table.key_of(row);
            let values: Vec<_> = row.iter().skip(key.len()).chain(key).map(Cell::value).collect();
            to.execute(&table.texts.change, &values)?;
        }
        to.commit()?;
    }
    if found.missing.is_empty() { Ok(()) } else { put(to, table, &found.missing) }
}

/// Rows of a table in which the destination differs from the source.
#[derive(Default)]
struct Differences {
    /// Rows that the destination lacks.
    missing: Vec<RowCells>,
    /// Rows that the destination has in another version, which can be changed in place.
    changed: Vec<RowCells>,
    /// Rows that only the destination has, or that can't be changed into the source's with the same
    /// key, which are then among the missing.
    gone: Vec<RowCells>,
}

impl Differences {
    fn is_full(&self) -> bool {
        let rows = || [&self.missing, &self.changed, &self.gone].into_iter().flatten();
        rows().count() >= PAGE || rows().flatten().map(Cell::len).sum::<usize>() >= PAGE_BYTES
    }
}

/// A walk along the rows of a table on both sides, in the order of their keys.
struct Walk {
    table: &'static Table,
    ours: Ahead,
    theirs: Ahead,
    found: Differences,
}

impl Walk {
    fn along(table: &'static Table) -> Walk {
        Walk { table, ours: Ahead::default(), theirs: Ahead::default(), found: Differences::default() }
    }

    /// Acts on all differences, a bounded portion at a time.
    fn run(
        mut self,
        from: &mut dyn Copying,
        to: &mut dyn Copying,
        tell: &mut dyn FnMut(&Table, usize),
        act: fn(&mut dyn Copying, &'static Table, &Differences) -> Result<(), StoreError>,
    ) -> Result<(), CopyError> {
        loop {
            if self.ours.is_due() {
                self.ours.read(self.table, from).map_err(CopyError::From)?;
                tell(self.table, self.ours.rows.len());
            }
            if self.theirs.is_due() {
                self.theirs.read(self.table, to).map_err(CopyError::To)?;
            }
            let is_over = self.meet();
            if is_over || self.found.is_full() {
                act(to, self.table, &std::mem::take(&mut self.found)).map_err(CopyError::To)?;
            }
            if is_over {
                return Ok(());
            }
        }
    }

    /// Compares the rows that were read, as far as both sides have some. Returns whether nothing is
    /// left.
    fn meet(&mut self) -> bool {
        let (ours, theirs, found) = (&mut self.ours, &mut self.theirs, &mut self.found);
        while !ours.is_due() && !theirs.is_due() {
            let order = match (ours.rows.front(), theirs.rows.front()) {
                (None, None) => return true,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(one), Some(other)) => self.table.key_of(one).cmp(self.table.key_of(other)),
            };
            match order {
                Ordering::Less => found.missing.extend(ours.rows.pop_front()),
                Ordering::Greater => found.gone.extend(theirs.rows.pop_front()),
                Ordering::Equal => match ours.rows.pop_front().zip(theirs.rows.pop_front()) {
                    Some((one, other)) if one == other => {}
                    Some((one, other)) if self.table.can_change(&other, &one) => found.changed.push(one),
                    pair => {
                        let (one, other) = pair.unzip();
                        found.missing.extend(one);
                        found.gone.extend(other);
                    }
                },
            }
        }
        false
    }
}

/// The next rows of a table on one side.
#[derive(Default)]
struct Ahead {
    rows: VecDeque<RowCells>,
    last: Option<RowCells>,
    is_at_end: bool,
}

impl Ahead {
    fn is_due(&self) -> bool {
        self.rows.is_empty() && !self.is_at_end
    }

    fn read(&mut self, table: &'static Table, c: &mut dyn Copying) -> Result<(), StoreError> {
        self.rows = page(c, table, self.last.as_deref())?.into();
        match self.rows.back() {
            Some(newest) => self.last = Some(table.key_of(newest).to_vec()),
            None => self.is_at_end = true,
        }
        Ok(())
    }
}
