//! BOSH requests (XEP-0124): read here, answered by the shard of their session.
//!
//! This is only the HTTP part: methods, the length of a body, access by browsers of other sites,
//! compression. [`rookery_stream::bosh`] interprets the requests.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Version};
use rookery_shard::{BoshRequest, Door};
use rookery_stream::bosh::answer::CONTENT_TYPE;
use rookery_stream::bosh::{AnswerCondition, AnswerStatus, BoshAnswer, BoshBody as Wrapped, Waiter, Whose};
use rookery_xml::Limits;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::WebShared;
use crate::client::has_token;
use crate::coding::{self, Coding};
use crate::proxy::Origin;
use crate::reply::{Body, reply_bytes, text};
use crate::site::{self, PageSite};

/// The operator's decisions about BOSH.
#[derive(Debug, Clone)]
pub struct BoshSettings {
    /// True if responses are compressed for clients that accept it.
    pub compression: bool,
    /// The most bytes of one element.
    pub most_bytes: usize,
}

/// The path where BOSH clients look first.
pub(crate) const PATH: &str = "/http-bind";

/// A request that was read completely and waits for its response, for as long as the client
/// permits.
pub(crate) struct HeldRequest {
    answer: oneshot::Receiver<BoshAnswer>,
    /// The session to notify if the connection breaks before the response.
    sid: Option<u128>,
    coding: Option<Coding>,
    allowed: Option<HeaderValue>,
    /// True if the connection ends with the response.
    pub closes: bool,
    shared: Arc<WebShared>,
}

/// Reads a request and passes it to its session.
///
/// # Errors
/// The response to a request that reaches no session.
pub(crate) async fn answer(
    request: Request<Incoming>,
    origin: Origin,
    shared: &Arc<WebShared>,
) -> Result<Box<HeldRequest>, Response<Body>> {
    let settings = shared.settings();
    let Some(bosh) = &settings.bosh else { return Err(text(StatusCode::NOT_FOUND, "there is nothing here")) };
    let site = settings.names.site(&request);
    let allowed = allowed_origin(request.headers(), site, &settings.names.origins);
    let refused = match *request.method() {
        // This includes requests that a browser sends without a preflight.
        Method::POST | Method::OPTIONS if site == PageSite::Foreign => text(StatusCode::FORBIDDEN, site::FOREIGN),
        Method::POST => match post(request, origin, site, shared, bosh).await {
            Ok(mut held) => {
                held.allowed = allowed;
                return Ok(Box::new(held));
            }
            Err(refused) => refused,
        },
        Method::OPTIONS => preflight(),
        _ => {
            let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "this is for XMPP over BOSH (XEP-0124)");
            refused.headers_mut().insert(header::ALLOW, METHODS);
            refused
        }
    };
    Err(share(refused, allowed))
}

/// Adds the header that lets scripts read a response.
fn share<B>(mut response: Response<B>, allowed: Option<HeaderValue>) -> Response<B> {
    let headers = response.headers_mut();
    if let Some(allowed) = allowed {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
    }
    headers.insert(header::VARY, HeaderValue::from_static("Origin"));
    response
}

async fn post(
    request: Request<Incoming>,
    origin: Origin,
    site: PageSite,
    shared: &Arc<WebShared>,
    settings: &BoshSettings,
) -> Result<HeldRequest, Response<Body>> {
    let (head, body) = request.into_parts();
    if head.headers.contains_key(header::CONTENT_ENCODING) {
        return Err(text(StatusCode::UNSUPPORTED_MEDIA_TYPE, "compressed requests aren't accepted"));
    }
    let coding = if settings.compression { Coding::choose(&head.headers) } else { None };
    let closes = head.version != Version::HTTP_11 || has_token(&head.headers, header::CONNECTION, "close");
    let document = timeout(BODIES, read(body, &shared.door, settings.most_bytes)).await;
    let document = document.map_err(|_| text(StatusCode::REQUEST_TIMEOUT, "the request took too long"))??;
    let Ok(wrapped) = Wrapped::read(document, &Limits::AFTER_LOGIN) else {
        return Err(respond(BoshAnswer::refusal(AnswerCondition::BadRequest), coding, shared).map(Body::bytes));
    };
    let mut held = HeldRequest::ask(wrapped, origin, site, coding, shared.clone());
    held.closes = closes;
    Ok(held)
}

impl HeldRequest {
    /// Passes a request to its session.
    fn ask(request: Wrapped, origin: Origin, site: PageSite, coding: Option<Coding>, shared: Arc<WebShared>) -> Self {
        let (sender, answer) = oneshot::channel();
        let sid = if let Whose::Session(sid) = request.whose { Some(sid) } else { None };
        let waiter = Box::new(WaitingRequest(sender));
        shared.waiting.fetch_add(1, Ordering::Relaxed);
        let (peer, is_secure) = (origin.address, origin.encrypted);
        let is_local = origin.way.is_known() && site == PageSite::Own;
        shared.door.post(BoshRequest { request, waiter, peer, is_secure, is_local });
        Self { answer, sid, coding, allowed: None, closes: false, shared }
    }

    /// Waits for the response.
    pub async fn wait(&mut self) -> Response<Bytes> {
        let answer = (&mut self.answer).await;
        self.sid = None;
        // If no response comes, the shard is gone.
        let answer = answer.unwrap_or_else(|_| BoshAnswer::refusal(AnswerCondition::InternalServerError));
        share(respond(answer, self.coding, &self.shared), self.allowed.take())
    }
}

