//! The journal of a process, in Redis: the sessions and rooms of its shards, for the nodes that
//! take over when it dies.
//!
//! # Invariants
//!
//! * Data that a shard has passed on for writing is in its senders' custody until Redis has it.
//! * A new connection, or a failed write, begins an era: all shards write everything they have, and
//!   older eras are never read.
//! * If Redis accepts nothing for two seconds, the custody ends without it, but not before the
//!   database says that the era doesn't count. So no node continues a session that lacks
//!   acknowledged data.
//! * Writes use the same connection as letters, and go before the letters that their shard posted
//!   after them: no other node has read anything that the journal lacks.
//! * A reader closes a journal first: its process gets no confirmation for further writes. The
//!   journal of a process that ended in order is never read.
//! * Reading removes nothing. What was read is removed when the reader's own journal has it. If the
//!   reader's process continues without a journal, nobody reads that data any more either.
//! * Everything in Redis expires, unless its process renews it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use redis::RedisError;
use rookery_hub::{Custody, JournalBatch, JournalLookup, JournalWrite};
use rookery_observe::cluster::JournalSeen;
use rookery_store::meta::Meta;
use tracing::{info, warn};

use crate::carrying::{CarryingLoop, SECOND, is_broken};
use crate::engine::{RedisConnection, RedisEngine};
use crate::reading::{ClosedJournal, JournalPart, JournalQuestion, JournalReader};
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
    /// The time at which these slots were last renewed.
    renewed: Option<Instant>,
    /// The parts of others' journals that shards have read and that their own journals don't have
    /// completely yet, by shard and process.
    reading: BTreeMap<(usize, NodeProcess), Vec<JournalPart>>,
    /// The counts of data that was sent to Redis.
    given: JournalSeen,
}

impl JournalState {
    /// Returns an empty journal.
    pub(crate) fn new() -> Self {
        Self { broken_since: Some(Instant::now()), ..Self::default() }
    }

    /// Records that nothing can be written.
    pub(crate) fn note_loss(&mut self) {
        self.broken_since.get_or_insert_with(Instant::now);
    }

