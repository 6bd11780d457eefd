//! Databases of other servers, imported once: their content is presented as a file of XEP-0227, and
//! imported like one.
//!
//! The text of that file is generated while it is read, an account or a page of an archive at a
//! time: so memory doesn't depend on the size of the database.
//!
//! # Layout
//!
//! `ejabberd` reads the tables of ejabberd and of MongooseIM, which have a common origin, `prosody`
//! those of Prosody with its `json`. `credentials` reads their forms of password keys. `accounts`
//! is what each of them provides, `elements` the conversion, and `pages` the generated file.

mod accounts;
mod credentials;
mod ejabberd;
mod elements;
mod json;
mod pages;
mod prosody;

use std::rc::Rc;

use rookery_store::sql::foreign::Foreign;

use super::input::InputWhose;
use accounts::ForeignAccounts;
pub(crate) use accounts::ForeignFault;
use pages::Pages;

/// The schemas of other servers' databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schema {
    /// ejabberd's: the older one, and the one with `server_host`.
    Ejabberd,
    /// MongooseIM's.
    MongooseIm,
    /// That of Prosody's `mod_storage_sql`.
    Prosody,
}

/// A database of another server.
#[derive(Debug)]
pub struct OtherDatabase {
    /// The name that reports use for it.
    pub name: String,
    /// The open connection to the database, which is only read.
    pub foreign: Foreign,
    /// The server software, which decides the names and the meaning of tables.
    pub schema: Schema,
    /// The domain to import; all of them if it is `None`. If the database has no domains, its
    /// accounts are imported into this one.
    pub domain: Option<String>,
}

impl OtherDatabase {
    /// Returns the database as the text of a file; `whose` is set to the current account.
    pub(crate) fn into_pages(self, whose: Rc<InputWhose>) -> Result<Pages, ForeignFault> {
        let mut foreign = self.foreign;
        let mut accounts: Box<dyn ForeignAccounts> = match self.schema {
            Schema::Ejabberd => Box::new(ejabberd::Tables::of(foreign, false)?),
            Schema::MongooseIm => Box::new(ejabberd::Tables::of(foreign, true)?),
            Schema::Prosody => {
                accounts::has_table(&mut foreign, "prosody", "Prosody")?;
                Box::new(prosody::ProsodyTables::new(foreign))
            }
        };
        let domains = match (accounts.domains()?, self.domain) {
            (Some(_) | None, Some(domain)) => vec![domain],
            (Some(domains), None) => domains,
            (None, None) => {
                let what = "this database has only one domain and doesn't say which: name it with --domain";
                return Err(ForeignFault(what.to_owned()));
            }
        };
        Ok(Pages::new(accounts, domains, whose))
    }
}
