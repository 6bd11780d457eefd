//! The last unavailable presence of users who are offline, for presence probes (RFC 6121 §4.3.2).

use crate::Pending;
use rookery_jid::{Jid, JidRef};

/// The last presence of all accounts, which are identified by their bare JIDs.
pub trait LastPresence: Send + Sync {
    /// Stores an account's last presence in place of the previous one. Returns
    /// [`NoAccount`](crate::StoreError::NoAccount) if the owner isn't an account.
    fn put(&self, owner: JidRef<'_>, unix_ms: u64, stanza: Vec<u8>) -> Pending<()>;

    /// Returns the last presence of an account without checking permissions: for the server itself
    /// and for operators.
    fn last(&self, owner: JidRef<'_>) -> Pending<Option<LastSeen>>;

    /// Returns the last presence of those `owners` whose roster lets `asker` see it (subscription
    /// `from` or `both`), in the order of `owners`, each with the owner's document of that name, if
    /// there is one. Owners without a last presence, without permission for the asker, or without
    /// an account are left out alike, so the asker can't tell them apart.
    fn of(&self, asker: JidRef<'_>, owners: Vec<Jid>, document: &str) -> Pending<Vec<SeenWith>>;
}

/// The last presence of one account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastSeen {
    /// Its owner, as in the request.
    pub owner: Jid,
    /// The time when it was sent, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The stanza, unchanged.
    pub stanza: Vec<u8>,
}

/// A last presence with a document of its owner, if there is one.
pub type SeenWith = (LastSeen, Option<Vec<u8>>);
