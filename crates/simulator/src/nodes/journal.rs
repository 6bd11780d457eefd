//! The journal of a process, in the simulated Redis, and the look into those of processes that have
//! died: in the steps of the server.

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

/// A process's way to Redis.
#[derive(Clone)]
pub(crate) struct RedisReach {
    pub redis: Rc<RefCell<SimRedis>>,
    pub now_ms: Rc<Cell<u64>>,
    /// True while this process can't reach it, which others may.
    pub is_cut_off: Rc<Cell<bool>>,
    pub fences: SimulatedFences,
}

impl RedisReach {
    /// Returns whether Redis can be reached now.
    pub fn is_there(&self) -> bool {
        !self.is_cut_off.get() && !self.redis.borrow().is_away
    }
}

/// The journal of a process, as the loop beside its shards knows it.
pub(crate) struct AgentJournal {
    /// The era that is written.
    era: u64,
    /// Since when nothing can be written; `None` while something can.
    broken_since_ms: Option<u64>,
    /// True once the database says that the era doesn't count.
    is_void: bool,
    /// True while it is told that.
    is_voiding: bool,
    /// Shares in the custody of what has still to be written in the next era, by shards.
    held: Vec<(usize, Vec<Custody>)>,
    /// The shards that have written all they have in this era.
    whole: BTreeSet<usize>,
}

impl AgentJournal {
    /// Returns a journal that nothing was written to.
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

    /// Returns whether it has all that so many shards have promised to have there.
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

    /// Takes note that nothing can be written.
    pub fn lost(&mut self, now_ms: u64) {
        self.broken_since_ms.get_or_insert(now_ms);
    }

    /// Returns a batch if it can be written now; keeps its custody otherwise.
    pub fn take(&mut self, shard: usize, batch: JournalBatch) -> Option<JournalBatch> {
        if self.broken_since_ms.is_none() && batch.era == self.era {
            return Some(batch);
        }
        self.hold(shard, batch.shares);
        None
    }

    /// Keeps the custody of a batch of which nobody knows whether it was written.
    pub fn hold(&mut self, shard: usize, shares: Vec<Custody>) {
        if !self.is_void {
            self.held.push((shard, shares));
        }
    }

    /// Has a batch reach Redis, and takes the outcome.
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

    /// Returns the era of which the database is to say now that it doesn't count, if nothing could
    /// be written for a while.
    pub fn void(&mut self, now_ms: u64) -> Option<u64> {
        let is_late = self.broken_since_ms.is_some_and(|since| now_ms >= since + PATIENCE_MS);
        if !is_late || self.is_void || std::mem::replace(&mut self.is_voiding, true) {
            return None;
        }
        Some(self.era)
    }

    /// Takes note of whether the database says so.
    pub fn voided(&mut self, era: u64, is_void: bool) {
        self.is_voiding = false;
        if is_void && era == self.era && self.broken_since_ms.is_some() {
            self.is_void = true;
            self.held.clear();
        }
    }
}

/// Returns what the journal of a process has of some slots, which goes there: nothing if Redis or
/// the database don't answer, or not in time.
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
    // From here on its accounts are somebody else's.
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

/// Ends the journal of a process, whose sessions and rooms have gone elsewhere.
pub(crate) async fn end(reach: RedisReach, has_connection: bool, meta: Arc<dyn Meta>, me: NodeProcess) {
    if has_connection && reach.is_there() {
        reach.redis.borrow_mut().end_journal(me);
    } else {
        _ = say_void(meta, me, u64::MAX).await;
    }
}

/// Says in the database that eras up to this one don't count. Returns whether that is so.
pub(crate) async fn say_void(meta: Arc<dyn Meta>, process: NodeProcess, era: u64) -> bool {
    meta.put_entry(VOID, &process.to_string(), era.to_be_bytes().to_vec()).await.is_ok()
}

/// The list of journals that don't count, or no longer.
const VOID: &str = "cluster journals void";
/// The time for which senders wait for Redis.
const PATIENCE_MS: u64 = 2_000;
/// The time that a look into a journal may take.
const LOOKUP_MS: u64 = 8_000;
