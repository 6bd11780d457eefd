//! An authorised request of the API, and the reply to it.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, HeaderValue, LOCATION};
use hyper::{Response, StatusCode};
use rookery_jid::Jid;
use rookery_operations::Refusal;
use rookery_operations::action_log::Entry;
use rookery_operations::api_tokens::Token;
use rookery_operations::users::NewPassword;
use serde_json::Value;

use super::field::Values;
use super::problem::Problem;
use crate::WebShared;
use crate::ask::now_ms;
use crate::reply::{Body, reply};

/// The path of the API.
pub const PREFIX: &str = "/api/v1";

/// A request that has passed the checks of its token and its input.
pub(crate) struct ApiCall {
    pub shared: Arc<WebShared>,
    /// The token of the request.
    pub token: Token,
    pub(super) caller: ApiCaller,
    /// The variables of the path, decoded, in their order.
    pub(super) path: Vec<String>,
    pub query: Values,
    pub body: Values,
}

/// The author of a request, as the action log names them.
#[derive(Debug, Clone)]
pub(crate) struct ApiCaller {
    /// The name of the token, or of the user of this machine.
    pub who: String,
    /// The way by which the request came, with the client's address if it is remote.
    pub by: String,
    /// The client's address; for a user of this machine, an address of this machine.
    pub from: IpAddr,
    /// True for the owner of the server's files, at the command line.
    pub is_owner: bool,
}

/// The response of an operation.
pub(crate) struct ApiReply {
    pub(super) status: StatusCode,
    pub(super) content_type: &'static str,
    pub(super) body: Body,
    pub(super) location: Option<String>,
    /// The name under which a client that is told no other saves the body.
    pub(super) file_name: Option<String>,
}

impl ApiReply {
    /// Returns a response with JSON.
    pub fn json(body: &Value) -> Self {
        let body = Body::bytes(body.to_string());
        Self { status: StatusCode::OK, content_type: "application/json", body, location: None, file_name: None }
    }

    /// Returns a response whose body arrives over time.
    pub fn coming(content_type: &'static str, body: Body) -> Self {
        Self { status: StatusCode::OK, content_type, body, location: None, file_name: None }
    }

    /// Returns the response of a success without content.
    pub fn without_content() -> Self {
        Self {
            status: StatusCode::NO_CONTENT,
            content_type: "",
            body: Body::default(),
            location: None,
            file_name: None,
        }
    }

    /// Sets another status, such as 202.
    pub fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// Sets the status for a created thing, and its location (a path below [`PREFIX`]).
    pub fn with_location(self, location: &str) -> Self {
        Self { status: StatusCode::CREATED, location: Some(format!("{PREFIX}{location}")), ..self }
    }

    /// Sets the name under which clients save the body (RFC 6266); it needs no quoting.
    pub fn with_file_name(self, file_name: &str) -> Self {
        Self { file_name: Some(file_name.to_owned()), ..self }
    }

    pub(super) fn response(self) -> Response<Body> {
        let mut response = reply(self.status, self.content_type, "");
        *response.body_mut() = self.body;
        let headers = response.headers_mut();
        if self.content_type.is_empty() {
            headers.remove(CONTENT_TYPE);
        }
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(location) = self.location.and_then(|location| HeaderValue::from_str(&location).ok()) {
            headers.insert(LOCATION, location);
        }
        let disposition = self.file_name.map(|name| format!("attachment; filename=\"{name}\""));
        if let Some(disposition) = disposition.and_then(|text| HeaderValue::from_str(&text).ok()) {
            headers.insert(CONTENT_DISPOSITION, disposition);
        }
        response
    }
}

impl ApiCall {
    /// Returns a variable of the path.
    pub fn variable(&self, at: usize) -> &str {
        self.path.get(at).map_or("", String::as_str)
    }

    /// Returns the domain that a variable of the path names.
    ///
    /// # Errors
    /// The token isn't valid for the domain, or this server doesn't serve it.
    pub fn domain(&self, at: usize) -> Result<String, Problem> {
        let name = self.variable(at);
        let missing = || Problem::missing("there is no such domain");
        let name = rookery_jid::prepare_domain(name).map_err(|_| missing())?;
        let served = self.shared.domain_of(&name).filter(|served| *served == name);
        served.ok_or_else(missing)?;
        self.may(&name)?;
        Ok(name.into_owned())
    }

    /// Returns the account or room that a variable of the path names, without a resource.
    ///
    /// # Errors
    /// The token isn't valid for its domain, or the address is invalid.
    pub fn address(&self, at: usize) -> Result<Jid, Problem> {
        let missing = || Problem::missing("there is no such address");
        let jid = Jid::parse(self.variable(at)).map_err(|_| missing())?;
        if jid.local().is_none() || jid.resource().is_some() {
            return Err(missing());
        }
        let domain = self.shared.domain_of(jid.domain()).ok_or_else(missing)?;
        self.may(&domain)?;
        Ok(jid)
    }

    /// Returns the new password in the body, with the rule of its domain. The rule doesn't apply to
    /// the owner of the server's files, whose commands check it themselves.
    pub fn password(&self) -> Option<NewPassword> {
        let password = self.body.text("password")?.to_owned();
        Some(match self.caller.is_owner {
            true => NewPassword::of_any_length(password),
            false => password.into(),
        })
    }

    /// Checks that the token is valid for a domain.
    ///
    /// # Errors
    /// The token isn't valid for the domain.
    pub fn may(&self, domain: &str) -> Result<(), Problem> {
        if self.token.is_for(domain) { Ok(()) } else { Err(Problem::domain()) }
    }

    /// Returns the address after which a list begins, and its maximum length.
    ///
    /// # Errors
    /// `after` is not an address.
    pub fn page(&self) -> Result<(Option<Jid>, usize), Problem> {
        let after = self.query.text("after").map(Jid::parse).transpose();
        let after = after.map_err(|_| Refusal::Impossible("after: expected the `next` of the previous part".into()))?;
        Ok((after, self.query.number("limit").unwrap_or(PAGE) as usize))
    }

    /// Checks that the token is valid for the server as a whole.
    ///
    /// # Errors
    /// The token is valid for one domain only.
    pub fn may_all(&self) -> Result<(), Problem> {
        if self.token.domain.is_none() { Ok(()) } else { Err(Problem::domain()) }
    }

    /// Records an action in the action log.
    pub fn note(&self, domain: &str, act: String) {
        self.shared.action_log.note(Entry {
            unix_ms: now_ms(),
            who: self.caller.who.clone(),
            by: self.caller.by.clone(),
            act,
            domain: domain.to_owned(),
        });
    }
}

/// The default number of entries in a part of a list.
pub(super) const PAGE: u64 = 100;
