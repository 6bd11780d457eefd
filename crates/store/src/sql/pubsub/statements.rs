//! The statements of [`pubsub`](super), each with its values in their order.
//!
//! They keep to the rules of `sql/statements.rs`. The formula for the bytes of an item is defined
//! once (`size!`).

use crate::sql::dialect::{DialectText, by_digest};
use crate::sql::many::Among;

/// A node's row.
macro_rules! node {
    ($lock:literal) => {
        by_digest!("SELECT id, config, items, creator, bytes FROM pubsub_nodes WHERE host = ? AND ", "node", "", $lock)
    };
}

/// Values: host, node.
pub(super) const NODE: DialectText = node!("");

/// Values: host, node.
pub(super) const LOCKED_NODE: DialectText = node!(" FOR UPDATE");

/// Values: asker, host, node after which to start, limit.
pub(super) const NODES: &str = "\
    SELECT n.node, n.config, COALESCE(a.affiliation, 0) FROM pubsub_nodes n \
    LEFT JOIN pubsub_affiliations a ON a.node = n.id AND a.entity = ? \
    WHERE n.host = ? AND n.node > ? ORDER BY n.node LIMIT ?";

/// Values: host.
pub(super) const COUNT_NODES: &str = "SELECT COUNT(*) FROM pubsub_nodes WHERE host = ?";

/// Values: creator, host.
pub(super) const MADE_BY: &str =
    "SELECT COUNT(*), COALESCE(SUM(bytes), 0) FROM pubsub_nodes WHERE creator = ? AND host = ?";

/// Values: account or NULL, host, node, configuration, creator, bytes.
pub(super) const INSERT_NODE: &str = "\
    INSERT INTO pubsub_nodes (account, host, node, config, items, creator, bytes) SELECT ?, ?, ?, ?, 0, ?, ?";

/// Values: configuration, id.
pub(super) const CONFIGURE_NODE: &str = "UPDATE pubsub_nodes SET config = ? WHERE id = ?";

/// Removes by cascade everything that belongs to it. Values: id.
pub(super) const DELETE_NODE: &str = "DELETE FROM pubsub_nodes WHERE id = ?";

/// Values: owner, the number of that affiliation, owner, the number again.
pub(super) const DELETE_OWNED: &str = "\
    DELETE FROM pubsub_nodes WHERE id IN \
    (SELECT node FROM pubsub_affiliations WHERE entity = ? AND affiliation = ?) \
    AND NOT EXISTS (SELECT 1 FROM pubsub_affiliations a \
    WHERE a.node = pubsub_nodes.id AND a.entity <> ? AND a.affiliation = ?)";

/// Values: number after which to start, limit.
pub(super) const ACCOUNTS_NODES: &str =
    "SELECT id, host, node FROM pubsub_nodes WHERE account IS NOT NULL AND id > ? ORDER BY id LIMIT ?";

/// Values: node.
pub(super) const AFFILIATIONS: &str =
    "SELECT entity, affiliation FROM pubsub_affiliations WHERE node = ? ORDER BY entity";

/// Values: node, entity.
pub(super) const AFFILIATION: &str = "SELECT affiliation FROM pubsub_affiliations WHERE node = ? AND entity = ?";

/// Values: host, entity.
pub(super) const AFFILIATIONS_OF: &str = "\
    SELECT n.node, a.affiliation FROM pubsub_affiliations a JOIN pubsub_nodes n ON n.id = a.node \
    WHERE n.host = ? AND a.entity = ? ORDER BY n.node";

/// Values: affiliation, node, entity.
pub(super) const INSERT_AFFILIATION: &str =
    "INSERT INTO pubsub_affiliations (affiliation, node, entity) SELECT ?, ?, ?";

/// Values: node, entity.
pub(super) const REMOVE_AFFILIATION: &str = "DELETE FROM pubsub_affiliations WHERE node = ? AND entity = ?";

/// Values: bytes of the affiliation, the same, entity.
pub(super) const FORGET_AFFILIATION_BYTES: &str = "\
    UPDATE pubsub_nodes SET bytes = CASE WHEN bytes > ? THEN bytes - ? ELSE 0 END \
    WHERE id IN (SELECT node FROM pubsub_affiliations WHERE entity = ?)";

/// Makes another owner accountable for the nodes of a removed account. Values: the number of that
/// affiliation, creator.
pub(super) const FORGET_CREATOR: &str = "\
    UPDATE pubsub_nodes SET creator = COALESCE((SELECT MIN(entity) FROM pubsub_affiliations \
    WHERE node = pubsub_nodes.id AND affiliation = ?), '') WHERE creator = ?";

/// Values: entity.
pub(super) const FORGET_AFFILIATIONS: &str = "DELETE FROM pubsub_affiliations WHERE entity = ?";

/// Values: node.
pub(super) const SUBSCRIPTIONS: &str =
    "SELECT subscriber, pending, options FROM pubsub_subscriptions WHERE node = ? ORDER BY subscriber";

/// Values: node, subscriber.
pub(super) const SUBSCRIPTION: DialectText =
    by_digest!("SELECT pending FROM pubsub_subscriptions WHERE node = ? AND ", "subscriber", "");

