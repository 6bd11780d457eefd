//! Lines: connections of clients that are on another node, whose sessions are here.
//!
//! To the shard a line is a socket like those of the system: it is read, written, watched and
//! closed by the same calls, and has a window like them. Output leaves in frames for the node that
//! has the client, and the client's input arrives from there in frames ([`LineFrame`]).
//!
//! # Invariants
//!
//! * At most [`WINDOW`] bytes for a client are on their way, and at most that plus one read from a
//!   client. A node that sends more than [`MOST`] ends the line.
//! * A line ends once, by either side, and the other side is told.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex};

use rookery_base::Map;
use rookery_base::lock::lock;
use rookery_fanout::Station;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use slab::Slab;

use crate::driver::{Driver, ReadySocket};
use crate::keeping::{Attach, HomeMemory, LineMark, LineSession, Reattach};
use crate::relays::RelayFrame;

/// The messages between two nodes about a client that is connected to one of them, the *front*, and
/// has its session on the other. The front names the connection by a key of its own.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum LineFrame {
    /// From the front: a client has logged in, and its session belongs here.
    Attach(u64, Box<Attach>),
    /// From the front: bytes that the client has sent.
    Read(u64, ByteBuf),
    /// From the front: this number of bytes was written to the client.
    Written(u64, u32),
    /// From the front: the client is gone.
    Lost(u64),
    /// To the front: bytes for the client.
    Write(u64, ByteBuf),
    /// To the front: this number of the client's bytes was processed.
    Taken(u64, u32),
    /// To the front: nothing more follows for the client, whose stream may be ended properly.
    Finish(u64),
    /// To the front: the connection is to be closed.
    Close(u64),
    /// About a session of BOSH, whose requests come one by one. Versions that don't know this frame
    /// drop it, and all the following ones.
    Bosh(Box<RelayFrame>),
    /// From the front: it can continue with another home if this one is gone.
    Follow(u64),
    /// To such a front: the client's session, or changes of it.
    Session(u64, Box<LineSession>),
    /// To such a front: bytes for the client, after which every stanza is complete.
    Whole(u64, ByteBuf, LineMark),
    /// To such a front: the session continues at another home.
    HandedOn(u64),
    /// From the front, to a home that is new to it: the client's session is there.
    Reattach(u64, Box<Reattach>),
    /// To the front: the session has the client again and continues.
    Reattached(u64),
}

impl LineFrame {
    /// Reads a frame of another node. In one of an earlier version the last fields may be missing:
    /// zeros stand for what it doesn't know.
    ///
    /// # Errors
    /// The bytes aren't such a frame.
    pub(crate) fn read(bytes: &[u8]) -> postcard::Result<Self> {
        postcard::from_bytes(bytes).or_else(|_| postcard::from_bytes(&[bytes, &[0; MISSING]].concat()))
    }
}

/// The bytes that a frame of an earlier version may lack.
const MISSING: usize = 8;

/// The bytes for a client that may be on their way.
pub(crate) const WINDOW: usize = 64 * 1024;
/// The bytes of one direction that are accepted from another node before they can be used.
pub(crate) const MOST: usize = 2 * WINDOW;
/// Bytes after which the other side is told that they were taken.
pub(crate) const SHARE: usize = WINDOW / 4;

/// A connection of a client: here, or on another node.
pub(crate) enum ClientSocket<S> {
    /// A socket of the system.
    Here(S),
    /// A line, which ends when this is dropped.
    Afar(Box<LineEnd>),
}

/// The hold that a connection has on its line.
pub(crate) struct LineEnd {
    line: usize,
    dropped: Arc<Mutex<Vec<usize>>>,
}

impl Drop for LineEnd {
    fn drop(&mut self) {
        lock(&self.dropped).push(self.line);
    }
}

/// One client whose socket is on another node: the bytes between the two, within a window.
struct ClientLine {
    front: Station,
    key: u64,
    /// The key under which it is watched.
    watched: Option<u32>,
    wants_read: bool,
    wants_write: bool,
    input: LineInput,
    /// Bytes that were sent to the client and that it may not have received.
    unwritten: usize,
    /// True if the front has ended the line.
    is_lost: bool,
    /// The position of the last frame to the front among those that have yet to leave.
    last_write: Option<usize>,
    /// Set if the front continues with another home when this one is gone.
    memory: Option<Box<HomeMemory>>,
}

