//! The least that a messaging server can do, for comparison: it passes lines on between the two
//! connections of a pair.
//!
//! It has two threads, each with its own epoll set, like a server with two shards. Half of the
//! pairs have both ends on one thread, the other half one end on each. There is no XML, no address
//! and no queue: input is written unchanged. A second relay does the same with a ring (io_uring)
//! per thread. A relay runs as a child process of the benchmark, which executes itself with
//! [`ARGUMENT`], so that its CPU time can be read like a server's.

use std::env;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use rookery_shard::system::SystemNews;
use rookery_shard::{Driver, SystemInterface, SystemSocket, ring::RingDriver};
use rustix::event::{PollFd, PollFlags, epoll, poll};

use crate::BenchOutcome;

/// The first argument of an executable that is to be a relay; the second is the number of pairs,
/// the third the interface that it uses.
pub const ARGUMENT: &str = "--relay";

/// A relay in a child process; killed when dropped.
#[derive(Debug)]
pub struct BareRelay {
    child: Child,
    /// The address at which it listens. The first two connections are a pair, the next two another,
    /// and so on.
    pub address: SocketAddr,
}

impl BareRelay {
    /// Starts this executable again as a relay.
    ///
    /// # Errors
    /// The error of the system.
    pub fn start(pairs: usize, interface: SystemInterface) -> BenchOutcome<BareRelay> {
        let mut command = Command::new(env::current_exe()?);
        let mut child =
            command.args([ARGUMENT, &pairs.to_string(), interface.name()]).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        Ok(BareRelay { child, address: line.trim().parse()? })
    }

    /// Returns the number of the process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for BareRelay {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves as a relay if the arguments of this process say so, and then returns only when a
/// connection is closed. Returns `false` at once if they don't.
///
/// # Errors
/// The error of the system.
pub fn be_one_if_told() -> BenchOutcome<bool> {
    let arguments: Vec<String> = env::args().collect();
    let [_, argument, pairs, interface, ..] = arguments.as_slice() else { return Ok(false) };
    if argument != ARGUMENT {
        return Ok(false);
    }
    let is_ring = *interface == SystemInterface::IoUring.name();
    run(pairs.parse()?, if is_ring { SystemInterface::IoUring } else { SystemInterface::Epoll })?;
    Ok(true)
}

struct RelayEnd {
    socket: Arc<TcpStream>,
    peer: Arc<TcpStream>,
    /// The beginning of an unfinished line.
    carry: Vec<u8>,
}

/// Serves as a relay for this number of pairs: prints its address, and returns when a connection is
/// closed.
///
/// # Errors
/// The error of the system.
pub fn run(pairs: usize, interface: SystemInterface) -> BenchOutcome<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    println!("{}", listener.local_addr()?);
    let mut threads = [Vec::new(), Vec::new()];
    for pair in 0..pairs {
        let one = Arc::new(accept(&listener)?);
        let other = Arc::new(accept(&listener)?);
        let [first, second] = &mut threads;
        let (one_end, other_end) = (RelayEnd::new(&one, &other), RelayEnd::new(&other, &one));
        match pair % 4 {
            0 => first.extend([one_end, other_end]),
            1 => second.extend([one_end, other_end]),
            2 => {
                first.push(one_end);
                second.push(other_end);
            }
            _ => {
                second.push(one_end);
                first.push(other_end);
            }
        }
    }
    let serve = match interface {
        SystemInterface::IoUring => serve_by_ring,
        _ => serve,
    };
    let running = threads.map(|ends| std::thread::spawn(move || serve(ends).map_err(|error| error.to_string())));
    for thread in running {
        thread.join().map_err(|_| "a thread panicked")??;
    }
    Ok(())
}

