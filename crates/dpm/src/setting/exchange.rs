//! Requests to front-ends that set something, and their answers.

use std::collections::HashMap;

use super::edit;
use super::state::{Block, BlockEdit, PATIENCE, Setter, SettingExchange, SettingOutcome, SettingPhase, TASK_ID, Write};
use crate::acnet::{AcnetHeader, DeviceItem, LARGEST, PacketKind, gets32, packet, retdat, sets32, setsdb, split};
use crate::database::Protocol;
use crate::status::Status;
use crate::time::Moment;

impl SettingExchange {
    pub(super) fn is_reading(&self) -> bool {
        matches!(self.phase, SettingPhase::Reading(_))
    }

    /// Returns the blocks that it reads or sets, any of which may be the reason if no answer comes.
    fn blocks(&self) -> Vec<Block> {
        match &self.phase {
            SettingPhase::Reading(edits) => edits.iter().map(|edit| block(self.node, &edit.item)).collect(),
            SettingPhase::Writing(writes) => writes.iter().map(|write| block(self.node, &write.item)).collect(),
        }
    }
}

impl Setter {
    /// Makes requests of all waiting orders, except for changes of blocks that are being changed.
    pub(super) fn exchange(&mut self, now: Moment) {
        for (node, edits) in by_node(self.ready_edits()) {
            let is_alone = |edit: &BlockEdit| self.doubtful.contains(&block(node, &edit.item));
            for edits in split_into_datagrams(edits, is_alone, |edit| edit.item.reply_size().max(gets32::ITEM)) {
                self.open(node, SettingPhase::Reading(edits), now);
            }
        }
        for (node, writes) in by_node(std::mem::take(&mut self.writes)) {
            let is_alone = |write: &Write| self.doubtful.contains(&block(node, &write.item));
            for writes in
                split_into_datagrams(writes, is_alone, |write| gets32::ITEM + write.bytes.len().next_multiple_of(2))
            {
                self.open(node, SettingPhase::Writing(writes), now);
            }
        }
    }

    /// Deletes a request.
    pub(super) fn close(&mut self, id: u16) -> Option<SettingExchange> {
        let exchange = self.exchanges.close(id)?;
        self.timers.remove(&(exchange.timer, id));
        Some(exchange)
    }

    /// Handles a request without an answer, or with an invalid one: any of its devices may be the
    /// reason.
    pub(super) fn doubt(&mut self, exchange: &SettingExchange) {
        let blocks = exchange.blocks();
        if blocks.len() > 1 {
            self.doubtful.extend(blocks);
        }
    }

    fn ready_edits(&mut self) -> Vec<(usize, BlockEdit)> {
        let (mut ready, mut waiting) = (Vec::new(), Vec::new());
        for (node, edit) in std::mem::take(&mut self.edits) {
            let is_free = self.editing.insert(block(node, &edit.item));
            if is_free { &mut ready } else { &mut waiting }.push((node, edit));
        }
        self.places = waiting.iter().enumerate().map(|(place, (node, edit))| ((*node, edit.item), place)).collect();
        self.edits = waiting;
        ready
    }

    fn open(&mut self, node: usize, phase: SettingPhase, now: Moment) {
        let body = self.body(node, &phase);
        let is_reading = matches!(phase, SettingPhase::Reading(_));
        let deadline = now.millis + PATIENCE;
        let exchange = SettingExchange { node, phase, sent: now.millis, deadline, timer: deadline };
        match self.exchanges.open_or_return(exchange) {
            Ok(id) => {
                self.timers.insert((deadline, id));
                self.send(node, is_reading, PacketKind::Request, id, &body);
            }
            // All ids are in use.
            Err(exchange) => self.fail(exchange, Status::BUSY),
        }
    }

    fn body(&self, node: usize, phase: &SettingPhase) -> Vec<u8> {
        let Some(node) = self.nodes.get(node).copied().flatten() else { return Vec::new() };
        match (phase, node.protocol) {
            (SettingPhase::Reading(edits), protocol) => {
                let items = edits.iter().map(|edit| edit.item).collect();
                match protocol {
                    Protocol::Retdat => retdat::RetdatRequest { ftd: 0, items }.encode(),
                    Protocol::Gets32 => {
                        let event = "i".into();
                        gets32::Gets32Request { node: node.address, repetitive: false, ftd: 0, event, items }.encode()
                    }
                }
            }
            (SettingPhase::Writing(writes), protocol) => {
                let settings: Vec<(DeviceItem, &[u8])> =
                    writes.iter().map(|write| (write.item, &*write.bytes)).collect();
                match protocol {
                    Protocol::Retdat => retdat::encode_settings(&settings),
                    Protocol::Gets32 => sets32::encode(node.address, &settings),
                }
            }
        }
    }

    pub(super) fn send(&mut self, number: usize, is_reading: bool, kind: PacketKind, id: u16, body: &[u8]) {
        let Some(node) = self.nodes.get(number).copied().flatten() else { return };
        let task = match (node.protocol, is_reading) {
            (Protocol::Retdat, true) => retdat::TASK,
            (Protocol::Retdat, false) => retdat::SETTING_TASK,
            (Protocol::Gets32, true) => gets32::TASK,
            (Protocol::Gets32, false) => sets32::TASK,
        };
        let header = AcnetHeader {
            kind,
            status: Status::SUCCESS,
            server: node.address,
            client: self.address,
            task,
            task_id: TASK_ID,
            message: id,
        };
        self.out.push((number, header.datagram(body)));
    }

