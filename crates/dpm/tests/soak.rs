//! Front-ends die and come back at random for two minutes of virtual time, and readers come and go,
//! while the network in between loses, delays, repeats and reorders datagrams. No list stays stuck,
//! no reading is delivered for another device, and each one reaches everyone who asked, once.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use rookery_dpm::database::Database;
use rookery_dpm::inside::Inside;
use rookery_dpm::sdd::reply::Reply;
use rookery_dpm::service::{Dpm, ServiceOptions};
use rookery_dpm::simulator::Simulator;
use rookery_dpm::status::Status;
use rookery_dpm::time::Moment;

#[test]
fn each_reading_reaches_everyone_who_asked_once() {
    for seed in 1..=SEEDS {
        let mut soak = Soak::new(seed);
        soak.run(SOAK_MILLIS, true);
        let asked = soak.readers.iter().map(|reader| reader.asked.len()).sum::<usize>();
        let (failed, read) = soak.counts();
        assert!(failed > 100 && read > 1000, "seed {seed}: the soak soaks nothing: {failed} failures, {read} readings");
        // Regardless of the faults: once all front-ends are back, all devices are read again.
        soak.run(RECOVERY_MILLIS, false);
        soak.forget();
        soak.run(3 * PERIOD, false);
        for reader in &soak.readers {
            for (number, asked) in &reader.asked {
                assert!(asked.read >= 2, "seed {seed}: request {number} for {} is stuck", asked.device);
                assert!(asked.read <= 4, "seed {seed}: {} readings of {} in 3 periods", asked.read, asked.device);
            }
        }
        let statistics = soak.dpm.statistics();
        assert_eq!(statistics.entries, DEVICES * NODES, "seed {seed}: one entry for each device");
        // Up to four groups of devices that were always there, and as many of those that were lost
        // for a while and are asked separately.
        assert!(statistics.groups <= 8 * NODES, "seed {seed}: {} requests for {NODES} front-ends", statistics.groups);
        assert_eq!(asked, READERS * DEVICES * NODES);
        // After the last reader leaves, nothing remains.
        soak.leave();
        let statistics = soak.dpm.statistics();
        assert_eq!((statistics.entries, statistics.groups), (0, 0), "seed {seed}");
    }
}

/// A datagram under way: its time of arrival, its number, its direction, its bytes.
type Flight = (u64, u64, SoakDirection, Vec<u8>);

struct Soak {
    dpm: Dpm,
    /// By node; `None` while the front-end is dead.
    front_ends: Vec<Option<Simulator>>,
    readers: Vec<SoakReader>,
    /// Datagrams under way, by their time of arrival.
    network: BinaryHeap<Reverse<Flight>>,
    sent: u64,
    now: u64,
    random: u64,
}

struct SoakReader {
    inside: Inside,
    asked: BTreeMap<i64, SoakRequest>,
    /// The numbers of its requests, by device.
    numbers: Vec<i64>,
}

#[derive(Default)]
struct SoakRequest {
    device: usize,
    read: usize,
    failed: usize,
    /// The readings of this turn.
    now: usize,
    /// True if it had one before: it is told all further ones with everyone else.
    is_told: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SoakDirection {
    ToFrontEnd(usize),
    FromFrontEnd(usize),
}

impl Soak {
    fn new(seed: u64) -> Self {
        let mut soak = Self {
            dpm: Dpm::new(ServiceOptions::default(), Arc::new(database())),
            front_ends: (0..NODES).map(|_| Some(Simulator::new(database()))).collect(),
            readers: Vec::new(),
            network: BinaryHeap::new(),
            sent: 0,
            now: 0,
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        };
        (0..READERS).for_each(|_| soak.come());
        soak
    }

