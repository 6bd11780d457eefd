//! MariaDB, and MySQL by the same protocol.
//!
//! As with [PostgreSQL](super::postgres), several connections with a thread each do the work of
//! SQLite's one, and rows that are to be changed are locked by the statement that reads them
//! first. The server's user needs to read and write the tables, and to create them unless they
//! exist already.

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
