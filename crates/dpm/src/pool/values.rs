//! Entries whose sources send values by themselves: variables of EPICS, topics of MQTT. Each entry
//! gets the newest value at its own events.

use super::keys::EntryKey;
use super::readers::{Deliver, PoolReaders, Turn};
use crate::database::FrontRequest;
use crate::show::Sample;
use crate::stages::Begun;
use crate::status::Status;
use crate::time::Moment;
use crate::when::{ReaderWish, When};

/// An entry in the form of a request to a source `S`.
#[derive(Debug)]
pub(super) struct ValueEntry<S> {
    /// The key of the channel or the topic that its values come from.
    pub(super) source: S,
    /// Distinguishes it from earlier entries with its number.
    pub(super) serial: u64,
    pub(super) when: When,
    pub(super) wanted: FrontRequest,
    /// The time at which it last got a value, in milliseconds.
    pub(super) given_at: Option<u64>,
    /// The time at which a timer gives it a value, in milliseconds, if one is set.
    pub(super) timed_at: Option<u64>,
}

impl<S> ValueEntry<S> {
    /// Returns an entry without a value so far.
    pub(super) fn new(source: S, serial: u64, when: When, wanted: FrontRequest) -> Self {
        Self { source, serial, when, wanted, given_at: None, timed_at: None }
    }

    /// Returns its part of a sample of all elements.
    pub(super) fn part(&self, sample: &Sample) -> Sample {
        let (from, length) = (self.wanted.offset as usize, self.wanted.length as usize);
        let to = from.saturating_add(length).min(sample.bytes.len());
        let Sample { status, timestamp, cycle, .. } = *sample;
        match sample.bytes.get(from..to).filter(|bytes| !bytes.is_empty()) {
            _ if status.is_fatal() => Sample { bytes: Box::default(), ..sample.clone() },
            Some(bytes) => Sample { status, bytes: bytes.into(), timestamp, cycle },
            None => Sample { status: Status::OUT_OF_BOUNDS, bytes: Box::default(), timestamp, cycle },
        }
    }

    /// Returns whether it gets a new value at once: it got none within its pause.
    pub(super) fn is_due(&self, now: Moment) -> bool {
        match self.when {
            When::Changed(pause) => self.given_at.is_none_or(|at| at + pause <= now.millis),
            _ => self.given_at.is_none(),
        }
    }

    /// Sets the timer of an entry that needs one and has none, and returns its time. `is_given` is
    /// true if the entry got the newest value.
    pub(super) fn time(&mut self, now: Moment, is_given: bool) -> Option<u64> {
        if self.timed_at.is_some() {
            return None;
        }
        self.timed_at = self.next(now, is_given);
        self.timed_at
    }

    /// Returns the time at which it gets the newest value without a further change, if there is
    /// such a time: the next of its period, or the end of its pause if a value came within that.
    fn next(&self, now: Moment, is_given: bool) -> Option<u64> {
        let given = self.given_at.unwrap_or(now.millis);
        match self.when {
            When::Every(period) => Some((given + period).max(now.millis + period / 2)),
            When::Changed(pause) if !is_given => Some(given + pause),
            _ => None,
        }
    }

    /// Gives its readers its part of a sample. Returns whether that was the entry's last reading.
    pub(super) fn give(
        &mut self,
        entry: EntryKey,
        sample: &Sample,
        now: Moment,
        begun: Begun,
        readers: &mut PoolReaders<'_, impl Deliver>,
    ) -> (Begun, bool) {
        self.given_at = Some(now.millis);
        let is_last = self.when == When::Once;
        let turn = Turn { fresh_for: if is_last { 0 } else { u64::MAX }, is_last, now };
        let is_whole = self.wanted.offset == 0 && sample.bytes.len() == self.wanted.length as usize;
        let begun = if is_whole {
            readers.take((entry, self.serial), sample, turn, begun)
        } else {
            readers.take((entry, self.serial), &self.part(sample), turn, begun)
        };
        (begun, is_last)
    }
}

/// Returns the event for values that their source sends by itself, if there is such a node.
///
/// # Errors
/// The status for events that only a front-end of ACNET has.
pub(super) fn event_of_wish(is_known: bool, wish: &ReaderWish) -> Result<When, Status> {
    match &wish.when {
        _ if !is_known => Err(Status::NO_NODE),
        When::Every(millis) if wish.on_change => Ok(When::Changed(*millis)),
        when @ (When::Every(_) | When::Changed(_) | When::Once) => Ok(when.clone()),
        When::Clock { .. } => Err(Status::NO_TCLK),
        When::State { .. } => Err(Status::BAD_EVENT),
    }
}

/// Returns a sample without a value.
pub(super) fn without_value(status: Status, now: Moment) -> Sample {
    Sample { status, bytes: Box::default(), timestamp: now.unix_millis, cycle: 0 }
}
