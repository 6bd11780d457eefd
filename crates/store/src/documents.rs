//! Small named documents of an account: private data (XEP-0049), a vCard (XEP-0054), a block list
//! (XEP-0191).

use crate::Pending;
use rookery_jid::{Jid, JidRef};

/// The documents of all accounts. Owners are identified by their bare JIDs; the meaning of a name
/// is up to its module.
pub trait Documents: Send + Sync {
    /// Returns a document, if there is one; `None` also for an owner that isn't an account.
    fn get(&self, owner: JidRef<'_>, name: &str) -> Pending<Option<Vec<u8>>>;

    /// Stores a document in place of the previous one; `None` removes it. Returns
    /// [`NoAccount`](crate::StoreError::NoAccount) if the owner isn't an account.
    fn put(&self, owner: JidRef<'_>, name: &str, bytes: Option<Vec<u8>>) -> Pending<()>;

    /// Stores documents in place of those with the same names, all of them or none. All their names
    /// begin with `prefix`; unless all documents with such names then stay within `room` in number
    /// and bytes, nothing is changed. Returns [`NoAccount`](crate::StoreError::NoAccount) as
    /// [`Documents::put`] does.
    fn put_within(
        &self,
        owner: JidRef<'_>,
        prefix: &str,
        documents: Vec<StoredDocument>,
        room: DocumentRoom,
    ) -> Pending<DocumentsPut>;

    /// Returns the documents whose names begin with `prefix`, in the order of the bytes of their
    /// names; none for an owner that isn't an account.
    fn starting(&self, owner: JidRef<'_>, prefix: &str) -> Pending<Vec<StoredDocument>>;

    /// Returns each owner's document of this name, if there is one, in the order of `owners`.
    fn of(&self, owners: Vec<Jid>, name: &str) -> Pending<Vec<(Jid, Vec<u8>)>>;
}

/// The limits for the documents whose names share a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DocumentRoom {
    /// The most documents with that prefix.
    pub number: usize,
    /// Their bytes, names included.
    pub bytes: u64,
}

/// The outcome of storing several documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentsPut {
    /// They are stored.
    Done,
    /// The documents would be more than [`DocumentRoom::number`], and none was stored.
    TooMany,
    /// The documents would have more than [`DocumentRoom::bytes`], and none was stored.
    TooLarge,
}

/// A document with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDocument {
    /// The name, which is unique for the account.
    pub name: String,
    /// The content.
    pub bytes: Vec<u8>,
}
