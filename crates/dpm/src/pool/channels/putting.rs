//! The messages for open channels: monitors, reads and settings.

use super::state::{
    ChannelBounds, ChannelExchange, ChannelQuestion, ChannelTimer, Channels, Cid, OpenChannel, PoolChannel, Put,
};
use crate::acnet::{DeviceItem, setsdb};
use crate::channel_access::command;
use crate::channel_access::data::{DataForm, Native};
use crate::channel_access::message::ChannelHeader;
use crate::database::PropertyPlace;
use crate::setting::{PATIENCE, SettingOutcome, SettingTicket};
use crate::status::Status;
use crate::time::Moment;

impl Channels {
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
        let header = ChannelHeader {
            command: command::EVENT_ADD,
            data_type: open.native.with(DataForm::Time),
            count: count(channel, open, circuit.minor),
            first: open.sid,
            second: cid,
        };
        // Three unused numbers, and the mask of the changes to report.
        let mut payload = vec![0; 12];
        payload.extend_from_slice(&CHANGES.to_be_bytes());
        payload.extend_from_slice(&[0; 2]);
        header.write(&payload, &mut circuit.output);
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
        let minor = self.circuits.get(open.link).map_or(0, |circuit| circuit.minor);
        let (data_type, count) = (open.native.with(DataForm::Time), count(channel, open, minor));
        self.counters.devices_requested += 1;
        let header = ChannelHeader { command: command::READ_NOTIFY, data_type, count, first: open.sid, second: 0 };
        self.ask(cid, open, ChannelQuestion::Read(entries), header, &[], now.millis + self.once);
    }

    /// Sends the settings of a channel, once the server's limits are known: a server would silently
    /// set the nearest permitted value, and report success.
    pub(super) fn put(&mut self, cid: Cid, now: Moment) {
        let Some(channel) = self.channels.get_mut(&cid).filter(|channel| !channel.puts.is_empty()) else { return };
        let (element, may_write) = (channel.element, channel.may_write);
        let Some(open) = channel.open_mut() else { return };
        let native = open.native;
        let bounds = match open.bounds {
            _ if !may_write || native != Native::Double => None,
            ChannelBounds::Known(bounds) => bounds,
            ChannelBounds::Asked => return,
            ChannelBounds::Unknown => {
                open.bounds = ChannelBounds::Asked;
                let (data_type, open) = (Native::Double.with(DataForm::Control), *open);
                let header =
                    ChannelHeader { command: command::READ_NOTIFY, data_type, count: 1, first: open.sid, second: 0 };
                return self.ask(cid, open, ChannelQuestion::Bounds, header, &[], now.millis + PATIENCE);
            }
        };
        let open = *open;
        for put in std::mem::take(&mut channel.puts) {
            let payload: Vec<u8> = match native {
                Native::Double => numbers(&put.bytes).flat_map(f64::to_be_bytes).collect(),
                Native::Char => put.bytes.iter().copied().take_while(|byte| *byte != 0).chain([0]).collect(),
                _ => put.bytes.chunks(element).flat_map(text).collect(),
            };
            let count = payload.len() / native.size();
            let is_beyond =
                bounds.is_some_and(|(low, high)| numbers(&put.bytes).any(|number| number < low || number > high));
            let refusal = match () {
                () if !may_write => Some(Status::PRIV),
                () if count > open.count as usize => Some(Status::BAD_LENGTH),
                () if native == Native::Double && is_beyond => Some(Status::RANGE),
                () => None,
            };
            if let Some(status) = refusal {
                self.finish(put, status);
                continue;
            }
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            let data_type = native.with(DataForm::Plain);
            let header = ChannelHeader { command: command::WRITE_NOTIFY, data_type, count, first: open.sid, second: 0 };
            self.ask(cid, open, ChannelQuestion::Put(put), header, &payload, now.millis + PATIENCE);
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
    fn ask(
        &mut self,
        cid: Cid,
        open: OpenChannel,
        question: ChannelQuestion,
        header: ChannelHeader,
        payload: &[u8],
        until: u64,
    ) {
        let Some(circuit) = self.circuits.get_mut(open.link) else { return };
        while self.exchanges.contains_key(&self.next_exchange) {
            self.next_exchange = self.next_exchange.wrapping_add(1);
        }
        let number = self.next_exchange;
        self.next_exchange = number.wrapping_add(1);
        ChannelHeader { second: number, ..header }.write(payload, &mut circuit.output);
        if let Some(channel) = self.channels.get_mut(&cid) {
            channel.outstanding += 1;
        }
        self.counters.requests += 1;
        self.timers.insert((until, ChannelTimer::Exchange(number)));
        self.exchanges.insert(number, ChannelExchange { channel: cid, link: open.link, question });
    }
}

/// Returns the text of an element in Channel Access's form, followed by a zero.
fn text(element: &[u8]) -> Vec<u8> {
    let mut bytes: Vec<u8> = element.iter().copied().take(Native::Text.size() - 1).collect();
    bytes.resize(Native::Text.size(), 0);
    bytes
}

/// Returns the number of elements to request: the most that any entry wants or, if that covers all,
/// 0 for the current number each time.
fn count(channel: &PoolChannel, open: OpenChannel, minor: u16) -> u32 {
    let most = if open.native == Native::Char { channel.element as u32 } else { channel.elements };
    match open.count {
        1 => 1,
        all if all <= most && minor >= VARYING => 0,
        all => all.min(most),
    }
}

/// Returns the numbers of a property's bytes.
fn numbers(bytes: &[u8]) -> impl Iterator<Item = f64> + '_ {
    bytes.chunks_exact(8).filter_map(|bytes| bytes.first_chunk()).map(|bytes| f64::from_le_bytes(*bytes))
}

/// The changes that servers report: values and alarms.
const CHANGES: u16 = 1 | 4;
/// The version from which on arrays may have a varying length.
const VARYING: u16 = 13;
