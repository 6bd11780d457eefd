//! The operations of [`Pubsub`](crate::Pubsub).
//!
//! A node's row has the counts of its items and its bytes, so no publication has to count.
//! Items are ordered by their positions, which only grow while an item exists: the newest has the
//! highest.

mod news;
mod rows;
pub(super) mod statements;

pub(crate) use self::news::news;
use self::rows::{ITEMS_AT_ONCE, number_of, read_affiliation, read_item, read_optional_affiliation, read_subscription};
use self::statements::*;
use super::connection::{Row, SqlConnection, SqlValue, all, one};
use super::ids;
use crate::StoreError;
use crate::pubsub::*;
use rookery_jid::{Jid, JidRef};
use std::collections::HashMap;
use std::ops::ControlFlow;

pub(crate) fn node(c: &mut dyn SqlConnection, host: JidRef<'_>, node: &str) -> Result<Option<NodeRecord>, StoreError> {
    let Some(head) = head(c, host, node)? else { return Ok(None) };
    let id = [SqlValue::Integer(head.id)];
    let affiliations = all(c, AFFILIATIONS, &id, |row| Ok((row.jid(0)?, read_affiliation(row, 1)?)))?;
    let subscriptions = all(c, SUBSCRIPTIONS, &id, |row| Ok((row.jid(0)?, read_subscription(row, 1)?)))?;
    let creator = Jid::parse(&head.creator).ok();
    Ok(Some(NodeRecord { config: head.config, creator, affiliations, subscriptions }))
}

pub(crate) fn nodes(
    c: &mut dyn SqlConnection,
    host: JidRef<'_>,
    asker: JidRef<'_>,
    after: &str,
    limit: usize,
) -> Result<Vec<NodeListed>, StoreError> {
    let values = [
        SqlValue::Text(asker.bare_str()),
        SqlValue::Text(host.bare_str()),
        SqlValue::Text(after),
        SqlValue::number(limit as u64),
    ];
    all(c, NODES, &values, |row| {
        Ok(NodeListed {
            node: row.text(0)?.to_owned(),
            config: row.bytes(1)?.to_vec(),
            affiliation: read_optional_affiliation(row, 2)?,
        })
    })
}

pub(crate) fn create(
    c: &mut dyn SqlConnection,
    host: JidRef<'_>,
    node: &str,
    config: &[u8],
    owner: JidRef<'_>,
    room: NodeRoom,
) -> Result<Created, StoreError> {
    let account = if host.local().is_some() { ids::of_locked(c, host)? } else { None };
    if host.local().is_some() && account.is_none() {
        return Ok(Created::NoAccount);
    }
    if lock_node(c, host, node)?.is_some() {
        return Ok(Created::Exists);
    }
    let bare = SqlValue::Text(host.bare_str());
    let count = one(c, COUNT_NODES, &[bare], |row| row.number(0))?.unwrap_or(0);
    if count >= room.host_nodes as u64 {
        return Ok(Created::Full);
    }
    let creator = SqlValue::Text(owner.bare_str());
    let (made, used) = made_by(c, bare, creator)?;
    let bytes = config.len() as u64 + affiliation_bytes(owner);
    if made >= room.creator_nodes as u64 || used.saturating_add(bytes) > room.creator_bytes {
        return Ok(Created::OwnerFull);
    }
    let account = account.map_or(SqlValue::Null, SqlValue::Integer);
    let values = [account, bare, SqlValue::Text(node), SqlValue::Bytes(config), creator, SqlValue::number(bytes)];
    c.execute(INSERT_NODE, &values)?;
    let Some(head) = lock_node(c, host, node)? else {
        return Err(c.corrupt("a node vanished while it was created".to_owned()));
    };
    let owned = SqlValue::Integer(number_of(NodeAffiliation::Owner));
    c.execute(INSERT_AFFILIATION, &[owned, SqlValue::Integer(head.id), SqlValue::Text(owner.bare_str())])?;
    Ok(Created::Done)
}

