//! One thread of the engine: an epoll set, its share of the clients, and the loop that drives a
//! load.
//!
//! Sockets are watched for input only, level-triggered, and read once per readiness, as a server
//! does it. Output that can't be written is kept, up to a limit, and the socket is watched for
//! output meanwhile. A fault of the server ends at most the client that it affects.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rookery_xml::Stanza;
use rustix::event::epoll;
use rustix::net::sockopt;
use rustix::time::{ClockId, clock_gettime};

use super::bosh::LINES;
use super::client::{ClientItem, LoadClient};
use super::counters::{LoadCount, LoadCounters};
use super::source::Sources;
use super::target::LoadTarget;
use super::timer::EpollTimer;

/// The behaviour of clients. Each thread has its own; times are nanoseconds since the engine was
/// made.
pub trait WorkerLoad: Send {
    /// Does all work that is due, and returns the time of the next; [`NEVER`] if that depends on
    /// input.
    ///
    /// A load with much work should do only a part of it at a time and return `now`, so that input
    /// is read in between.
    fn due(&mut self, now: u64, worker: &mut LoadWorker) -> u64;

    /// Reacts to the login of a client that began to connect at `started`. Its first stanzas are
    /// appended to `out`.
    fn bound(&mut self, _number: usize, _started: u64, _now: u64, _out: &mut Vec<u8>) {}

    /// Handles a stanza for a client. Its reply is appended to `out`.
    fn stanza(&mut self, number: usize, stanza: &Stanza<'_>, now: u64, out: &mut Vec<u8>);

    /// Reacts to the end of a client's connection, or to its failed login.
    fn ended(&mut self, _number: usize, _was_bound: bool) {}

    /// Returns whether this thread has nothing left to do.
    fn is_finished(&self) -> bool {
        false
    }
}

/// The time for a load that waits for input.
pub const NEVER: u64 = u64::MAX;

/// The settings that all threads share.
#[derive(Debug)]
pub(super) struct WorkerPlace {
    pub target: Arc<LoadTarget>,
    pub direct_tls: bool,
    pub sources: Sources,
    pub epoch: Instant,
    /// The longest time that a login may take.
    pub patience: Duration,
}

/// One thread's clients: those whose number is [`LoadWorker::index`] modulo
/// [`LoadWorker::threads`].
#[derive(Debug)]
pub struct LoadWorker {
    place: Arc<WorkerPlace>,
    index: usize,
    threads: usize,
    set: OwnedFd,
    timer: EpollTimer,
    seats: Vec<Option<WorkerSeat>>,
    /// Logins in progress, the oldest first: the deadline, the seat, and the time when it was
    /// taken.
    logins: VecDeque<(u64, usize, u64)>,
    logging_in: usize,
    /// Clients whose connection has ended, and whether each was bound; the load has not been told
    /// yet.
    over: Vec<(usize, bool)>,
    reasons: BTreeMap<String, u64>,
    counters: Arc<LoadCounters>,
    buffer: Vec<u8>,
    replies: Vec<u8>,
    out: Vec<u8>,
    cpu_read: u64,
}

#[derive(Debug)]
struct WorkerSeat {
    /// Its connections: one, or with BOSH two, which come and go.
    lines: [Option<SeatLine>; LINES],
    client: LoadClient,
    started: u64,
}

#[derive(Debug)]
struct SeatLine {
    socket: TcpStream,
    unsent: Vec<u8>,
}

impl LoadWorker {
    pub(super) fn new(place: Arc<WorkerPlace>, index: usize, threads: usize) -> io::Result<LoadWorker> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer = EpollTimer::new(&set, TIMER)?;
        Ok(LoadWorker {
            place,
            index,
            threads,
            set,
            timer,
            seats: Vec::new(),
            logins: VecDeque::new(),
            logging_in: 0,
            over: Vec::new(),
            reasons: BTreeMap::new(),
            counters: Arc::default(),
            buffer: vec![0; BUFFER],
            replies: Vec::new(),
            out: Vec::new(),
            cpu_read: 0,
        })
    }

    /// Returns the number of this thread.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Returns the counters of this thread.
    pub fn counters(&self) -> &Arc<LoadCounters> {
        &self.counters
    }

    /// Returns the nanoseconds since the engine was made.
    pub fn now(&self) -> u64 {
        self.place.epoch.elapsed().as_nanos() as u64
    }

    /// Returns whether this client is logged in.
    pub fn is_bound(&self, number: usize) -> bool {
        matches!(self.seats.get(number / self.threads), Some(Some(seat)) if seat.client.is_bound())
    }

