//! Front-ends that are not there: nodes that answer `RETDAT`, `GETS32`, `SETDAT`, `SETS32` and pings on the network as real ones do.
//!
//! All nodes of a database are played, each device by its script, and with the faults that the file gives a node: slow, lossy, dead for a while (it
//! forgets all requests then). The clock events are a generator's, not an accelerator's: 02 every five seconds, 0F fifteen times a second, 1D every two.
//!
//! Nothing here opens a socket or asks for the time.

mod play;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::SocketAddr;

use crate::acnet::{ACNET, Header, Item, Kind, Packet, gets32, packet, retdat, sets32};
use crate::database::{Database, Fault};
use crate::drf::{self, Event};
use crate::status::Status;
use crate::time::Moment;
use play::Player;

/// All simulated nodes.
#[derive(Debug)]
pub struct Simulator {
    database: Database,
    player: Player,
    streams: HashMap<StreamKey, Stream, ahash::RandomState>,
    timers: BinaryHeap<Reverse<(u64, StreamKey)>>,
    /// Datagrams that leave at a time, in milliseconds.
    delayed: BinaryHeap<Reverse<(u64, SocketAddr, Vec<u8>)>>,
    out: Vec<(SocketAddr, Vec<u8>)>,
    /// Requests that came, for tests and for whoever looks.
    requests: u64,
}

/// Who asked, and the request's id.
type StreamKey = (SocketAddr, u16, u16);

/// A request that is answered again and again.
#[derive(Debug)]
struct Stream {
    header: Header,
    asked: Asked,
    every: u64,
    due: u64,
    sequence: u32,
    /// The state that is waited for, and whether it was there at the last look.
    state: Option<(u32, u16, drf::Comparison, bool)>,
    /// Was the node restarted since?
    born: u64,
}

/// What was asked, by the protocol.
#[derive(Debug, Clone)]
struct Asked {
    items: Vec<Item>,
    with_times: bool,
}

impl Simulator {
    /// Plays the nodes of a database.
    pub fn new(database: Database) -> Self {
        let player = Player::new(&database);
        Self {
            database,
            player,
            streams: HashMap::default(),
            timers: BinaryHeap::new(),
            delayed: BinaryHeap::new(),
            out: Vec::new(),
            requests: 0,
        }
    }

    /// Requests that came so far.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// How many requests are being answered again and again.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Takes a datagram as it came from the network; it is swapped in place.
    pub fn datagram(&mut self, from: SocketAddr, datagram: &mut [u8], now: Moment) {
        packet::swap(datagram);
        for packet in packet::packets(datagram) {
            self.packet(from, packet, now);
        }
    }

