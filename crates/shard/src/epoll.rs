//! The driver for Linux: non-blocking TCP sockets in one epoll set per shard, level-triggered.
//!
//! Sockets are level-triggered because each report of readiness is followed by one `recv` only:
//! there is no second, failing read to find out that a socket is empty (about 1 µs per message).

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use tracing::warn;

use crate::driver::{Driver, ReadySocket};
use crate::socket::wake;
use crate::system::SystemNews;

/// An epoll set, and the eventfd that wakes it.
#[derive(Debug)]
pub struct Epoll {
    set: OwnedFd,
    wake: Arc<OwnedFd>,
}

impl Epoll {
    /// Makes an empty set.
    ///
    /// # Errors
    /// The error of the system when it gives no descriptor.
    pub fn new() -> io::Result<Self> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        // Its counter is never read, which would be a call more for each wake: edge-triggered, each
        // time that it grows is an event.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&set, &wake, epoll::EventData::new_u64(WAKE), flags)?;
        Ok(Self { set, wake })
    }

    /// Returns a function that wakes a wait, from any thread.
    pub fn waker(&self) -> Box<dyn Fn() + Send + Sync> {
        let eventfd = self.wake.clone();
        Box::new(move || wake(&eventfd))
    }

    /// Watches a listener.
    ///
    /// # Errors
    /// The error of the system.
    pub fn add_listener(&mut self, listener: &TcpListener, index: usize) -> io::Result<()> {
        let data = epoll::EventData::new_u64(LISTENERS + index as u64);
        Ok(epoll::add(&self.set, listener, data, epoll::EventFlags::IN)?)
    }

    /// Stops watching a listener.
    pub fn remove_listener(&mut self, listener: &TcpListener) {
        let _ = epoll::delete(&self.set, listener);
    }

    /// Waits until something is ready or the time is over (`None`: for ever), and reports it.
    pub fn wait(&mut self, timeout: Option<Duration>, news: &mut SystemNews) {
        news.ready.clear();
        news.listeners.clear();
        news.events.clear();
        news.events.reserve(EVENTS);
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match epoll::wait(&self.set, rustix::buffer::spare_capacity(&mut news.events), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => warn!(%error, "waiting for sockets failed"),
        }
        for event in &news.events {
            match event.data.u64() {
                WAKE => {}
                listener if listener >= LISTENERS => news.listeners.push((listener - LISTENERS) as usize),
                key => {
                    let read = epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
                    let write = epoll::EventFlags::OUT;
                    let flags = event.flags;
                    news.ready.push(ReadySocket {
                        key: key as u32,
                        read: flags.intersects(read),
                        write: flags.intersects(write),
                    });
                }
            }
        }
    }
}

impl Driver for Epoll {
    type Socket = TcpStream;

    fn connect(&mut self, address: SocketAddr) -> io::Result<TcpStream> {
        begin_to_connect(address)
    }

    fn connect_result(&mut self, socket: &TcpStream) -> io::Result<()> {
        outcome(socket)
    }

    fn add(&mut self, socket: &TcpStream, key: u32) -> io::Result<()> {
        prepare(socket)?;
        Ok(epoll::add(&self.set, socket, epoll::EventData::new_u64(u64::from(key)), epoll::EventFlags::IN)?)
    }

    fn interest(&mut self, socket: &TcpStream, key: u32, read: bool, write: bool) {
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, read);
        flags.set(epoll::EventFlags::OUT, write);
        if let Err(error) = epoll::modify(&self.set, socket, epoll::EventData::new_u64(u64::from(key)), flags) {
            let peer = socket.peer_addr().ok();
            warn!(?peer, %error, "a socket can't be watched");
        }
    }

    fn remove(&mut self, socket: &TcpStream) {
        let _ = epoll::delete(&self.set, socket);
    }

    fn recv(&mut self, mut socket: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        retry(|| socket.read(buffer))
    }

    fn send(&mut self, mut socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
        retry(|| socket.write(bytes))
    }

    fn shutdown(&mut self, socket: &TcpStream) {
        let _ = socket.shutdown(Shutdown::Write);
    }
}

/// Begins to connect, without waiting.
///
/// # Errors
/// The error of the system at once.
pub(crate) fn begin_to_connect(address: SocketAddr) -> io::Result<TcpStream> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
        Err(error) => Err(error.into()),
    }
}

/// Returns the outcome of [`begin_to_connect`], for a socket that is ready.
///
/// # Errors
/// The reason why it isn't connected.
pub(crate) fn outcome(socket: &TcpStream) -> io::Result<()> {
    match socket.take_error()? {
        Some(error) => Err(error),
        None => socket.peer_addr().map(drop),
    }
}

/// Sets the options that all connections have.
///
/// # Errors
/// The error of the system; the socket can't be used then.
pub(crate) fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    // Stanzas are written whole, once per tick: waiting for more would only delay them.
    socket.set_nodelay(true)?;
    rustix::net::sockopt::set_socket_keepalive(socket.as_fd(), true)?;
    rustix::net::sockopt::set_tcp_user_timeout(socket.as_fd(), NO_PROGRESS_MS)?;
    Ok(())
}

fn retry(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

const WAKE: u64 = u64::MAX;
const LISTENERS: u64 = 1 << 40;
/// Events per wait.
const EVENTS: usize = 1024;
/// Milliseconds without progress after which a peer is considered gone (`TCP_USER_TIMEOUT`).
const NO_PROGRESS_MS: u32 = 60_000;

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Instant;

    use super::*;

    /// Returns whether a wait ends before its time is over.
    fn is_woken(epoll: &mut Epoll, most: Duration) -> bool {
        let start = Instant::now();
        epoll.wait(Some(most), &mut SystemNews::default());
        start.elapsed() < most
    }

    #[test]
    fn each_wake_ends_one_wait() {
        let mut epoll = Epoll::new().expect("an epoll set");
        let (wake, short, long) = (epoll.waker(), Duration::from_millis(20), Duration::from_secs(60));
        for _ in 0..3 {
            wake();
            wake();
            assert!(is_woken(&mut epoll, long), "woken before it waits");
            assert!(!is_woken(&mut epoll, short), "the same wake doesn't count twice");
            thread::scope(|scope| {
                scope.spawn(|| {
                    thread::sleep(short);
                    wake();
                });
                assert!(is_woken(&mut epoll, long), "woken while it waits");
            });
        }
    }
}
