//! A service, simulated front-ends and clients, with a clock that the test advances.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

use rookery_dpm::acnet::{AcnetHeader, gets32, packet, retdat};
use rookery_dpm::database::Database;
use rookery_dpm::history::{HistoryArchive, HistoryBounds, HistoryWork};
use rookery_dpm::link::{Goes, LinkNetwork};
use rookery_dpm::sdd::SddMessage;
use rookery_dpm::sdd::reply::Reply;
use rookery_dpm::sdd::request::{self, Request};
use rookery_dpm::service::{ClientKey, CloseClient, Dpm, ServiceOptions, Statistics};
use rookery_dpm::simulator::Simulator;
use rookery_dpm::status::Status;
use rookery_dpm::time::Moment;

pub struct ServiceWorld {
    pub dpm: Dpm,
    pub simulator: Simulator,
    now: u64,
    /// True while datagrams to front-ends are lost.
    pub cut: bool,
    /// Devices for which every request that contains them stays unanswered.
    pub silent: BTreeSet<u32>,
    /// Devices that make a front-end send an answer without readings, whatever else was requested.
    pub broken: BTreeMap<u32, BrokenDevice>,
    /// The devices of requests, by their ids.
    asked: HashMap<u16, Vec<u32>>,
    /// The bytes that were written to clients that read.
    written: HashMap<ClientKey, Vec<u8>>,
    /// Clients that do not read.
    pub stuck: Vec<ClientKey>,
    pub datagrams: Vec<Vec<u8>>,
    /// Orders for networks of Channel Access.
    pub goes: Vec<Goes>,
    /// Orders for networks of pvAccess.
    pub to_pv_access: Vec<Goes>,
    /// Orders for brokers of MQTT.
    pub to_brokers: Vec<Goes>,
    archive: Option<HistoryArchive>,
    /// Work that the archive has not done yet.
    work: Vec<HistoryWork>,
    /// True while the archive does nothing.
    pub slow_archive: bool,
    /// The number of questions that the archive answered.
    pub questions: usize,
}

impl ServiceWorld {
    pub fn new(database: &str) -> Self {
        Self::with(database, ServiceOptions::default())
    }

    pub fn with(database: &str, options: ServiceOptions) -> Self {
        let read = || Database::read(database).expect("a good database");
        Self {
            dpm: Dpm::new(options, Arc::new(read())),
            simulator: Simulator::new(read()),
            now: 0,
            cut: false,
            silent: BTreeSet::new(),
            broken: BTreeMap::new(),
            asked: HashMap::new(),
            written: HashMap::new(),
            stuck: Vec::new(),
            datagrams: Vec::new(),
            goes: Vec::new(),
            to_pv_access: Vec::new(),
            to_brokers: Vec::new(),
            archive: None,
            work: Vec::new(),
            slow_archive: false,
            questions: 0,
        }
    }

    /// Returns the same world with an archive.
    pub fn with_archive(mut self) -> Self {
        self.archive = Some(HistoryArchive::in_memory(HistoryBounds::default()).expect("memory"));
        self.dpm.record(self.moment());
        self.settle();
        self
    }

    pub fn moment(&self) -> Moment {
        Moment { millis: self.now, unix_millis: START + self.now as i64 }
    }

    /// Returns a client over TCP whose list is open.
    pub fn client(&mut self) -> TcpClient {
        let key = self.dpm.connect();
        self.greet(key)
    }

    /// Returns such a client from a host of a network.
    pub fn client_from(&mut self, host: u8) -> TcpClient {
        let now = self.moment();
        let key = self.dpm.connect_from(([10, 0, 0, host], 4000).into(), now).expect("a place");
        self.greet(key)
    }

    /// Opens the list of a client.
    pub fn greet(&mut self, key: ClientKey) -> TcpClient {
        self.send(key, b"GET /dpm HTTP/1.1\r\nContent-Type: application/pc\r\n\r\n").expect("a greeting");
        let mut client = TcpClient { key, list_id: 0 };
        match self.replies(&client).as_slice() {
            [Reply::OpenList(open)] => client.list_id = open.list_id,
            other => panic!("no list: {other:?}"),
        }
        client
    }

