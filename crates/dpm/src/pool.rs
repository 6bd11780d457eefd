//! The pool: requests to front-ends, for all readers together.
//!
//! An *entry* is one value that is read from a node at some event, for all its readers. There are
//! several kinds of front-ends; each kind requests entries and returns samples of them. Each sample
//! makes one reply for each requested form, which all readers of that form share.
//!
//! Invariants:
//! - An entry without readers is removed at once.
//! - Readers come and leave in constant time, however many there are.

mod acnet;
mod channels;
mod entry;
mod front_end;
mod fronts;
mod keys;
mod readers;
mod topics;
mod values;

pub(crate) use channels::{LARGEST_ANSWER, MOST_CIRCUITS};
pub use entry::EntryGlance;
pub use keys::{EntryKey, PoolReader};
pub use readers::{Deliver, PoolCounters};
pub(crate) use topics::LARGEST_PACKET;

use std::sync::Arc;

use crate::acnet::{AcnetPacket, DeviceItem};
use crate::database::{Database, DeviceNode, DeviceRecord, FrontRequest, PropertyPlace, ValueForm};
use crate::link::{Came, Goes, LinkNetwork};
use crate::sdd::SharedReply;
use crate::setting::{SettingOutcome, SettingTicket};
use crate::stages::{Begun, ReadingStages};
use crate::status::Status;
use crate::time::Moment;
use crate::when::{ReaderWish, When};
use entry::EntryChannel;
use front_end::FrontEnd;
use fronts::{FrontKind, Fronts, of_node};
use readers::{Entries, PoolReaders};

/// All current readings.
#[derive(Debug)]
pub struct DevicePool {
    entries: Entries,
    fronts: Fronts,
}

impl DevicePool {
    /// Returns a pool that asks the nodes of a database, from the node `address`. A single request
    /// may take `once` milliseconds.
    pub fn new(database: &Database, address: u16, once: u64) -> Self {
        Self { entries: Entries::default(), fronts: Fronts::new(database.nodes(), address, once) }
    }

    /// Returns the times of readings by stage.
    pub fn stages(&mut self) -> &mut ReadingStages {
        &mut self.entries.stages
    }

    /// Returns the figures of its work.
    pub fn counters(&self) -> PoolCounters {
        self.entries.counters + self.fronts.counters()
    }

    /// Returns an overview of all current readings.
    pub fn glances(&self, now: Moment) -> impl Iterator<Item = EntryGlance> {
        self.entries.entries.iter().map(move |(_, entry)| entry.glance(now))
    }

    /// Returns the number of entries, and of outstanding requests.
    pub fn size(&self) -> (usize, usize) {
        (self.entries.entries.len(), self.fronts.outstanding())
    }

    /// Adds a reader. The current value is returned, if the reader wants it and there is one; all
    /// later ones will be delivered.
    ///
    /// Errors are those of events that the front-end does not support.
    pub fn join(
        &mut self,
        wanted: FrontRequest,
        wish: ReaderWish,
        device: &Arc<DeviceRecord>,
        form: ValueForm,
        reader: PoolReader,
        now: Moment,
    ) -> Result<(EntryKey, Option<Arc<SharedReply>>), Status> {
        let place = device.place(form.property).ok_or(Status::NOPROP)?;
        let when = of_node!(&self.fronts, wanted.node, front => front.encode_event(&wanted, &wish))?;
        let period = match wish.when {
            When::Every(millis) => Some(millis),
            _ => None,
        };
        let Entries { by_key, counters, .. } = &mut self.entries;
        counters.asked += 1;
        let key = (wanted, when);
        // A single request in flight is older than a new reader's question, unless it has not left
        // yet.
        let running = by_key.get(&key).copied();
        let running = running.filter(|entry| of_node!(&self.fronts, wanted.node, front => front.can_join(*entry)));
        let entry_key = match running {
            Some(entry) => {
                counters.shared += 1;
                entry
            }
            None => {
                let entry = self.entries.add(key.0, key.1.clone());
                of_node!(&mut self.fronts, wanted.node, front => front.begin(entry, key.0, key.1, place));
                entry.0
            }
        };
        let Some(entry) = self.entries.entries.get_mut(entry_key) else { return Err(Status::NODE_DOWN) };
        // An immediate reading arrives well before half a period is over; a front-end that is
        // already sending sends none.
        let from = period.filter(|_| !wish.at_once && !entry.was_read()).map_or(0, |millis| now.millis + millis / 2);
        let current = entry.join(EntryChannel::new(form, wish.on_change, device), reader, from);
        let fresh = entry.is_fresh(now);
        Ok((entry_key, current.filter(|_| wish.at_once && fresh)))
    }

    /// Returns the number of an event, if anything is read from that node on that event.
    pub fn event(&self, wanted: &FrontRequest, wish: &ReaderWish) -> Option<usize> {
        of_node!(&self.fronts, wanted.node, front => front.event(wanted.node, front.encode_event(wanted, wish).ok()?))
    }

