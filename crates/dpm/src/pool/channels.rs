//! Front-ends of EPICS: servers of Channel Access or pvAccess, on circuits.
//!
//! Each variable has one *channel*, whatever the number and events of the entries that read it: it
//! is monitored once, and each update goes to the entries that want every change, while entries
//! with a period get the newest value at their times. For single readings the channel is read,
//! since a server may withhold small changes from monitors.
//!
//! Invariants:
//! - A channel belongs to one circuit at most, and an answer counts only if it arrives on that
//!   circuit.
//! - Readers of a channel that is not open get a status after the time for a single reading, and
//!   repeatedly from then on.
//! - A setting is sent once. A setting that was not answered, or whose circuit was lost in between,
//!   may have been made and has the status [`UTIME`](Status::UTIME); one that was never sent has
//!   [`NODE_DOWN`](Status::NODE_DOWN).
//! - Only the newest value of each requested variable is kept, and one unfinished message per
//!   circuit, however much a server sends.
//!
//! # Layout
//!
//! - [`wire`] is what differs between the protocols; [`ca`] has the messages of Channel Access,
//!   [`pva`] those of pvAccess.
//! - [`state`] has the data, [`searching`] finds servers, [`circuits`] maintains connections,
//!   [`answers`] handles their input, [`giving`] passes values to entries, [`putting`] sets.

mod answers;
mod ca;
mod circuits;
mod giving;
mod putting;
mod pva;
mod searching;
mod state;
mod wire;

use std::collections::{BTreeSet, HashMap, VecDeque};

use slab::Slab;

use super::front_end::FrontEnd;
use super::keys::EntryKey;
use super::readers::{Deliver, PoolCounters, PoolReaders};
use super::values::event_of_wish;
use crate::database::{DeviceNode, FrontRequest, PropertyPlace};
use crate::link::{Came, Goes};
use crate::stages::Begun;
use crate::status::Status;
use crate::time::Moment;
use crate::when::{ReaderWish, When};
pub(super) use ca::CaWire;
pub(crate) use ca::LARGEST as LARGEST_ANSWER;
pub(crate) use circuits::MOST_CIRCUITS;
pub(super) use pva::PvaWire;
pub(super) use state::Channels;
use state::{ChannelEntry, ChannelState, ChannelTimer, PoolChannel};
use wire::{Cid, CircuitWire};

impl<W: CircuitWire> Channels<W> {
    /// Returns the state for these nodes. A single request may take `once` milliseconds.
    pub(super) fn new(nodes: &[DeviceNode], once: u64) -> Self {
        Self {
            nodes: nodes.iter().map(|node| W::search_of(node).cloned()).collect(),
            once,
            asked: HashMap::default(),
            channels: HashMap::default(),
            by_variable: HashMap::default(),
            circuits: Slab::new(),
            by_server: HashMap::default(),
            serial: 0,
            exchanges: HashMap::default(),
            next_number: 1,
            timers: BTreeSet::new(),
            fresh: Vec::new(),
            unsettled: Vec::new(),
            searching: VecDeque::new(),
            next_search: 0,
            port: None,
            out: Vec::new(),
            counters: PoolCounters::default(),
            done: Vec::new(),
        }
    }

    /// Returns the number of channels, of those that are open, and of circuits.
    pub(super) fn size(&self) -> (usize, usize, usize) {
        let open = self.channels.values().filter(|channel| channel.open().is_some()).count();
        (self.channels.len(), open, self.circuits.len())
    }

    /// Returns the channel of a variable, which is created if there is none.
    fn channel(&mut self, node: usize, place: &PropertyPlace) -> Cid {
        let name = place.variable.clone().unwrap_or_default();
        let shape = place.shape();
        let variable = (node, name, shape.is_text());
        let cid = match self.by_variable.get(&variable) {
            Some(cid) => *cid,
            None => {
                let cid = self.number();
                self.channels.insert(cid, PoolChannel::new(variable.clone(), shape));
                self.by_variable.insert(variable, cid);
                cid
            }
        };
        self.unsettle(cid);
        cid
    }

    fn unsettle(&mut self, cid: Cid) {
        if let Some(channel) = self.channels.get_mut(&cid)
            && !std::mem::replace(&mut channel.is_unsettled, true)
        {
            self.unsettled.push(cid);
        }
    }