fn accept(listener: &TcpListener) -> BenchOutcome<TcpStream> {
    let (socket, _) = listener.accept()?;
    socket.set_nonblocking(true)?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

fn serve(mut ends: Vec<RelayEnd>) -> BenchOutcome<()> {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (number, end) in ends.iter().enumerate() {
        epoll::add(&set, &end.socket, epoll::EventData::new_u64(number as u64), epoll::EventFlags::IN)?;
    }
    let (mut buffer, mut events) = (vec![0; BUFFER], Vec::with_capacity(EVENTS));
    loop {
        events.clear();
        match epoll::wait(&set, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            let Some(end) = ends.get_mut(event.data.u64() as usize) else { continue };
            match (&*end.socket).read(&mut buffer) {
                // The benchmark is over.
                Ok(0) => return Ok(()),
                Ok(len) => end.pass_on(buffer.get(..len).unwrap_or_default(), write)?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Does the work of [`serve`] with a ring instead of an epoll set.
fn serve_by_ring(mut ends: Vec<RelayEnd>) -> BenchOutcome<()> {
    let (mut driver, mut news) = (RingDriver::new()?, SystemNews::default());
    let sockets = ends.iter().map(|end| Ok(SystemSocket::from(end.socket.try_clone()?)));
    let sockets = sockets.collect::<std::io::Result<Vec<_>>>()?;
    // The peers of this thread, whose output is submitted by its ring.
    let own: Vec<_> =
        ends.iter().map(|end| ends.iter().position(|other| Arc::ptr_eq(&other.socket, &end.peer))).collect();
    for (number, socket) in sockets.iter().enumerate() {
        driver.add(socket, number as u32)?;
    }
    let mut buffer = vec![0; BUFFER];
    loop {
        driver.wait(None, &mut news);
        for ready in &news.ready {
            let number = ready.key as usize;
            let (Some(end), Some(socket)) = (ends.get_mut(number), sockets.get(number)) else { continue };
            match driver.recv(socket, &mut buffer) {
                // The benchmark is over.
                Ok(0) => return Ok(()),
                Ok(len) => {
                    let peer = own.get(number).copied().flatten().and_then(|peer| sockets.get(peer));
                    end.pass_on(buffer.get(..len).unwrap_or_default(), |elsewhere, lines| match peer {
                        None => write(elsewhere, lines),
                        Some(peer) => match driver.send(peer, lines) {
                            Ok(sent) if sent == lines.len() => Ok(()),
                            Ok(_) => Err("a pair has more on its way than fits".into()),
                            Err(error) => Err(error.into()),
                        },
                    })?;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl RelayEnd {
    fn new(socket: &Arc<TcpStream>, peer: &Arc<TcpStream>) -> RelayEnd {
        RelayEnd { socket: socket.clone(), peer: peer.clone(), carry: Vec::new() }
    }

    /// Writes whole lines to the peer.
    fn pass_on(&mut self, bytes: &[u8], write: impl FnOnce(&TcpStream, &[u8]) -> BenchOutcome<()>) -> BenchOutcome<()> {
        let whole = memchr::memrchr(b'\n', bytes).map_or(0, |end| end + 1);
        let (lines, rest) = bytes.split_at_checked(whole).unwrap_or((bytes, &[]));
        if self.carry.is_empty() {
            if whole > 0 {
                write(&self.peer, lines)?;
            }
        } else {
            self.carry.extend_from_slice(lines);
            if whole > 0 {
                write(&self.peer, &std::mem::take(&mut self.carry))?;
            }
        }
        self.carry.extend_from_slice(rest);
        Ok(())
    }
}

/// Writes everything, and waits if the socket is full, which it never is with the few messages of a
/// pair.
fn write(mut socket: &TcpStream, mut bytes: &[u8]) -> BenchOutcome<()> {
    while !bytes.is_empty() {
        match socket.write(bytes) {
            Ok(sent) => bytes = bytes.get(sent..).unwrap_or_default(),
            // The benchmark is over, as the next read shows.
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                poll(&mut [PollFd::new(socket, PollFlags::OUT)], None)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

const BUFFER: usize = 64 * 1024;
const EVENTS: usize = 1024;
