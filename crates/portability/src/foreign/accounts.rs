//! The interface to the accounts in a database of another server, whatever its schema is.

use rookery_store::StoreError;
use rookery_store::sql::foreign::{Foreign, ForeignKey, TextRow};
use rookery_xml::Element;

use super::elements::text;

/// The accounts in a database of another server.
pub trait ForeignAccounts {
    /// Returns the domains that have accounts; `None` if the database has no domains.
    fn domains(&mut self) -> Result<Option<Vec<String>>, ForeignFault>;

    /// Returns the names of the accounts that come after `after`, in order. There are none at the
    /// end.
    fn names(&mut self, domain: &str, after: Option<&str>) -> Result<Vec<String>, ForeignFault>;

    /// Returns an account without its archive: the password, if it is known, and the parts.
    fn account(&mut self, domain: &str, name: &str) -> Result<(Option<String>, Vec<Element>), ForeignFault>;

    /// Returns the messages of an archive that come after a position, and the next position, which
    /// is `None` if there are no more.
    fn archive(
        &mut self,
        domain: &str,
        name: &str,
        after: Option<ArchivePosition>,
    ) -> Result<(Vec<Element>, Option<ArchivePosition>), ForeignFault>;
}

/// The position of a message in an archive: the numbers by which its table orders messages. No two
/// messages of an archive have the same, or some would be lost between two pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivePosition(Vec<i64>);

impl ArchivePosition {
    /// Returns the position of a row, whose first columns are `numbers` numbers; `None` without a
    /// row.
    pub fn of(row: Option<&TextRow>, numbers: usize) -> Option<Self> {
        let row = row?;
        Some(ArchivePosition((0..numbers).map(|column| text(row, column).parse().ok()).collect::<Option<_>>()?))
    }

    /// Returns the numbers as keys by which the rows after them are found.
    pub fn keys(after: Option<Self>) -> Option<Vec<ForeignKey<'static>>> {
        Some(after?.0.into_iter().map(ForeignKey::Number).collect())
    }
}

/// The reason why a database can't be read.
#[derive(Debug)]
pub struct ForeignFault(pub String);

impl From<StoreError> for ForeignFault {
    fn from(error: StoreError) -> Self {
        ForeignFault(error.to_string())
    }
}

/// Checks that a database has a table of the server that the operator named. Returns the columns of
/// the table.
pub fn has_table(foreign: &mut Foreign, table: &str, server: &str) -> Result<Vec<String>, ForeignFault> {
    let columns = foreign.columns(table)?;
    match columns.is_empty() {
        false => Ok(columns),
        true => Err(ForeignFault(format!("there is no table {table:?} in it, so it isn't a database of {server}"))),
    }
}

/// The most accounts that are read at a time.
pub const NAMES: usize = 1000;
/// The most messages of an archive that are read at a time.
pub const MESSAGES: usize = 500;
