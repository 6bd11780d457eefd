//! The proxy for SOCKS5 bytestreams (XEP-0065): clients that can't reach each other connect here,
//! and are joined.
//!
//! The module `bytestreams` speaks XMPP with the clients, on a shard. This crate has the port that
//! they connect to, on a separate thread and runtime, so that no file transfer can delay a shard.
//! Two connections with the same token wait until a shard says that the requester wants them
//! joined.
//!
//! # Invariants
//!
//! * Nothing is relayed before the requester, whose address is part of the token, has activated the
//!   stream; nobody else can.
//! * At most two connections use a token. A third one is refused.
//! * The resources that strangers can take are bounded: waiting connections by their time, by their
//!   number from one address and by their total number; streams by the domain of the requester,
//!   their rate and their idle time. A stream takes two buffers of 16 KiB and nothing that grows.
//!
//! # Layout
//!
//! `socks` is the dialogue until a connection waits, `accept` accepts connections, `waiting` holds
//! those that wait, `pump` copies the bytes of a stream, `pace` limits its rate.

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

/// Starts to accept connections on a separate thread, and to carry out what modules ask for through
/// `relay`. Clients learn the port of the first listener.
///
/// # Errors
///
/// The error of the operating system if it refuses a thread or a descriptor.
pub fn start(listeners: Vec<TcpListener>, relay: &Relay) -> io::Result<Running> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let port = listeners.first().map(TcpListener::local_addr).transpose()?.map_or(0, |address| address.port());
    let (wishes, asked) = mpsc::channel(WISHES);
    let (stop, stopped) = watch::channel(false);
    let serve = move || runtime.block_on(accept::serve(listeners, asked, stopped));
    let thread = std::thread::Builder::new().name("relay".into()).spawn(|| rookery_observe::vital(serve))?;
    // A wish for which there is no room is dropped, and its sender gets a failure.
    relay.serve(port, move |wish| drop(wishes.try_send(wish)));
    Ok(Running { stop, thread })
}

impl Running {
    /// Ends all streams, and waits until that is done. Returns false if the thread panicked.
    pub fn stop(self) -> bool {
        // If there is no receiver, the thread has stopped already.
        let _ = self.stop.send(true);
        self.thread.join().is_ok()
    }
}

/// The most wishes that may wait for this thread.
const WISHES: usize = 1024;
