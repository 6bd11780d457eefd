//! Compares the contents of two databases, row by row.

use rookery_base::hex;
use sha2::{Digest, Sha256};

use super::catalogue::Table;
use super::cells::{RowCells, digest_row, key_words};
use super::copying::Copying;
use super::reconnecting::Reconnecting;
use super::report::{Compared, CopyError, CopyPhase, Progress};
use super::rows::page;
use crate::StoreError;

/// A database whose rows are read in the order of their keys, in one transaction.
pub(super) struct RowReader<'a> {
    connection: &'a mut dyn Copying,
    /// Restores the connection and continues; `None` if another transaction would show another
    /// moment.
    back: Option<Reconnecting>,
}

impl<'a> RowReader<'a> {
    /// Reads as of one moment, in an open transaction.
    pub(super) fn of_one_moment(connection: &'a mut dyn Copying) -> RowReader<'a> {
        RowReader { connection, back: None }
    }

    /// Reads data that doesn't change in the meantime.
    pub(super) fn at_rest(connection: &'a mut dyn Copying) -> Result<RowReader<'a>, StoreError> {
        let mut back = Reconnecting::to_read();
        back.persist(connection, |c| c.begin_read())?;
        Ok(RowReader { connection, back: Some(back) })
    }

    /// Reads over a connection that may be lost.
    pub(super) fn read<T>(
        &mut self,
        mut read: impl FnMut(&mut dyn Copying) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match &mut self.back {
            Some(back) => back.persist(self.connection, read),
            None => read(self.connection),
        }
    }
}

impl Drop for RowReader<'_> {
    fn drop(&mut self) {
        if self.back.is_some() {
            self.connection.rollback();
        }
    }
}

/// Compares tables of two databases. The numbers of rows, compared before and in all, are for the
/// progress.
pub(super) fn compare_tables(
    tables: &'static [Table],
    from: &mut RowReader<'_>,
    to: &mut RowReader<'_>,
    tell: &mut dyn FnMut(Progress),
    (mut before, of): (u64, u64),
) -> Result<Vec<Compared>, CopyError> {
    let mut compared = Vec::new();
    for table in tables {
        let tell = |rows| tell(Progress { phase: CopyPhase::Comparing, table: table.name, rows: before + rows, of });
        let both = compare_table(table, from, to, tell)?;
        before += both.from.0;
        compared.push(both);
    }
    Ok(compared)
}

fn compare_table(
    table: &'static Table,
    from: &mut RowReader<'_>,
    to: &mut RowReader<'_>,
    mut tell: impl FnMut(u64),
) -> Result<Compared, CopyError> {
    let (mut one, mut other) = (ComparedSide::of(table), ComparedSide::of(table));
    let mut difference = None;
    loop {
        tell(one.count);
        let ours = one.next(from).map_err(CopyError::From)?;
        let theirs = other.next(to).map_err(CopyError::To)?;
        if difference.is_none() {
            difference = first_difference(table, &ours, &theirs);
        }
        if ours.is_empty() && theirs.is_empty() {
            return Ok(Compared { table: table.name, from: one.end(), to: other.end(), difference });
        }
    }
}

/// Returns the key of the first row that two portions don't have in common. Both begin at the same
/// place: up to the first difference, portions of equal rows have equal lengths.
fn first_difference(table: &Table, ours: &[RowCells], theirs: &[RowCells]) -> Option<String> {
    let at = ours.iter().zip(theirs).position(|(one, other)| one != other);
    let at = at.or_else(|| (ours.len() != theirs.len()).then(|| ours.len().min(theirs.len())))?;
    let keys = [ours, theirs].into_iter().filter_map(|rows| rows.get(at).map(|row| key_words(table.key_of(row))));
    keys.min()
}

/// One side of a table in a comparison.
struct ComparedSide {
    table: &'static Table,
    last: Option<RowCells>,
    count: u64,
    digest: Sha256,
    is_at_end: bool,
}

impl ComparedSide {
    fn of(table: &'static Table) -> ComparedSide {
        ComparedSide { table, last: None, count: 0, digest: Sha256::new(), is_at_end: false }
    }

    fn next(&mut self, reader: &mut RowReader<'_>) -> Result<Vec<RowCells>, StoreError> {
        if self.is_at_end {
            return Ok(Vec::new());
        }
        let portion = reader.read(|c| page(c, self.table, self.last.as_deref()))?;
        match portion.last() {
            Some(newest) => self.last = Some(self.table.key_of(newest).to_vec()),
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
