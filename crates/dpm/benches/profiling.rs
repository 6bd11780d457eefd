//! The load of "Profiling DPM": 1, 10, 100 and 1000 clients ask for the same 100 devices fifteen times a second.
//!
//! `cargo bench -p rookery-dpm` prints a table: what the front-end was asked, what the service's thread spent for each reading that it delivered, how
//! late readings came to a client, and beside it what the same bytes cost when they are only written to the same number of sockets.
//! Service, simulated front-ends and clients are threads of one process and share its cores; sockets between them are real.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rookery_dpm::database::Database;
use rookery_dpm::driver::{Front, Server, Settings};
use rookery_dpm::sdd::Message;
use rookery_dpm::sdd::reply::Reply;
use rookery_dpm::sdd::request::{AddToList, Request, StartList};
use rookery_dpm::service::{Options, Statistics};
use rookery_dpm::simulator::Simulator;
use rustix::event::epoll;
use rustix::time::{ClockId, clock_gettime};

fn main() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let most = rustix::process::Rlimit { current: limit.maximum, ..limit };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, most);
    println!(
        "| clients | readings/s | front-end requests | requests shared | µs/reading | bare write, µs/reading | latency p50, p99, ms |"
    );
    println!("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for clients in [1, 10, 100, 1000] {
        let run = run(clients);
        let bare = bare(clients, run.bytes_per_tick);
        println!(
            "| {clients} | {:.0} | {} | {:.1} % | {:.2} | {:.2} | {}, {} |",
            run.readings_per_second, run.requests, run.shared, run.micros, bare, run.latency.0, run.latency.1
        );
    }
}

struct Run {
    readings_per_second: f64,
    requests: u64,
    shared: f64,
    micros: f64,
    bytes_per_tick: usize,
    latency: (i64, i64),
}

fn run(clients: usize) -> Run {
    let stop = Arc::new(AtomicBool::new(false));
    let front = Front::open(LOCAL, Simulator::new(database())).expect("a free port");
    let database = database().at(front.address().expect("an address"));
    let settings = Settings { clients: LOCAL, front_ends: LOCAL, options: Options::default() };
    let server = Server::open(settings, Arc::new(database)).expect("free ports");
    let address = server.address().expect("an address");
    let figures = Arc::new(Mutex::new((Statistics::default(), Duration::ZERO)));
    let threads = [
        thread::spawn({
            let stop = Arc::clone(&stop);
            move || front.run(|| stop.load(Ordering::Relaxed)).expect("it runs")
        }),
        thread::spawn({
            let (stop, figures) = (Arc::clone(&stop), Arc::clone(&figures));
            move || {
                let turn = |dpm: &mut rookery_dpm::service::Dpm| {
                    *figures.lock().expect("no panic") = (dpm.statistics(), cpu());
                    stop.load(Ordering::Relaxed)
                };
                server.run(turn).expect("it runs");
            }
        }),
    ];
    let mut readers = Readers::connect(address, clients);
    readers.drain(WARM_UP);
    let before = *figures.lock().expect("no panic");
    let bytes = readers.bytes;
    let start = Instant::now();
    readers.latencies.clear();
    readers.drain(MEASURED);
    let elapsed = start.elapsed().as_secs_f64();
    let after = *figures.lock().expect("no panic");
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().expect("no panic");
    }
    let delivered = (after.0.pool.delivered - before.0.pool.delivered) as f64;
    assert_eq!(after.0.dropped, 0, "the clients did not keep up");
    readers.latencies.sort_unstable();
    let at =
        |share: f64| readers.latencies.get((readers.latencies.len() as f64 * share) as usize).copied().unwrap_or(-1);
    Run {
        readings_per_second: delivered / elapsed,
        requests: after.0.pool.requests,
        shared: 100.0 * after.0.pool.shared as f64 / after.0.pool.asked as f64,
        micros: (after.1 - before.1).as_secs_f64() * 1e6 / delivered,
        bytes_per_tick: ((readers.bytes - bytes) as f64 / (delivered / DEVICES as f64)) as usize,
        latency: (at(0.5), at(0.99)),
    }
}

