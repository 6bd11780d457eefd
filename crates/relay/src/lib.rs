//! The proxy for SOCKS5 bytestreams (XEP-0065): clients that can't reach each other connect here,
//! and are joined.
//!
//! The module `bytestreams` speaks XMPP with them, on a shard; this crate has the port on which
//! they connect, on a thread and runtime of its own, so that no file that somebody sends can hold
//! up a shard. Two connections that give the same token wait until a shard says that the requester
//! wants them joined.
//!
//! # Invariants
//!
//! * Nothing is relayed that was not activated by the one requester of whose address the token is
//!   made.
//! * A token is had by two connections at most. A third one is refused.
//! * What strangers may take is bounded: connections that wait, in all and by address, and the time
//!   they do; streams, by the domain of the requester, their pace and the time they may be idle. A
//!   stream takes two buffers of 16 KiB and nothing that grows.
//!
//! # Layout
//!
//! `socks` is what is spoken until a connection waits, `accept` takes connections, `waiting` keeps
//! those that wait, `pump` carries the bytes of a stream, `pace` says how fast.

mod accept;
mod pace;
mod pump;
pub mod socks;
mod waiting;

use std::io;
use std::net::TcpListener;
use std::thread::JoinHandle;

use rookery_modules::bytestreams::Relay;
use tokio::sync::{mpsc, watch};
pub use waiting::BOUNDS;

/// The running relay.
#[derive(Debug)]
pub struct Running {
    stop: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

/// Starts to accept connections on a thread of its own, and to do what the modules ask `relay` for.
/// The first listener's port is the one that clients are told.
///
/// # Errors
///
/// The error of the system when it gives no thread or no descriptor.
pub fn start(listeners: Vec<TcpListener>, relay: &Relay) -> io::Result<Running> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let port = listeners.first().map(TcpListener::local_addr).transpose()?.map_or(0, |address| address.port());
    let (wishes, asked) = mpsc::channel(WISHES);
    let (stop, stopped) = watch::channel(false);
    let serve = move || runtime.block_on(accept::serve(listeners, asked, stopped));
    let thread = std::thread::Builder::new().name("relay".into()).spawn(|| rookery_observe::vital(serve))?;
    // A wish that finds no room is dropped, and its asker hears that it failed.
    relay.serve(port, move |wish| drop(wishes.try_send(wish)));
    Ok(Running { stop, thread })
}

impl Running {
    /// Ends all streams, and waits until that is done. `false` if the thread panicked.
    pub fn stop(self) -> bool {
        // If nobody listens any more it has stopped already.
        let _ = self.stop.send(true);
        self.thread.join().is_ok()
    }
}

/// Wishes that may wait for this thread.
const WISHES: usize = 1024;
