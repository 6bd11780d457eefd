//! Front-ends of ACNET, asked by datagrams.
//!
//! Entries of one node and event make a *poll*. A poll is requested in *groups*, each of which is
//! one ACNET request as large as a datagram allows. A reply is split among the entries.
//!
//! Invariants:
//! - A group without entries is cancelled at once.
//! - New entries get a group of their own at the end of the turn, and running groups continue. When
//!   a poll has more than twice as many groups as it needs, the answered ones are merged and
//!   requested again.
//! - A reply counts only if its id is outstanding and it comes from the node that was asked. So no
//!   reading ever goes to another device's readers.
//! - A group whose front-end is silent or refuses is asked again, after growing pauses, until the
//!   last reader leaves. Its readers get the status each time. If its node answers other requests,
//!   it is asked in halves (`search`) until the silent device is found, which is then asked
//!   separately (`silence`).
//! - An id is held while a request is outstanding, and only then.

mod group;
mod grouping;
mod reply;
mod search;
mod silence;
mod state;
mod wire;

use std::collections::{BTreeSet, HashMap};

use indexmap::IndexSet;
use slab::Slab;

use super::front_end::FrontEnd;
use super::keys::EntryKey;
use super::readers::{Deliver, PoolCounters, PoolReaders};
use crate::acnet::{AcnetPacket, RequestsById, requests};
use crate::database::{DeviceNode, FrontRequest, PropertyPlace};
use crate::stages::Begun;
use crate::status::Status;
use crate::time::Moment;
use crate::when::{ReaderWish, When};
use silence::Silence;
pub(super) use state::Acnet;
use state::{AcnetEntry, Front, NumberedEntries, Poll};

impl Acnet {
    /// Returns the state for these nodes, which are asked from the node `address`. A single request
    /// may take `once` milliseconds.
    pub(super) fn new(nodes: &[DeviceNode], address: u16, once: u64) -> Self {
        Self {
            nodes: nodes.iter().map(DeviceNode::acnet).collect(),
            address,
            once,
            asked: NumberedEntries::default(),
            polls: Slab::new(),
            polls_by_key: HashMap::default(),
            groups: Slab::new(),
            requests: RequestsById::within(requests::READINGS),
            fronts: nodes.iter().map(|_| Front::default()).collect(),
            silence: Silence::default(),
            unsettled: Vec::new(),
            timers: BTreeSet::new(),
            out: Vec::new(),
            counters: PoolCounters::default(),
        }
    }

    fn drop_if_empty(&mut self, poll_key: usize) {
        let is_empty = self.polls.get(poll_key).is_some_and(|poll| poll.entries == 0 && poll.groups.is_empty());
        if is_empty && let Some(poll) = self.polls.try_remove(poll_key) {
            self.polls_by_key.remove(&(poll.node, poll.when));
        }
    }

    fn unsettle(&mut self, poll_key: usize) {
        if let Some(poll) = self.polls.get_mut(poll_key)
            && !std::mem::replace(&mut poll.is_unsettled, true)
        {
            self.unsettled.push(poll_key);
        }
    }
}

impl FrontEnd for Acnet {
    type Came<'a> = (usize, AcnetPacket<'a>);
    type Goes = (usize, Vec<u8>);

    fn encode_event(&self, wanted: &FrontRequest, wish: &ReaderWish) -> Result<When, Status> {
        let protocol = self.node(wanted.node).ok_or(Status::NO_NODE)?.protocol;
        wish.when.check(protocol)?;
        Ok(wish.when.clone().on_wire(protocol))
    }

    fn event(&self, node: usize, when: When) -> Option<usize> {
        self.polls_by_key.get(&(node, when)).copied()
    }

    fn event_of(&self, entry: EntryKey) -> Option<usize> {
        self.asked.get(entry).map(|asked| asked.poll)
    }

    /// Returns how many more requests may be outstanding. Each event whose request hasn't been sent
    /// needs one.
    fn events_left(&self) -> Option<usize> {
        Some(self.requests.capacity().saturating_sub(self.requests.len().max(self.polls.len())))
    }

    fn outstanding(&self) -> usize {
        self.requests.len()
    }

    fn counters(&self) -> PoolCounters {
        self.counters
    }

    fn begin(&mut self, (number, serial): (EntryKey, u64), wanted: FrontRequest, when: When, _: &PropertyPlace) {
        let poll_key = *self.polls_by_key.entry((wanted.node, when.clone())).or_insert_with(|| {
            let waiting = Vec::new();
            self.polls.insert(Poll {
                node: wanted.node,
                when,
                waiting,
                groups: IndexSet::default(),
                entries: 0,
                event_at: None,
                is_unsettled: false,
            })
        });
        let mut asked = AcnetEntry { wanted, poll: poll_key, serial, group: None, waits_at: None };
        if let Some(poll) = self.polls.get_mut(poll_key) {
            poll.entries += 1;
            asked.waits_at = Some(poll.waiting.len());
            poll.waiting.push(number);
        }
        self.asked.put(number, asked);
        self.unsettle(poll_key);
    }

    fn end(&mut self, key: EntryKey) {
        let Some(asked) = self.asked.take(key) else { return };
        let Some(poll) = self.polls.get_mut(asked.poll) else { return };
        poll.entries -= 1;
        if let Some(place) = asked.waits_at {
            poll.waiting.swap_remove(place);
            if let Some(moved) = poll.waiting.get(place).and_then(|moved| self.asked.get_mut(*moved)) {
                moved.waits_at = Some(place);
            }
        }
        if let Some((key, place)) = asked.group {
            if let Some(group) = self.groups.get_mut(key)
                && group.forget(place)
            {
                self.close(key, true);
            } else {
                self.unsettle(asked.poll);
            }
        }
        self.drop_if_empty(asked.poll);
    }

    fn can_join(&self, entry: EntryKey) -> bool {
        self.asked.get(entry).is_some_and(|asked| match self.polls.get(asked.poll) {
            Some(poll) if poll.when == When::Once => asked.group.is_none(),
            poll => poll.is_some(),
        })
    }

    fn take(
        &mut self,
        (node, packet): (usize, AcnetPacket<'_>),
        now: Moment,
        begun: Begun,
        readers: &mut PoolReaders<'_, impl Deliver>,
    ) {
        self.reply(node, packet, now, begun, readers);
    }

    fn tick(&mut self, now: Moment, readers: &mut PoolReaders<'_, impl Deliver>) {
        self.ring(now, readers);
    }

    fn flush(&mut self, now: Moment) -> std::vec::Drain<'_, (usize, Vec<u8>)> {
        for poll in std::mem::take(&mut self.unsettled) {
            self.settle(poll, now);
        }
        self.out.drain(..)
    }

    fn deadline(&self) -> Option<u64> {
        self.timers.first().map(|timer| timer.0)
    }

    fn replace_nodes(&mut self, nodes: &[DeviceNode]) {
        self.nodes = nodes.iter().map(DeviceNode::acnet).collect();
        self.fronts.resize_with(nodes.len(), Front::default);
    }
}
