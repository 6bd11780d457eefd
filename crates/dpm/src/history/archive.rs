//! The archive: SQLite, one row per reading, in the order of series and time.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Result, params};

use super::{
    HistoryAnswer, HistoryQuestion, HistoryRow, HistoryTicket, HistoryWork, RecordedPoint, Series, WantedReadings,
};

/// The bounds of the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryBounds {
    /// The age of the oldest reading, in seconds.
    pub age: u64,
    /// The size of all readings together, in bytes; the file's log comes on top.
    pub size: u64,
}

impl Default for HistoryBounds {
    fn default() -> Self {
        Self { age: 30 * 86_400, size: 1 << 30 }
    }
}

/// Recorded readings.
#[derive(Debug)]
pub struct HistoryArchive {
    connection: Connection,
    bounds: HistoryBounds,
    ids: HashMap<Arc<Series>, i64, ahash::RandomState>,
}

impl HistoryArchive {
    /// Opens a file, which is created if necessary, readable by its owner only.
    ///
    /// # Errors
    /// SQLite's, such as for a file that is no database, and that of a file that a later Rookery
    /// has written.
    pub fn open(path: &Path, bounds: HistoryBounds) -> Result<Self> {
        // A failure shows when the file is opened as a database.
        let _ = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        Self::prepare(Connection::open(path)?, bounds)
    }

    /// Returns an archive in memory, which ends with the process.
    ///
    /// # Errors
    /// SQLite's.
    pub fn in_memory(bounds: HistoryBounds) -> Result<Self> {
        Self::prepare(Connection::open_in_memory()?, bounds)
    }

    fn prepare(connection: Connection, bounds: HistoryBounds) -> Result<Self> {
        let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if version > VERSION {
            return Err(rusqlite::Error::InvalidParameterName(format!(
                "the file was written by a later Rookery (version {version}, this one knows {VERSION})"
            )));
        }
        connection.execute_batch(SCHEMA)?;
        Ok(Self { connection, bounds, ids: HashMap::default() })
    }

    /// Does some work, with all writes in one transaction. Answers are in the order of the
    /// questions; a failed write is reported after them.
    pub fn work(&mut self, work: Vec<HistoryWork>) -> (Vec<(HistoryTicket, HistoryAnswer)>, Result<()>) {
        let mut questions = Vec::new();
        let written = self.write(work, &mut questions);
        let answers = questions.into_iter().map(|(ticket, question)| {
            // The asker learns of the failure; the operator sees the reason at the next write.
            (ticket, self.answer(&question).unwrap_or(HistoryAnswer::Failed))
        });
        (answers.collect(), written)
    }

    /// Removes readings that are too old, and some of the oldest if there are too many. `now` is in
    /// microseconds since 1970. Returns whether there are still too many; a caller with other work
    /// does that work first.
    ///
    /// # Errors
    /// SQLite's.
    pub fn trim(&mut self, now: i64) -> Result<bool> {
        let age = i64::try_from(self.bounds.age).unwrap_or(i64::MAX).saturating_mul(1_000_000);
        self.forget_before(now.saturating_sub(age))?;
        if self.size()? <= self.bounds.size {
            return Ok(false);
        }
        let Some(oldest) = self.oldest()? else { return Ok(false) };
        let share = (now.saturating_sub(oldest) / SHARE).max(1);
        self.forget_before(oldest.saturating_add(share))?;
        Ok(self.size()? > self.bounds.size)
    }

