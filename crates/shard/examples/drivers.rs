//! Compares the drivers for Linux without a server: a thread passes messages on with each of them,
//! and the example prints its CPU time for each delivery.
//!
//! `cargo run --release -p rookery-shard --example drivers -- ROUNDS`. The drivers take turns
//! within each round. A row has the median of each driver, and the median of the ratios with its
//! quarters.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use rookery_shard::system::SystemNews;
use rookery_shard::{Driver, SystemDriver, SystemInterface, SystemSocket};
use rustix::event::epoll;
use rustix::time::{ClockId, clock_gettime};

/// A load: the connections, and the recipients of the messages that each of them sends.
#[derive(Clone, Copy)]
struct RelayLoad {
    name: &'static str,
    connections: usize,
    /// Messages for the other connection of a pair, or for all others.
    is_for_all: bool,
    /// Deliveries of a round.
    deliveries: usize,
}

const LOADS: [RelayLoad; 4] = [
    RelayLoad { name: "1 pair, one in flight", connections: 2, is_for_all: false, deliveries: 10_000 },
    RelayLoad { name: "8 pairs, one in flight each", connections: 16, is_for_all: false, deliveries: 20_000 },
    RelayLoad { name: "100 pairs, one in flight each", connections: 200, is_for_all: false, deliveries: 20_000 },
    RelayLoad { name: "each message to 100", connections: 101, is_for_all: true, deliveries: 20_000 },
];

fn main() {
    let rounds = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(9_usize).max(1);
    println!("| load | epoll, µs | io_uring, µs | ratio |\n| --- | ---: | ---: | ---: |");
    for load in LOADS {
        let (mut epoll, mut ring, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..rounds {
            let measure = |interface| measure(interface, load);
            let (one, other) = match round % 2 {
                0 => (measure(SystemInterface::Epoll), measure(SystemInterface::IoUring)),
                _ => {
                    let ring = measure(SystemInterface::IoUring);
                    (measure(SystemInterface::Epoll), ring)
                }
            };
            epoll.push(one);
            ring.push(other);
            ratios.push(other / one);
        }
        let [(_, epoll, _), (_, ring, _), (low, ratio, high)] = [epoll, ring, ratios].map(quarters);
        println!("| {} | {epoll:.2} | {ring:.2} | {ratio:.2} ({low:.2}–{high:.2}) |", load.name);
    }
}

/// Returns the median with the quarters around it.
fn quarters(mut some: Vec<f64>) -> (f64, f64, f64) {
    some.sort_by(f64::total_cmp);
    let at = |part: usize| some[(some.len() - 1) * part / 4];
    (at(1), at(2), at(3))
}

/// Returns the microseconds of CPU that the passing thread takes for a delivery.
fn measure(interface: SystemInterface, load: RelayLoad) -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (mut peers, mut sockets) = (Vec::new(), Vec::new());
    for _ in 0..load.connections {
        let peer = TcpStream::connect(address).expect("connected");
        peer.set_nodelay(true).expect("an option");
        peers.push(peer);
        sockets.push(SystemSocket::from(listener.accept().expect("accepted").0));
    }
    let passing = std::thread::spawn(move || pass_on(interface, &sockets, load.is_for_all));
    play(&peers, load);
    drop(peers);
    passing.join().expect("no panic") / load.deliveries as f64
}

/// Passes on what arrives until a connection ends, and returns the microseconds of CPU.
fn pass_on(interface: SystemInterface, sockets: &[SystemSocket], is_for_all: bool) -> f64 {
    let (mut driver, mut news) = (SystemDriver::new(interface).expect("a driver"), SystemNews::default());
    for (key, socket) in sockets.iter().enumerate() {
        driver.add(socket, key as u32).expect("watched");
    }
    let (mut buffer, mut output) = (vec![0; 64 * 1024], Vec::new());
    let begun = cpu_us();
    loop {
        driver.wait(None, &mut news);
        for ready in &news.ready {
            let from = ready.key as usize;
            match driver.recv(&sockets[from], &mut buffer) {
                Ok(len) if len > 0 => output.push((from, buffer[..len].to_vec())),
                _ => return cpu_us() - begun,
            }
        }
        // All input comes first, as in a shard.
        for (from, bytes) in output.drain(..) {
            let to = if is_for_all { 0..sockets.len() } else { (from ^ 1)..(from ^ 1) + 1 };
            for to in to.filter(|to| *to != from) {
                assert_eq!(driver.send(&sockets[to], &bytes).expect("accepted"), bytes.len());
            }
        }
    }
}

/// Plays the peers until all deliveries have arrived.
fn play(peers: &[TcpStream], load: RelayLoad) {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC).expect("a set");
    for (key, peer) in peers.iter().enumerate() {
        epoll::add(&set, peer, epoll::EventData::new_u64(key as u64), epoll::EventFlags::IN).expect("watched");
    }
    let say = |from: usize| (&peers[from]).write_all(&[b'x'; MESSAGE]).expect("written");
    let (mut events, mut buffer) = (Vec::with_capacity(256), vec![0; 64 * 1024]);
    let first = if load.is_for_all { 1 } else { peers.len() };
    (0..first).step_by(2).for_each(say);
    let (mut left, mut of_round) = (load.deliveries, peers.len() - 1);
    while left > 0 {
        events.clear();
        let patience = rustix::event::Timespec::try_from(Duration::from_secs(60)).ok();
        epoll::wait(&set, rustix::buffer::spare_capacity(&mut events), patience.as_ref()).expect("a wait");
        for event in &events {
            let at = event.data.u64() as usize;
            let len = (&peers[at]).read(&mut buffer).expect("input");
            assert_eq!(len, MESSAGE, "one is in flight");
            left = left.saturating_sub(1);
            of_round -= usize::from(load.is_for_all);
            match (load.is_for_all, of_round) {
                _ if left == 0 => return,
                (false, _) => say(at),
                (true, 0) => {
                    of_round = peers.len() - 1;
                    say(0);
                }
                (true, _) => {}
            }
        }
    }
}

fn cpu_us() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e6 + now.tv_nsec as f64 / 1e3
}

/// Bytes of a message.
const MESSAGE: usize = 200;
