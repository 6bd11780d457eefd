//! A network in memory: byte pipes, level-triggered like the epoll set that they stand in for.
//!
//! A pipe holds at most `window` bytes towards the client, so a client that doesn't read stops the server as a full TCP window does,
//! in the middle of a stanza if it comes so. `most` bounds what one read or write of the server moves.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, Read};
use std::sync::{Arc, Mutex};

use rookery_base::lock::lock;
use rookery_shard::{Driver, Ready};

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
}

type Shared = Arc<Mutex<Pipe>>;

/// The server's end. Dropping it closes the connection.
#[derive(Debug)]
pub struct Socket(Shared);

/// The client's end.
#[derive(Debug)]
pub struct Peer(Shared);

/// A new connection.
pub fn connection() -> (Socket, Peer) {
    let pipe = Arc::new(Mutex::new(Pipe {
        to_server: VecDeque::new(),
        to_client: Vec::new(),
        window: WINDOW,
        most: usize::MAX,
        client_ended: false,
        server_ended: false,
        server_closed: false,
        reset: false,
    }));
    (Socket(pipe.clone()), Peer(pipe))
}

impl Peer {
    /// Sends bytes. What comes after the server has closed is lost.
    pub fn write(&self, bytes: &[u8]) {
        let mut pipe = lock(&self.0);
        if !pipe.server_closed && !pipe.reset {
            pipe.to_server.extend(bytes);
        }
    }

    /// Takes up to `most` of the bytes that have arrived.
    pub fn read(&self, most: usize) -> Vec<u8> {
        let mut pipe = lock(&self.0);
        let len = most.min(pipe.to_client.len());
        pipe.to_client.drain(..len).collect()
    }

    /// How many bytes have arrived.
    pub fn arrived(&self) -> usize {
        lock(&self.0).to_client.len()
    }

    /// Bytes that the server has not read yet.
    pub fn unread(&self) -> usize {
        lock(&self.0).to_server.len()
    }

    /// Whether the server has ended its direction and all it sent is read.
    pub fn is_at_end(&self) -> bool {
        let pipe = lock(&self.0);
        pipe.to_client.is_empty() && (pipe.server_ended || pipe.server_closed || pipe.reset)
    }

    /// Whether the server has let go of the connection.
    pub fn is_closed(&self) -> bool {
        lock(&self.0).server_closed
    }

    /// Bytes that may lie in the pipe towards the client before the server has to wait.
    pub fn set_window(&self, bytes: usize) {
        lock(&self.0).window = bytes;
    }

    /// Bytes that one read or write of the server moves at most.
    pub fn set_most(&self, bytes: usize) {
        lock(&self.0).most = bytes.max(1);
    }

    /// Ends the client's direction in good order.
    pub fn shutdown(&self) {
        lock(&self.0).client_ended = true;
    }

    /// Breaks the connection: what is under way in either direction is lost.
    pub fn reset(&self) {
        let mut pipe = lock(&self.0);
        pipe.reset = true;
        pipe.to_server.clear();
        pipe.to_client.clear();
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let mut pipe = lock(&self.0);
        pipe.server_closed = true;
        pipe.to_server.clear();
    }
}

/// The network as one shard sees it.
#[derive(Debug, Default)]
pub struct Network {
    watched: BTreeMap<u32, Watch>,
}

#[derive(Debug)]
struct Watch {
    pipe: Shared,
    read: bool,
    write: bool,
}

impl Network {
    /// The sockets that are ready now, by their keys. A broken connection is reported whatever it is watched for, as epoll does.
    pub fn ready(&self) -> Vec<Ready> {
        let ready = self.watched.iter().map(|(&key, watch)| {
            let pipe = lock(&watch.pipe);
            let read = pipe.reset || (watch.read && (!pipe.to_server.is_empty() || pipe.client_ended));
            let write = watch.write && (pipe.reset || pipe.to_client.len() < pipe.window);
            Ready { key, read, write }
        });
        ready.filter(|ready| ready.read || ready.write).collect()
    }
}

impl Driver for Network {
    type Socket = Socket;

    fn add(&mut self, socket: &Socket, key: u32) -> io::Result<()> {
        self.watched.insert(key, Watch { pipe: socket.0.clone(), read: true, write: false });
        Ok(())
    }

    fn interest(&mut self, socket: &Socket, key: u32, read: bool, write: bool) {
        let watch = self.watched.get_mut(&key).expect("a socket is added before its interest changes");
        assert!(Arc::ptr_eq(&watch.pipe, &socket.0), "the key {key} belongs to another socket");
        (watch.read, watch.write) = (read, write);
    }

    fn remove(&mut self, socket: &Socket) {
        self.watched.retain(|_, watch| !Arc::ptr_eq(&watch.pipe, &socket.0));
    }

    fn recv(&mut self, socket: &Socket, buffer: &mut [u8]) -> io::Result<usize> {
        let mut pipe = lock(&socket.0);
        if pipe.reset {
            return Err(ErrorKind::ConnectionReset.into());
        }
        let len = pipe.to_server.len().min(buffer.len()).min(pipe.most);
        if len == 0 && !pipe.client_ended {
            return Err(ErrorKind::WouldBlock.into());
        }
        pipe.to_server.read(&mut buffer[..len])
    }

    fn send(&mut self, socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
        let mut pipe = lock(&socket.0);
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
        lock(&socket.0).server_ended = true;
    }
}

/// What lies in a pipe unless a test says otherwise: more than any test sends to a client that reads.
const WINDOW: usize = 16 * 1024 * 1024;
