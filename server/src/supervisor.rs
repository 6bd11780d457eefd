//! The messages of a server to the systemd that started it (sd_notify(3)): that it is ready,
//! reloads its configuration, stops, or is alive. Without systemd nothing happens here.
//!
//! # Invariants
//!
//! - Liveness is reported only if every shard has done a piece of work since the last report: a
//!   shard that hangs keeps its clients connected but unserved, and nothing else would notice.
//! - A server that can't notify systemd runs all the same.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use rookery_shard::Door;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tracing::warn;

use crate::failure::CommandFailure;

/// The state of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SupervisorState {
    /// All ports listen, and the configuration is in force.
    Ready,
    /// It reads its configuration again, or restarts in the same process;
    /// [`SupervisorState::Ready`] follows.
    Reloading,
    /// It ends.
    Stopping,
    /// Every shard works.
    Alive,
}

/// Reports a state to systemd, if it has asked for that.
pub fn tell(state: SupervisorState) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(socket.as_bytes(), state.words().as_bytes()) {
        warn!(?state, %error, "systemd can't be notified");
    }
}

/// Hands systemd a copy of a socket to keep under a name until the service is stopped for good, if
/// it keeps any.
pub fn keep(name: &str, socket: BorrowedFd<'_>) {
    let is_kept = std::env::var("FDSTORE").ok().and_then(|most| most.parse::<u32>().ok()).is_some_and(|most| most > 0);
    let Some(to) = std::env::var_os("NOTIFY_SOCKET").filter(|_| is_kept) else { return };
    let words = format!("FDSTORE=1\nFDNAME={name}");
    if let Err(error) = send_with(to.as_bytes(), words.as_bytes(), socket) {
        warn!(name, %error, "systemd can't keep a socket; connections are refused during a restart");
    }
}

/// Tells systemd to drop a socket that it keeps.
pub fn forget(name: &str) {
    let Some(to) = std::env::var_os("NOTIFY_SOCKET").filter(|_| std::env::var_os("FDSTORE").is_some()) else { return };
    if let Err(error) = send(to.as_bytes(), format!("FDSTOREREMOVE=1\nFDNAME={name}").as_bytes()) {
        warn!(name, %error, "systemd can't be notified");
    }
}

impl SupervisorState {
    fn words(self) -> String {
        match self {
            SupervisorState::Ready => "READY=1".to_owned(),
            SupervisorState::Reloading => {
                let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
                format!("RELOADING=1\nMONOTONIC_USEC={}", now.tv_sec * 1_000_000 + now.tv_nsec / 1000)
            }
            SupervisorState::Stopping => "STOPPING=1".to_owned(),
            SupervisorState::Alive => "WATCHDOG=1".to_owned(),
        }
    }
}

/// Sends a datagram to a socket in the file system, or to an abstract one, whose name begins with
/// an `@` here.
fn send(socket: &[u8], words: &[u8]) -> io::Result<()> {
    UnixDatagram::unbound()?.send_to_addr(words, &address(socket)?).map(drop)
}

/// Sends a datagram with a descriptor.
fn send_with(socket: &[u8], words: &[u8], with: BorrowedFd<'_>) -> io::Result<()> {
    let datagrams = UnixDatagram::unbound()?;
    datagrams.connect_addr(&address(socket)?)?;
    let descriptors = [with];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    beside.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(&datagrams, &[IoSlice::new(words)], &mut beside, SendFlags::empty())?;
    Ok(())
}

fn address(socket: &[u8]) -> io::Result<SocketAddr> {
    match socket.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(socket)),
    }
}

/// The thread that reports liveness to systemd. It ends soon after this handle is dropped.
pub struct Watchdog {
    _stop: Sender<()>,
}

impl Watchdog {
    /// Starts the thread; `None` if systemd has no watchdog for this process.
    ///
    /// # Errors
    ///
    /// [`CommandFailure::Failed`] if the operating system refuses a thread.
    pub fn start(door: Door, shards: usize) -> Result<Option<Watchdog>, CommandFailure> {
        let Some(patience) = patience() else { return Ok(None) };
        let (stop, stopped) = mpsc::channel();
        let ask = move |shard, work: Box<dyn FnOnce() + Send>| door.run_at(shard, |_| work());
        let work = move || feed(patience / 3, &stopped, shards, ask, || tell(SupervisorState::Alive));
        let thread = std::thread::Builder::new().name("watchdog".into()).spawn(|| rookery_observe::vital(work));
        thread.map_err(|error| CommandFailure::Failed(format!("the watchdog's thread can't be started: {error}")))?;
        Ok(Some(Watchdog { _stop: stop }))
    }
}

/// Returns the interval within which systemd expects a report from this process; `None` if it
/// expects none.
fn patience() -> Option<Duration> {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
    number("WATCHDOG_USEC").filter(|usec| *usec > 0 && is_ours).map(Duration::from_micros)
}

/// Gives every shard a piece of work, calls `alive` once all are done, and repeats that after the
/// `period`, until it is stopped or a shard has ended.
fn feed(
    period: Duration,
    stopped: &Receiver<()>,
    shards: usize,
    ask: impl Fn(usize, Box<dyn FnOnce() + Send>),
    alive: impl Fn(),
) {
    loop {
        let (done, answers) = mpsc::channel();
        for shard in 0..shards {
            let done = done.clone();
            // The thread may have ended by then.
            ask(shard, Box::new(move || _ = done.send(())));
        }
        drop(done);
        // There is no time limit: systemd has its own.
        if !(0..shards).all(|_| answers.recv().is_ok()) {
            return;
        }
        alive();
        if stopped.recv_timeout(period) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn one_shard_that_hangs_is_enough() {
        let (_stop, stopped) = mpsc::channel();
        let (round, fed) = (Cell::new(0), Cell::new(0));
        // The second shard does no work in the third round; when its process ends, the work is
        // dropped.
        let ask = |shard, work: Box<dyn FnOnce() + Send>| {
            round.set(round.get() + usize::from(shard == 0));
            if !(shard == 1 && round.get() == 3) {
                work();
            }
        };
        feed(Duration::ZERO, &stopped, 3, ask, || fed.set(fed.get() + 1));
        assert_eq!((round.get(), fed.get()), (3, 2));
    }

    #[test]
    fn names_of_both_kinds_are_reached() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let name = format!("rookery-test-{}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name).expect("a name");
        let sockets = [
            (UnixDatagram::bind(&path).expect("a socket"), path.as_os_str().as_bytes().to_vec()),
            (UnixDatagram::bind_addr(&abstract_name).expect("a socket"), format!("@{name}").into_bytes()),
        ];
        for (socket, address) in sockets {
            send(&address, b"READY=1").expect("it is sent");
            let mut buffer = [0; 64];
            let len = socket.recv(&mut buffer).expect("it is there");
            assert_eq!(&buffer[..len], b"READY=1");
        }
    }
}
