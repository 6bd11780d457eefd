//! Archives that are partitioned by month, on engines that can partition a table: messages that
//! are too old for all owners are dropped a month at a time, without looking at each of them.
//!
//! The messages are in partitions of one table, by their ids, whose upper bits are the time.
//! Statements don't depend on that: the engine finds the partitions that a page needs by the bounds
//! of its ids.
//!
//! # Invariants
//!
//! - A message always has a place: the last partition has no end. It stays empty as long as the
//!   coming months are created in time.
//! - A month is first detached, at once: its messages can't be found any more, and are in a
//!   separate table, `archive_messages_gone`. Then it is subtracted from the counts of its owners,
//!   some of them in each transaction, with the progress recorded in `rookery_months`. It is
//!   dropped last; if this is interrupted, it continues from the record.
//! - Only counted messages are subtracted: before a month is removed, everything in it is counted
//!   (see `sizes`).
//! - One connection at a time manages the months of a database. It isn't a lane's, so no operation
//!   waits for it except while a partition is added or detached.

use super::search::forget_gone;
use crate::archive::BYTES_PER_MESSAGE;
use crate::error::EngineWords;
use crate::sql::connection::{SqlConnection, SqlValue, all, one};
use crate::sql::dialect::{DialectText, locking};
use crate::sql::transactions::Transactions;
use crate::{Retention, StoreError};
use std::fmt;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use time::{Date, OffsetDateTime};

/// Divides a table of messages, in the way of an engine. Must be called while no transaction is
/// open.
pub(crate) trait Months: Transactions {
    /// Returns the parts in the order of their ids; none if the archives aren't divided.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unfit`] if they were divided by other means, otherwise the engine's error.
    fn parts(&mut self) -> Result<Vec<ArchivePart>, StoreError>;

    /// Returns false if another connection manages the months; otherwise this connection does, as
    /// long as it lasts.
    fn is_alone(&mut self) -> Result<bool, StoreError>;

    /// Returns a problem of the database, with the database's name.
    fn fault(&self, what: &str) -> EngineWords;

    /// Returns the highest id of all messages; 0 if there are none.
    fn newest(&mut self) -> Result<u64, StoreError>;

    /// Returns whether the archives have any message at all.
    fn has_messages(&mut self) -> Result<bool, StoreError>;

    /// Makes all existing messages the first part, which ends with this id, and adds another one
    /// without an end. It can be run again if it was interrupted.
    fn divide(&mut self, below: u64) -> Result<(), StoreError>;

    /// Returns the statements that divide archives into months, the first of which ends with this
    /// id, for operators who run them manually.
    fn division(below: u64) -> String
    where
        Self: Sized;

    /// Returns true if an interrupted division has left data that could do harm later.
    fn is_untidy(&mut self) -> Result<bool, StoreError>;

    /// Removes the leftovers of a division, or uses them.
    fn tidy(&mut self) -> Result<(), StoreError>;

    /// Divides the first part, which is empty: it ends with the first of these ids, and the parts
    /// after it end with the next ones and with its former end.
    fn split(&mut self, first: &ArchivePart, ends: &[u64]) -> Result<(), StoreError>;

    /// Splits a month off the last part, which begins with the id `from`. Returns false if there is
    /// no such month.
    fn add(&mut self, from: u64) -> Result<bool, StoreError>;

    /// Makes a part a table of its own, and informs other connections that archives have lost
    /// messages.
    fn take_out(&mut self, name: &str) -> Result<(), StoreError>;

    /// Returns true if a part was detached and not dropped.
    fn has_taken_out(&mut self) -> Result<bool, StoreError>;

    /// Drops the tables that were detached.
    fn drop_taken_out(&mut self) -> Result<(), StoreError>;
}

/// Opens a separate connection to manage the months.
pub(crate) type OpenMonths = dyn Fn() -> Result<Box<dyn Months>, StoreError> + Send + Sync;

/// A part of the partitioned table: mostly the messages of one month.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArchivePart {
    /// The engine's name for it.
    pub(crate) name: String,
    /// The id below which all of its ids are; `None` for the last part.
    pub(crate) below: Option<u64>,
}

/// A month, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Month(Date);

