//! Front-ends of MQTT: brokers and their topics.
//!
//! A topic is subscribed to once, whatever the number and events of the entries that read it. Each
//! message goes to the entries that want every change, while entries with a period get the newest
//! one at their times. A single reading gets the newest message: a broker can't be asked for one,
//! but sends its retained message to each subscriber.
//!
//! Invariants:
//! - There is one connection to each broker, while any of its topics is needed.
//! - Readers of a topic without a message get a status after the time for a single reading, and
//!   repeatedly from then on.
//! - A setting is sent once. A setting that the broker has not acknowledged, or whose connection
//!   was lost in between, may have been made and has the status [`UTIME`](Status::UTIME); one that
//!   was never sent has [`NODE_DOWN`](Status::NODE_DOWN).
//! - Only the newest value of each requested topic is kept, and one unfinished packet, however much
//!   a broker sends.
//!
//! # Layout
//!
//! - [`state`] has the data, [`session`] maintains connections, [`giving`] passes values to
//!   entries, [`putting`] sets.
//! - [`payload`] interprets messages.

mod giving;
mod payload;
mod putting;
mod session;
mod state;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use slab::Slab;

use super::front_end::FrontEnd;
use super::keys::EntryKey;
use super::readers::{Deliver, PoolCounters, PoolReaders};
use super::values::event_of_wish;
use crate::database::{DeviceNode, FrontRequest, PropertyPlace, TopicPlace};
use crate::link::{Came, Goes};
use crate::stages::Begun;
use crate::status::Status;
use crate::time::Moment;
use crate::when::{ReaderWish, When};
pub(crate) use session::LARGEST as LARGEST_PACKET;
pub(super) use state::Topics;
use state::{PoolTopic, TopicEntry, TopicKey, TopicTimer, TopicView};

impl Topics {
    /// Returns the state for these nodes. A single request may take `once` milliseconds.
    pub(super) fn new(nodes: &[DeviceNode], once: u64) -> Self {
        Self {
            nodes: nodes.iter().map(|node| node.broker().cloned()).collect(),
            once,
            asked: HashMap::default(),
            topics: Slab::new(),
            by_name: HashMap::default(),
            serial: 0,
            sessions: BTreeMap::new(),
            timers: BTreeSet::new(),
            fresh: Vec::new(),
            unsettled: Vec::new(),
            out: Vec::new(),
            counters: PoolCounters::default(),
            done: Vec::new(),
        }
    }

    /// Returns the number of topics that are read, of those with a message, and of connected
    /// brokers.
    pub(super) fn size(&self) -> (usize, usize, usize) {
        let known = self.topics.iter().filter(|(_, topic)| topic.is_known()).count();
        let brokers = self.sessions.values().filter(|session| session.is_open()).count();
        (self.topics.len(), known, brokers)
    }

    /// Returns the topic of a place, which is created if there is none.
    fn topic(&mut self, node: usize, place: &TopicPlace) -> TopicKey {
        let name = (node, place.name.clone());
        let key = match self.by_name.get(&name) {
            Some(key) => *key,
            None => {
                let serial = self.serial;
                self.serial += 1;
                let key = self.topics.insert(PoolTopic::new(node, place.name.clone(), serial));
                self.by_name.insert(name, key);
                key
            }
        };
        self.unsettle(key);
        key
    }

    fn unsettle(&mut self, key: TopicKey) {
        if let Some(topic) = self.topics.get_mut(key)
            && !std::mem::replace(&mut topic.is_unsettled, true)
        {
            self.unsettled.push(key);
        }
    }

    /// Takes the next step for a topic: subscribes to it while it is needed, and gives it up after
    /// it was unused for a while.
    fn settle(&mut self, key: TopicKey, now: Moment) {
        let Some(topic) = self.topics.get_mut(key) else { return };
        topic.is_unsettled = false;
        let (node, serial) = (topic.node, topic.serial);
        if topic.is_unused() {
            if !std::mem::replace(&mut topic.is_idle, true) {
                self.timers.insert((now.millis + IDLE, TopicTimer::Idle(key, serial)));
            }
            return;
        }
        if !topic.is_known() && !std::mem::replace(&mut topic.is_late, true) {
            self.timers.insert((now.millis + self.once, TopicTimer::Late(key, serial)));
        }
        self.call(node, now);
        self.want(key, node);
    }

