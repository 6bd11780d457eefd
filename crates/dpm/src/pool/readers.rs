//! All entries of any kind, and their readers.

use std::collections::HashMap;
use std::sync::Arc;

use slab::Slab;

use super::entry::PoolEntry;
use super::keys::{EntryKey, PoolReader};
use crate::database::FrontRequest;
use crate::sdd::SharedReply;
use crate::show::Sample;
use crate::stages::{Begun, ReadingStage, ReadingStages};
use crate::time::Moment;
use crate::when::When;

/// Receives the pool's messages, once for each reader of a reading.
pub trait Deliver {
    /// Delivers a reading to a reader. With `last`, no more will come.
    fn deliver(&mut self, reader: PoolReader, message: &Arc<SharedReply>, last: bool);
}

/// The figures of the pool's work since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolCounters {
    /// Readers that were added.
    pub asked: u64,
    /// Readers whose entry was already being read.
    pub shared: u64,
    /// Devices that front-ends were asked for.
    pub devices_requested: u64,
    /// Requests that were sent to front-ends.
    pub requests: u64,
    /// Replies that were handled.
    pub replies: u64,
    /// Readings in them.
    pub readings: u64,
    /// Readings that were scaled and encoded: once for each form.
    pub encoded: u64,
    /// Readings that were delivered to readers.
    pub delivered: u64,
    /// Requests that went unanswered.
    pub timeouts: u64,
    /// Divisions of an unanswered request, to find the silent device in it.
    pub divided: u64,
    /// Requests for single devices to silent nodes, not counted among the divisions.
    pub probes: u64,
    /// Replies that were not requested, or came from another node.
    pub strays: u64,
}

impl std::ops::Add for PoolCounters {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            asked: self.asked + other.asked,
            shared: self.shared + other.shared,
            devices_requested: self.devices_requested + other.devices_requested,
            requests: self.requests + other.requests,
            replies: self.replies + other.replies,
            readings: self.readings + other.readings,
            encoded: self.encoded + other.encoded,
            delivered: self.delivered + other.delivered,
            timeouts: self.timeouts + other.timeouts,
            divided: self.divided + other.divided,
            probes: self.probes + other.probes,
            strays: self.strays + other.strays,
        }
    }
}

/// All entries, each with its readers.
#[derive(Debug, Default)]
pub(super) struct Entries {
    pub(super) entries: Slab<PoolEntry>,
    pub(super) by_key: HashMap<(FrontRequest, When), EntryKey, ahash::RandomState>,
    /// The serial of the next entry.
    serial: u64,
    pub(super) counters: PoolCounters,
    pub(super) stages: ReadingStages,
}

impl Entries {
    /// Adds an entry without readers. Returns its number, and the serial that distinguishes it from
    /// earlier entries with that number.
    pub(super) fn add(&mut self, wanted: FrontRequest, when: When) -> (EntryKey, u64) {
        let serial = self.serial;
        self.serial += 1;
        let key = self.entries.insert(PoolEntry::new(wanted, when.clone(), serial));
        self.by_key.insert((wanted, when), key);
        (key, serial)
    }

    /// Removes an entry.
    pub(super) fn forget(&mut self, key: EntryKey) {
        let Some(entry) = self.entries.try_remove(key) else { return };
        let full = (entry.wanted, entry.when);
        if self.by_key.get(&full) == Some(&key) {
            self.by_key.remove(&full);
        }
    }
}

/// The facts about all samples of a turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    /// The milliseconds for which the samples count as current.
    pub(super) fresh_for: u64,
    /// True if no more will come.
    pub(super) is_last: bool,
    pub(super) now: Moment,
}

/// All readers, for a front-end that has samples for some of them.
pub(super) struct PoolReaders<'a, D> {
    pub(super) entries: &'a mut Entries,
    pub(super) deliver: &'a mut D,
}

impl<D: Deliver> PoolReaders<'_, D> {
    /// Takes a sample for the entry of a number and serial: scales and encodes it once for each
    /// requested form, and delivers that to all readers of the form. Returns the time at which that
    /// was done.
    pub(super) fn take(&mut self, (key, serial): (EntryKey, u64), sample: &Sample, turn: Turn, begun: Begun) -> Begun {
        let Entries { entries, counters, stages, .. } = &mut *self.entries;
        let Some(entry) = entries.get_mut(key).filter(|entry| entry.serial == serial) else { return begun };
        let begun = stages.end(ReadingStage::Split, begun);
        counters.readings += 1;
        let (delivered, deliver) = (&mut counters.delivered, &mut *self.deliver);
        let take = entry.take(sample, turn.fresh_for, turn.now, stages, begun, |reader, message| {
            *delivered += 1;
            deliver.deliver(reader, message, turn.is_last);
        });
        counters.encoded += take.made;
        take.ended
    }
}
