//! The meaning of the rows of nodes and items.

use crate::StoreError;
use crate::pubsub::{Item, NodeAffiliation, NodeSubscription};
use crate::sql::connection::Row;

pub(super) fn read_item(row: &dyn Row) -> Result<Item, StoreError> {
    Ok(Item {
        id: row.text(0)?.to_owned(),
        publisher: row.jid(1)?,
        unix_ms: row.number(2)?,
        payload: row.bytes(3)?.to_vec(),
    })
}

pub(super) fn read_subscription(row: &dyn Row, column: usize) -> Result<NodeSubscription, StoreError> {
    Ok(NodeSubscription { pending: row.integer(column)? != 0, options: row.bytes(column + 1)?.to_vec() })
}

pub(super) fn read_affiliation(row: &dyn Row, column: usize) -> Result<NodeAffiliation, StoreError> {
    let number = row.integer(column)?;
    let found = NodeAffiliation::ALL.into_iter().find(|affiliation| number_of(*affiliation) == number);
    found.ok_or_else(|| row.corrupt(format!("{number} isn't an affiliation")))
}

/// Reads an affiliation, which is 0 where the row of a join is missing.
pub(super) fn read_optional_affiliation(row: &dyn Row, column: usize) -> Result<Option<NodeAffiliation>, StoreError> {
    if row.integer(column)? == 0 { Ok(None) } else { read_affiliation(row, column).map(Some) }
}

/// Returns the number that stands for an affiliation in rows.
pub(super) fn number_of(affiliation: NodeAffiliation) -> i64 {
    match affiliation {
        NodeAffiliation::Owner => 1,
        NodeAffiliation::Publisher => 2,
        NodeAffiliation::PublishOnly => 3,
        NodeAffiliation::Member => 4,
        NodeAffiliation::Outcast => 5,
    }
}

/// The number of items that are loaded at once.
pub(super) const ITEMS_AT_ONCE: usize = 64;
