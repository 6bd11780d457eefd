//! The messages of servers.

use super::state::{ChannelBounds, ChannelExchange, ChannelQuestion, ChannelState, Channels, Cid, OpenChannel};
use crate::channel_access::data::{ChannelData, Native};
use crate::channel_access::message::{self, ChannelHeader, ChannelMessage};
use crate::channel_access::{NORMAL, command};
use crate::link::LinkNumber;
use crate::pool::readers::{Deliver, PoolReaders};
use crate::show::Sample;
use crate::stages::{Begun, ReadingStage};
use crate::status::Status;
use crate::time::Moment;

impl Channels {
    /// Handles bytes of a circuit. A circuit is ended if it sends an invalid message, or a longer
    /// one than was requested.
    pub(super) fn received(
        &mut self,
        link: LinkNumber,
        bytes: &[u8],
        now: Moment,
        begun: Begun,
        readers: &mut PoolReaders<'_, impl Deliver>,
    ) {
        let Some(circuit) = self.circuits.get_mut(link) else { return };
        let serial = circuit.serial;
        (circuit.heard_at, circuit.echo_at) = (now.millis, None);
        let mut input = std::mem::take(&mut circuit.input);
        input.extend_from_slice(bytes);
        let (mut rest, mut begun, mut is_broken) = (&*input, begun, false);
        loop {
            match message::next(rest, LARGEST) {
                Ok(Some((message, length))) => {
                    begun = self.answer(link, message, now, begun, readers);
                    rest = &rest[length..];
                }
                Ok(None) => break,
                Err(_) => {
                    is_broken = true;
                    break;
                }
            }
        }
        // The circuit may have ended with its last channel.
        let Some(circuit) = self.circuits.get_mut(link).filter(|circuit| circuit.serial == serial) else { return };
        if is_broken {
            self.counters.strays += 1;
            return self.lost(link, now, readers);
        }
        circuit.input.extend_from_slice(rest);
    }

    /// Handles a message.
    fn answer(
        &mut self,
        link: LinkNumber,
        message: ChannelMessage<'_>,
        now: Moment,
        begun: Begun,
        readers: &mut PoolReaders<'_, impl Deliver>,
    ) -> Begun {
        let header = message.header;
        match header.command {
            command::VERSION => {
                if let Some(circuit) = self.circuits.get_mut(link) {
                    circuit.minor = u16::try_from(header.count).unwrap_or_default();
                }
            }
            command::SEARCH => {
                if let Some(circuit) = self.circuits.get(link).filter(|circuit| circuit.has_names) {
                    self.found(circuit.server, message, now);
                }
            }
            command::CREATE_CHAN => self.created(link, &header),
            command::ACCESS_RIGHTS => {
                let is_on = self.is_on(link, header.first);
                if let Some(channel) = self.channels.get_mut(&header.first).filter(|_| is_on) {
                    channel.may_write = header.second & 2 != 0;
                }
            }
            command::EVENT_ADD => return self.update(link, message, now, begun, readers),
            command::READ_NOTIFY | command::WRITE_NOTIFY => {
                if let Some(exchange) = self.close_exchange(link, header.second) {
                    self.answered(exchange, message, now, readers);
                }
            }
            command::ERROR => self.failed(link, message, now, readers),
            command::CREATE_CH_FAIL if self.is_on(link, header.first) => {
                self.off(link, header.first);
                self.fall(header.first, Status::NOPROP, now, readers);
            }
            command::SERVER_DISCONN if self.is_on(link, header.first) => {
                self.off(link, header.first);
                self.fall(header.first, Status::NODE_DOWN, now, readers);
            }
            // This includes the answer to an echo: any input counts as a sign of life.
            _ => {}
        }
        begun
    }

    /// Returns whether a channel is on a circuit.
    fn is_on(&self, link: LinkNumber, cid: Cid) -> bool {
        self.circuits.get(link).is_some_and(|circuit| circuit.channels.contains(&cid))
    }

