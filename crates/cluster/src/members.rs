//! The members of a cluster: rows in the database that all nodes share.
//!
//! The database decides who is a member and under which number; Redis only shows who is alive. All
//! data here is in entries of lists ([`Meta`]), each in its own row.
//!
//! # Invariants
//!
//! * No two processes ever have the same numbers.
//! * A row is changed or removed only if it is unchanged since it was read: a slow process never
//!   overwrites the row of a later one with the same name.
//! * A process without a row is fenced off ([`Fencing`]): before the row is removed, and again by
//!   each process that notices, before it takes over a home.

use std::collections::BTreeSet;
use std::fmt;

use rookery_base::chance;
use rookery_hub::{LETTERS, OLDEST_LETTERS};
use rookery_store::meta::{Added, Meta};
use rookery_store::{Fencing, ProcessWriter, StoreError};
use serde::{Deserialize, Serialize};

use crate::agreed::AgreedSettings;
use crate::wire::NodeProcess;

/// The row of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRow {
    /// Its number, which no node with another name ever gets in this cluster.
    pub number: u16,
    /// The number of its processes so far.
    pub incarnation: u32,
    /// The number of shards of the last of them.
    pub shards: u16,
    /// The name under which clients reach it, if it has one of its own.
    pub public_host: Option<String>,
    /// True if it is leaving: others have to take over its homes, with everything that lives there.
    /// In the bytes, it comes after the fields that earlier versions read.
    #[serde(skip)]
    pub leaves: bool,
    /// The versions of letters that its process understands. In the bytes, they come next.
    #[serde(skip)]
    pub letters: LetterVersions,
    /// The surroundings of its process. In the bytes, they come next.
    #[serde(skip)]
    pub notes: MemberNotes,
    /// The first process of the node whose journal counts: others have had its homes before that.
    /// 0 if an earlier version wrote the row. In the bytes, it comes last.
    #[serde(skip)]
    pub journals_from: u32,
}

/// The surroundings of a process, which have to be the same for all nodes. A process of an earlier
/// version doesn't state them, and is not refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberNotes {
    /// The mark of its Redis ([`crate::marks`]).
    pub mark: Option<u64>,
    /// The settings on which all nodes have to agree.
    pub settings: AgreedSettings,
}

/// The part of a row that a joining process determines.
#[derive(Debug, Clone, Default)]
pub struct JoiningMember {
    /// The number of its shards.
    pub shards: u16,
    /// The name under which clients reach it, if it has one of its own.
    pub public_host: Option<String>,
    /// Its surroundings.
    pub notes: MemberNotes,
}

impl JoiningMember {
    /// Returns a process with this many shards that states nothing else.
    pub fn of_shards(shards: u16) -> Self {
        Self { shards, ..Self::default() }
    }
}

/// The versions of letters that a process understands, the oldest and the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetterVersions {
    /// The lowest version that the process can still read.
    pub oldest: u16,
    /// The highest version that the process can read.
    pub newest: u16,
}

impl LetterVersions {
    /// The versions of this process.
    pub const OWN: Self = Self { oldest: OLDEST_LETTERS, newest: LETTERS };

    /// Returns whether two processes have a version in common.
    pub fn fits(self, other: Self) -> bool {
        self.newest >= other.oldest && other.newest >= self.oldest
    }
}

impl Default for LetterVersions {
    /// Returns the versions of a process that doesn't state them, which is of version 0.2.0 or
    /// before.
    fn default() -> Self {
        Self { oldest: 1, newest: 1 }
    }
}

impl fmt::Display for LetterVersions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.oldest == self.newest {
            true => write!(f, "{}", self.newest),
            false => write!(f, "{}–{}", self.oldest, self.newest),
        }
    }
}

