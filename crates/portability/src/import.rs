//! Reads an export: walks through the file, and tells with line numbers what it leaves out.

use std::fmt;
use std::path::Path;

use rookery_hub::{DocumentSpec, Exported};
use rookery_jid::Jid;
use rookery_store::{StoreError, Stores};

use super::account::Account;
use super::input::{Input, Next, Tag};
use super::parts::{documents, private};
use super::{PIE, SCRAM};

/// The side of an import that its caller gives: where accounts may go, and who hears how it goes.
pub trait Importer {
    /// Returns whether accounts of this domain, in its prepared form, are imported.
    fn serves(&self, domain: &str) -> bool;

    /// Hears that an account is imported.
    fn imported(&mut self, account: &Jid);

    /// Hears of something that is left out, with file and line.
    fn left_out(&mut self, what: &str);
}

/// The terms of an import.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// Iterations of PBKDF2 for passwords that are in the file.
    pub scram_iterations: u32,
    /// The time of what has none in the file, milliseconds since 1970.
    pub unix_ms: u64,
}

/// The numbers of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Accounts that were made.
    pub accounts: u64,
    /// Things that were left out.
    pub left_out: u64,
}

/// Imports a file. An account that exists is left alone. The numbers tell how far it came, even where it ended early.
///
/// # Errors
///
/// The file can't be read to its end, or the store failed; what was imported before stays.
pub fn from_file(
    path: &Path,
    terms: Terms,
    stores: &Stores,
    importer: &mut dyn Importer,
) -> (Counts, Result<(), ImportError>) {
    let documents = documents();
    let private = private(&documents).unwrap_or_default();
    let mut import = Import { stores, terms, documents, private, importer, counts: Counts::default() };
    let walked = Input::open(path)
        .map_err(|error| ImportError::File(format!("{}: {error}", path.display())))
        .and_then(|mut input| import.file(&mut input));
    (import.counts, walked)
}

/// An import on its way.
pub(crate) struct Import<'a> {
    pub stores: &'a Stores,
    pub terms: Terms,
    documents: Vec<DocumentSpec>,
    /// What the names of documents begin with that hold private elements.
    pub private: String,
    importer: &'a mut dyn Importer,
    counts: Counts,
}

/// The reason why an import ended before its time.
#[derive(Debug)]
pub enum ImportError {
    /// The file is broken: where, and how.
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

impl Import<'_> {
    /// Returns the name of the document that this element is in the file.
    pub fn document_of(&self, tag: &Tag) -> Option<String> {
        let is_it = |spec: &&DocumentSpec| matches!(spec.export, Exported::Element { name, ns } if tag.is(name, ns));
        self.documents.iter().find(is_it).map(|spec| spec.name.stored())
    }

    /// Says that something is left out.
    pub fn leave_out(&mut self, input: &Input, line: u64, what: &str) {
        self.counts.left_out += 1;
        self.importer.left_out(&format!("{}:{line}: {what}", input.path.display()));
    }

    /// A whole file: the root element may also be a single host or user (§5).
    fn file(&mut self, input: &mut Input) -> Result<(), ImportError> {
        let root = input.root()?;
        match () {
            () if root.is("server-data", PIE) => self.server(input),
            () if root.is("host", PIE) => self.host(input, &root),
            () => Err(ImportError::File(format!(
                "{}:{}: this is no export of accounts (XEP-0227)",
                input.path.display(),
                root.line
            ))),
        }
    }

    /// §4.1: the hosts.
    fn server(&mut self, input: &mut Input) -> Result<(), ImportError> {
        while let Next::Start(tag) = input.next()? {
            match () {
                () if tag.is("host", PIE) => self.host(input, &tag)?,
                () if is_include(&tag) => self.include(input, tag, |import, input, tag| match tag.is("host", PIE) {
                    true => import.host(input, &tag),
                    false => import.unknown(input, tag),
                })?,
                () => self.unknown(input, tag)?,
            }
        }
        Ok(())
    }

    /// §4.2: the accounts of a host.
    fn host(&mut self, input: &mut Input, host: &Tag) -> Result<(), ImportError> {
        let name = host.attr("jid").unwrap_or_default();
        let domain = rookery_jid::prepare_domain(name).ok().map(|name| name.into_owned());
        let Some(domain) = domain.filter(|domain| self.importer.serves(domain)) else {
            self.leave_out(
                input,
                host.line,
                &format!("the host {name:?} is no domain of this server; its accounts are left out"),
            );
            return Ok(input.skip()?);
        };
        while let Next::Start(tag) = input.next()? {
            match () {
                () if tag.is("user", PIE) => self.user(input, &tag, &domain)?,
                () if is_include(&tag) => self.include(input, tag, |import, input, tag| match tag.is("user", PIE) {
                    true => import.user(input, &tag, &domain),
                    false => import.unknown(input, tag),
                })?,
                () => self.unknown(input, tag)?,
            }
        }
        Ok(())
    }

    /// §4.3.
    fn user(&mut self, input: &mut Input, user: &Tag, domain: &str) -> Result<(), ImportError> {
        let name = user.attr("name").unwrap_or_default();
        let jid = match Jid::new(Some(name), domain, None) {
            Ok(jid) => jid,
            Err(error) => {
                self.leave_out(input, user.line, &format!("the account {name:?}: {error}"));
                return Ok(input.skip()?);
            }
        };
        let mut account = Account::new(jid, user.attr("password").map(str::to_owned), user.line);
        if account.exists(self)? {
            self.leave_out(input, user.line, &format!("{} exists already and is left alone", account.jid));
            return Ok(input.skip()?);
        }
        while let Next::Start(tag) = input.next()? {
            match is_include(&tag) {
                true => self.include(input, tag, |import, input, tag| account.part(import, input, tag))?,
                false => account.part(self, input, tag)?,
            }
        }
        let jid = account.jid.clone();
        if account.finish(self, input)? {
            self.counts.accounts += 1;
            self.importer.imported(&jid);
        }
        Ok(())
    }

    /// Goes on with the root of a file that is included here (§5).
    fn include(
        &mut self,
        input: &mut Input,
        tag: Tag,
        then: impl FnOnce(&mut Self, &mut Input, Tag) -> Result<(), ImportError>,
    ) -> Result<(), ImportError> {
        let opened = input.included(&tag);
        input.skip()?;
        match opened {
            Ok(mut included) => {
                let root = included.root()?;
                then(self, &mut included, root)
            }
            Err(reason) => {
                self.leave_out(input, tag.line, &reason);
                Ok(())
            }
        }
    }

    /// Leaves out what nobody here knows.
    pub fn unknown(&mut self, input: &mut Input, tag: Tag) -> Result<(), ImportError> {
        self.leave_out(input, tag.line, &format!("{} is unknown here", tag.name()));
        Ok(input.skip()?)
    }
}

fn is_include(tag: &Tag) -> bool {
    tag.is("include", "http://www.w3.org/2001/XInclude")
}

/// Whether an element holds keys.
pub fn is_keys(tag: &Tag) -> bool {
    tag.is("scram-credentials", SCRAM)
}
