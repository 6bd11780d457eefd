//! Bearer tokens of the HTTP API (RFC 6750), and the permissions of each.
//!
//! A token is created on the command line and shown once. The store keeps its hash: 256 bits of
//! the system's randomness need no salt and no work factor. The list is one document in the store,
//! which only the command line writes; the server reads it at each request, so that a revoked
//! token is invalid at once.

use rookery_base::{chance, hex};

use rookery_store::{Added, Pending, Stores};
use sha2::{Digest, Sha256};

use super::{Outcome, Refusal};

/// A right of a token. Scopes come in pairs, one for reading and one for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// To see accounts.
    UsersRead,
    /// To make, change and remove accounts.
    UsersWrite,
    /// To export all data of an account, including the keys of its password.
    UsersExport,
    /// To see sessions.
    SessionsRead,
    /// To end sessions.
    SessionsWrite,
    /// To see rooms and their occupants.
    RoomsRead,
    /// To make, change and destroy rooms.
    RoomsWrite,
    /// To send messages in the name of a domain.
    MessagesWrite,
    /// To read the message of the day.
    AnnouncementsRead,
    /// To announce, and to set the message of the day.
    AnnouncementsWrite,
    /// To create links that admit a user.
    InvitationsWrite,
    /// To see domains and their modules.
    DomainsRead,
    /// To see the server's counters.
    StatisticsRead,
    /// To see the log of actions.
    LogRead,
    /// To see reports of abuse.
    ReportsRead,
    /// To dismiss reports of abuse.
    ReportsWrite,
    /// To see streams with other servers and components.
    StreamsRead,
    /// To close such streams.
    StreamsWrite,
    /// To make the server reload its configuration.
    ServerWrite,
    /// To download a backup: all data of all accounts, with all keys.
    ServerBackup,
    /// To observe the server at work, including its largest users.
    ObserveRead,
    /// To read devices.
    ReadingsRead,
    /// To receive events.
    EventsRead,
}

impl Scope {
    /// All scopes; each is found by its [name](Self::from_name).
    pub const ALL: [Scope; 23] = [
        Self::UsersRead,
        Self::UsersWrite,
        Self::UsersExport,
        Self::SessionsRead,
        Self::SessionsWrite,
        Self::RoomsRead,
        Self::RoomsWrite,
        Self::MessagesWrite,
        Self::AnnouncementsRead,
        Self::AnnouncementsWrite,
        Self::InvitationsWrite,
        Self::DomainsRead,
        Self::StatisticsRead,
        Self::LogRead,
        Self::ReportsRead,
        Self::ReportsWrite,
        Self::StreamsRead,
        Self::StreamsWrite,
        Self::ServerWrite,
        Self::ServerBackup,
        Self::ObserveRead,
        Self::ReadingsRead,
        Self::EventsRead,
    ];

    /// Returns its name for operators and clients.
    pub fn name(self) -> &'static str {
        match self {
            Self::UsersRead => "users:read",
            Self::UsersWrite => "users:write",
            Self::UsersExport => "users:export",
            Self::SessionsRead => "sessions:read",
            Self::SessionsWrite => "sessions:write",
            Self::RoomsRead => "rooms:read",
            Self::RoomsWrite => "rooms:write",
            Self::MessagesWrite => "messages:write",
            Self::AnnouncementsRead => "announcements:read",
            Self::AnnouncementsWrite => "announcements:write",
            Self::InvitationsWrite => "invitations:write",
            Self::DomainsRead => "domains:read",
            Self::StatisticsRead => "statistics:read",
            Self::LogRead => "log:read",
            Self::ReportsRead => "reports:read",
            Self::ReportsWrite => "reports:write",
            Self::StreamsRead => "streams:read",
            Self::StreamsWrite => "streams:write",
            Self::ServerWrite => "server:write",
            Self::ServerBackup => "server:backup",
            Self::ObserveRead => "observe:read",
            Self::ReadingsRead => "readings:read",
            Self::EventsRead => "events:read",
        }
    }

    /// Returns the scope that a token's list or the command line names; `None` for an unknown name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }
}

/// A stored token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// The name that its owner gave it.
    pub name: String,
    /// The rights that it gives.
    pub scopes: Vec<Scope>,
    /// The only domain that it is valid for; `None` for all.
    pub domain: Option<String>,
    /// The time of its creation, in milliseconds since 1970.
    pub made_ms: u64,
    hash: String,
}

impl Token {
    /// Returns all rights, for the owner of the server's files, who could make any token. It isn't
    /// in the store, and has no secret.
    pub fn of_owner() -> Self {
        let scopes = Scope::ALL.to_vec();
        Self { name: String::new(), scopes, domain: None, made_ms: 0, hash: String::new() }
    }

    /// Returns whether it has a right.
    pub fn has(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }

    /// Returns whether it is valid for a domain.
    pub fn is_for(&self, domain: &str) -> bool {
        self.domain.as_deref().is_none_or(|own| own == domain)
    }

