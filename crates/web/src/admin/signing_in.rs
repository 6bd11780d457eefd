//! Signing in through an issuer (OpenID Connect, with PKCE): the browser is sent to the issuer and
//! comes back with a code, which the server exchanges for a token.
//!
//! # Invariants
//!
//! * A code is accepted once, and only from the browser that was sent away, which is recognised by
//!   a cookie.
//! * The issuer identifies the user. The right to administer is checked here, as for visitors with
//!   a password.

use std::collections::HashMap;
use std::sync::Mutex;

use hyper::header::{COOKIE, HOST, HeaderMap, HeaderValue, LOCATION, SET_COOKIE};
use hyper::{Response, StatusCode};
use rookery_base::lock::lock;
use rookery_base::{chance, hex};
use rookery_hub::fast::password_mark;
use rookery_hub::{Judgement, SignIn};
use rookery_jid::Jid;
use rookery_operations::{Outcome, administrators};
use subtle::ConstantTimeEq;

use super::frame::AdminFrame;
use super::{PREFIX, entry, login};
use crate::WebShared;
use crate::ask::now_ms;
use crate::form::value;
use crate::html::Html;
use crate::language::Language;
use crate::proxy::Origin;
use crate::reply::Body;

/// The browsers that were sent to an issuer, by the `state` with which they come back.
#[derive(Debug, Default)]
pub(super) struct OnTheirWay(Mutex<HashMap<String, Traveller>>);

#[derive(Debug)]
struct Traveller {
    domain: String,
    visit: SignIn,
    until_ms: u64,
}

impl OnTheirWay {
    /// Notes a browser that is sent to an issuer. Returns `false` if too many browsers are away
    /// already.
    fn leave(&self, domain: &str, visit: SignIn, now_ms: u64) -> bool {
        let mut all = lock(&self.0);
        all.retain(|_, traveller| traveller.until_ms > now_ms);
        if all.len() >= MOST {
            return false;
        }
        let traveller = Traveller { domain: domain.to_owned(), visit: visit.clone(), until_ms: now_ms + LONGEST_MS };
        all.insert(visit.state, traveller);
        true
    }

    /// Takes out the entry of a browser that comes back, if the cookie shows that it is the one
    /// that was sent away.
    fn come_back(&self, state: &str, cookie: &str, now_ms: u64) -> Option<Traveller> {
        let is_same = bool::from(state.as_bytes().ct_eq(cookie.as_bytes()));
        let found = lock(&self.0).remove(state).filter(|_| is_same);
        found.filter(|traveller| traveller.until_ms > now_ms)
    }
}

/// Returns the domains at whose issuers browsers can sign in.
pub fn domains(shared: &WebShared) -> Vec<String> {
    let settings = shared.settings();
    let names = settings.hub.domains.iter().map(|domain| domain.name.as_str());
    let signs_in = |name: &&str| shared.source_of(name).is_some_and(|source| source.signs_in());
    names.filter(signs_in).map(str::to_owned).collect()
}

/// Sends a browser to the issuer of a domain.
pub async fn leave(
    shared: &WebShared,
    language: Language,
    origin: Origin,
    headers: &HeaderMap,
    given: &[(String, String)],
) -> Response<Body> {
    let words = language.of_administrators();
    let refused = |words: &str| refusal(language, words);
    let domain = value(given, "domain");
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let scheme = if origin.encrypted { "https" } else { "http" };
    let back = format!("{scheme}://{host}{PREFIX}{BACK}");
    let source = shared.source_of(domain).filter(|source| source.signs_in());
    let (Some(source), Some(visit)) = (source, visit(back)) else { return refused(words.no_such_way) };
    let Some(place) = source.entrance(visit.clone()).await else {
        return refused(words.issuer_away);
    };
    let state = visit.state.clone();
    if !shared.admin.on_their_way.leave(domain, visit, now_ms()) {
        return refused(words.too_many_signing_in);
    }
    let mut response = super::see_other("");
    match HeaderValue::from_str(&place) {
        Ok(place) => drop(response.headers_mut().insert(LOCATION, place)),
        Err(_) => return refused(words.issuer_away),
    }
    set_cookie(&mut response, origin, &state, LONGEST_MS / 1000);
    response
}

