//! A visitor who requests a page, and the common part of all pages.

use std::sync::Arc;

use hyper::header::{HeaderValue, LOCATION, RETRY_AFTER};
use hyper::{Response, StatusCode};

use super::apps::AppDevice;
use super::frame::GuestFrame;
use super::words::Words;
use crate::WebShared;
use crate::ask::now_ms;
use crate::language::Language;
use crate::proxy::Origin;
use crate::reply::{Body, text};

/// A visitor's request.
pub struct WebGuest {
    pub shared: Arc<WebShared>,
    pub origin: Origin,
    /// The name in the request, if this server has it.
    pub host: Option<String>,
    pub language: Language,
    pub device: AppDevice,
    /// True if the visitor's network may use the admin page.
    pub may_administer: bool,
}

impl WebGuest {
    /// Returns the texts of the visitor's language.
    pub fn words(&self) -> &'static Words {
        self.language.words()
    }

    /// Returns the domain whose name the request has, or the first one.
    pub fn domain(&self) -> String {
        let settings = self.shared.settings();
        let named = settings.domains.iter().find(|domain| self.host.as_ref() == Some(domain));
        named.or(settings.domains.first()).cloned().unwrap_or_default()
    }

    /// Returns the frame of a page about a domain.
    pub fn frame(&self, domain: &str) -> GuestFrame {
        let title = self.shared.settings().title.clone();
        GuestFrame { language: self.language, server: title.unwrap_or_else(|| domain.to_owned()) }
    }

    /// Returns a page with just a message.
    pub fn say(&self, status: StatusCode, title: &str, text: &str) -> Response<Body> {
        self.frame(&self.domain()).say(status, title, text)
    }

    /// Returns the page for visitors with too many attempts, if this is one.
    pub fn held_back(&self) -> Option<Response<Body>> {
        let wait_ms = self.shared.door.gate().guesses().wait_ms(self.origin.address.ip(), now_ms())?;
        let words = self.words();
        let mut page = self.say(StatusCode::TOO_MANY_REQUESTS, words.too_many_title, words.too_many_text);
        page.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait_ms.div_ceil(1000)));
        Some(page)
    }

    /// Counts a failed attempt.
    pub fn count_miss(&self) {
        self.shared.door.count_miss(self.origin.address.ip(), now_ms());
    }

    /// Returns the page for a failure of the server; the log has the reason.
    pub fn fail(&self, cause: &dyn std::fmt::Display) -> Response<Body> {
        tracing::error!(%cause, "a page for guests failed");
        let words = self.words();
        self.say(StatusCode::SERVICE_UNAVAILABLE, words.failed_title, words.failed_text)
    }
}

/// Redirects to another address, which must be valid in a header.
pub fn lead(status: StatusCode, address: &str) -> Response<Body> {
    let mut response = text(status, "see there");
    if let Ok(location) = HeaderValue::from_str(address) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

/// The first page.
pub const HOME: &str = "/";
/// The page for users with an account.
pub const ACCOUNT: &str = "/account";
/// The page after a link was used.
pub const READY: &str = "/welcome";