pub(crate) fn configure(
    c: &mut dyn SqlConnection,
    host: JidRef<'_>,
    node: &str,
    config: &[u8],
    kept: ItemsKept,
) -> Result<bool, StoreError> {
    let Some(head) = lock_node(c, host, node)? else { return Ok(false) };
    c.execute(CONFIGURE_NODE, &[SqlValue::Bytes(config), SqlValue::Integer(head.id)])?;
    let bytes = head.bytes.saturating_sub(head.config.len() as u64).saturating_add(config.len() as u64);
    trim(c, head.id, ItemsHeld { items: head.items, bytes }, kept)?;
    Ok(true)
}

pub(crate) fn delete(c: &mut dyn SqlConnection, host: JidRef<'_>, node: &str) -> Result<bool, StoreError> {
    let Some(head) = lock_node(c, host, node)? else { return Ok(false) };
    Ok(c.execute(DELETE_NODE, &[SqlValue::Integer(head.id)])? > 0)
}

pub(crate) fn set_affiliation(
    c: &mut dyn SqlConnection,
    host: JidRef<'_>,
    node: &str,
    entity: JidRef<'_>,
    affiliation: Option<NodeAffiliation>,
    room: NodeRoom,
) -> Result<SetOutcome, StoreError> {
    let Some(head) = lock_node(c, host, node)? else { return Ok(SetOutcome::NoNode) };
    let (id, name, size) = (SqlValue::Integer(head.id), SqlValue::Text(entity.bare_str()), affiliation_bytes(entity));
    let is_known = one(c, AFFILIATION, &[id, name], |row| row.integer(0))?.is_some();
    if affiliation.is_some() && !is_known && head.lacks(c, host, size, room)?.is_some() {
        return Ok(SetOutcome::Full);
    }
    c.execute(REMOVE_AFFILIATION, &[id, name])?;
    if let Some(affiliation) = affiliation {
        c.execute(INSERT_AFFILIATION, &[SqlValue::Integer(number_of(affiliation)), id, name])?;
    }
    let without = head.bytes.saturating_sub(if is_known { size } else { 0 });
    let bytes = without.saturating_add(if affiliation.is_some() { size } else { 0 });
    count(c, head.id, ItemsHeld { items: head.items, bytes })?;
    Ok(SetOutcome::Done)
}

pub(crate) fn set_subscription(
    c: &mut dyn SqlConnection,
    host: JidRef<'_>,
    node: &str,
    subscriber: JidRef<'_>,
    subscription: Option<&NodeSubscription>,
    most: usize,
) -> Result<SetOutcome, StoreError> {
    let Some(head) = lock_node(c, host, node)? else { return Ok(SetOutcome::NoNode) };
    let (id, name) = (SqlValue::Integer(head.id), SqlValue::Text(subscriber.as_str()));
    let Some(NodeSubscription { pending, options }) = subscription else {
        c.execute(REMOVE_SUBSCRIPTION.on(c.dialect()), &[id, name])?;
        return Ok(SetOutcome::Done);
    };
    let known = SUBSCRIPTION.on(c.dialect());
    let is_known = one(c, known, &[id, name], |row| row.integer(0))?.is_some();
    if !is_known && most < usize::MAX && subscriptions_of(c, host, subscriber)?.len() >= most {
        return Ok(SetOutcome::Full);
    }
    c.execute(REMOVE_SUBSCRIPTION.on(c.dialect()), &[id, name])?;
    c.execute(INSERT_SUBSCRIPTION, &[SqlValue::flag(*pending), SqlValue::Bytes(options), id, name])?;
    Ok(SetOutcome::Done)
}