impl MemberRow {
    fn read(bytes: &[u8]) -> Option<Self> {
        let (row, rest) = postcard::take_from_bytes::<Self>(bytes).ok()?;
        let Some((leaves, rest)) = rest.split_first() else { return Some(row) };
        let row = Self { leaves: *leaves == 1, ..row };
        let Ok((letters, rest)) = postcard::take_from_bytes::<LetterVersions>(rest) else { return Some(row) };
        let row = Self { letters, ..row };
        let Ok((notes, rest)) = postcard::take_from_bytes::<MemberNotes>(rest) else { return Some(row) };
        // Later versions may write more.
        let journals_from = postcard::take_from_bytes::<u32>(rest).map_or(0, |(from, _)| from);
        Some(Self { notes, journals_from, ..row })
    }

    fn bytes(&self) -> Option<Vec<u8>> {
        let mut bytes = postcard::to_allocvec(self).ok()?;
        bytes.push(u8::from(self.leaves));
        let bytes = postcard::to_extend(&self.notes, postcard::to_extend(&self.letters, bytes).ok()?).ok()?;
        postcard::to_extend(&self.journals_from, bytes).ok()
    }
}

/// A process that has joined.
#[derive(Debug, Clone)]
pub struct JoinedMember {
    /// The row of the node in the database, as this process has written it.
    pub row: MemberRow,
    /// True if no earlier process of the node was a member, so that others have had its homes.
    pub is_newcomer: bool,
}

/// The reason why a process can't be a member.
#[derive(Debug)]
pub enum NotJoined {
    /// The database failed.
    Store(StoreError),
    /// Another process took the node's next number at the same moment.
    Taken,
    /// A row can't be read, because another version wrote it.
    Unreadable(String),
    /// The operating system can't provide random bytes.
    Chance,
}

