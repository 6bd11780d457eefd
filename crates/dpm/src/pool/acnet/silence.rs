//! Devices that did not answer although others of their node did. One such device leaves a whole
//! request unanswered, so each is asked separately, at every event, until it has answered for a
//! while, which becomes longer each time that it falls silent again.

use std::collections::HashMap;

use crate::database::FrontRequest;
use crate::time::Moment;

/// A record of silent devices, bounded by the number of properties in the database.
#[derive(Debug, Default)]
pub(super) struct Silence {
    known: HashMap<SilenceKey, SilenceRecord, ahash::RandomState>,
}

/// The other devices with which a device may be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// With all others.
    Plain,
    /// With those that were silent recently and answer again.
    Proving,
    /// With no others: it is silent.
    Silent,
}

/// Node, device and property: all parts of it are answered from the same place.
type SilenceKey = (usize, u32, u8);

#[derive(Debug)]
struct SilenceRecord {
    /// The number of times that it fell silent.
    times: u32,
    /// The time since which it has answered again, in milliseconds; `None` while it is silent.
    answers_since: Option<u64>,
}

impl Silence {
    /// Remembers that a device is silent.
    pub(super) fn note_silent(&mut self, wanted: &FrontRequest) {
        let record = self.known.entry(key(wanted)).or_insert(SilenceRecord { times: 0, answers_since: Some(0) });
        if record.answers_since.take().is_some() {
            record.times += 1;
        }
    }

    /// Remembers that a device answered.
    pub(super) fn note_answer(&mut self, wanted: &FrontRequest, now: Moment) {
        if let Some(record) = self.known.get_mut(&key(wanted)) {
            record.answers_since.get_or_insert(now.millis);
        }
    }

    /// Returns the other devices with which a device may be asked now.
    pub(super) fn rank(&mut self, wanted: &FrontRequest, now: Moment) -> Rank {
        let key = key(wanted);
        let Some(record) = self.known.get(&key) else { return Rank::Plain };
        let Some(since) = record.answers_since else { return Rank::Silent };
        let (proved, answered) = (PROOF << record.times.saturating_sub(1).min(6), now.millis.saturating_sub(since));
        if answered >= proved * FORGOTTEN {
            self.known.remove(&key);
        }
        if answered >= proved { Rank::Plain } else { Rank::Proving }
    }
}

fn key(wanted: &FrontRequest) -> SilenceKey {
    (wanted.node, wanted.device, wanted.property)
}

/// The time for which a device has to answer before it is asked with all others, in milliseconds;
/// doubled each time that it fell silent, up to about an hour.
const PROOF: u64 = 60_000;
/// The number of such periods after which its silence is forgotten.
const FORGOTTEN: u64 = 8;
