//! Tokens with which clients log in (XEP-0484), stored as documents of their account.
//!
//! # Invariants
//!
//! * A token is valid for one installation of a client, one mechanism, a limited time, and the
//!   password under which it was issued: a new password invalidates all of them, no matter who set
//!   it.
//! * An installation has at most two: a new one replaces the older only when it is used (XEP-0484
//!   §6.1). The installations of an account are bounded; the least recently used one makes room.
//! * The store has a hash of a token, never the token.

use rookery_base::date;
use rookery_base::hex;
use rookery_jid::Jid;
use rookery_sasl::token::new_token;
use rookery_sasl::{Credentials, Hash, TokenKey, TokenMechanism};
use rookery_store::StoredDocument;
use rookery_stream::c2s::{FastSlot, Issued, StoredToken};
use tracing::warn;

use crate::event::{Event, LoginAnswer};
use crate::{DocumentName, DocumentSpec, World};

/// The module whose switch and options decide about tokens.
pub const MODULE: &str = "fast";
/// Its option: days for which a token is valid.
pub const DAYS: &str = "days";
/// Its option: hours after which a client that uses a token gets a new one.
pub const ROTATE_HOURS: &str = "rotate_hours";
/// Its option: installations of clients with tokens, per account.
pub const CLIENTS: &str = "clients";

/// The changes to the tokens of a logged-in client: those that follow from its login, and those
/// that it requests.
#[derive(Debug, Clone)]
pub struct TokenChange {
    /// The owner of the tokens: a bare JID.
    pub account: Jid,
    /// The identifier of the client's installation.
    pub client: String,
    /// The token that it has logged in with; `None` if it has used another mechanism.
    pub used: Option<FastSlot>,
    /// True if the token that it has logged in with is to become invalid.
    pub invalidate: bool,
    /// The mechanism for which it wants a token.
    pub issue: Option<TokenMechanism>,
}

/// The tokens of one installation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Tokens {
    /// The mark of the password under which they were made.
    password: String,
    tokens: Vec<StoredToken>,
}

impl World {
    /// Loads the tokens of a client. Answered with [`Event::Login`]; `connection` is the driver's.
    pub fn look_up_tokens(&mut self, connection: u64, account: Jid, client: &str) {
        let name = document(client);
        self.with_password(account, move |world, account, password| {
            let Some(password) = password else {
                return world.out.events.push_back(Event::Login(connection, LoginAnswer::Failed));
            };
            // The lookup is the same for an account that doesn't exist. No document was made under
            // an empty mark.
            let password = password.unwrap_or_default();
            let found = world.stores.documents.get(account.as_ref(), &name);
            world.wait(found, move |world, found| {
                let answer = match found {
                    Ok(bytes) => LoginAnswer::Tokens(
                        bytes.map(|bytes| Tokens::read(&bytes, &password).tokens).unwrap_or_default(),
                    ),
                    Err(error) => {
                        world.store_failed("loading tokens", &account, &error);
                        LoginAnswer::Failed
                    }
                };
                world.out.events.push_back(Event::Login(connection, answer));
            });
        });
    }

    /// Saves the changes of a logged-in client to its tokens. Answered with [`Event::Login`] when
    /// they are durable, including the token that the client gets, if any.
    pub fn change_tokens(&mut self, connection: u64, change: TokenChange) {
        let account = change.account.clone();
        self.with_password(account, move |world, account, password| {
            let Some(Some(password)) = password else {
                return world.out.events.push_back(Event::Login(connection, LoginAnswer::Token(None)));
            };
            let all = world.stores.documents.starting(account.as_ref(), PREFIX);
            world.wait(all, move |world, all| match all {
                Ok(all) => world.change_these(connection, change, password, &all),
                Err(error) => {
                    world.store_failed("loading tokens", &account, &error);
                    world.out.events.push_back(Event::Login(connection, LoginAnswer::Token(None)));
                }
            });
        });
    }

