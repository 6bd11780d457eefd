//! Brings the schema of a database up to date, in the same way on every engine.
//!
//! An engine has a list of steps; the text of step `n` brings a schema of version `n - 1` to version `n`. A step that was released is
//! never changed: the next one mends it.
//!
//! # Invariants
//!
//! - However many processes start at once, one of them runs the steps: the others wait, look again, and find nothing to do.
//! - A step and the note of its number are one transaction where the engine's schema changes can be in one. Where they can't, the statements
//!   of a step may be run again: a crash in the middle goes on from the step that was interrupted.

use super::copy::mark::is_unfinished;
use super::transactions::Transactions;
use crate::StoreError;

/// Begins and ends what a schema changes in.
pub(crate) trait Migrating: Transactions {
    /// Returns the texts of all steps, oldest first.
    fn steps(&self) -> &'static [&'static str];

    /// Returns the version of the schema, 0 if the database is empty.
    ///
    /// # Errors
    ///
    /// [`StoreError::Foreign`] or [`StoreError::TooNew`] if this server must not touch it.
    fn schema_version(&mut self) -> Result<i64, StoreError>;

    /// Returns where the database is, for operators.
    fn place(&self) -> String;

    /// Waits until nobody else migrates, and keeps others from it. Begins a transaction where the schema can change in one.
    fn lock_schema(&mut self) -> Result<(), StoreError>;

    /// Runs the statements of a text.
    fn run_statements(&mut self, text: &str) -> Result<(), StoreError>;

    /// Returns the statements that note that a step was run.
    fn note_of(&self, number: i64) -> String;

    /// Keeps what was done, or undoes as much of it as the engine can if it failed, and lets others migrate.
    fn unlock_schema(&mut self, outcome: Result<(), StoreError>) -> Result<(), StoreError>;
}

/// Says when the schema of a database may change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Migrations {
    /// When the server starts.
    #[default]
    Auto,
    /// When an operator says so; a server doesn't start on an older one.
    Never,
}

/// A step that a database has not gone through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The version of the schema behind it.
    pub number: i64,
    /// Its statements, with the one that notes its number.
    pub sql: String,
}

/// The way from the schema that a database has to the one that this server knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The version that the database has, 0 if it is empty.
    pub found: i64,
    /// The version that this server knows.
    pub known: i64,
    /// The steps between the two.
    pub steps: Vec<Step>,
    /// The statements that divide its archives into months, if they are to be divided and aren't. They come behind the steps, in no transaction
    /// with them.
    pub division: Option<String>,
    /// What is to be done about the index of searches, behind all that.
    pub index: IndexPlan,
}

/// Tells what is to be done about the index of searches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum IndexPlan {
    /// It is as it should be.
    #[default]
    Nothing,
    /// It is to be made, by these statements, and filled.
    Make(String),
    /// It is to be filled, which only this server can do.
    Fill,
    /// It isn't wanted any more.
    Remove,
}

/// Tells which steps a database has not gone through.
pub(crate) fn plan(database: &mut dyn Migrating) -> Result<Plan, StoreError> {
    let found = database.schema_version()?;
    let steps = left(database, found).map(|(number, text)| (number, format!("{text}{}\n", database.note_of(number))));
    let steps = steps.map(|(number, sql)| Step { number, sql }).collect();
    Ok(Plan { found, known: known(database), steps, division: None, index: IndexPlan::Nothing })
}

/// Brings a database, which may be empty, to the current schema. Returns the number of steps that it took.
pub(crate) fn migrate(database: &mut dyn Migrating) -> Result<usize, StoreError> {
    if database.schema_version()? == known(database) {
        return Ok(0);
    }
    database.lock_schema()?;
    let outcome = run(database);
    let steps = outcome.as_ref().copied().unwrap_or_default();
    database.unlock_schema(outcome.map(drop))?;
    Ok(steps)
}

/// Brings a database to the current schema if that may be.
///
/// # Errors
///
/// [`StoreError::OldSchema`] if it may not be, [`StoreError::Unfinished`] if a copy to this database was not ended.
pub(crate) fn prepare(database: &mut dyn Migrating, migrations: Migrations) -> Result<(), StoreError> {
    match migrations {
        Migrations::Auto => migrate(database).map(drop)?,
        Migrations::Never => {
            let (found, known) = (database.schema_version()?, known(database));
            if found != known {
                return Err(StoreError::OldSchema { database: database.place(), found, known });
            }
        }
    }
    match is_unfinished(database)? {
        true => Err(StoreError::Unfinished(database.place())),
        false => Ok(()),
    }
}

/// Reads the version again: another process may have migrated while we waited for the lock.
fn run(database: &mut dyn Migrating) -> Result<usize, StoreError> {
    let found = database.schema_version()?;
    let steps: Vec<_> = left(database, found).collect();
    for (number, text) in &steps {
        database.run_statements(text)?;
        database.run_statements(&database.note_of(*number))?;
        // A new database is no news.
        if found > 0 {
            tracing::info!(database = database.place(), schema = number, "the database schema was updated");
        }
    }
    Ok(steps.len())
}

fn left(database: &dyn Migrating, found: i64) -> impl Iterator<Item = (i64, &'static str)> + use<> {
    (1..).zip(database.steps().iter().copied()).filter(move |(number, _)| *number > found)
}

fn known(database: &dyn Migrating) -> i64 {
    database.steps().len() as i64
}