/// The direction of a line that comes from the client.
#[derive(Default)]
struct LineInput {
    /// The client's bytes that nobody has read.
    bytes: Vec<u8>,
    /// Bytes that were read and that the front has not been told of.
    taken: usize,
    /// The number of all bytes that were read, or came with the client.
    read: u64,
    /// The bytes that have still to be read and that an earlier home may have known.
    known: usize,
}

impl ClientLine {
    fn ready(&self) -> Option<ReadySocket> {
        let read = self.is_lost || self.wants_read && !self.input.bytes.is_empty();
        let write = self.wants_write && self.unwritten < WINDOW;
        self.watched.filter(|_| read || write).map(|key| ReadySocket { key, read, write })
    }
}

/// The network as a shard sees it: sockets of the system, and lines.
pub(crate) struct LineNetwork<D> {
    /// The sockets of the system.
    pub(crate) system: D,
    lines: Slab<ClientLine>,
    by_front: Map<(Station, u64), usize>,
    /// Lines that may be ready.
    stirred: BTreeSet<usize>,
    dropped: Arc<Mutex<Vec<usize>>>,
    /// Lines that were read or written, and whose fronts may have to be told.
    news: BTreeSet<usize>,
    /// Frames for other nodes, in their order.
    pub(crate) frames: Vec<(Station, LineFrame)>,
}

impl<D: Driver> LineNetwork<D> {
    pub(crate) fn new(system: D) -> Self {
        Self {
            system,
            lines: Slab::new(),
            by_front: Map::default(),
            stirred: BTreeSet::new(),
            dropped: Arc::default(),
            news: BTreeSet::new(),
            frames: Vec::new(),
        }
    }

    /// Opens the line of a client that has already sent this number of bytes; `None` if the front
    /// has one under this key.
    pub(crate) fn open(&mut self, front: Station, key: u64, read: usize) -> Option<ClientSocket<D::Socket>> {
        if self.by_front.contains_key(&(front, key)) {
            return None;
        }
        let line = self.lines.insert(ClientLine {
            front,
            key,
            watched: None,
            wants_read: true,
            wants_write: false,
            input: LineInput { read: read as u64, ..LineInput::default() },
            unwritten: 0,
            is_lost: false,
            last_write: None,
            memory: None,
        });
        self.by_front.insert((front, key), line);
        Some(ClientSocket::Afar(Box::new(LineEnd { line, dropped: self.dropped.clone() })))
    }

    /// Takes a client's input. Too much of it ends the line.
    pub(crate) fn arrived(&mut self, front: Station, key: u64, bytes: &[u8]) {
        let Some(line) = self.by_front.get(&(front, key)).copied() else { return };
        let Some(found) = self.lines.get_mut(line) else { return };
        if found.input.bytes.len() + bytes.len() > MOST {
            found.is_lost = true;
            self.frames.push((front, LineFrame::Close(key)));
        } else {
            found.input.bytes.extend_from_slice(bytes);
        }
        self.stirred.insert(line);
    }

    /// Notes that a client has received this number of bytes.
    pub(crate) fn note_written(&mut self, front: Station, key: u64, bytes: usize) {
        let Some(line) = self.by_front.get(&(front, key)).copied() else { return };
        let Some(found) = self.lines.get_mut(line) else { return };
        found.unwritten = found.unwritten.saturating_sub(bytes);
        self.stirred.insert(line);
    }

    /// Notes that a client is gone.
    pub(crate) fn lost(&mut self, front: Station, key: u64) {
        let Some(line) = self.by_front.get(&(front, key)).copied() else { return };
        let Some(found) = self.lines.get_mut(line) else { return };
        found.is_lost = true;
        self.stirred.insert(line);
    }

