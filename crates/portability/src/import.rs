//! Reads an export: goes through the file, and reports with line numbers what it leaves out.

use std::io::Read;
use std::path::Path;
use std::process;
use std::rc::Rc;

use rookery_jid::Jid;
use rookery_store::meta::WRITTEN_BESIDE;
use rookery_store::{StoreError, Stores, wait};

use super::PIE;
use super::account::ImportedAccount;
use super::foreign::{ForeignFault, OtherDatabase};
use super::input::{Input, InputNext, InputWhose, Tag};
use super::parts::{documents, private};
use super::progress::RunningImport;
pub use super::progress::{ImportCounts, ImportError, ImportTerms, Importer};

/// Imports an open file, or a pipe. The path is its name in reports, and included files are
/// relative to it. Existing accounts aren't changed. The counts show how far the import got, even
/// if it ended early.
///
/// # Errors
///
/// The file can't be read to its end, or the store failed. Data that was imported stays.
pub fn from_reader(
    path: &Path,
    content: impl Read + 'static,
    terms: ImportTerms,
    stores: &Stores,
    importer: &mut dyn Importer,
) -> (ImportCounts, Result<(), ImportError>) {
    from_input(Ok(Input::of_opened(path, content)), terms, stores, importer)
}

/// Imports the database of another server, as [`from_reader`] imports a file.
///
/// # Errors
///
/// The database can't be read, isn't that of the named server, or the store failed. Data that was
/// imported stays.
pub fn from_database(
    database: OtherDatabase,
    terms: ImportTerms,
    stores: &Stores,
    importer: &mut dyn Importer,
) -> (ImportCounts, Result<(), ImportError>) {
    let (name, whose) = (database.name.clone(), Rc::new(InputWhose::default()));
    let pages = database.into_pages(whose.clone());
    let opened = pages.map_err(|ForeignFault(what)| ImportError::File(format!("{name}: {what}")));
    from_input(opened.map(|pages| Input::of_database(&name, pages, whose)), terms, stores, importer)
}

fn from_input(
    opened: Result<Input, ImportError>,
    terms: ImportTerms,
    stores: &Stores,
    importer: &mut dyn Importer,
) -> (ImportCounts, Result<(), ImportError>) {
    let documents = documents();
    let private = private(&documents).unwrap_or_default();
    let begun_ms = terms.unix_ms;
    let mut import = RunningImport { stores, terms, documents, private, importer, counts: ImportCounts::default() };
    let walked = opened.and_then(|mut input| {
        mark(stores, begun_ms, "begins")?;
        let walked = import.file(&mut input);
        let marked = mark(stores, begun_ms, "ends");
        walked.and(marked.map_err(ImportError::from))
    });
    (import.counts, walked)
}

/// Tells servers that are using the database that what they have read from it may be outdated.
fn mark(stores: &Stores, begun_ms: u64, moment: &str) -> Result<(), StoreError> {
    let text = format!("the import of {begun_ms} {moment}, process {}", process::id());
    wait(stores.meta.put(WRITTEN_BESIDE, text.into_bytes()))
}

impl RunningImport<'_> {
    /// Reads a whole file, whose root element may also be a single host or user (§5).
    fn file(&mut self, input: &mut Input) -> Result<(), ImportError> {
        let root = input.root()?;
        match () {
            () if root.is("server-data", PIE) => self.server(input),
            () if root.is("host", PIE) => self.host(input, &root),
            () => Err(ImportError::File(format!(
                "{}: this is not an export of accounts (XEP-0227)",
                input.place(root.line)
            ))),
        }
    }

    /// Imports the hosts of a file (§4.1).
    fn server(&mut self, input: &mut Input) -> Result<(), ImportError> {
        while let InputNext::Start(tag) = input.next()? {
            match () {
                () if tag.is("host", PIE) => self.host(input, &tag)?,
                () if is_include(&tag) => self.include(input, tag, |import, input, tag| match tag.is("host", PIE) {
                    true => import.host(input, &tag),
                    false => import.skip_unknown(input, tag),
                })?,
                () => self.skip_unknown(input, tag)?,
            }
        }
        Ok(())
    }

    /// Imports the accounts of a host (§4.2).
    fn host(&mut self, input: &mut Input, host: &Tag) -> Result<(), ImportError> {
        let name = host.attr("jid").unwrap_or_default();
        let domain = rookery_jid::prepare_domain(name).ok().map(|name| name.into_owned());
        let Some(domain) = domain.filter(|domain| self.importer.serves(domain)) else {
            self.leave_out(
                input,
                host.line,
                &format!("the host {name:?} isn't a domain of this server; its accounts are left out"),
            );
            return Ok(input.skip()?);
        };
        while let InputNext::Start(tag) = input.next()? {
            match () {
                () if tag.is("user", PIE) => self.user(input, &tag, &domain)?,
                () if is_include(&tag) => self.include(input, tag, |import, input, tag| match tag.is("user", PIE) {
                    true => import.user(input, &tag, &domain),
                    false => import.skip_unknown(input, tag),
                })?,
                () => self.skip_unknown(input, tag)?,
            }
        }
        Ok(())
    }

    /// Reads a user, and creates the account with all its parts (§4.3).
    fn user(&mut self, input: &mut Input, user: &Tag, domain: &str) -> Result<(), ImportError> {
        let name = user.attr("name").unwrap_or_default();
        let jid = match Jid::new(Some(name), domain, None) {
            Ok(jid) => jid,
            Err(error) => {
                self.leave_out(input, user.line, &format!("the account {name:?}: {error}"));
                return Ok(input.skip()?);
            }
        };
        let mut account = ImportedAccount::new(jid, user.attr("password").map(str::to_owned), user.line);
        if account.exists(self)? {
            self.leave_out(input, user.line, &format!("{} already exists and is left alone", account.jid));
            return Ok(input.skip()?);
        }
        if let Some(reason) = account.why_refused(self) {
            self.leave_out(input, user.line, &format!("{}: {reason}", account.jid));
            return Ok(input.skip()?);
        }
        while let InputNext::Start(tag) = input.next()? {
            match is_include(&tag) {
                true => self.include(input, tag, |import, input, tag| account.part(import, input, tag))?,
                false => account.part(self, input, tag)?,
            }
        }
        let jid = account.jid.clone();
        account.finish(self, input)?;
        self.counts.accounts += 1;
        self.importer.imported(&jid);
        Ok(())
    }

    /// Continues with the root of an included file (§5).
    fn include(
        &mut self,
        input: &mut Input,
        tag: Tag,
        then: impl FnOnce(&mut Self, &mut Input, Tag) -> Result<(), ImportError>,
    ) -> Result<(), ImportError> {
        let opened = input.open_included(&tag);
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
}

fn is_include(tag: &Tag) -> bool {
    tag.is("include", "http://www.w3.org/2001/XInclude")
}
