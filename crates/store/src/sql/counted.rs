//! Counts the statements of operations: each is a round trip to a database on another machine.

use super::archives::KnownArchives;
use super::connection::{EachRow, SqlConnection, SqlValue};
use super::dialect::Dialect;
use crate::StoreError;
use crate::archive::TermsOf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A connection that counts its statements, except those that begin and end transactions.
pub(crate) struct CountedConnection<'a, C> {
    pub(crate) connection: &'a mut C,
    pub(crate) statements: &'a AtomicU64,
    /// True once anything was written.
    pub(crate) wrote: bool,
    /// The slowest statement so far.
    pub(crate) longest: Option<(Duration, &'static str)>,
}

impl<C> CountedConnection<'_, C> {
    fn took(&mut self, sql: &'static str, since: Instant) {
        let lasted = since.elapsed();
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
        self.statements.fetch_add(1, Ordering::Relaxed);
        let since = Instant::now();
        let changed = self.connection.execute(sql, values);
        self.took(sql, since);
        let changed = changed?;
        self.wrote |= changed > 0;
        Ok(changed)
    }

    fn query(&mut self, sql: &'static str, values: &[SqlValue<'_>], each: &mut EachRow<'_>) -> Result<(), StoreError> {
        self.statements.fetch_add(1, Ordering::Relaxed);
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
