//! Which request is answered by whom.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hyper::body::Incoming;
use hyper::header::{ALLOW, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use crate::accept::{Client, trusts};
use crate::exchange::Exit;
use crate::proxy::origin;
use crate::reply::{Body, text};
use crate::{Shared, admin, api, bosh, discovery, metrics, websocket};

/// Answers a request.
pub async fn answer(
    request: Request<Incoming>,
    client: Client,
    shared: Arc<Shared>,
    exit: Exit,
) -> Result<Response<Body>, Infallible> {
    shared.counts.requests.fetch_add(1, Ordering::Relaxed);
    let settings = shared.settings();
    let origin = origin(client, request.headers(), &settings.trusted_proxies);
    let path = request.uri().path();
    if let Some(rest) = path.strip_prefix(UPLOAD) {
        let rest = rest.to_owned();
        return Ok(Box::pin(shared.files.answer(request, &rest)).await);
    }
    if let Some(rest) = path.strip_prefix(api::PREFIX).filter(|rest| rest.is_empty() || rest.starts_with('/')) {
        let rest = rest.to_owned();
        return Ok(Box::pin(api::answer(request, &rest, client, origin, shared)).await);
    }
    if let Some(rest) = path.strip_prefix(admin::PREFIX).filter(|rest| rest.is_empty() || rest.starts_with('/')) {
        let rest = rest.to_owned();
        return Ok(Box::pin(admin::answer(request, &rest, client, origin, shared)).await);
    }
    if path == BOSH {
        return Ok(match bosh::answer(request, origin, &shared).await {
            Ok(held) => exit.wait(held).await,
            Err(answer) => answer,
        });
    }
    if let Some(token) = path.strip_prefix(ACME) {
        return Ok(shared.challenges.answer(token));
    }
    if let Some(rest) = path.strip_prefix(CHAT).filter(|rest| rest.is_empty() || rest.starts_with('/')) {
        return Ok(shared.chat.answer(&request, rest, origin, &settings).await);
    }
    if !matches!(path, WEBSOCKET | WEBSOCKET_OLD | HOST_META | HOST_META_JSON | LIVE | READY | METRICS) {
        return Ok(text(StatusCode::NOT_FOUND, "there is nothing here"));
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "this can only be read");
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Ok(refused);
    }
    Ok(match path {
        WEBSOCKET | WEBSOCKET_OLD => websocket::upgrade(&request, origin, &exit),
        HOST_META => discovery::xml(&request, origin, &settings),
        HOST_META_JSON => discovery::json(&request, origin, &settings),
        LIVE => text(StatusCode::OK, "live"),
        READY => Box::pin(ready(&shared)).await,
        // Not by the address that a header claims: who may read is decided by who connects.
        _ if !trusts(&settings.metrics_networks, client.peer) || origin.address != client.peer => {
            text(StatusCode::FORBIDDEN, "metrics are not for this address; see metrics_networks")
        }
        _ => Box::pin(metrics::answer(shared)).await,
    })
}

/// Whether all shards answer.
async fn ready(shared: &Arc<Shared>) -> Response<Body> {
    let door = shared.door.clone();
    match tokio::task::spawn_blocking(move || door.census()).await {
        Ok(census) if census.answered == census.shards => text(StatusCode::OK, "ready"),
        Ok(_) => text(StatusCode::SERVICE_UNAVAILABLE, "a shard doesn't answer"),
        Err(_) => text(StatusCode::SERVICE_UNAVAILABLE, "stopping"),
    }
}

const WEBSOCKET: &str = "/ws";
/// Where other servers have it.
const WEBSOCKET_OLD: &str = "/xmpp-websocket";
/// Where every client of BOSH looks first.
pub const BOSH: &str = "/http-bind";
/// XEP-0156 §3.
const HOST_META: &str = "/.well-known/host-meta";
/// XEP-0156 §4.
const HOST_META_JSON: &str = "/.well-known/host-meta.json";
/// XEP-0363: a token and a name follow.
const UPLOAD: &str = "/upload/";
/// RFC 8555 §8.3: a token follows.
const ACME: &str = "/.well-known/acme-challenge/";
/// The chat page.
const CHAT: &str = "/chat";
const LIVE: &str = "/health/live";
const READY: &str = "/health/ready";
const METRICS: &str = "/metrics";