    fn off(&mut self, link: LinkNumber, cid: Cid) {
        let Some(circuit) = self.circuits.get_mut(link) else { return };
        circuit.channels.swap_remove(&cid);
        if circuit.channels.is_empty() && !circuit.has_names {
            self.drop_circuit(link);
        }
    }

    /// Returns a channel that is open on a circuit.
    fn on(&mut self, link: LinkNumber, cid: Cid) -> Option<&mut OpenChannel> {
        self.channels.get_mut(&cid)?.open_mut().filter(|open| open.link == link)
    }

    /// Notes that a server has opened a channel.
    fn created(&mut self, link: LinkNumber, header: &ChannelHeader) {
        let Some(channel) = self.channels.get_mut(&header.first) else { return };
        if !matches!(channel.state, ChannelState::Creating { link: own, .. } if own == link) {
            return;
        }
        let theirs = Native::of(header.data_type);
        let native = match (channel.is_text(), theirs) {
            (false, _) => Native::Double,
            // Texts of more than 40 bytes are arrays of characters.
            (true, Some(Native::Char)) if header.count > 1 => Native::Char,
            (true, _) => Native::Text,
        };
        let is_text = theirs == Some(Native::Text);
        let open = OpenChannel {
            link,
            sid: header.second,
            count: header.count.max(1),
            native,
            is_monitored: false,
            bounds: if is_text { ChannelBounds::Known(None) } else { ChannelBounds::Unknown },
        };
        channel.state = ChannelState::Open(open);
        self.unsettle(header.first);
    }

    /// Handles an update of a monitored channel. The number of the monitor is the channel's.
    fn update(
        &mut self,
        link: LinkNumber,
        message: ChannelMessage<'_>,
        now: Moment,
        begun: Begun,
        readers: &mut PoolReaders<'_, impl Deliver>,
    ) -> Begun {
        let cid = message.header.second;
        if self.on(link, cid).is_none_or(|open| !open.is_monitored) {
            self.counters.strays += 1;
            return begun;
        }
        self.counters.replies += 1;
        let begun = readers.entries.stages.end(ReadingStage::LookUp, begun);
        match self.sample(cid, message, now) {
            Some(sample) => self.updated(cid, sample, now, begun, readers),
            // The answer to the end of a monitor has no value.
            None => begun,
        }
    }

    /// Returns the sample in an answer.
    pub(super) fn sample(&self, cid: Cid, message: ChannelMessage<'_>, now: Moment) -> Option<Sample> {
        let ChannelMessage { header, payload } = message;
        let failed = |status| Sample { status, bytes: Box::default(), timestamp: now.unix_millis, cycle: 0 };
        if header.first != NORMAL {
            return Some(failed(status(header.first)));
        }
        let channel = self.channels.get(&cid)?;
        if payload.is_empty() {
            return None;
        }
        let Some(data) = ChannelData::decode(header.data_type, header.count, payload) else {
            return Some(failed(Status::TRUNC_REPLY));
        };
        let timestamp = data.unix_millis.filter(|millis| *millis > NEVER).unwrap_or(now.unix_millis);
        if data.severity >= INVALID {
            return Some(Sample { timestamp, ..failed(Status::INVDATA) });
        }
        let many = channel.elements as usize;
        let bytes: Vec<u8> = match (channel.is_text(), data.native) {
            (true, Native::Text) => data.texts().take(many).flat_map(|text| filled(text, channel.element)).collect(),
            (true, Native::Char) => filled(data.characters(), channel.element),
            (false, native) if native != Native::Text => data.numbers().take(many).flat_map(f64::to_le_bytes).collect(),
            _ => return Some(failed(Status::TRUNC_REPLY)),
        };
        Some(Sample { status: Status::SUCCESS, bytes: bytes.into(), timestamp, cycle: 0 })
    }

    /// Takes a question out if it was asked on this circuit.
    pub(super) fn close_exchange(&mut self, link: LinkNumber, number: u32) -> Option<ChannelExchange> {
        let is_it = self.exchanges.get(&number).is_some_and(|exchange| exchange.link == link);
        if !is_it {
            self.counters.strays += 1;
            return None;
        }
        let exchange = self.exchanges.remove(&number)?;
        if let Some(channel) = self.channels.get_mut(&exchange.channel) {
            channel.outstanding = channel.outstanding.saturating_sub(1);
        }
        self.unsettle(exchange.channel);
        Some(exchange)
    }

