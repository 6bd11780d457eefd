//! The journal of a process, in the simulated Redis, and look-ups in the journals of dead
//! processes: in the steps of the server.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use rookery_cluster::wire::NodeProcess;
use rookery_hub::{Custody, JournalBatch, JournalFields};
use rookery_store::{Meta, ProcessWriter};

use crate::nodes::fencing::SimulatedFences;
use crate::nodes::redis::SimRedis;

/// A process's connection to Redis.
#[derive(Clone)]
pub(crate) struct RedisReach {
    pub redis: Rc<RefCell<SimRedis>>,
    pub now_ms: Rc<Cell<u64>>,
    /// True while this process can't reach it, although others may.
    pub is_cut_off: Rc<Cell<bool>>,
    pub fences: SimulatedFences,
}

impl RedisReach {
    /// Returns whether Redis can be reached now.
    pub fn is_there(&self) -> bool {
        !self.is_cut_off.get() && !self.redis.borrow().is_away
    }
}

/// The journal of a process, in the view of the part beside its shards.
pub(crate) struct AgentJournal {
    /// The era that is written.
    era: u64,
    /// The time since which nothing can be written; `None` while writes succeed.
    broken_since_ms: Option<u64>,
    /// True once the database says that the era doesn't count.
    is_void: bool,
    /// True while the database is being told so.
    is_voiding: bool,
    /// Shares in the custody of data that still has to be written in the next era, by shard.
    held: Vec<(usize, Vec<Custody>)>,
    /// The shards that have written all their data in this era.
    whole: BTreeSet<usize>,
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
        }
    }

    /// Returns whether it has everything that this many shards have promised.
    pub fn is_whole(&self, shards: usize) -> bool {
        self.broken_since_ms.is_none() && self.whole.len() == shards
    }

    /// Begins an era, over a new connection. Returns its number; `None` if others have closed the
    /// journal.
    pub fn begin_era(&mut self, me: NodeProcess, redis: &mut SimRedis, now_ms: u64) -> Option<u64> {
        let last = self.era;
        self.era += 1;
        self.whole.clear();
        if !redis.begin_journal(me, self.era) {
            self.lost(now_ms);
            return None;
        }
        (self.broken_since_ms, self.is_void) = (None, false);
        redis.forget_journal(me, last);
        Some(self.era)
    }

    /// Records that nothing can be written.
    pub fn lost(&mut self, now_ms: u64) {
        self.broken_since_ms.get_or_insert(now_ms);
    }

    /// Returns a batch if it can be written now; otherwise keeps its custody.
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

    /// Returns the era that the database has to declare invalid now, if nothing could be written
    /// for a while.
    pub fn void(&mut self, now_ms: u64) -> Option<u64> {
        let is_late = self.broken_since_ms.is_some_and(|since| now_ms >= since + PATIENCE_MS);
        if !is_late || self.is_void || std::mem::replace(&mut self.is_voiding, true) {
            return None;
        }
        Some(self.era)
    }

    /// Records whether the database says so.
    pub fn voided(&mut self, era: u64, is_void: bool) {
        self.is_voiding = false;
        if is_void && era == self.era && self.broken_since_ms.is_some() {
            self.is_void = true;
            self.held.clear();
        }
    }
}

/// Returns the data of some slots in the journal of a process, and removes it there: nothing if
/// Redis or the database doesn't answer in time.
pub(crate) async fn look_up(
    reach: RedisReach,
    meta: Arc<dyn Meta>,
    process: NodeProcess,
    slots: Vec<u16>,
) -> JournalFields {
    let until = reach.now_ms.get() + LOOKUP_MS;
    let now_ms = reach.now_ms.clone();
    let mut found = pin!(look_into(reach, meta, process, slots));
    poll_fn(move |context| match found.as_mut().poll(context) {
        Poll::Ready(found) => Poll::Ready(found.unwrap_or_default()),
        Poll::Pending if now_ms.get() >= until => Poll::Ready(JournalFields::new()),
        Poll::Pending => Poll::Pending,
    })
    .await
}

async fn look_into(
    reach: RedisReach,
    meta: Arc<dyn Meta>,
    process: NodeProcess,
    slots: Vec<u16>,
) -> Option<JournalFields> {
    // From here on its accounts belong to others.
    reach.fences.note_taken(ProcessWriter { node: process.node, incarnation: process.incarnation });
    let there = || reach.is_there().then(|| reach.redis.borrow_mut());
    let era = there()?.close_journal(process)?;
    let entries = meta.entries(VOID).await.ok()?;
    let void = entries.iter().find(|(name, _)| *name == process.to_string());
    let void = void.and_then(|(_, era)| Some(u64::from_be_bytes(era.as_slice().try_into().ok()?)));
    if void.is_some_and(|void| void >= era) {
        return None;
    }
    Some(there()?.take_journal(process, era, &slots))
}

/// Ends the journal of a process, whose sessions and rooms have moved elsewhere.
pub(crate) async fn end(reach: RedisReach, has_connection: bool, meta: Arc<dyn Meta>, me: NodeProcess) {
    if has_connection && reach.is_there() {
        reach.redis.borrow_mut().end_journal(me);
    } else {
        _ = say_void(meta, me, u64::MAX).await;
    }
}

/// Records in the database that eras up to this one don't count. Returns whether that succeeded.
pub(crate) async fn say_void(meta: Arc<dyn Meta>, process: NodeProcess, era: u64) -> bool {
    meta.put_entry(VOID, &process.to_string(), era.to_be_bytes().to_vec()).await.is_ok()
}

/// The list of invalid journals.
const VOID: &str = "cluster journals void";
/// The time for which senders wait for Redis.
const PATIENCE_MS: u64 = 2_000;
/// The time limit for reading a journal.
const LOOKUP_MS: u64 = 8_000;
