//! The driver for Linux with io_uring: one ring per shard, entered once per tick.
//!
//! The kernel receives into buffers that all sockets of the shard share, without being asked for
//! each receive, and the sends of a tick are submitted together. Otherwise the driver does the same
//! as [`crate::epoll`], and is level-triggered as well.
//!
//! # Invariants
//!
//! * No socket holds a shared buffer while the shard waits: input that the shard hasn't read by
//!   then is copied, and a socket with much of it isn't received from.
//! * Sends never wait in the kernel. Bytes for which the kernel has no room, at most those of one
//!   tick, stay here until it has, and no others are accepted before.
//! * A removed socket has no operation in the kernel any more: its place and number may be used
//!   again, and closing it closes the connection. Its bytes stay with it ([`SystemSocket`]).
//! * A place is only used again when its operations are over, so that no completion of an earlier
//!   socket reaches a later one.
//!
//! # Layout
//!
//! * `kernel`: the ring itself; `sockets`: the state of a socket; `outputs`: the output of a tick,
//!   `sending`: its way out.

mod kernel;
mod outputs;
mod sending;
mod sockets;

use std::io::{self, ErrorKind, Read};
use std::mem;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFlags, eventfd};
use rustix::io::Errno;
use slab::Slab;
use tracing::{error, warn};

use crate::driver::Driver;
use crate::epoll::{begin_to_connect, outcome, prepare};
use crate::socket::{KeptBytes, LeftOutput, SystemSocket, wake};
use crate::system::SystemNews;
use kernel::{KernelRing, OF_NOBODY, OF_RECEIVES, RingEvent, TakenBuffer};
use outputs::{NO_OUTPUT, TickOutputs};
use sockets::{NOTHING, RingOperation, RingSocket, RingStep};

/// A ring, and the eventfd that wakes it.
pub struct RingDriver {
    kernel: KernelRing,
    wake: Arc<OwnedFd>,
    is_watching_wake: bool,
    /// True if it was woken, and hasn't reported that yet.
    is_woken: bool,
    sockets: Slab<RingSocket>,
    /// The places of sockets by their numbers; [`NOTHING`] for others.
    places: Vec<u32>,
    /// Sockets to be checked.
    stirred: Vec<u32>,
    /// Shared buffers with input of this tick, each with the next one of its socket.
    held: Vec<(Option<TakenBuffer>, u32)>,
    outputs: TickOutputs,
    sent: Vec<Result<usize, Errno>>,
    listeners: Vec<RingListener>,
    left: LeftConnections,
}

/// Connections that were closed before their output was sent.
struct LeftConnections {
    /// The closed connections that are to be taken over.
    queue: Arc<LeftOutput>,
    /// The number of connections that were taken over and still have output.
    now: usize,
}

/// A listener, by its index.
#[derive(Debug, Clone, Copy)]
struct RingListener {
    number: i32,
    is_watched: bool,
    is_ready: bool,
    is_polled: bool,
}

impl std::fmt::Debug for RingDriver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RingDriver").field("sockets", &self.sockets.len()).finish_non_exhaustive()
    }
}

impl RingDriver {
    /// Makes a ring without sockets. From its first wait on, only the thread that waits may use it.
    ///
    /// # Errors
    /// The error of the system: `ENOSYS` or `EINVAL` if it is too old, `EPERM` if it forbids rings.
    pub fn new() -> io::Result<Self> {
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        Ok(Self {
            kernel: KernelRing::new()?,
            left: LeftConnections { queue: Arc::new(LeftOutput::new(wake.clone())), now: 0 },
            wake,
            is_watching_wake: false,
            is_woken: false,
            sockets: Slab::new(),
            places: Vec::new(),
            stirred: Vec::new(),
            held: Vec::new(),
            outputs: TickOutputs::default(),
            sent: Vec::new(),
            listeners: Vec::new(),
        })
    }

