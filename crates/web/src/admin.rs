//! The admin page, `/admin`: administrators' actions, in a browser. The HTML is made here; a small
//! script updates the graphs, and nothing requires it.
//!
//! Anyone who may use the commands of XEP-0133 signs in with the password of that account. Each
//! request checks again which domains the account administers: a right that is taken away is gone
//! with the next click.
//!
//! # Invariants
//!
//! * Every change is a form (POST) with the token of the visit; it ends with a redirection, so
//!   going back repeats nothing.
//! * Administrators can't see or change anything of other domains: those look like nonexistent
//!   ones.
//! * Only this server's one script file runs in the pages, and no other site's page can show them
//!   in a frame.
//! * Logins and changes are recorded in the action log.
//!
//! # Layout
//!
//! `frame` is the common frame of all pages, `fields` the form fields, `outcome` the result of a
//! form. [`visits`], `login`, `signing_in`: signing in. `overview` with [`graph`] and `wellness`,
//! `users` with `chosen`, `user` with `belongings`, `sessions`, `rooms`, `domains`, `records`,
//! `servers`, `messages`, `invitations`, `reports`, `log`: the pages.

mod belongings;
mod chosen;
mod domains;
pub(crate) mod fields;
mod frame;
pub mod graph;
mod invitations;
mod log;
mod login;
mod messages;
mod outcome;
mod overview;
mod records;
mod reports;
mod rooms;
mod servers;
mod sessions;
mod signing_in;
mod user;
mod users;
pub mod visits;
mod wellness;

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderValue, LOCATION, REFERRER_POLICY, VARY};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use rookery_hub::Domain;
use rookery_hub::fast::password_mark;
use rookery_jid::Jid;
use rookery_operations::action_log::Entry;
use rookery_operations::{Outcome, Refusal, administrators, password};

use crate::WebShared;
use crate::access::{self, Ward, is_cross_site};
use crate::ask::now_ms;
use crate::form;
use crate::html::Html;
use crate::language::{Language, fill};
use crate::proxy::Origin;
use crate::reply::{Body, reply, text};
use crate::site::RequestHost;
use crate::words::AdminWords;
use frame::{AdminFrame, PAGES};
pub(crate) use outcome::FormDone;
use outcome::{FormAnswered, FormFault, RefusalWords, RefusedField};
use visits::{Notice, Returned, Seen};

/// The path of the page.
pub const PREFIX: &str = "/admin";

/// The state of the page, in memory.
#[derive(Debug, Default)]
pub(crate) struct Admin {
    visits: visits::AdminVisits,
    on_their_way: signing_in::OnTheirWay,
}

/// A request of a signed-in visitor.
pub(crate) struct Visit {
    pub shared: Arc<WebShared>,
    /// The language that the visitor's browser prefers.
    pub language: Language,
    /// The visitor, with the visit.
    pub seen: Seen,
    /// The domains that the visitor administers, in the order of the configuration; at least one.
    pub domains: Vec<String>,
    /// The message about the previous action, which the page shows.
    pub notice: Option<Notice>,
    /// Reports of abuse that wait for the visitor.
    pub reports: usize,
    origin: Origin,
    /// The fields of the query or the form.
    given: Vec<(String, String)>,
}

