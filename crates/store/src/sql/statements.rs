//! The statements of accounts, rosters, offline messages and accounts' other data; those of the
//! archive, of publish-subscribe, of rooms and of uploads are next to their operations.
//!
//! All of them keep to what SQLite, PostgreSQL and MariaDB support: `?` in order for the values (a
//! driver may number them), no upsert, no `RETURNING`, no generated keys read back, no arithmetic
//! on two values. The few that can't are [`DialectText`]s, with the differences in their macros.
//! Other differences between engines – types, key generation, collation by bytes, cascading – are
//! in each engine's schema.
//!
//! Except with SQLite, other connections may write at the same time. An operation whose writes
//! depend on its reads therefore begins with a query that locks the head of its data
//! ([`locking!`]), in the order of account, room, node. If two create the same row, a unique key
//! lets one of them win, and the other is run again.
//!
//! Inserts select their values: if the file may not grow any further, SQLite then rolls back only
//! that statement, not the whole transaction with others' writes.

use super::dialect::{DialectText, by_digest, locking};
use super::many::{ByTexts, Rows};

// Accounts: named by (domain, localpart), in this order.

pub(crate) const ACCOUNT: DialectText = locking!("SELECT id FROM accounts WHERE domain = ? AND localpart = ?");

/// Returns a text with the time of the database in it, in milliseconds since 1970: operators
/// compare times of accounts that different servers have created.
macro_rules! with_time {
    ($before:literal, $after:literal) => {
        DialectText {
            sqlite: concat!($before, "CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)", $after),
            postgres: concat!($before, "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)", $after),
            mysql: concat!($before, "CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED)", $after),
        }
    };
}

pub(crate) const NOW: DialectText = with_time!("SELECT ", "");

/// Values: domain, localpart, domain, localpart.
pub(crate) const CREATE_ACCOUNT: DialectText = with_time!(
    "INSERT INTO accounts (domain, localpart, created_ms, roster_version, roster_oldest, roster_items, offline_messages) SELECT ?, ?, ",
    ", value, value, 0, 0 FROM counters WHERE name = 'next_roster_version' \
     AND NOT EXISTS (SELECT 1 FROM accounts WHERE domain = ? AND localpart = ?)"
);

/// Removes by cascade all rows that refer to it.
pub(crate) const REMOVE_ACCOUNT: &str = "DELETE FROM accounts WHERE id = ?";

/// Values: domain, localpart after which to start, limit.
pub(crate) const LIST_ACCOUNTS: &str =
    "SELECT localpart FROM accounts WHERE domain = ? AND localpart > ? ORDER BY localpart LIMIT ?";

pub(crate) const COUNT_ACCOUNTS: &str = "SELECT COUNT(*) FROM accounts";

pub(crate) const COUNT_ACCOUNTS_OF_DOMAIN: &str = "SELECT COUNT(*) FROM accounts WHERE domain = ?";

// SCRAM keys: one row per account and hash.

/// Values: account.
pub(crate) const REMOVE_KEYS: &str = "DELETE FROM scram_keys WHERE account = ?";

// Rosters.

/// The account, with the roster data in its row.
pub(crate) const ROSTER: DialectText =
    locking!("SELECT id, roster_version, roster_items FROM accounts WHERE domain = ? AND localpart = ?");

/// The items changed after a version, with the roster's head; one row without an item if there are
/// none. Values: version, domain, localpart.
pub(crate) const ROSTER_ITEMS: &str = "\
    SELECT i.contact, i.version, i.name, i.roster_groups, i.subscription, i.ask, i.approved, i.listed, i.pending_in, \
    a.roster_version, a.roster_oldest \
    FROM accounts a LEFT JOIN roster_items i ON i.owner = a.id AND i.version > ? \
    WHERE a.domain = ? AND a.localpart = ? ORDER BY i.contact";

/// Values: owner, contact.
pub(crate) const ROSTER_ITEM: DialectText = by_digest!(
    "SELECT contact, version, name, roster_groups, subscription, ask, approved, listed, pending_in \
     FROM roster_items WHERE owner = ? AND ",
    "contact",
    ""
);

