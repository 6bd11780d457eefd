//! The messages for open channels: monitors, reads and settings.

use super::state::{ChannelBounds, ChannelExchange, ChannelQuestion, ChannelTimer, Channels, Put};
use super::wire::{Cid, CircuitWire, WireQuestion, numbers};
use crate::acnet::{DeviceItem, setsdb};
use crate::database::PropertyPlace;
use crate::link::LinkNumber;
use crate::setting::{PATIENCE, SettingOutcome, SettingTicket};
use crate::status::Status;
use crate::time::Moment;

impl<W: CircuitWire> Channels<W> {
    /// Adds a setting of a variable.
    pub(in crate::pool) fn set(
        &mut self,
        node: usize,
        place: &PropertyPlace,
        item: DeviceItem,
        bytes: Vec<u8>,
        ticket: SettingTicket,
    ) {
        let put = Put { ticket, item, bytes, until: None };
        if item.offset != 0 {
            // A server always sets elements from the first on.
            return self.finish(put, Status::NOSET);
        }
        let cid = self.channel(node, place);
        if let Some(channel) = self.channels.get_mut(&cid) {
            channel.puts.push_back(put);
        }
    }

    /// Takes the finished settings.
    pub(in crate::pool) fn take_done(&mut self) -> Vec<SettingOutcome> {
        std::mem::take(&mut self.done)
    }

    /// Ends a setting.
    pub(super) fn finish(&mut self, put: Put, status: Status) {
        let written = (status == Status::SUCCESS).then(|| setsdb::SettingEntry::new(put.item, &put.bytes));
        self.done.push(SettingOutcome { ticket: put.ticket, status, written });
    }

    /// Monitors a channel that has entries with periods.
    pub(super) fn monitor(&mut self, cid: Cid) {
        let Some(channel) = self.channels.get_mut(&cid) else { return };
        let Some(open) = channel.open() else { return };
        if open.is_monitored || channel.entries.is_empty() {
            return;
        }
        let Some(circuit) = self.circuits.get_mut(open.link) else { return };
        circuit.wire.monitor(cid, &mut circuit.output);
        if let Some(open) = channel.open_mut() {
            open.is_monitored = true;
        }
        self.counters.requests += 1;
        self.counters.devices_requested += 1;
    }

    /// Reads a channel for single readings.
    pub(super) fn read(&mut self, cid: Cid, now: Moment) {
        let Some(channel) = self.channels.get_mut(&cid).filter(|channel| !channel.reads.is_empty()) else { return };
        let Some(open) = channel.open() else { return };
        let entries = std::mem::take(&mut channel.reads);
        self.counters.devices_requested += 1;
        self.ask(cid, open.link, ChannelQuestion::Read(entries), now.millis + self.once);
    }

    /// Sends the settings of a channel, once the server's limits are known: a server would silently
    /// set the nearest permitted value, and report success.
    pub(super) fn put(&mut self, cid: Cid, now: Moment) {
        let Some(channel) = self.channels.get_mut(&cid).filter(|channel| !channel.puts.is_empty()) else { return };
        let (is_text, may_write) = (channel.shape.is_text(), channel.may_write);
        let Some(open) = channel.open_mut() else { return };
        let link = open.link;
        let bounds = match open.bounds {
            _ if !may_write || is_text => None,
            ChannelBounds::Known(bounds) => bounds,
            ChannelBounds::Asked => return,
            ChannelBounds::Unknown => {
                open.bounds = ChannelBounds::Asked;
                return self.ask(cid, link, ChannelQuestion::Bounds, now.millis + PATIENCE);
            }
        };
        for put in std::mem::take(&mut channel.puts) {
            let is_beyond =
                bounds.is_some_and(|(low, high)| numbers(&put.bytes).any(|number| number < low || number > high));
            match () {
                () if !may_write => self.finish(put, Status::PRIV),
                () if is_beyond => self.finish(put, Status::RANGE),
                () => self.ask(cid, link, ChannelQuestion::Put(put), now.millis + PATIENCE),
            }
        }
    }

    /// Gives up settings that were not sent in time.
    pub(super) fn give_up_puts(&mut self, cid: Cid, now: Moment) {
        let Some(channel) = self.channels.get_mut(&cid) else { return };
        let is_over = |put: &Put| put.until.is_some_and(|until| until <= now.millis);
        let over = channel.puts.iter().take_while(|put| is_over(put)).count();
        let over: Vec<Put> = channel.puts.drain(..over).collect();
        if let Some(until) = channel.puts.front().and_then(|put| put.until) {
            self.timers.insert((until, ChannelTimer::Puts(cid)));
        }
        for put in over {
            self.finish(put, Status::NODE_DOWN);
        }
        self.unsettle(cid);
    }

    /// Sends a question on a channel's circuit.
    fn ask(&mut self, cid: Cid, link: LinkNumber, question: ChannelQuestion, until: u64) {
        let number = self.number();
        let Some(circuit) = self.circuits.get_mut(link) else { return };
        let asked = match &question {
            ChannelQuestion::Read(_) => WireQuestion::Read,
            ChannelQuestion::Bounds => WireQuestion::Bounds,
            ChannelQuestion::Put(put) => WireQuestion::Put(&put.bytes),
        };
        let asked = circuit.wire.ask(cid, number, asked, &mut circuit.output);
        if let (Err(status), ChannelQuestion::Put(put)) = (asked, &question) {
            return self.finish(put.clone(), status);
        }
        if let Some(channel) = self.channels.get_mut(&cid) {
            channel.outstanding += 1;
        }
        self.counters.requests += 1;
        self.timers.insert((until, ChannelTimer::Exchange(number)));
        self.exchanges.insert(number, ChannelExchange { channel: cid, link, question });
    }

    /// Returns a number that no channel and no question has.
    pub(super) fn number(&mut self) -> u32 {
        loop {
            let number = self.next_number;
            self.next_number = number.wrapping_add(1);
            if !self.channels.contains_key(&number) && !self.exchanges.contains_key(&number) {
                return number;
            }
        }
    }
}