impl Visit {
    /// Returns the texts of the visitor's language.
    pub fn words(&self) -> &'static AdminWords {
        self.language.of_administrators()
    }

    /// Returns the content of a field, which is empty if the field is missing.
    pub fn value(&self, name: &str) -> &str {
        form::value(&self.given, name)
    }

    /// Returns the contents of all fields of a name.
    pub fn values<'v>(&'v self, name: &'v str) -> impl Iterator<Item = &'v str> {
        self.given.iter().filter(move |(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Returns the domain that a field names, or the visitor's first one.
    ///
    /// # Errors
    /// The domain doesn't exist, as far as this administrator may know.
    pub fn domain(&self) -> Outcome<String> {
        let name = self.value("domain");
        let found = self.domains.iter().find(|domain| name.is_empty() || *domain == name);
        found.cloned().ok_or_else(|| Refusal::Missing(self.words().no_such_domain.into()))
    }

    /// Returns the address that a field names: an account, or a room.
    ///
    /// # Errors
    /// The address isn't in a domain of this administrator.
    pub fn address(&self) -> Outcome<Jid> {
        self.address_of(self.value("jid"))
    }

    /// Returns the address that a text contains: an account, or a room.
    ///
    /// # Errors
    /// The address isn't in a domain of this administrator.
    pub fn address_of(&self, written: &str) -> Outcome<Jid> {
        let missing = || Refusal::Missing(self.words().no_such_address.into());
        let jid = Jid::parse(written).map_err(|_| missing())?;
        if jid.local().is_none() || jid.resource().is_some() {
            return Err(missing());
        }
        let domain = self.shared.domain_of(jid.domain()).ok_or_else(missing)?;
        if self.domains.contains(&domain) { Ok(jid) } else { Err(missing()) }
    }

    /// Checks that the visitor has typed the address again, which is required for irrevocable
    /// actions.
    ///
    /// # Errors
    /// The text differs.
    pub fn is_sure(&self, of: &Jid) -> Result<(), FormFault> {
        let refusal = || Refusal::Impossible(fill(self.words().confirm_first, &[of]));
        let is_sure = self.value("confirm").trim().eq_ignore_ascii_case(of.as_str());
        if is_sure { Ok(()) } else { Err(FormFault { field: Some("confirm"), refusal: refusal() }) }
    }

    /// Returns the new password in a form, for an account of a domain.
    ///
    /// # Errors
    /// It is too short for the domain, or longer than any password may be.
    pub fn password(&self, domain: &str) -> Result<String, FormFault> {
        let (password, least) = (self.value("password").to_owned(), self.least(domain));
        let count = password.chars().count();
        let refusal = match () {
            () if (count as u64) < least => self.language.count(self.words().password_least, least),
            () if count > MAX_PASSWORD => fill(self.words().password_most, &[&MAX_PASSWORD]),
            () => return Ok(password),
        };
        Err(Refusal::Impossible(refusal)).at("password")
    }

    /// Returns the minimum length of a new password in a domain, in characters.
    pub fn least(&self, domain: &str) -> u64 {
        password::least(&self.shared.settings().hub, domain)
    }

    /// Returns the message for an operation's refusal, in the visitor's language; `about` is the
    /// thing that the operation was about.
    pub fn in_words(&self, refusal: Refusal, about: &dyn std::fmt::Display, words: RefusalWords) -> Refusal {
        words.in_words(self.language, refusal, about)
    }

    /// Returns the texts for refusals about accounts.
    pub fn of_accounts(&self) -> RefusalWords {
        RefusalWords { missing: self.words().no_account, impossible: self.words().password_impossible }
    }

    /// Returns the texts for refusals about rooms.
    pub fn of_rooms(&self) -> RefusalWords {
        RefusalWords { missing: self.words().no_room, impossible: self.words().text_too_long }
    }

    /// Returns the settings of one of the visitor's domains.
    pub fn settings_of(&self, name: &str) -> Option<Domain> {
        self.shared.settings().hub.domains.iter().find(|domain| domain.name == name).cloned()
    }

    /// Records an action in the action log.
    pub fn note(&self, domain: &str, act: String) {
        self.shared.action_log.note(entry(self.seen.account.as_str(), self.origin, domain, act));
    }
}

fn entry(who: &str, origin: Origin, domain: &str, act: String) -> Entry {
    let by = format!("page from {}", origin.address.ip().to_canonical());
    Entry { unix_ms: now_ms(), who: who.to_owned(), by, act, domain: domain.to_owned() }
}

/// Replies to a request below [`PREFIX`]; `path` is the rest of its path.
pub(crate) async fn answer(
    request: Request<Incoming>,
    path: &str,
    origin: Origin,
    shared: Arc<WebShared>,
) -> Response<Body> {
    let settings = shared.settings();
    let ward = Ward {
        names: &settings.names,
        networks: &settings.admin_networks,
        needs_tls: true,
        elsewhere: access::ELSEWHERE_ADMIN,
    };
    if let Err(words) = ward.judge(origin, RequestHost::of(&request)) {
        return text(StatusCode::FORBIDDEN, words);
    }
    let path = path.trim_end_matches('/');
    let mut response = respond(request, path, origin, shared).await;
    protect(response.headers_mut(), path);
    response
}

async fn respond(request: Request<Incoming>, path: &str, origin: Origin, shared: Arc<WebShared>) -> Response<Body> {
    let is_post = match *request.method() {
        Method::GET | Method::HEAD => false,
        Method::POST => true,
        _ => return not_allowed(),
    };
    match path {
        "/style.css" if !is_post => return reply(StatusCode::OK, "text/css; charset=utf-8", frame::STYLE),
        "/script.js" if !is_post => return reply(StatusCode::OK, "text/javascript; charset=utf-8", frame::SCRIPT),
        "/style.css" | "/script.js" => return not_allowed(),
        _ => {}
    }
    let headers = request.headers().clone();
    let language = Language::choose(&headers);
    let words = language.of_administrators();
    let cookie = login::cookie(&headers, origin);
    if is_post && is_cross_site(request.headers()) {
        return text(StatusCode::FORBIDDEN, "this form was sent by another page");
    }
    let seen = cookie.and_then(|cookie| shared.admin.visits.find(&cookie, now_ms()));
    let given = match read_fields(request).await {
        Ok(given) => given,
        Err(refused) => return *refused,
    };
    if path == "/login" {
        return match is_post {
            true => login::sign_in(&shared, language, origin, &given).await,
            false => login::page(language, StatusCode::OK, "", None, &signing_in::domains(&shared)),
        };
    }
    match (path, is_post) {
        (signing_in::AWAY, false) => return signing_in::leave(&shared, language, origin, &headers, &given).await,
        (signing_in::BACK, false) => return signing_in::come_back(&shared, language, origin, &headers, &given).await,
        _ => {}
    }
    let Some(seen) = seen else { return see_other("/login") };
    if is_post && !seen.has_token(form::value(&given, "csrf")) {
        return text(StatusCode::FORBIDDEN, words.stale_form);
    }
    match stands_for(&shared, &seen.account).await {
        Ok(password) if password.as_ref() == Some(&seen.password) => {}
        Ok(_) => {
            shared.admin.visits.end(&seen);
            return see_other("/login");
        }
        Err(refusal) => return failure_page(language, &refusal),
    }
    let account = seen.account.clone();
    let domains = shared
        .ask(move |world, answer| administrators::domains_of(world, account, |_, found| answer.complete(Ok(found))))
        .await;
    let domains = match domains {
        Ok(domains) if domains.is_empty() => {
            shared.admin.visits.end(&seen);
            return see_other("/login");
        }
        Ok(domains) => domains,
        Err(refusal) => return failure_page(language, &refusal),
    };
    let reports = match reports::count(&shared, &domains).await {
        Ok(count) => count,
        Err(refusal) => return failure_page(language, &refusal),
    };
    let visit = Visit { shared, language, seen, domains, notice: None, reports, origin, given };
    match (path, is_post) {
        ("/logout", true) => login::sign_out(&visit),
        ("/graphs", false) => overview::graphs(&visit),
        ("/now", false) => match overview::now(&visit).await {
            Ok(html) => reply(StatusCode::OK, "text/html; charset=utf-8", html.into_text()),
            Err(refusal) => failure_page(language, &refusal),
        },
        (log::EXPORT, false) => log::export(&visit),
        ("/users.csv", false) => match users::csv(&visit).await {
            Ok(response) => response,
            Err(Refusal::Missing(words)) => text(StatusCode::NOT_FOUND, &words),
            Err(refusal) => failure_page(language, &refusal),
        },
        (_, true) => change(path, &visit).await,
        (_, false) => {
            let notice = visit.shared.admin.visits.take_notice(&visit.seen);
            show(path, &Visit { notice, ..visit }).await
        }
    }
}

/// Returns the stand-in for the password of an account; `None` if there is no such account.
pub(crate) async fn stands_for(shared: &WebShared, account: &Jid) -> Outcome<Option<String>> {
    let credentials = shared.wait(shared.stores.accounts.credentials(account.as_ref())).await?;
    Ok(credentials.as_ref().map(password_mark))
}

async fn show(path: &str, visit: &Visit) -> Response<Body> {
    let words = visit.words();
    let shown = match path {
        "" => overview::page(visit).await,
        "/users" => users::page(visit).await,
        "/user" => user::page(visit).await,
        "/sessions" => sessions::page(visit).await,
        "/rooms" => rooms::page(visit).await,
        "/room" => rooms::room(visit).await,
        "/domains" => domains::page(visit).await,
        "/records" => records::page(visit).await,
        "/servers" => servers::page(visit).await,
        "/messages" => messages::page(visit).await,
        "/invitations" => invitations::page(visit).await,
        "/reports" => reports::page(visit).await,
        "/log" => log::page(visit),
        _ => Err(Refusal::Missing(words.no_such_page.into())),
    };
    match shown {
        Ok(main) => {
            let page = PAGES.iter().find(|page| page.path == path);
            let title = match (page, path) {
                (Some(page), _) => (page.name)(words),
                (None, "/records") => words.dns_records,
                (None, _) => visit.value("jid"),
            };
            respond_with(StatusCode::OK, path, title, visit, &main)
        }
        Err(refusal @ (Refusal::Store(_) | Refusal::Work(_) | Refusal::Late | Refusal::Failed(_))) => {
            failure_page(visit.language, &refusal)
        }
        Err(refusal) => {
            let missing = sentence(&refusal.to_string());
            let main = Html::of("<h1>{}</h1><p id=\"missing\">{}</p>", &[&words.not_found, &missing]);
            respond_with(StatusCode::NOT_FOUND, path, words.not_found, visit, &main)
        }
    }
}

async fn change(path: &str, visit: &Visit) -> Response<Body> {
    if path == "/user" && visit.value("act") == "export" {
        return match user::export(visit).await {
            Ok(response) => response,
            Err(refusal) => refuse(path, visit, refusal.into()),
        };
    }
    let done: FormAnswered = match path {
        "/users" => users::change(visit).await,
        "/user" => user::change(visit).await,
        "/sessions" => sessions::end(visit).await,
        "/rooms" => rooms::create(visit).await,
        "/room" => rooms::change(visit).await,
        "/servers" => servers::close(visit).await.map_err(FormFault::from),
        "/messages" => messages::say(visit).await,
        "/invitations" => invitations::change(visit).await,
        "/reports" => reports::change(visit).await,
        _ => return text(StatusCode::NOT_FOUND, "there is no such form"),
    };
    match done {
        Ok(FormDone { to, words, copy, mail }) => {
            let notice = Notice { is_error: false, words, copy, mail, returned: None };
            visit.shared.admin.visits.notice(&visit.seen, notice);
            see_other(&to)
        }
        Err(fault) => refuse(path, visit, fault),
    }
}

/// Redirects to the page with the form, which shows the reason and the input again.
fn refuse(path: &str, visit: &Visit, FormFault { field, refusal }: FormFault) -> Response<Body> {
    let words = match &refusal {
        cause @ (Refusal::Store(_) | Refusal::Work(_)) => {
            tracing::error!(%cause, "the admin page failed");
            sentence(visit.words().trouble)
        }
        Refusal::Failed(_) => sentence(visit.words().trouble),
        Refusal::Late => sentence(visit.words().late),
        refusal => sentence(&refusal.to_string()),
    };
    let returned = Some(Returned::of(&visit.given, field, words.clone()));
    visit.shared.admin.visits.notice(&visit.seen, Notice { is_error: true, words, copy: None, mail: None, returned });
    let back =
        ["domain", "jid"].into_iter().map(|name| (name, visit.value(name))).filter(|(_, value)| !value.is_empty());
    let query: Vec<_> = back.map(|(name, value)| format!("{name}={}", form::encode(value))).collect();
    see_other(&if query.is_empty() { path.to_owned() } else { format!("{path}?{}", query.join("&")) })
}

fn respond_with(status: StatusCode, path: &str, title: &str, visit: &Visit, main: &Html) -> Response<Body> {
    let (notice, reports) = (visit.notice.clone(), visit.reports);
    let frame = AdminFrame { language: visit.language, path, title, seen: Some(&visit.seen), notice, reports };
    frame.response(status, main)
}

fn failure_page(language: Language, refusal: &Refusal) -> Response<Body> {
    tracing::error!(cause = %refusal, "the admin page failed");
    text(StatusCode::SERVICE_UNAVAILABLE, language.of_administrators().trouble)
}

/// Reads the fields of a query or a form.
async fn read_fields(request: Request<Incoming>) -> Result<Vec<(String, String)>, Box<Response<Body>>> {
    let refused = |status, words: &str| Box::new(text(status, words));
    let written = if request.method() == Method::POST {
        let bytes = form::body(request.into_body()).await.map_err(|unread| match unread {
            form::UnreadForm::TooLarge => refused(StatusCode::PAYLOAD_TOO_LARGE, "the form is too large"),
            form::UnreadForm::Broken => refused(StatusCode::BAD_REQUEST, "the form didn't arrive"),
        })?;
        String::from_utf8(bytes.into()).map_err(|_| refused(StatusCode::BAD_REQUEST, "the form can't be read"))?
    } else {
        request.uri().query().unwrap_or_default().to_owned()
    };
    form::pairs(&written).ok_or_else(|| refused(StatusCode::BAD_REQUEST, "the request can't be read"))
}

/// Adds the headers that tell browsers how to treat the pages.
fn protect(headers: &mut HeaderMap, path: &str) {
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    let is_file = matches!(path, "/style.css" | "/script.js");
    let cache = if is_file { "private, max-age=300" } else { "no-store" };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.insert(VARY, HeaderValue::from_static("accept-language, cookie"));
}

/// Redirects to another page of this server, by GET. The path must be valid in a header.
fn see_other(path: &str) -> Response<Body> {
    let mut response = text(StatusCode::SEE_OTHER, "see there");
    if let Ok(location) = HeaderValue::from_str(&format!("{PREFIX}{path}")) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

fn not_allowed() -> Response<Body> {
    let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "only GET, and POST of forms, are possible here");
    refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD, POST"));
    refused
}

/// Returns a text with an initial capital and a full stop.
fn sentence(words: &str) -> String {
    // An address keeps its first letter.
    if words.split(' ').next().is_some_and(|first| first.contains('@')) {
        return format!("{}.", words.trim_end_matches('.'));
    }
    let mut chars = words.chars();
    let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}.", chars.as_str().trim_end_matches('.'))
}

/// The most characters of a password.
const MAX_PASSWORD: usize = 1023;
/// Allows scripts, styles and forms of this server only, and nothing inline.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_lets_nothing_inline_run() {
        assert!(POLICY.starts_with("default-src 'none'") && !POLICY.contains("unsafe"));
        assert!(!frame::SCRIPT.contains("innerHTML") && !frame::SCRIPT.contains("eval("));
    }

    #[test]
    fn words_become_sentences() {
        assert_eq!(sentence("there is no account"), "There is no account.");
        assert_eq!(sentence("alice@localhost already exists"), "alice@localhost already exists.");
        assert_eq!(sentence(""), ".");
    }
}