    /// Returns a function that wakes a wait, from any thread.
    pub fn waker(&self) -> Box<dyn Fn() + Send + Sync> {
        let eventfd = self.wake.clone();
        Box::new(move || wake(&eventfd))
    }

    /// Watches a listener.
    pub fn add_listener(&mut self, listener: &TcpListener, index: usize) {
        let none = RingListener { number: -1, is_watched: false, is_ready: false, is_polled: false };
        if self.listeners.len() <= index {
            self.listeners.resize(index + 1, none);
        }
        if let Some(place) = self.listeners.get_mut(index) {
            (place.number, place.is_watched) = (listener.as_raw_fd(), true);
        }
    }

    /// Stops watching a listener.
    pub fn remove_listener(&mut self, listener: &TcpListener) {
        let number = listener.as_raw_fd();
        for (index, found) in self.listeners.iter_mut().enumerate().filter(|(_, found)| found.number == number) {
            (found.is_watched, found.is_ready) = (false, false);
            if found.is_polled {
                self.kernel.cancel(OF_LISTENERS + index as u64);
            }
        }
    }

    /// Sends the output of the tick, waits until something is ready or the time is over (`None`:
    /// for ever), and reports it.
    pub fn wait(&mut self, timeout: Option<Duration>, news: &mut SystemNews) {
        news.ready.clear();
        news.listeners.clear();
        self.flush();
        self.adopt_left();
        let is_ready = self.arrange();
        let waits = usize::from(!is_ready);
        if let Err(error) = self.kernel.enter(waits, timeout) {
            error!(%error, "waiting for sockets failed");
        }
        // Each entry does the work of only some sockets.
        for _ in 0..MORE_ENTRIES {
            if self.take_events() < WORTH_ANOTHER || self.kernel.enter(0, None).is_err() {
                break;
            }
        }
        self.take_events();
        self.is_woken = false;
        for at in 0..self.stirred.len() {
            let socket = self.stirred.get(at).and_then(|place| self.sockets.get(*place as usize));
            if let Some(ready) = socket.filter(|socket| socket.is_stirred).and_then(RingSocket::ready) {
                news.ready.push(ready);
            }
        }
        for (index, listener) in self.listeners.iter_mut().enumerate() {
            if mem::take(&mut listener.is_ready) && listener.is_watched {
                news.listeners.push(index);
            }
        }
    }

    /// Brings the kernel's operations up to date, and takes the shared buffers back. Returns
    /// whether something is ready already.
    fn arrange(&mut self) -> bool {
        if !mem::replace(&mut self.is_watching_wake, true) {
            // The counter of the eventfd is never read: each time that it grows is an event.
            self.kernel.poll(self.wake.as_raw_fd(), PollFlags::IN, true, WAKE);
        }
        for index in 0..self.listeners.len() {
            if let Some(listener) = self.listeners.get_mut(index).filter(|one| one.is_watched && !one.is_polled) {
                listener.is_polled = true;
                self.kernel.poll(listener.number, PollFlags::IN, false, OF_LISTENERS + index as u64);
            }
        }
        let mut is_ready = self.is_woken || self.listeners.iter().any(|listener| listener.is_ready);
        let mut stirred = mem::take(&mut self.stirred);
        stirred.retain(|&place| {
            if !self.sockets.get(place as usize).is_some_and(|socket| socket.is_stirred) {
                return false;
            }
            self.spill(place);
            self.arrange_socket(place);
            let Some(socket) = self.sockets.get_mut(place as usize) else { return false };
            socket.is_stirred = socket.ready().is_some();
            socket.is_stirred
        });
        is_ready |= !stirred.is_empty() || self.kernel.waiting() > 0;
        stirred.append(&mut self.stirred);
        self.stirred = stirred;
        self.held.clear();
        is_ready
    }