    fn change_these(&mut self, connection: u64, change: TokenChange, password: String, all: &[StoredDocument]) {
        let name = document(&change.client);
        let own = all.iter().find(|document| document.name == name);
        let before = own.map(|own| Tokens::read(&own.bytes, &password));
        let mut tokens = before.clone().unwrap_or_else(|| Tokens { password, tokens: Vec::new() });
        let now = self.time() / 1000;
        let issued = self.issue(&mut tokens, &change, now);
        let answer = LoginAnswer::Token(issued);
        if before.as_ref() == Some(&tokens) || (before.is_none() && tokens.tokens.is_empty()) {
            return self.out.events.push_back(Event::Login(connection, answer));
        }
        if own.is_none() {
            self.make_room_for_tokens(&change.account, all);
        }
        let account = change.account;
        let kept = self.stores.documents.put(account.as_ref(), &name, tokens.write());
        self.wait(kept, move |world, kept| {
            let answer = match kept {
                Ok(()) => answer,
                Err(error) => {
                    world.store_failed("keeping a token", &account, &error);
                    LoginAnswer::Token(None)
                }
            };
            world.out.events.push_back(Event::Login(connection, answer));
        });
    }

    /// Applies a change; returns the token that the client gets.
    fn issue(&self, tokens: &mut Tokens, change: &TokenChange, now: u64) -> Option<Issued> {
        let options = self.domain(change.account.domain())?.module(MODULE)?;
        let mut due = None;
        if let Some(used) = change.used {
            let current = tokens.note_used(used);
            let age = current.as_ref().map_or(0, |token| now.saturating_sub(token.issued));
            due = current.filter(|_| age >= options.number(ROTATE_HOURS) * 3600).map(|token| token.mechanism);
            if change.invalidate {
                // A token that the client may never have got would outlive the client's wish to
                // leave nothing behind.
                tokens.tokens.clear();
                due = None;
            }
        }
        let mechanism = change.issue.or(due)?;
        let token = new_token().ok()?;
        let expires = now + options.number(DAYS) * 24 * 3600;
        tokens.tokens.retain(|token| token.slot == FastSlot::Current);
        let key = TokenKey::of(&token);
        tokens.tokens.push(StoredToken { slot: FastSlot::New, mechanism, key, issued: now, expires });
        Some(Issued { token, expiry: date::timestamp(expires * 1000) })
    }

    /// Forgets the installations whose newest token is oldest, to make room for one more.
    fn make_room_for_tokens(&mut self, account: &Jid, all: &[StoredDocument]) {
        let options = self.domain(account.domain()).and_then(|domain| domain.module(MODULE));
        let most = options.map_or(0, |options| options.number(CLIENTS)).max(1) as usize;
        let mut by_age: Vec<_> = all.iter().map(|document| (newest(&document.bytes), &document.name)).collect();
        by_age.sort_unstable();
        let many = (by_age.len() + 1).saturating_sub(most);
        for (_, name) in by_age.into_iter().take(many) {
            let (removed, account) = (self.stores.documents.put(account.as_ref(), name, None), account.clone());
            self.wait(removed, move |world, removed| {
                if let Err(error) = removed {
                    world.store_failed("forgetting tokens", &account, &error);
                }
            });
        }
    }

    /// Continues with the mark of an account's password; without it if the account doesn't exist,
    /// or is disabled. `None` if the store failed.
    fn with_password(&mut self, account: Jid, then: impl FnOnce(&mut World, Jid, Option<Option<String>>) + 'static) {
        self.with_credentials(account.clone(), move |world, found| {
            let mark = found.map(|(found, disabled)| found.filter(|_| !disabled).as_ref().map(password_mark));
            then(world, account, mark);
        });
    }
}

impl Tokens {
    /// Reads a document. Tokens that were made under another password, and unreadable ones, are
    /// left out.
    fn read(bytes: &[u8], password: &str) -> Self {
        let text = std::str::from_utf8(bytes).unwrap_or_default();
        let mut lines = text.lines();
        let tokens = match lines.next() {
            Some(made_under) if made_under == password => lines.filter_map(read_token).collect(),
            _ => Vec::new(),
        };
        Self { password: password.to_owned(), tokens }
    }

    /// Notes that the token in a slot was used, and returns it. A new one takes the place of all
    /// others. Two logins at once, or one that goes on at another node, may both have used it: when
    /// the second one is noted, the token is the current one already, and stays.
    fn note_used(&mut self, used: FastSlot) -> Option<StoredToken> {
        let token = self.tokens.iter().find(|token| token.slot == used).cloned()?;
        if used == FastSlot::New {
            self.tokens = vec![StoredToken { slot: FastSlot::Current, ..token.clone() }];
        }
        Some(token)
    }

