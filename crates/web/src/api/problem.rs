//! Errors of the API: problem details (RFC 9457).

use std::sync::Mutex;
use std::time::{Duration, Instant};

use hyper::header::{HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use rookery_base::lock::lock;
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
    /// The reason that only the owner of the server's files is told, if there is one.
    pub reason: Option<String>,
}

impl Problem {
    /// Returns a problem.
    pub fn new(status: StatusCode, kind: &'static str, detail: impl Into<String>) -> Self {
        Self { status, kind, detail: detail.into(), header: None, reason: None }
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

    /// Returns it for the owner of the server's files, who may know the reason.
    pub fn for_owner(self) -> Self {
        match &self.reason {
            Some(reason) => Self { detail: format!("the server can't do this at the moment: {reason}"), ..self },
            None => self,
        }
    }

    /// Returns it as a response, without the reason.
    pub fn response(self) -> Response<Body> {
        let Self { status, kind, detail, header, reason: _ } = self;
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
                let reason = refusal.to_string();
                if lock(&TOLD).may_tell(&reason, Instant::now()) {
                    error!(cause = %reason, "a request to the API failed");
                }
                let words = "the server can't do this at the moment; see its log";
                let problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", words);
                return Self { reason: Some(reason), ..problem };
            }
        };
        Self::new(status, kind, refusal.to_string())
    }
}

/// The causes of failures that were logged recently, so that programs that try again and again
/// don't fill the log.
#[derive(Debug)]
struct ToldCauses(Vec<(String, Instant)>);

impl ToldCauses {
    /// Returns whether a cause is to be logged: each once a minute, and a bounded number of them.
    fn may_tell(&mut self, cause: &str, now: Instant) -> bool {
        self.0.retain(|(_, told)| now.duration_since(*told) < PAUSE);
        let may = self.0.len() < MOST_CAUSES && self.0.iter().all(|(told, _)| told != cause);
        if may {
            self.0.push((cause.to_owned(), now));
        }
        may
    }
}

static TOLD: Mutex<ToldCauses> = Mutex::new(ToldCauses(Vec::new()));
/// The time after which a cause is logged again.
const PAUSE: Duration = Duration::from_secs(60);
/// The most causes that are logged in that time.
const MOST_CAUSES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_logged_once_a_minute() {
        let (mut told, now) = (ToldCauses(Vec::new()), Instant::now());
        assert!(told.may_tell("full", now) && told.may_tell("away", now));
        assert!(!told.may_tell("full", now + PAUSE / 2));
        assert!(told.may_tell("full", now + PAUSE));
        let many = (0..100).filter(|number| told.may_tell(&number.to_string(), now + PAUSE)).count();
        assert_eq!(many, MOST_CAUSES - 1);
    }
}
