//! Requests to front-ends: which entries go into one, when it is sent again.

use std::cmp::Reverse;

use super::{EntryKey, Pool};
use crate::acnet::{Header, Item, Kind, LARGEST, gets32, packet, retdat};
use crate::database::{Node, Protocol};
use crate::status::Status;
use crate::time::Moment;
use crate::when::When;

/// One request to a front-end that is outstanding, or waits to be sent again.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) poll: usize,
    pub(super) slots: Vec<Slot>,
    /// How many slots have an entry.
    live: usize,
    /// When it is given up, in milliseconds.
    pub(super) deadline: u64,
    /// How often it was sent without an answer.
    pub(super) attempts: u32,
    /// Does it wait to be sent again?
    pub(super) is_resting: bool,
}

/// A device of a request; the entry may be gone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) entry: Option<EntryKey>,
    pub(super) length: u32,
}

impl Group {
    /// Forgets an entry. Was it the last?
    pub(super) fn forget(&mut self, place: usize) -> bool {
        if let Some(slot) = self.slots.get_mut(place)
            && slot.entry.take().is_some()
        {
            self.live -= 1;
        }
        self.live == 0
    }
}

/// The head of a packet to a node.
pub(super) fn header(node: &Node, address: u16, kind: Kind, id: u16) -> Header {
    let task = match node.protocol {
        Protocol::Retdat => retdat::TASK,
        Protocol::Gets32 => gets32::TASK,
    };
    Header { kind, status: Status::SUCCESS, server: node.address, client: address, task, task_id: TASK_ID, message: id }
}

impl Pool {
    /// Makes groups of a poll's waiting entries, of all of them if it has too many groups.
    pub(super) fn settle(&mut self, poll_key: usize, now: Moment) {
        let Some(poll) = self.polls.get_mut(poll_key) else { return };
        poll.is_unsettled = false;
        let slots: usize =
            poll.groups.iter().filter_map(|id| self.groups.get(*id)).map(|group| group.slots.len()).sum();
        let live = poll.entries - poll.waiting.len();
        let needed = live.div_ceil(USUAL_GROUP);
        let is_wasteful = slots > 2 * live + USUAL_GROUP || poll.groups.len() > 2 * needed + 2;
        let (node_number, when) = (poll.node, poll.when.clone());
        let mut entries = std::mem::take(&mut poll.waiting);
        if is_wasteful && when != When::Once {
            for id in poll.groups.clone() {
                let group = self.close(id, true);
                entries.extend(group.into_iter().flat_map(|group| group.slots).filter_map(|slot| slot.entry));
            }
        }
        let Some(node) = self.nodes.get(node_number) else { return };
        let (mut request, mut reply) = sizes(node);
        let mut slots: Vec<Slot> = Vec::new();
        for key in entries {
            let Some(wanted) = self.entries.get(key).map(|entry| entry.wanted) else { continue };
            let item = item(&wanted);
            let (request_more, reply_more) = (item_size(&self.nodes[node_number]), item.reply_size());
            if !slots.is_empty() && (request + request_more > LARGEST || reply + reply_more > LARGEST) {
                self.open(poll_key, std::mem::take(&mut slots), 0, now);
                (request, reply) = sizes(&self.nodes[node_number]);
            }
            request += request_more;
            reply += reply_more;
            slots.push(Slot { entry: Some(key), length: wanted.length });
        }
        if !slots.is_empty() {
            self.open(poll_key, slots, 0, now);
        }
        self.drop_if_empty(poll_key);
    }

    /// Sends a request for some entries of a poll.
    pub(super) fn open(&mut self, poll_key: usize, slots: Vec<Slot>, attempts: u32, now: Moment) {
        let Some(poll) = self.polls.get_mut(poll_key) else { return };
        let deadline = now.millis + poll.when.patience();
        let keys: Vec<Option<EntryKey>> = slots.iter().map(|slot| slot.entry).collect();
        let live = keys.iter().flatten().count();
        let group = Group { poll: poll_key, slots, live, deadline, attempts, is_resting: false };
        let Some(id) = self.groups.open(group) else {
            // All ids are in use: the entries wait until one is free.
            poll.waiting.extend(keys.into_iter().flatten());
            self.unsettle(poll_key);
            return;
        };
        poll.groups.push(id);
        let mut items = Vec::with_capacity(keys.len());
        for (place, key) in keys.into_iter().enumerate() {
            if let Some(entry) = key.and_then(|key| self.entries.get_mut(key)) {
                entry.group = Some((id, place));
                items.push(item(&entry.wanted));
            }
        }
        self.timers.push(Reverse((deadline, id)));
        self.counters.requests += 1;
        self.counters.devices_requested += items.len() as u64;
        if let Some(node) = self.nodes.get(poll.node) {
            let repetitive = poll.when != When::Once;
            let kind = if repetitive { Kind::MultipleRequest } else { Kind::Request };
            let body = body(node, &poll.when, items);
            self.out.push((poll.node, header(node, self.address, kind, id).datagram(&body)));
        }
    }
}

impl Pool {
    /// Keeps a group that is sent at `deadline`. It has an id, so that entries which leave find it, but nothing is outstanding.
    pub(super) fn keep_resting(&mut self, poll_key: usize, slots: Vec<Slot>, attempts: u32, deadline: u64) {
        let Some(poll) = self.polls.get_mut(poll_key) else { return };
        let keys: Vec<EntryKey> = slots.iter().filter_map(|slot| slot.entry).collect();
        let group = Group { poll: poll_key, live: keys.len(), slots, deadline, attempts, is_resting: true };
        let Some(id) = self.groups.open(group) else {
            poll.waiting.extend(keys);
            self.unsettle(poll_key);
            return;
        };
        poll.groups.push(id);
        for (place, key) in keys.into_iter().enumerate() {
            if let Some(entry) = self.entries.get_mut(key) {
                entry.group = Some((id, place));
            }
        }
        self.timers.push(Reverse((deadline, id)));
    }
}

fn body(node: &Node, when: &When, items: Vec<Item>) -> Vec<u8> {
    match node.protocol {
        Protocol::Retdat => retdat::Request { ftd: when.ftd().unwrap_or_default(), items }.encode(),
        Protocol::Gets32 => gets32::Request {
            node: node.address,
            repetitive: *when != When::Once,
            ftd: when.ftd().unwrap_or(0xffff),
            event: when.text(),
            items,
        }
        .encode(),
    }
}

fn item(wanted: &crate::database::Wanted) -> Item {
    Item {
        device: wanted.device,
        property: wanted.property,
        ssdn: wanted.ssdn,
        length: wanted.length,
        offset: wanted.offset,
    }
}

/// Bytes of a request and of its reply before any device.
fn sizes(node: &Node) -> (usize, usize) {
    match node.protocol {
        Protocol::Retdat => (packet::SIZE + retdat::HEAD, packet::SIZE),
        Protocol::Gets32 => (packet::SIZE + gets32::HEAD, packet::SIZE + gets32::REPLY_HEAD),
    }
}

fn item_size(node: &Node) -> usize {
    match node.protocol {
        Protocol::Retdat => retdat::ITEM,
        Protocol::Gets32 => gets32::ITEM,
    }
}

/// Our task's number on our node.
pub(super) const TASK_ID: u16 = 1;
/// About how many devices fit one request.
const USUAL_GROUP: usize = 400;