    fn ring(&mut self, timer: TopicTimer, now: Moment, readers: &mut PoolReaders<'_, impl Deliver>) {
        match timer {
            TopicTimer::Entry(entry, serial) => self.give_timed((entry, serial), now, readers),
            TopicTimer::Late(key, serial) => self.tell_late(key, serial, now, readers),
            TopicTimer::Idle(key, serial) => self.give_up(key, serial),
            TopicTimer::Puts(node) => self.give_up_puts(node, now),
            TopicTimer::Session(node, serial) => self.look_after(node, serial, now, readers),
        }
    }
}

impl FrontEnd for Topics {
    type Came<'a> = Came<'a>;
    type Goes = Goes;

    fn encode_event(&self, wanted: &FrontRequest, wish: &ReaderWish) -> Result<When, Status> {
        let is_known = self.nodes.get(wanted.node).is_some_and(Option::is_some);
        event_of_wish(is_known, wish)
    }

    fn event(&self, _: usize, _: When) -> Option<usize> {
        None
    }

    fn event_of(&self, _: EntryKey) -> Option<usize> {
        None
    }

    /// Returns `None`: the device file bounds the topics, and requests bound the entries.
    fn events_left(&self) -> Option<usize> {
        None
    }

    fn outstanding(&self) -> usize {
        self.sessions.values().map(|session| session.puts.len()).sum()
    }

    fn counters(&self) -> PoolCounters {
        self.counters
    }

    fn begin(&mut self, (entry, serial): (EntryKey, u64), wanted: FrontRequest, when: When, place: &PropertyPlace) {
        let Some(named) = &place.topic else { return };
        let key = self.topic(wanted.node, named);
        let Some(topic) = self.topics.get_mut(key) else { return };
        let view = TopicView::new(named, place);
        let number = topic.view(view);
        let Some((_, state)) = topic.views.get_index_mut(number) else { return };
        let is_first = state.entries.is_empty();
        state.entries.insert(entry);
        if state.latest.is_some() {
            self.fresh.push((entry, serial));
        } else if is_first {
            // The broker sends its retained message to a subscriber again, even to an existing one.
            topic.is_subscribed = false;
        }
        self.asked.insert(entry, TopicEntry::new((key, number), serial, when, wanted));
    }

    fn end(&mut self, entry: EntryKey) {
        let Some(asked) = self.asked.remove(&entry) else { return };
        let (key, view) = asked.source;
        let Some(topic) = self.topics.get_mut(key) else { return };
        if let Some((_, view)) = topic.views.get_index_mut(view) {
            view.entries.swap_remove(&entry);
        }
        self.unsettle(key);
    }

    /// Returns true for each entry, since its value is the topic's newest message, however old the
    /// request is.
    fn can_join(&self, entry: EntryKey) -> bool {
        self.asked.contains_key(&entry)
    }

    fn take(&mut self, came: Came<'_>, now: Moment, begun: Begun, readers: &mut PoolReaders<'_, impl Deliver>) {
        match came {
            Came::Bound(_) | Came::Datagram(..) => {}
            Came::Up(node) => self.greet(node, now),
            Came::Bytes(node, bytes) => self.received(node, bytes, now, begun, readers),
            Came::Down(node) => self.lost(node, now, readers),
        }
    }

    fn tick(&mut self, now: Moment, readers: &mut PoolReaders<'_, impl Deliver>) {
        for fresh in std::mem::take(&mut self.fresh) {
            self.give_fresh(fresh, now, readers);
        }
        while let Some((_, timer)) = self.timers.first().copied().filter(|(due, _)| *due <= now.millis) {
            self.timers.pop_first();
            self.ring(timer, now, readers);
        }
    }

    fn deadline(&self) -> Option<u64> {
        let fresh = (!self.fresh.is_empty()).then_some(0);
        self.timers.first().map(|timer| timer.0).into_iter().chain(fresh).min()
    }

    fn flush(&mut self, now: Moment) -> std::vec::Drain<'_, Goes> {
        for key in std::mem::take(&mut self.unsettled) {
            self.settle(key, now);
        }
        self.write_sessions(now);
        self.out.drain(..)
    }

    fn replace_nodes(&mut self, nodes: &[DeviceNode]) {
        self.nodes = nodes.iter().map(|node| node.broker().cloned()).collect();
    }
}

/// The milliseconds for which an unused topic is kept, in case it is requested again.
const IDLE: u64 = 10_000;
