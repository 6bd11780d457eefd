//! A database that is copied from or to, whatever its engine.

use std::fmt;
use std::path::PathBuf;

use super::copying::Copying;
use crate::StoreError;
use crate::sql::finding::Finding;
use crate::sql::migrate::Plan;
#[cfg(feature = "mysql")]
use crate::sql::mysql;
#[cfg(feature = "postgres")]
use crate::sql::postgres;
use crate::sql::queue::Patience;
use crate::sql::sqlite;
use crate::sql::store::SqlStore;

/// The place of a database.
#[derive(Clone)]
pub enum Address {
    /// A file of SQLite.
    Sqlite(PathBuf),
    /// A PostgreSQL.
    #[cfg(feature = "postgres")]
    Postgres(Box<postgres::Options>),
    /// A MariaDB or MySQL.
    #[cfg(feature = "mysql")]
    Mysql(Box<mysql::Options>),
}

/// The same place, however one gets there.
impl PartialEq for Address {
    fn eq(&self, other: &Address) -> bool {
        match (self, other) {
            (Address::Sqlite(one), Address::Sqlite(other)) => one == other,
            #[cfg(feature = "postgres")]
            (Address::Postgres(one), Address::Postgres(other)) => one.address == other.address,
            #[cfg(feature = "mysql")]
            (Address::Mysql(one), Address::Mysql(other)) => one.address == other.address,
            #[cfg(any(feature = "postgres", feature = "mysql"))]
            _ => false,
        }
    }
}

impl Eq for Address {}

impl Address {
    /// Reads `sqlite:FILE`, or the name of a file alone; the address of a PostgreSQL, MariaDB or
    /// MySQL, which is connected to in the clear.
    ///
    /// # Errors
    ///
    /// What is expected instead.
    pub fn parse(text: &str) -> Result<Address, String> {
        match text.split_once(':') {
            Some(("sqlite", file)) if !file.is_empty() => Ok(Address::Sqlite(file.into())),
            #[cfg(feature = "postgres")]
            Some(("postgres" | "postgresql", _)) => postgres::Address::parse(text)
                .map(|address| Address::Postgres(Box::new(postgres::Options::at(address)))),
            #[cfg(feature = "mysql")]
            Some(("mysql" | "mariadb", _)) => {
                mysql::Address::parse(text).map(|address| Address::Mysql(Box::new(mysql::Options::at(address))))
            }
            None if !text.is_empty() => Ok(Address::Sqlite(text.into())),
            _ => Err(format!(
                "{text:?} is no database that this server knows: sqlite:FILE, postgres://USER@HOST/DATABASE or \
                 mysql://USER@HOST/DATABASE is expected"
            )),
        }
    }

    /// Opens the database for a server and brings its schema up to date if that may be; makes a
    /// file if there is none.
    ///
    /// # Errors
    ///
    /// The error of the engine.
    pub fn open(&self) -> Result<SqlStore, StoreError> {
        match self {
            Address::Sqlite(file) => sqlite::open(file, &sqlite::Options::default()),
            #[cfg(feature = "postgres")]
            Address::Postgres(options) => postgres::open(options),
            #[cfg(feature = "mysql")]
            Address::Mysql(options) => mysql::open(options),
        }
    }

    /// Lets what is done with the database wait so long for it, if it is another process.
    #[cfg_attr(not(any(feature = "postgres", feature = "mysql")), expect(unused_variables, reason = "a file is there"))]
    #[must_use]
    pub fn with_patience(mut self, patience: Patience) -> Address {
        match &mut self {
            Address::Sqlite(_) => {}
            #[cfg(feature = "postgres")]
            Address::Postgres(options) => options.patience = patience,
            #[cfg(feature = "mysql")]
            Address::Mysql(options) => options.patience = patience,
        }
        self
    }

    /// Tells which steps of the schema the database has not gone through. Changes nothing.
    ///
    /// # Errors
    ///
    /// The error of the engine.
    pub fn plan(&self) -> Result<Plan, StoreError> {
        match self {
            Address::Sqlite(file) => sqlite::plan(file),
            #[cfg(feature = "postgres")]
            Address::Postgres(options) => postgres::plan(options),
            #[cfg(feature = "mysql")]
            Address::Mysql(options) => mysql::plan(options),
        }
    }

    /// Brings the schema of the database up to date, making a file if there is none. Returns the
    /// number of steps that it took.
    ///
    /// # Errors
    ///
    /// The error of the engine.
    pub fn migrate(&self) -> Result<usize, StoreError> {
        match self {
            Address::Sqlite(file) => sqlite::migrate(file),
            #[cfg(feature = "postgres")]
            Address::Postgres(options) => postgres::migrate(options),
            #[cfg(feature = "mysql")]
            Address::Mysql(options) => mysql::migrate(options),
        }
    }

    /// Tells whether somebody on the way to the database could listen.
    pub fn is_exposed(&self) -> bool {
        match self {
            Address::Sqlite(_) => false,
            #[cfg(feature = "postgres")]
            Address::Postgres(options) => options.tls.is_none() && !options.address.is_local(),
            #[cfg(feature = "mysql")]
            Address::Mysql(options) => options.roots.is_none() && !options.address.is_local(),
        }
    }

    /// Checks the database, which may be in use. Changes nothing in it.
    pub fn check(&self) -> Vec<Finding> {
        match self {
            Address::Sqlite(file) => sqlite::check(file),
            #[cfg(feature = "postgres")]
            Address::Postgres(options) => postgres::check(options),
            #[cfg(feature = "mysql")]
            Address::Mysql(options) => mysql::check(options),
        }
    }
}

/// Without passwords.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Without passwords.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Sqlite(file) => write!(f, "sqlite:{}", file.display()),
            #[cfg(feature = "postgres")]
            Address::Postgres(options) => options.address.fmt(f),
            #[cfg(feature = "mysql")]
            Address::Mysql(options) => options.address.fmt(f),
        }
    }
}

/// A connection to a database that is copied from or to.
pub struct End {
    connection: Box<dyn Copying + Send>,
}

impl End {
    /// Opens a database to read from it.
    ///
    /// # Errors
    ///
    /// [`StoreError::OldSchema`] if it has to be brought up to date first,
    /// [`StoreError::Unfinished`] if a copy to it was not ended, otherwise what the engine says.
    pub fn source(address: &Address) -> Result<End, StoreError> {
        let connection = match address {
            Address::Sqlite(file) => sqlite::source(file)?,
            #[cfg(feature = "postgres")]
            Address::Postgres(options) => postgres::source(options)?,
            #[cfg(feature = "mysql")]
            Address::Mysql(options) => mysql::source(options)?,
        };
        Ok(End { connection })
    }

    /// Opens a database to fill it: makes it if that is up to us, and brings its schema up to date.
    ///
    /// # Errors
    ///
    /// The error of the engine.
    pub fn destination(address: &Address) -> Result<End, StoreError> {
        let connection = match address {
            Address::Sqlite(file) => sqlite::destination(file)?,
            #[cfg(feature = "postgres")]
            Address::Postgres(options) => postgres::destination(options)?,
            #[cfg(feature = "mysql")]
            Address::Mysql(options) => mysql::destination(options)?,
        };
        Ok(End { connection })
    }

    pub(super) fn connection(&mut self) -> &mut dyn Copying {
        &mut *self.connection
    }
}