    /// Handles the answer to a question.
    fn answered(
        &mut self,
        exchange: ChannelExchange,
        message: ChannelMessage<'_>,
        now: Moment,
        readers: &mut PoolReaders<'_, impl Deliver>,
    ) {
        let ChannelExchange { channel: cid, link, question } = exchange;
        match question {
            ChannelQuestion::Read(entries) => {
                self.counters.replies += 1;
                if let Some(channel) = self.channels.get_mut(&cid) {
                    channel.searches = 0;
                }
                let failed = || Sample {
                    status: Status::TRUNC_REPLY,
                    bytes: Box::default(),
                    timestamp: now.unix_millis,
                    cycle: 0,
                };
                let sample = self.sample(cid, message, now).unwrap_or_else(failed);
                self.give_last(entries, &sample, now, readers);
            }
            ChannelQuestion::Bounds => {
                let ChannelMessage { header, payload } = message;
                let data =
                    ChannelData::decode(header.data_type, header.count, payload).filter(|_| header.first == NORMAL);
                let between = data.and_then(|data| data.limits?.control).filter(|(low, high)| low < high);
                if let Some(open) = self.on(link, cid) {
                    open.bounds = ChannelBounds::Known(between);
                }
            }
            ChannelQuestion::Put(put) => {
                let status =
                    if message.header.first == NORMAL { Status::SUCCESS } else { status(message.header.first) };
                self.finish(put, status);
            }
        }
    }

    /// Handles an error. Its payload has the message that it is about.
    fn failed(
        &mut self,
        link: LinkNumber,
        message: ChannelMessage<'_>,
        now: Moment,
        readers: &mut PoolReaders<'_, impl Deliver>,
    ) {
        let error = message.header.second;
        let Some(about) = message::messages(&without_size(message.payload)).next().map(|about| about.header) else {
            return;
        };
        match about.command {
            command::READ_NOTIFY | command::WRITE_NOTIFY => {
                let header = ChannelHeader { first: error, count: 0, ..about };
                if let Some(exchange) = self.close_exchange(link, about.second) {
                    self.answered(exchange, ChannelMessage { header, payload: &[] }, now, readers);
                }
            }
            command::EVENT_ADD if self.on(link, about.second).is_some() => {
                let sample =
                    Sample { status: status(error), bytes: Box::default(), timestamp: now.unix_millis, cycle: 0 };
                let begun = readers.entries.stages.begin();
                let _ = self.updated(about.second, sample, now, begun, readers);
            }
            _ => self.counters.strays += 1,
        }
    }
}

/// Returns the head of the message that an error is about, with a size of zero.
fn without_size(payload: &[u8]) -> Vec<u8> {
    let mut head: Vec<u8> = payload.iter().copied().take(16).collect();
    if let Some(size) = head.get_mut(2..4) {
        size.fill(0);
    }
    head
}

/// Returns a text as the bytes of an element.
fn filled(text: &[u8], element: usize) -> Vec<u8> {
    let mut bytes = text.to_vec();
    bytes.resize(element, 0);
    bytes
}

/// Returns the status that clients get for a status of Channel Access, whose number is above three
/// bits of severity.
fn status(code: u32) -> Status {
    match code >> 3 {
        10 => Status::UTIME,
        14 | 50 => Status::SCALEFAIL,
        22 => Status::BAD_LENGTH,
        24 => Status::NODE_DOWN,
        46 | 47 => Status::PRIV,
        _ => Status::GENERIC_ERROR,
    }
}

/// The largest requested payload: all elements of the largest property, with their details.
pub(crate) const LARGEST: usize = (8 << 10) + 512;
/// The severity of an invalid value.
const INVALID: u16 = 3;
/// The time in 1990 of a variable that its server has never read, in milliseconds since 1970.
const NEVER: i64 = 631_152_000_000 + 86_400_000;
