//! The rows of archives, by their owners.

use crate::StoreError;
use crate::sql::connection::{SqlConnection, account_values, one};
use crate::sql::dialect::{DialectText, locking};
use rookery_jid::JidRef;

/// Returns the key of an owner's archive.
pub(super) fn archive(c: &mut dyn SqlConnection, owner: JidRef<'_>) -> Result<Option<i64>, StoreError> {
    one(c, ARCHIVE.without_locks(), &account_values(owner), |row| row.integer(0))
}

/// Returns the key of an archive's row and locks the row until the transaction ends.
pub(super) fn lock_archive(c: &mut dyn SqlConnection, owner: JidRef<'_>) -> Result<Option<i64>, StoreError> {
    let archive = ARCHIVE.on(c.dialect());
    one(c, archive, &account_values(owner), |row| row.integer(0))
}

/// Values: domain, localpart.
const ARCHIVE: DialectText = locking!("SELECT id FROM archives WHERE domain = ? AND localpart = ?");

/// Returns the statements above.
#[cfg(test)]
pub(in crate::sql) fn list_statements() -> Vec<crate::sql::listed::ListedTexts> {
    crate::sql::listed::listed![ARCHIVE]
}
