//! Paths of requests, and the part of the front that answers each.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hyper::body::Incoming;
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use rookery_base::lock::lock;

use crate::access::{self, Ward};
use crate::client::WebClient;
use crate::exit::Exit;
use crate::guests::DeadEnd;
use crate::language::Language;
use crate::places::{AddressPlace, Crowd};
use crate::proxy::origin;
use crate::reply::{Body, text};
use crate::site::RequestHost;
use crate::{WebShared, admin, api, bosh, devices, discovery, guests, metrics, own_files, readiness, websocket};

/// Replies to a request, and counts the response.
pub async fn answer(
    request: Request<Incoming>,
    client: WebClient,
    place: Arc<AddressPlace>,
    shared: Arc<WebShared>,
    exit: Exit,
) -> Result<Response<Body>, Infallible> {
    let reader = PageReader::of(&request);
    let answered = find(request, client, place, shared.clone(), exit).await;
    let answered = answered.map(|response| reader.led_on(response, &shared));
    if let Ok(response) = &answered {
        *lock(&shared.counts.responses).entry(response.status().as_u16()).or_default() += 1;
    }
    answered
}

/// A browser that would show its user a page.
struct PageReader {
    /// The language of the user; `None` if a program made the request.
    language: Option<Language>,
    is_for_chat: bool,
}

impl PageReader {
    fn of(request: &Request<Incoming>) -> Self {
        let (path, headers) = (request.uri().path(), request.headers());
        let is_for_program = [api::PREFIX, "/health/"].iter().any(|prefix| path.starts_with(prefix));
        let is_reader = !is_for_program && DeadEnd::is_for(request.method(), headers);
        Self { language: is_reader.then(|| Language::choose(headers)), is_for_chat: path.starts_with(CHAT) }
    }

    /// Replaces a text that says that nothing is there by a page that helps the visitor on.
    fn led_on(&self, response: Response<Body>, shared: &WebShared) -> Response<Body> {
        let Some(language) = self.language else { return response };
        let is_text =
            response.headers().get(CONTENT_TYPE).is_some_and(|found| found.as_bytes().starts_with(b"text/plain"));
        let end = match response.status() {
            StatusCode::NOT_FOUND if is_text => DeadEnd::Lost,
            StatusCode::SERVICE_UNAVAILABLE if is_text && self.is_for_chat => DeadEnd::NoChat,
            _ => return response,
        };
        end.page(response.status(), language, shared)
    }
}

async fn find(
    request: Request<Incoming>,
    client: WebClient,
    place: Arc<AddressPlace>,
    shared: Arc<WebShared>,
    exit: Exit,
) -> Result<Response<Body>, Infallible> {
    shared.counts.requests.fetch_add(1, Ordering::Relaxed);
    let settings = shared.settings();
    let origin = origin(client, request.headers(), &settings.trusted_proxies);
    if let Err(crowd) = place.count_for(shared.asker_of(origin)) {
        shared.counts.refused.fetch_add(1, Ordering::Relaxed);
        return Ok(crowd_response(crowd));
    }
    let path = request.uri().path();
    if let Some(rest) = path.strip_prefix(UPLOAD) {
        let rest = rest.to_owned();
        return Ok(Box::pin(shared.files.answer(request, &rest)).await);
    }
    if let Some(rest) = path.strip_prefix(api::PREFIX).filter(|rest| rest.is_empty() || rest.starts_with('/')) {
        let rest = rest.to_owned();
        return Ok(Box::pin(api::answer(request, &rest, origin, shared)).await);
    }
    if let Some(rest) = path.strip_prefix(admin::PREFIX).filter(|rest| rest.is_empty() || rest.starts_with('/')) {
        let rest = rest.to_owned();
        return Ok(Box::pin(admin::answer(request, &rest, origin, shared)).await);
    }
    if path == bosh::PATH {
        return Ok(match bosh::answer(request, origin, &shared).await {
            Ok(held) => exit.wait(held).await,
            Err(answer) => answer,
        });
    }
    if let Some(token) = path.strip_prefix(ACME) {
        return Ok(shared.challenges.answer(token).await);
    }
    if let Some(rest) = path.strip_prefix(CHAT).filter(|rest| rest.is_empty() || rest.starts_with('/')) {
        let safety = shared.safety_of_streams(&request, origin);
        return Ok(shared.chat.answer(&request, rest, safety, &settings).await);
    }
    if devices::is_path(path) {
        return Ok(devices::answer(&request, origin, &shared));
    }
    if guests::is_path(path) {
        return Ok(Box::pin(guests::answer(request, origin, shared)).await);
    }
    if !matches!(path, WEBSOCKET | WEBSOCKET_OLD | HOST_META | HOST_META_JSON | LIVE | READY | METRICS) {
        let own = match &settings.own_files {
            Some(folder) => own_files::answer(&request, folder).await,
            None => None,
        };
        return Ok(own.unwrap_or_else(|| text(StatusCode::NOT_FOUND, "there is nothing here")));
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "this can only be read");
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Ok(refused);
    }
    Ok(match path {
        WEBSOCKET | WEBSOCKET_OLD => websocket::upgrade(&request, origin, &settings, &exit),
        HOST_META => discovery::xml(&request, origin, &settings),
        HOST_META_JSON => discovery::json(&request, origin, &settings),
        LIVE => text(StatusCode::OK, "live"),
        READY => Box::pin(ready(&shared)).await,
        // Metrics aren't secrets, and scrapers in a private network seldom encrypt.
        _ => {
            let ward = Ward {
                names: &settings.names,
                networks: &settings.metrics_networks,
                needs_tls: false,
                elsewhere: access::ELSEWHERE_METRICS,
            };
            match ward.judge(origin, RequestHost::of(&request)) {
                Ok(()) => Box::pin(metrics::answer(shared)).await,
                Err(words) => text(StatusCode::FORBIDDEN, words),
            }
        }
    })
}

/// Returns the response for a lack of places, which ends the connection.
fn crowd_response(crowd: Crowd) -> Response<Body> {
    let mut response = match crowd {
        Crowd::Address => text(StatusCode::TOO_MANY_REQUESTS, "there are too many connections from your address"),
        Crowd::All => text(StatusCode::SERVICE_UNAVAILABLE, "there are too many connections"),
    };
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("30"));
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Returns 200 if the server is ready, and 503 otherwise.
async fn ready(shared: &Arc<WebShared>) -> Response<Body> {
    match readiness::state(shared).await {
        Ok(words) => text(StatusCode::OK, &words),
        Err(words) => text(StatusCode::SERVICE_UNAVAILABLE, words),
    }
}

const WEBSOCKET: &str = "/ws";
/// The path that other servers use.
const WEBSOCKET_OLD: &str = "/xmpp-websocket";
/// XEP-0156 §3.
const HOST_META: &str = "/.well-known/host-meta";
/// XEP-0156 §4.
const HOST_META_JSON: &str = "/.well-known/host-meta.json";
/// XEP-0363: followed by a token and a name.
const UPLOAD: &str = "/upload/";
/// RFC 8555 §8.3: followed by a token.
const ACME: &str = "/.well-known/acme-challenge/";
/// The chat page.
const CHAT: &str = "/chat";
const LIVE: &str = "/health/live";
const READY: &str = "/health/ready";
const METRICS: &str = "/metrics";