    fn read(line: &str) -> Option<Self> {
        let mut fields = line.split('\t');
        let [name, hash, made, domain, scopes] = std::array::from_fn(|_| fields.next().unwrap_or_default());
        Some(Self {
            name: name.to_owned(),
            // A scope that this version doesn't know grants nothing.
            scopes: scopes.split(' ').filter_map(Scope::from_name).collect(),
            domain: Some(domain.to_owned()).filter(|domain| !domain.is_empty()),
            made_ms: made.parse().ok()?,
            hash: Some(hash.to_owned()).filter(|hash| hash.len() == 64)?,
        })
    }

    fn write(&self) -> String {
        let scopes: Vec<_> = self.scopes.iter().map(|scope| scope.name()).collect();
        let domain = self.domain.as_deref().unwrap_or_default();
        format!("{}\t{}\t{}\t{domain}\t{}", self.name, self.hash, self.made_ms, scopes.join(" "))
    }
}

/// Creates a token and returns its secret, which can't be retrieved later. `now_ms` is in
/// milliseconds since 1970.
pub fn add(
    stores: &Stores,
    name: &str,
    scopes: Vec<Scope>,
    domain: Option<String>,
    now_ms: u64,
) -> Pending<Outcome<String>> {
    let (stores, name) = (stores.clone(), name.to_owned());
    Box::pin(async move {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(allowed) {
            let words = format!(
                "{name:?} can't be the name of a token: use letters, digits, '-', '.' and '_', at most {MAX_NAME}"
            );
            return Ok(Err(Refusal::Impossible(words)));
        }
        let mut bytes = [0; 32];
        if let Err(error) = chance::fill(&mut bytes) {
            return Ok(Err(Refusal::Impossible(error.to_string())));
        }
        let secret = format!("{PREFIX}{}", hex::encode(bytes));
        let token = Token { name, scopes, domain, made_ms: now_ms, hash: hash(&secret) };
        let added = stores.meta.add_entry(KEY, &token.name, token.write().into_bytes(), MAX_TOKENS);
        Ok(match added.await? {
            Added::Done => Ok(secret),
            Added::Exists => Err(Refusal::Exists(format!("there is already a token {}", token.name))),
            Added::Full => Err(Refusal::Full(format!("there are already {MAX_TOKENS} tokens; revoke some"))),
        })
    })
}

/// Returns all tokens, oldest first.
pub fn list(stores: &Stores) -> Pending<Vec<Token>> {
    let kept = stores.meta.entries(KEY);
    Box::pin(async move {
        let read = |(_, line): (String, Vec<u8>)| Token::read(&String::from_utf8_lossy(&line));
        let mut tokens: Vec<_> = kept.await?.into_iter().filter_map(read).collect();
        tokens.sort_by_key(|token| token.made_ms);
        Ok(tokens)
    })
}

/// Revokes a token at once; `false` if there is none of this name.
pub fn revoke(stores: &Stores, name: &str) -> Pending<bool> {
    stores.meta.remove_entry(KEY, name)
}

/// Returns the token with this secret. Secrets are compared by their hashes: the time of a
/// comparison reveals nothing useful.
pub fn find(stores: &Stores, secret: &str) -> Pending<Option<Token>> {
    let (tokens, hash) = (list(stores), hash(secret));
    Box::pin(async move { Ok(tokens.await?.into_iter().find(|token| token.hash == hash)) })
}

fn hash(secret: &str) -> String {
    hex::encode(Sha256::digest(secret.as_bytes()))
}

/// The key under which the store has the tokens.
const KEY: &str = "api-tokens";
/// The prefix of every secret, by which a leaked one can be found.
const PREFIX: &str = "rookery_";
/// The most characters of a name.
const MAX_NAME: usize = 64;
/// The most tokens.
const MAX_TOKENS: usize = 1000;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rookery_store::memory::Memory;
    use rookery_store::wait;

    use super::*;

    #[test]
    fn a_token_is_found_by_its_secret_until_it_is_revoked() {
        let stores = Stores::of(Arc::new(Memory::default()));
        let add = |name: &str| wait(add(&stores, name, vec![Scope::UsersRead], Some("a.example".into()), 7)).unwrap();
        let secret = add("one").unwrap();
        assert!(matches!(add("one"), Err(Refusal::Exists(_))));
        assert!(matches!(add("a\tb"), Err(Refusal::Impossible(_))));
        let other = add("two").unwrap();
        let found = wait(find(&stores, &secret)).unwrap().unwrap();
        assert!(found.has(Scope::UsersRead) && !found.has(Scope::UsersWrite));
        assert!(found.is_for("a.example") && !found.is_for("b.example"));
        assert_eq!((found.name.as_str(), found.made_ms), ("one", 7));
        let kept = wait(stores.meta.entries(KEY)).unwrap().into_iter().flat_map(|(_, line)| line).collect();
        assert!(!String::from_utf8(kept).unwrap().contains(&secret[PREFIX.len()..]), "only its hash is kept");
        assert_eq!((wait(revoke(&stores, "one")), wait(revoke(&stores, "one"))), (Ok(true), Ok(false)));
        assert_eq!(wait(find(&stores, &secret)), Ok(None));
        assert_eq!(wait(find(&stores, &other)).unwrap().unwrap().name, "two");
    }

    #[test]
    fn scopes_are_known_by_their_names() {
        for scope in Scope::ALL {
            assert_eq!(Scope::from_name(scope.name()), Some(scope));
        }
        assert_eq!(Scope::from_name("everything"), None);
    }
}