    /// Returns the bytes that the readings take in the file, without its free pages.
    ///
    /// # Errors
    /// SQLite's.
    pub fn size(&self) -> Result<u64> {
        let pragma = |name: &str| self.connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0));
        let pages = pragma("page_count")? - pragma("freelist_count")?;
        Ok(u64::try_from(pages * pragma("page_size")?).unwrap_or_default())
    }

    fn write(&mut self, work: Vec<HistoryWork>, questions: &mut Vec<(HistoryTicket, HistoryQuestion)>) -> Result<()> {
        let mut rows = Vec::new();
        let mut declared = Vec::new();
        for work in work {
            match work {
                HistoryWork::Declare(series) => declared.extend(series),
                HistoryWork::Write(row) => rows.push(row),
                HistoryWork::Ask(ticket, question) => questions.push((ticket, question)),
            }
        }
        if rows.is_empty() && declared.is_empty() {
            return Ok(());
        }
        let transaction = self.connection.transaction()?;
        for series in declared {
            id(&transaction, &mut self.ids, &series)?;
        }
        let insert = "INSERT OR REPLACE INTO reading (series, micros, value) VALUES (?1, ?2, ?3)";
        for HistoryRow { series, micros, values } in rows {
            let series = id(&transaction, &mut self.ids, &series)?;
            let mut statement = transaction.prepare_cached(insert)?;
            match values.as_slice() {
                [value] => statement.execute(params![series, micros, value])?,
                values => {
                    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                    statement.execute(params![series, micros, bytes])?
                }
            };
        }
        let committed = transaction.commit();
        if committed.is_err() {
            // Series created in a failed transaction don't exist.
            self.ids.clear();
        }
        committed
    }

    fn answer(&self, question: &HistoryQuestion) -> Result<HistoryAnswer> {
        let select = "SELECT id FROM series WHERE name = ?1 AND (?2 IS NULL OR event = ?2) ORDER BY period, id";
        let mut statement = self.connection.prepare_cached(select)?;
        let series: Vec<i64> =
            statement.query_map(params![question.name, question.event], |row| row.get(0))?.collect::<Result<_>>()?;
        if series.is_empty() {
            return Ok(HistoryAnswer::Unknown);
        }
        for id in series {
            let (points, more) = match question.wanted {
                WantedReadings::Span { from, to } => self.span(id, from, to)?,
                WantedReadings::Nearest { at, within } => (self.nearest(id, at, within)?.into_iter().collect(), false),
            };
            if !points.is_empty() {
                return Ok(HistoryAnswer::Points(points, more));
            }
        }
        Ok(HistoryAnswer::Points(Vec::new(), false))
    }

    fn span(&self, series: i64, from: i64, to: i64) -> Result<(Vec<RecordedPoint>, bool)> {
        let select = "SELECT micros, value FROM reading WHERE series = ?1 AND micros BETWEEN ?2 AND ?3 ORDER BY micros";
        let mut statement = self.connection.prepare_cached(select)?;
        let mut rows = statement.query(params![series, from, to])?;
        let (mut points, mut values) = (Vec::new(), 0);
        while let Some(row) = rows.next()? {
            if points.len() >= MOST_POINTS || values >= MOST_VALUES {
                return Ok((points, true));
            }
            let point = point(row)?;
            values += point.values.len();
            points.push(point);
        }
        Ok((points, false))
    }

    fn nearest(&self, series: i64, at: i64, within: i64) -> Result<Option<RecordedPoint>> {
        let one = |select: &str, limit: i64| {
            let mut statement = self.connection.prepare_cached(select)?;
            statement.query_row(params![series, at, limit], point).optional()
        };
        let before = one(
            "SELECT micros, value FROM reading WHERE series = ?1 AND micros <= ?2 AND micros >= ?3 ORDER BY micros DESC LIMIT 1",
            at.saturating_sub(within),
        )?;
        let after = one(
            "SELECT micros, value FROM reading WHERE series = ?1 AND micros > ?2 AND micros <= ?3 ORDER BY micros LIMIT 1",
            at.saturating_add(within),
        )?;
        Ok(before.into_iter().chain(after).min_by_key(|point| point.micros.abs_diff(at)))
    }

    fn oldest(&self) -> Result<Option<i64>> {
        // One index look-up per series; `min` over all rows would read them all.
        let select =
            "SELECT min((SELECT micros FROM reading WHERE series = series.id ORDER BY micros LIMIT 1)) FROM series";
        self.connection.query_row(select, [], |row| row.get(0))
    }

    fn forget_before(&mut self, micros: i64) -> Result<()> {
        let transaction = self.connection.transaction()?;
        transaction.execute("DELETE FROM reading WHERE series IN (SELECT id FROM series) AND micros < ?1", [micros])?;
        transaction.commit()
    }
}

/// Returns the number of a series, which is assigned if it has none.
fn id(
    connection: &Connection,
    ids: &mut HashMap<Arc<Series>, i64, ahash::RandomState>,
    series: &Arc<Series>,
) -> Result<i64> {
    if let Some(id) = ids.get(series) {
        return Ok(*id);
    }
    connection
        .prepare_cached(
            "INSERT INTO series (name, event, period) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET period = ?3",
        )?
        .execute(params![series.name, series.event, series.period])?;
    let found = connection
        .prepare_cached("SELECT id FROM series WHERE name = ?1 AND event = ?2")?
        .query_row(params![series.name, series.event], |row| row.get(0))?;
    ids.insert(Arc::clone(series), found);
    Ok(found)
}

fn point(row: &rusqlite::Row<'_>) -> Result<RecordedPoint> {
    let values = match row.get_ref(1)? {
        ValueRef::Blob(bytes) => bytes.as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect(),
        // NaN is stored as NULL.
        ValueRef::Null => vec![f64::NAN],
        _ => vec![row.get(1)?],
    };
    Ok(RecordedPoint { micros: row.get(0)?, values })
}

const VERSION: i64 = 1;
const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = NORMAL;
    CREATE TABLE IF NOT EXISTS series (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL, event TEXT NOT NULL, period INTEGER NOT NULL, UNIQUE (name, event));
    CREATE TABLE IF NOT EXISTS reading (
        series INTEGER NOT NULL, micros INTEGER NOT NULL, value, PRIMARY KEY (series, micros)) WITHOUT ROWID;
    PRAGMA user_version = 1;";
/// The most readings of one answer, as many as other loggers return at a time.
const MOST_POINTS: usize = 487;
/// The number of values after which an answer has no more points; each value of an array counts.
const MOST_VALUES: usize = 8192;
/// The fraction of the time span, from its oldest reading on, that is removed at once when the
/// archive is too large: one in this many.
const SHARE: i64 = 10;
