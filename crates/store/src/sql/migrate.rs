//! Updates the schema of a database, in the same way on every engine.
//!
//! An engine has a list of steps; the text of step `n` brings a schema of version `n - 1` to
//! version `n`. A released step is never changed: the next one corrects it.
//!
//! A step defines which servers can use its result, and the database stores that with its number,
//! for servers older than the step. The servers of two neighbouring releases can then use one
//! database, as during an upgrade node by node, and an upgrade can be reverted. A step may do
//! anything that servers of the previous version can cope with: add a table, an index, or a column
//! that may be left out of an `INSERT` without changing the meaning of the row. Columns that aren't
//! read any more are removed one release later.
//!
//! # Invariants
//!
//! - However many processes start at once, one of them runs the steps: the others wait, check
//!   again, and find nothing to do.
//! - A step and the record of its number are one transaction if the engine supports schema changes
//!   in one. If not, the statements of a step may be run again: after a crash, the interrupted step
//!   is repeated.
//! - Servers that use the database continue while a step runs: no step rewrites the rows of a
//!   table, none waits for a table so long that others wait for it, and an index is built while
//!   others write to its table.

use super::connection::{SqlValue, one};
use super::copy::mark::is_unfinished;
#[cfg(any(feature = "postgres", feature = "mysql"))]
use super::remote::RemoteConnection;
use super::transactions::Transactions;
use crate::StoreError;
#[cfg(any(feature = "postgres", feature = "mysql"))]
use rookery_base::hex;
#[cfg(any(feature = "postgres", feature = "mysql"))]
use sha2::{Digest, Sha256};
#[cfg(any(feature = "postgres", feature = "mysql"))]
use std::thread;
#[cfg(any(feature = "postgres", feature = "mysql"))]
use std::time::{Duration, Instant};

/// A step of a schema.
pub(crate) struct Change {
    /// Its statements.
    pub(crate) sql: &'static str,
    /// The oldest version whose servers can use the result; `None` if only servers with the step
    /// can.
    pub(crate) runs_from: Option<i64>,
    /// The index that it creates, if it creates one and does nothing else: others write to the
    /// table in the meantime.
    #[allow(dead_code, reason = "for the engines that are other processes")]
    pub(crate) index: Option<&'static str>,
}

impl Change {
    /// Returns a step that servers must know.
    pub(crate) const fn alone(sql: &'static str) -> Change {
        Change { sql, runs_from: None, index: None }
    }

    /// Returns a step that servers needn't know if they know this version.
    pub(crate) const fn beside(runs_from: i64, sql: &'static str) -> Change {
        Change { sql, runs_from: Some(runs_from), index: None }
    }

    /// Declares that the step creates an index, of a table without partitions, and does nothing
    /// else.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(crate) const fn making(self, index: &'static str) -> Change {
        Change { index: Some(index), ..self }
    }

    /// Returns the checksum by which its statements are recognised.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(crate) fn checksum(&self) -> String {
        hex::encode(Sha256::digest(self.sql))
    }
}

/// Begins and ends the changes of a schema.
pub(crate) trait Migrating: Transactions {
    /// Returns all steps, oldest first.
    fn changes(&self) -> &'static [Change];

    /// Returns the version of the schema, 0 if the database is empty. It may be newer than this
    /// server's: see [`version`].
    ///
    /// # Errors
    ///
    /// [`StoreError::Foreign`] if this server must not touch it, [`StoreError::Unfit`] if its
    /// schema was changed by other means.
    fn schema_version(&mut self) -> Result<i64, StoreError>;

    /// Returns the place of the database, for operators.
    fn place(&self) -> String;

    /// Waits until no other process migrates, and keeps others from doing so.
    fn lock_schema(&mut self) -> Result<(), StoreError>;

    /// Runs a step and records its number. `is_new` is true if the database has no users yet.
    fn run_step(&mut self, number: i64, change: &Change, is_new: bool) -> Result<(), StoreError>;

    /// Returns the statements that record that a step was run, and which servers can use the
    /// result.
    fn note_of(&self, number: i64, change: &Change) -> String;

    /// Returns the statements of a step with the record of it, and with those of a transaction
    /// where possible, for operators who run them manually.
    fn by_hand(&self, number: i64, change: &Change, is_new: bool) -> String;

    /// Keeps the changes or, after a failure, undoes as many of them as the engine can, and lets
    /// other processes migrate.
    fn unlock_schema(&mut self, outcome: Result<(), StoreError>) -> Result<(), StoreError>;
}

/// The occasion on which the schema of a database may change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Migrations {
    /// At the start of the server.
    #[default]
    Auto,
    /// Only on the operator's order; a server doesn't start on an older schema.
    Never,
}

/// A step that a database has not gone through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaStep {
    /// The version of the schema after it.
    pub number: i64,
    /// Its statements, with the one that records its number, and with those of a transaction if
    /// they can be in one.
    pub sql: String,
}