impl From<StoreError> for NotJoined {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Returns the key of the cluster's address hash, which the first node creates.
///
/// # Errors
/// The error of the database.
pub async fn key(meta: &dyn Meta) -> Result<[u8; 16], NotJoined> {
    let mut key = [0; 16];
    chance::fill(&mut key).map_err(|_| NotJoined::Chance)?;
    // The first node to write determines the key, and the others get it.
    _ = meta.add_entry(SECRETS, KEY, key.to_vec(), 1).await?;
    find_key(meta).await?.ok_or_else(|| NotJoined::Unreadable(KEY.to_owned()))
}

/// Returns the key of the cluster's address hash, if a node has created one.
///
/// # Errors
/// The error of the database.
pub async fn find_key(meta: &dyn Meta) -> Result<Option<[u8; 16]>, NotJoined> {
    let found = meta.entries(SECRETS).await?.into_iter().find(|(name, _)| name == KEY);
    Ok(found.and_then(|(_, bytes)| bytes.try_into().ok()))
}

/// Returns all members by name.
///
/// # Errors
/// The error of the database; a row that another version wrote.
pub async fn all(meta: &dyn Meta) -> Result<Vec<(String, MemberRow)>, NotJoined> {
    Ok(read_members(meta).await?.into_iter().map(|(name, row, _)| (name, row)).collect())
}

/// Returns all members by name, with the bytes of their rows.
async fn read_members(meta: &dyn Meta) -> Result<Vec<(String, MemberRow, Vec<u8>)>, NotJoined> {
    let mut rows = Vec::new();
    for (name, bytes) in meta.entries(NODES).await? {
        let row = MemberRow::read(&bytes).ok_or_else(|| NotJoined::Unreadable(name.clone()))?;
        rows.push((name, row, bytes));
    }
    rows.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(rows)
}

/// Makes this process the node with a name, in place of the previous process, which can't write any
/// more from then on.
///
/// # Errors
/// The error of the database, or another process was faster.
pub async fn join(
    meta: &dyn Meta,
    fencing: &dyn Fencing,
    name: &str,
    joining: JoiningMember,
) -> Result<JoinedMember, NotJoined> {
    let before = all(meta).await?.into_iter().find(|(other, _)| other == name).map(|(_, row)| row);
    let number = match &before {
        Some(row) => row.number,
        None => number(meta, name).await?,
    };
    let mut earlier = processes(meta, number).await?;
    earlier.extend(before.map(|row| row.incarnation));
    for incarnation in &earlier {
        fencing.fence(ProcessWriter { node: number, incarnation: *incarnation }).await?;
    }
    let incarnation = earlier.last().map_or(1, |last| last.saturating_add(1));
    let claim = claim(number, incarnation);
    if meta.add_entry(PROCESSES, &claim, name.as_bytes().to_vec(), MOST).await? != Added::Done {
        return Err(NotJoined::Taken);
    }
    // This is done before others know the process, since they fence off processes that have rows.
    fencing.enlist(ProcessWriter { node: number, incarnation }).await?;
    let JoiningMember { shards, public_host, notes } = joining;
    let (leaves, letters, journals_from) = (false, LetterVersions::OWN, incarnation);
    let row = MemberRow { number, incarnation, shards, public_host, leaves, letters, notes, journals_from };
    let row = write(meta, name, row).await?;
    for incarnation in earlier {
        meta.remove_entry(PROCESSES, &self::claim(number, incarnation)).await?;
    }
    Ok(JoinedMember { is_newcomer: row.journals_from == incarnation, row })
}

/// Writes the row of a process in place of its predecessor's, which others may be removing. Returns
/// it with the first process whose journal counts: that of the row it replaces, or itself.
///
/// # Errors
/// The error of the database; a later process has its row there.
async fn write(meta: &dyn Meta, name: &str, row: MemberRow) -> Result<MemberRow, NotJoined> {
    for _ in 0..ATTEMPTS {
        let before = read_members(meta).await?.into_iter().find(|(other, ..)| other == name);
        let journals_from = before.as_ref().map_or(row.incarnation, |(_, before, _)| before.journals_from);
        let row = MemberRow { journals_from, ..row.clone() };
        let bytes = row.bytes().ok_or_else(|| NotJoined::Unreadable(name.to_owned()))?;
        let is_written = match before {
            Some((_, before, _)) if before.incarnation > row.incarnation => return Err(NotJoined::Taken),
            Some((.., before)) => meta.replace_entry(NODES, name, before, Some(bytes)).await?,
            None => meta.add_entry(NODES, name, bytes, MOST).await? == Added::Done,
        };
        if is_written {
            return Ok(row);
        }
    }
    Err(NotJoined::Taken)
}

/// Returns the numbers of a node's processes that are not cleaned up, in order: those of processes
/// that ended while they joined, and that of its last one.
async fn processes(meta: &dyn Meta, number: u16) -> Result<BTreeSet<u32>, NotJoined> {
    let of_node = |claim: &str| {
        let (node, incarnation) = claim.split_once('.')?;
        (node.parse() == Ok(number)).then(|| incarnation.parse().ok())?
    };
    let claims = meta.entries(PROCESSES).await?;
    Ok(claims.iter().filter_map(|(claim, _)| of_node(claim)).collect())
}

fn claim(number: u16, incarnation: u32) -> String {
    format!("{number}.{incarnation}")
}

/// Makes a running node leave: others have to take over its homes, and it hands on everything that
/// lives there. Returns `false` if there is no node with that name.
///
/// # Errors
/// The error of the database.
pub async fn leave(meta: &dyn Meta, name: &str) -> Result<bool, NotJoined> {
    for _ in 0..ATTEMPTS {
        let Some((name, row, before)) = read_members(meta).await?.into_iter().find(|(other, ..)| other == name) else {
            return Ok(false);
        };
        let leaving = MemberRow { leaves: true, ..row };
        let bytes = leaving.bytes().ok_or_else(|| NotJoined::Unreadable(name.clone()))?;
        if meta.replace_entry(NODES, &name, before, Some(bytes)).await? {
            return Ok(true);
        }
    }
    Err(NotJoined::Taken)
}

/// Changes the settings in the row of this process, which has read its configuration again. Returns
/// `false` if it has no row any more.
///
/// # Errors
/// The error of the database.
pub async fn settle(meta: &dyn Meta, process: NodeProcess, settings: &AgreedSettings) -> Result<bool, NotJoined> {
    let is_own = |row: &MemberRow| (row.number, row.incarnation) == (process.node, process.incarnation);
    for _ in 0..ATTEMPTS {
        let Some((name, row, before)) = read_members(meta).await?.into_iter().find(|(_, row, _)| is_own(row)) else {
            return Ok(false);
        };
        let notes = MemberNotes { settings: settings.clone(), ..row.notes.clone() };
        let bytes = MemberRow { notes, ..row }.bytes().ok_or_else(|| NotJoined::Unreadable(name.clone()))?;
        if meta.replace_entry(NODES, &name, before, Some(bytes)).await? {
            return Ok(true);
        }
    }
    Err(NotJoined::Taken)
}

/// Removes the row of this process, which has left and can't write any more.
///
/// # Errors
/// The error of the database.
pub async fn withdraw(meta: &dyn Meta, process: NodeProcess) -> Result<bool, NotJoined> {
    let is_own = |row: &MemberRow| (row.number, row.incarnation) == (process.node, process.incarnation);
    match read_members(meta).await?.into_iter().find(|(_, row, _)| is_own(row)) {
        Some((name, _, bytes)) => Ok(meta.replace_entry(NODES, &name, bytes, None).await?),
        None => Ok(false),
    }
}

/// Takes over the homes of a process: from then on, the others have its accounts. Returns `false`
/// if the node has another process by now, or was removed before.
///
/// # Errors
/// The error of the database; this process was itself fenced off.
pub async fn take_over(meta: &dyn Meta, fencing: &dyn Fencing, process: NodeProcess) -> Result<bool, NotJoined> {
    let NodeProcess { node, incarnation } = process;
    fencing.fence(ProcessWriter { node, incarnation }).await?;
    let rows = read_members(meta).await?;
    let row = rows.into_iter().find(|(_, row, _)| (row.number, row.incarnation) == (node, incarnation));
    match row {
        Some((name, _, bytes)) => Ok(meta.replace_entry(NODES, &name, bytes, None).await?),
        None => Ok(false),
    }
}

/// Removes a node, which must have ended: from then on, others have its accounts. Returns `false`
/// if there is no node with that name.
///
/// # Errors
/// The error of the database.
pub async fn remove(meta: &dyn Meta, fencing: &dyn Fencing, name: &str) -> Result<bool, NotJoined> {
    let Some((_, row)) = all(meta).await?.into_iter().find(|(other, _)| other == name) else { return Ok(false) };
    take_over(meta, fencing, NodeProcess { node: row.number, incarnation: row.incarnation }).await
}

/// Returns the number that the node with this name has, or had before it was removed.
///
/// # Errors
/// The error of the database.
pub async fn find_number(meta: &dyn Meta, name: &str) -> Result<Option<u16>, NotJoined> {
    Ok(own_number(&meta.entries(NUMBERS).await?, name))
}

/// Returns the number that a node has in the list of all numbers.
fn own_number(taken: &[(String, Vec<u8>)], name: &str) -> Option<u16> {
    let own = taken.iter().find(|(_, of)| of == name.as_bytes());
    own.and_then(|(number, _)| number.parse().ok())
}

/// Returns the number of the node with this name, or assigns one that none has had.
async fn number(meta: &dyn Meta, name: &str) -> Result<u16, NotJoined> {
    let taken = meta.entries(NUMBERS).await?;
    if let Some(own) = own_number(&taken, name) {
        return Ok(own);
    }
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
/// The list of all numbers that nodes have, or have had.
const NUMBERS: &str = "cluster numbers";
/// The list of processes: an entry for the newest of each node, even if the node was removed.
const PROCESSES: &str = "cluster processes";
/// The most entries that a list may have.
const MOST: usize = 10_000;
/// The attempts to write a row that others may change in between. They can remove it once at most.
const ATTEMPTS: usize = 3;

#[cfg(test)]
mod tests;
