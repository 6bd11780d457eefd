//! A connection of the system, and the bytes that a driver had for it when it released it.
//!
//! A driver over io_uring receives before it is asked, and may have accepted output that the system
//! has no room for. If it has to release a connection, which goes to another shard, these bytes go
//! along, and the next driver continues with them. If the connection is closed instead, the output
//! goes back to its driver, which sends it and then closes.

use std::cell::Cell;
use std::fmt;
use std::mem;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rookery_base::lock::lock;

/// A connection, for the drivers of the system.
pub struct SystemSocket {
    pub(crate) stream: TcpStream,
    /// Bytes between the system and the shard; boxed, since hardly any connection has some.
    kept: Cell<Option<Box<KeptBytes>>>,
}

/// Bytes that a driver had for a connection.
pub(crate) struct KeptBytes {
    /// Bytes that were received and not read.
    pub(crate) input: Vec<u8>,
    /// Bytes that were accepted and not sent.
    pub(crate) output: Vec<u8>,
    /// The place that sends the output of connections that are closed.
    pub(crate) left: Arc<LeftOutput>,
}

/// The output of connections that were closed before the system had room for it.
#[derive(Debug)]
pub(crate) struct LeftOutput {
    queue: Mutex<Vec<(TcpStream, Vec<u8>)>>,
    any: AtomicBool,
    /// Wakes the driver.
    wake: Arc<OwnedFd>,
}

impl LeftOutput {
    pub(crate) fn new(wake: Arc<OwnedFd>) -> Self {
        Self { queue: Mutex::default(), any: AtomicBool::new(false), wake }
    }

    fn put(&self, stream: TcpStream, output: Vec<u8>) {
        let mut queue = lock(&self.queue);
        if queue.len() < MOST_LEFT {
            queue.push((stream, output));
            self.any.store(true, Ordering::Release);
            wake(&self.wake);
        }
    }

    /// Takes all sockets that wait, and leaves the queue empty; takes no lock if nothing waits.
    pub(crate) fn take(&self) -> Vec<(TcpStream, Vec<u8>)> {
        match self.any.swap(false, Ordering::AcqRel) {
            true => mem::take(&mut *lock(&self.queue)),
            false => Vec::new(),
        }
    }
}

/// Wakes a driver by its eventfd.
pub(crate) fn wake(wake: &OwnedFd) {
    // A write can only fail because the counter is full, and then the shard wakes anyway.
    let _ = rustix::io::write(wake, &1u64.to_ne_bytes());
}

impl SystemSocket {
    /// Gives a connection the bytes of a driver that releases it.
    pub(crate) fn keep(&self, kept: KeptBytes) {
        if !kept.input.is_empty() || !kept.output.is_empty() {
            self.kept.set(Some(Box::new(kept)));
        }
    }

    /// Takes the bytes that the last driver had for it.
    pub(crate) fn take_kept(&self) -> Option<Box<KeptBytes>> {
        self.kept.take()
    }

    pub(crate) fn number(&self) -> RawFd {
        self.stream.as_raw_fd()
    }
}

impl From<TcpStream> for SystemSocket {
    fn from(stream: TcpStream) -> Self {
        Self { stream, kept: Cell::new(None) }
    }
}

impl AsFd for SystemSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl fmt::Debug for SystemSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SystemSocket").field(&self.stream).finish()
    }
}

impl Drop for SystemSocket {
    fn drop(&mut self) {
        let Some(kept) = self.kept.take().filter(|kept| !kept.output.is_empty()) else { return };
        // Without a descriptor for it the output is lost, as if the peer had gone.
        if let Ok(stream) = self.stream.try_clone() {
            kept.left.put(stream, kept.output);
        }
    }
}

/// Closed connections of a shard whose output waits for room.
pub(crate) const MOST_LEFT: usize = 1024;
