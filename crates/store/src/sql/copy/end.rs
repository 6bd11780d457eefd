//! A database that is copied from or to, on any engine.

use std::fmt;
use std::path::PathBuf;

use super::copying::Copying;
use crate::StoreError;
use crate::sql::finding::Finding;
use crate::sql::migrate::MigrationPlan;
#[cfg(feature = "mysql")]
use crate::sql::mysql;
#[cfg(feature = "postgres")]
use crate::sql::postgres;
use crate::sql::queue::Patience;
use crate::sql::sqlite;
use crate::sql::store::SqlStore;

/// The address of a database.
#[derive(Clone)]
pub enum EndAddress {
    /// A file of SQLite.
    Sqlite(PathBuf),
    /// A PostgreSQL.
    #[cfg(feature = "postgres")]
    Postgres(Box<postgres::PostgresOptions>),
    /// A MariaDB or MySQL.
    #[cfg(feature = "mysql")]
    Mysql(Box<mysql::MysqlOptions>),
}

/// Compares places, regardless of the options for reaching them.
impl PartialEq for EndAddress {
    fn eq(&self, other: &EndAddress) -> bool {
        match (self, other) {
            (EndAddress::Sqlite(one), EndAddress::Sqlite(other)) => one == other,
            #[cfg(feature = "postgres")]
            (EndAddress::Postgres(one), EndAddress::Postgres(other)) => one.address == other.address,
            #[cfg(feature = "mysql")]
            (EndAddress::Mysql(one), EndAddress::Mysql(other)) => one.address == other.address,
            #[cfg(any(feature = "postgres", feature = "mysql"))]
            _ => false,
        }
    }
}

impl Eq for EndAddress {}

impl EndAddress {
    /// Reads `sqlite:FILE` or just the name of a file, or the address of a PostgreSQL, MariaDB or
    /// MySQL, which is connected to without TLS.
    ///
    /// # Errors
    ///
    /// The expected forms.
    pub fn parse(text: &str) -> Result<EndAddress, String> {
        match text.split_once(':') {
            Some(("sqlite", file)) if !file.is_empty() => Ok(EndAddress::Sqlite(file.into())),
            #[cfg(feature = "postgres")]
            Some(("postgres" | "postgresql", _)) => postgres::PostgresAddress::parse(text)
                .map(|address| EndAddress::Postgres(Box::new(postgres::PostgresOptions::at(address)))),
            #[cfg(feature = "mysql")]
            Some(("mysql" | "mariadb", _)) => mysql::MysqlAddress::parse(text)
                .map(|address| EndAddress::Mysql(Box::new(mysql::MysqlOptions::at(address)))),
            None if !text.is_empty() => Ok(EndAddress::Sqlite(text.into())),
            _ => Err(format!(
                "{text:?} isn't a database that this server knows; expected sqlite:FILE, postgres://USER@HOST/DATABASE or \
                 mysql://USER@HOST/DATABASE"
            )),
        }
    }

    /// Opens the database for a server and updates its schema if that is permitted; creates the
    /// file if it is missing.
    ///
    /// # Errors
    ///
    /// The error of the engine.
    pub fn open(&self) -> Result<SqlStore, StoreError> {
        match self {
            EndAddress::Sqlite(file) => sqlite::open(file, &sqlite::SqliteOptions::default()),
            #[cfg(feature = "postgres")]
            EndAddress::Postgres(options) => postgres::open(options),
            #[cfg(feature = "mysql")]
            EndAddress::Mysql(options) => mysql::open(options),
        }
    }

    /// Sets the time for which operations wait for a database in another process.
    #[cfg_attr(not(any(feature = "postgres", feature = "mysql")), expect(unused_variables, reason = "a file is there"))]
    #[must_use]
    pub fn with_patience(mut self, patience: Patience) -> EndAddress {
        match &mut self {
            EndAddress::Sqlite(_) => {}
            #[cfg(feature = "postgres")]
            EndAddress::Postgres(options) => options.patience = patience,
            #[cfg(feature = "mysql")]
            EndAddress::Mysql(options) => options.patience = patience,
        }
        self
    }