    /// Returns the reasons why connections have ended, and the number for each.
    pub fn reasons(&self) -> &BTreeMap<String, u64> {
        &self.reasons
    }

    /// Returns the number of logins in progress.
    pub fn logging_in(&self) -> usize {
        self.logging_in
    }

    /// Starts to connect and log in a client, with the account of its number. [`WorkerLoad::bound`]
    /// or [`WorkerLoad::ended`] will follow.
    pub fn connect(&mut self, number: usize, wave: u32) {
        let slot = number / self.threads;
        if let Err(error) = self.try_connect(number, slot, wave) {
            self.end(slot, &error);
        }
    }

    fn try_connect(&mut self, number: usize, slot: usize, wave: u32) -> Result<(), String> {
        let started = self.now();
        if self.seats.len() <= slot {
            self.seats.resize_with(slot + 1, || None);
        }
        let mut first = Vec::new();
        let username = crate::chat::local(number);
        let client = LoadClient::start(&self.place.target, username, self.place.direct_tls, &mut first);
        let client = client.map_err(|error| error.to_string())?;
        let socket = self.place.sources.connect(number, wave).map_err(|error| format!("connecting: {error}"))?;
        let line = SeatLine::new(&self.set, socket, slot, 0, first)?;
        if let Some(seat) = self.seats.get_mut(slot) {
            *seat = Some(WorkerSeat { lines: [Some(line), None], client, started });
            self.logging_in += 1;
        }
        self.ask(slot)?;
        self.logins.push_back((started.saturating_add(self.place.patience.as_nanos() as u64), slot, started));
        Ok(())
    }

    /// Closes a client's connection. [`WorkerLoad::ended`] isn't called.
    pub fn hang_up(&mut self, number: usize) {
        if let Some(seat) = self.seats.get_mut(number / self.threads)
            && let Some(seat) = seat.take()
        {
            match seat.client.is_bound() {
                true => self.counters.less(LoadCount::Sessions),
                false => self.logging_in -= 1,
            }
        }
    }

    /// Sends bytes of a client. Nothing happens if it isn't connected.
    pub fn send(&mut self, number: usize, plain: &[u8]) {
        let slot = number / self.threads;
        let Some(Some(seat)) = self.seats.get_mut(slot) else { return };
        let sent = if seat.client.is_plain() {
            seat.push(&self.set, slot, 0, plain)
        } else {
            self.out.clear();
            let written = seat.client.write(plain, &mut self.out).map_err(|error| error.to_string());
            written.and_then(|()| seat.push(&self.set, slot, 0, &self.out)).and_then(|()| self.ask(slot))
        };
        if let Err(reason) = sent {
            self.end(slot, &reason);
        }
    }

    /// Sends the requests of a BOSH client that can go out.
    fn ask(&mut self, slot: usize) -> Result<(), String> {
        loop {
            let Some(Some(seat)) = self.seats.get_mut(slot) else { return Ok(()) };
            let Some((line, request)) = seat.client.request() else { return Ok(()) };
            self.send_on(slot, line, &request)?;
        }
    }

    /// Sends bytes on one of a client's connections, which is opened if necessary.
    fn send_on(&mut self, slot: usize, line: usize, bytes: &[u8]) -> Result<(), String> {
        let number = slot * self.threads + self.index;
        let Some(Some(seat)) = self.seats.get_mut(slot) else { return Ok(()) };
        let Some(place) = seat.lines.get_mut(line) else { return Ok(()) };
        if place.is_none() {
            let socket = self.place.sources.connect(number, 0).map_err(|error| format!("connecting: {error}"))?;
            *place = Some(SeatLine::new(&self.set, socket, slot, line, bytes.to_vec())?);
            return Ok(());
        }
        seat.push(&self.set, slot, line, bytes)
    }

    /// Drives a load until it is finished or `stop` is set.
    pub(super) fn run(&mut self, load: &mut dyn WorkerLoad, stop: &AtomicBool) -> io::Result<()> {
        loop {
            let now = self.now();
            let next = load.due(now, self);
            self.expire(now);
            self.tell(load);
            self.read_cpu(now);
            if stop.load(Relaxed) || load.is_finished() {
                return Ok(());
            }
            self.poll(next, load)?;
            self.tell(load);
        }
    }

