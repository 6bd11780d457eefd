//! Replies of front-ends, and their absence.

use std::cmp::Reverse;

use super::group::{Slot, TASK_ID};
use super::{Deliver, Pool};
use crate::acnet::{Kind, Packet, gets32, split};
use crate::database::Protocol;
use crate::show::Sample;
use crate::stages::{Begun, Stage};
use crate::status::Status;
use crate::time::Moment;
use crate::when::When;

impl Pool {
    /// Takes a packet that came from the node of a number. Only replies are for the pool. `begun`: when the look-up began.
    pub fn take(&mut self, node: usize, packet: Packet<'_>, now: Moment, begun: Begun, deliver: &mut impl Deliver) {
        let header = packet.header;
        if !matches!(header.kind, Kind::Reply | Kind::ReplyWithMore) || header.client != self.address {
            return;
        }
        let asked = self.groups.get(header.message).filter(|group| !group.is_resting && header.task_id == TASK_ID);
        let poll = asked.and_then(|group| self.polls.get(group.poll)).filter(|poll| poll.node == node);
        let expected = self.nodes.get(node).map(|node| node.address);
        let (Some(poll), true) = (poll, expected == Some(header.server)) else {
            self.refuse(node, &header);
            return;
        };
        let patience = poll.when.patience();
        let is_once = poll.when == When::Once;
        if let Some(group) = self.groups.get_mut(header.message) {
            group.deadline = now.millis + patience;
        }
        if header.status == Status::PEND {
            return;
        }
        self.counters.replies += 1;
        let begun = self.stages.end(Stage::LookUp, begun);
        let failure = match header.status {
            Status::NO_TASK => Some(Status::NODE_DOWN),
            status if status.is_fatal() => Some(status),
            _ => self.split(header.message, node, packet.body, now, begun, deliver).err(),
        };
        let is_last = header.kind == Kind::Reply;
        match failure {
            // The end of a stream of replies says nothing about the devices.
            Some(Status::TRUNC_REPLY) if packet.body.is_empty() && is_last && !is_once => {
                self.rest(header.message, now)
            }
            Some(status) => self.fail(header.message, status, !is_last, now, deliver),
            None if is_once => self.finish(header.message),
            None if is_last => self.rest(header.message, now),
            None => {
                if let Some(group) = self.groups.get_mut(header.message) {
                    group.attempts = 0;
                }
            }
        }
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Moment, deliver: &mut impl Deliver) {
        while let Some(Reverse((due, id))) = self.timers.peek().copied() {
            if due > now.millis {
                break;
            }
            self.timers.pop();
            let Some(group) = self.groups.get_mut(id) else { continue };
            if group.deadline > now.millis {
                // It was answered since, or the id is another request's.
                let deadline = group.deadline;
                self.timers.push(Reverse((deadline, id)));
            } else if group.is_resting || self.polls.get(group.poll).is_some_and(|poll| poll.when.is_event()) {
                let (poll, attempts) = (group.poll, group.attempts + 1);
                let slots = self.close(id, true).map(|group| live(&group.slots)).unwrap_or_default();
                self.open(poll, slots, attempts, now);
            } else {
                self.counters.timeouts += 1;
                self.fail(id, Status::UTIME, true, now, deliver);
            }
        }
    }

