//! Small named documents of an account: private data (XEP-0049), a vCard (XEP-0054), a block list
//! (XEP-0191).

use crate::Pending;
use rookery_jid::{Jid, JidRef};

/// The documents of all accounts. Owners count by their bare JID; the meaning of a name is up to
/// its module.
pub trait Documents: Send + Sync {
    /// Returns a document, if there is one; nothing for an owner that isn't an account.
    fn get(&self, owner: JidRef<'_>, name: &str) -> Pending<Option<Vec<u8>>>;

    /// Keeps a document in place of the one before; `None` removes it. Answers
    /// [`NoAccount`](crate::StoreError::NoAccount) if the owner isn't an account.
    fn put(&self, owner: JidRef<'_>, name: &str, bytes: Option<Vec<u8>>) -> Pending<()>;

    /// Stores documents in place of those with the same names, all of them or none. All their names
    /// begin with `prefix`; all documents with such names together then stay within `room` in
    /// number and bytes, or nothing is done. Returns [`NoAccount`](crate::StoreError::NoAccount) as
    /// [`Documents::put`] does.
    fn put_within(
        &self,
        owner: JidRef<'_>,
        prefix: &str,
        documents: Vec<StoredDocument>,
        room: DocumentRoom,
    ) -> Pending<DocumentsPut>;

    /// Returns the documents whose names begin with `prefix`, in the order of the bytes of their
    /// names. Nothing for an owner that isn't an account.
    fn starting(&self, owner: JidRef<'_>, prefix: &str) -> Pending<Vec<StoredDocument>>;

    /// Returns the document of that name of each of these owners, where one exists, in the order
    /// of `owners`.
    fn of(&self, owners: Vec<Jid>, name: &str) -> Pending<Vec<(Jid, Vec<u8>)>>;
}

/// The limits for the documents whose names share a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DocumentRoom {
    /// The number of documents.
    pub number: usize,
    /// Their bytes, names included.
    pub bytes: u64,
}

/// The outcome of putting several documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentsPut {
    /// They are kept.
    Done,
    /// There would be too many.
    TooMany,
    /// There would be too many bytes.
    TooLarge,
}

/// A document with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDocument {
    /// Its name.
    pub name: String,
    /// The content.
    pub bytes: Vec<u8>,
}
