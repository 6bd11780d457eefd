//! A client's connection, with the rendered output that its socket hasn't taken yet.
//!
//! Any thread may write it, but only one at a time, so that output is sent in the order in which it
//! was added. Nobody waits for a write: what is added meanwhile is written by the thread that is at
//! it.

use std::io::{self, ErrorKind, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::reception::ConnectionPeer;
use crate::service::ClientKey;

/// A connection and its output.
#[derive(Debug)]
pub(super) struct OutputPipe {
    pub(super) stream: ConnectionPeer,
    pub(super) client: ClientKey,
    waiting: Mutex<WaitingOutput>,
}

/// The output that waits for a socket.
#[derive(Debug, Default)]
struct WaitingOutput {
    unsent: Vec<u8>,
    /// True from when a thread takes the output on until it has written all of it.
    is_taken: bool,
    /// True if the socket must be ready before it takes more.
    is_blocked: bool,
    is_broken: bool,
    /// The time since which the socket has taken nothing, in milliseconds, if there is output.
    stuck: Option<u64>,
    /// True if the serving thread wants to know when all is written.
    tells: bool,
}

/// The state of a connection after output was added or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PipeState {
    /// The socket has taken everything.
    Empty,
    /// A thread writes, or is about to.
    Busy,
    /// The socket takes no more until it is ready.
    Blocked,
    /// The connection has failed.
    Broken,
}

impl OutputPipe {
    pub(super) fn new(stream: ConnectionPeer, client: ClientKey) -> Self {
        Self { stream, client, waiting: Mutex::default() }
    }

    /// Returns the number of bytes that no thread has begun to write.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.lock().unsent.len()
    }

    /// Returns since when the socket has taken nothing although there is output, in milliseconds.
    pub(super) fn stuck_since(&self) -> Option<u64> {
        self.lock().stuck
    }

    /// Returns the state of the connection.
    pub(super) fn state(&self) -> PipeState {
        self.lock().state()
    }

    /// Notes that the socket is ready for output again.
    pub(super) fn unblock(&self) {
        self.lock().is_blocked = false;
    }

    /// Makes the thread that writes tell the serving thread once all is written. Returns the state:
    /// nobody is told unless it is [`PipeState::Busy`].
    pub(super) fn tell_when_written(&self) -> PipeState {
        let mut waiting = self.lock();
        waiting.tells = waiting.is_taken;
        waiting.state()
    }

    /// Adds output, and writes as much as the socket takes unless another thread does that.
    pub(super) fn send(&self, bytes: &[u8], now: u64) -> PipeState {
        let mut waiting = self.lock();
        let is_idle = !waiting.is_taken && !waiting.is_blocked && !waiting.is_broken;
        if !is_idle || !waiting.unsent.is_empty() {
            waiting.unsent.extend_from_slice(bytes);
        }
        if !is_idle {
            return waiting.state();
        }
        waiting.is_taken = true;
        if waiting.unsent.is_empty() {
            // Most connections are never behind, so their output is never copied.
            drop(waiting);
            let sent = self.write(bytes);
            waiting = self.lock();
            waiting.account(sent, bytes, now);
        }
        self.write_waiting(waiting, now)
    }

    /// Adds output that another thread is to write by [`write_on`](Self::write_on). Returns false
    /// if that isn't needed.
    pub(super) fn hand_over(&self, bytes: &[u8]) -> bool {
        let mut waiting = self.lock();
        waiting.unsent.extend_from_slice(bytes);
        let is_needed = !waiting.is_taken && !waiting.is_blocked && !waiting.is_broken && !waiting.unsent.is_empty();
        waiting.is_taken |= is_needed;
        is_needed
    }

    /// Writes what was handed over. Returns whether the serving thread must be told.
    pub(super) fn write_on(&self, now: u64) -> bool {
        let state = self.write_waiting(self.lock(), now);
        state != PipeState::Empty || std::mem::take(&mut self.lock().tells)
    }

    /// Writes until nothing waits or the socket takes no more, and then leaves the output to
    /// others.
    fn write_waiting<'a>(&'a self, mut waiting: MutexGuard<'a, WaitingOutput>, now: u64) -> PipeState {
        while !waiting.unsent.is_empty() && !waiting.is_blocked && !waiting.is_broken {
            let bytes = std::mem::take(&mut waiting.unsent);
            drop(waiting);
            let sent = self.write(&bytes);
            waiting = self.lock();
            waiting.account(sent, &bytes, now);
            waiting.keep(bytes);
        }
        waiting.is_taken = false;
        waiting.state()
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match bytes.is_empty() {
            true => Ok(0),
            false => (&self.stream).write(bytes),
        }
    }

    /// Locks the output. A thread that panicked has left it whole: it only changes between writes.
    fn lock(&self) -> MutexGuard<'_, WaitingOutput> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WaitingOutput {
    fn state(&self) -> PipeState {
        match self {
            Self { is_broken: true, .. } => PipeState::Broken,
            Self { is_taken: true, .. } => PipeState::Busy,
            Self { is_blocked: true, .. } => PipeState::Blocked,
            _ => PipeState::Empty,
        }
    }

    /// Notes the result of a write of these bytes, which were taken out before.
    fn account(&mut self, sent: io::Result<usize>, bytes: &[u8], now: u64) {
        let sent = match sent {
            Ok(sent) => {
                self.stuck = (sent < bytes.len()).then_some(now);
                sent
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                self.stuck.get_or_insert(now);
                0
            }
            Err(_) => {
                self.is_broken = true;
                return;
            }
        };
        if sent < bytes.len() {
            self.is_blocked = true;
            self.unsent.splice(..0, bytes[sent..].iter().copied());
        }
    }

    /// Keeps a small buffer for the next output: it was allocated by another thread, so that
    /// freeing it costs more than most.
    fn keep(&mut self, mut written: Vec<u8>) {
        if self.unsent.capacity() == 0 && written.capacity() <= KEPT {
            written.clear();
            self.unsent = written;
        }
    }
}

