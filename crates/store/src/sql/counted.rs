//! Counts and times the statements of operations: each is a round trip to a database on another
//! machine.

use super::archives::KnownArchives;
use super::connection::{EachRow, SqlConnection, SqlValue};
use super::dialect::Dialect;
use crate::StatementTimes;
use crate::StoreError;
use crate::archive::TermsOf;
use rookery_base::lock::lock;
use rookery_observe::Histogram;
use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The statements that all lanes of a store have run, without those that begin and end
/// transactions.
#[derive(Debug, Default)]
pub(crate) struct StatementTally {
    count: AtomicU64,
    /// The times, by the address of the text in memory: that is quicker to look up than the text,
    /// and nearly always as good.
    times: Mutex<HashMap<usize, (&'static str, Histogram)>>,
}

impl StatementTally {
    fn add(&self, sql: &'static str, lasted: Duration) {
        self.count.fetch_add(1, Ordering::Relaxed);
        lock(&self.times)
            .entry(sql.as_ptr() as usize)
            .or_insert_with(|| (sql, Histogram::default()))
            .1
            .record_time(lasted);
    }

    /// Returns the number of statements.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns the times of each statement, the statements that have taken most time first.
    pub(crate) fn times(&self) -> Vec<StatementTimes> {
        let mut all: BTreeMap<String, Histogram> = BTreeMap::new();
        for (sql, times) in lock(&self.times).values() {
            *all.entry(legible(sql)).or_default() += times;
        }
        let mut all: Vec<_> = all.into_iter().map(|(sql, times)| StatementTimes { sql, times }).collect();
        all.sort_by_key(|statement| std::cmp::Reverse(statement.times.sum()));
        all
    }
}

/// Returns a statement in one line, with one row of values instead of many.
pub(crate) fn legible(sql: &str) -> String {
    let text = sql.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some((head, values)) = text.split_once(" VALUES (") else { return text };
    let Some((row, mut rest)) = values.split_once(')') else { return text };
    let another = format!(", ({row})");
    while let Some(fewer) = rest.strip_prefix(&another) {
        rest = fewer;
    }
    format!("{head} VALUES ({row}){rest}")
}

/// A connection that counts its statements, except those that begin and end transactions.
pub(crate) struct CountedConnection<'a, C> {
    pub(crate) connection: &'a mut C,
    pub(crate) tally: &'a StatementTally,
    /// True once anything was written.
    pub(crate) wrote: bool,
    /// The slowest statement so far.
    pub(crate) longest: Option<(Duration, &'static str)>,
}

impl<C> CountedConnection<'_, C> {
    fn took(&mut self, sql: &'static str, since: Instant) {
        let lasted = since.elapsed();
        self.tally.add(sql, lasted);
        if self.longest.is_none_or(|(longest, _)| lasted > longest) {
            self.longest = Some((lasted, sql));
        }
    }
}

impl<C: SqlConnection> SqlConnection for CountedConnection<'_, C> {
    fn dialect(&self) -> Dialect {
        self.connection.dialect()
    }

    fn execute(&mut self, sql: &'static str, values: &[SqlValue<'_>]) -> Result<u64, StoreError> {
        let since = Instant::now();
        let changed = self.connection.execute(sql, values);
        self.took(sql, since);
        let changed = changed?;
        self.wrote |= changed > 0;
        Ok(changed)
    }

    fn query(&mut self, sql: &'static str, values: &[SqlValue<'_>], each: &mut EachRow<'_>) -> Result<(), StoreError> {
        let since = Instant::now();
        let outcome = self.connection.query(sql, values, each);
        self.took(sql, since);
        outcome
    }

    fn corrupt(&self, what: String) -> StoreError {
        self.connection.corrupt(what)
    }

    fn renew_archives(&mut self) -> Result<(), StoreError> {
        self.connection.renew_archives()
    }

    fn known_archives(&mut self) -> &mut KnownArchives {
        self.connection.known_archives()
    }

    fn terms_of(&self) -> Option<TermsOf> {
        self.connection.terms_of()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_told_apart_by_their_texts() {
        let tally = StatementTally::default();
        // The same text in two places, as static texts of two crates may be.
        let texts: [&'static str; 3] = ["SELECT  1", Box::leak(Box::from("SELECT\n 1")), "SELECT 2"];
        for (text, seconds) in texts.into_iter().zip([1, 2, 9]) {
            tally.add(text, Duration::from_secs(seconds));
        }
        let found: Vec<_> = tally.times().into_iter().map(|one| (one.sql, one.times.count())).collect();
        assert_eq!(found, [("SELECT 2".to_owned(), 1), ("SELECT 1".to_owned(), 2)]);
        assert_eq!(tally.count(), 3);
    }

    #[test]
    fn statements_that_differ_in_their_number_of_rows_are_one() {
        let cases = [
            (
                "INSERT INTO t (a, b)\n VALUES (?, ?), (?, ?), (?, ?) RETURNING a",
                "INSERT INTO t (a, b) VALUES (?, ?) RETURNING a",
            ),
            ("INSERT INTO t (a) VALUES (?)", "INSERT INTO t (a) VALUES (?)"),
            ("SELECT a FROM t WHERE b = 'x VALUES (' AND c = ?", "SELECT a FROM t WHERE b = 'x VALUES (' AND c = ?"),
            ("DELETE  FROM t", "DELETE FROM t"),
        ];
        cases.iter().for_each(|(sql, expected)| assert_eq!(legible(sql), *expected));
    }
}
