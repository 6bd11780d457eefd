//! Listening: sockets that accept connections, and their behaviour when the process has no
//! descriptors left.
//!
//! A listener that can't accept stays ready, so a thread that waits for it would spin. Hence one
//! descriptor is held in reserve: with it, waiting connections are accepted and closed at once, so
//! that their clients notice, and the listener rests for a moment. This is logged once a minute.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with, sockopt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of descriptors to the hard one, and returns how many this process may
/// have.
pub fn raise_descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // If this is refused, the soft limit stays.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    }
    descriptors()
}

/// Returns how many descriptors this process may have.
pub(super) fn descriptors() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Opens a listener that doesn't block and lets thousands of connections wait.
///
/// # Errors
/// The system's, such as for an address that is in use, or not this machine's.
pub(super) fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    // The standard library would let only 128 wait. The system may set a lower maximum.
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

/// Prepares an accepted connection: it neither blocks nor delays output, and a silently vanished
/// peer is noticed.
///
/// # Errors
/// The system's, for connections that have already ended.
pub(super) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    keep_alive(stream)
}

/// Makes the system check whether a silent peer is alive.
///
/// # Errors
/// The system's.
pub(super) fn keep_alive(stream: impl AsFd) -> io::Result<()> {
    let stream = stream.as_fd();
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEP_ALIVE)?;
    sockopt::set_tcp_keepintvl(stream, KEEP_ALIVE / 4)?;
    Ok(sockopt::set_tcp_keepcnt(stream, PROBES)?)
}

/// A descriptor that is held in reserve for a listener.
#[derive(Debug)]
pub(super) struct Reserve {
    held: Option<OwnedFd>,
    /// The name of the listener's service, for the log.
    what: &'static str,
    /// Connections that were closed unserved since the last log line.
    closed: u64,
    told: Option<Instant>,
}

impl Reserve {
    /// Reserves a descriptor.
    ///
    /// # Errors
    /// The system's, if there are no descriptors left.
    pub(super) fn new(what: &'static str) -> io::Result<Self> {
        Ok(Self { held: Some(spare()?), what, closed: 0, told: None })
    }

    /// Accepts and closes waiting connections after `accept` failed. Returns whether the listener
    /// must rest for [`REST`]; it needn't if only a connection ended before it was accepted.
    pub(super) fn shed(&mut self, listener: impl AsFd, error: &io::Error) -> bool {
        let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
        if !exhausted.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error())) {
            return false;
        }
        drop(self.held.take());
        for _ in 0..SHED {
            match accept_with(&listener, SocketFlags::CLOEXEC) {
                Ok(client) => drop(client),
                Err(_) => break,
            }
            self.closed += 1;
        }
        self.held = spare().ok();
        if self.told.is_none_or(|told| told.elapsed() >= TELL) {
            self.told = Some(Instant::now());
            let (what, closed) = (self.what, std::mem::take(&mut self.closed));
            let most = descriptors();
            eprintln!(
                "rookery: {what}: {error}: connections closed unserved: {closed}; this process may have {most} descriptors: \
                 raise the limit (LimitNOFILE= of systemd, or `ulimit -n`)"
            );
        }
        true
    }
}

fn spare() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC)?)
}

/// The most connections that may wait to be accepted.
const BACKLOG: i32 = 4096;
/// The time for which a listener rests after it could not accept.
pub(super) const REST: Duration = Duration::from_millis(250);
/// The number of connections that are closed before the listener rests.
const SHED: usize = 256;
/// The interval between log lines about closed connections.
const TELL: Duration = Duration::from_secs(60);
/// The time of silence after which the system probes a peer.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// The number of probes that may go unanswered.
const PROBES: u32 = 4;