    /// Splits a reply to its entries.
    fn split(
        &mut self,
        id: u16,
        node: usize,
        body: &[u8],
        now: Moment,
        mut begun: Begun,
        deliver: &mut impl Deliver,
    ) -> Result<(), Status> {
        let Some(group) = self.groups.get(id) else { return Ok(()) };
        let is_last = self.polls.get(group.poll).is_some_and(|poll| poll.when == When::Once);
        let fresh_for = self.polls.get(group.poll).map_or(0, |poll| poll.when.patience());
        let with_times = self.nodes.get(node).is_some_and(|node| node.protocol == Protocol::Gets32);
        let (timestamp, cycle, body) = if with_times {
            let (head, rest) = gets32::ReplyHead::decode(body).ok_or(Status::TRUNC_REPLY)?;
            if head.status.is_fatal() {
                return Err(head.status);
            }
            (head.collected, head.cycle, rest)
        } else {
            (now.unix_millis, 0, body)
        };
        let readings = split(body, group.slots.iter().map(|slot| slot.length)).ok_or(Status::TRUNC_REPLY)?;
        for (slot, (status, bytes)) in group.slots.iter().zip(readings) {
            let Some(entry) = slot.entry.and_then(|key| self.entries.get_mut(key)) else { continue };
            let bytes = if status.is_fatal() { Box::default() } else { bytes.into() };
            let sample = Sample { status, bytes, timestamp, cycle };
            self.counters.readings += 1;
            begun = self.stages.end(Stage::Split, begun);
            let delivered = &mut self.counters.delivered;
            let take = entry.take(&sample, fresh_for, now, &mut self.stages, begun, |reader, message| {
                *delivered += 1;
                deliver.deliver(reader, message, is_last);
            });
            self.counters.encoded += take.made;
            begun = take.ended;
        }
        Ok(())
    }

    /// Tells the readers of a request that it failed, and rests; what was asked once is over.
    fn fail(&mut self, id: u16, status: Status, cancel: bool, now: Moment, deliver: &mut impl Deliver) {
        let Some(group) = self.groups.get(id) else { return };
        let poll_key = group.poll;
        let is_last = self.polls.get(poll_key).is_some_and(|poll| poll.when == When::Once);
        let sample = Sample { status, bytes: Box::default(), timestamp: now.unix_millis, cycle: 0 };
        for entry in group.slots.iter().filter_map(|slot| slot.entry) {
            let Some(entry) = self.entries.get_mut(entry) else { continue };
            let delivered = &mut self.counters.delivered;
            let begun = self.stages.begin();
            let take = entry.take(&sample, 0, now, &mut self.stages, begun, |reader, message| {
                *delivered += 1;
                deliver.deliver(reader, message, is_last);
            });
            self.counters.encoded += take.made;
        }
        if is_last {
            self.finish(id);
        } else if cancel {
            // The front-end may still have the request: the next one gets another id.
            let attempts = self.groups.get(id).map_or(0, |group| group.attempts);
            let slots = self.close(id, true).map(|group| live(&group.slots)).unwrap_or_default();
            self.park(poll_key, slots, attempts, now);
        } else {
            self.rest(id, now);
        }
    }

    /// Keeps a request that is over until it is sent again.
    fn rest(&mut self, id: u16, now: Moment) {
        let Some(group) = self.close(id, false) else { return };
        let (poll, attempts) = (group.poll, group.attempts);
        self.park(poll, live(&group.slots), attempts, now);
    }

    fn park(&mut self, poll: usize, slots: Vec<Slot>, attempts: u32, now: Moment) {
        if slots.is_empty() {
            return;
        }
        let deadline = now.millis + (FIRST_REST << attempts.min(10)).min(LONGEST_REST);
        self.keep_resting(poll, slots, attempts, deadline);
    }

    /// What was asked once is over: its entries go.
    fn finish(&mut self, id: u16) {
        let Some(group) = self.close(id, false) else { return };
        for key in group.slots.iter().filter_map(|slot| slot.entry) {
            if let Some(entry) = self.entries.get_mut(key) {
                // The group is closed already.
                entry.group = None;
            }
            self.remove(key);
        }
        self.drop_if_empty(group.poll);
    }
}

fn live(slots: &[Slot]) -> Vec<Slot> {
    slots.iter().copied().filter(|slot| slot.entry.is_some()).collect()
}

/// In milliseconds; doubled with each attempt.
const FIRST_REST: u64 = 250;
/// In milliseconds: so long after a front-end comes back its devices are read again at the latest.
const LONGEST_REST: u64 = 8000;
