//! Removes data from archives, a little at a time: whole archives without an owner, and messages
//! that are too old.

use super::owners::lock_archive;
use super::pages::OLDEST;
use super::search;
use crate::archive::{ARCHIVES_PER_SWEEP, SWEPT_AT_ONCE};
use crate::sql::archives::stretch;
use crate::sql::connection::{SqlConnection, SqlValue, all, one};
use crate::sql::dialect::DialectText;
use crate::sql::sizes::{self, Removed};
use crate::{Retention, StoreError, Swept};
use rookery_jid::JidRef;

/// Detaches an owner's archive: it can't be found any more, the next owner of the name begins
/// another one, and its messages are left to [`clear`].
pub(crate) fn purge(c: &mut dyn SqlConnection, owner: JidRef<'_>) -> Result<(), StoreError> {
    c.known_archives().forget(owner);
    let Some(archive) = lock_archive(c, owner)? else { return Ok(()) };
    // The number keeps such names distinct.
    let name = archive.to_string();
    c.execute(LET_GO, &[SqlValue::Text(&name), SqlValue::Integer(archive)]).map(drop)
}

pub(crate) fn clear(c: &mut dyn SqlConnection, limit: u64) -> Result<bool, StoreError> {
    let Some(archive) = one(c, NEXT_GONE, &[], |row| row.number(0))? else { return Ok(false) };
    let is_empty = remove_below(c, archive, u64::MAX, limit)? < limit
        && remove_conversations(c, archive, [FAR_SHARE, REMOVE_SHARES], limit)?
        && (!c.dialect().notes_stretches() || remove_conversations(c, archive, [FAR_NOTE, REMOVE_ALL_NOTES], limit)?);
    if is_empty {
        c.execute(REMOVE_ARCHIVE, &[SqlValue::number(archive)])?;
    }
    Ok(true)
}

