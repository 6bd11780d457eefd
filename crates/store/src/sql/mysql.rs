//! MariaDB, and MySQL by the same protocol.
//!
//! As with [PostgreSQL](super::postgres), several connections with a thread each do the work of
//! SQLite's one, and rows that will be changed are locked by the statement that reads them first.
//! The server's user needs permission to read and write the tables, and to create them unless they
//! exist.

mod answers;
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

pub use target::{MysqlAddress, MysqlOptions};

use driver::MysqlDriver;
use target::MysqlTarget;

super::opening::functions!(MysqlDriver, MysqlTarget, MysqlOptions);
