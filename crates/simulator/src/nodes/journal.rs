//! The journal of a process in the simulated Redis, and look-ups in the journals of dead processes,
//! in the same steps as the server's.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use rookery_cluster::reading::{ClosedJournal, JournalPart, JournalQuestion, JournalReader};
use rookery_cluster::wire::NodeProcess;
use rookery_hub::{Custody, JournalBatch, JournalFields, JournalLookup};
use rookery_store::{Meta, ProcessWriter};

use crate::nodes::fencing::SimulatedFences;
use crate::nodes::redis::SimRedis;

/// A process's connection to Redis.
#[derive(Clone)]
pub(crate) struct RedisReach {
    pub redis: Rc<RefCell<SimRedis>>,
    pub now_ms: Rc<Cell<u64>>,
    /// True while this process can't reach Redis, although others may.
    pub is_cut_off: Rc<Cell<bool>>,
    pub fences: SimulatedFences,
    /// The process.
    pub me: NodeProcess,
}

impl RedisReach {
    /// Returns whether Redis can be reached now.
    pub fn is_there(&self) -> bool {
        !self.is_cut_off.get() && !self.redis.borrow().is_away
    }
}

/// The journal of a process, as the part beside its shards sees it.
pub(crate) struct AgentJournal {
    /// The era that is being written.
    era: u64,
    /// The time since which nothing could be written, in milliseconds; `None` while writes succeed.
    broken_since_ms: Option<u64>,
    /// True once the database has recorded that the era doesn't count.
    is_void: bool,
    /// True while the database is asked to record that.
    is_voiding: bool,
    /// Shares in the custody of data that still has to be written in the next era, by shard.
    held: Vec<(usize, Vec<Custody>)>,
    /// The shards that have written all their data in this era.
    whole: BTreeSet<usize>,
    /// The time at which the era was last renewed, in milliseconds.
    renewed_ms: u64,
    /// The parts of other journals that shards have read, while their own journals don't have all
    /// consequences yet; by the shard and the process whose journal it asked for.
    reading: BTreeMap<(usize, NodeProcess), Vec<JournalPart>>,
}

impl AgentJournal {
    /// Returns an empty journal.
    pub fn new(now_ms: u64) -> Self {
        Self {
            era: 0,
            broken_since_ms: Some(now_ms),
            is_void: false,
            is_voiding: false,
            held: Vec::new(),
            whole: BTreeSet::new(),
            renewed_ms: now_ms,
            reading: BTreeMap::new(),
        }
    }

    /// Returns whether the journal has everything that this many shards have promised.
    pub fn is_whole(&self, shards: usize) -> bool {
        self.broken_since_ms.is_none() && self.whole.len() == shards
    }

    /// Begins an era, over a new connection. Returns its number, or `None` if other nodes have
    /// closed the journal.
    pub fn begin_era(&mut self, me: NodeProcess, redis: &mut SimRedis, now_ms: u64) -> Option<u64> {
        let last = self.era;
        self.era += 1;
        self.whole.clear();
        if !redis.begin_journal(me, self.era) {
            self.lost(now_ms);
            return None;
        }
        (self.broken_since_ms, self.is_void, self.renewed_ms) = (None, false, now_ms);
        redis.forget_journal(me, last, None);
        Some(self.era)
    }

    /// Records that nothing can be written for now.
    pub fn lost(&mut self, now_ms: u64) {
        self.broken_since_ms.get_or_insert(now_ms);
    }

    /// Returns a batch if it can be written now, and otherwise keeps its custody.
    pub fn take(&mut self, shard: usize, batch: JournalBatch) -> Option<JournalBatch> {
        if self.broken_since_ms.is_none() && batch.era == self.era {
            return Some(batch);
        }
        self.hold(shard, batch.shares);
        None
    }

    /// Keeps the custody of a batch that may or may not have been written.
    pub fn hold(&mut self, shard: usize, shares: Vec<Custody>) {
        if !self.is_void {
            self.held.push((shard, shares));
        }
    }

    /// Makes a batch reach Redis, and handles the outcome.
    pub fn write(&mut self, me: NodeProcess, shard: usize, batch: JournalBatch, redis: &mut SimRedis) {
        let JournalBatch { era, writes, is_whole, shares } = batch;
        let counts = redis.write_journal(me, era, writes);
        if !counts || era != self.era || self.broken_since_ms.is_some() {
            return self.hold(shard, shares);
        }
        drop(shares);
        if is_whole {
            self.held.retain(|(of, _)| *of != shard);
            self.whole.insert(shard);
        }
    }

    /// Renews the journal, so that it doesn't expire.
    pub fn renew(&mut self, me: NodeProcess, redis: &mut SimRedis, now_ms: u64) {
        if self.broken_since_ms.is_none() && now_ms >= self.renewed_ms + RENEWED_EVERY_MS {
            self.renewed_ms = now_ms;
            redis.renew_journal(me, self.era);
        }
    }

    /// Records which parts of journals are being read for a shard that has asked for the journal of
    /// a process.
    pub fn reads(&mut self, shard: usize, process: NodeProcess, parts: Vec<JournalPart>) {
        self.reading.entry((shard, process)).or_default().extend(parts);
    }

