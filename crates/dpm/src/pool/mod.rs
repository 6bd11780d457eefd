//! The pool: what front-ends are asked, for all readers together.
//!
//! An *entry* is one thing that is read from a node at some event, for all that want it. Entries of one node and event make a *poll*; a poll asks in
//! *groups*, each one ACNET request as large as a datagram allows. A reply is split to the entries; each entry makes one reply to clients for each form in
//! which it is wanted, and all readers of that form share it.
//!
//! Invariants:
//! - An entry has readers, or it is removed at once; a group without entries is cancelled at once.
//! - New entries get a group of their own at the end of the turn, and running groups run on. When the groups of a poll are more than twice what it needs, those
//!   that were answered are asked again as a whole.
//! - A reply counts only if its id is outstanding and it comes from the node that was asked. So no reading is ever given to another device's readers.
//! - A group whose front-end is silent or refuses is asked again, after growing pauses, until the last reader leaves. Its readers get the status each time. If
//!   its node answers others, it is asked in halves (`search`) until the silent device is found, which is asked apart then (`silence`).
//! - An id is held while a request is outstanding, and only then.
//! - Readers come and leave in constant time, however many there are.

mod entry;
mod group;
mod grouping;
mod keys;
mod reply;
mod search;
mod silence;
mod state;
mod wire;

pub use keys::{EntryKey, Reader};
pub use state::{Counters, Deliver, Pool};

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use indexmap::IndexSet;
use slab::Slab;

use crate::acnet::{Requests, requests};
use crate::database::{Database, Device, Form, Node, Wanted};
use crate::sdd::Shared;
use crate::stages::Stages;
use crate::status::Status;
use crate::time::Moment;
use crate::when::{When, Wish};
use entry::{Channel, Entry};
use silence::Silence;
use state::{Front, Poll};

impl Pool {
    /// Returns a pool that asks the nodes of a database, from the node `address`. What is asked once may take `once` milliseconds.
    pub fn new(database: &Database, address: u16, once: u64) -> Self {
        Self {
            nodes: database.nodes().to_vec(),
            address,
            once,
            entries: Slab::new(),
            by_key: HashMap::default(),
            polls: Slab::new(),
            polls_by_key: HashMap::default(),
            serial: 0,
            groups: Slab::new(),
            requests: Requests::within(requests::READINGS),
            fronts: database.nodes().iter().map(|_| Front::default()).collect(),
            silence: Silence::default(),
            unsettled: Vec::new(),
            timers: BTreeSet::new(),
            out: Vec::new(),
            counters: Counters::default(),
            stages: Stages::default(),
        }
    }

    /// Where the time of readings goes.
    pub fn stages(&mut self) -> &mut Stages {
        &mut self.stages
    }

    /// What it did.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the number of things that are being read, and of requests that are outstanding.
    pub fn size(&self) -> (usize, usize) {
        (self.entries.len(), self.requests.len())
    }

    /// Takes on a reader. The current value, if the reader wants it and there is one, is returned; all others will be delivered.
    ///
    /// Errors are those of events that the front-end cannot be asked for.
    pub fn join(
        &mut self,
        wanted: Wanted,
        wish: Wish,
        device: &Arc<Device>,
        form: Form,
        reader: Reader,
        now: Moment,
    ) -> Result<(EntryKey, Option<Arc<Shared>>), Status> {
        let protocol = self.nodes.get(wanted.node).ok_or(Status::NO_NODE)?.protocol;
        wish.when.check(protocol)?;
        self.counters.asked += 1;
        let period = match wish.when {
            When::Every(millis) => Some(millis),
            _ => None,
        };
        let key = (wanted, wish.when.on_wire(protocol));
        // What was asked for once is in flight and older than a new reader's question, unless it has not left yet.
        let running = self.by_key.get(&key).copied().filter(|entry| self.can_join(*entry));
        let entry_key = match running {
            Some(entry) => {
                self.counters.shared += 1;
                entry
            }
            None => self.add(key),
        };
        let Some(entry) = self.entries.get_mut(entry_key) else { return Err(Status::NODE_DOWN) };
        // What a front-end sends at once comes well before half of a period is over; when it is sending already it sends nothing at once.
        let from = period.filter(|_| !wish.at_once && !entry.was_read()).map_or(0, |millis| now.millis + millis / 2);
        let current = entry.join(Channel::new(form, wish.on_change, device), reader, from);
        let fresh = entry.is_fresh(now);
        Ok((entry_key, current.filter(|_| wish.at_once && fresh)))
    }

