//! Signing in and out.

use hyper::header::{COOKIE, HeaderMap, HeaderValue, RETRY_AFTER, SET_COOKIE};
use hyper::{Response, StatusCode};
use rookery_jid::Jid;

use super::frame::AdminFrame;
use super::visits::Notice;
use super::{PREFIX, Visit, entry, failure_page, see_other};
use crate::WebShared;
use crate::ask::now_ms;
use crate::form::value;
use crate::html::Html;
use crate::language::Language;
use crate::proof::{ProofOutcome, ProofTried, WrittenProof};
use crate::proxy::Origin;
use crate::reply::Body;

/// Returns the page with the form, and with links to the issuers of these domains.
pub fn page(
    language: Language,
    status: StatusCode,
    name: &str,
    problem: Option<&str>,
    issuers: &[String],
) -> Response<Body> {
    let words = language.of_administrators();
    let mut main = Html::of("<section class=\"card login\"><h1>Rookery</h1>", &[]);
    // The page doesn't reveal whether the name or the password was wrong.
    let wrong = if problem.is_some() { "aria-describedby=\"notice\" aria-invalid=\"true\"" } else { "" };
    main.add(
        "<form id=\"login\" method=\"post\" action=\"/admin/login\">\
         <label for=\"name\">{}</label>\
         <input id=\"name\" name=\"name\" value=\"{}\" placeholder=\"admin@example.org\" autocomplete=\"username\" \
         autocapitalize=\"none\" spellcheck=\"false\" required autofocus ",
        &[&words.account, &name],
    );
    main.add(wrong, &[]);
    main.add(
        "><label for=\"password\">{}</label>\
         <input id=\"password\" name=\"password\" type=\"password\" autocomplete=\"current-password\" required ",
        &[&words.password],
    );
    main.add(wrong, &[]);
    main.add("><button id=\"sign-in\">{}</button></form>", &[&words.sign_in]);
    for domain in issuers {
        main.add("<p><a href=\"/admin/login/away?domain={}\">", &[domain]);
        main.text(words.sign_in_by, &[domain]);
        main.add("</a></p>", &[]);
    }
    main.add("<p class=\"faint\">{}</p></section>", &[&words.for_administrators]);
    let notice =
        problem.map(|words| Notice { is_error: true, words: words.into(), copy: None, mail: None, returned: None });
    AdminFrame { language, path: "/login", title: words.sign_in, seen: None, notice, reports: 0 }
        .response(status, &main)
}

/// Checks a name and a password, and begins a visit if they are those of an administrator. The
/// reply doesn't reveal whether the name, the password or the right to administer was missing.
pub async fn sign_in(
    shared: &WebShared,
    language: Language,
    origin: Origin,
    given: &[(String, String)],
) -> Response<Body> {
    let words = language.of_administrators();
    let name = value(given, "name").trim();
    let proof = WrittenProof { name, password: value(given, "password"), origin, administers: true };
    let ProofTried { named, domain, outcome } = shared.try_proof(proof).await;
    let act = |act: &str| entry(&named, origin, &domain, act.to_owned());
    let proven = match outcome {
        ProofOutcome::Right(proven) => proven,
        ProofOutcome::Wrong => {
            // The log already has the line about the failed login.
            shared.action_log.note_logged(act("failed to sign in"));
            return page(language, StatusCode::UNAUTHORIZED, name, Some(words.wrong_login), &[]);
        }
        ProofOutcome::TooMany { retry_ms } => {
            let mut response = page(language, StatusCode::TOO_MANY_REQUESTS, name, Some(words.too_many_attempts), &[]);
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(retry_ms.div_ceil(1000)));
            return response;
        }
        ProofOutcome::Failed(refusal) => return failure_page(language, &refusal),
    };
    let Some(cookie) = shared.admin.visits.begin(&proven.account, proven.mark.clone(), now_ms()) else {
        return page(language, StatusCode::SERVICE_UNAVAILABLE, name, Some(words.no_random), &[]);
    };
    shared.proof_was_used(&proven);
    shared.action_log.note(act("signed in"));
    let mut response = see_other("");
    set_cookie(&mut response, origin, &cookie, "");
    response
}

/// Ends the visit.
pub fn sign_out(visit: &Visit) -> Response<Body> {
    visit.shared.admin.visits.end(&visit.seen);
    visit.note(&own_domain(&visit.shared, &visit.seen.account), "signed out".to_owned());
    let mut response = see_other("/login");
    set_cookie(&mut response, visit.origin, "", "; Max-Age=0");
    response
}

/// Returns the domain of an account, whose administrators see its visits in the log; empty if it
/// isn't one of this server.
fn own_domain(shared: &WebShared, account: &Jid) -> String {
    shared.domain_of(account.domain()).unwrap_or_default()
}

/// Returns the content of a visit's cookie.
pub fn cookie(headers: &HeaderMap, origin: Origin) -> Option<String> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut cookies = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    cookies.find(|(name, _)| *name == cookie_name(origin)).map(|(_, value)| value.to_owned())
}

pub(super) fn set_cookie(response: &mut Response<Body>, origin: Origin, value: &str, more: &str) {
    let secure = if origin.encrypted { "; Secure" } else { "" };
    let name = cookie_name(origin);
    let cookie = format!("{name}={value}; Path={PREFIX}; HttpOnly; SameSite=Strict{secure}{more}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
}

/// Returns the name of the cookie. Over TLS it is one that browsers accept only over TLS (RFC
/// 6265bis §4.1.3.1).
fn cookie_name(origin: Origin) -> &'static str {
    if origin.encrypted { "__Secure-rookery-admin" } else { "rookery-admin" }
}