    /// Returns the counts of written data, and whether anything is accepted.
    pub(crate) fn state(&self) -> JournalSeen {
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
            journal.note_loss();
            return Ok(());
        }
        (journal.broken_since, journal.is_void, journal.renewed) = (None, false, Some(Instant::now()));
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
                self.journal.note_loss();
                if is_broken(&error) {
                    return self.lost(&error);
                }
                self.tell("journal", || {
                    warn!(%error, "Redis doesn't accept the data that other nodes would need if this one died");
                });
                self.begin_era_later();
            }
            // Redis has forgotten the journal, or the readers have closed it.
            Ok(false) if era == self.journal.era && self.journal.broken_since.is_none() => {
                self.journal.hold(shard, shares);
                self.journal.note_loss();
                self.begin_era_later();
            }
            // It was written before another era began.
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
        let read = journal
            .reading
            .iter()
            .flat_map(|((_, process), parts)| std::iter::once(*process).chain(parts.iter().map(|part| part.process)));
        let read: BTreeSet<NodeProcess> = read.collect();
        tokio::spawn(async move {
            let mut is_void = true;
            // Sessions continue here, so others would read an old state of them.
            for process in read {
                is_void &= say_void(&*meta, process, u64::MAX).await;
            }
            let is_void = is_void && say_void(&*meta, me, era).await;
            if !is_void {
                tokio::time::sleep(SECOND).await;
            }
            _ = events.send(ServiceEvent::Void(era, is_void));
        });
    }

    /// Records whether the database says that an era doesn't count.
    pub(crate) fn note_verdict(&mut self, era: u64, is_void: bool) {
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
    pub(crate) fn look_up(&mut self, shard: usize, lookup: JournalLookup) {
        let (engine, meta, door) =
            (self.outer.engine.clone(), self.outer.members.meta.clone(), self.outer.door.clone());
        let (node, incarnation) = lookup.process;
        let (process, events) = (NodeProcess { node, incarnation }, self.posted.events.clone());
        self.journal.reading.entry((shard, process)).or_default();
        tokio::spawn(async move {
            let mut reader = JournalReader::new(lookup);
            match read_in_time(&engine, &*meta, &mut reader).await {
                Ok(()) => {}
                Err(Some(error)) => {
                    warn!(%error, %process, "the journal of a node that died can't be read; its sessions and rooms end");
                }
                Err(None) => {
                    warn!(%process, "the journal of a node that died can't be read in time; its sessions and rooms end");
                }
            }
            let (fields, parts) = reader.finish();
            if !fields.is_empty() {
                info!(%process, fields = fields.len(), "the journal of a node that died was read");
            }
            _ = events.send(ServiceEvent::LookedUp(shard, process, parts));
            door.recovered(shard, (node, incarnation), fields);
        });
    }

    /// Records which parts of journals were read for a shard that had asked for the journal of a
    /// process.
    pub(crate) fn looked_up(&mut self, shard: usize, process: NodeProcess, parts: Vec<JournalPart>) {
        self.journal.reading.entry((shard, process)).or_default().extend(parts);
    }

    /// Removes what was read for a shard that had asked for the journal of a process.
    pub(crate) fn have_read(&mut self, shard: usize, process: NodeProcess) {
        let Some(parts) = self.journal.reading.remove(&(shard, process)) else { return };
        let connection = self.connection.clone().filter(|_| self.journal.broken_since.is_none());
        if let Some(mut connection) = connection {
            tokio::spawn(async move {
                for JournalPart { process, era, slots } in parts {
                    connection.forget_journal(process, era, slots).await;
                }
            });
        }
    }

    /// Keeps the journal of this process from expiring.
    pub(crate) fn renew_journal(&mut self) {
        let journal = &mut self.journal;
        let is_due = journal.renewed.is_some_and(|renewed| renewed.elapsed() >= RENEWED_EVERY);
        let connection = self.connection.clone().filter(|_| is_due && journal.broken_since.is_none());
        let Some(mut connection) = connection else { return };
        journal.renewed = Some(Instant::now());
        let (me, era, slots) = (self.table.me(), journal.era, journal.slots.iter().copied().collect());
        // If it fails, the connection breaks, which begins another era.
        tokio::spawn(async move { connection.renew_journal(me, era, slots).await });
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

/// Reads everything that a reader asks for, with another connection after each failure.
///
/// # Errors
/// The last error; `None` if the time is over.
async fn read_in_time(
    engine: &RedisEngine,
    meta: &dyn Meta,
    reader: &mut JournalReader,
) -> Result<(), Option<RedisError>> {
    let until = tokio::time::Instant::now() + LOOKUP;
    loop {
        match tokio::time::timeout_at(until, read_on(engine, meta, reader)).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) if tokio::time::Instant::now() + RETRY >= until => return Err(Some(error)),
            Ok(Err(_)) => tokio::time::sleep(RETRY).await,
            Err(_) => return Err(None),
        }
    }
}

/// Reads what a reader still asks for, over a new connection.
async fn read_on(engine: &RedisEngine, meta: &dyn Meta, reader: &mut JournalReader) -> Result<(), RedisError> {
    let mut connection = engine.connect().await?;
    while let Some(question) = reader.question() {
        match question {
            JournalQuestion::Close(process) => {
                let state = connection.close_journal(process).await?;
                reader.handle_closed(as_database_says(meta, process, state).await?);
            }
            JournalQuestion::Read(part) => {
                reader.read(connection.read_journal(part.process, part.era, &part.slots).await?);
            }
        }
    }
    Ok(())
}

/// Returns the state of a closed journal, which may be void.
async fn as_database_says(
    meta: &dyn Meta,
    process: NodeProcess,
    state: ClosedJournal,
) -> Result<ClosedJournal, RedisError> {
    let ClosedJournal::Era(era) = state else { return Ok(state) };
    let entries = meta.entries(VOID).await;
    let entries = entries.map_err(|error| std::io::Error::other(format!("{error:?}")))?;
    let void = entries.iter().find(|(name, _)| *name == process.to_string());
    let void = void.and_then(|(_, era)| Some(u64::from_be_bytes(era.as_slice().try_into().ok()?)));
    Ok(if void.is_some_and(|void| void >= era) { ClosedJournal::Void(era) } else { state })
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
/// The time between two attempts to read one.
const RETRY: Duration = Duration::from_millis(300);
/// The time between two renewals of the journal.
const RENEWED_EVERY: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests;
