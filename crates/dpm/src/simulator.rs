//! Simulated front-ends: nodes that answer `RETDAT`, `GETS32`, `SETDAT`, `SETS32`, `FTPMAN` and
//! pings on the network as real ones do.
//!
//! All nodes of a database are played, each device by its script, and with the faults that the file
//! gives a node: slow, lossy, dead for a while (it forgets all requests then). The clock events are
//! a generator's, not an accelerator's: 02 every five seconds, 0F fifteen times a second, 1D every
//! two, and those of the file.
//!
//! No function here opens a socket or reads a clock.

mod event;
mod play;
mod plot;
mod snapshot;
mod state;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

use crate::acnet::{
    ACNET, AcnetHeader, AcnetPacket, DeviceItem, LARGEST, PacketKind, ftpman, gets32, packet, retdat, sets32,
};
use crate::database::{Database, NodeFaults};
use crate::status::Status;
use crate::time::Moment;
use event::{SimulatedClock, SimulatedTimes};
use play::Player;
pub use state::Simulator;
use state::{SimulatedRequest, SimulatedStream, StreamKey};

impl Simulator {
    /// Plays the nodes of a database.
    pub fn new(database: Database) -> Self {
        let (player, clock) = (Player::new(&database), Arc::new(SimulatedClock::new(&database)));
        Self {
            database,
            player,
            clock,
            streams: HashMap::default(),
            timers: BinaryHeap::new(),
            plots: HashMap::default(),
            plot_timers: BinaryHeap::new(),
            snapshots: HashMap::default(),
            snapshot_timers: BinaryHeap::new(),
            delayed: BinaryHeap::new(),
            out: Vec::new(),
            requests: 0,
        }
    }

    /// Returns the number of requests so far.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Returns the number of requests that are being answered repeatedly.
    pub fn streams(&self) -> usize {
        self.streams.len() + self.plots.len() + self.snapshots.len()
    }

    /// Handles a datagram from the network; its bytes are swapped in place.
    pub fn datagram(&mut self, from: SocketAddr, datagram: &mut [u8], now: Moment) {
        packet::swap(datagram);
        for packet in packet::packets(datagram) {
            self.packet(from, packet, now);
        }
    }

    /// Sends the answers that are due.
    pub fn tick(&mut self, now: Moment) {
        while let Some(Reverse((due, key))) = self.timers.peek().copied() {
            if due > now.millis {
                break;
            }
            self.timers.pop();
            let Some(mut stream) = self.streams.remove(&key) else { continue };
            if stream.due != due {
                self.streams.insert(key, stream);
                continue;
            }
            let fault = self.fault(stream.header.server);
            if fault
                .as_ref()
                .is_some_and(|fault| fault.is_down(now.millis) || fault.restarts(now.millis) != stream.born)
            {
                continue;
            }
            if self.fires(&mut stream, now) {
                self.answer(key.0, &mut stream, true, now);
            }
            // Missed answers are skipped.
            let (mut next, mut last) = (Some(due), due);
            while let Some(at) = next.filter(|at| *at <= now.millis) {
                (last, next) = (at, stream.when.next(at));
            }
            stream.due = next.unwrap_or(last);
            self.timers.push(Reverse((stream.due, key)));
            self.streams.insert(key, stream);
        }
        self.tick_plots(now);
        self.tick_snapshots(now);
        while self.delayed.peek().is_some_and(|delayed| delayed.0.0 <= now.millis) {
            if let Some(Reverse((_, to, datagram))) = self.delayed.pop() {
                self.out.push((to, datagram));
            }
        }
    }

    /// Returns the time at which [`tick`](Self::tick) must be called next.
    pub fn deadline(&self) -> Option<u64> {
        let timer = self.timers.peek().map(|timer| timer.0.0);
        let delayed = self.delayed.peek().map(|delayed| delayed.0.0);
        let plot = self.plot_timers.peek().map(|timer| timer.0.0);
        let snapshot = self.snapshot_timers.peek().map(|timer| timer.0.0);
        timer.into_iter().chain(delayed).chain(plot).chain(snapshot).min()
    }