/// Values: owner, contacts.
pub(crate) static ROSTER_ITEMS_OF: ByTexts = ByTexts::new(
    "SELECT contact, version, name, roster_groups, subscription, ask, approved, listed, pending_in \
     FROM roster_items WHERE owner = ? AND contact IN ",
    "SELECT contact, version, name, roster_groups, subscription, ask, approved, listed, pending_in \
     FROM roster_items WHERE owner = ? AND contact_digest IN ",
    "SELECT i.* FROM generate_series(0, length($2::bytea) / 32 - 1) AS place \
     JOIN LATERAL (SELECT contact, version, name, roster_groups, subscription, ask, approved, listed, pending_in \
        FROM roster_items WHERE owner = $1 AND contact_digest = substr($2::bytea, place * 32 + 1, 32) OFFSET 0) i ON true",
);

/// Values: version, name, groups, subscription, ask, approved, listed, request, owner, contact.
pub(crate) const INSERT_ROSTER_ITEM: &str = "\
    INSERT INTO roster_items \
    (version, name, roster_groups, subscription, ask, approved, listed, pending_in, owner, contact) \
    SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?";

/// Values of each row: as for [`INSERT_ROSTER_ITEM`].
pub(crate) static INSERT_ROSTER_ITEMS: Rows = Rows::new(
    "INSERT INTO roster_items \
     (version, name, roster_groups, subscription, ask, approved, listed, pending_in, owner, contact) VALUES",
    "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
);

/// Values: as for [`INSERT_ROSTER_ITEM`].
pub(crate) const UPDATE_ROSTER_ITEM: DialectText = by_digest!(
    "UPDATE roster_items SET version = ?, name = ?, roster_groups = ?, subscription = ?, ask = ?, approved = ?, \
     listed = ?, pending_in = ? WHERE owner = ? AND ",
    "contact",
    ""
);

/// Values: owner, contact.
pub(crate) const REMOVE_ROSTER_ITEM: DialectText =
    by_digest!("DELETE FROM roster_items WHERE owner = ? AND ", "contact", "");

/// Values: version, items, owner.
pub(crate) const UPDATE_ROSTER: &str = "UPDATE accounts SET roster_version = ?, roster_items = ? WHERE id = ?";

/// One row without a contact if there are none. Values: domain, localpart.
pub(crate) const CONTACTS: &str = "\
    SELECT i.contact, i.subscription FROM accounts a LEFT JOIN roster_items i ON i.owner = a.id AND i.subscription > 0 \
    WHERE a.domain = ? AND a.localpart = ? ORDER BY i.contact";

/// One row without a contact if there are none. Values: contact, domain, localpart, number.
pub(crate) const REQUESTS: &str = "\
    SELECT i.contact, i.pending_in FROM accounts a \
    LEFT JOIN roster_items i ON i.owner = a.id AND i.contact > ? AND i.pending_in IS NOT NULL \
    WHERE a.domain = ? AND a.localpart = ? ORDER BY i.contact LIMIT ?";

/// The number of items that clients see, their bytes, and the number of all. Values: owner.
pub(crate) const ROSTER_SIZE: &str = "\
    SELECT COALESCE(SUM(CASE WHEN seen THEN 1 ELSE 0 END), 0), COALESCE(SUM(CASE WHEN seen THEN bytes ELSE 0 END), 0), COUNT(*) FROM ( \
        SELECT listed <> 0 OR subscription <> 0 OR ask <> 0 OR approved <> 0 OR name IS NOT NULL OR roster_groups <> '' AS seen, \
            OCTET_LENGTH(contact) + COALESCE(OCTET_LENGTH(name), 0) + OCTET_LENGTH(roster_groups) AS bytes \
        FROM roster_items WHERE owner = ?) AS sizes";

/// Values: domain, localpart, version.
pub(crate) const REMOVALS_SINCE: &str = "\
    SELECT contact, version FROM roster_removals \
    WHERE owner = (SELECT id FROM accounts WHERE domain = ? AND localpart = ?) AND version > ?";

/// Values: owner, contact, version.
pub(crate) const INSERT_REMOVAL: &str = "INSERT INTO roster_removals (owner, contact, version) SELECT ?, ?, ?";

/// Values: owner, contact.
pub(crate) const FORGET_REMOVAL: DialectText =
    by_digest!("DELETE FROM roster_removals WHERE owner = ? AND ", "contact", "");

/// The newest removal that is one too many. Values: owner, number of removals to keep.
pub(crate) const EXCESS_REMOVAL: &str =
    "SELECT version FROM roster_removals WHERE owner = ? ORDER BY version DESC LIMIT 1 OFFSET ?";

/// Values: owner, version.
pub(crate) const FORGET_REMOVALS: &str = "DELETE FROM roster_removals WHERE owner = ? AND version <= ?";

