//! The work of a thread on stanzas that come: finds the mark, compares, counts.

use std::sync::Arc;

use rookery_xml::Stanza;

use super::counters::{Count, Counters};
use super::mark::Mark;
use super::tracker::{Arrival, Pair, Tracker};

/// The receiving side of a load, for the clients of one thread.
#[derive(Debug)]
pub struct Receiver {
    run: u32,
    /// The stanzas that have come.
    pub tracker: Tracker,
    counters: Arc<Counters>,
}

impl Receiver {
    /// Makes a receiver for the stanzas of that run.
    pub fn new(run: u32, counters: Arc<Counters>) -> Receiver {
        Receiver { run, tracker: Tracker::default(), counters }
    }

    /// Returns the counters of the thread.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Counts a stanza that came for a client. Returns its mark if it is one of this run's load
    /// that has not come before, no error, and not the sender's own.
    pub fn take(&mut self, number: usize, stanza: &Stanza<'_>, now: u64) -> Option<Mark> {
        if stanza.raw_type().is_some_and(|raw| raw.bytes == b"error") {
            self.counters.add(Count::Errors, 1);
            return None;
        }
        let mark = Mark::find(stanza.bytes())?;
        if mark.run != self.run {
            self.counters.add(Count::Foreign, 1);
            return None;
        }
        match self.tracker.arrived(Pair { sender: mark.sender, receiver: number as u32 }, mark.sequence) {
            Arrival::Again => {
                self.counters.add(Count::Duplicated, 1);
                return None;
            }
            Arrival::Late => self.counters.add(Count::Reordered, 1),
            Arrival::InOrder => {}
        }
        self.counters.add(Count::Delivered, 1);
        self.counters.latency.add(now.saturating_sub(mark.intended));
        Some(mark)
    }
}
