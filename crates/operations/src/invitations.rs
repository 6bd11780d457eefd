//! Links that work once, without a password: to create an account, or to set a new password.

use rookery_base::chance::{self, NoChance};
use rookery_jid::Jid;
use rookery_store::{Invitation, Pending, Purpose, Stores};

use super::{Outcome, Refusal};

/// Says what the holder of a link may do: create an account, or set a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkPurpose {
    /// To create an account in a domain. With `local`, one of this name (prepared); with `inviter`,
    /// an account that is its first contact.
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

/// Makes an invitation that is good for so many days from `now_ms` (milliseconds since 1970).
/// Whether anybody could use it, which takes the module `register`, is for the caller to know.
/// [`uri`] makes the link of it.
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

/// Returns the address of the page that an invitation opens (XEP-0401 §3.1, `landing-url`), which
/// somebody without a client can use. `pages` is the address of the web front, with `@` for the
/// domain.
pub fn page(invitation: &Invitation, pages: &str) -> String {
    let Invitation { token, domain, purpose, .. } = invitation;
    let folder = match purpose {
        Purpose::Account(_) => "invite",
        Purpose::Password => "reset",
    };
    format!("{}/{folder}/{token}", pages.replace('@', domain))
}

/// Returns the one name that an invitation is good for, if there is only one.
pub fn fixed_name(invitation: &Invitation) -> Option<String> {
    match &invitation.purpose {
        Purpose::Account(name) => name.clone(),
        Purpose::Password => invitation.owner.as_ref().and_then(Jid::local).map(str::to_owned),
    }
}

/// Returns the link of an invitation (XEP-0401 §3, XEP-0445 §2). `invites`: it is a user's to a
/// contact, who may have an account elsewhere.
pub fn uri(invitation: &Invitation, invites: bool) -> String {
    let Invitation { token, domain, purpose, owner, .. } = invitation;
    match (purpose, owner) {
        (Purpose::Account(_), Some(owner)) if invites => format!("xmpp:{owner}?roster;preauth={token};ibr=y"),
        (Purpose::Account(Some(local)), _) => format!("xmpp:{local}@{domain}?register;preauth={token}"),
        (Purpose::Password, Some(owner)) => format!("xmpp:{owner}?register;preauth={token}"),
        _ => format!("xmpp:{domain}?register;preauth={token}"),
    }
}

/// Returns a token that nobody can guess: 26 letters and digits, 130 bits.
///
/// # Errors
/// The operating system gives no random bytes.
fn token() -> Result<String, NoChance> {
    chance::text(TOKEN_CHARS)
}

/// Invitations of one account that may be open.
pub const MAX_OPEN: usize = 50;
/// The characters of a token.
pub const TOKEN_CHARS: usize = 26;
/// A day, milliseconds.
const DAY_MS: u64 = 86_400_000;