/// Values: version, owner.
pub(crate) const UPDATE_ROSTER_OLDEST: &str = "UPDATE accounts SET roster_oldest = ? WHERE id = ?";

/// Values: version, version.
pub(crate) const RAISE_NEXT_ROSTER_VERSION: &str =
    "UPDATE counters SET value = ? WHERE name = 'next_roster_version' AND value < ?";

// Offline messages.

/// The account with the number of waiting messages, and their bytes.
pub(crate) const OFFLINE: DialectText =
    locking!("SELECT id, offline_messages, offline_bytes FROM accounts WHERE domain = ? AND localpart = ?");

/// Values: number, bytes, owner.
pub(crate) const UPDATE_OFFLINE: &str = "UPDATE accounts SET offline_messages = ?, offline_bytes = ? WHERE id = ?";

/// The number of a sender's waiting messages, and their bytes. Values: owner, sender.
pub(crate) const OFFLINE_OF: &str =
    "SELECT COUNT(*), COALESCE(SUM(length(stanza)), 0) FROM offline_messages WHERE owner = ? AND sender = ?";

/// Values: owner, id.
pub(crate) const OFFLINE_BYTES: &str =
    "SELECT COALESCE(SUM(length(stanza)), 0) FROM offline_messages WHERE owner = ? AND id <= ?";

/// Values: owner, time, sender, stanza.
pub(crate) const INSERT_OFFLINE: &str =
    "INSERT INTO offline_messages (owner, unix_ms, sender, stanza) SELECT ?, ?, ?, ?";

/// Values: domain, localpart, id, limit.
pub(crate) const LOAD_OFFLINE: &str = "\
    SELECT id, unix_ms, stanza FROM offline_messages \
    WHERE owner = (SELECT id FROM accounts WHERE domain = ? AND localpart = ?) AND id > ? ORDER BY id LIMIT ?";

/// Values: owner, id.
pub(crate) const REMOVE_OFFLINE: &str = "DELETE FROM offline_messages WHERE owner = ? AND id <= ?";

// Last presence.

/// Values: time, stanza, domain, localpart.
pub(crate) const UPDATE_PRESENCE: &str = "\
    UPDATE last_presence SET unix_ms = ?, stanza = ? \
    WHERE owner = (SELECT id FROM accounts WHERE domain = ? AND localpart = ?)";

/// Values: time, stanza, domain, localpart.
pub(crate) const INSERT_PRESENCE: &str = "\
    INSERT INTO last_presence (unix_ms, stanza, owner) SELECT ?, ?, id FROM accounts WHERE domain = ? AND localpart = ?";

// Settings.

/// Values: key.
pub(crate) const META: &str = "SELECT bytes FROM meta WHERE name = ?";

/// Values: bytes, key.
pub(crate) const UPDATE_META: &str = "UPDATE meta SET bytes = ? WHERE name = ?";

/// Values: bytes, key.
pub(crate) const INSERT_META: &str = "INSERT INTO meta (bytes, name) SELECT ?, ?";

/// Returns the statements above.
#[cfg(test)]
pub(in crate::sql) fn list_statements() -> Vec<crate::sql::listed::ListedTexts> {
    crate::sql::listed::listed![
        ACCOUNT,
        NOW,
        CREATE_ACCOUNT,
        REMOVE_ACCOUNT,
        LIST_ACCOUNTS,
        COUNT_ACCOUNTS,
        COUNT_ACCOUNTS_OF_DOMAIN,
        REMOVE_KEYS,
        ROSTER,
        ROSTER_ITEMS,
        ROSTER_ITEM,
        ROSTER_ITEMS_OF,
        INSERT_ROSTER_ITEM,
        INSERT_ROSTER_ITEMS,
        UPDATE_ROSTER_ITEM,
        REMOVE_ROSTER_ITEM,
        UPDATE_ROSTER,
        CONTACTS,
        REQUESTS,
        ROSTER_SIZE,
        REMOVALS_SINCE,
        INSERT_REMOVAL,
        FORGET_REMOVAL,
        EXCESS_REMOVAL,
        FORGET_REMOVALS,
        UPDATE_ROSTER_OLDEST,
        RAISE_NEXT_ROSTER_VERSION,
        OFFLINE,
        UPDATE_OFFLINE,
        OFFLINE_OF,
        OFFLINE_BYTES,
        INSERT_OFFLINE,
        LOAD_OFFLINE,
        REMOVE_OFFLINE,
        UPDATE_PRESENCE,
        INSERT_PRESENCE,
        META,
        UPDATE_META,
        INSERT_META
    ]
}
