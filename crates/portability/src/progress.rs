//! The terms of an import, its progress, and the reasons why it ends.

use std::fmt;

use rookery_hub::{DocumentSpec, Exported};
use rookery_jid::Jid;
use rookery_store::{StoreError, Stores};

use super::SCRAM;
use super::input::{Input, Tag};

/// The caller's side of an import: it decides which accounts are imported, and receives reports.
pub trait Importer {
    /// Returns whether accounts of this domain, in its prepared form, are imported.
    fn serves(&self, domain: &str) -> bool;

    /// Returns why an account with this password isn't imported; `None` if it is imported.
    fn refuses_password(&self, account: &Jid, password: &str) -> Option<String>;

    /// Receives the report that an account was imported.
    fn imported(&mut self, account: &Jid);

    /// Receives the report that data was left out, with the file and the line.
    fn left_out(&mut self, what: &str);
}

/// The operator's decisions about an import.
#[derive(Debug, Clone, Copy)]
pub struct ImportTerms {
    /// The iterations of PBKDF2 for passwords in the file.
    pub scram_iterations: u32,
    /// The time that data gets if the file states none, in milliseconds since 1970.
    pub unix_ms: u64,
}

/// The counts of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ImportCounts {
    /// The number of accounts that were created.
    pub accounts: u64,
    /// The number of items that were left out.
    pub left_out: u64,
}

/// An import in progress.
pub(crate) struct RunningImport<'a> {
    pub stores: &'a Stores,
    pub terms: ImportTerms,
    pub documents: Vec<DocumentSpec>,
    /// The prefix of the names of documents with private elements.
    pub private: String,
    pub importer: &'a mut dyn Importer,
    pub counts: ImportCounts,
}

impl RunningImport<'_> {
    /// Returns the name of the document that an element of the file becomes.
    pub fn document_of(&self, tag: &Tag) -> Option<String> {
        let is_it = |spec: &&DocumentSpec| matches!(spec.export, Exported::Element { name, ns } if tag.is(name, ns));
        self.documents.iter().find(is_it).map(|spec| spec.name.stored_name())
    }

    /// Reports data that was left out.
    pub fn leave_out(&mut self, input: &Input, line: u64, what: &str) {
        self.counts.left_out += 1;
        self.importer.left_out(&format!("{}: {what}", input.place(line)));
    }

    /// Skips an unknown element, and reports it.
    pub fn skip_unknown(&mut self, input: &mut Input, tag: Tag) -> Result<(), ImportError> {
        self.leave_out(input, tag.line, &format!("{} is unknown here", tag.name()));
        Ok(input.skip()?)
    }
}

/// The reason why an import ended early.
#[derive(Debug)]
pub enum ImportError {
    /// The file is broken. The text has the position and the fault.
    File(String),
    /// The store failed.
    Store(StoreError),
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(what) => f.write_str(what),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ImportError {}

impl From<String> for ImportError {
    fn from(what: String) -> Self {
        Self::File(what)
    }
}

impl From<StoreError> for ImportError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Returns whether an element holds keys.
pub fn is_keys(tag: &Tag) -> bool {
    tag.is("scram-credentials", SCRAM)
}
