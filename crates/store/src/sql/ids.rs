//! The keys of accounts' rows, by which other tables name their owner.

use super::connection::{SqlConnection, account_values, one};
use super::statements::ACCOUNT;
use crate::StoreError;
use rookery_jid::JidRef;

/// Returns the key of an account's row.
pub(crate) fn of_account(c: &mut dyn SqlConnection, account: JidRef<'_>) -> Result<Option<i64>, StoreError> {
    one(c, ACCOUNT.without_locks(), &account_values(account), |row| row.integer(0))
}

/// Returns the key of an account's row and locks the row until the transaction ends.
pub(crate) fn of_locked(c: &mut dyn SqlConnection, account: JidRef<'_>) -> Result<Option<i64>, StoreError> {
    let account_row = ACCOUNT.on(c.dialect());
    one(c, account_row, &account_values(account), |row| row.integer(0))
}
