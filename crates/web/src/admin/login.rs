//! Signing in and out.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{COOKIE, HeaderMap, HeaderValue, RETRY_AFTER, SET_COOKIE};
use hyper::{Response, StatusCode};
use rookery_hub::fast::password_mark;
use rookery_hub::{Judgement, LoginBy, Proof, Source};
use rookery_jid::Jid;
use rookery_operations::{Outcome, Refusal, administrators};
use rookery_sasl::saslprep;
use rookery_shard::{CountsAt, Refused, Whence};
use tokio::task::spawn_blocking;
use tracing::info;

use super::frame::AdminFrame;
use super::visits::Notice;
use super::{PREFIX, Visit, entry, failed, see_other};
use crate::WebShared;
use crate::ask::now_ms;
use crate::form::value;
use crate::html::Html;
use crate::language::Language;
use crate::proxy::Origin;
use crate::reply::Body;

/// Returns the page with the form, and with ways to the issuers of these domains.
pub fn page(
    language: Language,
    status: StatusCode,
    name: &str,
    problem: Option<&str>,
    issuers: &[String],
) -> Response<Body> {
    let words = language.of_administrators();
    let mut main = Html::of("<section class=\"card login\"><h1>Rookery</h1>", &[]);
    // Nobody learns which of the two was wrong.
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

/// Checks name and password, and begins a visit if they are those of an administrator. Nobody
/// learns which of the three was wrong.
pub async fn sign_in(
    shared: &WebShared,
    language: Language,
    origin: Origin,
    given: &[(String, String)],
) -> Response<Body> {
    let words = language.of_administrators();
    let name = value(given, "name").trim();
    let settings = shared.settings();
    // Without a domain it is the first one.
    let full = match (name.contains('@'), settings.domains.first()) {
        (false, Some(domain)) => format!("{name}@{domain}"),
        _ => name.to_owned(),
    };
    let account = Jid::parse(&full).ok().filter(|jid| jid.local().is_some() && jid.resource().is_none());
    let known = account.as_ref().map(Jid::to_string);
    let counted = account.as_ref().map_or_else(|| full.clone(), Jid::to_string);
    // Guesses count together with those of clients: the page is no second way to as many.
    let gate = shared.door.gate();
    let whence = Whence { address: origin.address.ip(), account: &counted, client: None, counts: CountsAt::Everywhere };
    let attempt = match gate.begin(whence, &settings.logins, shared.door.now_ms()) {
        Ok((attempt, wait_ms)) => {
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            attempt
        }
        Err(Refused { retry_ms, .. }) => {
            let mut response = page(language, StatusCode::TOO_MANY_REQUESTS, name, Some(words.too_many_attempts), &[]);
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(retry_ms.div_ceil(1000)));
            return response;
        }
    };
    let domain = account.as_ref().map(|account| own_domain(shared, account)).unwrap_or_default();
    let note = |act: &str| shared.journal.note(entry(&counted, origin, &domain, act.to_owned()));
    let password = match verify(shared, account.clone(), value(given, "password").to_owned()).await {
        Ok(password) => password,
        Err(refusal) => {
            gate.take_back(&attempt, shared.door.now_ms());
            shared.door.tell_others();
            return failed(language, &refusal);
        }
    };
    let Some((account, password)) = account.zip(password) else {
        gate.failed(attempt);
        shared.door.tell_others();
        // The line of clients, for programs to find. What is no address may be a password.
        let peer = SocketAddr::new(origin.address.ip().to_canonical(), origin.address.port());
        let named = known.as_deref().unwrap_or("unknown");
        info!(%peer, account = named, reason = "not-authorized", "a login failed");
        note("failed to sign in");
        return page(language, StatusCode::UNAUTHORIZED, name, Some(words.wrong_login), &[]);
    };
    let Some(cookie) = shared.admin.visits.begin(&account, password, now_ms()) else {
        return page(language, StatusCode::SERVICE_UNAVAILABLE, name, Some(words.no_random), &[]);
    };
    gate.succeeded(&attempt, shared.door.now_ms());
    shared.door.tell_others();
    note("signed in");
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

/// Returns the domain of an account, whose administrators are told of its visits; none if it isn't
/// one of this server.
fn own_domain(shared: &WebShared, account: &Jid) -> String {
    shared.domain_of(account.domain()).unwrap_or_default()
}

/// Returns the content of a visit's cookie.
pub fn cookie(headers: &HeaderMap, origin: Origin) -> Option<String> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut cookies = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    cookies.find(|(name, _)| *name == cookie_name(origin)).map(|(_, value)| value.to_owned())
}

/// Returns what stands for a password if it is that of an account that is there and administers a
/// domain. All is asked for in any case, so that the time tells nothing.
async fn verify(shared: &WebShared, account: Option<Jid>, password: String) -> Outcome<Option<String>> {
    let decoy = shared.settings().decoy.clone();
    let name = account.as_ref().and_then(Jid::local).unwrap_or_default().to_owned();
    let mut source = None;
    let (credentials, domains) = match account.clone() {
        Some(account) => {
            let credentials = shared.wait(shared.stores.accounts.credentials(account.as_ref())).await?;
            let domain = account.domain().to_owned();
            source = source_of(shared, &domain);
            let domains = shared.ask(move |world, answer| {
                administrators::domains_of(world, account, |_, found| answer.complete(Ok(found)));
            });
            (credentials, domains.await?)
        }
        None => (None, Vec::new()),
    };
    if let Some((source, account)) = source.zip(account) {
        let is_right = judged(&*source, account, &password).await?;
        let mark = credentials.as_ref().map(password_mark);
        return Ok(mark.filter(|_| is_right && !domains.is_empty()));
    }
    // It hashes some thousand times.
    let verify =
        move || (decoy.verify(credentials.as_ref(), &name, &password), credentials.as_ref().map(password_mark));
    let (is_right, mark) = spawn_blocking(verify).await.unwrap_or_default();
    Ok(mark.filter(|_| is_right && !domains.is_empty()))
}

/// Returns who vouches for the logins of a domain, if that isn't the store.
pub(super) fn source_of(shared: &WebShared, domain: &str) -> Option<Arc<dyn Source>> {
    let settings = shared.settings();
    let domain = settings.hub.domains.iter().find(|known| known.name == domain)?;
    match &domain.login {
        LoginBy::Source(source) => Some(source.clone()),
        LoginBy::Own | LoginBy::Anonymous => None,
    }
}

/// Asks the source that vouches for a domain to judge a password.
async fn judged(source: &dyn Source, account: Jid, password: &str) -> Outcome<bool> {
    if !source.takes().passwords {
        return Ok(false);
    }
    let Some(password) = saslprep(password) else { return Ok(false) };
    match source.judge(Proof::Password { account, password: password.into_owned() }).await {
        Judgement::Good { .. } => Ok(true),
        Judgement::Bad { .. } => Ok(false),
        Judgement::Away => Err(Refusal::Failed("who knows the passwords of this domain")),
    }
}

pub(super) fn set_cookie(response: &mut Response<Body>, origin: Origin, value: &str, more: &str) {
    let secure = if origin.encrypted { "; Secure" } else { "" };
    let name = cookie_name(origin);
    let cookie = format!("{name}={value}; Path={PREFIX}; HttpOnly; SameSite=Strict{secure}{more}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
}

/// Returns the name of the cookie. Over TLS it is one that browsers take from TLS only (RFC 6265bis
/// §4.1.3.1).
fn cookie_name(origin: Origin) -> &'static str {
    if origin.encrypted { "__Secure-rookery-admin" } else { "rookery-admin" }
}
