//! The control socket: the API for the owner of the server's files, over a socket in the data
//! folder.
//!
//! No token is needed there: the system identifies the user at the other end, and the socket admits
//! the user that the server runs as, and root, who could change every file of the server anyway.
//! Their actions are recorded in the action log with their names, like those of tokens and
//! administrators.
//!
//! # Invariants
//!
//! - Connections are bounded in number and time; the few that follow the log or trace have more
//!   time; heads, bodies and the data of operations are bounded as for the API.
//! - Nothing else of the front is served there.

use std::convert::Infallible;
use std::io;
use std::os::unix::net;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rookery_hub::trace::{MOST_SECONDS, MOST_TRACES};
use rookery_operations::action_log::Entry;
use serde_json::Value;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::error::Elapsed;
use tokio::time::timeout;
use tracing::{debug, warn};

use crate::api::problem::Problem;
use crate::ask::now_ms;
use crate::exchange::{HEAD_BYTES, HEADS};
use crate::reply::{Body, reply, text};
use crate::{WebShared, api, form};

pub mod client;
mod journey;
pub mod log;
pub mod trace;

/// Serves connections of the command line until the runtime ends.
pub(crate) async fn serve(listener: net::UnixListener, shared: Arc<WebShared>) {
    let listener = match listener.set_nonblocking(true).and_then(|()| UnixListener::from_std(listener)) {
        Ok(listener) => listener,
        Err(error) => return warn!(%error, "commands can't reach this server: its control socket can't be watched"),
    };
    let places = Arc::new(Semaphore::new(PLACES));
    let followers = Arc::new(Semaphore::new(log::FOLLOWERS));
    let tracers = Arc::new(Semaphore::new(MOST_TRACES));
    loop {
        // Connections without a place wait in the system's queue, which is bounded.
        let Ok(place) = places.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((socket, _)) => {
                let (shared, lasting) = (shared.clone(), Lasting::new(&followers, &tracers));
                tokio::spawn(async move {
                    match lasting.run_bounded(connection(socket, shared, lasting.clone())).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => debug!(%error, "a connection of the command line ended"),
                        Err(_) => debug!("a connection of the command line took too long"),
                    }
                    drop(place);
                });
            }
            Err(error) => {
                warn!(%error, "no connections from the command line are accepted for a second");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

/// The right of a connection to follow the log or to trace, if one was free.
#[derive(Clone)]
struct Lasting {
    followers: Arc<Semaphore>,
    tracers: Arc<Semaphore>,
    has_begun: Arc<AtomicBool>,
}

impl Lasting {
    fn new(followers: &Arc<Semaphore>, tracers: &Arc<Semaphore>) -> Self {
        Self { followers: followers.clone(), tracers: tracers.clone(), has_begun: Arc::default() }
    }

    fn follows(&self) -> Option<OwnedSemaphorePermit> {
        self.begin(&self.followers)
    }

    fn traces(&self) -> Option<OwnedSemaphorePermit> {
        self.begin(&self.tracers)
    }

    fn begin(&self, places: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
        let place = places.clone().try_acquire_owned().ok()?;
        self.has_begun.store(true, Ordering::Relaxed);
        Some(place)
    }

    /// Bounds the time of a connection, which is longer if it follows or traces.
    async fn run_bounded<T>(&self, connection: impl Future<Output = T>) -> Result<T, Elapsed> {
        let mut connection = pin!(connection);
        match timeout(LONGEST, &mut connection).await {
            Err(_) if self.has_begun.load(Ordering::Relaxed) => timeout(log::LONGEST, connection).await,
            ended => ended,
        }
    }
}

async fn connection(socket: UnixStream, shared: Arc<WebShared>, lasting: Lasting) -> io::Result<()> {
    let user = socket.peer_cred()?.uid();
    if user != 0 && user != rustix::process::geteuid().as_raw() {
        warn!(user, "a user other than root or the server's own connected to the control socket");
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let who = tokio::task::spawn_blocking(move || user_name(user)).await.map_err(io::Error::other)?;
    let who: Arc<str> = who.into();
    let answer = service_fn(|request| Box::pin(answer(request, who.clone(), shared.clone(), lasting.clone())));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADS)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(socket), answer);
    served.await.map_err(io::Error::other)
}

async fn answer(
    request: Request<Incoming>,
    who: Arc<str>,
    shared: Arc<WebShared>,
    lasting: Lasting,
) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path().strip_prefix(api::PREFIX).map(str::to_owned);
    Ok(match (request.method(), path) {
        (_, Some(path)) if path == NOTE => note(request, &who, &shared).await,
        (&Method::GET, Some(path)) if path == log::LOG => log::show(&request, &shared, || lasting.follows()),
        (&Method::GET, Some(path)) if path == trace::TRACE => {
            let query = request.uri().query().unwrap_or_default();
            trace::show(query, &who, &shared, || lasting.traces()).await
        }
        (&Method::POST, Some(path)) if path == log::LEVEL => log::raise(request, &who, shared).await,
        (_, Some(path)) => api::answer_owner(request, &path, &who, shared).await,
        (_, None) => text(StatusCode::NOT_FOUND, "there is nothing here but the API"),
    })
}

/// Records the action of a command that works on the store itself.
async fn note(request: Request<Incoming>, who: &str, shared: &WebShared) -> Response<Body> {
    let body = form::body(request.into_body()).await.ok();
    let said: Option<Value> = body.and_then(|body| serde_json::from_slice(&body).ok());
    let member = |name: &str| said.as_ref().and_then(|said| said[name].as_str()).map(str::to_owned);
    let (Some(domain), Some(act)) = (member("domain"), member("act")) else {
        return Problem::bad_request("expected an object with the texts `domain` and `act`").response();
    };
    shared.action_log.note(Entry {
        unix_ms: now_ms(),
        who: who.to_owned(),
        by: api::BY_COMMAND.to_owned(),
        act,
        domain,
    });
    reply(StatusCode::NO_CONTENT, "text/plain", "")
}

/// Returns the name of the user of this process, as the action log has it for commands.
pub fn own_name() -> String {
    user_name(rustix::process::geteuid().as_raw())
}

/// Returns the name of a user of this machine, or the number if there is no name.
fn user_name(id: u32) -> String {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    name_in(&users, id).map_or_else(|| format!("user {id}"), str::to_owned)
}

fn name_in(users: &str, id: u32) -> Option<&str> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(id)).then_some(name)
    })
}

/// The way of a command's actions in the action log.
pub const BY: &str = api::BY_COMMAND;
/// The path after [`api::PREFIX`] where commands report their changes to the store.
pub const NOTE: &str = "/note";
/// The most connections at a time: more than may follow the log or trace, so that there is room for
/// other commands.
const PLACES: usize = 4 + log::FOLLOWERS + MOST_TRACES;
/// The longest time of a connection.
const LONGEST: Duration = Duration::from_secs(300);

const _: () = assert!(log::LONGEST.as_secs() > MOST_SECONDS, "a trace has its time");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_their_numbers() {
        let users = "root:x:0:0:root:/root:/bin/sh\nbroken\nrookery:x:998:997::/var/lib/rookery:/bin/false\n";
        assert_eq!(name_in(users, 998), Some("rookery"));
        assert_eq!(name_in(users, 997), None, "that is a group");
    }
}
