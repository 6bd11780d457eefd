//! One run: a service, front-ends and clients for some seconds.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rookery_dpm::database::Database;
use rookery_dpm::driver::{DpmServer, ServeSettings, SimulatorFront};
use rookery_dpm::service::{Dpm, ServiceOptions, Statistics};
use rookery_dpm::simulator::Simulator;
use rookery_dpm::time::Moment;

use crate::machine::{self, LOCAL, Lateness, cpu};
use crate::readers::{BenchReaders, Observers};

/// The load of a run.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// The number of clients, each of which reads all devices fifteen times a second.
    pub clients: usize,
    /// The number of front-ends, each with a socket and a thread.
    pub front_ends: usize,
    /// The number of devices of all front-ends together.
    pub devices: usize,
    /// True if stages are measured.
    pub stages: bool,
}

/// The figures of a run.
#[derive(Debug, Clone)]
pub struct LoadRun {
    pub readings_per_second: f64,
    /// Requests to front-ends since the start.
    pub requests: u64,
    /// The share of clients' requests whose device was already being read, in percent.
    pub shared: f64,
    /// Messages that were made for each reading from a front-end.
    pub copies: f64,
    /// Microseconds of the service's thread for each delivered reading.
    pub micros: f64,
    /// Percent of a core that the service's thread used.
    pub busy: f64,
    pub bytes_per_write: usize,
    pub readings_per_write: f64,
    /// Milliseconds from the front-end's timestamp to the arrival at some of the clients: the
    /// median, the 99th percentile, the maximum.
    pub latency: [i64; 3],
    /// Delays in waking of a thread that repeatedly slept for a millisecond, in milliseconds: the
    /// median, the 99th percentile, the maximum.
    pub sleeper: [f64; 3],
    /// The table of stages, if they were measured.
    pub stages: String,
}

/// Figures of the service's thread.
#[derive(Clone, Default)]
struct Figures {
    statistics: Statistics,
    cpu: Duration,
    stages: String,
}

pub fn run(load: Load) -> LoadRun {
    let stop = Arc::new(AtomicBool::new(false));
    let fronts: Vec<SimulatorFront> = (0..load.front_ends)
        .map(|front_end| {
            let database = Database::read(&devices(load, Some(front_end), &[])).expect("a good database");
            SimulatorFront::open(LOCAL, Simulator::new(database)).expect("a free port")
        })
        .collect();
    let addresses: Vec<SocketAddr> = fronts.iter().map(|front| front.address().expect("an address")).collect();
    let database = Database::read(&devices(load, None, &addresses)).expect("a good database");
    let settings = ServeSettings { clients: vec![LOCAL], front_ends: LOCAL, options: ServiceOptions::default() };
    let server = DpmServer::open(settings, Arc::new(database)).expect("free ports");
    let address = server.addresses().expect("an address")[0];
    let figures = Arc::new(Mutex::new(Figures::default()));
    let mut threads: Vec<thread::JoinHandle<()>> = fronts
        .into_iter()
        .map(|front| {
            let stop = stop.clone();
            thread::spawn(move || front.run(|| stop.load(Ordering::Relaxed)).expect("it runs"))
        })
        .collect();
    threads.push(thread::spawn({
        let (stop, figures) = (stop.clone(), figures.clone());
        move || {
            let mut told = Instant::now();
            let turn = |dpm: &mut Dpm, _: Moment| {
                dpm.stages().measure(load.stages);
                if told.elapsed() >= TELL {
                    told = Instant::now();
                    let stages = if load.stages { dpm.stages().to_string() } else { String::new() };
                    *figures.lock().expect("no panic") = Figures { statistics: dpm.statistics(), cpu: cpu(), stages };
                }
                stop.load(Ordering::Relaxed)
            };
            server.run(turn).expect("it runs");
        }
    }));
    let (mut readers, observed) = BenchReaders::connect(address, load);
    let observers = Observers::start(observed, stop.clone());
    let sleeper = Lateness::start(stop.clone());
    readers.drain(WARM_UP);
    let look = || figures.lock().expect("no panic").clone();
    let before = look();
    observers.begin();
    sleeper.begin();
    let start = Instant::now();
    readers.drain(MEASURED);
    let after = look();
    let elapsed = start.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().expect("no panic");
    }
    let (bytes, readings, latencies) = observers.end();
    let pool = after.statistics.pool;
    assert_eq!(after.statistics.dropped, 0, "the clients did not keep up");
    let delivered = (pool.delivered - before.statistics.pool.delivered) as f64;
    let spent = (after.cpu - before.cpu).as_secs_f64();
    let per_write = load.devices as f64 / load.front_ends as f64;
    LoadRun {
        readings_per_second: delivered / elapsed,
        requests: pool.requests,
        shared: 100.0 * pool.shared as f64 / pool.asked as f64,
        copies: pool.encoded as f64 / pool.readings as f64,
        micros: spent * 1e6 / delivered,
        busy: 100.0 * spent / elapsed,
        bytes_per_write: (bytes as f64 / readings.max(1) as f64 * per_write) as usize,
        readings_per_write: per_write,
        latency: machine::shares(latencies, -1),
        sleeper: machine::shares(sleeper.end(), 0).map(|micros| micros as f64 / 1000.0),
        stages: after.stages,
    }
}

/// Returns the devices of one front-end, or of all at their addresses.
fn devices(load: Load, only: Option<usize>, addresses: &[SocketAddr]) -> String {
    let mut text = String::new();
    for front_end in 0..load.front_ends {
        let here = || only.is_none_or(|only| only == front_end);
        let socket = addresses.get(front_end).copied().unwrap_or(LOCAL);
        if here() {
            let _ = writeln!(
                text,
                "[[node]]\nname='FE{front_end}'\naddress='{:04x}'\nsocket='{socket}'\nprotocol='GETS32'",
                0x0c00 + front_end
            );
        }
        for device in (front_end..load.devices).step_by(load.front_ends).filter(|_| here()) {
            let _ = writeln!(
                text,
                "[[device]]\nindex={}\nname='T:D{device}'\n[device.reading]\nnode='FE{front_end}'\nssdn='{device:016x}'\nprimary=10\n\
                 element=4\n[[script]]\ndevice='T:D{device}'\nshape='counter'",
                device + 1
            );
        }
    }
    text
}

const WARM_UP: Duration = Duration::from_secs(3);
const MEASURED: Duration = Duration::from_secs(8);
/// The time between two reports of the service's thread.
const TELL: Duration = Duration::from_millis(20);
