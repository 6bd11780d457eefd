//! PostgreSQL: a database on another machine, or in another process of this one.
//!
//! Several connections, each with a thread of its own, do what SQLite's one does; rows that are to be changed are locked by the statement that reads
//! them first (see `sql/dialect.rs`). The server's role needs to read and write the tables, and to make them unless they are there already.

mod check;
mod driver;
mod schema;
mod target;
mod tls;
mod values;

pub use check::check;
pub use target::{Address, Options};

use super::SqlStore;
use super::queue::Patience;
use super::store::Connections;
use crate::StoreError;
use driver::Driver;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use target::Target;

/// Opens a database and brings its schema up to date.
///
/// # Errors
///
/// [`StoreError::Lost`] if no host can be reached, [`StoreError::Unfit`] if it can't keep what this store promises, [`StoreError::TooNew`] and
/// [`StoreError::Foreign`] if it isn't for this server, otherwise what PostgreSQL reports.
pub fn open(options: &Options) -> Result<SqlStore, StoreError> {
    let target = Arc::new(Target::new(options));
    let mut driver = Driver::open(target.clone(), ANSWER)?;
    // Look before anything is written: the database may not be ours.
    schema::version(&mut driver)?;
    check::refuse_unfit(&mut driver, options.trusts_durability)?;
    schema::migrate(&mut driver)?;
    driver.run(&format!("DELETE FROM rookery_lanes WHERE since_ms < {}", a_month_ago()))?;
    let mut owners = vec![driver];
    for _ in 1..options.connections {
        owners.push(Driver::open(target.clone(), ANSWER)?);
    }
    let archive = Some(Driver::open(target.clone(), ANSWER)?);
    let reads = Some(Driver::open(target.clone(), LONG_ANSWER)?);
    let started = SqlStore::start_remote(Connections { owners, archive, reads }, options.bounds, PATIENCE);
    started.map_err(|error| StoreError::Other(target.engine(error.to_string())))
}

/// The time in milliseconds since 1970 before which a connection has ended, whatever became of its server.
fn a_month_ago() -> u128 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(MONTH).as_millis()
}

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(6);

/// How long an answer to a question may take that nobody else waits for, such as a search in an archive.
const LONG_ANSWER: Duration = Duration::from_secs(60);

/// How long an operation waits for a database that is away.
const PATIENCE: Patience = Patience { login: Duration::from_secs(10), other: Duration::from_secs(5) };

const MONTH: Duration = Duration::from_secs(30 * 24 * 60 * 60);
