//! Errors of the API: problem details (RFC 9457).

use hyper::header::{HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use rookery_operations::Refusal;
use rookery_operations::api_tokens::Scope;
use serde_json::json;
use tracing::error;

use crate::reply::{Body, reply};

/// An error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The status.
    pub status: StatusCode,
    /// The kind of problem: the end of its type, a URN.
    pub kind: &'static str,
    /// A description of this case, in words.
    pub detail: String,
    /// A header that belongs to it.
    pub header: Option<(HeaderName, HeaderValue)>,
}

impl Problem {
    /// Returns a problem.
    pub fn new(status: StatusCode, kind: &'static str, detail: impl Into<String>) -> Self {
        Self { status, kind, detail: detail.into(), header: None }
    }

    /// Returns the problem of a request that doesn't match the description.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", detail)
    }

    /// Returns the problem of a name that doesn't exist.
    pub fn missing(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", detail)
    }

    /// Returns the problem of a missing or invalid token (RFC 6750 §3.1).
    pub fn unauthorized(is_wrong: bool) -> Self {
        let (detail, challenge) = match is_wrong {
            true => {
                ("the token is invalid; it may have been revoked", "Bearer realm=\"rookery\", error=\"invalid_token\"")
            }
            false => ("a bearer token is needed; see `rookery token add`", "Bearer realm=\"rookery\""),
        };
        let header = (hyper::header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        Self { header: Some(header), ..Self::new(StatusCode::UNAUTHORIZED, "unauthorized", detail) }
    }

    /// Returns the problem of a token without the needed scope (RFC 6750 §3.1).
    pub fn scope(needed: Scope) -> Self {
        let name = needed.name();
        let challenge = format!("Bearer realm=\"rookery\", error=\"insufficient_scope\", scope=\"{name}\"");
        let header = HeaderValue::from_str(&challenge).ok().map(|value| (hyper::header::WWW_AUTHENTICATE, value));
        let detail = format!("the token has no scope {name}");
        Self { header, ..Self::new(StatusCode::FORBIDDEN, "insufficient-scope", detail) }
    }

    /// Returns the problem of a token that isn't valid for this domain.
    pub fn domain() -> Self {
        Self::new(StatusCode::FORBIDDEN, "other-domain", "the token is not for this domain")
    }

    /// Returns it as a response.
    pub fn response(self) -> Response<Body> {
        let Self { status, kind, detail, header } = self;
        let body = json!({
            "type": format!("urn:rookery:problem:{kind}"),
            "title": status.canonical_reason().unwrap_or_default(),
            "status": status.as_u16(),
            "detail": detail,
        });
        let mut response = reply(status, "application/problem+json", body.to_string());
        response.headers_mut().extend(header);
        response
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let (status, kind) = match &refusal {
            Refusal::Impossible(_) => (StatusCode::UNPROCESSABLE_ENTITY, "impossible"),
            Refusal::Missing(_) => (StatusCode::NOT_FOUND, "not-found"),
            Refusal::Exists(_) => (StatusCode::CONFLICT, "exists"),
            Refusal::Full(_) => (StatusCode::CONFLICT, "limit-reached"),
            Refusal::Off(_) => (StatusCode::CONFLICT, "module-off"),
            Refusal::Late => (StatusCode::SERVICE_UNAVAILABLE, "late"),
            Refusal::Failed(_) => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
            Refusal::Store(_) | Refusal::Work(_) => {
                // The store's message may name files of this machine.
                error!(cause = %refusal, "a request to the API failed");
                return Self::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "unavailable",
                    "the server can't do this at the moment; see its log",
                );
            }
        };
        Self::new(status, kind, refusal.to_string())
    }
}
