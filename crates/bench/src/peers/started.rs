//! A running server of any kind.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;

use rookery_shard::SystemInterface;
use tempfile::TempDir;

use super::child::ServerChild;
use super::{PeerServer, Population, ejabberd, prosody, rookery};
use crate::BenchOutcome;
use crate::port::free_port;

/// A server that accepts logins; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Started {
    child: ServerChild,
    /// The address at which it listens.
    pub address: SocketAddr,
    /// The address at which it listens for HTTP.
    pub web: SocketAddr,
}

/// The ports at which a server is to listen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ports {
    /// For client streams.
    pub streams: u16,
    /// For HTTP.
    pub web: u16,
}

/// The command that starts a server once its folder is prepared.
pub(super) struct StartedReady {
    /// The program, which must not go into the background: its process is measured.
    pub command: Command,
    /// The file that exists once the accounts do, if they can't be made before.
    pub file: Option<PathBuf>,
}

impl Started {
    /// Returns the process whose CPU time and memory count.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }
}

/// Starts a server with these accounts.
///
/// # Errors
/// The reason why it doesn't start.
pub(super) fn start(peer: PeerServer, population: Population) -> BenchOutcome<Started> {
    let folder = TempDir::with_prefix("rookery-bench-")?;
    let ports = Ports { streams: free_port()?.port(), web: free_port()?.port() };
    let ready = match peer {
        PeerServer::Rookery => rookery::prepare(folder.path(), ports, population, SystemInterface::Epoll),
        PeerServer::RookeryIoUring => rookery::prepare(folder.path(), ports, population, SystemInterface::IoUring),
        PeerServer::Ejabberd => ejabberd::prepare(folder.path(), ports, population),
        PeerServer::Prosody => prosody::prepare(folder.path(), ports, population),
        PeerServer::Raw => Err("the raw limit isn't an XMPP server".into()),
    }?;
    let [address, web] = [ports.streams, ports.web].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let mut child = ServerChild::start(folder, ready.command)?;
    child.wait_until_ready(address, ready.file.as_deref())?;
    child.wait_until_ready(web, None)?;
    Ok(Started { child, address, web })
}
