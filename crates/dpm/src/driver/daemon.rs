//! A real acnetd on this machine, as one of whose tasks DPM serves: a thread carries packets
//! between the two.
//!
//! To the service, this thread is all nodes of the network: it gets the datagrams for them, and
//! theirs come from it. Towards acnetd, it is a local client for each task of this node. A daemon
//! that is started again is found within seconds; requests are then repeated by those that made
//! them, as after any loss.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rookery_observe::vital;

use super::datagram::{DATAGRAMS, LARGEST_DATAGRAM, next_datagram};
use super::set::SocketSet;
use crate::acnet::daemon::{self, DaemonTask, command};
use crate::acnet::{DPMD, PacketKind, SCALE, SYNC, packet};
use crate::rad50::Rad50;
use crate::status::Status;

/// A connection to acnetd that isn't used yet.
#[derive(Debug)]
pub struct DaemonBridge {
    acnetd: SocketAddr,
    node: u16,
    name: Rad50,
    front: UdpSocket,
    lines: Vec<DaemonLine>,
}

/// The thread between acnetd and the service. Dropping it ends the tasks.
#[derive(Debug)]
pub struct RunningBridge {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A task of this node, with its sockets.
#[derive(Debug)]
struct DaemonLine {
    task: DaemonTask,
    sockets: Option<DaemonSockets>,
    /// The time of the last acknowledgement, or of the first command after all had theirs.
    heard: Instant,
    /// The time of the last attempt to become known to the daemon.
    tried: Instant,
}

#[derive(Debug)]
struct DaemonSockets {
    commands: UdpSocket,
    packets: UdpSocket,
}

impl DaemonBridge {
    /// Makes the tasks of this node known to an acnetd.
    ///
    /// # Errors
    /// `InvalidInput` for an address of another machine, which acnetd doesn't serve; `TimedOut` if
    /// nothing answers there; `AlreadyExists` if another program has one of the tasks; the
    /// system's.
    pub fn open(acnetd: SocketAddr) -> io::Result<Self> {
        if !acnetd.is_ipv4() || !acnetd.ip().is_loopback() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "acnetd serves tasks of its own machine only"));
        }
        let front = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        front.set_nonblocking(true)?;
        let first = DaemonSockets::open(acnetd, DPMD)?;
        let node = first.ask(&command(DPMD, daemon::LOCAL_NODE, &[]))?;
        let node = node.first_chunk().map_or(0, |node| u16::from_be_bytes(*node));
        let name = first.ask(&command(DPMD, daemon::NAME_OF_NODE, &[&node.to_be_bytes()]));
        let name = name.ok().and_then(|name| name.first_chunk().map(|name| Rad50(u32::from_be_bytes(*name))));
        let mut lines = vec![DaemonLine::new(DPMD, node, first)];
        for task in [SCALE, SYNC] {
            lines.push(DaemonLine::new(task, node, DaemonSockets::open(acnetd, task)?));
        }
        Ok(Self { acnetd, node, name: name.unwrap_or(DPMD), front, lines })
    }

    /// Returns trunk and node of this machine.
    pub fn node(&self) -> u16 {
        self.node
    }

    /// Returns the name of this node.
    pub fn name(&self) -> Rad50 {
        self.name
    }

    /// Returns the address that stands for all nodes of the network.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.front.local_addr()
    }

    /// Starts the thread, for a service whose address for front-ends is given.
    ///
    /// # Errors
    /// The system's, if there can't be one more thread or descriptor.
    pub fn start(self, service: SocketAddr) -> io::Result<RunningBridge> {
        let set = SocketSet::new()?;
        set.add(&self.front, FRONT)?;
        for line in &self.lines {
            line.watch(&set)?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let mut carrier = BridgeCarrier { bridge: self, service, set, buffer: vec![0; LARGEST_DATAGRAM] };
        let is_over = Arc::clone(&stop);
        let run = move || {
            while !is_over.load(Ordering::Relaxed) {
                if let Err(error) = carrier.turn() {
                    eprintln!("rookery: acnetd can no longer be reached: {error}");
                    return;
                }
            }
            carrier.bridge.lines.iter().for_each(DaemonLine::leave);
        };
        let thread = std::thread::Builder::new().name("acnetd".into()).spawn(|| vital(run))?;
        Ok(RunningBridge { stop, thread: Some(thread) })
    }
}

impl Drop for RunningBridge {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The data of the thread.
struct BridgeCarrier {
    bridge: DaemonBridge,
    service: SocketAddr,
    set: SocketSet,
    buffer: Vec<u8>,
}

impl BridgeCarrier {
    /// Waits for packets and carries them on.
    fn turn(&mut self) -> io::Result<()> {
        let mut ready = Vec::new();
        self.set.wait(Some(TICK), &mut ready)?;
        let now = Instant::now();
        let DaemonBridge { acnetd, front, lines, .. } = &mut self.bridge;
        for _ in 0..DATAGRAMS {
            let Some((length, from)) = next_datagram(front, &mut self.buffer)? else { break };
            if from != self.service {
                continue;
            }
            packet::swap(&mut self.buffer[..length]);
            for packet in packet::packets(&self.buffer[..length]) {
                let is_reply = matches!(packet.header.kind, PacketKind::Reply | PacketKind::ReplyWithMore);
                // A reply goes by way of the task that was asked; all requests are those of DPMD.
                let line = lines.iter().position(|line| is_reply && line.task.handle() == packet.header.task);
                if let Some(line) = lines.get_mut(line.unwrap_or(0)).filter(|line| line.sockets.is_some()) {
                    line.task.send(&packet);
                }
            }
        }
        for line in lines {
            line.take(*acnetd, &mut self.buffer, now)?;
            line.look_over(*acnetd, &self.set, now);
            line.send();
            for datagram in line.task.take_packets() {
                // A datagram that can't be sent counts as lost on the way.
                let _ = front.send_to(&datagram, self.service);
            }
        }
        Ok(())
    }
}

impl DaemonLine {
    fn new(task: Rad50, node: u16, sockets: DaemonSockets) -> Self {
        let now = Instant::now();
        Self { task: DaemonTask::new(task, node), sockets: Some(sockets), heard: now, tried: now }
    }

