//! Accepts connections, and joins two of them when a shard asks for it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rookery_hub::household;
use rookery_modules::bytestreams::{RelayOutcome, RelayWish};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tracing::{debug, error, warn};

use crate::pump;
use crate::socks::{self, SocksReply};
use crate::waiting::{WaitingPair, WaitingPlace, WaitingStreams};

/// Accepts and joins connections until it is stopped. Streams that are under way then end with the
/// runtime.
pub async fn serve(
    listeners: Vec<std::net::TcpListener>,
    asked: mpsc::Receiver<RelayWish>,
    mut stopped: watch::Receiver<bool>,
) {
    let waiting = Arc::new(WaitingStreams::default());
    for listener in listeners {
        let address = listener.local_addr().ok();
        match listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener)) {
            Ok(listener) => drop(tokio::spawn(accept(listener, waiting.clone()))),
            Err(error) => error!(?address, %error, "can't listen on a port for bytestreams"),
        }
    }
    tokio::spawn(join(asked, waiting.clone()));
    tokio::spawn(sweep(waiting));
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

async fn accept(listener: TcpListener, waiting: Arc<WaitingStreams>) {
    loop {
        match listener.accept().await {
            Ok((socket, peer)) => {
                // A connection for which there is no place is closed.
                let Some(place) = waiting.place(household(peer.ip())) else { continue };
                let waiting = waiting.clone();
                tokio::spawn(async move {
                    if let Err(error) = connection(socket, place, &waiting).await {
                        debug!(%peer, %error, "a connection for a bytestream ended");
                    }
                });
            }
            Err(error) => {
                let address = listener.local_addr().ok();
                warn!(?address, %error, "no connections for bytestreams are accepted for a second");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

/// Serves one connection until it waits.
async fn connection(mut socket: TcpStream, place: WaitingPlace, waiting: &Arc<WaitingStreams>) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let request = timeout(HANDSHAKE, socks::request(&mut socket)).await??;
    if !waiting.has_room(&request.token) {
        return timeout(HANDSHAKE, socks::reply(&mut socket, &request, SocksReply::NotAllowed)).await?;
    }
    // This can't block for long, as the kernel's buffer has room for so few bytes on a new
    // connection. A client that has read the success expects to be waiting, so the connection is
    // put there at once.
    timeout(HANDSHAKE, socks::reply(&mut socket, &request, SocksReply::Succeeded)).await??;
    waiting.put(request.token, socket, place);
    Ok(())
}

/// Carries out what shards ask for.
async fn join(mut asked: mpsc::Receiver<RelayWish>, waiting: Arc<WaitingStreams>) {
    while let Some(RelayWish { token, domain, requester, terms, answer }) = asked.recv().await {
        let (outcome, streams) = match waiting.take(token.as_bytes(), &domain, &requester, &terms) {
            WaitingPair::Both(one, other, place) => (RelayOutcome::Joined, Some((one, other, place))),
            WaitingPair::OneOnly => (RelayOutcome::OneOnly, None),
            WaitingPair::TooMany => (RelayOutcome::TooMany, None),
            WaitingPair::None => (RelayOutcome::Unknown, None),
        };
        if let Some((one, other, place)) = streams {
            tokio::spawn(async move {
                if let Err(error) = pump::carry(one, other, terms).await {
                    debug!(%error, "a bytestream ended");
                }
                drop(place);
            });
        }
        answer.complete(outcome);
    }
}

async fn sweep(waiting: Arc<WaitingStreams>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        waiting.sweep();
    }
}

/// The longest time that a client may take to name its stream.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(15);
/// The time between two searches for connections that have waited too long.
const SWEEP: Duration = Duration::from_secs(5);