/// What a thread spends that writes as many bytes at a time to each of as many sockets, by reading.
fn bare(clients: usize, bytes: usize) -> f64 {
    let listener = TcpListener::bind(LOCAL).expect("a free port");
    let address = listener.local_addr().expect("an address");
    let accept =
        thread::spawn(move || (0..clients).map(|_| listener.accept().expect("a client").0).collect::<Vec<_>>());
    let mut readers = Readers::open((0..clients).map(|_| TcpStream::connect(address).expect("a connection")).collect());
    let mut streams = accept.join().expect("no panic");
    let payload = vec![0; bytes];
    let writer = thread::spawn(move || {
        let start = cpu();
        for _ in 0..TICKS {
            for stream in &mut streams {
                stream.write_all(&payload).expect("it takes all");
            }
            thread::sleep(Duration::from_millis(20));
        }
        cpu() - start
    });
    while !writer.is_finished() {
        readers.drain(Duration::from_millis(50));
    }
    let spent = writer.join().expect("no panic").as_secs_f64();
    spent * 1e6 / (TICKS * clients * DEVICES) as f64
}

/// Clients that read all they get, in one thread.
struct Readers {
    set: std::os::fd::OwnedFd,
    streams: Vec<TcpStream>,
    buffer: Vec<u8>,
    bytes: u64,
    /// What the first client got and did not look at yet.
    first: Vec<u8>,
    /// Of the first client's readings, in milliseconds.
    latencies: Vec<i64>,
}

impl Readers {
    fn connect(address: SocketAddr, clients: usize) -> Self {
        let connect = || -> io::Result<TcpStream> {
            let mut stream = TcpStream::connect(address)?;
            stream.write_all(b"GET /dpm HTTP/1.1\r\nContent-Type: application/pc\r\n\r\n")?;
            let mut open = [0; 26];
            stream.read_exact(&mut open)?;
            let Ok(Reply::OpenList(open)) = Reply::decode(&open[4..]) else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            let list_id = open.list_id;
            let mut asked = Vec::new();
            for device in 1..=DEVICES {
                put(
                    &AddToList { list_id, ref_id: device as i64, drf_request: format!("T:D{device}@P,15H") }.into(),
                    &mut asked,
                );
            }
            put(&StartList { list_id, model: None }.into(), &mut asked);
            stream.write_all(&asked)?;
            Ok(stream)
        };
        Self::open((0..clients).map(|_| connect().expect("a connection")).collect())
    }

    fn open(streams: Vec<TcpStream>) -> Self {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).expect("a descriptor");
        for (number, stream) in streams.iter().enumerate() {
            epoll::add(&set, stream, epoll::EventData::new_u64(number as u64), epoll::EventFlags::IN).expect("a place");
        }
        Self { set, streams, buffer: vec![0; 1 << 20], bytes: 0, first: Vec::new(), latencies: Vec::new() }
    }

    fn drain(&mut self, time: Duration) {
        let end = Instant::now() + time;
        let timeout = rustix::event::Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        let mut events: Vec<epoll::Event> = Vec::with_capacity(1024);
        while Instant::now() < end {
            events.clear();
            epoll::wait(&self.set, rustix::buffer::spare_capacity(&mut events), Some(&timeout)).expect("it waits");
            for event in &events {
                let number = event.data.u64() as usize;
                let Ok(read) = self.streams[number].read(&mut self.buffer) else { continue };
                self.bytes += read as u64;
                if number == 0 {
                    self.first.extend_from_slice(&self.buffer[..read]);
                    self.look();
                }
            }
        }
    }

    fn look(&mut self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64;
        let mut rest = self.first.as_slice();
        while let Some((prefix, after)) = rest.split_first_chunk::<4>() {
            let Some((frame, after)) = after.split_at_checked(u32::from_be_bytes(*prefix) as usize) else { break };
            if let Ok(Reply::Scalar(scalar)) = Reply::decode(frame) {
                self.latencies.push(now - scalar.timestamp);
            }
            rest = after;
        }
        let used = self.first.len() - rest.len();
        self.first.drain(..used);
    }
}

fn put(request: &Request, out: &mut Vec<u8>) {
    let mut message = Vec::new();
    request.encode(&mut message);
    out.extend_from_slice(&(message.len() as u32).to_be_bytes());
    out.extend_from_slice(&message);
}

fn database() -> Database {
    let mut text = String::from("[[node]]\nname='FE'\naddress='0c23'\nsocket='127.0.0.1:6801'\nprotocol='GETS32'\n");
    for index in 1..=DEVICES {
        write!(text, "[[device]]\nindex={index}\nname='T:D{index}'\n[device.reading]\nnode='FE'\nssdn='{index:016x}'\nprimary=10\nelement=4\n")
            .expect("a string takes it");
        writeln!(text, "[[script]]\ndevice='T:D{index}'\nshape='counter'").expect("a string takes it");
    }
    Database::read(&text).expect("a good database")
}

/// What this thread has spent.
fn cpu() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}

const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);
const DEVICES: usize = 100;
const WARM_UP: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(4);
const TICKS: usize = 50;
