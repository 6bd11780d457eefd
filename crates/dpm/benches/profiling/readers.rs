//! Clients: one thread reads from most of them and discards the bytes; another one reads from
//! three, the first, the middle and the last, and examines the times.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rookery_dpm::sdd::SddMessage;
use rookery_dpm::sdd::reply::Reply;
use rookery_dpm::sdd::request::{AddToList, Request, StartList};
use rustix::event::epoll;

use crate::load::Load;

/// Clients whose bytes are read and discarded.
pub struct BenchReaders {
    set: OwnedFd,
    streams: Vec<TcpStream>,
    buffer: Vec<u8>,
}

impl BenchReaders {
    /// Connects all clients of a load. Those that are to be observed are returned separately.
    pub fn connect(address: SocketAddr, load: Load) -> (Self, Vec<TcpStream>) {
        let mut streams: Vec<Option<TcpStream>> =
            (0..load.clients).map(|_| Some(connect(address, load.devices).expect("a connection"))).collect();
        let observed = [0, load.clients / 2, load.clients - 1].into_iter().filter_map(|place| streams[place].take());
        let observed = observed.collect();
        (Self::new(streams.into_iter().flatten().collect()), observed)
    }

    pub fn new(streams: Vec<TcpStream>) -> Self {
        Self { set: set_of(&streams), streams, buffer: vec![0; 1 << 20] }
    }

    /// Reads for a while.
    pub fn drain(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            for number in ready(&self.set) {
                let _ = self.streams[number].read(&mut self.buffer);
            }
        }
    }
}

/// Clients whose readings are examined.
pub struct Observers {
    thread: JoinHandle<(u64, u64, Vec<i64>)>,
    begun: Arc<AtomicBool>,
}

impl Observers {
    pub fn start(mut streams: Vec<TcpStream>, stop: Arc<AtomicBool>) -> Self {
        let begun = Arc::new(AtomicBool::new(false));
        let counts = begun.clone();
        let thread = thread::spawn(move || {
            let set = set_of(&streams);
            let mut unread: Vec<Vec<u8>> = vec![Vec::new(); streams.len()];
            let mut buffer = vec![0; 1 << 20];
            let (mut bytes, mut latencies) = (0, Vec::new());
            while !stop.load(Ordering::Relaxed) {
                for number in ready(&set) {
                    let Ok(read) = streams[number].read(&mut buffer) else { continue };
                    // The time of arrival, so that parsing isn't included.
                    let now = unix_millis();
                    let before = latencies.len();
                    unread[number].extend_from_slice(&buffer[..read]);
                    look(&mut unread[number], now, &mut latencies);
                    match counts.load(Ordering::Relaxed) {
                        true => bytes += read as u64,
                        false => latencies.truncate(before),
                    }
                }
            }
            (bytes, latencies.len() as u64, latencies)
        });
        Self { thread, begun }
    }

    /// Starts counting.
    pub fn begin(&self) {
        self.begun.store(true, Ordering::Relaxed);
    }

    /// Returns the bytes, the readings and their latencies in milliseconds.
    pub fn end(self) -> (u64, u64, Vec<i64>) {
        self.thread.join().expect("no panic")
    }
}

fn look(unread: &mut Vec<u8>, now: i64, latencies: &mut Vec<i64>) {
    let mut rest = unread.as_slice();
    while let Some((prefix, after)) = rest.split_first_chunk::<4>() {
        let Some((frame, after)) = after.split_at_checked(u32::from_be_bytes(*prefix) as usize) else { break };
        if let Ok(Reply::Scalar(scalar)) = Reply::decode(frame) {
            latencies.push(now - scalar.timestamp);
        }
        rest = after;
    }
    let used = unread.len() - rest.len();
    unread.drain(..used);
}

fn connect(address: SocketAddr, devices: usize) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"GET /dpm HTTP/1.1\r\nContent-Type: application/pc\r\n\r\n")?;
    let mut prefix = [0; 4];
    stream.read_exact(&mut prefix)?;
    let mut open = vec![0; u32::from_be_bytes(prefix) as usize];
    stream.read_exact(&mut open)?;
    let Ok(Reply::OpenList(open)) = Reply::decode(&open) else { return Err(io::ErrorKind::InvalidData.into()) };
    let list_id = open.list_id;
    let mut asked = Vec::new();
    for device in 0..devices {
        let drf_request = format!("T:D{device}@P,15H");
        put(&AddToList { list_id, ref_id: device as i64, drf_request }.into(), &mut asked);
    }
    put(&StartList { list_id, model: None }.into(), &mut asked);
    stream.write_all(&asked)?;
    Ok(stream)
}

fn put(request: &Request, out: &mut Vec<u8>) {
    let mut message = Vec::new();
    request.encode(&mut message);
    out.extend_from_slice(&(message.len() as u32).to_be_bytes());
    out.extend_from_slice(&message);
}

fn set_of(streams: &[TcpStream]) -> OwnedFd {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC).expect("a descriptor");
    for (number, stream) in streams.iter().enumerate() {
        epoll::add(&set, stream, epoll::EventData::new_u64(number as u64), epoll::EventFlags::IN).expect("a place");
    }
    set
}

fn ready(set: &OwnedFd) -> Vec<usize> {
    let timeout = rustix::event::Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    let mut events: Vec<epoll::Event> = Vec::with_capacity(1024);
    let _ = epoll::wait(set, rustix::buffer::spare_capacity(&mut events), Some(&timeout));
    events.iter().map(|event| event.data.u64() as usize).collect()
}

fn unix_millis() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64
}