impl Month {
    /// Returns the month of a message with this id.
    pub(crate) fn of(id: u64) -> Month {
        let seconds = i64::try_from(id / IDS_PER_MS / 1000).unwrap_or(i64::MAX);
        let day = OffsetDateTime::from_unix_timestamp(seconds).map_or(Date::MAX, OffsetDateTime::date);
        Month(day.replace_day(1).unwrap_or(day))
    }

    /// Returns the lowest id of the next month; `None` after the last one that ids can express.
    pub(crate) fn end(self) -> Option<u64> {
        let next = Date::from_calendar_date(
            self.0.year() + i32::from(self.0.month() == time::Month::December),
            self.0.month().next(),
            1,
        );
        let seconds = u64::try_from(next.ok()?.midnight().assume_utc().unix_timestamp()).ok()?;
        let id = seconds.checked_mul(1000 * IDS_PER_MS)?;
        (id <= i64::MAX.cast_unsigned()).then_some(id)
    }
}

/// The form in the names of parts: 202612.
impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}{:02}", self.0.year(), u8::from(self.0.month()))
    }
}

/// Returns the lowest id of this moment.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX).saturating_mul(IDS_PER_MS)
}

/// Returns the end of the first part if archives are divided now: the end of a month that is at
/// least a few days away, so that no new message exceeds it in the meantime.
pub(crate) fn first_end() -> u64 {
    end_behind(now())
}

fn end_behind(newest: u64) -> u64 {
    Month::of(newest.saturating_add(MARGIN)).end().unwrap_or(i64::MAX.cast_unsigned())
}

/// Divides the archives into months, unless they are divided, and creates the next months. Returns
/// whether they were divided now.
///
/// # Errors
///
/// [`StoreError::Locked`] if another process is doing so, otherwise the engine's error. It can be
/// run again.
pub(crate) fn divide(months: &mut dyn Months) -> Result<bool, StoreError> {
    if !is_alone(months)? {
        return Err(StoreError::Locked(months.fault("another server is managing the months of its archives")));
    }
    let is_whole = months.parts()?.is_empty();
    if is_whole {
        let newest = months.newest()?.max(now());
        months.divide(end_behind(newest))?;
    }
    if months.is_untidy()? {
        months.tidy()?;
    }
    make_ahead(months, now())?;
    Ok(is_whole)
}

/// Creates the next months when a server starts. Divides archives without messages, if they are to
/// be divided.
///
/// # Errors
///
/// The engine's error in dividing them. Months that can't be created are logged: the last part
/// takes their messages.
pub(crate) fn prepare(months: &mut dyn Months, is_wanted: bool) -> Result<(), StoreError> {
    let is_whole = months.parts()?.is_empty();
    let is_wanted = is_wanted && !(is_whole && is_too_late(months)?);
    if is_of_no_concern(months, is_whole && !is_wanted)? {
        return Ok(());
    }
    if is_whole && !is_wanted {
        return Ok(());
    }
    if is_whole {
        months.divide(first_end())?;
    }
    if let Err(error) = make_ahead(months, now()) {
        tell(&error);
    }
    Ok(())
}

/// Creates the months of future messages in empty archives, as for a copy: the first part ends with
/// the month of this id. Existing messages stay where they are.
///
/// # Errors
///
/// The error of the engine. It can be run again.
pub(crate) fn make_behind(months: &mut dyn Months, oldest: u64) -> Result<(), StoreError> {
    let parts = months.parts()?;
    let Some(first @ ArchivePart { below: Some(below), .. }) = parts.first() else { return Ok(()) };
    let ends = std::iter::successors(Month::of(oldest).end(), |end| Month::of(*end).end());
    let ends: Vec<_> = ends.take_while(|end| end < below).collect();
    let ends = &ends[ends.len().saturating_sub(MOST_BEHIND)..];
    if ends.is_empty() || months.has_messages()? {
        return Ok(());
    }
    months.split(first, ends)
}

/// Refuses archives whose division was interrupted, for database users who may not change tables.
///
/// # Errors
///
/// [`StoreError::Unfit`] if it was, otherwise the engine's error.
pub(crate) fn refuse_untidy(months: &mut dyn Months) -> Result<(), StoreError> {
    // A division that is under way tidies up by itself.
    if !months.is_untidy()? || !is_alone(months)? {
        return Ok(());
    }
    Err(StoreError::Unfit(months.fault(
        "the division of its archives into months was interrupted, so that it will refuse messages one day; run \
         `rookery store migrate` as the owner of its tables",
    )))
}