pub(crate) fn publish(
    c: &mut dyn SqlConnection,
    host: JidRef<'_>,
    node: &str,
    item: &Item,
    kept: ItemsKept,
    room: NodeRoom,
) -> Result<Published, StoreError> {
    let Some(head) = lock_node(c, host, node)? else { return Ok(Published::NoNode) };
    let id = SqlValue::Integer(head.id);
    let replaced = one(c, ITEM_BYTES, &[id, SqlValue::Text(&item.id)], |row| row.number(0))?;
    let growth = item.bytes().saturating_sub(replaced.unwrap_or(0));
    if let Some(lack) = head.lacks(c, host, growth, room)? {
        let freed = bytes_freed(c, &head, item, replaced.is_some(), kept)?;
        if growth > freed && lack.bytes > freed {
            return Ok(lack.published);
        }
    }
    c.execute(REMOVE_ITEM, &[id, SqlValue::Text(&item.id)])?;
    let newest = one(c, NEWEST_POSITION, &[id], |row| row.number(0))?.unwrap_or(0);
    let values = [
        id,
        SqlValue::Text(&item.id),
        SqlValue::number(newest.saturating_add(1)),
        SqlValue::Text(item.publisher.bare_str()),
        SqlValue::number(item.unix_ms),
        SqlValue::Bytes(&item.payload),
    ];
    c.execute(INSERT_ITEM, &values)?;
    let items = head.items.saturating_sub(replaced.is_some().into()).saturating_add(1);
    let bytes = head.bytes.saturating_sub(replaced.unwrap_or(0)).saturating_add(item.bytes());
    trim(c, head.id, ItemsHeld { items, bytes }, kept)?;
    Ok(Published::Kept)
}

/// Returns the bytes freed when an item is published, apart from those of an item with the same
/// id: those of items that are then too many or too old.
fn bytes_freed(
    c: &mut dyn SqlConnection,
    head: &NodeHead,
    item: &Item,
    replaces: bool,
    kept: ItemsKept,
) -> Result<u64, StoreError> {
    let (id, since, name) = (SqlValue::Integer(head.id), SqlValue::number(kept.since_ms), SqlValue::Text(&item.id));
    let read = |row: &dyn Row| Ok((row.number(0)?, row.number(1)?));
    let (expired, freed) = one(c, EXPIRED_BESIDE, &[id, since, name], read)?.unwrap_or((0, 0));
    let left = (head.items + 1).saturating_sub(u64::from(replaces) + expired);
    let excess = left.saturating_sub(kept.items as u64);
    let values = [id, since, name, SqlValue::number(excess)];
    let oldest = if excess > 0 { one(c, OLDEST_BESIDE, &values, |row| row.number(0))? } else { None };
    Ok(freed.saturating_add(oldest.unwrap_or(0)))
}

pub(crate) fn items(
    c: &mut dyn SqlConnection,
    host: JidRef<'_>,
    node: &str,
    wanted: &WantedItems,
    since_ms: u64,
) -> Result<Option<Items>, StoreError> {
    let Some(head) = head(c, host, node)? else { return Ok(None) };
    let (id, since) = (SqlValue::Integer(head.id), SqlValue::number(since_ms));
    let total = match since_ms {
        0 => head.items,
        _ => one(c, ITEMS_SINCE, &[id, since], |row| row.number(0))?.unwrap_or(0),
    };
    let total = usize::try_from(total).unwrap_or(usize::MAX);
    let position = |c: &mut dyn SqlConnection, item: &str| {
        one(c, POSITION, &[id, SqlValue::Text(item), since], |row| row.integer(0))
    };
    let limited = |limit: usize| SqlValue::number(limit as u64);
    let (mut rows, is_backwards) = match wanted {
        WantedItems::Ids(ids) => {
            let items = by_ids(c, id, ids, since)?;
            return Ok(Some(Items { items, index: 0, total, lost: false }));
        }
        WantedItems::Newest(limit) | WantedItems::Before(None, limit) => {
            (page(c, ITEMS_BEFORE, &[id, since, SqlValue::Integer(i64::MAX), limited(*limit)])?, true)
        }
        WantedItems::Before(Some(item), limit) => match position(c, item)? {
            Some(at) => (page(c, ITEMS_BEFORE, &[id, since, SqlValue::Integer(at), limited(*limit)])?, true),
            None => return Ok(Some(Items { total, lost: true, ..Items::default() })),
        },
        WantedItems::After(None, limit) => {
            (page(c, ITEMS_AFTER, &[id, since, SqlValue::Integer(0), limited(*limit)])?, false)
        }
        WantedItems::After(Some(item), limit) => match position(c, item)? {
            Some(at) => (page(c, ITEMS_AFTER, &[id, since, SqlValue::Integer(at), limited(*limit)])?, false),
            None => return Ok(Some(Items { total, lost: true, ..Items::default() })),
        },
        WantedItems::From(index, limit) => {
            (page(c, ITEMS_FROM, &[id, since, limited(*limit), limited(*index)])?, false)
        }
    };
    if is_backwards {
        rows.reverse();
    }
    let index = match rows.first() {
        Some((at, _)) => one(c, OLDER_ITEMS, &[id, since, SqlValue::Integer(*at)], |row| row.number(0))?.unwrap_or(0),
        None => 0,
    };
    let items = rows.into_iter().map(|(_, item)| item).collect();
    Ok(Some(Items { items, index: usize::try_from(index).unwrap_or(usize::MAX), total, lost: false }))
}