    pub fn send(&mut self, key: ClientKey, bytes: &[u8]) -> Result<(), CloseClient> {
        let now = self.moment();
        let sent = self.dpm.receive(key, bytes, now);
        self.settle();
        sent
    }

    pub fn ask(&mut self, client: &TcpClient, request: impl Into<Request>) {
        self.send(client.key, &frame(&request.into())).expect("the connection stays");
    }

    pub fn add(&mut self, client: &TcpClient, ref_id: i64, drf: &str) {
        self.ask(client, request::AddToList { list_id: client.list_id, ref_id, drf_request: drf.into() });
    }

    pub fn start(&mut self, client: &TcpClient) {
        self.ask(client, request::StartList { list_id: client.list_id, model: None });
    }

    pub fn stop(&mut self, client: &TcpClient) {
        self.ask(client, request::StopList { list_id: client.list_id });
    }

    /// Advances the clock.
    pub fn pass(&mut self, millis: u64) {
        let end = self.now + millis;
        loop {
            let due = [self.dpm.deadline(), self.simulator.deadline()].into_iter().flatten().min();
            match due.filter(|due| *due <= end) {
                Some(due) => self.now = self.now.max(due),
                None => break,
            }
            self.tick();
        }
        self.now = end;
        self.tick();
    }

    fn tick(&mut self) {
        let now = self.moment();
        self.simulator.tick(now);
        self.dpm.tick(now);
        self.settle();
    }

    /// Carries datagrams both ways until there are none, then writes to clients.
    fn settle(&mut self) {
        let now = self.moment();
        loop {
            let to_front_ends: Vec<(SocketAddr, Vec<u8>)> = self.dpm.datagrams(now).collect();
            let here = dpm_address();
            for (_, mut datagram) in to_front_ends {
                self.datagrams.push(datagram.clone());
                let (header, devices) = read_request(&datagram);
                if !devices.is_empty() {
                    self.asked.insert(header.message, devices);
                }
                if !self.cut {
                    self.simulator.datagram(here, &mut datagram, now);
                }
            }
            let answers: Vec<Vec<u8>> = self.simulator.flush().map(|(_, datagram)| datagram).collect();
            let answers: Vec<Vec<u8>> = answers.into_iter().filter_map(|answer| self.spoil(answer)).collect();
            if answers.is_empty() {
                break;
            }
            for mut datagram in answers {
                if !self.cut {
                    self.dpm.datagram(front_end_address(), &mut datagram, now);
                }
            }
        }
        self.goes.extend(self.dpm.take_link_orders(LinkNetwork::ChannelAccess, now));
        self.to_pv_access.extend(self.dpm.take_link_orders(LinkNetwork::PvAccess, now));
        self.to_brokers.extend(self.dpm.take_link_orders(LinkNetwork::Mqtt, now));
        while self.consult() {}
        for key in self.dpm.take_dirty() {
            if !self.stuck.contains(&key) {
                self.read(key);
            }
        }
        if self.consult() {
            self.settle();
        }
    }

    /// Returns the answer of a front-end as its silent and broken devices change it; `None` if
    /// there is none.
    fn spoil(&self, answer: Vec<u8>) -> Option<Vec<u8>> {
        let mut bytes = answer.clone();
        packet::swap(&mut bytes);
        let packet = packet::packets(&bytes).next()?;
        let devices = self.asked.get(&packet.header.message).map(Vec::as_slice).unwrap_or_default();
        if devices.iter().any(|device| self.silent.contains(device)) {
            return None;
        }
        match devices.iter().find_map(|device| self.broken.get(device)) {
            None => Some(answer),
            Some(BrokenDevice::Refused(status)) => Some(AcnetHeader { status: *status, ..packet.header }.datagram(&[])),
            Some(BrokenDevice::Short) => {
                Some(packet.header.datagram(&packet.body[..packet.body.len().saturating_sub(2)]))
            }
        }
    }

