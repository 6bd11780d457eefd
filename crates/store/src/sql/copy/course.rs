//! The course of a copy, through lost connections and changes in the meantime.

use super::catalogue::{COUNTERS, Table, tables};
use super::comparing::{RowReader, compare_tables};
use super::copying::{Copying, UNNUMBERED};
use super::filling::{end, fill};
use super::mark::{MARK, SET_MARK, is_unfinished};
use super::mending::mend;
use super::reconnecting::Reconnecting;
use super::report::{Compared, CopyError, CopyPhase, Progress};
use super::rows::{last_key, total};
use crate::StoreError;
use crate::sql::connection::SqlValue;

/// A copy that is under way.
pub(super) struct Course<'a> {
    /// A connection in a reading transaction.
    from: &'a mut dyn Copying,
    to: &'a mut dyn Copying,
    progress: &'a mut dyn FnMut(Progress),
    from_again: Reconnecting,
    to_again: Reconnecting,
    /// True if the destination belongs to this copy, marked or not.
    is_begun: bool,
    rows: Moments,
    furthest: Furthest,
}

/// The moments that the rows of the destination reflect.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moments {
    /// All reflect the moment of the source's transaction.
    One,
    /// Some may reflect an earlier moment; perhaps nothing has changed since.
    Several,
    /// Some data has changed since, and has to be updated.
    Different,
}

impl<'a> Course<'a> {
    /// Begins a copy with the source's transaction.
    pub(super) fn begin(
        from: &'a mut dyn Copying,
        to: &'a mut dyn Copying,
        progress: &'a mut dyn FnMut(Progress),
    ) -> Result<Course<'a>, CopyError> {
        let mut from_again = Reconnecting::to_read();
        from_again.persist(from, |from| from.begin_read()).map_err(CopyError::From)?;
        let (to_again, furthest) = (Reconnecting::to_write(), Furthest::default());
        Ok(Course { from, to, progress, from_again, to_again, is_begun: false, rows: Moments::One, furthest })
    }

    /// Runs the copy to its end. Returns the contents of both sides.
    pub(super) fn run(mut self) -> Result<Vec<Compared>, CopyError> {
        let outcome = loop {
            let again = match self.attempt() {
                Ok(Some(compared)) => break Ok(compared),
                Ok(None) => Ok(()),
                Err(error) => self.come_back(error),
            };
            if let Err(error) = again {
                break Err(error);
            }
        };
        self.from.rollback();
        self.to.rollback();
        outcome
    }

    /// Does all remaining work. Returns `None` if differences have to be mended first.
    fn attempt(&mut self) -> Result<Option<Vec<Compared>>, CopyError> {
        if begin(self.to, self.is_begun)? && !self.is_begun {
            self.rows = Moments::Several;
        }
        self.is_begun = true;
        let (from, to) = (&mut *self.from, &mut *self.to);
        let of = total(from).map_err(CopyError::From)?;
        let (tables, counters) = parts();
        let mut tell = |at: Progress| {
            if self.furthest.is_passed_by(at) {
                self.from_again.advance();
                self.to_again.advance();
            }
            (self.progress)(at);
        };
        if self.rows == Moments::Different {
            mend(tables, from, to, &mut tell, of)?;
            self.rows = Moments::One;
        }
        fill(tables, from, to, &mut tell, of)?;
        let mut both = compare(tables, from, to, &mut tell, (0, of))?;
        if both.iter().any(|table| !table.is_same()) {
            let is_known = self.rows == Moments::One;
            self.rows = Moments::Different;
            return Ok(is_known.then_some(both));
        }
        end(from, to)?;
        let before = both.iter().map(|table| table.from.0).sum();
        both.extend(compare(counters, from, to, &mut tell, (before, of))?);
        Ok(Some(both))
    }

    /// Makes sure that the copy can continue after an error.
    fn come_back(&mut self, error: CopyError) -> Result<(), CopyError> {
        self.to.rollback();
        match error {
            CopyError::From(error) => {
                self.from_again.come_back(self.from, error).map_err(CopyError::From)?;
                if self.rows == Moments::One {
                    self.rows = Moments::Several;
                }
                Ok(())
            }
            // Rows of different moments may conflict.
            CopyError::To(StoreError::Conflict(_) | StoreError::Other(_)) if self.rows == Moments::Several => {
                self.rows = Moments::Different;
                Ok(())
            }
            CopyError::To(error) => self.to_again.come_back(self.to, error).map_err(CopyError::To),
            CopyError::NotEmpty(_) => Err(error),
        }
    }
}

/// The furthest place that a copy has reached in each phase.
#[derive(Default)]
struct Furthest {
    copying: (usize, u64),
    mending: u64,
    comparing: (usize, u64),
}

impl Furthest {
    /// Returns whether the copy is further than ever before in this phase.
    fn is_passed_by(&mut self, at: Progress) -> bool {
        let table = tables().iter().position(|table| table.name == at.table).unwrap_or_default();
        match at.phase {
            CopyPhase::Copying => rise(&mut self.copying, (table, at.rows)),
            CopyPhase::Mending => rise(&mut self.mending, at.rows),
            CopyPhase::Comparing => rise(&mut self.comparing, (table, at.rows)),
        }
    }
}

fn rise<T: PartialOrd>(most: &mut T, now: T) -> bool {
    let rises = now > *most;
    if rises {
        *most = now;
    }
    rises
}

/// Compares tables of the destination with those of the source at the time of its transaction.
fn compare(
    tables: &'static [Table],
    from: &mut dyn Copying,
    to: &mut dyn Copying,
    tell: &mut dyn FnMut(Progress),
    rows: (u64, u64),
) -> Result<Vec<Compared>, CopyError> {
    let mut to = RowReader::at_rest(to).map_err(CopyError::To)?;
    compare_tables(tables, &mut RowReader::of_one_moment(from), &mut to, tell, rows)
}

/// Marks a database that is empty or belongs to the copy, unless it is marked. Returns whether it
/// was.
fn begin(to: &mut dyn Copying, is_own: bool) -> Result<bool, CopyError> {
    to.begin_write(UNNUMBERED).map_err(CopyError::To)?;
    let is_marked = is_unfinished(to).map_err(CopyError::To)?;
    let (tables, _) = parts();
    for table in tables.iter().filter(|_| !is_marked && !is_own) {
        if last_key(to, table).map_err(CopyError::To)?.is_some() {
            return Err(CopyError::NotEmpty(table.name));
        }
    }
    if !is_marked {
        to.execute(SET_MARK, &[SqlValue::Text(MARK)]).map_err(CopyError::To)?;
    }
    to.commit().map_err(CopyError::To)?;
    Ok(is_marked)
}

/// Returns the tables that are copied row by row, and then the one that is copied at once.
fn parts() -> (&'static [Table], &'static [Table]) {
    let counters = tables().iter().position(|table| table.name == COUNTERS);
    tables().split_at(counters.unwrap_or_default())
}
