//! One value that is read, and its readers.

use std::sync::Arc;

use indexmap::IndexMap;
use smallvec::SmallVec;

use super::keys::PoolReader;
use crate::database::{DeviceRecord, FrontRequest, ValueForm};
use crate::sdd::SharedReply;
use crate::show::{self, Sample};
use crate::stages::{Begun, ReadingStage, ReadingStages};
use crate::status::Status;
use crate::time::Moment;
use crate::when::When;

/// Readers, each with the time from which it wants readings, in milliseconds. Readers come and
/// leave in constant time, however many there are.
type EntryReaders = IndexMap<PoolReader, u64, ahash::RandomState>;

/// One value that is read from a node at some event.
#[derive(Debug)]
pub(super) struct PoolEntry {
    pub(super) wanted: FrontRequest,
    /// The event as the front-end encodes it.
    pub(super) when: When,
    /// Distinguishes it from later entries with the same number.
    pub(super) serial: u64,
    channels: SmallVec<[EntryChannel; 1]>,
    /// The number of readings, and the status of the last.
    readings: u64,
    status: Status,
    /// The time of the last reading, and how long it counts as current, both in milliseconds.
    read_at: Option<u64>,
    fresh_for: u64,
}

/// An entry in an overview.
#[derive(Debug, Clone)]
pub struct EntryGlance {
    /// The requested value.
    pub wanted: FrontRequest,
    /// The event on which it is read.
    pub when: When,
    /// The number of its readers.
    pub readers: usize,
    /// The number of readings.
    pub readings: u64,
    /// The milliseconds since the last reading; `None` if that failed, or if there was none.
    pub age: Option<u64>,
    /// The status of the last reading.
    pub status: Status,
}

/// The messages made from a sample.
pub(super) struct Made {
    /// The number of messages that were made.
    pub(super) made: u64,
    /// The end of the last stage.
    pub(super) ended: Begun,
}

/// Readers of one form of an entry.
#[derive(Debug)]
pub(super) struct EntryChannel {
    form: ValueForm,
    on_change: bool,
    device: Arc<DeviceRecord>,
    current: Option<Arc<SharedReply>>,
    /// The last delivered sample, for detecting changes.
    told: Option<Sample>,
    readers: EntryReaders,
}

impl EntryChannel {
    pub(super) fn new(form: ValueForm, on_change: bool, device: &Arc<DeviceRecord>) -> Self {
        let device = Arc::clone(device);
        Self { form, on_change, device, current: None, told: None, readers: EntryReaders::default() }
    }
}

impl PoolEntry {
    pub(super) fn new(wanted: FrontRequest, when: When, serial: u64) -> Self {
        let channels = SmallVec::new();
        let (readings, status) = (0, Status::SUCCESS);
        Self { wanted, when, serial, channels, readings, status, read_at: None, fresh_for: 0 }
    }

    /// Adds a reader to its channel, which is created for the first reader, and returns the
    /// channel's current message. The reader gets readings from a time on, in milliseconds: an
    /// immediate reading isn't meant for every reader.
    pub(super) fn join(&mut self, channel: EntryChannel, reader: PoolReader, from: u64) -> Option<Arc<SharedReply>> {
        let is_same = |other: &EntryChannel| {
            // After a reload the same device may be scaled differently.
            (other.form, other.on_change) == (channel.form, channel.on_change)
                && Arc::ptr_eq(&other.device, &channel.device)
        };
        let place = self.channels.iter().position(is_same).unwrap_or_else(|| {
            self.channels.push(channel);
            self.channels.len() - 1
        });
        self.channels[place].readers.insert(reader, from);
        self.channels[place].current.clone()
    }

    /// Removes a reader. Returns false if it was not there.
    pub(super) fn leave(&mut self, reader: PoolReader) -> bool {
        for (number, channel) in self.channels.iter_mut().enumerate() {
            if channel.readers.swap_remove(&reader).is_none() {
                continue;
            }
            if channel.readers.is_empty() {
                self.channels.remove(number);
            }
            return true;
        }
        false
    }

    pub(super) fn is_unread(&self) -> bool {
        self.channels.is_empty()
    }

    /// Returns true if its last reading succeeded.
    pub(super) fn was_read(&self) -> bool {
        self.read_at.is_some()
    }

    /// Returns its part of an overview.
    pub(super) fn glance(&self, now: Moment) -> EntryGlance {
        EntryGlance {
            wanted: self.wanted,
            when: self.when.clone(),
            readers: self.channels.iter().map(|channel| channel.readers.len()).sum(),
            readings: self.readings,
            age: self.read_at.map(|at| now.millis.saturating_sub(at)),
            status: self.status,
        }
    }

    pub(super) fn is_fresh(&self, now: Moment) -> bool {
        self.read_at.is_some_and(|at| now.millis.saturating_sub(at) <= self.fresh_for)
    }

    /// Handles a sample: makes one message per form and calls `give` with it for each of its
    /// readers.
    pub(super) fn take(
        &mut self,
        sample: &Sample,
        fresh_for: u64,
        now: Moment,
        stages: &mut ReadingStages,
        mut begun: Begun,
        mut give: impl FnMut(PoolReader, &Arc<SharedReply>),
    ) -> Made {
        self.read_at = (!sample.status.is_fatal()).then_some(now.millis);
        self.fresh_for = fresh_for;
        self.readings += 1;
        self.status = sample.status;
        let mut made = 0;
        for channel in &mut self.channels {
            if channel.on_change {
                let is_known = channel
                    .told
                    .as_ref()
                    .is_some_and(|told| (told.status, &told.bytes) == (sample.status, &sample.bytes));
                if is_known {
                    continue;
                }
                channel.told = Some(sample.clone());
            }
            let reply = show::reply(&channel.device, channel.form, sample);
            begun = stages.end(ReadingStage::Scale, begun);
            let Some(shared) = SharedReply::new(&reply) else { continue };
            let shared = Arc::new(shared);
            begun = stages.end(ReadingStage::Encode, begun);
            made += 1;
            for (reader, from) in &channel.readers {
                if *from <= now.millis {
                    give(*reader, &shared);
                }
            }
            channel.current = Some(shared);
            begun = stages.end(ReadingStage::Queue, begun);
        }
        Made { made, ended: begun }
    }
}