/// Values: host, bare JID, begin and end of its full JIDs.
pub(super) const SUBSCRIPTIONS_OF: DialectText = DialectText {
    postgres: "SELECT n.node, s.subscriber, s.pending, s.options FROM pubsub_subscriptions s \
        JOIN pubsub_nodes n ON n.id = s.node \
        WHERE n.host = $1 AND s.bare = $2 AND (s.subscriber = $2 OR (s.subscriber >= $3 AND s.subscriber < $4)) \
        ORDER BY n.node, s.subscriber",
    mysql: "SELECT n.node, s.subscriber, s.pending, s.options FROM pubsub_subscriptions s \
        JOIN pubsub_nodes n ON n.id = s.node \
        WHERE n.host = ? AND s.bare = ? AND (s.subscriber = s.bare OR (s.subscriber >= ? AND s.subscriber < ?)) \
        ORDER BY n.node, s.subscriber",
    sqlite: "SELECT n.node, s.subscriber, s.pending, s.options FROM pubsub_subscriptions s \
        JOIN pubsub_nodes n ON n.id = s.node \
        WHERE n.host = ? AND (s.subscriber = ? OR (s.subscriber >= ? AND s.subscriber < ?)) \
        ORDER BY n.node, s.subscriber",
};

/// Values: pending, options, node, subscriber.
pub(super) const INSERT_SUBSCRIPTION: &str =
    "INSERT INTO pubsub_subscriptions (pending, options, node, subscriber) SELECT ?, ?, ?, ?";

/// Values: node, subscriber.
pub(super) const REMOVE_SUBSCRIPTION: DialectText =
    by_digest!("DELETE FROM pubsub_subscriptions WHERE node = ? AND ", "subscriber", "");

/// Values: bare JID, begin and end of its full JIDs.
pub(super) const FORGET_SUBSCRIPTIONS: DialectText = DialectText {
    postgres: "DELETE FROM pubsub_subscriptions \
        WHERE bare = $1 AND (subscriber = $1 OR (subscriber >= $2 AND subscriber < $3))",
    mysql: "DELETE FROM pubsub_subscriptions \
        WHERE bare = ? AND (subscriber = bare OR (subscriber >= ? AND subscriber < ?))",
    sqlite: "DELETE FROM pubsub_subscriptions WHERE subscriber = ? OR (subscriber >= ? AND subscriber < ?)",
};

/// Values: items, bytes, node.
pub(super) const COUNT: &str = "UPDATE pubsub_nodes SET items = ?, bytes = ? WHERE id = ?";

/// The number of bytes that an item counts for, as in [`Item::bytes`].
macro_rules! size {
    () => {
        "OCTET_LENGTH(item) + OCTET_LENGTH(publisher) + LENGTH(payload) + 100"
    };
}

/// Values: node, item.
pub(super) const ITEM_BYTES: &str = concat!("SELECT ", size!(), " FROM pubsub_items WHERE node = ? AND item = ?");

/// Values: node.
pub(super) const ALL_BYTES: &str = concat!("SELECT COALESCE(SUM(", size!(), "), 0) FROM pubsub_items WHERE node = ?");

/// Values: node, time.
pub(super) const EXPIRED_BYTES: &str =
    concat!("SELECT COALESCE(SUM(", size!(), "), 0) FROM pubsub_items WHERE node = ? AND unix_ms < ?");

/// Values: node, position.
pub(super) const BYTES_UP_TO: &str =
    concat!("SELECT COALESCE(SUM(", size!(), "), 0) FROM pubsub_items WHERE node = ? AND position <= ?");

/// Values: node, time, an item that doesn't count.
pub(super) const EXPIRED_BESIDE: &str = concat!(
    "SELECT COUNT(*), COALESCE(SUM(",
    size!(),
    "), 0) FROM pubsub_items WHERE node = ? AND unix_ms < ? AND item <> ?"
);

/// Values: node, time, an item that doesn't count, number of items.
pub(super) const OLDEST_BESIDE: &str = concat!(
    "SELECT COALESCE(SUM(bytes), 0) FROM (SELECT ",
    size!(),
    " AS bytes FROM pubsub_items WHERE node = ? AND unix_ms >= ? AND item <> ? ORDER BY position LIMIT ?) AS oldest"
);

/// Values: node, item, position, publisher, time, payload.
pub(super) const INSERT_ITEM: &str = "\
    INSERT INTO pubsub_items (node, item, position, publisher, unix_ms, payload) SELECT ?, ?, ?, ?, ?, ?";

/// Values: node, item.
pub(super) const REMOVE_ITEM: &str = "DELETE FROM pubsub_items WHERE node = ? AND item = ?";

/// Values: node.
pub(super) const NEWEST_POSITION: &str =
    "SELECT position FROM pubsub_items WHERE node = ? ORDER BY position DESC LIMIT 1";

/// Values: node, number of older items.
pub(super) const NTH_POSITION: &str =
    "SELECT position FROM pubsub_items WHERE node = ? ORDER BY position LIMIT 1 OFFSET ?";

