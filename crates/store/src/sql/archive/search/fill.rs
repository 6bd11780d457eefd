//! Creates the index of searches and fills it, if it is wanted; otherwise removes it.

use super::{insert, last_indexed};
use crate::StoreError;
use crate::archive::TermsOf;
use crate::sql::archive::months::{Months, is_alone, portion};
use crate::sql::connection::{SqlConnection, SqlValue, all, one};
use crate::sql::migrate::Migrations;

/// Creates the tables of an index, in the way of an engine. Must be called while no transaction is
/// open.
pub(crate) trait Searches: Months {
    /// Returns true if there is an index, filled or not.
    fn has_index(&mut self) -> Result<bool, StoreError>;

    /// Creates an empty index; `is_whole` means that there are no messages to add. It can be run
    /// again if it was interrupted.
    fn make_index(&mut self, is_whole: bool) -> Result<(), StoreError>;

    /// Returns the statements that create it; `is_whole` means that there are no messages to add.
    fn statements(is_whole: bool) -> String
    where
        Self: Sized;

    /// Removes the index.
    fn drop_index(&mut self) -> Result<(), StoreError>;
}

/// Checks the index when a server starts, and creates it if that is permitted.
///
/// # Errors
///
/// [`StoreError::Unfit`] if it is wanted, missing, and may not be created; otherwise the engine's
/// error.
pub(crate) fn open(
    searches: &mut dyn Searches,
    terms_of: Option<TermsOf>,
    migrations: Migrations,
) -> Result<(), StoreError> {
    match (terms_of, searches.has_index()?) {
        (Some(_), true) => {}
        (Some(_), false) if migrations == Migrations::Auto => make(searches)?,
        (Some(_), false) => {
            return Err(StoreError::Unfit(searches.fault(
                "`search` under [store] is \"index\", and it has none; run `rookery store migrate` as the owner of its tables",
            )));
        }
        (None, true) => return mark(searches),
        (None, false) => return Ok(()),
    }
    if last_filled(searches)?.is_some() {
        tracing::warn!(
            "`search` in [store] is \"index\", but not all archives in the database are indexed: run `rookery store migrate`; until then searches read all messages of the others"
        );
    }
    Ok(())
}

/// Creates the index, unless another process is doing so.
fn make(searches: &mut dyn Searches) -> Result<(), StoreError> {
    let is_alone = is_alone(searches)?;
    if searches.has_index()? {
        return Ok(());
    }
    if !is_alone {
        return Err(busy(searches));
    }
    let is_whole = !searches.has_messages()?;
    searches.make_index(is_whole)
}

/// Notes that archives get messages that are not in the index. The index isn't removed here, since
/// others may be writing to it.
fn mark(searches: &mut dyn Searches) -> Result<(), StoreError> {
    tracing::info!("the database has a search index that this server doesn't use: `rookery store migrate` removes it");
    set_filled(searches, 0)
}

fn busy(searches: &dyn Searches) -> StoreError {
    StoreError::Locked(searches.fault("another server is managing its archives"))
}

/// Returns whether the index is to be created or filled.
///
/// # Errors
///
/// The error of the engine.
pub(crate) fn is_due(searches: &mut dyn Searches) -> Result<bool, StoreError> {
    Ok(!searches.has_index()? || last_filled(searches)?.is_some())
}

/// Creates the search index and adds all messages, or removes the index if it isn't wanted.
///
/// # Errors
///
/// [`StoreError::Locked`] if another process is doing so, otherwise the engine's error. A later run
/// continues where this one ended.
pub(crate) fn migrate(searches: &mut dyn Searches, terms_of: Option<TermsOf>) -> Result<(), StoreError> {
    let has_index = searches.has_index()?;
    let Some(terms_of) = terms_of else { return if has_index { searches.drop_index() } else { Ok(()) } };
    if !is_due(searches)? {
        return Ok(());
    }
    if !is_alone(searches)? {
        return Err(busy(searches));
    }
    if !has_index {
        make(searches)?;
    }
    while let Some(after) = last_filled(searches)? {
        fill_next(searches, after, terms_of)?;
    }
    Ok(())
}

/// Returns the archive after which archives are not in the index yet; `None` if all are.
fn last_filled(searches: &mut dyn Searches) -> Result<Option<i64>, StoreError> {
    searches.begin_read()?;
    let filled = last_indexed(searches);
    searches.rollback();
    Ok(Some(filled?).filter(|filled| *filled < i64::MAX))
}

/// Adds the next archive after a given one to the index.
fn fill_next(searches: &mut dyn Searches, after: i64, terms_of: TermsOf) -> Result<(), StoreError> {
    searches.begin_read()?;
    let next = one(searches, NEXT, &[SqlValue::Integer(after)], |row| row.integer(0));
    searches.rollback();
    let Some(archive) = next? else { return set_filled(searches, i64::MAX) };
    let mut behind = 0;
    loop {
        let put = |c: &mut dyn SqlConnection| -> Result<Option<u64>, StoreError> {
            let values = [SqlValue::Integer(archive), SqlValue::number(behind), SqlValue::number(PORTION)];
            let found = all(c, MISSING, &values, |row| Ok((row.number(0)?, row.bytes(1)?.to_vec())))?;
            let rows = found.iter().map(|(id, stanza)| (archive, *id, terms_of(stanza)));
            insert(c, rows.collect())?;
            Ok(found.last().map(|(id, _)| *id))
        };
        match portion(searches, put)? {
            Some(last) => behind = last,
            None => return set_filled(searches, archive),
        }
    }
}

fn set_filled(searches: &mut dyn Searches, archive: i64) -> Result<(), StoreError> {
    portion(searches, |c| c.execute(SET_FILLED, &[SqlValue::Integer(archive)]).map(drop))
}

/// The number of messages that are added to the index at a time.
const PORTION: u64 = 500;

/// Values: archive.
const SET_FILLED: &str = "UPDATE rookery_search SET filled = ? WHERE id = 1";

/// Values: archive.
const NEXT: &str = "SELECT id FROM archives WHERE id > ? ORDER BY id LIMIT 1";

/// Values: archive, id, limit.
const MISSING: &str = "\
    SELECT m.id, m.stanza FROM archive_messages m WHERE m.owner = ? AND m.id > ? \
    AND NOT EXISTS (SELECT 1 FROM archive_terms t WHERE t.owner = m.owner AND t.id = m.id) ORDER BY m.id LIMIT ?";

/// Returns the statements above.
#[cfg(test)]
pub(in crate::sql) fn list_statements() -> Vec<crate::sql::listed::ListedTexts> {
    crate::sql::listed::listed![SET_FILLED, NEXT, MISSING]
}
