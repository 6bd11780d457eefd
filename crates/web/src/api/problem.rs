//! Errors of the API: problem details (RFC 9457).

use std::mem::{Discriminant, discriminant};

use hyper::header::{HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use rookery_base::date;
use rookery_observe::OnceAMinute;
use rookery_operations::Refusal;
use rookery_operations::api_tokens::Scope;
use rookery_store::StoreError;
use serde_json::json;
use tracing::error;

use crate::reply::{Body, reply};

/// An error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The status of the response, which the body repeats (RFC 9457 §3.1.2).
    pub status: StatusCode,
    /// The kind of problem: the end of its type, a URN.
    pub kind: &'static str,
    /// A description of this case, in words.
    pub detail: String,
    /// A header that belongs to it.
    pub header: Option<Box<(HeaderName, HeaderValue)>>,
    /// The reason that only the owner of the server's files is told, if there is one.
    pub reason: Option<String>,
}

impl Problem {
    /// Returns a problem without a header of its own.
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
        Self { header: Some(Box::new(header)), ..Self::new(StatusCode::UNAUTHORIZED, "unauthorized", detail) }
    }

    /// Returns the problem of a token without the needed scope (RFC 6750 §3.1).
    pub fn scope(needed: Scope) -> Self {
        let name = needed.name();
        let challenge = format!("Bearer realm=\"rookery\", error=\"insufficient_scope\", scope=\"{name}\"");
        let header = HeaderValue::from_str(&challenge).ok().map(|value| (hyper::header::WWW_AUTHENTICATE, value));
        let header = header.map(Box::new);
        let detail = format!("the token has no scope {name}");
        Self { header, ..Self::new(StatusCode::FORBIDDEN, "insufficient-scope", detail) }
    }

    /// Returns the problem of a token that isn't valid for this domain.
    pub fn domain() -> Self {
        Self::new(StatusCode::FORBIDDEN, "other-domain", "the token is not for this domain")
    }

    /// Returns the problem with its reason in the text, for the owner of the server's files.
    pub fn for_owner(self) -> Self {
        match &self.reason {
            Some(reason) => Self { detail: format!("the server can't do this at the moment: {reason}"), ..self },
            None => self,
        }
    }

    /// Returns the problem as a response, without the reason.
    pub fn response(self) -> Response<Body> {
        let Self { status, kind, detail, header, reason: _ } = self;
        let body = json!({
            "type": format!("urn:rookery:problem:{kind}"),
            "title": status.canonical_reason().unwrap_or_default(),
            "status": status.as_u16(),
            "detail": detail,
        });
        let mut response = reply(status, "application/problem+json", body.to_string());
        response.headers_mut().extend(header.map(|header| *header));
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
                if TOLD.is_due(cause(&refusal)) {
                    error!(cause = %refusal, "a request to the API failed");
                }
                let problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", unavailable(&refusal));
                return Self { reason: reason(&refusal), ..problem };
            }
        };
        Self::new(status, kind, refusal.to_string())
    }
}

/// The kind of a failure, and that of the store's error.
type ProblemCause = (Discriminant<Refusal>, Option<Discriminant<StoreError>>);

fn cause(refusal: &Refusal) -> ProblemCause {
    let of_store = match refusal {
        Refusal::Store(error) => Some(discriminant(error)),
        _ => None,
    };
    (discriminant(refusal), of_store)
}

/// Says that something can't be done for now, and since when, if the database is away.
fn unavailable(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Store(StoreError::Away { since_ms, .. }) => format!(
            "the database has been unreachable since {}, and the server keeps trying; its log says more",
            date::timestamp(*since_ms)
        ),
        _ => "the server can't do this at the moment; see its log".to_owned(),
    }
}

/// Returns the reason that only the owner of the server's files is told; `None` if everybody is.
fn reason(refusal: &Refusal) -> Option<String> {
    (!matches!(refusal, Refusal::Store(StoreError::Away { .. }))).then(|| refusal.to_string())
}

/// The causes that the log has had in the last minute.
static TOLD: OnceAMinute<ProblemCause> = OnceAMinute::new();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_is_away_is_told_with_the_time_and_without_its_place() {
        let engine = rookery_store::error::EngineWords { database: "postgres://r@db1/r".into(), message: "no".into() };
        let refusal = Refusal::Store(StoreError::Away { engine, since_ms: 1_278_803_305_000 });
        let problem = Problem::from(refusal);
        assert_eq!(problem.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(problem.detail.contains("has been unreachable since 2010-07-10T23:08:25Z"), "{}", problem.detail);
        assert!(!problem.detail.contains("db1"), "{}", problem.detail);
    }
}