pub(crate) fn retract(
    c: &mut dyn SqlConnection,
    host: JidRef<'_>,
    node: &str,
    ids: &[String],
) -> Result<Vec<String>, StoreError> {
    let Some(head) = lock_node(c, host, node)? else { return Ok(Vec::new()) };
    let (mut removed, mut bytes) = (Vec::new(), head.bytes);
    for item in ids {
        let values = [SqlValue::Integer(head.id), SqlValue::Text(item)];
        let Some(size) = one(c, ITEM_BYTES, &values, |row| row.number(0))? else { continue };
        c.execute(REMOVE_ITEM, &values)?;
        bytes = bytes.saturating_sub(size);
        removed.push(item.clone());
    }
    count(c, head.id, ItemsHeld { items: head.items.saturating_sub(removed.len() as u64), bytes })?;
    Ok(removed)
}

pub(crate) fn purge(c: &mut dyn SqlConnection, host: JidRef<'_>, node: &str) -> Result<u64, StoreError> {
    let Some(head) = lock_node(c, host, node)? else { return Ok(0) };
    let size = one(c, ALL_BYTES, &[SqlValue::Integer(head.id)], |row| row.number(0))?.unwrap_or(0);
    count(c, head.id, ItemsHeld { items: 0, bytes: head.bytes.saturating_sub(size) })?;
    c.execute(PURGE, &[SqlValue::Integer(head.id)])
}

pub(crate) fn subscriptions_of(
    c: &mut dyn SqlConnection,
    host: JidRef<'_>,
    entity: JidRef<'_>,
) -> Result<Vec<(String, Jid, NodeSubscription)>, StoreError> {
    let [from, until] = resources_of(entity);
    let values = [
        SqlValue::Text(host.bare_str()),
        SqlValue::Text(entity.bare_str()),
        SqlValue::Text(&from),
        SqlValue::Text(&until),
    ];
    let query = SUBSCRIPTIONS_OF.on(c.dialect());
    all(c, query, &values, |row| Ok((row.text(0)?.to_owned(), row.jid(1)?, read_subscription(row, 2)?)))
}

pub(crate) fn affiliations_of(
    c: &mut dyn SqlConnection,
    host: JidRef<'_>,
    entity: JidRef<'_>,
) -> Result<Vec<(String, NodeAffiliation)>, StoreError> {
    let values = [SqlValue::Text(host.bare_str()), SqlValue::Text(entity.bare_str())];
    all(c, AFFILIATIONS_OF, &values, |row| Ok((row.text(0)?.to_owned(), read_affiliation(row, 1)?)))
}