    /// Returns the document; `None` without tokens.
    fn write(&self) -> Option<Vec<u8>> {
        let mut text = self.password.clone();
        for token in &self.tokens {
            let slot = if token.slot == FastSlot::New { "new" } else { "current" };
            let (mechanism, key) = (token.mechanism.name(), hex::encode(token.key.bytes()));
            text.push_str(&format!("\n{slot} {mechanism} {key} {} {}", token.issued, token.expires));
        }
        (!self.tokens.is_empty()).then(|| text.into_bytes())
    }
}

fn read_token(line: &str) -> Option<StoredToken> {
    let mut words = line.split(' ');
    let slot = match words.next()? {
        "new" => FastSlot::New,
        "current" => FastSlot::Current,
        other => {
            warn!(other, "a token in the store is damaged");
            return None;
        }
    };
    let mechanism = TokenMechanism::from_name(words.next()?)?;
    let key = TokenKey::from_bytes(hex::decode(words.next()?)?);
    Some(StoredToken {
        slot,
        mechanism,
        key,
        issued: words.next()?.parse().ok()?,
        expires: words.next()?.parse().ok()?,
    })
}

/// Returns when the newest token of a document was made.
fn newest(bytes: &[u8]) -> u64 {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    text.lines().skip(1).filter_map(read_token).map(|token| token.issued).max().unwrap_or_default()
}

/// Returns a mark of a password, which changes with the password and reveals nothing of it.
pub fn password_mark(credentials: &Credentials) -> String {
    let keys = credentials.keys(Hash::Sha256);
    hex::encode(TokenKey::of(&hex::encode(&keys.stored_key)).bytes())
}

/// Returns the name of the document for a client, whose identifier may be any text.
fn document(client: &str) -> String {
    format!("{PREFIX}{}", hex::encode(TokenKey::of(client).bytes()))
}

/// The beginning of the documents' names.
const PREFIX: &str = "fast/";
/// The documents that tokens are kept in.
pub const DOCUMENTS: DocumentSpec = DocumentSpec::of_ours(DocumentName::Several(PREFIX));

#[cfg(test)]
mod tests {
    use super::*;

    /// Two logins at once prove the same new token; the change of the second one comes when that of
    /// the first is stored.
    #[test]
    fn a_new_token_that_two_logins_have_used_stays() {
        let key = TokenKey::of("token");
        let token = StoredToken { slot: FastSlot::New, mechanism: TokenMechanism::Unbound, key, issued: 1, expires: 2 };
        let older = StoredToken { slot: FastSlot::Current, key: TokenKey::of("older"), ..token.clone() };
        let mut tokens = Tokens { password: "p".into(), tokens: vec![older, token.clone()] };
        assert_eq!(tokens.note_used(FastSlot::New), Some(token.clone()));
        let current = StoredToken { slot: FastSlot::Current, ..token };
        assert_eq!(tokens.note_used(FastSlot::New), None);
        assert_eq!(tokens.tokens, [current]);
    }

    #[test]
    fn documents_come_back_under_the_same_password_only() {
        let key = TokenKey::of("token");
        let token = StoredToken { slot: FastSlot::New, mechanism: TokenMechanism::Unbound, key, issued: 1, expires: 2 };
        let tokens = Tokens {
            password: "p".into(),
            tokens: vec![StoredToken { slot: FastSlot::Current, ..token.clone() }, token],
        };
        let bytes = tokens.write().unwrap();
        assert_eq!(Tokens::read(&bytes, "p"), tokens);
        assert_eq!(Tokens::read(&bytes, "q").tokens, []);
        assert_eq!(newest(&bytes), 1);
        assert_eq!(Tokens::default().write(), None);
        for damaged in [&b""[..], b"p\nnew", b"p\nnew HT-SHA-256-NONE 00 1 2", b"p\nold HT-SHA-256-NONE", b"\xff"] {
            assert_eq!(Tokens::read(damaged, "p").tokens, []);
        }
    }
}