/// Removes the data of some conversations of an archive, by one statement that finds the first one
/// to keep, and one that removes those before it. Returns whether nothing is left. An account may
/// have had as many conversations as messages.
fn remove_conversations(
    c: &mut dyn SqlConnection,
    archive: u64,
    [far, remove]: [&'static str; 2],
    limit: u64,
) -> Result<bool, StoreError> {
    let archive = SqlValue::number(archive);
    let staying = one(c, far, &[archive, SqlValue::number(limit)], |row| row.integer(0))?;
    c.execute(remove, &[archive, SqlValue::Integer(staying.unwrap_or(i64::MAX))])?;
    Ok(staying.is_none())
}

pub(crate) fn sweep(
    c: &mut dyn SqlConnection,
    after: u64,
    retention: &Retention,
    limit: usize,
) -> Result<Swept, StoreError> {
    let values = [SqlValue::number(after), SqlValue::number(ARCHIVES_PER_SWEEP as u64)];
    let next = NEXT.on(c.dialect());
    let found = all(c, next, &values, |row| {
        let days = row.optional_integer(2)?.and_then(|days| u64::try_from(days).ok());
        Ok((row.number(0)?, retention.before(row.text(1)?, days), row.optional_integer(3)?))
    })?;
    let (mut at, mut removed, mut visited) = (after, 0, 0);
    for (archive, before, oldest) in &found {
        if oldest.is_some_and(|oldest| oldest.unsigned_abs() < *before) {
            let left = (limit as u64).saturating_sub(removed);
            if left == 0 || visited >= SWEPT_AT_ONCE {
                return Ok(Swept { removed, next: Some(at) });
            }
            let of_this = remove_below(c, *archive, *before, left)?;
            (removed, visited) = (removed + of_this, visited + 1);
            if of_this >= left {
                // There may be more in this archive.
                return Ok(Swept { removed, next: Some(at) });
            }
        }
        at = *archive;
    }
    Ok(Swept { removed, next: (found.len() >= ARCHIVES_PER_SWEEP).then_some(at) })
}

pub(crate) fn expire(c: &mut dyn SqlConnection, owner: JidRef<'_>, before: u64, limit: u64) -> Result<u64, StoreError> {
    let Some(archive) = lock_archive(c, owner)? else { return Ok(0) };
    remove_below(c, archive.unsigned_abs(), before, limit)
}

/// Removes the oldest messages below an id, and the notes of stretches that are then empty. Returns
/// the number of messages.
fn remove_below(c: &mut dyn SqlConnection, archive: u64, before: u64, limit: u64) -> Result<u64, StoreError> {
    if before == 0 || limit == 0 {
        return Ok(0);
    }
    let values = [SqlValue::number(archive), SqlValue::number(before), SqlValue::number(limit)];
    let expired = all(c, EXPIRED, &values, Removed::read)?;
    let Some((first, last)) = expired.first().zip(expired.last()).map(|(first, last)| (first.id, last.id)) else {
        return Ok(0);
    };
    let removed = c.execute(REMOVE_UP_TO, &[SqlValue::number(archive), SqlValue::number(last)])?;
    search::forget_up_to(c, archive, last)?;
    sizes::uncount(c, i64::try_from(archive).unwrap_or_default(), &expired)?;
    let rest = one(c, OLDEST, &[SqlValue::number(archive)], |row| row.number(0))?.map_or(u64::MAX, stretch);
    // An archive without an owner is removed by the sweep anyway.
    if before < u64::MAX && stretch(first) < rest {
        remove_notes(c, archive, rest)?;
        c.known_archives().forget_conversations();
    }
    Ok(removed)
}

/// Removes the notes of stretches below this one, on an engine that has them.
fn remove_notes(c: &mut dyn SqlConnection, archive: u64, stretch: u64) -> Result<(), StoreError> {
    if c.dialect().notes_stretches() {
        c.execute(REMOVE_NOTES, &[SqlValue::number(archive), SqlValue::number(stretch)])?;
    }
    Ok(())
}

/// An empty domain marks an archive without an owner, which waits to be removed. Values: new
/// localpart, archive.
const LET_GO: &str = "UPDATE archives SET domain = '', localpart = ?, account = NULL WHERE id = ?";

const NEXT_GONE: &str = "SELECT id FROM archives WHERE domain = '' ORDER BY localpart LIMIT 1";

/// Values: archive.
const REMOVE_ARCHIVE: &str = "DELETE FROM archives WHERE id = ?";

/// Returns the query for archives after a given one, with their rooms' settings and oldest
/// messages.
macro_rules! next {
    ($index:literal) => {
        concat!(
            "SELECT a.id, a.domain, r.archive_days, \
            (SELECT m.id FROM archive_messages m",
            $index,
            " WHERE m.owner = a.id ORDER BY m.id LIMIT 1) \
            FROM archives a LEFT JOIN rooms r ON r.host = a.domain AND r.localpart = a.localpart \
            WHERE a.id > ? ORDER BY a.id LIMIT ?"
        )
    };
}

/// Archives that were emptied are left to [`clear`]. MariaDB would otherwise sort all index entries
/// of an owner. Values: archive, limit.
const NEXT: DialectText = DialectText { mysql: next!(" FORCE INDEX (PRIMARY)"), ..DialectText::same(next!("")) };

/// Values: archive, id, limit.
const EXPIRED: &str =
    "SELECT id, contact_key, length(stanza) FROM archive_messages WHERE owner = ? AND id < ? ORDER BY id LIMIT ?";

/// Values: archive, number of rows to skip.
const FAR_SHARE: &str = "SELECT contact_key FROM archive_shares WHERE owner = ? ORDER BY contact_key LIMIT 1 OFFSET ?";

/// Values: archive, contact's key.
const REMOVE_SHARES: &str = "DELETE FROM archive_shares WHERE owner = ? AND contact_key < ?";

/// Values: archive, number of rows to skip.
const FAR_NOTE: &str = "\
    SELECT contact_key FROM archive_conversations WHERE owner = ? GROUP BY contact_key ORDER BY contact_key LIMIT 1 OFFSET ?";

/// Values: archive, contact's key.
const REMOVE_ALL_NOTES: &str = "DELETE FROM archive_conversations WHERE owner = ? AND contact_key < ?";

/// Values: archive, id.
const REMOVE_UP_TO: &str = "DELETE FROM archive_messages WHERE owner = ? AND id <= ?";

/// Values: archive, stretch.
const REMOVE_NOTES: &str = "DELETE FROM archive_conversations WHERE owner = ? AND stretch < ?";

/// Returns the statements above.
#[cfg(test)]
pub(in crate::sql) fn list_statements() -> Vec<crate::sql::listed::ListedTexts> {
    crate::sql::listed::listed![
        LET_GO,
        NEXT_GONE,
        REMOVE_ARCHIVE,
        NEXT,
        EXPIRED,
        FAR_SHARE,
        REMOVE_SHARES,
        FAR_NOTE,
        REMOVE_ALL_NOTES,
        REMOVE_UP_TO,
        REMOVE_NOTES
    ]
}
