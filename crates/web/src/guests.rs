//! The pages for people who have no client open: the first page, `/`; the pages that links open,
//! `/invite/TOKEN` and `/reset/TOKEN`; and `/account`, where a user exports or removes an account.
//!
//! # Invariants
//!
//! * A token in a path is looked up, shown and used, and never logged; the pages reveal it to no
//!   other site, and the number of attempts is limited.
//! * Viewing a page uses nothing up: programs that preview links may do so.
//! * Passwords are only accepted over encrypted connections, and never written back.
//! * The pages work without a script, load nothing from other hosts, and can't be framed.
//!
//! # Layout
//!
//! `guest` is a visitor's request, `words` has the texts in all languages. `frame` is the common
//! part, `apps` and `qr` are parts of pages, `logo` is the picture of the server. `home`, `link`,
//! `ready`, `account` are the pages.

mod account;
mod apps;
mod frame;
mod guest;
mod home;
mod link;
mod logo;
pub(crate) mod qr;
mod ready;
mod words;

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderMap, HeaderValue, VARY};
use hyper::{Method, Request, Response, StatusCode};

use crate::WebShared;
use crate::access::Ward;
use crate::address::Safety;
use crate::language::Language;
use crate::proxy::Origin;
use crate::reply::{Body, reply, text};
use crate::site::RequestHost;
use crate::{access, form, site};
pub use account::{BOUNDS, FilesOfLate};
use apps::AppDevice;
use frame::GuestFrame;
use guest::{ACCOUNT, HOME, READY, WebGuest, lead};
use link::GuestPurpose;
pub use logo::picture_type;

/// Returns whether a path belongs to one of these pages or their files.
pub fn is_path(path: &str) -> bool {
    matches!(path, HOME | READY | ACCOUNT | STYLE | SCRIPT | LOGO | ICON) || GuestPurpose::of_path(path).is_some()
}

/// Replies to a request for one of the pages.
pub(crate) async fn answer(request: Request<Incoming>, origin: Origin, shared: Arc<WebShared>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let mut response = respond(request, &path, origin, shared).await;
    protect(response.headers_mut(), &path);
    response
}

/// The reason for a page that helps visitors on from a path where there is nothing for a browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeadEnd {
    /// The path leads nowhere.
    Lost,
    /// The chat page isn't installed.
    NoChat,
}

impl DeadEnd {
    /// Returns whether a browser that shows pages made a request, rather than a program.
    pub(crate) fn is_for(method: &Method, headers: &HeaderMap) -> bool {
        let accepted = headers.get_all(ACCEPT).iter().filter_map(|line| line.to_str().ok());
        *method == Method::GET && accepted.flat_map(|line| line.split(',')).any(|kind| kind.trim().starts_with(HTML))
    }

    /// Returns the page, with the status that the response would have without it.
    pub(crate) fn page(self, status: StatusCode, language: Language, shared: &WebShared) -> Response<Body> {
        let (settings, words) = (shared.settings(), language.words());
        let first = settings.domains.first().cloned().unwrap_or_default();
        let frame = GuestFrame { language, server: settings.title.clone().unwrap_or(first) };
        let (title, text) = match self {
            Self::Lost => (words.lost_title, words.lost_text),
            Self::NoChat => (words.no_chat_title, words.no_chat_text),
        };
        let mut page = frame.say(status, title, text);
        protect(page.headers_mut(), "");
        page
    }
}