    /// Handles the end of a process, together with the clients that were connected to it. The
    /// process is told: it may only have been paused, and its clients would wait for ever.
    pub(crate) fn departed(&mut self, node: u16, incarnation: u32) {
        for (at, line) in &mut self.lines {
            if (line.front.node, line.front.incarnation) == (node, incarnation) {
                if !std::mem::replace(&mut line.is_lost, true) {
                    self.frames.push((line.front, LineFrame::Close(line.key)));
                }
                self.stirred.insert(at);
            }
        }
    }

    /// Lets a line continue with another home if this one is gone, as its front does. The number
    /// is that of the connection.
    pub(crate) fn follow(&mut self, front: Station, key: u64, number: u64) {
        let Some(at) = self.by_front.get(&(front, key)).copied() else { return };
        let Some(line) = self.lines.get_mut(at) else { return };
        line.memory.get_or_insert_with(|| Box::new(HomeMemory::new(number)));
        self.news.insert(at);
    }

    /// Gives an opened line the memory of the one that it continues. `known` is the number of bytes
    /// that an earlier home may have known.
    pub(crate) fn remember(&mut self, front: Station, key: u64, memory: HomeMemory, known: usize) {
        let at = self.by_front.get(&(front, key));
        if let Some(line) = at.and_then(|at| self.lines.get_mut(*at)) {
            (line.memory, line.input.known) = (Some(Box::new(memory)), known);
        }
    }

    /// Returns whether a connection is the line of this front and key.
    pub(crate) fn is_line(&self, socket: &ClientSocket<D::Socket>, front: Station, key: u64) -> bool {
        let ClientSocket::Afar(end) = socket else { return false };
        self.by_front.get(&(front, key)) == Some(&end.line)
    }

    /// Returns the link that the line of this front and key is watched under.
    pub(crate) fn link_of(&self, front: Station, key: u64) -> Option<u32> {
        let at = self.by_front.get(&(front, key))?;
        self.lines.get(*at)?.watched
    }

    /// Returns the place of a connection that is a line.
    pub(crate) fn place(&self, socket: &ClientSocket<D::Socket>) -> Option<usize> {
        let ClientSocket::Afar(end) = socket else { return None };
        Some(end.line)
    }

    /// Returns whether bytes have still to come on a line that an earlier home may have known.
    pub(crate) fn has_known(&self, socket: &ClientSocket<D::Socket>) -> bool {
        let ClientSocket::Afar(end) = socket else { return false };
        self.lines.get(end.line).is_some_and(|line| line.input.known > 0)
    }

    /// Notes that a line may have something to tell its front.
    pub(crate) fn note(&mut self, socket: &ClientSocket<D::Socket>) {
        if let ClientSocket::Afar(end) = socket {
            self.news.insert(end.line);
        }
    }

    /// Returns the lines that may have something to tell their fronts, each with the link that it
    /// is watched under.
    pub(crate) fn news(&self) -> Vec<(usize, u32)> {
        let watched = |at: &usize| Some((*at, self.lines.get(*at)?.watched?));
        self.news.iter().filter_map(watched).collect()
    }

    /// Forgets the lines that had something to tell: it was told.
    pub(crate) fn forget_news(&mut self) {
        for at in std::mem::take(&mut self.news) {
            self.lines.get_mut(at).into_iter().for_each(|line| line.last_write = None);
        }
    }

    /// Returns the memory of a line, and the bytes that were read of it.
    pub(crate) fn memory(&mut self, at: usize) -> Option<(&mut HomeMemory, u64)> {
        let line = self.lines.get_mut(at).filter(|line| !line.is_lost)?;
        Some((line.memory.as_deref_mut()?, line.input.read))
    }

    /// Tells the front of a line the session that it belongs to.
    pub(crate) fn tell_session(&mut self, at: usize, session: LineSession) {
        if let Some(line) = self.lines.get(at) {
            self.frames.push((line.front, LineFrame::Session(line.key, Box::new(session))));
        }
    }

    /// Tells the front of a line that every stanza is complete up to the last write; if `is_alone`,
    /// even if nothing was written.
    pub(crate) fn tell_whole(&mut self, at: usize, mark: LineMark, is_alone: bool) -> bool {
        let Some(line) = self.lines.get_mut(at) else { return false };
        let last = line.last_write.take().and_then(|at| self.frames.get_mut(at));
        if let Some((_, frame)) = last
            && let LineFrame::Write(key, bytes) = frame
        {
            *frame = LineFrame::Whole(*key, std::mem::take(bytes), mark);
            return true;
        }
        if is_alone {
            self.frames.push((line.front, LineFrame::Whole(line.key, ByteBuf::new(), mark)));
        }
        is_alone
    }