impl Drop for HeldRequest {
    fn drop(&mut self) {
        self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
        // The connection broke while the request waited on it.
        if let Some(sid) = self.sid {
            self.answer.close();
            self.shared.door.request_is_gone(sid);
        }
    }
}

/// A request that waits for its response. Its end of the channel is dropped with the connection.
struct WaitingRequest(oneshot::Sender<BoshAnswer>);

impl Waiter for WaitingRequest {
    fn answer(self: Box<Self>, answer: BoshAnswer) {
        // A client that has gone meanwhile asks again, and gets the response that its session has
        // kept.
        let _ = self.0.send(answer);
    }

    fn is_gone(&self) -> bool {
        self.0.is_closed()
    }
}

/// Reads a body. Only a client that names an existing session may send more than [`FROM_ANYONE`]
/// bytes.
async fn read(mut body: Incoming, door: &Door, most: usize) -> Result<Box<[u8]>, Response<Body>> {
    let too_large = || text(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large");
    let mut first: Option<Bytes> = None;
    let mut all: Vec<u8> = Vec::new();
    let mut may_be_large = false;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map(|frame| frame.into_data().unwrap_or_default()) else {
            return Err(text(StatusCode::BAD_REQUEST, "the request broke off"));
        };
        if let Some(first) = first.take() {
            all.extend_from_slice(&first);
        }
        if all.is_empty() {
            first = Some(data);
        } else {
            all.extend_from_slice(&data);
        }
        let len = first.as_ref().map_or(all.len(), Bytes::len);
        if len > FROM_ANYONE && !may_be_large {
            let begun = first.as_deref().unwrap_or(&all);
            may_be_large = names_session(begun, door);
        }
        if len > if may_be_large { most + ENVELOPE } else { FROM_ANYONE } {
            return Err(too_large());
        }
    }
    Ok(first.map_or(all.into_boxed_slice(), |first| first.as_ref().into()))
}

/// Returns whether the beginning of a request names an existing session.
fn names_session(begun: &[u8], door: &Door) -> bool {
    let request = Wrapped::read(begun.into(), &Limits::AFTER_LOGIN);
    matches!(request, Ok(Wrapped { whose: Whose::Session(sid), .. }) if door.knows(sid))
}

fn respond(answer: BoshAnswer, coding: Option<Coding>, shared: &WebShared) -> Response<Bytes> {
    let BoshAnswer { status, body, content_type } = answer;
    let status = match status {
        AnswerStatus::Ok => StatusCode::OK,
        AnswerStatus::BadRequest => StatusCode::BAD_REQUEST,
        AnswerStatus::Forbidden => StatusCode::FORBIDDEN,
        AnswerStatus::NotFound => StatusCode::NOT_FOUND,
    };
    let coding = coding.filter(|_| body.len() >= WORTH_COMPRESSING);
    let body = match coding {
        Some(coding) => coding::encode(coding, &body, &shared.encoder).into(),
        None => Bytes::from_owner(body),
    };
    let mut response = reply_bytes(status, CONTENT_TYPE, body);
    let headers = response.headers_mut();
    if let Some(content_type) = content_type.and_then(|wanted| HeaderValue::from_str(&wanted).ok()) {
        headers.insert(header::CONTENT_TYPE, content_type);
    }
    if let Some(coding) = coding {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Returns the response to a preflight, by which a browser asks whether a script of another site
/// may send XML (the Fetch standard, §3.2.2).
fn preflight() -> Response<Body> {
    let mut response = Response::new(Body::default());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("Content-Type"));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
    response
}

/// Returns the header that lets the requesting script read the response. There are no cookies here,
/// so it can only read its own data.
fn allowed_origin(headers: &HeaderMap, site: PageSite, origins: &[String]) -> Option<HeaderValue> {
    if origins.iter().any(|origin| origin == "*") {
        return Some(HeaderValue::from_static("*"));
    }
    headers.get(header::ORIGIN).filter(|_| site != PageSite::Foreign).cloned()
}

const METHODS: HeaderValue = HeaderValue::from_static("POST, OPTIONS");
/// The time that a request may take to arrive.
pub(crate) const BODIES: Duration = Duration::from_secs(30);
/// The most bytes of a request without a session.
const FROM_ANYONE: usize = 16 * 1024;
/// The bytes that a request may have in addition to one element of the greatest size.
const ENVELOPE: usize = 4096;
/// The number of bytes below which compression gains nothing.
const WORTH_COMPRESSING: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_told_whether_they_may() {
        let mut headers = HeaderMap::new();
        let told = |headers: &HeaderMap, site, origins: &[&str]| {
            let origins: Vec<String> = origins.iter().map(|&origin| origin.to_owned()).collect();
            allowed_origin(headers, site, &origins).map(|told| told.to_str().unwrap_or_default().to_owned())
        };
        assert_eq!(told(&headers, PageSite::Own, &[]), None, "no page asks");
        headers.insert("origin", HeaderValue::from_static("https://chat.example"));
        assert_eq!(told(&headers, PageSite::Allowed, &["*"]).as_deref(), Some("*"));
        assert_eq!(told(&headers, PageSite::Allowed, &[]).as_deref(), Some("https://chat.example"));
        assert_eq!(told(&headers, PageSite::Own, &[]).as_deref(), Some("https://chat.example"));
        assert_eq!(told(&headers, PageSite::Foreign, &[]), None);
    }
}
