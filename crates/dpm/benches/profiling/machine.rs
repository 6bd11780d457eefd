//! Figures of the machine itself.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::readers::BenchReaders;

/// Returns the time that a thread takes to write this many bytes at a time to each of this many
/// sockets, in µs per reading.
pub fn bare_writes(clients: usize, bytes: usize, readings: f64) -> f64 {
    let listener = TcpListener::bind(LOCAL).expect("a free port");
    let address = listener.local_addr().expect("an address");
    let accept =
        thread::spawn(move || (0..clients).map(|_| listener.accept().expect("a client").0).collect::<Vec<_>>());
    let mut readers =
        BenchReaders::new((0..clients).map(|_| TcpStream::connect(address).expect("a connection")).collect());
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
    spent * 1e6 / (TICKS * clients) as f64 / readings
}

/// The delays with which an otherwise sleeping thread wakes, below which no program on this machine
/// can get.
pub struct Lateness {
    thread: JoinHandle<Vec<i64>>,
    begun: Arc<AtomicBool>,
}

impl Lateness {
    pub fn start(stop: Arc<AtomicBool>) -> Self {
        let begun = Arc::new(AtomicBool::new(false));
        let counts = begun.clone();
        let thread = thread::spawn(move || {
            let mut late = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let due = Instant::now() + NAP;
                thread::sleep(NAP);
                if counts.load(Ordering::Relaxed) {
                    late.push(due.elapsed().as_micros() as i64);
                }
            }
            late
        });
        Self { thread, begun }
    }

    pub fn begin(&self) {
        self.begun.store(true, Ordering::Relaxed);
    }

    /// Returns the times in microseconds.
    pub fn end(self) -> Vec<i64> {
        self.thread.join().expect("no panic")
    }
}

/// Returns the median, the 99th percentile and the maximum.
pub fn shares(mut values: Vec<i64>, none: i64) -> [i64; 3] {
    values.sort_unstable();
    let at = |share: f64| values.get(((values.len() as f64 * share) as usize).min(values.len().saturating_sub(1)));
    [0.5, 0.99, 1.0].map(|share| at(share).copied().unwrap_or(none))
}

/// Returns the CPU time of this thread so far.
pub fn cpu() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}

pub const LOCAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const TICKS: usize = 50;
const NAP: Duration = Duration::from_millis(1);