    /// Lets another reader come, who asks for all devices.
    fn come(&mut self) {
        let (mut inside, now) = (Inside::default(), self.moment());
        let numbers: Vec<i64> = (0..NODES * DEVICES)
            .map(|device| {
                let number = inside.add(&mut self.dpm, &format!("Z:D{device:05}@P,{PERIOD}"), now);
                number.expect("a list")
            })
            .collect();
        let asked = numbers.iter().enumerate();
        let asked = asked.map(|(device, number)| (*number, SoakRequest { device, ..SoakRequest::default() })).collect();
        inside.start(&mut self.dpm, now);
        self.readers.push(SoakReader { inside, asked, numbers });
    }

    /// Lets the reader go who has been there longest, and another one come.
    fn change_readers(&mut self) {
        let (mut reader, now) = (self.readers.remove(0), self.moment());
        reader.numbers.iter().for_each(|number| reader.inside.remove(&mut self.dpm, *number, now));
        self.come();
    }

    /// Advances the clock. With `rough`, front-ends die and come back, and the network is bad.
    fn run(&mut self, millis: u64, rough: bool) {
        let end = self.now + millis;
        let mut next = self.now;
        while self.now < end {
            if self.now >= next {
                next = self.now + 500;
                self.fate(rough);
            }
            self.turn(rough);
            let front_ends = self.front_ends.iter().flatten().filter_map(Simulator::deadline);
            let network = self.network.peek().map(|datagram| datagram.0.0);
            let due = front_ends.chain(network).chain(self.dpm.deadline()).chain([next, end]).min().unwrap_or(end);
            self.now = due.max(self.now + 1);
        }
    }

    /// Makes a front-end die or come back, and a reader go; without `rough`, all come back.
    fn fate(&mut self, rough: bool) {
        if rough && self.chance(10) {
            self.change_readers();
        }
        for node in 0..NODES {
            let is_there = self.front_ends[node].is_some();
            match (is_there, rough) {
                (true, true) if self.chance(12) => self.front_ends[node] = None,
                (false, true) if self.chance(25) => self.front_ends[node] = Some(Simulator::new(database())),
                (false, false) => self.front_ends[node] = Some(Simulator::new(database())),
                _ => {}
            }
        }
    }

    fn turn(&mut self, rough: bool) {
        let now = self.moment();
        while self.network.peek().is_some_and(|datagram| datagram.0.0 <= self.now) {
            let Some(Reverse((_, _, direction, mut datagram))) = self.network.pop() else { break };
            match direction {
                SoakDirection::ToFrontEnd(node) => {
                    if let Some(front_end) = &mut self.front_ends[node] {
                        front_end.datagram(here(), &mut datagram, now);
                    }
                }
                SoakDirection::FromFrontEnd(node) => self.dpm.datagram(address(node), &mut datagram, now),
            }
        }
        for node in 0..NODES {
            let Some(front_end) = &mut self.front_ends[node] else { continue };
            front_end.tick(now);
            let answers: Vec<_> = front_end.flush().map(|(_, datagram)| datagram).collect();
            for datagram in answers {
                self.post(SoakDirection::FromFrontEnd(node), datagram, rough);
            }
        }
        self.dpm.tick(now);
        let asked: Vec<_> = self.dpm.datagrams(now).collect();
        for (to, datagram) in asked {
            self.post(SoakDirection::ToFrontEnd(usize::from(to.port() - FIRST_PORT)), datagram, rough);
        }
        let _ = self.dpm.take_dirty();
        let mut read = BTreeSet::new();
        for reader in &mut self.readers {
            let asked = &mut reader.asked;
            reader.inside.replies(&mut self.dpm, |reply| match reply {
                Reply::Scalar(scalar) => {
                    let asked = asked.get_mut(&scalar.ref_id).expect("it was asked for");
                    assert_eq!(scalar.data, asked.device as f64, "a reading of another device");
                    asked.read += 1;
                    asked.now += 1;
                    read.insert(asked.device);
                }
                Reply::Status(status) => {
                    let asked = asked.get_mut(&status.ref_id).expect("it was asked for");
                    assert!(Status(status.status).is_fatal());
                    asked.failed += 1;
                }
                Reply::DeviceInfo(_) | Reply::StartList(_) | Reply::ListStatus(_) => {}
                other => panic!("nobody asked for {other:?}"),
            });
        }
        read.into_iter().for_each(|device| self.compare(device));
    }

