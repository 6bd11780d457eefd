//! Accepts connections: gives each a place and a deadline, and finds out which protocol it speaks.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use rookery_base::Transport;
use rookery_base::lock::lock;
use rookery_observe::Since;
use rookery_shard::Handed;
use rookery_stream::tls::ServerTls;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::{debug, error, warn};

use crate::client::{WebClient, trusts};
use crate::conduit::{Conduit, ConduitParts};
use crate::places::{AddressPlace, AddressPlaces, PlaceAsker};
use crate::proxy::Origin;
use crate::{WebListener, WebShared, exchange, hello, proxy};

/// Accepts connections until it is told to stop.
pub async fn serve(
    listeners: Vec<WebListener>,
    control: Option<UnixListener>,
    shared: Arc<WebShared>,
    mut stopped: watch::Receiver<bool>,
) {
    let places = AddressPlaces::new(shared.settings().connections);
    for listener in listeners {
        let address = listener.socket.local_addr().ok();
        let socket = listener.socket.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener.socket));
        match socket {
            Ok(socket) => drop(tokio::spawn(accept(socket, listener.tls, shared.clone(), places.clone()))),
            Err(error) => error!(?address, %error, "can't listen on a port for the web"),
        }
    }
    if let Some(control) = control {
        tokio::spawn(crate::control::serve(control, shared.clone()));
    }
    tokio::spawn(crate::history::take(shared.clone()));
    tokio::spawn(crate::health::watch(shared.clone()));
    let answering = shared.clone();
    tokio::spawn(sweep(shared));
    // Requests in progress end with the runtime. A connection that was handed to a shard isn't
    // affected.
    let _ = stopped.wait_for(|stopped| *stopped).await;
    farewell(&answering).await;
}

/// Waits up to a second for the shards' last answers to BOSH requests to be sent.
async fn farewell(shared: &WebShared) {
    for _ in 0..FAREWELLS {
        let is_last = shared.waiting.load(Ordering::Relaxed) == 0;
        tokio::time::sleep(FAREWELL).await;
        if is_last {
            return;
        }
    }
}

/// Removes files that have expired or whose owner was removed, until the runtime ends.
async fn sweep(shared: Arc<WebShared>) {
    loop {
        // After a full batch there may be more, so the next pause is short.
        let removed = shared.files.sweep().await;
        tokio::time::sleep(if removed > 0 { Duration::from_millis(100) } else { SWEEP }).await;
    }
}