    fn arrange_socket(&mut self, place: u32) {
        let Some(socket) = self.sockets.get_mut(place as usize) else { return };
        let (number, data) = (socket.number, u64::from(place));
        match socket.receive_step() {
            RingStep::Rest => {}
            RingStep::Begin => self.kernel.receive(number, data | OF_RECEIVES),
            RingStep::Cancel => self.kernel.cancel(data | OF_RECEIVES),
        }
        match socket.poll_step() {
            (RingStep::Rest, _) => {}
            (RingStep::Begin, events) => self.kernel.poll(number, events, true, data),
            (RingStep::Cancel, _) => self.kernel.cancel(data),
        }
    }

    fn stir(&mut self, place: u32) {
        if let Some(socket) = self.sockets.get_mut(place as usize)
            && !mem::replace(&mut socket.is_stirred, true)
        {
            self.stirred.push(place);
        }
    }

    /// Processes all completions that are there, and returns how many there were.
    fn take_events(&mut self) -> usize {
        let mut count = 0;
        while let Some(event) = self.kernel.next_event() {
            count += 1;
            match event.data {
                OF_NOBODY => {}
                WAKE => {
                    self.is_woken = true;
                    self.is_watching_wake &= event.goes_on;
                }
                data if data & OF_RECEIVES != 0 => self.received((data & !OF_RECEIVES) as u32, event),
                data if data >= OF_LISTENERS => {
                    if let Some(listener) = self.listeners.get_mut((data - OF_LISTENERS) as usize) {
                        (listener.is_polled, listener.is_ready) = (false, event.result.is_ok());
                    }
                }
                data => self.polled(data as u32, &event),
            }
        }
        count
    }

    fn received(&mut self, place: u32, event: RingEvent) {
        if !event.goes_on {
            self.kernel.receive_ended();
        }
        let Some(socket) = self.sockets.get_mut(place as usize) else {
            event.buffer.into_iter().for_each(|buffer| self.kernel.give_back(buffer));
            return;
        };
        if !event.goes_on {
            socket.receive = RingOperation::None;
        }
        match event.result {
            Ok(0) => socket.input.has_ended = true,
            Ok(_) => {}
            // We have ended the receive, or no buffer was left: it begins again when operations are
            // next brought up to date.
            Err(Errno::CANCELED | Errno::NOBUFS | Errno::AGAIN | Errno::INTR) => {}
            Err(error) => socket.error = Some(error),
        }
        match event.buffer {
            Some(buffer) if event.result.is_ok_and(|len| len > 0) => {
                let at = self.held.len() as u32;
                self.held.push((Some(buffer), NOTHING));
                let last = mem::replace(&mut socket.input.last, at);
                match self.held.get_mut(last as usize).filter(|_| socket.input.first != NOTHING) {
                    Some((_, next)) => *next = at,
                    None => (socket.input.first, socket.input.read_of_first) = (at, 0),
                }
            }
            Some(buffer) => self.kernel.give_back(buffer),
            None => {}
        }
        self.stir(place);
    }

    fn polled(&mut self, place: u32, event: &RingEvent) {
        let Some(socket) = self.sockets.get_mut(place as usize) else { return };
        if !event.goes_on {
            socket.poll = RingOperation::None;
        }
        let is_writable = socket.polled(event.result);
        self.stir(place);
        if let Some(socket) = self.sockets.get_mut(place as usize)
            && is_writable
            && !socket.output.unsent.is_empty()
        {
            let unsent = mem::take(&mut socket.output.unsent);
            self.send_rest(place, unsent);
        }
    }

    /// Copies input that nobody has read, and gives its buffers back.
    fn spill(&mut self, place: u32) {
        let Some(socket) = self.sockets.get_mut(place as usize).filter(|socket| socket.input.first != NOTHING) else {
            return;
        };
        let (mut at, mut read) = (socket.input.first, socket.input.read_of_first as usize);
        (socket.input.first, socket.input.last, socket.input.read_of_first) = (NOTHING, NOTHING, 0);
        let spilled = &mut socket.input.spilled;
        while let Some((buffer, next)) = self.held.get_mut(at as usize) {
            if let Some(buffer) = buffer.take() {
                spilled.extend_from_slice(self.kernel.bytes(&buffer).get(read..).unwrap_or_default());
                self.kernel.give_back(buffer);
            }
            (at, read) = (*next, 0);
        }
    }