/// Waits briefly until no other process manages the months: a connection that has just ended counts
/// until the server notices.
pub(super) fn is_alone(months: &mut dyn Months) -> Result<bool, StoreError> {
    for _ in 1..ATTEMPTS {
        if months.is_alone()? {
            return Ok(true);
        }
        thread::sleep(PAUSE);
    }
    months.is_alone()
}

/// Returns true if there is nothing to maintain, or another process does that; tidies up otherwise.
fn is_of_no_concern(months: &mut dyn Months, is_whole: bool) -> Result<bool, StoreError> {
    let is_untidy = months.is_untidy()?;
    if (is_whole && !is_untidy) || !is_alone(months)? {
        return Ok(true);
    }
    if is_untidy {
        months.tidy()?;
    }
    Ok(false)
}

/// Returns whether there are already messages, which a start leaves undivided, and logs that.
fn is_too_late(months: &mut dyn Months) -> Result<bool, StoreError> {
    let has_messages = months.has_messages()?;
    if has_messages {
        tracing::warn!(
            "`archives` in [store] is \"months\", but the archives in the database aren't partitioned: run `rookery store migrate`; until then they are one table"
        );
    }
    Ok(has_messages)
}

fn tell(error: &StoreError) {
    tracing::warn!(
        %error,
        "the partitions for the next months of archives couldn't be created, so their messages go into the last one; let the server's user change tables, or run `rookery store migrate` as a user who may"
    );
}

/// Maintains the monthly partitions of a database: creates future ones, and drops those that are
/// past every owner's retention. Returns the number of dropped ones.
///
/// # Errors
///
/// The error of the engine. The next call continues the unfinished work.
pub(crate) fn keep(
    months: &mut dyn Months,
    retention: &Retention,
    is_over: &dyn Fn() -> bool,
) -> Result<u64, StoreError> {
    let is_whole = months.parts()?.is_empty();
    if is_of_no_concern(months, is_whole)? || is_whole {
        return Ok(0);
    }
    if let Err(error) = make_ahead(months, retention.now) {
        tell(&error);
    }
    let (before, mut removed) = (kept_from(months, retention)?, 0);
    loop {
        if months.has_taken_out()? {
            while !portion(months, uncount)? {
                if is_over() {
                    return Err(StoreError::Closed);
                }
            }
            months.drop_taken_out()?;
            removed += 1;
        }
        let parts = months.parts()?;
        let Some(ArchivePart { name, below: Some(below) }) = parts.into_iter().next() else { return Ok(removed) };
        if below > before {
            return Ok(removed);
        }
        count_below(months, below, is_over)?;
        months.take_out(&name)?;
        tracing::info!(part = name, "a month of archives is being removed: it is too old for all owners");
    }
}

/// Creates the coming months.
fn make_ahead(months: &mut dyn Months, now: u64) -> Result<(), StoreError> {
    let wanted = now.saturating_add(AHEAD);
    loop {
        let parts = months.parts()?;
        let Some(ArchivePart { below: Some(last), .. }) = parts.iter().rev().nth(1) else { return Ok(()) };
        if *last > wanted || !months.add(*last)? {
            return Ok(());
        }
    }
}

/// Returns the id below which the messages of all owners may be dropped; 0 if some owner keeps all.
fn kept_from(months: &mut dyn Months, retention: &Retention) -> Result<u64, StoreError> {
    months.begin_read()?;
    let found = lowest(months, retention);
    months.rollback();
    found
}

fn lowest(c: &mut dyn SqlConnection, retention: &Retention) -> Result<u64, StoreError> {
    // Archives without an owner have an empty domain.
    let (mut domain, mut lowest) = (String::new(), None);
    while let Some(next) = one(c, NEXT_DOMAIN, &[SqlValue::Text(&domain)], |row| row.text(0).map(str::to_owned))? {
        let before = retention.before(&next, None);
        lowest = Some(lowest.map_or(before, |lowest: u64| lowest.min(before)));
        domain = next;
    }
    Ok(lowest.unwrap_or_default())
}

