//! Settings: orders of clients become requests to front-ends, and the replies become a status for
//! each setting.
//!
//! The settings of a turn go to a node together, in the order in which they came, as large as a
//! datagram allows: `SETDAT`, or `SETS32` where the node speaks `GETS32`. Parts of an alarm block
//! (its limits, its flags) are set by reading the block, changing it and setting all of it; in the
//! meantime other changes of the same block wait, so that none is lost.
//!
//! A front-end answers a request as a whole, and nothing is sent twice: if a request was not
//! answered, the silent device in it is unknown. From then on each of its devices gets separate
//! requests until it has answered, so that the silent one hides no other again.
//!
//! Invariants:
//! - Every setting gets exactly one status, at the latest [`PATIENCE`] later for each exchange that
//!   it needs.
//! - Nothing is sent twice: a setting that was not answered may have been made, and is reported as
//!   [`UTIME`](Status::UTIME).
//! - An answer counts only if its id is outstanding and it comes from the node that was asked.

mod change;
mod edit;
mod exchange;
mod limit;
mod state;

pub use change::{AlarmPart, PropertyChange, WantedValue, change};
use state::{BlockEdit, MOST_PATIENCE, Write};
pub use state::{PATIENCE, Setter, SettingOutcome, SettingTicket, TASK_ID};

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::acnet::{AcnetHeader, DeviceItem, PacketKind, RequestsById, requests};
use crate::database::{Database, DeviceNode, DeviceRecord};
use crate::status::Status;
use crate::time::Moment;

impl Setter {
    /// Returns the state for the nodes of a database; `address` is that of the node that sends the
    /// settings.
    pub fn new(database: &Database, address: u16) -> Self {
        Self {
            nodes: database.nodes().iter().map(DeviceNode::acnet).collect(),
            address,
            writes: Vec::new(),
            edits: Vec::new(),
            places: HashMap::default(),
            editing: HashSet::default(),
            doubtful: HashSet::default(),
            exchanges: RequestsById::within(requests::SETTINGS),
            timers: BTreeSet::new(),
            out: Vec::new(),
            done: Vec::new(),
        }
    }

    /// Adds a setting.
    pub fn set(
        &mut self,
        device: &Arc<DeviceRecord>,
        node: usize,
        item: DeviceItem,
        change: PropertyChange,
        ticket: SettingTicket,
    ) {
        match change {
            PropertyChange::Bytes(bytes) => {
                self.writes.push((node, Write { item, bytes, tickets: vec![ticket], block: None }));
            }
            PropertyChange::Part(part) => {
                let waiting = self.places.get(&(node, item)).and_then(|place| self.edits.get_mut(*place));
                match waiting {
                    Some((_, edit)) => edit.parts.push((part, ticket)),
                    None => {
                        self.places.insert((node, item), self.edits.len());
                        let edit = BlockEdit { item, device: Arc::clone(device), parts: vec![(part, ticket)] };
                        self.edits.push((node, edit));
                    }
                }
            }
        }
    }

    /// Handles a packet from the node with a given number.
    pub fn take(&mut self, node: usize, header: &AcnetHeader, body: &[u8], now: Moment) {
        if !matches!(header.kind, PacketKind::Reply | PacketKind::ReplyWithMore) || header.client != self.address {
            return;
        }
        let Some(exchange) = self.exchanges.get_mut(header.message).filter(|exchange| exchange.node == node) else {
            let cancel = AcnetHeader { kind: PacketKind::Cancel, status: Status::SUCCESS, ..*header };
            self.out.push((node, cancel.datagram(&[])));
            return;
        };
        if header.status == Status::PEND {
            exchange.deadline = (now.millis + PATIENCE).min(exchange.sent + MOST_PATIENCE);
            return;
        }
        let Some(exchange) = self.close(header.message) else { return };
        match header.status {
            Status::NO_TASK => self.fail(exchange, Status::NODE_DOWN),
            status if status.is_fatal() => self.refused(exchange, status),
            _ => self.answered(exchange, body),
        }
    }

    /// Gives up requests that were not answered.
    pub fn tick(&mut self, now: Moment) {
        while let Some((due, id)) = self.timers.first().copied().filter(|(due, _)| *due <= now.millis) {
            self.timers.remove(&(due, id));
            match self.exchanges.get_mut(id) {
                Some(exchange) if exchange.deadline > now.millis => {
                    exchange.timer = exchange.deadline;
                    self.timers.insert((exchange.timer, id));
                }
                _ => {
                    let Some(exchange) = self.close(id) else { continue };
                    self.send(exchange.node, exchange.is_reading(), PacketKind::Cancel, id, &[]);
                    self.doubt(&exchange);
                    self.fail(exchange, Status::UTIME);
                }
            }
        }
    }

    /// Returns the time at which [`tick`](Self::tick) must be called next, in milliseconds.
    pub fn deadline(&self) -> Option<u64> {
        self.timers.first().map(|timer| timer.0)
    }

    /// Makes requests of the waiting orders. Must be called after a turn's input.
    pub fn prepare(&mut self, now: Moment) {
        if !self.writes.is_empty() || !self.edits.is_empty() {
            self.exchange(now);
        }
    }

    /// Takes the datagrams to send, each with the number of its node.
    pub fn flush(&mut self) -> std::vec::Drain<'_, (usize, Vec<u8>)> {
        self.out.drain(..)
    }

    /// Takes the settings that have ended since the last call.
    pub fn take_done(&mut self) -> Vec<SettingOutcome> {
        std::mem::take(&mut self.done)
    }

    /// Replaces the database; see
    /// [`DevicePool::replace_nodes`](crate::pool::DevicePool::replace_nodes).
    pub fn replace_nodes(&mut self, nodes: &[DeviceNode]) {
        self.nodes = nodes.iter().map(DeviceNode::acnet).collect();
    }
}
