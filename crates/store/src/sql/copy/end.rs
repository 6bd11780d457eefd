//! A database that is copied from or to, whatever its engine.

use std::fmt;
use std::path::PathBuf;

use super::copying::Copying;
use crate::StoreError;
#[cfg(feature = "postgres")]
use crate::sql::postgres;
use crate::sql::sqlite;

/// The place of a database.
#[derive(Clone)]
pub enum Address {
    /// A file of SQLite.
    Sqlite(PathBuf),
    /// A PostgreSQL.
    #[cfg(feature = "postgres")]
    Postgres(Box<postgres::Options>),
}

/// The same place, however one gets there.
impl PartialEq for Address {
    fn eq(&self, other: &Address) -> bool {
        match (self, other) {
            (Address::Sqlite(one), Address::Sqlite(other)) => one == other,
            #[cfg(feature = "postgres")]
            (Address::Postgres(one), Address::Postgres(other)) => one.address == other.address,
            #[cfg(feature = "postgres")]
            _ => false,
        }
    }
}

impl Address {
    /// Reads `sqlite:FILE`, or the name of a file alone; the address of a PostgreSQL, which is connected to in the clear.
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
            None if !text.is_empty() => Ok(Address::Sqlite(text.into())),
            _ => Err(format!(
                "{text:?} is no database that this server knows: sqlite:FILE or postgres://USER@HOST/DATABASE is expected"
            )),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Sqlite(file) => write!(f, "sqlite:{}", file.display()),
            #[cfg(feature = "postgres")]
            Address::Postgres(options) => options.address.fmt(f),
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
    /// [`StoreError::OldSchema`] if it has to be brought up to date first, [`StoreError::Unfinished`] if a copy to it was not ended,
    /// otherwise what the engine says.
    pub fn source(address: &Address) -> Result<End, StoreError> {
        let connection = match address {
            Address::Sqlite(file) => sqlite::source(file)?,
            #[cfg(feature = "postgres")]
            Address::Postgres(options) => postgres::source(options)?,
        };
        Ok(End { connection })
    }

    /// Opens a database to fill it: makes it if that is up to us, and brings its schema up to date.
    ///
    /// # Errors
    ///
    /// What the engine says.
    pub fn destination(address: &Address) -> Result<End, StoreError> {
        let connection = match address {
            Address::Sqlite(file) => sqlite::destination(file)?,
            #[cfg(feature = "postgres")]
            Address::Postgres(options) => postgres::destination(options)?,
        };
        Ok(End { connection })
    }

    pub(super) fn connection(&mut self) -> &mut dyn Copying {
        &mut *self.connection
    }
}
