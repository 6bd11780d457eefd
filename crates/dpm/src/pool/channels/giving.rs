//! Passes values to the entries that want them.

use super::state::{ChannelBounds, ChannelQuestion, ChannelState, ChannelTimer, Channels, Serial};
use super::wire::{Cid, CircuitWire};
use crate::pool::readers::{Deliver, PoolReaders};
use crate::pool::values::without_value;
use crate::show::Sample;
use crate::stages::Begun;
use crate::status::Status;
use crate::time::Moment;

impl<W: CircuitWire> Channels<W> {
    /// Passes the newest value to an entry that was added after it arrived.
    pub(super) fn give_fresh(
        &mut self,
        (entry, serial): Serial,
        now: Moment,
        readers: &mut PoolReaders<'_, impl Deliver>,
    ) {
        let Some(asked) = self.asked.get_mut(&entry).filter(|asked| asked.serial == serial) else { return };
        if asked.given_at.is_some() {
            return;
        }
        if let Some(latest) = self.channels.get(&asked.source).and_then(|channel| channel.latest.as_ref()) {
            let begun = readers.entries.stages.begin();
            let _ = asked.give(entry, latest, now, begun, readers);
        }
        self.time(entry, now);
    }

    /// Handles a new value: entries that want every change get it now, or as soon as their pause
    /// allows.
    pub(super) fn updated(
        &mut self,
        cid: Cid,
        sample: Sample,
        now: Moment,
        mut begun: Begun,
        readers: &mut PoolReaders<'_, impl Deliver>,
    ) -> Begun {
        let Some(channel) = self.channels.get_mut(&cid) else { return begun };
        channel.searches = 0;
        for entry in &channel.entries {
            let Some(asked) = self.asked.get_mut(entry) else { continue };
            let is_due = asked.is_due(now);
            if is_due {
                (begun, _) = asked.give(*entry, &sample, now, begun, readers);
            }
            if let Some(due) = asked.time(now, is_due) {
                self.timers.insert((due, ChannelTimer::Entry(*entry, asked.serial)));
            }
        }
        channel.latest = Some(sample);
        begun
    }

    /// Passes the newest value to an entry when its timer rings.
    pub(super) fn give_timed(
        &mut self,
        (entry, serial): Serial,
        now: Moment,
        readers: &mut PoolReaders<'_, impl Deliver>,
    ) {
        let Some(asked) = self.asked.get_mut(&entry).filter(|asked| asked.serial == serial) else { return };
        let was_due = asked.timed_at.take();
        if let Some(latest) = self.channels.get(&asked.source).and_then(|channel| channel.latest.as_ref()) {
            let begun = readers.entries.stages.begin();
            let _ = asked.give(entry, latest, now, begun, readers);
            // A delay doesn't lengthen the period.
            asked.given_at = was_due.or(asked.given_at);
        }
        self.time(entry, now);
    }

    /// Sets the timer of an entry with a period.
    fn time(&mut self, entry: usize, now: Moment) {
        let Some(asked) = self.asked.get_mut(&entry) else { return };
        if let Some(due) = asked.time(now, true) {
            self.timers.insert((due, ChannelTimer::Entry(entry, asked.serial)));
        }
    }

    /// Passes a value to single readings, and removes their entries.
    pub(super) fn give_last(
        &mut self,
        entries: Vec<Serial>,
        sample: &Sample,
        now: Moment,
        readers: &mut PoolReaders<'_, impl Deliver>,
    ) {
        let mut begun = readers.entries.stages.begin();
        for (entry, serial) in entries {
            let Some(asked) = self.asked.get_mut(&entry).filter(|asked| asked.serial == serial) else { continue };
            let cid = asked.source;
            (begun, _) = asked.give(entry, sample, now, begun, readers);
            self.unsettle(cid);
            self.asked.remove(&entry);
            readers.entries.forget(entry);
        }
    }

    /// Tells the readers of a channel that it has no value.
    fn tell(&mut self, cid: Cid, status: Status, now: Moment, readers: &mut PoolReaders<'_, impl Deliver>) {
        let Some(channel) = self.channels.get_mut(&cid) else { return };
        let sample = without_value(status, now);
        let mut begun = readers.entries.stages.begin();
        for entry in &channel.entries {
            if let Some(asked) = self.asked.get_mut(entry) {
                (begun, _) = asked.give(*entry, &sample, now, begun, readers);
                // The next value counts as a change.
                asked.given_at = None;
            }
        }
    }

    /// Returns a channel to the state before it was found.
    pub(super) fn fall(&mut self, cid: Cid, status: Status, now: Moment, readers: &mut PoolReaders<'_, impl Deliver>) {
        self.forgo_all(|exchange| exchange.channel == cid);
        let Some(channel) = self.channels.get_mut(&cid) else { return };
        (channel.state, channel.latest) = (ChannelState::Searching, None);
        let pause = super::searching::pause(channel.searches);
        if !std::mem::replace(&mut channel.is_searched, true) {
            channel.searches = channel.searches.saturating_add(1);
            self.timers.insert((now.millis + pause, ChannelTimer::Search(cid)));
        }
        self.tell(cid, status, now, readers);
        self.unsettle(cid);
    }

    /// Sends the status of a silent channel to readers of one that is not open, or has no value.
    pub(super) fn tell_late(&mut self, cid: Cid, now: Moment, readers: &mut PoolReaders<'_, impl Deliver>) {
        let Some(channel) = self.channels.get_mut(&cid) else { return };
        channel.is_late = false;
        let is_well = channel.open().is_some() && (channel.entries.is_empty() || channel.latest.is_some());
        if is_well || channel.is_unused() {
            return;
        }
        self.counters.timeouts += 1;
        let reads = std::mem::take(&mut channel.reads);
        channel.is_late = true;
        self.timers.insert((now.millis + AGAIN, ChannelTimer::Late(cid)));
        self.tell(cid, Status::UTIME, now, readers);
        let sample = without_value(Status::UTIME, now);
        self.give_last(reads, &sample, now, readers);
    }

    /// Gives up a question that was not answered in time.
    pub(super) fn give_up(&mut self, number: u32, now: Moment, readers: &mut PoolReaders<'_, impl Deliver>) {
        let Some(link) = self.exchanges.get(&number).map(|exchange| exchange.link) else { return };
        let Some(exchange) = self.close_exchange(link, number) else { return };
        if let Some(circuit) = self.circuits.get_mut(link) {
            circuit.wire.forget(number, &mut circuit.output);
        }
        self.counters.timeouts += 1;
        match exchange.question {
            ChannelQuestion::Read(entries) => {
                let sample = without_value(Status::UTIME, now);
                self.give_last(entries, &sample, now, readers);
            }
            ChannelQuestion::Bounds => {
                if let Some(open) = self.channels.get_mut(&exchange.channel).and_then(|channel| channel.open_mut()) {
                    open.bounds = ChannelBounds::Unknown;
                }
            }
            ChannelQuestion::Put(put) => self.finish(put, Status::UTIME),
        }
    }
}

/// The milliseconds after which readers of a channel that isn't found get the status again.
const AGAIN: u64 = 8000;
