//! Reads the latest items of many accounts' nodes, for users who come online.

use super::rows::{ITEMS_AT_ONCE, read_item, read_optional_affiliation};
use super::statements::{NEWEST_ITEMS, NEWS, NEWS_OF_ONE};
use crate::StoreError;
use crate::pubsub::{Item, News, NodeAffiliation, PAGE_BYTES};
use crate::sql::connection::{SqlConnection, SqlValue};
use crate::sql::rosters;
use rookery_jid::{Jid, JidRef};
use std::collections::HashMap;
use std::ops::ControlFlow;

pub(crate) fn news(
    c: &mut dyn SqlConnection,
    asker: JidRef<'_>,
    owners: &[Jid],
    nodes: &[String],
    mut after: Option<(Jid, String)>,
) -> Result<(Vec<News>, bool), StoreError> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    let (asker, names) =
        (SqlValue::Text(asker.bare_str()), nodes.iter().map(|node| SqlValue::Text(node)).collect::<Vec<_>>());
    for hosts in owners.chunks(HOSTS) {
        let mut heads = news_heads(c, asker, hosts, &names)?;
        let mut due = Vec::new();
        for host in hosts {
            for node in nodes {
                match &after {
                    Some((last_host, last_node)) if last_host == host && last_node == node => after = None,
                    Some(_) => {}
                    None => due.extend(
                        heads.remove(&(host.bare_str().to_owned(), node.clone())).map(|head| (host, node, head)),
                    ),
                }
            }
        }
        let mut due = due.into_iter().peekable();
        while due.peek().is_some() {
            if bytes >= PAGE_BYTES {
                return Ok((found, true));
            }
            let portion: Vec<_> = due.by_ref().take(ITEMS_AT_ONCE).collect();
            let ids: Vec<_> = portion.iter().map(|(.., head)| SqlValue::Integer(head.id)).collect();
            let mut items = newest(c, &ids)?;
            for (host, node, head) in portion {
                let Some(item) = items.remove(&head.id) else { continue };
                if bytes >= PAGE_BYTES {
                    return Ok((found, true));
                }
                bytes += item.bytes();
                found.push(News {
                    host: host.clone(),
                    node: node.clone(),
                    config: head.config,
                    affiliation: head.affiliation,
                    sees_presence: head.sees_presence,
                    groups: head.groups,
                    item,
                });
            }
        }
    }
    Ok((found, false))
}

/// The data that news of a node contain in addition to the item.
struct NewsHead {
    id: i64,
    config: Vec<u8>,
    affiliation: Option<NodeAffiliation>,
    sees_presence: bool,
    groups: Vec<String>,
}

/// Returns the nodes of these hosts that hold an item, by host and node.
fn news_heads(
    c: &mut dyn SqlConnection,
    asker: SqlValue<'_>,
    hosts: &[Jid],
    nodes: &[SqlValue<'_>],
) -> Result<HashMap<(String, String), NewsHead>, StoreError> {
    let mut hosts: Vec<_> = hosts.iter().map(|host| SqlValue::Text(host.bare_str())).collect();
    let Some(last) = hosts.last().copied() else { return Ok(HashMap::new()) };
    let query = if hosts.len() == 1 { &NEWS_OF_ONE } else { &NEWS };
    hosts.resize(if hosts.len() == 1 { 1 } else { HOSTS }, last);
    let (before, mut heads) = ([&[asker, asker], &hosts[..]].concat(), HashMap::new());
    query.query(c, (&before, nodes, &[]), &mut |row| {
        let groups = row.optional_text(6)?.map(|groups| rosters::groups(row, groups)).transpose()?;
        let head = NewsHead {
            id: row.integer(2)?,
            config: row.bytes(3)?.to_vec(),
            affiliation: read_optional_affiliation(row, 4)?,
            // Subscriptions 2 and 3 are `from` and `both`.
            sees_presence: row.integer(5)? >= 2,
            groups: groups.unwrap_or_default(),
        };
        heads.insert((row.text(0)?.to_owned(), row.text(1)?.to_owned()), head);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(heads)
}

/// Returns the newest items of nodes, by the nodes' keys.
fn newest(c: &mut dyn SqlConnection, nodes: &[SqlValue<'_>]) -> Result<HashMap<i64, Item>, StoreError> {
    let mut items = HashMap::new();
    NEWEST_ITEMS.query(c, (&[], nodes, &[]), &mut |row| {
        items.insert(row.integer(4)?, read_item(row)?);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(items)
}

/// The number of accounts whose nodes are looked up at once.
const HOSTS: usize = 64;
