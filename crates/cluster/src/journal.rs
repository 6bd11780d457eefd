//! The journal of a process, in Redis: the sessions and rooms of its shards, for the nodes that
//! take over when it dies.
//!
//! # Invariants
//!
//! * Data that a shard has passed on for writing is in its senders' custody until Redis has it.
//! * A new connection, or a failed write, begins an era: all shards write everything they have, and
//!   older eras are never read.
//! * If Redis accepts nothing for two seconds, the custody ends without it, but not before the
//!   database says that the era doesn't count, so that no node continues a session that lacks
//!   acknowledged data.
//! * Writes use the same connection as letters, and go before the letters that their shard posted
//!   after them: no other node has read anything that the journal lacks.
//! * A reader closes a journal first: its process gets no confirmation for further writes. The
//!   journal of a process that ended in order is never read.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use redis::RedisError;
use rookery_hub::{Custody, JournalBatch, JournalFields, JournalLookup, JournalWrite};
use rookery_observe::cluster::JournalSeen;
use rookery_store::meta::Meta;
use tracing::{info, warn};

use crate::carrying::{CarryingLoop, SECOND, is_broken};
use crate::engine::{RedisConnection, RedisEngine};
use crate::service::ServiceEvent;
use crate::wire::NodeProcess;

/// The journal of this process.
#[derive(Default)]
pub(crate) struct JournalState {
    /// The era that is written.
    era: u64,
    /// The time since which nothing can be written; `None` while something can.
    broken_since: Option<Instant>,
    /// True once the database says that the era doesn't count.
    is_void: bool,
    /// True while the database is being told so.
    is_voiding: bool,
    /// Shares in the custody of data that still has to be written in the next era, by shard.
    held: Vec<(usize, Vec<Custody>)>,
    /// The slots that the era has.
    slots: BTreeSet<u16>,
    /// The counts of data that was sent to Redis.
    given: JournalSeen,
}

impl JournalState {
    /// Returns an empty journal.
    pub(crate) fn new() -> Self {
        Self { broken_since: Some(Instant::now()), ..Self::default() }
    }

    /// Records that nothing can be written.
    pub(crate) fn lost(&mut self) {
        self.broken_since.get_or_insert_with(Instant::now);
    }

    /// Returns the counts of written data, and whether anything is accepted.
    pub(crate) fn seen(&self) -> JournalSeen {
        JournalSeen { is_kept: self.broken_since.is_none(), ..self.given }
    }

    fn hold(&mut self, shard: usize, shares: Vec<Custody>) {
        if !self.is_void {
            self.held.push((shard, shares));
        }
    }
}

impl CarryingLoop {
    /// Begins an era, over a new connection.
    pub(crate) async fn begin_era(&mut self, connection: &mut RedisConnection) -> Result<(), RedisError> {
        let (me, journal) = (self.table.me(), &mut self.journal);
        let last = (journal.era, std::mem::take(&mut journal.slots));
        journal.era += 1;
        if !connection.begin_journal(me, journal.era).await? {
            // Others have read the journal, so this process is about to end.
            journal.lost();
            return Ok(());
        }
        (journal.broken_since, journal.is_void) = (None, false);
        self.outer.door.rewrite_journal(journal.era);
        let mut connection = connection.clone();
        tokio::spawn(async move { connection.forget_journal(me, last.0, last.1.into_iter().collect()).await });
        Ok(())
    }

    /// Writes the data that shards have passed on.
    pub(crate) fn write_journal(&mut self, batches: Vec<(usize, JournalBatch)>) {
        for (shard, batch) in batches {
            let JournalBatch { era, writes, is_whole, shares } = batch;
            let connection = self.connection.clone().filter(|_| self.journal.broken_since.is_none());
            let Some(mut connection) = connection.filter(|_| era == self.journal.era) else {
                self.journal.hold(shard, shares);
                continue;
            };
            self.journal.slots.extend(writes.iter().map(|write| write.slot));
            let given = &mut self.journal.given;
            given.batches += 1;
            given.writes += writes.len() as u64;
            given.bytes += writes.iter().map(JournalWrite::bytes).sum::<usize>() as u64;
            let (me, events) = (self.table.me(), self.posted.events.clone());
            tokio::spawn(async move {
                let outcome = connection.journal(me, era, writes).await;
                _ = events.send(ServiceEvent::Journaled(shard, era, is_whole, shares, outcome));
            });
        }
    }

    /// Handles the outcome of a write.
    pub(crate) fn journaled(
        &mut self,
        (shard, era, is_whole): (usize, u64, bool),
        shares: Vec<Custody>,
        outcome: Result<bool, RedisError>,
    ) {
        match outcome {
            Ok(true) if era == self.journal.era && self.journal.broken_since.is_none() => {
                drop(shares);
                if is_whole {
                    self.journal.held.retain(|(of, _)| *of != shard);
                }
            }
            Err(error) if era == self.journal.era => {
                self.journal.hold(shard, shares);
                self.journal.lost();
                if is_broken(&error) {
                    return self.lost(&error);
                }
                self.tell("journal", || {
                    warn!(%error, "Redis doesn't accept what other nodes would need if this one died");
                });
                self.begin_era_later();
            }
            // It was written before another era began, or the readers have closed the journal.
            _ => self.journal.hold(shard, shares),
        }
    }

    fn begin_era_later(&self) {
        let events = self.posted.events.clone();
        tokio::spawn(async move {
            tokio::time::sleep(SECOND).await;
            _ = events.send(ServiceEvent::NextEra);
        });
    }

