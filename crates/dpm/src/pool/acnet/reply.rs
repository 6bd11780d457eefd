//! Replies of front-ends.

use super::group::GroupKey;
use super::state::Acnet;
use super::wire::TASK_ID;
use crate::acnet::{AcnetHeader, AcnetPacket, PacketKind, gets32, split};
use crate::database::Protocol;
use crate::pool::front_end::FrontEnd;
use crate::pool::readers::Turn;
use crate::pool::readers::{Deliver, PoolReaders};
use crate::show::Sample;
use crate::stages::{Begun, ReadingStage};
use crate::status::Status;
use crate::time::Moment;
use crate::when::When;

impl Acnet {
    /// Handles a packet from the node of a number. Only replies are for the pool. `begun` is the
    /// time when its look-up began.
    pub(super) fn reply(
        &mut self,
        node: usize,
        packet: AcnetPacket<'_>,
        now: Moment,
        begun: Begun,
        readers: &mut PoolReaders<'_, impl Deliver>,
    ) {
        let header = packet.header;
        if !matches!(header.kind, PacketKind::Reply | PacketKind::ReplyWithMore) || header.client != self.address {
            return;
        }
        let asked = self.requests.get(header.message).copied().filter(|_| header.task_id == TASK_ID);
        let group = asked.and_then(|key| Some((key, self.groups.get(key)?))).filter(|(_, group)| group.node == node);
        let expected = self.node(node).map(|node| node.address);
        let (Some((key, group)), true) = (group, expected == Some(header.server)) else {
            self.refuse(node, &header);
            return;
        };
        let is_last = header.kind == PacketKind::Reply;
        if group.is_probe {
            if header.status != Status::PEND {
                self.handle_probe(key, packet, is_last, now);
            }
            return;
        }
        let Some(poll) = self.polls.get(group.poll) else { return };
        let (patience, is_once) = (poll.when.patience(self.once), poll.when == When::Once);
        if header.status == Status::PEND {
            self.prolong(key, now.millis + patience);
            return;
        }
        self.counters.replies += 1;
        let begun = readers.entries.stages.end(ReadingStage::LookUp, begun);
        let failure = match header.status {
            Status::NO_TASK => Some(Status::NODE_DOWN),
            status if status.is_fatal() => Some(status),
            _ => self.split(key, node, packet.body, now, begun, readers).err(),
        };
        match failure {
            // The end of a stream of replies says nothing about the devices.
            Some(Status::TRUNC_REPLY) if packet.body.is_empty() && is_last && !is_once => self.rest(key, now),
            Some(status) => self.fail(key, status, !is_last, now, readers),
            None => {
                self.answered(key, now.millis + patience, now);
                if is_once {
                    self.finish(key, true, readers);
                } else if is_last {
                    self.rest(key, now);
                }
            }
        }
    }

    /// Gives a request more time, since its front-end announces an answer.
    fn prolong(&mut self, key: GroupKey, deadline: u64) {
        if let Some(group) = self.groups.get_mut(key) {
            (group.deadline, group.once.end) = (deadline, deadline);
        }
    }

    /// Notes that a group got readings.
    fn answered(&mut self, key: GroupKey, deadline: u64, now: Moment) {
        let Some(group) = self.groups.get_mut(key) else { return };
        let Some(front) = self.fronts.get_mut(group.node) else { return };
        front.beats += 1;
        front.beat_at = Some(now.millis);
        (group.deadline, group.pulse, group.attempts) = (deadline, front.beats, 0);
        (group.answered_at, group.has_missed) = (now.millis, false);
        let poll = group.poll;
        if !group.has_answered {
            self.found_answering(key, now);
        }
        self.hurry(poll, now);
    }

    /// Handles the answer to a probe.
    fn handle_probe(&mut self, key: GroupKey, packet: AcnetPacket<'_>, is_last: bool, now: Moment) {
        let Some(group) = self.groups.get(key) else { return };
        let (poll, node) = (group.poll, group.node);
        let with_times = self.node(node).is_some_and(|node| node.protocol == Protocol::Gets32);
        let body =
            if with_times { gets32::ReplyHead::decode(packet.body).map(|head| head.1) } else { Some(packet.body) };
        let lengths = group.slots.iter().map(|slot| slot.wanted.length);
        let is_reading = !packet.header.status.is_fatal() && body.and_then(|body| split(body, lengths)).is_some();
        self.close(key, !is_last);
        if is_reading {
            self.beat(node, now);
            self.hurry(poll, now);
        }
    }

    /// Splits a reply among its entries.
    fn split(
        &mut self,
        key: GroupKey,
        node: usize,
        body: &[u8],
        now: Moment,
        mut begun: Begun,
        readers: &mut PoolReaders<'_, impl Deliver>,
    ) -> Result<(), Status> {
        let Some(group) = self.groups.get(key) else { return Ok(()) };
        let is_last = self.polls.get(group.poll).is_some_and(|poll| poll.when == When::Once);
        let fresh_for = self.polls.get(group.poll).map_or(0, |poll| poll.when.patience(self.once));
        let with_times = self.node(node).is_some_and(|node| node.protocol == Protocol::Gets32);
        let (timestamp, cycle, body) = if with_times {
            let (head, rest) = gets32::ReplyHead::decode(body).ok_or(Status::TRUNC_REPLY)?;
            if head.status.is_fatal() {
                return Err(head.status);
            }
            (head.collected, head.cycle, rest)
        } else {
            (now.unix_millis, 0, body)
        };
        let readings = split(body, group.slots.iter().map(|slot| slot.wanted.length)).ok_or(Status::TRUNC_REPLY)?;
        for (slot, (status, bytes)) in group.slots.iter().zip(readings) {
            let Some(entry) = slot.entry else { continue };
            let bytes = if status.is_fatal() { Box::default() } else { bytes.into() };
            let sample = Sample { status, bytes, timestamp, cycle };
            begun = readers.take((entry, slot.serial), &sample, Turn { fresh_for, is_last, now }, begun);
        }
        Ok(())
    }

    /// Ends a single request and removes its entries: `all` of them, or only those that haven't
    /// moved to another request.
    pub(super) fn finish(&mut self, key: GroupKey, all: bool, readers: &mut PoolReaders<'_, impl Deliver>) {
        let Some(group) = self.close(key, false) else { return };
        for slot in &group.slots {
            let Some(number) = slot.entry else { continue };
            let Some(asked) = self.asked.get_mut(number).filter(|asked| asked.serial == slot.serial) else {
                continue;
            };
            let is_own = asked.group.is_some_and(|(own, _)| own == key);
            if is_own {
                // The group is closed already.
                asked.group = None;
            }
            if is_own || all {
                self.end(number);
                readers.entries.forget(number);
            }
        }
        self.drop_if_empty(group.poll);
    }

    /// Replies to a reply that isn't awaited.
    fn refuse(&mut self, node: usize, header: &AcnetHeader) {
        self.counters.strays += 1;
        let cancel = AcnetHeader { kind: PacketKind::Cancel, status: Status::SUCCESS, ..*header };
        self.out.push((node, cancel.datagram(&[])));
    }
}
