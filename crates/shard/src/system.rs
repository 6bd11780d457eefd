//! The drivers for Linux behind one type, and the choice between them.
//!
//! There is one type rather than a shard for each driver, since the shard is most of the code to
//! compile, and a branch per call is cheap beside the system call behind it.

#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use rustix::event::epoll;
use tracing::debug;

use crate::driver::{Driver, ReadySocket};
use crate::epoll::Epoll;
use crate::ring::RingDriver;
use crate::socket::SystemSocket;

/// The interface of the system by which shards wait for sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SystemInterface {
    /// epoll: see the decision about the loop of a shard.
    #[default]
    Auto,
    /// epoll, which every Linux has.
    Epoll,
    /// io_uring, and nothing else.
    IoUring,
}

/// A driver for Linux.
#[derive(Debug)]
pub enum SystemDriver {
    /// A driver over epoll.
    Epoll(Epoll),
    /// A driver over io_uring.
    Ring(Box<RingDriver>),
}

/// The results of a wait.
#[derive(Default)]
pub struct SystemNews {
    /// Sockets that are ready.
    pub ready: Vec<ReadySocket>,
    /// Listeners, by their index, that have connections to accept.
    pub listeners: Vec<usize>,
    /// The memory into which epoll writes.
    pub(crate) events: Vec<epoll::Event>,
}

impl fmt::Debug for SystemNews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemNews")
            .field("ready", &self.ready)
            .field("listeners", &self.listeners)
            .finish_non_exhaustive()
    }
}

impl SystemInterface {
    /// Returns the interface that is used on this machine: [`SystemInterface::Epoll`] or
    /// [`SystemInterface::IoUring`].
    ///
    /// # Errors
    /// The reason why the system doesn't have the demanded interface, or forbids it.
    pub fn settle(self) -> io::Result<Self> {
        match self {
            Self::Auto | Self::Epoll => Ok(Self::Epoll),
            Self::IoUring => {
                let tried = RingDriver::new();
                debug!(?tried, "a ring was tried");
                tried.map(|_| Self::IoUring)
            }
        }
    }

    /// Returns the name of the interface in the configuration and in log lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Epoll => "epoll",
            Self::IoUring => "io_uring",
        }
    }
}

impl SystemDriver {
    /// Makes a driver without sockets.
    ///
    /// # Errors
    /// The error of the system when it gives no descriptor, or has no such interface.
    pub fn new(interface: SystemInterface) -> io::Result<Self> {
        match interface {
            SystemInterface::Auto | SystemInterface::Epoll => Epoll::new().map(Self::Epoll),
            SystemInterface::IoUring => RingDriver::new().map(|ring| Self::Ring(Box::new(ring))),
        }
    }

    /// Returns a function that wakes a wait, from any thread.
    pub fn waker(&self) -> Box<dyn Fn() + Send + Sync> {
        match self {
            Self::Epoll(driver) => driver.waker(),
            Self::Ring(driver) => driver.waker(),
        }
    }

    /// Watches a listener.
    ///
    /// # Errors
    /// The error of the system.
    pub fn add_listener(&mut self, listener: &TcpListener, index: usize) -> io::Result<()> {
        match self {
            Self::Epoll(driver) => driver.add_listener(listener, index),
            Self::Ring(driver) => {
                driver.add_listener(listener, index);
                Ok(())
            }
        }
    }

    /// Stops watching a listener.
    pub fn remove_listener(&mut self, listener: &TcpListener) {
        match self {
            Self::Epoll(driver) => driver.remove_listener(listener),
            Self::Ring(driver) => driver.remove_listener(listener),
        }
    }

    /// Waits until something is ready or the time is over (`None`: for ever), and reports it.
    pub fn wait(&mut self, timeout: Option<Duration>, news: &mut SystemNews) {
        match self {
            Self::Epoll(driver) => driver.wait(timeout, news),
            Self::Ring(driver) => driver.wait(timeout, news),
        }
    }
}

impl Driver for SystemDriver {
    type Socket = SystemSocket;

    fn connect(&mut self, address: SocketAddr) -> io::Result<SystemSocket> {
        match self {
            Self::Epoll(driver) => driver.connect(address).map(SystemSocket::from),
            Self::Ring(driver) => driver.connect(address),
        }
    }

    fn connect_result(&mut self, socket: &SystemSocket) -> io::Result<()> {
        match self {
            Self::Epoll(driver) => driver.connect_result(&socket.stream),
            Self::Ring(driver) => driver.connect_result(socket),
        }
    }

    fn add(&mut self, socket: &SystemSocket, key: u32) -> io::Result<()> {
        match self {
            Self::Epoll(driver) => driver.add(&socket.stream, key),
            Self::Ring(driver) => driver.add(socket, key),
        }
    }

    fn interest(&mut self, socket: &SystemSocket, key: u32, read: bool, write: bool) {
        match self {
            Self::Epoll(driver) => driver.interest(&socket.stream, key, read, write),
            Self::Ring(driver) => driver.interest(socket, key, read, write),
        }
    }

    fn remove(&mut self, socket: &SystemSocket) {
        match self {
            Self::Epoll(driver) => driver.remove(&socket.stream),
            Self::Ring(driver) => driver.remove(socket),
        }
    }

    fn recv(&mut self, socket: &SystemSocket, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Epoll(driver) => driver.recv(&socket.stream, buffer),
            Self::Ring(driver) => driver.recv(socket, buffer),
        }
    }

    fn send(&mut self, socket: &SystemSocket, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Epoll(driver) => driver.send(&socket.stream, bytes),
            Self::Ring(driver) => driver.send(socket, bytes),
        }
    }

    fn shutdown(&mut self, socket: &SystemSocket) {
        match self {
            Self::Epoll(driver) => driver.shutdown(&socket.stream),
            Self::Ring(driver) => driver.shutdown(socket),
        }
    }
}