    /// Tries again to write, after Redis had refused a write.
    pub(crate) async fn next_era(&mut self) {
        if self.journal.broken_since.is_none() {
            return;
        }
        let Some(mut connection) = self.connection.clone() else { return };
        if let Err(error) = self.begin_era(&mut connection).await {
            if is_broken(&error) {
                return self.lost(&error);
            }
            self.begin_era_later();
        }
    }

    /// Lets senders continue without the journal after nothing could be written for a while.
    pub(crate) fn void_journal(&mut self) {
        let journal = &mut self.journal;
        let is_late = journal.broken_since.is_some_and(|since| since.elapsed() >= PATIENCE);
        if !is_late || journal.is_void || std::mem::replace(&mut journal.is_voiding, true) {
            return;
        }
        let (meta, events, me, era) =
            (self.outer.members.meta.clone(), self.posted.events.clone(), self.table.me(), journal.era);
        tokio::spawn(async move {
            let is_void = say_void(&*meta, me, era).await;
            if !is_void {
                tokio::time::sleep(SECOND).await;
            }
            _ = events.send(ServiceEvent::Void(era, is_void));
        });
    }

    /// Records whether the database says that an era doesn't count.
    pub(crate) fn voided(&mut self, era: u64, is_void: bool) {
        self.journal.is_voiding = false;
        if is_void && era == self.journal.era && self.journal.broken_since.is_some() {
            self.tell("void", || {
                warn!("Redis has been unreachable for too long: if this node died now, none of its sessions could be resumed");
            });
            self.journal.is_void = true;
            self.journal.held.clear();
        }
    }

    /// Reads the journal of a dead process, for a shard.
    pub(crate) fn look_up(&self, shard: usize, lookup: JournalLookup) {
        let (engine, meta, door) =
            (self.outer.engine.clone(), self.outer.members.meta.clone(), self.outer.door.clone());
        tokio::spawn(async move {
            let (node, incarnation) = lookup.process;
            let process = NodeProcess { node, incarnation };
            let found = tokio::time::timeout(LOOKUP, look_into(&engine, &*meta, process, &lookup.slots)).await;
            let fields = match found {
                Ok(Ok(fields)) => fields,
                Ok(Err(error)) => {
                    warn!(%error, %process, "the journal of a node that died can't be read; its sessions and rooms end");
                    JournalFields::new()
                }
                Err(_) => {
                    warn!(%process, "the journal of a node that died can't be read in time; its sessions and rooms end");
                    JournalFields::new()
                }
            };
            if !fields.is_empty() {
                info!(%process, fields = fields.len(), "the journal of a node that died was read");
            }
            door.recovered(shard, lookup.process, fields);
        });
    }
}

/// Ends the journal of this process, whose sessions and rooms have moved elsewhere, or wait in a
/// file: reading it later would restore an old state.
pub(crate) async fn end(
    connection: Option<&mut RedisConnection>,
    meta: &dyn Meta,
    me: NodeProcess,
    journal: JournalState,
) {
    let Some(connection) = connection else {
        _ = say_void(meta, me, u64::MAX).await;
        return;
    };
    match connection.end_journal(me).await {
        Ok(()) => connection.forget_journal(me, journal.era, journal.slots.into_iter().collect()).await,
        Err(_) => _ = say_void(meta, me, u64::MAX).await,
    }
}

/// Returns the journal of a process for some slots, and removes it.
async fn look_into(
    engine: &RedisEngine,
    meta: &dyn Meta,
    process: NodeProcess,
    slots: &[u16],
) -> Result<JournalFields, RedisError> {
    let mut connection = engine.connect().await?;
    let Some(era) = connection.close_journal(process).await? else { return Ok(JournalFields::new()) };
    let entries = meta.entries(VOID).await;
    let entries = entries.map_err(|error| std::io::Error::other(format!("{error:?}")))?;
    let void = entries.iter().find(|(name, _)| *name == process.to_string());
    let void = void.and_then(|(_, era)| Some(u64::from_be_bytes(era.as_slice().try_into().ok()?)));
    if void.is_some_and(|void| void >= era) {
        return Ok(JournalFields::new());
    }
    let mut fields = JournalFields::new();
    for slots in slots.chunks(AT_ONCE) {
        fields.extend(connection.take_journal(process, era, slots).await?);
    }
    Ok(fields)
}

/// Records in the database that eras up to this one don't count. Returns whether that succeeded.
async fn say_void(meta: &dyn Meta, process: NodeProcess, era: u64) -> bool {
    meta.put_entry(VOID, &process.to_string(), era.to_be_bytes().to_vec()).await.is_ok()
}

/// Removes the database's records about the journals of a node's earlier processes, except the last
/// ones.
pub(crate) async fn forget_void(meta: &dyn Meta, me: NodeProcess) {
    let Ok(entries) = meta.entries(VOID).await else { return };
    let is_old = |name: &str| {
        let (node, incarnation) = name.split_once('.')?;
        let incarnation: u32 = incarnation.parse().ok()?;
        Some(node.parse() == Ok(me.node) && incarnation.saturating_add(LIVES) < me.incarnation)
    };
    for (name, _) in entries.iter().filter(|(name, _)| is_old(name) == Some(true)) {
        _ = meta.remove_entry(VOID, name).await;
    }
}

/// The list of invalid journals.
const VOID: &str = "cluster journals void";
/// The number of a node's processes whose journals may still be read.
const LIVES: u32 = 8;
/// The time for which senders wait for Redis.
const PATIENCE: Duration = Duration::from_secs(2);
/// The time limit for reading a journal.
const LOOKUP: Duration = Duration::from_secs(8);
/// The number of slots that are read at once.
const AT_ONCE: usize = 256;