    /// Waits once, not beyond `next`, and handles ready sockets.
    fn poll(&mut self, next: u64, load: &mut dyn WorkerLoad) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS);
        let timeout = self.timer.arm(next.saturating_sub(self.now()), LONGEST)?;
        match epoll::wait(&self.set, rustix::buffer::spare_capacity(&mut events), Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            let (key, flags) = (event.data.u64(), event.flags);
            if key == TIMER {
                self.timer.rang();
                continue;
            }
            let (slot, line) = (key as usize / LINES, key as usize % LINES);
            if let Err(reason) = self.ready(slot, line, flags, load) {
                self.end(slot, &reason);
            }
        }
        Ok(())
    }

    fn ready(
        &mut self,
        slot: usize,
        line: usize,
        flags: epoll::EventFlags,
        load: &mut dyn WorkerLoad,
    ) -> Result<(), String> {
        let Some(Some(seat)) = self.seats.get_mut(slot) else { return Ok(()) };
        let Some(Some(SeatLine { socket, .. })) = seat.lines.get(line) else { return Ok(()) };
        if flags.contains(epoll::EventFlags::ERR) {
            let error = sockopt::socket_error(socket).map_err(io::Error::from);
            if let Ok(Err(error)) = error {
                return self.closed(slot, line, &connection(&error.into()));
            }
        }
        if flags.contains(epoll::EventFlags::OUT) {
            seat.flush(&self.set, slot, line)?;
        }
        if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
            self.readable(slot, line, load)?;
        }
        Ok(())
    }

    /// Handles a connection that the server has closed.
    fn closed(&mut self, slot: usize, line: usize, reason: &str) -> Result<(), String> {
        let Some(Some(seat)) = self.seats.get_mut(slot) else { return Ok(()) };
        let (is_harmless, again) = seat.client.closed(line);
        if !is_harmless {
            return Err(reason.to_owned());
        }
        if let Some(place) = seat.lines.get_mut(line) {
            *place = None;
        }
        again.map_or(Ok(()), |request| self.send_on(slot, line, &request))
    }

    fn readable(&mut self, slot: usize, line: usize, load: &mut dyn WorkerLoad) -> Result<(), String> {
        let Some(Some(seat)) = self.seats.get_mut(slot) else { return Ok(()) };
        let Some(Some(SeatLine { socket, .. })) = seat.lines.get_mut(line) else { return Ok(()) };
        let len = match socket.read(&mut self.buffer) {
            Ok(0) => return self.closed(slot, line, "the server closed the connection"),
            Ok(len) => len,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return Ok(()),
            Err(error) => return self.closed(slot, line, &connection(&error)),
        };
        let now = self.place.epoch.elapsed().as_nanos() as u64;
        let number = slot * self.threads + self.index;
        self.out.clear();
        self.replies.clear();
        let (wire, replies, counters) =
            (self.buffer.get_mut(..len).unwrap_or_default(), &mut self.replies, &self.counters);
        let was_bound = seat.client.is_bound();
        let mut each = |item: ClientItem<'_>| {
            if let ClientItem::Stanza(stanza) = item {
                counters.add(LoadCount::Stanzas, 1);
                load.stanza(number, &stanza, now, replies);
            }
        };
        let read = seat.client.read_line(line, wire, &mut self.out, &mut each);
        read.map_err(|error| error.to_string())?;
        if !was_bound && seat.client.is_bound() {
            self.logging_in -= 1;
            self.counters.add(LoadCount::LoggedIn, 1);
            self.counters.add(LoadCount::Sessions, 1);
            load.bound(number, seat.started, now, &mut self.replies);
        }
        if !seat.client.is_plain() {
            if !self.replies.is_empty() {
                seat.client.write(&self.replies, &mut self.out).map_err(|error| error.to_string())?;
            }
            if !self.out.is_empty() {
                seat.push(&self.set, slot, 0, &self.out)?;
            }
            return self.ask(slot);
        }
        if self.out.is_empty() {
            std::mem::swap(&mut self.out, &mut self.replies);
        } else {
            self.out.extend_from_slice(&self.replies);
        }
        if self.out.is_empty() { Ok(()) } else { seat.push(&self.set, slot, 0, &self.out) }
    }

    /// Ends logins that take too long.
    fn expire(&mut self, now: u64) {
        while let Some((_, slot, started)) = self.logins.pop_front_if(|(until, ..)| *until <= now) {
            if let Some(Some(seat)) = self.seats.get(slot)
                && seat.started == started
                && !seat.client.is_bound()
            {
                let (seconds, waits_for) = (self.place.patience.as_secs(), seat.client.waits_for());
                self.end(slot, &format!("no login within {seconds} s: the server owes {waits_for}"));
            }
        }
    }

    /// Handles the end of a client's connection.
    fn end(&mut self, slot: usize, reason: &str) {
        let seat = self.seats.get_mut(slot).and_then(Option::take);
        let was_bound = seat.as_ref().is_some_and(|seat| seat.client.is_bound());
        match (&seat, was_bound) {
            (Some(_), true) => self.counters.less(LoadCount::Sessions),
            (Some(_), false) => self.logging_in -= 1,
            (None, _) => {}
        }
        self.counters.add(if was_bound { LoadCount::Broken } else { LoadCount::LoginsFailed }, 1);
        self.over.push((slot * self.threads + self.index, was_bound));
        let reason: String = reason.chars().take(300).collect();
        if self.reasons.len() < REASONS || self.reasons.contains_key(&reason) {
            *self.reasons.entry(reason).or_default() += 1;
        }
    }

    fn tell(&mut self, load: &mut dyn WorkerLoad) {
        for (number, was_bound) in self.over.drain(..) {
            load.ended(number, was_bound);
        }
    }

    fn read_cpu(&mut self, now: u64) {
        if now.saturating_sub(self.cpu_read) > CPU_EVERY {
            self.cpu_read = now;
            let time = clock_gettime(ClockId::ThreadCPUTime);
            self.counters.set(LoadCount::CpuTime, time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64);
        }
    }
}