    /// Writes the rest of a begun stanza, though the window is full. Returns `false` if there is
    /// none, or if it is too long.
    pub(crate) fn write_rest(&mut self, at: usize, rest: &[u8]) -> bool {
        let Some(line) = self.lines.get_mut(at).filter(|_| !rest.is_empty() && rest.len() <= WINDOW) else {
            return false;
        };
        line.last_write = Some(self.frames.len());
        self.frames.push((line.front, LineFrame::Write(line.key, ByteBuf::from(rest))));
        true
    }

    /// Tells the front of a line that its session continues at another home: the line ends here.
    pub(crate) fn tell_handed_on(&mut self, at: usize) {
        if let Some(line) = self.lines.get_mut(at)
            && !std::mem::replace(&mut line.is_lost, true)
        {
            self.frames.push((line.front, LineFrame::HandedOn(line.key)));
        }
    }

    /// Returns a line that is ready, once for each event.
    pub(crate) fn next_ready(&mut self) -> Option<ReadySocket> {
        while let Some(line) = self.stirred.pop_first() {
            if let Some(ready) = self.lines.get(line).and_then(ClientLine::ready) {
                return Some(ready);
            }
        }
        None
    }

    /// Ends the lines whose connections were dropped.
    pub(crate) fn sweep(&mut self) {
        let dropped = std::mem::take(&mut *lock(&self.dropped));
        for at in dropped {
            let Some(line) = self.lines.try_remove(at) else { continue };
            self.by_front.remove(&(line.front, line.key));
            self.stirred.remove(&at);
            self.news.remove(&at);
            if !line.is_lost {
                self.frames.push((line.front, LineFrame::Close(line.key)));
            }
        }
    }