async fn respond(request: Request<Incoming>, path: &str, origin: Origin, shared: Arc<WebShared>) -> Response<Body> {
    let is_post = match *request.method() {
        Method::GET | Method::HEAD => false,
        Method::POST if takes_forms(path) => true,
        _ => return not_allowed(path),
    };
    match path {
        STYLE => return reply(StatusCode::OK, "text/css; charset=utf-8", frame::STYLE),
        SCRIPT => return reply(StatusCode::OK, "text/javascript; charset=utf-8", frame::SCRIPT),
        LOGO => return logo::picture(shared.settings().logo.clone()).await,
        ICON => return lead(StatusCode::FOUND, LOGO),
        _ => {}
    }
    let settings = shared.settings();
    let host = match RequestHost::of(&request) {
        host @ RequestHost::Said(said) if settings.names.is_for_us(host) => site::name(said).map(str::to_lowercase),
        _ => None,
    };
    let ward = Ward {
        names: &settings.names,
        networks: &settings.admin_networks,
        needs_tls: true,
        elsewhere: access::ELSEWHERE_ADMIN,
    };
    let guest = WebGuest {
        may_administer: ward.judge(origin, RequestHost::of(&request)).is_ok(),
        language: Language::choose(request.headers()),
        device: AppDevice::of(request.headers()),
        shared: shared.clone(),
        origin,
        host,
    };
    match shared.safety(&request, origin) {
        Safety::Safe => {}
        Safety::Elsewhere(address) => return lead(StatusCode::TEMPORARY_REDIRECT, &address),
        Safety::Unsafe => {
            let words = guest.words();
            return guest.say(StatusCode::FORBIDDEN, words.insecure_title, words.insecure_text);
        }
    }
    let query = request.uri().query().unwrap_or_default().to_owned();
    match GuestPurpose::of_path(path) {
        _ if is_post => {
            if access::is_cross_site(request.headers()) {
                return guest.say(StatusCode::FORBIDDEN, guest.words().foreign, "");
            }
            let bytes = match form::body(request.into_body()).await {
                Ok(bytes) => bytes,
                Err(form::UnreadForm::TooLarge) => return text(StatusCode::PAYLOAD_TOO_LARGE, "the form is too large"),
                Err(form::UnreadForm::Broken) => return text(StatusCode::BAD_REQUEST, "the form didn't arrive"),
            };
            match std::str::from_utf8(&bytes).ok().and_then(form::pairs) {
                Some(given) => match GuestPurpose::of_path(path) {
                    Some((purpose, token)) => link::take(&guest, purpose, token, &given).await,
                    None => account::take(&guest, &given).await,
                },
                None => text(StatusCode::BAD_REQUEST, "the form can't be read"),
            }
        }
        None if path == READY => ready::page(&guest, &form::pairs(&query).unwrap_or_default()).await,
        None if path == ACCOUNT => account::page(&guest),
        None => home::page(&guest).await,
        Some((purpose, token)) => link::page(&guest, purpose, token).await,
    }
}

/// Returns whether a page has a form that is sent to it.
fn takes_forms(path: &str) -> bool {
    path == ACCOUNT || GuestPurpose::of_path(path).is_some()
}

/// Adds the headers that tell browsers how to treat the pages.
fn protect(headers: &mut HeaderMap, path: &str) {
    let policy = if path == LOGO { OF_PICTURES } else { POLICY };
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    let is_file = matches!(path, STYLE | SCRIPT | LOGO | ICON);
    let cache = if is_file { "public, max-age=3600" } else { "no-store" };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.insert(VARY, HeaderValue::from_static("accept-language"));
}

fn not_allowed(path: &str) -> Response<Body> {
    let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "only GET, and POST of some forms, are possible here");
    let allowed = if takes_forms(path) { "GET, HEAD, POST" } else { "GET, HEAD" };
    refused.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    refused
}

/// Allows scripts, styles, pictures and forms of this server only, and nothing inline.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Allows styles in a picture, and nothing that runs.
const OF_PICTURES: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'";

/// The type of pages.
const HTML: &str = "text/html";
const STYLE: &str = "/pages/style.css";
const SCRIPT: &str = "/pages/script.js";
/// The picture of the server.
pub(crate) const LOGO: &str = "/logo";
/// The path at which browsers look for the picture by themselves.
const ICON: &str = "/favicon.ico";
