//! The documents that modules store for accounts: their names, and their treatment when an account
//! moves to another server.

/// A kind of document that a module keeps for accounts: one that is in memory by its type
/// ([`Hooks::document`](crate::Hooks::document)), another by
/// [`Module::documents`](crate::Module::documents).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentSpec {
    /// Its name in the store.
    pub name: DocumentName,
    /// Its form in a file of XEP-0227.
    pub export: Exported,
}

/// The name of a kind of document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentName {
    /// There is at most one document for each account, stored under this name.
    One(&'static str),
    /// There is one, kept in memory under this name ([`Hooks::document`](crate::Hooks::document)).
    AtHand(&'static str),
    /// There are several, whose names begin so.
    Several(&'static str),
}

/// The form of a document in a file of XEP-0227.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exported {
    /// The document is this element, which other servers know as well.
    Element {
        /// The name of the element.
        name: &'static str,
        /// Its namespace.
        ns: &'static str,
    },
    /// Each document is an element of private XML storage (XEP-0227 §4.6), named by that element's
    /// name and namespace.
    Private,
    /// Only this server understands the document: its bytes are exported.
    Bytes,
}

impl DocumentSpec {
    /// Returns a spec of one document that only this server can read.
    pub const fn of_ours(name: DocumentName) -> Self {
        Self { name, export: Exported::Bytes }
    }
}

impl DocumentName {
    /// Returns whether this kind includes a document of this name in the store.
    pub fn is(&self, stored: &str) -> bool {
        match self {
            Self::One(name) => *name == stored,
            Self::AtHand(name) => stored_name(name) == stored,
            Self::Several(beginning) => stored.starts_with(beginning),
        }
    }

    /// Returns the name in the store, or the prefix of the names.
    pub fn stored_name(&self) -> String {
        match self {
            Self::One(name) | Self::Several(name) => (*name).to_owned(),
            Self::AtHand(name) => stored_name(name),
        }
    }
}

/// Returns the name in the store of a document that is kept in memory.
pub(crate) fn stored_name(name: &str) -> String {
    format!("{PREFIX}{name}")
}

/// The beginning of the names, in the store, of documents that are kept in memory.
pub(crate) const PREFIX: &str = "at-hand/";
