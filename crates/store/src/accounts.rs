//! Accounts: the bare JIDs that may log in here, with their SCRAM keys.
//!
//! Accounts are identified by their bare JIDs; the resource of a JID is ignored.

use crate::Pending;
use rookery_jid::{Jid, JidRef};
use rookery_sasl::Credentials;

/// The accounts of all domains of this server.
pub trait Accounts: Send + Sync {
    /// Returns the SCRAM keys of an account (RFC 5802 §3), `None` if there is no such account.
    fn credentials(&self, account: JidRef<'_>) -> Pending<Option<Credentials>>;

    /// Returns the SCRAM keys of an account, and whether it is disabled; `None` if there is no such
    /// account.
    fn for_login(&self, account: JidRef<'_>) -> Pending<Option<(Credentials, bool)>> {
        let (found, disabled) = (self.credentials(account), self.is_disabled(account));
        Box::pin(async move { Ok(found.await?.zip(Some(disabled.await?))) })
    }

    /// Creates an account with an empty roster. Returns `false`, and changes nothing, if it exists.
    fn create(&self, account: JidRef<'_>, credentials: Credentials) -> Pending<bool>;

    /// Creates many accounts: all or, on an error, none. Returns in their order whether each is
    /// new.
    ///
    /// One call is one step of the store: no other caller is served in between (some 20 µs per
    /// account). An import into a running server should therefore use calls of a few thousand
    /// accounts; the store gathers them into larger transactions by itself.
    fn create_many(&self, accounts: Vec<(Jid, Credentials)>) -> Pending<Vec<bool>>;

    /// Replaces the SCRAM keys after a new password. Returns `false` if there is no such account.
    fn set_credentials(&self, account: JidRef<'_>, credentials: Credentials) -> Pending<bool>;

    /// Removes an account and everything that any store of this bundle keeps for it. Returns
    /// `false` if there was none.
    ///
    /// It stays in the rosters of others: informing them is routing (RFC 6121 §2.5), not storage.
    fn remove(&self, account: JidRef<'_>) -> Pending<bool>;

    /// Returns whether there is such an account.
    fn exists(&self, account: JidRef<'_>) -> Pending<bool>;

    /// Disables an account, or enables it again: while it is disabled, a login with valid
    /// credentials is refused as such (RFC 6120 §6.5.2). All its data stays. Returns `false` if
    /// there is no such account.
    fn set_disabled(&self, account: JidRef<'_>, disabled: bool) -> Pending<bool>;

    /// Returns whether there is such an account and it is disabled.
    fn is_disabled(&self, account: JidRef<'_>) -> Pending<bool>;

    /// Returns the disabled accounts of a domain, in the order and parts of
    /// [`list`](Accounts::list).
    fn list_disabled(&self, domain: &str, after: Option<JidRef<'_>>, limit: usize) -> Pending<Vec<Jid>>;

    /// Returns the iteration counts of PBKDF2 with which passwords were set, each with the number
    /// of accounts. Reads every account (a second per million): for the start of a server.
    fn iterations(&self) -> Pending<Vec<(u32, u64)>>;

    /// Returns how many accounts of a domain are disabled. For operators.
    fn count_disabled(&self, domain: &str) -> Pending<u64>;

    /// Returns up to `limit` accounts of a domain, ordered by the bytes of their localpart, after
    /// the account `after`.
    fn list(&self, domain: &str, after: Option<JidRef<'_>>, limit: usize) -> Pending<Vec<Jid>>;

    /// Returns a part of the accounts that match a choice, and the number of all that do. Reads
    /// each account of the domain: for operators.
    fn browse(&self, domain: &str, choice: Choice) -> Pending<Browsed>;

    /// Returns how many accounts a domain has, or all domains together. Counts rows (tens of
    /// milliseconds per million): for operators.
    fn count(&self, domain: Option<&str>) -> Pending<u64>;
}

/// A choice of accounts, and their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// A substring of their localparts.
    pub contains: String,
    /// The kind of accounts.
    pub only: Only,
    /// The order in which they are returned, and by which pages are cut.
    pub order: Order,
    /// The number of accounts to skip.
    pub skip: usize,
    /// The most accounts to return.
    pub limit: usize,
}

/// A kind of accounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Only {
    /// All accounts, whether they can log in or not.
    #[default]
    All,
    /// Accounts that can't log in.
    Disabled,
    /// Accounts without a [last presence](crate::LastPresence).
    NeverSeen,
}

/// An order of accounts. Ties are broken by the bytes of the localparts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// By the bytes of their localparts.
    #[default]
    Name,
    /// By last presence, the latest first; accounts that were never seen come last.
    Newest,
    /// By last presence, the earliest first; accounts that were never seen come first.
    Oldest,
    /// By creation, the newest first.
    Youngest,
    /// By bytes, the most first.
    Largest,
}

/// A part of the accounts that match a choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Browsed {
    /// The number of accounts that match.
    pub total: u64,
    /// The accounts of this part.
    pub accounts: Vec<Browse>,
}

/// An account as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Browse {
    /// Its bare JID.
    pub jid: Jid,
    /// True if it may not log in.
    pub is_disabled: bool,
    /// The time of its last presence, in milliseconds since 1970.
    pub last_seen_ms: Option<u64>,
    /// The time of its creation, in milliseconds since 1970; `None` if that wasn't recorded.
    pub created_ms: Option<u64>,
    /// The bytes of its archive, its files and the messages that wait for it.
    pub bytes: u64,
}