    /// Returns the steps of the schema that the database has not gone through. Changes nothing.
    ///
    /// # Errors
    ///
    /// The error of the engine.
    pub fn plan(&self) -> Result<MigrationPlan, StoreError> {
        match self {
            EndAddress::Sqlite(file) => sqlite::plan(file),
            #[cfg(feature = "postgres")]
            EndAddress::Postgres(options) => postgres::plan(options),
            #[cfg(feature = "mysql")]
            EndAddress::Mysql(options) => mysql::plan(options),
        }
    }

    /// Updates the schema of the database, creating the file if it is missing. Returns the number
    /// of steps that were run.
    ///
    /// # Errors
    ///
    /// The error of the engine.
    pub fn migrate(&self) -> Result<usize, StoreError> {
        match self {
            EndAddress::Sqlite(file) => sqlite::migrate(file, true),
            #[cfg(feature = "postgres")]
            EndAddress::Postgres(options) => postgres::migrate(options),
            #[cfg(feature = "mysql")]
            EndAddress::Mysql(options) => mysql::migrate(options),
        }
    }

    /// Returns whether the connection to the database could be intercepted.
    pub fn is_exposed(&self) -> bool {
        match self {
            EndAddress::Sqlite(_) => false,
            #[cfg(feature = "postgres")]
            EndAddress::Postgres(options) => options.tls.is_none() && !options.address.is_local(),
            #[cfg(feature = "mysql")]
            EndAddress::Mysql(options) => options.roots.is_none() && !options.address.is_local(),
        }
    }

    /// Checks the database, which may be in use, without changing it.
    pub fn check(&self) -> Vec<Finding> {
        match self {
            EndAddress::Sqlite(file) => sqlite::check(file),
            #[cfg(feature = "postgres")]
            EndAddress::Postgres(options) => postgres::check(options),
            #[cfg(feature = "mysql")]
            EndAddress::Mysql(options) => mysql::check(options),
        }
    }
}

/// Leaves out passwords.
impl fmt::Debug for EndAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Leaves out passwords.
impl fmt::Display for EndAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndAddress::Sqlite(file) => write!(f, "sqlite:{}", file.display()),
            #[cfg(feature = "postgres")]
            EndAddress::Postgres(options) => options.address.fmt(f),
            #[cfg(feature = "mysql")]
            EndAddress::Mysql(options) => options.address.fmt(f),
        }
    }
}

/// A connection to a database that is copied from or to.
pub struct CopyEnd {
    connection: Box<dyn Copying + Send>,
}

impl CopyEnd {
    /// Opens a database to read from it.
    ///
    /// # Errors
    ///
    /// [`StoreError::OldSchema`] if its schema has to be updated first, [`StoreError::Unfinished`]
    /// if a copy to it was not finished, otherwise the engine's error.
    pub fn source(address: &EndAddress) -> Result<CopyEnd, StoreError> {
        let connection = match address {
            EndAddress::Sqlite(file) => sqlite::source(file)?,
            #[cfg(feature = "postgres")]
            EndAddress::Postgres(options) => postgres::source(options)?,
            #[cfg(feature = "mysql")]
            EndAddress::Mysql(options) => mysql::source(options)?,
        };
        Ok(CopyEnd { connection })
    }

    /// Opens a database to fill it, creating it if that is possible, and updates its schema.
    ///
    /// # Errors
    ///
    /// The error of the engine.
    pub fn destination(address: &EndAddress) -> Result<CopyEnd, StoreError> {
        let connection = match address {
            EndAddress::Sqlite(file) => sqlite::destination(file)?,
            #[cfg(feature = "postgres")]
            EndAddress::Postgres(options) => postgres::destination(options)?,
            #[cfg(feature = "mysql")]
            EndAddress::Mysql(options) => mysql::destination(options)?,
        };
        Ok(CopyEnd { connection })
    }

    pub(super) fn connection(&mut self) -> &mut dyn Copying {
        &mut *self.connection
    }
}
