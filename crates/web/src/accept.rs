//! Taking connections: how many, how long they may be silent, and what is spoken on each.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use rookery_hub::Network;
use rookery_observe::Since;
use rookery_shard::Handed;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tracing::{debug, error, warn};

use crate::conduit::{Conduit, Parts};
use crate::{Listener, Shared, exchange, proxy};

/// Who is at the other end.
#[derive(Debug, Clone, Copy)]
pub struct Client {
    /// The address from which the connection comes, or that of which the PROXY protocol told.
    pub peer: SocketAddr,
    /// Whether TLS ends here.
    pub tls: bool,
}

/// Accepts until it is told to stop.
pub async fn serve(listeners: Vec<Listener>, shared: Arc<Shared>, mut stopped: watch::Receiver<bool>) {
    let room = Arc::new(Semaphore::new(shared.settings().connections));
    for listener in listeners {
        let socket = listener.socket.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener.socket));
        match socket {
            Ok(socket) => drop(tokio::spawn(accept(socket, listener.tls, shared.clone(), room.clone()))),
            Err(error) => error!(%error, "a port of the web can't be listened on"),
        }
    }
    tokio::spawn(crate::samples::take(shared.clone()));
    let answering = shared.clone();
    tokio::spawn(sweep(shared));
    // What is under way ends with the runtime. Who was handed to a shard is none of ours any more.
    let _ = stopped.wait_for(|stopped| *stopped).await;
    farewell(&answering).await;
}

/// Gives the answers time to leave in which the shards say that the server stops.
async fn farewell(shared: &Shared) {
    for _ in 0..FAREWELLS {
        let is_last = shared.waiting.load(Ordering::Relaxed) == 0;
        tokio::time::sleep(FAREWELL).await;
        if is_last {
            return;
        }
    }
}

/// Removes files that have expired, now and again.
async fn sweep(shared: Arc<Shared>) {
    loop {
        // Where there was one there may be more.
        let removed = shared.files.sweep().await;
        tokio::time::sleep(if removed > 0 { Duration::from_millis(100) } else { SWEEP }).await;
    }
}

async fn accept(listener: TcpListener, tls: bool, shared: Arc<Shared>, room: Arc<Semaphore>) {
    loop {
        // Who is one too many waits in the queue of the listener.
        let Ok(place) = room.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((socket, peer)) => {
                let shared = shared.clone();
                tokio::spawn(async move {
                    shared.counts.connections.fetch_add(1, Ordering::Relaxed);
                    shared.counts.open.fetch_add(1, Ordering::Relaxed);
                    if let Err(error) = connection(socket, peer, tls, &shared).await {
                        debug!(%peer, %error, "a connection of the web ended");
                    }
                    shared.counts.open.fetch_sub(1, Ordering::Relaxed);
                    drop(place);
                });
            }
            Err(error) => {
                warn!(%error, "no connection of the web can be accepted for a second");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

async fn connection(socket: TcpStream, peer: SocketAddr, tls: bool, shared: &Arc<Shared>) -> io::Result<()> {
    socket.set_nodelay(true)?;
    // Boxed: it is over when the long part begins.
    let (conduit, peer) = Box::pin(timeout(HANDSHAKES, begin(socket, peer, tls, shared))).await??;
    if tls && conduit.alpn() == Some(XMPP) {
        return give_stream(conduit, peer, shared);
    }
    exchange::serve(conduit, Client { peer, tls }, shared).await
}

/// What comes before the first request: the header of a proxy, the handshake of TLS.
async fn begin(
    mut socket: TcpStream,
    mut peer: SocketAddr,
    tls: bool,
    shared: &Shared,
) -> io::Result<(Conduit, SocketAddr)> {
    let settings = shared.settings();
    let is_proxy = trusts(&settings.trusted_proxies, peer);
    if settings.proxy_protocol && is_proxy {
        peer = proxy::read_header(&mut socket).await?.unwrap_or(peer);
    }
    if !tls {
        return Ok((Conduit::plain(socket), peer));
    }
    let offered = settings.tls.offering(&[HTTP, XMPP]);
    let since = Since::now();
    let conduit = Conduit::tls(socket, &offered).await?;
    shared.counts.handshakes.lock().unwrap_or_else(PoisonError::into_inner).record_time(since.elapsed());
    Ok((conduit, peer))
}

/// An XMPP client that came to the port for browsers goes where XMPP clients are.
fn give_stream(conduit: Conduit, peer: SocketAddr, shared: &Shared) -> io::Result<()> {
    let Parts { socket, tls, input } = conduit.into_parts()?;
    let is_websocket = false;
    shared.door.hand_over(Handed { socket, peer, tls, input, is_encrypted_by_proxy: false, is_websocket });
    Ok(())
}

/// Whether an address is in one of these networks.
pub fn trusts(networks: &[Network], address: SocketAddr) -> bool {
    networks.iter().any(|network| network.contains(address.ip()))
}

/// The names of what is spoken behind TLS (RFC 7301, XEP-0368 §3).
const HTTP: &[u8] = b"http/1.1";
const XMPP: &[u8] = b"xmpp-client";

/// How long TLS and the header of a proxy may take.
const HANDSHAKES: Duration = Duration::from_secs(15);
/// How often it is looked whether requests still wait when the server stops, and how many times.
const FAREWELL: Duration = Duration::from_millis(20);
const FAREWELLS: u32 = 50;
/// How often files are looked for that have expired, or whose owner was removed.
const SWEEP: Duration = Duration::from_secs(3);
