//! Processes incoming stanzas on a thread: finds the mark, compares, counts.

use std::sync::Arc;

use rookery_xml::Stanza;

use super::counters::{LoadCount, LoadCounters};
use super::mark::Mark;
use super::tracker::{TrackedArrival, TrackedPair, Tracker};

/// The receiving side of a load, for the clients of one thread.
#[derive(Debug)]
pub struct Receiver {
    run: u32,
    /// The stanzas that have arrived.
    pub tracker: Tracker,
    counters: Arc<LoadCounters>,
}

impl Receiver {
    /// Makes a receiver for the stanzas of a run.
    pub fn new(run: u32, counters: Arc<LoadCounters>) -> Receiver {
        Receiver { run, tracker: Tracker::default(), counters }
    }

    /// Returns the counters of the thread.
    pub fn counters(&self) -> &Arc<LoadCounters> {
        &self.counters
    }

    /// Counts a stanza for a client. Returns its mark if the stanza belongs to this run's load, is
    /// new, isn't an error, and wasn't sent by the client itself.
    pub fn take(&mut self, number: usize, stanza: &Stanza<'_>, now: u64) -> Option<Mark> {
        if stanza.raw_type().is_some_and(|raw| raw.bytes == b"error") {
            self.counters.add(LoadCount::Errors, 1);
            return None;
        }
        let mark = Mark::find(stanza.bytes())?;
        if mark.run != self.run {
            self.counters.add(LoadCount::Foreign, 1);
            return None;
        }
        match self.tracker.arrived(TrackedPair { sender: mark.sender, receiver: number as u32 }, mark.sequence) {
            TrackedArrival::Again => {
                self.counters.add(LoadCount::Duplicated, 1);
                return None;
            }
            TrackedArrival::Late => self.counters.add(LoadCount::Reordered, 1),
            TrackedArrival::InOrder => {}
        }
        self.counters.add(LoadCount::Delivered, 1);
        self.counters.latency.add(now.saturating_sub(mark.intended));
        Some(mark)
    }
}