    /// Makes the archive work. Returns whether it answered.
    fn consult(&mut self) -> bool {
        let now = self.moment();
        self.work.extend(self.dpm.take_work());
        let Some(archive) = self.archive.as_mut().filter(|_| !self.slow_archive) else { return false };
        let (answers, done) = archive.work(std::mem::take(&mut self.work));
        done.expect("it is written");
        self.questions += answers.len();
        let is_answered = !answers.is_empty();
        for (ticket, answer) in answers {
            self.dpm.take_answer(ticket, answer, now);
        }
        is_answered
    }

    /// Reads a client's waiting output.
    pub fn read(&mut self, key: ClientKey) {
        let written = self.written.entry(key).or_default();
        while self.dpm.render(key, written, usize::MAX) {}
    }

    /// Returns the replies to a client since the last call.
    pub fn replies(&mut self, client: &TcpClient) -> Vec<Reply> {
        let bytes = self.bytes(client.key);
        frames(&bytes).into_iter().map(|frame| Reply::decode(frame).expect("a reply")).collect()
    }

    pub fn bytes(&mut self, key: ClientKey) -> Vec<u8> {
        self.written.remove(&key).unwrap_or_default()
    }

    pub fn statistics(&self) -> Statistics {
        self.dpm.statistics()
    }
}

/// The answer that a broken device gives.
#[derive(Debug, Clone, Copy)]
pub enum BrokenDevice {
    /// A status and no readings.
    Refused(Status),
    /// Fewer bytes than were requested.
    Short,
}

/// Returns the header of a datagram, and the devices that it requests.
pub fn read_request(datagram: &[u8]) -> (AcnetHeader, Vec<u32>) {
    let mut bytes = datagram.to_vec();
    packet::swap(&mut bytes);
    let packet = packet::packets(&bytes).next().expect("a packet");
    let items = match packet.header.task {
        retdat::TASK => retdat::RetdatRequest::decode(packet.body).map(|request| request.items),
        gets32::TASK => gets32::Gets32Request::decode(packet.body).map(|request| request.items),
        _ => None,
    };
    (packet.header, items.unwrap_or_default().iter().map(|item| item.device).collect())
}

/// A client over TCP.
#[derive(Debug, Clone, Copy)]
pub struct TcpClient {
    pub key: ClientKey,
    pub list_id: i32,
}

/// Returns the frames of a stream of bytes.
pub fn frames(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    while let Some((prefix, rest)) = bytes.split_first_chunk::<4>() {
        let (frame, rest) = rest.split_at(u32::from_be_bytes(*prefix) as usize);
        frames.push(frame);
        bytes = rest;
    }
    assert!(bytes.is_empty(), "half a frame");
    frames
}

pub fn frame(request: &Request) -> Vec<u8> {
    let mut message = Vec::new();
    request.encode(&mut message);
    [&(message.len() as u32).to_be_bytes()[..], &message].concat()
}

/// Returns the numbers of a request's readings.
pub fn numbers(replies: &[Reply], ref_id: i64) -> Vec<f64> {
    let number = |reply: &Reply| match reply {
        Reply::Scalar(scalar) if scalar.ref_id == ref_id => Some(scalar.data),
        _ => None,
    };
    replies.iter().filter_map(number).collect()
}

/// Returns the statuses of a request.
pub fn statuses(replies: &[Reply], ref_id: i64) -> Vec<Status> {
    let status = |reply: &Reply| match reply {
        Reply::Status(status) if status.ref_id == ref_id => Some(Status(status.status)),
        _ => None,
    };
    replies.iter().filter_map(status).collect()
}

/// Returns the device names in the replies, with the numbers of their requests.
pub fn infos(replies: &[Reply]) -> Vec<(i64, &str)> {
    replies
        .iter()
        .filter_map(|reply| match reply {
            Reply::DeviceInfo(info) => Some((info.ref_id, info.name.as_str())),
            _ => None,
        })
        .collect()
}

pub fn dpm_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 5000))
}

pub fn front_end_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 6801))
}

const START: i64 = 1_700_000_000_000;
