//! A network in memory: byte pipes, level-triggered like the epoll set that they replace.
//!
//! A pipe holds at most `window` bytes towards the client, so a client that doesn't read stops the
//! server as a full TCP window does, possibly in the middle of a stanza. `most` bounds the bytes of
//! one read or write by the server.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, Read};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use rookery_base::lock::lock;
use rookery_shard::{Driver, ReadySocket};

use crate::internet::Internet;

/// One connection, as both ends see it.
#[derive(Debug)]
struct Pipe {
    to_server: VecDeque<u8>,
    to_client: Vec<u8>,
    window: usize,
    most: usize,
    client_ended: bool,
    server_ended: bool,
    server_closed: bool,
    reset: bool,
    /// The bytes that are carried until the connection breaks; `None` if it doesn't.
    left: Option<usize>,
}

type NetShared = Arc<Mutex<Pipe>>;

/// A server's end of a connection, whether the server accepted it or connected to another one.
/// Dropping it closes the connection.
#[derive(Debug)]
pub struct Socket(NetShared, NetEnd);

/// The end of a connection: the accepting one, or the connecting one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NetEnd {
    Called,
    Calling,
}

/// The test's end: of a client, or of another server that a test simulates, which accepts or
/// connects.
#[derive(Debug)]
pub struct PeerEnd(NetShared, NetEnd);

/// Returns a new connection between a client and the server: the server's end, and the client's.
pub fn connection() -> (Socket, PeerEnd) {
    let pipe = pipe();
    (Socket(pipe.clone(), NetEnd::Called), PeerEnd(pipe, NetEnd::Calling))
}

/// Returns a new connection between two servers: the accepting end, and the connecting end. With a
/// number, it breaks after that many bytes.
pub(crate) fn between_servers(left: Option<usize>) -> (Socket, Socket) {
    let pipe = pipe();
    lock(&pipe).left = left;
    (Socket(pipe.clone(), NetEnd::Called), Socket(pipe, NetEnd::Calling))
}

/// Returns a new connection from a server to one that a test simulates.
pub(crate) fn to_played() -> (Socket, PeerEnd) {
    let pipe = pipe();
    (Socket(pipe.clone(), NetEnd::Calling), PeerEnd(pipe, NetEnd::Called))
}

fn pipe() -> NetShared {
    Arc::new(Mutex::new(Pipe {
        to_server: VecDeque::new(),
        to_client: Vec::new(),
        window: WINDOW,
        most: usize::MAX,
        client_ended: false,
        server_ended: false,
        server_closed: false,
        reset: false,
        left: None,
    }))
}

impl PeerEnd {
    /// Sends bytes, which are lost after the server has closed.
    pub fn write(&self, bytes: &[u8]) {
        let mut pipe = lock(&self.0);
        match self.1 {
            _ if pipe.reset => {}
            NetEnd::Calling if !pipe.server_closed => pipe.to_server.extend(bytes),
            NetEnd::Called if !pipe.client_ended => pipe.to_client.extend(bytes),
            _ => {}
        }
    }

    /// Takes up to `most` of the bytes that have arrived.
    pub fn read(&self, most: usize) -> Vec<u8> {
        let mut pipe = lock(&self.0);
        let len = most.min(pipe.waiting_bytes(self.1));
        match self.1 {
            NetEnd::Calling => pipe.to_client.drain(..len).collect(),
            NetEnd::Called => pipe.to_server.drain(..len).collect(),
        }
    }

    /// Returns the number of bytes that have arrived.
    pub fn arrived_bytes(&self) -> usize {
        lock(&self.0).waiting_bytes(self.1)
    }

    /// Returns the number of bytes that the server has not read yet.
    pub fn unread_bytes(&self) -> usize {
        let pipe = lock(&self.0);
        match self.1 {
            NetEnd::Calling => pipe.to_server.len(),
            NetEnd::Called => pipe.to_client.len(),
        }
    }

    /// Returns whether the server has ended its direction and everything from it is read.
    pub fn is_at_end(&self) -> bool {
        let pipe = lock(&self.0);
        pipe.waiting_bytes(self.1) == 0 && pipe.is_ended(self.1)
    }

    /// Returns whether bytes have arrived, or the end has.
    pub fn has_news(&self) -> bool {
        let pipe = lock(&self.0);
        pipe.waiting_bytes(self.1) > 0 || pipe.is_ended(self.1)
    }

    /// Returns whether the server has dropped the connection.
    pub fn is_closed(&self) -> bool {
        let pipe = lock(&self.0);
        match self.1 {
            NetEnd::Calling => pipe.server_closed,
            NetEnd::Called => pipe.client_ended,
        }
    }

    /// Sets the bytes that may be in the pipe towards the test before the server has to wait.
    pub fn set_window(&self, bytes: usize) {
        lock(&self.0).window = bytes;
    }

    /// Sets the most bytes that one read or write of the server moves.
    pub fn set_most(&self, bytes: usize) {
        lock(&self.0).most = bytes.max(1);
    }

    /// Ends the test's direction in good order.
    pub fn shutdown(&self) {
        let mut pipe = lock(&self.0);
        match self.1 {
            NetEnd::Calling => pipe.client_ended = true,
            NetEnd::Called => pipe.server_ended = true,
        }
    }

    /// Breaks the connection: bytes under way in either direction are lost.
    pub fn reset(&self) {
        let mut pipe = lock(&self.0);
        pipe.reset = true;
        pipe.to_server.clear();
        pipe.to_client.clear();
    }
}

impl Pipe {
    /// Returns whether nothing more will arrive at one of the ends, except for bytes under way.
    fn is_ended(&self, end: NetEnd) -> bool {
        self.reset
            || match end {
                NetEnd::Calling => self.server_ended || self.server_closed,
                NetEnd::Called => self.client_ended,
            }
    }