    /// Returns the number of an entry's event.
    pub fn event_of(&self, entry: EntryKey) -> Option<usize> {
        let node = self.entries.entries.get(entry)?.wanted.node;
        of_node!(&self.fronts, node, front => front.event_of(entry))
    }

    /// Returns how many more events the node's kind can serve; `None` if events take no shared
    /// resource.
    pub fn events_left(&self, wanted: &FrontRequest) -> Option<usize> {
        of_node!(&self.fronts, wanted.node, front => front.events_left())
    }

    /// Removes a reader.
    pub fn leave(&mut self, entry_key: EntryKey, reader: PoolReader) {
        let Some(entry) = self.entries.entries.get_mut(entry_key) else { return };
        if entry.leave(reader) && entry.is_unread() {
            let node = entry.wanted.node;
            of_node!(&mut self.fronts, node, front => front.end(entry_key));
            self.entries.forget(entry_key);
        }
    }

    /// Handles a packet of ACNET from the node of a number. Only replies are for the pool. `begun`
    /// is the time when its look-up began.
    pub fn take(&mut self, came: (usize, AcnetPacket<'_>), now: Moment, begun: Begun, deliver: &mut impl Deliver) {
        self.fronts.acnet.take(came, now, begun, &mut PoolReaders { entries: &mut self.entries, deliver });
    }

    /// Handles input from a network of servers.
    pub fn take_link(
        &mut self,
        network: LinkNetwork,
        came: Came<'_>,
        now: Moment,
        begun: Begun,
        deliver: &mut impl Deliver,
    ) {
        let mut readers = PoolReaders { entries: &mut self.entries, deliver };
        match network {
            LinkNetwork::ChannelAccess => self.fronts.channel_access.take(came, now, begun, &mut readers),
            LinkNetwork::PvAccess => self.fronts.pv_access.take(came, now, begun, &mut readers),
            LinkNetwork::Mqtt => self.fronts.topics.take(came, now, begun, &mut readers),
        }
    }

    /// Takes the orders for a network of servers. Must be called after a turn's input.
    pub fn flush_links(&mut self, network: LinkNetwork, now: Moment) -> std::vec::Drain<'_, Goes> {
        match network {
            LinkNetwork::ChannelAccess => self.fronts.channel_access.flush(now),
            LinkNetwork::PvAccess => self.fronts.pv_access.flush(now),
            LinkNetwork::Mqtt => self.fronts.topics.flush(now),
        }
    }

    /// Returns the number of process variables that are read or set, of the connected ones among
    /// them, and of the circuits to their servers.
    pub fn channels(&self) -> (usize, usize, usize) {
        let (older, newer) = (self.fronts.channel_access.size(), self.fronts.pv_access.size());
        (older.0 + newer.0, older.1 + newer.1, older.2 + newer.2)
    }

    /// Returns the number of topics that are read, of those with a value, and of connected brokers.
    pub fn topics(&self) -> (usize, usize, usize) {
        self.fronts.topics.size()
    }

    /// Adds a setting of a process variable or topic.
    pub fn set(&mut self, node: usize, place: &PropertyPlace, item: DeviceItem, bytes: Vec<u8>, ticket: SettingTicket) {
        match self.fronts.kind(node) {
            FrontKind::PvAccess => self.fronts.pv_access.set(node, place, item, bytes, ticket),
            FrontKind::Topics => self.fronts.topics.set(node, place, item, bytes, ticket),
            FrontKind::ChannelAccess | FrontKind::Acnet => {
                self.fronts.channel_access.set(node, place, item, bytes, ticket);
            }
        }
    }

    /// Takes the settings of process variables and topics that have ended since the last call.
    pub fn take_done(&mut self) -> Vec<SettingOutcome> {
        let mut done = self.fronts.channel_access.take_done();
        done.extend(self.fronts.pv_access.take_done());
        done.extend(self.fronts.topics.take_done());
        done
    }

    /// Does all due work.
    pub fn tick(&mut self, now: Moment, deliver: &mut impl Deliver) {
        self.fronts.tick(now, &mut PoolReaders { entries: &mut self.entries, deliver });
    }

    /// Takes the datagrams for ACNET, each with the number of its node. Must be called after a
    /// turn's input.
    pub fn flush(&mut self, now: Moment) -> std::vec::Drain<'_, (usize, Vec<u8>)> {
        self.fronts.acnet.flush(now)
    }

    /// Returns the time at which [`tick`](Self::tick) must be called next, in milliseconds of the
    /// same clock.
    pub fn deadline(&self) -> Option<u64> {
        self.fronts.deadline()
    }

    /// Replaces the nodes by those of another database. Current readings continue; their nodes must
    /// still have the same numbers.
    pub fn replace_nodes(&mut self, nodes: &[DeviceNode]) {
        self.fronts.replace_nodes(nodes);
    }
}
