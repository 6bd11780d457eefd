//! The visits of users who are signed in to the admin page.
//!
//! A visit is identified by a cookie of 256 random bits. The server keeps only the hash of the
//! cookie, in memory, so a restart ends all visits. A visit ends after half an hour without
//! activity, and after twelve hours in any case. A new password ends all visits of the account
//! except the one in which it was set. Each visit has its own token for forms, so that pages of
//! other sites can't send them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use rookery_base::lock::lock;
use rookery_base::{chance, hex};
use rookery_jid::Jid;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::form::value;

/// The visits, by the hashes of their cookies; bounded in all and for each account.
#[derive(Debug, Default)]
pub struct AdminVisits(Mutex<HashMap<[u8; 32], StoredVisit>>);

/// A message about an action, for the next page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// True if the action failed.
    pub is_error: bool,
    /// The text.
    pub words: String,
    /// A text for the visitor to copy, such as a link.
    pub copy: Option<String>,
    /// The address (`mailto:`) that starts a mail with this text.
    pub mail: Option<String>,
    /// The form that was refused.
    pub(crate) returned: Option<Returned>,
}

/// A form that was refused, for the page that shows it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Returned {
    /// The id of the form.
    pub form: String,
    /// The name of the field with the mistake; `None` if it isn't in one.
    pub field: Option<&'static str>,
    /// The reason, as a sentence.
    pub words: String,
    /// The fields with their input, without secrets.
    pub(super) given: Vec<(String, String)>,
}

impl Returned {
    /// Keeps the fields of a form.
    pub fn of(given: &[(String, String)], field: Option<&'static str>, words: String) -> Self {
        let is_kept = |name: &str| !SECRETS.contains(&name);
        let given: Vec<_> = given.iter().filter(|(name, _)| is_kept(name)).cloned().collect();
        Self { form: value(&given, FORM).to_owned(), field, words, given }
    }

    /// Returns the id of the field with the mistake.
    pub fn place(&self) -> Option<String> {
        self.field.filter(|_| !self.form.is_empty()).map(|field| place(&self.form, field))
    }
}

/// Returns the id of a field in the page.
pub(crate) fn place(form: &str, field: &str) -> String {
    format!("{form}-{field}")
}

/// A visit, as requests see it.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The account of the visitor.
    pub account: Jid,
    /// The token that forms have to carry.
    pub token: String,
    /// The stand-in for the account's password at the beginning of the visit.
    pub password: String,
    id: [u8; 32],
}

#[derive(Debug)]
struct StoredVisit {
    account: Jid,
    token: String,
    password: String,
    begun_ms: u64,
    used_ms: u64,
    notice: Option<Notice>,
}

impl AdminVisits {
    /// Begins a visit and returns the value of its cookie; `None` if the system has no random
    /// bytes. `password` is the stand-in for the password that the user has entered. If there are
    /// too many visits, the one that was idle the longest ends.
    pub fn begin(&self, account: &Jid, password: String, now_ms: u64) -> Option<String> {
        let (cookie, token) = (random()?, random()?);
        let mut visits = self.lock();
        visits.retain(|_, visit| visit.is_on(now_ms));
        let of_account = visits.values().filter(|visit| visit.account == *account).count();
        if of_account >= MOST_OF_ACCOUNT || visits.len() >= MOST {
            let is_own = |visit: &StoredVisit| of_account < MOST_OF_ACCOUNT || visit.account == *account;
            let oldest = visits.iter().filter(|(_, visit)| is_own(visit)).min_by_key(|(_, visit)| visit.used_ms);
            if let Some(id) = oldest.map(|(id, _)| *id) {
                visits.remove(&id);
            }
        }
        let (begun_ms, used_ms) = (now_ms, now_ms);
        let visit = StoredVisit { account: account.clone(), token, password, begun_ms, used_ms, notice: None };
        visits.insert(id(&cookie), visit);
        Some(cookie)
    }

    /// Returns the visit of a cookie, and counts it as used now.
    pub fn find(&self, cookie: &str, now_ms: u64) -> Option<Seen> {
        let id = id(cookie);
        let mut visits = self.lock();
        let visit = visits.get_mut(&id)?;
        if !visit.is_on(now_ms) {
            visits.remove(&id);
            return None;
        }
        visit.used_ms = now_ms;
        let StoredVisit { account, token, password, .. } = &*visit;
        Some(Seen { account: account.clone(), token: token.clone(), password: password.clone(), id })
    }

    /// Ends a visit at once: its cookie is no longer accepted.
    pub fn end(&self, seen: &Seen) {
        self.lock().remove(&seen.id);
    }

