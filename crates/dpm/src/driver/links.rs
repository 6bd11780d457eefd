//! The sockets of Channel Access: one for searches, and a connection to each server.
//!
//! Everything that decides anything is in the pool. A connection is made without waiting for it,
//! and one whose server doesn't take what it is sent ends.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::datagram::next_datagram;
use super::listen;
use super::set::{Ready, SocketSet};
use crate::channel_access::link::{Came, Goes, LinkNumber};

/// The sockets.
#[derive(Debug, Default)]
pub(super) struct LinkSockets {
    /// Opened with the first search.
    search: Option<UdpSocket>,
    lines: Vec<Option<LinkLine>>,
    /// Connections that broke, or could not be made.
    broken: Vec<LinkNumber>,
    /// The time when the log heard of a connection last, in milliseconds, and how many ended since.
    told: Option<u64>,
    ended: u64,
}

/// A connection.
#[derive(Debug)]
struct LinkLine {
    stream: TcpStream,
    server: SocketAddr,
    is_up: bool,
    /// Bytes that the socket did not take.
    unsent: Vec<u8>,
}

impl LinkSockets {
    /// Does what is to be done.
    pub(super) fn obey(&mut self, goes: Goes, set: &SocketSet, now: u64) {
        match goes {
            Goes::Datagram(to, bytes) => {
                if let Ok(socket) = self.search(set) {
                    // A datagram that cannot be sent is lost, as others are; searches come again.
                    let _ = socket.send_to(&bytes, to);
                }
            }
            Goes::Connect(link, server) => {
                if let Err(error) = self.connect(link, server, set) {
                    self.end(link, server, &error.to_string(), now);
                }
            }
            Goes::Bytes(link, bytes) => {
                if let Some(Some(line)) = self.lines.get_mut(link) {
                    line.unsent.extend_from_slice(&bytes);
                    self.write(link, set, now);
                }
            }
            Goes::Close(link) => {
                if let Some(line) = self.lines.get_mut(link) {
                    // Closing the socket takes it out of the set.
                    *line = None;
                }
                self.broken.retain(|broken| *broken != link);
            }
        }
    }

    /// Returns the socket for searches.
    fn search(&mut self, set: &SocketSet) -> io::Result<&UdpSocket> {
        if self.search.is_none() {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            socket.set_nonblocking(true)?;
            socket.set_broadcast(true)?;
            set.add(&socket, SEARCH)?;
            self.search = Some(socket);
        }
        self.search.as_ref().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))
    }

    fn connect(&mut self, link: LinkNumber, server: SocketAddr, set: &SocketSet) -> io::Result<()> {
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
        set.add(&stream, LINKS + link as u64)?;
        set.change(&stream, LINKS + link as u64, true, true)?;
        if self.lines.len() <= link {
            self.lines.resize_with(link + 1, || None);
        }
        self.lines[link] = Some(LinkLine { stream, server, is_up: false, unsent: Vec::new() });
        Ok(())
    }

    /// Takes answers to searches, each by `take`.
    pub(super) fn answers(&mut self, buffer: &mut [u8], mut take: impl FnMut(Came<'_>)) -> io::Result<()> {
        let Some(socket) = &self.search else { return Ok(()) };
        for _ in 0..super::datagram::DATAGRAMS {
            let Some((length, from)) = next_datagram(socket, buffer)? else { return Ok(()) };
            take(Came::Datagram(from, &buffer[..length]));
        }
        Ok(())
    }

    /// Looks at a connection that is ready: what comes on it goes to `take`.
    pub(super) fn ready(
        &mut self,
        event: Ready,
        set: &SocketSet,
        buffer: &mut [u8],
        now: u64,
        mut take: impl FnMut(Came<'_>),
    ) {
        let link = (event.key - LINKS) as LinkNumber;
        let Some(Some(line)) = self.lines.get_mut(link) else { return };
        let server = line.server;
        if event.write && !line.is_up {
            match line.stream.take_error() {
                Ok(None) => line.is_up = true,
                Ok(Some(error)) | Err(error) => return self.end(link, server, &error.to_string(), now),
            }
            take(Came::Up(link));
        }
        if event.write {
            self.write(link, set, now);
        }
        let Some(Some(line)) = self.lines.get_mut(link) else { return };
        if !event.read {
            return;
        }
        match line.stream.read(buffer) {
            Ok(0) => self.end(link, server, "its server ended it", now),
            Ok(length) => take(Came::Bytes(link, &buffer[..length])),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => self.end(link, server, &error.to_string(), now),
        }
    }

    /// Returns the connections that broke since this was asked last.
    pub(super) fn take_broken(&mut self) -> Vec<LinkNumber> {
        std::mem::take(&mut self.broken)
    }

    fn write(&mut self, link: LinkNumber, set: &SocketSet, now: u64) {
        let Some(Some(line)) = self.lines.get_mut(link) else { return };
        if !line.is_up {
            return;
        }
        match line.stream.write(&line.unsent) {
            Ok(sent) => drop(line.unsent.drain(..sent)),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => {
                let server = line.server;
                return self.end(link, server, &error.to_string(), now);
            }
        }
        if line.unsent.len() > MOST_UNSENT {
            let server = line.server;
            return self.end(link, server, "it does not take what it is sent", now);
        }
        let _ = set.change(&line.stream, LINKS + link as u64, true, !line.unsent.is_empty());
        if line.unsent.is_empty() && line.unsent.capacity() > KEPT {
            line.unsent = Vec::new();
        }
    }

    /// Ends a connection. The log hears of the first in a minute.
    fn end(&mut self, link: LinkNumber, server: SocketAddr, why: &str, now: u64) {
        if let Some(line) = self.lines.get_mut(link) {
            *line = None;
        }
        self.broken.push(link);
        self.ended += 1;
        if self.told.is_none_or(|told| told + TELL.as_millis() as u64 <= now) {
            self.told = Some(now);
            let ended = std::mem::take(&mut self.ended);
            eprintln!(
                "rookery: the circuit of Channel Access to {server} ended: {why}; circuits that ended since this was last said: {ended}"
            );
        }
    }
}

/// The key of the socket for searches, and that of the first connection; the others follow.
pub(super) const SEARCH: u64 = 1 << 62;
pub(super) const LINKS: u64 = SEARCH + 1;
/// The most bytes that wait for a server.
pub(crate) const MOST_UNSENT: usize = 4 << 20;
/// Memory that is kept for what is sent next, in bytes.
const KEPT: usize = 64 << 10;
/// The interval at which the log hears of connections that ended.
const TELL: Duration = Duration::from_secs(60);