pub(crate) fn accounts_nodes(
    c: &mut dyn SqlConnection,
    after: u64,
    limit: usize,
) -> Result<Vec<(u64, Jid, String)>, StoreError> {
    let values = [SqlValue::number(after), SqlValue::number(limit as u64)];
    all(c, ACCOUNTS_NODES, &values, |row| Ok((row.number(0)?, row.jid(1)?, row.text(2)?.to_owned())))
}

/// Removes an account's affiliations and subscriptions, and the nodes of services that it alone
/// owned. Its own nodes are removed by cascade.
pub(crate) fn forget(c: &mut dyn SqlConnection, account: JidRef<'_>) -> Result<(), StoreError> {
    let bare = SqlValue::Text(account.bare_str());
    let owner = SqlValue::Integer(number_of(NodeAffiliation::Owner));
    c.execute(DELETE_OWNED, &[bare, owner, bare, owner])?;
    let bytes = SqlValue::number(affiliation_bytes(account));
    c.execute(FORGET_AFFILIATION_BYTES, &[bytes, bytes, bare])?;
    c.execute(FORGET_AFFILIATIONS, &[bare])?;
    c.execute(FORGET_CREATOR, &[owner, bare])?;
    let [from, until] = resources_of(account);
    c.execute(FORGET_SUBSCRIPTIONS.on(c.dialect()), &[bare, SqlValue::Text(&from), SqlValue::Text(&until)])?;
    Ok(())
}

/// The content of a node's row.
struct NodeHead {
    id: i64,
    config: Vec<u8>,
    items: u64,
    creator: String,
    bytes: u64,
}

/// The number of a node's items, and the bytes of the node with all that belongs to it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ItemsHeld {
    items: u64,
    bytes: u64,
}

/// The bytes that exceed the room, and the outcome that reports this.
struct Lack {
    bytes: u64,
    published: Published,
}

impl NodeHead {
    /// Returns the bytes by which the node, or all nodes of its creator, would exceed the room if
    /// the node grew by this number of bytes; `None` if there would be room.
    fn lacks(
        &self,
        c: &mut dyn SqlConnection,
        host: JidRef<'_>,
        growth: u64,
        room: NodeRoom,
    ) -> Result<Option<Lack>, StoreError> {
        let of_node = self.bytes.saturating_add(growth).saturating_sub(room.node_bytes);
        let (_, used) = made_by(c, SqlValue::Text(host.bare_str()), SqlValue::Text(&self.creator))?;
        let of_creator = used.saturating_add(growth).saturating_sub(room.creator_bytes);
        Ok(match of_node.max(of_creator) {
            0 => None,
            bytes if bytes == of_node => Some(Lack { bytes, published: Published::NodeFull }),
            bytes => Some(Lack { bytes, published: Published::CreatorFull }),
        })
    }
}

/// Returns the number of a host's nodes that an account has created, and of their bytes.
fn made_by(c: &mut dyn SqlConnection, host: SqlValue<'_>, creator: SqlValue<'_>) -> Result<(u64, u64), StoreError> {
    let read = |row: &dyn Row| Ok((row.number(0)?, row.number(1)?));
    Ok(one(c, MADE_BY, &[creator, host], read)?.unwrap_or((0, 0)))
}

/// Returns the number of bytes that an affiliation counts for.
fn affiliation_bytes(entity: JidRef<'_>) -> u64 {
    entity.bare_str().len() as u64 + OVERHEAD
}

fn count(c: &mut dyn SqlConnection, node: i64, held: ItemsHeld) -> Result<(), StoreError> {
    c.execute(COUNT, &[SqlValue::number(held.items), SqlValue::number(held.bytes), SqlValue::Integer(node)]).map(drop)
}

/// Reads a node's row.
fn head(c: &mut dyn SqlConnection, host: JidRef<'_>, node: &str) -> Result<Option<NodeHead>, StoreError> {
    let query = NODE.on(c.dialect());
    read_head(c, query, host, node)
}