    /// Takes the next step for a channel: searches for it while it is needed, requests its value
    /// when it is open, and closes it after it was unused for a while.
    fn settle(&mut self, cid: Cid, now: Moment) {
        let Some(channel) = self.channels.get_mut(&cid) else { return };
        channel.is_unsettled = false;
        if channel.is_unused() {
            if !std::mem::replace(&mut channel.is_idle, true) {
                self.timers.insert((now.millis + IDLE, ChannelTimer::Idle(cid)));
            }
            return;
        }
        if let Some(put) = channel.puts.iter_mut().find(|put| put.until.is_none()) {
            // Later ones in the queue came in the same turn.
            let until = now.millis + crate::setting::PATIENCE;
            put.until = Some(until);
            channel.puts.iter_mut().for_each(|put| put.until = put.until.or(Some(until)));
            self.timers.insert((until, ChannelTimer::Puts(cid)));
        }
        match channel.state {
            ChannelState::Open(_) => {
                self.monitor(cid);
                self.read(cid, now);
                self.put(cid, now);
            }
            ChannelState::Searching | ChannelState::Creating { .. } => {
                if !std::mem::replace(&mut channel.is_late, true) {
                    self.timers.insert((now.millis + self.once, ChannelTimer::Late(cid)));
                }
                if channel.state == ChannelState::Searching && !std::mem::replace(&mut channel.is_searched, true) {
                    self.searching.push_back(cid);
                }
            }
        }
    }

    /// Closes an unused channel.
    fn close_idle(&mut self, cid: Cid) {
        let Some(channel) = self.channels.get_mut(&cid) else { return };
        channel.is_idle = false;
        if !channel.is_unused() {
            return;
        }
        self.leave_circuit(cid);
        if let Some(channel) = self.channels.remove(&cid) {
            self.by_variable.remove(&channel.variable);
        }
    }

    fn ring(&mut self, timer: ChannelTimer, now: Moment, readers: &mut PoolReaders<'_, impl Deliver>) {
        match timer {
            ChannelTimer::Entry(entry, serial) => self.give_timed((entry, serial), now, readers),
            ChannelTimer::Search(cid) => self.search_again(cid, now),
            ChannelTimer::Late(cid) => self.tell_late(cid, now, readers),
            ChannelTimer::Idle(cid) => self.close_idle(cid),
            ChannelTimer::Puts(cid) => self.give_up_puts(cid, now),
            ChannelTimer::Exchange(number) => self.give_up(number, now, readers),
            ChannelTimer::Circuit(link, serial) => self.look_after(link, serial, now, readers),
        }
    }
}

impl<W: CircuitWire> FrontEnd for Channels<W> {
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

    /// Returns `None`: the device file bounds the channels, and requests bound the entries.
    fn events_left(&self) -> Option<usize> {
        None
    }

    fn outstanding(&self) -> usize {
        self.exchanges.len()
    }

    fn counters(&self) -> PoolCounters {
        self.counters
    }

    fn begin(&mut self, (entry, serial): (EntryKey, u64), wanted: FrontRequest, when: When, place: &PropertyPlace) {
        let cid = self.channel(wanted.node, place);
        let Some(channel) = self.channels.get_mut(&cid) else { return };
        if when == When::Once {
            channel.reads.push((entry, serial));
        } else {
            channel.entries.insert(entry);
            if channel.latest.is_some() {
                self.fresh.push((entry, serial));
            }
        }
        self.asked.insert(entry, ChannelEntry::new(cid, serial, when, wanted));
    }

    fn end(&mut self, entry: EntryKey) {
        let Some(asked) = self.asked.remove(&entry) else { return };
        let Some(channel) = self.channels.get_mut(&asked.source) else { return };
        channel.entries.swap_remove(&entry);
        channel.reads.retain(|(read, _)| *read != entry);
        self.unsettle(asked.source);
    }

    fn can_join(&self, entry: EntryKey) -> bool {
        self.asked.get(&entry).is_some_and(|asked| {
            let waits = |channel: &PoolChannel| channel.reads.iter().any(|(read, _)| *read == entry);
            asked.when != When::Once || self.channels.get(&asked.source).is_some_and(waits)
        })
    }

    fn take(&mut self, came: Came<'_>, now: Moment, begun: Begun, readers: &mut PoolReaders<'_, impl Deliver>) {
        match came {
            Came::Bound(port) => self.bound(port, now),
            Came::Datagram(from, bytes) => self.handle_answers(from, &W::servers_in(bytes), now),
            Came::Up(link) => self.up(link, now),
            Came::Bytes(link, bytes) => self.received(link, bytes, now, begun, readers),
            Came::Down(link) => self.lost(link, None, now, readers),
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
        let search = (!self.searching.is_empty()).then_some(self.next_search);
        let fresh = (!self.fresh.is_empty()).then_some(0);
        self.timers.first().map(|timer| timer.0).into_iter().chain(search).chain(fresh).min()
    }

    fn flush(&mut self, now: Moment) -> std::vec::Drain<'_, Goes> {
        for cid in std::mem::take(&mut self.unsettled) {
            self.settle(cid, now);
        }
        self.search(now);
        self.write_circuits(now);
        self.out.drain(..)
    }

    fn replace_nodes(&mut self, nodes: &[DeviceNode]) {
        self.nodes = nodes.iter().map(|node| W::search_of(node).cloned()).collect();
    }
}

/// The milliseconds for which an unused channel is kept, in case it is requested again.
const IDLE: u64 = 10_000;
