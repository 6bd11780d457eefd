//! The members of a cluster: rows in the database that all nodes share.
//!
//! The database decides who is a member and under which number; Redis only tells who lives. What is
//! here are entries of lists ([`Meta`]), each a row of its own.

use rookery_base::chance;
use rookery_store::StoreError;
use rookery_store::meta::{Added, Meta};
use serde::{Deserialize, Serialize};

/// That which the cluster knows of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Its number: in this cluster no other node ever has it.
    pub number: u16,
    /// The number of its processes so far.
    pub incarnation: u32,
    /// The shards of the last of them.
    pub shards: u16,
    /// The name under which clients reach it, if it has one of its own.
    pub public_host: Option<String>,
}

/// Says why a process can't be a member.
#[derive(Debug)]
pub enum NotJoined {
    /// The database says no.
    Store(StoreError),
    /// Another process has taken the node's next number in the same moment.
    Taken,
    /// A row can't be read: it is of another version.
    Unreadable(String),
    /// The operating system has no random bytes.
    Chance,
}

impl From<StoreError> for NotJoined {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Returns the key of the cluster's address hash: made once, by the first node.
///
/// # Errors
/// The error of the database.
pub async fn key(meta: &dyn Meta) -> Result<[u8; 16], NotJoined> {
    let mut key = [0; 16];
    chance::fill(&mut key).map_err(|_| NotJoined::Chance)?;
    // Whichever node comes first: the others get its key.
    _ = meta.add_entry(SECRETS, KEY, key.to_vec(), 1).await?;
    let found = meta.entries(SECRETS).await?.into_iter().find(|(name, _)| name == KEY);
    let found = found.and_then(|(_, bytes)| bytes.try_into().ok());
    found.ok_or_else(|| NotJoined::Unreadable(KEY.to_owned()))
}

/// Returns all members by name.
///
/// # Errors
/// The error of the database; a row of another version.
pub async fn all(meta: &dyn Meta) -> Result<Vec<(String, Row)>, NotJoined> {
    let mut rows = Vec::new();
    for (name, bytes) in meta.entries(NODES).await? {
        let row = postcard::from_bytes(&bytes).map_err(|_| NotJoined::Unreadable(name.clone()))?;
        rows.push((name, row));
    }
    rows.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(rows)
}

/// Makes this process the node of a name, in place of the process before it.
///
/// # Errors
/// The error of the database; another process was faster.
pub async fn join(meta: &dyn Meta, name: &str, shards: u16, public_host: Option<String>) -> Result<Row, NotJoined> {
    let before = all(meta).await?.into_iter().find(|(other, _)| other == name).map(|(_, row)| row);
    let number = match &before {
        Some(row) => row.number,
        None => number(meta, name).await?,
    };
    let incarnation = before.as_ref().map_or(1, |row| row.incarnation.saturating_add(1));
    let claim = format!("{number}.{incarnation}");
    if meta.add_entry(PROCESSES, &claim, name.as_bytes().to_vec(), MOST).await? != Added::Done {
        return Err(NotJoined::Taken);
    }
    let row = Row { number, incarnation, shards, public_host };
    let bytes = postcard::to_allocvec(&row).map_err(|_| NotJoined::Unreadable(name.to_owned()))?;
    meta.put_entry(NODES, name, bytes).await?;
    if let Some(before) = before {
        meta.remove_entry(PROCESSES, &format!("{number}.{}", before.incarnation)).await?;
    }
    Ok(row)
}

/// Removes a node, which must have ended: others have its accounts from then on. `false` if there
/// is none of that name.
///
/// # Errors
/// The error of the database.
pub async fn remove(meta: &dyn Meta, name: &str) -> Result<bool, NotJoined> {
    Ok(meta.remove_entry(NODES, name).await?)
}

/// Takes a number that no node has had.
async fn number(meta: &dyn Meta, name: &str) -> Result<u16, NotJoined> {
    let taken = meta.entries(NUMBERS).await?;
    let highest = taken.iter().filter_map(|(number, _)| number.parse::<u16>().ok()).max().unwrap_or(0);
    for number in highest.saturating_add(1)..=u16::MAX {
        if meta.add_entry(NUMBERS, &number.to_string(), name.as_bytes().to_vec(), MOST).await? == Added::Done {
            return Ok(number);
        }
    }
    Err(NotJoined::Taken)
}

/// The list of the cluster's secrets.
const SECRETS: &str = "cluster secrets";
/// The entry of the address hash's key.
const KEY: &str = "addresses";
/// The list of nodes, by name.
const NODES: &str = "cluster nodes";
/// The list of numbers that nodes have, or have had.
const NUMBERS: &str = "cluster numbers";
/// The list of processes: an entry for each that is the newest of its node.
const PROCESSES: &str = "cluster processes";
/// Entries that a list may have.
const MOST: usize = 10_000;

#[cfg(test)]
mod tests {
    use rookery_base::wait;
    use rookery_store::memory::Memory;

    use super::*;

    #[test]
    fn nodes_keep_their_numbers_and_processes_get_new_ones() {
        let stores = Memory::stores();
        let meta = &*stores.meta;
        let joined = |name: &str| wait(join(meta, name, 2, None)).unwrap();
        let rows = [joined("n1"), joined("n2"), joined("n1")];
        assert_eq!(rows.map(|row| (row.number, row.incarnation)), [(1, 1), (2, 1), (1, 2)]);
    }
}