/// Handles a browser that comes back, and begins a visit if the user is an administrator.
pub async fn come_back(
    shared: &WebShared,
    language: Language,
    origin: Origin,
    headers: &HeaderMap,
    given: &[(String, String)],
) -> Response<Body> {
    let words = language.of_administrators();
    let refused = |words: &str| refusal(language, words);
    let cookie = cookie(headers).unwrap_or_default();
    let Some(traveller) = shared.admin.on_their_way.come_back(value(given, "state"), &cookie, now_ms()) else {
        return refused(words.took_too_long);
    };
    let Traveller { domain, visit, .. } = traveller;
    let Some(source) = shared.source_of(&domain) else { return refused(words.no_such_way) };
    let judgement = match value(given, "code") {
        "" => Judgement::Bad { why: String::new() },
        code => source.redeem(code.to_owned(), visit).await,
    };
    let account = match judgement {
        Judgement::Good { username, .. } => Jid::new(username.as_deref(), &domain, None).ok(),
        Judgement::Bad { .. } => None,
        Judgement::Away => return refused(words.issuer_away),
    };
    let mark = match account.clone() {
        Some(account) => match mark(shared, account).await {
            Ok(mark) => mark,
            Err(refusal) => return super::failure_page(language, &refusal),
        },
        None => None,
    };
    let named = account.as_ref().map_or("unknown", Jid::as_str).to_owned();
    let note = |act: &str| shared.action_log.note(entry(&named, origin, &domain, act.to_owned()));
    let begun = account.zip(mark).and_then(|(account, mark)| shared.admin.visits.begin(&account, mark, now_ms()));
    let Some(cookie) = begun else {
        note("failed to sign in");
        return refused(words.no_administrator);
    };
    note("signed in");
    // A page is sent instead of a redirection: the browser would count that as coming from the
    // issuer's site, and not send the cookie.
    let main = Html::of(
        "<section class=\"card login\"><p>{} <a href=\"/admin\">{}</a></p></section>",
        &[&words.signed_in, &words.go_on],
    );
    let frame =
        AdminFrame { language, path: "/login", title: words.signed_in_title, seen: None, notice: None, reports: 0 };
    let mut response = frame.response(StatusCode::OK, &main);
    response.headers_mut().insert("refresh", HeaderValue::from_static("0; url=/admin"));
    login::set_cookie(&mut response, origin, &cookie, "");
    response
}

/// Returns the stand-in for the password of an existing account that administers a domain.
async fn mark(shared: &WebShared, account: Jid) -> Outcome<Option<String>> {
    let credentials = shared.wait(shared.stores.accounts.credentials(account.as_ref())).await?;
    let domains = shared.ask(move |world, answer| {
        administrators::domains_of(world, account, |_, found| answer.complete(Ok(found)));
    });
    let administers = !domains.await?.is_empty();
    Ok(credentials.as_ref().map(password_mark).filter(|_| administers))
}

fn refusal(language: Language, words: &str) -> Response<Body> {
    login::page(language, StatusCode::UNAUTHORIZED, "", Some(words), &[])
}

fn visit(back: String) -> Option<SignIn> {
    Some(SignIn { back, state: random()?, nonce: random()?, verifier: random()? })
}

fn random() -> Option<String> {
    let mut bytes = [0; 32];
    chance::fill(&mut bytes).ok()?;
    Some(hex::encode(bytes))
}

fn cookie(headers: &HeaderMap) -> Option<String> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut cookies = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    cookies.find(|(name, _)| *name == NAME).map(|(_, value)| value.to_owned())
}

/// Sets the cookie that identifies the browser. The browser comes back from a page of the issuer,
/// so the cookie can't be restricted to requests from our own pages.
fn set_cookie(response: &mut Response<Body>, origin: Origin, value: &str, seconds: u64) {
    let secure = if origin.encrypted { "; Secure" } else { "" };
    let cookie = format!("{NAME}={value}; Path={PREFIX}/login; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
}

/// The path after the prefix that sends a browser to the issuer.
pub const AWAY: &str = "/login/away";
/// The path after the prefix to which the issuer sends the browser back.
pub const BACK: &str = "/login/back";
const NAME: &str = "rookery-signing-in";
/// The most browsers that are away at a time, and the time after which one can't come back.
const MOST: usize = 1000;
const LONGEST_MS: u64 = 600_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_comes_back_once_and_in_time() {
        let (all, now) = (OnTheirWay::default(), 5);
        let away = || {
            let visit = visit("https://a.example/".into()).unwrap();
            assert!(all.leave("a.example", visit.clone(), now));
            visit.state
        };
        let state = away();
        assert_eq!(all.come_back(&state, &state, now).map(|traveller| traveller.domain).as_deref(), Some("a.example"));
        assert!(all.come_back(&state, &state, now).is_none(), "once");
        let state = away();
        assert!(all.come_back(&state, "another", now).is_none(), "another browser");
        let state = away();
        assert!(all.come_back(&state, &state, now + LONGEST_MS).is_none(), "late");
        (0..MOST).for_each(|_| drop(away()));
        assert!(!all.leave("a.example", visit("https://a.example/".into()).unwrap(), now), "too many");
        assert!(all.leave("a.example", visit("https://a.example/".into()).unwrap(), now + LONGEST_MS));
    }
}
