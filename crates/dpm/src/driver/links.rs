//! The sockets of the networks of servers: one for searches, and a connection to each server.
//!
//! All decisions are made in the pool. Connections are opened without blocking, and a connection
//! whose server doesn't read is ended.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::datagram::next_datagram;
use super::listen;
use super::set::{Ready, SocketSet};
use super::stream::LinkStream;
use crate::link::{Came, Goes, LinkNetwork, LinkNumber, LinkTrust};

/// The sockets of one network.
#[derive(Debug)]
pub(super) struct LinkSockets {
    /// The key of the socket for searches; connections have the keys that follow.
    base: u64,
    /// The name for its connections in the log.
    what: &'static str,
    /// The socket for searches, opened with the first one.
    search: Option<UdpSocket>,
    /// The port of that socket, if it was requested and not reported.
    bound: Option<u16>,
    lines: Vec<Option<LinkLine>>,
    /// Connections that broke, or could not be made.
    broken: Vec<LinkNumber>,
    /// The time of the last log line about an ended connection, in milliseconds, and the number of
    /// connections that have ended since.
    told: Option<u64>,
    ended: u64,
}

/// A connection.
#[derive(Debug)]
struct LinkLine {
    stream: LinkStream,
    server: SocketAddr,
    /// True if the connection is open, though the server may still have to prove its identity.
    is_made: bool,
    is_up: bool,
    /// Bytes that the socket did not take.
    unsent: Vec<u8>,
}

impl LinkSockets {
    /// Returns the sockets of all networks, in their order.
    pub(super) fn all() -> Vec<Self> {
        let networks = LinkNetwork::ALL.into_iter().enumerate();
        networks.map(|(place, network)| Self::new(NETWORKS + place as u64 * KEYS, name(network))).collect()
    }

    /// Returns sockets whose keys begin with `base`.
    fn new(base: u64, what: &'static str) -> Self {
        Self { base, what, search: None, bound: None, lines: Vec::new(), broken: Vec::new(), told: None, ended: 0 }
    }

    /// Returns the place of the network whose socket has a key.
    pub(super) fn of_key(key: u64) -> Option<usize> {
        let place = usize::try_from(key.checked_sub(NETWORKS)? / KEYS).ok()?;
        (place < LinkNetwork::ALL.len()).then_some(place)
    }

    /// Returns whether a key is that of the socket for searches.
    pub(super) fn is_search(key: u64) -> bool {
        key.wrapping_sub(NETWORKS).is_multiple_of(KEYS)
    }

    /// Carries out orders of the pool.
    pub(super) fn obey(&mut self, goes: Goes, set: &SocketSet, now: u64) {
        match goes {
            Goes::Bind => {
                let address = self.search(set).and_then(UdpSocket::local_addr);
                self.bound = address.ok().map(|address| address.port());
            }
            Goes::Datagram(to, bytes) => {
                if let Ok(socket) = self.search(set) {
                    // A datagram that can't be sent counts as lost on the way; searches are
                    // repeated.
                    let _ = socket.send_to(&bytes, to);
                }
            }
            Goes::Connect(link, server) => {
                if let Err(error) = self.connect(link, server, None, set) {
                    self.end(link, server, &error.to_string(), now);
                }
            }
            Goes::ConnectTls(link, server, trust) => {
                if let Err(error) = self.connect(link, server, Some(&trust), set) {
                    self.end(link, server, &error.to_string(), now);
                }
            }
            Goes::Bytes(link, bytes) => {
                if let Some(Some(line)) = self.lines.get_mut(link) {
                    line.unsent.extend_from_slice(&bytes);
                    self.write(link, set, now);
                }
            }
            Goes::Close(link) => self.close(link),
            Goes::Refuse(link, why) => {
                if let Some(server) = self.lines.get(link).and_then(|line| Some(line.as_ref()?.server)) {
                    self.tell(server, why, now);
                }
                self.close(link);
            }
        }
    }

    fn close(&mut self, link: LinkNumber) {
        if let Some(line) = self.lines.get_mut(link) {
            // Closing the socket takes it out of the set.
            *line = None;
        }
        self.broken.retain(|broken| *broken != link);
    }