    fn place(&self, socket: &SystemSocket) -> Option<u32> {
        let number = usize::try_from(socket.number()).ok()?;
        self.places.get(number).copied().filter(|place| *place != NOTHING)
    }

    /// Ends the operations of a socket, and waits for that.
    fn end_operations(&mut self, place: u32) -> bool {
        for _ in 0..MOST_LOOKS {
            let Some(socket) = self.sockets.get_mut(place as usize) else { return true };
            let data = u64::from(place);
            for (operation, data) in [(&mut socket.receive, data | OF_RECEIVES), (&mut socket.poll, data)] {
                if *operation == RingOperation::Begun {
                    *operation = RingOperation::Cancelled;
                    self.kernel.cancel(data);
                }
            }
            if socket.receive == RingOperation::None && socket.poll == RingOperation::None {
                return true;
            }
            if let Err(error) = self.kernel.enter(1, Some(Duration::from_millis(10))) {
                error!(%error, "the operations of a socket can't be ended");
                return false;
            }
            self.take_events();
        }
        false
    }
}

impl Driver for RingDriver {
    type Socket = SystemSocket;

    fn connect(&mut self, address: SocketAddr) -> io::Result<SystemSocket> {
        begin_to_connect(address).map(SystemSocket::from)
    }

    fn connect_result(&mut self, socket: &SystemSocket) -> io::Result<()> {
        outcome(&socket.stream)
    }

    fn add(&mut self, socket: &SystemSocket, key: u32) -> io::Result<()> {
        prepare(&socket.stream)?;
        if self.place(socket).is_some() {
            self.remove(socket);
        }
        let mut watched = RingSocket::new(socket.number(), key);
        watched.is_connecting = socket.stream.peer_addr().is_err();
        if let Some(kept) = socket.take_kept() {
            (watched.input.spilled, watched.output.unsent) = (kept.input, kept.output);
        }
        let number = socket.number() as usize;
        if self.places.len() <= number {
            self.places.resize(number + 1, NOTHING);
        }
        let place = self.sockets.insert(watched) as u32;
        if let Some(found) = self.places.get_mut(number) {
            *found = place;
        }
        self.stir(place);
        Ok(())
    }

    fn interest(&mut self, socket: &SystemSocket, key: u32, read: bool, write: bool) {
        let Some(place) = self.place(socket) else { return };
        if let Some(watched) = self.sockets.get_mut(place as usize) {
            // The receive reports the reason, and the input before it.
            watched.is_broken &= !read;
            (watched.key, watched.input.reads, watched.output.writes) = (key, read, write);
        }
        self.stir(place);
    }

    fn remove(&mut self, socket: &SystemSocket) {
        let Some(place) = self.place(socket) else { return };
        self.flush_socket(place);
        let has_ended = self.end_operations(place);
        self.spill(place);
        if let Some(found) = self.places.get_mut(socket.number() as usize) {
            *found = NOTHING;
        }
        let Some(watched) = self.sockets.get_mut(place as usize) else { return };
        let (input, output) = (mem::take(&mut watched.input.spilled), mem::take(&mut watched.output.unsent));
        socket.keep(KeptBytes { input, output, left: self.left.queue.clone() });
        if has_ended {
            self.sockets.remove(place as usize);
        } else {
            // The socket's place stays taken, so that no completion reaches another socket.
            warn!("the kernel doesn't end the operations of a socket");
            (watched.input.reads, watched.output.writes, watched.input.has_ended) = (false, false, true);
        }
    }