    /// Checks that all who had asked for a device have got the same number of readings in this
    /// turn.
    fn compare(&mut self, device: usize) {
        let mut counts = BTreeSet::new();
        for reader in &mut self.readers {
            let asked = reader.asked.get_mut(&reader.numbers[device]).expect("it was asked for");
            let now = std::mem::take(&mut asked.now);
            // A newcomer may be told the last one at first.
            if asked.is_told {
                counts.insert(now);
            }
            asked.is_told |= now > 0;
        }
        assert!(counts.len() <= 1, "at {}, readings of device {device} reach some only: {counts:?}", self.now);
    }

    /// Sends a datagram: sometimes it is lost, doubled or delayed, and sometimes it comes from
    /// another front-end than it says.
    fn post(&mut self, direction: SoakDirection, datagram: Vec<u8>, rough: bool) {
        if rough && self.chance(5) {
            return;
        }
        let copies = if rough && self.chance(5) { 2 } else { 1 };
        for _ in 0..copies {
            let late = if rough && self.chance(10) { self.number(1500) } else { self.number(3) };
            let astray = rough && self.chance(2);
            let direction = match direction {
                SoakDirection::FromFrontEnd(_) if astray => {
                    SoakDirection::FromFrontEnd(self.number(NODES as u64) as usize)
                }
                direction => direction,
            };
            self.sent += 1;
            self.network.push(Reverse((self.now + late, self.sent, direction, datagram.clone())));
        }
    }

    /// Returns the numbers of reported failures and readings.
    fn counts(&self) -> (usize, usize) {
        let all = self.readers.iter().flat_map(|reader| reader.asked.values());
        all.fold((0, 0), |(failed, read), asked| (failed + asked.failed, read + asked.read))
    }

    fn forget(&mut self) {
        for asked in self.readers.iter_mut().flat_map(|reader| reader.asked.values_mut()) {
            (asked.read, asked.failed) = (0, 0);
        }
    }

    fn leave(&mut self) {
        let now = self.moment();
        for mut reader in std::mem::take(&mut self.readers) {
            reader.numbers.iter().for_each(|number| reader.inside.remove(&mut self.dpm, *number, now));
        }
    }

    fn moment(&self) -> Moment {
        Moment { millis: self.now, unix_millis: 1_700_000_000_000 + self.now as i64 }
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.number(100) < percent
    }

    fn number(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }
}

/// Returns a database in which each device reads as its own number.
fn database() -> Database {
    let mut text = String::new();
    for node in 0..NODES {
        let protocol = if node % 2 == 0 { "RETDAT" } else { "GETS32" };
        let _ = writeln!(
            text,
            "[[node]]\nname = 'FE{node}'\naddress = '{:04x}'\nsocket = '{}'\nprotocol = '{protocol}'",
            0x0c00 + node,
            address(node)
        );
    }
    for device in 0..NODES * DEVICES {
        let _ = writeln!(
            text,
            "[[device]]\nindex = {}\nname = 'Z:D{device:05}'\ndescription = ''\n[device.reading]\nnode = 'FE{}'\nssdn = '{device:016x}'\n\
             primary = 10\nelement = 4\n[[script]]\ndevice = 'Z:D{device:05}'\nshape = 'constant'\nlow = {device}",
            1000 + device,
            device % NODES
        );
    }
    Database::read(&text).expect("a good database")
}

fn address(node: usize) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], FIRST_PORT + node as u16))
}

fn here() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 5000))
}

const SEEDS: u64 = 4;
const NODES: usize = 10;
/// The number of devices on each node.
const DEVICES: usize = 20;
const READERS: usize = 3;
/// The period of readings, in milliseconds.
const PERIOD: u64 = 500;
const SOAK_MILLIS: u64 = 120_000;
/// A front-end is asked again at the latest eight seconds after it came back, and noticing that it
/// was gone may take as long.
const RECOVERY_MILLIS: u64 = 30_000;
const FIRST_PORT: u16 = 7000;
