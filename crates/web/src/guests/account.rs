//! The page for users with an account: it exports what the server stores for the account, and
//! removes the account.
//!
//! There is no visit and no cookie: each form has the password, so that a browser that was left
//! open on the page reveals nothing.
//!
//! # Invariants
//!
//! * An account is only removed where its user could do so from a client (XEP-0077 §3.2), and only
//!   if the user has confirmed it.
//! * An export takes time and disk space: an account has [`MOST_FILES`] an hour.

use std::collections::HashMap;
use std::sync::Mutex;

use hyper::header::{CONTENT_DISPOSITION, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use rookery_base::lock::lock;
use rookery_hub::{Bound, Most, Per, Unit};
use rookery_jid::Jid;
use rookery_operations::users;
use tracing::info;

use super::guest::WebGuest;
use crate::ask::now_ms;
use crate::form::value;
use crate::html::Html;
use crate::proof::{ProofOutcome, WrittenProof};
use crate::reply::{Body, reply};

/// Counts the files that accounts have downloaded within the last hour.
#[derive(Debug, Default)]
pub struct FilesOfLate(Mutex<HashMap<Jid, (u64, u32)>>);

impl FilesOfLate {
    /// Counts a file. Returns `false` if it is one too many, for the account or for all accounts.
    fn count(&self, account: &Jid, now_ms: u64) -> bool {
        let mut all = lock(&self.0);
        all.retain(|_, (begun_ms, _)| now_ms.saturating_sub(*begun_ms) < HOUR_MS);
        if all.len() >= MOST_ACCOUNTS && !all.contains_key(account) {
            return false;
        }
        let (_, files) = all.entry(account.clone()).or_insert((now_ms, 0));
        *files += 1;
        *files <= MOST_FILES
    }
}

/// Returns the page with its form still empty.
pub fn page(guest: &WebGuest) -> Response<Body> {
    show(guest, StatusCode::OK, "", "")
}

/// Processes a form.
pub async fn take(guest: &WebGuest, given: &[(String, String)]) -> Response<Body> {
    let (words, name) = (guest.words(), value(given, "name").trim());
    let removes = value(given, "act") == "remove";
    if removes && value(given, "sure") != "yes" {
        return show(guest, StatusCode::UNPROCESSABLE_ENTITY, name, words.account_unsure);
    }
    let (password, origin) = (value(given, "password"), guest.origin);
    // A name alone is one of the domain that the page is about.
    let address = if name.contains('@') { name.to_owned() } else { format!("{name}@{}", guest.domain()) };
    let proof = WrittenProof { name: &address, password, origin, administers: false };
    let account = match guest.shared.try_proof(proof).await.outcome {
        ProofOutcome::Right(proven) => {
            guest.shared.proof_was_used(&proven);
            proven.account
        }
        ProofOutcome::Wrong => return show(guest, StatusCode::UNAUTHORIZED, name, words.account_wrong),
        ProofOutcome::TooMany { retry_ms } => {
            let mut response = show(guest, StatusCode::TOO_MANY_REQUESTS, name, words.too_many_text);
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(retry_ms.div_ceil(1000)));
            return response;
        }
        ProofOutcome::Failed(refusal) => return guest.fail(&refusal),
    };
    if !removes {
        return download(guest, account).await;
    }
    if !guest.shared.has_module(account.domain(), "register") {
        return show(guest, StatusCode::FORBIDDEN, name, words.account_not_removed);
    }
    let gone = account.clone();
    let removed = guest.shared.ask(move |world, answer| users::remove(world, gone, |_, done| answer.complete(done)));
    match removed.await {
        Ok(()) => {
            info!(%account, address = %origin.address.ip(), "an account was deleted by its user");
            guest.say(StatusCode::OK, words.account_removed_title, words.account_removed_text)
        }
        Err(refusal) => guest.fail(&refusal),
    }
}