    fn recv(&mut self, socket: &SystemSocket, buffer: &mut [u8]) -> io::Result<usize> {
        let place = self.place(socket).ok_or(ErrorKind::NotConnected)?;
        let watched = self.sockets.get_mut(place as usize).ok_or(ErrorKind::NotConnected)?;
        let mut len = watched.input.spilled.as_slice().read(buffer)?;
        watched.input.spilled.drain(..len);
        if watched.input.spilled.is_empty() && len > 0 {
            watched.input.spilled = Vec::new();
        }
        while let Some((held, next)) = self.held.get_mut(watched.input.first as usize) {
            let room = buffer.get_mut(len..).unwrap_or_default();
            if room.is_empty() {
                return Ok(len);
            }
            let whole = held.as_ref().map_or(&[][..], |held| self.kernel.bytes(held));
            let mut rest = whole.get(watched.input.read_of_first as usize..).unwrap_or_default();
            let some = rest.read(room)?;
            len += some;
            watched.input.read_of_first += some as u32;
            if rest.is_empty() {
                (watched.input.first, watched.input.read_of_first) = (*next, 0);
                held.take().into_iter().for_each(|held| self.kernel.give_back(held));
            }
        }
        if len > 0 {
            return Ok(len);
        }
        match watched.error {
            Some(error) => Err(error.into()),
            None if watched.is_broken => Err(ErrorKind::ConnectionReset.into()),
            None if watched.input.has_ended => Ok(0),
            None => Err(ErrorKind::WouldBlock.into()),
        }
    }

    fn send(&mut self, socket: &SystemSocket, bytes: &[u8]) -> io::Result<usize> {
        let place = self.place(socket).ok_or(ErrorKind::NotConnected)?;
        if bytes.is_empty() {
            return Ok(0);
        }
        for _ in 0..2 {
            let watched = self.sockets.get_mut(place as usize).ok_or(ErrorKind::NotConnected)?;
            if let Some(error) = watched.error {
                return Err(error.into());
            }
            if !watched.output.unsent.is_empty() || watched.is_connecting {
                return Err(ErrorKind::WouldBlock.into());
            }
            let waits = TickOutputs::takes(bytes);
            if waits && let Some(at) = self.outputs.add(place, watched.output.at, bytes) {
                watched.output.at = at;
                return Ok(bytes.len());
            }
            match watched.output.at {
                NO_OUTPUT if !waits => break,
                // The output of the tick is full.
                NO_OUTPUT => self.flush(),
                _ => self.flush_socket(place),
            }
        }
        let watched = self.sockets.get_mut(place as usize).ok_or(ErrorKind::NotConnected)?;
        if !watched.output.unsent.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let sent = kernel::send_now(watched.number, bytes);
        watched.output.is_writable &= sent.as_ref().is_ok_and(|sent| *sent == bytes.len());
        sent
    }

    fn shutdown(&mut self, socket: &SystemSocket) {
        let Some(place) = self.place(socket) else { return };
        self.flush_socket(place);
        let Some(watched) = self.sockets.get_mut(place as usize) else { return };
        match watched.output.unsent.is_empty() {
            true => kernel::end_now(watched.number),
            false => watched.output.is_ending = true,
        }
    }
}

impl Drop for RingDriver {
    fn drop(&mut self) {
        self.flush();
        let (deadline, mut news) = (Instant::now() + LAST_OUTPUT, SystemNews::default());
        self.adopt_left();
        while self.left.now > 0 && Instant::now() < deadline {
            self.wait(Some(Duration::from_millis(10)), &mut news);
        }
    }
}

/// The numbers of the poll of the eventfd and of those of listeners; the polls of sockets have
/// lower ones.
const WAKE: u64 = 1 << 60;
const OF_LISTENERS: u64 = 1 << 40;
/// Completions of an entry after which another entry is worth its cost, and the most entries of
/// this kind.
const WORTH_ANOTHER: usize = 16;
const MORE_ENTRIES: usize = 32;
/// Waits of 10 ms for the operations of a socket that is removed.
const MOST_LOOKS: usize = 100;
/// The time for which a shard that ends waits for the output of closed connections.
const LAST_OUTPUT: Duration = Duration::from_secs(1);