    /// Removes the parts that were read for a shard which had asked for the journal of a process.
    pub fn have_read(&mut self, shard: usize, process: NodeProcess, redis: Option<&mut SimRedis>) {
        let parts = self.reading.remove(&(shard, process)).unwrap_or_default();
        let Some(redis) = redis.filter(|_| self.broken_since_ms.is_none()) else { return };
        for JournalPart { process, era, slots } in parts {
            redis.forget_journal(process, era, Some(&slots));
        }
    }

    /// Returns the processes whose journals are being read here.
    pub fn read(&self) -> BTreeSet<NodeProcess> {
        let parts = self.reading.values().flatten().map(|part| part.process);
        self.reading.keys().map(|(_, process)| *process).chain(parts).collect()
    }

    /// Returns the era that the database has to declare invalid now, since nothing could be written
    /// for a while.
    pub fn void(&mut self, now_ms: u64) -> Option<u64> {
        let is_late = self.broken_since_ms.is_some_and(|since| now_ms >= since + PATIENCE_MS);
        if !is_late || self.is_void || std::mem::replace(&mut self.is_voiding, true) {
            return None;
        }
        Some(self.era)
    }

    /// Records whether the database has declared an era invalid.
    pub fn record_void(&mut self, era: u64, is_void: bool) {
        self.is_voiding = false;
        if is_void && era == self.era && self.broken_since_ms.is_some() {
            self.is_void = true;
            self.held.clear();
        }
    }
}

/// Returns the data of some slots in the journal of a process, and its place. Returns nothing if
/// Redis or the database doesn't reply in time.
pub(crate) async fn look_up(
    reach: RedisReach,
    meta: Arc<dyn Meta>,
    lookup: JournalLookup,
) -> (JournalFields, Vec<JournalPart>) {
    let until = reach.now_ms.get() + LOOKUP_MS;
    // The reader may go on from these journals to others, which processes were reading that died.
    let asked: Vec<_> = std::iter::once(lookup.process).chain(lookup.earlier.iter().copied()).collect();
    let slots = lookup.slots.clone();
    let mut reader = JournalReader::new(lookup);
    while let Some(question) = reader.question() {
        if let JournalQuestion::Read(part) = &question
            && asked.contains(&(part.process.node, part.process.incarnation))
        {
            reach.fences.note_read(part.process, reach.me, &slots);
        }
        let now_ms = reach.now_ms.clone();
        let mut answer = Box::pin(ask(&reach, &*meta, &question));
        let answer = poll_fn(|context| match answer.as_mut().poll(context) {
            Poll::Pending if now_ms.get() >= until => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
        });
        match answer.await {
            None => break,
            Some(Some(JournalAnswer::Closed(state))) => reader.handle_closed(state),
            Some(Some(JournalAnswer::Fields(fields))) => reader.read(fields),
            // The look-up is tried again a little later.
            Some(None) => {
                let failed_ms = reach.now_ms.get();
                let is_later = |now_ms: u64| now_ms >= until || now_ms >= failed_ms + RETRY_MS;
                poll_fn(|_| if is_later(now_ms.get()) { Poll::Ready(()) } else { Poll::Pending }).await;
                if now_ms.get() >= until {
                    break;
                }
            }
        }
    }
    reader.finish()
}

enum JournalAnswer {
    Closed(ClosedJournal),
    Fields(JournalFields),
}

/// Asks Redis and the database. Returns `None` if one of them fails.
async fn ask(reach: &RedisReach, meta: &dyn Meta, question: &JournalQuestion) -> Option<JournalAnswer> {
    let there = || reach.is_there().then(|| reach.redis.borrow_mut());
    let process = match question {
        JournalQuestion::Read(part) => return Some(JournalAnswer::Fields(there()?.read_journal(part))),
        JournalQuestion::Close(process) => *process,
    };
    // From here on the accounts of the process belong to others.
    reach.fences.note_taken(ProcessWriter { node: process.node, incarnation: process.incarnation });
    let state = there()?.close_journal(process);
    let ClosedJournal::Era(era) = state else { return Some(JournalAnswer::Closed(state)) };
    let entries = meta.entries(VOID).await.ok()?;
    let void = entries.iter().find(|(name, _)| *name == process.to_string());
    let void = void.and_then(|(_, era)| Some(u64::from_be_bytes(era.as_slice().try_into().ok()?)));
    let is_void = void.is_some_and(|void| void >= era);
    Some(JournalAnswer::Closed(if is_void { ClosedJournal::Void(era) } else { state }))
}

/// Ends the journal of a process whose sessions and rooms have moved elsewhere.
pub(crate) async fn end(reach: RedisReach, has_connection: bool, meta: Arc<dyn Meta>, me: NodeProcess) {
    if has_connection && reach.is_there() {
        reach.redis.borrow_mut().end_journal(me);
    } else {
        _ = say_void(meta, me, u64::MAX).await;
    }
}

/// Records in the database that the eras up to this one don't count. Returns whether that
/// succeeded.
pub(crate) async fn say_void(meta: Arc<dyn Meta>, process: NodeProcess, era: u64) -> bool {
    meta.put_entry(VOID, &process.to_string(), era.to_be_bytes().to_vec()).await.is_ok()
}

/// The key of the list of invalid journals in the database.
const VOID: &str = "cluster journals void";
/// The time for which senders wait for Redis.
const PATIENCE_MS: u64 = 2_000;
/// The time limit for reading a journal.
const LOOKUP_MS: u64 = 8_000;
/// The time between two attempts, and the time between two renewals, in milliseconds.
const RETRY_MS: u64 = 300;
const RENEWED_EVERY_MS: u64 = 3_600_000;
