//! `rookery user import` of an export: walks through the file, and says with line numbers what it leaves out.

use std::collections::HashSet;
use std::path::Path;

use rookery_jid::Jid;

use super::account::Account;
use super::input::{Input, Next, Tag};
use super::{PIE, SCRAM};
use crate::config::Config;
use crate::database::Database;
use crate::failure::Failure;
use crate::user::{named, tell_rights};
use crate::welcome::say;

/// Imports a file. An account that exists is left alone.
///
/// # Errors
///
/// [`Failure::Told`] if something was left out, [`Failure::Failed`] if the file can't be read to its end or the store failed; what was imported before stays.
pub fn run(file: &Path, config: &Config, database: &Database) -> Result<(), Failure> {
    let mut input = Input::open(file).map_err(|error| Failure::file(file, &error))?;
    let mut import =
        Import { config, database, accounts: 0, left_out: 0, named: named(config, database)?, told: Vec::new() };
    let walked = import.file(&mut input);
    say(&format!("{} accounts imported, {} things left out\n", import.accounts, import.left_out));
    tell_rights(&import.told);
    walked?;
    if import.left_out > 0 { Err(Failure::Told) } else { Ok(()) }
}

/// An import on its way.
pub struct Import<'a> {
    config: &'a Config,
    pub database: &'a Database,
    accounts: u64,
    left_out: u64,
    /// Accounts that have rights by their names, and those of them that were imported.
    named: HashSet<Jid>,
    told: Vec<Jid>,
}

/// What ends an import: the file is broken, or the store fails.
#[derive(Debug)]
pub enum Broken {
    /// The file, and where.
    File(String),
    /// Something else.
    Failed(Failure),
}

impl From<String> for Broken {
    fn from(what: String) -> Self {
        Broken::File(what)
    }
}

impl From<rookery_store::StoreError> for Broken {
    fn from(error: rookery_store::StoreError) -> Self {
        Broken::Failed(error.into())
    }
}

impl From<Broken> for Failure {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::File(what) => Failure::Failed(what),
            Broken::Failed(failure) => failure,
        }
    }
}

impl Import<'_> {
    /// Iterations of PBKDF2 for passwords that are in the file.
    pub fn iterations(&self) -> u32 {
        self.config.login.scram_iterations
    }

    /// Says that something is left out.
    pub fn leave_out(&mut self, input: &Input, line: u64, what: &str) {
        self.left_out += 1;
        eprintln!("{}:{line}: {what}", input.path.display());
    }

    /// A whole file: the root element may also be a single host or user (§5).
    fn file(&mut self, input: &mut Input) -> Result<(), Broken> {
        let root = input.root()?;
        match () {
            () if root.is("server-data", PIE) => self.server(input),
            () if root.is("host", PIE) => self.host(input, &root),
            () => Err(Broken::File(format!(
                "{}:{}: this is no export of accounts (XEP-0227)",
                input.path.display(),
                root.line
            ))),
        }
    }

    /// §4.1: the hosts.
    fn server(&mut self, input: &mut Input) -> Result<(), Broken> {
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
    fn host(&mut self, input: &mut Input, host: &Tag) -> Result<(), Broken> {
        let name = host.attr("jid").unwrap_or_default();
        let domain = rookery_jid::prepare_domain(name).ok().map(|name| name.into_owned());
        let Some(domain) = domain.filter(|domain| self.config.domain(domain).is_some()) else {
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
    fn user(&mut self, input: &mut Input, user: &Tag, domain: &str) -> Result<(), Broken> {
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
            self.accounts += 1;
            self.told.extend(self.named.get(&jid).cloned());
        }
        Ok(())
    }

    /// Goes on with the root of a file that is included here (§5).
    fn include(
        &mut self,
        input: &mut Input,
        tag: Tag,
        then: impl FnOnce(&mut Self, &mut Input, Tag) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
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
    pub fn unknown(&mut self, input: &mut Input, tag: Tag) -> Result<(), Broken> {
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