/// Counts the messages below an id that are not counted yet.
fn count_below(months: &mut dyn Months, below: u64, is_over: &dyn Fn() -> bool) -> Result<(), StoreError> {
    let mut after = 0;
    loop {
        let until = portion(months, |c| {
            let far = [SqlValue::Integer(after), SqlValue::number(ARCHIVES)];
            let until = one(c, FAR_ARCHIVE, &far, |row| row.integer(0))?;
            let [first, last] = [SqlValue::Integer(after), SqlValue::Integer(until.unwrap_or(i64::MAX))];
            let [end, newest] = [SqlValue::number(below), SqlValue::number(below.saturating_sub(1))];
            let locked = UNCOUNTED.on(c.dialect());
            if !all(c, locked, &[first, last, newest], |_| Ok(()))?.is_empty() {
                let counted = c.execute(COUNT.on(c.dialect()), &[end, first, last, newest, newest])?;
                if counted > 0 {
                    c.known_archives().forget_changed();
                }
            }
            Ok(until)
        })?;
        match until {
            Some(until) if !is_over() => after = until,
            Some(_) => return Err(StoreError::Closed),
            None => return Ok(()),
        }
    }
}

/// Subtracts the detached messages of some owners from their counts. Returns true if all are
/// subtracted.
fn uncount(c: &mut dyn SqlConnection) -> Result<bool, StoreError> {
    let mark = MARK.on(c.dialect());
    let after = SqlValue::Integer(one(c, mark, &[], |row| row.integer(0))?.unwrap_or_default());
    let until = one(c, FAR_OWNER, &[after, SqlValue::number(MESSAGES)], |row| row.integer(0))?;
    let range = [after, SqlValue::Integer(until.unwrap_or(i64::MAX))];
    c.execute(TAKE.on(c.dialect()), &range)?;
    c.execute(TAKE_SHARES.on(c.dialect()), &range)?;
    forget_gone(c, &range)?;
    c.execute(SET_MARK, &range[1..])?;
    c.known_archives().forget_changed();
    Ok(until.is_none())
}

/// Runs a portion of the work in a transaction of its own, and again if others interfere.
pub(super) fn portion<T>(
    months: &mut dyn Months,
    run: impl Fn(&mut dyn SqlConnection) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let mut attempts = 0;
    loop {
        months.begin_write(attempts)?;
        let outcome = run(months).and_then(|found| months.commit().map(|()| found));
        let Err(error) = outcome else { return outcome };
        months.rollback();
        attempts += 1;
        if !error.is_conflict() || attempts >= ATTEMPTS {
            return Err(error);
        }
        thread::sleep(PAUSE);
    }
}

const NEXT_DOMAIN: &str = "SELECT domain FROM archives WHERE domain > ? ORDER BY domain LIMIT 1";

/// Values: archive, number of rows to skip.
const FAR_ARCHIVE: &str = "SELECT id FROM archives WHERE id > ? ORDER BY id LIMIT 1 OFFSET ?";

/// Values: an archive, another one, id.
const UNCOUNTED: DialectText = locking!("SELECT id FROM archives WHERE id > ? AND id <= ? AND counted < ? ORDER BY id");

/// Counts the messages below an id. Values: id, an archive, another one, the id before it twice.
/// The bytes of each message besides its stanza are [`BYTES_PER_MESSAGE`].
const COUNT: DialectText = DialectText {
    mysql: "UPDATE archives JOIN (SELECT a.id AS owner, SUM(length(m.stanza) + 128) AS more FROM archives a \
        JOIN archive_messages m ON m.owner = a.id AND m.id > a.counted AND m.id < ? \
        WHERE a.id > ? AND a.id <= ? AND a.counted < ? GROUP BY a.id) found ON archives.id = found.owner \
        SET archives.bytes = archives.bytes + found.more, archives.counted = ?",
    ..DialectText::same(
        "UPDATE archives SET bytes = bytes + found.more, counted = $5 FROM (\
            SELECT a.id AS owner, SUM(m.length + 128) AS more FROM archives a CROSS JOIN LATERAL (\
            SELECT length(stanza) AS length FROM archive_messages \
            WHERE owner = a.id AND id > a.counted AND id < $1 OFFSET 0) m \
            WHERE a.id > $2 AND a.id <= $3 AND a.counted < $4 GROUP BY a.id) found \
        WHERE archives.id = found.owner",
    )
};

/// The last owner whose detached messages were subtracted.
const MARK: DialectText = locking!("SELECT owner FROM rookery_months WHERE id = 1");

/// Values: owner.
const SET_MARK: &str = "UPDATE rookery_months SET owner = ? WHERE id = 1";