    /// Lets a visit continue after the account's password was changed in it; `password` is the
    /// stand-in for the new one.
    pub fn renew(&self, seen: &Seen, password: String) {
        if let Some(visit) = self.lock().get_mut(&seen.id) {
            visit.password = password;
        }
    }

    /// Leaves a message for the next page.
    pub fn notice(&self, seen: &Seen, notice: Notice) {
        if let Some(visit) = self.lock().get_mut(&seen.id) {
            visit.notice = Some(notice);
        }
    }

    /// Takes the message for the next page.
    pub fn take_notice(&self, seen: &Seen) -> Option<Notice> {
        self.lock().get_mut(&seen.id)?.notice.take()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], StoredVisit>> {
        lock(&self.0)
    }
}

impl StoredVisit {
    fn is_on(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.used_ms) < IDLE_MS && now_ms.saturating_sub(self.begun_ms) < LONGEST_MS
    }
}

impl Seen {
    /// Returns whether a form carries the token of this visit.
    pub fn has_token(&self, token: &str) -> bool {
        self.token.as_bytes().ct_eq(token.as_bytes()).into()
    }
}

fn id(cookie: &str) -> [u8; 32] {
    Sha256::digest(cookie.as_bytes()).into()
}

fn random() -> Option<String> {
    let mut bytes = [0; 32];
    chance::fill(&mut bytes).ok()?;
    Some(hex::encode(bytes))
}

/// The field that names the form.
pub(crate) const FORM: &str = "form";
/// Fields that are never shown again.
pub(crate) const SECRETS: [&str; 2] = ["password", "csrf"];
/// The time that a visit may be idle, and its longest duration, in milliseconds.
const IDLE_MS: u64 = 30 * 60_000;
const LONGEST_MS: u64 = 12 * 3_600_000;
/// The most visits at a time, of one account and in total.
const MOST_OF_ACCOUNT: usize = 10;
const MOST: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    fn account(name: &str) -> Jid {
        Jid::parse(&format!("{name}@a.example")).unwrap()
    }

    #[test]
    fn a_visit_is_known_by_its_cookie_and_ends() {
        let visits = AdminVisits::default();
        let cookie = visits.begin(&account("a"), String::new(), 0).unwrap();
        let seen = visits.find(&cookie, 1).unwrap();
        assert!(seen.has_token(&seen.token) && !seen.has_token("") && !seen.has_token(&cookie));
        assert!(visits.find("forged", 1).is_none());
        assert!(visits.find(&cookie, IDLE_MS).is_some() && visits.find(&cookie, 2 * IDLE_MS).is_none());
        let cookie = visits.begin(&account("a"), String::new(), 0).unwrap();
        let mut now = 0;
        while visits.find(&cookie, now).is_some() {
            now += IDLE_MS - 1;
        }
        assert!((LONGEST_MS..LONGEST_MS + IDLE_MS).contains(&now));
        let cookie = visits.begin(&account("a"), String::new(), 0).unwrap();
        visits.end(&visits.find(&cookie, 1).unwrap());
        assert!(visits.find(&cookie, 1).is_none());
    }

    #[test]
    fn there_are_only_so_many() {
        let visits = AdminVisits::default();
        let first = visits.begin(&account("a"), String::new(), 0).unwrap();
        (0..MOST_OF_ACCOUNT).for_each(|_| drop(visits.begin(&account("a"), String::new(), 1)));
        assert!(visits.find(&first, 2).is_none());
        (0..2 * MOST).for_each(|number| drop(visits.begin(&account(&number.to_string()), String::new(), 3)));
        assert_eq!(visits.lock().len(), MOST);
    }

    #[test]
    fn passwords_are_not_kept() {
        let given = [("form", "new-user"), ("name", "eve"), ("password", "geheim"), ("csrf", "0")];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let returned = Returned::of(&given, Some("name"), "Eve exists already.".into());
        assert_eq!((returned.form.as_str(), returned.place().as_deref()), ("new-user", Some("new-user-name")));
        assert!(!format!("{returned:?}").contains("geheim"));
    }

    #[test]
    fn a_notice_is_shown_once() {
        let visits = AdminVisits::default();
        let cookie = visits.begin(&account("a"), String::new(), 0).unwrap();
        let seen = visits.find(&cookie, 0).unwrap();
        visits.notice(&seen, Notice { is_error: false, words: "done".into(), copy: None, mail: None, returned: None });
        assert_eq!(visits.take_notice(&seen).unwrap().words, "done");
        assert_eq!(visits.take_notice(&seen), None);
    }
}
