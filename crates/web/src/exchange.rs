//! An HTTP connection: request after request, until it ends or becomes something else.
//!
//! The HTTP library reads the requests and responds to most of them. It takes about 9 KiB for each
//! connection, of which 8 KiB are a read buffer that it keeps while a request waits and between
//! requests. BOSH requests wait most of the time, thousands of them; so when one has been read
//! completely, its connection leaves the library. Then only the socket, TLS, and the recipient of
//! the response remain. The response is written here, and the first bytes of the next request
//! return the connection to the library.
//!
//! # Invariants
//!
//! - A connection leaves the library only when the request was read to its end and all earlier
//!   responses are out: nothing is lost, and no part of a request's body can be taken for another
//!   request.
//! - Data that a client sends ahead is bounded while it isn't read: the library reads no request
//!   before the response to the previous one has left.
//! - Nothing waits for ever for a peer: heads, bodies and idle connections have a deadline each,
//!   and writes have that of [`Conduit`].

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::{Duration, SystemTime};

use hyper::Response;
use hyper::body::Bytes;
use hyper::header::{CONNECTION, CONTENT_LENGTH, DATE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use crate::bosh::HeldRequest;
use crate::client::WebClient;
use crate::conduit::Conduit;
use crate::exit::{Exit, Leave};
use crate::places::AddressPlace;
use crate::{WebShared, route, websocket};

/// Serves a connection until it ends, or a shard takes it over.
///
/// # Errors
/// The connection broke, or its peer violated HTTP.
pub(crate) async fn serve(
    mut conduit: Conduit,
    client: WebClient,
    place: &Arc<AddressPlace>,
    shared: &Arc<WebShared>,
) -> io::Result<()> {
    loop {
        // In a box, so that all of it is freed when a request begins to wait.
        let (left, leave) = Box::pin(requests(conduit, client, place, shared)).await?;
        conduit = left;
        let mut held = match leave {
            None => return Ok(()),
            Some(Leave::WebSocket(origin, site)) => return websocket::give(conduit, origin, site, shared),
            Some(Leave::Held(held)) => held,
        };
        let Some(answer) = wait(&mut conduit, &mut held).await else { return Ok(()) };
        let closes = held.closes;
        drop(held);
        write(&mut conduit, answer, closes).await?;
        if closes || !timeout(HEADS, conduit.arrival()).await? {
            return conduit.shutdown().await;
        }
    }
}

/// Lets the library serve requests until the connection ends or one of them takes it away.
async fn requests(
    conduit: Conduit,
    client: WebClient,
    place: &Arc<AddressPlace>,
    shared: &Arc<WebShared>,
) -> io::Result<(Conduit, Option<Leave>)> {
    let exit = Exit::default();
    let is_unsent = conduit.unsent_flag();
    let answer =
        service_fn(|request| Box::pin(route::answer(request, client, place.clone(), shared.clone(), exit.clone())));
    let mut library = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADS)
        .max_buf_size(HEAD_BYTES)
        .max_headers(MOST_HEADERS)
        .serve_connection(TokioIo::new(conduit), answer);
    let ended = poll_fn(|context| match Pin::new(&mut library).poll(context) {
        Poll::Ready(ended) => Poll::Ready(ended),
        // The library has tried to send everything before it reports that it waits.
        Poll::Pending if exit.holds() && !is_unsent.load(Ordering::Relaxed) => Poll::Ready(Ok(())),
        Poll::Pending => Poll::Pending,
    });
    ended.await.map_err(io::Error::other)?;
    let parts = library.into_parts();
    let mut conduit = parts.io.into_inner();
    conduit.give_back(&parts.read_buf);
    Ok((conduit, exit.take()))
}

/// Waits for the response; `None` if the client disconnects first.
async fn wait(conduit: &mut Conduit, held: &mut HeldRequest) -> Option<Response<Bytes>> {
    let (mut answered, mut departed) = (pin!(held.wait()), pin!(conduit.departure()));
    poll_fn(|context| match answered.as_mut().poll(context) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending => departed.as_mut().poll(context).map(|()| None),
    })
    .await
}

/// Writes a response (RFC 9112 §4).
async fn write(conduit: &mut Conduit, answer: Response<Bytes>, closes: bool) -> io::Result<()> {
    let (mut head, body) = answer.into_parts();
    head.headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    if let Ok(date) = HeaderValue::from_str(&httpdate::fmt_http_date(SystemTime::now())) {
        head.headers.insert(DATE, date);
    }
    if closes {
        head.headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let mut out = Vec::with_capacity(HEAD + body.len());
    out.extend_from_slice(format!("HTTP/1.1 {}\r\n", head.status).as_bytes());
    for (name, value) in &head.headers {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            out.extend_from_slice(part);
        }
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(&body);
    conduit.write_all(&out).await?;
    conduit.flush().await
}

/// The time for the head of a request from its first byte, and for which an idle connection may
/// wait for one.
pub(crate) const HEADS: Duration = Duration::from_secs(30);
/// The most bytes of a head; hyper needs at least 8192.
pub(crate) const HEAD_BYTES: usize = 16 * 1024;
/// The most lines of a head.
const MOST_HEADERS: usize = 64;
/// The usual size of a response's head, in bytes.
const HEAD: usize = 512;