impl WorkerSeat {
    /// Writes bytes after those that wait already.
    fn push(&mut self, set: &OwnedFd, slot: usize, line: usize, bytes: &[u8]) -> Result<(), String> {
        let Some(Some(SeatLine { socket, unsent })) = self.lines.get_mut(line).filter(|_| !bytes.is_empty()) else {
            return Ok(());
        };
        if !unsent.is_empty() {
            unsent.extend_from_slice(bytes);
            return if unsent.len() > UNSENT { Err("the server does not read".into()) } else { Ok(()) };
        }
        let sent = written_bytes(socket.write(bytes))?;
        if sent < bytes.len() {
            *unsent = bytes.get(sent..).unwrap_or_default().to_vec();
            watch(set, socket, slot, line, epoll::EventFlags::IN | epoll::EventFlags::OUT)?;
        }
        Ok(())
    }

    /// Writes waiting bytes; when none are left, the socket isn't watched for output any more.
    fn flush(&mut self, set: &OwnedFd, slot: usize, line: usize) -> Result<(), String> {
        let Some(Some(SeatLine { socket, unsent })) = self.lines.get_mut(line) else { return Ok(()) };
        let sent = written_bytes(socket.write(unsent))?;
        unsent.drain(..sent);
        if unsent.is_empty() {
            *unsent = Vec::new();
            watch(set, socket, slot, line, epoll::EventFlags::IN)?;
        }
        Ok(())
    }
}

impl SeatLine {
    /// Returns a connection that is being opened, with its first bytes.
    fn new(set: &OwnedFd, socket: TcpStream, slot: usize, line: usize, unsent: Vec<u8>) -> Result<SeatLine, String> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT;
        epoll::add(set, &socket, key(slot, line), flags).map_err(|error| error.to_string())?;
        Ok(SeatLine { socket, unsent })
    }
}

fn key(slot: usize, line: usize) -> epoll::EventData {
    epoll::EventData::new_u64((slot * LINES + line) as u64)
}

fn written_bytes(result: io::Result<usize>) -> Result<usize, String> {
    match result {
        Ok(sent) => Ok(sent),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
        Err(error) => Err(connection(&error)),
    }
}

fn watch(set: &OwnedFd, socket: &TcpStream, slot: usize, line: usize, flags: epoll::EventFlags) -> Result<(), String> {
    epoll::modify(set, socket, key(slot, line), flags).map_err(|error| error.to_string())
}

fn connection(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => "the server refuses connections".into(),
        ErrorKind::ConnectionReset => "the server reset the connection".into(),
        _ => format!("the connection broke: {error}"),
    }
}

const BUFFER: usize = 64 * 1024;
const EVENTS: usize = 512;
/// The key of the timer among the events.
const TIMER: u64 = u64::MAX;
/// The longest wait for events, so that a stop is noticed.
const LONGEST: Duration = Duration::from_millis(20);
/// The time between two measurements of a thread's CPU time, in nanoseconds.
const CPU_EVERY: u64 = 50_000_000;
/// The most bytes that may wait for one socket.
const UNSENT: usize = 16 << 20;
/// The most different reasons that are kept.
const REASONS: usize = 20;
