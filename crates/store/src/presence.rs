//! The last unavailable presence of users who are offline, for presence probes (RFC 6121 §4.3.2).

use crate::Pending;
use rookery_jid::{Jid, JidRef};

/// The last presence of all accounts. Accounts count by their bare JID.
pub trait LastPresence: Send + Sync {
    /// Keeps an account's last presence in place of the one before. Answers
    /// [`NoAccount`](crate::StoreError::NoAccount) if the owner isn't an account.
    fn put(&self, owner: JidRef<'_>, unix_ms: u64, stanza: Vec<u8>) -> Pending<()>;

    /// Returns the last presence of an account without checking who may see it: for the server
    /// itself and for operators.
    fn last(&self, owner: JidRef<'_>) -> Pending<Option<LastSeen>>;

    /// Returns the last presence of those `owners` whose roster lets `asker` see it (subscription
    /// `from` or `both`), in the order of `owners`, each with the owner's document of that name, if
    /// there is one. Owners who have none, or don't let, or don't exist are left out, so an asker
    /// can't tell which it was.
    fn of(&self, asker: JidRef<'_>, owners: Vec<Jid>, document: &str) -> Pending<Vec<SeenWith>>;
}

/// The last presence of one account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastSeen {
    /// Its owner, as asked for.
    pub owner: Jid,
    /// The time when it was sent, milliseconds since 1970.
    pub unix_ms: u64,
    /// The stanza as it was put.
    pub stanza: Vec<u8>,
}

/// A last presence with a document of its owner, if there is one.
pub type SeenWith = (LastSeen, Option<Vec<u8>>);
