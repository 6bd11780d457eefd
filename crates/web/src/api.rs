//! The HTTP API, `/api/v1`: operators' actions, for programs.
//!
//! [`table`] has all operations; requests are parsed and checked by it, and the description
//! (OpenAPI 3.1, `describe`) is generated from it. Each operation calls one of
//! [`rookery_operations`], as the admin page and the commands of XEP-0133 do.
//!
//! # Invariants
//!
//! * Without a valid token, only the description can be read.
//! * A token that isn't valid for a domain is refused before anything of that domain is looked at.
//! * Lists come in parts of a bounded size; bodies and parameters are bounded by the table.
//! * Every change is recorded in the action log with the name of the token.
//!
//! # Layout
//!
//! [`table`]: the operations with their parameters; `describe`: their description. [`field`],
//! `given`: parameters; `call`: a request. [`problem`]: errors (RFC 9457). `users`, [`contacts`],
//! `personal`, `sessions`, `rooms`, `messages`, `domains`, `invitations`, `reports`, `server`,
//! `events`, `profile`, `readings`, `top`, `slow`, `doctor`, `backup`: the operations.

mod backup;
mod call;
pub mod contacts;
mod describe;
mod doctor;
mod domains;
mod events;
pub mod field;
mod given;
mod invitations;
mod messages;
mod personal;
pub mod problem;
pub(crate) mod profile;
pub(crate) mod readings;
mod reports;
mod rooms;
mod server;
mod sessions;
mod slow;
pub mod table;
pub(crate) mod top;
mod users;

use std::net::Ipv4Addr;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use rookery_operations::api_tokens::{self, Token};

use crate::WebShared;
use crate::access::{self, Ward};
use crate::form::{self, UnreadForm};
use crate::proxy::Origin;
use crate::reply::{Body, reply};
use crate::site::RequestHost;
pub use call::PREFIX;
use call::{ApiCall, ApiCaller, ApiReply};
pub(crate) use domains::option_json;
use field::{Values, read_body, read_query};
use problem::Problem;
use table::{ApiOperation, operations};

/// Replies to a request below [`PREFIX`]; `path` is the rest of its path.
pub(crate) async fn answer(
    request: Request<Incoming>,
    path: &str,
    origin: Origin,
    shared: Arc<WebShared>,
) -> Response<Body> {
    match respond(request, path, origin, shared).await {
        Ok(response) => response,
        Err(problem) => problem.response(),
    }
}

async fn respond(
    request: Request<Incoming>,
    path: &str,
    origin: Origin,
    shared: Arc<WebShared>,
) -> Result<Response<Body>, Problem> {
    let settings = shared.settings();
    let ward = Ward {
        names: &settings.names,
        networks: &settings.api_networks,
        needs_tls: true,
        elsewhere: access::ELSEWHERE_API,
    };
    ward.judge(origin, RequestHost::of(&request))
        .map_err(|words| Problem::new(StatusCode::FORBIDDEN, "not-from-here", words))?;
    if path == "/openapi.json" {
        return Ok(match *request.method() {
            Method::GET | Method::HEAD => reply(StatusCode::OK, "application/json", describe::text()),
            _ => not_allowed("GET, HEAD"),
        });
    }
    let (operation, variables) = match find(request.method(), path)? {
        FoundOperation::Operation(operation, variables) => (operation, variables),
        FoundOperation::OtherMethods(allowed) => return Ok(not_allowed(&allowed)),
    };
    let token = authenticate(request.headers(), &shared).await?;
    if !token.has(operation.scope) {
        return Err(Problem::scope(operation.scope));
    }
    let from = origin.address.ip().to_canonical();
    let caller =
        ApiCaller { who: format!("token {}", token.name), by: format!("api from {from}"), from, is_owner: false };
    run(request, operation, variables, token, caller, shared).await
}

/// Replies to a request of the owner of the server's files, which came over the control socket.
pub(crate) async fn answer_owner(
    request: Request<Incoming>,
    path: &str,
    who: &str,
    shared: Arc<WebShared>,
) -> Response<Body> {
    let (operation, variables) = match find(request.method(), path) {
        Ok(FoundOperation::Operation(operation, variables)) => (operation, variables),
        Ok(FoundOperation::OtherMethods(allowed)) => return not_allowed(&allowed),
        Err(problem) => return problem.response(),
    };
    let caller =
        ApiCaller { who: who.to_owned(), by: BY_COMMAND.to_owned(), from: Ipv4Addr::LOCALHOST.into(), is_owner: true };
    let ran = run(request, operation, variables, Token::of_owner(), caller, shared).await;
    ran.unwrap_or_else(|problem| problem.for_owner().response())
}

