//! MariaDB, and MySQL by the same protocol.
//!
//! As with [PostgreSQL](super::postgres), several connections with a thread each do what SQLite's one does, and rows that are to be changed are locked by
//! the statement that reads them first. The server's user needs to read and write the tables, and to make them unless they are there already.

mod check;
mod copying;
mod driver;
mod failure;
mod fencing;
mod months;
mod schema;
mod search;
mod target;
mod values;

pub use check::check;
pub use target::{Address, Options};

use super::SqlStore;
use super::copy::copying::Copying;
use super::migrate::Plan;
use super::opening::{self, Openable, Wanted};
use super::transactions::Transactions;
use crate::StoreError;
use crate::fencing::Writer;
use driver::Driver;
use std::sync::Arc;
use std::time::Duration;
use target::Target;

/// Opens a database and brings its schema up to date.
///
/// # Errors
///
/// [`StoreError::Lost`] if no host can be reached, [`StoreError::Unfit`] if it can't keep what this store promises, [`StoreError::TooNew`] and
/// [`StoreError::Foreign`] if it isn't for this server, [`StoreError::OldSchema`] if its schema may not be changed, otherwise what MariaDB reports.
pub fn open(options: &Options) -> Result<SqlStore, StoreError> {
    opening::open::<Driver>(Target::of(options), options.wanted())
}

/// Tells which steps of the schema a database has not gone through. Changes nothing.
///
/// # Errors
///
/// As [`open`].
pub fn plan(options: &Options) -> Result<Plan, StoreError> {
    opening::plan::<Driver>(&Target::of(options), options.wanted())
}

/// Brings the schema of a database up to date, and divides its archives into months if they are to be. Returns the number of steps that the schema took.
///
/// # Errors
///
/// As [`open`].
pub fn migrate(options: &Options) -> Result<usize, StoreError> {
    opening::migrate::<Driver>(&Target::of(options), options.wanted())
}

/// Connects to copy from a database.
pub(super) fn source(options: &Options) -> Result<Box<dyn Copying + Send>, StoreError> {
    opening::source::<Driver>(&Target::of(options))
}

/// Connects to copy to a database.
pub(super) fn destination(options: &Options) -> Result<Box<dyn Copying + Send>, StoreError> {
    opening::destination::<Driver>(&Target::of(options), options.wanted())
}

/// Connects to a database of another program, to read from it.
pub(super) fn foreign(options: &Options) -> Result<Box<dyn Transactions + Send>, StoreError> {
    opening::foreign::<Driver>(&Target::of(options))
}

impl Openable for Driver {
    type Target = Target;

    fn connect(target: &Arc<Target>, limit: Duration) -> Result<Driver, StoreError> {
        Driver::open(target.clone(), limit)
    }

    fn allow(&mut self, limit: Duration) -> Result<(), StoreError> {
        self.wait_for(limit).map(drop)
    }

    fn unfit(&mut self, trusts_durability: bool) -> Result<Vec<String>, StoreError> {
        check::unfit(self, trusts_durability)
    }

    fn enlist(&mut self, own: Writer, lanes: &[i64]) -> Result<(), StoreError> {
        fencing::enlist(self, own, lanes)
    }

    fn fence(&mut self, other: Writer, own: Option<i64>) -> Result<bool, StoreError> {
        fencing::fence(self, other, own)
    }

    fn forget_lanes(&mut self) -> Result<(), StoreError> {
        self.forget_ended()
    }

    fn division(end: u64) -> String {
        months::division(end)
    }

    fn index() -> String {
        search::statements(false)
    }
}

impl Options {
    fn wanted(&self) -> Wanted {
        let Options { connections, trusts_durability, months, terms_of, bounds, patience, migrations, .. } = *self;
        Wanted { connections, trusts_durability, months, terms_of, bounds, patience, migrations }
    }
}

impl Target {
    fn of(options: &Options) -> Arc<Target> {
        Arc::new(Target::new(options))
    }
}