async fn accept(listener: TcpListener, tls: bool, shared: Arc<WebShared>, places: Arc<AddressPlaces>) {
    loop {
        match listener.accept().await {
            Ok((socket, peer)) => {
                shared.counts.connections.fetch_add(1, Ordering::Relaxed);
                let Ok(place) = places.enter(shared.asker(peer)) else {
                    shared.counts.refused.fetch_add(1, Ordering::Relaxed);
                    continue;
                };
                tokio::spawn(guest(socket, peer, tls, Arc::new(place), shared.clone()));
            }
            Err(error) => {
                let address = listener.local_addr().ok();
                warn!(?address, %error, "no web connections are accepted for a second");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

/// Serves a connection until it ends, or until an address with fewer connections gets its place.
async fn guest(socket: TcpStream, peer: SocketAddr, tls: bool, place: Arc<AddressPlace>, shared: Arc<WebShared>) {
    shared.counts.open.fetch_add(1, Ordering::Relaxed);
    {
        let (mut served, mut lost) = (pin!(connection(socket, peer, tls, &place, &shared)), pin!(place.is_lost()));
        let ended = poll_fn(|context| match served.as_mut().poll(context) {
            Poll::Ready(ended) => Poll::Ready(Some(ended)),
            Poll::Pending => lost.as_mut().poll(context).map(|()| None),
        });
        match ended.await {
            Some(Err(error)) => {
                shared.counts.stalled.fetch_add(u64::from(is_stall(&error)), Ordering::Relaxed);
                debug!(%peer, %error, "a connection of the web ended");
            }
            None => {
                shared.counts.displaced.fetch_add(1, Ordering::Relaxed);
                debug!(%peer, "a connection of the web has lost its place");
            }
            Some(Ok(())) => {}
        }
    }
    shared.counts.open.fetch_sub(1, Ordering::Relaxed);
}

async fn connection(
    socket: TcpStream,
    peer: SocketAddr,
    tls: bool,
    place: &Arc<AddressPlace>,
    shared: &Arc<WebShared>,
) -> io::Result<()> {
    socket.set_nodelay(true)?;
    // Without this limit the system would keep megabytes for each peer that doesn't read. A failure
    // to set it is harmless.
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER);
    // Boxed, so that the memory of the handshakes is freed before the long part begins.
    let begun = Box::pin(timeout(HANDSHAKES, begin(socket, peer, tls, place, shared))).await??;
    let Some((conduit, told)) = begun else { return Ok(()) };
    if tls && conduit.alpn() == Some(XMPP) {
        return give_stream(conduit, told, shared);
    }
    exchange::serve(conduit, WebClient { peer: told, tls }, place, shared).await
}

/// Returns whether a connection ended because its peer was silent, or didn't read, for too long.
fn is_stall(error: &(dyn std::error::Error + 'static)) -> bool {
    let is_late = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut;
    let is_timeout = |error: &hyper::Error| error.is_timeout();
    let here = error.downcast_ref::<io::Error>().is_some_and(is_late) || error.downcast_ref().is_some_and(is_timeout);
    // The `source` of an I/O error is the source of the error inside it, so the inner error has to
    // be looked at separately.
    let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    here || inner.is_some_and(|inner| is_stall(inner)) || error.source().is_some_and(is_stall)
}

/// Reads what precedes the first request: the header of a proxy and the TLS handshake. Returns
/// `None` if the peer is another server, whose connection the shards have now.
async fn begin(
    mut socket: TcpStream,
    mut peer: SocketAddr,
    tls: bool,
    place: &AddressPlace,
    shared: &WebShared,
) -> io::Result<Option<(Conduit, SocketAddr)>> {
    let settings = shared.settings();
    let is_proxy = trusts(&settings.trusted_proxies, peer);
    if settings.proxy_protocol
        && is_proxy
        && let Some(told) = proxy::read_header(&mut socket).await?
    {
        peer = told;
        let crowd = |_| io::Error::other("there is no place for its address");
        place.count_for(shared.asker(peer)).map_err(crowd)?;
    }
    if !tls {
        return Ok(Some((Conduit::plain(socket), peer)));
    }
    if settings.takes_servers && hello::is_of_a_server(&socket).await? {
        shared.door.hand_over_server(socket.into_std()?, peer);
        return Ok(None);
    }
    let offered = settings.tls.offering(&[HTTP, XMPP]);
    let since = Since::now();
    let conduit = Conduit::tls(socket, &offered).await?;
    lock(&shared.counts.handshakes).record_time(since.elapsed());
    Ok(Some((conduit, peer)))
}

/// Hands an XMPP client that connected to the port for browsers over to the shards.
fn give_stream(conduit: Conduit, peer: SocketAddr, shared: &WebShared) -> io::Result<()> {
    let ConduitParts { socket, tls, input } = conduit.into_parts()?;
    shared.door.hand_over(Handed {
        socket: socket.into(),
        peer,
        bindings: tls.as_ref().map(ServerTls::bindings).unwrap_or_default(),
        tls,
        input,
        is_encrypted_by_proxy: false,
        is_local: true,
        transport: Transport::Tcp,
    });
    Ok(())
}

impl WebShared {
    /// Returns the peer that asks for a place, as far as its address shows who it is. Connections
    /// from this machine have no limit per address; nor have those from a trusted proxy, whose
    /// clients are counted instead.
    pub(crate) fn asker(&self, peer: SocketAddr) -> PlaceAsker {
        let settings = self.settings();
        let is_here = peer.ip().to_canonical().is_loopback();
        let is_counted = !is_here && !trusts(&settings.trusted_proxies, peer);
        let most = if is_counted { settings.connections_per_address } else { 0 };
        PlaceAsker { address: peer.ip(), most, is_here }
    }

    /// Returns the peer that asks for a place with a request. A request that came through a proxy
    /// isn't counted as one from this machine, even if the proxy runs on it.
    pub(crate) fn asker_of(&self, origin: Origin) -> PlaceAsker {
        let asker = self.asker(origin.address);
        PlaceAsker { is_here: asker.is_here && origin.way.is_known(), ..asker }
    }
}

/// The protocols that clients can choose in the TLS handshake by ALPN (RFC 7301): HTTP, and XMPP
/// streams (XEP-0368 §3).
const HTTP: &[u8] = b"http/1.1";
const XMPP: &[u8] = b"xmpp-client";

/// The bytes that the system buffers for a peer that doesn't read. Linux doubles the number that it
/// is given.
const SEND_BUFFER: usize = 256 * 1024;
/// The time that a connection has for the header of a proxy and the TLS handshake together.
pub(crate) const HANDSHAKES: Duration = Duration::from_secs(15);
/// The pause between two checks for waiting BOSH requests when the server stops, and the most
/// checks: a second in all.
const FAREWELL: Duration = Duration::from_millis(20);
const FAREWELLS: u32 = 50;
/// The pause between two searches for files that have expired or whose owner was removed.
const SWEEP: Duration = Duration::from_secs(3);
