//! PostgreSQL: a database on another machine, or in another process on this one.
//!
//! Several connections, each with its own thread, do the work of SQLite's one; rows that will be
//! changed are locked by the statement that reads them first (see `sql/dialect.rs`). The server's
//! role needs permission to read and write the tables, and to create them unless they exist.

mod answers;
mod bounded;
mod check;
mod copying;
mod driver;
mod fencing;
mod months;
mod schema;
mod search;
mod target;
mod tls;
mod values;

pub use target::{PostgresAddress, PostgresOptions};

use driver::PostgresDriver;
use target::PostgresTarget;

super::opening::functions!(PostgresDriver, PostgresTarget, PostgresOptions);
