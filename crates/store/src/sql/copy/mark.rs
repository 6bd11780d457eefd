//! The mark of a database with an unfinished copy.

use crate::StoreError;
use crate::sql::connection::{SqlConnection, SqlValue, one};

/// Returns whether a copy into a database was begun and not finished.
pub(crate) fn is_unfinished(c: &mut dyn SqlConnection) -> Result<bool, StoreError> {
    Ok(one(c, MARKED, &[SqlValue::Text(MARK)], |_| Ok(()))?.is_some())
}

/// The name of the mark.
pub(super) const MARK: &str = "copying";

/// Value: the name.
const MARKED: &str = "SELECT value FROM counters WHERE name = ?";

/// Value: the name.
pub(super) const SET_MARK: &str = "INSERT INTO counters (name, value) VALUES (?, 1)";

/// Returns the statements above.
#[cfg(test)]
pub(in crate::sql) fn list_statements() -> Vec<crate::sql::listed::ListedTexts> {
    crate::sql::listed::listed![MARKED, SET_MARK]
}