    /// Returns the bytes that wait for one of the ends.
    fn waiting_bytes(&self, end: NetEnd) -> usize {
        match end {
            NetEnd::Calling => self.to_client.len(),
            NetEnd::Called => self.to_server.len(),
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let mut pipe = lock(&self.0);
        match self.1 {
            NetEnd::Called => {
                pipe.server_closed = true;
                pipe.to_server.clear();
            }
            NetEnd::Calling => pipe.client_ended = true,
        }
    }
}

/// The network in the view of one shard.
#[derive(Debug, Default)]
pub struct TestkitNetwork {
    watched: BTreeMap<u32, NetWatch>,
    internet: Option<Internet>,
}

#[derive(Debug)]
struct NetWatch {
    pipe: NetShared,
    end: NetEnd,
    read: bool,
    write: bool,
}

impl TestkitNetwork {
    /// Returns the network of a shard that can connect to other servers.
    pub(crate) fn within(internet: Option<Internet>) -> Self {
        Self { watched: BTreeMap::new(), internet }
    }

    /// Returns the sockets that are ready now, by their keys. A broken connection is reported
    /// regardless of the watched events, as epoll does.
    pub fn ready(&self) -> Vec<ReadySocket> {
        let ready = self.watched.iter().map(|(&key, watch)| {
            let pipe = lock(&watch.pipe);
            let (arrived, is_at_end, is_free) = match watch.end {
                NetEnd::Called => (!pipe.to_server.is_empty(), pipe.client_ended, pipe.to_client.len() < pipe.window),
                NetEnd::Calling => {
                    let is_at_end = pipe.server_ended || pipe.server_closed;
                    (!pipe.to_client.is_empty(), is_at_end, pipe.to_server.len() < pipe.window)
                }
            };
            let read = pipe.reset || (watch.read && (arrived || is_at_end));
            let write = watch.write && (pipe.reset || is_free);
            ReadySocket { key, read, write }
        });
        ready.filter(|ready| ready.read || ready.write).collect()
    }
}

impl Driver for TestkitNetwork {
    type Socket = Socket;

    fn connect(&mut self, address: SocketAddr) -> io::Result<Socket> {
        self.internet.as_ref().ok_or(ErrorKind::NetworkUnreachable)?.call(address)
    }

    fn connect_result(&mut self, _socket: &Socket) -> io::Result<()> {
        Ok(())
    }

    fn add(&mut self, socket: &Socket, key: u32) -> io::Result<()> {
        self.watched.insert(key, NetWatch { pipe: socket.0.clone(), end: socket.1, read: true, write: false });
        Ok(())
    }

    fn interest(&mut self, socket: &Socket, key: u32, read: bool, write: bool) {
        let watch = self.watched.get_mut(&key).expect("a socket is added before its interest changes");
        assert!(Arc::ptr_eq(&watch.pipe, &socket.0), "the key {key} belongs to another socket");
        (watch.read, watch.write) = (read, write);
    }

    fn remove(&mut self, socket: &Socket) {
        self.watched.retain(|_, watch| !Arc::ptr_eq(&watch.pipe, &socket.0) || watch.end != socket.1);
    }

    fn recv(&mut self, socket: &Socket, buffer: &mut [u8]) -> io::Result<usize> {
        let mut pipe = lock(&socket.0);
        if pipe.reset {
            return Err(ErrorKind::ConnectionReset.into());
        }
        if socket.1 == NetEnd::Calling {
            let len = pipe.to_client.len().min(buffer.len()).min(pipe.most);
            if len == 0 && !pipe.server_ended && !pipe.server_closed {
                return Err(ErrorKind::WouldBlock.into());
            }
            pipe.to_client.drain(..len).zip(buffer).for_each(|(byte, place)| *place = byte);
            return Ok(len);
        }
        let len = pipe.to_server.len().min(buffer.len()).min(pipe.most);
        if len == 0 && !pipe.client_ended {
            return Err(ErrorKind::WouldBlock.into());
        }
        pipe.to_server.read(&mut buffer[..len])
    }

    fn send(&mut self, socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
        let mut pipe = lock(&socket.0);
        if let Some(left) = pipe.left {
            pipe.left = left.checked_sub(bytes.len());
            if pipe.left.is_none() {
                // Bytes that were carried and not read yet are lost, too, as with a reset of TCP.
                pipe.reset = true;
                pipe.to_server.clear();
                pipe.to_client.clear();
            }
        }
        if socket.1 == NetEnd::Calling {
            if pipe.reset || pipe.client_ended || pipe.server_closed {
                return Err(ErrorKind::BrokenPipe.into());
            }
            let len = pipe.window.saturating_sub(pipe.to_server.len()).min(pipe.most).min(bytes.len());
            if len == 0 && !bytes.is_empty() {
                return Err(ErrorKind::WouldBlock.into());
            }
            pipe.to_server.extend(&bytes[..len]);
            return Ok(len);
        }
        if pipe.reset || pipe.server_ended {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let room = pipe.window.saturating_sub(pipe.to_client.len()).min(pipe.most);
        if room == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        let len = room.min(bytes.len());
        pipe.to_client.extend_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn shutdown(&mut self, socket: &Socket) {
        let mut pipe = lock(&socket.0);
        match socket.1 {
            NetEnd::Called => pipe.server_ended = true,
            NetEnd::Calling => pipe.client_ended = true,
        }
    }
}

/// The default size of a pipe: more than any test sends to a client that reads.
const WINDOW: usize = 16 * 1024 * 1024;