    /// Returns the number of the event on which something would be read, if anything is read from that node on that event.
    pub fn event(&self, wanted: &Wanted, wish: &Wish) -> Option<usize> {
        let protocol = self.nodes.get(wanted.node)?.protocol;
        self.polls_by_key.get(&(wanted.node, wish.when.clone().on_wire(protocol))).copied()
    }

    /// Returns the number of the event on which an entry is read.
    pub fn event_of(&self, entry: EntryKey) -> Option<usize> {
        self.entries.get(entry).map(|entry| entry.poll)
    }

    /// Returns how many more requests may be outstanding. Events for which no request was sent yet need one each.
    pub fn ids_left(&self) -> usize {
        self.requests.capacity().saturating_sub(self.requests.len().max(self.polls.len()))
    }

    /// Lets a reader go.
    pub fn leave(&mut self, entry_key: EntryKey, reader: Reader) {
        let Some(entry) = self.entries.get_mut(entry_key) else { return };
        if entry.leave(reader) && entry.is_unread() {
            self.remove(entry_key);
        }
    }

    /// Sends what has to be sent, as datagrams with the number of their node. To be called when a turn's input is taken.
    pub fn flush(&mut self, now: Moment) -> std::vec::Drain<'_, (usize, Vec<u8>)> {
        for poll in std::mem::take(&mut self.unsettled) {
            self.settle(poll, now);
        }
        self.out.drain(..)
    }

    /// When [`tick`](Self::tick) has something to do next, in milliseconds of the same clock.
    pub fn deadline(&self) -> Option<u64> {
        self.timers.first().map(|timer| timer.0)
    }

    /// Takes on another database. What is being read is read on; its nodes must still be there under the same numbers.
    pub fn replace_nodes(&mut self, nodes: &[Node]) {
        self.nodes = nodes.to_vec();
        self.fronts.resize_with(nodes.len(), Front::default);
    }

    fn can_join(&self, entry: EntryKey) -> bool {
        self.entries.get(entry).is_some_and(|entry| match self.polls.get(entry.poll) {
            Some(poll) if poll.when == When::Once => entry.group.is_none(),
            poll => poll.is_some(),
        })
    }

    fn add(&mut self, key: (Wanted, When)) -> EntryKey {
        let (wanted, when) = key.clone();
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
        let mut entry = Entry::new(wanted, poll_key, self.serial);
        self.serial += 1;
        let number = self.entries.vacant_key();
        if let Some(poll) = self.polls.get_mut(poll_key) {
            poll.entries += 1;
            entry.waits_at = Some(poll.waiting.len());
            poll.waiting.push(number);
        }
        self.entries.insert(entry);
        self.by_key.insert(key, number);
        self.unsettle(poll_key);
        number
    }

    fn remove(&mut self, key: EntryKey) {
        let Some(entry) = self.entries.try_remove(key) else { return };
        let Some(poll) = self.polls.get_mut(entry.poll) else { return };
        poll.entries -= 1;
        let full = (entry.wanted, poll.when.clone());
        if self.by_key.get(&full) == Some(&key) {
            self.by_key.remove(&full);
        }
        if let Some(place) = entry.waits_at {
            poll.waiting.swap_remove(place);
            if let Some(moved) = poll.waiting.get(place).and_then(|moved| self.entries.get_mut(*moved)) {
                moved.waits_at = Some(place);
            }
        }
        if let Some((key, place)) = entry.group {
            if let Some(group) = self.groups.get_mut(key)
                && group.forget(place)
            {
                self.close(key, true);
            } else {
                self.unsettle(entry.poll);
            }
        }
        self.drop_if_empty(entry.poll);
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