/// The steps from a database's schema to this server's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationPlan {
    /// The version that the database has, 0 if it is empty.
    pub found: i64,
    /// The version that this server knows.
    pub known: i64,
    /// The steps between the two.
    pub steps: Vec<SchemaStep>,
    /// The statements that divide its archives into months, if they should be divided and aren't.
    /// They come after the steps, outside of their transactions.
    pub division: Option<String>,
    /// The change of the index of searches, which comes last.
    pub index: IndexPlan,
}

/// The change of the index of searches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum IndexPlan {
    /// No change.
    #[default]
    Nothing,
    /// It should be created, by these statements, and filled.
    Make(String),
    /// It should be filled, which only this server can do.
    Fill,
    /// It should be removed.
    Remove,
}

/// Returns the version of a database's schema, 0 if it is empty. It is newer than this server's if
/// a newer server has recorded that this one can use it.
///
/// # Errors
///
/// [`StoreError::TooNew`] if it needs a newer server, otherwise those of
/// [`Migrating::schema_version`].
pub(crate) fn version(database: &mut dyn Migrating) -> Result<i64, StoreError> {
    let (found, known) = (database.schema_version()?, last_version(database));
    if found <= known {
        return Ok(found);
    }
    let noted = one(database, RUNS_FROM, &[SqlValue::Integer(found)], |row| row.optional_integer(0))?.flatten();
    match noted.unwrap_or(found) {
        runs_from if runs_from <= known => Ok(found),
        runs_from => Err(too_new(database, found, runs_from)),
    }
}

/// Refuses a database whose schema this server can use but doesn't know completely: a copy would
/// lack its new data.
///
/// # Errors
///
/// [`StoreError::TooNew`], otherwise those of [`Migrating::schema_version`].
pub(crate) fn refuse_newer(database: &mut dyn Migrating) -> Result<(), StoreError> {
    match database.schema_version()? {
        found if found > last_version(database) => Err(too_new(database, found, found)),
        _ => Ok(()),
    }
}

fn too_new(database: &dyn Migrating, found: i64, runs_from: i64) -> StoreError {
    StoreError::TooNew { database: database.place().into(), found, runs_from, known: last_version(database) }
}

/// Compares the steps that a database went through with those that this server knows. Returns its
/// version.
///
/// # Errors
///
/// The first step that differs.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) fn compare(applied: &[(i64, String)], changes: &[Change]) -> Result<i64, String> {
    for (at, (change, number)) in changes.iter().zip(1_i64..).enumerate() {
        match applied.get(at) {
            Some((version, checksum)) if *version == number && *checksum == change.checksum() => {}
            Some(_) => {
                return Err(format!(
                    "version {number} of its schema was made by something else than this server knows"
                ));
            }
            None => break,
        }
    }
    Ok(applied.last().map_or(0, |(version, _)| *version))
}

/// Returns the version of a schema in a database server: 0 in an empty one. The queries are for the
/// table of versions, for tables that only another program can have created, and for the versions
/// in their order, each followed by a space and its checksum.
///
/// # Errors
///
/// [`StoreError::Foreign`] if the database is another program's, [`StoreError::Unfit`] if its
/// schema was made by another tool, otherwise the engine's error.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) fn noted_version<D: RemoteConnection + Migrating>(
    database: &mut D,
    [has_schema, our_names, versions]: [&str; 3],
) -> Result<i64, StoreError> {
    let rows = rows_of_versions(|query| database.column(query), [has_schema, our_names, versions])?;
    let Some(rows) = rows else { return Err(StoreError::Foreign(database.place().into())) };
    let read = |row: &String| {
        let (version, checksum) = row.split_once(' ').unwrap_or_default();
        (version.parse().unwrap_or_default(), checksum.to_owned())
    };
    let applied: Vec<_> = rows.iter().map(read).collect();
    compare(&applied, database.changes()).map_err(|reason| StoreError::Unfit(database.engine(reason)))
}

/// Reads the rows of the table of versions, without any if the database is empty. Returns `None` if
/// it is another program's. The queries are those of [`noted_version`].
///
/// Another server may create the schema between two queries. The table of versions is its first, so
/// it is looked for after the others: tables that are there without it aren't ours.
#[cfg(any(feature = "postgres", feature = "mysql"))]
fn rows_of_versions(
    mut column: impl FnMut(&str) -> Result<Vec<String>, StoreError>,
    [has_schema, our_names, versions]: [&str; 3],
) -> Result<Option<Vec<String>>, StoreError> {
    let has_our_names = !column(our_names)?.is_empty();
    match column(has_schema)?.is_empty() {
        false => column(versions).map(Some),
        true if has_our_names => Ok(None),
        true => Ok(Some(Vec::new())),
    }
}

/// Returns the steps that a database has not gone through.
pub(crate) fn plan(database: &mut dyn Migrating) -> Result<MigrationPlan, StoreError> {
    let found = version(database)?;
    let steps = changes_after(database, found).map(|(number, change)| {
        let sql = database.by_hand(number, change, found == 0);
        SchemaStep { number, sql }
    });
    let steps = steps.collect();
    Ok(MigrationPlan { found, known: last_version(database), steps, division: None, index: IndexPlan::Nothing })
}