    /// Takes the datagrams to send.
    pub fn flush(&mut self) -> std::vec::Drain<'_, (SocketAddr, Vec<u8>)> {
        self.out.drain(..)
    }

    fn packet(&mut self, from: SocketAddr, packet: AcnetPacket<'_>, now: Moment) {
        let header = packet.header;
        let Some(node) = self.database.at_address(header.server).and_then(|node| self.database.nodes().get(node))
        else {
            return;
        };
        let name = node.name.to_string();
        let fault = self.database.faults().iter().find(|fault| fault.node == name);
        if fault.is_some_and(|fault| fault.is_down(now.millis)) {
            return;
        }
        let born = fault.map_or(0, |fault| fault.restarts(now.millis));
        let key = (from, header.client, header.message);
        match header.kind {
            PacketKind::Cancel => {
                self.streams.remove(&key);
                self.plots.remove(&key);
                self.snapshots.remove(&key);
            }
            PacketKind::Request | PacketKind::MultipleRequest => {
                self.requests += 1;
                self.request(key, packet, born, now);
            }
            PacketKind::Message | PacketKind::Reply | PacketKind::ReplyWithMore => {}
        }
    }

    fn request(&mut self, key: StreamKey, packet: AcnetPacket<'_>, born: u64, now: Moment) {
        let header = packet.header;
        let (asked, when) = match header.task {
            ACNET => return self.send(key.0, &header, header.answer(Status::SUCCESS, false), &[0, 0], now),
            ftpman::TASK => return self.plot(key, packet, born, now),
            retdat::SETTING_TASK => {
                let Some(settings) = retdat::decode_settings(packet.body) else {
                    return self.send(key.0, &header, header.answer(Status::IVM, false), &[], now);
                };
                let statuses = settings.iter().flat_map(|(item, data)| self.player.set(item, data).0.to_le_bytes());
                let body: Vec<u8> = statuses.collect();
                return self.send(key.0, &header, header.answer(Status::SUCCESS, false), &body, now);
            }
            sets32::TASK => {
                let Some((_, settings)) = sets32::decode(packet.body) else {
                    return self.send(key.0, &header, header.answer(Status::IVM, false), &[], now);
                };
                let time = now.unix_millis;
                let mut body = Vec::new();
                gets32::ReplyHead { cycle: time, collected: time, replied: time, ..Default::default() }
                    .encode(&mut body);
                for (item, data) in settings {
                    body.extend_from_slice(&self.player.set(&item, data).0.to_le_bytes());
                }
                return self.send(key.0, &header, header.answer(Status::SUCCESS, false), &body, now);
            }
            retdat::TASK => match retdat::RetdatRequest::decode(packet.body) {
                Some(request) => (
                    SimulatedRequest { items: request.items, with_times: false },
                    SimulatedTimes::of_ftd(request.ftd, &self.clock),
                ),
                None => return self.send(key.0, &header, header.answer(Status::IVM, false), &[], now),
            },
            gets32::TASK => match gets32::Gets32Request::decode(packet.body) {
                Some(request) => (
                    SimulatedRequest { items: request.items, with_times: true },
                    SimulatedTimes::of_text(&request.event, &self.clock),
                ),
                None => return self.send(key.0, &header, header.answer(Status::IVM, false), &[], now),
            },
            _ => return self.send(key.0, &header, header.answer(Status::NO_TASK, false), &[], now),
        };
        if asked.items.iter().map(DeviceItem::reply_size).sum::<usize>() > LARGEST {
            return self.send(key.0, &header, header.answer(Status::TRUNC_REPLY, false), &[], now);
        }
        let repeated = header.kind == PacketKind::MultipleRequest;
        // A device doesn't reach a state that it has already.
        let mut stream =
            SimulatedStream { header, asked, when, due: 0, sequence: 0, was_there: true, answer_at: None, born };
        if stream.when.is_now() {
            self.answer(key.0, &mut stream, repeated, now);
        }
        if !repeated || stream.when == SimulatedTimes::Once || self.streams.len() >= MOST_STREAMS {
            return;
        }
        // Requests on an event that never occurs have no timer, and are forgotten when they are
        // cancelled.
        if let Some(due) = stream.when.next(now.millis) {
            stream.due = due;
            self.timers.push(Reverse((due, key)));
        }
        self.streams.insert(key, stream);
    }

    fn answer(&mut self, to: SocketAddr, stream: &mut SimulatedStream, more: bool, now: Moment) {
        let mut body = Vec::new();
        if stream.asked.with_times {
            let time = now.unix_millis;
            let head = gets32::ReplyHead {
                status: Status::SUCCESS,
                sequence: stream.sequence,
                cycle: time,
                collected: time,
                replied: time,
            };
            head.encode(&mut body);
            stream.sequence = stream.sequence.wrapping_add(1);
        }
        for item in &stream.asked.items {
            match self.player.play(item, now.millis, &mut body) {
                Some(()) => {}
                // A silent device makes its whole request silent.
                None => return,
            }
        }
        self.send(to, &stream.header, stream.header.answer(Status::SUCCESS, more), &body, now);
    }

    fn send(&mut self, to: SocketAddr, request: &AcnetHeader, header: AcnetHeader, body: &[u8], now: Moment) {
        let datagram = header.datagram(body);
        let Some(fault) = self.fault(request.server) else {
            self.out.push((to, datagram));
            return;
        };
        if self.player.chance() < fault.loss {
            return;
        }
        match fault.delay_millis {
            0 => self.out.push((to, datagram)),
            delay => self.delayed.push(Reverse((now.millis + delay, to, datagram))),
        }
    }

    /// Returns whether a stream's event occurs now.
    fn fires(&self, stream: &mut SimulatedStream, now: Moment) -> bool {
        let SimulatedTimes::State { state, delay } = &stream.when else { return true };
        let reading = self.player.state(state.device, now.millis);
        let is_there = reading.is_some_and(|reading| state.comparison.holds(reading, i32::from(state.value)));
        if is_there && !std::mem::replace(&mut stream.was_there, is_there) {
            stream.answer_at = Some(now.millis + delay);
        }
        stream.was_there = is_there;
        stream.answer_at.take_if(|at| *at <= now.millis).is_some()
    }

    fn fault(&self, address: u16) -> Option<NodeFaults> {
        let name = self.database.nodes().get(self.database.at_address(address)?)?.name.to_string();
        self.database.faults().iter().find(|fault| fault.node == name).cloned()
    }
}

/// The most requests that are answered repeatedly at a time; further ones are answered once.
const MOST_STREAMS: usize = 100_000;