/// Returns everything that is stored for an account, as a file (XEP-0227).
async fn download(guest: &WebGuest, account: Jid) -> Response<Body> {
    if !guest.shared.files_of_late.count(&account, now_ms()) {
        return show(guest, StatusCode::TOO_MANY_REQUESTS, account.as_str(), guest.words().account_too_many);
    }
    let document = match guest.shared.export(account.clone()).await {
        Ok(document) => document,
        Err(refusal) => return guest.fail(&refusal),
    };
    info!(%account, address = %guest.origin.address.ip(), "an account was exported by its user");
    let mut response = reply(StatusCode::OK, "application/xml", "");
    *response.body_mut() = document;
    let attached = HeaderValue::from_static("attachment; filename=\"account.xml\"");
    response.headers_mut().insert(CONTENT_DISPOSITION, attached);
    response
}

/// Returns the page, with a notice unless it is empty.
fn show(guest: &WebGuest, status: StatusCode, name: &str, notice: &str) -> Response<Body> {
    let (words, domain) = (guest.words(), guest.domain());
    let mut main = Html::of("<section class=\"card\"><h1>{}</h1><p>{}</p>", &[&words.account, &words.account_text]);
    let described = if notice.is_empty() { "" } else { " aria-describedby=\"notice\"" };
    if !notice.is_empty() {
        main.add("<p class=\"notice\" id=\"notice\" role=\"alert\">{}</p>", &[&notice]);
    }
    main.add(
        "<form id=\"account\" method=\"post\" action=\"/account\"><div class=\"field\"><label for=\"name\">{}</label>\
         <input id=\"name\" name=\"name\" value=\"{}\" placeholder=\"{}\" autocomplete=\"username\" autocapitalize=\"none\" \
         spellcheck=\"false\" required",
        &[&words.address, &name, &format!("name@{domain}")],
    );
    main.add(described, &[]);
    main.add(
        "></div><div class=\"field\"><label for=\"password\">{}</label><input id=\"password\" name=\"password\" \
         type=\"password\" autocomplete=\"current-password\" required",
        &[&words.password],
    );
    main.add(described, &[]);
    main.add(
        "></div><p class=\"faint\">{}</p><button name=\"act\" value=\"download\">{}</button>",
        &[&words.account_file, &words.account_download],
    );
    if guest.shared.has_module(&domain, "register") {
        main.add(
            "<h2>{}</h2><p>{}</p><p class=\"tick\"><input type=\"checkbox\" id=\"sure\" name=\"sure\" value=\"yes\">\
             <label for=\"sure\">{}</label></p><button class=\"button quiet\" name=\"act\" value=\"remove\">{}</button>",
            &[&words.account_remove, &words.account_remove_text, &words.account_sure, &words.account_remove],
        );
    }
    main.add("</form><p><a href=\"/\">{}</a></p></section>", &[&words.to_home]);
    guest.frame(&domain).response(status, words.account, &main)
}

/// Files of one account in an hour.
const MOST_FILES: u32 = 3;
/// Accounts whose files are counted at a time; beyond them, others have to wait.
const MOST_ACCOUNTS: usize = 10_000;
const HOUR_MS: u64 = 3_600_000;

/// These bounds, for the page of limits.
pub const BOUNDS: &[Bound] =
    &[Bound::on("exports of an account's data in an hour", Per::Account, Most::Fixed(MOST_FILES as u64), Unit::Number)
        .or("the page says so")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_has_three_files_an_hour() {
        let (files, account) = (FilesOfLate::default(), Jid::parse("alice@localhost").unwrap());
        let counted: Vec<_> = (0..5).map(|at| files.count(&account, at)).collect();
        assert_eq!(counted, [true, true, true, false, false]);
        assert!(files.count(&Jid::parse("bob@localhost").unwrap(), 5), "others have their own");
        assert!(files.count(&account, HOUR_MS));
    }
}
