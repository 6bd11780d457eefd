//! An epoll set of sockets, level-triggered.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{Timespec, epoll};

/// An epoll set, in which each socket has a key of its own.
#[derive(Debug)]
pub(super) struct SocketSet {
    set: OwnedFd,
}

/// A socket that can be read or written, by its key. One that has failed counts as readable, so
/// that reading finds the error.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ready {
    pub(super) key: u64,
    pub(super) read: bool,
    pub(super) write: bool,
}

impl SocketSet {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { set: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Adds a socket, and waits for its input from now on.
    pub(super) fn add(&self, socket: impl AsFd, key: u64) -> io::Result<()> {
        Ok(epoll::add(&self.set, socket, epoll::EventData::new_u64(key), epoll::EventFlags::IN)?)
    }

    /// Changes the events that a socket is watched for.
    pub(super) fn change(&self, socket: impl AsFd, key: u64, read: bool, write: bool) -> io::Result<()> {
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, read);
        flags.set(epoll::EventFlags::OUT, write);
        Ok(epoll::modify(&self.set, socket, epoll::EventData::new_u64(key), flags)?)
    }

    /// Removes a socket, which other threads may still have open.
    pub(super) fn remove(&self, socket: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.set, socket)?)
    }

    /// Waits for sockets, for this many milliseconds at most. A signal also ends the wait.
    pub(super) fn wait(&self, millis: Option<u64>, ready: &mut Vec<Ready>) -> io::Result<()> {
        ready.clear();
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        let timeout = millis
            .map(|millis| Timespec { tv_sec: (millis / 1000) as i64, tv_nsec: (millis % 1000 * 1_000_000) as i64 });
        match epoll::wait(&self.set, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        ready.extend(events.iter().map(|event| {
            let flags = event.flags;
            let read = epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
            let (read, write) = (flags.intersects(read), flags.intersects(epoll::EventFlags::OUT));
            Ready { key: event.data.u64(), read, write }
        }));
        Ok(())
    }
}

const EVENTS: usize = 1024;
