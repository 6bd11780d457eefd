//! Passes values to the entries that want them.

use super::payload;
use super::state::{TopicEntry, TopicKey, TopicSerial, TopicTimer, Topics};
use crate::pool::readers::{Deliver, PoolReaders};
use crate::pool::values::without_value;
use crate::show::Sample;
use crate::stages::Begun;
use crate::status::Status;
use crate::time::Moment;

impl Topics {
    /// Passes the newest value to an entry that was added after it arrived.
    pub(super) fn give_fresh(&mut self, fresh: TopicSerial, now: Moment, readers: &mut PoolReaders<'_, impl Deliver>) {
        let is_new = |asked: &&TopicEntry| asked.serial == fresh.1 && asked.given_at.is_none();
        let Some(latest) = self.asked.get(&fresh.0).filter(is_new).and_then(|asked| self.latest(asked)) else { return };
        let begun = readers.entries.stages.begin();
        let _ = self.give(fresh.0, &latest, now, begun, readers);
        self.time(fresh.0, now);
    }

    /// Handles a message: entries that want every change get it now, or as soon as their pause
    /// allows.
    pub(super) fn updated(
        &mut self,
        key: TopicKey,
        message: Result<&[u8], Status>,
        now: Moment,
        mut begun: Begun,
        readers: &mut PoolReaders<'_, impl Deliver>,
    ) -> Begun {
        let Some(topic) = self.topics.get_mut(key) else { return begun };
        let mut due = Vec::new();
        for (view, state) in &mut topic.views {
            let sample = match message {
                Ok(message) => payload::sample(view, message, now),
                Err(status) => without_value(status, now),
            };
            due.extend(state.entries.iter().map(|entry| (*entry, sample.clone())));
            state.latest = Some(sample);
        }
        for (entry, sample) in due {
            let Some(asked) = self.asked.get(&entry) else { continue };
            let is_due = asked.is_due(now);
            if is_due {
                begun = self.give(entry, &sample, now, begun, readers);
            }
            self.time_after(entry, now, is_due);
        }
        begun
    }

    /// Passes the newest value to an entry when its timer rings.
    pub(super) fn give_timed(
        &mut self,
        (entry, serial): TopicSerial,
        now: Moment,
        readers: &mut PoolReaders<'_, impl Deliver>,
    ) {
        let Some(asked) = self.asked.get_mut(&entry).filter(|asked| asked.serial == serial) else { return };
        let was_due = asked.timed_at.take();
        if let Some(latest) = self.asked.get(&entry).and_then(|asked| self.latest(asked)) {
            let begun = readers.entries.stages.begin();
            let _ = self.give(entry, &latest, now, begun, readers);
            if let Some(asked) = self.asked.get_mut(&entry) {
                // A delay doesn't lengthen the period.
                asked.given_at = was_due.or(asked.given_at);
            }
        }
        self.time(entry, now);
    }

    fn latest(&self, asked: &TopicEntry) -> Option<Sample> {
        let (key, view) = asked.source;
        self.topics.get(key)?.views.get_index(view)?.1.latest.clone()
    }

    fn time(&mut self, entry: usize, now: Moment) {
        self.time_after(entry, now, true);
    }

    /// Sets the timer of an entry with a period.
    fn time_after(&mut self, entry: usize, now: Moment, is_given: bool) {
        let Some(asked) = self.asked.get_mut(&entry) else { return };
        if let Some(due) = asked.time(now, is_given) {
            self.timers.insert((due, TopicTimer::Entry(entry, asked.serial)));
        }
    }

    /// Passes an entry its part of a sample. The entry is then removed if it is a single reading.
    fn give(
        &mut self,
        entry: usize,
        sample: &Sample,
        now: Moment,
        begun: Begun,
        readers: &mut PoolReaders<'_, impl Deliver>,
    ) -> Begun {
        let Some(asked) = self.asked.get_mut(&entry) else { return begun };
        let (topic, view) = asked.source;
        let (begun, is_last) = asked.give(entry, sample, now, begun, readers);
        if is_last {
            self.asked.remove(&entry);
            readers.entries.forget(entry);
            if let Some((_, view)) = self.topics.get_mut(topic).and_then(|topic| topic.views.get_index_mut(view)) {
                view.entries.swap_remove(&entry);
            }
            self.unsettle(topic);
        }
        begun
    }

    /// Sends readers of a topic the status that it has no value: all of them, or those without a
    /// reading so far.
    pub(super) fn tell(
        &mut self,
        (key, is_late): (TopicKey, bool),
        status: Status,
        now: Moment,
        readers: &mut PoolReaders<'_, impl Deliver>,
    ) {
        let entries = self.topics.get(key).map(|topic| topic.entries(is_late)).unwrap_or_default();
        let sample = without_value(status, now);
        for entry in entries {
            let begun = readers.entries.stages.begin();
            let _ = self.give(entry, &sample, now, begun, readers);
            if let Some(asked) = self.asked.get_mut(&entry) {
                // The next value counts as a change.
                asked.given_at = None;
            }
        }
    }

    /// Sends that status to the readers of a topic without messages.
    pub(super) fn tell_late(
        &mut self,
        key: TopicKey,
        serial: u64,
        now: Moment,
        readers: &mut PoolReaders<'_, impl Deliver>,
    ) {
        let Some(topic) = self.topics.get_mut(key).filter(|topic| topic.serial == serial) else { return };
        topic.is_late = false;
        if topic.is_known() {
            return;
        }
        topic.is_late = true;
        self.counters.timeouts += 1;
        self.timers.insert((now.millis + AGAIN, TopicTimer::Late(key, serial)));
        self.tell((key, true), Status::UTIME, now, readers);
    }
}

/// The milliseconds after which readers of a topic without messages get the status again.
const AGAIN: u64 = 8000;
