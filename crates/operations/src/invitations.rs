//! Links that work once, without a password: to create an account, or to set a new password.

use rookery_base::Map;
use rookery_base::chance::{self, NoChance};
use rookery_jid::Jid;
use rookery_store::{Invitation, Pending, Purpose, Stores};

use super::{Outcome, Refusal};

/// The purpose of a link: to create an account, or to set a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkPurpose {
    /// To create an account in a domain, with this localpart (prepared) and the inviter as the
    /// first contact, if given.
    Account {
        /// The domain of the new account.
        domain: String,
        /// The localpart.
        local: Option<String>,
        /// The bare JID of the inviter.
        inviter: Option<Jid>,
    },
    /// To set a new password for an account.
    Password(Jid),
}

/// Makes an invitation that is valid for a number of days from `now_ms` (milliseconds since 1970).
/// It can be used only with the module `register`, which the caller has to check. [`uri`] makes the
/// link of it.
pub fn make(stores: &Stores, wanted: LinkPurpose, days: u64, now_ms: u64) -> Pending<Outcome<Invitation>> {
    let stores = stores.clone();
    Box::pin(async move {
        match &wanted {
            LinkPurpose::Account { domain, local: Some(local), .. } => {
                let Ok(account) = Jid::new(Some(local), domain, None) else {
                    return Ok(Err(Refusal::Impossible("no account can have this name".into())));
                };
                if stores.accounts.exists(account.as_ref()).await? {
                    return Ok(Err(Refusal::Exists(format!("{account} already exists"))));
                }
            }
            LinkPurpose::Password(account) if !stores.accounts.exists(account.as_ref()).await? => {
                return Ok(Err(Refusal::no_account(account)));
            }
            _ => {}
        }
        let token = match token() {
            Ok(token) => token,
            Err(error) => {
                tracing::error!(%error, "no token can be created");
                return Ok(Err(Refusal::Failed("making a token")));
            }
        };
        let expires_ms = now_ms.saturating_add(days.saturating_mul(DAY_MS));
        let (domain, purpose, owner) = match wanted {
            LinkPurpose::Account { domain, local, inviter } => (domain, Purpose::Account(local), inviter),
            LinkPurpose::Password(account) => (account.domain().to_owned(), Purpose::Password, Some(account.to_bare())),
        };
        let invitation = Invitation { token, domain, purpose, owner, expires_ms };
        Ok(match stores.invitations.put(invitation.clone(), now_ms, MAX_OPEN).await {
            Ok(true) => Ok(invitation),
            Ok(false) => Err(Refusal::Full("too many links are open; wait until some are used or expire".into())),
            Err(error) => Err(error.into()),
        })
    })
}

/// Revokes a link of some domains, so that it can't be used any more. Returns it, and the act for
/// the action log; `None` if it was used or revoked before, has expired, or is of another domain.
pub fn revoke(stores: &Stores, domains: &[String], token: &str, now_ms: u64) -> Pending<Option<(Invitation, String)>> {
    let (stores, domains, token) = (stores.clone(), domains.to_vec(), token.to_owned());
    Box::pin(async move {
        let found = stores.invitations.get(&token, now_ms).await?;
        if !found.is_some_and(|found| domains.contains(&found.domain)) {
            return Ok(None);
        }
        let taken = stores.invitations.take(&token, now_ms).await?;
        Ok(taken.map(|taken| {
            let act = match (&taken.purpose, &taken.owner) {
                (Purpose::Password, Some(owner)) => format!("revoked a link to set a password: {owner}"),
                (Purpose::Account(Some(local)), _) => format!("revoked an invitation: {local}@{}", taken.domain),
                _ => format!("revoked an invitation: {}", taken.domain),
            };
            (taken, act)
        }))
    })
}

/// Records who made a link, for operators: a user of the machine, a token of the API, or an
/// administrator. The makers of links that have ended are forgotten.
pub fn remember_maker(stores: &Stores, made: &Invitation, maker: &str, now_ms: u64) -> Pending<()> {
    let (stores, token, line) = (stores.clone(), made.token.clone(), format!("{}\t{maker}", made.expires_ms));
    Box::pin(async move {
        let mut known: Vec<_> = stores.meta.entries(MAKERS).await?.into_iter().map(read_maker).collect();
        // Those that end first are removed first.
        known.sort_by_key(|(_, ends_ms, _)| *ends_ms);
        let surplus = (known.len() + 1).saturating_sub(MOST_MAKERS);
        let old = known.iter().enumerate().filter(|(at, (_, ends_ms, _))| *at < surplus || *ends_ms <= now_ms);
        for (_, (token, ..)) in old {
            stores.meta.remove_entry(MAKERS, token).await?;
        }
        stores.meta.put_entry(MAKERS, &token, line.into_bytes()).await
    })
}

