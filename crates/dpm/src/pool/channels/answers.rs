//! The messages of servers.

use super::state::{ChannelBounds, ChannelExchange, ChannelQuestion, ChannelState, Channels, OpenChannel};
use super::wire::{ChannelNews, Cid, CircuitWire, WireAnswer};
use crate::link::LinkNumber;
use crate::pool::readers::{Deliver, PoolReaders};
use crate::show::Sample;
use crate::stages::{Begun, ReadingStage};
use crate::status::Status;
use crate::time::Moment;

impl<W: CircuitWire> Channels<W> {
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
        let mut input = std::mem::take(&mut circuit.input);
        input.extend_from_slice(bytes);
        let (mut rest, mut begun) = (&*input, begun);
        // The circuit may end with its last channel.
        while let Some(circuit) = self.circuits.get_mut(link).filter(|circuit| circuit.serial == serial) {
            match circuit.wire.next(rest, now, &mut circuit.output) {
                Ok(Some((news, length))) => {
                    if news != ChannelNews::Part {
                        (circuit.heard_at, circuit.echo_at) = (now.millis, None);
                    }
                    begun = self.answer(link, news, now, begun, readers);
                    rest = &rest[length..];
                }
                Ok(None) => {
                    circuit.input.extend_from_slice(rest);
                    return;
                }
                Err(why) => {
                    self.counters.strays += 1;
                    return self.lost(link, Some(why), now, readers);
                }
            }
        }
    }

    /// Handles the content of a message.
    fn answer(
        &mut self,
        link: LinkNumber,
        news: ChannelNews,
        now: Moment,
        begun: Begun,
        readers: &mut PoolReaders<'_, impl Deliver>,
    ) -> Begun {
        match news {
            ChannelNews::Part | ChannelNews::Alive => {}
            ChannelNews::Stray => self.counters.strays += 1,
            ChannelNews::Ready => self.ready(link),
            ChannelNews::Found(found) => {
                if let Some(circuit) = self.circuits.get(link).filter(|circuit| circuit.has_names) {
                    self.handle_answers(circuit.server, &found, now);
                }
            }
            ChannelNews::Created(cid, may_limit) => self.created(link, cid, may_limit),
            ChannelNews::MaySet(cid, may) => {
                let is_on = self.is_on(link, cid);
                if let Some(channel) = self.channels.get_mut(&cid).filter(|_| is_on) {
                    channel.may_write = may;
                }
            }
            ChannelNews::Update(cid, sample) => return self.update(link, cid, sample, now, begun, readers),
            ChannelNews::Answer(number, answer) => {
                if let Some(exchange) = self.close_exchange(link, number) {
                    self.answered(exchange, answer, now, readers);
                }
            }
            ChannelNews::Refused(cid) => self.closed(link, cid, Status::NOPROP, now, readers),
            ChannelNews::Closed(cid) => self.closed(link, cid, Status::NODE_DOWN, now, readers),
        }
        begun
    }

    /// Returns whether a channel is on a circuit.
    fn is_on(&self, link: LinkNumber, cid: Cid) -> bool {
        self.circuits.get(link).is_some_and(|circuit| circuit.channels.contains(&cid))
    }

    /// Handles the end of a channel by its server.
    fn closed(
        &mut self,
        link: LinkNumber,
        cid: Cid,
        status: Status,
        now: Moment,
        readers: &mut PoolReaders<'_, impl Deliver>,
    ) {
        let Some(circuit) = self.circuits.get_mut(link) else { return };
        if !circuit.channels.swap_remove(&cid) {
            return;
        }
        let is_last = circuit.channels.is_empty() && !circuit.has_names;
        self.fall(cid, status, now, readers);
        if is_last {
            self.drop_circuit(link, None);
        }
    }

    /// Returns a channel that is open on a circuit.
    fn on(&mut self, link: LinkNumber, cid: Cid) -> Option<&mut OpenChannel> {
        self.channels.get_mut(&cid)?.open_mut().filter(|open| open.link == link)
    }

    /// Notes that a server has opened a channel.
    fn created(&mut self, link: LinkNumber, cid: Cid, may_limit: bool) {
        let Some(channel) = self.channels.get_mut(&cid) else { return };
        if !matches!(channel.state, ChannelState::Creating { link: own, .. } if own == link) {
            return;
        }
        let bounds = if may_limit { ChannelBounds::Unknown } else { ChannelBounds::Known(None) };
        channel.state = ChannelState::Open(OpenChannel { link, is_monitored: false, bounds });
        self.unsettle(cid);
    }

    /// Handles an update of a monitored channel.
    fn update(
        &mut self,
        link: LinkNumber,
        cid: Cid,
        sample: Sample,
        now: Moment,
        begun: Begun,
        readers: &mut PoolReaders<'_, impl Deliver>,
    ) -> Begun {
        if self.on(link, cid).is_none_or(|open| !open.is_monitored) {
            self.counters.strays += 1;
            return begun;
        }
        self.counters.replies += 1;
        let begun = readers.entries.stages.end(ReadingStage::LookUp, begun);
        self.updated(cid, sample, now, begun, readers)
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
        answer: WireAnswer,
        now: Moment,
        readers: &mut PoolReaders<'_, impl Deliver>,
    ) {
        let ChannelExchange { channel: cid, link, question } = exchange;
        match (question, answer) {
            (ChannelQuestion::Read(entries), WireAnswer::Read(sample)) => {
                self.counters.replies += 1;
                if let Some(channel) = self.channels.get_mut(&cid) {
                    channel.searches = 0;
                }
                self.give_last(entries, &sample, now, readers);
            }
            (ChannelQuestion::Bounds, WireAnswer::Bounds(between)) => {
                if let Some(open) = self.on(link, cid) {
                    open.bounds = ChannelBounds::Known(between);
                }
            }
            (ChannelQuestion::Put(put), WireAnswer::Put(status)) => self.finish(put, status),
            // A wire answers what it was asked.
            (question, _) => self.forgo(cid, question),
        }
    }
}
