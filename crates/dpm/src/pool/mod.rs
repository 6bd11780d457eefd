//! The pool: what front-ends are asked, for all readers together.
//!
//! An *entry* is one thing that is read from a node at some event, whoever wants it. Entries of one node and event make a *poll*; a poll asks in
//! *groups*, each one ACNET request as large as a datagram allows. A reply is split to the entries; each entry makes one reply to clients for each form in
//! which it is wanted, and all readers of that form share it.
//!
//! Invariants:
//! - An entry has readers, or it is removed at once; a group without entries is cancelled at once.
//! - New entries get a group of their own at the end of the turn, and running groups run on. When the groups of a poll are more than twice what it needs, they
//!   are asked anew as a whole.
//! - A reply counts only if its id is outstanding and it comes from the node that was asked. So no reading is ever given to another device's readers.
//! - A group whose front-end is silent or refuses is asked again, after growing pauses, until the last reader leaves. Its readers get the status each time.

mod entry;
mod group;
mod reply;

pub use entry::{EntryKey, Reader};

use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use slab::Slab;

use crate::acnet::{Header, Kind, Requests};
use crate::database::{Database, Device, Form, Node, Wanted};
use crate::sdd::Shared;
use crate::stages::Stages;
use crate::status::Status;
use crate::time::Moment;
use crate::when::{When, Wish};
use entry::{Channel, Entry};
use group::Group;

/// Who gets what the pool makes: once for each reader of a reading.
pub trait Deliver {
    /// A reading for a reader. `last` tells that no more will come.
    fn deliver(&mut self, reader: Reader, message: &Arc<Shared>, last: bool);
}

/// What the pool did since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Readers that came.
    pub asked: u64,
    /// Readers that found their entry running.
    pub shared: u64,
    /// Devices that front-ends were asked for.
    pub devices_requested: u64,
    /// Requests that were sent to front-ends.
    pub requests: u64,
    /// Replies that were taken.
    pub replies: u64,
    /// Readings in them.
    pub readings: u64,
    /// Readings that were scaled and encoded: once for each form.
    pub encoded: u64,
    /// Readings that were given to readers.
    pub delivered: u64,
    /// Requests that went unanswered.
    pub timeouts: u64,
    /// Replies that nobody asked for, or that came from elsewhere.
    pub strays: u64,
}

/// All that is being read.
#[derive(Debug)]
pub struct Pool {
    nodes: Vec<Node>,
    /// Our own node: trunk and node.
    address: u16,
    entries: Slab<Entry>,
    by_key: HashMap<(Wanted, When), EntryKey, ahash::RandomState>,
    polls: Slab<Poll>,
    polls_by_key: HashMap<(usize, When), usize, ahash::RandomState>,
    groups: Requests<Group>,
    /// Polls with entries that no group asks for yet, or with too many groups.
    unsettled: Vec<usize>,
    timers: BinaryHeap<std::cmp::Reverse<(u64, u16)>>,
    out: Vec<(usize, Vec<u8>)>,
    counters: Counters,
    stages: Stages,
}

/// All entries of a node that have the same event.
#[derive(Debug)]
struct Poll {
    node: usize,
    when: When,
    /// Entries that no group asks for yet.
    waiting: Vec<EntryKey>,
    groups: Vec<u16>,
    entries: usize,
    is_unsettled: bool,
}

impl Pool {
    /// A pool that asks the nodes of a database, from the node `address`.
    pub fn new(database: &Database, address: u16) -> Self {
        Self {
            nodes: database.nodes().to_vec(),
            address,
            entries: Slab::new(),
            by_key: HashMap::default(),
            polls: Slab::new(),
            polls_by_key: HashMap::default(),
            groups: Requests::default(),
            unsettled: Vec::new(),
            timers: BinaryHeap::new(),
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

    /// How many things are being read, and in how many requests.
    pub fn size(&self) -> (usize, usize) {
        (self.entries.len(), self.groups.len())
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
        wish.when.check(self.nodes.get(wanted.node).ok_or(Status::NO_NODE)?.protocol)?;
        self.counters.asked += 1;
        let period = match wish.when {
            When::Every(millis) => Some(millis),
            _ => None,
        };
        let key = (wanted, wish.when);
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
        let before = period.filter(|_| !wish.at_once && !entry.was_read()).map(|millis| now.millis + millis / 2);
        let current = entry.join(Channel::new(form, wish.on_change, device), reader, before);
        let fresh = entry.is_fresh(now);
        Ok((entry_key, current.filter(|_| wish.at_once && fresh)))
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
        self.timers.peek().map(|timer| timer.0.0)
    }

    /// Takes on another database. What is being read is read on; its nodes must still be there under the same numbers.
    pub fn replace_nodes(&mut self, nodes: &[Node]) {
        self.nodes = nodes.to_vec();
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
                groups: Vec::new(),
                entries: 0,
                is_unsettled: false,
            })
        });
        let entry = self.entries.insert(Entry::new(wanted, poll_key));
        self.by_key.insert(key, entry);
        if let Some(poll) = self.polls.get_mut(poll_key) {
            poll.entries += 1;
            poll.waiting.push(entry);
        }
        self.unsettle(poll_key);
        entry
    }

    fn remove(&mut self, key: EntryKey) {
        let Some(entry) = self.entries.try_remove(key) else { return };
        let Some(poll) = self.polls.get_mut(entry.poll) else { return };
        poll.entries -= 1;
        let full = (entry.wanted, poll.when.clone());
        if self.by_key.get(&full) == Some(&key) {
            self.by_key.remove(&full);
        }
        match entry.group {
            None => {
                // Whoever came last mostly leaves first.
                if let Some(place) = poll.waiting.iter().rposition(|waiting| *waiting == key) {
                    poll.waiting.remove(place);
                }
            }
            Some((id, place)) => {
                if let Some(group) = self.groups.get_mut(id)
                    && group.forget(place)
                {
                    self.close(id, true);
                } else {
                    self.unsettle(entry.poll);
                }
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

    /// Forgets a request; tells the front-end if it goes on answering.
    fn close(&mut self, id: u16, cancel: bool) -> Option<Group> {
        let group = self.groups.close(id)?;
        if let Some(poll) = self.polls.get_mut(group.poll) {
            poll.groups.retain(|other| *other != id);
            if cancel
                && !group.is_resting
                && let Some(node) = self.nodes.get(poll.node)
            {
                let header = group::header(node, self.address, Kind::Cancel, id);
                self.out.push((poll.node, header.datagram(&[])));
            }
        }
        Some(group)
    }

    /// The answer to a reply that nobody waits for.
    fn refuse(&mut self, node: usize, header: &Header) {
        self.counters.strays += 1;
        let cancel = Header { kind: Kind::Cancel, status: Status::SUCCESS, ..*header };
        self.out.push((node, cancel.datagram(&[])));
    }
}
