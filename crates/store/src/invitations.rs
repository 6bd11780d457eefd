//! Tokens that admit a user without a password, once: invitations to create an account
//! (XEP-0401, XEP-0445), and links to set a new password.

use crate::Pending;
use rookery_jid::{Jid, JidRef};

/// The invitations of all domains.
pub trait Invitations: Send + Sync {
    /// Stores an invitation, unless its owner already has `limit` valid ones. Invitations that
    /// expired a day ago are removed first. `now_ms` is in milliseconds since 1970. Returns
    /// [`NoAccount`](crate::StoreError::NoAccount) if its owner isn't an account.
    fn put(&self, invitation: Invitation, now_ms: u64, limit: usize) -> Pending<bool>;

    /// Returns the invitation with this token, unless it has expired.
    fn get(&self, token: &str, now_ms: u64) -> Pending<Option<Invitation>>;

    /// Removes and returns an invitation, so that it can't be used again.
    fn take(&self, token: &str, now_ms: u64) -> Pending<Option<Invitation>>;

    /// Returns the invitations for a domain that haven't expired, up to `limit`, ordered by their
    /// expiry. For operators.
    fn open(&self, domain: &str, now_ms: u64, limit: usize) -> Pending<Vec<Invitation>>;

    /// Returns whether an unexpired invitation is for an account of exactly this name.
    fn is_reserved(&self, account: JidRef<'_>, now_ms: u64) -> Pending<bool>;
}

/// A token and its purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// The secret, known only to the invited person.
    pub token: String,
    /// The domain of the account that it is for; the account may still have to be created.
    pub domain: String,
    /// The right that it grants.
    pub purpose: Purpose,
    /// The bare JID of the inviter, who becomes a contact of the new account; for
    /// [`Purpose::Password`], the account itself. The invitation is removed with that account.
    pub owner: Option<Jid>,
    /// The time at which it expires, in milliseconds since 1970.
    pub expires_ms: u64,
}

/// The right that an invitation grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Create an account, with this localpart if there is one.
    Account(Option<String>),
    /// Set the owner's password.
    Password,
}

/// The milliseconds for which an expired invitation is kept, since a client that showed it earlier
/// may still use it (XEP-0445 §3).
pub(crate) const GRACE_MS: u64 = 86_400_000;