/// The largest buffer that a connection keeps, in bytes.
const KEPT: usize = 1024;

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn output_arrives_in_the_order_in_which_it_was_added_by_whichever_thread() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        ours.set_nonblocking(true).expect("it can be set");
        let pipe = Arc::new(OutputPipe::new(ConnectionPeer::Thread(ours), 1));
        let (hand, handed) = std::sync::mpsc::channel::<Arc<OutputPipe>>();
        let writer = std::thread::spawn(move || handed.iter().filter(|pipe| pipe.write_on(0)).count());
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            theirs.read_to_end(&mut all).expect("output");
            all
        });
        let mut expected = Vec::new();
        for number in 0..NUMBERS {
            let bytes = number.to_be_bytes();
            expected.extend_from_slice(&bytes);
            // A socket that is blocked is asked again, as its readiness would make the service do.
            pipe.unblock();
            match number % 3 {
                0 => drop(pipe.send(&bytes, 0)),
                _ if pipe.hand_over(&bytes) => hand.send(Arc::clone(&pipe)).expect("the writer lives"),
                _ => {}
            }
        }
        drop(hand);
        writer.join().expect("no panic");
        while pipe.send(&[], 0) != PipeState::Empty {
            pipe.unblock();
            std::thread::yield_now();
        }
        drop(pipe);
        assert!(reader.join().expect("no panic") == expected, "bytes were lost or swapped");
    }

    #[test]
    fn a_blocked_socket_gets_the_rest_once_it_is_ready() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        ours.set_nonblocking(true).expect("it can be set");
        let pipe = OutputPipe::new(ConnectionPeer::Thread(ours), 1);
        let output = vec![7; MORE_THAN_A_SOCKET];
        assert_eq!(pipe.send(&output, 5), PipeState::Blocked);
        assert_eq!(pipe.stuck_since(), Some(5));
        assert!(!pipe.hand_over(b"!"), "nobody can write to it now");
        let mut taken = Vec::new();
        while taken.len() <= output.len() {
            let mut chunk = [0; 4096];
            let length = theirs.read(&mut chunk).expect("output");
            taken.extend_from_slice(&chunk[..length]);
            pipe.unblock();
            pipe.send(&[], 6);
        }
        assert_eq!((pipe.send(&[], 7), pipe.stuck_since(), pipe.unsent_bytes()), (PipeState::Empty, None, 0));
        assert!(taken.ends_with(b"\x07!"), "what was added while it was blocked follows");
    }

    #[test]
    fn a_broken_connection_and_awaited_output_are_reported_to_the_serving_thread() {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        ours.set_nonblocking(true).expect("it can be set");
        let pipe = OutputPipe::new(ConnectionPeer::Thread(ours), 1);
        assert!(pipe.hand_over(b"a"));
        assert!(!pipe.write_on(0), "nobody waits for it");
        assert!(pipe.hand_over(b"b"));
        assert_eq!(pipe.tell_when_written(), PipeState::Busy);
        assert!(pipe.write_on(0));
        assert_eq!(pipe.tell_when_written(), PipeState::Empty);
        drop(theirs);
        assert!(pipe.hand_over(b"c"));
        assert!(pipe.write_on(0));
        assert_eq!(pipe.send(b"d", 0), PipeState::Broken);
    }

    const NUMBERS: u32 = 20_000;
    const MORE_THAN_A_SOCKET: usize = 4 << 20;
}