/// Reads a node's row and locks it until the transaction ends.
fn lock_node(c: &mut dyn SqlConnection, host: JidRef<'_>, node: &str) -> Result<Option<NodeHead>, StoreError> {
    let query = LOCKED_NODE.on(c.dialect());
    read_head(c, query, host, node)
}

fn read_head(
    c: &mut dyn SqlConnection,
    query: &'static str,
    host: JidRef<'_>,
    node: &str,
) -> Result<Option<NodeHead>, StoreError> {
    one(c, query, &[SqlValue::Text(host.bare_str()), SqlValue::Text(node)], |row| {
        Ok(NodeHead {
            id: row.integer(0)?,
            config: row.bytes(1)?.to_vec(),
            items: row.number(2)?,
            creator: row.text(3)?.to_owned(),
            bytes: row.number(4)?,
        })
    })
}

/// Removes items of a node that are too many or too old, and counts the others.
fn trim(c: &mut dyn SqlConnection, node: i64, mut held: ItemsHeld, kept: ItemsKept) -> Result<(), StoreError> {
    let id = SqlValue::Integer(node);
    if kept.since_ms > 0 {
        let since = SqlValue::number(kept.since_ms);
        let size = one(c, EXPIRED_BYTES, &[id, since], |row| row.number(0))?.unwrap_or(0);
        held.items = held.items.saturating_sub(c.execute(EXPIRE, &[id, since])?);
        held.bytes = held.bytes.saturating_sub(size);
    }
    let excess = held.items.saturating_sub(kept.items as u64);
    if excess > 0 {
        let oldest = one(c, NTH_POSITION, &[id, SqlValue::number(excess - 1)], |row| row.integer(0))?;
        if let Some(up_to) = oldest {
            let up_to = SqlValue::Integer(up_to);
            let size = one(c, BYTES_UP_TO, &[id, up_to], |row| row.number(0))?.unwrap_or(0);
            held.items = held.items.saturating_sub(c.execute(TRIM, &[id, up_to])?);
            held.bytes = held.bytes.saturating_sub(size);
        }
    }
    count(c, node, held)
}

/// Reads items with their positions, as far as they fit a page; at least one if there is any.
fn page(c: &mut dyn SqlConnection, sql: &'static str, values: &[SqlValue<'_>]) -> Result<Vec<(i64, Item)>, StoreError> {
    let (mut rows, mut room) = (Vec::new(), PAGE_BYTES);
    c.query(sql, values, &mut |row| {
        let item = read_item(row)?;
        let bytes = item.bytes();
        if bytes > room && !rows.is_empty() {
            return Ok(ControlFlow::Break(()));
        }
        room = room.saturating_sub(bytes);
        rows.push((row.integer(4)?, item));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(rows)
}

fn by_ids(
    c: &mut dyn SqlConnection,
    node: SqlValue<'_>,
    ids: &[String],
    since: SqlValue<'_>,
) -> Result<Vec<Item>, StoreError> {
    let (mut items, mut room) = (Vec::new(), PAGE_BYTES);
    for ids in ids.chunks(ITEMS_AT_ONCE) {
        let (values, mut found): (Vec<_>, _) = (ids.iter().map(|id| SqlValue::Text(id)).collect(), HashMap::new());
        ITEMS_NAMED.query(c, (&[node, since], &values, &[]), &mut |row| {
            let item = read_item(row)?;
            found.insert(item.id.clone(), item);
            Ok(ControlFlow::Continue(()))
        })?;
        for id in ids {
            // An item is repeated as often as it was requested.
            let Some(item) = found.get(id).cloned() else { continue };
            let bytes = item.bytes();
            if bytes > room && !items.is_empty() {
                return Ok(items);
            }
            room = room.saturating_sub(bytes);
            items.push(item);
        }
    }
    Ok(items)
}

/// Returns the range of the full JIDs of an account, its end excluded: `0` follows `/`.
fn resources_of(account: JidRef<'_>) -> [String; 2] {
    [format!("{}/", account.bare_str()), format!("{}0", account.bare_str())]
}