    /// Ends an exchange whose answer consists of a status only.
    pub(super) fn fail(&mut self, exchange: SettingExchange, status: Status) {
        match exchange.phase {
            SettingPhase::Reading(edits) => {
                for edit in edits {
                    self.editing.remove(&block(exchange.node, &edit.item));
                    let untold = |(_, ticket): &(_, _)| SettingOutcome { ticket: *ticket, status, written: None };
                    self.done.extend(edit.parts.iter().map(untold));
                }
            }
            SettingPhase::Writing(writes) => writes.into_iter().for_each(|write| self.end(write, status)),
        }
    }

    pub(super) fn answered(&mut self, exchange: SettingExchange, body: &[u8]) {
        let is_long =
            self.nodes.get(exchange.node).copied().flatten().is_some_and(|node| node.protocol == Protocol::Gets32);
        let (head, rest) = match is_long {
            false => (gets32::ReplyHead::default(), body),
            true => match gets32::ReplyHead::decode(body) {
                Some(read) => read,
                None => return self.refused(exchange, Status::TRUNC_REPLY),
            },
        };
        match &exchange.phase {
            _ if head.status.is_fatal() => self.refused(exchange, head.status),
            SettingPhase::Reading(edits) => match split(rest, edits.iter().map(|edit| edit.item.length)) {
                Some(read) => {
                    let read: Vec<(Status, Vec<u8>)> =
                        read.into_iter().map(|(status, bytes)| (status, bytes.to_vec())).collect();
                    self.believe(&exchange);
                    self.change(exchange, read);
                }
                None => self.refused(exchange, Status::TRUNC_REPLY),
            },
            SettingPhase::Writing(writes) => match split(rest, writes.iter().map(|_| 0)) {
                Some(read) => {
                    let statuses: Vec<Status> = read.into_iter().map(|(status, _)| status).collect();
                    self.believe(&exchange);
                    self.written(exchange, &statuses);
                }
                None => self.refused(exchange, Status::TRUNC_REPLY),
            },
        }
    }

    /// Handles a front-end's single status for all devices of a request.
    pub(super) fn refused(&mut self, exchange: SettingExchange, status: Status) {
        self.doubt(&exchange);
        self.fail(exchange, status);
    }

    /// Trusts the blocks of a request again, because they answered.
    fn believe(&mut self, exchange: &SettingExchange) {
        if !self.doubtful.is_empty() {
            for block in exchange.blocks() {
                self.doubtful.remove(&block);
            }
        }
    }

    /// Changes blocks that were read; they are set at the end of the turn.
    fn change(&mut self, exchange: SettingExchange, read: Vec<(Status, Vec<u8>)>) {
        let SettingPhase::Reading(edits) = exchange.phase else { return };
        for (edit, (status, bytes)) in edits.into_iter().zip(read) {
            let mut write =
                Write { item: edit.item, bytes, tickets: Vec::new(), block: Some(block(exchange.node, &edit.item)) };
            for (part, ticket) in edit.parts {
                let changed =
                    if status.is_fatal() { Err(status) } else { edit::apply(&edit.device, part, &mut write.bytes) };
                match changed {
                    Ok(()) => write.tickets.push(ticket),
                    Err(status) => self.done.push(SettingOutcome { ticket, status, written: None }),
                }
            }
            match write.tickets.is_empty() {
                false => self.writes.push((exchange.node, write)),
                true => self.end(write, Status::SUCCESS),
            }
        }
    }

    fn written(&mut self, exchange: SettingExchange, statuses: &[Status]) {
        let SettingPhase::Writing(writes) = exchange.phase else { return };
        for (write, status) in writes.into_iter().zip(statuses) {
            self.end(write, *status);
        }
    }

    fn end(&mut self, write: Write, status: Status) {
        if let Some(block) = write.block {
            self.editing.remove(&block);
        }
        let written = setsdb::SettingEntry::new(write.item, &write.bytes);
        let told = |ticket: &_| SettingOutcome { ticket: *ticket, status, written: Some(written.clone()) };
        self.done.extend(write.tickets.iter().map(told));
    }
}

fn block(node: usize, item: &DeviceItem) -> Block {
    (node, item.device, item.property)
}

/// Sorts orders by node, each node's in the order in which they came.
fn by_node<T>(all: Vec<(usize, T)>) -> Vec<(usize, Vec<T>)> {
    let mut nodes: Vec<(usize, Vec<T>)> = Vec::new();
    let mut places: HashMap<usize, usize, ahash::RandomState> = HashMap::default();
    for (node, one) in all {
        let place = *places.entry(node).or_insert(nodes.len());
        if place == nodes.len() {
            nodes.push((node, Vec::new()));
        }
        nodes[place].1.push(one);
    }
    nodes
}

/// Returns parts that fit a datagram each; an order that has to be sent alone is a part by itself.
fn split_into_datagrams<T>(all: Vec<T>, is_alone: impl Fn(&T) -> bool, size: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let mut parts: Vec<Vec<T>> = Vec::new();
    // True if the last part is full.
    let (mut bytes, mut is_closed) = (0, true);
    for one in all {
        let (more, alone) = (size(&one), is_alone(&one));
        match parts.last_mut() {
            Some(part) if !is_closed && !alone && bytes + more <= LARGEST => part.push(one),
            _ => {
                parts.push(vec![one]);
                bytes = packet::SIZE + gets32::HEAD;
            }
        }
        bytes += more;
        is_closed = alone;
    }
    parts
}