    fn watch(&self, set: &SocketSet) -> io::Result<()> {
        let Some(sockets) = &self.sockets else { return Ok(()) };
        for socket in [&sockets.commands, &sockets.packets] {
            socket.set_nonblocking(true)?;
            set.add(socket, DAEMON)?;
        }
        Ok(())
    }

    /// Takes acknowledgements and packets of the daemon.
    fn take(&mut self, acnetd: SocketAddr, buffer: &mut [u8], now: Instant) -> io::Result<()> {
        let Some(sockets) = &self.sockets else { return Ok(()) };
        // The packets first: the acknowledgement of a request was sent before any reply to it, so
        // it is there by then.
        let mut packets = Vec::new();
        for _ in 0..DATAGRAMS {
            let Some((length, from)) = next_datagram(&sockets.packets, buffer)? else { break };
            if from == acnetd {
                packets.push(buffer[..length].to_vec());
            }
        }
        let mut is_known = true;
        while let Some((length, _)) = next_datagram(&sockets.commands, buffer)? {
            self.heard = now;
            is_known &= self.task.acknowledge(&buffer[..length]);
        }
        for packet in packets {
            self.task.take(&packet);
        }
        if !is_known {
            self.sockets = None;
        }
        Ok(())
    }

    /// Becomes known again to a daemon that has fallen silent, and shows that this task is alive.
    fn look_over(&mut self, acnetd: SocketAddr, set: &SocketSet, now: Instant) {
        let silence = now.duration_since(self.heard);
        if self.sockets.is_some() && self.task.is_waiting() && silence > SILENCE {
            self.leave();
            self.sockets = None;
        }
        if self.sockets.is_some() {
            if !self.task.is_waiting() && silence > STAY {
                self.task.stay();
            }
            return;
        }
        if now.duration_since(self.tried) < AGAIN {
            return;
        }
        self.tried = now;
        self.task.begin_again();
        if let Ok(sockets) = DaemonSockets::open(acnetd, self.task.handle()) {
            self.sockets = Some(sockets);
            self.heard = Instant::now();
            if self.watch(set).is_err() {
                self.sockets = None;
            }
        }
    }

    fn send(&mut self) {
        let Some(sockets) = &self.sockets else { return };
        if !self.task.is_waiting() && self.task.has_commands() {
            self.heard = Instant::now();
        }
        while let Some(command) = self.task.next_command() {
            // A lost command has no acknowledgement, after which the task becomes known again.
            let _ = sockets.commands.send(&command);
        }
    }

    /// Ends the task.
    fn leave(&self) {
        if let Some(sockets) = &self.sockets {
            let _ = sockets.commands.send(&command(self.task.handle(), daemon::DISCONNECT, &[]));
        }
    }
}

impl DaemonSockets {
    /// Makes a task known to the daemon.
    fn open(acnetd: SocketAddr, task: Rad50) -> io::Result<Self> {
        let (commands, packets) =
            (UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?, UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?);
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&packets, RECEIVE_BUFFER);
        commands.connect(acnetd)?;
        commands.set_read_timeout(Some(PATIENCE))?;
        let port = packets.local_addr()?.port();
        let sockets = Self { commands, packets };
        let process = std::process::id().to_be_bytes();
        sockets.ask(&command(task, daemon::CONNECT, &[&process, &port.to_be_bytes()]))?;
        sockets.ask(&command(task, daemon::RECEIVE, &[]))?;
        Ok(sockets)
    }

    /// Sends a command and waits for its acknowledgement. Returns what follows the status.
    fn ask(&self, command: &[u8]) -> io::Result<Vec<u8>> {
        let silent = || io::Error::new(io::ErrorKind::TimedOut, "no acnetd answers there");
        self.commands.send(command).map_err(|_| silent())?;
        let mut buffer = [0; 64];
        let length = self.commands.recv(&mut buffer).map_err(|_| silent())?;
        let [_, _, s0, s1, rest @ ..] = &buffer[..length] else { return Err(silent()) };
        match Status(i16::from_be_bytes([*s0, *s1])) {
            Status::SUCCESS => Ok(rest.to_vec()),
            status => Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("acnetd refused to register a task: {status}"),
            )),
        }
    }
}

const FRONT: u64 = 0;
const DAEMON: u64 = 1;
/// The longest time between two looks at the tasks, in milliseconds.
const TICK: u64 = 200;
/// The time for which the daemon is waited for at the start.
const PATIENCE: Duration = Duration::from_millis(1000);
/// The time without an acknowledgement after which the daemon counts as started again.
const SILENCE: Duration = Duration::from_secs(2);
/// The time between two signs of life.
const STAY: Duration = Duration::from_secs(5);
/// The time between two attempts to become known.
const AGAIN: Duration = Duration::from_secs(2);
/// The bytes of packets that wait: many front-ends may answer at the same moment.
const RECEIVE_BUFFER: usize = 4 << 20;