/// Values: owner, number of messages to skip.
const FAR_OWNER: &str = "SELECT owner FROM archive_messages_gone WHERE owner > ? ORDER BY owner LIMIT 1 OFFSET ?";

/// Values: an owner, another one.
const TAKE: DialectText = DialectText {
    mysql: "UPDATE archives JOIN (SELECT owner, SUM(length(stanza) + 128) AS bytes FROM archive_messages_gone \
        WHERE owner > ? AND owner <= ? GROUP BY owner) gone ON archives.id = gone.owner \
        SET archives.bytes = GREATEST(archives.bytes - gone.bytes, 0)",
    ..DialectText::same(
        "UPDATE archives SET bytes = GREATEST(archives.bytes - gone.bytes, 0) FROM (\
            SELECT owner, SUM(length(stanza) + 128) AS bytes FROM archive_messages_gone \
            WHERE owner > ? AND owner <= ? GROUP BY owner) gone WHERE archives.id = gone.owner",
    )
};

/// Values: an owner, another one.
const TAKE_SHARES: DialectText = DialectText {
    mysql: "UPDATE archive_shares JOIN (\
            SELECT owner, contact_key, SUM(length(stanza) + 128) AS bytes FROM archive_messages_gone \
            WHERE owner > ? AND owner <= ? GROUP BY owner, contact_key) gone \
        ON archive_shares.owner = gone.owner AND archive_shares.contact_key = gone.contact_key \
        SET archive_shares.bytes = GREATEST(archive_shares.bytes - gone.bytes, 0)",
    ..DialectText::same(
        "UPDATE archive_shares SET bytes = GREATEST(archive_shares.bytes - gone.bytes, 0) FROM (\
            SELECT owner, contact_key, SUM(length(stanza) + 128) AS bytes FROM archive_messages_gone \
            WHERE owner > ? AND owner <= ? GROUP BY owner, contact_key) gone \
        WHERE archive_shares.owner = gone.owner AND archive_shares.contact_key = gone.contact_key",
    )
};

/// The number of ids in a millisecond: the time is in the bits above.
const IDS_PER_MS: u64 = 1 << 21;

const DAY: u64 = 24 * 60 * 60 * 1000 * IDS_PER_MS;

/// The least time that remains of the first part when archives are divided.
const MARGIN: u64 = 7 * DAY;

/// The most months that are created for the past: older messages share the first part.
const MOST_BEHIND: usize = 240;

/// The time for which months are created ahead.
const AHEAD: u64 = 62 * DAY;

/// The number of archives that are counted at a time.
const ARCHIVES: u64 = 2000;

/// The number of messages that are subtracted from counts at a time, and of those of one owner.
const MESSAGES: u64 = 20_000;

/// The number of attempts if others interfere.
const ATTEMPTS: u64 = 10;

const PAUSE: Duration = Duration::from_millis(100);

// The statements rely on this value.
const _: () = assert!(BYTES_PER_MESSAGE == 128);

/// Returns the statements above.
#[cfg(test)]
pub(in crate::sql) fn list_statements() -> Vec<crate::sql::listed::ListedTexts> {
    crate::sql::listed::listed![
        NEXT_DOMAIN,
        FAR_ARCHIVE,
        UNCOUNTED,
        COUNT,
        MARK,
        SET_MARK,
        FAR_OWNER,
        TAKE,
        TAKE_SHARES
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_follow_each_other() {
        // 2026-11-23T00:00:00Z
        let id = 1_795_392_000_000 * IDS_PER_MS;
        let month = Month::of(id);
        assert_eq!(month.to_string(), "202611");
        let december = month.end().expect("a month");
        // 2026-12-01T00:00:00Z
        assert_eq!(december, 1_796_083_200_000 * IDS_PER_MS);
        assert_eq!((Month::of(december - 1), Month::of(december).to_string().as_str()), (month, "202612"));
        assert_eq!(Month::of(Month::of(december).end().expect("a month")).to_string(), "202701");
        assert_eq!(Month::of(0).to_string(), "197001");
        assert_eq!(Month::of(u64::MAX >> 1).end(), None, "ids end in the middle of a month");
    }

    #[test]
    fn the_first_part_ends_some_days_away() {
        let (late, early) = (1_796_083_200_000 - 1, 1_796_083_200_000);
        let months = [late, early].map(|ms| Month::of(end_behind(ms * IDS_PER_MS)).to_string());
        assert_eq!(months, ["202701", "202701"]);
    }
}