    /// Returns the socket for searches.
    fn search(&mut self, set: &SocketSet) -> io::Result<&UdpSocket> {
        if self.search.is_none() {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            socket.set_nonblocking(true)?;
            socket.set_broadcast(true)?;
            set.add(&socket, self.base)?;
            self.search = Some(socket);
        }
        self.search.as_ref().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))
    }

    fn connect(
        &mut self,
        link: LinkNumber,
        server: SocketAddr,
        trust: Option<&LinkTrust>,
        set: &SocketSet,
    ) -> io::Result<()> {
        let family = if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        match rustix::net::connect(&socket, &server) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        listen::keep_alive(&stream)?;
        let (stream, key) = (LinkStream::new(stream, trust)?, self.key(link));
        set.add(&stream, key)?;
        set.change(&stream, key, true, true)?;
        if self.lines.len() <= link {
            self.lines.resize_with(link + 1, || None);
        }
        self.lines[link] = Some(LinkLine { stream, server, is_made: false, is_up: false, unsent: Vec::new() });
        Ok(())
    }

    /// Returns the key of a connection.
    fn key(&self, link: LinkNumber) -> u64 {
        self.base + 1 + link as u64
    }

    /// Passes each answer to a search to `take`.
    pub(super) fn answers(&mut self, buffer: &mut [u8], mut take: impl FnMut(Came<'_>)) -> io::Result<()> {
        let Some(socket) = &self.search else { return Ok(()) };
        for _ in 0..super::datagram::DATAGRAMS {
            let Some((length, from)) = next_datagram(socket, buffer)? else { return Ok(()) };
            take(Came::Datagram(from, &buffer[..length]));
        }
        Ok(())
    }

    /// Handles a ready connection, whose input goes to `take`.
    pub(super) fn ready(
        &mut self,
        event: Ready,
        set: &SocketSet,
        buffer: &mut [u8],
        now: u64,
        mut take: impl FnMut(Came<'_>),
    ) {
        let link = (event.key - self.base - 1) as LinkNumber;
        let Some(Some(line)) = self.lines.get_mut(link) else { return };
        let server = line.server;
        if event.write && !line.is_made {
            match line.stream.take_error() {
                Ok(None) => line.is_made = true,
                Ok(Some(error)) | Err(error) => return self.end(link, server, &error.to_string(), now),
            }
        }
        if !line.is_made {
            return;
        }
        if let Err(error) = if event.read { line.stream.fill() } else { line.stream.flush() }
            && !is_for_later(&error)
        {
            let why = if error.kind() == io::ErrorKind::UnexpectedEof { ENDED.to_owned() } else { error.to_string() };
            return self.end(link, server, &why, now);
        }
        if !line.is_up && !line.stream.is_handshaking() {
            line.is_up = true;
            take(Came::Up(link));
        }
        self.write(link, set, now);
        while event.read
            && let Some(Some(line)) = self.lines.get_mut(link)
            && line.is_up
        {
            match line.stream.read(buffer) {
                Ok(0) => return self.end(link, server, ENDED, now),
                Ok(length) => take(Came::Bytes(link, &buffer[..length])),
                Err(error) if is_for_later(&error) => return,
                Err(error) => return self.end(link, server, &error.to_string(), now),
            }
            if !line.stream.is_secure() {
                // The socket is reported as ready again.
                return;
            }
        }
    }

    /// Returns the connections that broke since the last call.
    pub(super) fn take_broken(&mut self) -> Vec<LinkNumber> {
        std::mem::take(&mut self.broken)
    }

    /// Returns the port of the socket for searches, if that was requested since the last call.
    pub(super) fn take_bound(&mut self) -> Option<u16> {
        self.bound.take()
    }

    fn write(&mut self, link: LinkNumber, set: &SocketSet, now: u64) {
        let key = self.key(link);
        let Some(Some(line)) = self.lines.get_mut(link) else { return };
        if !line.is_up {
            let wants = !line.is_made || line.stream.wants_write();
            let _ = set.change(&line.stream, key, true, wants);
            return;
        }
        match line.stream.write(&line.unsent) {
            Ok(sent) => drop(line.unsent.drain(..sent)),
            Err(error) if is_for_later(&error) => {}
            Err(error) => {
                let server = line.server;
                return self.end(link, server, &error.to_string(), now);
            }
        }
        if line.unsent.len() > MOST_UNSENT {
            let server = line.server;
            return self.end(link, server, "it does not read what it is sent", now);
        }
        let wants = !line.unsent.is_empty() || line.stream.wants_write();
        let _ = set.change(&line.stream, key, true, wants);
        if line.unsent.is_empty() && line.unsent.capacity() > KEPT {
            line.unsent = Vec::new();
        }
    }

    /// Ends a connection.
    fn end(&mut self, link: LinkNumber, server: SocketAddr, why: &str, now: u64) {
        if let Some(line) = self.lines.get_mut(link) {
            *line = None;
        }
        self.broken.push(link);
        self.tell(server, why, now);
    }

    /// Logs the first end of a connection within a minute.
    fn tell(&mut self, server: SocketAddr, why: &str, now: u64) {
        self.ended += 1;
        if self.told.is_none_or(|told| told + TELL.as_millis() as u64 <= now) {
            self.told = Some(now);
            let ended = std::mem::take(&mut self.ended);
            let what = self.what;
            eprintln!(
                "rookery: {what} to {server} ended: {why}; connections that ended since the last message about it: {ended}"
            );
        }
    }
}

/// Returns the name for the connections of a network in the log.
fn name(network: LinkNetwork) -> &'static str {
    match network {
        LinkNetwork::ChannelAccess => "the Channel Access circuit",
        LinkNetwork::PvAccess => "the pvAccess circuit",
        LinkNetwork::Mqtt => "the MQTT connection",
    }
}

/// Returns whether an error only means that the socket isn't ready.
fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// The reason for an end by the other side.
const ENDED: &str = "its server ended it";
/// The first key of the first network, and the number of keys of each.
const NETWORKS: u64 = 1 << 62;
const KEYS: u64 = 1 << 32;
/// The most bytes that may wait for a server.
pub(crate) const MOST_UNSENT: usize = 4 << 20;
/// The memory that is kept for later output, in bytes.
const KEPT: usize = 64 << 10;
/// The interval between log lines about ended connections.
const TELL: Duration = Duration::from_secs(60);