/// Reads the rest of a request and carries it out.
async fn run(
    request: Request<Incoming>,
    operation: &ApiOperation,
    variables: Vec<String>,
    token: Token,
    caller: ApiCaller,
    shared: Arc<WebShared>,
) -> Result<Response<Body>, Problem> {
    let query = form::pairs(request.uri().query().unwrap_or_default());
    let query = query.ok_or_else(|| Problem::bad_request("the query can't be read"))?;
    let query = read_query(operation.query, query)?;
    let body = match operation.body {
        Some(fields) => {
            is_json(request.headers())?;
            let bytes = form::body(request.into_body()).await.map_err(problem_of)?;
            read_body(fields, &bytes)?
        }
        None => Values::default(),
    };
    let call = ApiCall { shared, token, caller, path: variables, query, body };
    (operation.run)(call).await.map(ApiReply::response)
}

/// The source of a command line's actions in the action log.
pub(crate) const BY_COMMAND: &str = "command line";

enum FoundOperation {
    Operation(&'static ApiOperation, Vec<String>),
    /// The path exists, but not with this method; the text lists the methods that it has.
    OtherMethods(String),
}

fn find(method: &Method, path: &str) -> Result<FoundOperation, Problem> {
    let matching: Vec<_> =
        operations().filter_map(|operation| Some((operation, variables(operation.path, path)?))).collect();
    let asked = if method == Method::HEAD { "GET" } else { method.as_str() };
    if let Some((operation, variables)) = matching.iter().find(|(operation, _)| operation.method == asked) {
        return Ok(FoundOperation::Operation(operation, variables.clone()));
    }
    if matching.is_empty() {
        return Err(Problem::missing("there is nothing here; /api/v1/openapi.json lists all requests"));
    }
    let methods: Vec<_> = matching.iter().map(|(operation, _)| operation.method).collect();
    Ok(FoundOperation::OtherMethods(methods.join(", ")))
}

/// Returns the variables of a path, if it matches a template such as `/users/{jid}`.
fn variables(template: &str, path: &str) -> Option<Vec<String>> {
    let (mut parts, mut variables) = (path.split('/'), Vec::new());
    for wanted in template.split('/') {
        let part = parts.next()?;
        if wanted.starts_with('{') {
            variables.push(form::decode(part).filter(|value| !value.is_empty())?);
        } else if part != wanted {
            return None;
        }
    }
    parts.next().is_none().then_some(variables)
}

async fn authenticate(headers: &HeaderMap, shared: &WebShared) -> Result<Token, Problem> {
    let given = headers.get(AUTHORIZATION).ok_or_else(|| Problem::unauthorized(false))?;
    let given = given.to_str().unwrap_or_default();
    let (scheme, secret) = given.split_once(' ').unwrap_or((given, ""));
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Problem::unauthorized(false));
    }
    let token = shared.wait(api_tokens::find(&shared.stores, secret.trim())).await?;
    token.ok_or_else(|| Problem::unauthorized(true))
}

fn is_json(headers: &HeaderMap) -> Result<(), Problem> {
    let given = headers.get(CONTENT_TYPE).and_then(|given| given.to_str().ok()).unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim();
    match essence.eq_ignore_ascii_case("application/json") {
        true => Ok(()),
        false => Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported-media-type",
            "the body must be application/json",
        )),
    }
}

fn problem_of(unread: UnreadForm) -> Problem {
    match unread {
        UnreadForm::TooLarge => Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too-large",
            format!("the body must have at most {} bytes", form::BODY_BYTES),
        ),
        UnreadForm::Broken => Problem::bad_request("the body didn't arrive"),
    }
}

fn not_allowed(allowed: &str) -> Response<Body> {
    let problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", format!("this takes {allowed}"));
    let header = HeaderValue::from_str(allowed).ok().map(|allowed| Box::new((ALLOW, allowed)));
    Problem { header, ..problem }.response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_matched_whole() {
        let found = variables("/users/{jid}/sessions/{resource}", "/users/a%40b/sessions/x%2Fy");
        assert_eq!(found, Some(vec!["a@b".to_owned(), "x/y".to_owned()]));
        for path in [
            "/users/a/sessions",
            "/users/a/sessions/",
            "/users//sessions/x",
            "/users/a/sessions/x/y",
            "/users/%zz/sessions/x",
        ] {
            assert_eq!(variables("/users/{jid}/sessions/{resource}", path), None, "{path}");
        }
    }

    #[test]
    fn other_methods_are_told() {
        assert!(matches!(find(&Method::HEAD, "/statistics"), Ok(FoundOperation::Operation(..))));
        let Ok(FoundOperation::OtherMethods(methods)) = find(&Method::PUT, "/users/a%40b") else {
            panic!("no methods")
        };
        assert_eq!(methods, "GET, PATCH, DELETE");
        assert!(find(&Method::GET, "/nothing").is_err());
    }
}