/// Returns the makers of links, by the links' tokens. Links without a recorded maker are missing.
pub fn makers(stores: &Stores) -> Pending<Map<String, String>> {
    let known = stores.meta.entries(MAKERS);
    Box::pin(async move {
        let read = known.await?.into_iter().map(read_maker);
        Ok(read.map(|(token, _, maker)| (token, maker)).collect())
    })
}

/// Returns the token of an entry, its end in milliseconds since 1970, and its maker.
fn read_maker((token, line): (String, Vec<u8>)) -> (String, u64, String) {
    let line = String::from_utf8_lossy(&line);
    let (ends_ms, maker) = line.split_once('\t').unwrap_or_default();
    (token, ends_ms.parse().unwrap_or_default(), maker.to_owned())
}

/// Returns the address of the page that an invitation opens (XEP-0401 §3.1, `landing-url`), which
/// can be used without a client. `pages` is the address of the web front, with `@` for the domain.
pub fn page(invitation: &Invitation, pages: &str) -> String {
    let Invitation { token, domain, purpose, .. } = invitation;
    let folder = match purpose {
        Purpose::Account(_) => "invite",
        Purpose::Password => "reset",
    };
    format!("{}/{folder}/{token}", pages.replace('@', domain))
}

/// Returns the only name that an invitation is valid for, if there is one.
pub fn fixed_name(invitation: &Invitation) -> Option<String> {
    match &invitation.purpose {
        Purpose::Account(name) => name.clone(),
        Purpose::Password => invitation.owner.as_ref().and_then(Jid::local).map(str::to_owned),
    }
}

/// Returns the link of an invitation (XEP-0401 §3, XEP-0445 §2). With `invites`, it is a user's
/// invitation of a contact, who may have an account elsewhere.
pub fn uri(invitation: &Invitation, invites: bool) -> String {
    let Invitation { token, domain, purpose, owner, .. } = invitation;
    match (purpose, owner) {
        (Purpose::Account(_), Some(owner)) if invites => format!("xmpp:{owner}?roster;preauth={token};ibr=y"),
        (Purpose::Account(Some(local)), _) => format!("xmpp:{local}@{domain}?register;preauth={token}"),
        (Purpose::Password, Some(owner)) => format!("xmpp:{owner}?register;preauth={token}"),
        _ => format!("xmpp:{domain}?register;preauth={token}"),
    }
}

/// Returns an unguessable token: 26 letters and digits, 130 bits.
///
/// # Errors
/// The operating system provides no random bytes.
fn token() -> Result<String, NoChance> {
    chance::text(TOKEN_CHARS)
}

/// The most open invitations of one account.
pub const MAX_OPEN: usize = 50;
/// The number of characters of a token.
pub const TOKEN_CHARS: usize = 26;
/// The key under which the store keeps the makers of links.
const MAKERS: &str = "link makers";
const MOST_MAKERS: usize = 1000;
/// A day, in milliseconds.
const DAY_MS: u64 = 86_400_000;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rookery_store::memory::Memory;
    use rookery_store::wait;

    use super::*;

    #[test]
    fn makers_are_known_as_long_as_their_links_are_valid() {
        let stores = Stores::of(Arc::new(Memory::default()));
        let link = |token: &str, expires_ms| Invitation {
            token: token.to_owned(),
            domain: "a.example".to_owned(),
            purpose: Purpose::Account(None),
            owner: None,
            expires_ms,
        };
        wait(remember_maker(&stores, &link("short", 10), "root", 1)).expect("stored");
        wait(remember_maker(&stores, &link("long", 100), "token ci", 2)).expect("stored");
        let known = wait(makers(&stores)).expect("read");
        assert_eq!((known.len(), known["short"].as_str(), known["long"].as_str()), (2, "root", "token ci"));
        wait(remember_maker(&stores, &link("new", 100), "root", 50)).expect("stored");
        assert!(!wait(makers(&stores)).expect("read").contains_key("short"));
        for number in 0..MOST_MAKERS as u64 + 3 {
            wait(remember_maker(&stores, &link(&number.to_string(), 1000 + number), "root", 60)).expect("stored");
        }
        let known = wait(makers(&stores)).expect("read");
        assert!(known.len() == MOST_MAKERS && !known.contains_key("long"), "{}", known.len());
    }
}
