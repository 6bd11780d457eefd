//! The reception at which other threads hand clients over to the serving thread, each with a socket
//! and a purpose.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

use crate::authority::SetterProof;
use crate::grpc::daq::SettingParts;
use crate::service::BroughtBy;
use rustix::event::{EventfdFlags, eventfd};

/// A client that is handed over.
#[derive(Debug)]
pub(super) struct Visitor {
    /// One end of a pair, of which the thread that handed the client over has the other. Closing
    /// either ends the client.
    pub(super) stream: UnixStream,
    pub(super) errand: VisitorErrand,
    /// The address against whose limits it counts.
    pub(super) from: IpAddr,
    /// The protocol by which it came.
    pub(super) by: BroughtBy,
}

/// The purpose of a visitor.
#[derive(Debug)]
pub(super) enum VisitorErrand {
    /// To read these requests.
    Read(Vec<String>),
    /// To make its own requests, like clients over TCP.
    Talk,
    /// To get an overview of readings, readers and delays.
    Look,
    /// To get the figures of `/metrics`.
    Measure,
    /// To set devices, with its proof and from its address.
    Set(Vec<SettingParts>, SetterProof, SocketAddr),
}

/// The outer side, for any number of threads.
#[derive(Debug, Clone)]
pub(super) struct Reception {
    visitors: Sender<Visitor>,
    bell: Arc<OwnedFd>,
}

impl Reception {
    /// Hands a client over. Returns whether the service still exists.
    pub(super) fn enter(&self, visitor: Visitor) -> bool {
        let is_taken = self.visitors.send(visitor).is_ok();
        let _ = rustix::io::write(&*self.bell, &1u64.to_ne_bytes());
        is_taken
    }
}

/// The inner side.
#[derive(Debug)]
pub(super) struct Visitors {
    reception: Reception,
    waiting: Receiver<Visitor>,
}

impl Visitors {
    pub(super) fn new() -> io::Result<Self> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (visitors, waiting) = mpsc::channel();
        Ok(Self { reception: Reception { visitors, bell }, waiting })
    }

    pub(super) fn reception(&self) -> Reception {
        self.reception.clone()
    }

    /// Returns the descriptor that is readable when a visitor waits.
    pub(super) fn bell(&self) -> &OwnedFd {
        &self.reception.bell
    }

    /// Returns the waiting visitors.
    pub(super) fn take(&mut self) -> Vec<Visitor> {
        let _ = rustix::io::read(&*self.reception.bell, &mut [0; 8]);
        self.waiting.try_iter().collect()
    }
}

/// The other end of a client's connection.
#[derive(Debug)]
pub(super) enum ConnectionPeer {
    /// A client on the network.
    Network(TcpStream),
    /// A client of another thread.
    Thread(UnixStream),
}

impl Read for &ConnectionPeer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            ConnectionPeer::Network(stream) => { stream }.read(buffer),
            ConnectionPeer::Thread(stream) => { stream }.read(buffer),
        }
    }
}

impl Write for &ConnectionPeer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            ConnectionPeer::Network(stream) => { stream }.write(bytes),
            ConnectionPeer::Thread(stream) => { stream }.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for ConnectionPeer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Network(stream) => stream.as_fd(),
            Self::Thread(stream) => stream.as_fd(),
        }
    }
}