/// Values: node, position.
pub(super) const TRIM: &str = "DELETE FROM pubsub_items WHERE node = ? AND position <= ?";

/// Values: node, time.
pub(super) const EXPIRE: &str = "DELETE FROM pubsub_items WHERE node = ? AND unix_ms < ?";

/// Values: node.
pub(super) const PURGE: &str = "DELETE FROM pubsub_items WHERE node = ?";

/// Values: node, time.
pub(super) const ITEMS_SINCE: &str = "SELECT COUNT(*) FROM pubsub_items WHERE node = ? AND unix_ms >= ?";

/// Values: node, time, position.
pub(super) const OLDER_ITEMS: &str =
    "SELECT COUNT(*) FROM pubsub_items WHERE node = ? AND unix_ms >= ? AND position < ?";

/// Values: node, item, time.
pub(super) const POSITION: &str = "SELECT position FROM pubsub_items WHERE node = ? AND item = ? AND unix_ms >= ?";

/// Values: node, time, items.
pub(super) static ITEMS_NAMED: Among = Among::new(
    "SELECT item, publisher, unix_ms, payload FROM pubsub_items WHERE node = ? AND unix_ms >= ? AND item IN ",
    "",
);

/// Values: nodes.
pub(super) static NEWEST_ITEMS: Among = Among::new(
    "SELECT i.item, i.publisher, i.unix_ms, i.payload, i.node FROM pubsub_nodes n \
     JOIN pubsub_items i ON i.node = n.id \
     AND i.position = (SELECT MAX(newest.position) FROM pubsub_items newest WHERE newest.node = n.id) WHERE n.id IN ",
    "",
);

/// The nodes that hold an item, with the asker's relation to them and to their account. Values:
/// asker, asker, hosts, nodes.
macro_rules! news {
    ($hosts:literal) => {
        Among::differing(
            by_digest!(
                "SELECT n.host, n.node, n.id, n.config, COALESCE(f.affiliation, 0), COALESCE(r.subscription, 0), r.roster_groups \
                 FROM pubsub_nodes n \
                 LEFT JOIN pubsub_affiliations f ON f.node = n.id AND f.entity = ? \
                 LEFT JOIN roster_items r ON r.owner = n.account AND ",
                "r.contact",
                concat!(" WHERE n.items > 0 AND n.host IN (", $hosts, ") AND n.node IN ")
            ),
            "",
        )
    };
}

pub(super) static NEWS_OF_ONE: Among = news!("?");

/// For 64 hosts.
pub(super) static NEWS: Among = news!(
    "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, \
     ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?"
);

/// Values: node, time, position, limit.
pub(super) const ITEMS_AFTER: &str = "\
    SELECT item, publisher, unix_ms, payload, position FROM pubsub_items \
    WHERE node = ? AND unix_ms >= ? AND position > ? ORDER BY position LIMIT ?";

/// Values: node, time, position, limit.
pub(super) const ITEMS_BEFORE: &str = "\
    SELECT item, publisher, unix_ms, payload, position FROM pubsub_items \
    WHERE node = ? AND unix_ms >= ? AND position < ? ORDER BY position DESC LIMIT ?";

/// Values: node, time, limit, number of items to skip.
pub(super) const ITEMS_FROM: &str = "\
    SELECT item, publisher, unix_ms, payload, position FROM pubsub_items \
    WHERE node = ? AND unix_ms >= ? ORDER BY position LIMIT ? OFFSET ?";

/// Returns the statements above.
#[cfg(test)]
pub(in crate::sql) fn list_statements() -> Vec<crate::sql::listed::ListedTexts> {
    crate::sql::listed::listed![
        NODE,
        LOCKED_NODE,
        NODES,
        COUNT_NODES,
        MADE_BY,
        INSERT_NODE,
        CONFIGURE_NODE,
        DELETE_NODE,
        DELETE_OWNED,
        ACCOUNTS_NODES,
        AFFILIATIONS,
        AFFILIATION,
        AFFILIATIONS_OF,
        INSERT_AFFILIATION,
        REMOVE_AFFILIATION,
        FORGET_AFFILIATION_BYTES,
        FORGET_CREATOR,
        FORGET_AFFILIATIONS,
        SUBSCRIPTIONS,
        SUBSCRIPTION,
        SUBSCRIPTIONS_OF,
        INSERT_SUBSCRIPTION,
        REMOVE_SUBSCRIPTION,
        FORGET_SUBSCRIPTIONS,
        COUNT,
        ITEM_BYTES,
        ALL_BYTES,
        EXPIRED_BYTES,
        BYTES_UP_TO,
        EXPIRED_BESIDE,
        OLDEST_BESIDE,
        INSERT_ITEM,
        REMOVE_ITEM,
        NEWEST_POSITION,
        NTH_POSITION,
        TRIM,
        EXPIRE,
        PURGE,
        ITEMS_SINCE,
        OLDER_ITEMS,
        POSITION,
        ITEMS_NAMED,
        NEWEST_ITEMS,
        NEWS_OF_ONE,
        NEWS,
        ITEMS_AFTER,
        ITEMS_BEFORE,
        ITEMS_FROM
    ]
}