/// Brings a database, which may be empty, to the current schema. Returns the number of steps that
/// were run.
pub(crate) fn migrate(database: &mut dyn Migrating) -> Result<usize, StoreError> {
    if version(database)? >= last_version(database) {
        return Ok(0);
    }
    database.lock_schema()?;
    let outcome = run(database);
    let steps = outcome.as_ref().copied().unwrap_or_default();
    database.unlock_schema(outcome.map(drop))?;
    Ok(steps)
}

/// Brings a database to the current schema if that is permitted.
///
/// # Errors
///
/// [`StoreError::OldSchema`] if it isn't, [`StoreError::Unfinished`] if a copy to this database was
/// not finished.
pub(crate) fn prepare(database: &mut dyn Migrating, migrations: Migrations) -> Result<(), StoreError> {
    match migrations {
        Migrations::Auto => migrate(database).map(drop)?,
        Migrations::Never => {
            let (found, known) = (version(database)?, last_version(database));
            if found < known {
                return Err(StoreError::OldSchema { database: database.place(), found, known });
            }
        }
    }
    tell_newer(database)?;
    match is_unfinished(database)? {
        true => Err(StoreError::Unfinished(database.place())),
        false => Ok(()),
    }
}

/// Logs if a newer server has updated the database's schema.
fn tell_newer(database: &mut dyn Migrating) -> Result<(), StoreError> {
    let (found, known) = (version(database)?, last_version(database));
    if found > known {
        tracing::info!(
            database = database.place(),
            schema = found,
            known,
            "the database schema belongs to a newer server, but this one can use it"
        );
    }
    Ok(())
}

/// Reads the version again: another process may have migrated while we waited for the lock.
fn run(database: &mut dyn Migrating) -> Result<usize, StoreError> {
    let found = version(database)?;
    let steps: Vec<_> = changes_after(database, found).collect();
    for (number, change) in &steps {
        database.run_step(*number, change, found == 0)?;
        // The creation of a new database isn't logged.
        if found > 0 {
            tracing::info!(database = database.place(), schema = number, "the database schema was updated");
        }
    }
    Ok(steps.len())
}

/// Tries a blocked operation repeatedly, each time briefly, since new requests wait for it.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) fn persistently<T>(mut attempt: impl FnMut() -> Result<T, StoreError>) -> Result<T, StoreError> {
    let (until, mut is_told) = (Instant::now() + PATIENCE, false);
    loop {
        match attempt() {
            Err(error) if error.is_conflict() && Instant::now() < until => {
                if !std::mem::replace(&mut is_told, true) {
                    tracing::info!(%error, "a schema change waits for others to release its tables");
                }
                thread::sleep(PAUSE);
            }
            outcome => return outcome,
        }
    }
}

fn changes_after(database: &dyn Migrating, found: i64) -> impl Iterator<Item = (i64, &'static Change)> + use<> {
    (1..).zip(database.changes()).filter(move |(number, _)| *number > found)
}

pub(crate) fn last_version(database: &dyn Migrating) -> i64 {
    database.changes().len() as i64
}

/// The time for which a step is tried.
#[cfg(any(feature = "postgres", feature = "mysql"))]
const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// The pause between two attempts at a step, in which others use the tables.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) const PAUSE: Duration = Duration::from_millis(500);

/// Value: the version.
const RUNS_FROM: &str = "SELECT runs_from FROM rookery_schema WHERE version = ?";

/// Returns the statement above.
#[cfg(test)]
pub(in crate::sql) fn list_statements() -> Vec<crate::sql::listed::ListedTexts> {
    crate::sql::listed::listed![RUNS_FROM]
}

#[cfg(all(test, any(feature = "postgres", feature = "mysql")))]
mod tests {
    use super::*;

    /// Reads versions from a database whose tables are those of `tables` at the time of each query:
    /// the name of the table of versions, and of another one.
    fn read(tables: [&[&str]; 3]) -> Option<Vec<String>> {
        let mut moments = tables.into_iter();
        let column = |query: &str| {
            let present = moments.next().expect("three queries");
            Ok(present.iter().filter(|table| **table == query).map(|table| (*table).to_owned()).collect())
        };
        rows_of_versions(column, ["versions", "accounts", "versions"]).unwrap()
    }

    #[test]
    fn a_database_with_tables_of_another_program_is_foreign() {
        assert_eq!(read([&["accounts"]; 3]), None);
    }

    #[test]
    fn an_empty_database_has_no_versions() {
        assert_eq!(read([&[]; 3]), Some(Vec::new()));
    }

    #[test]
    fn a_schema_that_another_server_creates_meanwhile_is_never_foreign() {
        // The moments at which each of the two tables appears, the table of versions first.
        for first in 0..4 {
            for second in first..4 {
                let at = |moment: usize| -> &[&str] {
                    match (moment >= first, moment >= second) {
                        (true, true) => &["versions", "accounts"],
                        (true, false) => &["versions"],
                        _ => &[],
                    }
                };
                assert!(read([at(0), at(1), at(2)]).is_some(), "{first} {second}");
            }
        }
    }
}
