//! Many clients over sockets, on one thread with one epoll set.
//!
//! Sockets are watched for input only, level-triggered and read once per readiness, as the server
//! does it; unwritten output is kept, and the socket is watched for output meanwhile. A connection
//! that breaks ends the benchmark: a load that loses clients measures something else.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

use crate::engine::LoadTarget;
use crate::engine::client::{ClientItem, LoadClient};
use crate::{BenchOutcome, chat};

/// A function that gets the number of a client and a stanza for it, and appends the reply.
pub type React<'a> = dyn FnMut(usize, &[u8], &mut Vec<u8>) + 'a;

/// Clients of one server.
#[derive(Debug)]
pub struct Fleet {
    set: OwnedFd,
    server: SocketAddr,
    target: Arc<LoadTarget>,
    seats: Vec<FleetSeat>,
    bound: usize,
    buffer: Vec<u8>,
    replies: Vec<u8>,
    out: Vec<u8>,
}

#[derive(Debug)]
struct FleetSeat {
    socket: TcpStream,
    client: LoadClient,
    unsent: Vec<u8>,
}

impl Fleet {
    /// Makes a fleet without clients.
    ///
    /// # Errors
    /// The error of the system.
    pub fn new(server: SocketAddr, target: Arc<LoadTarget>) -> BenchOutcome<Fleet> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let buffer = vec![0; BUFFER];
        Ok(Fleet { set, server, target, seats: Vec::new(), bound: 0, buffer, replies: Vec::new(), out: Vec::new() })
    }

    /// Returns the number of clients.
    pub fn len(&self) -> usize {
        self.seats.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    /// Logs accounts in, `at_once` at the same time, and makes each send `first`.
    ///
    /// # Errors
    /// The first failed login, or that none has succeeded for a minute.
    pub fn log_in(&mut self, accounts: Range<usize>, at_once: usize, first: &str) -> BenchOutcome<()> {
        let (mut accounts, all) = (accounts.clone(), self.seats.len() + accounts.len());
        let (mut patience, mut before) = (Instant::now() + PATIENCE, self.bound);
        while self.bound < all {
            while self.seats.len() < self.bound + at_once
                && let Some(account) = accounts.next()
            {
                let mut out = Vec::new();
                let client = LoadClient::start(&self.target, chat::local(account), false, &mut out)?;
                self.seat(client, &out)?;
            }
            self.poll(Duration::from_secs(1), first, &mut |_, _, _| {})?;
            if self.bound > before {
                (patience, before) = (Instant::now() + PATIENCE, self.bound);
            } else if Instant::now() > patience {
                return Err(format!("{} of {all} logins, and none more", self.bound).into());
            }
        }
        Ok(())
    }

    /// Connects clients that exchange lines, one after the other.
    ///
    /// # Errors
    /// The error of the system.
    pub fn connect_lines(&mut self, count: usize) -> BenchOutcome<()> {
        for _ in 0..count {
            self.seat(LoadClient::lines(), &[])?;
            self.bound += 1;
        }
        Ok(())
    }

    /// Lets the clients react to stanzas until that time. Returns the number of stanzas.
    ///
    /// # Errors
    /// The first connection that breaks.
    pub fn run(&mut self, until: Instant, react: &mut React<'_>) -> BenchOutcome<u64> {
        let mut count = 0;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            self.poll(left, "", &mut |seat, stanza, replies| {
                count += 1;
                react(seat, stanza, replies);
            })?;
        }
        Ok(count)
    }

    /// Sends plain bytes of a client.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn send(&mut self, seat: usize, plain: &[u8]) -> BenchOutcome<()> {
        let seat_data = self.seats.get_mut(seat).ok_or("no such client")?;
        self.out.clear();
        seat_data.client.write(plain, &mut self.out)?;
        let out = std::mem::take(&mut self.out);
        let sent = self.push(seat, &out);
        self.out = out;
        sent
    }

    fn seat(&mut self, client: LoadClient, first: &[u8]) -> BenchOutcome<()> {
        let number = self.seats.len();
        let socket = open(self.server, number)?;
        epoll::add(&self.set, &socket, epoll::EventData::new_u64(number as u64), epoll::EventFlags::IN)?;
        self.seats.push(FleetSeat { socket, client, unsent: Vec::new() });
        self.push(number, first)
    }

    /// Waits once and handles ready sockets.
    fn poll(&mut self, timeout: Duration, first: &str, react: &mut React<'_>) -> BenchOutcome<()> {
        let mut events = Vec::with_capacity(EVENTS);
        let timeout = Timespec::try_from(timeout)?;
        match epoll::wait(&self.set, rustix::buffer::spare_capacity(&mut events), Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            let (number, flags) = (event.data.u64() as usize, event.flags);
            if flags.intersects(epoll::EventFlags::OUT) {
                self.push(number, &[])?;
            }
            if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
                self.readable(number, first, react).map_err(|error| format!("client {number}: {error}"))?;
            }
        }
        Ok(())
    }

    fn readable(&mut self, number: usize, first: &str, react: &mut React<'_>) -> BenchOutcome<()> {
        let Some(seat) = self.seats.get_mut(number) else { return Ok(()) };
        let len = match seat.socket.read(&mut self.buffer) {
            Ok(0) => return Err("the server closed the connection".into()),
            Ok(len) => len,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        self.out.clear();
        self.replies.clear();
        let (wire, replies) = (self.buffer.get_mut(..len).unwrap_or_default(), &mut self.replies);
        let was_bound = seat.client.is_bound();
        seat.client.read(wire, &mut self.out, &mut |item| {
            let bytes = match &item {
                ClientItem::Stanza(stanza) => stanza.bytes(),
                ClientItem::Line(line) => line,
            };
            react(number, bytes, replies);
        })?;
        if !was_bound && seat.client.is_bound() {
            self.bound += 1;
            replies.extend_from_slice(first.as_bytes());
        }
        if !replies.is_empty() {
            seat.client.write(replies, &mut self.out)?;
        }
        let out = std::mem::take(&mut self.out);
        let pushed = if out.is_empty() { Ok(()) } else { self.push(number, &out) };
        self.out = out;
        pushed
    }

    /// Writes bytes after those that wait already.
    fn push(&mut self, number: usize, bytes: &[u8]) -> BenchOutcome<()> {
        let Some(seat) = self.seats.get_mut(number) else { return Ok(()) };
        let waited = !seat.unsent.is_empty();
        if waited {
            seat.unsent.extend_from_slice(bytes);
        }
        let bytes = if waited { seat.unsent.as_slice() } else { bytes };
        if bytes.is_empty() {
            return Ok(());
        }
        let sent = match seat.socket.write(bytes) {
            Ok(sent) => sent,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => 0,
            Err(error) => return Err(format!("client {number}: {error}").into()),
        };
        seat.unsent = bytes.get(sent..).unwrap_or_default().to_vec();
        let waits = !seat.unsent.is_empty();
        if waits != waited {
            let mut flags = epoll::EventFlags::IN;
            flags.set(epoll::EventFlags::OUT, waits);
            epoll::modify(&self.set, &seat.socket, epoll::EventData::new_u64(number as u64), flags)?;
        }
        Ok(())
    }
}

/// Connects from an address of its own range: on this machine, connections come from a new
/// 127.0.0.x after every 20 000, since one address doesn't have more ports.
fn open(server: SocketAddr, number: usize) -> BenchOutcome<TcpStream> {
    let family = if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    if let IpAddr::V4(address) = server.ip()
        && address.is_loopback()
        && number >= PER_ADDRESS
    {
        let last = u8::try_from(1 + number / PER_ADDRESS)?;
        bind(&socket, &SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0)))?;
    }
    connect(&socket, &server)?;
    let socket = TcpStream::from(socket);
    socket.set_nonblocking(true)?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

const BUFFER: usize = 64 * 1024;
const EVENTS: usize = 1024;
const PER_ADDRESS: usize = 20_000;
const PATIENCE: Duration = Duration::from_secs(60);
