//! The key by which maps in memory hold accounts and rooms.

use rookery_jid::JidRef;

/// Returns the domain and the localpart of an address, in which order lists are sorted.
pub(super) fn key(account: JidRef<'_>) -> (String, String) {
    (account.domain().to_owned(), account.local().unwrap_or_default().to_owned())
}