    /// Answers what is due.
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
            stream.due = due + stream.every.max(1) * (1 + (now.millis - due) / stream.every.max(1));
            self.timers.push(Reverse((stream.due, key)));
            self.streams.insert(key, stream);
        }
        while self.delayed.peek().is_some_and(|delayed| delayed.0.0 <= now.millis) {
            if let Some(Reverse((_, to, datagram))) = self.delayed.pop() {
                self.out.push((to, datagram));
            }
        }
    }

    /// When [`tick`](Self::tick) has something to do next.
    pub fn deadline(&self) -> Option<u64> {
        let timer = self.timers.peek().map(|timer| timer.0.0);
        let delayed = self.delayed.peek().map(|delayed| delayed.0.0);
        timer.into_iter().chain(delayed).min()
    }

    /// Datagrams to send.
    pub fn flush(&mut self) -> std::vec::Drain<'_, (SocketAddr, Vec<u8>)> {
        self.out.drain(..)
    }

    fn packet(&mut self, from: SocketAddr, packet: Packet<'_>, now: Moment) {
        let header = packet.header;
        let Some(node) = self.database.nodes().iter().find(|node| node.address == header.server) else { return };
        let name = node.name.to_string();
        let fault = self.database.faults().iter().find(|fault| fault.node == name);
        if fault.is_some_and(|fault| fault.is_down(now.millis)) {
            return;
        }
        let born = fault.map_or(0, |fault| fault.restarts(now.millis));
        let key = (from, header.client, header.message);
        match header.kind {
            Kind::Cancel => {
                self.streams.remove(&key);
            }
            Kind::Request | Kind::MultipleRequest => {
                self.requests += 1;
                self.request(key, packet, born, now);
            }
            Kind::Message | Kind::Reply | Kind::ReplyWithMore => {}
        }
    }

    fn request(&mut self, key: StreamKey, packet: Packet<'_>, born: u64, now: Moment) {
        let header = packet.header;
        let (asked, every, state) = match header.task {
            ACNET => return self.send(key.0, &header, header.answer(Status::SUCCESS, false), &[0, 0], now),
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
            retdat::TASK => match retdat::Request::decode(packet.body) {
                Some(request) => {
                    let every = match request.ftd {
                        0 => 0,
                        ftd if ftd & 0x8000 != 0 => clock(ftd & 0x7fff),
                        ftd => u64::from(ftd) * 1000 / 60,
                    };
                    (Asked { items: request.items, with_times: false }, every, None)
                }
                None => return self.send(key.0, &header, header.answer(Status::IVM, false), &[], now),
            },
            gets32::TASK => match gets32::Request::decode(packet.body) {
                Some(request) => {
                    let (every, state) = period(&request.event);
                    (Asked { items: request.items, with_times: true }, every, state)
                }
                None => return self.send(key.0, &header, header.answer(Status::IVM, false), &[], now),
            },
            _ => return self.send(key.0, &header, header.answer(Status::NO_TASK, false), &[], now),
        };
        let mut stream = Stream { header, asked, every, due: 0, sequence: 0, state, born };
        let repeated = header.kind == Kind::MultipleRequest;
        // Clock and state events wait for the event; all others are answered at once, too.
        let now_too = every == 0 || !is_event(&stream);
        if now_too {
            self.answer(key.0, &mut stream, repeated, now);
        }
        if repeated && every > 0 && self.streams.len() < MOST_STREAMS {
            stream.due = if now_too { now.millis + every } else { (now.millis / every + 1) * every };
            self.timers.push(Reverse((stream.due, key)));
            self.streams.insert(key, stream);
        }
    }

    fn answer(&mut self, to: SocketAddr, stream: &mut Stream, more: bool, now: Moment) {
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
                // A device that is silent makes its whole request silent.
                None => return,
            }
        }
        self.send(to, &stream.header, stream.header.answer(Status::SUCCESS, more), &body, now);
    }

    fn send(&mut self, to: SocketAddr, request: &Header, header: Header, body: &[u8], now: Moment) {
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

    /// Does a stream's event happen now?
    fn fires(&self, stream: &mut Stream, now: Moment) -> bool {
        let Some((device, value, comparison, was_there)) = stream.state else { return true };
        let is_there =
            self.player.state(device, now.millis).is_some_and(|state| comparison.holds(state, i32::from(value)));
        stream.state = Some((device, value, comparison, is_there));
        is_there && !was_there
    }

    fn fault(&self, address: u16) -> Option<Fault> {
        let name = self.database.nodes().iter().find(|node| node.address == address)?.name.to_string();
        self.database.faults().iter().find(|fault| fault.node == name).cloned()
    }
}

/// How often an event text asks, in milliseconds, and the state it waits for.
fn period(event: &str) -> (u64, Option<(u32, u16, drf::Comparison, bool)>) {
    if let Some(rest) = event.strip_prefix(['s', 'S']) {
        let mut words = rest.split(',').skip(1);
        let numbers = (words.next().and_then(|di| di.parse().ok()), words.next().and_then(|value| value.parse().ok()));
        let comparison = words.nth(1).and_then(drf::Comparison::of_sign);
        return match (numbers, comparison) {
            ((Some(device), Some(value)), Some(comparison)) => (STATE_LOOK, Some((device, value, comparison, true))),
            _ => (0, None),
        };
    }
    match drf::Request::parse(&format!("M:O@{event}")).map(|request| request.event) {
        Ok(Event::Periodic { period, .. } | Event::OnChange { period, .. }) => (period.millis().max(1), None),
        Ok(Event::Clock { number, .. }) => (clock(number), None),
        _ => (0, None),
    }
}

fn is_event(stream: &Stream) -> bool {
    stream.state.is_some() || EVENTS.iter().any(|(_, every)| *every == stream.every)
}

/// How often the generator's clock event comes, in milliseconds; a day for those that it does not make.
fn clock(number: u16) -> u64 {
    EVENTS.iter().find(|event| event.0 == number).map_or(86_400_001, |event| event.1)
}

/// The generator's clock events and their periods. The periods are ones that no frequency word makes.
const EVENTS: &[(u16, u64)] = &[(0x02, 5001), (0x0f, 67), (0x1d, 2001)];
/// Requests that are answered again and again at a time; more are answered once.
const MOST_STREAMS: usize = 100_000;
/// How often a state is looked at, in milliseconds.
const STATE_LOOK: u64 = 99;
