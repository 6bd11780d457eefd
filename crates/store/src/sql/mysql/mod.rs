//! MariaDB, and MySQL by the same protocol.
//!
//! As with [PostgreSQL](super::postgres), several connections with a thread each do what SQLite's one does, and rows that are to be changed are locked by
//! the statement that reads them first. The server's user needs to read and write the tables, and to make them unless they are there already.

mod check;
mod copying;
mod driver;
mod failure;
mod months;
mod schema;
mod target;
mod values;

pub use check::check;
pub use target::{Address, Options};

use super::SqlStore;
use super::archive::months::{self as division, Months};
use super::copy::copying::Copying;
use super::migrate::{self, Migrations, Plan};
use super::queue::Patience;
use super::store::Connections;
use super::transactions::Transactions;
use crate::StoreError;
use driver::Driver;
use std::sync::Arc;
use std::time::Duration;
use target::{ANSWER, Target};

/// Opens a database and brings its schema up to date.
///
/// # Errors
///
/// [`StoreError::Lost`] if no host can be reached, [`StoreError::Unfit`] if it can't keep what this store promises, [`StoreError::TooNew`] and
/// [`StoreError::Foreign`] if it isn't for this server, [`StoreError::OldSchema`] if its schema may not be changed, otherwise what MariaDB reports.
pub fn open(options: &Options) -> Result<SqlStore, StoreError> {
    let target = Arc::new(Target::new(options));
    let mut driver = fit(&target, options)?;
    migrate::prepare(&mut driver, options.migrations)?;
    driver.forget_lanes()?;
    if options.migrations == Migrations::Auto {
        division::prepare(&mut *look_after(&target)?, options.months)?;
    }
    let mut owners = vec![driver];
    for _ in 1..options.connections {
        owners.push(Driver::open(target.clone(), ANSWER)?);
    }
    let archive = Some(Driver::open(target.clone(), ANSWER)?);
    let reads = Some(Driver::open(target.clone(), LONG_ANSWER)?);
    let started = SqlStore::start_remote(Connections { owners, archive, reads }, options.bounds, PATIENCE);
    let store = started.map_err(|error| StoreError::Other(target.engine(error.to_string())))?;
    Ok(match options.migrations {
        Migrations::Auto => store.with_months(Arc::new(move || look_after(&target))),
        // Who may not change tables can't.
        Migrations::Never => store,
    })
}

/// Connects to look after the months of archives.
fn look_after(target: &Arc<Target>) -> Result<Box<dyn Months>, StoreError> {
    Ok(Box::new(Driver::open(target.clone(), LONG_ANSWER)?))
}

/// Tells which steps of the schema a database has not gone through. Changes nothing.
///
/// # Errors
///
/// As [`open`].
pub fn plan(options: &Options) -> Result<Plan, StoreError> {
    let mut driver = Driver::open(Arc::new(Target::new(options)), ANSWER)?;
    let plan = migrate::plan(&mut driver)?;
    let is_due = options.months && driver.parts()?.is_empty();
    Ok(Plan { division: is_due.then(|| months::division(division::first_end())), ..plan })
}

/// Brings the schema of a database up to date, and divides its archives into months if they are to be. Returns the number of steps that the schema took.
///
/// # Errors
///
/// As [`open`].
pub fn migrate(options: &Options) -> Result<usize, StoreError> {
    let mut driver = fit(&Arc::new(Target::new(options)), options)?;
    let steps = migrate::migrate(&mut driver)?;
    if options.months || !driver.parts()?.is_empty() {
        division::divide(&mut driver)?;
    }
    Ok(steps)
}

/// Connects, and looks before anything is written: the database may not be ours.
fn fit(target: &Arc<Target>, options: &Options) -> Result<Driver, StoreError> {
    let mut driver = Driver::open(target.clone(), ANSWER)?;
    schema::version(&mut driver)?;
    check::refuse_unfit(&mut driver, options.trusts_durability)?;
    Ok(driver)
}

/// Connects to copy from a database.
pub(super) fn source(options: &Options) -> Result<Box<dyn Copying + Send>, StoreError> {
    let mut driver = Driver::open(Arc::new(Target::new(options)), LONG_ANSWER)?;
    migrate::prepare(&mut driver, Migrations::Never)?;
    Ok(Box::new(driver))
}

/// Connects to copy to a database.
pub(super) fn destination(options: &Options) -> Result<Box<dyn Copying + Send>, StoreError> {
    let target = Arc::new(Target::new(options));
    let mut driver = fit(&target, options)?;
    migrate::migrate(&mut driver)?;
    if options.months {
        division::prepare(&mut *look_after(&target)?, true)?;
    }
    driver.wait_for(LONG_ANSWER)?;
    Ok(Box::new(driver))
}

/// Connects to a database of another program, to read from it.
pub(super) fn foreign(options: &Options) -> Result<Box<dyn Transactions + Send>, StoreError> {
    Ok(Box::new(Driver::open(Arc::new(Target::new(options)), LONG_ANSWER)?))
}

/// How long an answer to a question may take that nobody else waits for, such as a search in an archive.
const LONG_ANSWER: Duration = Duration::from_secs(60);

/// How long an operation waits for a database that is away.
const PATIENCE: Patience = Patience { login: Duration::from_secs(10), other: Duration::from_secs(5) };