    /// Begins to watch a connection.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn add(&mut self, socket: &ClientSocket<D::Socket>, key: u32) -> io::Result<()> {
        match socket {
            ClientSocket::Here(socket) => self.system.add(socket, key),
            ClientSocket::Afar(end) => {
                if let Some(line) = self.lines.get_mut(end.line) {
                    (line.watched, line.wants_read, line.wants_write) = (Some(key), true, false);
                    self.stirred.insert(end.line);
                }
                Ok(())
            }
        }
    }

    /// Changes the events that a connection is watched for.
    pub(crate) fn interest(&mut self, socket: &ClientSocket<D::Socket>, key: u32, read: bool, write: bool) {
        match socket {
            ClientSocket::Here(socket) => self.system.interest(socket, key, read, write),
            ClientSocket::Afar(end) => {
                if let Some(line) = self.lines.get_mut(end.line) {
                    (line.wants_read, line.wants_write) = (read, write);
                    self.stirred.insert(end.line);
                    self.news.insert(end.line);
                }
            }
        }
    }

    /// Ends the watch.
    pub(crate) fn remove(&mut self, socket: &ClientSocket<D::Socket>) {
        match socket {
            ClientSocket::Here(socket) => self.system.remove(socket),
            ClientSocket::Afar(end) => {
                if let Some(line) = self.lines.get_mut(end.line) {
                    line.watched = None;
                }
            }
        }
    }

    /// Reads once. A result of 0 bytes means that the client has ended its direction, or is gone.
    ///
    /// # Errors
    /// `WouldBlock`, or the system's error for a broken connection.
    pub(crate) fn recv(&mut self, socket: &ClientSocket<D::Socket>, buffer: &mut [u8]) -> io::Result<usize> {
        let end = match socket {
            ClientSocket::Here(socket) => return self.system.recv(socket, buffer),
            ClientSocket::Afar(end) => end,
        };
        let Some(line) = self.lines.get_mut(end.line) else { return Ok(0) };
        let input = &mut line.input;
        let most = if input.known > 0 { input.known } else { usize::MAX };
        let len = input.bytes.len().min(buffer.len()).min(most);
        if len == 0 {
            return if line.is_lost { Ok(0) } else { Err(ErrorKind::WouldBlock.into()) };
        }
        buffer.iter_mut().zip(input.bytes.drain(..len)).for_each(|(to, byte)| *to = byte);
        input.bytes.shrink_to(SHARE);
        input.known = input.known.saturating_sub(len);
        input.read += len as u64;
        input.taken += len;
        self.news.insert(end.line);
        if input.taken >= SHARE && !line.is_lost {
            let taken = u32::try_from(std::mem::take(&mut input.taken)).unwrap_or(u32::MAX);
            self.frames.push((line.front, LineFrame::Taken(line.key, taken)));
        }
        if line.is_lost || !input.bytes.is_empty() {
            self.stirred.insert(end.line);
        }
        Ok(len)
    }

    /// Writes once, as much as fits.
    ///
    /// # Errors
    /// `WouldBlock`, or the system's error for a broken connection.
    pub(crate) fn send(&mut self, socket: &ClientSocket<D::Socket>, bytes: &[u8]) -> io::Result<usize> {
        let end = match socket {
            ClientSocket::Here(socket) => return self.system.send(socket, bytes),
            ClientSocket::Afar(end) => end,
        };
        let line = self.lines.get_mut(end.line).filter(|line| !line.is_lost);
        let Some(line) = line else { return Err(ErrorKind::BrokenPipe.into()) };
        let some = bytes.get(..bytes.len().min(WINDOW.saturating_sub(line.unwritten))).unwrap_or_default();
        if some.is_empty() && !bytes.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        line.unwritten += some.len();
        line.last_write = Some(self.frames.len());
        self.news.insert(end.line);
        self.frames.push((line.front, LineFrame::Write(line.key, ByteBuf::from(some))));
        Ok(some.len())
    }

    /// Ends our direction of the line; the client can still read everything that was written.
    pub(crate) fn shutdown(&mut self, socket: &ClientSocket<D::Socket>) {
        match socket {
            ClientSocket::Here(socket) => self.system.shutdown(socket),
            ClientSocket::Afar(end) => {
                if let Some(line) = self.lines.get(end.line).filter(|line| !line.is_lost) {
                    self.frames.push((line.front, LineFrame::Finish(line.key)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use rookery_stream::c2s::{HandOver, LaterHandOver};

    use super::*;

    /// 0.2.0 neither sends nor reads the last field.
    #[test]
    fn a_login_is_read_by_the_earlier_version_and_of_it() {
        type EarlierFrame = (u8, u64, (SocketAddr, bool, HandOver, ByteBuf, ByteBuf));
        let none = None::<u8>;
        let stream =
            ("a@x", "x", none, "", Vec::<u8>::new(), none, Some("PLAIN"), (true, false, none, none, true, none));
        let stream: HandOver = postcard::from_bytes(&postcard::to_allocvec(&stream).unwrap()).unwrap();
        let (peer, carry, kept) = ("192.0.2.1:1".parse().unwrap(), b"<iq/>".to_vec(), b"frame".to_vec());
        let attach = Attach { peer, is_websocket: true, stream, carry, kept, later: LaterHandOver::default() };
        let frame = postcard::to_allocvec(&LineFrame::Attach(7, Box::new(attach.clone()))).unwrap();
        let (kind, key, (_, _, stream, carry, kept)): EarlierFrame = postcard::from_bytes(&frame).unwrap();
        assert_eq!((kind, key, stream.account().as_str()), (0, 7, "a@x"));
        assert_eq!((carry.as_slice(), kept.as_slice()), (&*attach.carry, &*attach.kept));
        let earlier: EarlierFrame = (0, 7, (peer, true, stream, carry, kept));
        let read = LineFrame::read(&postcard::to_allocvec(&earlier).unwrap()).unwrap();
        let LineFrame::Attach(7, read) = read else { panic!("{read:?}") };
        assert_eq!((&read.carry, &read.kept, read.later), (&attach.carry, &attach.kept, attach.later));
        assert!(LineFrame::read(b"\xff").is_err());
    }
}
